"""Functions that write into an array: by places, by masks, along an axis, on the diagonal; sorted in part."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ArgumentError, ShapeError
from adjit.ir.graph import Value
from adjit.ir.ops.cumulative import MIN_SEARCHED
from adjit.ir.types import BOOL, I64
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, wrap
from adjit.tracer.array_errors import scalar_refused
from adjit.tracer.dispatch import implements
from adjit.tracer.functions.selecting import argsort, sort
from adjit.tracer.functions.shapes import as_array, normalize_axis, ravel, reshape_to
from adjit.tracer.functions.ufuncs import store
from adjit.tracer.masked_array import ranks
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location


def _flat(x: TracedArray) -> TracedArray:
    """A new vector of the elements of `x`."""
    return wrap(lowering.reshape(x.value, (x.size,)), scalar=False)


def _repeated(values: Any, count: int, dtype: np.dtype) -> TracedArray:
    """Return `count` values, repeated from the start as often as needed."""
    v = FUNCTIONS["astype"](ravel(values), dtype)
    return FUNCTIONS[np.resize](v, (count,)) if v.size != count else v      # type: ignore[no-any-return]


def _replace(a: Any, flat: TracedArray, name: str) -> None:
    """Store the elements of `flat` in the array `a`."""
    store(reshape_to(flat, np.shape(a) if isinstance(a, np.ndarray) else a.shape), a, "unsafe", name)


@implements(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Equivalent of `numpy.put`."""
    x = as_array(a)
    index = FUNCTIONS["astype"](ravel(ind), I64)
    if not index.size or (isinstance(v, (list, tuple, np.ndarray, TracedArray)) and not np.size(v)):
        return
    if not x.size:
        raise IndexError("cannot replace elements of an empty array")
    if mode == "wrap":
        index = index % x.size
    elif mode == "clip":
        index = FUNCTIONS[np.clip](index, 0, x.size - 1)
    elif mode != "raise":
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    flat = _flat(x)
    flat[index] = _repeated(v, index.size, x.dtype)
    _replace(a, flat, "put")


@implements(np.putmask)
def putmask(a: Any, /, mask: Any, values: Any) -> None:
    """Equivalent of `numpy.putmask`: element i gets element i of the repeated values."""
    x, chosen = as_array(a), as_array(mask)
    if chosen.size != x.size:
        raise ShapeError(f"putmask: mask and data must be the same size, got {chosen.shape} for {x.shape}", find_user_location())
    if not np.size(values):
        return
    _replace(a, FUNCTIONS[np.where](_flat(chosen), _repeated(values, x.size, x.dtype), _flat(x)), "putmask")


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    """Equivalent of `numpy.place`: the k-th true element gets value k of the repeated values."""
    x, chosen = as_array(arr), as_array(mask)
    size = math.prod(x.shape)
    if math.prod(chosen.shape) != size:
        raise ShapeError(f"place: mask and data must be the same size, got {chosen.shape} for {x.shape}", find_user_location())
    values = FUNCTIONS["astype"](ravel(vals), x.dtype)
    if not values.size:
        raise ArgumentError("place: cannot insert from an empty array", find_user_location())
    if not size:
        return
    there = lowering.convert(_flat(chosen).value, BOOL)
    order = ops.maximum(ranks(there), lowering.constant(0, I64, (size,)))
    number = ops.remainder(order, lowering.constant(values.size, I64, (size,)))
    _replace(arr, FUNCTIONS[np.where](wrap(there, scalar=False), wrap(ops.take(values.value, number, axis=0)), _flat(x)), "place")


@implements(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Equivalent of `numpy.fill_diagonal`."""
    x = as_array(a)
    if x.ndim < 2:
        raise ValueError("array must be at least 2-d")
    end = None
    if x.ndim == 2:
        step = x.shape[1] + 1
        end = x.shape[1] * x.shape[1] if not wrap else None
    else:
        if len(set(x.shape)) > 1:
            raise ValueError("All dimensions of input must be of equal length")
        step = 1 + sum(x.shape[0] ** i for i in range(1, x.ndim))
    flat = _flat(x)
    if flat[:end:step].size:
        flat[:end:step] = _repeated(val, flat[:end:step].size, x.dtype)
    _replace(a, flat, "fill_diagonal")


@implements(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None, mode: str = "raise") -> None:
    """Equivalent of `numpy.put_along_axis`."""
    x, index = as_array(arr), as_array(indices)
    target = wrap(x.value, scalar=False) if axis is not None else _flat(x)
    dim = normalize_axis(0 if axis is None else axis, target.ndim)
    if index.ndim != target.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    shape = [size if i == dim else target.shape[i] for i, size in enumerate(index.shape)]
    grids = [wrap(lowering.reshape(lowering.iota(I64, (size,), 0), [size if i == j else 1 for j in range(target.ndim)]))
             for i, size in enumerate(shape)]
    grids[dim] = index
    target[tuple(grids)] = values
    _replace(arr, target, "put_along_axis")


@implements(np.partition)
def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> TracedArray:
    """Equivalent of `numpy.partition`."""
    x = as_array(a)
    _check_kth(x, kth, axis)
    if order is None and _is_searched(x, kth, axis):
        x, dim = (ravel(x), 0) if axis is None else (x, normalize_axis(axis, x.ndim))
        return wrap(ops.partition(x.value, _pivot(x, kth, dim), axis=dim))
    return sort(x, axis, None, order)


@implements(np.argpartition)
def argpartition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> TracedArray:
    """Equivalent of `numpy.argpartition`."""
    x = as_array(a)
    _check_kth(x, kth, axis)
    if order is None and _is_searched(x, kth, axis):
        x, dim = (ravel(x), 0) if axis is None else (x, normalize_axis(axis, x.ndim))
        return wrap(ops.argpartition(x.value, _pivot(x, kth, dim), axis=dim))
    return argsort(x, axis, None, order)


def _is_searched(x: TracedArray, kth: Any, axis: int | None) -> bool:
    """True if the element at the one place is looked for; else the whole array is sorted, which is a partition at every place."""
    size = x.size if axis is None else x.shape[normalize_axis(axis, x.ndim)]
    return not isinstance(kth, TracedArray) and np.size(kth) == 1 and size >= MIN_SEARCHED and x.dtype.kind != "c"


def _pivot(x: TracedArray, kth: Any, axis: int) -> Value:
    """The element at the place."""
    return ops.sort(x.value, axis=axis, first=int(np.asarray(kth).reshape(())) % x.shape[axis], count=1)


def _check_kth(x: TracedArray, kth: Any, axis: int | None) -> None:
    size = x.size if axis is None else x.shape[normalize_axis(axis, x.ndim)]
    for k in np.atleast_1d(np.asarray(kth)).tolist() if x.size and not isinstance(kth, TracedArray) else ():
        if not -size <= k < size:
            raise ValueError(f"kth(={k}) out of bounds ({size})")


class FlatElements:
    """`x.flat`: the elements in C order; indices give copies, assignments write to `x`."""

    def __init__(self, base: TracedArray):
        if base.scalar and base.writable:
            raise scalar_refused(f"'numpy.{base.dtype.type.__name__}' object has no elements to write to")
        self.base = base
        self._next = 0

    def __len__(self) -> int:
        return self.base.size

    def __getitem__(self, index: Any) -> TracedArray:
        return _flat(self.base)[index].copy()       # type: ignore[no-any-return]

    def __setitem__(self, index: Any, new: Any) -> None:
        flat = _flat(self.base)
        chosen = flat[index]
        flat[index] = new if np.ndim(new) == 0 else _repeated(new, chosen.size, flat.dtype).reshape(chosen.shape)
        self.base.assign(lowering.reshape(flat.value, self.base.shape))

    def __iter__(self) -> Iterator[TracedArray]:
        return (self[index] for index in range(len(self)))

    def __next__(self) -> TracedArray:
        if self._next == len(self):
            raise StopIteration
        self._next += 1
        return self[self._next - 1]

    def copy(self) -> TracedArray:
        return _flat(self.base)


FUNCTIONS["flat"] = FlatElements
