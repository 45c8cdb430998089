"""`adjit.scipy.special`: SciPy's names, values, derivatives of two orders, tensors; what plain arrays get is SciPy's."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.scipy_cases import Case, check_derivatives, check_float32, check_mapped, check_tensors, check_values, some

import adjit as aj
from adjit.errors import UnsupportedError

theirs = pytest.importorskip("scipy.special")
import adjit.scipy.special as sc  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

RANDOM = np.random.default_rng(10)
X, POSITIVE, WIDE = RANDOM.uniform(-3, 3, (2, 4)), RANDOM.uniform(0.2, 4, 6), np.array([-7.0, -2.5, -0.3, 0.2, 0.49, 0.51, 3.0, 20.0])
ORDERS = np.array([0.3, 1.0, 2.5])[:, None]
CASES: dict[str, Case] = {
    "logsumexp": (lambda s: lambda x: [s.logsumexp(x), s.logsumexp(x, axis=1, keepdims=True),
                                       s.logsumexp(x, axis=0, b=np.array([1.0, 2, 0, 3])),
                                       *s.logsumexp(x, axis=-1, b=-1.5, return_sign=True)], (X,)),
    "softmax": (lambda s: lambda x: [s.softmax(x), s.softmax(x, axis=1), s.log_softmax(x), s.log_softmax(x, axis=0), s.softplus(x)], (X,)),
    "comb": (lambda s: lambda n, k: [s.comb(n + 3, k), s.comb(n, k, repetition=True), s.comb(n, k + 9), s.perm(n + 3, k), s.perm(n - 9, k)],
             (POSITIVE, RANDOM.uniform(0.2, 3, 6))),
    "factorial": (lambda s: lambda x: [s.factorial(x), s.assoc_laguerre(x, 2, 0.5), s.multigammaln(x + 2, 3), s.polygamma(2, x),
                                       s.polygamma([[0], [1], [3]], x), s.zeta(x + 1.1)], (POSITIVE,)),
    "sinc, diric": (lambda s: lambda x: [s.sinc(x), s.diric(x, 4), s.diric(x + 30, 5), s.diric(x, 1)], (X,)),
    "derivatives of Bessel functions": (lambda s: lambda x: [s.jvp(ORDERS, x), s.yvp(1, x, 2), s.ivp(ORDERS, x, 3), s.kvp(0.5, x, 1),
                                                             s.kvp(2, x, 2), s.jvp(1, x, 0)], (POSITIVE,)),
    "Hankel functions": (lambda s: lambda x: [s.h1vp(0.5, x), s.h2vp(1, x, 2), s.hankel1(0.5, x), s.hankel2e(ORDERS, x), s.hankel1e(1, x)],
                         (POSITIVE,)),
    "spherical Bessel functions": (lambda s: lambda x: [
        f(n, x, d) for f in (s.spherical_jn, s.spherical_in, s.spherical_yn) for n in (0, 1, 3) for d in (False, True)], (WIDE,)),
    "spherical_kn": (lambda s: lambda x: [s.spherical_kn(n, x, d) for n in (0, 2) for d in (False, True)], (POSITIVE,)),
    "spherical of several orders": (lambda s: lambda x: [s.spherical_jn(np.arange(3)[:, None], x),
                                                         s.spherical_yn(np.arange(3)[:, None], x)], (POSITIVE,)),
    "wofz": (lambda s: lambda x, y: [s.wofz(x + 1j * np.abs(y)), s.voigt_profile(x, np.abs(y) + 0.1, 0.5)], (X, X[::-1].copy())),
    "lambertw": (lambda s: lambda x, y: [s.lambertw(x + 1j * y, k) for k in (0, -1, 1, 3)] + [
        s.lambertw(np.abs(x)), s.lambertw(-np.abs(x) / 9, -1)], (X, X[::-1].copy())),
    "agm, orthogonal polynomials": (lambda s: lambda x, y: [s.agm(x, y), s.eval_hermite(3, x), s.eval_sh_legendre(4, x / 5),
                                                           s.eval_chebyc(5, x), s.lpmv(1, 3, x / 5)], (POSITIVE, POSITIVE[::-1].copy())),
}
VALUES: dict[str, Case] = {
    "at 0": (lambda s: lambda x: [s.spherical_jn(n, x, d) for n in (0, 1, 2) for d in (False, True)] + [
        s.spherical_in(1, x), s.spherical_yn(1, x), s.diric(x, 4), s.lambertw(x), s.spherical_jn(2, 1e-6 * x)], (np.array([0.0, 1.0]),)),
    "edges": (lambda s: lambda x: [s.factorial(x), s.comb(x, 2), s.lambertw(x), s.sinc(x), s.logsumexp(x)],
              (np.array([0.0, -1.0, 5.0, np.inf, np.nan]),)),
    "branch points": (lambda s: lambda x: [s.lambertw(x), s.lambertw(x, -1)], (np.array([-0.36, -0.1, -0.3678, 1e-9, 1e9]),)),
    "whole numbers": (lambda s: lambda i: [s.comb(i, 2), s.factorial(i), s.softmax(i), s.logsumexp(i), s.eval_hermite(i, 0.5)],
                      (np.array([1, 2, 5]),)),
    "complex64": (lambda s: lambda z: [s.wofz(z)], (np.array([1 + 1j, 2 - 0.5j], np.complex64),)),
}
LOOSE = ("spherical Bessel functions", "derivatives of Bessel functions", "at 0", "Hankel functions", "spherical of several orders",
         "branch points")
"""Cases in which rounding is enlarged."""


def values(name: str, backend: str) -> None:
    check_values((CASES | VALUES)[name], sc, theirs, backend, 1e-8 if name in LOOSE else 1e-11)


@pytest.mark.parametrize("backend", ["native", "interpret"])
def test_values(backend: str, exhaustive: bool) -> None:
    names = some(CASES | VALUES, exhaustive or backend == "interpret")
    for_each({name: (name, backend) for name in names}, values, share=2)


def test_mapped(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 3), lambda *case: check_mapped(case, sc), share=2)


def test_derivatives(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 1), lambda *case: check_derivatives(case, sc))


def test_tensors_and_float32(exhaustive: bool) -> None:
    for_each(CASES if exhaustive else {name: CASES[name] for name in ("wofz", "comb")}, lambda *case: check_tensors(case, sc, theirs))
    for_each({name: CASES[name] for name in ("softmax", "factorial", "wofz")}, lambda *case: check_float32(case, sc, theirs))


def test_spherical_functions_have_derivatives_at_0() -> None:
    slopes = [aj.grad(lambda x, n=n: sc.spherical_jn(n, x))(0.0) for n in range(4)]
    np.testing.assert_allclose(slopes, [0.0, 1 / 3, 0.0, 0.0], atol=1e-12)
    assert aj.grad(aj.grad(lambda x: sc.spherical_jn(2, x)))(0.0) == pytest.approx(2 / 15)


def test_lambertw_at_its_branch_point() -> None:
    """There SciPy has NaN."""
    assert aj.compile(lambda x: sc.lambertw(x))(-1 / np.e) == pytest.approx(-1.0, abs=1e-7)


def test_ufuncs_are_scipys() -> None:
    for name in ("gammaln", "erf", "jv", "expit", "ellipk", "sici"):
        assert getattr(sc, name) is getattr(theirs, name)
    np.testing.assert_array_equal(aj.compile(lambda x: sc.gammaln(x))(POSITIVE), aj.special.gammaln(POSITIVE))
    np.testing.assert_array_equal(sc.roots_legendre(3)[0], theirs.roots_legendre(3)[0])
    assert sc.factorial(5, exact=True) == 120


@pytest.mark.parametrize(("function", "words"), [
    (lambda x: sc.factorial2(x), r"scipy\.special\.factorial2 has no rule"),
    (lambda x: sc.mathieu_a(1.0, x), r"scipy\.special\.mathieu_a has no rule"),
    (lambda x: sc.comb(x, 2, exact=True), r"comb\(exact=True\)"),
    (lambda x: sc.lambertw(x, x), "lambertw takes a whole number k"),
    (lambda x: sc.spherical_jn(1, 1j * x), "spherical_jn of complex numbers"),
])
def test_what_has_no_rule_says_so(function: Any, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        aj.compile(function)(POSITIVE)


def test_misspelt_names() -> None:
    with pytest.raises(AttributeError, match=r"there is no scipy\.special\.lambert"):
        _ = sc.lambert


def test_without_scipy_the_names_are_ours() -> None:
    code = """
import sys
sys.modules["scipy"] = None
import numpy as np, adjit as aj
import adjit.scipy.special as sc, adjit.scipy.signal as signal
assert sc.erf is not None and abs(aj.compile(lambda x: sc.erf(x) + sc.logsumexp(x))(0.0)) < 1e-15
assert aj.compile(lambda x: signal.convolve(x, x))(np.ones(2)).tolist() == [1.0, 2.0, 1.0]
for call in (lambda: signal.convolve(np.ones(2), np.ones(2)), lambda: signal.butter):
    try:
        call()
    except NotImplementedError as error:
        assert "SciPy is not installed" in str(error) and "adjit[scipy]" in str(error), error
    else:
        raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)
