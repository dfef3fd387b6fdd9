"""Layers with parameters, activations, losses, pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import onnxgrad.nn.functional as functional
from onnxgrad import static
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.fluid.renamed import renamed
from onnxgrad.losses import huber, logistic_of_scores
from onnxgrad.nn.functional import elu, sigmoid, softsign, square_error_cost
from onnxgrad.static import accuracy, auc
from onnxgrad.static.nn.common import bilinear_tensor_product, prelu, row_conv
from onnxgrad.static.nn.conv import conv2d, conv2d_transpose, conv3d, conv3d_transpose
from onnxgrad.static.nn.norm import batch_norm, data_norm, group_norm, instance_norm, layer_norm, spectral_norm
from onnxgrad.static.nn.refused import (
    nce,
    sequence_conv,
    sequence_expand,
    sequence_first_step,
    sequence_last_step,
    sequence_pool,
    sequence_softmax,
)
from onnxgrad.tensor.layer import LayerHelper

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
    """Rows of a new embedding. The last axis of ``input`` is 1 and is taken off; ``fluid.embedding`` keeps all axes.

    Example:
        >>> fluid.layers.embedding(fluid.layers.data("ids", shape=[1], dtype="int64"), size=[100, 8]).shape
        (-1, 8)
    """
    if input.shape[-1] != 1:
        raise ArgumentError(f"fluid.layers.embedding: the last axis of {input!r} must be 1. Use fluid.embedding.")
    flat = LayerHelper("squeeze2", input).result("Squeeze", input, [-1])
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
    if global_pooling:
        kind = "GlobalMaxPool" if pool_type == "max" else "GlobalAveragePool"
        return LayerHelper("pool2d", input, name=name).result(kind, input)
    window = (input, pool_size, pool_stride, pool_padding)
    if pool_type == "avg":
        return functional.avg_pool2d(*window, ceil_mode, exclusive, name=name)
    largest: Variable = functional.max_pool2d(*window, ceil_mode=ceil_mode, name=name)
    return largest


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


softplus = renamed("softplus(x, name=None)", functional.softplus, "log(1 + exp(x)).")
leaky_relu = renamed("leaky_relu(x, alpha=0.02, name=None)", functional.leaky_relu, negative_slope="alpha")
gelu = renamed("gelu(x, approximate=False)", functional.gelu)
softmax = renamed("softmax(input, use_cudnn=False, name=None, axis=-1)", functional.softmax, x="input")


def relu(x: Variable, name: str | None = None) -> Variable:
    """max(x, 0), in the element type of x."""
    return LayerHelper("relu", x, name=name).result("Relu", x)


def relu6(x: Variable, threshold: float = 6.0, name: str | None = None) -> Variable:
    """x limited to [0, threshold]."""
    return functional.hardtanh(x, 0.0, threshold, LayerHelper("relu6", x, name=name).name)


def swish(x: Variable, beta: float = 1.0, name: str | None = None) -> Variable:
    """x * sigmoid(beta * x)."""
    layer = LayerHelper("swish", x, name=name)
    return layer.result("Mul", x, layer.op.Sigmoid(layer.op.Mul(x, beta)))


def log_softmax(input: Variable, axis: int = -1, dtype: Any = None, name: str | None = None) -> Variable:
    """Logarithm of ``softmax``."""
    return functional.log_softmax(input if dtype is None else input.astype(dtype), axis, name=name)


# Losses -------------------------------------------------------------------------------------------------------------------


mse_loss = renamed("mse_loss(input, label)", functional.mse_loss, "Mean of (input - label)^2.")


def cross_entropy(input: Variable, label: Variable, soft_label: bool = False, ignore_index: int = -100) -> Variable:
    """-log of the probability of the label, one value per row of shape [..., 1]. ``input`` holds probabilities, not logits.

    Example:
        >>> x, label = fluid.layers.data("x", [10]), fluid.layers.data("label", [1], dtype="int64")
        >>> fluid.layers.cross_entropy(input=fluid.layers.softmax(x), label=label).shape
        (-1, 1)
    """
    return functional.cross_entropy(input, label, None, ignore_index, "none", soft_label, use_softmax=False)


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
    layer = LayerHelper("sigmoid_cross_entropy_with_logits", x, label, name=name)
    op = layer.op
    kept = op.Cast(op.Not(op.Equal(label, op.constant(ignore_index, label.dtype))), to=x.dtype.number)
    found = logistic_of_scores(op, x, label)
    if not normalize:
        return layer.result("Mul", found, kept)
    return layer.result("Div", op.Mul(found, kept), op.Max(op.ReduceSum(kept, keepdims=0), 1.0))


def smooth_l1(
    x: Variable,
    y: Variable,
    inside_weight: Variable | None = None,
    outside_weight: Variable | None = None,
    sigma: float | None = None,
) -> Variable:
    """Sum over all but the first axis of 0.5 (sigma d)^2 where abs(d) < 1 / sigma^2, else abs(d) - 0.5 / sigma^2."""
    layer = LayerHelper("smooth_l1_loss", x, y)
    op, square = layer.op, 1.0 if sigma is None else float(sigma) ** 2
    d = op.Sub(x, y) if inside_weight is None else op.Mul(op.Sub(x, y), inside_weight)
    found = huber(op, d, 1.0 / square)
    found = found if sigma is None else op.Mul(found, square)
    found = found if outside_weight is None else op.Mul(found, outside_weight)
    return layer.result("ReduceSum", op.Flatten(found, axis=1), [1], keepdims=1)


# Others -------------------------------------------------------------------------------------------------------------------


def one_hot(input: Variable, depth: int, allow_out_of_range: bool = False) -> Variable:
    """1 at each index and 0 elsewhere; a last axis of size 1 is replaced. Indices outside are all zeros."""
    layer = LayerHelper("one_hot", input)
    op = layer.op
    index = op.Squeeze(input, [-1]) if input.ndim > 1 and input.shape[-1] == 1 else input
    same = op.Equal(op.Unsqueeze(op.Cast(index, to=7), [-1]), np.arange(depth))
    return layer.result("Cast", same, to=1)


def label_smooth(
    label: Variable, prior_dist: Variable | None = None, epsilon: float = 0.1, dtype: Any = "float32", name: str | None = None
) -> Variable:
    """(1 - epsilon) * label + epsilon * prior, the uniform distribution unless given."""
    layer = LayerHelper("label_smooth", label, name=name)
    prior: Any = 1.0 / label.shape[-1] if prior_dist is None else prior_dist
    return layer.result("Add", layer.op.Mul(label, 1.0 - epsilon), prior * epsilon)


def l2_normalize(x: Variable, axis: int, epsilon: float = 1e-12, name: str | None = None) -> Variable:
    """x divided by its norm along ``axis``: x / sqrt(sum(x^2) + epsilon)."""
    layer = LayerHelper("l2_normalize", x, name=name)
    op = layer.op
    length = op.Sqrt(op.Add(op.ReduceSumSquare(x, [axis], keepdims=1), epsilon))
    return layer.result("Div", x, length)


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
    layer = LayerHelper("lrn", input, name=name)
    return layer.result("LRN", input, size=n, bias=float(k), alpha=float(alpha) * n, beta=float(beta))
