"""Cells by hand, and detections by what they promise."""

import numpy as np
import pytest

from onnxgrad.training.detection.boxes import overlaps
from onnxgrad.training.detection.decoding import cell_centres, detections_of

RNG = np.random.default_rng(11)


def test_cells_stand_row_by_row_layer_by_layer():
    centres, strides = cell_centres([(2, 3), (1, 2)], [8, 16])
    assert centres.tolist() == [[4, 4], [12, 4], [20, 4], [4, 12], [12, 12], [20, 12], [8, 8], [24, 8]]
    assert strides.tolist() == [8] * 6 + [16] * 2


@pytest.mark.parametrize("own_boxes", [False, True])
def test_detections_are_the_best_and_overlap_little_within_a_class(own_boxes):
    corner = RNG.uniform(0, 40, (60, 3, 2) if own_boxes else (60, 2))
    boxes, scores = np.concatenate([corner, corner + RNG.uniform(5, 20, corner.shape)], axis=-1), RNG.uniform(0, 1, (60, 3))
    rows = detections_of(boxes, scores, iou_threshold=0.4, score_threshold=0.3)
    assert (np.diff(rows[:, 1]) <= 0).all() and (rows[:, 1] > 0.3).all()
    for kind in range(3):
        own = rows[rows[:, 0] == kind][:, 2:]
        assert (overlaps(own, own) - np.eye(len(own)) <= 0.4).all()
        # what is missing is suppressed by a better one
        for i in np.flatnonzero(scores[:, kind] > 0.3):
            box = (boxes[i, kind] if own_boxes else boxes[i])[None]
            better = rows[(rows[:, 0] == kind) & (rows[:, 1] >= scores[i, kind])][:, 2:]
            assert (overlaps(box, better) > 0.4).any() or (better == box).all(axis=1).any()
    np.testing.assert_array_equal(detections_of(boxes, scores, 0.4, 0.3, most=7), rows[:7])


def test_a_picture_of_nothing_has_no_detection():
    assert detections_of(np.zeros((3, 4)), np.zeros((3, 2))).shape == (0, 6)
    assert detections_of(np.zeros((0, 4)), np.zeros((0, 2))).shape == (0, 6)
