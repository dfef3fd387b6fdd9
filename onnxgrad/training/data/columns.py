"""From the columns of a table to the columns that a model and its loss take.

Tests: tests/training/data/test_tables.py, tests/training/data/test_record.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training.data.characters import characters
from onnxgrad.training.data.kinds import KINDS
from onnxgrad.training.data.kinds.column import Cells, Column, LazyColumn, Reading, contradiction
from onnxgrad.training.data.kinds.groups import OF_PAIRS, GroupsColumn, pair_columns
from onnxgrad.training.data.kinds.numbers import unit_of
from onnxgrad.training.data.kinds.sound import check_states, sound_inputs
from onnxgrad.training.data.kinds.text import TextColumn, text_inputs
from onnxgrad.training.data.preparing import image_inputs
from onnxgrad.training.data.rows import Array
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.surgery.streams import KEY as STREAM

__all__ = ["PATHS", "TARGETS", "Arrangement", "arrange_columns", "found_columns", "read_columns", "reads_labels"]

TARGETS = ("label", "labels", "class", "target", "y")
"""Names that people give to the column of targets; one of them is taken where the name that was asked for is missing."""
PATHS = ("path", "file", "filename", "file_name", "filepath", "image", "image_path", "sound", "audio")
_TEXTS = ("text", "sentence", "texts")
_SCORES = ("score", "similarity", "label")
"""Names of the column that says how alike the texts of a pair are."""
_INDEX = ("", "Unnamed: 0")
"""Names of a column that numbers the rows of a table."""
_FILES = ("picture", "sound")
"""Kinds of columns whose cells are paths."""
_LABELS = ("bce_with_logits", "focal")
_NUMBERS = ("mse", "l1", "smooth_l1", "kl", "cosine", "causal_lm", "cosine_pairs")


class Arrangement(NamedTuple):
    """By input or target the columns of a table that form it, and its kind; the unused columns, and notes on the guesses."""

    parts: dict[str, list[str]]
    kinds: dict[str, str]
    unused: list[str]
    remarks: list[str]

    @property
    def read(self) -> list[str]:
        """The columns of the table that are read."""
        return list(dict.fromkeys(name for names in self.parts.values() for name in names))

    @property
    def together(self) -> int:
        """How many rows each row of the table becomes: one for each of several texts that stay together."""
        return max((len(self.parts[name]) for name, kind in self.kinds.items() if kind == TextColumn.kind), default=1)

    def cells(self, name: str, cells: Cells) -> Cells:
        """The cells of one input or target."""
        return cells.of_columns(self.parts[name])


def arrange_columns(kinds: Mapping[str, str | None], wanted: DataSpec, where: str, reading: Reading) -> Arrangement:
    """Map the columns of a table to inputs and targets.

    Columns count in this order: those that the user names, those of the record of the data, the one of the same name (a unit in
    brackets may follow), numbered ones (``x.0``, ``x_1``, ``x[2]``). A single input of pictures takes the column of paths, one of
    numbers that of paths of sounds, one of tokens the column of text, or for a loss of pairs the two or three columns of these,
    and a single other input that is left all columns of numbers that are left, in their order.

    Args:
        kinds: of the columns of the table, in its order.
        wanted: the columns of the data.
        where: the table, for messages.
        reading: what the user said.

    Raises:
        DataError: if a column is missing.
        ArgumentError: if the user names an input or target that there is not.
    """
    plan = _Plan(kinds, wanted, where, reading)
    plan.take_named()
    plan.take_pairs()
    plan.take_targets()
    plan.take_text()
    plan.take_pictures()
    plan.take_sounds()
    plan.take_rest()
    used = {column for columns in plan.parts.values() for column in columns}
    return Arrangement(
        plan.parts,
        {name: plan.kind_of(name) for name in plan.parts},
        [column for column in kinds if column not in used],
        plan.remarks,
    )


class _Plan:
    """The columns of a table, as they are given to inputs and targets one after the other"""

    def __init__(self, kinds: Mapping[str, str | None], wanted: DataSpec, where: str, reading: Reading) -> None:
        self.kinds, self.wanted, self.where, self.reading = kinds, wanted, where, reading
        self.parts: dict[str, list[str]] = {}
        self.remarks: list[str] = []
        self.by_tokenizer: str | None = None
        """The input whose column of text a tokenizer reads."""
        self.derived: list[str] = []
        """Inputs that the tokenizer gives besides."""
        self.groups: list[str] = []
        """Targets that say which texts belong together."""

    @property
    def missing(self) -> list[str]:
        return [name for name in self.wanted.names if name not in self.parts and name not in self.derived]

    def left(self, *kinds: str) -> list[str]:
        """The columns of these kinds that nothing has taken"""
        taken = {column for columns in self.parts.values() for column in columns}
        return [column for column, kind in self.kinds.items() if kind in kinds and column not in taken]

    def take_named(self) -> None:
        known = [*self.wanted.names, *self.wanted.optional]
        for name in self.reading.columns:
            if name not in (*known, *self.wanted.beside):
                raise ArgumentError(f"there is no input or target {name!r} to make of columns; there are {known}.")
        for name in known:
            matches = self._named(name)
            if matches:
                self.parts[name] = matches

    def _named(self, name: str) -> list[str]:
        given = self.reading.columns.get(name)
        if given is not None:
            absent = [column for column in given if column not in self.kinds]
            if absent:
                raise DataError(f"{self.where} has no column {absent[0]!r}; it has {list(self.kinds)}. Name others (--columns).")
            return list(given)
        recorded = self._recorded(name)
        own = [name] if name in self.kinds else _with_unit(name, self.kinds) or _numbered(name, self.kinds)
        if not recorded:
            return own
        absent = [column for column in recorded if column not in self.kinds]
        if not absent:
            return recorded
        if own:
            return own
        raise DataError(
            f"{self.where} has no column {absent[0]!r}, and the model was trained with {name!r} made of {_few(recorded)}; "
            f"the table has {_few(list(self.kinds))}. Rename the columns, or name the columns (--columns {name}=...)."
        )

    def _recorded(self, name: str) -> list[str]:
        column = self.wanted.record.columns.get(name)
        if column is None or column.parts == (name,) or isinstance(column, GroupsColumn):
            return []
        if isinstance(column, TextColumn) and len(column.parts) > 1 and any(part not in self.kinds for part in column.parts):
            return []  # a model of pairs reads single texts, too
        return list(column.parts)

    def take_pairs(self) -> None:
        target = next((name for name in self.wanted.targets if self.wanted.losses.get(name) in OF_PAIRS), None)
        if target is None or self.reading.tokenizer is None:
            return
        loss = self.wanted.losses[target]
        tokens, _, _ = text_inputs(self.wanted)
        texts = self.parts.get(tokens) or pair_columns(self.left("words"))
        if loss != "cosine_pairs" and (len(texts) < 2 or target in self.parts):
            return  # texts with classes
        if len(texts) not in ((2,) if loss == "cosine_pairs" else (2, 3)):
            raise DataError(
                f"{loss} reads pairs of texts, and {self.where} has the columns {_few(list(self.kinds))}. "
                f"Call them 'sentence1' and 'sentence2', or name the columns (--columns {tokens}=A,B)."
            )
        self.parts[tokens] = texts
        if loss == "cosine_pairs":
            scores = [name for name in _SCORES if name in self.left("number")]
            if target not in self.parts and scores:
                self.parts[target] = scores[:1]
            self.remarks.append(
                f"{self.where}: {_few(texts)} are pairs, {_few(self.parts.get(target, []))} holds their similarity."
            )
            return
        self.parts[target] = texts
        self.groups.append(target)
        alike = f"{_few(texts[:2])} mean the same"
        self.remarks.append(f"{self.where}: {alike}{', ' + repr(texts[2]) + ' does not' if len(texts) > 2 else ''}.")

    def take_targets(self) -> None:
        targets = [name for name in self.missing if name in self.wanted.targets]
        others = [name for name in TARGETS if name in self.left(*KINDS)]
        others = [name for name in others if name not in (*self.wanted.names, *self.wanted.optional)]
        if len(targets) == 1 and len(others) != 1 and any(kind in _FILES for kind in self.kinds.values()):
            others = [name for name in self.left(*KINDS) if self.kinds[name] not in _FILES]
        if len(targets) == 1 and len(others) != 1 and self._is_mask(targets[0]):
            pictures = [name for name in self.left("picture") if name not in PATHS]
            others = pictures if len(pictures) == 1 else others
        if len(targets) == 1 and len(others) == 1:
            self.parts[targets[0]] = others
            self.remarks.append(f"the column {others[0]!r} of {self.where} is taken as {targets[0]!r}.")

    def take_text(self) -> None:
        if self.reading.tokenizer is None:
            return
        tokens, mask, types = text_inputs(self.wanted)
        self.by_tokenizer = tokens
        self.derived = [name for name in (mask, types) if name is not None]
        for name in self.derived:
            self.parts.pop(name, None)
        if tokens in self.parts:
            return
        candidates = self.left("words")
        named = [name for name in _TEXTS if name in candidates]
        rest = [name for name in candidates if name not in self.wanted.beside]
        if not named and len(rest) != 1:
            pairs = set(self.wanted.losses.values()) & set(OF_PAIRS)
            also = ", or name pairs 'anchor' and 'positive' (--columns)" if pairs else ""
            raise DataError(f"no column of {self.where} is known to be the text; it has {list(self.kinds)}. Call it 'text'{also}.")
        self.parts[tokens] = [named[0] if named else rest[0]]

    def take_pictures(self) -> None:
        images = [v.name for v in image_inputs([v for name, v in self.wanted.variables.items() if name in self.missing])]
        paths = self.left("picture")
        named = [name for name in PATHS if name in paths]
        chosen = named[:1] or (paths if len(paths) == 1 else [])
        if len(images) == 1 and chosen:
            self.parts[images[0]] = chosen

    def take_sounds(self) -> None:
        inputs = [v.name for v in sound_inputs(self.wanted) if v.name in self.missing]
        paths = self.left("sound")
        if paths:
            check_states(self.wanted)
        named = [name for name in PATHS if name in paths]
        chosen = named[:1] or (paths if len(paths) == 1 else [])
        if len(inputs) == 1 and chosen:
            self.parts[inputs[0]] = chosen

    def take_rest(self) -> None:
        missing = self.missing
        if len(missing) == 1 and missing[0] not in self.wanted.targets:
            self._take_numbers(missing[0])
        for name in sorted(self.missing, key=lambda name: name not in self.wanted.targets):
            raise DataError(f"{self.where} has no column {name!r}; it has {list(self.kinds)}. Rename or add it{self._words()}.")

    def _take_numbers(self, name: str) -> None:
        width = _width(self.wanted.variables.get(name))
        numbers = [column for column in self.left("number", "numbers") if column not in _INDEX]
        rest = [column for column in numbers if column not in self.wanted.beside] or numbers
        if width is not None and len(rest) > width:
            rest = [column for column in rest if column not in TARGETS] or rest
        if rest and (width is None or width == len(rest)):
            self.parts[name] = rest
            shown = ", ".join(rest) if len(rest) <= 6 else f"{rest[0]}, {rest[1]}, ... {rest[-1]}"
            self.remarks.append(f"the input {name!r} is made of {len(rest)} columns of {self.where}, in this order: {shown}.")
        elif rest and width:
            raise DataError(
                f"{self.where} has no column {name!r}, and {len(rest)} other columns of numbers; the input takes {width}. "
                f"Name them {name}.0 to {name}.{width - 1}, or name the columns (--columns {name}=...){self._words()}."
            )

    def _words(self) -> str:
        words = self.left("words")
        return f"; {_few(words)} hold text, which cannot be an input: encode it as numbers" if words else ""

    def kind_of(self, name: str) -> str:
        """The kind of an input or target: as its loss wants it, else as its cells are"""
        if name == self.by_tokenizer:
            return TextColumn.kind
        if name in self.groups:
            return GroupsColumn.kind
        shown = [self.kinds[part] for part in self.parts[name]]
        if name not in self.wanted.targets:
            return str(shown[0]) if shown in (["picture"], ["sound"]) else "numbers" if shown == ["numbers"] else "number"
        return self._kind_of_target(name, shown)

    def _kind_of_target(self, name: str, shown: list[str | None]) -> str:
        loss = self.wanted.losses.get(name, "")
        if self.wanted.program is not None and STREAM in self.wanted.program.metadata and "sound" in self.kinds.values():
            return "spans"
        recorded = self.wanted.record.columns.get(name)
        if shown == ["picture"] and self._is_mask(name):
            return "mask"
        if shown in (["words"], ["labels"]) and reads_labels(self.wanted, name):
            return "labels"
        if shown == ["labels"] and not loss:  # a function
            return "labels"
        if len(shown) > 1 or shown == ["numbers"]:
            return "number" if len(shown) > 1 else "numbers"
        if loss == "ctc":
            return "characters" if shown != ["number"] or characters(self.wanted.program) else "number"
        if loss in _NUMBERS:
            return "number"
        if recorded is not None and recorded.kind == "number" and shown == ["words"]:
            at = f"{self.where}, column {self.parts[name][0]!r}"
            raise contradiction(at, "numbers", "a column of text", "Write numbers, or ignore the record (--ignore-record).")
        if recorded is not None and recorded.kind in ("words", "number"):
            return recorded.kind
        return "words" if shown in (["words"], ["labels"], ["picture"], ["sound"]) else "number"

    def _is_mask(self, name: str) -> bool:
        """Whether the loss reads an answer for each pixel"""
        v = self.wanted.variables.get(name)
        return v is None or v.rank is None or v.rank >= 3


def reads_labels(wanted: DataSpec, name: str) -> bool:
    """Whether the loss of a target reads a number from 0 to 1 for each of several labels"""
    v = wanted.variables.get(name)
    is_several = v is not None and v.dims is not None and v.dtype.is_float and len(v.dims) == 2 and v.dims[1] != 1
    return is_several and wanted.losses.get(name, "") in _LABELS


def found_columns(plan: Arrangement, cells: Cells, wanted: DataSpec, reading: Reading, remarks: list[str]) -> dict[str, Column]:
    """What the cells of a table say of each input and target.

    Raises:
        DataError: if they contradict the record.
    """
    return {
        name: KINDS[plan.kinds[name]].found(
            name, plan.cells(name, cells), wanted, reading, wanted.record.columns.get(name), remarks
        )
        for name in plan.parts
    }


def read_columns(
    plan: Arrangement,
    columns: Mapping[str, Column],
    cells: Cells,
    wanted: DataSpec,
    reading: Reading,
    remarks: list[str],
) -> dict[str, Array | LazyColumn]:
    """The inputs and targets that the cells of a table, or of a part of it, give.

    Where texts stay together, as those of pairs do, what each row has besides is repeated for each of them.

    Raises:
        DataError: naming the table, the row (counted from 1) and the column of what cannot be used.
    """
    arrays: dict[str, Array | LazyColumn] = {}
    for name, column in columns.items():
        read = column.read(name, plan.cells(name, cells), wanted, reading, remarks)
        has_all = plan.together == 1 or plan.kinds[name] in (TextColumn.kind, GroupsColumn.kind)
        arrays.update(read if has_all else {key: _repeated(key, values, plan.together) for key, values in read.items()})
    return arrays


def _repeated(name: str, values: Array | LazyColumn, times: int) -> Array:
    if isinstance(values, LazyColumn):
        raise DataError(f"{name!r} is read batch by batch, which pairs of texts do not allow. Give it as an array.")
    return np.repeat(values, times, axis=0)


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:6]))
    return f"{shown}, ... ({len(names)} in all)" if len(names) > 6 else shown


def _with_unit(name: str, header: Mapping[str, str | None]) -> list[str]:
    """The only column that has this name and a unit in brackets behind it"""
    named = [column for column in header if unit_of(column) is not None and re.split(r"\s*[\[(]", column)[0] == name]
    return named if len(named) == 1 else []


def _numbered(name: str, header: Mapping[str, str | None]) -> list[str]:
    pattern = re.compile(re.escape(name) + r"(?:[._]|\[)(\d+)\]?")
    by_number = {int(match[1]): column for column in header if (match := pattern.fullmatch(column))}
    return [by_number[number] for number in sorted(by_number)]


def _width(v: Variable | None) -> int | None:
    """Return the number of elements of one example of this input; None if the file leaves it open"""
    if v is None or v.dims is None:
        return None
    dims = v.dims[1:]
    return int(np.prod([int(d) for d in dims if isinstance(d, int)])) if all(isinstance(d, int) for d in dims) else None
