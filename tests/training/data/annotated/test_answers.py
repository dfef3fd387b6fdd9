"""Batches of boxes, regions and masks from whole sources, as a program takes them."""

import numpy as np
import pytest

from onnxgrad.errors import DataError
from onnxgrad.training import Images
from onnxgrad.training.data import open_data
from onnxgrad.training.data.annotated.answers import Boxes, Masks, Regions, numbered
from onnxgrad.training.data.rows import RowSubset
from onnxgrad.training.data.views import view_of
from tests.training.data.annotated.sets import NAMES, REFERENCE, SETS, boxes, wanted


class TestBatches:
    def test_boxes_that_do_not_count_are_marked_behind_the_others(self):
        things = np.array([[0, 10, 10, 30, 30], [2, 0, 0, 60, 50], [1, 40, 5, 50, 45.0]])
        moved = Boxes([things], [np.array([False, True, False])]).moved(0, view_of((64, 64), (64, 64)))
        assert moved.tolist() == [[0, 10, 10, 30, 30], [1, 40, 5, 50, 45], [-4, 0, 0, 60, 50]]

    def test_boxes_lie_on_their_pixels_and_come_back(self):
        rows = open_data(SETS / "coco", boxes())
        batch = rows.take(np.arange(8))
        assert batch["x"].shape == (8, 3, 64, 64) and batch["boxes"].dtype == np.float32 and batch["boxes"].shape == (8, 4, 5)
        crowd, bus = batch["boxes"][0, 3], rows.classes["boxes"].index("bus")  # behind three boxes that count
        left_out = rows.lazy["boxes"].answers.left_out(0, rows.view(0).picture)
        assert (batch["boxes"][0, :3, 0] == bus).all() and crowd[0] == -2 - left_out[0, 0] < -1
        assert np.allclose(rows.view(0).boxes_back(crowd[None].astype(np.float64))[0, 1:], left_out[0, 1:], atol=1e-3)
        assert (batch["boxes"][2] == [-1, 0, 0, 0, 0]).all()  # the picture without boxes
        assert rows.classes == {"boxes": ["car", "bus", "tree"]} and "letterbox" in " ".join(rows.remarks)
        for row, things in enumerate(REFERENCE["things"]):
            own = batch["boxes"][row]
            back = rows.view(row).boxes_back(own[own[:, 0] >= 0].astype(np.float64))
            names = {NAMES[kind]: kind for kind, *_ in things}
            assert [rows.classes["boxes"][int(kind)] for kind in back[:, 0]] == [NAMES[kind] for kind, *_ in things], names
            assert np.allclose(back[:, 1:], np.reshape([thing[1:] for thing in things], (-1, 4)), atol=1e-3)
            assert np.allclose(rows.original("boxes", row), back, atol=1e-3)
            assert rows.file(row).name == f"{row:03}.png" and rows.picture(row).size == rows.view(row).picture

    def test_some_rows_of_others_keep_their_places(self):
        rows = open_data(SETS / "coco", boxes())
        some = RowSubset(rows, np.array([5, 1]))
        assert some.view(0) == rows.view(5) and some.file(1) == rows.file(1)
        assert np.array_equal(some.original("boxes", 1), rows.original("boxes", 1)) and some.picture(0).size == rows.picture(5).size
        held, kept = open_data(SETS / "coco", boxes()).select(np.arange(2)), rows.take(np.arange(2))
        assert np.array_equal(held.take(np.arange(2))["boxes"], kept["boxes"])

    def test_epochs_are_the_same_by_their_seed(self):
        source = Images(SETS / "coco", flip=True, crop=True, color=0.2, scale=0.5, translate=0.1)
        epochs = [list(open_data(source, boxes()).batches(3, seed=1, epoch=epoch)) for epoch in (0, 0, 1)]
        for a, b in zip(epochs[0], epochs[1], strict=True):
            assert all(np.array_equal(a[name], b[name]) for name in a)
        assert not np.array_equal(epochs[0][0]["x"], epochs[2][0]["x"])
        plain = open_data(source, boxes()).plain().take(np.arange(3), (1, 0))
        assert np.array_equal(plain["boxes"], open_data(SETS / "coco", boxes()).take(np.arange(3))["boxes"])

    @pytest.mark.parametrize("fit, first", [("stretch", 27.0), ("corner", 27.0), ("letterbox", 27.0)])
    def test_fits(self, fit, first):
        batch = open_data(Images(SETS / "coco", fit=fit), boxes()).take(np.array([0]))  # 64 x 48 in 64 x 64
        top = {"stretch": 1 * 64 / 48, "corner": 1.0, "letterbox": 9.0}[fit]
        assert np.allclose(batch["boxes"][0, 0, 1:3], [first, top])
        bars = {"corner": slice(48, 64), "letterbox": slice(0, 8)}.get(fit)
        assert bars is None or np.ptp(batch["x"][0][:, bars], axis=(1, 2)).max() == 0

    def test_regions_and_the_boxes_around_them(self):
        spec = wanted("regions", (None, None, None))
        batch = open_data(SETS / "regions" / "icdar", spec).take(np.arange(3))
        assert batch["regions"].shape == (3, 3, 9) and batch["regions"][0, :, 0].tolist() == [0, -2, 0]
        assert batch["regions"][1, :, 0].tolist() == [0, -1, -1]
        around = open_data(SETS / "regions" / "paddle" / "Label.txt", boxes())
        assert [len(around.original("boxes", row)) for row in range(3)] == [2, 1, 0]
        around = around.take(np.arange(3))["boxes"]  # the text that nobody can read comes last
        assert around.shape == (3, 3, 5) and around[..., 0].tolist() == [[0, 0, -2], [0, -1, -1], [-1, -1, -1]]

    def test_masks_in_the_forms_that_losses_take(self):
        whole = open_data(SETS / "masks", wanted("target", (None, 64, 64), "int64")).take(np.arange(4))["target"]
        assert whole.dtype == np.int64 and whole.shape == (4, 64, 64) and set(np.unique(whole)) == {-1, 0, 1, 2, 3}
        coarse = open_data(SETS / "masks", wanted("target", (None, 16, 16), "int64")).take(np.arange(4))["target"]
        assert coarse.shape == (4, 16, 16)
        with pytest.raises(DataError, match="has pixels that do not count, but the model's output has 0/1 channels"):
            open_data(SETS / "masks", wanted("target", (None, 1, 64, 64))).take(np.arange(4))

    def test_losses_of_another_kind_are_refused(self):
        with pytest.raises(DataError, match=r"'coco' holds boxes, but the loss takes .*--task detect"):
            open_data(SETS / "coco", wanted("target", (None,), "int64"))
        with pytest.raises(DataError, match=r"'masks' holds masks, but the loss takes .*--task segment"):
            open_data(SETS / "masks", wanted("target", (None,), "int64"))


def test_channels_of_numbered_masks():
    mask = np.array([[0, 1], [2, 1]])
    one, three = (Masks([["a"]], lambda path: mask, channels).moved(0, view_of((2, 2), (2, 2))) for channels in (1, 3))
    assert one.dtype == np.float32 and one.tolist() == [[[0, 1], [1, 1]]]
    assert three.argmax(axis=0).tolist() == mask.tolist() and three.sum(axis=0).min() == 1
    bars = Masks([["a"]], lambda path: mask, 1).moved(0, view_of((2, 2), (4, 8), "letterbox"))
    assert bars.shape == (1, 4, 8) and (bars[:, :, :2] == 0).all()


def test_boxes_in_shares_and_counts():
    shares = Boxes([np.array([[2, 0.25, 0.5, 0.75, 1.0]])], shares=True)
    assert shares.original(0, (40, 20)).tolist() == [[2, 10, 10, 30, 20]] and shares.counts() == {2: 1}
    crowd = Boxes([np.array([[0, 1, 1, 5, 5], [1, 1, 1, 5, 5.0]])], [np.array([True, False])])
    assert crowd.counts() == {1: 1} and crowd.original(0, (9, 9))[:, 0].tolist() == [1] == [crowd.left_out(0, (9, 9))[0, 0] + 1]


def test_regions_with_fewer_corners_repeat_the_last():
    regions = Regions(
        [[np.array([[0, 0], [8, 0], [8, 8.0]]), np.array([[0, 0], [8, 0], [8, 8], [0, 8.0]])]], [np.array([False] * 2)]
    )
    moved = regions.moved(0, view_of((8, 8), (8, 8)))
    assert moved[0].tolist() == [0, 0, 0, 8, 0, 8, 8, 8, 8] and moved.shape == (2, 9)
    assert regions.as_boxes().original(0, (8, 8)).tolist() == [[0, 0, 0, 8, 8]] * 2


def test_numbers_of_classes():
    assert numbered(["a", "b"], None, "t") == [0, 1] and numbered(["a", "b"], ["b", "a"], "t") == [1, 0]
