"""What ``onnxgrad predict`` writes of pictures: their files, classes and probabilities; one picture as well as a folder."""

import csv

import numpy as np
import onnx
import pytest

from tests.cli.command import command
from tests.training.data.test_images import folder, net  # noqa: F401

pytest.importorskip("PIL")


@pytest.fixture
def trained(folder, tmp_path):  # noqa: F811
    onnx.save(net(size="24, 24"), tmp_path / "m.onnx")
    command("train", tmp_path / "m.onnx", "--data", folder, "--loss", "cross_entropy", "--epochs", 1, "--out", tmp_path / "run")
    command("export", tmp_path / "run", "--inference", tmp_path / "tuned.onnx")
    return tmp_path


def table(path):
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.mark.parametrize("model", ["run", "tuned.onnx"])
def test_each_row_names_its_file_class_and_probability(trained, model):
    command("predict", trained / model, "--data", trained / "images", "--out", trained / "said.csv")
    rows = table(trained / "said.csv")
    assert {row["file"] for row in rows} == {str(f.relative_to(trained / "images")) for f in (trained / "images").rglob("*.*")}
    assert all(row["y.class"] in ("red", "blue") and 0.5 <= float(row["y.probability"]) <= 1 for row in rows)
    scores = np.array([[float(row["y.0"]), float(row["y.1"])] for row in rows])
    assert [row["y.class"] for row in rows] == [("blue", "red")[k] for k in scores.argmax(1)]


def test_one_picture_says_what_it_says_in_its_folder(trained):
    command("predict", trained / "run", "--data", trained / "images", "--out", trained / "all.csv")
    one = next(row for row in table(trained / "all.csv") if row["file"] == "red/3.png")
    command("predict", trained / "run", "--data", trained / "images" / "red" / "3.png", "--out", trained / "one.csv")
    (alone,) = table(trained / "one.csv")
    numbers = ["y.probability", "y.0", "y.1"]
    assert [float(alone.pop(name)) for name in numbers] == pytest.approx([float(one.pop(name)) for name in numbers], rel=1e-6)
    assert alone == one | {"example": "0", "file": "3.png"}


def test_one_picture_is_no_training_data(trained):
    said = command(
        *("train", trained / "m.onnx", "--data", trained / "images" / "red" / "3.png", "--loss", "cross_entropy"),
        *("--out", trained / "other"),
        code=1,
    )
    assert "is one picture, which says nothing of 'target'" in said
