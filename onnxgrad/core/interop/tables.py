"""Which float constants of a file are tables that an exporter computed, and no weights: rotary angles, positions, masks, zeros.

Freezing a weight is as silent a fault as training a table, so both the way it is read and its numbers must speak for a table. What
weighs data (an operand of a product) never is one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.traits import COMPARES, MOVES
from onnxgrad.core.ir.variable import Variable

__all__ = ["Reads", "Slots", "sets_shapes_only", "table_reason"]

Array = np.ndarray[Any, Any]
Slots: TypeAlias = "list[tuple[Operator, int]]"


class Reads(NamedTuple):
    """All readers of each variable, with the slot; what a graph or a body returns; the constants of each shape."""

    uses: defaultdict[Variable, Slots]
    returned: set[Variable]
    shapes: dict[tuple[int, ...], list[Variable]]
    squares: dict[Any, list[tuple[float, int, Variable]]]
    """Constants of a shape and type by the square of their first element, for those that were asked for."""


_CACHES = {"RotaryEmbedding": {"": (1, 2), "com.microsoft": (2, 3)}, "GroupQueryAttention": {"com.microsoft": (7, 8)}}
_STATES = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}
_PRODUCTS = ("MatMul", "Gemm", "Conv", "ConvTranspose", "DeformConv", "Einsum", "MatMulNBits", "LSTM", "GRU", "RNN")
_MOVED = MOVES | {"Cast", "Range"}
_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Neg", "Abs", "Min", "Max", "Floor", "Ceil", "Round", "Where", "CumSum")
"""What exporters compute positions and sizes by; any other elementwise operator may be the first of a layer."""
_COMPARISONS = COMPARES | {"Not", "Sign"}
_LARGEST = 2**25
_ROWS = 256
_DEPTH = 40


def table_reason(v: Variable, slots: Slots, reads: Reads) -> str | None:
    """Why a float constant is a table, or None.

    Args:
        v: a constant with a value.
        slots: where it is used, looking through what only reshapes it.
        reads: of the whole program.
    """
    assert v.value is not None
    if all(index in _CACHES.get(op.type, {}).get(op.domain, ()) for op, index in slots):
        return "angles of a rotary embedding"
    if v.value.size < 2 or v.value.size > _LARGEST:
        return None
    if all(_is_initial_state(op, index) for op, index in slots):
        return None if v.value.numpy().any() else "zeros that a recurrence starts from"
    if any(op.type in _PRODUCTS for op, _ in slots):
        return "frequencies of a rotary embedding" if _are_frequencies(v, reads) else None
    return _by_numbers(v, slots, reads)


def _by_numbers(v: Variable, slots: Slots, reads: Reads) -> str | None:
    assert v.value is not None
    if _are_frequencies(v, reads):
        return "frequencies of a rotary embedding"
    array = v.value.numpy()
    corner = array[tuple(slice(_ROWS) for _ in array.shape)]
    table_kind = _table_kind(v, corner, slots, reads)
    # Few constants get here, so that most of a large one is not looked at.
    return table_kind if table_kind is None or corner.size == array.size else _table_kind(v, array, slots, reads)


def _table_kind(v: Variable, array: Array, slots: Slots, reads: Reads) -> str | None:
    """Classify the elements of a constant, or of a corner of it"""
    eps, values = _eps(v), array.astype(np.float64)
    if not np.isfinite(values).all():
        return None
    if _is_mask(values):
        return "a mask"
    pattern = _waves(values, eps)
    if pattern == "waves" or _halves_are_angles(values, eps) or _has_quadrature(v, values, eps, reads):
        return "sines and cosines of positions"
    if pattern == "lines" and all(_adds_or_compares(op, index) for op, index in slots):
        return "numbers of positions"
    return None


def _eps(v: Variable) -> float:
    return 2.0 ** -{"float16": 10, "bfloat16": 7}.get(v.dtype.name, 23)


def _is_initial_state(op: Operator, index: int) -> bool:
    if op.type in _STATES and op.domain == "":
        return index in _STATES[op.type]
    if op.type == "Loop":
        return index >= 2
    return op.type == "Scan" and index < len(op.inputs) - int(op.attrs.get("num_scan_inputs", 0))


def _is_mask(values: Array) -> bool:
    """0 here and a large negative number there, or a band of ones wider than the diagonal"""
    if values.ndim < 2 or min(values.shape[-2:]) < 2 or values.size < 16:
        return False
    low, high = values.min(), values.max()
    if high == 0.0 and low <= -50.0:
        return bool(np.isin(values, (low, 0.0)).all())
    if (low, high) != (0.0, 1.0) or not np.isin(values, (0.0, 1.0)).all():
        return False
    band = bool((values[..., 1:, 1:] == values[..., :-1, :-1]).all())
    return band and values.sum() > values[..., 0, 0].size * min(values.shape[-2:])  # no identity, which weights may start from


def _waves(values: Array, eps: float) -> str | None:
    """Whether all columns along some axis are sines of the position, or straight lines in it.

    Both obey t[p - 1] + t[p + 1] = k t[p], with |k| < 2 for a sine and k = 2 for a line. Trained numbers do not.
    """
    for axis in reversed(range(values.ndim)):
        if values.shape[axis] < 8:
            continue
        rows = np.moveaxis(values, axis, 0)[:_ROWS].reshape(min(values.shape[axis], _ROWS), -1)
        inner, around = rows[1:-1], rows[:-2] + rows[2:]
        size = np.abs(rows).max(axis=0)
        k = np.clip((inner * around).sum(axis=0) / np.maximum((inner * inner).sum(axis=0), 1e-30), -2.0, 2.0)
        # The table is rounded, and so was the angle, by an error that grows with the position.
        allowed = (8.0 * eps + 1e-6 * len(rows)) * np.maximum(size, 1e-30)
        if (np.abs(around - k * inner).max(axis=0) > allowed).any():
            continue
        turns = k < 1.99
        if turns.mean() >= 0.1 and size[turns].min() > 0.5 * size.max():
            return "waves"
        moved = np.abs(rows[-1] - rows[0])
        straight = np.abs(around - 2.0 * inner).max(axis=0) <= 4.0 * eps * np.maximum(size, 1e-30)
        if straight.all() and (moved > 0.0).mean() >= 0.5:
            return "lines"
    return None


def _halves_are_angles(values: Array, eps: float) -> bool:
    """Whether the halves along the last or first axis are cosine and sine of the same angles"""
    for axis in (-1, 0) if values.ndim >= 2 else ():
        first, second = np.array_split(values, 2, axis)
        if first.shape == second.shape and _are_angles(first, second, eps):
            return True
    return False


def _are_angles(a: Array, b: Array, eps: float) -> bool:
    if a.size < 16 or abs(a.flat[-1] ** 2 + b.flat[-1] ** 2 - 1.0) > 8.0 * eps:
        return False
    return bool(np.abs(a * a + b * b - 1.0).max() <= 8.0 * eps) and not np.isin(a, (-1.0, 0.0, 1.0)).all()


def _has_quadrature(v: Variable, values: Array, eps: float, reads: Reads) -> bool:
    """Return whether another constant is the sine of the angles that this is the cosine of, or the other way round"""
    if values.ndim < 2 or np.abs(values).max() > 1.0 + eps:
        return False
    corner = tuple(slice(size) for size in values.shape)
    others = [w.value for w in _with_first_element(v, 1.0 - values.flat[0] ** 2, 16.0 * eps, reads) if w is not v]
    return any(_are_angles(values, other.numpy()[corner].astype(np.float64), eps) for other in others if other is not None)


def _with_first_element(v: Variable, square: float, error: float, reads: Reads) -> list[Variable]:
    """The constants of the shape and type of another whose first element has this square: of many weights, few are compared."""
    assert v.value is not None
    key = (v.value.shape, v.dtype)
    if key not in reads.squares:
        same = [w for w in reads.shapes.get(v.value.shape, ()) if w.dtype == v.dtype and w.value is not None]
        firsts = [(float(w.value.numpy().flat[0]) ** 2, i, w) for i, w in enumerate(same) if w.value is not None]
        reads.squares[key] = sorted((first for first in firsts if np.isfinite(first[0])), key=itemgetter(0, 1))
    squares = reads.squares[key]
    low, high = (bisect_left(squares, bound, key=itemgetter(0)) for bound in (square - error, square + error))
    return [w for _, _, w in sorted(squares[low:high], key=itemgetter(1))]


def _adds_or_compares(op: Operator, index: int) -> bool:
    """Whether an operator shifts by the constant, or multiplies positions by it"""
    if op.type in ("Add", "Sub", *_COMPARISONS) or (op.type == "Where" and index > 0):
        return True
    others = [v for i, v in enumerate(op.inputs) if v is not None and i != index]
    return op.type in ("Mul", "Div") and all(_counts(other, 0) for other in others)


def _counts(v: Variable, depth: int) -> bool:
    """Return whether a variable is computed from integers, such as positions"""
    if not v.is_float:
        return v.type is not None
    if v.value is not None:
        return v.value.size == 1 and not v.persistable
    op = v.op
    if op is None or depth > _DEPTH or op.type not in (*_MOVED, *_ARITHMETIC, "ConstantOfShape"):
        return False
    return all(other is None or _counts(other, depth + 1) for other in op.inputs)


def _are_frequencies(v: Variable, reads: Reads) -> bool:
    """Return whether falling positive numbers only multiply positions, to angles of which sine and cosine are taken"""
    assert v.value is not None
    if v.value.size > 4096:
        return False
    numbers = v.value.numpy().astype(np.float64).reshape(-1)
    if not (numbers > 0.0).all() or not (np.diff(numbers) < 0.0).all() or numbers[0] > 1.0 + 1e-3:
        return False
    functions: set[str] = set()
    return _only_angles(v, reads, functions, 0, {v}) and functions == {"Sin", "Cos"}


def _only_angles(v: Variable, reads: Reads, functions: set[str], depth: int, path: set[Variable]) -> bool:
    if depth > _DEPTH or v not in reads.uses or v in reads.returned:
        return False
    for op, index in reads.uses[v]:
        if op.type in ("Sin", "Cos"):
            functions.add(op.type)
            continue
        others = [w for i, w in enumerate(op.inputs) if w is not None and i != index and w not in path]
        multiplies = op.type in ("Mul", "MatMul", "Einsum", "Div") and all(_counts(w, 0) for w in others)
        if not multiplies and op.type not in _MOVED:
            return False
        (out,) = op.outputs[:1] or (None,)
        if out is None or not _only_angles(out, reads, functions, depth + 1, path | {out}):
            return False
    return True


def sets_shapes_only(v: Variable, reads: Reads, depth: int = 0) -> bool:
    """Return whether all that is computed from a constant ends in comparisons, integers and sizes, which carry no gradient"""
    if depth > _DEPTH or v not in reads.uses or v in reads.returned:
        return False
    for op, index in reads.uses[v]:
        if op.type in _COMPARISONS or op.type in ("Shape", "Size") or (op.type == "Resize" and index > 0):
            continue
        if op.domain != "" or op.type not in (*_MOVED, *_ARITHMETIC):
            return False
        for out in op.outputs:
            if out is not None and out.is_float and not sets_shapes_only(out, reads, depth + 1):
                return False
            if out is not None and out.type is None:
                return False
    return True
