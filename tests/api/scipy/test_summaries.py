"""Summaries of samples in `adjit.scipy.stats`: SciPy's values and parameters, derivatives of two orders, what is refused."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.scipy_cases import Case, check_derivatives, check_mapped, check_tensors, check_values, some

import adjit as aj
from adjit.errors import UnsupportedError

theirs = pytest.importorskip("scipy.stats")
from adjit.scipy import stats  # noqa: E402
from adjit.scipy.stats import further_summaries, summaries  # noqa: E402

RANDOM = np.random.default_rng(1)
X, M, Q, CUBE = RANDOM.normal(size=9), RANDOM.normal(size=(4, 6)), RANDOM.uniform(0.2, 2, (4, 6)), RANDOM.uniform(0.2, 2, (2, 3, 4))
NAMES = [name for module in (summaries, further_summaries) for name in module.__dict__ if name in stats.__all__]

CASES: dict[str, Case] = {
    **{name: (lambda s, name=name: lambda m: [getattr(s, name)(m), getattr(s, name)(m, axis=1), getattr(s, name)(m, axis=None)], (Q,))
       for name in ("gmean", "hmean", "variation", "gstd", "gzscore", "sem", "zscore", "skew", "kurtosis", "median_abs_deviation",
                    "circmean", "circvar", "circstd", "iqr")},
    "moments": (lambda s: lambda q, c: [
        s.skew(q, bias=False, keepdims=True), s.kurtosis(q, 1, False, False), s.kurtosis(c, (0, 2)), s.moment(q, 3, 1),
        s.moment(q, [0, 1, 2, 4]), s.moment(q, 2, center=0.3), s.variation(q, ddof=1), s.sem(q, 1, 0)], (Q, CUBE)),
    "means": (lambda s: lambda q, c, w: [
        s.gmean(c, (0, 1), keepdims=True), s.gmean(q, 1, weights=w), s.hmean(q, weights=q), s.pmean(q, 1.7, axis=1), s.pmean(q, 0),
        s.pmean(q, -2, weights=q), s.trim_mean(q, 0.2, 1), s.trim_mean(q, 0.3)], (Q, CUBE, Q[0])),
    "spreads": (lambda s: lambda q: [
        s.zmap(q, q[:, ::-1] + 0.1, 1, 1), s.iqr(q, 1, (10, 60), "normal", keepdims=True), s.circmean(10 * q, 7.0, -2.0, 1),
        s.median_abs_deviation(q, 1, center=np.mean, scale="normal"), s.circstd(q, 3, 1, 0, normalize=True)], (Q,)),
    "entropy": (lambda s: lambda q: [s.entropy(q), s.entropy(q, q[::-1], 2, 1), s.entropy(q[0], q[1])], (Q,)),
    "to normal ones": (lambda s: lambda q, x: [
        s.boxcox(q[0], 0.3), s.boxcox_llf(0.4, q, axis=1), s.yeojohnson(x, 0.7), s.yeojohnson(x, 0.0), s.yeojohnson(x, 2.0),
        s.yeojohnson_llf(0.3, x)], (Q, X)),
    "within limits": (lambda s: lambda q, m: [
        s.tmean(q), s.tmean(q, (0.5, 1.5)), s.tvar(q, (0.5, None), (False, True), 1), s.tstd(m, (-1, 2), axis=None), s.tsem(q, ddof=0),
        s.tmin(q, 0.5, keepdims=True), s.tmax(q, 1.0, 1, False), s.tmax(m)], (Q, M)),
    "described": (lambda s: lambda q, x, c: [
        *s.describe(q)[2:], *s.describe(q, None, 0, False)[1], *(s.kstat(c, n, axis=(0, 2)) for n in (1, 2, 3, 4)), s.kstatvar(q, axis=1),
        s.kstatvar(x, 1), *(s.differential_entropy(q, axis=1, method=name, window_length=2) for name in ("vasicek", "correa", "ebrahimi")),
        s.differential_entropy(x, base=2), s.scoreatpercentile(q, (10, 60), axis=1), s.scoreatpercentile(x, 30, (), "lower"),
        s.directional_stats(c).mean_direction, s.directional_stats(q, axis=1, normalize=False).mean_resultant_length], (Q, X, CUBE)),
    "distances": (lambda s: lambda x, m, q: [
        s.wasserstein_distance(x, m[0]), s.energy_distance(x, m[0]), s.wasserstein_distance(m[0], m[1], q[0], q[1]),
        s.energy_distance(m[0], m[1], q[0])], (X, M, Q)),
}


def test_summaries(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 1, 3), lambda *case: check_values(case, stats, theirs, "interpret"))
    for_each(some(CASES, exhaustive, 2, 7), lambda *case: check_values(case, stats, theirs, "native"))


def test_derivatives_of_summaries(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 0, 6), lambda *case: check_derivatives(case, stats))
    for_each(some(CASES, exhaustive, 14, 7), lambda *case: check_mapped(case, stats))


def test_summaries_of_tensors() -> None:
    for_each({name: CASES[name] for name in ("skew", "distances")}, lambda *case: check_tensors(case, stats, theirs))


@pytest.mark.parametrize("name", NAMES)
def test_parameters_of_summaries(name: str) -> None:
    ours, wanted = (inspect.signature(getattr(module, name)).parameters.values() for module in (stats, theirs))
    assert [(each.name, each.kind) for each in ours] == [(each.name, each.kind) for each in wanted]


@pytest.mark.filterwarnings("ignore")
def test_equal_samples_and_transforms_have_what_scipy_has() -> None:
    equal = np.full(4, 3.0)
    for name in ("skew", "kurtosis", "zscore"):
        np.testing.assert_array_equal(aj.compile(getattr(stats, name), backend="interpret")(equal), getattr(theirs, name)(equal))
    slope = aj.compile(aj.grad(lambda power: stats.boxcox_llf(power, Q[0])), backend="interpret")(0.4)
    assert slope == pytest.approx((theirs.boxcox_llf(0.4 + 1e-6, Q[0]) - theirs.boxcox_llf(0.4 - 1e-6, Q[0])) / 2e-6, rel=1e-5)


@pytest.mark.parametrize(("function", "kind", "words"), [
    (lambda x: stats.skew(x, nan_policy="omit"), UnsupportedError, "nanmean"),
    (lambda x: stats.skew(x, nan_policy="drop"), ValueError, "nan_policy must be one of"),
    (lambda x: stats.boxcox(x), UnsupportedError, "maximise boxcox_llf"),
    (lambda x: stats.iqr(x, scale="wide"), ValueError, "not a valid scale"),
    (lambda x: stats.trim_mean(x, 0.9), ValueError, "Proportion too big"),
    (lambda x: stats.shapiro(x), UnsupportedError, "a test of a hypothesis"),
])
def test_what_summaries_refuse(function: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        aj.compile(function)(np.arange(8.0))
