"""Search in sorted arrays, and counting of what lies between edges."""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Value
from adjit.ir.interpreter import ArrayValue
from adjit.ir.types import F64, I64, is_float, is_inexact
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.functions.creation import linspace
from adjit.tracer.functions.indexing import fixed, freeze
from adjit.tracer.functions.shapes import as_array, ravel, reshape_to
from adjit.tracer.masked_array import known_integer
from adjit.tracer.promotion import as_operand, common_dtype
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location

_FEW = 24
"""Up to so many edges are compared with each number, all at once; more are searched by halving."""


def below(a: Value, b: Value) -> Value:
    """True where `a` is sorted before `b`: NaN comes last."""
    less = ops.less(a, b)
    if not is_inexact(a.type.dtype):
        return less
    return ops.logical_or(less, ops.logical_and(ops.isnan(b), ops.logical_not(ops.isnan(a))))


def positions_in(table: Value, x: Value, right: bool) -> Value:
    """Number of elements of a sorted vector that are below those of `x`, or not above them, if `right`."""
    size, shape = table.type.shape[0], x.type.shape

    def passed(a: Value, b: Value) -> Value:
        return ops.logical_not(below(b, a)) if right else below(a, b)

    if size <= _FEW:
        full = (*shape, size)
        spread = lowering.broadcast(lowering.reshape(x, (*shape, 1)), full)
        return ops.reduce_sum(lowering.convert(passed(lowering.broadcast(table, full), spread), I64), axes=(len(shape),))
    found = lowering.constant(0, I64, shape)
    last = ops.full_like(found, size)
    step = 1 << (size.bit_length() - 1)
    while step:
        tried = ops.add(found, ops.full_like(found, step))
        within = ops.less_equal(tried, last)
        edge = ops.take(table, ops.subtract(ops.minimum(tried, last), ops.full_like(found, 1)), axis=0)
        found = ops.select(ops.logical_and(within, passed(edge, x)), tried, found)
        step //= 2
    return found


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Equivalent of `numpy.searchsorted`; positions have no derivative."""
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got {side!r})")
    table, x = as_traced(a), as_traced(v)
    if table.ndim != 1:
        raise ValueError("object too deep for desired array" if table.ndim else "a is no vector")
    if sorter is not None:
        table = FUNCTIONS[np.take](table, sorter)
    dtype = common_dtype([as_operand(table), as_operand(x)])
    return wrap(positions_in(lowering.convert(table.value, dtype), lowering.convert(x.value, dtype), side == "right"))


@implements(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """Equivalent of `numpy.digitize`; `bins` are sorted, upwards or downwards."""
    edges, array = as_array(bins), as_traced(x)
    if edges.ndim != 1:
        raise ValueError("bins must be one-dimensional")
    if array.dtype.kind == "c":
        raise TypeError("x may not be complex")
    if not isinstance(bins, TracedArray):
        differences = np.diff(np.asarray(bins))
        if not ((differences >= 0).all() or (differences <= 0).all()):
            raise ValueError("bins must be monotonically increasing or decreasing")
    side = "left" if right else "right"
    up = searchsorted(edges, array, side)
    if edges.size < 2:
        return up
    down = edges.size - searchsorted(edges[::-1], array, side)
    return FUNCTIONS[np.where](FUNCTIONS[np.greater](edges[0], edges[-1]), down, up)[() if array.ndim == 0 else ...]


def _as_real(x: Any) -> TracedArray:
    """float64 numbers, but no parts of complex ones."""
    dtype = as_traced(x).dtype
    if dtype.kind == "c":
        raise TypeError(f"Cannot cast array data from {dtype!r} to {F64!r} according to the rule 'safe'")
    return FUNCTIONS["astype"](x, F64)      # type: ignore[no-any-return]


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> TracedArray:
    """Equivalent of `numpy.bincount`. The largest of traced numbers is guarded if it is not less than `minlength`. In the body of a loop
    the result has `minlength` elements, with `IndexError` if a number is too large."""
    length = operator.index(minlength)
    if length < 0:
        raise ValueError("'minlength' must not be negative")
    known = x.value if isinstance(x, TracedArray) else None
    if known is None or isinstance(known, ArrayValue):
        numbers = np.asarray(x if known is None else known.array)
        if numbers.size:
            freeze(numbers)
            if numbers.min() < 0:
                raise ValueError("'list' argument must have no negative elements")
            length = max(length, int(numbers.max()) + 1)
        x = fixed(numbers.astype(np.int64, casting="safe" if numbers.size else "unsafe"))
    index = as_traced(x)
    if index.ndim != 1:
        raise ValueError("object too deep for desired array" if index.ndim else "object of too small depth for desired array")
    if index.dtype.kind not in "biu":
        raise TypeError(f"Cannot cast array data from {index.dtype} to int64 according to the rule 'safe'")
    if weights is None:
        added = wrap(lowering.constant(1, I64, index.shape))
    else:
        added = _as_real(weights)
        if added.shape != index.shape:
            raise ValueError("The weights and list don't have the same length.")
    if known is not None and not isinstance(known, ArrayValue) and index.size:
        length = count_of_bins(index, length)
    return added_in_bins(index, added, length)


def added_in_bins(index: TracedArray, added: TracedArray, length: int) -> TracedArray:
    """Sums of the elements of `added` for each of `length` indices."""
    base = lowering.constant(0, added.dtype, (length,))
    places = lowering.convert(index.value, I64)
    return wrap(ops.scatter_add(base, places, added.value, axis=0) if index.size else base, scalar=False)


def count_of_bins(x: TracedArray, length: int) -> int:
    """Number of elements of a bincount of traced numbers: `length`, or more where a number is not less."""
    refusal = ("bincount of traced numbers: the length of the result depends on values", "give minlength=, a length that is large enough")
    try:
        if x.dtype.kind == "i" and known_integer(FUNCTIONS[np.any](FUNCTIONS[np.less](x, 0)), *refusal):
            raise ValueError("'list' argument must have no negative elements")
        largest = FUNCTIONS[np.max](x)
        if length and not known_integer(FUNCTIONS[np.greater_equal](largest, length), *refusal):
            return length
        return known_integer(largest, *refusal) + 1
    except UnsupportedError:
        if length:
            return length
        raise


def _width_of_bins(x: TracedArray, name: str) -> Any:
    """Width of bins by one of NumPy's rules (see `numpy.histogram_bin_edges`)."""
    size, spread = x.size, FUNCTIONS[np.ptp](x)
    if name == "auto":
        wide = FUNCTIONS[np.maximum](_width_of_bins(x, "fd"), _width_of_bins(x, "sqrt") / 2)
        return FUNCTIONS[np.minimum](wide, _width_of_bins(x, "sturges"))
    if name == "fd":
        high, low = FUNCTIONS[np.percentile](x, [75, 25])
        return 2.0 * (high - low) * size ** (-1.0 / 3.0)
    if name == "scott":
        return (24.0 * math.pi ** 0.5 / size) ** (1.0 / 3.0) * FUNCTIONS[np.std](x)
    if name == "doane":
        if size < 3:
            return as_traced(0.0)
        deviation = FUNCTIONS[np.std](x)
        error = math.sqrt(6.0 * (size - 2) / ((size + 1.0) * (size + 3)))
        skewness = FUNCTIONS[np.mean](FUNCTIONS[np.power]((x - FUNCTIONS[np.mean](x)) / deviation, 3))
        width = spread / (1.0 + math.log2(size) + FUNCTIONS[np.log2](1.0 + FUNCTIONS[np.absolute](skewness) / error))
        return FUNCTIONS[np.where](FUNCTIONS[np.greater](deviation, 0.0), width, 0.0)
    parts = {"sqrt": math.sqrt(size), "sturges": math.log2(size) + 1.0, "rice": 2.0 * size ** (1.0 / 3)}
    if name not in parts:
        raise UnsupportedError(f"bins={name!r}", find_user_location(), hint=f"auto, fd, scott, doane, {', '.join(parts)} are supported")
    return spread / parts[name]


def _number_of_bins(x: TracedArray, name: str, range: Any) -> int:
    """Number of bins by a rule, which is known from a guard."""
    x = FUNCTIONS["astype"](x, F64)
    if range is not None:
        x = x[FUNCTIONS[np.greater_equal](x, range[0]) & FUNCTIONS[np.less_equal](x, range[1])]
    if not x.size:
        return 1
    width = _width_of_bins(x, name)
    whole = FUNCTIONS[np.ptp](x) if range is None else range[1] - range[0]
    count = FUNCTIONS[np.where](FUNCTIONS[np.greater](width, 0.0), FUNCTIONS[np.ceil](whole / width), 1.0)[()]
    return known_integer(count.without_derivative(), f"bins={name!r}: the number of bins depends on values",
                         "give a number of bins, or edges")


def _edges(x: TracedArray, bins: Any, range: Any) -> TracedArray:
    """Edges of the bins of a histogram along one axis."""
    if x.dtype.kind == "c":
        raise UnsupportedError("histograms of complex numbers are not supported", find_user_location(),
                               hint="take them of z.real and z.imag, or of np.abs(z)")
    if isinstance(bins, str):
        bins = _number_of_bins(x, bins, range)
    if isinstance(bins, (list, tuple)) or np.ndim(bins):
        edges = as_array(bins)
        if not isinstance(bins, TracedArray) and (np.diff(np.asarray(bins)) < 0).any():
            raise ValueError("`bins` must increase monotonically, when an array")
        return edges        # type: ignore[no-any-return]
    count = operator.index(bins)
    if count < 1:
        raise ValueError("`bins` must be positive, when an integer")
    if range is not None:
        first, last = (as_traced(bound) for bound in range)
        if not any(isinstance(bound, TracedArray) for bound in range) and range[0] > range[1]:
            raise ValueError("max must be larger than min in range parameter.")
    elif not x.size:
        first, last = as_traced(0.0), as_traced(1.0)
    else:
        first, last = FUNCTIONS[np.min](x), FUNCTIONS[np.max](x)
    first, last = FUNCTIONS["astype"](first, F64), FUNCTIONS["astype"](last, F64)
    same = FUNCTIONS[np.equal](first, last)
    first, last = FUNCTIONS[np.where](same, first - 0.5, first), FUNCTIONS[np.where](same, last + 0.5, last)
    edges = linspace(first, last, count + 1)
    dtype = np.result_type(F64, x.dtype) if not is_float(x.dtype) else x.dtype
    return edges if dtype == F64 else FUNCTIONS["astype"](edges, dtype)     # type: ignore[no-any-return]


def _bins(x: TracedArray, edges: TracedArray) -> TracedArray:
    """Number of the bin of each element, with one bin below and one above."""
    found = searchsorted(edges, x, "right")
    return found - FUNCTIONS[np.equal](x, edges[-1]).astype(np.int64)       # type: ignore[no-any-return]


@implements(np.histogram)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple[TracedArray, TracedArray]:
    """Equivalent of `numpy.histogram`. The counts have a derivative in the weights only."""
    x = ravel(a)
    edges = _edges(x, bins, range)
    numbers = _bins(x, edges)
    added = wrap(lowering.constant(1, I64, x.shape)) if weights is None else ravel(weights)
    if added.size != x.size:
        raise ValueError("weights should have the same shape as a.")
    count = edges.size + 1
    base = lowering.constant(0, added.dtype, (count,))
    total = wrap(ops.scatter_add(base, numbers.value, added.value, axis=0) if x.size else base, scalar=False)[1:-1].copy()
    if density:
        total = total / FUNCTIONS[np.diff](edges) / FUNCTIONS[np.sum](total)
    return total, edges


@implements(np.histogram_bin_edges)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> TracedArray:
    """Equivalent of `numpy.histogram_bin_edges`."""
    return _edges(ravel(a), bins, range)


@implements(np.histogramdd)
def histogramdd(sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
                ) -> tuple[TracedArray, tuple[TracedArray, ...]]:
    """Equivalent of `numpy.histogramdd`. The counts have a derivative in the weights only."""
    if isinstance(sample, (list, tuple)):
        columns = [as_array(column) for column in sample]
    else:
        array = as_array(sample)
        columns = [array] if array.ndim == 1 else [array[:, i] for i in builtins.range(array.shape[1])]
    every = list(bins) if isinstance(bins, (list, tuple)) or np.ndim(bins) else [bins] * len(columns)
    ranges = [None] * len(columns) if range is None else range
    if len(every) != len(columns):
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    edges = [_edges(column, each, bounds) for column, each, bounds in zip(columns, every, ranges, strict=True)]
    shape = tuple(edge.size + 1 for edge in edges)
    place = as_traced(0)
    for column, edge in zip(columns, edges, strict=True):
        place = place * (edge.size + 1) + _bins(column, edge)
    added = wrap(lowering.constant(1.0, F64, columns[0].shape)) if weights is None else _as_real(weights)
    base = lowering.constant(0.0, F64, (math.prod(shape),))
    total = wrap(ops.scatter_add(base, place.value, added.value, axis=0) if added.size else base, scalar=False)
    total = reshape_to(total, shape)[(slice(1, -1),) * len(shape)].copy()
    if density:
        whole = FUNCTIONS[np.sum](total)
        for axis, edge in enumerate(edges):
            total = total / FUNCTIONS[np.diff](edge).reshape([-1 if i == axis else 1 for i in builtins.range(len(shape))])
        total = total / whole
    return total, tuple(edges)


@implements(np.histogram2d)
def histogram2d(x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
                ) -> tuple[TracedArray, TracedArray, TracedArray]:
    """Equivalent of `numpy.histogram2d`."""
    if (isinstance(bins, (list, tuple)) or np.ndim(bins)) and len(bins) not in (1, 2):
        bins = [bins, bins]
    total, edges = histogramdd([x, y], bins, range, density, weights)
    return total, edges[0], edges[1]


@implements(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Equivalent of `numpy.interp`. At a point of `xp` the derivative is that of the segment to its right."""
    array, points = _as_real(x), _as_real(xp)
    values = as_traced(fp)
    values = FUNCTIONS["astype"](values, np.result_type(values.dtype, F64))
    if points.ndim != 1 or values.ndim != 1:
        raise ValueError("Data points must be 1-D sequences")
    if points.shape != values.shape:
        raise ValueError("fp and xp are not of the same length.")
    if not points.size:
        raise ValueError("array of sample points is empty")
    if period is not None:
        if period == 0:
            raise ValueError("period must be a non-zero value")
        period = FUNCTIONS[np.absolute](as_traced(period))
        left = right = None
        array, points = array % period, points % period
        order = FUNCTIONS[np.argsort](points)
        points, values = points[order], values[order]
        points = FUNCTIONS[np.concatenate]([points[-1:] - period, points, points[:1] + period])
        values = FUNCTIONS[np.concatenate]([values[-1:], values, values[:1]])
    size = points.size
    where, take = FUNCTIONS[np.where], FUNCTIONS[np.take]
    if size > 1:
        place = FUNCTIONS[np.maximum](wrap(positions_in(points.value, array.value, True)) - 1, 0)
        segment = FUNCTIONS[np.minimum](place, size - 2)
        slopes = (values[1:] - values[:-1]) / (points[1:] - points[:-1])
        x0, y0, slope = take(points, place), take(values, place), take(slopes, segment)
        result = slope * (array - x0) + y0
        at_point = FUNCTIONS[np.equal](array, x0) & FUNCTIONS[np.isnan](result)
        other = FUNCTIONS[np.minimum](segment + 1, size - 1)
        second = slope * (array - take(points, other)) + take(values, other)
        result = where(FUNCTIONS[np.isnan](result), where(FUNCTIONS[np.isnan](second) & FUNCTIONS[np.equal](y0, take(values, other)), y0,
                                                          second), result)
        result = where(at_point, y0, result)
    else:
        result = where(FUNCTIONS[np.isnan](array), array, values[0])
    result = where(FUNCTIONS[np.less](array, points[0]), values[0] if left is None else left, result)
    result = where(FUNCTIONS[np.greater](array, points[-1]), values[-1] if right is None else right, result)
    result = where(FUNCTIONS[np.isnan](array), array, result)
    return wrap(result.value)
