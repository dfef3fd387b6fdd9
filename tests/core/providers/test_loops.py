"""written_out_loops: loops of a known number of steps as operators of the graph, for OpenVINO's provider."""

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import Target
from onnxgrad.core.graph.manager import run_passes
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.bodies import loop_times, write_body
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.providers import loops
from onnxgrad.core.providers.loops import written_out

F = np.float32


def recurrent(kind="LSTM", steps=5, lengths=False, **attrs):
    """The last state and all states of a layer, and the gradients of both by all that it reads"""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    shapes = {"x": [steps, 16, 3], "w": [directions, gates * 4, 3], "r": [directions, gates * 4, 4], "b": [directions, gates * 8]}
    inputs = {name: static.data(name, shape) for name, shape in shapes.items()}
    for v in inputs.values():
        v.stop_gradient = False
    length = static.data("length", [16], "int32") if lengths else None
    build = inputs["x"].block.build
    whole, last = build.emit(kind, [*inputs.values(), length], {"hidden_size": 4, **attrs}, outputs=3 if kind == "LSTM" else 2)[:2]
    loss = paddle.sum(whole * whole) + paddle.sum(last * 2.0)
    return [loss, *static.gradients([loss], list(inputs.values()))]


def counted():
    """A Loop of four steps with a counter, a state and what it stacks, and its gradients"""
    x, w = static.data("x", [3, 2]), static.data("w", [2, 2])
    x.stop_gradient = w.stop_gradient = False
    build = x.block.build

    def step(build, i, h):
        new = build.Tanh(build.Add(build.MatMul(h, w), build.Cast(i, to=1)))
        return new, build.Mul(new, h)

    last, stacked = loop_times(build, 4, [("h", x)], step)
    loss = paddle.sum(last * last) + paddle.sum(stacked)
    return [loss, *static.gradients([loss], [x, w])]


def by_axis_and_backwards():
    """A Scan along the last axis, backwards, that stacks backwards along the second; and reads a constant of its own"""
    x, h = static.data("x", [2, 3, 5]), static.data("h", [2, 3])
    build = x.block.build

    def step(build, h, t):
        new = build.Sub(build.Mul(h, 0.5), t)
        return new, build.Identity(new), build.Identity(h)

    body = write_body(build, "step", [("h", h.type), ("t", TensorType(h.dtype, (2, 3)))], step)
    layout = {"scan_input_axes": [-1], "scan_input_directions": [1], "scan_output_axes": [1, 0], "scan_output_directions": [1, 0]}
    return list(build.Scan(h, x, outputs=3, body=body, num_scan_inputs=1, **layout))


NETS = {
    "lstm": recurrent,
    "lstm both ways": lambda: recurrent(direction="bidirectional"),
    "lstm of one step": lambda: recurrent(steps=1),
    "lstm of lengths": lambda: recurrent(lengths=True),
    "gru": lambda: recurrent("GRU", linear_before_reset=1),
    "rnn backwards": lambda: recurrent("RNN", direction="reverse"),
    "loop": counted,
    "axes": by_axis_and_backwards,
}


def written(outputs, least=0):
    graph = compile(outputs[0].block.program, list(outputs), inputs=[], ordered=True)
    run_passes(graph, [written_out(least)], Target())
    return graph


def types(graph):
    return {op.type for op in graph.operators}


def run(graph, feed):
    session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {v.name: feed[v.name] for v in session.get_inputs() if v.name in feed})


@pytest.mark.parametrize("net", NETS)
def test_loops_written_out_compute_the_same(net):
    outputs = NETS[net]()
    program = outputs[0].block.program
    before = str(program)
    plain, out = compile(program, list(outputs), inputs=[], ordered=True), written(outputs)
    assert types(plain) & {"Loop", "Scan"} and not types(out) & {"Loop", "Scan"}
    draw = np.random.default_rng(0)
    feed = {v.name: draw.normal(size=v.shape).astype(F) for v in program.inputs if v.dtype.is_float}
    feed["length"] = np.arange(16, dtype=np.int32) % 6
    for ours, theirs in zip(run(out, feed), run(plain, feed), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert str(program) == before


def test_the_gradient_reads_the_values_of_each_step_without_stacking_them():
    """What is read as a whole is stacked: all states, h as it enters, the gradients of the gates and those of x"""
    graph = written(recurrent(steps=5))
    stacks = [op for op in graph.operators if op.type == "Concat" and len(op.inputs) == 5]
    assert len(stacks) == 4, [op.outputs[0].name for op in stacks]
    splits = [op for op in graph.operators if op.type == "Split" and len(op.outputs) == 5]
    assert len(splits) == 2, [op.inputs[0].name for op in splits]  # x, and the gradients of all states


def _of_steps(steps):
    x = static.data("x", [steps, 16, 3])
    w, r = static.data("w", [1, 16, 3]), static.data("r", [1, 16, 4])
    w.stop_gradient = False
    loss = paddle.sum(x.block.build.LSTM(x, w, r, hidden_size=4, outputs=2)[1])
    return [loss, *static.gradients([loss], [w])]


def _until_small():
    """A Loop that ends by what it computes"""
    x = static.data("x", [3])
    build = x.block.build
    types = [("i", TensorType(build.constant(1).dtype, ())), ("c", TensorType(build.constant(True).dtype, ())), ("h", x.type)]

    def step(build, i, c, h):
        half = build.Mul(h, 0.5)
        return build.Greater(build.ReduceSum(half, keepdims=0), 1.0), half

    return [build.Loop(9, None, x, outputs=1, body=write_body(build, "loop", types, step))]


def _beside_an_if():
    outputs = _of_steps(3)
    x = static.data("one", [1], "bool")
    build = x.block.build
    then, other = (write_body(build, f"branch{i}", [], lambda b, i=i: b.Mul(outputs[0], float(i))) for i in range(2))
    return [build.If(build.Squeeze(x), then_branch=then, else_branch=other), *outputs]


@pytest.mark.parametrize(
    "net", [lambda: _of_steps(None), _until_small, _beside_an_if], ids=["unknown length", "condition", "another body"]
)
def test_a_graph_with_a_loop_that_has_to_stay_keeps_all(net):
    outputs = net()
    graph = written(outputs)
    assert types(graph) & {"Loop", "Scan"} and not [r for r in graph.rewrites if r.name == "written_out_loops"]


def test_loops_of_too_many_operators_or_small_weights_stay(monkeypatch):
    outputs = recurrent()
    assert "Scan" not in types(written(outputs, least=64)) and "Scan" in types(written(outputs, least=65))
    monkeypatch.setattr(loops, "_MOST_OPERATORS", 100)
    assert "Scan" in types(written(outputs))


def test_a_last_state_that_is_fetched_has_its_name():
    x, w = static.data("x", [3, 2]), static.data("w", [2, 2])
    build = x.block.build
    (last,) = loop_times(build, 2, [("h", x)], lambda build, i, h: (build.Tanh(build.MatMul(h, w)),))
    graph = compile(x.block.program, [last], "openvino_bf16")
    assert {op.type for op in graph.operators} == {"MatMul", "Tanh", "Identity"}
    assert [name for name, _ in graph.outputs] == [graph.name(last)] == [last.name]
