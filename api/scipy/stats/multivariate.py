"""The normal distribution of vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit import linalg


def _array(x: Any) -> Any:
    return x if hasattr(x, "ndim") else np.array(x, dtype=float)


class MultivariateNormal:
    """`logpdf` and `pdf` of points [..., n]; `cov` is a positive definite matrix, a diagonal or a number. NaN for other matrices."""

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1) -> Any:
        """Equivalent of `scipy.stats.multivariate_normal.logpdf`, for covariances of full rank."""
        points, covariance = _array(x), _array(cov)
        size = next((each.shape[-1] for each in (covariance, _array(0.0 if mean is None else mean)) if each.ndim), 1)
        if covariance.ndim < 2:
            covariance = (covariance if covariance.ndim == 0 else covariance[:, None]) * np.eye(size)
        if points.ndim == 0:
            points = np.reshape(points, (1,))
        elif points.ndim == 1 and size == 1:
            points = points[:, None]
        factor = linalg.cholesky(covariance)
        difference = points - (0.0 if mean is None else _array(mean))
        whitened = linalg.solve_triangular(factor, np.reshape(difference, (-1, size)).T, lower=True)
        distance = np.reshape(np.sum(np.square(whitened), axis=0), difference.shape[:-1])
        return -0.5 * (size * math.log(2.0 * math.pi) + distance) - np.sum(np.log(np.diagonal(factor)))

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1) -> Any:
        """Equivalent of `scipy.stats.multivariate_normal.pdf`, for covariances of full rank."""
        return np.exp(self.logpdf(x, mean, cov))


multivariate_normal = MultivariateNormal()
