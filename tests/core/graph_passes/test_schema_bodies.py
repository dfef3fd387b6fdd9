"""FlexAttention, which onnxruntime does not know, is run by the body of its schema; files keep it."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.training import Trainer
from tests.core.rules.test_expansions import _PLAIN, attention

FLEX = "y = ai.onnx.preview.FlexAttention (q, k, v)"
SHAPES = {"q": (2, 4, 3, 8), "k": (2, 4, 5, 8), "v": (2, 4, 5, 8)}


def feed(seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


@pytest.mark.parametrize("provider", [None, "cpu", "openvino", "webgpu", "cuda"])
def test_the_forward_graph_alone_is_run_by_any_onnxruntime(provider):
    """It was refused as no registered function"""
    results = []
    for body in (FLEX, _PLAIN):
        program = attention(body)
        graph = compile(program, program.outputs, provider, runs=True)
        assert ("schema_bodies" in {rewrite.name for rewrite in graph.rewrites}) == (body is FLEX)
        assert not any(op.domain == "ai.onnx.preview" for op in graph.operators)
        assert [name for name, _ in graph.outputs] == ["y"]
        session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
        results.append(session.run(["y"], feed())[0])
        assert [op.type for op in program.global_block().ops if op.domain] == ["FlexAttention"] * (body is FLEX)
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)


def test_one_in_a_branch_is_written_too():
    text = """<ir_version: 12, opset_import: ["": 24, "ai.onnx.preview": 1]>
    f (bool c, float[2, 4, 3, 8] q, float[2, 4, 5, 8] k, float[2, 4, 5, 8] v) => (float[2, 4, 3, 8] y) {
      y = If (c) <then_branch = t () => (float[2, 4, 3, 8] a) { a = ai.onnx.preview.FlexAttention (q, k, v) },
                  else_branch = e () => (float[2, 4, 3, 8] b) { b = Neg (q) }> }"""
    program = og.from_onnx(parse_model(text))
    (found,) = og.Executor().run(program, {"c": np.array(True), **feed()}, program.outputs)
    (wanted,) = og.Executor().run(attention(_PLAIN), feed(), ["y"])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def model(body):
    """Attention of x to itself, of any batch and length, with a weight before it"""
    text = f"""<ir_version: 12, opset_import: ["": 24, "ai.onnx.preview": 1]>
    f (float[N, 2, S, 8] x) => (float[N, 2, S, 8] y) {{ q = MatMul (x, w)  k = Identity (x)  v = MatMul (x, u)  {body} }}"""
    message = parse_model(text)
    rng = np.random.default_rng(1)
    for name in ("w", "u"):
        message.graph.initializer.append(numpy_helper.from_array(rng.normal(0, 0.3, (8, 8)).astype(np.float32), name))
    return message


def test_a_trainer_trains_predicts_and_exports_with_the_operator_of_the_file(tmp_path):
    rng = np.random.default_rng(2)
    data = {"x": rng.normal(size=(12, 2, 5, 8)).astype(np.float32), "target": rng.normal(size=(12, 2, 5, 8)).astype(np.float32)}
    found = []
    for body in (FLEX, _PLAIN):
        trainer = Trainer(model(body), loss="mse", learning_rate=0.05)
        history = trainer.fit(data, 3, data, batch_size=4, verbose=False)
        assert history[-1]["loss"] < history[0]["loss"]
        found.append([trainer.predict(data)["y"], *(np.array(p.get_value()) for p in trainer.trained), history[-1]["val_loss"]])
        trainer.export(tmp_path / "m.onnx")
        types = [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node]
        assert ("FlexAttention" in types) == (body is FLEX)
        step, _ = trainer.to_training_step()
        onnxruntime.InferenceSession(step.SerializeToString())
        assert not any(node.domain == "ai.onnx.preview" for node in step.graph.node)
    for ours, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-3, atol=1e-5)
