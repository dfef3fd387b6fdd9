"""Arithmetic of boxes in numpy: overlaps, forms, and suppression of boxes that overlap better ones.

A box is left, top, right, bottom; its area is (right - left) (bottom - top), and a side that is negative counts as 0. A detection
is a row of class, score and box; an object of a picture, its truth, is a row of class and box. A class of -1 fills a column up; one
below that, -2 - k, is a crowd of class k: a region whose objects are not told apart, or are too hard.

Tests: tests/training/detection/test_boxes.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.errors import ArgumentError

__all__ = ["centre_form", "corner_form", "covered", "crowds_of", "generalized_overlaps", "objects_of", "overlaps", "suppress"]

Array = np.ndarray[Any, Any]


def overlaps(boxes: Array, others: Array) -> Array:
    """Compute the intersection over the union of each box with each other one, and 0 where the union has no area.

    Args:
        boxes: [A, 4].
        others: [B, 4].

    Returns:
        float64 [A, B].

    Example:
        >>> overlaps(np.array([[0, 0, 2, 2]]), np.array([[1, 0, 3, 2], [5, 5, 6, 6]]))
        array([[0.33333333, 0.        ]])
    """
    common, union = _areas(boxes, others)
    shares: Array = common / np.where(union > 0, union, 1.0)
    return shares


def covered(boxes: Array, regions: Array) -> Array:
    """Compute the share of the area of each box that lies within each region, and 0 where the box has no area.

    Args:
        boxes: [A, 4].
        regions: [B, 4].

    Returns:
        float64 [A, B].

    Example:
        >>> covered(np.array([[0, 0, 2, 2]]), np.array([[1, 0, 9, 9]]))
        array([[0.5]])
    """
    corners = np.asarray(boxes, np.float64)
    common, _ = _areas(boxes, regions)
    areas = np.maximum(corners[:, 2:] - corners[:, :2], 0.0).prod(axis=1)[:, None]
    shares: Array = common / np.where(areas > 0, areas, 1.0)
    return shares


def generalized_overlaps(boxes: Array, others: Array) -> Array:
    """Compute the intersection over the union less the share of the box around both that neither covers, of each pair.

    Rezatofighi et al. 2019.

    Args:
        boxes: [A, 4].
        others: [B, 4].

    Returns:
        float64 [A, B], from -1 to 1.

    Example:
        >>> generalized_overlaps(np.array([[0, 0, 1, 1]]), np.array([[3, 0, 4, 1]]))
        array([[-0.5]])
    """
    common, union = _areas(boxes, others)
    a, b = np.asarray(boxes, np.float64)[:, None], np.asarray(others, np.float64)[None]
    sides = np.maximum(np.maximum(a[..., 2:], b[..., 2:]) - np.minimum(a[..., :2], b[..., :2]), 0.0)
    around = sides[..., 0] * sides[..., 1]
    apart = (around - union) / np.where(around > 0, around, 1.0)
    shares: Array = common / np.where(union > 0, union, 1.0) - apart
    return shares


def _areas(boxes: Array, others: Array) -> tuple[Array, Array]:
    """Intersections and unions of all pairs"""
    a, b = np.asarray(boxes, np.float64)[:, None], np.asarray(others, np.float64)[None]
    sides = np.maximum(np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2]), 0.0)
    common = sides[..., 0] * sides[..., 1]
    own, other = (np.maximum(v[..., 2:] - v[..., :2], 0.0).prod(axis=-1) for v in (a, b))
    return common, own + other - common


def corner_form(boxes: Array) -> Array:
    """Convert boxes [..., 4] from centre and sides to left, top, right, bottom.

    Example:
        >>> corner_form(np.array([5.0, 5.0, 4.0, 2.0]))
        array([3., 4., 7., 6.])
    """
    boxes = np.asarray(boxes)
    half = boxes[..., 2:] / 2
    corners: Array = np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], axis=-1)
    return corners


def centre_form(boxes: Array) -> Array:
    """Convert boxes [..., 4] from left, top, right, bottom to centre and sides.

    Example:
        >>> centre_form(np.array([3.0, 4.0, 7.0, 6.0]))
        array([5., 5., 4., 2.])
    """
    boxes = np.asarray(boxes)
    sides = boxes[..., 2:] - boxes[..., :2]
    centred: Array = np.concatenate([boxes[..., :2] + sides / 2, sides], axis=-1)
    return centred


def objects_of(targets: Array) -> Array:
    """Return the objects of a picture, without the rows that fill a column up.

    Args:
        targets: [M, 5], class, left, top, right, bottom; a class below 0 is no object.

    Returns:
        float64 [objects, 5].

    Raises:
        ArgumentError: if the rows have not five numbers.

    Example:
        >>> objects_of(np.array([[2, 0, 0, 4, 4], [-1, 0, 0, 0, 0]]))
        array([[2., 0., 0., 4., 4.]])
    """
    rows = np.asarray(targets, np.float64)
    if rows.size == 0:
        return np.zeros((0, 5))
    if rows.ndim != 2 or rows.shape[1] != 5:
        raise ArgumentError(f"objects are rows of class, left, top, right, bottom; not of shape {list(rows.shape)}. Reshape them.")
    return rows[rows[:, 0] >= 0]


def crowds_of(targets: Array) -> Array:
    """Return the crowds among the rows of a picture, with the classes of their objects.

    Args:
        targets: [M, 5], class, left, top, right, bottom; a class of -2 - k is a crowd of class k.

    Returns:
        float64 [crowds, 5].

    Example:
        >>> crowds_of(np.array([[2, 0, 0, 4, 4], [-1, 0, 0, 0, 0], [-5, 1, 1, 9, 9]]))
        array([[3., 1., 1., 9., 9.]])
    """
    rows = np.asarray(targets, np.float64).reshape(-1, 5)
    crowds: Array = rows[rows[:, 0] <= -2] * [-1, 1, 1, 1, 1] - [2, 0, 0, 0, 0]
    return crowds


def suppress(
    boxes: Array, scores: Array, iou_threshold: float = 0.5, score_threshold: float | None = None, most: int | None = None
) -> Array:
    """Choose the boxes of one class, the best first, that overlap no better one by more than a threshold.

    So does NonMaxSuppression of ONNX: of equal scores the first box comes first, a score counts above its threshold, and an overlap
    above its own suppresses.

    Args:
        boxes: [A, 4], in any order of the corners.
        scores: [A].
        iou_threshold: the largest overlap that two chosen boxes may have.
        score_threshold: what a score must be above; None for all.
        most: how many are chosen at most; None for all.

    Returns:
        int64 numbers of the boxes.

    Example:
        >>> boxes = np.array([[0, 0, 4, 4], [0, 0, 4, 3.9], [6, 6, 8, 8]])
        >>> suppress(boxes, np.array([0.5, 0.9, 0.8]))
        array([1, 2])
    """
    boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
    corners = np.concatenate([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], axis=1)
    order = np.argsort(-np.asarray(scores), kind="stable")
    if score_threshold is not None:
        order = order[np.asarray(scores)[order] > score_threshold]
    chosen: list[int] = []
    while len(order) and (most is None or len(chosen) < most):
        best, order = order[0], order[1:]
        chosen.append(int(best))
        order = order[overlaps(corners[best : best + 1], corners[order])[0] <= iou_threshold]
    return np.array(chosen, np.int64)
