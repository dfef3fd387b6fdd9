"""Examples of which some columns are read when their batch is built.

Tests: tests/training/data/test_images.py, tests/training/data/test_kinds.py.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from onnxgrad.training.data.kinds.column import LazyColumn
from onnxgrad.training.data.kinds.picture import LazyPictures
from onnxgrad.training.data.kinds.placed import LazyPlaced
from onnxgrad.training.data.rows import Array, Batch, Columns, Parts, Rows
from onnxgrad.training.data.views import View

__all__ = ["LazyRows", "rows_of"]


def rows_of(columns: Mapping[str, Array | LazyColumn], length: int) -> Rows:
    """Examples of these columns: all at hand, or some of them read batch by batch."""
    arrays = {name: column for name, column in columns.items() if not isinstance(column, LazyColumn)}
    lazy = {name: column for name, column in columns.items() if isinstance(column, LazyColumn)}
    return LazyRows(lazy, arrays, length) if lazy else Columns(arrays)


class LazyRows(Rows):
    """Columns that are read by several threads when their batch is built, beside columns that are at hand.

    Args:
        lazy: by name.
        columns: arrays by name, with an element for each example.
        length: how many examples there are.
    """

    def __init__(self, lazy: Mapping[str, LazyColumn], columns: Mapping[str, Array], length: int) -> None:
        self.lazy, self.columns, self.length = dict(lazy), dict(columns), length
        for column in self.lazy.values():
            column.beside(self.lazy)
        self.settings = [setting for column in self.lazy.values() for setting in column.settings]
        self._pool: ThreadPoolExecutor | None = None

    def take(self, rows: Array, epoch: tuple[int, int] | None = None) -> Batch:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(min(8, os.cpu_count() or 1), "onnxgrad-columns")
        examples = list(self._pool.map(lambda row: self._example(int(row), epoch), rows))
        batch: Batch = {}
        for at, column in enumerate(self.lazy.values()):
            for name in examples[0][at] if examples else ():
                batch[name] = column.stacked([example[at][name] for example in examples])
        return {**batch, **{name: column[rows] for name, column in self.columns.items()}}

    def _example(self, row: int, epoch: tuple[int, int] | None) -> list[Batch]:
        return [column.example(row, epoch) for column in self.lazy.values()]

    def column(self, name: str) -> Array | None:
        return self.columns.get(name)

    def plain(self) -> LazyRows:
        rows = copy.copy(self)
        rows.lazy = {name: copy.copy(column.plain()) for name, column in self.lazy.items()}
        for column in rows.lazy.values():
            column.beside(rows.lazy)
        return rows

    @property
    def content(self) -> str:
        placed = [column for column in self.lazy.values() if isinstance(column, LazyPlaced)]
        return ", ".join(str(setting) for column in placed for setting in column.settings)

    @property
    def _pictures(self) -> LazyPictures | None:
        return next((column for column in self.lazy.values() if isinstance(column, LazyPictures)), None)

    def view(self, row: int) -> View | None:
        return None if self._pictures is None else self._pictures.view(row, None)

    def picture(self, row: int) -> Any:
        return None if self._pictures is None else self._pictures.picture(row)

    def file(self, row: int) -> Path | None:
        return next((file for column in self.lazy.values() if (file := column.file(row)) is not None), None)

    def parts(self) -> Parts | None:
        parts = {name: column_parts for name, column in self.lazy.items() if (column_parts := column.parts()) is not None}
        if not parts:
            return None
        (name, cut), *others = parts.items()
        if others or len(self.lazy) > 1:
            return None  # nothing says how the parts of the columns go together
        columns = {key: column[cut.example] for key, column in self.columns.items()}
        rows = LazyRows({name: cut.column}, columns, len(cut.example))
        rows.record, rows.path = self.record, self.path
        return Parts(rows, cut.example, cut.start, cut.seconds, cut.join)

    def original(self, name: str, row: int) -> Any:
        column = self.lazy.get(name)
        return column.original(row) if isinstance(column, LazyPlaced) else None
