"""Formulas of losses, one function each, which ``nn.functional``, ``fluid`` and ``training`` write down with their Builder.

Each gives one value per element or per example; who calls it weights, sums or averages. Where two formulas have the same purpose,
their docstrings say in what they differ. ONNX has cross-entropy with integer classes as one operator, so it is not here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.bodies import write_body
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import dtype_of

__all__ = [
    "absolute_error", "bounded_logistic", "contrast", "cosine_parts", "ctc", "focal", "hardest_triplets", "huber", "kl_divergence",
    "kl_of_positive", "logistic", "logistic_of_scores", "overlap", "squared_error",
]  # fmt: skip


# Distances -----------------------------------------------------------------------------------------------------------


def squared_error(op: Builder, x: Variable, target: Variable) -> Any:
    """(x - t)^2"""
    difference = op.Sub(x, target)
    return op.Mul(difference, difference)


def absolute_error(op: Builder, x: Variable, target: Variable) -> Any:
    """|x - t|"""
    return op.Abs(op.Sub(x, target))


def huber(op: Builder, difference: Variable, delta: float = 1.0) -> Any:
    """c (|d| - c / 2) with c = min(|d|, delta): d^2 / 2 near 0, delta (|d| - delta / 2) beyond delta.

    Huber 1964; Girshick, "Fast R-CNN", 2015.
    """
    size = op.Abs(difference)
    inner = op.Min(size, float(delta))
    return op.Mul(inner, op.Sub(size, op.Mul(inner, 0.5)))


def cosine_parts(op: Builder, x: Variable, y: Variable, axis: int) -> tuple[Any, Any, Any]:
    """x y, |x|^2 and |y|^2 along ``axis``. The cosine is x y / (|x| |y|); who asks for it says what that is near length 0"""
    product = op.ReduceSum(op.Mul(x, y), [axis], keepdims=0)
    return product, op.ReduceSumSquare(x, [axis], keepdims=0), op.ReduceSumSquare(y, [axis], keepdims=0)


def hardest_triplets(op: Builder, x: Variable, label: Variable) -> Any:
    """Batch-hard triplets with soft margin: log(1 + exp(farthest of the class - nearest of another)), for each row

    Hermans et al., "In Defense of the Triplet Loss", 2017.
    """
    square = op.ReduceSum(op.Mul(x, x), [1], keepdims=1)
    product = op.MatMul(x, op.Transpose(x, perm=[1, 0]))
    apart = op.Add(op.Sub(square, op.Mul(product, 2.0)), op.Transpose(square, perm=[1, 0]))
    distance = op.Sqrt(op.Max(apart, 1e-12))
    same = op.Cast(op.Equal(op.Unsqueeze(label, [1]), op.Unsqueeze(label, [0])), to=x.dtype.number)
    farthest = op.ReduceMax(op.Mul(distance, same), [1], keepdims=0)
    nearest = op.ReduceMin(op.Add(distance, op.Mul(same, 1e6)), [1], keepdims=0)
    return op.Softplus(op.Sub(farthest, nearest))


def contrast(op: Builder, x: Variable, group: Variable, temperature: float) -> tuple[Any, Any]:
    """Sum over anchors of -log p of their positives, and the number of anchors: p is softmax of cosines / temperature over all
    other rows

    Rows of one group are positives of each other; a row is an anchor if its group is at least 0 and has another row. The log p of
    several positives are averaged. van den Oord et al. 2018 (InfoNCE); Henderson et al. 2017 (negatives from the batch); Khosla
    et al. 2020 (several positives).

    Args:
        x: embeddings [rows, size]; one shorter than 1e-6 counts as of that length.
        group: int64 [rows].
        temperature: above 0.
    """
    square = op.ReduceSumSquare(x, [1], keepdims=1)
    unit = op.Div(x, op.Sqrt(op.Max(square, 1e-12)))
    scores = op.Div(op.MatMul(unit, op.Transpose(unit, perm=[1, 0])), float(temperature))
    same = op.Equal(op.Unsqueeze(group, [1]), op.Unsqueeze(group, [0]))
    # Of the groups, so that the number of anchors does not depend on the embeddings.
    itself = op.Cast(op.EyeLike(op.Cast(same, to=x.dtype.number)), to=dtype_of("bool").number)
    log = op.LogSoftmax(op.Where(itself, op.constant(-1e30, x.dtype), scores), axis=1)
    counts = op.Unsqueeze(op.GreaterOrEqual(group, np.array(0)), [1])
    positive = op.Cast(op.And(op.And(same, counts), op.Not(itself)), to=x.dtype.number)
    count = op.ReduceSum(positive, [1], keepdims=0)
    each = op.Div(op.ReduceSum(op.Mul(positive, log), [1], keepdims=0), op.Max(count, 1.0))
    anchors = op.ReduceSum(op.Min(count, 1.0), keepdims=0)
    return op.Neg(op.ReduceSum(each, keepdims=0)), anchors


# Binary targets ------------------------------------------------------------------------------------------------------


def bounded_logistic(op: Builder, x: Variable, target: Variable) -> Any:
    """max(x, 0) - x t + log(1 + exp(-|x|)): no exponential overflows in any runtime, and small losses of both classes are exact"""
    stable = op.Softplus(op.Neg(op.Abs(x)))
    return op.Add(op.Sub(op.Relu(x), op.Mul(x, target)), stable)


def logistic(op: Builder, x: Variable, target: Variable, weight_of_positive: Variable | None = None) -> Any:
    """(1 - t) x + (1 + (w - 1) t) log(1 + exp(-x)): takes a weight, and leaves overflow to the runtime's Softplus"""
    smooth = op.Softplus(op.Neg(x))
    if weight_of_positive is not None:
        smooth = op.Mul(smooth, op.Add(op.Mul(op.Sub(weight_of_positive, 1.0), target), 1.0))
    return op.Add(op.Mul(op.Sub(1.0, target), x), smooth)


def logistic_of_scores(op: Builder, x: Variable, target: Variable) -> Any:
    """log(1 + exp(x)) - x t: the fewest operators; a small loss of a positive target is rounded to the precision of x"""
    return op.Sub(op.Softplus(x), op.Mul(x, target))


def focal(op: Builder, loss: Variable, x: Variable, target: Variable, alpha: float, gamma: float) -> Any:
    """loss (p + t - 2 p t)^gamma (alpha t + (1 - alpha) (1 - t)), p = sigmoid(x): less weight for what is right already.

    Lin et al., "Focal Loss for Dense Object Detection", 2017. Without an ``alpha`` above 0 both classes weigh the same.
    """
    p = op.Sigmoid(x)
    wrong = op.Sub(op.Add(p, target), op.Mul(op.Mul(p, target), 2.0))
    loss = op.Mul(loss, op.Pow(wrong, op.constant(float(gamma), x.dtype)))
    return op.Mul(loss, op.Add(op.Mul(target, 2 * alpha - 1), 1 - alpha)) if alpha > 0 else loss


def overlap(op: Builder, p: Variable, target: Variable, axes: list[int], epsilon: float, of_nothing: float = 0.0) -> Any:
    """(2 sum(p t) + epsilon of_nothing) / (sum(p) + sum(t) + epsilon) over ``axes``: the coefficient of Dice, as a score.

    Milletari et al., "V-Net", 2016; ``of_nothing`` is what it is where nothing is there and nothing was predicted.
    """
    common = op.Mul(op.ReduceSum(op.Mul(p, target), axes, keepdims=0), 2.0)
    whole = op.Add(op.ReduceSum(p, axes, keepdims=0), op.ReduceSum(target, axes, keepdims=0))
    common = op.Add(common, epsilon * of_nothing) if of_nothing else common
    return op.Div(common, op.Add(whole, float(epsilon)))


# Distributions -------------------------------------------------------------------------------------------------------


def kl_divergence(op: Builder, log: Variable, target: Variable) -> Any:
    """sum of t (log t - log p) over the last axis, for t >= 0; 0 log 0 = 0 (Kullback and Leibler 1951)"""
    entropy = op.Mul(target, op.Log(op.Clip(target, 1e-12)))
    return op.ReduceSum(op.Sub(entropy, op.Mul(target, log)), [-1], keepdims=0)


def kl_of_positive(op: Builder, log: Variable, target: Variable) -> Any:
    """t (log t - log p) for each element, and 0 where t is not positive, even where log p is infinite"""
    positive = op.Greater(target, op.constant(0.0, target.dtype))
    own = op.Log(op.Where(positive, target, op.constant(1.0, target.dtype)))
    return op.Where(positive, op.Mul(target, op.Sub(own, log)), op.constant(0.0, log.dtype))


# Sequences -----------------------------------------------------------------------------------------------------------


def ctc(op: Builder, scores: Variable, labels: Variable, lengths: Variable | None = None) -> Any:
    """-log of the summed probability of all alignments; class 0 is the blank, negative labels fill up the rows; inf if none fits

    Graves et al., "Connectionist Temporal Classification", 2006: forward variables in log space, by a Scan over the steps.

    Args:
        scores: logarithms of probabilities [batch, steps, classes].
        labels: classes [batch, labels].
        lengths: how many steps of each row count, int64 [batch]; None for all.
    """
    never = op.constant(-1e30, scores.dtype)
    path = _with_blanks(op, labels)
    size = op.Concat(op.Shape(labels, start=0, end=1), op.Shape(scores, start=1, end=2), op.Shape(path, start=1), axis=0)
    emitted = op.GatherElements(scores, op.Expand(op.Unsqueeze(path, [1]), size), axis=2)
    again = op.Equal(path, _moved(op, path, 2, op.constant(0, path.dtype)))
    skip = op.Where(op.Or(op.Equal(path, np.array(0)), again), never, op.constant(0.0, scores.dtype))
    start = op.Where(op.Equal(op.CumSum(op.Add(op.Mul(path, np.array(0)), np.array(1)), np.array(1)), np.array(1)), 0.0, never)

    def step(build: Builder, a: Variable, e: Variable, *counts: Variable) -> tuple[Variable]:
        reached = _log_add(build, a, _moved(build, a, 1, never), build.Add(_moved(build, a, 2, never), skip))
        new = build.Add(reached, e)
        return (build.Where(counts[0], new, a) if counts else new,)

    at = TensorType(scores.dtype, (None, None))
    slots, scanned = [("reached", at), ("emitted", at)], [op.Transpose(emitted, perm=[1, 0, 2])]
    if lengths is not None:
        numbers = op.Range(np.array(0), op.Squeeze(op.Shape(scores, start=1, end=2), [0]), np.array(1))
        scanned.append(op.Less(op.Unsqueeze(numbers, [1, 2]), op.Unsqueeze(lengths, [1])))
        slots.append(("counts", TensorType(dtype_of("bool"), (None, 1))))
    body = write_body(op, "ctc", slots, step)
    final = op.Scan(start, *scanned, body=body, num_scan_inputs=len(scanned))
    count = op.ReduceSum(op.Cast(op.GreaterOrEqual(labels, np.array(0)), to=7), [1], keepdims=1)
    last = op.Mul(count, np.array(2))
    on_blank = op.GatherElements(final, last, axis=1)
    on_label = op.GatherElements(final, op.Max(op.Sub(last, np.array(1)), np.array(0)), axis=1)
    on_label = op.Where(op.Equal(count, np.array(0)), never, on_label)
    loss = op.Neg(_log_add(op, on_blank, on_label))
    return op.Where(op.GreaterOrEqual(loss, 1e29), float("inf"), loss)


def _with_blanks(op: Builder, labels: Variable) -> Any:
    """blank, label, blank, label, ..., blank for each row"""
    real = op.Unsqueeze(op.Max(labels, np.array(0)), [2])
    pairs = op.Concat(op.Mul(real, np.array(0)), real, axis=2)
    return op.Pad(op.Flatten(pairs, axis=1), np.array([0, 0, 0, 1]))


def _moved(op: Builder, x: Variable, steps: int, fill: Variable) -> Any:
    """The columns moved to the right, the first ones filled"""
    wider = op.Pad(x, np.array([0, steps, 0, 0]), fill)
    return op.Slice(wider, np.array([0]), np.array([-steps]), np.array([1]))


def _log_add(op: Builder, *terms: Variable) -> Any:
    """log of the sum of exponentials; finite where all terms are"""
    largest = op.Max(*terms)
    parts = [op.Exp(op.Sub(term, largest)) for term in terms]
    return op.Add(largest, op.Log(op.Sum(*parts)))
