"""Four pictures in one: boxes and masks lie on what is drawn, and nothing of validation is shown in training."""

import csv

import numpy as np
import pytest
from PIL import Image

from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training import Images
from onnxgrad.training.data import open_data
from onnxgrad.training.data.annotated.answers import Boxes, Masks
from onnxgrad.training.data.changes import Changes
from onnxgrad.training.data.splitting import split
from onnxgrad.training.data.views import View, view_of
from tests.training.data.annotated.sets import SETS, boxes, wanted

COUNT = 12


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Black pictures, each with a rectangle of a brightness of its own, its box in a table and its mask in a folder"""
    folder = tmp_path_factory.mktemp("rectangles")
    (folder / "images").mkdir()
    (folder / "masks").mkdir()
    rng = np.random.default_rng(0)
    rows = []
    for number in range(COUNT):
        size = (int(rng.integers(50, 110)), int(rng.integers(50, 110)))
        x1, y1 = (int(v) for v in rng.integers(0, 20, 2))
        x2, y2 = x1 + int(rng.integers(12, 30)), y1 + int(rng.integers(12, 30))
        picture, mask = Image.new("RGB", size), Image.new("L", size)
        picture.paste((255, 0, 20 * number), (x1, y1, x2, y2))
        mask.paste(1 + number, (x1, y1, x2, y2))
        picture.save(folder / "images" / f"{number:02}.png")
        mask.save(folder / "masks" / f"{number:02}.png")
        rows.append([f"images/{number:02}.png", number, x1, y1, x2, y2])
    with open(folder / "boxes.csv", "w", newline="") as file:
        csv.writer(file).writerows([["path", "class", "x1", "y1", "x2", "y2"], *rows])
    return folder


def changed(path, **changes):
    """An opened source in which values are those of the files"""
    return Images(path, mean=[0.0], std=[1 / 255], order="rgb", **changes)


def found(red, view):
    """The rectangle of bright pixels in the part of the input that a view shows; None if there is none"""
    left, top, right, bottom = view.shown
    rows, columns = np.nonzero(red[top:bottom, left:right] > 127)
    if not len(rows):
        return None
    return np.array([left + columns.min(), top + rows.min(), left + columns.max() + 1, top + rows.max() + 1])


@pytest.mark.parametrize("changes", [{}, {"flip": True, "crop": True, "scale": 0.3, "translate": 0.2, "fit": "stretch"}])
def test_boxes_lie_on_what_is_drawn(pictures, changes):
    rows = open_data(changed(pictures / "boxes.csv", mosaic=1.0, **changes), boxes(size="72, 96"))
    shown = cut = gone = 0
    for epoch in range(8):
        batch = rows.take(np.arange(COUNT), (3, epoch))
        for row in range(COUNT):
            own = batch["boxes"][row]
            own = own[own[:, 0] >= 0]
            views = rows.lazy["x"].views(row, (3, epoch))
            assert len(views) == 4 and views[0][0] == row
            kept = 0
            for number, view in views:
                area = np.prod(np.diff(rows.original("boxes", number)[0, 1:].reshape(2, 2), axis=0)) * np.prod(view.scale)
                seen = found(batch["x"][row, 0], view)
                share = 0.0 if seen is None else np.prod(seen[2:] - seen[:2]) / area
                near = [box for box in own[own[:, 0] == number] if seen is not None and np.abs(box[1:] - seen).max() <= 1.5]
                if near:
                    kept += 1
                    cut += share < 0.5
                    assert share > 0.05
                else:
                    gone += 1
                    assert share < 0.25, (row, number, seen, own)  # rounding to pixels adds up to two rows to what is left
            assert kept == len(own)
            shown += kept
    assert shown > 100 and cut > 10 and gone > 10


def test_masks_lie_on_what_is_drawn(pictures):
    rows = open_data(changed(pictures, mosaic=1.0, flip=True, scale=0.3), wanted("target", (None, 72, 96), "int64", size="72, 96"))
    for epoch in range(6):
        batch = rows.take(np.arange(COUNT), (5, epoch))
        bright, classes = batch["x"][:, 0] > 127, batch["target"]
        assert (bright != (classes > 0)).mean() < 0.03
        for row in range(COUNT):
            numbers = {number + 1 for number, _ in rows.lazy["x"].views(row, (5, epoch))}
            assert set(np.unique(classes[row])) <= {-1, 0} | numbers
        levels = batch["x"][:, 2][bright & (classes > 0)] - 20 * (classes[bright & (classes > 0)] - 1)
        assert np.median(np.abs(levels)) < 1  # each pixel has the class of its own picture


def test_masks_coarser_than_the_input_are_joined_first():
    mask = np.ones((8, 8), np.int64)
    left, right = (View((8, 8), (0.0, 0.0, width, 8.0), (first, 0, int(width), 8), (8, 8)) for first, width in ((0, 3.0), (3, 5.0)))
    masks = Masks([["a"], ["b"]], lambda name: mask * (1 if name == "a" else 2), 0, (4, 4))
    assert masks.joined([(0, left), (1, right)]).tolist() == [[1, 2, 2, 2]] * 4


def test_a_box_of_which_less_than_a_tenth_is_left_goes():
    rows = Boxes([np.array([[0, 0, 0, 100, 10], [1, 8.9, 0, 108.9, 10.0]])])
    for width, kept in ((11.0, [0]), (9.0, []), (20.0, [0, 1])):
        view = View((200, 10), (0.0, 0.0, width, 10.0), (0, 0, int(width), 10), (10, 40), least_share=0.1)
        assert rows.joined([(0, view)])[:, 0].tolist() == kept
    assert len(rows.joined([(0, view_of((200, 10), (10, 40)))])) == 2


def test_boxes_that_do_not_count_come_last_of_all_pictures():
    things = [np.array([[0, 10, 10, 30, 30], [2, 0, 0, 60, 50.0]])] * 2
    whole = Boxes(things, [np.array([False, True])] * 2)
    view = view_of((64, 64), (64, 64))
    assert whole.joined([(0, view), (1, view)])[:, 0].tolist() == [0, 0, -4, -4]


class TestDraws:
    def test_the_same_by_seed_epoch_and_row(self, pictures):
        source = changed(pictures / "boxes.csv", mosaic=0.5, flip=True, color=0.2)
        epochs = [list(open_data(source, boxes()).batches(5, seed=seed, epoch=epoch)) for seed, epoch in ((1, 2), (1, 2), (1, 3))]
        for a, b in zip(epochs[0], epochs[1], strict=True):
            assert all(np.array_equal(a[name], b[name]) for name in a)
        assert not np.array_equal(epochs[0][0]["x"], epochs[2][0]["x"])
        rows = open_data(source, boxes())
        counts = [len(rows.lazy["x"].views(row, (1, epoch))) for row in range(COUNT) for epoch in range(20)]
        assert set(counts) == {1, 4} and 90 < counts.count(4) < 150

    def test_other_changes_draw_what_they_drew(self, pictures):
        one, other = (open_data(changed(pictures / "boxes.csv", scale=0.4, **more), boxes()) for more in ({}, {"mosaic_epochs": 0}))
        of_four = open_data(changed(pictures / "boxes.csv", scale=0.4, mosaic=1.0, mosaic_epochs=2), boxes())
        every = np.arange(COUNT)
        for epoch in (0, 2, 5):
            first = one.take(every, (7, epoch))["boxes"]
            assert np.array_equal(first, other.take(every, (7, epoch))["boxes"])
            assert np.array_equal(first, of_four.take(every, (7, epoch))["boxes"]) == (epoch >= 2)

    def test_nothing_held_out_is_shown(self, pictures):
        train, held_out, _ = split(open_data(changed(pictures / "boxes.csv", mosaic=1.0), boxes()), 0.5, None, 0)
        of_training = set(train.rows.tolist())
        assert not of_training & set(held_out.rows.tolist()) and len(of_training) == 6
        some = train.select(np.arange(4))
        for rows, allowed in ((train, of_training), (some, set(train.rows[:4].tolist()))):
            shown = set()
            for epoch in range(30):
                batch = rows.take(np.arange(len(rows)), (0, epoch))["boxes"][..., 0]
                shown |= set(batch[batch >= 0].astype(int).tolist())
            assert shown == allowed
        plain = open_data(changed(pictures / "boxes.csv"), boxes()).take(held_out.rows)
        judged = held_out.take(np.arange(len(held_out)), (0, 0))
        assert all(np.array_equal(judged[name], plain[name]) for name in plain)

    def test_plain_rows_are_not_joined(self, pictures):
        plain = open_data(changed(pictures / "boxes.csv", mosaic=1.0), boxes()).plain().take(np.arange(4), (0, 0))
        alone = open_data(changed(pictures / "boxes.csv"), boxes()).take(np.arange(4))
        assert all(np.array_equal(plain[name], alone[name]) for name in alone)


class TestRefusals:
    def test_probabilities_and_epochs(self):
        for wrong in (-0.1, 1.1, float("nan")):
            with pytest.raises(ArgumentError, match="mosaic is a probability, from 0 to 1"):
                Changes(mosaic=wrong)
        with pytest.raises(ArgumentError, match="mosaic_epochs is a number of epochs"):
            Changes(mosaic=0.5, mosaic_epochs=-1)
        assert Changes(mosaic=0.5) and Changes(mosaic=0.5).line() == "images are joined by fours at random in training."

    def test_answers_that_are_no_places(self, pictures):
        (pictures / "numbers.csv").write_text("path,target\nimages/00.png,1.5\nimages/01.png,2.5\n")
        with pytest.raises(DataError, match="mosaic joins pictures whose answers are boxes or masks, and 'target' is neither"):
            open_data(Images(pictures / "numbers.csv", mosaic=0.5), wanted("target", (None,)))
        with pytest.raises(DataError, match=r"and 'regions' is neither\. Leave mosaic out"):
            open_data(Images(SETS / "regions" / "icdar", mosaic=0.5), wanted("regions", (None, None, None)))


@pytest.mark.parametrize("size", ["1, 1", "2, 3"])
def test_inputs_of_a_few_pixels(pictures, size):
    batch = open_data(changed(pictures / "boxes.csv", mosaic=1.0), boxes(size=size)).take(np.arange(COUNT), (0, 0))
    assert batch["x"].shape[2:] == tuple(map(int, size.split(", "))) and np.isfinite(batch["x"]).all()
