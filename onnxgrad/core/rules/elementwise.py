"""Arithmetic, powers, trigonometry, comparison-based selection. Formulas: elementary calculus."""

from __future__ import annotations

import math

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.origin import INSIDE_BOUNDS
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like, masked, or_infinite
from onnxgrad.core.rules.registry import gradient


@gradient("Add", broadcasts=True)
def add(op, node, gz):
    """gx = gz;  gy = gz"""
    return gz, gz


@gradient("Sub", broadcasts=True)
def sub(op, node, gz):
    """gx = gz;  gy = -gz"""
    return gz, op.Neg(gz)


@gradient("Mul", broadcasts=True)
def mul(op, node, gz):
    """gx = gz * y;  gy = gz * x"""
    x, y = node.inputs
    return op.Mul(gz, y), op.Mul(gz, x)


@gradient("Div", broadcasts=True)
def div(op, node, gz):
    """gx = gz / y;  gy = -gx * z"""
    _, y = node.inputs
    (z,) = node.outputs
    gx = op.Div(gz, y)
    return gx, op.Neg(op.Mul(gx, z))


@gradient("Neg")
def neg(op, node, gy):
    """gx = -gy"""
    return op.Neg(gy)


@gradient("Abs")
def abs_(op, node, gy):
    """gx = gy * sign(x), 0 at 0"""
    (x,) = node.inputs
    return op.Mul(gy, op.Sign(x))


@gradient("Exp")
def exp(op, node, gy):
    """gx = gy * y"""
    (y,) = node.outputs
    return op.Mul(gy, y)


@gradient("Log")
def log(op, node, gy):
    """gx = gy / x, 0 where x = 0"""
    return op.Div(gy, or_infinite(op, node.inputs[0]))


@gradient("Sqrt")
def sqrt(op, node, gy):
    """gx = gy / (2 y), 0 where y = 0"""
    (y,) = node.outputs
    return op.Div(op.Mul(gy, 0.5), or_infinite(op, y))


@gradient("Reciprocal")
def reciprocal(op, node, gy):
    """gx = -gy * y^2"""
    (y,) = node.outputs
    return op.Neg(op.Mul(gy, op.Mul(y, y)))


@gradient("Pow", broadcasts=True)
def pow_(op, node, gz):
    """gx = gz * y * x^(y-1), 0 where y = 0 or where x = 0 < y < 1;  gy = gz * z * log(x), 0 where x = 0 <= y"""
    x, exponent = node.inputs
    (z,) = node.outputs
    y = cast_like(op, exponent, x)
    gx = gy = None
    if node.wants(0):
        gx = op.Mul(gz, _derivative_of_power(op, x, y, exponent))
    if node.wants(1):
        at_zero = op.And(op.Equal(x, 0.0), op.GreaterOrEqual(y, 0.0))
        gy = op.Mul(gz, op.Where(at_zero, 0.0, op.Mul(z, op.Log(op.Where(at_zero, 1.0, x)))))
    return gx, gy


def _derivative_of_power(op: Builder, x: Variable, y: Variable, exponent: Variable) -> Variable:
    """y * x^(y-1), shorter for a constant exponent"""
    value = exponent.value
    if value is not None and not exponent.persistable and value.size == 1:
        number = float(value.numpy().reshape(-1)[0])
        if number == 2.0:
            return op.Mul(x, 2.0)
        if number == 3.0:
            return op.Mul(op.Mul(x, x), 3.0)
        if number != 0.0:
            return op.Mul(op.Pow(or_infinite(op, x) if 0.0 < number < 1.0 else x, op.Sub(y, 1.0)), y)
    rooted = op.And(op.Equal(x, 0.0), op.And(op.Greater(y, 0.0), op.Less(y, 1.0)))
    flat = op.Or(op.Equal(y, 0.0), rooted)
    return op.Where(flat, 0.0, op.Mul(op.Pow(op.Where(flat, 1.0, x), op.Sub(y, 1.0)), y))


@gradient("Erf")
def erf(op, node, gy):
    """gx = gy * 2/sqrt(pi) * exp(-x^2)"""
    (x,) = node.inputs
    return op.Mul(gy, op.Mul(op.Exp(op.Neg(op.Mul(x, x))), 2.0 / math.sqrt(math.pi)))


@gradient("Sin")
def sin(op, node, gy):
    """gx = gy * cos(x)"""
    return op.Mul(gy, op.Cos(node.inputs[0]))


@gradient("Cos")
def cos(op, node, gy):
    """gx = -gy * sin(x)"""
    return op.Neg(op.Mul(gy, op.Sin(node.inputs[0])))


@gradient("Tan")
def tan(op, node, gy):
    """gx = gy * (1 + y^2)"""
    (y,) = node.outputs
    return op.Mul(gy, op.Add(op.Mul(y, y), 1.0))


@gradient("Asin")
def asin(op, node, gy):
    """gx = gy / sqrt(1 - x^2)"""
    (x,) = node.inputs
    return op.Div(gy, op.Sqrt(op.Sub(1.0, op.Mul(x, x))))


@gradient("Acos")
def acos(op, node, gy):
    """gx = -gy / sqrt(1 - x^2)"""
    return op.Neg(asin(op, node, gy))


@gradient("Atan")
def atan(op, node, gy):
    """gx = gy / (1 + x^2)"""
    (x,) = node.inputs
    return op.Div(gy, op.Add(op.Mul(x, x), 1.0))


@gradient("Sinh")
def sinh(op, node, gy):
    """gx = gy * cosh(x)"""
    return op.Mul(gy, op.Cosh(node.inputs[0]))


@gradient("Cosh")
def cosh(op, node, gy):
    """gx = gy * sinh(x)"""
    return op.Mul(gy, op.Sinh(node.inputs[0]))


@gradient("Asinh")
def asinh(op, node, gy):
    """gx = gy / sqrt(x^2 + 1)"""
    (x,) = node.inputs
    return op.Div(gy, op.Sqrt(op.Add(op.Mul(x, x), 1.0)))


@gradient("Acosh")
def acosh(op, node, gy):
    """gx = gy / sqrt(x^2 - 1)"""
    (x,) = node.inputs
    return op.Div(gy, op.Sqrt(op.Sub(op.Mul(x, x), 1.0)))


@gradient("Atanh")
def atanh(op, node, gy):
    """gx = gy / (1 - x^2)"""
    (x,) = node.inputs
    return op.Div(gy, op.Sub(1.0, op.Mul(x, x)))


@gradient("Max", "Min", broadcasts=True)
def extreme(op, node, gz):
    """gx_i = gz where x_i is the extreme; ties share it equally"""
    (z,) = node.outputs
    chosen = [cast_like(op, op.Equal(x, z), gz) for x in node.inputs]
    if len(chosen) == 1:
        return gz
    share = op.Div(gz, op.Add(*chosen) if len(chosen) == 2 else op.Sum(*chosen))
    return tuple(op.Mul(share, mask) for mask in chosen)


@gradient("Sum", broadcasts=True)
def sum_(op, node, gz):
    """gx_i = gz"""
    return (gz,) * len(node.inputs)


@gradient("Mean", broadcasts=True)
def mean(op, node, gz):
    """gx_i = gz / number of inputs"""
    share = op.Mul(gz, 1.0 / len(node.inputs))
    return (share,) * len(node.inputs)


@gradient("Mod", broadcasts=True)
def mod(op, node, gz):
    """gx = gz;  gy = -gz * trunc(x / y), or floor(x / y) for fmod=0 (real numbers since opset 28)"""
    x, y = node.inputs
    quotient = op.Div(x, y)
    if not node.attr("fmod"):
        return gz, op.Neg(op.Mul(gz, op.Floor(quotient)))
    whole = op.Mul(op.Sign(quotient), op.Floor(op.Abs(quotient)))
    return gz, op.Neg(op.Mul(gz, whole))


@gradient("Where", broadcasts=True)
def where(op, node, gz):
    """gx = gz where the condition holds, else 0;  gy the other way round"""
    condition = node.inputs[0]
    return None, op.Where(condition, gz, 0.0), op.Where(condition, 0.0, gz)


@gradient("Clip")
def clip(op, node, gy):
    """gx = gy where min <= x <= max;  gmin, gmax = the rest of gy, summed"""
    x = node.inputs[0]
    low, high = node.operand("min"), node.operand("max")
    inside = None
    below = above = None
    if low is not None:
        inside = op.GreaterOrEqual(x, low)
        if node.wants(1):
            effective = op.Not(inside) if high is None else op.And(op.Not(inside), op.LessOrEqual(low, high))
            below = op.ReduceSum(masked(op, gy, effective), keepdims=0)
    if high is not None:
        under = op.LessOrEqual(x, high)
        if node.wants(2):
            effective = op.Not(under) if low is None else op.Or(op.Not(under), op.Less(high, low))
            above = op.ReduceSum(masked(op, gy, effective), keepdims=0)
        inside = under if inside is None else node.wrote(INSIDE_BOUNDS, op.And(inside, under))
    return (gy if inside is None else masked(op, gy, inside)), below, above


@gradient("Cast", "CastLike", moves=True)
def cast(op, node, gy):
    """gx = gy in the element type of x"""
    return gy


@gradient("Identity", moves=True)
def identity(op, node, gy):
    """gx = gy"""
    return gy
