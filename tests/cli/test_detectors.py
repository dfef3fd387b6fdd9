"""A detector and a segmenter by the command, from nothing but their files and data as people's tools leave it."""

import csv
import json

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxgrad.training.metrics.detection import AveragePrecision
from tests.cli.command import command
from tests.training.detection.pictures import file, module, shapes

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("yaml")
NAMES = ("circle", "square", "triangle")
SIDES = ("left", "top", "right", "bottom")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("data")
    writer = module("data")
    writer.TRAINING, writer.HELD_OUT = 48, 16
    writer.write_boxes(home / "shapes")
    writer.write_boxes(home / "known", kinds=(2, 0))
    writer.write_masks(home / "masks")
    writer.write_lines(home / "lines", count=(16, 8))
    return home


def precision_of(path):
    """mAP50 of a file with NonMaxSuppression, by onnxruntime alone, over held-out pictures whose classes have these numbers"""
    image, boxes, _ = shapes.pictures(200, 16, kinds=(0, 1, 2, 3))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"images": image})
    metric = AveragePrecision()
    for i, objects in enumerate(boxes):
        metric.add(found[found[:, 0] == i][:, [5, 6, 1, 2, 3, 4]], objects)
    return metric.value(0.5)


def test_a_detector_learns_a_class_that_its_data_has(folder, tmp_path):
    before = precision_of(file("distributed_nms"))
    said = command(
        *("train", file("distributed_nms"), "--data", folder / "shapes", "--val", folder / "shapes", "--explain"),
        *("--epochs", 6, "--batch-size", 8),
        *("--lr", 3e-3, "--out", tmp_path / "run"),
    )
    assert "like YOLOv8" in said
    assert "4 classes" in said
    assert "cross = 3" in said
    assert "map50" in said
    command("export", tmp_path / "run", "--inference", tmp_path / "tuned.onnx")
    after = precision_of(tmp_path / "tuned.onnx")
    assert before < 0.8  # a quarter of the classes is not there
    assert after > before + 0.05
    model = onnx.load(tmp_path / "tuned.onnx")
    assert {p.key: p.value for p in model.metadata_props}["names"] == "{0: 'circle', 1: 'square', 2: 'triangle', 3: 'cross'}"
    assert "NonMaxSuppression" in {node.op_type for node in model.graph.node}
    judged = command("evaluate", tmp_path / "run", "--data", folder / "shapes", "--json")
    assert '"map50"' in judged


def test_numbers_of_the_data_are_those_of_the_file_by_name(folder, tmp_path):
    """The data numbers triangle 0 and circle 1; the file circle 0, square 1, triangle 2"""
    said = command("evaluate", file("distributed"), "--data", folder / "known", "--loss", "detection")
    assert "circle = 0, square = 1, triangle = 2" in said
    values = said.splitlines()[-1].split()
    assert float(values[values.index("map50") + 1]) > 0.85


def test_info_says_what_a_file_is(tmp_path):
    said = command("info", file("distributed_nms"))
    assert "this is a detector like YOLOv8 and YOLO11" in said
    assert "losses that fit: detection" in said
    assert "part of how the detector decodes boxes" in said
    assert "for each pixel behind ArgMax" in command("info", file("segmenter_argmax"))
    assert "losses that fit: cross_entropy" in command("info", file("segmenter_argmax"))
    assert "DBNet" in command("info", file("text_map"))


def test_a_segmenter_trains_before_its_argmax(folder, tmp_path):
    said = command(
        *("train", file("segmenter_argmax"), "--explain", "--data", folder / "masks" / "train", "--val", folder / "masks" / "val"),
        *("--image-mean", 0, "--image-std", 1, "--epochs", 1, "--batch-size", 16, "--out", tmp_path / "run"),
    )
    assert "the loss uses the scores before it" in said
    command("export", tmp_path / "run", "--inference", tmp_path / "tuned.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "tuned.onnx", providers=["CPUExecutionProvider"])
    (classes,) = session.run(None, {"images": shapes.pictures(1, 1)[0]})
    assert classes.dtype == np.int64


def test_a_detector_of_text_trains_on_label_files(folder, tmp_path):
    said = command(
        *(
            "train",
            file("text_map"),
            "--explain",
            "--data",
            folder / "lines" / "train" / "Label.txt",
            "--image-mean",
            0,
            "--image-std",
            1,
        ),
        *("--val", folder / "lines" / "val" / "Label.txt", "--task", "detect", "--epochs", 1, "--out", tmp_path / "run"),
    )
    assert "like DBNet" in said
    assert "map50" in said


def test_classes_are_for_detectors(folder, tmp_path):
    said = command(
        *("train", file("segmenter"), "--data", folder / "masks" / "train", "--classes", "a", "--out", tmp_path / "run"), code=2
    )
    assert "--classes is for detectors" in said


def test_a_quantised_detector_keeps_its_decoding_in_float(folder, tmp_path):
    said = command(
        *("train", file("distributed_nms"), "--data", folder / "known", "--val", folder / "known", "--qat", "int8", "--epochs", 1),
        *("--batch-size", 8, "--lr", 1e-4, "--out", tmp_path / "run"),
    )
    rows = {
        line.split("  ")[0].strip(): line.split()[-2:] for line in said.splitlines() if line.startswith(("float", "plain", "after"))
    }
    assert set(rows) == {"float", "plain int8", "after training"}
    assert float(rows["plain int8"][0]) > float(rows["float"][0]) - 0.05
    model = onnx.load(tmp_path / "run" / "quantized.onnx")
    producers = {name: node.op_type for node in model.graph.node for name in node.output}
    (suppression,) = [node for node in model.graph.node if node.op_type == "NonMaxSuppression"]
    assert producers[suppression.input[0]] == "Concat"
    assert sum(node.op_type == "QuantizeLinear" for node in model.graph.node) > 50


@pytest.mark.parametrize("name", ["distributed_nms", "distributed"])
def test_boxes_lie_in_pixels_of_the_picture(tmp_path, name):
    """Those of the file itself, run by onnxruntime on what a letterbox makes of pictures that are wide."""
    image, *_ = shapes.pictures(3, 6)
    (tmp_path / "in").mkdir()
    for i, pixels in enumerate(image):
        wide = Image.fromarray((pixels.transpose(1, 2, 0) * 255).round().astype(np.uint8)).resize((1000, 1000), 0)
        ground = Image.new("RGB", (2000, 1000), (114, 114, 114))
        ground.paste(wide, (500, 0))
        ground.save(tmp_path / "in" / f"{i}.png")
    said = command("predict", file(name), "--data", tmp_path / "in", "--out", tmp_path / "b.csv", "--draw", tmp_path / "drawn")
    assert "6 examples" in said
    rows = list(csv.DictReader((tmp_path / "b.csv").read_text().splitlines()))
    assert {row["file"] for row in rows} == {f"{i}.png" for i in range(6)}
    session = onnxruntime.InferenceSession(file("distributed_nms"), providers=["CPUExecutionProvider"])
    compared = 0
    for i in range(6):
        with Image.open(tmp_path / "in" / f"{i}.png") as picture:
            small = np.full((96, 96, 3), 114, np.uint8)
            small[24:72] = np.asarray(picture.resize((96, 48), 2))
        (found,) = session.run(None, {"images": (small.transpose(2, 0, 1)[None] / 255).astype(np.float32)})
        own = [row for row in rows if row["file"] == f"{i}.png" and row["class"]]
        for _, *box, kind, score in found[found[:, 6] > 0.3][:, [0, 1, 2, 3, 4, 5, 6]].tolist():
            expected = np.clip((np.array(box) - [0, 24, 0, 24]) * 2000 / 96, 0, [2000, 1000, 2000, 1000])
            same = [row for row in own if row["class"] == ("circle", "square", "triangle")[int(kind)]]
            near = min(same, key=lambda row: np.abs(expected - [float(row[side]) for side in SIDES]).max())
            np.testing.assert_allclose([float(near[side]) for side in SIDES], expected, atol=0.5)
            assert float(near["probability"]) == pytest.approx(score, abs=1e-3)
            compared += 1
        with Image.open(tmp_path / "drawn" / f"{i}.png") as drawn, Image.open(tmp_path / "in" / f"{i}.png") as picture:
            assert drawn.size == picture.size  # in the picture's own coordinates
            changed = np.abs(np.asarray(drawn, int) - np.asarray(picture.convert("RGB"), int)).max(axis=2) > 40
            assert changed.any() == bool(own)
            for row in own:
                left, top, bottom = (float(row[side]) for side in ("left", "top", "bottom"))
                middle = min(max(int(top + bottom) // 2, 0), 999)
                assert changed[middle, max(int(left) - 8, 0) : int(left) + 8].any()
    assert compared > 5


def test_the_table_of_boxes_is_a_table_to_train_on(folder, tmp_path):
    pytest.importorskip("pyarrow")
    pictures = folder / "shapes" / "images" / "val"
    command("predict", file("distributed"), "--data", pictures, "--out", pictures / "boxes.csv", "--least", 0.4)
    try:
        said = command("evaluate", file("distributed"), "--data", pictures / "boxes.csv", "--loss", "detection", "--json")
    finally:
        (pictures / "boxes.csv").unlink()
    assert json.loads(said)["map50"] > 0.8


def test_pictures_without_a_box_are_there(tmp_path):
    (tmp_path / "in").mkdir()
    Image.new("RGB", (96, 96), (90, 90, 90)).save(tmp_path / "in" / "empty.png")
    command("predict", file("distributed"), "--data", tmp_path / "in", "--out", tmp_path / "b.csv", "--least", 0.9)
    assert (tmp_path / "b.csv").read_text().splitlines()[1:] == ["0,empty.png,,,,,,"]
    command("predict", file("distributed"), "--data", tmp_path / "in", "--out", tmp_path / "b.json", "--least", 0.9)
    assert json.loads((tmp_path / "b.json").read_text()) == [{"example": 0, "file": "empty.png", "boxes": []}]


def test_rows_of_a_file_that_are_boxes_are_no_examples(folder, tmp_path):
    said = command(
        *("predict", file("distributed_nms"), "--data", folder / "shapes" / "images" / "val", "--out", tmp_path / "b.npz"), code=2
    )
    assert "has a row for each box" in said and not (tmp_path / "b.npz").exists()


def coco(folder, image, boxes, crowds):
    """A COCO file of pictures, of which some have their boxes in one crowd for each class, or not at all"""
    (folder / "images").mkdir(parents=True)
    record = {"images": [], "annotations": [], "categories": [{"id": k, "name": n} for k, n in enumerate(NAMES)]}
    for i, pixels in enumerate(image):
        Image.fromarray((pixels.transpose(1, 2, 0) * 255).round().astype(np.uint8)).save(folder / "images" / f"{i}.png")
        record["images"].append({"id": i, "file_name": f"{i}.png", "width": 96, "height": 96})
        own = boxes[i][boxes[i][:, 0] >= 0].astype(float)
        entries = [(k, *box, 0) for k, *box in own]
        if i % 2:
            whole = [(k, *own[own[:, 0] == k, 1:3].min(0), *own[own[:, 0] == k, 3:].max(0), 1) for k in np.unique(own[:, 0])]
            entries = whole if crowds else []
        for kind, x1, y1, x2, y2, is_crowd in entries:
            bbox = [x1 - 2, y1 - 2, x2 - x1 + 4, y2 - y1 + 4] if is_crowd else [x1, y1, x2 - x1, y2 - y1]
            entry = {"id": len(record["annotations"]), "image_id": i, "category_id": int(kind), "bbox": bbox, "iscrowd": is_crowd}
            record["annotations"].append(entry)
    (folder / "boxes.json").write_text(json.dumps(record))


def test_detections_in_crowds_count_neither_way(tmp_path):
    """Half of the pictures have crowds in place of boxes. Without them, what is found there is wrong."""
    image, boxes, _ = shapes.pictures(7, 24)
    values = {}
    for crowds in (True, False):
        coco(tmp_path / str(crowds), image, boxes, crowds)
        said = command("evaluate", file("distributed"), "--data", tmp_path / str(crowds), "--loss", "detection", "--json")
        values[crowds] = json.loads(said)
    assert values[True]["map50"] > values[False]["map50"] + 0.05
    assert values[True]["loss"] == pytest.approx(values[False]["loss"], rel=1e-5)  # training sees no object there
