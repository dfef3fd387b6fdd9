"""data.yaml and text files of YOLO: folders, parts, names, and what is damaged."""

import shutil

import numpy as np
import pytest

from onnxgrad.errors import DataError
from onnxgrad.training.data.annotated.yolo import read_yolo, read_yolo_folder
from tests.training.data.annotated.sets import NAMES, REFERENCE, SETS

pytest.importorskip("yaml")
FILE = SETS / "yolo" / "data.yaml"


def copied(tmp_path):
    shutil.copytree(SETS / "yolo", tmp_path / "yolo")
    return tmp_path / "yolo"


def test_shares_become_the_pixels_that_were_drawn():
    listing = read_yolo(FILE)
    assert listing.classes == NAMES
    assert listing.answers.counts() == {NAMES.index(name): count for name, count in REFERENCE["yolo"]["counts"].items()}
    for row, path in enumerate(listing.paths):
        size = {0: (64, 48), 1: (48, 64), 2: (60, 60), 3: (80, 40)}[int(path.stem) % 4]
        assert np.allclose(listing.answers.original(row, size), np.reshape(REFERENCE["things"][int(path.stem)], (-1, 5)), atol=1e-4)
    assert any("1 of 6 images have no boxes" in line for line in listing.remarks)


def test_the_part_for_validation():
    assert any("--val" in line for line in read_yolo(FILE).remarks)
    assert [path.stem for path in read_yolo(FILE, "val").paths] == ["003", "007"]
    with pytest.raises(DataError, match=r"data.yaml has no 'test' that names a folder of images; it has \['names', 'path'"):
        read_yolo(FILE, "test")


@pytest.mark.parametrize(
    "text",
    [
        "train: ../train/images\nval: images/val\nnc: 3\nnames: ['bus', 'car', 'tree']\n",  # as Roboflow writes it
        "path: yolo\ntrain: images/train\nnames: {0: bus, 1: car, 2: tree}\n",
        "train: [images/train, images/val]\nnames:\n- bus\n- car\n- tree\n",
        "train: list.txt\nnames: [bus, car, tree]\n",
    ],
)
def test_ways_to_name_folders_and_classes(tmp_path, text):
    folder = copied(tmp_path)
    (folder / "list.txt").write_text("images/train/000.png\n\n./images/train/001.png\n")
    if "../train" in text:
        shutil.move(folder / "images" / "train", folder / "moved")
        shutil.move(folder / "labels" / "train", folder / "texts")
        (folder / "train").mkdir()
        shutil.move(folder / "moved", folder / "train" / "images")
        shutil.move(folder / "texts", folder / "train" / "labels")
    (folder / "data.yaml").write_text(text)
    listing = read_yolo(folder / "data.yaml")
    assert listing.classes == NAMES and len(listing.answers.original(0, (64, 48))) == 3


def test_a_folder_without_a_yaml(tmp_path):
    folder = copied(tmp_path)
    (folder / "data.yaml").unlink()
    listing = read_yolo_folder(folder)
    assert len(listing.paths) == 8 and listing.classes == ["0", "1", "2"]
    (folder / "classes.txt").write_text("bus\ncar\ntree\n")
    assert read_yolo_folder(folder).classes == NAMES


def test_outlines_count_as_the_boxes_around_them(tmp_path):
    folder = copied(tmp_path)
    (folder / "labels" / "train" / "000.txt").write_text("1 0.25 0.5 0.75 0.5 0.5 1.0\n")
    assert read_yolo(folder / "data.yaml").answers.original(0, (64, 48)).tolist() == [[1, 16, 24, 48, 48]]


def test_other_classes_than_the_training_data_have():
    with pytest.raises(DataError, match="the class 'tree' is not a class of the training data: car, bus"):
        read_yolo(FILE, "val", ["car", "bus"])


def test_numbers_are_those_that_the_names_have_in_the_training_data():
    plain, other = read_yolo(FILE, "val"), read_yolo(FILE, "val", ["tree", "car", "bus", "van"])
    assert other.classes == ["tree", "car", "bus", "van"]
    for row in range(len(plain.paths)):
        boxes, moved = (listing.answers.original(row, (64, 48)) for listing in (plain, other))
        assert [other.classes[int(kind)] for kind in moved[:, 0]] == [plain.classes[int(kind)] for kind in boxes[:, 0]]
        np.testing.assert_array_equal(moved[:, 1:], boxes[:, 1:])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("3 0.5 0.5 0.1 0.1", "line 2 has the class 3; the classes are 0 to 2"),
        ("1.5 0.5 0.5 0.1 0.1", "line 2 has the class 1.5"),
        ("-1 0.5 0.5 0.1 0.1", "line 2 has the class -1"),
        ("0 0.5 0.5 0.1", "line 2 has 4 numbers; a box has 5"),
        ("0 0.5 0.5 x 0.1", "line 2 is 'x', which is not a number"),
        ("0 30 20 10 10", "line 2 has a value outside 0 to 1"),
        ("0 nan 0.5 0.1 0.1", "line 2 is 'nan'"),
    ],
)
def test_damaged_lines_are_named(tmp_path, line, said):
    folder = copied(tmp_path)
    (folder / "labels" / "train" / "000.txt").write_text(f"0 0.5 0.5 0.1 0.1\n{line}\n")
    with pytest.raises(DataError, match=said) as caught:
        read_yolo(folder / "data.yaml")
    assert "000.txt" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train: images/train\nnames: [bus\n", "line 3 is not valid YAML"),
        ("a: b: c", "line 1 is not valid YAML"),
        ("[1, 2]", "holds no keys"),
        ("train: images/train\n", "has no 'names'"),
        ("train: images/train\nnames: {0: bus, 2: tree}\n", r"names: the keys are \['0', '2'\]"),
        ("train: images/train\nnames: [[bus]]\n", r"names\[0\] is .*not text"),
        ("train: images/train\nnames: [bus, car, tree]\nnc: 4\n", "nc is 4, but 'names' has 3"),
        ("train: gone\nnames: [bus]\n", "train: there is no 'gone' beside the file"),
        ("train: {a: b}\nnames: [bus]\n", "has no 'train' that names a folder"),
        ("train: &a [*a]\nnames: [bus]\n", "line 1 is not valid YAML: found unconstructable recursive node"),
        ("x: !!python/object/apply:os.system ['true']\n", "is not valid YAML|has no 'names'"),
    ],
)
def test_damaged_yaml_is_named(tmp_path, text, said):
    folder = copied(tmp_path)
    (folder / "data.yaml").write_text(text)
    with pytest.raises(DataError, match=said):
        read_yolo(folder / "data.yaml")
