"""Joining tensors and cutting them into parts."""

# Tests: tests/tensor/test_structure.py.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor.common import Integers, Shape, integers, known_dim, known_value, normal_axis, positive, shape_operand
from onnxgrad.tensor.layer import LayerHelper, is_variable, open_layer
from onnxgrad.tensor.manipulation import atleast_1d, atleast_2d, atleast_3d, reshape
from onnxgrad.tensor.options import takes_options
from onnxgrad.tensor.remembered import remembers

__all__ = [
    "chunk", "column_stack", "concat", "crop", "dsplit", "dstack", "hsplit", "hstack", "row_stack", "slice", "split", "stack",
    "strided_slice", "tensor_split", "unbind", "unstack", "vsplit", "vstack",
]  # fmt: skip


@remembers
@checked
@takes_options
def concat(x: Sequence[Variable], axis: int | Variable = 0, name: str | None = None, out: Variable | None = None) -> Variable:
    """Several tensors joined along ``axis``.

    Args:
        x: variables whose sizes are equal on the other axes.
        axis: an int, or a variable whose value is known.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> paddle.concat([static.data("x", [None, 2]), static.data("y", [None, 3])], axis=1).shape
        (-1, 5)
    """
    items = list(x)
    layer = LayerHelper("concat", *items, name=name)
    (axis,) = integers(axis, "concat")
    return layer.result("Concat", *items, axis=axis)


@remembers
@checked
@takes_options
def stack(x: Sequence[Variable], axis: int = 0, name: str | None = None, out: Variable | None = None) -> Variable:
    """Several tensors of one shape, joined along a new axis.

    Args:
        x: variables of one shape.
        axis: the position of the new axis in the result.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> paddle.stack([static.data("x", [None, 2]), static.data("y", [None, 2])], axis=1).shape
        (-1, 2, 2)
    """
    if is_variable(x):
        raise ArgumentTypeError("stack takes a list of Variables, not one. Write [x].")
    layer = LayerHelper("stack", *x, name=name)
    return layer.result("Concat", *(layer.op.Unsqueeze(item, [axis]) for item in x), axis=axis)


@checked
def hstack(x: Sequence[Variable], name: str | None = None) -> Variable:
    """Tensors joined along the second axis, vectors along their only one.

    Args:
        x: tensors of equally many axes.
    """
    items = [atleast_1d(item) for item in x]
    return concat(items, axis=0 if items[0].ndim == 1 else 1, name=name)


@checked
def vstack(x: Sequence[Variable], name: str | None = None) -> Variable:
    """Tensors of at least two axes (a vector is a row) joined along the first.

    Args:
        x: tensors; a vector is a row.
    """
    return concat([atleast_2d(item) for item in x], axis=0, name=name)


row_stack = vstack


@checked
def dstack(x: Sequence[Variable], name: str | None = None) -> Variable:
    """Tensors of at least three axes joined along the third.

    Args:
        x: tensors; those of fewer axes get axes of size 1.
    """
    return concat([atleast_3d(item) for item in x], axis=2, name=name)


@checked
def column_stack(x: Sequence[Variable], name: str | None = None) -> Variable:
    """Tensors joined along the second axis; a vector is a column.

    Args:
        x: tensors of one or two axes.
    """
    return concat([item if item.ndim > 1 else reshape(item, [-1, 1]) for item in x], axis=1, name=name)


@checked
def split(x: Variable, num_or_sections: int | Sequence[int], axis: int | Variable = 0, name: str | None = None) -> list[Variable]:
    """Parts of ``x`` along ``axis``: a number of equal ones, or of given sizes (one may be -1).

    Args:
        x: variable of any shape.
        num_or_sections: how many equal parts, or the sizes.
        axis: an int, or a variable whose value is known.

    Raises:
        ArgumentError: if the axis is not divisible, there is no part, or a size is unknown where it is needed.

    Example:
        >>> [part.shape for part in paddle.split(static.data("x", [None, 6]), [1, -1], axis=1)]
        [(-1, 1), (-1, 5)]
    """
    layer = LayerHelper("split", x, name=name)
    num_or_sections = known_value(num_or_sections)
    if not isinstance(num_or_sections, (int, np.integer, Sequence)):
        raise ArgumentTypeError(f"split takes a number of parts or a list of their sizes, not {type(num_or_sections).__name__}.")
    axis = normal_axis(axis, x.ndim, "split")
    if isinstance(num_or_sections, (int, np.integer)):
        size, num_or_sections = x.shape[axis], positive(num_or_sections, "split", "the number of parts")
        if size >= 0 and size % num_or_sections:
            raise ArgumentError(f"split: axis {axis} has {size} elements, which {num_or_sections} does not divide.")
        if num_or_sections == 1:
            return [layer.result("Identity", x)]
        return layer.results(num_or_sections, "Split", x, axis=axis, num_outputs=num_or_sections)
    listed = [known_value(size) for size in num_or_sections]
    if any(is_variable(size) for size in listed) and -1 not in [size for size in listed if not is_variable(size)]:
        return layer.results(len(listed), "Split", x, shape_operand(layer.op, listed), axis=axis)
    sizes = integers(listed, "split")
    if not sizes or sizes.count(-1) > 1 or min(sizes) < -1:
        raise ArgumentError(f"split takes a number of parts or their sizes, of which one may be -1, not {num_or_sections!r}.")
    return _split_sizes(layer, x, sizes, axis)


def _split_sizes(layer: LayerHelper, x: Variable, sizes: list[int], axis: int) -> list[Variable]:
    if -1 in sizes:
        whole = known_dim(x, axis, "split with a part of size -1")
        sizes[sizes.index(-1)] = whole - sum(size for size in sizes if size != -1)
    if len(sizes) == 1:
        return [layer.result("Identity", x)]
    return layer.results(len(sizes), "Split", x, np.array(sizes), axis=axis)


@checked
def tensor_split(x: Variable, num_or_indices: int | Sequence[int], axis: int = 0, name: str | None = None) -> list[Variable]:
    """Parts along ``axis`` as equal as possible, or cut at indices.

    Args:
        x: variable of any shape.
        num_or_indices: into how many parts, or the indices at which to cut.
        axis: the axis.

    Raises:
        ArgumentError: if there is no part, or the size of the axis is unknown.

    Example:
        >>> [part.shape for part in paddle.tensor_split(static.data("x", [7]), 3)]
        [(3,), (2,), (2,)]
    """
    layer = LayerHelper("tensor_split", x, name=name)
    if x.ndim <= axis or not x.ndim:
        raise ArgumentError(f"tensor_split: {x!r} has no axis {axis}.")
    axis = normal_axis(axis, x.ndim, "tensor_split")
    size = known_dim(x, axis, "tensor_split")
    if isinstance(num_or_indices, (int, np.integer)):
        count = positive(num_or_indices, "tensor_split", "the number of parts")
        least, more = divmod(size, count)
        sizes = [least + 1] * more + [least] * (count - more)
    else:
        ends = [min(max(i + size if i < 0 else i, 0), size) for i in integers(num_or_indices, "tensor_split")]
        starts = [0, *ends]
        sizes = [max(stop - start, 0) for start, stop in zip(starts, [*ends, size], strict=True)]
        if sum(sizes) != size:
            return [layer.result("Slice", x, [a], [b], [axis]) for a, b in zip(starts, [*ends, size], strict=True)]
    return _split_sizes(layer, x, sizes, axis)


@checked
def hsplit(x: Variable, num_or_indices: int | Sequence[int], name: str | None = None) -> list[Variable]:
    """``tensor_split`` along the second axis, of a vector along its only one.

    Args:
        x: of one axis or more.
        num_or_indices: into how many parts, or the indices at which to cut.
    """
    return tensor_split(x, num_or_indices, 1 if x.ndim > 1 else 0, name)


@checked
def vsplit(x: Variable, num_or_indices: int | Sequence[int], name: str | None = None) -> list[Variable]:
    """``tensor_split`` along the first axis of two or more.

    Args:
        x: of two axes or more.
        num_or_indices: into how many parts, or the indices at which to cut.
    """
    if x.ndim < 2:
        raise ArgumentError(f"vsplit takes two axes or more, not {x!r}. Use tensor_split.")
    return tensor_split(x, num_or_indices, 0, name)


@checked
def dsplit(x: Variable, num_or_indices: int | Sequence[int], name: str | None = None) -> list[Variable]:
    """``tensor_split`` along the third axis.

    Args:
        x: of three axes or more.
        num_or_indices: into how many parts, or the indices at which to cut.
    """
    return tensor_split(x, num_or_indices, 2, name)


@checked
def chunk(x: Variable, chunks: int, axis: int = 0, name: str | None = None) -> list[Variable]:
    """``chunks`` equal parts along ``axis``.

    Args:
        x: variable of any shape.
        chunks: how many parts; it divides the size.
        axis: an int, or a variable whose value is known.
    """
    return split(x, chunks, axis, name)


@checked
def unstack(x: Variable, axis: int = 0, num: int | None = None, name: str | None = None) -> list[Variable]:
    """The slices along ``axis``, without it.

    Args:
        x: variable of any shape.
        axis: an axis of known size.
        num: its size; read from ``x`` unless given.

    Example:
        >>> [part.shape for part in paddle.unstack(static.data("x", [None, 2]), axis=1)]
        [(-1,), (-1,)]
    """
    layer, op = open_layer("unstack", x, name=name)
    axis = normal_axis(axis, x.ndim, "unstack")
    size = known_dim(x, axis, "unstack") if num is None else num
    if size == 1:
        return [layer.result("Squeeze", x, [axis])]
    parts = op.emit("Split", (x,), {"axis": axis, "num_outputs": size}, outputs=size)
    return [layer.result("Squeeze", part, [axis]) for part in parts]


@checked
def unbind(input: Variable, axis: int = 0) -> list[Variable]:
    """The slices along ``axis``, without it.

    Args:
        input: variable of any shape.
        axis: an axis of known size.
    """
    return unstack(input, axis)


@checked
def slice(input: Variable, axes: Sequence[int], starts: Integers, ends: Integers) -> Variable:
    """Elements from ``starts`` up to, and without, ``ends`` along ``axes``; negative numbers count from the end.

    Args:
        input: variable of any shape.
        axes: the axes that are cut.
        starts: the first index on each.
        ends: the index on each before which it ends.

    Example:
        >>> paddle.slice(static.data("x", [3, 4]), [0, 1], [0, 1], [2, 3]).shape
        (2, 2)
    """
    layer, op = open_layer("slice", input)
    return layer.result("Slice", input, shape_operand(op, starts), shape_operand(op, ends), list(axes))


@checked
def strided_slice(
    x: Variable, axes: Sequence[int], starts: Integers, ends: Integers, strides: Integers, name: str | None = None
) -> Variable:
    """``slice`` with steps, which may be negative.

    Args:
        x: variable of any shape.
        axes: the axes that are cut.
        starts: the first index on each.
        ends: the index on each before which it ends.
        strides: the step on each.
    """
    layer, op = open_layer("strided_slice", x, name=name)
    lower, upper, steps = (shape_operand(op, item) for item in (starts, ends, strides))
    return layer.result("Slice", x, lower, upper, list(axes), steps)


@checked
def crop(x: Variable, shape: Shape | None = None, offsets: Shape | None = None, name: str | None = None) -> Variable:
    """A block of size ``shape`` (-1: up to the end) that begins at ``offsets``.

    Args:
        x: variable of any shape.
        shape: the sizes; all of ``x`` from the offsets on unless given.
        offsets: where it begins on each axis; 0 unless given.

    Example:
        >>> paddle.crop(static.data("x", [3, 4]), [2, -1], [1, 1]).shape
        (2, 3)
    """
    layer, op = open_layer("crop_tensor", x, name=name)
    if isinstance(shape, (list, tuple)) and any(not is_variable(n) and (n < -1 or n == 0) for n in shape):
        raise ArgumentError(f"crop: the sizes {shape!r} are above 0, or -1.")
    if isinstance(offsets, (list, tuple, np.ndarray)) and any(not is_variable(n) and n < 0 for n in offsets):
        raise ArgumentError(f"crop: an offset is negative: {offsets!r}. Count from the front.")
    rank = x.ndim
    start = shape_operand(op, [0] * rank if offsets is None else offsets)
    size = shape_operand(op, [-1] * rank if shape is None else shape)
    if isinstance(start, np.ndarray) and isinstance(size, np.ndarray):
        ends: Any = np.where(size == -1, np.iinfo(np.int64).max, start + size)
    else:
        ends = op.Where(op.Equal(size, np.array(-1)), op.Shape(x), op.Add(start, size))
    return layer.result("Slice", x, start, ends, list(range(rank)))
