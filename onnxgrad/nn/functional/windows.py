"""Arguments that convolutions and pools share: one number per spatial axis, paddings in all of Paddle's forms, layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxgrad.errors import ArgumentError
from onnxgrad.ir.variable import Variable
from onnxgrad.tensor.layer import Layer

__all__ = ["Numbers", "Padding", "channels_last", "in_layout", "numbers", "pads_of", "to_channels_first", "window_pads"]

Numbers = int | Sequence[int]
Padding = int | str | Sequence[Any]


def numbers(value: Any, axes: int, what: str = "a window argument") -> list[int]:
    """One int per spatial axis.

    Raises:
        ArgumentError: if there are neither one nor as many as axes.
    """
    if isinstance(value, int):
        return [value] * axes
    found = [int(n) for n in value]
    if len(found) == 1:
        return found * axes
    if len(found) != axes:
        raise ArgumentError(f"{what} takes one number or {axes}, not {value}.")
    return found


def pads_of(padding: Any, axes: int, channels_last: bool = False) -> list[int] | str:
    """Padding as ONNX writes it, all starts and then all ends; or 'SAME' or 'VALID'.

    Paddle takes one number, one per axis, [start, end] for each axis in turn, or pairs for all axes with batch and channels.
    """
    if isinstance(padding, str):
        if padding.upper() not in ("SAME", "VALID"):
            raise ArgumentError(f"padding is numbers, 'SAME' or 'VALID', not {padding!r}.")
        return padding.upper()
    if isinstance(padding, int):
        return [padding] * (2 * axes)
    items = list(padding)
    if items and not isinstance(items[0], int):
        pairs = [[int(n) for n in pair] for pair in items]
        if len(pairs) == axes + 2:
            pairs = pairs[1:-1] if channels_last else pairs[2:]
        if len(pairs) != axes:
            raise ArgumentError(f"padding takes {axes} pairs, or {axes + 2} with batch and channels, not {padding}.")
        return [start for start, _ in pairs] + [end for _, end in pairs]
    found = [int(n) for n in items]
    if len(found) == 1:
        return found * (2 * axes)
    if len(found) == axes:
        return found * 2
    if len(found) == 2 * axes:
        return found[::2] + found[1::2]
    raise ArgumentError(f"padding takes 1, {axes} or {2 * axes} numbers, not {padding}.")


def window_pads(x: Variable, pads: list[int] | str, kernel: list[int], strides: list[int]) -> dict[str, Any]:
    """Attributes of a window operator; 'SAME' as numbers where the sizes are known, the odd one at the end."""
    if not isinstance(pads, str):
        return {"pads": pads}
    if pads == "VALID":
        return {"auto_pad": "VALID"}
    sizes = x.shape[2:]
    if any(size < 0 for size in sizes):
        return {"auto_pad": "SAME_UPPER"}
    total = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(sizes, kernel, strides, strict=True)]
    return {"pads": [t // 2 for t in total] + [t - t // 2 for t in total]}


def channels_last(data_format: str, axes: int) -> bool:
    """Whether channels are the last axis.

    Raises:
        ArgumentError: if the layout does not fit the number of spatial axes.
    """
    layouts = {1: ("NCL", "NLC", "NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}[axes]
    if data_format not in layouts:
        raise ArgumentError(f"data_format is one of {layouts}, not {data_format!r}.")
    return data_format.endswith("C")


def to_channels_first(layer: Layer, x: Variable, last: bool) -> Variable:
    if not last:
        return x
    return layer.op.Transpose(x, perm=[0, x.ndim - 1, *range(1, x.ndim - 1)])  # type: ignore[no-any-return]


def in_layout(layer: Layer, y: Variable, last: bool) -> Variable:
    """A result computed with channels first, in the layout asked for."""
    return layer.result("Transpose", y, perm=[0, *range(2, y.ndim), 1]) if last else y
