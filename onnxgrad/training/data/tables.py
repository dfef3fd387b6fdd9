"""CSV and Parquet files, lines of JSON with numbers, and folders of .npy files."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import ArgumentError, DataError, FileError, OnnxGradError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.files import read_whole
from onnxgrad.training.data.columns import Arrangement, Numbering, arrange_columns, class_notes, stack_columns
from onnxgrad.training.data.rows import Batch, Columns, Rows, Stream
from onnxgrad.training.data.shuffled import Shuffled
from onnxgrad.training.data.spec import DataSpec

__all__ = ["Table", "reader_of"]

SEPARATORS = {".csv": "", ".tsv": "\t", ".parquet": "", ".pq": "", ".jsonl": ""}
_LARGE = 1_000_000_000
_READ = 16_384


class Table:
    """A file of rows: .csv, .tsv, .parquet, or .jsonl with an object on each line.

    A column has the name of the input or target, or its elements are numbered (``x.0``, ``x.1``, ...); a single input that is left
    takes the numeric columns that are left. Words in a target column are classes, numbered by the alphabet. ``remarks`` of what is
    opened say what was guessed.

    Args:
        path: the file. CSV and Parquet need the package pyarrow (extra ``tables``).
        stream: whether to read it piece by piece in each epoch; None for files of more than 1 GB.
        buffer: examples that are mixed, where it is read piece by piece.

    Raises:
        ArgumentError: if the suffix is another.

    Example:
        >>> trainer.fit(Table("measurements.parquet", stream=True), epochs=3)  # doctest: +SKIP
    """

    @checked
    def __init__(self, path: str | Path, *, stream: bool | None = None, buffer: int = 10_000) -> None:
        self.path = Path(path)
        if self.path.suffix not in SEPARATORS:
            raise ArgumentError(f"a table is one of {', '.join(SEPARATORS)}, not {str(path)!r}. Convert it.")
        self.stream, self.buffer = stream, buffer

    def opened(self, wanted: DataSpec, classes: Mapping[str, Sequence[str]] | None = None) -> Rows | Stream:
        """The data for a program; ``classes`` by target column have numbers already.

        Args:
            wanted: the columns that the program wants.
            classes: words by number, by target column.

        Raises:
            DataError: naming the file, the row and the column of what cannot be used.
            OnnxGradError: if pyarrow is needed and missing.
        """
        if not self.path.is_file():
            raise DataError(f"there is no file {str(self.path)!r}.")
        numbering = Numbering(classes or {}, wanted)
        streams = self.stream if self.stream is not None else self.path.stat().st_size > _LARGE
        reader = reader_of(self.path)
        where = self.path.name
        plan = arrange_columns(reader.header, reader.numeric, wanted, where)
        rows: Rows | Stream
        if streams:
            self._learn(reader, plan, wanted, numbering)
            rows = Shuffled(_Pieces(reader, plan, wanted, numbering, where), buffer=self.buffer, length=reader.length)
        else:
            columns = stack_columns(plan, reader.columns(plan.read), wanted, numbering, where)
            rows = Columns(columns)
        rows.classes, rows.unused = numbering.classes, plan.unused
        rows.remarks = [*plan.remarks, *class_notes(numbering.classes), *numbering.remarks]
        return rows

    def _learn(self, reader: _Arrow | _Lines, plan: Arrangement, wanted: DataSpec, numbering: Numbering) -> None:
        """Look through the target columns for the words in them"""
        names = [name for name in wanted.targets if len(plan.parts.get(name, ())) == 1 and name not in numbering.classes]
        cells: dict[str, set[str]] = {name: set() for name in names}
        parts = {name: plan.parts[name][0] for name in names if plan.parts[name][0] not in reader.numeric}
        for _, columns in reader.pieces(list(parts.values())) if parts else ():
            for name, part in parts.items():
                cells[name].update(cell for cell in columns[part] if isinstance(cell, str))
        for name, seen in cells.items():
            if seen and name in wanted.spelled:
                raise DataError(
                    f"column {name!r} of {self.path.name} holds text for ctc, which is read at once. Leave out buffer (--buffer)."
                )
            if seen and not all(_is_number(cell) for cell in seen):
                numbering.classes[name] = sorted(seen)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def reader_of(path: Path) -> _Arrow | _Lines:
    """The rows of a table by column, for its suffix"""
    return _Lines(path) if path.suffix == ".jsonl" else _Arrow(path)


class _Pieces:
    """The pieces of a table for each epoch anew."""

    def __init__(self, reader: _Arrow | _Lines, plan: Arrangement, wanted: DataSpec, numbering: Numbering, where: str) -> None:
        self.reader, self.plan, self.wanted, self.numbering, self.where = reader, plan, wanted, numbering, where

    def __iter__(self) -> Iterator[Batch]:
        for first, columns in self.reader.pieces(self.plan.read):
            yield stack_columns(self.plan, columns, self.wanted, self.numbering, self.where, first)


class _Lines:
    """Lines of JSON."""

    def __init__(self, path: Path) -> None:
        self.path = path
        first = next(self._objects(), None)
        if first is None:
            raise DataError(f"{str(path)!r} holds no object.")
        self.header = [str(name) for name in first[1]]
        self.numeric = [str(name) for name, value in first[1].items() if isinstance(value, (int, float))]
        self.length: int | None = None

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        try:
            with self.path.open(encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    if line.strip():
                        yield number, self._object(number, line)
        except OSError as error:
            raise DataError(f"cannot read {str(self.path)!r}: {error.strerror or error}.") from error
        except UnicodeDecodeError as error:
            raise DataError(f"{str(self.path)!r} is not written in UTF-8 ({error}). Convert it.") from error

    def _object(self, number: int, line: str) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"line {number} of {str(self.path)!r} is no JSON ({error}). Write one object on each line.") from error
        if not isinstance(record, dict):
            raise DataError(f"line {number} of {str(self.path)!r} is no object. Write {{...}} with the columns.")
        return record

    def pieces(self, names: Sequence[str]) -> Iterator[tuple[int, dict[str, list[Any]]]]:
        columns: dict[str, list[Any]] = {name: [] for name in names}
        first = count = 0
        for _, record in self._objects():
            for name in names:
                columns[name].append(record.get(name))
            count += 1
            if count - first == _READ:
                yield first, columns
                columns, first = {name: [] for name in names}, count
        if count > first:
            yield first, columns

    def columns(self, names: Sequence[str]) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for _, piece in self.pieces(names):
            for name in names:
                columns[name] += piece[name]
        return columns


class _Arrow:
    """CSV and Parquet through pyarrow."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise OnnxGradError(f"{path.suffix} files need the package pyarrow. Install onnxgrad[tables].") from error
        self.path, self.is_csv = path, path.suffix in (".csv", ".tsv")
        self.length: int | None = None
        types = self._first() if self.is_csv else self._schema()
        self.header = list(types)
        doubled = next((name for at, name in enumerate(self.header) if name in self.header[:at]), None)
        if doubled is not None:
            raise DataError(f"{str(path)!r} has two columns {doubled!r}. Rename one.")
        self.numeric = [name for name, numeric in types.items() if numeric]

    def _first(self) -> dict[str, bool]:
        """Names and kinds of the columns of a CSV file, from its first row; the separator is what its header has most of"""
        with _typed(self.path), self.path.open(newline="", encoding="utf-8-sig") as file:
            line = file.readline()
            if not line.strip():
                raise DataError(f"{str(self.path)!r} is empty.")
            self.separator = SEPARATORS[self.path.suffix] or max(",;\t|", key=line.count)
            file.seek(0)
            rows = csv.reader(file, delimiter=self.separator)
            header, row = next(rows), next(rows, [])
        if all(_is_number(name) for name in header):
            raise DataError(f"{str(self.path)!r} begins with numbers. Write the names of the columns into its first line.")
        if not row:
            raise DataError(f"{str(self.path)!r} has a header and no rows.")
        if len(set(header)) < len(header):
            doubled = next(name for at, name in enumerate(header) if name in header[:at])
            raise DataError(f"{str(self.path)!r} has two columns {doubled!r}. Rename one.")
        return {name: _is_number(row[at]) if at < len(row) else False for at, name in enumerate(header)}

    def _schema(self) -> dict[str, bool]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        with _typed(self.path):
            file = pq.ParquetFile(self.path)
            self.length = file.metadata.num_rows
            types = {f.name: pa.types.is_integer(f.type) or pa.types.is_floating(f.type) for f in file.schema_arrow}
            return {name: bool(numeric) for name, numeric in types.items()}

    def columns(self, names: Sequence[str]) -> dict[str, Any]:
        import pyarrow.parquet as pq
        from pyarrow import csv as reader

        with _typed(self.path):
            if not self.is_csv:
                return _values(pq.read_table(self.path, columns=list(names)))
            try:
                return _values(reader.read_csv(self.path, **self._options(names)))
            except Exception as error:
                self._locate(names, error)
                raise

    def pieces(self, names: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        first = 0
        with _typed(self.path):
            for batch in self._located(names):
                yield first, _values(batch)
                first += batch.num_rows

    def _located(self, names: Sequence[str]) -> Iterator[Any]:
        """Record batches, or the DataError that names the row where reading them fails"""
        import pyarrow.parquet as pq
        from pyarrow import csv as reader

        try:
            if self.is_csv:
                yield from reader.open_csv(self.path, **self._options(names))
            else:
                yield from pq.ParquetFile(self.path).iter_batches(_READ, columns=list(names))
        except Exception as error:
            self._locate(names, error)
            raise

    def _options(self, names: Sequence[str]) -> dict[str, Any]:
        from pyarrow import csv as reader

        return {
            "parse_options": reader.ParseOptions(delimiter=self.separator, newlines_in_values=True),
            "convert_options": reader.ConvertOptions(
                include_columns=list(names), strings_can_be_null=True, null_values=["", "NA", "null"]
            ),
        }

    def _locate(self, names: Sequence[str], error: Exception) -> None:
        """Raise a DataError for the first row that has another number of cells, or another kind of cell, than the first row"""
        if not self.is_csv:
            return
        numeric = {name for name in names if name in self.numeric}
        with self.path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file, delimiter=self.separator)
            header = next(rows)
            for number, row in enumerate(rows, 1):
                where = f"{self.path.name}, row {number}"
                if row and len(row) != len(header):
                    raise DataError(f"{where} has {len(row)} cells, the header has {len(header)}. Correct it.") from error
                for name, cell in zip(header, row, strict=False):
                    if name in numeric and cell.strip() and not _is_number(cell):
                        raise DataError(
                            f"{where}, column {name!r} holds {cell[:40]!r}, which is no number. Correct it, or leave the row out."
                        ) from error


def _values(table: Any) -> dict[str, Any]:
    """Columns without gaps as arrays, others as lists"""
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
            columns[name] = [_cell(value) for value in column.to_pylist()]
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


def _cell(value: Any) -> Any:
    """Lists that are written into a cell as JSON"""
    if isinstance(value, str) and value[:1] == "[" and value[-1:] == "]":
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


class _typed:  # noqa: N801 (it reads like a function)
    """A DataError that names the file, for what the system or pyarrow refuses"""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, error_type: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, (OnnxGradError, GeneratorExit, KeyboardInterrupt, MemoryError)):
            return
        message = " ".join(str(error).split())
        raise DataError(f"cannot read {str(self.path)!r}: {message[:300]}") from error


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
    """Whether the first object of a .jsonl file is a text or a chat, which a tokenizer reads."""
    try:
        line = next((line for line in read_whole(path).splitlines() if line.strip()), b"{}")
        record = json.loads(line)
    except (FileError, ValueError, RecursionError):
        return False
    return isinstance(record, dict) and any(name in record for name in ("text", "messages", "prompt"))
