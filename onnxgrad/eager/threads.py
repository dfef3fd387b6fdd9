"""Choosing by measurement how many threads compute a recorded structure.

Work is shared out between threads within an operator, which costs more than it gains where operators are small or other processes
compute. How long an operator takes is known best by running it.

Tests: tests/eager/test_structures.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnxgrad.internal.processors import usable_cores

__all__ = ["FixedRun", "MeasuredRun"]

_LONG = 2e-3
"""Seconds of a run on one thread from which on several are tried."""
_TRIALS = 5
"""Runs on each, of which the medians are compared."""


class FixedRun:
    """Runs a session of a settled number of threads."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[..., Any]) -> None:
        self.run = run


class MeasuredRun:
    """Runs a session of one thread; where that takes long, one of several in turn with it, and then the faster of both.

    Args:
        opened: opens a session with so many threads, None for onnxruntime's choice, and returns its function ``run``.
    """

    __slots__ = ("_opened", "_runs", "_seconds", "run")

    def __init__(self, opened: Callable[[int | None], Callable[..., Any]]) -> None:
        self._opened = opened
        self._runs = [opened(1)]
        self._seconds: list[list[float]] = [[], []]
        self.run: Callable[..., Any] = self._runs[0] if usable_cores() == 1 else self._measured

    def _measured(self, names: Sequence[str], feeds: Mapping[str, Any], options: Any) -> Any:
        one, several = self._seconds
        number = 1 if len(several) < len(one) and len(self._runs) > 1 else 0
        started = time.perf_counter()
        results = self._runs[number](names, feeds, options)
        self._seconds[number].append(time.perf_counter() - started)
        if len(one) == 2 and len(self._runs) == 1:
            # The first run also allocates memory.
            if one[1] < _LONG:
                self._settle(0)
            else:
                self._runs.append(self._opened(None))
                self._seconds = [[], []]
        elif len(several) == _TRIALS + 1:
            self._settle(0 if _median(one[1:]) <= _median(several[1:]) else 1)
        return results

    def _settle(self, number: int) -> None:
        self.run = self._runs[number]
        self._runs, self._opened = [], None  # type: ignore[assignment]


def _median(seconds: list[float]) -> float:
    """The middle one of an odd number; the module that the library has for it imports decimal numbers and fractions"""
    return sorted(seconds)[len(seconds) // 2]
