"""Gradient rules, one module per operator family. Importing this package fills the rule table."""

from onnxgrad.rules import (
    activation,
    attention,
    control_flow,
    convolution,
    elementwise,
    indexing,
    linalg,
    losses,
    movement,
    normalization,
    not_differentiable,
    pooling,
    random,
    recurrent,
    reduction,
    resample,
)

__all__ = [
    "activation",
    "attention",
    "control_flow",
    "convolution",
    "elementwise",
    "indexing",
    "linalg",
    "losses",
    "movement",
    "normalization",
    "not_differentiable",
    "pooling",
    "random",
    "recurrent",
    "reduction",
    "resample",
]
