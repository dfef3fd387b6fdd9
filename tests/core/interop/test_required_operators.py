"""The list of operators for reduced builds of onnxruntime is what its own tool finds."""

import subprocess
import sys

import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.interop.required_operators import required_operators


def _parsed(text):
    lines = [line.split(";") for line in text.splitlines() if line and not line.startswith("#")]
    return {(domain, int(version), name) for domain, version, names in lines for name in names.split(",")}


def step():
    x, label = static.data("x", [None, 4]), static.data("label", [None], "int64")
    out = static.nn.cond(paddle.mean(x) > 0.0, lambda: paddle.nn.functional.relu(x), lambda: paddle.tanh(x))
    loss = paddle.nn.functional.cross_entropy(static.nn.fc(out, 3), label)
    paddle.optimizer.Adam(0.01).minimize(loss)
    static.Executor().run(static.default_startup_program())
    return paddle.to_training_step(static.default_main_program(), [loss])[0]


def test_operators_of_bodies_are_listed_with_the_version_of_their_definition():
    found = _parsed(required_operators(step()))
    assert {("ai.onnx", 14, "Relu"), ("ai.onnx", 13, "Tanh"), ("ai.onnx", 13, "Gemm"), ("ai.onnx", 14, "Mul")} <= found
    assert any(name == "If" for _, _, name in found)


@pytest.mark.process
@pytest.mark.exhaustive
def test_a_step_in_the_ort_format_needs_no_other_operators(tmp_path):
    model = step()
    (tmp_path / "step.onnx").write_bytes(model.SerializeToString())
    convert = [sys.executable, "-m", "onnxruntime.tools.convert_onnx_models_to_ort", tmp_path / "step.onnx"]
    done = subprocess.run([*convert, "--optimization_style", "Fixed"], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0 and (tmp_path / "step.ort").exists(), done.stderr
    needed = {name for domain, _, name in _parsed((tmp_path / "step.required_operators.config").read_text()) if domain == "ai.onnx"}
    assert needed <= {name for _, _, name in _parsed(required_operators(model))}
