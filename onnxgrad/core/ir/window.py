"""Geometry of sliding windows, shared by convolution and pooling: strides, dilations, padding, known or at run time.

Tests: tests/core/rules/test_pooling.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable

__all__ = ["Window", "dim_of", "extent_at_run_time", "kernel_of", "split_pads", "transposed_window", "window_of"]


def dim_of(op: Builder, x: Variable, axis: int) -> Variable:
    """The size of one axis (not negative), as a vector of one element also where the rank is unknown."""
    return op.Gather(op.Shape(x), [axis]) if x.rank is None else op.Shape(x, start=axis, end=axis + 1)


class Window:
    """A sliding window over the spatial axes of x.

    ``begin`` and ``end`` are pads: numbers, or one-element int64 variables where ``auto_pad`` meets an unknown size. So is
    ``kernel`` for filters of unknown size.
    """

    def __init__(self, x: Any, kernel: list[Any], strides: list[int], dilations: list[int], begin: list[Any], end: list[Any]):
        self.x = x
        self.kernel = kernel
        self.strides = strides
        self.dilations = dilations
        self.begin = begin
        self.end = end
        self.rank = len(kernel)
        self.sizes = [x.dims[2 + i] if x.dims is not None else None for i in range(self.rank)]

    @property
    def static(self) -> bool:
        """Whether all sizes and pads are numbers."""
        return all(isinstance(n, int) for n in [*self.sizes, *self.begin, *self.end, *self.kernel])

    @property
    def extent(self) -> list[int]:
        """How far each window reaches, for known filters."""
        return [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    def outputs(self) -> list[int]:
        """Number of window positions, for static sizes."""
        return [
            (n + b + e - extent) // s + 1
            for n, b, e, extent, s in zip(self.sizes, self.begin, self.end, self.extent, self.strides, strict=True)
        ]

    def fitting_pads(self, op: Builder, covered: Any) -> Any:
        """Pads that turn what the windows cover, without padding, into the spatial shape of x.

        ``covered`` is a tensor of spatial size (outputs - 1) * stride + extent; begin pads are cut off, the end is cut or
        filled with zeros.
        """
        lead = [0, 0]
        if self.static and covered.static_shape is not None:
            after = [n - f + b for n, f, b in zip(self.sizes, covered.static_shape[2:], self.begin, strict=True)]
            return lead + [-b for b in self.begin] + lead + after
        begin = op.Concat(*(_vector(op, b) for b in self.begin), axis=0)
        missing = op.Sub(op.Shape(self.x, start=2), op.Shape(covered, start=2))
        return op.Concat(lead, op.Neg(begin), lead, op.Add(missing, begin), axis=0)


def _vector(op: Builder, value: Any) -> Any:
    return [value] if isinstance(value, int) else value


def window_of(op: Builder, node: Any, x: Any, kernel: list[Any]) -> Window:
    """The window of a Conv or pooling operator over ``x``."""
    rank = len(kernel)
    strides = list(node.attr("strides") or [1] * rank)
    dilations = list(node.attr("dilations") or [1] * rank) if _has(node, "dilations") else [1] * rank
    pads: list[Any] = list(node.attr("pads") or [0] * 2 * rank)
    mode = node.attr("auto_pad")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        begin, end = zip(*(_same(op, x, i, kernel, strides, dilations, mode) for i in range(rank)), strict=True)
        return Window(x, kernel, strides, dilations, list(begin), list(end))
    if mode == "VALID":
        pads = [0] * 2 * rank
    return Window(x, kernel, strides, dilations, pads[:rank], pads[rank:])


def _has(node: Any, name: str) -> bool:
    schema = getattr(node, "operator", node).schema
    return schema is not None and name in schema.attributes


def _same(op: Builder, x: Any, i: int, kernel: list[Any], strides: list[int], dilations: list[int], mode: str) -> tuple[Any, Any]:
    """Padding of one axis so that there are ceil(size / stride) outputs"""
    stride, size = strides[i], x.dims[2 + i] if x.dims is not None else None
    if isinstance(size, int) and isinstance(kernel[i], int):
        extent = extent_at_run_time(op, kernel[i], dilations[i])
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
        return split_pads(op, total, mode)
    length = dim_of(op, x, 2 + i)
    extent = _vector(op, extent_at_run_time(op, kernel[i], dilations[i]))
    outputs = op.Div(op.Add(length, [stride - 1]), [stride])
    total = op.Max(op.Sub(op.Add(op.Mul(op.Sub(outputs, [1]), [stride]), extent), length), [0])
    return split_pads(op, total, mode)


def kernel_of(op: Builder, node: Any, w: Variable) -> list[Any] | None:
    """Spatial size of a filter: numbers, or one-element variables where it is unknown; None where its rank is unknown."""
    sizes = node.attr("kernel_shape")
    if sizes:
        return list(sizes)
    rank = next((v.rank for v in (w, node.inputs[0], node.outputs[0]) if v is not None and v.rank is not None), None)
    if rank is None:
        return None
    dims = w.dims or [None] * rank
    return [dims[axis] if isinstance(dims[axis], int) else dim_of(op, w, axis) for axis in range(2, rank)]


def transposed_window(op: Builder, node: Any, x: Variable, y: Any, kernel: Any) -> Window:
    """The window with which the result ``y`` of a ConvTranspose of ``x`` would be convolved to give the shape of x."""
    rank = len(kernel)
    strides = list(node.attr("strides") or [1] * rank)
    dilations = list(node.attr("dilations") or [1] * rank)
    pads = list(node.attr("pads") or [0] * 2 * rank)
    extra = list(node.attr("output_padding") or [0] * rank)
    mode, wanted = node.attr("auto_pad"), node.attr("output_shape")
    begin, end = pads[:rank], pads[rank:]
    if wanted or mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = list(wanted)[-rank:] if wanted else [None] * rank
        totals = [_total_pads(op, x, i, strides[i], extra[i], kernel[i], dilations[i], wanted[i]) for i in range(rank)]
        begin, end = (list(side) for side in zip(*(split_pads(op, total, mode) for total in totals), strict=True))
    return Window(y, kernel, strides, dilations, begin, end)


def _total_pads(op: Builder, x: Variable, i: int, stride: int, extra: int, kernel: Any, dilation: int, wanted: Any) -> Any:
    """Return how much a ConvTranspose cuts off one axis to give the wanted size, or size * stride"""
    size, extent = x.dims[2 + i] if x.dims is not None else None, extent_at_run_time(op, kernel, dilation)
    if isinstance(size, int) and isinstance(extent, int):
        return max(stride * (size - 1) + extra + extent - (size * stride if wanted is None else wanted), 0)
    length = dim_of(op, x, 2 + i)
    wanted = op.Mul(length, [stride]) if wanted is None else [wanted]
    full = op.Add(op.Mul(op.Sub(length, [1]), [stride]), op.Add(_vector(op, extent), [extra]))
    return op.Max(op.Sub(full, wanted), [0])


def split_pads(op: Builder, total: Any, mode: str) -> tuple[Any, Any]:
    """Padding divided between begin and end, the larger half at the end for SAME_UPPER."""
    small = total // 2 if isinstance(total, int) else op.Div(total, [2])
    large = total - small if isinstance(total, int) else op.Sub(total, small)
    return (small, large) if mode == "SAME_UPPER" else (large, small)


def extent_at_run_time(op: Builder, kernel: Any, dilation: int) -> Any:
    """Return the extent of a window of this size: a number, or a one-element variable."""
    if isinstance(kernel, int):
        return dilation * (kernel - 1) + 1
    return op.Add(op.Mul(op.Sub(kernel, [1]), [dilation]), [1])
