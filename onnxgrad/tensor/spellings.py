"""Second spellings that Paddle 3.3 has for its functions: those of torch and numpy.

Tests: tests/tensor/test_spellings.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike
from onnxgrad.errors import ArgumentError, WrongKind
from onnxgrad.internal import state
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor import creation, elementwise, indexing, joining, manipulation, random, search
from onnxgrad.tensor.common import Number, Shape, normal_axis
from onnxgrad.tensor.elementwise import divide as div, multiply as mul, subtract as sub
from onnxgrad.tensor.indexing import take_along_axis as take_along_dim
from onnxgrad.tensor.joining import concat as cat, concat as concatenate
from onnxgrad.tensor.layer import LayerHelper
from onnxgrad.tensor.linalg import outer as ger
from onnxgrad.tensor.logic import (
    equal as eq,
    greater_equal as ge,
    greater_than as greater,
    greater_than as gt,
    less_equal as le,
    less_than as lt,
    not_equal as ne,
)
from onnxgrad.tensor.math import clip as clamp
from onnxgrad.tensor.options import Device, takes_options

__all__ = [
    "argwhere", "broadcast_shapes", "cat", "clamp", "concatenate", "div", "eq", "ge", "ger", "greater", "gt", "le", "lt",
    "msort", "mul", "narrow", "ne", "new_empty", "new_full", "new_ones", "new_zeros", "rand_like", "randn_like", "range",
    "repeat", "scatter_add", "scatter_reduce", "softmax", "split_with_sizes", "sub", "swapdims", "take_along_dim",
    "true_divide", "type_as",
]  # fmt: skip


@checked
@takes_options
def true_divide(input: Variable, other: Variable | float, out: Variable | None = None) -> Variable:
    """``input / other``; integers are divided as float32.

    Args:
        input: variable of any shape.
        other: of a shape that broadcasts with ``input``, or a number.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    return elementwise.divide(input, other)


@checked
def swapdims(x: Variable, dim0: int | Sequence[int], dim1: int | None = None, name: str | None = None) -> Variable:
    """Two axes exchanged; or, with a list in place of the first, the axes in that order.

    Args:
        x: variable of any shape.
        dim0: an axis, or all axes in their new order.
        dim1: the other axis.
    """
    if isinstance(dim0, int) and dim1 is not None:
        return manipulation.swapaxes(x, dim0, dim1, name)
    if isinstance(dim0, int) or dim1 is not None:
        raise ArgumentError("swapdims takes two axes, or a list of all axes in their new order. Give dim1 too.")
    return manipulation.transpose(x, dim0, name)


@checked
def narrow(input: Variable, dim: int, start: int, length: int) -> Variable:
    """A part of one axis.

    Args:
        input: variable of any shape.
        dim: the axis.
        start: the first position; negative from the end.
        length: how many positions.

    Raises:
        ArgumentError: if the axis is known to be shorter.

    Example:
        >>> paddle.narrow(static.data("x", [None, 5]), 1, 2, 3).shape
        (-1, 3)
    """
    axis = normal_axis(dim, input.ndim, "narrow")
    size = input.shape[axis]
    if size >= 0 and not (-size <= start <= size and 0 <= length <= size - (start + size if start < 0 else start)):
        raise ArgumentError(f"narrow: {length} positions from {start} are not in axis {axis} of {size}. Give others.")
    end = start + length
    return joining.slice(input, [axis], [start], [end if start >= 0 or end < 0 else 2**31 - 1])


@checked
@takes_options
def msort(input: Variable, out: Variable | None = None) -> Variable:
    """Sorted along the first axis.

    Args:
        input: of one axis or more.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    return search.sort(input, axis=0)


@checked
def argwhere(input: Variable) -> Variable:
    """Positions of elements that are not 0, one in a row.

    Args:
        input: variable of any shape.

    Returns:
        int64, [number of elements that are not 0, axes].
    """
    return search.nonzero(input)


@checked
def scatter_add(input: Variable, dim: int, index: Variable, src: Variable) -> Variable:
    """``input`` with the elements of ``src`` added at indices along ``dim``.

    Args:
        input: variable of any shape.
        dim: the axis.
        index: int64, of as many axes, nowhere larger than ``src``.
        src: of as many axes, of the type of ``input``.

    Example:
        >>> x, i, s = static.data("x", [2, 4]), static.data("i", [2, 3], "int64"), static.data("s", [2, 3])
        >>> paddle.scatter_add(x, 1, i, s).shape
        (2, 4)
    """
    return indexing.put_along_axis(input, index, src, dim, "add", broadcast=False)


@checked
def scatter_reduce(
    input: Variable,
    dim: int,
    index: Variable,
    src: Variable,
    reduce: Literal["sum", "prod", "mean", "amax", "amin"],
    include_self: bool = True,
) -> Variable:
    """``input`` with the elements of ``src`` reduced into it at indices along ``dim``.

    Args:
        input: variable of any shape.
        dim: the axis.
        index: int64, of as many axes, nowhere larger than ``src``.
        src: of as many axes, of the type of ``input``.
        reduce: the sum, product, mean, largest or smallest.
        include_self: False to leave the elements of ``input`` out of it.
    """
    how = "add" if reduce == "sum" else "mul" if reduce == "prod" else reduce
    return indexing.put_along_axis(input, index, src, dim, how, include_self, broadcast=False)


@checked
@takes_options
def softmax(input: Variable, dim: int | None = None, dtype: DTypeLike | None = None, out: Variable | None = None) -> Variable:
    """exp(x), divided by its sum along an axis.

    Args:
        input: floats of any shape.
        dim: the axis; None for the last.
        dtype: the type that is computed in; by default that of ``input``.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    layer = LayerHelper("softmax", input)
    x = input if dtype is None else manipulation.cast(input, dtype)
    return layer.result("Softmax", x, axis=-1 if dim is None else normal_axis(dim, x.ndim, "softmax"))


@checked
@takes_options
def rand_like(
    input: Variable, name: str | None = None, dtype: DTypeLike | None = None, device: Device = None, requires_grad: bool = False
) -> Variable:
    """Uniform random numbers from 0 to 1 in the shape of ``input``.

    Args:
        input: variable of any shape.
        dtype: a floating-point type; by default that of ``input``.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
    """
    return random.rand(manipulation.shape(input), input.dtype if dtype is None else dtype, name)


@checked
@takes_options
def randn_like(
    x: Variable, dtype: DTypeLike | None = None, name: str | None = None, device: Device = None, requires_grad: bool = False
) -> Variable:
    """Random numbers of mean 0 and deviation 1 in the shape of ``x``.

    Args:
        x: variable of any shape.
        dtype: a floating-point type; by default that of ``x``.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
    """
    return random.standard_normal(manipulation.shape(x), x.dtype if dtype is None else dtype, name)


@checked
@takes_options
def range(
    start: float = 0,
    end: float | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    out: Variable | None = None,
    device: Device = None,
    requires_grad: bool = False,
    name: str | None = None,
) -> Variable:
    """Numbers from ``start`` to ``end``, which is one of them, unlike ``arange``.

    Args:
        start: the first; the last if it stands alone, and the first is 0.
        end: the bound.
        step: the distance, not 0.
        dtype: by default the default floating-point type.
        out: a Tensor that becomes the result, of any shape; None for a new one.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.

    Example:
        >>> paddle.range(0, 1, 0.5).tolist()
        [0.0, 0.5, 1.0]
    """
    first, bound = (0, start) if end is None else (start, end)
    if step == 0:
        raise ArgumentError("range: step is 0. Give the distance of two numbers.")
    count = int((bound - first) / step) + 1
    if count < 1:
        raise ArgumentError(f"range: steps of {step} do not lead from {first} to {bound}. Change the sign of step.")
    element = state.current.default_dtype if dtype is None else dtype
    # Half a step behind the last one, which rounding does not reach; integers are exact.
    behind = first + count * step - (0 if isinstance(first, int) and isinstance(step, int) else step / 2)
    return creation.arange(first, behind, step, element, name=name)


@checked
def broadcast_shapes(*shapes: Sequence[int]) -> list[int]:
    """The shape that several broadcast to.

    Args:
        shapes: lists of sizes.

    Example:
        >>> paddle.broadcast_shapes([2, 1], [3], [5, 1, 1])
        [5, 2, 3]
    """
    shape: list[int] = []
    for other in shapes:
        if not isinstance(other, (list, tuple)):
            raise WrongKind(f"broadcast_shapes: shapes are lists of ints, not {type(other).__name__} {other!r}.")
        shape = manipulation.broadcast_shape(other, shape)
    return shape


@checked
def repeat(input: Variable, *repeats: int | Sequence[int]) -> Variable:
    """``tile``: the tensor again and again along each axis.

    Args:
        input: variable of any shape.
        repeats: how often, by axis; a list or several numbers.
    """
    counts = repeats[0] if len(repeats) == 1 and not isinstance(repeats[0], int) else repeats
    return manipulation.tile(input, list(counts))  # type: ignore[arg-type]


@checked
def split_with_sizes(self: Variable, split_sizes: Sequence[int], dim: int = 0) -> list[Variable]:
    """Parts of the given sizes along an axis.

    Args:
        self: variable of any shape.
        split_sizes: positive sizes that add up to that of the axis.
        dim: the axis.
    """
    return joining.split(self, list(split_sizes), dim)


@checked
def type_as(self: Variable, other: Variable) -> Variable:
    """``self`` in the element type of ``other``.

    Args:
        self: variable of any shape.
        other: variable of any shape.
    """
    return manipulation.cast(self, other.dtype)


@checked
@takes_options
def new_full(
    self: Variable,
    size: Shape,
    fill_value: Number,
    dtype: DTypeLike | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Variable:
    """A tensor of another shape with one value everywhere, in the type of ``self``.

    Args:
        self: variable of any shape.
        size: the shape.
        fill_value: a number, or a variable of one element.
        dtype: another element type.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: False; memory of the CPU is not pinned.
    """
    return creation.full(size, fill_value, self.dtype if dtype is None else dtype)


@checked
@takes_options
def new_zeros(
    self: Variable,
    size: Shape,
    dtype: DTypeLike | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Variable:
    """Zeros of another shape, in the type of ``self``.

    Args:
        self: variable of any shape.
        size: the shape.
        dtype: another element type.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: False; memory of the CPU is not pinned.
    """
    return creation.full(size, 0, self.dtype if dtype is None else dtype)


@checked
@takes_options
def new_ones(
    self: Variable,
    size: Shape,
    dtype: DTypeLike | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Variable:
    """Ones of another shape, in the type of ``self``.

    Args:
        self: variable of any shape.
        size: the shape.
        dtype: another element type.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: False; memory of the CPU is not pinned.
    """
    return creation.full(size, 1, self.dtype if dtype is None else dtype)


new_empty = new_zeros
