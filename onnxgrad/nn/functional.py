"""paddle.nn.functional on static variables: activations, losses, dropout, pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.errors import ArgumentError
from onnxgrad.ir.variable import Variable
from onnxgrad.passes.modes import attach_training
from onnxgrad.tensor.layer import Layer, require_variables

__all__ = [
    "avg_pool2d",
    "cross_entropy",
    "dropout",
    "gelu",
    "leaky_relu",
    "linear",
    "log_softmax",
    "max_pool2d",
    "mse_loss",
    "relu",
    "sigmoid",
    "softmax",
    "softplus",
    "square_error_cost",
    "tanh",
]

Pair = int | Sequence[int]


def _simple(kind: str, op_type: str, x: Variable, name: str | None, **attrs: Any) -> Variable:
    return Layer(kind, x, name=name).emit(op_type, x, **attrs)  # type: ignore[no-any-return]


def relu(x: Variable, name: str | None = None) -> Variable:
    """max(x, 0); gradient 0 at 0."""
    return _simple("relu", "Relu", x, name)


def sigmoid(x: Variable, name: str | None = None) -> Variable:
    """1 / (1 + exp(-x))."""
    return _simple("sigmoid", "Sigmoid", x, name)


def tanh(x: Variable, name: str | None = None) -> Variable:
    """Hyperbolic tangent."""
    return _simple("tanh", "Tanh", x, name)


def softplus(x: Variable, name: str | None = None) -> Variable:
    """log(1 + exp(x))."""
    return _simple("softplus", "Softplus", x, name)


def leaky_relu(x: Variable, negative_slope: float = 0.01, name: str | None = None) -> Variable:
    """x where positive, else ``negative_slope * x``."""
    return _simple("leaky_relu", "LeakyRelu", x, name, alpha=negative_slope)


def gelu(x: Variable, approximate: bool = False, name: str | None = None) -> Variable:
    """x times the normal distribution function of x, exact or by tanh (Hendrycks and Gimpel 2016)."""
    return _simple("gelu", "Gelu", x, name, approximate="tanh" if approximate else "none")


def softmax(x: Variable, axis: int = -1, dtype: Any = None, name: str | None = None) -> Variable:
    """exp(x) divided by its sum over ``axis``."""
    x = x if dtype is None else x.astype(dtype)
    return _simple("softmax", "Softmax", x, name, axis=axis)


def log_softmax(x: Variable, axis: int = -1, dtype: Any = None, name: str | None = None) -> Variable:
    """Logarithm of ``softmax``, computed stably."""
    x = x if dtype is None else x.astype(dtype)
    return _simple("log_softmax", "LogSoftmax", x, name, axis=axis)


def linear(x: Variable, weight: Variable, bias: Variable | None = None, name: str | None = None) -> Variable:
    """``x @ weight + bias`` with a weight of shape [in, out]."""
    layer = Layer("linear", x, weight, name=name)
    y: Variable = layer.emit("MatMul", x, weight)
    return y if bias is None else layer.emit("Add", y, bias)


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """(input - label)^2, element by element."""
    layer = Layer("square_error_cost", input, label)
    difference = layer.emit("Sub", input, label)
    return layer.emit("Mul", difference, difference)  # type: ignore[no-any-return]


def mse_loss(input: Variable, label: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """Squared difference: its mean, its sum, or each element ('none')."""
    layer = Layer("mse_loss", input, label, name=name)
    difference = layer.op.Sub(input, label)
    squared = layer.emit("Mul", difference, difference)
    return _reduced(layer, squared, reduction)


def _reduced(layer: Layer, x: Variable, reduction: str) -> Variable:
    if reduction == "none":
        return x
    op_type = {"mean": "ReduceMean", "sum": "ReduceSum"}.get(reduction)
    if op_type is None:
        raise ArgumentError(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}.")
    return layer.emit(op_type, x, keepdims=0)  # type: ignore[no-any-return]


def cross_entropy(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    label_smoothing: float = 0.0,
    name: str | None = None,
) -> Variable:
    """Cross-entropy between ``input`` and ``label``.

    Args:
        input: logits (or probabilities if ``use_softmax`` is False), classes along ``axis``.
        label: integer classes, of input's shape without ``axis`` or with 1 there; with ``soft_label``, probabilities of
            input's shape.
        weight: one factor per class.
        ignore_index: rows of this label count for nothing.
        reduction: 'mean' (over the weight of the rows that count), 'sum' or 'none'.
        axis: the class axis.
        label_smoothing: mix the labels with the uniform distribution.

    Returns:
        A scalar, or for 'none' one value per row, of the label's shape.

    Raises:
        ArgumentError: if the reduction is unknown, or the rank of ``label`` does not fit.

    Example:
        >>> logits, label = static.data("logits", [None, 10]), static.data("label", [None, 1], "int64")
        >>> F.cross_entropy(logits, label).shape
        ()
    """
    require_variables("cross_entropy", input, label)
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}.")
    layer = Layer("cross_entropy", input, label, name=name)
    op, rank = layer.op, input.ndim
    axis %= rank
    if soft_label or label_smoothing > 0.0:
        return _soft_cross_entropy(
            layer, input, label, weight, ignore_index, reduction, soft_label, axis, use_softmax, label_smoothing
        )
    if label.ndim not in (rank, rank - 1):
        raise ArgumentError(f"cross_entropy: label has {label.ndim} axes; it needs {rank - 1}, or {rank} with 1 at axis {axis}.")
    keeps = label.ndim == rank
    rows = op.Squeeze(label, [axis]) if keeps else label
    scores = input if use_softmax else op.Log(input)
    if axis != 1:
        order = [i for i in range(rank) if i != axis]
        order.insert(min(1, rank - 1), axis)
        scores = op.Transpose(scores, perm=order) if order != list(range(rank)) else scores
    if rank == 1:
        scores, rows = op.Unsqueeze(scores, [0]), op.Unsqueeze(rows, [0])
    op_type = "SoftmaxCrossEntropyLoss" if use_softmax else "NegativeLogLikelihoodLoss"
    operands = (scores, rows) if weight is None else (scores, rows, weight)
    loss: Variable = layer.emit(op_type, *operands, reduction=reduction, ignore_index=ignore_index)
    return op.Unsqueeze(loss, [axis]) if reduction == "none" and keeps else loss


def _soft_cross_entropy(
    layer: Layer,
    input: Variable,
    label: Variable,
    weight: Variable | None,
    ignore_index: int,
    reduction: str,
    soft: bool,
    axis: int,
    use_softmax: bool,
    smoothing: float,
) -> Variable:
    """-sum(target * log p) over the class axis, for targets that are distributions"""
    op = layer.op
    log = op.LogSoftmax(input, axis=axis) if use_softmax else op.Log(input)
    classes = input.shape[axis]
    if classes < 0:
        raise ArgumentError("cross_entropy: soft labels and smoothing need a known number of classes.")
    counted: Any = None
    if not soft:
        rows = op.Squeeze(label, [axis]) if label.ndim == input.ndim else label
        kept = op.Not(op.Equal(rows, op.constant(ignore_index, rows.dtype)))
        counted = op.Cast(kept, to=input.dtype.number)
        values = op.constant([0.0, 1.0], input.dtype)
        label = op.OneHot(op.Mul(rows, op.Cast(kept, to=rows.dtype.number)), np.array(classes), values, axis=axis)
    if smoothing > 0.0:
        label = op.Add(op.Mul(label, 1.0 - smoothing), smoothing / classes)
    losses = op.Neg(op.ReduceSum(op.Mul(label, log), [axis], keepdims=0))
    if weight is not None:
        shaped = op.Reshape(weight, [classes if i == axis else 1 for i in range(input.ndim)])
        row_weight = op.ReduceSum(op.Mul(label, shaped), [axis], keepdims=0)
        counted = row_weight if counted is None else op.Mul(row_weight, counted)
    if counted is not None:
        losses = op.Mul(losses, counted)
    if reduction == "none":
        return layer.emit("Unsqueeze", losses, [axis])  # type: ignore[no-any-return]
    if reduction == "sum":
        return layer.emit("ReduceSum", losses, keepdims=0)  # type: ignore[no-any-return]
    if counted is None:
        return layer.emit("ReduceMean", losses, keepdims=0)  # type: ignore[no-any-return]
    return layer.emit("Div", op.ReduceSum(losses, keepdims=0), op.ReduceSum(counted, keepdims=0))  # type: ignore[no-any-return]


def dropout(
    x: Variable, p: float = 0.5, training: bool = True, mode: str = "upscale_in_train", name: str | None = None
) -> Variable:
    """Zero each element with probability ``p`` in training and scale the rest by 1 / (1 - p); the identity in inference.

    ``Program.clone(for_test=True)`` and ``Program.eval()`` switch it off.
    """
    if mode != "upscale_in_train":
        raise ArgumentError(f"dropout: mode {mode!r} is not offered; use 'upscale_in_train'.")
    layer = Layer("dropout", x, name=name)
    if x.is_eager and training:
        kept: Variable = layer.op.Bernoulli(layer.op.constant(np.full(x.shape, 1.0 - p)), dtype=x.dtype.number)
        return layer.emit("Mul", x, layer.op.Mul(kept, 1.0 / (1.0 - p) if p < 1.0 else 0.0))  # type: ignore[no-any-return]
    y: Variable = layer.emit("Dropout", x, np.asarray(p, x.dtype.numpy))
    if training and y.op is not None:
        attach_training(y.op)
    return y


def _pair(value: Pair) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


def max_pool2d(
    x: Variable, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, ceil_mode: bool = False, name: str | None = None
) -> Variable:
    """Largest element of each window of [N, C, H, W]; the stride is the window unless given."""
    return _pool("MaxPool", x, kernel_size, stride, padding, ceil_mode, name)


def avg_pool2d(
    x: Variable,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    name: str | None = None,
) -> Variable:
    """Mean of each window of [N, C, H, W]; ``exclusive`` leaves padding out of the mean."""
    return _pool("AveragePool", x, kernel_size, stride, padding, ceil_mode, name, count_include_pad=int(not exclusive))


def _pool(
    op_type: str, x: Variable, kernel: Pair, stride: Pair | None, padding: Pair, ceil: bool, name: str | None, **attrs: Any
) -> Variable:
    pads = _pair(padding)
    return Layer("pool2d", x, name=name).emit(  # type: ignore[no-any-return]
        op_type,
        x,
        kernel_shape=_pair(kernel),
        strides=_pair(kernel if stride is None else stride),
        pads=pads * 2 if len(pads) == 2 else pads,
        ceil_mode=int(ceil),
        **attrs,
    )
