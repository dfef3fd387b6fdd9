"""Columns of spans: when something is heard in a sound, as targets of each chunk of a stream.

Tests: tests/training/data/test_streams.py.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.training.data.kinds.column import Cells, Column, LazyColumn, Reading
from onnxgrad.training.data.kinds.sound import LazySounds
from onnxgrad.training.data.rows import Batch

if TYPE_CHECKING:
    from onnxgrad.training.data.spec import DataSpec

__all__ = ["LazySpans", "SpansColumn"]

Array = np.ndarray[Any, Any]
_NUMBER = r"\s*(\d+(?:\.\d+)?)\s*"
_SPAN = re.compile(f"{_NUMBER}-{_NUMBER}")


@dataclass(frozen=True)
class SpansColumn(Column):
    """Seconds from and to in each cell, ``0.2-1.75;3-3.5``: 1 for chunks of which half lies in one at least, 0 for others.

    An empty cell is a sound in which nothing is heard.
    """

    kind: ClassVar[str] = "spans"

    @classmethod
    def found(
        cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None, remarks: list[str]
    ) -> SpansColumn:
        (part,) = cells.values
        remarks.append(f"{name!r} is 1 for each chunk of which half lies in a span of {part!r}, and 0 for others.")
        return cls((part,))

    def read(
        self, name: str, cells: Cells, wanted: DataSpec, reading: Reading, remarks: list[str]
    ) -> Mapping[str, Array | LazyColumn]:
        (part,) = self.parts
        values = cells.values[part]
        listed = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
        return {name: LazySpans(name, [_spans(cell, cells.at(row, part)) for row, cell in enumerate(listed)])}


class LazySpans(LazyColumn):
    """Spans of sounds, for the chunks of the window that is read of each."""

    def __init__(self, name: str, spans: Sequence[Array]) -> None:
        self.name, self.spans = name, list(spans)
        self.sounds: LazySounds | None = None

    def beside(self, columns: Mapping[str, LazyColumn]) -> None:
        self.sounds = next((column for column in columns.values() if isinstance(column, LazySounds)), None)

    def example(self, row: int, epoch: tuple[int, int] | None) -> Batch:
        assert self.sounds is not None
        column = self.sounds.column
        start = self.sounds.start(row, self.sounds.generator(row, epoch)) / column.rate
        chunk = column.chunk / column.rate
        begins = start + chunk * np.arange(column.length // column.chunk)
        spans = self.spans[row]
        covered = np.minimum(begins[:, None] + chunk, spans[:, 1]) - np.maximum(begins[:, None], spans[:, 0])
        return {self.name: (np.maximum(covered, 0).sum(axis=1) >= chunk / 2).astype(np.float32)}

    def plain(self) -> LazySpans:
        return copy.copy(self)

    @property
    def settings(self) -> Sequence[object]:
        return [[spans.tolist() for spans in self.spans]]


def _spans(cell: Any, at: str) -> Array:
    """The spans of a cell, [spans, 2] in seconds"""
    text = "" if cell is None else str(cell).strip()
    rows = []
    for entry in text.split(";") if text else ():
        match = _SPAN.fullmatch(entry)
        if match is None or float(match[1]) >= float(match[2]):
            raise DataError(f"{at} holds {text[:40]!r}. Write spans in seconds, such as 0.2-1.75;3-3.5, or nothing for none.")
        rows.append((float(match[1]), float(match[2])))
    return np.array(rows, np.float64).reshape(-1, 2)
