"""Layers that normalise, with parameters of their own.

Tests: tests/static/test_layers.py.
"""

from __future__ import annotations

import math
from typing import Any

import onnxgrad.nn.functional as F
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DType
from onnxgrad.errors import ArgumentError, ProgramError
from onnxgrad.internal.arguments import as_int, checked
from onnxgrad.nn.functional.layout import is_last
from onnxgrad.nn.functional.norm import divided_by_spectral_norm
from onnxgrad.nn.types import Layout
from onnxgrad.static.nn.common import Attr, known_channels
from onnxgrad.tensor.initializer import Constant, Normal
from onnxgrad.tensor.layer import ActivationName, LayerHelper
from onnxgrad.tensor.param_attr import ParamAttr

__all__ = ["batch_norm", "data_norm", "group_norm", "instance_norm", "layer_norm", "spectral_norm"]


def _scale_and_shift(layer: LayerHelper, param_attr: Attr, bias_attr: Attr, size: list[int], dtype: DType) -> tuple[Any, Any]:
    """The parameters of a normalisation, 1 and 0 at first; None for one whose attr is False"""
    scale = layer.parameter(param_attr, "w", size, dtype, Constant(1.0))
    return scale, layer.parameter(bias_attr, "b", size, dtype, Constant(0.0))


@checked
def batch_norm(
    input: Variable,
    act: ActivationName | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    data_layout: Layout = "NCHW",
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
    size, dtype = [known_channels("batch_norm", input, -1 if last else 1)], input.dtype
    scale, shift = _scale_and_shift(layer, param_attr, bias_attr, size, dtype)
    mean: Any = layer.parameter(ParamAttr(moving_mean_name, Constant(0.0), trainable=False), "w", size, dtype, Constant(0.0))
    variance: Any = layer.parameter(
        ParamAttr(moving_variance_name, Constant(1.0), trainable=False), "w", size, dtype, Constant(1.0)
    )
    layer.skip_names(2 if last else 3)
    y = F.batch_norm(input, mean, variance, scale, shift, not is_test, momentum, epsilon, data_layout, use_global_stats, layer.name)
    return layer.activate(y, act)


@checked
def layer_norm(
    input: Variable,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-05,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    act: ActivationName | None = None,
    name: str | None = None,
) -> Variable:
    """Normalise over the axes from ``begin_norm_axis`` on, then scale and shift. Ba, Kiros and Hinton 2016.

    Args:
        input: floats of any shape.
        scale: whether each element has a factor of its own, which is trained.
        shift: whether each element has an addend of its own, which is trained.
        begin_norm_axis: the first of the axes that are normalised together.
        epsilon: added to the variance.
        param_attr: attributes of the factors.
        bias_attr: attributes of the addends.
        act: name of an activation; None for none.

    Raises:
        ProgramError: if one of those axes has no known size.
    """
    layer = LayerHelper("layer_norm", input, name=name)
    shape = input.shape[begin_norm_axis:]
    if any(dim < 0 for dim in shape):
        raise ProgramError(f"layer_norm: axes {begin_norm_axis} and up of {input!r} must be known. Declare them in data().")
    size = [math.prod(shape)]
    gain, bias = _scale_and_shift(layer, scale and param_attr, shift and bias_attr, size, input.dtype)
    layer.skip_names(2)
    return layer.activate(F.layer_norm(input, shape, gain, bias, epsilon, layer.name), act)


@checked
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
    size, dtype = [known_channels("instance_norm", input)], input.dtype
    scale, shift = _scale_and_shift(layer, param_attr, bias_attr, size, dtype)
    layer.skip_names(2)
    return F.instance_norm(input, weight=scale, bias=shift, eps=epsilon, name=layer.name)


@checked
def group_norm(
    input: Variable,
    groups: int,
    epsilon: float = 1e-05,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    act: ActivationName | None = None,
    data_layout: Layout = "NCHW",
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
    last = is_last(data_layout, input)
    size = [known_channels("group_norm", input, -1 if last else 1)]
    scale, shift = _scale_and_shift(layer, param_attr or False, bias_attr or False, size, input.dtype)
    layer.skip_names(1 if last else 2)
    return layer.activate(F.group_norm(input, groups, epsilon, scale, shift, data_layout, layer.name), act)


@checked
def data_norm(
    input: Variable,
    act: ActivationName | None = None,
    epsilon: float = 1e-05,
    param_attr: dict[str, float] | None = None,
    data_layout: Layout = "NCHW",
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
    features, dtype = [known_channels("data_norm", input)], input.dtype
    initial = param_attr if isinstance(param_attr, dict) else {}

    def parameter(suffix: str, key: str, default: float, trainable: bool) -> Any:
        attr = ParamAttr(f"{layer.name}.{suffix}", Constant(float(initial.get(key, default))), trainable=trainable)
        return layer.parameter(attr, suffix, features, dtype, Constant(0.0))

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


@checked
def spectral_norm(weight: Variable, dim: int = 0, power_iters: int = 1, eps: float = 1e-12, name: str | None = None) -> Variable:
    """``weight`` divided by its largest singular value, found by ``power_iters`` power iterations. Miyato et al. 2018.

    Args:
        weight: variable of known shape, seen as a matrix whose rows are the entries of axis ``dim``.
        power_iters: how often both vectors are multiplied by the matrix; they count as constant in the gradient.
        eps: added to norms.
    """
    as_int("spectral_norm", "dim", dim, least=0, most=1)
    layer = LayerHelper("spectral_norm", weight, name=name)
    shape = weight.static_shape
    if shape is None:
        raise ProgramError(f"spectral_norm: the shape of {weight!r} must be known.")
    sizes = (shape[dim], math.prod(shape) // shape[dim])
    u, v = (layer.parameter(Normal(), "w", [size], weight.dtype, Normal(), trainable=False) for size in sizes)
    assert u is not None and v is not None
    return divided_by_spectral_norm(weight, u, v, dim, power_iters, eps, layer.name)[0]
