import numpy as np

from onnxgrad.testing import Sample
from tests.core.rules.hiding import at_run_time
from tests.core.rules.samples import samples

I64 = np.int64


@samples("ReduceSum", "ReduceMean", "ReduceSumSquare")
def reductions(draw):
    x = draw.real(2, 3, 4)
    yield Sample(x)
    yield Sample(x, keepdims=0)
    yield Sample(x, np.array([1]))
    yield Sample(x, np.array([-1, 0]), keepdims=0)
    yield Sample(x, np.array([], I64), noop_with_empty_axes=1)
    yield Sample(x, np.array([], I64))
    yield Sample(x, np.array([], I64), keepdims=0)
    yield Sample(draw.real())


@samples("ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceLogSumExp")
def apart_reductions(draw):
    x = draw.real(2, 3, 4, apart=0.05)
    yield Sample(x)
    yield Sample(x, np.array([], I64))
    yield Sample(x, np.array([], I64), keepdims=0)
    yield Sample(x, np.array([], I64), noop_with_empty_axes=1)
    yield Sample(x, np.array([1]), keepdims=0)
    yield Sample(x, np.array([0, -1]))


@samples("ReduceLogSum")
def log_sum(draw):
    yield Sample(draw.positive(2, 3, 4), np.array([1]), keepdims=0)
    yield Sample(draw.positive(2, 3, 4))
    yield Sample(draw.positive(2, 3, 4), np.array([], I64), keepdims=0)


@samples("CumSum")
def running(draw):
    for exclusive in (0, 1):
        for reverse in (0, 1):
            yield Sample(draw.real(3, 4), np.array(1), exclusive=exclusive, reverse=reverse)


@samples("TopK")
def top_k(draw):
    yield Sample(draw.real(3, 5, apart=0.05), np.array([2]), outputs=2)
    yield Sample(draw.real(5, 3, apart=0.05), np.array([2]), outputs=2, axis=0, largest=0)


@samples("Reshape")
def reshape(draw):
    yield Sample(draw.real(2, 3, 4), np.array([4, -1]))
    yield Sample(draw.real(2, 3, 4), np.array([0, 12]))
    yield Sample(draw.real(0, 3), np.array([3, 0]), allowzero=1)


@samples("Flatten")
def flatten(draw):
    for axis in (0, 1, 3, -1):
        yield Sample(draw.real(2, 3, 4), axis=axis)


@samples("Transpose")
def transpose(draw):
    yield Sample(draw.real(2, 3, 4))
    yield Sample(draw.real(2, 3, 4), perm=[1, 2, 0])


@samples("Squeeze")
def squeeze(draw):
    yield Sample(draw.real(1, 3, 1))
    yield Sample(draw.real(1, 3, 1), np.array([-1]))


@samples("Unsqueeze")
def unsqueeze(draw):
    yield Sample(draw.real(2, 3), np.array([0, -1]))
    yield Sample(draw.real(), np.array([0]))


@samples("Unsqueeze")
def unsqueeze_no_axes(draw):
    def build(op, x, axes):
        return op.Unsqueeze(x, at_run_time(op, axes))

    yield Sample(draw.real(2, 1), np.array([], I64))
    yield Sample(draw.real(2, 1), np.array([], I64), build=build)


@samples("Concat")
def concat(draw):
    yield Sample(draw.real(2, 3), draw.real(2, 1), draw.real(2, 2), axis=1)
    yield Sample(draw.real(2, 3), draw.real(1, 3), axis=-2)
    yield Sample(draw.real(2, 3), draw.real(2, 2), axis=-1)
    yield Sample(draw.real(2, 3), axis=0)


@samples("Split")
def split(draw):
    yield Sample(draw.real(2, 6), np.array([1, 2, 3]), outputs=3, axis=1)
    yield Sample(draw.real(5, 2), outputs=2, num_outputs=2)
    yield Sample(draw.real(2, 6), np.array([1, 2, 3]), outputs=3, axis=-1, only=[1])


@samples("Slice")
def slice_(draw):
    x = draw.real(4, 5, 3)
    yield Sample(x, np.array([1]), np.array([3]))
    yield Sample(x, np.array([0, 1]), np.array([2, 1000]), np.array([0, 1]))
    yield Sample(x, np.array([-3, -1]), np.array([1000, -1000]), np.array([0, 1]), np.array([1, -2]))
    yield Sample(x, np.array([-2]), np.array([-1]), np.array([-1]))
    yield Sample(x, np.array([3]), np.array([1]))

    def at_run_time(op, x):
        end = op.Sub(op.Shape(x, start=0, end=1), [1])
        return op.Slice(x, op.Sub(end, [2]), end, [0])

    yield Sample(x, build=at_run_time)


@samples("Expand")
def expand(draw):
    yield Sample(draw.real(3, 1), np.array([2, 3, 4]))
    yield Sample(draw.real(3), np.array([1]))
    yield Sample(draw.real(), np.array([2, 2]))


@samples("Tile")
def tile(draw):
    yield Sample(draw.real(2, 3), np.array([2, 3]))
    yield Sample(draw.real(2, 3), np.array([1, 1]))


@samples("Pad")
def pad(draw):
    x = draw.real(3, 4)
    yield Sample(x, np.array([1, 2, 0, 1]))
    yield Sample(x, np.array([1, 2, 0, 1]), np.array(0.7))
    yield Sample(x, np.array([-1, 1, 0, -2]))
    yield Sample(x, np.array([1, -1]), None, np.array([1]))
    for mode in ("reflect", "edge", "wrap"):
        yield Sample(x, np.array([1, 2, 0, 1]), mode=mode)


@samples("Trilu")
def trilu(draw):
    yield Sample(draw.real(3, 4), upper=1)
    yield Sample(draw.real(2, 3, 3), np.array(-1), upper=0)


@samples("Gather")
def gather(draw):
    x = draw.real(4, 3, 2)
    yield Sample(x, np.array([0, 2, 2, -1]))
    yield Sample(x, np.array([[0, 1], [1, 1]]), axis=1)
    yield Sample(x, np.array(2), axis=-1 % 3 - 1)
    yield Sample(x, np.array(1), axis=-2)
    yield Sample(draw.real(5), np.array([4, 4, 0]))
    yield Sample(x, np.zeros((0,), I64))


@samples("GatherElements")
def gather_elements(draw):
    yield Sample(draw.real(3, 4), np.array([[0, 3, 3], [1, -1, 0]]), axis=1)
    yield Sample(draw.real(3, 4), np.array([[0, 1, 2, 0]]), axis=0)


@samples("GatherND")
def gather_nd(draw):
    yield Sample(draw.real(3, 4, 2), np.array([[0, 1], [2, 3], [0, 1]]))
    yield Sample(draw.real(2, 3, 2), np.array([[1], [0]]), batch_dims=1)
    yield Sample(draw.real(3, 4), np.array([[[0, -1]], [[2, 1]]]))


@samples("ScatterElements")
def scatter_elements(draw):
    index = np.array([[0, 2], [1, 0]])
    yield Sample(draw.real(3, 4), index, draw.real(2, 2), axis=1)
    yield Sample(draw.real(3, 4), index, draw.real(2, 2), axis=0)
    yield Sample(draw.real(3, 4), np.array([[1, 1]]), draw.real(1, 2), axis=1, reduction="add")


@samples("ScatterND")
def scatter_nd(draw):
    yield Sample(draw.real(4, 3), np.array([[2], [0]]), draw.real(2, 3))
    yield Sample(draw.real(4, 3), np.array([[2, 1], [0, 0]]), draw.real(2), reduction="add")
