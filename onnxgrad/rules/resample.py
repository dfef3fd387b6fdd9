"""Resize. Resampling is linear and separable, so its gradient multiplies by the transposed interpolation matrices."""

from __future__ import annotations

from onnxgrad.autodiff.registry import gradient
from onnxgrad.errors import UnsupportedGradient
from onnxgrad.rules.common import cast_like

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
    x, (y,) = node.inputs[0], node.outputs
    if x.rank is None:
        raise UnsupportedGradient(f"{node}: the rank of its input is unknown. Declare its shape in the model's value_info.")
    if node.attr("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise UnsupportedGradient(f"{node}: no gradient is written for tf_crop_and_resize. Use another coordinate mode.")
    if node.attr("keep_aspect_ratio_policy") != "stretch":
        raise UnsupportedGradient(f"{node}: no gradient is written for keep_aspect_ratio_policy. Give the final sizes.")
    given_axes = node.attr("axes")
    axes = [axis % x.rank for axis in given_axes] if given_axes else list(range(x.rank))
    scales = node.operand("scales")
    for place, axis in enumerate(axes):
        if _unchanged(x, y, scales, axis, place):
            continue
        matrix = _interpolation_matrix(op, node, x, y, scales, axis, place)
        gy = _multiply_along(op, gy, matrix, axis)
    return gy


def _unchanged(x, y, scales, axis, place):
    """Whether an axis certainly keeps its size"""
    if scales is not None and scales.value is not None:
        return bool(scales.value.numpy().reshape(-1)[place] == 1.0)
    return x.dims[axis] is not None and x.dims[axis] == y.dims[axis] if y.dims is not None else False


def _interpolation_matrix(op, node, x, y, scales, axis, place):
    """[in, out]: row i says how much each output takes from input i"""
    size = op.Shape(x, start=axis, end=axis + 1)
    identity = op.EyeLike(op.Expand(op.constant(0, x.dtype), op.Concat(size, size, axis=0)))
    image = op.Unsqueeze(identity, [0, 1])
    attrs = {name: node.attr(name) for name in _SHAPE_OF_INTERPOLATION}
    if scales is not None:
        one = op.constant([1.0, 1.0, 1.0], scales.dtype)
        factors = op.Concat(one, op.Slice(scales, [place], [place + 1]), axis=0)
        resized = op.Resize(image, None, factors, **attrs)
    else:
        out = op.Shape(y, start=axis, end=axis + 1)
        resized = op.Resize(image, None, None, op.Concat([1, 1], size, out, axis=0), **attrs)
    return cast_like(op, op.Squeeze(resized, [0, 1]), x)


def _multiply_along(op, g, matrix, axis):
    """Contract ``axis`` of g with the outputs of the matrix"""
    rank = g.rank
    if axis == rank - 1:
        return op.MatMul(g, op.Transpose(matrix, perm=[1, 0]))
    if axis == rank - 2:
        return op.MatMul(matrix, g)
    order = [i for i in range(rank) if i != axis] + [axis]
    back = [order.index(i) for i in range(rank)]
    turned = op.MatMul(op.Transpose(g, perm=order), op.Transpose(matrix, perm=[1, 0]))
    return op.Transpose(turned, perm=back)
