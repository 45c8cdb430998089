"""Functions that return a copy of a tensor with some elements replaced or combined: by index, by mask, on a diagonal or a slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from adjit.eager.functional.elementwise import assign
from adjit.eager.functional.indexing import _check_index_array, _counter, _sources, of_vector, scatter_add
from adjit.eager.functional.shapes import select
from adjit.ir.errors import DTypeError, ShapeError
from adjit.ir.types import is_float
from adjit.tracer.array import as_traced
from adjit.tracer.functions.shapes import diagonal_view, normalize_axis
from adjit.tracer.user_location import find_user_location

Array = Any
Reduction = Literal["sum", "prod", "mean", "amax", "amin"]

_UFUNCS = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def scatter_reduce(x: Array, dim: int, index: Array, src: Array, reduce: Reduction, *, include_self: bool = True) -> Array:
    """Combine elements of `src` with those of `x` at the positions that `index` gives along `dim`: "sum", "prod", "mean", "amax" or "amin".

    Without `include_self`, the elements of `x` at these positions are left out.
    """
    x, index = as_traced(x), as_traced(index)
    if not x.ndim:
        return of_vector(scatter_reduce, x, dim, index, src, reduce, include_self=include_self)
    if reduce not in ("sum", "mean", *_UFUNCS):
        raise ValueError(f"scatter_reduce: reduce is 'sum', 'prod', 'mean', 'amax' or 'amin', got {reduce!r}")
    along = _check_index_array("scatter_reduce", x, dim, index)
    source = np.broadcast_to(_sources("scatter_reduce", src, index, x), index.shape)
    counts: Array = None
    if reduce == "mean" or not include_self:
        counts = scatter_add(np.zeros(x.shape, np.int64), along, index, np.ones(index.shape, np.int64))
    base = x if include_self else np.where(counts > 0, np.asarray(_identity(reduce, x.dtype), x.dtype), x)
    if reduce not in _UFUNCS:
        total = scatter_add(base, along, index, source)
        if reduce == "sum":
            return total
        divisor = counts + 1 if include_self else np.maximum(counts, 1)
        return total / divisor.astype(x.dtype) if is_float(x.dtype) else np.floor_divide(total, divisor.astype(x.dtype))
    written = np.copy(base)
    places = tuple(index if axis == along else _counter(index.shape, axis) for axis in range(x.ndim))
    _UFUNCS[reduce].at(written, places, source)
    return written


def _identity(reduce: str, dtype: np.dtype) -> Any:
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    lowest = reduce == "amax"
    if is_float(dtype):
        return -np.inf if lowest else np.inf
    return np.iinfo(dtype).min if lowest else np.iinfo(dtype).max


def index_reduce(x: Array, dim: int, index: Array, source: Array, reduce: Literal["prod", "mean", "amax", "amin"], *,
                 include_self: bool = True) -> Array:
    """Combine the slices of `source` along `dim` with those of `x` at the indices, a vector: "prod", "mean", "amax" or "amin"."""
    x, index, source = as_traced(x), as_traced(index), as_traced(source)
    if not x.ndim:
        return of_vector(index_reduce, x, dim, index, source, reduce, include_self=include_self)
    along = normalize_axis(dim, x.ndim)
    shape = tuple(-1 if axis == along else 1 for axis in range(x.ndim))
    return scatter_reduce(x, along, np.broadcast_to(np.reshape(index, shape), source.shape), source, reduce, include_self=include_self)


def index_put(x: Array, indices: Sequence[Array], values: Array, accumulate: bool = False) -> Array:
    """`x[indices] = values`, for a tuple of one tensor of indices for each dimension; with `accumulate` the values are added."""
    written = np.copy(as_traced(x))
    new = as_traced(values).astype(written.dtype)
    if accumulate:
        np.add.at(written, tuple(indices), new)
    else:
        written[tuple(indices)] = new
    return written


def put(x: Array, index: Array, source: Array, accumulate: bool = False) -> Array:
    """Write the elements of `source` to the indices of the flattened tensor; with `accumulate` they are added."""
    x, index = as_traced(x), as_traced(index)
    flat = index_put(np.reshape(x, (-1,)), (np.reshape(index, (-1,)),), np.reshape(as_traced(source), (-1,)), accumulate)
    return np.reshape(flat, x.shape)


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    """Write the elements of `source`, in order, to the positions where the mask holds."""
    x, mask, source = as_traced(x), as_traced(mask), as_traced(source)
    if mask.dtype.kind != "b":
        raise DTypeError(f"masked_scatter: a mask is of dtype bool, got {mask.dtype}", find_user_location(), hint="compare: mask != 0")
    if source.dtype != x.dtype:
        raise DTypeError(f"masked_scatter: a source of dtype {source.dtype} for a tensor of dtype {x.dtype}", find_user_location(),
                         hint="convert it: source.to(x.dtype)")
    shape = np.broadcast_shapes(x.shape, mask.shape)
    mask, x = np.broadcast_to(mask, shape), np.broadcast_to(x, shape)
    if not source.size:
        return np.copy(x)
    order = np.cumsum(np.reshape(mask, (-1,)).astype(np.int64)) - 1
    chosen = np.take(np.reshape(source, (-1,)), np.clip(order, 0, source.size - 1))
    return np.where(mask, np.reshape(chosen, shape), x)


def diagonal_scatter(x: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """Replace a diagonal of two dimensions by `src`, which has the diagonal as its last dimension."""
    written: Array = np.copy(as_traced(x))
    return _replaced("diagonal_scatter", written, diagonal_view(written, offset, dim1, dim2), src)


def select_scatter(x: Array, src: Array, dim: int, index: int) -> Array:
    """Replace one element of a dimension by `src`."""
    written = np.copy(as_traced(x))
    return _replaced("select_scatter", written, select(written, dim, index), src)


def slice_scatter(x: Array, src: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array:
    """Replace a slice of one dimension by `src`."""
    written = np.copy(as_traced(x))
    axis = normalize_axis(dim, written.ndim)
    return _replaced("slice_scatter", written, written[(*(slice(None),) * axis, slice(start, end, step))], src)


def _replaced(name: str, written: Array, part: Array, src: Array) -> Array:
    source = as_traced(src)
    if source.shape != part.shape:
        raise ShapeError(f"{name}: src of shape {source.shape} for a part of shape {part.shape}", find_user_location())
    part[...] = assign(part, source)
    return written


def fill_diagonal(x: Array, fill_value: Any, wrap: bool = False) -> Array:
    """Set the main diagonal of a matrix, or of a tensor of equal sizes, to one number; with `wrap` it starts again below tall matrices."""
    x = as_traced(x)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ShapeError(f"fill_diagonal_ fills matrices, or tensors of equal sizes, got the shape {x.shape}", find_user_location())
    flat = np.copy(np.reshape(x, (-1,)))
    step = x.shape[1] + 1 if x.ndim == 2 else sum(int(np.prod(x.shape[i + 1:])) for i in range(x.ndim))
    end = flat.size if wrap or x.ndim > 2 else min(flat.size, x.shape[1] * x.shape[1])
    flat[:end:step] = fill_value
    return np.reshape(flat, x.shape)
