"""Losses between predictions and targets; ``reduction`` is 'mean', 'sum' or 'none'."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.losses import absolute_error, cosine_parts, ctc, huber, kl_of_positive, logistic, squared_error
from onnxgrad.tensor.common import as_dtype, known, known_dim
from onnxgrad.tensor.layer import LayerHelper
from onnxgrad.tensor.linalg import vector_norm

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "ctc_loss", "dice_loss",
    "gaussian_nll_loss", "hinge_embedding_loss", "kl_div", "l1_loss", "log_loss", "margin_ranking_loss", "mse_loss",
    "multi_label_soft_margin_loss", "multi_margin_loss", "npair_loss", "poisson_nll_loss", "sigmoid_focal_loss",
    "smooth_l1_loss", "soft_margin_loss", "square_error_cost", "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


def reduced(layer: LayerHelper, x: Variable, reduction: str) -> Variable:
    """The losses as they are, their sum, or their mean.

    Raises:
        ArgumentError: for another reduction.
    """
    if reduction == "none":
        return layer.result("Identity", x)
    op_type = {"mean": "ReduceMean", "sum": "ReduceSum"}.get(reduction)
    if op_type is None:
        raise ArgumentError(f"{layer.name}: reduction is 'mean', 'sum' or 'none', not {reduction!r}.")
    return layer.result(op_type, x, keepdims=0)


def _layer(kind: str, reduction: str, *items: Any, name: str | None = None) -> LayerHelper:
    """The layer of a loss, whose reduction is checked before anything is appended"""
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(f"{kind}: reduction is 'mean', 'sum' or 'none', not {reduction!r}.")
    return LayerHelper(kind, *(item for item in items if item is not None), name=name)


def _alike(kind: str, first: Variable, *others: Variable) -> None:
    """Refuse tensors of other shapes than the first, as far as these are known."""
    for other in others:
        known = zip(first.shape, other.shape, strict=False)
        if first.ndim != other.ndim or any(a != b for a, b in known if a >= 0 and b >= 0):
            raise ArgumentError(f"{kind}: the shapes {list(first.shape)} and {list(other.shape)} are to be the same.")


# Distances -----------------------------------------------------------------------------------------------------------


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """(input - label)^2, element by element.

    Example:
        >>> F.square_error_cost(static.data("x", [None, 1]), static.data("y", [None, 1])).shape
        (-1, 1)
    """
    layer = LayerHelper("square_error_cost", input, label)
    difference = layer.result("Sub", input, label)
    return layer.result("Mul", difference, difference)


def mse_loss(input: Variable, label: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """Squared difference."""
    layer = _layer("mse_loss", reduction, input, label, name=name)
    return reduced(layer, squared_error(layer.op, input, label), reduction)


def l1_loss(input: Variable, label: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """Absolute difference."""
    layer = _layer("l1_loss", reduction, input, label, name=name)
    return reduced(layer, absolute_error(layer.op, input, label), reduction)


def smooth_l1_loss(
    input: Variable,
    label: Variable,
    reduction: str = "mean",
    delta: float = 1.0,
    is_huber: bool = True,
    name: str | None = None,
) -> Variable:
    """Half the squared difference where it is below ``delta``, else delta (|difference| - delta / 2).

    Args:
        is_huber: False to divide by ``delta``.
    """
    layer = _layer("smooth_l1_loss", reduction, input, label, name=name)
    op = layer.op
    loss = huber(op, op.Sub(input, label), delta)
    return reduced(layer, loss if is_huber else op.Div(loss, float(delta)), reduction)


# Binary targets ------------------------------------------------------------------------------------------------------


def binary_cross_entropy(
    input: Variable, label: Variable, weight: Variable | None = None, reduction: str = "mean", name: str | None = None
) -> Variable:
    """-label log(input) - (1 - label) log(1 - input), for probabilities; a logarithm counts as -100 at least.

    Args:
        weight: a factor for each element.

    Example:
        >>> F.binary_cross_entropy(static.data("p", [None, 3]), static.data("t", [None, 3])).shape
        ()
    """
    layer = _layer("bce_loss", reduction, input, label, weight, name=name)
    op = layer.op
    hit = op.Mul(label, _bounded_log(op, input))
    miss = op.Mul(op.Sub(1.0, label), _bounded_log(op, op.Sub(1.0, input)))
    loss = op.Neg(op.Add(hit, miss))
    return reduced(layer, loss if weight is None else op.Mul(loss, weight), reduction)


def _bounded_log(op: Any, x: Variable) -> Any:
    """log(x), and -100 at 0, with no infinite slope there"""
    positive = op.Greater(x, op.constant(0.0, x.dtype))
    return op.Where(positive, op.Log(op.Where(positive, x, op.constant(1.0, x.dtype))), op.constant(-100.0, x.dtype))


def binary_cross_entropy_with_logits(
    logit: Variable,
    label: Variable,
    weight: Variable | None = None,
    reduction: str = "mean",
    pos_weight: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """``binary_cross_entropy`` of the sigmoid of ``logit``, computed stably.

    Args:
        weight: a factor for each element.
        pos_weight: a factor for the part of positive labels.
    """
    layer = _layer("sigmoid_cross_entropy_with_logits", reduction, logit, label, weight, pos_weight, name=name)
    loss = logistic(layer.op, logit, label, pos_weight)
    return reduced(layer, loss if weight is None else layer.op.Mul(loss, weight), reduction)


def sigmoid_focal_loss(
    logit: Variable,
    label: Variable,
    normalizer: Variable | None = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "sum",
    name: str | None = None,
) -> Variable:
    """Logistic loss that gives less weight to what is right already: (1 - p)^gamma. Lin et al. 2017.

    Args:
        normalizer: divide by this one number.
        alpha: weight of positive labels, 1 - alpha of negative ones; 0 for none.
    """
    layer = _layer("sigmoid_focal_loss", reduction, logit, label, normalizer, name=name)
    op = layer.op
    p = op.Sigmoid(logit)
    wrong = op.Sub(op.Add(p, label), op.Mul(op.Mul(p, label), 2.0))
    loss = op.Mul(logistic(op, logit, label), op.Pow(wrong, op.constant(float(gamma), logit.dtype)))
    if alpha > 0:
        loss = op.Mul(loss, op.Add(op.Mul(label, 2 * alpha - 1), 1 - alpha))
    return reduced(layer, loss if normalizer is None else op.Div(loss, normalizer), reduction)


def log_loss(input: Variable, label: Variable, epsilon: float = 1e-4, name: str | None = None) -> Variable:
    """-label log(input + epsilon) - (1 - label) log(1 - input + epsilon), element by element."""
    layer = LayerHelper("log_loss", input, label, name=name)
    op = layer.op
    hit = op.Mul(label, op.Log(op.Add(input, float(epsilon))))
    miss = op.Mul(op.Sub(1.0, label), op.Log(op.Sub(1.0 + epsilon, input)))
    return layer.result("Neg", op.Add(hit, miss))


def soft_margin_loss(input: Variable, label: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """log(1 + exp(-label input)), for labels 1 and -1."""
    layer = _layer("soft_margin_loss", reduction, input, label, name=name)
    op = layer.op
    return reduced(layer, op.Softplus(op.Neg(op.Mul(as_dtype(op, label, input.dtype), input))), reduction)


def hinge_embedding_loss(
    input: Variable, label: Variable, margin: float = 1.0, reduction: str = "mean", name: str | None = None
) -> Variable:
    """``input`` where the label is 1, max(0, margin - input) where it is -1."""
    layer = _layer("hinge_embedding_loss", reduction, input, label, name=name)
    op = layer.op
    zero = op.constant(0.0, input.dtype)
    near = op.Where(op.Equal(label, op.constant(1, label.dtype)), input, zero)
    far = op.Where(op.Equal(label, op.constant(-1, label.dtype)), op.Relu(op.Sub(float(margin), input)), zero)
    return reduced(layer, op.Add(near, far), reduction)


# Distributions -------------------------------------------------------------------------------------------------------


def kl_div(
    input: Variable, label: Variable, reduction: str = "mean", log_target: bool = False, name: str | None = None
) -> Variable:
    """label (log(label) - input), where ``input`` holds logarithms of probabilities; 0 where the label is not positive.

    Args:
        reduction: 'mean' over all elements, 'batchmean' for the sum divided by the first size, 'sum' or 'none'.
        log_target: the label holds logarithms too.
    """
    layer = _layer("kldiv_loss", "sum" if reduction == "batchmean" else reduction, input, label, name=name)
    op = layer.op
    wide = "float64" if "float64" in (input.dtype.name, label.dtype.name) else input.dtype.name
    input, label = as_dtype(op, input, wide), as_dtype(op, label, wide)
    if log_target:
        loss = op.Mul(op.Exp(label), op.Sub(label, input))
    else:
        loss = kl_of_positive(op, input, label)
    if reduction != "batchmean" or input.ndim == 0:
        return reduced(layer, loss, "sum" if reduction == "batchmean" else reduction)
    rows = op.Cast(op.Squeeze(op.Shape(input, start=0, end=1), [0]), to=input.dtype.number)
    return layer.result("Div", op.ReduceSum(loss, keepdims=0), rows)


def poisson_nll_loss(
    input: Variable,
    label: Variable,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-8,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """exp(input) - label input, or input - label log(input + epsilon) if ``log_input`` is False.

    Args:
        full: add Stirling's term where the label is above 1.

    Raises:
        ArgumentError: if ``epsilon`` is not positive.
    """
    layer = _layer("poisson_nll_loss", reduction, input, label, name=name)
    if epsilon <= 0:
        raise ArgumentError(f"poisson_nll_loss: epsilon is positive, not {epsilon}.")
    op = layer.op
    label = as_dtype(op, label, input.dtype)
    if log_input:
        loss = op.Sub(op.Exp(input), op.Mul(label, input))
    else:
        loss = op.Sub(input, op.Mul(label, op.Log(op.Add(input, float(epsilon)))))
    if full:
        large = op.Greater(label, op.constant(1.0, label.dtype))
        safe = op.Where(large, label, op.constant(1.0, label.dtype))
        stirling = op.Add(op.Sub(op.Mul(safe, op.Log(safe)), safe), op.Mul(op.Log(op.Mul(safe, 2 * math.pi)), 0.5))
        loss = op.Add(loss, op.Where(large, stirling, op.constant(0.0, label.dtype)))
    return reduced(layer, loss, reduction)


def gaussian_nll_loss(
    input: Variable,
    label: Variable,
    variance: Variable,
    full: bool = False,
    epsilon: float = 1e-6,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """(log v + (input - label)^2 / v) / 2, where v is the variance or, if larger, epsilon.

    Args:
        variance: of the shape of ``input``, or without its last axis, or with 1 there.
        full: add log(2 pi) / 2.
    """
    layer = _layer("gaussian_nll_loss", reduction, input, label, variance, name=name)
    op = layer.op
    if variance.is_eager and 0 not in variance.shape and known(op.ReduceMin(variance, keepdims=0)) < 0:
        raise ArgumentError("gaussian_nll_loss: a variance is negative.")
    if variance.ndim == input.ndim - 1:
        variance = op.Unsqueeze(variance, [-1])
    v = op.Clip(variance, float(epsilon))
    loss = op.Mul(op.Add(op.Log(v), op.Div(squared_error(op, input, label), v)), 0.5)
    return reduced(layer, op.Add(loss, 0.5 * math.log(2 * math.pi)) if full else loss, reduction)


# Margins -------------------------------------------------------------------------------------------------------------


def margin_ranking_loss(
    input: Variable,
    other: Variable,
    label: Variable,
    margin: float = 0.0,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """max(0, margin - label (input - other)): ``input`` should be larger for label 1, smaller for -1."""
    layer = _layer("margin_ranking_loss", reduction, input, other, label, name=name)
    op = layer.op
    ahead = op.Mul(as_dtype(op, label, input.dtype), op.Sub(other, input))
    return reduced(layer, op.Relu(op.Add(ahead, float(margin)) if margin else ahead), reduction)


def cosine_embedding_loss(
    input1: Variable,
    input2: Variable,
    label: Variable,
    margin: float = 0,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """1 - cos of two vectors for label 1, max(0, cos - margin) for label -1.

    Raises:
        ArgumentError: if the label does not have one axis less than the inputs.
    """
    layer = _layer("cosine_embedding_loss", reduction, input1, input2, label, name=name)
    op = layer.op
    _alike("cosine_embedding_loss", input1, input2)
    if label.ndim != input1.ndim - 1 and (input1.ndim, tuple(label.shape)) != (1, (1,)):
        raise ArgumentError(f"cosine_embedding_loss: the label has {label.ndim} axes; it needs {input1.ndim - 1}.")
    if label.dtype.name not in ("int32", "int64", "float32", "float64"):
        raise ArgumentError(f"cosine_embedding_loss: a label is int32, int64, float32 or float64, not {label.dtype.name}. Cast it.")
    product, first, second = cosine_parts(op, input1, input2, -1)
    cosine = op.Div(product, op.Sqrt(op.Mul(op.Add(first, 1e-12), op.Add(second, 1e-12))))
    zero = op.constant(0.0, input1.dtype)
    near = op.Where(op.Equal(label, op.constant(1, label.dtype)), op.Sub(1.0, cosine), zero)
    far = op.Where(op.Equal(label, op.constant(-1, label.dtype)), op.Relu(op.Sub(cosine, float(margin))), zero)
    return reduced(layer, op.Add(near, far), reduction)


def triplet_margin_loss(
    input: Variable,
    positive: Variable,
    negative: Variable,
    margin: float = 1.0,
    p: float = 2.0,
    epsilon: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """max(0, margin + the distance to ``positive`` - the distance to ``negative``).

    Args:
        p, epsilon: distances are p-norms of the difference plus epsilon.
        swap: take the distance between ``positive`` and ``negative`` if it is the smaller one.
    """

    def distance(a: Variable, b: Variable) -> Variable:
        op = LayerHelper("pairwise_distance", a, b).op
        return vector_norm(op.Add(op.Sub(a, b), float(epsilon)), float(p), -1)

    return triplet_margin_with_distance_loss(input, positive, negative, distance, margin, swap, reduction, name)


def triplet_margin_with_distance_loss(
    input: Variable,
    positive: Variable,
    negative: Variable,
    distance_function: Callable[[Variable, Variable], Variable] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """``triplet_margin_loss`` with any distance of two variables (Euclid's unless given)."""
    if distance_function is None:
        return triplet_margin_loss(input, positive, negative, margin, 2.0, 0.0, swap, reduction, name)
    layer = _layer("triplet_margin_loss", reduction, input, positive, negative, name=name)
    op = layer.op
    _alike("triplet_margin_loss", input, positive, negative)
    if margin < 0:
        raise ArgumentError(f"triplet_margin_loss: the margin is at least 0, not {margin}.")
    near, far = distance_function(input, positive), distance_function(input, negative)
    if swap:
        far = op.Min(far, distance_function(positive, negative))
    return reduced(layer, op.Relu(op.Add(op.Sub(near, far), float(margin))), reduction)


def multi_label_soft_margin_loss(
    input: Variable, label: Variable, weight: Variable | None = None, reduction: str = "mean", name: str | None = None
) -> Variable:
    """Mean over the classes of the logistic loss of each class.

    Args:
        weight: a factor for each class.
    """
    layer = _layer("multi_label_soft_margin_loss", reduction, input, label, weight, name=name)
    _alike("multi_label_soft_margin_loss", input, label)
    op = layer.op
    loss = logistic(op, input, as_dtype(op, label, input.dtype))
    loss = loss if weight is None else op.Mul(loss, weight)
    return reduced(layer, op.ReduceMean(loss, [-1], keepdims=0), reduction)


def multi_margin_loss(
    input: Variable,
    label: Variable,
    p: int = 1,
    margin: float = 1.0,
    weight: Variable | None = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """Mean over the wrong classes of max(0, margin - right + wrong)^p, for [N, C] scores and integer labels.

    Args:
        weight: a factor for each class, inside the power.
    """
    layer = _layer("multi_margin_loss", reduction, input, label, weight, name=name)
    op = layer.op
    classes = known_dim(input, 1, "multi_margin_loss")
    column = op.Reshape(as_dtype(op, label, "int64"), np.array([-1, 1]))
    excess = op.Add(op.Sub(input, op.GatherElements(input, column, axis=1)), float(margin))
    if weight is not None:
        excess = op.Mul(excess, op.Gather(weight, column))
    wrong = op.Not(op.Equal(column, op.constant(np.arange(classes))))
    powers = op.Relu(excess) if p == 1 else op.Pow(op.Relu(excess), op.constant(float(p), input.dtype))
    counted = op.Where(wrong, powers, op.constant(0.0, input.dtype))
    return reduced(layer, op.ReduceMean(counted, [1], keepdims=0), reduction)


# Others --------------------------------------------------------------------------------------------------------------


def dice_loss(input: Variable, label: Variable, epsilon: float = 1e-5, name: str | None = None) -> Variable:
    """1 - 2 sum(input label) / (sum(input) + sum(label)), a mean over samples; probabilities against integer classes.

    Args:
        input: variable of shape [N, ..., classes].
        label: integers of shape [N, ..., 1].
    """
    layer = LayerHelper("dice_loss", input, label, name=name)
    op = layer.op
    classes = known_dim(input, -1, "dice_loss")
    values = op.constant([0.0, 1.0], input.dtype)
    hot = op.OneHot(op.Squeeze(label, [-1]), np.array(classes), values, axis=-1)
    axes = list(range(1, input.ndim))
    common = op.ReduceSum(op.Mul(input, hot), axes, keepdims=0)
    whole = op.Add(op.ReduceSum(input, axes, keepdims=0), op.ReduceSum(hot, axes, keepdims=0))
    score = op.Div(op.Mul(common, 2.0), op.Add(whole, float(epsilon)))
    return layer.result("ReduceMean", op.Sub(1.0, score), keepdims=0)


def npair_loss(anchor: Variable, positive: Variable, labels: Variable, l2_reg: float = 0.002) -> Variable:
    """Cross-entropy between the similarities of all anchors and positives and whether their labels agree, plus L2. Sohn 2016.

    Args:
        anchor, positive: variables of shape [N, features].
        labels: one number per row.
    """
    layer = LayerHelper("npair_loss", anchor, positive, labels)
    op = layer.op
    column = op.Reshape(labels, np.array([-1, 1]))
    same = op.Cast(op.Equal(column, op.Transpose(column, perm=[1, 0])), to=anchor.dtype.number)
    target = op.Div(same, op.ReduceSum(same, [1], keepdims=1))
    lengths = [op.ReduceMean(op.ReduceSumSquare(v, [1], keepdims=0), keepdims=0) for v in (anchor, positive)]
    decay = op.Mul(op.Add(*lengths), 0.25 * l2_reg)
    similar = op.MatMul(anchor, op.Transpose(positive, perm=[1, 0]))
    entropy = op.Neg(op.ReduceSum(op.Mul(target, op.LogSoftmax(similar, axis=1)), [1], keepdims=1))
    return layer.result("Add", decay, op.ReduceMean(op.ReduceSum(op.Mul(target, entropy), [0], keepdims=0), keepdims=0))


def ctc_loss(
    log_probs: Variable,
    labels: Variable,
    input_lengths: Variable,
    label_lengths: Variable,
    blank: int = 0,
    reduction: str = "mean",
    norm_by_times: bool = False,
) -> Variable:
    """-log of the summed probability of all alignments of the labels with the steps, 0 if none fits. Graves et al. 2006.

    Args:
        log_probs: logits [steps, batch, classes]; softmax is applied here.
        labels: classes [batch, labels].
        input_lengths, label_lengths: how many steps and labels of each row count, integers [batch].
        blank: the class of the blank.
        reduction: 'mean' of the losses divided by their label lengths, 'sum' or 'none'.
        norm_by_times: divide the gradient, not the loss, by the number of steps.

    Example:
        >>> lengths = static.data("steps", [2], "int64"), static.data("words", [2], "int64")
        >>> F.ctc_loss(static.data("y", [5, 2, 4]), static.data("labels", [2, 3], "int64"), *lengths, reduction="none").shape
        (2,)
    """
    if input_lengths is None or label_lengths is None:
        raise ArgumentError("ctc_loss: give input_lengths and label_lengths, one integer for each row.")
    layer = _layer("ctc_loss", reduction, log_probs, labels, input_lengths, label_lengths)
    op = layer.op
    classes = known_dim(log_probs, 2, "ctc_loss")
    if not 0 <= blank < classes:
        raise ArgumentError(f"ctc_loss: the blank {blank} is not one of the {classes} classes.")
    scores = op.Transpose(op.LogSoftmax(log_probs, axis=-1), perm=[1, 0, 2])
    labels, steps = as_dtype(op, labels, "int64"), as_dtype(op, input_lengths, "int64")
    counts = as_dtype(op, label_lengths, "int64")
    if blank:
        scores = op.Gather(scores, np.array([blank, *range(blank), *range(blank + 1, classes)]), axis=2)
        labels = op.Where(op.Less(labels, np.array(blank)), op.Add(labels, np.array(1)), labels)
    places = op.CumSum(op.Add(op.Mul(labels, np.array(0)), np.array(1)), np.array(1), exclusive=1)
    labels = op.Where(op.Less(places, op.Unsqueeze(counts, [1])), labels, np.array(-1))
    loss = op.Squeeze(ctc(op, scores, labels, steps), [1])
    loss = op.Where(op.IsInf(loss), op.constant(0.0, loss.dtype), loss)
    if norm_by_times:
        part = op.Div(loss, op.Cast(steps, to=loss.dtype.number))
        loss = op.Add(part, op.Sub(loss, part).detach())
    if reduction == "mean":
        loss = op.Div(loss, op.Cast(op.Max(counts, np.array(1)), to=loss.dtype.number))
    return reduced(layer, loss, reduction)
