"""Other classes for a detector: old ones answer as before, and the file follows in all that knows their number."""

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxgrad import from_onnx, save_onnx
from onnxgrad.errors import ArgumentError
from onnxgrad.training import Trainer
from onnxgrad.training.detection.classes import class_names, set_classes
from onnxgrad.training.detection.heads import recognise_head
from tests.training.detection.pictures import file, shapes
from tests.training.detection.retina import retina
from tests.training.detection.test_heads import BOTH

OLD = ["circle", "square", "triangle"]


def outputs(path, image):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: image})


@pytest.mark.parametrize("name", BOTH)
def test_a_new_class_leaves_the_answers_of_the_others(name, tmp_path):
    program = from_onnx(file(name))
    notes = set_classes(program, [*OLD, "cross"])
    assert notes == ["of 3 classes 3 are kept, and 1 new: cross."]
    path = tmp_path / "wider.onnx"
    save_onnx(program, path)
    onnx.checker.check_model(onnx.load(path))
    again = from_onnx(path)
    assert recognise_head(again).classes == 4
    assert class_names(again) == [*OLD, "cross"]
    image = shapes.pictures(3, 1)[0]
    before, after = outputs(file(name), image), outputs(path, image)
    assert [v.name for v in again.outputs] == [v.name for v in from_onnx(file(name)).outputs]
    kind = name.removesuffix("_dynamo")
    if kind == "distributed":
        np.testing.assert_allclose(after[0][:, :7], before[0], atol=1e-4)
    elif kind == "anchored":
        np.testing.assert_allclose(after[0][..., :8], before[0], atol=1e-4)
    elif kind == "distributed_maps":
        for old, new in zip(before, after, strict=True):
            np.testing.assert_allclose(new[:, :67], old, atol=1e-4)
    elif kind == "default_boxes":
        np.testing.assert_allclose(after[1], before[1], atol=1e-4)
        ratio = after[0][..., 1:4] / after[0][..., :1]
        np.testing.assert_allclose(ratio, before[0][..., 1:] / before[0][..., :1], rtol=1e-3)
    elif kind == "queries":
        np.testing.assert_allclose(after[0][..., [0, 1, 2, 4]], before[0], atol=1e-4)
    elif kind.endswith("_nms"):
        kept = after[0][after[0][:, 5] < 3]
        np.testing.assert_allclose(kept, before[0], atol=1e-3)


def test_classes_may_be_dropped_and_put_in_another_order(tmp_path):
    program = from_onnx(file("distributed"))
    assert set_classes(program, ["triangle", "star", "circle"]) == ["of 3 classes 2 are kept, and 1 new: star."]
    save_onnx(program, tmp_path / "m.onnx")
    image = shapes.pictures(3, 2)[0]
    (before,), (after,) = outputs(file("distributed"), image), outputs(tmp_path / "m.onnx", image)
    np.testing.assert_allclose(after[:, [0, 1, 2, 3, 4, 6]], before[:, [0, 1, 2, 3, 6, 4]], atol=1e-4)
    program = from_onnx(file("anchored"))
    set_classes(program, ["square"])
    save_onnx(program, tmp_path / "m.onnx")
    (before,), (after,) = outputs(file("anchored"), image), outputs(tmp_path / "m.onnx", image)
    np.testing.assert_allclose(after, before[..., [0, 1, 2, 3, 4, 6]], atol=1e-4)


def test_no_constant_of_the_old_number_stays(tmp_path):
    program = from_onnx(file("distributed_nms"))
    set_classes(program, [*OLD, "cross"])
    save_onnx(program, tmp_path / "m.onnx")
    graph = onnx.load(tmp_path / "m.onnx").graph
    read = {name for node in graph.node for name in node.input} | {v.name for v in graph.output}
    loaded = onnx.load(file("distributed_nms")).graph
    unread = {name for node in loaded.node for name in node.output} - {name for node in loaded.node for name in node.input}
    assert {v.name for v in graph.initializer} <= read
    assert {name for node in graph.node for name in node.output} - read <= unread


def test_weights_of_new_classes_follow_from_the_seed():
    first, again, other = (from_onnx(file("anchored")) for _ in range(3))
    set_classes(first, [*OLD, "cross"], seed=3)
    set_classes(again, [*OLD, "cross"], seed=3)
    set_classes(other, [*OLD, "cross"], seed=4)
    values = [{p.name: np.array(p.get_value()) for p in program.parameters} for program in (first, again, other)]
    assert all(np.array_equal(values[0][name], values[1][name]) for name in values[0])
    assert any(not np.array_equal(values[0][name], values[2][name]) for name in values[0])


def test_a_widened_detector_learns_its_new_class():
    image, boxes, _ = shapes.pictures(11, 32, kinds=(3,))
    program = from_onnx(file("distributed_nms"))
    set_classes(program, [*OLD, "cross"])
    trainer = Trainer(program, loss="detection", learning_rate=4e-3)
    data = {"images": image, "boxes": boxes}
    before = trainer.evaluate(data)["map50"]
    trainer.fit(data, epochs=8, batch_size=8, verbose=False)
    after = trainer.evaluate(data)["map50"]
    assert before < 0.4
    assert after > 0.7


def test_a_failure_leaves_the_program_as_it_was():
    program = from_onnx(file("distributed"))
    before = program.to_string()
    last = program.outputs[0]
    with pytest.raises(ArgumentError, match="one name or more, each once"):
        set_classes(program, ["a", "a"])
    program.metadata["names"] = "['one']"
    with pytest.raises(ArgumentError, match="the file names 1 classes, but its outputs have 3"):
        set_classes(program, ["a", "b"])
    assert program.to_string() == before
    assert program.outputs[0] is last


def test_an_operator_that_is_not_understood_is_named():
    model = onnx.load(file("distributed"))
    sigmoid = next(node for node in reversed(model.graph.node) if node.op_type == "Sigmoid" and "/Split" in node.input[0])
    scores = sigmoid.input[0]
    position = list(model.graph.node).index(sigmoid)
    model.graph.node.insert(position, onnx.helper.make_node("Gelu", [scores], ["shaped"]))
    sigmoid.input[0] = "shaped"
    model.opset_import[0].version = 20
    program = from_onnx(model)
    before = program.to_string()
    with pytest.raises(ArgumentError, match="'shaped', and the operator Gelu computes it"):
        set_classes(program, [*OLD, "cross"])
    assert program.to_string() == before


def test_a_text_detector_has_no_classes():
    with pytest.raises(ArgumentError, match="classes are for a detector"):
        set_classes(from_onnx(file("text_map")), ["a"])


def test_levels_that_share_a_layer_go_on_sharing_it(tmp_path):
    onnx.save(retina(), tmp_path / "old.onnx")
    program = from_onnx(tmp_path / "old.onnx")
    set_classes(program, ["0", "1", "2"])
    save_onnx(program, tmp_path / "new.onnx")
    names = {p.name for p in program.parameters}
    assert names == {"w1", "w2", "classes_weight", "classes_bias", "boxes_weight", "boxes_bias", "centres", "sides"}
    image = np.random.default_rng(1).random((2, 3, 16, 16), np.float32)
    before, after = outputs(tmp_path / "old.onnx", image), outputs(tmp_path / "new.onnx", image)
    np.testing.assert_allclose(after[0][..., :2], before[0], atol=1e-6)
    np.testing.assert_allclose(after[1], before[1], atol=1e-5)
