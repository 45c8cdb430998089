"""Distributions of vectors and matrices beside those of `scipy.stats`: values, derivatives of two orders, parameters that are held."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
from support.each import for_each
from support.scipy_cases import Case, check_derivatives, check_mapped, check_tensors, check_values, compare, some

import adjit as aj
from adjit.errors import UnsupportedError
from adjit.scipy import stats
from adjit.scipy.stats import distribution

RANDOM = np.random.default_rng(0)
X, MEAN, ROOT, SHARES = RANDOM.normal(size=(4, 3)), RANDOM.normal(size=3), RANDOM.normal(size=(3, 3)), np.array([0.2, 0.3, 0.5])
ALPHA, COUNTS = np.array([1.5, 0.7, 2.0]), np.array([[1, 2, 3], [2, 2, 2]])
DIRECTIONS = X / np.linalg.norm(X, axis=-1, keepdims=True)


def cov(root: Any) -> Any:
    return root @ root.T + np.eye(3)


def both(root: Any) -> Any:
    return np.stack([cov(root), cov(2.0 * root)], axis=-1)


CASES: dict[str, Case] = {
    "normal": (lambda s: lambda x, m, r: [
        s.multivariate_normal.logpdf(x, m, cov(r)), s.multivariate_normal.pdf(x, m, cov(r)), s.multivariate_normal.logpdf(x[0], m, cov(r)),
        s.multivariate_normal.logpdf(x, None, cov(r)), s.multivariate_normal.logpdf(x, m, np.array([1.0, 2.0, 3.0])),
        s.multivariate_normal.pdf(x, m, 2.0), s.multivariate_normal.logpdf(x[:, 0], 0.5, 2.0), s.multivariate_normal.pdf(0.3, 0.5, 2.0),
        s.multivariate_normal.entropy(m, cov(r)), *s.multivariate_normal.fit(x), s.multivariate_normal.fit(x, fix_mean=m)[1],
        s.multivariate_normal.marginal([2, 0], m, cov(r)).logpdf(x[:, :2])], (X, MEAN, ROOT)),
    "t": (lambda s: lambda x, m, r: [
        s.multivariate_t.logpdf(x, m, cov(r), 3.5), s.multivariate_t.pdf(x[0], m, cov(r), 3.5), s.multivariate_t.entropy(m, cov(r), 3.5),
        s.multivariate_t.entropy(m, cov(r), 1e4), s.multivariate_t.marginal(1, m, cov(r), 2.5).logpdf(x[:, :1])], (X, MEAN, ROOT)),
    "degrees of freedom": (lambda s: lambda df: [
        s.multivariate_t.logpdf(X, MEAN, cov(ROOT), df[0]), s.multivariate_t.entropy(MEAN, cov(ROOT), df[1]),
        s.wishart.logpdf(both(ROOT), df[0], cov(ROOT.T)), s.wishart.entropy(df[0], cov(ROOT.T)), s.invwishart.var(df[0] + 5.0, cov(ROOT)),
        s.invwishart.logpdf(cov(ROOT), df[0], cov(ROOT.T)), s.invwishart.entropy(df[0], cov(ROOT))], (np.array([3.5, 4e3]),)),
    "dirichlet": (lambda s: lambda a: [
        getattr(s.dirichlet, name)(a) for name in ("mean", "var", "cov", "entropy")] + [
        s.dirichlet.logpdf(SHARES, a), s.dirichlet.pdf(SHARES[:2], a)], (ALPHA,)),
    "multinomial": (lambda s: lambda p: [
        s.multinomial.logpmf(COUNTS, 6, p), s.multinomial.pmf(COUNTS[0], 6, p), s.multinomial.mean(6, p), s.multinomial.cov(6, p),
        s.multinomial.entropy(6, p)], (SHARES,)),
    "dirichlet multinomial": (lambda s: lambda a: [
        s.dirichlet_multinomial.logpmf(COUNTS, a, 6), s.dirichlet_multinomial.pmf(COUNTS[0], a, 6), s.dirichlet_multinomial.mean(a, 6),
        s.dirichlet_multinomial.var(a, 6), s.dirichlet_multinomial.cov(a, 6)], (ALPHA,)),
    "directions": (lambda s: lambda k: [
        s.vonmises_fisher.logpdf(DIRECTIONS, DIRECTIONS[0], k[0]), s.vonmises_fisher.pdf(DIRECTIONS[1], DIRECTIONS[0], k[0]),
        s.vonmises_fisher.entropy(DIRECTIONS[0], k[0])], (np.array([2.5]),)),
    "wishart": (lambda s: lambda r, q: [
        s.wishart.logpdf(both(r), 3.5, cov(q)), s.wishart.pdf(cov(r), 5, cov(q)), s.wishart.logpdf(cov(r), 3, np.abs(q[0]) + 1.0),
        *(getattr(s.wishart, name)(5.5, cov(q)) for name in ("mean", "mode", "var", "entropy")), s.wishart.mean(4.5, 2.0)],
        (ROOT, ROOT[::-1])),
    "inverse wishart": (lambda s: lambda r, q: [
        s.invwishart.logpdf(both(r), 3.5, cov(q)), s.invwishart.pdf(cov(r), 5, cov(q)), s.invwishart.mean(4.5, 2.0),
        *(getattr(s.invwishart, name)(7.5, cov(q)) for name in ("mean", "mode", "var", "entropy"))], (ROOT, ROOT[::-1])),
    "matrix normal": (lambda s: lambda x, r: [
        s.matrix_normal.logpdf(np.stack([x, x + 1.0]), None, np.eye(4) + 0.5, cov(r)), s.matrix_normal.pdf(x, 0.5 * x, 1.5, cov(r)),
        s.matrix_normal.entropy(np.eye(4) + 0.5, cov(r))], (0.3 * X, ROOT)),
    "held": (lambda s: lambda m, r: [
        s.multivariate_normal(m, cov(r)).logpdf(X), s.multivariate_normal(m, cov(r)).entropy(), s.multivariate_normal(m, cov(r)).cov,
        s.multivariate_normal(m, cov(r)).mean, s.multivariate_normal(m, cov(r)).marginal(0).logpdf(0.2), s.wishart(4.5, cov(r)).var(),
        s.multivariate_t(m, df=2.5).pdf(X), s.dirichlet(np.exp(m)).cov(), s.multinomial(6, np.exp(m) / np.sum(np.exp(m))).mean()],
        (MEAN, ROOT)),
}


def check_own_code(case: Case) -> None:
    """Values of plain arrays by our own code, without a trace."""
    make, arrays = case
    compare(make(stats)(*arrays), make(scipy.stats)(*arrays), 1e-10)


def test_values(exhaustive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for_each(some(CASES, exhaustive, 3, 20), lambda *case: check_values(case, stats, scipy.stats, "native"))
    if exhaustive:
        for_each(CASES, lambda *case: check_values(case, stats, scipy.stats, "interpret"))
    monkeypatch.setattr(distribution, "scipys_function", lambda *_: None)
    for_each(CASES, lambda *case: check_own_code(case))


def test_derivatives(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 3, 4), lambda *case: check_derivatives(case, stats, twice=exhaustive))
    if exhaustive:
        for_each(CASES, lambda *case: check_mapped(case, stats))
    check_tensors(CASES["dirichlet"], stats, scipy.stats)


def test_what_has_no_closed_form_is_refused_by_name() -> None:
    """As functions of `adjit.scipy` and as SciPy's own, and with parameters that are held."""
    for module in (stats, scipy.stats):
        for name, call in {
                "multivariate_normal.cdf": lambda s, x: s.multivariate_normal.cdf(x, MEAN),
                "multivariate_t.cdf": lambda s, x: s.multivariate_t(x).cdf(MEAN), "nct.logpdf": lambda s, x: s.nct.logpdf(x, 3, 1),
                "nct": lambda s, x: s.nct(x, 1), "norm.fit": lambda s, x: s.norm.fit(x), "norm.rvs": lambda s, x: s.norm(x).rvs(3)}.items():
            with pytest.raises(UnsupportedError, match=rf"scipy\.stats\.{name} has no rule for traced arrays and tensors: ") as caught:
                aj.compile(lambda x, call=call, module=module: call(module, x))(X[0])
            assert "test_distributions_of_vectors.py" in str(caught.value)
    with pytest.raises(AttributeError, match=r"scipy\.stats\.dirichlet has no attribute 'entropi'; did you mean 'entropy'"):
        _ = stats.dirichlet.entropi
    with pytest.raises(UnsupportedError, match=r"multinomial\.entropy of a number of draws that is traced"):
        aj.compile(lambda n: stats.multinomial.entropy(n, SHARES))(6.0)
    with pytest.raises(ValueError, match="must be unique"):
        aj.compile(lambda m: stats.multivariate_normal.marginal([0, -3], m).entropy())(MEAN)
