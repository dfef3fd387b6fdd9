"""Drawn examples of a report: which pictures are shown, with which scores, and that the page shows them."""

import base64
import io
import json
import re
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

from onnxgrad.training import Report, Trainer
from onnxgrad.training.data.kinds.placed import MaskColumn
from onnxgrad.training.data.opening import open_data
from onnxgrad.training.data.record import DataRecord
from onnxgrad.training.detection.boxes import overlaps
from onnxgrad.training.report.drawn import overlap_of_boxes
from onnxgrad.training.report.examples import judge_examples
from tests.browser import open_page  # noqa: F401

DETECTOR = Path(__file__).parents[2] / "data" / "detectors" / "distributed_nms.onnx"


def segmenter(channels, activation="Identity"):
    """Masks that are what the picture's channels are"""
    text = f"""
    <ir_version: 10, opset_import: ["": 21]>
    masks (float[N, {channels}, 12, 16] image) => (float[N, {channels}, 12, 16] y) {{ z = Mul(image, w)  y = {activation}(z) }}
    """
    model = parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((channels, 12, 16), np.float32), "w"))
    return model


def pixels_of(address):
    image = pytest.importorskip("PIL.Image")
    kind, _, text = address.partition(",")
    assert kind == "data:image/jpeg;base64"
    return image.open(io.BytesIO(base64.b64decode(text)))


def judged(trainer, columns):
    return judge_examples(trainer, open_data(columns, trainer.model.spec), 4)


# Masks ---------------------------------------------------------------------------------------------------------------


def shares_of(predicted, true, kinds):
    pairs = [((predicted == k) & (true == k), (predicted == k) | (true == k)) for k in kinds]
    return {k: (a.sum() / b.sum()) for k, (a, b) in zip(kinds, pairs, strict=True) if b.any()}


def masks_data(channels, count=30):
    rng = np.random.default_rng(0)
    image = rng.normal(0, 1, (count, channels, 12, 16)).astype(np.float32)
    if channels == 3:
        target = np.where(rng.uniform(size=(count, 1, 1)) < rng.uniform(size=(count, 12, 16)), image.argmax(1), 0)
    else:
        target = np.where(rng.uniform(size=(count, 1, 1, 1)) < rng.uniform(size=image.shape), image > 0, 0).astype(np.float32)
    return {"image": image, "target": target}


@pytest.mark.parametrize("channels, activation", [(3, "Identity"), (3, "Softmax<axis = 1>"), (1, "Identity"), (1, "Sigmoid")])
def test_pictures_of_masks_are_sorted_by_their_overlap(channels, activation):
    columns = masks_data(channels)
    trainer = Trainer(segmenter(channels, activation), loss="cross_entropy" if channels == 3 else "bce_with_logits")
    summary = judged(trainer, columns)
    predicted = columns["image"].argmax(1) if channels == 3 else columns["image"][:, 0] > 0
    true = columns["target"] if channels == 3 else columns["target"][:, 0] > 0.5
    kinds = range(3) if channels == 3 else (False, True)
    each = np.array([np.mean(list(shares_of(p, t, kinds).values())) for p, t in zip(predicted, true, strict=True)])
    assert summary["count"] == 30
    assert [one["number"] for one in summary["worst"]] == np.argsort(each, kind="stable")[:12].tolist()
    assert [one["number"] for one in summary["best"]] == np.argsort(-each, kind="stable")[:12].tolist()
    for one in (*summary["worst"], *summary["best"]):
        assert one["overlap"] == pytest.approx(each[one["number"]])
        row = {name: column[one["number"] :][:1] for name, column in columns.items()}
        assert one["loss"] == pytest.approx(trainer.evaluate(row)["loss"], rel=1e-5)
    assert [row[1] for row in summary["table"]["rows"]] == pytest.approx(list(shares_of(predicted, true, kinds).values()))
    if channels == 1:
        assert [row[0] for row in summary["table"]["rows"]] == ["background", "mask"]
    picture = pixels_of(summary["worst"][0]["picture"])
    assert picture.width > 2 * 240 - 10 > picture.height > 180


def test_a_single_mask_has_the_names_of_its_two_classes():
    columns, trainer = masks_data(1, 8), Trainer(segmenter(1), loss="bce_with_logits")
    data = open_data(columns, trainer.model.spec)
    data.record = DataRecord({"target": MaskColumn((), ("sky", "wire"))})
    columns["target"][0] = 1.0
    summary = judge_examples(trainer, data, 4)
    assert [row[0] for row in summary["table"]["rows"]] == ["sky", "wire"]
    said = {one["number"]: one["target"] for one in summary["worst"]}
    assert said[0] == "wire 100%"


def test_masks_say_their_shares():
    columns = masks_data(3)
    columns["target"][:] = 0
    columns["target"][:, :6, :8] = 2
    (first, *_) = judged(Trainer(segmenter(3), loss="dice"), columns)["worst"]
    assert first["target"] == "class 2 25%" and re.fullmatch(r"class 1 \d+%, class 2 \d+%", first["predicted"])


def test_the_page_shows_them(open_page, tmp_path):  # noqa: F811
    columns = masks_data(3, 8)
    Trainer(segmenter(3), loss="cross_entropy", metrics=["mean_iou"]).fit(
        columns, 1, columns, batch_size=4, out=tmp_path, callbacks=[Report("onnxgrad train")], verbose=False
    )
    assert json.loads(re.search(r'id="data">(.*?)</script>', (tmp_path / "report.html").read_text())[1])["examples"]["count"] == 8
    for width in (1200, 400):
        with open_page(tmp_path / "report.html", "light", width) as page:
            assert "Intersection over union" in page.locator("section h2").all_inner_texts()
            assert page.locator(".example.drawn img").count() == 16
            assert page.locator(".example.drawn img").first.evaluate("image => image.naturalWidth") > 400
            assert re.search(r"overlap 0\.\d+, loss \d", page.locator(".example").first.inner_text())
            assert page.evaluate("document.documentElement.scrollWidth") <= width


# Boxes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_overlap_of_boxes_is_that_of_the_pairs_over_all_that_is_there(seed):
    """Where no detection could take another object, the pairs are the best ones of all; what is left counts 0"""
    rng = np.random.default_rng(seed)
    objects = np.array([[k % 2, 20 * k, 0, 20 * k + 10, 10] for k in range(rng.integers(0, 5))], float).reshape(-1, 5)
    near = objects[rng.uniform(size=len(objects)) < 0.7]
    boxes = np.concatenate([near[:, 1:] + rng.uniform(-2, 2, (len(near), 4)), rng.uniform(100, 120, (seed % 3, 2)).repeat(2, 1)])
    kinds = np.concatenate([near[:, 0], np.zeros(seed % 3)])
    detections = np.column_stack([kinds, rng.uniform(0.3, 1, len(boxes)), boxes])
    total = overlaps(boxes, objects[:, 1:]).max(axis=1, initial=0).sum()
    of = len(objects) + seed % 3
    assert overlap_of_boxes(detections, objects) == pytest.approx(total / of if of else 1.0)


def test_overlap_of_boxes_takes_each_object_once_and_its_own_class_alone():
    objects = np.array([[0, 0, 0, 10, 10.0]])
    twice = np.array([[0, 0.9, 0, 0, 10, 10], [0, 0.8, 0, 0, 10, 10.0]])
    assert [overlap_of_boxes(twice[list(order)], objects) for order in permutations(range(2))] == [0.5, 0.5]
    assert overlap_of_boxes(np.array([[1, 0.9, 0, 0, 10, 10]]), objects) == 0


def test_pictures_of_a_detector_are_sorted_by_their_overlap_and_classes_have_their_precision():
    rng = np.random.default_rng(3)
    trainer = Trainer(DETECTOR, loss="detection")
    images = np.repeat(rng.uniform(0, 1, (14, 3, 1, 1)), 96, axis=2).repeat(96, axis=3).astype(np.float32)
    boxes = np.full((14, 2, 5), -1.0, np.float32)
    for i, image in enumerate(images):
        for k in range(i % 3):
            left, top, side = rng.integers(0, 48), rng.integers(0, 48), rng.integers(20, 48)
            image[:, top : top + side, left : left + side] = rng.uniform(0, 1, (3, 1, 1))
            boxes[i, k] = 1, left, top, left + side, top + side
    columns = {trainer.inputs[0].name: images, "boxes": boxes}
    summary, row = judged(trainer, columns), trainer.evaluate(columns)
    (square,) = summary["table"]["rows"]
    assert square[:2] == ["square", 13] and square[2:] == pytest.approx([row["map50"], row["map"]])
    worst = [one["overlap"] for one in summary["worst"]]
    assert (
        worst == sorted(worst)
        and len(worst) == 12
        and summary["best"][0]["overlap"] == max(one["overlap"] for one in summary["best"])
    )
    assert {one["target"] for one in summary["worst"]} <= {"nothing", "1 square", "2 square"}
    assert pixels_of(summary["worst"][0]["picture"]).size == (480, 480)
