"""Losses between predictions and targets; ``reduction`` is 'mean', 'sum' or 'none'.

Tests: tests/nn/test_losses_ignored.py, tests/nn/test_functional.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DType
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.losses import (
    absolute_error,
    cosine_parts,
    ctc,
    focal,
    huber,
    kl_of_positive,
    logistic,
    overlap,
    squared_error,
)
from onnxgrad.nn.functional.common import pairwise_distance
from onnxgrad.nn.types import Reduction, SumOrMean
from onnxgrad.tensor.common import as_dtype, known_dim, known_value
from onnxgrad.tensor.layer import LayerHelper, open_layer, present_operands
from onnxgrad.tensor.remembered import remembers

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "ctc_loss", "dice_loss",
    "gaussian_nll_loss", "hinge_embedding_loss", "kl_div", "l1_loss", "log_loss", "margin_ranking_loss", "mse_loss",
    "multi_label_margin_loss", "multi_label_soft_margin_loss", "multi_margin_loss", "npair_loss", "poisson_nll_loss",
    "sigmoid_focal_loss", "smooth_l1_loss", "soft_margin_loss", "square_error_cost", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]  # fmt: skip


def reduced(layer: LayerHelper, x: Variable, reduction: Reduction) -> Variable:
    """The losses as they are, their sum, or their mean."""
    if reduction == "none":
        return layer.result("Identity", x)
    return layer.result("ReduceMean" if reduction == "mean" else "ReduceSum", x, keepdims=0)


def guarded_classes(op: Builder, label: Variable, classes: int, dtype: DType) -> tuple[Variable, Variable]:
    """Labels with 0 for those that are no classes from 0, and a factor for each row: 1, or there NaN.

    The rules of OneHot and GatherElements are others: they count negative labels from the end.
    """
    zero, one = np.zeros((), label.dtype.numpy), np.ones((), dtype.numpy)
    count = np.array(classes, label.dtype.numpy)
    inside = op.Less(op.Where(op.Less(label, zero), count, label), count)
    return op.Where(inside, label, zero), op.Where(inside, one, np.full((), np.nan, dtype.numpy))


def _check_equal_shapes(layer_name: str, first: Variable, *others: Variable) -> None:
    """Refuse tensors of other shapes than the first, as far as these are known."""
    for other in others:
        known = zip(first.shape, other.shape, strict=False)
        if first.ndim != other.ndim or any(a != b for a, b in known if a >= 0 and b >= 0):
            raise ArgumentError(f"{layer_name}: the shapes {list(first.shape)} and {list(other.shape)} must be the same.")


# Distances -----------------------------------------------------------------------------------------------------------


@remembers
def square_error_cost(input: Variable, label: Variable) -> Variable:
    """Compute (input - label)^2, element by element.

    Args:
        input: predictions of any shape.
        label: targets of that shape.

    Example:
        >>> F.square_error_cost(static.data("x", [None, 1]), static.data("y", [None, 1])).shape
        (-1, 1)
    """
    layer = LayerHelper("square_error_cost", input, label)
    difference = layer.result("Sub", input, label)
    return layer.result("Mul", difference, difference)


@remembers
@checked
def mse_loss(input: Variable, label: Variable, reduction: Reduction = "mean", name: str | None = None) -> Variable:
    """Compute the squared difference.

    Args:
        input: predictions of any shape.
        label: targets of that shape.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction.

    Example:
        >>> F.mse_loss(static.data("x", [None, 3]), static.data("y", [None, 3])).shape
        ()
    """
    layer, op = open_layer("mse_loss", input, label, name=name)
    return reduced(layer, squared_error(op, input, label), reduction)


@remembers
@checked
def l1_loss(input: Variable, label: Variable, reduction: Reduction = "mean", name: str | None = None) -> Variable:
    """Compute the absolute difference.

    Args:
        input: predictions of any shape.
        label: targets of that shape.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction.

    Example:
        >>> F.l1_loss(static.data("x", [None, 3]), static.data("y", [None, 3]), reduction="none").shape
        (-1, 3)
    """
    layer, op = open_layer("l1_loss", input, label, name=name)
    return reduced(layer, absolute_error(op, input, label), reduction)


@remembers
@checked
def smooth_l1_loss(
    input: Variable,
    label: Variable,
    reduction: Reduction = "mean",
    delta: float = 1.0,
    is_huber: bool = True,
    name: str | None = None,
) -> Variable:
    """Compute half the squared difference where it is below ``delta``, else delta (|difference| - delta / 2). Huber 1964.

    Args:
        input: predictions of any shape.
        label: targets of that shape.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        delta: from this difference on, the loss grows linearly.
        is_huber: False to divide by ``delta``.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction.

    Example:
        >>> F.smooth_l1_loss(static.data("x", [None, 3]), static.data("y", [None, 3])).shape
        ()
    """
    layer, op = open_layer("smooth_l1_loss", input, label, name=name)
    loss = huber(op, op.Sub(input, label), delta)
    return reduced(layer, loss if is_huber else op.Div(loss, float(delta)), reduction)


# Binary targets ------------------------------------------------------------------------------------------------------


@checked
def binary_cross_entropy(
    input: Variable, label: Variable, weight: Variable | None = None, reduction: Reduction = "mean", name: str | None = None
) -> Variable:
    """Compute -label log(input) - (1 - label) log(1 - input), for probabilities; a logarithm counts as -100 at least.

    Args:
        input: probabilities of any shape.
        label: targets from 0 to 1, of that shape.
        weight: a factor for each element; 1 unless given.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction.

    Example:
        >>> F.binary_cross_entropy(static.data("p", [None, 3]), static.data("t", [None, 3])).shape
        ()
    """
    sizes = () if input.rank is None or label.rank is None else zip(input.shape, label.shape)
    if input.rank != label.rank or any(one != other for one, other in sizes if min(one, other) >= 0):
        raise ArgumentError(f"binary_cross_entropy: input has shape {list(input.shape)}, label {list(label.shape)}. Reshape one.")
    layer, op = open_layer("bce_loss", input, label, *present_operands(weight), name=name)
    hit = op.Mul(label, _bounded_log(op, input))
    miss = op.Mul(op.Sub(1.0, label), _bounded_log(op, op.Sub(1.0, input)))
    loss = op.Neg(op.Add(hit, miss))
    return reduced(layer, loss if weight is None else op.Mul(loss, weight), reduction)


def _bounded_log(op: Any, x: Variable) -> Any:
    """log(x), and -100 at 0, with no infinite slope there"""
    positive = op.Greater(x, op.constant(0.0, x.dtype))
    return op.Where(positive, op.Log(op.Where(positive, x, op.constant(1.0, x.dtype))), op.constant(-100.0, x.dtype))


@remembers
@checked
def binary_cross_entropy_with_logits(
    logit: Variable,
    label: Variable,
    weight: Variable | None = None,
    reduction: Reduction = "mean",
    pos_weight: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Compute the ``binary_cross_entropy`` of the sigmoid of ``logit``, stably.

    Args:
        logit: scores of any shape; the sigmoid is applied here.
        label: targets from 0 to 1, of that shape.
        weight: a factor for each element; 1 unless given.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        pos_weight: a factor for the part of positive labels; 1 unless given.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction.

    Example:
        >>> F.binary_cross_entropy_with_logits(static.data("x", [None, 3]), static.data("t", [None, 3])).shape
        ()
    """
    optional = present_operands(weight, pos_weight)
    layer, op = open_layer("sigmoid_cross_entropy_with_logits", logit, label, *optional, name=name)
    loss = logistic(op, logit, label, pos_weight)
    return reduced(layer, loss if weight is None else op.Mul(loss, weight), reduction)


@checked
def sigmoid_focal_loss(
    logit: Variable,
    label: Variable,
    normalizer: Variable | None = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: Reduction = "sum",
    name: str | None = None,
) -> Variable:
    """Compute the logistic loss that gives less weight to examples that are right already: (1 - p)^gamma. Lin et al. 2017.

    Args:
        logit: scores of any shape; the sigmoid is applied here.
        label: 0 or 1 for each.
        normalizer: divide by this one number; 1 unless given.
        alpha: weight of positive labels, 1 - alpha of negative ones; 0 for none.
        gamma: the power by which sure elements lose weight.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction.

    Example:
        >>> F.sigmoid_focal_loss(static.data("x", [None, 3]), static.data("t", [None, 3])).shape
        ()
    """
    layer, op = open_layer("sigmoid_focal_loss", logit, label, *present_operands(normalizer), name=name)
    loss = focal(op, logistic(op, logit, label), logit, label, alpha, gamma)
    return reduced(layer, loss if normalizer is None else op.Div(loss, normalizer), reduction)


@checked
def log_loss(input: Variable, label: Variable, epsilon: float = 1e-4, name: str | None = None) -> Variable:
    """Compute -label log(input + epsilon) - (1 - label) log(1 - input + epsilon), element by element.

    Args:
        input: probabilities of any shape.
        label: targets from 0 to 1, of that shape.
        epsilon: added to the probabilities.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.log_loss(static.data("p", [None, 1]), static.data("t", [None, 1])).shape
        (-1, 1)
    """
    layer, op = open_layer("log_loss", input, label, name=name)
    hit = op.Mul(label, op.Log(op.Add(input, float(epsilon))))
    miss = op.Mul(op.Sub(1.0, label), op.Log(op.Sub(1.0 + epsilon, input)))
    return layer.result("Neg", op.Add(hit, miss))


@checked
def soft_margin_loss(input: Variable, label: Variable, reduction: Reduction = "mean", name: str | None = None) -> Variable:
    """Compute log(1 + exp(-label input)), for labels 1 and -1.

    Args:
        input: scores of any shape.
        label: 1 or -1 for each.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction.

    Example:
        >>> F.soft_margin_loss(static.data("x", [None, 3]), static.data("t", [None, 3])).shape
        ()
    """
    layer, op = open_layer("soft_margin_loss", input, label, name=name)
    return reduced(layer, op.Softplus(op.Neg(op.Mul(as_dtype(op, label, input.dtype), input))), reduction)


@checked
def hinge_embedding_loss(
    input: Variable, label: Variable, margin: float = 1.0, reduction: Reduction = "mean", name: str | None = None
) -> Variable:
    """Compute ``input`` where the label is 1, max(0, margin - input) where it is -1.

    Args:
        input: distances of any shape.
        label: 1 or -1 for each.
        margin: from this distance on, a pair of label -1 costs nothing.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction.

    Example:
        >>> F.hinge_embedding_loss(static.data("x", [None, 3]), static.data("t", [None, 3])).shape
        ()
    """
    layer, op = open_layer("hinge_embedding_loss", input, label, name=name)
    return reduced(layer, _by_sign(op, label, input, op.Relu(op.Sub(float(margin), input))), reduction)


def _by_sign(op: Builder, label: Variable, near: Variable, far: Variable) -> Variable:
    """One loss where the label is 1, another where it is -1"""
    zero = op.constant(0.0, near.dtype)
    first = op.Where(op.Equal(label, op.constant(1, label.dtype)), near, zero)
    return op.Add(first, op.Where(op.Equal(label, op.constant(-1, label.dtype)), far, zero))


# Distributions -------------------------------------------------------------------------------------------------------


@checked
def kl_div(
    input: Variable, label: Variable, reduction: SumOrMean = "mean", log_target: bool = False, name: str | None = None
) -> Variable:
    """Compute label (log(label) - input), where ``input`` holds logarithms of probabilities; 0 where the label is not positive.

    Args:
        input: logarithms of probabilities, of any shape.
        label: probabilities of that shape.
        reduction: 'mean' over all elements, 'batchmean' for the sum divided by the first size, 'sum' or 'none'.
        log_target: the label holds logarithms too.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction.

    Example:
        >>> F.kl_div(static.data("x", [None, 3]), static.data("t", [None, 3]), "batchmean").shape
        ()
    """
    layer, op = open_layer("kldiv_loss", input, label, name=name)
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


@checked
def poisson_nll_loss(
    input: Variable,
    label: Variable,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-8,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> Variable:
    """Compute exp(input) - label input, or input - label log(input + epsilon) if ``log_input`` is False.

    Args:
        input: expected counts, or their logarithms, of any shape.
        label: counts of that shape.
        log_input: whether ``input`` holds logarithms.
        full: add Stirling's term where the label is above 1.
        epsilon: added to ``input`` under the logarithm.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction, or if ``epsilon`` is not positive.

    Example:
        >>> F.poisson_nll_loss(static.data("x", [None, 3]), static.data("t", [None, 3])).shape
        ()
    """
    layer, op = open_layer("poisson_nll_loss", input, label, name=name)
    if epsilon <= 0:
        raise ArgumentError(f"poisson_nll_loss: epsilon is positive, not {epsilon}.")
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


@checked
def gaussian_nll_loss(
    input: Variable,
    label: Variable,
    variance: Variable,
    full: bool = False,
    epsilon: float = 1e-6,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> Variable:
    """Compute (log v + (input - label)^2 / v) / 2, where v is the variance or, if larger, epsilon. Nix and Weigend 1994.

    Args:
        input: expected values of any shape.
        label: targets of that shape.
        variance: of the shape of ``input``, or without its last axis, or with 1 there.
        full: add log(2 pi) / 2.
        epsilon: the least variance.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction, or if a variance that is known is negative.

    Example:
        >>> x, v = static.data("x", [None, 3]), static.data("v", [None, 3])
        >>> F.gaussian_nll_loss(x, static.data("t", [None, 3]), v).shape
        ()
    """
    layer, op = open_layer("gaussian_nll_loss", input, label, variance, name=name)
    if variance.is_eager and 0 not in variance.shape and known_value(op.ReduceMin(variance, keepdims=0)) < 0:
        raise ArgumentError("gaussian_nll_loss: a variance is negative.")
    if variance.ndim == input.ndim - 1:
        variance = op.Unsqueeze(variance, [-1])
    v = op.Clip(variance, float(epsilon))
    loss = op.Mul(op.Add(op.Log(v), op.Div(squared_error(op, input, label), v)), 0.5)
    return reduced(layer, op.Add(loss, 0.5 * math.log(2 * math.pi)) if full else loss, reduction)


# Margins -------------------------------------------------------------------------------------------------------------


@checked
def margin_ranking_loss(
    input: Variable,
    other: Variable,
    label: Variable,
    margin: float = 0.0,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> Variable:
    """Compute max(0, margin - label (input - other)): ``input`` should be larger for label 1, smaller for -1.

    Args:
        input: scores of any shape.
        other: scores to compare with, of that shape.
        label: 1 or -1 for each pair.
        margin: by how much the scores should differ.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction.

    Example:
        >>> x, y = static.data("x", [None, 3]), static.data("y", [None, 3])
        >>> F.margin_ranking_loss(x, y, static.data("t", [None, 3])).shape
        ()
    """
    layer, op = open_layer("margin_ranking_loss", input, other, label, name=name)
    ahead = op.Mul(as_dtype(op, label, input.dtype), op.Sub(other, input))
    return reduced(layer, op.Relu(op.Add(ahead, float(margin)) if margin else ahead), reduction)


@checked
def cosine_embedding_loss(
    input1: Variable,
    input2: Variable,
    label: Variable,
    margin: float = 0,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> Variable:
    """Compute 1 - cos of two vectors for label 1, max(0, cos - margin) for label -1.

    Args:
        input1: vectors along the last axis: [N, features], or [features] for one pair.
        input2: vectors to compare with, of that shape.
        label: 1 or -1 for each pair, [N].
        margin: up to this cosine, a pair of label -1 costs nothing.
        reduction: 'mean' or 'sum' of all pairs, or 'none' for a value of each.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction, if the inputs have different shapes, or the label does not have one axis less.

    Example:
        >>> x, y = static.data("x", [None, 3]), static.data("y", [None, 3])
        >>> F.cosine_embedding_loss(x, y, static.data("t", [None])).shape
        ()
    """
    layer, op = open_layer("cosine_embedding_loss", input1, input2, label, name=name)
    _check_equal_shapes("cosine_embedding_loss", input1, input2)
    if label.ndim != input1.ndim - 1 and (input1.ndim, tuple(label.shape)) != (1, (1,)):
        raise ArgumentError(f"cosine_embedding_loss: the label has {label.ndim} axes; it needs {input1.ndim - 1}.")
    if label.dtype.name not in ("int32", "int64", "float32", "float64"):
        raise ArgumentError(f"cosine_embedding_loss: a label is int32, int64, float32 or float64, not {label.dtype.name}. Cast it.")
    product, first, second = cosine_parts(op, input1, input2, -1)
    cosine = op.Div(product, op.Sqrt(op.Mul(op.Add(first, 1e-12), op.Add(second, 1e-12))))
    return reduced(layer, _by_sign(op, label, op.Sub(1.0, cosine), op.Relu(op.Sub(cosine, float(margin)))), reduction)


@checked
def triplet_margin_loss(
    input: Variable,
    positive: Variable,
    negative: Variable,
    margin: float = 1.0,
    p: float = 2.0,
    epsilon: float = 1e-6,
    swap: bool = False,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> Variable:
    """Compute max(0, margin + the distance to ``positive`` - the distance to ``negative``). Balntas et al. 2016.

    Args:
        input: anchors [N, features].
        positive: vectors that should be near, of that shape.
        negative: vectors that should be far, of that shape.
        margin: by how much farther these should be; at least 0.
        p: distances are p-norms of the difference.
        epsilon: added to each difference.
        swap: take the distance between ``positive`` and ``negative`` if it is the smaller one.
        reduction: 'mean' or 'sum' of all rows, or 'none' for a value of each.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction, a negative margin, or different shapes.

    Example:
        >>> x, near, far = (static.data(name, [None, 3]) for name in ("x", "near", "far"))
        >>> F.triplet_margin_loss(x, near, far).shape
        ()
    """
    layer, op = open_layer("triplet_margin_loss", input, positive, negative, name=name)
    distance = partial(pairwise_distance, p=p, epsilon=epsilon)
    return reduced(layer, _triplet(op, input, positive, negative, distance, margin, swap), reduction)


@checked
def triplet_margin_with_distance_loss(
    input: Variable,
    positive: Variable,
    negative: Variable,
    distance_function: Callable[[Variable, Variable], Variable] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> Variable:
    """Compute ``triplet_margin_loss`` with any distance of two variables.

    Args:
        input: anchors [N, features].
        positive: vectors that should be near, of that shape.
        negative: vectors that should be far, of that shape.
        distance_function: gives one distance [N] for each row of two variables; Euclid's unless given.
        margin: by how much farther these should be; at least 0.
        swap: take the distance between ``positive`` and ``negative`` if it is the smaller one.
        reduction: 'mean' or 'sum' of all rows, or 'none' for a value of each.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction, a negative margin, or different shapes.

    Example:
        >>> x, near, far = (static.data(name, [None, 3]) for name in ("x", "near", "far"))
        >>> F.triplet_margin_with_distance_loss(x, near, far, lambda a, b: (a - b).abs().sum(-1)).shape
        ()
    """
    layer, op = open_layer("triplet_margin_loss", input, positive, negative, name=name)
    distance = distance_function or partial(pairwise_distance, epsilon=0.0)
    return reduced(layer, _triplet(op, input, positive, negative, distance, margin, swap), reduction)


def _triplet(op: Builder, input: Variable, positive: Variable, negative: Variable, distance: Any, margin: float, swap: bool) -> Any:
    _check_equal_shapes("triplet_margin_loss", input, positive, negative)
    if margin < 0:
        raise ArgumentError(f"triplet_margin_loss: the margin is at least 0, not {margin}.")
    near, far = distance(input, positive), distance(input, negative)
    if swap:
        far = op.Min(far, distance(positive, negative))
    return op.Relu(op.Add(op.Sub(near, far), float(margin)))


@checked
def multi_label_soft_margin_loss(
    input: Variable, label: Variable, weight: Variable | None = None, reduction: Reduction = "mean", name: str | None = None
) -> Variable:
    """Average the logistic loss over the classes.

    Args:
        input: scores [N, classes].
        label: 0 or 1 for each.
        weight: a factor for each class; 1 unless given.
        reduction: 'mean' or 'sum' of all rows, or 'none' for a value of each.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction, or different shapes.

    Example:
        >>> F.multi_label_soft_margin_loss(static.data("x", [None, 3]), static.data("t", [None, 3])).shape
        ()
    """
    layer, op = open_layer("multi_label_soft_margin_loss", input, label, *present_operands(weight), name=name)
    _check_equal_shapes("multi_label_soft_margin_loss", input, label)
    loss = logistic(op, input, as_dtype(op, label, input.dtype))
    loss = loss if weight is None else op.Mul(loss, weight)
    return reduced(layer, op.ReduceMean(loss, [-1], keepdims=0), reduction)


@checked
def multi_margin_loss(
    input: Variable,
    label: Variable,
    p: int = 1,
    margin: float = 1.0,
    weight: Variable | None = None,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> Variable:
    """Average max(0, margin - right + wrong)^p over the wrong classes; NaN for a label that is not a class.

    Args:
        input: scores [N, classes].
        label: integer classes [N].
        p: the power.
        margin: by how much the right score should be larger.
        weight: a factor for each class, inside the power; 1 unless given.
        reduction: 'mean' or 'sum' of all rows, or 'none' for a value of each.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction, or if the number of classes is not known.

    Example:
        >>> F.multi_margin_loss(static.data("x", [None, 3]), static.data("t", [None], "int64")).shape
        ()
    """
    layer, op = open_layer("multi_margin_loss", input, label, *present_operands(weight), name=name)
    classes = known_dim(input, 1, "multi_margin_loss")
    column = op.Reshape(as_dtype(op, label, "int64"), np.array([-1, 1]))
    column, factor = guarded_classes(op, column, classes, input.dtype)
    excess = op.Add(op.Sub(input, op.GatherElements(input, column, axis=1)), float(margin))
    if weight is not None:
        excess = op.Mul(excess, op.Gather(weight, column))
    wrong = op.Not(op.Equal(column, op.constant(np.arange(classes))))
    powers = op.Relu(excess) if p == 1 else op.Pow(op.Relu(excess), op.constant(float(p), input.dtype))
    counted = op.Where(wrong, powers, op.constant(0.0, input.dtype))
    return reduced(layer, op.Mul(op.ReduceMean(counted, [1], keepdims=0), op.Squeeze(factor, [1])), reduction)


@checked
def multi_label_margin_loss(input: Variable, label: Variable, reduction: Reduction = "mean", name: str | None = None) -> Variable:
    """Sum max(0, 1 - right + wrong) / classes over all pairs of a right and a wrong class; NaN for a label that is not a class.

    Args:
        input: scores [N, classes].
        label: integers [N, classes]: the right classes of each row, and -1 behind the last one.
        reduction: 'mean' or 'sum' of all rows, or 'none' for a value of each.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction, or if the number of classes is not known.

    Example:
        >>> F.multi_label_margin_loss(static.data("x", [None, 3]), static.data("t", [None, 3], "int64")).shape
        ()
    """
    layer, op = open_layer("multi_label_margin_loss", input, label, name=name)
    classes = known_dim(input, 1, "multi_label_margin_loss")
    label = as_dtype(op, label, "int64")
    # A label counts if no -1 stands at it or in front.
    ended = op.CumSum(op.Cast(op.Equal(label, -1), to=7), 1)
    counts = op.Equal(ended, 0)
    column, factor = guarded_classes(op, op.Where(counts, label, 0), classes, input.dtype)
    right = op.GatherElements(input, column, axis=1)
    of_label = op.Equal(op.Unsqueeze(column, [2]), op.constant(np.arange(classes)))
    is_right = op.Cast(op.And(op.Unsqueeze(counts, [2]), of_label), to=6)
    is_wrong = op.Equal(op.ReduceMax(is_right, [1], keepdims=0), 0)
    excess = op.Relu(op.Add(op.Sub(op.Unsqueeze(input, [1]), op.Unsqueeze(right, [2])), 1.0))
    pairs = op.And(op.Unsqueeze(counts, [2]), op.Unsqueeze(is_wrong, [1]))
    counted = op.Where(pairs, excess, op.constant(0.0, input.dtype))
    sums = op.Div(op.ReduceSum(counted, [1, 2], keepdims=0), float(classes))
    return reduced(layer, op.Mul(sums, op.ReduceMin(factor, [1], keepdims=0)), reduction)


# Others --------------------------------------------------------------------------------------------------------------


@checked
def dice_loss(input: Variable, label: Variable, epsilon: float = 1e-5, name: str | None = None) -> Variable:
    """Compute 1 - 2 sum(input label) / (sum(input) + sum(label)), averaged over samples. Milletari et al. 2016.

    A label that is no class makes it NaN.

    Args:
        input: probabilities [N, ..., classes].
        label: integer classes [N, ..., 1].
        epsilon: added to the divisor.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if the number of classes is not known.

    Example:
        >>> F.dice_loss(static.data("x", [None, 3]), static.data("t", [None, 1], "int64")).shape
        ()
    """
    layer, op = open_layer("dice_loss", input, label, name=name)
    classes = known_dim(input, -1, "dice_loss")
    values = op.constant([0.0, 1.0], input.dtype)
    rows, factor = guarded_classes(op, as_dtype(op, op.Squeeze(label, [-1]), "int64"), classes, input.dtype)
    hot = op.OneHot(rows, np.array(classes), values, axis=-1)
    axes = list(range(1, input.ndim))
    score = overlap(op, input, hot, axes, epsilon)
    if input.ndim > 2:
        factor = op.ReduceMean(factor, axes[:-1], keepdims=0)
    score = op.Mul(score, factor)
    return layer.result("ReduceMean", op.Sub(1.0, score), keepdims=0)


@checked
def npair_loss(anchor: Variable, positive: Variable, labels: Variable, l2_reg: float = 0.002) -> Variable:
    """Compute the cross-entropy between similarities of all pairs and whether their labels agree, plus L2. Sohn 2016.

    Args:
        anchor: vectors [N, features].
        positive: vectors of that shape.
        labels: one number for each row.
        l2_reg: factor of the squared lengths.

    Example:
        >>> x, y = static.data("x", [None, 3]), static.data("y", [None, 3])
        >>> F.npair_loss(x, y, static.data("t", [None])).shape
        ()
    """
    layer, op = open_layer("npair_loss", anchor, positive, labels)
    column = op.Reshape(labels, np.array([-1, 1]))
    same = op.Cast(op.Equal(column, op.Transpose(column, perm=[1, 0])), to=anchor.dtype.number)
    target = op.Div(same, op.ReduceSum(same, [1], keepdims=1))
    lengths = [op.ReduceMean(op.ReduceSumSquare(v, [1], keepdims=0), keepdims=0) for v in (anchor, positive)]
    decay = op.Mul(op.Add(*lengths), 0.25 * l2_reg)
    similar = op.MatMul(anchor, op.Transpose(positive, perm=[1, 0]))
    entropy = op.Neg(op.ReduceSum(op.Mul(target, op.LogSoftmax(similar, axis=1)), [1], keepdims=1))
    return layer.result("Add", decay, op.ReduceMean(op.ReduceSum(op.Mul(target, entropy), [0], keepdims=0), keepdims=0))


@checked
def ctc_loss(
    log_probs: Variable,
    labels: Variable,
    input_lengths: Variable,
    label_lengths: Variable,
    blank: int = 0,
    reduction: Reduction = "mean",
    norm_by_times: bool = False,
    zero_infinity: bool = False,
) -> Variable:
    """Compute -log of the summed probability of all alignments of the labels with the steps, 0 if none fits. Graves et al. 2006.

    Args:
        log_probs: logits [steps, batch, classes]; softmax is applied here.
        labels: classes [batch, labels].
        input_lengths: how many steps of each row count, integers [batch].
        label_lengths: how many labels of each row count, integers [batch].
        blank: the class of the blank.
        reduction: 'mean' of the losses divided by their label lengths, 'sum' or 'none'.
        norm_by_times: divide the gradient, not the loss, by the number of steps.
        zero_infinity: accepted for compatibility: the loss is 0 always where no alignment fits.

    Raises:
        ArgumentError: for another reduction, a blank that is no class, or missing lengths.

    Example:
        >>> lengths = static.data("steps", [2], "int64"), static.data("words", [2], "int64")
        >>> F.ctc_loss(static.data("y", [5, 2, 4]), static.data("labels", [2, 3], "int64"), *lengths, reduction="none").shape
        (2,)
    """
    if input_lengths is None or label_lengths is None:
        raise ArgumentError("ctc_loss: give input_lengths and label_lengths, one integer for each row.")
    layer, op = open_layer("ctc_loss", log_probs, labels, input_lengths, label_lengths)
    classes = known_dim(log_probs, 2, "ctc_loss")
    if not 0 <= blank < classes:
        raise ArgumentError(f"ctc_loss: the blank {blank} is not one of the {classes} classes.")
    scores = op.Transpose(op.LogSoftmax(log_probs, axis=-1), perm=[1, 0, 2])
    labels, steps = as_dtype(op, labels, "int64"), as_dtype(op, input_lengths, "int64")
    counts = as_dtype(op, label_lengths, "int64")
    if blank:
        scores = op.Gather(scores, np.array([blank, *range(blank), *range(blank + 1, classes)]), axis=2)
        labels = op.Where(op.Less(labels, np.array(blank)), op.Add(labels, np.array(1)), labels)
    positions = op.CumSum(op.Add(op.Mul(labels, np.array(0)), np.array(1)), np.array(1), exclusive=1)
    labels = op.Where(op.Less(positions, op.Unsqueeze(counts, [1])), labels, np.array(-1))
    loss = op.Squeeze(ctc(op, scores, labels, steps), [1])
    loss = op.Where(op.IsInf(loss), op.constant(0.0, loss.dtype), loss)
    if norm_by_times:
        part = op.Div(loss, op.Cast(steps, to=loss.dtype.number))
        loss = op.Add(part, op.Sub(loss, part).detach())
    if reduction == "mean":
        loss = op.Div(loss, op.Cast(op.Max(counts, np.array(1)), to=loss.dtype.number))
    return reduced(layer, loss, reduction)
