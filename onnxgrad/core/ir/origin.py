"""Record the origin of an operator: a gradient rule or a layer, as which piece, and for which result of a forward operator.

A form that takes an operator for one that a rule wrote asks for its origin and for its structure: for the origin, since others
write the same operators, and for the structure, since a file may say anything and a rule may change. Files keep origins in the
metadata of nodes, under ``onnxgrad.origin``.

Tests: tests/core/ir/test_origin.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from onnxgrad.core.ir.operator import Operator
    from onnxgrad.core.ir.variable import Variable

__all__ = [
    "BATCH_MEAN",
    "BATCH_MEAN_GRADIENT",
    "BATCH_STATISTICS_GRADIENT",
    "BATCH_VARIANCE",
    "FILTER_GRADIENT",
    "INSIDE_BOUNDS",
    "LABELS_IN_RANGE_OR_NAN",
    "LABEL_IN_RANGE",
    "LESS_ONE_AT_LABEL",
    "PIECES",
    "SCALED_LOSS",
    "SUM_AT_MAXIMA",
    "WEIGHED_GRADIENT",
    "Origin",
    "inherit_origin",
    "is_piece",
    "is_written_for",
]

FILTER_GRADIENT = "filter gradient"
"""The Conv whose result, its first two axes swapped, is the gradient of a filter: rules of Conv and ConvTranspose."""
SUM_AT_MAXIMA = "sum at maxima"
"""The ScatterElements that adds a gradient up where a MaxPool found its maxima."""
LESS_ONE_AT_LABEL = "less one at label"
"""The ScatterElements that takes 1 from probabilities at the label of each row: the rule of SoftmaxCrossEntropyLoss."""
LABEL_IN_RANGE = "label in range"
"""The Where that gives a loss its labels, with 0 for those that are no classes (``core/graph_passes/label_range.py``)."""
LABELS_IN_RANGE_OR_NAN = "labels in range or NaN"
"""The Mul by which the gradient of a loss is NaN where a label is no class."""
INSIDE_BOUNDS = "inside bounds"
"""Where the operand of a Clip lies between its bounds."""
BATCH_MEAN = "batch mean"
"""The mean per channel that the gradient of a BatchNormalization in training finds again."""
BATCH_VARIANCE = "batch variance"
"""The variance per channel, likewise."""
BATCH_MEAN_GRADIENT = "batch mean gradient"
"""A mean over the batch of what reaches each channel."""
BATCH_STATISTICS_GRADIENT = "batch statistics gradient"
"""A gradient that reaches mean or variance themselves."""
SCALED_LOSS = "scaled loss"
"""The loss times its scale, for those who differentiate the loss itself, as stages of a pipeline do."""
WEIGHED_GRADIENT = "weighed gradient"
"""A gradient times the weight of its micro-batch, as it is added up."""

PIECES = (
    FILTER_GRADIENT,
    SUM_AT_MAXIMA,
    LESS_ONE_AT_LABEL,
    LABEL_IN_RANGE,
    LABELS_IN_RANGE_OR_NAN,
    INSIDE_BOUNDS,
    BATCH_MEAN,
    BATCH_VARIANCE,
    BATCH_MEAN_GRADIENT,
    BATCH_STATISTICS_GRADIENT,
    SCALED_LOSS,
    WEIGHED_GRADIENT,
)


class Origin(NamedTuple):
    """The rule or layer that wrote an operator.

    Attributes:
        rule: the type of the operator whose gradient it belongs to, or the name of the layer.
        piece: which part of what the rule writes it is; empty for parts that nobody asks for.
        of: the first result of the forward operator, so that two of one type are told apart; None where it is not in the program.
    """

    rule: str
    piece: str = ""
    of: Variable | None = None


def is_piece(op: Operator | None, *pieces: str) -> bool:
    """Whether an operator says of itself that it is one of these pieces."""
    return op is not None and op.origin is not None and op.origin.piece in pieces


def is_written_for(op: Operator, *rules: str) -> bool:
    """Whether an operator says of itself that the rule of one of these types wrote it."""
    return op.origin is not None and op.origin.rule in rules


def inherit_origin(old: Variable, new: Variable) -> None:
    """Give the operator that computes ``new`` the origin of the one that computes ``old``, if it is of its type and has none."""
    if old.op is not None and new.op is not None and new.op.origin is None and new.op.type == old.op.type:
        new.op.origin = old.op.origin
