"""Distributions of Weibull, Pareto and their kin: tails that are powers or exponentials of powers. Formulas are those of `scipy.stats`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit import special as sc
from adjit.scipy.stats.distribution import Continuous, Positive
from adjit.scipy.stats.quotients import expm1_quotient, log1p_quotient

_EULER = 0.5772156649015329


class WeibullMin(Positive):
    shapes = ("c",)

    def _logpdf(self, x: Any, c: Any) -> Any:
        return np.log(c) + sc.xlogy(c - 1.0, x) - np.power(x, c)

    def _cdf(self, x: Any, c: Any) -> Any:
        return -np.expm1(-np.power(x, c))

    def _sf(self, x: Any, c: Any) -> Any:
        return np.exp(-np.power(x, c))

    def _logsf(self, x: Any, c: Any) -> Any:
        return -np.power(x, c)

    def _ppf(self, q: Any, c: Any) -> Any:
        return np.power(-np.log1p(-q), 1.0 / c)

    def _isf(self, q: Any, c: Any) -> Any:
        return np.power(-np.log(q), 1.0 / c)

    def _mean(self, c: Any) -> Any:
        return sc.gamma(1.0 + 1.0 / c)

    def _var(self, c: Any) -> Any:
        return sc.gamma(1.0 + 2.0 / c) - np.square(self._mean(c))

    def _entropy(self, c: Any) -> Any:
        return -_EULER / c - np.log(c) + _EULER + 1.0


class WeibullMax(Continuous):
    shapes = ("c",)

    def _support(self, c: Any) -> tuple[Any, Any]:
        return -math.inf, 0.0

    def _logpdf(self, x: Any, c: Any) -> Any:
        return np.log(c) + sc.xlogy(c - 1.0, -x) - np.power(-x, c)

    def _cdf(self, x: Any, c: Any) -> Any:
        return np.exp(-np.power(-x, c))

    def _logcdf(self, x: Any, c: Any) -> Any:
        return -np.power(-x, c)

    def _sf(self, x: Any, c: Any) -> Any:
        return -np.expm1(-np.power(-x, c))

    def _ppf(self, q: Any, c: Any) -> Any:
        return -np.power(-np.log(q), 1.0 / c)

    def _mean(self, c: Any) -> Any:
        return -sc.gamma(1.0 + 1.0 / c)

    def _var(self, c: Any) -> Any:
        return sc.gamma(1.0 + 2.0 / c) - np.square(self._mean(c))

    def _entropy(self, c: Any) -> Any:
        return -_EULER / c - np.log(c) + _EULER + 1.0

    def _isf(self, q: Any, c: Any) -> Any:
        return -np.power(-np.log1p(-q), 1.0 / c)


class InvWeibull(Positive):
    shapes = ("c",)

    def _logpdf(self, x: Any, c: Any) -> Any:
        return np.where(x == 0, -math.inf, np.log(c) - (c + 1.0) * np.log(x) - np.power(x, -c))

    def _cdf(self, x: Any, c: Any) -> Any:
        return np.exp(-np.power(x, -c))

    def _logcdf(self, x: Any, c: Any) -> Any:
        return -np.power(x, -c)

    def _sf(self, x: Any, c: Any) -> Any:
        return -np.expm1(-np.power(x, -c))

    def _ppf(self, q: Any, c: Any) -> Any:
        return np.power(-np.log(q), -1.0 / c)

    def _isf(self, q: Any, c: Any) -> Any:
        return np.power(-np.log1p(-q), -1.0 / c)

    def _mean(self, c: Any) -> Any:
        return np.where(c > 1.0, sc.gamma(1.0 - 1.0 / c), math.inf)

    def _entropy(self, c: Any) -> Any:
        return 1.0 + _EULER + _EULER / c - np.log(c)


class Pareto(Continuous):
    shapes = ("b",)

    def _support(self, b: Any) -> tuple[Any, Any]:
        return 1.0, math.inf

    def _logpdf(self, x: Any, b: Any) -> Any:
        return np.log(b) - (b + 1.0) * np.log(x)

    def _cdf(self, x: Any, b: Any) -> Any:
        return -np.expm1(-b * np.log(x))

    def _sf(self, x: Any, b: Any) -> Any:
        return np.power(x, -b)

    def _logsf(self, x: Any, b: Any) -> Any:
        return -b * np.log(x)

    def _ppf(self, q: Any, b: Any) -> Any:
        return np.exp(-np.log1p(-q) / b)

    def _isf(self, q: Any, b: Any) -> Any:
        return np.power(q, -1.0 / b)

    def _mean(self, b: Any) -> Any:
        return np.where(b > 1.0, b / (b - 1.0), math.inf)

    def _var(self, b: Any) -> Any:
        return np.where(b > 2.0, b / (b - 2.0) / np.square(b - 1.0), math.inf)

    def _entropy(self, b: Any) -> Any:
        return 1.0 + 1.0 / b - np.log(b)


class Lomax(Positive):
    shapes = ("c",)

    def _logpdf(self, x: Any, c: Any) -> Any:
        return np.log(c) - (c + 1.0) * np.log1p(x)

    def _cdf(self, x: Any, c: Any) -> Any:
        return -np.expm1(-c * np.log1p(x))

    def _sf(self, x: Any, c: Any) -> Any:
        return np.exp(-c * np.log1p(x))

    def _logsf(self, x: Any, c: Any) -> Any:
        return -c * np.log1p(x)

    def _ppf(self, q: Any, c: Any) -> Any:
        return np.expm1(-np.log1p(-q) / c)

    def _isf(self, q: Any, c: Any) -> Any:
        return np.expm1(-np.log(q) / c)

    def _mean(self, c: Any) -> Any:
        return np.where(c > 1.0, 1.0 / (c - 1.0), math.inf)

    def _var(self, c: Any) -> Any:
        return np.where(c > 2.0, c / (c - 2.0) / np.square(c - 1.0), math.inf)

    def _entropy(self, c: Any) -> Any:
        return 1.0 + 1.0 / c - np.log(c)


class GenPareto(Continuous):
    """SciPy's sign: c < 0 has an upper end, c = 0 is the exponential distribution."""

    shapes = ("c",)

    def _valid(self, c: Any) -> Any:
        return np.isfinite(c)

    def _support(self, c: Any) -> tuple[Any, Any]:
        return 0.0, np.where(c < 0, -1.0 / np.where(c < 0, c, -1.0), math.inf)

    def _logsf(self, x: Any, c: Any) -> Any:
        """-log(1 + c x) / c, -x for c = 0."""
        return -x * log1p_quotient(c * x)

    def _logpdf(self, x: Any, c: Any) -> Any:
        return np.where((c == -1) & (x == 1), 0.0, (1.0 + c) * self._logsf(x, c))

    def _cdf(self, x: Any, c: Any) -> Any:
        return -np.expm1(self._logsf(x, c))

    def _sf(self, x: Any, c: Any) -> Any:
        return np.exp(self._logsf(x, c))

    def _ppf(self, q: Any, c: Any) -> Any:
        return self._place(-np.log1p(-q), c)

    def _isf(self, q: Any, c: Any) -> Any:
        return self._place(-np.log(q), c)

    def _place(self, x: Any, c: Any) -> Any:
        return x * expm1_quotient(c * x)

    def _mean(self, c: Any) -> Any:
        return np.where(c < 1.0, 1.0 / (1.0 - c), math.inf)

    def _var(self, c: Any) -> Any:
        return np.where(c < 0.5, 1.0 / np.square(1.0 - c) / (1.0 - 2.0 * c), math.inf)

    def _entropy(self, c: Any) -> Any:
        return 1.0 + c


class Fisk(Positive):
    shapes = ("c",)

    def _logpdf(self, x: Any, c: Any) -> Any:
        return np.log(c) + sc.xlogy(c - 1.0, x) - 2.0 * np.log1p(np.power(x, c))

    def _cdf(self, x: Any, c: Any) -> Any:
        return sc.expit(c * np.log(x))

    def _logcdf(self, x: Any, c: Any) -> Any:
        return sc.log_expit(c * np.log(x))

    def _sf(self, x: Any, c: Any) -> Any:
        return sc.expit(-c * np.log(x))

    def _logsf(self, x: Any, c: Any) -> Any:
        return sc.log_expit(-c * np.log(x))

    def _ppf(self, q: Any, c: Any) -> Any:
        return np.exp(sc.logit(q) / c)

    def _isf(self, q: Any, c: Any) -> Any:
        return np.exp(-sc.logit(q) / c)

    def _mean(self, c: Any) -> Any:
        return np.where(c > 1.0, math.pi / c / np.sin(math.pi / c), math.inf)

    def _entropy(self, c: Any) -> Any:
        return 2.0 - np.log(c)


class Burr12(Positive):
    shapes = ("c", "d")

    def _logpdf(self, x: Any, c: Any, d: Any) -> Any:
        return np.log(c) + np.log(d) + sc.xlogy(c - 1.0, x) - (d + 1.0) * np.log1p(np.power(x, c))

    def _cdf(self, x: Any, c: Any, d: Any) -> Any:
        return -np.expm1(self._logsf(x, c, d))

    def _sf(self, x: Any, c: Any, d: Any) -> Any:
        return np.exp(self._logsf(x, c, d))

    def _logsf(self, x: Any, c: Any, d: Any) -> Any:
        return -d * np.log1p(np.power(x, c))

    def _ppf(self, q: Any, c: Any, d: Any) -> Any:
        return np.power(np.expm1(-np.log1p(-q) / d), 1.0 / c)

    def _isf(self, q: Any, c: Any, d: Any) -> Any:
        return np.power(np.expm1(-np.log(q) / d), 1.0 / c)
