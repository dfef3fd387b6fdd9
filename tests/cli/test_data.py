"""Training, judging and asking by the command, from the files that people have."""

import csv
import json

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxgrad.cli.main import main
from tests.training import quantised
from tests.training.small import data, model

LABELS = np.array(["low", "middle", "high"])


@pytest.fixture
def files(tmp_path):
    """A model, tables of training and new data, the latter without labels."""
    onnx.save(model(), tmp_path / "m.onnx")
    for name, count, labelled in (("train", 120, True), ("new", 20, False)):
        found = data(count, seed=len(name))
        head = ["a", "b", "c", "d", *(["class"] * labelled)]
        labels = LABELS[found["target"]]
        rows = [[*map(str, x), *([y] * labelled)] for x, y in zip(found["x"], labels, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(",".join(row) for row in [head, *rows]))
    return tmp_path


def run(capsys, *arguments, code=0):
    """What a command prints; for another code than 0, its error."""
    found = main([*map(str, arguments)])
    said = capsys.readouterr()
    assert found == code, said.err
    return said.err if code else said.out


def train(capsys, files, *more, **options):
    what = ["--data", files / "train.csv", "--loss", "cross_entropy", "--lr", "0.05", "--val", "0.2", "--epochs", "3"]
    return run(capsys, "train", files / "m.onnx", *what, *more, **options)


class TestTables:
    pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

    def test_trained_judged_and_asked(self, files, capsys):
        pytest.importorskip("pyarrow")
        said = train(
            capsys,
            files,
            "--metric",
            "accuracy",
            "f1",
            "--monitor",
            "val_f1",
            "--class-weights",
            "balanced",
            "--out",
            files / "run",
        )
        assert "note: classes of 'target': high = 0, low = 1, middle = 2." in said
        assert "note: the input 'x' is made of 4 columns of train.csv, in this order: a, b, c, d." in said
        assert "note: classes are weighed by n / (classes * count)" in said and "val_f1" in said
        found = json.loads(run(capsys, "evaluate", files / "run", "--data", files / "train.csv", "--metric", "recall", "--json"))
        assert set(found) == {"loss", "recall"} and 0 < found["recall"] <= 1
        said = run(capsys, "predict", files / "run", "--data", files / "new.csv", "--out", files / "said.csv")
        assert "wrote 20 examples" in said and "scores [20, 3]" in said
        rows = list(csv.DictReader((files / "said.csv").open()))
        run(capsys, "predict", files / "run", "--data", files / "new.csv", "--out", files / "said.npz")
        scores = np.load(files / "said.npz")["scores"]
        assert [row["scores.class"] for row in rows] == [["high", "low", "middle"][i] for i in scores.argmax(1)]
        np.testing.assert_allclose([float(row["scores.1"]) for row in rows], scores[:, 1], rtol=1e-6)

    def test_a_file_is_judged_and_asked_without_a_run(self, files, capsys):
        pytest.importorskip("pyarrow")
        run(capsys, "predict", files / "m.onnx", "--data", files / "train.csv", "--out", files / "said.npz")
        session = onnxruntime.InferenceSession(files / "m.onnx", providers=["CPUExecutionProvider"])
        (wanted,) = session.run(None, {"x": data(120, seed=5)["x"]})
        np.testing.assert_allclose(np.load(files / "said.npz")["scores"], wanted, rtol=1e-4, atol=1e-5)
        np.savez(files / "test.npz", x=data(30)["x"], y=data(30)["target"])
        said = run(capsys, "evaluate", files / "m.onnx", "--data", files / "test.npz", "--loss", "cross_entropy", "--target", "y")
        assert said.startswith("loss ")

    def test_steps_evaluations_groups_and_a_teacher(self, files, capsys):
        pytest.importorskip("pyarrow")
        more = [
            "--max-steps",
            "5",
            "--evaluate-every",
            "2",
            "--rate",
            "head.*",
            "3",
            "--clip-value",
            "0.1",
            "--schedule",
            "one-cycle",
        ]
        train(capsys, files, *more, "--teacher", files / "m.onnx", "--temperature", "3", "--out", files / "run")
        rows = [json.loads(line) for line in (files / "run" / "evaluations.jsonl").read_text().splitlines()]
        assert [row["step"] for row in rows] == [2, 4, 5]
        run(capsys, "export", files / "run", "--checkpoint", "last", "--inference", files / "out.onnx")
        assert len(onnx.load(files / "out.onnx").graph.output) == 1

    def test_a_rate_is_suggested_and_nothing_trained(self, files, capsys):
        pytest.importorskip("pyarrow")
        said = run(
            capsys,
            "train",
            files / "m.onnx",
            "--data",
            files / "train.csv",
            "--loss",
            "cross_entropy",
            "--find-lr",
            "--batch-size",
            "8",
        )
        assert "the loss falls fastest at a learning rate of" in said and not (files / "run").exists()

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (["--lr", "-1"], "the learning rate is a number of at least 0, not -1.0"),
            (["--val", "2"], "--val takes a path, or a share of the data between 0 and 1, not 2"),
            (["--flip"], "--flip is for images"),
            (["--epochs", "-2"], "epochs is at least 0, not -2"),
            (["--batch-size", "0"], "batch_size is at least 1"),
            (["--class-weights", "heavy"], "--class-weights takes balanced, or a number for each class"),
            (["--monitor", "val_f1"], "nothing named 'val_f1' to monitor"),
            (["--metric", "f7"], "no metric 'f7'"),
            (["--output", "scores.mean(0)"], "only slices and .argmax"),
            (["--patience", "0"], "patience is at least 1, not 0"),
            (["--keep", "-1"], "keep is at least 0, not -1"),
            (["--checkpoint-every", "0"], "checkpoint_every is at least 1, not 0"),
            (["--qat", "int8", "--lora", "4"], "--qat and --lora do not go together"),
        ],
    )
    def test_bad_arguments_are_one_line_and_leave_no_folder(self, files, capsys, more, said):
        pytest.importorskip("pyarrow")
        error = train(capsys, files, *more, "--out", files / "run", code=2)
        assert said in error and error.splitlines()[-1].startswith("error: ") and not (files / "run" / "settings.json").exists()

    def test_a_folder_for_a_file(self, files, capsys):
        for name in ("info", "check"):
            error = run(capsys, name, files, code=1)
            assert "is a folder" in error and len(error.splitlines()) == 1
        error = train(capsys, files, "--out", files / "m.onnx", code=1)
        assert "m.onnx" in error and error.splitlines()[-1].startswith("error: ")


class TestQuantised:
    pytestmark = pytest.mark.filterwarnings("ignore")

    def test_a_float_file_is_quantised_trained_and_exported_as_integers(self, tmp_path, capsys):
        onnx.save(quantised.convolutional(), tmp_path / "m.onnx")
        rng = np.random.default_rng(0)
        x = rng.normal(0, 1, (96, 2, 6, 6)).astype("f4")
        target = (x[:, 0].mean((1, 2)) > 0).astype("i8") + (x[:, 1].mean((1, 2)) > 0.1)
        np.savez(tmp_path / "d.npz", x=x, target=target)
        what = [
            "--data",
            tmp_path / "d.npz",
            "--val",
            "0.25",
            "--loss",
            "cross_entropy",
            "--metric",
            "accuracy",
            "--lr",
            "0.01",
            "--epochs",
            "4",
        ]
        said = run(capsys, "train", tmp_path / "m.onnx", *what, "--qat", "int8", "--out", tmp_path / "run")
        rows = json.loads((tmp_path / "run" / "quantization.json").read_text())
        assert list(rows) == ["float", "plain int8", "after training"] and all("accuracy" in row for row in rows.values())
        assert all(label in said for label in rows) and rows["after training"]["loss"] < rows["plain int8"]["loss"]
        run(capsys, "export", tmp_path / "run", "--inference", tmp_path / "q.onnx")
        exported = onnx.load(tmp_path / "q.onnx")
        onnx.checker.check_model(exported)
        kinds = {t.name: t.data_type for t in exported.graph.initializer}
        weights = [node.input[0] for node in exported.graph.node if node.op_type == "DequantizeLinear" and node.input[0] in kinds]
        assert sum(kinds[name] == onnx.TensorProto.INT8 for name in weights) >= 3
        session = onnxruntime.InferenceSession(tmp_path / "q.onnx", providers=["CPUExecutionProvider"])
        assert np.isfinite(session.run(None, {"x": x})[0]).all()
