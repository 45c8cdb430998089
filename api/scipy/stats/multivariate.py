"""Distributions of vectors. Formulas are those of `scipy.stats`; what SciPy checks in values is not checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit import linalg
from adjit import special as sc
from adjit.ir.errors import UnsupportedError
from adjit.scipy.stats.distribution import Frozen
from adjit.tracer.user_location import find_user_location


def _array(x: Any) -> Any:
    return x if hasattr(x, "ndim") else np.array(x, dtype=float)


def _factor(mean: Any, cov: Any) -> Any:
    """The Cholesky factor of a covariance."""
    covariance = _array(cov)
    size = next((each.shape[-1] for each in (covariance, _array(0.0 if mean is None else mean)) if each.ndim), 1)
    if covariance.ndim < 2:
        covariance = (covariance if covariance.ndim == 0 else covariance[:, None]) * np.eye(size)
    return linalg.cholesky(covariance)


def _whitened(x: Any, mean: Any, cov: Any) -> tuple[int, Any, Any]:
    """Number of components, squared distances from the mean in units of the covariance, and half the logarithm of its determinant."""
    points, factor = _array(x), _factor(mean, cov)
    size = factor.shape[-1]
    if points.ndim == 0:
        points = np.reshape(points, (1,))
    elif points.ndim == 1 and size == 1:
        points = points[:, None]
    difference = points - (0.0 if mean is None else _array(mean))
    whitened = linalg.solve_triangular(factor, np.reshape(difference, (-1, size)).T, lower=True)
    distance = np.reshape(np.sum(np.square(whitened), axis=0), difference.shape[:-1])
    return size, distance, np.sum(np.log(np.diagonal(factor)))


class OfVectors:
    """Distribution of vectors; of its parameters it makes one that holds them."""

    of_variable: tuple[str, ...] = ("logpdf", "pdf")

    def __call__(self, *args: Any, **kwargs: Any) -> Frozen:
        if kwargs.pop("seed", None) is not None:
            raise UnsupportedError("seed= of a distribution", find_user_location(), hint="random numbers are drawn with adjit.random")
        kwargs.pop("allow_singular", None)      # what is singular gives NaN
        return Frozen(self, args, kwargs)


class MultivariateNormal(OfVectors):
    """`logpdf` and `pdf` of points [..., n]; `cov` is a positive definite matrix, a diagonal or a number. NaN for other matrices."""

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """Equivalent of `scipy.stats.multivariate_normal.logpdf`, for covariances of full rank."""
        size, distance, log_root = _whitened(x, mean, cov)
        return -0.5 * (size * math.log(2.0 * math.pi) + distance) - log_root

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """Equivalent of `scipy.stats.multivariate_normal.pdf`, for covariances of full rank."""
        return np.exp(self.logpdf(x, mean, cov))

    def entropy(self, mean: Any = None, cov: Any = 1) -> Any:
        """Equivalent of `scipy.stats.multivariate_normal.entropy`, for covariances of full rank."""
        factor = _factor(mean, cov)
        return 0.5 * factor.shape[-1] * (math.log(2.0 * math.pi) + 1.0) + np.sum(np.log(np.diagonal(factor)))


multivariate_normal = MultivariateNormal()


class MultivariateT(OfVectors):
    """`logpdf` and `pdf` of points [..., n]; `shape` is a positive definite matrix, a diagonal or a number. NaN for other matrices."""

    def logpdf(self, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1) -> Any:
        """Equivalent of `scipy.stats.multivariate_t.logpdf`, for finite `df`."""
        size, distance, log_root = _whitened(x, loc, shape)
        half = 0.5 * (df + size)
        constant = sc.gammaln(half) - sc.gammaln(0.5 * df) - 0.5 * size * np.log(df * math.pi) - log_root
        return constant - half * np.log1p(distance / df)

    def pdf(self, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1) -> Any:
        """Equivalent of `scipy.stats.multivariate_t.pdf`, for finite `df`."""
        return np.exp(self.logpdf(x, loc, shape, df))


class Dirichlet(OfVectors):
    """`logpdf` and `pdf` of shares [k, ...] that add up to 1; the last share may be left out."""

    def logpdf(self, x: Any, alpha: Any) -> Any:
        """Equivalent of `scipy.stats.dirichlet.logpdf`."""
        shares, a = _array(x), _array(alpha)
        if shares.shape[0] == a.shape[0] - 1:
            shares = np.concatenate([shares, 1.0 - np.sum(shares, axis=0, keepdims=True)])
        if shares.shape[0] != a.shape[0]:
            raise ValueError("Vector 'x' must have either the same number of entries as, or one entry fewer than, parameter vector 'a', "
                             f"but alpha.shape = {a.shape} and x.shape = {shares.shape}.")
        powers = np.reshape(a, (a.shape[0],) + (1,) * (shares.ndim - 1)) - 1.0
        return np.sum(sc.xlogy(powers, shares), axis=0) + sc.gammaln(np.sum(a)) - np.sum(sc.gammaln(a))

    def pdf(self, x: Any, alpha: Any) -> Any:
        """Equivalent of `scipy.stats.dirichlet.pdf`."""
        return np.exp(self.logpdf(x, alpha))

    def mean(self, alpha: Any) -> Any:
        """Equivalent of `scipy.stats.dirichlet.mean`."""
        a = _array(alpha)
        return a / np.sum(a)

    def var(self, alpha: Any) -> Any:
        """Equivalent of `scipy.stats.dirichlet.var`."""
        a = _array(alpha)
        total = np.sum(a)
        return a * (total - a) / (total * total * (total + 1.0))


class Multinomial(OfVectors):
    """`logpmf` and `pmf` of counts [..., k] of `n` draws; the last share is what the others leave."""

    of_variable = ("logpmf", "pmf")

    def logpmf(self, x: Any, n: Any, p: Any) -> Any:
        """Equivalent of `scipy.stats.multinomial.logpmf`, for shares from 0 to 1."""
        counts, shares = _array(x), _array(p)
        shares = np.concatenate([shares[..., :-1], 1.0 - np.sum(shares[..., :-1], axis=-1, keepdims=True)], axis=-1)
        found = sc.gammaln(_array(n) + 1.0) + np.sum(sc.xlogy(counts, shares) - sc.gammaln(counts + 1.0), axis=-1)
        return np.where(np.sum(counts, axis=-1) == n, found, -math.inf)

    def pmf(self, x: Any, n: Any, p: Any) -> Any:
        """Equivalent of `scipy.stats.multinomial.pmf`, for shares from 0 to 1."""
        return np.exp(self.logpmf(x, n, p))


multivariate_t, dirichlet, multinomial = MultivariateT(), Dirichlet(), Multinomial()


def kernel_density(theirs: Any, x: Any, log: bool) -> Any:
    """Density, or its logarithm, of a `gaussian_kde` of SciPy's at points [d, m]."""
    points = np.atleast_2d(_array(x))
    if points.shape[0] != theirs.d:
        if points.shape != (1, theirs.d):
            raise ValueError(f"points have dimension {points.shape[0]}, dataset has dimension {theirs.d}")
        points = points.T
    data, at = (linalg.solve_triangular(theirs.cho_cov, each, lower=True) for each in (theirs.dataset, points))
    exponents = -0.5 * np.sum(np.square(data[:, :, None] - at[:, None, :]), axis=0)
    found = sc.logsumexp(exponents, axis=0, b=theirs.weights[:, None]) - np.sum(np.log(np.diagonal(theirs.cho_cov)))
    found = found - 0.5 * theirs.d * math.log(2.0 * math.pi)
    return found if log else np.exp(found)
