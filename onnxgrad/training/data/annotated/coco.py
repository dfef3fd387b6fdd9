"""Boxes of COCO: one JSON file with images, annotations and categories (Lin et al. 2014).

Tests: tests/training/data/annotated/test_coco.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.training.data.annotated.answers import Boxes, Listing, numbered
from onnxgrad.training.data.annotated.fields import as_box, as_number, as_text, picture_at, read_json

__all__ = ["is_coco", "read_coco"]


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
    record = read_json(path)
    where = path.name
    if not is_coco(record):
        raise DataError(f"{str(path)!r} lists no 'images' and 'annotations', which a COCO file has. Give another.")
    names = _categories(record, where)
    numbers = dict(zip(names, numbered(list(names.values()), known, where), strict=True))
    folders = _folders(path)
    rows: dict[Any, int] = {}
    sizes: list[tuple[int, int] | None] = []
    paths: list[Path] = []
    for at, image in enumerate(record["images"]):
        field = f"{where}, images[{at}]"
        entry = _entry(image, field)
        key = _key(entry.get("id"), f"{field}.id")
        if key in rows:
            raise DataError(f"{field}.id is {key!r}, which another image has. Give each its own.")
        rows[key] = len(paths)
        sides = [as_number(entry.get(name, 0), f"{field}.{name}") for name in ("width", "height")]
        sizes.append((int(sides[0]), int(sides[1])) if min(sides) > 0 else None)
        paths.append(picture_at(folders, as_text(entry.get("file_name"), f"{field}.file_name"), f"{field}.file_name"))
    boxes: list[list[list[float]]] = [[] for _ in paths]
    crowds: list[list[bool]] = [[] for _ in paths]
    for at, annotation in enumerate(record["annotations"]):
        field = f"{where}, annotations[{at}]"
        entry = _entry(annotation, field)
        image, category = (_key(entry.get(name), f"{field}.{name}") for name in ("image_id", "category_id"))
        if image not in rows:
            raise DataError(f"{field}.image_id is {image!r}, which no image has. Correct it, or leave the annotation out.")
        if category not in numbers:
            raise DataError(f"{field}.category_id is {category!r}, which no category has. Correct it, or leave the annotation out.")
        boxes[rows[image]].append([numbers[category], *_corners(entry.get("bbox"), f"{field}.bbox")])
        crowds[rows[image]].append(as_number(entry.get("iscrowd", 0), f"{field}.iscrowd") != 0)
    if not paths:
        raise DataError(f"{str(path)!r} lists no images.")
    answers = Boxes([np.array(each, np.float64) for each in boxes], [np.array(each, bool) for each in crowds], sizes=sizes)
    left = sum(map(sum, crowds))
    remarks = [f"{left} boxes of crowds in {where} do not count."] if left else []
    return Listing(paths, answers, list(known) if known is not None else list(names.values()), remarks)


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
        raise DataError(f"{field} is {str(value)[:40]!r}, which is no number of an entry. Correct it.")
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
