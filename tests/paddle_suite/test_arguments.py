"""What functions of tensors refuse, with the exception that Paddle documents; and arguments that are given as tensors."""

from operator import attrgetter

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import nn, static
from onnxgrad.errors import ArgumentError
from onnxgrad.nn import functional as F
from onnxgrad.tensor import accepted

RNG = np.random.default_rng(3)
X = RNG.normal(size=(3, 4)).astype(np.float32)


def of(dtype, *shape):
    return paddle.ones(shape, "float32").astype(dtype)


ELEMENT_TYPES = {
    "sizes of fold": lambda: F.fold(of("float32", 2, 6, 6), [0.1, 0.2], [2, 2]),
    "labels of auc": lambda: static.auc(of("float32", 3, 2), of("float32", 3, 1)),
    "scores of auc": lambda: static.auc(of("int64", 3, 2), of("int64", 3, 1)),
    "trunc": lambda: paddle.trunc(of("bool", 3)),
    "frac": lambda: paddle.frac(of("int16", 3)),
    "clip": lambda: paddle.clip(of("int8", 3), 0, 1),
    "dot": lambda: paddle.dot(of("uint8", 3), of("uint8", 3)),
    "inner": lambda: paddle.inner(of("int8", 3), of("int8", 3)),
    "logsumexp": lambda: paddle.logsumexp(of("int32", 3)),
    "nanmean": lambda: paddle.nanmean(of("int32", 3)),
    "isclose": lambda: paddle.isclose(of("int32", 3), of("float64", 3)),
    "inverse": lambda: paddle.inverse(of("int32", 2, 2)),
    "matrix_power": lambda: paddle.linalg.matrix_power(of("float16", 2, 2), 2),
    "triangular_solve": lambda: paddle.linalg.triangular_solve(of("bool", 2, 2), of("bool", 2, 2)),
    "expand_as": lambda: paddle.expand_as(of("uint8", 3), of("int32", 3)),
    "norm": lambda: paddle.norm(of("int64", 3), p="fro"),
    "take": lambda: paddle.take(of("float64", 3), of("float32", 1)),
    "gather_nd": lambda: paddle.gather_nd(of("float32", 3), of("float32", 1)),
    "masked_select": lambda: paddle.masked_select(of("float32", 3), of("int32", 3)),
    "operators too": lambda: of("bool", 3) + of("bool", 3),
    "argmax": lambda: paddle.argmax(of("float32", 3), dtype="float32"),
    "cummax": lambda: paddle.cummax(of("float32", 3), dtype="float32"),
    "randint": lambda: paddle.randint(5, dtype="float32"),
    "unique": lambda: paddle.unique(of("float32", 3), dtype="int16"),
    "no flag": lambda: paddle.unique(of("float32", 3), return_index=0),
    "no element type": lambda: paddle.full([1], 5, "uint4"),
    "no tensor of diag": lambda: paddle.diag([1.0, 2.0]),
    "no tensor": lambda: paddle.is_integer(np.ones(3)),
    "two tensors": lambda: paddle.hypot(of("float32", 3), 3.8),
    "two tensors of ldexp": lambda: paddle.ldexp(np.ones(3), of("int32", 3)),
    "list in place": lambda: of("float32", 3).fill_([1]),
    "rows": lambda: paddle.tril_indices(1.0, 1, 2),
    "tolerance": lambda: paddle.isclose(of("float32", 3), of("float32", 3), rtol=True),
    "no name": lambda: paddle.inverse(of("float32", 2, 2), of("float32", 2, 2)),
    "type of randperm": lambda: paddle.randperm(10, "int8"),
    "columns": lambda: paddle.tril_indices(4, -1),
    "sections": lambda: paddle.split(of("float32", 4), 2.1, 3),
    "sgn": lambda: paddle.sgn(of("int32", 3)),
    "digamma": lambda: paddle.digamma(of("int32", 3)),
    "logit": lambda: paddle.logit(of("int32", 3)),
    "selu": lambda: F.selu(of("int32", 3)),
    "rrelu": lambda: F.rrelu(of("int32", 3)),
    "bincount": lambda: paddle.bincount(of("float32", 3)),
    "histogram": lambda: paddle.histogram(of("bool", 3), 4),
    "range of histogram": lambda: paddle.histogram(of("float32", 3), 4, min=-np.inf, max=3),
    "is_empty": lambda: paddle.is_empty(of("bool", 3)),
    "searchsorted": lambda: paddle.searchsorted(of("int16", 3), of("int16", 3)),
    "nanmedian": lambda: paddle.nanmedian(of("bool", 3)),
    "zeropad2d": lambda: F.zeropad2d(of("int8", 1, 1, 2, 2), 1),
    "npair_loss": lambda: F.npair_loss(of("float32", 2, 3), of("float32", 2, 3), of("int32", 2)),
    "identity_loss": lambda: paddle.incubate.identity_loss(of("int32", 3)),
    "linspace": lambda: paddle.linspace(0, 10, 2, "int8"),
    "logspace": lambda: paddle.logspace(0, 10, 2, dtype="int8"),
    "shape of zeros": lambda: paddle.zeros(10),
    "shape of full": lambda: paddle.full(1, 2.0),
    "diagonal of tril": lambda: paddle.tril(of("float32", 3, 3), 1.5),
    "diagonal of triu": lambda: paddle.triu(of("float32", 3, 3), [1]),
    "offset of diag": lambda: paddle.diag(of("float32", 3), offset=2.5),
    "padding of diag": lambda: paddle.diag(of("float32", 3), padding_value=[9]),
    "no list of stack": lambda: paddle.stack(of("float32", 3)),
    "shape of crop": lambda: paddle.crop(of("float32", 3), 3),
    "sizes of crop": lambda: paddle.crop(of("float32", 3), [2.0]),
    "axis of unsqueeze": lambda: paddle.unsqueeze(of("float32", 3), 2.1),
    "no tensor of is_complex": lambda: paddle.is_complex(np.ones(2)),
    "out of logical_and": lambda: paddle.logical_and(of("bool", 3), of("bool", 3), out=1),
    "types of multiplex": lambda: paddle.multiplex([of("int16", 2, 2)] * 2, of("int32", 2, 1)),
    "nested axes of tensordot": lambda: paddle.tensordot(of("float32", 2, 2), of("float32", 2, 2), [[[0], [1]]]),
    "slope of rrelu": lambda: F.rrelu(of("float32", 3), 0, 0.5),
    "start of linspace": lambda: paddle.linspace([0], 10, 2),
    "number of linspace": lambda: paddle.linspace(0, 10, 1.33),
    "shape of randn": lambda: paddle.randn(1),
    "type of randn": lambda: paddle.randn([1, 2], "int32"),
    "array as shape": lambda: paddle.randint(5, shape=np.array([2])),
    "text as shape": lambda: paddle.randint(5, shape=["2"]),
    "floats as shape": lambda: paddle.randint(5, shape=[of("float32", 1)]),
    "types to broadcast": lambda: paddle.broadcast_tensors([of("float32", 3), of("float64", 3)]),
}
VALUES = {
    "axis is no int": lambda: paddle.median(of("float32", 3, 4), 1.0),
    "axis is no int of flatten": lambda: paddle.flatten(of("float32", 3, 4), 1.0),
    "no array": lambda: paddle.flatten(X),
    "type of indices": lambda: paddle.cummin(of("float32", 3), dtype="float32"),
    "sizes of inner": lambda: paddle.inner(of("float32", 2, 5), of("float32", 1, 2)),
    "axes of dot": lambda: paddle.dot(of("float32", 2, 2, 2), of("float32", 2, 2, 2)),
    "input of addmm": lambda: paddle.addmm(of("float32", 2, 2, 2), of("float32", 2, 2), of("float32", 2, 2)),
    "offset of crop": lambda: paddle.crop(of("float32", 3), [1], [-1]),
    "negative number": lambda: paddle.randperm(-3),
    "axis of hsplit": lambda: paddle.hsplit(of("float32"), 1),
    "axis of dsplit": lambda: paddle.dsplit(of("float32", 2, 2), 2),
    "index of index_select": lambda: paddle.index_select(of("float32", 3), of("int64", 1, 1)),
    "ranks of take_along_axis": lambda: paddle.take_along_axis(of("float32", 2, 3), of("int32", 1), 0, False),
    "weights of cov": lambda: paddle.linalg.cov(of("float32", 2, 3), aweights=of("float32", 2)),
    "negative weights of cov": lambda: paddle.linalg.cov(of("float32", 2, 3), fweights=paddle.to_tensor([1, -1, 1])),
    "axes of cov": lambda: paddle.linalg.cov(of("float32", 2, 3, 4)),
    "shape of equal": lambda: paddle.atan2(of("float32", 3), of("float32", 4)),
    "length of addmm": lambda: paddle.addmm(of("float32", 5), of("float32", 2, 2), of("float32", 2, 2)),
    "power of a vector": lambda: paddle.linalg.matrix_power(of("float32", 4), 2),
    "power of a rectangle": lambda: paddle.linalg.matrix_power(of("float32", 4, 5), 2),
    "median of nothing": lambda: paddle.median(of("float32", 0)),
    "vsplit of a vector": lambda: paddle.vsplit(of("float32", 4), 2),
    "columns of triangular_solve": lambda: paddle.linalg.triangular_solve(of("float32", 2, 2), of("float32", 2)),
    "weights of 0": lambda: paddle.linalg.cov(of("float32", 2, 3), fweights=paddle.to_tensor([0, 0, 0])),
    "order of norm": lambda: paddle.norm(of("float32", 2), [2]),
    "row of scatter": lambda: paddle.scatter(of("float32", 3), paddle.to_tensor(1), of("float32", 1)),
    "logsumexp of nothing": lambda: paddle.logsumexp(of("float32", 0, 0), 1),
    "norm of nothing": lambda: paddle.linalg.norm(of("float32", 0, 2), axis=0),
    "mode of nothing": lambda: paddle.mode(of("float32", 0, 2), 0),
    "normalize nothing": lambda: F.normalize(of("float32", 1, 1, 0)),
    "axes of fold": lambda: F.fold(of("float32", 2, 3, 6, 7), [2, 3], [2, 2]),
    "windows of fold": lambda: F.fold(of("float32", 2, 6, 6), [6, 6], [2, 2]),
    "no window of fold": lambda: F.fold(of("float32", 2, 1, 1), [1, 1], [2, 2]),
    "strides of fold": lambda: F.fold(of("float32", 2, 1, 1), [1, 1], [1, 1], 0),
    "axes of mv": lambda: paddle.mv(of("float32", 5, 10), of("float32", 10, 2)),
    "axes of accuracy": lambda: paddle.metric.accuracy(of("float32", 1), of("int32", 1, 1)),
    "negative bincount": lambda: paddle.bincount(paddle.to_tensor([1, -5])),
    "negative minlength": lambda: paddle.bincount(of("int32", 3), minlength=-1),
    "weights of bincount": lambda: paddle.bincount(of("int32", 3), weights=of("int32", 4)),
    "bins": lambda: paddle.histogram(of("float32", 3), bins=-1, min=1, max=5),
    "bounds": lambda: paddle.histogram(of("float32", 3), bins=1, min=5, max=1),
    "one input of multiplex": lambda: paddle.multiplex([of("float32", 2, 2)], of("int32", 2, 1)),
    "plane of rot90": lambda: paddle.rot90(of("float32", 2, 3), 1, [0, 0]),
    "numbers of heaviside": lambda: paddle.heaviside(1, of("float32", 3)),
    "index of index_fill": lambda: paddle.index_fill(of("float32", 3, 3), [0, 2], 0, -1),
    "negative variance": lambda: F.gaussian_nll_loss(of("float32", 3), of("float32", 3), -of("float32", 3)),
    "type of labels": lambda: F.cosine_embedding_loss(of("float32", 2, 3), of("float32", 2, 3), of("int16", 2)),
    "wide reflection": lambda: F.pad(of("float32", 1, 2, 3, 4, 5), [1, 1, 1, 1, 2, 3], "reflect", data_format="NCDHW"),
    "circle of nothing": lambda: F.pad(of("float32", 1, 2, 0), [1, 0], "circular", data_format="NCL"),
    "replicas of nothing": lambda: F.pad(of("float32", 1, 2, 0), [1, 1], "replicate", data_format="NCL"),
    "layout of interpolate": lambda: F.interpolate(of("float32", 1, 3, 8), [16], mode="linear", data_format="NHWCD"),
    "indices of max_unpool3d": lambda: F.max_unpool3d(of("float32", 1, 1, 3, 3, 3), of("int32", 1, 1, 3, 3, 4), 2, 2),
    "reduction of identity_loss": lambda: paddle.incubate.identity_loss(of("float32", 3), 3),
    "numbers of where_": lambda: paddle.where_(of("bool", 2), 1, 2),
    "elements of nothing": lambda: paddle.reshape(of("float32", 0, 2, 3), [2, 3]),
    "no axis of nanmedian": lambda: paddle.nanmedian(of("float32", 3), axis=[]),
    "offset of crop beside a tensor": lambda: paddle.crop(of("float32", 3, 3), [1, 1], [-1, paddle.to_tensor(1)]),
    "array of offsets of crop": lambda: paddle.crop(of("float32", 3), [1], np.array([-1])),
    "size of crop": lambda: paddle.crop(of("float32", 3), [-2]),
    "types of heaviside": lambda: paddle.heaviside(of("float32", 3), of("float64", 3)),
    "width of trapezoid": lambda: paddle.trapezoid(of("float32", 3, 3), dx=of("float32", 3, 3)),
    "slopes of rrelu": lambda: F.rrelu(of("float32", 3), 0.5, 0.2),
    "wide slopes of rrelu": lambda: F.rrelu(of("float32", 3), 0.5, 2.0),
    "axes of tril": lambda: paddle.tril(of("float32", 3), None),
    "r of combinations": lambda: paddle.combinations(of("float32", 3), -1),
}
ASSERTED = {
    "mask": lambda: paddle.masked_scatter(of("float32", 3), of("int32", 3), of("float32", 3)),
    "type of values": lambda: paddle.masked_scatter(of("float32", 3), of("bool", 3), of("float64", 3)),
    "number of values": lambda: paddle.masked_scatter(of("float32", 3), of("bool", 3), of("float32", 2)),
    "type of indices": lambda: paddle.take_along_axis(of("float32", 2, 3), of("float32", 2, 3), 0),
    "pdist": lambda: paddle.pdist(of("float32", 2, 2, 2)),
    "moveaxis": lambda: paddle.moveaxis(of("float32"), [0], [1]),
    "einsum": lambda: paddle.einsum("ijk"),
    "wide matrix": lambda: paddle.linalg.householder_product(of("float32", 3, 6), of("float32", 6)),
    "too many factors": lambda: paddle.linalg.householder_product(of("float32", 6, 3), of("float32", 4)),
    "batches": lambda: paddle.linalg.householder_product(of("float32", 2, 2, 5, 4), of("float32", 2, 3, 4)),
    "axes of diagonal_scatter": lambda: paddle.diagonal_scatter(of("float32", 3, 3), of("float32", 3), 0, 0, 0),
    "far axis of diagonal_scatter": lambda: paddle.diagonal_scatter(of("float32", 3, 3), of("float32", 3), 0, 1000, 0),
    "length of diagonal_scatter": lambda: paddle.diagonal_scatter(of("float32", 3, 3), of("float32", 1)),
    "number of values for a mask to repeat": lambda: paddle.masked_scatter(of("float32", 6, 3), of("bool", 3), of("float32", 5)),
    "negative axes of tensordot": lambda: paddle.tensordot(of("float32", 2, 2), of("float32", 2, 2), -1),
    "more axes than there are": lambda: paddle.tensordot(of("float32", 2, 2, 2), of("float32", 2, 2, 2), [0, 1, 2, 3]),
    "sizes of tensordot": lambda: paddle.tensordot(of("float32", 2, 3), of("float32", 4, 5), [[1], [0]]),
    "kernel of fold": lambda: F.fold(of("float32", 2, 6, 6), [2, 3], [2, 2, 3]),
    "axes of fold": lambda: F.fold(of("float32", 2, 3, 6, 7), [2, 3], [2, 2]),
    "vector": lambda: paddle.linalg.householder_product(of("float32", 1), of("float32", 0)),
}


@pytest.mark.parametrize("call", ELEMENT_TYPES.values(), ids=ELEMENT_TYPES)
def test_types_are_refused_as_type_errors(call):
    with pytest.raises(TypeError):
        call()


@pytest.mark.parametrize("call", VALUES.values(), ids=VALUES)
def test_values_are_refused_as_value_errors(call):
    with pytest.raises(ValueError):
        call()


@pytest.mark.parametrize("call", ASSERTED.values(), ids=ASSERTED)
def test_what_paddle_asserts_is_an_assertion_error(call):
    with pytest.raises(AssertionError):
        call()


def test_the_table_of_element_types_names_layers_that_there_are():
    import pathlib

    root = pathlib.Path(accepted.__file__).parents[1]
    folders = ["tensor", "nn/functional", "static", "incubate"]
    paths = [path for folder in folders for path in (root / folder).glob("*.py") if path.name != "accepted.py"]
    sources = "".join(path.read_text() for path in paths)
    for kind in (*accepted._TAKEN, *accepted._AXES, *accepted._FILLED):
        assert f'"{kind}"' in sources, kind


def test_a_refused_operand_is_named_and_appends_nothing():
    with static.program_guard(program := static.Program()):
        x = static.data("x", [3], "int16")
        with pytest.raises(TypeError, match=r"frac takes a floating-point type, int32 or int64, but operand 1 is int16\. Cast it"):
            paddle.frac(x)
    assert not program.global_block().ops


# Arguments as tensors ------------------------------------------------------------------------------------------------


def run(build, **feeds):
    with static.program_guard(static.Program()):
        variables = [static.data(name, array.shape, str(array.dtype)) for name, array in feeds.items()]
        found = build(*variables)
        return static.Executor().run(feed=feeds, fetch_list=list(found) if isinstance(found, (list, tuple)) else [found])


def test_shifts_that_are_known_when_the_program_runs():
    shifts = np.array([1, -2])
    (found,) = run(lambda x, s: paddle.roll(x, s, [0, 1]), x=X, s=shifts)
    np.testing.assert_array_equal(found, np.roll(X, shifts, (0, 1)))
    (found,) = run(lambda x, s: paddle.roll(x, s), x=X, s=shifts[:1])
    np.testing.assert_array_equal(found, np.roll(X, 1))


def test_sizes_of_parts_that_are_known_when_the_program_runs():
    first, second = run(lambda x, n: paddle.split(x, [1, n], axis=1), x=X, n=np.array([3]))
    np.testing.assert_array_equal(first, X[:, :1])
    np.testing.assert_array_equal(second, X[:, 1:])


def test_an_axis_that_the_program_computes_from_constants():
    def build(x):
        return paddle.squeeze(paddle.unsqueeze(x, 0), axis=paddle.full([], 0, "int32"))

    np.testing.assert_array_equal(run(build, x=X)[0], X)


def test_one_count_for_all_elements():
    x = paddle.to_tensor(X)
    np.testing.assert_array_equal(paddle.repeat_interleave(x, paddle.to_tensor(2)).numpy(), np.repeat(X, 2))
    np.testing.assert_array_equal(run(lambda x, n: paddle.repeat_interleave(x, n, 1), x=X, n=np.array([2]))[0], np.repeat(X, 2, 1))
    assert paddle.repeat_interleave(paddle.to_tensor(1.5), paddle.to_tensor(2)).tolist() == [1.5, 1.5]


# Values --------------------------------------------------------------------------------------------------------------


def test_the_vector_product_takes_the_first_axis_that_turns_out_to_have_size_3():
    x, y = RNG.normal(size=(2, 3, 3)).astype(np.float32)
    for rows in (3, 2, 1):
        a, b = x[:rows], y[:rows]
        with static.program_guard(static.Program()):
            first, second = static.data("a", [None, 3]), static.data("b", [None, 3])
            (found,) = static.Executor().run(feed={"a": a, "b": b}, fetch_list=[paddle.cross(first, second)])
        np.testing.assert_allclose(found, np.cross(a, b, axis=0 if rows == 3 else 1), rtol=1e-5)


@pytest.mark.parametrize("equation", ["i->ii", "i,j->ii", "ij->iji", "...i->...ii"])
def test_letters_that_stand_twice_in_the_result(equation):
    arrays = (
        [RNG.normal(size=3), RNG.normal(size=4)]
        if "," in equation
        else [X.astype(float) if equation != "i->ii" else X[0].astype(float)]
    )
    terms, wanted = equation.split("->")
    once = "".join(dict.fromkeys(wanted.replace("...", "")))
    values = np.einsum(f"{terms}->{'...' * ('...' in wanted)}{once}", *arrays)
    inner = wanted.replace("...", "")
    expected = np.zeros([dict(zip(once[::-1], values.shape[::-1]))[c] for c in inner])
    if "..." in wanted:
        expected = np.stack([np.diag(row) for row in values])
    else:
        for index in np.ndindex(*values.shape):
            expected[tuple(index[once.index(c)] for c in inner)] = values[index]
    given = [paddle.to_tensor(array, stop_gradient=False) for array in arrays]
    found = paddle.einsum(equation, *given)
    np.testing.assert_allclose(found.numpy(), expected)
    found.sum().backward()
    np.testing.assert_allclose(given[0].grad.sum().numpy(), given[0].size * (arrays[1].sum() if len(arrays) > 1 else 1.0))


def test_a_vector_has_nothing_to_transpose():
    v = paddle.to_tensor(X[0])
    np.testing.assert_allclose(float(paddle.matmul(v, v, True, True)), X[0] @ X[0], rtol=1e-6)


def test_zeros_in_the_shape_of_an_empty_tensor_are_sizes():
    assert paddle.reshape(paddle.zeros([0, 2]), [2, 3, 0]).shape == [2, 3, 0]
    assert paddle.reshape(paddle.zeros([0, 2]), [2, -1]).shape == [2, 0]


def test_values_go_where_the_mask_is_true_also_if_it_is_larger():
    mask, values = np.array([[True, False, True], [False, True, True]]), np.arange(4, dtype=np.float32) + 5
    found = paddle.masked_scatter(paddle.zeros([3]), paddle.to_tensor(mask), paddle.to_tensor(values))
    expected = np.zeros((2, 3), np.float32)
    expected[mask] = values
    np.testing.assert_array_equal(found.numpy(), expected)


def test_sums_of_integers_and_of_booleans():
    a = paddle.to_tensor(np.array([1, 2], np.int32))
    assert paddle.add_n([a, a, a]).tolist() == [3, 6]
    x, index = paddle.to_tensor([False, True, False]), paddle.to_tensor([0, 0])
    assert paddle.index_put(x, (index,), paddle.to_tensor([True, True]), accumulate=True).tolist() == [True, True, False]


@pytest.mark.parametrize("function", [paddle.cumsum, paddle.logcumsumexp, lambda x, **axis: paddle.cummax(x, **axis)[0]])
def test_the_flattened_tensor_is_a_vector(function):
    x = paddle.to_tensor(1.5)
    assert (function(x).shape, function(x, axis=0).shape) == ([1], [])


def test_diagonals_are_filled_with_a_tensor():
    x = paddle.zeros([4, 3], "float32")
    v = paddle.to_tensor([1.0, 2.0])
    expected = np.zeros((4, 3), np.float32)
    expected[[0, 1], [1, 2]] = [1, 2]
    np.testing.assert_array_equal(x.fill_diagonal_tensor(v, offset=1).numpy(), expected)
    assert not x.numpy().any()
    x.fill_diagonal_tensor_(v, offset=1)
    np.testing.assert_array_equal(x.numpy(), expected)


def test_a_range_of_floats_has_its_own_length():
    for size in (8, 7, 3):
        assert paddle.arange(size, dtype="float32").shape == [size]
        with static.program_guard(static.Program()):
            assert paddle.arange(0.0, size / 2, 0.5).shape == (size,)


def test_one_element_has_no_spread():
    assert [float(function(paddle.to_tensor(1.5))) for function in (paddle.var, paddle.std)] == [0.0, 0.0]
    (found,) = run(lambda x: paddle.var(x, 1), x=X[:, :1])
    assert not found.any()


@pytest.mark.parametrize(
    ("name", "args", "quartiles"),
    [
        ("uniform_", (2.0, 6.0), (3.0, 4.0, 5.0)),
        ("normal_", (1.0, 2.0), (-0.349, 1.0, 2.349)),
        ("log_normal_", (0.0, 1.0), (0.5094, 1.0, 1.9630)),
        ("exponential_", (2.0,), (0.1438, 0.3466, 0.6931)),
        ("cauchy_", (1.0, 2.0), (-1.0, 1.0, 3.0)),
        ("geometric_", (0.1,), (3.0, 7.0, 14.0)),
    ],
)
def test_samples_in_place(name, args, quartiles):
    paddle.seed(1)
    x = paddle.zeros([100, 200], "float64")
    assert getattr(x, name)(*args) is x and x.dtype == paddle.float64
    np.testing.assert_allclose(np.quantile(x.numpy(), (0.25, 0.5, 0.75)), quartiles, atol=0.06)
    before = x.numpy()
    getattr(x, name)(*args)
    assert not np.array_equal(x.numpy(), before)
    leaf = paddle.ones([3], "float32")
    leaf.stop_gradient = False
    y = leaf * 2
    getattr(y, name)(*args)
    y.sum().backward()
    assert leaf.grad.tolist() == [0.0, 0.0, 0.0]


def test_diagonals_are_filled_with_a_number():
    for shape, wrap, offset in [
        ((3, 4), False, 0),
        ((7, 3), True, 0),
        ((7, 3), False, 0),
        ((3, 3, 3), False, 0),
        ((3, 4), False, 1),
    ]:
        x, expected = paddle.zeros(shape), np.zeros(shape, np.float32)
        x.fill_diagonal_(5.0, offset, wrap)
        if offset:
            expected[range(3), range(1, 4)] = 5.0
        else:
            np.fill_diagonal(expected, 5.0, wrap)
        np.testing.assert_array_equal(x.numpy(), expected)


def test_sequences_with_defaults():
    np.testing.assert_array_equal(paddle.tril_indices(4, None, 1).numpy(), np.tril_indices(4, 1))
    assert paddle.combinations(paddle.ones([3]), 0).shape == [0]
    assert paddle.logspace(0, 2, 3, paddle.to_tensor(2)).tolist() == [1.0, 2.0, 4.0]
    assert paddle.randint_like(paddle.ones([3], "float64"), 5).dtype == paddle.float64


def test_an_attribute_that_is_refused_says_why():
    with pytest.raises(AttributeError, match="memory of a tensor"):
        paddle.ones([2]).pin_memory  # noqa: B018


def test_a_retained_gradient_is_that_of_the_value_before_it_was_changed_in_place():
    x = paddle.ones([3])
    x.stop_gradient = False
    for change, expected in ((lambda y: y.fill_(3.0), 0.0), (lambda y: y.scale_(5.0), 100.0), (lambda y: y.add_(x), 6.0)):
        y = x * 2
        name = y.name
        y.retain_grads()
        change(y)
        (y * y).sum().backward()
        assert y.grad.tolist() == [expected] * 3 and y.name == name
        y.clear_gradient()
        assert y.grad.tolist() == [0.0] * 3


LAYERS_REFUSE = {
    "softmax of integers": (TypeError, lambda: F.softmax(paddle.to_tensor([1, 2]))),
    "log_softmax in integers": (TypeError, lambda: F.log_softmax(paddle.ones([3]), dtype="int32")),
    "an axis of normalize": (ValueError, lambda: F.normalize(paddle.ones([3]))),
    "lengths of ctc_loss": (ValueError, lambda: F.ctc_loss(paddle.ones([2, 1, 3]), paddle.ones([1, 1], "int64"), None, None)),
    "shapes of cosine_embedding_loss": (
        ValueError,
        lambda: F.cosine_embedding_loss(paddle.ones([3]), paddle.ones([2, 3]), paddle.ones([1])),
    ),
    "axes of Softmax2D": (AssertionError, lambda: paddle.nn.Softmax2D()(paddle.ones([2, 3]))),
    "members of a LayerDict": (AssertionError, lambda: paddle.nn.LayerDict().update(1)),
    "layout of prelu": (ValueError, lambda: static.nn.prelu(static.data("x", [2, 3, 4, 5]), "channel", data_format="N")),
    "dim of spectral_norm": (ValueError, lambda: static.nn.spectral_norm(static.data("w", [2, 4]), dim=5)),
}


@pytest.mark.parametrize(("expected", "call"), LAYERS_REFUSE.values(), ids=LAYERS_REFUSE)
def test_what_layers_refuse(expected, call):
    before = len(static.default_main_program().global_block().ops)
    with pytest.raises(expected):
        call()
    assert len(static.default_main_program().global_block().ops) == before


def test_softmax_of_integers_in_a_type():
    np.testing.assert_allclose(F.softmax(paddle.to_tensor([1, 1]), dtype="float32").numpy(), [0.5, 0.5])


def test_what_is_no_bool_size_or_weight_is_refused_as_paddle_does():
    linear = paddle.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="trainable is True or False"):
        linear.weight.trainable = "1"
    assert linear.weight.trainable
    with pytest.raises(TypeError, match="weight_decay is a float"):
        paddle.optimizer.AdamW(0.1, parameters=linear.parameters(), weight_decay=1)
    with pytest.raises(TypeError, match="shape is a list of ints"):
        paddle.create_parameter([1.0, 2.0], "float32")
    with pytest.raises(ValueError, match="use_cudnn is True or False"):
        paddle.static.nn.conv2d(paddle.static.data("x", [2, 5, 5, 5]), 3, 3, use_cudnn=[0])


@pytest.mark.parametrize(("weights", "replacement"), [([0.0, 0.0], True), ([0.0, 1.0], False), ([-1.0, 2.0], True)])
def test_weights_that_cannot_be_drawn_by_are_refused_when_drawn(weights, replacement):
    sampler = paddle.io.WeightedRandomSampler(weights, 2, replacement)
    with pytest.raises(AssertionError, match="WeightedRandomSampler"):
        iter(sampler)


def test_an_inference_model_is_fed_what_it_reads(tmp_path):
    x, y = paddle.static.data("x", [2, 3]), paddle.static.data("y", [2, 3])
    z = paddle.static.nn.fc(x, 4)
    executor = paddle.static.Executor()
    executor.run(paddle.static.default_startup_program())
    with pytest.raises(ValueError, match="'y' is not involved in the target_vars calculation"):
        paddle.static.save_inference_model(str(tmp_path / "m"), [x, y], [z], executor)
    assert not list(tmp_path.iterdir())


def test_a_prelu_says_what_it_was_made_of():
    layer = paddle.nn.PReLU(1, 0.25, name="PReLU")
    assert str(layer) == "PReLU(num_parameters=1, data_format=NCHW, init=0.25, dtype=float32, name=PReLU)"


def test_initial_values_and_parameters_of_another_kind():
    initial = nn.initializer
    with pytest.raises(TypeError, match="default_initializer is an Initializer"):
        paddle.create_parameter([2], "float32", default_initializer=np.ones(2))
    with pytest.raises(AssertionError, match="Orthogonal needs at least 2 axes"):
        nn.Linear(3, 3, bias_attr=paddle.ParamAttr(initializer=initial.Orthogonal()))
    with pytest.raises(AssertionError, match="Dirac needs 3 to 5 axes"):
        nn.Linear(3, 3, weight_attr=paddle.ParamAttr(initializer=initial.Dirac()))
    with pytest.raises(TypeError, match="Give groups as a list of dicts"):
        paddle.optimizer.AdamW(0.1, parameters={"params": nn.Linear(2, 2).parameters()})


def test_a_weight_that_no_operator_has_read_can_be_fetched():
    paddle.enable_static()
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        layer, executor = nn.Linear(3, 2), static.Executor()
        before = executor.run(startup, fetch_list=[layer.weight])[0]
        y = layer(static.data("x", [2, 3]))
    executor.run(startup)
    result, after = executor.run(main, {"x": np.ones((2, 3), np.float32)}, [y, layer.weight])
    np.testing.assert_array_equal(after, before)
    np.testing.assert_allclose(result, np.ones((2, 3)) @ before, rtol=1e-6)


ONE = [
    "unbind", "unstack", "vander", "fft.fftshift", "linalg.qr", "nn.functional.label_smooth", "nn.functional.instance_norm",
]  # fmt: skip
TWO = [
    "split", "chunk", "fill_diagonal_", "nn.functional.unfold", "nn.functional.channel_shuffle", "nn.functional.pixel_unshuffle",
    "nn.functional.group_norm", "nn.functional.temporal_shift", "nn.functional.adaptive_max_pool1d",
    "nn.functional.adaptive_max_pool2d", "nn.functional.adaptive_max_pool3d",
]  # fmt: skip
PAIRS = [
    *(f"nn.functional.conv{n}d{kind}" for n in (1, 2, 3) for kind in ("", "_transpose")),
    "nn.functional.cross_entropy", "nn.functional.dice_loss", "nn.functional.multi_margin_loss",
]  # fmt: skip


@pytest.mark.parametrize("static_mode", [False, True])
@pytest.mark.parametrize("name", [*ONE, *TWO, *PAIRS])
def test_what_works_along_an_axis_refuses_a_single_number(name, static_mode):
    """The index that a list of sizes does not have said nothing"""
    x = static.data("x", []) if static_mode else paddle.to_tensor(1.5)
    operands = [x] if name in ONE else [x, 1] if name in TWO else [x, x]
    with pytest.raises(ArgumentError, match=r"axes|matrix"):
        attrgetter(name)(paddle)(*operands)
