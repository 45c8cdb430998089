"""`adjit.solve`: certified solutions, minima, derivatives against differences to second order and beyond, batches, bounds, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.nist import NIST, NistProblem

import adjit as aj
from adjit.ir.errors import AdjitError, DTypeError, NonDifferentiableError, ShapeError, TraceError
from adjit.solve import Result, bfgs, fixed_point, lbfgsb, lm, newton, root

T = np.linspace(0.0, 4.0, 40)
RNG = np.random.default_rng(0)
Y = 2 * np.exp(-1.3 * T) + 0.5 + 0.05 * RNG.normal(size=T.size)
P0 = {"a": 1.0, "k": 1.0, "c": 0.0}


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def residuals(p: Any, y: Any) -> Any:
    return p["a"] * np.exp(-p["k"] * T) + p["c"] - y


def differences(f: Callable[[Any], Any], x: Any, h: float = 1e-5) -> Any:
    return np.stack([(np.asarray(f(x + h * e)) - np.asarray(f(x - h * e))) / (2 * h) for e in np.eye(x.size)], axis=-1)


HARD = {"BoxBOD", "DanWood", "Eckerle4", "Lanczos3", "MGH09", "MGH10", "MGH17", "Misra1a", "Rat43"}


@pytest.mark.parametrize("name", NIST)
def test_certified_digits(name: str, exhaustive: bool) -> None:
    """Of nonlinear regressions, from both starting points of NIST's: all eleven, less the rounding of the last."""
    if name not in HARD and not exhaustive:
        pytest.skip("with --exhaustive")
    problem: NistProblem = NIST[name]
    y, x, certified = np.log(problem.y) if name == "Nelson" else np.array(problem.y), np.array(problem.x), np.array(problem.certified)
    rounding = 1e-20 if name == "Lanczos1" else 0.0         # the sum of squares is 1e-25: data are those of the model, to 13 digits
    np.testing.assert_allclose(np.sum((problem.model(certified, x) - y) ** 2), problem.sum_of_squares, rtol=1e-9, atol=rounding)
    fit = aj.compile(lambda start: lm(lambda b: problem.model(b, x) - y, start, tol=1e-14))
    for start in problem.starts:
        found = fit(np.array(start))
        assert found.success
        np.testing.assert_allclose(found.x, certified, rtol=1e-10)
        np.testing.assert_allclose(2 * found.fun, problem.sum_of_squares, rtol=1e-9, atol=rounding)


@pytest.mark.parametrize("solver", [newton, bfgs, lbfgsb])
def test_minima(solver: Callable[..., Result]) -> None:
    """Of a curved valley, from a point from which Newton's step goes up, and where the function is not finite everywhere."""
    found = solver(lambda p: rosenbrock(np.concatenate([p["x"], p["y"][None]])), {"x": np.array([-1.2, 1.0, -0.5]), "y": 1.0})
    assert found.success
    np.testing.assert_allclose(found.x["x"], 1.0, rtol=1e-7)
    assert np.shape(found.x["y"]) == np.shape(found.jac["y"]) == ()
    assert np.max(np.abs(found.jac["x"])) <= 1e-8
    assert found.fun < 1e-14
    assert 5 < found.nit < 120
    inside = solver(lambda x: x - np.log(x), 3.0)       # NaN for x < 0
    assert inside.success
    np.testing.assert_allclose(inside.x, 1.0, rtol=1e-7)
    stopped = solver(rosenbrock, np.array([-1.2, 1.0]), max_iterations=4)
    assert not stopped.success
    assert stopped.nit == 4
    assert not solver(lambda x: np.sum(x) * np.nan, np.zeros(2)).success
    single = solver(lambda x, a: np.sum(np.cosh(x - a)), np.zeros(3, np.float32), (np.float32(1.5),), tol=1e-3)
    assert single.x.dtype == np.float32
    np.testing.assert_allclose(single.x, 1.5, rtol=1e-3)


@pytest.mark.parametrize("solver", [newton, bfgs, lbfgsb])
@pytest.mark.parametrize("level", [1.0, 1e6])
def test_digits_of_minima(solver: Callable[..., Result], level: float) -> None:
    """Nearly all, also where the function itself has lost them in rounding: half of them show in its value."""
    slopes = np.arange(1.0, 10.0).reshape(3, 3) ** np.array([1.0, 0.5, 0.2])
    center = np.array([-1.0, 0.5, 2.0])
    found = solver(lambda x: level + np.sum(np.log(np.cosh(slopes @ (x - center)))), np.zeros(3), tol=1e-13)
    assert found.success
    np.testing.assert_allclose(found.x, center, rtol=1e-11)


def test_digits_of_a_fit_with_large_residuals() -> None:
    """Gauss and Newton's method alone converges slowly, or not at all, to a minimum far from the data: the steps that lead there change the
    sum of squares by less than rounding does."""
    t, y = np.arange(1.0, 4.0), np.array([2.0, 4.0, -1.0])

    def cost(x: Any) -> Any:
        return np.exp(t * x) - y

    found = lm(cost, 1.0, tol=1e-14)
    exact = newton(lambda x: 0.5 * np.sum(cost(x) ** 2), 0.0, tol=1e-13)
    assert found.success
    assert found.nit < 60
    np.testing.assert_allclose(found.x, exact.x, rtol=1e-11)


def test_derivatives_of_all_orders() -> None:
    """The minimum of exp(x) - a x is log(a); `a` is closed over."""
    def minimum(a: Any) -> Any:
        return newton(lambda x: np.exp(x) - a * x, 0.5, tol=1e-13).x

    derivatives: list[Callable[[Any], Any]] = [minimum]
    for _ in range(3):
        derivatives.append(aj.grad(derivatives[-1]))
    assert [round(float(f(2.0)), 9) for f in derivatives] == [0.693147181, 0.5, -0.25, 0.25]
    assert float(aj.grad(lambda x0: newton(np.cosh, x0).x)(1.0)) == 0.0


def test_derivatives_of_a_fit() -> None:
    """Gradient and Hessian in the data, of a function of the solution and of the minimum."""
    def f(y: Any) -> Any:
        found = lm(residuals, P0, (y,), tol=1e-14)
        return np.sin(found.x["a"]) + found.x["k"] ** 2 * found.x["c"] + 3 * found.fun

    both = aj.compile(lambda y, v: (f(y), aj.grad(f)(y), aj.hvp(f, (y,), (v,))))
    v = RNG.normal(size=T.size)
    _, gradient, product = both(Y, v)
    (up, slope_up, _), (down, slope_down, _) = both(Y + 1e-5 * v, v), both(Y - 1e-5 * v, v)
    np.testing.assert_allclose(gradient @ v, (up - down) / 2e-5, rtol=1e-6)
    np.testing.assert_allclose(product, (slope_up - slope_down) / 2e-5, rtol=1e-5, atol=1e-6)


def test_bounds_and_their_derivatives() -> None:
    """One parameter at its lower bound, one at its upper, one free."""
    def f(z: Any) -> Any:
        found = lbfgsb(lambda x, a: np.sum((x - a) ** 2) + x[0] * x[1] + x[1] * x[2], np.zeros(3), (z[:3],), bounds=(z[3], z[4:]))
        return np.stack([*found.x, found.fun, *found.jac])

    z = np.array([-1.0, 0.5, 2.0, -0.2, 0.8, 0.9, 1.0])
    program = aj.compile(f)
    np.testing.assert_allclose(program(z)[:3], [-0.2, 0.1, 1.0], atol=1e-9)
    np.testing.assert_allclose(aj.jacobian(f)(z), differences(program, z), atol=1e-7)
    held = lm(lambda p: {"r": p["u"] - np.array([3.0, 0.2]), "s": p["v"]}, {"u": np.zeros(2), "v": 5.0},
              bounds=({"u": np.array([0.0, -np.inf]), "v": 2.0}, {"u": 1.0, "v": None}))
    assert held.success
    np.testing.assert_allclose(held.x["u"], [1.0, 0.2], atol=1e-9)
    assert held.x["v"] == 2.0
    np.testing.assert_allclose(held.fun, 0.5 * (4.0 + 4.0))


def test_fits_that_meet_bounds() -> None:
    """Of data from beyond the bounds: at each solution the gradient vanishes in the parameters that are free and pushes against the bounds
    of the others; without noise it ends, too."""
    t, rng, lower, upper = np.linspace(0.0, 4.0, 30), np.random.default_rng(0), np.zeros(3), np.array([3.0, 2.0, 10.0])
    a, k, c = (rng.uniform(low, high, (24, 1)) for low, high in ((2.0, 6.0), (0.2, 3.0), (-1.0, 2.0)))
    data = a * np.exp(-k * t) + c + 0.02 * rng.normal(size=(24, 30)) * (np.arange(24)[:, None] < 20)
    found = aj.map(lambda y: lm(lambda p: p[0] * np.exp(-p[1] * t) + p[2] - y, np.array([1.0, 1.0, 0.1]), bounds=(lower, upper)), data)
    x = found.x
    decay = np.exp(-x[:, 1:2] * t)
    jacobian = np.stack([decay, -x[:, :1] * t * decay, np.ones((24, 30))], axis=1)
    gradient = np.einsum("npt,nt->np", jacobian, x[:, :1] * decay + x[:, 2:] - data)
    assert found.success.all()
    assert found.nit.max() < 200
    assert np.sum((x == lower) | (x == upper)) > 15
    assert np.sum(np.all((x > lower) & (x < upper), axis=1)) > 1
    np.testing.assert_allclose(np.clip(x - gradient, lower, upper), x, atol=1e-6)


def test_equations() -> None:
    def equations(x: Any, r: Any) -> Any:
        return {"circle": x["u"] ** 2 + x["v"] ** 2 - r ** 2, "curve": x["u"] - x["v"] ** 3}

    def f(c: Any) -> Any:
        return root(equations, {"u": 1.0, "v": 0.5}, (c[0],)).x["u"] * c[1]

    found = root(equations, {"u": 1.0, "v": 0.5}, (2.0,))
    u, v = found.x["u"], found.x["v"]
    assert found.success
    np.testing.assert_allclose([u * u + v * v, u], [4.0, v ** 3], rtol=1e-10)
    np.testing.assert_allclose(found.jac, [[2 * u, 2 * v], [1.0, -3 * v * v]])
    assert set(found.fun) == {"circle", "curve"}
    c, gradient = np.array([2.0, 1.5]), aj.compile(aj.grad(f))
    np.testing.assert_allclose(gradient(c), differences(aj.compile(f), c), rtol=1e-7)
    np.testing.assert_allclose(aj.hessian(f)(c), differences(gradient, c), rtol=1e-6, atol=1e-7)
    assert not root(lambda x: np.exp(x), 0.0, max_iterations=20).success         # no root
    singular = root(lambda x: np.array([x[0] ** 2 - 4.0, x[1]]), np.array([0.0, 1.0]))        # the Jacobian is, at first
    assert not singular.success or np.isclose(abs(singular.x[0]), 2.0)


def test_fixed_points() -> None:
    a = np.array([0.5, 1.0, 1.2])
    fast, slow = (fixed_point(lambda x: np.cos(a * x), np.ones(3), memory=memory) for memory in (5, 0))
    assert fast.success
    assert slow.success
    assert fast.nit < 15 < slow.nit
    np.testing.assert_allclose(fast.x, np.cos(a * fast.x), atol=1e-9)
    np.testing.assert_allclose(fast.x, slow.x, atol=1e-9)

    def f(a: Any) -> Any:
        return np.sum(fixed_point(lambda x: np.cos(a * x), np.ones(3), tol=1e-13).x ** 2)

    np.testing.assert_allclose(aj.grad(f)(a), differences(aj.compile(f), a), rtol=1e-7)


def test_many_fits() -> None:
    """By `vmap` and by `map`: what single fits give, and their derivatives."""
    many = Y + 0.05 * RNG.normal(size=(6, T.size))

    def fit(y: Any) -> Result:
        return lm(residuals, P0, (y,))

    one = aj.compile(fit)
    singles = [one(y) for y in many]
    for found in (aj.vmap(fit)(many), aj.map(fit, many)):
        assert found.success.all()
        np.testing.assert_array_equal(found.nit, [single.nit for single in singles])
        for name in P0:
            np.testing.assert_allclose(found.x[name], [single.x[name] for single in singles], rtol=1e-9)
    by_map, by_vmap = (aj.grad(lambda many, over=over: np.sum(over(many) ** 2))(many) for over in (
        lambda many: aj.map(lambda y: fit(y).x["k"], many), aj.vmap(lambda y: fit(y).x["k"])))
    np.testing.assert_allclose(by_map, by_vmap, rtol=1e-9)


@pytest.mark.parametrize(("call", "error", "says"), [
    (lambda: newton(np.sin, np.ones(3)), ShapeError, r"newton of sin: it returns f64\[3\], expected a number"),
    (lambda: newton(lambda x: "a", 1.0), NonDifferentiableError, "no array"),
    (lambda: newton(lambda x: x > 0, 1.0), DTypeError, "bool"),
    (lambda: bfgs(lambda x: np.abs(x), 1j), DTypeError, "x0 is complex128"),
    (lambda: bfgs(np.sum, {}), TraceError, "x0 has no numbers"),
    (lambda: bfgs(np.sum, 1.0, 2.0), TraceError, "args is float"),
    (lambda: bfgs(np.sum, 1.0, max_iterations=0), TraceError, "max_iterations is 0"),
    (lambda: bfgs(np.sum, 1.0, tol="x"), TraceError, "tol is 'x'"),
    (lambda: lbfgsb(np.sum, np.ones(2), bounds=[(0, 1), (0, 1)]), TraceError, r"a pair \(lower, upper\)"),
    (lambda: lbfgsb(np.sum, np.ones(2), bounds=(np.zeros(3), None)), ShapeError, r"shape \(3,\) for parameters of shape \(2,\)"),
    (lambda: lm(lambda p: p["a"], {"a": 1.0}, bounds=({"b": 0.0}, None)), TraceError, "another structure"),
    (lambda: root(lambda x: np.sum(x), np.ones(2)), ShapeError, "1 equations for 2 unknowns")])
def test_errors(call: Callable[[], Any], error: type[AdjitError], says: str) -> None:
    with pytest.raises(error, match=says):
        call()


def test_tensors() -> None:
    """As arguments and in the closure: solutions are tensors, and have their gradients."""
    a = aj.tensor([1.0, 2.0], requires_grad=True, dtype="float64")
    for solve in (lambda: newton(lambda x, a: np.sum(np.cosh(x - a)), np.zeros(2), (a,)),
                  lambda: root(lambda x, a: x - a, np.zeros(2), (a,))):
        a.grad = None
        found = solve()
        np.testing.assert_allclose(found.x.detach().numpy(), [1.0, 2.0], atol=1e-9)
        (found.x * aj.tensor([3.0, 4.0], dtype="float64")).sum().backward()
        np.testing.assert_allclose(a.grad.numpy(), [3.0, 4.0], atol=1e-9)
    closed = newton(lambda x: ((x - a) ** 2).sum(), np.zeros(2))
    np.testing.assert_allclose(np.asarray(closed.x), [1.0, 2.0], atol=1e-9)


def test_newton_leaves_where_the_hessian_is_lost_in_rounding() -> None:
    """The curvature of log(cosh(x)) at 30 is less than the rounding of its slope."""
    data = np.arange(5.0) + 30.0
    found = newton(lambda p: np.sum(np.log(np.cosh(data - p))), 0.0)
    assert found.success
    np.testing.assert_allclose(found.x, 32.0, rtol=1e-8)


def test_decisions_on_the_unknown_are_refused_and_on_arguments_followed() -> None:
    """The function is traced once for all points."""
    with pytest.raises(aj.errors.TraceError, match="or a solver"):
        root(lambda x: x - 2 if x > 1 else x - 10, 0.0)
    solved = aj.compile(lambda a: newton(lambda x, a: (x - 3) ** 2 if a > 1 else (x - 5) ** 2, 0.0, (a,)).x)
    assert [round(float(solved(a)), 9) for a in (2.0, 0.5)] == [3.0, 5.0]
    for decides in (lambda t, y: [1.0] if t < 1 else [0.0], lambda t, y: -y if y[0] > 0.5 else -2 * y, lambda t, y: [1.0 * int(t)]):
        with pytest.raises(aj.errors.TraceError, match="or a solver"):
            aj.ode.solve_ivp(decides, (0.0, 2.0), [1.0])
