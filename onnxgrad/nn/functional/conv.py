"""Convolutions and their transposes.

Tests: tests/nn/test_functional.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.nn.functional.windows import Numbers, Padding, PoolWindow, numbers, over_axes, window_pads
from onnxgrad.tensor.common import positive

__all__ = ["conv1d", "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose"]


def _conv_nd(
    axes: int,
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Sums of products of filters and the windows of an image.

    Args:
        x: variable of rank 4.
        weight: filters [out, in / groups, height, width].
        bias: one number per filter.
        stride, dilation: one number or one per axis.
        padding: one number, one per axis, [top, bottom, left, right], pairs for all four axes, 'SAME' or 'VALID'. With 'SAME'
            the dilation is 1, as in Paddle.
        groups: channels and filters are cut into so many independent groups.
        data_format: 'NCHW' or 'NHWC'.

    Raises:
        ArgumentError: if an argument has the wrong number of entries.
        ProgramError: if known sizes do not fit.

    Example:
        >>> x, w = static.data("x", [None, 3, 8, 8]), static.data("w", [4, 3, 3, 3])
        >>> F.conv2d(x, w, padding=1, stride=2).shape
        (-1, 4, 4, 4)
    """
    layer_name = f"conv{axes}d"
    window = PoolWindow(layer_name, axes, x, data_format, weight, bias, name=name)
    strides, dilations = numbers(stride, axes, f"{layer_name}: stride"), numbers(dilation, axes, f"{layer_name}: dilation")
    attrs: dict[str, Any] = {"strides": strides, "group": _groups(layer_name, weight.shape[0], groups)}
    pads = window.pads(padding)
    if isinstance(pads, str):
        attrs["kernel_shape"] = _kernel(layer_name, weight)
        dilations = [1] * axes if pads == "SAME" else dilations
    attrs.update(window_pads(window.x, pads, attrs.get("kernel_shape", []), strides))
    return window.result("Conv", window.x, *window.operands, dilations=dilations, **attrs)


conv1d, conv2d, conv3d = over_axes(_conv_nd, 1, 2, 3)


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


def _conv_nd_transpose(
    axes: int,
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    output_padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    output_size: Numbers | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """The transpose of ``conv2d``: every element of ``x`` adds a weighted filter to its window of the result.

    Args:
        x: variable of rank 4.
        weight: filters [in, out / groups, height, width].
        bias: one number per output channel.
        stride, dilation, padding, groups, data_format: those of the ``conv2d`` whose transpose this is.
        output_padding: added to the size of the result at the end of each axis.
        output_size: the size of the result, in place of ``output_padding``.

    Raises:
        ArgumentError: if ``output_size`` cannot be reached with this stride, or is given beside ``output_padding``.

    Example:
        >>> x, w = static.data("x", [None, 3, 4, 4]), static.data("w", [3, 2, 3, 3])
        >>> F.conv2d_transpose(x, w, stride=2, padding=1, output_size=[8, 8]).shape
        (-1, 2, 8, 8)
    """
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
    attrs: dict[str, Any] = {"strides": strides, "dilations": dilations, "pads": pads, "kernel_shape": kernel}
    return window.result(
        "ConvTranspose", x, *window.operands, group=_groups(layer_name, weight.shape[0], groups), output_padding=extra, **attrs
    )


_GROUPS_FIRST = "x weight bias stride padding output_padding groups dilation output_size data_format name"
conv1d_transpose, conv3d_transpose = over_axes(_conv_nd_transpose, 1, 3, arguments=_GROUPS_FIRST)
conv2d_transpose = over_axes(_conv_nd_transpose, 2)


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
