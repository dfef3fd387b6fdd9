"""RunState: the progress of a run, which a checkpoint holds besides tensors.

Tests: tests/training/test_trainer.py, tests/training/test_damaged_checkpoints.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.training.data.fingerprints import Fingerprints
from onnxgrad.training.run.plan import Means, Row
from onnxgrad.training.run.position import Position

__all__ = ["RunState"]


@dataclass
class RunState:
    """The progress of a run.

    Attributes:
        step: taken in all.
        epoch: finished in all.
        batch: of the present epoch that are done.
        begun: the epoch in which the present call of ``fit``, or the one that is resumed, began.
        history: a row for each epoch.
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
            best=self.best,
            schedule=None if schedule is None else schedule.state_dict(),
            begun=self.begun,
            files=self.files,
        )

    def go_to(self, position: Position) -> None:
        """Go on from what a checkpoint said."""
        self.step, self.epoch, self.batch, self.begun = position.step, position.epoch, position.batch, position.begun
        self.history, self.best, self.files = position.history, position.best, position.files
        self.means = Means(position.totals, position.examples, position.weights)

    def end_epoch(self, row: Row) -> None:
        """Note the row of an epoch, and begin the next one."""
        self.history.append(row)
        self.epoch, self.batch, self.means = self.epoch + 1, 0, Means()
