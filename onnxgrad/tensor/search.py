"""Finding, ordering and counting elements."""

# Tests: tests/tensor/test_structure.py.

from __future__ import annotations

from typing import Any, Literal, NamedTuple, overload

import numpy as np

from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike
from onnxgrad.errors import ArgumentError, IllTyped
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor.axes import dim, flat_if_none, neighbours, without_axes_too
from onnxgrad.tensor.common import as_dtype, extreme_of, index_dtype, normal_axis, open_layer_for, promote_operands
from onnxgrad.tensor.layer import LayerHelper, is_variable, open_layer
from onnxgrad.tensor.options import takes_options
from onnxgrad.tensor.remembered import remembers

__all__ = [
    "argmax", "argmin", "argsort", "bucketize", "kthvalue", "mode", "nonzero", "searchsorted", "sort", "topk", "unique",
    "unique_consecutive", "where",
]  # fmt: skip


@remembers
@checked
def argmax(
    x: Variable, axis: int | None = None, keepdim: bool = False, dtype: DTypeLike = "int64", name: str | None = None
) -> Variable:
    """Index of the largest element along ``axis``, of the flattened tensor without one; the first of equal ones.

    Args:
        x: variable of any shape.
        axis: the axis; the flattened tensor unless given.
        keepdim: keep the axis with size 1.
        dtype: of the index, int32 or int64.

    Example:
        >>> paddle.argmax(static.data("x", [None, 3]), axis=1).shape
        (-1,)
    """
    return _extreme_index("arg_max", "ArgMax", x, axis, keepdim, dtype, name)


@remembers
@checked
def argmin(
    x: Variable, axis: int | None = None, keepdim: bool = False, dtype: DTypeLike = "int64", name: str | None = None
) -> Variable:
    """Index of the smallest element along ``axis``, of the flattened tensor without one; the first of equal ones.

    Args:
        x: variable of any shape.
        axis: the axis; the flattened tensor unless given.
        keepdim: keep the axis with size 1.
        dtype: of the index, int32 or int64.
    """
    return _extreme_index("arg_min", "ArgMin", x, axis, keepdim, dtype, name)


def _extreme_index(
    layer_name: str, op_type: str, x: Variable, axis: int | None, keepdim: bool, dtype: Any, name: str | None
) -> Variable:
    layer, op = open_layer(layer_name, x, name=name)
    whole = axis is None or not x.ndim
    at = 0 if axis is None else normal_axis(axis, x.ndim, layer_name)
    operand = op.Reshape(x, np.array([-1])) if whole else x
    indices = op.emit(op_type, (operand,), {"axis": at, "keepdims": int(keepdim and not whole)})
    if keepdim and whole and x.ndim:
        indices = op.Reshape(indices, np.array([1] * x.ndim))
    return layer.result("Identity", as_dtype(op, indices, index_dtype(dtype, layer.name)))


def _sorted(layer: LayerHelper, x: Variable, axis: int, descending: bool) -> tuple[Variable, Variable]:
    axis = normal_axis(axis, x.ndim, layer.name)
    values, indices = layer.results(2, "TopK", x, dim(layer.op, x, axis), axis=axis, largest=int(descending))
    return values, indices


@checked
@without_axes_too
def sort(x: Variable, axis: int = -1, descending: bool = False, stable: bool = False, name: str | None = None) -> Variable:
    """The elements along ``axis`` in order; always stable.

    Args:
        x: variable of any shape.
        axis: the axis.
        descending: whether the largest come first.
        stable: accepted for compatibility.

    Example:
        >>> paddle.sort(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return _sorted(LayerHelper("argsort", x, name=name), x, axis, descending)[0]


@checked
@without_axes_too
def argsort(x: Variable, axis: int = -1, descending: bool = False, stable: bool = False, name: str | None = None) -> Variable:
    """The indices that put the elements along ``axis`` in order; always stable.

    Args:
        x: variable of any shape.
        axis: the axis.
        descending: whether the largest come first.
        stable: accepted for compatibility.
    """
    return _sorted(LayerHelper("argsort", x, name=name), x, axis, descending)[1]


class TopKRetType(NamedTuple):
    """The result of ``topk``, under Paddle's name.

    Attributes:
        values: the elements.
        indices: their positions.
    """

    values: Variable
    indices: Variable


@checked
@without_axes_too
@takes_options
def topk(
    x: Variable,
    k: int | Variable,
    axis: int | None = None,
    largest: bool = True,
    sorted: bool = True,
    name: str | None = None,
    out: Variable | None = None,
) -> tuple[Variable, Variable]:
    """The ``k`` largest (or smallest) elements along ``axis`` (the last), and their indices.

    Args:
        x: variable of any shape.
        k: how many, an int or an integer variable of one element.
        axis: the axis; the last unless given.
        largest: whether the largest are wanted.
        sorted: accepted: they are in order.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> values, indices = paddle.topk(static.data("x", [None, 5]), 2)
        >>> values.shape, indices.dtype
        ((-1, 2), onnxgrad.int64)
    """
    layer, op = open_layer_for("top_k_v2", x, k, name=name)
    axis = normal_axis(-1 if axis is None else axis, x.ndim, "topk")
    number = op.Reshape(as_dtype(op, k, "int64"), np.array([1])) if is_variable(k) else np.array([k])
    if not is_variable(k) and not 1 <= k <= (x.shape[axis] if x.shape[axis] >= 0 else k):
        raise ArgumentError(f"topk: k is {k}, but axis {axis} of {x!r} has fewer elements or k is not positive.")
    values, indices = layer.results(2, "TopK", x, number, axis=axis, largest=int(largest), sorted=int(sorted))
    if not x.is_eager and is_variable(k) and x.dims is not None:
        for output in (values, indices):
            output.type = TensorType(output.dtype, (*x.dims[:axis], None, *x.dims[axis + 1 :]))
    return TopKRetType(values, indices)


@checked
@without_axes_too
def kthvalue(
    x: Variable, k: int, axis: int | None = None, keepdim: bool = False, name: str | None = None
) -> tuple[Variable, Variable]:
    """The ``k``-th smallest element along ``axis`` (the last), and its index.

    Args:
        x: variable of any shape.
        k: from 1.
        axis: the axis; the last unless given.
        keepdim: keep the axis with size 1.

    Example:
        >>> values, indices = paddle.kthvalue(static.data("x", [None, 5]), 2)
        >>> values.shape
        (-1,)
    """
    layer, op = open_layer("kthvalue", x, name=name)
    axis = normal_axis(-1 if axis is None else axis, x.ndim, "kthvalue")
    values, indices = op.emit("TopK", (x, np.array([k])), {"axis": axis, "largest": 0}, outputs=2)
    return _kept_or_not(layer, [op.Slice(v, [k - 1], [k], [axis]) for v in (values, indices)], axis, keepdim)


def _kept_or_not(layer: LayerHelper, pair: list[Variable], axis: int, keepdim: bool) -> tuple[Variable, Variable]:
    first, second = (layer.result("Identity", v) if keepdim else layer.result("Squeeze", v, [axis]) for v in pair)
    return first, second


@checked
@without_axes_too
def mode(x: Variable, axis: int = -1, keepdim: bool = False, name: str | None = None) -> tuple[Variable, Variable]:
    """The most frequent element along ``axis``, the smallest of equally frequent ones, and the index of its last occurrence.

    Every element is compared with every other along the axis.

    Args:
        x: variable of any shape.
        axis: the axis.
        keepdim: keep the axis with size 1.
    """
    layer, op = open_layer("mode", x, name=name)
    axis = normal_axis(axis, x.ndim, "mode")
    same = op.Equal(op.Unsqueeze(x, [axis + 1]), op.Unsqueeze(x, [axis]))
    times = op.ReduceSum(op.Cast(same, to=7), [axis + 1], keepdims=0)
    frequent = op.Equal(times, op.ReduceMax(times, [axis], keepdims=1))
    best = op.ReduceMin(op.Where(frequent, x, op.constant(extreme_of(x.dtype, True), x.dtype)), [axis], keepdims=1)
    chosen = op.Cast(op.Equal(x, best), to=6)
    index = op.ArgMax(chosen, axis=axis, keepdims=1, select_last_index=1)
    return _kept_or_not(layer, [op.GatherElements(x, index, axis=axis), index], axis, keepdim)


@overload
def where(
    condition: Variable, x: None = None, y: None = None, name: str | None = None, out: None = None
) -> tuple[Variable, ...]: ...
@overload
def where(
    condition: Variable, x: Variable | float, y: Variable | float, name: str | None = None, out: Variable | None = None
) -> Variable: ...
@remembers
@checked
@takes_options
def where(
    condition: Variable,
    x: Variable | float | None = None,
    y: Variable | float | None = None,
    name: str | None = None,
    out: Variable | None = None,
) -> Variable | tuple[Variable, ...]:
    """``x`` where the condition holds, else ``y``; with the condition alone, the indices where it holds, one vector per axis.

    Args:
        condition: booleans of any shape.
        x: of a shape that broadcasts with the condition, or a number.
        y: likewise.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Raises:
        ArgumentError: if only one of ``x`` and ``y`` is given.

    Example:
        >>> paddle.where(static.data("c", [2, 3], "bool"), static.data("x", [2, 3]), 0.0).shape
        (2, 3)
    """
    if x is None and y is None:
        return nonzero(condition, as_tuple=True)
    if x is None or y is None:
        raise ArgumentError("where takes both x and y, or neither.")
    if condition.dtype != "bool":
        raise IllTyped(f"where: the condition is bool, not {condition.dtype.name}. Write condition != 0.")
    layer, op = open_layer_for("where", condition, x, y, name=name)
    if is_variable(x) or is_variable(y):
        a, b = promote_operands(op, x, y)
    else:
        dtype = "float32" if any(isinstance(item, float) for item in (x, y)) else "int64"
        a, b = (op.constant(np.asarray(item, dtype)) for item in (x, y))
    return layer.result("Where", condition, a, b)


@overload
def nonzero(x: Variable, as_tuple: Literal[False] = False, out: Variable | None = None) -> Variable: ...
@overload
def nonzero(x: Variable, as_tuple: Literal[True]) -> tuple[Variable, ...]: ...
@checked
@takes_options
def nonzero(x: Variable, as_tuple: bool = False, out: Variable | None = None) -> Variable | tuple[Variable, ...]:
    """Positions of the elements that are not 0, as rows of int64; with ``as_tuple``, one vector per axis.

    Args:
        x: of any shape and element type.
        as_tuple: whether each axis has a vector of its own.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> paddle.nonzero(static.data("x", [3, 4])).shape
        (-1, 2)
    """
    layer, op = open_layer("where_index", x)
    operand = op.Cast(as_dtype(op, x, "bool"), to=6) if x.dtype == "bool" else x
    if not as_tuple:
        return layer.result("Transpose", op.NonZero(operand), perm=[1, 0])
    rows = op.NonZero(operand)
    return tuple(layer.result("Gather", rows, np.array(i), axis=0) for i in range(x.ndim))


@checked
@takes_options
def searchsorted(
    sorted_sequence: Variable,
    values: Variable,
    out_int32: bool = False,
    right: bool = False,
    name: str | None = None,
    side: Literal["left", "right"] | None = None,
    out: Variable | None = None,
    sorter: Variable | None = None,
) -> Variable:
    """Find where each value would be inserted in an ordered sequence along the last axis; NaN comes after all numbers, as in numpy.

    Args:
        sorted_sequence: a vector, or one row for each row of ``values``.
        values: of any shape; a scalar gives a scalar.
        out_int32: give int32 in place of int64.
        right: insert behind equal elements in place of before them.
        side: 'right' is the same as ``right``, 'left' its opposite.
        out: a Tensor that becomes the result, of any shape; None for a new one.
        sorter: indices that sort the sequence along the last axis, as of ``argsort``, where it is not ordered itself.

    Raises:
        ArgumentError: if ``side`` is another word, or 'left' where ``right`` is True.

    Example:
        >>> paddle.searchsorted(static.data("s", [5]), static.data("v", [2, 3])).shape
        (2, 3)
    """
    if side not in (None, "left", "right") or (side == "left" and right):
        raise ArgumentError(f"searchsorted: side is 'left' or 'right', as right says, not {side!r} with right={right}.")
    right = right or side == "right"
    layer, op = open_layer("searchsorted", sorted_sequence, values, name=name)
    if sorter is not None:
        sorted_sequence = op.GatherElements(sorted_sequence, sorter, axis=-1)
    a, b = promote_operands(op, sorted_sequence, values)
    if a.ndim > 1 and (a.ndim != b.ndim or any(m != n for m, n in zip(a.shape[:-1], b.shape[:-1], strict=True) if min(m, n) >= 0)):
        raise IllTyped(f"searchsorted takes a row of numbers for each row of values, not {a!r} for {b!r}. Give one vector for all.")
    row, wanted = op.Unsqueeze(a, [-2]) if a.ndim > 1 else a, op.Unsqueeze(b, [-1])
    passed = op.LessOrEqual(row, wanted) if right else op.Less(row, wanted)
    if a.is_float:
        last = op.IsNaN(wanted)
        passed = op.Or(passed, last if right else op.And(last, op.Not(op.IsNaN(row))))
    return layer.result("ReduceSum", op.Cast(passed, to=6 if out_int32 else 7), [-1], keepdims=0)


@checked
@takes_options
def bucketize(
    x: Variable,
    sorted_sequence: Variable,
    out_int32: bool = False,
    right: bool = False,
    name: str | None = None,
    out: Variable | None = None,
) -> Variable:
    """The number of the bucket of each element, between the ordered bounds of a vector.

    Args:
        x: variable of any shape.
        sorted_sequence: a vector in ascending order.
        out_int32: whether the numbers are int32, and not int64.
        right: whether a bound belongs to the bucket above it.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Raises:
        ArgumentError: if the bounds are no vector.
    """
    if sorted_sequence.ndim != 1:
        raise ArgumentError(f"bucketize: the bounds are a vector; these have {sorted_sequence.ndim} axes. Use searchsorted.")
    return searchsorted(sorted_sequence, x, out_int32, right, name)


@overload
def unique(
    x: Variable,
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    axis: int | None = None,
    dtype: DTypeLike = "int64",
    sorted: bool = True,
    name: str | None = None,
) -> Variable: ...
@overload
def unique(
    x: Variable,
    return_index: Literal[True],
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: DTypeLike = "int64",
    sorted: bool = True,
    name: str | None = None,
) -> tuple[Variable, ...]: ...
@overload
def unique(
    x: Variable,
    return_index: bool = False,
    *,
    return_inverse: Literal[True],
    return_counts: bool = False,
    axis: int | None = None,
    dtype: DTypeLike = "int64",
    sorted: bool = True,
    name: str | None = None,
) -> tuple[Variable, ...]: ...
@overload
def unique(
    x: Variable,
    return_index: bool = False,
    return_inverse: bool = False,
    *,
    return_counts: Literal[True],
    axis: int | None = None,
    dtype: DTypeLike = "int64",
    sorted: bool = True,
    name: str | None = None,
) -> tuple[Variable, ...]: ...
@checked
def unique(
    x: Variable,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: Any = "int64",
    sorted: bool = True,
    name: str | None = None,
) -> Variable | tuple[Variable, ...]:
    """The different elements in ascending order (of the flattened tensor, or slices along ``axis``).

    Args:
        x: variable of any shape.
        return_index: whether to give the index of the first occurrence of each.
        return_inverse: whether to give the index of each former element among them.
        return_counts: whether to give how often each occurs.
        axis: the axis of the slices; the flattened tensor unless given.
        dtype: of indices and counts, int32 or int64.
        sorted: accepted for compatibility: elements are in ascending order always.

    Returns:
        The elements; then, as asked for, the index of the first occurrence of each, the index of each former element among
        them, and how often each occurs.

    Example:
        >>> values, counts = paddle.unique(static.data("x", [5]), return_counts=True)
        >>> values.shape
        (-1,)
    """
    layer = LayerHelper("unique", x, name=name)
    dtype = index_dtype(dtype, "unique")
    attrs: dict[str, Any] = {"sorted": 1}
    if axis is not None:
        attrs["axis"] = normal_axis(axis, x.ndim, "unique")
    values, first, inverse, counts = layer.results(4, "Unique", x, **attrs)
    wanted = [(return_index, first), (return_inverse, inverse), (return_counts, counts)]
    extra = [as_dtype(layer.op, v, dtype) for asked, v in wanted if asked]
    return (values, *extra) if extra else values


@overload
def unique_consecutive(
    x: Variable,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    axis: int | None = None,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> Variable: ...
@overload
def unique_consecutive(
    x: Variable,
    return_inverse: Literal[True],
    return_counts: bool = False,
    axis: int | None = None,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> tuple[Variable, ...]: ...
@overload
def unique_consecutive(
    x: Variable,
    return_inverse: bool = False,
    *,
    return_counts: Literal[True],
    axis: int | None = None,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> tuple[Variable, ...]: ...
@checked
def unique_consecutive(
    x: Variable,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: Any = "int64",
    name: str | None = None,
) -> Variable | tuple[Variable, ...]:
    """``x`` without the elements (slices along ``axis``) that equal the one before.

    Args:
        x: variable of any shape.
        return_inverse: whether to give the index of each former element among them.
        return_counts: whether to give how long each run is.
        axis: the axis of the slices; the flattened tensor unless given.
        dtype: of indices and counts, int32 or int64.
    """
    layer, op = open_layer("unique_consecutive", x, name=name)
    x, axis = flat_if_none(layer, x, axis)
    differs = op.Cast(op.Not(op.Equal(*neighbours(op, x, axis))), to=6)
    others = [i for i in range(x.ndim) if i != axis]
    if others:
        differs = op.ReduceMax(differs, others, keepdims=0)
    one_or_none = op.Min(op.Shape(x, start=axis, end=axis + 1), np.array([1]))
    begins = op.Concat(op.Expand(np.array(1, np.int32), one_or_none), differs, axis=0)
    starts = op.Squeeze(op.NonZero(begins), [0])
    outputs = [layer.result("Gather", x, starts, axis=axis)]
    if return_inverse:
        outputs.append(as_dtype(op, op.Sub(op.CumSum(op.Cast(begins, to=7), np.array(0)), np.array(1)), dtype))
    if return_counts:
        ends = op.Concat(neighbours(op, starts, 0)[0], op.Shape(x, start=axis, end=axis + 1), axis=0)
        outputs.append(as_dtype(op, op.Sub(ends, starts), dtype))
    return tuple(outputs) if len(outputs) > 1 else outputs[0]
