"""Loss, metrics and outputs of a model over data, in inference mode.

Tests: tests/training/test_trainer.py.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from onnxgrad.training.data.rows import Rows, Stream
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.metrics.epoch import epoch_metric
from onnxgrad.training.run.plan import Means, Row
from onnxgrad.training.surgery.activations import score_kind

if TYPE_CHECKING:
    from onnxgrad.training.model import Model
    from onnxgrad.training.trainer import Trainer

__all__ = ["evaluated", "opened_inputs", "predicted"]


def evaluated(trainer: Trainer, opened: Rows | Stream, batch_size: int, scope: Scope) -> Row:
    """Loss and metrics of a trainer's model over data, which do not depend on how the data is cut into batches.

    Each term of the loss, and each metric, is a mean by what it counts; metrics of all examples together are computed at the end.
    ``scope`` is where the weights are.
    """
    means = Means()
    model = trainer.model
    read = model.loss_values()
    detected = [] if model.detection is None or not model.whole else model.detection.reads
    fetch = [*(v.name for v in (*read, *model.reads)), *detected]
    kind = score_kind(model.outputs[0])
    steps_first = model.layouts[0] == "TNC"
    whole = {name: epoch_metric(name, kind, steps_first) for name in model.whole}
    parts = opened.parts() if isinstance(opened, Rows) and model.reads else None
    batches = (opened if parts is None else parts.rows).batches(batch_size, shuffle=False)
    measured: Row = {}
    outputs_of_parts: list[Any] = []
    targets_of_parts: list[Any] = []
    # Metrics of all examples together, and of examples in parts, need all outputs, so every rank computes them.
    for batch in batches if whole or parts is not None else trainer.ranks.shard(batches):
        feed = model.feed_of(batch, trainer.executor, scope)
        values = trainer.executor.run(model.evaluation, feed, fetch, scope=scope)
        outputs = values[len(read) : len(fetch) - len(detected)]
        examples = len(next(iter(feed.values())))
        row, weights = model.loss_parts(dict(zip(read, values, strict=False)), examples)
        if parts is not None:
            outputs_of_parts.append(outputs[0])
            targets_of_parts.append(feed[model.terms[0].target])
            means.add(row, examples, weights)
            continue
        _measure(model, outputs, feed, row, weights)
        means.add(row, examples, weights)
        if model.detection is not None:
            found = model.detection.detections(values[len(fetch) - len(detected) :], feed) if whole else []
            for metric in whole.values():
                metric.add(found, feed[model.detection.column])
        elif whole:
            y, target = model.classes_second(outputs[0], feed[model.terms[0].target])
            for metric in whole.values():
                metric.add(y, target)
    if parts is not None and means.count:
        y, target = np.concatenate(outputs_of_parts), np.concatenate(targets_of_parts)
        joined, answers = parts.joined(y), target[parts.firsts]
        _measure(model, [joined], {model.terms[0].target: answers}, measured, {})
        for metric in whole.values():
            metric.add_parts(*model.classes_second(y, target), parts)
    elif not whole:
        means = trainer.ranks.reduce_means(means, [*model.loss_names, *(label for label, _ in model.metrics)])
    if means.count == 0:
        raise DataError("there is nothing to evaluate: the data has no batch.")
    return {**model.with_loss({**means.now(), **measured}), **{name: metric.value() for name, metric in whole.items()}}


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
