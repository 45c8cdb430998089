"""Order statistics, reductions that leave NaN out, covariances."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.ops.cumulative import MIN_SEARCHED
from adjit.ir.types import F64, I64, is_complex, is_float, is_inexact
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, contains_traced, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.functions import reductions
from adjit.tracer.functions.composites import floating
from adjit.tracer.functions.masking import first, rule
from adjit.tracer.functions.selecting import sort
from adjit.tracer.functions.shapes import as_array, expand_dims, moveaxis, normalize_axes, ravel, reshape_to
from adjit.tracer.functions.ufuncs import store
from adjit.tracer.masked_array import is_lazy, traced_count
from adjit.tracer.registry import FUNCTIONS

_INTERPOLATED = {"interpolated_inverted_cdf": (0.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0),
                 "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8)}
"""Alpha and beta of methods of quantiles (Hyndman and Fan, Sample Quantiles in Statistical Packages, 1996)."""

_STEPS = {"inverted_cdf": 1.0, "closest_observation": 1.5, "averaged_inverted_cdf": 1.0}
"""Methods that choose an element, or the middle of two, and what is subtracted from its place."""

_CHOOSING = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")
"""Methods whose results are elements."""

_FEW = 4
"""Number of quantiles up to which each is looked for, rather than all elements sorted."""

_METHODS = ("linear", "lower", "higher", "nearest", "midpoint", *_INTERPOLATED, *_STEPS)


def _apply(ufunc: Any, *operands: Any) -> Any:
    """Apply a ufunc to traced arrays in the trace, to plain numbers at once."""
    return FUNCTIONS[ufunc](*operands) if any(isinstance(x, TracedArray) for x in operands) else ufunc(*operands)


def _by_definition(ordered: _Ordered, q: Any, method: str, count: Any) -> TracedArray:
    """Quantile by one of the methods with a place of its own, along the first axis of sorted rows."""
    if isinstance(count, TracedArray):
        count = FUNCTIONS["astype"](count, q.dtype)
    if method in _STEPS:
        place = count * q - _STEPS[method]
    else:
        alpha, beta = _INTERPOLATED[method]
        place = count * q + (alpha + q * (1.0 - alpha - beta)) - 1.0
    low = _apply(np.floor, place)
    part = place - low
    last = _apply(np.maximum, count - 1, 0)

    def element(position: Any) -> TracedArray:
        within = _apply(np.minimum, _apply(np.maximum, position, 0), last)
        return _at(ordered, FUNCTIONS["astype"](within, np.int64) if isinstance(within, TracedArray) else int(within))

    if method in ("inverted_cdf", "closest_observation"):
        whole = _apply(np.equal, part, 0)
        if method == "closest_observation":     # of two that are as close, the one with an even number, counted from 1
            whole = _apply(np.logical_and, whole, _apply(np.equal, _apply(np.remainder, low, 2), 1))
        return element(_apply(np.where, whole, low, low + 1))
    if method == "averaged_inverted_cdf":
        part = _apply(np.where, _apply(np.equal, part, 0), 0.5, 1.0)
    part = FUNCTIONS["astype"](part, q.dtype) if isinstance(part, TracedArray) else q.dtype.type(part)
    return _between(element(low), element(low + 1), part)


def _by_weights(ordered: TracedArray, cumulative: TracedArray, q: Any, count: Any) -> TracedArray:
    """The first element up to which the weights make a part `q` of all."""
    below = FUNCTIONS[np.sum](FUNCTIONS[np.less](cumulative, q), axis=0)
    return _at(ordered, _apply(np.minimum, below, count - 1))


def _weight_rows(weights: Any, x: TracedArray, axis: Any, method: str) -> TracedArray:
    """Weights, which have the shape of `x` or of its reduced axes, in the rows of `_rows`."""
    if method != "inverted_cdf":
        raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
    w = as_array(weights)
    if not isinstance(weights, TracedArray) and np.any(np.less(weights, 0)):
        raise ValueError("Weights must be non-negative.")
    if w.shape != x.shape:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        axes = normalize_axes(axis, x.ndim)
        if w.shape != tuple(x.shape[i] for i in axes):
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        w = FUNCTIONS[np.transpose](w, sorted(range(w.ndim), key=axes.__getitem__))
        w = FUNCTIONS[np.broadcast_to](expand_dims(w, tuple(i for i in range(x.ndim) if i not in axes)), x.shape)
    return _rows(w, axis)[0]


def _rows(a: Any, axis: Any) -> tuple[TracedArray, tuple[int, ...]]:
    """Return the array with the reduced axes as one in front, and these axes."""
    x = as_array(a)
    axes = normalize_axes(axis, x.ndim)
    front = moveaxis(x, axes, range(len(axes))) if axes else x[None]
    return reshape_to(front, (math.prod(x.shape[i] for i in axes), *(front.shape[len(axes):] if axes else x.shape))), axes


class _Ordered:
    """Sorted rows, of which few long ones are looked for one by one."""

    def __init__(self, rows: TracedArray, few: bool) -> None:
        self._rows, self._few, self.dtype = rows, few and rows.shape[0] >= MIN_SEARCHED, rows.dtype

    @property
    def whole(self) -> TracedArray:
        return sort(self._rows, 0)

    def part(self, first: int, count: int) -> TracedArray:
        """`count` rows from `first` on."""
        return wrap(ops.sort(self._rows.value, axis=0, first=first, count=count)) if self._few else self.whole[first:first + count]


def _at(ordered: _Ordered | TracedArray, place: Any) -> TracedArray:
    """Rows of `ordered` at places (numbers, or an array that has a place for each element of a row)."""
    if isinstance(ordered, _Ordered):
        if not isinstance(place, TracedArray):
            return ordered.part(int(place), 1)[0]       # type: ignore[no-any-return]
        ordered = ordered.whole
    if not isinstance(place, TracedArray):
        return ordered[int(place)]      # type: ignore[no-any-return]
    if not place.ndim:
        return FUNCTIONS[np.take](ordered, place, axis=0)       # type: ignore[no-any-return]
    return FUNCTIONS[np.take_along_axis](ordered, place[None], axis=0)[0]       # type: ignore[no-any-return]


def _between(low: TracedArray, high: TracedArray, t: Any) -> TracedArray:
    """NumPy's interpolation, which is exact at both ends."""
    difference = high - low
    near = FUNCTIONS[np.greater_equal](t, 0.5)
    return FUNCTIONS[np.where](near, high - difference * (1 - t), low + difference * t)     # type: ignore[no-any-return]


def _quantile_of(ordered: Any, q: Any, method: str, count: Any) -> TracedArray:
    """One quantile along the first axis of sorted rows, of which the first `count` count."""
    if method in _INTERPOLATED or method in _STEPS:
        return _by_definition(ordered, q, method, count)
    maximum, minimum = FUNCTIONS[np.maximum], FUNCTIONS[np.minimum]
    if isinstance(count, int) and not isinstance(q, TracedArray):
        place: Any = (count - 1) * q
        low = np.floor(place)
        places = {"linear": low, "lower": low, "higher": np.ceil(place), "nearest": np.rint(place), "midpoint": low}[method]
        step = place - low if method == "linear" else place.dtype.type(0.5 if low != np.ceil(place) else 0)
        start = int(min(max(places, 0), count - 1))
        if method in ("linear", "midpoint"):
            pair, t = ordered.part(start, min(2, count - start)), place.dtype.type(step)
            before, after = pair[0], pair[-1]
            difference = after - before
            return after - difference * (1 - t) if t >= 0.5 else before + difference * t    # type: ignore[no-any-return]
        return _at(ordered, start)
    last = maximum(count - 1, 0)
    place = last * as_traced(q)
    low = FUNCTIONS[np.floor](place)
    starts = {"higher": FUNCTIONS[np.ceil](place), "nearest": FUNCTIONS[np.rint](place)}.get(method, low)
    start = minimum(FUNCTIONS["astype"](starts, np.int64), last)
    if method not in ("linear", "midpoint"):
        return _at(ordered, start)
    t = place - low if method == "linear" else FUNCTIONS[np.where](FUNCTIONS[np.equal](place, low), 0.0, 0.5)
    if isinstance(q, np.generic):
        t = FUNCTIONS["astype"](t, q.dtype)
    return _between(_at(ordered, start), _at(ordered, minimum(start + 1, last)), t)


def _quantiles(a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: Any, ignore_nan: bool, name: str, weights: Any = None) -> Any:
    if method not in _METHODS:
        raise ValueError(f"{method!r} is not a valid method.")       # NumPy's message lists them
    x = as_array(a)
    if x.dtype.kind == "c":
        raise TypeError("a must be an array of real numbers")
    if ignore_nan and not x.size:
        return FUNCTIONS[np.nanmean](x, axis, out=out, keepdims=keepdims)
    q = as_array(q) if contains_traced(q) else q
    if not isinstance(q, TracedArray) and not ((np.asarray(q) >= 0).all() and (np.asarray(q) <= 1).all()):
        raise ValueError("Quantiles must be in the range [0, 1]")
    dtype = x.dtype if is_float(x.dtype) or method in _CHOOSING else np.dtype(F64)
    rows, axes = _rows(FUNCTIONS["astype"](x, dtype), axis)
    if not rows.shape[0]:
        raise IndexError(f"{name} of no elements")
    missing = FUNCTIONS[np.isnan](rows)
    count: Any = rows.shape[0]
    if weights is None:
        ordered: Any = _Ordered(rows, not ignore_nan and not isinstance(q, TracedArray) and np.size(q) <= _FEW)
    else:
        w, order = _weight_rows(weights, x, axis, method), FUNCTIONS[np.argsort](rows, axis=0)
        w = FUNCTIONS[np.where](missing, 0, w) if ignore_nan else w
        ordered = FUNCTIONS[np.take_along_axis](rows, order, axis=0)
        cumulative = FUNCTIONS[np.cumsum](FUNCTIONS[np.take_along_axis](w, order, axis=0), axis=0)
        unusable = FUNCTIONS[np.equal](cumulative[-1], 0) | ~FUNCTIONS[np.isfinite](cumulative[-1])
        cumulative = cumulative / cumulative[-1]
        cumulative = FUNCTIONS[np.where](FUNCTIONS[np.equal](cumulative, 0), -1.0, cumulative)     # nothing is chosen by a weight of 0
    if ignore_nan:
        count = FUNCTIONS[np.sum](~missing, axis=0)
        nothing = FUNCTIONS[np.equal](count, 0)
    else:
        nothing = FUNCTIONS[np.any](missing, axis=0)
    nothing = nothing if weights is None else nothing | unusable        # NumPy raises ValueError, which traced values cannot decide on

    def one(number: Any) -> TracedArray:
        result = _quantile_of(ordered, number, method, count) if weights is None else _by_weights(ordered, cumulative, number, count)
        return FUNCTIONS[np.where](nothing, dtype.type(np.nan), result) if is_float(dtype) else result    # type: ignore[no-any-return]

    if isinstance(q, TracedArray):
        levels: Any = q
    else:
        is_plain = isinstance(q, (int, float)) and not isinstance(q, np.generic)
        levels = np.asarray(q, dtype if is_float(dtype) else F64) if is_plain else np.asarray(q)
        levels = levels.astype(F64) if not is_float(levels.dtype) else levels
    flat = [one(number) for number in (ravel(levels) if isinstance(levels, TracedArray) else levels.reshape(-1))]
    shape = levels.shape
    result = FUNCTIONS[np.stack](flat) if shape else flat[0]
    if shape:
        result = reshape_to(result, (*shape, *result.shape[1:]))
    if keepdims is True:
        result = expand_dims(result, tuple(len(shape) + axis for axis in sorted(axes)))
    return store(wrap(result.value), out, name=name)


def _scaled(q: Any, x: Any) -> Any:
    """Percentiles as quantiles."""
    q = as_array(q) if contains_traced(q) else q
    dtype = as_traced(x).dtype
    hundred = dtype.type(100) if is_float(dtype) else 100
    return FUNCTIONS[np.true_divide](q, hundred) if isinstance(q, TracedArray) else np.true_divide(q, hundred) if np.ndim(q) or isinstance(
        q, (np.generic, np.ndarray)) else dtype.type(q / 100) if is_float(dtype) else q / 100


@implements(np.quantile)
def quantile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
             keepdims: Any = False, *, weights: Any = None) -> Any:
    """Equivalent of `numpy.quantile`."""
    return _quantiles(a, q, axis, out, method, keepdims, False, "quantile", weights)


@implements(np.percentile)
def percentile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
               keepdims: Any = False, *, weights: Any = None) -> Any:
    """Equivalent of `numpy.percentile`."""
    return _quantiles(a, _scaled(q, a), axis, out, method, keepdims, False, "percentile", weights)


@implements(np.nanquantile)
def nanquantile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
                keepdims: Any = False, *, weights: Any = None) -> Any:
    """Equivalent of `numpy.nanquantile`."""
    return _quantiles(a, q, axis, out, method, keepdims, True, "nanquantile", weights)


@implements(np.nanpercentile)
def nanpercentile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
                  keepdims: Any = False, *, weights: Any = None) -> Any:
    """Equivalent of `numpy.nanpercentile`."""
    return _quantiles(a, _scaled(q, a), axis, out, method, keepdims, True, "nanpercentile", weights)


def _median(a: Any, axis: Any, out: Any, keepdims: Any, ignore_nan: bool, name: str) -> Any:
    x = as_array(a)
    rows, axes = _rows(FUNCTIONS["astype"](x, x.dtype if is_inexact(x.dtype) else F64), axis)
    size = rows.shape[0]
    if not size:
        result = FUNCTIONS[np.full_like](rows, np.nan, shape=rows.shape[1:])
    else:
        missing = FUNCTIONS[np.isnan](rows)
        if ignore_nan:
            # In pairs, NaN counts as -inf and inf: so the middle is where it is without them, or one place lower if their number is odd.
            number = FUNCTIONS[np.cumsum](missing, axis=0)
            even = FUNCTIONS[np.equal](number % 2, 0)
            filled = FUNCTIONS[np.where](missing, FUNCTIONS[np.where](even, rows.dtype.type(-np.inf), rows.dtype.type(np.inf)), rows)
            first = max(size - 3, 0) // 2
            places = wrap(ops.sort(filled.value, axis=0, first=first, count=size // 2 - first + 1))
            even, nothing = even[-1], FUNCTIONS[np.equal](number[-1], size)
            low = FUNCTIONS[np.where](even, (size - 1) // 2, max(size - 2, 0) // 2)
            high = FUNCTIONS[np.where](even, size // 2, (size - 1) // 2)
            middle = _at(places, low - first), _at(places, high - first)
        else:
            low, high = (size - 1) // 2, size // 2
            pair = wrap(ops.sort(rows.value, axis=0, first=low, count=high - low + 1))
            middle, nothing = (pair[0], pair[-1]), FUNCTIONS[np.any](missing, axis=0)
        result = _middle(*middle, low, high, nothing)
    if keepdims is True:
        result = expand_dims(result, tuple(sorted(axes)))
    return store(wrap(result.value), out, name=name)


def _middle(a: TracedArray, b: TracedArray, low: Any, high: Any, nothing: TracedArray) -> TracedArray:
    """Mean of the two middle elements, or the one."""
    same = FUNCTIONS[np.equal](low, high) if isinstance(low, TracedArray) else low == high
    mean = a if same is True else (a + b) / 2 if same is False else FUNCTIONS[np.where](same, a, (a + b) / 2)
    return FUNCTIONS[np.where](nothing, a.dtype.type(np.nan), mean)     # type: ignore[no-any-return]


@implements(np.median)
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Any:
    """Equivalent of `numpy.median`: NaN where one element is NaN."""
    return _median(a, axis, out, keepdims, False, "median")


@implements(np.nanmedian)
def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Any:
    """Equivalent of `numpy.nanmedian`."""
    return _median(a, axis, out, keepdims, True, "nanmedian")


@rule(median, quantile, percentile)
def _of_chosen(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Order statistics of what a mask chose."""
    x, name = first(args), function.__name__
    given = dict(zip(("q", "axis"), args[1:], strict=False)) | kwargs if name != "median" else kwargs
    q = given.pop("q", None)
    if not is_lazy(x) or x.ndim != 1 or given.pop("axis", None) not in (None, 0, -1) or given.keys() - {"method"} or len(args) > 3 or (
            name == "median" and len(args) > 1) or np.ndim(q):
        return NotImplemented
    if not is_float(x.dtype):
        x = FUNCTIONS["astype"](x, F64)
    ordered = sort(x, 0)
    count = wrap(traced_count(ordered.mask))        # type: ignore[attr-defined]
    last = FUNCTIONS[np.maximum](count - 1, 0)
    whole = ordered.whole        # type: ignore[attr-defined]
    nothing = FUNCTIONS[np.equal](count, 0) | FUNCTIONS[np.isnan](_at(whole, last))
    if name == "median":
        halves = FUNCTIONS[np.floor_divide]
        low, high = halves(last, 2), FUNCTIONS[np.minimum](halves(count, 2), whole.size - 1)
        result = _middle(_at(whole, low), _at(whole, high), low, high, nothing)
    else:
        method = given.get("method", "linear")
        if method not in _METHODS:
            return NotImplemented
        value = _quantile_of(whole, q if name == "quantile" else _scaled(q, x), method, count)
        result = FUNCTIONS[np.where](nothing, value.dtype.type(np.nan), value)
    return wrap(result.value)


# -- without NaN


def _without_nan(name: str, function: Callable[..., Any], neutral: float) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = np._NoValue,
             where: Any = np._NoValue) -> Any:
        x = as_traced(a)
        x = FUNCTIONS[np.where](FUNCTIONS[np.isnan](x), x.dtype.type(neutral), x) if is_inexact(x.dtype) else x
        return function(x, axis, dtype, out, keepdims, initial, where if reductions.given(where) else True)

    return _named(name, call)


def _named(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Equivalent of `numpy.{name}`."
    return implements(getattr(np, name))(call)


nansum = _without_nan("nansum", reductions.sum, 0)
nanprod = _without_nan("nanprod", reductions.prod, 1)


def _there(x: TracedArray, where: Any) -> TracedArray:
    there = FUNCTIONS[np.logical_not](FUNCTIONS[np.isnan](x))
    return there & where if reductions.given(where) and where is not True else there        # type: ignore[no-any-return]


def _moment(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
             where: Any = np._NoValue, mean: Any = np._NoValue, correction: Any = np._NoValue) -> Any:
        x = as_array(a)
        there = _there(x, where)
        result = function(x, axis, dtype, None, ddof, keepdims, where=there, mean=mean, correction=correction)
        free = FUNCTIONS[np.sum](there, axis=axis, keepdims=keepdims) - (correction if reductions.given(correction) else ddof)
        result = FUNCTIONS[np.where](FUNCTIONS[np.greater](free, 0), result, result.dtype.type(np.nan))
        return store(wrap(result.value), out, name=name)

    return _named(name, call)


def _nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = np._NoValue) -> Any:
    x = as_array(a)
    return reductions.mean(x, axis, dtype, out, keepdims, where=_there(x, where))


nanmean = _named("nanmean", _nanmean)
nanvar, nanstd = _moment("nanvar", reductions.var), _moment("nanstd", reductions.std)


def _nan_extremum(name: str, function: Callable[..., Any], sign: int) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = np._NoValue, where: Any = np._NoValue) -> Any:
        x = as_traced(a)
        masked = {"where": where} if reductions.given(where) else {}
        if not is_inexact(x.dtype):
            return function(x, axis, out, keepdims, initial, **masked)
        missing = FUNCTIONS[np.isnan](x)
        result = function(FUNCTIONS[np.where](missing, x.dtype.type(-math.inf * sign), x), axis, None, keepdims, initial, **masked)
        if not reductions.given(initial):
            result = FUNCTIONS[np.where](FUNCTIONS[np.all](missing, axis, keepdims=keepdims), x.dtype.type(np.nan), result)
        return store(wrap(result.value), out, name=name)

    return _named(name, call)


nanmax, nanmin = _nan_extremum("nanmax", reductions.max, 1), _nan_extremum("nanmin", reductions.min, -1)


def _nan_place(name: str, function: Callable[..., Any], sign: int) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        x = as_traced(a)
        if not is_inexact(x.dtype):
            return function(x, axis, out, keepdims=keepdims)
        missing = FUNCTIONS[np.isnan](x)
        index = function(FUNCTIONS[np.where](missing, x.dtype.type(-math.inf * sign), x), axis, keepdims=keepdims)
        size = x.size if axis is None else x.shape[axis]
        checked = FUNCTIONS[np.where](FUNCTIONS[np.all](missing, axis, keepdims=keepdims), size, index)     # nothing but NaN: out of bounds
        table = as_traced(wrap(lowering.iota(I64, (size,), 0), scalar=False))
        return store(wrap(ops.take(table.value, checked.value, axis=0)), out, name=name)

    return _named(name, call)


nanargmax, nanargmin = _nan_place("nanargmax", reductions.argmax, 1), _nan_place("nanargmin", reductions.argmin, -1)


def _nan_cumulative(name: str, function: Callable[..., Any], neutral: float) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        x = as_traced(a)
        x = FUNCTIONS[np.where](FUNCTIONS[np.isnan](x), x.dtype.type(neutral), x) if is_inexact(x.dtype) else x
        return function(x, axis, dtype, out)

    return _named(name, call)


nancumsum, nancumprod = _nan_cumulative("nancumsum", reductions.cumsum, 0), _nan_cumulative("nancumprod", reductions.cumprod, 1)


# -- covariances


@implements(np.cov)
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None, aweights: Any = None,
        *, dtype: Any = None) -> Any:
    """Equivalent of `numpy.cov`."""
    x = floating(as_array(m))
    if x.ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    x = FUNCTIONS[np.reshape](x, (1, -1)) if x.ndim < 2 else x if rowvar else x.T
    if y is not None:
        other = floating(as_array(y))
        other = FUNCTIONS[np.reshape](other, (1, -1)) if other.ndim < 2 else other if rowvar else other.T
        x = FUNCTIONS[np.concatenate]([x, other])
    x = FUNCTIONS["astype"](x, np.result_type(x.dtype, F64) if dtype is None else dtype)
    free = (0 if bias else 1) if ddof is None else ddof
    weights = None
    if fweights is not None:
        weights = floating(fweights)
    if aweights is not None:
        weights = floating(aweights) if weights is None else weights * floating(aweights)
    if weights is None:
        x = x - FUNCTIONS[np.mean](x, axis=1, keepdims=True)
        factor: Any = max(x.shape[1] - free, 0)
        product = FUNCTIONS[np.matmul](x, FUNCTIONS[np.conjugate](x.T))
    else:
        total = FUNCTIONS[np.sum](weights)
        x = x - FUNCTIONS[np.sum](x * weights, axis=1, keepdims=True) / total
        lost = free if aweights is None else free * FUNCTIONS[np.sum](weights * floating(aweights)) / total if free else 0
        factor = FUNCTIONS[np.maximum](total - lost, 0.0)
        product = FUNCTIONS[np.matmul](x, FUNCTIONS[np.conjugate]((x * weights).T))
    result = FUNCTIONS["astype"](product * FUNCTIONS[np.true_divide](1.0, factor if isinstance(factor, TracedArray) else float(factor)),
                                 x.dtype)
    return FUNCTIONS[np.squeeze](result) if 1 not in result.shape else wrap(FUNCTIONS[np.squeeze](result).value, scalar=False)


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """Equivalent of `numpy.corrcoef`."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return (c / c)[()]
    deviation = reductions.root(FUNCTIONS[np.real](FUNCTIONS[np.diagonal](c)))
    result = c / deviation[:, None] / deviation[None, :]
    if not is_complex(c.dtype):
        return FUNCTIONS[np.clip](result, -1, 1)
    parts = (FUNCTIONS[np.clip](FUNCTIONS[part](result), -1, 1) for part in (np.real, np.imag))
    return wrap(ops.complex(*(part.value for part in parts)))


@implements(*([np.cumulative_sum] if hasattr(np, "cumulative_sum") else []))
def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Any = None, include_initial: bool = False) -> Any:
    """Equivalent of `numpy.cumulative_sum`."""
    return _cumulative(reductions.cumsum, x, axis, dtype, out, 0 if include_initial else None)


@implements(*([np.cumulative_prod] if hasattr(np, "cumulative_prod") else []))
def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Any = None, include_initial: bool = False) -> Any:
    """Equivalent of `numpy.cumulative_prod`."""
    return _cumulative(reductions.cumprod, x, axis, dtype, out, 1 if include_initial else None)


def _cumulative(function: Callable[..., Any], x: Any, axis: int | None, dtype: Any, out: Any, initial: int | None) -> Any:
    array = FUNCTIONS[np.atleast_1d](x)
    if axis is None and array.ndim > 1:
        raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
    (dim,) = (0,) if axis is None else normalize_axes(axis, array.ndim)
    result = function(array, dim, dtype)
    if initial is not None:
        shape = [1 if i == dim % array.ndim else size for i, size in enumerate(array.shape)]
        result = FUNCTIONS[np.concatenate]([wrap(lowering.constant(initial, result.dtype, tuple(shape)), scalar=False), result], axis=dim)
    return store(result, out, name="cumulative")
