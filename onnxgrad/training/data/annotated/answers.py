"""Answers that move with the pixels of their picture: boxes, regions and masks of the examples of a data set.

Tests: tests/training/data/annotated/test_answers.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.training.data.views import View, joined_arrays

__all__ = ["IGNORED", "Answers", "Boxes", "Listing", "Masks", "Regions", "numbered"]

Array = np.ndarray[Any, Any]
IGNORED = -1
"""The class of pixels that do not count, and of rows that fill up an array."""


class Answers(Protocol):
    """The answers of all pictures; a row is the number of a picture."""

    kind: str

    def original(self, row: int, picture: tuple[int, int]) -> Any:
        """Return the answer in pixels of the picture, which has this width and height."""
        ...

    def moved(self, row: int, view: View) -> Array:
        """Return the answer in pixels of the model's input."""
        ...

    def joined(self, views: Sequence[tuple[int, View]]) -> Array:
        """Return the answer of an input that shows several pictures, by their numbers, each in a part of its own."""
        ...

    def stacked(self, values: Sequence[Array]) -> Array:
        """Join the moved answers of a batch."""
        ...

    def checksum(self) -> int:
        """Compute a number that differs where answers do: CRC-32 of boxes and corners, of masks the names of their files."""
        ...


@dataclass
class Listing:
    """What a reader of a format finds: the pictures, and for each its answer.

    Attributes:
        paths: of the pictures.
        answers: by the number of a path.
        classes: names by number.
        remarks: lines on how the files were understood.
    """

    paths: list[Path]
    answers: Boxes | Regions | Masks
    classes: list[str]
    remarks: list[str] = field(default_factory=list)


class Boxes:
    """Boxes around things, as (class, x1, y1, x2, y2).

    Args:
        boxes: of each picture, float [n, 5], in its pixels.
        ignored: of each picture, bool [n]: boxes that do not count (crowds, difficult ones): no detection has to find them, and one
            that lies within them is not wrong. They are not trained on.
        shares: whether x and y are shares of the picture's width and height instead.
        sizes: width and height of each picture as the boxes' file has them, None where it does not say.

    Raises:
        DataError: in ``original`` and ``moved``, if a picture has another size than the boxes were drawn for.

    Example:
        >>> from onnxgrad.training.data.views import view_of
        >>> boxes = Boxes([np.array([[1, 10, 10, 50, 30.0]]), np.zeros((0, 5))])
        >>> view = view_of((100, 50), (20, 20), "letterbox")
        >>> boxes.stacked([boxes.moved(row, view) for row in (0, 1)]).tolist()
        [[[1.0, 2.0, 7.0, 10.0, 11.0]], [[-1.0, 0.0, 0.0, 0.0, 0.0]]]
    """

    kind = "boxes"

    def __init__(
        self,
        boxes: Sequence[Array],
        ignored: Sequence[Array] | None = None,
        shares: bool = False,
        sizes: Sequence[tuple[int, int] | None] | None = None,
    ) -> None:
        self.rows = [np.asarray(each, np.float64).reshape(-1, 5) for each in boxes]
        self.ignored = [np.zeros(len(each), bool) for each in self.rows] if ignored is None else list(ignored)
        self.shares = shares
        self.sizes: list[tuple[int, int] | None] = [None] * len(self.rows) if sizes is None else list(sizes)

    def original(self, row: int, picture: tuple[int, int]) -> Array:
        """The boxes of a picture that count, float64 [n, 5]."""
        size = self.sizes[row]
        if size is not None and size != picture:
            turned = ", turned as its metadata says" if size == picture[::-1] else ""
            have, drawn_for = f"{picture[0]} x {picture[1]}", f"{size[0]} x {size[1]}"
            raise DataError(
                f"image {row + 1} has {have} pixels{turned}, but its boxes were drawn for {drawn_for}. "
                "Put the original image back, or draw the boxes again."
            )
        return self._in_pixels(self.rows[row][~self.ignored[row]], picture)

    def left_out(self, row: int, picture: tuple[int, int]) -> Array:
        """The boxes of a picture that do not count, float64 [n, 5]."""
        return self._in_pixels(self.rows[row][self.ignored[row]], picture)

    def moved(self, row: int, view: View) -> Array:
        """The boxes that are seen, float32 [n, 5]; those of class k that do not count have the class -2 - k, and come last."""
        crowds = self.left_out(row, view.picture) * [-1, 1, 1, 1, 1] - [2, 0, 0, 0, 0]
        return view.boxes(np.concatenate([self.original(row, view.picture), crowds])).astype(np.float32)

    def joined(self, views: Sequence[tuple[int, View]]) -> Array:
        """The boxes that are seen of several pictures, as ``moved`` gives them."""
        boxes = np.concatenate([self.moved(row, view) for row, view in views])
        return boxes[np.argsort(boxes[:, 0] < 0, kind="stable")]

    def stacked(self, values: Sequence[Array]) -> Array:
        """Float32 [batch, boxes, 5], filled up with rows of class -1 and zeros; at least one box long."""
        return _padded(values, 5)

    def checksum(self) -> int:
        return _crc(array for each in zip(self.rows, self.ignored, strict=True) for array in each)

    def counts(self) -> dict[int, int]:
        """Count the boxes of each class, without the ignored ones."""
        chosen = [each[~left, 0] for each, left in zip(self.rows, self.ignored, strict=True)]
        numbers, counts = np.unique(np.concatenate([np.zeros(0), *chosen]).astype(np.int64), return_counts=True)
        return {int(number): int(count) for number, count in zip(numbers, counts, strict=True)}

    def _in_pixels(self, boxes: Array, picture: tuple[int, int]) -> Array:
        width, height = picture
        return np.asarray(boxes * [1, width, height, width, height] if self.shares else boxes)


class Regions:
    """Regions with straight edges, such as lines of text.

    Args:
        regions: of each picture, a list of corners, float [points, 2], in its pixels.
        ignored: of each picture, bool [n]: regions that do not count, such as text that nobody can read.

    Example:
        >>> from onnxgrad.training.data.views import view_of
        >>> regions = Regions([[np.array([[0, 0], [40, 0], [40, 20.0]])]], [np.array([False])])
        >>> regions.stacked([regions.moved(0, view_of((40, 20), (10, 10)))]).tolist()
        [[[0.0, 0.0, 0.0, 10.0, 0.0, 10.0, 10.0]]]
    """

    kind = "regions"
    UNREADABLE = -2.0

    def __init__(self, regions: Sequence[Sequence[Array]], ignored: Sequence[Array]) -> None:
        self.rows = [[np.asarray(region, np.float64) for region in each] for each in regions]
        self.ignored = list(ignored)
        self.corners = max((len(region) for each in self.rows for region in each), default=4)

    def original(self, row: int, picture: tuple[int, int]) -> list[Array]:
        """The corners of the regions of a picture that count."""
        return [region for region, left_out in zip(self.rows[row], self.ignored[row], strict=True) if not left_out]

    def moved(self, row: int, view: View) -> Array:
        """Those that are seen, float32 [n, 1 + 2 * corners]: class 0, or -2 where it does not count, and x and y of each corner.

        A region with fewer corners than others repeats its last one. Corners may lie beyond the input.
        """
        rows = []
        for region, left_out in zip(self.rows[row], self.ignored[row], strict=True):
            if view.shows(region):
                corners = np.concatenate([region, np.repeat(region[-1:], self.corners - len(region), axis=0)])
                rows.append([self.UNREADABLE if left_out else 0.0, *view.points(corners).ravel()])
        return np.array(rows, np.float32).reshape(-1, 1 + 2 * self.corners)

    def joined(self, views: Sequence[tuple[int, View]]) -> Array:
        """Those of one picture, as ``moved`` gives them.

        Raises:
            DataError: of several, which would have to be cut.
        """
        if len(views) > 1:
            raise DataError("regions of text are not cropped, so their images cannot be joined. Leave mosaic out (--mosaic).")
        return self.moved(*views[0])

    def stacked(self, values: Sequence[Array]) -> Array:
        """Float32 [batch, regions, 1 + 2 * corners], filled up with rows of class -1 and zeros."""
        return _padded(values, 1 + 2 * self.corners)

    def checksum(self) -> int:
        return _crc([*(region for each in self.rows for region in each), *self.ignored])

    def as_boxes(self) -> Boxes:
        """The upright boxes around the regions, all of class 0."""
        boxes = [[[0.0, *region.min(axis=0), *region.max(axis=0)] for region in each] for each in self.rows]
        return Boxes([np.array(each, np.float64) for each in boxes], self.ignored)


class Masks:
    """The class of each pixel.

    Args:
        paths: of the mask of each picture, or of one file for each channel; or whatever else ``read`` takes, with a ``name``.
        read: gives the classes [height, width] of a file, with -1 for pixels that do not count.
        channels: how many 0/1 channels a model takes instead of class numbers; 0 for class numbers. One channel is 1 where the
            class is not 0, several are 1 where the class is theirs. Of several files, each is a channel.
        size: height and width of the model's mask, where that is not the size of its input.

    Raises:
        DataError: in ``moved``, if the sizes of a picture and of its mask differ, or pixels that do not count would need a place in
            0/1 channels.
    """

    kind = "mask"

    def __init__(
        self,
        paths: Sequence[Sequence[Any]],
        read: Callable[[Any], Array],
        channels: int = 0,
        size: tuple[int, int] | None = None,
    ) -> None:
        self.paths, self.read, self.channels, self.size = list(paths), read, channels, size

    def original(self, row: int, picture: tuple[int, int]) -> Array:
        """The classes of all pixels, int [height, width], or 0/1 channels, float32 [channels, height, width]."""
        layers = []
        for path in self.paths[row]:
            mask = self.read(path)
            if mask.shape != picture[::-1]:
                have, want = f"{mask.shape[1]} x {mask.shape[0]}", f"{picture[0]} x {picture[1]}"
                raise DataError(f"the mask {str(path)!r} has {have} pixels, its image {want}. Make them equal.")
            layers.append(mask)
        if not self.channels:
            return layers[0]
        for path, layer in zip(self.paths[row], layers, strict=True):
            if (layer == IGNORED).any():
                raise DataError(
                    f"{str(path)!r} has pixels that do not count, but the model's output has 0/1 channels, which cannot leave any "
                    "out. Give these pixels a class."
                )
        if len(layers) > 1:
            return np.stack([layer > 0 for layer in layers]).astype(np.float32)
        if self.channels == 1:
            return (layers[0] > 0)[None].astype(np.float32)
        return np.asarray(layers[0][None] == np.arange(self.channels)[:, None, None], np.float32)

    def moved(self, row: int, view: View) -> Array:
        """Int64 [height, width] or float32 [channels, height, width]; what lies around the picture is -1, in channels 0."""
        return self.joined([(row, view)])

    def joined(self, views: Sequence[tuple[int, View]]) -> Array:
        """The mask of an input that shows several pictures, as ``moved`` gives it."""
        from PIL import Image

        layers = joined_arrays([self._drawn(row, view) for row, view in views], [view for _, view in views])
        if self.size is not None and self.size != views[0][1].size:
            images = [Image.fromarray(layer).resize(self.size[::-1], Image.Resampling.NEAREST) for layer in layers]
            layers = np.stack([np.asarray(image) for image in images])
        return layers.astype(np.float32) if self.channels else layers[0].astype(np.int64)

    def _drawn(self, row: int, view: View) -> Array:
        """The layers of a picture's mask over the whole input, int32 [layers, height, width]"""
        from PIL import Image

        mask = self.original(row, view.picture)
        layers = mask[None] if mask.ndim == 2 else mask
        fill = 0 if self.channels else IGNORED
        images = [view.image(Image.fromarray(layer.astype(np.int32)), fill, Image.Resampling.NEAREST) for layer in layers]
        return np.stack([np.asarray(image) for image in images])

    def stacked(self, values: Sequence[Array]) -> Array:
        return np.stack(values)

    def checksum(self) -> int:
        return zlib.crc32("\0".join(path.name for each in self.paths for path in each).encode("utf-8", "backslashreplace"))


def _crc(arrays: Iterable[Array]) -> int:
    checksum = 0
    for array in arrays:
        checksum = zlib.crc32(f"{array.shape}".encode() + np.ascontiguousarray(array).tobytes(), checksum)
    return checksum


def _padded(values: Sequence[Array], width: int) -> Array:
    longest = max(1, *map(len, values))
    batch = np.zeros((len(values), longest, width), np.float32)
    batch[..., 0] = IGNORED
    for row, value in zip(batch, values, strict=True):
        row[: len(value)] = value
    return batch


def numbered(names: Sequence[str], known: Sequence[str] | None, where: str) -> list[int]:
    """The numbers that the training data gives to class names: all have one.

    Raises:
        DataError: naming the class that the training data lacks.
    """
    if known is None:
        return list(range(len(names)))
    number: Mapping[str, int] = {name: i for i, name in enumerate(known)}
    unknown = next((name for name in names if name not in number), None)
    if unknown is not None:
        listed = ", ".join(list(known)[:10])
        raise DataError(f"{where}: the class {unknown!r} is not a class of the training data: {listed}.")
    return [number[name] for name in names]
