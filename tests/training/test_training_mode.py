"""Files that were exported in training mode: trained by batch, evaluated and exported by the statistics."""

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

from onnxgrad.training import Trainer

NET = """
<ir_version: 8, opset_import: ["": 17]> f (float[N, 3] x) => (float[N, 2] y)
<float[3, 4] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2}, float[4] scale = {1, 1, 1, 1},
 float[4] bias = {0, 0, 0, 0}, float[4] mean = MEAN, float[4] var = {1, 2, 3, 4}, float half = {0.5}, bool flag = {1},
 float[4, 2] u = {0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, 0.8}> {
    h = MatMul(x, w)
    BEFORE
    NORM
    d = DROPOUT
    y = MatMul(d, u)
}
"""
TRAINING = "n, new_mean, new_var = BatchNormalization<training_mode = 1>(h, scale, bias, STATISTIC, var)"
INFERENCE = "n = BatchNormalization(h, scale, bias, STATISTIC, var)"


def model(norm, dropout="Identity(n)", mean="{0.1, 0.2, 0.3, 0.4}", before="", statistic="mean"):
    text = NET.replace("NORM", norm).replace("DROPOUT", dropout).replace("MEAN", mean).replace("BEFORE", before)
    return parse_model(text.replace("STATISTIC", statistic))


def data(count=64):
    draw = np.random.default_rng(0)
    return {"x": draw.normal(size=(count, 3)).astype("float32"), "target": draw.integers(0, 2, count)}


def trained(model, **options):
    trainer = Trainer(model, loss="cross_entropy", seed=3, **options)
    trainer.fit(data(), epochs=3, batch_size=16)
    return trainer


def test_it_learns_what_the_file_in_inference_mode_learns_by_batch():
    one, other = trained(model(TRAINING)), trained(model(INFERENCE), batch_norm="train")
    assert one.batch_norm == "train"
    for v, w in zip(one.program.all_parameters(), other.program.all_parameters(), strict=True):
        np.testing.assert_array_equal(v.get_value(), w.get_value())


def test_answers_do_not_depend_on_the_batch(tmp_path):
    trainer = trained(model(TRAINING))
    few, many = (trainer.evaluate(data(), batch_size=size)["loss"] for size in (8, 64))
    np.testing.assert_allclose(few, many, rtol=1e-6)
    trainer.export(tmp_path / "out.onnx")
    written = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(written, full_check=True)
    (norm,) = (node for node in written.graph.node if node.op_type == "BatchNormalization")
    assert not any(a.name == "training_mode" and a.i for a in norm.attribute)
    assert len(norm.output) == 1
    (mean,) = (onnx.numpy_helper.to_array(t) for t in written.graph.initializer if t.name == "mean")
    assert np.abs(mean - [0.1, 0.2, 0.3, 0.4]).min() > 1e-3


def test_frozen_is_taken_where_it_is_asked_for():
    trainer = Trainer(model(TRAINING), loss="cross_entropy", batch_norm="frozen")
    assert trainer.batch_norm == "frozen"


@pytest.mark.parametrize("norm", [TRAINING, INFERENCE])
def test_a_mean_that_is_another_tensor_learns(norm):
    """torch's exporter stores equal tensors once"""
    same = model(norm, mean="{0, 0, 0, 0}", before="copied = Identity(bias)", statistic="copied")
    expected = trained(model(norm, mean="{0, 0, 0, 0}"), batch_norm="train")
    found = trained(same, batch_norm="train")
    for size in (8, 64):
        ours, theirs = (trainer.evaluate(data(), batch_size=size)["loss"] for trainer in (found, expected))
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_dropout_that_was_switched_on_is_off_where_it_answers(tmp_path):
    trainer = Trainer(model(INFERENCE, "Dropout(n, half, flag)"), loss="cross_entropy")
    first, second = (trainer.evaluate(data(), batch_size=64)["loss"] for _ in range(2))
    plain = Trainer(model(INFERENCE), loss="cross_entropy")
    assert first == second
    np.testing.assert_allclose(first, plain.evaluate(data(), batch_size=64)["loss"], rtol=1e-6)
    trainer.fit(data(), epochs=1, batch_size=64)
    plain.fit(data(), epochs=1, batch_size=64)
    assert trainer.evaluate(data(), batch_size=64)["loss"] != plain.evaluate(data(), batch_size=64)["loss"]
    trainer.export(tmp_path / "out.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"), full_check=True)
