"""Cross-entropy with integer classes or with distributions.

Tests: tests/nn/test_losses_ignored.py, tests/nn/test_functional.py.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked
from onnxgrad.nn.functional.loss import guarded_classes, reduced
from onnxgrad.nn.types import Reduction
from onnxgrad.tensor.common import as_dtype, known_dim, normal_axis
from onnxgrad.tensor.layer import LayerHelper, open_layer, present_operands

__all__ = ["cross_entropy", "nll_loss", "softmax_with_cross_entropy"]


@checked
def cross_entropy(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    label_smoothing: float = 0.0,
    name: str | None = None,
) -> Variable:
    """Compute the cross-entropy between ``input`` and ``label``.

    Args:
        input: logits (or probabilities if ``use_softmax`` is False), classes along ``axis``: [N, classes] or [N, classes, ...].
        label: integer classes, of input's shape without ``axis`` or with 1 there; with ``soft_label``, probabilities of input's
            shape.
        weight: one factor for each class; 1 unless given.
        ignore_index: rows of this label count for nothing.
        reduction: 'mean' (over the weight of the rows that count; 0 if there are none), 'sum' or 'none'. As in Paddle, a negative
            ``ignore_index`` without weights leaves ignored rows in the divisor of the mean.
        soft_label: whether labels are distributions.
        axis: the class axis.
        use_softmax: False if ``input`` holds probabilities already.
        label_smoothing: the part of the uniform distribution that is mixed into the labels, from 0 to 1.
        name: prefix of the names of the results in a program; None to count one.

    Returns:
        A scalar, or for 'none' one value per row, of the label's shape. A class that is not there is refused where it is fed, and
        gives NaN where labels are computed.

    Raises:
        ArgumentError: if the reduction is unknown, or the rank of ``label`` does not fit.

    Example:
        >>> logits, label = static.data("logits", [None, 10]), static.data("label", [None, 1], "int64")
        >>> F.cross_entropy(logits, label).shape
        ()
    """
    layer, op = open_layer("cross_entropy", input, label, *present_operands(weight), name=name)
    rank = input.ndim
    axis = normal_axis(axis, rank, "cross_entropy")
    _check_weight("cross_entropy", weight, input.shape[axis])
    label = _as_classes(op, label)
    if soft_label or label_smoothing > 0.0:
        # Classes count as labels that are smoothed, whatever soft_label says, as in Paddle.
        soft = soft_label and not (label_smoothing > 0.0 and label.ndim == rank - 1)
        return _soft(layer, input, label, weight, ignore_index, reduction, soft, axis, use_softmax, label_smoothing)
    if label.ndim not in (rank, rank - 1):
        raise ArgumentError(f"cross_entropy: label has {label.ndim} axes; it needs {rank - 1}, or {rank} with 1 at axis {axis}.")
    op_type = "SoftmaxCrossEntropyLoss" if use_softmax else "NegativeLogLikelihoodLoss"
    scores = input if use_softmax else op.Log(input)
    if reduction == "mean" and ignore_index < 0 and weight is None:
        rows = _classes(layer, op_type, scores, label, weight, ignore_index, "none", axis)
        return layer.result("ReduceMean", rows, keepdims=0)
    return _reduced(layer, op_type, scores, label, weight, ignore_index, reduction, axis)


def _as_classes(op: Builder, label: Variable) -> Variable:
    """Class numbers of a narrow type as int64, which holds the number of what is ignored and has kernels; others as they are."""
    return as_dtype(op, label, "int64") if label.dtype.is_integer and label.dtype.name != "int32" else label


def _check_weight(function: str, weight: Variable | None, classes: int) -> None:
    """Refuse weights that are not one per class, which onnxruntime would read beyond."""
    if weight is not None and classes >= 0 and weight.shape[-1] not in (-1, classes):
        raise ArgumentError(f"{function}: there are {weight.shape[-1]} weights for {classes} classes. Give one per class.")


def _reduced(
    layer: LayerHelper, op_type: str, scores: Variable, label: Variable, weight: Any, ignore_index: int, reduction: str, axis: int
) -> Variable:
    """``_classes``, whose mean is 0 where no row counts"""
    if reduction != "mean":
        return _classes(layer, op_type, scores, label, weight, ignore_index, reduction, axis)
    total = _classes(layer, op_type, scores, label, weight, ignore_index, "sum", axis)
    return layer.result("Div", total, _or_one(layer.op, _counted(layer.op, label, weight, ignore_index, total)))


def _counted(op: Builder, label: Variable, weight: Variable | None, ignore_index: int, total: Variable) -> Variable:
    """The weight of all rows that count"""
    kept = op.Not(op.Equal(label, op.constant(ignore_index, label.dtype)))
    if weight is None:
        return op.Cast(op.ReduceSum(op.Cast(kept, to=7), keepdims=0), to=total.dtype.number)
    rows = op.Where(kept, label, op.constant(0, label.dtype))
    return op.ReduceSum(op.Mul(op.Gather(weight, rows), op.Cast(kept, to=total.dtype.number)), keepdims=0)


def _or_one(op: Builder, total: Variable) -> Variable:
    """A divisor, 1 where it is 0"""
    return op.Where(op.Equal(total, op.constant(0, total.dtype)), op.constant(1, total.dtype), total)


def _classes(
    layer: LayerHelper, op_type: str, scores: Variable, label: Variable, weight: Any, ignore_index: int, reduction: str, axis: int
) -> Variable:
    """One of ONNX's losses for integer classes, which wants the class axis second"""
    op, rank = layer.op, scores.ndim
    keeps = label.ndim == rank
    rows = op.Squeeze(label, [axis]) if keeps else label
    if rows.dtype.name not in ("int32", "int64"):
        rows = as_dtype(op, rows, "int64")
    if rank == 1:
        scores, rows = op.Unsqueeze(scores, [0]), op.Unsqueeze(rows, [0])
    elif axis != 1:
        order = [i for i in range(rank) if i != axis]
        scores = op.Transpose(scores, perm=[order[0], axis, *order[1:]])
    operands = (scores, rows) if weight is None else (scores, rows, weight)
    loss = layer.result(op_type, *operands, reduction=reduction, ignore_index=ignore_index)
    if reduction != "none":
        return loss
    if rank == 1:
        return loss if keeps else layer.result("Squeeze", loss, [0])
    return layer.result("Unsqueeze", loss, [axis]) if keeps else loss


def _soft(
    layer: LayerHelper,
    input: Variable,
    label: Variable,
    weight: Variable | None,
    ignore_index: int,
    reduction: Reduction,
    soft: bool,
    axis: int,
    use_softmax: bool,
    smoothing: float,
) -> Variable:
    """-sum(target * log p) over the class axis, for targets that are distributions"""
    op = layer.op
    log = op.LogSoftmax(input, axis=axis) if use_softmax else op.Log(input)
    classes = known_dim(input, axis, "cross_entropy with soft labels or smoothing")
    counted: Any = None
    factor = None
    if not soft:
        rows = op.Squeeze(label, [axis]) if label.ndim == input.ndim else label
        kept = op.Not(op.Equal(rows, op.constant(ignore_index, rows.dtype)))
        counted = op.Cast(kept, to=input.dtype.number)
        values = op.constant([0.0, 1.0], input.dtype)
        hot = as_dtype(op, op.Mul(rows, op.Cast(kept, to=rows.dtype.number)), "int64")
        rows, factor = guarded_classes(op, hot, classes, input.dtype)
        label = op.OneHot(rows, np.array(classes), values, axis=axis)
    if smoothing > 0.0:
        label = op.Add(op.Mul(label, 1.0 - smoothing), smoothing / classes)
    losses = op.Neg(op.ReduceSum(op.Mul(label, log), [axis], keepdims=0))
    if weight is not None:
        shaped = op.Reshape(weight, [classes if i == axis else 1 for i in range(input.ndim)])
        row_weight = op.ReduceSum(op.Mul(label, shaped), [axis], keepdims=0)
        counted = row_weight if counted is None else op.Mul(row_weight, counted)
    if factor is not None:
        losses = op.Mul(losses, factor)
    if counted is not None:
        losses = op.Mul(losses, counted)
    if reduction == "none":
        return layer.result("Unsqueeze", losses, [axis])
    if reduction == "sum" or counted is None:
        return reduced(layer, losses, reduction)
    return layer.result("Div", op.ReduceSum(losses, keepdims=0), _or_one(op, op.ReduceSum(counted, keepdims=0)))


@overload
def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: Literal[False] = False,
    axis: int = -1,
) -> Variable: ...


@overload
def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    *,
    return_softmax: Literal[True],
    axis: int = -1,
) -> tuple[Variable, Variable]: ...


@overload
def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Variable | tuple[Variable, Variable]: ...


@checked
def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Variable | tuple[Variable, Variable]:
    """Compute the cross-entropy of each row, with size 1 on the class axis; with ``return_softmax``, the probabilities too.

    Args:
        logits: floats, classes along ``axis``.
        label: integer classes, with size 1 on ``axis`` or without it; with ``soft_label``, probabilities of the shape of
            ``logits``.
        soft_label: whether labels are distributions.
        ignore_index: rows of this label give 0.
        numeric_stable_mode: accepted for compatibility: the computation is always stable.
        return_softmax: also give the probabilities.
        axis: the class axis.

    Raises:
        ArgumentError: if the rank of ``label`` does not fit.

    Example:
        >>> logits, label = static.data("logits", [None, 10]), static.data("label", [None, 1], "int64")
        >>> F.softmax_with_cross_entropy(logits, label).shape
        (-1, 1)
    """
    layer = LayerHelper("softmax_with_cross_entropy", logits, label)
    axis = normal_axis(axis, logits.ndim, "softmax_with_cross_entropy")
    if label.ndim not in (logits.ndim, logits.ndim - 1) or logits.ndim == 0:
        raise ArgumentError(f"softmax_with_cross_entropy: label has {label.ndim} axes for logits of {logits.ndim}.")
    if soft_label:
        loss = _soft(layer, logits, label, None, ignore_index, "none", True, axis, True, 0.0)
    else:
        loss = _classes(layer, "SoftmaxCrossEntropyLoss", logits, label, None, ignore_index, "none", axis)
        loss = loss if label.ndim == logits.ndim else layer.result("Unsqueeze", loss, [axis])
    return (loss, layer.result("Softmax", logits, axis=axis)) if return_softmax else loss


@checked
def nll_loss(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> Variable:
    """Take -input at the class of the label, for logarithms of probabilities.

    Args:
        input: logarithms of probabilities: [N, classes] or [N, classes, ...].
        label: integer classes: [N] or [N, ...].
        weight: one factor for each class; the mean divides by the sum of the factors that count, and is 0 where none does.
        ignore_index: rows of this label count for nothing.
        reduction: 'mean' or 'sum' of all rows, or 'none' for a value of each.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for another reduction.

    Example:
        >>> F.nll_loss(static.data("x", [None, 3]), static.data("label", [None], "int64")).shape
        ()
    """
    layer, op = open_layer("nll_loss", input, label, *present_operands(weight), name=name)
    label = _as_classes(op, label)
    return _reduced(layer, "NegativeLogLikelihoodLoss", input, label, weight, ignore_index, reduction, 1)
