"""Correlation of two samples, straight lines through points, and ranks; formulas are SciPy's.

Ranks are constants between ties: derivatives through them are 0, as through `np.argsort`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adjit import special as sc
from adjit.ir.errors import UnsupportedError
from adjit.scipy.mirror import outside_scipys
from adjit.scipy.sliding import inexact
from adjit.scipy.stats.hypotheses import Interval, Significance, p_value
from adjit.scipy.stats.samples import check_policy, kept
from adjit.tracer.array import as_traced
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions.composites import stop_gradient
from adjit.tracer.user_location import find_user_location


class CorrelationResult(Significance):
    """Coefficient of correlation and p-value, with `confidence_interval()`."""

    _rest: tuple[int, str] | None = None

    @property
    def correlation(self) -> Any:
        """Coefficient, by its other name."""
        return self.statistic

    def confidence_interval(self, confidence_level: float = 0.95, method: Any = None) -> Interval:
        """Return the ends of the interval of the coefficient, by Fisher's transform."""
        if self._rest is None:
            raise AttributeError("a compiled function returns the coefficient and the p-value: return the ends of .confidence_interval() "
                                 "beside them")
        if method is not None:
            raise UnsupportedError("confidence_interval(method=) of traced arrays draws samples again", find_user_location(),
                                   hint="leave method out")
        return Interval(*_fishers_interval(self.statistic, *self._rest, confidence_level))


class LinregressResult(NamedTuple):
    """Line through points, with the correlation, the p-value of a slope of 0 and the standard error of the slope."""

    slope: Any
    intercept: Any
    rvalue: Any
    pvalue: Any
    stderr: Any


class _Line(LinregressResult):
    intercept_stderr: Any = None


_Line.__name__ = _Line.__qualname__ = "LinregressResult"


@dispatched
def _fishers_interval(r: Any, count: int, alternative: str, level: float) -> tuple[Any, Any]:
    if not 0 < level < 1:
        raise ValueError("`confidence_level` must be a number between 0 and 1.")
    (r,) = inexact(r)
    if count < 4:
        nothing = np.full(r.shape, -1.0), np.full(r.shape, 1.0)
        return nothing
    reach = sc.ndtri(0.5 + level / 2.0 if alternative == "two-sided" else level) / math.sqrt(count - 3)
    z = np.arctanh(r)
    low = -1.0 + 0.0 * r if alternative == "less" else np.tanh(z - reach)
    return low, 1.0 + 0.0 * r if alternative == "greater" else np.tanh(z + reach)


def _pair(x: Any, y: Any, axis: Any) -> tuple[Any, Any]:
    """Samples along the last axis, that are broadcast."""
    x, y = inexact(x, y)
    if axis is None:
        x, y = np.ravel(x), np.ravel(y)
    else:
        x, y = (np.moveaxis(each, axis, -1) for each in (x, y))
    if x.shape[-1] != y.shape[-1]:
        raise ValueError("`x` and `y` must have the same length along `axis`.")
    if x.shape[-1] < 2:
        raise ValueError("`x` and `y` must have length at least 2.")
    x, y = np.broadcast_arrays(x, y)
    return x, y


def _correlation(x: Any, y: Any) -> Any:
    """Coefficient along the last axis; NaN of equal samples."""
    x, y = (each - np.mean(each, axis=-1, keepdims=True) for each in (x, y))
    xx, yy = np.sum(x * x, axis=-1), np.sum(y * y, axis=-1)
    equal = (xx == 0) | (yy == 0)
    found = np.sum(x * y, axis=-1) / (np.sqrt(np.where(equal, 1.0, xx)) * np.sqrt(np.where(equal, 1.0, yy)))
    return np.where(equal, math.nan, np.clip(found, -1.0, 1.0))


@dispatched
def _pearson(x: Any, y: Any, axis: Any, alternative: str) -> tuple[Any, Any]:
    x, y = _pair(x, y, axis)
    r, half = _correlation(x, y), 0.5 * x.shape[-1] - 1.0
    if half == 0:       # two points lie on a line
        return np.round(r), np.where(np.isnan(r), math.nan, 1.0)
    return r, p_value(r, lambda r: sc.betainc(half, half, 0.5 * (1.0 + r)), alternative)


@outside_scipys("stats")
def pearsonr(x: Any, y: Any, *, alternative: str = "two-sided", method: Any = None, axis: Any = 0) -> CorrelationResult:
    """Equivalent of `scipy.stats.pearsonr`: the coefficient of correlation and its p-value; NaN of equal samples. Samples that are drawn
    again (`method`) are refused.

    >>> import numpy as np
    >>> import adjit as aj
    >>> x, y = np.array([1.0, 2.0, 4.0]), np.array([2.0, 1.0, 3.0])
    >>> aj.grad(lambda x: pearsonr(x, y).statistic)(x).round(6)
    array([ 0.187044, -0.280566,  0.093522])
    """
    if method is not None:
        raise UnsupportedError("pearsonr(method=) of traced arrays draws samples again", find_user_location(), hint="leave method out")
    result = CorrelationResult(*_pearson(x, y, axis, alternative))
    result._rest = np.shape(x)[axis] if axis is not None else int(np.prod(np.shape(x))), alternative
    return result


@outside_scipys("stats")
def pointbiserialr(x: Any, y: Any, *, axis: Any = 0, nan_policy: str = "propagate", keepdims: bool = False) -> CorrelationResult:
    """Equivalent of `scipy.stats.pointbiserialr`: the correlation of truth values with numbers.

    >>> import numpy as np
    >>> import adjit as aj
    >>> float(aj.compile(lambda y: pointbiserialr(np.array([0, 1, 1]), y).statistic)(np.array([2.0, 1.0, 3.0])).round(6))
    0.0
    """
    check_policy(nan_policy)
    return CorrelationResult(*(_with_dimensions(part, y, axis, keepdims) for part in _pearson(x, y, axis, "two-sided")))


_with_dimensions = dispatched(kept)


@dispatched
def _line(x: Any, y: Any, alternative: str, axis: Any, nan_policy: str, keepdims: bool) -> tuple[Any, ...]:
    check_policy(nan_policy)
    like = x
    x, y = _pair(x, y, axis)
    count, middle, height = x.shape[-1], np.mean(x, axis=-1), np.mean(y, axis=-1)
    dx, dy = x - middle[..., None], y - height[..., None]
    xx, xy, yy = np.mean(dx * dx, axis=-1), np.mean(dx * dy, axis=-1), np.mean(dy * dy, axis=-1)
    flat = (xx == 0) | (yy == 0)
    r = np.where(flat, np.where(xy == 0, math.nan, 0.0), np.clip(xy / np.sqrt(np.where(flat, 1.0, xx * yy)), -1.0, 1.0))
    slope = xy / xx
    if count == 2:
        pvalue, error = np.where(dy[..., 0] == dy[..., 1], 1.0, 0.0), np.zeros(r.shape)
    else:
        t = r * np.sqrt((count - 2.0) / ((1.0 - r + 1e-20) * (1.0 + r + 1e-20)))
        pvalue = p_value(t, lambda t: sc.stdtr(count - 2.0, t), alternative)
        error = np.sqrt((1.0 - r ** 2) * yy / xx / (count - 2.0))
    parts = slope, height - slope * middle, r, pvalue, error, error * np.sqrt(xx + middle ** 2)
    return tuple(kept(part, like, axis, keepdims) for part in parts)


@outside_scipys("stats")
def linregress(x: Any, y: Any, alternative: str = "two-sided", *, axis: Any = 0, nan_policy: str = "propagate", keepdims: bool = False
               ) -> LinregressResult:
    """Equivalent of `scipy.stats.linregress`: the line through points by least squares. Infinite or NaN where all `x` are equal.

    >>> import numpy as np
    >>> import adjit as aj
    >>> x, y = np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 6.0])
    >>> aj.grad(lambda y: linregress(x, y).slope)(y).round(6)
    array([-0.5,  0. ,  0.5])
    """
    *found, last = _line(x, y, alternative, axis, nan_policy, keepdims)
    result = _Line(*found)
    result.intercept_stderr = last
    return result


# -- ranks


def _ranks(rows: Any, method: str) -> Any:
    """Ranks along the last axis; of NaN, which is last, whatever comes."""
    rows = stop_gradient(rows)
    size = rows.shape[-1]
    order = np.argsort(rows, axis=-1, kind="stable")
    back = np.argsort(order, axis=-1, kind="stable")
    if method == "ordinal":
        return back + 1
    ordered, places = np.take_along_axis(rows, order, axis=-1), np.broadcast_to(np.arange(size), rows.shape)
    new = np.concatenate([np.ones((*rows.shape[:-1], 1), bool), ordered[..., 1:] != ordered[..., :-1]], axis=-1)
    number = np.cumsum(new, axis=-1)        # of the run of equal samples
    if method == "dense":
        return np.take_along_axis(number, back, axis=-1)
    first = np.maximum.accumulate(np.where(new, places, 0), axis=-1)
    ends = np.concatenate([new[..., 1:], np.ones((*rows.shape[:-1], 1), bool)], axis=-1)
    last = np.flip(np.minimum.accumulate(np.flip(np.where(ends, places, size), -1), axis=-1), -1)
    found = first + 1 if method == "min" else last + 1 if method == "max" else 0.5 * (first + last) + 1.0
    return np.take_along_axis(found, back, axis=-1)


_METHODS = ("average", "min", "max", "dense", "ordinal")


@outside_scipys("stats")
def rankdata(a: Any, method: str = "average", *, axis: Any = None, nan_policy: str = "propagate") -> Any:
    """Equivalent of `scipy.stats.rankdata`: ranks from 1 on, along an axis; NaN where there is one. The derivative is 0. Ranks are float64,
    also of the methods for which SciPy has whole numbers where none is NaN.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.compile(rankdata)(np.array([30.0, 10.0, 20.0, 10.0]))
    array([4. , 1.5, 3. , 1.5])
    """
    if method not in _METHODS:
        raise ValueError(f'unknown method "{method}"')
    check_policy(nan_policy)
    return _ranked(a, method, axis)


@dispatched
def _ranked(a: Any, method: str, axis: Any) -> Any:
    a = as_traced(a)
    a, axis = (np.ravel(a), -1) if axis is None else (a, axis)
    rows = np.moveaxis(a, axis, -1)
    found = _ranks(rows, method)
    if a.dtype.kind in "fc":
        found = np.where(np.any(np.isnan(rows), axis=-1, keepdims=True), math.nan, found)
    return np.moveaxis(found, -1, axis)


@dispatched
def _spearman(a: Any, b: Any, axis: Any, alternative: str) -> tuple[Any, Any]:
    a = as_traced(a)
    if axis is None:
        columns = [np.ravel(each)[:, None] for each in (a, b) if each is not None]
    elif axis in (0, 1):
        columns = [np.atleast_1d(as_traced(each)) for each in (a, b) if each is not None]
        columns = [each[:, None] if each.ndim == 1 else np.moveaxis(each, axis, 0) for each in columns]
    else:
        raise ValueError(f"spearmanr only handles 1-D or 2-D arrays, supplied axis argument {axis}, please use only values 0, 1 or None "
                         "for axis")
    if any(each.ndim > 2 for each in columns):
        raise ValueError("spearmanr only handles 1-D or 2-D arrays")
    both = np.concatenate(inexact(*columns), axis=1)
    if both.shape[1] < 2:
        raise ValueError("`spearmanr` needs at least 2 variables to compare")
    count = both.shape[0]
    rows = both.T
    ranks = np.where(np.any(np.isnan(rows), axis=-1, keepdims=True), math.nan, _ranks(rows, "average"))
    r = _correlation(ranks[:, None], ranks[None]) if both.shape[1] > 2 else _correlation(ranks[0], ranks[1])
    t = r * np.sqrt(np.maximum((count - 2.0) / ((r + 1.0) * (1.0 - r)), 0.0))
    return r, p_value(t, lambda t: sc.stdtr(count - 2.0, t), alternative)


@outside_scipys("stats")
def spearmanr(a: Any, b: Any = None, axis: Any = 0, nan_policy: str = "propagate", alternative: str = "two-sided") -> CorrelationResult:
    """Equivalent of `scipy.stats.spearmanr`: the correlation of ranks, and its p-value; of more than two columns matrices of both. The
    derivative is 0, as that of ranks.

    >>> import numpy as np
    >>> import adjit as aj
    >>> float(aj.compile(lambda x, y: spearmanr(x, y).statistic)(np.array([1.0, 2.0, 4.0]), np.array([2.0, 1.0, 3.0])).round(6))
    0.5
    """
    check_policy(nan_policy)
    return CorrelationResult(*_spearman(a, b, axis, alternative))
