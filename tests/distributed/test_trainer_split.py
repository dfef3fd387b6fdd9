"""The Trainer's step as gradients and their application: run by plain onnxruntime, they are its own steps."""

import json

import numpy as np
import onnx
import pytest

from onnxgrad.errors import ArgumentError
from onnxgrad.training import Trainer
from tests.distributed.staged import Ranks, stored
from tests.training.small import TEXT, data, model

PLAIN = TEXT.replace("Dropout (active, rate)", "Identity (active)")


def opened(folder, count, name="step"):
    manifest = json.loads((folder / f"{name}.json").read_text())
    first = [onnx.load(folder / part["model"]) for part in manifest["gradients"].get("stages", [manifest["gradients"]])]
    return Ranks(first, onnx.load(folder / manifest["apply"]["model"]), manifest, count, stored(manifest, folder))


def trained(**options):
    """Without the bias before BatchNormalization, whose gradient is what rounding leaves of 0"""
    text = options.pop("text", PLAIN)
    return Trainer(model(text), loss="cross_entropy", learning_rate=0.05, freeze="body.bias", **options)


def batches(count, size=10):
    columns = data(count * size)
    return [{name: array[i * size : (i + 1) * size] for name, array in columns.items()} for i in range(count)]


def assert_same_weights(ranks, trainer, **tolerance):
    for p in trainer.trained:
        for state in ranks.states:
            np.testing.assert_allclose(state[p.name], p.get_value(), err_msg=p.name, **tolerance)


OPTIONS = {
    "adamw": {},
    "momentum and clip": {"optimizer": "momentum", "clip_norm": 0.1},
    "frozen statistics": {"batch_norm": "frozen"},
    "accumulated": {"accumulate": 3, "clip_norm": 0.1},
    "accumulated, with averages of weights": {"accumulate": 2, "ema": 0.9},
    "scaled loss": {"loss_scale": 1024.0},
    "scaled loss, accumulated": {"loss_scale": 1024.0, "accumulate": 2},
    "dropout": {"text": TEXT, "accumulate": 2},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_one_rank_takes_the_steps_of_the_trainer(options, tmp_path):
    options = {"batch_norm": "train", **options}
    trainer = trained(**options)
    manifest = trainer.save_training_step(tmp_path / "step", split=True, batch_norm="local")
    assert manifest["accumulate"] == options.get("accumulate", 1) and manifest["begun"] == 0
    ranks, given = opened(tmp_path, 1), batches(6)
    for number, batch in enumerate(given):
        values = ranks.gradients([batch])
        if (number + 1) % manifest["accumulate"] == 0:
            ranks.apply(values)
        loss = trainer.step(batch)["loss"]
        np.testing.assert_allclose(values[0][trainer.loss.name], loss, rtol=2e-6)
    assert_same_weights(ranks, trainer, rtol=2e-5, atol=2e-7)


@pytest.mark.parametrize("batch_norm", ["sync", "frozen"])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_ranks_take_the_steps_of_the_trainer(accumulate, batch_norm, tmp_path):
    trainer = trained(batch_norm="train" if batch_norm == "sync" else "frozen", accumulate=accumulate, clip_norm=0.3)
    trainer.save_training_step(tmp_path / "step", split=True, batch_norm=batch_norm)
    ranks = opened(tmp_path, 3)
    for number, batch in enumerate(batches(6)):
        values = ranks.gradients([{k: v[rows] for k, v in batch.items()} for rows in (slice(2), slice(2, 3), slice(3, 10))])
        if (number + 1) % accumulate == 0:
            ranks.apply(values)
        trainer.step(batch)
    assert_same_weights(ranks, trainer, rtol=2e-4, atol=2e-6)


def test_an_overflow_on_one_rank_is_one_of_all(tmp_path):
    trainer = trained(batch_norm="frozen", accumulate=2, loss_scale=2.0**8)
    trainer.save_training_step(tmp_path / "step", split=True)
    ranks = opened(tmp_path, 2)
    for number, batch in enumerate(batches(4)):
        if number == 2:
            batch["x"][1] = np.nan
        values = ranks.gradients([{k: v[rows] for k, v in batch.items()} for rows in (slice(5), slice(5, 10))])
        if number % 2:
            ranks.apply(values)
        if number != 2:
            trainer.step(batch)
            continue
        # The Trainer refuses a loss that is no number; its gradients count for nothing.
        for scale in (name for name in ranks.states[0] if name.startswith("loss_scaling")):
            assert [state[scale].tolist() for state in ranks.states] == [[2.0**7]] * 2
        for state in ranks.states:
            assert all(np.isfinite(value).all() for value in state.values())
        trainer.state.step += 1


def statistics(part):
    return sorted(entry["input"] for entry in part["state"] if entry["statistic"])


def test_statistics_are_marked_where_they_are_held(tmp_path):
    plain = trained(batch_norm="train").save_training_step(tmp_path / "plain", split=True, batch_norm="local")
    assert statistics(plain["gradients"]) == ["body.mean", "body.var"]
    assert statistics(plain["apply"]) == []
    # A step that overflows leaves statistics as they were, which the second part decides.
    scaled = trained(batch_norm="train", loss_scale=8.0, text=TEXT).save_training_step(
        tmp_path / "scaled", split=True, batch_norm="local"
    )
    assert statistics(scaled["apply"]) == ["body.mean", "body.var"]
    kinds = {e["reduction"] for e in scaled["exchange"] if e["parameter"] is None}
    assert kinds == {"mean", "same"}  # statistics, and the step of Dropout
    summed = trained(batch_norm="train", accumulate=2).save_training_step(tmp_path / "summed", split=True, batch_norm="local")
    assert statistics(summed["gradients"]) == ["body.mean", "body.var"]
    owners = [e["parameter"] or "loss_weight" for e in summed["exchange"]]
    assert summed["accumulated"] == sorted(f"{owner}@ACCUMULATED" for owner in owners)


def test_what_batch_norm_is_to_do_must_be_said(tmp_path):
    with pytest.raises(ArgumentError, match="batch_norm='sync'"):
        trained(batch_norm="train").save_training_step(tmp_path / "step", split=True)
    assert not list(tmp_path.iterdir())
