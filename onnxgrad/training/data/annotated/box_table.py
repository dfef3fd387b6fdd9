"""Boxes of a table: a row for each box, with the path of its picture.

Tests: tests/training/data/annotated/test_box_table.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.training.data.annotated.answers import Boxes, Listing, numbered
from onnxgrad.training.data.annotated.fields import as_box, as_number, picture_at

__all__ = ["box_columns", "read_box_table"]

_CORNERS = (("x1", "y1", "x2", "y2"), ("xmin", "ymin", "xmax", "ymax"), ("left", "top", "right", "bottom"))
_SIDES = (("x", "y", "w", "h"), ("x", "y", "width", "height"), ("left", "top", "width", "height"))
_CLASSES = ("class", "label", "name", "category", "target", "class_name")


def box_columns(header: Sequence[str]) -> tuple[tuple[str, ...], bool] | None:
    """The four columns of a box, and whether they are two corners (else a corner and two sides); None if the table has none.

    Example:
        >>> box_columns(["path", "class", "x", "y", "w", "h"])
        (('x', 'y', 'w', 'h'), False)
    """
    spelled = {name.strip().lower(): name for name in header}
    for names, corners in (*((names, True) for names in _CORNERS), *((names, False) for names in _SIDES)):
        if all(name in spelled for name in names):
            return tuple(spelled[name] for name in names), corners
    return None


def read_box_table(rows: Sequence[Mapping[str, Any]], path: Path, column: str, known: Sequence[str] | None = None) -> Listing:
    """Read boxes from the rows of a table; several rows may name one picture, and a row without a box names a picture without one.

    Args:
        rows: cells by column, as text.
        path: of the table; the pictures' paths are relative to it.
        column: that names the pictures.
        known: names of classes by number, of the training data; else they are numbered by the alphabet, or as they are where all
            are numbers.

    Raises:
        DataError: naming the row and the column of what is missing or damaged.
    """
    header = list(rows[0])
    columns = box_columns(header)
    if columns is None:
        raise DataError(f"{path.name} has no columns of boxes: x1, y1, x2, y2 or x, y, w, h; it has {header}. Rename or add them.")
    names, corners = columns
    spelled = {name.strip().lower(): name for name in header}
    label = next((spelled[name] for name in _CLASSES if name in spelled), None)
    if label is None:
        raise DataError(f"{path.name} has no column of classes; it has {header}. Call it 'class'.")
    paths: dict[str, int] = {}
    files: list[Path] = []
    found: list[list[tuple[str, list[float]]]] = []
    for number, row in enumerate(rows, 1):
        where = f"{path.name}, row {number}"
        name = str(row[column]).strip()
        if name not in paths:
            paths[name] = len(files)
            files.append(picture_at((path.parent,), name, f"{where}, column {column!r}"))
            found.append([])
        cells = [row[part] for part in names]
        if all(cell is None or not str(cell).strip() for cell in cells):
            continue
        values = [as_number(cell, f"{where}, column {part!r}") for cell, part in zip(cells, names, strict=True)]
        if not corners:
            values = [values[0], values[1], values[0] + values[2], values[1] + values[3]]
        kind = str(row[label] if row[label] is not None else "").strip()
        if not kind:
            raise DataError(f"{where}, column {label!r} is empty. Fill in the class of the box.")
        found[paths[name]].append((kind, as_box(values, f"{where}, columns {', '.join(names)}")))
    kinds = sorted({kind for each in found for kind, _ in each})
    if not kinds:
        raise DataError(f"{path.name} has no box: its columns {', '.join(names)} are empty.")
    classes = _classes(kinds, known)
    numbers = dict(zip(kinds, numbered(kinds, classes, path.name), strict=True))
    boxes = [np.array([[numbers[kind], *box] for kind, box in each], np.float64) for each in found]
    how = "two corners" if corners else "the upper left corner, width and height"
    return Listing(files, Boxes(boxes), classes, [f"boxes of {path.name} are the columns {', '.join(names)}: {how}."])


def _classes(kinds: Sequence[str], known: Sequence[str] | None) -> list[str]:
    """Names by number: where all are numbers, each is its own"""
    if known is not None:
        return list(known)
    if all(kind.isdecimal() and len(kind) < 6 for kind in kinds):
        return [str(number) for number in range(max(map(int, kinds)) + 1)]
    return list(kinds)
