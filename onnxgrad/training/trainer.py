"""Trainer: from a model file and arrays to a trained model; a resumed run is bitwise the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from onnx import ModelProto

from onnxgrad.core.autodiff.api import Checkpoints
from onnxgrad.core.graph.manager import run_program_pass
from onnxgrad.core.interop.onnx_export import save_onnx
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.defaults import program_guard
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.plan import LossTerm
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.sizes import SizesGiven, bytes_of
from onnxgrad.core.ir.summary import Summary, summarize
from onnxgrad.core.ir.transaction import transaction
from onnxgrad.core.ir.traverse import needed_operators
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.demand import demand
from onnxgrad.core.passes.modes import split_statistics
from onnxgrad.core.runtime.agreement import first_difference
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.runtime.places import CPUPlace, Place
from onnxgrad.core.state.inputs import GivenByName
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.step.gather import Gather
from onnxgrad.core.step.loss_terms import check_from_data, counts_examples, loss_of_part, loss_terms
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.errors import ArgumentError, ArgumentTypeError, DataError, TrainingError
from onnxgrad.internal import state
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.tensor_file import TensorFile, damaged, read_tensors
from onnxgrad.internal.words import DETECTION, LossName, OptimizerName, QuantizedMode, ScheduleName
from onnxgrad.optimizer.average import ExponentialMovingAverage
from onnxgrad.optimizer.lr import LRScheduler, ReduceOnPlateau
from onnxgrad.optimizer.optimizer import Optimizer, Pairs
from onnxgrad.training.accumulation import add_up
from onnxgrad.training.data.by_rank import reading_together
from onnxgrad.training.data.feed import doubted_logits
from onnxgrad.training.data.fingerprints import Fingerprints, check_unchanged, fingerprints_of
from onnxgrad.training.data.kinds.groups import OF_PAIRS
from onnxgrad.training.data.kinds.placed import BoxesColumn
from onnxgrad.training.data.open_batch import open_batch
from onnxgrad.training.data.opening import for_validation, open_both, open_data
from onnxgrad.training.data.record import DataRecord, record_in, record_of, set_record
from onnxgrad.training.data.rows import Data, Rows, Stream
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.data.splitting import class_counts
from onnxgrad.training.detection.heads import freeze_decoding
from onnxgrad.training.detection.objective import DetectionLoss
from onnxgrad.training.evaluation import evaluated, opened_inputs, predicted
from onnxgrad.training.inference import as_inference
from onnxgrad.training.losses.distillation import Distillation, Teacher
from onnxgrad.training.losses.loss_scale import LossScale
from onnxgrad.training.losses.terms import Term, as_terms, target_columns, targets_to_json, typed_by_json
from onnxgrad.training.metrics.batch import check_metrics
from onnxgrad.training.model import Model, class_column, spec_before_loss
from onnxgrad.training.options import EngineOptions, RecomputeOptions, UpdateOptions, WeightOptions
from onnxgrad.training.quantized.frozen import compute_in_integers
from onnxgrad.training.quantized.learned import prepare_quantized
from onnxgrad.training.ranks.ranks import EpochBatch, examples_of, ranks_of
from onnxgrad.training.ranks.subjects import fit_subjects, trainer_subjects
from onnxgrad.training.report.diagnose import bad_loss, bad_value, bad_weight
from onnxgrad.training.report.gradient_norms import append_norms
from onnxgrad.training.run.callbacks import Callback
from onnxgrad.training.run.checkpoint import (
    check_tensors,
    graph_hash,
    save_checkpoint,
    set_tensors,
)
from onnxgrad.training.run.folder import RunFolder
from onnxgrad.training.run.loop import TrainingLoop
from onnxgrad.training.run.place_choice import (
    NAMES,
    Timing,
    choice,
    described,
    described_overlap,
    installed_places,
    keeps_overlap,
    measured,
    rehearsed,
    timed,
)
from onnxgrad.training.run.plan import FitPlan, Interrupt, Row, check_fit_options
from onnxgrad.training.run.position import Position, check_position, check_schedule, position_of
from onnxgrad.training.run.state import RunState
from onnxgrad.training.steps import TrainingSteps
from onnxgrad.training.surgery.adapters import save_adapters
from onnxgrad.training.surgery.batch_norm import prepare_batch_norm
from onnxgrad.training.surgery.selection import choose_trainable, kept_tables
from onnxgrad.training.surgery.ties import find_ties

__all__ = ["Trainer"]

Loss: TypeAlias = "LossName | Literal['detection'] | Callable[[Variable, Variable], Variable] | Term | Sequence[Term]"
Metric: TypeAlias = "str | Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any]], ArrayLike]"
AnyCallback: TypeAlias = "Callback | Callable[[Trainer, Row], object]"


class Trainer(TrainingSteps):
    """Trains a model with stock onnxruntime.

    Args:
        model: path of an .onnx file, its bytes, a message, or a Program without a loss, which the Trainer then appends to.
        loss: a name (``cross_entropy``, ``causal_lm``, ``bce_with_logits``, ``mse``, ``l1``, ``smooth_l1``, ``kl``, ``cosine``,
            ``triplet``, ``info_nce``, ``cosine_pairs``, ``ctc``, ``focal``, of pairs of answers ``dpo`` and
            ``bradley_terry``, and of masks ``dice`` and ``boundary``), a function
            ``(output, target) -> Variable``, a ``Term``, or several that are added up; or ``detection``, for a detector of a kind
            that is recognised (``onnxgrad info`` says which), with boxes as targets. A function gets its target in the type and
            shape of the data, and is called when the first data is seen (see ``sample``).
        target: name of the data column with the targets, for a loss given by name or function; None for ``target``, and for
            ``labels`` of ``causal_lm``, which are the tokens themselves where the data lacks them; for ``boxes`` of ``detection``,
            float32 [batch, objects, 5]: class, left, top, right, bottom in pixels of the model's input, filled up by classes of -1,
            with a crowd of class k as -2 - k.
        optimizer: a name such as ``"adamw"``, or an Optimizer.
        learning_rate: a number or a scheduler, which moves on after every update; for an optimizer given by name.
        schedule: ``constant``, ``cosine``, ``linear``, ``one-cycle``, ``step`` or ``plateau``: how a learning rate given as a
            number goes on until the run ends (see ``Planned``); ``plateau`` takes a tenth after 5 epochs without a better one.
        warmup: updates in which the learning rate rises first.
        weight_decay: of the optimizer, where it has one.
        trainable: names or patterns of the parameters to train; None for all that are trainable, which tables that an exporter
            computed (rotary angles, positions, masks, initial states) are not: ``"*"`` trains them too. ``remarks`` names them.
        freeze: names or patterns of parameters to leave as they are.
        metrics: names or functions ``(output, target) -> values`` of the first term. Means over examples: ``accuracy`` (a single
            score is compared with zero, and with one half where it comes from Sigmoid), ``top5`` or another number, ``mae``,
            ``mse``. Of all examples together, in evaluation alone: ``precision``, ``recall``, ``f1``, ``iou``, ``dice`` (of class 1
            of two, else the mean over classes that occur), ``mean_iou`` (over all classes that occur), ``auc``,
            ``average_precision`` (extra ``metrics``), ``rmse``, ``r2``, ``perplexity``; of ``detection`` ``map50`` and ``map``,
            COCO's mean average precision at an overlap of 0.5, and over 0.5 to 0.95, which are reported unless others are
            named; and of the extra ``metrics`` ``cer``, and ``wer:N`` where the label N stands between words. Of all
            embeddings: ``recall@K`` and ``mrr`` (of each row that has others of its group, the place of the nearest of these among
            all rows), ``spearman`` (of the cosines of pairs and their scores, or of one output and its target).
        clip_norm, clip_value: limit of the global gradient norm, or of each element of a gradient.
        groups: by pattern of parameters what differs for these: ``learning_rate`` as a factor, ``weight_decay``; the first pattern
            that fits counts. ``{"head.*": {"learning_rate": 10}}``.
        accumulate: micro-batches whose mean gradient makes one update.
        loss_scale: first factor of the loss, halved when gradients overflow; None for 32768 where the file has float16 weights,
            0 for none. A step that overflows is left out, and of an accumulated update the micro-batch.
        ema: decay of a moving average of the weights, which evaluation, prediction and export then use.
        teacher: a model, or a ``Distillation``, whose answers to the same inputs are targets beside the labels.
        batch_norm: ``"frozen"`` to normalise by the statistics of the file, ``"train"`` to normalise by batch and replace them,
            ``"insert"`` to put back what an exporter folded, with statistics of ``sample``. None for ``"frozen"`` where the file
            holds statistics, which is right for small data; with some 10,000 examples and batches of 16 and more, ``"train"``
            adapts better. ``remarks`` says what was chosen.
        sample: inputs, as for ``predict``, for ``batch_norm="insert"``; with a target column, a loss that is a function gets its
            target in the type and shape of that, and is called at once rather than when ``fit``, ``step``, ``evaluate`` or ``load``
            say what the data is.
        quantized: of a file with integer weights in QDQ form: ``"learned"`` to train them, and all scales, as float numbers that
            are rounded in each step and in the export; ``"fixed"`` to leave the scales; ``"integers"`` for weights of products on
            integers too; ``"frozen"`` for float weights alone. None for ``"learned"``, or ``"frozen"`` beside LoRA.
        frozen: ``"int8"`` to compute the forward products of layers that are not trained in 8-bit integers: on processors with
            VNNI 0.2 to 0.4 of their time, results about 1 % off. Gradients pass the float weights; evaluation and exports use them.
        seed: of the order of the data and of dropout.
        checkpoints: tensors to keep, or ``"auto"``; what lies between is recomputed in the backward pass, which takes less
            memory and more time.
        memory_budget: bytes that the results and gradients of a step may take; as little as possible is recomputed.
        sizes: of unknown dimensions, for these two: see ``append_backward``. ``{"batch": 64}`` is often enough.
        memory: ``"low"`` to hold one copy of weights and optimizer state instead of two, ``"auto"`` where that saves much, None for
            two: see ``Executor``.
        precision: ``"fast"`` for forms of convolutions that round more where they take less time: see ``Executor``.
        place: ``CPUPlace()``, ``CUDAPlace(i)`` or ``OpenVINOPlace()``; or ``"auto"`` to time the first batch on each provider that
            is installed (four steps, which are undone) and keep the fastest, unless its losses are more than 0.001 off those of the
            CPU. ``remarks`` says what was kept, and checkpoints, so that a resumed run takes the same; ranks take that of rank 0.
        threads: threads within an operator; None for onnxruntime's choice.
        distributed: True, or a ``distributed.Strategy``, where several ranks train together (``mpiexec -n 4``): each takes its part
            of every batch, and the run is that of one process. All call the same methods; rank 0 writes files and calls callbacks.

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

    @checked
    def __init__(
        self,
        model: str | Path | bytes | ModelProto | Program,
        *,
        loss: Loss,
        target: str | None = None,
        optimizer: OptimizerName | Optimizer = "adamw",
        learning_rate: float | LRScheduler = 1e-3,
        schedule: ScheduleName = "constant",
        warmup: int = 0,
        weight_decay: float | None = None,
        trainable: str | Sequence[str] | None = None,
        freeze: str | Sequence[str] | None = None,
        metrics: Sequence[Metric] = (),
        clip_norm: float | None = None,
        clip_value: float | None = None,
        groups: Mapping[str, Mapping[str, float]] | None = None,
        accumulate: int = 1,
        loss_scale: float | None = None,
        ema: float | None = None,
        teacher: Distillation | str | Path | bytes | ModelProto | Program | None = None,
        batch_norm: Literal["frozen", "train", "insert"] | None = None,
        sample: Data | None = None,
        quantized: QuantizedMode | None = None,
        frozen: Literal["int8"] | None = None,
        seed: int = 0,
        checkpoints: Checkpoints = None,
        memory_budget: int | None = None,
        sizes: SizesGiven = None,
        memory: Literal["auto", "low"] | None = "auto",
        precision: Literal["full", "fast"] = "full",
        place: Place | Literal["auto"] | None = None,
        threads: int | None = None,
        distributed: bool | Strategy | None = None,
    ) -> None:
        weights = WeightOptions(trainable, freeze, batch_norm, sample, quantized, frozen)
        updates = UpdateOptions(
            optimizer, learning_rate, schedule, warmup, weight_decay, clip_norm, clip_value, groups, accumulate, loss_scale, ema
        )
        recompute = RecomputeOptions(checkpoints, memory_budget, sizes)
        engine = EngineOptions(place, threads, memory, precision)
        first_place = engine.first_place
        self.ranks = ranks_of(distributed)
        self.accumulate, self.seed = accumulate, seed
        self.program = model if isinstance(model, Program) else from_onnx(model)
        notes = self._prepare(weights)
        self.ranks.prepare(self.program, checkpoints=checkpoints, memory_budget=memory_budget, frozen=frozen)
        self.program.train(self.batch_norm)
        detection = DetectionLoss(self.program, target, Executor(first_place, threads=threads)) if loss == DETECTION else None
        self.terms = [term.typed_by(sample) for term in as_terms(loss if detection is None else detection.term, target)]
        taught = None if teacher is None else Teacher(teacher, self.program, self.terms, first_place, threads)
        if taught is not None:
            self.terms = [*self.terms, taught.term]
        metrics = metrics or (() if detection is None else detection.metrics)
        check_metrics(metrics)  # an unknown one is refused before anything is appended
        self.optimizer = updates.make_optimizer(self.chosen)
        self.executor = engine.make_executor(self.ranks.threads(threads))
        self._engine = engine
        self._chosen_place: str | None = None
        """The name of the provider that the first step has chosen, with place='auto'."""
        self._overlaps: bool | None = None
        """Whether ranks keep the overlap that was asked for, once the first step has chosen."""
        self.remarks: list[str] = notes
        self._options = (taught, metrics, detection, updates, recompute, frozen)
        if not self._awaits_data:
            self._attach()
        self._state = RunState()
        self.interrupt = Interrupt(self.ranks.are_many)
        self.gradient_norms: Any = None
        self._norms: Variable | None = None
        self._is_compared = False
        self.step_weights: dict[str, float] = {}
        """What the loss and the metrics of the last step count, where these are not its examples."""
        if detection is not None and detection.column not in self.record.columns and detection.classes is not None:
            self.take_record(self.record.merged(DataRecord({detection.column: BoxesColumn((), detection.classes)})))

    # Building --------------------------------------------------------------------------------------------------------

    def _prepare(self, weights: WeightOptions) -> list[str]:
        """Give the program the forms that train, and choose what trains; return lines on what was decided"""
        opened = open_batch(self.program, several=self.ranks.are_many)
        self.inputs = list(self.program.inputs)
        self.program.random_seed = self.seed
        rounded = prepare_quantized(self.program, weights.quantized)
        self.batch_norm, notes = prepare_batch_norm(self.program, weights.batch_norm, weights.sample)
        split_statistics(self.program)
        freeze_decoding(self.program)
        self.inference = self.program.clone(for_test=True)
        self.chosen = choose_trainable(self.program, weights.trainable, weights.freeze)
        for text in find_ties(self.chosen).warnings():
            warnings.warn(text, stacklevel=3)
        return [*opened, *rounded, *notes]

    @property
    def _awaits_data(self) -> bool:
        """Whether the loss is not attached yet, as the type of a target is not known."""
        return any(term.awaits_data for term in self.terms)

    def _attach_for(self, columns: Any, any_sizes: bool) -> None:
        """Attach a loss that has waited for data, which these columns are; after an error the Trainer waits for other data

        Args:
            columns: arrays by name.
            any_sizes: whether another batch may have other sizes behind the first axis.

        Raises:
            DataError: if the columns lack the target of a function, or it is no number.
        """
        if not self._awaits_data:
            return
        with transaction(self.program, self.optimizer, self):
            self.terms = [term.typed_by(columns, any_sizes) for term in self.terms]
            missing = [term.target for term in self.terms if term.awaits_data]
            if missing:
                raise DataError(f"the batch has no column {missing[0]!r}; it has {sorted(map(str, columns))}. Rename or add it.")
            self._attach()

    def _attach(self) -> None:
        """Append the loss, and whatever follows from it"""
        taught, metrics, detection, updates, recompute, frozen = self._options
        known = self.remarks
        # Generated names start anew, so that another Trainer on the same model can read the checkpoints.
        with state.fresh_names():
            self.model = Model(self.program, self.inference, self.terms, taught, metrics, detection, gets_parts=self.ranks.are_many)
            self._leave_out_unread(recompute)
            self._append(updates, recompute)
        self.remarks += [*known, *kept_tables(self.program), *self.model.derived.remarks]
        self.remarks += compute_in_integers(self.program, frozen, self.trained, self.executor.place)

    def _leave_out_unread(self, recompute: RecomputeOptions) -> None:
        """Let a step compute the positions, rows and channels that the loss and the metrics read, and no others"""
        model, block = self.model, self.program.global_block()
        measured = model.outputs[:1] if model.metrics else []
        named = [] if isinstance(recompute.checkpoints, str) else [*(recompute.checkpoints or ()), *self.ranks.strategy.cuts]
        kept = [v if isinstance(v, Variable) else block.vars[v] for v in named if isinstance(v, Variable) or v in block.vars]
        run_program_pass(self.program, demand([model.loss, *measured, *kept]))
        computed = {v for op in needed_operators(block.ops, [model.loss, *measured]) for v in op.outputs}
        self._whole_outputs = [v for v in model.outputs if v in computed or v.op is None]
        self._reads = model.reads if len(self._whole_outputs) == len(model.outputs) else measured

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say why a Trainer has no model, trained weights, ... yet"""
            if name in _OF_LOSS and "terms" in vars(self):  # which are there unless the constructor failed
                self._check_attached()
            raise AttributeError(f"a Trainer has no attribute {name!r}")

    def _check_attached(self) -> None:
        """Raise TrainingError while the loss waits for data"""
        for term in self.terms:
            if term.awaits_data:
                raise TrainingError(
                    f"the loss of {term.target!r} is a function, which is called when the data shows the type and shape of that "
                    "column: fit, step or evaluate first. Or give Trainer(sample=), or Term(dtype=, shape=)."
                )

    def _append(self, updates: UpdateOptions, recompute: RecomputeOptions) -> None:
        """Append the backward pass and the updates of what trains"""
        self.average: ExponentialMovingAverage | None = None
        self._loss_weight: Variable | None = None
        """What the loss is divided by, where that is not the number of examples."""
        self._weighs_whole = False
        """Whether that is a number of the whole batch on each rank."""
        model = self.model
        self.inputs, self.outputs, self.targets, self.loss = model.inputs, model.outputs, model.targets, model.loss
        self.evaluation, self.metrics, self.whole, self.remarks = model.evaluation, model.metrics, model.whole, model.remarks
        for p in self.program.all_parameters():
            p.do_model_average = p in self.program.updates  # a running statistic
        for p in self.chosen:
            p.trainable, p.stop_gradient, p.do_model_average = True, False, True
        scale = LossScale(self.program, self.optimizer, updates.loss_scale, self.accumulate)
        self.remarks += scale.remarks
        terms = self._loss_terms()
        gradients = [self._backward(scale.of(term.value), recompute) for term in terms]
        pairs = [pair for each in gradients for pair in each]
        if not pairs:
            raise ArgumentError("no parameter that may be trained reaches the loss. Check trainable=, freeze= and the output.")
        self.trained = list(dict.fromkeys(p for p, _ in pairs))
        self._gradients, self._scaling = gradients, scale
        if self.accumulate == 1:
            scale.apply(pairs)
        else:
            finite = iter(scale.finite(pairs))
            counted = [list(islice(finite, len(each))) for each in gradients]
            add_up(self.program, terms, counted, self.optimizer, self.accumulate, scale.overflows)
        if updates.ema is not None:
            self.average = ExponentialMovingAverage(updates.ema)
            with program_guard(self.program, Program()):
                self.average.update()
        self.remarks += self.ranks.attach(self.program, self._step_loss, bool(scale.start), self.average)

    def _loss_terms(self) -> list[LossTerm]:
        """What is differentiated: the loss, or of micro-batches and ranks its terms, which parts of a batch count differently"""
        self._step_loss = self.loss
        whole = [LossTerm(self.loss, "mean")]
        has_parts = self.accumulate > 1 or (self.ranks.are_many and self.ranks.strategy.pipeline == 1)
        op = Builder(self.program.global_block(), role=Role.BACKWARD, key="loss_weight")
        if has_parts and self.accumulate == 1:
            return self._terms_of_ranks(op)
        try:
            terms = loss_terms(self.loss, op, of_parts=has_parts)
        except ArgumentError as error:
            if self.accumulate > 1:
                raise self._no_accumulation(error) from error
            return whole
        if self.ranks.strategy.pipeline == 1:
            self._loss_weight = _weight_of(terms)
        if not has_parts:
            return whole
        values = [op.Reshape(term.value, []) for term in terms]
        self._step_loss = values[0] if len(values) == 1 else op.Sum(*values)
        return terms

    def _no_accumulation(self, error: ArgumentError) -> ArgumentError:
        """The error for a loss that cannot be added up over micro-batches, by its name where it is one that compares rows"""
        name = next((term.loss for term in self.terms if term.loss in OF_PAIRS), None)
        if name is None:
            return error
        advice = "Give a larger batch_size (--batch-size) in place of accumulate (--accumulate)"
        return ArgumentError(f"the loss {name} compares rows of the whole batch. {advice}. {error}")

    def _terms_of_ranks(self, op: Builder) -> list[LossTerm]:
        """What ranks differentiate: what their parts of a batch add to its loss, where examples meet that of the whole batch"""
        try:
            of_whole = _weight_of(loss_terms(self.loss, op))
        except ArgumentError:
            of_whole = None
        gather = Gather(self.program, op)
        terms = loss_terms(self.loss, op, of_parts=True, gather=gather)
        self._loss_weight = _weight_of(terms)
        try:
            for term in terms:
                check_from_data(term)
        except ArgumentError:
            if len(terms) > 1:
                raise
            return [LossTerm(self.loss, "mean")]  # gradients of one term are weighed when they are there
        if gather.rows:
            self._loss_weight, self._weighs_whole = None if of_whole is None else gather.whole(of_whole), True
            # Metrics read rows of the whole batch where the model itself lets examples meet.
            self._reads = [gather.own_rows(v) if gather.meets(v) else v for v in self._reads]
            self.remarks.append(gather.remark())
        self._step_loss, weights = loss_of_part(terms, op)
        self.ranks.weigh(weights)
        return [LossTerm(self._step_loss, "sum")]

    def _backward(self, loss: Variable, recompute: RecomputeOptions) -> Pairs:
        """Append the backward pass of a loss, or of a term of it"""
        return self.optimizer.backward(
            loss,
            parameters=self.chosen,
            checkpoints=recompute.checkpoints,
            memory_budget=recompute.memory_budget,
            sizes=recompute.sizes,
        )

    def __repr__(self) -> str:
        losses = " + ".join(term.loss if isinstance(term.loss, str) else "a function" for term in self.terms)
        if self._awaits_data:
            return f"Trainer({losses}, {type(self.optimizer).__name__}; {len(self.chosen)} weights to train; waits for data)"
        done = f"step {self.step_number}, epoch {self.epoch}"
        weights = f"{len(self.trained)} of {len(self.inference.parameters)} weights train"
        return f"Trainer({losses}, {type(self.optimizer).__name__}; {weights}; {done})"

    def __reduce__(self) -> Any:
        advice = "Make another one with the same arguments, and give it a checkpoint: save and load"
        raise ArgumentTypeError(f"a Trainer is neither copied nor pickled: its state lies on a device. {advice}.")

    def _repr_html_(self) -> str | None:
        return None if self._awaits_data else self.summary()._repr_html_()

    def summary(self) -> Summary:
        """Summarise layers, shapes, trained weights and the memory of a step; print it.

        Raises:
            TrainingError: if the loss waits for data (see ``sample``).
        """
        summary = summarize(self.inference, repr(self), [p.name for p in self.trained])
        own = {p.name for p in self.program.parameters}
        state = {v.name: v for v in self.program.list_vars() if v.persistable and v.name not in own}
        summary.memory[2] = (summary.memory[2][0], sum(map(bytes_of, state.values())))
        if self.program.memory_plan is not None:
            summary.memory.append(("activations and gradients at the peak", self.program.memory_plan.peak))
        return summary

    @property
    def columns(self) -> list[str]:
        """Names of the data columns: the model's inputs, then the targets, without inputs that are computed from others."""
        return list(self._spec.names)

    @property
    def state(self) -> RunState:
        """The progress of the run, which belongs to the present weights; ``go_to`` takes a changed copy."""
        self._settle()
        return self._state

    def _settle(self) -> None:
        """See to it that counters and schedules stand where the weights do, if a step was interrupted."""
        scope = self.program.active_scope()
        if not scope.changes:
            scope.finish()

    def go_to(self, state: RunState) -> None:
        """Let the run stand elsewhere: the weights stay.

        Args:
            state: the progress of a run, as a checkpoint holds it.
        """
        self.program.active_scope().follow(self, _state=state)

    @property
    def step_number(self) -> int:
        """Steps taken in all."""
        return self.state.step

    @property
    def epoch(self) -> int:
        """Epochs finished in all."""
        return self.state.epoch

    @property
    def batch(self) -> int:
        """Batches of the present epoch that are done."""
        return self.state.batch

    @property
    def history(self) -> list[Row]:
        """A row for each epoch."""
        return self.state.history

    @property
    def before(self) -> Row | None:
        """The row of epoch 0, the evaluation before the first step; None unless ``fit(before=True)`` evaluated it."""
        return self.state.before

    @property
    def rows(self) -> list[Row]:
        """``before``, where it is known, and ``history``."""
        return [*([] if self.before is None else [self.before]), *self.history]

    @property
    def evaluations(self) -> list[Row]:
        """A row for each evaluation within an epoch."""
        return self.state.evaluations

    @property
    def best(self) -> float | None:
        """The best value of the monitored metric."""
        return self.state.best

    @property
    def schedule(self) -> LRScheduler | None:
        """The scheduler of the learning rate, if there is one."""
        self._settle()
        rate = self.optimizer._learning_rate
        return rate if isinstance(rate, LRScheduler) else None

    # One step --------------------------------------------------------------------------------------------------------

    def step(self, batch: GivenByName) -> Row:
        """Train on one batch and return its loss and metrics.

        Args:
            batch: arrays by column.

        Raises:
            DataError: if a column is missing, misshapen or not finite, or a label is out of range.
            TrainingError: if the loss is not a number; the message names the first operator that produced it, and the
                weights are those before the step. On all ranks, if they differ in the number of the step, the rows of the batch
                that the Trainer cuts, or the learning rate.
        """
        feed, fetches = self._fed(batch)
        examples = examples_of(batch, self.ranks.axes) if isinstance(batch, EpochBatch) else 0
        self._compare_with_file(feed)
        try:
            row, outputs = self.program.active_scope().change(lambda: self._advance(feed, fetches, examples))
        except _NotFinite as error:
            self.ranks.step.collect()
            where = f"step {self.step_number + 1} (epoch {self.epoch + 1}, batch {self.batch + 1})"
            cause = error.cause or bad_loss(self.program, feed, self.executor)
            raise TrainingError(f"the loss is {error.loss} at {where}{cause}") from None
        doubts, self.model.doubts = self.model.doubts, []
        if any(doubts) and len(outputs) < len(doubts):  # of which the step has computed a part
            outputs = self.executor.run(self.evaluation, feed, [v.name for v in self.outputs])
        for text in doubted_logits(outputs, [v.name for v in self.outputs], doubts) if any(doubts) else ():
            warnings.warn(text, stacklevel=3)
        return row

    def _compare_with_file(self, feed: dict[str, Any]) -> None:
        """Before the first step, let one row go through what is trained and through the file, if it has operators of onnxruntime

        Raises:
            TrainingError: naming the first tensor that differs.
        """
        if self._is_compared or self.ranks.are_many:
            return
        self._is_compared = True
        row = self.model.derived.short_row(feed)
        found = first_difference(self.program, self.inference, [v.name for v in self.outputs], row, self.executor)
        if found is not None:
            raise TrainingError(
                f"the training step differs from the file: {found.name!r} differs by {found.share:.0%}, at "
                f"{found.operator}. onnxruntime computes an operator before it otherwise within the step. Write its "
                "operators out, by expand='com.microsoft' (--expand com.microsoft), and report this."
            )

    def _fed(self, batch: GivenByName) -> tuple[dict[str, Any], list[Variable]]:
        """The feed and the fetches of a step, on the place that the first one chooses, with ranks in agreement"""
        self._attach_for(batch, any_sizes=True)
        feed = self.model.feed_of(batch, self.executor)  # type: ignore[arg-type]
        if not self.ranks.has_agreed:
            self.ranks.agree(trainer_subjects(self))
        self.ranks.feed(batch)  # type: ignore[arg-type]
        watched = [v for v in (self._loss_weight, self._norms) if v is not None]
        fetches = [self._step_loss, *self._reads, *watched]
        self.ranks.begin(self.executor, feed, fetches)
        if self._engine.is_open and self._chosen_place is None:
            self._try_places(feed, fetches)
        if self.ranks.step.overlap > 1 and self._overlaps is None:
            self._try_overlap(feed, fetches)
        return feed, fetches

    @checked
    def choose_overlap(self, batch: GivenByName) -> bool:
        """Choose by a batch whether gradients travel while others are computed, as the first step does: with
        ``Strategy(overlap=N)`` on several ranks, which all call this, where it is not chosen yet.

        Args:
            batch: as for ``step``; it is not trained on.

        Returns:
            Whether they do. ``remarks`` has the figures.

        Raises:
            DataError, TrainingError: as ``step``.
        """
        if self.ranks.are_many and (self.ranks.strategy.overlap or 1) > 1 and self._overlaps is None:
            self._fed(batch)
        return bool(self._overlaps)

    @checked
    def choose_place(self, batch: GivenByName) -> str:
        """Choose the provider by a batch, as the first step does: with ``place="auto"``, where none is chosen yet.

        Args:
            batch: as for ``step``; it is not trained on.

        Returns:
            The name of the provider: ``cpu``, ``openvino`` or ``cuda``. ``remarks`` has the figures.

        Raises:
            DataError: as ``step``.
        """
        if self._engine.is_open and self._chosen_place is None:
            self._fed(batch)
        return self._chosen_place or "cpu"

    def _try_places(self, feed: dict[str, Any], fetches: list[Variable]) -> None:
        """Keep the provider on which a step takes the least time"""
        places, lacking = self._places()
        scope = self.program.active_scope()
        executors = {name: self.executor if name == "cpu" else self._executor_on(place) for name, place in places.items()}
        timings = {name: Timing(name) for name in places}
        if len(places) > 1:
            with self.ranks.step.trial():
                for name, executor in executors.items():
                    timings[name] = self._timed(name, executor, feed, fetches, scope)
        chosen, timings = choice(timings)
        names = list(places)
        chosen = names[self.ranks.of_first(names.index(chosen))]
        self.remarks.append(described(chosen, {**timings, **lacking}))
        self.executor, self._chosen_place = executors[chosen], chosen

    def _timed(self, name: str, executor: Executor, feed: dict[str, Any], fetches: list[Variable], scope: Scope) -> Timing:
        """Time the steps of a provider. Of ranks each first computes alone, and a provider that fails on one is left out on all;
        what fails later, while they wait for each other, fails on all."""
        update = partial(self._update, executor, feed, fetches)
        if not self.ranks.are_many:
            return timed(name, update, scope)
        reason = self.ranks.first_reason(rehearsed(partial(self.ranks.rehearse, executor, feed, fetches)))
        if reason:
            return Timing(name, reason=reason)
        return timed(name, update, scope, is_alone=False)

    def _try_overlap(self, feed: dict[str, Any], fetches: list[Variable]) -> None:
        """Keep overlap where a step takes less time with it, on the slowest rank"""
        step, scope = self.ranks.step, self.program.active_scope()
        executors = {True: self.executor, False: self._executor_on(self.executor.place)}
        seconds = []
        with step.trial():
            for overlaps, executor in executors.items():
                step.let_overlap(overlaps)
                # What fails here fails in a run, so that the other ranks must not wait.
                seconds.append(measured(partial(self._update, executor, feed, fetches), scope)[0])
        overlapping, plain = self.ranks.largest(seconds)
        self.remarks.append(described_overlap(step.overlap, overlapping, plain))
        self._keep_overlap(keeps_overlap(overlapping, plain))
        self.executor = executors[self._overlaps is True]

    def _keep_overlap(self, overlaps: bool) -> None:
        self._overlaps = overlaps
        self.ranks.step.let_overlap(overlaps)

    def _overlap_text(self, overlaps: bool) -> str:
        """What a checkpoint says of the choice: how many sessions there are, of those that were asked for"""
        sessions = self.ranks.step.overlap
        return f"{sessions if overlaps else 1} of {sessions} sessions"

    def _update(self, executor: Executor, feed: dict[str, Any], fetches: list[Variable]) -> float:
        """An update as a trial takes it, by one batch as often as it accumulates; gives the last loss"""
        for at in range(self.accumulate):
            loss, *_ = self.ranks.run(executor, feed, fetches, self._state.step + at)
        self.ranks.step.apply(executor)
        return float(loss)

    def _places(self) -> tuple[dict[str, Place], dict[str, Timing]]:
        """The providers that are installed on all ranks, and that take what was asked for; and those that only some ranks have"""
        needs_cpu = self._engine.memory == "low" or self._options[-1] is not None or self.ranks.strategy.pipeline > 1
        places = {} if needs_cpu else installed_places()
        lacking: dict[str, Timing] = {}
        if self.ranks.are_many:
            places = {name: place for name, place in places.items() if not place.leaves}
            for name in NAMES:
                if self.ranks.any(name in places):
                    reason = self.ranks.first_reason("" if name in places else "is not installed, or does not start")
                    if reason:
                        places.pop(name, None)
                        lacking[name] = Timing(name, reason=reason)
        return places or {"cpu": CPUPlace()}, lacking

    def _executor_on(self, place: Place) -> Executor:
        return self._engine.make_executor(self.ranks.threads(self._engine.threads), place)

    def _advance(self, feed: dict[str, Any], fetches: list[Variable], examples: int) -> tuple[Row, list[Any]]:
        """A step, whose values and counters are stored together when it ends; gives its row, and what the loss reads"""
        scope, state = self.program.active_scope(), self._state
        loss, *outputs = self.ranks.run(self.executor, feed, fetches, state.step)
        norms = None if self._norms is None else outputs.pop()
        loss_weight = None if self._loss_weight is None else float(np.asarray(outputs.pop()).reshape(()))
        if not np.isfinite(loss):
            raise _NotFinite(loss)
        metrics, weights = self.ranks.means(self.model.measure(outputs, feed), self.interrupt, loss_weight, self._weighs_whole)
        row = {"loss": float(loss), **metrics}
        state = replace(state, step=state.step + 1)
        # Last, as ranks may send sums until they are applied.
        if state.step % self.accumulate == 0:
            if self._has_counted():
                self.ranks.step.apply(self.executor)
            schedule = self.schedule
            if schedule is not None and not schedule.steps_by_itself and not isinstance(schedule, ReduceOnPlateau):
                for owner, attributes in schedule.moved():
                    scope.follow(owner, **attributes)
        if examples:
            state = replace(state, batch=state.batch + 1, means=state.means.plus(row, examples, weights))
        scope.follow(self, _state=state, gradient_norms=norms, step_weights=weights)
        return row, outputs

    def _has_counted(self) -> bool:
        """Whether the micro-batches of an update count anything, on any rank; all their sums are 0 elsewhere, and stay

        Raises:
            _NotFinite: if they do not, as the loss of one batch is 0 / 0; but one that overflows counts nothing either.
        """
        accumulation = self.program.plan.accumulation
        if accumulation is None or not accumulation.divisors:
            return True
        scope = self.program.active_scope()
        totals = self.ranks.total(np.array([float(v.get_value(scope)) for v in accumulation.sums if v in accumulation.divisors]))
        if totals.all():
            return True
        if self._scaling.start:
            return False
        advice = "Leave such batches out, or accumulate more of them"
        raise _NotFinite(np.nan, f": nothing in its {self.accumulate} micro-batches counts, by labels or weights. {advice}.")

    def watch_gradients(self) -> None:
        """From now on ``gradient_norms`` holds the norm of the gradient of each of ``trained`` after each step.

        Of several ranks, these are norms of the gradients of this one's part; stages of a pipeline do not tell.
        """
        if self._norms is None and self.ranks.strategy.pipeline == 1:
            self._norms = append_norms(self.program, self._gradients_of_all_terms(), self._scaling.scale)

    def _gradients_of_all_terms(self) -> list[Variable]:
        """The gradient of each of ``trained``"""
        parts: dict[Variable, list[Variable]] = {p: [] for p in self.trained}
        for p, g in (pair for pairs in self._gradients for pair in pairs):
            parts[p].append(g)
        op = Builder(self.program.global_block(), role=Role.BACKWARD, key="gradient_norms")
        return [each[0] if len(each) == 1 else op.Sum(*each) for each in parts.values()]

    @property
    def watches_gradients(self) -> bool:
        """Whether each step computes ``gradient_norms``."""
        return self._norms is not None

    def open(self, data: Data, validation: Data | float | None = None) -> tuple[Rows | Stream, Rows | Stream | None]:
        """Open training and validation data as ``fit`` does; notes on them go into ``remarks``.

        Args:
            data: as for ``fit``.
            validation: data, a share of the training data, or None.

        Raises:
            DataError: if the data does not fit the model.
        """
        with reading_together(self.ranks.readers):
            source, held_out, notes = open_both(data, validation, self._spec, class_column(self.terms), self.seed)
        self.remarks += notes
        if source.record is not None:
            self.take_record(self.record.merged(source.record))
        if self._awaits_data:
            self._attach_for(source.first(self.seed, self.epoch), isinstance(source, Stream))
        for term in self.terms:
            if term.weighing.balanced and source is not data:
                self.remarks.append(term.weighing.balance(class_counts(source, term.target)))
        return source, held_out

    @property
    def record(self) -> DataRecord:
        """The record of the data, of this run or of the run that wrote the model: see ``DataRecord``.

        It stands in the metadata of the programs, so that exports hold it.
        """
        return record_of(self.inference)

    def take_record(self, record: DataRecord) -> None:
        """Set the record of the data, for data that is opened from now on.

        Args:
            record: an empty one to guess anew.
        """
        for program in (self.program, self.inference):
            set_record(program, record)

    # Whole runs ------------------------------------------------------------------------------------------------------

    @checked
    def fit(
        self,
        data: Data,
        epochs: int | None = None,
        validation: Data | float | None = None,
        *,
        total_epochs: int | None = None,
        batch_size: int = 32,
        shuffle: bool = True,
        drop_last: bool = False,
        out: str | Path | RunFolder | None = None,
        resume: bool = False,
        patience: int | None = None,
        monitor: str | None = None,
        max_steps: int | None = None,
        evaluate_every: int | None = None,
        checkpoint_every: int | None = None,
        keep: int = 3,
        callbacks: Sequence[AnyCallback] = (),
        prefetch: int = 2,
        curves: bool = False,
        before: bool = False,
        verbose: bool | Literal["json"] = True,
        accept_changed_data: bool = False,
    ) -> list[Row]:
        """Train for some epochs; returns the history, one row per epoch.

        Args:
            data: a dict of arrays by column; the path of a file (.npz, .npy, .csv, .tsv, .parquet, .jsonl; .py with a function
                ``batches``) or of a folder of images by class; ``Images``, ``Table`` or ``Text``; a tuple of arrays in the order of
                ``columns``; an iterable of batches, or a function of the epoch number that gives one; ``Shuffled``; a DataLoader of
                torch; a dataset of Hugging Face. ``remarks`` say what was guessed.
            epochs: how many more, 1 unless ``total_epochs`` is given. A second call goes on where the first one ended; a resumed
                run finishes the call that it resumes.
            total_epochs: instead of ``epochs``: how many in all, counted from the first call.
            validation: the same for the data that the model is evaluated on after each epoch; or a share of the data, such as 0.1,
                that is held out by the seed, of each class alike.
            batch_size, shuffle, drop_last: for data given as arrays; the order depends on the seed and the epoch only.
            out: folder for history and checkpoints. Ctrl-C writes one there and returns; SIGTERM and SIGUSR1 write one and end the
                process with 128 and their number (143, 138), unless it has handlers of its own for them.
            resume: continue the run in ``out``.
            patience: stop after so many epochs without a better one.
            monitor: what says which epoch is better, such as ``"val_f1"``; errors, losses and perplexity are better when smaller,
                others when larger. None for the validation loss, or the training loss without validation.
            max_steps: end after so many steps in all, wherever that is; without ``epochs``, as many epochs as that takes.
            evaluate_every: steps between evaluations besides that of each epoch; ``evaluations`` has them, and the best of these
                is kept as well.
            checkpoint_every: steps between checkpoints, besides the one after every epoch.
            keep: how many numbered checkpoints stay.
            callbacks: ``Callback`` objects, or functions that are called as ``function(trainer, row)`` after each epoch; one that
                returns True ends the run.
            prefetch: batches prepared ahead by a background thread.
            curves: draw the history into ``curves.png`` in ``out`` after each epoch.
            before: evaluate before the first step too: ``trainer.before``, and epoch 0 in the files, the curves and the report.
            verbose: show a progress line on a terminal, and elsewhere a line whenever two seconds have passed; ``"json"`` for lines
                of JSON on stdout instead, False for nothing.
            accept_changed_data: resume although a data file, given by its path, is not what the run was trained on.

        Raises:
            DataError: if the data cannot be trained on.
            TrainingError: if the loss stops being a number, the folder is in use or cannot be written, or the checkpoint belongs to
                another model or other data files. On all ranks, if they were given other data, options or versions.
        """
        if epochs is not None and total_epochs is not None:
            raise ArgumentError("epochs is the number of further epochs, total_epochs the total. Give one of them.")
        if self._awaits_data:
            data, validation = self.open(data, validation)
        counts = {
            "checkpoint_every": checkpoint_every,
            "max_steps": max_steps,
            "evaluate_every": evaluate_every,
            "before": 1 if before else None,
        }
        check_fit_options(self, validation, monitor, patience=patience, keep=keep, prefetch=prefetch, **counts)
        count = 1 if epochs is None and total_epochs is None else epochs if total_epochs is None else total_epochs
        if max_steps is not None and epochs is None and total_epochs is None:
            count = max_steps  # an epoch has a step at least
        if batch_size < 1 or count is None or count < 0:
            raise ArgumentError(f"batch_size is at least 1 and epochs at least 0, not {batch_size} and {count}.")
        recorded = record_in(out.path if isinstance(out, RunFolder) else Path(out)) if resume and out is not None else None
        if recorded is not None:
            self.take_record(recorded)
        source, held_out = self.open(data, validation)
        self.model.name_unused([*source.unused, *(() if held_out is None else held_out.unused)])
        if out is None and resume:
            raise ArgumentError("resume=True needs out=, the folder of the run.")
        files = fingerprints_of(data=source, validation=held_out)
        with self.ranks.folder(out, keep) as folder:
            if folder is not None and resume:
                self._load(folder.last(), source.count(batch_size, drop_last), {} if accept_changed_data else files)
                if self.batch and isinstance(source, Stream) and source.resumes:
                    message = f"the run stands in the middle of epoch {self.epoch + 1}, where it cannot go on: {source.resumes}"
                    raise TrainingError(
                        f"{message}. Shuffle by another source, or resume from a checkpoint of the end of an epoch."
                    )
                if self.history:
                    folder.write_history(self.rows)
            elif folder is not None:
                folder.check_new()
            if folder is not None and self.record.columns:
                folder.write_record(self.record.as_text())
            begun = self.state.begun if folder is not None and resume else self.epoch
            self.go_to(replace(self.state, begun=begun, files=files))
            goal = count if total_epochs is not None else self.state.begun + count
            plan = FitPlan(
                epochs=goal,
                batch_size=batch_size,
                shuffle=shuffle,
                drop_last=drop_last,
                prefetch=prefetch,
                max_steps=max_steps,
                patience=patience,
                monitor=monitor,
                evaluate_every=evaluate_every,
                checkpoint_every=checkpoint_every,
                callbacks=callbacks,
                verbose=verbose,
                curves=curves,
                before=before,
            )
            if count and self.epoch >= goal:
                message = f"nothing is trained: the run has had {self.epoch} epochs, and total_epochs is {goal}"
                warnings.warn(f"{message}. Pass epochs=, the number of further epochs (--more-epochs).", stacklevel=2)
            if self.ranks.are_many:
                self.ranks.agree(fit_subjects(self, source, held_out, folder is not None, plan))
            TrainingLoop(self, self.ranks.source(source), held_out, folder, plan).run()
        return self.history

    # Using the model ---------------------------------------------------------------------------------------------------

    def averaged(self) -> Scope:
        """The scope to evaluate in: the run's, or with ``ema`` a copy with the averages in place of the weights."""
        scope = self.program.active_scope()
        if self._awaits_data:
            return scope  # nothing was trained
        self.ranks.step.collect()
        return scope if self.average is None or self.step_number < self.accumulate else self.average.averaged(scope)

    @checked
    def opened(self, data: Data, inputs_alone: bool = False) -> Rows | Stream:
        """Open data for ``evaluate``, or for ``predict`` without targets: as ``record`` says of the data that was trained on.

        Args:
            data: as for ``fit``.
            inputs_alone: whether it may lack targets.

        Raises:
            DataError: if the data does not fit the model.
        """
        if inputs_alone:
            derived = None if self._awaits_data else self.model.derived
            targets = target_columns(self.terms) if self._awaits_data else [v.name for v in self.targets]
            return opened_inputs(self.inference, data, derived, targets)
        with reading_together(self.ranks.readers):
            opened = open_data(for_validation(data), self._spec)
        if self._awaits_data:
            self._attach_for(opened.first(self.seed, self.epoch), isinstance(opened, Stream))
        return opened

    @property
    def _spec(self) -> DataSpec:
        """The columns that the data has to have."""
        return spec_before_loss(self.inference, self.terms) if self._awaits_data else self.model.spec

    @checked
    def evaluate(self, data: Data, *, batch_size: int = 32) -> Row:
        """Mean loss and metrics in inference mode.

        Args:
            data: as for ``fit``.
            batch_size: examples in a batch.

        Raises:
            DataError: if the data does not fit the model.
        """
        opened = self.opened(data).plain()
        scope = self.averaged()
        self.model.name_unused(opened.unused)
        return evaluated(self, opened, batch_size, scope)

    @checked
    def predict(self, data: Data, *, batch_size: int = 32) -> dict[str, np.ndarray[Any, Any]]:
        """Outputs of the model in inference mode, by name, for all examples; the data needs no targets.

        Args:
            data: as for ``fit``; columns of targets are left out.
            batch_size: examples in a batch.

        Raises:
            DataError: if the data does not fit the model.
        """
        scope, targets = self.averaged(), target_columns(self.terms)
        derived = None if self._awaits_data else self.model.derived
        return predicted(self.executor, self.inference, data, batch_size, derived, targets, scope)

    @checked
    def export(
        self,
        path: str | Path,
        fold: bool = False,
        observe: Data | None = None,
        quantised: Literal["branch", "float", "again"] = "branch",
    ) -> list[str]:
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
        scope = self.averaged()
        if not self.ranks.is_first:
            return []
        program, notes = as_inference(self.inference, fold, observe, quantised, scope)
        save_onnx(program, path)
        return notes

    def to_inference(self) -> Program:
        """Return the program that ``export`` writes, with its weights."""
        return as_inference(self.inference, scope=self.averaged())[0]

    @checked
    def save_adapters(self, path: str | Path) -> None:
        """Write the LoRA branches alone (their averages where ``ema`` is on): see ``training.save_adapters``.

        Args:
            path: of the file.
        """
        scope = self.averaged()
        if self.ranks.is_first:
            save_adapters(self.inference, path, scope)

    # Checkpoints -------------------------------------------------------------------------------------------------------

    @checked
    def save(self, path: str | Path) -> None:
        """Write weights, optimizer state and the position in the run to a safetensors file.

        Args:
            path: of the checkpoint.

        Raises:
            TrainingError: if a weight is not finite, the file cannot be written, or the loss waits for data (see ``sample``); an
                old file is then untouched.
        """
        self._check_attached()
        self.ranks.step.gather()
        weight = bad_weight(self.program)
        if self.ranks.any(weight is not None):
            raise TrainingError(
                f"{weight or 'state'} is not finite after step {self.step_number}. Lower the learning rate or set clip_norm."
            )
        metadata = {}
        if self.ranks.is_first:
            metadata = {
                "graph": graph_hash(self.program),
                "position": self.state.position(self.seed, self.accumulate, self.schedule).to_json(),
            }
            if self._chosen_place is not None:
                metadata["place"] = self._chosen_place
            if self._overlaps is not None:
                metadata["overlap"] = self._overlap_text(self._overlaps)
            targets = targets_to_json(self.terms)
            if targets is not None:
                metadata["targets"] = targets
        together = self.ranks.step.writes_together
        if together or self.ranks.is_first:
            save_checkpoint(self.program, path, metadata=metadata, together=together)
        self.ranks.step.forget()

    @checked
    def load(self, path: str | Path) -> None:
        """Continue from a file that ``save`` wrote, with the record of the data in its folder if there is one.

        Args:
            path: what ``save`` wrote.

        Raises:
            ModelError: if the file cannot be read, is damaged, or holds a position that no run can reach.
            TrainingError: if it was written for another model, loss, optimizer or seed. Nothing is changed in either case.
        """
        self._load(path)

    def _load(self, path: str | Path, batches: int | None = None, files: Fingerprints | None = None) -> None:
        """Look at everything first, then change; an epoch has so many ``batches``, from these ``files``, as far as that is known"""
        tensors, recorded = read_tensors(path), record_in(Path(path).parent)
        if self._awaits_data:
            with transaction(self.program, self.optimizer, self):
                self.terms = typed_by_json(self.terms, tensors.metadata.get("targets"), path)
                self._check_attached()
                self._attach()
                position = self._checked(tensors, path, batches, files)
        else:
            position = self._checked(tensors, path, batches, files)
        self._resume_place(tensors.metadata.get("place"))
        self._resume_overlap(tensors.metadata.get("overlap"))
        scope, schedule = self.program.active_scope(), self.schedule

        def go_to() -> None:
            self.ranks.step.share_out()
            set_tensors(self.program, tensors)
            self.ranks.step.loaded()
            scope.follow(self, _state=self._state.at(position))
            if schedule is not None and position.schedule is not None:
                for owner, attributes in schedule.attributes_of(position.schedule):
                    scope.follow(owner, **attributes)
            if recorded is not None:
                self.take_record(recorded)

        scope.change(go_to)

    def _resume_place(self, name: str | None) -> None:
        """Take the provider that the run was on, where none is chosen yet"""
        if name is None or not self._engine.is_open or self._chosen_place is not None:
            return
        place = self._places()[0].get(name)
        if place is None:
            self.remarks.append(f"the run was on {name!r}, which is not installed here: place 'auto' tries again.")
        else:
            self.executor, self._chosen_place = self.executor if name == "cpu" else self._executor_on(place), name

    def _resume_overlap(self, text: str | None) -> None:
        """Take the choice of the run, where as many sessions are asked for as then"""
        for overlaps in (True, False):
            if text == self._overlap_text(overlaps) and overlaps is not self._overlaps:
                if self._overlaps is not None:
                    self.executor = self._executor_on(self.executor.place)  # whose sessions are not those of the other form
                self._keep_overlap(overlaps)

    def _checked(self, tensors: TensorFile, path: str | Path, batches: int | None, files: Fingerprints | None) -> Position:
        """The position in a checkpoint, of which everything else fits too"""
        if tensors.metadata.get("graph") != graph_hash(self.program):
            raise TrainingError(f"{str(path)!r} was written for another model, loss or optimizer. Use the same arguments as then.")
        position = position_of(tensors.metadata, path)
        check_unchanged(position.files, files or {})
        check_position(position, path, batches, seed=self.seed, accumulate=self.accumulate)
        check_schedule(self.schedule, position, path)
        check_tensors(self.program, tensors)
        weight = bad_value(self.program, tensors.arrays)
        if weight is not None:
            raise damaged(path, f"the tensor {weight!r} is not finite, which no Trainer writes")
        return position


_OF_LOSS = {"average", "evaluation", "loss", "metrics", "model", "outputs", "targets", "trained", "whole"}
"""Attributes that a Trainer has when its loss is attached."""


def _weight_of(terms: Sequence[LossTerm]) -> Variable | None:
    """What a loss of one term is divided by, where that is not the number of examples"""
    return terms[0].weight if len(terms) == 1 and not counts_examples(terms[0]) else None


class _NotFinite(Exception):
    """The loss of a step that is undone, and why, where that is known."""

    def __init__(self, loss: Any, cause: str = "") -> None:
        super().__init__(loss)
        self.loss, self.cause = loss, cause
