"""Small parts of a run: its plan, means over examples, and what Ctrl-C does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Interrupt", "Means", "Plan", "Row", "judged", "out_of_patience"]

Row: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True)
class Plan:
    """How to run; see ``Trainer.fit``. ``epochs`` is how many there will be in all."""

    epochs: int
    batch_size: int
    shuffle: bool
    drop_last: bool
    patience: int | None
    checkpoint_every: int | None
    callbacks: Sequence[Any]
    prefetch: int
    verbose: bool | str
    curves: bool


def judged(row: Row) -> float:
    """What decides whether an epoch was better."""
    return float(row["val_loss"] if "val_loss" in row else row["loss"])


def out_of_patience(rows: Sequence[Row], patience: int | None) -> bool:
    """Whether so many epochs have passed since the best one."""
    if patience is None or len(rows) <= patience:
        return False
    values = [judged(row) for row in rows]
    return len(values) - 1 - values.index(min(values)) >= patience


class Means:
    """Means over the examples seen so far."""

    def __init__(self, totals: dict[str, float] | None = None, count: int = 0) -> None:
        self.totals = dict(totals or {})
        self.count = count

    def add(self, values: Row, examples: int) -> None:
        for name, value in values.items():
            self.totals[name] = self.totals.get(name, 0.0) + value * examples
        self.count += examples

    def now(self) -> Row:
        return {name: total / self.count for name, total in self.totals.items()}


class Interrupt:
    """While it is active, Ctrl-C sets ``requested``, for the run to end after the present step; a second one ends it at once.

    Attributes:
        agreed: with ``shared``, what all ranks know of each other's requests.
    """

    def __init__(self, shared: bool = False) -> None:
        self.requested, self.shared, self.agreed = False, shared, False

    @property
    def stops(self) -> bool:
        """Whether the run ends here."""
        return self.agreed if self.shared else self.requested

    def __enter__(self) -> Interrupt:
        self.requested = self.agreed = False
        self.active = threading.current_thread() is threading.main_thread()
        if self.active:
            self.previous = signal.signal(signal.SIGINT, self._stop)
        return self

    def _stop(self, number: int, frame: Any) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def __exit__(self, *error: Any) -> None:
        if self.active:
            signal.signal(signal.SIGINT, self.previous)
