"""BatchNormalization in training mode: onnxruntime writes its new statistics over the operands."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxgrad as og
from onnxgrad import static
from onnxgrad.testing import evaluate

DRAW = np.random.default_rng(0)
FEED = {"x": DRAW.normal(size=(5, 3, 2)), "w": DRAW.normal(size=3), "b": DRAW.normal(size=3), "m": DRAW.normal(size=3)}
FEED |= {"v": DRAW.uniform(0.5, 2, 3)}
NARROW = {name: value.astype(np.float32) for name, value in FEED.items()}
OPERANDS = "(float[5, 3, 2] x, float[3] w, float[3] b, float[3] m, float[3] v)"
USED = """s = Add (rm, rv) k = Constant <value=int64[2] {3, 1}> () q = Reshape (s, k) p = Mul (h, q) r = Reshape (m, k) y = Add (p, r)"""


def text_of(opset):
    mode, more = ("<training_mode=1>", "") if opset >= 14 else ("", ", sm, sv")
    head = f'<ir_version: {8 if opset > 14 else 6}, opset_import: ["": {opset}]> f {OPERANDS} => (float[5, 3, 2] y)'
    return f"{head} {{ h, rm, rv{more} = BatchNormalization {mode} (x, w, b, m, v) {USED} }}"


@pytest.mark.parametrize("opset", [9, 13, 14, 15, 18])
def test_statistics_that_are_used_match_differences_and_nothing_fed_is_changed(opset):
    program = og.from_onnx(onnx.parser.parse_model(text_of(opset)))
    for v in program.inputs:
        v.stop_gradient = False
    feed = {name: value.copy() for name, value in NARROW.items()}
    plain = og.Executor().run(program, feed, program.outputs)
    c = np.random.default_rng(1).uniform(-1, 1, (5, 3, 2))
    found = og.gradients(program.outputs, program.inputs, [program.constant(c.astype(np.float32))])
    assert all(g is not None for g in found)
    onnx.checker.check_model(og.to_onnx(program, found), full_check=True)
    executor = og.Executor()
    for _ in range(2):
        values = executor.run(program, feed, [*found, program.outputs[0]])
        np.testing.assert_allclose(values[-1], plain[0], rtol=1e-5, atol=1e-6)
        for name, value in NARROW.items():
            np.testing.assert_array_equal(feed[name], value)
    wide = onnx.parser.parse_model(text_of(15).replace("float", "double"))
    for name, value in zip(FEED, values, strict=False):
        for i in range(value.size):
            step = np.where(np.arange(value.size) == i, 1e-6, 0).reshape(value.shape)
            high, low = (evaluate(wide, {**FEED, name: FEED[name] + sign * step})[0] for sign in (1, -1))
            np.testing.assert_allclose(value.reshape(-1)[i], ((high - low) * c).sum() / 2e-6, rtol=1e-4, atol=2e-5)


def stored(outputs, used):
    """A file that an exporter wrote in training mode, with stored statistics"""
    nodes = [helper.make_node("BatchNormalization", ["x", "w", "b", "m", "v"], ["h", "rm", "rv"], training_mode=1)]
    if used:
        nodes += [helper.make_node("Add", ["rm", "rv"], ["s"]), helper.make_node("Reshape", ["s", "k"], ["q"])]
    nodes += [helper.make_node("Mul", ["h", "q"], ["y"]) if used else helper.make_node("Relu", ["h"], ["y"])]
    constants = [numpy_helper.from_array(NARROW[name], name) for name in "wbmv"]
    constants += [numpy_helper.from_array(np.array([3, 1]), "k")] if used else []
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 3, 2])
    shapes = {"y": [5, 3, 2], "rm": [3], "rv": [3]}
    returned = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in outputs]
    graph = helper.make_graph(nodes, "g", [x], returned, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("mode", [None, "train", "frozen"])
@pytest.mark.parametrize(("outputs", "used"), [(["y"], True), (["y", "rm", "rv"], False), (["y", "rm", "rv"], True)])
def test_files_in_training_mode_that_return_or_use_their_statistics_train(outputs, used, mode):
    program = og.from_onnx(stored(outputs, used))
    if mode is not None:
        program.train(batch_norm=mode)
    with static.program_guard(program):
        loss = og.mean(program.outputs[0] * program.outputs[0])
    og.optimizer.SGD(0.1).minimize(loss)
    executor = og.Executor()
    runs = [executor.run(program, {"x": NARROW["x"]}, [loss, *program.outputs]) for _ in range(4)]
    assert runs[3][0] < runs[1][0] < runs[0][0]
    if len(outputs) == 3:
        batch = 0.1 * NARROW["x"].mean((0, 2))
        first = 0.9 * NARROW["m"] + batch
        np.testing.assert_allclose(runs[0][2], first, rtol=1e-5)
        np.testing.assert_allclose(runs[1][2], 0.9 * first + batch if mode == "train" else first, rtol=1e-5)
    onnx.checker.check_model(og.to_onnx(program), full_check=True)
    og.to_training_step(program, [loss])


def test_one_output_in_training_mode_is_enough():
    """The specification has three outputs there, of which two are optional; onnxruntime wants all"""
    text = (
        '<ir_version: 8, opset_import: ["": 15]> f '
        + OPERANDS
        + """ => (float[5, 3, 2] y) {
      y = BatchNormalization <training_mode=1> (x, w, b, m, v) }"""
    )
    program = og.from_onnx(onnx.parser.parse_model(text))
    program.inputs[0].stop_gradient = False
    y, g = og.Executor().run(program, NARROW, [*program.outputs, *og.gradients(program.outputs, program.inputs[:1])])
    np.testing.assert_allclose(y.mean((0, 2)), NARROW["b"], atol=1e-5)
    np.testing.assert_allclose(g, 0, atol=1e-5)


def test_statistics_that_are_fed_are_not_made_state():
    text = text_of(15)
    program = og.from_onnx(onnx.parser.parse_model(text))
    plain = og.Executor().run(program, NARROW, program.outputs)
    program.train()
    np.testing.assert_array_equal(og.Executor().run(program, NARROW, program.outputs)[0], plain[0])
