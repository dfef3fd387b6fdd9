"""Stopping and going on: bitwise the same, after Ctrl-C, after kill -9, and with what is foreign or broken."""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from onnxgrad.errors import ArgumentError, ModelError, TrainingError
from onnxgrad.internal.tensor_file import read_metadata
from onnxgrad.training import Callback, Trainer
from onnxgrad.training.run import folder
from tests.training.small import assert_equal, data, line, model, weights

ROOT = Path(__file__).parents[2]
OPTIONS = {
    "plain": {},
    "accumulated": {"accumulate": 3},
    "averaged": {"ema": 0.9, "accumulate": 2},
    "scheduled": {"schedule": "cosine", "warmup": 4},
    "momentum": {"optimizer": "momentum", "clip_norm": 1.0},
}


def trainer(**options):
    return Trainer(model(), **{"loss": "cross_entropy", "learning_rate": 0.02, "metrics": ["accuracy"], **options})


@functools.cache
def uninterrupted(option):
    """Rows and weights of four epochs with an entry of OPTIONS, trained once for all that stop on the way"""
    t = trainer(**OPTIONS[option])
    return t.fit(data(), 4, data(9), batch_size=8), weights(t)


class Stop(Exception):
    pass


def stopped_after(steps, t):
    """Let the trainer raise after so many steps, as if it had been killed."""
    step = t.step

    def limited(batch):
        if t.step_number == steps:
            raise Stop
        return step(batch)

    t.step = limited
    return t


class TestResume:
    @pytest.mark.one_in(4)
    @pytest.mark.parametrize("option", OPTIONS)
    @pytest.mark.parametrize("steps", [5, 7, 10])
    def test_weights_are_those_of_an_uninterrupted_run(self, option, steps, tmp_path):
        options, (rows, whole) = OPTIONS[option], uninterrupted(option)
        run = {"data": data(), "epochs": 4, "validation": data(9), "batch_size": 8, "out": tmp_path, "checkpoint_every": 1}
        with pytest.raises(Stop):
            stopped_after(steps, trainer(**options)).fit(**run)
        again = trainer(**options)
        assert again.fit(**run, resume=True) == rows
        assert_equal(weights(again), whole)
        assert [path.name for path in tmp_path.glob(".*")] == []

    def test_steps_since_the_last_checkpoint_are_done_again(self, tmp_path):
        run = {"data": data(), "epochs": 2, "batch_size": 4, "out": tmp_path, "checkpoint_every": 3}
        with pytest.raises(Stop):
            stopped_after(8, trainer()).fit(**run)
        again = trainer()
        again.load(tmp_path / "last.safetensors")
        assert (again.step_number, again.batch) == (6, 6)

    def test_a_longer_run_goes_on(self, tmp_path):
        trainer().fit(data(), 1, out=tmp_path)
        again = trainer()
        assert len(again.fit(data(), 3, out=tmp_path, resume=True)) == 3

    def test_a_run_that_is_over_stays_over(self, tmp_path):
        t = trainer()
        t.fit(data(), 1, out=tmp_path)
        again = trainer()
        with pytest.warns(UserWarning, match="nothing is trained: the run has had 1 epochs, and total_epochs is 1"):
            again.fit(data(), 1, out=tmp_path, resume=True)
        assert_equal(weights(again), weights(t))

    def test_a_resumed_run_finishes_the_call_that_it_resumes(self, tmp_path):
        """Also one that began after other epochs."""
        whole = trainer()
        whole.fit(data(), 2, batch_size=8)
        whole.fit(data(), 2, batch_size=8)
        t = trainer()
        t.fit(data(), 2, batch_size=8)
        with pytest.raises(Stop):
            stopped_after(16, t).fit(data(), 2, batch_size=8, out=tmp_path, checkpoint_every=1)
        again = trainer()
        rows = again.fit(data(), 2, batch_size=8, out=tmp_path, resume=True)
        assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
        assert_equal(weights(again), weights(whole))

    def test_a_run_in_a_folder_is_continued_by_its_total(self, tmp_path):
        t = trainer()
        t.fit(data(), 1, out=tmp_path)
        assert len(t.fit(data(), out=tmp_path, resume=True, total_epochs=3)) == 3

    def test_save_and_load_alone(self, tmp_path):
        t = trainer()
        t.step(data(8))
        t.save(tmp_path / "c.safetensors")
        after = t.step(data(8))
        again = trainer()
        again.load(tmp_path / "c.safetensors")
        assert again.step(data(8)) == after


SCRIPT = """
import sys, time
from onnxgrad.training import Trainer
from tests.training.small import data, model
def slow(trainer, row): print("epoch", flush=True)
t = Trainer(model(), loss="cross_entropy", learning_rate=0.02)
rows = t.fit(data(), 10**6, batch_size=8, out=sys.argv[1], checkpoint_every=3, callbacks=[slow], verbose=False)
print("stopped at", t.step_number, flush=True)
"""


def running(tmp_path, script=SCRIPT, epochs=3):
    """A run in a process of its own, some epochs old."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path / "run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=env,
    )
    for _ in range(epochs):
        assert process.stdout.readline() == "epoch\n", process.stderr.read()
    return process


class TestInterruption:
    @pytest.mark.process
    def test_ctrl_c_writes_a_checkpoint_and_returns(self, tmp_path):
        process = running(tmp_path)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        t = trainer()
        t.load(tmp_path / "run" / "last.safetensors")
        assert out.splitlines()[-1] == f"stopped at {t.step_number}"
        again, whole = trainer(), trainer()
        again.fit(data(), t.epoch + 1, batch_size=8, out=tmp_path / "run", resume=True)
        whole.fit(data(), t.epoch + 1, batch_size=8)
        assert_equal(weights(again), weights(whole))

    @pytest.mark.process
    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM that a process may handle")
    @pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
    def test_a_scheduler_that_takes_the_machine_back_gets_a_checkpoint_first(self, tmp_path, name):
        """Two signals at once are one, as the one that starts processes may pass on what they get too"""
        process = running(tmp_path)
        number = getattr(signal, name)
        process.send_signal(number)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (128 + number, "")
        assert "stopped at" not in out
        t = trainer()
        t.load(tmp_path / "run" / "last.safetensors")
        again, whole = trainer(), trainer()
        again.fit(data(), t.epoch + 1, batch_size=8, out=tmp_path / "run", resume=True)
        whole.fit(data(), t.epoch + 1, batch_size=8)
        assert_equal(weights(again), weights(whole))

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM that a process may handle")
    def test_a_handler_that_the_program_has_stays(self):
        came = []
        before = signal.signal(signal.SIGTERM, lambda *_: came.append("SIGTERM"))
        try:
            t = trainer()
            rows = t.fit(data(), 1, callbacks=[lambda *_: signal.raise_signal(signal.SIGTERM)], verbose=False)
        finally:
            signal.signal(signal.SIGTERM, before)
        assert came == ["SIGTERM"] and len(rows) == 1

    def test_a_run_that_waits_for_data_ends_too(self, tmp_path):
        """The third batch does not come; the run that goes on takes it"""
        rest = threading.Event()

        def batches(hangs):
            for number in range(4):
                if hangs and number == 2:
                    rest.wait(60)
                yield {name: array[8 * number : 8 * number + 8] for name, array in data().items()}

        class Interrupting(Callback):
            def on_step(self, t, row):
                if t.step_number == 2:
                    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

        stopped, again, whole = trainer(), trainer(), trainer()
        stopped.fit(lambda epoch: batches(True), 1, out=tmp_path, verbose=False, callbacks=[Interrupting()])
        rest.set()
        assert (stopped.step_number, stopped.epoch) == (2, 0)
        again.fit(lambda epoch: batches(False), 1, out=tmp_path, resume=True, verbose=False)
        whole.fit(lambda epoch: batches(False), 1, verbose=False)
        assert_equal(weights(again), weights(whole))

    @pytest.mark.process
    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM that a process may handle")
    def test_a_second_signal_ends_at_once(self, tmp_path):
        """While a callback goes on for ever"""
        script = "import sys, time\nfrom onnxgrad.training.run import plan\nplan._TOGETHER = 0.0\n" + SCRIPT.replace(
            'print("epoch", flush=True)', 'print("epoch", flush=True); [time.sleep(0.02) for _ in range(10**6)]'
        )
        process = running(tmp_path, script, epochs=1)
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGTERM

    @pytest.mark.one_in(3)
    @pytest.mark.process
    @pytest.mark.parametrize("delay", [0.0, 0.05, 0.11])
    def test_kill_loses_at_most_the_steps_since_the_last_checkpoint(self, tmp_path, delay):
        process = running(tmp_path)
        time.sleep(delay)
        process.kill()
        process.communicate(timeout=60)
        killed = trainer()
        killed.load(tmp_path / "run" / "last.safetensors")
        written = max(int(path.stem[5:]) for path in (tmp_path / "run").glob("step-*.safetensors"))
        assert killed.step_number >= 15 and written - killed.step_number <= 3
        epochs = killed.epoch + 2
        again, whole = trainer(), trainer()
        again.fit(data(), epochs, batch_size=8, out=tmp_path / "run", resume=True)
        whole.fit(data(), epochs, batch_size=8)
        assert_equal(weights(again), weights(whole))

    @pytest.mark.process
    def test_a_second_process_in_the_folder_is_refused(self, tmp_path):
        process = running(tmp_path)
        try:
            with pytest.raises(TrainingError, match=r"another process trains in .* Choose another folder, or wait for it"):
                trainer().fit(data(), 1, out=tmp_path / "run", resume=True)
        finally:
            process.kill()
            process.communicate(timeout=60)

    def test_a_second_trainer_in_this_process_is_refused(self, tmp_path):
        def second(t, row):
            with pytest.raises(TrainingError, match="another process trains"):
                trainer().fit(data(), 1, out=tmp_path, resume=True)
            return True

        assert len(trainer().fit(data(), 3, out=tmp_path, callbacks=[second])) == 1


class Killed(BaseException):
    pass


def short_run(t, **options):
    t.fit(data(), validation=data(30, seed=2), batch_size=20, **options)


@pytest.fixture(scope="module", params=[2, 3])
def whole(request, tmp_path_factory):
    """Epochs, weights and folder of a run that nothing ends."""
    t, folder = trainer(), tmp_path_factory.mktemp("whole")
    short_run(t, epochs=request.param, out=folder)
    return request.param, weights(t), folder


class TestKilledWhilePublishing:
    @pytest.mark.one_in(5)
    @pytest.mark.parametrize("done", range(12))
    def test_nothing_is_lost_whatever_was_done(self, whole, done, tmp_path, monkeypatch):
        """The process ends before one of the operations on files that follow the second epoch; loss falls in each."""
        epochs, expected, folder_of_whole = whole
        t, left = trainer(), [done]

        def dying(call):
            def instead(*args):
                if t.epoch >= 2:
                    left[0] -= 1
                    if left[0] < 0:
                        raise Killed
                return call(*args)

            return instead

        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            for name in ("replace", "link", "fsync"):
                patch.setattr(folder.os, name, dying(getattr(os, name)))
            short_run(t, epochs=epochs, out=tmp_path / "part")
        again = trainer()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            short_run(again, epochs=epochs, out=tmp_path / "part", resume=True)
        assert_equal(weights(again), expected)
        for name in ("history.csv", "history.jsonl"):
            assert (tmp_path / "part" / name).read_bytes() == (folder_of_whole / name).read_bytes(), name
        for name in ("best.safetensors", "last.safetensors"):
            part, same = tmp_path / "part" / name, folder_of_whole / name
            assert read_metadata(part) == read_metadata(same), name
            assert_equal(load_file(part), load_file(same))


class TestRefusals:
    def test_a_folder_with_a_run_is_not_overwritten(self, tmp_path):
        trainer().fit(data(), 1, out=tmp_path)
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(TrainingError, match=r"holds a run already\. Resume it, or choose another folder"):
            trainer().fit(data(), 1, out=tmp_path)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

    def test_nothing_to_resume(self, tmp_path):
        with pytest.raises(TrainingError, match="nothing to resume"):
            trainer().fit(data(), 1, out=tmp_path, resume=True)
        with pytest.raises(ArgumentError, match="needs out="):
            trainer().fit(data(), 1, resume=True)

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            (lambda: Trainer(line(), loss="mse"), "another model, loss or optimizer"),
            (lambda: trainer(optimizer="sgd"), "another model, loss or optimizer"),
            (lambda: trainer(loss="mse"), "another model, loss or optimizer"),
            (lambda: trainer(freeze="body.*"), "another model, loss or optimizer"),
            (lambda: trainer(accumulate=2), "another model, loss or optimizer"),
            (lambda: trainer(ema=0.9), "another model, loss or optimizer"),
            (lambda: trainer(seed=1), "written with seed=0, this is seed=1"),
        ],
    )
    def test_a_foreign_checkpoint(self, other, message, tmp_path):
        trainer().save(tmp_path / "c.safetensors")
        t = other()
        before = weights(t)
        with pytest.raises(TrainingError, match=rf"c\.safetensors' was written .*{message}|{message}"):
            t.load(tmp_path / "c.safetensors")
        assert_equal(weights(t), before)

    def test_accumulation_of_another_length(self, tmp_path):
        trainer(accumulate=2).save(tmp_path / "c.safetensors")
        with pytest.raises(TrainingError, match="accumulate=2, this is accumulate=3"):
            trainer(accumulate=3).load(tmp_path / "c.safetensors")

    @pytest.mark.parametrize("content", [b"", b"nothing", None])
    def test_a_damaged_file(self, content, tmp_path):
        path = tmp_path / "c.safetensors"
        trainer().save(path)
        path.write_bytes(path.read_bytes()[:-9] if content is None else content)
        with pytest.raises(ModelError, match="not a readable checkpoint"):
            trainer().load(path)

    def test_a_weight_file_without_a_position(self, tmp_path):
        from safetensors.numpy import save_file

        save_file({"x": np.zeros(1)}, tmp_path / "c.safetensors")
        with pytest.raises(TrainingError, match="another model"):
            trainer().load(tmp_path / "c.safetensors")


def full(*args, **kwargs):
    raise OSError(28, "No space left on device")


class TestFullDisk:
    @pytest.mark.parametrize("call", ["fsync", "replace"])
    def test_the_previous_checkpoint_is_intact(self, call, tmp_path, monkeypatch):
        trainer().fit(data(), 1, out=tmp_path)
        before = (tmp_path / "last.safetensors").read_bytes()
        t = trainer()
        with monkeypatch.context() as patch, pytest.raises(TrainingError, match="No space left on device") as caught:
            patch.setattr(folder.os, call, full)
            t.fit(data(), 2, out=tmp_path, resume=True)
        assert "\n" not in str(caught.value)
        assert (tmp_path / "last.safetensors").read_bytes() == before
        assert not list(tmp_path.glob(".*"))
        again, whole = trainer(), trainer()
        again.fit(data(), 2, out=tmp_path, resume=True)
        whole.fit(data(), 2)
        assert_equal(weights(again), weights(whole))

    def test_without_links_the_checkpoint_is_copied(self, tmp_path, monkeypatch):
        monkeypatch.setattr(folder.os, "link", full)
        trainer().fit(data(), 1, out=tmp_path)
        assert read_metadata(tmp_path / "last.safetensors") == read_metadata(tmp_path / "step-00000002.safetensors")

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(TrainingError, match="cannot use the folder"):
            trainer().fit(data(), 1, out=tmp_path / "file" / "run")
