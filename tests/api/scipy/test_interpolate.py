"""`adjit.scipy.interpolate`: SciPy's values, derivatives in places, values and knots, of two orders, tensors, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.scipy_cases import Case, check_derivatives, check_float32, check_mapped, check_tensors, check_values, compare, some

import adjit as aj
from adjit.errors import ShapeError, UnsupportedError

theirs = pytest.importorskip("scipy.interpolate")
from adjit.scipy import interpolate  # noqa: E402

RANDOM = np.random.default_rng(9)
X = np.cumsum(RANDOM.uniform(0.4, 1.0, 8))
Y, ROWS, ROUND = RANDOM.normal(size=8), RANDOM.normal(size=(3, 8, 2)), np.append(Y0 := RANDOM.normal(size=7), Y0[0])
BETWEEN, AT = RANDOM.uniform(X[0], X[-1], (2, 5)), RANDOM.uniform(X[0] - 1, X[-1] + 1, 7)
ENDS = RANDOM.normal(size=2)
GRID = (np.array([0.0, 0.5, 2.0]), np.array([-1.0, 0.0, 0.3, 1.0]))
TABLE, STACK = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=(3, 4, 2))
PLACES = np.stack([RANDOM.uniform(0, 2, (2, 5)), RANDOM.uniform(-1, 1, (2, 5))], axis=-1)
KNOTS = np.concatenate([[0.0] * 4, [0.7, 1.1, 1.1, 2.0], [3.0] * 4])
WEIGHTS, WITHIN = RANDOM.normal(size=(8, 2)), RANDOM.uniform(0.0, 3.0, 6)

SPLINES: dict[str, Case] = {
    **{f"CubicSpline {name}": (lambda s, bc=bc: lambda x, y, r, p, q: [
        s.CubicSpline(x, y, bc_type=bc)(p), s.CubicSpline(x, y, bc_type=bc)(q, 1), s.CubicSpline(x, r, 1, bc)(p)],
        (X, Y, ROWS, BETWEEN, AT))
       for name, bc in {"not-a-knot": "not-a-knot", "natural": "natural", "clamped": "clamped",
                        "mixed": ("not-a-knot", "clamped")}.items()},
    "CubicSpline with derivatives": (lambda s: lambda x, y, e, p: [
        s.CubicSpline(x, y, bc_type=((1, e[0]), (2, e[1])))(p), s.CubicSpline(x, y, bc_type=((2, e[0]), "not-a-knot"))(p, 2),
        s.CubicSpline(x, y, extrapolate=False)(p + 2)], (X, Y, ENDS, AT)),
    "CubicSpline of few points": (lambda s: lambda x, y, p: [
        s.CubicSpline(x[:2], y[:2])(p), s.CubicSpline(x[:3], y[:3])(p), s.CubicSpline(x[:3], y[:3], bc_type="natural")(p),
        s.CubicSpline(x[:2], y[:2], bc_type="clamped")(p), s.CubicSpline(x[:3], y[:3], bc_type=("not-a-knot", "natural"))(p),
        s.CubicSpline(x[:4], y[:4])(p)], (X, Y, AT)),
    "PchipInterpolator": (lambda s: lambda x, y, r, p, q: [
        s.PchipInterpolator(x, y)(q), s.PchipInterpolator(x, r, 1)(p), s.PchipInterpolator(x[:2], y[:2])(q),
        s.PchipInterpolator(x[:3], y[:3], 0, False)(q)], (X, Y, ROWS, BETWEEN, AT)),
    **{f"Akima1DInterpolator {method}": (lambda s, method=method: lambda x, y, r, p: [
        s.Akima1DInterpolator(x, y, method=method)(p), s.Akima1DInterpolator(x, r, 1, method=method)(p, 1),
        s.Akima1DInterpolator(x[:2], y[:2], method=method, extrapolate=True)(p), s.Akima1DInterpolator(x[:3], y[:3], method=method)(x[:2])],
        (X, Y, ROWS, BETWEEN)) for method in ("akima", "makima")},
    "CubicHermiteSpline": (lambda s: lambda x, y, d, p: [s.CubicHermiteSpline(x, y, d)(p), s.CubicHermiteSpline(x, y, d)(p, 3)],
                           (X, Y, Y[::-1].copy(), AT)),
    "PPoly": (lambda s: lambda c, x, p, q: [
        s.PPoly(c, x)(p), s.PPoly(c, x).derivative()(p), s.PPoly(c, x).antiderivative(2)(q), s.PPoly(c, x).derivative(5)(q),
        s.PPoly(c, x, "periodic")(p)], (RANDOM.normal(size=(4, 7, 2)), X, AT, BETWEEN)),
    "PPoly.integrate": (lambda s: lambda c, x, p: [s.PPoly(c, x).integrate(p[0], p[1]),
                                                   s.PPoly(c, x, "periodic").integrate(p[0] - 9.0, p[2])],
                        (RANDOM.normal(size=(3, 7)), X, AT)),
    "BSpline": (lambda s: lambda t, c, p: [s.BSpline(t, c, 3)(p), s.BSpline(t, c[:, 0], 3)(p - 1), s.BSpline(t, c.T, 3, False, 1)(p + 1),
                                           s.BSpline(t, c, 3)(p[:4].reshape(2, 2), 2), s.BSpline(t, c, 3, "periodic")(p - 2)],
                (KNOTS, WEIGHTS, WITHIN)),
}
AT_KNOWN_PLACES: dict[str, Case] = {
    **{f"make_interp_spline {k}": (lambda s, k=k: lambda y, r, p: [
        s.make_interp_spline(X, y, k)(p), s.make_interp_spline(X, r, k, axis=1)(p), s.make_interp_spline(X, y, k)(p, 1)],
        (Y, ROWS, BETWEEN))
       for k in (0, 1, 2, 3, 5)},
    "make_interp_spline with conditions": (lambda s: lambda y, e, p: [
        s.make_interp_spline(X, y, bc_type="natural")(p), s.make_interp_spline(X, y, bc_type="clamped")(p),
        s.make_interp_spline(X, y, bc_type=([(1, e[0])], [(2, e[1])]))(p),
        s.make_interp_spline(X, y, 5, bc_type=([(1, e[0]), (2, 0.0)], [(1, 0.5), (2, e[1])]))(p)], (Y, ENDS, BETWEEN)),
    **{f"interp1d {kind}": (lambda s, kind=kind: lambda y, r, p, q: [
        s.interp1d(X, y, kind)(p), s.interp1d(X, r, kind, 1)(p), s.interp1d(X, y, kind, fill_value="extrapolate")(q),
        s.interp1d(X[::-1], y, kind, bounds_error=False, fill_value=(-1.0, 2.0))(q), s.interp1d(X, y, kind, bounds_error=False)(q)],
        (Y, ROWS, BETWEEN, AT)) for kind in ("linear", "nearest", "nearest-up", "previous", "next", "zero", "slinear", "quadratic",
                                            "cubic", 4)},
    **{f"RegularGridInterpolator {method}": (lambda s, method=method: lambda v, w, p: [
        s.RegularGridInterpolator(GRID, v, method)(p), s.RegularGridInterpolator(GRID, w, method)(p[0]),
        s.RegularGridInterpolator(GRID, v, method, False, 0.5)(2 * p), s.RegularGridInterpolator(GRID, v, method, False, None)(2 * p),
        s.RegularGridInterpolator((GRID[0][::-1], GRID[1]), v, method)(p),
        s.RegularGridInterpolator(GRID, v, method)((p[..., 0], p[0, 0, 1])),
        s.RegularGridInterpolator(GRID[:1], w, method)(p[0, :, 0]), s.interpn(GRID, v, p, method)], (TABLE, STACK, PLACES))
       for method in ("linear", "nearest")},
}
CASES = SPLINES | AT_KNOWN_PLACES
VALUES: dict[str, Case] = {
    "periodic": (lambda s: lambda y, p: [s.CubicSpline(X, y, bc_type="periodic")(p),
                                         s.CubicSpline(X[:4], y[[0, 1, 2, 0]], 0, "periodic")(p),
                                         s.make_interp_spline(X, y, bc_type="periodic")(p),
                                         s.CubicSpline(X[:3], y[[0, 1, 0]], bc_type="periodic")(p)], (ROUND, AT)),
    "nowhere and at knots": (lambda s: lambda p, x: [
        s.CubicSpline(X, Y)(p), s.CubicSpline(X, Y)(x), s.interp1d(X, Y)(p[:1]), s.BSpline(KNOTS, WEIGHTS, 3)(p),
        s.PPoly(Y[None, :-1], X)(p),
        s.RegularGridInterpolator(GRID[:1], Y[:3], bounds_error=False)(p[:1]), s.interp1d(X, Y, "next")(x), s.interp1d(X, Y, "previous")(x),
        s.Akima1DInterpolator(X, Y)(x), s.BSpline(KNOTS, WEIGHTS, 3)(KNOTS)], (np.array([np.nan, 1.0]), X)),
    "whole numbers, flat": (lambda s: lambda y: [s.CubicSpline(np.arange(5), y)(1.5), s.PchipInterpolator(np.arange(5), y)(1.5),
                                                 s.Akima1DInterpolator(np.arange(5), 0 * y)([1.5, 2]), s.interp1d(np.arange(5), y)(2.2)],
                            (np.array([1, 4, 2, 2, 3]),)),
    "one place, none": (lambda s: lambda y: [s.CubicSpline(X, y)(X[2]), s.CubicSpline(X, y)(X[:0]), s.interp1d(X, y)(X[:0])], (Y,)),
}


@pytest.mark.parametrize("backend", ["native", "interpret"])
def test_values(backend: str, exhaustive: bool) -> None:
    chosen = some(CASES | VALUES, exhaustive, 0, 2 if backend == "interpret" else 8)
    for_each(chosen, lambda *case: check_values(case, interpolate, theirs, backend), share=2)


def test_mapped(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 3), lambda *case: check_mapped(case, interpolate), share=2)


def test_derivatives(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 1), lambda *case: check_derivatives(case, interpolate), share=2)


def test_tensors_and_float32(exhaustive: bool) -> None:
    names = ("CubicSpline mixed", "BSpline", "make_interp_spline 2", "interp1d cubic", "RegularGridInterpolator linear")
    for_each(CASES if exhaustive else {name: CASES[name] for name in names}, lambda *case: check_tensors(case, interpolate, theirs))
    for_each({name: CASES[name] for name in ("CubicSpline natural", "interp1d linear")},
             lambda *case: check_float32(case, interpolate, theirs))


def test_objects_made_outside_are_called_inside() -> None:
    made = [interpolate.CubicSpline(X, Y), interpolate.PchipInterpolator(X, Y), interpolate.BSpline(KNOTS, WEIGHTS[:, 0], 3),
            interpolate.make_interp_spline(X, Y), interpolate.interp1d(X, Y), interpolate.interp1d(X, Y, "cubic"),
            interpolate.CubicSpline(X, Y).derivative(), interpolate.CubicSpline(X, Y).antiderivative()]
    with np.errstate(invalid="ignore"):
        compare(aj.compile(lambda p: [each(p) for each in made])(BETWEEN), [each(BETWEEN) for each in made], 1e-11)
    assert made[0].roots().shape == theirs.CubicSpline(X, Y).roots().shape
    grid = interpolate.RegularGridInterpolator(GRID, TABLE)
    slopes = aj.compile(aj.grad(lambda p: np.sum(grid(p))))(PLACES)
    np.testing.assert_allclose(slopes[0, 0, 0], (grid(PLACES[0, 0] + [1e-6, 0]) - grid(PLACES[0, 0] - [1e-6, 0]))[0] / 2e-6, rtol=1e-6)


def test_values_that_change_are_read_again() -> None:
    y = Y.copy()
    program = aj.compile(lambda p: [interpolate.CubicSpline(X, y)(p), interpolate.interp1d(X[::-1], y, "cubic")(p)])
    for _ in range(2):
        compare(list(program(BETWEEN)), [theirs.CubicSpline(X, y)(BETWEEN), theirs.interp1d(X[::-1], y, "cubic")(BETWEEN)], 1e-10)
        y *= 2.0
    x = X.copy()
    program = aj.compile(lambda p: interpolate.make_interp_spline(x, Y)(p))
    for _ in range(2):
        np.testing.assert_allclose(program(BETWEEN), theirs.make_interp_spline(x, Y)(BETWEEN), rtol=1e-9)
        x += 0.01 * np.arange(8)


def test_lists_of_traced_numbers_are_values() -> None:
    def values(y: Any, i: Any) -> Any:
        return [i.CubicSpline(X, y)(1.5), i.PchipInterpolator(X, y)(1.5), i.interp1d(X, y)(1.5), i.make_interp_spline(X, y)(1.5),
                i.BSpline(KNOTS, y, 3)(1.5), i.RegularGridInterpolator((X,), y)([1.5])]
    compare(aj.compile(lambda y: values(y, interpolate), backend="interpret")(Y.tolist()), values(Y.tolist(), theirs), 1e-10)


@pytest.mark.parametrize(("function", "kind", "words"), [
    (lambda x: interpolate.make_interp_spline(x, Y), UnsupportedError, "traced places or knots"),
    (lambda x: interpolate.CubicSpline(X[::-1], x), ValueError, "strictly increasing"),
    (lambda x: interpolate.CubicSpline(X, x[:3]), ShapeError, "8 knots do not fit"),
    (lambda x: interpolate.CubicSpline(X, x, bc_type="loose"), ValueError, "bc_type=loose"),
    (lambda x: interpolate.CubicSpline(X, x * 1j), UnsupportedError, "complex"),
    (lambda x: interpolate.CubicSpline(X, x).roots(), UnsupportedError, r"CubicSpline\.roots has no rule.*: values decide"),
    (lambda x: interpolate.CubicSpline(X, x).slopes, AttributeError, "CubicSpline of traced arrays or tensors has no attribute 'slopes'"),
    (lambda x: interpolate.interp1d(X, x, "smooth"), NotImplementedError, "smooth is unsupported"),
    (lambda x: interpolate.RegularGridInterpolator((X,), x, "pchip"), UnsupportedError, "method='pchip'"),
    (lambda x: interpolate.BSpline(KNOTS, x[:3], 3), ShapeError, "do not fit"),
    (lambda x: interpolate.lagrange(X, x), UnsupportedError, r"scipy\.interpolate\.lagrange has no rule"),
])
def test_what_does_not_fit(function: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        aj.compile(function)(X)
