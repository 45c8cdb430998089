"""Distributions and bijections for models: the densities of `adjit.scipy.stats` by their names, and maps from unconstrained numbers to the
supports of distributions, with the logarithms of their Jacobians.

>>> import numpy as np
>>> import adjit as aj
>>> from adjit import stats
>>> data = np.array([1.0, 2.0, 4.0])
>>> def log_posterior(u):                               # of unconstrained numbers, as samplers take it
...     p, log_jacobian = stats.constrain({"mean": stats.real, "width": stats.positive}, u)
...     prior = stats.norm.logpdf(p["mean"], 0.0, 10.0) + stats.halfnorm.logpdf(p["width"], 0.0, 5.0)
...     return prior + np.sum(stats.norm.logpdf(data, p["mean"], p["width"])) + log_jacobian
>>> gradient = aj.grad(log_posterior)({"mean": 1.0, "width": 0.0})
>>> round(float(gradient["mean"]), 6), round(float(gradient["width"]), 6)
(3.99, 7.96)
"""

from __future__ import annotations

from typing import Any

from adjit.scipy import stats as _distributions
from adjit.stats.bijections import (
    Bijection,
    cholesky_factor,
    constrain,
    greater,
    interval,
    less,
    ordered,
    positive,
    real,
    simplex,
    unconstrain,
)

__all__ = [
    "Bijection", "cholesky_factor", "constrain", "greater", "interval", "less", "ordered", "positive", "real", "simplex", "unconstrain",
]


def __getattr__(name: str) -> Any:
    """A distribution."""
    return getattr(_distributions, name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_distributions.__all__])
