"""The gradients of filters over images [C, H, W, N] as matrix products.

Dense filters: a filter of 3x3 taps reads 9 shifted images, the im2col matrix [9 C, positions]. Along an axis without stride the
gradient of the result can be shifted the other way instead. With the taps across taken from the image and those down from the
gradient there are 3 shifted copies of each, and the product is one of [3 O, positions] and [positions, 3 C]: fewer numbers to
copy, and more rows for each number that is read. With 32 to 256 channels on maps of 128x128 to 16x16, batch 8: 0.5 to 0.9 of the
time.

Depthwise filters: per channel and tap across, the products of all rows of the image, shifted, with all rows of the gradient, summed
over columns and batch; of these, the pairs of rows that a tap down brings together. More products than needed, but of contiguous
rows. High maps are cut into strips of rows, so that fewer pairs do not meet.

Tests: tests/core/providers/test_chwn.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import ceil, prod
from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.matching import im2col_indices
from onnxgrad.core.ir.variable import Variable

__all__ = ["depthwise_filter_of_rows", "depthwise_filter_product", "filter_product"]

_LARGEST_COLUMNS = COSTS.count("filter_products.largest_columns")
"""Numbers in the copies of one product: 64 MB."""
_BATCH = COSTS.count("filter_products.assumed_batch")
"""What is assumed of a batch that is not known."""
_COLUMNS = COSTS.count("filter_products.columns_of_a_product")
"""Positions times images from which on several products are faster, whose operands stay in the processor's cache."""
_PRODUCTS = COSTS.count("filter_products.most_products")
_WORTH = COSTS.number("filter_products.share_of_copies")
"""Of the numbers of the im2col matrix, those that the copies may have to be taken instead."""
_STRIP = COSTS.count("filter_products.rows_of_a_strip")
"""Rows of a strip, about, for depthwise filters."""


@dataclass(frozen=True)
class _Axis:
    """One axis of a convolution's space, and whether the gradient is what is shifted along it."""

    size: int
    positions: int
    taps: int
    stride: int
    dilation: int
    before: int
    shifts_gradient: bool = False

    @property
    def count(self) -> int:
        """How many positions are summed over."""
        return self.size if self.shifts_gradient else self.positions

    def image_indices(self) -> np.ndarray[Any, Any]:
        """Return the index where each tap reads the image at each position, [taps or 1, count]; outside are zeros."""
        taps = np.arange(1 if self.shifts_gradient else self.taps)[:, None] * self.dilation
        indices: np.ndarray[Any, Any] = taps + np.arange(self.count) * self.stride - (0 if self.shifts_gradient else self.before)
        return indices

    def gradient_indices(self) -> np.ndarray[Any, Any]:
        """Return the index where each tap reads the gradient, likewise."""
        taps = np.arange(self.taps if self.shifts_gradient else 1)[:, None] * self.dilation
        indices: np.ndarray[Any, Any] = np.arange(self.count) - taps + (self.before if self.shifts_gradient else 0)
        return indices


def filter_product(build: Any, x: Any, gy: Any, sizes: Sequence[int], positions: Sequence[int], window: Any) -> Variable:
    """gw [O, C, *kernel] from x [C, *sizes, N] and gy [O, *positions, N]

    Args:
        window: ``kernel``, ``strides``, ``dilations`` and ``pads`` of the convolution; none of the pads is negative.
    """
    (channels, *_, batch), out = x.dims, gy.dims[0]
    known = batch if isinstance(batch, int) else _BATCH
    axes = _shifted_axes(channels, out, sizes, positions, window)
    left = _Shifted(build, gy, positions, *(axis.gradient_indices() for axis in axes))
    right = _Shifted(build, x, sizes, *(axis.image_indices() for axis in axes))
    summed = None
    for rows in _strips(axes, _copied(axes, channels, out) * known, known):
        summed = build.Gemm(left.matrix(*rows), right.matrix(*rows), *([] if summed is None else [summed]), transB=1)
    down, across = axes
    if not (down.shifts_gradient or across.shifts_gradient):
        return build.Reshape(summed, [out, channels, *window.kernel])  # type: ignore[no-any-return]
    gradient_taps, image_taps = ([axis.taps for axis in axes if axis.shifts_gradient is shifts] for shifts in (True, False))
    apart = build.Reshape(summed, [out, *gradient_taps, channels, *image_taps])
    at_gradient, at_channels = iter(range(1, 3)), 1 + len(gradient_taps)
    at_image = iter(range(at_channels + 1, 4))
    order = [next(at_gradient if axis.shifts_gradient else at_image) for axis in axes]
    return build.Transpose(apart, perm=[0, at_channels, *order])  # type: ignore[no-any-return]


def _shifted_axes(channels: int, out: int, sizes: Sequence[int], positions: Sequence[int], window: Any) -> list[_Axis]:
    """The axes, so that the copies are smallest; all taps from the image where that gains little"""
    described = list(zip(sizes, positions, window.kernel, window.strides, window.dilations, window.pads[:2], strict=True))
    best = plain = [_Axis(*of_axis) for of_axis in described]
    smallest = _WORTH * _copied(best, channels, out)
    able = [(False, True) if axis.taps > 1 and axis.stride == 1 else (False,) for axis in best]
    # Of two that copy as much, the one that shifts rows of the gradient: its result is put in order by whole rows of the filter.
    for choice in sorted(product(*able), key=lambda shifts: shifts[1]):
        axes = [replace(axis, shifts_gradient=shifts) for axis, shifts in zip(plain, choice, strict=True)]
        if any(choice) and _copied(axes, channels, out) < smallest:
            best, smallest = axes, _copied(axes, channels, out)
    return best


def _copied(axes: Sequence[_Axis], channels: int, out: int) -> float:
    """The numbers of both operands, per image"""
    gradient_taps, image_taps = (prod(axis.taps for axis in axes if axis.shifts_gradient is shifts) for shifts in (True, False))
    return prod(axis.count for axis in axes) * (channels * image_taps + out * gradient_taps)


def _strips(axes: Sequence[_Axis], numbers: float, batch: int) -> list[tuple[int, int]]:
    """The rows that each product sums over"""
    rows, number = axes[0].count, ceil(numbers / _LARGEST_COLUMNS)
    if any(axis.shifts_gradient for axis in axes):
        number = max(number, min(_PRODUCTS, rows * axes[1].count * batch // _COLUMNS))
    number = min(rows, max(1, number))
    bounds = [rows * i // number for i in range(number + 1)]
    return list(pairwise(bounds))


class _Shifted:
    """An image [channels, height, width, N], and the copies of it that taps read"""

    def __init__(
        self, build: Any, image: Any, sizes: Sequence[int], down: np.ndarray[Any, Any], across: np.ndarray[Any, Any]
    ) -> None:
        (top, bottom), (left, right) = (
            (max(0, -int(index.min())), max(0, int(index.max()) + 1 - size))
            for index, size in zip((down, across), sizes, strict=True)
        )
        pads = [0, top, left, 0, 0, bottom, right, 0]
        self.build, self.channels = build, image.dims[0]
        self.image = build.Pad(image, pads) if any(pads) else image
        self.height, self.width = sizes[0] + top + bottom, sizes[1] + left + right
        self.down, self.across = down + top, across + left

    def matrix(self, first: int, last: int) -> Any:
        """[channels * taps, positions * N] for the positions in some rows"""
        down, across = self.down[:, first:last], self.across
        if np.array_equal(across, np.arange(self.width)[None]):
            flat, indices = [self.channels, self.height, -1], down.reshape(-1)
        else:
            flat = [self.channels, self.height * self.width, -1]
            indices = (down[:, None, :, None] * self.width + across[None, :, None, :]).reshape(-1)
        image = self.image
        if not np.array_equal(indices, np.arange(flat[1])):
            image = self.build.Gather(self.build.Reshape(image, flat), indices, axis=1)
        return self.build.Reshape(image, [self.channels * down.shape[0] * across.shape[0], -1])


def depthwise_filter_product(build: Any, x: Any, gy: Any, sizes: Sequence[int], positions: Sequence[int], window: Any) -> Variable:
    """gw [C, 1, *kernel] from x [C, *sizes, N] and gy [C, *positions, N]"""
    channels, (height, width), (rows, columns) = x.dims[0], sizes, positions
    (taps, across), (down_by, across_by), (top, left, _, _) = window.kernel, window.strides, window.pads
    each = rows if rows <= _STRIP else min(range(_STRIP // 2, 2 * _STRIP), key=lambda n: (-rows % n, abs(n - _STRIP)))
    number, read = ceil(rows / each), (each - 1) * down_by + (taps - 1) * window.dilations[0] + 1
    bottom = max(0, (number - 1) * each * down_by + read - height - top)
    right = max(0, (columns - 1) * across_by + (across - 1) * window.dilations[1] + 1 - width - left)
    padded = build.Pad(x, [0, top, left, 0, 0, bottom, right, 0]) if any((top, left, bottom, right)) else x
    gradient = build.Pad(gy, [0] * 5 + [number * each - rows, 0, 0]) if number * each > rows else gy
    gradient = build.Transpose(build.Reshape(gradient, [channels * number, each, -1]), perm=[0, 2, 1])
    wide, high = width + left + right, height + top + bottom
    flat = build.Reshape(padded, [channels, high * wide, -1])
    rows_read = np.arange(number)[:, None] * each * down_by + np.arange(read)
    products = []
    for columns_read in im2col_indices(window.dilations[1], across_by, 0, across, columns):
        shifted = build.Gather(flat, (rows_read[:, :, None] * wide + columns_read).reshape(-1), axis=1)
        shifted = build.Reshape(shifted, [channels * number, read, -1])
        products.append(build.Reshape(build.MatMul(shifted, gradient), [channels, number, 1, read * each]))
    summed = build.ReduceSum(build.Concat(*products, axis=2), [1], keepdims=0)
    return _by_tap(build, summed, read, im2col_indices(window.dilations[0], down_by, 0, taps, each))


def depthwise_filter_of_rows(build: Any, x: Any, gy: Any, window: Any) -> Variable | None:
    """gw [C, 1, *kernel] from x and gy [C, height, width, N], without strips; None where a tap reads nothing but padding."""
    (channels, height, width, _), (_, rows, columns, _) = x.static_shape, gy.static_shape
    (taps, across), (down_by, across_by), (down_apart, across_apart) = window.kernel, window.strides, window.dilations
    products = []
    for indices in im2col_indices(across_apart, across_by, window.pads[1], across, columns):
        inside = np.flatnonzero((indices >= 0) & (indices < width))
        if not inside.size:
            return None
        left = _columns(build, x, indices[inside[0]], indices[inside[-1]] + 1, across_by)
        right = build.Transpose(_columns(build, gy, inside[0], inside[-1] + 1, 1), perm=[0, 2, 1])
        products.append(build.Reshape(build.MatMul(left, right), [channels, 1, height * rows]))
    return _by_tap(build, build.Concat(*products, axis=1), height, im2col_indices(down_apart, down_by, window.pads[0], taps, rows))


def _columns(build: Any, image: Any, start: Any, end: Any, step: int) -> Any:
    """Some columns of [C, H, W, N], as [C, H, columns * N]"""
    channels, height, width, _ = image.static_shape
    if (start, end, step) != (0, width, 1):
        image = build.Slice(image, [int(start)], [int(end)], [2], [step])
    return build.Reshape(image, [channels, height, -1])


def _by_tap(build: Any, products: Any, height: int, reads: np.ndarray[Any, Any]) -> Variable:
    """gw [C, 1, *kernel] from products [C, taps across, height * rows] and the row that each tap reads, [taps, rows]"""
    (channels, across, _), (taps, rows) = products.dims, reads.shape
    met = np.zeros((height, rows, taps), np.float32)
    for tap, indices in enumerate(reads):
        inside = np.flatnonzero((indices >= 0) & (indices < height))
        met[indices[inside], inside, tap] = 1
    by_tap = build.Reshape(build.MatMul(products, met.reshape(-1, taps)), [channels, across * taps])
    # A Transpose of so few numbers at a time takes longer.
    ordered = build.Gather(by_tap, np.arange(across * taps).reshape(across, taps).T.reshape(-1), axis=1)
    return build.Reshape(ordered, [channels, 1, taps, across])  # type: ignore[no-any-return]
