"""Depthwise convolutions with a stride, of images [1, C, H, W * N], by the residues of positions modulo the stride.

Along the width a stride cannot be expressed on such an image. But columns of one residue lie side by side once they are gathered,
and of these a filter reads neighbours: the result is a convolution of as many images as the stride has residues, with the taps of
each residue. Backwards, every residue of the image is a convolution of the gradient with its own taps, not one with all taps
over a gradient that is spread by zeros: 9 products of 3x3 taps for a block of 2x2 numbers in place of 36. A few channels at a time
stay in the processor's cache between the convolution and the gathering.

Tests: tests/core/providers/test_depthwise.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.providers.layouts.channel_strips import by_channels
from onnxgrad.core.providers.layouts.feature_maps import MapWindow

__all__ = ["image_gradient", "strided_convolution"]

_Array = np.ndarray[Any, Any]


class _Axis(NamedTuple):
    """One axis: so many ``positions`` of a filter over ``size`` elements."""

    size: int
    positions: int
    taps: int
    stride: int
    dilation: int
    pad: int

    @property
    def blocks(self) -> int:
        """Elements of one residue modulo the stride"""
        return -(-self.size // self.stride)

    def reads(self) -> list[tuple[int, int]]:
        """For each tap, the block and the residue of what it reads at the first position."""
        return [divmod(tap * self.dilation - self.pad, self.stride) for tap in range(self.taps)]


def strided_convolution(build: Any, x: Any, w: Any, sizes: Sequence[int], positions: Sequence[int], window: MapWindow) -> Any:
    """y [C, rows, columns * N] from x [C, height, width * N] and filters [C, 1, *kernel]; None where only padding is read."""
    rows, columns = _axes(sizes, positions, window)
    channels, batch = x.static_shape[0], x.static_shape[2] // columns.size
    reads = columns.reads()
    first, last = min(block for block, _ in reads), max(block for block, _ in reads)
    # [residues, taps down, blocks read]: the tap that meets it there, or the number of taps where none does.
    taps = np.full((columns.stride, rows.taps, last - first + 1), rows.taps * columns.taps)
    for tap, (block, residue) in enumerate(reads):
        taps[residue, :, block - first] = np.arange(rows.taps) * columns.taps + tap
    left = max(0, -first)
    start, read = max(0, first), columns.positions + last - first
    blocks = min(columns.blocks - start, read - left)
    if blocks < 1:
        return None
    column = (start + np.arange(blocks)) * columns.stride + np.arange(columns.stride)[:, None]
    lines = np.arange(rows.size)[:, None] * columns.size
    pixels = np.where(column[:, None] < columns.size, lines + column[:, None], rows.size * columns.size).reshape(-1)
    top, _, bottom, _ = window.pads
    attributes = {
        "pads": [top, left * batch, bottom, (read - left - blocks) * batch],
        "strides": [rows.stride, 1],
        "dilations": [rows.dilation, batch],
    }

    def strip(build: Any, x: Any, filters: Any) -> Any:
        each = x.static_shape[0]
        image = _gathered(build, build.Reshape(x, [each, rows.size * columns.size, batch]), pixels)
        image = build.Reshape(image, [1, each * columns.stride, rows.size, blocks * batch])
        return build.Reshape(build.Conv(image, filters, group=each, **attributes), [each, rows.positions, -1])

    filters = build.Reshape(_filters(build, w, taps), [channels, *taps.shape])
    return by_channels(build, channels, channels * sizes[0] * sizes[1] * batch, [x, filters], strip)


def image_gradient(build: Any, gy: Any, w: Any, sizes: Sequence[int], positions: Sequence[int], window: MapWindow) -> Any:
    """gx [C, height * width, N] from gy [C, rows, columns * N] and filters [C, 1, *kernel]"""
    axes = _axes(sizes, positions, window)
    channels, batch = gy.static_shape[0], gy.static_shape[2] // positions[1]
    # By axis: the blocks that taps are apart from what they read, backwards.
    near, far = ([extreme(-block for block, _ in axis.reads()) for axis in axes] for extreme in (min, max))
    reach = [last - first + 1 for first, last in zip(near, far, strict=True)]
    taps = np.full((*(axis.stride for axis in axes), *reach), axes[0].taps * axes[1].taps)
    for down, (block, modulo) in enumerate(axes[0].reads()):
        for across, (other_block, other) in enumerate(axes[1].reads()):
            taps[modulo, other, -block - near[0], -other_block - near[1]] = down * axes[1].taps + across
    before = [max(0, -first) for first in near]
    after = [max(0, axis.blocks + last - axis.positions) for axis, last in zip(axes, far, strict=True)]
    # What a block reads is counted from the first that is read at all.
    skipped = [max(0, first) for first in near]
    found = [n + b + a - (k - 1) for n, b, a, k in zip(positions, before, after, reach, strict=True)]
    (row, row_residue), (column, column_residue) = (np.divmod(np.arange(axis.size), axis.stride) for axis in axes)
    residue = row_residue[:, None] * axes[1].stride + column_residue
    pixels = (residue * found[0] + row[:, None] + skipped[0]) * found[1] + column + skipped[1]
    attributes = {"pads": [before[0], before[1] * batch, after[0], after[1] * batch], "dilations": [1, batch]}

    def strip(build: Any, gy: Any, filters: Any) -> Any:
        each = gy.static_shape[0]
        residues = build.Conv(build.Reshape(gy, [1, *gy.static_shape]), filters, group=each, **attributes)
        return _gathered(
            build, build.Reshape(residues, [each, axes[0].stride * axes[1].stride * found[0] * found[1], batch]), pixels.reshape(-1)
        )

    filters = build.Reshape(_filters(build, w, taps), [channels * taps.shape[0] * taps.shape[1], 1, *reach])
    return by_channels(build, channels, channels * sizes[0] * sizes[1] * batch, [gy, filters], strip)


def _axes(sizes: Sequence[int], positions: Sequence[int], window: MapWindow) -> list[_Axis]:
    described = zip(sizes, positions, window.kernel, window.strides, window.dilations, window.pads[:2], strict=True)
    return [_Axis(*of_axis) for of_axis in described]


def _filters(build: Any, w: Any, taps: _Array) -> Any:
    """The taps of filters [C, 1, *kernel] in the order of ``taps`` [.., a, b], as filters of a convolution in C groups"""
    channels, number = w.static_shape[0], int(np.prod(w.static_shape[2:]))
    flat = build.Concat(build.Reshape(w, [channels, number]), np.zeros((channels, 1), np.float32), axis=1)
    return build.Gather(flat, taps.reshape(-1), axis=1)


def _gathered(build: Any, rows: Any, indices: _Array) -> Any:
    """Rows [a, n, b] in another order, where index n stands for zeros"""
    before, number, after = rows.static_shape
    if (indices == number).any():
        rows = build.Concat(rows, np.zeros((before, 1, after), np.float32), axis=1)
    return build.Gather(rows, indices, axis=1)
