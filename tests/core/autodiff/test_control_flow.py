"""Gradients through If, Loop and Scan as exporters write them."""

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad as og
from onnxgrad import errors, static
from onnxgrad.testing import evaluate

HEAD = '<ir_version: 10, opset_import: ["": 18]> f '


def program_of(text):
    """A program whose real inputs are differentiated"""
    program = og.from_onnx(onnx.parser.parse_model(HEAD + text))
    for v in program.inputs:
        v.stop_gradient = not v.is_float
    return program


def differences(text, feed, name, c):
    """Central differences of sum(first output * c) in float64, by the reference evaluator"""
    wide = onnx.parser.parse_model(HEAD + text.replace("float[", "double[").replace("float ", "double "))
    feed = {k: v.astype(np.float64) if v.dtype.kind == "f" else v for k, v in feed.items()}
    found = np.zeros(feed[name].size)
    for i in range(found.size):
        ends = []
        for sign in (1, -1):
            moved = feed[name].copy()
            moved.reshape(-1)[i] += sign * 1e-6
            ends.append((evaluate(wide, {**feed, name: moved})[0] * c).sum())
        found[i] = (ends[0] - ends[1]) / 2e-6
    return found.reshape(feed[name].shape)


def check(text, feed, *, ranked=True):
    """Gradients of the first output, on onnxruntime, against differences; a file that the full check accepts if it took the model"""
    program = program_of(text)
    y = program.outputs[0]
    wanted = [v for v in program.inputs if v.is_float]
    feed = {k: v.astype(np.float32) if v.dtype.kind == "f" else v for k, v in feed.items()}
    c = np.random.default_rng(7).uniform(-1, 1, og.Executor().run(program, feed, [y])[0].shape).astype(np.float32)
    with static.program_guard(program):
        seed = program.constant(c)
    gradients = og.gradients([y], wanted, [seed])
    found = [g for g in gradients if g is not None]
    model = og.to_onnx(program, found)
    if ranked:
        onnx.checker.check_model(model, full_check=True)
    else:
        onnxruntime.InferenceSession(model.SerializeToString())
    values = iter(og.Executor().run(program, feed, found))
    for v, g in zip(wanted, gradients, strict=True):
        value = 0 if g is None else next(values)
        np.testing.assert_allclose(value, differences(text, feed, v.name, c), rtol=1e-4, atol=1e-5, err_msg=v.name)


X, W = np.array([0.5, -0.3]), np.array([1.2, 0.7])
BRANCHES = {
    "sizes": "a = Mul (x, h) }, else_branch = e () => (float[4] b) { b = Concat <axis=0> (h, x) }",
    "ranks": "a = Mul (x, h) }, else_branch = e () => (float[1, 2] b) { k = Constant <value_ints=[0]> () b = Unsqueeze (h, k) }",
    "products": "a = MatMul (m, x) }, else_branch = e () => (float[2, 2] b) { b = MatMul (m, m) }",
}


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("branches", BRANCHES)
def test_branches_of_different_shapes(branches, taken):
    """The gradient that arrives has the shape of one branch, and the other must be written all the same"""
    text = f"""(float[2] x, float[2] w, float[2, 2] m, bool go) => (float[] y) {{
      h = Mul (x, w)
      r = If (go) <then_branch = t () => (float[2] a) {{ {BRANCHES[branches]}>
      y = Exp (r) }}"""
    feed = {"x": X, "w": W, "m": np.array([[0.3, 0.2], [-0.4, 0.6]]), "go": np.array(taken)}
    check(text, feed)


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_with_a_recurrent_layer_beside_one_of_another_rank(taken):
    text = """(float[3, 1, 2] x, float[1, 8, 2] w, float[1, 8, 2] r, bool go) => (float[] y) {
      y = If (go) <then_branch = t () => (float[3, 1, 1, 2] a) { a = LSTM <hidden_size=2> (x, w, r) },
        else_branch = e () => (float[3, 1, 2] b) { b = Sin (x) }> }"""
    draw = np.random.default_rng(0)
    feed = {"x": draw.normal(size=(3, 1, 2)), "w": draw.normal(size=(1, 8, 2)), "r": draw.normal(size=(1, 8, 2))}
    if not taken:
        check(text, {**feed, "go": np.array(False)})
        return
    program = program_of(text)
    wanted = [v for v in program.inputs if v.is_float]
    (seed,) = [program.constant(np.ones((3, 1, 1, 2), np.float32))]
    found = og.gradients(program.outputs, wanted, [seed])
    onnx.checker.check_model(og.to_onnx(program, found), full_check=True)
    feed = {name: value.astype(np.float32) for name, value in feed.items()} | {"go": np.array(True)}
    values = og.Executor().run(program, feed, found)
    lstm = HEAD + text[: text.index("{")].replace(", bool go", "").replace("[] y", "[3, 1, 1, 2] y")
    plain = og.from_onnx(onnx.parser.parse_model(lstm + "{ y = LSTM <hidden_size=2> (x, w, r) }"))
    for v in plain.inputs:
        v.stop_gradient = False
    expected = og.Executor().run(plain, feed, og.gradients(plain.outputs, plain.inputs))
    for a, b in zip(values, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("element", ["float[2]", "float[]"])
def test_a_scan_whose_operands_have_no_declared_rank(element, reverse):
    """onnxruntime runs no Scan with a result of unknown rank, such as the sum of the gradients of w"""
    text = f"""(float[] x, float[] h, float[] w) => (float[] y, float[] ys) {{
      y, ys = Scan <num_scan_inputs=1, scan_input_directions=[{reverse}],
        body = b (float[2] s, {element} e) => (float[2] t, float[2] o) {{
          m = MatMul (s, w) q = Add (m, e) t = Tanh (q) o = Mul (t, e) }}> (h, x) }}"""
    feed = {"x": np.linspace(-1, 1, 8).reshape(4, 2), "h": X, "w": np.array([[0.3, 0.2], [-0.4, 0.6]])}
    check(text, feed, ranked=False)
    swapped = text.replace("y, ys = Scan", "z, y = Scan").replace("(float[] y, float[] ys)", "(float[] y)")
    check(swapped, feed, ranked=False)


def test_a_scan_along_another_axis_of_elements_of_unknown_rank_is_refused():
    text = """(float[] x, float[2] h, float[] w) => (float[] y) {
      y = Scan <num_scan_inputs=1, scan_input_axes=[1], body = b (float[2] s, float[] e) => (float[2] t) {
        m = MatMul (s, w) q = Add (m, e) t = Tanh (q) }> (h, x) }"""
    program = program_of(text)
    with pytest.raises(errors.UnsupportedGradient, match=r"rank of .* in its body is unknown"):
        og.gradients(program.outputs, program.inputs)


SPLIT = """(float[n, 2] x, float[2, 2] w) => (float[] y) {
  h = MatMul (x, w) k = Constant <value=int64 {2}> () yes = Constant <value=bool {1}> () none = SequenceEmpty <dtype=1> ()
  parts = Loop (k, yes, none) <body = b (int64 i, bool c, seq(float[]) s) => (bool d, seq(float[]) t) {
    one = Constant <value=int64 {1}> () j = Add (i, one) axis = Constant <value_ints=[0]> ()
    start = Unsqueeze (i, axis) last = Add (j, i) end = Unsqueeze (last, axis)
    part = Slice (h, start, end, axis) t = SequenceInsert (s, part) d = Identity (c) }>
  joined = ConcatFromSequence <axis=0> (parts) y = Tanh (joined) }"""


@pytest.mark.parametrize("rows", [5, 0])
def test_a_loop_that_splits_a_tensor_into_a_sequence(rows):
    check(SPLIT, {"x": np.linspace(-1, 1, 2 * rows).reshape(rows, 2), "w": np.array([[0.3, 0.2], [-0.4, 0.6]])}, ranked=False)


def test_recomputation_of_a_loop_whose_gradient_is_a_sequence():
    feed = {"x": np.linspace(-1, 1, 18, dtype=np.float32).reshape(6, 3)}
    draw = np.random.default_rng(0)
    weights = {"w": draw.normal(size=(3, 8)), "last_w": draw.normal(size=(8, 8))}
    text = SPLIT.replace("(float[n, 2] x, float[2, 2] w) => (float[] y)", "(float[n, 3] x) => (float[m, 8] y)")
    model = onnx.parser.parse_model(HEAD + text.replace("y = Tanh (joined)", "y = MatMul (joined, last_w)"))
    model.graph.initializer.extend(onnx.numpy_helper.from_array(v.astype(np.float32), name) for name, v in weights.items())
    found = []
    for checkpoints in (None, "auto"):
        program = og.from_onnx(model)
        with static.program_guard(program):
            loss = og.mean(og.square(program.outputs[0] - 1.0))
        pairs = static.append_backward(loss, checkpoints=checkpoints)
        assert len(pairs) == 2
        found.append(static.Executor().run(program, feed, [loss, *(g for _, g in pairs)]))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
