"""``train --frozen int8``: remembered by the run's folder, and refused where nothing is frozen."""

import json

import numpy as np
import onnx

from tests.cli.command import command
from tests.training.quantized.test_frozen import data, model


def test_frozen_layers_in_integers_are_trained_resumed_and_exported(tmp_path):
    onnx.save(model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "train.npz", **data())
    what = ("train", tmp_path / "m.onnx", "--data", tmp_path / "train.npz", "--target", "target", "--loss", "mse")
    what += ("--lora", "4", "--frozen", "int8", "--epochs", "2", "--out", tmp_path / "run", "--json")
    before = [json.loads(line) for line in command(*what).splitlines() if '"loss"' in line]
    after = [
        json.loads(line)
        for line in command("train", "--resume", tmp_path / "run", "--epochs", "4", "--json").splitlines()
        if '"loss"' in line
    ]
    assert len(before) == len(after) == 2 and after[-1]["loss"] < before[0]["loss"]
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["frozen"] == "int8"
    command("export", tmp_path / "run", "--inference", tmp_path / "tuned.onnx")
    assert "MatMulInteger" not in {node.op_type for node in onnx.load(tmp_path / "tuned.onnx").graph.node}


def test_nothing_frozen_is_an_error(tmp_path):
    onnx.save(model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "train.npz", **data())
    what = ("train", tmp_path / "m.onnx", "--data", tmp_path / "train.npz", "--target", "target", "--loss", "mse")
    assert "no frozen MatMul" in command(*what, "--frozen", "int8", "--out", tmp_path / "run", code=2)
