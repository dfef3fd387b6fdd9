"""Trainer(place="auto"): the fastest provider by the first steps, whose losses are those of the CPU."""

import json
import threading
from functools import partial

import numpy as np
import pytest

from onnxgrad.cli import settings as cli_settings
from onnxgrad.cli.main import main
from onnxgrad.core.runtime.openvino import place_by_name
from onnxgrad.core.runtime.places import CPUPlace
from onnxgrad.core.runtime.prepared import Prepared
from onnxgrad.distributed import Strategy, run_local
from onnxgrad.distributed.environment import using
from onnxgrad.distributed.exchange import GradientExchange
from onnxgrad.errors import ExecutionError, ProviderError
from onnxgrad.training import Trainer, trainer as module
from onnxgrad.training.run.place_choice import NAMES, Timing, choice, described, installed_places, timed
from tests.training.small import assert_equal, data, model, weights


class OtherPlace(CPUPlace):
    """The CPU under another name"""

    def _key(self):
        return ("other",)

    def __repr__(self):
        return "Place(other)"


class BrokenPlace(OtherPlace):
    def providers(self):
        raise ProviderError("it does not start. Use CPUPlace().")


def trainer(**options):
    given = {"loss": "cross_entropy", "learning_rate": 0.02, "threads": 1, "place": "auto", "batch_norm": "train", **options}
    return Trainer(model(), **given)


def batch(count=8):
    return data(count)


@pytest.fixture
def trial(monkeypatch):
    """A second provider, and how long a step takes on each; what is undone and compared is what is really run"""
    trials = []

    def install(seconds, place=None, factor=1.0, name="openvino"):
        def measured(name, step, scope):
            trials.append(name)
            timing = timed(name, step, scope)
            if timing.reason:
                return timing
            losses = tuple(loss * (1.0 if name == "cpu" else factor) for loss in timing.losses)
            return timing._replace(seconds=seconds[name], losses=losses)

        monkeypatch.setattr(module, "installed_places", lambda: {"cpu": CPUPlace(), name: place or OtherPlace()})
        monkeypatch.setattr(module, "timed", measured)
        return trials

    return install


# The choice -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [((0.02, 0.01), "openvino"), ((0.02, 0.03), "cpu"), ((0.02, 0.0195), "cpu"), ((0.02, 0.0189), "openvino")],
)
def test_the_fastest_is_kept_where_it_gains_more_than_noise(seconds, chosen):
    timings = {name: Timing(name, each, (1.0, 0.9)) for name, each in zip(NAMES, seconds, strict=False)}
    assert choice(timings)[0] == chosen


@pytest.mark.parametrize("losses", [(1.0, 0.902), (1.002, 0.9), (float("nan"), 0.9), (1.0, float("inf"))])
def test_a_provider_with_other_losses_is_refused(losses):
    chosen, judged = choice({"cpu": Timing("cpu", 0.02, (1.0, 0.9)), "openvino": Timing("openvino", 0.01, losses)})
    assert chosen == "cpu"
    assert "its losses differ by" in described(chosen, judged)
    assert "more than 0.001" in described(chosen, judged)


def test_losses_may_round_otherwise():
    timings = {"cpu": Timing("cpu", 0.02, (1.0, 0.9)), "openvino": Timing("openvino", 0.01, (1.0 + 9e-4, 0.9))}
    assert choice(timings)[0] == "openvino"


def test_the_faster_of_the_steps_that_are_timed_counts():
    times = iter([0, 9, 9, 18, 20, 23, 30, 32])
    calls = []

    def step():
        calls.append(None)
        return 1.0 / len(calls)

    timing = timed("cpu", step, trainer(place=None).program.active_scope(), clock=lambda: next(times))
    assert timing == Timing("cpu", 2, (1.0, 1 / 2, 1 / 3, 1 / 4))


def test_the_cpu_is_installed():
    places = installed_places()
    assert next(iter(places)) == "cpu"
    assert set(places) <= set(NAMES)


# A Trainer ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"accumulate": 2}, {"ema": 0.9, "schedule": "cosine"}, {"memory": None}], ids=str)
@pytest.mark.parametrize("faster", ["cpu", "openvino"])
def test_the_trial_is_undone_and_the_run_is_that_of_the_chosen_place(options, faster, trial):
    trials = trial({"cpu": 2.0, "openvino": 2.0, faster: 1.0})
    auto, plain = trainer(**options), trainer(**{**options, "place": None})
    for t in (auto, plain):
        t.fit(data(), 2, batch_size=8, verbose=False)
    assert trials == ["cpu", "openvino"]
    assert isinstance(auto.executor.place, OtherPlace) == (faster == "openvino")
    assert auto.step_number == plain.step_number
    assert auto.history == plain.history
    assert_equal(weights(auto), weights(plain))
    assert f"place 'auto' keeps {faster}: a step takes" in auto.remarks[-1]
    assert "1e+03 ms" in auto.remarks[-1]


def test_a_trial_changes_nothing(trial):
    trial({"cpu": 2.0, "openvino": 1.0})
    t = trainer()
    before = weights(t)
    assert t.choose_place(batch()) == "openvino"
    assert_equal(weights(t), before)
    assert t.step_number == 0
    assert t.choose_place(batch()) == "openvino"


def test_a_faster_provider_with_other_losses_is_not_kept(trial):
    trial({"cpu": 2.0, "openvino": 1.0}, factor=1.01)
    t = trainer()
    t.step(batch())
    assert type(t.executor.place) is CPUPlace
    assert "refused: its losses differ by 1.0e-02" in t.remarks[-1]


def test_a_provider_that_fails_is_not_kept(trial):
    trial({"cpu": 2.0}, BrokenPlace())
    t, plain = trainer(), trainer(place=None)
    for each in (t, plain):
        each.step(batch())
    assert type(t.executor.place) is CPUPlace
    assert "openvino fails: it does not start" in t.remarks[-1]
    assert_equal(weights(t), weights(plain))


@pytest.mark.parametrize("options", [{"memory": "low"}, {"place": None}, {"place": CPUPlace()}], ids=str)
def test_nothing_is_tried_where_only_the_cpu_will_do_or_a_place_is_given(options, trial):
    trials = trial({"cpu": 2.0, "openvino": 1.0})
    t = trainer(**options)
    t.step(batch())
    assert trials == []
    assert type(t.executor.place) is CPUPlace


def test_a_resumed_run_takes_the_same_place(tmp_path, trial):
    trials = trial({"cpu": 2.0, "openvino": 1.0})
    trainer().fit(data(), 1, batch_size=8, verbose=False, out=tmp_path)
    trials.clear()
    resumed = trainer()
    resumed.fit(data(), total_epochs=2, batch_size=8, verbose=False, out=tmp_path, resume=True)
    assert trials == []
    assert isinstance(resumed.executor.place, OtherPlace)


def test_a_place_that_is_not_installed_any_more_is_said(tmp_path, trial, monkeypatch):
    trial({"cpu": 2.0, "openvino": 1.0})
    first = trainer()
    first.step(batch())
    first.save(tmp_path / "last.safetensors")
    monkeypatch.setattr(module, "installed_places", lambda: {"cpu": CPUPlace()})
    second = trainer()
    second.load(tmp_path / "last.safetensors")
    assert "the run was on 'openvino', which is not installed here" in second.remarks[-1]
    second.step(batch())
    assert "keeps cpu: no other provider can take this step" in second.remarks[-1]


def test_checkpoints_of_other_runs_do_not_name_a_place(tmp_path):
    t = trainer(place=None)
    t.step(batch())
    t.save(tmp_path / "last.safetensors")
    assert b'"place"' not in (tmp_path / "last.safetensors").read_bytes()


def test_ranks_take_the_choice_of_the_first(monkeypatch):
    lock, local = threading.Lock(), threading.local()

    def measured(name, step, scope, is_alone):
        faster = "openvino" if local.rank == 0 else "cpu"
        return timed(name, step, scope, is_alone=is_alone)._replace(seconds=1.0 if name == faster else 2.0)

    monkeypatch.setattr(module, "timed", measured)
    monkeypatch.setattr(module, "installed_places", lambda: {"cpu": CPUPlace(), "openvino": OtherPlace()})

    def trained(transport):
        local.rank = transport.rank
        with using(transport):
            with lock:
                t = trainer(distributed=True, batch_norm="frozen")
            t.fit(data(), 2, batch_size=8, verbose=False)
            return isinstance(t.executor.place, OtherPlace), weights(t)

    plain = trainer(place=None, batch_norm="frozen")
    plain.fit(data(), 2, batch_size=8, verbose=False)
    for is_other, values in run_local(2, trained):
        assert is_other
        for name, value in weights(plain).items():
            np.testing.assert_allclose(values[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


class FailingPlace(OtherPlace):
    """A place where sessions open and do not run"""


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (BrokenPlace(), "openvino on rank 1 of 3 fails: it does not start. Use CPUPlace()"),
        (FailingPlace(), "openvino on rank 1 of 3 fails: out of memory"),
        (None, "openvino on rank 1 of 3 is not installed, or does not start"),
    ],
    ids=["when it opens", "when it runs", "lacking"],
)
def test_a_provider_that_fails_on_one_rank_is_left_out_on_all(place, reason, accumulate, monkeypatch):
    """No rank waits for what another one does not do"""
    lock, local = threading.Lock(), threading.local()
    real_run = Prepared.run

    def run(self, *arguments):
        if isinstance(self.place, FailingPlace):
            raise ExecutionError("out of memory\nin a second line")
        return real_run(self, *arguments)

    def installed():
        other = place if local.rank == 1 else OtherPlace()
        return {"cpu": CPUPlace(), **({} if other is None else {"openvino": other})}

    monkeypatch.setattr(Prepared, "run", run)
    monkeypatch.setattr(module, "installed_places", installed)
    monkeypatch.setattr(
        module, "timed", lambda name, *rest, **more: timed(name, *rest, **more)._replace(seconds=2.0 - (name != "cpu"))
    )

    def trained(transport):
        local.rank = transport.rank
        with using(transport):
            with lock:
                t = trainer(distributed=True, batch_norm="frozen", accumulate=accumulate)
            t.fit(data(), 1, batch_size=8, verbose=False)
            return t.remarks[-1], type(t.executor.place), weights(t)

    plain = trainer(place=None, batch_norm="frozen", accumulate=accumulate)
    plain.fit(data(), 1, batch_size=8, verbose=False)
    for remark, kept, values in run_local(3, trained, timeout=20):
        assert remark.endswith(f"{reason}.") and "\n" not in remark and kept is CPUPlace
        for name, value in weights(plain).items():
            if "ACCUMULATED" not in name:  # of its own part alone
                np.testing.assert_allclose(values[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_provider_that_fails_while_others_wait_ends_all_ranks(monkeypatch):
    lock, ended = threading.Lock(), []
    reduce = GradientExchange.reduce

    def failing(self, *arguments):
        if self.transport.rank == 1:
            raise ExecutionError("the device is lost")
        return reduce(self, *arguments)

    monkeypatch.setattr(module, "installed_places", lambda: {"cpu": CPUPlace(), "openvino": OtherPlace()})
    monkeypatch.setattr(GradientExchange, "reduce", failing)

    def trained(transport):
        with using(transport):
            with lock:
                t = trainer(distributed=True, batch_norm="frozen")
            try:
                t.fit(data(), 1, batch_size=8, verbose=False)
            finally:
                ended.append((transport.rank, t.step_number))

    with pytest.raises(ExecutionError, match="the device is lost"):
        run_local(2, trained, timeout=20)
    assert sorted(ended) == [(0, 0), (1, 0)]


@pytest.mark.parametrize("strategy", [Strategy(sharding=1), Strategy(compress="bfloat16")], ids=["shares", "compressed"])
def test_a_trial_leaves_what_ranks_share_and_keep(strategy, monkeypatch):
    """Where gradients lie, of which ranks put ranges together, and what compression has kept of those of trial steps"""
    lock = threading.Lock()
    monkeypatch.setattr(
        module, "timed", lambda name, step, scope, **_: timed(name, step, scope)._replace(seconds=1.0 + (name != "cpu"))
    )
    monkeypatch.setattr(module, "installed_places", lambda: {"cpu": CPUPlace(), "openvino": OtherPlace()})

    def trained(place, transport):
        with using(transport):
            with lock:
                t = trainer(place=place, distributed=strategy, batch_norm="frozen")
            t.fit(data(), 1, batch_size=8, verbose=False)
            t.ranks.step.gather(everywhere=True)
            return weights(t)

    for values, expected in zip(run_local(2, partial(trained, "auto")), run_local(2, partial(trained, None)), strict=True):
        assert_equal(values, expected)


def test_what_is_wrong_with_a_batch_is_said_as_in_a_step(trial):
    trial({"cpu": 2.0, "openvino": 1.0})
    with pytest.raises(Exception, match="has no column"):
        trainer().choose_place({"x": batch()["x"]})


def test_an_interrupt_in_a_trial_leaves_the_state(trial, monkeypatch):
    trial({"cpu": 2.0, "openvino": 1.0})
    t = trainer()
    before, run = weights(t), t.executor.run

    def stops(*arguments, **options):
        run(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(t.executor, "run", stops)
    with pytest.raises(KeyboardInterrupt):
        t.step(batch())
    assert_equal(weights(t), before)
    monkeypatch.undo()
    assert t.step_number == 0


def without_openvino(name, precision="f32"):
    if name == "openvino":
        raise ProviderError("OpenVINO's provider is not installed.")
    return place_by_name(name, precision)


def test_the_command_writes_the_choice_into_the_settings(tmp_path, trial, capsys, monkeypatch):
    from onnx import save

    trial({"cpu": 1.0, "openvino": 2.0})
    save(model(), tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", **data())
    arguments = ["--data", str(tmp_path / "data.npz"), "--loss", "cross_entropy", "--epochs", "1", "--out", str(tmp_path / "run")]
    assert main(["train", str(tmp_path / "model.onnx"), *arguments, "--device", "auto", "--no-report"]) == 0
    assert "place 'auto' keeps cpu: a step takes 1e+03 ms on cpu" in capsys.readouterr().out
    settings = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert settings["device"] == "cpu" and settings["device_is_chosen"]

    def resumed(device, is_chosen, *options):
        changed = settings | {"device": device, "device_is_chosen": is_chosen}
        (tmp_path / "run" / "settings.json").write_text(json.dumps(changed))
        code = main(["train", "--resume", str(tmp_path / "run"), "--more-epochs", "1", *options])
        return code, "".join(capsys.readouterr())

    # On a machine without that provider: what the first steps chose they choose again, what somebody asked for is refused.
    monkeypatch.setattr("onnxgrad.cli.settings.place_by_name", without_openvino)
    assert resumed("openvino", True)[0] == 0
    code, said = resumed("openvino", False)
    assert code != 0 and "--resume FOLDER --device cpu" in said
    assert resumed("openvino", False, "--device", "cpu")[0] == 0


def test_ranks_of_a_resumed_run_choose_again_together(monkeypatch):
    """Where the provider that the run was on is lacking on one of them"""
    local = threading.local()
    monkeypatch.setattr(cli_settings, "place_by_name", lambda *asked: without_openvino(*asked) if local.rank else CPUPlace())

    def place(transport):
        local.rank = transport.rank
        with using(transport):
            return cli_settings._place_of("openvino", "f32", {"device_is_chosen": True}, True)

    assert run_local(2, place, timeout=20) == ["auto", "auto"]


def test_openvino_is_tried_where_it_is_installed():
    pytest.importorskip("onnxruntime_ep_openvino")
    if "openvino" not in installed_places():
        pytest.skip("OpenVINO has no device on this processor")
    t, plain = trainer(threads=None), trainer(place=None)
    t.step(batch())
    plain.step(batch())
    assert "on openvino" in t.remarks[-1]
    assert "refused" not in t.remarks[-1]
    for name, value in weights(plain).items():
        np.testing.assert_allclose(weights(t)[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
