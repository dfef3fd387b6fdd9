"""Float files that are quantised, then trained: what the loss reads, and what stays in float."""

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from onnxgrad.training import Trainer
from onnxgrad.training.quantized.calibration import quantize

X = np.random.default_rng(0).normal(size=(64, 6)).astype(np.float32)


def classifier(last):
    rng = np.random.default_rng(1)
    text = (
        '<ir_version: 8, opset_import: ["": 17]> m (float[N, 6] x) => (float[N, 3] y) <float[6, 5] V, float[5, 3] W>'
        f"{{ a = MatMul(x, V)  b = Relu(a)  z = MatMul(b, W)  y = {last}(z) }}"
    )
    model = onnx.parser.parse_model(text)
    del model.graph.initializer[:]
    for name, shape in (("V", (6, 5)), ("W", (5, 3))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name))
    for i, node in enumerate(model.graph.node):
        node.name = f"n{i}"
    return model.SerializeToString()


@pytest.mark.parametrize(("last", "loss"), [("Softmax", "cross_entropy"), ("Sigmoid", "bce_with_logits")])
def test_the_loss_of_a_quantised_file_is_that_of_its_logits(tmp_path, last, loss):
    model, path = classifier(last), tmp_path / "q.onnx"
    labels = np.arange(64) % 3
    target = labels if loss == "cross_entropy" else np.eye(3, dtype=np.float32)[labels]
    before = Trainer(model, loss=loss).evaluate({"x": X, "target": target})["loss"]
    quantize(model, path, {"x": X})
    trainer = Trainer(str(path), loss=loss)
    assert any("y holds probabilities" in text for text in trainer.remarks)
    after = trainer.evaluate({"x": X, "target": target})["loss"]
    (said,) = onnxruntime.InferenceSession(path).run(None, {"x": X})
    p = said if loss == "cross_entropy" else np.where(target > 0, said, 1 - said)
    right = -np.log(p[np.arange(64), labels]).mean() if loss == "cross_entropy" else -np.log(np.maximum(p, 2e-3)).mean()
    assert abs(after - right) < 0.05 * right
    assert abs(after - before) < 0.1 * before


def test_softmax_stays_in_float(tmp_path):
    quantize(classifier("Softmax"), tmp_path / "q.onnx", {"x": X})
    nodes = onnx.load(tmp_path / "q.onnx").graph.node
    assert nodes[-1].op_type == "Softmax"
    assert sum(node.op_type == "QuantizeLinear" for node in nodes) > 0
    (said,) = onnxruntime.InferenceSession(tmp_path / "q.onnx").run(None, {"x": X})
    np.testing.assert_allclose(said.sum(axis=1), 1, rtol=1e-5)
