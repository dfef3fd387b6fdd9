"""Passes of onnxruntime's optimiser that change results are left out, or find nothing."""

import numpy as np
import onnxruntime
import pytest
from onnx import parser

import onnxgrad as og
from onnxgrad import static

HEAD = '<ir_version: 8, opset_import: ["": 21]> g '
NOTHING = "(float[1, 4] v, float[2, 4] x) => (float[C, 4] y) <int64[2] s = {0, 4}> { w = Neg(v)  e = Expand(w, s)  y = Concat <axis = 0> (x, e) }"
FEED = {"v": np.ones((1, 4), "f4"), "x": np.ones((2, 4), "f4")}


@pytest.mark.parametrize("cached", [False, True])
def test_a_row_that_is_expanded_to_none_is_none(cached, tmp_path):
    program = og.from_onnx(parser.parse_model(HEAD + NOTHING))
    for _ in range(2):
        executor = og.Executor(cache=tmp_path if cached else None)
        (y,) = executor.run(program, FEED, program.outputs)
        assert y.shape == (2, 4)


def test_also_inside_a_branch():
    body = NOTHING.partition("{ w")[2].rpartition("}")[0]
    text = (
        "(float[1, 4] v, float[2, 4] x, bool c) => (float[C, 4] z) <int64[2] s = {0, 4}>"
        f" {{ z = If (c) <then_branch = t () => (float[C, 4] y) {{ w {body} }}, else_branch = f () => (float[2, 4] n) {{ n = Neg(x) }}> }}"
    )
    program = og.from_onnx(parser.parse_model(HEAD + text))
    (y,) = og.Executor().run(program, {**FEED, "c": np.array(True)}, program.outputs)
    assert y.shape == (2, 4)


def test_also_in_eager_tensors():
    v = og.to_tensor(np.ones((1, 4), "f4"))
    e = og.concat([og.to_tensor(np.ones((2, 4), "f4")), og.expand(-v, [0, 4])])
    assert e.numpy().shape == (2, 4)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("(float[3, 0] x) => (float[1, 0] y) <int64[1] i = {1}> { y = Gather <axis = 0> (x, i) }", (3, 0)),
        ("(float[2, 4] x) => (y) <int64[2] p = {2, 0}, int64[1] a = {0}> { h, t = Split <axis = 0> (x, p)  m = ReduceSum <keepdims = 0> (t, a)"
         "  n = ReduceSum <keepdims = 0> (h, a)  y = Add(m, n) }", (2, 4)),
    ],
)  # fmt: skip
def test_gradients_hold_no_such_expand(text, shape):
    program = og.from_onnx(parser.parse_model(HEAD + text))
    program.inputs[0].stop_gradient = False
    (g,) = og.gradients(program.outputs, program.inputs)
    model = og.to_onnx(program, [g])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x = np.ones(shape, "f4")
    (found,) = session.run(None, {v.name: x for v in session.get_inputs()})
    np.testing.assert_array_equal(found, np.ones(shape))


def test_a_body_that_is_written_again_may_ask_for_other_constants():
    """As a state of growing shape makes a while_loop write its body"""
    values = iter([1.0, 2.0, 3.0])
    program = static.Program()
    with static.program_guard(program, static.Program()):
        n = static.data("n", [], "int64")
        start = static.data("x", [1, 2])

        def step(i, x):
            return [i + 1, og.concat([x, x * program.constant(np.full((1, 2), next(values), "f4"))])]

        _, y = static.nn.while_loop(lambda i, x: i < n, step, [og.full([], 0, "int64"), start])
    (found,) = og.Executor().run(program, {"n": np.array(2), "x": np.ones((1, 2), "f4")}, [y])
    np.testing.assert_array_equal(found, [[1, 1], [2, 2], [2, 2], [4, 4]])
