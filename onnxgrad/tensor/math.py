"""Element-wise mathematics, with Paddle's argument names. Operands broadcast as in numpy and are promoted to one element type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.tensor.common import floating, scalar, unary
from onnxgrad.tensor.layer import LayerHelper, is_variable

__all__ = [
    "abs",
    "acos",
    "acosh",
    "angle",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "clip",
    "conj",
    "cos",
    "cosh",
    "deg2rad",
    "erf",
    "exp",
    "expm1",
    "floor",
    "frac",
    "increment",
    "log",
    "log1p",
    "log2",
    "log10",
    "logit",
    "nan_to_num",
    "neg",
    "negative",
    "positive",
    "rad2deg",
    "real",
    "reciprocal",
    "round",
    "rsqrt",
    "scale",
    "sgn",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "stanh",
    "tan",
    "tanh",
    "trunc",
]


# One operand ---------------------------------------------------------------------------------------------------------


def exp(x: Variable, name: str | None = None) -> Variable:
    """e to the power ``x``.

    Args:
        x: variable of any shape; integers are computed as float32, as in all functions here.

    Returns:
        A variable of the shape of ``x``.

    Raises:
        NotAVariable: if ``x`` is not a variable.

    Example:
        >>> paddle.exp(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return unary("exp", "Exp", x, name)


def log(x: Variable, name: str | None = None) -> Variable:
    """Natural logarithm."""
    return unary("log", "Log", x, name)


def log2(x: Variable, name: str | None = None) -> Variable:
    """Logarithm to the base 2."""
    return _log_over("log2", x, math.log(2.0), name)


def log10(x: Variable, name: str | None = None) -> Variable:
    """Logarithm to the base 10."""
    return _log_over("log10", x, math.log(10.0), name)


def _log_over(kind: str, x: Variable, base: float, name: str | None) -> Variable:
    layer = LayerHelper(kind, x, name=name)
    return layer.result("Div", layer.op.Log(floating(layer.op, x)), base)


def log1p(x: Variable, name: str | None = None) -> Variable:
    """log(1 + x), accurate near 0: there 2 artanh(x / (x + 2))."""
    layer = LayerHelper("log1p", x, name=name)
    op = layer.op
    x = floating(op, x)
    plain = op.Log(op.Add(x, 1.0))
    if x.dtype == "float64":
        return layer.result("Identity", plain)
    accurate = op.Mul(op.Atanh(op.Div(x, op.Add(x, 2.0))), 2.0)
    return layer.result("Where", op.Less(x, op.constant(1.0, x.dtype)), accurate, plain)


def expm1(x: Variable, name: str | None = None) -> Variable:
    """exp(x) - 1, accurate near 0: (exp(x) + 1) tanh(x / 2)."""
    layer = LayerHelper("expm1", x, name=name)
    op = layer.op
    x = floating(op, x)
    return layer.result("Mul", op.Add(op.Exp(x), 1.0), op.Tanh(op.Mul(x, 0.5)))


def sqrt(x: Variable, name: str | None = None) -> Variable:
    """Square root."""
    return unary("sqrt", "Sqrt", x, name)


def rsqrt(x: Variable, name: str | None = None) -> Variable:
    """1 / sqrt(x)."""
    layer = LayerHelper("rsqrt", x, name=name)
    return layer.result("Reciprocal", layer.op.Sqrt(floating(layer.op, x)))


def square(x: Variable, name: str | None = None) -> Variable:
    """``x * x``."""
    return LayerHelper("square", x, name=name).result("Mul", x, x)


def reciprocal(x: Variable, name: str | None = None) -> Variable:
    """1 / x."""
    return unary("reciprocal", "Reciprocal", x, name)


def abs(x: Variable, name: str | None = None) -> Variable:
    """Absolute value; gradient 0 at 0."""
    return LayerHelper("abs", x, name=name).result("Abs", x)


def sign(x: Variable, name: str | None = None) -> Variable:
    """-1, 0 or 1."""
    return LayerHelper("sign", x, name=name).result("Sign", x)


def sgn(x: Variable, name: str | None = None) -> Variable:
    """-1, 0 or 1."""
    return LayerHelper("sgn", x, name=name).result("Sign", x)


def neg(x: Variable, name: str | None = None) -> Variable:
    """``-x``."""
    return LayerHelper("neg", x, name=name).result("Neg", x)


def negative(x: Variable, name: str | None = None) -> Variable:
    """``-x``."""
    return neg(x, name)


def positive(x: Variable) -> Variable:
    """``+x``."""
    return LayerHelper("positive", x).result("Identity", x)


def sin(x: Variable, name: str | None = None) -> Variable:
    """Sine."""
    return unary("sin", "Sin", x, name)


def cos(x: Variable, name: str | None = None) -> Variable:
    """Cosine."""
    return unary("cos", "Cos", x, name)


def tan(x: Variable, name: str | None = None) -> Variable:
    """Tangent."""
    return unary("tan", "Tan", x, name)


def asin(x: Variable, name: str | None = None) -> Variable:
    """Inverse sine."""
    return unary("asin", "Asin", x, name)


def acos(x: Variable, name: str | None = None) -> Variable:
    """Inverse cosine."""
    return unary("acos", "Acos", x, name)


def atan(x: Variable, name: str | None = None) -> Variable:
    """Inverse tangent."""
    return unary("atan", "Atan", x, name)


def sinh(x: Variable, name: str | None = None) -> Variable:
    """Hyperbolic sine."""
    return unary("sinh", "Sinh", x, name)


def cosh(x: Variable, name: str | None = None) -> Variable:
    """Hyperbolic cosine."""
    return unary("cosh", "Cosh", x, name)


def tanh(x: Variable, name: str | None = None) -> Variable:
    """Hyperbolic tangent."""
    return unary("tanh", "Tanh", x, name)


def asinh(x: Variable, name: str | None = None) -> Variable:
    """Inverse hyperbolic sine."""
    return unary("asinh", "Asinh", x, name)


def acosh(x: Variable, name: str | None = None) -> Variable:
    """Inverse hyperbolic cosine."""
    return unary("acosh", "Acosh", x, name)


def atanh(x: Variable, name: str | None = None) -> Variable:
    """Inverse hyperbolic tangent."""
    return unary("atanh", "Atanh", x, name)


def sigmoid(x: Variable, name: str | None = None) -> Variable:
    """1 / (1 + exp(-x))."""
    return unary("sigmoid", "Sigmoid", x, name)


def erf(x: Variable, name: str | None = None) -> Variable:
    """Error function."""
    return unary("erf", "Erf", x, name)


def stanh(x: Variable, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None) -> Variable:
    """scale_b tanh(scale_a x)."""
    layer = LayerHelper("stanh", x, name=name)
    return layer.result("Mul", layer.op.Tanh(layer.op.Mul(floating(layer.op, x), scale_a)), scale_b)


def logit(x: Variable, eps: float | None = None, name: str | None = None) -> Variable:
    """log(x / (1 - x)), of ``x`` limited to [eps, 1 - eps] if ``eps`` is given."""
    layer = LayerHelper("logit", x, name=name)
    op = layer.op
    x = floating(op, x)
    if eps is not None:
        x = op.Clip(x, eps, 1.0 - eps)
    return layer.result("Log", op.Div(x, op.Sub(1.0, x)))


def sinc(x: Variable, name: str | None = None) -> Variable:
    """sin(pi x) / (pi x), and 1 at 0."""
    layer = LayerHelper("sinc", x, name=name)
    op = layer.op
    angle = op.Mul(floating(op, x), math.pi)
    at_zero = op.Equal(angle, op.constant(0.0, angle.dtype))
    ratio = op.Div(op.Sin(angle), op.Where(at_zero, op.constant(1.0, angle.dtype), angle))
    return layer.result("Where", at_zero, op.constant(1.0, angle.dtype), ratio)


def floor(x: Variable, name: str | None = None) -> Variable:
    """Largest integer not above ``x``."""
    return unary("floor", "Floor", x, name)


def ceil(x: Variable, name: str | None = None) -> Variable:
    """Smallest integer not below ``x``."""
    return unary("ceil", "Ceil", x, name)


def round(x: Variable, decimals: int = 0, name: str | None = None) -> Variable:
    """Nearest number with so many decimals; a half goes to the even neighbour."""
    layer = LayerHelper("round", x, name=name)
    op = layer.op
    x = floating(op, x)
    if decimals == 0:
        return layer.result("Round", x)
    return layer.result("Div", op.Round(op.Mul(x, 10.0**decimals)), 10.0**decimals)


def trunc(input: Variable, name: str | None = None) -> Variable:
    """The integer next to ``input`` on the side of 0."""
    layer = LayerHelper("trunc", input, name=name)
    op = layer.op
    if not input.dtype.is_float:
        return layer.result("Identity", input)
    return layer.result("Mul", op.Sign(input), op.Floor(op.Abs(input)))


def frac(x: Variable, name: str | None = None) -> Variable:
    """What ``trunc`` leaves; zeros of integers."""
    layer = LayerHelper("frac", x, name=name)
    op = layer.op
    if not x.is_float:
        return layer.result("Sub", x, x)
    return layer.result("Sub", x, op.Mul(op.Sign(x), op.Floor(op.Abs(x))))


def rad2deg(x: Variable, name: str | None = None) -> Variable:
    """Radians as degrees."""
    layer = LayerHelper("rad2deg", x, name=name)
    return layer.result("Mul", floating(layer.op, x), 180.0 / math.pi)


def deg2rad(x: Variable, name: str | None = None) -> Variable:
    """Degrees as radians."""
    layer = LayerHelper("deg2rad", x, name=name)
    return layer.result("Mul", floating(layer.op, x), math.pi / 180.0)


def signbit(x: Variable, name: str | None = None) -> Variable:
    """Whether the sign of ``x`` is minus, that of -0.0 too."""
    layer = LayerHelper("signbit", x, name=name)
    op = layer.op
    x = floating(op, x)
    zero = op.constant(0.0, x.dtype)
    negative_zero = op.And(op.Equal(x, zero), op.Less(op.Reciprocal(x), zero))
    return layer.result("Or", op.Less(x, zero), negative_zero)


def nan_to_num(
    x: Variable, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None, name: str | None = None
) -> Variable:
    """Numbers in place of NaN and infinities; those of the type's range unless given."""
    layer = LayerHelper("nan_to_num", x, name=name)
    op = layer.op
    if not x.dtype.is_float:
        return layer.result("Identity", x)
    largest = float(np.finfo(x.dtype.numpy).max)
    high, low = (largest if posinf is None else posinf), (-largest if neginf is None else neginf)
    y = op.Where(op.IsNaN(x), op.constant(nan, x.dtype), x)
    y = op.Where(op.IsInf(x, detect_negative=0), op.constant(high, x.dtype), y)
    return layer.result("Where", op.IsInf(x, detect_positive=0), op.constant(low, x.dtype), y)


def increment(x: Variable, value: float = 1.0, name: str | None = None) -> Variable:
    """``x + value`` for one element. The result is a new variable: programs here never overwrite one."""
    return LayerHelper("increment", x, name=name).result("Add", x, np.asarray(value, x.dtype.numpy))


def scale(
    x: Variable,
    scale: float | Variable = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """``scale * x + bias``, or ``scale * (x + bias)``; then an activation by its name."""
    layer = LayerHelper("scale", x, name=name)
    op = layer.op
    factor, offset = scalar(op, scale, x.dtype), op.constant(np.asarray(bias), x.dtype)
    if not is_variable(scale) and bias == 0.0:
        y = layer.result("Mul", x, factor)
    elif bias_after_scale:
        y = layer.result("Add", op.Mul(x, factor), offset)
    else:
        y = layer.result("Mul", op.Add(x, offset), factor)
    return layer.activate(y, act)


def clip(x: Variable, min: Any = None, max: Any = None, name: str | None = None) -> Variable:
    """Elements limited to [min, max]; the gradient passes at the limits.

    Args:
        x: variable of any shape.
        min, max: numbers, or variables of one element; None for no limit.

    Example:
        >>> paddle.clip(static.data("x", [None, 3]), min=0.0).shape
        (-1, 3)
    """
    layer = LayerHelper("clip", x, *(bound for bound in (min, max) if is_variable(bound)), name=name)
    low, high = (None if bound is None else scalar(layer.op, bound, x.dtype) for bound in (min, max))
    return layer.result("Clip", x, low, high)


# Of complex numbers, for real ones -----------------------------------------------------------------------------------


def real(x: Variable, name: str | None = None) -> Variable:
    """``x``: there are no complex tensors here."""
    return LayerHelper("real", x, name=name).result("Identity", x)


def conj(x: Variable, name: str | None = None) -> Variable:
    """``x``: there are no complex tensors here."""
    return LayerHelper("conj", x, name=name).result("Identity", x)


def angle(x: Variable, name: str | None = None) -> Variable:
    """pi where ``x`` is negative, else 0; NaN where it is NaN."""
    layer = LayerHelper("angle", x, name=name)
    op = layer.op
    x = floating(op, x)
    return layer.result("Mul", op.Relu(op.Neg(op.Sign(x))), math.pi)
