"""Columns of numbers: one in each cell (``number``), or a list of them (``numbers``).

Tests: tests/training/data/test_kinds.py, tests/training/data/test_tables.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training.data.broken import flaws_in
from onnxgrad.training.data.characters import PADDING
from onnxgrad.training.data.kinds.column import Cells, Column, LazyColumn, Reading, are_numbers, contradiction, is_name

if TYPE_CHECKING:
    from onnxgrad.training.data.spec import DataSpec

__all__ = ["MISSING", "NumberColumn", "NumbersColumn", "is_missing", "number_in", "unit_of"]

Array = np.ndarray[Any, Any]
MISSING = ("", "-", "?", "n/a", "na", "nan", "none", "null", "#n/a")
"""What people write into a cell that has no value, in small letters."""
_WHOLE = re.compile(r"[+-]?\d+")
_GROUPED = {".": re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?"), ",": re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?")}
_SIMPLE = {
    ".": re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"),
    ",": re.compile(r"[+-]?(\d+,?\d*|,\d+)([eE][+-]?\d+)?"),
}
_LIST = re.compile(r"\[.*\]|\S+([;\s]+\S+)+", re.DOTALL)
_UNIT = re.compile(r".*\S\s*(?:\[([^\[\]]*[^\[\]\d\s][^\[\]]*)\]|\(([^()]+)\))\s*")


@dataclass(frozen=True)
class NumberColumn(Column):
    """One number in each cell; several columns of a table stand side by side.

    Attributes:
        unit: that the name of the column ends with, such as ``€`` of ``price [€]``.
        fill: for each part, what stands for an empty cell.
        decimals: for each part, its decimal sign in this file; not recorded.
    """

    unit: str | None = None
    fill: tuple[float, ...] = ()
    decimals: tuple[str, ...] = ()

    kind: ClassVar[str] = "number"
    unrecorded: ClassVar[tuple[str, ...]] = ("decimals",)
    checks: ClassVar[Mapping[str, Callable[[Any], bool]]] = {"unit": is_name, "fill": are_numbers}

    @classmethod
    def recognises(cls, cells: Sequence[Any]) -> bool:
        return all(isinstance(cell, (bool, int, float, np.generic)) or _is_number(cell) for cell in cells)

    @classmethod
    def found(
        cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None, remarks: list[str]
    ) -> NumberColumn:
        parts = tuple(cells.values)
        units = {unit for unit in map(unit_of, parts) if unit is not None} if name in wanted.targets else set()
        column = cls(parts, units.pop() if len(units) == 1 else None, (), tuple(decimal_of(cells, p, reading) for p in parts))
        if isinstance(known, NumberColumn):
            if known.unit != column.unit and None not in (known.unit, column.unit):
                advice = "Convert the numbers, and rename the column."
                raise contradiction(f"{cells.where}, column {parts[0]!r}", f"the unit {known.unit!r}", f"{column.unit!r}", advice)
            column = replace(column, unit=known.unit or column.unit, fill=known.fill if len(known.fill) == len(parts) else ())
        if name in wanted.targets:
            return replace(column, fill=())
        if reading.fill is not None:
            column = replace(column, fill=tuple(_filling(cells, part, reading) for part in parts))
        return column

    @classmethod
    def flaws(cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None) -> dict[int, str]:
        is_target = name in wanted.targets
        is_filled = not is_target and (reading.fill is not None or bool(isinstance(known, NumberColumn) and known.fill))
        flaws: dict[int, str] = {}
        for part in cells.values:
            decimal, fill = decimal_of(cells, part, reading), 0.0 if is_filled else None

            def read(rows: Array, part: str = part, decimal: str = decimal, fill: float | None = fill) -> object:
                return numbers_of(cells.of_rows(rows), part, decimal, fill, is_target)

            flaws = {**flaws_in(read, cells.count), **flaws}
        return flaws

    def read(
        self, name: str, cells: Cells, wanted: DataSpec, reading: Reading, remarks: list[str]
    ) -> Mapping[str, Array | LazyColumn]:
        fill = dict(zip(self.parts, self.fill, strict=True)) if self.fill else {}
        decimals = dict(zip(self.parts, self.decimals, strict=False))
        is_target = name in wanted.targets
        arrays = [numbers_of(cells, part, decimals.get(part, "."), fill.get(part), is_target) for part in self.parts]
        alone = len(arrays) == 1 and (is_target or self.parts == (name,))
        array = arrays[0] if alone else side_by_side(arrays, self.parts, cells.where)
        return {name: reshaped(array, wanted.variables.get(name))}


@dataclass(frozen=True)
class NumbersColumn(NumberColumn):
    """A list of numbers in each cell: ``[1, 2]``, or several with spaces or semicolons between them."""

    kind: ClassVar[str] = "numbers"

    @classmethod
    def recognises(cls, cells: Sequence[Any]) -> bool:
        return bool(cells) and all(_list_in(cell) is not None for cell in cells)


def unit_of(column: str) -> str | None:
    """Return the unit that a column's name ends with, in brackets.

    Example:
        >>> unit_of("price [€]"), unit_of("mass (kg)"), unit_of("x[2]"), unit_of("price")
        ('€', 'kg', None, None)
    """
    match = _UNIT.fullmatch(column)
    return None if match is None else (match[1] or match[2]).strip()


def is_missing(cell: Any) -> bool:
    """Return whether a cell has no value: it is empty, says so (``n/a``), or is no number (NaN)."""
    if cell is None:
        return True
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING
    return isinstance(cell, (float, np.floating)) and bool(np.isnan(cell))


def number_in(text: str, decimal: str = ".") -> int | float | None:
    """The number that a text is, with this decimal sign; None if it is none.

    Example:
        >>> number_in("1,250.00"), number_in("1.250,5", ","), number_in("12"), number_in("120 €")
        (1250.0, 1250.5, 12, None)
    """
    text = text.strip()
    if _WHOLE.fullmatch(text):
        return int(text)
    if text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    other = "," if decimal == "." else "."
    if _SIMPLE[decimal].fullmatch(text):
        number = float(text.replace(",", "."))
        return number if np.isfinite(number) else None
    if _GROUPED[decimal].fullmatch(text):
        return float(text.replace(other, "").replace(",", "."))
    return None


def _is_number(cell: Any) -> bool:
    return isinstance(cell, str) and any(number_in(cell, decimal) is not None for decimal in ".,")


def _list_in(cell: Any) -> list[Any] | None:
    """The list that a cell holds, or whose text it is; None if it is none"""
    if isinstance(cell, (list, tuple, np.ndarray)):
        return list(cell)
    if not isinstance(cell, str) or not _LIST.fullmatch(cell.strip()):
        return None
    if cell.strip()[0] == "[":
        try:
            value = json.loads(cell)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, list) else None
    numbers = [number_in(part) for part in re.split(r"[;\s]+", cell.strip())]
    return None if None in numbers else numbers


# Reading -------------------------------------------------------------------------------------------------------------


def numbers_of(cells: Cells, part: str, decimal: str = ".", fill: float | None = None, is_target: bool = False) -> Array:
    """The numbers of one column of a table, integers where all are whole, with ``fill`` in empty cells.

    Raises:
        DataError: naming the first cell that is no number, or is empty and not filled.
    """
    values = cells.values[part]
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return _whole_filled(values, cells, part, fill, is_target)
    fast = _cast(values, decimal, fill)
    if fast is not None:
        return fast
    listed = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
    present = [cell for cell in listed if not is_missing(cell)]
    if present and NumbersColumn.recognises(present[:1]) and not isinstance(present[0], (int, float)):
        return _rectangle(listed, cells, part, pad=is_target)
    numbers: list[int | float] = []
    for row, cell in enumerate(listed):
        if is_missing(cell):
            if fill is None:
                raise empty_cell(cells, row, part, cell, is_target)
            numbers.append(fill)
            continue
        number = number_in(cell, decimal) if isinstance(cell, str) else _number(cell)
        if number is None:
            raise DataError(
                f"{cells.at(row, part)} holds {str(cell)[:40]!r}, which is not a number. Correct it, or leave the row out."
            )
        numbers.append(number)
    return np.array(numbers) if numbers else np.zeros(0)


def empty_cell(cells: Cells, row: int, part: str, cell: Any, is_target: bool) -> DataError:
    """The error for a cell without a value."""
    what = "is empty" if cell is None or not str(cell).strip() else f"holds {str(cell)[:40]!r}, which is not a value"
    advice = (
        "Fill it in, or leave the row out." if is_target else "Fill it in, leave the row out, or fill empty cells (--fill median)."
    )
    return DataError(f"{cells.at(row, part)} {what}. {advice}")


def decimal_of(cells: Cells, part: str, reading: Reading) -> str:
    """The decimal sign of the numbers of a column, as the user said or as its cells show.

    Raises:
        DataError: naming a cell, if they do not show it.
    """
    if reading.decimal is not None:
        if reading.decimal not in (".", ","):
            raise ArgumentError(f"decimal is '.' or ',', not {reading.decimal!r}.")
        return reading.decimal
    values = cells.values[part]
    if isinstance(values, np.ndarray) or _has_no_comma(values):
        return "."
    doubtful = None
    for row, cell in enumerate(values.to_pylist() if hasattr(values, "to_pylist") else values):
        if not isinstance(cell, str) or "," not in cell:
            continue
        if number_in(cell, ",") is not None and number_in(cell, ".") is None:
            return ","
        if number_in(cell, ".") is not None and number_in(cell, ",") is None:
            return "."
        if number_in(cell, ".") is not None:
            doubtful = (row, cell) if doubtful is None else doubtful
    if doubtful is not None:
        row, cell = doubtful
        both = f"{number_in(cell, '.')} or {number_in(cell, ',')}"
        raise DataError(
            f"{cells.at(row, part)} holds {cell!r}, which is {both}, and no other cell shows which. Pass decimal=',' or '.' "
            "(--decimal)."
        )
    return "."


def _number(cell: Any) -> int | float | None:
    if isinstance(cell, (bool, np.bool_)):
        return int(cell)
    if isinstance(cell, (int, float, np.integer, np.floating)):
        return cell.item() if isinstance(cell, np.generic) else cell
    return None


def _has_no_comma(values: Any) -> bool:
    if not hasattr(values, "cast"):
        return False
    import pyarrow.compute as pc

    return not pc.any(pc.match_substring(values, ",")).as_py()


def _cast(values: Any, decimal: str, fill: float | None) -> Array | None:
    """Text of pyarrow as numbers at once; None if that takes a closer look at the cells"""
    if not hasattr(values, "cast"):
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    if decimal == ",":
        if pc.any(pc.match_substring(values, ".")).as_py():
            return None
        values = pc.replace_substring(values, ",", ".")
    array = _parsed(values)
    if array is not None or fill is None:
        return array
    trimmed = pc.utf8_trim_whitespace(values)
    empty = pc.is_in(pc.utf8_lower(trimmed), value_set=pa.array(MISSING))
    return _parsed(pc.if_else(empty, None, trimmed), fill)


def _parsed(values: Any, fill: float = 0.0) -> Array | None:
    """Text without gaps, or with ``fill`` in them, as finite numbers; None if some are none"""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        numbers = pc.cast(values, pa.float64())
    except pa.ArrowInvalid:
        return None
    array = _as_array(pc.fill_null(numbers, fill))
    if not np.isfinite(array).all():
        return None
    # Hexadecimal numbers, which are whole ones to pyarrow, are none of the above.
    if values.null_count == 0 and (array == np.floor(array)).all():
        with suppress(pa.ArrowInvalid):
            return _as_array(pc.cast(values, pa.int64()))
    return array


def _as_array(numbers: Any) -> Array:
    """A copy, as what is without gaps may be pyarrow's own memory"""
    import pyarrow as pa

    return np.array(numbers.to_numpy(**({} if isinstance(numbers, pa.ChunkedArray) else {"zero_copy_only": False})))


def _whole_filled(array: Array, cells: Cells, part: str, fill: float | None, is_target: bool) -> Array:
    """Numbers with ``fill`` in place of NaN"""
    if array.dtype.kind != "f" or array.ndim != 1:
        return array
    empty = np.isnan(array)
    if not empty.any():
        return array
    if fill is None:
        raise empty_cell(cells, int(empty.argmax()), part, "NaN", is_target)
    return np.where(empty, array.dtype.type(fill), array)


def _filling(cells: Cells, part: str, reading: Reading) -> float:
    """What stands for an empty cell of this column"""
    if not isinstance(reading.fill, str):
        return float(reading.fill or 0.0)
    if reading.fill not in ("median", "mean"):
        raise ArgumentError(f"fill is 'median', 'mean' or a number, not {reading.fill!r}.")
    values = cells.values[part]
    listed = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
    present = [(row, cell) for row, cell in enumerate(listed) if not is_missing(cell)]
    if not present:
        raise DataError(f"column {part!r} of {cells.where} has no number to fill empty cells with. Leave it out.")
    kept = Cells(cells.where, {part: [cell for _, cell in present]}, cells.first, cells.folder)
    try:
        numbers = numbers_of(kept, part, decimal_of(cells, part, reading)).astype(np.float64)
    except DataError:
        numbers_of(cells, part, decimal_of(cells, part, reading), 0.0)  # which names the row as the table has it
        raise
    return float(np.median(numbers) if reading.fill == "median" else np.mean(numbers))


def side_by_side(arrays: Sequence[Array], names: Sequence[str], where: str) -> Array:
    """Columns of a table as one array [rows, columns].

    Raises:
        DataError: if they have unequal shapes.
    """
    other = next((i for i, array in enumerate(arrays) if array.shape != arrays[0].shape), None)
    if other is not None:
        shapes = f"{list(arrays[0].shape)} and {list(arrays[other].shape)}"
        raise DataError(f"{where}: the columns {names[0]!r} and {names[other]!r} have the shapes {shapes}. Make them equal.")
    return arrays[0] if len(arrays) == 1 and arrays[0].ndim > 1 else np.stack(arrays, axis=1)


def _rectangle(listed: Sequence[Any], cells: Cells, part: str, pad: bool) -> Array:
    """Rows of numbers as one array; label sequences are filled up, inputs must be of one shape"""
    arrays = []
    for row, cell in enumerate(listed):
        numbers = None if is_missing(cell) else _list_in(cell)
        if numbers is None:
            if is_missing(cell):
                raise empty_cell(cells, row, part, cell, is_target=True)
            raise DataError(f"{cells.at(row, part)} holds {str(cell)[:40]!r}, which is not a list of numbers. Correct it.")
        try:
            array = np.asarray(numbers)
        except ValueError as error:
            raise DataError(f"{cells.at(row, part)} holds lists of unequal length ({error}). Make them rectangular.") from error
        if array.dtype.kind not in "fiub":
            raise DataError(f"{cells.at(row, part)} holds {str(cell)[:40]!r}, which is not a list of numbers. Correct it.")
        arrays.append(array)
        fits = array.shape == arrays[0].shape or (pad and array.ndim == arrays[0].ndim == 1 and array.dtype.kind in "iu")
        if not fits:
            raise DataError(
                f"{cells.at(row, part)} has shape {list(array.shape)}, but row 1 has {list(arrays[0].shape)}. Make them equal."
            )
    if len({array.shape for array in arrays}) == 1:
        return np.stack(arrays)
    longest = max(len(array) for array in arrays)
    return np.stack([np.pad(array, (0, longest - len(array)), constant_values=PADDING) for array in arrays])


def reshaped(array: Array, v: Variable | None) -> Array:
    """Rows of numbers in the shape that the input declares, where that is known"""
    if v is None or v.dims is None or array.ndim != 2 or len(v.dims) < 3 or not all(isinstance(d, int) for d in v.dims[1:]):
        return array
    wanted = [int(d) for d in v.dims[1:] if isinstance(d, int)]
    return array.reshape(len(array), *wanted) if int(np.prod(wanted)) == array.shape[1] else array
