"""Interpolation between the elements around a point: which elements, and with which weights.

A point has a coordinate per spatial axis. Along each axis it takes from a few neighbours, the taps; their weights are
polynomials of its distance t from the neighbour below. Over several axes weights multiply. Coordinates are [N, P], taps [N, P, T].

Tests: tests/core/rules/test_spatial.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder

__all__ = ["LINEAR", "NEAREST", "Taps", "cubic_taps", "derivative", "lengths_of", "outer", "point_count", "weights"]


class Taps:
    """Neighbours of a point by their distance from the one below it, and the polynomial weight of each, lowest power first."""

    def __init__(self, offsets: list[int], coefficients: Any) -> None:
        self.offsets = offsets
        self.coefficients = np.array(coefficients)


NEAREST = Taps([0], [[1.0]])
LINEAR = Taps([0, 1], [[1.0, -1.0], [0.0, 1.0]])


def cubic_taps(a: float = -0.75) -> Taps:
    """Keys, "Cubic convolution interpolation for digital image processing", 1981."""
    near, far = [1, 0, -a - 3, a + 2], [0, a, -2 * a, a]
    return Taps([-1, 0, 1, 2], [far, near, [0, -a, 2 * a + 3, -a - 2], [0, 0, a, -a]])


def weights(op: Builder, t: Any, coefficients: Any) -> Any:
    """The polynomials of t, on a new last axis; numbers where they are constant."""
    columns = [column.astype(t.dtype.numpy) for column in coefficients.T]
    value = columns.pop()
    if not columns:
        return value
    t = op.Unsqueeze(t, [-1])
    while columns:
        value = op.Add(op.Mul(t, value), columns.pop())
    return value


def derivative(coefficients: Any) -> Any:
    """Coefficients of the derived polynomials."""
    powers = np.arange(coefficients.shape[1])
    return (coefficients * powers)[:, 1:]


def outer(op: Builder, factors: list[Any], combine: str = "Mul") -> Any:
    """[N, P, T, ..., T] from one [N, P, T] per axis."""
    result = None
    for axis, factor in enumerate(factors):
        others = [2 + i for i in range(len(factors)) if i != axis]
        if isinstance(factor, np.ndarray):
            factor = factor.reshape([-1] + [1] * (len(factors) - 1 - axis))
        else:
            factor = op.Unsqueeze(factor, others)
        result = factor if result is None else op.emit(combine, (result, factor), {})
    return result


def lengths_of(op: Builder, x: Any, count: int) -> list[Any]:
    """Size of each spatial axis of x, as vectors of one element."""
    return [op.Shape(x, start=2 + axis, end=3 + axis) for axis in range(count)]


def point_count(op: Builder, y: Any) -> Any:
    """Product of the spatial sizes, as a vector of one element."""
    return op.Shape(op.Flatten(y, axis=2), start=1)


def flat_indices(op: Builder, low: list[Any], taps: Taps, lengths: list[Any], padding: str, align_corners: bool) -> Any:
    """The index of each tap in a flattened plane, [N, P, T, ..., T]; outside of it, where zeros are meant, right behind its end.

    Args:
        low: coordinates of the neighbours below, one [N, P] float tensor per axis.
        padding: ``zeros``, ``border`` or ``reflection``.
    """
    flat = inside = None
    for axis, (neighbour, length) in enumerate(zip(low, lengths, strict=True)):
        index = op.Add(op.Unsqueeze(op.Cast(neighbour, to=7), [-1]), taps.offsets)
        index = op.Unsqueeze(index, [2 + i for i in range(len(low)) if i != axis])
        padded = _reflected(op, index, length, align_corners) if padding == "reflection" else _clamped(op, index, length)
        flat = padded if flat is None else op.Add(op.Mul(flat, length), padded)
        if padding == "zeros":
            here = op.Equal(index, padded)
            inside = here if inside is None else op.And(inside, here)
    if inside is None:
        return flat
    area = lengths[0]
    for length in lengths[1:]:
        area = op.Mul(area, length)
    return op.Where(inside, flat, area)


def _clamped(op: Builder, index: Any, length: Any) -> Any:
    return op.Max(op.Min(index, op.Sub(length, [1])), [0])


def _reflected(op: Builder, index: Any, length: Any, align_corners: bool) -> Any:
    """Mirrored at the centres of the outermost elements, or at their outer edges"""
    if align_corners:
        period = op.Max(op.Mul(op.Sub(length, [1]), [2]), [1])
        within = op.Mod(index, period)
        return op.Min(within, op.Sub(period, within))
    within = op.Mod(index, op.Mul(length, [2]))
    return op.Min(within, op.Sub(op.Sub(op.Mul(length, [2]), [1]), within))


def take_flat(op: Builder, x: Any, indices: Any, padding: str) -> Any:
    """Elements of each plane of x, [N, C, ...], at ``indices``, [N, M]: a tensor [N, C, M]."""
    planes = op.Reshape(x, op.Concat(op.Shape(x, start=0, end=2), point_count(op, x), axis=0), allowzero=1)
    if padding == "zeros":
        planes = op.Pad(planes, [0, 0, 0, 0, 0, 1])
    return op.GatherElements(planes, _for_each_channel(op, x, indices), axis=2)


def add_flat(op: Builder, x: Any, indices: Any, g: Any, padding: str) -> Any:
    """A tensor like x, [N, C, ...], with g, [N, C, M], added up at ``indices``, [N, M]."""
    wide = op.Cast(g, to=1) if g.dtype.name in ("float16", "bfloat16") else g
    area = op.Add(point_count(op, x), [int(padding == "zeros")])
    empty = op.Expand(op.constant(0, wide.dtype), op.Concat(op.Shape(x, start=0, end=2), area, axis=0))
    summed = op.ScatterElements(empty, _for_each_channel(op, x, indices), wide, axis=2, reduction="add")
    if padding == "zeros":
        summed = op.Slice(summed, [0], [-1], [2])
    return op.Reshape(op.Cast(summed, to=g.dtype.number), op.Shape(x), allowzero=1)


def _for_each_channel(op: Builder, x: Any, indices: Any) -> Any:
    shape = op.Concat(op.Shape(x, start=0, end=2), op.Shape(indices, start=1), axis=0)
    return op.Expand(op.Unsqueeze(indices, [1]), shape)
