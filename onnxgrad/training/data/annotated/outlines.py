"""Masks of COCO files: outlines (polygons) and run lengths (RLE) of things, drawn as the classes of pixels.

Tests: tests/training/data/annotated/test_outlines.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.training.data.annotated.answers import IGNORED
from onnxgrad.training.data.annotated.fields import as_number

__all__ = ["BACKGROUND", "Outline", "Outlines", "as_outline", "drawn_outlines", "fill_polygon", "read_run_lengths"]

Array = np.ndarray[Any, Any]
BACKGROUND = "background"
"""The class of pixels that belong to no thing: number 0."""


@dataclass(frozen=True)
class Outline:
    """A thing of a picture.

    Attributes:
        kind: its class.
        parts: polygons, x and y of one corner after the other; the thing is all that any of them encloses.
        runs: instead of them, lengths of runs of pixels outside and inside by turns, column by column.
        size: height and width of the picture of ``runs``.
        is_crowd: whether its pixels do not count.
    """

    kind: int
    parts: tuple[tuple[float, ...], ...] = ()
    runs: tuple[int, ...] = ()
    size: tuple[int, int] = (0, 0)
    is_crowd: bool = False

    def drawn(self, height: int, width: int) -> Array:
        """The pixels that belong to it, bool [height, width].

        Raises:
            DataError: if its runs are of a picture of another size.
        """
        if not self.runs:
            mask = np.zeros((height, width), bool)
            for part in self.parts:
                mask |= fill_polygon(np.reshape(part, (-1, 2)), height, width)
            return mask
        if self.size != (height, width):
            raise DataError(f"runs of pixels are of {self.size[1]} x {self.size[0]} pixels, not {width} x {height}. Correct them.")
        inside = np.arange(len(self.runs)) % 2 == 1
        return np.repeat(inside, self.runs).reshape(width, height).T


@dataclass(frozen=True)
class Outlines:
    """The things of one picture, which stand where other data has the file of a mask.

    Attributes:
        where: the picture, for messages.
        size: height and width of the picture.
        things: of it.
    """

    where: str
    size: tuple[int, int]
    things: tuple[Outline, ...]

    def __str__(self) -> str:
        return self.where

    @property
    def name(self) -> str:
        """A text that differs where the things do."""
        return f"{self.where} {self.size} {zlib.crc32(repr(self.things).encode()):08x}"


def drawn_outlines(outlines: Outlines) -> Array:
    """Draw the classes of pixels, int64 [height, width]: 0 for the background, k + 1 for the class k, -1 for crowds.

    Where things overlap, the smaller one is drawn over the larger one; crowds are below all.

    Example:
        >>> thing = Outline(1, ((1, 0, 3, 0, 3, 2, 1, 2),))
        >>> drawn_outlines(Outlines("a.png", (2, 4), (thing,))).tolist()
        [[0, 2, 2, 0], [0, 2, 2, 0]]
    """
    drawn = [(thing, thing.drawn(*outlines.size)) for thing in outlines.things]
    drawn.sort(key=lambda each: (not each[0].is_crowd, -int(each[1].sum())))
    classes = np.zeros(outlines.size, np.int64)
    for thing, mask in drawn:
        classes[mask] = IGNORED if thing.is_crowd else thing.kind + 1
    return classes


def fill_polygon(corners: Array, height: int, width: int) -> Array:
    """Find the pixels whose middle a polygon encloses, by the even-odd rule: bool [height, width].

    Args:
        corners: [n, 2], x and y.
        height, width: of the picture; the polygon may reach beyond it.

    Example:
        >>> fill_polygon(np.array([[0, 0], [2, 0], [2, 1], [0, 1]]), 2, 3).tolist()
        [[True, True, False], [False, False, False]]
    """
    corners = np.asarray(corners, np.float64)
    others = np.roll(corners, -1, axis=0)
    turns = np.zeros((height, width + 1), np.int64)
    for (x1, y1), (x2, y2) in zip(corners, others, strict=True):
        if y1 == y2:
            continue
        first, last = (int(np.clip(np.ceil(y - 0.5), 0, height)) for y in (min(y1, y2), max(y1, y2)))
        rows = np.arange(first, last)
        x = x1 + (rows + 0.5 - y1) * (x2 - x1) / (y2 - y1)
        turns[rows, np.clip(np.ceil(x - 0.5), 0, width).astype(np.int64)] += 1
    inside: Array = np.cumsum(turns[:, :width], axis=1) % 2 == 1
    return inside


def read_run_lengths(value: Any, where: str) -> tuple[tuple[int, ...], tuple[int, int]]:
    """Read the runs of a segmentation: a list of lengths, or COCO's text of them.

    The text has six-bit characters from ``0`` on: five bits of a number each, the lowest first, and one that says that more follow;
    the highest bit of the last is the sign. From the fourth number on, each is the difference from the one two before.

    Args:
        value: ``{"counts": ..., "size": [height, width]}``.
        where: the field, for messages.

    Returns:
        The lengths, and height and width.

    Raises:
        DataError: naming the field.

    Example:
        >>> read_run_lengths({"counts": "123", "size": [2, 3]}, "a")
        ((1, 2, 3), (2, 3))
    """
    size = value.get("size")
    if not isinstance(size, list) or len(size) != 2:
        raise DataError(f"{where}.size is {str(size)[:40]!r}, not [height, width]. Correct it.")
    height, width = (int(as_number(side, f"{where}.size")) for side in size)
    counts = value.get("counts")
    if isinstance(counts, str):
        runs = _from_text(counts, where)
    elif isinstance(counts, list):
        runs = [int(as_number(count, f"{where}.counts")) for count in counts]
    else:
        raise DataError(f"{where}.counts is {str(counts)[:40]!r}, neither a list nor a string of run lengths. Correct it.")
    if min(runs, default=0) < 0 or sum(runs) != height * width or height < 1 or width < 1:
        raise DataError(f"{where}.counts has runs of {sum(runs)} pixels in all, the size {height} x {width}. Correct it.")
    return tuple(runs), (height, width)


def _from_text(text: str, where: str) -> list[int]:
    runs: list[int] = []
    number = shift = 0
    for character in text:
        bits = ord(character) - 48
        if not 0 <= bits < 64:
            raise DataError(f"{where}.counts has the character {character!r}, which run lengths do not use. Correct it.")
        number |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            number -= 1 << shift
        runs.append(number + (runs[-2] if len(runs) > 2 else 0))
        number = shift = 0
    if shift:
        raise DataError(f"{where}.counts ends within a number. Correct it.")
    return runs


def as_outline(kind: int, value: Any, is_crowd: bool, where: str) -> Outline:
    """Read the field ``segmentation`` of an annotation: polygons, or runs.

    Raises:
        DataError: naming the field.
    """
    if isinstance(value, dict):
        runs, size = read_run_lengths(value, where)
        return Outline(kind, runs=runs, size=size, is_crowd=is_crowd)
    if not isinstance(value, list) or not value:
        raise DataError(f"{where} is {str(value)[:40]!r}: neither polygons nor runs. Draw the outline, or train on boxes.")
    parts: list[tuple[float, ...]] = []
    for at, part in enumerate(value):
        if not isinstance(part, Sequence) or isinstance(part, str) or len(part) < 6 or len(part) % 2:
            raise DataError(f"{where}[{at}] is {str(part)[:40]!r}, not x and y of three corners or more. Correct it.")
        parts.append(tuple(as_number(number, f"{where}[{at}]") for number in part))
    return Outline(kind, tuple(parts), is_crowd=is_crowd)
