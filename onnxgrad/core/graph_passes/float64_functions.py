"""Functions of one number in float64, out of operators that onnxruntime's CPU provider computes in float64.

Relative errors are at most 3e-15 against Python's ``math``; Tan has 1e-14, or 2e-16 absolutely, as onnxruntime's Sin near multiples
of pi. Coefficients of the inverse tangent and of the error function: S. L. Moshier, Cephes Mathematical Library, 2000.

Tests: tests/core/graph_passes/test_float64.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.operator import Operator, as_stored
from onnxgrad.core.ir.variable import Variable

__all__ = ["AT_18", "FUNCTIONS", "Written", "written_form"]

Written = Callable[[Any, Operator], "list[Variable | None] | None"]


def written_form(function: Callable[..., Any], *attributes: str) -> Written:
    """A form of an operator with one result: a function of a builder, its operands and these attributes."""

    def form(op: Any, node: Operator) -> list[Variable | None]:
        return [function(op, *node.inputs, *(as_stored(node.attr(name)) for name in attributes))]

    form.__doc__ = function.__doc__
    return form


# Exponentials -------------------------------------------------------------------------------------------------------------


def _log1p(op: Any, x: Any) -> Any:
    """log(1 + x), exact to rounding near 0: the quotient of log(u) and u - 1 varies slowly, so the error of u = 1 + x cancels"""
    u = op.Add(x, 1.0)
    return op.Where(op.Equal(u, 1.0), x, op.Div(op.Mul(op.Log(u), x), op.Sub(u, 1.0)))


def _expm1(op: Any, x: Any) -> Any:
    """exp(x) - 1 = 2 t / (1 - t) with t = tanh(x / 2), for x up to 1"""
    t = op.Tanh(op.Mul(x, 0.5))
    return op.Div(op.Mul(t, 2.0), op.Sub(1.0, t))


def _softplus(op: Any, x: Any) -> Any:
    """max(x, 0) + log(1 + exp(-|x|))"""
    return op.Add(op.Max(x, 0.0), _log1p(op, op.Exp(op.Neg(op.Abs(x)))))


def _sinh(op: Any, x: Any) -> Any:
    """2 t / (1 - t^2) with t = tanh(x / 2) up to 1; beyond, half the difference of the exponentials"""
    t = op.Tanh(op.Mul(x, 0.5))
    near = op.Div(op.Mul(t, 2.0), op.Sub(1.0, op.Mul(t, t)))
    grows, falls = _half_exponentials(op, x)
    return op.Where(op.Less(op.Abs(x), 1.0), near, op.Mul(op.Sign(x), op.Sub(grows, falls)))


def _cosh(op: Any, x: Any) -> Any:
    """Half the sum of the exponentials"""
    return op.Add(*_half_exponentials(op, x))


def _half_exponentials(op: Any, x: Any) -> tuple[Any, Any]:
    """exp(|x|) / 2 and exp(-|x|) / 2, without overflow before the result overflows"""
    root = op.Exp(op.Mul(op.Abs(x), 0.5))
    return op.Mul(op.Mul(root, 0.5), root), op.Div(op.Div(0.5, root), root)


_LARGE = 2.0**28


def _asinh(op: Any, x: Any) -> Any:
    """log(|x| + sqrt(x^2 + 1)) with the sign of x"""
    a = op.Abs(x)
    b = op.Min(a, _LARGE)
    square = op.Mul(b, b)
    near = _log1p(op, op.Add(b, op.Div(square, op.Add(op.Sqrt(op.Add(square, 1.0)), 1.0))))
    return _with_sign(op, op.Where(op.Greater(a, _LARGE), op.Add(op.Log(a), math.log(2)), near), x)


def _acosh(op: Any, x: Any) -> Any:
    """log(x + sqrt(x^2 - 1))"""
    t = op.Sub(op.Min(x, _LARGE), 1.0)
    near = _log1p(op, op.Add(t, op.Mul(op.Sqrt(t), op.Sqrt(op.Add(t, 2.0)))))
    return op.Where(op.Greater(x, _LARGE), op.Add(op.Log(x), math.log(2)), near)


def _atanh(op: Any, x: Any) -> Any:
    """(log(1 + x) - log(1 - x)) / 2"""
    return op.Mul(op.Sub(_log1p(op, x), _log1p(op, op.Neg(x))), 0.5)


def _with_sign(op: Any, size: Any, x: Any) -> Any:
    return op.Where(op.Less(x, 0.0), op.Neg(size), size)


# Inverse trigonometric functions and the error function --------------------------------------------------------------------

_ATAN_P = (-8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1, -1.228866684490136173410e2,
           -6.485021904942025371773e1)  # fmt: skip
_ATAN_Q = (1.0, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2, 4.853903996359136964868e2,
           1.945506571482613964425e2)  # fmt: skip
_ERF_T = (9.60497373987051638749e0, 9.00260197203842689217e1, 2.23200534594684319226e3, 7.00332514112805075473e3,
          5.55923013010394962768e4)  # fmt: skip
_ERF_U = (1.0, 3.35617141647503099647e1, 5.21357949780152679795e2, 4.59432382970980127987e3, 2.26290000613890934246e4,
          4.92673942608635921086e4)  # fmt: skip
_ERFC_P = (2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0, 4.86371970985681366614e1,
           1.96520832956077098242e2, 5.26445194995477358631e2, 9.34528527171957607540e2, 1.02755188689515710272e3,
           5.57535335369399327526e2)  # fmt: skip
_ERFC_Q = (1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2, 9.75708501743205489753e2,
           1.82390916687909736289e3, 2.24633760818710981792e3, 1.65666309194161350182e3, 5.57535340817727675546e2)  # fmt: skip


def _polynomial(op: Any, x: Any, coefficients: Sequence[float]) -> Any:
    """By Horner's rule, the highest power first"""
    first, second, *rest = coefficients
    total = op.Add(x if first == 1.0 else op.Mul(x, first), second)
    for c in rest:
        total = op.Add(op.Mul(total, x), c)
    return total


def _ratio(op: Any, x: Any, above: Sequence[float], below: Sequence[float]) -> Any:
    return op.Div(_polynomial(op, x, above), _polynomial(op, x, below))


def _atan(op: Any, x: Any) -> Any:
    """A rational function up to 0.66; beyond, atan(a) = pi/4 + atan((a - 1) / (a + 1)), and from 2.41 pi/2 - atan(1 / a)"""
    a = op.Abs(x)
    far, middle = op.Greater(a, 1.0 + math.sqrt(2.0)), op.Greater(a, 0.66)
    moved = op.Where(middle, op.Div(op.Sub(a, 1.0), op.Add(a, 1.0)), a)
    r = op.Where(far, op.Neg(op.Reciprocal(a)), moved)
    base = op.Where(far, _number(op, math.pi / 2), op.Where(middle, _number(op, math.pi / 4), _number(op, 0.0)))
    z = op.Mul(r, r)
    series = op.Add(r, op.Mul(op.Mul(r, z), _ratio(op, z, _ATAN_P, _ATAN_Q)))
    return _with_sign(op, op.Add(base, series), x)


def _number(op: Any, value: float) -> Any:
    return op.constant(np.float64(value))


def _asin(op: Any, x: Any) -> Any:
    """atan(x / sqrt(1 - x^2))"""
    return _atan(op, op.Div(x, op.Sqrt(op.Mul(op.Sub(1.0, x), op.Add(x, 1.0)))))


def _acos(op: Any, x: Any) -> Any:
    """2 atan(sqrt((1 - x) / (1 + x)))"""
    return op.Mul(_atan(op, op.Sqrt(op.Div(op.Sub(1.0, x), op.Add(x, 1.0)))), 2.0)


def _erf(op: Any, x: Any) -> Any:
    """A rational function of x up to 1; beyond, 1 - exp(-x^2) times one of |x|"""
    a = op.Abs(x)
    b = op.Min(a, 6.0)
    square = op.Mul(b, b)
    near = op.Mul(x, _ratio(op, square, _ERF_T, _ERF_U))
    far = op.Sub(1.0, op.Mul(op.Exp(op.Neg(square)), _ratio(op, b, _ERFC_P, _ERFC_Q)))
    return op.Where(op.Less(a, 1.0), near, _with_sign(op, far, x))


# Activations ---------------------------------------------------------------------------------------------------------------


def _tan(op: Any, x: Any) -> Any:
    return op.Div(op.Sin(x), op.Cos(x))


def _gelu(op: Any, x: Any, approximate: str) -> Any:
    """x (1 + erf(x / sqrt(2))) / 2; onnxruntime computes the one by tanh with constants in float32"""
    if approximate == "tanh":
        cubic = op.Add(x, op.Mul(op.Mul(op.Mul(x, x), x), 0.044715))
        return op.Mul(op.Mul(x, 0.5), op.Add(op.Tanh(op.Mul(cubic, math.sqrt(2 / math.pi))), 1.0))
    return op.Mul(op.Mul(x, 0.5), op.Add(_erf(op, op.Mul(x, math.sqrt(0.5))), 1.0))


def _elu(op: Any, x: Any, alpha: float) -> Any:
    return op.Where(op.Less(x, 0.0), op.Mul(_expm1(op, op.Min(x, 0.0)), alpha), x)


def _selu(op: Any, x: Any, alpha: float, gamma: float) -> Any:
    return op.Mul(_elu(op, x, alpha), gamma)


def _leaky_relu(op: Any, x: Any, alpha: float) -> Any:
    return op.Where(op.Less(x, 0.0), op.Mul(x, alpha), x)


def _prelu(op: Any, x: Any, slope: Any) -> Any:
    return op.Where(op.Less(x, 0.0), op.Mul(x, slope), x)


def _thresholded_relu(op: Any, x: Any, alpha: float) -> Any:
    return op.Where(op.LessOrEqual(x, alpha), _number(op, 0.0), x)


def _shrink(op: Any, x: Any, lambd: float, bias: float) -> Any:
    """x moved towards 0 by the bias, and 0 within lambd: onnxruntime's kernel rounds its results to float32"""
    above = op.Where(op.Greater(x, lambd), op.Sub(x, bias), _number(op, 0.0))
    return op.Where(op.Less(x, -lambd), op.Add(x, bias), above)


def _softsign(op: Any, x: Any) -> Any:
    return op.Div(x, op.Add(op.Abs(x), 1.0))


def _hard_sigmoid(op: Any, x: Any, alpha: float, beta: float) -> Any:
    return op.Min(op.Max(op.Add(op.Mul(x, alpha), beta), 0.0), 1.0)


def _hard_swish(op: Any, x: Any) -> Any:
    return op.Mul(x, _hard_sigmoid(op, x, 1 / 6, 0.5))


def _mish(op: Any, x: Any) -> Any:
    return op.Mul(x, op.Tanh(_softplus(op, x)))


def _swish(op: Any, x: Any, alpha: float) -> Any:
    """x / (1 + exp(-alpha x)): the relative error of onnxruntime's Sigmoid grows to 1 where it is small"""
    return op.Div(x, op.Add(op.Exp(op.Mul(x, -alpha)), 1.0))


AT_18: dict[str, Written] = {
    "Elu": written_form(_elu, "alpha"),
    "HardSigmoid": written_form(_hard_sigmoid, "alpha", "beta"),
    "HardSwish": written_form(_hard_swish),
    "LeakyRelu": written_form(_leaky_relu, "alpha"),
    "Mish": written_form(_mish),
    "PRelu": written_form(_prelu),
    "Selu": written_form(_selu, "alpha", "gamma"),
    "Softplus": written_form(_softplus),
    "Softsign": written_form(_softsign),
    "ThresholdedRelu": written_form(_thresholded_relu, "alpha"),
}
"""What onnxruntime runs in float64 in a file of opset 18 (LeakyRelu and PRelu from 16), as functions, and no later."""

FUNCTIONS: dict[str, Written] = {
    **AT_18,
    "Acos": written_form(_acos),
    "Acosh": written_form(_acosh),
    "Asin": written_form(_asin),
    "Asinh": written_form(_asinh),
    "Atan": written_form(_atan),
    "Atanh": written_form(_atanh),
    "Cosh": written_form(_cosh),
    "Erf": written_form(_erf),
    "Gelu": written_form(_gelu, "approximate"),
    "Shrink": written_form(_shrink, "lambd", "bias"),
    "Sinh": written_form(_sinh),
    "Swish": written_form(_swish, "alpha"),
    "Tan": written_form(_tan),
}
