"""All mutable state of the package that is not a cache or the rule table: name counters, mode, default programs, scope."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["current", "fresh_names", "generate_name"]


class NameCounters:
    """Counts how often each key was asked for: ``fc`` gives ``fc_0``, then ``fc_1``."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.counts: defaultdict[str, int] = defaultdict(int)

    def generate(self, key: str) -> str:
        number = self.counts[key]
        self.counts[key] += 1
        return f"{self.prefix}{key}_{number}"


class State:
    """What ``program_guard``, ``scope_guard``, ``enable_static``, ``seed`` and ``set_global_initializer`` change."""

    def __init__(self) -> None:
        self.names = NameCounters()
        self.static_mode = False
        self.main_program: Any = None
        self.startup_program: Any = None
        self.scope: Any = None
        self.seed: int | None = None
        self.seeds_drawn = 0
        self.initializers: dict[str, Any] = {}


current = State()


def generate_name(key: str) -> str:
    """The next name for ``key``, such as ``relu_3``."""
    return current.names.generate(key)


@contextmanager
def fresh_names(prefix: str = "", counters: NameCounters | None = None) -> Iterator[None]:
    """Start counting anew inside a ``with`` block, or go on with other counters."""
    outer, current.names = current.names, NameCounters(prefix) if counters is None else counters
    try:
        yield
    finally:
        current.names = outer
