"""Training, judging and asking by the command, from the files that people have."""

import csv
import json

import numpy as np
import onnx
import onnx.parser
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
            "--explain",
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
        exponentials = np.exp(scores - scores.max(1, keepdims=True))
        expected = (exponentials / exponentials.sum(1, keepdims=True)).max(1)
        np.testing.assert_allclose([float(row["scores.probability"]) for row in rows], expected, rtol=1e-5)

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
        assert "suggested learning rate: " in said and not (files / "run").exists()

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (["--lr", "-1"], "the learning rate is a number of at least 0, not -1.0"),
            (["--val", "2"], "--val takes a path, or a share of the data between 0 and 1, not 2"),
            (["--flip"], "--flip is for images"),
            (["--mosaic", "0.5"], "--mosaic is for images"),
            (["--epochs", "-2"], "epochs is at least 0, not -2"),
            (["--batch-size", "0"], "batch_size is at least 1"),
            (["--class-weights", "heavy"], "--class-weights takes balanced, or a number for each class"),
            (["--monitor", "val_f1"], "nothing named 'val_f1' to monitor"),
            (["--metric", "f7"], "no metric 'f7'"),
            (["--output", "scores.max(0)"], "only slices and .argmax"),
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


class TestInfo:
    def test_says_which_losses_fit_and_what_is_frozen(self, tmp_path, capsys):
        found = model()
        next(v for v in found.graph.initializer if v.name == "body.mean").CopyFrom(
            onnx.numpy_helper.from_array(np.ones(8, "f4"), "body.mean")
        )
        onnx.save(found, tmp_path / "m.onnx")
        said = run(capsys, "info", tmp_path / "m.onnx")
        assert "output  scores: float32[batch, 3]; losses that fit: cross_entropy, bce_with_logits, mse" in said
        assert "training keeps the file's BatchNormalization statistics" in said

    @pytest.mark.parametrize(
        ("body", "losses"),
        [
            ("y = Sigmoid(x)", ["bce_with_logits", "focal"]),
            ("y = Softmax(x)", ["cross_entropy", "kl"]),
            ("y = Cast<to = 7>(x)", []),
        ],
    )
    def test_losses_follow_from_what_made_the_output(self, body, losses, tmp_path, capsys):
        kind = "int64" if "Cast" in body else "float"
        text = f'<ir_version: 8, opset_import: ["": 17]> f (float[N, 4] x) => ({kind}[N, 4] y) {{ {body} }}'
        onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
        assert json.loads(run(capsys, "info", tmp_path / "m.onnx", "--json"))["outputs"][0]["losses"] == losses

    def test_merged_weights_are_one_line_with_a_count(self, tmp_path, capsys):
        body = " ".join(f"h{i} = MatMul({'x' if i == 0 else f'g{i - 1}'}, w{i}) g{i} = MatMul(h{i}, w{i})" for i in range(5))
        weights = ", ".join(f"float[2, 2] w{i} = {{1, 2, 3, {i}}}" for i in range(5))
        text = f'<ir_version: 8, opset_import: ["": 17]> f (float[N, 2] x) => (float[N, 2] y) <{weights}> {{ {body} y = Relu(g4) }}'
        onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
        said = run(capsys, "info", tmp_path / "m.onnx")
        assert "note: 5 weights are read by several operators: w0 (2), w1 (2), w2 (2) and 2 more. If equal weights" in said
        assert said.count("several operators") == 1


class TestSeveral:
    """Several inputs, several outputs, each with a loss."""

    pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

    def test_two_inputs_and_two_outputs_from_a_table(self, tmp_path, capsys):
        pytest.importorskip("pyarrow")
        rng = np.random.default_rng(0)
        text = """<ir_version: 8, opset_import: ["": 17]> f (float[N, 2] size, float[N, 1] age) => (float[N, 3] kind, float[N, 1] price)
            <float[3, 3] u = {1, 0, 0, 0, 1, 0, 0, 0, 1}, float[3, 1] w = {0, 0, 0}>
            { both = Concat<axis = 1>(size, age) kind = MatMul(both, u) price = MatMul(both, w) }"""
        onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
        x = rng.normal(0, 1, (90, 3))
        rows = [f"{a:.4f},{b:.4f},{c:.4f},{LABELS[int(a + b > 0) + int(c > 1)]},{a - 2 * c:.4f}" for a, b, c in x]
        (tmp_path / "t.csv").write_text("\n".join(["size.0,size.1,age,class,cost", *rows]))
        what = ["--data", tmp_path / "t.csv", "--val", "0.2", "--lr", "0.05", "--epochs", "12", "--out", tmp_path / "run"]
        terms = ["--term", "cross_entropy", "kind", "class", "1", "--term", "mse", "price", "cost", "0.5"]
        said = run(capsys, "train", tmp_path / "m.onnx", *what, *terms, "--metric", "accuracy", "--json")
        events = [json.loads(line) for line in said.splitlines()]
        rows = [event for event in events if event.get("event") == "epoch"]
        assert rows[-1]["val_loss"] < 0.5 * rows[0]["val_loss"]
        run(capsys, "predict", tmp_path / "run", "--data", tmp_path / "t.csv", "--out", tmp_path / "said.csv")
        header = (tmp_path / "said.csv").read_text().splitlines()[0]
        assert header == "example,kind.class,kind.probability,kind.0,kind.1,kind.2,price"
