"""Mathematics of two and more operands, which broadcast as in numpy and are promoted to one element type."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np

from onnxgrad.core.ir.arithmetic import promote
from onnxgrad.core.ir.bodies import loop_times
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor.common import Number, as_dtype, binary, floating, log_add_exp, open_promoted
from onnxgrad.tensor.layer import LayerHelper, is_variable, open_layer, require_variables
from onnxgrad.tensor.options import takes_options
from onnxgrad.tensor.remembered import remembers
from onnxgrad.tensor.tables import of_two

__all__ = [
    "add", "add_n", "atan2", "copysign", "divide", "floor_divide", "floor_mod", "fmax", "fmin", "gcd", "heaviside", "hypot",
    "lcm", "ldexp", "lerp", "logaddexp", "maximum", "minimum", "mod", "multiplex", "multiply", "pow", "remainder", "subtract",
]  # fmt: skip


@remembers
@checked
@takes_options
def add(x: Variable, y: Variable | float, name: str | None = None, alpha: Number = 1, out: Variable | None = None) -> Variable:
    """``x + alpha * y``.

    Args:
        x, y: variables that broadcast to one shape, or one of them a number.
        alpha: a factor.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Returns:
        A variable of the broadcast shape, in the element type both promote to.

    Raises:
        ProgramError: if the shapes do not broadcast.
        ArgumentTypeError: if neither is a variable.

    Example:
        >>> paddle.add(static.data("x", [None, 1, 3]), static.data("y", [2, 1])).shape
        (-1, 2, 3)
    """
    return binary("elementwise_add", "Add", x, _times(y, alpha), name)


@remembers
@checked
@takes_options
def subtract(x: Variable, y: Variable | float, name: str | None = None, alpha: Number = 1, out: Variable | None = None) -> Variable:
    """``x - alpha * y``.

    Args:
        x, y: variables that broadcast to one shape, or one of them a number.
        alpha: a factor.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    return binary("elementwise_sub", "Sub", x, _times(y, alpha), name)


def _times(y: Any, alpha: Any) -> Any:
    """``alpha * y``, in the element type of ``y``, as Paddle has it"""
    if isinstance(alpha, (int, float)) and alpha == 1:
        return y
    if not is_variable(y) or is_variable(alpha):
        return y * alpha
    if not y.is_float and not float(alpha).is_integer():
        raise ArgumentTypeError(f"alpha is {alpha}, which no {y.dtype.name} holds. Cast the operand to floats first.")
    return multiply(y, LayerHelper("scale", y).op.constant(alpha, y.dtype))


def _product(layer: LayerHelper, a: Variable, b: Variable) -> Variable:
    return layer.result("And" if a.dtype.name == "bool" else "Mul", a, b)


multiply = of_two("multiply", _product, "``x * y``, element by element; of Booleans whether both are True.", "elementwise_mul")
_quotient = of_two("divide", "Div", "``x / y``.", "elementwise_div", floats=True)


@remembers
@checked
@takes_options
def divide(
    x: Variable,
    y: Variable | float,
    name: str | None = None,
    rounding_mode: Literal["floor", "trunc"] | None = None,
    out: Variable | None = None,
) -> Variable:
    """``x / y``, rounded if asked; integers are divided as float32 unless they are rounded.

    Args:
        x, y: variables that broadcast to one shape, or one of them a number.
        rounding_mode: None for the quotient, 'floor' for the largest integer not above it, 'trunc' for that nearer to 0.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Raises:
        ArgumentError: for another word.

    Example:
        >>> paddle.divide(paddle.to_tensor([-7.0, 7.0]), 2.0, rounding_mode="trunc").tolist()
        [-3.0, 3.0]
    """
    if rounding_mode is None:
        return _quotient(x, y, name)
    floor = floor_divide(x, y, name)
    if rounding_mode == "floor":
        return floor
    op = LayerHelper("elementwise_floordiv", floor).op
    # The quotient of different signs was rounded away from 0, unless nothing was rounded.
    away = op.And(op.Cast(remainder(x, y), to=9), op.Less(floor, op.constant(0, floor.dtype)))
    return add(floor, op.Cast(away, to=floor.dtype.number), name)


pow = of_two("pow", "Pow", "``x`` to the power ``y``.")
maximum = of_two("maximum", "Max", "The larger of two elements, NaN if one is; a tie shares the gradient.", "elementwise_max")
minimum = of_two("minimum", "Min", "The smaller of two elements, NaN if one is; a tie shares the gradient.", "elementwise_min")


@remembers
@checked
@takes_options
def floor_divide(x: Variable, y: Variable | float, name: str | None = None, out: Variable | None = None) -> Variable:
    """The largest integer not above ``x / y``.

    Args:
        x: variable of any shape, or a number.
        y: of a shape that broadcasts with ``x``, or a number.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    layer, op, (a, b) = open_promoted("elementwise_floordiv", x, y, name=name)
    if a.dtype.is_float:
        return layer.result("Floor", op.Div(a, b))
    return layer.result("Div", op.Sub(a, op.Mod(a, b)), b)


@remembers
@checked
@takes_options
def remainder(x: Variable, y: Variable | float, name: str | None = None, out: Variable | None = None) -> Variable:
    """``x - y * floor(x / y)``: the remainder has the sign of ``y``.

    Args:
        x: variable of any shape, or a number.
        y: of a shape that broadcasts with ``x``, or a number.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    layer, op, (a, b) = open_promoted("elementwise_mod", x, y, name=name)
    if a.dtype.is_float:
        return layer.result("Sub", a, op.Mul(b, op.Floor(op.Div(a, b))))
    return layer.result("Mod", a, b)


mod = floor_mod = remainder


def _known_extreme(comparison: str) -> Any:
    def formula(layer: LayerHelper, a: Variable, b: Variable) -> Variable:
        chosen = getattr(layer.op, comparison)(a, b)
        return layer.result("Where", layer.op.Or(chosen, layer.op.IsNaN(b)) if a.is_float else chosen, a, b)

    return formula


fmax = of_two("fmax", _known_extreme("GreaterOrEqual"), "The larger that is not NaN; ties go to ``x``.", "elementwise_fmax")
fmin = of_two("fmin", _known_extreme("LessOrEqual"), "The smaller that is not NaN; ties go to ``x``.", "elementwise_fmin")


@checked
def heaviside(x: Variable, y: Variable | float, name: str | None = None) -> Variable:
    """0 where ``x`` is negative, 1 where it is positive, ``y`` where it is 0.

    Args:
        x: variable of any shape.
        y: of a shape that broadcasts with ``x``.
    """
    require_variables("heaviside", x, y)
    if cast(Variable, y).dtype != x.dtype:
        raise ArgumentError(f"heaviside takes one element type, not {x!r} and {y!r}. Cast one.")
    layer, op, (a, b) = open_promoted("elementwise_heaviside", x, y, name=name)
    zero = op.constant(0, a.dtype)
    step = op.Relu(op.Sign(a)) if a.dtype.is_float else op.Cast(op.Greater(a, zero), to=a.dtype.number)
    return layer.result("Where", op.Equal(a, zero), b, step)


def _copysign(layer: LayerHelper, a: Variable, b: Variable) -> Variable:
    op = layer.op
    dtype, a, b = a.dtype, floating(op, a), floating(op, b)
    zero = op.constant(0.0, b.dtype)
    minus = op.Or(op.Less(b, zero), op.And(op.Equal(b, zero), op.Less(op.Reciprocal(b), zero)))
    size = op.Abs(a)
    signed = op.Where(minus, op.Neg(size), size)
    return layer.result("Cast", signed, to=dtype.number)


def _hypot(layer: LayerHelper, a: Variable, b: Variable) -> Variable:
    return layer.result("Sqrt", layer.op.Add(layer.op.Mul(a, a), layer.op.Mul(b, b)))


def _ldexp(layer: LayerHelper, a: Variable, b: Variable) -> Variable:
    return layer.result("Mul", a, layer.op.Pow(layer.op.constant(2.0, b.dtype), b))


def _atan2(layer: LayerHelper, a: Variable, b: Variable) -> Variable:
    op = layer.op
    zero, one, half = (op.constant(v, a.dtype) for v in (0.0, 1.0, math.pi / 2))
    steep = op.Greater(op.Abs(a), op.Abs(b))
    below = op.Where(steep, a, b)
    angle = op.Atan(op.Div(op.Where(steep, b, a), op.Where(op.Equal(below, zero), one, below)))
    upwards = op.Where(op.Less(a, zero), op.Neg(half), half)
    half_turn = op.Where(op.Less(b, zero), op.Mul(upwards, 2.0), zero)
    return layer.result("Where", steep, op.Sub(upwards, angle), op.Add(angle, half_turn))


def _logaddexp(layer: LayerHelper, a: Variable, b: Variable) -> Variable:
    return layer.result("Identity", log_add_exp(layer.op, a, b))


atan2 = of_two("atan2", _atan2, "The angle of the point with height ``x`` and width ``y``, in (-pi, pi].", floats=True)
copysign = of_two("copysign", _copysign, "The size of ``x`` with the sign of ``y``, in their element type.")
hypot = of_two("hypot", _hypot, "sqrt(x^2 + y^2).", floats=True, numbers=False)
ldexp = of_two("ldexp", _ldexp, "``x`` times 2 to the power ``y``.", floats=True, numbers=False)
logaddexp = of_two("logaddexp", _logaddexp, "log(exp(x) + exp(y)), computed stably.", floats=True)


@remembers
@checked
def lerp(x: Variable, y: Variable, weight: float | Variable, name: str | None = None) -> Variable:
    """``x + weight * (y - x)``.

    Args:
        x: variable of any shape.
        y: of a shape that broadcasts with ``x``.
        weight: a number, or a variable of a shape that broadcasts.
    """
    layer, op, (a, b, w) = open_promoted("lerp", x, y, weight, name=name)
    return layer.result("Add", a, op.Mul(w, op.Sub(b, a)))


def gcd(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Greatest common divisor of integers, by Euclid's steps, unrolled as often as 64 bits can need.

    Args:
        x: integers of any shape.
        y: integers of a shape that broadcasts with ``x``.
    """
    layer = LayerHelper("gcd", x, y, name=name)
    a, b = _wide_integers(layer, "gcd", x, y)
    return layer.result("Cast", _gcd(layer.op, a, b), to=promote(x.dtype, y.dtype).number)


def lcm(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Least common multiple of integers.

    Args:
        x: integers of any shape.
        y: integers of a shape that broadcasts with ``x``.
    """
    layer, op = open_layer("lcm", x, y, name=name)
    a, b = _wide_integers(layer, "lcm", x, y)
    divisor = op.Max(_gcd(op, a, b), 1)
    return layer.result("Cast", op.Abs(op.Mul(op.Div(a, divisor), b)), to=promote(x.dtype, y.dtype).number)


def _wide_integers(layer: LayerHelper, function: str, *items: Variable) -> list[Variable]:
    if any(not item.dtype.is_integer for item in items):
        raise ArgumentError(f"{function} takes integers, not {[item.dtype.name for item in items]}.")
    return [as_dtype(layer.op, item, "int64") for item in items]


_EUCLID_STEPS = 92
"""Two 64-bit Fibonacci neighbours need so many."""


def _gcd(op: Builder, a: Variable, b: Variable) -> Variable:
    zero = op.Mul(op.Add(a, b), 0)

    def step(build: Builder, i: Variable, a: Variable, b: Variable) -> Any:
        done = build.Equal(b, build.constant(np.int64(0)))
        safe = build.Where(done, build.constant(np.int64(1)), b)
        return build.Where(done, a, b), build.Where(done, b, build.Mod(a, safe))

    starts = [("a", op.Add(op.Abs(a), zero)), ("b", op.Add(op.Abs(b), zero))]
    return loop_times(op, np.array(_EUCLID_STEPS), starts, step)[0]


@checked
def add_n(inputs: Variable | Sequence[Variable], name: str | None = None) -> Variable:
    """Sum of several tensors of one shape.

    Args:
        inputs: variables of one shape and element type, or one such.
    """
    items = [inputs] if is_variable(inputs) else list(inputs)
    layer = LayerHelper("sum", *items, name=name)
    if items[0].is_float:
        return layer.result("Sum", *items)
    return functools.reduce(lambda total, item: layer.result("Add", total, item), items)


@checked
def multiplex(inputs: Sequence[Variable], index: Variable, name: str | None = None) -> Variable:
    """Row i of the result is row i of ``inputs[index[i]]``.

    Args:
        inputs: variables of one shape [rows, ...].
        index: integers [rows] or [rows, 1], numbers of ``inputs``.

    Example:
        >>> a, b = static.data("a", [4, 2]), static.data("b", [4, 2])
        >>> paddle.multiplex([a, b], static.data("index", [4, 1], "int64")).shape
        (4, 2)
    """
    if len(inputs) < 2:
        raise ArgumentError(f"multiplex chooses between at least 2 inputs, not {len(inputs)}.")
    layer, op = open_layer("multiplex", *inputs, index, name=name)
    stacked = op.Concat(*(op.Unsqueeze(item, [0]) for item in inputs), axis=0)
    chosen = op.Reshape(as_dtype(op, index, "int64"), np.array([-1, 1]))
    rows = op.Range(np.array(0), op.Squeeze(op.Shape(chosen, start=0, end=1), [0]), np.array(1))
    return layer.result("GatherND", stacked, op.Concat(chosen, op.Unsqueeze(rows, [1]), axis=1))
