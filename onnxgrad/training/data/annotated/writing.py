"""Answers of a model as people keep them: masks as pictures, several labels as words.

Tests: tests/training/data/annotated/test_writing.py.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.internal.files import make_folder, writing
from onnxgrad.training.data.rows import Rows

__all__ = ["answer_files", "labels_in", "mask_classes", "mask_palette", "write_masks"]

Array = np.ndarray[Any, Any]
_BYTES = 256


def mask_classes(scores: Array, threshold: float = 0.0) -> Array:
    """The class of each pixel, int64 [batch, height, width].

    Args:
        scores: [batch, classes, height, width], of which the largest counts; of one class, 1 where it is above the threshold.
            Classes themselves, [batch, height, width] of integers, stay.
        threshold: 0 for logits, one half for probabilities.

    Raises:
        DataError: if they are none of these.

    Example:
        >>> mask_classes(np.array([[[[0.2, 3.0]], [[1.0, 0.5]]]])).tolist()
        [[[1, 0]]]
    """
    scores = np.asarray(scores)
    if scores.ndim == 3 and scores.dtype.kind in "iu":
        return scores.astype(np.int64)
    if scores.ndim != 4:
        raise DataError(f"an output of shape {list(scores.shape)} is not a mask [batch, classes, height, width]. Write a table.")
    if scores.shape[1] == 1:
        return (scores[:, 0] > threshold).astype(np.int64)
    return np.asarray(scores.argmax(axis=1), np.int64)


def mask_palette(classes: int) -> list[int]:
    """Red, green and blue of each class one after the other, as Pascal VOC colours them: the bits of a class, spread.

    Example:
        >>> mask_palette(3)
        [0, 0, 0, 128, 0, 0, 0, 128, 0]
    """
    palette = []
    for number in range(classes):
        for channel in range(3):
            bits = ((number >> (3 * bit + channel) & 1) << (7 - bit) for bit in range(3))
            palette.append(sum(bits))
    return palette


def answer_files(folder: Path, rows: Rows) -> list[Path]:
    """Name a .png file for each picture of the data: its own name, in the folders below the one that holds all pictures.

    Args:
        folder: for the files; it need not be there.
        rows: the data. A picture without a file gets its number, and of equal names the later ones theirs.

    Raises:
        DataError: if the data is not of pictures, or a picture itself lies where its file would be written.
    """
    pictures = [rows.file(number) for number in range(len(rows))]
    if rows.view(0) is None:
        raise DataError("the data has no image files to name the masks after. Write a table.")
    places = [None if file is None else Path(os.path.abspath(file)) for file in pictures]  # of a link, where the link lies
    above = os.path.commonpath([place.parent for place in places if place is not None] or [Path.cwd()])
    own = {file.resolve() for file in pictures if file is not None}
    names: list[Path] = []
    taken: set[Path] = set()
    for number, place in enumerate(places):
        name = Path(f"{number:06}.png" if place is None else os.path.relpath(place, above)).with_suffix(".png")
        while name in taken:
            name = name.with_stem(f"{name.stem}_{number:06}")
        taken.add(name)
        names.append(name)
        if (folder / name).resolve() in own:
            raise DataError(f"{str(folder / name)!r} is an image of the data. Name another folder.")
    return [folder / name for name in names]


def write_masks(folder: Path, classes: Array, rows: Rows) -> list[Path]:
    """Write a .png file with a palette for each mask, of the name and the size of its picture.

    Args:
        folder: made where it is missing.
        classes: [batch, height, width], for all examples of the data in their order.
        rows: the data, whose pictures the masks are brought back to.

    Raises:
        DataError: as ``answer_files`` does.
        FileError: if a file cannot be written.
    """
    from PIL import Image

    files = answer_files(folder, rows)
    for number, (path, mask) in enumerate(zip(files, classes, strict=True)):
        view = rows.view(number)
        assert view is not None
        back = view.mask_back(mask)
        if back.max(initial=0) < _BYTES:
            image = Image.fromarray(back.astype(np.uint8))
            image.putpalette(mask_palette(_BYTES))
        else:
            image = Image.fromarray(back.astype(np.uint16))
        make_folder(path.parent)
        with writing(path) as stream:
            image.save(stream, "PNG")
    return files


def labels_in(scores: Array, names: Sequence[str], threshold: float = 0.0) -> list[str]:
    """The names of the labels whose score [batch, labels] is above the threshold, with ``;`` between them.

    Example:
        >>> labels_in(np.array([[1.0, -2.0, 0.5], [-1, -1, -1]]), ["bus", "car", "tree"])
        ['bus;tree', '']
    """
    return [";".join(name for name, score in zip(names, row, strict=True) if score > threshold) for row in np.asarray(scores)]
