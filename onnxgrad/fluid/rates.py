"""Learning rates that change with every run of the program, by themselves.

Tests: tests/fluid/test_fluid.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from onnxgrad.optimizer import lr

__all__ = [
    "cosine_decay", "exponential_decay", "inverse_time_decay", "linear_lr_warmup", "natural_exp_decay", "noam_decay",
    "piecewise_decay", "polynomial_decay",
]  # fmt: skip


class RunCounted(lr.LambdaDecay):
    """A rate that is a function of the number of runs so far; the Executor counts."""

    steps_by_itself = True

    def __init__(self, rate: Callable[[int], float]) -> None:
        super().__init__(1.0, rate)


def _decays(step: int, decay_steps: float, staircase: bool) -> float:
    return step // decay_steps if staircase else step / decay_steps


def exponential_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> RunCounted:
    """learning_rate * decay_rate^(run / decay_steps); whole powers only with ``staircase``.

    Args:
        learning_rate: the first rate.
        decay_steps: runs over which the rate decays once.
        decay_rate: how fast it decays.
        staircase: whether it decays in whole steps alone.
    """
    return RunCounted(lambda step: learning_rate * decay_rate ** _decays(step, decay_steps, staircase))


def natural_exp_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> RunCounted:
    """learning_rate * exp(-decay_rate * run / decay_steps).

    Args:
        learning_rate: the first rate.
        decay_steps: runs over which the rate decays once.
        decay_rate: how fast it decays.
        staircase: whether it decays in whole steps alone.
    """
    return RunCounted(lambda step: learning_rate * math.exp(-decay_rate * _decays(step, decay_steps, staircase)))


def inverse_time_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> RunCounted:
    """learning_rate / (1 + decay_rate * run / decay_steps).

    Args:
        learning_rate: the first rate.
        decay_steps: runs over which the rate decays once.
        decay_rate: how fast it decays.
        staircase: whether it decays in whole steps alone.
    """
    return RunCounted(lambda step: learning_rate / (1 + decay_rate * _decays(step, decay_steps, staircase)))


def polynomial_decay(
    learning_rate: float, decay_steps: int, end_learning_rate: float = 0.0001, power: float = 1.0, cycle: bool = False
) -> RunCounted:
    """From ``learning_rate`` to ``end_learning_rate`` along (1 - run / decay_steps)^power.

    Args:
        learning_rate: the first rate.
        decay_steps: runs until the last rate.
        end_learning_rate: the last rate.
        power: the exponent.
        cycle: whether it starts again after ``decay_steps`` runs, over more of them.
    """
    schedule = lr.PolynomialDecay(learning_rate, decay_steps, end_learning_rate, power, cycle)
    return RunCounted(lambda step: _at(schedule, step))


def piecewise_decay(boundaries: Sequence[int], values: Sequence[float]) -> RunCounted:
    """``values[i]`` until run ``boundaries[i]``.

    Args:
        boundaries: numbers of runs, rising.
        values: rates, one more than boundaries.
    """
    schedule = lr.PiecewiseDecay(boundaries, values)
    return RunCounted(lambda step: _at(schedule, step))


def noam_decay(d_model: int, warmup_steps: int, learning_rate: float = 1.0) -> RunCounted:
    """learning_rate * d_model^-0.5 * min(run^-0.5, run * warmup_steps^-1.5), where the first run is 1.

    Args:
        d_model: features of the model.
        warmup_steps: runs over which the rate rises.
        learning_rate: factor of the rate.
    """
    schedule = lr.NoamDecay(d_model, warmup_steps, learning_rate)
    return RunCounted(lambda step: _at(schedule, step + 1))


def cosine_decay(learning_rate: float, step_each_epoch: int, epochs: int) -> RunCounted:
    """learning_rate * (1 + cos(pi * epoch / epochs)) / 2, where an epoch has ``step_each_epoch`` runs.

    Args:
        learning_rate: the first rate.
        step_each_epoch: runs in an epoch.
        epochs: epochs until the rate is 0.
    """
    return RunCounted(lambda step: learning_rate * 0.5 * (math.cos((step // step_each_epoch) * math.pi / epochs) + 1))


def linear_lr_warmup(learning_rate: float | lr.LRScheduler, warmup_steps: int, start_lr: float, end_lr: float) -> RunCounted:
    """From ``start_lr`` to ``end_lr`` over ``warmup_steps`` runs, then ``learning_rate``.

    Args:
        learning_rate: the rate, or a schedule, after the warm-up.
        warmup_steps: runs of the warm-up.
        start_lr: the first rate.
        end_lr: the rate at its end.
    """

    def rate(step: int) -> float:
        if step < warmup_steps:
            return start_lr + (end_lr - start_lr) * step / warmup_steps
        return _at(learning_rate, step) if isinstance(learning_rate, lr.LRScheduler) else float(learning_rate)

    return RunCounted(rate)


def _at(schedule: Any, step: int) -> float:
    schedule.step(step)
    return float(schedule())
