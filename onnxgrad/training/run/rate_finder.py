"""A learning rate from a short sweep over rates (Smith 2017).

Tests: tests/training/losses/test_distillation.py.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onnxgrad.errors import ArgumentError, DataError, OnnxGradError, TrainingError
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.training.ranks.subjects import sweep_subjects

if TYPE_CHECKING:
    from onnxgrad.training.trainer import Trainer

__all__ = ["Sweep", "find_learning_rate"]

_SMOOTH, _DIVERGED = 0.9, 4.0


class Sweep(NamedTuple):
    """Rates and the smoothed losses that they gave, and the rate where the loss fell fastest."""

    rates: list[float]
    losses: list[float]
    suggestion: float

    def plot(self, path: str | Path) -> None:
        """Draw loss over rate into an image file.

        Raises:
            OnnxGradError: if matplotlib is not installed.
        """
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise OnnxGradError("the plot needs the package matplotlib. Install onnxgrad[plots].") from error
        figure = Figure(figsize=(6, 4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        axes.plot(self.rates, self.losses)
        axes.axvline(self.suggestion, linestyle="--", color="grey")
        axes.set(xscale="log", xlabel="learning rate", ylabel="loss, smoothed", title=f"suggestion: {self.suggestion:.2g}")
        figure.savefig(path)


class _Fixed(LRScheduler):
    steps_by_itself = False

    def get_lr(self) -> float:
        return self.base_lr


def find_learning_rate(
    trainer: Trainer, data: Any, *, lowest: float = 1e-7, highest: float = 1.0, steps: int = 100, batch_size: int = 32
) -> Sweep:
    """Train with rates that rise from step to step, until the loss diverges, and put everything back as it was.

    Args:
        trainer: whose model, loss and optimizer are tried.
        data: as for ``fit``.
        lowest, highest: rates of the first and the last step.
        steps: how many at most.
        batch_size: examples in a batch.

    Raises:
        ArgumentError: if the rates are none, or there are fewer than 10 steps.
        TrainingError: if the loss never falls. On all ranks, if they were given other data or options.
    """
    if not 0 < lowest < highest < math.inf or steps < 10:
        raise ArgumentError(f"a sweep has rates 0 < lowest < highest and 10 steps or more, not {lowest}, {highest}, {steps}.")
    source, _ = trainer.open(data)
    if trainer.ranks.are_many:
        # A difference between ranks that a step tells would be taken for the end of the sweep.
        trainer.ranks.agree(sweep_subjects(trainer, source, batch_size, [lowest, highest, steps]))
    state = [v for v in trainer.program.list_vars() if v.persistable]
    kept, begun_at = [np.array(v.get_value()) for v in state], trainer.state.step
    schedule, rate = trainer.optimizer._learning_rate, _Fixed(lowest)
    rates: list[float] = []
    losses: list[float] = []
    mean = 0.0
    try:
        trainer.optimizer.set_lr_scheduler(rate)
        epoch = 0
        while len(rates) < steps:
            begun = len(rates)
            for batch in source.batches(batch_size, seed=trainer.seed, epoch=epoch):
                rate.base_lr = rate.last_lr = lowest * (highest / lowest) ** (len(rates) / (steps - 1))
                try:
                    loss = trainer.step(batch)["loss"]
                except TrainingError:
                    steps = len(rates)
                    break
                mean = _SMOOTH * mean + (1 - _SMOOTH) * loss
                rates.append(rate.base_lr)
                losses.append(mean / (1 - _SMOOTH ** len(rates)))
                if len(rates) >= steps or losses[-1] > _DIVERGED * min(losses):
                    steps = len(rates)
                    break
            if len(rates) == begun:
                break
            epoch += 1
    finally:
        if isinstance(schedule, LRScheduler):
            trainer.optimizer.set_lr_scheduler(schedule)
        else:
            plan = trainer.program.plan
            plan.schedulers = [entry for entry in plan.schedulers if entry[1] is not rate]
            trainer.optimizer._learning_rate = schedule
        for v, value in zip(state, kept, strict=True):
            v.set_value(value)
        trainer.state.step = begun_at
    if not rates:
        raise DataError("there is nothing to try rates on: the data has no batch.")
    slopes = [(losses[i + 1] - losses[i - 1]) / 2 for i in range(1, len(losses) - 1)]
    if not slopes or min(slopes) >= 0:
        raise TrainingError("the loss falls at no rate. Look at the data and the labels, or begin with a lower rate.")
    return Sweep(rates, losses, rates[1 + min(range(len(slopes)), key=lambda i: slopes[i])])
