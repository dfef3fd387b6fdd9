"""Assignments against brute force on small cases, and their properties."""

import itertools
import sys

import numpy as np
import pytest

from onnxgrad.errors import ArgumentError, DataError, OnnxGradError
from onnxgrad.training.detection.assignment import detr_costs, hungarian, match_anchors, match_priors, task_aligned
from onnxgrad.training.detection.boxes import centre_form, corner_form, generalized_overlaps, overlaps
from onnxgrad.training.detection.decoding import cell_centres


def objects(rng, count, classes=3, most=40):
    corner = rng.uniform(0, most - 10, (count, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(6, 25, (count, 2))], axis=1)
    return np.concatenate([rng.integers(0, classes, (count, 1)), boxes], axis=1)


# Task-aligned --------------------------------------------------------------------------------------------------------


def by_the_book(scores, boxes, anchors, truth, top_k, alpha, beta):
    """TOOD, one pair at a time"""
    pairs = {}
    for m, (kind, *box) in enumerate(truth):
        fits = []
        for a, (x, y) in enumerate(anchors):
            if box[0] < x < box[2] and box[1] < y < box[3]:
                iou = overlaps(boxes[a][None], np.array([box]))[0, 0]
                fits.append((scores[a, int(kind)] ** alpha * iou**beta, iou, a))
        pairs[m] = sorted(fits, key=lambda fit: -fit[0])[:top_k]
    owner = {}
    for m, fits in pairs.items():
        for _, iou, a in fits:
            if a not in owner or iou > owner[a][1]:
                owner[a] = (m, iou)
    targets = np.zeros_like(scores)
    for m, fits in pairs.items():
        own = [fit for fit in fits if owner[fit[2]][0] == m]
        if own:
            largest, best = max(fit[0] for fit in own), max(fit[1] for fit in own)
            for metric, _, a in own:
                targets[a, int(truth[m][0])] = metric / largest * best if largest else 0
    return targets, {a: m for a, (m, _) in owner.items()}


@pytest.mark.parametrize("seed", range(12))
def test_task_aligned_is_the_definition(seed):
    rng = np.random.default_rng(seed)
    anchors, _ = cell_centres([(5, 5), (3, 3)], [8, 16])
    truth = objects(rng, seed % 5)
    scores = rng.uniform(0, 1, (len(anchors), 3))
    boxes = np.concatenate(
        [anchors - rng.uniform(1, 15, (len(anchors), 2)), anchors + rng.uniform(1, 15, (len(anchors), 2))], axis=1
    )
    padded = np.concatenate([truth, np.full((2, 5), -1.0)])
    for top_k, alpha, beta in ((10, 0.5, 6.0), (3, 1.0, 2.0)):
        answer = task_aligned(scores, boxes, anchors, padded, top_k, alpha, beta)
        expected, owner = by_the_book(scores, boxes, anchors, truth, top_k, alpha, beta)
        np.testing.assert_allclose(answer.target_scores, expected, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(answer.weights, expected.sum(axis=1), rtol=1e-5, atol=1e-7)
        for a in range(len(anchors)):
            assert answer.objects[a] == owner.get(a, -1)
            np.testing.assert_allclose(answer.target_boxes[a], truth[owner[a], 1:] if a in owner else np.zeros(4), rtol=1e-6)


def test_task_aligned_gives_an_object_no_more_than_its_share_and_only_anchors_within_it():
    rng = np.random.default_rng(3)
    anchors, _ = cell_centres([(8, 8)], [8])
    truth = objects(rng, 6, most=60)
    boxes = np.concatenate([anchors - 9, anchors + 9], axis=1)
    answer = task_aligned(rng.uniform(0, 1, (64, 3)), boxes, anchors, truth, top_k=4)
    for m, box in enumerate(truth[:, 1:]):
        own = anchors[answer.objects == m]
        assert len(own) <= 4 and (own > box[:2]).all() and (own < box[2:]).all()
    assert ((answer.weights > 0) <= (answer.objects >= 0)).all() and answer.target_scores.max() <= 1
    assert answer.target_scores.dtype == answer.target_boxes.dtype == answer.weights.dtype == np.float32


def test_task_aligned_refuses_what_does_not_fit():
    scores, boxes, anchors = np.zeros((2, 3)), np.zeros((2, 4)), np.zeros((2, 2))
    with pytest.raises(ArgumentError, match=r"anchors \[1, 2\]"):
        task_aligned(scores, boxes, anchors[:1], np.zeros((0, 5)))
    with pytest.raises(DataError, match="class 3"):
        task_aligned(scores, boxes, anchors, np.array([[3, 0, 0, 1, 1]]))


# Anchors of a layer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_anchors_are_matched_by_sides_and_cells(seed, neighbours):
    rng = np.random.default_rng(seed)
    truth, anchors = objects(rng, 7), rng.uniform(3, 60, (3, 2))
    truth[0, 1:] = [-4, 10, 4, 22]  # a centre on the left edge
    truth[1, 1:] = [36, 36, 44, 44]  # and one on the corner of the layer
    # a row for each cell and anchor of the layer, in an order that no exporter writes
    order = rng.permutation(75)
    which, row, column = (v[order] for v in np.unravel_index(np.arange(75), (3, 5, 5)))
    points, cells = np.stack([column, row], axis=1) * 8.0 + 4, np.full((75, 2), 8.0)
    match = match_anchors(truth, anchors[which], points, cells, ratio=2.5, neighbours=neighbours)
    expected = set()
    for m, box in enumerate(truth[:, 1:]):
        x, y, width, height = centre_form(box)
        for k, (wide, high) in enumerate(anchors):
            if max(width / wide, wide / width, height / high, high / height) >= 2.5:
                continue
            at_x, at_y = min(int(x // 8), 4), min(int(y // 8), 4)
            places = [(at_y, at_x)]
            if neighbours:
                places.append((at_y, at_x - 1 if x / 8 - at_x < 0.5 else at_x + 1))
                places.append((at_y - 1 if y / 8 - at_y < 0.5 else at_y + 1, at_x))
            expected |= {(k, r, c, m) for r, c in places if 0 <= r < 5 and 0 <= c < 5}
    pairs = [(int(which[a]), int(row[a]), int(column[a]), int(m)) for a, m in zip(*np.nonzero(match), strict=True)]
    assert set(pairs) == expected and len(pairs) == len(expected)


def test_a_centre_in_the_middle_of_its_cell_has_no_nearer_neighbour():
    points = np.stack(np.meshgrid([4.0, 12, 20, 28], [4.0, 12, 20, 28]), axis=-1).reshape(-1, 2)
    match = match_anchors(np.array([[0, 8, 8, 16, 16.0]]), np.full((16, 2), 8.0), points, np.full((16, 2), 8.0))
    assert np.flatnonzero(match).tolist() == [5]


def test_no_anchor_answers_for_sides_that_differ_by_the_factor_or_more():
    points, cells = np.array([[8.0, 8.0]]), np.array([[16.0, 16.0]])
    for sides, fits in (((15.9, 4.1), True), ((16, 4), False), ((4, 1), False), ((1, 4), False), ((1.01, 4), True)):
        box = [0, 8 - sides[0] / 2, 8 - sides[1] / 2, 8 + sides[0] / 2, 8 + sides[1] / 2]
        assert match_anchors(np.array([box]), np.array([[4.0, 4.0]]), points, cells)[0, 0] == fits, sides
    assert match_anchors(np.zeros((0, 5)), np.array([[4.0, 4.0]]), points, cells).shape == (1, 0)


# Priors --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_priors_answer_for_what_they_overlap_most(seed):
    rng = np.random.default_rng(seed)
    truth, priors = objects(rng, seed % 4 + 1), objects(rng, 30)[:, 1:]
    shared = overlaps(priors, truth[:, 1:])
    for threshold, background, best_prior in ((0.5, None, True), (0.6, 0.3, False)):
        match = match_priors(np.concatenate([truth, np.full((1, 5), -1.0)]), priors, threshold, background, best_prior)
        expected = np.where(shared.max(1) >= threshold, shared.argmax(1), -1)
        if background is not None:
            expected[(shared.max(1) < threshold) & (shared.max(1) >= background)] = -2
        own = {}
        pairs = sorted(itertools.product(range(30), range(len(truth))), key=lambda pair: -shared[pair])
        for a, m in pairs if best_prior else ():
            if shared[a, m] > 0 and a not in own and m not in own.values():
                own[a] = m
        for a, m in own.items():
            expected[a] = m
        np.testing.assert_array_equal(match.objects, expected)
        for a, m in enumerate(expected):
            assert match.classes[a] == (truth[m, 0] if m >= 0 else m)
            np.testing.assert_allclose(match.boxes[a], truth[m, 1:] if m >= 0 else np.zeros(4), rtol=1e-6)


def test_an_object_that_no_prior_meets_has_none_and_a_picture_of_nothing_is_background():
    priors = np.array([[0, 0, 4, 4], [4, 4, 8, 8.0]])
    assert match_priors(np.array([[0, 20, 20, 30, 30]]), priors).objects.tolist() == [-1, -1]
    assert match_priors(np.zeros((0, 5)), priors).classes.tolist() == [-1, -1]
    # 0 as the background's threshold is one, and not none
    assert match_priors(np.array([[0, 0, 0, 4, 1]]), priors, background=0.0, best_prior=False).objects.tolist() == [-2, -2]


# Queries -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_hungarian_is_the_best_of_all_pairings(seed):
    rng = np.random.default_rng(seed)
    costs = rng.normal(0, 1, (5, seed % 6))
    rows, columns = hungarian(costs)
    best = min(
        (costs[list(chosen), list(range(costs.shape[1]))].sum() for chosen in itertools.permutations(range(5), costs.shape[1])),
        default=0.0,
    )
    assert costs[rows, columns].sum() == pytest.approx(best)
    assert len(set(rows.tolist())) == len(set(columns.tolist())) == costs.shape[1]


def test_costs_that_are_not_finite_and_a_missing_scipy_are_named(monkeypatch):
    with pytest.raises(DataError, match="not finite"):
        hungarian(np.array([[np.nan]]))
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(OnnxGradError, match="scipy"):
        hungarian(np.zeros((1, 1)))


@pytest.mark.parametrize("sigmoid", [False, True])
def test_costs_of_queries_are_those_of_the_paper(sigmoid):
    rng = np.random.default_rng(5)
    logits, truth = rng.normal(0, 2, (6, 4)), objects(rng, 3)
    truth[:, 1:3], truth[:, 3:] = rng.uniform(0, 0.5, (3, 2)), rng.uniform(0.5, 1, (3, 2))
    boxes = np.concatenate([rng.uniform(0.3, 0.7, (6, 2)), rng.uniform(0.1, 0.6, (6, 2))], axis=1)
    costs = detr_costs(logits, boxes, truth, 2.0, 5.0, 3.0, sigmoid)
    for q, m in np.ndindex(6, 3):
        kind = int(truth[m, 0])
        p = 1 / (1 + np.exp(-logits[q, kind])) if sigmoid else np.exp(logits[q, kind]) / np.exp(logits[q]).sum()
        cost = -0.25 * (1 - p) ** 2 * np.log(p) + 0.75 * p**2 * np.log(1 - p) if sigmoid else -p
        apart = np.abs(boxes[q] - centre_form(truth[m, 1:])).sum()
        giou = generalized_overlaps(corner_form(boxes[q][None]), truth[m : m + 1, 1:])[0, 0]
        assert costs[q, m] == pytest.approx(2 * cost + 5 * apart - 3 * giou, rel=1e-9)
    assert detr_costs(logits, boxes, np.zeros((0, 5))).shape == (6, 0)
