"""Overlap that a Trainer is asked for: kept where the slowest rank's first steps gain by it, and the run is the same either way."""

import json

import pytest

from onnxgrad.cli.train import _choose
from onnxgrad.core.step import cut
from onnxgrad.distributed import Strategy
from onnxgrad.distributed.environment import current
from onnxgrad.distributed.exchange import GradientExchange
from onnxgrad.errors import TrainingError
from onnxgrad.internal.tensor_file import read_tensors
from onnxgrad.training import Trainer, trainer as module
from onnxgrad.training.run.place_choice import measured
from tests.distributed.test_trainer import on_ranks, trainer
from tests.distributed.test_trainer_shares import whole
from tests.training.small import assert_equal, data, weights

GAINS, COSTS = (0.008, 0.009), (0.0121, 0.009)
"""Seconds of a step with overlap and without."""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(cut, "SMALL", 4)


@pytest.fixture
def clock(monkeypatch):
    """What each rank measures; steps are taken and undone as ever"""
    measurements = []

    def set_clock(*of_ranks):
        left = {rank: list(seconds) for rank, seconds in enumerate(of_ranks)}

        def stub(step, scope):
            measurements.append(current().rank)
            _, losses = measured(step, scope)
            return left[current().rank].pop(0), losses

        monkeypatch.setattr(module, "measured", stub)
        return measurements

    return set_clock


@pytest.fixture
def sends(monkeypatch):
    """Numbers of groups that travel before all are computed"""
    numbers, send = [], GradientExchange.send

    def noted(self, number, fetched):
        numbers.append(number)
        send(self, number, fetched)

    monkeypatch.setattr(GradientExchange, "send", noted)
    return numbers


@pytest.mark.parametrize(
    ("of_ranks", "line"),
    [
        ((GAINS, GAINS), "overlap=3 is kept: a step takes 8 ms with it and 9 ms without, on the slowest rank."),
        ((GAINS, COSTS), "overlap=3 is left out: a step takes 12.1 ms with it and 9 ms without, on the slowest rank."),
        ((GAINS, (0.001, 0.001)), "overlap=3 is kept: a step takes 8 ms with it and 9 ms without, on the slowest rank."),
        (((0.0089, 0.009), GAINS), "overlap=3 is left out: a step takes 8.9 ms with it and 9 ms without, on the slowest rank."),
    ],
    ids=["gains", "costs the slowest rank", "the other rank waits", "gains no more than noise"],
)
def test_all_ranks_keep_what_gains_on_the_slowest(of_ranks, line, clock, sends):
    clock(*of_ranks)

    def work(transport):
        t = trainer(distributed=Strategy(overlap=3))
        before = weights(t)
        kept = t.choose_overlap({name: column[:4] for name, column in data().items()})
        assert_equal(weights(t), before)
        assert t.step_number == 0
        transport.barrier()
        sends.clear()
        transport.barrier()
        t.step({name: column[:4] for name, column in data().items()})
        return kept, t.remarks[-1]

    assert on_ranks(2, work) == [("kept" in line, line)] * 2
    assert (len(sends) > 0) == ("kept" in line)


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ({}, {"ema": 0.9, "schedule": "cosine", "loss_scale": 1024.0}),
        ({"sharding": 2}, {"clip_norm": 0.1}),
        ({"sharding": 1}, {"accumulate": 2}),
        ({"compress": "bfloat16"}, {}),
        ({"compress": "top-k", "top_k": 0.3}, {"accumulate": 2}),
    ],
    ids=str,
)
def test_the_run_is_the_same_to_the_bit_whichever_form_is_kept(strategy, options, clock, monkeypatch):
    """Also that of a run which measures nothing: trial steps leave no trace, nor in what compression keeps"""

    def work(transport):
        t = trainer(distributed=Strategy(overlap=3, **strategy), **options)
        history = t.fit(data(), 2, batch_size=7, verbose=False)
        rests = [one.rests() for one in (t.ranks.step.exchange, t.ranks.step.sums) if one is not None]
        return t._overlaps, history, whole(t), rests

    runs = {}
    for seconds in (GAINS, COSTS):
        measurements = clock(seconds, seconds)
        runs[seconds] = on_ranks(2, work)
        assert sorted(measurements) == [0, 0, 1, 1]
        measurements.clear()
    monkeypatch.setattr(Trainer, "_try_overlap", lambda self, *_: self._keep_overlap(True))
    for rank, (_, history, state, rests) in enumerate(on_ranks(2, work)):
        for seconds, run in runs.items():
            kept, other_history, other_state, other_rests = run[rank]
            assert kept == (seconds is GAINS)
            assert other_history == history
            assert_equal(other_state, state)
            for one, other in zip(rests, other_rests, strict=True):
                assert_equal(other, one)


@pytest.mark.parametrize("seconds", [GAINS, COSTS])
def test_a_resumed_run_takes_the_same(seconds, tmp_path, clock):
    measurements = clock(seconds, seconds)

    def work(transport, epochs=1, resume=False, sessions=3):
        t = trainer(distributed=Strategy(overlap=sessions))
        t.fit(data(), total_epochs=epochs, batch_size=7, verbose=False, out=tmp_path / "run", resume=resume)
        return t._overlaps, t.remarks, weights(t)

    on_ranks(2, work)
    kept = seconds is GAINS
    said = read_tensors(tmp_path / "run" / "last.safetensors").metadata["overlap"]
    assert said == ("3 of 3 sessions" if kept else "1 of 3 sessions")
    measurements.clear()
    resumed = on_ranks(2, lambda t: work(t, 2, True))
    assert measurements == []
    assert [one[0] for one in resumed] == [kept, kept]

    def through(transport):
        t = trainer(distributed=Strategy(overlap=3))
        t.fit(data(), total_epochs=2, batch_size=7, verbose=False)
        return weights(t)

    clock(seconds, seconds)
    assert_equal(resumed[0][2], on_ranks(2, through)[0])
    clock(seconds, seconds)
    measurements.clear()
    on_ranks(2, lambda t: work(t, 3, True, sessions=2))
    assert sorted(measurements) == [0, 0, 1, 1]  # another number is another question


def test_a_checkpoint_takes_the_place_of_a_choice_that_was_made_before(tmp_path, clock, sends):
    batch = {name: column[:4] for name, column in data().items()}

    def work(transport, resumes):
        t = trainer(distributed=Strategy(overlap=3))
        t.step(batch)
        if resumes:
            t.load(tmp_path / "one.safetensors")
            transport.barrier()
            sends.clear()
            transport.barrier()
            t.step(batch)
        else:
            t.save(tmp_path / "one.safetensors")
        return t._overlaps

    clock(COSTS, COSTS)
    assert on_ranks(2, lambda t: work(t, False)) == [False, False]
    clock(GAINS, GAINS)
    assert on_ranks(2, lambda t: work(t, True)) == [False, False]
    assert sends == []


def test_a_rank_that_fails_in_the_trial_ends_the_others(monkeypatch):
    def failing(self, number, fetched):
        if self.transport.rank:
            raise TrainingError("lost")

    monkeypatch.setattr(GradientExchange, "send", failing)
    with pytest.raises(TrainingError, match="lost"):
        on_ranks(2, lambda t: trainer(distributed=Strategy(overlap=3)).step({name: v[:4] for name, v in data().items()}))


@pytest.mark.parametrize("strategy", [Strategy(), Strategy(overlap=1), Strategy(overlap=3, pipeline=2)], ids=repr)
def test_nothing_is_measured_where_nothing_would_overlap(strategy, clock):
    measurements = clock(GAINS, GAINS)
    rows = {name: column[:4] for name, column in data().items()}

    def work(transport):
        t = trainer(distributed=strategy)
        t.step(rows)
        return t.choose_overlap(rows)

    assert on_ranks(2, work) == [False, False]
    assert measurements == []


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_says_it(as_json, clock, capsys):
    clock(COSTS, COSTS)
    settings = {"no_shuffle": False, "drop_last": False, "batch_size": 8, "overlap": 3, "device": "cpu"}

    def work(transport):
        t = trainer(distributed=Strategy(overlap=3))
        _choose(t, t.open(data(), None)[0], dict(settings), as_json)

    on_ranks(2, work)
    line = "overlap=3 is left out: a step takes 12.1 ms with it and 9 ms without, on the slowest rank."
    said = capsys.readouterr().out
    if as_json:
        assert json.loads(said) == {"event": "overlap", "overlaps": False, "note": line}
    else:
        assert said == f"note: {line}\n"
