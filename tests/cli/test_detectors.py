"""A detector and a segmenter by the command, from nothing but their files and data as people's tools leave it."""

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxgrad.training.metrics.detection import AveragePrecision
from tests.cli.command import command
from tests.training.detection.pictures import file, module, shapes

pytest.importorskip("PIL")
pytest.importorskip("yaml")


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
