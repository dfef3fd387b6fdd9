"""Hold the state that guards and modes change: name counters, default programs, scope, gradient mode, mixed precision, seeds.

There is one set of defaults in a process. A guard (``program_guard``, ``scope_guard``, ``no_grad``, ``auto_cast``, ...) lays its
values over them for the thread, or the asynchronous task, that entered it and for no other.

Tests: tests/core/test_threads.py.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from onnxgrad.internal.arguments import checked

__all__ = [
    "current",
    "disable_static",
    "enable_static",
    "enter_guard",
    "fresh_names",
    "generate_name",
    "guard",
    "in_dynamic_mode",
    "isolated",
    "leave_guard",
    "seed",
    "set_here",
    "straight_through",
]


def __dir__() -> list[str]:
    return __all__


class NameCounters:
    """Counts how often each key was asked for: ``fc`` gives ``fc_0``, then ``fc_1``."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.counts: defaultdict[str, int] = defaultdict(int)
        self._lock = threading.Lock()

    def generate(self, key: str) -> str:
        with self._lock:
            number = self.counts[key]
            self.counts[key] += 1
        return f"{self.prefix}{key}_{number}"


class _Layer(NamedTuple):
    """The settings of the guards that a thread is inside of, and the layer before the innermost one."""

    outer: _Layer | None
    values: dict[str, Any]


_INNERMOST: ContextVar[_Layer | None] = ContextVar("onnxgrad.internal.state", default=None)


class _Defaults:
    """The settings that every thread sees outside of guards."""

    def __init__(self) -> None:
        self.names = NameCounters()
        self.static_mode = False
        self.main_program: Any = None
        self.startup_program: Any = None
        self.scope: Any = None
        self.seed: int | None = None
        self.default_dtype = "float32"
        self.seeds_given = 0
        self.generator: Any = None
        self.gradients = True
        self.guards = 0
        self.initializers: dict[str, Any] = {}
        self.straight_through = True
        self.autocast: Any = None
        self.place: Any = None
        self.print_options: Any = None


class State:
    """Reads what the thread's guards set, else the process's defaults. Assigning changes what a read of that name finds."""

    __slots__ = ("_defaults", "_lock")

    def __init__(self) -> None:
        object.__setattr__(self, "_defaults", _Defaults())
        object.__setattr__(self, "_lock", threading.RLock())

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, value: Any) -> None:
        layer = _INNERMOST.get()
        if layer is not None and name in layer.values:
            set_here(**{name: value})
        elif not hasattr(self._defaults, name):
            raise AttributeError(f"the state has no field {name!r}")
        else:
            setattr(self._defaults, name, value)

    def make_once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the field, created by the first thread that asks for it."""
        value = getattr(self, name)
        if value is None:
            with self._lock:
                value = getattr(self, name)
                if value is None:
                    value = make()
                    setattr(self, name, value)
        return value

    def count(self, name: str) -> int:
        """Add one to a field; returns the new number."""
        with self._lock:
            number = int(getattr(self, name)) + 1
            setattr(self, name, number)
        return number


def _field(name: str) -> property:
    """Read a field. A property is found four times as fast as what ``__getattr__`` gives, and each eager operator reads two."""

    def read(state: State) -> Any:
        layer = _INNERMOST.get()
        if layer is not None and name in layer.values:
            return layer.values[name]
        return getattr(state._defaults, name)

    return property(read)


for _name in vars(_Defaults()):
    setattr(State, _name, _field(_name))

current = State()


def enter_guard(**values: Any) -> None:
    """Lay these fields over the present ones, for this thread, until ``leave_guard``."""
    outer = _INNERMOST.get()
    _INNERMOST.set(_Layer(outer, {**(outer.values if outer is not None else {}), **values}))


def leave_guard() -> None:
    """Undo the last ``enter_guard`` of this thread."""
    layer = _INNERMOST.get()
    assert layer is not None, "leave_guard without enter_guard"
    _INNERMOST.set(layer.outer)


def set_here(**values: Any) -> None:
    """Set fields for this thread: until the guard that it is inside of ends, or for good outside of guards."""
    layer = _INNERMOST.get()
    outer, settings = (None, {}) if layer is None else layer
    _INNERMOST.set(_Layer(outer, {**settings, **values}))


@contextmanager
def guard(**values: Any) -> Iterator[None]:
    """Set fields inside a ``with`` block, for the thread that runs it."""
    outer = _INNERMOST.get()
    enter_guard(**values)
    try:
        yield
    finally:
        _INNERMOST.set(outer)


@contextmanager
def isolated() -> Iterator[None]:
    """Inside a ``with`` block, everything as in a new process: for tests, and for tools that build programs of their own."""
    global current
    outer, current = current, State()
    token = _INNERMOST.set(None)
    try:
        yield
    finally:
        current = outer
        _INNERMOST.reset(token)


def generate_name(key: str) -> str:
    """The next name for ``key``, such as ``relu_3``."""
    name: str = current.names.generate(key)
    return name


@contextmanager
def fresh_names(prefix: str = "", counters: NameCounters | None = None) -> Iterator[None]:
    """Start counting anew inside a ``with`` block, or go on with other counters."""
    with guard(names=NameCounters(prefix) if counters is None else counters):
        yield


@checked
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
        ...     onnxgrad.internal.state.current.straight_through
        False
    """
    with guard(straight_through=enabled):
        yield


def enable_static() -> None:
    """Let functions without tensor arguments build static programs. The static API itself never needs it."""
    current.static_mode = True


def disable_static(place: object = None) -> None:
    """Let functions without tensor arguments compute eagerly, which is how it starts; on the CPU, whatever ``place`` says.

    Args:
        place: accepted for compatibility.
    """
    current.static_mode = False


def in_dynamic_mode() -> bool:
    """Whether ``enable_static`` is not in force."""
    return not current.static_mode


@checked
def seed(seed: int) -> None:
    """Make the initial values of parameters, and the random numbers of eager functions, reproducible from now on.

    Args:
        seed: an int.
    """
    current.seed = int(seed)
    current.generator = None


manual_seed = seed
