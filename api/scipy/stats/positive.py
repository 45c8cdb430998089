"""Distributions on the positive numbers. Formulas are those of `scipy.stats`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit import special as sc
from adjit.scipy.stats.distribution import Positive, Solved
from adjit.scipy.stats.on_the_line import log_normal_density

_EULER = 0.5772156649015329
_ROOT_2_OVER_PI = math.sqrt(2.0 / math.pi)


class Expon(Positive):
    def _logpdf(self, x: Any) -> Any:
        return -x

    def _cdf(self, x: Any) -> Any:
        return -np.expm1(-x)

    def _sf(self, x: Any) -> Any:
        return np.exp(-x)

    def _logsf(self, x: Any) -> Any:
        return -x

    def _ppf(self, q: Any) -> Any:
        return -np.log1p(-q)

    def _isf(self, q: Any) -> Any:
        return -np.log(q)

    def _mean(self) -> Any:
        return 1.0

    def _var(self) -> Any:
        return 1.0

    def _entropy(self) -> Any:
        return 1.0


class Gamma(Positive):
    shapes = ("a",)

    def _logpdf(self, x: Any, a: Any) -> Any:
        return sc.xlogy(a - 1.0, x) - x - sc.gammaln(a)

    def _cdf(self, x: Any, a: Any) -> Any:
        return sc.gammainc(a, x)

    def _sf(self, x: Any, a: Any) -> Any:
        return sc.gammaincc(a, x)

    def _ppf(self, q: Any, a: Any) -> Any:
        return sc.gammaincinv(a, q)

    def _isf(self, q: Any, a: Any) -> Any:
        return sc.gammainccinv(a, q)

    def _mean(self, a: Any) -> Any:
        return a

    def _var(self, a: Any) -> Any:
        return a

    def _entropy(self, a: Any) -> Any:
        return sc.digamma(a) * (1.0 - a) + a + sc.gammaln(a)


class Chi2(Positive):
    shapes = ("df",)

    def _logpdf(self, x: Any, df: Any) -> Any:
        return sc.xlogy(0.5 * df - 1.0, x) - 0.5 * x - sc.gammaln(0.5 * df) - 0.5 * math.log(2.0) * df

    def _cdf(self, x: Any, df: Any) -> Any:
        return sc.chdtr(df, x)

    def _sf(self, x: Any, df: Any) -> Any:
        return sc.chdtrc(df, x)

    def _ppf(self, q: Any, df: Any) -> Any:
        return 2.0 * sc.gammaincinv(0.5 * df, q)

    def _isf(self, q: Any, df: Any) -> Any:
        return sc.chdtri(df, q)

    def _mean(self, df: Any) -> Any:
        return df

    def _var(self, df: Any) -> Any:
        return 2.0 * df

    def _entropy(self, df: Any) -> Any:
        half = 0.5 * df
        return half + math.log(2.0) + sc.gammaln(half) + (1.0 - half) * sc.digamma(half)


class Chi(Positive):
    shapes = ("df",)

    def _logpdf(self, x: Any, df: Any) -> Any:
        return math.log(2.0) - 0.5 * math.log(2.0) * df - sc.gammaln(0.5 * df) + sc.xlogy(df - 1.0, x) - 0.5 * np.square(x)

    def _cdf(self, x: Any, df: Any) -> Any:
        return sc.gammainc(0.5 * df, 0.5 * np.square(x))

    def _sf(self, x: Any, df: Any) -> Any:
        return sc.gammaincc(0.5 * df, 0.5 * np.square(x))

    def _ppf(self, q: Any, df: Any) -> Any:
        return np.sqrt(2.0 * sc.gammaincinv(0.5 * df, q))

    def _isf(self, q: Any, df: Any) -> Any:
        return np.sqrt(2.0 * sc.gammainccinv(0.5 * df, q))

    def _mean(self, df: Any) -> Any:
        return math.sqrt(2.0) * sc.poch(0.5 * df, 0.5)

    def _var(self, df: Any) -> Any:
        return df - np.square(self._mean(df))

    def _entropy(self, df: Any) -> Any:
        half = 0.5 * df
        return sc.gammaln(half) + 0.5 * (df - math.log(2.0) - (df - 1.0) * sc.digamma(half))


class HalfNorm(Positive):
    def _logpdf(self, x: Any) -> Any:
        return log_normal_density(x) + math.log(2.0)

    def _cdf(self, x: Any) -> Any:
        return sc.erf(x / math.sqrt(2.0))

    def _sf(self, x: Any) -> Any:
        return 2.0 * sc.ndtr(-x)

    def _logsf(self, x: Any) -> Any:
        return math.log(2.0) + sc.log_ndtr(-x)

    def _ppf(self, q: Any) -> Any:
        return math.sqrt(2.0) * sc.erfinv(q)

    def _isf(self, q: Any) -> Any:
        return -sc.ndtri(q / 2.0)

    def _mean(self) -> Any:
        return _ROOT_2_OVER_PI

    def _var(self) -> Any:
        return 1.0 - 2.0 / math.pi

    def _entropy(self) -> Any:
        return 0.5 * math.log(math.pi / 2.0) + 0.5


class HalfCauchy(Positive):
    def _logpdf(self, x: Any) -> Any:
        return math.log(2.0 / math.pi) - np.log1p(np.square(x))

    def _cdf(self, x: Any) -> Any:
        return 2.0 / math.pi * np.arctan(x)

    def _sf(self, x: Any) -> Any:
        return 2.0 / math.pi * np.arctan2(1.0, x)

    def _ppf(self, q: Any) -> Any:
        high = q > 0.5
        return np.where(high, 1.0 / np.tan(math.pi / 2.0 * np.where(high, 1.0 - q, 0.5)), np.tan(math.pi / 2.0 * np.where(high, 0.0, q)))

    def _isf(self, q: Any) -> Any:
        return 1.0 / np.tan(math.pi / 2.0 * q)

    def _mean(self) -> Any:
        return math.inf

    def _var(self) -> Any:
        return math.inf

    def _entropy(self) -> Any:
        return math.log(2.0 * math.pi)


class HalfLogistic(Positive):
    def _logpdf(self, x: Any) -> Any:
        return math.log(2.0) - x - 2.0 * np.log1p(np.exp(-x))

    def _cdf(self, x: Any) -> Any:
        return np.tanh(0.5 * x)

    def _sf(self, x: Any) -> Any:
        return 2.0 * sc.expit(-x)

    def _ppf(self, q: Any) -> Any:
        return 2.0 * np.arctanh(q)

    def _isf(self, q: Any) -> Any:
        return np.where(q < 0.5, -sc.logit(0.5 * q), 2.0 * np.arctanh(1.0 - q))

    def _mean(self) -> Any:
        return 2.0 * math.log(2.0)

    def _var(self) -> Any:
        return math.pi**2 / 3.0 - 4.0 * math.log(2.0)**2

    def _entropy(self) -> Any:
        return 2.0 - math.log(2.0)


class Rayleigh(Positive):
    def _logpdf(self, x: Any) -> Any:
        return np.log(x) - 0.5 * np.square(x)

    def _cdf(self, x: Any) -> Any:
        return -np.expm1(-0.5 * np.square(x))

    def _sf(self, x: Any) -> Any:
        return np.exp(-0.5 * np.square(x))

    def _logsf(self, x: Any) -> Any:
        return -0.5 * np.square(x)

    def _ppf(self, q: Any) -> Any:
        return np.sqrt(-2.0 * np.log1p(-q))

    def _isf(self, q: Any) -> Any:
        return np.sqrt(-2.0 * np.log(q))

    def _mean(self) -> Any:
        return math.sqrt(math.pi / 2.0)

    def _var(self) -> Any:
        return 2.0 - math.pi / 2.0

    def _entropy(self) -> Any:
        return _EULER / 2.0 + 1.0 - 0.5 * math.log(2.0)


class Maxwell(Positive):
    def _logpdf(self, x: Any) -> Any:
        return 0.5 * math.log(2.0 / math.pi) + 2.0 * np.log(x) - 0.5 * np.square(x)

    def _cdf(self, x: Any) -> Any:
        return sc.gammainc(1.5, 0.5 * np.square(x))

    def _sf(self, x: Any) -> Any:
        return sc.gammaincc(1.5, 0.5 * np.square(x))

    def _ppf(self, q: Any) -> Any:
        return np.sqrt(2.0 * sc.gammaincinv(1.5, q))

    def _isf(self, q: Any) -> Any:
        return np.sqrt(2.0 * sc.gammainccinv(1.5, q))

    def _mean(self) -> Any:
        return 2.0 * _ROOT_2_OVER_PI

    def _var(self) -> Any:
        return 3.0 - 8.0 / math.pi

    def _entropy(self) -> Any:
        return _EULER + 0.5 * math.log(2.0 * math.pi) - 0.5


class LogNorm(Positive):
    shapes = ("s",)

    def _logpdf(self, x: Any, s: Any) -> Any:
        return np.where(x == 0, -math.inf, log_normal_density(np.log(x) / s) - np.log(s) - np.log(x))

    def _cdf(self, x: Any, s: Any) -> Any:
        return sc.ndtr(np.log(x) / s)

    def _logcdf(self, x: Any, s: Any) -> Any:
        return sc.log_ndtr(np.log(x) / s)

    def _sf(self, x: Any, s: Any) -> Any:
        return sc.ndtr(-np.log(x) / s)

    def _logsf(self, x: Any, s: Any) -> Any:
        return sc.log_ndtr(-np.log(x) / s)

    def _ppf(self, q: Any, s: Any) -> Any:
        return np.exp(s * sc.ndtri(q))

    def _isf(self, q: Any, s: Any) -> Any:
        return np.exp(-s * sc.ndtri(q))

    def _mean(self, s: Any) -> Any:
        return np.exp(0.5 * np.square(s))

    def _var(self, s: Any) -> Any:
        return np.exp(np.square(s)) * np.expm1(np.square(s))

    def _entropy(self, s: Any) -> Any:
        return 0.5 * (1.0 + math.log(2.0 * math.pi)) + np.log(s)


class InvGamma(Positive):
    shapes = ("a",)

    def _logpdf(self, x: Any, a: Any) -> Any:
        return np.where(x == 0, -math.inf, -(a + 1.0) * np.log(x) - sc.gammaln(a) - 1.0 / x)

    def _cdf(self, x: Any, a: Any) -> Any:
        return sc.gammaincc(a, 1.0 / x)

    def _sf(self, x: Any, a: Any) -> Any:
        return sc.gammainc(a, 1.0 / x)

    def _ppf(self, q: Any, a: Any) -> Any:
        return 1.0 / sc.gammainccinv(a, q)

    def _isf(self, q: Any, a: Any) -> Any:
        return 1.0 / sc.gammaincinv(a, q)

    def _mean(self, a: Any) -> Any:
        return np.where(a > 1.0, 1.0 / (a - 1.0), math.inf)

    def _var(self, a: Any) -> Any:
        return np.where(a > 2.0, 1.0 / np.square(a - 1.0) / (a - 2.0), math.inf)

    def _entropy(self, a: Any) -> Any:
        return a - (a + 1.0) * sc.digamma(a) + sc.gammaln(a)


class InvGauss(Solved, Positive):
    shapes = ("mu",)

    def _logpdf(self, x: Any, mu: Any) -> Any:
        return np.where(x == 0, -math.inf, -0.5 * math.log(2.0 * math.pi) - 1.5 * np.log(x) - np.square((x - mu) / mu) / (2.0 * x))

    def _parts(self, x: Any, mu: Any) -> tuple[Any, Any]:
        root = 1.0 / np.sqrt(x)
        return root * (x / mu - 1.0), 2.0 / mu + sc.log_ndtr(-root * (x + mu) / mu)

    def _logcdf(self, x: Any, mu: Any) -> Any:
        z, b = self._parts(x, mu)
        a = sc.log_ndtr(z)
        return a + np.log1p(np.exp(b - a))

    def _logsf(self, x: Any, mu: Any) -> Any:
        z, b = self._parts(x, mu)
        a = sc.log_ndtr(-z)
        return a + np.log1p(-np.exp(b - a))

    def _cdf(self, x: Any, mu: Any) -> Any:
        return np.exp(self._logcdf(x, mu))

    def _sf(self, x: Any, mu: Any) -> Any:
        return np.exp(self._logsf(x, mu))

    def _mean(self, mu: Any) -> Any:
        return mu

    def _var(self, mu: Any) -> Any:
        return mu * np.square(mu)

    def _bracket(self, q: Any, mu: Any) -> tuple[Any, Any]:
        """Where a Brownian motion with drift has reached 1: it is there or has been there, and has been there at most twice as often as
        without a drift on the way (the reflection principle)."""
        return self._reaching(sc.ndtri(0.5 * q), mu), self._reaching(sc.ndtri(q), mu)

    def _reaching(self, z: Any, mu: Any) -> Any:
        """Solution x of (x / mu - 1) / sqrt(x) = z."""
        half = 0.5 * np.abs(z) * mu
        root = half + np.sqrt(np.square(half) + mu)
        return np.square(np.where(z > 0, root, mu / root))


class Wald(Solved, Positive):
    """The inverse Gaussian distribution of mean 1."""

    _general = InvGauss("invgauss")

    def _logpdf(self, x: Any) -> Any:
        return self._general._logpdf(x, 1.0)

    def _logcdf(self, x: Any) -> Any:
        return self._general._logcdf(x, 1.0)

    def _logsf(self, x: Any) -> Any:
        return self._general._logsf(x, 1.0)

    def _cdf(self, x: Any) -> Any:
        return np.exp(self._logcdf(x))

    def _sf(self, x: Any) -> Any:
        return np.exp(self._logsf(x))

    def _mean(self) -> Any:
        return 1.0

    def _var(self) -> Any:
        return 1.0

    def _bracket(self, q: Any) -> tuple[Any, Any]:
        return self._general._bracket(q, 1.0)


class Levy(Positive):
    def _logpdf(self, x: Any) -> Any:
        return np.where(x == 0, -math.inf, -0.5 * math.log(2.0 * math.pi) - 1.5 * np.log(x) - 0.5 / x)

    def _cdf(self, x: Any) -> Any:
        return sc.erfc(np.sqrt(0.5 / x))

    def _sf(self, x: Any) -> Any:
        return sc.erf(np.sqrt(0.5 / x))

    def _ppf(self, q: Any) -> Any:
        return 1.0 / np.square(sc.ndtri(0.5 * q))

    def _isf(self, q: Any) -> Any:
        return 0.5 / np.square(sc.erfinv(q))

    def _mean(self) -> Any:
        return math.inf

    def _var(self) -> Any:
        return math.inf

    def _entropy(self) -> Any:
        return (1.0 + 3.0 * _EULER + math.log(16.0 * math.pi)) / 2.0


class FisherF(Positive):
    shapes = ("dfn", "dfd")

    def _logpdf(self, x: Any, dfn: Any, dfd: Any) -> Any:
        half_n, half_d, ratio = 0.5 * dfn, 0.5 * dfd, dfn / dfd
        return half_n * np.log(ratio) + sc.xlogy(half_n - 1.0, x) - (half_n + half_d) * np.log1p(ratio * x) - sc.betaln(half_n, half_d)

    def _cdf(self, x: Any, dfn: Any, dfd: Any) -> Any:
        return sc.fdtr(dfn, dfd, x)

    def _sf(self, x: Any, dfn: Any, dfd: Any) -> Any:
        return sc.fdtrc(dfn, dfd, x)

    def _ppf(self, q: Any, dfn: Any, dfd: Any) -> Any:
        return sc.fdtri(dfn, dfd, q)

    def _mean(self, dfn: Any, dfd: Any) -> Any:
        return np.where(dfd > 2.0, dfd / (dfd - 2.0), math.inf)

    def _var(self, dfn: Any, dfd: Any) -> Any:
        return np.where(dfd > 4.0, 2.0 * np.square(dfd) * (dfn + dfd - 2.0) / (dfn * np.square(dfd - 2.0) * (dfd - 4.0)), math.inf)

    def _entropy(self, dfn: Any, dfd: Any) -> Any:
        half_n, half_d = 0.5 * dfn, 0.5 * dfd
        total = half_n + half_d
        return np.log(dfd) - np.log(dfn) + sc.betaln(half_n, half_d) + (1.0 - half_n) * sc.digamma(half_n) \
            - (1.0 + half_d) * sc.digamma(half_d) + total * sc.digamma(total)


class BetaPrime(Positive):
    shapes = ("a", "b")

    def _logpdf(self, x: Any, a: Any, b: Any) -> Any:
        return sc.xlogy(a - 1.0, x) - (a + b) * np.log1p(x) - sc.betaln(a, b)

    def _cdf(self, x: Any, a: Any, b: Any) -> Any:
        return np.where(x > 1.0, sc.betaincc(b, a, 1.0 / (1.0 + x)), sc.betainc(a, b, x / (1.0 + x)))

    def _sf(self, x: Any, a: Any, b: Any) -> Any:
        return np.where(x > 1.0, sc.betainc(b, a, 1.0 / (1.0 + x)), sc.betaincc(a, b, x / (1.0 + x)))

    def _ppf(self, q: Any, a: Any, b: Any) -> Any:
        place, rest = sc.betaincinv(a, b, q), sc.betainccinv(b, a, q)
        return np.where(place > 0.9999, 1.0 / rest - 1.0, place / (1.0 - place))

    def _mean(self, a: Any, b: Any) -> Any:
        return np.where(b > 1.0, a / (b - 1.0), math.inf)

    def _var(self, a: Any, b: Any) -> Any:
        return np.where(b > 2.0, a * (a + b - 1.0) / ((b - 2.0) * np.square(b - 1.0)), math.inf)


class GenGamma(Positive):
    shapes = ("a", "c")

    def _valid(self, a: Any, c: Any) -> Any:
        return (a > 0) & (c != 0)

    def _logpdf(self, x: Any, a: Any, c: Any) -> Any:
        inner = np.log(np.abs(c)) + sc.xlogy(c * a - 1.0, x) - np.power(x, c) - sc.gammaln(a)
        return np.where((x != 0) | (c > 0), inner, -math.inf)

    def _cdf(self, x: Any, a: Any, c: Any) -> Any:
        power = np.power(x, c)
        return np.where(c > 0, sc.gammainc(a, power), sc.gammaincc(a, power))

    def _sf(self, x: Any, a: Any, c: Any) -> Any:
        power = np.power(x, c)
        return np.where(c > 0, sc.gammaincc(a, power), sc.gammainc(a, power))

    def _ppf(self, q: Any, a: Any, c: Any) -> Any:
        return np.power(np.where(c > 0, sc.gammaincinv(a, q), sc.gammainccinv(a, q)), 1.0 / c)

    def _isf(self, q: Any, a: Any, c: Any) -> Any:
        return np.power(np.where(c > 0, sc.gammainccinv(a, q), sc.gammaincinv(a, q)), 1.0 / c)

    def _mean(self, a: Any, c: Any) -> Any:
        return sc.poch(a, 1.0 / c)

    def _var(self, a: Any, c: Any) -> Any:
        return sc.poch(a, 2.0 / c) - np.square(self._mean(a, c))

    def _entropy(self, a: Any, c: Any) -> Any:
        return a * (1.0 - sc.digamma(a)) + sc.digamma(a) / c + sc.gammaln(a) - np.log(np.abs(c))


class Gompertz(Positive):
    shapes = ("c",)

    def _logpdf(self, x: Any, c: Any) -> Any:
        return np.log(c) + x - c * np.expm1(x)

    def _cdf(self, x: Any, c: Any) -> Any:
        return -np.expm1(-c * np.expm1(x))

    def _sf(self, x: Any, c: Any) -> Any:
        return np.exp(-c * np.expm1(x))

    def _logsf(self, x: Any, c: Any) -> Any:
        return -c * np.expm1(x)

    def _ppf(self, q: Any, c: Any) -> Any:
        return np.log1p(-np.log1p(-q) / c)

    def _isf(self, q: Any, c: Any) -> Any:
        return np.log1p(-np.log(q) / c)


class ExponWeib(Positive):
    shapes = ("a", "c")

    def _logpdf(self, x: Any, a: Any, c: Any) -> Any:
        power = np.power(x, c)
        return np.log(a) + np.log(c) + sc.xlogy(a - 1.0, -np.expm1(-power)) - power + sc.xlogy(c - 1.0, x)

    def _cdf(self, x: Any, a: Any, c: Any) -> Any:
        return np.power(-np.expm1(-np.power(x, c)), a)

    def _sf(self, x: Any, a: Any, c: Any) -> Any:
        return -np.expm1(a * np.log1p(-np.exp(-np.power(x, c))))

    def _ppf(self, q: Any, a: Any, c: Any) -> Any:
        return np.power(-np.log1p(-np.power(q, 1.0 / a)), 1.0 / c)

    def _isf(self, q: Any, a: Any, c: Any) -> Any:
        return np.power(-np.log(-np.expm1(np.log1p(-q) / a)), 1.0 / c)


class NonCentralChi2(Positive):
    shapes = ("df", "nc")

    def _valid(self, df: Any, nc: Any) -> Any:
        return (df > 0) & np.isfinite(df) & (nc >= 0)

    def _logpdf(self, x: Any, df: Any, nc: Any) -> Any:
        """By a modified Bessel function; for small x nc by its power series, which holds at nc = 0, too."""
        order, small = 0.5 * df - 1.0, x * nc < 1.0
        series = np.log(sc.hyp0f1(0.5 * df, 0.25 * np.where(small, x * nc, 0.0)))
        near = sc.xlogy(order, 0.5 * x) - 0.5 * (x + nc) - sc.gammaln(0.5 * df) + series
        x, nc = np.where(small, 1.0, x), np.where(small, 1.0, nc)
        root_x, root_nc = np.sqrt(x), np.sqrt(nc)
        far = -0.5 * np.square(root_x - root_nc) + 0.5 * order * np.log(x / nc) + np.log(sc.ive(order, root_x * root_nc))
        return math.log(0.5) + np.where(small, near, far)

    def _cdf(self, x: Any, df: Any, nc: Any) -> Any:
        return sc.chndtr(x, df, nc)

    def _mean(self, df: Any, nc: Any) -> Any:
        return df + nc

    def _var(self, df: Any, nc: Any) -> Any:
        return 2.0 * (df + 2.0 * nc)

    def _ppf(self, q: Any, df: Any, nc: Any) -> Any:
        return sc.chndtrix(q, df, nc)


class Nakagami(Positive):
    shapes = ("nu",)

    def _logpdf(self, x: Any, nu: Any) -> Any:
        return math.log(2.0) + sc.xlogy(nu, nu) - sc.gammaln(nu) + sc.xlogy(2.0 * nu - 1.0, x) - nu * np.square(x)

    def _cdf(self, x: Any, nu: Any) -> Any:
        return sc.gammainc(nu, nu * np.square(x))

    def _sf(self, x: Any, nu: Any) -> Any:
        return sc.gammaincc(nu, nu * np.square(x))

    def _ppf(self, q: Any, nu: Any) -> Any:
        return np.sqrt(1.0 / nu * sc.gammaincinv(nu, q))

    def _isf(self, q: Any, nu: Any) -> Any:
        return np.sqrt(1.0 / nu * sc.gammainccinv(nu, q))

    def _mean(self, nu: Any) -> Any:
        return sc.poch(nu, 0.5) / np.sqrt(nu)

    def _var(self, nu: Any) -> Any:
        return 1.0 - np.square(self._mean(nu))
