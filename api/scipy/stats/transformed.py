"""Distributions of folded, mirrored and otherwise transformed variables. Formulas are those of `scipy.stats`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit import special as sc
from adjit.scipy.stats.distribution import Continuous, Positive, Solved, Symmetric, around_zero, chosen
from adjit.scipy.stats.on_an_interval import OnUnit
from adjit.scipy.stats.on_the_line import cauchy_quantile, log_normal_density
from adjit.scipy.stats.quotients import expm1_quotient, log1p_quotient, log_i0e

_ROOT_HALF = math.sqrt(0.5)


class Gibrat(Positive):
    def _logpdf(self, x: Any) -> Any:
        return log_normal_density(np.log(x) + 1.0) + 0.5       # of log x, minus log x

    def _cdf(self, x: Any) -> Any:
        return sc.ndtr(np.log(x))

    def _sf(self, x: Any) -> Any:
        return sc.ndtr(-np.log(x))

    def _ppf(self, q: Any) -> Any:
        return np.exp(sc.ndtri(q))

    def _isf(self, q: Any) -> Any:
        return np.exp(-sc.ndtri(q))

    def _mean(self) -> Any:
        return math.sqrt(math.e)

    def _var(self) -> Any:
        return math.e * (math.e - 1.0)

    def _entropy(self) -> Any:
        return 0.5 * math.log(2.0 * math.pi) + 0.5


class FoldNorm(Solved, Positive):
    shapes = ("c",)

    def _valid(self, c: Any) -> Any:
        return c >= 0

    def _logpdf(self, x: Any, c: Any) -> Any:
        return log_normal_density(x - c) + np.log1p(np.exp(-2.0 * x * c))

    def _cdf(self, x: Any, c: Any) -> Any:
        return 0.5 * (sc.erf((x - c) * _ROOT_HALF) + sc.erf((x + c) * _ROOT_HALF))

    def _sf(self, x: Any, c: Any) -> Any:
        return sc.ndtr(c - x) + sc.ndtr(-c - x)

    def _mean(self, c: Any) -> Any:
        return 2.0 * np.exp(log_normal_density(c)) + c * sc.erf(c * _ROOT_HALF)

    def _var(self, c: Any) -> Any:
        return np.square(c) + 1.0 - np.square(self._mean(c))

    def _bracket(self, q: Any, c: Any) -> tuple[Any, Any]:
        return math.sqrt(2.0) * sc.erfinv(q), math.sqrt(2.0) * sc.erfinv(q) + c


class FoldCauchy(Solved, Positive):
    shapes = ("c",)

    def _valid(self, c: Any) -> Any:
        return c >= 0

    def _pdf(self, x: Any, c: Any) -> Any:
        return (1.0 / (1.0 + np.square(x - c)) + 1.0 / (1.0 + np.square(x + c))) / math.pi

    def _cdf(self, x: Any, c: Any) -> Any:
        return (np.arctan(x - c) + np.arctan(x + c)) / math.pi

    def _sf(self, x: Any, c: Any) -> Any:
        return (np.arctan2(1.0, x - c) + np.arctan2(1.0, x + c)) / math.pi

    def _mean(self, c: Any) -> Any:
        return math.inf

    def _var(self, c: Any) -> Any:
        return math.inf

    def _bracket(self, q: Any, c: Any) -> tuple[Any, Any]:
        unfolded = cauchy_quantile(0.5 + 0.5 * q)
        return unfolded, unfolded + c


class Rice(Positive):
    shapes = ("b",)

    def _valid(self, b: Any) -> Any:
        return b >= 0

    def _logpdf(self, x: Any, b: Any) -> Any:
        return np.log(x) - 0.5 * np.square(x - b) + log_i0e(x * b)

    def _cdf(self, x: Any, b: Any) -> Any:
        return sc.chndtr(np.square(x), 2.0, np.square(b))

    def _ppf(self, q: Any, b: Any) -> Any:
        return np.sqrt(sc.chndtrix(q, 2.0, np.square(b)))


class DoubleGamma(Symmetric):
    shapes = ("a",)

    def _logpdf(self, x: Any, a: Any) -> Any:
        return sc.xlogy(a - 1.0, np.abs(x)) - np.abs(x) - math.log(2.0) - sc.gammaln(a)

    def _middle(self, a: Any) -> Any:
        """Density at 0."""
        return chosen((a < 1.0, math.inf), (a > 1.0, 0.0), otherwise=0.5)

    def _cdf(self, x: Any, a: Any) -> Any:
        return around_zero(x, 0.5, self._middle(a), lambda x: np.where(
            x > 0, 0.5 + 0.5 * sc.gammainc(a, np.maximum(x, 0.0)), 0.5 * sc.gammaincc(a, np.maximum(-x, 0.0))))

    def _ppf(self, q: Any, a: Any) -> Any:
        def tails(side: Any) -> Any:
            high, low = side > 0, q < 0.5
            return np.where(high, sc.gammaincinv(a, np.where(high, 2.0 * q - 1.0, 0.5)), -sc.gammainccinv(a, np.where(low, 2.0 * q, 0.5)))
        return around_zero(q - 0.5, 0.0, 1.0 / self._middle(a), tails)

    def _var(self, a: Any) -> Any:
        return a * (a + 1.0)


class DoubleWeibull(Symmetric):
    shapes = ("c",)

    def _logpdf(self, x: Any, c: Any) -> Any:
        return np.log(c) - math.log(2.0) + sc.xlogy(c - 1.0, np.abs(x)) - np.power(np.abs(x), c)

    def _cdf(self, x: Any, c: Any) -> Any:
        def tails(x: Any) -> Any:
            tail = 0.5 * np.exp(-np.power(np.abs(x), c))
            return np.where(x > 0, 1.0 - tail, tail)
        return around_zero(x, 0.5, chosen((c < 1.0, math.inf), (c > 1.0, 0.0), otherwise=0.5), tails)

    def _ppf(self, q: Any, c: Any) -> Any:
        def tails(side: Any) -> Any:
            share = np.where(q == 0.5, 0.25, np.where(side > 0, 1.0 - q, q))
            return np.sign(side) * np.power(-np.log(2.0 * share), 1.0 / c)
        return around_zero(q - 0.5, 0.0, chosen((c < 1.0, 0.0), (c > 1.0, math.inf), otherwise=2.0), tails)

    def _var(self, c: Any) -> Any:
        return sc.gamma(1.0 + 2.0 / c)


class GenLogistic(Continuous):
    shapes = ("c",)

    def _logpdf(self, x: Any, c: Any) -> Any:
        size = np.abs(x)
        return np.log(c) - (1.0 + (c - 1.0) * (x < 0)) * size - (c + 1.0) * np.log1p(np.exp(-size))

    def _cdf(self, x: Any, c: Any) -> Any:
        return np.exp(self._logcdf(x, c))

    def _logcdf(self, x: Any, c: Any) -> Any:
        return -c * (np.log1p(np.exp(-np.abs(x))) + np.maximum(-x, 0.0))

    def _sf(self, x: Any, c: Any) -> Any:
        return -np.expm1(self._logcdf(x, c))

    def _ppf(self, q: Any, c: Any) -> Any:
        return -np.log(np.expm1(-np.log(q) / c))

    def _isf(self, q: Any, c: Any) -> Any:
        return -np.log(np.expm1(-np.log1p(-q) / c))

    def _mean(self, c: Any) -> Any:
        return 0.5772156649015329 + sc.digamma(c)

    def _var(self, c: Any) -> Any:
        return math.pi ** 2 / 6.0 + sc.polygamma(1, c)


class LogLaplace(Positive):
    shapes = ("c",)

    def _logpdf(self, x: Any, c: Any) -> Any:
        return np.log(0.5 * c) + sc.xlogy(np.where(x < 1, c, -c) - 1.0, x)

    def _cdf(self, x: Any, c: Any) -> Any:
        half = 0.5 * np.power(np.where(x < 1, x, 1.0 / np.where(x < 1, 1.0, x)), c)
        return np.where(x < 1, half, 1.0 - half)

    def _sf(self, x: Any, c: Any) -> Any:
        half = 0.5 * np.power(np.where(x < 1, x, 1.0 / np.where(x < 1, 1.0, x)), c)
        return np.where(x < 1, 1.0 - half, half)

    def _ppf(self, q: Any, c: Any) -> Any:
        return np.where(q < 0.5, np.power(2.0 * q, 1.0 / c), np.power(2.0 * (1.0 - q), -1.0 / c))

    def _isf(self, q: Any, c: Any) -> Any:
        return np.where(q > 0.5, np.power(2.0 * (1.0 - q), 1.0 / c), np.power(2.0 * q, -1.0 / c))

    def _entropy(self, c: Any) -> Any:
        return np.log(2.0 / c) + 1.0


class Bradford(OnUnit):
    shapes = ("c",)

    def _logpdf(self, x: Any, c: Any) -> Any:
        return -np.log1p(c * x) - np.log(log1p_quotient(c))

    def _cdf(self, x: Any, c: Any) -> Any:
        return x * log1p_quotient(c * x) / log1p_quotient(c)

    def _ppf(self, q: Any, c: Any) -> Any:
        return q * log1p_quotient(c) * expm1_quotient(q * np.log1p(c))

    def _mean(self, c: Any) -> Any:
        rate = np.log1p(c)
        return (c - rate) / (c * rate)

    def _var(self, c: Any) -> Any:
        rate = np.log1p(c)
        return ((c + 2.0) * rate - 2.0 * c) / (2.0 * c * np.square(rate))

    def _entropy(self, c: Any) -> Any:
        return 0.5 * np.log1p(c) + np.log(log1p_quotient(c))


class Burr(Positive):
    shapes = ("c", "d")

    def _logpdf(self, x: Any, c: Any, d: Any) -> Any:
        return np.log(c) + np.log(d) + sc.xlogy(c * d - 1.0, x) - (d + 1.0) * np.log1p(np.power(x, c))

    def _logcdf(self, x: Any, c: Any, d: Any) -> Any:
        return -d * np.log1p(np.power(x, -c))

    def _cdf(self, x: Any, c: Any, d: Any) -> Any:
        return np.exp(self._logcdf(x, c, d))

    def _sf(self, x: Any, c: Any, d: Any) -> Any:
        return -np.expm1(self._logcdf(x, c, d))

    def _ppf(self, q: Any, c: Any, d: Any) -> Any:
        return np.power(np.expm1(-np.log(q) / d), -1.0 / c)

    def _isf(self, q: Any, c: Any, d: Any) -> Any:
        return np.power(np.expm1(-np.log1p(-q) / d), -1.0 / c)


class Mielke(Positive):
    shapes = ("k", "s")

    def _logpdf(self, x: Any, k: Any, s: Any) -> Any:
        return np.log(k) + sc.xlogy(k - 1.0, x) - (1.0 + k / s) * np.log1p(np.power(x, s))

    def _cdf(self, x: Any, k: Any, s: Any) -> Any:
        return np.power(x, k) / np.power(1.0 + np.power(x, s), k / s)

    def _ppf(self, q: Any, k: Any, s: Any) -> Any:
        share = np.power(q, s / k)
        return np.power(share / (1.0 - share), 1.0 / s)


class ExponPow(Positive):
    shapes = ("b",)

    def _logpdf(self, x: Any, b: Any) -> Any:
        power = np.power(x, b)
        return 1.0 + np.log(b) + sc.xlogy(b - 1.0, x) + power - np.exp(power)

    def _cdf(self, x: Any, b: Any) -> Any:
        return -np.expm1(self._logsf(x, b))

    def _sf(self, x: Any, b: Any) -> Any:
        return np.exp(self._logsf(x, b))

    def _logsf(self, x: Any, b: Any) -> Any:
        return -np.expm1(np.power(x, b))

    def _ppf(self, q: Any, b: Any) -> Any:
        return np.power(np.log1p(-np.log1p(-q)), 1.0 / b)

    def _isf(self, q: Any, b: Any) -> Any:
        return np.power(np.log1p(-np.log(q)), 1.0 / b)


class FatigueLife(Positive):
    shapes = ("c",)

    def _logpdf(self, x: Any, c: Any) -> Any:
        nothing = x == 0
        x = np.where(nothing, 1.0, x)
        found = np.log1p(x) - np.log(2.0 * c) - 0.5 * (np.square(self._place(x, c)) + math.log(2.0 * math.pi) + 3.0 * np.log(x))
        return np.where(nothing, -math.inf, found)

    def _place(self, x: Any, c: Any) -> Any:
        return (np.sqrt(x) - 1.0 / np.sqrt(x)) / c

    def _cdf(self, x: Any, c: Any) -> Any:
        return sc.ndtr(self._place(x, c))

    def _sf(self, x: Any, c: Any) -> Any:
        return sc.ndtr(-self._place(x, c))

    def _at(self, z: Any) -> Any:
        return 0.25 * np.square(z + np.sqrt(np.square(z) + 4.0))

    def _ppf(self, q: Any, c: Any) -> Any:
        return self._at(c * sc.ndtri(q))

    def _isf(self, q: Any, c: Any) -> Any:
        return self._at(-c * sc.ndtri(q))

    def _mean(self, c: Any) -> Any:
        return 0.5 * np.square(c) + 1.0

    def _var(self, c: Any) -> Any:
        return np.square(c) * (1.25 * np.square(c) + 1.0)


class PowerNorm(Continuous):
    shapes = ("c",)

    def _logpdf(self, x: Any, c: Any) -> Any:
        return np.log(c) + log_normal_density(x) + (c - 1.0) * sc.log_ndtr(-x)

    def _cdf(self, x: Any, c: Any) -> Any:
        return -np.expm1(self._logsf(x, c))

    def _sf(self, x: Any, c: Any) -> Any:
        return np.exp(self._logsf(x, c))

    def _logsf(self, x: Any, c: Any) -> Any:
        return c * sc.log_ndtr(-x)

    def _ppf(self, q: Any, c: Any) -> Any:
        return -sc.ndtri_exp(np.log1p(-q) / c)

    def _isf(self, q: Any, c: Any) -> Any:
        return -sc.ndtri_exp(np.log(q) / c)


class SkewCauchy(Continuous):
    shapes = ("a",)

    def _valid(self, a: Any) -> Any:
        return np.abs(a) < 1

    def _pdf(self, x: Any, a: Any) -> Any:
        return 1.0 / (math.pi * (np.square(x / (a * np.sign(x) + 1.0)) + 1.0))

    def _cdf(self, x: Any, a: Any) -> Any:
        low, high = 1.0 - a, 1.0 + a
        side = np.where(x <= 0, low, high)
        return 0.5 * low + side / math.pi * np.arctan(x / side)

    def _ppf(self, q: Any, a: Any) -> Any:
        return self._place(q, 1.0 - q, a)

    def _isf(self, q: Any, a: Any) -> Any:
        return self._place(1.0 - q, q, a)

    def _place(self, below: Any, above: Any, a: Any) -> Any:
        """By the smaller of both shares, of a Cauchy distribution as wide as its side."""
        left = below < 0.5 * (1.0 - a)
        side = np.where(left, 1.0 - a, 1.0 + a)
        tail = cauchy_quantile(np.where(left, below, above) / side) * side
        return np.where(left, tail, -tail)


class Anglit(Continuous):
    def _support(self) -> tuple[Any, Any]:
        return -0.25 * math.pi, 0.25 * math.pi

    def _pdf(self, x: Any) -> Any:
        return np.cos(2.0 * x)

    def _cdf(self, x: Any) -> Any:
        return np.square(np.sin(x + 0.25 * math.pi))

    def _sf(self, x: Any) -> Any:
        return np.square(np.cos(x + 0.25 * math.pi))

    def _ppf(self, q: Any) -> Any:
        return np.arcsin(np.sqrt(q)) - 0.25 * math.pi

    def _mean(self) -> Any:
        return 0.0

    def _var(self) -> Any:
        return math.pi ** 2 / 16.0 - 0.5

    def _entropy(self) -> Any:
        return 1.0 - math.log(2.0)


class HalfGenNorm(Positive):
    shapes = ("beta",)

    def _logpdf(self, x: Any, beta: Any) -> Any:
        return np.log(beta) - sc.gammaln(1.0 / beta) - np.power(x, beta)

    def _cdf(self, x: Any, beta: Any) -> Any:
        return sc.gammainc(1.0 / beta, np.power(x, beta))

    def _sf(self, x: Any, beta: Any) -> Any:
        return sc.gammaincc(1.0 / beta, np.power(x, beta))

    def _ppf(self, q: Any, beta: Any) -> Any:
        return np.power(sc.gammaincinv(1.0 / beta, q), 1.0 / beta)

    def _isf(self, q: Any, beta: Any) -> Any:
        return np.power(sc.gammainccinv(1.0 / beta, q), 1.0 / beta)

    def _entropy(self, beta: Any) -> Any:
        return 1.0 / beta - np.log(beta) + sc.gammaln(1.0 / beta)


class Kappa3(Positive):
    shapes = ("a",)

    def _logpdf(self, x: Any, a: Any) -> Any:
        """log(a + x^a), which overflows, is taken of x above 1 as that of x^a and of 1 + a x^-a."""
        far = x > 1.0
        above, below = np.where(far, x, 1.0), np.where(far, 1.0, x)
        total = np.where(far, a * np.log(above) + np.log1p(a * np.power(above, -a)), np.log(a + np.power(below, a)))
        return np.log(a) - (1.0 / a + 1.0) * total

    def _cdf(self, x: Any, a: Any) -> Any:
        below = np.where(x > 1.0, 1.0, x)
        return np.where(x > 1.0, np.exp(-self._rest(x, a)), below * np.power(a + np.power(below, a), -1.0 / a))

    def _sf(self, x: Any, a: Any) -> Any:
        return np.where(x > 1.0, -np.expm1(-self._rest(x, a)), 1.0 - self._cdf(x, a))

    def _rest(self, x: Any, a: Any) -> Any:
        """log(1 + a x^-a) / a, of x above 1."""
        return np.log1p(a * np.power(np.where(x > 1.0, x, 1.0), -a)) / a

    def _ppf(self, q: Any, a: Any) -> Any:
        return self._place(np.log(q), a)

    def _isf(self, q: Any, a: Any) -> Any:
        return self._place(np.log1p(-q), a)

    def _place(self, logarithm: Any, a: Any) -> Any:
        return np.exp(logarithm + (np.log(a) - np.log(-np.expm1(a * logarithm))) / a)


class TruncPareto(Continuous):
    shapes = ("b", "c")

    def _valid(self, b: Any, c: Any) -> Any:
        return (b > 0) & (c > 1)

    def _support(self, b: Any, c: Any) -> tuple[Any, Any]:
        return 1.0, c

    def _logpdf(self, x: Any, b: Any, c: Any) -> Any:
        return -np.log(np.log(c) * expm1_quotient(-b * np.log(c))) - (b + 1.0) * np.log(x)

    def _cdf(self, x: Any, b: Any, c: Any) -> Any:
        return np.log(x) * expm1_quotient(-b * np.log(x)) / (np.log(c) * expm1_quotient(-b * np.log(c)))

    def _ppf(self, q: Any, b: Any, c: Any) -> Any:
        length = q * np.log(c) * expm1_quotient(-b * np.log(c))
        return np.exp(length * log1p_quotient(-b * length))
