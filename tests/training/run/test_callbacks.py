"""What a run says while it goes on: to callbacks, to TensorBoard and MLflow, to a terminal, a file and a machine."""

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnxgrad.errors import ArgumentError, OnnxGradError
from onnxgrad.training import Callback, MLflow, Report, TensorBoard, Trainer
from onnxgrad.training.run import progress
from tests.training import small
from tests.training.small import data, model
from tests.training.test_trainer import trainer

ROOT = Path(__file__).parents[3]


class Listener(Callback):
    """Notes what it hears; ends the run at an event if told so."""

    def __init__(self, end_at=None):
        self.heard, self.end_at = [], end_at

    def note(self, event, what=None):
        self.heard.append((event, what))
        return [name for name, _ in self.heard].count(self.end_at) > 0

    def on_begin(self, trainer, plan):
        self.note("begin", plan)

    def on_step(self, trainer, row):
        return self.note("step", row)

    def on_evaluate(self, trainer, row):
        return self.note("evaluate", row)

    def on_epoch(self, trainer, row):
        return self.note("epoch", row)

    def on_checkpoint(self, trainer, path):
        assert path.exists()
        self.note("checkpoint", path.name)

    def on_end(self, trainer, row):
        self.note("end", row)

    @property
    def events(self):
        return [event for event, _ in self.heard]


@pytest.fixture(scope="module")
def whole():
    """The weights after three epochs."""
    t = trainer()
    t.fit(data(), 3, data(20), batch_size=20, verbose=False)
    return {p.name: p.get_value() for p in t.trained}


class TestCallbacks:
    def test_each_event_is_told_in_its_place(self, tmp_path):
        listener = Listener()
        rows = trainer().fit(data(), 2, data(20), batch_size=20, out=tmp_path, callbacks=[listener], verbose=False)
        epoch = ["step", "step", "evaluate", "checkpoint", "epoch"]
        assert listener.events == ["begin", *epoch, *epoch, "end"]
        told = [what for event, what in listener.heard if event == "epoch"]
        assert told == rows
        first = listener.heard[1][1]
        assert (first["step"], first["epoch"], first["examples"]) == (1, 1, 20) and {"loss", "accuracy", "learning_rate"} <= set(
            first
        )
        evaluated = next(what for event, what in listener.heard if event == "evaluate")
        assert evaluated["val_loss"] == rows[0]["val_loss"] and evaluated["step"] == 2

    def test_functions_are_called_after_each_epoch(self):
        seen = []
        t = trainer()
        rows = t.fit(data(), 2, callbacks=[lambda who, row: seen.append((who is t, row))], verbose=False)
        assert seen == [(True, row) for row in rows]

    @pytest.mark.parametrize(("event", "steps", "rows"), [("step", 1, 0), ("evaluate", 2, 1), ("epoch", 2, 1)])
    def test_true_ends_the_run(self, event, steps, rows, whole, tmp_path):
        t = trainer()
        listener = Listener(end_at=event)
        assert len(t.fit(data(), 3, data(20), batch_size=20, callbacks=[listener], out=tmp_path, verbose=False)) == rows
        assert t.step_number == steps and listener.events[-1] == "end" and "checkpoint" in listener.events
        resumed = trainer()
        resumed.fit(data(), 3, data(20), batch_size=20, out=tmp_path, resume=True, verbose=False)
        for name, value in whole.items():
            np.testing.assert_array_equal(resumed.program.find(name).get_value(), value)

    def test_the_end_is_told_when_a_run_fails(self):
        listener = Listener()
        with pytest.raises(OnnxGradError):
            trainer().fit({**data(), "x": np.full_like(data()["x"], np.nan)}, callbacks=[listener], verbose=False)
        assert listener.events == ["begin", "end"]
        assert listener.heard[-1][1] == {}

    def test_the_end_has_the_last_row(self):
        listener = Listener()
        rows = trainer().fit(data(), 2, callbacks=[listener], verbose=False)
        assert listener.heard[-1] == ("end", rows[-1])

    def test_an_error_at_the_end_does_not_hide_the_first(self):
        listener = Listener()
        with pytest.raises(KeyError, match="first") as caught:
            trainer().fit(data(), 2, callbacks=[Fails("first"), Fails("second"), listener], verbose=False)
        assert listener.events[-1] == "end"
        notes = [f"on_end of Fails failed as well: ValueError: {name}" for name in ("first", "second")]
        assert caught.value.__notes__ == notes

    def test_an_error_at_the_end_is_raised_when_all_are_told(self):
        listener = Listener()
        failing = Fails("first", ends=True)
        with pytest.raises(ValueError, match="first") as caught:
            trainer().fit(data(), 1, callbacks=[failing, Fails("second", ends=True), listener], verbose=False)
        assert listener.events[-1] == "end"
        assert caught.value.__notes__ == ["on_end of Fails failed as well: ValueError: second"]


class Fails(Callback):
    """Fails at the end, and after an epoch unless that ends the run well."""

    def __init__(self, name, ends=False):
        self.name, self.ends = name, ends

    def on_epoch(self, trainer, row):
        if not self.ends:
            raise KeyError(self.name)

    def on_end(self, trainer, row):
        raise ValueError(self.name)


class TestLoggers:
    def test_tensorboard_reads_what_was_written(self, tmp_path):
        pytest.importorskip("tensorboard", reason="tensorboard is not installed: its logs were not read")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        listener = Listener()
        rows = trainer().fit(data(), 2, data(20), batch_size=20, out=tmp_path, callbacks=[TensorBoard(), listener], verbose=False)
        found = EventAccumulator(str(tmp_path / "tensorboard"))
        found.Reload()
        steps = [what for event, what in listener.heard if event == "step"]
        read = [(e.step, e.value) for e in found.Scalars("step/loss")]
        assert read == [(row["step"], np.float32(row["loss"])) for row in steps]
        assert [e.value for e in found.Scalars("validation/loss")] == [np.float32(row["val_loss"]) for row in rows]
        assert [e.value for e in found.Scalars("epoch/accuracy")] == [np.float32(row["accuracy"]) for row in rows]

    @pytest.mark.filterwarnings("ignore")
    def test_mlflow_reads_what_was_written(self, tmp_path, monkeypatch):
        mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed: its logs were not read")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
        rows = trainer().fit(
            data(), 2, data(20), batch_size=20, out=tmp_path / "run", callbacks=[MLflow(every=2, checkpoints=True)], verbose=False
        )
        client = mlflow.tracking.MlflowClient()
        (run,) = client.search_runs([client.get_experiment_by_name("Default").experiment_id])
        read = client.get_metric_history(run.info.run_id, "val_loss")
        assert [(m.step, m.value) for m in sorted(read, key=lambda m: m.step)] == [(row["step"], row["val_loss"]) for row in rows]
        assert [m.step for m in client.get_metric_history(run.info.run_id, "step_loss")] == [2, 4]
        assert run.info.status == "FINISHED" and run.data.params["batch_size"] == "20"
        assert {f.path for f in client.list_artifacts(run.info.run_id)} == {"best.safetensors", "last.safetensors"}

    @pytest.mark.parametrize(("kind", "package"), [(TensorBoard, "tensorboard"), (MLflow, "mlflow")])
    def test_a_missing_package_is_named(self, kind, package, monkeypatch):
        monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
        with pytest.raises(OnnxGradError, match=rf"need the package {package}. Install onnxgrad\[{package}\]"):
            kind()


class Slow(Callback):
    """Holds up each step, as large models do."""

    def on_step(self, trainer, row):
        time.sleep(0.05)


class TestProgress:
    @pytest.fixture(autouse=True)
    def impatient(self, monkeypatch):
        monkeypatch.setattr(progress, "SILENCE", 0.02)

    def test_a_file_gets_plain_lines(self, capsys):
        trainer().fit(data(), 2, batch_size=10, callbacks=[Slow()])
        said = capsys.readouterr().err.splitlines()
        assert any("opening" in line and line.startswith("epoch 1/2: ") for line in said)
        full = [line for line in said if "examples/s" in line]
        assert full and all(part in full[-1] for part in (" of 40 examples", "loss ", "accuracy ", " left"))
        assert "\r" not in "".join(said)

    def test_json_is_one_object_in_each_line(self, capsys):
        trainer().fit(data(), 1, batch_size=10, callbacks=[Slow()], verbose="json")
        captured = capsys.readouterr()
        rows = [json.loads(line) for line in captured.out.splitlines()]
        assert captured.err == "" and {row["event"] for row in rows} == {"progress"}
        assert rows[0]["doing"].startswith("opening") and rows[0]["examples_per_second"] is None
        assert (
            rows[-1]["of"] == 40 and rows[-1]["examples_per_second"] > 0 and rows[-1]["seconds_left"] >= 0 and rows[-1]["loss"] > 0
        )

    def test_what_was_before_is_epoch_0_everywhere(self, tmp_path, capsys):
        told = []

        class Listener(Callback):
            def on_evaluate(self, trainer, row):
                told.append(row)

        t = trainer()
        expected = {f"val_{name}": value for name, value in t.evaluate(data(40, seed=2), batch_size=10).items()}
        history = t.fit(
            data(), 2, data(40, seed=2), batch_size=10, before=True, out=tmp_path, curves=True, callbacks=[Listener(), Report()]
        )
        assert t.before == {"epoch": 0, "step": 0, **expected} == told[0]
        assert [row["epoch"] for row in history] == [1, 2] and t.rows == [t.before, *history]
        stored = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
        assert stored == t.rows and (tmp_path / "history.csv").read_text().splitlines()[1].startswith("0,0,")
        assert json.dumps(t.before["val_loss"])[:6] in (tmp_path / "report.html").read_text()
        resumed = trainer()
        resumed.fit(data(), 3, data(40, seed=2), batch_size=10, before=True, out=tmp_path, resume=True, verbose=False)
        assert resumed.before == t.before and len(told) == 3

    def test_it_is_the_same_run(self):
        rows = [trainer().fit(data(), 2, data(40, seed=2), batch_size=10, before=before, verbose=False) for before in (False, True)]
        assert rows[0] == rows[1]

    def test_before_needs_validation(self):
        with pytest.raises(ArgumentError, match="before needs validation data"):
            trainer().fit(data(), 1, before=True)

    def test_nothing_is_said_where_nothing_was_asked_for(self, capsys):
        trainer().fit(data(), 1, batch_size=10, callbacks=[Slow()], verbose=False)
        assert capsys.readouterr() == ("", "")

    def test_a_bar_goes_on_while_a_session_opens(self, monkeypatch):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        monkeypatch.setattr(sys, "stderr", Terminal())
        with progress.Progress("epoch 1/1", 40, 0, True, "opening 9 operators"):
            time.sleep(0.2)
        said = sys.stderr.getvalue()
        assert said.count("opening 9 operators, 0 s") >= 2

    def test_time_left_counts_the_epochs_that_follow(self, monkeypatch):
        now = iter(np.arange(100.0, 200.0))
        monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
        shown = progress.Progress("epoch 1/3", 40, 0, False, later=80)
        shown.update(10, {"loss": 1.0})
        began = 102.0
        shown.update(10, {"loss": 1.0})
        monkeypatch.setattr(progress.time, "monotonic", lambda: began + 5.0)
        assert shown._speed() == pytest.approx(10 / 5, rel=0.3)
        assert shown._seconds_left() == pytest.approx(100 / shown._speed())


class TestCommand:
    """``onnxgrad train`` in a process of its own."""

    @pytest.fixture
    def arguments(self, tmp_path):
        onnx.save(model(), tmp_path / "m.onnx")
        np.savez(tmp_path / "d.npz", x=data(200)["x"], y=data(200)["target"])
        what = ["--data", tmp_path / "d.npz", "--target", "y", "--loss", "cross_entropy", "--metric", "accuracy", "--epochs", "2"]
        return [sys.executable, "-m", "onnxgrad", "train", *map(str, [tmp_path / "m.onnx", *what, "--out", tmp_path / "run"])]

    @pytest.mark.process
    @pytest.mark.parametrize("columns", [140, 80, 0])
    def test_on_a_terminal_rows_stand_above_one_bar(self, arguments, columns):
        """At 80 columns the values of an epoch were cut off, and the bar had no room."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40 if columns else 0, columns, 0, 0))
        process = subprocess.Popen(
            arguments,
            stdout=theirs,
            stderr=theirs,
            stdin=theirs,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        os.close(theirs)
        said = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # how a pty ends on Linux
                break
            if not part:
                break
            said += part
        assert process.wait() == 0
        os.close(ours)
        drawn = said.decode().replace("\r\n", "\n").split("\r")
        bars = [text for text in drawn if "epoch 2/2: " in text]
        assert bars and all(len(bar) <= (columns or 80) for bar in bars) and all("\n" not in bar for bar in bars)
        rows = [line for text in drawn for line in text.split("\n") if line.startswith(("epoch 1/2  ", "epoch 2/2  "))]
        assert len(rows) == 2 and all(f"  {name} " in row for row in rows for name in ("loss", "accuracy"))

    @pytest.mark.process
    def test_into_a_file_there_are_plain_lines(self, arguments):
        done = subprocess.run(arguments, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        assert done.returncode == 0 and "\r" not in done.stdout + done.stderr
        assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("epoch ")] == ["1/2", "2/2"]

    @pytest.mark.process
    def test_for_a_machine_every_line_is_an_object(self, arguments):
        done = subprocess.run(
            [*arguments, "--json"], capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert done.returncode == 0 and [row["epoch"] for row in rows if row["event"] == "epoch"] == [1, 2]

    def test_logs_are_asked_for_by_name(self, arguments, tmp_path):
        pytest.importorskip("tensorboard", reason="tensorboard is not installed")
        subprocess.run(
            [*arguments, "--log", "tensorboard"],
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
        )
        assert list((tmp_path / "run" / "tensorboard").glob("events.*"))


def test_an_on_end_that_takes_the_trainer_alone_is_called_as_before():
    ended = []

    class Earlier(Callback):
        def on_end(self, trainer):
            ended.append(trainer.step_number)

    trainer = Trainer(small.model(), loss="cross_entropy", seed=1)
    trainer.fit(small.data(), 1, batch_size=20, callbacks=[Earlier()], verbose=False)
    assert ended == [2]
