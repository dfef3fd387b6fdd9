"""Convolutions with new filters, their transposes, and the deformable one."""

from __future__ import annotations

import math
from typing import Any

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, ProgramError
from onnxgrad.nn.functional.layout import in_layout, to_channels_first
from onnxgrad.nn.functional.windows import Numbers, Padding, numbers, pads_of, window_pads
from onnxgrad.static.nn.common import Attr
from onnxgrad.tensor.common import positive
from onnxgrad.tensor.initializer import Constant, Initializer, Normal, XavierUniform
from onnxgrad.tensor.layer import LayerHelper

__all__ = ["conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "deform_conv2d"]


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
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
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
    window = _Window("conv2d", 2, filter_size, stride, padding, dilation, data_format)
    return _conv(window, input, num_filters, groups, param_attr, bias_attr, act, name)


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
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """``conv2d`` over three spatial axes, [N, C, D, H, W].

    Example:
        >>> static.nn.conv3d(static.data("x", [None, 3, 8, 8, 8]), num_filters=4, filter_size=3).shape
        (-1, 4, 6, 6, 6)
    """
    window = _Window("conv3d", 3, filter_size, stride, padding, dilation, data_format)
    return _conv(window, input, num_filters, groups, param_attr, bias_attr, act, name)


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
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
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
    window = _Window("conv2d_transpose", 2, filter_size, stride, padding, dilation, data_format)
    return _conv_transpose(window, input, num_filters, output_size, groups, param_attr, bias_attr, act, name)


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
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """``conv2d_transpose`` over three spatial axes."""
    window = _Window("conv3d_transpose", 3, filter_size, stride, padding, dilation, data_format)
    return _conv_transpose(window, input, num_filters, output_size, groups, param_attr, bias_attr, act, name)


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
    window = _Window("deformable_conv", 2, filter_size, stride, padding, dilation, "NCHW")
    layer = LayerHelper(window.kind, x, offset, name=name)
    weight, bias = window.filters(layer, x, num_filters, groups, weight_attr, bias_attr)
    attrs = window.attributes(groups)
    if "auto_pad" in attrs:
        raise ArgumentError("deform_conv2d: padding is numbers.")
    return layer.result("DeformConv", x, weight, offset, bias, mask, offset_group=deformable_groups, **attrs)


class _Window:
    """Filter size, stride, padding and dilation of a convolution over ``axes`` spatial axes."""

    def __init__(
        self, kind: str, axes: int, size: Numbers | None, stride: Numbers, padding: Padding, dilation: Numbers, data_format: str
    ) -> None:
        if data_format not in ("NCHW", "NHWC", "NCDHW", "NDHWC"):
            raise ArgumentError(f"{kind}: the data_format is 'NCHW' or 'NHWC' ('NCDHW', 'NDHWC'), not {data_format!r}.")
        self.kind, self.axes, self.last = kind, axes, data_format[1] != "C"
        self.size = None if size is None else numbers(size, axes, f"{kind}: filter_size")
        self.stride, self.dilation = numbers(stride, axes, f"{kind}: stride"), numbers(dilation, axes, f"{kind}: dilation")
        pads = pads_of(padding, axes, self.last, f"{kind}: padding")
        self.mode = pads if isinstance(pads, str) else None
        if self.mode == "SAME":
            self.dilation = [1] * axes
        self.pads = [0] * (2 * axes) if isinstance(pads, str) else pads

    def attributes(self, groups: int) -> dict[str, Any]:
        found: dict[str, Any] = {"kernel_shape": self.size, "strides": self.stride, "dilations": self.dilation, "group": groups}
        if self.mode is not None:
            return found | {"auto_pad": "SAME_UPPER" if self.mode == "SAME" else "VALID"}
        return found | {"pads": self.pads}

    def filters(
        self,
        layer: LayerHelper,
        x: Variable,
        num_filters: int,
        groups: int,
        param_attr: Attr,
        bias_attr: Attr,
        transposed: bool = False,
    ) -> tuple[Any, Any]:
        """New filters and a new bias."""
        assert self.size is not None
        channels = x.shape[1]
        if channels < 0:
            raise ProgramError(f"{self.kind}: the number of channels of {x!r} must be known. Declare it in data().")
        positive(num_filters, self.kind, "num_filters")
        if channels % positive(groups, self.kind, "groups") or num_filters % groups:
            raise ArgumentError(f"{self.kind}: {groups} groups do not divide {channels} channels and {num_filters} filters.")
        default: Initializer = Normal(0.0, math.sqrt(2.0 / (math.prod(self.size) * channels)))
        shape = [num_filters, channels // groups, *self.size]
        if transposed:
            default, shape = XavierUniform(), [channels, num_filters // groups, *self.size]
        weight = layer.parameter(param_attr, "w", shape, x.dtype, default)
        return weight, layer.parameter(bias_attr, "b", [num_filters], x.dtype, Constant(0.0))


def _conv(
    window: _Window,
    input: Variable,
    num_filters: int,
    groups: int | None,
    param_attr: Attr,
    bias_attr: Attr,
    act: str | None,
    name: str | None,
) -> Variable:
    layer = LayerHelper(window.kind, input, name=name)
    x = to_channels_first(layer, input, window.last)
    groups = 1 if groups is None else groups
    weight, bias = window.filters(layer, x, num_filters, groups, param_attr, bias_attr)
    layer.skip_names(0 if bias is None else 1)
    y = layer.result("Conv", x, weight, bias, **window.attributes(groups))
    return layer.activate(in_layout(layer, y, window.last, named=False), act)


def _conv_transpose(
    window: _Window,
    input: Variable,
    num_filters: int,
    output_size: Numbers | None,
    groups: int | None,
    param_attr: Attr,
    bias_attr: Attr,
    act: str | None,
    name: str | None,
) -> Variable:
    layer = LayerHelper(window.kind, input, name=name)
    x = to_channels_first(layer, input, window.last)
    groups = 1 if groups is None else groups
    if window.mode == "SAME":
        _pad_same(window, x)
    wanted = None if output_size is None else numbers(output_size, window.axes, f"{window.kind}: output_size")
    if window.size is None:
        window.size = _size_for(window, x, wanted)
    weight, bias = window.filters(layer, x, num_filters, groups, param_attr, bias_attr, transposed=True)
    attrs = window.attributes(groups)
    attrs.pop("auto_pad", None)
    attrs["pads"] = window.pads
    if wanted is not None:
        attrs["output_padding"] = _output_padding(window, x, wanted)
    layer.skip_names(0 if bias is None else 1)
    y = layer.result("ConvTranspose", x, weight, bias, **attrs)
    return layer.activate(in_layout(layer, y, window.last, named=False), act)


def _spatial(window: _Window, x: Variable) -> list[int]:
    found = list(x.shape[2:])
    if any(n < 0 for n in found):
        raise ProgramError(f"{window.kind}: the spatial size of {x!r} must be known here. Declare it in data().")
    return found


def _pad_same(window: _Window, x: Variable) -> None:
    """The padding that would give a convolution of ``x`` the size ceil(n / stride)."""
    if window.size is None:
        raise ArgumentError(f"{window.kind}: padding 'SAME' needs a filter_size.")
    _spatial(window, x)
    window.pads = window_pads(x, "SAME", window.size, window.stride)["pads"]


def _total_pads(window: _Window) -> list[int]:
    return [before + after for before, after in zip(window.pads[: window.axes], window.pads[window.axes :], strict=True)]


def _size_for(window: _Window, x: Variable, wanted: list[int] | None) -> list[int]:
    if wanted is None:
        raise ArgumentError(f"{window.kind}: give output_size or filter_size.")
    parts = zip(wanted, _spatial(window, x), window.stride, _total_pads(window), window.dilation, strict=True)
    return [(out - (n - 1) * s + pad - 1) // d + 1 for out, n, s, pad, d in parts]


def _output_padding(window: _Window, x: Variable, wanted: list[int]) -> list[int]:
    assert window.size is not None
    parts = zip(wanted, _spatial(window, x), window.size, window.stride, _total_pads(window), window.dilation, strict=True)
    extra = [out - ((n - 1) * s - pad + d * (k - 1) + 1) for out, n, k, s, pad, d in parts]
    if any(not 0 <= more < max(s, d) for more, s, d in zip(extra, window.stride, window.dilation, strict=True)):
        raise ArgumentError(f"{window.kind}: output_size {wanted} is out of reach of this filter, stride and padding.")
    return extra
