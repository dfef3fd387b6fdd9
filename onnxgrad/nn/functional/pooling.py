"""Pools: the mean, the largest element or a norm of windows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal, cast, overload

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, NotOffered
from onnxgrad.internal.arguments import checked
from onnxgrad.nn.functional.layout import channels_last
from onnxgrad.nn.functional.windows import PoolWindow, numbers, pads_of
from onnxgrad.nn.types import Layout1D, Layout2D, Layout3D, Numbers, Padding
from onnxgrad.tensor.common import known_dim, shape_of
from onnxgrad.tensor.layer import LayerHelper, open_layer

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool1d", "lp_pool2d", "max_pool1d", "max_pool2d",
    "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip


# Largest element -----------------------------------------------------------------------------------------------------


def _max_pool(
    axes: int,
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Padding,
    return_mask: bool,
    ceil_mode: bool,
    data_format: str,
    name: str | None,
) -> Variable | tuple[Variable, Variable]:
    if return_mask and channels_last(data_format, axes):
        raise ArgumentError(f"max_pool{axes}d: return_mask needs channels first. Transpose before.")
    window = PoolWindow("max_pool2d_with_index" if return_mask else f"pool{axes}d", axes, x, data_format, name=name)
    attrs = window.pool(kernel_size, stride, padding, ceil_mode)
    if not return_mask:
        return window.result("MaxPool", window.x, **attrs)
    return _with_indices(window, x, attrs)


@overload
def max_pool1d(
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    return_mask: Literal[False] = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Variable: ...


@overload
def max_pool1d(
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    *,
    return_mask: Literal[True],
    ceil_mode: bool = False,
    name: str | None = None,
) -> tuple[Variable, Variable]: ...


@overload
def max_pool1d(
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]: ...


@checked
def max_pool1d(
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]:
    """Take the largest element of each window of a sequence.

    Args:
        x: [N, C, L], of any real element type.
        kernel_size: size of the windows: one number, or one for each spatial axis.
        stride: steps between windows, in the same form; the kernel size unless given.
        padding: border around the input: one number, one for each spatial axis, [start, end], pairs for all three axes, 'SAME' or
            'VALID'.
        return_mask: also give the position of each element, counted through its plane.
        ceil_mode: let windows reach over the end, so that no element is left out.
        name: prefix of the names of the results in a program; None to count one.

    Returns:
        [N, C, L] of the pooled sizes; with ``return_mask``, also int32 positions of that shape.

    Raises:
        ArgumentError: if an argument has the wrong number of entries.

    Example:
        >>> F.max_pool1d(static.data("x", [None, 3, 8]), 2).shape
        (-1, 3, 4)
    """
    return _max_pool(1, x, kernel_size, stride, padding, return_mask, ceil_mode, "NCL", name)


@overload
def max_pool2d(
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    return_mask: Literal[False] = False,
    ceil_mode: bool = False,
    data_format: Layout2D = "NCHW",
    name: str | None = None,
) -> Variable: ...


@overload
def max_pool2d(
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    *,
    return_mask: Literal[True],
    ceil_mode: bool = False,
    data_format: Layout2D = "NCHW",
    name: str | None = None,
) -> tuple[Variable, Variable]: ...


@overload
def max_pool2d(
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: Layout2D = "NCHW",
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]: ...


@checked
def max_pool2d(
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: Layout2D = "NCHW",
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]:
    """Take the largest element of each window of an image.

    Args:
        x: [N, C, H, W], of any real element type.
        kernel_size: size of the windows: one number, or one for each spatial axis.
        stride: steps between windows, in the same form; the kernel size unless given.
        padding: border around the input: one number, one for each spatial axis, [top, bottom, left, right], pairs for all four
            axes, 'SAME' or 'VALID'.
        return_mask: also give the position of each element, counted through its plane. Needs channels first.
        ceil_mode: let windows reach over the end, so that no element is left out.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Returns:
        [N, C, H, W] of the pooled sizes; with ``return_mask``, also int32 positions of that shape.

    Raises:
        ArgumentError: if an argument has the wrong number of entries, or ``return_mask`` is asked for with channels last.

    Example:
        >>> F.max_pool2d(static.data("x", [None, 3, 8, 8]), 2).shape
        (-1, 3, 4, 4)
    """
    return _max_pool(2, x, kernel_size, stride, padding, return_mask, ceil_mode, data_format, name)


@overload
def max_pool3d(
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    return_mask: Literal[False] = False,
    ceil_mode: bool = False,
    data_format: Layout3D = "NCDHW",
    name: str | None = None,
) -> Variable: ...


@overload
def max_pool3d(
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    *,
    return_mask: Literal[True],
    ceil_mode: bool = False,
    data_format: Layout3D = "NCDHW",
    name: str | None = None,
) -> tuple[Variable, Variable]: ...


@overload
def max_pool3d(
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: Layout3D = "NCDHW",
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]: ...


@checked
def max_pool3d(
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: Layout3D = "NCDHW",
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]:
    """Take the largest element of each window of a volume.

    Args:
        x: [N, C, D, H, W], of any real element type.
        kernel_size: size of the windows: one number, or one for each spatial axis.
        stride: steps between windows, in the same form; the kernel size unless given.
        padding: border around the input: one number, one for each spatial axis, [front, back, top, bottom, left, right], pairs for
            all five axes, 'SAME' or 'VALID'.
        return_mask: also give the position of each element, counted through its plane. Needs channels first.
        ceil_mode: let windows reach over the end, so that no element is left out.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Returns:
        [N, C, D, H, W] of the pooled sizes; with ``return_mask``, also int32 positions of that shape.

    Raises:
        ArgumentError: if an argument has the wrong number of entries, or ``return_mask`` is asked for with channels last.

    Example:
        >>> F.max_pool3d(static.data("x", [None, 3, 8, 8, 8]), 2).shape
        (-1, 3, 4, 4, 4)
    """
    return _max_pool(3, x, kernel_size, stride, padding, return_mask, ceil_mode, data_format, name)


def _with_indices(layer: LayerHelper, x: Variable, attrs: dict[str, Any]) -> tuple[Variable, Variable]:
    """The largest elements, and their positions: ONNX counts them through the whole tensor, Paddle through their planes"""
    op = layer.op
    y, indices = op.emit("MaxPool", (x,), attrs, outputs=2)
    sizes = x.shape[2:]
    if all(size >= 0 for size in sizes):
        plane: Any = op.constant(np.array(math.prod(sizes)))
    else:
        plane = op.ReduceProd(op.Shape(x, start=2), keepdims=0)
    return layer.result("Identity", y), layer.result("Cast", op.Mod(indices, plane), to=6)


def _max_unpool(
    axes: int,
    x: Variable,
    indices: Variable,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Padding,
    data_format: str,
    output_size: Sequence[int] | None,
    name: str | None,
) -> Variable:
    layer, op = open_layer("unpool", x, indices, name=name)
    if channels_last(data_format, axes):
        raise ArgumentError(f"max_unpool{axes}d needs channels first. Transpose before and after.")
    if x.ndim != axes + 2 or indices.shape != x.shape:
        raise ArgumentError(f"max_unpool{axes}d takes {axes + 2} axes and an index for each element, not {x!r} and {indices!r}.")
    sizes, pads = numbers(kernel_size, axes), pads_of(padding, axes)
    strides = sizes if stride is None else numbers(stride, axes)
    if isinstance(pads, str):
        raise ArgumentError(f"max_unpool{axes}d takes padding as numbers, not {padding!r}.")
    if output_size is not None:
        image = [int(n) for n in output_size][-axes:]
    else:
        pooled = [known_dim(x, 2 + i, "max_unpool") for i in range(axes)]
        image = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(pooled, strides, sizes, pads[:axes], strict=True)]
    lead = op.Shape(x, start=0, end=2)
    blank = op.Expand(op.constant(0, x.dtype), op.Concat(lead, np.array([math.prod(image)]), axis=0))
    positions, values = (op.Reshape(v, np.array([0, 0, -1])) for v in (op.Cast(indices, to=7), x))
    filled = op.ScatterElements(blank, positions, values, axis=2)
    return layer.result("Reshape", filled, np.array([0, 0, *image]))


@checked
def max_unpool1d(
    x: Variable,
    indices: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    data_format: Layout1D = "NCL",
    output_size: Sequence[int] | None = None,
    name: str | None = None,
) -> Variable:
    """Put the elements of a pooled sequence back to their positions, among zeros.

    Args:
        x: what ``max_pool1d`` gave: [N, C, L] of known sizes.
        indices: its mask: integers of the same shape.
        kernel_size: size of the pool's windows: one number, or one for each spatial axis.
        stride: that of the pool, in the same form; the kernel size unless given.
        padding: that of the pool, in the same form.
        data_format: 'NCL': the channels are first.
        output_size: the sizes of the spatial axes before the pool; computed from the windows unless given.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if channels are last, the indices have another shape, or a size is not known.

    Example:
        >>> x, i = static.data("x", [1, 1, 2]), static.data("i", [1, 1, 2], "int32")
        >>> F.max_unpool1d(x, i, 2).shape
        (1, 1, 4)
    """
    return _max_unpool(1, x, indices, kernel_size, stride, padding, data_format, output_size, name)


@checked
def max_unpool2d(
    x: Variable,
    indices: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    data_format: Layout2D = "NCHW",
    output_size: Sequence[int] | None = None,
    name: str | None = None,
) -> Variable:
    """Put the elements of a pooled image back to their positions, among zeros.

    Args:
        x: what ``max_pool2d`` gave: [N, C, H, W] of known sizes.
        indices: its mask: integers of the same shape.
        kernel_size: size of the pool's windows: one number, or one for each spatial axis.
        stride: that of the pool, in the same form; the kernel size unless given.
        padding: that of the pool, in the same form.
        data_format: 'NCHW': the channels are first.
        output_size: the sizes of the spatial axes before the pool; computed from the windows unless given.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if channels are last, the indices have another shape, or a size is not known.

    Example:
        >>> x, i = static.data("x", [1, 1, 2, 2]), static.data("i", [1, 1, 2, 2], "int32")
        >>> F.max_unpool2d(x, i, 2).shape
        (1, 1, 4, 4)
    """
    return _max_unpool(2, x, indices, kernel_size, stride, padding, data_format, output_size, name)


@checked
def max_unpool3d(
    x: Variable,
    indices: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    data_format: Layout3D = "NCDHW",
    output_size: Sequence[int] | None = None,
    name: str | None = None,
) -> Variable:
    """Put the elements of a pooled volume back to their positions, among zeros.

    Args:
        x: what ``max_pool3d`` gave: [N, C, D, H, W] of known sizes.
        indices: its mask: integers of the same shape.
        kernel_size: size of the pool's windows: one number, or one for each spatial axis.
        stride: that of the pool, in the same form; the kernel size unless given.
        padding: that of the pool, in the same form.
        data_format: 'NCDHW': the channels are first.
        output_size: the sizes of the spatial axes before the pool; computed from the windows unless given.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if channels are last, the indices have another shape, or a size is not known.

    Example:
        >>> x, i = static.data("x", [1, 1, 2, 2, 2]), static.data("i", [1, 1, 2, 2, 2], "int32")
        >>> F.max_unpool3d(x, i, 2).shape
        (1, 1, 4, 4, 4)
    """
    return _max_unpool(3, x, indices, kernel_size, stride, padding, data_format, output_size, name)


# Mean and norm -------------------------------------------------------------------------------------------------------


def _avg_pool(
    axes: int,
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Padding,
    ceil_mode: bool,
    exclusive: bool,
    divisor_override: int | None,
    data_format: str,
    name: str | None,
) -> Variable:
    window = PoolWindow(f"pool{axes}d", axes, x, data_format, name=name)
    attrs = window.pool(kernel_size, stride, padding, ceil_mode)
    if divisor_override is None:
        return window.result("AveragePool", window.x, count_include_pad=int(not exclusive), **attrs)
    if ceil_mode:
        raise NotOffered(f"avg_pool{axes}d: divisor_override with ceil_mode is not offered. Pad the input instead.")
    mean = window.op.AveragePool(window.x, count_include_pad=1, **attrs)
    return window.result("Mul", mean, math.prod(attrs["kernel_shape"]) / divisor_override)


@checked
def avg_pool1d(
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Variable:
    """Average each window of a sequence.

    Args:
        x: floats [N, C, L].
        kernel_size: size of the windows: one number, or one for each spatial axis.
        stride: steps between windows, in the same form; the kernel size unless given.
        padding: border around the input: one number, one for each spatial axis, [start, end], pairs for all three axes, 'SAME' or
            'VALID'.
        exclusive: leave padding out of the mean.
        ceil_mode: let windows reach over the end, so that no element is left out.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if an argument has the wrong number of entries.

    Example:
        >>> F.avg_pool1d(static.data("x", [None, 3, 8]), 2).shape
        (-1, 3, 4)
    """
    return _avg_pool(1, x, kernel_size, stride, padding, ceil_mode, exclusive, None, "NCL", name)


@checked
def avg_pool2d(
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: int | None = None,
    data_format: Layout2D = "NCHW",
    name: str | None = None,
) -> Variable:
    """Average each window of an image.

    Args:
        x: floats [N, C, H, W].
        kernel_size: size of the windows: one number, or one for each spatial axis.
        stride: steps between windows, in the same form; the kernel size unless given.
        padding: border around the input: one number, one for each spatial axis, [top, bottom, left, right], pairs for all four
            axes, 'SAME' or 'VALID'.
        ceil_mode: let windows reach over the end, so that no element is left out.
        exclusive: leave padding out of the mean.
        divisor_override: divide the sum by this number, rather than by that of the elements.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if an argument has the wrong number of entries.
        NotOffered: for ``divisor_override`` with ``ceil_mode``, where windows hold fewer elements at the end.

    Example:
        >>> F.avg_pool2d(static.data("x", [None, 3, 8, 8]), 2).shape
        (-1, 3, 4, 4)
    """
    return _avg_pool(2, x, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format, name)


@checked
def avg_pool3d(
    x: Variable,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: int | None = None,
    data_format: Layout3D = "NCDHW",
    name: str | None = None,
) -> Variable:
    """Average each window of a volume.

    Args:
        x: floats [N, C, D, H, W].
        kernel_size: size of the windows: one number, or one for each spatial axis.
        stride: steps between windows, in the same form; the kernel size unless given.
        padding: border around the input: one number, one for each spatial axis, [front, back, top, bottom, left, right], pairs for
            all five axes, 'SAME' or 'VALID'.
        ceil_mode: let windows reach over the end, so that no element is left out.
        exclusive: leave padding out of the mean.
        divisor_override: divide the sum by this number, rather than by that of the elements.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if an argument has the wrong number of entries.
        NotOffered: for ``divisor_override`` with ``ceil_mode``, where windows hold fewer elements at the end.

    Example:
        >>> F.avg_pool3d(static.data("x", [None, 3, 8, 8, 8]), 2).shape
        (-1, 3, 4, 4, 4)
    """
    return _avg_pool(3, x, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format, name)


def _lp_pool(
    axes: int,
    x: Variable,
    norm_type: float,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Padding,
    ceil_mode: bool,
    data_format: str,
    name: str | None,
) -> Variable:
    p = norm_type
    if math.isinf(p):
        return cast(Variable, _max_pool(axes, x, kernel_size, stride, padding, False, ceil_mode, data_format, name))
    if ceil_mode:
        raise NotOffered(f"lp_pool{axes}d with ceil_mode is not offered. Pad the input instead.")
    window = PoolWindow(f"lp_pool{axes}d", axes, x, data_format, name=name)
    op, attrs = window.op, window.pool(kernel_size, stride, padding, ceil_mode)
    power = op.Pow(window.x, op.constant(float(p), x.dtype))
    total = op.Mul(op.AveragePool(power, count_include_pad=1, **attrs), float(math.prod(attrs["kernel_shape"])))
    return window.result("Pow", total, op.constant(1.0 / p, x.dtype))


@checked
def lp_pool1d(
    x: Variable,
    norm_type: float,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    data_format: Layout1D = "NCL",
    name: str | None = None,
) -> Variable:
    """Compute (sum of x^p)^(1/p) over each window of a sequence.

    Args:
        x: floats [N, C, L].
        norm_type: the power p; infinity for the largest element.
        kernel_size: size of the windows: one number, or one for each spatial axis.
        stride: steps between windows, in the same form; the kernel size unless given.
        padding: border around the input: one number, one for each spatial axis, [start, end], pairs for all three axes, 'SAME' or
            'VALID'.
        ceil_mode: let windows reach over the end; only for p = infinity.
        data_format: 'NCL', or 'NLC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        NotOffered: with ``ceil_mode``, where windows hold fewer elements at the end.

    Example:
        >>> F.lp_pool1d(static.data("x", [None, 3, 8]), 2, 2).shape
        (-1, 3, 4)
    """
    return _lp_pool(1, x, norm_type, kernel_size, stride, padding, ceil_mode, data_format, name)


@checked
def lp_pool2d(
    x: Variable,
    norm_type: float,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    data_format: Layout2D = "NCHW",
    name: str | None = None,
) -> Variable:
    """Compute (sum of x^p)^(1/p) over each window of an image.

    Args:
        x: floats [N, C, H, W].
        norm_type: the power p; infinity for the largest element.
        kernel_size: size of the windows: one number, or one for each spatial axis.
        stride: steps between windows, in the same form; the kernel size unless given.
        padding: border around the input: one number, one for each spatial axis, [top, bottom, left, right], pairs for all four
            axes, 'SAME' or 'VALID'.
        ceil_mode: let windows reach over the end; only for p = infinity.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        NotOffered: with ``ceil_mode``, where windows hold fewer elements at the end.

    Example:
        >>> F.lp_pool2d(static.data("x", [None, 3, 8, 8]), 2, 2).shape
        (-1, 3, 4, 4)
    """
    return _lp_pool(2, x, norm_type, kernel_size, stride, padding, ceil_mode, data_format, name)


# Adaptive pools ------------------------------------------------------------------------------------------------------


def _sizes(value: Any, axes: int) -> list[int | None]:
    sizes = [value] * axes if value is None or isinstance(value, int) else list(value)
    if len(sizes) != axes:
        raise ArgumentError(f"output_size takes one number or {axes}, not {value}.")
    return sizes


def _adaptive_avg_pool(axes: int, x: Variable, output_size: Any, data_format: str, name: str | None) -> Variable:
    window = PoolWindow("adaptive_pool2d", axes, x, data_format, name=name)
    y = window.x
    wanted = _sizes(output_size, axes)
    if all(size == 1 for size in wanted):
        return window.result("GlobalAveragePool", y)
    sizes = [y.shape[2 + i] if m is None else m for i, m in enumerate(wanted)]
    if all(n >= 0 and m > 0 and n % m == 0 for n, m in zip(y.shape[2:], sizes, strict=True)):
        each = [n // m for n, m in zip(y.shape[2:], sizes, strict=True)]
        return window.result("AveragePool", y, kernel_shape=each, strides=each)
    for i, size in enumerate(wanted):
        if size is not None:
            y = _means_along(window.op, y, 2 + i, size)
    return window.result("Identity", y)


@checked
def adaptive_avg_pool1d(
    x: Variable,
    output_size: int | Sequence[int],
    name: str | None = None,
) -> Variable:
    """Average windows of a sequence that lead to a given size: window i of m reaches from floor(i n / m) to ceil((i + 1) n / m).

    Args:
        x: floats [N, C, L]; the sizes must be known, except for a result of size 1.
        output_size: sizes of the result: one number, or one for each spatial axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if ``output_size`` has the wrong number of entries, or a size is not known.

    Example:
        >>> F.adaptive_avg_pool1d(static.data("x", [None, 3, 8]), 4).shape
        (-1, 3, 4)
    """
    return _adaptive_avg_pool(1, x, output_size, "NCL", name)


@checked
def adaptive_avg_pool2d(
    x: Variable,
    output_size: int | Sequence[int | None] | None,
    data_format: Layout2D = "NCHW",
    name: str | None = None,
) -> Variable:
    """Average windows of an image that lead to a given size: window i of m reaches from floor(i n / m) to ceil((i + 1) n / m).

    Args:
        x: floats [N, C, H, W]; the sizes must be known, except for a result of size 1.
        output_size: sizes of the result: one number, or one for each spatial axis; None keeps the size of an axis.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if ``output_size`` has the wrong number of entries, or a size is not known.

    Example:
        >>> F.adaptive_avg_pool2d(static.data("x", [None, 3, 5, 6]), [3, None]).shape
        (-1, 3, 3, 6)
    """
    return _adaptive_avg_pool(2, x, output_size, data_format, name)


@checked
def adaptive_avg_pool3d(
    x: Variable,
    output_size: int | Sequence[int | None] | None,
    data_format: Layout3D = "NCDHW",
    name: str | None = None,
) -> Variable:
    """Average windows of a volume that lead to a given size: window i of m reaches from floor(i n / m) to ceil((i + 1) n / m).

    Args:
        x: floats [N, C, D, H, W]; the sizes must be known, except for a result of size 1.
        output_size: sizes of the result: one number, or one for each spatial axis; None keeps the size of an axis.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if ``output_size`` has the wrong number of entries, or a size is not known.

    Example:
        >>> F.adaptive_avg_pool3d(static.data("x", [None, 3, 4, 5, 6]), [2, None, 3]).shape
        (-1, 3, 2, 5, 3)
    """
    return _adaptive_avg_pool(3, x, output_size, data_format, name)


def _bounds(n: int, m: int) -> list[tuple[int, int]]:
    """First and last-but-one element of each of m windows over n elements"""
    return [(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]


def _means_along(op: Builder, x: Variable, axis: int, size: int) -> Any:
    """Means of the windows along one axis: a product with a matrix of weights"""
    n = known_dim(x, axis, "adaptive_avg_pool")
    weights = np.zeros((n, size))
    for i, (start, end) in enumerate(_bounds(n, size)):
        weights[start:end, i] = 1.0 / (end - start)
    matrix = op.constant(weights, x.dtype)
    if axis == x.ndim - 1:
        return op.MatMul(x, matrix)
    order = [i for i in range(x.ndim) if i != axis] + [axis]
    back = [order.index(i) for i in range(x.ndim)]
    return op.Transpose(op.MatMul(op.Transpose(x, perm=order), matrix), perm=back)


def _adaptive_max_pool(
    axes: int, x: Variable, output_size: Any, return_mask: bool, name: str | None
) -> Variable | tuple[Variable, Variable]:
    layer, op = open_layer("adaptive_pool2d", x, name=name)
    image = [known_dim(x, 2 + i, f"adaptive_max_pool{axes}d") for i in range(axes)]
    sizes = [n if m is None else m for n, m in zip(image, _sizes(output_size, axes), strict=True)]
    if all(n % m == 0 for n, m in zip(image, sizes, strict=True)):
        window = {"kernel_shape": [n // m for n, m in zip(image, sizes, strict=True)]}
        window["strides"] = window["kernel_shape"]
        if not return_mask:
            return layer.result("MaxPool", x, **window)
        return _with_indices(layer, x, window)
    indices = _window_indices(image, sizes)
    candidates = op.Gather(op.Reshape(x, np.array([0, 0, -1])), indices, axis=2)
    if not return_mask:
        return layer.result("Reshape", op.ReduceMax(candidates, [3], keepdims=0), np.array([0, 0, *sizes]))
    best = op.ArgMax(candidates, axis=3, keepdims=1)
    pooled = op.GatherElements(candidates, best, axis=3)
    where = op.GatherElements(op.Expand(op.constant(indices), shape_of(op, candidates)), best, axis=3)
    y = layer.result("Reshape", pooled, np.array([0, 0, *sizes]))
    return y, layer.result("Reshape", op.Cast(where, to=6), np.array([0, 0, *sizes]))


@overload
def adaptive_max_pool1d(
    x: Variable,
    output_size: int | Sequence[int],
    return_mask: Literal[False] = False,
    name: str | None = None,
) -> Variable: ...


@overload
def adaptive_max_pool1d(
    x: Variable,
    output_size: int | Sequence[int],
    return_mask: Literal[True],
    name: str | None = None,
) -> tuple[Variable, Variable]: ...


@overload
def adaptive_max_pool1d(
    x: Variable,
    output_size: int | Sequence[int],
    return_mask: bool = False,
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]: ...


@checked
def adaptive_max_pool1d(
    x: Variable,
    output_size: int | Sequence[int],
    return_mask: bool = False,
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]:
    """Take the largest elements of windows of a sequence that lead to a given size, as in ``adaptive_avg_pool1d``.

    Args:
        x: [N, C, L] of known spatial sizes.
        output_size: sizes of the result: one number, or one for each spatial axis.
        return_mask: also give the position of each element, counted through its plane.
        name: prefix of the names of the results in a program; None to count one.

    Returns:
        [N, C, L] of these sizes; with ``return_mask``, also int32 positions of that shape.

    Raises:
        ArgumentError: if ``output_size`` has the wrong number of entries, or a size is not known.

    Example:
        >>> F.adaptive_max_pool1d(static.data("x", [None, 3, 8]), 4).shape
        (-1, 3, 4)
    """
    return _adaptive_max_pool(1, x, output_size, return_mask, name)


@overload
def adaptive_max_pool2d(
    x: Variable,
    output_size: int | Sequence[int | None] | None,
    return_mask: Literal[False] = False,
    name: str | None = None,
) -> Variable: ...


@overload
def adaptive_max_pool2d(
    x: Variable,
    output_size: int | Sequence[int | None] | None,
    return_mask: Literal[True],
    name: str | None = None,
) -> tuple[Variable, Variable]: ...


@overload
def adaptive_max_pool2d(
    x: Variable,
    output_size: int | Sequence[int | None] | None,
    return_mask: bool = False,
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]: ...


@checked
def adaptive_max_pool2d(
    x: Variable,
    output_size: int | Sequence[int | None] | None,
    return_mask: bool = False,
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]:
    """Take the largest elements of windows of an image that lead to a given size, as in ``adaptive_avg_pool2d``.

    Args:
        x: [N, C, H, W] of known spatial sizes.
        output_size: sizes of the result: one number, or one for each spatial axis; None keeps the size of an axis.
        return_mask: also give the position of each element, counted through its plane.
        name: prefix of the names of the results in a program; None to count one.

    Returns:
        [N, C, H, W] of these sizes; with ``return_mask``, also int32 positions of that shape.

    Raises:
        ArgumentError: if ``output_size`` has the wrong number of entries, or a size is not known.

    Example:
        >>> F.adaptive_max_pool2d(static.data("x", [None, 3, 5, 6]), [2, 4]).shape
        (-1, 3, 2, 4)
    """
    return _adaptive_max_pool(2, x, output_size, return_mask, name)


@overload
def adaptive_max_pool3d(
    x: Variable,
    output_size: int | Sequence[int | None] | None,
    return_mask: Literal[False] = False,
    name: str | None = None,
) -> Variable: ...


@overload
def adaptive_max_pool3d(
    x: Variable,
    output_size: int | Sequence[int | None] | None,
    return_mask: Literal[True],
    name: str | None = None,
) -> tuple[Variable, Variable]: ...


@overload
def adaptive_max_pool3d(
    x: Variable,
    output_size: int | Sequence[int | None] | None,
    return_mask: bool = False,
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]: ...


@checked
def adaptive_max_pool3d(
    x: Variable,
    output_size: int | Sequence[int | None] | None,
    return_mask: bool = False,
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]:
    """Take the largest elements of windows of a volume that lead to a given size, as in ``adaptive_avg_pool3d``.

    Args:
        x: [N, C, D, H, W] of known spatial sizes.
        output_size: sizes of the result: one number, or one for each spatial axis; None keeps the size of an axis.
        return_mask: also give the position of each element, counted through its plane.
        name: prefix of the names of the results in a program; None to count one.

    Returns:
        [N, C, D, H, W] of these sizes; with ``return_mask``, also int32 positions of that shape.

    Raises:
        ArgumentError: if ``output_size`` has the wrong number of entries, or a size is not known.

    Example:
        >>> F.adaptive_max_pool3d(static.data("x", [None, 3, 4, 5, 6]), [2, None, 3]).shape
        (-1, 3, 2, 5, 3)
    """
    return _adaptive_max_pool(3, x, output_size, return_mask, name)


def _window_indices(image: list[int], sizes: list[int]) -> np.ndarray[Any, Any]:
    """For each window, the indices of its elements in the plane; a small window repeats its last one"""
    numbered = np.arange(math.prod(image)).reshape(image)
    windows = []
    for bounds in itertools.product(*(_bounds(n, m) for n, m in zip(image, sizes, strict=True))):
        windows.append(numbered[tuple(slice(start, end) for start, end in bounds)].reshape(-1))
    longest = max(len(w) for w in windows)
    return np.array([np.pad(w, (0, longest - len(w)), mode="edge") for w in windows])
