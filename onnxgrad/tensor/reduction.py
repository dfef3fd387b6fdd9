"""Sums, extremes and norms over axes, and running ones along an axis."""

# Tests: tests/tensor/test_math.py.

from __future__ import annotations

import builtins
from typing import Any, Protocol

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike, DTypeName
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor.axes import count, flat_if_none, neighbours, prefix_scan, without_axes_too
from onnxgrad.tensor.common import Axes, as_dtype, axes_of, extreme_of, index_dtype, log_add_exp, normal_axis, open_floats
from onnxgrad.tensor.layer import LayerHelper, open_layer
from onnxgrad.tensor.options import takes_options
from onnxgrad.tensor.remembered import remembers
from onnxgrad.tensor.tables import INTO_OUT, named_function

__all__ = [
    "all", "amax", "amin", "any", "count_nonzero", "cummax", "cummin", "cumprod", "cumsum", "diff", "logcumsumexp", "logsumexp",
    "max", "mean", "min", "nanmean", "nansum", "prod", "reduce_as", "sum",
]  # fmt: skip


def reduce(
    layer_name: str,
    op_type: str,
    x: Variable,
    axis: Axes,
    keepdim: bool,
    name: str | None,
    dtype: Any = None,
    of_integers: Any = None,
) -> Variable:
    """One reduction operator over ``axis``, or over all axes, in an element type: unless given, that of ``x``

    Args:
        layer_name: prefix of the names of results.
        op_type: the operator.
        x: variable of any shape.
        axis: an axis, several, or None for all.
        keepdim: keep the reduced axes with size 1.
        dtype: the element type; None for that of ``x``.
        of_integers: the one in which integers and booleans are reduced unless ``dtype`` is given.
    """
    layer, op = open_layer(layer_name, x, name=name)
    x = as_dtype(op, x, of_integers if dtype is None and not x.is_float else dtype)
    axes = axes_of(axis)
    if axes is not None and x.rank is not None:
        axes = [normal_axis(a, x.rank, layer_name) for a in axes]
        if not x.rank:
            axes = None
    if op_type == "ReduceMean" and x.dtype.is_integer:  # which onnxruntime rounds in various ways, where it takes them
        wide = as_dtype(op, x, "int64")
        quotient = op.Div(op.ReduceSum(wide, axes, keepdims=int(keepdim)), count(op, wide, axes))
        return layer.result("Cast", quotient, to=x.dtype.number)
    return layer.result(op_type, x, axes, keepdims=int(keepdim))


@remembers
@checked
@takes_options
def mean(
    x: Variable,
    axis: Axes = None,
    keepdim: bool = False,
    name: str | None = None,
    dtype: DTypeLike | None = None,
    out: Variable | None = None,
) -> Variable:
    """Mean over ``axis``, or of all elements.

    Args:
        x: variable of any shape.
        axis: an axis, several, or None for all.
        keepdim: keep the reduced axes with size 1.
        dtype: element type to compute in; unless given, that of ``x``, for booleans float32.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Returns:
        A variable without the reduced axes: of all elements, one without axes. Of integers it is rounded towards zero.

    Raises:
        ArgumentError: if ``x`` has no such axis.

    Example:
        >>> paddle.mean(static.data("x", [None, 3])).shape
        ()
        >>> paddle.mean(static.data("x", [None, 3]), axis=0, keepdim=True).shape
        (1, 3)
    """
    of_bools = "float32" if x.dtype.name == "bool" else None
    return reduce("mean", "ReduceMean", x, axis, keepdim, name, dtype, of_integers=of_bools)


@remembers
@checked
@takes_options
def sum(
    x: Variable,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    keepdim: bool = False,
    name: str | None = None,
    out: Variable | None = None,
) -> Variable:
    """Sum over ``axis``, or of all elements; integers and booleans add up in int64 unless ``dtype`` is given.

    Args:
        x: variable of any shape.
        axis: an axis, several, or None for all.
        dtype: element type to compute in.
        keepdim: keep the axes with size 1.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    return reduce("sum", "ReduceSum", x, axis, keepdim, name, dtype, of_integers="int64")


@remembers
@checked
@takes_options
def prod(
    x: Variable,
    axis: Axes = None,
    keepdim: bool = False,
    dtype: DTypeLike | None = None,
    out: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Product over ``axis``, or of all elements.

    Args:
        x: variable of any shape.
        axis: an axis, several, or None for all.
        keepdim: keep the axes with size 1.
        dtype: element type to compute in; that of ``x``, for integers int64, unless given.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    return reduce("reduce_prod", "ReduceProd", x, axis, keepdim, name, dtype, of_integers="int64")


class _Reduction(Protocol):
    __name__: str

    def __call__(
        self, x: Variable, axis: Axes = None, keepdim: bool = False, name: str | None = None, out: Variable | None = None
    ) -> Variable: ...


def _reduction(name: str, op_type: str, doc: str, of_bools: bool = False, of_integers: DTypeName | None = None) -> _Reduction:
    """A function that is one reduction operator; with ``of_bools``, of whether elements are not 0. Integers are reduced as another
    type if ``of_integers`` says so.
    """
    layer_name = name

    @remembers
    @checked
    @takes_options
    def function(
        x: Variable, axis: Axes = None, keepdim: bool = False, name: str | None = None, out: Variable | None = None
    ) -> Variable:
        if not of_bools:
            return reduce(layer_name, op_type, x, axis, keepdim, name, of_integers=of_integers)
        layer, op = open_layer(layer_name, x, name=name)
        flags = op.Cast(as_dtype(op, x, "bool"), to=6)
        return layer.result("Cast", reduce(layer_name, op_type, flags, axis, keepdim, name), to=9)

    x = "of any shape and element type" if of_bools else "variable of any shape"
    lines = f"x: {x}.", "axis: an axis, several, or None for all.", "keepdim: keep the axes with size 1.", INTO_OUT
    return named_function(function, name, doc, *lines)


max = _reduction("max", "ReduceMax", "Largest element over ``axis``; the gradient is shared evenly over ties.")
min = _reduction("min", "ReduceMin", "Smallest element over ``axis``; the gradient is shared evenly over ties.")
amax = _reduction("amax", "ReduceMax", "Largest element over ``axis``; the gradient is shared evenly over ties.")
amin = _reduction("amin", "ReduceMin", "Smallest element over ``axis``; the gradient is shared evenly over ties.")
logsumexp = _reduction("logsumexp", "ReduceLogSumExp", "log(sum(exp(x))) over ``axis``, computed stably.", of_integers="float32")
all = _reduction("all", "ReduceMin", "Whether all elements over ``axis`` are true (not 0).", of_bools=True)
any = _reduction("any", "ReduceMax", "Whether some element over ``axis`` is true (not 0).", of_bools=True)


@checked
def count_nonzero(x: Variable, axis: Axes = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """How many elements over ``axis`` are not 0, as int64.

    Args:
        x: variable of any shape.
        axis: an axis, several, or None for all.
        keepdim: keep the axes with size 1.
    """
    layer = LayerHelper("count_nonzero", x, name=name)
    return sum(layer.op.Cast(as_dtype(layer.op, x, "bool"), to=7), axis, keepdim=keepdim, name=name)


@checked
def nansum(
    x: Variable, axis: Axes = None, dtype: DTypeLike | None = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """Sum over ``axis`` of the elements that are not NaN.

    Args:
        x: floats of any shape.
        axis: an axis, several, or None for all.
        dtype: element type to compute in; that of ``x`` unless given.
        keepdim: keep the axes with size 1.
    """
    op = LayerHelper("nansum", x).op
    return sum(op.Where(op.IsNaN(x), op.constant(0.0, x.dtype), x), axis, dtype, keepdim, name)


@checked
def nanmean(x: Variable, axis: Axes = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """Mean over ``axis`` of the elements that are not NaN; NaN where there is none.

    Args:
        x: floats of any shape; integers count as float32.
        axis: an axis, several, or None for all.
        keepdim: keep the axes with size 1.
    """
    layer, op, x = open_floats("nanmean", x, name)
    counted = sum(op.Cast(op.Not(op.IsNaN(x)), to=x.dtype.number), axis, keepdim=keepdim)
    return layer.result("Div", nansum(x, axis, keepdim=keepdim), counted)


def reduce_as(x: Variable, target: Variable, name: str | None = None) -> Variable:
    """``x`` summed to the shape of ``target``, to which it would be broadcast.

    Args:
        x: variable of any shape.
        target: lends its shape, which broadcasts to that of ``x``.

    Example:
        >>> paddle.reduce_as(static.data("x", [5, 2, 3]), static.data("y", [2, 1])).shape
        (2, 1)
    """
    layer = LayerHelper("reduce_as", x, target, name=name)
    lead = x.ndim - target.ndim
    kept = [lead + i for i, size in enumerate(target.shape) if size == 1 and x.shape[lead + i] != 1]
    y = layer.op.ReduceSum(x, kept, keepdims=1) if kept else x
    return layer.result("ReduceSum", y, list(range(lead)), keepdims=0) if lead else layer.result("Identity", y)


# Running along an axis -----------------------------------------------------------------------------------------------


@checked
@without_axes_too
@takes_options
def cumsum(
    x: Variable, axis: int | None = None, dtype: DTypeLike | None = None, name: str | None = None, out: Variable | None = None
) -> Variable:
    """Sums of all elements up to each one along ``axis``; of the flattened tensor without one.

    Args:
        x: variable of any shape.
        axis: the axis; the flattened tensor unless given.
        dtype: element type to compute in; that of ``x``, for integers int64, unless given.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> paddle.cumsum(static.data("x", [None, 3]), axis=0).shape
        (-1, 3)
    """
    layer = LayerHelper("cumsum", x, name=name)
    x, axis = flat_if_none(layer, as_dtype(layer.op, x, "int64" if dtype is None and not x.is_float else dtype), axis)
    return layer.result("CumSum", x, np.array(axis))


@checked
@without_axes_too
@takes_options
def cumprod(
    x: Variable, dim: int | None = None, dtype: DTypeLike | None = None, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Products of all elements up to each one along ``dim``, which must have a known size.

    Args:
        x: variable of any shape.
        dim: the axis, of known size; the flattened tensor unless given.
        dtype: element type to compute in; that of ``x``, for integers int64, unless given.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    layer, op = open_layer("cumprod", x, name=name)
    x, axis = flat_if_none(layer, as_dtype(op, x, "int64" if dtype is None and not x.is_float else dtype), dim)
    return layer.result("Identity", prefix_scan(op, x, axis, op.Mul, 1.0, "cumprod"))


@checked
@without_axes_too
def cummax(x: Variable, axis: int | None = None, dtype: DTypeLike = "int64", name: str | None = None) -> tuple[Variable, Variable]:
    """The largest element so far along ``axis``, and the position of its last occurrence so far.

    Args:
        x: variable of any shape.
        axis: the axis; the flattened tensor unless given.
        dtype: of the positions, int32 or int64.

    Returns:
        Values and indices, of the shape of ``x`` (flattened if ``axis`` is None).

    Example:
        >>> values, indices = paddle.cummax(static.data("x", [2, 3]), axis=1)
        >>> indices.dtype
        onnxgrad.int64
    """
    return _running_extreme("cummax", "Max", "GreaterOrEqual", x, axis, dtype, name)


@checked
@without_axes_too
def cummin(x: Variable, axis: int | None = None, dtype: DTypeLike = "int64", name: str | None = None) -> tuple[Variable, Variable]:
    """The smallest element so far along ``axis``, and the position of its last occurrence so far.

    Args:
        x: variable of any shape.
        axis: the axis; the flattened tensor unless given.
        dtype: of the positions, int32 or int64.
    """
    return _running_extreme("cummin", "Min", "LessOrEqual", x, axis, dtype, name)


def _running_extreme(
    layer_name: str, op_type: str, comparison: str, x: Variable, axis: int | None, dtype: Any, name: str | None
) -> tuple[Variable, Variable]:
    layer, op = open_layer(layer_name, x, name=name)
    x, axis = flat_if_none(layer, x, axis)
    dtype = index_dtype(dtype, layer_name)
    best = prefix_scan(op, x, axis, getattr(op, op_type), extreme_of(x.dtype, op_type == "Min"), layer_name)
    size = x.shape[axis]
    position = np.arange(size).reshape([size if i == axis else 1 for i in range(x.ndim)])
    reached = op.Where(getattr(op, comparison)(x, best), op.constant(position, None), np.int64(-1))
    index = prefix_scan(op, reached, axis, op.Max, -1, layer_name)
    return layer.result("GatherElements", x, index, axis=axis), as_dtype(op, index, dtype)


@checked
@without_axes_too
def logcumsumexp(x: Variable, axis: int | None = None, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """log(cumsum(exp(x))) along ``axis``, computed stably.

    Args:
        x: floats of any shape.
        axis: the axis; the flattened tensor unless given.
        dtype: element type to compute in; that of ``x`` unless given.
    """
    layer, op = open_layer("logcumsumexp", x, name=name)
    x, axis = flat_if_none(layer, as_dtype(op, x, dtype), axis)
    neutral = float(np.finfo(x.dtype.numpy).min) / 4
    y = prefix_scan(op, x, axis, lambda now, earlier: log_add_exp(op, now, earlier), neutral, "logcumsumexp")
    return layer.result("Identity", y)


@checked
@takes_options
def diff(
    x: Variable,
    n: int = 1,
    axis: int = -1,
    prepend: Variable | None = None,
    append: Variable | None = None,
    name: str | None = None,
    out: Variable | None = None,
) -> Variable:
    """Differences of neighbours along ``axis``, taken ``n`` times.

    Args:
        x: variable of rank 1 or more.
        prepend, append: joined to ``x`` before the first difference.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> paddle.diff(static.data("x", [None, 5])).shape
        (-1, 4)
    """
    joined = [v for v in (prepend, x, append) if v is not None]
    layer, op = open_layer("diff", *joined, name=name)
    if n < 1:
        raise ArgumentError(f"diff: n must be 1 or more, not {n}.")
    y = op.Concat(*joined, axis=axis) if len(joined) > 1 else x
    subtract = op.Xor if y.dtype == "bool" else op.Sub
    for _ in builtins.range(n):
        y = subtract(*neighbours(op, y, axis))
    return layer.result("Identity", y)
