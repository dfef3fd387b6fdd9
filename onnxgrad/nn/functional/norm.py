"""Normalisation by the batch, by layers, by instances, by groups, by neighbouring channels, and of vectors.

Tests: tests/nn/test_functional.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import attach_training
from onnxgrad.errors import ArgumentError, Mismatch
from onnxgrad.internal.arguments import checked
from onnxgrad.nn.functional.layout import ImageLayer
from onnxgrad.nn.types import Layout
from onnxgrad.tensor.common import as_dtype, positive
from onnxgrad.tensor.layer import LayerHelper, in_place_result, open_layer, present_operands
from onnxgrad.tensor.linalg import vector_norm
from onnxgrad.tensor.options import takes_options
from onnxgrad.tensor.remembered import remembers

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize", "rms_norm"]


@checked
def batch_norm(
    x: Variable,
    running_mean: Variable,
    running_var: Variable,
    weight: Variable | None = None,
    bias: Variable | None = None,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    data_format: Layout = "NCHW",
    use_global_stats: bool | None = None,
    name: str | None = None,
) -> Variable:
    """Normalise each channel by the batch in training, else by running statistics; scale and shift. Ioffe and Szegedy 2015.

    Args:
        x: floats of rank 2 to 5: [N, C], [N, C, L] ...
        running_mean, running_var: one number per channel. If they are parameters, a training run replaces them by ``momentum * old
            + (1 - momentum) * batch``, with the biased variance of the batch.
        weight: scale for each channel; 1 unless given.
        bias: shift for each channel; 0 unless given.
        training: normalise by the batch, rather than by the running statistics.
        momentum: the part of the old statistics that a step keeps.
        epsilon: added to the variance.
        data_format: channels are on axis 1 if its second letter is C, else on the last axis.
        use_global_stats: True for the running statistics in training too.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> x = static.data("x", [None, 3, 4, 4])
        >>> mean, var = static.data("mean", [3]), static.data("var", [3])
        >>> F.batch_norm(x, mean, var).shape
        (-1, 3, 4, 4)
    """
    layer = ImageLayer("batch_norm", x, data_format, running_mean, running_var, weight, bias, name=name)
    op, x = layer.op, layer.x
    scale, shift = _per_channel(layer, x, weight, 1.0), _per_channel(layer, x, bias, 0.0)
    operands: tuple[Variable, ...] = (x, scale, shift, running_mean, running_var)
    if x.is_eager:
        operands = tuple(as_dtype(op, v, x.dtype.name) for v in operands)
    attrs = {"momentum": float(momentum), "epsilon": float(epsilon)}
    by_batch = training and not use_global_stats
    if not by_batch or (running_mean.is_leaf and running_mean.persistable and not x.is_eager):
        y = layer.result("BatchNormalization", *operands, **attrs)
        if by_batch:
            assert y.op is not None
            attach_training([y.op])
    else:
        y, mean, variance = op.emit("BatchNormalization", operands, {"training_mode": 1, **attrs}, outputs=3)
        if x.is_eager:
            in_place_result("batch_norm", running_mean, mean.detach())
            in_place_result("batch_norm", running_var, variance.detach())
    return layer.in_layout(y)


@remembers
@checked
def layer_norm(
    x: Variable,
    normalized_shape: int | Sequence[int],
    weight: Variable | None = None,
    bias: Variable | None = None,
    epsilon: float = 1e-05,
    name: str | None = None,
) -> Variable:
    """Normalise over the last axes, then scale and shift. Ba, Kiros and Hinton 2016.

    Args:
        x: floats whose last axes have these sizes.
        normalized_shape: sizes of the last axes, or that of the last one.
        weight: scale of each normalised element, in this shape or as a vector; 1 unless given.
        bias: shift in the same form; 0 unless given.
        epsilon: added to the variance.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.layer_norm(static.data("x", [None, 3, 4]), [3, 4]).shape
        (-1, 3, 4)
    """
    layer, op = open_layer("layer_norm", x, *present_operands(weight, bias), name=name)
    shape = [normalized_shape] if isinstance(normalized_shape, int) else [int(n) for n in normalized_shape]
    if x.is_eager and list(x.shape[-len(shape) :]) != shape:
        raise Mismatch(f"layer_norm: the last axes of {x!r} are not normalized_shape={shape}. Pass the sizes that they have.")
    scale = op.constant(np.ones(shape), x.dtype) if weight is None else weight
    operands = [v if v is None or v.ndim == len(shape) else op.Reshape(v, np.array(shape)) for v in (scale, bias)]
    return layer.result("LayerNormalization", x, *operands, axis=-len(shape), epsilon=float(epsilon))


@remembers
@checked
def rms_norm(
    input: Variable,
    normalized_shape: int | Sequence[int],
    weight: Variable | None = None,
    eps: float = 1e-05,
    name: str | None = None,
) -> Variable:
    """Divide by the root of the mean square over the last axes, then scale. Zhang and Sennrich 2019.

    Args:
        input: floats whose last axes have these sizes.
        normalized_shape: sizes of the last axes, or that of the last one.
        weight: scale in this shape; 1 unless given.
        eps: added to the mean square.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.rms_norm(static.data("x", [None, 3]), 3).shape
        (-1, 3)
    """
    layer, op = open_layer("rms_norm", input, *present_operands(weight), name=name)
    count = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    mean = op.ReduceMean(op.Mul(input, input), list(range(-count, 0)), keepdims=1)
    y = layer.result("Div", input, op.Sqrt(op.Add(mean, float(eps))))
    return y if weight is None else layer.result("Mul", y, weight)


@checked
def instance_norm(
    x: Variable,
    running_mean: Variable | None = None,
    running_var: Variable | None = None,
    weight: Variable | None = None,
    bias: Variable | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.9,
    eps: float = 1e-05,
    data_format: Layout = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalise each channel of each sample by itself, then scale and shift. Ulyanov, Vedaldi and Lempitsky 2016.

    Args:
        x: floats [N, C, ...] of rank 2 to 5.
        running_mean: one number for each channel, for ``use_input_stats=False``.
        running_var: the same.
        weight: scale for each channel; 1 unless given.
        bias: shift for each channel; 0 unless given.
        use_input_stats: False to normalise by ``running_mean`` and ``running_var``.
        momentum: accepted for compatibility; the running statistics are never replaced, as in Paddle.
        eps: added to the variance.
        data_format: accepted for compatibility: channels are on axis 1.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.instance_norm(static.data("x", [None, 3, 4, 4])).shape
        (-1, 3, 4, 4)
    """
    if not use_input_stats and running_mean is not None and running_var is not None:
        return batch_norm(x, running_mean, running_var, weight, bias, epsilon=eps, name=name)
    layer = LayerHelper("instance_norm", x, *present_operands(weight, bias), name=name)
    scale, shift = _per_channel(layer, x, weight, 1.0), _per_channel(layer, x, bias, 0.0)
    return layer.result("InstanceNormalization", x, scale, shift, epsilon=float(eps))


def _per_channel(layer: LayerHelper, x: Variable, chosen: Variable | None, value: float) -> Any:
    if chosen is not None:
        return chosen
    op, channels = layer.op, x.shape[1]
    if channels >= 0:
        return op.constant(np.full(channels, value), x.dtype)
    return op.Expand(op.constant(value, x.dtype), op.Shape(x, start=1, end=2))


@checked
def group_norm(
    x: Variable,
    num_groups: int,
    epsilon: float = 1e-05,
    weight: Variable | None = None,
    bias: Variable | None = None,
    data_format: Layout = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalise groups of channels of each sample by themselves, then scale and shift per channel. Wu and He 2018.

    Args:
        x: floats [N, C, ...].
        num_groups: into how many groups the channels are cut.
        epsilon: added to the variance.
        weight: scale for each channel; 1 unless given.
        bias: shift for each channel; 0 unless given.
        data_format: channels are on axis 1 if its second letter is C, else on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if ``num_groups`` does not divide the channels.

    Example:
        >>> F.group_norm(static.data("x", [None, 4, 3, 3]), num_groups=2).shape
        (-1, 4, 3, 3)
    """
    layer = ImageLayer("group_norm", x, data_format, weight, bias, name=name)
    x = layer.x
    scale, shift = _per_channel(layer, x, weight, 1.0), _per_channel(layer, x, bias, 0.0)
    if positive(num_groups, "group_norm", "num_groups") and x.shape[1] > 0 and x.shape[1] % num_groups:
        raise ArgumentError(f"group_norm: {num_groups} groups do not divide {x.shape[1]} channels.")
    y = layer.result("GroupNormalization", x, scale, shift, num_groups=num_groups, epsilon=float(epsilon))
    return layer.in_layout(y)


@checked
def local_response_norm(
    x: Variable,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
    data_format: Layout = "NCHW",
    name: str | None = None,
) -> Variable:
    """Divide by (k + alpha times the mean of squares over ``size`` neighbouring channels)^beta. Krizhevsky et al. 2012.

    Args:
        x: floats [N, C, ...] of rank 3 to 5.
        size: how many neighbouring channels count.
        alpha: factor of the mean of squares.
        beta: the power of the divisor.
        k: added before the power.
        data_format: channels are on axis 1 if its second letter is C, else on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.local_response_norm(static.data("x", [None, 4, 3, 3]), size=3).shape
        (-1, 4, 3, 3)
    """
    layer = ImageLayer("lrn", x, data_format, name=name)
    x = layer.x
    if size % 2 and x.ndim == 4:
        y = layer.result("LRN", x, size=size, alpha=float(alpha), beta=float(beta), bias=float(k))
    else:
        y = layer.result("Div", x, _divisor(layer, x, size, alpha, beta, k))
    return layer.in_layout(y)


def _divisor(layer: LayerHelper, x: Variable, size: int, alpha: float, beta: float, k: float) -> Any:
    """The divisor for an even window, whose longer half lies before the channel in Paddle and behind it in ONNX, and for ranks
    other than 4, of which onnxruntime computes no LRN
    """
    op = layer.op
    planes = op.Unsqueeze(op.Reshape(op.Mul(x, x), np.array([0, 0, -1])), [1])
    window: dict[str, Any] = {"kernel_shape": [size, 1], "strides": [1, 1], "pads": [size // 2, 0, (size - 1) // 2, 0]}
    mean = op.Reshape(op.AveragePool(planes, count_include_pad=1, **window), op.Shape(x), allowzero=1)
    return op.Pow(op.Add(op.Mul(mean, float(alpha)), float(k)), op.constant(float(beta), x.dtype))


@checked
@takes_options
def normalize(
    x: Variable, p: float = 2, axis: int = 1, epsilon: float = 1e-12, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Divide ``x`` by its norm along ``axis``, or by epsilon if that is larger.

    Args:
        x: floats of any shape.
        p: the p of the p-norm.
        axis: the axis of the vectors.
        epsilon: the least divisor.
        name: prefix of the names of the results in a program; None to count one.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> F.normalize(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    layer = LayerHelper("normalize", x, name=name)
    length = vector_norm(x, float(p), axis, keepdim=True)
    return layer.result("Div", x, layer.op.Max(length, float(epsilon)))


def divided_by_spectral_norm(
    x: Variable, u: Variable, v: Variable, dim: int, power_iters: int, epsilon: float, name: str | None = None
) -> tuple[Variable, Variable, Variable]:
    """``x``, as a matrix whose rows are the entries of axis ``dim``, divided by its largest singular value. Miyato et al. 2018.

    Returns:
        The quotient, and ``u`` and ``v`` after ``power_iters`` power iterations, which count as constant in the gradient.
    """
    layer, op = open_layer("spectral_norm", x, u, v, name=name)
    matrix = op.Reshape(op.Transpose(x, perm=[dim, *(axis for axis in range(x.ndim) if axis != dim)]), np.array([x.shape[dim], -1]))
    fixed = matrix.detach()
    for _ in range(power_iters):
        v = op.MatMul(u, fixed)
        v = op.Div(v, op.Add(op.ReduceL2(v, keepdims=0), epsilon))
        u = op.MatMul(fixed, v)
        u = op.Div(u, op.Add(op.ReduceL2(u, keepdims=0), epsilon))
    return layer.result("Div", x, op.MatMul(u, op.MatMul(matrix, v))), u, v
