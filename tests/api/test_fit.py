"""`adjit.fit` and `adjit.tree`: SciPy's results and numbers of evaluations, for trees; covariances; bounds; programs that are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize as so

import adjit as aj
from adjit import fit
from adjit.fit import scipy_optimizers
from adjit.ir.errors import AdjitError, ArgumentError, DTypeError, ShapeError, TraceError

T = np.linspace(0.0, 4.0, 50)
RNG = np.random.default_rng(0)
Y = 2 * np.exp(-1.3 * T) + 0.5 + 0.05 * RNG.normal(size=T.size)
P0 = {"a": 1.0, "k": 1.0, "c": 0.0}
X0 = np.array([1.3, 0.7, 0.8, 1.9])


def model(x: Any, p: Any) -> Any:
    return p["a"] * np.exp(-p["k"] * x) + p["c"]


def plain_model(x: Any, a: float, k: float, c: float) -> Any:
    return a * np.exp(-k * x) + c


def residuals(p: Any, y: Any) -> Any:
    return model(T, p) - y


def residual_sum(p: Any, y: Any) -> Any:
    return np.sum(residuals(p, y) ** 2)


def rosenbrock(p: Any) -> Any:
    x = np.concatenate([p["first"][None], p["rest"]])
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@pytest.mark.parametrize("method", [None, "L-BFGS-B", "trust-exact", "Newton-CG", "trust-constr", "Nelder-Mead"])
def test_evaluations_are_those_of_scipy(method: str | None) -> None:
    found = fit.minimize(rosenbrock, {"first": X0[0], "rest": X0[1:]}, method=method)
    options = {} if method in (None, "L-BFGS-B", "Nelder-Mead") else {"hess": so.rosen_hess}
    theirs = so.minimize(so.rosen if method == "Nelder-Mead" else lambda x: (so.rosen(x), so.rosen_der(x)), X0, method=method,
                         jac=None if method == "Nelder-Mead" else True, **options)
    assert found.success
    assert found.nfev == theirs.nfev
    np.testing.assert_allclose(found.x, theirs.x, atol=1e-7)
    np.testing.assert_array_equal(found.params["rest"], found.x[1:])
    if method == "trust-exact":
        np.testing.assert_allclose(found.covariance, np.linalg.inv(so.rosen_hess(found.x)), rtol=1e-6)
        assert "_covariance" not in repr(found)


def test_bounds() -> None:
    found = fit.minimize(rosenbrock, {"first": X0[0], "rest": X0[1:]}, bounds=({"first": None, "rest": 0.0}, {"first": 0.5, "rest": None}))
    theirs = so.minimize(so.rosen, X0, jac=so.rosen_der, bounds=[(None, 0.5), (0, None), (0, None), (0, None)])
    np.testing.assert_allclose(found.x, theirs.x, atol=1e-6)
    assert found.params["first"] == 0.5
    assert not found.covariance[0].any()
    np.testing.assert_allclose(found.covariance[1:, 1:], np.linalg.inv(so.rosen_hess(found.x)[1:, 1:]), rtol=1e-6)
    vector = fit.minimize(lambda x: np.sum((x - 2.0) ** 2), np.zeros(2), bounds=[(None, 1.0), (0, None)])       # as SciPy takes them
    np.testing.assert_allclose(vector.params, [1.0, 2.0], atol=1e-6)


def test_least_squares_evaluates_a_point_once(monkeypatch: pytest.MonkeyPatch) -> None:
    points = []
    make = scipy_optimizers._with_matrix

    def counting(f: Callable[..., Any]) -> Callable[..., Any]:
        program = aj.compile(make(f))
        return lambda x, *args: (points.append(x.tobytes()), program(x, *args))[1]

    monkeypatch.setattr(scipy_optimizers, "_with_matrix", counting)
    monkeypatch.setattr(scipy_optimizers, "compile", lambda f: f)
    found = fit.least_squares(residuals, P0, (Y,))
    assert len(points) == len(set(points)) == found.nfev
    popt, pcov = so.curve_fit(plain_model, T, Y, [1.0, 1.0, 0.0])
    np.testing.assert_allclose(list(found.params.values()), popt, rtol=1e-6)
    np.testing.assert_allclose(found.covariance, pcov, rtol=1e-4)
    held = fit.least_squares(residuals, P0, (Y,), bounds=(None, {"a": None, "k": 1.2, "c": None}))
    np.testing.assert_allclose(held.params["k"], 1.2)
    assert not held.covariance[1].any()


@pytest.mark.parametrize("sigma", [None, "vector", "matrix"])
@pytest.mark.parametrize("absolute", [False, True])
def test_curve_fit(sigma: str | None, absolute: bool) -> None:
    widths = np.linspace(0.5, 1.5, T.size)
    given = {None: None, "vector": widths, "matrix": np.diag(widths ** 2) + 0.1}[sigma]
    params, covariance = fit.curve_fit(model, T, Y, P0, given, absolute)
    popt, pcov = so.curve_fit(plain_model, T, Y, [1.0, 1.0, 0.0], given, absolute)
    np.testing.assert_allclose(list(params.values()), popt, rtol=1e-6)
    np.testing.assert_allclose(covariance, pcov, rtol=1e-4)


def test_roots() -> None:
    def equations(p: Any, r: Any) -> Any:
        return {"circle": p["x"] ** 2 + p["y"] ** 2 - r ** 2, "line": p["x"] - p["y"]}

    for method in ("hybr", "lm", "krylov"):
        found = fit.root(equations, {"x": 1.0, "y": 0.5}, (2.0,), method=method)
        np.testing.assert_allclose([found.params["x"], found.params["y"]], np.sqrt(2.0), rtol=1e-6)


def test_programs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another start, other data, the same parameters as Python numbers: nothing is compiled anew."""
    compiled = []
    monkeypatch.setattr(scipy_optimizers, "compile", lambda f: compiled.append(f) or aj.compile(f))
    fit.minimize(residual_sum, P0, (Y,))
    fit.minimize(residual_sum, {"a": np.float64(2.0), "k": 1, "c": 0.5}, (2 * Y,))
    assert len(compiled) == 3       # value and gradient, Hessian, value
    assert compiled[-1].__name__ == "residual_sum"


def test_trees() -> None:
    tree = {"w": np.array([[1.0, 2.0]], np.float32), "b": (3.0, np.arange(2))}
    vector, unravel = aj.tree.ravel(tree)
    np.testing.assert_array_equal(vector, [1, 2, 3, 0, 1])
    back = aj.tree.unravel(2 * vector, tree)
    assert back["w"].dtype == np.float32
    np.testing.assert_array_equal(aj.tree.map(lambda a, b: a - b, back, unravel(vector))["b"][1], [0, 1])


@pytest.mark.parametrize(("call", "error", "says"), [
    (lambda: fit.minimize(rosenbrock, {"first": 1j, "rest": X0}), DTypeError, "complex128"),
    (lambda: fit.minimize(np.sum, X0, bounds=3.0), TraceError, "a pair"),
    (lambda: fit.minimize(np.sum, X0, bounds=(np.zeros(3), None)), ShapeError, "do not fit"),
    (lambda: fit.curve_fit(model, T, Y, P0, np.ones(3)), ShapeError, r"sigma has shape \(3,\)"),
    (lambda: fit.curve_fit(lambda x, a, b: a * x + b, T, T, np.ones(2)), ArgumentError, r"does not take \(xdata, params\)[\s\S]*\*p\)"),
    (lambda: fit.curve_fit(lambda x, p: p * x, T, T, p0=1.0), ArgumentError, "in place of SciPy's p0")])
def test_errors(call: Callable[[], Any], error: type[AdjitError], says: str) -> None:
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize("kind", [list, tuple, np.array])
@pytest.mark.parametrize("start", [(1.0, 1.0, 0.0), [1.0, 1.0, 0.0], np.array([1.0, 1.0, 0.0])])
def test_bounds_as_scipy_has_them(kind: Any, start: Any) -> None:
    t = np.linspace(0.0, 4.0, 50)
    y = 2.5 * np.exp(-1.3 * t) + 0.5
    lower, upper = [0.0, 0.0, 0.0], [3.0, 1.2, 1.0]
    expected, _ = so.curve_fit(lambda t, a, b, c: a * np.exp(-b * t) + c, t, y, (1.0, 1.0, 0.0), bounds=(lower, upper))
    for bounds in ((kind(lower), kind(upper)), [kind(lower), kind(upper)]):
        found, _ = fit.curve_fit(lambda t, p: p[0] * np.exp(-p[1] * t) + p[2], t, y, start, bounds=bounds, maxfev=500)
        assert type(found) is type(start)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(("option", "hint"), [("jac", "exact"), ("full_output", "least_squares"), ("colour", "least_squares")])
def test_options_that_are_not_taken(option: str, hint: str) -> None:
    with pytest.raises(ArgumentError, match=f"curve_fit of <lambda> takes no option {option}=") as caught:
        fit.curve_fit(lambda t, p: p[0] * t, np.ones(3), np.ones(3), (1.0,), **{option: True})
    assert hint in (caught.value.hint or "")
