"""The last token of a padded row: of either side, also where a row has none; gradients go to it alone."""

from pathlib import Path

import numpy as np
import pytest
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.errors import ArgumentError
from onnxgrad.training import Trainer, replace_head
from onnxgrad.training.losses.terms import output_of

FILES = Path(__file__).parents[2] / "data"
RNG = np.random.default_rng(2)


def test_a_head_reads_the_last_token_of_padded_rows():
    """Scores are those of the same text alone, without padding"""
    program = replace_head(og.from_onnx(FILES / "llm_models" / "llama-fp32.onnx"), classes=3, pool="last")
    assert program.outputs[0].dims[1] == 3 and len(program.outputs) == 1

    def scores(rows):
        steps = max(map(len, rows))
        feed = {v.name: np.zeros((len(rows), 2, 0, 16), np.float32) for v in program.inputs if v.name.startswith("past")}
        feed["input_ids"] = np.array([row + [7] * (steps - len(row)) for row in rows])
        feed["attention_mask"] = np.array([[1] * len(row) + [0] * (steps - len(row)) for row in rows])
        return og.Executor().run(program, {v.name: feed[v.name] for v in program.inputs}, [program.outputs[0]])[0]

    rows = [[3, 4, 5, 6, 9], [8, 1], [2, 2, 2]]
    together = scores(rows)
    np.testing.assert_allclose(together, np.concatenate([scores([row]) for row in rows]), atol=1e-5)
    assert abs(together - together[:1])[1:].min() > 1e-4
    trainer = Trainer(program, loss="cross_entropy", learning_rate=0.01, trainable="head.*")
    batch = {
        "input_ids": np.array([[3, 4, 5], [8, 1, 7]]),
        "attention_mask": np.array([[1, 1, 1], [1, 1, 0]]),
        "target": np.array([0, 2]),
    }
    losses = [trainer.step(batch)["loss"] for _ in range(12)]
    assert losses[-1] < 0.8 * losses[0]


def test_gradients_go_to_the_last_token_alone():
    text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, S, 2] x, int64[N, S] kept) => (float[N, S, 2] y) { y = Exp (x) }'
    program = og.from_onnx(parse_model(text))
    program.inputs[0].stop_gradient = False
    with og.static.program_guard(program):
        last = output_of(program, "y.last(kept)", [])
        (grad,) = og.gradients([og.sum(last)], [program.inputs[0]])
    x, kept = RNG.normal(0, 1, (3, 4, 2)).astype(np.float32), np.array([[1, 1, 0, 0], [0, 0, 1, 1], [0, 1, 1, 0]])
    value, slope = og.Executor().run(program, {"x": x, "kept": kept}, [last, grad])
    at = [1, 3, 2]
    np.testing.assert_allclose(value, np.exp(x)[np.arange(3), at], rtol=1e-6)
    wanted = np.zeros_like(x)
    wanted[np.arange(3), at] = np.exp(x)[np.arange(3), at]
    np.testing.assert_allclose(slope, wanted, rtol=1e-6)


def test_refusals():
    plain = parse_model('<ir_version: 8, opset_import: ["": 17]> f (float[N, S, 2] x) => (float[N, S, 2] y) { y = Exp (x) }')
    with pytest.raises(ArgumentError, match="found by an input 'attention_mask'"):
        replace_head(og.from_onnx(plain), at="y", pool="last")
    windowed = og.from_onnx(FILES / "llm_models" / "llama-fp32.onnx")
    next(op for op in windowed.global_block().ops if op.type == "GroupQueryAttention").attrs["sliding_window_cache"] = 1
    with pytest.raises(ArgumentError, match="caches of a window"):
        replace_head(windowed, pool="last")
