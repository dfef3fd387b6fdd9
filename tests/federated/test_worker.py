"""A participant of federated training: does not list parameters and statistics, what stays, and that its steps are those of one process."""

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.errors import ArgumentError, DataError, MissingFile, ModelError, TrainingError
from onnxgrad.federated import Worker, save_step
from onnxgrad.training import Trainer
from tests.training import small

DATA = small.data()


def trainer(**options):
    options = {"learning_rate": 0.1, "optimizer": "sgd", "batch_norm": "train", **options}
    return Trainer(small.model(), loss="cross_entropy", metrics=["accuracy"], **options)


def linear(optimizer):
    """A program with two weights and a quadratic loss, and its loss"""
    program = paddle.from_onnx(small.line())
    with static.program_guard(program):
        target = static.data("target", ["N", 1], "float32")
        loss = F.mse_loss(program.outputs[0], target)
    optimizer.minimize(loss)
    return program, loss


def points(count=12, dtype=np.float32):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 2)).astype(dtype)
    return {"x": x, "target": (x @ [[2.0], [1.0]] + 0.5 + rng.normal(0, 0.1, (count, 1))).astype(dtype)}


def test_weights_and_statistics_travel_and_nothing_else():
    worker = Worker(trainer(optimizer="adam"))
    assert worker.names[-2:] == ["body.mean", "body.var"]
    assert set(worker.names[:-2]) == {"body.weight", "body.bias", "body.scale", "body.shift", "head.weight", "head.bias"}
    before = dict(zip(worker.names, worker.get(), strict=True))
    worker.fit(DATA, epochs=1, batch_size=8)
    after = dict(zip(worker.names, worker.get(), strict=True))
    assert all(not np.array_equal(before[name], after[name]) for name in ("body.mean", "body.var", "head.weight"))
    assert worker.local_state() and not set(worker.local_state()) & set(worker.names)


@pytest.mark.parametrize("options", [{"accumulate": 2}, {"loss_scale": 8.0}, {"ema": 0.9}], ids=str)
def test_statistics_are_found_in_every_step_of_a_trainer(options):
    assert Worker(trainer(**options)).names[-2:] == ["body.mean", "body.var"]


def test_frozen_statistics_do_not_travel():
    assert not any(name.endswith(("mean", "var")) for name in Worker(trainer(batch_norm="frozen")).names)


def test_local_steps_are_those_of_the_trainer():
    worker, same = Worker(trainer(seed=3)), trainer(seed=3)
    worker.fit(DATA, epochs=1, batch_size=8, seed=3)
    for rows in np.split(np.random.default_rng(3).permutation(40), 5):
        same.step({name: column[rows] for name, column in DATA.items()})
    held = small.weights(same)
    for name, value in zip(worker.names, worker.get(), strict=True):
        np.testing.assert_allclose(value, held[name], rtol=1e-5, atol=1e-6)


def test_files_give_the_same_steps(tmp_path):
    one = trainer()
    one.save_training_step(tmp_path / "step", lowering="cpu")
    file, direct = Worker(tmp_path / "step.json"), Worker(one)
    for worker in (file, direct):
        worker.fit(DATA, epochs=2, batch_size=8, seed=1)
    assert file.names == direct.names
    for a, b in zip(file.get(), direct.get(), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ArgumentError, match="evaluation="):
        file.evaluate(DATA)


def test_state_of_the_optimizer_is_reset_or_kept():
    worker, start = Worker(trainer(optimizer="adam")), None
    start = worker.get()
    worker.fit(DATA, batch_size=8, seed=1)
    first, kept = worker.get(), worker.local_state()
    worker.set(start)
    worker.set_local_state(None)
    worker.fit(DATA, batch_size=8, seed=1)
    for a, b in zip(first, worker.get(), strict=True):
        np.testing.assert_array_equal(a, b)
    worker.set(start)
    worker.set_local_state(kept)
    worker.fit(DATA, batch_size=8, seed=1)
    assert any(not np.array_equal(a, b) for a, b in zip(first, worker.get(), strict=True))
    with pytest.raises(DataError, match="not state of this step"):
        worker.set_local_state({"nothing": np.zeros(1)})


def test_masks_follow_from_the_seed():
    worker = Worker(trainer())
    start, found = worker.get(), []
    for seed in (1, 1, 2):
        worker.set(start)
        worker.set_local_state(None)
        # One batch of everything, so that only the masks differ.
        found.append(worker.fit(DATA, batch_size=40, seed=seed)["loss"])
    assert found[0] == pytest.approx(found[1], rel=1e-6) and abs(found[0] - found[2]) > 1e-4


def test_a_learning_rate_holds_for_one_call():
    program, loss = linear(paddle.optimizer.SGD(0.1))
    worker, moved = Worker(program, loss=loss), []
    start = worker.get()
    for rate in (None, 0.05, None):
        worker.set(start)
        worker.fit(points(), batch_size=12, learning_rate=rate)
        moved.append(max(np.abs(a - b).max() for a, b in zip(start, worker.get(), strict=True)))
    assert moved[0] == moved[2] and moved[1] == pytest.approx(0.5 * moved[0], rel=1e-4)


def test_evaluation_of_a_trainer_and_of_a_program():
    one = trainer()
    worker = Worker(one)
    worker.fit(DATA, epochs=20, batch_size=8)
    found = worker.evaluate(DATA)
    assert found["examples"] == 40 and found["accuracy"] > 0.7
    program, loss = linear(paddle.optimizer.SGD(0.1))
    own, data = Worker(program, loss=loss), points()
    w, b = own.get() if own.get()[0].ndim == 2 else own.get()[::-1]
    expected = float(np.mean((data["x"] @ w + b - data["target"]) ** 2))
    assert own.evaluate(data, batch_size=5)["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("clip", [None, 0.5])
def test_the_proximal_term_is_that_of_the_formula(clip):
    """Against gradient descent in float64 on loss + mu / 2 |w - w0|^2"""
    mu, rate, data = 0.7, 0.1, points()
    chosen = None if clip is None else paddle.nn.ClipGradByGlobalNorm(clip)
    program, loss = linear(paddle.optimizer.SGD(rate, grad_clip=chosen))
    worker = Worker(program, loss=loss, proximal=True)
    start = worker.get()
    worker.fit(data, epochs=8, batch_size=12, proximal=mu)
    order = {name: i for i, name in enumerate(worker.names)}
    w, b = (start[order[name]].astype(np.float64) for name in ("w", "b"))
    w0, b0 = w, b
    for _ in range(8):
        error = 2 * (data["x"] @ w + b - data["target"]) / 12
        gw, gb = data["x"].T @ error + mu * (w - w0), error.sum(0) + mu * (b - b0)
        norm = np.sqrt((gw**2).sum() + (gb**2).sum())
        factor = 1 if clip is None else clip / max(norm, clip)
        w, b = w - rate * factor * gw, b - rate * factor * gb
    np.testing.assert_allclose(worker.get()[order["w"]], w, rtol=1e-5)
    np.testing.assert_allclose(worker.get()[order["b"]], b, rtol=1e-5)


def test_without_mu_the_term_changes_nothing():
    found = []
    for proximal in (False, True):
        worker = Worker(trainer(optimizer="adam", clip_norm=1.0), proximal=proximal)
        worker.fit(DATA, epochs=2, batch_size=8)
        found.append(worker.get())
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_proximal_term_with_accumulated_gradients():
    """Two halves with the mean of their gradients are the whole batch"""
    found = []
    model = small.model(small.TEXT.replace("Dropout (active, rate)", "Identity (active)"))
    for accumulate, size in ((1, 40), (2, 20)):
        options = {"optimizer": "sgd", "learning_rate": 0.1, "batch_norm": "frozen", "clip_norm": 0.3, "accumulate": accumulate}
        worker = Worker(Trainer(model, loss="cross_entropy", **options), proximal=True)
        worker.fit(DATA, epochs=6, batch_size=size, proximal=2.0)
        found.append(worker.get())
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_the_program_is_left_as_it_was():
    program, loss = linear(paddle.optimizer.SGD(0.1))
    before = str(program)
    Worker(program, loss=loss, proximal=True).fit(points(), proximal=1.0)
    assert str(program) == before


def test_a_step_without_the_term_refuses_it(tmp_path):
    program, loss = linear(paddle.optimizer.SGD(0.1))
    paddle.save_training_step(program, tmp_path / "plain", [loss])
    with pytest.raises(ArgumentError, match="save_step"):
        Worker(tmp_path / "plain.json").fit(points(), proximal=0.1)
    manifest = save_step(program, tmp_path / "step", [loss])
    assert {entry["name"] for entry in manifest["constants"]} >= {"proximal_mu", "w@ANCHOR", "b@ANCHOR"}
    Worker(tmp_path / "step.json").fit(points(), proximal=0.1)


def test_scaled_losses_refuse_the_term():
    with pytest.raises(ArgumentError, match="scaled loss"):
        Worker(trainer(loss_scale=8.0), proximal=True)


def test_steps_written_in_different_ways_have_one_order():
    orders = [Worker(trainer(**options)).names for options in ({}, {"loss_scale": 8.0}, {"accumulate": 2})]
    orders.append(Worker(trainer(), proximal=True).names)
    assert all(names == orders[0] for names in orders)


def test_what_does_not_fit_is_refused(tmp_path):
    worker = Worker(trainer())
    arrays = worker.get()
    with pytest.raises(DataError, match="7 arrays came for the 8"):
        worker.set(arrays[:-1])
    with pytest.raises(DataError, match="has shape"):
        worker.set([arrays[0][:1], *arrays[1:]])
    with pytest.raises(DataError, match="not finite"):
        worker.set([arrays[0] * np.nan, *arrays[1:]])
    for a, b in zip(arrays, worker.get(), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(DataError, match="lacks"):
        worker.fit({"x": DATA["x"]})
    with pytest.raises(DataError, match="lengths"):
        worker.fit({"x": DATA["x"], "target": DATA["target"][:3]})
    program, loss = linear(paddle.optimizer.SGD(0.1))
    paddle.save_split_training_step(program, tmp_path / "two", [loss])
    with pytest.raises(ModelError, match="does not list parameters and statistics"):
        Worker(tmp_path / "two.json")
    with pytest.raises(MissingFile, match="save_training_step"):
        Worker(tmp_path / "none.json")
    with pytest.raises(ArgumentError, match="updates no weight"):
        Worker(paddle.to_training_step(paddle.from_onnx(small.line()), ["y"]))


def test_a_loss_that_is_not_finite_leaves_the_weights():
    program, loss = linear(paddle.optimizer.SGD(1e30))
    worker = Worker(program, loss=loss)
    before = worker.get()
    with pytest.raises(TrainingError, match="the loss is"):
        worker.fit(points(), epochs=5, batch_size=4)
    for a, b in zip(before, worker.get(), strict=True):
        np.testing.assert_array_equal(a, b)
