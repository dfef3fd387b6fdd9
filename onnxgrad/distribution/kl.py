"""The Kullback-Leibler divergence of two distributions.

Tests: tests/paddle_suite/test_surface.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from onnxgrad import tensor as T
from onnxgrad.core.ir.variable import Variable
from onnxgrad.distribution.base import Distribution
from onnxgrad.distribution.continuous import Cauchy, ContinuousBernoulli, Exponential, Laplace, LogNormal, Normal, Uniform
from onnxgrad.distribution.discrete import Bernoulli, Binomial, Categorical, Geometric, Poisson
from onnxgrad.distribution.gamma import Beta, Dirichlet, Gamma
from onnxgrad.distribution.several import MultivariateNormal
from onnxgrad.errors import ArgumentError, NotOffered
from onnxgrad.nn import functional as F
from onnxgrad.tensor import solvers

__all__ = ["kl_divergence", "register_kl"]

Rule = TypeVar("Rule", bound=Callable[..., Variable])
_RULES: dict[tuple[type, type], Callable[..., Variable]] = {}


def register_kl(cls_p: type[Distribution], cls_q: type[Distribution]) -> Callable[[Rule], Rule]:
    """Decorate a function that computes the divergence of distributions of two classes.

    Args:
        cls_p: the class of the first.
        cls_q: the class of the second.
    """

    def register(rule: Rule) -> Rule:
        _RULES[cls_p, cls_q] = rule
        return rule

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Variable:
    """The expected logarithm of the ratio of two densities, over samples of the first.

    Args:
        p: the first.
        q: the second.

    Raises:
        NotOffered: if no rule is known for their classes.

    Example:
        >>> one, other = paddle.distribution.Normal(0.0, 1.0), paddle.distribution.Normal(1.0, 1.0)
        >>> paddle.distribution.kl_divergence(one, other).item()
        0.5
    """
    for first in type(p).__mro__:
        for second in type(q).__mro__:
            if (first, second) in _RULES:
                return _RULES[first, second](p, q)
    raise NotOffered(f"no divergence of {type(p).__name__} and {type(q).__name__} is known. Add one by register_kl.")


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Variable:
    ratio, far = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return 0.5 * (ratio * ratio + far * far - 1.0) - T.log(ratio)


_RULES[LogNormal, LogNormal] = _normal


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Variable:
    log = T.log((q.high - q.low) / (p.high - p.low))
    outside = T.logical_or(q.low > p.low, q.high < p.high)
    return T.where(outside, T.full_like(log, float("inf")), log)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Variable:
    far = T.abs(p.loc - q.loc)
    return T.log(q.scale / p.scale) + far / q.scale + p.scale / q.scale * T.exp(-far / p.scale) - 1.0


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Variable:
    return T.log(((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2) / (4.0 * p.scale * q.scale))


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Variable:
    ratio = q.rate / p.rate
    return ratio - 1.0 - T.log(ratio)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Variable:
    slope = T.log(q.probs) - T.log1p(-q.probs)
    return -p.entropy() - q._log_constant() - T.log1p(-q.probs) - p.mean * slope


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Variable:
    a, b = p._inside, q._inside
    return a * T.log(a / b) + (1.0 - a) * (T.log1p(-a) - T.log1p(-b))


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Variable:
    return T.log(p.probs / q.probs) + p.mean * (T.log1p(-p.probs) - T.log1p(-q.probs))


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Variable:
    ratio = F.log_softmax(p.logits) - F.log_softmax(q.logits)
    return T.sum(F.softmax(p.logits) * ratio, -1, keepdim=True)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Variable:
    return p.rate * T.log(p.rate / q.rate) - p.rate + q.rate


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Variable:
    counts: Any = p.total_count == q.total_count
    if p.total_count.is_eager and not bool(counts.numpy().all()):
        raise ArgumentError("kl_divergence of two Binomials needs one total_count for both.")
    ratio = p.probs * T.log(p.probs / q.probs) + (1.0 - p.probs) * (T.log1p(-p.probs) - T.log1p(-q.probs))
    return p.total_count * ratio


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Variable:
    a, b = p.concentration, q.concentration
    ratio = q.rate / p.rate
    return (a - b) * T.digamma(a) - T.lgamma(a) + T.lgamma(b) - b * T.log(ratio) + a * (ratio - 1.0)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Variable:
    return _dirichlet(p._both, q._both)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Variable:
    a, b = p.concentration, q.concentration
    own = T.digamma(a) - T.digamma(T.sum(a, -1, keepdim=True))
    return q.log_beta() - p.log_beta() + T.sum((a - b) * own, -1)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Variable:
    ratio = solvers.triangular_solve(q.scale_tril, p.scale_tril, upper=False)
    spread = T.sum(T.sum(ratio * ratio, -1), -1)
    return 0.5 * (spread + q.distance(q.loc - p.loc) - float(p.event_shape[0])) + q.log_spread() - p.log_spread()
