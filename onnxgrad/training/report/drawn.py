"""The validation pictures of a detector or segmenter for a report: scores by class, and those that fit worst and best, drawn.

Tests: tests/training/report/test_drawn.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onnxgrad.core.state.scope import Scope
from onnxgrad.errors import OnnxGradError
from onnxgrad.pages.pictures import as_pixels
from onnxgrad.training.detection.boxes import objects_of, overlaps
from onnxgrad.training.detection.drawing import background_of, beside, draw_boxes, draw_masks, jpeg_address, mask_names, share_text
from onnxgrad.training.metrics.detection import AveragePrecision
from onnxgrad.training.metrics.epoch import epoch_metric
from onnxgrad.training.surgery.activations import score_kind, score_threshold

if TYPE_CHECKING:
    from onnxgrad.training.trainer import Trainer

__all__ = ["has_masks", "judge_detections", "judge_masks", "loss_alone", "overlap_of_boxes"]

Array = np.ndarray[Any, Any]
_EXAMPLES, _SHOWN, _LARGEST, _LEAST = 2000, 12, 800, 0.25
_SINGLE = ("bce_with_logits", "focal")


class _Shown(NamedTuple):
    """A picture that may be drawn: how well it fits, its number, its pixels, what was predicted, what is true, and its loss"""

    overlap: float
    number: int
    pixels: Array | None
    predicted: Array
    true: Array
    loss: float | None


class _Ends:
    """Keeps the pictures that fit worst and best, and no others."""

    def __init__(self) -> None:
        self.worst: list[_Shown] = []
        self.best: list[_Shown] = []

    def add(self, shown: _Shown) -> None:
        self.worst = sorted([*self.worst, shown], key=lambda one: (one.overlap, one.number))[:_SHOWN]
        self.best = sorted([*self.best, shown], key=lambda one: (-one.overlap, one.number))[:_SHOWN]

    def wants(self, overlap: float) -> bool:
        """Whether a picture that fits as well as this would be kept"""
        full = len(self.worst) == _SHOWN
        return not full or overlap < self.worst[-1].overlap or overlap > self.best[-1].overlap

    def entries(self, drawn: str, draw: Callable[[_Shown], str], said: Callable[[Array], str]) -> dict[str, list[dict[str, Any]]]:
        def entry(shown: _Shown) -> dict[str, Any]:
            entry: dict[str, Any] = {"number": shown.number, "overlap": shown.overlap, "loss": shown.loss}
            entry |= {"predicted": said(shown.predicted), "target": said(shown.true)}
            if shown.pixels is None:
                return {**entry, "row": []}
            return {**entry, "picture": draw(shown), "drawn": drawn}

        return {"worst": [entry(shown) for shown in self.worst], "best": [entry(shown) for shown in self.best]}


def judge_detections(trainer: Trainer, data: Any, batch_size: int) -> dict[str, Any]:
    """Summarise the first 2,000 pictures of a detector: average precision by class, and the worst and best pictures drawn."""
    detector = trainer.model.detection
    assert detector is not None
    names = getattr(data, "classes", {}).get(detector.column) or detector.classes
    ends, precision, counts, count = _Ends(), AveragePrecision(), np.zeros(0, np.int64), 0
    scope = trainer.averaged()
    for feed, size in _batches(trainer, data, batch_size):
        raw = trainer.executor.run(trainer.evaluation, feed, detector.reads, scope=scope)
        for i, (rows, targets) in enumerate(zip(detector.detections(raw, feed), feed[detector.column], strict=True)):
            objects = objects_of(targets)
            precision.add(rows, targets)
            seen = np.bincount(objects[:, 0].astype(np.int64), minlength=len(counts))
            counts = seen + np.pad(counts, (0, len(seen) - len(counts)))
            sure = rows[rows[:, 1] >= _LEAST]
            overlap = overlap_of_boxes(sure, objects)
            if ends.wants(overlap):
                ends.add(_Shown(overlap, count + i, _pixels(feed, i), sure, objects, loss_alone(trainer, feed, i, size, scope)))
        count += size
    if not count:
        raise OnnxGradError("there are no examples with a loss of their own.")
    half, whole = precision.of_classes(0.5), precision.of_classes()
    table = [[_name(k, names), int(counts[k]), half[k], whole[k]] for k in whole]
    return {
        "count": count,
        "said": f"dashed boxes are the true ones; predictions from a probability of {_LEAST} on are shown",
        "table": {"title": "Average precision", "head": ["class", "objects", "map50", "map"], "rows": table},
        **ends.entries("boxes", lambda shown: _with_boxes(shown, names), lambda rows: _counted(rows, names)),
    }


def overlap_of_boxes(detections: Array, objects: Array) -> float:
    """Compute the mean overlap of objects with the detections that take them, where what is missed or found for nothing counts 0.

    Args:
        detections: [D, 6], class, score, left, top, right, bottom; the surest first takes the free object of its class that it
            overlaps most.
        objects: [M, 5], class, left, top, right, bottom.

    Returns:
        1 where there is nothing to find and nothing was found.

    Example:
        >>> overlap_of_boxes(np.array([[0, 0.9, 0, 0, 4, 4], [0, 0.8, 7, 7, 9, 9]]), np.array([[0, 0, 0, 4, 2]]))
        0.25
    """
    shared = overlaps(detections[:, 2:], objects[:, 1:]) * (detections[:, :1] == objects[:, 0])
    total, taken = 0.0, 0
    for i in np.argsort(-detections[:, 1], kind="stable") if len(objects) else ():
        best = int(shared[i].argmax())
        if shared[i, best] > 0:
            total, taken = total + float(shared[i, best]), taken + 1
            shared[:, best] = 0.0
    of = len(detections) + len(objects) - taken
    return total / of if of else 1.0


def has_masks(trainer: Trainer) -> bool:
    """Return whether the first output holds masks [batch, classes, height, width], and its target says what they are to be."""
    output, loss = trainer.model.outputs[0], trainer.terms[0].loss
    return output.rank == 4 and loss in ("cross_entropy", "dice", *_SINGLE)


def judge_masks(trainer: Trainer, data: Any, batch_size: int) -> dict[str, Any]:
    """Summarise the first 2,000 pictures of a segmenter: intersection over union by class, worst and best pictures drawn."""
    model = trainer.model
    name, output = model.terms[0].target, model.outputs[0]
    is_single = output.dims is not None and output.dims[1] == 1
    names = mask_names(getattr(data, "classes", {}).get(name), 1 if is_single else None)
    kind = score_kind(output)
    threshold = score_threshold(kind)
    ends, all_pairs, count = _Ends(), epoch_metric("mean_iou", kind), 0
    scope, background = trainer.averaged(), background_of(names)
    for feed, size in _batches(trainer, data, batch_size):
        (scores,) = trainer.executor.run(trainer.evaluation, feed, [output.name], scope=scope)
        y, target = model.classes_second(scores, feed[name])
        all_pairs.add(y, target)
        for i in range(size):
            own = epoch_metric("mean_iou", kind)
            own.add(y[i : i + 1], target[i : i + 1])
            shares = own.shares()
            overlap = float(np.mean(list(shares.values()))) if shares else 1.0
            if not ends.wants(overlap):
                continue
            exclusive = target.ndim < y.ndim
            predicted = y[i].argmax(axis=0) if exclusive else y[i] > threshold
            true = np.asarray(target[i], np.int64) if exclusive else np.asarray(target[i]) > 0.5
            if is_single and not exclusive:
                predicted, true = predicted[0].astype(np.int64), true[0].astype(np.int64)
            pixels = _pixels(feed, i)
            ends.add(_Shown(overlap, count + i, pixels, predicted, true, loss_alone(trainer, feed, i, size, scope)))
        count += size
    if not count:
        raise OnnxGradError("there are no examples with a loss of their own.")
    table = [[_name(k, names), share] for k, share in all_pairs.shares().items()]
    return {
        "count": count,
        "said": "classes and their shares of the picture",
        "table": {"title": "Intersection over union", "head": ["class", "iou"], "rows": table},
        **ends.entries(
            "masks", lambda shown: _with_masks(shown, names, background), lambda masks: _shares(masks, names, background)
        ),
    }


def loss_alone(trainer: Trainer, feed: Mapping[str, Any], i: int, size: int, scope: Scope) -> float | None:
    """Compute the loss of one example of a batch by running it alone; None where the model takes whole batches only."""
    row = {name: array[i : i + 1] if np.ndim(array) and len(array) == size else array for name, array in feed.items()}
    try:
        return float(np.asarray(trainer.executor.run(trainer.evaluation, row, [trainer.loss.name], scope=scope)[0]).reshape(()))
    except OnnxGradError:
        return None


# Parts ---------------------------------------------------------------------------------------------------------------


def _batches(trainer: Trainer, data: Any, batch_size: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Batches as they are fed, until enough examples were seen"""
    count = 0
    for batch in data.batches(batch_size, shuffle=False):
        feed = trainer.model.feed_of(batch, trainer.executor, trainer.averaged())
        size = len(next(iter(feed.values())))
        yield feed, size
        count += size
        if count >= _EXAMPLES:
            return


def _pixels(feed: Mapping[str, Any], i: int) -> Array | None:
    """The first input of an example that looks like a picture"""
    arrays = (np.asarray(array) for array in feed.values() if np.ndim(array) in (3, 4))
    found = (as_pixels(array[i], max(array.shape)) for array in arrays)
    return next((pixels for pixels in found if pixels is not None), None)


def _name(kind: int, names: Sequence[str] | None) -> str:
    return str(names[kind]) if names is not None and kind < len(names) else f"class {kind}"


def _counted(rows: Array, names: Sequence[str] | None) -> str:
    """2 cat, 1 dog"""
    kinds, counts = np.unique(rows[:, 0].astype(np.int64), return_counts=True)
    return ", ".join(f"{n} {_name(int(k), names)}" for k, n in zip(kinds, counts, strict=True)) or "nothing"


def _shares(masks: Array, names: Sequence[str] | None, background: int | None) -> str:
    """cat 31 %, dog 2 %"""
    if masks.ndim == 3:
        shares = dict(enumerate(masks.mean(axis=(1, 2))))
    else:
        kinds, counts = np.unique(masks[masks >= 0], return_counts=True)
        shares = {int(k): n / masks.size for k, n in zip(kinds, counts, strict=True) if k != background}
    return ", ".join(f"{_name(k, names)} {share_text(share)}" for k, share in shares.items() if share > 0) or "nothing"


def _with_boxes(shown: _Shown, names: Sequence[str] | None) -> str:
    assert shown.pixels is not None
    return _address(draw_boxes(shown.pixels, shown.predicted, shown.true, names))


def _with_masks(shown: _Shown, names: Sequence[str] | None, background: int | None) -> str:
    assert shown.pixels is not None
    sides = (("true", shown.true), ("predicted", shown.predicted))
    return _address(beside([(title, draw_masks(shown.pixels, masks, names, background, smallest=240)) for title, masks in sides]))


def _address(image: Any) -> str:
    """Drawn at full size, then made smaller, so that lines and labels stay smooth"""
    image.thumbnail((_LARGEST, _LARGEST))
    return jpeg_address(image)
