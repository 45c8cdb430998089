"""Tests of hypotheses: statistics and p-values, both with derivatives; formulas are SciPy's.

`nan_policy` is "propagate": other policies are refused. Results that SciPy gives with a warning are NaN here. A result unpacks as SciPy's
does. A compiled function that returns it whole returns what it unpacks to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from adjit import special as sc
from adjit.ir.errors import UnsupportedError
from adjit.runtime.pure_callback import pure_callback
from adjit.scipy.mirror import outside_scipys, scipys
from adjit.scipy.sliding import inexact
from adjit.scipy.stats.samples import kept, rows_of
from adjit.scipy.stats.summaries import kurtosis, skew
from adjit.tracer.array import as_traced
from adjit.tracer.dispatch import dispatched
from adjit.tracer.user_location import find_user_location


class Interval(NamedTuple):
    """Ends of a confidence interval."""

    low: Any
    high: Any


class Significance(NamedTuple):
    """Statistic of a test, and the probability of one as extreme under the hypothesis."""

    statistic: Any
    pvalue: Any


class TtestResult(Significance):
    """Statistic and p-value of Student's t, with `df` and `confidence_interval()`."""

    _rest: tuple[Any, ...] | None = None

    def _parts(self) -> tuple[Any, ...]:
        if self._rest is None:
            raise AttributeError("a compiled function returns the statistic and the p-value of a t-test: return .df, or the ends of "
                                 ".confidence_interval(), beside them")
        return self._rest

    @property
    def df(self) -> Any:
        """Degrees of freedom."""
        return self._parts()[0]

    def confidence_interval(self, confidence_level: float = 0.95) -> Interval:
        """Return the ends of the interval of the mean, or of the difference of means."""
        df, estimate, error, alternative = self._parts()
        return Interval(*_t_interval(df, estimate, error, confidence_level, alternative))


def p_value(statistic: Any, cdf: Callable[[Any], Any], alternative: str) -> Any:
    """Probability of a statistic as extreme, by a distribution function that is symmetric around 0."""
    if alternative not in ("two-sided", "less", "greater"):
        raise ValueError("`alternative` must be 'less', 'greater', or 'two-sided'.")
    if alternative == "two-sided":
        return 2.0 * cdf(-np.abs(statistic))
    return cdf(statistic if alternative == "less" else -statistic)


@dispatched
def _t_interval(df: Any, estimate: Any, error: Any, level: float, alternative: str) -> tuple[Any, Any]:
    if not 0 < level < 1:
        raise ValueError("`confidence_level` must be a number between 0 and 1.")
    df, estimate, error = inexact(df, estimate, error)
    reach = error * sc.stdtrit(df, 0.5 + 0.5 * level if alternative == "two-sided" else level)
    low = estimate - math.inf if alternative == "less" else estimate - reach
    return low, estimate + math.inf if alternative == "greater" else estimate + reach


def _t_result(found: tuple[Any, ...], alternative: str) -> TtestResult:
    statistic, pvalue, *rest = found
    result = TtestResult(statistic, pvalue)
    result._rest = (*rest, alternative)
    return result


def _of_t(difference: Any, error: Any, df: Any, alternative: str) -> tuple[Any, ...]:
    t = difference / error
    return t, p_value(t, lambda t: sc.stdtr(df, t), alternative), np.broadcast_to(df, t.shape), error


@dispatched
def _one_sample(a: Any, popmean: Any, axis: Any, nan_policy: str, alternative: str, keepdims: bool) -> tuple[Any, ...]:
    rows, popmean = rows_of(a, axis, nan_policy), as_traced(popmean)
    count = rows.shape[-1]
    if popmean.ndim and axis is not None:
        popmean = np.squeeze(popmean, axis=axis)
    mean = np.mean(rows, axis=-1)
    t, pvalue, df, error = _of_t(mean - popmean, np.sqrt(np.var(rows, axis=-1, ddof=1) / count), count - 1, alternative)
    return tuple(kept(part, a, axis, keepdims) for part in (t, pvalue, df, mean, error))


@outside_scipys("stats")
def ttest_1samp(a: Any, popmean: Any, axis: Any = 0, nan_policy: str = "propagate", alternative: str = "two-sided", *,
                keepdims: bool = False) -> TtestResult:
    """Equivalent of `scipy.stats.ttest_1samp`: Student's t of the mean of samples, and its p-value.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.grad(lambda x: ttest_1samp(x, 0.0).statistic)(np.array([1.0, 2.0, 3.0])).round(6)
    array([ 2.309401,  0.57735 , -1.154701])
    """
    return _t_result(_one_sample(a, popmean, axis, nan_policy, alternative, keepdims), alternative)


@dispatched
def _difference(a: Any, b: Any) -> Any:
    a, b = inexact(a, b)
    return a - b


@outside_scipys("stats")
def ttest_rel(a: Any, b: Any, axis: Any = 0, nan_policy: str = "propagate", alternative: str = "two-sided", *, keepdims: bool = False
              ) -> TtestResult:
    """Equivalent of `scipy.stats.ttest_rel`: Student's t of the mean of differences, and its p-value.

    >>> import numpy as np
    >>> import adjit as aj
    >>> x = np.array([1.0, 2.0, 4.0])
    >>> float(aj.compile(lambda a, b: ttest_rel(a, b).statistic)(x, x[::-1] + 1.0).round(6))
    -0.57735
    """
    return _t_result(_one_sample(_difference(a, b), 0.0, axis, nan_policy, alternative, keepdims), alternative)


def _of_two(parts: list[Any], equal_var: bool, alternative: str) -> tuple[Any, ...]:
    """Student's t of two samples, from the mean, the variance and the number of each."""
    mean1, var1, n1, mean2, var2, n2 = parts
    if equal_var:
        df = n1 + n2 - 2.0
        error = np.sqrt(((n1 - 1) * var1 + (n2 - 1) * var2) / df * (1.0 / n1 + 1.0 / n2))
    else:
        first, second = var1 / n1, var2 / n2
        below = first ** 2 / (n1 - 1) + second ** 2 / (n2 - 1)
        df = np.where(below == 0, 1.0, (first + second) ** 2 / np.where(below == 0, 1.0, below))
        error = np.sqrt(first + second)
    t, pvalue, df, error = _of_t(mean1 - mean2, error, df, alternative)
    return t, pvalue, df, mean1 - mean2, error


def _trimmed(rows: Any, trim: float) -> tuple[Any, Any, int]:
    """Mean, variance and number of samples by Yuen: without a share of the smallest and of the largest, which the variance has as the
    nearest that are left."""
    count, rows = rows.shape[-1], np.sort(rows, axis=-1)
    cut = int(count * trim)
    middle = rows[..., cut:count - cut]
    wide = np.concatenate([np.repeat(middle[..., :1], cut, axis=-1), middle, np.repeat(middle[..., -1:], cut, axis=-1)], axis=-1)
    left = count - 2 * cut
    squares = np.sum((wide - np.mean(wide, axis=-1, keepdims=True)) ** 2, axis=-1)
    return np.mean(middle, axis=-1), squares / (left - 1), left


@dispatched
def _two_samples(a: Any, b: Any, axis: Any, equal_var: bool, nan_policy: str, alternative: str, trim: float, keepdims: bool
                 ) -> tuple[Any, ...]:
    parts: list[Any] = []
    for given in inexact(a, b):
        rows = rows_of(given, axis, nan_policy)
        count = rows.shape[-1]
        if trim:
            parts += _trimmed(rows, trim)
        else:
            spread = np.zeros(rows.shape[:-1]) if count == 1 and equal_var else np.var(rows, axis=-1, ddof=1)
            parts += [np.mean(rows, axis=-1), spread, count]
    return tuple(kept(part, a, axis, keepdims) for part in _of_two(parts, equal_var, alternative))


@outside_scipys("stats")
def ttest_ind(a: Any, b: Any, *, axis: Any = 0, equal_var: bool = True, nan_policy: str = "propagate", alternative: str = "two-sided",
              trim: float = 0, method: Any = None, keepdims: bool = False) -> TtestResult:
    """Equivalent of `scipy.stats.ttest_ind`: Student's t of the difference of two means (Welch's with `equal_var=False`, Yuen's with
    `trim`), and its p-value. Samples that are drawn again (`method`) are refused.

    >>> import numpy as np
    >>> import adjit as aj
    >>> x = np.array([1.0, 2.0, 4.0])
    >>> float(aj.compile(lambda a, b: ttest_ind(a, b, equal_var=False).pvalue)(x, x + 1.0).round(6))
    0.467605
    """
    if not 0 <= trim < 0.5:
        raise ValueError("Trimming percentage should be 0 <= `trim` < .5.")
    if method is not None:
        raise UnsupportedError("ttest_ind(method=) of traced arrays draws samples again", find_user_location(), hint="leave method out")
    return _t_result(_two_samples(a, b, axis, equal_var, nan_policy, alternative, trim, keepdims), alternative)


@dispatched
def _from_stats(numbers: tuple[Any, ...], equal_var: bool, alternative: str) -> tuple[Any, ...]:
    mean1, std1, nobs1, mean2, std2, nobs2 = inexact(*numbers)
    return _of_two([mean1, std1 ** 2, nobs1, mean2, std2 ** 2, nobs2], equal_var, alternative)[:2]


@outside_scipys("stats")
def ttest_ind_from_stats(mean1: Any, std1: Any, nobs1: Any, mean2: Any, std2: Any, nobs2: Any, equal_var: bool = True,
                         alternative: str = "two-sided") -> Significance:
    """Equivalent of `scipy.stats.ttest_ind_from_stats`: a t-test from means, standard deviations and numbers of samples.

    >>> import adjit as aj
    >>> float(aj.compile(lambda mean: ttest_ind_from_stats(mean, 1.0, 3, 2.0, 1.0, 3).statistic)(3.0).round(6))
    1.224745
    """
    return Significance(*_from_stats((mean1, std1, nobs1, mean2, std2, nobs2), equal_var, alternative))


_POWERS = {"pearson": 1.0, "log-likelihood": 0.0, "freeman-tukey": -0.5, "mod-log-likelihood": -1.0, "neyman": -2.0,
           "cressie-read": 2.0 / 3.0}


@dispatched
def _divergence(f_obs: Any, f_exp: Any, ddof: Any, axis: Any, power: float, nan_policy: str, keepdims: bool) -> tuple[Any, Any]:
    if f_exp is None:
        observed = rows_of(f_obs, axis, nan_policy)
        expected, like = np.mean(observed, axis=-1, keepdims=True), f_obs
    else:
        like, other = np.broadcast_arrays(*inexact(f_obs, f_exp))
        observed, expected = rows_of(like, axis, nan_policy), rows_of(other, axis, nan_policy)
    if power == 1:
        terms = (observed - expected) ** 2 / expected
    elif power == 0:
        terms = 2.0 * sc.xlogy(observed, observed / expected)
    elif power == -1:
        terms = 2.0 * sc.xlogy(expected, expected / observed)
    else:
        terms = observed * ((observed / expected) ** power - 1.0) / (0.5 * power * (power + 1.0))
    statistic = np.sum(terms, axis=-1)
    pvalue = sc.chdtrc(observed.shape[-1] - 1.0 - as_traced(ddof), statistic)
    return kept(statistic, like, axis, keepdims), kept(pvalue, like, axis, keepdims)


@outside_scipys("stats")
def power_divergence(f_obs: Any, f_exp: Any = None, ddof: Any = 0, axis: Any = 0, lambda_: Any = None, *, nan_policy: str = "propagate",
                     keepdims: bool = False) -> Significance:
    """Equivalent of `scipy.stats.power_divergence`: the distance of numbers from those that are expected (by default all equal) in a power,
    "log-likelihood" among them. That the sums agree is not checked.

    >>> import numpy as np
    >>> import adjit as aj
    >>> float(aj.compile(lambda n: power_divergence(n, lambda_="log-likelihood").statistic)(np.array([16.0, 18.0, 8.0])).round(6))
    4.366471
    """
    if isinstance(lambda_, str) and lambda_ not in _POWERS:
        raise ValueError(f"invalid string for lambda_: {lambda_!r}. Valid strings are {repr(list(_POWERS))[1:-1]}")
    power = 1.0 if lambda_ is None else _POWERS[lambda_] if isinstance(lambda_, str) else float(lambda_)
    return Significance(*_divergence(f_obs, f_exp, ddof, axis, power, nan_policy, keepdims))


@outside_scipys("stats")
def chisquare(f_obs: Any, f_exp: Any = None, ddof: Any = 0, axis: Any = 0, *, sum_check: bool = True, nan_policy: str = "propagate",
              keepdims: bool = False) -> Significance:
    """Equivalent of `scipy.stats.chisquare`: Pearson's distance of numbers from those that are expected (by default all equal). That the
    sums agree is not checked.

    >>> import numpy as np
    >>> import adjit as aj
    >>> float(aj.compile(lambda n: chisquare(n).statistic)(np.array([16.0, 18.0, 8.0])).round(6))
    4.0
    """
    return Significance(*_divergence(f_obs, f_exp, ddof, axis, 1.0, nan_policy, keepdims))


def _groups(samples: tuple[Any, ...], axis: Any, nan_policy: str) -> list[Any]:
    if len(samples) < 2:
        raise TypeError(f"at least two inputs are required; got {len(samples)}.")
    return [rows_of(each, axis, nan_policy) for each in inexact(*samples)]


def _variance_ratio(groups: list[Any]) -> tuple[Any, Any]:
    """Fisher's F: the variance between groups over that within, and its p-value."""
    count, k = sum(rows.shape[-1] for rows in groups), len(groups)
    middle = sum(np.sum(rows, axis=-1) for rows in groups) / count
    means = [np.mean(rows, axis=-1) for rows in groups]
    between = sum(rows.shape[-1] * (mean - middle) ** 2 for rows, mean in zip(groups, means, strict=True))
    within = sum(np.sum((rows - mean[..., None]) ** 2, axis=-1) for rows, mean in zip(groups, means, strict=True))
    f = between / (k - 1.0) / (within / (count - k))
    return f, sc.fdtrc(k - 1.0, float(count - k), f)


@dispatched
def _anova(samples: tuple[Any, ...], axis: Any, nan_policy: str, keepdims: bool) -> tuple[Any, ...]:
    return tuple(kept(part, samples[0], axis, keepdims) for part in _variance_ratio(_groups(samples, axis, nan_policy)))


@outside_scipys("stats")
def f_oneway(*samples: Any, axis: Any = 0, equal_var: bool = True, nan_policy: str = "propagate", keepdims: bool = False) -> Significance:
    """Equivalent of `scipy.stats.f_oneway`, for groups of one variance: Fisher's F of several means, and its p-value.

    >>> import numpy as np
    >>> import adjit as aj
    >>> x = np.array([1.0, 2.0, 4.0])
    >>> float(aj.compile(lambda x: f_oneway(x, x + 1.0, 2.0 * x).statistic)(x).round(6))
    0.880952
    """
    if not equal_var:
        raise UnsupportedError("f_oneway(equal_var=False) of traced arrays", find_user_location(),
                               hint="of two groups it is ttest_ind(equal_var=False)")
    return Significance(*_anova(samples, axis, nan_policy, keepdims))


@dispatched
def _spreads(samples: tuple[Any, ...], center: str, proportiontocut: float, axis: Any, nan_policy: str, keepdims: bool) -> tuple[Any, ...]:
    groups = _groups(samples, axis, nan_policy)
    middle: Any = {"mean": np.mean, "median": np.median, "trimmed": lambda rows, axis: _trimmed(rows, proportiontocut)[0]}[center]
    apart = [np.abs(rows - middle(rows, axis=-1)[..., None]) for rows in groups]
    return tuple(kept(part, samples[0], axis, keepdims) for part in _variance_ratio(apart))


@outside_scipys("stats")
def levene(*samples: Any, center: str = "median", proportiontocut: float = 0.05, axis: Any = 0, nan_policy: str = "propagate",
           keepdims: bool = False) -> Significance:
    """Equivalent of `scipy.stats.levene`: Fisher's F of distances from the middles of groups, and its p-value.

    >>> import numpy as np
    >>> import adjit as aj
    >>> x = np.array([1.0, 2.0, 4.0])
    >>> float(aj.compile(lambda x: levene(x, 3.0 * x).statistic)(x).round(6))
    1.2
    """
    if center not in ("mean", "median", "trimmed"):
        raise ValueError("center must be 'mean', 'median' or 'trimmed'.")
    return Significance(*_spreads(samples, center, proportiontocut, axis, nan_policy, keepdims))


@dispatched
def _variances(samples: tuple[Any, ...], axis: Any, nan_policy: str, keepdims: bool) -> tuple[Any, ...]:
    groups = _groups(samples, axis, nan_policy)
    k, free = len(groups), [rows.shape[-1] - 1.0 for rows in groups]
    spreads = [np.var(rows, axis=-1, ddof=1) for rows in groups]
    pooled = sum(n * spread for n, spread in zip(free, spreads, strict=True)) / sum(free)
    logs = sum(free) * np.log(pooled) - sum(n * np.log(spread) for n, spread in zip(free, spreads, strict=True))
    statistic = logs / (1.0 + (sum(1.0 / n for n in free) - 1.0 / sum(free)) / (3.0 * (k - 1)))
    pvalue = sc.chdtrc(k - 1.0, statistic)
    return tuple(kept(part, samples[0], axis, keepdims) for part in (np.maximum(statistic, 0.0), pvalue))


@outside_scipys("stats")
def bartlett(*samples: Any, axis: Any = 0, nan_policy: str = "propagate", keepdims: bool = False) -> Significance:
    """Equivalent of `scipy.stats.bartlett`: Bartlett's test of equal variances.

    >>> import numpy as np
    >>> import adjit as aj
    >>> x = np.array([1.0, 2.0, 4.0])
    >>> float(aj.compile(lambda x: bartlett(x, 3.0 * x).statistic)(x).round(6))
    1.634642
    """
    return Significance(*_variances(samples, axis, nan_policy, keepdims))


# -- tests of the shape of a distribution


def _skewness_score(rows: Any) -> Any:
    n = float(rows.shape[-1])
    if n < 8:
        raise ValueError("skewtest needs at least 8 samples")
    y = skew(rows, axis=-1) * math.sqrt((n + 1) * (n + 3) / (6.0 * (n - 2)))
    beta = 3.0 * (n ** 2 + 27 * n - 70) * (n + 1) * (n + 3) / ((n - 2.0) * (n + 5) * (n + 7) * (n + 9))
    width = math.sqrt(2.0 * (beta - 1)) - 1.0
    return np.arcsinh(y * math.sqrt((width - 1) / 2.0)) / math.sqrt(0.5 * math.log(width))


def _kurtosis_score(rows: Any) -> Any:
    n = float(rows.shape[-1])
    if n < 5:
        raise ValueError("kurtosistest needs at least 5 samples")
    spread = 24.0 * n * (n - 2) * (n - 3) / ((n + 1) ** 2 * (n + 3) * (n + 5))
    x = (kurtosis(rows, axis=-1, fisher=False) - 3.0 * (n - 1) / (n + 1)) / math.sqrt(spread)
    root = 6.0 * (n * n - 5 * n + 2) / ((n + 7) * (n + 9)) * math.sqrt(6.0 * (n + 3) * (n + 5) / (n * (n - 2) * (n - 3)))
    a = 6.0 + 8.0 / root * (2.0 / root + math.sqrt(1.0 + 4.0 / root ** 2))
    below = 1.0 + x * math.sqrt(2.0 / (a - 4.0))
    powered = np.sign(below) * np.where(below == 0, math.nan, (1.0 - 2.0 / a) / np.abs(below)) ** (1.0 / 3.0)
    return (1.0 - 2.0 / (9.0 * a) - powered) / math.sqrt(2.0 / (9.0 * a))


@dispatched
def _of_shape(name: str, a: Any, axis: Any, nan_policy: str, alternative: str, keepdims: bool) -> tuple[Any, ...]:
    rows = rows_of(a, axis, nan_policy)
    if name == "jarque_bera":
        statistic = rows.shape[-1] / 6.0 * (skew(rows, axis=-1) ** 2 + kurtosis(rows, axis=-1) ** 2 / 4.0)
    elif name == "normaltest":
        statistic = _skewness_score(rows) ** 2 + _kurtosis_score(rows) ** 2
    else:
        statistic = (_skewness_score if name == "skewtest" else _kurtosis_score)(rows)
        pvalue = p_value(statistic, sc.ndtr, alternative)
        return kept(statistic, a, axis, keepdims), kept(pvalue, a, axis, keepdims)
    return kept(statistic, a, axis, keepdims), kept(np.exp(-0.5 * statistic), a, axis, keepdims)


@outside_scipys("stats")
def skewtest(a: Any, axis: Any = 0, nan_policy: str = "propagate", alternative: str = "two-sided", *, keepdims: bool = False
             ) -> Significance:
    """Equivalent of `scipy.stats.skewtest`: a test of the skewness of a normal distribution.

    >>> import numpy as np
    >>> import adjit as aj
    >>> float(aj.compile(lambda x: skewtest(x).statistic)(np.arange(8.0) ** 2).round(6))
    1.130628
    """
    return Significance(*_of_shape("skewtest", a, axis, nan_policy, alternative, keepdims))


@outside_scipys("stats")
def kurtosistest(a: Any, axis: Any = 0, nan_policy: str = "propagate", alternative: str = "two-sided", *, keepdims: bool = False
                 ) -> Significance:
    """Equivalent of `scipy.stats.kurtosistest`: a test of the kurtosis of a normal distribution.

    >>> import numpy as np
    >>> import adjit as aj
    >>> float(aj.compile(lambda x: kurtosistest(x).statistic)(np.arange(8.0) ** 2).round(6))
    -0.167284
    """
    return Significance(*_of_shape("kurtosistest", a, axis, nan_policy, alternative, keepdims))


@outside_scipys("stats")
def normaltest(a: Any, axis: Any = 0, nan_policy: str = "propagate", *, keepdims: bool = False) -> Significance:
    """Equivalent of `scipy.stats.normaltest`: a test of skewness and kurtosis of a normal distribution.

    >>> import numpy as np
    >>> import adjit as aj
    >>> float(aj.compile(lambda x: normaltest(x).statistic)(np.arange(8.0) ** 2).round(6))
    1.306304
    """
    return Significance(*_of_shape("normaltest", a, axis, nan_policy, "two-sided", keepdims))


@outside_scipys("stats")
def jarque_bera(x: Any, *, axis: Any = None, nan_policy: str = "propagate", keepdims: bool = False) -> Significance:
    """Equivalent of `scipy.stats.jarque_bera`: a test of skewness and kurtosis of a normal distribution, for many samples.

    >>> import numpy as np
    >>> import adjit as aj
    >>> float(aj.compile(lambda x: jarque_bera(x).statistic)(np.arange(8.0) ** 2).round(6))
    0.86821
    """
    return Significance(*_of_shape("jarque_bera", x, axis, nan_policy, "two-sided", keepdims))


def _tail(statistic: Any, count: int, alternative: str) -> Any:
    """Exact p-value of a distance of distribution functions, by SciPy; its derivative is minus the density."""
    name = "kstwo" if alternative == "two-sided" else "ksone"

    def tail(distance: np.ndarray) -> np.ndarray:
        return np.asarray(np.clip(getattr(scipys("stats"), name).sf(distance, count), 0.0, 1.0), dtype=distance.dtype)

    def derivative(cotangent: Any, _: Any, distance: np.ndarray) -> np.ndarray:
        return np.asarray(-cotangent * getattr(scipys("stats"), name).pdf(distance, count), dtype=distance.dtype)

    return pure_callback(tail, (statistic.shape, statistic.dtype), statistic, vjp=derivative)


@outside_scipys("stats")
def ks_1samp(x: Any, cdf: Callable[..., Any], args: Any = (), alternative: str = "two-sided", method: str = "auto", *, axis: Any = 0,
             nan_policy: str = "propagate", keepdims: bool = False) -> Significance:
    """Equivalent of `scipy.stats.ks_1samp`: the largest distance of the samples' distribution function from `cdf`, and its exact p-value,
    which has no second derivative.

    >>> import numpy as np
    >>> import adjit as aj
    >>> from adjit.scipy import stats
    >>> float(aj.compile(lambda x: ks_1samp(x, stats.norm.cdf).statistic)(np.array([-0.5, 0.1, 0.9])).round(6))
    0.308538
    """
    if method not in ("auto", "exact"):
        raise UnsupportedError(f"ks_1samp(method={method!r}) of traced arrays", find_user_location(), hint="leave method out: it is exact")
    if alternative not in ("two-sided", "less", "greater"):
        raise ValueError(f"Unexpected value alternative={alternative!r}")
    rows = _sorted_rows(x, axis, nan_policy)
    count, values = rows.shape[-1], cdf(rows, *args)
    steps = np.arange(count + 1.0) / count
    above, below = np.max(steps[1:] - values, axis=-1), np.max(values - steps[:-1], axis=-1)
    statistic = above if alternative == "greater" else below if alternative == "less" else np.maximum(above, below)
    pvalue = _tail(statistic, count, alternative)
    return Significance(*(_with_dimensions(part, x, axis, keepdims) for part in (statistic, pvalue)))


@outside_scipys("stats")
def kstest(rvs: Any, cdf: Any, args: Any = (), N: int = 20, alternative: str = "two-sided", method: str = "auto", *, axis: Any = 0,
           nan_policy: str = "propagate", keepdims: bool = False) -> Significance:
    """Equivalent of `scipy.stats.kstest` of one sample: `ks_1samp`, with a distribution function or the name of a distribution.

    >>> import numpy as np
    >>> import adjit as aj
    >>> float(aj.compile(lambda x: kstest(x, "norm").statistic)(np.array([-0.5, 0.1, 0.9])).round(6))
    0.308538
    """
    if isinstance(cdf, str):
        cdf = getattr(import_module(__package__), cdf).cdf
    if not callable(cdf):
        raise UnsupportedError("kstest of two samples counts which elements are smaller: it is constant between ties", find_user_location(),
                               hint="stats.wasserstein_distance and energy_distance are distances of samples with derivatives")
    return ks_1samp(rvs, cdf, args, alternative, method, axis=axis, nan_policy=nan_policy, keepdims=keepdims)


@dispatched
def _sorted_rows(x: Any, axis: Any, nan_policy: str) -> Any:
    return np.sort(rows_of(x, axis, nan_policy), axis=-1)


_with_dimensions = dispatched(kept)
