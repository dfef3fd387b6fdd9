"""Losses that ONNX defines as operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.graph_passes.label_range import are_known_classes, inside_range
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.origin import LABEL_IN_RANGE, LABELS_IN_RANGE_OR_NAN, LESS_ONE_AT_LABEL
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like, scatter_add_flat, size_as, zeros_like
from onnxgrad.core.rules.registry import gradient


class _Rows:
    """The rows of a loss: ``labels`` made safe, how much each ``counts``, and the gradient ``g`` of what a row counting 1 adds"""

    def __init__(self, op: Builder, node: Any, scores: Variable, g: Variable) -> None:
        label, g = _in_range(op, node, scores, g)
        self.labels = op.Cast(label, to=7)
        self.weights: Any = node.inputs[2] if len(node.inputs) > 2 else None
        self.reduction = node.attr("reduction")
        self.kept = self.counts = None
        ignored = node.attr("ignore_index")
        if ignored is not None:
            kept = op.Not(op.Equal(self.labels, ignored))
            self.labels = op.Mul(self.labels, op.Cast(kept, to=7))
            self.kept = self.counts = cast_like(op, kept, scores)
        if self.weights is not None:
            weight = op.Gather(self.weights, self.labels)
            self.counts = weight if self.kept is None else op.Mul(weight, self.kept)
        if self.reduction == "mean":
            total = size_as(op, self.labels, scores) if self.counts is None else op.ReduceSum(self.counts, keepdims=0)
            g = op.Mul(g, 1.0 / total) if isinstance(total, float) and total else op.Div(g, total)
        self.g = g

    def gradient(self, op: Builder) -> Variable:
        """Gradient of each row's loss before it is weighted, as a column: 0 where ignored; one number where it is the same"""
        if self.counts is not None:
            return op.Unsqueeze(op.Mul(self.counts, self.g), [1])
        return op.Unsqueeze(self.g, [1]) if self.reduction == "none" else self.g

    def gradient_of_weights(self, op: Builder, log: Any, loss: Any) -> Any:
        """Each row's -log p, for a mean relative to the loss, added up at its label"""
        rows = op.Neg(op.Squeeze(op.GatherElements(log, op.Unsqueeze(self.labels, [1]), axis=1), [1]))
        if self.reduction == "mean":
            rows = op.Sub(rows, loss)
        if self.kept is not None:
            rows = op.Where(op.Equal(self.kept, 0.0), 0.0, rows)
        return scatter_add_flat(op, self.labels, op.Mul(rows, self.g), self.weights)


def _in_range(op: Builder, node: Any, scores: Variable, g: Variable) -> tuple[Variable, Variable]:
    """The labels, 0 for those that are no classes, and the gradient of the loss, NaN there: also where the loss is not computed

    It is a factor, so that the gradient stays linear in that of the loss.
    """
    label, ignored, number = node.inputs[1], node.attr("ignore_index"), g.dtype.numpy
    if are_known_classes(label, scores, ignored):
        return label, g
    inside = inside_range(op, label, scores, ignored)
    safe = node.wrote(LABEL_IN_RANGE, op.Where(inside, label, np.zeros((), label.dtype.numpy)))
    nothing = op.Where(inside, np.zeros((), number), np.full((), np.nan, number))
    valid = op.Add(nothing if node.attr("reduction") == "none" else op.ReduceSum(nothing, keepdims=0), np.ones((), number))
    # Of a gradient that is 1 the product would be ``valid``, and nothing could be taken off again.
    simplifies, op.simplify = op.simplify, False
    product = op.Mul(g, valid)
    op.simplify = simplifies
    return safe, node.wrote(LABELS_IN_RANGE_OR_NAN, product)


def _less_one(op: Builder, p: Variable, index: Variable) -> Variable:
    """``p`` less 1 at the index along axis 1. onnxruntime adds to float16 at no index, so there the sum is written out"""
    if p.dtype.name in ("float16", "bfloat16"):
        return op.ScatterElements(p, index, op.Sub(op.GatherElements(p, index, axis=1), 1.0), axis=1)
    return op.ScatterElements(p, index, op.Expand(op.constant(-1, p.dtype), op.Shape(index)), axis=1, reduction="add")


@gradient("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(op, node, gloss, glog=None):
    """gscores = (softmax(scores) - onehot(label)) * g of the row;  gweights = -log p at each label, for a mean minus the loss"""
    scores, loss = node.inputs[0], node.outputs[0]
    log = node.outputs[1] if len(node.outputs) > 1 else None
    if log is None and node.wants(2):
        log = op.LogSoftmax(scores, axis=1)
    gscores = gweights = None
    if node.wants(0):
        p = op.Softmax(scores, axis=1) if log is None else op.Exp(log)
    if gloss is not None:
        rows = _Rows(op, node, scores, gloss)
        if node.wants(0):
            less = node.wrote(LESS_ONE_AT_LABEL, _less_one(op, p, op.Unsqueeze(rows.labels, [1])))
            gscores = op.Mul(less, rows.gradient(op))
        if node.wants(2):
            gweights = rows.gradient_of_weights(op, log, loss)
    if glog is not None and node.wants(0):
        through = op.Sub(glog, op.Mul(p, op.ReduceSum(glog, [1], keepdims=1)))
        gscores = through if gscores is None else op.Add(gscores, through)
    return (gscores, None, gweights)[: len(node.inputs)]


@gradient("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(op, node, gloss):
    """glog = -g of the row at its label, 0 elsewhere;  gweights = -log p at each label, for a mean minus the loss"""
    log, loss = node.inputs[0], node.outputs[0]
    rows = _Rows(op, node, log, gloss)
    glog = gweights = None
    if node.wants(0):
        index = op.Unsqueeze(rows.labels, [1])
        at_labels = op.Expand(op.Neg(rows.gradient(op)), op.Shape(index))
        glog = op.ScatterElements(zeros_like(op, log), index, at_labels, axis=1)
    if node.wants(2):
        gweights = rows.gradient_of_weights(op, log, loss)
    return (glog, None, gweights)[: len(node.inputs)]
