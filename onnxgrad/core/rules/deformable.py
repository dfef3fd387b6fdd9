"""DeformConv: a convolution whose window looks at computed points.

It is written for any number of spatial axes. There are K positions in the window and P of the window; the channels of an offset
group look at the same points.

Tests: tests/core/rules/test_spatial.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like
from onnxgrad.core.rules.interpolation import LINEAR, flat_indices, lengths_of, outer, point_count, take_flat, weights
from onnxgrad.core.rules.registry import expansion
from onnxgrad.errors import UnsupportedGradient


@expansion("DeformConv")
def deform_conv(op, node):
    """y = W times the elements of x at which the offsets point, interpolated linearly and times mask, + B"""
    x, w, offset, b, mask = [*node.inputs, None, None][:5]
    axes = _spatial_axes(node)
    sets = op.Mul(op.Shape(x, start=0, end=1), [node.attr("offset_group")])
    points = _points(op, node, axes, sets)
    low = [op.Floor(p) for p in points]
    indices = op.Flatten(flat_indices(op, low, LINEAR, lengths_of(op, x, axes), "zeros", True), axis=1)
    weight = outer(op, [weights(op, op.Sub(p, below), LINEAR.coefficients) for p, below in zip(points, low, strict=True)])
    if mask is not None:
        by_point = op.Reshape(mask, op.Shape(points[0]), allowzero=1)
        weight = op.Mul(weight, op.Unsqueeze(by_point, list(range(2, 2 + axes))))
    columns = _product(op, _columns(op, node, sets, indices, points[0], weight, axes), node)
    shape = op.Concat(op.Shape(x, start=0, end=1), op.Shape(w, start=0, end=1), op.Shape(offset, start=2), axis=0)
    y = op.Reshape(columns, shape, allowzero=1)
    return y if b is None else op.Add(y, op.Unsqueeze(b, list(range(1, 1 + axes))))


def _spatial_axes(node: Any) -> Any:
    """Number of spatial axes"""
    rank = next((v.rank for v in [*node.inputs[:3], *node.outputs] if v.rank is not None), None)
    if rank is None:
        raise UnsupportedGradient(f"{node}: the rank of its input is unknown. Declare its shape in the model's value_info.")
    return rank - 2


def _points(op: Builder, node: Any, axes: int, sets: Variable) -> list[Variable]:
    """Coordinates in elements of x, [N sets, K P] per axis"""
    _, w, offset = node.inputs[:3]
    strides, dilations = node.attr("strides") or [1] * axes, node.attr("dilations") or [1] * axes
    pads = node.attr("pads") or [0] * 2 * axes
    kernel, space = op.Shape(w, start=2), op.Shape(offset, start=2)
    shifts = op.Reshape(offset, op.Concat(sets, kernel, [axes], space, axis=0), allowzero=1)
    points = []
    for axis in range(axes):
        within = op.Mul(_numbers(op, op.Shape(w, start=2 + axis, end=3 + axis), offset), float(dilations[axis]))
        window = op.Mul(_numbers(op, op.Shape(offset, start=2 + axis, end=3 + axis), offset), float(strides[axis]))
        window = op.Unsqueeze(op.Sub(window, float(pads[axis])), list(range(1, axes - axis)))
        start = op.Add(op.Unsqueeze(within, list(range(1, 2 * axes - axis))), window)
        points.append(op.Flatten(op.Add(op.Gather(shifts, axis, axis=1 + axes), start), axis=1))
    return points


def _numbers(op: Builder, length: Variable, like: Variable) -> Variable:
    """0, 1, ..., length - 1"""
    return cast_like(op, op.Range(0, op.Squeeze(length, [0]), 1), like)


def _columns(op: Builder, node: Any, sets: Variable, indices: Variable, points: Variable, weight: Variable, axes: int) -> Variable:
    """The im2col matrix at the points, [N sets, C / sets, K P]"""
    x = node.inputs[0]
    channels = op.Div(op.Shape(x, start=1, end=2), [node.attr("offset_group")])
    apart = op.Reshape(x, op.Concat(sets, channels, op.Shape(x, start=2), axis=0), allowzero=1)
    taps = op.Concat(op.Shape(points, start=1), [2**axes], axis=0)
    values = op.Reshape(take_flat(op, apart, indices, "zeros"), op.Concat(sets, channels, taps, axis=0), allowzero=1)
    weight = op.Reshape(weight, op.Concat(sets, [1], taps, axis=0), allowzero=1)
    return op.ReduceSum(op.Mul(values, weight), [3], keepdims=0)


def _product(op: Builder, columns: Variable, node: Any) -> Variable:
    """The filters of each group times its columns, [N, groups, filters, P]"""
    x, w, offset = node.inputs[:3]
    groups, batch = node.attr("group"), op.Shape(x, start=0, end=1)
    per_filter = op.Shape(op.Flatten(w, axis=1), start=1)
    filters = op.Div(op.Shape(w, start=0, end=1), [groups])
    matrix = op.Reshape(w, op.Concat([1], [groups], filters, per_filter, axis=0), allowzero=1)
    if x.dims is None or not isinstance(x.dims[0], int) or x.dims[0] == 0:
        # onnxruntime does not broadcast filters to a batch of none.
        matrix = op.Tile(matrix, op.Concat(op.Min(batch, [1]), [1, 1, 1], axis=0))
    return op.MatMul(
        matrix, op.Reshape(columns, op.Concat(batch, [groups], per_filter, point_count(op, offset), axis=0), allowzero=1)
    )
