"""Medians, modes, quantiles, running extrema, histograms: what depends on the order of elements, with PyTorch's arguments."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from adjit.eager.functional.elementwise import floating
from adjit.eager.functional.indexing import argsort, sort
from adjit.eager.functional.reductions import ValuesAndIndices, amax, amin
from adjit.eager.functional.shapes import check_dims_of_scalar
from adjit.ir.errors import ShapeError
from adjit.ir.types import F32, F64, I64, is_float
from adjit.tracer import lowering
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.functions.searching import added_in_bins
from adjit.tracer.functions.shapes import normalize_axis
from adjit.tracer.user_location import find_user_location

Array = Any


class Extrema(NamedTuple):
    """Smallest and largest elements."""

    min: Any
    max: Any


def median(x: Array, dim: int | None = None, keepdim: bool = False) -> Array | ValuesAndIndices:
    """The median, of two middle elements the lower one; along one dimension also its index. NaN if an element is NaN.

    Without `dim`, elements that are equal to the median share its derivative.
    """
    return _middle(as_traced(x), dim, keepdim, "median")


def nanmedian(x: Array, dim: int | None = None, keepdim: bool = False) -> Array | ValuesAndIndices:
    """The median of the elements that are not NaN, as `median`."""
    return _middle(as_traced(x), dim, keepdim, "nanmedian")


def _middle(x: Array, dim: int | None, keepdim: bool, name: str) -> Array | ValuesAndIndices:
    if dim is None:
        flat = np.reshape(x, (-1,))
        middle = _middle(flat, 0, True, name).values
        if not is_float(x.dtype):
            return middle[0]
        mask = (flat == middle) | (np.isnan(flat) & np.isnan(middle))
        return np.max(np.where(mask, flat, np.asarray(-np.inf, x.dtype)))       # equal elements share the derivative of a maximum
    axis, size = _checked_axis(name, x, dim)
    if not x.ndim:
        return ValuesAndIndices(np.copy(x), argsort(x))
    order = argsort(x, axis)
    indices: Array
    if name == "nanmedian" and is_float(x.dtype):
        count = np.sum(~np.isnan(x), axis=axis, keepdims=True)
        indices = np.take_along_axis(order, np.maximum(count - 1, 0) // 2, axis=axis)
    else:
        indices = _at(order, axis, (size - 1) // 2)
        if is_float(x.dtype):
            indices = np.where(np.any(np.isnan(x), axis=axis, keepdims=True), _at(order, axis, size - 1), indices)
    return _taken(x, indices, axis, keepdim)


def _checked_axis(name: str, x: Array, dim: int) -> tuple[int, int]:
    if not x.ndim:
        check_dims_of_scalar(dim)
        return 0, 1
    axis = normalize_axis(dim, x.ndim)
    if not x.shape[axis]:
        raise ShapeError(f"{name}: dimension {axis} of {x.shape} has no elements", find_user_location())
    return axis, x.shape[axis]


def _at(x: Array, axis: int, index: int) -> Array:
    return x[(*(slice(None),) * axis, slice(index, index + 1))]


def _taken(x: Array, indices: Array, axis: int, keepdim: bool) -> ValuesAndIndices:
    values = np.take_along_axis(x, indices, axis=axis)
    return ValuesAndIndices(values, indices) if keepdim else ValuesAndIndices(np.squeeze(values, axis), np.squeeze(indices, axis))


def kthvalue(x: Array, k: int, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """The `k`-th smallest element along `dim`, counted from 1, and its index."""
    x = as_traced(x)
    axis, size = _checked_axis("kthvalue", x, dim)
    if not 1 <= k <= size:
        raise ShapeError(f"kthvalue: k = {k} of {size} elements", find_user_location())
    return _taken(x, _at(argsort(x, axis), axis, k - 1), axis, keepdim) if x.ndim else ValuesAndIndices(np.copy(x), argsort(x))


def mode(x: Array, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """The most frequent element along `dim`, the smallest one of several, and the index of its last occurrence."""
    x = as_traced(x)
    axis, _ = _checked_axis("mode", x, dim)
    if not x.ndim:
        return ValuesAndIndices(np.copy(x), argsort(x))
    ordered, order = sort(x, axis)
    places = wrap(lowering.iota(I64, x.shape, axis))
    before = (slice(None),) * axis
    later = ordered[(*before, slice(1, None))] != ordered[(*before, slice(None, -1))]
    changes = np.concatenate([places[(*before, slice(0, 1))] == 0, later], axis=axis)
    length = places - np.maximum.accumulate(np.where(changes, places, 0), axis=axis)
    indices = np.take_along_axis(order, np.argmax(length, axis=axis, keepdims=True), axis=axis)
    return _taken(x, indices, axis, keepdim)


def msort(x: Array) -> Array:
    """Sort the elements along the first dimension."""
    return sort(x, 0).values


def quantile(x: Array, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Array:
    """Quantiles `q` (a number or a vector of them) over `dim`; several are a new first dimension. NaN if an element is NaN."""
    return _quantile("quantile", np.quantile, x, q, dim, keepdim, interpolation)


def nanquantile(x: Array, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Array:
    """Quantiles of the elements that are not NaN, as `quantile`."""
    return _quantile("nanquantile", np.nanquantile, x, q, dim, keepdim, interpolation)


def _quantile(name: str, function: Any, x: Array, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Array:
    x = floating(x, name)
    if not x.ndim and dim is not None:
        check_dims_of_scalar(dim)
        dim = None
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise ValueError(f"{name}: interpolation is 'linear', 'lower', 'higher', 'midpoint' or 'nearest', got {interpolation!r}")
    return function(x, q, axis=dim, keepdims=keepdim, method=interpolation).astype(x.dtype)


def cummax(x: Array, dim: int) -> ValuesAndIndices:
    """Running maxima along `dim`, and their indices: of equal elements the last one."""
    return _running(as_traced(x), dim, np.maximum)


def cummin(x: Array, dim: int) -> ValuesAndIndices:
    """Running minima along `dim`, and their indices: of equal elements the last one."""
    return _running(as_traced(x), dim, np.minimum)


def _running(x: Array, dim: int, extremum: Any) -> ValuesAndIndices:
    if not x.ndim:
        return ValuesAndIndices(np.copy(x), argsort(x))
    axis = normalize_axis(dim, x.ndim)
    found = extremum.accumulate(x, axis=axis)
    reached = x == found
    if is_float(x.dtype):
        reached = reached | np.isnan(x)
    indices = np.maximum.accumulate(np.where(reached, wrap(lowering.iota(I64, x.shape, axis)), 0), axis=axis)
    return ValuesAndIndices(np.take_along_axis(x, indices, axis=axis), indices)


def logcumsumexp(x: Array, dim: int) -> Array:
    """`log(cumsum(exp(x)))` along `dim`, without overflow."""
    x = floating(x, "logcumsumexp")
    return np.logaddexp.accumulate(x, axis=dim) if x.ndim else np.copy(x)


def aminmax(x: Array, *, dim: int | None = None, keepdim: bool = False) -> Extrema:
    """Smallest and largest elements over `dim`; equal ones share the derivative."""
    return Extrema(amin(x, dim, keepdim), amax(x, dim, keepdim))


def histc(x: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    """Numbers of elements in `bins` bins of one width from `min` to `max`, by default of the elements; others count nowhere."""
    x = floating(x, "histc")
    counts, _ = np.histogram(np.reshape(x, (-1,)), bins, None if min == max == 0 else (min, max))
    return counts.astype(x.dtype)


def bincount(x: Array, weights: Array, length: int) -> Array:
    """Number of times, or the sum of weights, of each of `length` integers in a vector. Sums are of float64, or rounded to float32."""
    x = as_traced(x)
    if weights is None:
        return added_in_bins(x, wrap(lowering.constant(1, I64, x.shape)), length)
    given = as_traced(weights)
    if given.shape != x.shape:
        raise ShapeError(f"bincount: {x.size} integers and weights of the shape {given.shape}", find_user_location())
    sums = added_in_bins(x, given.astype(F64), length)
    return sums.astype(given.dtype) if given.dtype == F32 else sums


def renorm(x: Array, p: float, dim: int, maxnorm: float) -> Array:
    """Scale the slices of a dimension so that their `p`-norm is at most `maxnorm`: by `maxnorm / (norm + 1e-7)`."""
    x = floating(x, "renorm")
    axis = normalize_axis(dim, x.ndim)
    others = tuple(i for i in range(x.ndim) if i != axis)
    norms = np.linalg.vector_norm(x, axis=others, ord=p, keepdims=True)
    return x * np.where(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0).astype(x.dtype)


def cov(x: Array, *, correction: int = 1, fweights: Array = None, aweights: Array = None) -> Array:
    """Covariances of the rows of a matrix, observations in columns; of a vector its variance."""
    return np.cov(floating(x, "cov"), ddof=correction, fweights=fweights, aweights=aweights).astype(as_traced(x).dtype)


def corrcoef(x: Array) -> Array:
    """Correlation coefficients of the rows of a matrix."""
    return np.corrcoef(floating(x, "corrcoef")).astype(as_traced(x).dtype)
