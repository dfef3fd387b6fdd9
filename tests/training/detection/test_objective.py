"""The loss of a detector: assigned on the host, attached before decoding ends, the same whatever the file puts behind."""

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxgrad import from_onnx
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training import Trainer
from onnxgrad.training.detection.boxes import overlaps
from onnxgrad.training.detection.geometry import Probe
from onnxgrad.training.detection.heads import recognise_head
from onnxgrad.training.detection.objective import ASSIGNED, check_boxes, regions_of, shrunk_regions
from onnxgrad.training.metrics.detection import AveragePrecision
from tests.training.detection.pictures import file, shapes
from tests.training.detection.retina import retina

pytestmark = pytest.mark.filterwarnings("ignore:.*read by several operators:UserWarning")


@pytest.fixture(scope="module")
def data():
    image, boxes, _ = shapes.pictures(9, 24)
    return {"images": image, "boxes": boxes}


@pytest.fixture(scope="module")
def lines():
    image, boxes = shapes.lines(9, 24)
    return {"images": image, "boxes": boxes}


@pytest.mark.parametrize(
    "same",
    [
        ["distributed", "distributed_dynamo", "distributed_nms", "distributed_nms_dynamo", "distributed_maps", "distributed_best"],
        ["anchored", "anchored_nms_dynamo"],
        ["cells", "cells_dynamo", "cells_raw", "cells_raw_dynamo"],
        ["default_boxes", "default_boxes_dynamo"],
        ["queries", "queries_best_dynamo"],
        ["refined", "refined_dynamo", "refined_best", "refined_best_dynamo"],
    ],
)
def test_what_stands_behind_does_not_change_the_loss(same, data):
    rows = [Trainer(file(name), loss="detection").evaluate(data) for name in same]
    assert rows[0]["map50"] > 0.9  # the files were taught these shapes
    for row in rows[1:]:
        assert row == pytest.approx(rows[0], rel=1e-4)


def test_a_map_of_text_finds_lines(lines):
    rows = [Trainer(file(name), loss="detection").evaluate(lines) for name in ("text_map", "text_map_dynamo")]
    assert rows[0]["map50"] > 0.8
    assert rows[1] == pytest.approx(rows[0], rel=1e-4)


@pytest.mark.parametrize("name", ["distributed_nms", "distributed_maps", "anchored", "cells_raw", "default_boxes", "queries", "refined"])
def test_the_gradient_is_that_of_the_loss_with_this_assignment(name, data):
    """One step of plain descent moves a weight by its gradient: compared with differences of the loss, the answers held fixed"""
    rate = 1e-3
    batch = {key: array[:4] for key, array in data.items()}
    trainer = Trainer(file(name), loss="detection", optimizer="sgd", learning_rate=rate)
    model = trainer.model
    feed = model.feed_of(batch, trainer.executor)
    scope = trainer.program.active_scope()
    for p in [p for p in trainer.trained if len(p.shape) == 1][-3:]:
        value = np.array(p.get_value())
        at = int(np.abs(value).argmax())
        losses = []
        for step in (2e-2, -2e-2):
            moved = value.copy()
            moved[at] += step
            p.set_value(moved)
            (loss,) = trainer.executor.run(model.evaluation, feed, [trainer.loss.name], scope=scope)
            losses.append(float(loss))
        p.set_value(value)
        expected = (losses[0] - losses[1]) / 4e-2
        trainer.step(batch)
        gradient = (value[at] - np.array(p.get_value())[at]) / rate
        p.set_value(value)
        # differences of float32 losses, over a step that kinks of ReLU and of overlaps may lie within
        assert gradient == pytest.approx(expected, rel=0.05, abs=5e-3), p.name
        break


@pytest.mark.parametrize(
    "name", ["distributed_nms", "anchored_nms_dynamo", "cells", "cells_raw_dynamo", "default_boxes", "queries_best", "refined_best", "text_map"]
)
def test_training_lowers_the_loss_of_pictures_of_another_kind(name, data, lines):
    """Inverted colours, which the files have not seen"""
    own = lines if name == "text_map" else data
    batch = {"images": 1 - own["images"][:8], "boxes": own["boxes"][:8]}
    trainer = Trainer(file(name), loss="detection", learning_rate=1e-3)
    before = trainer.evaluate(batch)["loss"]
    for _ in range(8):
        trainer.step(batch)
    assert trainer.evaluate(batch)["loss"] < 0.9 * before


def test_the_exported_file_keeps_its_decoding_and_its_suppression(data, tmp_path):
    trainer = Trainer(file("distributed_nms"), loss="detection", learning_rate=1e-4)
    trainer.fit(data, epochs=1, batch_size=12, verbose=False)
    trainer.export(tmp_path / "tuned.onnx")
    loaded, written = onnx.load(file("distributed_nms")), onnx.load(tmp_path / "tuned.onnx")
    assert [node.op_type for node in written.graph.node] == [node.op_type for node in loaded.graph.node]
    assert [v.name for v in written.graph.output] == ["detections"]
    session = onnxruntime.InferenceSession(tmp_path / "tuned.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"images": data["images"]})
    precision = AveragePrecision()
    for i, objects in enumerate(data["boxes"]):
        precision.add(found[found[:, 0] == i][:, [5, 6, 1, 2, 3, 4]], objects)
    assert precision.value(0.5) == pytest.approx(trainer.evaluate(data)["map50"], abs=0.05)  # the file drops scores below 0.05
    assert precision.value(0.5) > 0.85


def test_anchors_and_strides_are_those_of_the_file():
    program = from_onnx(file("distributed_dynamo"))
    geometry = Probe(program, recognise_head(program), Executor()).geometry()
    points, strides = [], []
    for stride in (8, 16, 32):
        y, x = np.mgrid[: 96 // stride, : 96 // stride] + 0.5
        points.append(np.stack([x, y], -1).reshape(-1, 2) * stride)
        strides.append(np.full(x.size, stride))
    assert geometry.is_centred
    assert geometry.unit == (96, 96)
    np.testing.assert_allclose(geometry.points, np.concatenate(points))
    np.testing.assert_allclose(geometry.strides, np.concatenate(strides))


def test_default_boxes_are_those_of_the_file():
    program = from_onnx(file("default_boxes"))
    geometry = Probe(program, recognise_head(program), Executor()).geometry()
    assert not geometry.is_centred
    assert geometry.unit == (1, 1)
    np.testing.assert_allclose(geometry.defaults[0] * 96, [4 - 7, 4 - 7, 4 + 7, 4 + 7], atol=1e-4)
    program = from_onnx(file("anchored"))
    geometry = Probe(program, recognise_head(program), Executor()).geometry()
    np.testing.assert_allclose(geometry.defaults[0], [4 - 6, 4 - 6, 4 + 6, 4 + 6], atol=1e-4)


def test_cells_are_those_of_the_file():
    """YOLOX's numbers of 0 are a box as large as a cell around its upper left corner"""
    for name in ("cells", "cells_raw_dynamo"):
        program = from_onnx(file(name))
        geometry = Probe(program, recognise_head(program), Executor()).geometry()
        assert geometry.is_centred
        np.testing.assert_allclose(geometry.points[[0, 1, 144, 188]], [[4, 4], [12, 4], [8, 8], [80, 80]], atol=1e-4)
        np.testing.assert_allclose(geometry.cells[[0, 144, 188]], [[8, 8], [16, 16], [32, 32]], rtol=1e-5)
    program = from_onnx(file("anchored"))
    geometry = Probe(program, recognise_head(program), Executor()).geometry()
    np.testing.assert_allclose(geometry.cells[[0, 431, 432, 566]], [[8, 8], [8, 8], [16, 16], [32, 32]], rtol=1e-5)
    assert geometry.reaches


def test_a_decoding_that_does_something_else_is_refused():
    program = from_onnx(file("distributed"))
    strides = next(op for op in reversed(program.global_block().ops) if op.type == "Mul")
    factor = strides.inputs[1]
    factor.set_value(-np.array(factor.get_value()))
    with pytest.raises(ArgumentError, match="the distances are not those to left, top, right and bottom"):
        Trainer(program, loss="detection")


def test_maps_of_open_size_are_refused_with_advice():
    model = onnx.load(file("distributed_maps"))
    for v in model.graph.input:
        for axis in (2, 3):
            v.type.tensor_type.shape.dim[axis].ClearField("dim_value")
    for v in model.graph.output:
        for axis in (2, 3):
            v.type.tensor_type.shape.dim[axis].ClearField("dim_value")
    with pytest.raises(ArgumentError, match=r"the size of the map .* is open.*Export the model for a fixed size"):
        Trainer(model, loss="detection")


def test_a_class_that_the_model_lacks_is_named(data):
    trainer = Trainer(file("anchored"), loss="detection")
    boxes = data["boxes"][:4].copy()
    boxes[2, 0, 0] = 7
    with pytest.raises(DataError, match=r"'boxes' holds an object of class 7 \(example 2 .* classes 0 to 2.*--classes"):
        trainer.step({"images": data["images"][:4], "boxes": boxes})


def test_a_box_without_extent_is_named():
    boxes = np.zeros((2, 1, 5), np.float32)
    boxes[0, 0] = 0, 1, 1, 5, 5
    boxes[1, 0] = 0, 8, 1, 5, 5
    with pytest.raises(DataError, match=r"a box without extent, 8, 1, 5, 5 \(example 1"):
        check_boxes(boxes, 1, "boxes")


def test_pictures_without_objects_train(data):
    trainer = Trainer(file("distributed"), loss="detection")
    empty = np.full((2, 1, 5), -1, np.float32)
    assert np.isfinite(trainer.step({"images": data["images"][:2], "boxes": empty})["loss"])


def test_the_answers_are_no_column_of_the_data(data):
    trainer = Trainer(file("queries"), loss="detection", target="truth")
    assert trainer.columns == ["images", "truth"]
    assert ASSIGNED in {v.name for v in trainer.program.inputs}
    trainer.step({"images": data["images"][:2], "truth": data["boxes"][:2]})


def test_accumulation_is_the_step_of_the_whole_batch(data):
    """The terms are sums over weights that add up, so two micro-batches make the update of one batch"""
    batch = {key: array[:8] for key, array in data.items()}
    whole = Trainer(file("distributed"), loss="detection", optimizer="sgd", learning_rate=1e-4)
    parts = Trainer(file("distributed"), loss="detection", optimizer="sgd", learning_rate=1e-4, accumulate=2)
    before = {p.name: np.array(p.get_value()) for p in whole.trained}
    whole.step(batch)
    for rows in (slice(0, 4), slice(4, 8)):
        parts.step({key: array[rows] for key, array in batch.items()})
    for p, q in zip(whole.trained, parts.trained, strict=True):
        move = np.array(p.get_value()) - before[p.name]
        np.testing.assert_allclose(np.array(q.get_value()) - before[q.name], move, atol=2e-2 * np.abs(move).max() + 1e-7)


def test_regions_are_shrunk_and_found_again():
    boxes = np.array([[[0, 10, 20, 70, 40], [0, 20, 60, 50, 72], [-1, 0, 0, 0, 0]]], np.float32)
    (found,) = [regions_of(m[0]) for m in shrunk_regions(boxes, (96, 96))]
    assert len(found) == 2
    assert (overlaps(boxes[0, :2, 1:], found[:, 2:]).max(axis=1) > 0.75).all()
    assert (found[:, 1] == 1).all()


def test_classes_with_a_sigmoid_each_train_by_the_focal_loss():
    head = recognise_head(from_onnx(retina()))
    assert (head.family, head.background, head.activation, head.classes) == ("default boxes", None, "Sigmoid", 2)
    trainer = Trainer(retina(), loss="detection", learning_rate=1e-2)
    rng = np.random.default_rng(2)
    images = np.zeros((8, 3, 16, 16), np.float32)
    boxes = np.zeros((8, 1, 5), np.float32)
    for i in range(8):
        kind, x, y = rng.integers(0, 2), rng.integers(0, 8), rng.integers(0, 8)
        images[i, kind, y : y + 8, x : x + 8] = 1
        boxes[i, 0] = kind, x, y, x + 8, y + 8
    data = {"images": images, "boxes": boxes}
    before = trainer.evaluate(data)
    trainer.fit(data, epochs=60, batch_size=8, verbose=False)
    after = trainer.evaluate(data)
    assert after["loss"] < 0.5 * before["loss"]
    assert after["map50"] > max(0.5, before["map50"])
