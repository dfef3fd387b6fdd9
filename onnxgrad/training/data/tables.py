"""Tables: .csv, .tsv, Parquet and .jsonl files, and folders of .npy files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import ArgumentError, DataError, FileError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.files import read_whole
from onnxgrad.training.data.broken import left_of, skips_broken
from onnxgrad.training.data.by_rank import is_own
from onnxgrad.training.data.columns import Arrangement, arrange_columns, found_columns, read_columns
from onnxgrad.training.data.kinds import KINDS, kind_of
from onnxgrad.training.data.kinds.column import Cells, Column, Reading
from onnxgrad.training.data.kinds.groups import pair_columns
from onnxgrad.training.data.kinds.words import CharactersColumn, WordsColumn, classes_line
from onnxgrad.training.data.lazy_rows import rows_of
from onnxgrad.training.data.readers import Reader, reader_of
from onnxgrad.training.data.record import DataRecord
from onnxgrad.training.data.rows import Batch, Columns, Rows, Stream
from onnxgrad.training.data.shuffled import Shuffled
from onnxgrad.training.data.spec import DataSpec

__all__ = ["SEPARATORS", "Table", "is_text", "read_folder", "read_npy"]

SEPARATORS = (".csv", ".tsv", ".parquet", ".pq", ".jsonl")
_LARGE = 1_000_000_000
_SAMPLED = 1_000_000
_AT_ONCE = 2048
"""Rows of a file that are decoded at once, where it is read piece by piece."""
_ROW = "number of the row"


class Table:
    """A file of rows: .csv, .tsv, .parquet, or .jsonl with an object on each line.

    A column holds numbers, lists of numbers, words, texts, or paths of images, relative to the file. It has the name of the input
    or target, or its elements are numbered (``x.0``, ``x.1``, ...); a single input that is left takes the column of images or the
    columns of numbers that are left. A model or run that was trained with a table knows its columns by name. Words in a target
    column are classes, numbered by the alphabet. ``remarks`` of what is opened say what was guessed.

    Args:
        path: the file. CSV and Parquet need the package pyarrow (extra ``tables``).
        stream: whether to read it piece by piece in each epoch; None for files of more than 1 GB.
        buffer: examples that are mixed, where it is read piece by piece.
        columns: by input or target, the names of its columns in order, where they are not found by their names.
        fill: what stands for empty cells of inputs: ``"median"``, ``"mean"`` or a number; None to refuse them.
        decimal: ``"."`` or ``","``, where the cells do not show which.

    Raises:
        ArgumentError: if the suffix is another.

    Example:
        >>> trainer.fit(Table("measurements.parquet", stream=True), epochs=3)  # doctest: +SKIP
    """

    @checked
    def __init__(
        self,
        path: str | Path,
        *,
        stream: bool | None = None,
        buffer: int = 10_000,
        columns: Mapping[str, Sequence[str]] | None = None,
        fill: str | float | None = None,
        decimal: str | None = None,
    ) -> None:
        self.path = Path(path)
        if self.path.suffix not in SEPARATORS:
            raise ArgumentError(f"a table is one of {', '.join(SEPARATORS)}, not {str(path)!r}. Convert it.")
        self.stream, self.buffer = stream, buffer
        self.reading = Reading(columns=columns or {}, fill=fill, decimal=decimal)

    def opened(self, wanted: DataSpec) -> Rows | Stream:
        """The data for a program.

        Args:
            wanted: the columns that the program wants.

        Raises:
            DataError: naming the file, the row and the column of what cannot be used.
            OnnxGradError: if pyarrow is needed and missing.
        """
        if not self.path.is_file():
            raise DataError(f"there is no file {str(self.path)!r}.")
        streams = self.stream if self.stream is not None else self.path.stat().st_size > _LARGE
        if streams and skips_broken():
            raise DataError(f"{str(self.path)!r} is read piece by piece, which cannot skip rows (--skip-broken). Read it at once.")
        reader = reader_of(self.path)
        where = self.path.name
        plan = arrange_columns({name: kind_of(cells) for name, cells in reader.head().items()}, wanted, where, self.reading)
        remarks: list[str] = []
        rows: Rows | Stream
        if streams:
            found = self._found_in_pieces(reader, plan, wanted, remarks)
            pieces = _Pieces(reader, plan, found, wanted, self.reading, self.path)
            rows = Shuffled(pieces, buffer=self.buffer, length=reader.length, decode=pieces.decode)
            rows.rows_at_once = 1 if {"picture", "sound", "mask"} & set(plan.kinds.values()) else _AT_ONCE
        else:
            cells = self._cells(reader, plan, wanted)
            found = found_columns(plan, cells, wanted, self.reading, remarks)
            arrays = read_columns(plan, found, cells, wanted, self.reading, remarks)
            rows = rows_of(arrays, cells.count * plan.together)
            rows.together = plan.together
        rows.record, rows.unused = DataRecord(found), plan.unused
        rows.remarks = [*reader.remarks, *plan.remarks, *remarks, *column_lines(found)]
        return rows

    def _cells(self, reader: Reader, plan: Arrangement, wanted: DataSpec) -> Cells:
        """The cells that are read, without the rows that are left out"""
        cells = Cells(self.path.name, reader.columns(plan.read), folder=self.path.parent)
        if not skips_broken():
            return cells
        if reader.left_out:
            numbers = np.setdiff1d(np.arange(cells.count + len(reader.left_out)), sorted(reader.left_out))
            cells = replace(cells, numbers=numbers)
        flaws: dict[int, str] = {}
        for name, kind in plan.kinds.items():
            known = wanted.record.columns.get(name)
            flaws = {**KINDS[kind].flaws(name, plan.cells(name, cells), wanted, self.reading, known), **flaws}
        return cells.of_rows(left_of([cells.row(row) for row in range(cells.count)], flaws, self.path.name)) if flaws else cells

    def _found_in_pieces(self, reader: Reader, plan: Arrangement, wanted: DataSpec, remarks: list[str]) -> dict[str, Column]:
        """What the first rows say, the first million of what fills empty cells, and all rows of the classes of targets"""
        for name, kind in plan.kinds.items():
            if kind == CharactersColumn.kind:
                raise DataError(
                    f"column {name!r} of {self.path.name} holds text for ctc, which is read at once. Leave out buffer (--buffer)."
                )
        words = [name for name, kind in plan.kinds.items() if kind == WordsColumn.kind and name not in wanted.record.classes]
        first = {name: list(cells) for name, cells in reader.head().items()}
        if self.reading.fill in ("median", "mean"):
            first.update(_rows(reader, plan.read))
            remarks.append(f"empty cells are filled by the {self.reading.fill} of the first {_SAMPLED:,} rows.")
        rest = Arrangement({n: p for n, p in plan.parts.items() if n not in words}, plan.kinds, plan.unused, [])
        found = found_columns(rest, Cells(self.path.name, first, folder=self.path.parent), wanted, self.reading, remarks)
        for name in words:
            (part,) = plan.parts[name]
            found[name] = WordsColumn.of_shares(_own_pieces(reader, part, self.path), part)
        return {name: found[name] for name in plan.parts}


def _own_pieces(reader: Reader, part: str, path: Path) -> Iterator[Cells]:
    """The cells of a column, of which ranks that open data together read every so many-th piece"""
    for number, (first, rows) in enumerate(reader.undecoded([part])):
        if is_own(number):
            yield Cells(path.name, reader.cells(rows, [part]), first, path.parent)


def _rows(reader: Reader, names: Sequence[str]) -> dict[str, Any]:
    """The cells of the first million rows"""
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for first, values in reader.pieces(names):
        for name in names:
            cells = values[name]
            columns[name] += cells.to_pylist() if hasattr(cells, "to_pylist") else list(cells)
        if first > _SAMPLED:
            break
    return columns


def _count(values: Mapping[str, Any]) -> int:
    return len(next(iter(values.values()))) if values else 0


def column_lines(found: Mapping[str, Column]) -> list[str]:
    """Lines on the classes of targets, and on what fills empty cells."""
    lines = [classes_line(name, classes) for name, classes in DataRecord(found).classes.items()]
    for column in found.values():
        fill = getattr(column, "fill", ())
        if fill:
            filled = ", ".join(f"{part} = {value:.6g}" for part, value in list(zip(column.parts, fill, strict=True))[:8])
            lines.append(f"empty cells are filled: {filled}{', ...' if len(fill) > 8 else ''}.")
    return lines


class _Pieces:
    """The pieces of a table for each epoch anew."""

    def __init__(
        self, reader: Reader, plan: Arrangement, found: Mapping[str, Column], wanted: DataSpec, reading: Reading, path: Path
    ) -> None:
        self.reader, self.plan, self.found, self.wanted, self.reading, self.path = reader, plan, found, wanted, reading, path

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows as the file has them, and their numbers"""
        for first, cells in self.reader.undecoded(self.plan.read):
            yield {**cells, _ROW: np.arange(first, first + _count(cells))}

    def decode(self, rows: Mapping[str, Any]) -> Batch:
        """Read the inputs and targets of some rows."""
        cells = Cells(self.path.name, self.reader.cells(rows, self.plan.read), 0, self.path.parent, rows[_ROW])
        arrays = read_columns(self.plan, self.found, cells, self.wanted, self.reading, [])
        return rows_of(arrays, cells.count).take(np.arange(cells.count))


def read_folder(path: Path, wanted: DataSpec) -> Columns:
    """The .npy files of a folder as columns by their names, read from the disk as they are needed."""
    files = {file.stem: file for file in sorted(path.glob("*.npy"))}
    missing = [name for name in wanted.names if name not in files]
    if missing:
        raise DataError(f"the folder {str(path)!r} has no {missing[0]}.npy; it has {sorted(files)}. Rename or add it.")
    names = [name for name in [*wanted.names, *wanted.optional] if name in files]
    columns = Columns({name: read_npy(files[name], mapped=True) for name in names})
    columns.unused = sorted(files.keys() - set(names))
    return columns


def read_npy(path: Path, mapped: bool = False) -> Any:
    """The array of an .npy file.

    Raises:
        DataError: if it cannot be read.
    """
    try:
        return np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except FileNotFoundError as error:
        raise DataError(f"there is no file {str(path)!r}.") from error
    except Exception as error:
        # What numpy's reader of a damaged header raises has no type of its own.
        raise DataError(f"{str(path)!r} is not an .npy file of a plain array. Write it with numpy.save.") from error


def is_text(path: Path) -> bool:
    """Whether the first object of a .jsonl file is a text, a chat or a pair of texts, which a tokenizer reads."""
    try:
        line = next((line for line in read_whole(path).splitlines() if line.strip()), b"{}")
        record = json.loads(line)
    except (FileError, ValueError, RecursionError):
        return False
    if not isinstance(record, dict):
        return False
    is_pair = bool(pair_columns([name for name, value in record.items() if isinstance(value, str)]))
    return is_pair or any(name in record for name in ("text", "messages", "prompt"))
