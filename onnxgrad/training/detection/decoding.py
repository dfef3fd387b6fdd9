"""Cells of a detector's layers, and its detections: what is left of scores and boxes that overlap. In numpy.

Tests: tests/training/detection/test_decoding.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.training.detection.boxes import suppress

__all__ = ["cell_centres", "detections_of"]

Array = np.ndarray[Any, Any]


def cell_centres(sizes: Sequence[tuple[int, int]], strides: Sequence[float]) -> tuple[Array, Array]:
    """Compute the centres of the cells of all layers, row by row, and the stride of each.

    Args:
        sizes: rows and columns of each layer.
        strides: pixels for each cell of a layer.

    Returns:
        float64 centres [A, 2], x and y in pixels, and strides [A].

    Example:
        >>> centres, strides = cell_centres([(1, 2), (1, 1)], [8, 16])
        >>> centres.tolist(), strides.tolist()
        ([[4.0, 4.0], [12.0, 4.0], [8.0, 8.0]], [8.0, 8.0, 16.0])
    """
    centres = []
    for (rows, columns), stride in zip(sizes, strides, strict=True):
        y, x = np.divmod(np.arange(rows * columns), columns)
        centres.append(np.stack([x + 0.5, y + 0.5], axis=1) * stride)
    each = [np.full(len(layer), float(stride)) for layer, stride in zip(centres, strides, strict=True)]
    return np.concatenate(centres), np.concatenate(each)


def detections_of(
    boxes: Array, scores: Array, iou_threshold: float = 0.7, score_threshold: float = 0.001, most: int = 300, before: int = 30_000
) -> Array:
    """Choose the detections of a picture: in each class what overlaps no better box of it by more than a threshold.

    Args:
        boxes: [A, 4], or [A, C, 4] where each class has a box of its own.
        scores: [A, C], probabilities.
        iou_threshold: the largest overlap that two detections of a class may have; 1 or more for no suppression.
        score_threshold: what a score must be above.
        most: detections of the picture, the best ones.
        before: pairs of box and class that are looked at, the best ones.

    Returns:
        float64 [D, 6], class, score, left, top, right, bottom; the best score first.

    Example:
        >>> boxes = np.array([[0, 0, 4, 4], [0, 0, 4, 3.9], [6, 6, 8, 8]])
        >>> detections_of(boxes, np.array([[0.5, 0.3], [0.9, 0], [0, 0.8]]))[:, :2].tolist()
        [[0.0, 0.9], [1.0, 0.8], [1.0, 0.3]]
    """
    boxes, scores = np.asarray(boxes, np.float64), np.asarray(scores, np.float64)
    rows, kinds = np.nonzero(scores > score_threshold)
    if len(rows) > before:
        best = np.argsort(-scores[rows, kinds], kind="stable")[:before]
        rows, kinds = rows[best], kinds[best]
    parts = [np.zeros((0, 6))]
    for kind in np.unique(kinds):
        own = np.sort(rows[kinds == kind])
        at = boxes[own] if boxes.ndim == 2 else boxes[own, kind]
        chosen = suppress(at, scores[own, kind], iou_threshold, most=most)
        score = scores[own[chosen], kind]
        parts.append(np.concatenate([np.stack([np.full(len(chosen), float(kind)), score], axis=1), at[chosen]], axis=1))
    found = np.concatenate(parts)
    return found[np.argsort(-found[:, 1], kind="stable")[:most]]
