"""fluid.regularizer: L1Decay and L2Decay, under both of their names."""

from __future__ import annotations

from onnxgrad.optimizer.regularizer import L1Decay as _L1Decay, L2Decay as _L2Decay

__all__ = ["L1Decay", "L1DecayRegularizer", "L2Decay", "L2DecayRegularizer"]


class L1DecayRegularizer(_L1Decay):
    """Adds ``regularization_coeff * sign(parameter)`` to the gradient."""

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        super().__init__(regularization_coeff)


class L2DecayRegularizer(_L2Decay):
    """Adds ``regularization_coeff * parameter`` to the gradient."""

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        super().__init__(regularization_coeff)


L1Decay, L2Decay = L1DecayRegularizer, L2DecayRegularizer
