"""Learning-rate schedules by name, with warm-up; their length is known once the run begins."""

from __future__ import annotations

import math
from typing import get_args

from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.words import ScheduleName
from onnxgrad.optimizer.lr import LRScheduler, ReduceOnPlateau

__all__ = ["SHAPES", "Planned", "planned"]

SHAPES: tuple[ScheduleName, ...] = get_args(ScheduleName)
_PLATEAU = 5


class Planned(LRScheduler):
    """Rises to the rate in ``warmup`` steps, then stays, or falls to 0 like a cosine or a line at step ``total``.

    ``step`` takes a tenth at one half and at three quarters of the steps. ``one-cycle`` rises from 1/25 of the rate in the first
    30 % of the steps, or in ``warmup``, and falls to 1/250,000, both like half a cosine. Cosine: Loshchilov and Hutter, "SGDR",
    2017. Warm-up: Goyal et al. 2017. Step: He et al. 2016. One cycle: Smith and Topin 2018.

    Args:
        learning_rate: the rate at the end of the warm-up.
        shape: "constant", "linear", "cosine", "one-cycle" or "step".
        warmup: batches in which the rate rises from 0.
        total: batches of the whole run; None to be told later.

    Example:
        >>> schedule = Planned(1.0, "linear", warmup=2, total=6)
        >>> rates = []
        >>> for _ in range(6):
        ...     rates.append(schedule())
        ...     schedule.step()
        >>> rates
        [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """

    @checked
    def __init__(self, learning_rate: float, shape: ScheduleName = "constant", warmup: int = 0, total: int | None = None) -> None:
        if shape not in SHAPES or shape == "plateau":
            raise ArgumentError(f"there is no schedule {shape!r}. Use one of {list(SHAPES)}, or a scheduler as learning_rate=.")
        if warmup < 0:
            raise ArgumentError(f"warmup counts steps; it is at least 0, not {warmup}.")
        self.shape, self.warmup, self.total = shape, warmup, total
        super().__init__(learning_rate)

    def plan(self, total: int | None) -> None:
        """Say how many steps there will be.

        Args:
            total: batches of the whole run; None if that is not known.

        Raises:
            ArgumentError: if the shape needs the number and there is none.
        """
        if total is None and self.shape != "constant":
            raise ArgumentError(f"the schedule {self.shape!r} must know the number of batches. Give data that has a length.")
        self.total = total
        self.last_lr = self.get_lr()

    def get_lr(self) -> float:
        if self.shape == "one-cycle" and self.total is not None:
            return self._one_cycle(self.total)
        if self.last_epoch < self.warmup:
            return self.base_lr * (self.last_epoch + 1) / self.warmup
        if self.total is None or self.shape == "constant":
            return self.base_lr
        done = min(1.0, (self.last_epoch - self.warmup) / max(1, self.total - self.warmup))
        if self.shape == "step":
            return self.base_lr * (1.0 if done < 0.5 else 0.1 if done < 0.75 else 0.01)
        return self.base_lr * (0.5 * (1 + math.cos(math.pi * done)) if self.shape == "cosine" else 1.0 - done)

    def _one_cycle(self, total: int) -> float:
        rise = self.warmup or max(1, round(0.3 * total))
        begin, end = self.base_lr / 25, self.base_lr / 250_000
        if self.last_epoch < rise:
            return begin + (self.base_lr - begin) * 0.5 * (1 - math.cos(math.pi * self.last_epoch / rise))
        done = min(1.0, (self.last_epoch - rise) / max(1, total - 1 - rise))
        return end + (self.base_lr - end) * 0.5 * (1 + math.cos(math.pi * done))


def planned(learning_rate: float | LRScheduler, shape: ScheduleName, warmup: int) -> float | LRScheduler:
    """A number with its schedule; a scheduler, and a number that stays, as they are."""
    if isinstance(learning_rate, LRScheduler) or (shape == "constant" and not warmup):
        return learning_rate
    if not 0 <= learning_rate < math.inf:
        raise ArgumentError(f"the learning rate is a number of at least 0, not {learning_rate}.")
    if shape == "plateau":
        if warmup:
            raise ArgumentError("the schedule 'plateau' has no warm-up. Leave it out, or choose another schedule.")
        return ReduceOnPlateau(float(learning_rate), patience=_PLATEAU, threshold_mode="abs")
    return Planned(float(learning_rate), shape, warmup)
