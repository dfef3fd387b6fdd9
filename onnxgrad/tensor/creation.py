"""Making tensors: constants, sequences, triangles and diagonals."""

# Tests: tests/tensor/test_structure.py.

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DType, DTypeLike, dtype_of
from onnxgrad.errors import ArgumentError, ArgumentTypeError, Mismatch
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor.axes import dim, moved_order
from onnxgrad.tensor.common import Number, Shape, float_dtype, index_dtype, normal_axis, scalar, shape_of, shape_operand, sizes_of
from onnxgrad.tensor.layer import LayerHelper, is_variable, open_layer, require_variables, variables_in
from onnxgrad.tensor.options import Device, takes_options, written

__all__ = [
    "arange", "assign", "block_diag", "cartesian_prod", "clone", "combinations", "diag", "diag_embed", "diagflat", "diagonal",
    "diagonal_scatter", "empty", "empty_like", "eye", "full", "full_like", "linspace", "logspace", "meshgrid", "ones",
    "ones_like", "trace", "tril", "tril_indices", "triu", "triu_indices", "vander", "zeros", "zeros_like",
]  # fmt: skip


@checked
@takes_options
def full(
    shape: Shape,
    fill_value: Number,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    out: Variable | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Variable:
    """A tensor of one value.

    Args:
        shape: ints, an integer variable, or a list that mixes ints and variables of one element.
        fill_value: a number, or a variable of one element.
        dtype: element type; by default that of the variable, bool of True and False, else the default floating-point type.
        out: a Tensor that becomes the result, of any shape; None for a new one.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: False; memory of the CPU is not pinned.

    Example:
        >>> paddle.full([2, 3], 0.5).shape
        [2, 3]
    """
    return _filled("fill_constant", shape, fill_value, dtype, name)


@checked
@takes_options
def zeros(
    shape: Shape,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    out: Variable | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Variable:
    """A tensor of zeros, of the default floating-point type unless a dtype is given.

    Args:
        shape: as for ``full``.
        dtype: element type; the default floating-point type unless given.
        out: a Tensor that becomes the result, of any shape; None for a new one.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: False; memory of the CPU is not pinned.
    """
    return _filled("fill_constant", shape, 0, dtype, name)


@checked
@takes_options
def ones(
    shape: Shape,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    out: Variable | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Variable:
    """A tensor of ones, of the default floating-point type unless a dtype is given.

    Args:
        shape: as for ``full``.
        dtype: element type; the default floating-point type unless given.
        out: a Tensor that becomes the result, of any shape; None for a new one.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: False; memory of the CPU is not pinned.
    """
    return _filled("fill_constant", shape, 1, dtype, name)


@checked
@takes_options
def empty(
    shape: Shape,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    out: Variable | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Variable:
    """A tensor whose values do not matter: zeros.

    Args:
        shape: as for ``full``.
        dtype: element type; the default floating-point type unless given.
        out: a Tensor that becomes the result, of any shape; None for a new one.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: False; memory of the CPU is not pinned.
    """
    return _filled("empty", shape, 0, dtype, name)


def _filled(layer_name: str, shape: Any, value: Any, dtype: Any, name: str | None) -> Variable:
    layer = LayerHelper(layer_name, *variables_in(*sizes_of(layer_name, shape), value), name=name)
    if dtype is None and isinstance(value, (bool, np.bool_)):
        dtype = "bool"
    element = value.dtype if dtype is None and is_variable(value) else float_dtype(dtype)
    return layer.result("Expand", scalar(layer.op, value, element), shape_operand(layer.op, shape))


@checked
@takes_options
def full_like(
    x: Variable,
    fill_value: Number,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Variable:
    """A tensor of one value, of the shape of ``x``, and of its dtype unless one is given.

    Args:
        x: variable of any shape.
        fill_value: a number, or a variable of one element.
        dtype: element type; that of ``x`` unless given.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: False; memory of the CPU is not pinned.
    """
    layer = LayerHelper("full_like", x, *variables_in(fill_value), name=name)
    element: DType = x.dtype if dtype is None else dtype_of(dtype)
    return layer.result("Expand", scalar(layer.op, fill_value, element), shape_of(layer.op, x))


@checked
@takes_options
def zeros_like(
    x: Variable,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Variable:
    """Zeros of the shape of ``x``.

    Args:
        x: variable of any shape.
        dtype: element type; that of ``x`` unless given.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: False; memory of the CPU is not pinned.
    """
    return full_like(x, 0, dtype, name)


@checked
@takes_options
def ones_like(
    x: Variable,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Variable:
    """Ones of the shape of ``x``.

    Args:
        x: variable of any shape.
        dtype: element type; that of ``x`` unless given.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: False; memory of the CPU is not pinned.
    """
    return full_like(x, 1, dtype, name)


@checked
@takes_options
def empty_like(
    x: Variable,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Variable:
    """A tensor of the shape of ``x`` whose values do not matter: zeros.

    Args:
        x: variable of any shape.
        dtype: element type; that of ``x`` unless given.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: False; memory of the CPU is not pinned.
    """
    return full_like(x, 0, dtype, name)


@checked
@takes_options
def arange(
    start: Number = 0,
    end: Number | None = None,
    step: Number = 1,
    dtype: DTypeLike | None = None,
    out: Variable | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    name: str | None = None,
) -> Variable:
    """Numbers from ``start`` up to, and without, ``end``.

    Args:
        start, end, step: numbers or variables of one element; with one argument, it is the end.
        dtype: element type; by default int64 if all three are integers, else the default floating-point type.
        out: a Tensor that becomes the result, of any shape; None for a new one.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: False; memory of the CPU is not pinned.

    Example:
        >>> paddle.arange(1, 7, 2).shape
        [3]
    """
    if end is None:
        start, end = 0, start
    bounds = [start, end, step]
    if dtype is None:
        whole = all(item.dtype.is_integer if is_variable(item) else isinstance(item, (int, np.integer)) for item in bounds)
        dtype = "int64" if whole else None
    element = float_dtype(dtype)
    layer = LayerHelper("range", *variables_in(*bounds), name=name)
    if element.bits < 32 and element.is_float:  # Range has no such type
        wide = layer.op.Range(*(scalar(layer.op, item, dtype_of("float32")) for item in bounds))
        return layer.result("Cast", wide, to=element.number)
    return layer.result("Range", *(scalar(layer.op, item, element) for item in bounds))


@checked
@takes_options
def linspace(
    start: Number,
    stop: Number,
    num: int | np.integer[Any] | Variable,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    out: Variable | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Variable:
    """``num`` numbers at equal distances from ``start`` to ``stop``, both included.

    Args:
        start: a number, or a variable of one element.
        stop: likewise.
        num: how many, an int or an integer variable of one element.
        dtype: a floating-point type (the default one unless given), int32 or int64.
        out: a Tensor that becomes the result, of any shape; None for a new one.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.

    Example:
        >>> paddle.linspace(0, 1, 5).shape
        [5]
    """
    operands: list[Any] = [start, stop, num]
    layer, op = open_layer("linspace", *variables_in(*operands), name=name)
    element = float_dtype(dtype, "linspace", or_integers=True)
    if not variables_in(*operands):
        return layer.result("Identity", op.constant(np.linspace(*operands), element))
    first, last = (scalar(op, item, dtype_of("float32")) for item in (start, stop))
    steps = scalar(op, num, dtype_of("int64"))
    numbers = op.Cast(op.Range(np.array(0), steps, np.array(1)), to=1)
    gaps = op.Cast(op.Max(op.Sub(steps, np.array(1)), np.array(1)), to=1)
    line = op.Add(first, op.Mul(numbers, op.Div(op.Sub(last, first), gaps)))
    return layer.result("Cast", line, to=element.number)


@checked
def logspace(
    start: Number,
    stop: Number,
    num: int | np.integer[Any] | Variable,
    base: float = 10.0,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Variable:
    """``base`` to the powers of ``linspace(start, stop, num)``.

    Args:
        start: the first exponent, a number or a variable of one element.
        stop: the last exponent.
        num: how many, an int or an integer variable of one element.
        base: the base.
        dtype: a floating-point type (the default one unless given), int32 or int64.
    """
    exponents = linspace(start, stop, num)
    layer, op = open_layer("logspace", exponents, name=name)
    powers = op.Pow(scalar(op, base, dtype_of("float32")), op.Cast(exponents, to=1))
    return layer.result("Cast", powers, to=float_dtype(dtype, "logspace", or_integers=True).number)


@checked
@takes_options
def eye(
    num_rows: int,
    num_columns: int | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    out: Variable | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Variable:
    """Ones on the diagonal of a matrix, zeros elsewhere.

    Args:
        num_rows: how many rows.
        num_columns: how many columns; as many as rows unless given.
        dtype: element type; the default floating-point type unless given.
        out: a Tensor that becomes the result, of any shape; None for a new one.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: False; memory of the CPU is not pinned.

    Example:
        >>> paddle.eye(2, 3).shape
        [2, 3]
    """
    layer = LayerHelper("eye", name=name)
    columns = num_rows if num_columns is None else num_columns
    if min(num_rows, columns) < 0:
        raise ArgumentTypeError(f"eye: rows and columns are not negative, unlike {num_rows} and {columns}.")
    square, element = layer.op.Expand(np.float32(0.0), np.array([num_rows, columns])), float_dtype(dtype)
    if element.name == "bfloat16":  # EyeLike has no such type
        return layer.result("Cast", layer.op.EyeLike(square), to=element.number)
    return layer.result("EyeLike", square, dtype=element.number)


@checked
def assign(x: Variable | ArrayLike, output: Variable | None = None) -> Variable:
    """A copy of a variable, or the values of a list or an array as a variable.

    Args:
        x: a variable, a list or an array; floats of Python become float32.
        output: a tensor that becomes the copy; None for a new one. In a program, what is appended from then on reads its new value,
            and a persistable one keeps it after the run.

    Raises:
        NotOffered: if ``output`` is a variable of a program from outside the branch or loop that is being written.
        ArgumentError: if ``output`` is persistable and of another type or shape.

    Example:
        >>> paddle.assign([[1.0, 2.0]]).shape
        [1, 2]
    """
    if output is not None:
        return cast("Variable", written("assign", output, assign(x)))
    if is_variable(x):
        return LayerHelper("assign", x).result("Identity", x)
    array = np.asarray(x)
    if array.dtype == np.float64 and not isinstance(x, (np.ndarray, np.generic)):
        array = array.astype(np.float32)
    layer = LayerHelper("assign")
    return layer.result("Identity", layer.op.constant(array))


def clone(x: Variable, name: str | None = None) -> Variable:
    """A copy, through which gradients flow.

    Args:
        x: variable of any shape.
    """
    return LayerHelper("clone", x, name=name).result("Identity", x)


def meshgrid(*args: Variable | Sequence[Variable], name: str | None = None) -> list[Variable]:
    """Each vector spread over a grid with one axis per vector.

    Args:
        args: vectors or scalars, one by one or in one list.

    Example:
        >>> a, b = paddle.meshgrid(static.data("x", [2]), static.data("y", [3]))
        >>> a.shape, b.shape
        ((2, 3), (2, 3))
    """
    vectors: Any = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    (layer, op), rank = open_layer("meshgrid", *vectors, name=name), len(vectors)
    if all(v.static_shape is not None for v in vectors):
        shape: Any = np.array([v.static_shape[0] if v.static_shape else 1 for v in vectors])
    else:
        shape = op.Concat(*(op.Reshape(op.Size(v), np.array([1])) for v in vectors), axis=0)
    spread = [op.Reshape(v, np.array([-1 if j == i else 1 for j in range(rank)])) for i, v in enumerate(vectors)]
    return [layer.result("Expand", v, shape) for v in spread]


@checked
def cartesian_prod(x: Sequence[Variable], name: str | None = None) -> Variable:
    """All tuples of one element of each vector, as rows; a single vector stays as it is.

    Args:
        x: vectors.
    """
    layer = LayerHelper("cartesian_prod", *x, name=name)
    if len(x) == 1:
        return layer.result("Identity", x[0])
    columns = [layer.op.Reshape(grid, np.array([-1, 1])) for grid in meshgrid(*x)]
    return layer.result("Concat", *columns, axis=1)


@checked
def combinations(x: Variable, r: int = 2, with_replacement: bool = False, name: str | None = None) -> Variable:
    """All choices of ``r`` elements of a vector of known size, as rows.

    Args:
        x: a vector of known size.
        r: how many elements a choice has, from 0.
        with_replacement: whether an element may be chosen again.

    Example:
        >>> paddle.combinations(static.data("x", [4])).shape
        (6, 2)
    """
    layer = LayerHelper("combinations", x, name=name)
    size = x.shape[0]
    if x.ndim != 1 or size < 0:
        raise ArgumentError(f"combinations takes a vector of known size, not {x!r}.")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    if not isinstance(r, int) or r < 0:
        raise ArgumentError(f"combinations: r is an int from 0 on, not {r!r}.")
    rows = np.array(list(choose(range(size), r)), np.int64).reshape((-1, r) if r else (0,))
    return layer.result("Gather", x, rows)


@checked
def vander(x: Variable, n: int | None = None, increasing: bool = False, name: str | None = None) -> Variable:
    """Powers of a vector as columns, from the highest to 0, or upwards with ``increasing``.

    Args:
        x: a vector.
        n: how many columns; the length of the vector unless given.
        increasing: whether powers begin with 0.

    Example:
        >>> paddle.vander(static.data("x", [None]), 3).shape
        (-1, 3)
    """
    layer = LayerHelper("vander", x, name=name)
    size = x.shape[0] if n is None else n
    if size < 0:
        raise ArgumentError("vander: give n, or a vector of known size.")
    powers = np.arange(size) if increasing else np.arange(size)[::-1]
    return layer.result("Pow", layer.op.Unsqueeze(x, [1]), layer.op.constant(powers.copy(), x.dtype))


# Triangles and diagonals ---------------------------------------------------------------------------------------------


@checked
@takes_options
def tril(x: Variable, diagonal: int = 0, name: str | None = None, out: Variable | None = None) -> Variable:
    """The lower triangle of the last two axes, up to the ``diagonal``-th diagonal; zeros above.

    Args:
        x: of shape [..., rows, columns].
        diagonal: the last diagonal that is kept: 0 is the main one, negative ones lie below it.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> paddle.tril(static.data("x", [None, 4, 4])).shape
        (-1, 4, 4)
    """
    return _cut("tril", x, diagonal, 0, name)


@checked
@takes_options
def triu(x: Variable, diagonal: int = 0, name: str | None = None, out: Variable | None = None) -> Variable:
    """The upper triangle of the last two axes, from the ``diagonal``-th diagonal on; zeros below.

    Args:
        x: of shape [..., rows, columns].
        diagonal: the first diagonal that is kept: 0 is the main one, negative ones lie below it.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    return _cut("triu", x, diagonal, 1, name)


def _cut(layer_name: str, x: Variable, diagonal: Any, upper: int, name: str | None) -> Variable:
    require_variables(layer_name, x)
    if x.dims is not None and x.ndim < 2:
        raise ArgumentError(f"{layer_name} takes two axes or more, not {x!r}.")
    return LayerHelper(layer_name, x, name=name).result("Trilu", x, np.array(diagonal), upper=upper)


@checked
def tril_indices(row: int, col: int | None = None, offset: int = 0, dtype: DTypeLike = "int64") -> Variable:
    """Row and column numbers of a lower triangle, as two rows.

    Args:
        row: how many rows.
        col: how many columns; as many as rows unless given.
        offset: the last diagonal of the triangle; 0 is the main one.
        dtype: int32 or int64.
    """
    return _triangle("tril_indices", np.tril_indices, row, row if col is None else col, offset, dtype)


@checked
def triu_indices(row: int, col: int | None = None, offset: int = 0, dtype: DTypeLike = "int64") -> Variable:
    """Row and column numbers of an upper triangle, as two rows.

    Args:
        row: how many rows.
        col: how many columns; as many as rows unless given.
        offset: the first diagonal of the triangle; 0 is the main one.
        dtype: int32 or int64.
    """
    return _triangle("triu_indices", np.triu_indices, row, row if col is None else col, offset, dtype)


def _triangle(layer_name: str, indices: Any, row: Any, col: Any, offset: Any, dtype: Any) -> Variable:
    if not all(isinstance(number, (int, np.integer)) for number in (row, col, offset)) or min(row, col) < 0:
        raise ArgumentTypeError(f"{layer_name}: row, col and offset are ints, the first two from 0, not {(row, col, offset)}.")
    layer = LayerHelper(layer_name)
    return layer.result("Identity", layer.op.constant(np.array(indices(row, offset, col)), index_dtype(dtype, layer_name)))


@checked
def diagonal(x: Variable, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None) -> Variable:
    """The elements on a diagonal of two axes, as the last axis.

    Args:
        x: of two axes or more.
        offset: the number of the diagonal: above the main one if positive, below it if negative.
        axis1: the first of the two axes.
        axis2: the second of the two axes.

    Example:
        >>> paddle.diagonal(static.data("x", [2, 3, 4]), offset=1).shape
        (4, 2)
    """
    (layer, op), rank = open_layer("diagonal", x, name=name), x.ndim
    axis1, axis2 = (normal_axis(axis, rank, "diagonal") for axis in (axis1, axis2))
    others = [i for i in range(rank) if i not in (axis1, axis2)]
    rows, columns = x.shape[axis1], x.shape[axis2]
    if others != list(range(rank - 2)) or axis1 > axis2:
        x = op.Transpose(x, perm=[*others, axis1, axis2])
    flat = op.Reshape(x, np.array([*[0] * (rank - 2), -1]))
    row, column = max(-offset, 0), max(offset, 0)
    if rows >= 0 and columns >= 0:
        known = max(min(rows - row, columns - column), 0)
        return layer.result("Gather", flat, np.arange(known) * (columns + 1) + row * columns + column, axis=rank - 2)
    height, width = (op.Squeeze(op.Shape(x, start=a, end=a + 1), [0]) for a in (rank - 2, rank - 1))
    length = op.Max(op.Min(op.Sub(height, np.array(row)), op.Sub(width, np.array(column))), np.array(0))
    steps = op.Mul(op.Range(np.array(0), length, np.array(1)), op.Add(width, np.array(1)))
    return layer.result("Gather", flat, op.Add(steps, op.Add(op.Mul(width, np.array(row)), np.array(column))), axis=rank - 2)


@checked
def diagonal_scatter(
    x: Variable, y: Variable, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None
) -> Variable:
    """``x`` with a diagonal of two axes replaced by ``y``, whose last axis runs along it.

    Args:
        x: of two axes or more.
        y: of the shape of that diagonal.
        offset: the number of the diagonal: above the main one if positive, below it if negative.
        axis1: the first of the two axes.
        axis2: the second of the two axes.

    Raises:
        ArgumentError: if the sizes of the two axes are not known.

    Example:
        >>> x, y = static.data("x", [2, 3, 4]), static.data("y", [4, 2])
        >>> paddle.diagonal_scatter(x, y, offset=1).shape
        (2, 3, 4)
    """
    if x.ndim < 2 or not all(-x.ndim <= axis < x.ndim for axis in (axis1, axis2)) or (axis1 - axis2) % x.ndim == 0:
        raise Mismatch(f"diagonal_scatter: axes {axis1} and {axis2} are not two different ones of the {x.ndim} of {x!r}.")
    first, second = axis1 % x.ndim, axis2 % x.ndim
    rows, columns = x.shape[first], x.shape[second]
    if rows < 0 or columns < 0:
        raise ArgumentError("diagonal_scatter: the sizes of both axes must be known. Reshape first.")
    row, column = max(-offset, 0), max(offset, 0)
    steps = np.arange(max(min(rows - row, columns - column), 0))
    order = moved_order(x, [first, second], [0, 1])
    wanted = [*(x.shape[axis] for axis in order[2:]), len(steps)]
    if len(wanted) != y.ndim or any(a != b and min(a, b) >= 0 for a, b in zip(wanted, y.shape, strict=True)):
        raise Mismatch(f"diagonal_scatter: the diagonal has shape {wanted}, unlike {y!r}.")
    layer, op = open_layer("diagonal_scatter", x, y, name=name)
    lines = op.Transpose(y, perm=[y.ndim - 1, *range(y.ndim - 1)])
    written = op.ScatterND(op.Transpose(x, perm=order), np.stack([steps + row, steps + column], axis=1), lines)
    return layer.result("Transpose", written, perm=[order.index(axis) for axis in range(x.ndim)])


@checked
def trace(x: Variable, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None) -> Variable:
    """Sum of the elements on a diagonal of two axes.

    Args:
        x: of two axes or more.
        offset: the number of the diagonal: above the main one if positive, below it if negative.
        axis1: the first of the two axes.
        axis2: the second of the two axes.
    """
    layer = LayerHelper("trace", x, name=name)
    return layer.result("ReduceSum", diagonal(x, offset, axis1, axis2), [-1], keepdims=0)


@checked
def diag(x: Variable, offset: int = 0, padding_value: float = 0, name: str | None = None) -> Variable:
    """A matrix with the vector ``x`` on a diagonal, or the diagonal of the matrix ``x``.

    Args:
        x: variable of rank 1 or 2.
        offset: 0 for the main diagonal, positive above it.
        padding_value: what stands beside the diagonal.

    Raises:
        ArgumentError: if ``x`` has another rank.

    Example:
        >>> paddle.diag(static.data("v", [3]), offset=1).shape
        (4, 4)
    """
    require_variables("diag", x)
    if x.ndim == 2:
        return diagonal(x, offset, name=name)
    if x.ndim != 1:
        raise ArgumentError(f"diag takes a vector or a matrix, not {x!r}. Use diag_embed for more axes.")
    layer = LayerHelper("diag_v2", x, name=name)
    return layer.result("Where", *_on_diagonal(layer, x, offset, padding_value))


@checked
def diagflat(x: Variable, offset: int = 0, name: str | None = None) -> Variable:
    """A matrix with the flattened ``x`` on a diagonal.

    Args:
        x: variable of any shape.
        offset: the number of the diagonal: above the main one if positive, below it if negative.
    """
    layer = LayerHelper("diagflat", x, name=name)
    return diag(layer.op.Reshape(x, np.array([-1])), offset, name=name)


@checked
def diag_embed(input: Variable, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Variable:
    """Matrices in the axes ``dim1`` and ``dim2``, with the last axis of ``input`` on a diagonal.

    Args:
        input: of shape [..., n].
        offset: the number of the diagonal: above the main one if positive, below it if negative.
        dim1: the axis of the rows in the result.
        dim2: the axis of the columns.

    Example:
        >>> paddle.diag_embed(static.data("x", [None, 3])).shape
        (-1, 3, 3)
    """
    layer = LayerHelper("diag_embed", input)
    rank = input.ndim + 1
    first, second = (normal_axis(axis, rank, "diag_embed") for axis in (dim1, dim2))
    if first == second:
        raise ArgumentError("diag_embed: dim1 and dim2 must differ.")
    if (first, second) == (rank - 2, rank - 1):
        return layer.result("Where", *_on_diagonal(layer, input, offset, 0))
    matrices = layer.op.Where(*_on_diagonal(layer, input, offset, 0))
    return layer.result("Transpose", matrices, perm=moved_order(matrices, [rank - 2, rank - 1], [first, second]))


def _on_diagonal(layer: LayerHelper, x: Variable, offset: int, padding: float) -> tuple[Any, Any, Any]:
    """Operands of a Where: the diagonal as a mask, ``x`` along the axis where each of its elements fits, the padding"""
    op, rank = layer.op, x.ndim
    size = dim(op, x, -1)
    width = size + abs(offset) if isinstance(size, np.ndarray) else op.Add(size, np.array([abs(offset)]))
    square = np.tile(width, 2) if isinstance(width, np.ndarray) else op.Concat(width, width, axis=0)
    mask = op.Cast(op.EyeLike(op.Expand(np.float32(0.0), square), k=offset), to=9)
    if offset:
        x = op.Pad(x, [0] * (2 * rank - 1) + [abs(offset)], op.constant(0, x.dtype))
    # An element of a diagonal above the main one is found by its row, one below by its column.
    x = op.Unsqueeze(x, [-1] if offset > 0 else [-2])
    return mask, x, op.constant(padding, x.dtype)


@checked
def block_diag(inputs: Sequence[Variable], name: str | None = None) -> Variable:
    """Matrices of known sizes along the diagonal of a large one.

    Args:
        inputs: matrices; a vector is a row, a scalar a matrix of one element.

    Example:
        >>> paddle.block_diag([static.data("a", [2, 3]), static.data("b", [1, 2])]).shape
        (3, 5)
    """
    layer, op = open_layer("block_diag", *inputs, name=name)
    blocks = [x if x.ndim == 2 else op.Reshape(x, np.array([1, -1])) for x in inputs]
    widths = [x.shape[1] for x in blocks]
    if any(width < 0 for width in widths):
        raise ArgumentError("block_diag: the widths of all matrices must be known. Declare them in data().")
    rows = []
    for i, x in enumerate(blocks):
        pads = [0, sum(widths[:i]), 0, sum(widths[i + 1 :])]
        rows.append(op.Pad(x, pads, op.constant(0, x.dtype)))
    return layer.result("Concat", *rows, axis=0)
