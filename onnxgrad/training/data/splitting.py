"""Holding out a share of the data for validation, and counting its classes.

Tests: tests/training/data/test_tables.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.internal.arguments import checked
from onnxgrad.training.data.rows import Rows, Stream
from onnxgrad.training.data.shuffled import Shuffled
from onnxgrad.training.data.text import Text

__all__ = ["class_counts", "imbalance", "split"]

Array = np.ndarray[Any, Any]
_CLASSES = 1000
_UNEVEN = 4.0


@checked
def split(
    data: Rows | Stream, fraction: float, target: str | None = None, seed: int = 0
) -> tuple[Rows | Stream, Rows | Stream, list[str]]:
    """Training and validation data of one source, and what to say about it.

    Rows that stay together are held out together. Else where the target column holds classes, each class gives its share, at least
    one example if it has two.

    Args:
        data: what ``open_data`` gives.
        fraction: share of the examples that is held out, between 0 and 1.
        target: name of the column that may hold classes.
        seed: decides which examples are held out.

    Raises:
        ArgumentError: if the fraction is none.
        DataError: if the data cannot be split, or a part would be empty.

    Example:
        >>> from onnxgrad.training.data.rows import Columns
        >>> train, held_out, said = split(Columns({"x": np.arange(20.0), "y": np.arange(20) % 2}), 0.2, "y")
        >>> len(train), sorted(held_out.column("y").tolist()), said
        (16, [0, 0, 1, 1], ["validation holds out 4 of 20 examples, stratified by 'y'."])
    """
    if not 0 < fraction < 1:
        raise ArgumentError(f"validation as a number is a share of the data between 0 and 1, not {fraction}. Give 0.1, or data.")
    if isinstance(data, Shuffled):
        return *data.parts(fraction, seed), [f"validation holds out {fraction:.3g} of the examples, drawn as they come."]
    if not isinstance(data, (Rows, Text)):
        raise DataError("ready-made batches cannot be split. Give validation data of its own, or wrap them in Shuffled.")
    rng = np.random.default_rng([seed, len(data)])
    labels = None if target is None or isinstance(data, Text) else classes_in(data.column(target))
    how = ""
    if isinstance(data, Rows) and data.together > 1:
        blocks = rng.permutation(len(data) // data.together)
        chosen = data.rows_of(blocks[: round(fraction * len(blocks))])
        how = f", of which {data.together} that follow each other stay together"
    elif labels is None:
        order = rng.permutation(len(data))
        chosen = order[: round(fraction * len(data))]
    else:
        how = f", stratified by {target!r}"
        parts = [rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
        chosen = np.concatenate([part[: _held_out_count(len(part), fraction)] for part in parts])
    if not 0 < len(chosen) < len(data):
        raise DataError(f"a share of {fraction:.3g} of {len(data)} examples leaves a part empty. Give another share, or more data.")
    kept = np.setdiff1d(np.arange(len(data)), chosen)
    note = f"validation holds out {len(chosen):,} of {len(data):,} examples{how}."
    held_out = data.select(np.sort(chosen))
    return data.select(kept), held_out.plain(), [note]


def _held_out_count(count: int, fraction: float) -> int:
    return min(max(1, round(fraction * count)), count - 1)


def classes_in(column: Array | None) -> Array | None:
    """The column if it holds one class number for each example, or 0 and 1; else None"""
    if column is None or column.size == 0:
        return None
    flat = column.reshape(len(column), -1)
    if flat.shape[1] != 1:
        return None
    values = np.unique(flat)
    if column.dtype.kind in "iub" and len(values) <= min(_CLASSES, len(flat) // 2 + 1):
        return np.asarray(flat[:, 0])
    return np.asarray(flat[:, 0]) if column.dtype.kind == "f" and set(values.tolist()) <= {0.0, 1.0} else None


def class_counts(data: Any, target: str) -> dict[int, int] | None:
    """Count the examples of each class of a target column, ignoring the label -100; None where the labels are not known."""
    column = data.column(target) if isinstance(data, Rows) else None
    if column is None or column.dtype.kind not in "iub":
        column = classes_in(column)
    if column is None:
        return None
    values, counts = np.unique(column[column != -100] if column.dtype.kind == "i" else column, return_counts=True)
    return {int(value): int(count) for value, count in zip(values, counts, strict=True)}


def imbalance(data: Any, target: str) -> str | None:
    """A sentence about classes of very unequal number, if they are."""
    column = data.column(target) if isinstance(data, Rows) and data.together == 1 else None
    labels = classes_in(column)
    if labels is None:
        return None
    counts = class_counts(data, target) or {}
    if len(counts) < 2 or max(counts.values()) < _UNEVEN * min(counts.values()):
        return None
    names = data.classes.get(target, ())
    called = {label: f"{label} ({names[label]})" if 0 <= label < len(names) else str(label) for label in counts}
    most, least = max(counts, key=lambda label: counts[label]), min(counts, key=lambda label: counts[label])
    message = (
        f"the classes are uneven: {counts[most]:,} examples of class {called[most]}, {counts[least]:,} of class {called[least]}"
    )
    return f"{message}. class_weights='balanced' (--class-weights balanced) weighs them; look at f1 rather than accuracy."
