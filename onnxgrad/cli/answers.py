"""Answers of a model as people read them: a class with its probability, labels, numbers or boxes, in tables and JSON."""

# Tests: tests/cli/test_predict.py, tests/cli/test_tasks.py.

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.files import write_whole
from onnxgrad.training.data.annotated.writing import labels_in
from onnxgrad.training.data.kinds.labels import LabelsColumn
from onnxgrad.training.data.kinds.numbers import NumberColumn
from onnxgrad.training.data.record import DataRecord
from onnxgrad.training.surgery.activations import score_kind, score_threshold

__all__ = ["Answers", "answers_of", "write_answers", "write_boxes"]

Array = np.ndarray[Any, Any]
_WIDEST, _IN_TEXT = 10_000, 4
_SIDES = ("left", "top", "right", "bottom")


class Answers(NamedTuple):
    """What an output says of all examples.

    Attributes:
        name: of the output.
        values: [examples, columns], as the output has them; of labels their probabilities.
        names: of the columns: classes, labels, or what the numbers are; empty where nothing says it.
        classes: of each example the most probable class; None where an output is of no classes.
        probabilities: of these.
        labels: of each example those above the threshold, with ``;`` between them; None where an output is of no labels.
    """

    name: str
    values: Array
    names: Sequence[str] = ()
    classes: Sequence[str] | None = None
    probabilities: Array | None = None
    labels: Sequence[str] | None = None

    def columns(self) -> dict[str, Sequence[Any] | Array]:
        """The columns of a table."""
        columns: dict[str, Sequence[Any] | Array] = {}
        if self.classes is not None and self.probabilities is not None:
            columns |= {f"{self.name}.class": self.classes, f"{self.name}.probability": self.probabilities}
        if self.labels is not None:
            columns[f"{self.name}.labels"] = self.labels
        width = self.values.shape[1]
        if width == 1 and not columns:
            return {self.name: self.values[:, 0]}
        names = self.names if self.names and self.classes is None else range(width)
        return {**columns, **{f"{self.name}.{name}": self.values[:, i] for i, name in enumerate(names)}}

    def entry(self, example: int) -> Any:
        """The answer of one example for JSON."""
        values = [float(f"{v:.9g}") for v in self.values[example].tolist()]
        if self.classes is not None and self.probabilities is not None:
            scores = dict(zip(self.names, values, strict=True))
            return {"class": self.classes[example], "probability": float(f"{self.probabilities[example]:.9g}"), "scores": scores}
        if self.labels is not None:
            chosen = [label for label in self.labels[example].split(";") if label]
            return {"labels": chosen, "probabilities": dict(zip(self.names, values, strict=True))}
        return dict(zip(self.names, values, strict=True)) if self.names else values[0] if len(values) == 1 else values

    def line(self, example: int) -> str:
        """The answer of one example as words, to be written under its picture."""
        if self.classes is not None and self.probabilities is not None:
            return f"{self.classes[example]} {self.probabilities[example]:.2f}"
        values = self.values[example]
        if self.labels is not None:
            chosen = {label for label in self.labels[example].split(";") if label}
            return ", ".join(f"{n} {v:.2f}" for n, v in zip(self.names, values, strict=True) if n in chosen) or "no label"
        numbers = [f"{value:.4g}" for value in values[:_IN_TEXT].tolist()]
        named = [f"{n} {number}" for n, number in zip(self.names, numbers, strict=False)] if self.names else numbers
        more = ", ..." if len(values) > _IN_TEXT else ""
        return f"{'' if self.names else f'{self.name} '}{', '.join(named)}{more}"


def answers_of(
    outputs: Mapping[str, Any], record: DataRecord, variables: Mapping[str, Variable], targets: Mapping[str, str]
) -> list[Answers]:
    """Understand outputs by the record of the data that the model was trained with.

    Args:
        outputs: arrays by name.
        record: of the data.
        variables: outputs of the program, by name.
        targets: by output, the target that its loss compared it with. For another output, the only target with as many classes.

    Raises:
        ArgumentError: if an output has too many numbers for a table, or outputs have unequal numbers of rows.
    """
    answers = []
    counts = {len(array) for array in outputs.values()}
    for name, array in outputs.items():
        flat = np.asarray(array).reshape(len(array), -1)
        if flat.shape[1] > _WIDEST or len(counts) > 1:
            raise ArgumentError(
                f"the output {name!r} has shape {list(np.shape(array))}, which does not fit into a table. Write an .npz file."
            )
        target = targets.get(name) if name in targets else _target_of(flat.shape[1], record)
        column = None if target is None else record.columns.get(target)
        classes = () if target is None else record.classes.get(target, ())
        if (np.ndim(array) == 2 and len(classes) == flat.shape[1] > 1) or (isinstance(column, LabelsColumn) and len(classes) == 1):
            kind = score_kind(variables[name])
            if isinstance(column, LabelsColumn):
                chosen = labels_in(flat, classes, score_threshold(kind))
                answers.append(Answers(name, _each(flat, kind), classes, labels=chosen))
            else:
                best = [classes[i] for i in flat.argmax(axis=1)]
                answers.append(Answers(name, flat, classes, best, _exclusive(flat, kind).max(axis=1)))
        else:
            answers.append(Answers(name, flat, _parts_of(column, target, flat.shape[1])))
    return answers


def _target_of(width: int, record: DataRecord) -> str | None:
    fitting = [name for name, classes in record.classes.items() if len(classes) == width]
    return fitting[0] if len(fitting) == 1 else None


def _parts_of(column: Any, target: str | None, width: int) -> Sequence[str]:
    """What numbers are, by the columns of the table that the target was made of"""
    if not isinstance(column, NumberColumn) or len(column.parts) != width or width == 1:
        return ()
    return [part.removeprefix(f"{target}.") for part in column.parts]


def _each(scores: Array, kind: str) -> Array:
    """Probabilities of labels that do not exclude each other"""
    if kind in ("Sigmoid", "HardSigmoid"):
        return scores
    probabilities: Array = 1 / (1 + np.exp(-np.clip(np.asarray(scores, np.float64), -700, 700)))
    return probabilities


def _exclusive(scores: Array, kind: str) -> Array:
    """Probabilities of classes that exclude each other"""
    if kind in ("Softmax", "Sigmoid", "HardSigmoid"):
        return scores
    values = np.asarray(scores, np.float64)
    exponentials = np.exp(values - values.max(axis=1, keepdims=True))
    probabilities: Array = exponentials / exponentials.sum(axis=1, keepdims=True)
    return probabilities


# Files -----------------------------------------------------------------------------------------------------------------


def write_answers(path: Path, answers: Sequence[Answers], files: Sequence[str]) -> None:
    """Write a row or an object for each example.

    Args:
        path: of a .csv or .json file.
        answers: of each output.
        files: of pictures, one for each example; empty where there are none.
    """
    count = len(answers[0].values)
    if path.suffix == ".json":
        entries = [
            {"example": i, **({"file": files[i]} if files else {}), **{a.name: a.entry(i) for a in answers}} for i in range(count)
        ]
        write_whole(path, json.dumps(entries, indent=1, ensure_ascii=False).encode())
        return
    columns: dict[str, Any] = {"file": files} if files else {}
    for answer in answers:
        columns |= answer.columns()
    rows = zip(range(count), *columns.values(), strict=True)
    _write_table(path, ["example", *columns], rows)


def write_boxes(path: Path, pictures: Sequence[Array], names: Sequence[str] | None, files: Sequence[str]) -> None:
    """Write a row for each box, and an empty one for a picture without; or an object for each picture.

    Args:
        path: of a .csv or .json file. The columns are those of a table of boxes that a detector may be trained on.
        pictures: [D, 6] of each: class, probability, left, top, right, bottom in its pixels.
        names: of classes.
        files: of pictures, one for each.
    """

    def name(kind: float) -> str:
        return str(names[int(kind)]) if names is not None and kind < len(names) else str(int(kind))

    if path.suffix == ".json":
        entries = [
            {
                "example": i,
                **({"file": files[i]} if files else {}),
                "boxes": [
                    {
                        "class": name(kind),
                        "probability": float(f"{p:.6g}"),
                        **{side: float(f"{at:.6g}") for side, at in zip(_SIDES, box, strict=True)},
                    }
                    for kind, p, *box in rows.tolist()
                ],
            }
            for i, rows in enumerate(pictures)
        ]
        write_whole(path, json.dumps(entries, indent=1, ensure_ascii=False).encode())
        return
    table: list[list[Any]] = []
    for i, rows in enumerate(pictures):
        begin = [i, files[i]] if files else [i]
        table += [[*begin, name(kind), *(f"{v:.6g}" for v in numbers)] for kind, *numbers in rows.tolist()]
        if not len(rows):
            table.append([*begin, *[""] * 6])
    _write_table(path, ["example", *(["file"] if files else []), "class", "probability", *_SIDES], table)


def _write_table(path: Path, head: Sequence[str], rows: Any) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow([f"{v:.9g}" if isinstance(v, np.floating) else v for v in row])
    write_whole(path, text.getvalue().encode())
