"""FITPACK's splines, least squares, smoothing, and cubic interpolation on triangles, of traced values: SciPy's values, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.interpolate
from support.each import for_each
from support.scipy_cases import Case, check_derivatives, check_mapped, check_tensors, check_values, some

import adjit as aj
from adjit.errors import ShapeError, UnsupportedError
from adjit.scipy import interpolate

RANDOM = np.random.default_rng(0)
X, Y, Z, GRID = np.cumsum(RANDOM.uniform(0.4, 1, 9)), RANDOM.normal(size=9), RANDOM.normal(size=(9, 7)), np.arange(7.0) ** 1.3
AT, WITHIN = np.sort(RANDOM.uniform(X[0] - 1, X[-1] + 1, 6)), RANDOM.uniform(X[0], X[-1], (2, 3))
POINTS, SCATTERED, PLACES = RANDOM.random((12, 2)), RANDOM.normal(size=12), 1.2 * RANDOM.random((5, 2))
KNOTS = np.concatenate([[X[0]] * 3, [X[4]], [X[-1]] * 3])
EXACT: dict[str, Any] = {"tol": 1e-13, "maxiter": 4000}

CASES: dict[str, Case] = {
    "through values": (lambda s: lambda y, p: [
        s.UnivariateSpline(X, y, s=0)(p), s.UnivariateSpline(X, y, s=0, ext=3)(p), s.UnivariateSpline(X, y, s=0, ext=1)(p, 1),
        s.UnivariateSpline(X, y, s=0).derivative(2)(p), s.UnivariateSpline(X, y, s=0).antiderivative()(p),
        s.UnivariateSpline(X, y, s=0).integral(p[0], p[-1]), s.UnivariateSpline(X, y, s=0).derivatives(WITHIN[0, 0]),
        s.UnivariateSpline(X, y, s=0, bbox=(X[0] - 1, X[-1] + 0.5))(p), s.UnivariateSpline(X, y, s=0, ext=3).derivative()(p)], (Y, AT)),
    **{f"of degree {k}": (lambda s, k=k: lambda y, p: [
        *s.splrep(X, y, k=k)[:2], s.splev(p, s.splrep(X, y, k=k)), s.splev(p, s.splrep(X, y, k=k), 1, 3),
        s.InterpolatedUnivariateSpline(X, y, k=k)(p), s.InterpolatedUnivariateSpline(X, y, k=k).get_coeffs(),
        s.InterpolatedUnivariateSpline(X, y, k=k).get_knots()], (Y, AT)) for k in (1, 2, 3, 4, 5)},
    "least squares": (lambda s: lambda y, p: [
        s.LSQUnivariateSpline(X, y, [X[4]])(p), s.LSQUnivariateSpline(X, y, [X[3], X[5]], w=X, k=2)(p),
        s.make_lsq_spline(X, y, KNOTS, 2, w=X)(p), s.make_lsq_spline(X, np.stack([y, y * y]), KNOTS, k=2, axis=1)(WITHIN),
        s.splev(p, s.splrep(X, y, t=[X[4]], w=X))], (Y, AT)),
    "smoothing": (lambda s: lambda y, p, lam: [
        s.make_smoothing_spline(X, y, lam=lam[0])(p), s.make_smoothing_spline(X, y, w=X, lam=0.01)(p, 1),
        s.make_smoothing_spline(X, np.stack([y, y * y], -1), lam=lam[1])(WITHIN)], (Y, AT, np.array([0.3, 1.0]))),
    "tools": (lambda s: lambda y, p: [
        s.splint(p[0], p[-1], s.splrep(X, y)), *s.splder(s.splrep(X, y), 2)[:2], *s.splantider(s.splrep(X, y), 2)[:2],
        s.spalde(WITHIN[0, 0], s.splrep(X, y)), *s.spalde(WITHIN[0], s.splrep(X, y))], (Y, AT)),
    "of two variables": (lambda s: lambda z, p: [
        s.RectBivariateSpline(X, GRID, z)(p, p), s.RectBivariateSpline(X, GRID, z, kx=2, ky=1).ev(p, p[::-1]),
        s.RectBivariateSpline(X, GRID, z)(1.5, 2.0), s.RectBivariateSpline(X, GRID, z).integral(p[0], p[3], 0.0, 3.0),
        s.RectBivariateSpline(X, GRID, z).partial_derivative(1, 2)(p, p, grid=False), s.RectBivariateSpline(X, GRID, z).ev(p, 2.0, dx=1),
        s.RectBivariateSpline(X, GRID, z, bbox=[X[0] - 1, X[-1], -0.5, None], kx=4)(p, np.array([1.0, 2.0])),
        s.RectBivariateSpline(X, GRID, z).get_coeffs()], (Z, AT)),
    "on triangles": (lambda s: lambda y: [
        s.CloughTocher2DInterpolator(POINTS, y, **EXACT)(PLACES), s.griddata(POINTS[:, 0], y, PLACES[:, 0], "cubic"),
        s.CloughTocher2DInterpolator(POINTS * [1.0, 30.0], np.stack([y, y * y], -1), -1.0, rescale=True, **EXACT)(
            PLACES[:, 0], 30.0 * PLACES[:, 1])], (SCATTERED,)),
}


def test_values(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 0, 7), lambda *case: check_values(case, interpolate, scipy.interpolate, "interpret", 1e-8))
    for_each(some(CASES, exhaustive, 9, 20), lambda *case: check_values(case, interpolate, scipy.interpolate, "native", 1e-8))


def test_derivatives(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 7, 20), lambda *case: check_derivatives(case, interpolate, twice=exhaustive))
    if exhaustive:
        for_each(CASES, lambda *case: check_mapped(case, interpolate))
        check_tensors(CASES["of two variables"], interpolate, scipy.interpolate)


def test_splines_of_scipy_in_a_trace_and_objects_from_outside() -> None:
    """By SciPy's names; and of plain values at traced places, by both."""
    given = [module.UnivariateSpline(X, Y, s=0.5) for module in (interpolate, scipy.interpolate)]
    surface = [module.RectBivariateSpline(X, GRID, Z) for module in (interpolate, scipy.interpolate)]

    def function(y: Any, p: Any) -> Any:
        return [scipy.interpolate.splev(p, scipy.interpolate.splrep(X, y)), scipy.interpolate.UnivariateSpline(X, y, s=0)(p),
                *(spline.integral(p[0], p[1]) for spline in given), *(spline.derivatives(p[2]) for spline in given),
                *(each.ev(p, p) for each in surface), *(each(p[0], p[1]) for each in surface)]

    for found, wanted in zip(aj.compile(function, backend="interpret")(Y, AT), function(Y, AT), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    assert given[0].derivative()(1.5) == given[1].derivative()(1.5)
    np.testing.assert_array_equal(given[0].roots(), given[1].roots())


def test_what_is_refused() -> None:
    for function, kind, words in (
            (lambda y: interpolate.splrep(X, y, s=0.1), UnsupportedError, "decide on the number of knots"),
            (lambda y: interpolate.UnivariateSpline(X, y)(1.0), UnsupportedError, "pass s=0"),
            (lambda y: interpolate.make_smoothing_spline(X, y)(1.0), UnsupportedError, "pass lam="),
            (lambda y: interpolate.splrep(y, Y), UnsupportedError, "the places of an interpolator are traced"),
            (lambda y: interpolate.splrep(X, y, per=1), UnsupportedError, "bc_type"),
            (lambda y: interpolate.UnivariateSpline(X, y[:3], s=0), ShapeError, "do not fit"),
            (lambda y: scipy.interpolate.UnivariateSpline(X, y, s=0).roots(), UnsupportedError, r"UnivariateSpline\.roots has no rule")):
        with pytest.raises(kind, match=words) as caught:
            aj.compile(function)(Y)
        assert "test_fitted_splines.py" in str(caught.value)
