"""Outlines and run lengths of COCO files as masks, against what pycocotools recorded (models/annotated/write_outlines.py)."""

import json
import shutil

import numpy as np
import pytest

from onnxgrad.errors import DataError
from onnxgrad.training.data import open_data
from onnxgrad.training.data.annotated.coco import read_coco_masks
from onnxgrad.training.data.annotated.outlines import Outline, Outlines, drawn_outlines, fill_polygon, read_run_lengths
from tests.training.data.annotated.sets import REFERENCE, SETS, boxes, wanted

RECORDED = json.loads((SETS.parent / "outlines.json").read_text())
FILE = SETS / "coco" / "annotations" / "instances_train.json"


def decoded(counts, size):
    runs, size = read_run_lengths({"counts": counts, "size": size}, "here")
    return Outline(0, runs=runs, size=size).drawn(*size)


@pytest.mark.parametrize("case", RECORDED["runs"], ids=lambda case: str(case["size"]))
def test_run_lengths_are_the_masks_that_pycocotools_wrote(case):
    expected = np.array([[v == "1" for v in row] for row in case["rows"]])
    assert (decoded(case["text"], case["size"]) == expected).all()
    assert (decoded(case["counts"], case["size"]) == expected).all()


@pytest.mark.parametrize("case", RECORDED["polygons"], ids=lambda case: f"{len(case['polygon']) // 2} corners")
def test_polygons_are_those_of_pycocotools_but_for_their_edge(case):
    """COCO's tool draws edges of a fifth of a pixel; which side a pixel on the edge falls on is no one's rule"""
    height, width = case["size"]
    mask, expected = fill_polygon(np.reshape(case["polygon"], (-1, 2)), height, width), decoded(case["mask"], case["size"])
    wide = np.pad(expected, 1, mode="edge")
    around = [wide[1 + y : 1 + y + height, 1 + x : 1 + x + width] for y in (-1, 0, 1) for x in (-1, 0, 1)]
    edge = np.any(around, axis=0) & ~np.all(around, axis=0)
    assert not (mask != expected)[~edge].any()
    assert abs(int(mask.sum()) - int(expected.sum())) <= 0.5 * edge.sum()


def test_a_polygon_is_filled_by_its_middles():
    square = fill_polygon(np.array([[1, 1], [4, 1], [4, 3], [1, 3]]), 4, 6)
    assert square.sum() == 6 and square[1:3, 1:4].all()
    assert not fill_polygon(np.array([[0.6, 0.6], [0.9, 0.6], [0.9, 0.9]]), 2, 2).any()
    bow = fill_polygon(np.array([[0, 0], [8, 8], [8, 0], [0, 8]]), 8, 8)
    assert not bow[0, 4] and bow[4, 0] and bow[4, 7] and not bow[7, 4]
    beyond = fill_polygon(np.array([[-5, -5], [20, -5], [20, 20], [-5, 20]]), 3, 4)
    assert beyond.all()


def test_small_things_lie_over_large_ones_and_crowds_below():
    def box(kind, left, top, right, bottom, is_crowd=False):
        return Outline(kind, ((left, top, right, top, right, bottom, left, bottom),), is_crowd=is_crowd)

    things = (box(0, 2, 2, 4, 4), box(1, 0, 0, 6, 6), box(2, 5, 0, 8, 8, is_crowd=True))
    classes = drawn_outlines(Outlines("a.png", (8, 8), things))
    assert classes[3, 3] == 1 and classes[0, 0] == 2 and classes[0, 5] == 2 and classes[7, 7] == -1 and classes[7, 0] == 0


def test_a_coco_file_gives_masks_to_a_loss_of_masks_and_boxes_to_one_of_boxes():
    rows = open_data(SETS / "coco", wanted("target", (None, 64, 64), "int64"))
    assert rows.classes == {"target": ["background", "car", "bus", "tree"]}
    for row, things in enumerate(REFERENCE["things"]):
        mask = rows.original("target", row)
        assert mask.shape == rows.picture(row).size[::-1]
        for kind, x1, y1, x2, y2 in things:  # which are boxes here, and the last ones may cover others
            name = ["bus", "car", "tree"][kind]
            middle = mask[int((y1 + y2) // 2), int((x1 + x2) // 2)]
            assert middle > 0 and (len(things) > 1 or rows.classes["target"][middle] == name)
    assert set(open_data(SETS / "coco", boxes()).classes) == {"boxes"}
    channels = open_data(SETS / "coco", wanted("target", (None, 4, 64, 64)))
    batch = channels.take(np.arange(1, 2))["target"]
    assert batch.shape == (1, 4, 64, 64) and (batch.sum(axis=1) <= 1).all()


def test_classes_keep_the_numbers_of_the_training_data():
    listing = read_coco_masks(FILE, ["background", "tree", "car", "bus"])
    assert listing.classes == ["background", "tree", "car", "bus"]
    plain, other = (drawn_outlines(each.answers.paths[0][0]) for each in (read_coco_masks(FILE), listing))
    assert (np.array([0, 2, 3, 1, -1])[plain] == other).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("segmentation"), r"annotations\[0\].segmentation is 'None': neither polygons nor runs"),
        (lambda a: a.update(segmentation=[[1, 2, 3]]), r"segmentation\[0\] is '\[1, 2, 3\]', not x and y of three corners"),
        (lambda a: a.update(segmentation=[[1, 2, 3, 4, 5, "x"]]), r"segmentation\[0\] is 'x', which is not a number"),
        (lambda a: a.update(segmentation={"counts": [5], "size": [2, 3]}), r"runs of 5 pixels in all, the size 2 x 3"),
        (lambda a: a.update(segmentation={"counts": "~", "size": [2, 3]}), r"has the character '~'"),
        (lambda a: a.update(segmentation={"counts": "o", "size": [2, 3]}), r"ends within a number"),
        (lambda a: a.update(segmentation={"counts": 3, "size": [2, 3]}), r"neither a list nor a string of run lengths"),
        (lambda a: a.update(segmentation={"counts": "1"}), r"size is 'None', not \[height, width\]"),
    ],
)
def test_damaged_outlines_are_named(tmp_path, change, message):
    shutil.copytree(SETS / "coco", tmp_path / "coco")
    file = tmp_path / "coco" / "annotations" / FILE.name
    record = json.loads(file.read_text())
    change(record["annotations"][0])
    file.write_text(json.dumps(record))
    with pytest.raises(DataError, match=message):
        read_coco_masks(file)
