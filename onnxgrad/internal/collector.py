"""The garbage collector while a program or a graph is built.

Python's collector walks over all objects that live each time their number has grown by a quarter. Operators and variables all live
while they are built, so it finds nothing, and takes half of the time of 50,000 operators.

Tests: tests/internal/test_collector.py.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_paused"]


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector inside a ``with`` block, unless it is off; what nothing refers to is freed all the same."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
