"""What exporters write although the specification does not have it."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import onnxgrad as og
import onnxgrad.nn.functional as F
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model

pytestmark = pytest.mark.damaged


def test_a_dimension_written_as_minus_one_is_unknown():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [-1, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [-1, 2])
    w = helper.make_tensor("w", TensorProto.FLOAT, [3, 2], np.ones(6))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    program = og.from_onnx(model)
    assert program.inputs[0].dims == (None, 3) and program.outputs[0].dims == (None, 2)
    assert og.to_onnx(program).graph.input[0] == x
    with og.static.program_guard(program):
        loss = F.mse_loss(program.outputs[0], og.zeros_like(program.outputs[0]))
    og.optimizer.SGD(0.1).minimize(loss)
    for rows in (2, 5):
        assert og.Executor().run(program, {"x": np.ones((rows, 3), np.float32)}, [loss])[0] > 0


def test_a_step_for_known_sizes_is_valid_although_the_file_has_a_dimension_of_minus_one():
    """The gradient of MaxPool ends in a shape of numbers, which onnx's inference compares with those before it."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [-1, 1, 4, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [-1, 1, 2, 2])
    w = helper.make_tensor("w", TensorProto.FLOAT, [1, 1, 1, 1], np.ones(1))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Mul", ["a", "a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], [w])
    program = og.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6))
    with og.static.program_guard(program):
        loss = og.mean(program.outputs[0])
    ((_, gradient),) = og.append_backward(loss)
    step = write_model(compile(program, [loss, gradient], "cpu", {"x": (3, 1, 4, 4)}, ordered=True))
    onnx.checker.check_model(step, full_check=True)
    assert not step.graph.input[0].type.tensor_type.shape.dim[0].HasField("dim_value")


def test_an_lstm_inside_an_if_trains_although_the_file_declares_no_shape():
    """onnxruntime refuses a Scan whose body does not declare the rank of its results."""
    draw = np.random.default_rng(0)
    weights = {"w": draw.normal(size=(1, 16, 3)), "r": draw.normal(size=(1, 16, 4))}
    initializers = [onnx.numpy_helper.from_array(value.astype(np.float32) * 0.3, name) for name, value in weights.items()]
    undeclared = [onnx.ValueInfoProto(name=name) for name in ("sequence", "h", "c", "last")]
    then = helper.make_graph(
        [helper.make_node("LSTM", ["s", "w", "r", "", "", "h", "c"], ["", "last", ""], hidden_size=4)], "then", [], [undeclared[3]]
    )
    other = helper.make_graph([helper.make_node("Identity", ["h"], ["same"])], "else", [], [onnx.ValueInfoProto(name="same")])
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["s"]),
        helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other),
    ]
    x, h, c = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "h", "c"))
    shape = helper.make_tensor_value_info("shape", TensorProto.INT64, None)
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x, h, c, shape, flag], [y], initializers)
    program = og.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    with og.static.program_guard(program):
        loss = og.mean(og.square(program.outputs[0]))
    gradients = [g for _, g in og.append_backward(loss)]
    assert len(gradients) == 2
    model, _ = og.to_training_step(program, [loss, *gradients])
    session = onnxruntime.InferenceSession(model.SerializeToString())

    def run(flag, **given):
        state = np.full((1, 2, 4), 0.5, np.float32)
        feeds = {"x": np.ones((5, 2, 3), np.float32), "h": state, "c": state, "shape": np.array([5, 2, 3]), "flag": np.array(flag)}
        return session.run(None, {**feeds, **given})

    value, *found = run(True)
    assert all(np.abs(g).max() > 0 for g in found)
    assert all(np.abs(g).max() == 0 for g in run(False)[1:])
    held = {t.name: onnx.numpy_helper.to_array(t) for t in initializers}
    for (name, g), tensor in zip(zip(held, found, strict=True), held.values(), strict=True):
        direction = draw.normal(size=tensor.shape).astype(np.float32)
        up, down = (run(True, **{name: tensor + step * direction})[0] for step in (0.01, -0.01))
        np.testing.assert_allclose((g * direction).sum(), (up - down) / 0.02, rtol=5e-3, atol=1e-4)
    assert value > 0
