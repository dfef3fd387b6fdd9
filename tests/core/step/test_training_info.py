"""ModelProto.training_info: what is written trains as the program does, in the terms of the ONNX specification."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.errors import ArgumentError, ModelError

DIGITS = Path(__file__).parents[3] / "models" / "digits" / "digits.onnx"
RANDOM = np.random.default_rng(0)
FEEDS = {"image": RANDOM.uniform(size=(8, 1, 8, 8)).astype(np.float32), "label": RANDOM.integers(0, 10, 8)}


@pytest.fixture
def digits():
    program = paddle.from_onnx(DIGITS)
    program.train()
    with static.program_guard(program):
        label = static.data("label", ["batch"], "int64")
        loss = F.cross_entropy(program.outputs[0], label)
    paddle.optimizer.Adam(0.01).minimize(loss)
    return program, loss


def combined(model):
    """The training graph as the specification builds it: list after list."""
    info = model.training_info[0]
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.training_info[:]
    for field in ("input", "initializer", "output", "node"):
        getattr(whole.graph, field).extend(getattr(info.algorithm, field))
    return whole


def test_inference_runs_as_if_there_were_no_training(digits):
    program, loss = digits
    expected = onnxruntime.InferenceSession(DIGITS).run(None, {"image": FEEDS["image"]})[0]
    model = paddle.to_training_info(program, [loss])
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    assert [v.name for v in session.get_inputs()] == ["image"]
    np.testing.assert_allclose(session.run(None, {"image": FEEDS["image"]})[0], expected, rtol=1e-4, atol=1e-6)


def test_the_combined_graph_trains_by_its_bindings(digits):
    program, loss = digits
    model = paddle.to_training_info(program, [loss])
    whole = combined(model)
    onnx.checker.check_model(whole, full_check=True)
    assert {node.domain for node in whole.graph.node} == {""}
    binding = {entry.key: entry.value for entry in model.training_info[0].update_binding}
    assert set(binding) >= {p.name for p in program.parameters}
    held = {tensor.name: tensor for tensor in whole.graph.initializer}
    executor = static.Executor()
    for _ in range(3):
        session = onnxruntime.InferenceSession(whole.SerializeToString())
        value, *new = session.run([loss.name, *binding.values()], FEEDS)
        np.testing.assert_allclose(value, executor.run(program, FEEDS, [loss])[0], rtol=1e-5)
        for name, array in zip(binding, new, strict=True):
            held[name].CopyFrom(onnx.numpy_helper.from_array(array, name))


def test_what_is_written_is_read_back(digits, tmp_path):
    program, loss = digits
    path = tmp_path / "digits.onnx"
    path.write_bytes(paddle.to_training_info(program, [loss]).SerializeToString())
    training = paddle.from_training_info(path)
    assert {p.name for p in training.program.parameters} == {p.name for p in program.parameters}
    assert [v.name for v in training.fetches] == [loss.name]
    executor = static.Executor()
    for _ in range(4):
        (expected,) = executor.run(program, FEEDS, [loss])
        (ours,) = executor.run(training.program, FEEDS, training.fetches)
        np.testing.assert_allclose(ours, expected, rtol=1e-5)
    answers = [
        onnxruntime.InferenceSession(paddle.to_onnx(trained).SerializeToString()).run(None, {"image": FEEDS["image"]})[0]
        for trained in (program, training.program)
    ]
    np.testing.assert_allclose(*answers, rtol=1e-4, atol=1e-5)
    written, stored = paddle.to_onnx(training.program).graph, onnx.load(path).graph
    for field in ("node", "input", "output", "initializer"):
        assert len(getattr(written, field)) == len(getattr(stored, field)), field


def test_initialization_starts_the_optimizer_anew(digits):
    program, loss = digits
    executor = static.Executor()
    executor.run(program, FEEDS, [loss])
    training = paddle.from_training_info(paddle.to_training_info(program, [loss]))
    scope = training.program.scope
    moment = next(v.name for v in training.program.updates if "moment1" in v.name)
    assert np.abs(training.program.find(moment).get_value()).max() > 0
    executor.run(training.startup)
    assert np.abs(np.asarray(scope.get(moment))).max() == 0
    weight = program.parameters[0].name
    np.testing.assert_array_equal(training.program.find(weight).get_value(), program.find(weight).get_value())


def test_the_learning_rate_of_a_read_file_can_be_changed(digits):
    program, loss = digits
    training = paddle.from_training_info(paddle.to_training_info(program, [loss]))
    _, manifest = paddle.to_training_step(training.program, training.fetches)
    (rate,) = manifest["learning_rate"]
    training.program.find(rate).set_value(np.zeros((), np.float32))
    weight = training.program.parameters[0]
    before = weight.get_value()
    static.Executor().run(training.program, FEEDS, training.fetches)
    np.testing.assert_array_equal(weight.get_value(), before)


FOREIGN = """<ir_version: 8, opset_import: ["": 17, "ai.onnx.preview.training": 1]>
f (float[N, 3] x) => (float[N, 1] y) <float[3, 1] w = {0.0, 0.0, 0.0}> { y = MatMul(x, w) }"""
ALGORITHM = """<ir_version: 8, opset_import: ["": 17, "ai.onnx.preview.training": 1]>
a (float[N, 3] x, float[N, 1] y, float[3, 1] w, float[N, 1] t) => (float loss, float[3, 1] w2, float[3, 1] v2, int64 n2)
<float[3, 1] v = {0.0, 0.0, 0.0}, float r = {0.2}, int64 n = {0}, int64 one = {1}> {
    d = Sub(y, t)
    s = Mul(d, d)
    loss = ReduceMean <keepdims: int = 0> (s)
    g = ai.onnx.preview.training.Gradient <xs: strings = ["w"], zs: strings = ["x", "t"], y: string = "loss"> (w, x, t)
    w2, v2 = ai.onnx.preview.training.Momentum <alpha: float = 0.5, beta: float = 1.0, mode: string = "standard",
        norm_coefficient: float = 0.0> (r, n, w, g, v)
    n2 = Add(n, one)
}"""
INITIALIZATION = """<ir_version: 8, opset_import: ["": 17]>
i () => (float[3, 1] start) <int64[2] shape = {3, 1}> { start = RandomNormal <shape = [3, 1], seed: float = 1.0> () }"""


def foreign():
    model = parser.parse_model(FOREIGN)
    info = model.training_info.add()
    algorithm = parser.parse_model(ALGORITHM).graph
    kept = [v for v in algorithm.input if v.name == "t"]
    del algorithm.input[:]
    algorithm.input.extend(kept)
    info.algorithm.CopyFrom(algorithm)
    info.initialization.CopyFrom(parser.parse_model(INITIALIZATION).graph)
    for binding, pairs in (
        (info.update_binding, [("w", "w2"), ("v", "v2"), ("n", "n2")]),
        (info.initialization_binding, [("w", "start")]),
    ):
        for key, value in pairs:
            entry = binding.add()
            entry.key, entry.value = key, value
    return model


def test_a_file_with_gradient_and_momentum_trains():
    training = paddle.from_training_info(foreign(), expand="ai.onnx.preview.training")
    assert [p.name for p in training.program.parameters] == ["w"] and [v.name for v in training.fetches] == ["loss"]
    executor = static.Executor()
    executor.run(training.startup)
    assert np.abs(training.program.find("w").get_value()).min() > 0
    x = RANDOM.normal(size=(16, 3)).astype(np.float32)
    target = np.array([[1.0], [2.0], [3.0]], np.float32)
    for _ in range(60):
        (loss,) = executor.run(training.program, {"x": x, "t": x @ target}, training.fetches)
    assert loss < 1e-4 and int(training.program.find("n").get_value()) == 60
    np.testing.assert_allclose(training.program.find("w").get_value(), target, atol=0.02)
    inference = paddle.to_onnx(training.program)
    assert [node.op_type for node in inference.graph.node] == ["MatMul"]


def test_a_binding_to_nothing_is_refused():
    model = foreign()
    model.training_info[0].update_binding[0].value = "nothing"
    with pytest.raises(ModelError, match="'nothing'"):
        paddle.from_training_info(model, expand="ai.onnx.preview.training")


def test_a_model_without_training_is_refused():
    with pytest.raises(ModelError, match="holds 0 training_info"):
        paddle.from_training_info(DIGITS)
    with pytest.raises(ArgumentError, match="minimize"):
        paddle.to_training_info(paddle.from_onnx(DIGITS), [])
