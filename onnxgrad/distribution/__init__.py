"""paddle.distribution: samples, densities, moments, entropies and divergences, of eager tensors and in programs.

Tests: tests/paddle_suite/test_surface.py.
"""

from onnxgrad.distribution.base import Distribution, ExponentialFamily
from onnxgrad.distribution.continuous import (
    Cauchy,
    ContinuousBernoulli,
    Exponential,
    Gumbel,
    Laplace,
    LogNormal,
    Normal,
    Uniform,
)
from onnxgrad.distribution.discrete import Bernoulli, Binomial, Categorical, Geometric, Multinomial, Poisson
from onnxgrad.distribution.gamma import Beta, Chi2, Dirichlet, Gamma, StudentT
from onnxgrad.distribution.kl import kl_divergence, register_kl
from onnxgrad.distribution.several import Independent, MultivariateNormal, TransformedDistribution
from onnxgrad.distribution.transform import (
    AbsTransform,
    AffineTransform,
    ChainTransform,
    ExpTransform,
    IndependentTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
)
from onnxgrad.internal.refusals import absence_hooks

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "ChainTransform", "Chi2",
    "ContinuousBernoulli", "Dirichlet", "Distribution", "ExpTransform", "Exponential", "ExponentialFamily", "Gamma",
    "Geometric", "Gumbel", "Independent", "IndependentTransform", "Laplace", "LogNormal", "Multinomial", "MultivariateNormal",
    "Normal", "Poisson", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform", "StackTransform",
    "StickBreakingTransform", "StudentT", "TanhTransform", "Transform", "TransformedDistribution", "Uniform", "kl_divergence",
    "register_kl",
]  # fmt: skip


globals().update(absence_hooks(__name__))
