"""Layers with parameters, activations, losses, pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import onnxgrad.nn.functional as functional
from onnxgrad import static
from onnxgrad.errors import ArgumentError
from onnxgrad.ir.variable import Variable
from onnxgrad.static.nn import (
    batch_norm,
    bilinear_tensor_product,
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
    data_norm,
    group_norm,
    instance_norm,
    layer_norm,
    nce,
    prelu,
    row_conv,
    sequence_conv,
    sequence_expand,
    sequence_first_step,
    sequence_last_step,
    sequence_pool,
    sequence_softmax,
    spectral_norm,
)
from onnxgrad.tensor.layer import Layer

__all__ = [
    "accuracy",
    "auc",
    "batch_norm",
    "bilinear_tensor_product",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "cross_entropy",
    "data_norm",
    "dropout",
    "elu",
    "embedding",
    "fc",
    "gelu",
    "group_norm",
    "instance_norm",
    "l2_normalize",
    "label_smooth",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "lrn",
    "mse_loss",
    "nce",
    "one_hot",
    "pool2d",
    "prelu",
    "relu",
    "relu6",
    "row_conv",
    "sequence_conv",
    "sequence_expand",
    "sequence_first_step",
    "sequence_last_step",
    "sequence_pool",
    "sequence_softmax",
    "sigmoid",
    "sigmoid_cross_entropy_with_logits",
    "smooth_l1",
    "softmax",
    "softmax_with_cross_entropy",
    "softplus",
    "softsign",
    "spectral_norm",
    "square_error_cost",
    "swish",
]

accuracy, auc = static.accuracy, static.auc
Attr = Any


def fc(
    input: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """``static.nn.fc`` under its old argument names.

    Example:
        >>> x = fluid.layers.data(name="x", shape=[13])
        >>> fluid.layers.fc(input=x, size=1, act="relu").shape
        (-1, 1)
    """
    return static.nn.fc(input, size, num_flatten_dims, param_attr, bias_attr, act, name)


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Attr = None,
    dtype: Any = "float32",
) -> Variable:
    """Rows of a new table. The last axis of ``input`` is 1 and is taken off; ``fluid.embedding`` keeps all axes.

    Example:
        >>> fluid.layers.embedding(fluid.layers.data("ids", shape=[1], dtype="int64"), size=[100, 8]).shape
        (-1, 8)
    """
    if input.shape[-1] != 1:
        raise ArgumentError(f"fluid.layers.embedding: the last axis of {input!r} must be 1. Use fluid.embedding.")
    flat = Layer("squeeze2", input).emit("Squeeze", input, [-1])
    return static.nn.embedding(flat, size, is_sparse, is_distributed, padding_idx, param_attr, dtype)


def pool2d(
    input: Variable,
    pool_size: int | Sequence[int] = -1,
    pool_type: str = "max",
    pool_stride: int | Sequence[int] = 1,
    pool_padding: int | str | Sequence[int] = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCHW",
) -> Variable:
    """Largest element or mean of each window of [N, C, H, W].

    Args:
        pool_size: window; the whole plane with ``global_pooling``.
        pool_type: 'max' or 'avg'.
        pool_stride, pool_padding: numbers, one per axis; padding also [top, bottom, left, right], 'SAME' or 'VALID'.
        exclusive: leave padding out of the mean.
        data_format: only 'NCHW'.
    """
    if pool_type not in ("max", "avg"):
        raise ArgumentError(f"pool2d: pool_type is 'max' or 'avg', not {pool_type!r}.")
    if data_format != "NCHW":
        raise ArgumentError("pool2d: only data_format='NCHW' is offered. Transpose before and after.")
    layer = Layer("pool2d", input, name=name)
    if global_pooling:
        return layer.emit("GlobalMaxPool" if pool_type == "max" else "GlobalAveragePool", input)  # type: ignore[no-any-return]
    attrs: dict[str, Any] = {"kernel_shape": _two(pool_size), "strides": _two(pool_stride), "ceil_mode": int(ceil_mode)}
    if isinstance(pool_padding, str):
        attrs["auto_pad"] = {"SAME": "SAME_UPPER", "VALID": "VALID"}[pool_padding.upper()]
    else:
        pads = _two(pool_padding)
        attrs["pads"] = [*pads, *pads] if len(pads) == 2 else [pads[0], pads[2], pads[1], pads[3]]
    if pool_type == "avg":
        attrs["count_include_pad"] = int(not exclusive)
    return layer.emit("MaxPool" if pool_type == "max" else "AveragePool", input, **attrs)  # type: ignore[no-any-return]


def _two(value: int | Sequence[int]) -> list[int]:
    return [value, value] if isinstance(value, int) else [int(n) for n in value]


def dropout(
    x: Variable,
    dropout_prob: float,
    is_test: bool | None = None,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Variable:
    """Zero each element with probability ``dropout_prob`` in training.

    Args:
        is_test: True for inference; a test clone of the program switches by itself.
        seed: accepted for compatibility; set ``program.random_seed``.
        dropout_implementation: 'upscale_in_train' scales by 1 / (1 - p) in training; 'downgrade_in_infer' scales by 1 - p in
            inference. Here the latter scales by 1 - p in both and up again in training, which is the same.
    """
    if dropout_implementation not in ("downgrade_in_infer", "upscale_in_train"):
        raise ArgumentError(f"dropout: {dropout_implementation!r} is neither 'downgrade_in_infer' nor 'upscale_in_train'.")
    y = functional.dropout(x, dropout_prob, training=not is_test, name=name)
    return y if dropout_implementation == "upscale_in_train" else y * (1.0 - dropout_prob)


# Activations --------------------------------------------------------------------------------------------------------------


def _simple(kind: str, op_type: str, x: Variable, name: str | None, **attrs: Any) -> Variable:
    return Layer(kind, x, name=name).emit(op_type, x, **attrs)  # type: ignore[no-any-return]


def relu(x: Variable, name: str | None = None) -> Variable:
    """max(x, 0)."""
    return _simple("relu", "Relu", x, name)


def sigmoid(x: Variable, name: str | None = None) -> Variable:
    """1 / (1 + exp(-x))."""
    return _simple("sigmoid", "Sigmoid", x, name)


def softplus(x: Variable, name: str | None = None) -> Variable:
    """log(1 + exp(x))."""
    return _simple("softplus", "Softplus", x, name)


def softsign(x: Variable, name: str | None = None) -> Variable:
    """x / (1 + abs(x))."""
    return _simple("softsign", "Softsign", x, name)


def leaky_relu(x: Variable, alpha: float = 0.02, name: str | None = None) -> Variable:
    """x where positive, else ``alpha * x``."""
    return _simple("leaky_relu", "LeakyRelu", x, name, alpha=alpha)


def elu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """x where positive, else ``alpha * (exp(x) - 1)``."""
    return _simple("elu", "Elu", x, name, alpha=alpha)


def relu6(x: Variable, threshold: float = 6.0, name: str | None = None) -> Variable:
    """x limited to [0, threshold]."""
    return Layer("relu6", x, name=name).emit("Clip", x, 0.0, threshold)  # type: ignore[no-any-return]


def gelu(x: Variable, approximate: bool = False) -> Variable:
    """x times the normal distribution function of x, exact or by tanh."""
    return _simple("gelu", "Gelu", x, None, approximate="tanh" if approximate else "none")


def swish(x: Variable, beta: float = 1.0, name: str | None = None) -> Variable:
    """x * sigmoid(beta * x)."""
    layer = Layer("swish", x, name=name)
    return layer.emit("Mul", x, layer.op.Sigmoid(layer.op.Mul(x, beta)))  # type: ignore[no-any-return]


def softmax(input: Variable, use_cudnn: bool = False, name: str | None = None, axis: int = -1) -> Variable:
    """exp(x) divided by its sum over ``axis``."""
    return _simple("softmax", "Softmax", input, name, axis=axis)


def log_softmax(input: Variable, axis: int = -1, dtype: Any = None, name: str | None = None) -> Variable:
    """Logarithm of ``softmax``."""
    return _simple("log_softmax", "LogSoftmax", input if dtype is None else input.astype(dtype), name, axis=axis)


# Losses -------------------------------------------------------------------------------------------------------------------


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """(input - label)^2, element by element."""
    return functional.square_error_cost(input, label)


def mse_loss(input: Variable, label: Variable) -> Variable:
    """Mean of (input - label)^2."""
    return functional.mse_loss(input, label)


def cross_entropy(input: Variable, label: Variable, soft_label: bool = False, ignore_index: int = -100) -> Variable:
    """-log of the probability of the label, one value per row of shape [..., 1]. ``input`` holds probabilities, not logits.

    Example:
        >>> x, label = fluid.layers.data("x", [10]), fluid.layers.data("label", [1], dtype="int64")
        >>> fluid.layers.cross_entropy(input=fluid.layers.softmax(x), label=label).shape
        (-1, 1)
    """
    return functional.cross_entropy(
        input, label, ignore_index=ignore_index, reduction="none", soft_label=soft_label, use_softmax=False
    )


def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any:
    """-log softmax of the label, one value per row; with ``return_softmax`` also the softmax."""
    loss = functional.cross_entropy(logits, label, ignore_index=ignore_index, reduction="none", soft_label=soft_label, axis=axis)
    return (loss, softmax(logits, axis=axis)) if return_softmax else loss


def sigmoid_cross_entropy_with_logits(
    x: Variable, label: Variable, ignore_index: int = -100, name: str | None = None, normalize: bool = False
) -> Variable:
    """max(x, 0) - x * label + log(1 + exp(-|x|)), 0 where the label is ``ignore_index``."""
    layer = Layer("sigmoid_cross_entropy_with_logits", x, label, name=name)
    op = layer.op
    kept = op.Cast(op.Not(op.Equal(label, op.constant(ignore_index, label.dtype))), to=x.dtype.number)
    losses = op.Sub(op.Softplus(x), op.Mul(x, label))
    if not normalize:
        return layer.emit("Mul", losses, kept)  # type: ignore[no-any-return]
    return layer.emit("Div", op.Mul(losses, kept), op.Max(op.ReduceSum(kept, keepdims=0), 1.0))  # type: ignore[no-any-return]


def smooth_l1(
    x: Variable,
    y: Variable,
    inside_weight: Variable | None = None,
    outside_weight: Variable | None = None,
    sigma: float | None = None,
) -> Variable:
    """Sum over all but the first axis of 0.5 (sigma d)^2 where abs(d) < 1 / sigma^2, else abs(d) - 0.5 / sigma^2."""
    layer = Layer("smooth_l1_loss", x, y)
    op, square = layer.op, 1.0 if sigma is None else float(sigma) ** 2
    d = op.Sub(x, y) if inside_weight is None else op.Mul(op.Sub(x, y), inside_weight)
    size = op.Abs(d)
    near = op.Less(size, op.constant(1.0 / square, x.dtype))
    losses = op.Where(near, op.Mul(op.Mul(d, d), 0.5 * square), op.Sub(size, 0.5 / square))
    losses = losses if outside_weight is None else op.Mul(losses, outside_weight)
    flat = op.Flatten(losses, axis=1)
    return layer.emit("ReduceSum", flat, [1], keepdims=1)  # type: ignore[no-any-return]


# Others -------------------------------------------------------------------------------------------------------------------


def one_hot(input: Variable, depth: int, allow_out_of_range: bool = False) -> Variable:
    """1 at each index and 0 elsewhere; a last axis of size 1 is replaced. Indices outside are all zeros."""
    layer = Layer("one_hot", input)
    op = layer.op
    index = op.Squeeze(input, [-1]) if input.ndim > 1 and input.shape[-1] == 1 else input
    same = op.Equal(op.Unsqueeze(op.Cast(index, to=7), [-1]), np.arange(depth))
    return layer.emit("Cast", same, to=1)  # type: ignore[no-any-return]


def label_smooth(
    label: Variable, prior_dist: Variable | None = None, epsilon: float = 0.1, dtype: Any = "float32", name: str | None = None
) -> Variable:
    """(1 - epsilon) * label + epsilon * prior, the uniform distribution unless given."""
    layer = Layer("label_smooth", label, name=name)
    prior: Any = 1.0 / label.shape[-1] if prior_dist is None else prior_dist
    return layer.emit("Add", layer.op.Mul(label, 1.0 - epsilon), prior * epsilon)  # type: ignore[no-any-return]


def l2_normalize(x: Variable, axis: int, epsilon: float = 1e-12, name: str | None = None) -> Variable:
    """x divided by its norm along ``axis``: x / sqrt(sum(x^2) + epsilon)."""
    layer = Layer("l2_normalize", x, name=name)
    op = layer.op
    length = op.Sqrt(op.Add(op.ReduceSumSquare(x, [axis], keepdims=1), epsilon))
    return layer.emit("Div", x, length)  # type: ignore[no-any-return]


def lrn(
    input: Variable,
    n: int = 5,
    k: float = 1.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """x / (k + alpha * sum of squares of n neighbouring channels)^beta. Krizhevsky et al. 2012."""
    return _simple("lrn", "LRN", input, name, size=n, bias=float(k), alpha=float(alpha) * n, beta=float(beta))
