"""Updates at positions that may repeat, as rows of a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.tensor.layer import is_variable

__all__ = ["summed_at", "written_at"]

_END = np.iinfo(np.int64).max


def summed_at(op: Builder, index: Variable, updates: Variable, size: Any) -> Variable:
    """Zeros of a shape with updates added at positions.

    The positions become numbers of rows, so that ScatterElements adds up: ScatterND loses updates on several threads.
    """
    shape = size if is_variable(size) else op.constant(size)
    flat, rows, matrix = _as_rows(op, index, updates, shape)
    zeros = op.Expand(op.constant(0, updates.dtype), matrix)
    return op.Reshape(op.ScatterElements(zeros, flat, rows, axis=0, reduction="add"), shape, allowzero=1)


def written_at(op: Builder, index: Variable, updates: Variable, x: Variable) -> Variable:
    """``x`` with updates at positions; where they repeat, ScatterElements writes in order, ScatterND on several threads in any"""
    shape = op.Shape(x)
    flat, rows, matrix = _as_rows(op, index, updates, shape)
    return op.Reshape(op.ScatterElements(op.Reshape(x, matrix, allowzero=1), flat, rows, axis=0), shape, allowzero=1)


def _as_rows(op: Builder, index: Variable, updates: Variable, shape: Variable) -> tuple[Variable, Variable, Variable]:
    """Positions as numbers of rows, spread along them; the updates as rows; the shape of a matrix of all rows"""
    depth = index.shape[-1]
    lead, tail = op.Slice(shape, [0], [depth], [0]), op.Slice(shape, [depth], [_END], [0])
    row = op.Squeeze(index, [-1]) if depth == 1 else _row_numbers(op, index, lead)
    rows = op.Reshape(updates, op.Concat(np.array([-1]), op.ReduceProd(tail, keepdims=1), axis=0), allowzero=1)
    flat = op.Expand(op.Reshape(row, np.array([-1, 1])), op.Shape(rows))
    return flat, rows, op.Concat(op.ReduceProd(lead, keepdims=1), op.ReduceProd(tail, keepdims=1), axis=0)


def _row_numbers(op: Builder, index: Variable, lead: Variable) -> Variable:
    """Positions in several axes as one number each; what lies outside gets a number that ScatterElements refuses"""
    # Row strides: the product of all later leading sizes.
    weights = [op.ReduceProd(op.Slice(lead, [i + 1], [_END], [0]), keepdims=1) for i in range(index.shape[-1])]
    wrapped = op.Where(op.Less(index, 0), op.Add(index, lead), index)
    outside = op.Cast(op.Or(op.Less(wrapped, 0), op.GreaterOrEqual(wrapped, lead)), to=6)
    row = op.ReduceSum(op.Mul(wrapped, op.Concat(*weights, axis=0)), [-1], keepdims=0)
    return op.Where(op.Cast(op.ReduceMax(outside, [-1], keepdims=0), to=9), np.array(_END), row)
