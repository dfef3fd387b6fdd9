"""Trainer(distributed=Strategy(batch_norm="sync", sharding=...)): the run of one process, with statistics of the whole batch and a
share of its memory."""

import re
import shutil

import numpy as np
import pytest

from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.variable import Parameter
from onnxgrad.core.step import cut
from onnxgrad.distributed import Strategy
from onnxgrad.errors import ArgumentError, TrainingError
from onnxgrad.internal.tensor_file import read_tensors
from onnxgrad.training import Callback
from tests.distributed.test_trainer import assert_close, assert_same_run, on_ranks, once, trainer
from tests.training.small import assert_equal, data, line, weights


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(cut, "SMALL", 4)


def whole(t):
    """All state, on every rank of a run whose ranks hold shares"""
    t.ranks.step.gather(everywhere=True)
    return weights(t)


def normalising(strategy):
    """Statistics of the batch where they are synchronised. The bias before them has the gradient 0 but for rounding, of which Adam
    makes steps of any sign: it is left out."""
    return {"batch_norm": "frozen"} if strategy.batch_norm is None else {"batch_norm": "train", "freeze": "body.bias"}


def fitted(strategy=None, epochs=2, batch_size=7, rows=None, **options):
    def work(transport=None):
        t = trainer(distributed=strategy if transport is not None else False, **options)
        history = t.fit(rows or data(), epochs, data(10), batch_size=batch_size)
        return history, whole(t)

    return work


alone = once(fitted)


STRATEGIES = {
    "sync": Strategy(batch_norm="sync"),
    "sharding 1": Strategy(sharding=1),
    "sync, sharding 1": Strategy(batch_norm="sync", sharding=1),
    "sync, sharding 2": Strategy(batch_norm="sync", sharding=2),
}
OPTIONS = [
    {},
    {"optimizer": "sgd", "clip_norm": 0.1},
    {"loss_scale": 1024.0},
    {"accumulate": 3, "optimizer": "sgd", "learning_rate": 0.2},
    {"accumulate": 2, "loss_scale": 1024.0, "clip_norm": 0.1},
    {"schedule": "cosine", "weight_decay": 0.1},
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: ", ".join(options) or "as it is")
@pytest.mark.parametrize("name", STRATEGIES)
def test_what_is_switched_on_gives_the_weights_of_one_process(name, options):
    """Batches of 7 and a last one of 5 are parts of 4 and 3, and of 3 and 2; Dropout has the masks of the whole batch"""
    strategy = STRATEGIES[name]
    given = {**normalising(strategy), **options}
    assert_same_run(on_ranks(2, fitted(strategy, **given)), alone(**given), rtol=1e-3, atol=3e-5)


def test_a_rank_without_an_example_stands_by():
    """40 examples in batches of 13 leave one, which rank 0 has"""
    given = {**normalising(STRATEGIES["sharding 1"]), "batch_size": 13}
    assert_same_run(on_ranks(3, fitted(STRATEGIES["sharding 1"], **given)), alone(**given), rtol=1e-3, atol=3e-5)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("options", [{}, {"loss_scale": 1024.0, "clip_norm": 0.1}], ids=["plain", "scaled, clipped"])
@pytest.mark.parametrize(
    ("name", "accumulate"), [("sync", 1), ("sync", 2), ("sync, sharding 1", 2), ("sync, sharding 2", 1), ("sharding 1", 2)]
)
def test_a_rank_without_an_example_adds_nothing_to_statistics_and_sums(name, accumulate, options):
    """40 examples in batches of 13 leave one: rank 0 has it, and the others run it too, which must not count"""
    given = {**normalising(STRATEGIES[name]), **options, "accumulate": accumulate, "batch_size": 13}
    given |= {"optimizer": "sgd", "learning_rate": 0.2}
    assert_same_run(on_ranks(3, fitted(STRATEGIES[name], **given)), alone(**given), rtol=1e-3, atol=3e-5)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "options", [{}, {"accumulate": 2}, {"loss_scale": 1024.0}], ids=lambda options: ", ".join(options) or "plain"
)
@pytest.mark.parametrize("name", ["sharding 1", "sync, sharding 1", "sync, sharding 2"])
def test_averages_of_weights_are_those_of_one_process(tmp_path, name, options):
    """The rows have losses by the averages; what is exported and predicted has them, on each rank"""
    given = {**normalising(STRATEGIES[name]), **options, "ema": 0.8, "optimizer": "adam"}

    def work(transport=None):
        t = trainer(distributed=STRATEGIES[name] if transport else False, **given)
        history = t.fit(data(), 2, data(10), batch_size=8)
        predicted = t.predict({"x": data(10)["x"]})
        path = tmp_path / f"{transport is None}.onnx"
        t.export(path)
        return history, {**whole(t), **predicted}, path

    found, expected = on_ranks(3, work), work()
    assert_same_run([run[:2] for run in found], expected[:2], rtol=1e-3, atol=3e-5)
    exported = [{p.name: p.get_value() for p in from_onnx(path).parameters} for path in (found[0][2], expected[2])]
    assert_close(*exported, rtol=1e-3, atol=3e-5)


def test_averages_lie_in_shares_between_evaluations():
    def work(transport):
        t = trainer(distributed=Strategy(sharding=1), ema=0.8)
        t.fit(data(), 1, data(10), batch_size=8)
        scope, names = t.program.active_scope(), t.average.names

        def held():
            return [name for name in names if not _is_nothing(scope.present(name))]

        collected = held()
        t.step({k: v[:2] for k, v in data().items()})
        return collected, held(), names

    (first, mine, names), (second, other, _) = on_ranks(2, work)
    assert first == second == names
    assert len(names) == 6
    # Three numbers are small, and the border between the ranges of both ranks cuts the largest weight.
    assert set(mine) & set(other) == {"head.bias.ema_0", "body.weight.ema_0"} and set(mine) | set(other) == set(names)


@pytest.mark.parametrize("event", ["on_step", "on_evaluate", "on_epoch", "on_end"])
def test_a_callback_reads_averages_after_an_epoch_and_is_refused_within(event):
    """It is called on rank 0 alone, which would wait for the others for ever"""
    read = []

    class Reads(Callback):
        pass

    setattr(Reads, event, lambda self, t, *what: read.append(t.predict({"x": data(10)["x"]})))

    def work(transport):
        t = trainer(distributed=Strategy(sharding=1), ema=0.8)
        t.fit(data(), 1, data(10) if event == "on_evaluate" else None, batch_size=8, callbacks=[Reads()])

    if event == "on_step":
        with pytest.raises(TrainingError, match=r"callbacks are called on rank 0 alone.*on_epoch"):
            on_ranks(2, work)
    else:
        on_ranks(2, work)
        assert len(read) == 1


def test_a_rank_holds_its_share_of_the_optimizers_state():
    def held(sharding):
        def work(transport):
            t = trainer(distributed=Strategy(sharding=sharding, batch_norm="sync"), optimizer="adam", batch_norm="train")
            t.fit(data(), 1, batch_size=8)
            scope = t.program.active_scope()
            state = [v for v in t.program.updates if not isinstance(v, Parameter)]
            values = [scope.present(v.name) for v in state]
            # Zeros that take no memory stand for what others hold.
            return sum(v.get_value().nbytes for v, x in zip(state, values, strict=True) if not _is_nothing(x))

        return on_ranks(2, work)

    plain, shares = held(0), held(1)
    moments = 2 * 4 * (8 * 4 + 8 + 8 + 8 + 3 * 8)  # of body.weight, .bias, .scale and .shift, and head.weight; head.bias is small
    assert plain[0] == plain[1] > moments
    assert max(shares) <= plain[0] - moments / 2 + 2 * 4 * 32
    assert sum(shares) == 2 * plain[0] - moments


def _is_nothing(value):
    return isinstance(value, np.ndarray) and value.ndim > 0 and not any(value.strides)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("name", ["sync", "sync, sharding 1", "sync, sharding 2"])
def test_a_checkpoint_resumes_on_another_number_of_ranks(tmp_path, name, accumulate):
    """Eight steps alone; three on 2 ranks, three on 4, which is in the middle of an update, and two on one"""
    rows, options = data(), {**normalising(STRATEGIES[name]), "accumulate": accumulate, "schedule": "cosine"}
    batches = [{k: v[a : a + 5] for k, v in rows.items()} for a in range(0, 40, 5)]
    alone = trainer(**options)
    for batch in batches:
        alone.step(batch)

    def some(first, last, source):
        def work(transport=None):
            t = trainer(distributed=STRATEGIES[name] if transport else False, **options)
            if source:
                t.load(source)
            size, rank = (1, 0) if transport is None else (transport.world_size, transport.rank)
            for batch in batches[first:last]:
                t.step({k: np.array_split(v, size)[rank] for k, v in batch.items()})
            t.save(tmp_path / f"{last}.safetensors")
            return weights(t)

        return work

    on_ranks(2, some(0, 3, None))
    on_ranks(4, some(3, 6, tmp_path / "3.safetensors"))
    assert_close(some(6, 8, tmp_path / "6.safetensors")(), weights(alone), rtol=1e-3, atol=3e-5)


def test_a_run_goes_on_after_a_checkpoint_as_without(tmp_path):
    def run(saves):
        def work(transport):
            t = trainer(distributed=STRATEGIES["sync, sharding 1"], batch_norm="train")
            for first in range(0, 40, 8):
                part = slice(first + 4 * transport.rank, first + 4 * transport.rank + 4)
                t.step({k: v[part] for k, v in data().items()})
                if saves:
                    t.save(tmp_path / "now.safetensors")
            return whole(t)

        return on_ranks(2, work)

    for with_saves, without in zip(run(True), run(False), strict=True):
        assert_equal(with_saves, without)


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("sharding", [1, 2])
def test_an_overflow_and_a_nan_on_one_rank_are_those_of_all(sharding, accumulate):
    def work(transport):
        options = {"loss": "mse", "metrics": [], "accumulate": accumulate, "distributed": Strategy(sharding=sharding)}
        t = trainer(line(), loss_scale=1024.0, **options)
        before = weights(t)
        x = np.full((1, 2), 2e18 if transport.rank else 1.0, "f4")
        t.step({"x": x, "target": np.zeros((1, 1), "f4")})  # the gradient is 5e38, the loss on that rank 6e34
        after = whole(t)
        (scale,) = [value for name, value in after.items() if name.startswith("loss_scaling")]
        if accumulate == 1:
            assert_equal({name: after[name] for name in "wb"}, {name: before[name] for name in "wb"})
        t = trainer(line("y = Log(k)"), **options)
        before = weights(t)
        x = np.array([[3.0, 0.0] if transport.rank else [-3.0, 0.0]], "f4")
        with pytest.raises(TrainingError, match="loss is nan at step 1"):
            t.step({"x": x, "target": np.ones((1, 1), "f4")})
        assert_equal(weights(t), before)
        return float(scale[0])

    assert on_ranks(2, work) == [512.0, 512.0]


def test_what_does_not_fit_is_refused_by_name():
    def work(transport):
        with pytest.raises(ArgumentError, match="Pass batch_norm='sync'"):
            trainer(distributed=Strategy(sharding=1), batch_norm="train")
        with pytest.raises(ArgumentError, match="batch_norm='sync'"):
            trainer(distributed=Strategy(batch_norm="frozen"), batch_norm="train")

    on_ranks(2, work)
    with pytest.raises(ArgumentError, match="sharding is 0, 1 or 2, not 3"):
        Strategy(sharding=3)
    with pytest.raises(ArgumentError, match="Leave sharding"):
        Strategy(pipeline=2, sharding=1, compress="float16")


# Compressed gradients --------------------------------------------------------------------------------------------------

COMPRESSED = [
    Strategy(batch_norm="sync", compress="bfloat16"),
    Strategy(sharding=1, compress="top-k", top_k=0.2),
    Strategy(sharding=1, compress="float16", batch_norm="sync"),
    Strategy(sharding=2, compress="bfloat16"),
    Strategy(sharding=2, compress="top-k", top_k=0.2, batch_norm="sync"),
]


def described(value):
    return f"{value.batch_norm or 'frozen'}, {value.sharding}, {value.compress}" if isinstance(value, Strategy) else str(value)


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("strategy", COMPRESSED, ids=described)
def test_fewer_bytes_reach_the_loss_of_one_process(strategy, accumulate):
    """What is left out of one exchange is added to the next, so the run ends where the plain one does, about: 16 bits have two to
    three digits, which Adam may double where gradients are near 0, and a top-k of a fifth of the elements is five steps late"""
    options = {**normalising(strategy), "accumulate": accumulate, "epochs": 12, "batch_size": 8}
    history, _ = alone(**options)
    ranks = on_ranks(2, fitted(strategy, **options))
    assert_equal(ranks[0][1], ranks[1][1])
    assert ranks[0][0] == ranks[1][0]
    assert ranks[0][0][-1]["loss"] == pytest.approx(history[-1]["loss"], rel=0.2 if strategy.compress == "top-k" else 0.02)


def exchange_of(t):
    """What compression has left over is kept in"""
    return t.ranks.step.sums or t.ranks.step.exchange


@pytest.mark.parametrize("sharding", [1, 2])
def test_sums_of_micro_batches_are_compressed_when_they_travel(sharding):
    def work(transport):
        t = trainer(distributed=Strategy(sharding=sharding, compress="bfloat16"), accumulate=3)
        kept = []
        for first in range(0, 24, 8):
            t.step({k: v[first + 4 * transport.rank : first + 4 * transport.rank + 4] for k, v in data().items()})
            kept.append(exchange_of(t).rests())
        divisors = t.program.plan.accumulation.divisors  # which travel as they are
        return kept, [v.name for v in t.program.updates if "ACCUMULATED" in v.name and v not in divisors]

    for kept, sums in on_ranks(2, work):
        assert kept[0] == kept[1] == {}
        assert kept[2].keys() == set(sums)
        assert any(rest.any() for rest in kept[2].values())


@pytest.mark.parametrize("options", [{}, {"loss_scale": 1024.0}, {"accumulate": 2}], ids=str)
@pytest.mark.parametrize("batch_norm", ["sync", "local"])
@pytest.mark.parametrize("sharding", [1, 2])
def test_statistics_of_a_batch_and_the_loss_are_not_compressed(sharding, batch_norm, options):
    """With the first weights they are those without compression to the bit, also where a loss scale decides about statistics"""

    def work(compress):
        def run(transport):
            strategy = Strategy(sharding=sharding, batch_norm=batch_norm, compress=compress)
            t = trainer(distributed=strategy, batch_norm="train", optimizer="sgd", **options)
            for number in range(options.get("accumulate", 1)):
                first = 8 * number + 4 * transport.rank
                row = t.step({k: v[first : first + 4] for k, v in data().items()})
            return row["loss"], whole(t)

        return run

    for (loss, found), (wanted, expected) in zip(on_ranks(2, work("bfloat16")), on_ranks(2, work(None)), strict=True):
        assert loss == wanted
        assert (found["body.weight"] != expected["body.weight"]).any()
        for name in ("body.mean", "body.var"):
            assert expected[name].any()
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("strategy", COMPRESSED, ids=described)
def test_what_compression_has_kept_is_part_of_a_checkpoint(tmp_path, strategy, accumulate):
    """With 5 batches an epoch and 3 micro-batches an update, the checkpoint is written in the middle of an update"""
    options = {**normalising(strategy), "accumulate": accumulate}

    def part(epochs, folder, resume=False, loses=False):
        def work(transport):
            t = trainer(distributed=strategy, **options)
            if loses:
                exchange_of(t).set_rests = lambda *found: None
            t.fit(data(), total_epochs=epochs, batch_size=8, out=tmp_path / folder, resume=resume)
            return whole(t)

        return work

    expected = on_ranks(2, part(3, "whole"))
    on_ranks(2, part(2, "parts"))
    shutil.copytree(tmp_path / "parts", tmp_path / "lost")
    kept = [name for name in read_tensors(tmp_path / "parts" / "last.safetensors").arrays if name.startswith("rest of ")]
    assert kept
    for state, wanted in zip(on_ranks(2, part(3, "parts", resume=True)), expected, strict=True):
        assert_equal(state, wanted)
    lost = on_ranks(2, part(3, "lost", resume=True, loses=True))
    assert any((lost[0][name] != value).any() for name, value in expected[0].items())
    found = on_ranks(3, part(4, "parts", resume=True))  # any number of ranks, one of them too
    for state in found:  # rank 0 has what was added up since the last update
        assert_equal(*({name: v for name, v in each.items() if "ACCUMULATED" not in name} for each in (state, found[0])))
    one = trainer(**options)
    one.fit(data(), total_epochs=5, batch_size=8, out=tmp_path / "parts", resume=True)
    assert one.epoch == 5


@pytest.mark.parametrize("sharding", [1, 2])
def test_what_ranks_have_kept_is_one_sum_whatever_their_number(tmp_path, sharding):
    """Also where nothing was trained between"""
    strategy = Strategy(sharding=sharding, compress="top-k", top_k=0.2)

    def first(transport):
        t = trainer(distributed=strategy)
        t.fit(data(), 1, batch_size=8)
        mine = exchange_of(t).rests()
        mine = {name: rest.copy() for name, rest in mine.items()}
        t.save(tmp_path / "two.safetensors")
        return mine

    def then(transport):
        t = trainer(distributed=strategy)
        t.load(tmp_path / "two.safetensors")
        t.save(tmp_path / "three.safetensors")

    one, two = on_ranks(2, first)
    on_ranks(3, then)
    saved = [read_tensors(tmp_path / f"{name}.safetensors").arrays for name in ("two", "three")]
    assert one.keys() == {name.removeprefix("rest of ") for name in saved[0] if name.startswith("rest of ")}
    for name in one:
        for arrays in saved:
            np.testing.assert_array_equal(arrays[f"rest of {name}"], one[name] + two[name], err_msg=name)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_checkpoint_of_shares_goes_on_without_them(tmp_path, accumulate):
    """What is kept is found by the names of gradients, which are the same however ranks exchange them"""

    def work(strategy, source, to):
        def run(transport):
            t = trainer(distributed=strategy, accumulate=accumulate)
            if source:
                t.load(tmp_path / source)
            t.fit(data(), 1, batch_size=8)
            t.save(tmp_path / to)
            return whole(t)

        return run

    shares, plain = (Strategy(sharding=sharding, compress="bfloat16") for sharding in (1, 0))
    on_ranks(2, work(shares, None, "shares"))
    on_ranks(2, work(plain, "shares", "plain"))
    on_ranks(2, work(shares, "plain", "again"))
    names = [set(read_tensors(tmp_path / name).arrays) for name in ("shares", "plain", "again")]
    # Sums of micro-batches that are not applied yet are those of each rank, however many updates the run has reached.
    names = [{name for name in each if not re.match(r"rank \d+ of ", name)} for each in names]
    assert names[0] == names[1] == names[2]
    assert any(name.startswith("rest of ") for name in names[0])


def test_a_step_that_is_made_anew_goes_on_with_what_was_kept():
    """As when something else is fetched"""

    def run(anew):
        def work(transport):
            t = trainer(distributed=Strategy(sharding=2, compress="top-k", top_k=0.2))
            for first in range(0, 40, 8):
                t.step({k: v[first + 4 * transport.rank : first + 4 * transport.rank + 4] for k, v in data().items()})
                if anew:
                    t.program.version += 1
            return whole(t)

        return on_ranks(2, work)

    for found, expected in zip(run(True), run(False), strict=True):
        assert_equal(found, expected)
