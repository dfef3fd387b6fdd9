"""Activations: element-wise functions and normalised exponentials.

Tests: tests/nn/test_functional.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike
from onnxgrad.errors import ArgumentError, ArgumentTypeError, IllTyped, Mismatch
from onnxgrad.internal.arguments import checked
from onnxgrad.nn.types import Layout
from onnxgrad.tensor.common import as_dtype, normal_axis, positive, shape_of, unary
from onnxgrad.tensor.layer import LayerHelper, in_place_result, open_layer, present_operands
from onnxgrad.tensor.options import takes_options
from onnxgrad.tensor.random import gumbel, sampled
from onnxgrad.tensor.remembered import remembers

__all__ = [
    "celu", "elu", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu",
    "log_sigmoid", "log_softmax", "logsigmoid", "maxout", "mish", "prelu", "relu", "relu6", "rrelu", "selu", "sigmoid", "silu",
    "softmax", "softplus", "softshrink", "softsign", "swiglu", "swish", "tanh", "tanhshrink", "thresholded_relu",
]  # fmt: skip


@remembers
def relu(x: Variable, name: str | None = None) -> Variable:
    """Compute max(x, 0); the gradient at 0 is 0.

    Args:
        x: numbers of any shape; integers are computed as float32.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.relu(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return unary("relu", "Relu", x, name)


@remembers
def relu6(x: Variable, name: str | None = None) -> Variable:
    """Compute min(max(x, 0), 6); the gradient is 0 at 0 and at 6.

    Args:
        x: floats of any shape.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.relu6(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    layer = LayerHelper("relu6", x, name=name)
    six = layer.op.constant(6.0, x.dtype)
    return layer.result("Where", layer.op.GreaterOrEqual(x, six), six, layer.op.Relu(x))


@remembers
@takes_options
def sigmoid(x: Variable, name: str | None = None, out: Variable | None = None) -> Variable:
    """Compute 1 / (1 + exp(-x)).

    Args:
        x: numbers of any shape; integers are computed as float32.
        name: prefix of the names of the results in a program; None to count one.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> F.sigmoid(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return unary("sigmoid", "Sigmoid", x, name)


@remembers
@takes_options
def tanh(x: Variable, name: str | None = None, out: Variable | None = None) -> Variable:
    """Compute the hyperbolic tangent.

    Args:
        x: numbers of any shape; integers are computed as float32.
        name: prefix of the names of the results in a program; None to count one.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> F.tanh(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return unary("tanh", "Tanh", x, name)


@remembers
def softsign(x: Variable, name: str | None = None) -> Variable:
    """Compute x / (1 + |x|).

    Args:
        x: numbers of any shape; integers are computed as float32.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.softsign(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return unary("softsign", "Softsign", x, name)


@remembers
def mish(x: Variable, name: str | None = None) -> Variable:
    """Compute x tanh(softplus(x)). Misra 2019.

    Args:
        x: numbers of any shape; integers are computed as float32.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.mish(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return unary("mish", "Mish", x, name)


@remembers
def hardswish(x: Variable, name: str | None = None) -> Variable:
    """Compute x times x / 6 + 1 / 2, the latter limited to [0, 1]. Howard et al. 2019.

    Args:
        x: numbers of any shape; integers are computed as float32.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.hardswish(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return unary("hard_swish", "HardSwish", x, name)


@remembers
@checked
def silu(x: Variable, inplace: bool = False, name: str | None = None) -> Variable:
    """Compute x sigmoid(x). Elfwing et al. 2017.

    Args:
        x: numbers of any shape.
        inplace: write the result into an eager ``x``.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.silu(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    layer, op = open_layer("silu", x, name=name)
    result = layer.result("Mul", x, op.Sigmoid(x))
    return in_place_result("silu", x, result) if inplace else result


@remembers
def swish(x: Variable, name: str | None = None) -> Variable:
    """Compute x sigmoid(x). Ramachandran et al. 2017.

    Args:
        x: numbers of any shape.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.swish(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    layer, op = open_layer("swish", x, name=name)
    return layer.result("Mul", x, op.Sigmoid(x))


@remembers
def log_sigmoid(x: Variable, name: str | None = None) -> Variable:
    """Compute the logarithm of ``sigmoid``: -softplus(-x).

    Args:
        x: numbers of any shape.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.log_sigmoid(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    layer, op = open_layer("logsigmoid", x, name=name)
    return layer.result("Neg", op.Softplus(op.Neg(x)))


logsigmoid = log_sigmoid


@remembers
def tanhshrink(x: Variable, name: str | None = None) -> Variable:
    """Compute x - tanh(x).

    Args:
        x: numbers of any shape.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.tanhshrink(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    layer, op = open_layer("tanh_shrink", x, name=name)
    return layer.result("Sub", x, op.Tanh(x))


@remembers
@checked
def softplus(x: Variable, beta: float = 1, threshold: float = 20, name: str | None = None) -> Variable:
    """Compute log(1 + exp(beta x)) / beta, and ``x`` itself where beta x is above the threshold.

    Args:
        x: floats of any shape.
        beta: how sharp the bend is.
        threshold: where beta x is above, the function counts as linear.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.softplus(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    layer, op = open_layer("softplus", x, name=name)
    if beta == 1 and threshold >= _SOFTPLUS_IS_LINEAR:
        return layer.result("Softplus", x)
    scaled = op.Mul(x, float(beta))
    smooth = op.Div(op.Softplus(scaled), float(beta))
    return layer.result("Where", op.Greater(scaled, op.constant(float(threshold), x.dtype)), x, smooth)


_SOFTPLUS_IS_LINEAR = 17
"""From here on, softplus(x) rounds to x in float32."""


@remembers
@checked
def leaky_relu(x: Variable, negative_slope: float = 0.01, name: str | None = None) -> Variable:
    """Compute x where positive, else ``negative_slope * x``. Maas et al. 2013.

    Args:
        x: numbers of any shape; integers are computed as float32.
        negative_slope: the slope on the left of 0.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.leaky_relu(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return unary("leaky_relu", "LeakyRelu", x, name, alpha=float(negative_slope))


@remembers
@checked
def elu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """Compute x where positive, else alpha (exp(x) - 1). Clevert et al. 2015.

    Args:
        x: numbers of any shape; integers are computed as float32.
        alpha: minus the limit on the left.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.elu(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return unary("elu", "Elu", x, name, alpha=float(alpha))


@remembers
@checked
def celu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """Compute x where positive, else alpha (exp(x / alpha) - 1). Barron 2017.

    Args:
        x: numbers of any shape; integers are computed as float32.
        alpha: minus the limit on the left; not 0.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for alpha = 0.

    Example:
        >>> F.celu(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    if alpha == 0:
        raise ArgumentError("celu: alpha cannot be 0.")
    if x.dtype != "float64":
        return unary("celu", "Celu", x, name, alpha=float(alpha))
    layer, op = open_layer("celu", x, name=name)  # ONNX has Celu of float32 alone
    zero, slope = op.constant(0.0, x.dtype), op.constant(float(alpha), x.dtype)
    left = op.Sub(op.Exp(op.Div(op.Min(x, zero), slope)), op.constant(1.0, x.dtype))
    return layer.result("Add", op.Max(x, zero), op.Mul(slope, left))


@remembers
@checked
def selu(
    x: Variable,
    scale: float = 1.0507009873554804934193349852946,
    alpha: float = 1.6732632423543772848170429916717,
    name: str | None = None,
) -> Variable:
    """Compute scale times x where positive, else scale alpha (exp(x) - 1). Klambauer et al. 2017.

    Args:
        x: numbers of any shape; integers are computed as float32.
        scale: factor of all; above 1.
        alpha: minus the limit on the left, before ``scale``; at least 0.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if scale is not above 1, or alpha is negative.

    Example:
        >>> F.selu(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    if scale <= 1.0 or alpha < 0:
        raise ArgumentError(f"selu needs scale > 1 and alpha >= 0, not {scale} and {alpha}.")
    return unary("selu", "Selu", x, name, alpha=float(alpha), gamma=float(scale))


@remembers
@checked
def gelu(x: Variable, approximate: bool = False, name: str | None = None) -> Variable:
    """Multiply x by the normal distribution function of x, exact or by tanh. Hendrycks and Gimpel 2016.

    Args:
        x: numbers of any shape; integers are computed as float32.
        approximate: True for the form with tanh, False for the exact one.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.gelu(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return unary("gelu", "Gelu", x, name, approximate="tanh" if approximate else "none")


@checked
def hardshrink(x: Variable, threshold: float = 0.5, name: str | None = None) -> Variable:
    """Keep x where its size is above the threshold, else 0.

    Args:
        x: numbers of any shape; integers are computed as float32.
        threshold: from this size on, numbers stay as they are.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.hardshrink(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return unary("hard_shrink", "Shrink", x, name, lambd=float(threshold), bias=0.0)


@checked
def softshrink(x: Variable, threshold: float = 0.5, name: str | None = None) -> Variable:
    """Move x towards 0 by the threshold, to 0 within it.

    Args:
        x: numbers of any shape; integers are computed as float32.
        threshold: by how much numbers move; at least 0.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for a negative threshold.

    Example:
        >>> F.softshrink(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    if threshold < 0:
        raise ArgumentError(f"softshrink: the threshold must not be negative, but is {threshold}.")
    return unary("softshrink", "Shrink", x, name, lambd=float(threshold), bias=float(threshold))


@remembers
@checked
def hardtanh(x: Variable, min: float = -1.0, max: float = 1.0, name: str | None = None) -> Variable:
    """Limit x to [min, max]; the gradient is 0 at both ends.

    Args:
        x: floats of any shape.
        min: the least result.
        max: the largest result.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.hardtanh(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    layer = LayerHelper("hardtanh", x, name=name)
    least, largest = layer.op.constant(float(min), x.dtype), layer.op.constant(float(max), x.dtype)
    below = layer.op.Where(layer.op.GreaterOrEqual(x, largest), largest, x)
    return layer.result("Where", layer.op.LessOrEqual(x, least), least, below)


@remembers
@checked
def hardsigmoid(x: Variable, slope: float = 0.1666667, offset: float = 0.5, name: str | None = None) -> Variable:
    """Compute slope x + offset, limited to [0, 1].

    Args:
        x: numbers of any shape; integers are computed as float32.
        slope: of the line between 0 and 1.
        offset: the line at x = 0.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.hardsigmoid(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return unary("hard_sigmoid", "HardSigmoid", x, name, alpha=float(slope), beta=float(offset))


@checked
def thresholded_relu(x: Variable, threshold: float = 1.0, value: float = 0.0, name: str | None = None) -> Variable:
    """Keep x where above the threshold, else ``value``.

    Args:
        x: floats of any shape.
        threshold: above it, numbers stay as they are.
        value: the result elsewhere.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.thresholded_relu(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    layer = LayerHelper("thresholded_relu", x, name=name)
    above = layer.op.Greater(x, layer.op.constant(float(threshold), x.dtype))
    return layer.result("Where", above, x, layer.op.constant(float(value), x.dtype))


@checked
def prelu(x: Variable, weight: Variable, data_format: Layout = "NCHW", name: str | None = None) -> Variable:
    """Keep x where positive, else multiply it by a weight: one for all, or one per channel. He et al. 2015.

    Args:
        x: variable of rank 2 or more for weights per channel.
        weight: vector of 1 element or one per channel.
        data_format: channels are on axis 1 if its second letter is C, else on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.prelu(static.data("x", [None, 3]), static.data("w", [3])).shape
        (-1, 3)
    """
    channels = 1 if x.rank is None or x.ndim < 2 else x.shape[1 if data_format[1] == "C" else -1]
    if weight.shape not in ((1,), [1]) and channels >= 0 and weight.ndim and channels != weight.shape[0]:
        raise Mismatch(f"prelu: a weight of {weight.shape[0]} elements for {channels} channels. Give one weight, or one for each.")
    layer = LayerHelper("prelu", x, weight, name=name)
    if weight.shape != (1,) and data_format[1] == "C" and x.ndim > 2:
        weight = layer.op.Reshape(weight, np.array([-1] + [1] * (x.ndim - 2)))
    if x.ndim == 0 and weight.ndim:
        weight = layer.op.Squeeze(weight, [0])
    return layer.result("PRelu", x, weight)


@checked
def rrelu(
    x: Variable, lower: float = 1.0 / 8.0, upper: float = 1.0 / 3.0, training: bool = True, name: str | None = None
) -> Variable:
    """Keep x where positive, else multiply it by a slope: random for each element in training, else the mean slope. Xu et al. 2015.

    Args:
        x: floats of any shape.
        lower: the least slope, a float of at least 0.
        upper: the largest slope, a float of at most 1.
        training: False for the mean of both slopes.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentTypeError: if a slope is no float.
        ArgumentError: if not 0 <= lower <= upper <= 1.

    Example:
        >>> F.rrelu(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    layer, op = open_layer("rrelu", x, name=name)
    if not isinstance(lower, float) or not isinstance(upper, float):
        raise ArgumentTypeError(f"rrelu: lower and upper are floats, not {lower!r} and {upper!r}.")
    if not 0 <= lower <= upper <= 1:
        raise ArgumentError(f"rrelu: slopes lie in 0 <= lower <= upper <= 1, not {lower} and {upper}.")
    if not training:
        return layer.result("LeakyRelu", x, alpha=(lower + upper) / 2.0)
    slopes = sampled(op, "RandomUniform", shape_of(op, x), low=float(lower), high=float(upper))
    return layer.result("PRelu", x, as_dtype(op, slopes, x.dtype))


@checked
def maxout(x: Variable, groups: int, axis: int = 1, name: str | None = None) -> Variable:
    """Take the largest of each ``groups`` neighbouring channels. Goodfellow et al. 2013.

    Args:
        x: floats with a known number of channels.
        groups: how many neighbouring channels lead to one.
        axis: the axis of the channels: 1, 3 or -1.
        name: prefix of the names of the results in a program; None to count one.

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


@remembers
@checked
@takes_options
def softmax(
    x: Variable, axis: int = -1, dtype: DTypeLike | None = None, name: str | None = None, out: Variable | None = None
) -> Variable:
    """Compute exp(x) divided by its sum over ``axis``.

    Args:
        x: floats of any shape, or integers with a ``dtype``.
        axis: along which the results add up to 1.
        dtype: element type to compute in; that of ``x`` unless given.
        name: prefix of the names of the results in a program; None to count one.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Raises:
        IllTyped: for integers without a ``dtype``.

    Example:
        >>> F.softmax(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return _normalised("softmax", "Softmax", x, axis, dtype, name)


@remembers
@checked
def log_softmax(x: Variable, axis: int = -1, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """Compute the logarithm of ``softmax``, stably.

    Args:
        x: floats of any shape, or integers with a ``dtype``.
        axis: along which the exponentials of the results add up to 1.
        dtype: element type to compute in; that of ``x`` unless given.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        IllTyped: for integers without a ``dtype``.

    Example:
        >>> F.log_softmax(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return _normalised("log_softmax", "LogSoftmax", x, axis, dtype, name)


def _normalised(layer_name: str, op_type: str, x: Variable, axis: int, dtype: Any, name: str | None) -> Variable:
    layer = LayerHelper(layer_name, x, name=name)
    x = as_dtype(layer.op, x, dtype)
    if not x.is_float:
        raise IllTyped(f"{layer_name} computes in a floating-point type, not {x.dtype.name}. Give dtype='float32', or cast it.")
    if x.rank == 0:
        whole = getattr(layer.op, op_type)(layer.op.Reshape(x, np.array([1])), axis=0)
        return layer.result("Reshape", whole, np.empty(0, np.int64))
    return layer.result(op_type, x, axis=axis)


@checked
def glu(x: Variable, axis: int = -1, name: str | None = None) -> Variable:
    """Multiply the first half of ``x`` along ``axis`` by the sigmoid of the second. Dauphin et al. 2016.

    Args:
        x: floats with an even size along ``axis``.
        axis: the axis that is halved.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.glu(static.data("x", [None, 4])).shape
        (-1, 2)
    """
    layer = LayerHelper("glu", x, name=name)
    first, second = layer.op.emit("Split", (x,), {"axis": axis, "num_outputs": 2}, outputs=2)
    return layer.result("Mul", first, layer.op.Sigmoid(second))


def swiglu(x: Variable, y: Variable | None = None, name: str | None = None) -> Variable:
    """Compute silu(x) y; without ``y``, of the two halves of ``x`` along the last axis. Shazeer 2020.

    Args:
        x: floats of any shape; without ``y`` of an even last size.
        y: floats of the same shape; the second half of ``x`` unless given.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.swiglu(static.data("x", [None, 4])).shape
        (-1, 2)
    """
    layer, op = open_layer("swiglu", x, *present_operands(y), name=name)
    if y is None:
        x, y = op.emit("Split", (x,), {"axis": -1, "num_outputs": 2}, outputs=2)
    return layer.result("Mul", op.Mul(x, op.Sigmoid(x)), y)


@checked
def gumbel_softmax(x: Variable, temperature: float = 1.0, hard: bool = False, axis: int = -1, name: str | None = None) -> Variable:
    """Compute the softmax of ``x`` plus Gumbel noise: a soft sample of one class. Jang, Gu and Poole 2016.

    Args:
        x: logits, floats of any shape.
        temperature: the lower, the nearer to a hard sample.
        hard: give the sampled class as ones and zeros, with the gradient of the soft sample.
        axis: along which the results add up to 1.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.gumbel_softmax(static.data("x", [None, 3])).shape
        (-1, 3)
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
