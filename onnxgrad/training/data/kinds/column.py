"""A column of data by its kind: what was found of it, how its cells are read, and what a user said instead.

Tests: tests/training/data/test_record.py, tests/training/data/test_kinds.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.training.data.changes import Changes, SoundChanges
from onnxgrad.training.data.rows import Batch

if TYPE_CHECKING:
    from onnxgrad.training.data.spec import DataSpec

__all__ = [
    "Cells",
    "Column",
    "ColumnParts",
    "LazyColumn",
    "Reading",
    "SoundReading",
    "are_names",
    "are_numbers",
    "are_texts",
    "cell_array",
    "contradiction",
    "is_name",
    "is_whole",
    "taken_cells",
]

Array = np.ndarray[Any, Any]
Values: TypeAlias = "Sequence[Any] | Array | Any"
"""The cells of one column of a table: an array, a list with None for empty cells, or text as pyarrow has it."""


@dataclass(frozen=True)
class SoundReading:
    """What the user said of sounds; None is found or guessed.

    Attributes:
        rate: samples in a second, as the model takes them.
        length: seconds of a window.
        hop: seconds from one window of a long sound to the next, where it is judged.
        join: ``"mean"`` or ``"max"``: what stands for the windows of one sound.
        full: value of the loudest sample that a file can hold, such as 1 or 32768.
        fronts: a ``Fronts``, whose features the model takes.
        chunk: samples of a chunk of a stream, and how many before them the model reads again.
        changes: what is changed at random in training.
    """

    rate: int | None = None
    length: float | None = None
    hop: float | None = None
    join: str | None = None
    full: float | None = None
    fronts: Any = None
    chunk: tuple[int, int] | None = None
    changes: SoundChanges = field(default_factory=SoundChanges)


@dataclass(frozen=True)
class Reading:
    """What the user said of the data; None and empty is found or guessed.

    Attributes:
        columns: by input or target, the columns of the table that it is made of, in order.
        fill: ``"median"``, ``"mean"`` or a number for cells that are empty.
        decimal: ``"."`` or ``","``: the decimal sign of numbers in text.
        tokenizer: a ``TokenizerFile``.
        max_length: tokens in a row of text at most.
        size: height and width of images.
        mean, std: of values from 0 to 1.
        order: ``"rgb"`` or ``"bgr"``.
        white: the value of a white pixel in images of more than 8 bits.
        fit: how images of another size get into the model's: one of ``views.FITS``.
        colours: of masks in colours, red, green and blue by class.
        changes: what is changed at random in training.
        sound: what was said of sounds.
    """

    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fill: str | float | None = None
    decimal: str | None = None
    tokenizer: Any = None
    max_length: int | None = None
    size: Sequence[int] | None = None
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    order: str | None = None
    white: float | None = None
    fit: str | None = None
    colours: Mapping[str, Sequence[int]] | None = None
    changes: Changes = field(default_factory=Changes)
    sound: SoundReading = field(default_factory=SoundReading)


@dataclass(frozen=True)
class Cells:
    """The cells of the columns of a table that form one input or target.

    Attributes:
        where: the table, for messages.
        values: by column of the table.
        first: number of the first row, from 0.
        folder: that names of files are relative to.
        numbers: of the rows, from 0, where some were left out; None where they follow the first.
    """

    where: str
    values: Mapping[str, Values]
    first: int = 0
    folder: Path = Path(".")
    numbers: Array | None = None

    def at(self, row: int, column: str) -> str:
        """``t.csv, row 3, column 'a'``, where ``row`` counts from 0 in these cells"""
        return f"{self.row(row)}, column {column!r}"

    def row(self, row: int) -> str:
        """``t.csv, row 3``, where ``row`` counts from 0 in these cells"""
        return f"{self.where}, row {(self.first + row if self.numbers is None else int(self.numbers[row])) + 1}"

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.values.values()))) if self.values else 0

    def listed(self, name: str) -> list[Any]:
        """The cells of a column as a list."""
        values = self.values[name]
        return list(values.to_pylist() if hasattr(values, "to_pylist") else values)

    def of_columns(self, names: Iterable[str]) -> Cells:
        """Some of the columns."""
        return replace(self, values={name: self.values[name] for name in names})

    def of_rows(self, rows: Array) -> Cells:
        """The rows of these numbers, which count from 0 in these cells."""
        numbers = np.asarray(rows) + self.first if self.numbers is None else self.numbers[rows]
        return replace(self, values={name: taken_cells(values, rows) for name, values in self.values.items()}, numbers=numbers)


def taken_cells(values: Any, rows: Array | slice) -> Any:
    """Some cells of a column, by their numbers or as a slice."""
    if hasattr(values, "to_pylist"):  # of pyarrow
        return values[rows] if isinstance(rows, slice) else values.take(rows)
    if isinstance(values, np.ndarray) or isinstance(rows, slice):
        return values[rows]
    return [values[row] for row in rows]


def cell_array(cells: Sequence[Any]) -> Array:
    """Cells of any types as an array of them, of rank 1."""
    array = np.empty(len(cells), object)
    array[:] = cells
    return array


class LazyColumn:
    """A column whose examples are read when their batch is built; ``example`` is called by several threads at once."""

    def example(self, row: int, epoch: tuple[int, int] | None) -> Batch:
        """Read one example: arrays without a batch axis, by name of the input or target.

        What is random follows from ``np.random.default_rng([*epoch, row])``, so that columns that belong together, such as a
        picture and its mask, draw the same; ``epoch``, a seed and the number of an epoch, is None where nothing is random.
        """
        raise NotImplementedError

    def plain(self) -> LazyColumn:
        """The same without random changes."""
        return self

    def beside(self, columns: Mapping[str, LazyColumn]) -> None:
        """Take notice of the other columns that are read with this one, by name."""

    def file(self, row: int) -> Path | None:
        """The file of an example, if it has one."""
        return None

    def parts(self) -> ColumnParts | None:
        """The parts that long examples are cut into where they are judged; None where each is read as a whole."""
        return None

    def stacked(self, values: Sequence[Array]) -> Array:
        """Join the arrays of the examples of a batch."""
        return np.stack(values)

    @property
    def settings(self) -> Sequence[object]:
        """What else examples depend on, which ranks compare by its text."""
        return ()


class ColumnParts(NamedTuple):
    """Examples of a column in parts: see ``rows.Parts``."""

    column: LazyColumn
    example: Array
    start: Array
    seconds: Array
    join: str


@dataclass(frozen=True)
class Column:
    """What was found of one input or target when data was opened. A kind of column is a subclass, listed in ``kinds.KINDS``.

    Its fields are what the record of the data keeps, each of them checked by ``checks`` when it is read from a file.

    Attributes:
        parts: columns of the table that it is made of, in order; empty where there was no table.
    """

    parts: tuple[str, ...] = ()

    kind: ClassVar[str] = ""
    checks: ClassVar[Mapping[str, Callable[[Any], bool]]] = {}
    unrecorded: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def recognises(cls, cells: Sequence[Any]) -> bool:
        """Return whether a column of a table with these cells, of which none is empty, is of this kind."""
        return False

    @classmethod
    def found(cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None, remarks: list[str]) -> Column:
        """Find out what the cells of the first rows of a table say of an input or target.

        Args:
            name: of the input or target.
            cells: of the whole table, or of its first rows where it is read piece by piece.
            wanted: the columns of the data, with the program.
            reading: what the user said, which counts first.
            known: what the record of the model or the run holds, which counts next.
            remarks: gets a line on each guess.

        Raises:
            DataError: if cells and record contradict each other.
        """
        raise NotImplementedError

    @classmethod
    def flaws(cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None) -> dict[int, str]:
        """Find the rows whose own cells cannot be read: why, by number of the row in these cells; see ``found``.

        A cell that only contradicts other rows or the record is none of them.
        """
        return {}

    def read(
        self, name: str, cells: Cells, wanted: DataSpec, reading: Reading, remarks: list[str]
    ) -> Mapping[str, Array | LazyColumn]:
        """Turn cells into the arrays of inputs and targets, or into what reads them batch by batch; see ``found``.

        Raises:
            DataError: naming the table, the row (counted from 1) and the column of what cannot be used.
        """
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        """The kind and the fields that say something, as JSON can hold them."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in self.unrecorded}
        return {"kind": self.kind, **{name: _plain(value) for name, value in values.items() if value not in (None, ())}}


def _plain(value: Any) -> Any:
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def contradiction(at: str, recorded: object, now: object, advice: str) -> DataError:
    """The error for data that is not what the record says, with both values."""
    return DataError(f"{at}: the model was trained with {recorded}, this is {now}. {advice}")


# Checks of fields ----------------------------------------------------------------------------------------------------


def is_name(value: Any) -> bool:
    return isinstance(value, str)


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31


def are_names(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(map(is_name, value))


def are_texts(value: Any) -> bool:
    return are_names(value) and len(set(value)) == len(value) > 0


def are_numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(
        isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in value
    )
