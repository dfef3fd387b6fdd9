"""Masks of Dropout, from a generator that counts: element, node, seed and step alone say whether an element is kept.

A mask is a matrix of rows of ``COLUMNS`` elements, in the order of memory. A row has three numbers a, a column three numbers b, all
below 2^11; sum(a_i b_i) mod 2^11 is compared with the ratio. A fourth number of the column stands for the bits behind the point, so
that the fraction kept is exact to 2^-22. The a follow from node and row, the b from seed, step and column.

All are int32 below 2^24, which float32 holds too: the operators have kernels in every provider, and give the same numbers there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable

__all__ = ["COLUMNS", "column_numbers", "sample_mask"]

COLUMNS = 512
_BITS = 2**11
_ROUNDS = 3
_LANES = 3
_DIGIT_VALUES = (1, _BITS, _BITS**2)


def _constants(key: int, count: int) -> np.ndarray[Any, Any]:
    """Numbers from 1 to 2^11 - 1, by the xor-shift-multiply function of Wellons' hash-prospector."""
    x = np.arange(count, dtype=np.uint64) + np.uint64(key * 1000 + 1)
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(15)
    return (x % np.uint64(_BITS - 1) + np.uint64(1)).astype(np.int32)


def _int(value: Any) -> np.ndarray[Any, Any]:
    return np.array(value, np.int32)


def _divided(build: Any, x: Variable) -> tuple[Variable, Variable]:
    """Quotient and rest of a division by 2^11."""
    quotient = build.Div(x, _int(_BITS))
    return quotient, build.Sub(x, build.Mul(quotient, _int(_BITS)))


def _mixed(build: Any, left: Variable, right: Variable, keys: Any) -> Variable:
    """A Feistel network on halves of 11 bits, whose round function is the middle of right (right + key)."""
    for key in keys:
        middle = build.Div(build.Mul(right, build.Add(right, key)), _int(32))
        left, right = right, _divided(build, build.Add(left, middle))[1]
    return right


def column_numbers(build: Any, seed: Variable, step: Variable, name: str) -> Variable:
    """The numbers of the columns in a step: int32 of shape [4, 1, COLUMNS].

    Args:
        seed, step: int64 scalars, of which 33 bits count.
        name: of the result.
    """
    digits = build.Concat(build.Reshape(seed, [1, 1]), build.Reshape(step, [1, 1]), axis=0)
    lower = build.Div(digits, np.array(_DIGIT_VALUES))
    above = build.Mul(build.Div(lower, np.array(_BITS)), np.array(_BITS))
    # Negative seeds have negative digits.
    digits_of_seed = build.Cast(build.Add(build.Sub(lower, above), np.array(_BITS)), to=6)
    count = 2 * len(_DIGIT_VALUES)
    size = (_LANES + 1) * COLUMNS
    positions = build.Range(_int(0), _int((count + _ROUNDS) * size), _int(1))
    high, low = _divided(build, positions)
    table = build.Reshape(_mixed(build, build.Add(high, _int(977)), low, _constants(0, _ROUNDS + 1)), [count + _ROUNDS, size])
    factors, *keys = build.Split(table, [count] + [1] * _ROUNDS, axis=0, outputs=1 + _ROUNDS)
    terms = build.Mul(build.Reshape(digits_of_seed, [count, 1]), build.Div(factors, _int(4)))
    high, low = _divided(build, build.ReduceSum(terms, [0], keepdims=1))
    numbers: Variable = build.Reshape(_mixed(build, high, low, keys), [_LANES + 1, 1, COLUMNS], outputs=[name])[0]
    return numbers


def _row_numbers(build: Any, rows: Any, node: int, first: Any = None) -> list[Variable]:
    """The numbers of the rows of a node from ``first`` on, each int32 of shape [1, rows, 1]."""
    numbered = build.Range(_int(0), rows, _int(1)) if first is None else build.Range(first, build.Add(first, rows), _int(1))
    high, low = _divided(build, build.Unsqueeze(numbered, [0, 2]))
    constants = _constants(node, (_ROUNDS + 1) * _LANES).reshape(-1, _LANES, 1, 1)
    mixed = _mixed(build, build.Add(high, constants[0]), low, list(constants[1:]))
    return list(build.Split(mixed, [1] * _LANES, axis=0, outputs=_LANES))


def _known_multiple(x: Variable) -> bool:
    """Whether the number of elements is a multiple of the columns whatever the unknown dimensions are."""
    return x.dims is not None and int(np.prod([d for d in x.dims if isinstance(d, int)], dtype=np.int64)) % COLUMNS == 0


def _begins_rows(x: Variable) -> bool:
    """Whether the examples, of which there is an unknown number, begin at rows of their own."""
    dims = x.dims
    if dims is None or not dims or isinstance(dims[0], int):
        return False
    return int(np.prod([d for d in dims[1:] if isinstance(d, int)], dtype=np.int64)) % COLUMNS == 0


def sample_mask(build: Any, x: Variable, columns: Variable, node: int, ratio: Any, part: Variable | None = None) -> Variable:
    """1 where an element is kept, else 0, in the shape and element type of ``x``.

    With ``part``, it is what the mask of a whole batch has for this part, if the batch is the first axis of ``x`` or
    of what it was reshaped from. Where it is another axis, parts have masks of their own, which differ.

    Args:
        columns: what ``column_numbers`` gave.
        node: a number that no other Dropout of the program has.
        ratio: the fraction to drop: a float32 scalar.
        part: int64 of shape [2]: how many examples of the batch lie before this part, and how many it has.
    """
    whole, shape = _known_multiple(x) if part is None else _begins_rows(x), x.static_shape
    size: Any = build.Size(x) if shape is None else int(np.prod(shape, dtype=np.int64))
    rows: Any
    if shape is None:
        count = build.Div(size, np.array(COLUMNS))
        rows = build.Cast(count if whole else build.Add(count, np.array(1)), to=6)
    else:
        rows = _int(-(-size // COLUMNS))
    first = rest = None
    if part is not None:
        begin = build.Mul(build.Div(size, build.Gather(part, np.array(1))), build.Gather(part, np.array(0)))
        above = build.Div(begin, np.array(COLUMNS))
        first = build.Cast(above, to=6)
        if not whole:
            rest = build.Reshape(build.Sub(begin, build.Mul(above, np.array(COLUMNS))), [1])
            rows = build.Add(rows, _int(1))
    parts = build.Split(columns, [1] * (_LANES + 1), axis=0, outputs=_LANES + 1)
    products = [build.Mul(a, b) for a, b in zip(_row_numbers(build, rows, node, first), parts, strict=False)]
    total = products[0]
    for product in products[1:]:
        total = build.Add(total, product)
    threshold = build.Cast(build.Floor(build.Add(build.Mul(ratio, np.float32(_BITS**2)), np.float32(0.5))), to=6)
    border = build.Div(build.Sub(build.Add(threshold, _int(_BITS - 1)), parts[-1]), _int(_BITS))
    kept = build.GreaterOrEqual(_divided(build, total)[1], border)
    if not whole:
        # Not all providers slice booleans.
        flat = build.Reshape(build.Cast(kept, to=x.dtype.number), [-1])
        count = build.Reshape(size, [1]) if isinstance(size, Variable) else np.array([size])
        kept = build.Slice(flat, [0], count, [0]) if rest is None else build.Slice(flat, rest, build.Add(rest, count), [0])
    shaped: Variable = build.Reshape(kept, build.Shape(x), allowzero=1)
    if whole:
        shaped = build.Cast(shaped, to=x.dtype.number)
    return shaped
