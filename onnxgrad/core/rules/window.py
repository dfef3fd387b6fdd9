"""Geometry of sliding windows, shared by convolution and pooling: strides, dilations, padding, known or at run time."""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.rules.common import dim_of

__all__ = ["Window", "extent_at_run_time", "split_pads", "window_of"]


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
    """The window of a Conv or pooling node over ``x``."""
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
    schema = node.operator.schema
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


def split_pads(op: Builder, total: Any, mode: str) -> tuple[Any, Any]:
    """Padding divided between begin and end, the larger half at the end for SAME_UPPER."""
    small = total // 2 if isinstance(total, int) else op.Div(total, [2])
    large = total - small if isinstance(total, int) else op.Sub(total, small)
    return (small, large) if mode == "SAME_UPPER" else (large, small)


def extent_at_run_time(op: Builder, kernel: Any, dilation: int) -> Any:
    """How far a window of this size reaches: a number, or a one-element variable."""
    if isinstance(kernel, int):
        return dilation * (kernel - 1) + 1
    return op.Add(op.Mul(op.Sub(kernel, [1]), [dilation]), [1])
