"""Mean average precision of detections, as COCO defines it.

Tests: tests/training/metrics/test_detection.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.training.detection.boxes import covered, crowds_of, objects_of, overlaps

__all__ = ["AveragePrecision"]

Array = np.ndarray[Any, Any]

_THRESHOLDS = np.linspace(0.5, 0.95, 10)
_LEAST = np.minimum(_THRESHOLDS, 1 - 1e-10)
_RECALLS = np.linspace(0, 1, 101)


class AveragePrecision:
    """Collects detections and objects of pictures, and computes the mean average precision over classes.

    In each picture the best detections of a class, 100 of them, take the objects of that class, the best score first: each the
    free object that it overlaps most, by at least a threshold. Precision over recall, made falling, is averaged at 101 recalls
    (Lin et al., "Microsoft COCO", 2014). Of all objects together: what was added in several parts is what would be added in one.

    Args:
        most: detections of a class in a picture that count.

    Example:
        >>> metric = AveragePrecision()
        >>> detections = np.array([[0, 0.9, 0, 0, 10, 10], [0, 0.6, 50, 50, 60, 60]])
        >>> metric.add(detections, np.array([[0, 0, 0, 10, 9], [1, 20, 20, 40, 40]]))
        >>> round(metric.value(0.5), 3), round(metric.value(), 3)
        (0.5, 0.45)
    """

    def __init__(self, most: int = 100) -> None:
        self.most = most
        self._scores: dict[int, list[Array]] = {}
        self._right: dict[int, list[Array]] = {}
        self._wrong: dict[int, list[Array]] = {}
        self._objects: dict[int, int] = {}

    def add(self, detections: Array, targets: Array) -> None:
        """Match the detections of a picture with its objects.

        Args:
            detections: [D, 6], class, score, left, top, right, bottom; a class below 0 fills up.
            targets: [M, 5], class, left, top, right, bottom. A class of -1 fills up; -2 - k is a crowd of class k: a detection that
                takes no object, and lies within one by a threshold of its own area, counts neither as right nor as wrong.

        Raises:
            DataError: if a score is not a number.
        """
        rows = np.asarray(detections, np.float64).reshape(-1, 6)
        rows = rows[rows[:, 0] >= 0]
        if not np.isfinite(rows[:, 1]).all():
            raise DataError("a detection has a score that is not a number. Look at the outputs of the model.")
        truth, regions = objects_of(targets), crowds_of(targets)
        for kind in np.union1d(rows[:, 0], truth[:, 0]).astype(np.int64).tolist():
            own, objects = rows[rows[:, 0] == kind], truth[truth[:, 0] == kind]
            own = own[np.argsort(-own[:, 1], kind="stable")[: self.most]]
            self._scores.setdefault(kind, []).append(own[:, 1])
            right = _matched(overlaps(own[:, 2:], objects[:, 1:]))
            within = covered(own[:, 2:], regions[regions[:, 0] == kind][:, 1:]).max(axis=1, initial=0.0)
            self._right.setdefault(kind, []).append(right)
            self._wrong.setdefault(kind, []).append(~right & (within < _LEAST[:, None]))
            self._objects[kind] = self._objects.get(kind, 0) + len(objects)

    def of_classes(self, threshold: float | None = None) -> dict[int, float]:
        """Return the average precision of each class that has objects.

        Args:
            threshold: the least overlap, 0.50, 0.55, ..., 0.95; None for the mean over all of these.
        """
        precisions = {kind: self._precision(kind) for kind, count in sorted(self._objects.items()) if count}
        at = slice(None) if threshold is None else [int(np.abs(_THRESHOLDS - threshold).argmin())]
        return {kind: float(precision[at].mean()) for kind, precision in precisions.items()}

    def value(self, threshold: float | None = None) -> float:
        """Return the mean of ``of_classes``; NaN where there is no object."""
        values = list(self.of_classes(threshold).values())
        return float(np.mean(values)) if values else float("nan")

    def _precision(self, kind: int) -> Array:
        """The precision of a class at each recall, averaged, for each threshold"""
        order = np.argsort(-np.concatenate(self._scores[kind]), kind="stable")
        counts = [np.concatenate(parts[kind], axis=1)[:, order] for parts in (self._right, self._wrong)]
        hits, misses = (np.cumsum(each, axis=1, dtype=np.float64) for each in counts)
        recall = hits / self._objects[kind]
        precision = hits / (hits + misses + np.spacing(1))
        precision = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        means = np.zeros(len(_THRESHOLDS))
        for i in range(len(means)):
            at = np.searchsorted(recall[i], _RECALLS, side="left")
            means[i] = precision[i, at[at < len(order)]].sum() / len(_RECALLS)
        return means


def _matched(shared: Array) -> Array:
    """Whether each detection, the best first, takes an object, for each threshold: bool [thresholds, detections]"""
    count, objects = shared.shape
    right = np.zeros((len(_THRESHOLDS), count), bool)
    if not objects:
        return right
    free = np.ones((len(_THRESHOLDS), objects), bool)
    every = np.arange(len(_THRESHOLDS))
    for i in range(count):
        left = np.where(free, shared[i], -1.0)
        # of equal overlaps the last one, as COCO's tools have it
        best = objects - 1 - left[:, ::-1].argmax(axis=1)
        right[:, i] = left[every, best] >= _LEAST
        free[every[right[:, i]], best[right[:, i]]] = False
    return right
