"""Random changes: the same by seed, epoch and number, and boxes and masks follow the pixels."""

import numpy as np
import pytest
from PIL import Image

from onnxgrad.errors import ArgumentError
from onnxgrad.training.data.annotated.answers import Boxes
from onnxgrad.training.data.changes import Changes

ALL = Changes(flip=True, crop=True, color=0.3, scale=0.4, translate=0.2)


@pytest.mark.parametrize("fit", ["stretch", "letterbox", "corner"])
def test_boxes_and_masks_follow_the_pixels(fit):
    """A bright rectangle: its pixels, its mask and its box stay in one place, whatever is drawn"""
    shown = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        size = (int(rng.integers(40, 90)), int(rng.integers(40, 90)))
        x1, y1 = int(rng.integers(2, 12)), int(rng.integers(2, 12))
        x2, y2 = x1 + int(rng.integers(12, 24)), y1 + int(rng.integers(12, 24))
        picture, mask = Image.new("RGB", size), Image.fromarray(np.zeros(size[::-1], np.int32))
        picture.paste((255, 255, 255), (x1, y1, x2, y2))
        mask.paste(1, (x1, y1, x2, y2))
        view = ALL.view(size, (48, 56), fit, rng)
        pixels = np.asarray(view.image(picture, (0, 0, 0), 2))[..., 0] > 127
        classes = np.asarray(view.image(mask, -1, 0)) == 1
        assert (pixels != classes).mean() < 0.06
        boxes = Boxes([np.array([[0, x1, y1, x2, y2]], np.float64)]).moved(0, view)
        if not len(boxes):
            assert classes.mean() < 0.12
            continue
        shown += 1
        around = np.zeros_like(classes)
        _, left, top, right, bottom = boxes[0].round().astype(int)
        around[top:bottom, left:right] = True
        edge = 2 * (bottom - top + right - left)
        assert (around != classes).sum() <= edge, (seed, boxes)
    assert shown > 40


def test_changes_are_drawn_alike_by_the_same_generator():
    views = [ALL.view((80, 60), (32, 32), "letterbox", np.random.default_rng([3, 1, 7])) for _ in range(2)]
    assert views[0] == views[1] != ALL.view((80, 60), (32, 32), "letterbox", np.random.default_rng([3, 2, 7]))


def test_nothing_is_changed_without_being_asked_for():
    assert not Changes() and Changes().line() is None and ALL
    assert Changes().view((80, 60), (32, 32), "stretch", np.random.default_rng(0)).window == (0, 0, 80, 60)
    assert ALL.line() == "images are mirrored and cropped and changed in colour and scaled and moved at random in training."


@pytest.mark.parametrize("name", ["color", "scale", "translate"])
def test_sizes_of_changes(name):
    with pytest.raises(ArgumentError, match=f"{name} is the largest change"):
        Changes(**{name: 1.0})
