"""COCO files: what pycocotools reads is what we read, and each damaged field is named."""

import json
import shutil

import pytest

from onnxgrad.errors import DataError
from onnxgrad.training.data.annotated.coco import read_coco
from onnxgrad.training.data.picture_files import size_of
from tests.training.data.annotated.sets import REFERENCE, SETS

FILE = SETS / "coco" / "annotations" / "instances_train.json"


def test_boxes_and_classes_are_those_that_pycocotools_reads():
    listing, expected = read_coco(FILE), REFERENCE["coco"]
    assert listing.classes == expected["classes"] == ["car", "bus", "tree"]  # by their ids 2, 7, 90
    assert listing.answers.counts() == {listing.classes.index(name): count for name, count in expected["counts"].items()}
    for row, path in enumerate(listing.paths):
        found = listing.answers.original(row, size_of(path))
        own = [[listing.classes[int(b[0])], b[1], b[2], b[3] - b[1], b[4] - b[2]] for b in found]
        assert own == expected["boxes"][path.name]
    assert sum(map(sum, listing.answers.ignored)) == expected["crowds"] and "1 boxes of crowds" in listing.remarks[0]
    assert len(listing.answers.left_out(0, (64, 48))) == 1


def test_classes_of_the_training_data_keep_their_numbers():
    listing = read_coco(FILE, ["tree", "car", "bus", "boat"])
    assert listing.classes == ["tree", "car", "bus", "boat"]
    assert [int(b[0]) for b in listing.answers.original(0, (64, 48))] == [2, 2, 2]
    with pytest.raises(DataError, match="the class 'bus' is not a class of the training data"):
        read_coco(FILE, ["tree", "car"])


@pytest.mark.parametrize("place", ["beside", "images beside", "named folder"])
def test_pictures_are_found_where_tools_put_them(tmp_path, place):
    folder = {"beside": "", "images beside": "images", "named folder": "train"}[place]
    (tmp_path / folder).mkdir(exist_ok=True)
    for file in (SETS / "coco" / "images").iterdir():
        shutil.copy(file, tmp_path / folder)
    shutil.copy(FILE, tmp_path / "instances_train.json")
    assert all(path.is_file() for path in read_coco(tmp_path / "instances_train.json").paths)


def changed(tmp_path, change):
    record = json.loads(FILE.read_text())
    change(record)
    folder = tmp_path / "coco"
    shutil.copytree(SETS / "coco", folder)
    path = folder / "annotations" / "instances_train.json"
    path.write_text(json.dumps(record))
    return path


def at(*keys, value=None):
    def change(record):
        for key in keys[:-1]:
            record = record[key]
        record[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (at("annotations", 3, "bbox", value=[1, 2, 3]), r"annotations\[3\].bbox is .*not \[x, y, width, height\]"),
        (at("annotations", 3, "bbox", value=[1, 2, -3, 4]), r"annotations\[3\].bbox ends before it begins: x from 1 to -2"),
        (at("annotations", 3, "bbox", value=[1, 2, "wide", 4]), r"annotations\[3\].bbox is 'wide', which is not a number"),
        (at("annotations", 3, "bbox", value=[1, 2, float("inf"), 4]), r"annotations\[3\].bbox is 'inf'"),
        (at("annotations", 2, "image_id", value=5), r"annotations\[2\].image_id is 5, which no image has"),
        (
            at("annotations", 2, "category_id", value=[1]),
            r"annotations\[2\].category_id is '\[1\]', which is not a number",
        ),
        (at("annotations", 2, "category_id", value=3), r"annotations\[2\].category_id is 3, which no category has"),
        (at("annotations", 2, value=7), r"annotations\[2\] is '7', not an object"),
        (at("images", 1, "file_name", value="gone.png"), r"images\[1\].file_name: there is no file 'gone.png' in "),
        (at("images", 1, "file_name", value=None), r"images\[1\].file_name is 'None', which is not text"),
        (at("images", 1, "id", value=100), r"images\[1\].id is 100, which another image has"),
        (at("categories", 1, "name", value="bus"), r"two categories 'bus'|categories\[1\].id"),
        (at("categories", value=[]), "has no 'categories'"),
        (at("images", value={}), "lists no 'images' and 'annotations'"),
        (at("images", value=[]), r"annotations\[0\].image_id is 100, which no image has"),
    ],
)
def test_damaged_fields_are_named(tmp_path, change, said):
    with pytest.raises(DataError, match=said) as caught:
        read_coco(changed(tmp_path, change))
    assert "instances_train.json" in str(caught.value)


def test_pictures_of_another_size_than_the_boxes_were_drawn_for(tmp_path):
    """Also one that its metadata turns, whose boxes were drawn before it was turned"""
    boxes = read_coco(FILE).answers
    with pytest.raises(DataError, match=r"image 1 has 32 x 24 pixels, but its boxes were drawn for 64 x 48"):
        boxes.original(0, (32, 24))
    with pytest.raises(DataError, match=r"image 1 has 48 x 64 pixels, turned as its metadata says, but its boxes were drawn"):
        boxes.original(0, (48, 64))
    unsaid = read_coco(changed(tmp_path, lambda record: [image.pop("width") for image in record["images"]])).answers
    assert len(unsaid.original(0, (32, 24))) == 3


@pytest.mark.parametrize("content", [b"{", b"[" * 100_000, b"\xff\xfe", b"null", b'{"images": [], "annotations": []}'])
def test_files_that_are_none(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.json"):
        read_coco(tmp_path / "a.json")
