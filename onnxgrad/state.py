"""All mutable state of the package that is not a cache or the rule table: name counters, mode, default programs, scope."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["current", "fresh_names", "generate_name", "straight_through"]


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
    """What ``program_guard``, ``scope_guard``, ``enable_static``, ``no_grad``, ``seed``, ``set_global_initializer`` change."""

    def __init__(self) -> None:
        self.names = NameCounters()
        self.static_mode = False
        self.main_program: Any = None
        self.startup_program: Any = None
        self.scope: Any = None
        self.seed: int | None = None
        self.default_dtype = "float32"
        self.seeds_drawn = 0
        self.generator: Any = None
        self.gradients = True
        self.guards = 0
        self.initializers: dict[str, Any] = {}
        self.straight_through = True
        self.autocast: Any = None


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


@contextmanager
def straight_through(enabled: bool = True) -> Iterator[None]:
    """Whether gradients pass through quantisation, inside a ``with`` block.

    Rounding has a zero derivative almost everywhere. By convention (Bengio et al., 2013) QuantizeLinear is differentiated as if
    it only scaled and clipped: the gradient passes where the value lies inside the range of the integers, and is 0 outside. This
    is on by default; when it is off, asking for a gradient through QuantizeLinear is an error.

    Args:
        enabled: False to refuse such gradients.

    Example:
        >>> import onnxgrad
        >>> with onnxgrad.straight_through(False):
        ...     onnxgrad.state.current.straight_through
        False
    """
    outer, current.straight_through = current.straight_through, enabled
    state = current
    try:
        yield
    finally:
        state.straight_through = outer
