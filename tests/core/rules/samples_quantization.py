"""What finite differences can see of quantisation: scales of dequantisation, and saturated values. The rest: test_quantization."""

import numpy as np

from onnxgrad.testing import Sample
from tests.core.rules.samples import samples
from tests.core.rules.samples_indexing import rankless


@samples("DequantizeLinear")
def dequantize(draw):
    levels = draw.integers(4, 3, low=-100, high=100).astype(np.int8)
    yield Sample(levels, draw.positive())
    yield Sample(levels, draw.positive(1), np.array([3], np.int8), axis=0)
    for axis, size in ((0, 4), (1, 3), (-1, 3), (-2, 4)):
        yield Sample(levels, draw.positive(size), draw.integers(size, low=-5, high=5).astype(np.int8), axis=axis)
    yield Sample(levels, draw.positive(3), build=lambda op, q, s: op.DequantizeLinear(rankless(op, q), s))
    yield Sample(levels, draw.positive(2, 3), None, axis=0, block_size=2)
    yield Sample(levels, draw.positive(4, 2), np.ones((4, 2), np.int8), axis=-1, block_size=2)
    yield Sample(levels.astype(np.int32), draw.positive(3))
    yield Sample(levels[0], draw.positive(), opset=25)
    yield Sample(np.array(4, np.uint8), draw.positive(), np.array(7, np.uint8))


@samples("QuantizeLinear")
def saturated(draw):
    """The result of a saturated value does not depend on it, and is a bound times the scale"""

    def pair(op, x, scale, zero, **attrs):
        return op.DequantizeLinear(op.QuantizeLinear(x, scale, zero, **attrs), scale, zero, **attrs)

    x = np.array([[900.0, -800.0], [700.0, 600.0], [-1000.0, -750.0]])
    for dtype in (np.uint8, np.int8):
        yield Sample(x, np.array(0.7), np.array(2, dtype), build=pair)
        yield Sample(
            x, np.array([0.7, 1.1]), np.array([2, -2 % 256], np.uint8).astype(dtype), build=lambda op, *v: pair(op, *v, axis=-1)
        )
        yield Sample(x, np.full((2, 2), 0.9), np.zeros((2, 2), dtype), build=lambda op, *v: pair(op, *v, axis=0, block_size=2))


@samples("DynamicQuantizeLinear")
def measured(draw):
    for shift in (0.0, 3.0, -3.0):
        yield Sample(draw.real(3, 4, apart=0.05) + shift, outputs=3, only=[1])


@samples("MatMulInteger")
def integer_product(draw):
    def build(op, a, b, za, zb, scale):
        return op.Mul(op.Cast(op.MatMulInteger(a, b, za, zb), to=scale.dtype.number), scale)

    a, b = (draw.integers(*shape, low=0, high=20).astype(np.uint8) for shape in ((2, 3), (3, 4)))
    yield Sample(a, b, np.array(3, np.uint8), np.array(5, np.uint8), draw.positive(), build=build)
    yield Sample(a, b, None, np.array([5, 0, 1, 9], np.uint8), draw.positive(4), build=build)


@samples("ConvInteger")
def integer_convolution(draw):
    def build(op, x, w, zero, scale):
        return op.Mul(op.Cast(op.ConvInteger(x, w, zero), to=scale.dtype.number), scale)

    x, w = (draw.integers(*shape, low=0, high=20).astype(np.uint8) for shape in ((1, 2, 4, 4), (3, 2, 3, 3)))
    yield Sample(x, w, np.array(3, np.uint8), draw.positive(), build=build)


def saturated_product(kind):
    """Far beyond the range, the result is a bound times its scale"""

    def product(op, a, b, scale):
        one, zero = op.constant(np.float32(1)), op.constant(np.uint8(0))
        scale = op.Reshape(scale, [])
        return op.DequantizeLinear(op.emit(kind, (a, one, zero, b, one, zero, op.Cast(scale, to=1), zero), {}), scale, zero)

    return product


@samples("QLinearMatMul")
def saturated_matrix_product(draw):
    a, b = (draw.integers(*shape, low=100, high=200).astype(np.uint8) for shape in ((2, 3), (3, 4)))
    yield Sample(a, b, np.array(0.7), build=saturated_product("QLinearMatMul"))


@samples("QLinearConv")
def saturated_convolution(draw):
    x, w = (draw.integers(*shape, low=100, high=200).astype(np.uint8) for shape in ((1, 2, 4, 4), (3, 2, 3, 3)))
    yield Sample(x, w, np.array(0.7), build=saturated_product("QLinearConv"))
