"""A learning rate from a short sweep over rates (Smith 2017).

Tests: tests/training/run/test_rate_finder.py, tests/training/losses/test_distillation.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

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
_SPREADS = (0.04, 0.06, 0.09, 0.13)
"""Standard deviation of the weights that losses are smoothed with, as a share of the sweep: the first that shows a fall clearly
counts, or the last."""
_BEGUN = 0.1
"""The share of the fall from which on it has begun."""
_CLEAR, _SEEN, _LEAST_FALL = 10.0, 5.5, 1e-3
"""A clear fall is so many standard deviations of a smoothed loss deep, fewer with the last spread, and this share of the loss."""
_BELOW = 10.0
"""A rate suits so many times less than the one where the loss is least, from which on it diverges."""


class Sweep(NamedTuple):
    """Rates and the smoothed losses that they gave, and the rate that suits: where the loss falls fastest over the logarithm of the
    rate, before it is least, and a tenth of the rate where it is least at most.
    """

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
    found = _suggested(rates, losses, steps)
    if found is None:
        raise TrainingError("the loss falls at no rate. Look at the data and the labels, or begin with a lower rate.")
    suggestion, smooth = found
    return Sweep(rates, smooth, suggestion)


def _smoothed(losses: Sequence[float], spread: float) -> list[float]:
    """Means of neighbours with weights of a normal distribution, so that a fall stays at the rate that made it"""
    at = np.arange(len(losses))
    weights = np.exp(-(((at[:, None] - at) / spread) ** 2) / 2)
    return [float(v) for v in weights @ np.asarray(losses, np.float64) / weights.sum(axis=1)]


def _suggested(rates: Sequence[float], losses: Sequence[float], steps: int) -> tuple[float, list[float]] | None:
    """The rate of the steepest fall before the least loss, and the smoothed losses; None if no fall stands out from what batches
    differ by
    """
    begin = float(np.mean(losses[: 1 + len(losses) // 5]))
    for share in _SPREADS:
        smooth = _smoothed(losses, share * steps)
        least = int(np.argmin(smooth))
        noise = float(np.std(np.diff(losses[: least + 1]))) / math.sqrt(2) if least > 1 else 0.0
        smoothed_noise = noise / math.sqrt(2 * math.sqrt(math.pi) * share * steps)
        deviations = _SEEN if share == _SPREADS[-1] else _CLEAR
        if least > 1 and begin - smooth[least] > max(deviations * smoothed_noise, _LEAST_FALL * abs(begin)):
            # Rates are equally far apart by their logarithms. Before the fall begins, slopes are those of noise.
            level = begin - _BEGUN * (begin - smooth[least])
            first = max((i for i in range(least) if smooth[i] >= level), default=0)
            steepest = first + int(np.argmin(np.gradient(smooth)[first : least + 1]))
            return min(rates[steepest], rates[least] / _BELOW), smooth
    return None


def _sweep(
    trainer: Trainer,
    batches: Callable[[int], Iterator[Any]],
    bounds: tuple[float, float],
    steps: int,
    rates: list[float],
    losses: list[float],
) -> None:
    """Train with rising rates, and note them with the losses, until a mean of the last ones diverges"""
    lowest, highest = bounds
    rate, mean, means = _Fixed(lowest), 0.0, [math.inf]
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
            losses.append(loss)
            means.append(mean / (1 - _SMOOTH ** len(rates)))
            if len(rates) >= steps or means[-1] > _DIVERGED * min(means):
                return
        if len(rates) == begun:
            return
