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
from onnxgrad.training.detection.heads import recognise_head, set_anchors
from onnxgrad.training.detection.objective import ASSIGNED, check_boxes, region_borders, regions_of, shrunk_regions
from onnxgrad.training.metrics.detection import AveragePrecision
from tests.training.detection.pictures import file, shapes
from tests.training.detection.retina import retina
from tests.training.detection.test_heads import ANCHORS, flat_maps

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


def test_thresholds_and_the_binary_map_train_where_the_file_has_them(lines):
    """The map of probabilities answers as in the file that has it alone; the loss has two terms more, and the thresholds learn"""
    whole, alone = (Trainer(file(name), loss="detection", learning_rate=1e-3) for name in ("text_maps", "text_map"))
    assert any("map of probabilities alone" in line for line in alone.remarks)
    assert not any("map of probabilities alone" in line for line in whole.remarks)
    rows = [trainer.evaluate(lines) for trainer in (whole, alone)]
    assert {key: rows[0][key] for key in ("map", "map50")} == pytest.approx({key: rows[1][key] for key in ("map", "map50")})
    loss = whole.model.detection
    feed = {"images": lines["images"]}
    answer = loss.answer(feed, lines["boxes"], whole.model.evaluation)
    maps = whole.predict({"images": lines["images"]})["maps"].astype(np.float64)
    apart = (np.abs(maps[:, 1] - answer[:, 1]) * answer[:, 2]).sum() / answer[:, 2].sum()
    common, sums = ((maps[:, 2] * answer[:, 0]).sum((1, 2)), (maps[:, 2] + answer[:, 0]).sum((1, 2)))
    binary = (1 - (2 * common + 1e-5) / (sums + 1e-5)).mean()
    assert rows[0]["loss"] == pytest.approx(rows[1]["loss"] + 2 * apart + binary, rel=1e-4)
    before = {p.name: np.array(p.get_value()) for p in whole.trained if p.name.startswith("net.threshold")}
    batch = {"images": 1 - lines["images"][:8], "boxes": lines["boxes"][:8]}
    first = whole.step(batch)["loss"]
    for _ in range(8):
        last = whole.step(batch)["loss"]
    assert last < 0.9 * first
    assert "net.threshold.4.weight" in before
    assert all(not np.array_equal(value, whole.program.find(name).get_value()) for name, value in before.items())


def test_borders_of_regions_are_as_wide_on_both_sides():
    """Against distances from the sides, pixel by pixel: of 20 x 10 pixels, shrunk by 0.84 * 200 / 60 = 2.8"""
    box = np.array([[[0, 6, 6, 26, 16], [-1, 0, 0, 9, 9]]], np.float32)
    wanted, counts = region_borders(box, (22, 32))[0]
    for row, column in np.ndindex(22, 32):
        x, y = column + 0.5, row + 0.5
        near = np.array([np.clip(x, 6, 26), np.clip(y, 6, 16)])
        outside = np.hypot(*(near - [x, y]))
        far = outside if outside > 0 else min(x - 6, 26 - x, y - 6, 16 - y)
        assert counts[row, column] == (outside <= 2.8)
        assert wanted[row, column] == pytest.approx(0.3 + 0.4 * max(1 - far / 2.8, 0) * counts[row, column], abs=1e-6)


@pytest.mark.parametrize(
    "name", ["distributed_nms", "distributed_maps", "anchored", "cells_raw", "default_boxes", "queries", "refined"]
)
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
    "name",
    [
        "distributed_nms",
        "anchored_nms_dynamo",
        "cells",
        "cells_raw_dynamo",
        "default_boxes",
        "queries_best",
        "refined_best",
        "text_map",
    ],
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


def test_maps_of_anchors_have_the_loss_of_the_decoded_file(data):
    """Whether the file decodes, or whoever reads its maps by the anchors it was trained with, in two layouts"""
    expected = Trainer(file("anchored"), loss="detection").evaluate(data)
    for model in (file("anchored_maps"), file("anchored_maps_dynamo"), flat_maps()):
        program = from_onnx(model)
        set_anchors(program, ANCHORS)
        assert Trainer(program, loss="detection").evaluate(data) == pytest.approx(expected, rel=1e-5)


def exponential(decoded):
    """A level of YOLOv3: centres within their cell, and sides that grow by Exp"""
    text = """<ir_version: 8, opset_import: ["": 17]>
    f (float[N, 3, 16, 16] images) => (float[N, 8, 7] boxes) {
      map = Conv <strides = [8, 8]> (images, weight, bias)
      five = Reshape (map, split)
      last = Transpose <perm = [0, 1, 3, 4, 2]> (five)
      move, grow, rest = Split <axis = 4> (last, sizes)
      near = Sigmoid (move)
      at = Add (near, grid)
      middle = Mul (at, stride)
      factor = Exp (grow)
      sides = Mul (factor, anchors)
      p = Sigmoid (rest)
      all = Concat <axis = 4> (middle, sides, p)
      boxes = Reshape (all, rows)
    }"""
    if not decoded:
        text = text[: text.index("move, grow")].replace("(float[N, 8, 7] boxes)", "(float[N, 2, 2, 2, 7] last)") + "}"
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(3)
    y, x = np.mgrid[:2, :2]
    constants = {
        "weight": rng.normal(0, 0.1, (14, 3, 8, 8)).astype(np.float32),
        "bias": rng.normal(0, 0.3, 14).astype(np.float32),
        "split": np.array([0, 2, 7, 2, 2]),
    }
    if decoded:
        constants |= {
            "sizes": np.array([2, 2, 3]),
            "grid": np.stack([x, y], -1)[None, None].astype(np.float32),
            "stride": np.float32(8),
            "anchors": np.array([[5, 6], [12, 9]], np.float32).reshape(1, 2, 1, 1, 2),
            "rows": np.array([0, 8, 7]),
        }
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items())
    return from_onnx(model)


def test_anchors_whose_sides_grow_by_exp_are_those_of_yolov3():
    rng = np.random.default_rng(4)
    boxes = np.array([[[0, 1, 1, 7, 8], [1, 6, 5, 15, 14]], [[1, 2, 8, 9, 15], [-1, 0, 0, 0, 0]]], np.float32)
    data = {"images": rng.random((2, 3, 16, 16), np.float32), "boxes": boxes}
    maps = exponential(decoded=False)
    set_anchors(maps, [5, 6, 12, 9], "exp")
    whole, parts = (Trainer(program, loss="detection") for program in (exponential(decoded=True), maps))
    assert whole.evaluate(data) == pytest.approx(parts.evaluate(data), rel=1e-5)
    for trainer in (whole, parts):
        geometry = trainer.model.detection.probe.geometry()
        assert not geometry.reaches
        np.testing.assert_allclose(geometry.defaults[5], [12 - 6, 4 - 4.5, 12 + 6, 4 + 4.5], atol=1e-5)


def test_anchors_answer_for_objects_as_yolov5_has_it(data):
    """Classes of 1 and the box where sides and cell fit, and an objectness as large as the overlap is now"""
    trainer = Trainer(file("anchored"), loss="detection")
    boxes = np.array([[[2, 8, 8, 24, 24], [0, 0, 90, 96, 93]]], np.float32)  # no anchor is within a factor of 4 of 96 x 3
    feed = {"images": data["images"][:1]}
    (answer,) = trainer.model.detection.answer(feed, boxes, trainer.model.evaluation)
    geometry = trainer.model.detection.probe.geometry()
    matched = answer[:, -2] == 1
    # the centre 16, 16 is a corner of cells: that to its right and below, and those beside it
    expected = {(8, 20, 20), (8, 12, 20), (8, 20, 12), (16, 24, 24), (16, 8, 24), (16, 24, 8)}
    places = {(c[0], x, y) for c, (x, y) in zip(geometry.cells[matched], geometry.points[matched].round(3), strict=True)}
    assert {place for place in places if place[0] < 32} == expected
    assert (answer[matched, 2] == 1).all() and (answer[matched][:, [0, 1]] == 0).all()
    np.testing.assert_allclose(answer[matched, 3:7], np.broadcast_to([8, 8, 24, 24], (matched.sum(), 4)))
    (corners,) = trainer.executor.run(trainer.model.evaluation, feed, [trainer.model.detection.names["corners"]])
    fit = overlaps(corners[0][matched], np.array([[8, 8, 24, 24]]))[:, 0]
    np.testing.assert_allclose(answer[matched, -1], fit, atol=1e-6)
    assert (answer[~matched, :7] == 0).all() and (answer[~matched, -1] == 0).all()


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
