"""SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss written out, for providers without a kernel for them.

onnxruntime expands them by itself, but only after it has cut the graph at them.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.graph.contract import Pass
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["LABELLED_LOSSES", "labelled_loss"]


def labelled_loss(build: Any, op: Operator) -> list[Variable | None] | None:
    """loss = -w[label] log_softmax(scores)[label], ignored labels left out; none, the sum, or the mean weighted by w"""
    scores, labels, *rest = op.inputs
    weight = rest[0] if rest else None
    if scores is None or labels is None:
        return None
    log = build.LogSoftmax(scores, axis=1) if op.type == "SoftmaxCrossEntropyLoss" else scores
    label, kept, ignored = build.Cast(labels, to=7), None, op.attr("ignore_index")
    if ignored is not None:
        kept = build.Not(build.Equal(label, ignored))
        label = build.Mul(label, build.Cast(kept, to=7))
    rows = build.Neg(build.Squeeze(build.GatherElements(log, build.Unsqueeze(label, [1]), axis=1), [1]))
    counts = None if weight is None else build.Gather(weight, label)
    rows = rows if counts is None else build.Mul(rows, counts)
    if kept is not None:
        # Where, as an ignored row may hold what is not finite.
        rows = build.Where(kept, rows, 0.0)
        one = build.Cast(kept, to=scores.dtype.number)
        counts = one if counts is None else build.Mul(counts, one)
    reduction = op.attr("reduction")
    if reduction == "none":
        loss = rows
    elif reduction == "sum":
        loss = build.ReduceSum(rows, keepdims=0)
    elif counts is None:
        loss = build.ReduceMean(rows, keepdims=0)
    else:
        loss = build.Div(build.ReduceSum(rows, keepdims=0), build.ReduceSum(counts, keepdims=0))
    return [loss, log if len(op.outputs) > 1 else None]


LABELLED_LOSSES = Pass(
    "labelled_losses",
    forms=dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), labelled_loss),
    rounding="order",
)
