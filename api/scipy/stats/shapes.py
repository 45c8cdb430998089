"""Skewness and excess kurtosis of distributions, by SciPy's names and of their shape parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit import special as sc

_ZETA3 = 1.2020569031595942


def _of_moments(m1: Any, m2: Any, m3: Any, m4: Any) -> tuple[Any, Any]:
    """Skewness and excess kurtosis by the moments about 0."""
    variance = m2 - m1 * m1
    third = m3 - 3.0 * m1 * m2 + 2.0 * m1 ** 3
    fourth = m4 - 4.0 * m1 * m3 + 6.0 * m1 * m1 * m2 - 3.0 * m1 ** 4
    return third / variance ** 1.5, fourth / variance ** 2 - 3.0


def _gamma(a: Any) -> tuple[Any, Any]:
    return 2.0 / np.sqrt(a), 6.0 / a


def _beta(a: Any, b: Any) -> tuple[Any, Any]:
    total, product = a + b, a * b
    skew = 2.0 * (b - a) * np.sqrt(total + 1.0) / ((total + 2.0) * np.sqrt(product))
    return skew, 6.0 * ((a - b) ** 2 * (total + 1.0) - product * (total + 2.0)) / (product * (total + 2.0) * (total + 3.0))


def _t(df: Any) -> tuple[Any, Any]:
    kurtosis = np.where(df > 4, 6.0 / np.where(df > 4, df - 4.0, 1.0), np.where(df > 2, math.inf, math.nan))
    return np.where(df > 3, 0.0, math.nan), kurtosis


def _lognorm(s: Any) -> tuple[Any, Any]:
    p = np.exp(s * s)
    return np.sqrt(p - 1.0) * (p + 2.0), ((p + 2.0) * p + 3.0) * p * p - 6.0


def _weibull(c: Any) -> tuple[Any, Any]:
    return _of_moments(*(sc.gamma(1.0 + k / c) for k in (1.0, 2.0, 3.0, 4.0)))


def _invgamma(a: Any) -> tuple[Any, Any]:
    three, four = np.where(a > 3, a, 10.0), np.where(a > 4, a, 10.0)
    skew = 4.0 * np.sqrt(three - 2.0) / (three - 3.0)
    kurtosis = 6.0 * (5.0 * four - 11.0) / ((four - 3.0) * (four - 4.0))
    return np.where(a > 3, skew, math.nan), np.where(a > 4, kurtosis, math.nan)


def _pareto(b: Any) -> tuple[Any, Any]:
    three, four = np.where(b > 3, b, 10.0), np.where(b > 4, b, 10.0)
    skew = 2.0 * (three + 1.0) * np.sqrt(three - 2.0) / ((three - 3.0) * np.sqrt(three))
    kurtosis = 6.0 * (four ** 3 + four ** 2 - 6.0 * four - 2.0) / (four * (four - 3.0) * (four - 4.0))
    return np.where(b > 3, skew, math.nan), np.where(b > 4, kurtosis, math.nan)


def _skewnorm(a: Any) -> tuple[Any, Any]:
    mean = math.sqrt(2.0 / math.pi) * a / np.sqrt(1.0 + a * a)
    share = mean * mean / (1.0 - mean * mean)
    return 0.5 * (4.0 - math.pi) * np.sign(a) * share ** 1.5, 2.0 * (math.pi - 3.0) * share ** 2


def _binom(n: Any, p: Any) -> tuple[Any, Any]:
    variance = n * p * (1.0 - p)
    return (1.0 - 2.0 * p) / np.sqrt(variance), (1.0 - 6.0 * p * (1.0 - p)) / variance


def _geom(p: Any) -> tuple[Any, Any]:
    return (2.0 - p) / np.sqrt(1.0 - p), (p * p - 6.0 * p + 6.0) / (1.0 - p)


def _nbinom(n: Any, p: Any) -> tuple[Any, Any]:
    return (2.0 - p) / np.sqrt(n * (1.0 - p)), 6.0 / n + p * p / (n * (1.0 - p))


def _constant(skew: float, kurtosis: float) -> Callable[..., tuple[Any, Any]]:
    return lambda *_: (skew, kurtosis)


_gumbel_skew = 12.0 * math.sqrt(6.0) * _ZETA3 / math.pi ** 3

SHAPES: dict[str, Callable[..., tuple[Any, Any]]] = {
    "norm": _constant(0.0, 0.0), "uniform": _constant(0.0, -1.2), "expon": _constant(2.0, 6.0), "laplace": _constant(0.0, 3.0),
    "logistic": _constant(0.0, 1.2), "hypsecant": _constant(0.0, 2.0), "semicircular": _constant(0.0, -1.0),
    "arcsine": _constant(0.0, -1.5), "cauchy": _constant(math.nan, math.nan),
    "gumbel_r": _constant(_gumbel_skew, 2.4), "gumbel_l": _constant(-_gumbel_skew, 2.4),
    "rayleigh": _constant(2.0 * (math.pi - 3.0) * math.sqrt(math.pi) / (4.0 - math.pi) ** 1.5,
                          6.0 * math.pi / (4.0 - math.pi) - 16.0 / (4.0 - math.pi) ** 2),
    "maxwell": _constant(math.sqrt(2.0) * (32.0 - 10.0 * math.pi) / (3.0 * math.pi - 8.0) ** 1.5,
                         (-12.0 * math.pi ** 2 + 160.0 * math.pi - 384.0) / (3.0 * math.pi - 8.0) ** 2),
    "halfnorm": _constant(math.sqrt(2.0) * (4.0 - math.pi) / (math.pi - 2.0) ** 1.5, 8.0 * (math.pi - 3.0) / (math.pi - 2.0) ** 2),
    "gamma": _gamma, "erlang": _gamma, "chi2": lambda df: _gamma(0.5 * df), "beta": _beta, "t": _t, "lognorm": _lognorm,
    "weibull_min": _weibull, "weibull_max": lambda c: (-_weibull(c)[0], _weibull(c)[1]), "invgamma": _invgamma, "pareto": _pareto,
    "invgauss": lambda mu: (3.0 * np.sqrt(mu), 15.0 * mu), "skewnorm": _skewnorm, "triang": lambda c: (
        math.sqrt(2.0) * (1.0 + c) * (2.0 * c - 1.0) * (c - 2.0) / (5.0 * (1.0 - c + c * c) ** 1.5), -0.6 + 0.0 * c),
    "poisson": lambda mu: (1.0 / np.sqrt(mu), 1.0 / mu), "binom": _binom, "bernoulli": lambda p: _binom(1.0, p), "geom": _geom,
    "nbinom": _nbinom, "randint": lambda low, high: (0.0 * (high - low), -1.2 * ((high - low) ** 2 + 1.0) / ((high - low) ** 2 - 1.0)),
}
"""Skewness and excess kurtosis of the standard distribution."""
