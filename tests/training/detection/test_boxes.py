"""Overlaps by counting cells of a grid; suppression as NonMaxSuppression of ONNX does it."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad import static
from onnxgrad.core.ir.builder import Builder
from onnxgrad.errors import ArgumentError
from onnxgrad.training.detection.boxes import centre_form, corner_form, generalized_overlaps, objects_of, overlaps, suppress

RNG = np.random.default_rng(12)


def whole_boxes(count, most=8):
    corner = RNG.integers(0, most, (count, 2))
    return np.concatenate([corner, corner + RNG.integers(0, most, (count, 2))], axis=1)


def cells(box):
    return {(x, y) for x in range(box[0], box[2]) for y in range(box[1], box[3])}


def test_overlaps_are_those_by_counting():
    boxes, others = whole_boxes(30), whole_boxes(20)
    shared, general = overlaps(boxes, others), generalized_overlaps(boxes, others)
    for i, j in np.ndindex(30, 20):
        a, b = cells(boxes[i]), cells(others[j])
        iou = len(a & b) / len(a | b) if a | b else 0
        assert shared[i, j] == pytest.approx(iou)
        pair = np.stack([boxes[i], others[j]])
        around = np.prod(pair[:, 2:].max(0) - pair[:, :2].min(0))
        assert general[i, j] == pytest.approx(iou - (around - len(a | b)) / around if around else iou)


def test_forms_lead_back():
    boxes = whole_boxes(9)
    np.testing.assert_array_equal(corner_form(centre_form(boxes)), boxes)


def test_rows_that_fill_up_are_no_objects():
    rows = np.array([[1, 0, 0, 2, 2], [-1, 0, 0, 0, 0], [0, 1, 1, 3, 3]])
    assert objects_of(rows)[:, 0].tolist() == [1, 0]
    assert objects_of(np.zeros((0, 5))).shape == objects_of([]).shape == (0, 5)
    with pytest.raises(ArgumentError, match=r"\[3, 4\]"):
        objects_of(np.zeros((3, 4)))


@pytest.mark.parametrize("most", [3, 200])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7, 1.0])
def test_suppression_is_that_of_onnx(threshold, most):
    """With equal scores, equal boxes, corners in any order, and boxes without area"""
    boxes = whole_boxes(80).astype(np.float32)
    boxes[40:50] = boxes[:10]
    boxes[60:] = boxes[60:, [2, 3, 0, 1]]
    scores = RNG.uniform(0, 1, 80).round(1).astype(np.float32)
    program = static.Program()
    with static.program_guard(program, static.Program()):
        b, s = static.data("b", [1, None, 4]), static.data("s", [1, 1, None])
        op = Builder(program.global_block())
        rows = op.NonMaxSuppression(b, s, np.array([most]), np.array([threshold], np.float32), np.array([0.25], np.float32))
    (expected,) = static.Executor(og.CPUPlace()).run(program, {"b": boxes[None], "s": scores[None, None]}, [rows])
    chosen = suppress(boxes, scores, np.float32(threshold), 0.25, most)
    assert chosen.tolist() == np.asarray(expected)[:, 2].tolist()
