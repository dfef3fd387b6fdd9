"""Resampling and regions of interest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_resize import Resize as _PlainResize

from onnxgrad.testing.reference_ops.registry import corrected


@corrected
class Resize(_PlainResize):
    """Fails for axes counted from the back and for empty tensors"""

    def _run(self, x, roi=None, scales=None, sizes=None, axes=None, **attrs):
        axes = None if axes is None else [axis % x.ndim for axis in axes]
        if x.size:
            return super()._run(x, roi, scales, sizes, axes=axes, **attrs)
        shape = list(x.shape)
        for index, axis in enumerate(range(x.ndim) if axes is None else axes):
            shape[axis] = int(shape[axis] * scales[index]) if sizes is None else int(sizes[index])
        return (np.zeros(shape, x.dtype),)


@corrected
class AffineGrid(OpRun):
    """Rounds its result to float32, and fails where a length of one has its corners aligned"""

    def _run(self, theta, size, align_corners=None):
        lengths = [int(n) for n in size[2:]]
        axes = [np.linspace(-1, 1, n) if align_corners else (2 * np.arange(n) + 1) / n - 1 for n in lengths]
        base = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(lengths)], axis=-1)
        return (np.einsum("nij,...j->n...i", theta, base).astype(theta.dtype),)


@corrected
class GridSample(OpRun):
    """Rounds coordinates to float32, loses the shape of empty results, and clamps coordinates in cubic mode with border
    padding: onnxruntime, like the framework that the operator comes from, only repeats the border there."""

    def _run(self, x, grid, mode=None, padding_mode=None, align_corners=None):
        lengths = np.array(x.shape[2:])
        y = np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
        for n, *output in np.ndindex(*grid.shape[:-1]):
            normal = grid[(n, *output)][::-1]
            point = (normal + 1) / 2 * (lengths - 1) if align_corners else ((normal + 1) * lengths - 1) / 2
            reach = {"nearest": 0, "linear": 1, "cubic": 2}[mode]
            low = np.rint(point) if mode == "nearest" else np.floor(point)
            for offset in np.ndindex(*[max(2 * reach, 1)] * len(lengths)):
                tap = low + np.array(offset) - max(reach - 1, 0)
                weight = np.prod([_KERNELS[mode](d) for d in tap - point])
                found = [_padded(int(i), int(size), padding_mode, align_corners) for i, size in zip(tap, lengths, strict=True)]
                if None not in found:
                    y[(n, slice(None), *output)] += weight * x[(n, slice(None), *found)]
        return (y,)


def _keys(distance: float, a: float = -0.75) -> float:
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


_KERNELS = {"nearest": lambda d: 1.0, "linear": lambda d: max(0.0, 1 - abs(d)), "cubic": _keys}


def _padded(i: int, size: int, padding: str, align_corners: bool) -> int | None:
    if padding == "border":
        return min(max(i, 0), size - 1)
    while padding == "reflection" and not 0 <= i < size:
        if size == 1:
            return 0
        i = (-i if align_corners else -1 - i) if i < 0 else (2 * size - 2 - i if align_corners else 2 * size - 1 - i)
    return i if 0 <= i < size else None


@corrected
class MaxRoiPool(OpRun):
    """Is missing: the bins of Girshick, "Fast R-CNN", 2015, with the rounding of onnxruntime."""

    def _run(self, x, rois, pooled_shape=None, spatial_scale=None):
        y = np.zeros((len(rois), x.shape[1], *pooled_shape), x.dtype)
        for r, (image, *corners) in enumerate(rois):
            x1, y1, x2, y2 = (int(math.copysign(math.floor(abs(c * spatial_scale) + 0.5), c)) for c in corners)
            edges = []
            for (start, end), bins, size in zip(((y1, y2), (x1, x2)), pooled_shape, x.shape[2:], strict=True):
                step = max(end - start + 1, 1) / bins
                pairs = [(math.floor(b * step) + start, math.ceil((b + 1) * step) + start) for b in range(bins)]
                edges.append([slice(*(min(max(edge, 0), size) for edge in pair)) for pair in pairs])
            for i, j in np.ndindex(*pooled_shape):
                part = x[int(image), :, edges[0][i], edges[1][j]]
                if part[0].size:
                    y[r, :, i, j] = part.max(axis=(1, 2))
        return (y,)


@corrected
class DeformConv(OpRun):
    """Samples with the plain GridSample, and fails for an image of one row or column."""

    def _run(
        self, x, w, offset, b=None, mask=None, dilations=None, group=None, kernel_shape=None, offset_group=None, pads=None,
        strides=None,
    ):  # fmt: skip
        strides, dilations, pads = strides or [1, 1], dilations or [1, 1], pads or [0] * 4
        kernel, space, sets = w.shape[2:], offset.shape[2:], offset_group or 1
        shifts = offset.reshape(len(x), sets, *kernel, 2, *space)
        factors = np.ones((len(x), sets, *kernel, *space)) if mask is None else mask.reshape(len(x), sets, *kernel, *space)
        y = np.zeros((len(x), len(w), *space), x.dtype)
        if b is not None:
            y += b.reshape(1, -1, 1, 1)
        for n, out, c, *tap, i, j in np.ndindex(*y.shape[:2], w.shape[1], *kernel, *space):
            channel = out // (len(w) // (group or 1)) * w.shape[1] + c
            which = channel // (x.shape[1] // sets)
            point = [tap[a] * dilations[a] + (i, j)[a] * strides[a] - pads[a] + shifts[(n, which, *tap, a, i, j)] for a in (0, 1)]
            value = _bilinear(x[n, channel], *point)
            y[n, out, i, j] += w[(out, c, *tap)] * factors[(n, which, *tap, i, j)] * value
        return (y,)


def _bilinear(plane: Any, row: float, column: float) -> float:
    """Between the elements around a point; zeros outside"""
    total = 0.0
    for i in (math.floor(row), math.floor(row) + 1):
        for j in (math.floor(column), math.floor(column) + 1):
            if 0 <= i < plane.shape[0] and 0 <= j < plane.shape[1]:
                total += plane[i, j] * (1 - abs(row - i)) * (1 - abs(column - j))
    return total
