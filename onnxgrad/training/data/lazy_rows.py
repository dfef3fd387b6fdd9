"""Examples of which some columns are read when their batch is built.

Tests: tests/training/data/test_images.py, tests/training/data/test_kinds.py.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from onnxgrad.training.data.kinds.column import LazyColumn
from onnxgrad.training.data.rows import Array, Batch, Columns, Rows

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
        self.settings = [setting for column in self.lazy.values() for setting in column.settings]
        self._pool: ThreadPoolExecutor | None = None

    def take(self, rows: Array, epoch: tuple[int, int] | None = None) -> Batch:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(min(8, os.cpu_count() or 1), "onnxgrad-columns")
        examples = list(self._pool.map(lambda row: self._example(int(row), epoch), rows))
        read = {name: np.stack([example[name] for example in examples]) for name in examples[0]} if examples else {}
        return {**read, **{name: column[rows] for name, column in self.columns.items()}}

    def _example(self, row: int, epoch: tuple[int, int] | None) -> Batch:
        arrays: Batch = {}
        for column in self.lazy.values():
            arrays.update(column.example(row, epoch))
        return arrays

    def column(self, name: str) -> Array | None:
        return self.columns.get(name)

    def plain(self) -> LazyRows:
        rows = copy.copy(self)
        rows.lazy = {name: column.plain() for name, column in self.lazy.items()}
        return rows
