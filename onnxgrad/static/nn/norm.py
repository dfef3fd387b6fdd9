"""Layers that normalise, with parameters of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.tensor import Tensor
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import attach_training
from onnxgrad.errors import ArgumentError, ProgramError
from onnxgrad.nn.functional.layout import in_layout, is_last, to_channels_first
from onnxgrad.static.nn.common import Attr
from onnxgrad.tensor.common import positive
from onnxgrad.tensor.initializer import Constant, Normal
from onnxgrad.tensor.layer import LayerHelper
from onnxgrad.tensor.param_attr import ParamAttr

__all__ = ["batch_norm", "data_norm", "group_norm", "instance_norm", "layer_norm", "spectral_norm"]


def batch_norm(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
) -> Variable:
    """Normalise each channel by the batch in training, by running statistics in inference, then scale and shift.

    The running statistics are ``momentum * old + (1 - momentum) * batch``, with the biased variance of the batch. Ioffe and
    Szegedy 2015.

    Args:
        input: variable of rank 2 to 5, channels on axis 1 (``NCHW``) or on the last (``NHWC``).
        is_test, use_global_stats: use the running statistics.
        param_attr, bias_attr: attributes of scale (1) and bias (0).

    Raises:
        ProgramError: if the number of channels is not known.
    """
    layer = LayerHelper("batch_norm", input, name=name)
    last = is_last(data_layout, input)
    input = to_channels_first(layer, input, last)
    if input.shape[1] < 0:
        raise ProgramError(f"batch_norm: the number of channels of {input!r} must be known. Declare it in data().")
    size, dtype = [input.shape[1]], input.dtype
    scale = layer.parameter(param_attr, "w", size, dtype, Constant(1.0))
    shift = layer.parameter(bias_attr, "b", size, dtype, Constant(0.0))
    mean = layer.parameter(ParamAttr(moving_mean_name, Constant(0.0), trainable=False), "w", size, dtype, Constant(0.0))
    variance = layer.parameter(ParamAttr(moving_variance_name, Constant(1.0), trainable=False), "w", size, dtype, Constant(1.0))
    layer.skip_names(3)
    y = layer.result("BatchNormalization", input, scale, shift, mean, variance, momentum=momentum, epsilon=epsilon)
    if not is_test and not use_global_stats:
        assert y.op is not None
        attach_training(y.op)
    return layer.activate(in_layout(layer, y, last, named=False), act)


def layer_norm(
    input: Variable,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-05,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Normalise over the axes from ``begin_norm_axis`` on, then scale and shift. Ba, Kiros and Hinton 2016.

    Raises:
        ProgramError: if one of those axes has no known size.
    """
    layer = LayerHelper("layer_norm", input, name=name)
    shape = input.shape[begin_norm_axis:]
    if any(dim < 0 for dim in shape):
        raise ProgramError(f"layer_norm: axes {begin_norm_axis} and up of {input!r} must be known. Declare them in data().")
    size = [math.prod(shape)]
    gain = layer.parameter(param_attr, "w", size, input.dtype, Constant(1.0)) if scale else None
    bias = layer.parameter(bias_attr, "b", size, input.dtype, Constant(0.0)) if shift else None
    if gain is None:
        gain = layer.op.constant(Tensor.of(np.ones(size, input.dtype.numpy)).numpy())  # type: ignore[assignment]
    target = np.array(shape)
    operands = [v if v is None or len(shape) == 1 else layer.op.Reshape(v, target) for v in (gain, bias)]
    layer.skip_names(2)
    y = layer.result("LayerNormalization", input, *operands, axis=begin_norm_axis, epsilon=epsilon)
    return layer.activate(y, act)


def instance_norm(
    input: Variable, epsilon: float = 1e-05, param_attr: Attr = None, bias_attr: Attr = None, name: str | None = None
) -> Variable:
    """Normalise each channel of each sample over its positions, then scale and shift. Ulyanov et al. 2016.

    Args:
        input: variable of rank 2 to 5, channels on axis 1.
        epsilon: added to the variance.
        param_attr, bias_attr: attributes of scale (1) and bias (0), which exist only where both are given, as in Paddle.

    Raises:
        ArgumentError: if one of the two is False and the other is not.
    """
    if (param_attr is False) != (bias_attr is False):
        raise ArgumentError("instance_norm: param_attr and bias_attr are False together or not at all.")
    if not (param_attr and bias_attr):
        param_attr = bias_attr = False
    layer = LayerHelper("instance_norm", input, name=name)
    size, dtype = [_channels("instance_norm", input)], input.dtype
    scale: Any = layer.parameter(param_attr, "w", size, dtype, Constant(1.0))
    shift: Any = layer.parameter(bias_attr, "b", size, dtype, Constant(0.0))
    if scale is None:
        scale, shift = np.ones(size, dtype.numpy), np.zeros(size, dtype.numpy)
    layer.skip_names(2)
    return layer.result("InstanceNormalization", input, scale, shift, epsilon=epsilon)


def group_norm(
    input: Variable,
    groups: int,
    epsilon: float = 1e-05,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    act: str | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalise groups of channels of each sample, then scale and shift each channel. Wu and He 2018.

    Args:
        input: variable of rank 2 or more with a known number of channels.
        groups: divides the number of channels.
        param_attr, bias_attr: attributes of scale (1) and bias (0), each of which exists only where it is given, as in Paddle.
        act: activation applied last.
        data_layout: ``"NCHW"`` or ``"NHWC"``.

    Example:
        >>> static.nn.group_norm(static.data("x", [None, 6, 4, 4]), groups=3).shape
        (-1, 6, 4, 4)
    """
    layer = LayerHelper("group_norm", input, name=name)
    op = layer.op
    last = is_last(data_layout, input)
    x = to_channels_first(layer, input, last)
    channels, dtype = _channels("group_norm", x), x.dtype
    if channels % positive(groups, "group_norm", "groups"):
        raise ArgumentError(f"group_norm: {groups} groups do not divide {channels} channels.")
    parts = op.Reshape(x, np.array([0, groups, -1]))
    parts = op.InstanceNormalization(parts, np.ones(groups, dtype.numpy), np.zeros(groups, dtype.numpy), epsilon=epsilon)
    each = np.array([channels, *[1] * (x.ndim - 2)])
    scale = layer.parameter(param_attr or False, "w", [channels], dtype, Constant(1.0))
    shift = layer.parameter(bias_attr or False, "b", [channels], dtype, Constant(0.0))
    layer.skip_names(2)
    steps: list[tuple[str, Any]] = [("Reshape", op.Shape(x) if x.static_shape is None else np.array(x.static_shape))]
    steps += [(kind, op.Reshape(v, each)) for kind, v in (("Mul", scale), ("Add", shift)) if v is not None]
    y = parts
    for kind, operand in steps[:-1]:
        y = op.emit(kind, (y, operand), {})
    y = layer.result(steps[-1][0], y, steps[-1][1])
    return layer.activate(in_layout(layer, y, last, named=False), act)


def _channels(function: str, x: Variable) -> int:
    if x.shape[1] < 0:
        raise ProgramError(f"{function}: the number of channels of {x!r} must be known. Declare it in data().")
    return x.shape[1]


def data_norm(
    input: Variable,
    act: str | None = None,
    epsilon: float = 1e-05,
    param_attr: dict[str, float] | None = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    slot_dim: int = -1,
    sync_stats: bool = False,
    summary_decay_rate: float = 0.9999999,
    enable_scale_and_shift: bool = False,
) -> Variable:
    """Normalise each feature of [N, C] by sums over all rows seen so far: (x - sum / size) * sqrt(size / square_sum).

    Every run that trains adds its rows to the three sums, after multiplying them by ``summary_decay_rate``.
    ``clone(for_test=True)`` leaves them as they are.

    Args:
        param_attr: start of the sums: ``batch_size`` (1e4), ``batch_sum`` (0), ``batch_square`` (1e4), and of ``scale_w`` (1)
            and ``bias`` (0).
        enable_scale_and_shift: scale and shift by new parameters at the end.
        act: activation applied last.
    """
    layer = LayerHelper("data_norm", input, name=name)
    op, program = layer.op, layer.program
    features, dtype = [_channels("data_norm", input)], input.dtype
    given = param_attr if isinstance(param_attr, dict) else {}

    def parameter(kind: str, key: str, default: float, trainable: bool) -> Any:
        attr = ParamAttr(f"{layer.name}.{kind}", Constant(float(given.get(key, default))), trainable=trainable)
        return layer.parameter(attr, kind, features, dtype, Constant(0.0))

    size = parameter("batch_size", "batch_size", 1e4, False)
    total = parameter("batch_sum", "batch_sum", 0.0, False)
    squares = parameter("batch_square_sum", "batch_square", 1e4, False)
    mean = op.Div(total, size)
    centred = op.Sub(input, mean)
    y = layer.result("Mul", centred, op.Sqrt(op.Div(size, squares)))
    if enable_scale_and_shift:
        y = layer.result("Mul", y, parameter("scale_w", "scale_w", 1.0, True))
        y = layer.result("Add", y, parameter("bias", "bias", 0.0, True))
    update = Builder(program.global_block(), role=Role.OPTIMIZE, key=f"{layer.name}@UPDATE")
    rows = update.Cast(update.Shape(input, start=0, end=1), to=dtype.number)
    spread = update.Add(update.ReduceSum(update.Mul(centred, centred), [0], keepdims=0), update.Mul(rows, epsilon))
    added = ((size, rows), (total, update.ReduceSum(input, [0], keepdims=0)), (squares, spread))
    for old, new in added:
        program.updates[old] = update.Add(update.Mul(old, summary_decay_rate), new)
    return layer.activate(y, act)


def spectral_norm(weight: Variable, dim: int = 0, power_iters: int = 1, eps: float = 1e-12, name: str | None = None) -> Variable:
    """``weight`` divided by its largest singular value, found by ``power_iters`` power iterations. Miyato et al. 2018.

    Args:
        weight: variable of known shape, seen as a matrix whose rows are the entries of axis ``dim``.
        power_iters: how often both vectors are multiplied by the matrix; they count as constant in the gradient.
        eps: added to norms.
    """
    layer = LayerHelper("spectral_norm", weight, name=name)
    op, shape = layer.op, weight.static_shape
    if shape is None:
        raise ProgramError(f"spectral_norm: the shape of {weight!r} must be known.")
    order = [dim, *(i for i in range(len(shape)) if i != dim)]
    rows, columns = shape[dim], math.prod(shape) // shape[dim]
    matrix = op.Reshape(op.Transpose(weight, perm=order), np.array([rows, columns]))
    u: Any = layer.parameter(Normal(), "w", [rows], weight.dtype, Normal(), trainable=False)
    v: Any = layer.parameter(Normal(), "w", [columns], weight.dtype, Normal(), trainable=False)
    fixed = op.Identity(matrix)
    fixed.stop_gradient = True
    for _ in range(power_iters):
        v = _unit(op, op.MatMul(u, fixed), eps)
        u = _unit(op, op.MatMul(fixed, v), eps)
    sigma = op.MatMul(u, op.MatMul(matrix, v))
    return layer.result("Div", weight, sigma)


def _unit(op: Builder, x: Variable, eps: float) -> Variable:
    return op.Div(x, op.Add(op.ReduceL2(x, keepdims=0), eps))
