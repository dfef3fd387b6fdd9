"""Answers of a model as people keep them: masks as pictures, several labels as words.

Tests: tests/training/data/annotated/test_writing.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.internal.files import make_folder, writing
from onnxgrad.training.data.rows import Rows

__all__ = ["labels_in", "mask_classes", "mask_palette", "write_masks"]

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
        raise DataError(f"an output of shape {list(scores.shape)} is no mask [batch, classes, height, width]. Write a table.")
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


def write_masks(folder: Path, classes: Array, rows: Rows) -> list[Path]:
    """Write a .png file with a palette for each mask, of the name and the size of its picture.

    Args:
        folder: made where it is missing.
        classes: [batch, height, width], for all examples of the data in their order.
        rows: the data, whose pictures the masks are brought back to.

    Raises:
        DataError: if the data is not of pictures.
        FileError: if a file cannot be written.
    """
    from PIL import Image

    make_folder(folder)
    written: list[Path] = []
    for number, mask in enumerate(classes):
        view, file = rows.view(number), rows.file(number)
        if view is None:
            raise DataError("the data holds no pictures, which masks are brought back to. Write a table.")
        back = view.mask_back(mask)
        path = folder / f"{f'{number:06}' if file is None else file.stem}.png"
        if path in written:
            path = folder / f"{path.stem}_{number:06}.png"
        if back.max(initial=0) < _BYTES:
            image = Image.fromarray(back.astype(np.uint8))
            image.putpalette(mask_palette(_BYTES))
        else:
            image = Image.fromarray(back.astype(np.uint16))
        with writing(path) as stream:
            image.save(stream, "PNG")
        written.append(path)
    return written


def labels_in(scores: Array, names: Sequence[str], threshold: float = 0.0) -> list[str]:
    """The names of the labels whose score [batch, labels] is above the threshold, with ``;`` between them.

    Example:
        >>> labels_in(np.array([[1.0, -2.0, 0.5], [-1, -1, -1]]), ["bus", "car", "tree"])
        ['bus;tree', '']
    """
    return [";".join(name for name, score in zip(names, row, strict=True) if score > threshold) for row in np.asarray(scores)]
