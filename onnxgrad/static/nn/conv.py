"""Convolutions with new filters, their transposes, and the deformable one.

Tests: tests/static/test_layers.py.
"""

from __future__ import annotations

import math
from typing import Any

import onnxgrad.nn.functional as F
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, ProgramError
from onnxgrad.internal.arguments import checked
from onnxgrad.nn.functional.layout import channels_last
from onnxgrad.nn.functional.windows import numbers, pads_of
from onnxgrad.nn.types import Layout2D, Layout3D, Numbers, Padding
from onnxgrad.static.nn.common import Attr, known_channels
from onnxgrad.tensor.common import positive
from onnxgrad.tensor.initializer import Constant, Initializer, Normal, XavierUniform
from onnxgrad.tensor.layer import ActivationName, LayerHelper

__all__ = ["conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "deform_conv2d"]


@checked
def conv2d(
    input: Variable,
    num_filters: int,
    filter_size: Numbers,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int | None = None,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    use_cudnn: bool = True,
    act: ActivationName | None = None,
    name: str | None = None,
    data_format: Layout2D = "NCHW",
) -> Variable:
    """Convolve [N, C, H, W] with new filters and add a new bias.

    Args:
        input: variable of rank 4 with a known number of channels.
        num_filters: number of output channels.
        filter_size, stride, dilation: one number or one per spatial axis.
        padding: one number, one per axis, [top, bottom, left, right], pairs for all axes, ``"SAME"`` (which sets the dilation
            to 1) or ``"VALID"``.
        groups: channels are split into so many independent groups.
        param_attr, bias_attr: attributes of filters (normal, std sqrt(2 / fan_in)) and bias (0); ``bias_attr=False`` for none.
        act: activation applied last.
        data_format: ``"NCHW"`` or ``"NHWC"``.

    Returns:
        A variable of rank 4 in the same layout.

    Raises:
        ProgramError: if the number of channels is not known.

    Example:
        >>> static.nn.conv2d(static.data("x", [None, 3, 8, 8]), num_filters=4, filter_size=3).shape
        (-1, 4, 6, 6)
    """
    sizes = {"stride": stride, "padding": padding, "dilation": dilation}
    return _layer("conv2d", 2, input, num_filters, filter_size, sizes, groups, param_attr, bias_attr, act, name, data_format)


@checked
def conv3d(
    input: Variable,
    num_filters: int,
    filter_size: Numbers,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int | None = None,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    use_cudnn: bool = True,
    act: ActivationName | None = None,
    name: str | None = None,
    data_format: Layout3D = "NCDHW",
) -> Variable:
    """Convolve [N, C, D, H, W] with new filters and add a new bias.

    Args:
        input: variable of rank 5 with a known number of channels.
        num_filters: number of output channels.
        filter_size, stride, dilation: one number or one per spatial axis.
        padding: one number, one per axis, [front, back, top, bottom, left, right], pairs for all axes, ``"SAME"`` (which sets the
            dilation to 1) or ``"VALID"``.
        groups: channels are split into so many independent groups.
        param_attr, bias_attr: attributes of filters (normal, std sqrt(2 / fan_in)) and bias (0); ``bias_attr=False`` for none.
        act: activation applied last.
        data_format: ``"NCDHW"`` or ``"NDHWC"``.

    Returns:
        A variable of rank 5 in the same layout.

    Raises:
        ProgramError: if the number of channels is not known.

    Example:
        >>> static.nn.conv3d(static.data("x", [None, 3, 8, 8, 8]), num_filters=4, filter_size=3).shape
        (-1, 4, 6, 6, 6)
    """
    sizes = {"stride": stride, "padding": padding, "dilation": dilation}
    return _layer("conv3d", 3, input, num_filters, filter_size, sizes, groups, param_attr, bias_attr, act, name, data_format)


@checked
def conv2d_transpose(
    input: Variable,
    num_filters: int,
    output_size: Numbers | None = None,
    filter_size: Numbers | None = None,
    padding: Padding = 0,
    stride: Numbers = 1,
    dilation: Numbers = 1,
    groups: int | None = None,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    use_cudnn: bool = True,
    act: ActivationName | None = None,
    name: str | None = None,
    data_format: Layout2D = "NCHW",
) -> Variable:
    """The transpose of a convolution: as the gradient of ``conv2d`` with respect to its input.

    Args:
        input: variable of rank 4 with a known number of channels.
        num_filters: number of output channels.
        output_size: spatial size of the result; the smallest possible unless given.
        filter_size: the size of the filters; computed from ``output_size`` if None.
        padding, stride, dilation, groups, param_attr, bias_attr, act, data_format: as in ``conv2d``; filters start Xavier uniform.

    Raises:
        ProgramError: if a size that is needed is not known.
        ArgumentError: if neither ``output_size`` nor ``filter_size`` is given, or ``output_size`` is out of reach.

    Example:
        >>> static.nn.conv2d_transpose(static.data("x", [None, 3, 4, 4]), num_filters=2, filter_size=3, stride=2).shape
        (-1, 2, 9, 9)
    """
    sizes = {"stride": stride, "padding": padding, "dilation": dilation, "output_size": output_size}
    return _layer(
        "conv2d_transpose", 2, input, num_filters, filter_size, sizes, groups, param_attr, bias_attr, act, name, data_format
    )


@checked
def conv3d_transpose(
    input: Variable,
    num_filters: int,
    output_size: Numbers | None = None,
    filter_size: Numbers | None = None,
    padding: Padding = 0,
    stride: Numbers = 1,
    dilation: Numbers = 1,
    groups: int | None = None,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    use_cudnn: bool = True,
    act: ActivationName | None = None,
    name: str | None = None,
    data_format: Layout3D = "NCDHW",
) -> Variable:
    """The transpose of a convolution: as the gradient of ``conv3d`` with respect to its input.

    Args:
        input: variable of rank 5 with a known number of channels.
        num_filters: number of output channels.
        output_size: spatial size of the result; the smallest possible unless given.
        filter_size: the size of the filters; computed from ``output_size`` if None.
        padding, stride, dilation, groups, param_attr, bias_attr, act, data_format: as in ``conv3d``; filters start Xavier uniform.

    Raises:
        ProgramError: if a size that is needed is not known.
        ArgumentError: if neither ``output_size`` nor ``filter_size`` is given, or ``output_size`` is out of reach.

    Example:
        >>> static.nn.conv3d_transpose(static.data("x", [None, 3, 4, 4, 4]), num_filters=2, filter_size=3, stride=2).shape
        (-1, 2, 9, 9, 9)
    """
    sizes = {"stride": stride, "padding": padding, "dilation": dilation, "output_size": output_size}
    return _layer(
        "conv3d_transpose", 3, input, num_filters, filter_size, sizes, groups, param_attr, bias_attr, act, name, data_format
    )


@checked
def deform_conv2d(
    x: Variable,
    offset: Variable,
    mask: Variable | None,
    num_filters: int,
    filter_size: Numbers,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    deformable_groups: int = 1,
    im2col_step: int = 1,
    weight_attr: Attr = None,
    bias_attr: Attr = None,
    name: str | None = None,
) -> Variable:
    """``conv2d`` that reads each tap at a point shifted by ``offset``, between pixels too, times ``mask``. Zhu et al. 2019.

    Args:
        x: variable of shape [N, C, H, W].
        offset: [N, 2 * deformable_groups * kh * kw, H_out, W_out]: a vertical and a horizontal shift for each tap.
        mask: [N, deformable_groups * kh * kw, H_out, W_out], or None for ones.
        num_filters, filter_size, stride, padding, dilation, groups: as in ``conv2d``.
        weight_attr, bias_attr: attributes of filters and bias.
    """
    layer = LayerHelper("deformable_conv", x, offset, name=name)
    kernel, pads = numbers(filter_size, 2, "deform_conv2d: filter_size"), pads_of(padding, 2)
    if isinstance(pads, str):
        raise ArgumentError("deform_conv2d: padding is numbers.")
    weight, bias = _parameters(layer, "deform_conv2d", x, 1, num_filters, kernel, groups, weight_attr, bias_attr)
    attrs = {"kernel_shape": kernel, "strides": numbers(stride, 2), "dilations": numbers(dilation, 2), "group": groups}
    return layer.result("DeformConv", x, weight, offset, bias, mask, offset_group=deformable_groups, pads=pads, **attrs)


def _layer(
    layer_name: str,
    axes: int,
    input: Variable,
    num_filters: int,
    filter_size: Numbers | None,
    sizes: dict[str, Any],
    groups: int | None,
    param_attr: Attr,
    bias_attr: Attr,
    act: ActivationName | None,
    name: str | None,
    data_format: str,
) -> Variable:
    """The function of ``layer_name`` on ``input`` and new parameters; ``sizes`` are its options for each axis"""
    if filter_size is None and "output_size" in sizes:
        filter_size = _size_for(layer_name, axes, input, data_format, **sizes)
    kernel = numbers(filter_size, axes, f"{layer_name}: filter_size")
    layer = LayerHelper(layer_name, input, name=name)
    last, groups = channels_last(data_format, axes), 1 if groups is None else groups
    axis = axes + 1 if last else 1
    weight, bias = _parameters(layer, layer_name, input, axis, num_filters, kernel, groups, param_attr, bias_attr)
    layer.skip_names(0 if bias is None or last else 1)
    y = getattr(F, layer_name)(input, weight, bias, groups=groups, data_format=data_format, name=layer.name, **sizes)
    return layer.activate(y, act)


def _parameters(
    layer: LayerHelper, layer_name: str, x: Variable, axis: int, filters: int, kernel: list[int], groups: int, *attrs: Attr
) -> tuple[Any, Any]:
    """New filters and a new bias for an input with channels on ``axis``."""
    channels = known_channels(layer_name, x, axis)
    positive(filters, layer_name, "num_filters")
    if channels % positive(groups, layer_name, "groups") or filters % groups:
        raise ArgumentError(f"{layer_name}: {groups} groups do not divide {channels} channels and {filters} filters.")
    default: Initializer = Normal(0.0, math.sqrt(2.0 / (math.prod(kernel) * channels)))
    shape, dtype = [filters, channels // groups, *kernel], x.dtype
    if layer_name.endswith("transpose"):
        default, shape = XavierUniform(), [channels, filters // groups, *kernel]
    weight = layer.parameter(attrs[0], "w", shape, dtype, default)
    return weight, layer.parameter(attrs[1], "b", [filters], dtype, Constant(0.0))


def _size_for(
    layer_name: str, axes: int, x: Variable, data_format: str, stride: Any, padding: Any, dilation: Any, output_size: Any
) -> list[int]:
    """The filters with which a transposed convolution gives ``output_size``"""
    if output_size is None:
        raise ArgumentError(f"{layer_name}: give output_size or filter_size.")
    last, pads = channels_last(data_format, axes), pads_of(padding, axes)
    if pads == "SAME":
        raise ArgumentError(f"{layer_name}: padding 'SAME' needs a filter_size.")
    sizes = list(x.shape[1:-1] if last else x.shape[2:])
    if any(n < 0 for n in sizes):
        raise ProgramError(f"{layer_name}: the spatial size of {x!r} must be known here. Declare it in data().")
    total = [0] * axes if isinstance(pads, str) else [a + b for a, b in zip(pads[:axes], pads[axes:], strict=True)]
    parts = zip(numbers(output_size, axes), sizes, numbers(stride, axes), total, numbers(dilation, axes), strict=True)
    return [(out - (n - 1) * s + pad - 1) // d + 1 for out, n, s, pad, d in parts]
