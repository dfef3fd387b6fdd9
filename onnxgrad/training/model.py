"""Model: a program with its losses attached, in the forms that train, evaluate and infer, and the columns of data that it reads.

Tests: tests/training/test_trainer.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.plan import LossTerm
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.types import is_nameless
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import PART
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.step.loss_terms import loss_terms
from onnxgrad.errors import ArgumentError
from onnxgrad.training.data.annotated.answers import IGNORED
from onnxgrad.training.data.derived_inputs import DerivedInputs, read_by_loss
from onnxgrad.training.data.feed import check_labels, checked_batch, ignoring, lone_rows, output_shapes
from onnxgrad.training.data.record import record_of
from onnxgrad.training.data.rows import Batch
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.detection.objective import ASSIGNED, DetectionLoss
from onnxgrad.training.losses.detection import signed_distances
from onnxgrad.training.losses.distillation import COLUMN, Teacher
from onnxgrad.training.losses.terms import Term, attach, distances_of, output_of, target_columns
from onnxgrad.training.metrics.batch import classes_second, is_whole, metric_named
from onnxgrad.training.run.plan import Row

__all__ = ["Model", "class_column", "spec_before_loss"]

_PART = "loss/{}"
"""The name of a term of the loss among means."""


class Model:
    """A program with its loss, as a Trainer trains it.

    Args:
        program: without a loss, in training mode; the losses are appended to it.
        inference: the same without a loss, in inference mode.
        terms: of the loss.
        teacher: whose answers are targets, too.
        detection: the loss of a detector, which assigns objects to anchors before each step.
        metrics: names or functions; those of all examples together are computed in evaluation alone.

    Attributes:
        evaluation: the program with its losses, in inference mode.
        evaluated_terms: of its loss, which add up over batches by their weights; none where the formula does not say.
        loss: the sum of the terms, a scalar.
        inputs, targets: that are fed; inputs that the loss does not need are left out.
        outputs: that the terms read, in their order.
        layouts: where the classes of each output lie.
        doubts: for each output, whether it is taken as logits by a loss though nothing says that it is.
        metrics: of each batch, by label.
        whole: names of metrics of all examples together.
        derived: the inputs that follow from others.
        remarks: lines on what was found out.
    """

    def __init__(
        self,
        program: Program,
        inference: Program,
        terms: Sequence[Term],
        teacher: Teacher | None,
        metrics: Sequence[Any],
        detection: DetectionLoss | None = None,
        gets_parts: bool = False,
    ) -> None:
        self.program, self.inference, self.terms, self.teacher = program, inference, list(terms), teacher
        self.detection, self._gets_parts = detection, gets_parts
        self.inputs = [v for v in program.inputs if v.name != PART]  # which ranks feed
        attached = attach(program, self.terms)
        self.loss, self.targets, self.remarks = attached.loss, attached.targets, attached.remarks
        unneeded: list[str] = []
        if teacher is None:  # which may need all of them
            self.inputs, unneeded = read_by_loss(self.inputs, attached.loss)
        self.remarks += [] if detection is None else detection.remarks
        self.remarks += [f"the loss does not need the input {name!r}: the data may leave it out." for name in unneeded]
        named = ((distances_of(self.terms, term), number) for number, term in enumerate(self.terms))
        self._distances = {name: number for name, number in named if name is not None}
        """Columns of signed distances that are computed of masks, and the numbers of their terms."""
        self.outputs, self.layouts, self.doubts = attached.outputs, attached.layouts, attached.as_logits
        program.plan.example_axes = _example_axes(program, self.outputs[0], self.layouts[0])
        self.evaluation = program.clone(for_test=True)
        self.evaluated_terms, told = _terms_in_evaluation(self.evaluation, attached.loss.name)
        self.remarks += told
        self.whole = [metric for metric in metrics if is_whole(metric)]
        self.metrics = [metric_named(metric, self.outputs[0]) for metric in metrics if not is_whole(metric)]
        self.reads = self.outputs if metrics or any(self.doubts) else []
        """What a step fetches besides the loss."""
        token_labels = {term.target for term in self.terms if term.loss == "causal_lm"}
        self.derived = DerivedInputs(program, [v for v in self.targets if v.name in token_labels])
        self._shapes: list[tuple[Any, ...]] | None = None
        self._unused: set[str] = set()

    # Data ------------------------------------------------------------------------------------------------------------

    @property
    def columns(self) -> list[str]:
        """Names of the data columns: the model's inputs, then the targets, without inputs that are computed from others."""
        return [v.name for v in [*self.inputs, *self.labels] if v.name not in self.derived.names]

    @property
    def labels(self) -> list[Variable]:
        """The target columns of the data."""
        made = {COLUMN, *self._distances} if self.teacher is not None else {*self._distances}
        if self.detection is not None:
            return [self.detection.variable, *(v for v in self.targets if v.name not in (ASSIGNED, *made))]
        return [v for v in self.targets if v.name not in made]

    @property
    def spec(self) -> DataSpec:
        """The names, types and shapes of the data for this model."""
        losses = {term.target: term.loss for term in reversed(self.terms) if isinstance(term.loss, str)}
        return DataSpec.of(self.inputs, self.labels, self.derived.names, self.inference, losses=losses)

    def name_unused(self, names: Iterable[str]) -> None:
        """Warn, once, of columns of the data that nothing reads."""
        unused = sorted(set(names) - self._unused - {v.name for v in self.inference.inputs})
        self._unused.update(unused)
        if unused:
            message = f"nothing reads the data's {', '.join(map(repr, unused))}: the columns of model and loss are {self.columns}"
            warnings.warn(f"{message}. Leave unused columns out, or rename them.", stacklevel=4)

    def feed_of(self, batch: dict[str, Any], executor: Executor, scope: Scope | None = None) -> Batch:
        """Check a batch and complete it by what follows from its columns.

        Args:
            batch: arrays by column.
            executor: that runs the evaluation form once, to know the shapes of outputs; for a detector each time.
            scope: where the weights are; None for the program's own.

        Raises:
            DataError: if a column is missing, misshapen or not finite, or a label is out of range.
        """
        self.name_unused(batch.keys() - {*self.columns, *self.derived.read})
        feed = checked_batch(self.derived.complete(batch), [*self.inputs, *self.labels])
        feed = ignoring(feed, self.terms, self.outputs)
        for term in self.terms:
            labels = feed.get(term.target)
            if term.loss == "cross_entropy" and labels is not None and labels.ndim > 2:
                feed[term.target] = np.where(labels == IGNORED, -100, labels)  # pixels that do not count
        if self.teacher is not None:
            feed[COLUMN] = self.teacher.answer(feed, self.outputs[0].dims)
        for name, number in self._distances.items():
            feed[name] = _distances(feed[self.terms[number].target], self.outputs[number])
        if self.detection is not None:
            feed[ASSIGNED] = self.detection.answer(feed, feed[self.detection.column], self.evaluation, scope)
        if self._shapes is None:

            def evaluated(name: str, feed: Batch) -> Any:
                (value,) = executor.run(self.evaluation, feed, [name])
                return value

            self._shapes = output_shapes(self.terms, self.layouts, self.outputs, feed, evaluated)
            for text in () if self._gets_parts else lone_rows(feed, self.terms):
                warnings.warn(text, stacklevel=4)
        check_labels(feed, self.terms, self._shapes)
        return feed

    # The loss of several batches -------------------------------------------------------------------------------------

    def loss_values(self) -> list[Variable]:
        """What ``loss_parts`` reads of the evaluation form: the loss, or its terms and their weights."""
        if not self.evaluated_terms:
            return [self.evaluation.find(self.loss.name)]
        values = [v for term in self.evaluated_terms for v in (term.value, term.weight) if v is not None]
        return list(dict.fromkeys(values))

    def loss_parts(self, values: Mapping[Variable, Any], examples: int) -> tuple[Row, dict[str, float]]:
        """The terms of the loss of a batch, by name, and their weights: over several batches each is a mean by its own weights.

        Args:
            values: of ``loss_values``.
            examples: in the batch. A term that is a sum counts as its mean over examples.
        """
        if not self.evaluated_terms:
            (loss,) = values.values()
            return {_PART.format(0): float(loss)}, {}
        parts: Row = {}
        weights: dict[str, float] = {}
        for number, term in enumerate(self.evaluated_terms):
            name, value = _PART.format(number), float(np.asarray(values[term.value]).reshape(()))
            parts[name] = value if term.reduction == "mean" else value / examples
            if term.weight is not None:
                weights[name] = float(np.asarray(values[term.weight]).reshape(()))
        return parts, weights

    @property
    def loss_names(self) -> list[str]:
        """The names of the terms of the loss among means."""
        return [_PART.format(number) for number in range(max(len(self.evaluated_terms), 1))]

    def with_loss(self, means: Row) -> Row:
        """A row of means in which the loss stands for its terms."""
        names = self.loss_names
        return {"loss": sum(means[name] for name in names), **{name: value for name, value in means.items() if name not in names}}

    # Metrics ---------------------------------------------------------------------------------------------------------

    def measure(self, outputs: list[Any], feed: Batch) -> dict[str, Any]:
        """The metrics of a batch, by label: a number for each example; none where another rank has the outputs."""
        if not self.metrics or outputs[0] is None:
            return {label: np.zeros(0) for label, _ in self.metrics}
        y, target = self.classes_second(outputs[0], feed[self.terms[0].target])
        return {label: metric(y, target) for label, metric in self.metrics}

    def classes_second(self, output: Any, target: Any) -> tuple[Any, Any]:
        """The first output and its target with examples along the first axis and classes along the second."""
        return classes_second(output, target, self.terms[0].loss, self.layouts[0])


def _distances(masks: Any, output: Variable) -> Any:
    """Signed distances [batch, classes, height, width] of the classes of pixels, or of masks of 0 and 1 each for itself"""
    if masks.ndim == 4:
        return np.concatenate([signed_distances((mask > 0.5).astype(np.int64), 2)[:, 1:] for mask in np.moveaxis(masks, 1, 0)], 1)
    classes = output.dims[1] if output.dims is not None else None
    if not isinstance(classes, int):
        raise ArgumentError(
            f"the output {output.name!r} has an unknown number of classes, which the distances for boundary need. "
            "Give these as a column of their own (signed_distances)."
        )
    return signed_distances(masks, classes)


def class_column(terms: Sequence[Term]) -> str | None:
    """The target column of class numbers, of the first term that has one."""
    return next((term.target for term in terms if term.loss in ("cross_entropy", "bce_with_logits", "triplet", "info_nce")), None)


def spec_before_loss(inference: Program, terms: Sequence[Term]) -> DataSpec:
    """The names of the columns that a loss will read, which is not attached yet.

    Args:
        inference: the program without a loss.
        terms: of the loss, of which some wait for the type of their target.
    """
    program = inference.clone(for_test=True)
    derived = DerivedInputs(program).names
    outputs = [output_of(program, term.output, []) for term in terms]
    inputs = list({v.name: v for y in outputs for v in read_by_loss(program.inputs, y)[0] if v.name not in derived}.values())
    targets = target_columns(terms)
    optional = [*derived, *(term.target for term in terms if term.loss == "causal_lm")]
    names = [name for name in [*(v.name for v in inputs), *targets] if name not in optional]
    losses = {term.target: term.loss for term in reversed(terms) if isinstance(term.loss, str)}
    variables = {v.name: v for v in inputs}
    return DataSpec(names, variables, targets, optional, inference, losses=losses, record=record_of(inference))


def _terms_in_evaluation(evaluation: Program, loss: str) -> tuple[list[LossTerm], list[str]]:
    """The terms of a loss, or none and a line that says so"""
    build = Builder(evaluation.global_block(), role=Role.BACKWARD, key="loss_weight")
    try:
        return loss_terms(evaluation.find(loss), build), []
    except ArgumentError as error:
        return [], [f"the loss of validation data is the mean of the losses of its batches, whatever their size: {error}"]


def _example_axes(program: Program, output: Variable, layout: str | None) -> dict[str, int]:
    """The axis that counts examples of each input that has it elsewhere than in front, as where steps come first: the dimension of
    the output's examples says its name"""
    at = layout.index("N") if layout in ("NTC", "TNC") else 0
    name = output.dims[at] if output.dims and len(output.dims) > at else None
    if not isinstance(name, str) or is_nameless(name):
        return {}
    return {v.name: v.dims.index(name) for v in program.inputs if v.dims and name in v.dims and v.dims[0] != name}
