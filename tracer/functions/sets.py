"""Sets: functions that sort elements to compare neighbours. How many there are is asked for only where it counts (see `MaskedArray`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.graph import Value
from adjit.ir.types import BOOL, I64, Shape, is_inexact
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.functions import shapes
from adjit.tracer.functions.shapes import as_array, ravel
from adjit.tracer.masked_array import MaskedArray, is_lazy, known_integer, masked_array, ranks, vector_mask
from adjit.tracer.registry import FUNCTIONS


def _sorted_starts(values: Value, equal_nan: bool = True) -> Value:
    """True for each element of a sorted vector that differs from the one before; NaN counts as equal to NaN, unless it is not to."""
    size = values.type.shape[0]
    after, before = lowering.slice_axis(values, 0, 1, size), lowering.slice_axis(values, 0, 0, size - 1)
    differs = ops.not_equal(after, before)
    if is_inexact(values.type.dtype) and equal_nan:
        differs = ops.logical_and(differs, ops.logical_not(ops.logical_and(ops.isnan(after), ops.isnan(before))))
    return ops.concatenate(lowering.constant(True, BOOL, (1,)), differs, axis=0)


@implements(np.unique)
def unique(ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None, *,
           equal_nan: bool = True, sorted: bool = True) -> Any:
    """Equivalent of `numpy.unique`; the derivative goes to the first of equal elements."""
    x = as_array(ar)
    if axis is not None and x.ndim > 1:
        return _unique_rows(x, shapes.normalize_axis(axis, x.ndim), return_index, return_inverse, return_counts)
    flat = ravel(x)
    if is_lazy(flat) and equal_nan and not (return_index or return_inverse or return_counts):
        return _unique_chosen(FUNCTIONS[np.sort](flat))
    if not flat.size:
        empty = wrap(lowering.constant(0, I64, (0,)))
        return (flat, *(empty for asked in (return_index, return_inverse, return_counts) if asked)) if (
            return_index or return_inverse or return_counts) else flat
    size = flat.size
    order = ops.argsort(flat.value, axis=0)
    values = ops.take(flat.value, order, axis=0)
    starts = _sorted_starts(values, equal_nan)
    return _results(values, order, starts, x.shape if axis is None else (size,), return_index, return_inverse, return_counts)


def _results(values: Value, order: Value, starts: Value, shape: Shape, return_index: bool, return_inverse: bool, return_counts: bool
             ) -> Any:
    """The first of equal rows, and where they were, of rows in order."""
    size = order.type.shape[0]

    def chosen(value: Value) -> TracedArray:
        return FUNCTIONS["getitem"](wrap(value, scalar=False), wrap(starts, scalar=False))      # type: ignore[no-any-return]

    results = [chosen(values)]
    group = ranks(starts)
    if return_index:
        results.append(chosen(order))
    if return_inverse:
        inverse = ops.scatter_set(lowering.constant(0, I64, (size,)), order, group, axis=0)
        results.append(wrap(lowering.reshape(inverse, shape), scalar=False))
    if return_counts:
        counts = ops.scatter_add(lowering.constant(0, I64, (size,)), group, lowering.constant(1, I64, (size,)), axis=0)
        results.append(chosen(ops.take(counts, group, axis=0)))
    return tuple(results) if len(results) > 1 else results[0]


def lexicographic(keys: list[TracedArray]) -> TracedArray:
    """Order of the places by the last vector, then the one before, and so on: each sort keeps the order of equal elements."""
    order = FUNCTIONS[np.argsort](keys[0], axis=-1)
    for key in keys[1:]:
        again = FUNCTIONS[np.argsort](FUNCTIONS[np.take_along_axis](key, order, axis=-1), axis=-1)
        order = FUNCTIONS[np.take_along_axis](order, again, axis=-1)
    return order        # type: ignore[no-any-return]


def _unique_rows(x: TracedArray, axis: int, return_index: bool, return_inverse: bool, return_counts: bool) -> Any:
    """Unique slices along an axis, in lexicographic order."""
    front = shapes.moveaxis(x, axis, 0)
    size = front.shape[0]
    rows = shapes.reshape_to(wrap(front.value, scalar=False), (size, math.prod(front.shape[1:])))
    shapes.refuse(not rows.size, "unique(axis=...) of no elements")
    order = lexicographic([rows[:, column] for column in reversed(range(rows.shape[1]))])
    ordered = FUNCTIONS[np.take](rows, order, axis=0)
    different = FUNCTIONS[np.any](FUNCTIONS[np.not_equal](ordered[1:], ordered[:-1]), axis=1)
    starts = ops.concatenate(lowering.constant(True, BOOL, (1,)), different.value, axis=0)
    values = lowering.reshape(ordered.value, front.shape)
    found = _results(values, order.value, starts, (size,), return_index, return_inverse, return_counts)
    first, *others = found if isinstance(found, tuple) else (found,)
    first = shapes.moveaxis(first, 0, axis)
    return (first, *others) if others else first


@implements(np.lexsort)
def lexsort(keys: Any, axis: int = -1) -> TracedArray:
    """Equivalent of `numpy.lexsort`."""
    every = [as_array(key) for key in (keys if isinstance(keys, (list, tuple)) else list(as_array(keys)))]
    if not every:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if not every[0].ndim:
        return wrap(lowering.constant(0, I64, ()), scalar=False)
    dim = shapes.normalize_axis(axis, every[0].ndim)
    return shapes.moveaxis(lexicographic([shapes.moveaxis(key, dim, -1) for key in every]), -1, dim)


_UNIQUE_KINDS: dict[str, dict[str, bool]] = {
    "unique_all": {"return_index": True, "return_inverse": True, "return_counts": True}, "unique_counts": {"return_counts": True},
    "unique_inverse": {"return_inverse": True}, "unique_values": {}}


def _unique_kind(name: str, options: dict[str, bool]) -> None:
    numpys = getattr(np, name)

    def function(x: Any, /) -> Any:
        found = unique(x, equal_nan=False, **options)
        return type(numpys(np.zeros(1)))(*found) if options else found

    function.__name__, function.__doc__ = name, f"Equivalent of `numpy.{name}`."
    implements(numpys)(function)


for _name, _options in _UNIQUE_KINDS.items():
    if hasattr(np, _name):
        _unique_kind(_name, _options)


def _unique_chosen(x: MaskedArray) -> TracedArray:
    """First of equal elements of a sorted array, whose chosen elements come first."""
    values = x.whole.value
    return masked_array(x.whole, ops.logical_and(_sorted_starts(values), x.mask) if values.type.size else x.mask)


@implements(np.union1d)
def union1d(ar1: Any, ar2: Any) -> TracedArray:
    """Equivalent of `numpy.union1d`."""
    return FUNCTIONS[np.unique](FUNCTIONS[np.concatenate]([ar1, ar2], axis=None))       # type: ignore[no-any-return]


def _of_unique(ar1: Any, ar2: Any, assume_unique: bool, invert: bool) -> TracedArray:
    x = ravel(ar1) if assume_unique else FUNCTIONS[np.unique](ar1)
    return x[FUNCTIONS[np.isin](x, ar2, invert=invert)]     # type: ignore[no-any-return]


@implements(np.intersect1d)
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """Equivalent of `numpy.intersect1d`."""
    if return_indices:
        return _intersection(ar1, ar2, assume_unique)
    common = _of_unique(ar1, ar2, assume_unique, invert=False)
    common = FUNCTIONS["astype"](common, np.result_type(common.dtype, as_array(ar2).dtype))
    return FUNCTIONS[np.sort](common) if assume_unique else common      # type: ignore[no-any-return]


def _intersection(ar1: Any, ar2: Any, assume_unique: bool) -> tuple[TracedArray, TracedArray, TracedArray]:
    """Common elements, and where they are in both."""
    (x, of_x), (y, of_y) = ((ravel(ar), None) if assume_unique else FUNCTIONS[np.unique](ar, return_index=True) for ar in (ar1, ar2))
    joined = FUNCTIONS[np.concatenate]((x, y))
    order = FUNCTIONS[np.argsort](joined)
    ordered = FUNCTIONS[np.take](joined, order)
    twice = FUNCTIONS[np.equal](ordered[1:], ordered[:-1])
    first, second = order[:-1][twice], order[1:][twice] - x.size
    if of_x is not None and of_y is not None:
        first, second = of_x[first], of_y[second]
    return ordered[:-1][twice], first, second


@implements(np.setxor1d)
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> TracedArray:
    """Equivalent of `numpy.setxor1d`."""
    x, y = (ravel(ar) if assume_unique else FUNCTIONS[np.unique](ar) for ar in (ar1, ar2))
    ordered = FUNCTIONS[np.sort](FUNCTIONS[np.concatenate]((x, y)))
    if not ordered.size:
        return ordered      # type: ignore[no-any-return]
    end = lowering.constant(True, BOOL, (1,))
    different = ops.concatenate(end, FUNCTIONS[np.not_equal](ordered[1:], ordered[:-1]).value, end, axis=0)
    flags = wrap(different, scalar=False)
    return ordered[flags[1:] & flags[:-1]]      # type: ignore[no-any-return]


@implements(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> TracedArray:
    """Equivalent of `numpy.setdiff1d`."""
    return _of_unique(ar1, ar2, assume_unique, invert=True)


@implements(np.trim_zeros)
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> TracedArray:
    """Equivalent of `numpy.trim_zeros`: a view. Of arrays of several dimensions it is known only from a guard what is left."""
    x = as_array(filt)
    ends = trim.lower()
    if ends not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    if x.ndim != 1:
        return _trimmed(x, ends, shapes.normalize_axes(axis, x.ndim))
    there = lowering.convert(vector_mask(x), I64)
    kept = lowering.constant(True, BOOL, x.shape)
    for reverse, letter in ((False, "f"), (True, "b")):
        if letter in ends:
            seen = ops.cumsum(there, axis=0, reverse=reverse)
            kept = ops.logical_and(kept, ops.greater(seen, ops.full_like(seen, 0)))
    result = masked_array(x[:], kept)
    result.through = True       # NumPy has a view here
    return result


def _trimmed(x: TracedArray, ends: str, axes: tuple[int, ...]) -> TracedArray:
    there = FUNCTIONS[np.not_equal](x, 0)
    index: list[slice] = [slice(None)] * x.ndim
    asked = ("trim_zeros of an array of several dimensions has a shape that depends on values", "give an array of one dimension")
    for axis in axes:
        others = tuple(i for i in range(x.ndim) if i != axis)
        line = FUNCTIONS[np.any](there, axis=others)
        if not known_integer(FUNCTIONS[np.any](line), *asked):
            index[axis] = slice(0, 0)
            continue
        first = known_integer(FUNCTIONS[np.argmax](line), *asked) if "f" in ends else 0
        last = known_integer(FUNCTIONS[np.argmax](line[::-1]), *asked) if "b" in ends else 0
        index[axis] = slice(first, x.shape[axis] - last)
    return x[tuple(index)]      # type: ignore[no-any-return]


@implements(np.isin)
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: str | None = None) -> TracedArray:
    """Equivalent of `numpy.isin`: by search in the sorted elements."""
    x, table = as_array(element), ravel(test_elements)
    if not table.size:
        found = wrap(lowering.constant(False, BOOL, x.shape), scalar=False)
    else:
        ordered = FUNCTIONS[np.sort](table)
        dtype = np.result_type(x.dtype, table.dtype)
        place = FUNCTIONS[np.minimum](FUNCTIONS[np.searchsorted](FUNCTIONS["astype"](ordered, dtype), FUNCTIONS["astype"](x, dtype)),
                                      table.size - 1)
        found = FUNCTIONS[np.equal](FUNCTIONS[np.take](ordered, place), x)
    return FUNCTIONS[np.logical_not](found) if invert else found        # type: ignore[no-any-return]
