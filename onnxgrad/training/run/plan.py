"""Small parts of a run: its plan, means over examples, and what Ctrl-C and SIGTERM do.

Tests: tests/training/run/test_plan.py, tests/training/test_trainer.py.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from onnxgrad.errors import ArgumentError
from onnxgrad.training.metrics.epoch import FALLING

if TYPE_CHECKING:
    from onnxgrad.training.trainer import Trainer

__all__ = ["FitPlan", "Interrupt", "Means", "Row", "check_fit_options", "monitored_value", "out_of_patience"]

Row: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True)
class FitPlan:
    """Options of a run; see ``Trainer.fit``. ``epochs`` is how many there will be in all."""

    epochs: int
    batch_size: int
    shuffle: bool
    drop_last: bool
    prefetch: int
    max_steps: int | None
    patience: int | None
    monitor: str | None
    evaluate_every: int | None
    checkpoint_every: int | None
    callbacks: Sequence[Any]
    verbose: bool | str
    curves: bool
    before: bool


def monitored_value(row: Row, monitor: str | None = None) -> float:
    """Return the monitored value of an epoch; the smaller, the better."""
    name = monitor or ("val_loss" if "val_loss" in row else "loss")
    return float(row[name]) * (1 if FALLING.fullmatch(name) else -1)


def out_of_patience(rows: Sequence[Row], patience: int | None, monitor: str | None = None) -> bool:
    """Whether so many epochs have passed since the best one."""
    if patience is None or len(rows) <= patience:
        return False
    values = [monitored_value(row, monitor) for row in rows]
    return len(values) - 1 - values.index(min(values)) >= patience


_LEAST = {
    "batch_size": 1,
    "epochs": 0,
    "patience": 1,
    "checkpoint_every": 1,
    "keep": 0,
    "max_steps": 1,
    "evaluate_every": 1,
    "prefetch": 0,
}


def check_fit_options(trainer: Trainer, validation: Any, monitor: str | None = None, **counts: int | None) -> None:
    """Raise ArgumentError if a run cannot go on by these."""
    for name, value in counts.items():
        least = _LEAST.get(name, 1)
        if value is not None and value < least:
            raise ArgumentError(f"{name} is at least {least}, not {value}.")
    for name in ("evaluate_every", "before"):
        if counts.get(name) is not None and validation is None:
            raise ArgumentError(f"{name} needs validation data. Give validation= (--val).")
    own = ["loss", *(label for label, _ in trainer.metrics)]
    held_out = [] if validation is None else [f"val_{name}" for name in [*own, *trainer.whole]]
    if monitor is not None and monitor not in (*own, *held_out):
        raise ArgumentError(f"there is nothing named {monitor!r} to monitor; this run has {[*own, *held_out]}. Add it to metrics=.")


class Means:
    """Weighted means of values that come in parts, each as its mean over a part and the weight of that.

    Attributes:
        totals: by name, the sum over parts of weight times mean.
        weights: by name, the sum of weights, where these are not numbers of examples.
        count: of examples.
    """

    def __init__(
        self, totals: Mapping[str, float] | None = None, count: int = 0, weights: Mapping[str, float] | None = None
    ) -> None:
        self.totals, self.count, self.weights = dict(totals or {}), count, dict(weights or {})

    def add(self, values: Row, examples: int, weights: Mapping[str, float] | None = None) -> None:
        """Add a part.

        Args:
            values: means over the part, by name.
            examples: in the part: the weight of what ``weights`` does not name.
            weights: by name; what has the weight 0 is left out, as it may be NaN.
        """
        weights = weights or {}
        for name, value in values.items():
            weight = weights.get(name, examples)
            self.totals[name] = self.totals.get(name, 0.0) + (value * weight if weight else 0.0)
            if name in weights:
                self.weights[name] = self.weights.get(name, 0.0) + weight
        self.count += examples

    def plus(self, values: Row, examples: int, weights: Mapping[str, float] | None = None) -> Means:
        """These and another part, for which see ``add``."""
        other = Means(self.totals, self.count, self.weights)
        other.add(values, examples, weights)
        return other

    def now(self) -> Row:
        """The means so far; NaN of what has no weight."""
        weights = {name: self.weights.get(name, self.count) for name in self.totals}
        return {name: total / weights[name] if weights[name] else math.nan for name, total in self.totals.items()}


_TOGETHER = 1.0
"""Seconds within which signals of one kind are one: a scheduler and the program that starts ranks may both send it."""


class Interrupt:
    """While it is active, Ctrl-C sets ``requested``, for the run to end after the present step; a second one ends it at once.

    SIGTERM, by which schedulers take a machine back, and SIGUSR1, by which Slurm warns (``--signal``), do the same, and then the
    process exits with 128 and the number of the signal, as ``exit`` does. A handler that the program has for them stays.

    Attributes:
        requested: whether this process was told to end.
        by_scheduler: whether by another signal than Ctrl-C.
        agreed: with ``shared``, both of any rank, as all know them since the present step.
    """

    def __init__(self, shared: bool = False) -> None:
        self.shared = shared
        self.requested, self.by_scheduler, self.agreed = False, False, (False, False)
        self._number, self._came = 0, 0.0
        self._previous: dict[int, Any] = {}

    @property
    def stops(self) -> bool:
        """Whether the run ends here."""
        return self.agreed[0] if self.shared else self.requested

    @property
    def exits(self) -> bool:
        """Whether the process ends with the run."""
        return self.agreed[1] if self.shared else self.by_scheduler

    def __enter__(self) -> Interrupt:
        self.requested, self.by_scheduler, self.agreed = False, False, (False, False)
        self._number, self._previous = 0, {}
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
                number = getattr(signal, name, None)
                if number is not None and (name == "SIGINT" or signal.getsignal(number) == signal.SIG_DFL):
                    self._previous[number] = signal.signal(number, self._stop)
        return self

    def _stop(self, number: int, frame: Any) -> None:
        if not self.requested:
            self.requested, self._number, self._came = True, number, time.monotonic()
            self.by_scheduler = number != signal.SIGINT
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        elif number != self._number or time.monotonic() - self._came > _TOGETHER:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def __exit__(self, *error: Any) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)

    def exit(self) -> None:
        """End the process, as a signal has asked.

        Raises:
            SystemExit: with the exit code of that signal, or of SIGTERM where another rank was told.
        """
        raise SystemExit(128 + (self._number if self.by_scheduler else signal.SIGTERM))
