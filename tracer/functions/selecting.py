"""Taking elements by index, sorting, and the functions about diagonals and triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import IndexingError, ShapeError
from adjit.ir.types import I64
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, contains_traced, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.functions.indexing import as_index, fixed
from adjit.tracer.functions.shapes import diagonal, diagonal_indices, normalize_axis, ravel, refuse
from adjit.tracer.functions.ufuncs import store
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location


def _index_array(indices: Any) -> TracedArray | np.ndarray:
    if isinstance(indices, (TracedArray, np.ndarray)):
        return indices
    return as_traced(indices) if contains_traced(indices) else fixed(np.asarray(indices, dtype=None if np.size(indices) else I64))


@implements(np.take)
def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    """Equivalent of `numpy.take`, modes raise, wrap and clip."""
    x = as_traced(a)
    if axis is None or not x.ndim:
        x, axis = ravel(x), 0 if axis is None else axis
    dim = normalize_axis(axis, x.ndim)
    size = x.shape[dim]
    if mode == "raise":
        index = as_index(_index_array(indices), size, dim)
    elif mode in ("wrap", "clip"):
        raw = lowering.convert(as_traced(indices).value, I64)
        bound = lowering.constant(size if mode == "wrap" else size - 1, I64, raw.type.shape)
        zero = lowering.constant(0, I64, raw.type.shape)
        index = ops.remainder(raw, bound) if mode == "wrap" else ops.minimum(ops.maximum(raw, zero), bound)
    else:
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    return store(wrap(ops.take(x.value, index, axis=dim)), out, name="take")


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> TracedArray:
    """Equivalent of `numpy.take_along_axis`."""
    x, index_array = as_traced(arr), as_traced(indices)
    if index_array.dtype.kind not in "iu":
        raise IndexingError("`indices` must be an integer array", find_user_location())
    if axis is None:
        x, axis = ravel(x), 0
    axis = normalize_axis(axis, x.ndim)
    if index_array.ndim != x.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    try:
        shape = np.broadcast_shapes(*((*t.shape[:axis], 1, *t.shape[axis + 1:]) for t in (x, index_array)))
    except ValueError:
        raise ShapeError(f"take_along_axis: the shapes {x.shape} and {index_array.shape} do not fit", find_user_location()) from None
    index = lowering.wrapped_index(index_array.value, x.shape[axis])
    index = lowering.broadcast(index, (*shape[:axis], index_array.shape[axis], *shape[axis + 1:]))
    value = lowering.broadcast(x.value, (*shape[:axis], x.shape[axis], *shape[axis + 1:]))
    return wrap(ops.take_along_axis(value, index, axis=axis))


@implements(np.argsort)
def argsort(a: Any, axis: int | None = -1, kind: str | None = None, order: Any = None, *, stable: bool | None = None) -> TracedArray:
    """Equivalent of `numpy.argsort`, always stable."""
    refuse(order is not None, "argsort(order=...)")
    x = as_traced(a)
    if axis is None or not x.ndim:
        x, axis = ravel(x), 0 if axis is None else axis
    return wrap(ops.argsort(x.value, axis=normalize_axis(axis, x.ndim)))


@implements(np.sort)
def sort(a: Any, axis: int | None = -1, kind: str | None = None, order: Any = None, *, stable: bool | None = None) -> TracedArray:
    """Equivalent of `numpy.sort`. The derivative follows the permutation."""
    refuse(order is not None, "sort(order=...)")
    x = as_traced(a)
    if axis is None:
        x, axis = ravel(x), 0
    dim = normalize_axis(axis, x.ndim)
    return wrap(ops.sort(x.value, axis=dim, first=0, count=x.shape[dim]))


def _triangle(m: Any, k: int, lower: bool) -> TracedArray:
    x = as_traced(m)
    if x.ndim == 1:
        x = FUNCTIONS[np.broadcast_to](x, (x.size, x.size))
    if x.ndim < 2:
        raise ValueError("tril and triu need an array of at least one dimension")
    row, column = lowering.iota(I64, x.shape, x.ndim - 2), lowering.iota(I64, x.shape, x.ndim - 1)
    reach = ops.add(row, lowering.constant(k, I64, x.shape))
    kept = ops.less_equal(column, reach) if lower else ops.greater_equal(column, reach)
    return wrap(ops.select(kept, x.value, lowering.constant(0, x.dtype, x.shape)))


@implements(np.tril)
def tril(m: Any, k: int = 0) -> TracedArray:
    """Equivalent of `numpy.tril`."""
    return _triangle(m, k, lower=True)


@implements(np.triu)
def triu(m: Any, k: int = 0) -> TracedArray:
    """Equivalent of `numpy.triu`."""
    return _triangle(m, k, lower=False)


@implements(np.diag)
def diag(v: Any, k: int = 0) -> TracedArray:
    """Equivalent of `numpy.diag`: a matrix from its diagonal, or the diagonal of a matrix (read-only)."""
    x = as_traced(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    size = x.shape[0] + abs(k)
    start, count = diagonal_indices(size, size, k)
    if not count:
        return wrap(lowering.constant(0, x.dtype, (size, size)))
    width = (count - 1) * (size + 1) + 1        # every (size + 1)th element of the flat matrix
    flat = ops.pad(x.value, low=(start,), high=(size * size - start - width,), interior=(size,), value=np.zeros((), x.dtype).item())
    return wrap(lowering.reshape(flat, (size, size)))


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> TracedArray:
    """Equivalent of `numpy.diagflat`."""
    return diag(ravel(v), k)


@implements(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    """Equivalent of `numpy.trace`."""
    return FUNCTIONS[np.sum](diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype, out=out)
