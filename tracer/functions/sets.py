"""Sets: functions that sort elements to compare neighbours. How many there are is asked for only where it counts (see `MaskedArray`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.graph import Value
from adjit.ir.types import BOOL, I64
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.functions import shapes
from adjit.tracer.functions.shapes import as_array, ravel
from adjit.tracer.masked_array import MaskedArray, is_lazy, masked_array, ranks, vector_mask
from adjit.tracer.registry import FUNCTIONS


def _sorted_starts(values: Value) -> Value:
    """True for each element of a sorted vector that differs from the one before; NaN counts as equal to NaN."""
    size = values.type.shape[0]
    after, before = lowering.slice_axis(values, 0, 1, size), lowering.slice_axis(values, 0, 0, size - 1)
    differs = ops.not_equal(after, before)
    if values.type.dtype.kind == "f":
        differs = ops.logical_and(differs, ops.logical_not(ops.logical_and(ops.isnan(after), ops.isnan(before))))
    return ops.concatenate(lowering.constant(True, BOOL, (1,)), differs, axis=0)


@implements(np.unique)
def unique(ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None, *,
           equal_nan: bool = True, sorted: bool = True) -> Any:
    """Equivalent of `numpy.unique` of all elements (no `axis=`); the derivative goes to the first of equal elements."""
    x = as_array(ar)
    shapes.refuse(axis is not None and x.ndim > 1, "unique(axis=...)")
    shapes.refuse(not equal_nan, "unique(equal_nan=False)")
    flat = ravel(x)
    if is_lazy(flat) and not (return_index or return_inverse or return_counts):
        return _unique_chosen(FUNCTIONS[np.sort](flat))
    if not flat.size:
        empty = wrap(lowering.constant(0, I64, (0,)))
        return (flat, *(empty for asked in (return_index, return_inverse, return_counts) if asked)) if (
            return_index or return_inverse or return_counts) else flat
    size = flat.size
    order = ops.argsort(flat.value, axis=0)
    values = ops.take(flat.value, order, axis=0)
    starts = _sorted_starts(values)

    def chosen(value: Value) -> TracedArray:
        return FUNCTIONS["getitem"](wrap(value, scalar=False), wrap(starts, scalar=False))      # type: ignore[no-any-return]

    results = [chosen(values)]
    group = ranks(starts)
    if return_index:
        results.append(chosen(order))
    if return_inverse:
        inverse = ops.scatter_set(lowering.constant(0, I64, (size,)), order, group, axis=0)
        results.append(wrap(lowering.reshape(inverse, x.shape), scalar=False))
    if return_counts:
        counts = ops.scatter_add(lowering.constant(0, I64, (size,)), group, lowering.constant(1, I64, (size,)), axis=0)
        results.append(chosen(ops.take(counts, group, axis=0)))
    return tuple(results) if len(results) > 1 else results[0]


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
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> TracedArray:
    """Equivalent of `numpy.intersect1d`."""
    shapes.refuse(return_indices, "intersect1d(return_indices=True)")
    common = _of_unique(ar1, ar2, assume_unique, invert=False)
    common = FUNCTIONS["astype"](common, np.result_type(common.dtype, as_array(ar2).dtype))
    return FUNCTIONS[np.sort](common) if assume_unique else common      # type: ignore[no-any-return]


@implements(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> TracedArray:
    """Equivalent of `numpy.setdiff1d`."""
    return _of_unique(ar1, ar2, assume_unique, invert=True)


@implements(np.trim_zeros)
def trim_zeros(filt: Any, trim: str = "fb") -> TracedArray:
    """Equivalent of `numpy.trim_zeros` of a vector: a view."""
    x = as_array(filt)
    shapes.refuse(x.ndim != 1, "trim_zeros of an array that is no vector")
    there = lowering.convert(vector_mask(x), I64)
    kept = lowering.constant(True, BOOL, x.shape)
    for reverse, letter in ((False, "f"), (True, "b")):
        if letter in trim.lower():
            seen = ops.cumsum(there, axis=0, reverse=reverse)
            kept = ops.logical_and(kept, ops.greater(seen, ops.full_like(seen, 0)))
    result = masked_array(x[:], kept)
    result.through = True       # NumPy has a view here
    return result


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
