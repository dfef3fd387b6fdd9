"""onnxgrad plan: what many ranks would take, as a user asks for it."""

import json
import re

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

from onnxgrad.cli import plan as planning
from tests.cli.command import ROOT, command, run_here


@pytest.fixture
def net(tmp_path):
    """A file of four equal layers"""
    lines = " ".join(f"h{i} = Gemm(a{i}, w{i}) a{i + 1} = Tanh(h{i})" for i in range(4))
    file = parse_model(f'<ir_version: 8, opset_import: ["": 17]> m (float[N, 64] a0) => (float[N, 64] a4) {{ {lines} }}')
    for i in range(4):
        weight = np.random.default_rng(i).normal(0, 0.1, (64, 64)).astype(np.float32)
        file.graph.initializer.append(numpy_helper.from_array(weight, f"w{i}"))
    onnx.save(file, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_a_plan_is_a_table_of_80_columns_and_json(net):
    words = ["plan", net, "--ranks", "64", "--link", "1Gbit", "--batch", "512", "--pipeline", "4", "--step-seconds", "0.1"]
    table = command(*words)
    assert max(map(len, table.splitlines())) <= 80
    assert "64 ranks, 1 Gbit/s and 5 us a message, adamw\nbatch 512: 8 a rank, a0 [8, 64]\n" in table
    assert re.search(r"\n  sent by a rank +129\.4 kB +129\.4 kB +", table) and re.search(
        r"\n  computes +100 ms +100 ms +100 ms\n", table
    )
    facts = json.loads(command(*words, "--json"))
    weights = 4 * 64 * 64 * 4
    plans = facts["plans"]
    assert plans["data parallel"]["bytes_sent"] == pytest.approx(2 * 63 / 64 * weights, rel=0.01)
    assert plans["data parallel"]["memory"]["weights"] == plans["shares"]["memory"]["weights"] == weights
    assert plans["shares"]["memory"]["optimizer state"] == pytest.approx(2 * weights / 64, rel=0.01)
    assert plans["pipeline of 4"]["memory"]["weights"] == weights / 4
    assert plans["shares"]["seconds"] > 0.1 and facts["batch_of_rank"] == 8 and not facts["is_measured"]


def test_a_step_is_measured_with_the_part_of_a_rank(net, monkeypatch):
    steps = []
    measured = planning._measured
    monkeypatch.setattr(planning, "_measured", lambda step, threads: steps.append((step, measured(step, threads))) or 0.5)
    # In this process, where the measurement is replaced.
    _, out, _ = run_here(["plan", net, "--ranks", "4", "--link", "1Gbit", "--batch", "30", "--optimizer", "sgd", "--json"])
    facts = json.loads(out)
    ((step, seconds),) = steps
    assert step.feeds["a0"].shape == (8, 64) and seconds > 0
    assert facts["step_seconds"] == 0.5 and facts["is_measured"]
    assert facts["plans"]["data parallel"]["memory"]["optimizer state"] == 0


def test_sizes_of_sequences_and_of_files_with_a_fixed_batch(tmp_path):
    model = ROOT / "tests" / "data" / "real_models" / "torch" / "gru_clf-dyn18" / "model.onnx"
    common = ["--ranks", "8", "--link", "10Gbit", "--step-seconds", "1", "--json"]
    facts = json.loads(command("plan", model, *common, "--batch", "16", "--seq", "12"))
    assert [shape[:2] for shape in facts["inputs"].values()] == [[2, 12]]
    file = parse_model("""<ir_version: 8, opset_import: ["": 17]> m (float[8, 4] x) => (float[8, 4] y)
                          <float[4] w = {1, 2, 3, 4}> { z = Mul(x, w)  n = ReduceMax(z)  y = Sub(z, n) }""")
    onnx.save(file, tmp_path / "fixed.onnx")
    facts = json.loads(command("plan", tmp_path / "fixed.onnx", *common, "--batch", "16"))
    assert facts["batch"] == 64 and facts["batch_of_rank"] == 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ranks", "0", "--link", "1Gbit"], "--ranks is at least 1"),
        (["--ranks", "6", "--link", "1Gbit", "--pipeline", "4"], "Take a multiple of 4"),
        (["--ranks", "6", "--link", "wide"], "such as 100Gbit"),
        (["--ranks", "6", "--link", "1Gbit", "--step-seconds", "0"], "--step-seconds is above 0"),
        (["--ranks", "6", "--link", "1Gbit", "--optimizer", "best"], "no optimizer 'best'"),
        (["--ranks", "40", "--link", "1Gbit", "--pipeline", "20", "--step-seconds", "1"], "no 20 stages"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_what_makes_no_sense_is_refused(net, words, said):
    assert said in command("plan", net, *words, code=2)


def test_a_file_without_a_result_to_differentiate_is_refused(tmp_path):
    file = parse_model(
        """<ir_version: 8, opset_import: ["": 17]> m (float[N, 4] x) => (int64[N] y) { y = ArgMax<axis=1, keepdims=0>(x) }"""
    )
    onnx.save(file, tmp_path / "m.onnx")
    assert "no output of floating-point numbers" in command("plan", tmp_path / "m.onnx", "--ranks", "2", "--link", "1Gbit", code=1)
