"""A page with the first batch of the training data as the model reads it: prepared, augmented, in numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.internal.files import write_whole
from onnxgrad.pages.page import asset, page
from onnxgrad.training.data.rows import Rows, Stream
from onnxgrad.training.report.examples import few, pictured, shortened

if TYPE_CHECKING:
    from onnxgrad.training.trainer import Trainer

__all__ = ["write_preview"]

_SHOWN, _NUMBERS, _PIXELS = 32, 12, 224
_BODY = '<main id="parts"></main>\n'


def write_preview(trainer: Trainer, source: Rows | Stream, path: str | Path, batch_size: int = 32) -> int:
    """Write the first batch that training would read to a web page of one file.

    Pictures are shown as the model reads them, black for their smallest number and white for the largest; sounds as waves; texts as
    their tokens decode; numbers as they are, behind a table of the range of each column.

    Args:
        trainer: that would train.
        source: training data, as ``trainer.open`` gives it.
        path: of the page, .html.
        batch_size: examples in the batch; 32 of them at most are shown.

    Returns:
        The number of examples on the page.

    Raises:
        DataError: if the data has no batch.
    """
    batch = next(iter(source.batches(batch_size, epoch=0, shuffle=True, seed=trainer.seed)), None)
    if batch is None:
        raise DataError("the data has no batch to show. Give data with at least one example.")
    feed = trainer.model.feed_of(batch, trainer.executor)
    names = [v.name for v in trainer.inputs] + [term.target for term in trainer.terms]
    arrays = {name: np.asarray(feed[name]) for name in dict.fromkeys(names) if name in feed}
    count = min(_SHOWN, *(len(array) for array in arrays.values() if array.ndim))
    title = "the first batch" if source.path is None else f"the first batch of {source.path.name}"
    contents = {
        "title": title,
        "notes": list(dict.fromkeys([*source.remarks, *trainer.remarks])),
        "columns": [_range(name, array) for name, array in arrays.items()],
        "examples": [_example(source, arrays, number) for number in range(count)],
    }
    text = page(title, _BODY, asset("report.css"), asset("preview.js"), contents)
    write_whole(Path(path), text.encode())
    return count


def _range(name: str, array: Any) -> list[str]:
    """The row of a column: its type, and its smallest, mean and largest number"""
    described = f"{array.dtype}{list(array.shape)}"
    if not array.size or array.dtype.kind not in "biuf":
        return [name, described, "", "", ""]
    numbers = array.astype(np.float64)
    return [name, described, *(f"{value:.4g}" for value in (numbers.min(), numbers.mean(), numbers.max()))]


def _example(source: Rows | Stream, arrays: dict[str, Any], number: int) -> dict[str, Any]:
    pictures, values = [], []
    for name, array in arrays.items():
        value = array[number] if array.ndim else array
        column = None if source.record is None else source.record.columns.get(name)
        picture = pictured(value, column, _PIXELS) if value.dtype.kind == "f" else None
        if picture is not None:
            pictures.append(picture)
        elif name in source.decoders:
            values.append([name, shortened(source.decoders[name](value[value >= 0]))])
        else:
            values.append([name, _text(value, source.classes.get(name))])
    return {"pictures": pictures, "values": values}


def _text(value: Any, classes: Any) -> str:
    """The name of a class, or the first numbers"""
    if classes is not None and value.ndim == 0 and value.dtype.kind in "iu" and 0 <= value < len(classes):
        return str(classes[int(value)])
    return few(value, _NUMBERS)
