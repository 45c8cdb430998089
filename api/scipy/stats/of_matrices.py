"""Distributions of matrices. Formulas are those of `scipy.stats`; what SciPy checks in values is not checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit import special as sc
from adjit.scipy.stats.multivariate import OfVectors, as_array


def _square(scale: Any) -> Any:
    """A scale as a matrix; a number is one of 1 row, and a vector a diagonal."""
    scale = as_array(scale)
    return np.reshape(scale, (1, 1)) if scale.ndim == 0 else np.diag(scale) if scale.ndim == 1 else scale


def _stacked(x: Any, size: int) -> Any:
    """Points [n, n] or [n, n, m] as a stack [..., n, n]."""
    x = as_array(x)
    if x.ndim == 0 or (x.ndim == 1 and size > 1):
        return x[..., None] * np.eye(size)
    return x[:, None, None] if x.ndim == 1 else np.moveaxis(x, (0, 1), (-2, -1))


def _log_determinant(matrices: Any) -> Any:
    return 2.0 * np.sum(np.log(np.diagonal(np.linalg.cholesky(matrices), axis1=-2, axis2=-1)), axis=-1)


def _trace(matrices: Any) -> Any:
    return np.sum(np.diagonal(matrices, axis1=-2, axis2=-1), axis=-1)


class Wishart(OfVectors):
    """`logpdf` and `pdf` of positive definite matrices [n, n] or [n, n, m]; NaN for other matrices."""

    of_parameters = ("mean", "mode", "var", "entropy")

    def logpdf(self, x: Any, df: Any, scale: Any) -> Any:
        """Equivalent of `scipy.stats.wishart.logpdf`."""
        scale = _square(scale)
        n, half = scale.shape[0], 0.5 * as_array(df)
        points = _stacked(x, n)
        exponent = (half - 0.5 * (n + 1)) * _log_determinant(points) - 0.5 * _trace(np.linalg.solve(scale, points))
        return exponent - half * (n * math.log(2.0) + _log_determinant(scale)) - sc.multigammaln(half, n)

    def pdf(self, x: Any, df: Any, scale: Any) -> Any:
        """Equivalent of `scipy.stats.wishart.pdf`."""
        return np.exp(self.logpdf(x, df, scale))

    def mean(self, df: Any, scale: Any) -> Any:
        """Equivalent of `scipy.stats.wishart.mean`."""
        return np.squeeze(df * _square(scale))

    def mode(self, df: Any, scale: Any) -> Any:
        """Equivalent of `scipy.stats.wishart.mode`; NaN where SciPy has none."""
        scale = _square(scale)
        rest = as_array(df) - (scale.shape[0] + 1.0)
        return np.squeeze(np.where(rest >= 0, rest, math.nan) * scale)

    def var(self, df: Any, scale: Any) -> Any:
        """Equivalent of `scipy.stats.wishart.var`."""
        scale = _square(scale)
        diagonal = np.diagonal(scale)
        return np.squeeze(df * (np.square(scale) + diagonal[:, None] * diagonal))

    def entropy(self, df: Any, scale: Any) -> Any:
        """Equivalent of `scipy.stats.wishart.entropy`."""
        scale = _square(scale)
        n, half = scale.shape[0], 0.5 * as_array(df)
        of_scale = 0.5 * (n + 1) * (_log_determinant(scale) + n * math.log(2.0))
        digammas = np.sum(sc.digamma(half - 0.5 * np.arange(float(n))))
        return of_scale + sc.multigammaln(half, n) - (half - 0.5 * (n + 1)) * digammas + half * n


class InverseWishart(OfVectors):
    """`logpdf` and `pdf` of positive definite matrices [n, n] or [n, n, m]; NaN for other matrices."""

    of_parameters = ("mean", "mode", "var", "entropy")

    def logpdf(self, x: Any, df: Any, scale: Any) -> Any:
        """Equivalent of `scipy.stats.invwishart.logpdf`."""
        scale = _square(scale)
        n, half = scale.shape[0], 0.5 * as_array(df)
        points = _stacked(x, n)
        spread = _trace(np.linalg.solve(points, np.broadcast_to(scale, points.shape)))
        exponent = half * (_log_determinant(scale) - n * math.log(2.0)) - (half + 0.5 * (n + 1)) * _log_determinant(points)
        return exponent - 0.5 * spread - sc.multigammaln(half, n)

    def pdf(self, x: Any, df: Any, scale: Any) -> Any:
        """Equivalent of `scipy.stats.invwishart.pdf`."""
        return np.exp(self.logpdf(x, df, scale))

    def mean(self, df: Any, scale: Any) -> Any:
        """Equivalent of `scipy.stats.invwishart.mean`; NaN where SciPy has none."""
        scale = _square(scale)
        rest = as_array(df) - (scale.shape[0] + 1.0)
        return np.squeeze(scale / np.where(rest > 0, rest, math.nan))

    def mode(self, df: Any, scale: Any) -> Any:
        """Equivalent of `scipy.stats.invwishart.mode`."""
        scale = _square(scale)
        return np.squeeze(scale / (df + scale.shape[0] + 1.0))

    def var(self, df: Any, scale: Any) -> Any:
        """Equivalent of `scipy.stats.invwishart.var`; NaN where SciPy has none."""
        scale = _square(scale)
        rest, diagonal = as_array(df) - scale.shape[0], np.diagonal(scale)
        rest = np.where(rest > 3, rest, math.nan)
        found = (rest + 1.0) * np.square(scale) + (rest - 1.0) * (diagonal[:, None] * diagonal)
        return np.squeeze(found / (rest * np.square(rest - 1.0) * (rest - 3.0)))

    def entropy(self, df: Any, scale: Any) -> Any:
        """Equivalent of `scipy.stats.invwishart.entropy`."""
        scale = _square(scale)
        n, half = scale.shape[0], 0.5 * as_array(df)
        digammas = np.sum(sc.digamma(half - 0.5 * np.arange(float(n))))
        of_scale = 0.5 * (n + 1) * (_log_determinant(scale) - math.log(2.0))
        return sc.multigammaln(half, n) + half * n + of_scale - (half + 0.5 * (n + 1)) * digammas


class MatrixNormal(OfVectors):
    """`logpdf` and `pdf` of matrices [..., r, c]; the covariances are positive definite matrices, or a number. NaN for other matrices."""

    of_parameters = ("entropy",)

    def logpdf(self, X: Any, mean: Any = None, rowcov: Any = 1, colcov: Any = 1) -> Any:
        """Equivalent of `scipy.stats.matrix_normal.logpdf`."""
        points = as_array(X)
        rows, columns = points.shape[-2:]
        rowcov, colcov = _covariance(rowcov, rows), _covariance(colcov, columns)
        difference = points - (0.0 if mean is None else as_array(mean))
        left = np.linalg.solve(rowcov, difference)
        distance = np.sum(np.swapaxes(left, -1, -2) * np.linalg.solve(colcov, np.swapaxes(difference, -1, -2)), axis=(-1, -2))
        logs = rows * columns * math.log(2.0 * math.pi) + columns * _log_determinant(rowcov) + rows * _log_determinant(colcov)
        return -0.5 * (logs + distance)

    def pdf(self, X: Any, mean: Any = None, rowcov: Any = 1, colcov: Any = 1) -> Any:
        """Equivalent of `scipy.stats.matrix_normal.pdf`."""
        return np.exp(self.logpdf(X, mean, rowcov, colcov))

    def entropy(self, rowcov: Any = 1, colcov: Any = 1) -> Any:
        """Equivalent of `scipy.stats.matrix_normal.entropy`."""
        rowcov, colcov = _square(rowcov), _square(colcov)
        rows, columns = rowcov.shape[0], colcov.shape[0]
        of_covariances = columns * _log_determinant(rowcov) + rows * _log_determinant(colcov)
        return 0.5 * (rows * columns * (math.log(2.0 * math.pi) + 1.0) + of_covariances)


def _covariance(given: Any, size: int) -> Any:
    given = as_array(given)
    return given * np.eye(size) if given.ndim == 0 else np.diag(given) if given.ndim == 1 else given


wishart, invwishart, matrix_normal = Wishart("wishart"), InverseWishart("invwishart"), MatrixNormal("matrix_normal")
