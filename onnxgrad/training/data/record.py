"""What was found of data when it was opened: one record, kept by the model's file, the folder of a run and the Trainer.

It is JSON in the metadata of a model (``KEY``), and the file ``data.json`` of a run.

Tests: tests/training/data/test_record.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from onnxgrad.core.ir.program import Program
from onnxgrad.errors import ModelError
from onnxgrad.internal.files import is_file, read_whole
from onnxgrad.training.data.kinds import KINDS
from onnxgrad.training.data.kinds.column import Column, are_names

__all__ = ["FILE", "KEY", "DataRecord", "record_in", "record_of", "set_record"]

KEY = "onnxgrad.data"
FILE = "data.json"


@dataclass(frozen=True)
class DataRecord:
    """The record of the data: the interpretation of each input and target.

    Args:
        columns: by name of the input or target; see ``kinds`` for the fields of each kind of column.

    Example:
        >>> from onnxgrad.training.data.kinds.words import WordsColumn
        >>> record = DataRecord({"target": WordsColumn(("animal",), ("cat", "dog"))})
        >>> record.as_text()
        '{"columns": {"target": {"kind": "words", "parts": ["animal"], "classes": ["cat", "dog"]}}}'
        >>> DataRecord.parsed(record.as_text(), "m.onnx") == record
        True
    """

    columns: Mapping[str, Column] = field(default_factory=dict)

    @property
    def classes(self) -> dict[str, Sequence[str]]:
        """The names of classes by number, by target."""
        named = {name: getattr(column, "classes", ()) for name, column in self.columns.items()}
        return {name: list(classes) for name, classes in named.items() if classes}

    def class_name(self, number: int) -> str | None:
        """Return the name of a class of the first target that has names; None if there is none.

        Args:
            number: of the class.
        """
        classes = next(iter(self.classes.values()), ())
        return classes[number] if 0 <= number < len(classes) else None

    def merged(self, other: DataRecord) -> DataRecord:
        """Return this record with the columns of another one added, or in place of its own.

        Args:
            other: whose columns count.
        """
        return DataRecord({**self.columns, **other.columns})

    def without(self, names: Sequence[str]) -> DataRecord:
        """Return this record without some columns.

        Args:
            names: of inputs and targets.
        """
        return DataRecord({name: column for name, column in self.columns.items() if name not in names})

    def as_text(self) -> str:
        """Write the record as JSON."""
        return json.dumps({"columns": {name: column.as_json() for name, column in self.columns.items()}}, ensure_ascii=False)

    @classmethod
    def parsed(cls, text: str | bytes, where: str) -> DataRecord:
        """Read a record that ``as_text`` wrote.

        Args:
            text: JSON.
            where: the file, for messages.

        Raises:
            ModelError: if it is damaged, or holds what this version does not know.
        """
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _damaged(where, f"it is not valid JSON ({error})") from error
        columns = content.get("columns") if isinstance(content, dict) else None
        if not isinstance(columns, dict):
            raise _damaged(where, "it has no columns")
        return cls({name: _column(name, entry, where) for name, entry in columns.items()})


def record_of(program: Program | None) -> DataRecord:
    """Return the record in the metadata of a program; an empty one if there is none.

    Raises:
        ModelError: if it is damaged.
    """
    text = None if program is None else program.metadata.get(KEY)
    return DataRecord() if text is None else DataRecord.parsed(text, "the model")


def set_record(program: Program, record: DataRecord) -> None:
    """Put a record into the metadata of a program, or take it out if it is empty."""
    if record.columns:
        program.metadata[KEY] = record.as_text()
    else:
        program.metadata.pop(KEY, None)


def record_in(folder: Path) -> DataRecord | None:
    """Return the record in the folder of a run; None if there is none.

    Raises:
        ModelError: if it is damaged.
    """
    path = folder / FILE
    return DataRecord.parsed(read_whole(path), str(path)) if is_file(path) else None


def _column(name: str, entry: Any, where: str) -> Column:
    kind = KINDS.get(str(entry.get("kind"))) if isinstance(entry, dict) else None
    if kind is None:
        raise _damaged(where, f"the kind of {name!r} is not one of {', '.join(KINDS)}")
    checks = {"parts": are_names, **kind.checks}
    values: dict[str, Any] = {}
    for key, value in entry.items():
        if key == "kind":
            continue
        if key not in checks or key not in {f.name for f in fields(kind)}:
            raise _damaged(where, f"{name!r} has a field {key!r}, which this version does not know")
        if not checks[key](value):
            raise _damaged(where, f"{name!r} has {key}={str(value)[:40]!r}")
        values[key] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


def _damaged(where: str, reason: str) -> ModelError:
    return ModelError(
        f"the record of the data in {where} is damaged: {reason}. Ignore it (--ignore-record), and give the options of "
        "the data again."
    )
