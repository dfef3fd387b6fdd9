"""The Scan that stands for a recurrent operator computes what onnxruntime's kernel does, in the forms the oracle ignores."""

import numpy as np
import pytest

from onnxgrad import static

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


@pytest.mark.parametrize("form", FORMS)
def test_expansion_computes_what_the_kernel_does(form):
    kind, gates, attrs, with_lengths = FORMS[form]
    rng = np.random.default_rng(0)
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    x = static.data("x", [None, None, WIDTH])
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
