"""Tensors without axes, tensors as arguments, arrays as operands, shifts, in-place functions that reshape."""

import operator as op

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static

X = np.arange(8, dtype=np.float32).reshape(2, 4)


def scalar(value=2.0):
    return paddle.to_tensor(np.float32(value))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: paddle.cumprod(x, 0),
        lambda x: paddle.cumsum(x, 0),
        lambda x: paddle.logcumsumexp(x, 0),
        lambda x: paddle.cummax(x, 0)[0],
        lambda x: paddle.cummin(x, -1)[0],
        lambda x: paddle.topk(x, 1)[0],
        lambda x: paddle.kthvalue(x, 1)[0],
        lambda x: paddle.mode(x)[0],
    ],
)
def test_a_tensor_without_axes_is_its_own_prefix(function):
    x = scalar()
    x.stop_gradient = False
    y = function(x)
    y.backward()
    assert (y.shape, float(y), float(x.grad)) == ([], 2.0, 1.0)


def test_rows_by_an_index_without_axes():
    x = paddle.zeros([3])
    assert paddle.scatter(x, paddle.to_tensor(1), scalar(5)).tolist() == [0.0, 5.0, 0.0]
    assert paddle.masked_select(scalar(), paddle.to_tensor(True)).tolist() == [2.0]


def test_tensors_as_arguments():
    x, one = paddle.to_tensor(X), paddle.to_tensor(1)
    np.testing.assert_array_equal(paddle.concat([x, x], axis=one).numpy(), np.concatenate([X, X], 1))
    assert [part.shape for part in paddle.split(x, paddle.to_tensor(2), axis=one)] == [[2, 2], [2, 2]]
    np.testing.assert_array_equal(paddle.roll(x, one, axis=one).numpy(), np.roll(X, 1, 1))
    np.testing.assert_array_equal(paddle.cumsum(x, one).numpy(), np.cumsum(X, 1))
    np.testing.assert_array_equal(paddle.gather(x, paddle.to_tensor([2]), axis=one).numpy(), X[:, 2:3])
    assert paddle.reshape(x, [paddle.to_tensor(4), 2]).shape == [4, 2]
    assert x[paddle.to_tensor(0) : one].shape == [1, 4]


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "@", ">", "=="])
def test_arrays_on_either_side(symbol):
    a, b = X @ X.T + 1, np.ones((2, 2), np.float32)
    apply = {"+": op.add, "-": op.sub, "*": op.mul, "/": op.truediv, "@": op.matmul, ">": op.gt, "==": op.eq}[symbol]
    for left, right in ((paddle.to_tensor(a), b), (a, paddle.to_tensor(b))):
        found = apply(left, right)
        assert isinstance(found, paddle.Tensor)
        np.testing.assert_allclose(found.numpy(), apply(a, b))
    with static.program_guard(static.Program()):
        v = static.data("v", [2, 2])
        found = static.Executor().run(feed={"v": a}, fetch_list=[b + v, v * b])
        np.testing.assert_allclose(found[0], a + b)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_shifts(dtype):
    limits, rng = np.iinfo(dtype), np.random.default_rng(0)
    x, y = rng.integers(limits.min, limits.max, 100, dtype, True), rng.integers(0, limits.bits, 100).astype(dtype)
    a, b = paddle.to_tensor(x), paddle.to_tensor(y)
    np.testing.assert_array_equal(paddle.bitwise_left_shift(a, b).numpy(), np.left_shift(x, y))
    np.testing.assert_array_equal(paddle.bitwise_right_shift(a, b).numpy(), np.right_shift(x, y))
    bits = f"u{dtype.removeprefix('u')}"
    logical = np.right_shift(x.view(bits), y.view(bits)).view(dtype)
    np.testing.assert_array_equal(paddle.bitwise_right_shift(a, b, False).numpy(), logical)


def test_shifts_by_the_width_or_more():
    x, y = paddle.to_tensor(np.array([-4, 4], np.int16)), paddle.to_tensor(np.array([16, 40], np.int16))
    assert paddle.bitwise_right_shift(x, y).tolist() == [-1, 0]
    assert paddle.bitwise_left_shift(x, y).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("name", "args", "shape"),
    [
        ("reshape_", ([8],), [8]),
        ("unsqueeze_", (0,), [1, 2, 4]),
        ("flatten_", (), [8]),
        ("transpose_", ([1, 0],), [4, 2]),
        ("t_", (), [4, 2]),
    ],
)
def test_in_place_functions_may_reshape(name, args, shape):
    x = paddle.to_tensor(X, stop_gradient=False)
    y = x * 2
    assert getattr(y, name)(*args) is y
    (y * y).sum().backward()
    assert y.shape == shape
    np.testing.assert_allclose(x.grad.numpy(), 8 * X)


def test_in_place_sums_may_not():
    with pytest.raises(ValueError, match="shape"):
        paddle.ones([4]).add_(paddle.ones([2, 4]))


def test_sums_of_all_elements_in_place_are_a_vector():
    x = scalar() * paddle.to_tensor(X)
    assert paddle.cumsum_(x).shape == [8]
    np.testing.assert_array_equal(x.numpy(), np.cumsum(2 * X))


def test_the_first_argument_of_a_function_in_place_has_its_name():
    x, y = paddle.to_tensor(X), paddle.to_tensor(np.eye(4, dtype=np.float32))
    paddle.addmm_(x, x=paddle.to_tensor(X), y=y)
    np.testing.assert_array_equal(x.numpy(), 2 * X)
    paddle.abs_(x=x)
    with pytest.raises(paddle.errors.NotOffered, match="no series"):
        paddle.i0_(x)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float64"])
def test_copysign_keeps_the_element_type(dtype):
    x, y = (np.arange(-3, 3).astype(dtype), np.array([1, -1, 2, -2, 0, -3]).astype(dtype))
    found = paddle.copysign(paddle.to_tensor(x), paddle.to_tensor(y)).numpy()
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, np.copysign(x, y).astype(dtype))


def test_axes_of_tensordot_as_tensors():
    x, y = np.arange(24.0).reshape(2, 3, 4), np.arange(24.0).reshape(3, 4, 2)
    pair = [paddle.to_tensor([1, 2]), paddle.to_tensor([0, 1])]
    for axes in (pair, tuple(pair), paddle.to_tensor([[1, 2], [0, 1]])):
        found = paddle.tensordot(paddle.to_tensor(x), paddle.to_tensor(y), axes)
        np.testing.assert_array_equal(found.numpy(), np.tensordot(x, y, [[1, 2], [0, 1]]))
    square = paddle.to_tensor(np.arange(9.0).reshape(3, 3))
    np.testing.assert_array_equal(
        paddle.tensordot(square, square, paddle.to_tensor([1])).numpy(), square.numpy() @ square.numpy().T
    )


def test_a_label_without_axes_is_one_row():
    np.testing.assert_array_equal(F.one_hot(paddle.full([], 2, "int64"), 4).numpy(), [0, 0, 1, 0])


def test_minlength_as_a_tensor():
    for least in (5, paddle.to_tensor([5], "int32"), paddle.to_tensor(5)):
        np.testing.assert_array_equal(paddle.bincount(paddle.to_tensor([1, 1, 3]), minlength=least).numpy(), [0, 2, 0, 1, 0])
    with static.program_guard(static.Program()):
        counts = paddle.bincount(static.data("x", [3], "int64"), minlength=paddle.full([1], 5, "int32"))
        (found,) = static.Executor().run(feed={"x": np.array([1, 1, 3])}, fetch_list=[counts])
    np.testing.assert_array_equal(found, [0, 2, 0, 1, 0])


@pytest.mark.parametrize("dtype", ["int16", "int64", "float64", "bool", "float32"])
@pytest.mark.parametrize("sizes", [{"size": [5, 3]}, {"scale_factor": [2.0, 1.5]}, {"scale_factor": paddle.to_tensor([2.0, 1.5])}])
def test_nearest_elements_of_every_type(dtype, sizes):
    x = (np.arange(2 * 3 * 3 * 2).reshape(2, 3, 3, 2) % 7 > 2) * np.arange(36).reshape(2, 3, 3, 2)
    for layout, array in (("NCHW", x), ("NHWC", x.transpose(0, 2, 3, 1))):
        found = F.interpolate(paddle.to_tensor(array.astype(dtype)), mode="nearest", data_format=layout, **sizes).numpy()
        found = found if layout == "NCHW" else found.transpose(0, 3, 1, 2)
        rows, columns = (np.arange(n) * old // n for n, old in zip(found.shape[2:], x.shape[2:], strict=True))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, x.astype(dtype)[:, :, rows][:, :, :, columns])


def test_nearest_elements_in_float64_have_gradients():
    x = paddle.to_tensor(np.arange(6.0).reshape(1, 1, 2, 3), stop_gradient=False)
    F.interpolate(x, size=[4, 3]).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full((1, 1, 2, 3), 2.0))


def test_products_of_booleans():
    x, y = paddle.to_tensor([True, True, False]), paddle.to_tensor([True, False, False])
    np.testing.assert_array_equal(paddle.multiply(x, y).numpy(), [True, False, False])


def test_the_median_of_nothing_but_nan_has_no_gradient():
    x = paddle.to_tensor([[np.nan, np.nan], [1.0, np.nan]], stop_gradient=False)
    for mode in ("avg", "min"):
        found = paddle.nanmedian(x, axis=1, mode=mode)
        found = found if mode == "avg" else found[0]
        np.testing.assert_array_equal(found.numpy(), [np.nan, 1.0])
        (gradient,) = paddle.grad(found, x)
        np.testing.assert_array_equal(gradient.numpy(), [[0, 0], [1, 0]])


def test_prelu_without_axes():
    assert F.prelu(paddle.to_tensor(-2.0), paddle.to_tensor([0.25])).numpy() == np.float32(-0.5)
    with static.program_guard(static.Program()):
        y = F.prelu(paddle.full([], -2.0), paddle.full([1], 0.25))
        (found,) = static.Executor().run(fetch_list=[y])
    assert found.shape == () and found == -0.5


def test_what_is_fed_to_a_persistable_variable_is_its_value():
    with static.program_guard(main := static.Program(), startup := static.Program()):
        state = static.create_global_var([2], 0.0, "float32", persistable=True)
        doubled = state * 2
    with static.scope_guard(static.Scope()):
        executor = static.Executor()
        executor.run(startup)
        for feed in ({state.name: np.array([1.0, 3.0], np.float32)}, {}):
            (found,) = executor.run(main, feed=feed, fetch_list=[doubled])
            np.testing.assert_array_equal(found, [2.0, 6.0])
        with pytest.raises(paddle.errors.FeedError):
            executor.run(main, feed={state.name: np.ones(3, np.float32)}, fetch_list=[doubled])


def test_the_name_of_a_layer_names_its_results():
    with static.program_guard(static.Program()):
        x = static.data("x", [2, 3])
        layer = paddle.nn.Sigmoid(name="gate")
        assert [layer(x).name for _ in range(2)] == ["gate.tmp_0", "gate.tmp_1"]
        assert paddle.nn.L1Loss("none", name="far")(x, x).name == "far.tmp_0"


def test_the_width_of_trapezoids_as_a_tensor():
    y, width = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False), paddle.to_tensor(2.0, stop_gradient=False)
    area = paddle.trapezoid(y, dx=width)
    area.backward()
    assert area.item() == 8.0 and width.grad.item() == 4.0
    np.testing.assert_array_equal(y.grad.numpy(), [1, 2, 1])
    with static.program_guard(static.Program()):
        areas = paddle.cumulative_trapezoid(static.data("y", [3]), dx=static.data("dx", []))
        feed = {"y": np.array([1, 2, 3], np.float32), "dx": np.float32(2)}
        np.testing.assert_array_equal(static.Executor().run(feed=feed, fetch_list=[areas])[0], [3, 8])


def test_more_values_than_indices():
    x, values = np.zeros((3, 5), np.float32), np.arange(1, 11, dtype=np.float32).reshape(2, 5)
    index = np.array([[0, 1, 2, 0]])
    found = paddle.put_along_axis(paddle.to_tensor(x), paddle.to_tensor(index), paddle.to_tensor(values), 0, broadcast=False)
    np.put_along_axis(x[:, :4], index, values[:1, :4], 0)
    np.testing.assert_array_equal(found.numpy(), x)


def test_einsum_with_ellipses_of_different_rank():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 4)).astype("float32"), rng.normal(size=(4, 5)).astype("float32")
    given = paddle.to_tensor(a), paddle.to_tensor(b)
    np.testing.assert_allclose(paddle.einsum("...ij,...jk->...ik", *given).numpy(), a @ b, rtol=1e-5)
    np.testing.assert_allclose(paddle.einsum("...ij,...jk", *given).numpy(), a @ b, rtol=1e-5)


def test_the_shorter_list_of_axes_goes_on_as_the_longer():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 3, 4)).astype("float32"), rng.normal(size=(3, 4, 5)).astype("float32")
    found = paddle.tensordot(paddle.to_tensor(x), paddle.to_tensor(y.transpose(0, 1, 2)), [[1], [0]])
    np.testing.assert_allclose(found.numpy(), np.tensordot(x, y, [[1], [0]]), rtol=1e-5)
    square = rng.normal(size=(3, 3)).astype("float32")
    found = paddle.tensordot(paddle.to_tensor(square), paddle.to_tensor(square), [[0, 1], [0]])
    np.testing.assert_allclose(float(found), (square * square).sum(), rtol=1e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: paddle.bucketize(paddle.to_tensor([1.0]), paddle.ones([2, 2])),
        lambda: paddle.scatter(paddle.ones([3, 2]), paddle.to_tensor([-1]), paddle.ones([1, 2])),
        lambda: F.cross_entropy(paddle.ones([3, 4]), paddle.to_tensor([0, 1, 2]), weight=paddle.ones([3])),
    ],
)
def test_what_paddle_refuses(call):
    with pytest.raises(ValueError):
        call()


def test_full_has_a_gradient():
    with static.program_guard(static.Program()):
        x = paddle.full([2], 3.0)
        x.stop_gradient = False
        static.append_backward(paddle.mean(x * x))
        assert static.Executor().run(fetch_list=[f"{x.name}@GRAD"])[0].tolist() == [3.0, 3.0]


@pytest.mark.parametrize("function", [paddle.sign, paddle.floor, paddle.round, paddle.ceil])
def test_the_result_of_a_step_keeps_its_own_gradient(function):
    x = scalar(0.3)
    x.stop_gradient = False
    y = function(x)
    y.retain_grads()
    y.backward()
    assert (float(y.grad), float(x.grad)) == (1.0, 0.0)


def test_argmax_keeps_its_axis():
    with static.program_guard(static.Program()):
        found = paddle.argmax(static.data("x", [2, 4]), axis=-1, keepdim=True)
        assert found.op.inputs[0].op.attrs["keepdims"] == 1 if found.op.type == "Identity" else found.op.attrs["keepdims"] == 1
        assert static.Executor().run(feed={"x": X}, fetch_list=[found])[0].shape == (2, 1)


def test_shapes_with_unknown_sizes_broadcast():
    assert paddle.broadcast_shape([2, 1, 3], [1, 3, 1]) == [2, 3, 3]
    assert paddle.broadcast_shape([-1, 1], [1, 4]) == [-1, 4]
    with pytest.raises(ValueError, match="2"):
        paddle.broadcast_shape([2], [3])


def test_a_transposed_matrix_times_a_vector():
    """onnxruntime's optimiser fuses the two wrongly"""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 3)).astype("float32"), rng.normal(size=4).astype("float32")
    np.testing.assert_allclose((paddle.to_tensor(a).t() @ paddle.to_tensor(b)).numpy(), a.T @ b, rtol=1e-5)
    with static.program_guard(static.Program()):
        x, y = static.data("x", [4, 3]), static.data("y", [4])
        found = static.Executor().run(feed={"x": a, "y": b}, fetch_list=[paddle.matmul(x.t(), y), x.astype("float32").t() @ y])
    for one in found:
        np.testing.assert_allclose(one, a.T @ b, rtol=1e-5)


def test_apply_calls_a_function_of_python():
    x = paddle.to_tensor([1.0, 2.0])
    assert x.apply(lambda v: 3 * v).tolist() == [3.0, 6.0]
    x.apply_(lambda v: v + 1)
    assert x.tolist() == [2.0, 3.0]
    x.stop_gradient = False
    with pytest.raises(RuntimeError, match="apply: a function of Python has no gradient"):
        x.apply(lambda v: 3 * v)


def test_rows_to_search_fit_the_rows_of_values():
    rows = paddle.zeros([2, 2, 3])
    for shape in ([2, 5], [2, 3, 5]):
        with pytest.raises(RuntimeError, match="searchsorted takes a row of numbers for each row of values"):
            paddle.searchsorted(rows, paddle.zeros(shape))
    assert paddle.searchsorted(rows, paddle.ones([2, 2, 5])).shape == [2, 2, 5]


def test_a_step_that_is_known_may_be_a_tensor():
    x = paddle.arange(5)
    assert x[:: paddle.to_tensor(2)].tolist() == [0, 2, 4]
    assert x.to("int64").dtype == paddle.int64
    with pytest.raises(ValueError, match="'nowhere' is not an ONNX element type"):
        x.to("nowhere")


def test_a_layout_of_other_axes_is_refused():
    with pytest.raises(AssertionError, match="the layout 'NCL' has 3 axes"):
        paddle.nn.Pad1D([1, 1], mode="replicate", data_format="NCL")(paddle.zeros([1, 2, 3, 4]))


def test_topk_knows_the_other_axes_where_k_is_fed():
    with static.program_guard(static.Program()):
        x, k = static.data("x", [6, 7, 8]), static.data("k", [1], "int32")
        values, indices = paddle.topk(x, k, axis=1)
        assert (values.shape, indices.shape) == ((6, -1, 8), (6, -1, 8))
        numbers = np.random.default_rng(0).normal(size=(6, 7, 8)).astype("f4")
        (found,) = static.Executor().run(feed={"x": numbers, "k": np.array([2], "i4")}, fetch_list=[values])
    np.testing.assert_array_equal(found, -np.sort(-numbers, axis=1)[:, :2])
