"""Boxes of YOLO: a text file for each picture, and a data.yaml that names folders and classes.

Tests: tests/training/data/annotated/test_yolo.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import DataError, OnnxGradError
from onnxgrad.training.data.annotated.answers import Boxes, Listing, numbered
from onnxgrad.training.data.annotated.fields import as_number, as_text, picture_at, read_lines, read_text
from onnxgrad.training.data.picture_files import images_in

__all__ = ["read_yolo", "read_yolo_folder"]

_BEYOND = 1e-3
"""How far a share may lie outside 0 to 1: tools round."""
_MOST = 100_000


def read_yolo(path: Path, part: str = "train", known: Sequence[str] | None = None) -> Listing:
    """Read the boxes of the pictures that a data.yaml names.

    Args:
        path: of the .yaml file: ``names``, and ``train`` and ``val``, each a folder of pictures, a list of folders, or a .txt file
            with a path on each line; relative to ``path`` in it, or to the file. The boxes of ``images/a.jpg`` stand in
            ``labels/a.txt``, or beside it; a picture without a file has none.
        part: ``"train"``, ``"val"`` or ``"test"``: which pictures.
        known: names of classes by number, of the training data.

    Raises:
        DataError: naming the file and the key or line of what is missing or damaged.
        OnnxGradError: if PyYAML is missing.
    """
    record = _read_yaml(path)
    where = path.name
    names = _names(record, where)
    numbers = numbered(names, known, where)
    value = record.get(part)
    entries: list[Any] = value if isinstance(value, list) else [value]
    if not value or not all(isinstance(entry, str) for entry in entries):
        raise DataError(f"{where} has no {part!r} that names a folder of images; it has {sorted(map(str, record))}. Add it.")
    base = record.get("path")
    paths = []
    for entry in entries:
        paths += _pictures(entry, path, base if isinstance(base, str) else "", f"{where}, {part}")
    if not paths:
        raise DataError(f"{where}, {part}: {entries[0]!r} holds no images.")
    listing = _listed(paths, names, known, numbers)
    other = {"train": "val"}.get(part)
    if other is not None and record.get(other):
        listing.remarks.append(f"{where} also names images for validation: give {where} as validation (--val) to use them.")
    return listing


def read_yolo_folder(path: Path, known: Sequence[str] | None = None) -> Listing:
    """Read the boxes of a folder with ``images/`` and ``labels/``; ``classes.txt`` in it names the classes.

    Raises:
        DataError: naming the file and the line of what is missing or damaged.
    """
    named = [path / "classes.txt", path / "labels" / "classes.txt"]
    file = next((each for each in named if each.is_file()), None)
    own = [] if file is None else [line.strip() for _, line in read_lines(file)]
    numbers = numbered(own, known, str(file)) if own else None
    names = own if own or known is None else list(known)
    paths = sorted(images_in(path / "images"))
    if not paths:
        raise DataError(f"{str(path / 'images')!r} holds no images.")
    return _listed(paths, names, known, numbers)


def _listed(
    paths: list[Path], names: list[str], known: Sequence[str] | None = None, numbers: Sequence[int] | None = None
) -> Listing:
    """The boxes of pictures, whose classes get the numbers that they have in the training data"""
    boxes = [_boxes_of(path, len(names)) for path in paths]
    largest = int(max((each[:, 0].max() for each in boxes if len(each)), default=-1))
    empty = sum(not len(each) for each in boxes)
    if largest < 0:
        raise DataError(f"no image beside {str(paths[0])!r} has a label file: images/a.jpg needs labels/a.txt. Write them.")
    remarks = [f"{empty} of {len(paths)} images have no boxes."] if empty else []
    if known is not None and numbers is not None:
        for each in boxes:
            each[:, 0] = np.array(numbers, np.float64)[each[:, 0].astype(np.int64)]
        names = list(known)
    return Listing(paths, Boxes(boxes, shares=True), names or [str(number) for number in range(largest + 1)], remarks)


def _boxes_of(path: Path, classes: int) -> Any:
    """Shares (class, x1, y1, x2, y2) of the file of a picture; outlines count as the boxes around them"""
    file = _labels_of(path)
    rows = []
    for number, line in read_lines(file) if file is not None else ():
        where = f"{file}, line {number}"
        cells = line.split()
        values = [as_number(cell, where) for cell in cells]
        if len(values) != 5 and (len(values) < 7 or len(values) % 2 == 0):
            raise DataError(f"{where} has {len(values)} numbers; a box has 5: class, x and y of its centre, width, height.")
        if values[0] != int(values[0]) or not 0 <= values[0] < (classes or _MOST):
            known = f"the classes are 0 to {classes - 1}" if classes else "classes are numbers from 0"
            raise DataError(f"{where} has the class {cells[0]}; {known}. Correct it, or add the name to the list of classes.")
        if min(values[1:]) < -_BEYOND or max(values[1:]) > 1 + _BEYOND:
            raise DataError(
                f"{where} has a value outside 0 to 1; coordinates are fractions of width and height. Divide pixels by the size."
            )
        if len(values) == 5:
            x, y, width, height = values[1:]
            rows.append([values[0], x - width / 2, y - height / 2, x + width / 2, y + height / 2])
        else:
            xs, ys = values[1::2], values[2::2]
            rows.append([values[0], min(xs), min(ys), max(xs), max(ys)])
    return np.array(rows, np.float64).reshape(-1, 5)


def _labels_of(path: Path) -> Path | None:
    """The file of boxes of a picture: in ``labels`` where it lies in ``images``, or beside it"""
    parts = list(path.parent.parts)
    candidates = [path.with_suffix(".txt")]
    if "images" in parts:
        at = len(parts) - 1 - parts[::-1].index("images")
        candidates.insert(0, Path(*parts[:at], "labels", *parts[at + 1 :]) / f"{path.stem}.txt")
    return next((file for file in candidates if file.is_file()), None)


def _read_yaml(path: Path) -> dict[str, Any]:
    """The keys of a .yaml file; all values stay texts, as they are written"""
    try:
        import yaml
    except ImportError as error:
        raise OnnxGradError("data.yaml needs the package PyYAML. Install onnxgrad[images].") from error
    try:
        record = yaml.load(read_text(path), Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 1}"
        reason = " ".join(str(getattr(error, "problem", None) or error).split())[:200]
        raise DataError(f"{path.name}{line} is not valid YAML: {reason}. Correct it.") from error
    if not isinstance(record, dict):
        raise DataError(f"{str(path)!r} holds no keys. Write train, val and names into it.")
    return record


def _names(record: dict[str, Any], where: str) -> list[str]:
    names = record.get("names")
    if isinstance(names, dict):
        numbers = [key for key in names if not (isinstance(key, str) and key.isdecimal() and len(key) < 7)]
        if numbers or sorted(map(int, names)) != list(range(len(names))):
            raise DataError(f"{where}, names: the keys are {list(names)[:10]}; they count the classes from 0. Correct them.")
        names = [names[key] for key in sorted(names, key=int)]
    if not isinstance(names, list) or not names or len(names) > _MOST:
        raise DataError(f"{where} has no 'names', a list of the classes. Add it.")
    texts = [as_text(name, f"{where}, names[{at}]") for at, name in enumerate(names)]
    count = record.get("nc")
    if count is not None and count != str(len(texts)):
        raise DataError(f"{where}: nc is {str(count)[:20]}, but 'names' has {len(texts)} classes. Make them equal.")
    return texts


def _pictures(entry: str, path: Path, base: str, field: str) -> list[Path]:
    """The pictures that an entry of data.yaml names; some tools write ../train/images for what lies beside the file"""
    try:
        folders = [path.parent / base, path.parent]
        candidates = [folder / each for each in (entry, entry.removeprefix("../")) for folder in folders]
        place = next((each for each in candidates if each.exists()), None)
    except (OSError, ValueError):
        place = None
    if place is None:
        raise DataError(
            f"{field}: there is no {str(entry)[:80]!r} beside the file{' or in ' + repr(base) if base else ''}. Correct it."
        )
    if place.is_dir():
        return sorted(images_in(place))
    lines = read_lines(place)
    return [picture_at((place.parent, *folders), line.strip(), f"{place.name}, line {number}") for number, line in lines]
