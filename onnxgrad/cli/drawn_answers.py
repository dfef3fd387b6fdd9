"""Pictures with the answers of a model drawn over them or written under them, one file for each."""

# Tests: tests/cli/test_predict.py, tests/cli/test_detectors.py, tests/cli/test_tasks.py.

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.cli.answers import Answers
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.files import make_folder, writing
from onnxgrad.training.data.annotated.writing import answer_files
from onnxgrad.training.data.rows import Rows, Stream
from onnxgrad.training.detection.drawing import background_of, draw_boxes, draw_masks, draw_text

__all__ = ["check_pictures", "draw_answers", "draw_detections", "draw_segments"]

Array = np.ndarray[Any, Any]


def check_pictures(rows: Rows | Stream, folder: str) -> Rows:
    """The examples of data whose answers can be drawn.

    Args:
        rows: data to predict.
        folder: for the drawings.

    Raises:
        ArgumentError: if the examples are no pictures.
        DataError: if a drawing would take the place of a picture.
    """
    if not isinstance(rows, Rows) or not len(rows) or rows.view(0) is None:
        raise ArgumentError("--draw is for images, and the data has none. Leave it out.")
    answer_files(Path(folder), rows)
    return rows


def draw_detections(folder: str, rows: Rows, pictures: Sequence[Array], names: Sequence[str] | None) -> None:
    """Draw the boxes [D, 6] of each picture, in its pixels."""
    _draw(folder, rows, lambda number, pixels: draw_boxes(pixels, pictures[number], names=names))


def draw_segments(folder: str, rows: Rows, masks: Array, names: Sequence[str] | None) -> None:
    """Draw masks [batch, height, width] of the model's input, or bool [batch, classes, height, width] that may overlap."""
    background = background_of(names)

    def draw(number: int, pixels: Array) -> Any:
        view = rows.view(number)
        assert view is not None
        mask = masks[number]
        back = view.mask_back(mask) if mask.ndim == 2 else np.stack([view.mask_back(layer) for layer in mask])
        return draw_masks(pixels, back, names, background)

    _draw(folder, rows, draw)


def draw_answers(folder: str, rows: Rows, answers: Sequence[Answers]) -> None:
    """Write what each output says under each picture."""
    _draw(folder, rows, lambda number, pixels: draw_text(pixels, [answer.line(number) for answer in answers]))


def _draw(folder: str, rows: Rows, draw: Callable[[int, Array], Any]) -> None:
    for number, path in enumerate(answer_files(Path(folder), rows)):
        picture = rows.picture(number)
        pixels = np.asarray(picture)
        if picture.mode == "F":  # of more than 8 bits, from 0 to 255
            pixels = pixels.round().clip(0, 255).astype(np.uint8)
        make_folder(path.parent)
        image = draw(number, pixels)
        with writing(path) as file:
            image.save(file, "PNG")
