"""What ``onnxgrad predict`` writes of pictures: their files, classes and probabilities; one picture as well as a folder."""

import csv
import json

import numpy as np
import onnx
import pytest

from tests.cli.command import command
from tests.training.data.test_images import folder, net  # noqa: F401

Image = pytest.importorskip("PIL.Image")


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
    assert "is one image, without 'target'" in said


def test_a_file_of_json_holds_the_scores_of_each_class_by_name(trained):
    command("predict", trained / "run", "--data", trained / "images", "--out", trained / "said.csv")
    command("predict", trained / "run", "--data", trained / "images", "--out", trained / "said.json")
    rows, entries = table(trained / "said.csv"), json.loads((trained / "said.json").read_text())
    assert [entry["file"] for entry in entries] == [row["file"] for row in rows]
    for entry, row in zip(entries, rows, strict=True):
        assert entry["y"]["class"] == row["y.class"]
        assert entry["y"]["probability"] == pytest.approx(float(row["y.probability"]))
        assert entry["y"]["scores"] == pytest.approx({"blue": float(row["y.0"]), "red": float(row["y.1"])})


def test_classes_are_written_under_the_pictures(trained):
    said = command("predict", trained / "run", "--data", trained / "images", "--draw", trained / "drawn")
    assert f"to {trained / 'drawn'}: y [" in said
    files = sorted(file.relative_to(trained / "images") for file in (trained / "images").rglob("*.*"))
    drawn = sorted(file.relative_to(trained / "drawn") for file in (trained / "drawn").rglob("*.*"))
    assert drawn == [file.with_suffix(".png") for file in files]
    for file, picture in zip(files, drawn, strict=True):
        with Image.open(trained / "images" / file) as before, Image.open(trained / "drawn" / picture) as after:
            factor = 480 / max(before.size)
            assert after.width == round(before.width * factor) and after.height > round(before.height * factor) + 15
            strip = np.asarray(after.crop((0, round(before.height * factor), after.width, after.height)).convert("L"))
            assert strip.min() < 60 and strip.max() == 255  # dark words on a light ground


def test_only_pictures_are_drawn_and_none_is_written_over(trained, tmp_path):
    arguments = ("predict", trained / "run", "--data", trained / "images")
    before = {file: file.read_bytes() for file in (trained / "images").rglob("*.*")}
    assert "is an image of the data" in command(*arguments, "--draw", trained / "images", code=1)
    assert {file: file.read_bytes() for file in (trained / "images").rglob("*.*")} == before
    assert "--draw is a folder for images" in command(*arguments, "--draw", trained / "m.onnx", code=2)
    assert "predict needs --out FILE, --draw FOLDER or both" in command(*arguments, code=2)
    assert "--least is a probability" in command(*arguments, "--draw", tmp_path / "d", "--least", "30", code=2)
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 3, 24, 24), np.float32))
    said = command("predict", trained / "run", "--data", tmp_path / "x.npz", "--draw", tmp_path / "d", code=2)
    assert "--draw is for images, and the data has none" in said and not (tmp_path / "d").exists()


def test_outputs_get_the_class_names_of_their_own_target(tmp_path):
    """Two outputs with three classes each, of which the second had the names of the first."""
    pytest.importorskip("pyarrow")
    text = """<ir_version: 10, opset_import: ["": 21]>
        g (float[N, 2] x) => (float[N, 3] animal, float[N, 3] colour)
        <float[2, 3] u = {1, 0, 0, 0, 1, 0}, float[2, 3] v = {0, 1, 0, 1, 0, 0}>
        { animal = MatMul(x, u) colour = MatMul(x, v) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    rows = [f"{a},{b},{('cat', 'dog', 'eel')[a]},{('blue', 'green', 'red')[b]}" for a in range(3) for b in range(3)]
    (tmp_path / "t.csv").write_text("\n".join(["x.0,x.1,kind,paint", *rows]))
    terms = ("--term", "cross_entropy", "animal", "kind", "1", "--term", "cross_entropy", "colour", "paint", "1")
    command("train", tmp_path / "m.onnx", "--data", tmp_path / "t.csv", *terms, "--epochs", 1, "--out", tmp_path / "run")
    command("predict", tmp_path / "run", "--data", tmp_path / "t.csv", "--out", tmp_path / "said.csv")
    said = table(tmp_path / "said.csv")
    assert {row["animal.class"] for row in said} <= {"cat", "dog", "eel"}
    assert {row["colour.class"] for row in said} <= {"blue", "green", "red"}
    # The file alone does not say which is whose: numbers then, rather than wrong names.
    command("export", tmp_path / "run", "--inference", tmp_path / "tuned.onnx")
    command("predict", tmp_path / "tuned.onnx", "--data", tmp_path / "t.csv", "--out", tmp_path / "said.csv")
    assert not any(name.endswith(".class") for name in table(tmp_path / "said.csv")[0])


def test_broken_pictures_are_left_out_listed_and_counted(trained, tmp_path):
    broken = sorted((trained / "images").rglob("*.jpg"))[:2]
    broken[0].write_bytes(broken[0].read_bytes()[:200])
    broken[1].write_text("nothing")
    data, train = ("--data", trained / "images"), ("train", trained / "m.onnx", "--loss", "cross_entropy", "--epochs", 1)
    assert "cannot read the image" in command(*train, *data, "--out", tmp_path / "r", code=1)
    said = command(*train, *data, "--skip-broken", "--val", "0.25", "--out", tmp_path / "sound")
    assert f"left out 2 examples that cannot be read; listed in {tmp_path / 'sound' / 'skipped.csv'}" in said
    listed = table(tmp_path / "sound" / "skipped.csv")
    assert [row["example"] for row in listed] == [str(file) for file in broken]
    assert all(row["reason"].startswith("cannot read the image") for row in listed)
    command("train", "--resume", tmp_path / "sound", "--more-epochs", 1)
    for ask in (("evaluate", tmp_path / "sound"), ("predict", tmp_path / "sound", "--out", tmp_path / "a.csv")):
        assert "cannot read the image" in command(*ask, *data, code=1)
        said = command(*ask, *data, "--skip-broken", "--skipped", tmp_path / "list.csv")
        assert f"left out 2 examples that cannot be read; listed in {tmp_path / 'list.csv'}" in said
        assert table(tmp_path / "list.csv") == listed
        command(*ask, *data, "--skip-broken", "--json")
        assert table(tmp_path / "sound" / f"skipped_{ask[0]}.csv") == listed
    assert len(table(tmp_path / "a.csv")) == 14
    assert "Add --skip-broken" in command("evaluate", tmp_path / "sound", *data, "--skipped", tmp_path / "x.csv", code=2)
