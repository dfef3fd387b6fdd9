"""Convert between layouts of channels: functions compute with channels first, and give results in the layout that was asked for."""

from __future__ import annotations

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.tensor.layer import LayerHelper, present_operands

__all__ = ["ImageLayer", "channels_last", "is_last"]


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


class ImageLayer(LayerHelper):
    """One use of a function on images: its input ``x`` with channels first, and its results in the layout that was asked for.

    Args:
        layer_name: name of the layer.
        x: the images.
        data_format: their layout.
        operands: further variables, or None where one is not given.
        axes: number of spatial axes, which the layout has to fit; None for functions that take any rank.
        name: as of LayerHelper.
    """

    def __init__(
        self,
        layer_name: str,
        x: Variable,
        data_format: str,
        *operands: Variable | None,
        axes: int | None = None,
        name: str | None = None,
    ) -> None:
        self.operands = present_operands(*operands)
        super().__init__(layer_name, x, *self.operands, name=name)
        self.last = is_last(data_format, x) if axes is None else channels_last(data_format, axes)
        self.x = self.op.Transpose(x, perm=[0, x.ndim - 1, *range(1, x.ndim - 1)]) if self.last else x

    def in_layout(self, y: Variable) -> Variable:
        """A result that was computed with channels first, as it was asked for."""
        return LayerHelper.result(self, "Transpose", y, perm=[0, *range(2, y.ndim), 1]) if self.last else y
