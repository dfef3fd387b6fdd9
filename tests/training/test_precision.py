"""Trainer(precision="fast") and train --precision fast: steps that round more in 3x3 convolutions."""

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

from onnxgrad.cli.main import main
from onnxgrad.errors import ArgumentError
from onnxgrad.training import Trainer
from tests.training.small import weights

IMAGES = np.random.default_rng(2).normal(size=(16, 64, 8, 8)).astype(np.float32)
TARGET = 0.1 * np.random.default_rng(3).normal(size=IMAGES.shape).astype(np.float32)


def convolutions():
    found = parse_model(
        """<ir_version: 8, opset_import: ["": 17]> f (float[N, 64, 8, 8] x) => (float[N, 64, 8, 8] y) {
        a = Conv <pads = [1, 1, 1, 1]> (x, v)  b = Tanh(a)  y = Conv <pads = [1, 1, 1, 1]> (b, w) }"""
    )
    draw = np.random.default_rng(1)
    for name in "vw":
        array = draw.normal(0, 0.04, (64, 64, 3, 3)).astype(np.float32)
        found.graph.initializer.append(numpy_helper.from_array(array, name))
    return found


def test_the_fast_forms_are_taken_where_they_are_asked_for():
    found = {}
    for precision in ("full", "fast"):
        t = Trainer(convolutions(), loss="mse", optimizer="sgd", learning_rate=1.0, precision=precision)
        losses = [t.step({"x": IMAGES, "target": TARGET})["loss"] for _ in range(3)]
        found[precision] = losses, weights(t)
    assert found["full"][0][-1] < found["full"][0][0]
    np.testing.assert_allclose(found["fast"][0], found["full"][0], rtol=1e-5)
    fast, full = found["fast"][1], found["full"][1]
    assert any((fast[name] != full[name]).any() for name in "vw")
    for name in "vw":
        np.testing.assert_allclose(fast[name], full[name], atol=2e-5)


def test_another_word_is_refused():
    with pytest.raises(ArgumentError, match="precision is 'full' or 'fast', not 'tf32'"):
        Trainer(convolutions(), loss="mse", precision="tf32")


def test_the_command_and_a_run_that_is_resumed_take_it(tmp_path):
    onnx.save(convolutions(), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=IMAGES, target=TARGET)
    found = {}
    for precision in ("f32", "fast"):
        out = str(tmp_path / precision)
        given = ["--data", str(tmp_path / "d.npz"), "--loss", "mse", "--optimizer", "sgd", "--lr", "1", "--batch-size", "16"]
        assert main(["train", str(tmp_path / "m.onnx"), *given, "--epochs", "1", "--out", out, "--precision", precision]) == 0
        assert main(["train", "--resume", out, "--more-epochs", "2"]) == 0
        settings = json.loads((tmp_path / precision / "settings.json").read_text())
        found[precision] = [json.loads(line)["loss"] for line in (tmp_path / precision / "history.jsonl").read_text().splitlines()]
        assert settings["precision"] == precision and len(found[precision]) == 3
    assert found["fast"] != found["f32"]
    np.testing.assert_allclose(found["fast"], found["f32"], rtol=1e-5)
