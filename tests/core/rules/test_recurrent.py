"""The Scan that stands for a recurrent operator computes what onnxruntime's kernel does, in the forms the oracle ignores."""

import numpy as np
import pytest

from onnxgrad import static
from onnxgrad.core.compile import compile

STEPS, BATCH, WIDTH, H = 5, 3, 2, 4
FORMS = {
    "lstm_lengths": ("LSTM", 4, {}, True),
    "lstm_both_ways_lengths": ("LSTM", 4, {"direction": "bidirectional"}, True),
    "lstm_reverse_lengths": ("LSTM", 4, {"direction": "reverse"}, True),
    "lstm_input_forget": ("LSTM", 4, {"input_forget": 1}, False),
    "lstm_clip": ("LSTM", 4, {"clip": 0.4}, False),
    "lstm_activations": ("LSTM", 4, {"activations": ["HardSigmoid", "Relu", "Tanh"]}, False),
    "gru_lengths": ("GRU", 3, {"linear_before_reset": 1}, True),
    "gru_both_ways": ("GRU", 3, {"direction": "bidirectional"}, True),
    "gru_clip": ("GRU", 3, {"clip": 0.4}, False),
    "rnn_lengths": ("RNN", 1, {"direction": "reverse"}, True),
}


@pytest.mark.parametrize("batch", [None, BATCH], ids=["weights first", "states first"])
@pytest.mark.parametrize("form", FORMS)
def test_expansion_computes_what_the_kernel_does(form, batch):
    kind, gates, attrs, with_lengths = FORMS[form]
    rng = np.random.default_rng(0)
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    x = static.data("x", [None, batch, WIDTH])
    x.stop_gradient = False
    op = x.block.build
    weights = [
        rng.normal(size=s).astype(np.float32)
        for s in ((directions, gates * H, WIDTH), (directions, gates * H, H), (directions, 2 * gates * H))
    ]
    lengths = np.array([5, 2, 3], np.int32) if with_lengths else None
    outputs = op.emit(kind, (x, *weights, lengths), {"hidden_size": H, **attrs}, outputs=3 if kind == "LSTM" else 2)
    feed = {"x": rng.normal(size=(STEPS, BATCH, WIDTH)).astype(np.float32)}
    executor = static.Executor()
    kernel = executor.run(feed=feed, fetch_list=list(outputs))
    (g,) = static.gradients(list(outputs), x)
    *expanded, gradient = executor.run(feed=feed, fetch_list=[*outputs, g])
    for ours, theirs in zip(expanded, kernel, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    if with_lengths:
        assert not gradient[2:, 1].any()  # nothing flows past the end of a sequence
    assert gradient[0].any()


def _layer(kind, gates, batch, **attrs):
    """The sum of what a layer of width 4 over [5, batch, 2] returns, times numbers, by its weights and data"""
    rng = np.random.default_rng(0)
    block = static.default_main_program().global_block()
    x = static.data("x", [STEPS, batch, WIDTH], "float64")
    x.stop_gradient = False
    shapes = {"w": (1, gates * H, WIDTH), "r": (1, gates * H, H), "b": (1, 2 * gates * H)}
    weights = [block.create_parameter(name, shape, "float64") for name, shape in shapes.items()]
    static.default_main_program().set_state_dict({name: rng.normal(size=shape) for name, shape in shapes.items()})
    op = block.build
    outputs = op.emit(kind, (x, *weights), {"hidden_size": H, **attrs}, outputs=2)
    loss = op.Add(*(op.ReduceSum(op.Mul(v, op.Sin(v)), keepdims=0) for v in outputs))
    return loss, static.gradients(loss, [x, *weights])


@pytest.mark.parametrize(("kind", "gates", "attrs"), [("LSTM", 4, {}), ("GRU", 3, {"linear_before_reset": 1}), ("RNN", 1, {})])
def test_layouts_of_the_states_have_equal_gradients(kind, gates, attrs):
    feed = {"x": np.random.default_rng(1).normal(size=(STEPS, 16, WIDTH))}
    found = []
    for batch in (16, None):
        with static.program_guard(static.Program(), static.Program()), static.scope_guard(static.Scope()):
            loss, gradients = _layer(kind, gates, batch, **attrs)
            found.append(static.Executor().run(feed=feed, fetch_list=[loss, *gradients]))
    with static.program_guard(static.Program(), static.Program()), static.scope_guard(static.Scope()):
        loss, gradients = _layer(kind, gates, 1, **attrs)
        runs = [static.Executor().run(feed={"x": feed["x"][:, i : i + 1]}, fetch_list=[loss, *gradients]) for i in range(16)]
    loss, gx, *others = zip(*runs, strict=True)
    found.append([np.sum(loss), np.concatenate(gx, axis=1), *(np.sum(g, axis=0) for g in others)])
    for other in found[:2]:
        for ours, theirs in zip(other, found[2], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("kind", "gates", "states"), [("LSTM", 4, 2), ("GRU", 3, 1), ("RNN", 1, 1)])
@pytest.mark.parametrize("batch", [4, 32], ids=["states first", "weights first"])
def test_gradients_of_weights_are_summed_once_after_the_loop(kind, gates, states, batch):
    loss, gradients = _layer(kind, gates, batch, linear_before_reset=1) if kind == "GRU" else _layer(kind, gates, batch)
    operators = compile(loss.block.program, gradients, "cpu").operators
    _, backward = [op for op in operators if op.type == "Scan"]
    assert len(backward.inputs) - backward.attr("num_scan_inputs") == states
    assert not any(op.type == "Transpose" for op in backward.attrs["body"].ops)
    assert not any(op.attr("transA") for op in backward.attrs["body"].ops if op.type == "Gemm")
