"""Which anchor, cell, prior or query answers for which object, computed on the host and fed as columns, as a teacher's answers are.

Each function takes one picture. What it returns are constants of the loss: no gradient passes through an assignment.

Tests: tests/training/detection/test_assignment.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onnxgrad.errors import ArgumentError, DataError, OnnxGradError
from onnxgrad.training.detection.boxes import centre_form, corner_form, generalized_overlaps, objects_of, overlaps

__all__ = [
    "PriorMatch", "TaskAligned", "detr_costs", "hungarian", "match_anchors", "match_priors", "task_aligned",
]  # fmt: skip

Array = np.ndarray[Any, Any]


class TaskAligned(NamedTuple):
    """What the anchors of a picture are to say.

    Attributes:
        target_scores: float32 [A, C].
        target_boxes: float32 [A, 4]; zeros where the anchor answers for no object.
        weights: float32 [A], the sum of its scores: 0 where it answers for none.
        objects: int64 [A], the number of the object among those of the picture; -1 for none.
    """

    target_scores: Array
    target_boxes: Array
    weights: Array
    objects: Array


def task_aligned(
    scores: Array, boxes: Array, anchors: Array, targets: Array, top_k: int = 10, alpha: float = 0.5, beta: float = 6.0
) -> TaskAligned:
    """Assign each object the anchors within it whose class and box fit best: score^alpha overlap^beta.

    Feng et al., "TOOD: Task-aligned One-stage Object Detection", 2021. An anchor that several objects want answers for the one
    that it overlaps most. The score that it is to have is its alignment over the best alignment of its object, times the best
    overlap of that object with its anchors. An object within which no anchor lies gets none.

    Args:
        scores: [A, C], probabilities that the model gives now.
        boxes: [A, 4], left, top, right, bottom, that it gives now, in the unit of the targets.
        anchors: [A, 2], x and y of the centres of the cells.
        targets: [M, 5], class, left, top, right, bottom; a class below 0 fills up. M may be 0.
        top_k: how many anchors an object gets at most.
        alpha: power of the score.
        beta: power of the overlap.

    Raises:
        ArgumentError: if the sizes differ.
        DataError: if a class is not below C.

    Example:
        >>> boxes = np.array([[0, 0, 4, 4], [4, 0, 8, 4.0]])
        >>> scores, anchors = np.array([[0.9, 0.1], [0.2, 0.2]]), np.array([[2.0, 2.0], [6.0, 2.0]])
        >>> answer = task_aligned(scores, boxes, anchors, np.array([[0, 0, 0, 4, 4]]))
        >>> answer.target_scores.tolist(), answer.objects.tolist()
        ([[1.0, 0.0], [0.0, 0.0]], [0, -1])
    """
    scores, boxes, anchors = (np.asarray(v, np.float64) for v in (scores, boxes, anchors))
    count, classes = scores.shape
    if boxes.shape != (count, 4) or anchors.shape != (count, 2):
        sizes = f"scores {list(scores.shape)}, boxes {list(boxes.shape)}, anchors {list(anchors.shape)}"
        raise ArgumentError(f"task_aligned takes scores [A, C], boxes [A, 4] and anchors [A, 2], not {sizes}. Reshape them.")
    truth = objects_of(targets)
    kinds = _classes(truth, classes)
    target_scores, target_boxes = np.zeros((count, classes), np.float32), np.zeros((count, 4), np.float32)
    weights = np.zeros(count, np.float32)
    if not len(truth) or not count:
        return TaskAligned(target_scores, target_boxes, weights, np.full(count, -1))
    corners = truth[:, 1:]
    inside = (anchors[None] > corners[:, None, :2]).all(axis=2) & (anchors[None] < corners[:, None, 2:]).all(axis=2)
    overlap = np.where(inside, overlaps(corners, boxes), 0.0)
    alignment = np.where(inside, scores[:, kinds].T ** alpha * overlap**beta, 0.0)
    best = np.argsort(np.where(inside, -alignment, np.inf), axis=1, kind="stable")[:, :top_k]
    chosen = np.zeros_like(inside)
    np.put_along_axis(chosen, best, True, axis=1)
    chosen &= inside
    wanted = chosen.sum(axis=0)
    owner = np.where(chosen, overlap, -1.0).argmax(axis=0)
    objects = np.where(wanted > 0, owner, -1)
    kept = chosen & (np.arange(len(truth))[:, None] == objects)
    alignment, overlap = np.where(kept, alignment, 0.0), np.where(kept, overlap, 0.0)
    largest, fit = alignment.max(axis=1, keepdims=True), overlap.max(axis=1, keepdims=True)
    score = (alignment / np.where(largest > 0, largest, 1.0) * fit).max(axis=0)
    has = np.flatnonzero(objects >= 0)
    target_scores[has, kinds[objects[has]]] = score[has]
    target_boxes[has] = corners[objects[has]]
    weights[has] = score[has]
    return TaskAligned(target_scores, target_boxes, weights, objects)


def match_anchors(
    targets: Array, anchors: Array, points: Array, cells: Array, ratio: float = 4.0, neighbours: bool = True
) -> Array:
    """Match objects with the anchors whose sides differ from theirs by less than a factor, in the cell of the centre.

    So YOLOv5 does. The nearer neighbour of the cell answers too, along x and along y, where there is one. A centre beyond an
    edge counts as on it. An object whose sides fit no anchor has none.

    Args:
        targets: [M, 5], class, left, top, right, bottom in pixels; a class below 0 fills up.
        anchors: [A, 2], widths and heights.
        points: [A, 2], the centres of their cells.
        cells: [A, 2], widths and heights of the cells.
        ratio: the factor.
        neighbours: whether neighbours answer.

    Returns:
        bool [A, objects].

    Example:
        >>> points = np.array([[4, 4], [12, 4], [20, 4]])
        >>> match = match_anchors(np.array([[0, 0, 0, 18, 8]]), np.full((3, 2), 16), points, np.full((3, 2), 8))
        >>> match[:, 0].tolist()
        [True, True, False]
    """
    truth, anchors, points, cells = objects_of(targets), *(np.asarray(v, np.float64) for v in (anchors, points, cells))
    if not len(truth) or not len(anchors):
        return np.zeros((len(anchors), len(truth)), bool)
    centred = centre_form(truth[:, 1:])
    sides = np.maximum(centred[:, 2:], 1e-9)[None] / anchors[:, None]
    fits = np.maximum(sides, 1 / sides).max(axis=2) < ratio
    # how many cells the centre lies from that of the anchor's; the cell holds its left and upper edge
    middles = np.clip(centred[:, :2], (points - cells / 2).min(axis=0), (points + (0.5 - 1e-6) * cells).max(axis=0))
    apart = (middles[None] - points[:, None]) / cells[:, None]
    inside = (apart >= -0.5) & (apart < 0.5)
    beside = np.abs(apart) < 1
    answers = inside.all(axis=2)
    if neighbours:
        answers = answers | (inside[..., 0] & beside[..., 1]) | (beside[..., 0] & inside[..., 1])
    matched: Array = fits & answers
    return matched


class PriorMatch(NamedTuple):
    """What the priors of a picture are to say.

    Attributes:
        objects: int64 [A], the number of the object; -1 for background, -2 for a prior that does not count.
        classes: int64 [A], the class of that object; -1 and -2 as well.
        boxes: float32 [A, 4]; zeros where there is no object.
    """

    objects: Array
    classes: Array
    boxes: Array


def match_priors(
    targets: Array, priors: Array, threshold: float = 0.5, background: float | None = None, best_prior: bool = True
) -> PriorMatch:
    """Match each prior with the object that it overlaps most, where that is at least a threshold.

    Liu et al., "SSD: Single Shot MultiBox Detector", 2016. The best prior of each object answers for it, however small their
    overlap is; each object has one of its own, the pair of the largest overlap first.

    Args:
        targets: [M, 5], class, left, top, right, bottom; a class below 0 fills up.
        priors: [A, 4], left, top, right, bottom in the unit of the targets.
        threshold: the least overlap.
        background: a prior whose largest overlap is at least this and below ``threshold`` does not count; None for ``threshold``.
        best_prior: whether the best prior of each object answers for it.

    Example:
        >>> match = match_priors(np.array([[3, 0, 0, 4, 4]]), np.array([[0, 0, 4, 3], [0, 0, 1, 1], [5, 5, 9, 9]]))
        >>> match.classes
        array([ 3, -1, -1])
    """
    truth, priors = objects_of(targets), np.asarray(priors, np.float64)
    objects = np.full(len(priors), -1)
    if len(truth) and len(priors):
        shared = overlaps(priors, truth[:, 1:])
        largest = shared.max(axis=1)
        undecided = largest >= (threshold if background is None else background)
        objects = np.where(largest >= threshold, shared.argmax(axis=1), np.where(undecided, -2, -1))
        while best_prior and shared.max() > 0:
            prior, number = np.unravel_index(shared.argmax(), shared.shape)
            objects[prior] = number
            shared[prior], shared[:, number] = -1.0, -1.0
    kinds = np.concatenate([truth[:, 0].astype(np.int64), [-2, -1]])[objects]
    boxes = np.where(objects[:, None] >= 0, np.concatenate([truth[:, 1:], np.zeros((2, 4))])[objects], 0.0)
    return PriorMatch(objects, kinds, boxes.astype(np.float32))


def detr_costs(
    logits: Array,
    boxes: Array,
    targets: Array,
    classes: float = 1.0,
    distance: float = 5.0,
    overlap: float = 2.0,
    sigmoid: bool = False,
) -> Array:
    """Compute what it costs that a query answers for an object: its class, the distance of the boxes, and their overlap.

    Carion et al., "End-to-End Object Detection with Transformers", 2020: - classes p[class] + distance |box - target| - overlap
    giou.

    Args:
        logits: [Q, C], where a last class of no object may be among the C.
        boxes: [Q, 4], centre and sides as shares of the picture.
        targets: [M, 5], class, left, top, right, bottom as shares of the picture; a class below 0 fills up.
        classes, distance, overlap: the weights.
        sigmoid: whether each class has a probability of its own; the cost of the class is then the difference of its focal losses
            (alpha 0.25, gamma 2), as in Deformable DETR (Zhu et al. 2021).

    Returns:
        float64 [Q, objects].

    Raises:
        DataError: if a class is not below C.

    Example:
        >>> costs = detr_costs(np.zeros((2, 3)), np.array([[0.5, 0.5, 1, 1], [0.25, 0.25, 0.5, 0.5]]), np.array([[0, 0, 0, 1, 1]]))
        >>> costs.round(3).tolist()
        [[-2.333], [6.667]]
    """
    truth, x = objects_of(targets), np.asarray(logits, np.float64)
    kinds = _classes(truth, x.shape[1])
    if sigmoid:
        positive, negative = np.logaddexp(0, -x), np.logaddexp(0, x)
        p = np.exp(-positive)
        cost = (0.25 * (1 - p) ** 2 * positive - 0.75 * p**2 * negative)[:, kinds]
    else:
        p = np.exp(x - x.max(axis=1, keepdims=True))
        cost = -(p / p.sum(axis=1, keepdims=True))[:, kinds]
    apart = np.abs(np.asarray(boxes, np.float64)[:, None] - centre_form(truth[:, 1:])[None]).sum(axis=2)
    common = generalized_overlaps(corner_form(boxes), truth[:, 1:])
    costs: Array = classes * cost + distance * apart - overlap * common
    return costs


def hungarian(costs: Array) -> tuple[Array, Array]:
    """Find the pairs of row and column, each used once at most, whose costs have the least sum.

    Kuhn 1955; by scipy.

    Args:
        costs: [Q, M].

    Returns:
        Rows, in rising order, and their columns: min(Q, M) of each.

    Raises:
        OnnxGradError: if scipy is missing.
        DataError: if a cost is not finite.

    Example:
        >>> hungarian(np.array([[4, 1.0], [2, 0], [3, 2]]))
        (array([0, 1]), array([1, 0]))
    """
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError as error:
        raise OnnxGradError("the assignment of queries needs the package scipy. Install onnxgrad[detection].") from error
    costs = np.asarray(costs, np.float64)
    if not np.isfinite(costs).all():
        raise DataError(
            "a cost of the assignment is not finite: the model gives boxes or scores that are not. Lower the learning rate."
        )
    rows, columns = linear_sum_assignment(costs)
    return rows, columns


def _classes(truth: Array, classes: int) -> Array:
    """The classes of objects as integers"""
    kinds = truth[:, 0].astype(np.int64)
    if kinds.size and kinds.max() >= classes:
        raise DataError(f"an object has class {kinds.max()}; the model has classes 0 to {classes - 1}. Number them from 0.")
    return kinds
