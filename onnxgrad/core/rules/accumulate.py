"""Add up the gradients that rules write, and fit each to the variable that it belongs to.

Tests: tests/core/rules/test_gradients.py, tests/core/rules/test_conventions.py.
"""

from __future__ import annotations

from onnxgrad.core.ir.bodies import map_sequence
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.types import SequenceType, TensorType, merge_types, same_dim
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import RuleError

__all__ = ["add_up", "conform", "unbroadcast"]


_REAL = ("float16", "bfloat16", "float32", "float64")
"""Element types that gradients have; those of quantised tensors (integers, 8-bit floats) stay in one of these."""


def add_up(op: Builder, contributions: list[Variable]) -> Variable:
    """Sum of all gradients that flow into one variable."""
    if len(contributions) == 1:
        return contributions[0]
    if isinstance(contributions[0].type, SequenceType):
        return map_sequence(op, contributions, lambda build, *elements: add_up(build, list(elements)))
    total: Variable = op.Add(*contributions) if len(contributions) == 2 else op.Sum(*contributions)
    return total


def unbroadcast(op: Builder, g: Variable, like: Variable) -> Variable:
    """Sum ``g`` over the axes along which ``like`` was repeated."""
    gd, xd = g.dims, like.dims
    if gd is None or xd is None or len(gd) < len(xd):
        return _unbroadcast_at_run_time(op, g, like)
    lead = len(gd) - len(xd)
    inner: list[int] = []
    for i, dim in enumerate(xd):
        wide = gd[lead + i]
        if wide == 1 or same_dim(dim, wide) or (isinstance(dim, int) and dim != 1):
            continue
        if dim != 1:
            return _unbroadcast_at_run_time(op, g, like)
        inner.append(i)
    if lead and not xd:
        return op.ReduceSum(g, keepdims=0)
    if lead:
        g = op.ReduceSum(g, [*range(lead), *(lead + i for i in inner)], keepdims=0)
        return op.Unsqueeze(g, inner) if inner else g
    return op.ReduceSum(g, inner, keepdims=1) if inner else g


def _unbroadcast_at_run_time(op: Builder, g: Variable, like: Variable) -> Variable:
    shape = op.Shape(like)
    if g.rank is None or like.rank is None:
        missing = op.Sub(op.Shape(op.Shape(g)), op.Shape(shape))
        padded = op.Concat(op.Expand(1, missing), shape, axis=0)
    elif g.rank > like.rank:
        padded = op.Concat([1] * (g.rank - like.rank), shape, axis=0)
    else:
        padded = shape
    axes = op.Squeeze(op.NonZero(op.Equal(padded, 1)), [0])
    summed = op.ReduceSum(g, axes, keepdims=1, noop_with_empty_axes=1)
    return op.Reshape(summed, shape, allowzero=1)


def conform(op: Builder, g: Variable, x: Variable, rule: str) -> Variable:
    """Check that ``g`` can be the gradient of ``x``; cast it if only the element type differs.

    Raises:
        RuleError: naming the rule, if the shape cannot be right.
    """
    if not isinstance(g, Variable):
        raise RuleError(f"the rule of {rule} returned {type(g).__name__} for {x.name}; it must return a variable or None.")
    if x.type is None or not isinstance(x.type, TensorType):
        return g
    if g.type is not None and g.dtype != x.dtype and x.dtype.name in _REAL:
        g = op.Cast(g, to=x.dtype.number)
    if g.dims is None:
        g.type = merge_types(x.type, g.type)
    if g.dims is not None and x.dims is not None:
        wrong = len(g.dims) != len(x.dims) or any(
            isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(g.dims, x.dims, strict=True)
        )
        if wrong:
            raise RuleError(f"the rule of {rule} returned a gradient of shape {list(g.dims)} for {x!r}.")
    return g
