"""fluid.regularizer: L1Decay and L2Decay, under both of their names."""

from onnxgrad.fluid.renamed import renamed
from onnxgrad.optimizer import regularizer

__all__ = ["L1Decay", "L1DecayRegularizer", "L2Decay", "L2DecayRegularizer"]


def __dir__() -> list[str]:
    return __all__


_ADDS = "Adds ``regularization_coeff`` times {} to the gradient."
L1Decay = L1DecayRegularizer = renamed(
    "L1Decay(regularization_coeff=0.0)",
    regularizer.L1Decay,
    _ADDS.format("the parameter's sign"),
    coeff="regularization_coeff",
)
L2Decay = L2DecayRegularizer = renamed(
    "L2Decay(regularization_coeff=0.0)", regularizer.L2Decay, _ADDS.format("the parameter"), coeff="regularization_coeff"
)
