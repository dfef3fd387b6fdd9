"""Numbers of groups, which say what texts of pairs and triplets mean the same.

Tests: tests/training/data/test_pairs.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.training.data.kinds.column import Cells, Column, LazyColumn, Reading
from onnxgrad.training.data.kinds.words import listed_cells

if TYPE_CHECKING:
    from onnxgrad.training.data.spec import DataSpec

__all__ = ["OF_GROUPS", "OF_PAIRS", "GroupsColumn", "pair_columns", "rows_together"]

Array = np.ndarray[Any, Any]
OF_GROUPS = ("info_nce", "triplet")
"""Losses whose targets may be numbers of groups."""
OF_PAIRS = (*OF_GROUPS, "cosine_pairs")
"""Losses that may read pairs."""
_NAMES = (
    ("anchor", "query", "sentence1", "text1"),
    ("positive", "document", "sentence2", "text2"),
    ("negative", "sentence3", "text3"),
)


@dataclass(frozen=True)
class GroupsColumn(Column):
    """A number for each text of a pair (anchor, positive) or triplet (anchor, positive, negative); as many rows as there are texts.

    Anchor and positive have one number, from 0. Pairs that share a text share their number, as each is an answer to the other.
    A negative has a number below 0 of its own, or that of the pairs in which its text is an anchor or positive.
    """

    kind: ClassVar[str] = "groups"

    @classmethod
    def found(
        cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None, remarks: list[str]
    ) -> GroupsColumn:
        return cls(tuple(cells.values))

    def read(
        self, name: str, cells: Cells, wanted: DataSpec, reading: Reading, remarks: list[str]
    ) -> Mapping[str, Array | LazyColumn]:
        anchors, positives, *negatives = [listed_cells(cells, part, is_target=False) for part in self.parts]
        first = _first_rows(anchors, positives)
        groups = np.array([first[anchor] for anchor in anchors], np.int64)
        numbers = [groups, groups]
        for part, texts in zip(self.parts[2:], negatives, strict=True):
            numbers.append(np.array([first.get(text, -1 - row) for row, text in enumerate(texts)], np.int64))
            for row in np.flatnonzero(numbers[-1] == groups):
                if texts[row] in (anchors[row], positives[row]):
                    raise DataError(
                        f"{cells.at(int(row), part)} holds the text that it is the negative of: {texts[row][:40]!r}. "
                        "Correct it, or leave the row out."
                    )
                numbers[-1][row] = -1 - row
        shared = len(groups) - len(np.unique(groups))
        if shared:
            remarks.append(f"{shared:,} rows of {cells.where} share a text with an earlier one: they count as one group.")
        return {name: np.stack(numbers, axis=1).reshape(-1)}


def _first_rows(anchors: Sequence[str], positives: Sequence[str]) -> dict[str, int]:
    """By text, the first row among those that it is connected with by texts that they share"""
    row_of: dict[str, int] = {}
    parents = list(range(len(anchors)))

    def root(row: int) -> int:
        while parents[row] != row:
            parents[row] = parents[parents[row]]
            row = parents[row]
        return row

    for row, texts in enumerate(zip(anchors, positives, strict=True)):
        for text in texts:
            ends = sorted((root(row), root(row_of.setdefault(text, row))))
            parents[ends[1]] = ends[0]
    return {text: root(row) for text, row in row_of.items()}


def pair_columns(names: Sequence[str]) -> list[str]:
    """Those of the columns that are pairs or triplets by their names, in order; none if they are not.

    Example:
        >>> pair_columns(["document", "query"]), pair_columns(["text", "anchor"])
        (['query', 'document'], [])
    """
    taken = [next((name for name in known if name in names), None) for known in _NAMES]
    columns = [name for name in taken if name is not None]
    return columns if None not in taken[:2] else []


def rows_together(loss: str, column: Array | None) -> int:
    """Return how many rows that follow each other are one pair or triplet, by the numbers of their groups; 1 if they are none.

    Example:
        >>> rows_together("info_nce", np.array([5, 5, 2, 2])), rows_together("info_nce", np.array([0, 0, -1, 1, 1, -2]))
        (2, 3)
        >>> rows_together("triplet", np.array([0, 0, 0, 0, 1, 1, 1, 1])), rows_together("cosine_pairs", np.array([0.5, 0.5]))
        (1, 2)
    """
    if loss == "cosine_pairs":
        return 2
    if loss not in OF_GROUPS or column is None or column.ndim != 1 or column.dtype.kind not in "iu":
        return 1
    for size in (2, 3):
        blocks = column[: len(column) - len(column) % size].reshape(-1, size)
        is_alike = len(blocks) * size == len(column) and (blocks[:, 0] == blocks[:, 1]).all() and (blocks[:, 0] >= 0).all()
        # Numbers of classes come back more often.
        if is_alike and (blocks[:, 2:] < 0).all() and 2 * len(np.unique(blocks[:, 0])) > len(blocks):
            return size
    return 1
