"""Interpolation of scattered points and neighbours, of SciPy's objects called as their users call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.interpolate as si
import scipy.sparse.linalg
from scipy.spatial import KDTree, cKDTree

import adjit as aj
from adjit.ir.errors import TraceError, UnsupportedError

POINTS = np.random.default_rng(0).random((25, 2))
VALUES = np.sin(POINTS[:, 0]) * POINTS[:, 1]
PAIRS = np.stack([VALUES, VALUES**2], axis=1)
Q = np.array([[0.41, 0.52], [0.33, 0.61], [0.57, 0.44]])
KNOTS = np.linspace(0.0, 1.0, 6) ** 1.2
TABLE = np.sin(3.0 * KNOTS)[:, None] * np.cos(KNOTS)
LINEAR, NEAREST = si.LinearNDInterpolator(POINTS, PAIRS, rescale=True), si.NearestNDInterpolator(POINTS * [1.0, 9.0], VALUES, rescale=True)
SMOOTH = si.RBFInterpolator(POINTS, PAIRS, smoothing=0.1, degree=2)
POLYNOMIAL, COLUMNS = si.BarycentricInterpolator(KNOTS, TABLE), si.KroghInterpolator(KNOTS, TABLE, axis=1)
HERMITE = si.KroghInterpolator([0.0, 0.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0, 5.0])
TREE, BOX = KDTree(POINTS), cKDTree(POINTS, boxsize=[1.0, 1.0])
GRIDS = {method: si.RegularGridInterpolator((KNOTS, KNOTS), TABLE, method=method, bounds_error=False, fill_value=None)
         for method in ("slinear", "cubic", "quintic")}

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "simplices": (lambda x: np.concatenate([LINEAR(x), LINEAR(x[:, 0], x[:, 1])]), Q), "one place": (lambda x: LINEAR(x), Q[0]),
    "of traced values on simplices": (lambda v: si.LinearNDInterpolator(POINTS, v)(Q), VALUES),
    "nearest": (lambda x: NEAREST(x * np.array([1.0, 9.0])), Q),
    "of traced values nearest": (lambda v: si.NearestNDInterpolator(POINTS, v)(Q), PAIRS),
    "griddata": (lambda x: si.griddata(POINTS, VALUES, x) + si.griddata(POINTS, VALUES, (x[:, 0], x[:, 1]), method="nearest"), Q),
    "griddata of traced values": (lambda v: si.griddata(POINTS, v, Q), VALUES), "on a line": (lambda x: si.griddata(KNOTS, TABLE[0], x), Q),
    **{f"radial {kernel}": (lambda x, kernel=kernel: si.RBFInterpolator(POINTS, VALUES, kernel=kernel, epsilon=2.5)(x), Q)
       for kernel in ("linear", "thin_plate_spline", "cubic", "quintic", "multiquadric", "inverse_multiquadric", "inverse_quadratic",
                      "gaussian")},
    "smoothed": (lambda x: SMOOTH(x), Q), "at points": (lambda x: si.RBFInterpolator(POINTS, VALUES)(x), POINTS[:2]),
    "of traced values, radial": (lambda v: si.RBFInterpolator(POINTS, v, kernel="cubic")(Q), PAIRS),
    "barycentric": (lambda x: np.concatenate([POLYNOMIAL(x), POLYNOMIAL(KNOTS[[0, 2]] + 0.0 * x[0, 0])[None]]), Q),
    "barycentric at the points": (lambda x: POLYNOMIAL(x), KNOTS[[0, 3, 5]]),
    "krogh": (lambda x: COLUMNS(x) + HERMITE(x[0, 0]), Q),
    "of traced values, krogh": (lambda v: si.KroghInterpolator(KNOTS, v)(Q[0]), TABLE),
    "of traced places": (lambda x: si.BarycentricInterpolator(x, TABLE, axis=1)(Q[0]), KNOTS),
    "in one call": (lambda x: si.barycentric_interpolate(KNOTS, TABLE[1], x) + si.krogh_interpolate(KNOTS, TABLE[1], x)
                    + si.pchip_interpolate(KNOTS, TABLE[1], x, der=1), Q),
    **{f"grid {method}": (lambda x, grid=grid: grid(x * 1.9) + grid((x[:, 0], x[:, 1])), Q) for method, grid in GRIDS.items()},
    **{f"grid of traced values {method}": (lambda v, method=method: si.RegularGridInterpolator(
        (KNOTS[::-1], KNOTS), v, method=method, solver=scipy.sparse.linalg.spsolve)(Q), TABLE) for method in GRIDS},
    "distances": (lambda x: np.concatenate(
        [TREE.query(x, k=3)[0], TREE.query(x, [2], p=1)[0], BOX.query(x * 2.0 - 0.3)[0][:, None]], 1), Q),
    "indices": (lambda x: VALUES[TREE.query(x)[1]] * x[:, 0] + BOX.query(x[0], distance_upper_bound=1e-9)[1], Q),
}


def check(function: Callable[[Any], Any], x: np.ndarray) -> None:
    def loss(x: Any) -> Any:
        values = function(x)
        return np.sum(values * values), values

    gradient, found = aj.grad(aj.compile(loss, backend="interpret"), has_aux=True)(x)
    expected = function(x)
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
    direction, h = np.cos(np.arange(x.size)).reshape(x.shape), 1e-6
    slope = (loss(x + h * direction)[0] - loss(x - h * direction)[0]) / (2 * h)
    np.testing.assert_allclose(np.sum(gradient * direction), slope, rtol=1e-5, atol=1e-7)


@pytest.mark.share(5)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_interpolators(name: str) -> None:
    check(*FUNCTIONS[name])


def test_outside_of_the_points() -> None:
    far = np.array([[5.0, 5.0], [0.4, 0.5]])
    filled = si.LinearNDInterpolator(POINTS, VALUES, fill_value=7.0)
    np.testing.assert_array_equal(aj.compile(lambda x: filled(x), backend="interpret")(far)[0], 7.0)
    assert np.isnan(aj.compile(lambda x: LINEAR(x), backend="interpret")(far)[0]).all()
    assert np.isnan(aj.compile(lambda x: NEAREST(x, distance_upper_bound=0.1), backend="interpret")(far)[0])
    assert aj.compile(lambda x: TREE.query(x, distance_upper_bound=0.1), backend="interpret")(far)[0][0] == np.inf


@pytest.mark.parametrize(("function", "kind", "message"), [
    (lambda x: si.CloughTocher2DInterpolator(POINTS, VALUES)(x), UnsupportedError, "the places of an interpolator are traced"),
    (lambda x: si.RBFInterpolator(POINTS, VALUES, neighbors=5)(x), UnsupportedError, r"neighbors=\.\.\."),
    (lambda x: si.LinearNDInterpolator(x, np.ones(3)), UnsupportedError, "the points of an interpolator are traced"),
    (lambda x: si.griddata(POINTS, VALUES, x, method="cubic"), UnsupportedError, "RBFInterpolator take traced places"),
    (lambda x: si.KroghInterpolator([0.0, 0.0, 1.0], x[:, 0])(0.5), UnsupportedError, "a place is there twice"),
    (lambda x: si.RegularGridInterpolator((KNOTS, KNOTS), TABLE, method="pchip")(x), UnsupportedError, "method='pchip'"),
    (lambda x: BOX.query_ball_point(x, 0.1), TraceError, "a function that is written in C takes NumPy's own arrays"),
])
def test_what_is_refused(function: Callable[[Any], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        aj.compile(function)(Q)
    assert caught.value.location.file.endswith("test_scattered.py")
    np.testing.assert_array_equal(LINEAR(Q[:1]), si.LinearNDInterpolator(POINTS, PAIRS, rescale=True)(Q[:1]))       # SciPy's as it was
