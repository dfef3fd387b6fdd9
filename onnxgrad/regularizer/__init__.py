"""Penalties on parameters, added to their gradients after clipping."""

from __future__ import annotations

from onnxgrad.ir.builder import Builder
from onnxgrad.ir.variable import Variable

__all__ = ["L1Decay", "L2Decay"]


class L2Decay:
    """Adds ``coeff * parameter`` to the gradient."""

    def __init__(self, coeff: float = 0.0) -> None:
        self.coeff = float(coeff)

    def apply(self, op: Builder, p: Variable, g: Variable) -> Variable:
        return op.Add(g, op.Mul(p, self.coeff))  # type: ignore[no-any-return]


class L1Decay:
    """Adds ``coeff * sign(parameter)`` to the gradient."""

    def __init__(self, coeff: float = 0.0) -> None:
        self.coeff = float(coeff)

    def apply(self, op: Builder, p: Variable, g: Variable) -> Variable:
        return op.Add(g, op.Mul(op.Sign(p), self.coeff))  # type: ignore[no-any-return]
