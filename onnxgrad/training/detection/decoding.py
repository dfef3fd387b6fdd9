"""What the numbers of a detector's outputs mean, in numpy: cells, distances, offsets, and detections.

Boxes are left, top, right, bottom. Each way back from boxes to numbers stands beside the way to them.

Tests: tests/training/detection/test_decoding.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.training.detection.boxes import centre_form, corner_form, suppress

__all__ = [
    "boxes_of_distances", "boxes_of_offsets", "cell_centres", "detections_of", "distances_of_boxes", "expected_distances",
    "offsets_of_boxes",
]  # fmt: skip

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


def expected_distances(logits: Array) -> Array:
    """Compute the mean of softmax over bins 0, 1, ... along the last axis, as a head with distributions (DFL) does.

    Example:
        >>> expected_distances(np.array([0.0, 0.0, 0.0]))
        array(1.)
    """
    x = np.asarray(logits, np.float64)
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray((p / p.sum(axis=-1, keepdims=True)) @ np.arange(x.shape[-1]))


def boxes_of_distances(distances: Array, centres: Array, strides: Array | float = 1.0) -> Array:
    """Convert distances [..., A, 4] from centres to the left, top, right and bottom side, in strides, to boxes in pixels.

    Example:
        >>> boxes_of_distances(np.array([[1, 1, 2, 2]]), np.array([[20.0, 20.0]]), 8)
        array([[12., 12., 36., 36.]])
    """
    apart = np.asarray(distances) * np.reshape(strides, (-1, 1))
    boxes: Array = np.concatenate([centres - apart[..., :2], centres + apart[..., 2:]], axis=-1)
    return boxes


def distances_of_boxes(boxes: Array, centres: Array, strides: Array | float = 1.0) -> Array:
    """Convert boxes [..., A, 4] in pixels to distances from centres, in strides; below 0 where the centre is not inside.

    Example:
        >>> distances_of_boxes(np.array([[12, 12, 36, 36.0]]), np.array([[20.0, 20.0]]), 8)
        array([[1., 1., 2., 2.]])
    """
    boxes = np.asarray(boxes)
    apart = np.concatenate([centres - boxes[..., :2], boxes[..., 2:] - centres], axis=-1)
    distances: Array = apart / np.reshape(strides, (-1, 1))
    return distances


def boxes_of_offsets(offsets: Array, priors: Array, variances: tuple[float, float] = (0.1, 0.2)) -> Array:
    """Convert what an SSD says of its priors to boxes: the centre moves by shares of the sides, which grow exponentially.

    Args:
        offsets: [..., A, 4], of centre x, centre y, width, height.
        priors: [A, 4], left, top, right, bottom.
        variances: factors of the first two and of the last two.

    Example:
        >>> boxes_of_offsets(np.array([[10.0, 0, 0, 0]]), np.array([[0.0, 0, 2, 2]]))
        array([[2., 0., 4., 2.]])
    """
    offsets, own = np.asarray(offsets, np.float64), centre_form(priors)
    centre = own[..., :2] + offsets[..., :2] * variances[0] * own[..., 2:]
    return corner_form(np.concatenate([centre, own[..., 2:] * np.exp(offsets[..., 2:] * variances[1])], axis=-1))


def offsets_of_boxes(boxes: Array, priors: Array, variances: tuple[float, float] = (0.1, 0.2)) -> Array:
    """Convert boxes [..., A, 4] to what an SSD is to say of its priors; sides below 1e-6 count as that.

    Example:
        >>> offsets_of_boxes(np.array([[2.0, 0, 4, 2]]), np.array([[0.0, 0, 2, 2]]))
        array([[10.,  0.,  0.,  0.]])
    """
    wanted, own = centre_form(np.asarray(boxes, np.float64)), centre_form(np.asarray(priors, np.float64))
    moved = (wanted[..., :2] - own[..., :2]) / own[..., 2:] / variances[0]
    grown = np.log(np.maximum(wanted[..., 2:], 1e-6) / own[..., 2:]) / variances[1]
    offsets: Array = np.concatenate([moved, grown], axis=-1)
    return offsets


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
