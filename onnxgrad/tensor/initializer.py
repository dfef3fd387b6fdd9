"""Initial values of parameters, as constant and random operators of the startup program.

Sources: Glorot and Bengio 2010 (Xavier); He et al. 2015 (Kaiming); Saxe et al. 2014 (orthogonal).

Tests: tests/static/test_initializers.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.defaults import default_startup_program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DType
from onnxgrad.eager.tensor import Tensor
from onnxgrad.errors import ArgumentError, ArgumentTypeError, Mismatch
from onnxgrad.internal import state
from onnxgrad.internal.arguments import as_text, checked, checked_with_words, wrong_kind
from onnxgrad.tensor.random import next_seed, sampled
from onnxgrad.tensor.special import inverse_erf

__all__ = [
    "Assign", "Bilinear", "Constant", "Dirac", "Initializer", "KaimingNormal", "KaimingUniform", "NormOf", "Normal",
    "Orthogonal", "TruncatedNormal", "Uniform", "XavierNormal", "XavierUniform", "calculate_gain", "global_initializer",
    "set_global_initializer",
]  # fmt: skip

Nonlinearity: TypeAlias = Literal[
    "linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu",
    "conv1d", "conv2d", "conv3d", "conv1d_transpose", "conv2d_transpose", "conv3d_transpose",
]  # fmt: skip
"""An activation, or a layer without one, as ``calculate_gain`` knows them."""


class Initializer:
    """Base: ``append`` writes operators that compute the initial value. A call gives it to a parameter that exists.

    Initializers compute in float32 and cast the result to the type of the parameter.

    Example:
        >>> p = paddle.create_parameter([2], "float32")
        >>> paddle.nn.initializer.Constant(3.0)(p)
        >>> p.tolist()
        [3.0, 3.0]
    """

    def __call__(self, param: Variable, block: Block | None = None) -> None:
        """Initialise a parameter that exists: an eager one now, another when the startup program runs.

        Args:
            param: the parameter.
            block: accepted for compatibility.
        """
        shape = [int(n) for n in param.shape]
        if param.is_eager:
            param.set_value(np.asarray(self.append(param.block.build, shape, param.dtype)))
            return
        startup = default_startup_program().global_block()
        copy = startup.vars.get(param.name) or startup.create_parameter(param.name, shape, param.dtype)
        startup.program.updates[copy] = self.append(Builder(startup, key=f"{param.name}.init"), shape, param.dtype)

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        """Append operators that compute the value of a parameter.

        Args:
            op: the builder that they are appended with.
            shape: the sizes of the parameter.
            dtype: its element type.
        """
        raise NotImplementedError


def _fans(shape: list[int]) -> tuple[int, int]:
    """(inputs, outputs) of a weight: [in, out] for a matrix, [out, in, *kernel] for a filter"""
    if len(shape) < 2:
        size = shape[0] if shape else 1
        return size, size
    if len(shape) == 2:
        return shape[0], shape[1]
    taps = math.prod(shape[2:])
    return shape[1] * taps, shape[0] * taps


def _sampled(op: Builder, op_type: str, shape: list[int], dtype: DType, **attrs: Any) -> Variable:
    return op.Cast(sampled(op, op_type, shape, **attrs), to=dtype.number)


class Constant(Initializer):
    """Set every element to ``value``.

    Args:
        value: the number.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> initializer = paddle.nn.initializer.Constant(3.0)
        >>> paddle.create_parameter([2], "float32", default_initializer=initializer).tolist()
        [3.0, 3.0]
    """

    @checked_with_words
    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        if dtype.name != "bfloat16":
            return op.Expand(op.constant(self.value, dtype), np.array(shape, np.int64))
        # onnxruntime's CPU provider does not expand bfloat16.
        wide = op.Expand(np.asarray(self.value, dtype.numpy).astype(np.float32), np.array(shape, np.int64))
        return op.Cast(wide, to=dtype.number)


class Assign(Initializer):
    """Set the elements to the elements of an array.

    Args:
        value: an array, a tensor or nested lists of numbers, of the parameter's shape; it is cast to its type.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> initializer = paddle.nn.initializer.Assign([1.0, 2.0])
        >>> paddle.create_parameter([2], "float32", default_initializer=initializer).tolist()
        [1.0, 2.0]
    """

    def __init__(self, value: ArrayLike | Tensor, name: str | None = None) -> None:
        self.value = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
        if self.value.dtype.kind in "OSU":
            raise wrong_kind(self, "value", "an array of numbers", value)
        self.name = as_text(self, "name", name)

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        if list(self.value.shape) != shape:
            raise ArgumentError(f"Assign holds shape {list(self.value.shape)}, the parameter has {shape}.")
        return op.Identity(op.constant(self.value, dtype))


class Uniform(Initializer):
    """Draw from the uniform distribution on [low, high).

    Args:
        low, high: the limits.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> initializer = paddle.nn.initializer.Uniform(-0.1, 0.1)
        >>> paddle.create_parameter([2, 3], "float32", default_initializer=initializer).shape
        [2, 3]
    """

    @checked_with_words
    def __init__(self, low: float = -1.0, high: float = 1.0, name: str | None = None) -> None:
        self.low, self.high, self.name = float(low), float(high), name

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        return _sampled(op, "RandomUniform", shape, dtype, low=self.low, high=self.high)


class Normal(Initializer):
    """Draw from a normal distribution.

    Args:
        mean: its mean.
        std: its standard deviation.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> initializer = paddle.nn.initializer.Normal(std=0.02)
        >>> paddle.create_parameter([2, 3], "float32", default_initializer=initializer).shape
        [2, 3]
    """

    @checked_with_words
    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> None:
        self.mean, self.std, self.name = float(mean), float(std), name

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        return _sampled(op, "RandomNormal", shape, dtype, mean=self.mean, scale=self.std)


class TruncatedNormal(Initializer):
    """Draw from a normal distribution cut off at ``mean + a * std`` and ``mean + b * std``.

    Args:
        mean: its mean before the cut.
        std: its standard deviation before the cut.
        a, b: the limits, in standard deviations from the mean.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> initializer = paddle.nn.initializer.TruncatedNormal(std=0.02)
        >>> paddle.create_parameter([2, 3], "float32", default_initializer=initializer).shape
        [2, 3]
    """

    @checked_with_words
    def __init__(self, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, name: str | None = None) -> None:
        self.mean, self.std, self.a, self.b, self.name = float(mean), float(std), float(a), float(b), name

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        low, high = (math.erf(limit / math.sqrt(2.0)) for limit in (self.a, self.b))
        normal = op.Mul(inverse_erf(op, sampled(op, "RandomUniform", shape, low=low, high=high)), math.sqrt(2.0))
        kept = op.Clip(normal, self.a, self.b)
        return op.Cast(op.Add(op.Mul(kept, self.std), self.mean), to=dtype.number)


class _Scaled(Initializer):
    """Base of those whose standard deviation follows from the shape."""

    def _std(self, shape: list[int]) -> float:
        raise NotImplementedError


class _ScaledUniform(_Scaled):
    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        limit = math.sqrt(3.0) * self._std(shape)
        return _sampled(op, "RandomUniform", shape, dtype, low=-limit, high=limit)


class _ScaledNormal(_Scaled):
    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        return _sampled(op, "RandomNormal", shape, dtype, mean=0.0, scale=self._std(shape))


class _Xavier(_Scaled):
    """Base of the initializers that scale with the number of inputs and outputs."""

    @checked_with_words
    def __init__(
        self, fan_in: float | None = None, fan_out: float | None = None, gain: float = 1.0, name: str | None = None
    ) -> None:
        self.fan_in, self.fan_out, self.gain, self.name = fan_in, fan_out, float(gain), name

    def _std(self, shape: list[int]) -> float:
        fans = zip((self.fan_in, self.fan_out), _fans(shape), strict=True)
        return float(self.gain * math.sqrt(2.0 / sum(own if fan is None else fan for fan, own in fans)))


class XavierUniform(_Xavier, _ScaledUniform):
    """Draw uniformly within gain * sqrt(6 / (fan_in + fan_out)). Glorot and Bengio 2010.

    Args:
        fan_in, fan_out: how many inputs and outputs a unit counts as; None to tell by the parameter's shape.
        gain: factor on the values.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> initializer = paddle.nn.initializer.XavierUniform()
        >>> paddle.create_parameter([2, 3], "float32", default_initializer=initializer).shape
        [2, 3]
    """


class XavierNormal(_Xavier, _ScaledNormal):
    """Draw from the normal distribution with standard deviation gain * sqrt(2 / (fan_in + fan_out)). Glorot and Bengio 2010.

    Args:
        fan_in, fan_out: how many inputs and outputs a unit counts as; None to tell by the parameter's shape.
        gain: factor on the values.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> initializer = paddle.nn.initializer.XavierNormal()
        >>> paddle.create_parameter([2, 3], "float32", default_initializer=initializer).shape
        [2, 3]
    """


class _Kaiming(_Scaled):
    """Base of the initializers that scale with the number of inputs and the gain of an activation."""

    @checked_with_words
    def __init__(
        self,
        fan_in: float | None = None,
        negative_slope: float | None = 0.0,
        nonlinearity: Nonlinearity = "relu",
        mode: Literal["fan_in", "fan_out"] = "fan_in",
        name: str | None = None,
    ) -> None:
        self.mode, self.fan_in, self.name = mode, fan_in, name
        self.gain = calculate_gain(nonlinearity, negative_slope)

    def _std(self, shape: list[int]) -> float:
        fans = _fans(shape)
        chosen = fans[1] if self.mode == "fan_out" else fans[0] if self.fan_in is None else self.fan_in
        return self.gain / math.sqrt(chosen)


class KaimingUniform(_Kaiming, _ScaledUniform):
    """Draw uniformly within gain * sqrt(3 / fan_in); for ReLU sqrt(6 / fan_in). He et al. 2015.

    Args:
        fan_in: how many inputs a unit counts as; None to tell by the parameter's shape.
        negative_slope: slope of 'leaky_relu' below 0; None for 0.01.
        nonlinearity: the activation that follows, whose gain ``calculate_gain`` tells.
        mode: 'fan_out' to count the outputs of a unit in place of its inputs.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if the activation is unknown.

    Example:
        >>> initializer = paddle.nn.initializer.KaimingUniform()
        >>> paddle.create_parameter([2, 3], "float32", default_initializer=initializer).shape
        [2, 3]
    """


class KaimingNormal(_Kaiming, _ScaledNormal):
    """Draw from the normal distribution with standard deviation gain / sqrt(fan_in); for ReLU sqrt(2 / fan_in). He et al. 2015.

    Args:
        fan_in: how many inputs a unit counts as; None to tell by the parameter's shape.
        negative_slope: slope of 'leaky_relu' below 0; None for 0.01.
        nonlinearity: the activation that follows, whose gain ``calculate_gain`` tells.
        mode: 'fan_out' to count the outputs of a unit in place of its inputs.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if the activation is unknown.

    Example:
        >>> initializer = paddle.nn.initializer.KaimingNormal()
        >>> paddle.create_parameter([2, 3], "float32", default_initializer=initializer).shape
        [2, 3]
    """


class Orthogonal(Initializer):
    """Draw orthonormal rows or columns, whichever are fewer; axes after the first count as columns. Saxe et al. 2014.

    Args:
        gain: factor on the values.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> initializer = paddle.nn.initializer.Orthogonal()
        >>> paddle.create_parameter([2, 3], "float32", default_initializer=initializer).shape
        [2, 3]
    """

    @checked_with_words
    def __init__(self, gain: float = 1.0, name: str | None = None) -> None:
        self.gain, self.name = float(gain), name

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        if len(shape) < 2:
            raise Mismatch(f"Orthogonal needs at least 2 axes; the parameter has shape {shape}.")
        rows, columns = shape[0], math.prod(shape[1:])
        sample = np.random.default_rng(int(next_seed(op))).normal(size=(max(rows, columns), min(rows, columns)))
        q, r = np.linalg.qr(sample)
        # The signs make the distribution uniform over all orthogonal matrices (Mezzadri 2007).
        q = q * np.sign(np.diag(r))
        value = self.gain * (q if rows >= columns else q.T).reshape(shape)
        return op.Identity(op.constant(value, dtype))


class NormOf(Initializer):
    """Set the elements to the length of another parameter's initial value over some axes.

    Args:
        parameter: name of the other parameter.
        axes: those that the length is taken over.
    """

    @checked
    def __init__(self, parameter: str, axes: Sequence[int]) -> None:
        self.parameter, self.axes = parameter, axes

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        other = op.block.find(self.parameter)
        value = op.block.program.updates.get(other) if other is not None else None
        if value is None:
            raise ArgumentError(f"{self.parameter} has no initial value in this startup program. Use the same one for both.")
        return op.ReduceL2(value, list(self.axes), keepdims=1)


class Dirac(Initializer):
    """Set filters to pass their channels on: 1 in the middle for output channel i from input channel i, within each group.

    Args:
        groups: into how many groups the output channels, the first axis, are divided.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if ``name`` is of a wrong kind.
        ArgumentError: if ``groups`` is not a positive int.

    Example:
        >>> initializer = paddle.nn.initializer.Dirac()
        >>> paddle.create_parameter([2, 2, 3], "float32", default_initializer=initializer).shape
        [2, 2, 3]
    """

    def __init__(self, groups: int = 1, name: str | None = None) -> None:
        if not isinstance(groups, int) or groups < 1:
            raise ArgumentError(f"Dirac: groups is a positive int, not {groups!r}.")
        self.groups = groups
        self.name = as_text(self, "name", name)

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        if len(shape) not in (3, 4, 5) or shape[0] % self.groups:
            raise Mismatch(f"Dirac needs 3 to 5 axes, the first divisible by {self.groups}; the parameter has {shape}.")
        value = np.zeros(shape)
        middle = tuple(size // 2 for size in shape[2:])
        each = shape[0] // self.groups
        for group in range(self.groups):
            for i in range(min(each, shape[1])):
                value[(group * each + i, i, *middle)] = 1.0
        return op.Identity(op.constant(value, dtype))


class Bilinear(Initializer):
    """Set filters [C_out, C_in, K, K] for a transposed convolution that enlarges by linear interpolation.

    Example:
        >>> initializer = paddle.nn.initializer.Bilinear()
        >>> paddle.create_parameter([1, 1, 4, 4], "float32", default_initializer=initializer).shape
        [1, 1, 4, 4]
    """

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        if len(shape) != 4 or shape[2] != shape[3]:
            raise ArgumentError(f"Bilinear needs square filters of 4 axes; the parameter has shape {shape}.")
        size = shape[3]
        factor = math.ceil(size / 2.0)
        centre = (2 * factor - 1 - factor % 2) / (2.0 * factor)
        slope = 1 - np.abs(np.arange(size) / factor - centre)
        value = np.broadcast_to(np.outer(slope, slope), shape)
        return op.Identity(op.constant(value, dtype))


@checked
def calculate_gain(nonlinearity: Nonlinearity, param: float | None = None) -> float:
    """The factor by which an activation shrinks a signal, to be made up for by the weights.

    Args:
        nonlinearity: 'linear', 'sigmoid', 'conv2d' and its like (1), 'tanh' (5/3), 'relu' (sqrt 2), 'leaky_relu', 'selu' (3/4).
        param: negative slope of 'leaky_relu', 0.01 unless given.

    Raises:
        ArgumentError: if the activation is unknown.

    Example:
        >>> paddle.nn.initializer.calculate_gain("tanh")
        1.6666666666666667
    """
    slope = 0.01 if param is None else float(param)
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "leaky_relu": math.sqrt(2.0 / (1 + slope**2)), "selu": 3.0 / 4}
    return gains.get(nonlinearity, 1)


def set_global_initializer(weight_init: Initializer | None, bias_init: Initializer | None = None) -> None:
    """Initialise all parameters made from now on with these, unless their ParamAttr says otherwise; None to end that.

    Args:
        weight_init: of weights.
        bias_init: of biases.

    Raises:
        ArgumentTypeError: if one is not an initializer.
    """
    for initializer in (weight_init, bias_init):
        if initializer is not None and not isinstance(initializer, Initializer):
            raise ArgumentTypeError(f"set_global_initializer takes initializers, not {type(initializer).__name__}.")
    state.current.initializers = {"w": weight_init, "b": bias_init}


@checked
def global_initializer(suffix: str) -> Initializer | None:
    """Look up the initializer that ``set_global_initializer`` set.

    Args:
        suffix: 'w' for weights, 'b' for biases.
    """
    initializer: Initializer | None = state.current.initializers.get(suffix)
    return initializer


def chosen_initializer(default: Initializer | None, is_bias: bool) -> Initializer:
    """Choose the initializer of ``create_parameter``: that of ``set_global_initializer``, else the one it is passed, else 0 for a
    bias and Xavier uniform for a weight.

    Raises:
        ArgumentTypeError: if that is no initializer.
    """
    if default is not None and not callable(default):
        raise ArgumentTypeError(f"default_initializer is an Initializer, not {type(default).__name__}.")
    chosen = global_initializer("b" if is_bias else "w") or default
    if chosen is None:
        return Constant(0.0) if is_bias else XavierUniform()
    return chosen
