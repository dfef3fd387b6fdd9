"""Arguments that convolutions and pools share: one number per spatial axis, paddings in all of Paddle's forms, their layer.

Tests: tests/nn/test_functional.py.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, Mismatch
from onnxgrad.nn.functional.layout import ImageLayer

__all__ = ["PoolWindow", "numbers", "pads_of", "window_pads"]


def numbers(value: Any, axes: int, what: str = "a window argument") -> list[int]:
    """One int per spatial axis.

    Raises:
        Mismatch: if there are neither one nor as many as axes.
        TypeError: if they are no ints.
    """
    values = [operator.index(n) for n in ([value] if isinstance(value, int) else value)]
    if len(values) == 1:
        return values * axes
    if len(values) != axes:
        raise Mismatch(f"{what} takes one number or {axes}, not {value}.")
    return values


def pads_of(padding: Any, axes: int, channels_last: bool = False, what: str = "padding") -> list[int] | str:
    """Padding as ONNX writes it, all starts and then all ends; or 'SAME' or 'VALID'.

    Paddle takes one number, one per axis, [start, end] for each axis in turn, or pairs for all axes with batch and channels.
    """
    if isinstance(padding, str):
        if padding.upper() not in ("SAME", "VALID"):
            raise ArgumentError(f"{what} is numbers, 'SAME' or 'VALID', not {padding!r}.")
        return padding.upper()
    items: list[Any] = [padding] if isinstance(padding, int) else list(padding)
    if items and not isinstance(items[0], (int, np.integer)):
        pairs = [[int(n) for n in pair] for pair in items]
        if len(pairs) == axes + 2:
            others, pairs = ([pairs[0], pairs[-1]], pairs[1:-1]) if channels_last else (pairs[:2], pairs[2:])
            if any(any(pair) for pair in others):
                raise ArgumentError(f"{what} of batch and channels is 0, not {others}.")
        if len(pairs) != axes:
            raise ArgumentError(f"{what} takes {axes} pairs, or {axes + 2} with batch and channels, not {padding}.")
        return [start for start, _ in pairs] + [end for _, end in pairs]
    pads = [int(n) for n in items]
    by_count = {1: pads * (2 * axes), axes: pads * 2, 2 * axes: pads[::2] + pads[1::2]}
    if len(pads) not in by_count:
        raise ArgumentError(f"{what} takes 1, {axes} or {2 * axes} numbers, not {padding}.")
    return by_count[len(pads)]


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


class PoolWindow(ImageLayer):
    """One use of a convolution or a pool.

    Args:
        layer_name: name of the layer.
        axes: number of spatial axes.
        x: the images.
        data_format: their layout.
        operands: further variables, or None where one is not given.
        name: as of LayerHelper.
    """

    def __init__(
        self, layer_name: str, axes: int, x: Variable, data_format: str, *operands: Variable | None, name: str | None
    ) -> None:
        super().__init__(layer_name, x, data_format, *operands, axes=axes, name=name)
        self.kind, self.axes = layer_name, axes

    def pads(self, padding: Any) -> list[int] | str:
        return pads_of(padding, self.axes, self.last, f"{self.kind}: padding")

    def pool(self, kernel: Any, stride: Any, padding: Any, ceil: bool) -> dict[str, Any]:
        """Attributes of a pool; without a stride, windows lie side by side."""
        sizes = numbers(kernel, self.axes, "kernel_size")
        strides = sizes if stride is None else numbers(stride, self.axes, "stride")
        if ceil and self.pads(padding) == "VALID":
            raise ArgumentError(f"{self.kind}: ceil_mode and padding='VALID' exclude each other.")
        attrs = {"kernel_shape": sizes, "strides": strides, "ceil_mode": int(ceil)}
        return {**attrs, **window_pads(self.x, self.pads(padding), sizes, strides)}

    def result(self, op_type: str, *operands: Any, **attrs: Any) -> Variable:
        return self.in_layout(super().result(op_type, *operands, **attrs))
