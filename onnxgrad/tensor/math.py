"""Element-wise mathematics, with Paddle's argument names. Operands broadcast as in numpy and are promoted to one element type."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import cast

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor.common import Number, floating, open_floats, scalar, unary
from onnxgrad.tensor.layer import ActivationName, LayerHelper, is_variable, open_layer, variables_in
from onnxgrad.tensor.options import takes_options, written
from onnxgrad.tensor.remembered import remembers
from onnxgrad.tensor.tables import of_one

__all__ = [
    "abs", "acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "ceil", "clip", "conj", "cos", "cosh", "deg2rad", "erf",
    "exp", "expm1", "floor", "frac", "increment", "log", "log1p", "log2", "log10", "logit", "nan_to_num", "neg", "negative",
    "positive", "rad2deg", "real", "reciprocal", "round", "rsqrt", "scale", "sgn", "sigmoid", "sign", "signbit", "sin", "sinc",
    "sinh", "sqrt", "square", "stanh", "tan", "tanh", "trunc",
]  # fmt: skip


# One operand ---------------------------------------------------------------------------------------------------------


@remembers
@takes_options
def exp(x: Variable, name: str | None = None, out: Variable | None = None) -> Variable:
    """e to the power ``x``.

    Args:
        x: variable of any shape; integers are computed as float32, as in all functions here.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Returns:
        A variable of the shape of ``x``.

    Raises:
        NotAVariable: if ``x`` is not a variable.

    Example:
        >>> paddle.exp(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return unary("exp", "Exp", x, name)


log = of_one("log", "Log", "Natural logarithm.")
log2 = of_one("log2", lambda layer, x: layer.result("Div", layer.op.Log(x), math.log(2.0)), "Logarithm to the base 2.")
log10 = of_one("log10", lambda layer, x: layer.result("Div", layer.op.Log(x), math.log(10.0)), "Logarithm to the base 10.")


@remembers
@takes_options
def log1p(x: Variable, name: str | None = None, out: Variable | None = None) -> Variable:
    """log(1 + x), accurate near 0: there 2 artanh(x / (x + 2)).

    Args:
        x: floats of any shape; integers count as float32.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    layer, op, x = open_floats("log1p", x, name)
    plain = op.Log(op.Add(x, 1.0))
    if x.dtype == "float64":
        return layer.result("Identity", plain)
    accurate = op.Mul(op.Atanh(op.Div(x, op.Add(x, 2.0))), 2.0)
    return layer.result("Where", op.Less(x, op.constant(1.0, x.dtype)), accurate, plain)


@remembers
@takes_options
def expm1(x: Variable, name: str | None = None, out: Variable | None = None) -> Variable:
    """exp(x) - 1, accurate near 0: (exp(x) + 1) tanh(x / 2).

    Args:
        x: floats of any shape; integers count as float32.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    layer, op, x = open_floats("expm1", x, name)
    return layer.result("Mul", op.Add(op.Exp(x), 1.0), op.Tanh(op.Mul(x, 0.5)))


sqrt = of_one("sqrt", "Sqrt", "Square root.")
rsqrt = of_one("rsqrt", lambda layer, x: layer.result("Reciprocal", layer.op.Sqrt(x)), "1 / sqrt(x).")
square = of_one("square", lambda layer, x: layer.result("Mul", x, x), "``x * x``.", floats=False)
reciprocal = of_one("reciprocal", "Reciprocal", "1 / x.")
abs = of_one("abs", "Abs", "Absolute value; gradient 0 at 0.", floats=False)
sign = of_one("sign", "Sign", "-1, 0 or 1.", floats=False)
sgn = of_one("sgn", "Sign", "-1, 0 or 1.", floats=False)
neg = negative = of_one("neg", "Neg", "Negate each element.", floats=False)


def positive(x: Variable, name: str | None = None) -> Variable:
    """Return each element as it is, as ``+x`` does.

    Args:
        x: variable of any shape.
    """
    return LayerHelper("positive", x, name=name).result("Identity", x)


sin = of_one("sin", "Sin", "Sine of each element.")
cos = of_one("cos", "Cos", "Cosine of each element.")
tan = of_one("tan", "Tan", "Tangent of each element.")
asin = of_one("asin", "Asin", "Inverse sine.")
acos = of_one("acos", "Acos", "Inverse cosine.")
atan = of_one("atan", "Atan", "Inverse tangent.")
sinh = of_one("sinh", "Sinh", "Hyperbolic sine.")
cosh = of_one("cosh", "Cosh", "Hyperbolic cosine.")
tanh = of_one("tanh", "Tanh", "Hyperbolic tangent.")
asinh = of_one("asinh", "Asinh", "Inverse hyperbolic sine.")
acosh = of_one("acosh", "Acosh", "Inverse hyperbolic cosine.")
atanh = of_one("atanh", "Atanh", "Inverse hyperbolic tangent.")
sigmoid = of_one("sigmoid", "Sigmoid", "1 / (1 + exp(-x)).")
erf = of_one("erf", "Erf", "Error function.")
rad2deg = of_one("rad2deg", lambda layer, x: layer.result("Mul", x, 180.0 / math.pi), "Radians as degrees.")
deg2rad = of_one("deg2rad", lambda layer, x: layer.result("Mul", x, math.pi / 180.0), "Degrees as radians.")


@remembers
@checked
def stanh(x: Variable, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None) -> Variable:
    """scale_b tanh(scale_a x).

    Args:
        x: floats of any shape; integers count as float32.
        scale_a: the inner factor.
        scale_b: the outer factor.
    """
    layer = LayerHelper("stanh", x, name=name)
    return layer.result("Mul", layer.op.Tanh(layer.op.Mul(floating(layer.op, x), scale_a)), scale_b)


@checked
def logit(x: Variable, eps: float | None = None, name: str | None = None) -> Variable:
    """log(x / (1 - x)), of ``x`` limited to [eps, 1 - eps] if ``eps`` is given.

    Args:
        x: floats of any shape; integers count as float32.
        eps: the limit, below 0.5; None for no limit.
    """
    layer, op, x = open_floats("logit", x, name)
    if eps is not None:
        x = op.Clip(x, eps, 1.0 - eps)
    return layer.result("Log", op.Div(x, op.Sub(1.0, x)))


def sinc(x: Variable, name: str | None = None) -> Variable:
    """sin(pi x) / (pi x), and 1 at 0.

    Args:
        x: floats of any shape; integers count as float32.
    """
    layer, op = open_layer("sinc", x, name=name)
    angle = op.Mul(floating(op, x), math.pi)
    at_zero = op.Equal(angle, op.constant(0.0, angle.dtype))
    ratio = op.Div(op.Sin(angle), op.Where(at_zero, op.constant(1.0, angle.dtype), angle))
    return layer.result("Where", at_zero, op.constant(1.0, angle.dtype), ratio)


def _whole(op_type: str) -> Callable[[LayerHelper, Variable], Variable]:
    """An operator that leaves integers as they are, which are whole"""
    return lambda layer, x: layer.result(op_type if x.dtype.is_float else "Identity", x)


floor = of_one("floor", _whole("Floor"), "Largest integer not above ``x``.", floats=False)
ceil = of_one("ceil", _whole("Ceil"), "Smallest integer not below ``x``.", floats=False)


@remembers
@checked
@takes_options
def round(x: Variable, decimals: int = 0, name: str | None = None, out: Variable | None = None) -> Variable:
    """Nearest number with so many decimals; a half goes to the even neighbour.

    Args:
        x: variable of any shape.
        decimals: how many digits stay behind the point; negative before it.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    layer, op = open_layer("round", x, name=name)
    if decimals == 0 and not x.dtype.is_float:
        return layer.result("Identity", x)
    x = floating(op, x)
    if decimals == 0:
        return layer.result("Round", x)
    return layer.result("Div", op.Round(op.Mul(x, 10.0**decimals)), 10.0**decimals)


def trunc(input: Variable, name: str | None = None) -> Variable:
    """The integer next to ``input`` on the side of 0.

    Args:
        input: variable of any shape.
    """
    layer, op = open_layer("trunc", input, name=name)
    if not input.dtype.is_float:
        return layer.result("Identity", input)
    return layer.result("Mul", op.Sign(input), op.Floor(op.Abs(input)))


@takes_options
def frac(x: Variable, name: str | None = None, out: Variable | None = None) -> Variable:
    """Give the fraction that ``trunc`` drops; zeros of integers.

    Args:
        x: variable of any shape.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    return LayerHelper("frac", x, name=name).result("Sub", x, trunc(x))


def signbit(x: Variable, name: str | None = None) -> Variable:
    """Whether the sign of ``x`` is minus, also of -0.0.

    Args:
        x: floats of any shape; integers count as float32.
    """
    layer, op, x = open_floats("signbit", x, name)
    zero = op.constant(0.0, x.dtype)
    negative_zero = op.And(op.Equal(x, zero), op.Less(op.Reciprocal(x), zero))
    return layer.result("Or", op.Less(x, zero), negative_zero)


@checked
def nan_to_num(
    x: Variable, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None, name: str | None = None
) -> Variable:
    """Numbers in place of NaN and infinities; the limits of the type unless given.

    Args:
        x: floats of any shape.
        nan: in place of NaN.
        posinf: in place of infinity; the largest number of the type unless given.
        neginf: in place of minus infinity; the least number of the type unless given.
    """
    layer, op = open_layer("nan_to_num", x, name=name)
    if not x.dtype.is_float:
        return layer.result("Identity", x)
    largest = float(np.finfo(x.dtype.numpy).max)
    high, low = (largest if posinf is None else posinf), (-largest if neginf is None else neginf)
    y = op.Where(op.IsNaN(x), op.constant(nan, x.dtype), x)
    y = op.Where(op.IsInf(x, detect_negative=0), op.constant(high, x.dtype), y)
    return layer.result("Where", op.IsInf(x, detect_positive=0), op.constant(low, x.dtype), y)


@checked
def increment(x: Variable, value: float = 1.0, name: str | None = None) -> Variable:
    """Add ``value`` to ``x`` in place: what is appended from then on reads the sum, and a persistable one keeps it after the run.

    Args:
        x: of one element.
        value: what is added.
    """
    sum_ = LayerHelper("increment", x, name=name).result("Add", x, np.asarray(value, x.dtype.numpy))
    return cast("Variable", written("increment", x, sum_))


@remembers
@checked
def scale(
    x: Variable,
    scale: float | Variable = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: ActivationName | None = None,
    name: str | None = None,
) -> Variable:
    """``scale * x + bias``, or ``scale * (x + bias)``; then an activation by its name.

    Args:
        x: variable of any shape.
        scale: the factor, a number or a variable of one element.
        bias: what is added.
        bias_after_scale: whether it is added after the product.
        act: name of an activation; None for none.
    """
    layer, op = open_layer("scale", x, name=name)
    factor, offset = scalar(op, scale, x.dtype), op.constant(np.asarray(bias), x.dtype)
    if not is_variable(scale) and bias == 0.0:
        y = layer.result("Mul", x, factor)
    elif bias_after_scale:
        y = layer.result("Add", op.Mul(x, factor), offset)
    else:
        y = layer.result("Mul", op.Add(x, offset), factor)
    return layer.activate(y, act)


@remembers
@checked
@takes_options
def clip(
    x: Variable, min: Number | None = None, max: Number | None = None, name: str | None = None, out: Variable | None = None
) -> Variable:
    """Elements limited to [min, max]; the gradient passes at the limits.

    Args:
        x: variable of any shape; integers count as float32 where a limit is no whole number.
        min, max: numbers, or variables of one element; None for no limit.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> paddle.clip(static.data("x", [None, 3]), min=0.0).shape
        (-1, 3)
    """
    layer = LayerHelper("clip", x, *variables_in(min, max), name=name)
    if not x.dtype.is_float and builtins.any(isinstance(bound, float) and not bound.is_integer() for bound in (min, max)):
        x = floating(layer.op, x)
    low, high = (None if bound is None else scalar(layer.op, bound, x.dtype) for bound in (min, max))
    return layer.result("Clip", x, low, high)


# Of complex numbers, for real ones -----------------------------------------------------------------------------------


real = of_one("real", "Identity", "``x``: there are no complex tensors here.", floats=False)
conj = of_one("conj", "Identity", "``x``: there are no complex tensors here.", floats=False)


def angle(x: Variable, name: str | None = None) -> Variable:
    """pi where ``x`` is negative, else 0; NaN where it is NaN.

    Args:
        x: floats of any shape; integers count as float32.
    """
    layer, op, x = open_floats("angle", x, name)
    return layer.result("Mul", op.Relu(op.Neg(op.Sign(x))), math.pi)
