"""Pooling over regions of interest: RoiAlign and MaxRoiPool, as elements that are gathered, weighted and reduced.

There are R regions with P bins along an axis, S samples in a bin, and T neighbours from which a sample takes: [R, P, S, T].

Tests: tests/core/rules/test_spatial.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like, lowest_of
from onnxgrad.core.rules.interpolation import LINEAR, weights
from onnxgrad.core.rules.registry import expansion


class _Samples(NamedTuple):
    """The samples of bins along one axis: indices [R, P, S, T], their weights, and which samples exist (None: all)"""

    indices: Any
    weights: Any = None
    taken: Any = None


@expansion("RoiAlign")
def roi_align(op, node):
    """y = mean (or max) of what the samples of a bin take from x; grois follows from the slopes of their weights"""
    x, rois, batch = node.inputs
    x1, y1, x2, y2 = _corners(op, node, 4)
    ys, xs = _aligned_samples(op, node, 0, y1, y2), _aligned_samples(op, node, 1, x1, x2)
    values = _gathered(op, x, batch, ys, xs)
    weight = op.Mul(_down(op, ys.weights), _across(op, xs.weights))
    if node.attr("mode") == "avg":
        pooled = op.ReduceSum(op.Mul(values, op.Flatten(weight, axis=3)), [2], keepdims=0)
    else:
        taken = None
        if ys.taken is not None:
            both = op.And(op.Unsqueeze(ys.taken, [2, 4, 5, 6]), op.Unsqueeze(xs.taken, [1, 3, 4, 6]))
            taken = op.Flatten(op.Expand(both, op.Shape(weight)), axis=3)
        pooled = _largest(op, op.Mul(values, op.Flatten(weight, axis=3)), taken)
    return _channels_first(op, pooled, rois, x, [node.attr("output_height"), node.attr("output_width")])


def _corners(op: Builder, node: Any, columns: int) -> list[Variable]:
    """The columns of rois, [R, 1, 1], corners scaled to x"""
    apart = op.Split(op.Unsqueeze(node.inputs[1], [2]), axis=1, num_outputs=columns, outputs=columns)
    scale = float(np.float32(node.attr("spatial_scale")))
    return [op.Mul(column, scale) if i >= columns - 4 else column for i, column in enumerate(apart)]


def _aligned_samples(op: Builder, node: Any, axis: int, start: Variable, end: Variable) -> Any:
    """Sample points lie evenly in a bin; each takes from the two elements around it"""
    x, rois = node.inputs[:2]
    bins = node.attr(("output_height", "output_width")[axis])
    low, size = _extent(op, node, start, end)
    step = op.Div(size, float(bins))
    number, count, taken = _samples_per_bin(op, node, step)
    within = op.Div(op.Mul(op.Add(number, 0.5), step), count)
    point = op.Add(op.Add(low, op.Mul(_numbers(op, bins, rois), step)), within)
    length = op.Shape(x, start=2 + axis, end=3 + axis)
    end = cast_like(op, length, rois)
    inside = cast_like(op, op.And(op.GreaterOrEqual(point, -1.0), op.LessOrEqual(point, end)), rois)
    if taken is not None:
        inside = op.Mul(inside, cast_like(op, taken, rois))
    if node.attr("mode") == "avg":
        inside = op.Div(inside, count)
    point = op.Clip(point, 0.0, op.Squeeze(op.Sub(end, 1.0), [0]))
    below = op.Floor(point)
    weight = op.Mul(weights(op, op.Sub(point, below), LINEAR.coefficients), op.Unsqueeze(inside, [3]))
    indices = op.Add(op.Unsqueeze(op.Cast(below, to=7), [3]), LINEAR.offsets)
    return _Samples(op.Min(indices, op.Sub(length, [1])), weight, taken)


def _extent(op: Builder, node: Any, start: Variable, end: Variable) -> tuple[Variable, Variable]:
    """Start and size of the regions"""
    size = op.Sub(end, start)
    half_pixel = node.attr("coordinate_transformation_mode") == "half_pixel"
    return (op.Sub(start, 0.5), size) if half_pixel else (start, op.Clip(size, 1.0))


def _samples_per_bin(op: Builder, node: Any, step: Variable) -> Any:
    """The numbers 0, 1, ... of the samples, how many a bin has, at least one, and which of the numbers it has"""
    fixed = node.attr("sampling_ratio")
    if fixed > 0:
        return op.constant(np.arange(fixed, dtype=step.dtype.numpy)), float(fixed), None
    count = op.Ceil(step)
    most = op.Max(op.ReduceMax(op.Concat(op.Reshape(count, [-1]), [1.0], axis=0), keepdims=0), 1.0)
    number = cast_like(op, op.Range(0, op.Cast(most, to=7), 1), step)
    return number, op.Max(count, 1.0), op.Less(number, count)


def _numbers(op: Builder, count: int, like: Variable) -> Variable:
    """0, 1, ... as a column"""
    return op.constant(np.arange(count, dtype=like.dtype.numpy).reshape(-1, 1))


def _down(op: Builder, v: Variable) -> Variable:
    """[R, P, S, T] of the rows as [R, PH, 1, S, T, 1, 1]"""
    return op.Unsqueeze(v, [2, 5, 6])


def _across(op: Builder, v: Variable) -> Variable:
    """[R, P, S, T] of the columns as [R, 1, PW, 1, 1, S, T]"""
    return op.Unsqueeze(v, [1, 3, 4])


def _gathered(op: Builder, x: Variable, batch: Variable, ys: Any, xs: Any) -> Variable:
    """[C, R PH PW, all samples of a bin]"""
    planes = op.Flatten(op.Transpose(x, perm=[1, 0, 2, 3]), axis=1)
    first = op.Mul(op.Unsqueeze(op.Cast(batch, to=7), [1, 2, 3]), op.Shape(x, start=2, end=3))
    indices = op.Mul(_down(op, op.Add(first, ys.indices)), op.Shape(x, start=3, end=4))
    return op.Gather(planes, op.Flatten(op.Add(indices, _across(op, xs.indices)), axis=3), axis=1)


def _largest(op: Builder, values: Variable, taken: Variable | None) -> Variable:
    """Maximum over the samples that are taken, 0 where there is none"""
    if taken is None:
        return op.ReduceMax(values, [2], keepdims=0)
    lowest = float(lowest_of(values.dtype))
    largest = op.ReduceMax(op.Where(taken, values, lowest), [2], keepdims=0)
    some = op.ReduceMax(op.Cast(taken, to=6), [1], keepdims=0)
    return op.Where(op.Cast(some, to=9), largest, 0.0)


def _channels_first(op: Builder, pooled: Variable, rois: Variable, x: Variable, bins: list[int]) -> Variable:
    """[C, R PH PW] as [R, C, PH, PW]"""
    shape = op.Concat(op.Shape(x, start=1, end=2), op.Shape(rois, start=0, end=1), bins, axis=0)
    return op.Transpose(op.Reshape(pooled, shape, allowzero=1), perm=[1, 0, 2, 3])


@expansion("MaxRoiPool")
def max_roi_pool(op, node):
    """y = max of x over each bin, whose edges are rounded (so rois have no gradient); 0 for an empty bin"""
    x, rois = node.inputs
    bins = list(node.attr("pooled_shape"))
    batch, x1, y1, x2, y2 = _corners(op, node, 5)
    ys, xs = _pooled_samples(op, node, 0, y1, y2), _pooled_samples(op, node, 1, x1, x2)
    values = _gathered(op, x, op.Squeeze(batch, [1, 2]), ys, xs)
    taken = op.Flatten(op.And(_down(op, ys.taken), _across(op, xs.taken)), axis=3)
    return _channels_first(op, _largest(op, values, taken), rois, x, bins)


def _pooled_samples(op: Builder, node: Any, axis: int, start: Variable, end: Variable) -> Any:
    """The elements of each bin"""
    x, rois = node.inputs
    bins = node.attr("pooled_shape")[axis]
    length = op.Shape(x, start=2 + axis, end=3 + axis)
    start, end = (_rounded(op, op.Unsqueeze(edge, [3])) for edge in (start, end))
    step = op.Div(op.Max(op.Add(op.Sub(end, start), 1.0), 1.0), float(bins))
    number = op.Unsqueeze(_numbers(op, bins, rois), [2])
    low, high = op.Floor(op.Mul(number, step)), op.Ceil(op.Mul(op.Add(number, 1.0), step))
    low, high = (op.Cast(op.Add(edge, start), to=7) for edge in (low, high))
    low, high = (op.Min(op.Max(edge, [0]), length) for edge in (low, high))
    most = op.ReduceMax(op.Concat(op.Reshape(op.Sub(high, low), [-1]), [1], axis=0), keepdims=0)
    indices = op.Add(low, op.Unsqueeze(op.Range(0, most, 1), [1]))
    return _Samples(op.Min(indices, op.Sub(length, [1])), taken=op.Less(indices, high))


def _rounded(op: Builder, v: Variable) -> Variable:
    """Half away from zero"""
    return op.Mul(op.Sign(v), op.Floor(op.Add(op.Abs(v), 0.5)))
