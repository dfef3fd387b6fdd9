"""The epochs of one call of ``Trainer.fit``: batches, rows of history, checkpoints, and when to end.

Tests: tests/training/test_trainer.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onnxgrad.errors import DataError, FeedError
from onnxgrad.optimizer.lr import ReduceOnPlateau
from onnxgrad.training.data.rows import Batch, Rows, Stream, prefetched
from onnxgrad.training.evaluation import rehearse
from onnxgrad.training.ranks.ranks import EpochBatch, examples_of
from onnxgrad.training.report.curves import plot_history
from onnxgrad.training.run.callbacks import Callbacks
from onnxgrad.training.run.folder import BEST, LAST, RunFolder
from onnxgrad.training.run.plan import FitPlan, Row, monitored_value, out_of_patience
from onnxgrad.training.run.progress import Progress
from onnxgrad.training.run.schedules import Planned

if TYPE_CHECKING:
    from onnxgrad.training.trainer import Trainer

__all__ = ["TrainingLoop"]


class TrainingLoop:
    """Trains on data by a plan, and leaves what it did in a folder if there is one.

    Args:
        trainer: whose step, history and position in the run are used and moved on.
        source, held_out: training and validation data, opened.
        folder: for history and checkpoints.
        plan: how to run.
    """

    def __init__(
        self, trainer: Trainer, source: Rows | Stream, held_out: Rows | Stream | None, folder: RunFolder | None, plan: FitPlan
    ) -> None:
        self.trainer, self.source, self.held_out, self.folder, self.plan = trainer, source, held_out, folder, plan
        self._stopped = False
        self._heard = Callbacks(plan.callbacks).hear("on_step")
        self.callbacks = Callbacks(plan.callbacks if trainer.ranks.is_first else ())

    def run(self) -> None:
        """Run epochs until the plan is done, patience ends, a callback returns True or Ctrl-C is pressed.

        Raises:
            SystemExit: after a checkpoint, where SIGTERM or SIGUSR1 has asked for the end of the process.
        """
        out = None if self.folder is None else self.folder.path
        run_options = {
            "epochs": self.plan.epochs,
            "batch_size": self.plan.batch_size,
            "out": out,
            "validation": self.held_out,
            "monitor": self.plan.monitor,
        }
        if any(getattr(callback, "watches_gradients", False) for callback in self.plan.callbacks):
            self.trainer.watch_gradients()  # on all ranks, whose programs are equal
        try:
            self._tell("on_begin", run_options)
            if self.trainer.ranks.any(self.trainer.watches_gradients):
                self.trainer.watch_gradients()  # the callbacks of rank 0 ask for it, and all ranks run one program
            self._epochs()
            self.trainer.ranks.step.collect()
        except BaseException as error:
            self._end(error)
            raise
        self._end(None)
        if self.trainer.interrupt.exits:
            self.trainer.ranks.any(False)  # none leaves before the first has written
            self.trainer.interrupt.exit()

    def _epochs(self) -> None:
        trainer, plan = self.trainer, self.plan
        if isinstance(trainer.schedule, Planned):
            count = self.source.count(plan.batch_size, plan.drop_last)
            steps = None if count is None else count * plan.epochs
            if plan.max_steps is not None:
                steps = plan.max_steps if steps is None else min(steps, plan.max_steps)
            trainer.schedule.plan(None if steps is None else steps // trainer.accumulate)
        with trainer.interrupt as interrupt:
            if plan.before and trainer.state.step == 0:
                self._evaluate_before()
            elif trainer.state.step == 0 and isinstance(self.held_out, Rows):
                rehearse(trainer, self.held_out, plan.batch_size)
            ended = out_of_patience(trainer.state.history[trainer.state.begun :], plan.patience, plan.monitor)
            if ended:
                message = f"nothing is trained: no epoch was better for {plan.patience} epochs"
                warnings.warn(f"{message}. Give a larger patience.", stacklevel=3)
            while trainer.state.epoch < plan.epochs and not ended and not interrupt.stops and not self._at_end():
                ended = not self._epoch()
            if (interrupt.stops or self._stopped) and self.folder is not None:
                self._write(self.folder)

    def _epoch(self) -> bool:
        """The rest of an epoch and what follows it; False if the run ends here."""
        trainer, plan = self.trainer, self.plan
        order: dict[str, Any] = {"shuffle": plan.shuffle, "drop_last": plan.drop_last, "seed": trainer.seed}
        rest = self.source.batches(plan.batch_size, epoch=trainer.state.epoch, skip=trainer.state.batch, **order)
        examples = self.source.examples(plan.batch_size, plan.drop_last)
        note = f"opening {len(trainer.program.global_block().ops):,} operators and the first gradient"
        title = f"epoch {trainer.state.epoch + 1}/{plan.epochs}"
        later = None if examples is None else examples * (plan.epochs - trainer.state.epoch - 1)
        shown = trainer.ranks.is_first and plan.verbose
        with Progress(title, examples, trainer.state.means.count, shown, note, later) as progress:
            batches = prefetched(rest, plan.prefetch, lambda: trainer.interrupt.stops)
            if not self._train_on(trainer.ranks.while_all_have(self.source, batches), progress):
                return False
            progress.say("evaluating")
            row = self._row()
            better = self._is_better(row)
            trainer.program.active_scope().change(lambda: self._end_epoch(row, better))
            progress.finish(row)
            progress.say("writing a checkpoint and reports")
            if self.folder is not None:
                self._write(self.folder, better, ends_epoch=True)
                if plan.curves and trainer.ranks.is_first:
                    plot_history(trainer.rows, self.folder.path / "curves.png")
            trainer.ranks.step.collect()
            ended = trainer.ranks.any(self._tell("on_epoch", row) or self._stopped)
        return not ended and not out_of_patience(trainer.state.history[trainer.state.begun :], plan.patience, plan.monitor)

    def _end_epoch(self, row: Row, better: bool) -> None:
        trainer, plan = self.trainer, self.plan
        scope, state = trainer.program.active_scope(), trainer.state
        if isinstance(trainer.schedule, ReduceOnPlateau):
            named = plan.monitor or ("val_loss" if "val_loss" in row else "loss")
            metric = row[named] if trainer.schedule.mode == "max" else monitored_value(row, plan.monitor)
            for owner, attributes in trainer.schedule.moved(metric):
                scope.follow(owner, **attributes)
        scope.follow(trainer, _state=state.after_epoch(row, monitored_value(row, plan.monitor) if better else state.best))

    def _train_on(self, batches: Iterator[Batch], progress: Progress) -> bool:
        """Train on these batches; False if interrupted"""
        trainer, every = self.trainer, self.plan.checkpoint_every
        for batch in batches:
            try:
                values = trainer.step(batch if isinstance(batch, EpochBatch) else EpochBatch(batch))
            except FeedError as error:
                raise DataError(f"epoch {trainer.state.epoch + 1}, batch {trainer.state.batch + 1}: {error}") from error
            size = examples_of(batch, trainer.ranks.axes)
            progress.update(size, trainer.state.means.now())
            if self._heard:
                self._stopped = trainer.ranks.any(self._tell("on_step", self._step_row(size, values)))
            if self._at_end():
                self._stopped = True
            if self._evaluates(trainer.state.step):
                progress.say("evaluating")
                self._evaluate()
            if trainer.interrupt.stops or self._stopped:
                return False
            if self.folder is not None and every is not None and trainer.state.step % every == 0:
                progress.say("writing a checkpoint")
                self._write(self.folder)
        if trainer.interrupt.stops:  # told to while a batch was waited for
            return False
        if trainer.state.means.count == 0:
            raise DataError("the data has no batch in this epoch. Is the iterable used up? Give a list or a function.")
        return True

    def _tell(self, event: str, *what: Any) -> bool:
        with self.trainer.ranks.rank0_only():
            return self.callbacks.tell(event, self.trainer, *what)

    def _end(self, error: BaseException | None) -> None:
        history = self.trainer.state.history
        with self.trainer.ranks.rank0_only():
            self.callbacks.end(self.trainer, history[-1] if history else {}, error)

    def _at_end(self) -> bool:
        return self.plan.max_steps is not None and self.trainer.state.step >= self.plan.max_steps

    def _evaluates(self, step: int) -> bool:
        """Return whether the model is evaluated after this step: every ``evaluate_every`` steps, and where the run ends"""
        every = self.plan.evaluate_every
        return self.held_out is not None and (self._at_end() or (every is not None and step % every == 0))

    def _evaluate_before(self) -> None:
        """Evaluate the model as it is before the first step, which also shows whether validation works at all."""
        assert self.held_out is not None
        trainer = self.trainer
        with Progress("before training", None, 0, trainer.ranks.is_first and self.plan.verbose, "evaluating") as progress:
            metrics = trainer.evaluate(self.held_out, batch_size=self.plan.batch_size)
            row = {"epoch": 0, "step": 0, **{f"val_{name}": value for name, value in metrics.items()}}
            progress.finish(row)
        trainer.go_to(replace(trainer.state, before=row))
        self._tell("on_evaluate", row)

    def _evaluate(self) -> None:
        row = {"step": self.trainer.state.step, "epoch": self.trainer.state.epoch + 1, **self._validated()}
        self.trainer.state.evaluations.append(row)
        better = (self.plan.monitor or "val_loss") in row and self._is_better(row)
        if better:
            self.trainer.go_to(replace(self.trainer.state, best=monitored_value(row, self.plan.monitor)))
        if self.folder is not None:
            self.folder.write_evaluations(self.trainer.state.evaluations)
            if better:
                self._write(self.folder, better)

    def _validated(self) -> Row:
        assert self.held_out is not None
        trainer = self.trainer
        metrics = trainer.evaluate(self.held_out, batch_size=self.plan.batch_size)
        row = {f"val_{name}": value for name, value in metrics.items()}
        event = {"step": trainer.state.step, "epoch": trainer.state.epoch + 1, **row}
        self._stopped = self._tell("on_evaluate", event) or self._stopped
        return row

    def _step_row(self, examples: int, values: Row) -> Row:
        trainer = self.trainer
        position = {"step": trainer.state.step, "epoch": trainer.state.epoch + 1, "learning_rate": trainer.optimizer.get_lr()}
        return {**position, "examples": examples, **values}

    def _row(self) -> Row:
        trainer = self.trainer
        position = {"epoch": trainer.state.epoch + 1, "step": trainer.state.step, "learning_rate": trainer.optimizer.get_lr()}
        row: Row = {**position, **trainer.state.means.now()}
        if self.held_out is not None:
            row.update(self._validated())
        return row

    def _is_better(self, row: Row) -> bool:
        best = self.trainer.state.best
        return best is None or monitored_value(row, self.plan.monitor) < best

    def _write(self, folder: RunFolder, better: bool = False, ends_epoch: bool = False) -> None:
        """Write a checkpoint. ``last`` is published last: a process that is killed before does this epoch again, with the same
        result, and one that is killed after has lost neither the best checkpoint nor a row."""
        path = folder.checkpoint(self.trainer.state.step)
        self.trainer.save(path)
        if better:
            folder.publish(path, BEST)
        if ends_epoch:
            folder.write_history(self.trainer.rows)
        folder.publish(path, LAST)
        self._tell("on_checkpoint", path)
        folder.drop_old()
