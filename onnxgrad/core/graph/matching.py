"""Patterns of operators in a backward pass, as its rules write them.

Tests: tests/core/providers/test_pool_gradient.py, tests/core/providers/test_embedding_gradients.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from onnxgrad.core.ir.known import entries_of
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.origin import SUM_AT_MAXIMA, is_piece
from onnxgrad.core.ir.types import same_dims
from onnxgrad.core.ir.variable import Variable

__all__ = [
    "BY_PIXELS",
    "SWAPPED",
    "are_same",
    "im2col_indices",
    "im2col_indices_of_image",
    "is_zero",
    "operand_of",
    "producer_of",
    "summed_pool",
]

SWAPPED = [1, 0, 2, 3]
"""The order of axes that swaps the batch and the channels of images."""
BY_PIXELS = [2, 3, 0, 1]
"""The order of axes that turns images [N, C, H, W] into [H, W, N, C], and these back."""


def operand_of(v: Variable | None, op_type: str, perm: list[int] | None = None) -> Variable | None:
    """The first operand of the operator that computes ``v``, if it has this type and, if given, this ``perm``."""
    producer = producer_of(v, op_type)
    return None if producer is None or (perm is not None and producer.attr("perm") != perm) else producer.inputs[0]


def producer_of(v: Variable | None, op_type: str) -> Operator | None:
    """The operator that computes ``v``, if it is the standard one of this type."""
    producer = None if v is None else v.op
    return producer if producer is not None and producer.type == op_type and not producer.domain else None


def are_same(operands: Sequence[Variable | None], others: Sequence[Variable | None]) -> bool:
    """Return whether two lists hold the same variables: ``==`` of variables is an operator, and true of any two."""
    return len(operands) == len(others) and all(v is w for v, w in zip(operands, others, strict=True))


def is_zero(v: Variable) -> bool:
    """Return whether a tensor is a constant of zeros, or an Expand of one."""
    source = operand_of(v, "Expand") or v
    return source.value is not None and not source.persistable and not source.value.numpy().any()


def summed_pool(op: Operator) -> Operator | None:
    """The MaxPool whose gradient a ScatterElements adds up at its maxima, in zeros [N, C, positions]; None of any other one.

    It is the rule of MaxPool that wrote it, and all that this rule writes is there: Indices within the planes of the image, modulo
    the number of its positions.
    """
    data, index, _ = op.inputs
    if not is_piece(op, SUM_AT_MAXIMA) or op.attr("axis") not in (2, -1) or op.attr("reduction") != "add":
        return None
    within = producer_of(index, "Mod")
    if data is None or within is None or within.attr("fmod") or not is_zero(data):
        return None
    indices = operand_of(within.inputs[0], "Reshape") or within.inputs[0]
    pool = producer_of(indices, "MaxPool")
    if pool is None or len(pool.outputs) < 2 or pool.outputs[1] is not indices or pool.attr("storage_order"):
        return None
    image, planes = pool.inputs[0], within.inputs[0]
    if image is None or not _has_planes_of(planes, image) or not _has_planes_of(data, image):
        return None
    return pool if _is_area_of(within.inputs[1], image) and _ends_in_area_of(data, image) else None


def _has_planes_of(v: Variable | None, image: Variable) -> bool:
    """Return whether a tensor [N, C, ...] of rank 3 has the images and channels of an image."""
    return (
        v is not None
        and v.dims is not None
        and image.dims is not None
        and len(v.dims) == 3
        and same_dims(v.dims[:2], image.dims[:2])
    )


def _is_area_of(v: Variable | None, image: Variable) -> bool:
    """Return whether a vector of one element is the number of positions in a plane of an image."""
    return image.dims is not None and _product(_factors(v)) == _product(list(image.dims[2:])) is not None


def _ends_in_area_of(data: Variable, image: Variable) -> bool:
    """Return whether the last axis of a tensor is as long as a plane of an image has positions."""
    sizes = producer_of(data, "Expand")
    joined = None if sizes is None else producer_of(sizes.inputs[1], "Concat")
    if joined is not None and _is_area_of(joined.inputs[-1], image):
        return True
    return (
        image.dims is not None and data.dims is not None and _product([data.dims[-1]]) == _product(list(image.dims[2:])) is not None
    )


def _factors(v: Variable | None) -> list[Any]:
    """The sizes whose product a vector of one element is; None among them for what is not known."""
    entries = entries_of(v)
    if entries is not None:
        return list(entries) if len(entries) == 1 else [None]
    product = producer_of(v, "Mul")
    return [None] if product is None else [factor for operand in product.inputs for factor in _factors(operand)]


def _product(sizes: list[Any]) -> tuple[int, list[str]] | None:
    """The product of sizes: a number and the symbols that multiply it; None where a size is not known."""
    if any(size is None for size in sizes):
        return None
    return prod(size for size in sizes if isinstance(size, int)), sorted(size for size in sizes if isinstance(size, str))


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
