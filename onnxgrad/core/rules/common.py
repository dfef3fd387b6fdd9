"""Small pieces that several families of rules share.

Tests: tests/core/rules/test_gradients.py, tests/core/rules/test_conventions.py.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from onnxgrad.core.ir.bodies import map_sequence
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.types import SequenceType, TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DType
from onnxgrad.errors import UnsupportedGradient

__all__ = [
    "add_rows",
    "all_but",
    "axes_from",
    "cast_like",
    "flat_positions",
    "float32_of",
    "last_axis",
    "lowest_of",
    "masked",
    "not_before",
    "or_infinite",
    "require_ranks",
    "scatter_add_flat",
    "size_along",
    "size_as",
    "swap_last_two",
    "with_rank",
    "zeros_like",
    "zeros_of_shape",
]


def cast_like(op: Builder, x: Variable, like: Variable) -> Variable:
    """``x`` in the element type of ``like``."""
    return op.Cast(x, to=like.dtype.number)


def axes_from(op: Builder, x: Variable, start: int) -> Any:
    """The axes of x from ``start`` on (counted from the end if negative)."""
    if x.rank is not None:
        return list(range(start % x.rank if x.rank else 0, x.rank))
    rank = op.Size(op.Shape(x))
    return op.Range(start if start >= 0 else op.Add(rank, start), rank, 1)


def require_ranks(node: Any, *variables: Variable | None) -> None:
    """Refuse an operator that is written out by rank where the rank of an operand is unknown."""
    if any(v is not None and v.rank is None for v in variables):
        raise UnsupportedGradient(f"{node}: the rank of an operand is unknown. Declare its shape in the model's value_info.")


def lowest_of(dtype: DType) -> float:
    """The most negative finite number of a floating-point type."""
    return float(ml_dtypes.finfo(dtype.numpy).min)


def with_rank(op: Builder, x: Variable, rank: int) -> Variable:
    """``x``, of unknown rank, in a form from which inference, onnx's too, sees its rank."""
    shape: Any = op.Concat(*(op.Gather(op.Shape(x), [axis]) for axis in range(rank)), axis=0) if rank else []
    return op.Reshape(x, shape, allowzero=1)


def masked(op: Builder, g: Variable, condition: Variable) -> Variable:
    """``g`` where the condition holds, else 0. Cast and Mul are several times faster than Where on onnxruntime."""
    return op.Mul(g, cast_like(op, condition, g))


def not_before(op: Builder, value: Any, g: Variable | None) -> Variable:
    """Return a value that is known only when ``g`` is: no runtime computes early, or for good, what reads it"""
    constant: Variable = value if isinstance(value, Variable) else op.constant(value)
    if g is None:
        return constant
    first = op.ReduceSum(op.Slice(op.Reshape(g, [-1]), [0], [1]), keepdims=0)
    never = op.Less(first if first.dtype.name in ("float32", "float64") else op.Cast(first, to=1), -math.inf)
    return op.Where(never, op.constant(np.zeros((), constant.dtype.numpy)), constant)


def or_infinite(op: Builder, divisor: Variable) -> Variable:
    """``divisor``, but infinite where it is 0: what is divided by it becomes 0 there, and so do all derivatives of that."""
    return op.Where(op.Equal(divisor, 0.0), math.inf, divisor)


def zeros_of_shape(op: Builder, shape: Any, like: Variable) -> Variable:
    return op.Expand(op.constant(0, like.dtype), shape)


def zeros_like(op: Builder, like: Variable) -> Variable:
    """Zeros of the shape of a tensor; for a sequence, of each of its elements."""
    if isinstance(like.type, SequenceType):
        return map_sequence(op, [like], zeros_like)
    if not isinstance(like.type, TensorType):
        raise UnsupportedGradient(
            f"{like.name} may be absent or is not always of one type, so it has no zero to be its gradient in a branch that does "
            "not read it. Apply OptionalGetElement to it outside."
        )
    return zeros_of_shape(op, op.Shape(like), like)


def size_as(op: Builder, x: Variable, like: Variable) -> Any:
    """Number of elements of ``x``: a Python number if known, else a scalar in the element type of ``like``."""
    shape = x.static_shape
    if shape is not None:
        count = 1
        for dim in shape:
            count *= dim
        return float(count)
    return cast_like(op, op.Size(x), like)


def size_along(op: Builder, x: Variable, axis: int) -> Variable:
    """Size of one axis as a vector of one element; ``end`` of -1 + 1 would mean the start, so it is left out."""
    return op.Shape(x, start=axis) if axis == -1 else op.Shape(x, start=axis, end=axis + 1)


def swap_last_two(op: Builder, x: Variable) -> Variable:
    assert x.rank is not None
    axes = list(range(x.rank))
    axes[-1], axes[-2] = axes[-2], axes[-1]
    return op.Transpose(x, perm=axes)


def last_axis(x: Variable) -> int:
    """The last axis, from the front where the rank is known: onnxruntime leaves empty tensors unreduced along negative axes."""
    return -1 if x.rank is None else x.rank - 1


def flat_positions(op: Builder, x: Variable) -> Variable:
    """A tensor of x's shape whose elements say where they lie in the flattened tensor."""
    return op.Reshape(op.Range(0, op.Size(x), 1), op.Shape(x), allowzero=1)


def scatter_add_flat(op: Builder, positions: Variable, g: Variable, like: Variable) -> Variable:
    """A tensor of the shape of ``like``: each element of ``g`` added at its flat position.

    ScatterElements, not ScatterND: the latter loses updates when positions repeat. float16 has no kernel that adds, so it is
    summed in float32.
    """
    wide = float32_of(op, g)
    start = zeros_of_shape(op, op.Reshape(op.Size(like), [1]), wide)
    summed = op.ScatterElements(start, op.Reshape(positions, [-1]), op.Reshape(wide, [-1]), axis=0, reduction="add")
    return op.Cast(op.Reshape(summed, op.Shape(like), allowzero=1), to=g.dtype.number)


def add_rows(op: Builder, x: Variable, flat: Variable, g: Variable, axis: int) -> Variable:
    """Slices of ``g`` along ``axis`` added up at the indices ``flat`` of a tensor like x."""
    wide = float32_of(op, g)
    index = flat if axis == 0 and x.rank == 1 else op.Unsqueeze(flat, all_but(op, axis, x))
    index = op.Expand(index, op.Shape(g))
    summed = op.ScatterElements(zeros_of_shape(op, op.Shape(x), wide), index, wide, axis=axis, reduction="add")
    return op.Cast(summed, to=g.dtype.number)


def all_but(op: Builder, axis: int, x: Variable) -> Any:
    """Every axis of x but one."""
    if x.rank is not None:
        return [i for i in range(x.rank) if i != axis % x.rank]
    rank = op.Squeeze(op.Shape(op.Shape(x)))
    at = op.Add(rank, axis) if axis < 0 else op.constant(axis)
    return op.Concat(op.Range(0, at, 1), op.Range(op.Add(at, 1), rank, 1), axis=0)


def float32_of(op: Builder, v: Variable) -> Variable:
    """float16 as float32: onnxruntime has no kernel that scatters float16 with add or mul."""
    return op.Cast(v, to=1) if v.dtype.name in ("float16", "bfloat16") else v
