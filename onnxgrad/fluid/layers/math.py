"""Element-wise mathematics, reductions, comparison, search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onnxgrad.errors import ArgumentError
from onnxgrad.ir.variable import Variable
from onnxgrad.tensor.layer import Layer

__all__ = [
    "abs",
    "argmax",
    "argmin",
    "ceil",
    "clip",
    "cos",
    "elementwise_add",
    "elementwise_div",
    "elementwise_floordiv",
    "elementwise_max",
    "elementwise_min",
    "elementwise_mod",
    "elementwise_mul",
    "elementwise_pow",
    "elementwise_sub",
    "equal",
    "exp",
    "floor",
    "greater_equal",
    "greater_than",
    "increment",
    "less_equal",
    "less_than",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "mean",
    "mul",
    "not_equal",
    "pow",
    "reciprocal",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "round",
    "rsqrt",
    "scale",
    "sign",
    "sin",
    "sqrt",
    "square",
    "sum",
    "sums",
    "tanh",
    "topk",
]


def _unary(kind: str, op_type: str, formula: str) -> Callable[..., Variable]:
    def function(x: Variable, name: str | None = None) -> Variable:
        return Layer(kind, x, name=name).emit(op_type, x)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = kind
    function.__doc__ = f"{formula}, element by element."
    return function


abs = _unary("abs", "Abs", "The absolute value")
ceil = _unary("ceil", "Ceil", "The next integer above")
cos = _unary("cos", "Cos", "The cosine")
exp = _unary("exp", "Exp", "e to the power x")
floor = _unary("floor", "Floor", "The next integer below")
log = _unary("log", "Log", "The natural logarithm")
reciprocal = _unary("reciprocal", "Reciprocal", "1 / x")
round = _unary("round", "Round", "The nearest integer")
sign = _unary("sign", "Sign", "The sign")
sin = _unary("sin", "Sin", "The sine")
sqrt = _unary("sqrt", "Sqrt", "The square root")
tanh = _unary("tanh", "Tanh", "The hyperbolic tangent")


def square(x: Variable, name: str | None = None) -> Variable:
    """x * x."""
    return Layer("square", x, name=name).emit("Mul", x, x)  # type: ignore[no-any-return]


def rsqrt(x: Variable, name: str | None = None) -> Variable:
    """1 / sqrt(x)."""
    layer = Layer("rsqrt", x, name=name)
    return layer.emit("Reciprocal", layer.op.Sqrt(x))  # type: ignore[no-any-return]


def _elementwise(kind: str, op_type: str, sign: str) -> Callable[..., Variable]:
    def function(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
        layer = Layer(kind, x, y, name=name)
        return layer.activate(layer.emit(op_type, x, _aligned(layer, x, y, axis)), act)

    function.__name__ = function.__qualname__ = kind
    function.__doc__ = f"{sign}; y's axes are x's from ``axis`` on (the last ones for -1). ``act`` is applied last."
    return function


def _aligned(layer: Layer, x: Variable, y: Variable, axis: int) -> Variable:
    """y with axes of size 1 behind its own, so that it meets x from ``axis`` on."""
    missing = 0 if axis == -1 else x.ndim - axis - y.ndim
    if missing < 0:
        raise ArgumentError(f"{layer.name}: {y!r} has too many axes to meet {x!r} from axis {axis} on.")
    return layer.op.Unsqueeze(y, list(range(y.ndim, y.ndim + missing))) if missing else y


elementwise_add = _elementwise("elementwise_add", "Add", "x + y")
elementwise_sub = _elementwise("elementwise_sub", "Sub", "x - y")
elementwise_mul = _elementwise("elementwise_mul", "Mul", "x * y")
elementwise_div = _elementwise("elementwise_div", "Div", "x / y")
elementwise_max = _elementwise("elementwise_max", "Max", "The larger of x and y")
elementwise_min = _elementwise("elementwise_min", "Min", "The smaller of x and y")
elementwise_pow = _elementwise("elementwise_pow", "Pow", "x to the power y")


def elementwise_mod(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """The remainder of x / y, with the sign of y."""
    layer = Layer("elementwise_mod", x, y, name=name)
    y = _aligned(layer, x, y, axis)
    if not x.dtype.is_float:
        return layer.activate(layer.emit("Mod", x, y), act)
    quotient = layer.op.Floor(layer.op.Div(x, y))
    return layer.activate(layer.emit("Sub", x, layer.op.Mul(quotient, y)), act)


def elementwise_floordiv(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """x / y for integers, without the fraction."""
    layer = Layer("elementwise_floordiv", x, y, name=name)
    return layer.activate(layer.emit("Div", x, _aligned(layer, x, y, axis)), act)


def _compare(kind: str, op_type: str, sign: str) -> Callable[..., Variable]:
    def function(x: Variable, y: Variable, cond: Any = None, name: str | None = None) -> Variable:
        return Layer(kind, x, y, name=name).emit(op_type, x, y)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = kind
    function.__doc__ = f"Whether {sign}, element by element."
    return function


equal = _compare("equal", "Equal", "x = y")
less_than = _compare("less_than", "Less", "x < y")
less_equal = _compare("less_equal", "LessOrEqual", "x <= y")
greater_than = _compare("greater_than", "Greater", "x > y")
greater_equal = _compare("greater_equal", "GreaterOrEqual", "x >= y")
logical_and = _compare("logical_and", "And", "both hold")
logical_or = _compare("logical_or", "Or", "one of them holds")
logical_xor = _compare("logical_xor", "Xor", "exactly one of them holds")


def not_equal(x: Variable, y: Variable, cond: Any = None, name: str | None = None) -> Variable:
    """Whether x and y differ, element by element."""
    layer = Layer("not_equal", x, y, name=name)
    return layer.emit("Not", layer.op.Equal(x, y))  # type: ignore[no-any-return]


def logical_not(x: Variable, out: Any = None, name: str | None = None) -> Variable:
    """Whether it does not hold, element by element."""
    return Layer("logical_not", x, name=name).emit("Not", x)  # type: ignore[no-any-return]


def _reduce(kind: str, op_type: str, what: str) -> Callable[..., Variable]:
    def function(
        input: Variable, dim: int | Sequence[int] | None = None, keep_dim: bool = False, name: str | None = None
    ) -> Variable:
        axes = None if dim is None else [dim] if isinstance(dim, int) else list(dim)
        return Layer(kind, input, name=name).emit(op_type, input, axes or None, keepdims=int(keep_dim))  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = kind
    function.__doc__ = f"{what} over the axes ``dim``, or of all elements."
    return function


reduce_sum = _reduce("reduce_sum", "ReduceSum", "The sum")
reduce_mean = _reduce("reduce_mean", "ReduceMean", "The mean")
reduce_max = _reduce("reduce_max", "ReduceMax", "The largest element")
reduce_min = _reduce("reduce_min", "ReduceMin", "The smallest element")
reduce_prod = _reduce("reduce_prod", "ReduceProd", "The product")


def mean(x: Variable, name: str | None = None) -> Variable:
    """The mean of all elements, without axes."""
    return Layer("mean", x, name=name).emit("ReduceMean", x, keepdims=0)  # type: ignore[no-any-return]


def sums(input: Variable | Sequence[Variable], out: Variable | None = None) -> Variable:
    """Several tensors of one shape added up."""
    items = [input] if isinstance(input, Variable) else list(input)
    return Layer("sum", *items).emit("Sum", *items)  # type: ignore[no-any-return]


def sum(x: Variable | Sequence[Variable]) -> Variable:
    """Several tensors of one shape added up."""
    return sums(x)


def mul(x: Variable, y: Variable, x_num_col_dims: int = 1, y_num_col_dims: int = 1, name: str | None = None) -> Variable:
    """The product of x and y seen as matrices: the axes before ``x_num_col_dims`` are rows, the others columns."""
    layer = Layer("mul", x, y, name=name)
    op = layer.op
    if x.ndim == 2 and y.ndim == 2:
        return layer.emit("MatMul", x, y)  # type: ignore[no-any-return]
    product = op.MatMul(op.Flatten(x, axis=x_num_col_dims), op.Flatten(y, axis=y_num_col_dims))
    kept = op.Concat(op.Shape(x, end=x_num_col_dims), op.Shape(y, start=y_num_col_dims), axis=0)
    return layer.emit("Reshape", product, kept)  # type: ignore[no-any-return]


def matmul(
    x: Variable, y: Variable, transpose_x: bool = False, transpose_y: bool = False, alpha: float = 1.0, name: str | None = None
) -> Variable:
    """``alpha`` times the matrix product over the last two axes."""
    layer = Layer("matmul", x, y, name=name)
    x, y = (_turned(layer, v) if turn else v for v, turn in ((x, transpose_x), (y, transpose_y)))
    product = layer.emit("MatMul", x, y)
    return product if alpha == 1.0 else layer.emit("Mul", product, alpha)  # type: ignore[no-any-return]


def _turned(layer: Layer, x: Variable) -> Variable:
    axes = list(range(x.ndim))
    axes[-2:] = reversed(axes[-2:])
    return layer.op.Transpose(x, perm=axes)  # type: ignore[no-any-return]


def scale(
    x: Variable,
    scale: float | Variable = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """``scale * x + bias``, or ``scale * (x + bias)``; then ``act``."""
    layer = Layer("scale", x, name=name)
    if bias_after_scale:
        return layer.activate(layer.emit("Add", layer.op.Mul(x, scale), bias), act)
    return layer.activate(layer.emit("Mul", layer.op.Add(x, bias), scale), act)


def clip(x: Variable, min: float, max: float, name: str | None = None) -> Variable:
    """Elements limited to [min, max]."""
    return Layer("clip", x, name=name).emit("Clip", x, float(min), float(max))  # type: ignore[no-any-return]


def pow(x: Variable, factor: float | Variable = 1.0, name: str | None = None) -> Variable:
    """x to the power ``factor``."""
    return Layer("pow", x, name=name).emit("Pow", x, factor)  # type: ignore[no-any-return]


def increment(x: Variable, value: float = 1.0, in_place: bool = True) -> Variable:
    """x + value. The result is a new variable; ``in_place`` cannot change ``x`` itself."""
    return Layer("increment", x).emit("Add", x, value)  # type: ignore[no-any-return]


def argmax(x: Variable, axis: int = 0) -> Variable:
    """Position of the largest element along ``axis``."""
    return Layer("arg_max", x).emit("ArgMax", x, axis=axis, keepdims=0)  # type: ignore[no-any-return]


def argmin(x: Variable, axis: int = 0) -> Variable:
    """Position of the smallest element along ``axis``."""
    return Layer("arg_min", x).emit("ArgMin", x, axis=axis, keepdims=0)  # type: ignore[no-any-return]


def topk(input: Variable, k: int, name: str | None = None) -> tuple[Variable, Variable]:
    """The ``k`` largest elements of the last axis, and their positions."""
    layer = Layer("top_k", input, name=name)
    names = [layer.program.generate_name(f"{layer.name}.tmp") for _ in range(2)]
    values, positions = layer.op.emit("TopK", (input, np.array([k])), {}, outputs=names)
    return values, positions
