"""Losses that ONNX defines as operators."""

from __future__ import annotations

from onnxgrad.autodiff.registry import gradient
from onnxgrad.errors import UnsupportedGradient
from onnxgrad.rules.common import cast_like, zeros_like


def _rows(op, node, scores, g):
    """(labels made safe, gradient of each row's loss): weighted, 0 where ignored, divided by the total weight for a mean"""
    labels = op.Cast(node.inputs[1], to=7)
    weights = node.inputs[2] if len(node.inputs) > 2 else None
    if node.wants(2):
        raise UnsupportedGradient(f"{node}: no gradient is written for its class weights. Set stop_gradient on them.")
    ignored = node.attr("ignore_index")
    counts = None
    if ignored is not None:
        kept = op.Not(op.Equal(labels, ignored))
        labels = op.Mul(labels, op.Cast(kept, to=7))
        counts = cast_like(op, kept, scores)
    if weights is not None:
        weight = op.Gather(weights, labels)
        counts = weight if counts is None else op.Mul(weight, counts)
    reduction = node.attr("reduction")
    if reduction == "mean":
        total = op.ReduceSum(counts, keepdims=0) if counts is not None else cast_like(op, op.Size(labels), scores)
        g = op.Div(g, total)
    if counts is not None:
        g = op.Mul(counts, g)
    elif reduction != "none":
        g = op.Expand(g, op.Shape(labels))
    return labels, g


def _at_labels(op, start, labels, values):
    """``start`` with ``values`` written at each row's label (axis 1)"""
    return op.ScatterElements(start, op.Unsqueeze(labels, [1]), op.Unsqueeze(values, [1]), axis=1)


@gradient("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(op, node, gloss, glog=None):
    """gscores = (softmax(scores) - onehot(label)) * g of the row's loss;  through log_prob as in LogSoftmax"""
    scores = node.inputs[0]
    log = node.outputs[1] if len(node.outputs) > 1 else None
    p = op.Softmax(scores, axis=1) if log is None else op.Exp(log)
    gscores = None
    if gloss is not None:
        labels, g = _rows(op, node, scores, gloss)
        index = op.Unsqueeze(labels, [1])
        less_one = op.Sub(op.GatherElements(p, index, axis=1), 1.0)
        gscores = op.Mul(op.ScatterElements(p, index, less_one, axis=1), op.Unsqueeze(g, [1]))
    if glog is not None:
        through = op.Sub(glog, op.Mul(p, op.ReduceSum(glog, [1], keepdims=1)))
        gscores = through if gscores is None else op.Add(gscores, through)
    return gscores


@gradient("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(op, node, gloss):
    """glog = -g of the row's loss at its label, 0 elsewhere"""
    log = node.inputs[0]
    labels, g = _rows(op, node, log, gloss)
    return _at_labels(op, zeros_like(op, log), labels, op.Neg(g))
