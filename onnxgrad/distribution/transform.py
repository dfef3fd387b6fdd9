"""Functions of samples that have an inverse, and how they change densities.

Tests: tests/paddle_suite/test_surface.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad import tensor as T
from onnxgrad.core.ir.variable import Variable
from onnxgrad.distribution.base import Numbers, as_operand
from onnxgrad.eager.creation import to_tensor
from onnxgrad.errors import ArgumentError, NotOffered
from onnxgrad.internal.arguments import checked, checked_with_words
from onnxgrad.nn import functional as F

__all__ = [
    "AbsTransform", "AffineTransform", "ChainTransform", "ExpTransform", "IndependentTransform", "PowerTransform",
    "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform", "StackTransform", "StickBreakingTransform", "TanhTransform",
    "Transform", "summed",
]  # fmt: skip


def summed(x: Variable, rank: int) -> Variable:
    """A tensor added up over its last axes."""
    return T.sum(x, list(range(x.ndim - rank, x.ndim))) if rank > 0 else x


class Transform:
    """Base of transforms: ``forward``, ``inverse``, logarithms of their determinants, and shapes.

    Attributes:
        event_ranks: how many last axes of what it takes, and of what it gives, belong together.

    Example:
        >>> paddle.distribution.ExpTransform().inverse(paddle.to_tensor([1.0])).tolist()
        [0.0]
    """

    event_ranks: tuple[int, int] = (0, 0)

    def forward(self, x: Variable) -> Variable:
        """Apply it.

        Args:
            x: floats.
        """
        raise self._lacking("forward")

    def inverse(self, y: Variable) -> Any:
        """Undo it.

        Args:
            y: what ``forward`` gives.
        """
        raise self._lacking("inverse")

    def forward_log_det_jacobian(self, x: Variable) -> Variable:
        """Logarithm of how much volume ``forward`` makes of a small one.

        Args:
            x: what ``forward`` takes.

        Raises:
            NotOffered: where there is none.
        """
        raise self._lacking("forward_log_det_jacobian")

    def inverse_log_det_jacobian(self, y: Variable) -> Any:
        """Logarithm of how much volume ``inverse`` makes of a small one.

        Args:
            y: what ``forward`` gives.

        Raises:
            NotOffered: where there is none.
        """
        return -self.forward_log_det_jacobian(self.inverse(y))

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what ``forward`` gives.

        Args:
            shape: of what it takes.
        """
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what ``inverse`` gives.

        Args:
            shape: of what it takes.
        """
        return tuple(shape)

    def __call__(self, x: Any) -> Any:
        """``forward`` of a tensor; of a distribution that of its samples, of a transform the chain of both."""
        from onnxgrad.distribution.base import Distribution
        from onnxgrad.distribution.several import TransformedDistribution

        if isinstance(x, Distribution):
            return TransformedDistribution(x, [self])
        return ChainTransform([self, x]) if isinstance(x, Transform) else self.forward(x)

    def _lacking(self, what: str) -> NotOffered:
        return NotOffered(f"{type(self).__name__} has no {what}, as in Paddle.")


class AbsTransform(Transform):
    """Take the absolute value, whose inverse gives both numbers that have it."""

    def forward(self, x: Variable) -> Variable:
        return T.abs(x)

    def inverse(self, y: Variable) -> tuple[Variable, Variable]:
        return -y, y

    def inverse_log_det_jacobian(self, y: Variable) -> tuple[Variable, Variable]:
        zero = to_tensor(np.zeros((), y.dtype.numpy))
        return zero, zero


class AffineTransform(Transform):
    """Multiply by a scale and add a location.

    Args:
        loc: the location.
        scale: not 0.
    """

    @checked
    def __init__(self, loc: Numbers, scale: Numbers) -> None:
        self.loc, self.scale = as_operand(loc), as_operand(scale)

    def forward(self, x: Variable) -> Variable:
        return self.loc + self.scale * x

    def inverse(self, y: Variable) -> Variable:
        return (y - self.loc) / self.scale

    def forward_log_det_jacobian(self, x: Variable) -> Variable:
        return T.log(T.abs(self.scale)) + T.zeros_like(x)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return np.broadcast_shapes(tuple(shape), tuple(self.loc.shape), tuple(self.scale.shape))

    inverse_shape = forward_shape


class ExpTransform(Transform):
    """Take the exponential."""

    def forward(self, x: Variable) -> Variable:
        return T.exp(x)

    def inverse(self, y: Variable) -> Variable:
        return T.log(y)

    def forward_log_det_jacobian(self, x: Variable) -> Variable:
        return x


class PowerTransform(Transform):
    """Take a power of positive numbers.

    Args:
        power: not 0.
    """

    @checked
    def __init__(self, power: Numbers) -> None:
        self.power = as_operand(power)

    def forward(self, x: Variable) -> Variable:
        return T.pow(x, self.power)

    def inverse(self, y: Variable) -> Variable:
        return T.pow(y, 1.0 / self.power)

    def forward_log_det_jacobian(self, x: Variable) -> Variable:
        return T.log(T.abs(self.power * T.pow(x, self.power - 1.0)))

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return np.broadcast_shapes(tuple(shape), tuple(self.power.shape))

    inverse_shape = forward_shape


class SigmoidTransform(Transform):
    """Take the sigmoid."""

    def forward(self, x: Variable) -> Variable:
        return F.sigmoid(x)

    def inverse(self, y: Variable) -> Variable:
        return T.log(y) - T.log1p(-y)

    def forward_log_det_jacobian(self, x: Variable) -> Variable:
        return -F.softplus(-x) - F.softplus(x)


class TanhTransform(Transform):
    """Take the hyperbolic tangent."""

    def forward(self, x: Variable) -> Variable:
        return T.tanh(x)

    def inverse(self, y: Variable) -> Variable:
        return T.atanh(y)

    def forward_log_det_jacobian(self, x: Variable) -> Variable:
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class SoftmaxTransform(Transform):
    """Take the softmax of the last axis, which has no inverse: what comes back differs by a number."""

    event_ranks = (1, 1)

    def forward(self, x: Variable) -> Variable:
        return F.softmax(x)

    def inverse(self, y: Variable) -> Variable:
        return T.log(y)


class StickBreakingTransform(Transform):
    """Break a stick of length 1 once for each number of the last axis: one part more than there are numbers."""

    event_ranks = (1, 1)

    def _offset(self, x: Variable) -> Variable:
        size = x.shape[-1]
        return to_tensor(np.log(np.arange(size, 0, -1)).astype(x.dtype.numpy))

    def forward(self, x: Variable) -> Variable:
        z = F.sigmoid(x - self._offset(x))
        one = T.ones_like(z[..., :1])
        rest = T.cumprod(1.0 - z, -1)
        return T.concat([z, one], -1) * T.concat([one, rest], -1)

    def inverse(self, y: Variable) -> Variable:
        parts = y[..., :-1]
        rest = 1.0 - T.cumsum(parts, -1)
        return T.log(parts) - T.log(rest) + self._offset(parts)

    def forward_log_det_jacobian(self, x: Variable) -> Variable:
        y, shifted = self.forward(x), x - self._offset(x)
        return T.sum(-shifted - F.softplus(-shifted) + T.log(y[..., :-1]), -1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] - 1)


class ReshapeTransform(Transform):
    """Give the last axes other sizes.

    Args:
        in_event_shape: sizes of those that it takes.
        out_event_shape: sizes of those that it gives, as many elements.

    Raises:
        ArgumentError: if the numbers of elements differ.
    """

    @checked
    def __init__(self, in_event_shape: Sequence[int], out_event_shape: Sequence[int]) -> None:
        if math.prod(in_event_shape) != math.prod(out_event_shape):
            raise ArgumentError(f"ReshapeTransform: {list(in_event_shape)} and {list(out_event_shape)} differ in elements.")
        self.in_event_shape, self.out_event_shape = tuple(in_event_shape), tuple(out_event_shape)
        self.event_ranks = len(self.in_event_shape), len(self.out_event_shape)

    def forward(self, x: Variable) -> Variable:
        return T.reshape(x, self.forward_shape(x.shape))

    def inverse(self, y: Variable) -> Variable:
        return T.reshape(y, self.inverse_shape(y.shape))

    def forward_log_det_jacobian(self, x: Variable) -> Variable:
        return summed(T.zeros_like(x), len(self.in_event_shape))

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (*shape[: len(shape) - len(self.in_event_shape)], *self.out_event_shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (*shape[: len(shape) - len(self.out_event_shape)], *self.in_event_shape)


class ChainTransform(Transform):
    """Apply several, one after the other.

    Args:
        transforms: a list of Transforms.

    Raises:
        ArgumentTypeError: if one is none.

    Example:
        >>> transforms = [paddle.distribution.ExpTransform(), paddle.distribution.AffineTransform(1.0, 2.0)]
        >>> paddle.distribution.ChainTransform(transforms).forward(paddle.zeros([1])).tolist()
        [3.0]
    """

    @checked_with_words
    def __init__(self, transforms: Sequence[Transform]) -> None:
        self.transforms = list(transforms)
        taken = given = 0
        for one in reversed(self.transforms):
            taken = max(taken + one.event_ranks[0] - one.event_ranks[1], one.event_ranks[0])
        for one in self.transforms:
            given = max(given + one.event_ranks[1] - one.event_ranks[0], one.event_ranks[1])
        self.event_ranks = taken, given

    def forward(self, x: Variable) -> Variable:
        for one in self.transforms:
            x = one.forward(x)
        return x

    def inverse(self, y: Variable) -> Variable:
        for one in reversed(self.transforms):
            y = one.inverse(y)
        return y

    def forward_log_det_jacobian(self, x: Variable) -> Variable:
        total, rank = T.zeros_like(summed(x, self.event_ranks[0])), self.event_ranks[0]
        for one in self.transforms:
            total = total + summed(one.forward_log_det_jacobian(x), rank - one.event_ranks[0])
            x = one.forward(x)
            rank += one.event_ranks[1] - one.event_ranks[0]
        return total

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        for one in self.transforms:
            shape = one.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        for one in reversed(self.transforms):
            shape = one.inverse_shape(shape)
        return tuple(shape)


class IndependentTransform(ChainTransform):
    """Count further last axes as belonging together.

    Args:
        base: a Transform.
        reinterpreted_batch_rank: how many.

    Raises:
        ArgumentTypeError: if ``base`` is none.

    Example:
        >>> exp = paddle.distribution.IndependentTransform(paddle.distribution.ExpTransform(), 1)
        >>> exp.forward_log_det_jacobian(paddle.ones([2, 3])).tolist()
        [3.0, 3.0]
    """

    @checked_with_words
    def __init__(self, base: Transform, reinterpreted_batch_rank: int) -> None:
        super().__init__([base])
        self.event_ranks = base.event_ranks[0] + reinterpreted_batch_rank, base.event_ranks[1] + reinterpreted_batch_rank


class StackTransform(Transform):
    """Apply one Transform to each slice along an axis.

    Args:
        transforms: as many as there are slices.
        axis: the axis.

    Raises:
        ArgumentTypeError: if one is no Transform.

    Example:
        >>> transforms = [paddle.distribution.ExpTransform(), paddle.distribution.TanhTransform()]
        >>> paddle.distribution.StackTransform(transforms).forward(paddle.zeros([2])).tolist()
        [1.0, 0.0]
    """

    @checked_with_words
    def __init__(self, transforms: Sequence[Transform], axis: int = 0) -> None:
        self.transforms, self.axis = list(transforms), axis

    def _each(self, question: str, x: Variable) -> Variable:
        parts = T.unstack(x, self.axis)
        if len(parts) != len(self.transforms):
            raise ArgumentError(f"StackTransform: {len(self.transforms)} transforms do not fit {len(parts)} slices.")
        slices: list[Variable] = [getattr(one, question)(part) for one, part in zip(self.transforms, parts, strict=True)]
        stacked: Variable = T.stack(slices, self.axis)
        return stacked

    def forward(self, x: Variable) -> Variable:
        return self._each("forward", x)

    def inverse(self, y: Variable) -> Variable:
        return self._each("inverse", y)

    def forward_log_det_jacobian(self, x: Variable) -> Variable:
        return self._each("forward_log_det_jacobian", x)
