"""A file that takes one picture, as most exports of detectors do, trains on several; what is written takes one again."""

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxgrad import from_onnx
from onnxgrad.training import Trainer
from onnxgrad.training.detection.batches import open_detector
from onnxgrad.training.detection.heads import recognise_head
from tests.training.detection.pictures import file, shapes


@pytest.mark.parametrize("name", ["distributed_best", "distributed_best_dynamo"])
def test_a_detector_of_one_picture_trains_on_several(name, tmp_path):
    image, boxes, _ = shapes.pictures(9, 24)
    several = Trainer(file("distributed"), loss="detection")
    trainer = Trainer(file(name), loss="detection")
    data = {"images": image, "boxes": boxes}
    assert any("takes any number" in line for line in trainer.remarks)
    assert trainer.evaluate(data) == pytest.approx(several.evaluate(data), rel=1e-4)
    loss = trainer.step({key: array[:8] for key, array in data.items()})
    assert loss == pytest.approx(several.step({key: array[:8] for key, array in data.items()}), rel=1e-4)
    trainer.export(tmp_path / "m.onnx")
    assert [n.op_type for n in onnx.load(tmp_path / "m.onnx").graph.node] == [n.op_type for n in onnx.load(file(name)).graph.node]
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape[0] == 1
    (found,) = session.run(None, {"images": image[:1]})
    assert found.shape[1] == 6


def test_a_detector_of_any_number_stays_whole():
    program = from_onnx(file("distributed_nms"))
    before = program.to_string()
    assert open_detector(program, recognise_head(program)) == []
    assert program.to_string() == before


def test_each_picture_gives_what_it_gives_alone():
    program = from_onnx(file("distributed_best"))
    head = recognise_head(program)
    open_detector(program, head)
    assert {v.name for v in program.outputs} == {head.scores[0].tensor.name, head.boxes.tensor.name, head.bins[0].tensor.name}
    from onnxgrad import Executor

    image = shapes.pictures(4, 3)[0]
    together = Executor().run(program, {"images": image}, program.outputs)
    for i in range(3):
        for whole, one in zip(together, Executor().run(program, {"images": image[i : i + 1]}, program.outputs), strict=True):
            np.testing.assert_allclose(whole[i : i + 1], one, rtol=1e-4, atol=1e-4)
