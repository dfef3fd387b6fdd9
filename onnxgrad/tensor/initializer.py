"""Initial values of parameters, as constant and random operators of the startup program.

Sources: Glorot and Bengio 2010 (Xavier); He et al. 2015 (Kaiming); Saxe et al. 2014 (orthogonal).

Tests: tests/static/test_initializers.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.defaults import default_startup_program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DType
from onnxgrad.errors import ArgumentError, ArgumentTypeError, Mismatch
from onnxgrad.internal import state
from onnxgrad.internal.signatures import Taken
from onnxgrad.tensor.random import next_seed, sampled
from onnxgrad.tensor.special import inverse_erf

__all__ = [
    "Assign", "Bilinear", "Constant", "Dirac", "Initializer", "KaimingNormal", "KaimingUniform", "NormOf", "Normal",
    "Orthogonal", "TruncatedNormal", "Uniform", "XavierNormal", "XavierUniform", "calculate_gain", "global_initializer",
    "set_global_initializer",
]  # fmt: skip


class Initializer(Taken):
    """Base: ``append`` writes operators that compute the initial value. A call gives it to a parameter that exists.

    Example:
        >>> p = paddle.create_parameter([2], "float32")
        >>> paddle.nn.initializer.Constant(3.0)(p)
        >>> p.tolist()
        [3.0, 3.0]
    """

    def _begin(self, options: Any) -> None:
        vars(self).update(vars(options))

    def __call__(self, param: Variable, block: Any = None) -> None:
        shape = [int(n) for n in param.shape]
        if param.is_eager:
            param.set_value(np.asarray(self.append(param.block.build, shape, param.dtype)))
            return
        startup = default_startup_program().global_block()
        copy = startup.vars.get(param.name) or startup.create_parameter(param.name, shape, param.dtype)
        startup.program.updates[copy] = self.append(Builder(startup, key=f"{param.name}.init"), shape, param.dtype)

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
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
    """Every element ``value``."""

    takes = "value=0.0"

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        if dtype.name != "bfloat16":
            return op.Expand(op.constant(self.value, dtype), np.array(shape, np.int64))
        # onnxruntime's CPU provider does not expand bfloat16.
        wide = op.Expand(np.asarray(self.value, dtype.numpy).astype(np.float32), np.array(shape, np.int64))
        return op.Cast(wide, to=dtype.number)


class Assign(Initializer):
    """The given array."""

    takes = "value, name=None"

    def _begin(self, options: Any) -> None:
        value = options.value
        self.value = np.asarray(value.numpy() if hasattr(value, "numpy") else value)

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        if list(self.value.shape) != shape:
            raise ArgumentError(f"Assign holds shape {list(self.value.shape)}, the parameter has {shape}.")
        return op.Identity(op.constant(self.value, dtype))


class Uniform(Initializer):
    """Uniform on [low, high)."""

    takes = "low=-1.0, high=1.0, name=None"

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        return _sampled(op, "RandomUniform", shape, dtype, low=self.low, high=self.high)


class Normal(Initializer):
    """Normal with a mean and a standard deviation."""

    takes = "mean=0.0, std=1.0, name=None"

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        return _sampled(op, "RandomNormal", shape, dtype, mean=self.mean, scale=self.std)


class TruncatedNormal(Initializer):
    """Normal, with what lies outside ``[mean + a * std, mean + b * std]`` sampled again."""

    takes = "mean=0.0, std=1.0, a=-2.0, b=2.0, name=None"

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

    takes = "fan_in=None, fan_out=None, gain=1.0, name=None"

    def _std(self, shape: list[int]) -> float:
        fans = zip((self.fan_in, self.fan_out), _fans(shape), strict=True)
        return float(self.gain * math.sqrt(2.0 / sum(own if fan is None else fan for fan, own in fans)))


class XavierUniform(_Xavier, _ScaledUniform):
    """Uniform within gain * sqrt(6 / (fan_in + fan_out))."""


class XavierNormal(_Xavier, _ScaledNormal):
    """Normal with standard deviation gain * sqrt(2 / (fan_in + fan_out))."""


class _Kaiming(_Scaled):
    """Base of the initializers that scale with the number of inputs and the gain of an activation."""

    takes = "fan_in=None, negative_slope=0.0, nonlinearity='relu', name=None"

    def _begin(self, options: Any) -> None:
        self.fan_in, self.gain = options.fan_in, calculate_gain(options.nonlinearity, options.negative_slope)

    def _std(self, shape: list[int]) -> float:
        return self.gain / math.sqrt(_fans(shape)[0] if self.fan_in is None else self.fan_in)


class KaimingUniform(_Kaiming, _ScaledUniform):
    """Uniform within gain * sqrt(3 / fan_in); for ReLU sqrt(6 / fan_in)."""


class KaimingNormal(_Kaiming, _ScaledNormal):
    """Normal with standard deviation gain / sqrt(fan_in); for ReLU sqrt(2 / fan_in)."""


class Orthogonal(Initializer):
    """Orthonormal rows or columns, whichever are fewer, times ``gain``; axes after the first count as columns."""

    takes = "gain=1.0, name=None"

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
    """The length of another parameter's initial value over some axes."""

    takes = "parameter, axes"

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        other = op.block.find(self.parameter)
        value = op.block.program.updates.get(other) if other is not None else None
        if value is None:
            raise ArgumentError(f"{self.parameter} has no initial value in this startup program. Use the same one for both.")
        return op.ReduceL2(value, self.axes, keepdims=1)


class Dirac(Initializer):
    """Filters that pass their channels on: 1 in the middle for output channel i from input channel i, within each group."""

    def __init__(self, groups: int = 1, name: str | None = None) -> None:
        if not isinstance(groups, int) or groups < 1:
            raise ArgumentError(f"Dirac: groups is a positive int, not {groups!r}.")
        self.groups = groups

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
    """Filters [C_out, C_in, K, K] for a transposed convolution that enlarges by linear interpolation."""

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        if len(shape) != 4 or shape[2] != shape[3]:
            raise ArgumentError(f"Bilinear needs square filters of 4 axes; the parameter has shape {shape}.")
        size = shape[3]
        factor = math.ceil(size / 2.0)
        centre = (2 * factor - 1 - factor % 2) / (2.0 * factor)
        slope = 1 - np.abs(np.arange(size) / factor - centre)
        value = np.broadcast_to(np.outer(slope, slope), shape)
        return op.Identity(op.constant(value, dtype))


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
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
    plain = ("sigmoid", "linear", *(f"conv{n}d{suffix}" for n in (1, 2, 3) for suffix in ("", "_transpose")))
    if nonlinearity not in (*gains, *plain):
        raise ArgumentError(f"calculate_gain: there is no activation {nonlinearity!r}; there are {sorted([*gains, *plain])}.")
    return gains.get(nonlinearity, 1.0)


def set_global_initializer(weight_init: Initializer | None, bias_init: Initializer | None = None) -> None:
    """Initialise all parameters made from now on with these, unless their ParamAttr says otherwise; None to end that.

    Raises:
        ArgumentTypeError: if one is not an initializer.
    """
    for initializer in (weight_init, bias_init):
        if initializer is not None and not isinstance(initializer, Initializer):
            raise ArgumentTypeError(f"set_global_initializer takes initializers, not {type(initializer).__name__}.")
    state.current.initializers = {"w": weight_init, "b": bias_init}


def global_initializer(suffix: str) -> Initializer | None:
    """Look up the initializer that ``set_global_initializer`` set for weights ('w') or biases ('b')."""
    initializer: Initializer | None = state.current.initializers.get(suffix)
    return initializer


def chosen_initializer(default: Initializer | None, is_bias: bool) -> Initializer:
    """Choose the initializer of ``create_parameter``: the one it is passed, else 0 for a bias and Xavier uniform for a weight.

    Raises:
        ArgumentTypeError: if that is no initializer.
    """
    if default is None:
        return Constant(0.0) if is_bias else XavierUniform()
    if not callable(default):
        raise ArgumentTypeError(f"default_initializer is an Initializer, not {type(default).__name__}.")
    return default
