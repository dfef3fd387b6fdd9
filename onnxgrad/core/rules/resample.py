"""Resize. Resampling is linear and separable, so its gradient multiplies by the transposed interpolation matrices.

The matrix of an axis is what Resize itself makes of the identity. So the gradient always belongs to the values that the
engine computes, whatever it does with fractional scales.

Tests: tests/core/rules/test_spatial.py.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.known import known_ints
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like
from onnxgrad.core.rules.registry import gradient
from onnxgrad.errors import UnsupportedGradient

_SHAPE_OF_INTERPOLATION = (
    "antialias",
    "coordinate_transformation_mode",
    "cubic_coeff_a",
    "exclude_outside",
    "mode",
    "nearest_mode",
)


@gradient("Resize")
def resize(op, node, gy):
    """gx = M^T gy along each resized axis, M = the matrix that Resize makes of the identity"""
    _require_fixed_points(node)
    x, axes = node.inputs[0], _resized_axes(node)
    for index, axis in enumerate(axes):
        if _unchanged(node, axes, index):
            continue
        matrix = _interpolation_matrix(op, node, axes, index)
        gy = _multiply_along(op, gy, cast_like(op, matrix, x), axis)
    return gy


def _require_fixed_points(node: Any) -> None:
    """Where Resize samples is not differentiated"""
    if node.wants(1) and _crops(node):
        raise UnsupportedGradient(f"{node}: no gradient of roi. Set stop_gradient on it, or crop with AffineGrid and GridSample.")
    if node.wants(2):
        raise UnsupportedGradient(f"{node}: no gradient of scales, which decide the shape of the output. Set stop_gradient on it.")


def _crops(node: Any) -> Any:
    return node.attr("coordinate_transformation_mode") == "tf_crop_and_resize"


def _keeps_ratio(node: Any) -> bool:
    return node.operand("sizes") is not None and node.attr("keep_aspect_ratio_policy") != "stretch"


def _resized_axes(node: Any) -> list[int]:
    """The axes in the order of scales and sizes, counted from the front"""
    operands = (node.operand("scales"), node.operand("sizes"))
    lengths = [v.static_shape[0] for v in operands if v is not None and v.static_shape and v.static_shape[0]]
    axes = node.attr("axes")
    ranks = [v.rank for v in (node.inputs[0], node.outputs[0]) if v.rank is not None]
    rank = next(iter(ranks + lengths), None) if not axes else next(iter(ranks), None)
    if rank is not None:
        return [axis % rank for axis in axes] if axes else list(range(rank))
    if not axes or min(axes) < 0:
        raise UnsupportedGradient(f"{node}: the rank of its input is unknown. Declare its shape in the model's value_info.")
    return list(axes)


def _unchanged(node: Any, axes: list[int], index: int) -> bool:
    """Return whether an axis certainly stays as it is"""
    x, (y,) = node.inputs[0], node.outputs
    if _crops(node):
        roi = node.operand("roi")
        if roi is None or roi.value is None or [roi.value.numpy()[i] for i in (index, len(axes) + index)] != [0.0, 1.0]:
            return False
    scales = node.operand("scales")
    if scales is not None and scales.value is not None:
        return bool(scales.value.numpy().reshape(-1)[index] == 1.0)
    if scales is not None or _keeps_ratio(node) or x.dims is None or y.dims is None:
        return False
    return x.dims[axes[index]] is not None and x.dims[axes[index]] == y.dims[axes[index]]


def _interpolation_matrix(op: Builder, node: Any, axes: list[int], index: int) -> Variable:
    """[in, out]: row i says how much each output takes from input i"""
    x, axis, scales = node.inputs[0], axes[index], node.operand("scales")
    size = op.Shape(x, start=axis, end=axis + 1)
    identity = op.EyeLike(op.Expand(op.constant(0, x.dtype), op.Concat(size, size, axis=0)))
    image = op.Unsqueeze(identity, [0, 2])
    attrs = {name: node.attr(name) for name in _SHAPE_OF_INTERPOLATION}
    roi = op.Gather(node.operand("roi"), [index, len(axes) + index]) if _crops(node) else None
    if _keeps_ratio(node):
        image = _resized_with_common_scale(op, node, axes, index, image, roi, attrs)
    elif scales is not None:
        image = op.Resize(image, roi, _entry(op, scales, index), axes=[3], **attrs)
    else:
        image = op.Resize(image, roi, None, op.Shape(node.outputs[0], start=axis, end=axis + 1), axes=[3], **attrs)
    return op.Squeeze(image, [0, 2])


def _entry(op: Builder, v: Variable, index: int) -> Variable:
    """One entry of a vector, as a vector"""
    if v.value is not None:
        return op.constant(v.value.numpy()[index : index + 1])
    return op.Slice(v, [index], [index + 1])


def _resized_with_common_scale(
    op: Builder, node: Any, axes: list[int], index: int, image: Variable, roi: Variable | None, attrs: Any
) -> Variable:
    """The common scale need not be that of the rounded size: an axis which has that scale is resized along"""
    length, target = _deciding_axis(op, node, axes)
    image = op.Expand(image, op.Concat([1, 1], length, [1], axis=0))
    sizes = op.Concat(target, _entry(op, node.operand("sizes"), index), axis=0)
    if roi is not None:
        roi = op.Concat([0.0], op.Slice(roi, [0], [1]), [1.0], op.Slice(roi, [1], [2]), axis=0)
    policy = node.attr("keep_aspect_ratio_policy")
    image = op.Resize(image, roi, None, sizes, axes=[2, 3], keep_aspect_ratio_policy=policy, **attrs)
    return op.Slice(image, [0], [1], [2])


def _deciding_axis(op: Builder, node: Any, axes: list[int]) -> tuple[Variable, Variable]:
    """Length and size whose quotient is the common scale; with known shapes the smallest such pair"""
    x, sizes = node.inputs[0], node.operand("sizes")
    smallest = node.attr("keep_aspect_ratio_policy") == "not_larger"
    known = known_ints(sizes)
    dims: list[Any] = [x.dims[axis] for axis in axes] if x.dims is not None else [None]
    if known is not None and all(isinstance(dim, int) and dim > 0 for dim in dims):
        pairs = zip(known, dims, strict=True)
        size, dim = (min if smallest else max)(pairs, key=lambda pair: pair[0] / pair[1])
        common = gcd(size, dim)
        return op.constant([dim // common]), op.constant([size // common])
    lengths = op.Gather(op.Shape(x), axes)
    ratios = op.Div(op.Cast(sizes, to=1), op.Cast(lengths, to=1))
    index = (op.ArgMin if smallest else op.ArgMax)(ratios, axis=0)
    return op.Gather(lengths, index), op.Gather(sizes, index)


def _multiply_along(op: Builder, g: Any, matrix: Variable, axis: int) -> Any:
    """Contract ``axis`` of g with the outputs of the matrix"""
    if g.rank is not None and axis == g.rank - 1:
        return op.MatMul(g, op.Transpose(matrix, perm=[1, 0]))
    if g.rank is not None and axis == g.rank - 2 and all(isinstance(dim, int) and dim > 0 for dim in g.dims[:axis]):
        return op.MatMul(matrix, g)
    before = op.Shape(op.Flatten(g, axis=axis), start=0, end=1)
    after = op.Shape(op.Flatten(g, axis=axis + 1), start=1)
    folded = op.Reshape(g, op.Concat(before, op.Shape(g, start=axis, end=axis + 1), after, axis=0), allowzero=1)
    whole = op.Concat(op.Shape(g, start=0, end=axis), op.Shape(matrix, start=0, end=1), op.Shape(g, start=axis + 1), axis=0)
    # onnxruntime does not broadcast a matrix to a batch of none.
    copies = op.Expand(matrix, op.Concat(op.Min(before, [1]), [1, 1], axis=0))
    return op.Reshape(op.MatMul(copies, folded), whole, allowzero=1)
