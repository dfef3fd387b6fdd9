"""The kinds of columns that data may have, one file for each: how a kind is recognised, found out about, read and recorded."""

from collections.abc import Sequence
from typing import Any

from onnxgrad.training.data.kinds.column import Column
from onnxgrad.training.data.kinds.groups import GroupsColumn
from onnxgrad.training.data.kinds.labels import LabelsColumn
from onnxgrad.training.data.kinds.numbers import NumberColumn, NumbersColumn, is_missing
from onnxgrad.training.data.kinds.picture import PictureColumn
from onnxgrad.training.data.kinds.placed import BoxesColumn, MaskColumn, RegionsColumn
from onnxgrad.training.data.kinds.sound import SoundColumn
from onnxgrad.training.data.kinds.spans import SpansColumn
from onnxgrad.training.data.kinds.text import TextColumn
from onnxgrad.training.data.kinds.words import CharactersColumn, WordsColumn

__all__ = ["KINDS", "kind_of"]

KINDS: dict[str, type[Column]] = {
    kind.kind: kind
    for kind in (
        PictureColumn,
        SoundColumn,
        NumberColumn,
        NumbersColumn,
        WordsColumn,
        LabelsColumn,
        TextColumn,
        CharactersColumn,
        MaskColumn,
        BoxesColumn,
        RegionsColumn,
        GroupsColumn,
        SpansColumn,
    )
}
"""Columns by the name of their kind, which the record of the data has."""

_RECOGNISED: tuple[type[Column], ...] = (PictureColumn, SoundColumn, LabelsColumn, NumbersColumn, NumberColumn, WordsColumn)
"""In this order, those that show in the cells of a table."""


def kind_of(cells: Sequence[Any]) -> str | None:
    """Return the kind that most cells of a column of a table are of, as the others are mistakes; None if they are all empty.

    Example:
        >>> kind_of(["1", "", "2,5"]), kind_of(["[1, 2]"]), kind_of(["b.png"]), kind_of(["b.wav"])
        ('number', 'numbers', 'picture', 'sound')
        >>> kind_of(["cat", "12"]), kind_of(["cat;dog", "dog"])
        ('words', 'labels')
    """
    present = [cell for cell in cells if not is_missing(cell)]
    if not present:
        return None
    for kind in _RECOGNISED:
        if 2 * sum(kind.recognises([cell]) for cell in present) > len(present):
            is_some = kind is WordsColumn and any(LabelsColumn.recognises([cell]) for cell in present)
            return LabelsColumn.kind if is_some else kind.kind
    return WordsColumn.kind
