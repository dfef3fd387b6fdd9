"""Memory of values on a device, with a count of who holds it: a run writes over what nobody holds.

Tests: tests/core/runtime/test_buffers.py, tests/core/state/test_scope.py.
"""

from __future__ import annotations

import weakref
from threading import RLock
from typing import Any

__all__ = ["BUFFER_OF", "LOCK", "Buffer", "Whole"]

LOCK = RLock()
"""Guards the counts of all buffers; held for an addition at a time."""


class Whole:
    """Memory of several values side by side, which a session reads and writes as one.

    Attributes:
        value: an OrtValue on all of it.
        memory: whose it is, where the device of the value does not tell.
    """

    __slots__ = ("memory", "value")

    def __init__(self, value: Any, memory: str) -> None:
        self.value = value
        self.memory = memory


class Buffer:
    """Memory of one value on a device. A run writes over it only while nobody holds it.

    It is held by each scope that it is the present value in, by each run that reads it, and by each handle that was given to a
    caller and is still alive.

    Attributes:
        origin: the constant of a program that it is a copy of, until something is written over it.
        memory: whose it is, where the device of the value does not tell.
        spare_of: the scope and the name that write it over next, once it is replaced.
        whole: the memory that it is a part of, if it is one.
        number: of the part.
    """

    __slots__ = ("__weakref__", "_holds", "memory", "number", "origin", "spare_of", "value", "whole")

    def __init__(self, value: Any, origin: Any = None, memory: str = "", whole: Whole | None = None, number: int = 0) -> None:
        self.value = value
        self.origin = origin
        self.memory = memory
        self.spare_of: tuple[int, str] | None = None
        self.whole = whole
        self.number = number
        self._holds = 0

    def is_held_by(self, count: int) -> bool:
        """Whether there are no more holders than these."""
        return self._holds <= count

    def hold(self) -> Buffer:
        with LOCK:
            self._holds += 1
        return self

    def release(self) -> None:
        with LOCK:
            self._holds -= 1

    def lend(self) -> Any:
        """A handle for callers: an OrtValue on the same memory, which stays as it is as long as the handle lives."""
        handle = type(self.value)(self.value._ortvalue)
        self.hold()
        weakref.finalize(handle, self.release).atexit = False
        BUFFER_OF[handle] = self
        return handle


BUFFER_OF: weakref.WeakKeyDictionary[Any, Buffer] = weakref.WeakKeyDictionary()
"""The buffer of each handle that is alive."""
