"""A learning rate from a short sweep over rates (Smith 2017).

Tests: tests/training/losses/test_distillation.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onnxgrad.errors import ArgumentError, DataError, OnnxGradError, TrainingError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.files import writing
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.training.data.rows import Data
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
        with writing(Path(path)) as file:
            figure.savefig(file, format=Path(path).suffix[1:] or "png")


class _Fixed(LRScheduler):
    steps_by_itself = False

    def get_lr(self) -> float:
        return self.base_lr


@checked
def find_learning_rate(
    trainer: Trainer, data: Data, *, lowest: float = 1e-7, highest: float = 1.0, steps: int = 100, batch_size: int = 32
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
    scope, state, held = trainer.program.active_scope(), trainer.state, trainer.optimizer._learning_rate
    kept = scope.copy()
    rates: list[float] = []
    losses: list[float] = []

    def batches(epoch: int) -> Iterator[Any]:
        return source.batches(batch_size, seed=trainer.seed, epoch=epoch)

    def put_back() -> None:
        if isinstance(held, LRScheduler):
            trainer.optimizer.set_lr_scheduler(held)
        else:
            plan = trainer.program.plan
            plan.schedulers = [entry for entry in plan.schedulers if not isinstance(entry[1], _Fixed)]
            trainer.optimizer._learning_rate = held

        def go_back() -> None:
            scope.take(kept)
            trainer.go_to(state)

        scope.change(go_back)

    try:
        try:
            _sweep(trainer, batches, (lowest, highest), steps, rates, losses)
        finally:
            put_back()
    except KeyboardInterrupt:
        put_back()  # which may be what was interrupted
        raise
    kept.clear()
    if not rates:
        raise DataError("there is nothing to try rates on: the data has no batch.")
    slopes = [(losses[i + 1] - losses[i - 1]) / 2 for i in range(1, len(losses) - 1)]
    if not slopes or min(slopes) >= 0:
        raise TrainingError("the loss falls at no rate. Look at the data and the labels, or begin with a lower rate.")
    return Sweep(rates, losses, rates[1 + min(range(len(slopes)), key=lambda i: slopes[i])])


def _sweep(
    trainer: Trainer,
    batches: Callable[[int], Iterator[Any]],
    bounds: tuple[float, float],
    steps: int,
    rates: list[float],
    losses: list[float],
) -> None:
    """Train with rising rates, and note them with the smoothed losses, until the loss diverges"""
    lowest, highest = bounds
    rate, mean = _Fixed(lowest), 0.0
    trainer.optimizer.set_lr_scheduler(rate)
    for epoch in count():
        begun = len(rates)
        for batch in batches(epoch):
            rate.base_lr = rate.last_lr = lowest * (highest / lowest) ** (len(rates) / (steps - 1))
            try:
                loss = trainer.step(batch)["loss"]
            except TrainingError:
                return
            mean = _SMOOTH * mean + (1 - _SMOOTH) * loss
            rates.append(rate.base_lr)
            losses.append(mean / (1 - _SMOOTH ** len(rates)))
            if len(rates) >= steps or losses[-1] > _DIVERGED * min(losses):
                return
        if len(rates) == begun:
            return
