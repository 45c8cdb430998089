"""Kullback-Leibler divergences, by pairs of classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from adjit import linalg
from adjit.distributions import composed, continuous, discrete, multivariate
from adjit.distributions.distribution import Distribution, sum_rightmost
from adjit.eager.tensor import Tensor
from adjit.tensor_functions import FUNCTIONS

where = FUNCTIONS["where"]
F = TypeVar("F", bound=Callable[..., Any])
_RULES: dict[tuple[type, type], Callable[..., Any]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[F], F]:
    """Register a function of two distributions as the divergence of a pair of classes.

    >>> class Mine(continuous.Normal):
    ...     pass
    >>> @register_kl(Mine, Mine)
    ... def of_mine(p, q):
    ...     return (p.loc - q.loc) ** 2
    >>> kl_divergence(Mine(0.0, 1.0), Mine(2.0, 1.0))
    tensor(4.)
    """
    def decorate(function: F) -> F:
        _RULES[type_p, type_q] = function
        return function

    return decorate


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Divergence of `q` from `p`: the expectation of `log p - log q` under `p`. Raises `NotImplementedError` for pairs without a formula.

    >>> import adjit as aj
    >>> kl_divergence(aj.distributions.Normal(1.0, 1.0), aj.distributions.Normal(0.0, 1.0))
    tensor(0.5000)
    """
    fitting = [(type(p).__mro__.index(a) + type(q).__mro__.index(b), rule) for (a, b), rule in _RULES.items()
               if isinstance(p, a) and isinstance(q, b)]
    if not fitting:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}")
    return min(fitting, key=lambda item: item[0])[1](p, q)      # type: ignore[no-any-return]


@register_kl(continuous.Normal, continuous.Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())       # type: ignore[no-any-return]


@register_kl(composed.LogNormal, composed.LogNormal)
def _log_normal(p: Any, q: Any) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(continuous.Laplace, continuous.Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1      # type: ignore[no-any-return]


@register_kl(continuous.Exponential, continuous.Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1     # type: ignore[no-any-return]


@register_kl(continuous.Gamma, continuous.Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    return b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)     # type: ignore[no-any-return]


@register_kl(continuous.Beta, continuous.Beta)
def _beta(p: Any, q: Any) -> Tensor:
    total, other = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    return (q.concentration1.lgamma() + q.concentration0.lgamma() + total.lgamma() - p.concentration1.lgamma() - p.concentration0.lgamma()
            - other.lgamma() + (p.concentration1 - q.concentration1) * p.concentration1.digamma()
            + (p.concentration0 - q.concentration0) * p.concentration0.digamma() + (other - total) * total.digamma())       # type: ignore[no-any-return]


@register_kl(continuous.Uniform, continuous.Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    outside = (q.low > p.low) | (q.high < p.high)
    return where(outside, math.inf, ((q.high - q.low) / (p.high - p.low)).log())        # type: ignore[no-any-return]


@register_kl(continuous.Gumbel, continuous.Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    first, second, third = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    return -first.log() - second + third + first * continuous.EULER + (second + (1 + first).lgamma() - third).exp() - (1 + continuous.EULER)     # type: ignore[no-any-return]


@register_kl(continuous.HalfNormal, continuous.HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio - 1 - ratio.log())      # type: ignore[no-any-return]


@register_kl(continuous.Cauchy, continuous.Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    return (((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2) / (4 * p.scale * q.scale)).log()      # type: ignore[no-any-return]


@register_kl(continuous.HalfCauchy, continuous.HalfCauchy)
def _half_cauchy(p: Any, q: Any) -> Tensor:
    return ((p.scale + q.scale) ** 2 / (4 * p.scale * q.scale)).log()       # type: ignore[no-any-return]


@register_kl(composed.Pareto, composed.Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    return where(p.scale < q.scale, math.inf, q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1)       # type: ignore[no-any-return]


@register_kl(continuous.Uniform, continuous.Normal)
def _uniform_normal(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    mean = ((p.high + p.low - 2 * q.loc) / 2) ** 2
    return 0.5 * (math.log(2 * math.pi) + 2 * q.scale.log()) - width.log() + (width ** 2 / 12 + mean) / (2 * q.scale ** 2)      # type: ignore[no-any-return]


@register_kl(discrete.Bernoulli, discrete.Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    a, b = p.probs, q.probs
    return a.xlogy(a / b) + (1 - a).xlogy((1 - a) / (1 - b))        # type: ignore[no-any-return]


@register_kl(discrete.Binomial, discrete.Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    found = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return where(p.total_count > q.total_count, math.inf, found)        # type: ignore[no-any-return]


@register_kl(discrete.Categorical, discrete.Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = where(q.probs == 0, math.inf, terms)
    return where(p.probs == 0, 0.0, terms).sum(-1)      # type: ignore[no-any-return]


@register_kl(discrete.OneHotCategorical, discrete.OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(discrete.Geometric, discrete.Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits       # type: ignore[no-any-return]


@register_kl(discrete.Poisson, discrete.Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)       # type: ignore[no-any-return]


@register_kl(multivariate.Dirichlet, multivariate.Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    moved = (a - b) * (a.digamma() - total.digamma().unsqueeze(-1))
    return total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1) + moved.sum(-1)      # type: ignore[no-any-return]


@register_kl(multivariate.MultivariateNormal, multivariate.MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Tensor:
    solved = linalg.solve_triangular(q.scale_tril, p.scale_tril, lower=True)
    moved = linalg.solve_triangular(q.scale_tril, (q.loc - p.loc).unsqueeze(-1), lower=True)
    squares = (solved ** 2).sum((-2, -1)) + (moved ** 2).sum((-2, -1))
    return q._half_log_det() - p._half_log_det() + 0.5 * (squares - p.event_shape[0])       # type: ignore[no-any-return]


@register_kl(composed.Independent, composed.Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("the divergence of independent distributions of events of different dimensions")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
