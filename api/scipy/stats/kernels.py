"""Densities as sums of normal kernels around samples, which may be traced, as may be the places asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit import linalg
from adjit import special as sc
from adjit.ir.errors import ShapeError, UnsupportedError
from adjit.scipy.mirror import arrays_of, attribute_of, is_plain, scipys
from adjit.scipy.stats.multivariate import as_array
from adjit.tracer.user_location import find_user_location


def _dataset(dataset: Any) -> Any:
    samples: Any = np.atleast_2d(as_array(dataset))
    if samples.ndim > 2:
        raise ShapeError(f"samples [d, n] are expected, and not an array of shape {samples.shape}", find_user_location())
    if math.prod(samples.shape) < 2:
        raise ValueError("`dataset` input should have multiple elements.")
    return samples


def _shares(weights: Any, count: int) -> Any:
    if weights is None:
        return np.full(count, 1.0 / count)
    weights = as_array(weights)
    if weights.shape != (count,):
        raise ShapeError(f"weights of shape {weights.shape} do not fit to {count} samples", find_user_location())
    return weights / np.sum(weights)


def _covariance(dataset: Any, weights: Any) -> Any:
    apart = dataset - np.sum(dataset * weights, axis=1, keepdims=True)
    return (apart * weights) @ apart.T / (1.0 - np.sum(weights ** 2))


def _density(dataset: Any, weights: Any, covariance: Any, points: Any, log: bool) -> Any:
    points, d = np.atleast_2d(as_array(points)), dataset.shape[0]
    if points.shape[0] != d:
        if points.shape != (1, d):
            raise ValueError(f"points have dimension {points.shape[0]}, dataset has dimension {d}")
        points = points.T
    factor = linalg.cholesky(covariance)
    data, at = (linalg.solve_triangular(factor, each, lower=True) for each in (dataset, points))
    exponents = -0.5 * np.sum(np.square(data[:, :, None] - at[:, None, :]), axis=0)
    found = sc.logsumexp(exponents, axis=0, b=weights[:, None]) - np.sum(np.log(np.diagonal(factor)))
    found = found - 0.5 * d * math.log(2.0 * math.pi)
    return found if log else np.exp(found)


def _in_box(dataset: Any, weights: Any, covariance: Any, low: Any, high: Any) -> Any:
    dataset, deviation = dataset[0], np.sqrt(covariance[0, 0])
    above, below = (sc.ndtr((end - dataset) / deviation) for end in (high, low))
    return np.sum(weights * (above - below))


def _with_normal(dataset: Any, weights: Any, covariance: Any, mean: Any, cov: Any) -> Any:
    """Integral of the product with a normal density, at each of the means [d, m]."""
    return np.sum(_density(dataset, weights, covariance + cov, mean, False))


def _of_product(dataset: Any, weights: Any, covariance: Any, other: Any, other_weights: Any, other_covariance: Any) -> Any:
    return np.sum(other_weights * _density(dataset, weights, covariance + other_covariance, other, False))


class gaussian_kde:
    """Equivalent of `scipy.stats.gaussian_kde`: a density as a sum of normal kernels around the samples `dataset` [d, n] or [n], which may
    be traced, with `weights` [n]. The bandwidth is "scott", "silverman", a number that may be traced, or a function of this object.

    >>> import numpy as np
    >>> import adjit as aj
    >>> x = np.array([-1.0, 0.0, 2.0])
    >>> aj.grad(lambda x: gaussian_kde(x).logpdf(0.5)[0])(x).round(6)
    array([ 0.298424,  0.175316, -0.309804])
    """

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        dataset, weights = arrays_of(dataset, weights)
        self._theirs: Any = None
        if is_plain(dataset, weights) and (is_plain(bw_method) or callable(bw_method)):
            self._take(scipys("stats").gaussian_kde(dataset, bw_method, weights))
            return
        self.dataset = _dataset(dataset)
        self.d, self.n = self.dataset.shape
        self.weights = _shares(weights, self.n)
        self.neff: Any = float(self.n) if weights is None else 1.0 / (self.weights ** 2).sum()
        self._data_covariance = _covariance(self.dataset, self.weights)
        self._bandwidth: Callable[[], Any] = self.scotts_factor
        self.set_bandwidth(bw_method)

    def _take(self, theirs: Any) -> None:
        self._theirs = theirs
        self.dataset, self.d, self.n, self.weights, self.neff = theirs.dataset, theirs.d, theirs.n, theirs.weights, theirs.neff
        self._data_covariance, self.factor, self.covariance = theirs._data_covariance, theirs.factor, theirs.covariance
        self._bandwidth = theirs.covariance_factor

    def scotts_factor(self) -> Any:
        """Return Scott's factor, n ** (-1 / (d + 4)) of the effective number of samples."""
        return self.neff ** (-1.0 / (self.d + 4))

    def silverman_factor(self) -> Any:
        """Return Silverman's factor, (n (d + 2) / 4) ** (-1 / (d + 4)) of the effective number of samples."""
        return (self.neff * (self.d + 2.0) / 4.0) ** (-1.0 / (self.d + 4))

    def covariance_factor(self) -> Any:
        """Return the factor by which the deviation of kernels is that of the samples."""
        return self._bandwidth()

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Set the bandwidth: "scott", "silverman", a number, or a function of this object; None leaves the rule that it has."""
        if self._theirs is not None:
            if is_plain(bw_method) or callable(bw_method):
                self._theirs.set_bandwidth(bw_method)
                self._take(self._theirs)
                return
            self._theirs = None
        if isinstance(bw_method, str):
            rules = {"scott": self.scotts_factor, "silverman": self.silverman_factor}
            if bw_method not in rules:
                raise ValueError("`bw_method` should be 'scott', 'silverman', a scalar or a callable.")
            self._bandwidth = rules[bw_method]
        elif callable(bw_method):
            self._bandwidth = lambda: bw_method(self)
        elif bw_method is not None:
            self._bandwidth = lambda: bw_method
        self.factor = self.covariance_factor()
        self.covariance = self._data_covariance * self.factor ** 2

    def _is_plain(self, *args: Any) -> bool:
        return self._theirs is not None and is_plain(*args)

    def evaluate(self, points: Any) -> Any:
        """Return the density at points [d, m] or [m]."""
        if self._is_plain(points):
            return self._theirs.evaluate(points)
        return _density(self.dataset, self.weights, self.covariance, points, False)

    __call__ = evaluate

    def pdf(self, x: Any) -> Any:
        """Return the density at points [d, m] or [m]."""
        return self.evaluate(x)

    def logpdf(self, x: Any) -> Any:
        """Return the logarithm of the density at points [d, m] or [m]."""
        if self._is_plain(x):
            return self._theirs.logpdf(x)
        return _density(self.dataset, self.weights, self.covariance, x, True)

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """Return the integral of a density of one variable from `low` to `high`."""
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        if self._is_plain(low, high):
            return self._theirs.integrate_box_1d(low, high)
        return _in_box(self.dataset, self.weights, self.covariance, low, high)

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """Return the integral of the product with a normal density of mean [d] and covariance [d, d]."""
        if self._is_plain(mean, cov):
            return self._theirs.integrate_gaussian(mean, cov)
        return _with_normal(self.dataset, self.weights, self.covariance, np.reshape(as_array(mean), (self.d, 1)),
                            np.reshape(as_array(cov), (self.d, self.d)))

    def integrate_kde(self, other: Any) -> Any:
        """Return the integral of the product with another density of this kind."""
        if other.d != self.d:
            raise ValueError("KDEs are not the same dimensionality")
        if self._theirs is not None and getattr(other, "_theirs", other) is not None:
            return self._theirs.integrate_kde(getattr(other, "_theirs", other))
        return _of_product(self.dataset, self.weights, self.covariance, other.dataset, other.weights, other.covariance)

    def marginal(self, dimensions: Any) -> gaussian_kde:
        """Return the density of the variables `dimensions`, known numbers, with this bandwidth."""
        kept = np.atleast_1d(np.asarray(dimensions))
        if kept.dtype.kind not in "iu" or np.any((kept < -self.d) | (kept >= self.d)) or np.unique(kept % self.d).size < kept.size:
            raise ValueError(f"Dimensions {dimensions} are not different whole numbers of a distribution in {self.d} dimensions.")
        return gaussian_kde(self.dataset[kept % self.d], self.factor, self.weights)

    def __getattr__(self, name: str) -> Any:
        """Return what else SciPy's object has under this name, for plain samples."""
        theirs = self.__dict__.get("_theirs")
        if name.startswith("_"):
            raise AttributeError(name)
        if theirs is not None:
            return attribute_of(theirs, name, f"scipy.stats.gaussian_kde.{name}")
        if not hasattr(scipys("stats").gaussian_kde, name):
            raise AttributeError(f"gaussian_kde has no attribute {name!r}", name=name, obj=None)
        raise UnsupportedError(f"scipy.stats.gaussian_kde.{name} of traced samples or tensors is not supported", find_user_location(),
                               hint="there are evaluate, logpdf, integrate_box_1d, integrate_gaussian, integrate_kde and marginal")


def around_kernels(theirs: Any) -> gaussian_kde:
    """Density that holds one of SciPy's own."""
    found = gaussian_kde.__new__(gaussian_kde)
    found._take(theirs)
    return found
