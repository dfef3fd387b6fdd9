"""Convolutions. The gradient of each is the other two: Dumoulin and Visin, "A guide to convolution arithmetic", 2016.

Tests: tests/core/rules/test_gradients.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.origin import FILTER_GRADIENT
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.ir.window import Window, dim_of, kernel_of, transposed_window, window_of
from onnxgrad.core.rules.registry import gradient
from onnxgrad.errors import UnsupportedGradient


def _kernel(op: Builder, node: Any, w: Variable) -> list[Any]:
    """Spatial size of the filter"""
    sizes = kernel_of(op, node, w)
    if sizes is None:
        raise UnsupportedGradient(f"{node}: the rank of its operands is unknown. Set kernel_shape.")
    return sizes


def _attributes(window: Any, group: int) -> Any:
    """Attributes that a Conv and its transpose share"""
    attrs = {"strides": window.strides, "dilations": window.dilations, "group": group}
    known = all(isinstance(size, int) for size in window.kernel)
    return {**attrs, "kernel_shape": window.kernel} if known else attrs


@gradient("Conv")
def conv(op, node, gy):
    """gx = ConvTranspose(gy, w);  gw = Conv(x, gy) with batch and channels swapped;  gb = gy summed"""
    x, w = node.inputs[:2]
    window = window_of(op, node, x, _kernel(op, node, w))
    gx = _conv_input_gradient(op, w, gy, window, node.attr("group")) if node.wants(0) else None
    gw = _conv_weight_gradient(op, node, gy, window, node.attr("group")) if node.wants(1) else None
    return (gx, gw, _sum_per_channel(op, node, gy, window))[: len(node.inputs)]


def _sum_per_channel(op: Builder, node: Any, g: Variable, window: Any) -> Variable | None:
    """Sum over batch and space, if there is a bias"""
    return op.ReduceSum(g, [0, *range(2, window.rank + 2)], keepdims=0) if node.wants(2) else None


def _conv_input_gradient(op: Builder, w: Variable, gy: Variable, window: Any, group: int) -> Variable:
    """Each output gives back to the inputs that its window read"""
    attrs = _attributes(window, group)
    no_remainder = all(stride == 1 for stride in window.strides)
    fixed_pads = all(isinstance(p, int) and p >= 0 for p in window.begin + window.end)
    if fixed_pads and (window.static or no_remainder):
        extra = [0] * window.rank
        if not no_remainder:
            spans = zip(window.sizes, window.begin, window.end, window.extent, window.strides, strict=True)
            extra = [(n + b + e - extent) % s for n, b, e, extent, s in spans]
        if any(extra):
            attrs["output_padding"] = extra
        return op.ConvTranspose(gy, w, pads=window.begin + window.end, **attrs)
    covered = op.ConvTranspose(gy, w, **attrs)
    return op.Pad(covered, window.fitting_pads(op, covered))


def _conv_weight_gradient(op: Builder, node: Any, gy: Variable, window: Any, group: int) -> Variable:
    """Convolve x with gy: batch becomes the summed channel, strides and dilations change roles"""
    x, rank = window.x, window.rank + 2
    window = _without_remainder(window)
    left, right = _swap_batch(op, x, group, rank), op.Transpose(gy, perm=_swapped(rank))
    attrs = {"strides": window.dilations, "dilations": window.strides, "group": group}
    if all(isinstance(p, int) for p in window.begin + window.end):
        attrs["pads"] = window.begin + window.end
    else:
        left = _padded(op, left, window)
    gw = op.Transpose(node.wrote(FILTER_GRADIENT, op.Conv(left, right, **attrs)), perm=_swapped(rank))
    if window.static and _taps(window) == window.kernel:
        return gw
    known = all(isinstance(size, int) for size in window.kernel)
    kernel = window.kernel if known else op.Concat(*_vectors(window.kernel), axis=0)
    return op.Slice(gw, [0] * window.rank, kernel, list(range(2, rank)))


def _padded(op: Builder, x: Variable, window: Any) -> Variable:
    """x with the padding of the window around it"""
    return op.Pad(x, op.Concat([0, 0], *_vectors(window.begin), [0, 0], *_vectors(window.end), axis=0))


def _vectors(values: Any) -> Any:
    return [[value] if isinstance(value, int) else value for value in values]


def _without_remainder(window: Any) -> Any:
    """The window with end pads that no position reads taken away, where they can be.

    Otherwise the result is cut, and the gradient of the cut is a Pad whose result is a filter: onnxruntime's Pad_Fusion makes an
    invalid graph of that.
    """
    if not window.static:
        return window
    spans = zip(window.sizes, window.begin, window.end, window.extent, window.strides, strict=True)
    unseen = [(n + b + e - extent) % s for n, b, e, extent, s in spans]
    end = [e - r if r <= e else e for e, r in zip(window.end, unseen, strict=True)]
    return Window(window.x, window.kernel, window.strides, window.dilations, window.begin, end)


def _taps(window: Any) -> list[int]:
    """Spatial size of the weight gradient before it is cut to the filter"""
    spans = zip(window.sizes, window.begin, window.end, window.strides, window.outputs(), window.dilations, strict=True)
    return [(n + b + e - s * (out - 1) - 1) // d + 1 for n, b, e, s, out, d in spans]


def _swapped(rank: int) -> list[int]:
    return [1, 0, *range(2, rank)]


def _swap_batch(op: Builder, x: Variable, group: int, rank: int) -> Variable:
    """[N, G C, ...] as [C, G N, ...]"""
    if group == 1:
        return op.Transpose(x, perm=_swapped(rank))
    space = op.Shape(x, start=2)
    batch, channels = dim_of(op, x, 0), dim_of(op, x, 1)
    per_group = op.Div(channels, [group])
    apart = op.Reshape(x, op.Concat(batch, [group], per_group, space, axis=0), allowzero=1)
    swapped = op.Transpose(apart, perm=[2, 1, 0, *range(3, rank + 1)])
    return op.Reshape(swapped, op.Concat(per_group, op.Mul(batch, [group]), space, axis=0), allowzero=1)


@gradient("ConvTranspose")
def conv_transpose(op, node, gy):
    """gx = Conv(gy, w);  gw = the weight gradient of that Conv;  gb = gy summed"""
    x, w = node.inputs[:2]
    window = transposed_window(op, node, x, gy, _kernel(op, node, w))
    group = node.attr("group")
    gx = _convolved(op, node, gy, window) if node.wants(0) else None
    gw = _conv_weight_gradient(op, node, x, window, group) if node.wants(1) else None
    return (gx, gw, _sum_per_channel(op, node, gy, window))[: len(node.inputs)]


def _convolved(op: Builder, node: Any, gy: Variable, window: Any) -> Variable:
    """Conv of gy, cut to the size of x: what a ConvTranspose leaves empty behind its last window may hold another one"""
    x, w = node.inputs[:2]
    pads, attrs = window.begin + window.end, _attributes(window, node.attr("group"))
    if all(isinstance(p, int) for p in pads):
        g = op.Conv(gy, w, pads=pads, **attrs)
    else:
        g = op.Conv(_padded(op, gy, window), w, **attrs)
    if g.static_shape is not None and g.static_shape == x.static_shape:
        return g
    extra = node.attr("output_padding") or [0] * window.rank
    sized = node.attr("output_shape") or node.attr("auto_pad") in ("SAME_UPPER", "SAME_LOWER")
    if not sized and all(e < s for e, s in zip(extra, window.strides, strict=True)):
        return g
    return op.Slice(g, [0] * window.rank, op.Shape(x, start=2), list(range(2, window.rank + 2)))
