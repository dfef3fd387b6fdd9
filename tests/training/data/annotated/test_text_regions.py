"""Regions of text: both forms of ICDAR, and Label.txt."""

import json
import shutil

import numpy as np
import pytest

from onnxgrad.errors import DataError
from onnxgrad.training.data.annotated.text_regions import is_label_file, read_icdar, read_label_file
from tests.training.data.annotated.sets import REFERENCE, SETS

REGIONS = SETS / "regions"


def test_both_formats_hold_the_same_regions():
    icdar, paddle = read_icdar(REGIONS / "icdar"), read_label_file(REGIONS / "paddle" / "Label.txt")
    for row, count in enumerate(REFERENCE["regions"]["regions"]):
        assert len(icdar.answers.rows[row]) == count
        assert np.array_equal(icdar.answers.rows[row], paddle.answers.rows[row])
        assert icdar.answers.ignored[row].tolist() == paddle.answers.ignored[row].tolist()
    x1, y1, x2, y2 = REFERENCE["things"][0][0][1:]
    assert icdar.answers.rows[0][0].tolist() == [[x1, y1], [x2, y1 + 1], [x2, y2], [x1, y2 - 1]]
    assert icdar.classes == ["text"] and icdar.remarks == ["1 regions of icdar are unreadable and are ignored."]


@pytest.mark.parametrize(
    ("line", "corners", "unreadable"),
    [
        ("1,2,9,2,9,8,1,8,wörd, with a comma", [[1, 2], [9, 2], [9, 8], [1, 8]], False),
        ("1,2,9,2,9,8,1,8,###", [[1, 2], [9, 2], [9, 8], [1, 8]], True),
        ('1, 2, 9, 8, "word"', [[1, 2], [9, 2], [9, 8], [1, 8]], False),
        ('1 2 9 8 "two words"', [[1, 2], [9, 2], [9, 8], [1, 8]], False),
        ("1,2,9,8,1984", [[1, 2], [9, 2], [9, 8], [1, 8]], False),  # the text is a number
    ],
)
def test_forms_of_lines(tmp_path, line, corners, unreadable):
    shutil.copy(REGIONS / "icdar" / "img_0.jpg", tmp_path)
    (tmp_path / "gt_img_0.txt").write_text(line, encoding="utf-8-sig")
    answers = read_icdar(tmp_path).answers
    assert answers.rows[0][0].tolist() == corners and answers.ignored[0].tolist() == [unreadable]


def test_files_in_two_folders(tmp_path):
    for kind, pattern in (("images", "*.jpg"), ("gt", "*.txt")):
        (tmp_path / kind).mkdir()
        for file in (REGIONS / "icdar").glob(pattern):
            shutil.copy(file, tmp_path / kind)
    assert len(read_icdar(tmp_path).paths) == 3


def test_label_files_are_told_from_text(tmp_path):
    assert is_label_file(REGIONS / "paddle" / "Label.txt")
    for text in ("some words\tand more\n", "", "a.jpg\t{}"):
        (tmp_path / "a.txt").write_text(text)
        assert not is_label_file(tmp_path / "a.txt")
    assert not is_label_file(tmp_path / "gone.txt")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1,2,3", "gt_img_0.txt, line 2 begins with 3 numbers"),
        ("word", "line 2 begins with 0 numbers"),
        ("9,2,1,8,word", "line 2 ends before it begins"),
        ("99999999999,2,1,8,word", "line 2 is '99999999999', which is not a number of pixels"),
    ],
)
def test_damaged_lines_are_named(tmp_path, line, said):
    shutil.copy(REGIONS / "icdar" / "img_0.jpg", tmp_path)
    (tmp_path / "gt_img_0.txt").write_text(f"1,2,9,8,word\n{line}\n")
    with pytest.raises(DataError, match=said):
        read_icdar(tmp_path)
    (tmp_path / "gt_img_9.txt").write_text("1,2,9,8,word\n")
    (tmp_path / "gt_img_0.txt").unlink()
    with pytest.raises(DataError, match="has no image 'img_9'"):
        read_icdar(tmp_path)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([{"transcription": "a"}], r"line 2, region 1, points is 'None', not three corners"),
        ([{"points": [[1, 2], [3, 4]]}], r"region 1, points is .*not three corners"),
        ([{"points": [[1, 2], [3, "x"], [5, 6]]}], r"region 1, points is 'x', which is not a number"),
        ([7], r"region 1 is '7', not an object"),
        ({}, "line 2 is not a path, a tab and a list"),
    ],
)
def test_damaged_entries_are_named(tmp_path, entries, said):
    shutil.copy(REGIONS / "icdar" / "img_0.jpg", tmp_path)
    line = f"img_0.jpg\t{json.dumps([{'points': [[1, 2], [9, 2], [9, 8]], 'transcription': 'a'}])}"
    (tmp_path / "Label.txt").write_text(f"{line}\nimg_0.jpg\t{json.dumps(entries)}\n")
    with pytest.raises(DataError, match=said):
        read_label_file(tmp_path / "Label.txt")
    (tmp_path / "Label.txt").write_text(f"{line}\nimg_0.jpg\t[\n")
    with pytest.raises(DataError, match="line 2 has no JSON behind a tab"):
        read_label_file(tmp_path / "Label.txt")
    (tmp_path / "Label.txt").write_text(f"{line}\nimg_1.jpg\t[]\n")
    with pytest.raises(DataError, match=r"line 2: there is no file 'img_1\.jpg'"):
        read_label_file(tmp_path / "Label.txt")
