"""Distributions that are made of gamma numbers.

Tests: tests/paddle_suite/test_surface.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnxgrad import tensor as T
from onnxgrad.core.ir.variable import Variable
from onnxgrad.distribution.base import Distribution, ExponentialFamily, Numbers, as_operand, as_operands, gamma_samples, normals
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked

__all__ = ["Beta", "Chi2", "Dirichlet", "Gamma", "StudentT"]


class Gamma(ExponentialFamily):
    """Describe waiting times until the concentration-th event.

    Args:
        concentration: above 0.
        rate: how many events there are in a unit of time.
    """

    @checked
    def __init__(self, concentration: Numbers, rate: Numbers) -> None:
        self.concentration, self.rate = as_operands(concentration, rate)
        super().__init__(self.rate.shape)

    @property
    def mean(self) -> Variable:
        return self.concentration / self.rate

    @property
    def variance(self) -> Variable:
        return self.concentration / (self.rate * self.rate)

    def rsample(self, shape: Sequence[int] = ()) -> Variable:
        return gamma_samples(shape, self.concentration) / self.rate

    def log_prob(self, value: Variable) -> Variable:
        a = self.concentration
        return a * T.log(self.rate) + (a - 1.0) * T.log(value) - self.rate * value - T.lgamma(a)

    def entropy(self) -> Variable:
        a = self.concentration
        return a - T.log(self.rate) + T.lgamma(a) + (1.0 - a) * T.digamma(a)


class Chi2(Gamma):
    """Describe sums of squares of normal numbers.

    Args:
        df: how many, above 0.
    """

    @checked
    def __init__(self, df: Numbers) -> None:
        self.df = as_operand(df)
        super().__init__(0.5 * self.df, T.full_like(self.df, 0.5))


class Beta(ExponentialFamily):
    """Describe shares, between 0 and 1.

    Args:
        alpha: weight of 1, above 0.
        beta: weight of 0, above 0.
    """

    @checked
    def __init__(self, alpha: Numbers, beta: Numbers) -> None:
        self.alpha, self.beta = as_operands(alpha, beta)
        self._both = Dirichlet(T.stack([self.alpha, self.beta], -1))
        super().__init__(self.alpha.shape)

    @property
    def mean(self) -> Variable:
        return self.alpha / (self.alpha + self.beta)

    @property
    def variance(self) -> Variable:
        return self.mean * (1.0 - self.mean) / (self.alpha + self.beta + 1.0)

    def _sample(self, shape: list[int]) -> Variable:
        return self._both.sample(shape)[..., 0]

    def log_prob(self, value: Variable) -> Variable:
        return (self.alpha - 1.0) * T.log(value) + (self.beta - 1.0) * T.log1p(-value) - self._both.log_beta()

    def entropy(self) -> Variable:
        return self._both.entropy()


class Dirichlet(ExponentialFamily):
    """Describe shares that add up to 1, on the last axis.

    Args:
        concentration: weights, above 0, of one axis or more.

    Raises:
        ArgumentError: for a number.
    """

    @checked
    def __init__(self, concentration: Numbers) -> None:
        self.concentration = as_operand(concentration)
        if not self.concentration.ndim:
            raise ArgumentError("Dirichlet takes a vector of weights or more axes, not a number.")
        shape = self.concentration.shape
        super().__init__(shape[:-1], shape[-1:])

    def _total(self) -> Variable:
        return T.sum(self.concentration, -1, keepdim=True)

    @property
    def mean(self) -> Variable:
        return self.concentration / self._total()

    @property
    def variance(self) -> Variable:
        total = self._total()
        return self.concentration * (total - self.concentration) / (total * total * (total + 1.0))

    def _sample(self, shape: list[int]) -> Variable:
        parts = gamma_samples(shape, self.concentration)
        return parts / T.sum(parts, -1, keepdim=True)

    def log_beta(self) -> Variable:
        """Logarithm of the Beta function of the weights, which densities are divided by"""
        return T.sum(T.lgamma(self.concentration), -1) - T.lgamma(T.sum(self.concentration, -1))

    def log_prob(self, value: Variable) -> Variable:
        return T.sum((self.concentration - 1.0) * T.log(value), -1) - self.log_beta()

    def entropy(self) -> Variable:
        a = self.concentration
        total = T.sum(a, -1)
        inner = (total - float(a.shape[-1])) * T.digamma(total) - T.sum((a - 1.0) * T.digamma(a), -1)
        return self.log_beta() + inner


class StudentT(Distribution):
    """Describe means of few normal numbers, in units of their estimated deviation.

    Args:
        df: degrees of freedom, above 0.
        loc: the location.
        scale: the scale.
        name: accepted as in Paddle.
    """

    @checked
    def __init__(self, df: Numbers, loc: Numbers, scale: Numbers, name: str | None = None) -> None:
        self.df, self.loc, self.scale = as_operands(df, loc, scale)
        super().__init__(self.df.shape)

    @property
    def mean(self) -> Variable:
        return T.where(self.df > 1.0, self.loc, T.full_like(self.loc, float("nan")))

    @property
    def variance(self) -> Variable:
        least = T.maximum(self.df, T.full_like(self.df, 2.0 + 1e-6))
        finite = self.scale * self.scale * self.df / (least - 2.0)
        rest = T.where(self.df > 1.0, T.full_like(self.df, float("inf")), T.full_like(self.df, float("nan")))
        return T.where(self.df > 2.0, finite, rest)

    def _sample(self, shape: list[int]) -> Variable:
        squares = gamma_samples(shape, 0.5 * self.df) * 2.0
        return self.loc + self.scale * normals(shape, self.loc) * T.rsqrt(squares / self.df)

    def log_prob(self, value: Variable) -> Variable:
        n, y = self.df, (value - self.loc) / self.scale
        constant = T.log(self.scale) + 0.5 * T.log(n) + 0.5 * math.log(math.pi) + T.lgamma(0.5 * n) - T.lgamma(0.5 * (n + 1.0))
        return -0.5 * (n + 1.0) * T.log1p(y * y / n) - constant

    def entropy(self) -> Variable:
        n = self.df
        log_beta = T.lgamma(0.5 * n) + 0.5 * math.log(math.pi) - T.lgamma(0.5 * (n + 1.0))
        inner = 0.5 * (n + 1.0) * (T.digamma(0.5 * (n + 1.0)) - T.digamma(0.5 * n))
        return T.log(self.scale) + inner + 0.5 * T.log(n) + log_beta
