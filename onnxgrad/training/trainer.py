"""Trainer: from a model file and arrays to a trained model, resumable to the bit."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from onnxgrad import state
from onnxgrad.errors import ArgumentError, DataError, TrainingError
from onnxgrad.interop.onnx_import import from_onnx
from onnxgrad.ir.program import Program
from onnxgrad.ir.tensor import Tensor
from onnxgrad.ir.variable import Parameter, Variable
from onnxgrad.nn.clip import ClipGradByGlobalNorm
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.runtime.executor import Executor
from onnxgrad.training.checkpoint import graph_hash, load_checkpoint, read_metadata, save_checkpoint
from onnxgrad.training.data import Batch, Columns, Data, Stream, open_data, prefetched
from onnxgrad.training.folder import BEST, LAST, RunFolder
from onnxgrad.training.losses import Term, attach
from onnxgrad.training.metrics import metric_named
from onnxgrad.training.optimizers import make_optimizer
from onnxgrad.training.progress import Progress
from onnxgrad.training.selection import choose_trainable

__all__ = ["Trainer"]

Loss: TypeAlias = "str | Callable[..., Variable] | Term | Sequence[Term]"
Row: TypeAlias = "dict[str, Any]"
Callback: TypeAlias = "Callable[[Trainer, Row], Any]"


class Trainer:
    """Trains a model with stock onnxruntime.

    Args:
        model: path of an .onnx file, its bytes, a message, or a Program without a loss.
        loss: a name (``cross_entropy``, ``bce_with_logits``, ``mse``, ``l1``, ``smooth_l1``, ``kl``, ``cosine``,
            ``triplet``), a function ``(output, target) -> Variable``, a ``Term``, or several terms that are added up.
        target: name of the data column with the targets, for a loss given by name or function.
        optimizer: a name such as ``"adamw"``, or an Optimizer.
        learning_rate: a number or a scheduler, which moves on after every step; for an optimizer given by name.
        weight_decay: of the optimizer, where it has one.
        trainable: names or patterns of the parameters to train; None for all that are trainable.
        freeze: names or patterns of parameters to leave as they are.
        metrics: names (``accuracy``, ``top5``, ``mae``, ``mse``) or functions ``(output, target) -> values``.
        clip_norm: limit of the global gradient norm.
        accumulate: micro-batches whose mean gradient makes one update.
        seed: of the order of the data and of dropout.
        place: ``CPUPlace()`` or ``CUDAPlace(i)``.

    Raises:
        ModelError: if the model cannot be read.
        ArgumentError: if an argument does not fit the model.
        UnsupportedGradient: if an operator on the path has no gradient.

    Example:
        >>> trainer = Trainer("model.onnx", loss="cross_entropy", metrics=["accuracy"])  # doctest: +SKIP
        >>> trainer.fit({"image": images, "target": labels}, epochs=5)  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        *,
        loss: Loss,
        target: str = "target",
        optimizer: Any = "adamw",
        learning_rate: float | LRScheduler = 1e-3,
        weight_decay: float | None = None,
        trainable: str | Sequence[str] | None = None,
        freeze: str | Sequence[str] | None = None,
        metrics: Sequence[Any] = (),
        clip_norm: float | None = None,
        accumulate: int = 1,
        seed: int = 0,
        place: Any = None,
        threads: int | None = None,
    ) -> None:
        if accumulate < 1:
            raise ArgumentError(f"accumulate counts micro-batches; it is at least 1, not {accumulate}.")
        self.program = model if isinstance(model, Program) else from_onnx(model)
        self.inputs = list(self.program.inputs)
        self.program.random_seed = seed
        self.inference = self.program.clone(for_test=True)
        self.chosen = choose_trainable(self.program, trainable, freeze)
        self.program.train()
        self.terms = _terms(loss, target)
        with state.fresh_names():
            attached = attach(self.program, self.terms)
        self.loss, self.targets, self.remarks = attached.loss, attached.targets, attached.remarks
        self.outputs = attached.outputs
        self.evaluation = self.program.clone(for_test=True)
        self.metrics = [metric_named(metric) for metric in metrics]
        clip = None if clip_norm is None else ClipGradByGlobalNorm(float(clip_norm))
        self.optimizer = make_optimizer(optimizer, learning_rate, weight_decay, clip)
        self.accumulate, self.seed = accumulate, seed
        self.update: Program | None = None
        # Generated names start anew, so that another Trainer on the same model can read the checkpoints.
        with state.fresh_names():
            self._append_update()
        self.executor = Executor(place, threads=threads)
        self.step_number = self.epoch = self.batch = 0
        self.history: list[Row] = []
        self.best: float | None = None
        self._sums = _Sums()
        self._stop = False

    # Building --------------------------------------------------------------------------------------------------------

    def _append_update(self) -> None:
        pairs = self.optimizer.backward(self.loss, parameters=self.chosen)
        if not pairs:
            raise ArgumentError("no parameter that may be trained reaches the loss. Check trainable=, freeze= and the output.")
        self.trained = [p for p, _ in pairs]
        if self.accumulate == 1:
            self.optimizer.apply_gradients(pairs)
            return
        self.update = _accumulating(self.program, pairs, self.optimizer, self.accumulate)

    @property
    def columns(self) -> list[str]:
        """Names of the data columns: the model's inputs, then the targets."""
        return [v.name for v in [*self.inputs, *self.targets]]

    # One step --------------------------------------------------------------------------------------------------------

    def step(self, batch: dict[str, Any]) -> Row:
        """Train on one batch and return its loss and metrics.

        Raises:
            DataError: if a column is missing, misshapen or not finite, or a label is out of range.
            TrainingError: if the loss is not a number; the message names the first operator that produced it.
        """
        feed = self._checked(batch)
        loss, *outputs = self.executor.run(self.program, feed, [self.loss, *self.outputs])
        if not np.isfinite(loss):
            raise TrainingError(self._explain_loss(feed, float(loss)))
        self.step_number += 1
        if self.update is not None and self.step_number % self.accumulate == 0:
            self.executor.run(self.update)
        if isinstance(self.optimizer._learning_rate, LRScheduler) and self.step_number % self.accumulate == 0:
            self.optimizer._learning_rate.step()
        return {"loss": float(loss), **self._measure(outputs, feed)}

    def _measure(self, outputs: list[Any], feed: Batch) -> Row:
        name = self.terms[0].target or "target"
        return {label: float(np.mean(metric(outputs[0], feed[name]))) for label, metric in self.metrics}

    def _checked(self, batch: dict[str, Any]) -> Batch:
        feed: Batch = {}
        for v in [*self.inputs, *self.targets]:
            if v.name not in batch:
                raise DataError(f"the batch has no column {v.name!r}; it has {sorted(batch)}. Rename or add it.")
            array = np.asarray(batch[v.name])
            wanted = v.dtype.numpy
            if array.dtype != wanted:
                if array.dtype.kind not in "fiub" or (array.dtype.kind == "f" and not v.dtype.is_float):
                    raise DataError(f"column {v.name!r} is {array.dtype}, the model takes {v.dtype.name}. Convert it.")
                array = array.astype(wanted)
            if v.dims is not None and array.ndim == len(v.dims) + 1 and array.shape[-1] == 1:
                array = array[..., 0]
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                where = int(np.argmax(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))) if array.ndim else 0
                raise DataError(
                    f"column {v.name!r} holds a value that is not finite (example {where} of the batch). Clean the data."
                )
            feed[v.name] = array
        self._check_labels(feed)
        return feed

    def _check_labels(self, feed: Batch) -> None:
        for term, output in zip(self.terms, self.outputs, strict=True):
            if term.loss != "cross_entropy" or output.dims is None or not isinstance(output.dims[1], int):
                continue
            name, classes = term.target or "target", output.dims[1]
            labels = feed[name]
            wrong = labels[(labels != -100) & ((labels < 0) | (labels >= classes))]
            if wrong.size:
                raise DataError(
                    f"column {name!r} holds the label {int(wrong[0])}; {output.name} has the classes 0 to {classes - 1}."
                )

    def _explain_loss(self, feed: Batch, loss: float) -> str:
        """Step, batch and the first operator whose result is not finite"""
        text = f"the loss is {loss} at step {self.step_number + 1} (epoch {self.epoch + 1}, batch {self.batch + 1})"
        for op in self.evaluation.global_block().ops:
            floats = [v for v in op.outputs if v is not None and v.is_float]
            if not floats:
                continue
            for v, value in zip(floats, self.executor.run(self.evaluation, feed, floats), strict=True):
                if not np.isfinite(value).all():
                    return f"{text}; the first value that is not finite is {v.name}, computed by {op}. Lower the learning rate."
        return f"{text}; the forward pass in evaluation mode is finite. Lower the learning rate or clip the gradients."

    # Whole runs --------------------------------------------------------------------------------------------------------

    def fit(
        self,
        data: Data,
        epochs: int = 1,
        validation: Data | None = None,
        *,
        batch_size: int = 32,
        shuffle: bool = True,
        drop_last: bool = False,
        out: str | Path | None = None,
        resume: bool = False,
        patience: int | None = None,
        checkpoint_every: int | None = None,
        keep: int = 3,
        callbacks: Sequence[Callback] = (),
        prefetch: int = 2,
        verbose: bool = True,
    ) -> list[Row]:
        """Train for some epochs; returns the history, one row per epoch.

        Args:
            data: a dict of arrays by column, an .npz path, a tuple of arrays in the order of ``columns``, an iterable of
                batches, or a function of the epoch number that gives one.
            epochs: how many in all; a resumed run goes on to that number.
            validation: the same for the data that the model is judged by after each epoch.
            batch_size, shuffle, drop_last: for data given as arrays; the order depends on the seed and the epoch only.
            out: folder for history and checkpoints; Ctrl-C writes one there and returns.
            resume: continue the run in ``out``.
            patience: stop after so many epochs without a better validation loss (or training loss without validation).
            checkpoint_every: steps between checkpoints, besides the one after every epoch.
            keep: how many numbered checkpoints stay.
            callbacks: called as ``callback(trainer, row)`` after each epoch; one that returns True ends the run.
            prefetch: batches prepared ahead by a background thread.
            verbose: show a progress line if the output is a terminal.

        Raises:
            DataError: if the data cannot be trained on.
            TrainingError: if the loss stops being a number, the folder is in use, or the checkpoint belongs to another model.
        """
        source = open_data(data, self.columns)
        held_out = None if validation is None else open_data(validation, self.columns)
        folder = None if out is None else RunFolder(out, keep)
        if folder is not None:
            folder.open()
        try:
            if resume:
                self._resume(folder)
            with _Interrupt(self):
                plan = _Plan(epochs, batch_size, shuffle, drop_last, patience, checkpoint_every, callbacks, prefetch, verbose)
                self._run(source, held_out, folder, plan)
        finally:
            if folder is not None:
                folder.close()
        return self.history

    def _run(self, source: Columns | Stream, held_out: Columns | Stream | None, folder: RunFolder | None, plan: _Plan) -> None:
        while self.epoch < plan.epochs and not self._stop:
            rest = source.batches(
                plan.batch_size,
                shuffle=plan.shuffle,
                drop_last=plan.drop_last,
                seed=self.seed,
                epoch=self.epoch,
                skip=self.batch,
            )
            batches = prefetched(rest, plan.prefetch)
            count = source.count(plan.batch_size, plan.drop_last)
            with Progress(f"epoch {self.epoch + 1}/{plan.epochs}", count, self.batch, plan.verbose) as progress:
                if not self._epoch(batches, progress, folder, plan.checkpoint_every):
                    break
                row = self._row(held_out, plan.batch_size)
                progress.finish(row)
            self.history.append(row)
            self.epoch, self.batch, self._sums = self.epoch + 1, 0, _Sums()
            better = self._is_better(row)
            if folder is not None:
                self._write(folder, better)
                folder.write_history(self.history)
            answers = [callback(self, row) for callback in plan.callbacks]
            if any(answers) or self._out_of_patience(plan.patience):
                break
        if self._stop and folder is not None:
            self._write(folder, False)

    def _epoch(self, batches: Iterator[Batch], progress: Progress, folder: RunFolder | None, every: int | None) -> bool:
        """Train on the rest of an epoch; False if interrupted"""
        for batch in batches:
            values = self.step(batch)
            size = len(next(iter(batch.values())))
            self.batch += 1
            self._sums.add(values, size)
            progress.update(size, self._sums.means())
            if self._stop:
                return False
            if folder is not None and every is not None and self.step_number % every == 0:
                self._write(folder, False)
        if self._sums.count == 0:
            raise DataError("the data has no batch in this epoch. Is the iterable used up? Give a list or a function.")
        return True

    def _row(self, held_out: Columns | Stream | None, batch_size: int) -> Row:
        row: Row = {
            "epoch": self.epoch + 1,
            "step": self.step_number,
            "learning_rate": self.optimizer.get_lr(),
            **self._sums.means(),
        }
        if held_out is not None:
            row.update({f"val_{name}": value for name, value in self.evaluate(held_out, batch_size=batch_size).items()})
        return row

    def _judged(self, row: Row) -> float:
        return float(row["val_loss"] if "val_loss" in row else row["loss"])

    def _is_better(self, row: Row) -> bool:
        better = self.best is None or self._judged(row) < self.best
        if better:
            self.best = self._judged(row)
        return better

    def _out_of_patience(self, patience: int | None) -> bool:
        if patience is None or len(self.history) <= patience:
            return False
        judged = [self._judged(row) for row in self.history]
        return len(judged) - 1 - int(np.argmin(judged)) >= patience

    def evaluate(self, data: Data | Columns | Stream, *, batch_size: int = 32) -> Row:
        """Mean loss and metrics in inference mode."""
        sums = _Sums()
        for batch in open_data(data, self.columns).batches(batch_size, shuffle=False):
            feed = self._checked(batch)
            fetch = [self.loss.name, *(v.name for v in self.outputs)]
            loss, *outputs = self.executor.run(self.evaluation, feed, fetch)
            sums.add({"loss": float(loss), **self._measure(outputs, feed)}, len(next(iter(feed.values()))))
        if sums.count == 0:
            raise DataError("there is nothing to evaluate: the data has no batch.")
        return sums.means()

    def predict(self, data: Data | Columns | Stream, *, batch_size: int = 32) -> dict[str, Any]:
        """Outputs of the model in inference mode, by name, for all examples."""
        names = [v.name for v in self.inputs]
        found: dict[str, list[Any]] = {v.name: [] for v in self.inference.outputs}
        for batch in open_data(data, names).batches(batch_size, shuffle=False):
            feed = {v.name: np.asarray(batch[v.name]).astype(v.dtype.numpy) for v in self.inputs}
            for name, value in zip(found, self.executor.run(self.inference, feed, list(found)), strict=True):
                found[name].append(value)
        return {name: np.concatenate(values) for name, values in found.items()}

    # Checkpoints ------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write weights, optimizer state and the position in the run to a safetensors file."""
        schedule = self.optimizer._learning_rate
        position = {
            "epoch": self.epoch,
            "batch": self.batch,
            "step": self.step_number,
            "seed": self.seed,
            "schedule": schedule.last_epoch if isinstance(schedule, LRScheduler) else None,
            "best": self.best,
            "history": self.history,
            "sums": self._sums.totals,
            "examples": self._sums.count,
        }
        save_checkpoint(self.program, path, metadata={"graph": graph_hash(self.program), "position": json.dumps(position)})

    def load(self, path: str | Path) -> None:
        """Continue from a file that ``save`` wrote.

        Raises:
            ModelError: if the file cannot be read.
            TrainingError: if it was written for another model or loss.
        """
        metadata = read_metadata(path)
        if metadata.get("graph") != graph_hash(self.program):
            raise TrainingError(f"{str(path)!r} was written for another model, loss or optimizer. Use the same arguments as then.")
        load_checkpoint(self.program, path)
        position = json.loads(metadata["position"])
        self.epoch, self.batch, self.step_number = position["epoch"], position["batch"], position["step"]
        self.seed, self.best, self.history = position["seed"], position["best"], position["history"]
        self._sums = _Sums(position["sums"], position["examples"])
        if isinstance(self.optimizer._learning_rate, LRScheduler) and position["schedule"] is not None:
            self.optimizer._learning_rate.step(position["schedule"])

    def _resume(self, folder: RunFolder | None) -> None:
        if folder is None:
            raise ArgumentError("resume=True needs out=, the folder of the run.")
        last = folder.path / LAST
        if not last.is_file():
            raise TrainingError(f"there is no {LAST} in {str(folder.path)!r}, so nothing to resume. Start without resume.")
        self.load(last)

    def _write(self, folder: RunFolder, better: bool) -> None:
        path = folder.checkpoint(self.step_number)
        self.save(path)
        folder.publish(path, LAST)
        if better:
            folder.publish(path, BEST)
        folder.drop_old()


@dataclass(frozen=True)
class _Plan:
    """How to run; see ``Trainer.fit``."""

    epochs: int
    batch_size: int
    shuffle: bool
    drop_last: bool
    patience: int | None
    checkpoint_every: int | None
    callbacks: Sequence[Callback]
    prefetch: int
    verbose: bool


class _Sums:
    """Means over the examples seen so far."""

    def __init__(self, totals: dict[str, float] | None = None, count: int = 0) -> None:
        self.totals = dict(totals or {})
        self.count = count

    def add(self, values: Row, examples: int) -> None:
        for name, value in values.items():
            self.totals[name] = self.totals.get(name, 0.0) + value * examples
        self.count += examples

    def means(self) -> Row:
        return {name: total / self.count for name, total in self.totals.items()}


class _Interrupt:
    """While it is active, Ctrl-C ends the run after the present step; a second one at once."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.active = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> None:
        self.trainer._stop = False
        if self.active:
            self.previous = signal.signal(signal.SIGINT, self._stop)

    def _stop(self, number: int, frame: Any) -> None:
        if self.trainer._stop:
            raise KeyboardInterrupt
        self.trainer._stop = True

    def __exit__(self, *error: Any) -> None:
        if self.active:
            signal.signal(signal.SIGINT, self.previous)


def _terms(loss: Loss, target: str) -> list[Term]:
    if isinstance(loss, Term):
        return [loss]
    if isinstance(loss, str) or callable(loss):
        return [Term(loss, target=target)]
    terms = list(loss)
    if not all(isinstance(term, Term) for term in terms):
        raise ArgumentError("a loss of several terms is a list of Term objects.")
    return terms


def _accumulating(program: Program, pairs: list[tuple[Variable, Variable]], optimizer: Any, count: int) -> Program:
    """Let ``program`` add gradients up; returns the program that applies their mean and starts anew."""
    apply = Program()
    apply.scope = program.active_scope()
    block = apply.global_block()
    twins: list[tuple[Variable, Variable]] = []
    for p, g in pairs:
        shape = p.static_shape
        if shape is None or not isinstance(p, Parameter):
            raise ArgumentError(f"gradients of {p.name} cannot be added up: its shape is unknown.")
        total = program.create_global_var(f"{p.name}@ACCUMULATED", np.zeros(shape, p.dtype.numpy))
        program.updates[total] = program.global_block().build.Add(total, g)
        twin = block.create_parameter(p.name, shape, p.dtype, p.trainable, Tensor.of(p.get_value()))
        twin.optimize_attr, twin.regularizer, twin.need_clip = p.optimize_attr, p.regularizer, p.need_clip
        held = apply.create_global_var(total.name, np.zeros(shape, p.dtype.numpy))
        twins.append((twin, block.build.Mul(held, 1.0 / count)))
        apply.updates[held] = block.build.Mul(held, 0.0)
    optimizer.apply_gradients(twins)
    program.version += 1
    return apply
