"""Patterns of operators in a backward pass, as its rules write them.

Tests: tests/core/providers/test_pool_gradient.py, tests/core/providers/test_embedding_gradients.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["BY_PIXELS", "SWAPPED", "im2col_indices", "im2col_indices_of_image", "operand_of", "pool_of"]

SWAPPED = [1, 0, 2, 3]
"""The order of axes that swaps the batch and the channels of images."""
BY_PIXELS = [2, 3, 0, 1]
"""The order of axes that turns images [N, C, H, W] into [H, W, N, C], and these back."""


def operand_of(v: Variable | None, op_type: str, perm: list[int] | None = None) -> Variable | None:
    """The first operand of the operator that computes ``v``, if it has this type and, if given, this ``perm``."""
    producer = None if v is None else v.op
    if producer is None or producer.type != op_type or (perm is not None and producer.attr("perm") != perm):
        return None
    return producer.inputs[0]


def pool_of(index: Variable | None) -> Operator | None:
    """The MaxPool whose Indices, within their planes, an index holds."""
    within = operand_of(index, "Mod")
    indices = operand_of(within, "Reshape") or within
    producer = None if indices is None else indices.op
    return producer if producer is not None and producer.type == "MaxPool" and producer.outputs[1] is indices else None


def im2col_indices(dilation: int, stride: int, pad: int, taps: int, positions: int) -> np.ndarray[Any, Any]:
    """Along one axis, the index that a tap reads at a position, [taps, positions]; below 0 or beyond the size in the padding."""
    indices: np.ndarray[Any, Any] = np.arange(taps)[:, None] * dilation + np.arange(positions) * stride - pad
    return indices


def im2col_indices_of_image(
    dilations: Sequence[int], strides: Sequence[int], kernel: Sequence[int], positions: Sequence[int], width: int
) -> np.ndarray[Any, Any]:
    """The flat index in an image, its padding included, that each tap reads at each position, [taps, positions]."""
    axes = zip(dilations, strides, kernel, positions, strict=True)
    down, across = (im2col_indices(dilation, stride, 0, *sizes) for dilation, stride, *sizes in axes)
    indices: np.ndarray[Any, Any] = down[:, None, :, None] * width + across[None, :, None, :]
    return indices.reshape(kernel[0] * kernel[1], positions[0] * positions[1])
