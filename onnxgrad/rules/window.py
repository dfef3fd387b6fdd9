"""Geometry of sliding windows, shared by convolution and pooling: strides, dilations, padding, known or at run time."""

from __future__ import annotations

from typing import Any

from onnxgrad.errors import UnsupportedGradient

__all__ = ["Window", "vector", "window_of"]


class Window:
    """A sliding window over the spatial axes of x.

    ``pads`` are (begin, end) lists of numbers, or of one-element int64 variables where ``auto_pad`` meets an unknown size.
    The entries of ``kernel`` may be such variables too.
    """

    def __init__(self, x: Any, kernel: list[Any], strides: list[int], dilations: list[int], begin: list[Any], end: list[Any]):
        self.x = x
        self.kernel = kernel
        self.strides = strides
        self.dilations = dilations
        self.begin = begin
        self.end = end
        self.rank = len(kernel)
        self.extent = [d * (k - 1) + 1 if isinstance(k, int) else None for k, d in zip(kernel, dilations, strict=True)]
        self.sizes = [x.dims[2 + i] if x.dims is not None else None for i in range(self.rank)]

    @property
    def static(self) -> bool:
        """Whether all sizes and pads are numbers."""
        return all(isinstance(n, int) for n in [*self.sizes, *self.kernel, *self.begin, *self.end])

    def outputs(self) -> list[int]:
        """Number of window positions, for static sizes."""
        return [
            (n + b + e - extent) // s + 1
            for n, b, e, extent, s in zip(self.sizes, self.begin, self.end, self.extent, self.strides, strict=True)
        ]

    def fitting_pads(self, op: Any, covered: Any) -> Any:
        """Pads that turn what the windows cover, without padding, into the spatial shape of x.

        ``covered`` is a tensor of spatial size (outputs - 1) * stride + extent; begin pads are cut off, the end is cut or
        filled with zeros.
        """
        lead = [0, 0]
        if self.static and covered.static_shape is not None:
            after = [n - f + b for n, f, b in zip(self.sizes, covered.static_shape[2:], self.begin, strict=True)]
            return lead + [-b for b in self.begin] + lead + after
        begin = op.Concat(*(vector(b) for b in self.begin), axis=0)
        missing = op.Sub(op.Shape(self.x, start=2), op.Shape(covered, start=2))
        return op.Concat(lead, op.Neg(begin), lead, op.Add(missing, begin), axis=0)


def vector(value: Any) -> Any:
    """One size as a list for the builder; a variable holds one element already."""
    return [value] if isinstance(value, int) else value


def window_of(op: Any, node: Any, x: Any, kernel: list[Any]) -> Window:
    """The window of a Conv or pooling node over ``x``.

    Raises:
        UnsupportedGradient: if the rank of x is unknown.
    """
    if x.rank is None:
        raise UnsupportedGradient(f"{node}: the rank of its input is unknown. Declare its shape in the model's value_info.")
    rank = x.rank - 2
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


def _same(op: Any, x: Any, i: int, kernel: list[Any], strides: list[int], dilations: list[int], mode: str) -> tuple[Any, Any]:
    """Padding of one axis so that there are ceil(size / stride) outputs"""
    taps, dilation, stride, size = kernel[i], dilations[i], strides[i], x.dims[2 + i]
    if isinstance(size, int) and isinstance(taps, int):
        total = max((-(-size // stride) - 1) * stride + dilation * (taps - 1) + 1 - size, 0)
        small = total // 2
        return (small, total - small) if mode == "SAME_UPPER" else (total - small, small)
    length = op.Shape(x, start=2 + i, end=3 + i)
    steps = op.Div(op.Sub(length, [1]), [stride])
    reach = op.Add(op.Mul(steps, [stride]), op.Mul(op.Sub(vector(taps), [1]), [dilation]))
    total = op.Max(op.Sub(op.Add(reach, [1]), length), [0])
    small = op.Div(total, [2])
    return (small, op.Sub(total, small)) if mode == "SAME_UPPER" else (op.Sub(total, small), small)
