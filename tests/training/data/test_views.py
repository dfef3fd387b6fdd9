"""Where pictures lie in the input: letterboxes, windows, mirrors, and the way back."""

import numpy as np
import pytest
from PIL import Image

from onnxgrad.errors import ArgumentError
from onnxgrad.training.data.views import View, view_of


@pytest.mark.parametrize(
    ("picture", "place"),
    [
        # (1280, 720) into 640 x 640 has bars of 140, and of odd differences the larger bar is below and on the right
        ((1280, 720), (0, 140, 640, 360)),
        ((810, 1080), (80, 0, 480, 640)),
        ((100, 33), (0, 214, 640, 211)),
        ((33, 100), (214, 0, 211, 640)),
        ((10, 10), (0, 0, 640, 640)),
        ((3000, 1), (0, 319, 640, 1)),
    ],
)
def test_letterboxes_are_those_of_yolo(picture, place):
    """ratio = min(640 / h, 640 / w); size = round(side * ratio); left = round((640 - size) / 2 - 0.1)"""
    assert view_of(picture, (640, 640), "letterbox").place == place


def test_fits_that_are_none():
    with pytest.raises(ArgumentError, match="fitted by one of stretch, letterbox, corner, not 'squash'"):
        view_of((4, 4), (4, 4), "squash")


def some_views():
    rng = np.random.default_rng(0)
    for _ in range(40):
        picture = tuple(int(v) for v in rng.integers(20, 90, 2))
        size = tuple(int(v) for v in rng.integers(16, 70, 2))
        left, top = rng.uniform(-20, 10, 2)
        window = None if rng.random() < 0.3 else (float(left), float(top), *(float(v) for v in rng.uniform(15, 80, 2)))
        yield view_of(picture, size, str(rng.choice(["stretch", "letterbox", "corner"])), window, bool(rng.random() < 0.5))


def test_points_come_back():
    rng = np.random.default_rng(1)
    for view in some_views():
        points = rng.uniform(-10, 90, (3, 5, 2))
        before = points.copy()
        assert np.allclose(view.back(view.points(points)), points) and np.array_equal(points, before)


def test_pixels_lie_where_their_points_do():
    """A bright square on black: the middle of its pixels in the drawn image is the middle of its moved box"""
    for view in some_views():
        picture = Image.new("L", view.picture)
        w, h = view.picture
        left, top, right, bottom = w // 4, h // 4, w // 4 + 11, h // 4 + 11
        picture.paste(255, (left, top, right, bottom))
        drawn = np.asarray(view.image(picture, 0, Image.Resampling.BILINEAR), np.float64)
        assert drawn.shape == view.size
        corners = view.points(np.array([[left, top], [right, bottom]], np.float64))
        low, high = corners.min(axis=0), corners.max(axis=0)
        inside = (low > view.place[0] * 0).all() and (low > 1).all() and (high < np.array(view.size[::-1]) - 1).all()
        if not inside or drawn.sum() == 0:
            continue
        y, x = np.mgrid[: view.size[0], : view.size[1]] + 0.5
        middle = np.array([(drawn * x).sum(), (drawn * y).sum()]) / drawn.sum()
        window = view._visible()
        if (low > window[0] + 1).all() and (high < window[1] - 1).all():
            assert np.allclose(middle, (low + high) / 2, atol=0.6), view


def test_boxes_are_clipped_and_those_hardly_seen_are_left_out():
    view = view_of((100, 100), (100, 100), window=(50.0, 0.0, 100.0, 100.0))  # shows the right half, and nothing beyond
    boxes = np.array([
        [0, 60, 10, 80, 30],  # wholly
        [1, 40, 10, 60, 30],  # half of it
        [2, 10, 10, 59, 30],  # less than a fifth
        [3, 0, 0, 40, 40],  # not at all
        [4, 70, 10, 70.5, 30],  # thinner than a pixel
        [5, 90, 90, 120, 120],  # beyond the picture: a ninth
    ])  # fmt: skip
    assert view.boxes(boxes).tolist() == [[0, 10, 10, 30, 30], [1, 0, 10, 10, 30]]
    assert view.boxes(boxes[:0]).shape == (0, 5)


def test_boxes_come_back_from_a_mirrored_letterbox():
    view = view_of((200, 100), (64, 64), "letterbox", mirrored=True)
    box = np.array([[3, 20.0, 30, 120, 90]])
    moved = view.boxes(box)
    assert moved[0, 1] < moved[0, 3] and np.allclose(view.boxes_back(moved), box)
    assert view.boxes_back(np.array([[0, 0.0, 0, 64, 64]])).tolist() == [[0, 0, 0, 200, 100]]


@pytest.mark.parametrize("coarse", [1, 2])
def test_masks_come_back_to_the_pixels_of_the_picture(coarse):
    picture = np.zeros((30, 50), np.int32)
    picture[5:20, 10:40] = 2
    view = view_of((50, 30), (100, 100), "letterbox")
    drawn = np.asarray(view.image(Image.fromarray(picture), -1, Image.Resampling.NEAREST))
    back = view.mask_back(drawn[::coarse, ::coarse])
    assert back.shape == (30, 50) and (back != picture).mean() < (0.001 if coarse == 1 else 0.1) and (back >= 0).all()


def test_whole_pictures_of_the_right_size_are_not_touched():
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (7, 9, 3), np.uint8))
    view = View((9, 7), (0.0, 0.0, 9.0, 7.0), (0, 0, 9, 7), (7, 9))
    assert view.image(picture, 0, 2) is picture


def test_a_window_beyond_the_picture_shows_what_is_around_it():
    from PIL import Image

    for window in ((0.0, 12.0, 9.0, 7.0), (-30.0, 0.0, 9.0, 7.0), (9.0, 7.0, 9.0, 7.0)):
        view = view_of((9, 7), (7, 9), window=window)
        assert (np.asarray(view.image(Image.new("L", (9, 7), 255), 3, 2)) == 3).all()
        assert len(view.boxes(np.array([[0, 0, 0, 9, 7.0]]))) == 0
