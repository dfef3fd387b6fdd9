"""What the gradient of a loop records, and loops in segments."""

import numpy as np
import onnx
import pytest

import onnxgrad
from onnxgrad import errors, static
from onnxgrad.core.ir.bodies import loop_times, write_body
from onnxgrad.core.ir.types import BOOL_SCALAR, INDEX, TensorType
from onnxgrad.core.ir.variable import Variable

BODY = "<ir_version: 10, opset_import: ['': 21]>"


def program_of(text):
    program = onnxgrad.from_onnx(onnx.parser.parse_model(text))
    for v in program.inputs:
        v.stop_gradient = False
    return program


RECURRENCE = """<ir_version: 10, opset_import: ["": 21]>
f (float[2] x, float[2] w, int64 n, bool go) => (float[2] y, float[k, 2] all) {
  y, all = Loop (n, go, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] u) {
    m = Mul (s, w)
    t = Tanh (m)
    u = Sin (t)
    total = ReduceSum <keepdims=0> (t)
    limit = Constant <value_float=-100.0> ()
    d = Greater (total, limit)
  }>
}"""

SCAN = """<ir_version: 10, opset_import: ["": 21]>
f (float[2] x, float[2] w, float[2, 5] xs) => (float[2] y, float[2, 5] all) {
  y, all = Scan <num_scan_inputs=1, scan_input_axes=[1], scan_input_directions=[1], scan_output_axes=[1], scan_output_directions=[1],
    body = b (float[2] s, float[2] e) => (float[2] t, float[2] u) {
      m = Mul (s, w)
      a = Add (m, e)
      t = Tanh (a)
      u = Sin (t)
  }> (x, xs)
}"""


def run_with(text, feed, checkpoint):
    """Loss and gradients, with a checkpoint in the body or without"""
    program = program_of(text)
    outputs = [program.global_block().var(name) for name in ("y", "all")]
    with static.program_guard(program):
        loss = onnxgrad.sum(outputs[0] * outputs[0]) + onnxgrad.sum(outputs[1])
    wanted = [v for v in program.inputs if v.is_float]
    body = next(op for op in program.global_block().ops if op.type in ("Loop", "Scan")).attrs["body"]
    checkpoints = [body.vars["t"]] if checkpoint else None
    pairs = static.append_backward(loss, wanted, checkpoints=checkpoints)
    fetch = [loss, *(g for _, g in pairs)]
    model = onnxgrad.to_onnx(program, fetch)
    onnx.checker.check_model(model, full_check=True)
    return static.Executor().run(program, feed, fetch), model


@pytest.mark.parametrize("n", [0, 1, 2, 7, 9, 10])
def test_a_loop_in_segments_has_the_same_gradient(n):
    rng = np.random.default_rng(0)
    feed = {"x": rng.normal(size=2), "w": rng.normal(size=2)}
    feed = {name: value.astype("float32") for name, value in feed.items()} | {"n": np.array(n), "go": np.array(True)}
    plain, _ = run_with(RECURRENCE, feed, False)
    segmented, model = run_with(RECURRENCE, feed, True)
    for a, b in zip(plain, segmented, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    forward = next(node for node in model.graph.node if node.op_type == "Loop")
    assert any(node.op_type == "Loop" for node in forward.attribute[0].g.node)


def test_a_loop_in_segments_that_never_starts():
    feed = {"x": np.ones(2, "float32"), "w": np.ones(2, "float32"), "n": np.array(5), "go": np.array(False)}
    for a, b in zip(run_with(RECURRENCE, feed, False)[0], run_with(RECURRENCE, feed, True)[0], strict=True):
        np.testing.assert_allclose(a, b)


def test_a_while_loop_without_limit_in_segments():
    text = RECURRENCE.replace("Loop (n,", "Loop (,").replace("value_float=-100.0", "value_float=0.2")
    feed = {"x": np.full(2, 2.0, "float32"), "w": np.full(2, 0.97, "float32"), "n": np.array(0), "go": np.array(True)}
    plain, segmented = run_with(text, feed, False)[0], run_with(text, feed, True)[0]
    for a, b in zip(plain, segmented, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_a_scan_in_segments_has_the_same_gradient():
    rng = np.random.default_rng(0)
    feed = {"x": rng.normal(size=2), "w": rng.normal(size=2), "xs": rng.normal(size=(2, 5))}
    feed = {name: value.astype("float32") for name, value in feed.items()}
    plain, segmented = run_with(SCAN, feed, False)[0], run_with(SCAN, feed, True)[0]
    for a, b in zip(plain, segmented, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_checkpoint_in_the_body_of_an_if_is_refused():
    program = program_of("""<ir_version: 10, opset_import: ["": 21]>
      f (float[2] x, bool c) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) { a = Sin (x) }, else_branch = e () => (float[2] b) { b = Cos (x) }>
      }""")
    inner = program.global_block().ops[0].attrs["then_branch"].vars["a"]
    with pytest.raises(errors.ArgumentError, match="checkpoint a is not in the body of a Loop or Scan"):
        static.append_backward(program.outputs[0], checkpoints=[inner])


def loop_of(step, starts, times=4, declared=None):
    """A Loop over float states, and its gradient with respect to the states and a weight"""
    program = static.Program()
    block = program.global_block()

    def data(name, shape):
        v = Variable(block, name, TensorType(onnxgrad.dtypes.dtype_of("float32"), shape))
        v.is_data, v.stop_gradient = True, False
        block.inputs.append(block.register(v))
        return v

    inputs = [data(f"x{k}", shape) for k, shape in enumerate(starts)]
    weight = data("w", starts[0])
    types = [(v.name, v.type if declared is None else TensorType(v.dtype, declared)) for v in inputs]
    body = write_body(
        block.build,
        "loop",
        [("i", INDEX), ("c", BOOL_SCALAR), *types],
        lambda b, i, c, *states: (c, *as_states(step(b, weight, *states))),
    )
    found = block.build.Loop(np.array(times), None, *inputs, outputs=len(inputs), body=body)
    return program, as_states(found), [*inputs, weight]


def as_states(found):
    return found if isinstance(found, tuple) else (found,)


def loops_in(program, outputs):
    return [node for node in onnxgrad.to_onnx(program, outputs).graph.node if node.op_type == "Loop"]


def test_the_tape_holds_only_the_states_that_the_gradient_reads():
    program, (a, b), inputs = loop_of(lambda build, w, a, b: (build.Add(a, b), build.Mul(b, w)), [(2,), (2,)])
    found = static.gradients([a, b], inputs)
    forward, _ = loops_in(program, found)
    # a is only added to; b is multiplied; the iteration counter tells how many there were.
    assert len(forward.output) == 2 + 1 + 1


def test_a_loop_that_is_linear_in_its_state_keeps_no_state():
    program, (a,), inputs = loop_of(lambda build, w, a: build.Mul(a, 0.5), [(2,)])
    (forward,) = loops_in(program, [static.gradients([a], inputs[:1])[0]])[:1]
    assert len([name for name in forward.output if name]) == 2


def test_a_state_that_does_not_reach_the_target_gets_no_gradient():
    _, (a, _), inputs = loop_of(lambda build, w, a, b: (build.Mul(a, w), build.Sin(b)), [(2,), (2,)])
    found = static.gradients([a], inputs)
    assert found[1] is None and found[0] is not None and found[2] is not None


def test_a_growing_shape_that_passes_through_many_states():
    """Each state takes the shape of the one before it, so what is known of them settles one by one."""

    def shift(build, w, first, *others):
        return build.Concat(first, w, axis=0), *(build.Mul(v, v) for v in (first, *others[:-1]))

    program, found, inputs = loop_of(shift, [(2,)] * 7, times=9, declared=(None,))
    gradients = static.gradients([found[6]], inputs)
    model = onnxgrad.to_onnx(program, [found[6], gradients[0]])
    onnx.checker.check_model(model, full_check=True)
    feed = {v.name: np.ones(2, "float32") for v in inputs}
    value, g = static.Executor().run(program, feed, [found[6], gradients[0]])
    # Squared six times; the first state had grown by three pairs when it set out.
    np.testing.assert_array_equal(value, np.ones(8))
    np.testing.assert_array_equal(g, [64.0, 64.0])


def test_an_expanded_operator_inside_a_loop_body_inside_an_if():
    program = static.Program()
    block = program.global_block()
    x = Variable(block, "x", TensorType(onnxgrad.dtypes.dtype_of("float32"), (3, 1, 2)))
    x.is_data, x.stop_gradient = True, False
    block.inputs.append(block.register(x))
    w = program.constant(np.full((1, 2, 2), 0.3, "float32"))

    def step(b, i, state):
        y, last = b.RNN(state, w, w, hidden_size=2, outputs=2)
        then = write_body(b, "then", [], lambda c: c.Squeeze(y, [1]))
        other = write_body(b, "else", [], lambda c: c.Add(state, last))
        return b.If(b.Equal(i, 1), then_branch=then, else_branch=other)

    (y,) = loop_times(block.build, np.array(3), [("x", x)], step)
    (g,) = static.gradients([y], [x])
    model = onnxgrad.to_onnx(program, [g, y])
    onnx.checker.check_model(model, full_check=True)
    array = np.random.default_rng(0).normal(size=(3, 1, 2)).astype("float32")
    got, _ = static.Executor().run(program, {"x": array}, [g, y])
    numeric = np.empty_like(array)
    for index in np.ndindex(*array.shape):
        ends = []
        for sign in (1, -1):
            moved = array.copy()
            moved[index] += sign * 1e-2
            ends.append(static.Executor().run(program, {"x": moved}, [y])[0].sum(dtype="float64"))
        numeric[index] = (ends[0] - ends[1]) / 2e-2
    np.testing.assert_allclose(got, numeric, rtol=2e-2, atol=1e-3)
