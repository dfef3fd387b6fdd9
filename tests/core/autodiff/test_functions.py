"""Model-local functions: nested, with attributes, with control flow inside."""

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad
from onnxgrad import static

MODEL = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
f (float[2, 3] x, float[3, 2] w, int64 n, bool yes) => (float[2, 2] y) {
  a = my.twice <alpha=0.6> (x, w, n, yes)
  y = my.twice (a, a, n, yes)
}
<domain: "my", opset_import: ["": 21, "my": 1]>
scaled_sine <k> (u) => (v) {
  s = Sin (u)
  c = Constant <value_float: float = @k> ()
  v = Mul (s, c)
}
<domain: "my", opset_import: ["": 21, "my": 1]>
twice <alpha: float = 0.5> (p, q, n, yes) => (r) {
  m = MatMul (p, q)
  l = LeakyRelu <alpha: float = @alpha> (m)
  t = my.scaled_sine <k: float = @alpha> (l)
  u = If (yes) <then_branch = t () => (o) { o = Elu <alpha: float = @alpha> (t) }, else_branch = e () => (o2) { o2 = Cos (t) }>
  r = Loop (n, , u) <body = b (int64 i, bool c, s) => (d, z) {
    d = Identity (c)
    w = my.scaled_sine <k: float = @alpha> (s)
    z = Add (w, l)
  }>
}"""


@pytest.mark.parametrize("yes", [True, False])
@pytest.mark.parametrize("n", [0, 2])
def test_the_gradient_goes_through_nested_functions(n, yes):
    model = onnx.parser.parse_model(MODEL)
    rng = np.random.default_rng(0)
    feed = {"x": rng.normal(size=(2, 3)).astype("float32"), "w": rng.normal(size=(3, 2)).astype("float32")}
    feed |= {"n": np.array(n), "yes": np.array(yes)}
    program = onnxgrad.from_onnx(model)
    for v in program.inputs:
        v.stop_gradient = False
    found = static.gradients(program.outputs, program.inputs[:2])
    written = onnxgrad.to_onnx(program, [*program.outputs, *found])
    onnx.checker.check_model(written, full_check=True)
    y, *computed = onnxruntime.InferenceSession(written.SerializeToString()).run(None, feed)
    forward = onnxruntime.InferenceSession(model.SerializeToString())
    np.testing.assert_array_equal(y, forward.run(None, feed)[0])
    for name, g in zip("xw", computed, strict=True):
        step = np.zeros_like(g)
        for index in np.ndindex(*g.shape):
            ends = []
            for sign in (1, -1):
                moved = feed[name].copy()
                moved[index] += sign * 2e-3
                ends.append(forward.run(None, {**feed, name: moved})[0].sum(dtype="float64"))
            step[index] = (ends[0] - ends[1]) / 4e-3
        np.testing.assert_allclose(g, step, rtol=1e-2, atol=2e-3 * max(1.0, np.abs(g).max()))
