"""Convolutions and their transposes.

Tests: tests/nn/test_functional.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, Mismatch
from onnxgrad.internal.arguments import checked
from onnxgrad.nn.functional.windows import PoolWindow, numbers, window_pads
from onnxgrad.nn.types import Layout1D, Layout2D, Layout3D, Numbers, Padding
from onnxgrad.tensor.common import positive

__all__ = ["conv1d", "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose"]


def conv(
    axes: int,
    x: Variable,
    weight: Variable,
    bias: Variable | None,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    groups: int,
    data_format: str,
    name: str | None = None,
) -> Variable:
    """Convolve over so many axes"""
    layer_name = f"conv{axes}d"
    window = PoolWindow(layer_name, axes, x, data_format, weight, bias, name=name)
    strides, dilations = numbers(stride, axes, f"{layer_name}: stride"), numbers(dilation, axes, f"{layer_name}: dilation")
    attrs: dict[str, Any] = {"strides": strides, "group": _groups(layer_name, weight.shape[0], groups)}
    channels, taken = window.x.shape[1], weight.shape[1] * groups
    if x.is_eager and channels != taken:
        raise Mismatch(f"{layer_name}: {x!r} has {channels} channels; filters of shape {weight.shape} take {taken}. Pass as many.")
    pads = window.pads(padding)
    if isinstance(pads, str):
        attrs["kernel_shape"] = _kernel(layer_name, weight)
        dilations = [1] * axes if pads == "SAME" else dilations
    attrs.update(window_pads(window.x, pads, attrs.get("kernel_shape", []), strides))
    return window.result("Conv", window.x, *window.operands, dilations=dilations, **attrs)


@checked
def conv1d(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    data_format: Layout1D = "NCL",
    name: str | None = None,
) -> Variable:
    """Convolve a sequence with filters: sums of products with each window.

    Args:
        x: floats [N, C, L].
        weight: filters [out, in / groups, length].
        bias: one number for each filter.
        stride: steps between windows: one number, or one for each spatial axis.
        padding: border around the input: one number, one for each spatial axis, [start, end], pairs for all three axes, 'SAME' or
            'VALID'. With 'SAME' the dilation is 1, as in Paddle.
        dilation: distance between the elements of a window, in the form of ``stride``.
        groups: channels and filters are cut into so many independent groups.
        data_format: 'NCL', or 'NLC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if an argument has the wrong number of entries, or ``groups`` does not divide the filters.
        ProgramError: if known sizes do not fit.

    Example:
        >>> x, w = static.data("x", [None, 3, 8]), static.data("w", [4, 3, 3])
        >>> F.conv1d(x, w, padding=1, stride=2).shape
        (-1, 4, 4)
    """
    return conv(1, x, weight, bias, stride, padding, dilation, groups, data_format, name)


@checked
def conv2d(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    data_format: Layout2D = "NCHW",
    name: str | None = None,
) -> Variable:
    """Convolve an image with filters: sums of products with each window.

    Args:
        x: floats [N, C, H, W].
        weight: filters [out, in / groups, height, width].
        bias: one number for each filter.
        stride: steps between windows: one number, or one for each spatial axis.
        padding: border around the input: one number, one for each spatial axis, [top, bottom, left, right], pairs for all four
            axes, 'SAME' or 'VALID'. With 'SAME' the dilation is 1, as in Paddle.
        dilation: distance between the elements of a window, in the form of ``stride``.
        groups: channels and filters are cut into so many independent groups.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if an argument has the wrong number of entries, or ``groups`` does not divide the filters.
        ProgramError: if known sizes do not fit.

    Example:
        >>> x, w = static.data("x", [None, 3, 8, 8]), static.data("w", [4, 3, 3, 3])
        >>> F.conv2d(x, w, padding=1, stride=2).shape
        (-1, 4, 4, 4)
    """
    return conv(2, x, weight, bias, stride, padding, dilation, groups, data_format, name)


@checked
def conv3d(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    data_format: Layout3D = "NCDHW",
    name: str | None = None,
) -> Variable:
    """Convolve a volume with filters: sums of products with each window.

    Args:
        x: floats [N, C, D, H, W].
        weight: filters [out, in / groups, depth, height, width].
        bias: one number for each filter.
        stride: steps between windows: one number, or one for each spatial axis.
        padding: border around the input: one number, one for each spatial axis, [front, back, top, bottom, left, right], pairs for
            all five axes, 'SAME' or 'VALID'. With 'SAME' the dilation is 1, as in Paddle.
        dilation: distance between the elements of a window, in the form of ``stride``.
        groups: channels and filters are cut into so many independent groups.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if an argument has the wrong number of entries, or ``groups`` does not divide the filters.
        ProgramError: if known sizes do not fit.

    Example:
        >>> x, w = static.data("x", [None, 3, 8, 8, 8]), static.data("w", [4, 3, 3, 3, 3])
        >>> F.conv3d(x, w, padding=1, stride=2).shape
        (-1, 4, 4, 4, 4)
    """
    return conv(3, x, weight, bias, stride, padding, dilation, groups, data_format, name)


def _groups(layer_name: str, filters: int, groups: int) -> int:
    count = positive(groups, layer_name, "groups")
    if filters >= 0 and filters % count:
        raise ArgumentError(f"{layer_name}: {groups} groups do not divide {filters} filters.")
    return count


def _kernel(layer_name: str, weight: Variable) -> list[int]:
    kernel = list(weight.shape[2:])
    if any(size < 0 for size in kernel):
        raise ArgumentError(f"{layer_name}: the filter sizes of {weight!r} must be known.")
    return kernel


# Transposed convolutions ---------------------------------------------------------------------------------------------


def conv_transpose(
    axes: int,
    x: Variable,
    weight: Variable,
    bias: Variable | None,
    stride: Numbers,
    padding: Padding,
    output_padding: Numbers,
    dilation: Numbers,
    groups: int,
    output_size: Numbers | None,
    data_format: str,
    name: str | None = None,
) -> Variable:
    """Transpose a convolution over so many axes"""
    layer_name = f"conv{axes}d_transpose"
    window = PoolWindow(layer_name, axes, x, data_format, weight, bias, name=name)
    x = window.x
    kernel, strides, dilations = _kernel(layer_name, weight), numbers(stride, axes), numbers(dilation, axes)
    extra, pads = numbers(output_padding, axes), window.pads(padding)
    if pads == "SAME":
        dilations = [1] * axes
        pads = window_pads(x, pads, kernel, strides).get("pads", pads)
        if isinstance(pads, str):
            raise ArgumentError(f"{layer_name}: padding='SAME' needs known sizes of {x!r}. Declare them in data().")
    if isinstance(pads, str):
        pads = [0] * (2 * axes)
    if output_size is not None:
        if any(extra):
            raise ArgumentError(f"{layer_name}: give output_size or output_padding, not both.")
        extra = _missing(layer_name, x, kernel, strides, dilations, pads, numbers(output_size, axes))
    attrs: dict[str, Any] = {"strides": strides, "dilations": dilations, "pads": pads, "output_padding": extra}
    attrs.update(kernel_shape=kernel, group=_groups(layer_name, weight.shape[0], groups))
    return window.result("ConvTranspose", x, *window.operands, **attrs)


@checked
def conv1d_transpose(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
    output_size: Numbers | None = None,
    data_format: Layout1D = "NCL",
    name: str | None = None,
) -> Variable:
    """Transpose ``conv1d``: every element of ``x`` adds a weighted filter to its window of the result.

    Args:
        x: floats [N, C, L].
        weight: filters [in, out / groups, length].
        bias: one number for each output channel.
        stride: that of the ``conv1d`` whose transpose this is: one number, or one for each spatial axis.
        padding: its border around the input: one number, one for each spatial axis, [start, end], pairs for all three axes, 'SAME'
            or 'VALID'.
        output_padding: numbers added to the sizes of the result at the end of each axis, in the form of ``stride``.
        groups: its groups.
        dilation: its dilation, in the form of ``stride``.
        output_size: the sizes of the result, in place of ``output_padding``.
        data_format: 'NCL', or 'NLC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if ``output_size`` cannot be reached with this stride, or is given beside ``output_padding``.

    Example:
        >>> x, w = static.data("x", [None, 3, 4]), static.data("w", [3, 2, 3])
        >>> F.conv1d_transpose(x, w, stride=2, padding=1, output_size=[8]).shape
        (-1, 2, 8)
    """
    return conv_transpose(1, x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format, name)


@checked
def conv2d_transpose(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    output_padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    output_size: Numbers | None = None,
    data_format: Layout2D = "NCHW",
    name: str | None = None,
) -> Variable:
    """Transpose ``conv2d``: every element of ``x`` adds a weighted filter to its window of the result.

    Args:
        x: floats [N, C, H, W].
        weight: filters [in, out / groups, height, width].
        bias: one number for each output channel.
        stride: that of the ``conv2d`` whose transpose this is: one number, or one for each spatial axis.
        padding: its border around the input: one number, one for each spatial axis, [top, bottom, left, right], pairs for all four
            axes, 'SAME' or 'VALID'.
        output_padding: numbers added to the sizes of the result at the end of each axis, in the form of ``stride``.
        dilation: its dilation, in the form of ``stride``.
        groups: its groups.
        output_size: the sizes of the result, in place of ``output_padding``.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if ``output_size`` cannot be reached with this stride, or is given beside ``output_padding``.

    Example:
        >>> x, w = static.data("x", [None, 3, 4, 4]), static.data("w", [3, 2, 3, 3])
        >>> F.conv2d_transpose(x, w, stride=2, padding=1, output_size=[8, 8]).shape
        (-1, 2, 8, 8)
    """
    return conv_transpose(2, x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format, name)


@checked
def conv3d_transpose(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
    output_size: Numbers | None = None,
    data_format: Layout3D = "NCDHW",
    name: str | None = None,
) -> Variable:
    """Transpose ``conv3d``: every element of ``x`` adds a weighted filter to its window of the result.

    Args:
        x: floats [N, C, D, H, W].
        weight: filters [in, out / groups, depth, height, width].
        bias: one number for each output channel.
        stride: that of the ``conv3d`` whose transpose this is: one number, or one for each spatial axis.
        padding: its border around the input: one number, one for each spatial axis, [front, back, top, bottom, left, right], pairs
            for all five axes, 'SAME' or 'VALID'.
        output_padding: numbers added to the sizes of the result at the end of each axis, in the form of ``stride``.
        groups: its groups.
        dilation: its dilation, in the form of ``stride``.
        output_size: the sizes of the result, in place of ``output_padding``.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if ``output_size`` cannot be reached with this stride, or is given beside ``output_padding``.

    Example:
        >>> x, w = static.data("x", [None, 3, 4, 4, 4]), static.data("w", [3, 2, 3, 3, 3])
        >>> F.conv3d_transpose(x, w, stride=2, padding=1, output_size=[8, 8, 8]).shape
        (-1, 2, 8, 8, 8)
    """
    return conv_transpose(3, x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format, name)


def _missing(
    layer_name: str, x: Variable, kernel: list[int], strides: list[int], dilations: list[int], pads: list[int], wanted: list[int]
) -> list[int]:
    """Compute the output padding at the end of each axis that reaches a size"""
    axes, extra = len(kernel), []
    for i in range(axes):
        size = x.shape[2 + i]
        if size < 0:
            raise ArgumentError(f"{layer_name}: output_size needs known sizes of {x!r}. Declare them in data().")
        least = (size - 1) * strides[i] + dilations[i] * (kernel[i] - 1) + 1 - pads[i] - pads[axes + i]
        if not least <= wanted[i] < least + strides[i]:
            raise ArgumentError(f"{layer_name}: output_size {wanted} must lie in {least} to {least + strides[i] - 1} on axis {i}.")
        extra.append(wanted[i] - least)
    return extra
