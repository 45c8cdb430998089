"""Numbers that sum up samples, further ones: descriptions, samples within limits, estimates of cumulants and of entropy, directions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from adjit.scipy.mirror import mirrors, outside_scipys
from adjit.scipy.sliding import inexact
from adjit.scipy.stats.samples import kept, rows_of
from adjit.scipy.stats.summaries import kurtosis, skew
from adjit.tracer.array import as_traced
from adjit.tracer.dispatch import dispatched


class DescribeResult(NamedTuple):
    """Number of samples, smallest and largest one, mean, variance, skewness and excess kurtosis."""

    nobs: int
    minmax: tuple[Any, Any]
    mean: Any
    variance: Any
    skewness: Any
    kurtosis: Any


@dispatched
def _described(a: Any, axis: Any, ddof: int, bias: bool, nan_policy: str) -> tuple[Any, ...]:
    rows = rows_of(a, axis, nan_policy)
    if not rows.size:
        raise ValueError("The input must not be empty.")
    return (np.min(rows, axis=-1), np.max(rows, axis=-1), np.mean(rows, axis=-1), np.var(rows, axis=-1, ddof=ddof),
            skew(rows, -1, bias), kurtosis(rows, -1, True, bias))


@outside_scipys("stats")
def describe(a: Any, axis: Any = 0, ddof: int = 1, bias: bool = True, nan_policy: str = "propagate") -> DescribeResult:
    """Equivalent of `scipy.stats.describe`: number, extremes, mean, variance, skewness and kurtosis of samples.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.grad(lambda x: describe(x).variance)(np.array([1.0, 2.0, 6.0]))
    array([-2., -1.,  3.])
    """
    shape = np.shape(a)
    low, high, *others = _described(a, axis, ddof, bias, nan_policy)
    return DescribeResult(math.prod(shape) if axis is None else shape[axis], (low, high), *others)


# -- samples within limits

def _within(rows: Any, limits: Any, inclusive: Any) -> Any:
    """Truth of each sample: whether it is within limits, of which either may be None."""
    found: Any = np.ones(rows.shape, bool)
    if limits is not None:
        (low, high), (with_low, with_high) = limits, inclusive
        if low is not None:
            found = found & (rows >= low if with_low else rows > low)
        if high is not None:
            found = found & (rows <= high if with_high else rows < high)
    return found


def _trimmed_variance(rows: Any, limits: Any, inclusive: Any, ddof: int) -> tuple[Any, Any]:
    within = _within(rows, limits, inclusive)
    count = np.sum(within, axis=-1)
    mean = np.sum(np.where(within, rows, 0.0), axis=-1, keepdims=True) / count[..., None]
    squares = np.sum(np.where(within, rows - mean, 0.0) ** 2, axis=-1)
    return np.where(count > ddof, squares / np.where(count > ddof, count - ddof, 1), math.nan), count


@mirrors("stats")
def tmean(a: Any, limits: Any = None, inclusive: Any = (True, True), axis: Any = None, *, nan_policy: str = "propagate",
          keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.tmean`: the mean of samples within limits.

    >>> import numpy as np
    >>> float(tmean(np.array([1.0, 2.0, 90.0]), (0.0, 5.0)))
    1.5
    """
    rows = rows_of(a, axis, nan_policy)
    within = _within(rows, limits, inclusive)
    count = np.sum(within, axis=-1)
    found = np.sum(np.where(within, rows, 0.0), axis=-1) / np.where(count > 0, count, 1)
    return kept(np.where(count > 0, found, math.nan), a, axis, keepdims)


@mirrors("stats")
def tvar(a: Any, limits: Any = None, inclusive: Any = (True, True), axis: Any = 0, ddof: int = 1, *, nan_policy: str = "propagate",
         keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.tvar`: the variance of samples within limits.

    >>> import numpy as np
    >>> float(tvar(np.array([1.0, 3.0, 90.0]), (0.0, 5.0)))
    2.0
    """
    return kept(_trimmed_variance(rows_of(a, axis, nan_policy), limits, inclusive, ddof)[0], a, axis, keepdims)


@mirrors("stats")
def tstd(a: Any, limits: Any = None, inclusive: Any = (True, True), axis: Any = 0, ddof: int = 1, *, nan_policy: str = "propagate",
         keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.tstd`: the standard deviation of samples within limits.

    >>> import numpy as np
    >>> float(tstd(np.array([1.0, 3.0, 90.0]), (0.0, 5.0)).round(6))
    1.414214
    """
    return kept(np.sqrt(_trimmed_variance(rows_of(a, axis, nan_policy), limits, inclusive, ddof)[0]), a, axis, keepdims)


@mirrors("stats")
def tsem(a: Any, limits: Any = None, inclusive: Any = (True, True), axis: Any = 0, ddof: int = 1, *, nan_policy: str = "propagate",
         keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.tsem`: the standard error of the mean of samples within limits.

    >>> import numpy as np
    >>> float(tsem(np.array([1.0, 3.0, 90.0]), (0.0, 5.0)).round(6))
    1.0
    """
    variance, count = _trimmed_variance(rows_of(a, axis, nan_policy), limits, inclusive, ddof)
    return kept(np.sqrt(variance / count), a, axis, keepdims)


def _extreme(a: Any, limit: Any, axis: Any, inclusive: bool, nan_policy: str, keepdims: bool, sign: int) -> Any:
    rows = rows_of(a, axis, nan_policy)
    limits = None if limit is None else (limit, None) if sign > 0 else (None, limit)
    within = _within(rows, limits, (inclusive, inclusive))
    choose: Callable[..., Any] = np.min if sign > 0 else np.max
    found = choose(np.where(within | np.isnan(rows), rows, sign * math.inf), axis=-1)
    return kept(np.where(np.any(within, axis=-1), found, math.nan), a, axis, keepdims)


@mirrors("stats")
def tmin(a: Any, lowerlimit: Any = None, axis: Any = 0, inclusive: bool = True, nan_policy: str = "propagate", *, keepdims: bool = False
         ) -> Any:
    """Equivalent of `scipy.stats.tmin`: the smallest sample above a limit; NaN without one.

    >>> import numpy as np
    >>> float(tmin(np.array([1.0, 3.0, 2.0]), 1.5))
    2.0
    """
    return _extreme(a, lowerlimit, axis, inclusive, nan_policy, keepdims, 1)


@mirrors("stats")
def tmax(a: Any, upperlimit: Any = None, axis: Any = 0, inclusive: bool = True, nan_policy: str = "propagate", *, keepdims: bool = False
         ) -> Any:
    """Equivalent of `scipy.stats.tmax`: the largest sample below a limit; NaN without one.

    >>> import numpy as np
    >>> float(tmax(np.array([1.0, 3.0, 2.0]), 2.5))
    2.0
    """
    return _extreme(a, upperlimit, axis, inclusive, nan_policy, keepdims, -1)


# -- estimates


@mirrors("stats")
def kstat(data: Any, n: int = 2, *, axis: Any = None, nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.kstat`: the unbiased estimate of the cumulant of order 1 to 4.

    >>> import numpy as np
    >>> float(kstat(np.array([1.0, 2.0, 6.0]), 2).round(6))
    7.0
    """
    if n not in (1, 2, 3, 4):
        raise ValueError("k-statistics only supported for 1<=n<=4")
    rows = rows_of(data, axis, nan_policy)
    count, mean = float(rows.shape[-1]), np.mean(rows, axis=-1)
    second, third, fourth = (np.sum((rows - mean[..., None]) ** k, axis=-1) for k in (2, 3, 4))
    if n == 1:
        found = mean
    elif n == 2:
        found = second / (count - 1.0)
    elif n == 3:
        found = third * (count / ((count - 1.0) * (count - 2.0)))
    else:
        found = (count * (count + 1.0) * fourth - 3.0 * (count - 1.0) * second ** 2) / ((count - 1.0) * (count - 2.0) * (count - 3.0))
    return kept(found, data, axis, keepdims)


@mirrors("stats")
def kstatvar(data: Any, n: int = 2, *, axis: Any = None, nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.kstatvar`: an unbiased estimate of the variance of `kstat`, of order 1 or 2.

    >>> import numpy as np
    >>> float(kstatvar(np.array([1.0, 2.0, 6.0]), 1).round(6))
    2.333333
    """
    if n not in (1, 2):
        raise ValueError("Only n=1 and n=2 are supported.")
    (data,) = inexact(np.atleast_1d(as_traced(data)))
    count, second = float(rows_of(data, axis).shape[-1]), kstat(data, 2, axis=axis, nan_policy=nan_policy, keepdims=keepdims)
    if n == 1:
        return second / count
    fourth = kstat(data, 4, axis=axis, nan_policy=nan_policy, keepdims=keepdims)
    return (2.0 * count * second ** 2 + (count - 1.0) * fourth) / (count * (count + 1.0))


def _padded(rows: Any, width: int) -> Any:
    return np.concatenate([np.repeat(rows[..., :1], width, axis=-1), rows, np.repeat(rows[..., -1:], width, axis=-1)], axis=-1)


def _van_es(rows: Any, width: int) -> Any:
    count = rows.shape[-1]
    logs = np.log((count + 1.0) / width * (rows[..., width:] - rows[..., :-width]))
    return np.sum(logs, axis=-1) / (count - width) + float(np.sum(1.0 / np.arange(width, count + 1.0))) + math.log(width / (count + 1.0))


def _spacings(rows: Any, width: int, shares: Any) -> Any:
    wide = _padded(rows, width)
    return np.mean(np.log(rows.shape[-1] / (shares * width) * (wide[..., 2 * width:] - wide[..., :-2 * width])), axis=-1)


def _ebrahimi(rows: Any, width: int) -> Any:
    count = rows.shape[-1]
    place = np.arange(1.0, count + 1.0)
    from_ends = np.minimum(place - 1.0, count - place)
    return _spacings(rows, width, np.minimum(1.0 + from_ends / width, 2.0))


def _correa(rows: Any, width: int) -> Any:
    count, wide = rows.shape[-1], _padded(rows, width)
    windows = np.stack([wide[..., k:k + count] for k in range(2 * width + 1)], axis=-1)
    apart = windows - np.mean(windows, axis=-1, keepdims=True)
    slopes = np.sum(apart * np.arange(-width, width + 1.0), axis=-1) / (count * np.sum(apart ** 2, axis=-1))
    return -np.mean(np.log(slopes), axis=-1)


_ESTIMATES: dict[str, Callable[[Any, int], Any]] = {
    "vasicek": lambda rows, width: _spacings(rows, width, 2.0), "van es": _van_es, "ebrahimi": _ebrahimi, "correa": _correa}


@mirrors("stats")
def differential_entropy(values: Any, *, window_length: int | None = None, base: float | None = None, axis: Any = 0, method: str = "auto",
                         nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.differential_entropy`: the entropy of a density, from the distances of its samples in order.

    >>> import numpy as np
    >>> float(differential_entropy(np.array([1.0, 2.0, 4.0, 8.0, 16.0])).round(6))
    3.075093
    """
    rows = np.sort(rows_of(values, axis, nan_policy), axis=-1)
    count = rows.shape[-1]
    width = math.floor(math.sqrt(count) + 0.5) if window_length is None else window_length
    if not 2 <= 2 * width < count:
        raise ValueError(f"Window length ({width}) must be positive and less than half the sample size ({count}).")
    if base is not None and base <= 0:
        raise ValueError("`base` must be a positive number or `None`.")
    method = method.lower()
    if method == "auto":
        method = "van es" if count <= 10 else "ebrahimi" if count <= 1000 else "vasicek"
    if method not in _ESTIMATES:
        raise ValueError(f"`method` must be one of {{{repr([*_ESTIMATES, 'auto'])[1:-1]}}}")
    found = _ESTIMATES[method](rows, width)
    return kept(found if base is None else found / math.log(base), values, axis, keepdims)


@mirrors("stats", static=("per",))
def scoreatpercentile(a: Any, per: Any, limit: Any = (), interpolation_method: str = "fraction", axis: Any = None) -> Any:
    """Equivalent of `scipy.stats.scoreatpercentile` without `limit`: percentiles between samples ("fraction"), or the "lower" or "higher"
    one.

    >>> import numpy as np
    >>> float(scoreatpercentile(np.array([1.0, 2.0, 4.0]), 75))
    3.0
    """
    methods = {"fraction": "linear", "lower": "lower", "higher": "higher"}
    if interpolation_method not in methods or len(limit):
        raise ValueError("interpolation_method can only be 'fraction', 'lower' or 'higher'" if not len(limit) else
                         "limit= of traced samples decides on how many there are: use np.where and np.nanpercentile")
    (a,) = inexact(a)
    percentile: Any = np.percentile
    return percentile(a, per, axis=axis, method=methods[interpolation_method])


class DirectionalStats(NamedTuple):
    """Mean direction, and the length of the mean of directions."""

    mean_direction: Any
    mean_resultant_length: Any


@dispatched
def _directions(samples: Any, axis: int, normalize: bool) -> tuple[Any, Any]:
    (samples,) = inexact(samples)
    if samples.ndim < 2:
        raise ValueError("samples must at least be two-dimensional. Instead samples has shape: " + repr(tuple(samples.shape)))
    samples = np.moveaxis(samples, axis, 0)
    if normalize:
        samples = samples / np.linalg.norm(samples, axis=-1, keepdims=True)
    mean = np.mean(samples, axis=0)
    length = np.linalg.norm(mean, axis=-1, keepdims=True)
    return mean / length, np.squeeze(length, axis=-1)


@outside_scipys("stats")
def directional_stats(samples: Any, *, axis: int = 0, normalize: bool = True) -> DirectionalStats:
    """Equivalent of `scipy.stats.directional_stats`: the mean of vectors [n, ..., d] in direction, and its length.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.compile(lambda x: directional_stats(x).mean_direction)(np.array([[2.0, 0.0], [0.0, 1.0]])).round(6)
    array([0.707107, 0.707107])
    """
    return DirectionalStats(*_directions(samples, axis, normalize))
