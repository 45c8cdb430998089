"""Distributions on the whole line. Formulas are those of `scipy.stats`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit import special as sc
from adjit.runtime.control_flow import fori_loop
from adjit.scipy.stats.distribution import Continuous, Solved, Symmetric, around_zero
from adjit.scipy.stats.quotients import expm1_quotient, log1p_quotient, log_i0e

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_EULER = 0.5772156649015329
_FAR = -40.0
"""Where a sum 1 + e^x is 1, with digits to spare."""


def log_normal_density(x: Any) -> Any:
    """Logarithm of the density of the normal distribution."""
    return -0.5 * np.square(x) - _HALF_LOG_TWO_PI


def cauchy_quantile(q: Any) -> Any:
    """Quantile of the Cauchy distribution, tan(pi (q - 1/2)); near 0 and 1 by the share beyond."""
    middle = np.abs(q - 0.5) < 0.25
    tail = np.where(middle, 0.25, np.where(q > 0.5, 1.0 - q, q))
    return np.where(middle, np.tan(math.pi * np.where(middle, q - 0.5, 0.0)), np.sign(q - 0.5) / np.tan(math.pi * tail))


class Norm(Symmetric):
    def _logpdf(self, x: Any) -> Any:
        return log_normal_density(x)

    def _cdf(self, x: Any) -> Any:
        return sc.ndtr(x)

    def _logcdf(self, x: Any) -> Any:
        return sc.log_ndtr(x)

    def _ppf(self, q: Any) -> Any:
        return sc.ndtri(q)

    def _var(self) -> Any:
        return 1.0

    def _entropy(self) -> Any:
        return _HALF_LOG_TWO_PI + 0.5


class StudentT(Symmetric):
    shapes = ("df",)

    def _logpdf(self, x: Any, df: Any) -> Any:
        """The exponent tends to x^2 / 2, and what the factor adds to that of the normal density, to 0 (Stirling's series), as df grows."""
        u = np.square(x) / df
        small, many = u < 0.01, df > 40.0
        exponent = np.where(small, 0.5 * np.square(x) * log1p_quotient(u), 0.5 * np.where(small, 1.0, df) * np.log1p(u))
        w, few = 1.0 / np.where(many, df, 40.0), np.where(many, 40.0, df)
        v = np.square(w)
        series = -w * (0.25 - v * (1.0 / 24.0 - v * (0.05 - v * (17.0 / 112.0 - v * (31.0 / 36.0 - v * (691.0 / 88.0))))))
        factor = np.where(many, series, _HALF_LOG_TWO_PI - sc.betaln(0.5 * few, 0.5) - 0.5 * np.log(few))
        return factor - _HALF_LOG_TWO_PI - 0.5 * np.log1p(u) - exponent

    def _cdf(self, x: Any, df: Any) -> Any:
        return sc.stdtr(df, x)

    def _ppf(self, q: Any, df: Any) -> Any:
        return sc.stdtrit(df, q)

    def _mean(self, df: Any) -> Any:
        return np.where(df > 1.0, 0.0, math.inf)

    def _var(self, df: Any) -> Any:
        return np.where(df > 2.0, np.where(np.isinf(df), 1.0, df / (df - 2.0)), np.where(df > 1.0, math.inf, math.nan))

    def _entropy(self, df: Any) -> Any:
        half, more = 0.5 * df, 0.5 * (df + 1.0)
        return more * (sc.digamma(more) - sc.digamma(half)) + 0.5 * np.log(df) + sc.betaln(half, 0.5)


class Cauchy(Symmetric):
    def _logpdf(self, x: Any) -> Any:
        return -math.log(math.pi) - np.log1p(np.square(x))

    def _cdf(self, x: Any) -> Any:
        return np.arctan2(1.0, -x) / math.pi

    def _ppf(self, q: Any) -> Any:
        return cauchy_quantile(q)

    def _isf(self, q: Any) -> Any:
        return -cauchy_quantile(q)

    def _mean(self) -> Any:
        return math.nan

    def _var(self) -> Any:
        return math.nan

    def _entropy(self) -> Any:
        return math.log(4.0 * math.pi)


class Laplace(Symmetric):
    def _logpdf(self, x: Any) -> Any:
        return -np.abs(x) - math.log(2.0)

    def _cdf(self, x: Any) -> Any:
        return np.where(x > 0, 1.0 - 0.5 * np.exp(-x), 0.5 * np.exp(x))

    def _logcdf(self, x: Any) -> Any:
        return np.where(x > 0, np.log1p(-0.5 * np.exp(-x)), x - math.log(2.0))

    def _ppf(self, q: Any) -> Any:
        return np.where(q > 0.5, -np.log(2.0 * (1.0 - q)), np.log(2.0 * q))

    def _var(self) -> Any:
        return 2.0

    def _entropy(self) -> Any:
        return math.log(2.0) + 1.0


class Logistic(Symmetric):
    def _logpdf(self, x: Any) -> Any:
        size = -np.abs(x)
        return size - 2.0 * np.log1p(np.exp(size))

    def _cdf(self, x: Any) -> Any:
        return sc.expit(x)

    def _logcdf(self, x: Any) -> Any:
        return sc.log_expit(x)

    def _ppf(self, q: Any) -> Any:
        return sc.logit(q)

    def _var(self) -> Any:
        return math.pi**2 / 3.0

    def _entropy(self) -> Any:
        return 2.0


class HypSecant(Symmetric):
    def _logpdf(self, x: Any) -> Any:
        size = np.abs(x)
        return math.log(2.0 / math.pi) - size - np.log1p(np.exp(-2.0 * size))

    def _cdf(self, x: Any) -> Any:
        return 2.0 / math.pi * np.arctan(np.exp(x))

    def _ppf(self, q: Any) -> Any:
        return np.arcsinh(cauchy_quantile(q))

    def _var(self) -> Any:
        return math.pi**2 / 4.0

    def _entropy(self) -> Any:
        return math.log(2.0 * math.pi)


class GumbelR(Continuous):
    def _logpdf(self, x: Any) -> Any:
        return -x - np.exp(-x)

    def _cdf(self, x: Any) -> Any:
        return np.exp(-np.exp(-x))

    def _logcdf(self, x: Any) -> Any:
        return -np.exp(-x)

    def _sf(self, x: Any) -> Any:
        return -np.expm1(-np.exp(-x))

    def _ppf(self, q: Any) -> Any:
        return -np.log(-np.log(q))

    def _isf(self, q: Any) -> Any:
        return -np.log(-np.log1p(-q))

    def _mean(self) -> Any:
        return _EULER

    def _var(self) -> Any:
        return math.pi**2 / 6.0

    def _entropy(self) -> Any:
        return _EULER + 1.0


class GumbelL(Continuous):
    def _logpdf(self, x: Any) -> Any:
        return x - np.exp(x)

    def _cdf(self, x: Any) -> Any:
        return -np.expm1(-np.exp(x))

    def _sf(self, x: Any) -> Any:
        return np.exp(-np.exp(x))

    def _logsf(self, x: Any) -> Any:
        return -np.exp(x)

    def _ppf(self, q: Any) -> Any:
        return np.log(-np.log1p(-q))

    def _isf(self, q: Any) -> Any:
        return np.log(-np.log(q))

    def _mean(self) -> Any:
        return -_EULER

    def _var(self) -> Any:
        return math.pi**2 / 6.0

    def _entropy(self) -> Any:
        return _EULER + 1.0


class SkewNorm(Solved):
    shapes = ("a",)

    def _valid(self, a: Any) -> Any:
        return np.isfinite(a)

    def _logpdf(self, x: Any, a: Any) -> Any:
        return math.log(2.0) + log_normal_density(x) + sc.log_ndtr(a * x)

    def _cdf(self, x: Any, a: Any) -> Any:
        """A difference: right to 1e-16, which is less than SciPy's far out on the side where the density falls fast."""
        return np.maximum(sc.ndtr(x) - 2.0 * sc.owens_t(x, a), 0.0)

    def _sf(self, x: Any, a: Any) -> Any:
        return self._cdf(-x, -a)

    def _mean(self, a: Any) -> Any:
        return math.sqrt(2.0 / math.pi) * a / np.hypot(1.0, a)

    def _var(self, a: Any) -> Any:
        return 1.0 - np.square(self._mean(a))

    def _bracket(self, q: Any, a: Any) -> tuple[Any, Any]:
        """The normal distribution, a = 0, and that of the size of a normal number, a infinite."""
        return np.where(a < 0, sc.ndtri(0.5 * q), sc.ndtri(q)), np.where(a < 0, sc.ndtri(q), -sc.ndtri(0.5 * (1.0 - q)))


class ExponNorm(Solved):
    shapes = ("K",)

    def _logpdf(self, x: Any, K: Any) -> Any:
        return self._log_tail(x, K) - np.log(K)

    def _log_tail(self, x: Any, K: Any) -> Any:
        """Exponent (1 / K - 2 x) / (2 K) plus the logarithm of the normal share below z = x - 1 / K; where z < 0, by that of the share over
        the density, in which the large terms cancel by themselves."""
        rate = 1.0 / K
        z = x - rate
        left = z < 0
        scaled = sc.erfcx(np.where(left, -z, 0.0) * math.sqrt(0.5))
        right = rate * (0.5 * rate - x) + sc.log_ndtr(np.where(left, 0.0, z))
        return np.where(left, np.log(0.5 * scaled) - 0.5 * np.square(x), right)

    def _cdf(self, x: Any, K: Any) -> Any:
        return sc.ndtr(x) - np.exp(self._log_tail(x, K))

    def _sf(self, x: Any, K: Any) -> Any:
        return sc.ndtr(-x) + np.exp(self._log_tail(x, K))

    def _mean(self, K: Any) -> Any:
        return K

    def _var(self, K: Any) -> Any:
        return 1.0 + np.square(K)

    def _bracket(self, q: Any, K: Any) -> tuple[Any, Any]:
        """A normal number, and the sum of places beyond which both summands have half of the share above."""
        rest = 0.5 * (1.0 - q)
        return sc.ndtri(q), -sc.ndtri(rest) - K * np.log(rest)


class GenNorm(Symmetric):
    shapes = ("beta",)

    def _logpdf(self, x: Any, beta: Any) -> Any:
        return self._middle(beta) - self._power(x, beta)

    def _middle(self, beta: Any) -> Any:
        """Logarithm of the density at 0."""
        return np.log(0.5 * beta) - sc.gammaln(1.0 / beta)

    def _power(self, x: Any, beta: Any) -> Any:
        """|x|^beta, whose derivative at 0 is 0, also where it is a cusp."""
        at_zero = np.where(beta == 2, np.square(x), 0.0)
        return np.where(x == 0, at_zero, np.power(np.where(x == 0, 1.0, np.abs(x)), beta))

    def _cdf(self, x: Any, beta: Any) -> Any:
        def tails(x: Any) -> Any:
            tail = 0.5 * sc.gammaincc(1.0 / beta, self._power(x, beta))
            return np.where(x > 0, 1.0 - tail, tail)
        return around_zero(x, 0.5, np.exp(self._middle(beta)), tails)

    def _ppf(self, q: Any, beta: Any) -> Any:
        def tails(side: Any) -> Any:
            share = np.where(q == 0.5, 0.25, np.where(side > 0, 1.0 - q, q))
            return np.sign(side) * np.power(sc.gammainccinv(1.0 / beta, 2.0 * share), 1.0 / beta)
        return around_zero(q - 0.5, 0.0, np.exp(-self._middle(beta)), tails)

    def _var(self, beta: Any) -> Any:
        return np.exp(sc.gammaln(3.0 / beta) - sc.gammaln(1.0 / beta))

    def _entropy(self, beta: Any) -> Any:
        return 1.0 / beta - np.log(0.5 * beta) + sc.gammaln(1.0 / beta)


class JohnsonSU(Continuous):
    shapes = ("a", "b")

    def _valid(self, a: Any, b: Any) -> Any:
        return (b > 0) & ~np.isnan(a)

    def _logpdf(self, x: Any, a: Any, b: Any) -> Any:
        return np.log(b) - 0.5 * np.log1p(np.square(x)) + log_normal_density(a + b * np.arcsinh(x))

    def _cdf(self, x: Any, a: Any, b: Any) -> Any:
        return sc.ndtr(a + b * np.arcsinh(x))

    def _sf(self, x: Any, a: Any, b: Any) -> Any:
        return sc.ndtr(-(a + b * np.arcsinh(x)))

    def _ppf(self, q: Any, a: Any, b: Any) -> Any:
        return np.sinh((sc.ndtri(q) - a) / b)

    def _isf(self, q: Any, a: Any, b: Any) -> Any:
        return np.sinh((-sc.ndtri(q) - a) / b)

    def _mean(self, a: Any, b: Any) -> Any:
        return -np.exp(0.5 / np.square(b)) * np.sinh(a / b)

    def _var(self, a: Any, b: Any) -> Any:
        growth = 1.0 / np.square(b)
        return 0.5 * np.expm1(growth) * (np.exp(growth) * np.cosh(2.0 * a / b) + 1.0)


class LogGamma(Continuous):
    shapes = ("c",)

    def _logpdf(self, x: Any, c: Any) -> Any:
        return c * x - np.exp(x) - sc.gammaln(c)

    def _cdf(self, x: Any, c: Any) -> Any:
        return np.where(x < _FAR, np.exp(self._log_low(x, c)), sc.gammainc(c, self._exp(x)))

    def _exp(self, x: Any) -> Any:
        return np.exp(np.clip(x, _FAR, 700.0))

    def _log_low(self, x: Any, c: Any) -> Any:
        """Logarithm of the share below x far to the left, where it is a power of e^x."""
        return c * np.minimum(x, _FAR) - sc.gammaln(c + 1.0)

    def _sf(self, x: Any, c: Any) -> Any:
        return np.where(x < _FAR, -np.expm1(self._log_low(x, c)), sc.gammaincc(c, self._exp(x)))

    def _ppf(self, q: Any, c: Any) -> Any:
        return self._place(np.log(q), sc.gammaincinv(c, q), c)

    def _place(self, logarithm: Any, found: Any, c: Any) -> Any:
        low = (logarithm + sc.gammaln(c + 1.0)) / c
        return np.where(low < _FAR, low, np.log(np.where(low < _FAR, 1.0, found)))

    def _isf(self, q: Any, c: Any) -> Any:
        return self._place(np.log1p(-q), sc.gammainccinv(c, q), c)

    def _mean(self, c: Any) -> Any:
        return sc.digamma(c)

    def _var(self, c: Any) -> Any:
        return sc.polygamma(1, c)

    def _entropy(self, c: Any) -> Any:
        return sc.gammaln(c) - c * sc.digamma(c) + c


class LaplaceAsymmetric(Continuous):
    shapes = ("kappa",)

    def _logpdf(self, x: Any, kappa: Any) -> Any:
        return x * np.where(x >= 0, -kappa, 1.0 / kappa) - np.log(kappa + 1.0 / kappa)

    def _cdf(self, x: Any, kappa: Any) -> Any:
        total = kappa + 1.0 / kappa
        return np.where(x >= 0, 1.0 - np.exp(-x * kappa) / kappa / total, np.exp(x / kappa) * kappa / total)

    def _sf(self, x: Any, kappa: Any) -> Any:
        total = kappa + 1.0 / kappa
        return np.where(x >= 0, np.exp(-x * kappa) / kappa / total, 1.0 - np.exp(x / kappa) * kappa / total)

    def _ppf(self, q: Any, kappa: Any) -> Any:
        total = kappa + 1.0 / kappa
        return np.where(q >= kappa / total, -np.log((1.0 - q) * total * kappa) / kappa, np.log(q * total / kappa) * kappa)

    def _isf(self, q: Any, kappa: Any) -> Any:
        total = kappa + 1.0 / kappa
        return np.where(q <= 1.0 / kappa / total, -np.log(q * total * kappa) / kappa, np.log((1.0 - q) * total / kappa) * kappa)

    def _mean(self, kappa: Any) -> Any:
        return 1.0 / kappa - kappa

    def _var(self, kappa: Any) -> Any:
        return 1.0 / np.square(kappa) + np.square(kappa)

    def _entropy(self, kappa: Any) -> Any:
        return 1.0 + np.log(kappa + 1.0 / kappa)


class Moyal(Continuous):
    def _logpdf(self, x: Any) -> Any:
        return -0.5 * (x + np.exp(-x)) - _HALF_LOG_TWO_PI

    def _cdf(self, x: Any) -> Any:
        return sc.erfc(np.exp(-0.5 * x) / math.sqrt(2.0))

    def _sf(self, x: Any) -> Any:
        return sc.erf(np.exp(-0.5 * x) / math.sqrt(2.0))

    def _ppf(self, q: Any) -> Any:
        return -np.log(2.0 * np.square(sc.erfcinv(q)))

    def _mean(self) -> Any:
        return _EULER + math.log(2.0)

    def _var(self) -> Any:
        return math.pi**2 / 2.0

    def _isf(self, q: Any) -> Any:
        return -np.log(2.0 * np.square(sc.erfinv(q)))


class GenExtreme(Continuous):
    """SciPy's sign: c > 0 has an upper end, c = 0 is the Gumbel distribution."""

    shapes = ("c",)

    def _valid(self, c: Any) -> Any:
        return np.isfinite(c)

    def _support(self, c: Any) -> tuple[Any, Any]:
        return np.where(c < 0, 1.0 / np.where(c < 0, c, 1.0), -math.inf), np.where(c > 0, 1.0 / np.where(c > 0, c, 1.0), math.inf)

    def _exponent(self, x: Any, c: Any) -> Any:
        """log(1 - c x) / c, -x for c = 0."""
        return -x * log1p_quotient(-c * x)

    def _logpdf(self, x: Any, c: Any) -> Any:
        exponent = self._exponent(x, c)
        return np.where((c == 1) & (x == 1), 0.0, (1.0 - c) * exponent) - np.exp(exponent)

    def _cdf(self, x: Any, c: Any) -> Any:
        return np.exp(self._logcdf(x, c))

    def _logcdf(self, x: Any, c: Any) -> Any:
        return -np.exp(self._exponent(x, c))

    def _sf(self, x: Any, c: Any) -> Any:
        return -np.expm1(self._logcdf(x, c))

    def _ppf(self, q: Any, c: Any) -> Any:
        return self._place(-np.log(-np.log(q)), c)

    def _isf(self, q: Any, c: Any) -> Any:
        return self._place(-np.log(-np.log1p(-q)), c)

    def _place(self, x: Any, c: Any) -> Any:
        return x * expm1_quotient(-c * x)

    def _entropy(self, c: Any) -> Any:
        return _EULER * (1.0 - c) + 1.0


_SERIES = 40.0
"""Concentration up to which von Mises' distribution function is a Fourier series, of 56 terms; from there on, an expansion of 16."""


def _turns(x: Any) -> tuple[Any, Any]:
    turns = np.rint(x / (2.0 * math.pi))
    return turns, x - 2.0 * math.pi * turns


def _share(angle: Any, kappa: Any) -> Any:
    """Share of von Mises' distribution between -pi and an angle: a Fourier series whose factors are quotients of Bessel functions, by
    continued fractions (Hill, "Algorithm 518: Incomplete Bessel function I0", 1977). If the concentration is large, the integral over
    v = 2 sqrt(kappa) sin(angle / 2), whose density is a normal one over sqrt(1 - v^2 / (4 kappa)), term by term of this root's series."""
    wide = kappa < _SERIES
    k, x = np.where(wide, kappa, 1.0), np.where(wide, angle, 0.0)

    def step(i: Any, state: Any) -> Any:
        k, x, n, ratio, total = state
        ratio = k / (2.0 * n + k * ratio)
        return k, x, n - 1.0, ratio, ratio * (np.sin(n * x) / n + total)

    k, x = np.broadcast_arrays(k, x)
    series = 0.5 + x / (2.0 * math.pi) + fori_loop(0, 56, step, (k, x, 0.0 * k + 56.0, 0.0 * k, 0.0 * k))[-1] / math.pi

    k, x = np.where(wide, _SERIES, kappa), np.where(wide, 0.0, angle)
    v = 2.0 * np.sqrt(k) * np.sin(0.5 * np.abs(x))
    density, power = np.exp(-0.5 * np.square(v)), v
    moment = math.sqrt(0.5 * math.pi) * sc.erfc(v * math.sqrt(0.5))     # of the tail beyond v
    tail, factor = moment, 1.0
    for n in range(1, 16):
        moment = (2.0 * n - 1.0) * moment + power * density
        power, factor = power * np.square(v), factor * (2.0 * n - 1.0) / (8.0 * n)
        tail = tail + factor * moment / k ** n
    tail = tail / (2.0 * math.pi * sc.i0e(k) * np.sqrt(k))
    return np.where(wide, series, np.where(x > 0, 1.0 - tail, tail))


class VonMises(Solved):
    """Its distribution function, as SciPy's, goes on beyond half a turn, by 1 for each turn."""

    with_loops = (*Solved.with_loops, *Solved.of_variable)

    shapes = ("kappa",)

    def _valid(self, kappa: Any) -> Any:
        return kappa >= 0

    def _logpdf(self, x: Any, kappa: Any) -> Any:
        return -2.0 * kappa * np.square(np.sin(0.5 * x)) - math.log(2.0 * math.pi) - log_i0e(kappa)

    def _mean(self, kappa: Any) -> Any:
        return 0.0

    def _entropy(self, kappa: Any) -> Any:
        return -kappa * sc.i1e(kappa) / sc.i0e(kappa) + math.log(2.0 * math.pi) + log_i0e(kappa) + kappa

    def _cdf(self, x: Any, kappa: Any) -> Any:
        turns, angle = _turns(x)
        return turns + _share(angle, kappa)

    def _sf(self, x: Any, kappa: Any) -> Any:
        turns, angle = _turns(x)
        return _share(-angle, kappa) - turns

    def _bracket(self, q: Any, kappa: Any) -> tuple[Any, Any]:
        return -math.pi, math.pi
