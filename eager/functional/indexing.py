"""Functions that choose or write elements by index, and that sort, with PyTorch's arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from adjit.eager.functional.reductions import ValuesAndIndices
from adjit.ir import ops
from adjit.ir.errors import ArgumentError, ShapeError
from adjit.ir.graph import Value
from adjit.ir.types import BOOL, I64
from adjit.tracer import lowering
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.functions.shapes import normalize_axis
from adjit.tracer.user_location import find_user_location

Array = Any


def take(x: Array, index: Array) -> Array:
    """Take elements of the flattened tensor."""
    return np.take(as_traced(x), as_traced(index))


def index_select(x: Array, dim: int, index: Array) -> Array:
    """Take the slices of one dimension at the indices, a vector."""
    index = as_traced(index)
    if index.ndim > 1:
        raise ShapeError(f"index_select: the index is a vector, got the shape {index.shape}", find_user_location())
    x = as_traced(x)
    if not x.ndim:
        return of_vector(index_select, x, dim, index)
    return wrap(ops.take(x.value, _from_start(np.reshape(index, (-1,))), axis=normalize_axis(dim, x.ndim)))


def _from_start(index: Array) -> Value:
    """Indices of which none may be negative: it is out of range then, as in PyTorch."""
    return lowering.convert(index.value, I64)


def of_vector(function: Any, x: Array, dim: int, *args: Any, **kwargs: Any) -> Array:
    """`function` of a tensor without dimensions along `dim`, as of a vector of one element; so are the tensors among its arguments."""
    vectors = [np.reshape(as_traced(arg), (-1,)) if hasattr(arg, "dtype") else arg for arg in (x, dim, *args)]
    return np.reshape(function(*vectors, **kwargs), ())


def index_add(x: Array, dim: int, index: Array, source: Array, alpha: Any = 1) -> Array:
    """Add `alpha * source` to the slices of `x` along `dim` at the indices; repeated indices add up."""
    x, source = as_traced(x), as_traced(source).astype(as_traced(x).dtype)
    if not x.ndim:
        return of_vector(index_add, x, dim, index, source, alpha)
    along = normalize_axis(dim, x.ndim)
    if x.dtype == BOOL:     # a sum of bools tells whether one is True
        return index_add(x.astype(I64), dim, index, source.astype(I64), alpha) != 0
    return wrap(ops.scatter_add(x.value, _from_start(as_traced(index)), (source if alpha == 1 else alpha * source).value, axis=along))


def gather(x: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    """Take, for each position, the element of `x` whose index along `dim` is given there; `index` may be smaller than `x` in other
    dimensions. Gradients are dense, also with `sparse_grad`."""
    return _gathered(x, dim, index, np.take_along_axis)


def gather_from_start(x: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    """`gather` at indices that may not be negative: `IndexError` is raised for those."""
    return _gathered(x, dim, index, lambda part, index, axis: at_top(part, axis, index.astype(I64)))


def _gathered(x: Array, dim: int, index: Array, along_axis: Callable[..., Array]) -> Array:
    x, index = as_traced(x), as_traced(index)
    if not x.ndim:
        return np.take(x, index)
    along = _check_index_array("gather", x, dim, index)
    return along_axis(x[_corner(index.shape, along)], index, axis=along)


def scatter(x: Array, dim: int, index: Array, src: Array, reduce: Literal["add", "multiply"] | None = None) -> Array:
    """Write elements of `src` (or one number) to the positions of `x` that `index` gives along `dim`; of several writes to one position the
    last one counts. With `reduce` all are added to what is there, or multiply it."""
    if not as_traced(x).ndim:
        return of_vector(scatter, x, dim, index, src, reduce)
    if reduce == "add":
        return scatter_add(x, dim, index, src)
    if reduce not in (None, "multiply"):
        raise ArgumentError(f"scatter: reduce is 'add', 'multiply' or None, got {reduce!r}", find_user_location())
    x, index = as_traced(x), as_traced(index)
    along = _check_index_array("scatter", x, dim, index)
    written = np.copy(x)
    places = tuple(index if axis == along else _counter(index.shape, axis) for axis in range(x.ndim))
    sources = _sources("scatter", src, index, x)
    if reduce is None:
        written[places] = sources
    else:
        np.multiply.at(written, places, sources)
    return written


def scatter_add(x: Array, dim: int, index: Array, src: Array) -> Array:
    """Add elements of `src` (or one number) at the positions of `x` that `index` gives along `dim`."""
    x, index = as_traced(x), as_traced(index)
    if not x.ndim:
        return of_vector(scatter_add, x, dim, index, src)
    if x.dtype == BOOL:     # a sum of bools tells whether one is True
        return scatter_add(x.astype(I64), dim, index, as_traced(src).astype(I64)) != 0
    along = _check_index_array("scatter_add", x, dim, index)
    corner = _corner(index.shape, along)
    updates: Array = np.broadcast_to(_sources("scatter_add", src, index, x), index.shape)
    added = wrap(ops.scatter_add_along_axis(x[corner].value, _from_start(index), updates.value, axis=along))
    if added.shape == x.shape:
        return added
    written = np.copy(x)
    written[corner] = added
    return written


def _check_index_array(name: str, x: Array, dim: int, index: Array) -> int:
    along = normalize_axis(dim, x.ndim)
    if index.dtype.kind not in "iu":
        raise IndexError(f"{name}: the index has to be of integer dtype, got {index.dtype}")
    if index.ndim != x.ndim or any(index.shape[axis] > x.shape[axis] for axis in range(x.ndim) if axis != along):
        raise ShapeError(f"{name}: an index of shape {index.shape} for a tensor of shape {x.shape}: it has as many dimensions, and no "
                         f"larger ones but dimension {along}", find_user_location())
    return along


def _corner(shape: tuple[int, ...], along: int) -> tuple[slice, ...]:
    """Slices of the part of a tensor that an index of this shape reaches."""
    return tuple(slice(None) if axis == along else slice(size) for axis, size in enumerate(shape))


def _counter(shape: tuple[int, ...], axis: int) -> Array:
    """Index along one dimension, for broadcasting with the others."""
    return wrap(lowering.iota(I64, tuple(size if i == axis else 1 for i, size in enumerate(shape)), axis))


def _sources(name: str, src: Array, index: Array, x: Array) -> Array:
    """Return the part of `src` that is used, in the dtype of `x`."""
    source = as_traced(src)
    if not source.ndim:
        return source.astype(x.dtype)
    if source.ndim != index.ndim or any(have < want for have, want in zip(source.shape, index.shape, strict=True)):
        raise ShapeError(f"{name}: src of shape {source.shape} is smaller than the index of shape {index.shape}", find_user_location())
    return source[tuple(slice(size) for size in index.shape)].astype(x.dtype)


def argsort(x: Array, dim: int = -1, descending: bool = False, *, stable: bool = True) -> Array:
    """Return the indices that sort along `dim`, always stable: equal elements stay in their order, NaN counts as the largest."""
    x = as_traced(x)
    if not x.ndim:
        return wrap(lowering.constant(0, I64))
    along = normalize_axis(dim, x.ndim)
    return wrap(_order(x.value, along, descending))


def _order(value: Value, axis: int, descending: bool) -> Value:
    if not descending:
        return ops.argsort(value, axis=axis)
    backwards = ops.argsort(ops.flip(value, axes=(axis,)), axis=axis)       # then equal elements keep their order at the end
    last = lowering.constant(value.type.shape[axis] - 1, I64, value.type.shape)
    return ops.flip(ops.subtract(last, backwards), axes=(axis,))


def sort(x: Array, dim: int = -1, descending: bool = False, stable: bool = True) -> ValuesAndIndices:
    """Sort the elements along `dim`; returns them and their indices. Always stable."""
    x = as_traced(x)
    indices = argsort(x, dim, descending)
    return ValuesAndIndices(np.take_along_axis(x, indices, axis=dim) if x.ndim else x, indices)


def topk(x: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesAndIndices:
    """Return the `k` largest (or smallest) elements along `dim` in order, and their indices."""
    x = as_traced(x)
    size = x.shape[normalize_axis(dim, x.ndim)] if x.ndim else 1
    if not 0 <= k <= size:
        raise ShapeError(f"topk: k = {k} of {size} elements", find_user_location())
    indices = argsort(x, dim, descending=largest)
    if not x.ndim:
        return ValuesAndIndices(x, indices)
    first = indices[(*(slice(None),) * normalize_axis(dim, x.ndim), slice(k))]
    return ValuesAndIndices(np.take_along_axis(x, first, axis=dim), first)


def at_top(x: Array, dim: int, indices: Array) -> Array:
    """Take the elements at indices along `dim` that are not negative."""
    return wrap(ops.take_along_axis(as_traced(x).value, as_traced(indices).value, axis=dim))
