"""Differentiate products in integers as products of the real numbers that the integers represent: straight through, as in QDQ form.

The operator stays. What its gradient reads is dequantised when the gradient arrives, so that no float copy of the weights is held.

Tests: tests/core/rules/test_quantization.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like, not_before
from onnxgrad.core.rules.registry import expansion
from onnxgrad.errors import UnsupportedGradient

__all__ = ["dequantized", "quantized", "real_conv"]

_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def dequantized(op: Builder, node: Any, x: Variable, scale: Any, zero: Variable | None, axis: int = -1) -> Any:
    """(x - zero) * scale, with one scale for all or one for each slice along the axis"""
    if scale.rank is None or scale.rank > 1:
        raise UnsupportedGradient(
            f"{node.operator}: no gradient for scales of rank {scale.rank}. Declare the shape of its scales, or set stop_gradient."
        )
    if x.value is not None:
        scale = not_before(op, scale, node.arriving)
    one_each = scale.rank == 1 and scale.static_shape != (1,)
    return op.DequantizeLinear(x, scale, zero, axis=axis) if one_each else op.DequantizeLinear(x, scale, zero)


def quantized(op: Builder, y: Variable, scale: Variable, zero: Variable | None, like: Variable) -> Any:
    """round(y / scale) + zero, in the element type of ``like`` where there is no zero point"""
    return op.QuantizeLinear(y, scale, zero) if zero is not None else op.QuantizeLinear(y, scale, output_dtype=like.dtype.number)


def _shifted(op: Builder, node: Any, x: Variable, zero: Variable | None, axis: int) -> Any:
    """x - zero in float32"""
    one = op.constant(np.float32(1))
    if zero is not None and zero.rank != 0 and zero.static_shape != (1,):
        one = op.Expand(one, op.Shape(zero))
    return dequantized(op, node, x, one, zero, axis)


@expansion("MatMulInteger", beside=True, quantizes=True)
def mat_mul_integer(op, node):
    """y = (a - zero point of a) (b - zero point of b), in floating point"""
    a, b = node.inputs[:2]
    left = _shifted(op, node, a, node.operand("a_zero_point"), -2)
    return op.MatMul(left, _shifted(op, node, b, node.operand("b_zero_point"), -1))


@expansion("ConvInteger", beside=True, quantizes=True)
def conv_integer(op, node):
    """y = conv(x - zero point of x, w - zero point of w), in floating point"""
    x, w = node.inputs[:2]
    image = _shifted(op, node, x, node.operand("x_zero_point"), 1)
    filters = _shifted(op, node, w, node.operand("w_zero_point"), 0)
    attrs = {name: node.attr(name) for name in _CONV if node.attr(name) is not None}
    return op.Conv(image, filters, **attrs)


@expansion("QLinearMatMul", beside=True, quantizes=True)
def q_linear_mat_mul(op, node):
    """y = quantize(dequantize(a) dequantize(b))"""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs
    y = op.MatMul(dequantized(op, node, a, a_scale, a_zero, -2), dequantized(op, node, b, b_scale, b_zero, -1))
    return quantized(op, y, y_scale, y_zero, a)


@expansion("QLinearConv", beside=True, quantizes=True)
def q_linear_conv(op, node):
    """y = quantize(conv(dequantize(x), dequantize(w)) + b * x_scale * w_scale)"""
    attrs = {name: node.attr(name) for name in _CONV if node.attr(name) is not None}
    return real_conv(op, node, node.inputs[0], [*node.inputs, None][:9], attrs)


def real_conv(op: Builder, node: Any, x: Variable, inputs: Any, attrs: dict[str, Any]) -> Any:
    """QLinearConv of ``x`` in real numbers, quantised again"""
    _, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = inputs
    filters = dequantized(op, node, w, w_scale, w_zero, 0)
    real = None if bias is None else op.Mul(cast_like(op, bias, x_scale), op.Mul(x_scale, w_scale))
    if real is not None and w_scale.rank == 0:
        real = op.Reshape(real, [-1])
    return quantized(op, op.Conv(dequantized(op, node, x, x_scale, x_zero), filters, real, **attrs), y_scale, y_zero, x)
