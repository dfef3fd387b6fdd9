"""Reading and replacing elements at given indices: gather, scatter, masks, and the index expressions of Python."""

# Tests: tests/tensor/test_structure.py, tests/tensor/test_repeated_indices.py.

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DType
from onnxgrad.errors import ArgumentError, ArgumentTypeError, Mismatch, OutOfRange, WrongKind
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor.axes import sizes_at
from onnxgrad.tensor.common import (
    Number,
    Shape,
    as_dtype,
    extreme_of,
    known_value,
    normal_axis,
    open_layer_for,
    scalar,
    shape_of,
    shape_operand,
)
from onnxgrad.tensor.creation import full_like
from onnxgrad.tensor.layer import LayerHelper, is_variable, open_layer, require_variables, variables_in
from onnxgrad.tensor.options import takes_options
from onnxgrad.tensor.remembered import remembers
from onnxgrad.tensor.rows import summed_at, written_at

__all__ = [
    "gather", "gather_nd", "index_add", "index_fill", "index_put", "index_sample", "index_select", "masked_fill",
    "masked_scatter", "masked_select", "put_along_axis", "scatter", "scatter_nd", "scatter_nd_add", "select_scatter",
    "shard_index", "slice_scatter", "take", "take_along_axis",
]  # fmt: skip

_END = np.iinfo(np.int64).max


@checked
@takes_options
def gather(
    x: Variable, index: Variable, axis: int | Variable | None = None, name: str | None = None, out: Variable | None = None
) -> Variable:
    """Slices of ``x`` along ``axis`` (default 0), in the order of a vector of indices.

    Args:
        x: variable of any shape.
        index: integers [n] or [n, 1], or one integer.
        axis: an int, or a variable whose value is known; 0 unless given.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> paddle.gather(static.data("x", [4, 3]), static.data("i", [2], "int64")).shape
        (2, 3)
    """
    layer = LayerHelper("gather", x, index, name=name)
    axis = 0 if axis is None else normal_axis(axis, x.ndim, "gather")
    if index.ndim == 2 and index.shape[1] == 1:
        index = layer.op.Squeeze(index, [1])
    return layer.result("Gather", x, _position(layer.op, index), axis=axis)


def _check_positions(function: str, index: Variable) -> None:
    """Refuse negative positions, which count from the end in ONNX and are errors in Paddle, where their values are known."""
    positions = known_value(index)
    if not is_variable(positions) and np.min(positions, initial=0) < 0:
        raise ArgumentError(f"{function}: an index is negative: {np.min(positions)}. Count from the front.")


def _position(op: Builder, index: Variable) -> Variable:
    """An index in one of the two types that ONNX takes."""
    return index if index.dtype.name in ("int32", "int64") else as_dtype(op, index, "int64")


@checked
@takes_options
def index_select(x: Variable, index: Variable, axis: int = 0, name: str | None = None, out: Variable | None = None) -> Variable:
    """Slices of ``x`` along ``axis``, in the order of a vector of indices.

    Args:
        x: variable of any shape.
        index: a vector of integers.
        axis: the axis.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    layer = LayerHelper("index_select", x, index, name=name)
    if index.ndim > 1:
        raise ArgumentError(f"index_select: the index has {index.ndim} axes; it is a vector. Use gather_nd or take for others.")
    return layer.result("Gather", x, _position(layer.op, index), axis=axis)


def gather_nd(x: Variable, index: Variable, name: str | None = None) -> Variable:
    """Elements or slices of ``x`` at the positions in the last axis of ``index``.

    Args:
        x: variable of any shape.
        index: integers [..., k]: each row names a place in the first k axes of ``x``.

    Example:
        >>> paddle.gather_nd(static.data("x", [4, 3, 2]), static.data("i", [5, 2], "int64")).shape
        (5, 2)
    """
    layer = LayerHelper("gather_nd", x, index, name=name)
    return layer.result("GatherND", x, as_dtype(layer.op, index, "int64"))


def index_sample(x: Variable, index: Variable) -> Variable:
    """For each row of ``x``, its elements at the columns in the same row of ``index``.

    Args:
        x: of shape [rows, columns].
        index: integers [rows, chosen].
    """
    layer = LayerHelper("index_sample", x, index)
    return layer.result("GatherElements", x, _position(layer.op, index), axis=1)


@checked
@takes_options
def take_along_axis(arr: Variable, indices: Variable, axis: int, broadcast: bool = True, out: Variable | None = None) -> Variable:
    """Elements of ``arr`` selected along ``axis``; the other axes broadcast.

    Args:
        arr: variable of any shape.
        indices: integers with as many axes as ``arr``.
        axis: the axis.
        broadcast: whether the other axes broadcast.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> paddle.take_along_axis(static.data("x", [2, 4]), static.data("i", [2, 3], "int64"), 1).shape
        (2, 3)
    """
    layer, op = open_layer("take_along_axis", arr, indices)
    axis = normal_axis(axis, arr.ndim, "take_along_axis")
    if not indices.dtype.is_integer:
        raise Mismatch(f"take_along_axis: indices are integers, not {indices!r}.")
    if arr.ndim != indices.ndim:
        raise ArgumentError(f"take_along_axis: {arr!r} and {indices!r} have different numbers of axes.")
    if broadcast:
        arr, indices = _aligned(op, arr, indices, axis)
    return layer.result("GatherElements", arr, _position(op, indices), axis=axis)


def _aligned(op: Builder, arr: Variable, indices: Variable, axis: int) -> tuple[Variable, Variable]:
    """Both repeated along all axes but one to a common shape"""
    sizes, wanted = arr.shape, indices.shape
    others = [i for i in range(arr.ndim) if i != axis]
    if all(sizes[i] == wanted[i] >= 0 for i in others):
        return arr, indices

    def target(own: Variable, other: Variable) -> Any:
        if all(n >= 0 for v in (own, other) for i, n in enumerate(v.shape) if i != axis):
            return np.array([1 if i == axis else max(own.shape[i], other.shape[i]) for i in range(own.ndim)])
        return sizes_at(op, other, others)

    return op.Expand(arr, target(arr, indices)), op.Expand(indices, target(indices, arr))


_REDUCTIONS = {"assign": "none", "add": "add", "mul": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


@checked
def put_along_axis(
    arr: Variable,
    indices: Variable,
    values: Variable | float,
    axis: int,
    reduce: Literal["assign", "add", "mul", "multiply", "mean", "amax", "amin"] = "assign",
    include_self: bool = True,
    broadcast: bool = True,
) -> Variable:
    """``arr`` with values put at indices along ``axis``.

    Args:
        arr: variable of any shape.
        indices: along ``axis``; of the same rank.
        values: a number, or a variable that broadcasts to the shape of ``indices``; without ``broadcast`` it may be larger.
        reduce: 'assign' (of several values at one index the last remains), or what happens to the element that is there: 'add',
            'mul', 'amax', 'amin'. 'mean' divides the sum.
        include_self: False to leave the former element out of the reduction.
        broadcast: repeat ``indices`` to the shape of ``arr`` along the other axes.

    Example:
        >>> x, i = static.data("x", [2, 4]), static.data("i", [2, 1], "int64")
        >>> paddle.put_along_axis(x, i, 1.0, 1).shape
        (2, 4)
    """
    layer, op = open_layer_for("put_along_axis", arr, indices, values)
    axis = normal_axis(axis, arr.ndim, "put_along_axis")
    if reduce == "mean":
        total = put_along_axis(arr, indices, values, axis, "add", include_self, broadcast)
        many = put_along_axis(full_like(arr, 1), indices, 1, axis, "add", include_self, broadcast)
        return layer.result("Div", total, many)
    positions = _position(op, indices)
    if broadcast:
        positions = op.Expand(positions, sizes_at(op, arr, [i for i in builtins.range(arr.ndim) if i != axis]))
    elif is_variable(values) and any(a > b >= 0 for a, b in zip(values.shape, positions.shape)):
        values = op.Slice(values, [0] * arr.ndim, shape_of(op, positions))
    updates = op.Expand(values if is_variable(values) else op.constant(values, arr.dtype), shape_of(op, positions))
    if reduce == "assign":
        return layer.result("ScatterElements", arr, positions, updates, axis=axis)
    if not include_self:
        first = op.Expand(op.constant(_neutral(reduce, arr.dtype), arr.dtype), shape_of(op, positions))
        arr = op.ScatterElements(arr, positions, first, axis=axis)
    return layer.result("ScatterElements", arr, positions, updates, axis=axis, reduction=_REDUCTIONS[reduce])


def _neutral(reduce: str, dtype: DType) -> Any:
    """The neutral element of a reduction"""
    if reduce in ("amax", "amin"):
        return extreme_of(dtype, reduce == "amin")
    return 1 if reduce in ("mul", "multiply") else 0


@checked
@takes_options
def scatter(
    x: Variable, index: Variable, updates: Variable, overwrite: bool = True, name: str | None = None, out: Variable | None = None
) -> Variable:
    """``x`` with rows replaced by rows of ``updates``: by the last one where an index repeats, without ``overwrite`` by their sum.

    Args:
        x: of shape [rows, ...].
        index: integers [n].
        updates: of shape [n, ...].
        overwrite: False to set the rows to zero first and add all updates up.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> x, i = static.data("x", [4, 2]), static.data("i", [3], "int64")
        >>> paddle.scatter(x, i, static.data("u", [3, 2])).shape
        (4, 2)
    """
    layer, op = open_layer("scatter", x, index, updates, name=name)
    if index.rank == 0:
        if updates.ndim != x.ndim - 1:
            raise ArgumentError(f"scatter: an index without axes takes one row, not {updates!r}. Give it {x.ndim - 1} axes.")
        index, updates = op.Unsqueeze(index, [0]), op.Unsqueeze(updates, [0])
    _check_positions("scatter", index)
    positions = op.Unsqueeze(as_dtype(op, index, "int64"), [-1]) if index.ndim == 1 else as_dtype(op, index, "int64")
    if overwrite:
        return layer.result("Identity", written_at(op, positions, updates, x))
    cleared = op.ScatterND(x, positions, op.Sub(updates, updates))
    return layer.result("Add", cleared, summed_at(op, positions, updates, shape_of(op, x)))


def scatter_nd_add(x: Variable, index: Variable, updates: Variable, name: str | None = None) -> Variable:
    """``x`` with updates added at the positions in the last axis of ``index``; repeated positions add up.

    Args:
        x: variable of any shape.
        index: integers [..., k]: each row names a place in the first k axes of ``x``.
        updates: one element or slice for each row of ``index``.
    """
    layer, op = open_layer("scatter_nd_add", x, index, updates, name=name)
    return layer.result("Add", x, summed_at(op, as_dtype(op, index, "int64"), updates, shape_of(op, x)))


@checked
def scatter_nd(index: Variable, updates: Variable, shape: Shape, name: str | None = None) -> Variable:
    """Zeros of ``shape`` with updates added at the positions in the last axis of ``index``.

    Args:
        index: integers [..., k].
        updates: one element or slice for each row of ``index``.
        shape: of the result.

    Example:
        >>> i, u = static.data("i", [3, 1], "int64"), static.data("u", [3, 2])
        >>> paddle.scatter_nd(i, u, [4, 2]).shape
        (4, 2)
    """
    layer, op = open_layer("scatter_nd", index, updates, name=name)
    return layer.result("Identity", summed_at(op, as_dtype(op, index, "int64"), updates, shape_operand(op, shape)))


@checked
@takes_options
def index_add(
    x: Variable,
    index: Variable,
    axis: int,
    value: Variable,
    alpha: float = 1,
    name: str | None = None,
    out: Variable | None = None,
) -> Variable:
    """``x`` with the slices of ``value`` added along ``axis`` at a vector of indices.

    Args:
        x: variable of any shape.
        index: a vector of integers.
        axis: the axis.
        value: of the shape of the selected slices.
        alpha: a factor of ``value``.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    layer = LayerHelper("index_add", x, index, value, name=name)
    axis = normal_axis(axis, x.ndim, "index_add")
    positions = _spread(layer.op, index, value, axis)
    if alpha != 1:
        value = layer.op.Mul(value, layer.op.constant(alpha, value.dtype))
    return layer.result("ScatterElements", x, positions, value, axis=axis, reduction="add")


@checked
def index_fill(x: Variable, index: Variable, axis: int, value: Number, name: str | None = None) -> Variable:
    """``x`` with one value in all slices along ``axis`` at a vector of indices.

    Args:
        x: variable of any shape.
        index: a vector of integers.
        axis: the axis.
        value: a number, or a variable of one element.
    """
    require_variables("index_fill", x, index)
    layer, op = open_layer_for("index_fill", x, index, value, name=name)
    axis = normal_axis(axis, x.ndim, "index_fill")
    slices = op.Gather(x, _position(op, index), axis=axis)
    updates = op.Expand(scalar(op, value, x.dtype), shape_of(op, slices))
    return layer.result("ScatterElements", x, _spread(op, index, slices, axis), updates, axis=axis)


def _spread(op: Builder, index: Variable, like: Variable, axis: int) -> Variable:
    """A vector of indices along one axis, repeated to the shape of ``like``"""
    column = op.Reshape(_position(op, index), np.array([-1 if i == axis else 1 for i in builtins.range(like.ndim)]))
    return op.Expand(column, shape_of(op, like))


@checked
def index_put(
    x: Variable, indices: Sequence[Variable], value: Variable, accumulate: bool = False, name: str | None = None
) -> Variable:
    """``x[indices] = value`` as a new variable, of several values at one place the last; with ``accumulate``, they are added.

    Args:
        x: variable of any shape.
        indices: variables of integers, one for each leading axis, that broadcast; or one of booleans.
        value: of a shape that broadcasts with the selected places.
        accumulate: whether values are added to those that are there.

    Example:
        >>> x, i = static.data("x", [4, 2]), static.data("i", [3], "int64")
        >>> paddle.index_put(x, (i,), static.data("v", [3, 2])).shape
        (4, 2)
    """
    layer, op = open_layer("index_put", x, *indices, value, name=name)
    positions, size = _positions(op, x, _without_masks(op, indices))
    if accumulate and x.dtype == "bool":
        # A sum of booleans is true where one of them is.
        result = index_put(op.Cast(x, to=6), indices, op.Cast(value, to=6), accumulate)
        return layer.result("Cast", result, to=9)
    updates = op.Expand(as_dtype(op, value, x.dtype), size)
    if not accumulate and all(item.dtype == "bool" for item in indices):
        return layer.result("ScatterND", x, positions, updates)
    if not accumulate:
        return layer.result("Identity", written_at(op, positions, updates, x))
    return layer.result("Add", x, summed_at(op, positions, updates, shape_of(op, x)))


def _without_masks(op: Builder, items: Sequence[Any]) -> list[Any]:
    """Each mask as one vector of indices per axis that it covers; other items as they are"""
    indices: list[Any] = []
    for item in items:
        if is_variable(item) and item.dtype == "bool":
            rows = op.NonZero(item)
            indices.extend(op.Gather(rows, np.array(i), axis=0) for i in builtins.range(item.ndim))
        else:
            indices.append(item)
    return indices


def _positions(op: Builder, x: Variable, indices: Sequence[Variable]) -> tuple[Any, Any]:
    """Index variables as one operand of GatherND, and the shape of what it selects"""
    wide = [as_dtype(op, item, "int64") for item in indices]
    total = wide[0] if len(wide) == 1 else op.Sum(*(op.Cast(item, to=1) for item in wide))
    common = op.Shape(total)
    columns = [op.Unsqueeze(op.Expand(item, common) if len(wide) > 1 else item, [-1]) for item in wide]
    positions = op.Concat(*columns, axis=-1) if len(columns) > 1 else columns[0]
    if len(indices) == x.ndim:
        return positions, common
    return positions, op.Concat(common, op.Shape(x, start=len(indices)), axis=0)


@checked
def take(x: Variable, index: Variable, mode: Literal["raise", "wrap", "clip"] = "raise", name: str | None = None) -> Variable:
    """Elements of the flattened ``x``, in the shape of ``index``.

    Args:
        mode: what is done with an index outside: 'raise' an error at run time, 'wrap' it around, or 'clip' it.
    """
    layer, op = open_layer("take", x, index, name=name)
    positions = as_dtype(op, index, "int64")
    if mode == "wrap":
        positions = op.Mod(positions, op.Size(x))
    if mode == "clip":
        positions = op.Clip(positions, np.array(0), op.Sub(op.Size(x), np.array(1)))
    return layer.result("Gather", op.Reshape(x, np.array([-1])), positions)


@checked
def shard_index(input: Variable, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1) -> Variable:
    """Indices as one of ``nshards`` equal parts of ``index_num`` counts them; ``ignore_value`` for indices of other parts.

    Args:
        input: integers of any shape.
        index_num: how many indices there are.
        nshards: into how many parts they are divided.
        shard_id: the number of this part, from 0.
        ignore_value: what stands for indices of other parts.
    """
    layer, op = open_layer("shard_index", input)
    if not 0 <= shard_id < nshards:
        raise ArgumentError(f"shard_index: shard_id {shard_id} must lie in 0 to {nshards - 1}.")
    size = op.constant(-(-index_num // nshards), input.dtype)
    own = op.Equal(op.Div(input, size), op.constant(shard_id, input.dtype))
    return layer.result("Where", own, op.Mod(input, size), op.constant(ignore_value, input.dtype))


# Masks ---------------------------------------------------------------------------------------------------------------


@takes_options
def masked_select(x: Variable, mask: Variable, name: str | None = None, out: Variable | None = None) -> Variable:
    """The elements of ``x`` where a mask is true, as a vector.

    Args:
        x: variable of any shape.
        mask: booleans of a shape that broadcasts with ``x``.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> paddle.masked_select(static.data("x", [2, 3]), static.data("m", [2, 3], "bool")).shape
        (-1,)
    """
    layer, op = open_layer("masked_select", x, mask, name=name)
    if x.rank == 0 and mask.rank == 0:
        x, mask = op.Reshape(x, np.array([1])), op.Reshape(mask, np.array([1]))
    x, mask = _both_expanded(op, x, mask)
    return layer.result("GatherND", x, op.Transpose(op.NonZero(mask), perm=[1, 0]))


def _both_expanded(op: Builder, x: Variable, mask: Variable) -> tuple[Variable, Variable]:
    """A tensor and a mask, repeated to their common shape"""
    if x.static_shape is not None and x.static_shape == mask.static_shape:
        return x, mask
    both = op.Shape(op.Or(mask, op.Cast(op.Expand(np.array(0), op.Shape(x)), to=9)))
    return op.Expand(x, both), op.Expand(mask, both)


@checked
def masked_fill(x: Variable, mask: Variable, value: Number, name: str | None = None) -> Variable:
    """``x`` with one value where a mask is true.

    Args:
        x: variable of any shape.
        mask: booleans of a shape that broadcasts with ``x``.
        value: a number, or a variable of one element.
    """
    layer, op = open_layer_for("masked_fill", x, mask, value, name=name)
    return layer.result("Where", mask, scalar(op, value, x.dtype), x)


def masked_scatter(x: Variable, mask: Variable, value: Variable, name: str | None = None) -> Variable:
    """``x`` with the elements where a mask is true replaced by the elements of ``value``, one after the other.

    Args:
        x: variable of any shape.
        mask: booleans of a shape that broadcasts with ``x``.
        value: of any shape, with at least as many elements as the mask selects.
    """
    layer, op = open_layer("masked_scatter", x, mask, value, name=name)
    if mask.dtype != "bool" or x.dtype != value.dtype:
        raise Mismatch(f"masked_scatter takes a bool mask and values of one element type, not {x!r}, {mask!r}, {value!r}.")
    wanted = known_value(op.ReduceSum(op.Cast(op.Expand(mask, shape_of(op, x)), to=7), keepdims=0)) if mask.is_eager else None
    if wanted is not None and value.static_shape is not None and wanted > math.prod(value.static_shape):
        raise Mismatch(f"masked_scatter: the mask asks for {wanted} values, of which there are {math.prod(value.static_shape)}.")
    x, mask = _both_expanded(op, x, mask)
    order = op.CumSum(op.Cast(op.Reshape(mask, np.array([-1])), to=7), np.array(0))
    positions = op.Reshape(op.Max(op.Sub(order, np.array(1)), np.array(0)), shape_of(op, x), allowzero=1)
    values = op.Gather(op.Reshape(as_dtype(op, value, x.dtype), np.array([-1])), positions)
    return layer.result("Where", mask, values, x)


# Replacing a part ----------------------------------------------------------------------------------------------------


@checked
def slice_scatter(
    x: Variable,
    value: Variable,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    strides: Sequence[int],
    name: str | None = None,
) -> Variable:
    """``x`` with the elements of a strided slice replaced by ``value``.

    Args:
        x: variable of any shape.
        value: of the shape of that slice.
        axes: the axes that are cut.
        starts: where the slice begins on each.
        ends: where it ends, not included.
        strides: the steps on each.
    """
    items: list[Any] = [builtins.slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, strides, strict=True):
        items[axis] = builtins.slice(start, end, step)
    return setitem(x, tuple(items), value)


@checked
def select_scatter(x: Variable, values: Variable, axis: int, index: int, name: str | None = None) -> Variable:
    """``x`` with the slice number ``index`` along ``axis`` replaced.

    Args:
        x: variable of any shape.
        values: of the shape of ``x`` without ``axis``.
        axis: the axis.
        index: the number of the slice.
    """
    items: list[Any] = [builtins.slice(None)] * x.ndim
    items[axis] = index
    return setitem(x, tuple(items), values)


@remembers
def getitem(x: Variable, item: Any) -> Variable:
    """``x[item]``: ints, slices, ``...``, None, lists or arrays or variables of integers, and masks, as in numpy.

    Example:
        >>> x = static.data("x", [None, 4, 5])
        >>> x[:, -1, ::2].shape, x[..., None, [0, 2]].shape
        ((-1, 3), (-1, 4, 1, 2))
    """
    return _Index(x, item).read()


def setitem(x: Variable, item: Any, value: Any) -> Variable:
    """A copy of ``x`` in which ``x[item]`` is replaced by ``value``, a number, a variable, or an array.

    Args:
        x: variable of any shape.
        item: what may stand in brackets behind ``x``.
        value: of a shape that broadcasts with that place.

    Example:
        >>> x = static.data("x", [4, 3])
        >>> static.setitem(x, (slice(0, 2), 1), 0.5).shape
        (4, 3)
    """
    return _Index(x, item).replace(value)


class _Index:
    """An index expression on one variable, taken apart: slices first, then indices, then new axes."""

    def __init__(self, x: Variable, item: Any) -> None:
        self.x = x
        several = isinstance(item, list) and any(isinstance(part, (builtins.slice, type(None), type(...))) for part in item)
        items = list(item) if several or isinstance(item, tuple) else [item]
        self.layer, self.op = open_layer("slice", x, *variables_in(*items), name=None if x.is_eager else f"{x.name}_slice")
        self._expand_masks_and_ellipsis([self._operand(part) for part in items])

    def _operand(self, part: Any) -> Any:
        if isinstance(part, (bool, np.bool_)):
            raise ArgumentTypeError(f"indexing {self.x.name}: a single boolean cannot be an index. Use a mask or an integer.")
        if part is None or part is Ellipsis or isinstance(part, builtins.slice) or is_variable(part):
            return part
        if isinstance(part, (int, np.integer)):
            return int(part)
        if isinstance(part, (list, tuple, range, np.ndarray)):
            array = np.asarray(part)
            if array.dtype.kind in "iub":
                return self.op.constant(array.astype(np.int64) if array.dtype.kind != "b" else array)
            if array.size == 0:
                return self.op.constant(array.astype(np.int64))
        raise WrongKind(
            f"cannot index {self.x.name} with {type(part).__name__}; use integers, slices, ..., None, integer arrays or masks."
        )

    def _expand_masks_and_ellipsis(self, items: list[Any]) -> None:
        taking = [part for part in items if part is not None and part is not Ellipsis]
        covered = sum(part.ndim if is_variable(part) and part.dtype == "bool" else 1 for part in taking)
        rank = self.x.ndim
        if covered > rank:
            raise OutOfRange(f"indexing {self.x.name}: {covered} indices for {rank} axes.")
        if sum(part is Ellipsis for part in items) > 1:
            raise ArgumentError(f"indexing {self.x.name}: only one ... is allowed.")
        fill = [builtins.slice(None)] * (rank - covered)
        at = next((i for i, part in enumerate(items) if part is Ellipsis), None)
        items = [*items, *fill] if at is None else [*items[:at], *fill, *items[at + 1 :]]
        self._check_masks(items)
        self.items = _without_masks(self.op, items)

    def _check_masks(self, items: list[Any]) -> None:
        axis = 0
        for part in items:
            if is_variable(part) and part.dtype == "bool":
                for size, covered in zip(part.shape, self.x.shape[axis:]):
                    if size >= 0 and covered >= 0 and size != covered:
                        raise OutOfRange(f"indexing {self.x.name}: a mask of {size} elements for an axis of {covered}.")
            axis += 0 if part is None else part.ndim if is_variable(part) and part.dtype == "bool" else 1

    def read(self) -> Variable:
        x, rest = self._sliced(), self.items
        if any(is_variable(part) for part in rest):
            x, rest = self._gathered(x, rest)
        squeezed = [i for i, part in enumerate(p for p in rest if p is not None) if isinstance(part, int)]
        if squeezed:
            x = self.op.Squeeze(x, squeezed)
        kept = [part for part in rest if not isinstance(part, int)]
        added = [i for i, part in enumerate(kept) if part is None]
        if added:
            x = self.op.Unsqueeze(x, added)
        return self.layer.result("Identity", x) if x is self.x else x

    def _sliced(self) -> Variable:
        """``x`` after its ints (kept as axes of size 1) and slices"""
        cuts: list[tuple[Any, Any, int, int]] = []
        for axis, part in enumerate(part for part in self.items if part is not None):
            if isinstance(part, int):
                size = self.x.shape[axis]
                if size >= 0 and not -size <= part < size:
                    raise OutOfRange(f"indexing {self.x.name}: {part} is outside axis {axis} of {size} elements.")
                cuts.append((part, part + 1 if part != -1 else _END, 1, axis))
            elif isinstance(part, builtins.slice) and not (part.start is part.stop is part.step is None):
                cuts.append((*_bounds(part), axis))
        if not cuts:
            return self.x
        starts, ends, steps, axes = (list(column) for column in zip(*cuts, strict=True))
        return self.op.Slice(self.x, shape_operand(self.op, starts), shape_operand(self.op, ends), axes, steps)

    def _gathered(self, x: Variable, rest: list[Any]) -> tuple[Variable, list[Any]]:
        """Apply the index variables. Adjacent ones leave their axes in place, separated ones in front, as in numpy."""
        op = self.op
        axes_only = [part for part in rest if part is not None]
        # Beside an array, an int is an array of one index.
        advanced = [i for i, part in enumerate(axes_only) if is_variable(part) or isinstance(part, int)]
        at_axes = [i for i, part in enumerate(rest) if is_variable(part) or isinstance(part, int)]
        if len(advanced) == 1:
            (at,) = at_axes
            y = op.Gather(x, _position(op, rest[at]), axis=advanced[0])
            return y, [*rest[:at], *[builtins.slice(None)] * rest[at].ndim, *rest[at + 1 :]]
        adjacent = at_axes[-1] - at_axes[0] + 1 == len(at_axes)
        order = advanced + [i for i in range(len(axes_only)) if i not in advanced]
        if order != list(range(len(order))):
            x = op.Transpose(x, perm=order)
        zero = op.constant(np.array(0, np.int64))
        indices = [axes_only[i] if is_variable(axes_only[i]) else zero for i in advanced]
        positions, _ = _positions(op, x, indices)
        depth = max(v.ndim for v in indices)
        y = op.GatherND(x, positions)
        first = advanced[0] if adjacent else 0
        if first:
            y = op.Transpose(y, perm=[*range(depth, depth + first), *range(depth), *range(depth + first, y.ndim)])
        left = [part for part in rest if part is None or isinstance(part, builtins.slice)]
        front = at_axes[0] if adjacent else 0
        return y, [*left[:front], *[builtins.slice(None)] * depth, *left[front:]]

    def replace(self, value: Any) -> Variable:
        """Number all elements, read the numbers at the index, and write the values there."""
        x, op = self.x, self.op
        size = shape_of(op, x)
        if isinstance(size, np.ndarray):
            numbers = op.constant(np.arange(int(size.prod())).reshape(size))
        else:
            numbers = op.Reshape(op.Range(np.array(0), op.Size(x), np.array(1)), size, allowzero=1)
        inner = _Index.__new__(_Index)
        inner.x, inner.layer, inner.op, inner.items = numbers, self.layer, op, self.items
        chosen = inner.read()
        value = as_dtype(op, value, x.dtype) if is_variable(value) else op.constant(np.asarray(value), x.dtype)
        updates = op.Expand(value, shape_of(op, chosen))
        flat, positions, written = (op.Reshape(v, np.array([-1])) for v in (x, chosen, updates))
        done = op.ScatterElements(flat, positions, written, axis=0)
        return self.layer.result("Reshape", done, size, allowzero=1)


def _bounds(part: builtins.slice) -> tuple[Any, Any, int]:
    """Start, end and step of a slice as ONNX wants them; bounds may be variables"""
    step = 1 if part.step is None else known_value(part.step)
    if is_variable(step):
        raise ArgumentTypeError("the step of a slice must be known when the program is built, not a Variable.")
    if step == 0:
        raise ArgumentError("the step of a slice cannot be 0.")
    start = part.start if part.start is not None else (0 if step > 0 else _END)
    end = part.stop if part.stop is not None else (_END if step > 0 else -_END)
    return start, end, step
