"""Where a picture lies in the input of a model, and the way back to its own pixels.

Tests: tests/training/data/test_views.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from onnxgrad.errors import ArgumentError
from onnxgrad.internal.words import ImageFit

__all__ = ["FITS", "View", "joined_arrays", "view_of"]

Array = np.ndarray[Any, Any]
FITS = get_args(ImageFit)
_LEAST_SHARE, _LEAST_SIDE = 0.2, 1.0


@dataclass(frozen=True)
class View:
    """A window of a picture that is drawn into a rectangle of the model's input, mirrored or not.

    Points are (x, y) from the upper left corner; the edges of a picture of width w are at x = 0 and x = w.

    Attributes:
        picture: width and height of the picture as its file has it.
        window: left, top, width and height of the part that is drawn, in its pixels; it may reach beyond the picture.
        place: left, top, width and height of the rectangle that it is drawn into, in pixels of the input.
        size: height and width of the input.
        mirrored: whether left and right of the input are exchanged.
        least_share: of the area of a box, that has to be seen.

    Example:
        >>> view = view_of((200, 100), (64, 64), "letterbox")
        >>> view.place, view.scale
        ((0, 16, 64, 32), (0.32, 0.32))
        >>> view.points(np.array([[100.0, 50.0]])).tolist()
        [[32.0, 32.0]]
        >>> view.back(np.array([[32.0, 32.0]])).tolist()
        [[100.0, 50.0]]
    """

    picture: tuple[int, int]
    window: tuple[float, float, float, float]
    place: tuple[int, int, int, int]
    size: tuple[int, int]
    mirrored: bool = False
    least_share: float = _LEAST_SHARE

    @property
    def shown(self) -> tuple[int, int, int, int]:
        """Left, top, right and bottom of the part of the input that the window is drawn into, after it was mirrored."""
        left, top, width, height = self.place
        if self.mirrored:
            left = self.size[1] - left - width
        return left, top, left + width, top + height

    @property
    def scale(self) -> tuple[float, float]:
        """Pixels of the input for one of the picture, in x and y."""
        return self.place[2] / self.window[2], self.place[3] / self.window[3]

    def points(self, points: Array) -> Array:
        """Map points [..., 2] of the picture to the input."""
        moved = (points - np.asarray(self.window[:2])) * np.asarray(self.scale) + np.asarray(self.place[:2])
        if self.mirrored:
            moved[..., 0] = self.size[1] - moved[..., 0]
        return np.asarray(moved)

    def back(self, points: Array) -> Array:
        """Map points [..., 2] of the input to the picture."""
        moved = np.array(points, np.float64)
        if self.mirrored:
            moved[..., 0] = self.size[1] - moved[..., 0]
        return np.asarray((moved - np.asarray(self.place[:2])) / np.asarray(self.scale) + np.asarray(self.window[:2]))

    def boxes(self, boxes: Array) -> Array:
        """Map boxes [n, 5] of (class, x1, y1, x2, y2) to the input, without those that are hardly seen.

        A box is clipped at the edges of the input and of the picture in it. It is left out where less than ``least_share`` of its
        area remains, or a side is shorter than one pixel of the input.
        """
        corners = self._corners(self.points(boxes[:, 1:].reshape(-1, 2, 2)))
        low, high = self._visible()
        clipped = np.concatenate([np.clip(corners[:, :2], low, high), np.clip(corners[:, 2:], low, high)], axis=1)
        sides = clipped[:, 2:] - clipped[:, :2]
        areas = np.prod(corners[:, 2:] - corners[:, :2], axis=1)
        kept = (sides >= _LEAST_SIDE).all(axis=1) & (sides.prod(axis=1) >= self.least_share * areas)
        return np.asarray(np.concatenate([boxes[:, :1], clipped], axis=1)[kept])

    def boxes_back(self, boxes: Array) -> Array:
        """Map boxes [n, 5] of (class, x1, y1, x2, y2) of the input to the picture, clipped at its edges."""
        corners = self._corners(self.back(boxes[:, 1:].reshape(-1, 2, 2)))
        limits = np.array([*self.picture, *self.picture])
        return np.concatenate([boxes[:, :1], np.clip(corners, 0, limits)], axis=1)

    def shows(self, points: Array) -> bool:
        """Return whether ``least_share`` of the rectangle around these points [n, 2] of the picture, at least, is in the input."""
        around = np.concatenate([[0.0], points.min(axis=0), points.max(axis=0)])
        return len(self.boxes(around[None])) == 1

    def image(self, image: Any, fill: Any, resample: int) -> Any:
        """Draw an image of Pillow into one of the input's size, through one of its filters; ``fill`` is the value around it."""
        from PIL import Image

        seen = image
        left, top, width, height = self.window
        window = (left, top, left + width, top + height)
        whole = (0.0, 0.0, float(image.size[0]), float(image.size[1]))
        if window[0] < 0 or window[1] < 0 or window[2] > whole[2] or window[3] > whole[3]:
            seen, window = _padded(image, window, fill)
        if seen.size != self.place[2:] or window != (0.0, 0.0, *map(float, seen.size)):
            seen = seen.resize(self.place[2:], resample, box=window)
        if self.place != (0, 0, self.size[1], self.size[0]):
            canvas = Image.new(seen.mode, self.size[::-1], fill)
            canvas.paste(seen, self.place[:2])
            seen = canvas
        return seen.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if self.mirrored else seen

    def mask_back(self, mask: Array) -> Array:
        """Take the values of a mask [h, w] over the input at the pixels of the picture: [height, width].

        The mask may be coarser than the input. Pixels of the picture outside the window get the nearest value in it.
        """
        height, width = mask.shape
        xs, ys = np.arange(self.picture[0]) + 0.5, np.arange(self.picture[1]) + 0.5
        x = self.points(np.stack([xs, np.zeros_like(xs)], axis=1))[:, 0] * width / self.size[1]
        y = self.points(np.stack([np.zeros_like(ys), ys], axis=1))[:, 1] * height / self.size[0]
        rows, columns = (np.clip(np.floor(at).astype(int), 0, end - 1) for at, end in ((y, height), (x, width)))
        return np.asarray(mask[rows[:, None], columns[None]])

    def _visible(self) -> tuple[Array, Array]:
        """The corners of the part of the input that shows the picture"""
        edges = self._corners(self.points(np.array([[[0.0, 0.0], self.picture]], np.float64)))[0]
        low = np.maximum(edges[:2], self.shown[:2])
        return low, np.maximum(low, np.minimum(edges[2:], self.shown[2:]))

    @staticmethod
    def _corners(points: Array) -> Array:
        """Pairs of points [n, 2, 2] as (x1, y1, x2, y2) with x1 <= x2 and y1 <= y2"""
        return np.concatenate([points.min(axis=1), points.max(axis=1)], axis=1)


def view_of(
    picture: tuple[int, int],
    size: tuple[int, int],
    fit: str = "stretch",
    window: tuple[float, float, float, float] | None = None,
    mirrored: bool = False,
) -> View:
    """Fit a window of a picture into the input.

    Args:
        picture: its width and height.
        size: height and width of the input.
        fit: one of ``FITS``. A letterbox rounds the bars as YOLO's exports do: the odd pixel is below and on the right.
        window: left, top, width and height of the part to draw; None for all.
        mirrored: whether left and right are exchanged.

    Raises:
        ArgumentError: if ``fit`` is none of these.
    """
    if fit not in FITS:
        raise ArgumentError(f"a picture is fitted by one of {', '.join(FITS)}, not {fit!r}.")
    window = window or (0.0, 0.0, float(picture[0]), float(picture[1]))
    height, width = size
    place = (0, 0, width, height)
    if fit != "stretch":
        ratio = min(width / window[2], height / window[3])
        wide, high = (min(end, max(1, round(side * ratio))) for side, end in ((window[2], width), (window[3], height)))
        left, top = ((width - wide) // 2, (height - high) // 2) if fit == "letterbox" else (0, 0)
        place = (left, top, wide, high)
    return View(picture, window, place, size, mirrored)


def joined_arrays(arrays: Sequence[Array], views: Sequence[View], axis: int = -2) -> Array:
    """Join arrays over the whole input into one: of each, what its view shows there; around these, the first array.

    Args:
        arrays: of one shape.
        views: of each array, whose parts of the input do not overlap.
        axis: of the height, counted from the end; the next one is the width.
    """
    whole = np.array(arrays[0])
    for array, view in zip(arrays[1:], views[1:], strict=True):
        left, top, right, bottom = view.shown
        # seen as [rows, columns, ...], which are the same memory
        target, source = (np.moveaxis(each, (axis, axis + 1), (0, 1)) for each in (whole, array))
        target[top:bottom, left:right] = source[top:bottom, left:right]
    return whole


def _padded(image: Any, window: tuple[float, float, float, float], fill: Any) -> tuple[Any, tuple[float, float, float, float]]:
    """The part of a picture that a window shows, on a ground that holds the whole window, and the window in it"""
    from PIL import Image

    left, top = int(np.floor(window[0])), int(np.floor(window[1]))
    right, bottom = int(np.ceil(window[2])), int(np.ceil(window[3]))
    ground = Image.new(image.mode, (right - left, bottom - top), fill)
    part = (max(left, 0), max(top, 0), min(right, image.size[0]), min(bottom, image.size[1]))
    if part[0] < part[2] and part[1] < part[3]:
        ground.paste(image.crop(part), (part[0] - left, part[1] - top))
    return ground, (window[0] - left, window[1] - top, window[2] - left, window[3] - top)
