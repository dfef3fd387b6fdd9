"""Batches checked and converted to what the program takes.

Tests: tests/training/test_trainer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.state.inputs import COLUMN, Door, Input, as_input
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training.data.annotated.answers import IGNORED
from onnxgrad.training.data.derived_inputs import advice_on_missing
from onnxgrad.training.data.kinds.groups import OF_GROUPS
from onnxgrad.training.data.rows import Batch
from onnxgrad.training.losses.terms import Term

__all__ = ["check_labels", "checked_batch", "doubted_logits", "ignoring", "lone_rows", "output_shapes"]

Array = np.ndarray[Any, Any]
_CLASSES = ("causal_lm", "cross_entropy", "ctc", "dice", "dpo")

ENOUGH_VALUES = 64  # fewer logits lie between 0 and 1 by chance, of a fresh head for example


def checked_batch(batch: dict[str, Any], variables: Sequence[Variable]) -> Batch:
    """The columns that the variables want, in their element types.

    Raises:
        DataError: if one is missing, misshapen, of another kind, out of the range of its type, or not finite.
    """
    feed: Batch = {}
    for v in variables:
        if v.name not in batch:
            raise DataError(f"the batch has no column {v.name!r}; it has {sorted(batch)}. {advice_on_missing(v.name)}.")
        array = as_input(v, batch[v.name], _COLUMN)
        if v.dtype.is_float and not np.isfinite(array).all():
            where = int(np.argmax(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))) if array.ndim else 0
            raise DataError(f"column {v.name!r} holds a value that is not finite (example {where} of the batch). Clean the data.")
        feed[v.name] = array
    return feed


def _shaped(v: Input, array: Array, door: Door) -> Array:
    """The array without a last axis of length 1 where the model has none, and with one where the model alone has it"""
    if v.dims is None:
        return array
    if array.ndim == len(v.dims) - 1 and v.dims and v.dims[-1] == 1:
        array = array[..., None]
    if array.ndim == len(v.dims) + 1 and array.shape[-1] == 1:
        array = array[..., 0]
    fits = array.ndim == len(v.dims) and all(
        not isinstance(want, int) or want == have for want, have in zip(v.dims, array.shape, strict=True)
    )
    if fits:
        return array
    wanted = ", ".join(str(dim) if isinstance(dim, int) else "any" for dim in v.dims)
    first = v.dims[0] if v.dims else None
    behind = zip(v.dims[1:], array.shape[1:], strict=False)
    fits_behind = array.ndim == len(v.dims) and all(not isinstance(want, int) or want == have for want, have in behind)
    fixed = fits_behind and isinstance(first, int)
    last = "" if first == 1 else " and leave out the smaller last one (--drop-last)"
    advice = f"Use batches of {first} (--batch-size {first}){last}." if fixed else "Reshape the column."
    raise DataError(f"column {v.name!r} has shape {list(array.shape)}, the model takes [{wanted}]. {advice}")


_COLUMN = COLUMN._replace(fit=_shaped)


def ignoring(feed: Batch, terms: Sequence[Term], outputs: Sequence[Variable]) -> Batch:
    """The batch with -100 for pixels of masks that do not count, which masks have as -1 and losses by name as -100."""
    of_pixels = [term.target for term, v in zip(terms, outputs, strict=True) if isinstance(term.loss, str) and (v.rank or 0) > 3]
    masks = {name for name in of_pixels if feed[name].dtype.kind == "i"}
    changed = {name: np.where(feed[name] == IGNORED, -100, feed[name]) for name in masks if (feed[name] == IGNORED).any()}
    return {**feed, **changed} if changed else feed


def check_labels(feed: Batch, terms: Sequence[Term], shapes: Sequence[tuple[Any, ...]]) -> None:
    """Check that class numbers are below the number of classes of the output, that label sequences fit into its steps, and that
    both rows of a scored pair have its score.

    Raises:
        DataError: naming the column.
    """
    for term, dims in zip(terms, shapes, strict=True):
        name = term.target
        if term.loss == "cosine_pairs":
            _check_scores(feed[name], name)
        if term.loss not in _CLASSES or feed[name].dtype.kind == "f":  # masks of single classes
            continue
        last, labels = dims[-1], feed[name]
        if term.loss in ("causal_lm", "dpo") and not (labels[:, 1:] != -100).any():
            raise DataError(
                f"column {name!r} holds no token to predict: behind the first, all labels are -100. Leave such examples out."
            )
        if isinstance(last, int):
            negative = labels < 0 if term.loss != "ctc" else np.zeros_like(labels, bool)
            wrong = labels[(labels != -100) & (negative | (labels >= last))]
            if wrong.size:
                message = (
                    f"column {name!r} holds the label {int(wrong[0])}; {term.output or 'the output'} has classes 0 to {last - 1}."
                )
                raise DataError(f"{message} Number the classes from 0, or give the model another head.")
        if term.loss == "ctc" and isinstance(dims[1], int):
            _check_sequences(labels, dims[1], name)


def output_shapes(
    terms: Sequence[Term],
    layouts: Sequence[str | None],
    outputs: Sequence[Variable],
    feed: Batch,
    run: Callable[[str, Batch], Array],
) -> list[tuple[Any, ...]]:
    """Shapes of the outputs of the terms, batch first, classes last; this batch says how many there are where the model does not.

    Raises:
        ArgumentError: if this batch shows that a ctc term takes the steps of its output for the batch.
    """
    shapes = []
    for term, layout, v in zip(terms, layouts, outputs, strict=True):
        dims = list(v.dims or (None, None, None))
        axis = 1 if term.loss in ("cross_entropy", "dice") and layout != "NTC" else -1
        if term.loss in _CLASSES and not isinstance(dims[axis], int):
            dims[axis] = run(v.name, feed).shape[axis]
        if axis == 1:
            dims = [dims[0], *dims[2:], dims[1]]
        if layout is not None and term.loss == "ctc":
            if term.layout is None:
                _check_layout(layout, v, feed, feed[term.target], run)
            batch = layout.index("N")
            dims = [dims[batch], dims[1 - batch], dims[2]]
        shapes.append(tuple(dims))
    return shapes


def _check_layout(layout: str, v: Variable, feed: Batch, labels: Array, run: Callable[[str, Batch], Array]) -> None:
    """Check that the axis taken for the batch is as long as the labels, and longer for a longer batch"""
    at = layout.index("N")
    shape = run(v.name, feed).shape
    if shape[0] != shape[1]:
        wrong = shape[at] != len(labels)
    elif isinstance(v.dims[at] if v.dims else None, int):
        return
    else:
        twice = run(v.name, {name: np.concatenate([array, array]) if array.ndim else array for name, array in feed.items()})
        wrong = twice.shape[at] == shape[at]
    if wrong:
        other = "TNC" if layout == "NTC" else "NTC"
        raise ArgumentError(
            f"ctc: the output {v.name} has shape {list(shape)} for {len(labels)} examples, so axis {at} is not the batch. "
            f"Pass layout='{other}' (--layout {other}) if the other axis is."
        )


def doubted_logits(outputs: Sequence[Any], names: Sequence[str], as_logits: Sequence[bool]) -> list[str]:
    """A sentence for each output that is taken for logits and holds what looks like probabilities; None is one of another rank."""
    sentences = []
    for value, name, taken in zip(outputs, names, as_logits, strict=True):
        array = np.zeros(0) if value is None else np.asarray(value)
        if taken and _looks_like_probabilities(array):
            low, high = f"{array.min():.3g}", f"{array.max():.3g}"
            sentences.append(
                f"{name} is read as logits, but all its values in the first batch lie between {low} and {high}. "
                "If these are probabilities, name the tensor before the last activation as the output of the loss."
            )
    return sentences


def _looks_like_probabilities(array: Array) -> bool:
    """Whether all values lie from 0 to 1 and the classes' add up to 1; sigmoids do not, so there many values must lie so"""
    if not array.size or not 0 <= array.min() < array.max() <= 1:
        return False
    if array.size >= ENOUGH_VALUES:
        return True
    axes = {axis for axis in (1, array.ndim - 1) if 1 <= axis < array.ndim and array.shape[axis] > 1}
    return any(bool((np.abs(array.sum(axis=axis, dtype=np.float64) - 1) < 1e-2).all()) for axis in axes)


def lone_rows(feed: Batch, terms: Sequence[Term]) -> list[str]:
    """A sentence for each term that compares rows of one group, where no two of the batch are of one."""
    sentences = []
    for term in terms:
        if term.loss in OF_GROUPS:
            groups = feed[term.target]
            if len(groups) > 1 and len(np.unique(groups)) == len(groups):
                sentences.append(
                    f"no two rows of the first batch have the same {term.target!r}, so {term.loss} has no positive pairs. "
                    "Give rows of one group one after the other, or a larger batch_size (--batch-size)."
                )
    return sentences


def _check_scores(scores: Array, name: str) -> None:
    """Rows 2 i and 2 i + 1 are a pair, whose score both have"""
    if len(scores) % 2 or (scores[0::2] != scores[1::2]).any():
        raise DataError(
            f"column {name!r}: rows 2 i and 2 i + 1 of a batch are a pair and must have the same score. "
            "Give both rows of a pair one after the other."
        )
    wrong = scores[np.abs(scores) > 1]
    if wrong.size:
        raise DataError(f"column {name!r} holds the score {wrong[0]:.6g}; scores are cosines, from -1 to 1. Divide them.")


def _check_sequences(labels: Array, steps: int, name: str) -> None:
    """Connectionist temporal classification needs a step for each label and one between equal ones"""
    real = labels >= 0
    needed = real.sum(axis=1) + ((labels[:, 1:] == labels[:, :-1]) & real[:, 1:]).sum(axis=1)
    if needed.size and needed.max() > steps:
        example = int(needed.argmax())
        raise DataError(f"column {name!r}: example {example} of the batch needs {int(needed.max())} steps, the model has {steps}.")
