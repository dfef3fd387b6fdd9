"""Drawn boxes and masks: where the paint is, what is refused, and that nothing is written to."""

import sys

import numpy as np
import pytest

from onnxgrad.errors import ArgumentError, OnnxGradError
from onnxgrad.training.detection.drawing import beside, colour_of, draw_boxes, draw_masks, draw_text, jpeg_address

GREY = np.full((60, 80, 3), 128, np.uint8)


def has(image, colour, within=None):
    """Whether a colour is in a part of a picture: left, top, right, bottom"""
    pixels = np.asarray(image if within is None else image.crop(within))
    return bool((pixels == colour).all(axis=-1).any())


def test_a_box_has_the_colour_of_its_class_and_nothing_else_changes():
    row = np.array([[2, 0.9, 20, 30, 60, 50]])
    image = draw_boxes(GREY, row, smallest=0)
    assert image.size == (80, 60)
    for x, y in ((20, 40), (60, 40), (40, 50)):
        assert has(image, colour_of(2), (x - 2, y - 2, x + 3, y + 3))
    inside = np.asarray(image)[36:46, 26:54]
    assert (inside == 128).all() and (GREY == 128).all()


def test_a_small_picture_is_enlarged_with_its_boxes():
    image = draw_boxes(GREY, np.array([[0, 0.9, 20, 30, 60, 50]]))
    assert image.size == (480, 360)
    assert has(image, colour_of(0), (116, 200, 124, 280)) and not has(image, colour_of(0), (140, 200, 340, 280))


def test_true_boxes_are_dashes_and_rows_that_fill_up_or_are_unsure_are_left_out():
    plain = np.asarray(draw_boxes(GREY, np.zeros((0, 6))))
    objects = np.array([[0, 10, 10, 40, 40], [-1, 0, 0, 0, 0]])
    dashed = draw_boxes(GREY, np.zeros((0, 6)), objects)
    assert has(dashed, (255, 255, 255), (54, 60, 66, 240)) and has(dashed, (20, 20, 20), (54, 60, 66, 240))
    unsure = np.array([[1, 0.2, 10, 10, 40, 40], [-1, 0.9, 0, 0, 30, 30]])
    np.testing.assert_array_equal(np.asarray(draw_boxes(GREY, unsure, least=0.25)), plain)


def test_labels_do_not_cover_each_other():
    same = np.array([[k, 0.9 - k / 10, 20, 30, 60, 50] for k in range(4)])
    image = draw_boxes(GREY, same, names=["one", "two", "three", "four"])
    pixels = np.asarray(image)
    sizes = [(pixels == colour_of(k)).all(axis=-1).sum() for k in range(4)]
    # each label alone has nearly as many pixels as it has among the others
    for k in range(4):
        alone = draw_boxes(GREY, same[k : k + 1], names=["one", "two", "three", "four"])
        label = (np.asarray(alone)[:174] == colour_of(k)).all(axis=-1).sum()
        assert sizes[k] >= 0.9 * label > 200


@pytest.mark.parametrize("box", [[-50, -50, 200, 200], [70, 50, 60, 20], [0, 0, 0, 0], [79, 59, 90, 90], [30, 30, 30, 30]])
def test_boxes_beyond_the_picture_turned_or_without_area_are_drawn_as_far_as_they_go(box):
    image = draw_boxes(GREY, np.array([[0, 0.5, *box]]), np.array([[0, *box]]), names={0: "a very long name " * 9})
    assert image.size == (480, 360) and has(image, colour_of(0))


def test_masks_are_painted_named_and_the_background_is_not():
    masks = np.zeros((60, 80), int)
    masks[10:30, 20:60], masks[40:, :10] = 1, -100
    image = draw_masks(GREY, masks, ["none", "cat"], opacity=0.5, smallest=0)
    pixels = np.asarray(image)
    assert image.height > 60 and (pixels[45:60, :] == 128).all()
    np.testing.assert_array_equal(pixels[20, 40], np.round((128 + np.array(colour_of(1))) / 2))
    assert (pixels[10, 40] == colour_of(1)).all()
    assert has(image, colour_of(1), (0, 60, 80, image.height)), "the legend"
    assert not has(image, colour_of(0)) and has(draw_masks(GREY, masks, background=None), colour_of(0))
    assert draw_masks(GREY, np.zeros((60, 80), int), smallest=0).size == (80, 60)


def test_masks_that_overlap_and_are_smaller_than_the_picture():
    masks = np.zeros((2, 6, 8), bool)
    masks[0, :3], masks[1, 2:] = True, True
    image = draw_masks(GREY[..., 0], masks, smallest=0)
    assert has(image, colour_of(0), (0, 0, 80, 30)) and has(image, colour_of(1), (0, 20, 80, 60))


def test_pictures_side_by_side_and_as_an_address():
    left, right = draw_boxes(GREY, np.zeros((0, 6))), draw_boxes(GREY[:30], np.zeros((0, 6)))
    page = beside([("true", left), ("predicted", right)])
    assert page.size == (480 * 2 + 8, 360 + 29) and page.getpixel((10, 200)) == (128, 128, 128)
    assert jpeg_address(page).startswith("data:image/jpeg;base64,/9j/")


def test_what_is_no_picture_detection_or_mask_is_refused():
    with pytest.raises(ArgumentError, match=r"float64 \[60, 80, 3\]"):
        draw_boxes(GREY / 255, np.zeros((0, 6)))
    with pytest.raises(ArgumentError, match=r"\[1, 5\]"):
        draw_boxes(GREY, np.zeros((1, 5)))
    with pytest.raises(ArgumentError, match=r"float64 \[60, 80\]"):
        draw_masks(GREY, np.zeros((60, 80)))


def test_a_missing_pillow_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(OnnxGradError, match=r"onnxgrad\[images\]"):
        draw_masks(GREY, np.zeros((60, 80), int))


def test_text_below_a_picture_is_broken_where_it_is_too_wide():
    picture = np.full((100, 500, 3), 120, np.uint8)
    words = " ".join(["word"] * 60)
    short, long = draw_text(picture, ["cat 0.93"]), draw_text(picture, [words, "cat 0.93"])
    assert draw_text(picture, []).size == (500, 100) and short.size[0] == long.size[0] == 500
    assert long.height > short.height + 50
    for image in (short, long):
        pixels = np.asarray(image)
        assert (pixels[:100] == 120).all()
        below = pixels[100:].min(axis=2)
        assert below.min() < 60 and (below[:, -2:] == 255).all()  # nothing is cut at the right edge
