"""Fields of annotation files, checked one by one: each error names the file and the field.

Tests: tests/training/data/annotated/test_coco.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from onnxgrad.errors import DataError, FileError
from onnxgrad.internal.files import is_file, read_whole
from onnxgrad.training.data.broken import skips_broken

__all__ = ["as_box", "as_number", "as_text", "picture_at", "read_json", "read_lines", "read_text"]

_LARGEST = 1e7
"""Pixels: no picture is as wide."""


def read_text(path: Path) -> str:
    """Read a file of text in UTF-8.

    Raises:
        DataError: if it cannot be read.
    """
    try:
        return read_whole(path).decode("utf-8-sig")
    except FileError as error:
        raise DataError(str(error)) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{str(path)!r} is not written in UTF-8 ({error}). Convert it.") from error


def read_lines(path: Path) -> list[tuple[int, str]]:
    """The lines of a file of text that are not empty, with their numbers from 1."""
    return [(number, line) for number, line in enumerate(read_text(path).splitlines(), 1) if line.strip()]


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        DataError: if it is none.
    """
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{str(path)!r} is not valid JSON ({str(error)[:200]}). Write it again.") from error


def as_number(value: Any, where: str) -> float:
    """A finite number, of JSON or of text.

    Raises:
        DataError: naming the field.
    """
    try:
        number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not abs(number) <= _LARGEST:
        raise DataError(f"{where} is {str(value)[:40]!r}, which is not a number of pixels. Correct it.")
    return number


def as_text(value: Any, where: str) -> str:
    """A text that is not empty.

    Raises:
        DataError: naming the field.
    """
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{where} is {str(value)[:40]!r}, which is not text. Correct it.")
    return value


def as_box(corners: Iterable[Any], where: str) -> list[float]:
    """Corners x1, y1, x2, y2 in this order.

    Raises:
        DataError: if there are not four numbers, or the second corner lies before the first.
    """
    values = [as_number(value, where) for value in corners]
    if len(values) != 4:
        raise DataError(f"{where} has {len(values)} numbers, a box has 4. Correct it.")
    if values[2] < values[0] or values[3] < values[1]:
        raise DataError(
            f"{where} ends before it begins: x from {values[0]:g} to {values[2]:g}, y from {values[1]:g} to {values[3]:g}."
        )
    return values


def picture_at(folders: Iterable[Path], name: str, where: str) -> Path:
    """The picture of a name in the first folder that holds it; where broken examples are left out, one that is missing is named.

    Raises:
        DataError: naming the field and the folders.
    """
    tried = list(folders)
    for folder in tried:
        if is_file(folder / name):
            return folder / name
    if skips_broken():
        return tried[0] / name
    listed = ", ".join(repr(str(folder)) for folder in tried)
    raise DataError(f"{where}: there is no file {name[:80]!r} in {listed}. Put the images there.")
