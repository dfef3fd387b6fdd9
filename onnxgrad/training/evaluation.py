"""Loss, metrics and outputs of a model over data, in inference mode.

Tests: tests/training/test_trainer.py, tests/cli/test_detectors.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxgrad.core.ir.program import Program
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.state.scope import Scope
from onnxgrad.errors import DataError
from onnxgrad.training.data.derived_inputs import DerivedInputs
from onnxgrad.training.data.feed import checked_batch
from onnxgrad.training.data.opening import open_data
from onnxgrad.training.data.record import record_of
from onnxgrad.training.data.rows import Batch, Parts, Rows, Stream
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.metrics.epoch import epoch_metric
from onnxgrad.training.ranks.ranks import examples_of
from onnxgrad.training.run.plan import Means, Row
from onnxgrad.training.surgery.activations import score_kind

if TYPE_CHECKING:
    from onnxgrad.training.model import Model
    from onnxgrad.training.trainer import Trainer

__all__ = ["detected", "evaluated", "opened_inputs", "predicted", "rehearse"]


def evaluated(trainer: Trainer, opened: Rows | Stream, batch_size: int, scope: Scope) -> Row:
    """Loss and metrics of a trainer's model over data, which do not depend on how the data is cut into batches.

    Each term of the loss, and each metric, is a mean by what it counts; metrics of all examples together are computed at the end.
    ``scope`` is where the weights are.
    """
    parts = opened.parts() if isinstance(opened, Rows) and trainer.model.reads else None
    evaluation = _Evaluation(trainer, scope, parts)
    for batch in trainer.ranks.shard(opened if parts is None else parts.rows, batch_size):
        evaluation.add(batch)
    return evaluation.row()


def rehearse(trainer: Trainer, opened: Rows, batch_size: int, batches: int = 2) -> None:
    """Evaluate the first batches and forget the result, so that what is wrong with validation shows before the first step.

    Raises:
        DataError: as evaluation does.
    """
    evaluation = _Evaluation(trainer, trainer.averaged())
    for batch in islice(opened.batches(batch_size, shuffle=False), batches):
        evaluation.add(batch)


class _Evaluation:
    """Loss and metrics of the batches that were added; of examples in parts, metrics are of their joined outputs."""

    def __init__(self, trainer: Trainer, scope: Scope, parts: Parts | None = None) -> None:
        self.trainer, self.scope, self.model, self.means, self.parts = trainer, scope, trainer.model, Means(), parts
        model = self.model
        self._read = model.loss_values()
        self._detected = [] if model.detection is None or not model.whole else model.detection.reads
        self._fetch = [*(v.name for v in (*self._read, *model.reads)), *self._detected]
        kind, steps_first = score_kind(model.outputs[0]), model.layouts[0] == "TNC"
        self.whole = {name: epoch_metric(name, kind, steps_first) for name in model.whole}
        self._outputs_of_parts: list[Any] = []
        self._targets_of_parts: list[Any] = []

    def add(self, batch: Batch) -> None:
        model, trainer = self.model, self.trainer
        feed = model.feed_of(batch, trainer.executor, self.scope)
        values = trainer.executor.run(model.evaluation, feed, self._fetch, scope=self.scope)
        first = len(self._fetch) - len(self._detected)
        outputs = values[len(self._read) : first]
        examples = examples_of(feed, trainer.ranks.axes)
        row, weights = model.loss_parts(dict(zip(self._read, values, strict=False)), examples)
        if self.parts is not None:
            self._outputs_of_parts.append(outputs[0])
            self._targets_of_parts.append(feed[model.terms[0].target])
            self.means.add(row, examples, weights)
            return
        _measure(model, outputs, feed, row, weights)
        self.means.add(row, examples, weights)
        if model.detection is not None:
            detections = model.detection.detections(values[first:], feed) if self.whole else []
            for metric in self.whole.values():
                metric.add(detections, feed[model.detection.column])
        elif self.whole:
            y, target = model.classes_second(outputs[0], feed[model.terms[0].target])
            for metric in self.whole.values():
                metric.add(y, target)

    def row(self) -> Row:
        """The means over all batches, and metrics of all examples together, which rank 0 computes for all"""
        model, ranks = self.model, self.trainer.ranks
        labels = [] if self.parts is not None else [label for label, _ in model.metrics]
        means = ranks.reduce_means(self.means, [*model.loss_names, *labels])
        if means.count == 0:
            raise DataError("there is nothing to evaluate: the data has no batch.")
        if self.parts is not None:
            joined, parts = ranks.gathered_on_first(self._of_parts()), self.parts
            values = ranks.from_first(lambda: self._measure_joined(joined, parts))
        else:
            states = {name: ranks.gathered_on_first(metric.state()) for name, metric in self.whole.items()}
            values = ranks.from_first(lambda: self._measure_whole(states)) if states else {}
        measured = {name: value for name, value in values.items() if name not in self.whole}
        return {**model.with_loss({**means.now(), **measured}), **{name: values[name] for name in self.whole}}

    def _measure_whole(self, states: dict[str, list[dict[str, Any]]]) -> Row:
        for name, metric in self.whole.items():
            metric.take(states[name])
        return {name: metric.value() for name, metric in self.whole.items()}

    def _of_parts(self) -> dict[str, Any]:
        """Outputs and targets of this rank's batches, by their number among its own"""
        arrays: dict[str, Any] = {}
        for number, (y, target) in enumerate(zip(self._outputs_of_parts, self._targets_of_parts, strict=True)):
            # no file of numpy's knows the types of ml_dtypes
            arrays[f"{number}/y"] = y.astype(np.float32) if y.dtype.kind == "V" else y
            arrays[f"{number}/target"] = target
        return arrays

    def _measure_joined(self, of_ranks: Sequence[dict[str, Any]], parts: Parts) -> Row:
        """Metrics of whole examples, whose outputs are joined from those of their parts, which ranks have computed in turns"""
        model = self.model
        measured: Row = {}
        turns = range(max(len(arrays) for arrays in of_ranks) // 2)
        y, target = (
            np.concatenate([arrays[f"{turn}/{name}"] for turn in turns for arrays in of_ranks if f"{turn}/{name}" in arrays])
            for name in ("y", "target")
        )
        _measure(model, [parts.joined(y)], {model.terms[0].target: target[parts.firsts]}, measured, {})
        for metric in self.whole.values():
            metric.add_parts(*model.classes_second(y, target), parts)
        return {**measured, **{name: metric.value() for name, metric in self.whole.items()}}


def _measure(model: Model, outputs: list[Any], feed: dict[str, Any], row: Row, weights: dict[str, float]) -> None:
    """Add the metrics of a batch, and how much each counts, to its row"""
    for label, value in model.measure(outputs, feed).items():
        weights[label] = np.size(value)
        row[label] = float(np.mean(value)) if weights[label] else 0.0


def opened_inputs(program: Program, data: Any, following: DerivedInputs | None = None, beside: Sequence[str] = ()) -> Rows | Stream:
    """Open data for the inputs of a program; ``beside`` are columns that the data may have, and that are not read.

    Raises:
        DataError: if the data does not fit the model.
    """
    following = following or DerivedInputs(program)
    inputs = [v for v in program.inputs if v.name not in beside or v.name in record_of(program).columns]
    return open_data(data, DataSpec.of(inputs, (), following.names, program, beside))


def predicted(
    executor: Executor,
    program: Program,
    data: Any,
    batch_size: int,
    following: DerivedInputs | None = None,
    beside: Sequence[str] = (),
    scope: Scope | None = None,
) -> dict[str, Any]:
    """Outputs of a program by name, for all examples; ``beside`` are columns that the data may have, and that are not read.

    ``scope`` is where the weights are; None for the program's own.

    Raises:
        DataError: if the data does not fit the model.
    """
    outputs: dict[str, list[Any]] = {v.name: [] for v in program.outputs}
    following = following or DerivedInputs(program)
    inputs = [v for v in program.inputs if v.name not in beside]
    opened = opened_inputs(program, data, following, beside).plain()
    parts = opened.parts() if isinstance(opened, Rows) else None
    for batch in (opened if parts is None else parts.rows).batches(batch_size, shuffle=False):
        feed = checked_batch(following.complete(batch), inputs)
        for name, value in zip(outputs, executor.run(program, feed, list(outputs), scope=scope), strict=True):
            outputs[name].append(value)
    if not all(outputs.values()):
        raise DataError("there is nothing to predict: the data has no batch.")
    whole = {name: np.concatenate(values) for name, values in outputs.items()}
    return whole if parts is None else {name: parts.joined(values) for name, values in whole.items()}


def detected(
    model: Model, rows: Rows, batch_size: int, executor: Executor, scope: Scope | None = None, least: float = 0.0
) -> list[np.ndarray[Any, Any]]:
    """Detections of a detector for each picture, in pixels of the picture itself.

    Args:
        model: with the loss of a detector.
        rows: pictures; their answers are not read.
        batch_size: pictures in a batch.
        executor: that runs the model.
        scope: where the weights are; None for the program's own.
        least: the smallest probability.

    Returns:
        For each picture float64 [D, 6]: class, probability, left, top, right, bottom; the most probable first.

    Raises:
        DataError: if the data is not of pictures, or does not fit the model.
    """
    detector = model.detection
    assert detector is not None
    pictures: list[np.ndarray[Any, Any]] = []
    for batch in rows.plain().batches(batch_size, shuffle=False):
        feed = checked_batch(model.derived.complete(batch), model.inputs)
        for detections in detector.detections(executor.run(model.evaluation, feed, detector.reads, scope=scope), feed):
            view = rows.view(len(pictures))
            if view is None:
                raise DataError("the data holds no pictures, in which boxes lie. Give pictures.")
            sure = detections[detections[:, 1] >= least]
            placed = view.boxes_back(sure[:, [0, 2, 3, 4, 5]])
            pictures.append(np.concatenate([placed[:, :1], sure[:, 1:2], placed[:, 1:]], axis=1))
    return pictures
