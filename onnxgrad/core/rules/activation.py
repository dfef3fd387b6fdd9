"""Activation functions. Formulas: the derivative of each definition in the ONNX operator specification.

Tests: tests/core/rules/test_gradients.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.traits import VIEWS
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like, masked
from onnxgrad.core.rules.registry import gradient


def _blend(op: Builder, condition: Variable, yes: float, no: float, like: Variable) -> Variable:
    """A tensor that is the number ``yes`` where the condition holds and ``no`` elsewhere"""
    return op.Add(op.Mul(cast_like(op, condition, like), yes - no), no)


@gradient("Relu")
def relu(op, node, gy):
    """gx = gy where y > 0, else 0 (also at 0)"""
    (y,) = node.outputs
    return masked(op, gy, op.Greater(y, 0.0))


@gradient("LeakyRelu")
def leaky_relu(op, node, gy):
    """gx = gy where x > 0, else alpha * gy"""
    (x,) = node.inputs
    return op.Mul(gy, _blend(op, op.Greater(x, 0.0), 1.0, node.attr("alpha"), gy))


@gradient("PRelu", broadcasts=True)
def prelu(op, node, gy):
    """gx = gy where x > 0, else slope * gy;  gslope = gy * x where x <= 0"""
    x, slope = node.inputs
    positive = op.Greater(x, 0.0)
    return op.Where(positive, gy, op.Mul(gy, slope)), op.Where(positive, 0.0, op.Mul(gy, x))


@gradient("ThresholdedRelu")
def thresholded_relu(op, node, gy):
    """gx = gy where x > alpha"""
    (x,) = node.inputs
    return masked(op, gy, op.Greater(x, node.attr("alpha")))


@gradient("Elu")
def elu(op, node, gy):
    """gx = gy where x > 0, else gy * (y + alpha)"""
    (x,), (y,) = node.inputs, node.outputs
    return op.Mul(gy, op.Where(op.Greater(x, 0.0), 1.0, op.Add(y, node.attr("alpha"))))


@gradient("Selu")
def selu(op, node, gy):
    """gx = gy * gamma where x > 0, else gy * (y + gamma alpha)"""
    (x,), (y,) = node.inputs, node.outputs
    gamma = node.attr("gamma")
    return op.Mul(gy, op.Where(op.Greater(x, 0.0), gamma, op.Add(y, gamma * node.attr("alpha"))))


@gradient("Celu")
def celu(op, node, gy):
    """gx = gy where x > 0, else gy * exp(x / alpha)"""
    (x,) = node.inputs
    return op.Mul(gy, op.Exp(op.Min(op.Div(x, node.attr("alpha")), 0.0)))


@gradient("Sigmoid")
def sigmoid(op, node, gy):
    """gx = gy * y * (1 - y)"""
    (y,) = node.outputs
    return op.Mul(gy, op.Mul(y, op.Sub(1.0, y)))


@gradient("Tanh")
def tanh(op, node, gy):
    """gx = gy * (1 - y^2)"""
    (y,) = node.outputs
    return op.Mul(gy, op.Sub(1.0, op.Mul(y, y)))


@gradient("Softplus")
def softplus(op, node, gy):
    """gx = gy * sigmoid(x)"""
    (x,) = node.inputs
    return op.Mul(gy, op.Sigmoid(x))


@gradient("Softsign")
def softsign(op, node, gy):
    """gx = gy / (1 + |x|)^2"""
    (x,) = node.inputs
    one_plus = op.Add(op.Abs(x), 1.0)
    return op.Div(gy, op.Mul(one_plus, one_plus))


@gradient("HardSigmoid")
def hard_sigmoid(op, node, gy):
    """gx = gy * alpha where 0 < y < 1"""
    (y,) = node.outputs
    inside = op.And(op.Greater(y, 0.0), op.Less(y, 1.0))
    return masked(op, op.Mul(gy, node.attr("alpha")), inside)


@gradient("HardSwish")
def hard_swish(op, node, gy):
    """gx = gy * (h(x) + x/6 where |x| < 3), h the hard sigmoid with slope 1/6"""
    (x,) = node.inputs
    gate = op.Clip(op.Add(op.Mul(x, 1.0 / 6.0), 0.5), 0.0, 1.0)
    slope = masked(op, op.Mul(x, 1.0 / 6.0), op.Less(op.Abs(x), 3.0))
    return op.Mul(gy, op.Add(gate, slope))


@gradient("Gelu")
def gelu(op, node, gy):
    """gx = gy * (P(x) + x p(x)), P and p the normal distribution and density, or their tanh approximation"""
    (x,) = node.inputs
    if node.attr("approximate") == "tanh":
        return op.Mul(gy, _tanh_gelu_slope(op, x))
    density = op.Mul(op.Exp(op.Mul(op.Mul(x, x), -0.5)), 1.0 / math.sqrt(2.0 * math.pi))
    distribution = op.Mul(op.Add(op.Erf(op.Mul(x, math.sqrt(0.5))), 1.0), 0.5)
    return op.Mul(gy, op.Add(distribution, op.Mul(x, density)))


def _tanh_gelu_slope(op: Builder, x: Variable) -> Variable:
    """d/dx of x/2 (1 + tanh(c (x + a x^3)))"""
    c, a = math.sqrt(2.0 / math.pi), 0.044715
    square = op.Mul(x, x)
    t = op.Tanh(op.Mul(op.Mul(x, op.Add(op.Mul(square, a), 1.0)), c))
    inner = op.Mul(op.Add(op.Mul(square, 3.0 * a), 1.0), c)
    bell = op.Mul(op.Mul(x, op.Sub(1.0, op.Mul(t, t))), inner)
    return op.Mul(op.Add(op.Add(t, bell), 1.0), 0.5)


@gradient("Mish")
def mish(op, node, gy):
    """gx = gy * (t + x (1 - t^2) sigmoid(x)), t = tanh(softplus(x))"""
    (x,) = node.inputs
    t = op.Tanh(op.Softplus(x))
    return op.Mul(gy, op.Add(t, op.Mul(op.Mul(x, op.Sub(1.0, op.Mul(t, t))), op.Sigmoid(x))))


@gradient("Swish")
def swish(op, node, gy):
    """gx = gy * (s + alpha x s (1 - s)), s = sigmoid(alpha x)"""
    (x,) = node.inputs
    scaled = op.Mul(x, node.attr("alpha"))
    s = op.Sigmoid(scaled)
    return op.Mul(gy, op.Add(s, op.Mul(scaled, op.Mul(s, op.Sub(1.0, s)))))


@gradient("Shrink")
def shrink(op, node, gy):
    """gx = gy where |x| > lambd"""
    (x,) = node.inputs
    return masked(op, gy, op.Greater(op.Abs(x), node.attr("lambd")))


@gradient("Softmax")
def softmax(op, node, gy):
    """gx = y * (gy - sum(y * gy, axis)), 0 along lines of x that are all minus infinity, where y is NaN"""
    (y,) = node.outputs
    y = _without_nan(op, y, node)
    total = op.ReduceSum(op.Mul(gy, y), axes=[_axis(node)], keepdims=1)
    return op.Mul(y, op.Sub(gy, total))


@gradient("LogSoftmax")
def log_softmax(op, node, gy):
    """gx = gy - exp(y) * sum(gy, axis), gy along lines of x that are all minus infinity, where y is NaN"""
    (y,) = node.outputs
    total = op.ReduceSum(gy, axes=[_axis(node)], keepdims=1)
    return op.Sub(gy, op.Mul(_without_nan(op, op.Exp(y), node), total))


def _axis(node: Any) -> Any:
    """The axis from the front where the rank is known: onnxruntime leaves empty tensors unreduced along negative axes"""
    axis, rank = node.attr("axis"), node.inputs[0].rank
    return axis if rank is None else axis % rank


def _without_nan(op: Builder, y: Variable, node: Any) -> Variable:
    """0 for NaN: a line that is masked altogether must not spoil the gradients of everything before it"""
    return op.Where(op.IsNaN(y), 0.0, y) if _may_mask(_before_mask(node), _REACH) else y


def _before_mask(node: Any) -> Variable:
    """Return the scores before a constant mask is added whose rows each have a finite number, as a causal mask; else the operand"""
    x: Variable = node.inputs[0]
    if x.op is None or x.op.type != "Add" or x.op.domain or x.rank is None or _axis(node) != x.rank - 1:
        return x
    for mask, other in (x.op.inputs, x.op.inputs[::-1]):
        if mask is not None and other is not None and mask.value is not None and not mask.persistable and mask.rank:
            values = mask.value.numpy()
            if (values < np.inf).all() and (values > -np.inf).any(-1).all():
                return other
    return x


_REACH = 12
_FINITE = ("Gemm", "MatMul", "Conv", "Tanh", "Sigmoid", "Softmax", "LayerNormalization", "BatchNormalization", "Relu")
_PASSES_ON = VIEWS | {"Add", "Cast", "Concat", "Div", "Dropout", "Mul", "Sub", "Transpose"}


def _may_mask(x: Variable, reach: int) -> bool:
    """Return whether minus infinity may stand in ``x`` on purpose, as in a mask that is added or chosen"""
    if x.value is not None:
        return not x.persistable and not np.isfinite(x.value.numpy()).all()
    if x.persistable or x.op is None or reach == 0:
        return not x.persistable
    if x.op.domain == "" and x.op.type in _FINITE:
        return False
    if x.op.domain != "" or x.op.type not in _PASSES_ON:
        return True
    return any(_may_mask(v, reach - 1) for v in x.op.inputs if v is not None and (v.type is None or v.is_float))
