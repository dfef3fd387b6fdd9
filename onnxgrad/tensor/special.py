"""Functions that ONNX does not have, as series and approximations in its operators; differentiable as such.

Lanczos' approximation of the gamma function (g = 7, nine terms), Giles' of the inverse error function (2010), the asymptotic
series of the polygamma functions.
"""

# Tests: tests/tensor/test_math.py.

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor.common import as_dtype, open_floats
from onnxgrad.tensor.layer import LayerHelper

__all__ = ["digamma", "erfinv", "gammaln", "lgamma", "multigammaln", "polygamma"]

_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip


def lgamma(x: Variable, name: str | None = None) -> Variable:
    """Logarithm of the absolute value of the gamma function; below 0.5 by reflection.

    It is computed in float64, since large terms cancel near its zeros, 1 and 2.

    Args:
        x: floats of any shape.

    Example:
        >>> paddle.lgamma(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    layer, op, narrow = open_floats("lgamma", x, name)
    x = as_dtype(op, narrow, "float64")
    low = op.Less(x, op.constant(0.5, x.dtype))
    above = _log_gamma_above_half(op, op.Where(low, op.Sub(1.0, x), x))
    # Away from the low branch the sine is replaced before the logarithm, so that no 0 * inf enters a gradient.
    sine = op.Where(low, op.Sin(op.Mul(x, math.pi)), op.constant(1.0, x.dtype))
    reflected = op.Sub(op.Sub(math.log(math.pi), op.Log(op.Abs(sine))), above)
    return layer.result("Cast", op.Where(low, reflected, above), to=narrow.dtype.number)


gammaln = lgamma


def _log_gamma_above_half(op: Builder, x: Variable) -> Variable:
    z = op.Sub(x, 1.0)
    total = op.constant(_LANCZOS[0], x.dtype)
    for i, coefficient in enumerate(_LANCZOS[1:], start=1):
        total = op.Add(total, op.Div(op.constant(coefficient, x.dtype), op.Add(z, float(i))))
    t = op.Add(z, 7.5)
    power = op.Mul(op.Add(z, 0.5), op.Log(t))
    return op.Add(op.Sub(power, t), op.Add(op.Log(total), 0.5 * math.log(2 * math.pi)))


@checked
def multigammaln(x: Variable, p: int, name: str | None = None) -> Variable:
    """Logarithm of the multivariate gamma function of dimension ``p``.

    Args:
        x: floats of any shape.
        p: the dimension, from 1.
    """
    layer = LayerHelper("multigammaln", x, name=name)
    if p < 1:
        raise ArgumentError(f"multigammaln: p must be 1 or more, not {p}.")
    total: Any = layer.op.Add(lgamma(x), 0.25 * p * (p - 1) * math.log(math.pi))
    for i in range(1, p):
        total = layer.op.Add(total, lgamma(layer.op.Sub(x, 0.5 * i)))
    return layer.result("Identity", total)


_SHIFT = 8
"""From here on the asymptotic series are exact to double precision with the terms below."""
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def digamma(x: Variable, name: str | None = None) -> Variable:
    """Derivative of ``lgamma``; below 0.5 by reflection.

    Args:
        x: floats of any shape.
    """
    layer, op, x = open_floats("digamma", x, name)
    low = op.Less(x, op.constant(0.5, x.dtype))
    z = op.Where(low, op.Sub(1.0, x), x)
    total: Any = op.Div(op.constant(-1.0, x.dtype), z)
    for k in range(1, _SHIFT):
        total = op.Sub(total, op.Reciprocal(op.Add(z, float(k))))
    z = op.Add(z, float(_SHIFT))
    total = op.Add(total, op.Sub(op.Log(z), op.Div(op.constant(0.5, x.dtype), z)))
    inverse_square = op.Reciprocal(op.Mul(z, z))
    terms = [-b / (2 * (k + 1)) for k, b in enumerate(_BERNOULLI)]
    total = op.Add(total, op.Mul(inverse_square, _polynomial(op, inverse_square, terms)))
    angle = op.Where(low, op.Mul(x, math.pi), op.constant(math.pi / 4, x.dtype))
    return layer.result("Where", low, op.Sub(total, op.Div(math.pi, op.Tan(angle))), total)


@checked
def polygamma(x: Variable, n: int, name: str | None = None) -> Variable:
    """The ``n``-th derivative of ``digamma``, for positive ``x``.

    Args:
        x: floats of any shape.
        n: how often it is differentiated; 0 for ``digamma``.

    Raises:
        ArgumentError: for a negative ``n``.
    """
    if n < 0:
        raise ArgumentError(f"polygamma: n must be 0 or more, not {n}.")
    if n == 0:
        return digamma(x, name)
    layer, op, z = open_floats("polygamma", x, name)
    terms = [op.Pow(op.Add(z, float(k)), op.constant(-(n + 1.0), z.dtype)) for k in range(_SHIFT)]
    total = functools.reduce(op.Add, terms)
    # Euler and Maclaurin's formula for what is left of the sum.
    far = op.Add(z, float(_SHIFT))
    tail = op.Div(op.Pow(far, op.constant(-float(n), z.dtype)), float(n))
    tail = op.Add(tail, op.Mul(op.Pow(far, op.constant(-(n + 1.0), z.dtype)), 0.5))
    for k, b in enumerate(_BERNOULLI, start=1):
        factor = b * math.prod(n + j for j in range(1, 2 * k)) / math.factorial(2 * k)
        tail = op.Add(tail, op.Mul(op.Pow(far, op.constant(-float(n + 2 * k), z.dtype)), factor))
    return layer.result("Mul", op.Add(total, tail), float((-1) ** (n + 1) * math.factorial(n)))


_CENTRAL = (
    1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06, -3.5233877e-06, 3.43273939e-07,
    2.81022636e-08,
)  # fmt: skip
_TAIL = (
    2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322, 0.000100950558,
    -0.000200214257,
)  # fmt: skip


def erfinv(x: Variable, name: str | None = None) -> Variable:
    """Inverse of the error function on (-1, 1); infinite at the ends.

    Giles' polynomials, followed by one step of Newton's method, which makes value and derivative exact.

    Args:
        x: floats of any shape, between -1 and 1.
    """
    layer, op, x = open_floats("erfinv", x, name)
    one = op.constant(1.0, x.dtype)
    inside = op.Less(op.Abs(x), one)
    safe = op.Where(inside, x, op.constant(0.0, x.dtype))
    guess = inverse_erf(op, safe)
    slope = op.Mul(op.Exp(op.Mul(guess, guess)), math.sqrt(math.pi) / 2)
    refined = op.Sub(guess, op.Mul(op.Sub(op.Erf(guess), safe), slope))
    beyond, infinite = op.constant(np.nan, x.dtype), op.constant(np.inf, x.dtype)
    limit = op.Where(op.Equal(x, one), infinite, op.Where(op.Equal(x, op.Neg(one)), op.Neg(infinite), beyond))
    return layer.result("Where", inside, refined, limit)


def inverse_erf(op: Builder, x: Variable) -> Variable:
    """Giles' polynomials alone: 6 digits."""
    w = op.Neg(op.Log(op.Mul(op.Sub(1.0, x), op.Add(1.0, x))))
    central = op.Less(w, op.constant(5.0, x.dtype))
    near = _polynomial(op, op.Sub(w, 2.5), _CENTRAL)
    far = _polynomial(op, op.Sub(op.Sqrt(op.Where(central, op.constant(5.0, x.dtype), w)), 3.0), _TAIL)
    return op.Mul(op.Where(central, near, far), x)


def _polynomial(op: Builder, x: Variable, coefficients: Any) -> Any:
    """By Horner's rule, the constant term first"""
    total: Any = op.constant(coefficients[-1], x.dtype)
    for coefficient in reversed(coefficients[:-1]):
        total = op.Add(op.Mul(total, x), op.constant(coefficient, x.dtype))
    return total
