"""The validation examples of a report: confusion or residuals, and the worst and the best of them as pictures or rows.

Tests: tests/training/report/test_report.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxgrad.core.state.scope import Scope
from onnxgrad.errors import OnnxGradError
from onnxgrad.pages.pictures import as_picture, as_waveform
from onnxgrad.training.data.kinds.column import Column
from onnxgrad.training.data.kinds.groups import OF_PAIRS
from onnxgrad.training.data.kinds.sound import SoundColumn
from onnxgrad.training.report.drawn import has_masks, judge_detections, judge_masks, loss_alone
from onnxgrad.training.surgery.activations import score_kind, score_threshold

if TYPE_CHECKING:
    from onnxgrad.training.trainer import Trainer

__all__ = ["few", "judge_examples", "pictured", "shortened"]

Array = np.ndarray[Any, Any]

_EXAMPLES, _ONE_BY_ONE, _SHOWN, _CLASSES, _COLUMNS, _POINTS, _LETTERS = 2000, 200, 12, 40, 12, 600, 300


def judge_examples(trainer: Trainer, data: Any, batch_size: int) -> dict[str, Any]:
    """Summarise the first 2,000 examples for a report: counts, ``confusion``, ``residuals`` or a ``table``, ``worst``, ``best``."""
    if trainer.model.detection is not None:
        return judge_detections(trainer, data, batch_size)
    if has_masks(trainer):
        return judge_masks(trainer, data, batch_size)
    inputs, targets, outputs, losses = _collect(trainer, data, batch_size)
    summary: dict[str, Any] = {"count": len(losses)}
    term = trainer.terms[0]
    y, target = trainer.model.classes_second(outputs, targets)
    names = getattr(data, "classes", {}).get(term.target)
    classes = term.loss in ("cross_entropy", "causal_lm") and y.ndim == target.ndim + 1
    if classes:
        summary["confusion"] = _confusion(y.argmax(axis=1), target, y.shape[1], names)
    elif term.loss in ("bce_with_logits", "focal") and y.size == target.size and y.size == len(losses):
        positive = y.reshape(-1) > score_threshold(score_kind(trainer.outputs[0]))
        summary["confusion"] = _confusion(positive.astype(np.int64), target.reshape(-1).astype(np.int64), 2)
    elif y.shape == target.shape:
        summary["residuals"] = _residuals(y, target)
    order = np.argsort(losses, kind="stable")
    ends = {"worst": order[::-1][:_SHOWN], "best": order[:_SHOWN]}
    for name, chosen in ends.items():
        columns = trainer.record.columns
        summary[name] = [_example(int(i), inputs, y, target, float(losses[i]), classes, names, columns) for i in chosen]
        for shown, i in zip(summary[name], chosen, strict=True):
            _decode(shown, data.decoders, inputs, target[i], y[i], term.target)
    return summary


def _decode(
    shown: dict[str, Any],
    decoders: Mapping[str, Callable[[Array], str]],
    inputs: dict[str, Array],
    target: Array,
    y: Array,
    name: str,
) -> None:
    """Decode the token ids of an example to text, and drop the masks beside it"""
    at = shown["number"]
    masks = [array for n, array in inputs.items() if "mask" in n.lower()]
    read = [array[at] != 0 for array in masks[:1]]
    texts = []
    for column in inputs.keys() & decoders.keys():
        token_ids = inputs[column][at]
        texts.append(
            [column, shortened(decoders[column](token_ids[read[0]] if read and read[0].shape == token_ids.shape else token_ids))]
        )
    if not texts:
        return
    shown["row"] = texts
    if name in decoders and y.ndim == target.ndim + 1:
        counts = target >= 0
        shown["target"] = shortened(decoders[name](target[counts]))
        shown["predicted"] = shortened(decoders[name](y.argmax(axis=0)[counts]))


def shortened(text: str) -> str:
    """The first 300 letters of a text"""
    return text if len(text) <= _LETTERS else text[:_LETTERS] + "…"


def _collect(trainer: Trainer, data: Any, batch_size: int) -> tuple[dict[str, Array], Array, Array, Array]:
    """Inputs, targets of the first term, its outputs, and the loss of each example"""
    fetch = [trainer.loss.name, trainer.outputs[0].name]
    parts: list[tuple[dict[str, Array], Array, Array, Array]] = []
    count = 0
    scope = trainer.averaged()
    for batch in data.batches(batch_size, shuffle=False):
        feed = trainer.model.feed_of(batch, trainer.executor)
        size = len(next(iter(feed.values())))
        _, output = trainer.executor.run(trainer.evaluation, feed, fetch, scope=scope)
        target = feed[trainer.terms[0].target]
        losses = _losses(trainer, feed, output, target, size, scope, alone=count < _ONE_BY_ONE)
        if losses is None:
            break
        parts.append(({v.name: np.asarray(feed[v.name]) for v in trainer.inputs}, target, output, losses))
        count += size
        if count >= _EXAMPLES:
            break
    if not parts:
        raise OnnxGradError("there are no examples with a loss of their own.")
    # Texts have batches of several lengths: only batches with the length of the first one are evaluated.
    equal_parts = [part for part in parts if _lengths(part) == _lengths(parts[0])]
    inputs = {n: np.concatenate([p[0][n] for p in equal_parts]) for n, first in parts[0][0].items() if first.ndim}
    target, output, losses = (np.concatenate([part[i] for part in equal_parts]) for i in (1, 2, 3))
    return inputs, target, output, losses


def _lengths(part: tuple[dict[str, Array], Array, Array, Array]) -> list[tuple[int, ...]]:
    """Sizes of all axes but the batch"""
    return [a.shape[1:] for a in (*part[0].values(), *part[1:])]


def _losses(
    trainer: Trainer, feed: dict[str, Any], output: Array, target: Array, size: int, scope: Scope, alone: bool
) -> Array | None:
    """The loss of each example: by its formula where that is simple, else by running it alone"""
    term = trainer.terms[0]
    loss, single = term.loss, len(trainer.terms) == 1 and term.weight == 1.0 and term.weighing.is_plain
    if single and loss in ("mse", "l1") and output.shape == target.shape:
        difference = np.abs(np.asarray(output, np.float64) - target).reshape(size, -1)
        return np.asarray((difference**2 if loss == "mse" else difference).mean(axis=1))
    if single and loss == "cross_entropy" and output.ndim == 2:
        scores = np.asarray(output, np.float64)
        if (scores >= 0).all() and np.allclose(scores.sum(axis=1), 1, atol=1e-3):
            scores = np.log(np.maximum(scores, 1e-30))
        top = scores.max(axis=1, keepdims=True)
        log = scores - top - np.log(np.exp(scores - top).sum(axis=1, keepdims=True))
        counted = np.where(target < 0, 0, target)
        return np.where(target < 0, 0.0, -log[np.arange(size), counted])
    if loss in OF_PAIRS:
        return None  # a loss of several rows is no sum of those of each
    losses: list[float] = []
    for i in range(size if alone else 0):
        value = loss_alone(trainer, feed, i, size, scope)
        if value is None:
            return None
        losses.append(value)
    return np.array(losses) if losses else None


def _confusion(predicted: Array, target: Array, classes: int, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Counts [target, predicted] of the most frequent classes"""
    predicted, target = predicted.reshape(-1), target.reshape(-1)
    counted = target >= 0
    predicted, target = predicted[counted], target[counted]
    frequent = np.argsort(-np.bincount(target, minlength=classes), kind="stable")[:_CLASSES]
    shown = np.sort(frequent)
    positions = np.full(classes, -1)
    positions[shown] = np.arange(len(shown))
    rows, columns = positions[target], positions[predicted]
    inside = (rows >= 0) & (columns >= 0)
    counts = np.zeros((len(shown), len(shown)), np.int64)
    np.add.at(counts, (rows[inside], columns[inside]), 1)
    labels = [_named(k, names or ()) for k in shown.tolist()]
    return {"classes": labels, "counts": counts.tolist(), "right": int((predicted == target).sum()), "of": len(target)}


def _residuals(y: Array, target: Array) -> dict[str, Any]:
    """Some pairs of target and prediction, and a histogram of all differences"""
    a, b = (np.asarray(x, np.float64).reshape(-1) for x in (target, y))
    step = max(1, len(a) // _POINTS)
    difference = b - a
    counts, edges = np.histogram(difference, 30)
    spread = float(((a - a.mean()) ** 2).sum())
    r2 = 1.0 - float((difference**2).sum()) / spread if spread > 0 else math.nan
    return {"pairs": np.stack([a, b], 1)[::step].tolist(), "counts": counts.tolist(), "edges": edges.tolist(), "r2": r2}


def _example(
    i: int,
    inputs: dict[str, Array],
    y: Array,
    target: Array,
    loss: float,
    classes: bool,
    names: Sequence[str] | None,
    columns: Mapping[str, Column],
) -> dict[str, Any]:
    example: dict[str, Any] = {"number": i, "loss": loss, "target": few(target[i])}
    example["predicted"] = few(y[i].argmax(axis=0)) if classes else few(y[i])
    if classes and names is not None and target.ndim == 1:
        example["target"], example["predicted"] = (_named(int(k), names) for k in (target[i], y[i].argmax()))
    pictures = [address for name, array in inputs.items() if (address := pictured(array[i], columns.get(name), 112)) is not None]
    if pictures:
        example["picture"] = pictures[0]
    else:
        example["row"] = [[name, few(array[i], _COLUMNS)] for name, array in inputs.items()]
    return example


def pictured(value: Array, column: Column | None, largest: int) -> str | None:
    """The address of a picture of what the model reads of an example; None of what is no picture, and no sound."""
    if isinstance(column, SoundColumn) and not column.fronts:
        return as_waveform(value[..., column.context :] if column.chunk else value, 2 * largest, largest // 2)
    return as_picture(value, largest)


def _named(k: int, names: Sequence[str]) -> str:
    return str(names[k]) if 0 <= k < len(names) else str(k)


def few(value: Any, most: int = 4) -> str:
    """The first elements as text"""
    flat = np.asarray(value).reshape(-1)
    shown = [f"{e:.4g}" if isinstance(e, float) else str(e) for e in flat[:most].tolist()]
    return ", ".join(shown) + (", …" if len(flat) > most else "")
