"""Readers of tables: the columns of a file of rows, at once or piece by piece, and its first rows.

Tests: tests/training/data/test_tables.py, tests/training/data/test_kinds.py.
"""

from __future__ import annotations

import codecs
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from onnxgrad.errors import DataError, OnnxGradError
from onnxgrad.training.data.broken import is_left_out, skips_broken
from onnxgrad.training.data.kinds.column import cell_array
from onnxgrad.training.data.kinds.numbers import number_in

__all__ = ["Reader", "filled_cells", "reader_of"]

_READ = 16_384
_HEAD = 1_000
"""Rows that are looked at for the kinds of columns."""
_BLOCK = 1 << 20
_LINE, _TEXT = "number of the line", "text of the line"


def reader_of(path: Path) -> Reader:
    """The rows of a table by column, for its suffix.

    Raises:
        DataError: if the file cannot be read.
        OnnxGradError: if pyarrow is needed and missing.
    """
    if path.suffix == ".jsonl":
        return _Lines(path)
    return _Csv(path) if path.suffix in (".csv", ".tsv") else _Parquet(path)


class _Lines:
    """Lines of JSON."""

    remarks: Sequence[str] = ()
    length: int | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.left_out: set[int] = set()
        first = next(self._objects(), None)
        if first is None:
            raise DataError(f"{str(path)!r} holds no object.")
        self.header = [str(name) for name in first[1]]

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for row, (number, line) in enumerate(self._lines()):
            try:
                record = self._object(number, line)
            except DataError as error:
                if not is_left_out(f"{self.path.name}, line {number}", str(error)):
                    raise
                self.left_out.add(row)
            else:
                yield number, record

    def _lines(self) -> Iterator[tuple[int, str]]:
        """The lines that hold something, and their numbers"""
        try:
            with self.path.open(encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    if line.strip():
                        yield number, line
        except OSError as error:
            raise DataError(f"cannot read {str(self.path)!r}: {error.strerror or error}.") from error
        except UnicodeDecodeError as error:
            raise DataError(f"{str(self.path)!r} is not written in UTF-8 ({error}). Convert it.") from error

    def _object(self, number: int, line: str) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"line {number} of {str(self.path)!r} is not valid JSON ({error}). Write one object on each line."
            ) from error
        if not isinstance(record, dict):
            raise DataError(f"line {number} of {str(self.path)!r} is not an object. Write {{...}} with the columns.")
        return record

    def head(self) -> dict[str, list[Any]]:
        """The cells of the first rows, by column."""
        for _, columns in self.pieces(self.header, _HEAD):
            return columns
        return {name: [] for name in self.header}

    def pieces(self, names: Sequence[str], size: int = _READ) -> Iterator[tuple[int, dict[str, list[Any]]]]:
        """Parts of the table: the number of the first row, and the cells by column."""
        columns: dict[str, list[Any]] = {name: [] for name in names}
        first = count = 0
        for _, record in self._objects():
            for name in names:
                columns[name].append(record.get(name))
            count += 1
            if count - first == size:
                yield first, columns
                columns, first = {name: [] for name in names}, count
        if count > first:
            yield first, columns

    def undecoded(self, names: Sequence[str], size: int = _READ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Parts of the table as ``cells`` takes them: the number of the first row, the lines and their numbers."""
        lines = self._lines()
        first = 0
        while piece := list(itertools.islice(lines, size)):
            yield first, {_LINE: np.array([number for number, _ in piece]), _TEXT: cell_array([line for _, line in piece])}
            first += len(piece)

    def cells(self, undecoded: Mapping[str, Any], names: Sequence[str]) -> dict[str, list[Any]]:
        """The cells of some rows of ``undecoded``, by column."""
        records = [self._object(int(number), line) for number, line in zip(undecoded[_LINE], undecoded[_TEXT], strict=True)]
        return {name: [record.get(name) for record in records] for name in names}

    def columns(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """All cells, by column."""
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for _, piece in self.pieces(names):
            for name in names:
                columns[name] += piece[name]
        return columns


class _Cells:
    """A table whose cells cost little to read: they are read before it is known which rows are used."""

    def pieces(self, names: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        raise NotImplementedError

    def undecoded(self, names: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Parts of the table as ``cells`` takes them: the number of the first row, and the cells by column."""
        for first, columns in self.pieces(names):
            yield first, {name: cell_array(cells) if isinstance(cells, list) else cells for name, cells in columns.items()}

    def cells(self, undecoded: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """The cells of some rows of ``undecoded``, by column."""
        columns = {name: undecoded[name] for name in names}
        return {
            name: list(cells) if getattr(cells, "dtype", None) == np.dtype(object) else cells for name, cells in columns.items()
        }


class _Parquet(_Cells):
    """A Parquet file through pyarrow."""

    remarks: Sequence[str] = ()
    left_out: AbstractSet[int] = frozenset()

    def __init__(self, path: Path) -> None:
        _need_pyarrow(path)
        import pyarrow.parquet as pq

        self.path = path
        with _typed(path):
            file = pq.ParquetFile(path)
            self.length: int | None = file.metadata.num_rows
            self.header = list(file.schema_arrow.names)
        _check_names(path, self.header)

    def head(self) -> dict[str, Any]:
        """The cells of the first rows, by column."""
        for _, columns in self.pieces(self.header, _HEAD):
            return {name: list(values) for name, values in columns.items()}
        raise DataError(f"{str(self.path)!r} has no rows.")

    def columns(self, names: Sequence[str]) -> dict[str, Any]:
        """All cells, by column."""
        import pyarrow.parquet as pq

        with _typed(self.path):
            return _values(pq.read_table(self.path, columns=list(names)))

    def pieces(self, names: Sequence[str], size: int = _READ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Parts of the table: the number of the first row, and the cells by column."""
        import pyarrow.parquet as pq

        first = 0
        with _typed(self.path):
            for batch in pq.ParquetFile(self.path).iter_batches(size, columns=list(names)):
                yield first, _values(batch)
                first += batch.num_rows


class _Csv(_Cells):
    """A .csv or .tsv file through pyarrow, all cells as text."""

    length: int | None = None

    def __init__(self, path: Path) -> None:
        _need_pyarrow(path)
        self.path = path
        self.remarks: list[str] = []
        self.left_out: set[int] = set()
        """Rows that were left out when all were read."""
        with _typed(path):
            self.encoding = self._encoding()
            with path.open(encoding=self.encoding, newline="") as file:
                line = file.readline(_BLOCK)
        if not line.strip():
            raise DataError(f"{str(path)!r} is empty.")
        self.separator = "\t" if path.suffix == ".tsv" else max(",;\t|", key=line.count)
        with _typed(path):
            ended = line if line.endswith(("\n", "\r")) else None
            self.header = list(self._open([]).schema.names) if ended else next(iter([line.split(self.separator)]))
        if all(number_in(name) is not None for name in self.header):
            raise DataError(f"{str(path)!r} begins with numbers. Write the names of the columns into its first line.")
        _check_names(path, self.header)

    def _encoding(self) -> str:
        """The encoding: by the mark that the file begins with, UTF-8, or Windows-1252 if it is not that"""
        with self.path.open("rb") as file:
            begin = file.read(4)
            if begin[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                return "utf-16"
            if b"\0" in begin:
                raise DataError(f"{str(self.path)!r} is not text of a known encoding. Write it in UTF-8.")
            file.seek(0)
            decoder = codecs.getincrementaldecoder("utf-8")()
            try:
                while block := file.read(_BLOCK):
                    decoder.decode(block)
                decoder.decode(b"", final=True)
            except UnicodeDecodeError:
                self.remarks.append(f"{self.path.name} is not written in UTF-8: it is read as Windows-1252 (Latin-1).")
                return "cp1252"
        return "utf-8-sig" if begin[:3] == codecs.BOM_UTF8 else "utf-8"

    def head(self) -> dict[str, list[Any]]:
        """The cells of the first rows, by column."""
        for _, columns in self.pieces(self.header):
            return {name: cells.slice(0, _HEAD).to_pylist() for name, cells in columns.items()}
        raise DataError(f"{str(self.path)!r} has a header and no rows.")

    def columns(self, names: Sequence[str]) -> dict[str, Any]:
        """All cells, by column."""
        import pyarrow as pa

        pieces = [piece for _, piece in self.pieces(names)]
        return {name: pa.chunked_array([piece[name] for piece in pieces], pa.string()) for name in names}

    def pieces(self, names: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Parts of the table: the number of the first row, and the cells by column."""
        first = 0
        wrong: list[Any] = []
        with _typed(self.path):
            # A row is noted when its block is read, ahead of the rows before it.
            for batch in self._open(wrong, names):
                if wrong and not skips_broken():
                    break
                if batch.num_rows:
                    yield first, dict(zip(batch.schema.names, batch.columns, strict=True))
                first += batch.num_rows
        for row in wrong:
            where = f"{self.path.name}, row {row.number - 1}"
            reason = f"{where} has {row.actual_columns} cells, the header has {row.expected_columns}. Correct it."
            if not is_left_out(where, reason):
                raise DataError(reason)
            self.left_out.add(row.number - 2)

    def _open(self, wrong: list[Any], names: Sequence[str] | None = None) -> Any:
        """Record batches of these columns as text; rows of another number of cells are noted"""
        import pyarrow as pa
        from pyarrow import csv

        def note(row: Any) -> str:
            wrong.append(row)
            return "skip"

        types = {} if names is None else {"column_types": dict.fromkeys(names, pa.string()), "include_columns": list(names)}
        return csv.open_csv(
            self.path,
            # In one thread, as rows have no numbers otherwise.
            read_options=csv.ReadOptions(encoding=self.encoding.removesuffix("-sig"), use_threads=False, block_size=_BLOCK),
            parse_options=csv.ParseOptions(delimiter=self.separator, newlines_in_values=True, invalid_row_handler=note),
            convert_options=csv.ConvertOptions(**types),
        )


Reader: TypeAlias = "_Lines | _Parquet | _Csv"


def _need_pyarrow(path: Path) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise OnnxGradError(f"{path.suffix} files need the package pyarrow. Install onnxgrad[tables].") from error


def _check_names(path: Path, header: Sequence[str]) -> None:
    doubled = next((name for at, name in enumerate(header) if name in header[:at]), None)
    if doubled is not None:
        raise DataError(f"{str(path)!r} has two columns {doubled!r}. Rename one.")


def _values(table: Any) -> dict[str, Any]:
    """Columns of numbers without gaps as arrays, text as pyarrow has it, others as lists"""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if plain and column.null_count == 0:
            columns[name] = np.asarray(
                column.to_numpy(**({} if isinstance(column, pa.ChunkedArray) else {"zero_copy_only": False}))
            )
        elif (pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type)) and column.null_count == 0:
            columns[name] = _lists(column)
        else:
            columns[name] = column.to_pylist()
    return columns


def _lists(column: Any) -> Any:
    """Lists of numbers of one length as a matrix at once"""
    import pyarrow as pa

    joined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    flat = joined.flatten()
    size, rest = divmod(len(flat), max(1, len(joined)))
    lengths = {size} if pa.types.is_fixed_size_list(joined.type) else set(np.diff(joined.offsets.to_numpy()).tolist())
    plain = pa.types.is_integer(flat.type) or pa.types.is_floating(flat.type)
    if rest or lengths != {size} or not plain or flat.null_count:
        return column.to_pylist()
    return flat.to_numpy(zero_copy_only=False).reshape(len(joined), size)


@contextmanager
def _typed(path: Path) -> Iterator[None]:
    """A DataError that names the file, for what the system or pyarrow refuses"""
    try:
        yield
    except (OnnxGradError, GeneratorExit, MemoryError):
        raise
    except Exception as error:
        message = " ".join(str(error).split())
        raise DataError(f"cannot read {str(path)!r}: {message[:300]}") from error


def filled_cells(cells: Iterable[Any]) -> list[Any]:
    """The cells that hold something: a list in a cell has no truth value."""
    return [cell for cell in cells if cell is not None and not (isinstance(cell, str) and cell == "")]
