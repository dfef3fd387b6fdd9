"""Columns of words: classes by name (``words``), and text that is spelled in the model's characters (``characters``).

Tests: tests/training/data/test_kinds.py, tests/training/test_characters.py.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.training.data.by_rank import gathered
from onnxgrad.training.data.characters import encode_characters
from onnxgrad.training.data.kinds.column import Cells, Column, LazyColumn, Reading, are_texts
from onnxgrad.training.data.kinds.numbers import empty_cell, is_missing, number_in

if TYPE_CHECKING:
    from onnxgrad.training.data.spec import DataSpec

__all__ = ["CharactersColumn", "WordsColumn", "classes_line", "listed_cells"]

Array = np.ndarray[Any, Any]
_FEW = 0.05
"""Less than this share of words among numbers are mistakes, not names of classes."""


@dataclass(frozen=True)
class WordsColumn(Column):
    """A word in each cell, which is the name of a class.

    Attributes:
        classes: the names by number; of training data in the order of the alphabet.
    """

    classes: tuple[str, ...] = ()

    kind: ClassVar[str] = "words"
    checks: ClassVar[Mapping[str, Callable[[Any], bool]]] = {"classes": are_texts}

    @classmethod
    def recognises(cls, cells: Sequence[Any]) -> bool:
        return all(isinstance(cell, str) for cell in cells)

    @classmethod
    def found(
        cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None, remarks: list[str]
    ) -> WordsColumn:
        (part,) = cells.values
        if isinstance(known, WordsColumn):
            return cls((part,), known.classes)
        return cls.of_pieces([cells], part)

    @classmethod
    def flaws(cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None) -> dict[int, str]:
        (part,) = cells.values
        flaws = empty_cells(cells, part, is_target=True)
        while True:
            kept = cells.of_rows(np.array([row for row in range(cells.count) if row not in flaws], np.int64))
            words = listed_cells(kept, part, is_target=True)
            places = {word: kept.at(row, part) for row, word in reversed(list(enumerate(words)))}
            mixed = _mixed(Counter(words), places)
            if mixed is None:
                return flaws
            word, reason = mixed
            at = cells.listed(part)
            flaws |= {row: reason for row in range(cells.count) if row not in flaws and str(at[row]) == word}

    @classmethod
    def of_pieces(cls, pieces: Iterable[Cells], part: str) -> WordsColumn:
        """Number the words of a column in the order of the alphabet.

        Raises:
            DataError: naming a cell that is empty, or one of a few that are words among numbers.
        """
        return cls._of_words([_words_in(pieces, part)], part)

    @classmethod
    def of_shares(cls, pieces: Iterable[Cells], part: str) -> WordsColumn:
        """Number the words of a column of which ranks that open data together each read some pieces; see ``of_pieces``."""

        def own() -> dict[str, Array]:
            return {"words": np.frombuffer(json.dumps(_words_in(pieces, part)).encode(), np.uint8)}

        return cls._of_words([json.loads(share["words"].tobytes()) for share in gathered(own)], part)

    @classmethod
    def _of_words(cls, shares: Sequence[Mapping[str, Sequence[Any]]], part: str) -> WordsColumn:
        counts: Counter[str] = Counter()
        firsts: dict[str, tuple[int, str]] = {}
        for share in shares:
            for word, (count, row, at) in share.items():
                counts[word] += count
                firsts[word] = min(firsts.get(word, (row, at)), (row, at))
        places = {word: firsts[word][1] for word in sorted(firsts, key=lambda word: firsts[word][0])}
        mixed = _mixed(counts, places)
        if mixed is not None:
            raise DataError(mixed[1])
        return cls((part,), tuple(sorted(counts)))

    def read(
        self, name: str, cells: Cells, wanted: DataSpec, reading: Reading, remarks: list[str]
    ) -> Mapping[str, Array | LazyColumn]:
        (part,) = self.parts
        number = {class_name: i for i, class_name in enumerate(self.classes)}
        listed = listed_cells(cells, part, is_target=True)
        for row, class_name in enumerate(listed):
            if class_name not in number:
                known = ", ".join(self.classes[:10])
                raise DataError(f"{cells.at(row, part)}: the class {class_name!r} is not a class of the training data: {known}.")
        return {name: np.array([number[class_name] for class_name in listed], np.int64)}


@dataclass(frozen=True)
class CharactersColumn(Column):
    """A text in each cell, as targets of ``ctc``: the numbers of its characters by the list that the model's file holds."""

    kind: ClassVar[str] = "characters"

    @classmethod
    def flaws(cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None) -> dict[int, str]:
        (part,) = cells.values
        return empty_cells(cells, part, is_target=True)

    @classmethod
    def found(
        cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None, remarks: list[str]
    ) -> CharactersColumn:
        (part,) = cells.values
        _, remark = encode_characters(wanted.program, name, [], cells.where)
        remarks.append(remark)
        return cls((part,))

    def read(
        self, name: str, cells: Cells, wanted: DataSpec, reading: Reading, remarks: list[str]
    ) -> Mapping[str, Array | LazyColumn]:
        (part,) = self.parts
        labels, _ = encode_characters(wanted.program, name, listed_cells(cells, part, is_target=True), cells.where)
        return {name: labels}


def listed_cells(cells: Cells, part: str, is_target: bool) -> list[str]:
    """The cells of a column as text.

    Raises:
        DataError: naming the first that is empty.
    """
    values = cells.values[part]
    listed = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
    for row, cell in enumerate(listed):
        if cell is None or not str(cell).strip():
            raise empty_cell(cells, row, part, cell, is_target)
    return [str(cell) for cell in listed]


def empty_cells(cells: Cells, part: str, is_target: bool) -> dict[int, str]:
    """The rows of a column that are empty, and the error for each."""
    listed = enumerate(cells.listed(part))
    return {
        row: str(empty_cell(cells, row, part, cell, is_target)) for row, cell in listed if cell is None or not str(cell).strip()
    }


def _words_in(pieces: Iterable[Cells], part: str) -> dict[str, tuple[int, int, str]]:
    """By word of a column how often it stands there, the number of its first row, and that row and column for messages"""
    words: dict[str, tuple[int, int, str]] = {}
    for cells in pieces:
        for row, word in enumerate(listed_cells(cells, part, is_target=True)):
            count, first, at = words.get(word) or (0, cells.first + row, cells.at(row, part))
            words[word] = (count + 1, first, at)
    return words


def _mixed(counts: Mapping[str, int], places: Mapping[str, str]) -> tuple[str, str] | None:
    """One of a few words among numbers, which would make an alphabet of all of them, and the error for it; None if there is none"""
    words = [word for word in places if number_in(word) is None]
    total, many = sum(counts.values()), sum(counts[word] for word in words)
    if not words or many == total:
        return None
    word = next((word for word in words if is_missing(word)), words[0])
    if is_missing(word) or many < _FEW * total:
        return word, (
            f"{places[word]} holds {word[:40]!r}, and {total - many:,} of {total:,} cells hold numbers. "
            "Correct it, or leave the row out."
        )
    return None


def classes_line(name: str, classes: Sequence[str]) -> str:
    """``classes of 'target': cat = 0, dog = 1.``, shortened"""
    entries = [f"{class_name} = {number}" for number, class_name in enumerate(classes)]
    return f"classes of {name!r}: {', '.join(entries if len(entries) <= 8 else [*entries[:4], '...', entries[-1]])}."
