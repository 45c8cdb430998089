"""Distributions on an interval. Formulas are those of `scipy.stats`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit import special as sc
from adjit.scipy.stats.distribution import Continuous, Solved
from adjit.scipy.stats.on_the_line import log_normal_density


class OnUnit(Continuous):
    """Distribution between 0 and 1."""

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, 1.0


class Uniform(OnUnit):
    def _logpdf(self, x: Any) -> Any:
        return np.zeros_like(x)

    def _cdf(self, x: Any) -> Any:
        return x

    def _logsf(self, x: Any) -> Any:
        return np.log1p(-x)

    def _ppf(self, q: Any) -> Any:
        return q

    def _mean(self) -> Any:
        return 0.5

    def _var(self) -> Any:
        return 1.0 / 12.0

    def _entropy(self) -> Any:
        return 0.0


class Beta(OnUnit):
    shapes = ("a", "b")

    def _logpdf(self, x: Any, a: Any, b: Any) -> Any:
        return sc.xlog1py(b - 1.0, -x) + sc.xlogy(a - 1.0, x) - sc.betaln(a, b)

    def _cdf(self, x: Any, a: Any, b: Any) -> Any:
        return sc.betainc(a, b, x)

    def _sf(self, x: Any, a: Any, b: Any) -> Any:
        return sc.betaincc(a, b, x)

    def _ppf(self, q: Any, a: Any, b: Any) -> Any:
        return sc.betaincinv(a, b, q)

    def _isf(self, q: Any, a: Any, b: Any) -> Any:
        return sc.betainccinv(a, b, q)

    def _mean(self, a: Any, b: Any) -> Any:
        return a / (a + b)

    def _var(self, a: Any, b: Any) -> Any:
        total = a + b
        return a * b / (np.square(total) * (total + 1.0))

    def _entropy(self, a: Any, b: Any) -> Any:
        return sc.betaln(a, b) - (a - 1.0) * sc.digamma(a) - (b - 1.0) * sc.digamma(b) + (a + b - 2.0) * sc.digamma(a + b)


class PowerLaw(OnUnit):
    shapes = ("a",)

    def _logpdf(self, x: Any, a: Any) -> Any:
        return np.log(a) + sc.xlogy(a - 1.0, x)

    def _cdf(self, x: Any, a: Any) -> Any:
        return np.power(x, a)

    def _logcdf(self, x: Any, a: Any) -> Any:
        return a * np.log(x)

    def _sf(self, x: Any, a: Any) -> Any:
        return -np.expm1(a * np.log(x))

    def _ppf(self, q: Any, a: Any) -> Any:
        return np.power(q, 1.0 / a)

    def _mean(self, a: Any) -> Any:
        return a / (a + 1.0)

    def _var(self, a: Any) -> Any:
        return a / (a + 2.0) / np.square(a + 1.0)

    def _entropy(self, a: Any) -> Any:
        return 1.0 - 1.0 / a - np.log(a)


class Triang(OnUnit):
    shapes = ("c",)

    def _valid(self, c: Any) -> Any:
        return (c >= 0) & (c <= 1)

    def _pdf(self, x: Any, c: Any) -> Any:
        left = (x < c) | (c == 1)
        return np.where(left, 2.0 * x / np.where(left, c, 1.0), 2.0 * (1.0 - x) / np.where(left, 1.0, 1.0 - c))

    def _cdf(self, x: Any, c: Any) -> Any:
        left = (x < c) | (c == 1)
        return np.where(left, np.square(x) / np.where(left, c, 1.0), 1.0 - np.square(1.0 - x) / np.where(left, 1.0, 1.0 - c))

    def _ppf(self, q: Any, c: Any) -> Any:
        return np.where(q < c, np.sqrt(c * q), 1.0 - np.sqrt((1.0 - c) * (1.0 - q)))

    def _mean(self, c: Any) -> Any:
        return (c + 1.0) / 3.0

    def _var(self, c: Any) -> Any:
        return (1.0 - c + np.square(c)) / 18.0

    def _entropy(self, c: Any) -> Any:
        return 0.5 - math.log(2.0) + 0.0 * c


class ArcSine(OnUnit):
    def _pdf(self, x: Any) -> Any:
        return 1.0 / math.pi / np.sqrt(x * (1.0 - x))

    def _logpdf(self, x: Any) -> Any:
        return -math.log(math.pi) - 0.5 * np.log(x) - 0.5 * np.log1p(-x)

    def _cdf(self, x: Any) -> Any:
        return 2.0 / math.pi * np.arcsin(np.sqrt(x))

    def _ppf(self, q: Any) -> Any:
        return np.square(np.sin(math.pi / 2.0 * q))

    def _mean(self) -> Any:
        return 0.5

    def _var(self) -> Any:
        return 0.125

    def _entropy(self) -> Any:
        return math.log(math.pi / 4.0)


class SemiCircular(Solved):
    def _support(self) -> tuple[Any, Any]:
        return -1.0, 1.0

    def _pdf(self, x: Any) -> Any:
        return 2.0 / math.pi * np.sqrt(1.0 - np.square(x))

    def _logpdf(self, x: Any) -> Any:
        return math.log(2.0 / math.pi) + 0.5 * np.log1p(-np.square(x))

    def _cdf(self, x: Any) -> Any:
        return 0.5 + 1.0 / math.pi * (x * np.sqrt(1.0 - np.square(x)) + np.arcsin(x))

    def _mean(self) -> Any:
        return 0.0

    def _var(self) -> Any:
        return 0.25

    def _entropy(self) -> Any:
        return math.log(math.pi) - 0.5


class TruncNorm(Continuous):
    """`a` and `b` are the ends of the standard variable."""

    shapes = ("a", "b")

    def _valid(self, a: Any, b: Any) -> Any:
        return a < b

    def _support(self, a: Any, b: Any) -> tuple[Any, Any]:
        return a, b

    def _log_mass(self, a: Any, b: Any) -> Any:
        """Logarithm of the share of the normal distribution between a and b, in the tail where both are."""
        turned = a > 0
        low, high = np.where(turned, -b, a), np.where(turned, -a, b)
        across = high > 0
        inner = np.where(across, 0.0, high)
        left = sc.log_ndtr(inner) + np.log1p(-np.exp(sc.log_ndtr(np.where(across, -1.0, low)) - sc.log_ndtr(inner)))
        return np.where(across, np.log1p(-sc.ndtr(low) - sc.ndtr(-high)), left)

    def _logpdf(self, x: Any, a: Any, b: Any) -> Any:
        return log_normal_density(x) - self._log_mass(a, b)

    def _logcdf(self, x: Any, a: Any, b: Any) -> Any:
        return self._log_mass(a, x) - self._log_mass(a, b)

    def _cdf(self, x: Any, a: Any, b: Any) -> Any:
        return np.exp(self._logcdf(x, a, b))

    def _logsf(self, x: Any, a: Any, b: Any) -> Any:
        return self._log_mass(x, b) - self._log_mass(a, b)

    def _sf(self, x: Any, a: Any, b: Any) -> Any:
        return np.exp(self._logsf(x, a, b))

    def _ppf(self, q: Any, a: Any, b: Any) -> Any:
        """By the logarithm of the share below, or above where a > 0: there the shares are small numbers."""
        turned = a > 0
        low, high = np.where(turned, -b, a), np.where(turned, -a, b)
        share = np.logaddexp(sc.log_ndtr(low) + np.log1p(-np.where(turned, 1.0 - q, q)),
                             sc.log_ndtr(high) + np.log(np.where(turned, 1.0 - q, q)))
        y = sc.ndtri_exp(share)
        return np.where(turned, -y, y)

    def _ratio(self, x: Any, a: Any, b: Any) -> Any:
        return np.exp(log_normal_density(x) - self._log_mass(a, b))

    def _mean(self, a: Any, b: Any) -> Any:
        return self._ratio(a, a, b) - self._ratio(b, a, b)

    def _var(self, a: Any, b: Any) -> Any:
        at_a, at_b = self._ratio(a, a, b), self._ratio(b, a, b)
        ends = np.where(np.isinf(a), 0.0, a * at_a) - np.where(np.isinf(b), 0.0, b * at_b)
        return 1.0 + ends - np.square(at_a - at_b)

    def _entropy(self, a: Any, b: Any) -> Any:
        at_a, at_b = self._ratio(a, a, b), self._ratio(b, a, b)
        ends = np.where(np.isinf(a), 0.0, a * at_a) - np.where(np.isinf(b), 0.0, b * at_b)
        return 0.5 * math.log(2.0 * math.pi * math.e) + self._log_mass(a, b) + 0.5 * ends


class LogUniform(Continuous):
    shapes = ("a", "b")

    def _valid(self, a: Any, b: Any) -> Any:
        return (a > 0) & (b > a)

    def _support(self, a: Any, b: Any) -> tuple[Any, Any]:
        return a, b

    def _logpdf(self, x: Any, a: Any, b: Any) -> Any:
        return -np.log(x) - np.log(np.log(b) - np.log(a))

    def _cdf(self, x: Any, a: Any, b: Any) -> Any:
        return (np.log(x) - np.log(a)) / (np.log(b) - np.log(a))

    def _ppf(self, q: Any, a: Any, b: Any) -> Any:
        return np.exp(np.log(a) + q * (np.log(b) - np.log(a)))

    def _mean(self, a: Any, b: Any) -> Any:
        return (b - a) / (np.log(b) - np.log(a))

    def _var(self, a: Any, b: Any) -> Any:
        return 0.5 * (np.square(b) - np.square(a)) / (np.log(b) - np.log(a)) - np.square(self._mean(a, b))

    def _entropy(self, a: Any, b: Any) -> Any:
        return 0.5 * (np.log(a) + np.log(b)) + np.log(np.log(b) - np.log(a))


class JohnsonSB(OnUnit):
    shapes = ("a", "b")

    def _valid(self, a: Any, b: Any) -> Any:
        return (b > 0) & ~np.isnan(a)

    def _logpdf(self, x: Any, a: Any, b: Any) -> Any:
        value = np.log(b) - np.log(x) - np.log1p(-x) + log_normal_density(a + b * sc.logit(x))
        return np.where((x == 0) | (x == 1), -math.inf, value)

    def _cdf(self, x: Any, a: Any, b: Any) -> Any:
        return sc.ndtr(a + b * sc.logit(x))

    def _sf(self, x: Any, a: Any, b: Any) -> Any:
        return sc.ndtr(-(a + b * sc.logit(x)))

    def _ppf(self, q: Any, a: Any, b: Any) -> Any:
        return sc.expit((sc.ndtri(q) - a) / b)

    def _isf(self, q: Any, a: Any, b: Any) -> Any:
        return sc.expit((-sc.ndtri(q) - a) / b)


class TruncExpon(Continuous):
    shapes = ("b",)

    def _support(self, b: Any) -> tuple[Any, Any]:
        return 0.0, b

    def _logpdf(self, x: Any, b: Any) -> Any:
        return -x - np.log(-np.expm1(-b))

    def _cdf(self, x: Any, b: Any) -> Any:
        return np.expm1(-x) / np.expm1(-b)

    def _sf(self, x: Any, b: Any) -> Any:
        return np.exp(-x) * np.expm1(x - b) / np.expm1(-b)

    def _ppf(self, q: Any, b: Any) -> Any:
        return -np.log1p(q * np.expm1(-b))

    def _mean(self, b: Any) -> Any:
        return (1.0 - (b + 1.0) * np.exp(-b)) / -np.expm1(-b)

    def _entropy(self, b: Any) -> Any:
        mass = -np.expm1(-b)
        return b + np.log(mass) + (mass - b) / mass
