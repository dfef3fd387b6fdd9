"""Trainer: from a model file and arrays to a trained model; a resumed run is bitwise the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from onnxgrad import state
from onnxgrad.core.autodiff.api import Checkpoints
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.defaults import program_guard
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.sizes import SizesGiven
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import split_statistics
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import ArgumentError, DataError, TrainingError
from onnxgrad.optimizer.average import ExponentialMovingAverage
from onnxgrad.optimizer.clip import ClipGradByGlobalNorm
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.training.accumulation import accumulating
from onnxgrad.training.adapters import save_adapters
from onnxgrad.training.batch_norm import prepare_batch_norm
from onnxgrad.training.callbacks import Callback
from onnxgrad.training.checkpoint import check_tensors, graph_hash, save_checkpoint, set_tensors
from onnxgrad.training.data import Batch, Columns, Data, Stream, open_data
from onnxgrad.training.diagnose import bad_loss, bad_value, bad_weight
from onnxgrad.training.feed import check_labels, checked_batch, doubted_logits, output_shapes
from onnxgrad.training.fingerprints import Fingerprints, check_unchanged, fingerprints_of
from onnxgrad.training.folder import RunFolder
from onnxgrad.training.inference import save_inference
from onnxgrad.training.inputs import Following
from onnxgrad.training.loop import Loop
from onnxgrad.training.loss_scale import LossScale
from onnxgrad.training.losses import Term, as_terms, attach
from onnxgrad.training.metrics import classes_second, metric_named
from onnxgrad.training.optimizers import make_optimizer
from onnxgrad.training.position import Position, check_position, check_schedule, position_of
from onnxgrad.training.quantization import prepare_quantized
from onnxgrad.training.run import Interrupt, Means, Plan, Row
from onnxgrad.training.schedules import planned
from onnxgrad.training.selection import choose_trainable, kept_tables
from onnxgrad.training.steps import TrainingSteps
from onnxgrad.training.tensor_file import damaged, read_tensors
from onnxgrad.training.ties import find_ties

__all__ = ["Trainer"]

Loss: TypeAlias = "str | Callable[..., Variable] | Term | Sequence[Term]"
AnyCallback: TypeAlias = "Callback | Callable[[Trainer, Row], Any]"


class Trainer(TrainingSteps):
    """Trains a model with stock onnxruntime.

    Args:
        model: path of an .onnx file, its bytes, a message, or a Program without a loss, which the Trainer then appends to.
        loss: a name (``cross_entropy``, ``causal_lm``, ``bce_with_logits``, ``mse``, ``l1``, ``smooth_l1``, ``kl``, ``cosine``,
            ``triplet``, ``ctc``), a function ``(output, target) -> Variable``, a ``Term``, or several that are added up.
        target: name of the data column with the targets, for a loss given by name or function; None for ``target``, and for
            ``labels`` of ``causal_lm``, which are the words themselves where the data lacks them.
        optimizer: a name such as ``"adamw"``, or an Optimizer.
        learning_rate: a number or a scheduler, which moves on after every update; for an optimizer given by name.
        schedule: ``constant``, ``cosine`` or ``linear``: how a learning rate given as a number goes on until the run ends.
        warmup: updates in which the learning rate rises first.
        weight_decay: of the optimizer, where it has one.
        trainable: names or patterns of the parameters to train; None for all that are trainable, which tables that an exporter
            computed (rotary angles, positions, masks, initial states) are not: ``"*"`` trains them too. ``remarks`` names them.
        freeze: names or patterns of parameters to leave as they are.
        metrics: names (``accuracy``, ``top5``, ``mae``, ``mse``) or functions ``(output, target) -> values``. ``accuracy`` compares
            a single score with zero, and with one half where it comes from Sigmoid.
        clip_norm: limit of the global gradient norm.
        accumulate: micro-batches whose mean gradient makes one update.
        loss_scale: first factor of the loss, halved when gradients overflow; None for 32768 where the file has float16 weights,
            0 for none. A step that overflows is left out, and of an accumulated update the micro-batch.
        ema: decay of a moving average of the weights, which evaluation, prediction and export then use.
        batch_norm: ``"frozen"`` to normalise by the statistics of the file, ``"train"`` to normalise by batch and replace them,
            ``"insert"`` to put back what an exporter folded, with statistics of ``sample``. None for ``"frozen"`` where the file
            holds statistics, which is right for small data; with some 10,000 examples and batches of 16 and more, ``"train"``
            adapts better. ``remarks`` says what was chosen.
        sample: inputs, as for ``predict``, for ``batch_norm="insert"``.
        quantized: of a file with integer weights in QDQ form: ``"learned"`` to train them, and all scales, as float numbers that
            are rounded in each step and in the export; ``"fixed"`` to leave the scales; ``"integers"`` for weights of products on
            integers too; ``"frozen"`` for float weights alone. None for ``"learned"``, or ``"frozen"`` beside LoRA.
        seed: of the order of the data and of dropout.
        checkpoints: tensors to keep, or ``"auto"``; what lies between is recomputed in the backward pass, which takes less
            memory and more time.
        memory_budget: bytes that the results and gradients of a step may take; as little as possible is recomputed.
        sizes: of unknown dimensions, for these two: see ``append_backward``. ``{"batch": 64}`` is often enough.
        memory: ``"low"`` to hold one copy of weights and optimizer state instead of two, ``"auto"`` where that saves much, None for
            two: see ``Executor``.
        place: ``CPUPlace()``, ``CUDAPlace(i)`` or ``OpenVINOPlace()``.
        threads: threads within an operator; None for onnxruntime's choice.

    Raises:
        ModelError: if the model cannot be read.
        ArgumentError: if an argument does not fit the model.
        UnknownName: if a pattern fits no parameter, or the model has no such output.
        UnsupportedGradient: if an operator on the path has no gradient.

    Example:
        >>> trainer = Trainer("model.onnx", loss="cross_entropy", metrics=["accuracy"])  # doctest: +SKIP
        >>> trainer.fit({"image": images, "target": labels}, epochs=5)  # doctest: +SKIP
        >>> trainer.export("tuned.onnx")  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        *,
        loss: Loss,
        target: str | None = None,
        optimizer: Any = "adamw",
        learning_rate: float | LRScheduler = 1e-3,
        schedule: str = "constant",
        warmup: int = 0,
        weight_decay: float | None = None,
        trainable: str | Sequence[str] | None = None,
        freeze: str | Sequence[str] | None = None,
        metrics: Sequence[Any] = (),
        clip_norm: float | None = None,
        accumulate: int = 1,
        loss_scale: float | None = None,
        ema: float | None = None,
        batch_norm: str | None = None,
        sample: Data | None = None,
        quantized: str | None = None,
        seed: int = 0,
        checkpoints: Checkpoints = None,
        memory_budget: int | None = None,
        sizes: SizesGiven = None,
        memory: str | None = "auto",
        place: Any = None,
        threads: int | None = None,
    ) -> None:
        if accumulate < 1:
            raise ArgumentError(f"accumulate counts micro-batches; it is at least 1, not {accumulate}.")
        self.program = model if isinstance(model, Program) else from_onnx(model)
        self.inputs = list(self.program.inputs)
        self.program.random_seed = seed
        rounded = prepare_quantized(self.program, quantized)
        self.batch_norm, said = prepare_batch_norm(self.program, batch_norm, sample)
        split_statistics(self.program)
        self.inference = self.program.clone(for_test=True)
        self.chosen = choose_trainable(self.program, trainable, freeze)
        for text in find_ties(self.chosen).warnings():
            warnings.warn(text, stacklevel=2)
        self.program.train(self.batch_norm)
        self.terms = as_terms(loss, target)
        for metric in metrics:
            metric_named(metric)  # an unknown one is refused before anything is appended
        clip = None if clip_norm is None else ClipGradByGlobalNorm(float(clip_norm))
        self.optimizer = make_optimizer(optimizer, planned(learning_rate, schedule, warmup), weight_decay, clip)
        self.accumulate, self.seed = accumulate, seed
        # Generated names start anew, so that another Trainer on the same model can read the checkpoints.
        kept: dict[str, Any] = {"checkpoints": checkpoints, "memory_budget": memory_budget, "sizes": sizes}
        with state.fresh_names():
            self._append(loss_scale, ema, kept)
        self.metrics = [metric_named(metric, self.outputs[0]) for metric in metrics]
        self._reads = self.outputs if self.metrics or any(self._doubts) else []
        words = {term.target for term in self.terms if term.loss == "causal_lm"}
        self._following = Following(self.program, [v for v in self.targets if v.name in words])
        self.remarks += [*rounded, *said, *kept_tables(self.program), *self._following.remarks]
        self.executor = Executor(place, threads=threads, memory=memory)
        self._begin()

    # Building --------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.step_number = self.epoch = self.batch = self._begun = 0
        self.history: list[Row] = []
        self.best: float | None = None
        self._means = Means()
        self._shapes: list[tuple[Any, ...]] | None = None
        self._interrupt = Interrupt()
        self._unused: set[str] = set()
        self._files: Fingerprints = {}

    def _append(self, loss_scale: float | None, ema: float | None, kept: dict[str, Any]) -> None:
        self.update: Program | None = None
        self.average: ExponentialMovingAverage | None = None
        attached = attach(self.program, self.terms)
        self.loss, self.targets, self.remarks = attached.loss, attached.targets, attached.remarks
        self.outputs, self._layouts, self._doubts = attached.outputs, attached.layouts, attached.as_logits
        self.evaluation = self.program.clone(for_test=True)
        for p in self.program.all_parameters():
            p.do_model_average = False
        for p in self.chosen:
            p.trainable, p.stop_gradient, p.do_model_average = True, False, True
        scale = LossScale(self.program, self.optimizer, loss_scale)
        self.remarks += scale.remarks
        pairs = self.optimizer.backward(scale.of(self.loss), parameters=self.chosen, **kept)
        if not pairs:
            raise ArgumentError("no parameter that may be trained reaches the loss. Check trainable=, freeze= and the output.")
        self.trained = [p for p, _ in pairs]
        if self.accumulate == 1:
            scale.apply(pairs)
        else:
            self.update = accumulating(self.program, scale.finite(pairs), self.optimizer, self.accumulate)
        if ema is not None:
            self.average = ExponentialMovingAverage(ema)
            with program_guard(self.update or self.program, Program()):
                self.average.update()

    @property
    def columns(self) -> list[str]:
        """Names of the data columns: the model's inputs, then the targets, without those that follow from others."""
        return [v.name for v in [*self.inputs, *self.targets] if v.name not in self._following.names]

    @property
    def schedule(self) -> LRScheduler | None:
        """The scheduler of the learning rate, if there is one."""
        found = self.optimizer._learning_rate
        return found if isinstance(found, LRScheduler) else None

    # One step --------------------------------------------------------------------------------------------------------

    def step(self, batch: dict[str, Any]) -> Row:
        """Train on one batch and return its loss and metrics.

        Raises:
            DataError: if a column is missing, misshapen or not finite, or a label is out of range.
            TrainingError: if the loss is not a number; the message names the first operator that produced it, and the
                weights are those before the step.
        """
        feed = self._checked(batch)
        with self.program.active_scope().held() as put_back:
            loss, *outputs = self.executor.run(self.program, feed, [self.loss, *self._reads])
            if not np.isfinite(loss):
                put_back()
                where = f"step {self.step_number + 1} (epoch {self.epoch + 1}, batch {self.batch + 1})"
                raise TrainingError(f"the loss is {loss} at {where}{bad_loss(self.program, feed, self.executor)}")
        doubts, self._doubts = self._doubts, []
        for text in doubted_logits(outputs, [v.name for v in self.outputs], doubts) if any(doubts) else ():
            warnings.warn(text, stacklevel=3)
        self.step_number += 1
        if self.step_number % self.accumulate == 0:
            if self.update is not None:
                self.executor.run(self.update)
            if self.schedule is not None and not self.schedule.steps_by_itself:
                self.schedule.step()
        return {"loss": float(loss), **self._measure(outputs, feed)}

    def _measure(self, outputs: list[Any], feed: Batch) -> Row:
        if not self.metrics:
            return {}
        y, target = classes_second(outputs[0], feed[self.terms[0].target], self.terms[0].loss, self._layouts[0])
        return {label: float(np.mean(metric(y, target))) for label, metric in self.metrics}

    def _name_unused(self, names: Iterable[str]) -> None:
        """Say, once, which columns of the data nothing reads"""
        found = sorted(set(names) - self._unused)
        self._unused.update(found)
        if found:
            said = f"nothing reads the data's {', '.join(map(repr, found))}: the columns of model and loss are {self.columns}"
            warnings.warn(f"{said}. Leave out what is not used, or rename it.", stacklevel=3)

    def _checked(self, batch: dict[str, Any]) -> Batch:
        self._name_unused(batch.keys() - {*self.columns, *self._following.read})
        feed = checked_batch(self._following.complete(batch), [*self.inputs, *self.targets])
        if self._shapes is None:
            self._shapes = output_shapes(self.terms, self._layouts, self.outputs, feed, self._evaluated)
        check_labels(feed, self.terms, self._shapes)
        return feed

    def _open(self, data: Data | Columns | Stream) -> Columns | Stream:
        return open_data(data, self.columns, self._following.names)

    def _evaluated(self, name: str, feed: Batch) -> Any:
        (value,) = self.executor.run(self.evaluation, feed, [name])
        return value

    # Whole runs ------------------------------------------------------------------------------------------------------

    def fit(
        self,
        data: Data,
        epochs: int | None = None,
        validation: Data | None = None,
        *,
        total_epochs: int | None = None,
        batch_size: int = 32,
        shuffle: bool = True,
        drop_last: bool = False,
        out: str | Path | RunFolder | None = None,
        resume: bool = False,
        patience: int | None = None,
        checkpoint_every: int | None = None,
        keep: int = 3,
        callbacks: Sequence[AnyCallback] = (),
        prefetch: int = 2,
        curves: bool = False,
        verbose: bool | str = True,
        accept_changed_data: bool = False,
    ) -> list[Row]:
        """Train for some epochs; returns the history, one row per epoch.

        Args:
            data: a dict of arrays by column, an .npz path, a tuple of arrays in the order of ``columns``, an iterable of
                batches, or a function of the epoch number that gives one.
            epochs: how many more, 1 unless ``total_epochs`` is given. A second call goes on where the first one ended; a resumed
                run finishes the call that it resumes.
            total_epochs: instead of ``epochs``: how many in all, counted from the first call.
            validation: the same for the data that the model is judged by after each epoch.
            batch_size, shuffle, drop_last: for data given as arrays; the order depends on the seed and the epoch only.
            out: folder for history and checkpoints; Ctrl-C writes one there and returns.
            resume: continue the run in ``out``.
            patience: stop after so many epochs without a better validation loss (or training loss without validation).
            checkpoint_every: steps between checkpoints, besides the one after every epoch.
            keep: how many numbered checkpoints stay.
            callbacks: ``Callback`` objects, or functions that are called as ``function(trainer, row)`` after each epoch; one that
                returns True ends the run.
            prefetch: batches prepared ahead by a background thread.
            curves: draw the history into ``curves.png`` in ``out`` after each epoch.
            verbose: show a progress line on a terminal, and elsewhere a line whenever two seconds have passed; ``"json"`` for lines
                of JSON on stdout instead, False for nothing.
            accept_changed_data: resume although a data file, given by its path, is not what the run was trained on.

        Raises:
            DataError: if the data cannot be trained on.
            TrainingError: if the loss stops being a number, the folder is in use or cannot be written, or the checkpoint belongs to
                another model or other data files.
        """
        if epochs is not None and total_epochs is not None:
            raise ArgumentError("epochs says how many more, total_epochs how many in all. Give one of them.")
        count = 1 if epochs is None and total_epochs is None else epochs if total_epochs is None else total_epochs
        if batch_size < 1 or count is None or count < 0:
            raise ArgumentError(f"batch_size is at least 1 and epochs at least 0, not {batch_size} and {count}.")
        source = self._open(data)
        held_out = None if validation is None else self._open(validation)
        self._name_unused([*source.unused, *(() if held_out is None else held_out.unused)])
        if out is None and resume:
            raise ArgumentError("resume=True needs out=, the folder of the run.")
        files = fingerprints_of(data=data, validation=validation)
        with nullcontext(out) if out is None or isinstance(out, RunFolder) else RunFolder(out, keep) as folder:
            if folder is not None and resume:
                self._load(folder.last(), source.count(batch_size, drop_last), {} if accept_changed_data else files)
                if self.history:
                    folder.write_history(self.history)
            else:
                self._begun = self.epoch
                if folder is not None:
                    folder.check_new()
            self._files = files
            goal = count if total_epochs is not None else self._begun + count
            plan = Plan(goal, batch_size, shuffle, drop_last, patience, checkpoint_every, callbacks, prefetch, verbose, curves)
            if count and self.epoch >= goal:
                said = f"nothing is trained: {self.epoch} epochs are done, and {goal} in all were asked for"
                warnings.warn(f"{said}. Give a larger total_epochs (--epochs).", stacklevel=2)
            Loop(self, source, held_out, folder, plan).run()
        return self.history

    # Using the model ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """With the averages of the weights instead of the weights, if there are any"""
        if self.average is None or self.step_number < self.accumulate:
            yield
            return
        with self.average.apply():
            yield

    def evaluate(self, data: Data | Columns | Stream, *, batch_size: int = 32) -> Row:
        """Mean loss and metrics in inference mode.

        Raises:
            DataError: if the data does not fit the model.
        """
        means = Means()
        fetch = [self.loss.name, *(v.name for v in self._reads)]
        with self._averaged():
            opened = self._open(data)
            self._name_unused(opened.unused)
            for batch in opened.batches(batch_size, shuffle=False):
                feed = self._checked(batch)
                loss, *outputs = self.executor.run(self.evaluation, feed, fetch)
                means.add({"loss": float(loss), **self._measure(outputs, feed)}, len(next(iter(feed.values()))))
        if means.count == 0:
            raise DataError("there is nothing to evaluate: the data has no batch.")
        return means.now()

    def predict(self, data: Data | Columns | Stream, *, batch_size: int = 32) -> dict[str, Any]:
        """Outputs of the model in inference mode, by name, for all examples; the data needs no targets.

        Raises:
            DataError: if the data does not fit the model.
        """
        found: dict[str, list[Any]] = {v.name: [] for v in self.inference.outputs}
        with self._averaged():
            targets = {v.name for v in self.targets}
            opened = open_data(data, [name for name in self.columns if name not in targets], self._following.names)
            for batch in opened.batches(batch_size, shuffle=False):
                feed = checked_batch(self._following.complete(batch), self.inputs)
                for name, value in zip(found, self.executor.run(self.inference, feed, list(found)), strict=True):
                    found[name].append(value)
        if not all(found.values()):
            raise DataError("there is nothing to predict: the data has no batch.")
        return {name: np.concatenate(values) for name, values in found.items()}

    def export(self, path: str | Path, fold: bool = False, observe: Data | None = None, quantised: str = "branch") -> list[str]:
        """Write the model for inference with its present weights (the averages where ``ema`` is on) to an .onnx file.

        Names, metadata and dynamic dimensions are those of the model that was loaded. LoRA branches are added to their
        weights, Dropout that ``insert_dropout`` put in is left out, and BatchNormalization that ``insert_batch_norm`` put in is
        folded into its layer.

        Args:
            path: file to write.
            fold: also fold the model's own BatchNormalization, where it follows a Conv, ConvTranspose or Gemm.
            observe: inputs, as for ``predict``: the scales of a QDQ file are set by the trained weights and by what these inputs
                make of activations, instead of by what was learned.
            quantised: what becomes of LoRA branches beside quantised weights: see ``merge_lora``.

        Returns:
            Lines on what was rounded.
        """
        with self._averaged():
            return save_inference(self.inference, path, fold, observe, quantised)

    def save_adapters(self, path: str | Path) -> None:
        """Write the LoRA branches alone (their averages where ``ema`` is on): see ``training.save_adapters``."""
        with self._averaged():
            save_adapters(self.inference, path)

    # Checkpoints -------------------------------------------------------------------------------------------------------

    @property
    def programs(self) -> list[Program]:
        """The programs that hold the state: the step, and with accumulation the update."""
        return [self.program] if self.update is None else [self.program, self.update]

    def save(self, path: str | Path) -> None:
        """Write weights, optimizer state and the position in the run to a safetensors file.

        Raises:
            TrainingError: if a weight is not finite, or the file cannot be written; an old file is then untouched.
        """
        weight = bad_weight(self.program)
        if weight is not None:
            raise TrainingError(f"{weight} is not finite after step {self.step_number}. Lower the learning rate or set clip_norm.")
        position = Position(
            epoch=self.epoch,
            begun=self._begun,
            batch=self.batch,
            step=self.step_number,
            seed=self.seed,
            accumulate=self.accumulate,
            schedule=None if self.schedule is None else self.schedule.state_dict(),
            best=self.best,
            history=self.history,
            totals=self._means.totals,
            examples=self._means.count,
            files=self._files,
        )
        save_checkpoint(self.programs, path, metadata={"graph": graph_hash(self.programs), "position": position.to_json()})

    def load(self, path: str | Path) -> None:
        """Continue from a file that ``save`` wrote.

        Raises:
            ModelError: if the file cannot be read, is damaged, or holds a position that no run can reach.
            TrainingError: if it was written for another model, loss, optimizer or seed. Nothing is changed in either case.
        """
        self._load(path)

    def _load(self, path: str | Path, batches: int | None = None, files: Fingerprints | None = None) -> None:
        """Look at everything first, then change; an epoch has so many ``batches``, from these ``files``, as far as that is known"""
        found = read_tensors(path)
        if found.metadata.get("graph") != graph_hash(self.programs):
            raise TrainingError(f"{str(path)!r} was written for another model, loss or optimizer. Use the same arguments as then.")
        position = position_of(found.metadata, path)
        check_unchanged(position.files, files or {})
        check_position(position, path, batches, seed=self.seed, accumulate=self.accumulate)
        check_schedule(self.schedule, position, path)
        check_tensors(self.programs, found)
        weight = bad_value(self.program, found.arrays)
        if weight is not None:
            raise damaged(path, f"the tensor {weight!r} is not finite, which no Trainer writes")
        set_tensors(self.programs, found)
        self.epoch, self.batch, self.step_number = position.epoch, position.batch, position.step
        self.best, self.history, self._begun = position.best, position.history, position.begun
        self._means, self._files = Means(position.totals, position.examples), position.files
        if self.schedule is not None and position.schedule is not None:
            self.schedule.set_state_dict(position.schedule)
