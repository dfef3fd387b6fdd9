"""Activations: element-wise functions and normalised exponentials.

Tests: tests/nn/test_functional.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, ArgumentTypeError, IllTyped
from onnxgrad.tensor.common import as_dtype, normal_axis, positive, shape_of, unary
from onnxgrad.tensor.layer import LayerHelper, open_layer, present_operands
from onnxgrad.tensor.random import gumbel, sampled
from onnxgrad.tensor.tables import of_one

__all__ = [
    "celu", "elu", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu",
    "log_sigmoid", "log_softmax", "maxout", "mish", "prelu", "relu", "relu6", "rrelu", "selu", "sigmoid", "silu", "softmax",
    "softplus", "softshrink", "softsign", "swiglu", "swish", "tanh", "tanhshrink", "thresholded_relu",
]  # fmt: skip


def relu(x: Variable, name: str | None = None) -> Variable:
    """max(x, 0); gradient 0 at 0.

    Example:
        >>> F.relu(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return unary("relu", "Relu", x, name)


def relu6(x: Variable, name: str | None = None) -> Variable:
    """min(max(x, 0), 6); gradient 0 at 0 and at 6."""
    layer = LayerHelper("relu6", x, name=name)
    six = layer.op.constant(6.0, x.dtype)
    return layer.result("Where", layer.op.GreaterOrEqual(x, six), six, layer.op.Relu(x))


sigmoid = of_one("sigmoid", "Sigmoid", "1 / (1 + exp(-x)).")
tanh = of_one("tanh", "Tanh", "Hyperbolic tangent.")
softsign = of_one("softsign", "Softsign", "x / (1 + |x|).")
mish = of_one("mish", "Mish", "x tanh(softplus(x)).")
hardswish = of_one("hardswish", "HardSwish", "x times x / 6 + 1 / 2, the latter limited to [0, 1].", layer_name="hard_swish")


def _gated(layer: LayerHelper, x: Variable) -> Variable:
    return layer.result("Mul", x, layer.op.Sigmoid(x))


def _log_sigmoid(layer: LayerHelper, x: Variable) -> Variable:
    return layer.result("Neg", layer.op.Softplus(layer.op.Neg(x)))


def _tanhshrink(layer: LayerHelper, x: Variable) -> Variable:
    return layer.result("Sub", x, layer.op.Tanh(x))


silu = of_one("silu", _gated, "x sigmoid(x).", floats=False)
swish = of_one("swish", _gated, "x sigmoid(x).", floats=False)
log_sigmoid = of_one("log_sigmoid", _log_sigmoid, "Logarithm of ``sigmoid``: -softplus(-x).", floats=False, layer_name="logsigmoid")
tanhshrink = of_one("tanhshrink", _tanhshrink, "x - tanh(x).", floats=False, layer_name="tanh_shrink")


def softplus(x: Variable, beta: float = 1, threshold: float = 20, name: str | None = None) -> Variable:
    """log(1 + exp(beta x)) / beta, and ``x`` itself where beta x is above the threshold."""
    layer, op = open_layer("softplus", x, name=name)
    if beta == 1 and threshold >= _SOFTPLUS_IS_LINEAR:
        return layer.result("Softplus", x)
    scaled = op.Mul(x, float(beta))
    smooth = op.Div(op.Softplus(scaled), float(beta))
    return layer.result("Where", op.Greater(scaled, op.constant(float(threshold), x.dtype)), x, smooth)


_SOFTPLUS_IS_LINEAR = 17
"""From here on, softplus(x) rounds to x in float32."""


def leaky_relu(x: Variable, negative_slope: float = 0.01, name: str | None = None) -> Variable:
    """x where positive, else ``negative_slope * x``."""
    return unary("leaky_relu", "LeakyRelu", x, name, alpha=float(negative_slope))


def elu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """x where positive, else alpha (exp(x) - 1)."""
    return unary("elu", "Elu", x, name, alpha=float(alpha))


def celu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """x where positive, else alpha (exp(x / alpha) - 1).

    Raises:
        ArgumentError: for alpha = 0.
    """
    if alpha == 0:
        raise ArgumentError("celu: alpha cannot be 0.")
    return unary("celu", "Celu", x, name, alpha=float(alpha))


def selu(
    x: Variable,
    scale: float = 1.0507009873554804934193349852946,
    alpha: float = 1.6732632423543772848170429916717,
    name: str | None = None,
) -> Variable:
    """scale times x where positive, else scale alpha (exp(x) - 1).

    Raises:
        ArgumentError: if scale is not above 1, or alpha is negative.
    """
    if scale <= 1.0 or alpha < 0:
        raise ArgumentError(f"selu needs scale > 1 and alpha >= 0, not {scale} and {alpha}.")
    return unary("selu", "Selu", x, name, alpha=float(alpha), gamma=float(scale))


def gelu(x: Variable, approximate: bool = False, name: str | None = None) -> Variable:
    """x times the normal distribution function of x, exact or by tanh (Hendrycks and Gimpel 2016)."""
    return unary("gelu", "Gelu", x, name, approximate="tanh" if approximate else "none")


def hardshrink(x: Variable, threshold: float = 0.5, name: str | None = None) -> Variable:
    """x where its size is above the threshold, else 0."""
    return unary("hard_shrink", "Shrink", x, name, lambd=float(threshold), bias=0.0)


def softshrink(x: Variable, threshold: float = 0.5, name: str | None = None) -> Variable:
    """x moved towards 0 by the threshold, and 0 within it.

    Raises:
        ArgumentError: for a negative threshold.
    """
    if threshold < 0:
        raise ArgumentError(f"softshrink: the threshold must not be negative, but is {threshold}.")
    return unary("softshrink", "Shrink", x, name, lambd=float(threshold), bias=float(threshold))


def hardtanh(x: Variable, min: float = -1.0, max: float = 1.0, name: str | None = None) -> Variable:
    """x limited to [min, max]."""
    return LayerHelper("hardtanh", x, name=name).result("Clip", x, float(min), float(max))


def hardsigmoid(x: Variable, slope: float = 0.1666667, offset: float = 0.5, name: str | None = None) -> Variable:
    """slope x + offset, limited to [0, 1]."""
    return unary("hard_sigmoid", "HardSigmoid", x, name, alpha=float(slope), beta=float(offset))


def thresholded_relu(x: Variable, threshold: float = 1.0, value: float = 0.0, name: str | None = None) -> Variable:
    """x where above the threshold, else ``value``."""
    layer = LayerHelper("thresholded_relu", x, name=name)
    above = layer.op.Greater(x, layer.op.constant(float(threshold), x.dtype))
    return layer.result("Where", above, x, layer.op.constant(float(value), x.dtype))


def prelu(x: Variable, weight: Variable, data_format: str = "NCHW", name: str | None = None) -> Variable:
    """x where positive, else x times a weight: one for all, or one per channel.

    Args:
        x: variable of rank 2 or more for weights per channel.
        weight: vector of 1 element or one per channel.
        data_format: channels are on axis 1 if its second letter is C, else on the last axis.
    """
    layer = LayerHelper("prelu", x, weight, name=name)
    if weight.shape != (1,) and data_format[1] == "C" and x.ndim > 2:
        weight = layer.op.Reshape(weight, np.array([-1] + [1] * (x.ndim - 2)))
    if x.ndim == 0 and weight.ndim:
        weight = layer.op.Squeeze(weight, [0])
    return layer.result("PRelu", x, weight)


def rrelu(
    x: Variable, lower: float = 1.0 / 8.0, upper: float = 1.0 / 3.0, training: bool = True, name: str | None = None
) -> Variable:
    """x where positive, else x times a slope: random in [lower, upper] for each element in training, else their mean."""
    layer, op = open_layer("rrelu", x, name=name)
    if not isinstance(lower, float) or not isinstance(upper, float):
        raise ArgumentTypeError(f"rrelu: lower and upper are floats, not {lower!r} and {upper!r}.")
    if not 0 <= lower <= upper <= 1:
        raise ArgumentError(f"rrelu: slopes lie in 0 <= lower <= upper <= 1, not {lower} and {upper}.")
    if not training:
        return layer.result("LeakyRelu", x, alpha=(lower + upper) / 2.0)
    slopes = sampled(op, "RandomUniform", shape_of(op, x), low=float(lower), high=float(upper))
    return layer.result("PRelu", x, as_dtype(op, slopes, x.dtype))


def maxout(x: Variable, groups: int, axis: int = 1, name: str | None = None) -> Variable:
    """The largest of each ``groups`` neighbouring channels.

    Raises:
        ArgumentError: if ``groups`` does not divide the number of channels, or these are on another axis.

    Example:
        >>> F.maxout(static.data("x", [None, 4, 3, 3]), groups=2).shape
        (-1, 2, 3, 3)
    """
    layer, op = open_layer("maxout", x, name=name)
    if axis not in (1, -1, 3):
        raise ArgumentError(f"maxout: the channels are on axis 1, 3 or -1, not {axis}.")
    axis = normal_axis(axis, x.ndim, "maxout")
    channels = x.shape[axis]
    if channels < 0 or channels % positive(groups, "maxout", "groups"):
        raise ArgumentError(f"maxout: {channels} channels cannot be cut into groups of {groups}.")
    split = op.constant(np.array([channels // groups, groups]))
    target = op.Concat(op.Shape(x, start=0, end=axis), split, op.Shape(x, start=axis + 1), axis=0)
    return layer.result("ReduceMax", op.Reshape(x, target), [axis + 1], keepdims=0)


def softmax(x: Variable, axis: int = -1, dtype: Any = None, name: str | None = None) -> Variable:
    """exp(x) divided by its sum over ``axis``.

    Example:
        >>> F.softmax(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return _normalised("softmax", "Softmax", x, axis, dtype, name)


def log_softmax(x: Variable, axis: int = -1, dtype: Any = None, name: str | None = None) -> Variable:
    """Logarithm of ``softmax``, computed stably."""
    return _normalised("log_softmax", "LogSoftmax", x, axis, dtype, name)


def _normalised(layer_name: str, op_type: str, x: Variable, axis: int, dtype: Any, name: str | None) -> Variable:
    layer = LayerHelper(layer_name, x, name=name)
    x = as_dtype(layer.op, x, dtype)
    if not x.is_float:
        raise IllTyped(
            f"{layer_name} computes in a floating-point type, not {x.dtype.name}. Give dtype='float32', or cast it first."
        )
    if x.rank == 0:
        whole = getattr(layer.op, op_type)(layer.op.Reshape(x, np.array([1])), axis=0)
        return layer.result("Reshape", whole, np.empty(0, np.int64))
    return layer.result(op_type, x, axis=axis)


def glu(x: Variable, axis: int = -1, name: str | None = None) -> Variable:
    """The first half of ``x`` along ``axis`` times the sigmoid of the second half."""
    layer = LayerHelper("glu", x, name=name)
    first, second = layer.op.emit("Split", (x,), {"axis": axis, "num_outputs": 2}, outputs=2)
    return layer.result("Mul", first, layer.op.Sigmoid(second))


def swiglu(x: Variable, y: Variable | None = None, name: str | None = None) -> Variable:
    """silu(x) y; without ``y``, of the two halves of ``x`` along the last axis."""
    layer, op = open_layer("swiglu", x, *present_operands(y), name=name)
    if y is None:
        x, y = op.emit("Split", (x,), {"axis": -1, "num_outputs": 2}, outputs=2)
    return layer.result("Mul", op.Mul(x, op.Sigmoid(x)), y)


def gumbel_softmax(x: Variable, temperature: float = 1.0, hard: bool = False, axis: int = -1, name: str | None = None) -> Variable:
    """Softmax of ``x`` plus Gumbel noise: a soft sample of one class (Jang, Gu and Poole 2017).

    Args:
        temperature: the lower, the nearer to a hard sample.
        hard: give the sampled class as ones and zeros, with the gradient of the soft sample.
    """
    layer, op = open_layer("gumbel_softmax", x, name=name)
    noise = as_dtype(op, gumbel(op, shape_of(op, x)), x.dtype)
    soft = op.Softmax(op.Div(op.Add(x, noise), float(temperature)), axis=axis)
    if not hard:
        return layer.result("Identity", soft)
    chosen = op.Cast(op.Equal(soft, op.ReduceMax(soft, [axis], keepdims=1)), to=x.dtype.number)
    constant = op.Identity(op.Sub(chosen, soft))
    constant.stop_gradient = True
    return layer.result("Add", constant, soft)
