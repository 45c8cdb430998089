"""Numbers that sum up samples: means, moments, spreads, circular statistics, distances; formulas are SciPy's.

`nan_policy` is "propagate": other policies are refused. Results that SciPy gives with a warning are NaN here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit import special as sc
from adjit.ir.errors import UnsupportedError
from adjit.scipy.mirror import mirrors
from adjit.scipy.sliding import inexact
from adjit.scipy.stats.samples import check_policy, kept, rows_of
from adjit.tracer.array import as_traced
from adjit.tracer.functions.composites import stop_gradient
from adjit.tracer.user_location import find_user_location


def _mean(rows: Any, weights: Any, like: Any, axis: Any) -> Any:
    if weights is None:
        return np.mean(rows, axis=-1)
    (weights,) = inexact(weights)
    if weights.ndim != 1 or as_traced(like).ndim == 1:
        weights = rows_of(np.broadcast_to(weights, as_traced(like).shape), axis)
    return np.sum(rows * weights, axis=-1) / np.sum(weights, axis=-1)


def _positive(rows: Any) -> Any:
    return np.where(rows < 0, math.nan, rows)


@mirrors("stats")
def gmean(a: Any, axis: Any = 0, dtype: Any = None, weights: Any = None, *, nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.gmean`: the geometric mean.

    >>> import numpy as np
    >>> round(float(gmean(np.array([1.0, 4.0]))), 9)
    2.0
    """
    a = as_traced(a) if dtype is None else as_traced(a).astype(dtype)
    return kept(np.exp(_mean(np.log(rows_of(a, axis, nan_policy)), weights, a, axis)), a, axis, keepdims)


@mirrors("stats")
def hmean(a: Any, axis: Any = 0, dtype: Any = None, *, weights: Any = None, nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.hmean`: the harmonic mean.

    >>> import numpy as np
    >>> float(hmean(np.array([1.0, 1.0])))
    1.0
    """
    a = as_traced(a) if dtype is None else as_traced(a).astype(dtype)
    return kept(1.0 / _mean(1.0 / _positive(rows_of(a, axis, nan_policy)), weights, a, axis), a, axis, keepdims)


@mirrors("stats")
def pmean(a: Any, p: float, *, axis: Any = 0, dtype: Any = None, weights: Any = None, nan_policy: str = "propagate",
          keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.pmean`: the mean of powers, as a power.

    >>> import numpy as np
    >>> round(float(pmean(np.array([1.0, 7.0]), 2)), 9)
    5.0
    """
    if not isinstance(p, (int, float)):
        raise ValueError("Power mean only defined for exponent of type int or float.")
    if p == 0:
        return gmean(a, axis, dtype, weights, nan_policy=nan_policy, keepdims=keepdims)
    if math.isinf(p):
        raise NotImplementedError("Power mean only implemented for finite `p`")
    a = as_traced(a) if dtype is None else as_traced(a).astype(dtype)
    powers = _positive(rows_of(a, axis, nan_policy)) ** float(p)
    return kept(_mean(powers, weights, a, axis) ** (1.0 / p), a, axis, keepdims)


def _central(rows: Any, order: int, center: Any = None) -> Any:
    middle = np.mean(rows, axis=-1, keepdims=True) if center is None else center
    return np.mean((rows - middle) ** order, axis=-1)


def _constant(rows: Any, second: Any) -> Any:
    """Where the samples are equal to rounding."""
    mean = np.mean(rows, axis=-1)
    return second <= (float(np.finfo(rows.dtype).eps) * mean) ** 2


@mirrors("stats", static=("order",))
def moment(a: Any, order: Any = 1, axis: Any = 0, nan_policy: str = "propagate", *, center: Any = None, keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.moment`: moments about the mean, or about `center`, which is a number.

    >>> import numpy as np
    >>> float(moment(np.array([1.0, 3.0]), 2))
    1.0
    """
    orders = np.atleast_1d(np.asarray(order))
    if not orders.size or np.any(orders != np.round(orders)):
        raise ValueError("All elements of `order` must be integral." if orders.size else
                         "`order` must be a scalar or a non-empty 1D array.")
    rows = rows_of(a, axis, nan_policy)
    found = [np.ones(rows.shape[:-1], rows.dtype) if each == 0 else np.zeros(rows.shape[:-1], rows.dtype) if each == 1 and center is None
             else _central(rows, int(each), center) for each in orders.tolist()]
    return kept(found[0], a, axis, keepdims) if np.ndim(order) == 0 else np.stack([kept(part, a, axis, keepdims) for part in found])


@mirrors("stats")
def skew(a: Any, axis: Any = 0, bias: bool = True, nan_policy: str = "propagate", *, keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.skew`; NaN of equal samples.

    >>> import numpy as np
    >>> round(float(skew(np.array([1.0, 1.0, 4.0]))), 6)
    0.707107
    """
    rows = rows_of(a, axis, nan_policy)
    count, second, third = rows.shape[-1], _central(rows, 2), _central(rows, 3)
    equal = _constant(rows, second)
    found = third / np.where(equal, 1.0, second) ** 1.5
    if not bias and count > 2:
        found = found * (math.sqrt((count - 1.0) * count) / (count - 2.0))
    return kept(np.where(equal, math.nan, found), a, axis, keepdims)


@mirrors("stats")
def kurtosis(a: Any, axis: Any = 0, fisher: bool = True, bias: bool = True, nan_policy: str = "propagate", *, keepdims: bool = False
             ) -> Any:
    """Equivalent of `scipy.stats.kurtosis`; NaN of equal samples.

    >>> import numpy as np
    >>> round(float(kurtosis(np.array([1.0, 1.0, 4.0]))), 6)
    -1.5
    """
    rows = rows_of(a, axis, nan_policy)
    n, second, fourth = rows.shape[-1], _central(rows, 2), _central(rows, 4)
    equal = _constant(rows, second)
    found = fourth / np.where(equal, 1.0, second) ** 2
    if not bias and n > 3:
        found = ((n * n - 1.0) * found - 3.0 * (n - 1.0) ** 2) / ((n - 2.0) * (n - 3.0)) + 3.0
    return kept(np.where(equal, math.nan, found) - (3.0 if fisher else 0.0), a, axis, keepdims)


@mirrors("stats")
def variation(a: Any, axis: Any = 0, nan_policy: str = "propagate", ddof: int = 0, *, keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.variation`: the standard deviation over the mean.

    >>> import numpy as np
    >>> float(variation(np.array([1.0, 3.0])))
    0.5
    """
    rows = rows_of(a, axis, nan_policy)
    return kept(np.std(rows, axis=-1, ddof=ddof) / np.mean(rows, axis=-1), a, axis, keepdims)


@mirrors("stats")
def sem(a: Any, axis: Any = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.sem`: the standard error of the mean.

    >>> import numpy as np
    >>> float(sem(np.array([1.0, 3.0])))
    1.0
    """
    rows = rows_of(a, axis, nan_policy)
    return kept(np.std(rows, axis=-1, ddof=ddof) / math.sqrt(rows.shape[-1]), a, axis, keepdims)


@mirrors("stats")
def zmap(scores: Any, compare: Any, axis: Any = 0, ddof: int = 0, nan_policy: str = "propagate") -> Any:
    """Equivalent of `scipy.stats.zmap`: deviations from the mean of `compare`, in its standard deviations.

    >>> import numpy as np
    >>> zmap(np.array([2.0, 5.0]), np.array([1.0, 3.0]))
    array([0., 3.])
    """
    check_policy(nan_policy)
    (scores,), (compare,) = inexact(scores), inexact(compare)
    return (scores - np.mean(compare, axis, keepdims=True)) / np.std(compare, axis, ddof=ddof, keepdims=True)


@mirrors("stats")
def zscore(a: Any, axis: Any = 0, ddof: int = 0, nan_policy: str = "propagate") -> Any:
    """Equivalent of `scipy.stats.zscore`; NaN of equal samples.

    >>> import numpy as np
    >>> zscore(np.array([1.0, 3.0]))
    array([-1.,  1.])
    """
    check_policy(nan_policy)
    (a,) = inexact(a)
    mean, deviation = np.mean(a, axis, keepdims=True), np.std(a, axis, ddof=ddof, keepdims=True)
    equal = deviation <= np.abs(float(np.finfo(a.dtype).eps) * mean)
    return np.where(equal, math.nan, (a - mean) / np.where(equal, 1.0, deviation))


@mirrors("stats")
def gzscore(a: Any, *, axis: Any = 0, ddof: int = 0, nan_policy: str = "propagate") -> Any:
    """Equivalent of `scipy.stats.gzscore`: `zscore` of logarithms.

    >>> import numpy as np
    >>> gzscore(np.array([1.0, 4.0])).round(9)
    array([-1.,  1.])
    """
    (a,) = inexact(a)
    return zscore(np.log(a), axis, ddof, nan_policy)


@mirrors("stats")
def gstd(a: Any, axis: Any = 0, ddof: int = 1, *, keepdims: bool = False, nan_policy: str = "propagate") -> Any:
    """Equivalent of `scipy.stats.gstd`: the exponential of the standard deviation of logarithms.

    >>> import numpy as np
    >>> round(float(gstd(np.array([1.0, 4.0]), ddof=0)), 9)
    2.0
    """
    rows = rows_of(a, axis, nan_policy)
    return kept(np.exp(np.std(np.log(np.where(rows > 0, rows, math.nan)), axis=-1, ddof=ddof)), a, axis, keepdims)


_NORMAL_QUARTILES, _NORMAL_QUARTILE = 1.3489795003921634, 0.6744897501960817
"""The interquartile range, and the upper quartile, of the standard normal distribution."""


def _scale(scale: Any, of_normal: float) -> Any:
    if isinstance(scale, str):
        if scale.lower() != "normal":
            raise ValueError(f"{scale} is not a valid scale value.")
        return of_normal
    return scale


@mirrors("stats", static=("rng",))
def iqr(x: Any, axis: Any = None, rng: Any = (25, 75), scale: Any = 1.0, nan_policy: str = "propagate", interpolation: str = "linear",
        keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.iqr`: the difference of two percentiles.

    >>> import numpy as np
    >>> float(iqr(np.array([1.0, 2.0, 3.0])))
    1.0
    """
    if len(rng) != 2:
        raise TypeError("quantile range must be two element sequence")
    percentiles: Any = np.percentile
    low, high = percentiles(rows_of(x, axis, nan_policy), sorted(rng), axis=-1, method=interpolation)
    return kept((high - low) / _scale(scale, _NORMAL_QUARTILES), x, axis, keepdims)


@mirrors("stats")
def median_abs_deviation(x: Any, axis: Any = 0, center: Any = None, scale: Any = 1.0, nan_policy: str = "propagate", *,
                         keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.median_abs_deviation`: the median of distances from the median, or from `center(rows, axis=-1)`.

    >>> import numpy as np
    >>> float(median_abs_deviation(np.array([1.0, 2.0, 6.0])))
    1.0
    """
    if center is not None and not callable(center):
        raise TypeError(f"The argument 'center' must be callable. The given value {center!r} is not callable.")
    rows = rows_of(x, axis, nan_policy)
    middle = (np.median if center is None else center)(rows, axis=-1)
    return kept(np.median(np.abs(rows - middle[..., None]), axis=-1) / _scale(scale, _NORMAL_QUARTILE), x, axis, keepdims)


@mirrors("stats")
def trim_mean(a: Any, proportiontocut: float, axis: Any = 0, *, nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.trim_mean`: the mean without a share of the smallest and of the largest samples.

    >>> import numpy as np
    >>> float(trim_mean(np.array([1.0, 2.0, 3.0, 90.0]), 0.25))
    2.5
    """
    rows = np.sort(rows_of(a, axis, nan_policy), axis=-1)
    cut = int(proportiontocut * rows.shape[-1])
    if 2 * cut > rows.shape[-1]:
        raise ValueError("Proportion too big.")
    return kept(np.mean(rows[..., cut:rows.shape[-1] - cut], axis=-1), a, axis, keepdims)


@mirrors("stats")
def entropy(pk: Any, qk: Any = None, base: float | None = None, axis: Any = 0, *, nan_policy: str = "propagate", keepdims: bool = False
            ) -> Any:
    """Equivalent of `scipy.stats.entropy`: Shannon's entropy of a distribution, or that relative to another one.

    >>> import numpy as np
    >>> float(entropy(np.array([1.0, 1.0]), base=2))
    1.0
    """
    if base is not None and base <= 0:
        raise ValueError("`base` must be a positive number or `None`.")
    given = [as_traced(each) for each in ((pk,) if qk is None else (pk, qk))]
    like: Any = np.broadcast_to(given[0], np.broadcast_shapes(*(each.shape for each in given)))
    shares = [rows_of(np.broadcast_to(each, like.shape), axis, nan_policy) for each in given]
    shares = [each / np.sum(each, axis=-1, keepdims=True) for each in shares]
    found = np.sum(sc.entr(shares[0]) if qk is None else sc.rel_entr(*shares), axis=-1)
    return kept(found if base is None else found / math.log(base), like, axis, keepdims)


def _resultant(samples: Any, period: Any, axis: Any, nan_policy: str) -> tuple[Any, Any]:
    angles = rows_of(samples, axis, nan_policy) * (2.0 * math.pi / period)
    return np.mean(np.sin(angles), axis=-1), np.mean(np.cos(angles), axis=-1)


@mirrors("stats")
def circmean(samples: Any, high: Any = 2 * math.pi, low: Any = 0, axis: Any = None, nan_policy: str = "propagate", *, keepdims: bool = False
             ) -> Any:
    """Equivalent of `scipy.stats.circmean`: the mean of angles.

    >>> import numpy as np
    >>> round(float(circmean(np.array([350.0, 20.0]), high=360.0)), 6)
    5.0
    """
    sine, cosine = _resultant(samples, high - low, axis, nan_policy)
    return kept((np.arctan2(sine, cosine) * ((high - low) / (2.0 * math.pi)) - low) % (high - low) + low, samples, axis, keepdims)


@mirrors("stats")
def circvar(samples: Any, high: Any = 2 * math.pi, low: Any = 0, axis: Any = None, nan_policy: str = "propagate", *, keepdims: bool = False
            ) -> Any:
    """Equivalent of `scipy.stats.circvar`: 1 minus the length of the mean of directions.

    >>> import numpy as np
    >>> round(float(circvar(np.array([0.0, np.pi]))), 6)
    1.0
    """
    return kept(1.0 - np.minimum(np.hypot(*_resultant(samples, high - low, axis, nan_policy)), 1.0), samples, axis, keepdims)


@mirrors("stats")
def circstd(samples: Any, high: Any = 2 * math.pi, low: Any = 0, axis: Any = None, nan_policy: str = "propagate", *,
            normalize: bool = False, keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.circstd`: the standard deviation of angles.

    >>> import numpy as np
    >>> round(float(circstd(np.array([0.0, np.pi / 2]))), 6)
    0.832555
    """
    length = np.minimum(np.hypot(*_resultant(samples, high - low, axis, nan_policy)), 1.0)
    return kept(np.sqrt(-2.0 * np.log(length)) * (1.0 if normalize else (high - low) / (2.0 * math.pi)), samples, axis, keepdims)


# -- transforms to normal distributions


@mirrors("stats")
def boxcox(x: Any, lmbda: Any = None, alpha: Any = None, optimizer: Any = None) -> Any:
    """Equivalent of `scipy.stats.boxcox` with a given `lmbda`.

    >>> import numpy as np
    >>> boxcox(np.array([1.0, 3.0]), 1.0)
    array([0., 2.])
    """
    if lmbda is None:
        raise UnsupportedError("boxcox without lmbda searches for what fits best", find_user_location(), hint="maximise boxcox_llf")
    return sc.boxcox(*inexact(x, lmbda))


@mirrors("stats")
def boxcox_llf(lmb: Any, data: Any, *, axis: Any = 0, keepdims: bool = False, nan_policy: str = "propagate") -> Any:
    """Equivalent of `scipy.stats.boxcox_llf`: the log-likelihood of a transform.

    >>> import numpy as np
    >>> round(float(boxcox_llf(2.0, np.array([1.0, 3.0]))), 6)
    -0.287682
    """
    rows = rows_of(data, axis, nan_policy)
    spread = np.var(sc.boxcox(rows, as_traced(lmb).astype(rows.dtype)), axis=-1)
    return kept((lmb - 1.0) * np.sum(np.log(rows), axis=-1) - 0.5 * rows.shape[-1] * np.log(spread), data, axis, keepdims)


def _of_signs(x: Any, lmb: Any) -> Any:
    positive = x >= 0
    up, down = np.where(positive, x, 0.0), np.where(positive, 0.0, x)
    return np.where(positive, sc.boxcox1p(up, lmb), -sc.boxcox1p(-down, 2.0 - lmb))


@mirrors("stats")
def yeojohnson(x: Any, lmbda: Any = None) -> Any:
    """Equivalent of `scipy.stats.yeojohnson` with a given `lmbda`.

    >>> import numpy as np
    >>> yeojohnson(np.array([-1.0, 3.0]), 1.0)
    array([-1.,  3.])
    """
    if lmbda is None:
        raise UnsupportedError("yeojohnson without lmbda searches for what fits best", find_user_location(), hint="maximise yeojohnson_llf")
    return _of_signs(*inexact(x, lmbda))


@mirrors("stats")
def yeojohnson_llf(lmb: Any, data: Any, *, axis: Any = 0, nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """Equivalent of `scipy.stats.yeojohnson_llf`: the log-likelihood of a transform.

    >>> import numpy as np
    >>> round(float(yeojohnson_llf(1.0, np.array([1.0, 3.0]))), 6)
    0.0
    """
    rows = rows_of(data, axis, nan_policy)
    spread = np.var(_of_signs(rows, as_traced(lmb).astype(rows.dtype)), axis=-1)
    logs = np.sum(np.sign(rows) * np.log1p(np.abs(rows)), axis=-1)
    return kept((lmb - 1.0) * logs - 0.5 * rows.shape[-1] * np.log(spread), data, axis, keepdims)


# -- distances of samples


def _distance(power: int, values: tuple[Any, Any], weights: tuple[Any, Any]) -> Any:
    """The distance of distribution functions: derivatives go to values and weights."""
    u, v = inexact(*values)
    for each in (u, v):
        if each.ndim != 1 or not each.size:
            raise ValueError("Distribution can't be empty." if each.ndim == 1 else "Invalid input. The distributions must be inferred from "
                             "1-D arrays of values.")
    both = np.concatenate([u, v])
    order = np.argsort(stop_gradient(both))
    gaps = np.diff(np.take(as_traced(both), order))
    shares: Any = 0.0
    for sign, each, first, given in ((1.0, u, 0, weights[0]), (-1.0, v, u.size, weights[1])):
        w = np.full(each.size, 1.0 / each.size) if given is None else as_traced(given) / np.sum(as_traced(given))
        shares = shares + sign * np.pad(w, (first, both.size - first - each.size))
    apart = np.abs(np.cumsum(np.take(as_traced(shares), order))[:-1])
    if power == 1:
        return np.sum(apart * gaps)
    return math.sqrt(2.0) * np.sqrt(np.sum(np.square(apart) * gaps))


@mirrors("stats")
def wasserstein_distance(u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None) -> Any:
    """Equivalent of `scipy.stats.wasserstein_distance`: the earth mover's distance of two samples.

    >>> import numpy as np
    >>> float(wasserstein_distance(np.array([0.0, 1.0]), np.array([5.0, 6.0])))
    5.0
    """
    return _distance(1, (u_values, v_values), (u_weights, v_weights))


@mirrors("stats")
def energy_distance(u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None) -> Any:
    """Equivalent of `scipy.stats.energy_distance`: the energy distance of two samples.

    >>> import numpy as np
    >>> round(float(energy_distance(np.array([0.0]), np.array([2.0]))), 9)
    2.0
    """
    return _distance(2, (u_values, v_values), (u_weights, v_weights))
