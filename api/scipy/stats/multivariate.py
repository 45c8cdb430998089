"""Distributions of vectors. Formulas are those of `scipy.stats`; what SciPy checks in values is not checked."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit import linalg
from adjit import special as sc
from adjit.ir.errors import UnsupportedError
from adjit.scipy.stats.distribution import Frozen, of_scipy, plain_function
from adjit.tracer.array import contains_traced
from adjit.tracer.array_wrapper import find_wrapper
from adjit.tracer.user_location import find_user_location


def as_array(x: Any) -> Any:
    return x if hasattr(x, "ndim") else np.array(x, dtype=float)


def _factor(mean: Any, cov: Any) -> Any:
    """The Cholesky factor of a covariance."""
    return linalg.cholesky(_place_and_spread(mean, cov)[1])


def _whitened(x: Any, mean: Any, cov: Any) -> tuple[int, Any, Any]:
    """Number of components, squared distances from the mean in units of the covariance, and half the logarithm of its determinant."""
    points, factor = as_array(x), _factor(mean, cov)
    size = factor.shape[-1]
    if points.ndim == 0:
        points = np.reshape(points, (1,))
    elif points.ndim == 1 and size == 1:
        points = points[:, None]
    difference = points - (0.0 if mean is None else as_array(mean))
    whitened = linalg.solve_triangular(factor, np.reshape(difference, (-1, size)).T, lower=True)
    distance = np.reshape(np.sum(np.square(whitened), axis=0), difference.shape[:-1])
    return size, distance, np.sum(np.log(np.diagonal(factor)))


class OfVectors:
    """Distribution of vectors or matrices by SciPy's name; of its parameters it makes one that holds them. Plain arrays outside of a trace
    go to SciPy's own."""

    of_variable: tuple[str, ...] = ("logpdf", "pdf")
    of_parameters: tuple[str, ...] = ()
    of_number: tuple[str, ...] = ()
    of_data: tuple[str, ...] = ()

    def __init__(self, name: str) -> None:
        self.name = name
        for public in (*self.of_variable, *self.of_parameters, *self.of_data):
            setattr(self, public, self._entry(public, getattr(self, public)))

    def _entry(self, public: str, ours: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(ours)
        def call(*args: Any, **kwargs: Any) -> Any:
            return (plain_function(self.name, public, args, kwargs) or ours)(*args, **kwargs)

        return call

    def __call__(self, *args: Any, **kwargs: Any) -> Frozen:
        if kwargs.pop("seed", None) is not None:
            raise UnsupportedError("seed= of a distribution", find_user_location(), hint="random numbers are drawn with adjit.random")
        kwargs.pop("allow_singular", None)      # what is singular gives NaN
        return Frozen(self, args, kwargs)

    def held(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Attribute of a distribution that holds these parameters; None if there is none of this name."""
        given = inspect.signature(getattr(self, self.of_variable[0])).bind(None, *args, **kwargs)
        given.apply_defaults()
        return self._held(**dict(list(given.arguments.items())[1:])).get(name)

    def _held(self, **parameters: Any) -> dict[str, Any]:
        return {name: as_array(value) for name, value in parameters.items() if name != "allow_singular"}

    def __getattr__(self, name: str) -> Any:
        """Return what else SciPy's distribution has under this name, for plain arrays."""
        return of_scipy(self.__dict__.get("name", ""), name)

    def __repr__(self) -> str:
        return f"<adjit.scipy.stats.{self.name}>"


def _place_and_spread(place: Any, spread: Any) -> tuple[Any, Any]:
    """A mean as a vector, and a covariance as a matrix."""
    matrix = as_array(spread)
    size = next((each.shape[-1] for each in (matrix, as_array(0.0 if place is None else place)) if each.ndim), 1)
    if matrix.ndim < 2:
        matrix = (matrix if matrix.ndim == 0 else matrix[:, None]) * np.eye(size)
    return (np.zeros(size) if place is None else np.broadcast_to(as_array(place), (size,))), matrix


def _dimensions(dimensions: Any, size: int) -> np.ndarray:
    """Indices of the components that a marginal distribution keeps."""
    kept = np.atleast_1d(np.asarray(dimensions))
    if kept.dtype.kind not in "iu" or kept.ndim != 1:
        raise ValueError("`dimensions` must be a one-dimensional array of whole numbers.")
    if np.any((kept < -size) | (kept >= size)):
        raise ValueError(f"Dimensions {kept[(kept < -size) | (kept >= size)]} are invalid for a distribution in {size} dimensions.")
    kept = kept % size
    if np.unique(kept).size < kept.size:
        raise ValueError("All elements of `dimensions` must be unique.")
    return kept


class MultivariateNormal(OfVectors):
    """`logpdf` and `pdf` of points [..., n]; `cov` is a positive definite matrix, a diagonal or a number. NaN for other matrices."""

    of_parameters, of_number, of_data = ("entropy",), ("marginal",), ("fit",)

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

    def marginal(self, dimensions: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Frozen:
        """Equivalent of `scipy.stats.multivariate_normal.marginal`: the distribution of the components `dimensions`, known numbers."""
        mean, cov = _place_and_spread(mean, cov)
        kept = _dimensions(dimensions, mean.shape[0])
        return self(mean[kept], cov[np.ix_(kept, kept)])

    def fit(self, x: Any, fix_mean: Any = None, fix_cov: Any = None) -> tuple[Any, Any]:
        """Equivalent of `scipy.stats.multivariate_normal.fit`: the mean and the covariance of points [m, n]."""
        points = as_array(x)
        if points.ndim != 2:
            raise ValueError("`x` must be two-dimensional.")
        mean = np.mean(points, axis=0) if fix_mean is None else as_array(fix_mean)
        difference = points - mean
        return mean, difference.T @ difference / points.shape[0] if fix_cov is None else as_array(fix_cov)

    def _held(self, **parameters: Any) -> dict[str, Any]:
        mean, cov = _place_and_spread(parameters["mean"], parameters["cov"])
        return {"mean": mean, "cov": cov, "dim": mean.shape[0]}


class MultivariateT(OfVectors):
    """`logpdf` and `pdf` of points [..., n]; `shape` is a positive definite matrix, a diagonal or a number. NaN for other matrices."""

    of_parameters, of_number = ("entropy",), ("marginal",)

    def logpdf(self, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1) -> Any:
        """Equivalent of `scipy.stats.multivariate_t.logpdf`, for finite `df`."""
        size, distance, log_root = _whitened(x, loc, shape)
        half = 0.5 * (df + size)
        constant = sc.gammaln(half) - sc.gammaln(0.5 * df) - 0.5 * size * np.log(df * math.pi) - log_root
        return constant - half * np.log1p(distance / df)

    def pdf(self, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1, allow_singular: bool = False) -> Any:
        """Equivalent of `scipy.stats.multivariate_t.pdf`, for finite `df`."""
        return np.exp(self.logpdf(x, loc, shape, df))

    def entropy(self, loc: Any = None, shape: Any = 1, df: Any = 1) -> Any:
        """Equivalent of `scipy.stats.multivariate_t.entropy`, for finite `df`."""
        factor, df = _factor(loc, shape), as_array(df)
        n, half = factor.shape[-1], 0.5 * df
        beyond = 400.0 * n / (math.log(n) + 1.0)        # SciPy's bound: from there on digits cancel
        m, few, many = half + 0.5 * n, np.where(df < beyond, half, 1.0), np.where(df < beyond, beyond, df)
        exact = sc.gammaln(few) - sc.gammaln(few + 0.5 * n) + 0.5 * n * np.log(2.0 * few * math.pi) + m * (
            sc.digamma(few + 0.5 * n) - sc.digamma(few))
        series = n * 0.5 * (math.log(2.0 * math.pi) + 1.0) + (n + (-n * (n - 2) / 4 + (n ** 2 * (n - 2) / 6 + (
            n * (-3 * n ** 3 + 8 * n ** 2 - 8) / 24 + n ** 2 * (3 * n ** 3 - 10 * n ** 2 + 16) / 30 / many) / many) / many) / many) / many
        return np.where(df < beyond, exact, series) + np.sum(np.log(np.diagonal(factor)))

    def marginal(self, dimensions: Any, loc: Any = None, shape: Any = 1, df: Any = 1, allow_singular: bool = False) -> Frozen:
        """Equivalent of `scipy.stats.multivariate_t.marginal`: the distribution of the components `dimensions`, known numbers."""
        loc, shape = _place_and_spread(loc, shape)
        kept = _dimensions(dimensions, loc.shape[0])
        return self(loc[kept], shape[np.ix_(kept, kept)], df)

    def _held(self, **parameters: Any) -> dict[str, Any]:
        loc, shape = _place_and_spread(parameters["loc"], parameters["shape"])
        return {"loc": loc, "shape": shape, "df": parameters["df"], "dim": loc.shape[0]}


class Dirichlet(OfVectors):
    """`logpdf` and `pdf` of shares [k, ...] that add up to 1; the last share may be left out."""

    of_parameters = ("mean", "var", "cov", "entropy")

    def logpdf(self, x: Any, alpha: Any) -> Any:
        """Equivalent of `scipy.stats.dirichlet.logpdf`."""
        shares, a = as_array(x), as_array(alpha)
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
        a = as_array(alpha)
        return a / np.sum(a)

    def var(self, alpha: Any) -> Any:
        """Equivalent of `scipy.stats.dirichlet.var`."""
        a = as_array(alpha)
        total = np.sum(a)
        return a * (total - a) / (total * total * (total + 1.0))

    def cov(self, alpha: Any) -> Any:
        """Equivalent of `scipy.stats.dirichlet.cov`."""
        a = as_array(alpha)
        total = np.sum(a)
        share = a / total
        return (np.diag(share) - share[:, None] * share) / (total + 1.0)

    def entropy(self, alpha: Any) -> Any:
        """Equivalent of `scipy.stats.dirichlet.entropy`."""
        a = as_array(alpha)
        total = np.sum(a)
        return np.sum(sc.gammaln(a) - (a - 1.0) * sc.digamma(a)) - sc.gammaln(total) + (total - a.shape[0]) * sc.digamma(total)


class Multinomial(OfVectors):
    """`logpmf` and `pmf` of counts [..., k] of `n` draws; the last share is what the others leave."""

    of_variable = ("logpmf", "pmf")
    of_parameters = ("mean", "cov", "entropy")

    def logpmf(self, x: Any, n: Any, p: Any) -> Any:
        """Equivalent of `scipy.stats.multinomial.logpmf`, for shares from 0 to 1."""
        counts, shares = as_array(x), _shares(p)
        found = sc.gammaln(as_array(n) + 1.0) + np.sum(sc.xlogy(counts, shares) - sc.gammaln(counts + 1.0), axis=-1)
        return np.where(np.sum(counts, axis=-1) == n, found, -math.inf)

    def pmf(self, x: Any, n: Any, p: Any) -> Any:
        """Equivalent of `scipy.stats.multinomial.pmf`, for shares from 0 to 1."""
        return np.exp(self.logpmf(x, n, p))

    def mean(self, n: Any, p: Any) -> Any:
        """Equivalent of `scipy.stats.multinomial.mean`."""
        return as_array(n)[..., None] * _shares(p)

    def cov(self, n: Any, p: Any) -> Any:
        """Equivalent of `scipy.stats.multinomial.cov`."""
        shares = _shares(p)
        return as_array(n)[..., None, None] * (shares[..., None] * np.eye(shares.shape[-1]) - shares[..., None] * shares[..., None, :])

    def entropy(self, n: Any, p: Any) -> Any:
        """Equivalent of `scipy.stats.multinomial.entropy`, of a known number `n`: a sum over the counts of each category."""
        if contains_traced(n) or find_wrapper((n,), {}) is not None or np.ndim(n):
            raise UnsupportedError("multinomial.entropy of a number of draws that is traced, or of several", find_user_location(),
                                   hint="pass n as a Python number, static in aj.compile")
        shares, counts = _shares(p), np.arange(1.0, n + 1.0)
        binomial = sc.xlogy(counts, shares[..., None]) + sc.xlog1py(n - counts, -shares[..., None]) + (
            sc.gammaln(as_array(n + 1.0)) - sc.gammaln(n - counts + 1.0) - sc.gammaln(counts + 1.0))
        of_counts = np.sum(np.exp(binomial) * sc.gammaln(counts + 1.0), axis=(-1, -2))
        return n * np.sum(sc.entr(shares), axis=-1) - sc.gammaln(as_array(n + 1.0)) + of_counts


def _shares(p: Any) -> Any:
    """Shares, of which the last is what the others leave."""
    shares = as_array(p)
    return np.concatenate([shares[..., :-1], 1.0 - np.sum(shares[..., :-1], axis=-1, keepdims=True)], axis=-1)


class DirichletMultinomial(OfVectors):
    """`logpmf` and `pmf` of counts [..., k] of `n` draws, whose shares are drawn from a Dirichlet distribution."""

    of_variable = ("logpmf", "pmf")
    of_parameters = ("mean", "var", "cov")

    def logpmf(self, x: Any, alpha: Any, n: Any) -> Any:
        """Equivalent of `scipy.stats.dirichlet_multinomial.logpmf`."""
        counts, a, n = as_array(x), as_array(alpha), as_array(n)
        total = np.sum(a, axis=-1)
        found = sc.gammaln(total) + sc.gammaln(n + 1.0) - sc.gammaln(n + total) + np.sum(
            sc.gammaln(counts + a) - sc.gammaln(a) - sc.gammaln(counts + 1.0), axis=-1)
        return np.where(np.sum(counts, axis=-1) == n, found, -math.inf)

    def pmf(self, x: Any, alpha: Any, n: Any) -> Any:
        """Equivalent of `scipy.stats.dirichlet_multinomial.pmf`."""
        return np.exp(self.logpmf(x, alpha, n))

    def mean(self, alpha: Any, n: Any) -> Any:
        """Equivalent of `scipy.stats.dirichlet_multinomial.mean`."""
        a = as_array(alpha)
        return as_array(n)[..., None] * a / np.sum(a, axis=-1, keepdims=True)

    def var(self, alpha: Any, n: Any) -> Any:
        """Equivalent of `scipy.stats.dirichlet_multinomial.var`."""
        a = as_array(alpha)
        n, total = as_array(n)[..., None], np.sum(a, axis=-1, keepdims=True)
        return n * a / total * (1.0 - a / total) * (n + total) / (1.0 + total)

    def cov(self, alpha: Any, n: Any) -> Any:
        """Equivalent of `scipy.stats.dirichlet_multinomial.cov`."""
        a = as_array(alpha)
        n, total = as_array(n)[..., None, None], np.sum(a, axis=-1)[..., None, None]
        shares = a / total[..., 0]
        both = shares[..., None] * np.eye(a.shape[-1]) - shares[..., None] * shares[..., None, :]
        return n * both * (n + total) / (1.0 + total)


class VonMisesFisher(OfVectors):
    """`logpdf` and `pdf` of directions [..., n], around the unit vector `mu`."""

    of_parameters = ("entropy",)

    def logpdf(self, x: Any, mu: Any = None, kappa: Any = 1) -> Any:
        """Equivalent of `scipy.stats.vonmises_fisher.logpdf`, of vectors of length 1."""
        mu = as_array(mu)
        return _log_norm(mu.shape[-1], kappa) + kappa * np.sum(as_array(x) * mu, axis=-1)

    def pdf(self, x: Any, mu: Any = None, kappa: Any = 1) -> Any:
        """Equivalent of `scipy.stats.vonmises_fisher.pdf`, of vectors of length 1."""
        return np.exp(self.logpdf(x, mu, kappa))

    def entropy(self, mu: Any = None, kappa: Any = 1) -> Any:
        """Equivalent of `scipy.stats.vonmises_fisher.entropy`."""
        size = as_array(mu).shape[-1]
        return -_log_norm(size, kappa) - kappa * sc.ive(0.5 * size, kappa) / sc.ive(0.5 * size - 1.0, kappa)


def _log_norm(size: int, kappa: Any) -> Any:
    half = 0.5 * size
    return (half - 1.0) * np.log(kappa) - half * math.log(2.0 * math.pi) - np.log(sc.ive(half - 1.0, kappa)) - kappa


multivariate_normal, multivariate_t = MultivariateNormal("multivariate_normal"), MultivariateT("multivariate_t")
dirichlet, multinomial = Dirichlet("dirichlet"), Multinomial("multinomial")
dirichlet_multinomial, vonmises_fisher = DirichletMultinomial("dirichlet_multinomial"), VonMisesFisher("vonmises_fisher")
