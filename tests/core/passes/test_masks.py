"""Masks of Dropout: their numbers, their statistics, and what they are computed by."""

import functools

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.passes.masks import COLUMNS

OPERATORS = {
    *("Add", "Cast", "Concat", "Div", "Floor", "GreaterOrEqual", "Mul", "Range", "ReduceSum", "Reshape", "Shape", "Size", "Slice"),
    *("Split", "Sub", "Unsqueeze"),
}
"""All have int32 or float32 kernels in onnxruntime's CPU, CUDA and web providers, and in OpenVINO."""
WIDEST = 6
"""Standard deviations. A test looks at some hundred thousand numbers at most that are normal if masks are independent."""


def reference(count, ratio, seed=0, step=0, node=1):
    """The masks in numpy: no later version may compute others for the same seed."""

    def constants(key, n):
        x = (np.arange(n, dtype=np.uint64) + np.uint64(1000 * key + 1)) & np.uint64(0xFFFFFFFF)
        for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor) & np.uint64(0xFFFFFFFF)
        return ((x ^ (x >> np.uint64(15))) % np.uint64(2047) + np.uint64(1)).astype(np.int64)

    def mixed(left, right, keys):
        for key in keys:
            left, right = right, (left + right * (right + key) // 32) % 2048
        return right

    places = np.arange(9 * 4 * COLUMNS)
    table = mixed(places // 2048 + 977, places % 2048, constants(0, 4)).reshape(9, -1)
    digits = [np.sign(value) * (abs(value) // 2048**k % 2048) + 2048 for value in (seed, step) for k in range(3)]
    total = sum(digit * (row // 4) for digit, row in zip(digits, table[:6], strict=True))
    *b, low = mixed(total // 2048, total % 2048, table[6:]).reshape(4, COLUMNS)
    own, rows = constants(node, 12).reshape(4, 3, 1), np.arange(-(-count // COLUMNS))
    a = mixed(rows // 2048 + own[0], np.broadcast_to(rows % 2048, (3, len(rows))), own[1:])
    drawn = sum(np.multiply.outer(x, y) for x, y in zip(a, b, strict=True)) % 2048
    border = (np.int64(np.floor(np.float32(ratio) * np.float32(2**22) + np.float32(0.5))) + 2047 - low) // 2048
    return (drawn >= border).reshape(-1)[:count]


@functools.cache
def session(shape, ratio, nodes):
    program = static.Program()
    with static.program_guard(program):
        x = static.data("x", [None, *shape[1:]])
        masks = [F.dropout(x, ratio) for _ in range(nodes)]
    return program, masks


def kept(shape, ratio=0.1, seed=0, step=0, nodes=1):
    """The masks of so many nodes, as 0 and 1."""
    program, masks = session(shape, ratio, nodes)
    scope = static.Scope()
    with static.scope_guard(scope):
        scope.set("dropout_step", np.array(step, np.int64))
        scope.set("dropout_seed_0", np.array(seed, np.int64))
        found = static.Executor().run(program, {"x": np.ones(shape, np.float32)}, masks)
    return [(y != 0).astype(np.float32) for y in found]


def normal(mask, ratio):
    """With mean 0 and variance 1."""
    return (mask - (1 - ratio)) / np.sqrt(ratio * (1 - ratio))


@pytest.mark.parametrize(
    ("shape", "ratio", "seed", "step"),
    [
        ((3, 7), 0.5, 0, 0),
        ((200, 50), 0.3, 3, 1),
        ((5, 512), 0.1, 2**31 - 1, 2**24),
        ((2, 3, 4, 128), 0.001, 77, 1000),
        ((1, 1), 0.9, 1, 1),
        ((1100, 1024), 0.2, -5, 7),
        ((4,), 0.2, 2**33 + 5, 3),
    ],
)
def test_masks_are_those_of_seed_step_node_and_position(shape, ratio, seed, step):
    for node, found in enumerate(kept(shape, ratio, seed, step, nodes=2), 1):
        expected = reference(int(np.prod(shape)), ratio, seed, step, node)
        np.testing.assert_array_equal(found.reshape(-1) != 0, expected)


@pytest.mark.parametrize("known", [(4, 3, 33), (0, 3), (0, 512), (6, 512), ()])
def test_known_and_unknown_shapes_give_the_same_mask(known):
    masks = []
    for dims in (known, [None] * len(known), None):
        program = static.Program()
        with static.program_guard(program):
            x = static.data("x", known if dims is None else list(dims))
            y = F.dropout(x, 0.4)
        masks.append(static.Executor().run(program, {"x": np.ones(known, np.float32)}, [y])[0])
        static.global_scope().set("dropout_step", np.array(0, np.int64))
    assert masks[0].shape == known
    np.testing.assert_array_equal(masks[0], masks[1])
    np.testing.assert_array_equal(masks[0], masks[2])


@pytest.mark.parametrize("dims", [[None, 50], [30, 50], [None, 512]])
def test_no_number_reaches_two_to_the_24(dims):
    """What float32 holds, so that every provider computes the same; int64 occurs in scalars and shapes alone."""
    x = static.data("x", dims)
    program = x.block.program
    program.random_seed = 2**31 - 1
    y = F.dropout(x, 1.0 - 2**-20)
    static.global_scope().set("dropout_step", np.array(2**31 - 1, np.int64))
    model = paddle.to_onnx(program, [y], lowering=None)
    assert {node.op_type for node in model.graph.node} <= OPERATORS
    inferred = onnx.shape_inference.infer_shapes(model)
    names = [v.name for v in inferred.graph.value_info if v.type.tensor_type.elem_type in (1, 6)]
    del model.graph.output[:]
    model.graph.output.extend(v for v in inferred.graph.value_info if v.name in names)
    feed = {"x": np.ones([d or 30 for d in dims], np.float32)}
    feed |= {v.name: np.array(2**31 - 1, np.int64) for v in model.graph.input if v.name != "x"}
    values = ReferenceEvaluator(model).run(None, feed)
    assert len(values) > 60
    for name, value in zip([v.name for v in model.graph.output], values, strict=True):
        assert value.size == 0 or (value.min() >= 0 and value.max() < 2**24), name


@pytest.mark.one_in(5)
@pytest.mark.parametrize("ratio", [0.001, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(2500, 1024), (64, 16, 28, 28), (1000, 999)])
def test_the_share_kept(shape, ratio):
    for seed, step in ((0, 0), (0, 1), (1, 0), (123456789, 2**31 - 1)):
        (mask,) = kept(shape, ratio, seed, step)
        x = normal(mask, ratio)
        assert abs(x.mean(dtype=np.float64)) < 4.5 / np.sqrt(x.size)
        for axis in range(x.ndim):
            means = x.mean(axis=axis, dtype=np.float64) * np.sqrt(x.shape[axis])
            if ratio * x.shape[axis] > 50 < (1 - ratio) * x.shape[axis]:
                assert np.abs(means).max() < WIDEST + 1
                assert abs(means.var() - 1) < 5 * np.sqrt(2 / means.size)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("ratio", [0.1, 0.5])
@pytest.mark.parametrize("shape", [(2048, 1024), (64, 16, 28, 28), (1000, 999)])
def test_no_correlation_at_any_distance_in_memory(shape, ratio):
    """All autocorrelations and the whole spectrum, by one Fourier transform"""
    for seed, step in ((0, 0), (0, 1), (7, 2**20)):
        x = normal(kept(shape, ratio, seed, step)[0], ratio).reshape(-1)
        spectrum = np.abs(np.fft.rfft(x)) ** 2 / x.size
        assert spectrum[1:].max() < np.log(x.size) + 8
        correlations = np.fft.irfft(spectrum)[1 : x.size // 2] * np.sqrt(x.size)
        assert np.abs(correlations).max() < WIDEST + 0.5


@pytest.mark.exhaustive
@pytest.mark.parametrize("ratio", [0.1, 0.5])
def test_no_correlation_between_any_rows_columns_and_their_neighbours(ratio):
    for seed, step in ((0, 0), (0, 1), (1, 0)):
        x = normal(kept((4096, COLUMNS), ratio, seed, step)[0], ratio)
        for pairs, length in ((x @ x.T, x.shape[1]), (x.T @ x, x.shape[0])):
            pairs = pairs[np.triu_indices_from(pairs, 1)] / np.sqrt(length)
            assert np.abs(pairs).max() < 9
            assert abs(pairs.var() - 1) < 0.02
        root = np.sqrt(x.size)
        for y in (x, x.T):
            assert abs((y[2:] * y[1:-1] * y[:-2]).mean() * root) < 5
            assert abs((y[3:] * y[2:-1] * y[1:-2] * y[:-3]).mean() * root) < 5
            assert abs((y[2:] * y[:-2]).mean() * root) < 5
        assert abs((x[1:, 1:] * x[:-1, 1:] * x[1:, :-1] * x[:-1, :-1]).mean() * root) < 5


def test_runs_have_the_lengths_of_independent_elements():
    (mask,) = kept((2048, 1024), 0.5)
    ends = np.flatnonzero(np.diff(mask.reshape(-1)))
    lengths = np.bincount(np.diff(ends), minlength=13)[1:13]
    total = len(ends) - 1
    expected = total * 0.5 ** np.arange(1, 13)
    assert np.abs((lengths - expected) / np.sqrt(expected)).max() < 5


def test_steps_seeds_and_nodes_are_independent():
    """Neighbours, powers of two, and pairs whose sums or products agree"""
    ratio, shape = 0.3, (512, 1000)
    keys = [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (2, 0),
        (1, 1),
        (0, 2048),
        (2048, 0),
        (0, 2**22),
        (2**22, 0),
        (3, 4),
        (4, 3),
        (5, 1000003),
    ]
    masks = [normal(m, ratio).reshape(-1) for seed, step in keys for m in kept(shape, ratio, seed, step, nodes=2)]
    x = np.stack(masks)
    pairs = (x @ x.T)[np.triu_indices(len(masks), 1)] / np.sqrt(x.shape[1])
    assert np.abs(pairs).max() < 5
    for a, b, c in ((0, 2, 4), (0, 6, 8), (1, 2, 3)):
        assert abs((x[a] * x[b] * x[c]).mean() * np.sqrt(x.shape[1])) < 5


def test_one_element_over_many_steps_is_independent_too():
    program = static.Program()
    with static.program_guard(program):
        y = F.dropout(static.data("x", [2, 300]), 0.5)
    executor, ones = static.Executor(), np.ones((2, 300), np.float32)
    found = np.stack([executor.run(program, {"x": ones}, [y])[0].reshape(-1) for _ in range(4096)])
    x = normal((found != 0).astype(np.float32), 0.5)
    for lag in range(1, 9):
        products = (x[lag:] * x[:-lag]).mean(axis=0) * np.sqrt(len(x) - lag)
        assert np.abs(products).max() < WIDEST and abs(products.var() - 1) < 0.4
    assert np.abs(x.mean(axis=0) * np.sqrt(len(x))).max() < WIDEST
    spectrum = np.abs(np.fft.rfft(x, axis=0)) ** 2 / len(x)
    assert spectrum[1:].max() < np.log(spectrum.size) + 8


def test_the_measures_find_what_they_look_for():
    """A weak generator fails: products of row and column numbers without the mixing rounds"""
    rows, columns = np.arange(4096)[:, None] + 1, np.arange(COLUMNS) + 1
    weak = normal((rows * columns * 1103 % 2048 >= 0.1 * 2048).astype(np.float32), 0.1)
    assert np.abs(np.triu(weak @ weak.T, 1)).max() / np.sqrt(COLUMNS) > 20
    spectrum = np.abs(np.fft.rfft(weak.reshape(-1))) ** 2 / weak.size
    assert spectrum[1:].max() > np.log(weak.size) + 40


def test_columns_are_computed_once_and_go_with_the_last_dropout():
    x = static.data("x", [None, 50])
    y = F.dropout(F.dropout(x, 0.3), 0.3)
    program = x.block.program
    model = paddle.to_onnx(program, [y], lowering=None)
    assert sum(node.op_type == "ReduceSum" for node in model.graph.node) == 1
    program.eval()
    assert {op.type for op in program.global_block().ops} == {"Dropout"}
    program.train()
    assert sum(op.type == "ReduceSum" for op in program.global_block().ops) == 1


def test_a_checkpoint_of_the_former_generator_continues_with_the_masks_of_this_one():
    """Seed and step are stored as they were, so it resumes; the masks are those of the step, not those of the former generator"""
    program = static.Program()
    program.random_seed = 4
    with static.program_guard(program):
        y = F.dropout(static.data("x", [3, 40]), 0.25)
    static.global_scope().set("dropout_step", np.array(12, np.int64))
    (found,) = static.Executor().run(program, {"x": np.ones((3, 40), np.float32)}, [y])
    np.testing.assert_array_equal(found.reshape(-1) != 0, reference(120, 0.25, 4, 12))
    assert int(static.global_scope().get("dropout_step")) == 13
