"""Average precision against what COCO's own tool said of random pictures, and says where it is installed."""

import importlib.util
import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

from onnxgrad.errors import DataError
from onnxgrad.training import Trainer
from onnxgrad.training.metrics.detection import AveragePrecision
from onnxgrad.training.metrics.epoch import epoch_metric

ROOT = Path(__file__).parents[3]
RECORDED = json.loads((ROOT / "tests" / "data" / "detection.json").read_text())["average_precision"]


def judged(pictures):
    metric = AveragePrecision()
    for picture in pictures:
        rows, objects, crowds = (np.array(picture[name]) for name in ("detections", "objects", "crowds"))
        marked = crowds.reshape(-1, 5) * [-1, 1, 1, 1, 1] - [2, 0, 0, 0, 0]
        metric.add(rows.reshape(-1, 6), np.concatenate([objects.reshape(-1, 5), marked]))
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
    """The second has whole numbers and equal scores, the fourth more detections than count, the last crowds"""
    compare(judged(case["pictures"]), case)


@pytest.mark.skipif(importlib.util.find_spec("pycocotools") is None, reason="pycocotools is not installed")
@pytest.mark.parametrize("seed", range(30))
def test_average_precision_is_what_coco_says(seed):
    script = runpy.run_path(str(ROOT / "scripts" / "write_detection_references"))
    rng = np.random.default_rng(100 + seed)
    classes = int(rng.integers(1, 5))
    pictures = script["pictures_of"](
        rng, int(rng.integers(1, 12)), classes, int(rng.integers(1, 9)), bool(seed % 2), crowds=seed % 3
    )
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


# Masks ---------------------------------------------------------------------------------------------------------------


def shares_of(predicted, truth, classes):
    """Intersection over union of each class that occurs"""
    pairs = [((predicted == k) & (truth == k), (predicted == k) | (truth == k)) for k in classes]
    return [common.sum() / union.sum() for common, union in pairs if union.any()]


def segmenter(channels, activation="Identity"):
    text = f"""
    <ir_version: 10, opset_import: ["": 21]>
    masks (float[N, {channels}, 4, 5] x) => (float[N, {channels}, 4, 5] y) {{ z = Mul(x, w)  y = {activation}(z) }}
    """
    model = parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((channels, 4, 5), np.float32), "w"))
    return model


@pytest.mark.parametrize("classes", [2, 4])
def test_mean_iou_is_that_of_all_classes_that_occur(classes):
    """Class 3 occurs nowhere; -100 does not count; of two classes the background counts, which it does not for iou"""
    rng = np.random.default_rng(1)
    y = rng.normal(0, 1, (5, classes, 4, 5)).astype(np.float32)
    y[:, 3:] = -9
    target = rng.integers(0, min(classes, 3), (5, 4, 5))
    target[rng.uniform(size=target.shape) < 0.2] = -100
    counts = target != -100
    expected = shares_of(y.argmax(1)[counts], target[counts], range(classes))
    trainer = Trainer(segmenter(classes), loss="cross_entropy", metrics=["mean_iou", "iou", "accuracy"])
    for size in (5, 2):
        row = trainer.evaluate({"x": y, "target": target}, batch_size=size)
        assert row["mean_iou"] == pytest.approx(np.mean(expected))
        assert row["iou"] == pytest.approx(expected[1] if classes == 2 else np.mean(expected))
        assert row["accuracy"] == pytest.approx((y.argmax(1) == target)[counts].mean())


@pytest.mark.parametrize("activation", ["Identity", "Sigmoid"])
@pytest.mark.parametrize("channels", [1, 3])
def test_mean_iou_of_masks_that_do_not_exclude_each_other_is_that_of_each(channels, activation):
    rng = np.random.default_rng(2)
    x = rng.normal(0, 1, (5, channels, 4, 5)).astype(np.float32)
    target = (rng.uniform(size=x.shape) < 0.3).astype(np.float32)
    if channels == 1:
        expected = shares_of(x > 0, target > 0.5, (False, True))
    else:
        expected = [shares_of(x[:, k] > 0, target[:, k] > 0.5, [True])[0] for k in range(3)]
    trainer = Trainer(segmenter(channels, activation), loss="bce_with_logits", metrics=["mean_iou"])
    for size in (5, 2):
        assert trainer.evaluate({"x": x, "target": target}, batch_size=size)["mean_iou"] == pytest.approx(np.mean(expected))


def test_map_by_name_is_that_of_detections_and_objects():
    rows, objects = zip(
        *[(np.array(p["detections"]).reshape(-1, 6), np.array(p["objects"]).reshape(-1, 5)) for p in RECORDED[0]["pictures"]],
        strict=True,
    )
    for name in ("map", "map50"):
        metric = epoch_metric(name)
        metric.add(rows[:3], objects[:3])
        metric.add(rows[3:], objects[3:])
        assert metric.value() == pytest.approx(RECORDED[0][name], abs=1e-9)
