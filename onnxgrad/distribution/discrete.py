"""Distributions of counts and classes.

Tests: tests/paddle_suite/test_surface.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad import tensor as T
from onnxgrad.core.ir.variable import Variable
from onnxgrad.distribution.base import Distribution, ExponentialFamily, Numbers, as_operand, as_operands, uniforms
from onnxgrad.eager.creation import to_tensor
from onnxgrad.eager.random import generator
from onnxgrad.errors import ArgumentError, NotOffered
from onnxgrad.internal.arguments import checked
from onnxgrad.nn import functional as F

__all__ = ["Bernoulli", "Binomial", "Categorical", "Geometric", "Multinomial", "Poisson"]

_LEAST = {"float16": 1e-3, "float64": 2.220446049250313e-16}
"""By how much probabilities are kept away from 0 and 1, where it is not float32's."""


class Bernoulli(ExponentialFamily):
    """Describe 0 and 1.

    Args:
        probs: the probability of 1.
        name: accepted as in Paddle.
    """

    @checked
    def __init__(self, probs: Numbers, name: str | None = None) -> None:
        self.probs = as_operand(probs)
        least = _LEAST.get(self.probs.dtype.name, 1.1920928955078125e-07)
        self._inside = T.clip(self.probs, least, 1.0 - least)
        self.logits = T.log(self._inside) - T.log1p(-self._inside)
        super().__init__(self.probs.shape)

    @property
    def mean(self) -> Variable:
        return self.probs

    @property
    def variance(self) -> Variable:
        return self.probs * (1.0 - self.probs)

    def _sample(self, shape: list[int]) -> Variable:
        return (uniforms(shape, self.probs) < self.probs).astype(self.probs.dtype)

    def rsample(self, shape: Sequence[int] = (), temperature: float = 1.0) -> Variable:
        """Draw numbers between 0 and 1 that are the nearer to one of them the lower the temperature is. Maddison et al. 2017.

        Args:
            shape: sizes of the axes in front of those of the parameters.
            temperature: above 0.
        """
        u = uniforms(shape, self.probs)
        return F.sigmoid((self.logits + T.log(u) - T.log1p(-u)) / temperature)

    def log_prob(self, value: Variable) -> Variable:
        return value * T.log(self._inside) + (1.0 - value) * T.log1p(-self._inside)

    def entropy(self) -> Variable:
        p = self._inside
        return -(p * T.log(p) + (1.0 - p) * T.log1p(-p))

    def cdf(self, value: Variable) -> Variable:
        """The probability of a value that is not larger.

        Args:
            value: of a shape that broadcasts with the parameters.
        """
        below = T.where(value < 0.0, T.zeros_like(self.probs), 1.0 - self.probs)
        return T.where(value >= 1.0, T.ones_like(below), below)


class Geometric(Distribution):
    """Describe how many trials fail before the first success.

    Args:
        probs: the probability of success.
    """

    @checked
    def __init__(self, probs: Numbers) -> None:
        self.probs = as_operand(probs)
        super().__init__(self.probs.shape)

    @property
    def mean(self) -> Variable:
        return 1.0 / self.probs - 1.0

    @property
    def variance(self) -> Variable:
        return (1.0 / self.probs - 1.0) / self.probs

    def rsample(self, shape: Sequence[int] = ()) -> Variable:
        return T.floor(T.log(uniforms(shape, self.probs)) / T.log1p(-self.probs))

    def log_pmf(self, k: Variable | int) -> Variable:
        """Logarithm of the probability of numbers of failures.

        Args:
            k: whole numbers.
        """
        return k * T.log1p(-self.probs) + T.log(self.probs)

    def pmf(self, k: Variable | int) -> Variable:
        """The probability of numbers of failures.

        Args:
            k: whole numbers.
        """
        return T.exp(self.log_pmf(k))

    def log_prob(self, value: Variable) -> Variable:
        return self.log_pmf(value)

    def entropy(self) -> Variable:
        p = self.probs
        return -(p * T.log(p) + (1.0 - p) * T.log1p(-p)) / p

    def cdf(self, k: Variable | int) -> Variable:
        """The probability of a number that is not larger.

        Args:
            k: whole numbers.
        """
        return 1.0 - T.exp((k + 1.0) * T.log1p(-self.probs))


class Categorical(Distribution):
    """Describe the number of a class, on the last axis of what it is made from.

    As in Paddle, ``prob`` divides the logits by their sum, and samples, entropy and divergence take their softmax.

    Args:
        logits: a number for each class.
        name: accepted as in Paddle.
    """

    @checked
    def __init__(self, logits: Numbers, name: str | None = None) -> None:
        self.logits = as_operand(logits)
        self._prob = self.logits / T.sum(self.logits, -1, keepdim=True)
        super().__init__(self.logits.shape[:-1])

    def _sample(self, shape: list[int]) -> Variable:
        noise = -T.log(-T.log(uniforms(shape, self.logits)))
        return T.argmax(self.logits + noise, axis=-1)

    def entropy(self) -> Variable:
        return -T.sum(F.softmax(self.logits) * F.log_softmax(self.logits), -1)

    def prob(self, value: Variable) -> Variable:
        """The probability of classes.

        Args:
            value: classes, of any shape for a vector of logits; else as many on the last axis as are asked for.
        """
        index = value.astype("int64")
        if self._prob.ndim == 1:
            return T.reshape(T.gather(self._prob, T.reshape(index, [-1])), index.shape)
        if index.ndim == 1:
            index = T.expand(index, [*self._prob.shape[:-1], index.shape[0]])
        return T.take_along_axis(self._prob, index, -1)

    def probs(self, value: Variable) -> Variable:
        """``prob`` under its earlier name.

        Args:
            value: classes.
        """
        return self.prob(value)

    def log_prob(self, value: Variable) -> Variable:
        return T.log(self.prob(value))


class _Counts(Distribution):
    """Describe numbers of draws, each with a probability."""

    total_count: Variable | int
    probs: Variable

    @property
    def mean(self) -> Variable:
        return self.probs * self.total_count

    @property
    def variance(self) -> Variable:
        return self.mean * (1.0 - self.probs)


class Multinomial(_Counts):
    """Describe how often each class is drawn, on the last axis.

    Args:
        total_count: how many are drawn.
        probs: a probability for each class, which are divided by their sum.
    """

    total_count: int

    @checked
    def __init__(self, total_count: int, probs: Numbers) -> None:
        if not isinstance(total_count, int) or total_count < 1:
            raise ArgumentError(f"Multinomial: total_count is an int from 1 on, not {total_count!r}.")
        probs = as_operand(probs)
        self.total_count, self.probs = total_count, probs / T.sum(probs, -1, keepdim=True)
        super().__init__(probs.shape[:-1], probs.shape[-1:])

    def _sample(self, shape: list[int]) -> Variable:
        noise = -T.log(-T.log(uniforms([self.total_count, *shape], self.probs)))
        classes = T.argmax(T.log(self.probs) + noise, axis=-1)
        return T.sum(F.one_hot(classes, self.probs.shape[-1]), 0).astype(self.probs.dtype)

    def log_prob(self, value: Variable) -> Variable:
        counted = T.where(value == 0.0, T.zeros_like(self.probs), T.log(self.probs))
        return T.lgamma(T.sum(value, -1) + 1.0) - T.sum(T.lgamma(value + 1.0), -1) + T.sum(value * counted, -1)

    def entropy(self) -> Variable:
        n, p = float(self.total_count), self.probs
        counts = to_tensor(np.arange(1, self.total_count + 1).astype(p.dtype.numpy).reshape(-1, *[1] * p.ndim))
        ways = T.lgamma(counts * 0.0 + (n + 1.0)) - T.lgamma(counts + 1.0) - T.lgamma(n - counts + 1.0)
        likely = T.exp(ways + counts * T.log(p) + (n - counts) * T.log1p(-p))
        own = -T.sum(p * T.log(p), -1)
        return n * own - math.lgamma(n + 1.0) + T.sum(T.sum(likely * T.lgamma(counts + 1.0), 0), -1)


def _drawn(draw: Any, *parameters: Variable) -> Variable:
    """Samples of numpy's generator"""
    if not all(p.is_eager for p in parameters):
        raise NotOffered("no ONNX operator samples such numbers. Sample them outside of the program and feed them.")
    return to_tensor(np.asarray(draw(*(p.get_value() for p in parameters)), parameters[0].dtype.numpy))


class Poisson(ExponentialFamily):
    """Describe how many events of a constant rate there are.

    Args:
        rate: the mean.

    Raises:
        NotOffered: by ``sample`` in a program.
    """

    @checked
    def __init__(self, rate: Numbers) -> None:
        self.rate = as_operand(rate)
        super().__init__(self.rate.shape)

    @property
    def mean(self) -> Variable:
        return self.rate

    @property
    def variance(self) -> Variable:
        return self.rate

    def _sample(self, shape: list[int]) -> Variable:
        return _drawn(lambda rate: generator().poisson(rate, (*shape, *rate.shape)), self.rate)

    def log_prob(self, value: Variable) -> Variable:
        return value * T.log(self.rate) - self.rate - T.lgamma(value + 1.0)

    def _support(self) -> Variable:
        most = float(self.rate.get_value().max(initial=0.0)) if self.rate.is_eager else 30.0
        count = int(most + 30.0 * math.sqrt(most)) + 20
        return to_tensor(np.arange(count).astype(self.rate.dtype.numpy).reshape(-1, *[1] * self.rate.ndim))

    def entropy(self) -> Variable:
        log_prob = self.log_prob(self._support())
        return -T.sum(T.exp(log_prob) * log_prob, 0)


class Binomial(_Counts):
    """Describe how many of independent trials succeed.

    Args:
        total_count: how many there are.
        probs: the probability of success.

    Raises:
        NotOffered: by ``sample`` and ``entropy`` in a program.
    """

    total_count: Variable

    @checked
    def __init__(self, total_count: Numbers, probs: Numbers) -> None:
        self.total_count, self.probs = as_operands(total_count, probs)
        super().__init__(self.probs.shape)

    def _sample(self, shape: list[int]) -> Variable:
        def draw(count: Any, probs: Any) -> Any:
            return generator().binomial(count.astype(np.int64), probs, (*shape, *probs.shape))

        return _drawn(draw, self.total_count, self.probs)

    def log_prob(self, value: Variable) -> Variable:
        n, p = self.total_count, T.clip(self.probs, 1.1920929e-07, 1.0 - 1.1920929e-07)
        ways = T.lgamma(n + 1.0) - T.lgamma(n - value + 1.0) - T.lgamma(value + 1.0)
        return ways + value * T.log(p) + (n - value) * T.log1p(-p)

    def entropy(self) -> Variable:
        if not self.total_count.is_eager:
            raise NotOffered("Binomial: the entropy adds up all counts, which a program does not know. Estimate it from samples.")
        most = int(self.total_count.get_value().max())
        values = to_tensor(np.arange(most + 1).astype(self.probs.dtype.numpy).reshape(-1, *[1] * self.probs.ndim))
        possible = values <= self.total_count
        log_prob = self.log_prob(T.minimum(values + T.zeros_like(self.total_count), self.total_count))
        return -T.sum(T.where(possible, T.exp(log_prob) * log_prob, T.zeros_like(log_prob)), 0)
