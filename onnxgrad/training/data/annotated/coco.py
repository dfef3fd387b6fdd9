"""Boxes and outlines of COCO: one JSON file with images, annotations and categories (Lin et al. 2014).

Tests: tests/training/data/annotated/test_coco.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.training.data.annotated.answers import Boxes, Listing, Masks, numbered
from onnxgrad.training.data.annotated.fields import as_box, as_number, as_text, picture_at, read_json
from onnxgrad.training.data.annotated.outlines import BACKGROUND, Outline, Outlines, as_outline, drawn_outlines

__all__ = ["is_coco", "read_coco", "read_coco_masks"]


def is_coco(record: Any) -> bool:
    """Return whether the content of a JSON file lists images and annotations."""
    return isinstance(record, dict) and all(isinstance(record.get(name), list) for name in ("images", "annotations"))


def read_coco(path: Path, known: Sequence[str] | None = None) -> Listing:
    """Read the boxes of a COCO file.

    Classes are numbered from 0 in the order of the categories' ids. The pictures lie beside the file, or in ``images/`` beside it
    or beside its folder, or in the folder of its name (``instances_val2017.json``: ``val2017/``). Boxes of crowds do not count.

    Args:
        path: of the file.
        known: names of classes by number, of the training data.

    Raises:
        DataError: naming the file and the entry of what is missing or damaged.
    """
    file = _File(path, known)
    boxes: list[list[list[float]]] = [[] for _ in file.paths]
    crowds: list[list[bool]] = [[] for _ in file.paths]
    for row, kind, entry, field in file.annotations():
        boxes[row].append([kind, *_corners(entry.get("bbox"), f"{field}.bbox")])
        crowds[row].append(_is_crowd(entry, field))
    answers = Boxes([np.array(each, np.float64) for each in boxes], [np.array(each, bool) for each in crowds], sizes=file.sizes)
    left = sum(map(sum, crowds))
    remarks = [f"{left} boxes of crowds in {path.name} are ignored."] if left else []
    return Listing(file.paths, answers, file.classes, remarks)


def read_coco_masks(path: Path, known: Sequence[str] | None = None) -> Listing:
    """Read the outlines of a COCO file as masks: class 0 is the background, and the others follow in the order of ``read_coco``.

    Args:
        path: of the file; see ``read_coco``.
        known: names of classes by number, of the training data, with the background first.

    Raises:
        DataError: naming the file and the entry of what is missing or damaged.
    """
    file = _File(path, None if known is None else [name for name in known if name != BACKGROUND])
    things: list[list[Outline]] = [[] for _ in file.paths]
    for row, kind, entry, field in file.annotations():
        things[row].append(as_outline(kind, entry.get("segmentation"), _is_crowd(entry, field), f"{field}.segmentation"))
    sizes = [(0, 0) if size is None else size for size in file.sizes]
    unsized = next((row for row, size in enumerate(sizes) if size == (0, 0)), None)
    if unsized is not None:
        raise DataError(f"{path.name}, images[{unsized}] has no width and height, which the outlines need. Add them.")
    outlines = [
        Outlines(str(picture), size[::-1], tuple(each)) for picture, size, each in zip(file.paths, sizes, things, strict=True)
    ]
    left = sum(thing.is_crowd for each in things for thing in each)
    remarks = [f"pixels of {left} crowds in {path.name} are ignored."] if left else []
    remarks.append(f"outlines in {path.name} are drawn as masks: 0 is the background, the classes follow.")
    return Listing(file.paths, Masks([[each] for each in outlines], drawn_outlines), [BACKGROUND, *file.classes], remarks)


class _File:
    """The pictures and classes of a COCO file.

    Attributes:
        paths: of the pictures.
        sizes: width and height of each, as the file has them; None where it does not say.
        classes: names by number.
    """

    def __init__(self, path: Path, known: Sequence[str] | None) -> None:
        self.where, self.record = path.name, read_json(path)
        if not is_coco(self.record):
            raise DataError(f"{str(path)!r} lists no 'images' and 'annotations', which a COCO file has. Give another.")
        names = _categories(self.record, self.where)
        self.classes = list(known) if known is not None else list(names.values())
        self._numbers = dict(zip(names, numbered(list(names.values()), known, self.where), strict=True))
        folders = _folders(path)
        self._rows: dict[Any, int] = {}
        self.sizes: list[tuple[int, int] | None] = []
        self.paths: list[Path] = []
        for at, image in enumerate(self.record["images"]):
            field = f"{self.where}, images[{at}]"
            entry = _entry(image, field)
            key = _key(entry.get("id"), f"{field}.id")
            if key in self._rows:
                raise DataError(f"{field}.id is {key!r}, which another image has. Give each its own.")
            self._rows[key] = len(self.paths)
            sides = [as_number(entry.get(name, 0), f"{field}.{name}") for name in ("width", "height")]
            self.sizes.append((int(sides[0]), int(sides[1])) if min(sides) > 0 else None)
            self.paths.append(picture_at(folders, as_text(entry.get("file_name"), f"{field}.file_name"), f"{field}.file_name"))

    def annotations(self) -> Iterator[tuple[int, int, dict[str, Any], str]]:
        """The number of the picture and the class of each annotation, the annotation, and its name for messages."""
        for at, annotation in enumerate(self.record["annotations"]):
            field = f"{self.where}, annotations[{at}]"
            entry = _entry(annotation, field)
            image, category = (_key(entry.get(name), f"{field}.{name}") for name in ("image_id", "category_id"))
            if image not in self._rows:
                raise DataError(f"{field}.image_id is {image!r}, which no image has. Correct it, or leave the annotation out.")
            if category not in self._numbers:
                advice = "Correct it, or leave the annotation out."
                raise DataError(f"{field}.category_id is {category!r}, which no category has. {advice}")
            yield self._rows[image], self._numbers[category], entry, field
        if not self.paths:
            raise DataError(f"{self.where} lists no images.")


def _is_crowd(entry: dict[str, Any], field: str) -> bool:
    return as_number(entry.get("iscrowd", 0), f"{field}.iscrowd") != 0


def _categories(record: dict[str, Any], where: str) -> dict[Any, str]:
    """Names by id, in the order of the ids"""
    categories = record.get("categories")
    if not isinstance(categories, list) or not categories:
        raise DataError(f"{where} has no 'categories'. Write the names of the classes into it.")
    names: dict[Any, str] = {}
    for at, category in enumerate(categories):
        entry = _entry(category, f"{where}, categories[{at}]")
        key = _key(entry.get("id"), f"{where}, categories[{at}].id")
        if key in names:
            raise DataError(f"{where}, categories[{at}].id is {key!r}, which another category has. Give each its own.")
        names[key] = as_text(entry.get("name"), f"{where}, categories[{at}].name")
    if len(set(names.values())) < len(names):
        doubled = next(name for name in names.values() if list(names.values()).count(name) > 1)
        raise DataError(f"{where} has two categories {doubled!r}. Rename one.")
    return {key: names[key] for key in sorted(names, key=lambda key: (isinstance(key, str), key))}


def _entry(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{field} is {str(value)[:40]!r}, not an object. Correct it.")
    return value


def _key(value: Any, field: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise DataError(f"{field} is {str(value)[:40]!r}, which is not a number. Correct it.")
    return value


def _corners(value: Any, field: str) -> list[float]:
    if not isinstance(value, list) or len(value) != 4:
        raise DataError(f"{field} is {str(value)[:40]!r}, not [x, y, width, height]. Correct it.")
    x, y, width, height = (as_number(each, field) for each in value)
    return as_box((x, y, x + width, y + height), field)


def _folders(path: Path) -> list[Path]:
    name = path.stem.removeprefix("instances_")
    beside, above = path.parent, path.parent.parent
    return [beside, beside / "images", above, above / "images", beside / name, above / name, above / "images" / name]
