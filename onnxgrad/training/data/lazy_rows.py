"""Examples of which some columns are read when their batch is built.

Tests: tests/training/data/test_images.py, tests/training/data/test_kinds.py.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.internal.processors import usable_cores
from onnxgrad.training.data.annotated.answers import Regions
from onnxgrad.training.data.kinds.column import LazyColumn
from onnxgrad.training.data.kinds.picture import LazyPictures
from onnxgrad.training.data.kinds.placed import LazyPlaced
from onnxgrad.training.data.rows import Array, Batch, Columns, Parts, Rows, RowSubset
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

    Raises:
        DataError: if pictures are joined whose answers cannot be.
    """

    def __init__(self, lazy: Mapping[str, LazyColumn], columns: Mapping[str, Array], length: int) -> None:
        self.lazy, self.columns, self.length = dict(lazy), dict(columns), length
        for column in self.lazy.values():
            column.beside(self.lazy)
        self._may_be_joined(np.arange(length))
        self._check_joined()
        self.settings = [setting for column in self.lazy.values() for setting in column.settings]
        self._pool: ThreadPoolExecutor | None = None

    def take(self, rows: Array, epoch: tuple[int, int] | None = None) -> Batch:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(min(8, usable_cores()), "onnxgrad-columns")
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
        return self._copied({name: copy.copy(column.plain()) for name, column in self.lazy.items()})

    def select(self, rows: Array) -> Rows:
        """The examples of these numbers, of which pictures are shown with one another alone."""
        copied = self._copied({name: copy.copy(column) for name, column in self.lazy.items()})
        copied._may_be_joined(rows)
        return RowSubset(copied, rows)

    def _copied(self, lazy: Mapping[str, LazyColumn]) -> LazyRows:
        """The same with copies of the columns, which may be changed"""
        rows = copy.copy(self)
        rows.lazy = dict(lazy)
        for column in rows.lazy.values():
            column.beside(rows.lazy)
        return rows

    def _may_be_joined(self, rows: Array) -> None:
        """Let pictures be shown with those of these numbers"""
        for column in self.lazy.values():
            if isinstance(column, LazyPictures):
                column.others = rows

    def _check_joined(self) -> None:
        """Raise DataError if pictures are joined whose answers do not say where they are"""
        if not any(isinstance(column, LazyPictures) and column.changes.mosaic for column in self.lazy.values()):
            return
        others = [*self.columns, *(name for name, column in self.lazy.items() if not _can_be_joined(column))]
        if others:
            raise DataError(
                f"mosaic joins pictures whose answers are boxes or masks, and {others[0]!r} is neither. "
                "Leave mosaic out (--mosaic)."
            )

    @property
    def content(self) -> str:
        placed = [column for column in self.lazy.values() if isinstance(column, LazyPlaced)]
        return ", ".join(str(setting) for column in placed for setting in column.settings)

    @property
    def _pictures(self) -> LazyPictures | None:
        return next((column for column in self.lazy.values() if isinstance(column, LazyPictures)), None)

    def view(self, row: int) -> View | None:
        return None if self._pictures is None else self._pictures.view(row)

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


def _can_be_joined(column: LazyColumn) -> bool:
    is_placed = isinstance(column, LazyPlaced) and not isinstance(column.answers, Regions)
    return is_placed or isinstance(column, LazyPictures)
