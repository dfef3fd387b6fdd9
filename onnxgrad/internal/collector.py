"""The garbage collector while a program or a graph is built.

Python's collector walks over all objects that live each time their number has grown by a quarter. Operators and variables all live
while they are built, so it finds nothing, and takes half of the time of 50,000 operators.

Tests: tests/internal/test_collector.py.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_paused", "imported_live_on"]


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


@contextmanager
def imported_live_on() -> Iterator[None]:
    """Pause the garbage collector while modules are imported, and count what they made as old at once.

    What a module defines lives as long as the process. Left young, it would be walked over by the next collection of each
    generation: 20 of the 240 ms up to the end of a first step.
    """
    loaded = len(sys.modules)
    with collector_paused():
        yield
        # Old objects are collected too, only less often. What the program froze itself stays frozen.
        if len(sys.modules) > loaded and gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
