"""Resampling and rearranging images.

Tests: tests/nn/test_functional.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked
from onnxgrad.nn.functional.layout import ImageLayer
from onnxgrad.nn.functional.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from onnxgrad.nn.types import Layout, Layout2D, ResizeMode, Sizes
from onnxgrad.tensor.common import as_dtype, integers, known_dim, positive, shape_operand
from onnxgrad.tensor.layer import LayerHelper, is_variable, variables_in

__all__ = [
    "affine_grid", "channel_shuffle", "grid_sample", "interpolate", "pixel_shuffle", "pixel_unshuffle", "temporal_shift",
    "upsample",
]  # fmt: skip

_RESIZED = ("float16", "bfloat16", "float32", "int8", "int32", "uint8")
_RANKS = {"linear": (3,), "bilinear": (4,), "bicubic": (4,), "trilinear": (5,), "nearest": (3, 4, 5), "area": (3, 4, 5)}


@checked
def interpolate(
    x: Variable,
    size: Sizes | None = None,
    scale_factor: float | Variable | Sequence[float] | None = None,
    mode: ResizeMode = "nearest",
    align_corners: bool = False,
    align_mode: Literal[0, 1] = 0,
    data_format: Layout | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    name: str | None = None,
) -> Variable:
    """Resize images.

    Args:
        x: [N, C, ...] of rank 3 (linear), 4 (bilinear, bicubic) or 5 (trilinear); any of them for 'nearest' and 'area'.
        size: sizes of the spatial axes of the result: ints, an integer Variable, or a list that mixes both.
        scale_factor: factors on the sizes, in place of ``size``: one, one for each axis, or a Variable.
        mode: 'nearest', 'linear', 'bilinear', 'trilinear', 'bicubic' or 'area' (means).
        align_corners: let the centres of the corner elements coincide, rather than the outer edges.
        align_mode: for the linear modes without ``align_corners``: 0 counts from element centres, 1 from the first element.
        data_format: channels are on axis 1 if its second letter is C (the default), else on the last axis.
        recompute_scale_factor: True to take the ratio of the sizes, which are rounded down, in place of ``scale_factor``.
        antialias: True to weigh all elements that fall on one of a smaller image, for 'bilinear' and 'bicubic'.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if the mode does not fit the rank, or not exactly one of ``size`` and ``scale_factor`` is given.

    Example:
        >>> F.interpolate(static.data("x", [None, 3, 4, 4]), scale_factor=2).shape
        (-1, 3, 8, 8)
    """
    kind = mode.lower()
    if x.ndim not in _RANKS.get(kind, ()):
        raise ArgumentError(f"interpolate: mode {mode!r} does not fit the {x.ndim} axes of {x!r}. Modes: {sorted(_RANKS)}.")
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate: give either size or scale_factor.")
    if align_corners and kind in ("nearest", "area"):
        raise ArgumentError(f"interpolate: align_corners does not go with mode {mode!r}.")
    if recompute_scale_factor and size is not None:
        raise ArgumentError("interpolate: recompute_scale_factor has no effect where size is given. Leave it out.")
    if antialias and kind not in ("bilinear", "bicubic"):
        raise ArgumentError(f"interpolate: antialias goes with 'bilinear' and 'bicubic', not {mode!r}.")
    layer = ImageLayer(f"{kind}_interp_v2", x, data_format or "NC", axes=None if data_format is None else x.ndim - 2, name=name)
    x = layer.x
    if recompute_scale_factor and scale_factor is not None:
        size, scale_factor = _scaled_sizes(layer, x, scale_factor), None
    if antialias:
        y = _weighed(layer, x, size, scale_factor, kind, align_corners)
    else:
        y = _resized(layer, x, size, scale_factor, kind, align_corners, align_mode, all_axes=layer.last)
    return layer.in_layout(y)


def _weighed(layer: LayerHelper, x: Variable, size: Any, scale: Any, mode: str, align_corners: bool) -> Variable:
    """An image of which each element is the mean of those that fall on it, by a filter as wide as it is reduced

    Products with the weights, as onnxruntime's Resize weighs by another filter.
    """
    known = x.shape[2:]
    if size is None and not is_variable(scale):
        factors = [float(scale)] * 2 if isinstance(scale, (int, float)) else [float(f) for f in scale]
        size = [int(n * f) for n, f in zip(known, factors, strict=True)]
    sizes = [size] * 2 if isinstance(size, int) else size
    if is_variable(sizes) or sizes is None or any(is_variable(n) for n in sizes) or min(known) < 0:
        raise ArgumentError("interpolate: antialias needs known sizes, of the image and of the result. Give size as ints.")
    high, wide = (_weights(n, int(m), mode, align_corners) for n, m in zip(known, sizes, strict=True))
    rows = layer.op.MatMul(layer.op.constant(high, x.dtype), x)
    return layer.result("MatMul", rows, layer.op.constant(wide.T.copy(), x.dtype))


def _weights(many: int, few: int, mode: str, align_corners: bool) -> np.ndarray[Any, Any]:
    """Weights of ``many`` elements for each of ``few``, by a triangle or by a cubic of support 2 (Keys 1981)"""
    step = (many - 1) / (few - 1) if align_corners and few > 1 else 0.0 if align_corners else many / few
    centres, width = (np.arange(few) + 0.5) * step, max(step, 1.0)
    far = np.abs((np.arange(many) + 0.5 - centres[:, None]) / width)
    if mode == "bilinear":
        weights = np.maximum(1 - far, 0)
    else:
        near, further = (1.5 * far - 2.5) * far * far + 1, ((-0.5 * far + 2.5) * far - 4) * far + 2
        weights = np.where(far < 1, near, np.where(far < 2, further, 0))
    shares: np.ndarray[Any, Any] = weights / weights.sum(1, keepdims=True)
    return shares


def _scaled_sizes(layer: LayerHelper, x: Variable, factors: Any) -> Variable | list[int]:
    """Spatial sizes times factors, rounded down"""
    op, count = layer.op, x.ndim - 2
    if not is_variable(factors):
        known = [float(factors)] * count if isinstance(factors, (int, float)) else [float(f) for f in factors]
        if min(x.shape[2:]) >= 0:
            return [int(n * f) for n, f in zip(x.shape[2:], known, strict=True)]
        factors = op.constant(np.array(known, np.float32))
    sizes = op.Cast(op.Shape(x, start=2), to=1)
    return op.Cast(op.Floor(op.Mul(sizes, as_dtype(op, factors, "float32"))), to=7)


def _resized(
    layer: LayerHelper,
    x: Variable,
    size: Any,
    scale: Any,
    mode: str,
    align_corners: bool,
    align_mode: int,
    all_axes: bool,
) -> Variable:
    op, axes = layer.op, list(range(2, x.ndim))
    if size is None and not is_variable(scale):
        scale = [float(scale)] * len(axes) if isinstance(scale, (int, float)) else [float(f) for f in scale]
        size = _exact_size(x, scale, align_corners or mode == "area")
    if mode == "area":
        if size is None:
            raise ArgumentError("interpolate: mode 'area' needs a size, or known sizes of its input.")
        pools: list[Callable[..., Variable]] = [adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d]
        return pools[len(axes) - 1](x, integers(size, "interpolate"))
    if mode == "nearest" and x.dtype.name not in _RESIZED:
        return _picked(layer, x, size, scale, align_mode)
    attrs = _coordinates(mode, align_corners, align_mode)
    # onnxruntime moves a Transpose through Resize and then loses the operand if it has fewer entries than axes.
    attrs["axes"] = None if all_axes else axes
    if size is None:
        one = op.constant(np.ones(2, np.float32))
        factors = op.Expand(op.Reshape(scale, np.array([-1])), np.array([len(axes)])) if is_variable(scale) else scale
        factors = as_dtype(op, factors, "float32") if is_variable(factors) else np.array(factors, np.float32)
        return layer.result("Resize", x, None, op.Concat(one, factors, axis=0) if all_axes else factors, **attrs)
    size = [size] * len(axes) if isinstance(size, int) else size
    if not is_variable(size) and len(size) != len(axes):
        raise ArgumentError(f"interpolate: size {size} must have {len(axes)} entries.")
    sizes = shape_operand(op, size)
    if all_axes:
        sizes = op.Concat(op.Shape(x, start=0, end=2), sizes, axis=0)
    return layer.result("Resize", x, None, None, sizes, **attrs)


def _picked(layer: LayerHelper, x: Variable, size: Any, scale: Any, align_mode: int) -> Variable:
    """Nearest elements of a type that no Resize of onnxruntime takes: what is resized are their places."""
    op, spatial = layer.op, layer.op.Shape(x, start=2)
    positions = op.Range(np.array(0), op.ReduceProd(spatial, keepdims=0), np.array(1))
    image = op.Reshape(op.Cast(positions, to=6), op.Concat(np.array([1, 1]), spatial, axis=0))
    chosen = _resized(layer, image, size, scale, "nearest", False, align_mode, all_axes=False)
    return layer.result("Squeeze", op.Gather(op.Reshape(x, np.array([0, 0, -1])), chosen, axis=2), [2, 3])


def _exact_size(x: Variable, factors: list[float], rounds: bool) -> list[int] | None:
    """The sizes that factors lead to, if they are known and whole (or may be rounded down)"""
    sizes = x.shape[2:]
    if any(n < 0 for n in sizes):
        return None
    wanted = [n * f for n, f in zip(sizes, factors, strict=True)]
    return [int(m) for m in wanted] if rounds or all(m == int(m) for m in wanted) else None


def _coordinates(mode: str, align_corners: bool, align_mode: int) -> dict[str, Any]:
    """Paddle's choice of coordinates in ONNX's words"""
    if mode == "nearest":
        return {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    attrs: dict[str, Any] = {"mode": "cubic", "cubic_coeff_a": -0.75} if mode == "bicubic" else {"mode": "linear"}
    without_corners = "asymmetric" if align_mode == 1 and mode != "bicubic" else "half_pixel"
    return {**attrs, "coordinate_transformation_mode": "align_corners" if align_corners else without_corners}


@checked
def upsample(
    x: Variable,
    size: Sizes | None = None,
    scale_factor: float | Variable | Sequence[float] | None = None,
    mode: ResizeMode = "nearest",
    align_corners: bool = False,
    align_mode: Literal[0, 1] = 0,
    data_format: Layout | None = None,
    name: str | None = None,
) -> Variable:
    """Resize images: another name of ``interpolate``.

    Args:
        x: [N, C, ...] of rank 3 (linear), 4 (bilinear, bicubic) or 5 (trilinear); any of them for 'nearest' and 'area'.
        size: sizes of the spatial axes of the result: ints, an integer Variable, or a list that mixes both.
        scale_factor: factors on the sizes, in place of ``size``: one, one for each axis, or a Variable.
        mode: 'nearest', 'linear', 'bilinear', 'trilinear', 'bicubic' or 'area' (means).
        align_corners: let the centres of the corner elements coincide, rather than the outer edges.
        align_mode: for the linear modes without ``align_corners``: 0 counts from element centres, 1 from the first element.
        data_format: channels are on axis 1 if its second letter is C (the default), else on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if the mode does not fit the rank, or not exactly one of ``size`` and ``scale_factor`` is given.

    Example:
        >>> F.upsample(static.data("x", [None, 3, 4, 4]), scale_factor=2).shape
        (-1, 3, 8, 8)
    """
    return interpolate(x, size, scale_factor, mode, align_corners, align_mode, data_format, name=name)


@checked
def grid_sample(
    x: Variable,
    grid: Variable,
    mode: Literal["bilinear", "nearest"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = True,
    name: str | None = None,
) -> Variable:
    """Read images at points between -1 and 1 along each axis, x before y. Jaderberg et al. 2015.

    Args:
        x: variable of shape [N, C, H, W] or [N, C, D, H, W].
        grid: points, of shape [N, H', W', 2] or [N, D', H', W', 3].
        mode: 'bilinear', or 'nearest' element.
        padding_mode: what lies outside: 'zeros', the 'border', or the 'reflection' of the image.
        align_corners: -1 and 1 are the centres of the corner elements, rather than the outer edges.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another mode.

    Example:
        >>> F.grid_sample(static.data("x", [None, 3, 4, 4]), static.data("grid", [None, 5, 6, 2])).shape
        (-1, 3, 5, 6)
    """
    layer = LayerHelper("grid_sample", x, grid, name=name)
    attrs = {"mode": "linear" if mode == "bilinear" else "nearest", "align_corners": int(align_corners)}
    return layer.result("GridSample", x, grid, padding_mode=padding_mode, **attrs)


@checked
def affine_grid(theta: Variable, out_shape: Sizes, align_corners: bool = True, name: str | None = None) -> Variable:
    """Compute the points for ``grid_sample`` that an affine map gives. Jaderberg et al. 2015.

    Args:
        theta: matrices [N, 2, 3] for images, [N, 3, 4] for volumes.
        out_shape: [N, C, H, W] or [N, C, D, H, W] of the result of ``grid_sample``.
        align_corners: -1 and 1 are the centres of the corner elements, rather than the outer edges.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.affine_grid(static.data("theta", [2, 2, 3]), [2, 3, 4, 5]).shape
        (2, 4, 5, 2)
    """
    layer = LayerHelper("affine_grid", theta, *variables_in(out_shape), name=name)
    return layer.result("AffineGrid", theta, shape_operand(layer.op, out_shape), align_corners=int(align_corners))


# Rearranging ---------------------------------------------------------------------------------------------------------


@checked
def pixel_shuffle(x: Variable, upscale_factor: int, data_format: Layout2D = "NCHW", name: str | None = None) -> Variable:
    """Spread channels over squares of r by r elements: [N, C r r, H, W] becomes [N, C, H r, W r]. Shi et al. 2016.

    Args:
        x: [N, C r r, H, W].
        upscale_factor: r: by how much height and width grow.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if the factor is below 1.
        ArgumentTypeError: if it is no int.

    Example:
        >>> F.pixel_shuffle(static.data("x", [None, 8, 2, 3]), 2).shape
        (-1, 2, 4, 6)
    """
    layer = ImageLayer("pixel_shuffle", x, data_format, axes=2, name=name)
    positive(upscale_factor, "pixel_shuffle", "upscale_factor")
    return layer.in_layout(layer.result("DepthToSpace", layer.x, blocksize=upscale_factor, mode="CRD"))


@checked
def pixel_unshuffle(x: Variable, downscale_factor: int, data_format: Layout2D = "NCHW", name: str | None = None) -> Variable:
    """Collect squares of r by r elements into channels: [N, C, H r, W r] becomes [N, C r r, H, W]. Shi et al. 2016.

    Args:
        x: [N, C, H r, W r] with a known C.
        downscale_factor: r: by how much height and width shrink.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if the factor is below 1.
        ArgumentTypeError: if it is no int.

    Example:
        >>> F.pixel_unshuffle(static.data("x", [None, 2, 4, 6]), 2).shape
        (-1, 8, 2, 3)
    """
    layer = ImageLayer("pixel_unshuffle", x, data_format, axes=2, name=name)
    x = layer.x
    channels, cells = known_dim(x, 1, "pixel_unshuffle"), positive(downscale_factor, "pixel_unshuffle", "downscale_factor") ** 2
    # ONNX puts the position in the square before the channel, Paddle behind it.
    order = np.arange(channels * cells).reshape(cells, channels).T.reshape(-1)
    return layer.in_layout(layer.result("Gather", layer.op.SpaceToDepth(x, blocksize=downscale_factor), order, axis=1))


@checked
def channel_shuffle(x: Variable, groups: int, data_format: Layout2D = "NCHW", name: str | None = None) -> Variable:
    """Take channels from each of ``groups`` groups in turn. Zhang et al. 2017.

    Args:
        x: [N, C, H, W] with a known C.
        groups: into how many groups the channels are cut.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if ``groups`` does not divide the number of channels.

    Example:
        >>> F.channel_shuffle(static.data("x", [None, 6, 2, 3]), 2).shape
        (-1, 6, 2, 3)
    """
    layer = LayerHelper("channel_shuffle", x, name=name)
    axis = 1 if data_format == "NCHW" else 3
    channels = known_dim(x, axis, "channel_shuffle")
    if channels % positive(groups, "channel_shuffle", "groups"):
        raise ArgumentError(f"channel_shuffle: {groups} groups do not divide {channels} channels.")
    order = np.arange(channels).reshape(groups, -1).T.reshape(-1)
    return layer.result("Gather", x, order, axis=axis)


@checked
def temporal_shift(
    x: Variable, seg_num: int, shift_ratio: float = 0.25, name: str | None = None, data_format: Layout2D = "NCHW"
) -> Variable:
    """Take a part of the channels of each frame from the frame before, another from the one after. Lin et al. 2018.

    Args:
        x: variable of shape [N * seg_num, C, H, W].
        seg_num: frames per clip.
        shift_ratio: part of the channels that comes from each neighbour.
        name: prefix of the names of the results in a program; None to count one.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.

    Example:
        >>> F.temporal_shift(static.data("x", [None, 8, 4, 4]), 2).shape
        (-1, 8, 4, 4)
    """
    layer = ImageLayer("temporal_shift", x, data_format, axes=2, name=name)
    op, x = layer.op, layer.x
    channels, (height, width) = known_dim(x, 1, "temporal_shift"), (known_dim(x, a, "temporal_shift") for a in (2, 3))
    first, second = int(channels * shift_ratio), int(channels * 2 * shift_ratio)
    clips = op.Reshape(x, np.array([-1, seg_num, channels, height, width]))
    padded = op.Pad(clips, np.array([1, 1]), None, np.array([1]))
    moves = (0, 0, first), (2, first, second), (1, second, channels)
    parts = [op.Slice(padded, [start, low], [start + seg_num, high], [1, 2]) for start, low, high in moves if high > low]
    joined = op.Concat(*parts, axis=2) if len(parts) > 1 else parts[0]
    return layer.in_layout(layer.result("Reshape", joined, np.array([-1, channels, height, width])))
