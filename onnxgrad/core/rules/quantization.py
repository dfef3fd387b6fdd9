"""Quantised graphs, by the straight-through convention: rounding counts as the identity, saturation as what it is.

Bengio, Leonard and Courville, 2013. The integers between QuantizeLinear and DequantizeLinear carry a gradient in floating point.
The gradient of the scale is then that of Esser et al., "Learned Step Size Quantization", 2020, equation 3: round(v) - v inside
the range, the bound outside. ``onnxgrad.straight_through(False)`` turns the convention off.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import add_rows, all_but, cast_like, masked, size_along
from onnxgrad.core.rules.registry import gradient
from onnxgrad.errors import UnsupportedGradient
from onnxgrad.internal import state

_LARGEST = {
    "float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0, "float8_e5m2fnuz": 57344.0, "float4e2m1": 6.0,
}  # fmt: skip


def _require_convention(node: Any) -> None:
    if not state.current.straight_through:
        raise UnsupportedGradient(
            f"{node}: rounding has a zero derivative almost everywhere, and the straight-through convention is off. "
            "Use onnxgrad.straight_through(True), or set stop_gradient on its inputs."
        )


@gradient("QuantizeLinear", quantizes=True)
def quantize_linear(op, node, gy):
    """straight through: gx = gy / scale where rounding does not leave the range, else 0;  gscale = -sum(gx x / scale)"""
    _require_convention(node)
    data, scale = node.inputs[:2]
    x = cast_like(op, data, gy)
    wide = _spread(op, node, cast_like(op, scale, gy), data)
    quotient = op.Div(x, wide)
    gx = op.Div(masked(op, gy, _in_range(op, node, quotient)), wide)
    if not node.wants(1):
        return gx
    return gx, _gathered(op, node, op.Neg(op.Mul(gx, quotient)), scale, data)


def _in_range(op: Builder, node: Any, quotient: Variable) -> Variable:
    """Return a mask of the quantised values that are not saturated."""
    dtype, zero = node.outputs[0].dtype, node.operand("y_zero_point")
    if not dtype.is_integer:
        return op.LessOrEqual(op.Abs(quotient), _LARGEST[dtype.name])
    level = op.Round(quotient)
    if zero is not None:
        level = op.Add(level, _spread(op, node, cast_like(op, zero, quotient), node.inputs[0]))
    low = -(2 ** (dtype.bits - 1)) if dtype.name.startswith("int") else 0
    return op.Equal(level, op.Clip(level, float(low), float(low + 2**dtype.bits - 1)))


@gradient("DequantizeLinear", moves=True)
def dequantize_linear(op, node, gy):
    """gscale = sum(gy (x - zero point));  gx = gy scale, where x stands for real numbers"""
    x, scale = node.inputs[:2]
    gx = gscale = None
    if node.wants(0):
        gx = op.Mul(gy, _spread(op, node, cast_like(op, scale, gy), x))
    if node.wants(1):
        zero, value = node.operand("x_zero_point"), cast_like(op, x, gy)
        if zero is not None:
            value = op.Sub(value, _spread(op, node, cast_like(op, zero, gy), x))
        gscale = _gathered(op, node, op.Mul(gy, value), scale, x)
    return gx, gscale


@gradient("DynamicQuantizeLinear", quantizes=True)
def dynamic_quantize_linear(op, node, gy, gscale=None, gzero=None):
    """straight through: gx = gy / scale, and (gscale - sum(gy x) / scale^2) / 255 for the maximum, minus that for the minimum"""
    _require_convention(node)
    (x,) = node.inputs
    scale = node.outputs[1] if node.outputs[1] is not None else node.extra_output(1)
    gx = None if gy is None else op.Div(gy, scale)
    total = None if gx is None else op.Neg(op.Div(op.ReduceSum(op.Mul(gx, x), keepdims=0), scale))
    if gscale is not None:
        total = gscale if total is None else op.Add(total, gscale)
    share = op.Mul(total, op.Sub(_extreme(op, x, op.ReduceMax, op.Greater), _extreme(op, x, op.ReduceMin, op.Less)))
    share = op.Mul(share, 1.0 / 255.0)
    return share if gx is None else op.Add(gx, share)


def _extreme(op: Builder, x: Variable, reduce: Any, beyond: Any) -> Variable:
    """The derivative of max(x, 0) or min(x, 0) over a tensor; ties share it equally"""
    extreme = reduce(x, keepdims=0)
    chosen = cast_like(op, op.And(op.Equal(x, extreme), beyond(extreme, 0.0)), x)
    return op.Div(chosen, op.Max(op.ReduceSum(chosen, keepdims=0), 1.0))


# Scales: one per tensor, one per slice along an axis, or one per block along an axis --------------------------------------


def _form(node: Any, v: Variable, x: Variable) -> tuple[str, int]:
    """("tensor" | "axis" | "block", axis) of a scale or zero point"""
    if v.rank is None:
        raise UnsupportedGradient(f"{node}: the rank of its scale is unknown. Declare its shape in the model's value_info.")
    axis = node.attr("axis")
    if "block_size" in node.operator.schema.attributes and node.attr("block_size"):
        return "block", axis
    if v.rank == 0 or v.static_shape == (1,):
        return "tensor", axis
    return "axis", axis


def _spread(op: Builder, node: Any, v: Variable, x: Any) -> Any:
    """A scale or zero point as something that broadcasts against x"""
    form, axis = _form(node, v, x)
    if form == "tensor":
        return op.Reshape(v, []) if v.rank else v
    if form == "block":
        return op.Gather(v, _block_of(op, node, x, axis), axis=axis)
    if axis < 0 or x.rank is not None:
        behind = (-axis if axis < 0 else x.rank - axis) - 1
        return op.Unsqueeze(v, list(range(1, behind + 1))) if behind > 0 else v
    behind = op.Sub(op.Shape(op.Shape(x)), [axis + 1])
    return op.Reshape(v, op.Concat([-1], op.Expand(1, behind), axis=0))


def _gathered(op: Builder, node: Any, g: Variable, scale: Any, x: Variable) -> Any:
    """The sum of ``g`` over all that one scale serves"""
    form, axis = _form(node, scale, x)
    if form == "tensor":
        return op.Reshape(op.ReduceSum(g, keepdims=0), op.Shape(scale))
    if form == "block":
        return add_rows(op, scale, _block_of(op, node, x, axis), g, axis)
    axes = all_but(op, axis, x) if x.rank != 1 else []
    along = op.ReduceSum(g, axes, keepdims=0, noop_with_empty_axes=1)
    if isinstance(scale.dims[0], int):
        return along
    per_scale = op.Reshape(along, op.Concat(op.Shape(scale), [-1], axis=0))  # all of them, if there is one scale after all
    return op.ReduceSum(per_scale, [1], keepdims=0)


def _block_of(op: Builder, node: Any, x: Variable, axis: int) -> Variable:
    """Return the block of each index along the axis."""
    return op.Div(op.Range(0, op.Squeeze(size_along(op, x, axis), [0]), 1), node.attr("block_size"))
