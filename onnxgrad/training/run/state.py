"""RunState: the progress of a run, which a checkpoint holds besides tensors.

Tests: tests/training/test_trainer.py, tests/training/test_damaged_checkpoints.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.training.data.fingerprints import Fingerprints
from onnxgrad.training.run.plan import Means, Row
from onnxgrad.training.run.position import Position

__all__ = ["RunState"]


@dataclass
class RunState:
    """The progress of a run. Whoever moves on makes another one by ``replace``, so that one store exchanges all of it.

    Attributes:
        step: taken in all.
        epoch: finished in all.
        batch: of the present epoch that are done.
        begun: the epoch in which the present call of ``fit``, or the one that is resumed, began.
        history: a row for each epoch.
        before: the row of epoch 0: what validation gave before the first step; None where it was not evaluated.
        evaluations: a row for each evaluation within an epoch; no checkpoint holds them.
        best: the best value of what is monitored.
        means: of the present epoch.
        files: that are trained on, and their fingerprints.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    begun: int = 0
    history: list[Row] = field(default_factory=list)
    before: Row | None = None
    evaluations: list[Row] = field(default_factory=list)
    best: float | None = None
    means: Means = field(default_factory=Means)
    files: Fingerprints = field(default_factory=dict)

    def position(self, seed: int, accumulate: int, schedule: LRScheduler | None) -> Position:
        """Return the position that a checkpoint stores.

        Args:
            seed, accumulate, schedule: of the Trainer, which go along.
        """
        return Position(
            epoch=self.epoch,
            batch=self.batch,
            step=self.step,
            seed=seed,
            accumulate=accumulate,
            examples=self.means.count,
            totals=self.means.totals,
            weights=self.means.weights,
            history=self.history,
            before=self.before,
            best=self.best,
            schedule=None if schedule is None else schedule.state_dict(),
            begun=self.begun,
            files=self.files,
        )

    def at(self, position: Position) -> RunState:
        """What a checkpoint said, to go on from."""
        return RunState(
            step=position.step,
            epoch=position.epoch,
            batch=position.batch,
            begun=position.begun,
            history=position.history,
            before=position.before,
            evaluations=self.evaluations,
            best=position.best,
            means=Means(position.totals, position.examples, position.weights),
            files=position.files,
        )

    def after_epoch(self, row: Row, best: float | None) -> RunState:
        """The beginning of the next epoch, with the row of this one noted."""
        return replace(self, history=[*self.history, row], epoch=self.epoch + 1, batch=0, means=Means(), best=best)
