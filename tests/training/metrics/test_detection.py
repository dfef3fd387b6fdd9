"""Average precision against what COCO's own tool said of random pictures, and says where it is installed."""

import importlib.util
import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from onnxgrad.errors import DataError
from onnxgrad.training.metrics.detection import AveragePrecision

ROOT = Path(__file__).parents[3]
RECORDED = json.loads((ROOT / "tests" / "data" / "detection.json").read_text())["average_precision"]


def judged(pictures):
    metric = AveragePrecision()
    for picture in pictures:
        metric.add(np.array(picture["detections"]).reshape(-1, 6), np.array(picture["objects"]).reshape(-1, 5))
    return metric


def compare(metric, case):
    """Where no object is at all, COCO's tool says -1 and ours NaN"""
    for value, expected in ((metric.value(), case["map"]), (metric.value(0.5), case["map50"])):
        assert value == pytest.approx(np.nan if expected == -1 else expected, abs=1e-9, nan_ok=True)
    for threshold, expected in zip((None, 0.5), case["of_classes"], strict=True):
        values = {kind: value for kind, value in enumerate(expected) if value >= 0}
        assert metric.of_classes(threshold) == pytest.approx(values, abs=1e-9)


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{len(case['pictures'])} pictures")
def test_average_precision_is_what_coco_recorded(case):
    """The second has whole numbers and equal scores, the last more detections than count"""
    compare(judged(case["pictures"]), case)


@pytest.mark.skipif(importlib.util.find_spec("pycocotools") is None, reason="pycocotools is not installed")
@pytest.mark.parametrize("seed", range(30))
def test_average_precision_is_what_coco_says(seed):
    script = runpy.run_path(str(ROOT / "scripts" / "write_detection_references"))
    rng = np.random.default_rng(100 + seed)
    classes = int(rng.integers(1, 5))
    pictures = script["pictures_of"](rng, int(rng.integers(1, 12)), classes, int(rng.integers(1, 9)), bool(seed % 2))
    compare(judged(pictures), script["judged"](pictures, classes))


def test_rows_that_fill_up_change_nothing_and_the_order_of_pictures_neither():
    pictures = RECORDED[0]["pictures"]
    metric = AveragePrecision()
    for picture in pictures[::-1]:
        detections, objects = np.array(picture["detections"]).reshape(-1, 6), np.array(picture["objects"]).reshape(-1, 5)
        metric.add(np.concatenate([detections, np.full((3, 6), -1.0)]), np.concatenate([np.full((2, 5), -1.0), objects]))
    assert metric.value() == pytest.approx(RECORDED[0]["map"], abs=1e-9)


def test_no_object_at_all_has_no_precision_and_no_detection_has_none():
    metric = AveragePrecision()
    metric.add(np.zeros((0, 6)), np.zeros((0, 5)))
    assert np.isnan(metric.value())
    metric.add(np.zeros((0, 6)), np.array([[1, 0, 0, 4, 4]]))
    assert metric.value() == 0 and metric.of_classes() == {1: 0}


def test_a_score_that_is_not_a_number_is_refused():
    with pytest.raises(DataError, match="not a number"):
        AveragePrecision().add(np.array([[0, np.nan, 0, 0, 1, 1]]), np.zeros((0, 5)))
