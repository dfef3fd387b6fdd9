"""Penalties on parameters, added to their gradients after clipping.

Tests: tests/optimizer/test_optimizers.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentTypeError

__all__ = ["L1Decay", "L2Decay", "WeightDecay", "as_decay"]


class WeightDecay:
    """Base of the penalties."""

    def __init__(self, coeff: float = 0.0) -> None:
        self.coeff = float(coeff)

    def apply(self, op: Builder, p: Variable, g: Variable) -> Variable:
        """The gradient ``g`` of ``p`` with the penalty's added."""
        raise NotImplementedError


class L2Decay(WeightDecay):
    """Adds ``coeff * parameter`` to the gradient."""

    def apply(self, op: Builder, p: Variable, g: Variable) -> Variable:
        return op.Add(g, op.Mul(p, self.coeff))


class L1Decay(WeightDecay):
    """Adds ``coeff * sign(parameter)`` to the gradient."""

    def apply(self, op: Builder, p: Variable, g: Variable) -> Variable:
        return op.Add(g, op.Mul(op.Sign(p), self.coeff))


def as_decay(decay: Any) -> WeightDecay | None:
    """Read the ``weight_decay`` of an optimizer: a number means L2.

    Raises:
        ArgumentTypeError: if it is something else.
    """
    if decay is None or isinstance(decay, WeightDecay):
        return decay
    if isinstance(decay, (int, float)):
        return L2Decay(decay)
    raise ArgumentTypeError(f"weight_decay is a number, an L1Decay or an L2Decay, not {type(decay).__name__}.")
