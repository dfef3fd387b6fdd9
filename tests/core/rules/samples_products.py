import numpy as np

from onnxgrad.testing import Sample
from tests.core.rules.hiding import at_run_time, of_unknown_rank
from tests.core.rules.samples import samples

ZEROS = np.array([[0.0, 1.5, -2.0, 0.7], [0.0, 0.0, 1.2, -0.4], [1.1, -0.6, 2.0, 0.9], [0.0, 0.0, 0.0, 0.0]])


@samples("ReduceProd")
def reduce_prod(draw):
    yield Sample(ZEROS, np.array([1]), keepdims=0)
    yield Sample(ZEROS)
    yield Sample(draw.real(2, 3, 2), np.array([2, 0]))
    yield Sample(draw.real(2, 3, 2), np.array([-2]), keepdims=0)
    yield Sample(draw.real(5), keepdims=0)
    yield Sample(draw.real())
    yield Sample(draw.real(2, 3), noop_with_empty_axes=1)
    yield Sample(draw.real(2, 3), np.zeros(0, np.int64), noop_with_empty_axes=1, keepdims=0)
    yield Sample(draw.real(2, 3), np.zeros(0, np.int64), keepdims=0)
    yield Sample(draw.real(2, 0), np.array([1]))
    yield Sample(draw.real(2, 0), np.array([0]), keepdims=0)
    yield Sample(draw.real(0, 2))


@samples("ReduceProd")
def reduce_prod_of_many(draw):
    x = draw.real(2, 40, low=0.8, high=1.2)
    x[0, 3] = x[1, 5] = x[1, 37] = 0.0
    yield Sample(x, np.array([1]), keepdims=0)
    yield Sample(draw.real(7, 7, low=0.8, high=1.2))


@samples("ReduceProd")
def reduce_prod_over_run_time_axes(draw):
    x = draw.real(2, 3, 2)
    x[0, 1, 0] = 0.0

    def build(keepdims, hide):
        return lambda op, x, axes: op.ReduceProd(hide(op, x), at_run_time(op, axes), keepdims=keepdims)

    for keepdims in (0, 1):
        yield Sample(x, np.array([0, -1]), build=build(keepdims, lambda op, x: x))
        yield Sample(x, np.array([1]), build=build(keepdims, of_unknown_rank))
    yield Sample(x, np.array([1]), build=lambda op, x, axes: op.ReduceProd(of_unknown_rank(op, x), axes, keepdims=0))
    yield Sample(draw.real(2, 0, 2), np.array([1]), build=build(0, of_unknown_rank))


@samples("CumProd")
def cum_prod(draw):
    for exclusive in (0, 1):
        for reverse in (0, 1):
            yield Sample(ZEROS, np.array(1), opset=26, exclusive=exclusive, reverse=reverse)
    yield Sample(ZEROS, np.array(-2), opset=26)
    yield Sample(draw.real(2, 3, 2), np.array(-1), opset=26, reverse=1)
    yield Sample(draw.real(2, 0), np.array(1), opset=26)
    yield Sample(draw.real(2, 3, 2), np.array(-2), opset=26, build=lambda op, x, axis: op.CumProd(x, at_run_time(op, axis)))
    yield Sample(
        draw.real(2, 3), np.array(-1), opset=26, build=lambda op, x, axis: op.CumProd(of_unknown_rank(op, x), at_run_time(op, axis))
    )


@samples("Det")
def det(draw):
    yield Sample(draw.real(3, 3))
    yield Sample(draw.real(2, 2, 3, 3))
    yield Sample(draw.real(1, 1))
    yield Sample(np.outer([1.0, 2.0, -1.0], [0.5, 1.0, 2.0]))
    yield Sample(np.zeros((2, 2, 2)))
    yield Sample(draw.real(4, 4))
    yield Sample(np.array([[0.0, 1.0, 2.0], [0.0, -1.0, 0.5], [0.0, 3.0, 1.0]]))
    yield Sample(draw.real(0, 3, 3))
