"""Regions of text: gt_*.txt of ICDAR (Karatzas et al. 2013, 2015), and Label.txt of PaddleOCR.

Tests: tests/training/data/annotated/test_text_regions.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.training.data.annotated.answers import Listing, Regions
from onnxgrad.training.data.annotated.fields import as_number, picture_at, read_lines
from onnxgrad.training.data.broken import is_left_out
from onnxgrad.training.data.picture_files import images_in

__all__ = ["is_label_file", "read_icdar", "read_label_file"]

Array = np.ndarray[Any, Any]
_UNREADABLE = ("###", "*")
"""Transcriptions of text that nobody can read: it is neither right nor wrong to find it."""


def is_label_file(path: Path) -> bool:
    """Return whether a .txt file has a path and a JSON list on its first line, as PaddleOCR's Label.txt."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            line = file.readline(1_000_000)
    except (OSError, ValueError):
        return False
    name, mark, rest = line.partition("\t")
    return bool(mark and name.strip() and rest.lstrip().startswith("[{"))


def read_label_file(path: Path) -> Listing:
    """Read the regions of a Label.txt: on each line the path of a picture, a tab, and a JSON list of ``points`` and
    ``transcription``. Paths are relative to the file, or to the folder above it.

    Raises:
        DataError: naming the file, the line and the field of what is missing or damaged.
    """
    paths, regions, ignored = [], [], []
    for number, line in read_lines(path):
        where = f"{path.name}, line {number}"
        name, mark, rest = line.partition("\t")
        try:
            entries = json.loads(rest)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where} has no JSON behind a tab ({str(error)[:100]}). Write PATH, a tab and a list.") from error
        if not mark or not isinstance(entries, list):
            raise DataError(f"{where} is not a path, a tab and a list of regions. Correct it.")
        paths.append(picture_at((path.parent, path.parent.parent), name.strip(), where))
        found = [_entry(entry, f"{where}, region {at}") for at, entry in enumerate(entries, 1)]
        regions.append([points for points, _ in found])
        ignored.append(np.array([left for _, left in found], bool))
    return _listing(paths, regions, ignored, path.name)


def read_icdar(path: Path) -> Listing:
    """Read the regions of a folder of pictures and gt_NAME.txt files, in one folder or in two.

    A line has eight numbers, x and y of four corners, and the text (2015), or four, the edges left, top, right and bottom (2013).

    Raises:
        DataError: naming the file and the line of what is missing or damaged.
    """
    pictures = {file.stem.lower(): file for file in sorted(images_in(path))}
    paths, regions, ignored = [], [], []
    for file in sorted(path.rglob("gt_*.txt")):
        picture = pictures.get(file.stem[3:].lower())
        if picture is None:
            reason = f"{str(file)!r} has no image {file.stem[3:]!r} in {str(path)!r}. Put it there."
            if is_left_out(str(file), reason):
                continue
            raise DataError(reason)
        found = [_line(line, f"{file.name}, line {number}") for number, line in read_lines(file)]
        paths.append(picture)
        regions.append([points for points, _ in found])
        ignored.append(np.array([left for _, left in found], bool))
    return _listing(paths, regions, ignored, path.name)


def _listing(paths: list[Path], regions: list[list[Array]], ignored: list[Array], where: str) -> Listing:
    if not any(regions):
        raise DataError(f"{where} holds no regions of text.")
    left = sum(int(each.sum()) for each in ignored)
    remarks = [f"{left} regions of {where} are unreadable and are ignored."] if left else []
    return Listing(paths, Regions(regions, ignored), ["text"], remarks)


def _entry(entry: Any, where: str) -> tuple[Array, bool]:
    if not isinstance(entry, dict):
        raise DataError(f"{where} is {str(entry)[:40]!r}, not an object. Correct it.")
    points = entry.get("points")
    if not isinstance(points, list) or len(points) < 3 or not all(isinstance(p, list) and len(p) == 2 for p in points):
        raise DataError(f"{where}, points is {str(points)[:40]!r}, not three corners [x, y] or more. Correct it.")
    corners = [[as_number(value, f"{where}, points") for value in point] for point in points]
    return np.array(corners), entry.get("transcription") in _UNREADABLE or entry.get("difficult") is True


def _line(line: str, where: str) -> tuple[Array, bool]:
    """Corners and whether the text is unreadable, of one line of gt_*.txt"""
    cells = re.split(r",\s*|\s+", line.strip())
    numbers = 0
    while numbers < min(8, len(cells)) and re.fullmatch(r"[+-]?\d+(\.\d*)?", cells[numbers]):
        numbers += 1
    if numbers < 4:
        raise DataError(f"{where} begins with {numbers} numbers; a region has 8, or 4 edges. Correct it.")
    values = [as_number(cell, where) for cell in cells[:numbers]]
    rest = re.split(r",\s*|\s+", line.strip(), maxsplit=8 if numbers == 8 else 4)[8 if numbers == 8 else 4 :]
    text = rest[0].strip().strip('"') if rest else ""
    if numbers == 8:
        return np.array(values).reshape(4, 2), text in _UNREADABLE
    left, top, right, bottom = values[:4]
    if right < left or bottom < top:
        raise DataError(f"{where} ends before it begins: {line.strip()[:60]!r}. Correct it.")
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]]), text in _UNREADABLE
