"""Reshaping, joining, cutting, repeating and reordering, with Paddle's argument names."""

# Tests: tests/tensor/test_structure.py.

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, overload

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike, dtype_of
from onnxgrad.errors import ArgumentError, IllTyped, Mismatch
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor.axes import dim, flat_if_none, moved_order, sizes_from
from onnxgrad.tensor.common import (
    Axes,
    Integers,
    Shape,
    as_dtype,
    axes_of,
    integers,
    known_dim,
    known_value,
    normal_axis,
    shape_of,
    shape_operand,
)
from onnxgrad.tensor.layer import LayerHelper, is_variable, open_layer, variables_in
from onnxgrad.tensor.remembered import remembers

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shape", "broadcast_tensors", "broadcast_to", "cast", "expand",
    "expand_as", "flatten", "flip", "moveaxis", "numel", "permute", "rank", "ravel", "repeat_interleave", "reshape", "reverse",
    "roll", "rot90", "shape", "squeeze", "swapaxes", "t", "tile", "transpose", "unflatten", "unfold", "unsqueeze", "view",
    "view_as",
]  # fmt: skip

# Shape ---------------------------------------------------------------------------------------------------------------


@remembers
@checked
def reshape(x: Variable, shape: Shape, name: str | None = None) -> Variable:
    """The elements of ``x`` in another shape.

    Args:
        x: variable of any shape.
        shape: ints, an integer variable, or a list that mixes both; -1 for one dimension to compute, 0 to keep the one of
            ``x`` at that index.

    Raises:
        ProgramError: if the known sizes do not fit.
        Mismatch: if those of an eager tensor do not.

    Example:
        >>> paddle.reshape(static.data("x", [None, 4, 6]), [0, -1]).shape
        (-1, 24)
    """
    layer = LayerHelper("reshape2", x, name=name)
    target = shape_operand(layer.op, shape)
    if x.is_eager and isinstance(target, np.ndarray):
        _check_elements(x, target.tolist())
    empty = x.static_shape is not None and 0 in x.static_shape
    if empty and isinstance(target, np.ndarray) and target.all() and -1 not in target:
        raise ArgumentError(f"reshape: {x!r} has no elements, and the shape {target.tolist()} has. Write 0 for a size.")
    if empty and isinstance(target, np.ndarray) and -1 not in target and not target.all():
        return layer.result("Reshape", x, target, allowzero=1)
    return layer.result("Reshape", x, target)


def _check_elements(x: Variable, target: list[int]) -> None:
    """Refuse a shape at once that an eager tensor's elements do not fill: what is recorded would fail where it is computed"""
    dims = x.shape
    sizes = [dims[at] if size == 0 and at < len(dims) else size for at, size in enumerate(target)]
    count, known = math.prod(dims), math.prod(size for size in sizes if size != -1)
    if count % known if -1 in sizes and known else count != known:
        raise Mismatch(f"reshape: the {count} elements of shape {list(dims)} do not fill {target}. Give sizes with that product.")


@checked
def view(x: Variable, shape_or_dtype: Sequence[int | Variable] | DTypeLike, name: str | None = None) -> Variable:
    """``x`` in another shape. Another element type would reinterpret bits, which is not offered.

    Args:
        x: variable of any shape.
        shape_or_dtype: the shape, as a list of ints.

    Raises:
        ArgumentError: for an element type.
    """
    if not isinstance(shape_or_dtype, (list, tuple)):
        raise ArgumentError("view: reinterpreting bits as another element type is not offered. Use cast to convert.")
    return reshape(x, shape_or_dtype, name)


def view_as(x: Variable, other: Variable, name: str | None = None) -> Variable:
    """``x`` in the shape of ``other``.

    Args:
        x: variable of any shape.
        other: lends its shape.
    """
    layer = LayerHelper("view_as", x, other, name=name)
    return layer.result("Reshape", x, shape_of(layer.op, other), allowzero=1)


@remembers
@checked
def flatten(x: Variable, start_axis: int = 0, stop_axis: int = -1, name: str | None = None) -> Variable:
    """Axes ``start_axis`` to ``stop_axis`` (inclusive) merged into one.

    Args:
        x: variable of any shape.
        start_axis: the first of the axes.
        stop_axis: the last of them.

    Raises:
        ArgumentError: if there is no such axis, or they stand in the wrong order.

    Example:
        >>> paddle.flatten(static.data("x", [None, 3, 4, 5]), 1, 2).shape
        (-1, 12, 5)
    """
    layer = LayerHelper("flatten", x, name=name)
    rank = x.ndim
    if not rank:
        return layer.result("Reshape", x, np.array([1]))
    start, stop = (normal_axis(axis, rank, "flatten") for axis in (start_axis, stop_axis))
    if start > stop:
        raise ArgumentError(f"flatten: start_axis {start_axis} stands behind stop_axis {stop_axis}.")
    if start == 1 and stop == rank - 1:
        return layer.result("Flatten", x, axis=1)
    tail, merged = x.shape[stop + 1 :], x.shape[start : stop + 1]
    if min(merged) >= 0 and sum(size < 0 for size in tail) == 1:
        return layer.result("Reshape", x, np.array([*[0] * start, math.prod(merged), *tail]))
    return layer.result("Reshape", x, sizes_from(layer.op, x, stop + 1, [*[0] * start, -1]))


@checked
def unflatten(x: Variable, axis: int, shape: Shape, name: str | None = None) -> Variable:
    """One axis cut into several.

    Args:
        x: variable of any shape.
        axis: the axis that is cut.
        shape: its new sizes, of which one may be -1.

    Example:
        >>> paddle.unflatten(static.data("x", [None, 6, 2]), 1, [3, -1]).shape
        (-1, 3, 2, 2)
    """
    layer, op = open_layer("unflatten", x, name=name)
    axis = normal_axis(axis, x.ndim, "unflatten")
    if not is_variable(shape) and not any(is_variable(item) for item in shape):
        return layer.result("Reshape", x, sizes_from(op, x, axis + 1, [*[0] * axis, *integers(shape, "unflatten")]))
    parts = [op.Shape(x, start=0, end=axis), shape_operand(op, shape), op.Shape(x, start=axis + 1)]
    return layer.result("Reshape", x, op.Concat(*parts, axis=0))


@remembers
@checked
def squeeze(x: Variable, axis: Axes = None, name: str | None = None) -> Variable:
    """Without the axes of size 1: those given (others of them stay as they are), or all.

    Args:
        x: variable of any shape.
        axis: one axis or several; None for all of size 1.

    Example:
        >>> paddle.squeeze(static.data("x", [None, 1, 3]), 1).shape
        (-1, 3)
    """
    layer = LayerHelper("squeeze2", x, name=name)
    axes = axes_of(axis)
    if axes is None:
        return layer.result("Squeeze", x)
    axes = [normal_axis(a, x.ndim, "squeeze") for a in axes] if x.ndim else []
    axes = [a for a in axes if x.shape[a] in (1, -1)]
    return layer.result("Squeeze", x, axes) if axes else layer.result("Identity", x)


@remembers
@checked
def unsqueeze(x: Variable, axis: Integers, name: str | None = None) -> Variable:
    """With axes of size 1 inserted, at their positions in the result.

    Args:
        x: variable of any shape.
        axis: positions in the result, also as an integer variable.

    Example:
        >>> paddle.unsqueeze(static.data("x", [None, 3]), [0, 2]).shape
        (1, -1, 1, 3)
    """
    layer = LayerHelper("unsqueeze2", x, name=name)
    if is_variable(axis):
        return layer.result("Unsqueeze", x, layer.op.Reshape(as_dtype(layer.op, axis, "int64"), np.array([-1])))
    # Paddle inserts one axis after the other, each counted in the tensor as it is by then.
    positions: list[int] = []
    for position in integers(axis, "unsqueeze"):
        at = normal_axis(position, x.ndim + len(positions) + 1, "unsqueeze")
        positions = [*(p + 1 if p >= at else p for p in positions), at]
    return layer.result("Unsqueeze", x, sorted(positions)) if positions else layer.result("Identity", x)


@remembers
@checked
def transpose(x: Variable, perm: Sequence[int], name: str | None = None) -> Variable:
    """Axes in the order ``perm``.

    Args:
        x: variable of any shape.
        perm: each axis once.

    Raises:
        ArgumentError: if ``perm`` does not name every axis once.

    Example:
        >>> paddle.transpose(static.data("x", [None, 3, 4]), [0, 2, 1]).shape
        (-1, 4, 3)
    """
    layer = LayerHelper("transpose", x, name=name)
    order = [normal_axis(a, x.ndim, "transpose") for a in perm]
    if sorted(order) != list(range(x.ndim)):
        raise ArgumentError(f"transpose: perm {list(perm)} must name each of the {x.ndim} axes once.")
    return layer.result("Transpose", x, perm=order)


@checked
def permute(input: Variable, *perm: int | Sequence[int], dims: Sequence[int] | None = None, name: str | None = None) -> Variable:
    """``transpose``, with the axes in a list or one by one.

    Args:
        input: variable of any shape.
        perm: each axis once, in a list or one by one.
        dims: the same list, by name.

    Example:
        >>> x = static.data("x", [2, 3, 4])
        >>> paddle.permute(x, [2, 0, 1]).shape, x.permute(2, 0, 1).shape
        ((4, 2, 3), (4, 2, 3))
    """
    order: Any = dims if dims is not None else perm[0] if len(perm) == 1 and isinstance(perm[0], (list, tuple)) else perm
    return transpose(input, list(order), name)


def ravel(input: Variable, name: str | None = None) -> Variable:
    """All elements on one axis.

    Args:
        input: variable of any shape.

    Example:
        >>> paddle.ravel(static.data("x", [2, 3])).shape
        (6,)
    """
    return flatten(input, name=name) if input.ndim else reshape(input, [1])


@remembers
def t(input: Variable, name: str | None = None) -> Variable:
    """A matrix transposed; a vector or a scalar as it is.

    Args:
        input: of at most two axes.

    Raises:
        ArgumentError: for more than two axes.
    """
    layer = LayerHelper("t", input, name=name)
    if input.ndim > 2:
        raise ArgumentError(f"t takes at most two axes, not {input!r}. Use transpose with perm.")
    return layer.result("Transpose", input, perm=[1, 0]) if input.ndim == 2 else layer.result("Identity", input)


@checked
def moveaxis(x: Variable, source: Axes, destination: Axes, name: str | None = None) -> Variable:
    """Axes moved to other positions; the others keep their order.

    Args:
        x: variable of any shape.
        source: one axis or several.
        destination: their positions in the result.

    Example:
        >>> paddle.moveaxis(static.data("x", [2, 3, 4]), 0, -1).shape
        (3, 4, 2)
    """
    layer = LayerHelper("moveaxis", x, name=name)
    pairs = integers(source, "moveaxis"), integers(destination, "moveaxis")
    if any(not -max(x.ndim, 1) <= a < max(x.ndim, 1) for a in [*pairs[0], *pairs[1]]):
        raise Mismatch(f"moveaxis: {pairs} are not all among the {x.ndim} axes.")
    sources, targets = ([a % max(x.ndim, 1) for a in axes] for axes in pairs)
    if len(set(sources)) != len(sources) or len(set(targets)) != len(targets) or len(sources) != len(targets):
        raise Mismatch("moveaxis: source and destination must name as many axes, each once.")
    return layer.result("Transpose", x, perm=moved_order(x, sources, targets))


@remembers
@checked
def swapaxes(x: Variable, axis0: int, axis1: int, name: str | None = None) -> Variable:
    """Two axes exchanged.

    Args:
        x: variable of any shape.
        axis0: one axis.
        axis1: the other.
    """
    layer = LayerHelper("swapaxes", x, name=name)
    a, b = (normal_axis(axis, x.ndim, "swapaxes") for axis in (axis0, axis1))
    return layer.result("Transpose", x, perm=moved_order(x, [a, b], [b, a]))


@overload
def atleast_1d(x: Variable, /, *, name: str | None = None) -> Variable: ...
@overload
def atleast_1d(x: Variable, y: Variable, /, *more: Variable, name: str | None = None) -> list[Variable]: ...
@checked
def atleast_1d(*inputs: Variable, name: str | None = None) -> Variable | list[Variable]:
    """Each input with at least one axis.

    Args:
        inputs: one or several variables; several give a list.
    """
    return _at_least(1, inputs, name)


@overload
def atleast_2d(x: Variable, /, *, name: str | None = None) -> Variable: ...
@overload
def atleast_2d(x: Variable, y: Variable, /, *more: Variable, name: str | None = None) -> list[Variable]: ...
@checked
def atleast_2d(*inputs: Variable, name: str | None = None) -> Variable | list[Variable]:
    """Each input with at least two axes; a vector becomes a row.

    Args:
        inputs: one or several variables; several give a list.
    """
    return _at_least(2, inputs, name)


@overload
def atleast_3d(x: Variable, /, *, name: str | None = None) -> Variable: ...
@overload
def atleast_3d(x: Variable, y: Variable, /, *more: Variable, name: str | None = None) -> list[Variable]: ...
def atleast_3d(*inputs: Variable, name: str | None = None) -> Variable | list[Variable]:
    """Each input with at least three axes; a vector becomes [1, n, 1], a matrix [m, n, 1].

    Args:
        inputs: one or several variables; several give a list.

    Example:
        >>> paddle.atleast_3d(static.data("x", [4])).shape
        (1, 4, 1)
    """
    return _at_least(3, inputs, name)


def _at_least(rank: int, inputs: Sequence[Variable], name: str | None) -> Variable | list[Variable]:
    outputs = []
    for x in inputs:
        layer = LayerHelper(f"atleast_{rank}d", x, name=name)
        added = {0: list(range(rank)), 1: [[], [0], [0, 2]][rank - 1], 2: [2]}.get(x.ndim, []) if x.ndim < rank else []
        outputs.append(layer.result("Unsqueeze", x, added) if added else layer.result("Identity", x))
    return outputs[0] if len(outputs) == 1 else outputs


def cast(x: Variable, dtype: DTypeLike) -> Variable:
    """The same numbers in another element type; the gradient has the element type of ``x``.

    Args:
        x: variable of any shape.
        dtype: element type.

    Example:
        >>> paddle.cast(static.data("x", [2]), "int64").dtype
        onnxgrad.int64
    """
    layer = LayerHelper("cast", x)
    return x.astype(dtype) if x.is_eager else layer.result("Cast", x, to=dtype_of(dtype).number)


def shape(input: Variable) -> Variable:
    """The shape as an int64 vector, known when the program runs.

    Args:
        input: variable of any shape.

    Example:
        >>> paddle.shape(static.data("x", [None, 3])).shape
        (2,)
    """
    return LayerHelper("shape", input).result("Shape", input)


def numel(x: Variable, name: str | None = None) -> Variable:
    """The number of elements, as an int64 scalar.

    Args:
        x: variable of any shape.
    """
    return LayerHelper("size", x, name=name).result("Size", x)


def rank(input: Variable) -> Variable:
    """The number of axes, as an int32 scalar.

    Args:
        input: variable of any shape.
    """
    layer = LayerHelper("rank", input)
    return layer.result("Identity", layer.op.constant(np.array(input.ndim, np.int32)))


@checked
def broadcast_shape(x_shape: Sequence[int], y_shape: Sequence[int]) -> list[int]:
    """The shape of the result of broadcasting; -1 is a size that is not known.

    Args:
        x_shape: a list of ints.
        y_shape: another.

    Example:
        >>> paddle.broadcast_shape([2, 1, 3], [1, 3, 1])
        [2, 3, 3]
    """
    sizes = []
    for x, y in zip_longest(reversed(x_shape), reversed(y_shape), fillvalue=1):
        if x != y and 1 not in (x, y) and -1 not in (x, y):
            raise ArgumentError(f"broadcast_shape: {list(x_shape)} and {list(y_shape)} do not fit each other: {x} is not {y}.")
        sizes.append(int(y if x == 1 else x if y in (1, -1) else y))
    return sizes[::-1]


# Repeating and reordering --------------------------------------------------------------------------------------------


@remembers
@checked
def expand(x: Variable, shape: Shape, name: str | None = None) -> Variable:
    """``x`` repeated to ``shape``; -1 keeps a dimension.

    Args:
        x: of a shape that broadcasts to ``shape``.
        shape: ints, an integer variable, or a list that mixes ints and variables of one element.

    Example:
        >>> paddle.expand(static.data("x", [None, 1]), [2, -1, 3]).shape
        (2, -1, 3)
    """
    layer = LayerHelper("expand", x, name=name)
    target = shape_operand(layer.op, shape)
    if isinstance(target, np.ndarray):
        for size, wanted in zip(reversed(x.shape if x.dims is not None else ()), reversed(target)):
            if size > 1 and wanted not in (-1, size):
                raise ArgumentError(f"expand: an axis of {size} elements does not become one of {wanted}; only one of 1 does.")
        target = np.where(target == -1, 1, target)
    else:
        target = layer.op.Where(layer.op.Equal(target, np.array(-1)), np.array(1), target)
    return layer.result("Expand", x, target)


broadcast_to = expand


def expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """``x`` repeated to the shape of ``y``.

    Args:
        x: of a shape that broadcasts to that of ``y``.
        y: lends its shape.
    """
    layer = LayerHelper("expand_as", x, y, name=name)
    return layer.result("Expand", x, shape_of(layer.op, y))


@checked
def broadcast_tensors(input: Sequence[Variable], name: str | None = None) -> list[Variable]:
    """All tensors repeated to their common shape.

    Args:
        input: variables whose shapes broadcast.

    Example:
        >>> a, b = paddle.broadcast_tensors([static.data("x", [2, 1]), static.data("y", [3])])
        >>> a.shape, b.shape
        ((2, 3), (2, 3))
    """
    layer, op = open_layer("broadcast_tensors", *input, name=name)
    if len({v.dtype.name for v in input}) > 1:
        raise IllTyped(f"broadcast_tensors takes tensors of one element type, not {[v.dtype.name for v in input]}. Cast them.")
    if all(v.static_shape is not None for v in input):
        target: Any = np.array(np.broadcast_shapes(*(v.static_shape for v in input)), np.int64)  # type: ignore[arg-type]
    else:
        blank = [op.Expand(np.array(0), op.Shape(v)) for v in input]
        target = op.Shape(op.Sum(*(op.Cast(v, to=1) for v in blank)))
    return [layer.result("Expand", v, target) for v in input]


@remembers
@checked
def tile(x: Variable, repeat_times: Integers, name: str | None = None) -> Variable:
    """``x`` repeated so many times along each axis; fewer numbers than axes count from the last.

    Args:
        x: variable of any shape.
        repeat_times: ints, an integer variable, or a list that mixes ints and variables of one element.

    Example:
        >>> paddle.tile(static.data("x", [2, 3]), [2, 1, 2]).shape
        (2, 2, 6)
    """
    layer, op = open_layer("tile", x, name=name)
    times = shape_operand(op, repeat_times)
    if not isinstance(times, np.ndarray):
        return layer.result("Tile", x, times)
    if len(times) > x.ndim:
        x = op.Unsqueeze(x, list(range(len(times) - x.ndim)))
    times = np.concatenate([np.ones(x.ndim - len(times), np.int64), times])
    return layer.result("Tile", x, times)


def _repeated_size(size: int, repeats: Any) -> int | None:
    """How many slices there are after each was repeated; None where that is not known"""
    if is_variable(repeats) or size < 0:
        return None
    times = np.broadcast_to(np.asarray(repeats).reshape(-1), size) if np.size(repeats) in (1, size) else None
    return None if times is None else int(times.sum())


@checked
def repeat_interleave(
    x: Variable,
    repeats: int | Variable,
    axis: int | None = None,
    name: str | None = None,
    *,
    output_size: int | None = None,
) -> Variable:
    """Each slice along ``axis`` repeated: all as often, or each by its entry of a vector.

    Args:
        x: variable of any shape.
        repeats: a number for all, or a vector of integers, one for each slice.
        axis: the axis; all elements as one vector unless given.
        output_size: the size of the axis in the result, where it is known; it is checked against known sizes.

    Raises:
        Mismatch: if the size is another one.

    Example:
        >>> paddle.repeat_interleave(static.data("x", [2, 3]), 2, axis=1).shape
        (2, 6)
    """
    layer, op = open_layer("repeat_interleave", x, *variables_in(repeats), name=name)
    x, axis = flat_if_none(layer, x, axis)
    repeats = known_value(repeats)
    size = _repeated_size(x.shape[axis], repeats)
    if output_size is not None and size is not None and size != output_size:
        raise Mismatch(f"repeat_interleave: axis {axis} has {size} slices in the result, not output_size={output_size}.")
    if isinstance(repeats, list):
        repeats = op.constant(np.array(repeats))
    if not is_variable(repeats):
        wide = op.Tile(op.Unsqueeze(x, [axis + 1]), np.array([repeats if i == axis + 1 else 1 for i in range(x.ndim + 1)]))
        return layer.result("Reshape", wide, sizes_from(op, wide, axis + 2, [*[0] * axis, -1]))
    times = as_dtype(op, repeats, "int64")
    if times.ndim == 0 or times.shape[0] == 1:
        times = op.Expand(times, op.Shape(x, start=axis, end=axis + 1))
    ends = op.CumSum(times, np.array(0))
    positions = op.Range(np.array(0), op.ReduceSum(times, keepdims=0), np.array(1))
    passed = op.Cast(op.GreaterOrEqual(op.Unsqueeze(positions, [1]), ends), to=7)
    return layer.result("Gather", x, op.ReduceSum(passed, [1], keepdims=0), axis=axis)


@remembers
@checked
def flip(x: Variable, axis: Axes, name: str | None = None) -> Variable:
    """The elements along each of the axes in the opposite order.

    Args:
        x: variable of any shape.
        axis: one axis or several.

    Example:
        >>> paddle.flip(static.data("x", [None, 3]), [0, 1]).shape
        (-1, 3)
    """
    layer = LayerHelper("flip", x, name=name)
    axes = [normal_axis(a, x.ndim, "flip") for a in integers(axis, "flip")]
    if not axes:
        return layer.result("Identity", x)
    lowest = -np.iinfo(np.int64).max
    return layer.result("Slice", x, [-1] * len(axes), [lowest] * len(axes), axes, [-1] * len(axes))


reverse = flip


@checked
def rot90(x: Variable, k: int = 1, axes: Sequence[int] = (0, 1), name: str | None = None) -> Variable:
    """A plane rotated ``k`` times by 90 degrees, from the first axis towards the second.

    Args:
        x: of two axes or more.
        k: how often; negative for the other direction.
        axes: the two axes of the plane.
    """
    first, second = (normal_axis(a, x.ndim, "rot90") for a in axes)
    if first == second:
        raise ArgumentError(f"rot90 turns a plane of two axes, not axis {first} alone.")
    turns = k % 4
    if turns == 0:
        return LayerHelper("rot90", x, name=name).result("Identity", x)
    if turns == 2:
        return flip(x, [first, second], name)
    if turns == 1:
        return swapaxes(flip(x, second), first, second, name)
    return flip(swapaxes(x, first, second), second, name)


@checked
def roll(x: Variable, shifts: Integers, axis: Axes = None, name: str | None = None) -> Variable:
    """Elements moved along axes; elements that leave enter on the other side. Without ``axis``, as one long vector.

    Args:
        x: variable of any shape.
        shifts: by how much, an int, a list or an integer variable; one for each axis.
        axis: one axis or several; None for the flattened tensor.

    Example:
        >>> paddle.roll(static.data("x", [None, 3]), 1, axis=0).shape
        (-1, 3)
    """
    layer, op = open_layer("roll", x, name=name)
    shifts, axes = known_value(shifts), axes_of(axis)
    if is_variable(shifts):
        number = known_dim(shifts, 0, "roll") if shifts.ndim else 1
        flat_shifts = op.Reshape(as_dtype(op, shifts, "int64"), np.array([-1]))
        steps: list[Any] = [op.Slice(flat_shifts, [i], [i + 1], [0]) for i in range(number)]
    else:
        steps = integers(shifts, "roll")
    if axes is None:
        flat = _rolled(op, op.Reshape(x, np.array([-1])), steps[0], 0)
        return layer.result("Reshape", flat, shape_of(op, x), allowzero=1)
    if len(steps) != len(axes):
        raise ArgumentError(f"roll: {len(steps)} shifts do not fit {len(axes)} axes.")
    for step, a in zip(steps, axes, strict=True):
        x = _rolled(op, x, step, normal_axis(a, x.ndim, "roll"))
    return layer.result("Identity", x)


def _rolled(op: Builder, x: Variable, step: Any, axis: int) -> Variable:
    size = x.shape[axis]
    if size >= 0 and not is_variable(step):
        step = step % size if size else 0
        if not step:
            return x
        front, back = op.Slice(x, [size - step], [size], [axis]), op.Slice(x, [0], [size - step], [axis])
        return op.Concat(front, back, axis=axis)
    length = dim(op, x, axis)
    positions = op.Range(np.array(0), op.Squeeze(length, [0]), np.array(1))
    moved = op.Sub(positions, step if is_variable(step) else np.array(step))
    return op.Gather(x, op.Mod(moved, op.Max(length, np.array([1]))), axis=axis)


@checked
def unfold(x: Variable, axis: int, size: int, step: int, name: str | None = None) -> Variable:
    """Windows of ``size`` elements every ``step`` along an axis of known size; the window is a new last axis.

    Args:
        x: variable of any shape.
        axis: an axis of known size.
        size: elements in a window.
        step: the distance of two windows.

    Example:
        >>> paddle.unfold(static.data("x", [None, 7]), 1, 3, 2).shape
        (-1, 3, 3)
    """
    layer = LayerHelper("unfold_axis", x, name=name)
    axis = normal_axis(axis, x.ndim, "unfold")
    starts = np.arange(0, known_dim(x, axis, "unfold") - size + 1, step)
    windows = layer.op.Gather(x, starts[:, None] + np.arange(size), axis=axis)
    if axis == x.ndim - 1:
        return layer.result("Identity", windows)
    order = [i for i in range(x.ndim + 1) if i != axis + 1] + [axis + 1]
    return layer.result("Transpose", windows, perm=order)
