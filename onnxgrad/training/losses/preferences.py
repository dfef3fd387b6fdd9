"""Losses of pairs of answers, of which people prefer the first: DPO, and the reward model of Bradley and Terry.

Rows 2 i and 2 i + 1 of a batch are the preferred and the other answer to one question.

Tests: tests/training/losses/test_preferences.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.losses import bounded_logistic
from onnxgrad.training.losses.word_scores import check_word_scores, following_words
from onnxgrad.training.surgery.activations import Activation

__all__ = ["BETA", "MARGIN", "OF_ANSWERS", "REFERENCE", "log_probabilities_of_rows", "preference_loss", "reward_loss"]

REFERENCE, MARGIN = "reference", "margin"
"""Columns: the log probability of each answer before training, and by how much the preferred one is to be better."""
OF_ANSWERS = ("bradley_terry", "dpo")
"""Losses of pairs of answers."""
BETA = 0.1
"""Of ``dpo`` where nothing says another."""


def log_probabilities_of_rows(op: Builder, y: Variable, label: Variable) -> Variable:
    """The log probability of the tokens that count in each row, [rows], of scores [rows, steps, words]; labels as for causal_lm.

    Raises:
        ArgumentError: if the output is none of scores of words.
    """
    if y.rank not in (None, 3) or Activation(y).kind:
        raise ArgumentError(f"dpo needs scores of shape [rows, steps, vocabulary], not {y!r}. Name the output that holds them.")
    check_word_scores(y)
    following = following_words(op, label)
    words = y.dims[-1] if y.dims else None
    scores = op.Reshape(y, [-1, words]) if isinstance(words, int) else op.Flatten(y, axis=-1)
    if scores.dtype.name in ("float16", "bfloat16"):
        scores = op.Cast(scores, to=dtype_of("float32").number)
    each = op.SoftmaxCrossEntropyLoss(scores, op.Reshape(following, [-1]), ignore_index=-100, reduction="none")
    total: Variable = op.Neg(op.ReduceSum(op.Reshape(each, op.Shape(following)), axes=[1], keepdims=0))
    return total


def preference_loss(op: Builder, y: Variable, label: Variable, reference: Variable, beta: float, smoothing: float) -> Any:
    """-(1 - e) log sigmoid(m) - e log sigmoid(-m), m = beta (log p/p_ref of the preferred answer - that of the other), for each
    pair; Rafailov et al., "Direct Preference Optimization", 2023, with the label smoothing e of Mitchell's note on it
    """
    now = log_probabilities_of_rows(op, y, label)
    gain = op.Sub(now, reference if reference.dtype is now.dtype else op.Cast(reference, to=now.dtype.number))
    return bounded_logistic(op, op.Mul(_first_less_second(op, gain), beta), op.constant(1.0 - smoothing, gain.dtype))


def reward_loss(op: Builder, y: Variable, margin: Variable) -> Any:
    """-log sigmoid(r of the preferred answer - r of the other - margin) for each pair; Bradley and Terry, 1952"""
    last = y.dims[-1] if y.dims else None
    if y.rank not in (1, 2) or (y.rank == 2 and isinstance(last, int) and last != 1):
        raise ArgumentError(
            f"bradley_terry needs one score for each row, not {y!r}. Give the model a head for the last token of each row: "
            "replace_head(classes=1, pool='last') (--head 1 --pool last)."
        )
    scores = op.Reshape(y, [-1])
    if scores.dtype.name in ("float16", "bfloat16"):
        scores = op.Cast(scores, to=dtype_of("float32").number)
    wanted = op.Slice(margin, [0], [2**62], [0], [2])
    better = op.Sub(_first_less_second(op, scores), op.Cast(wanted, to=scores.dtype.number))
    return bounded_logistic(op, better, op.constant(1.0, scores.dtype))


def _first_less_second(op: Builder, rows: Variable) -> Variable:
    first, second = (op.Slice(rows, [begin], [2**62], [0], [2]) for begin in (0, 1))
    difference: Variable = op.Sub(first, second)
    return difference
