"""What all distributions have: shapes, samples, densities.

Tests: tests/paddle_suite/test_surface.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from onnxgrad import tensor as T
from onnxgrad.autograd import no_grad
from onnxgrad.core.ir.variable import Variable
from onnxgrad.eager.creation import to_tensor
from onnxgrad.errors import NotOffered
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor.random import rand, standard_normal

__all__ = ["Distribution", "ExponentialFamily", "Numbers", "as_operand", "as_operands", "gamma_samples", "normals", "uniforms"]

Numbers: TypeAlias = Variable | float | Sequence[float] | Sequence[Sequence[float]] | np.ndarray[Any, Any]
"""A parameter: a tensor, a number, a list of numbers or an array."""

_TRIES = 12
"""Proposals for each gamma sample: all are rejected once in 10^15 samples, and then the last one counts."""


def as_operand(value: Any) -> Variable:
    """A parameter as a tensor of floats."""
    tensor = value if isinstance(value, Variable) else to_tensor(value)
    return tensor if tensor.dtype.is_float else tensor.astype("float32")


def as_operands(*values: Any) -> list[Variable]:
    """Parameters as tensors that are broadcast to one shape."""
    tensors = [as_operand(value) for value in values]
    if len({tuple(tensor.shape) for tensor in tensors}) == 1:
        return tensors
    zeros = T.zeros_like(sum(tensors[1:], tensors[0]))
    return [tensor + zeros for tensor in tensors]


def _shape_of_samples(shape: Sequence[int], like: Variable) -> Any:
    if min(like.shape, default=0) >= 0:
        return [*shape, *like.shape]
    return T.concat([to_tensor(np.array(shape, np.int64)), T.shape(like).astype("int64")]) if shape else T.shape(like)


def uniforms(shape: Sequence[int], like: Variable) -> Variable:
    """Numbers in (0, 1) of a shape in front of that of a tensor, in its element type."""
    return rand(_shape_of_samples(shape, like)).clip(1e-7, 1.0 - 1e-7).astype(like.dtype)


def normals(shape: Sequence[int], like: Variable) -> Variable:
    """Normal numbers of a shape in front of that of a tensor, in its element type."""
    return standard_normal(_shape_of_samples(shape, like)).astype(like.dtype)


def gamma_samples(shape: Sequence[int], concentration: Variable) -> Variable:
    """Gamma numbers of rate 1, by Marsaglia and Tsang (2000): of a number of proposals the first that is accepted."""
    small = (concentration < 1.0).astype(concentration.dtype)
    d = concentration + small - 1.0 / 3.0
    c = 1.0 / T.sqrt(d * 9.0)
    x = normals([_TRIES, *shape], concentration)
    v = (c * x + 1.0) ** 3
    log_v = T.log(T.maximum(v, T.full_like(v, 1e-30)))
    accepted = T.logical_and(v > 0.0, T.log(uniforms([_TRIES, *shape], concentration)) < x * x * 0.5 + d - d * v + d * log_v)
    first = T.argmax(accepted.astype("int32"), axis=0, keepdim=True)
    sample = T.squeeze(T.take_along_axis(d * v, first, 0), 0)
    # One of a concentration below 1 is one of that plus 1, scaled down.
    power = small / T.maximum(concentration, T.full_like(concentration, 1e-6))
    return sample * T.exp(T.log(uniforms(shape, concentration)) * power)


class Distribution:
    """Base of distributions: ``sample``, ``rsample``, ``log_prob``, ``prob``, ``entropy``, ``kl_divergence``.

    Args:
        batch_shape: sizes of the axes over which parameters differ.
        event_shape: sizes of the axes of one sample.

    Example:
        >>> normal = paddle.distribution.Normal(0.0, 1.0)
        >>> float(normal.log_prob(paddle.to_tensor(0.0)))
        -0.9189385175704956
    """

    @checked
    def __init__(self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = ()) -> None:
        self._batch_shape, self._event_shape = tuple(batch_shape), tuple(event_shape)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Sizes of the axes over which parameters differ."""
        return self._batch_shape

    @property
    def event_shape(self) -> tuple[int, ...]:
        """Sizes of the axes of one sample."""
        return self._event_shape

    @property
    def mean(self) -> Variable:
        """The expected value."""
        raise self._lacking("mean")

    @property
    def variance(self) -> Variable:
        """The expected square of the distance from the mean."""
        raise self._lacking("variance")

    @property
    def stddev(self) -> Variable:
        """The square root of the variance."""
        return T.sqrt(self.variance)

    def sample(self, shape: Sequence[int] = ()) -> Variable:
        """Draw samples, through which no gradients flow.

        Args:
            shape: sizes of the axes in front of those of the parameters.
        """
        with no_grad():
            sample = self._sample(list(shape))
        sample.stop_gradient = True
        return sample

    def rsample(self, shape: Sequence[int] = ()) -> Variable:
        """Draw samples that are a function of the parameters, to which gradients flow.

        Args:
            shape: sizes of the axes in front of those of the parameters.

        Raises:
            NotOffered: where samples are no such function.
        """
        raise self._lacking("rsample")

    def _sample(self, shape: list[int]) -> Variable:
        return self.rsample(shape)

    def entropy(self) -> Variable:
        """The expected -log of the density."""
        raise self._lacking("entropy")

    def log_prob(self, value: Variable) -> Variable:
        """Logarithm of the density or of the probability of values.

        Args:
            value: of a shape that broadcasts with the parameters.
        """
        raise self._lacking("log_prob")

    def prob(self, value: Variable) -> Variable:
        """The density or the probability of values.

        Args:
            value: of a shape that broadcasts with the parameters.
        """
        return T.exp(self.log_prob(value))

    def kl_divergence(self, other: Distribution) -> Variable:
        """The expected logarithm of the ratio of this density and another's.

        Args:
            other: a distribution of a class that ``kl_divergence`` knows with this one.
        """
        from onnxgrad.distribution.kl import kl_divergence

        return kl_divergence(self, other)

    def _lacking(self, what: str) -> NotOffered:
        return NotOffered(f"{type(self).__name__} has no {what}, as in Paddle. Estimate it from samples.")

    def __repr__(self) -> str:
        return type(self).__name__


class ExponentialFamily(Distribution):
    """Base of distributions whose density is exp(<parameters, statistics> - normaliser).

    Args:
        batch_shape: sizes of the axes over which parameters differ.
        event_shape: sizes of the axes of one sample.
    """
