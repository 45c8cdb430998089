"""Functions that put arrays together of parts, or take parts out, at places that are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit.ir.types import BOOL, I64
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, contains_traced, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.functions.indexing import check_bounds, fixed, freeze
from adjit.tracer.functions.shapes import as_array, as_shape, moveaxis, normalize_axis, ravel, reshape_to
from adjit.tracer.registry import FUNCTIONS

_MAX_RUNS = 4
"""Runs of neighbours that are joined as slices; of more their elements are looked up."""


def _piece(x: TracedArray, begin: int | None, end: int | None, axis: int) -> TracedArray:
    return x[(*(slice(None),) * axis, slice(begin, end))]       # type: ignore[no-any-return]


def _plain(obj: Any) -> Any:
    if isinstance(obj, np.ndarray):
        freeze(obj)
    return obj


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: int | None = None) -> TracedArray:
    """Equivalent of `numpy.delete`. Of traced places it is known only from a guard how many are different."""
    x = as_array(arr)
    x, axis = (ravel(x), 0) if axis is None else (x, normalize_axis(axis, x.ndim))
    size = x.shape[axis]
    obj = as_traced(obj) if contains_traced(obj) else obj
    if not isinstance(obj, TracedArray):
        rest = np.delete(np.arange(size), _plain(obj))
        runs = np.split(rest, np.flatnonzero(np.diff(rest) != 1) + 1)
        if len(runs) > _MAX_RUNS or not rest.size:
            return FUNCTIONS[np.take](x, fixed(rest), axis=axis)     # type: ignore[no-any-return]
        return FUNCTIONS[np.concatenate]([_piece(x, run[0], run[-1] + 1, axis) for run in runs], axis=axis)   # type: ignore[no-any-return]
    if obj.dtype == np.bool_:
        return x[(*(slice(None),) * axis, FUNCTIONS[np.logical_not](obj))]       # type: ignore[no-any-return]
    if obj.size != 1:
        left = wrap(lowering.constant(True, BOOL, (size,)), scalar=False)
        left[obj] = False
        return x[(*(slice(None),) * axis, left)]       # type: ignore[no-any-return]
    place = wrap(lowering.wrapped_index(lowering.reshape(obj.value, ()), size))
    kept = wrap(lowering.iota(I64, (max(size - 1, 0),), 0), scalar=False)
    checked = FUNCTIONS[np.where](FUNCTIONS[np.greater_equal](place, 0) & FUNCTIONS[np.less](place, size), 0, size + 1)
    return FUNCTIONS[np.take](x, kept + FUNCTIONS[np.greater_equal](kept, place) + checked, axis=axis)     # type: ignore[no-any-return]


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> TracedArray:
    """Equivalent of `numpy.insert`; the places may be traced."""
    x = as_array(arr)
    x, axis = (ravel(x), 0) if axis is None else (x, normalize_axis(axis, x.ndim))
    size, new = x.shape[axis], FUNCTIONS["astype"](values, x.dtype)
    obj = as_traced(obj) if contains_traced(obj) else obj
    if isinstance(obj, TracedArray) and obj.dtype == np.bool_:
        obj = FUNCTIONS[np.flatnonzero](obj)
    if isinstance(obj, TracedArray) and obj.shape not in ((), (1,)):
        return _inserted(x, obj, new, axis)
    single = isinstance(obj, TracedArray) or (not isinstance(obj, slice) and np.size(obj) == 1 and np.asarray(obj).dtype != np.bool_)
    scalar = (isinstance(obj, TracedArray) and not obj.ndim) or (not isinstance(obj, (slice, TracedArray)) and np.ndim(obj) == 0)
    if single:
        new = reshape_to(new, (1,) * (x.ndim - new.ndim) + new.shape)
        if scalar:
            new = moveaxis(new, 0, axis)
        count = new.shape[axis]
    else:
        places = np.arange(size)[obj] if isinstance(obj, slice) else np.asarray(_plain(obj))
        count = int(places.sum()) if places.dtype == np.bool_ else places.size
    new = FUNCTIONS[np.broadcast_to](new, [count if i == axis else each for i, each in enumerate(x.shape)])
    if single and not isinstance(obj, TracedArray):
        at = int(np.reshape(obj, ()))
        check_bounds(at, size + 1 if at >= 0 else size, axis)
        return FUNCTIONS[np.concatenate]([_piece(x, None, at, axis), new, _piece(x, at, None, axis)], axis=axis)   # type: ignore[no-any-return]
    joined = FUNCTIONS[np.concatenate]([x, new], axis=axis)
    if not isinstance(obj, TracedArray):
        order = np.insert(np.arange(size), obj, np.arange(size, size + count))
        return FUNCTIONS[np.take](joined, fixed(order), axis=axis)      # type: ignore[no-any-return]
    place = wrap(lowering.wrapped_index(lowering.reshape(obj.value, ()), size))
    index = wrap(lowering.iota(I64, (size + count,), 0), scalar=False)
    less, where = FUNCTIONS[np.less], FUNCTIONS[np.where]
    source = where(less(index, place), index, where(less(index, place + count), index - place + size, index - count))
    valid = FUNCTIONS[np.greater_equal](place, 0) & FUNCTIONS[np.less_equal](place, size)
    return FUNCTIONS[np.take](joined, where(valid, source, size + count), axis=axis)     # type: ignore[no-any-return]


def _inserted(x: TracedArray, places: TracedArray, new: TracedArray, axis: int) -> TracedArray:
    """Insert at several traced places: all rows in the order of twice their place, the new ones before the old."""
    size, count = x.shape[axis], places.shape[0]
    new = FUNCTIONS[np.broadcast_to](new, [count if i == axis else each for i, each in enumerate(x.shape)])
    place = wrap(lowering.wrapped_index(places.value, size), scalar=False)
    index = wrap(lowering.iota(I64, (size,), 0), scalar=False)
    order = FUNCTIONS[np.argsort](FUNCTIONS[np.concatenate]([index * 2 + 1, place * 2]))
    valid = FUNCTIONS[np.all](FUNCTIONS[np.greater_equal](place, 0) & FUNCTIONS[np.less_equal](place, size))
    joined = FUNCTIONS[np.concatenate]([x, new], axis=axis)
    return FUNCTIONS[np.take](joined, FUNCTIONS[np.where](valid, order, size + count), axis=axis)     # type: ignore[no-any-return]


@implements(np.block)
def block(arrays: Any) -> TracedArray:
    """Equivalent of `numpy.block`."""
    depth, ndim = _depth(arrays)
    result = _joined(arrays, 1, depth, max(ndim, depth))
    return result.copy() if not depth else result       # type: ignore[no-any-return]


def _depth(arrays: Any) -> tuple[int, int]:
    """Depth of the nested lists, which has to be the same everywhere, and the largest number of dimensions."""
    if isinstance(arrays, tuple):
        raise TypeError("block: only lists can be used to arrange blocks, and np.block does not allow implicit conversion from tuple to "
                        "ndarray")
    if not isinstance(arrays, list):
        return 0, np.ndim(arrays)
    if not arrays:
        raise ValueError("block: List cannot be empty")
    parts = [_depth(part) for part in arrays]
    if len({depth for depth, _ in parts}) > 1:
        raise ValueError("block: List depths are mismatched.")
    return parts[0][0] + 1, max(ndim for _, ndim in parts)


def _joined(arrays: Any, level: int, depth: int, ndim: int) -> TracedArray:
    if not isinstance(arrays, list):
        x = as_array(arrays)
        return reshape_to(x, (1,) * (ndim - x.ndim) + x.shape)
    parts = [_joined(part, level + 1, depth, ndim) for part in arrays]
    return FUNCTIONS[np.concatenate](parts, axis=level - 1 - depth)     # type: ignore[no-any-return]


@implements(*([np.unstack] if hasattr(np, "unstack") else []))
def unstack(x: Any, /, *, axis: int = 0) -> tuple[TracedArray, ...]:
    """Equivalent of `numpy.unstack`."""
    array = as_array(x)
    if not array.ndim:
        raise ValueError("Input array must be at least 1-d.")
    return tuple(moveaxis(array, axis, 0))


@implements(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    """Equivalent of `numpy.dsplit`."""
    x = as_traced(ary)
    if x.ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return FUNCTIONS[np.split](x, indices_or_sections, 2)       # type: ignore[no-any-return]


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> TracedArray:
    """Equivalent of `numpy.resize`: elements are repeated from the start."""
    x, shape = ravel(a), as_shape(new_shape)
    if any(size < 0 for size in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    count = math.prod(shape)
    if not x.size:
        return wrap(lowering.constant(0, x.dtype, shape), scalar=False)
    if count <= x.size:
        return wrap(lowering.reshape(x[:count].value, shape), scalar=False)
    return wrap(lowering.reshape(FUNCTIONS[np.tile](x, -(-count // x.size))[:count].value, shape), scalar=False)


@implements(np.ix_)
def ix_(*args: Any) -> tuple[TracedArray, ...]:
    """Equivalent of `numpy.ix_`."""
    vectors = []
    for arg in args:
        x = as_array(arg)
        if x.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        x = FUNCTIONS["astype"](x, I64) if not x.size else x
        vectors.append(FUNCTIONS[np.flatnonzero](x) if x.dtype == np.bool_ else x)
    return tuple(FUNCTIONS[np.reshape](x, (1,) * place + (-1,) + (1,) * (len(vectors) - place - 1)) for place, x in enumerate(vectors))


def _checked(place: TracedArray, valid: TracedArray) -> TracedArray:
    """The place; at run time `IndexError` is raised where the condition does not hold."""
    size = place.size
    index = FUNCTIONS[np.where](valid, wrap(lowering.reshape(lowering.iota(I64, (size,), 0), place.shape)), size)
    return wrap(lowering.reshape(FUNCTIONS[np.take](ravel(place), ravel(index)).value, place.shape))


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """Equivalent of `numpy.ravel_multi_index`; an index that is out of bounds raises `IndexError` at run time."""
    if order not in ("C", "F"):
        raise ValueError("only 'C' or 'F' order is permitted")
    sizes = as_shape(dims)
    indices = [as_traced(index) for index in multi_index]
    if len(indices) != len(sizes):
        raise ValueError(f"parameter multi_index must be a sequence of length {len(sizes)}")
    modes = [mode] * len(sizes) if isinstance(mode, str) else list(mode)
    places: list[TracedArray] = []
    valid: Any = True
    for index, size, how in zip(indices, sizes, modes, strict=True):
        if index.dtype.kind not in "iu":
            raise TypeError("only int indices permitted")
        place = FUNCTIONS["astype"](index, I64)
        if how == "wrap":
            place = place % size
        elif how == "clip":
            place = FUNCTIONS[np.clip](place, 0, size - 1)
        elif how == "raise":
            valid = FUNCTIONS[np.greater_equal](place, 0) & FUNCTIONS[np.less](place, size) & valid
        else:
            raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {how!r})")
        places.append(place)
    steps = lowering.contiguous_strides(sizes) if order == "C" else lowering.contiguous_strides(sizes[::-1])[::-1]
    result = places[0] * steps[0]
    for place, step in zip(places[1:], steps[1:], strict=True):
        result = result + place * step
    return result if valid is True else _checked(result, FUNCTIONS[np.broadcast_to](valid, result.shape))


@implements(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """Equivalent of `numpy.unravel_index`; an index that is out of bounds raises `IndexError` at run time."""
    if order not in ("C", "F"):
        raise ValueError("only 'C' or 'F' order is permitted")
    x, sizes = as_traced(indices), as_shape(shape)
    if x.dtype.kind not in "iu":
        raise TypeError("only int indices permitted")
    place: Any = FUNCTIONS["astype"](x, I64)
    place = _checked(place, FUNCTIONS[np.greater_equal](place, 0) & FUNCTIONS[np.less](place, math.prod(sizes)))
    parts = []
    for size in reversed(sizes) if order == "C" else sizes:
        parts.append(place % max(size, 1))
        place = place // max(size, 1)
    return tuple(reversed(parts)) if order == "C" else tuple(parts)


@implements(np.tril_indices_from)
def tril_indices_from(arr: Any, k: int = 0) -> Any:
    """Equivalent of `numpy.tril_indices_from`: plain arrays."""
    return np.tril_indices(as_traced(arr).shape[-2], k, as_traced(arr).shape[-1])


@implements(np.triu_indices_from)
def triu_indices_from(arr: Any, k: int = 0) -> Any:
    """Equivalent of `numpy.triu_indices_from`: plain arrays."""
    return np.triu_indices(as_traced(arr).shape[-2], k, as_traced(arr).shape[-1])


@implements(np.diag_indices_from)
def diag_indices_from(arr: Any) -> Any:
    """Equivalent of `numpy.diag_indices_from`: plain arrays."""
    x = as_traced(arr)
    if x.ndim < 2 or len(set(x.shape)) > 1:
        raise ValueError("input array must be at least 2-d" if x.ndim < 2 else "All dimensions of input must be of equal length")
    return np.diag_indices(x.shape[0], x.ndim)
