"""Products of elements and determinants. No rule divides by an element, so zeros are like any other number.

The derivative of a product is the product of all other elements: here the elements are repeated, each time with another one
replaced by 1, and multiplied again.

Tests: tests/core/rules/test_gradients.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.known import known_ints
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like, flat_positions, last_axis
from onnxgrad.core.rules.registry import gradient

_SHORT = COSTS.count("products.longest_row")
"""Up to so many elements the products of all others are taken directly; beyond, in blocks, as their cost is quadratic."""


@gradient("ReduceProd")
def reduce_prod(op, node, gy):
    """gx_i = gy * product of the other reduced elements (no division: right for any number of zeros)"""
    x, axes = node.inputs[0], node.operand("axes")
    known = known_ints(axes)
    if node.attr("noop_with_empty_axes") and (axes is None or known == []):
        return gy
    if axes is None or known == []:
        return _of_rows(op, op.Reshape(x, [1, -1]), gy, op.Shape(x)) if _surely_filled(x) else _sorted(op, node, x, gy)
    if known is None or x.rank is None:
        return _sorted(op, node, x, gy)
    reduced = sorted({axis % x.rank for axis in known})
    order = [axis for axis in range(x.rank) if axis not in reduced] + reduced
    kept = x.rank - len(reduced)
    moved = op.Transpose(x, perm=order)
    count = op.ReduceProd(op.Shape(moved, start=kept), keepdims=1) if len(reduced) > 1 else op.Shape(moved, start=kept)
    rows = op.Reshape(moved, op.Concat(op.Shape(moved, start=0, end=kept), count, axis=0), allowzero=1)
    back = [order.index(axis) for axis in range(x.rank)]
    g = op.Reshape(gy, op.Concat(op.Shape(moved, start=0, end=kept), [1], axis=0), allowzero=1)
    return op.Transpose(_of_rows(op, rows, g, op.Shape(moved)), perm=back)


def _surely_filled(x: Variable) -> bool:
    return x.static_shape is not None and 0 not in x.static_shape


def _of_rows(op: Builder, rows: Variable, g: Variable, shape: Variable) -> Variable:
    """g * the product of the other elements of each row, in the given shape"""
    return op.Reshape(op.Mul(_product_of_others(op, rows), g), shape, allowzero=1)


def _product_of_others(op: Builder, rows: Variable) -> Variable:
    """Return for each element the product of all others of its row (last axis)."""
    length = rows.dims[-1] if rows.dims is not None else None
    if isinstance(length, int) and length <= _SHORT:
        return _leaving_out_each(op, rows)
    return _in_blocks(op, rows)


def _leaving_out_each(op: Builder, rows: Variable) -> Variable:
    """The same directly: repeat the row once per element, with that one replaced by 1"""
    repeated = op.Where(_unit(op, rows), 1.0, op.Unsqueeze(rows, [-2]))
    return op.ReduceProd(repeated, [last_axis(repeated)], keepdims=0)


def _unit(op: Builder, x: Variable) -> Variable:
    """Whether i = j, for the indices along the last axis of x"""
    length = x.dims[-1] if x.dims is not None else None
    if isinstance(length, int):
        return op.constant(np.eye(length, dtype=bool))
    positions = op.Range(0, op.Squeeze(op.Shape(x, start=-1), [0]), 1)
    return op.Equal(op.Unsqueeze(positions, [1]), positions)


def _in_blocks(op: Builder, rows: Variable) -> Variable:
    """The same for long rows: the others of the element's own block of about sqrt(n), times all other blocks"""
    count = op.Shape(rows, start=-1)
    block = op.Add(op.Cast(op.Floor(op.Sqrt(op.Cast(count, to=1))), to=7), [1])
    blocks = op.Div(op.Add(count, block), block)
    missing = op.Sub(op.Mul(blocks, block), count)
    filled = op.Pad(rows, op.Concat([0], missing, axis=0), op.constant(1, rows.dtype), [-1])
    lead = op.Shape(rows, start=0, end=-1)
    apart = op.Reshape(filled, op.Concat(lead, blocks, block, axis=0), allowzero=1)
    outside = _leaving_out_each(op, op.ReduceProd(apart, [last_axis(apart)], keepdims=0))
    others = op.Mul(_leaving_out_each(op, apart), op.Unsqueeze(outside, [-1]))
    joined = op.Reshape(others, op.Shape(filled), allowzero=1)
    return op.Slice(joined, [0], count, [-1])


def _sorted(op: Builder, node: Any, x: Variable, gy: Variable) -> Variable:
    """The same for axes or a rank that are known at run time only: elements are brought together by the result they go into"""
    axes, noop = node.operand("axes"), node.attr("noop_with_empty_axes")
    y = node.outputs[0] if node.attr("keepdims") else op.ReduceProd(x, axes=axes, keepdims=1, noop_with_empty_axes=noop)
    result = op.Reshape(op.Expand(flat_positions(op, y), op.Shape(x)), [-1])
    total, results = op.Reshape(op.Size(x), [1]), op.Reshape(op.Size(y), [1])
    _, order = op.TopK(result, total, largest=0, outputs=2)
    flat = op.Reshape(x, [-1])
    each = op.Concat(results, op.Div(total, op.Max(results, [1])), axis=0)
    others = _product_of_others(op, op.Reshape(op.Gather(flat, order), each, allowzero=1))
    through = op.Mul(others, op.Reshape(gy, op.Concat(results, [1], axis=0), allowzero=1))
    back = op.ScatterElements(flat, order, op.Reshape(through, total, allowzero=1), axis=0)
    return op.Reshape(back, op.Shape(x), allowzero=1)


@gradient("CumProd")
def cum_prod(op, node, gy):
    """gx_i = sum over j of gy_j * (running product up to j with x_i replaced by 1), over the j whose product holds x_i"""
    x, axis = node.inputs
    exclusive, reverse = node.attr("exclusive"), node.attr("reverse")
    first, second, behind = _axes_around(op, x, axis)
    indices = op.Range(0, op.Gather(op.Shape(x), axis), 1)
    replaced, running = op.Unsqueeze(indices, [1]), op.Unsqueeze(indices, [0])
    holds = {(0, 0): op.LessOrEqual, (1, 0): op.Less, (0, 1): op.GreaterOrEqual, (1, 1): op.Greater}[exclusive, reverse]
    included, unit = op.Unsqueeze(holds(replaced, running), behind), op.Unsqueeze(op.Equal(replaced, running), behind)
    without = op.Where(unit, 1.0, op.Unsqueeze(x, first))
    products = op.CumProd(without, op.Squeeze(second), exclusive=exclusive, reverse=reverse)
    parts = op.Mul(op.Mul(products, op.Unsqueeze(gy, first)), cast_like(op, included, x))
    return op.ReduceSum(parts, second, keepdims=0)


def _axes_around(op: Builder, x: Any, axis: Any) -> Any:
    """With one more axis put before ``axis``: the new one, the old one, and the axes of a matrix over both that must be added"""
    number = known_ints(axis)
    if number is not None and x.rank is not None:
        first = number[0] % x.rank
        return [first], op.constant(np.array([first + 1])), list(range(2, x.rank - first + 1))
    rank = op.Size(op.Shape(x))
    first = op.Mod(op.Add(op.Reshape(op.Cast(axis, to=7), [1]), rank), rank)
    behind = op.Range(2, op.Add(op.Sub(rank, op.Squeeze(first)), 1), 1)
    return first, op.Add(first, 1), behind


@gradient("Det")
def det(op, node, gy):
    """gx_ij = gy * cofactor_ij, the determinant of x with row i replaced by the unit vector j (right for singular x)"""
    (x,) = node.inputs
    unit = _unit(op, x)
    row, vector = op.Unsqueeze(unit, [1, 3]), cast_like(op, op.Unsqueeze(unit, [0, 2]), x)
    cofactors = op.Det(op.Where(row, vector, op.Unsqueeze(x, [-4, -3])))
    return op.Mul(cofactors, op.Unsqueeze(gy, [-2, -1]))
