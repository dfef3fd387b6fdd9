"""Parts of a sequence that stand several times behind each other, such as the layers of a transformer.

Tests: tests/pages/test_graph.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Repeat", "repeats_in"]

Array = np.ndarray[Any, Any]

_SHORTEST, _LONGEST = 4, 2000


class Repeat(NamedTuple):
    """``times`` parts of ``length`` elements from ``start`` on, and what repeats inside the first of them, counted from there."""

    start: int
    length: int
    times: int
    inner: tuple[Repeat, ...]


def repeats_in(kinds: Sequence[str], crossing: Callable[[int], int] = lambda at: 0) -> list[Repeat]:
    """Find what repeats without a gap, most elements first, then in what is left and inside of it.

    Args:
        kinds: what each element is like.
        crossing: how much would be cut at the border before an element; where the borders may lie at several places, the fewest
            are cut.

    Returns:
        The repeats from left to right; they do not overlap. Parts have four elements or more.

    Example:
        >>> repeats_in("xabcdabcdabcdy")
        [Repeat(start=1, length=4, times=3, inner=())]
    """
    numbers = {op_type: i for i, op_type in enumerate(dict.fromkeys(kinds))}
    return _find(np.array([numbers[op_type] for op_type in kinds], np.int64), 0, crossing)


def _find(numbers: Array, offset: int, crossing: Callable[[int], int]) -> list[Repeat]:
    best = (0, 0, 0, 0)  # elements after the first part, length, start, slack
    for length in range(_SHORTEST, min(len(numbers) // 2, _LONGEST) + 1):
        for start, run in _runs(numbers[:-length] == numbers[length:]):
            count = run // length + 1
            if count > 1 and (count - 1) * length > best[0] and len(set(numbers[start : start + length].tolist())) > 1:
                best = ((count - 1) * length, length, start, run % length)
    hidden, length, start, slack = best
    if not hidden:
        return []
    count = hidden // length + 1
    begin = min(range(slack + 1), key=lambda o: sum(crossing(offset + start + o + i * length) for i in range(count + 1))) + start
    end = begin + count * length
    inner = tuple(_find(numbers[begin : begin + length], offset + begin, crossing))
    inner = tuple(r._replace(start=r.start - offset - begin) for r in inner)
    repeat = Repeat(offset + begin, length, count, inner)
    return [*_find(numbers[:begin], offset, crossing), repeat, *_find(numbers[end:], offset + end, crossing)]


def _runs(same: Array) -> list[tuple[int, int]]:
    """(start, length) of each run of True"""
    steps = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
    return [(int(a), int(b - a)) for a, b in zip(steps[::2], steps[1::2], strict=True)]
