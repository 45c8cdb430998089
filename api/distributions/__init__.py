"""Probability distributions by the names of `torch.distributions`: draws, densities, moments, divergences; eager and in compiled functions.

>>> import adjit as aj
>>> loc = aj.tensor(1.0, requires_grad=True)
>>> aj.distributions.Normal(loc, 2.0).log_prob(aj.tensor(3.0)).backward()
>>> loc.grad
tensor(0.5000)
"""

from adjit.distributions import constraints, transforms
from adjit.distributions.composed import (
    Independent,
    LogNormal,
    MixtureSameFamily,
    Pareto,
    TransformedDistribution,
    Weibull,
)
from adjit.distributions.continuous import (
    Beta,
    Cauchy,
    Chi2,
    Exponential,
    Gamma,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    Normal,
    StudentT,
    Uniform,
)
from adjit.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
)
from adjit.distributions.distribution import Distribution
from adjit.distributions.kl import kl_divergence, register_kl
from adjit.distributions.multivariate import Dirichlet, MultivariateNormal
from adjit.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    IndependentTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
)

__all__ = [
    "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ComposeTransform", "Dirichlet", "Distribution",
    "ExpTransform", "Exponential", "Gamma", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "IndependentTransform",
    "Laplace", "LogNormal", "MixtureSameFamily", "Multinomial", "MultivariateNormal", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PowerTransform", "SigmoidTransform", "SoftplusTransform", "StudentT",
    "TanhTransform", "Transform", "TransformedDistribution", "Uniform", "Weibull", "constraints", "kl_divergence", "register_kl",
    "transforms",
]
