"""Penalties on parameters, added to their gradients after clipping.

Tests: tests/optimizer/test_optimizers.py.
"""

from __future__ import annotations

from numbers import Real

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.internal.arguments import as_number, wrong_kind

__all__ = ["L1Decay", "L2Decay", "WeightDecay", "as_decay"]


class WeightDecay:
    """Base of the penalties.

    Args:
        coeff: factor on the penalty.

    Raises:
        ArgumentTypeError: if it is not a number.

    Example:
        >>> class CubicDecay(paddle.regularizer.WeightDecay):
        ...     def apply(self, op, p, g):
        ...         return op.Add(g, op.Mul(op.Mul(p, p), self.coeff))
        >>> w = paddle.to_tensor([2.0], stop_gradient=False)
        >>> sgd = paddle.optimizer.SGD(0.5, parameters=[w], weight_decay=CubicDecay(0.5))
        >>> w.sum().backward()
        >>> sgd.step()
        >>> w.tolist()
        [0.5]
    """

    def __init__(self, coeff: float = 0.0) -> None:
        self.coeff = as_number(self, "coeff", coeff)

    def __str__(self) -> str:
        return f"{type(self).__name__}, coeff={self.coeff:f}"

    def apply(self, op: Builder, p: Variable, g: Variable) -> Variable:
        """The gradient ``g`` of ``p`` with the penalty's added.

        Args:
            op: builder of operators.
            p: the parameter.
            g: its gradient, of its shape.
        """
        raise NotImplementedError


class L2Decay(WeightDecay):
    """Add ``coeff * parameter`` to the gradient: the penalty is ``coeff / 2`` times the sum of squares.

    Args:
        coeff: factor on the penalty.

    Raises:
        ArgumentTypeError: if it is not a number.

    Example:
        >>> w = paddle.to_tensor([2.0], stop_gradient=False)
        >>> sgd = paddle.optimizer.SGD(0.5, parameters=[w], weight_decay=paddle.regularizer.L2Decay(0.5))
        >>> w.sum().backward()
        >>> sgd.step()
        >>> w.tolist()
        [1.0]
    """

    def apply(self, op: Builder, p: Variable, g: Variable) -> Variable:
        return op.Add(g, op.Mul(p, self.coeff))


class L1Decay(WeightDecay):
    """Add ``coeff * sign(parameter)`` to the gradient: the penalty is ``coeff`` times the sum of magnitudes.

    Args:
        coeff: factor on the penalty.

    Raises:
        ArgumentTypeError: if it is not a number.

    Example:
        >>> w = paddle.to_tensor([2.0], stop_gradient=False)
        >>> sgd = paddle.optimizer.SGD(0.5, parameters=[w], weight_decay=paddle.regularizer.L1Decay(0.5))
        >>> w.sum().backward()
        >>> sgd.step()
        >>> w.tolist()
        [1.25]
    """

    def apply(self, op: Builder, p: Variable, g: Variable) -> Variable:
        return op.Add(g, op.Mul(op.Sign(p), self.coeff))


def as_decay(owner: object, decay: float | WeightDecay | None) -> WeightDecay | None:
    """Read the ``weight_decay`` of an optimizer: a number means L2.

    Args:
        owner: the optimizer, which an error names.
        decay: a number, a penalty, or None.

    Raises:
        ArgumentTypeError: if it is something else.
    """
    if decay is None or isinstance(decay, WeightDecay):
        return decay
    if isinstance(decay, Real):
        return L2Decay(decay)
    raise wrong_kind(owner, "weight_decay", "a number, an L1Decay or an L2Decay", decay)
