"""Propagate small integers and booleans before a graph runs: of each element a number, a symbol for one, or nothing.

This is the one place that computes with them. Inference enters what it finds in ``Variable.entries``, row by row. Shapes, rules,
the passes that leave arithmetic out and the one that chooses branches read it there.

Tests: tests/core/ir/test_known.py.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.types import Dim, Dims, Entries, TensorType, Type
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DType

__all__ = [
    "READS_NUMBERS",
    "broadcast_dims",
    "entries_of",
    "entries_of_constant",
    "entries_of_shape",
    "entries_of_size",
    "known_ints",
    "nonzero_of",
    "numbers_of",
    "propagate_entries",
]

_LONGEST = 64
"""Elements of a tensor up to which they are followed."""

_Objects: TypeAlias = np.ndarray[Any, Any]
"""An array of elements."""


def _is_followed(dtype: DType) -> bool:
    return dtype.is_integer or dtype.name == "bool"


def entries_of_constant(value: TensorValue) -> Entries | None:
    """The elements of a small constant of integers or booleans."""
    if not _is_followed(value.dtype) or value.size > _LONGEST:
        return None
    return tuple(value.numpy().reshape(-1).tolist())


def entries_of(v: Variable | None) -> Entries | None:
    """Return the known elements of a small operand."""
    if v is None:
        return None
    if v.entries is None and v.value is not None and not v.persistable and not _is_switch(v):
        v.entries = entries_of_constant(v.value)
    return v.entries


def _is_switch(v: Variable) -> bool:
    """An input that holds a boolean unless a caller feeds another"""
    return v.is_data and v.dtype.name == "bool"


def known_ints(value: Any) -> list[int] | None:
    """The integers in a list, an array or a variable whose elements are all known; None where some are not."""
    if isinstance(value, Variable):
        if value.entries is None or not all(isinstance(entry, int) for entry in value.entries):
            return None
        return [entry for entry in value.entries if isinstance(entry, int)]
    if value is None:
        return None
    return [int(entry) for entry in np.asarray(value).reshape(-1)]


def broadcast_dims(a: Dims, b: Dims) -> Dims:
    """Dimensions of the result of numpy broadcasting."""
    rank = max(len(a), len(b))
    result: list[Dim] = []
    for x, y in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if x == y or y == 1:
            result.append(x)
        elif x == 1:
            result.append(y)
        elif isinstance(x, int):
            result.append(x)
        else:
            result.append(y if isinstance(y, int) else None)
    return tuple(result)


def propagate_entries(operator: Operator, type: Type | None) -> Entries | None:
    """Return the known elements of a result of this type, which has to have a known shape."""
    rule = _RULES.get(operator.type)
    if rule is None or not isinstance(type, TensorType) or not _is_followed(type.dtype):
        return None
    if type.dims is None or not all(isinstance(dim, int) for dim in type.dims):
        return None
    entries = rule(operator)
    if entries is None or len(entries) > _LONGEST:
        return None
    if type.dtype.name == "bool":
        return tuple(entry if entry is None else bool(entry) for entry in entries)
    unsigned = type.dtype.name.startswith("u")
    end = 2**type.dtype.bits if unsigned else 2 ** (type.dtype.bits - 1)
    start = 0 if unsigned else -end
    # What does not fit wraps around when it is computed.
    return tuple(None if isinstance(entry, int) and not start <= entry < end else entry for entry in entries)


def entries_of_shape(x: Variable | None, start: int = 0, end: int | None = None) -> Entries | None:
    """Return the known sizes of some axes."""
    return None if x is None or x.dims is None else x.dims[start:end]


def entries_of_size(x: Variable | None) -> Entries | None:
    """The number of elements of a tensor of known shape."""
    shape = None if x is None else x.static_shape
    return None if shape is None else (int(np.prod(shape, dtype=np.int64)),)


def nonzero_of(v: Variable | None) -> _Objects | None:
    """Return the indices of the nonzero elements of a tensor whose elements are all known, [rank, count]."""
    entries = entries_of(v)
    shape = None if v is None else v.static_shape
    if entries is None or not shape or not all(isinstance(entry, int) for entry in entries):
        return None
    return np.stack(np.nonzero(np.array(entries, np.int64).reshape(shape)))


# One rule for each operator ----------------------------------------------------------------------------------------------

_Rule: TypeAlias = "Callable[[Operator], Entries | None]"


def _is_flat(v: Variable | None) -> bool:
    return v is not None and v.rank is not None and v.rank <= 1


def _of_shape(operator: Operator) -> Entries | None:
    return entries_of_shape(operator.inputs[0], operator.attrs.get("start", 0), operator.attrs.get("end"))


def _of_size(operator: Operator) -> Entries | None:
    return entries_of_size(operator.inputs[0])


def _of_constant(operator: Operator) -> Entries | None:
    return entries_of(operator.outputs[0])


def _same(operator: Operator) -> Entries | None:
    return entries_of(operator.inputs[0])


def _of_cast(operator: Operator) -> Entries | None:
    """A symbol stays one among integers; as a boolean nothing is known of it"""
    if operator.attrs["to"] == _BOOL:
        numbers = numbers_of(operator.inputs[0])
        return None if numbers is None else tuple(None if x is None or isinstance(x, str) else bool(x) for x in numbers)
    entries = entries_of(operator.inputs[0])
    if entries is None:
        return None
    return tuple(int(entry) if isinstance(entry, bool) else entry for entry in entries)


_BOOL = 9


def _of_expand(operator: Operator) -> Entries | None:
    x, target = operator.inputs[0], entries_of(operator.inputs[1])
    entries = entries_of(x)
    if x is None or x.dims is None or entries is None or len(entries) != 1 or target is None:
        return None
    dims = broadcast_dims(x.dims, target)
    size = dims[0] if dims else 1
    return entries * size if len(dims) <= 1 and isinstance(size, int) and size <= _LONGEST else None


def _of_concat(operator: Operator) -> Entries | None:
    parts: list[Dim] = []
    if not all(map(_is_flat, operator.inputs)):
        return _of_joined(operator)
    for v in operator.inputs:
        entries = entries_of(v)
        if entries is None:
            length = v.dims[0] if v is not None and v.dims else None
            if not isinstance(length, int):
                return None
            entries = (None,) * length
        parts.extend(entries)
    return tuple(parts)


def _of_joined(operator: Operator) -> Entries | None:
    """Concatenate entries, where something is known of all parts"""
    arrays = [_objects(v) for v in operator.inputs]
    known = [array for array in arrays if array is not None]
    if len(known) < len(arrays):
        return None
    return tuple(np.concatenate(known, operator.attrs["axis"]).reshape(-1).tolist())


def _objects(v: Variable | None) -> _Objects | None:
    entries = entries_of(v)
    if v is None or entries is None or v.static_shape is None:
        return None
    array = np.empty(len(entries), object)
    array[:] = entries
    return array.reshape(v.static_shape)


def _of_gather(operator: Operator) -> Entries | None:
    x, index = entries_of(operator.inputs[0]), entries_of(operator.inputs[1])
    if x is None or index is None or not _is_flat(operator.inputs[0]) or operator.attrs.get("axis", 0) not in (0, -1):
        return None
    return tuple(x[i] if isinstance(i, int) and -len(x) <= i < len(x) else None for i in index)


def _of_slice(operator: Operator) -> Entries | None:
    x = entries_of(operator.inputs[0])
    if len(operator.inputs) < 3 or not _is_flat(operator.inputs[0]):
        return None
    starts, ends = entries_of(operator.inputs[1]), entries_of(operator.inputs[2])
    steps = entries_of(operator.inputs[4]) if len(operator.inputs) > 4 and operator.inputs[4] is not None else (1,)
    if x is None or starts is None or ends is None or steps is None or len(starts) != 1:
        return None
    start, end, step = starts[0], ends[0], steps[0]
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(step, int)):
        return None
    return x[start : (None if step < 0 and end < -len(x) else end) : step]


def _of_nonzero(operator: Operator) -> Entries | None:
    indices = nonzero_of(operator.inputs[0])
    return None if indices is None else tuple(indices.reshape(-1).tolist())


def _elementwise(apply: Callable[[Dim, Dim], Dim], read: Callable[[Variable | None], Any] = entries_of) -> _Rule:
    def rule(operator: Operator) -> Entries | None:
        v, w = operator.inputs
        x, y = read(v), read(w)
        if x is None or y is None:
            return None
        if len(x) > 1 and len(y) > 1 and not (_is_flat(v) and _is_flat(w)):
            return _broadcast(apply, operator)
        if len(x) == 1:
            x = x * len(y)
        if len(y) == 1:
            y = y * len(x)
        if len(x) != len(y):
            return None
        return tuple(map(apply, x, y))

    return rule


def _broadcast(apply: Callable[[Dim, Dim], Dim], operator: Operator) -> Entries | None:
    """Of several axes"""
    x, y = map(_objects, operator.inputs)
    if x is None or y is None:
        return None
    return tuple(map(apply, *(array.reshape(-1).tolist() for array in np.broadcast_arrays(x, y))))


def _arithmetic(function: Callable[[int, int], int], neutral: int, from_both_sides: bool) -> Callable[[Dim, Dim], Dim]:
    """Compute with numbers; of symbols only neutral elements are folded"""

    def apply(a: Dim, b: Dim) -> Dim:
        if isinstance(a, int) and isinstance(b, int):
            return function(a, b)
        if b == neutral:
            return a
        return b if a == neutral and from_both_sides else None

    return apply


def _divided(a: Dim, b: Dim) -> Dim:
    """Integers are rounded towards zero"""
    if b == 1:
        return a
    if not isinstance(a, int) or not isinstance(b, int) or b == 0:
        return None
    return abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1)


def _compared(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    """Compare two numbers; the value of a symbol is not known"""

    def apply(a: Any, b: Any) -> Any:
        return None if a is None or b is None or isinstance(a, str) or isinstance(b, str) else function(a, b)

    return apply


def _decided(decisive: bool) -> Callable[[Dim, Dim], Dim]:
    """And, Or: one operand may decide alone"""

    def apply(a: Dim, b: Dim) -> Dim:
        if a is decisive or b is decisive:
            return decisive
        return None if a is None or b is None else not decisive

    return apply


def _negated(operator: Operator) -> Entries | None:
    entries = entries_of(operator.inputs[0])
    return None if entries is None else tuple(entry if entry is None else not entry for entry in entries)


def numbers_of(v: Variable | None) -> tuple[Any, ...] | None:
    """Return the known elements of an operand of ``READS_NUMBERS``: of float constants too, unless a caller may replace them."""
    if v is None or (v.is_data and v.value is not None):
        return None
    if v.value is not None and not v.persistable and v.value.size == 1 and v.value.dtype.name != "string":
        return tuple(v.value.numpy().reshape(-1).tolist())
    return entries_of(v)


def _partly_of(v: Variable | None) -> Entries | None:
    """For And and Or: elements of which nothing is known may stand beside one that decides"""
    entries, shape = entries_of(v), None if v is None else v.static_shape
    if entries is not None or shape is None:
        return entries
    size = int(np.prod(shape, dtype=np.int64))
    return (None,) * size if size <= _LONGEST else None


READS_NUMBERS = frozenset({"Cast", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
"""Operators of which something is known by the values of floating-point operands, not by their types alone."""

_RULES: dict[str, _Rule] = {
    "Shape": _of_shape,
    "Size": _of_size,
    "Constant": _of_constant,
    **dict.fromkeys(("Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten"), _same),
    "Cast": _of_cast,
    "Expand": _of_expand,
    "Concat": _of_concat,
    "Gather": _of_gather,
    "Slice": _of_slice,
    "NonZero": _of_nonzero,
    "Add": _elementwise(_arithmetic(python.add, 0, True)),
    "Sub": _elementwise(_arithmetic(python.sub, 0, False)),
    "Mul": _elementwise(_arithmetic(python.mul, 1, True)),
    "Div": _elementwise(_divided),
    "Equal": _elementwise(_compared(python.eq), numbers_of),
    "Greater": _elementwise(_compared(python.gt), numbers_of),
    "GreaterOrEqual": _elementwise(_compared(python.ge), numbers_of),
    "Less": _elementwise(_compared(python.lt), numbers_of),
    "LessOrEqual": _elementwise(_compared(python.le), numbers_of),
    "And": _elementwise(_decided(False), _partly_of),
    "Or": _elementwise(_decided(True), _partly_of),
    "Not": _negated,
}
