"""Scatter with reductions, selection, sequences, caches; operands computed at run time; unknown rank."""

import numpy as np

from onnxgrad.testing import Sample
from tests.core.rules.samples import samples

I64 = np.int64


def rankless(op, x):
    """``x``, of which inference does not even know the rank"""
    shape = op.Compress(op.Shape(x), op.Greater(op.Add(op.Shape(x), 1), 0))
    return op.Reshape(x, shape, allowzero=1)


def computed(op, values, x):
    """Integers that inference cannot see through"""
    count = op.Cast(op.Sub(op.Shape(x, start=0, end=1), op.Shape(x, start=0, end=1)), to=6)
    return op.Add(values, op.Cast(count, to=7))


@samples("ScatterElements")
def scatter_with_reductions(draw):
    index, repeated = np.array([[0, 2, 1], [1, 0, 1]]), np.array([[0, 2, 0], [1, -4, 0]])
    for reduction in ("mul", "min", "max", "add"):
        yield Sample(draw.real(2, 4, apart=0.1), index, draw.real(2, 3, apart=0.15), axis=1, reduction=reduction)
        yield Sample(draw.real(2, 4, apart=0.1), repeated, draw.real(2, 3, apart=0.15), axis=1, reduction=reduction)
        yield Sample(draw.real(4, 3, apart=0.1), np.array([[3, 3, 0], [3, 1, 3]]), draw.real(2, 3, apart=0.15), reduction=reduction)
        yield Sample(draw.real(2, 4), np.zeros((0, 3), I64), draw.real(0, 3), reduction=reduction)
    # Written twice, the last one remains, in onnx.reference as in onnxruntime.
    yield Sample(draw.real(2, 4), repeated, draw.real(2, 3), axis=1)
    yield Sample(draw.real(4, 3), np.array([[3, -1, 0], [3, 1, 3], [1, 1, -1]]), draw.real(3, 3))
    indices = np.array([0, 0, 0, 1, 1, 2])
    zeros = np.array([0.0, 1.5, 0.0, 2.0]), np.array([2.0, 3.0, -1.5, 0.0, 0.0, 0.5])
    yield Sample(zeros[0], indices, zeros[1], reduction="mul")
    yield Sample(np.array([2.0, 0.0, 1.0]), np.array([0, 0, 1, 1]), np.array([0.0, 3.0, 0.0, 2.0]), reduction="mul")
    yield Sample(zeros[0], indices, zeros[1], build=lambda op, x, i, u: op.ScatterElements(rankless(op, x), i, u, reduction="mul"))


@samples("ScatterND")
def scatter_slices_with_reductions(draw):
    for reduction in ("mul", "min", "max"):
        yield Sample(draw.real(4, 3, apart=0.1), np.array([[2], [0], [-2]]), draw.real(3, 3, apart=0.15), reduction=reduction)
        yield Sample(draw.real(4, 3, apart=0.1), np.array([[2, 1], [0, 0], [2, 1]]), draw.real(3, apart=0.15), reduction=reduction)
        yield Sample(draw.real(2, 2), np.zeros((0, 1), I64), draw.real(0, 2), reduction=reduction)
    yield Sample(np.array([0.0, 2.0]), np.array([[0], [0], [1]]), np.array([3.0, 2.0, 0.0]), reduction="mul")
    yield Sample(draw.real(4, 3), np.array([[2, 1], [0, 0], [2, 1]]), draw.real(3), reduction="add")
    yield Sample(draw.real(4, 3), np.array([[2]]), draw.real(1, 3), build=lambda op, x, i, u: op.ScatterND(rankless(op, x), i, u))


@samples("Gather")
def gather_without_rank(draw):
    for axis in (0, 1, -1, -2):
        yield Sample(
            draw.real(3, 4, 2),
            np.array([[1, 0], [-1, 1]]),
            build=lambda op, x, i, axis=axis: op.Gather(rankless(op, x), i, axis=axis),
        )
    yield Sample(draw.real(3, 4), np.array([1, 0]), build=lambda op, x, i: op.Gather(x, computed(op, i, x), axis=-1))


@samples("GatherND")
def gather_batches(draw):
    yield Sample(draw.real(2, 2, 3, 2), np.array([[[[0]], [[2]]], [[[1]], [[-1]]]]), batch_dims=2)
    yield Sample(draw.real(2, 3, 4), np.array([[[0, 1], [0, 1]], [[2, 3], [1, 0]]]), batch_dims=1)
    yield Sample(draw.real(2, 3), np.array([[1], [2]]), build=lambda op, x, i: op.GatherND(rankless(op, x), i, batch_dims=1))


@samples("GatherElements")
def gather_elements_without_rank(draw):
    yield Sample(draw.real(3, 4), np.array([[0, 3, 3]]), build=lambda op, x, i: op.GatherElements(rankless(op, x), i, axis=-1))


@samples("Compress")
def compress(draw):
    x = draw.real(3, 4)
    yield Sample(x, np.array([True, False, True]), axis=0)
    yield Sample(x, np.array([False, True, True, False]), axis=-1)
    yield Sample(x, np.array([False, True]), axis=1)
    yield Sample(x, np.array([False, True, True, False, True]))
    yield Sample(x, np.array([False, False]), axis=0)
    yield Sample(x, np.array([True, True]), build=lambda op, x, c: op.Compress(rankless(op, x), c, axis=1))


@samples("Unique")
def unique(draw):
    x = draw.real(3, 4, apart=0.05)
    yield Sample(x, outputs=1)
    yield Sample(x, outputs=4, sorted=0)
    for axis in (0, 1, -1):
        yield Sample(x, outputs=2, axis=axis)
    yield Sample(draw.real(0))


@samples("OneHot")
def one_hot(draw):
    for axis in (-1, 0, 1):
        yield Sample(np.array([[0, 2], [-1, 1]]), np.array(3), draw.real(2), axis=axis)
    yield Sample(np.array([1, 0]), np.array([4]), draw.real(2))
    yield Sample(np.zeros((0,), I64), np.array(2), draw.real(2))


@samples("ReverseSequence")
def reverse_sequence(draw):
    x = draw.real(4, 3, 2)
    yield Sample(x, np.array([4, 1, 2]))
    yield Sample(x, np.array([3, 2, 1, 3]), batch_axis=0, time_axis=1)


@samples("TensorScatter")
def tensor_scatter(draw):
    past = draw.real(2, 3, 5, 2)
    yield Sample(past, draw.real(2, 3, 2, 2), np.array([1, 3]), opset=24)
    yield Sample(past, draw.real(2, 3, 3, 2), np.array([4, 2]), opset=24, mode="circular")
    yield Sample(past, draw.real(2, 3, 4, 2), opset=24)
    yield Sample(past, draw.real(2, 2, 5, 2), np.array([1, 0]), opset=24, axis=1)
    yield Sample(draw.real(2, 4), draw.real(2, 3), np.array([3, 1]), opset=24, axis=-1, mode="circular")
    yield Sample(
        past, draw.real(2, 3, 2, 2), np.array([1, 3]), opset=24,
        build=lambda op, p, u, i: op.TensorScatter(rankless(op, p), rankless(op, u), i),
    )  # fmt: skip


@samples("Pad")
def pads(draw):
    x = draw.real(4, 5)
    for mode in ("constant", "reflect", "edge", "wrap"):
        yield Sample(x, np.array([2, -1, -1, 2]), mode=mode)
        yield Sample(x, np.array([1, 2]), None, np.array([-1]), mode=mode)
        yield Sample(
            x, np.array([1, 0, 2, -1]), build=lambda op, x, p, mode=mode: op.Pad(rankless(op, x), computed(op, p, x), mode=mode)
        )
    yield Sample(x, np.array([-1, 3]), np.array(0.3), np.array([0]))
    yield Sample(x, np.array([6, 7]), None, np.array([1]), mode="wrap")
    yield Sample(
        x, np.array([1, 2, 0, -1]), np.array([1, 0]), np.array(0.4),
        build=lambda op, x, p, a, v: op.Pad(rankless(op, x), computed(op, p, x), v, computed(op, a, x)),
    )  # fmt: skip
    yield Sample(draw.real(0, 2), np.array([1, 0, 1, 0]), np.array(0.3))


@samples("Slice")
def slices(draw):
    x = draw.real(4, 5)
    starts, ends, axes, steps = np.array([-1, 1]), np.array([-(2**31), 100]), np.array([1, 0]), np.array([-2, 2])
    yield Sample(x, starts, ends, axes, steps)
    yield Sample(x, starts, ends, axes, steps, build=lambda op, x, *given: op.Slice(x, *(computed(op, v, x) for v in given)))
    yield Sample(x, starts, ends, axes, steps, build=lambda op, x, *given: op.Slice(rankless(op, x), *given))
    yield Sample(x, np.array([2]), np.array([4]), build=lambda op, x, s, e: op.Slice(rankless(op, x), computed(op, s, x), e))
    yield Sample(x, np.array([100]), np.array([200]))


@samples("Tile")
def tiles(draw):
    yield Sample(draw.real(2, 3), np.array([2, 3]), build=lambda op, x, r: op.Tile(rankless(op, x), r))
    yield Sample(draw.real(2, 3), np.array([2, 1]), build=lambda op, x, r: op.Tile(x, computed(op, r, x)))
    yield Sample(draw.real(2, 3), np.array([0, 2]))
    yield Sample(draw.real(0, 3), np.array([2, 2]))


@samples("Expand")
def expansions(draw):
    yield Sample(draw.real(3, 1), np.array([2, 1, 4]), build=lambda op, x, s: op.Expand(rankless(op, x), s))
    yield Sample(draw.real(3, 1), np.array([2, 1, 4]), build=lambda op, x, s: op.Expand(x, computed(op, s, x)))
    yield Sample(draw.real(1, 3), np.array([0, 3]))


@samples("Concat")
def joined(draw):
    for axis in (0, -1):
        yield Sample(
            draw.real(2, 3),
            draw.real(2, 3),
            build=lambda op, x, y, axis=axis: op.Concat(rankless(op, x), rankless(op, y), axis=axis),
        )
    yield Sample(draw.real(2, 0), draw.real(2, 3), axis=1)


@samples("Split")
def parts(draw):
    yield Sample(draw.real(4, 3), np.array([3, 1]), build=lambda op, x, s: op.Split(rankless(op, x), computed(op, s, x), outputs=2))
    yield Sample(draw.real(2, 5), outputs=3, num_outputs=3, axis=-1, only=[0, 2])
    yield Sample(draw.real(3), outputs=1, num_outputs=1)


@samples("Transpose")
def transposed(draw):
    yield Sample(draw.real(2, 3, 4), build=lambda op, x: op.Transpose(rankless(op, x)))
    yield Sample(draw.real(2, 3, 4), build=lambda op, x: op.Transpose(rankless(op, x), perm=[2, 0, 1]))


@samples("Squeeze")
def squeezed(draw):
    yield Sample(draw.real(1, 3, 1), np.array([-1]), build=lambda op, x, a: op.Squeeze(x, computed(op, a, x)))
    yield Sample(draw.real(1, 3, 1), build=lambda op, x: op.Squeeze(rankless(op, x)))


@samples("Unsqueeze")
def unsqueezed(draw):
    yield Sample(draw.real(2, 3), np.array([-1, 0]), build=lambda op, x, a: op.Unsqueeze(x, computed(op, a, x)))
    yield Sample(draw.real(2, 3), np.array([1]), build=lambda op, x, a: op.Unsqueeze(rankless(op, x), a))


@samples("SpaceToDepth")
def blocks_in_either_order(draw):
    for mode in ("DCR", "CRD"):
        yield Sample(draw.real(1, 2, 4, 6), opset=28, runs=False, blocksize=2, mode=mode)


@samples("ScatterElements")
def reduced_without_the_values_that_were_there(draw):
    """As exporters write scatter_reduce(include_self=False): neutral values are put where something will be written"""
    indices = np.array([[0, 1, 0], [2, 1, 1]])
    # Beyond every value here.
    neutral = {"max": -100.0, "min": 100.0, "mul": 1.0, "add": 0.0}
    for reduction, value in neutral.items():

        def build(op, x, updates, reduction=reduction, value=value):
            filled = op.Expand(op.constant(value, x.dtype), op.Shape(updates))
            start = op.ScatterElements(op.Mul(x, x), indices, filled, axis=0)
            return op.ScatterElements(start, indices, updates, axis=0, reduction=reduction)

        yield Sample(draw.real(3, 3, apart=0.05), draw.real(2, 3, apart=0.05), opset=18, build=build)
