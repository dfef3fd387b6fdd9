"""Files as builders of language models, fusers and quantisers make them: differentiated and trained as they are.

tests/data/llm_models has a README. The slopes are differences of onnxruntime's own runs, along a fixed direction of each weight.
"""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import static

FOLDER = Path(__file__).parents[2] / "data" / "llm_models"
META = json.loads((FOLDER / "meta.json").read_text())
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
# How many slopes of float weights there are to compare.
COMPARED = {"llama-fp32": 16, "llama-int4": 5, "qwen2-fp32": 18, "bert-fused": 28, "bert-dynamic-int8": 18}
QDQ = "cnn-qdq-per-channel"
# What makes these files fast and small, and must stay.
KEPT = ("MatMulInteger", "DynamicQuantizeLinear", "QuantizeLinear", "DequantizeLinear", "SimplifiedLayerNormalization")


class Case:
    def __init__(self, name, reference=False, rows=slice(None), parameters=None):
        self.path = FOLDER / (f"{name}.ref.onnx" if reference else f"{name}.onnx")
        with np.load(FOLDER / f"{name}.npz") as file:
            self.feed = dict(file)
        self.feed = {k: v[rows] for k, v in self.feed.items()}
        labels = self.feed.pop("labels", None)
        self.program = paddle.from_onnx(self.path, parameters=parameters)
        out = self.program.outputs[0]
        with static.program_guard(self.program):
            if META[name]["kind"] == "causal":
                words = next(v for v in self.program.inputs if v.name == META[name]["ids"])
                out, target = out[:, :-1], words[:, 1:]
            else:
                target = static.data("labels", [None], "int64")
                self.feed["labels"] = labels.astype(np.int64)
            scores = paddle.nn.functional.log_softmax(out, axis=-1)
            self.loss = -paddle.mean(paddle.take_along_axis(scores, paddle.unsqueeze(target, -1), axis=-1))

    def run(self, outputs):
        return paddle.Executor().run(self.program, self.feed, outputs)


def fused(model):
    """Operators of onnxruntime and of quantisation in a file, by type"""
    return Counter(node.op_type for node in model.graph.node if node.domain or node.op_type in KEPT)


def along(gradient):
    direction = np.random.default_rng(1).standard_normal(gradient.shape)
    return float((gradient * direction).sum() / np.linalg.norm(direction))


@pytest.mark.parametrize("name", COMPARED)
def test_gradients_agree_with_differences_and_the_operators_stay(name):
    case, expected = Case(name), EXPECTED[name]
    wanted = {p.name: p for p in case.program.parameters if p.name in expected["slopes"]}
    found = dict(zip(wanted, static.gradients(case.loss, list(wanted.values())), strict=True))
    loss, *values = case.run([case.loss, *found.values()])
    assert float(loss) == pytest.approx(expected["loss"], rel=1e-5)
    for label, value in zip(found, values, strict=True):
        slope = expected["slopes"][label]
        assert along(value) == pytest.approx(slope, rel=META[name]["tol"], abs=1e-5), label
    assert len(found) == COMPARED[name]
    training = fused(paddle.to_onnx(case.program, [*case.program.outputs, case.loss, *found.values()]))
    before = fused(onnx.load(case.path))
    assert before
    assert all(training[kind] >= count for kind, count in before.items())


def test_gradients_of_quantised_filters_are_nearly_those_of_the_float_file():
    """In the rows without a saturated score: two of four have one, and what saturates passes no gradient"""
    whole = Case(QDQ)
    assert float(whole.run([whole.loss])[0]) == pytest.approx(EXPECTED[QDQ]["loss"], rel=1e-5)
    case, plain = Case(QDQ, rows=slice(2, 4)), Case(QDQ, reference=True, rows=slice(2, 4))
    block = case.program.global_block()
    inner = [block.vars[f"{name}_DequantizeLinear_Output"] for name in ("w1", "w2", "w3")]
    weights = [p for name in ("w1", "w2", "w3") for p in plain.program.parameters if p.name == name]
    ours, theirs = case.run(static.gradients(case.loss, inner)), plain.run(static.gradients(plain.loss, weights))
    for g, float_g in zip(ours, theirs, strict=True):
        # Activations of 8 bits move some values across the corner of Relu and change which is the largest in a window.
        assert np.linalg.norm(g - float_g) < 0.15 * np.linalg.norm(float_g)
    training = fused(paddle.to_onnx(case.program, [case.loss, *(v.block.vars[v.grad_name] for v in inner)]))
    assert training["QuantizeLinear"] == 7 and training["DequantizeLinear"] >= 13


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", META)
def test_training_lowers_the_loss_of_the_exported_file(name, tmp_path):
    case = Case(name, parameters="w?_scale" if name == QDQ else None)
    with static.program_guard(case.program):
        paddle.optimizer.Adam(0.003).minimize(case.loss)
    losses = [float(case.run([case.loss])[0]) for _ in range(6)]
    assert losses[-1] < losses[0] - 0.01
    step, _ = paddle.to_training_step(case.program, [case.loss])
    before = fused(onnx.load(case.path))
    assert all(fused(step)[kind] >= count for kind, count in before.items())
    paddle.save_onnx(case.program, tmp_path / "tuned.onnx", case.program.outputs)
    tuned = onnx.load(tmp_path / "tuned.onnx")
    assert fused(tuned) == before
    assert tuned.ByteSize() < 1.2 * case.path.stat().st_size
    feed = {k: v for k, v in case.feed.items() if k != "labels"}
    outputs = [
        onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feed)[0]
        for path in (case.path, tmp_path / "tuned.onnx")
    ]
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-3


@pytest.mark.parametrize("name", ["llama-fp32", "llama-int4", "qwen2-fp32", "bert-fused"])
def test_file_in_standard_operators_alone_computes_the_same(name):
    with np.load(FOLDER / f"{name}.npz") as file:
        feed = {k: v for k, v in file.items() if k != "labels"}
    plain = paddle.to_onnx(paddle.from_onnx(FOLDER / f"{name}.onnx", expand="com.microsoft"))
    onnx.checker.check_model(plain)
    assert {node.domain for node in plain.graph.node} == {""}
    options = {"providers": ["CPUExecutionProvider"]}
    ours = onnxruntime.InferenceSession(plain.SerializeToString(), **options).run(None, feed)
    theirs = onnxruntime.InferenceSession(str(FOLDER / f"{name}.onnx"), **options).run(None, feed)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
