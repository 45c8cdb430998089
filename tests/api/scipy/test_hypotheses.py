"""Tests of hypotheses and correlations beside those of `scipy.stats`: statistics and p-values, derivatives of two orders, refusals."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import scipy.stats
from support.each import for_each
from support.scipy_cases import Case, check_derivatives, check_mapped, check_tensors, check_values, compare, some

import adjit as aj
from adjit.errors import UnsupportedError
from adjit.scipy import mirror, stats
from adjit.scipy.stats import correlation, hypotheses, kernels

RANDOM = np.random.default_rng(3)
X, Y, M, Q = RANDOM.normal(size=9), RANDOM.normal(size=9) + 0.5, RANDOM.normal(size=(4, 6)), RANDOM.uniform(1, 5, (4, 6))
LONG, CUBE, TIES = RANDOM.normal(size=(9, 3)) ** 3, RANDOM.normal(size=(2, 3, 4)), np.array([[3.0, 1, 2, 2, 1], [5, 5, 5, 4, np.nan]])

CASES: dict[str, Case] = {
    "correlation": (lambda s: lambda x, y, m: [
        *s.pearsonr(x, y), *s.pearsonr(m, 2.0 * m[::-1] ** 2, axis=1), *s.pearsonr(m, m[0], alternative="less", axis=-1),
        *s.pearsonr(x, y).confidence_interval(), *s.pearsonr(m, m ** 2, axis=None), *s.pointbiserialr(x, y),
        *s.pearsonr(x, y, alternative="greater").confidence_interval(0.8), *s.pearsonr(x[:2], y[:2])], (X, Y, M)),
    "lines": (lambda s: lambda x, y: [
        *s.linregress(x, y), s.linregress(x, y).intercept_stderr, *s.linregress(x, y, alternative="greater"), *s.linregress(x[:2], y[:2])],
        (X, Y)),
    "of t": (lambda s: lambda x, y, m: [
        *s.ttest_1samp(x, 0.3), *s.ttest_1samp(m, 0.1, axis=1, alternative="less"), *s.ttest_ind(x, y[:5]), *s.ttest_rel(x, y),
        *s.ttest_1samp(m, m[:, :1], axis=1), *s.ttest_ind(m, 2.0 * m[:2], equal_var=False), *s.ttest_ind(m, m + 0.2, axis=1, keepdims=True),
        s.ttest_ind(x, y, equal_var=False).df, *s.ttest_ind(x, y, alternative="greater").confidence_interval(0.9), s.ttest_rel(x, y).df,
        *s.ttest_1samp(m, 0.0, axis=None).confidence_interval(), *s.ttest_ind(x, y, trim=0.2),
        *s.ttest_ind_from_stats(x[0], y[1] ** 2, 5, 0.3, 1.2, 7, equal_var=False)], (X, Y, M)),
    "of counts": (lambda s: lambda q: [
        *s.chisquare(q), *s.chisquare(q, axis=None, ddof=2), *s.chisquare(q, q[::-1], axis=0, sum_check=False),
        *s.power_divergence(q, lambda_=0), *s.power_divergence(q, axis=1, lambda_=-1, keepdims=True),
        *s.power_divergence(q, axis=1, lambda_="cressie-read")], (Q,)),
    "of groups": (lambda s: lambda x, m, q: [
        *s.f_oneway(x, x + 1.0, 0.5 * x[:4]), *s.f_oneway(m, q, axis=1), *s.levene(m, q), *s.levene(x, 2.0 * x, center="mean"),
        *s.levene(m, q, center="trimmed", proportiontocut=0.3, axis=1), *s.bartlett(x, 2.0 * x, x[:4]), *s.bartlett(m, q, axis=1)],
        (X, M, Q)),
    "of shape": (lambda s: lambda x: [
        *s.skewtest(x), *s.kurtosistest(x, alternative="less"), *s.normaltest(x), *s.jarque_bera(x), *s.jarque_bera(x, axis=0),
        *s.skewtest(x[:, 0], alternative="greater", keepdims=True)], (LONG,)),
    "of distance": (lambda s: lambda x: [
        *s.kstest(x, "norm", (0.1, 1.3)), *s.ks_1samp(x, s.norm.cdf, alternative="less"),
        *s.ks_1samp(x, s.norm(0.2).cdf, alternative="greater")], (X,)),
    "of ranks": (lambda s: lambda x, y, m: [
        *s.spearmanr(x, y), *s.spearmanr(m), *s.spearmanr(m, axis=1, alternative="less"), *s.spearmanr(m[:, 0], m[:, 1:])], (X, Y, M)),
}


ONCE = ("of distance",)
"""Cases whose second derivatives do not exist."""
KERNELS: Case = (lambda s: lambda x, m, w, p: [
    s.gaussian_kde(x)(p), s.gaussian_kde(x, 0.4, w).logpdf(p), s.gaussian_kde(m, "silverman").pdf(m[:, :3]), s.gaussian_kde(m)([0.3, 0.2]),
    s.gaussian_kde(x, weights=w).integrate_box_1d(-1.0, p[0]), s.gaussian_kde(m).integrate_gaussian(p[:2], np.eye(2)),
    s.gaussian_kde(x).integrate_kde(s.gaussian_kde(p, p[0] ** 2)), s.gaussian_kde(m).marginal(1)(p), s.gaussian_kde(m).covariance,
    s.gaussian_kde(x, lambda kernels: kernels.neff ** -0.5).evaluate(p)], (X, M[:2], Q[0, :1] + X ** 2, Y[:3]))


def check_own_code(case: Case) -> None:
    """Values of plain arrays by our own code, without a trace."""
    make, arrays = case
    compare(make(stats)(*arrays), make(scipy.stats)(*arrays), 1e-10)


def test_values(exhaustive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for_each(some(CASES, exhaustive, 1, 20), lambda *case: check_values(case, stats, scipy.stats, "native"))
    if exhaustive:
        for_each(CASES | {"kernels": KERNELS}, lambda *case: check_values(case, stats, scipy.stats, "interpret"))
    monkeypatch.setattr(kernels, "is_plain", lambda *args, **kwargs: False)
    check_own_code(KERNELS)
    monkeypatch.setattr(mirror, "is_plain", lambda *args, **kwargs: False)
    for_each(CASES, lambda *case: check_own_code(case))


def test_derivatives(exhaustive: bool) -> None:
    cases = some(CASES, exhaustive, 2, 20) | ({"kernels": KERNELS} if exhaustive else {})
    for_each(cases, lambda *case: check_derivatives(case, stats, twice=exhaustive and case[0] not in [CASES[name][0] for name in ONCE]))
    if exhaustive:
        for_each(CASES, lambda *case: check_mapped(case, stats))
    check_tensors(CASES["lines"], stats, scipy.stats)


@pytest.mark.filterwarnings("ignore")
def test_ranks() -> None:
    """Ties, NaN, axes, nothing, strides; the derivative is 0, as that of comparisons. SciPy's functions, and its density, in a trace."""
    given = ((TIES, None), (TIES, 1), (TIES[0], 0), (CUBE[:, ::-1], 1), (TIES[:1, :0], None), (np.array([[3, 1, 3]]), -1))

    def ranks(*arrays: Any) -> list[Any]:
        return [scipy.stats.rankdata(x, method, axis=axis) for x, (_, axis) in zip(arrays, given, strict=True)
                for method in ("average", "min", "max", "dense", "ordinal")]

    arrays = [x for x, _ in given]
    for found, wanted in zip(aj.compile(ranks, backend="interpret")(*arrays), ranks(*arrays), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert not np.any(aj.grad(lambda x: scipy.stats.spearmanr(x, Y).statistic)(X))
    assert np.isnan(aj.compile(lambda x: stats.spearmanr(x, TIES[0]).statistic, backend="interpret")(TIES[1]))
    assert np.isnan(aj.compile(lambda x: stats.pearsonr(x, Y).statistic, backend="interpret")(np.ones(9)))
    density = scipy.stats.gaussian_kde(X)
    assert aj.grad(lambda end: density.integrate_box_1d(-1.0, end))(0.3) == pytest.approx(density(0.3)[0])


@pytest.mark.parametrize("name", [name for module in (hypotheses, correlation) for name in vars(module) if name in stats.__all__])
def test_parameters(name: str) -> None:
    ours, theirs = (inspect.signature(getattr(module, name)).parameters.values() for module in (stats, scipy.stats))
    assert [(each.name, each.kind) for each in ours] == [(each.name, each.kind) for each in theirs]


def test_what_is_refused() -> None:
    x = np.arange(9.0)
    for function, kind, words in (
            (lambda x: stats.ttest_ind(x, x, method=scipy.stats.PermutationMethod()), UnsupportedError, "draws samples again"),
            (lambda x: stats.pearsonr(x, x[:3]), ValueError, "must have the same length"),
            (lambda x: stats.ttest_1samp(x, 0.0, alternative="more"), ValueError, "`alternative` must be"),
            (lambda x: stats.kstest(x, x), UnsupportedError, "constant between ties"), (lambda x: stats.skewtest(x[:4]), ValueError, "8"),
            (lambda x: stats.f_oneway(x, x, equal_var=False), UnsupportedError, "ttest_ind"),
            (lambda x: stats.gaussian_kde(x).resample(3), UnsupportedError, r"gaussian_kde\.resample of traced samples")):
        with pytest.raises(kind, match=words):
            aj.compile(function)(x)
    with pytest.raises(AttributeError, match=r"return \.df, or the ends"):
        _ = aj.compile(lambda x: stats.ttest_1samp(x, 0.0), backend="interpret")(x).df
