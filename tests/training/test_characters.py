"""Text as targets of ctc, beside pictures and in tables."""

import json

import numpy as np
import onnx
import onnx.parser
import pytest

import onnxgrad as og
from onnxgrad.cli.main import main
from onnxgrad.errors import DataError
from onnxgrad.training import Table, Trainer
from onnxgrad.training.data import Images

LETTERS = "a\nb\nc"


def reader(listed=LETTERS, classes=4):
    """Columns of a picture of 4 x 8 as steps, classes from their four grey values."""
    weight = " ".join(["0.1,"] * (4 * classes))[:-1]
    text = (
        '<ir_version: 8, opset_import: ["": 17]> m (float[N, 1, 4, 8] x) => (float[N, 8, K] y)'
        f" <float[4, {classes}] W = {{{weight}}}, int64[1] a = {{1}}>"
        "{ s = Squeeze(x, a)  t = Transpose<perm = [0, 2, 1]>(s)  z = MatMul(t, W)  y = Softmax<axis = -1>(z) }"
    ).replace("K]", f"{classes}]")
    model = onnx.parser.parse_model(text)
    if listed is not None:
        onnx.helper.set_model_props(model, {"character": listed})
    return model


@pytest.fixture
def lines(tmp_path):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for i in range(3):
        image.fromarray(rng.integers(0, 255, (4, 8), np.uint8)).save(tmp_path / f"{i}.png")
    (tmp_path / "lines.csv").write_text("path,text\n0.png,abc\n1.png,b\n2.png,ca\n")
    return tmp_path


def test_words_beside_pictures_are_spelled(lines):
    trainer = Trainer(reader(), loss="ctc", metrics=["cer"])
    source, _ = trainer.open(Images(lines, mean=[0], std=[1]))
    np.testing.assert_array_equal(source.take(np.arange(3))["target"], [[1, 2, 3], [2, -1, -1], [3, 1, -1]])
    assert "text of 'target' is spelled in the 3 characters that the model's file lists." in trainer.remarks
    rows = trainer.fit(source, 1, batch_size=3, verbose=False)
    assert np.isfinite(rows[0]["loss"])


def test_digits_are_spelled_too(lines):
    (lines / "lines.csv").write_text("path,text\n0.png,12\n1.png,1\n2.png,21\n")
    source, _ = Trainer(reader("0\n1\n2"), loss="ctc").open(Images(lines, mean=[0], std=[1]))
    np.testing.assert_array_equal(source.take(np.arange(3))["target"], [[2, 3], [2, -1], [3, 2]])


def test_the_space_that_a_list_leaves_out_is_the_last_class(lines):
    (lines / "lines.csv").write_text("path,text\n0.png,a b\n1.png,a\n2.png,c\n")
    source, _ = Trainer(reader(classes=5), loss="ctc").open(Images(lines, mean=[0], std=[1]))
    assert source.take(np.arange(1))["target"].tolist() == [[1, 4, 2]]


def test_a_model_that_lists_none_says_what_to_give(lines, tmp_path, capsys):
    with pytest.raises(DataError, match=r"does not list its characters. .*--characters FILE"):
        Trainer(reader(None), loss="ctc").open(Images(lines, mean=[0], std=[1]))
    onnx.save(reader(None), tmp_path / "m.onnx")
    (tmp_path / "letters.txt").write_text(LETTERS + "\n")
    given = ["--image-mean", "0", "--image-std", "1", "--loss", "ctc", "--metric", "cer", "--epochs", "1", "--batch-size", "3"]
    given += ["--characters", str(tmp_path / "letters.txt")]
    found = main(["train", str(tmp_path / "m.onnx"), "--data", str(lines), *given, "--out", str(tmp_path / "run"), "--no-report"])
    assert found == 0, capsys.readouterr().err
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run"), "--data", str(lines), "--metric", "cer", "--json"]) == 0
    said = capsys.readouterr().out
    assert np.isfinite(json.loads(said[said.index("{") :])["cer"])
    assert main(["export", str(tmp_path / "run"), "--inference", str(tmp_path / "out.onnx")]) == 0
    assert og.from_onnx(tmp_path / "out.onnx").metadata["character"].split() == ["a", "b", "c"]


def test_a_character_without_a_class_is_named_with_its_row(lines):
    (lines / "lines.csv").write_text("path,text\n0.png,abc\n1.png,bx\n2.png,ca\n")
    with pytest.raises(DataError, match=r"lines.csv, row 2, column 'target': the model has no class for 'x', in 'bx'"):
        Trainer(reader(), loss="ctc").open(Images(lines, mean=[0], std=[1]))


def test_text_in_a_table_is_spelled_and_not_streamed(tmp_path):
    rng = np.random.default_rng(0)
    rows = [{"x": rng.normal(size=(1, 4, 8)).tolist(), "target": text} for text in ("ab", "c")]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    trainer = Trainer(reader(), loss="ctc")
    source, _ = trainer.open(Table(tmp_path / "t.jsonl"))
    assert source.take(np.arange(2))["target"].tolist() == [[1, 2], [3, -1]]
    with pytest.raises(DataError, match=r"is read at once\. Leave out buffer"):
        trainer.open(Table(tmp_path / "t.jsonl", stream=True))
