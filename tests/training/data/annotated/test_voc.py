"""Pascal VOC: what torchvision reads is what we read; entities are refused, and damaged elements are named."""

import shutil

import numpy as np
import pytest

from onnxgrad.errors import DataError
from onnxgrad.training.data.annotated.voc import parse_xml, read_voc
from tests.training.data.annotated.sets import NAMES, REFERENCE, SETS

FOLDER = SETS / "voc"


def copied(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "voc")
    return tmp_path / "voc"


def test_objects_are_those_that_torchvision_reads():
    listing = read_voc(FOLDER)
    assert listing.classes == NAMES and [path.stem for path in listing.paths] == list(REFERENCE["voc"]["boxes"])
    for row, objects in enumerate(REFERENCE["voc"]["boxes"].values()):
        expected = np.array([[NAMES.index(n), x1 - 1, y1 - 1, x2, y2] for n, x1, y1, x2, y2, _ in objects]).reshape(-1, 5)
        assert np.array_equal(listing.answers.rows[row], expected)
        assert listing.answers.ignored[row].tolist() == [hard == "1" for *_, hard in objects]
    assert any("difficult" in line for line in listing.remarks) and any("--val" in line for line in listing.remarks)


def test_parts_are_those_of_the_lists(tmp_path):
    assert [path.stem for path in read_voc(FOLDER, "val").paths] == ["2012_000003", "2012_000007"]
    with pytest.raises(DataError, match=r"has no test\.txt"):
        read_voc(FOLDER, "test")
    folder = copied(tmp_path)
    shutil.rmtree(folder / "ImageSets")
    assert len(read_voc(folder).paths) == len(read_voc(folder, "val").paths) == 8


def test_files_beside_their_pictures(tmp_path):
    for file in (*(FOLDER / "Annotations").iterdir(), *(FOLDER / "JPEGImages").iterdir()):
        shutil.copy(file, tmp_path)
    assert len(read_voc(tmp_path).paths) == 8


def test_classes_of_the_training_data_keep_their_numbers():
    listing = read_voc(FOLDER, "val", ["tree", "bus", "car"])
    assert listing.classes == ["tree", "bus", "car"] and set(listing.answers.counts()) <= {0, 1, 2}
    with pytest.raises(DataError, match="not a class of the training data"):
        read_voc(FOLDER, "val", ["tree"])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("<name>bus</name>", "<name> </name>", "object 1 has no <name>"),
        ("<xmin>28</xmin>", "", "object 1, xmin is '', which is not a number"),
        ("<xmin>28</xmin>", "<xmin>60</xmin>", "object 1, bndbox ends before it begins"),
        ("<xmax>44</xmax>", "<xmax>wide</xmax>", "object 1, xmax is 'wide'"),
        ("<bndbox>", "<box>", "line [0-9]+ is not valid XML: mismatched tag"),
        ("2012_000000.jpg", "2012_000009.jpg", None),
        ("<annotation>", '<!DOCTYPE a [<!ENTITY e "x">]><annotation>&e;', "line 1: declarations .DOCTYPE. are not read"),
        ("<annotation>", "<a>" * 60, "line 1: elements lie more than 50 deep"),
    ],
)
def test_damaged_files_are_named(tmp_path, old, new, said):
    folder = copied(tmp_path)
    file = folder / "Annotations" / "2012_000000.xml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    if said is None:  # the picture of the file's own name is there
        assert read_voc(folder).paths[0].stem == "2012_000000"
        return
    with pytest.raises(DataError, match=said) as caught:
        read_voc(folder)
    assert "2012_000000.xml" in str(caught.value)


def test_pictures_of_another_size_than_the_boxes_were_drawn_for():
    with pytest.raises(DataError, match="but its boxes were drawn for 64 x 48"):
        read_voc(FOLDER).answers.original(0, (32, 24))


def test_a_missing_picture_and_a_listed_file_that_is_gone(tmp_path):
    folder = copied(tmp_path)
    (folder / "JPEGImages" / "2012_000001.jpg").unlink()
    with pytest.raises(DataError, match=r"2012_000001.xml, filename: there is no file '2012_000001.jpg'"):
        read_voc(folder)
    (folder / "Annotations" / "2012_000001.xml").unlink()
    with pytest.raises(DataError, match=r"train.txt, line 2: there is no file '2012_000001.xml'"):
        read_voc(folder)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b'<?xml version="1.0" encoding="utf-7x"?><a/>', b"<a>\x00</a>"])
def test_files_that_are_no_xml(tmp_path, content):
    (tmp_path / "a.xml").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.xml"):
        parse_xml(tmp_path / "a.xml")


def test_folders_without_objects(tmp_path):
    (tmp_path / "Annotations").mkdir()
    with pytest.raises(DataError, match=r"holds no \.xml files"):
        read_voc(tmp_path)
