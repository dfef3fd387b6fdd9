"""Branches of Ifs whose condition is known are written in their place."""

import numpy as np
import onnx
import pytest

import onnxgrad as og
from onnxgrad import static
from onnxgrad.testing import evaluate

SCAN = """R, stacked = Scan <num_scan_inputs=1, body = b (float[2] s, float e) => (float[2] t, float[2] o) {
  t = Mul (s, w) o = Mul (t, e) }> (x, w)"""
LOOP = """n = Constant <value=int64 {2}> () yes = Constant <value=bool {1}> ()
R = Loop (n, yes, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) { u = Mul (s, w) t = Tanh (u) d = Identity (c) }>"""
NESTED = """y = If (OUTER) <
  then_branch = t1 () => (float[2] a) { a = If (INNER) <
    then_branch = t2 () => (float[2] p) { BODY }, else_branch = e2 () => (float[2] q) { q = Sin (w) }> },
  else_branch = e1 () => (float[2] b) { h = Mul (x, w) b = If (INNER) <
    then_branch = t3 () => (float[2] v) { v = Identity (h) }, else_branch = e3 () => (float[2] z) { OTHER }> }>"""
FEED = {"x": np.array([0.5, -0.3]), "w": np.array([1.2, 0.7])}
CONDITIONS = {
    "constants": "no = Not (yes0) some = Constant <value=bool {1}> ()",
    "shapes": "s = Shape (x) k = Constant <value_ints=[2]> () same = Equal (s, k) some = Squeeze (same) no = Not (some)",
    "numbers": "a0 = Constant <value_float=1.5> () b0 = Constant <value_float=0.5> () some = Less (b0, a0) no = Less (a0, b0)",
    "casts": "one = Constant <value_int=1> () some0 = Cast <to=9> (one) some = Or (some0, go) no = And (go, never)",
}


def model_of(inner, conditions, outer, decision):
    text = NESTED.replace("BODY", inner.replace("R", "p", 1)).replace("OTHER", inner.replace("R", "z", 1))
    text = text.replace("OUTER", outer).replace("INNER", decision)
    head = '<ir_version: 10, opset_import: ["": 18]> f (double[2] x, double[2] w, bool go) => (double[2] y)'
    text = f"{head} <bool yes0 = {{1}}, bool never = {{0}}> {{ {CONDITIONS[conditions]} {text} }}"
    return text.replace("float[2]", "double[2]").replace("float e", "double e")


def differences(model, feed, name, c):
    found = []
    for i in range(2):
        step = np.where(np.arange(2) == i, 1e-6, 0)
        high, low = (evaluate(model, {**feed, name: feed[name] + sign * step})[0] for sign in (1, -1))
        found.append(((high - low) * c).sum() / 2e-6)
    return np.array(found)


@pytest.mark.parametrize("conditions", CONDITIONS)
@pytest.mark.parametrize("outer", ["some", "no", "go"])
@pytest.mark.parametrize("inner", [SCAN, LOOP], ids=["Scan", "Loop"])
def test_nested_ifs_with_known_conditions_match_differences(inner, outer, conditions):
    """onnxruntime's own inlining of them loses values, or ends the process"""
    for decision in ("some", "no"):
        text = model_of(inner, conditions, outer, decision)
        feed = {**FEED, "go": np.array(True)}
        narrow = onnx.parser.parse_model(text.replace("double", "float"))
        program = og.from_onnx(narrow)
        wanted = [v for v in program.inputs if v.is_float]
        for v in wanted:
            v.stop_gradient = False
        c = np.array([0.7, -0.4])
        with static.program_guard(program):
            loss = og.sum(program.outputs[0] * program.constant(c.astype(np.float32)))
        found = og.gradients([loss], wanted)
        model = og.to_onnx(program, found)
        onnx.checker.check_model(model, full_check=True)
        assert any(node.op_type == "If" for node in model.graph.node) == (outer == "go")
        values = og.Executor().run(program, {k: v.astype(np.float32) if v.ndim else v for k, v in feed.items()}, found)
        wide = onnx.parser.parse_model(text)
        for v, value in zip(wanted, values, strict=True):
            np.testing.assert_allclose(value, differences(wide, feed, v.name, c), rtol=1e-4, atol=1e-5)


def test_a_condition_that_is_fed_decides_when_it_runs():
    text = """<ir_version: 10, opset_import: ["": 18]> f (float[2] x, bool go) => (float[2] y) {
      y = If (go) <then_branch = t () => (float[2] a) { a = Sin (x) }, else_branch = e () => (float[2] b) { b = Cos (x) }> }"""
    program = og.from_onnx(onnx.parser.parse_model(text))
    written = og.to_onnx(program, program.outputs)
    assert [node.op_type for node in written.graph.node] == ["If"]


def test_the_program_and_its_file_keep_their_ifs():
    text = model_of(SCAN, "constants", "some", "some").replace("double", "float")
    program = og.from_onnx(onnx.parser.parse_model(text))
    assert [node.op_type for node in og.to_onnx(program, program.outputs).graph.node] == ["Scan"]
    assert "If" in [node.op_type for node in og.to_onnx(program).graph.node]


def test_weights_and_names_of_chosen_branches():
    """Two branches may use one name; a weight inside them is trained; one value may be returned twice, or come from outside."""
    text = """<ir_version: 10, opset_import: ["": 18]> f (float[2] x) => (float[2] y, float[2] z, float[2] o) <bool yes = {1}> {
      h = Sin (x)
      y, z = If (yes) <then_branch = t () => (float[2] a, float[2] a) { k = Constant <value_floats=[0.5, 2.0]> () a = Mul (h, k) },
        else_branch = e () => (float[2] b, float[2] b) { b = Cos (x) }>
      o = If (yes) <then_branch = t2 () => (float[2] h2) { a = Mul (h, y) h2 = Identity (h) },
        else_branch = e2 () => (float[2] b) { b = Cos (x) }> }"""
    program = og.from_onnx(onnx.parser.parse_model(text))
    (weight,) = program.all_parameters()
    with static.program_guard(program):
        loss = og.sum(program.outputs[0] * program.outputs[1] + program.outputs[2])
    og.optimizer.SGD(1.0).minimize(loss)
    x = np.array([0.3, 1.1], np.float32)
    before = og.Executor().run(program, {"x": x}, program.outputs)
    np.testing.assert_allclose(before[0], np.sin(x) * [0.5, 2.0], rtol=1e-6)
    np.testing.assert_array_equal(before[1], before[0])
    np.testing.assert_allclose(before[2], np.sin(x), rtol=1e-6)
    new = og.Executor().run(program, {"x": x}, [weight])[0]
    start = np.array([0.5, 2.0])
    first = start - 2 * start * np.sin(x) ** 2
    np.testing.assert_allclose(new, first - 2 * first * np.sin(x) ** 2, rtol=1e-5)
