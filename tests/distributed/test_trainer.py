"""Trainer(distributed=True): the run of one process, on 2 and 4 ranks, whatever is switched on."""

import threading

import numpy as np
import pytest

from onnxgrad.core.step import cut, make as making
from onnxgrad.distributed import Strategy, run_local
from onnxgrad.distributed.environment import using
from onnxgrad.errors import ArgumentError, TrainingError
from onnxgrad.internal.tensor_file import read_tensors
from onnxgrad.training import Report, Trainer
from onnxgrad.training.optimizers import optimizer_names
from onnxgrad.training.ranks.ranks import ranks_of
from onnxgrad.training.run.folder import RunFolder
from tests.training.small import assert_equal, data, line, model, weights

_BUILDING = threading.Lock()


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(cut, "SMALL", 4)
    monkeypatch.setattr(making, "PIECE", 10)


def trainer(source=None, **options):
    with _BUILDING:
        given = {
            "loss": "cross_entropy",
            "learning_rate": 0.02,
            "metrics": ["accuracy"],
            "threads": 1,
            "batch_norm": "frozen",
            **options,
        }
        return Trainer(source if source is not None else model(), **given)


def on_ranks(count, work, timeout=60):
    def one(transport):
        with using(transport):
            return work(transport)

    return run_local(count, one, timeout)


def fitted(epochs=2, batch_size=8, rows=None, held_out=None, **options):
    """History and weights after a run."""
    rows = data() if rows is None else rows

    def work(transport=None):
        t = trainer(distributed=transport is not None, **options)
        history = t.fit(rows, epochs, held_out or data(10), batch_size=batch_size)
        return history, weights(t)

    return work


def once(fitted):
    """A function that gives what ``fitted`` gives in one process, which is trained once for all that is compared with it."""
    done = {}

    def alone(**options):
        key = repr(sorted(options.items()))
        if key not in done:
            done[key] = fitted(**options)()
        return done[key]

    return alone


alone = once(fitted)


def assert_close(found, expected, rtol=2e-4, atol=1e-5):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=rtol, atol=atol, err_msg=name)


def assert_same_run(ranks, expected, **tolerance):
    for history, state in ranks:
        assert_equal(state, ranks[0][1])
        assert history == ranks[0][0]
        assert_close(state, expected[1], **tolerance)
        for row, wanted in zip(history, expected[0], strict=True):
            assert row == pytest.approx(wanted, rel=1e-4)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", sorted(optimizer_names()))
def test_each_optimizer_gives_the_weights_of_one_process(name):
    options = {"optimizer": name, "learning_rate": 0.01}
    assert_same_run(on_ranks(2, fitted(1, **options)), fitted(1, **options)())


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimizer": "sgd", "clip_norm": 0.1},
        {"loss_scale": 1024.0},
        {"accumulate": 3, "optimizer": "sgd", "learning_rate": 0.2},
        {"accumulate": 2, "loss_scale": 1024.0, "clip_norm": 0.1},
        {"ema": 0.9, "schedule": "cosine", "weight_decay": 0.1},
        {"checkpoints": "auto", "sizes": {"batch": 4}},
        {"memory": "low"},
    ],
    ids=lambda options: ", ".join(options) or "as it is",
)
@pytest.mark.parametrize("count", [2, 4])
def test_what_is_switched_on_gives_the_weights_of_one_process(options, count):
    """Batches of 7 and a last one of 5 are parts of 4 and 3, and of 2, 2, 2, 1 and 2, 1, 1, 1"""
    assert_same_run(on_ranks(count, fitted(batch_size=7, **options)), alone(batch_size=7, **options))


def test_a_rank_without_an_example_stands_by():
    """40 examples in batches of 13 leave one, which rank 0 has"""
    assert_same_run(on_ranks(3, fitted(batch_size=13)), alone(batch_size=13))


def test_examples_that_do_not_count_weigh_nothing():
    rows = data()
    rows["target"][:20] = -100  # the whole part of a rank, in an order that is not shuffled

    def work(transport=None):
        t = trainer(distributed=transport is not None)
        history = t.fit(rows, 2, batch_size=40, shuffle=False)
        return history, weights(t)

    assert_same_run(on_ranks(2, work), work())


def test_every_example_is_seen_once_in_an_epoch():
    seen = [[], [], []]

    def work(transport):
        t = trainer(distributed=True)
        step = t.step

        def noted(batch):
            if batch.part.counts:
                seen[transport.rank] += batch["x"][:, 0].tolist()
            return step(batch)

        t.step = noted
        t.fit(data(), 1, batch_size=10)

    on_ranks(3, work)
    assert sorted(seen[0] + seen[1] + seen[2]) == sorted(data()["x"][:, 0].tolist())
    assert [len(part) for part in seen] == [16, 12, 12]


def test_batches_that_the_user_makes_are_cut_along_their_first_axis():
    rows = data()
    batches = [{name: array[a : a + 9] for name, array in rows.items()} for a in range(0, 36, 9)]
    expected = fitted(rows=batches)()
    assert_same_run(on_ranks(2, fitted(rows=batches)), expected)


def test_a_nan_on_one_rank_undoes_the_step_on_all():
    x = np.array([[3.0, 0.0], [3.0, 0.0], [-3.0, 0.0]], "f4")
    good = {"x": x[:2], "target": np.ones((2, 1), "f4")}

    def work(transport):
        t = trainer(line("y = Log(k)"), loss="mse", metrics=[], distributed=True)
        mine = {name: array[transport.rank : transport.rank + 1] for name, array in good.items()}
        t.step(mine)
        before = weights(t)
        bad = {"x": x[1 + transport.rank : 2 + transport.rank], "target": np.ones((1, 1), "f4")}
        with pytest.raises(TrainingError, match="loss is nan at step 2"):
            t.step(bad)
        assert_equal(weights(t), before)
        t.step(mine)
        assert any((weights(t)[name] != before[name]).any() for name in before)
        return weights(t)

    first, second = on_ranks(2, work)
    assert_equal(first, second)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_an_overflow_on_one_rank_leaves_the_step_out_on_all(accumulate):
    def work(transport):
        t = trainer(line(), loss="mse", metrics=[], loss_scale=1024.0, accumulate=accumulate, distributed=True)
        before = {name: value for name, value in weights(t).items() if name in ("w", "b")}
        # The gradient is 2e39, the loss on that rank 2e35.
        x = np.full((1, 2), 2e18 if transport.rank else 1.0, "f4")
        t.step({"x": x, "target": np.zeros((1, 1), "f4")})
        after = weights(t)
        (scale,) = [value for name, value in after.items() if name.startswith("loss_scaling")]
        if accumulate == 1:
            assert_equal({name: after[name] for name in before}, before)
        return float(scale[0]), after

    ranks = on_ranks(2, work)
    assert ranks[0][0] == ranks[1][0] == 512.0
    sums = [[value for name, value in state.items() if "ACCUMULATED" in name] for _, state in ranks]
    assert all(not value.any() for state in sums for value in state)


def test_ranks_that_differ_are_refused_by_name():
    def work(transport):
        options = {"freeze": "head.bias"} if transport.rank == 2 else {}
        t = trainer(distributed=True, **options)
        with pytest.raises(TrainingError, match="rank 2 of 3 cannot train with rank 0: it has another program"):
            t.fit(data(), 1, batch_size=8)

    on_ranks(3, work)


def test_all_ranks_begin_with_the_weights_of_the_first():
    def work(transport):
        t = trainer(distributed=True)
        if transport.rank:
            t.program.active_scope().set("head.bias", np.full(3, 9.0, np.float32))
        t.fit(data(), 1, batch_size=8)
        return [], weights(t)

    expected = alone(epochs=1)
    for _, state in on_ranks(2, work):
        assert_close(state, expected[1])


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize(("before", "after"), [(2, 3), (4, 1)])
def test_a_run_goes_on_with_another_number_of_ranks(tmp_path, before, after, accumulate):
    """With 5 batches an epoch and 3 micro-batches an update, the checkpoint is written in the middle of an update"""
    folder = tmp_path / "run"

    def part(epochs, resume):
        def work(transport):
            t = trainer(distributed=True, accumulate=accumulate)
            history = t.fit(data(), total_epochs=epochs, validation=data(10), batch_size=8, out=folder, resume=resume)
            return history, weights(t)

        return work

    on_ranks(before, part(2, False))
    assert sorted(path.name for path in folder.iterdir() if "step" not in path.name) == [
        "best.safetensors", "history.csv", "history.jsonl", "last.safetensors", "run.lock",
    ]  # fmt: skip
    found = on_ranks(after, part(3, True))
    expected = alone(epochs=3, accumulate=accumulate)
    total = {name: sum(state[name] for _, state in found) for name in found[0][1] if "ACCUMULATED" in name}
    for history, state in found:
        assert_close({**state, **total}, expected[1])
        assert history[-1] == pytest.approx(expected[0][-1], rel=1e-4)


def test_gradients_travel_once_an_update():
    def work(transport):
        t = trainer(distributed=True, accumulate=4)
        t.fit(data(), 1, batch_size=10)
        return t.ranks.step.exchange.traffic, t.ranks.step.sums.traffic

    for weighed, sent in on_ranks(2, work):
        assert weighed.steps == weighed.bytes == 0
        assert sent.steps == 1
        # Gradients of 32, 8, 8, 8 and 24 numbers, each from a line of 16 on, filled up to two equal ranges of lines; the bias, and
        # the number of labels.
        assert sent.bytes == 4 * (128 + 3 + 1)


def test_statistics_of_a_batch_need_a_choice():
    def work(transport):
        with pytest.raises(ArgumentError, match="normalises by the statistics of its batch"):
            trainer(distributed=True, batch_norm="train")
        t = trainer(distributed=Strategy(batch_norm="local"), batch_norm="train")
        t.fit(data(), 1, batch_size=8)
        return weights(t)

    first, second = on_ranks(2, work)
    assert_equal(first, second)
    assert np.abs(first["body.mean"]).max() > 0.01


@pytest.mark.parametrize("compress", ["bfloat16", "float16", "top-k"])
def test_fewer_bytes_reach_the_loss_of_one_process(compress):
    """What is left out of one exchange is added to the next, so the run ends where the plain one does, about"""

    def work(transport):
        t = trainer(distributed=Strategy(compress=compress, top_k=0.2))
        history = t.fit(data(), 12, batch_size=8)
        return history[-1]["loss"], weights(t), t.ranks.step.exchange.traffic

    history, state = alone(epochs=12)
    ranks = on_ranks(2, work)
    assert_equal(ranks[0][1], ranks[1][1])
    assert ranks[0][0] == pytest.approx(history[-1]["loss"], rel=0.02 if compress != "top-k" else 0.2)
    assert state.keys() == ranks[0][1].keys()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("compress", ["bfloat16", "top-k"])
def test_what_compression_has_kept_is_part_of_a_checkpoint(tmp_path, compress, accumulate):
    """With 5 batches an epoch and 3 micro-batches an update, the checkpoint is written in the middle of an update"""

    def part(epochs, folder, resume=False):
        def work(transport):
            t = trainer(distributed=Strategy(compress=compress, top_k=0.2), accumulate=accumulate)
            out = None if folder is None else tmp_path / folder
            t.fit(data(), total_epochs=epochs, batch_size=8, out=out, resume=resume)
            return weights(t)

        return work

    expected = on_ranks(2, part(3, None))  # no checkpoint is written: that changed the run, as rank 0 took the residuals of all
    on_ranks(2, part(2, "parts"))
    kept = [name for name in read_tensors(tmp_path / "parts" / "last.safetensors").arrays if name.startswith("rest of ")]
    found = on_ranks(2, part(3, "parts", resume=True))
    assert kept
    for state, wanted in zip(found, expected, strict=True):
        assert_equal(state, wanted)
    on_ranks(3, part(4, "parts", resume=True))  # any number of ranks, one of them too
    alone = trainer(accumulate=accumulate)
    alone.fit(data(), total_epochs=5, batch_size=8, out=tmp_path / "parts", resume=True)
    assert alone.epoch == 5


@pytest.mark.parametrize("more", [{}, {"accumulate": 2}], ids=str)
def test_a_report_changes_nothing_and_is_written_once(tmp_path, more):
    """All ranks are given it, and the first one writes."""
    plain = on_ranks(2, lambda transport: _run(None, [], more))
    folder = tmp_path / "run"
    watched = on_ranks(2, lambda transport: _run(folder, [Report()], more))
    if more:  # a gradient that is fetched is rounded before it is added to the others of its update, in some places
        assert_same_run(watched, plain[0], rtol=1e-5, atol=1e-7)
    else:
        for (history, state), (wanted, expected) in zip(watched, plain, strict=True):
            assert_equal(state, expected)
            assert history == wanted
    assert "gradient" in (folder / "report.html").read_text()


def _run(folder, callbacks, options):
    t = trainer(distributed=True, **options)
    history = t.fit(data(), 2, data(10), batch_size=8, out=folder, callbacks=callbacks, verbose=False)
    return history, weights(t)


def test_the_folder_of_a_rank_that_does_not_write_is_never_made(tmp_path):
    """All that the folder of a run offers to write is left out, also what is added to it one day"""
    calls = {"check_new": (), "drop_old": (), "publish": (tmp_path / "a.safetensors", "last.safetensors")}
    calls |= {"write_evaluations": ([{"loss": 1.0}],), "write_history": ([{"loss": 1.0}],), "write_record": ("{}",)}
    reads = {"checkpoint", "last"}
    assert {name for name in vars(RunFolder) if not name.startswith("_")} == {*calls, *reads}

    def work(transport):
        if transport.rank == 0:
            return
        with using(transport), ranks_of(True).folder(tmp_path / "run", 3) as folder:
            for name, arguments in calls.items():
                getattr(folder, name)(*arguments)

    run_local(2, work)
    assert not (tmp_path / "run").exists()


def test_what_a_callback_of_the_first_rank_watches_is_computed_on_all():
    class Norms:
        def on_begin(self, trainer, told):
            trainer.watch_gradients()

    def work(transport):
        t = trainer(distributed=True)
        t.fit(data(), 1, batch_size=8, callbacks=[Norms()])
        assert np.isfinite(t.gradient_norms).all() and len(t.gradient_norms) == len(t.trained)
        return [], weights(t)

    expected = alone(epochs=1)
    for _, state in on_ranks(2, work):
        assert_close(state, expected[1])
