"""Sampling at computed points: AffineGrid, GridSample, DeformConv.

Tests: tests/core/rules/test_spatial.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like
from onnxgrad.core.rules.interpolation import (
    LINEAR,
    NEAREST,
    add_flat,
    cubic_taps,
    derivative,
    flat_indices,
    lengths_of,
    outer,
    point_count,
    take_flat,
    weights,
)
from onnxgrad.core.rules.registry import gradient
from onnxgrad.errors import UnsupportedGradient


@gradient("AffineGrid")
def affine_grid(op, node, gy):
    """gtheta = gy^T (base grid, 1), which are the grids of the unit thetas"""
    theta, size = node.inputs
    columns = op.Shape(theta, start=2, end=3)
    rows = op.Shape(theta, start=1, end=2)
    unit = op.EyeLike(op.Expand(op.constant(0, theta.dtype), op.Concat(columns, columns, axis=0)))
    # The unit thetas have a one in their first row: only the first coordinate of their grids is used.
    first = op.Pad(op.Unsqueeze(unit, [1]), op.Concat([0, 0, 0, 0], op.Sub(rows, [1]), [0], axis=0))
    one_each = op.Concat(columns, op.Slice(size, [1], [_FAR]), axis=0)
    grids = cast_like(op, op.AffineGrid(first, one_each, align_corners=node.attr("align_corners")), theta)
    base = op.Flatten(op.Gather(grids, 0, axis=-1), axis=1)
    batch, points = op.Shape(theta, start=0, end=1), op.Shape(base, start=1)
    folded = op.Transpose(op.Reshape(gy, op.Concat(batch, points, rows, axis=0), allowzero=1), perm=[0, 2, 1])
    # As one matrix: onnxruntime does not broadcast to a batch of none.
    return op.Reshape(op.MatMul(op.Flatten(folded, axis=2), op.Transpose(base, perm=[1, 0])), op.Shape(theta), allowzero=1)


_FAR = np.iinfo(np.int64).max


@gradient("GridSample")
def grid_sample(op, node, gy):
    """gx = gy added up with the weights of interpolation;  ggrid = gy x times their slopes (none for nearest)"""
    x, grid = node.inputs
    axes = _spatial_axes(node, gy)
    padding, corners = node.attr("padding_mode"), bool(node.attr("align_corners"))
    taps = {"nearest": NEAREST, "linear": LINEAR, "cubic": cubic_taps()}[node.attr("mode")]
    lengths, count = lengths_of(op, x, axes), point_count(op, gy)
    batch = op.Shape(grid, start=0, end=1)
    points = _coordinates(op, op.Reshape(grid, op.Concat(batch, count, [axes], axis=0), allowzero=1), lengths, corners)
    low = [op.Round(p) if taps is NEAREST else op.Floor(p) for p in points]
    t = [op.Sub(p, below) for p, below in zip(points, low, strict=True)]
    indices = op.Flatten(flat_indices(op, low, taps, lengths, padding, corners), axis=1)
    g = op.Reshape(gy, op.Concat(op.Shape(gy, start=0, end=2), count, [1], axis=0), allowzero=1)
    gx = _data_gradient(op, x, indices, t, taps, g, padding) if node.wants(0) else None
    if not node.wants(1) or taps is NEAREST:
        return gx, None
    return gx, _grid_gradient(op, x, grid, indices, t, taps, g, padding, lengths, corners)


def _spatial_axes(node: Any, gy: Variable) -> int:
    """Number of spatial axes"""
    x, grid = node.inputs
    rank = next((v.rank for v in (x, grid, gy) if v.rank is not None), None)
    if rank is None:
        raise UnsupportedGradient(f"{node}: the rank of its input is unknown. Declare its shape in the model's value_info.")
    return rank - 2


def _coordinates(op: Builder, grid: Variable, lengths: list[Variable], corners: bool) -> list[Variable]:
    """Positions in elements, [N, P] per axis; the last axis comes first in the grid"""
    points = []
    for axis, length in enumerate(lengths):
        normal = op.Add(op.Gather(grid, len(lengths) - 1 - axis, axis=2), 1.0)
        size = cast_like(op, length, grid)
        if corners:
            points.append(op.Mul(op.Div(normal, 2.0), op.Sub(size, 1.0)))
        else:
            points.append(op.Div(op.Sub(op.Mul(normal, size), 1.0), 2.0))
    return points


def _data_gradient(op: Builder, x: Variable, indices: Variable, t: list[Variable], taps: Any, g: Variable, padding: str) -> Any:
    """Distribute g, [N, C, P, 1], over the taps of each point."""
    if taps is NEAREST:
        return add_flat(op, x, indices, op.Squeeze(g, [3]), padding)
    weight = outer(op, [weights(op, each, taps.coefficients) for each in t])
    part = op.Mul(g, _taps_last(op, weight, g, taps, len(t), [1]))
    shape = op.Concat(op.Shape(g, start=0, end=2), op.Shape(indices, start=1), axis=0)
    return add_flat(op, x, indices, op.Reshape(part, shape, allowzero=1), padding)


def _taps_last(op: Builder, weight: Variable, g: Variable, taps: Any, axes: int, channel: list[int]) -> Variable:
    """[N, P, T, ..., T] as [N, P, all taps], or with an axis for the channel"""
    batch, points = op.Shape(g, start=0, end=1), op.Shape(g, start=2, end=3)
    return op.Reshape(weight, op.Concat(batch, channel, points, [len(taps.offsets) ** axes], axis=0), allowzero=1)


def _grid_gradient(
    op: Builder,
    x: Variable,
    grid: Variable,
    indices: Variable,
    t: list[Variable],
    taps: Any,
    g: Variable,
    padding: str,
    lengths: list[Variable],
    corners: bool,
) -> Variable:
    """The weight of each tap receives gy x; a coordinate receives that times the slopes of its weights"""
    values = take_flat(op, x, indices, padding)
    shape = op.Concat(op.Shape(g, start=0, end=3), [len(taps.offsets) ** len(t)], axis=0)
    gweight = op.ReduceSum(op.Mul(op.Reshape(values, shape, allowzero=1), g), [1], keepdims=0)
    each = op.Concat(op.Shape(gweight, start=0, end=2), [len(taps.offsets)] * len(t), axis=0)
    gweight = op.Reshape(gweight, each, allowzero=1)
    columns = []
    for axis in reversed(range(len(t))):
        order = [derivative(taps.coefficients) if i == axis else taps.coefficients for i in range(len(t))]
        slope = outer(op, [weights(op, *pair) for pair in zip(t, order, strict=True)])
        gp = op.ReduceSum(op.Mul(gweight, slope), list(range(2, 2 + len(t))), keepdims=0)
        size = cast_like(op, op.Sub(lengths[axis], [1]) if corners else lengths[axis], grid)
        columns.append(op.Unsqueeze(op.Mul(gp, op.Div(size, 2.0)), [2]))
    return op.Reshape(op.Concat(*columns, axis=2), op.Shape(grid), allowzero=1)
