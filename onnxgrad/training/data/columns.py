"""From the columns of a table to the columns that a model and its loss take.

Tests: tests/training/data/test_tables.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import DataError
from onnxgrad.training.data.characters import PADDING, encode_characters
from onnxgrad.training.data.rows import Batch
from onnxgrad.training.data.spec import DataSpec

__all__ = ["Arrangement", "Numbering", "arrange_columns", "class_notes", "stack_columns"]

Array = np.ndarray[Any, Any]
TARGETS = ("label", "labels", "class", "target", "y")
"""Names that people give to the column of targets; one of them is taken where the name that was asked for is missing."""


class Arrangement(NamedTuple):
    """The columns of a table that form each column of the data, the unused ones, and notes on the guesses."""

    parts: dict[str, list[str]]
    unused: list[str]
    remarks: list[str]

    @property
    def read(self) -> list[str]:
        return list(dict.fromkeys(name for names in self.parts.values() for name in names))


def arrange_columns(
    header: Sequence[str],
    numeric: Sequence[str],
    wanted: DataSpec,
    where: str,
) -> Arrangement:
    """Map the columns of a table to the columns of the data.

    A column has the name of the input, or its elements are numbered (``x.0``, ``x_1``, ``x[2]``); a single input that is left takes
    all numeric columns that are left, in their order.

    Args:
        header: names in the table.
        numeric: those that hold numbers.
        wanted: the columns of the data.
        where: the table, for messages.

    Raises:
        DataError: if a column is missing.
    """
    parts: dict[str, list[str]] = {}
    notes: list[str] = []
    for name in [*wanted.names, *wanted.optional]:
        matches = [name] if name in header else _numbered(name, header)
        if matches:
            parts[name] = matches
    missing = [name for name in wanted.names if name not in parts]
    targets = [name for name in missing if name in wanted.targets]
    others = [name for name in TARGETS if name in header and name not in (*wanted.names, *wanted.optional)]
    if len(targets) == 1 and len(others) == 1:
        parts[targets[0]] = others
        missing.remove(targets[0])
        notes.append(f"the column {others[0]!r} of {where} is taken as {targets[0]!r}.")
    if len(missing) == 1 and missing[0] not in wanted.targets:
        taken = {column for columns in parts.values() for column in columns}
        rest = [column for column in numeric if column not in taken]
        width = _width(wanted.variables.get(missing[0]))
        rest = [column for column in rest if column not in wanted.beside] or rest
        if width is not None and len(rest) > width:
            rest = [column for column in rest if column not in TARGETS] or rest
        if rest and (width is None or width == len(rest)):
            parts[missing[0]] = rest
            shown = ", ".join(rest) if len(rest) <= 6 else f"{rest[0]}, {rest[1]}, ... {rest[-1]}"
            notes.append(f"the input {missing[0]!r} is made of {len(rest)} columns of {where}, in this order: {shown}.")
            missing = []
        elif rest and width:
            raise DataError(
                f"{where} has no column {missing[0]!r}, and {len(rest)} other columns of numbers; the input takes {width}. "
                f"Name them {missing[0]}.0 to {missing[0]}.{width - 1}."
            )
    if missing:
        name = next((name for name in missing if name in wanted.targets), missing[0])
        raise DataError(f"{where} has no column {name!r}; it has {list(header)}. Rename or add it.")
    used = {column for columns in parts.values() for column in columns}
    return Arrangement(parts, [column for column in header if column not in used], notes)


def _numbered(name: str, header: Sequence[str]) -> list[str]:
    pattern = re.compile(re.escape(name) + r"(?:[._]|\[)(\d+)\]?")
    by_number = {int(match[1]): column for column in header if (match := pattern.fullmatch(column))}
    return [by_number[number] for number in sorted(by_number)]


def _width(v: Variable | None) -> int | None:
    """Return the number of elements of one example of this input; None if the file leaves it open"""
    if v is None or v.dims is None:
        return None
    dims = v.dims[1:]
    return int(np.prod([int(d) for d in dims if isinstance(d, int)])) if all(isinstance(d, int) for d in dims) else None


class Numbering:
    """Numbers for labels that are words, by target column: in the order of the alphabet, unless the classes are given."""

    def __init__(self, classes: Mapping[str, Sequence[str]], wanted: DataSpec | None = None) -> None:
        self.wanted = wanted or DataSpec(())
        self.classes = {name: list(class_names) for name, class_names in classes.items() if name not in self.wanted.spelled}
        self.remarks: list[str] = []

    def __call__(self, name: str, values: Sequence[str], where: str) -> Array:
        if name in self.wanted.spelled:
            labels, note = encode_characters(self.wanted.program, name, values, where)
            self.remarks = [note]
            return labels
        if name not in self.classes:
            self.classes[name] = sorted(set(values))
        number = {class_name: i for i, class_name in enumerate(self.classes[name])}
        for row, class_name in enumerate(values):
            if class_name not in number:
                known = ", ".join(self.classes[name][:10])
                raise DataError(
                    f"{where}, row {row + 1}, column {name!r}: the class {class_name!r} is none of the training data: {known}."
                )
        return np.array([number[class_name] for class_name in values], np.int64)


def shown(classes: Sequence[str]) -> str:
    """``cat = 0, dog = 1``, shortened"""
    entries = [f"{class_name} = {number}" for number, class_name in enumerate(classes)]
    return ", ".join(entries if len(entries) <= 8 else [*entries[:4], "...", entries[-1]])


def stack_columns(
    plan: Arrangement,
    columns: Mapping[str, Sequence[Any] | Array],
    wanted: DataSpec,
    numbering: Numbering,
    where: str,
    first: int = 0,
) -> Batch:
    """Build the columns of the data from the columns of a table, or of a part of it that begins with row ``first``.

    Raises:
        DataError: naming the table, the row (counted from 1) and the column of what is missing or no number.
    """

    def at(row: int, column: str) -> str:
        return f"{where}, row {first + row + 1}, column {column!r}"

    batch: Batch = {}
    for name, parts in plan.parts.items():
        target = name in wanted.targets
        if target and len(parts) == 1 and _are_class_names(columns[parts[0]], name in numbering.classes):
            cells = _present(columns[parts[0]], parts[0], at)
            batch[name] = numbering(name, [str(cell) for cell in cells], where)
            continue
        arrays = [_numbers(columns[part], part, at, target) for part in parts]
        array = arrays[0] if len(arrays) == 1 and parts == [name] else _side_by_side(arrays, parts, where)
        batch[name] = _reshaped(array, wanted.variables.get(name))
    return batch


def class_notes(classes: Mapping[str, Sequence[str]]) -> list[str]:
    """A line on the numbers of the classes of each target column."""
    return [f"classes of {name!r}: {shown(class_names)}." for name, class_names in classes.items()]


def _side_by_side(arrays: list[Array], names: Sequence[str], where: str) -> Array:
    other = next((i for i, array in enumerate(arrays) if array.shape != arrays[0].shape), None)
    if other is not None:
        shapes = f"{list(arrays[0].shape)} and {list(arrays[other].shape)}"
        raise DataError(f"{where}: the columns {names[0]!r} and {names[other]!r} have the shapes {shapes}. Make them equal.")
    return arrays[0] if len(arrays) == 1 and arrays[0].ndim > 1 else np.stack(arrays, axis=1)


def _numbers(values: Sequence[Any] | Array, column: str, at: Callable[[int, str], str], pad: bool) -> Array:
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return values
    cells = _present(values, column, at)
    if cells and any(isinstance(cell, (list, tuple, np.ndarray)) for cell in cells):
        return _rectangle(cells, column, at, pad)
    return np.array([_number(cell, row, column, at) for row, cell in enumerate(cells)])


def _present(values: Sequence[Any] | Array, column: str, at: Callable[[int, str], str]) -> list[Any]:
    cells = list(values)
    for row, cell in enumerate(cells):
        if cell is None or (isinstance(cell, str) and not cell.strip()):
            raise DataError(f"{at(row, column)} is empty. Fill it in, or leave the row out.")
    return cells


def _are_class_names(values: Sequence[Any] | Array, known: bool) -> bool:
    cells = [cell for cell in values if cell is not None] if not isinstance(values, np.ndarray) else []
    if known and cells:
        return True
    return bool(cells) and all(isinstance(cell, str) for cell in cells) and not _all_numbers(cells)


def _all_numbers(cells: Sequence[str]) -> bool:
    try:
        for cell in cells:
            float(cell)
    except ValueError:
        return False
    return True


def _number(cell: Any, row: int, column: str, at: Callable[[int, str], str]) -> int | float:
    if isinstance(cell, (bool, np.bool_)):
        return int(cell)
    if isinstance(cell, (int, float, np.integer, np.floating)):
        return cell.item() if isinstance(cell, np.generic) else cell
    try:
        text = str(cell).strip()
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    except ValueError as error:
        raise DataError(
            f"{at(row, column)} holds {str(cell)[:40]!r}, which is no number. Correct it, or leave the row out."
        ) from error


def _rectangle(cells: list[Any], column: str, at: Callable[[int, str], str], pad: bool) -> Array:
    """Rows of numbers as one array; label sequences are filled up, inputs must be of one shape"""
    try:
        arrays = [np.asarray(cell) for cell in cells]
    except ValueError as error:
        raise DataError(f"column {column!r} holds lists of unequal length ({error}). Make them rectangular.") from error
    for row, array in enumerate(arrays):
        if array.dtype.kind not in "fiub":
            raise DataError(f"{at(row, column)} holds {str(cells[row])[:40]!r}, which is no list of numbers. Correct it.")
        if array.shape != arrays[0].shape and not (pad and array.ndim == arrays[0].ndim == 1 and array.dtype.kind in "iu"):
            raise DataError(
                f"{at(row, column)} has shape {list(array.shape)}, but row 1 has {list(arrays[0].shape)}. Make them equal."
            )
    if len({array.shape for array in arrays}) == 1:
        return np.stack(arrays)
    longest = max(len(array) for array in arrays)
    return np.stack([np.pad(array, (0, longest - len(array)), constant_values=PADDING) for array in arrays])


def _reshaped(array: Array, v: Variable | None) -> Array:
    """Rows of numbers in the shape that the input declares, where that is known"""
    if v is None or v.dims is None or array.ndim != 2 or len(v.dims) < 3 or not all(isinstance(d, int) for d in v.dims[1:]):
        return array
    wanted = [int(d) for d in v.dims[1:] if isinstance(d, int)]
    return array.reshape(len(array), *wanted) if int(np.prod(wanted)) == array.shape[1] else array
