"""Convert between layouts of channels: functions compute with channels first, and give results in the layout that was asked for."""

from __future__ import annotations

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.tensor.layer import LayerHelper

__all__ = ["channels_last", "in_layout", "is_last", "to_channels_first"]


def channels_last(data_format: str, axes: int) -> bool:
    """Whether channels are the last axis.

    Raises:
        ArgumentError: if the layout does not fit the number of spatial axes.
    """
    layouts = {1: ("NCL", "NLC", "NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}[axes]
    if data_format not in layouts:
        raise ArgumentError(f"data_format is one of {layouts}, not {data_format!r}.")
    return data_format.endswith("C")


def is_last(data_format: str, x: Variable) -> bool:
    """Whether channels are the last axis of ``x``, for functions that take any rank: the second letter is C if they are not."""
    return x.ndim > 2 and data_format[1] != "C"


def to_channels_first(layer: LayerHelper, x: Variable, last: bool) -> Variable:
    """``x`` with its channels, which are the last axis if ``last`` says so, on axis 1."""
    if not last:
        return x
    return layer.op.Transpose(x, perm=[0, x.ndim - 1, *range(1, x.ndim - 1)])


def in_layout(layer: LayerHelper, y: Variable, last: bool, named: bool = True) -> Variable:
    """A result computed with channels first, in the layout asked for; ``named`` counts it among the results of the layer."""
    if not last:
        return y
    perm = [0, *range(2, y.ndim), 1]
    return layer.result("Transpose", y, perm=perm) if named else layer.op.Transpose(y, perm=perm)
