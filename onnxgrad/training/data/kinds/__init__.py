"""The kinds of columns that data may have, one file for each: how a kind is recognised, found out about, read and recorded."""

from collections.abc import Sequence
from typing import Any

from onnxgrad.training.data.kinds.column import Column
from onnxgrad.training.data.kinds.numbers import NumberColumn, NumbersColumn, is_missing
from onnxgrad.training.data.kinds.picture import PictureColumn
from onnxgrad.training.data.kinds.text import TextColumn
from onnxgrad.training.data.kinds.words import CharactersColumn, WordsColumn

__all__ = ["KINDS", "kind_of"]

KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (PictureColumn, NumberColumn, NumbersColumn, WordsColumn, TextColumn, CharactersColumn)
}
"""Columns by the name of their kind, which the record of the data has."""

_RECOGNISED: tuple[type[Column], ...] = (PictureColumn, NumbersColumn, NumberColumn, WordsColumn)
"""In this order, those that show in the cells of a table."""


def kind_of(cells: Sequence[Any]) -> str | None:
    """Return the kind that most cells of a column of a table are of, as the others are mistakes; None if they are all empty.

    Example:
        >>> kind_of(["1", "", "2,5"]), kind_of(["[1, 2]"]), kind_of(["a/b.png"]), kind_of(["cat", "12"]), kind_of([None])
        ('number', 'numbers', 'picture', 'words', None)
    """
    present = [cell for cell in cells if not is_missing(cell)]
    if not present:
        return None
    for kind in _RECOGNISED:
        if 2 * sum(kind.recognises([cell]) for cell in present) > len(present):
            return kind.kind
    return WordsColumn.kind
