"""Describe feature maps, and the convolutions that read them.

Tests: tests/core/providers/test_chwn.py, tests/core/providers/test_hwnc.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnxgrad.core.graph.matching import SWAPPED, operand_of
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.origin import FILTER_GRADIENT, is_piece
from onnxgrad.core.ir.variable import Variable

__all__ = ["MapWindow", "filter_operands", "is_float32", "is_image", "shape_of", "usual_pads"]


def shape_of(v: Variable | None) -> tuple[int, ...]:
    """The known shape, with ones in front up to rank 4; empty if it is not known or longer."""
    shape = None if v is None else v.static_shape
    return () if shape is None or len(shape) > 4 else (1,) * (4 - len(shape)) + tuple(shape)


def is_float32(v: Variable | None) -> bool:
    """Return whether it is a tensor of four axes of known size, in float32."""
    return v is not None and v.static_shape is not None and len(v.static_shape) == 4 and v.dtype.name == "float32"


def is_image(v: Variable | None) -> bool:
    """Return whether it is a tensor [N, C, H, W] of known shape, with numbers in it."""
    return v is not None and v.static_shape is not None and len(v.static_shape) == 4 and all(v.static_shape)


def usual_pads(op: Operator) -> bool:
    """Return whether the pads of a convolution are written out, and not negative."""
    return op.attr("auto_pad") in (None, "NOTSET") and min(op.attr("pads") or [0]) >= 0


class MapWindow:
    """Kernel, strides, dilations and pads of a convolution of images."""

    def __init__(self, op: Operator, kernel: Sequence[int]) -> None:
        self.kernel = tuple(kernel)
        self.strides = op.attr("strides") or [1, 1]
        self.dilations = op.attr("dilations") or [1, 1]
        self.pads = op.attr("pads") or [0, 0, 0, 0]
        self.group = op.attr("group") or 1

    @classmethod
    def of_filter(cls, op: Operator, kernel: Sequence[int]) -> MapWindow:
        """Return the window of the convolution whose filter gradient this Conv is: strides and dilations have changed roles."""
        window = cls(op, kernel)
        window.strides, window.dilations = window.dilations, window.strides
        return window

    @property
    def reach(self) -> list[int]:
        """How far the filter reaches beyond its first tap: the largest pads of a convolution that runs backwards."""
        return [d * (k - 1) for d, k in zip(self.dilations, self.kernel, strict=True)] * 2


def filter_operands(op: Operator) -> tuple[Variable, Variable] | None:
    """x and gy, where a backward pass writes the gradient of a filter as Conv with batch and channels of both swapped."""
    if not is_piece(op, FILTER_GRADIENT):
        return None
    if len(op.inputs) > 2 and op.inputs[2] is not None:
        return None
    group = op.attr("group") or 1
    x = operand_of(op.inputs[0], "Transpose", SWAPPED) if group == 1 else _swapped_in_groups(op.inputs[0], group)
    gy = operand_of(op.inputs[1], "Transpose", SWAPPED)
    return None if x is None or gy is None else (x, gy)


def _swapped_in_groups(swapped: Variable | None, group: int) -> Variable | None:
    """The images [N, G C, H, W] that stand as [C, G N, H, W], or None."""
    turned = operand_of(swapped, "Reshape")
    apart = operand_of(turned, "Transpose", [2, 1, 0, 3, 4])
    x = operand_of(apart, "Reshape")
    if swapped is None or apart is None or x is None or x.dims is None or apart.dims is None or swapped.dims is None:
        return None
    channels, *space = x.dims[1:]
    if len(swapped.dims) != 4 or not all(isinstance(size, int) and size > 0 for size in (channels, *space)):
        return None
    each = channels // group  # type: ignore[operator]
    # The axis that is left has as many elements as are left.
    is_apart, is_swapped = apart.dims[1:] == (group, each, *space), (swapped.dims[0], *swapped.dims[2:]) == (each, *space)
    return x if is_apart and is_swapped else None
