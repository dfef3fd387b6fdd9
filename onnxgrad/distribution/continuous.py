"""Distributions of real numbers with a location and a scale, or with one parameter.

Tests: tests/paddle_suite/test_surface.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from onnxgrad import tensor as T
from onnxgrad.core.ir.variable import Variable
from onnxgrad.distribution.base import Distribution, ExponentialFamily, Numbers, as_operand, as_operands, normals, uniforms
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked

__all__ = ["Cauchy", "ContinuousBernoulli", "Exponential", "Gumbel", "Laplace", "LogNormal", "Normal", "Uniform"]

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class _LocationScale(Distribution):
    """Base of those that are a location plus a scale times a standard one."""

    @checked
    def __init__(self, loc: Numbers, scale: Numbers) -> None:
        self.loc, self.scale = as_operands(loc, scale)
        super().__init__(self.loc.shape)

    def _standard(self, value: Variable) -> Variable:
        return (value - self.loc) / self.scale


class Normal(_LocationScale):
    """Describe normal numbers.

    Args:
        loc: the mean.
        scale: the deviation.
        name: accepted as in Paddle.

    Example:
        >>> paddle.distribution.Normal(0.0, 2.0).variance.item()
        4.0
    """

    @checked
    def __init__(self, loc: Numbers, scale: Numbers, name: str | None = None) -> None:
        super().__init__(loc, scale)

    @property
    def mean(self) -> Variable:
        return self.loc

    @property
    def variance(self) -> Variable:
        return self.scale * self.scale

    def rsample(self, shape: Sequence[int] = ()) -> Variable:
        return self.loc + self.scale * normals(shape, self.loc)

    def log_prob(self, value: Variable) -> Variable:
        return -0.5 * self._standard(value) ** 2 - T.log(self.scale) - _HALF_LOG_2PI

    def probs(self, value: Variable) -> Variable:
        """``prob`` under its earlier name.

        Args:
            value: of a shape that broadcasts with the parameters.
        """
        return self.prob(value)

    def entropy(self) -> Variable:
        return T.log(self.scale) + (0.5 + _HALF_LOG_2PI)

    def cdf(self, value: Variable) -> Variable:
        """The probability of a smaller value.

        Args:
            value: of a shape that broadcasts with the parameters.
        """
        return 0.5 * (1.0 + T.erf(self._standard(value) / math.sqrt(2.0)))

    def icdf(self, value: Variable) -> Variable:
        """The number that is larger with a probability.

        Args:
            value: probabilities.
        """
        return self.loc + self.scale * math.sqrt(2.0) * T.erfinv(2.0 * value - 1.0)


class LogNormal(Normal):
    """Describe exponentials of normal numbers.

    Args:
        loc: the mean of the logarithm.
        scale: its deviation.
        name: accepted as in Paddle.
    """

    @property
    def mean(self) -> Variable:
        return T.exp(self.loc + 0.5 * self.scale * self.scale)

    @property
    def variance(self) -> Variable:
        square = self.scale * self.scale
        return T.expm1(square) * T.exp(2.0 * self.loc + square)

    def rsample(self, shape: Sequence[int] = ()) -> Variable:
        return T.exp(super().rsample(shape))

    def log_prob(self, value: Variable) -> Variable:
        return super().log_prob(T.log(value)) - T.log(value)

    def entropy(self) -> Variable:
        return super().entropy() + self.loc

    def cdf(self, value: Variable) -> Variable:
        return super().cdf(T.log(value))

    def icdf(self, value: Variable) -> Variable:
        return T.exp(super().icdf(value))


class Uniform(Distribution):
    """Describe numbers that are equally likely anywhere in an interval.

    Args:
        low: its lower end.
        high: its upper end, which does not belong to it.
        name: accepted as in Paddle.
    """

    @checked
    def __init__(self, low: Numbers, high: Numbers, name: str | None = None) -> None:
        self.low, self.high = as_operands(low, high)
        super().__init__(self.low.shape)

    @property
    def mean(self) -> Variable:
        return 0.5 * (self.low + self.high)

    @property
    def variance(self) -> Variable:
        return (self.high - self.low) ** 2 / 12.0

    def rsample(self, shape: Sequence[int] = ()) -> Variable:
        return self.low + (self.high - self.low) * uniforms(shape, self.low)

    def _inside(self, value: Variable) -> Variable:
        return T.logical_and(value > self.low, value < self.high)

    def log_prob(self, value: Variable) -> Variable:
        return T.log(self.prob(value))

    def prob(self, value: Variable) -> Variable:
        return self._inside(value).astype(self.low.dtype) / (self.high - self.low)

    def probs(self, value: Variable) -> Variable:
        """``prob`` under its earlier name.

        Args:
            value: of a shape that broadcasts with the parameters.
        """
        return self.prob(value)

    def entropy(self) -> Variable:
        return T.log(self.high - self.low)

    def cdf(self, value: Variable) -> Variable:
        """The probability of a smaller value.

        Args:
            value: of a shape that broadcasts with the parameters.
        """
        return T.clip((value - self.low) / (self.high - self.low), 0.0, 1.0)


class Laplace(_LocationScale):
    """Describe numbers whose density falls exponentially on both sides of a location.

    Args:
        loc: the mean.
        scale: the mean distance from it.
    """

    @property
    def mean(self) -> Variable:
        return self.loc

    @property
    def variance(self) -> Variable:
        return 2.0 * self.scale * self.scale

    def rsample(self, shape: Sequence[int] = ()) -> Variable:
        return self.icdf(uniforms(shape, self.loc))

    def log_prob(self, value: Variable) -> Variable:
        return -T.log(2.0 * self.scale) - T.abs(self._standard(value))

    def entropy(self) -> Variable:
        return 1.0 + T.log(2.0 * self.scale)

    def cdf(self, value: Variable) -> Variable:
        """The probability of a smaller value.

        Args:
            value: of a shape that broadcasts with the parameters.
        """
        x = self._standard(value)
        return 0.5 - 0.5 * T.sign(x) * T.expm1(-T.abs(x))

    def icdf(self, value: Variable) -> Variable:
        """The number that is larger with a probability.

        Args:
            value: probabilities.
        """
        centred = value - 0.5
        return self.loc - self.scale * T.sign(centred) * T.log1p(-2.0 * T.abs(centred))


class Gumbel(_LocationScale):
    """Describe the largest of many numbers.

    Args:
        loc: the most likely number.
        scale: how wide it is.
    """

    @property
    def mean(self) -> Variable:
        return self.loc + np.euler_gamma * self.scale

    @property
    def variance(self) -> Variable:
        return self.scale * self.scale * (math.pi**2 / 6.0)

    def rsample(self, shape: Sequence[int] = ()) -> Variable:
        return self.loc - self.scale * T.log(-T.log(uniforms(shape, self.loc)))

    def log_prob(self, value: Variable) -> Variable:
        x = self._standard(value)
        return -(x + T.exp(-x)) - T.log(self.scale)

    def entropy(self) -> Variable:
        return T.log(self.scale) + (1.0 + np.euler_gamma)

    def cdf(self, value: Variable) -> Variable:
        """The probability of a smaller value.

        Args:
            value: of a shape that broadcasts with the parameters.
        """
        return T.exp(-T.exp(-self._standard(value)))


class Cauchy(_LocationScale):
    """Describe numbers with tails so wide that they have no mean.

    Args:
        loc: the median.
        scale: half of the distance between the quartiles.
        name: accepted as in Paddle.

    Raises:
        ArgumentError: by ``mean``, ``variance`` and ``stddev``, which do not exist.
    """

    @checked
    def __init__(self, loc: Numbers, scale: Numbers, name: str | None = None) -> None:
        super().__init__(loc, scale)

    @property
    def mean(self) -> Variable:
        raise ArgumentError("a Cauchy distribution has no mean. Take loc, the median.")

    @property
    def variance(self) -> Variable:
        raise ArgumentError("a Cauchy distribution has no variance. Take scale.")

    @property
    def stddev(self) -> Variable:
        raise ArgumentError("a Cauchy distribution has no deviation. Take scale.")

    def rsample(self, shape: Sequence[int] = ()) -> Variable:
        return self.loc + self.scale * T.tan((uniforms(shape, self.loc) - 0.5) * math.pi)

    def log_prob(self, value: Variable) -> Variable:
        return -T.log1p(self._standard(value) ** 2) - T.log(self.scale) - math.log(math.pi)

    def entropy(self) -> Variable:
        return T.log(self.scale) + math.log(4.0 * math.pi)

    def cdf(self, value: Variable) -> Variable:
        """The probability of a smaller value.

        Args:
            value: of a shape that broadcasts with the parameters.
        """
        return T.atan(self._standard(value)) / math.pi + 0.5


class Exponential(ExponentialFamily):
    """Describe waiting times of a constant rate.

    Args:
        rate: how many there are in a unit of time.
    """

    @checked
    def __init__(self, rate: Numbers) -> None:
        self.rate = as_operand(rate)
        super().__init__(self.rate.shape)

    @property
    def mean(self) -> Variable:
        return 1.0 / self.rate

    @property
    def variance(self) -> Variable:
        return 1.0 / (self.rate * self.rate)

    def rsample(self, shape: Sequence[int] = ()) -> Variable:
        return -T.log(uniforms(shape, self.rate)) / self.rate

    def log_prob(self, value: Variable) -> Variable:
        return T.log(self.rate) - self.rate * value

    def entropy(self) -> Variable:
        return 1.0 - T.log(self.rate)

    def cdf(self, value: Variable) -> Variable:
        """The probability of a smaller value.

        Args:
            value: of a shape that broadcasts with the parameters.
        """
        return -T.expm1(-self.rate * value)

    def icdf(self, value: Variable) -> Variable:
        """The number that is larger with a probability.

        Args:
            value: probabilities.
        """
        return -T.log1p(-value) / self.rate


class ContinuousBernoulli(Distribution):
    """Describe numbers in (0, 1) with a density of probs^x (1 - probs)^(1 - x). Loaiza-Ganem and Cunningham 2019.

    Args:
        probs: between 0 and 1.
        lims: between which a series stands in for formulas that divide 0 by 0 at 1/2.
    """

    @checked
    def __init__(self, probs: Numbers, lims: Sequence[float] = (0.499, 0.501)) -> None:
        self.probs, self.lims = as_operand(probs), (float(lims[0]), float(lims[1]))
        super().__init__(self.probs.shape)
        self._near = T.logical_and(self.probs > self.lims[0], self.probs < self.lims[1])
        self._far = T.where(self._near, T.full_like(self.probs, self.lims[0]), self.probs)

    def _slope(self) -> Variable:
        """2 artanh(1 - 2 p) = log((1 - p) / p), where p is not near to 1/2"""
        return T.log1p(-self._far) - T.log(self._far)

    @property
    def mean(self) -> Variable:
        x = self.probs - 0.5
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x * x) * x
        return T.where(self._near, series, self._far / (2.0 * self._far - 1.0) + 1.0 / self._slope())

    @property
    def variance(self) -> Variable:
        x = (self.probs - 0.5) ** 2
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        exact = self._far * (self._far - 1.0) / (1.0 - 2.0 * self._far) ** 2 + 1.0 / self._slope() ** 2
        return T.where(self._near, series, exact)

    def _log_constant(self) -> Variable:
        x = (self.probs - 0.5) ** 2
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return T.where(self._near, series, T.log(self._slope() / (1.0 - 2.0 * self._far)))

    def rsample(self, shape: Sequence[int] = ()) -> Variable:
        return self.icdf(uniforms(shape, self.probs))

    def log_prob(self, value: Variable) -> Variable:
        return value * T.log(self.probs) + (1.0 - value) * T.log1p(-self.probs) + self._log_constant()

    def entropy(self) -> Variable:
        slope = T.log(self.probs) - T.log1p(-self.probs)
        return -self._log_constant() - T.log1p(-self.probs) - self.mean * slope

    def cdf(self, value: Variable) -> Variable:
        """The probability of a smaller value.

        Args:
            value: of a shape that broadcasts with the parameters.
        """
        p = self._far
        exact = (T.exp(value * T.log(p) + (1.0 - value) * T.log1p(-p)) + p - 1.0) / (2.0 * p - 1.0)
        inside = T.where(self._near, value + T.zeros_like(p), exact)
        inside = T.where(value <= 0.0, T.zeros_like(inside), inside)
        return T.where(value >= 1.0, T.ones_like(inside), inside)

    def icdf(self, value: Variable) -> Variable:
        """The number that is larger with a probability.

        Args:
            value: probabilities.
        """
        p = self._far
        exact = (T.log1p(-p + value * (2.0 * p - 1.0)) - T.log1p(-p)) / -self._slope()
        return T.where(self._near, value + T.zeros_like(p), exact)
