"""Less common functions that choose or write elements by index: differences, sums without NaN, replacement of slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.eager.functional.elementwise import floating
from adjit.eager.functional.indexing import of_vector
from adjit.eager.functional.reductions import Dim, sum
from adjit.eager.functional.shapes import of_one_dtype
from adjit.ir.types import is_float
from adjit.tracer.array import as_traced
from adjit.tracer.functions.shapes import normalize_axis

Array = Any


def diff(x: Array, n: int = 1, dim: int = -1, prepend: Array = None, append: Array = None) -> Array:
    """The differences of neighbours along `dim`, taken `n` times, with the elements of two other tensors before and behind them."""
    parts = [as_traced(part) for part in (prepend, x, append) if part is not None]
    return np.diff(parts[0] if len(parts) == 1 else np.concatenate(of_one_dtype(parts), dim), n, dim)


def nansum(x: Array, dim: Dim = None, keepdim: bool = False) -> Array:
    """The sum of the elements that are not NaN."""
    x = as_traced(x)
    return sum(np.where(np.isnan(x), 0, x) if is_float(x.dtype) else x, dim, keepdim)


def nanmean(x: Array, dim: Dim = None, keepdim: bool = False) -> Array:
    """The mean of the elements that are not NaN."""
    x = floating(x, "nanmean")
    return nansum(x, dim, keepdim) / sum(~np.isnan(x), dim, keepdim).astype(x.dtype)


def take_along_dim(x: Array, indices: Array, dim: int | None = None) -> Array:
    """Take, for each position, the element whose index along `dim` is given there; without `dim`, of the flattened tensor."""
    x, indices = as_traced(x), as_traced(indices)
    return np.take(x, np.reshape(indices, (-1,))) if dim is None else np.take_along_axis(x, indices, axis=dim)


def index_fill(x: Array, dim: int, index: Array, value: Array) -> Array:
    """Set the slices of `x` along `dim` at the indices to one number."""
    return _with_slices(x, dim, index, value)


def index_copy(x: Array, dim: int, index: Array, source: Array) -> Array:
    """Replace the slices of `x` along `dim` at the indices by the slices of `source`."""
    x = as_traced(x)
    return _with_slices(x, dim, index, as_traced(source).astype(x.dtype))


def _with_slices(x: Array, dim: int, index: Array, new: Array) -> Array:
    written: Array = np.copy(as_traced(x))
    if not written.ndim:
        return of_vector(_with_slices, written, dim, index, new)
    written[(*(slice(None),) * normalize_axis(dim, written.ndim), as_traced(index))] = new
    return written
