"""The shape of a variable, computed without computing the variable.

Tests: tests/core/autodiff/test_transforms.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.known import known_ints
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["ShapeFinder"]


class ShapeFinder:
    """Finds shapes from variables that may be read.

    Args:
        op: writes what computes them.
        avoided: variables that may not be read.
        same: variables that certainly have the shape of another.
        sources: variables to take single dimensions from.
    """

    def __init__(self, op: Builder, avoided: set[Variable], same: dict[Variable, Variable], sources: Iterable[Variable]) -> None:
        self.op = op
        self.avoided = avoided
        self.same = same
        self.shapes: dict[Variable, Variable | None] = {}
        self.source_of: dict[str, tuple[Variable, int]] = {}
        for v in sources:
            for axis, dim in enumerate(v.dims or ()):
                if isinstance(dim, str):
                    self.source_of.setdefault(dim, (v, axis))

    def shape(self, v: Variable) -> Variable | None:
        """Return a variable that holds the shape of ``v``; None where there is none."""
        if v not in self.shapes:
            self.shapes[v] = self._find(v)
        return self.shapes[v]

    def _find(self, v: Variable) -> Variable | None:
        if v not in self.avoided or v.static_shape is not None:
            return self.op.Shape(v)
        like = self.same.get(v)
        if like is not None:
            return self.shape(like)
        if v.dims is not None and all(isinstance(dim, int) or dim in self.source_of for dim in v.dims):
            return self._from_dims(v)
        rule = _RULES.get(v.op.type) if v.op is not None and v.op.domain == "" else None
        return None if rule is None or v.op is None else rule(self, v.op)

    def _from_dims(self, v: Variable) -> Variable:
        parts: list[Any] = []
        for dim in v.dims or ():
            if isinstance(dim, str):
                source, axis = self.source_of[dim]
                parts.append(self.op.Shape(source, start=axis, end=axis + 1))
            else:
                parts.append(self.op.constant(np.array([dim], np.int64)))
        return parts[0] if len(parts) == 1 else self.op.Concat(*parts, axis=0)

    def read(self, v: Variable | None) -> Variable | None:
        """``v`` itself, if it may be read."""
        return v if v is not None and v not in self.avoided else None


def _of_first(find: ShapeFinder, operator: Operator) -> Variable | None:
    first = operator.inputs[0]
    assert first is not None
    return find.shape(first)


def _broadcast(find: ShapeFinder, operator: Operator) -> Variable | None:
    operands = [v for v in operator.inputs if v is not None and v.rank != 0]
    shapes = [find.shape(v) for v in operands]
    if not operands or any(shape is None for shape in shapes):
        return None
    return _joined(find, [(shape, v.rank) for shape, v in zip(shapes, operands, strict=True)])


def _joined(find: ShapeFinder, shapes: list[tuple[Variable | None, int | None]]) -> Variable | None:
    """The shape to which shapes broadcast: a dimension of 1 gives way."""
    op = find.op
    result, rank = shapes[0]
    for shape, other in shapes[1:]:
        if shape is result:
            continue
        if rank is None or other is None or result is None or shape is None:
            return None
        longer, shorter, missing = (result, shape, rank - other) if rank >= other else (shape, result, other - rank)
        padded = op.Concat(op.constant(np.ones(missing, np.int64)), shorter, axis=0) if missing else shorter
        result, rank = op.Where(op.Equal(longer, 1), padded, longer), max(rank, other)
    return result


def _expand(find: ShapeFinder, operator: Operator) -> Variable | None:
    x, shape = operator.inputs
    target = find.read(shape)
    assert x is not None
    start = find.shape(x) if target is not None else None
    if target is None or start is None:
        return None
    return _joined(find, [(target, target.static_shape[0] if target.static_shape else None), (start, x.rank)])


def _reshape(find: ShapeFinder, operator: Operator) -> Variable | None:
    """The operand itself where it holds neither -1 nor a 0 with another meaning."""
    target = find.read(operator.inputs[1])
    if target is None or operator.attrs.get("allowzero") != 1:
        return None
    entries = target.entries
    if entries is not None and -1 in entries:
        return None
    return target if entries is not None or (target.op is not None and target.op.type == "Shape") else None


def _transpose(find: ShapeFinder, operator: Operator) -> Variable | None:
    shape, perm = _of_first(find, operator), operator.attrs.get("perm")
    return None if shape is None or perm is None else find.op.Gather(shape, np.array(perm, np.int64), axis=0)


def _reduce(find: ShapeFinder, operator: Operator) -> Variable | None:
    op = find.op
    shape = _of_first(find, operator)
    axes = find.read(operator.inputs[1]) if len(operator.inputs) > 1 else None
    if shape is None or axes is None:
        return None
    if operator.attr("keepdims"):
        if not operator.attr("noop_with_empty_axes") and known_ints(axes) is None:
            return None
        return op.ScatterElements(shape, axes, op.Expand(1, op.Shape(axes)), axis=0)
    rank = operator.inputs[0].rank  # type: ignore[union-attr]
    known = known_ints(axes)
    if rank is None or not known:
        return None
    left = [axis for axis in range(rank) if axis not in known and axis - rank not in known]
    return op.Gather(shape, np.array(left, np.int64), axis=0)


_LIKE_FIRST = (
    "Abs", "Cast", "Clip", "CumSum", "Identity", "LogSoftmax", "Neg", "ScatterElements", "ScatterND", "Softmax", "Trilu"
)  # fmt: skip
_RULES: dict[str, Callable[[ShapeFinder, Operator], Variable | None]] = {
    **dict.fromkeys(_LIKE_FIRST, _of_first),
    **dict.fromkeys(("Add", "Div", "Mul", "Sub", "Sum", "Where"), _broadcast),
    "Expand": _expand,
    "ReduceSum": _reduce,
    "Reshape": _reshape,
    "Transpose": _transpose,
}
