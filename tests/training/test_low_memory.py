"""Trainer(memory="low"): the weights of the plain run, whatever is switched on, and steps that can be undone."""

import numpy as np
import pytest

from onnxgrad.core.step import cut, make as making
from onnxgrad.errors import ArgumentError, TrainingError
from onnxgrad.training import Trainer
from tests.training.small import assert_equal, data, line, model, weights


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(cut, "SMALL", 4)
    monkeypatch.setattr(making, "PIECE", 10)


def trainer(**options):
    return Trainer(model(), **{"memory": None, "loss": "cross_entropy", "learning_rate": 0.02, "metrics": ["accuracy"], **options})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimizer": "sgd", "clip_norm": 0.1},
        pytest.param({"accumulate": 3}, marks=pytest.mark.exhaustive),
        pytest.param({"ema": 0.9}, marks=pytest.mark.exhaustive),
        {"accumulate": 2, "ema": 0.9, "clip_norm": 0.1, "schedule": "cosine"},
        {"checkpoints": "auto", "sizes": {"batch": 8}},
        {"batch_norm": "train"},
        {"batch_norm": "train", "ema": 0.9},
        {"batch_norm": "train", "ema": 0.9, "accumulate": 2},
    ],
    ids=lambda options: ", ".join(options) or "as it is",
)
def test_the_weights_are_those_of_the_plain_run(options):
    plain, low = trainer(**options), trainer(**options, memory="low")
    rows = [t.fit(data(), 2, data(10), batch_size=8) for t in (plain, low)]
    # A product may give the gradient and its factor in Adam in one rounding where both are in one graph.
    for name, value in weights(plain).items():
        np.testing.assert_allclose(weights(low)[name], value, rtol=2e-5, atol=2e-6, err_msg=name)
    assert rows[0][-1]["val_loss"] == pytest.approx(rows[1][-1]["val_loss"], rel=1e-5)


def test_a_resumed_run_is_equal_to_the_bit(tmp_path):
    whole, part = trainer(memory="low"), trainer(memory="low")
    whole.fit(data(), 4, batch_size=8)
    part.fit(data(), 2, batch_size=8, out=tmp_path / "run")
    again = trainer(memory="low")
    again.fit(data(), 4, batch_size=8, out=tmp_path / "run", resume=True)
    assert_equal(weights(again), weights(whole))


def test_a_step_whose_loss_is_not_a_number_is_undone():
    t = Trainer(line("y = Log(k)"), loss="mse", learning_rate=0.01, memory="low")
    cut_off = {"x": np.array([[3.0, 0.0]], "f4"), "target": np.ones((1, 1), "f4")}
    t.step(cut_off)
    before = weights(t)
    with pytest.raises(TrainingError, match="loss is nan at step 2"):
        t.step({**cut_off, "x": -cut_off["x"]})
    assert_equal(weights(t), before)
    t.step(cut_off)
    assert any((weights(t)[name] != before[name]).any() for name in before)


def test_a_step_copies_no_state():
    t = trainer(memory="low")
    batch = {name: array[:8] for name, array in data().items()}
    t.step(batch)
    scope = t.program.active_scope()
    places = {name: scope.stored(name).value.data_ptr() for name in ("body.weight", "head.weight")}
    for _ in range(3):
        t.step(batch)
    assert {name: scope.stored(name).value.data_ptr() for name in places} == places


def test_another_word_is_refused():
    with pytest.raises(ArgumentError, match="memory is 'auto', 'low' or None"):
        trainer(memory="high")
