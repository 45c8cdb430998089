"""Reductions with PyTorch's arguments (`dim`, `keepdim`) and meanings: the unbiased variance, extrema with their indices, norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from adjit.eager.functional.elementwise import inexact
from adjit.ir.types import F32, I64, is_half
from adjit.tracer.array import as_traced
from adjit.tracer.functions import composites
from adjit.tracer.functions.reductions import root

Array = Any
Dim = int | Sequence[int] | None


class ValuesAndIndices(NamedTuple):
    """Elements, and their indices along one dimension (int64)."""

    values: Any
    indices: Any

    def __repr__(self) -> str:
        return f"ValuesAndIndices(\nvalues={self.values!r},\nindices={self.indices!r})"


def _axes(dim: Any, x: Array = None) -> Any:
    """Dimensions as axes of NumPy's. A tensor of no dimension has one for PyTorch, over which there is nothing to do."""
    dim = tuple(dim) if isinstance(dim, list) else dim
    return None if x is not None and not x.ndim and dim in (0, -1, (0,), (-1,)) else dim


def _accumulated(x: Array, dtype: Any) -> Any:
    """Dtype in which sums and products are computed: int64 for all integers, also unsigned ones, and bools."""
    return I64 if dtype is None and x.dtype.kind in "biu" else dtype


def _as_given(x: Array, truth: Array) -> Array:
    """Truth values of bytes are bytes, as in PyTorch."""
    return truth.astype(np.uint8) if x.dtype == np.uint8 else truth


def sum(x: Array, dim: Dim = None, keepdim: bool = False, dtype: Any = None) -> Array:
    """The sum over `dim`, by default of all elements; of bools and integers in int64."""
    x = as_traced(x)
    return np.sum(x, axis=_axes(dim), keepdims=keepdim, dtype=_accumulated(x, dtype))


def mean(x: Array, dim: Dim = None, keepdim: bool = False, dtype: Any = None) -> Array:
    """The mean over `dim`, of floats or complex numbers; of integers only with `dtype`."""
    x = inexact(x, "mean") if dtype is None else as_traced(x)
    return np.mean(x, axis=_axes(dim, x), keepdims=keepdim, dtype=dtype)


def prod(x: Array, dim: Dim = None, keepdim: bool = False, dtype: Any = None) -> Array:
    """The product over `dim`, of bools and integers in int64."""
    x = as_traced(x)
    return np.prod(x, axis=_axes(dim), keepdims=keepdim, dtype=_accumulated(x, dtype))


def var(x: Array, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None) -> Array:
    """The variance over `dim`: the sum of squares around the mean over n - `correction`.

    `correction` defaults to 1 (0 with `unbiased=False`). `var(False)` means `unbiased=False`, as in PyTorch.
    """
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    divisor = correction if correction is not None else int(unbiased)
    x = inexact(x, "var")
    return np.var(x, axis=_axes(dim, x), keepdims=keepdim, ddof=divisor)


def std(x: Array, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None) -> Array:
    """The square root of `var`; its derivative is 0 if the variance is 0."""
    return root(var(x, dim, unbiased, keepdim, correction=correction))


def amax(x: Array, dim: Dim = None, keepdim: bool = False) -> Array:
    """The largest element over `dim`; equal ones share its derivative."""
    return np.max(as_traced(x), axis=_axes(dim), keepdims=keepdim)


def amin(x: Array, dim: Dim = None, keepdim: bool = False) -> Array:
    """The smallest element over `dim`; equal ones share its derivative."""
    return np.min(as_traced(x), axis=_axes(dim), keepdims=keepdim)


def max(x: Array, dim: int | None = None, keepdim: bool = False) -> Array | ValuesAndIndices:
    """The largest element; along one dimension also the index of its first occurrence, which gets the derivative."""
    return amax(x) if dim is None else _chosen(x, argmax(x, dim, True), dim, keepdim)


def min(x: Array, dim: int | None = None, keepdim: bool = False) -> Array | ValuesAndIndices:
    """The smallest element; along one dimension also the index of its first occurrence, which gets the derivative."""
    return amin(x) if dim is None else _chosen(x, argmin(x, dim, True), dim, keepdim)


def _chosen(x: Array, indices: Array, dim: int, keepdim: bool) -> ValuesAndIndices:
    x = as_traced(x)
    if not x.ndim:
        return ValuesAndIndices(x, indices)
    values = np.take_along_axis(x, indices, axis=dim)
    return ValuesAndIndices(values, indices) if keepdim else ValuesAndIndices(np.squeeze(values, dim), np.squeeze(indices, dim))


def argmax(x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """Index of the (first) largest element, of the flattened array without `dim`; NaN counts as the largest."""
    return np.argmax(as_traced(x), axis=dim, keepdims=keepdim)


def argmin(x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """Index of the (first) smallest element, of the flattened array without `dim`; NaN counts as the smallest."""
    return np.argmin(as_traced(x), axis=dim, keepdims=keepdim)


def all(x: Array, dim: Dim = None, keepdim: bool = False) -> Array:
    """True where all elements are true (not 0); of uint8 a uint8."""
    x = as_traced(x)
    return _as_given(x, np.all(x, axis=_axes(dim), keepdims=keepdim))


def any(x: Array, dim: Dim = None, keepdim: bool = False) -> Array:
    """True where any element is true (not 0); of uint8 a uint8."""
    x = as_traced(x)
    return _as_given(x, np.any(x, axis=_axes(dim), keepdims=keepdim))


def count_nonzero(x: Array, dim: Dim = None, *dims: int) -> Array:
    """The number of elements that are not 0."""
    return np.count_nonzero(as_traced(x), axis=_axes((dim, *dims) if dims else dim))


def cumsum(x: Array, dim: int | None = None, dtype: Any = None) -> Array:
    """Cumulative sums of the elements, of bools and integers in int64; of the flattened array without `dim`."""
    x = as_traced(x)
    sums = np.cumsum(x, axis=dim, dtype=_accumulated(x, dtype))
    return sums if x.ndim else sums.reshape(())


def cumprod(x: Array, dim: int | None = None, dtype: Any = None) -> Array:
    """Cumulative products of the elements, of bools and integers in int64; of the flattened array without `dim`."""
    x = as_traced(x)
    products = np.cumprod(x, axis=dim, dtype=_accumulated(x, dtype))
    return products if x.ndim else products.reshape(())


def trace(x: Array) -> Array:
    """The sum of the diagonal, of bools and integers in int64."""
    return sum(np.diagonal(as_traced(x)))


def logsumexp(x: Array, dim: Dim = None, keepdim: bool = False) -> Array:
    """`log(sum(exp(x)))` over `dim`, without overflow."""
    x = as_traced(x)
    return composites.logsumexp(x, _axes(dim, x), keepdims=keepdim)


def softmax(x: Array, dim: int = -1, dtype: Any = None) -> Array:
    """`exp(x) / sum(exp(x))` over `dim`, without overflow."""
    x = as_traced(x)
    x = x if dtype is None else x.astype(dtype)
    return composites.softmax(x, dim) if x.size else x


def log_softmax(x: Array, dim: int = -1, dtype: Any = None) -> Array:
    """`log(softmax(x))` over `dim`, without overflow or loss of precision."""
    x = as_traced(x)
    x = x if dtype is None else x.astype(dtype)
    return composites.log_softmax(x, dim) if x.size else x


def norm(x: Array, p: float | str | None = "fro", dim: Dim = None, keepdim: bool = False) -> Array:
    """The `p`-norm of the elements over `dim` as one vector, by default the Euclidean one ("fro" or 2).

    `p` infinity is the largest magnitude, minus infinity the smallest, 0 counts the elements that are not 0. The derivative at 0 is 0.
    """
    x = inexact(x, "norm")
    if p in ("fro", None):
        p = 2
    if not isinstance(p, (int, float)):
        raise ValueError(f"norm: p is a number or 'fro', got {p!r}")
    if is_half(x.dtype):        # whose squares may be too large
        return composites.vector_norm(x.astype(F32), p, _axes(dim), keepdim).astype(x.dtype)
    return composites.vector_norm(x, p, _axes(dim), keepdim)
