"""Tensors without elements whose shapes are known."""

import numpy as np
import onnx
import pytest

import onnxgrad as og

HEAD = '<ir_version: 10, opset_import: ["": 18]> f '
CASES = {
    "mean over nothing": """(float[2, 0, 3] x) => (float[2, 1, 3] y) {
      k = Constant <value_ints=[1]> () h = ReduceMean (x, k) y = Tanh (h) }""",
    "columns of no rows": """(float[0, 4] x) => (float[0, 2] y) {
      i = Constant <value_ints=[1, 0]> () y = Gather <axis=1> (x, i) }""",
    "a 0 beside a -1": """(float[2, 0, 8] x) => (float[2, 0, 4, 2] y) {
      h = Tanh (x) s = Constant <value_ints=[0, 0, 4, -1]> () y = Reshape (h, s) }""",
    "repeated no times": """(float[3, 1] x) => (float[3] y) {
      s = Constant <value_ints=[3, 0]> () h = Expand (x, s) k = Constant <value_ints=[1]> ()
      r = ReduceSum <keepdims=0> (h, k) q = Squeeze (x, k) y = Add (q, r) }""",
}


@pytest.mark.parametrize("case", CASES)
def test_gradients_have_the_shape_of_what_they_belong_to(case):
    program = og.from_onnx(onnx.parser.parse_model(HEAD + CASES[case]))
    (x,) = program.inputs
    x.stop_gradient = False
    (g,) = og.gradients(program.outputs, [x])
    onnx.checker.check_model(og.to_onnx(program, [g]), full_check=True)
    feed = {"x": np.ones(x.static_shape, np.float32)}
    y, value = og.Executor().run(program, feed, [*program.outputs, g])
    assert y.shape == program.outputs[0].static_shape
    np.testing.assert_array_equal(value, feed["x"])
