"""Spread, order statistics and counting."""

# Tests: tests/tensor/test_math.py.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor.axes import count, neighbours
from onnxgrad.tensor.common import Axes, as_dtype, axes_of, floating, known_dim, known_value, normal_axis, open_layer_for
from onnxgrad.tensor.layer import LayerHelper, is_variable, open_layer, present_operands
from onnxgrad.tensor.options import takes_options

__all__ = [
    "bincount", "cumulative_trapezoid", "histogram", "median", "nanmedian", "nanquantile", "quantile", "std", "trapezoid",
    "var",
]  # fmt: skip


@checked
@takes_options
def var(
    x: Variable,
    axis: Axes = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    name: str | None = None,
    correction: float = 1,
    out: Variable | None = None,
) -> Variable:
    """Variance over ``axis``, or of all elements; divided by the count less ``correction``.

    Args:
        x: floats of any shape; integers count as float32.
        axis: an axis, several, or None for all.
        unbiased: True for a correction of 1, False for one of 0.
        keepdim: keep the axes with size 1.
        correction: what the count of elements is reduced by, where ``unbiased`` is None.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Raises:
        ArgumentError: if ``unbiased`` and another ``correction`` than 1 are both given.

    Example:
        >>> paddle.var(static.data("x", [None, 3]), axis=1).shape
        (-1,)
    """
    if unbiased is not None and correction != 1:
        raise ArgumentError("var takes unbiased or correction, not both. Leave unbiased out.")
    layer = LayerHelper("var", x, name=name)
    less = correction if unbiased is None else float(unbiased)
    return layer.result("Identity", _variance(layer.op, x, axes_of(axis), less, keepdim))


@checked
def std(x: Variable, axis: Axes = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None) -> Variable:
    """Square root of ``var``.

    Args:
        x: floats of any shape; integers count as float32.
        axis: an axis, several, or None for all.
        unbiased: whether to divide by the count less one.
        keepdim: keep the axes with size 1.
    """
    layer = LayerHelper("std", x, name=name)
    return layer.result("Sqrt", _variance(layer.op, x, axes_of(axis), float(unbiased), keepdim))


def _variance(op: Builder, x: Variable, axes: list[int] | None, correction: float, keepdim: bool) -> Variable:
    centred = op.Sub(x, op.ReduceMean(x, axes, keepdims=1))
    if not correction:
        return op.ReduceMean(op.Mul(centred, centred), axes, keepdims=int(keepdim))
    total = op.ReduceSumSquare(centred, axes, keepdims=int(keepdim))
    many = count(op, x, axes)
    # One element has no spread, as in Paddle.
    if isinstance(many, int):
        return op.Div(total, op.constant(float(max(many - 1, 1)) if correction == 1 else max(many - correction, 0.0), x.dtype))
    floor = 1.0 if correction == 1 else 0.0
    return op.Div(total, op.Max(op.Sub(many, op.constant(correction, many.dtype)), op.constant(floor, many.dtype)))


# Order statistics ----------------------------------------------------------------------------------------------------


def ascending(op: Builder, x: Variable, axis: int, function: str) -> tuple[Any, Any, int]:
    """Sorted values, their indices, and the size of the axis"""
    size = known_dim(x, axis, function)
    values, indices = op.emit("TopK", (x, np.array([size])), {"axis": axis, "largest": 0}, outputs=2)
    return values, indices, size


def _one_axis(layer: LayerHelper, x: Variable, axis: Axes) -> tuple[Variable, list[int]]:
    """``x`` with the reduced axes merged into its last one; those axes"""
    op, rank = layer.op, x.ndim
    axes = sorted(normal_axis(a, rank, layer.name) for a in axes_of(axis) or range(rank))
    if rank == 0:
        return op.Reshape(x, np.array([1])), []
    others = [i for i in range(rank) if i not in axes]
    if axes == [rank - 1]:
        return x, axes
    x = op.Transpose(x, perm=[*others, *axes])
    if len(axes) > 1:
        x = op.Reshape(x, np.array([*[0] * len(others), -1]))
    return x, axes


def _restored(layer: LayerHelper, y: Variable, axes: list[int], keepdim: bool) -> Variable:
    return layer.result("Unsqueeze", y, axes) if keepdim and axes else layer.result("Identity", y)


@overload
def median(
    x: Variable,
    axis: int | None = None,
    keepdim: bool = False,
    mode: Literal["avg"] = "avg",
    name: str | None = None,
    *,
    out: Variable | None = None,
) -> Variable: ...
@overload
def median(x: Variable, axis: None = None, keepdim: bool = False, *, mode: Literal["min"], name: str | None = None) -> Variable: ...
@overload
def median(
    x: Variable,
    axis: int,
    keepdim: bool = False,
    *,
    mode: Literal["min"],
    name: str | None = None,
    out: tuple[Variable, Variable] | None = None,
) -> tuple[Variable, Variable]: ...
@overload
def median(x: Variable, axis: int, keepdim: bool, mode: Literal["min"], name: str | None = None) -> tuple[Variable, Variable]: ...
@checked
@takes_options
def median(
    x: Variable,
    axis: int | None = None,
    keepdim: bool = False,
    mode: Literal["avg", "min"] = "avg",
    name: str | None = None,
    *,
    out: Variable | tuple[Variable, Variable] | None = None,
) -> Variable | tuple[Variable, Variable]:
    """The middle element over ``axis``, or of all; NaN if there is one.

    Args:
        x: floats or integers of any shape.
        axis: the axis; all elements unless given.
        keepdim: keep the axis with size 1.
        mode: 'avg' for the mean of the two middle ones of an even number, 'min' for the lower of them.
        out: a Tensor that becomes the result, or one for each of two; None for new ones.

    Returns:
        The median; for 'min' with an axis, also its index.

    Raises:
        ArgumentError: for another mode.

    Example:
        >>> paddle.median(static.data("x", [None, 5]), axis=1).shape
        (-1,)
    """
    result: Variable | tuple[Variable, Variable] = _median("median", x, axis, keepdim, mode, name)
    return result


@overload
def nanmedian(
    x: Variable, axis: Axes = None, keepdim: bool = False, mode: Literal["avg"] = "avg", name: str | None = None
) -> Variable: ...
@overload
def nanmedian(
    x: Variable, axis: None = None, keepdim: bool = False, *, mode: Literal["min"], name: str | None = None
) -> Variable: ...
@overload
def nanmedian(
    x: Variable, axis: int | Sequence[int], keepdim: bool = False, *, mode: Literal["min"], name: str | None = None
) -> tuple[Variable, Variable]: ...
@overload
def nanmedian(
    x: Variable, axis: int | Sequence[int], keepdim: bool, mode: Literal["min"], name: str | None = None
) -> tuple[Variable, Variable]: ...
@checked
def nanmedian(
    x: Variable, axis: Axes = None, keepdim: bool = False, mode: Literal["avg", "min"] = "avg", name: str | None = None
) -> Variable | tuple[Variable, Variable]:
    """``median`` of the elements over ``axis`` that are not NaN; NaN if there are none, with index 0.

    Args:
        x: floats of any shape.
        axis: an axis, several, or None for all.
        keepdim: keep the axes with size 1.
        mode: 'avg' for the mean of the two middle ones of an even number, 'min' for the lower of them, with its index.

    Example:
        >>> middle, index = paddle.nanmedian(static.data("x", [None, 4]), axis=1, mode="min")
        >>> index.shape
        (-1,)
    """
    result: Variable | tuple[Variable, Variable] = _median("nanmedian", x, axis, keepdim, mode, name)
    return result


def _median(layer_name: str, x: Variable, axis: Axes, keepdim: bool, mode: str, name: str | None) -> Any:
    layer, op = open_layer(layer_name, x, name=name)
    if x.static_shape is not None and 0 in x.static_shape:
        raise ArgumentError(f"{layer_name}: {x!r} has no elements.")
    if isinstance(axis, (list, tuple)) and not axis:
        raise ArgumentError(f"{layer_name}: axis is an empty list. Give an axis, or None for all.")
    flat, axes = _one_axis(layer, floating(op, x), axis)
    last = flat.ndim - 1
    # NaN stands behind all numbers.
    values, order, size = ascending(op, flat, last, layer_name)
    low: Any
    high: Any
    if layer_name == "median":
        low, high, pick = np.array([(size - 1) // 2]), np.array([size // 2]), op.Gather
    else:
        counted = op.ReduceSum(op.Cast(op.Not(op.IsNaN(flat)), to=7), [last], keepdims=1)
        low = op.Div(op.Max(op.Sub(counted, np.array(1)), np.array(0)), np.array(2))
        high, pick = op.Div(counted, np.array(2)), op.GatherElements
    middle = pick(values, low, axis=last)
    if mode == "avg" and (layer_name == "nanmedian" or low != high):
        above = pick(values, high, axis=last)
        # Halves first, or the sum overflows; and not of two that are infinite.
        middle = op.Where(op.Equal(middle, above), middle, op.Add(op.Mul(middle, 0.5), op.Mul(above, 0.5)))
    if layer_name == "nanmedian":
        # No gradient flows where there is nothing but NaN.
        middle = op.Where(op.Equal(counted, np.array(0)), op.constant(np.nan, flat.dtype), middle)
    if layer_name == "median":
        middle = _nan_where_one_is(op, flat, middle, keepdims=1)
    medians = [middle] if mode == "avg" or not isinstance(axis, int) else [middle, pick(order, low, axis=last)]
    results = [_restored(layer, op.Squeeze(v, [last]), axes, keepdim) for v in medians]
    return results[0] if len(results) == 1 else tuple(results)


def _nan_where_one_is(op: Builder, x: Variable, result: Variable, keepdims: int) -> Variable:
    """Replace results by NaN where the last axis holds a NaN"""
    broken = op.Cast(op.ReduceMax(op.Cast(op.IsNaN(x), to=6), [x.ndim - 1], keepdims=keepdims), to=9)
    return op.Where(broken, op.constant(np.nan, x.dtype), result)


Interpolation: TypeAlias = Literal["linear", "lower", "higher", "midpoint", "nearest"]


@checked
@takes_options
def quantile(
    x: Variable,
    q: float | Sequence[float],
    axis: Axes = None,
    keepdim: bool = False,
    interpolation: Interpolation = "linear",
    name: str | None = None,
    out: Variable | None = None,
) -> Variable:
    """The value below which a fraction ``q`` of the elements over ``axis`` lies; NaN if there is one.

    Args:
        q: a number in [0, 1], or a list of them for a new first axis.
        interpolation: between two neighbours: 'linear', 'lower', 'higher', 'midpoint' or 'nearest'.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> paddle.quantile(static.data("x", [None, 5]), [0.25, 0.75], axis=1).shape
        (2, -1)
    """
    return _quantiles("quantile", x, q, axis, keepdim, interpolation)


@checked
def nanquantile(
    x: Variable, q: float | Sequence[float], axis: Axes = None, keepdim: bool = False, interpolation: Interpolation = "linear"
) -> Variable:
    """``quantile`` of the elements that are not NaN.

    Args:
        x: floats of any shape.
        q: one fraction or several, from 0 to 1.
        axis: an axis, several, or None for all.
        keepdim: keep the axes with size 1.
        interpolation: as for ``quantile``.
    """
    return _quantiles("nanquantile", x, q, axis, keepdim, interpolation)


def _quantiles(layer_name: str, x: Variable, q: Any, axis: Axes, keepdim: bool, interpolation: str) -> Variable:
    layer, op = open_layer(layer_name, x)
    flat, axes = _one_axis(layer, floating(op, x), axis)
    fractions = [float(f) for f in np.atleast_1d(q)]
    if any(not 0 <= f <= 1 for f in fractions):
        raise ArgumentError(f"{layer_name}: q must lie in [0, 1], not {q}.")
    one = _nan_quantile if layer_name == "nanquantile" else _quantile
    quantiles = [_restored(layer, one(op, flat, f, interpolation), axes, keepdim) for f in fractions]
    return quantiles[0] if np.ndim(q) == 0 else layer.result("Concat", *(op.Unsqueeze(v, [0]) for v in quantiles), axis=0)


def _quantile(op: Builder, x: Variable, q: float, interpolation: str) -> Variable:
    last = x.ndim - 1
    values, _, size = ascending(op, x, last, "quantile")
    index = q * (size - 1)
    low, high = math.floor(index), math.ceil(index)
    weights = {"linear": index - low, "lower": 0.0, "higher": float(high > low), "midpoint": 0.5 * (high > low)}
    weight = weights.get(interpolation, float(np.round(index - low)))
    value = op.Gather(values, np.array(low), axis=last)
    if weight:
        above = op.Gather(values, np.array(high), axis=last)
        value = op.Add(op.Mul(value, 1.0 - weight), op.Mul(above, weight))
    return _nan_where_one_is(op, x, value, keepdims=0)


def _nan_quantile(op: Builder, x: Variable, q: float, interpolation: str) -> Variable:
    """Sort NaN to the end; the index depends on how many others there are"""
    last = x.ndim - 1
    missing = op.IsNaN(x)
    values, _, _ = ascending(op, op.Where(missing, op.constant(np.inf, x.dtype), x), last, "nanquantile")
    present = op.ReduceSum(op.Cast(op.Not(missing), to=x.dtype.number), [last], keepdims=1)
    index = op.Mul(op.Max(op.Sub(present, 1.0), 0.0), q)
    low, high = op.Floor(index), op.Ceil(index)
    gap, part = op.Sub(high, low), op.Sub(index, low)
    weight = {"lower": op.Mul(index, 0.0), "higher": gap, "midpoint": op.Mul(gap, 0.5)}.get(interpolation, part)
    if interpolation == "nearest":
        weight = op.Round(weight)
    below = op.GatherElements(values, op.Cast(low, to=7), axis=last)
    above = op.GatherElements(values, op.Cast(high, to=7), axis=last)
    # Not where both are infinite, or the weight of an infinite one is 0.
    between = op.Add(below, op.Mul(weight, op.Sub(above, below)))
    value = op.Where(op.Or(op.Equal(weight, op.constant(0.0, x.dtype)), op.Equal(below, above)), below, between)
    value = op.Where(op.Equal(present, op.constant(0.0, x.dtype)), op.constant(np.nan, x.dtype), value)
    return op.Squeeze(value, [last])


# Counting and integrals ----------------------------------------------------------------------------------------------


@checked
def histogram(
    input: Variable,
    bins: int = 100,
    min: float = 0,
    max: float = 0,
    weight: Variable | None = None,
    density: bool = False,
    name: str | None = None,
) -> Variable:
    """How many elements fall into each of ``bins`` equal parts of [min, max] (of their own range if both are 0).

    Args:
        input: variable of any shape.
        bins: how many parts.
        min: the lower end.
        max: the upper end.
        weight: of the shape of ``input``; 1 each unless given.
        density: whether to divide by the total and the width of a part.

    Returns:
        int64 counts; float32 with ``weight`` or ``density``.
    """
    layer, op = open_layer("histogram", input, *present_operands(weight), name=name)
    if not (math.isfinite(min) and math.isfinite(max)):
        raise ArgumentTypeError(f"histogram: min and max are finite numbers, not {min} and {max}.")
    if bins < 1 or max < min:
        raise ArgumentError(f"histogram: {bins} bins from {min} to {max} hold nothing. Give at least 1, and min below max.")
    x = as_dtype(op, op.Reshape(input, np.array([-1])), "float32")
    if min == max == 0:
        low, high = op.ReduceMin(x, keepdims=0), op.ReduceMax(x, keepdims=0)
        flat = op.Equal(low, high)
        low, high = op.Where(flat, op.Sub(low, 1.0), low), op.Where(flat, op.Add(high, 1.0), high)
    else:
        low, high = op.constant(np.float32(min)), op.constant(np.float32(max))
    index = op.Floor(op.Div(op.Mul(op.Sub(x, low), float(bins)), op.Sub(high, low)))
    inside = op.And(op.GreaterOrEqual(x, low), op.LessOrEqual(x, high))
    index = op.Cast(op.Clip(index, 0.0, float(bins - 1)), to=7)
    counted = op.Cast(inside, to=1)
    if weight is not None:
        counted = op.Mul(counted, op.Reshape(as_dtype(op, weight, "float32"), np.array([-1])))
    zeros = op.Expand(np.float32(0.0), np.array([bins]))
    totals = op.ScatterElements(zeros, index, counted, axis=0, reduction="add")
    if density:
        width = op.Div(op.Sub(high, low), float(bins))
        return layer.result("Div", totals, op.Mul(op.ReduceSum(totals, keepdims=0), width))
    return layer.result("Cast", totals, to=7) if weight is None else layer.result("Identity", totals)


@checked
def bincount(x: Variable, weights: Variable | None = None, minlength: int = 0, name: str | None = None) -> Variable:
    """How often each integer from 0 up to the largest occurs in a vector; with weights, the sum of theirs.

    Args:
        x: integers [n], not negative.
        weights: floats [n]; 1 each unless given.
        minlength: the least number of counts.
    """
    layer, op = open_layer("bincount", x, *present_operands(weights), name=name)
    minlength = known_value(minlength)
    if not is_variable(minlength) and minlength < 0:
        raise ArgumentError(f"bincount: minlength is at least 0, not {minlength}.")
    if weights is not None and weights.shape != x.shape:
        raise ArgumentError(f"bincount: {weights!r} does not have the shape of {x!r}.")
    indices = as_dtype(op, x, "int64")
    if x.is_eager and 0 not in x.shape and known_value(op.ReduceMin(indices, keepdims=0)) < 0:
        raise ArgumentError("bincount counts integers from 0 on; one is negative.")
    least = op.Reshape(as_dtype(op, minlength, "int64"), np.array([1])) if is_variable(minlength) else np.array([minlength])
    size = op.Max(op.Add(op.ReduceMax(indices, keepdims=1), np.array([1])), least)
    values = op.Expand(np.array(1), op.Shape(indices)) if weights is None else weights
    zeros = op.Expand(op.constant(0, values.dtype), size)
    return layer.result("ScatterElements", zeros, indices, values, axis=0, reduction="add")


@checked
def trapezoid(
    y: Variable, x: Variable | None = None, dx: Variable | float | None = None, axis: int = -1, name: str | None = None
) -> Variable:
    """Integral of ``y`` along ``axis`` by the trapezoidal rule, at points ``x`` or at distances ``dx`` (1).

    Args:
        y: floats of one axis or more.
        x: the points, of a shape that broadcasts; at equal distances unless given.
        dx: the distance of two points.
        axis: the axis.
    """
    layer, op = open_layer_for("trapezoid", y, *present_operands(x, dx), name=name)
    return layer.result("ReduceSum", _trapezoids(op, y, x, dx, axis), [axis], keepdims=0)


@checked
def cumulative_trapezoid(
    y: Variable, x: Variable | None = None, dx: Variable | float | None = None, axis: int = -1, name: str | None = None
) -> Variable:
    """Integrals of ``y`` from the first point up to each later one along ``axis``.

    Args:
        y: floats of one axis or more.
        x: the points, of a shape that broadcasts; at equal distances unless given.
        dx: the distance of two points.
        axis: the axis.
    """
    layer, op = open_layer_for("cumulative_trapezoid", y, *present_operands(x, dx), name=name)
    return layer.result("CumSum", _trapezoids(op, y, x, dx, axis), np.array(axis % y.ndim))


def _trapezoids(op: Builder, y: Variable, x: Variable | None, dx: Any, axis: int) -> Variable:
    if x is not None and dx is not None:
        raise ArgumentError("trapezoid: give x or dx, not both.")
    later, earlier = neighbours(op, y, axis)
    means = op.Mul(op.Add(later, earlier), 0.5)
    if is_variable(dx):
        if dx.ndim > 1:
            raise ArgumentError(f"trapezoid: dx is a number, not {dx!r}.")
        return op.Mul(means, as_dtype(op, dx, means.dtype.name))
    if x is None:
        return op.Mul(means, 1.0 if dx is None else float(dx))
    if x.ndim == 1 and y.ndim > 1:
        x = op.Reshape(x, np.array([-1 if i == axis % y.ndim else 1 for i in range(y.ndim)]))
    return op.Mul(means, op.Sub(*neighbours(op, x, axis)))
