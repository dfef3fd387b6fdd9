"""Operators that known shapes make unnecessary. Used while gradients are written, never on what a user appends.

Tests: tests/core/ir/test_builder.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxgrad.core.ir.known import entries_of_shape, entries_of_size, known_ints
from onnxgrad.core.ir.types import Entries, same_dim
from onnxgrad.core.ir.variable import Variable

if TYPE_CHECKING:
    from onnxgrad.core.ir.builder import Builder

__all__ = ["SIMPLER"]


def _argument(args: Sequence[Any], kwargs: dict[str, Any], index: int, name: str) -> Any:
    return args[index] if len(args) > index else kwargs.get(name)


def _shape(op: Builder, args: Sequence[Any], kwargs: dict[str, Any]) -> Variable | None:
    return _if_known(op, entries_of_shape(args[0], kwargs.get("start", 0), kwargs.get("end")))


def _size(op: Builder, args: Sequence[Any], kwargs: dict[str, Any]) -> Variable | None:
    size = entries_of_size(args[0])
    return None if size is None else op.constant(np.array(size[0], np.int64))


def _if_known(op: Builder, entries: Entries | None) -> Variable | None:
    """A vector of integers as a constant"""
    if entries is None or not all(isinstance(entry, int) for entry in entries):
        return None
    return op.constant(np.array(entries, np.int64))


def _concat(op: Builder, args: Sequence[Any], kwargs: dict[str, Any]) -> Variable | None:
    """A constant, where all the parts of a shape are known."""
    parts: list[int] = []
    for part in args:
        known = known_ints(part) if isinstance(part, list) or _is_vector_of_int64(part) else None
        if known is None:
            return None
        parts.extend(known)
    return op.constant(np.array(parts, np.int64))


def _is_vector_of_int64(x: Any) -> bool:
    return isinstance(x, Variable) and x.rank == 1 and x.dtype.name == "int64" and x.entries is not None


def _is_shape_of(x: Variable, target: Any) -> bool:
    entries: Entries | None = target.entries if isinstance(target, Variable) else tuple(known_ints(target) or ())
    dims = x.dims
    if entries is None or dims is None or len(entries) != len(dims):
        return False
    return all(same_dim(a, b) for a, b in zip(dims, entries, strict=True))


def _same_shape(op: Builder, args: Sequence[Any], kwargs: dict[str, Any]) -> Variable | None:
    x = args[0]
    target = _argument(args, kwargs, 1, "shape")
    return x if isinstance(x, Variable) and _is_shape_of(x, target) else None


def _expand(op: Builder, args: Sequence[Any], kwargs: dict[str, Any]) -> Variable | None:
    """Replace an empty Expand by a constant: onnxruntime's optimiser drops an Expand of one row to none, and keeps the row."""
    x, target = args[0], known_ints(_argument(args, kwargs, 1, "shape"))
    if isinstance(x, Variable) and target is not None and 0 in target and x.static_shape is not None:
        return op.constant(np.zeros(np.broadcast_shapes(x.static_shape, target)), x.dtype)
    return _same_shape(op, args, kwargs)


def _cast(op: Builder, args: Sequence[Any], kwargs: dict[str, Any]) -> Variable | None:
    x = args[0]
    return x if x.type is not None and x.dtype.number == kwargs["to"] else None


def _transpose(op: Builder, args: Sequence[Any], kwargs: dict[str, Any]) -> Variable | None:
    """The operand where the order stays; one Transpose for two if it moves rows and no single elements, which takes far longer."""
    x, perm = args[0], kwargs.get("perm")
    if perm is None or not isinstance(x, Variable):
        return None
    if list(perm) == list(range(len(perm))):
        return x
    before = x.op.attr("perm") if x.op is not None and x.op.type == "Transpose" and not x.op.domain else None
    if before is None or x.op is None:
        return None
    order = [before[axis] for axis in perm]
    if order[-1] != len(order) - 1:
        return None
    both: Variable = op.Transpose(x.op.inputs[0], perm=order)
    return both


def _no_axes(op: Builder, args: Sequence[Any], kwargs: dict[str, Any]) -> Variable | None:
    axes = _argument(args, kwargs, 1, "axes")
    return args[0] if axes is not None and known_ints(axes) == [] else None


def _sum_over_no_axes(op: Builder, args: Sequence[Any], kwargs: dict[str, Any]) -> Variable | None:
    """Return the operand of a sum over no axes, where that does not mean all of them"""
    return _no_axes(op, args, kwargs) if kwargs.get("noop_with_empty_axes") else None


def _times_one(op: Builder, args: Sequence[Any], kwargs: dict[str, Any]) -> Variable | None:
    """x * 1, when the result certainly has x's shape."""
    for x, factor in ((args[0], args[1]), (args[1], args[0])):
        if not isinstance(x, Variable):
            continue
        if isinstance(factor, (int, float)) and factor == 1:
            return x
        if isinstance(factor, Variable) and factor.value is not None and not factor.persistable and factor.value.size == 1:
            if factor.rank == 0 and factor.value.numpy().item() == 1:
                return x
    return None


def _no_pads(op: Builder, args: Sequence[Any], kwargs: dict[str, Any]) -> Variable | None:
    pads = known_ints(_argument(args, kwargs, 1, "pads"))
    return args[0] if pads is not None and not any(pads) else None


SIMPLER: dict[str, Callable[[Builder, Sequence[Any], dict[str, Any]], Variable | None]] = {
    "Concat": _concat,
    "Size": _size,
    "Shape": _shape,
    "Expand": _expand,
    "Reshape": _same_shape,
    "Cast": _cast,
    "Transpose": _transpose,
    "ReduceSum": _sum_over_no_axes,
    "Unsqueeze": _no_axes,
    "Mul": _times_one,
    "Pad": _no_pads,
}
