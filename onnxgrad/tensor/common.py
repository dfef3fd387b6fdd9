"""Helpers of tensor functions: operands of one element type, axes, shapes known now or only at run time.

Tests: tests/tensor/test_math.py.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.arithmetic import promote
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DType, dtype_of
from onnxgrad.errors import ArgumentError, ArgumentTypeError, AxisError, IllTyped, Mismatch
from onnxgrad.internal import state
from onnxgrad.tensor.layer import LayerHelper, is_variable, open_layer, variables_in

__all__ = [
    "Axes",
    "Integers",
    "Number",
    "Shape",
    "as_dtype",
    "axes_of",
    "binary",
    "extreme_of",
    "float_dtype",
    "floating",
    "index_dtype",
    "integers",
    "known_dim",
    "known_value",
    "log_add_exp",
    "normal_axis",
    "open_floats",
    "open_layer_for",
    "open_promoted",
    "positive",
    "promote_operands",
    "scalar",
    "shape_of",
    "shape_operand",
    "sizes_of",
    "unary",
]  # fmt: skip

Axes = int | Sequence[int] | None
Shape = Sequence[int | Variable] | Variable
Number = float | np.generic | Variable
"""A number of Python or numpy, or a tensor of one element."""

Integers = int | Sequence[int | Variable] | Variable
"""One integer or several, known when a program is built or, as integer tensors, when it runs."""


def unary(layer_name: str, op_type: str, x: Variable, name: str | None = None, **attrs: Any) -> Variable:
    """One operator of one real operand; integers are computed as float32."""
    layer = LayerHelper(layer_name, x, name=name)
    return layer.result(op_type, floating(layer.op, x), **attrs)


def binary(layer_name: str, op_type: str, x: Any, y: Any, name: str | None = None) -> Variable:
    """One operator of two operands, which are promoted to one element type and broadcast."""
    layer, _, operands = open_promoted(layer_name, x, y, name=name)
    return layer.result(op_type, *operands)


def open_layer_for(layer_name: str, *items: Any, name: str | None = None) -> tuple[LayerHelper, Builder]:
    """``open_layer`` of a function whose operands may be numbers, though not all of them."""
    variables = variables_in(*items)
    if not variables:
        raise ArgumentTypeError(f"{layer_name} takes at least one Variable, not only {[type(item).__name__ for item in items]}.")
    return open_layer(layer_name, *variables, name=name)


def open_floats(layer_name: str, x: Variable, name: str | None = None) -> tuple[LayerHelper, Builder, Variable]:
    """``open_layer`` of a function of real numbers: also its operand, integers as float32."""
    layer, op = open_layer(layer_name, x, name=name)
    return layer, op, floating(op, x)


def open_promoted(layer_name: str, *items: Any, name: str | None = None) -> tuple[LayerHelper, Builder, list[Variable]]:
    """``open_layer_for``, and the operands in their common element type."""
    layer, op = open_layer_for(layer_name, *items, name=name)
    return layer, op, promote_operands(op, *items)


def floating(op: Builder, x: Variable) -> Variable:
    """``x``, as float32 if it holds integers or booleans."""
    return x if x.is_float else op.Cast(x, to=1)


def as_dtype(op: Builder, x: Variable, dtype: Any) -> Variable:
    """``x`` in an element type; None keeps its own."""
    if dtype is None or x.dtype == dtype_of(dtype):
        return x
    return op.Cast(x, to=dtype_of(dtype).number)


def promote_operands(op: Builder, *items: Any) -> list[Variable]:
    """Operands in their common element type. A number takes that of the tensors; a float among integers makes float32."""
    dtypes = [item.dtype for item in items if isinstance(item, Variable)]
    target: DType = functools.reduce(promote, dtypes)
    if len(dtypes) == len(items) and all(dtype is target for dtype in dtypes):
        return list(items)
    for item in items:
        if is_variable(item):
            continue
        if not isinstance(item, (bool, int, float, np.generic, np.ndarray)):
            raise ArgumentTypeError(f"an operand is a Variable or a number, not {type(item).__name__}.")
        if np.asarray(item).dtype.kind == "f" and not target.is_float:
            target = dtype_of("float32")
    return [as_dtype(op, v, target) if is_variable(v) else op.constant(np.asarray(v), target) for v in items]


def scalar(op: Builder, value: Any, dtype: DType) -> Variable:
    """A number, or a Variable of one element, as an operand without axes."""
    if not is_variable(value):
        return op.constant(np.asarray(value), dtype)
    value = as_dtype(op, value, dtype)
    return value if value.rank == 0 else op.Reshape(value, np.empty(0, np.int64))


def normal_axis(axis: Any, rank: int, function: str) -> int:
    """A possibly negative axis as its number from the front.

    Raises:
        AxisError: if there is no such axis.
    """
    axis = known_value(axis)
    if not isinstance(axis, (int, np.integer)):
        raise AxisError(f"{function}: an axis is an int, not {type(axis).__name__}.")
    if not -max(rank, 1) <= axis < max(rank, 1):
        raise AxisError(f"{function}: axis {axis} is outside the {rank} axes. Use one of {-rank} to {rank - 1}.")
    return int(axis) % max(rank, 1)


def axes_of(axis: Axes) -> list[int] | None:
    """An axis, several, or None for all, as a list or None."""
    axis = known_value(axis)
    if axis is None:
        return None
    if isinstance(axis, (int, np.integer)):
        return [int(axis)]
    if not isinstance(axis, (Sequence, np.ndarray)) or is_variable(axis):
        raise AxisError(f"an axis is an int or a list of ints, known when the program is built, not {axis!r}.")
    return [int(known_value(a)) for a in axis] or None


def known_value(value: Any) -> Any:
    """A tensor whose numbers are known now as a Python number, or a list of them; anything else as it is."""
    if not is_variable(value):
        return value
    if value.value is not None or value.is_eager:
        array = np.asarray(value) if value.is_eager else value.value.numpy()  # type: ignore[union-attr]
        return array.item() if array.size == 1 else array.tolist()
    entries = value.entries
    if entries is None or not all(isinstance(entry, int) for entry in entries):
        return value
    return entries[0] if len(entries) == 1 else list(entries)


def float_dtype(dtype: Any, function: str = "", or_integers: bool = False) -> DType:
    """An element type, or the default floating-point one.

    Raises:
        IllTyped: where a function is named, for another than a floating-point type (or int32 or int64).
    """
    element = dtype_of(state.current.default_dtype if dtype is None else dtype)
    if function and not element.is_float and not (or_integers and element.name in ("int32", "int64")):
        choices = "a floating-point type, int32 or int64" if or_integers else "a floating-point type"
        raise IllTyped(f"{function}: dtype is {choices}, not {element.name}. Cast the result.")
    return element


def index_dtype(dtype: Any, function: str) -> DType:
    """The element type of indices: int32 or int64.

    Raises:
        IllTyped: for another one.
    """
    element = dtype_of(dtype)
    if element.name not in ("int32", "int64"):
        raise IllTyped(f"{function}: dtype is int32 or int64, not {element.name}.")
    return element


def known_dim(x: Variable, axis: int, function: str) -> int:
    """The size of an axis that must be known when the program is built."""
    if x.dims == ():
        raise Mismatch(f"{function} takes a tensor with axes; {x!r} is a single number. Reshape it first.")
    size = x.shape[axis]
    if size < 0:
        raise ArgumentError(f"{function}: axis {axis} of {x!r} must have a known size. Declare it in data().")
    return size


def shape_of(op: Builder, x: Variable) -> Any:
    """The shape as an int64 operand, constant when it is known."""
    static = x.static_shape
    return np.array(static, np.int64) if static is not None else op.Shape(x)


def integers(value: Any, function: str) -> list[int]:
    """A list of ints from an int, a list, an integer array, or tensors whose values are known."""
    value = [known_value(item) for item in value] if isinstance(value, (list, tuple)) else known_value(value)
    if is_variable(value):
        raise ArgumentTypeError(f"{function}: this argument must be known when the program is built, not a Variable.")
    try:
        return [operator.index(n) for n in np.asarray(value).reshape(-1).tolist()]
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"{function} takes ints here, not {value!r}.") from error


def positive(value: Any, function: str, what: str) -> int:
    """An int above 0."""
    value = known_value(value)
    if not isinstance(value, (int, np.integer)):
        raise ArgumentTypeError(f"{function}: {what} is an int, not {type(value).__name__}.")
    if value < 1:
        raise ArgumentError(f"{function}: {what} is {value}; there is at least 1.")
    return int(value)


def sizes_of(layer_name: str, shape: Any) -> list[Any]:
    """The entries of a shape that a user gives, which is a list of ints and integer Variables, or one of these.

    Raises:
        ArgumentTypeError: for anything else.
    """
    if isinstance(shape, (int, np.integer, str, np.ndarray)):
        raise ArgumentTypeError(f"{layer_name}: shape is a list or a Variable, not {shape!r}. Write a list.")
    entries = list(shape) if isinstance(shape, (list, tuple)) else [shape]
    for entry in entries:
        if isinstance(entry, str) or (is_variable(entry) and entry.is_float):
            raise ArgumentTypeError(f"{layer_name}: a shape holds integers, not {entry!r}.")
    return entries


def shape_operand(op: Builder, shape: Any) -> Any:
    """A shape as an operand: ints, an integer Variable, or a list that mixes ints and Variables of one element."""
    if is_variable(shape):
        return as_dtype(op, shape, "int64")
    if isinstance(shape, (int, np.integer)):
        shape = [shape]
    if not any(is_variable(item) for item in shape):
        return np.asarray([int(item) for item in shape], np.int64)
    one = np.array([1])
    parts = [op.Reshape(as_dtype(op, item, "int64"), one) if is_variable(item) else np.array([item]) for item in shape]
    return op.Concat(*parts, axis=0)


def extreme_of(dtype: DType, largest: bool) -> Any:
    """The largest or smallest number of an element type, infinity where there is one."""
    if dtype.is_float:
        return np.inf if largest else -np.inf
    limits = np.iinfo(dtype.numpy)
    return limits.max if largest else limits.min


def log_add_exp(op: Builder, a: Variable, b: Variable) -> Variable:
    """log(exp(a) + exp(b)) without overflow"""
    small = op.Exp(op.Neg(op.Abs(op.Sub(a, b))))
    return op.Add(op.Max(a, b), op.Log(op.Add(small, 1.0)))
