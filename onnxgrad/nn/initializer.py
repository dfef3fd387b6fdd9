"""Initial values of parameters, as constant and random operators of the startup program.

Sources: Glorot and Bengio 2010 (Xavier); He et al. 2015 (Kaiming).
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from onnxgrad import state
from onnxgrad.dtypes import DType
from onnxgrad.errors import ArgumentError
from onnxgrad.ir.builder import Builder
from onnxgrad.ir.variable import Variable

__all__ = [
    "Assign",
    "Constant",
    "Initializer",
    "KaimingNormal",
    "KaimingUniform",
    "Normal",
    "Uniform",
    "XavierNormal",
    "XavierUniform",
]


class Initializer:
    """Base: ``append`` writes operators that compute the initial value."""

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        raise NotImplementedError


def _next_seed(op: Builder) -> float:
    """A seed for one random operator: counted from the program's or the global seed, else from the system; 0 if drawn eagerly."""
    if op.block.is_eager:
        return 0.0
    base = op.block.program.random_seed or state.current.seed
    if base is None or (base == 0 and state.current.seed is None):
        return float(random.SystemRandom().randrange(1, 2**24))
    state.current.seeds_drawn += 1
    drawn = sum(1 for other in op.block.ops if other.type.startswith("Random"))
    return float(np.random.SeedSequence([base, drawn]).generate_state(1)[0] % (2**24 - 1) + 1)


def _fans(shape: list[int]) -> tuple[int, int]:
    """(inputs, outputs) of a weight: [in, out] for a matrix, [out, in, *kernel] for a filter"""
    if len(shape) < 2:
        size = shape[0] if shape else 1
        return size, size
    if len(shape) == 2:
        return shape[0], shape[1]
    taps = math.prod(shape[2:])
    return shape[1] * taps, shape[0] * taps


def _uniform(op: Builder, shape: list[int], dtype: DType, low: float, high: float) -> Variable:
    attrs = {"shape": shape, "low": low, "high": high, "dtype": 1, "seed": _next_seed(op)}
    return op.Cast(op.emit("RandomUniform", (), attrs), to=dtype.number)  # type: ignore[no-any-return]


def _normal(op: Builder, shape: list[int], dtype: DType, mean: float, std: float) -> Variable:
    attrs = {"shape": shape, "mean": mean, "scale": std, "dtype": 1, "seed": _next_seed(op)}
    return op.Cast(op.emit("RandomNormal", (), attrs), to=dtype.number)  # type: ignore[no-any-return]


class Constant(Initializer):
    """Every element ``value``."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        return op.Expand(op.constant(self.value, dtype), np.array(shape, np.int64))  # type: ignore[no-any-return]


class Assign(Initializer):
    """The given array."""

    def __init__(self, value: Any, name: str | None = None) -> None:
        self.value = np.asarray(value)

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        if list(self.value.shape) != shape:
            raise ArgumentError(f"Assign holds shape {list(self.value.shape)}, the parameter has {shape}.")
        return op.Identity(op.constant(self.value, dtype))  # type: ignore[no-any-return]


class Uniform(Initializer):
    """Uniform on [low, high)."""

    def __init__(self, low: float = -1.0, high: float = 1.0, name: str | None = None) -> None:
        self.low, self.high = low, high

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        return _uniform(op, shape, dtype, self.low, self.high)


class Normal(Initializer):
    """Normal with a mean and a standard deviation."""

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> None:
        self.mean, self.std = mean, std

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        return _normal(op, shape, dtype, self.mean, self.std)


class _Fan(Initializer):
    """Base of those that scale with the number of inputs and outputs."""

    def __init__(self, fan_in: int | None = None, fan_out: int | None = None, name: str | None = None) -> None:
        self.fan_in, self.fan_out = fan_in, fan_out

    def fans(self, shape: list[int]) -> tuple[int, int]:
        fan_in, fan_out = _fans(shape)
        return self.fan_in or fan_in, self.fan_out or fan_out


class XavierUniform(_Fan):
    """Uniform within sqrt(6 / (fan_in + fan_out))."""

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        limit = math.sqrt(6.0 / sum(self.fans(shape)))
        return _uniform(op, shape, dtype, -limit, limit)


class XavierNormal(_Fan):
    """Normal with standard deviation sqrt(2 / (fan_in + fan_out))."""

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        return _normal(op, shape, dtype, 0.0, math.sqrt(2.0 / sum(self.fans(shape))))


class KaimingUniform(_Fan):
    """Uniform within sqrt(6 / fan_in)."""

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        limit = math.sqrt(6.0 / self.fans(shape)[0])
        return _uniform(op, shape, dtype, -limit, limit)


class KaimingNormal(_Fan):
    """Normal with standard deviation sqrt(2 / fan_in)."""

    def append(self, op: Builder, shape: list[int], dtype: DType) -> Variable:
        return _normal(op, shape, dtype, 0.0, math.sqrt(2.0 / self.fans(shape)[0]))
