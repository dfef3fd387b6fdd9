"""Distributions of vectors, and those that are made from others.

Tests: tests/paddle_suite/test_surface.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from onnxgrad import tensor as T
from onnxgrad.core.ir.variable import Variable
from onnxgrad.distribution.base import Distribution, Numbers, as_operand, normals
from onnxgrad.distribution.transform import ChainTransform, Transform, summed
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked, checked_with_words
from onnxgrad.tensor import linalg, solvers

__all__ = ["Independent", "MultivariateNormal", "TransformedDistribution"]


class MultivariateNormal(Distribution):
    """Describe normal vectors; exactly one of the three matrices says how they spread.

    Args:
        loc: the mean, a vector or more axes.
        covariance_matrix: the covariances.
        precision_matrix: their inverse.
        scale_tril: a lower triangle whose product with its transpose they are.

    Raises:
        ArgumentError: for a number, or if not exactly one matrix is given.
    """

    @checked
    def __init__(
        self,
        loc: Numbers,
        covariance_matrix: Numbers | None = None,
        precision_matrix: Numbers | None = None,
        scale_tril: Numbers | None = None,
    ) -> None:
        matrices = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        self.loc = as_operand(loc)
        if len(matrices) != 1:
            raise ArgumentError("MultivariateNormal takes one of covariance_matrix, precision_matrix and scale_tril.")
        if not self.loc.ndim:
            raise ArgumentError("MultivariateNormal: loc is a vector or has more axes, not a number.")
        matrix = as_operand(matrices[0])
        if scale_tril is not None:
            self.scale_tril = matrix
        elif covariance_matrix is not None:
            self.covariance_matrix, self.scale_tril = matrix, solvers.cholesky(matrix)
        else:
            self.precision_matrix, self.scale_tril = matrix, solvers.cholesky(solvers.inverse(matrix))
        shape = np.broadcast_shapes(tuple(self.loc.shape[:-1]), tuple(matrix.shape[:-2]))
        super().__init__(shape, self.loc.shape[-1:])

    @property
    def mean(self) -> Variable:
        return self.loc

    @property
    def variance(self) -> Variable:
        return T.sum(self.scale_tril * self.scale_tril, -1) + T.zeros_like(self.loc)

    def rsample(self, shape: Sequence[int] = ()) -> Variable:
        noise = normals(shape, T.sum(self.scale_tril, -1) + self.loc)
        return self.loc + T.squeeze(linalg.matmul(self.scale_tril, T.unsqueeze(noise, -1)), -1)

    def distance(self, x: Variable) -> Variable:
        """The squared length of vectors in units of the spread.

        Args:
            x: vectors on the last axis.
        """
        solved = solvers.triangular_solve(self.scale_tril, T.unsqueeze(x, -1), upper=False)
        return T.sum(T.squeeze(solved, -1) ** 2, -1)

    def log_spread(self) -> Variable:
        """Half of the logarithm of the determinant of the covariances."""
        return T.sum(T.log(T.diagonal(self.scale_tril, axis1=-2, axis2=-1)), -1)

    def log_prob(self, value: Variable) -> Variable:
        size = self.event_shape[0]
        return -0.5 * (size * math.log(2.0 * math.pi) + self.distance(value - self.loc)) - self.log_spread()

    def entropy(self) -> Variable:
        return 0.5 * self.event_shape[0] * (1.0 + math.log(2.0 * math.pi)) + self.log_spread()


class Independent(Distribution):
    """Count the last axes of the parameters of another distribution as axes of one sample.

    Args:
        base: a distribution.
        reinterpreted_batch_rank: how many axes.

    Raises:
        ArgumentTypeError: if ``base`` is no distribution.
        ArgumentError: if it has fewer axes.

    Example:
        >>> normals = paddle.distribution.Normal([0.0, 1.0], [1.0, 1.0])
        >>> paddle.distribution.Independent(normals, 1).log_prob(paddle.zeros([2])).shape
        []
    """

    @checked_with_words
    def __init__(self, base: Distribution, reinterpreted_batch_rank: int) -> None:
        if not 0 < reinterpreted_batch_rank <= len(base.batch_shape):
            raise ArgumentError(f"Independent: {base!r} has {len(base.batch_shape)} axes, not {reinterpreted_batch_rank}.")
        self._base, self._rank = base, reinterpreted_batch_rank
        shape = base.batch_shape + base.event_shape
        kept = len(base.batch_shape) - reinterpreted_batch_rank
        super().__init__(shape[:kept], shape[kept:])

    @property
    def mean(self) -> Variable:
        return self._base.mean

    @property
    def variance(self) -> Variable:
        return self._base.variance

    def _sample(self, shape: list[int]) -> Variable:
        return self._base.sample(shape)

    def rsample(self, shape: Sequence[int] = ()) -> Variable:
        return self._base.rsample(shape)

    def log_prob(self, value: Variable) -> Variable:
        return summed(self._base.log_prob(value), self._rank)

    def entropy(self) -> Variable:
        return summed(self._base.entropy(), self._rank)


class TransformedDistribution(Distribution):
    """Describe what transforms make of samples of another distribution.

    Args:
        base: a distribution.
        transforms: applied one after the other.

    Raises:
        ArgumentTypeError: if an argument is of another kind.

    Example:
        >>> normal, exp = paddle.distribution.Normal(0.0, 1.0), paddle.distribution.ExpTransform()
        >>> paddle.distribution.TransformedDistribution(normal, [exp]).sample([3]).shape
        [3]
    """

    @checked_with_words
    def __init__(self, base: Distribution, transforms: Sequence[Transform]) -> None:
        self._base, self._chain = base, ChainTransform(list(transforms))
        shape = self._chain.forward_shape(base.batch_shape + base.event_shape)
        rank = max(self._chain.event_ranks[1], len(base.event_shape))
        super().__init__(shape[: len(shape) - rank], shape[len(shape) - rank :])

    def _sample(self, shape: list[int]) -> Variable:
        return self._chain.forward(self._base.sample(shape))

    def rsample(self, shape: Sequence[int] = ()) -> Variable:
        return self._chain.forward(self._base.rsample(shape))

    def log_prob(self, value: Variable) -> Variable:
        x = self._chain.inverse(value)
        own = len(self._base.event_shape)
        rank = max(self._chain.event_ranks[0], own)
        density = summed(self._base.log_prob(x), rank - own)
        change = self._chain.forward_log_det_jacobian(x)
        return density - summed(change, rank - self._chain.event_ranks[0])
