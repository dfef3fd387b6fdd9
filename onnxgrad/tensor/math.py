"""Element-wise mathematics and reductions, with Paddle's argument names. Operands broadcast as in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxgrad.dtypes import dtype_of
from onnxgrad.ir.variable import Variable
from onnxgrad.tensor.layer import Layer, require_variables

__all__ = [
    "abs",
    "add",
    "add_n",
    "cast",
    "clip",
    "divide",
    "exp",
    "log",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "multiply",
    "pow",
    "scale",
    "sqrt",
    "square",
    "subtract",
    "sum",
    "tanh",
]

Axes = int | Sequence[int] | None


def _unary(kind: str, op_type: str, x: Variable, name: str | None) -> Variable:
    return Layer(kind, x, name=name).emit(op_type, x)  # type: ignore[no-any-return]


def _binary(kind: str, op_type: str, x: Variable, y: Variable, name: str | None) -> Variable:
    return Layer(kind, x, y, name=name).emit(op_type, x, y)  # type: ignore[no-any-return]


def add(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """``x + y``."""
    return _binary("elementwise_add", "Add", x, y, name)


def subtract(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """``x - y``."""
    return _binary("elementwise_sub", "Sub", x, y, name)


def multiply(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """``x * y``, element by element."""
    return _binary("elementwise_mul", "Mul", x, y, name)


def divide(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """``x / y``."""
    return _binary("elementwise_div", "Div", x, y, name)


def maximum(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The larger of two elements; the gradient of a tie is shared."""
    return _binary("elementwise_max", "Max", x, y, name)


def minimum(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The smaller of two elements; the gradient of a tie is shared."""
    return _binary("elementwise_min", "Min", x, y, name)


def add_n(inputs: Variable | Sequence[Variable], name: str | None = None) -> Variable:
    """Sum of several tensors of one shape."""
    items = [inputs] if isinstance(inputs, Variable) else list(inputs)
    return Layer("sum", *items, name=name).emit("Sum", *items)  # type: ignore[no-any-return]


def pow(x: Variable, y: Variable | float, name: str | None = None) -> Variable:
    """``x`` to the power ``y``."""
    return Layer("pow", x, name=name).emit("Pow", x, y)  # type: ignore[no-any-return]


def matmul(x: Variable, y: Variable, transpose_x: bool = False, transpose_y: bool = False, name: str | None = None) -> Variable:
    """Matrix product over the last two axes; leading axes broadcast.

    Args:
        x, y: vectors, matrices or batches of them.
        transpose_x, transpose_y: exchange the last two axes first.

    Example:
        >>> x, w = static.data("x", [None, 3]), static.data("w", [4, 3])
        >>> paddle.matmul(x, w, transpose_y=True).shape
        (-1, 4)
    """
    layer = Layer("matmul_v2", x, y, name=name)
    x = _last_two_exchanged(layer, x) if transpose_x else x
    y = _last_two_exchanged(layer, y) if transpose_y else y
    return layer.emit("MatMul", x, y)  # type: ignore[no-any-return]


def _last_two_exchanged(layer: Layer, x: Variable) -> Variable:
    axes = list(range(x.ndim))
    axes[-2:] = [axes[-1], axes[-2]]
    return layer.op.Transpose(x, perm=axes)  # type: ignore[no-any-return]


def mean(x: Variable, axis: Axes = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """Mean over ``axis``, or of all elements; the result of the latter has no axes.

    Example:
        >>> paddle.mean(static.data("x", [None, 3])).shape
        ()
    """
    return _reduce("mean", "ReduceMean", x, axis, keepdim, name)


def sum(x: Variable, axis: Axes = None, dtype: Any = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """Sum over ``axis``, or of all elements."""
    require_variables("sum", x)
    if dtype is not None and x.dtype != dtype:
        x = cast(x, dtype)
    return _reduce("sum", "ReduceSum", x, axis, keepdim, name)


def max(x: Variable, axis: Axes = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """Largest element over ``axis``; the gradient is shared evenly over ties."""
    return _reduce("max", "ReduceMax", x, axis, keepdim, name)


def min(x: Variable, axis: Axes = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """Smallest element over ``axis``; the gradient is shared evenly over ties."""
    return _reduce("min", "ReduceMin", x, axis, keepdim, name)


def _reduce(kind: str, op_type: str, x: Variable, axis: Axes, keepdim: bool, name: str | None) -> Variable:
    layer = Layer(kind, x, name=name)
    axes = None if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return layer.emit(op_type, x, axes or None, keepdims=int(keepdim))  # type: ignore[no-any-return]


def abs(x: Variable, name: str | None = None) -> Variable:
    """Absolute value; gradient 0 at 0."""
    return _unary("abs", "Abs", x, name)


def exp(x: Variable, name: str | None = None) -> Variable:
    """e to the power ``x``."""
    return _unary("exp", "Exp", x, name)


def log(x: Variable, name: str | None = None) -> Variable:
    """Natural logarithm."""
    return _unary("log", "Log", x, name)


def sqrt(x: Variable, name: str | None = None) -> Variable:
    """Square root."""
    return _unary("sqrt", "Sqrt", x, name)


def tanh(x: Variable, name: str | None = None) -> Variable:
    """Hyperbolic tangent."""
    return _unary("tanh", "Tanh", x, name)


def square(x: Variable, name: str | None = None) -> Variable:
    """``x * x``."""
    return Layer("square", x, name=name).emit("Mul", x, x)  # type: ignore[no-any-return]


def scale(x: Variable, scale: float = 1.0, bias: float = 0.0, bias_after_scale: bool = True, name: str | None = None) -> Variable:
    """``scale * x + bias``, or ``scale * (x + bias)``."""
    layer = Layer("scale", x, name=name)
    if bias_after_scale:
        return layer.emit("Add", layer.op.Mul(x, scale), bias)  # type: ignore[no-any-return]
    return layer.emit("Mul", layer.op.Add(x, bias), scale)  # type: ignore[no-any-return]


def clip(x: Variable, min: float | None = None, max: float | None = None, name: str | None = None) -> Variable:
    """Elements limited to [min, max]; the gradient passes at the limits."""
    return Layer("clip", x, name=name).emit("Clip", x, min, max)  # type: ignore[no-any-return]


def cast(x: Variable, dtype: Any) -> Variable:
    """The same numbers in another element type; the gradient comes back in that of ``x``."""
    return Layer("cast", x).emit("Cast", x, to=dtype_of(dtype).number)  # type: ignore[no-any-return]
