"""Normalisation by statistics: of the batch, of a layer, of groups, or given ones.

Ioffe and Szegedy, "Batch Normalization", 2015, section 3; the same derivation holds for the others with other axes.

Tests: tests/core/rules/test_gradients.py.
"""

from __future__ import annotations

import math
from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.origin import BATCH_MEAN, BATCH_MEAN_GRADIENT, BATCH_STATISTICS_GRADIENT, BATCH_VARIANCE
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.ir.window import dim_of
from onnxgrad.core.rules.common import axes_from, cast_like, or_infinite, size_as
from onnxgrad.core.rules.registry import gradient


def _normalised(op: Builder, x: Variable, axes: Any, epsilon: float) -> tuple[Variable, Variable]:
    """(x - mean) / sqrt(variance + epsilon), and the reciprocal of that root"""
    centred = op.Sub(x, op.ReduceMean(x, axes, keepdims=1))
    variance = op.ReduceMean(op.Mul(centred, centred), axes, keepdims=1)
    inverse = op.Reciprocal(op.Sqrt(op.Add(variance, epsilon)))
    return op.Mul(centred, inverse), inverse


def _through_statistics(op: Builder, g: Variable, unit: Variable, inverse: Variable, axes: Any) -> Variable:
    """Gradient of x from that of the normalised ``unit``: inverse * (g - mean(g) - unit * mean(g * unit))"""
    mean = op.ReduceMean(g, axes, keepdims=1)
    slope = op.ReduceMean(op.Mul(g, unit), axes, keepdims=1)
    return op.Mul(op.Sub(op.Sub(g, mean), op.Mul(unit, slope)), inverse)


def _per_channel(op: Builder, v: Any, x: Any) -> Any:
    """A vector over channels, shaped to broadcast against x"""
    if x.rank is not None:
        return op.Unsqueeze(v, list(range(1, x.rank - 1)))
    return op.Unsqueeze(v, op.Range(1, op.Sub(op.Size(op.Shape(x)), 1), 1))


def _all_but_channels(op: Builder, x: Any) -> Any:
    """The axes of batch and space"""
    return [0, *range(2, x.rank)] if x.rank is not None else op.Concat([0], axes_from(op, x, 2), axis=0)


@gradient("BatchNormalization")
def batch_normalization(op, node, gy, gmean=None, gvar=None):
    """unit = (x - mean) / sqrt(var + eps);  gscale = sum(gy unit);  gb = sum(gy);  gx through the statistics when training"""
    x, scale, _, mean, var = (_at_least_float32(op, v) for v in node.inputs)
    gy, gmean, gvar = (_at_least_float32(op, g) for g in (gy, gmean, gvar))
    axes, epsilon = _all_but_channels(op, x), node.attr("epsilon")
    if node.attr("training_mode"):
        return _batch_normalization_training(op, node, x, scale, gy, gmean, gvar)
    deviation = op.Sqrt(op.Add(var, epsilon))
    factor = op.Div(scale, deviation)
    centred = op.Sub(x, _per_channel(op, mean, x))
    total = op.ReduceSum(gy, axes, keepdims=0)
    along = op.ReduceSum(op.Mul(gy, centred), axes, keepdims=0)
    gx = op.Mul(gy, _per_channel(op, factor, x))
    gscale = op.Div(along, deviation)
    gvar = op.Div(op.Mul(op.Mul(along, factor), -0.5), op.Add(var, epsilon))
    return gx, gscale, total, op.Neg(op.Mul(total, factor)), gvar


def _at_least_float32(op: Builder, v: Variable | None) -> Variable | None:
    """16-bit operands in float32, since the operator may mix them with float32 statistics"""
    return op.Cast(v, to=1) if v is not None and v.dtype.name in ("float16", "bfloat16") else v


def _batch_normalization_training(op: Builder, node: Any, x: Any, scale: Any, gy: Variable | None, gmean: Any, gvar: Any) -> Any:
    """The statistics are those of the batch; the running ones mix old and new with ``momentum``"""
    axes, momentum = _all_but_channels(op, x), node.attr("momentum")
    fresh = 1.0 - momentum
    count = op.Div(size_as(op, x, x), size_as(op, scale, x)) if x.static_shape is None else _static_count(x)
    gx = gscale = gb = None
    if gy is not None or gvar is not None:
        centred = op.Sub(x, node.wrote(BATCH_MEAN, op.ReduceMean(x, axes, keepdims=1)))
    if gy is not None:
        variance = node.wrote(BATCH_VARIANCE, op.ReduceMean(op.Mul(centred, centred), axes, keepdims=0))
        inverse = op.Reciprocal(op.Sqrt(op.Add(variance, node.attr("epsilon"))))
        gb, along = op.ReduceSum(gy, axes, keepdims=0), op.ReduceSum(op.Mul(gy, centred), axes, keepdims=0)
        gscale = op.Mul(along, inverse)
        # Numbers per channel are put together first: every operator on all of x is a pass over memory.
        shift, slope = (node.wrote(BATCH_MEAN_GRADIENT, op.Div(g, count)) for g in (gb, op.Mul(gscale, inverse)))
        rest = op.Sub(op.Sub(gy, _per_channel(op, shift, x)), op.Mul(centred, _per_channel(op, slope, x)))
        gx = op.Mul(rest, _per_channel(op, op.Mul(scale, inverse), x))
    if gmean is not None:
        mean = node.wrote(BATCH_STATISTICS_GRADIENT, op.Div(op.Mul(gmean, fresh), count))
        part = op.Expand(_per_channel(op, mean, x), op.Shape(x))
        gx = part if gx is None else op.Add(gx, part)
    if gvar is not None:
        mean = node.wrote(BATCH_STATISTICS_GRADIENT, op.Div(op.Mul(gvar, 2.0 * fresh), count))
        part = op.Mul(centred, _per_channel(op, mean, x))
        gx = part if gx is None else op.Add(gx, part)
    old_mean = None if gmean is None else op.Mul(gmean, momentum)
    old_var = None if gvar is None else op.Mul(gvar, momentum)
    return gx, gscale, gb, old_mean, old_var


def _static_count(x: Any) -> Any:
    size = 1
    for axis, dim in enumerate(x.static_shape):
        size *= dim if axis != 1 else 1
    return float(size)


@gradient("LayerNormalization", broadcasts=(1, 2))
def layer_normalization(op, node, gy, gmean=None, ginverse=None):
    """gx = inv * (g - mean(g) - unit * mean(g * unit)), g = gy * scale, unit = (x - mean) * inv;  gscale = gy unit;  gb = gy"""
    data, scale = node.inputs[:2]
    axes = axes_from(op, data, node.attr("axis"))
    x = op.Cast(data, to=node.attr("stash_type")) if data.dtype.name in ("float16", "bfloat16") else data
    mean, inverse = (_statistic(node, i) for i in (1, 2))
    unit = op.Mul(op.Sub(x, cast_like(op, mean, x)), cast_like(op, inverse, x))
    inverse = cast_like(op, inverse, x)
    gx = gscale = None
    if gy is not None:
        wide = cast_like(op, gy, x)
        gx = _through_statistics(op, op.Mul(wide, cast_like(op, scale, x)), unit, inverse, axes)
        gscale = op.Mul(wide, unit)
    count = op.Div(size_as(op, x, x), size_as(op, mean, x)) if x.static_shape is None else _count_over(x, axes)
    if gmean is not None:
        part = op.Expand(op.Div(cast_like(op, gmean, x), count), op.Shape(x))
        gx = part if gx is None else op.Add(gx, part)
    if ginverse is not None:
        slope = op.Neg(op.Div(op.Mul(cast_like(op, ginverse, x), op.Mul(inverse, inverse)), count))
        part = op.Mul(unit, slope)
        gx = part if gx is None else op.Add(gx, part)
    return (gx, gscale, gy)[: len(node.inputs)]


def _statistic(node: Any, index: int) -> Any:
    """Mean or InvStdDev: the output of the forward operator, which is asked to give it"""
    present = node.outputs[index] if index < len(node.outputs) else None
    return present if present is not None else node.extra_output(index)


def _count_over(x: Any, axes: list[int]) -> Any:
    size = 1
    for axis in axes:
        size *= x.static_shape[axis]
    return float(size)


@gradient("InstanceNormalization")
def instance_normalization(op, node, gy):
    """As LayerNormalization over the spatial axes;  gscale, gb summed over batch and space"""
    x, scale, _ = node.inputs
    axes = _all_but_channels(op, x)
    space = axes_from(op, x, 2)
    unit, inverse = _normalised(op, x, space, node.attr("epsilon"))
    gx = _through_statistics(op, op.Mul(gy, _per_channel(op, scale, x)), unit, inverse, space)
    return gx, op.ReduceSum(op.Mul(gy, unit), axes, keepdims=0), op.ReduceSum(gy, axes, keepdims=0)


@gradient("GroupNormalization")
def group_normalization(op, node, gy):
    """As LayerNormalization over each group of channels;  gscale, gb summed over batch and space"""
    x, scale, _ = node.inputs
    axes = _all_but_channels(op, x)
    groups = op.Concat(op.Shape(x, start=0, end=1), [node.attr("num_groups"), -1], axis=0)
    unit, inverse = _normalised(op, op.Reshape(x, groups), [2], node.attr("epsilon"))
    g = op.Reshape(op.Mul(gy, _per_channel(op, scale, x)), groups)
    gx = op.Reshape(_through_statistics(op, g, unit, inverse, [2]), op.Shape(x), allowzero=1)
    in_place = op.Reshape(unit, op.Shape(x), allowzero=1)
    return gx, op.ReduceSum(op.Mul(gy, in_place), axes, keepdims=0), op.ReduceSum(gy, axes, keepdims=0)


@gradient("MeanVarianceNormalization")
def mean_variance_normalization(op, node, gy):
    """As LayerNormalization over the given axes, without scale"""
    # Not through the output: onnx's checker refuses the operator's own body in 16-bit floats.
    x = node.inputs[0]
    axes = list(node.attr("axes"))
    centred = op.Sub(x, op.ReduceMean(x, axes, keepdims=1))
    deviation = op.Sqrt(op.ReduceMean(op.Mul(centred, centred), axes, keepdims=1))
    inverse = op.Reciprocal(op.Add(deviation, 1e-9))
    return _through_statistics(op, gy, op.Mul(centred, inverse), inverse, axes)


@gradient("RMSNormalization", broadcasts=(1,))
def rms_normalization(op, node, gy):
    """gx = inv * (g - unit * mean(g * unit)), g = gy * scale, unit = x * inv, inv = 1 / sqrt(mean(x^2) + eps);  gscale = gy unit"""
    data, scale = node.inputs
    axes = axes_from(op, data, node.attr("axis"))
    x = op.Cast(data, to=node.attr("stash_type")) if data.dtype.name in ("float16", "bfloat16") else data
    inverse = op.Reciprocal(op.Sqrt(op.Add(op.ReduceMean(op.Mul(x, x), axes, keepdims=1), node.attr("epsilon"))))
    unit, wide = op.Mul(x, inverse), cast_like(op, gy, x)
    gx = None
    if node.wants(0):
        g = op.Mul(wide, cast_like(op, scale, x))
        slope = op.ReduceMean(op.Mul(g, unit), axes, keepdims=1)
        gx = op.Mul(op.Sub(g, op.Mul(unit, slope)), inverse)
    return gx, op.Mul(wide, unit)


@gradient("LpNormalization")
def lp_normalization(op, node, gy):
    """gx = (gy - n * sum(gy y, axis)) / norm, n = sign(x) for p = 1 and y for p = 2;  0 where the norm is 0"""
    x, (y,), axis = node.inputs[0], node.outputs, node.attr("axis")
    axes = [axis % x.rank if x.rank is not None else axis]
    norm, direction = (op.ReduceL1(x, axes), op.Sign(x)) if node.attr("p") == 1 else (op.ReduceL2(x, axes), y)
    along = op.ReduceSum(op.Mul(gy, y), axes, keepdims=1)
    return op.Div(op.Sub(gy, op.Mul(direction, along)), or_infinite(op, norm))


@gradient("LRN")
def lrn(op, node, gy):
    """gx = gy d^-beta - 2 alpha beta x * mean(gy x d^(-beta-1)) over the mirrored window, d = bias + alpha mean(x^2)"""
    (x,) = node.inputs
    alpha, beta, size = node.attr("alpha"), node.attr("beta"), node.attr("size")
    before, after = (size - 1) // 2, size // 2
    squares = _channel_mean(op, op.Mul(x, x), size, before, after)
    scale = op.Add(op.Mul(squares, alpha), node.attr("bias"))
    direct = op.Mul(gy, op.Pow(scale, -beta))
    spread = _channel_mean(op, op.Div(op.Mul(direct, x), scale), size, after, before)
    return op.Sub(direct, op.Mul(op.Mul(x, spread), 2.0 * alpha * beta))


def _channel_mean(op, x, size, before, after):
    """Sum over a window of channels, divided by its full size also where it reaches over the ends"""
    shape = x.static_shape
    space = op.ReduceProd(op.Shape(x, start=2)) if shape is None else [math.prod(shape[2:])]
    planes = op.Concat(dim_of(op, x, 0), [1], dim_of(op, x, 1), space, axis=0)
    attrs = {"kernel_shape": [size, 1], "pads": [before, 0, after, 0], "count_include_pad": 1}
    return op.Reshape(op.AveragePool(op.Reshape(x, planes, allowzero=1), **attrs), op.Shape(x), allowzero=1)
