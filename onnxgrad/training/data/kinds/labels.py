"""Columns of several labels: words with ``;`` between them, none in an empty cell.

Tests: tests/training/data/test_labels.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.training.data.kinds.column import Cells, Column, LazyColumn, Reading, are_texts
from onnxgrad.training.data.kinds.numbers import number_in

if TYPE_CHECKING:
    from onnxgrad.training.data.spec import DataSpec

__all__ = ["LabelsColumn"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class LabelsColumn(Column):
    """Names of labels with ``;`` between them in each cell, or a list of names; an empty cell has none.

    Attributes:
        classes: the names by number; of training data in the order of the alphabet.
    """

    classes: tuple[str, ...] = ()

    kind: ClassVar[str] = "labels"
    checks: ClassVar[Mapping[str, Callable[[Any], bool]]] = {"classes": are_texts}

    @classmethod
    def recognises(cls, cells: Sequence[Any]) -> bool:
        return all(any(number_in(name) is None for name in _names(cell)) for cell in cells)

    @classmethod
    def found(
        cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None, remarks: list[str]
    ) -> LabelsColumn:
        (part,) = cells.values
        if isinstance(known, LabelsColumn):
            return cls((part,), known.classes)
        classes = tuple(sorted({label for labels in _labels(cells, part) for label in labels}))
        if not classes:
            raise DataError(f"the column {part!r} of {cells.where} has no labels: all its cells are empty.")
        v = wanted.variables.get(name)
        width = None if v is None or v.dims is None or len(v.dims) != 2 else v.dims[1]
        if isinstance(width, int) and width != len(classes):
            listed = ", ".join(classes[:10])
            raise DataError(
                f"the column {part!r} of {cells.where} has {len(classes)} labels, the model {width} outputs for them: {listed}. "
                "Give the model another head (--head), or correct the labels."
            )
        return cls((part,), classes)

    def read(
        self, name: str, cells: Cells, wanted: DataSpec, reading: Reading, remarks: list[str]
    ) -> Mapping[str, Array | LazyColumn]:
        (part,) = self.parts
        number = {label: i for i, label in enumerate(self.classes)}
        listed = _labels(cells, part)
        array = np.zeros((len(listed), len(self.classes)), np.float32)
        for row, labels in enumerate(listed):
            for label in labels:
                if label not in number:
                    known = ", ".join(self.classes[:10])
                    raise DataError(f"{cells.at(row, part)}: the label {label!r} is not a label of the training data: {known}.")
                array[row, number[label]] = 1
        return {name: array}


def _labels(cells: Cells, part: str) -> list[list[str]]:
    """The labels of each cell"""
    values = cells.values[part]
    listed = []
    for cell in values.to_pylist() if hasattr(values, "to_pylist") else values:
        names = _names(cell) or ([] if cell is None or isinstance(cell, (list, tuple)) else str(cell).split(";"))
        listed.append(list(dict.fromkeys(name.strip() for name in names if name.strip())))
    return listed


def _names(cell: Any) -> list[str]:
    """The names in a cell that holds several; none in another"""
    if isinstance(cell, str):
        return [name for name in cell.split(";") if name.strip()] if ";" in cell else []
    return list(cell) if isinstance(cell, (list, tuple)) and all(isinstance(entry, str) for entry in cell) else []
