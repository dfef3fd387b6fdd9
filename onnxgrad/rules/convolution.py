"""Convolutions. The gradient of each is the other two: Dumoulin and Visin, "A guide to convolution arithmetic", 2016."""

from __future__ import annotations

from onnxgrad.autodiff.registry import gradient
from onnxgrad.errors import UnsupportedGradient
from onnxgrad.rules.window import Window, window_of


def _kernel(node, w):
    """Spatial size of the filter, which must be known"""
    sizes = node.attr("kernel_shape") or (list(w.dims[2:]) if w.dims is not None else None)
    if sizes is None or not all(isinstance(size, int) for size in sizes):
        raise UnsupportedGradient(f"{node}: the size of its filter is unknown. Set kernel_shape.")
    return list(sizes)


@gradient("Conv")
def conv(op, node, gy):
    """gx = ConvTranspose(gy, w);  gw = Conv(x, gy) with batch and channels swapped;  gb = gy summed"""
    x, w = node.inputs[:2]
    window = window_of(op, node, x, _kernel(node, w))
    gx = _conv_input_gradient(op, w, gy, window, node.attr("group")) if node.wants(0) else None
    gw = _conv_weight_gradient(op, gy, window, node.attr("group")) if node.wants(1) else None
    return (gx, gw, _sum_per_channel(op, gy, x))[: len(node.inputs)]


def _sum_per_channel(op, g, x):
    """Sum over batch and space"""
    return op.ReduceSum(g, [0, *range(2, x.rank)], keepdims=0)


def _conv_input_gradient(op, w, gy, window, group):
    """Each output gives back to the inputs that its window saw"""
    attrs = {"strides": window.strides, "dilations": window.dilations, "group": group, "kernel_shape": window.kernel}
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


def _conv_weight_gradient(op, gy, window, group):
    """Convolve x with gy: batch becomes the summed channel, strides and dilations change places"""
    x, window = window.x, _without_remainder(window)
    left, right = _swap_batch(op, x, group), op.Transpose(gy, perm=_swapped(x.rank))
    attrs = {"strides": window.dilations, "dilations": window.strides, "group": group}
    if all(isinstance(p, int) for p in window.begin + window.end):
        attrs["pads"] = window.begin + window.end
    else:
        zeros = [0, 0]
        begin, end = (op.Concat(*([p] if isinstance(p, int) else p for p in side), axis=0) for side in (window.begin, window.end))
        left = op.Pad(left, op.Concat(zeros, begin, zeros, end, axis=0))
    gw = op.Transpose(op.Conv(left, right, **attrs), perm=_swapped(x.rank))
    if window.static and _taps(window) == window.kernel:
        return gw
    return op.Slice(gw, [0] * window.rank, window.kernel, list(range(2, x.rank)))


def _without_remainder(window):
    """The window with end pads that no position sees taken away, where they can be.

    Otherwise the result is cut, and the gradient of the cut is a Pad whose result is a filter: onnxruntime's Pad_Fusion makes an
    invalid graph of that.
    """
    if not window.static:
        return window
    spans = zip(window.sizes, window.begin, window.end, window.extent, window.strides, strict=True)
    unseen = [(n + b + e - extent) % s for n, b, e, extent, s in spans]
    end = [e - r if r <= e else e for e, r in zip(window.end, unseen, strict=True)]
    return Window(window.x, window.kernel, window.strides, window.dilations, window.begin, end)


def _taps(window):
    """Spatial size of the weight gradient before it is cut to the filter"""
    spans = zip(window.sizes, window.begin, window.end, window.strides, window.outputs(), window.dilations, strict=True)
    return [(n + b + e - s * (out - 1) - 1) // d + 1 for n, b, e, s, out, d in spans]


def _swapped(rank):
    return [1, 0, *range(2, rank)]


def _swap_batch(op, x, group):
    """[N, G C, ...] as [C, G N, ...]"""
    if group == 1:
        return op.Transpose(x, perm=_swapped(x.rank))
    space = op.Shape(x, start=2)
    batch, channels = op.Shape(x, start=0, end=1), op.Shape(x, start=1, end=2)
    per_group = op.Div(channels, [group])
    apart = op.Reshape(x, op.Concat(batch, [group], per_group, space, axis=0), allowzero=1)
    turned = op.Transpose(apart, perm=[2, 1, 0, *range(3, x.rank + 1)])
    return op.Reshape(turned, op.Concat(per_group, op.Mul(batch, [group]), space, axis=0), allowzero=1)


@gradient("ConvTranspose")
def conv_transpose(op, node, gy):
    """gx = Conv(gy, w);  gw = the weight gradient of that Conv;  gb = gy summed"""
    x, w = node.inputs[:2]
    kernel = _kernel(node, w)
    window = _transposed_window(node, x, gy, kernel)
    group = node.attr("group")
    pads = window.begin + window.end
    gx = None
    if node.wants(0):
        attrs = {"strides": window.strides, "dilations": window.dilations, "group": group, "kernel_shape": kernel}
        gx = op.Conv(gy, w, pads=pads, **attrs)
    gw = _conv_weight_gradient(op, x, window, group) if node.wants(1) else None
    return (gx, gw, _sum_per_channel(op, gy, x))[: len(node.inputs)]


def _transposed_window(node, x, gy, kernel):
    """The window with which gy would be convolved to give the shape of x"""
    rank = len(kernel)
    strides = list(node.attr("strides") or [1] * rank)
    dilations = list(node.attr("dilations") or [1] * rank)
    pads = list(node.attr("pads") or [0] * 2 * rank)
    extra = list(node.attr("output_padding") or [0] * rank)
    mode, wanted = node.attr("auto_pad"), node.attr("output_shape")
    begin, end = pads[:rank], pads[rank:]
    if wanted or mode in ("SAME_UPPER", "SAME_LOWER"):
        if x.static_shape is None:
            raise UnsupportedGradient(f"{node}: output_shape and auto_pad need known sizes here. Set pads instead.")
        sizes = x.static_shape[2:]
        wanted = list(wanted)[-rank:] if wanted else [n * s for n, s in zip(sizes, strides, strict=True)]
        for i in range(rank):
            total = strides[i] * (sizes[i] - 1) + extra[i] + dilations[i] * (kernel[i] - 1) + 1 - wanted[i]
            half = max(total, 0) // 2
            begin[i] = half if mode == "SAME_UPPER" else max(total, 0) - half
            end[i] = max(total, 0) - begin[i]
    if any(e >= s for e, s in zip(extra, strides, strict=True)):
        raise UnsupportedGradient(f"{node}: output_padding must be smaller than the stride.")
    return Window(gy, kernel, strides, dilations, begin, end)
