"""DPO and rewards: value and slopes against numpy, and trl's loss with its gradients of PEFT's adapters as recorded."""

import json
from pathlib import Path

import numpy as np
import pytest
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.errors import ArgumentError
from onnxgrad.training import Term, Trainer, load_peft
from onnxgrad.training.data.preferences import reference_log_probabilities
from onnxgrad.training.losses.terms import attach
from tests.training.surgery.test_peft import file  # noqa: F401
from tests.training.test_language_models import log_softmax, slopes_agree

DATA = Path(__file__).parents[2] / "data" / "preferences"
RNG = np.random.default_rng(6)


def program_of(dims, type="double"):
    made = parse_model(f'<ir_version: 8, opset_import: ["": 17]> f ({type}[{dims}] x) => ({type}[{dims}] y) {{ y = Identity (x) }}')
    program = og.from_onnx(made)
    program.is_oracle = True
    program.inputs[0].stop_gradient = False
    return program


def softplus(x):
    return np.log1p(np.exp(x))


@pytest.mark.parametrize(("beta", "smoothing"), [(0.1, 0.0), (0.7, 0.2)])
def test_dpo_is_the_formula(beta, smoothing):
    x, reference = RNG.normal(0, 2, (4, 5, 3)), RNG.normal(-4, 1, 4)
    labels = np.array([[-100, -100, 2, 1, -100], [-100, -100, 0, 1, 1], [0, 1, 1, 0, 2], [-100, 2, -100, 0, -100]])
    total = np.zeros(4)
    for row, at in np.argwhere(labels[:, 1:] != -100):
        total[row] += log_softmax(x)[row, at, labels[row, at + 1]]
    gain = total - reference
    margin = beta * (gain[0::2] - gain[1::2])
    wanted = ((1 - smoothing) * softplus(-margin) + smoothing * softplus(margin)).mean()
    program = program_of("N, S, 3")
    attached = attach(program, [Term("dpo", beta=beta, label_smoothing=smoothing)])
    assert [v.name for v in attached.targets] == ["labels", "reference"]
    feed = {"x": x, "labels": labels, "reference": reference.astype(np.float32)}
    assert slopes_agree(program, attached.loss, feed) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("dims", ["N", "N, 1"])
def test_rewards_are_those_of_bradley_and_terry(dims):
    x, margin = RNG.normal(0, 2, (6, 1) if "1" in dims else 6), np.repeat([0.0, 0.5, 1.0], 2).astype(np.float32)
    program = program_of(dims)
    attached = attach(program, [Term("bradley_terry")])
    rows = x.reshape(-1)
    wanted = softplus(-(rows[0::2] - rows[1::2] - margin[0::2])).mean()
    assert [v.name for v in attached.targets] == ["margin"]
    assert slopes_agree(program, attached.loss, {"x": x, "margin": margin}) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(
    ("dims", "options", "said"),
    [
        ("N, S, 3", {"loss": "bradley_terry"}, "needs one score for each row.*pool='last'"),
        ("N, 3", {"loss": "dpo"}, r"dpo needs scores of shape \[rows, steps, vocabulary\]"),
        ("N, S, 3", {"loss": "dpo", "beta": 0.0}, "beta is a number above 0"),
        ("N, S, 3", {"loss": "causal_lm", "beta": 0.1}, "beta is a number above 0 for the loss dpo alone"),
        ("N, S, 3", {"loss": "dpo", "sample_weight": "w"}, "has no value for each row"),
        ("N, S, 3", {"loss": "dpo", "class_weights": [1.0, 2.0]}, "label_smoothing and class_weights are for"),
    ],
)
def test_what_does_not_fit_is_refused(dims, options, said):
    with pytest.raises(ArgumentError, match=said):
        attach(program_of(dims), [Term(**options)])


def columns_of(pairs):
    """The recorded pairs as rows that follow each other"""
    rows = [(prompt, answer) for prompt, *answers in pairs for answer in answers]
    shape = len(rows), max(len(prompt) + len(answer) for prompt, answer in rows)
    columns = {"input_ids": np.zeros(shape, np.int64), "attention_mask": np.zeros(shape, np.int64), "labels": np.full(shape, -100)}
    for at, (prompt, answer) in enumerate(rows):
        size = len(prompt) + len(answer)
        columns["input_ids"][at, :size], columns["attention_mask"][at, :size] = prompt + answer, 1
        columns["labels"][at, len(prompt) : size] = answer
    return columns


def test_loss_and_gradients_are_those_of_trl(file):  # noqa: F811
    """The reference is the file without its adapters"""
    expected = json.loads((DATA / "expected.json").read_text())
    columns = columns_of(expected["pairs"])
    with np.load(DATA / "recorded.npz") as recorded:
        for number, beta in enumerate(expected["betas"]):
            program = og.from_onnx(file)
            reference = reference_log_probabilities(program, columns, batch_size=4)
            names = load_peft(program, DATA)
            before = {name: program.global_block().vars[name].get_value() for name in names}
            trainer = Trainer(program, loss=Term("dpo", beta=beta), trainable=names, optimizer="sgd", learning_rate=1.0)
            batch = {**columns, "reference": reference}
            assert trainer.step(batch)["loss"] == pytest.approx(float(recorded[f"{number}.loss"]), rel=1e-5)
            for name in names:
                module, _, half = name.rpartition(".MatMul.weight.lora_")
                module = module.replace(".attn.", ".self_attn.")
                wanted = recorded[f"{number}.base_model.model.{module}.lora_{half}.default.weight"].T
                after = trainer.program.global_block().vars[name].get_value()
                np.testing.assert_allclose(before[name] - after, wanted, atol=2e-5 * max(1, abs(wanted).max()))
                assert abs(wanted).max() > 1e-4
