"""A run that begins with the model of another, and folders that are refused before data is read."""

import contextlib
import io
import json
import os

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxgrad.cli.common import print_notes, say
from tests.cli.command import command
from tests.training.small import data, model

pytest.importorskip("pyarrow")


@pytest.fixture
def files(tmp_path):
    onnx.save(model(), tmp_path / "m.onnx")
    columns = data(60)
    names = np.array(["high", "low", "middle"])[columns["target"]]
    rows = [",".join([*map(str, x), name]) for x, name in zip(columns["x"].tolist(), names, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,d,target", *rows]))
    (tmp_path / "turned.csv").write_text("\n".join(["target,d,c,b,a", *(",".join(row.split(",")[::-1]) for row in rows)]))
    return tmp_path


def train(files, *arguments, code=0):
    return command("train", *arguments, "--loss", "cross_entropy", "--no-report", "--explain", code=code)


def loss_before(run):
    return float(json.loads((run / "history.jsonl").read_text().splitlines()[0])["val_loss"])


def test_a_run_goes_on_from_the_best_model_of_another_with_its_record(files):
    train(files, files / "m.onnx", "--data", files / "t.csv", "--val", files / "t.csv", "--epochs", 4, "--out", files / "one")
    said = train(
        files, files / "one", "--data", files / "turned.csv", "--val", files / "turned.csv", "--epochs", 1, "--out", files / "two"
    )
    assert f"the model is the best one of the run {files / 'one'}, of step " in said
    judged = json.loads(command("evaluate", files / "one", "--data", files / "t.csv", "--json"))
    # The columns of the other file are taken by name.
    assert loss_before(files / "two") == pytest.approx(judged["loss"], rel=1e-5)
    # The new run stands alone: the first one may go.
    command("export", files / "one", "--inference", files / "one.onnx")
    for path in (files / "one").iterdir():
        path.unlink()
    (files / "one").rmdir()
    command("export", files / "two", "--inference", files / "two.onnx")
    started = onnxruntime.InferenceSession(files / "two" / "model.onnx", providers=["CPUExecutionProvider"])
    first = onnxruntime.InferenceSession(files / "one.onnx", providers=["CPUExecutionProvider"])
    x = data(8, seed=3)["x"]
    np.testing.assert_allclose(started.run(None, {"x": x})[0], first.run(None, {"x": x})[0], rtol=1e-6)
    command("train", "--resume", files / "two", "--more-epochs", 1)


def test_adapters_of_the_earlier_run_are_in_the_weights(files):
    small = ("--data", files / "t.csv", "--epochs", 2)
    train(files, files / "m.onnx", *small, "--lora", 2, "--out", files / "one")
    train(files, files / "one", *small, "--out", files / "two")
    names = {p.name for p in onnx.load(files / "two" / "model.onnx").graph.initializer}
    assert names == {p.name for p in onnx.load(files / "m.onnx").graph.initializer}


def test_rates_and_previews_of_a_run_leave_no_file(files, tmp_path):
    train(files, files / "m.onnx", "--data", files / "t.csv", "--epochs", 1, "--out", files / "one")
    before = sorted(os.listdir(files / "one"))
    command("train", files / "one", "--data", files / "t.csv", "--loss", "cross_entropy", "--preview", files / "p.html")
    assert sorted(os.listdir(files / "one")) == before and (files / "p.html").is_file()


def test_folders_that_are_no_run_and_the_run_itself(files):
    (files / "empty").mkdir()
    data = ("--data", files / "t.csv", "--epochs", 1)
    assert "is a folder without settings.json, so it is not the folder of a run" in train(
        files, files / "empty", *data, "--out", files / "o", code=2
    )
    train(files, files / "m.onnx", *data, "--out", files / "one")
    assert "holds a run already" in train(files, files / "one", *data, "--out", files / "one", code=1)
    assert "Leave it out" in train(files, files / "one", *data, "--expand", "com.microsoft", "--out", files / "two", code=2)


def test_a_folder_is_refused_before_data_is_read(files):
    """The data is a function that leaves a mark when it is called, and then fails."""
    source = f"def batches():\n    open({str(files / 'touched')!r}, 'w').close()\n    raise RuntimeError('read')\n"
    (files / "slow.py").write_text(source)
    arguments = (files / "m.onnx", "--data", files / "slow.py", "--epochs", 1)
    train(files, files / "m.onnx", "--data", files / "t.csv", "--epochs", 1, "--out", files / "one")
    assert "holds a run already" in train(files, *arguments, "--out", files / "one", code=1)
    (files / "file").write_text("")
    assert "cannot use" in train(files, *arguments, "--out", files / "file", code=1)
    assert "cannot be made in" in train(files, *arguments, "--out", files / "file" / "under", code=1)
    assert not (files / "touched").exists()
    train(files, *arguments, "--out", files / "new", code=1)
    assert (files / "touched").exists()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_lines_on_a_terminal_are_broken_between_words(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    screen = Terminal()
    path = "/a/path/without/spaces/" + "x" * 90
    with contextlib.redirect_stdout(screen):
        print_notes([f"word-{number} " * 30 for number in range(2)], everything=True)
        say(f"the run is in {path}")
    lines = screen.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines if path not in line) and any(line.strip() == path for line in lines)
    assert (
        screen.getvalue().split()
        == [word for n in range(2) for word in ("note:", *[f"word-{n}"] * 30)] + f"the run is in {path}".split()
    )
    plain = io.StringIO()
    with contextlib.redirect_stdout(plain):
        say("word " * 40)
    assert plain.getvalue().count("\n") == 1  # as a file or another program reads it
