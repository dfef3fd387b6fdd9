"""fluid.regularizer: penalties on parameters, L1Decay and L2Decay, under both of their names.

Tests: tests/fluid/test_fluid.py.
"""

from onnxgrad.optimizer import regularizer

__all__ = ["L1Decay", "L1DecayRegularizer", "L2Decay", "L2DecayRegularizer"]


def __dir__() -> list[str]:
    return __all__


class L1Decay(regularizer.L1Decay):
    """Adds ``regularization_coeff`` times the parameter's sign to the gradient.

    Args:
        regularization_coeff: the factor.
    """

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        super().__init__(regularization_coeff)


class L2Decay(regularizer.L2Decay):
    """Adds ``regularization_coeff`` times the parameter to the gradient.

    Args:
        regularization_coeff: the factor.
    """

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        super().__init__(regularization_coeff)


L1DecayRegularizer, L2DecayRegularizer = L1Decay, L2Decay
