"""Distributions on whole numbers. Formulas are those of `scipy.stats`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit import special as sc
from adjit.scipy.stats.distribution import Discrete


def _log_choose(n: Any, k: Any) -> Any:
    return sc.gammaln(n + 1.0) - sc.gammaln(k + 1.0) - sc.gammaln(n - k + 1.0)


def _whole(n: Any) -> Any:
    return np.floor(n) == n


class Bernoulli(Discrete):
    shapes = ("p",)

    def _valid(self, p: Any) -> Any:
        return (p >= 0) & (p <= 1)

    def _support(self, p: Any) -> tuple[Any, Any]:
        return 0.0, 1.0

    def _logpmf(self, k: Any, p: Any) -> Any:
        return sc.xlogy(k, p) + sc.xlog1py(1.0 - k, -p)

    def _pmf(self, k: Any, p: Any) -> Any:
        return np.where(k == 1.0, p, 1.0 - p)

    def _cdf(self, k: Any, p: Any) -> Any:
        return 1.0 - p + 0.0 * k

    def _sf(self, k: Any, p: Any) -> Any:
        return p + 0.0 * k

    def _ppf(self, q: Any, p: Any) -> Any:
        return np.where(q <= 1.0 - p, 0.0, 1.0)

    def _mean(self, p: Any) -> Any:
        return p

    def _var(self, p: Any) -> Any:
        return p * (1.0 - p)

    def _entropy(self, p: Any) -> Any:
        return sc.entr(p) + sc.entr(1.0 - p)


class Binom(Discrete):
    shapes = ("n", "p")

    def _valid(self, n: Any, p: Any) -> Any:
        return (n >= 0) & _whole(n) & (p >= 0) & (p <= 1)

    def _support(self, n: Any, p: Any) -> tuple[Any, Any]:
        return 0.0, n

    def _logpmf(self, k: Any, n: Any, p: Any) -> Any:
        return _log_choose(n, k) + sc.xlogy(k, p) + sc.xlog1py(n - k, -p)

    def _cdf(self, k: Any, n: Any, p: Any) -> Any:
        return sc.bdtr(k, n, p)

    def _sf(self, k: Any, n: Any, p: Any) -> Any:
        return sc.bdtrc(k, n, p)

    def _ppf(self, q: Any, n: Any, p: Any) -> Any:
        return self._found(q, sc.bdtrik(q, n, p), (n, p))

    def _mean(self, n: Any, p: Any) -> Any:
        return n * p

    def _var(self, n: Any, p: Any) -> Any:
        return n * p * (1.0 - p)


class Poisson(Discrete):
    shapes = ("mu",)

    def _valid(self, mu: Any) -> Any:
        return mu >= 0

    def _support(self, mu: Any) -> tuple[Any, Any]:
        return 0.0, math.inf

    def _logpmf(self, k: Any, mu: Any) -> Any:
        return sc.xlogy(k, mu) - sc.gammaln(k + 1.0) - mu

    def _cdf(self, k: Any, mu: Any) -> Any:
        return sc.pdtr(k, mu)

    def _sf(self, k: Any, mu: Any) -> Any:
        return sc.pdtrc(k, mu)

    def _ppf(self, q: Any, mu: Any) -> Any:
        return self._found(q, sc.pdtrik(q, mu), (mu,))

    def _mean(self, mu: Any) -> Any:
        return mu

    def _var(self, mu: Any) -> Any:
        return mu


class Geom(Discrete):
    shapes = ("p",)

    def _valid(self, p: Any) -> Any:
        return (p > 0) & (p <= 1)

    def _support(self, p: Any) -> tuple[Any, Any]:
        return 1.0, math.inf

    def _logpmf(self, k: Any, p: Any) -> Any:
        return sc.xlog1py(k - 1.0, -p) + np.log(p)

    def _cdf(self, k: Any, p: Any) -> Any:
        return -np.expm1(np.log1p(-p) * k)

    def _sf(self, k: Any, p: Any) -> Any:
        return np.exp(self._logsf(k, p))

    def _logsf(self, k: Any, p: Any) -> Any:
        return k * np.log1p(-p)

    def _ppf(self, q: Any, p: Any) -> Any:
        return self._found(q, np.log1p(-q) / np.log1p(-p), (p,))

    def _mean(self, p: Any) -> Any:
        return 1.0 / p

    def _var(self, p: Any) -> Any:
        return (1.0 - p) / np.square(p)

    def _entropy(self, p: Any) -> Any:
        return -np.log(p) - sc.xlog1py(1.0 - p, -p) / p


class NegativeBinom(Discrete):
    shapes = ("n", "p")

    def _valid(self, n: Any, p: Any) -> Any:
        return (n > 0) & (p > 0) & (p <= 1)

    def _support(self, n: Any, p: Any) -> tuple[Any, Any]:
        return 0.0, math.inf

    def _logpmf(self, k: Any, n: Any, p: Any) -> Any:
        return sc.gammaln(n + k) - sc.gammaln(k + 1.0) - sc.gammaln(n) + n * np.log(p) + sc.xlog1py(k, -p)

    def _cdf(self, k: Any, n: Any, p: Any) -> Any:
        return sc.betainc(n, k + 1.0, p)

    def _sf(self, k: Any, n: Any, p: Any) -> Any:
        return sc.betaincc(n, k + 1.0, p)

    def _ppf(self, q: Any, n: Any, p: Any) -> Any:
        return self._found(q, sc.nbdtrik(q, n, p), (n, p))

    def _mean(self, n: Any, p: Any) -> Any:
        return n * (1.0 - p) / p

    def _var(self, n: Any, p: Any) -> Any:
        return n * (1.0 - p) / np.square(p)


class BetaBinom(Discrete):
    shapes = ("n", "a", "b")

    def _valid(self, n: Any, a: Any, b: Any) -> Any:
        return (n >= 0) & _whole(n) & (a > 0) & (b > 0)

    def _support(self, n: Any, a: Any, b: Any) -> tuple[Any, Any]:
        return 0.0, n

    def _logpmf(self, k: Any, n: Any, a: Any, b: Any) -> Any:
        return -np.log(n + 1.0) - sc.betaln(n - k + 1.0, k + 1.0) + sc.betaln(k + a, n - k + b) - sc.betaln(a, b)

    def _mean(self, n: Any, a: Any, b: Any) -> Any:
        return n * a / (a + b)

    def _var(self, n: Any, a: Any, b: Any) -> Any:
        total = a + b
        return n * a * b * (total + n) / np.square(total) / (total + 1.0)


class HyperGeom(Discrete):
    """`M` objects of which `n` are marked, `N` draws."""

    shapes = ("M", "n", "N")

    def _valid(self, M: Any, n: Any, N: Any) -> Any:
        return (M > 0) & (n >= 0) & (N >= 0) & (n <= M) & (N <= M) & _whole(M) & _whole(n) & _whole(N)

    def _support(self, M: Any, n: Any, N: Any) -> tuple[Any, Any]:
        return np.maximum(N - (M - n), 0.0), np.minimum(n, N)

    def _logpmf(self, k: Any, M: Any, n: Any, N: Any) -> Any:
        rest = M - n
        return sc.betaln(n + 1.0, 1.0) + sc.betaln(rest + 1.0, 1.0) + sc.betaln(M - N + 1.0, N + 1.0) - sc.betaln(k + 1.0, n - k + 1.0) \
            - sc.betaln(N - k + 1.0, rest - N + k + 1.0) - sc.betaln(M + 1.0, 1.0)

    def _mean(self, M: Any, n: Any, N: Any) -> Any:
        return N * n / M

    def _var(self, M: Any, n: Any, N: Any) -> Any:
        return N * n * (M - n) * (M - N) / (np.square(M) * (M - 1.0))


class RandInt(Discrete):
    shapes = ("low", "high")

    def _valid(self, low: Any, high: Any) -> Any:
        return (high > low) & _whole(low) & _whole(high)

    def _support(self, low: Any, high: Any) -> tuple[Any, Any]:
        return low, high - 1.0

    def _pmf(self, k: Any, low: Any, high: Any) -> Any:
        return 1.0 / (high - low) + 0.0 * k

    def _cdf(self, k: Any, low: Any, high: Any) -> Any:
        return (k - low + 1.0) / (high - low)

    def _ppf(self, q: Any, low: Any, high: Any) -> Any:
        return self._found(q, q * (high - low) + low - 1.0, (low, high))

    def _mean(self, low: Any, high: Any) -> Any:
        return (low + high - 1.0) / 2.0

    def _var(self, low: Any, high: Any) -> Any:
        return (np.square(high - low) - 1.0) / 12.0

    def _entropy(self, low: Any, high: Any) -> Any:
        return np.log(high - low)


class Zipf(Discrete):
    shapes = ("a",)

    def _valid(self, a: Any) -> Any:
        return a > 1

    def _support(self, a: Any) -> tuple[Any, Any]:
        return 1.0, math.inf

    def _logpmf(self, k: Any, a: Any) -> Any:
        return -a * np.log(k) - np.log(sc.zeta(a))

    def _cdf(self, k: Any, a: Any) -> Any:
        return 1.0 - self._sf(k, a)

    def _sf(self, k: Any, a: Any) -> Any:
        return sc.zeta(a, k + 1.0) / sc.zeta(a)

    def _mean(self, a: Any) -> Any:
        return np.where(a > 2, sc.zeta(np.where(a > 2, a - 1.0, 2.0)) / sc.zeta(a), math.inf)


class LogSer(Discrete):
    shapes = ("p",)

    def _valid(self, p: Any) -> Any:
        return (p > 0) & (p < 1)

    def _support(self, p: Any) -> tuple[Any, Any]:
        return 1.0, math.inf

    def _logpmf(self, k: Any, p: Any) -> Any:
        return k * np.log(p) - np.log(k) - np.log(-np.log1p(-p))

    def _mean(self, p: Any) -> Any:
        return p / (p - 1.0) / np.log1p(-p)

    def _var(self, p: Any) -> Any:
        rate = np.log1p(-p)
        return -p / rate / np.square(p - 1.0) - np.square(self._mean(p))


class DLaplace(Discrete):
    shapes = ("a",)

    def _logpmf(self, k: Any, a: Any) -> Any:
        return np.log(np.tanh(a / 2.0)) - a * np.abs(k)

    def _cdf(self, k: Any, a: Any) -> Any:
        return np.where(k >= 0, 1.0 - np.exp(-a * k) / (np.exp(a) + 1.0), np.exp(a * (k + 1.0)) / (np.exp(a) + 1.0))

    def _ppf(self, q: Any, a: Any) -> Any:
        total = 1.0 + np.exp(a)
        guess = np.where(q < 1.0 / (1.0 + np.exp(-a)), np.log(q * total) / a - 1.0, -np.log((1.0 - q) * total) / a)
        return self._found(q, guess, (a,))

    def _mean(self, a: Any) -> Any:
        return 0.0 * a

    def _var(self, a: Any) -> Any:
        return 2.0 * np.exp(a) / np.square(np.expm1(a))

    def _entropy(self, a: Any) -> Any:
        return a / np.sinh(a) - np.log(np.tanh(a / 2.0))


class Planck(Discrete):
    """Discrete exponential distribution with the rate `lambda_`."""

    shapes = ("lambda_",)

    def _support(self, rate: Any) -> tuple[Any, Any]:
        return 0.0, math.inf

    def _logpmf(self, k: Any, rate: Any) -> Any:
        return np.log(-np.expm1(-rate)) - rate * k

    def _cdf(self, k: Any, rate: Any) -> Any:
        return -np.expm1(-rate * (k + 1.0))

    def _sf(self, k: Any, rate: Any) -> Any:
        return np.exp(self._logsf(k, rate))

    def _logsf(self, k: Any, rate: Any) -> Any:
        return -rate * (k + 1.0)

    def _ppf(self, q: Any, rate: Any) -> Any:
        return self._found(q, -np.log1p(-q) / rate - 1.0, (rate,))

    def _mean(self, rate: Any) -> Any:
        return 1.0 / np.expm1(rate)

    def _var(self, rate: Any) -> Any:
        return np.exp(-rate) / np.square(np.expm1(-rate))

    def _entropy(self, rate: Any) -> Any:
        share = -np.expm1(-rate)
        return rate * np.exp(-rate) / share - np.log(share)
