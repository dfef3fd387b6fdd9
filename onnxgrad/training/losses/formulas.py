"""Losses by name.

Each takes the output and the target column, and returns one number, or one per example or element, whose mean is the loss.
Remarks say how the output was understood. The formulas and their sources are in ``onnxgrad.internal.losses``.

Tests: tests/training/losses/test_terms.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DType, dtype_of
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.losses import (
    absolute_error,
    bounded_logistic,
    contrast,
    cosine_parts,
    ctc,
    hardest_triplets,
    huber,
    kl_divergence,
    squared_error,
)
from onnxgrad.internal.words import LossName, OutputLayout
from onnxgrad.training.losses.class_weights import Weighing
from onnxgrad.training.losses.detection import boundary_loss, dice_loss, focal_loss
from onnxgrad.training.losses.preferences import BETA, preference_loss, reward_loss
from onnxgrad.training.losses.word_scores import check_word_scores, following_words
from onnxgrad.training.surgery.activations import Activation, hidden_activation

__all__ = [
    "LAYOUTS", "LOSSES", "TEMPERATURE", "alignment_loss", "class_loss", "classes_exclude", "contrastive_loss", "takes_logits",
]  # fmt: skip

Notes = list[str]


def _cross_entropy(op: Builder, y: Variable, label: Variable, notes: Notes) -> Any:
    return class_loss(op, y, label, notes)


def class_loss(
    op: Builder,
    y: Variable,
    label: Variable,
    remarks: Notes,
    loss: str = "cross_entropy",
    axis: int = 1,
    weighing: Weighing | None = None,
    weight: Variable | None = None,
    key: str = "",
) -> Any:
    """-log p of the label, p = softmax of the logits over an axis, 1 or the last; Softmax before it is seen; -100 does not count

    Along the last axis every position is a row of a matrix, which moves no score.
    """
    if y.rank == 1:
        raise ArgumentError(f"{loss} needs class scores of rank 2 or more; {y!r} has rank 1. Use bce_with_logits.")
    activation = _activation_of(y, loss, axis)
    scores, is_log = y, activation.kind == "LogSoftmax"
    if activation.kind == "Softmax":
        remarks.append(f"{y.name} holds probabilities (it comes from Softmax); the loss uses the logits before it.")
        if activation.runs_along(axis):
            scores = activation.logits(op)
        else:
            scores, is_log = activation.log_probabilities(op, y.dtype), True
    elif is_log:
        remarks.append(f"{y.name} holds log-probabilities (it comes from LogSoftmax).")
    else:
        remarks.append(f"{y.name} is read as logits: the loss applies softmax.")
    if weight is not None and axis == -1 and y.rank is not None and y.rank > 2:
        weight = op.Reshape(op.Expand(op.Reshape(weight, [-1, *[1] * (y.rank - 2)]), op.Shape(label)), [-1])
    if axis == -1 and y.rank != 2:
        classes = y.dims[-1] if y.dims else None
        scores = op.Reshape(scores, [-1, classes]) if isinstance(classes, int) else op.Flatten(scores, axis=-1)
        label = op.Reshape(label, [-1])
    if scores.dtype.name in ("float16", "bfloat16"):
        scores = op.Cast(scores, to=dtype_of("float32").number)
    if weighing is not None and not weighing.is_plain:
        return weighing.class_loss(op, scores, label, is_log, weight, key)
    if is_log:
        return op.NegativeLogLikelihoodLoss(scores, label, ignore_index=-100)
    return op.SoftmaxCrossEntropyLoss(scores, label, ignore_index=-100)


def _causal_lm(op: Builder, y: Variable, label: Variable, notes: Notes) -> Any:
    """Mean of -log p of the next token, over the tokens that count: scores [batch, steps, vocabulary], labels [batch, steps]

    The label of a position is the token at that position, so the labels move by one step and the last position has none. Moving the
    scores instead would copy them.
    """
    if y.rank not in (None, 3):
        raise ArgumentError(
            f"causal_lm needs scores of shape [batch, steps, vocabulary], not {y!r}. Name the output that holds them."
        )
    check_word_scores(y)
    following = following_words(op, label)
    return class_loss(op, y, following, notes, "causal_lm", -1)


_WRONG = {
    "bce_with_logits": ("the classes exclude each other", "Use cross_entropy"),
    "causal_lm": ("each token has a probability of its own", "Use another loss"),
    "cross_entropy": ("each class has a probability of its own", "Use bce_with_logits"),
    "ctc": ("the probabilities do not add up to 1", "Use another loss"),
    "focal": ("the classes exclude each other", "Use cross_entropy"),
    "kl": ("the probabilities do not add up to 1", "Use another loss"),
}


def takes_logits(loss: str, y: Variable) -> bool:
    """Return whether a loss of this name takes ``y`` for logits without an activation before it to confirm that"""
    return loss in _WRONG and loss != "causal_lm" and not Activation(y).kind


def _activation_of(y: Variable, loss: str, axis: int) -> Activation:
    """The activation before ``y``.

    Raises:
        ArgumentError: if the loss does not fit it, or the probabilities do not lie along this axis.
    """
    activation = Activation(y)
    _refuse_hidden(y, loss)
    if not activation.kind:
        return activation
    name = f"or name the tensor before {activation.kind}, {activation.before.name!r}, as the output of the loss."
    if (activation.kind == "Sigmoid") != (loss in ("bce_with_logits", "focal")):
        why, advice = _WRONG[loss]
        raise ArgumentError(f"{loss} does not fit {y.name}: it comes from {activation.kind}, so {why}. {advice}, {name}")
    if activation.kind != "Sigmoid" and activation.runs_along(axis) is False:
        wanted = "the last axis" if axis == -1 else f"axis {axis}"
        raise ArgumentError(
            f"{loss} reads the classes along {wanted} of {y!r}, but {activation.kind} normalises along another. "
            f"Transpose or reshape it in the model, {name}"
        )
    return activation


def _refuse_hidden(y: Variable, loss: str) -> None:
    hidden = hidden_activation(y)
    if hidden is not None:
        inside, op_type = hidden
        raise ArgumentError(
            f"{y.name} is the result of {op_type} in the body of {inside.type}, and {loss} would take it for logits. "
            f"Use the loss mse, or a file without that {inside.type}."
        )


def _log_probabilities(op: Builder, y: Variable, activation: Activation, dtype: DType) -> tuple[str, Any]:
    """Name the content of ``y``, and return log p over the last axis in an element type"""
    if activation.kind:
        content = "log-probabilities" if activation.kind == "LogSoftmax" else "probabilities"
        return content, activation.log_probabilities(op, dtype)
    return "logits", op.LogSoftmax(y if y.dtype == dtype else op.Cast(y, to=dtype.number), axis=-1)


def _logits(op: Builder, y: Variable, loss: str, notes: Notes) -> Variable:
    """The logits of probabilities of single classes"""
    activation = _activation_of(y, loss, -1)
    if activation.kind:
        notes.append(f"{y.name} holds probabilities (it comes from Sigmoid); the loss uses the logits before it.")
        return activation.logits(op)
    notes.append(f"{y.name} is read as logits: the loss applies sigmoid.")
    return y


def _bce_with_logits(op: Builder, y: Variable, target: Variable, notes: Notes) -> Any:
    return bounded_logistic(op, _logits(op, y, "bce_with_logits", notes), target)


def _focal(op: Builder, y: Variable, target: Variable, notes: Notes) -> Any:
    return focal_loss(_logits(op, y, "focal", notes), target)


def classes_exclude(y: Variable) -> bool:
    """Return whether each pixel of masks [batch, classes, ...] belongs to one class, so that the target is its number: unless there
    is one class, or a Sigmoid for each."""
    return Activation(y).kind != "Sigmoid" and not (y.rank is not None and y.rank > 1 and y.dims is not None and y.dims[1] == 1)


def _mask_probabilities(op: Builder, y: Variable, loss: str, notes: Notes) -> Variable:
    """The probabilities that masks [batch, classes, ...] hold, or that are made of their logits"""
    if y.rank is None or y.rank < 3:
        raise ArgumentError(f"{loss} needs masks of shape [batch, classes, ...], not {y!r}. Name the output that holds them.")
    _refuse_hidden(y, loss)
    activation = Activation(y)
    if activation.kind in ("Softmax", "LogSoftmax") and activation.runs_along(1) is False:
        raise ArgumentError(f"{loss} reads the classes along axis 1 of {y!r}, but {activation.kind} normalises along another.")
    if activation.kind:
        return op.Exp(y) if activation.kind == "LogSoftmax" else y
    applied = "softmax" if classes_exclude(y) else "sigmoid"
    notes.append(f"{y.name} is read as logits: the loss applies {applied}.")
    return op.Softmax(y, axis=1) if classes_exclude(y) else op.Sigmoid(y)


def _dice(op: Builder, y: Variable, target: Variable, notes: Notes) -> Any:
    """Of class numbers, those of -100 do not count"""
    p = _mask_probabilities(op, y, "dice", notes)
    if not classes_exclude(y):
        return dice_loss(p, target)
    counted = op.Not(op.Equal(target, -100))
    ends = op.constant([0.0, 1.0], p.dtype)
    hot = op.OneHot(op.Where(counted, target, 0), op.Shape(y, start=1, end=2), ends, axis=1)
    return dice_loss(p, hot, op.Unsqueeze(counted, [1]))


def _boundary(op: Builder, y: Variable, target: Variable, notes: Notes) -> Any:
    return boundary_loss(_mask_probabilities(op, y, "boundary", notes), target)


def _mse(op: Builder, y: Variable, target: Variable, notes: Notes) -> Any:
    return squared_error(op, y, target)


def _l1(op: Builder, y: Variable, target: Variable, notes: Notes) -> Any:
    return absolute_error(op, y, target)


def _smooth_l1(op: Builder, y: Variable, target: Variable, notes: Notes) -> Any:
    return huber(op, op.Sub(y, target))


def _kl(op: Builder, y: Variable, target: Variable, notes: Notes) -> Any:
    """Divergence of the target distribution from softmax of the output over the last axis"""
    content, log = _log_probabilities(op, y, _activation_of(y, "kl", -1), y.dtype)
    notes.append(f"{y.name} is read as {content}.")
    return kl_divergence(op, log, target)


def _cosine(op: Builder, y: Variable, target: Variable, notes: Notes) -> Any:
    """1 - cosine of the angle between output and target along the last axis; a shorter vector counts as of length 1e-6"""
    product, square, wanted = cosine_parts(op, y, target, -1)
    return op.Sub(1.0, op.Div(product, op.Sqrt(op.Mul(op.Max(square, 1e-12), op.Max(wanted, 1e-12)))))


def _check_embeddings(loss: str, y: Variable) -> None:
    if y.rank == 3:
        advice = f"Make one of its tokens: '{y.name}.mean(attention_mask)' or '{y.name}[:, 0]' as the output (--output)"
        raise ArgumentError(f"{loss} needs embeddings of shape [batch, size], and {y!r} has one for each token. {advice}.")
    if y.rank != 2:
        raise ArgumentError(
            f"{loss} needs embeddings of shape [batch, size], not {y!r}. Name the output that holds them (--output)."
        )


def _triplet(op: Builder, y: Variable, label: Variable, notes: Notes) -> Any:
    _check_embeddings("triplet", y)
    return hardest_triplets(op, y, label)


TEMPERATURE = 0.05
"""Of ``info_nce`` where nothing says another."""


def _info_nce(op: Builder, y: Variable, group: Variable, notes: Notes) -> Any:
    return contrastive_loss(op, y, group, TEMPERATURE)


def contrastive_loss(op: Builder, y: Variable, group: Variable, temperature: float) -> Any:
    """``info_nce`` at a temperature: the mean over the anchors of a batch, 0 where there is none"""
    _check_embeddings("info_nce", y)
    if y.dtype.name in ("float16", "bfloat16"):
        y = op.Cast(y, to=dtype_of("float32").number)
    total, anchors = contrast(op, y, group, temperature)
    return op.Div(total, op.Max(anchors, 1.0))


def _cosine_pairs(op: Builder, y: Variable, score: Variable, notes: Notes) -> Any:
    """(cosine of rows 2 i and 2 i + 1 - their score)^2; Reimers and Gurevych, "Sentence-BERT", 2019"""
    _check_embeddings("cosine_pairs", y)
    first, second = (op.Slice(y, [begin], [2**62], [0], [2]) for begin in (0, 1))
    product, square, other = cosine_parts(op, first, second, -1)
    cosine = op.Div(product, op.Sqrt(op.Mul(op.Max(square, 1e-12), op.Max(other, 1e-12))))
    return squared_error(op, cosine, op.Slice(score, [0], [2**62], [0], [2]))


def _ctc(op: Builder, y: Variable, labels: Variable, notes: Notes) -> Any:
    return alignment_loss(op, y, labels, notes, LAYOUTS[0])


LAYOUTS: tuple[OutputLayout, ...] = get_args(OutputLayout)


def alignment_loss(op: Builder, y: Variable, labels: Variable, remarks: Notes, layout: str) -> Any:
    """``ctc`` of an output in one of the layouts"""
    dtype = dtype_of("float32") if y.dtype.name in ("float16", "bfloat16") else y.dtype
    content, scores = _log_probabilities(op, y, _activation_of(y, "ctc", -1), dtype)
    axes = "[batch, steps, classes]" if layout == LAYOUTS[0] else "[steps, batch, classes]"
    remarks.append(f"{y.name} is read as {content} of shape {axes}; class 0 is the blank.")
    return ctc(op, scores if layout == LAYOUTS[0] else op.Transpose(scores, perm=[1, 0, 2]), labels)


def _bradley_terry(op: Builder, y: Variable, margin: Variable, notes: Notes) -> Any:
    return reward_loss(op, y, margin)


def _dpo(op: Builder, y: Variable, label: Variable, notes: Notes) -> Any:
    """With a reference that is 0, as one column holds the labels alone; a Term has both"""
    zero = op.constant(np.zeros((), dtype_of("float32").numpy))
    return preference_loss(op, y, label, zero, BETA, 0.0)


LOSSES: dict[LossName, Callable[[Builder, Variable, Variable, Notes], Any]] = {
    "bce_with_logits": _bce_with_logits,
    "boundary": _boundary,
    "bradley_terry": _bradley_terry,
    "causal_lm": _causal_lm,
    "cosine": _cosine,
    "cosine_pairs": _cosine_pairs,
    "cross_entropy": _cross_entropy,
    "ctc": _ctc,
    "dice": _dice,
    "dpo": _dpo,
    "focal": _focal,
    "huber": _smooth_l1,
    "info_nce": _info_nce,
    "kl": _kl,
    "l1": _l1,
    "mse": _mse,
    "smooth_l1": _smooth_l1,
    "triplet": _triplet,
}
