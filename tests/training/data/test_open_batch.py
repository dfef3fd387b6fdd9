"""Files that declare a batch of one, as those of openWakeWord do."""

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import onnxgrad as og
from onnxgrad.errors import DataError
from onnxgrad.training import Trainer
from onnxgrad.training.data.feed import checked_batch
from onnxgrad.training.data.open_batch import open_batch
from onnxgrad.training.quantized.calibration import quantize
from tests.training.small import weights


def file(body, result="float[1, 1] y"):
    text = f'<ir_version: 8, opset_import: ["": 17]> m (float[1, 4, 2] x) => ({result}) <float[8, 1] W> {{ {body} }}'
    model = onnx.parser.parse_model(text)
    weight = np.random.default_rng(0).normal(size=(8, 1)).astype(np.float32)
    for kept in [i for i in model.graph.initializer if i.name == "W"]:
        model.graph.initializer.remove(kept)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "W"))
    return model


FLAT = "f = Flatten(x)  z = MatMul(f, W)  y = Sigmoid(z)"
RESHAPED = "s = Constant<value_ints = [1, 8]>()  f = Reshape(x, s)  z = MatMul(f, W)  y = Sigmoid(z)"
CHOSEN = (
    "f = Flatten(x)  z = MatMul(f, W)  c = ReduceMax<keepdims = 0>(z)  b = Cast<to = 9>(c)  y = If(b) <"
    "then_branch = a () => (float[1, 1] p) { p = Sigmoid(z) }, else_branch = e () => (float[1, 1] q) { q = Neg(z) }>"
)
MIXED = (
    "m = ReduceMean<axes = [0], keepdims = 1>(x)  c = Sub(x, m)  d = Add(c, x)  f = Flatten(d)  z = MatMul(f, W)  y = Sigmoid(z)"
)


HARDLY_MIXED = (
    "m = ReduceMax<axes = [0], keepdims = 1>(x)  k = Constant<value = float {20.0}>()  b = Sub(m, k)  c = Relu(b)  d = Add(c, x)"
    "  f = Flatten(d)  z = MatMul(f, W)  y = Sigmoid(z)"
)
"""Examples meet where one is above 20, which random numbers do not show."""


def data(count):
    x = np.random.default_rng(1).normal(size=(count, 4, 2)).astype(np.float32)
    return {"x": x, "target": (x[:, 0, 0] > 0).astype(np.float32)[:, None]}


def test_a_file_for_one_example_is_trained_in_batches(tmp_path):
    trainer = Trainer(file(FLAT), loss="bce_with_logits", learning_rate=0.1, metrics=["accuracy"])
    assert any("takes one example at a time (x)" in text for text in trainer.remarks)
    rows = trainer.fit(data(64), 8, batch_size=16, verbose=False)
    assert rows[-1]["accuracy"] > 0.9
    trainer.export(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (together,) = session.run(None, {"x": data(5)["x"]})
    for i in range(5):
        np.testing.assert_allclose(session.run(None, {"x": data(5)["x"][i : i + 1]})[0], together[i : i + 1], rtol=1e-5)


def test_its_step_is_the_mean_of_the_steps_of_single_examples():
    program, values = og.from_onnx(file(FLAT)), data(6)
    together = Trainer(program, loss="bce_with_logits", optimizer="sgd", learning_rate=1.0)
    before = weights(together)
    together.step(values)
    alone = Trainer(file(FLAT), loss="bce_with_logits", optimizer="sgd", learning_rate=1.0, accumulate=6)
    for i in range(6):
        alone.step({name: rows[i : i + 1] for name, rows in values.items()})
    assert not np.allclose(weights(together)["W"], before["W"])
    np.testing.assert_allclose(weights(together)["W"], weights(alone)["W"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("body", [RESHAPED, MIXED, CHOSEN, HARDLY_MIXED])
def test_a_file_whose_examples_would_meet_stays_as_it_is(body, capfd):
    program = og.from_onnx(file(body))
    before = onnx.ModelProto.FromString(og.to_onnx(program).SerializeToString())
    assert open_batch(program) == []
    assert og.to_onnx(program) == before
    assert capfd.readouterr().err == ""
    with pytest.raises(DataError, match=r"Use batches of 1 \(--batch-size 1\)"):
        Trainer(file(body), loss="mse").fit(data(8), 1, batch_size=4, verbose=False)


def test_a_batch_of_one_with_further_open_sizes_is_what_the_advice_says():
    """It said "Reshape the column", which nobody can where only the number of examples is another"""
    text = '<ir_version: 8, opset_import: ["": 17]> m (float[1, 1, 8, width] x) => (float[1, 8] y) { s = Constant <value_ints = [1, 8, -1]> ()'
    body = text + " r = Reshape (x, s) y = ReduceMean <axes = [2], keepdims = 0> (r) }"
    trained = {"x": np.ones((4, 1, 8, 5), "f4"), "target": np.ones((4, 8), "f4")}
    v = og.from_onnx(onnx.parser.parse_model(body)).inputs[0]
    with pytest.raises(DataError, match=r"Use batches of 1 \(--batch-size 1\)"):
        checked_batch(trained, [v])
    with pytest.raises(DataError, match="Reshape the column"):
        checked_batch({"x": np.ones((4, 1, 7, 5), "f4")}, [v])


def test_an_open_batch_and_a_state_are_left_alone():
    text = '<ir_version: 8, opset_import: ["": 17]> m (float[N, 3] x) => (float[N, 3] y) { y = Tanh(x) }'
    assert open_batch(og.from_onnx(onnx.parser.parse_model(text))) == []
    text = '<ir_version: 8, opset_import: ["": 17]> m (float[1, 3] x, float[2, 3] h) => (float[2, 3] y) { y = Add(x, h) }'
    assert open_batch(og.from_onnx(onnx.parser.parse_model(text))) == []


def test_it_is_quantised_in_batches(tmp_path):
    quantize(file(FLAT).SerializeToString(), tmp_path / "q.onnx", {"x": data(40)["x"]})
    assert onnxruntime.InferenceSession(tmp_path / "q.onnx").run(None, {"x": data(5)["x"]})[0].shape == (5, 1)
