"""Convolutions with small feature maps as one matrix product over all images, for known shapes. Measured with scripts/benchmark.

onnxruntime convolves image by image, so a convolution whose result is a small feature map (as the weight gradient of any) is made
of matrix products too small for its cores. Here all images go into one product. Series and volumes come here; for
images ``chwn`` is faster.

Tests: tests/core/providers/test_im2col.py.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import CPU_FORMS, Pass
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["IM2COL"]

_SMALL_MAP = COSTS.count("im2col.largest_map")
_LARGEST_COLUMNS = COSTS.count("im2col.largest_columns")
_WIDE = COSTS.count("im2col.fewest_channels")
_SMALLEST_BATCH = COSTS.count("im2col.smallest_batch")
_FEWEST_TAPS = COSTS.count("im2col.fewest_taps")
_FEWEST_RESULTS = COSTS.count("im2col.fewest_results")


class _Shape(NamedTuple):
    """Sizes of a convolution without groups: [batch, wide, *space] with [out, wide, *kernel] to [batch, out, *positions]."""

    batch: int
    wide: int
    out: int
    space: tuple[int, ...]
    kernel: tuple[int, ...]
    positions: tuple[int, ...]

    def im2col_indices(self, op: Operator) -> np.ndarray[Any, Any]:
        """[positions, taps]: the flat index in space that a tap reads at a position; the size of space in the padding."""
        rank = len(self.space)
        strides, dilations = op.attr("strides") or [1] * rank, op.attr("dilations") or [1] * rank
        pads = op.attr("pads") or [0] * rank
        flat, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
        axes = zip(self.space, self.kernel, self.positions, strides, dilations, pads[:rank], strict=True)
        for size, kernel, count, stride, dilation, pad in axes:
            at = np.arange(count)[:, None] * stride - pad + np.arange(kernel) * dilation
            both = (flat.shape[0] * count, flat.shape[1] * kernel)
            flat = (flat[:, None, :, None] * size + at[None, :, None, :]).reshape(both)
            inside = (inside[:, None, :, None] & ((at >= 0) & (at < size))[None, :, None, :]).reshape(both)
        return np.where(inside, flat, prod(self.space))


def _shape_of(op: Operator, image: Variable | None, weight: Variable | None, result: Variable | None) -> _Shape | None:
    """The sizes, or None where this form does not apply: groups, unknown or empty shapes, not float32, automatic pads."""
    operands = (image, weight, result)
    if op.attr("group") not in (None, 1) or op.attr("auto_pad") not in (None, "NOTSET"):
        return None
    if any(v is None or v.static_shape is None or not all(v.static_shape) or v.dtype.name != "float32" for v in operands):
        return None
    x, w, y = (v.static_shape for v in operands)  # type: ignore[union-attr]
    assert x is not None and w is not None and y is not None
    return _Shape(x[0], x[1], w[0], x[2:], w[2:], y[2:])


def convolution(build: Any, op: Operator) -> list[Variable | None] | None:
    """y = w [out, wide * taps] times columns [wide * taps, positions * batch], gathered from x"""
    x, w = op.inputs[:2]
    shape = _shape_of(op, x, w, op.outputs[0])
    if shape is None:
        return None
    area, taps = prod(shape.positions), prod(shape.kernel)
    columns = shape.wide * taps * area * shape.batch
    if area > _SMALL_MAP or columns > _LARGEST_COLUMNS or shape.batch < _SMALLEST_BATCH or shape.wide * taps < _FEWEST_TAPS:
        return None
    flat_w = build.Reshape(w, [shape.out, shape.wide * taps])
    indices = shape.im2col_indices(op)
    if area == 1 and np.array_equal(indices, np.arange(prod(shape.space))[None]):
        y = build.MatMul(build.Reshape(x, [shape.batch, shape.wide * taps]), build.Transpose(flat_w, perm=[1, 0]))
    else:
        y = _by_columns(build, x, flat_w, shape, indices)
    y = build.Reshape(y, [shape.batch, shape.out, *shape.positions])
    bias = op.inputs[2] if len(op.inputs) > 2 else None
    if bias is not None:
        y = build.Add(y, build.Unsqueeze(bias, list(range(1, len(shape.space) + 1))))
    return [y]


def _by_columns(build: Any, x: Any, flat_w: Any, shape: _Shape, indices: np.ndarray[Any, Any]) -> Any:
    """[batch, out * positions]"""
    rank, size, area = len(shape.space) + 2, prod(shape.space), prod(shape.positions)
    rows = build.Reshape(build.Transpose(x, perm=[*range(1, rank), 0]), [shape.wide * size, shape.batch])
    outside = indices == size
    in_rows = np.arange(shape.wide)[None, :, None] * size + indices[:, None]
    if outside.any():
        rows = build.Concat(rows, np.zeros((1, shape.batch), np.float32), axis=0)
        in_rows = np.where(outside[:, None], shape.wide * size, in_rows)
    # One product per position: the result is transposed as a matrix, which is fast.
    columns = build.Gather(rows, in_rows.reshape(area, -1))
    y = build.Reshape(build.MatMul(flat_w, columns), [area, shape.out * shape.batch])
    y = build.Reshape(build.Transpose(y, perm=[1, 0]), [shape.out, shape.batch, area])
    return build.Transpose(y, perm=[1, 0, 2])


def transposed_convolution(build: Any, op: Operator) -> list[Variable | None] | None:
    """x = for each index the sum over taps of (w^T [wide * taps, out] times y [out, positions * batch])"""
    y, w = op.inputs[:2]
    shape = _shape_of(op, op.outputs[0], w, y)
    if shape is None or (len(op.inputs) > 2 and op.inputs[2] is not None) or op.attr("output_shape"):
        return None
    area, taps = prod(shape.positions), prod(shape.kernel)
    if taps == 1 and shape.space == shape.positions and shape.batch >= _SMALLEST_BATCH and min(shape.out, shape.wide) >= _WIDE:
        each_its_own = np.array_equal(shape.im2col_indices(op)[:, 0], np.arange(area))
        return [_by_pixels(build, y, w, shape)] if each_its_own else None
    if area > _SMALL_MAP or shape.batch < _SMALLEST_BATCH or shape.out < _FEWEST_RESULTS:
        return None
    rank, size = len(shape.space) + 2, prod(shape.space)
    flat_y = build.Reshape(build.Transpose(y, perm=[*range(1, rank), 0]), [shape.out, area * shape.batch])
    flat_w = build.Reshape(w, [shape.out, shape.wide * taps])
    columns = build.Reshape(build.MatMul(build.Transpose(flat_w, perm=[1, 0]), flat_y), [shape.wide, taps * area, shape.batch])
    pairs = _pairs_by_index(shape.im2col_indices(op), size)
    if (pairs == taps * area).any():
        columns = build.Concat(columns, np.zeros((shape.wide, 1, shape.batch), np.float32), axis=1)
    summed = build.ReduceSum(build.Gather(columns, pairs, axis=1), [1], keepdims=0)
    x = build.Transpose(build.Reshape(summed, [shape.wide * size, shape.batch]), perm=[1, 0])
    return [build.Reshape(x, [shape.batch, shape.wide, *shape.space])]


def _by_pixels(build: Any, y: Any, w: Any, shape: _Shape) -> Any:
    """w^T [wide, out] times y [out, batch * positions], for a filter of one tap that reads every position"""
    perm = [1, 0, *range(2, len(shape.space) + 2)]
    flat_y = build.Reshape(build.Transpose(y, perm=perm), [shape.out, shape.batch * prod(shape.space)])
    x = build.MatMul(build.Transpose(build.Reshape(w, [shape.out, shape.wide]), perm=[1, 0]), flat_y)
    return build.Transpose(build.Reshape(x, [shape.wide, shape.batch, *shape.space]), perm=perm)


def _pairs_by_index(indices: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    """[most, size]: for each index the (tap, position) pairs that read it, numbered; their count where there are fewer"""
    area, taps = indices.shape
    by_index: list[list[int]] = [[] for _ in range(size + 1)]
    for position in range(area):
        for tap in range(taps):
            by_index[indices[position, tap]].append(tap * area + position)
    groups = by_index[:size]
    most = max(1, max(map(len, groups)))
    return np.array([pairs + [taps * area] * (most - len(pairs)) for pairs in groups], np.int64).T


IM2COL = Pass("im2col", forms={"Conv": convolution, "ConvTranspose": transposed_convolution}, rounding="order", gain=CPU_FORMS)
