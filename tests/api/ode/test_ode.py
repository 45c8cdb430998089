"""`adjit.ode`: classical problems at three tolerances, orders of the methods, saved times, events, dense output, derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp as scipy_solve_ivp

import adjit as aj
from adjit.ir.errors import AdjitError, ArgumentError, DTypeError, ShapeError, TraceError
from adjit.ode import OdeResult, solve_ivp

K = np.array([1.1, 0.4, 0.1, 0.4])
TOLERANCES = (1e-3, 1e-6, 1e-9)


def rational(t: Any, y: Any) -> Any:                    # SciPy's tests: y = (t / (t + 10), 10 t / (t + 10)^2)
    return [y[1] / t, y[1] * (y[0] + 2 * y[1] - 1) / (t * (y[0] - 1))]


def rigid_body(t: Any, y: Any) -> Any:                  # B5 of DETEST
    return [y[1] * y[2], -y[0] * y[2], -0.51 * y[0] * y[1]]


def orbit(t: Any, y: Any) -> Any:                       # D1 of DETEST
    r3 = (y[0] ** 2 + y[1] ** 2) ** 1.5
    return [y[2], y[3], -y[0] / r3, -y[1] / r3]


def robertson(t: Any, y: Any) -> Any:
    a, b, c = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return [b - a, a - b - c, c]


def van_der_pol(t: Any, y: Any) -> Any:
    return [y[1], 1000.0 * (1 - y[0] ** 2) * y[1] - y[0]]


def predator(t: Any, y: Any, k: Any) -> Any:
    return np.stack([k[0] * y[0] - k[1] * y[0] * y[1], k[2] * y[0] * y[1] - k[3] * y[1] * np.cos(t)])


STIFF = {robertson: [0.1073004285569, 4.800166973727e-07, 0.8926990914226], van_der_pol: [-1.86364625474, 7.535430865863e-04]}
"""States at the end, by SciPy's LSODA and Radau, which agree to nine digits."""


def reference(fun: Callable[..., Any], span: tuple[float, float], y0: Any) -> Any:
    return STIFF.get(fun) or scipy_solve_ivp(fun, span, y0, method="DOP853", rtol=1e-12, atol=1e-14).y[:, -1]


@pytest.mark.parametrize(("fun", "span", "y0", "method", "factor"), [
    (rational, (5.0, 9.0), [1 / 3, 2 / 9], "RK45", 10),
    (rational, (9.0, 5.0), [9 / 19, 90 / 361], "RK45", 10),
    (rigid_body, (0.0, 20.0), [0.0, 1.0, 1.0], "RK45", 100),
    (orbit, (0.0, 2.0), [0.9, 0.0, 0.0, np.sqrt(1.1 / 0.9)], "RK45", 1000),
    (rational, (5.0, 9.0), [1 / 3, 2 / 9], "Rodas", 10),
    (robertson, (0.0, 1e4), [1.0, 0.0, 0.0], "Rodas", 10),
    (van_der_pol, (0.0, 1000.0), [2.0, 0.0], "Rodas", 100)])
def test_reference_problems(fun: Callable[..., Any], span: tuple[float, float], y0: Any, method: str, factor: float) -> None:
    """The error follows the tolerance, which is data of one program, and there are about as many steps as SciPy takes."""
    program = aj.compile(lambda tol, atol: solve_ivp(fun, span, y0, method, rtol=tol, atol=atol))
    stiff = method == "Rodas"
    wanted = reference(fun, span, y0)
    for tol in TOLERANCES:
        atol = tol * (1e-5 if fun is robertson else 1e-2)
        found = program(tol, atol)
        assert found.success
        np.testing.assert_allclose(found.y, wanted, rtol=factor * tol, atol=factor * atol)
        if not stiff:
            theirs = scipy_solve_ivp(fun, span, y0, rtol=tol, atol=atol)
            assert abs(found.nfev - theirs.nfev) <= 14 + 0.02 * theirs.nfev
    assert found.nsteps < 2000


@pytest.mark.parametrize(("method", "order", "between"), [("RK45", 5, 4), ("Rodas", 5, 4)])
def test_orders(method: str, order: int, between: int) -> None:
    """Of fixed steps, also of their interpolants, on a problem that depends on time."""
    def fun(t: Any, y: Any) -> Any:
        return [y[1] * np.cos(t), -y[0] * y[0] + np.sin(3 * t) * y[1]]

    times = np.array([0.3137, 1.333, 2.0])
    program = aj.compile(lambda h: solve_ivp(fun, (0.0, 2.0), [1.0, 0.5], method, times, rtol=1e10, atol=1e10, first_step=h, max_step=h).y)
    wanted = scipy_solve_ivp(fun, (0.0, 2.0), [1.0, 0.5], method="DOP853", rtol=1e-13, atol=1e-14, dense_output=True).sol(times).T
    errors = [np.abs(program(h) - wanted).max(1) for h in (0.05, 0.0125)]
    found = np.log2(errors[0] / errors[1]) / 2
    assert found[2] > order - 0.4
    assert min(found[:2]) > between - 0.4


def test_saved_times_and_dense_output() -> None:
    """Of trees, forward and backward in time, at times between steps, at ends, and at none."""
    def fun(t: Any, y: Any) -> Any:
        return {"a": -y["a"] * np.cos(t), "b": y["b"] * y["a"][0]}

    times = np.array([0.0, 0.7, 0.71, 3.0, 5.0])
    y0 = {"a": np.array([1.0, 2.0]), "b": 0.5}
    found = solve_ivp(fun, (0.0, 5.0), y0, t_eval=times, dense_output=True, rtol=1e-9, atol=1e-11, max_steps=300)
    assert found.success
    np.testing.assert_allclose(found.y["a"], np.exp(-np.sin(times))[:, None] * [1.0, 2.0], rtol=1e-8)
    assert found.y["b"].shape == (5,)
    np.testing.assert_allclose(found.sol(times)["a"], found.y["a"], rtol=1e-14)
    np.testing.assert_allclose(found.sol(2.2)["a"][0], np.exp(-np.sin(2.2)), rtol=1e-8)
    back = solve_ivp(fun, (5.0, 0.0), {"a": found.y["a"][-1], "b": found.y["b"][-1]}, t_eval=times[::-1], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(back.y["b"][::-1], found.y["b"], rtol=1e-7)
    none = solve_ivp(fun, (0, 5), y0, t_eval=times[:0])
    assert none.y["a"].shape == (0, 2)
    stopped = solve_ivp(fun, (0.0, 5.0), y0, t_eval=times, rtol=1e-9, atol=1e-11, max_steps=3)
    assert not stopped.success
    assert np.isnan(stopped.y["b"][-1])
    assert not solve_ivp(lambda t, y: y * y, (0.0, 2.0), 1.0).success             # goes to infinity at 1
    single = solve_ivp(lambda t, y: -y, (0.0, 1.0), np.ones(2, np.float32)).y
    assert single.dtype == np.float64


def hit(t: Any, y: Any) -> Any:
    return y[0]


hit.terminal, hit.direction = True, -1                  # type: ignore[attr-defined]


def half(t: Any, y: Any) -> Any:
    return y[0]


half.terminal = 0.5                                     # type: ignore[attr-defined]


def sixth_zero(t: Any, y: Any) -> Any:
    return y[0]


sixth_zero.terminal = 6                                 # type: ignore[attr-defined]


def ball(t: Any, y: Any) -> Any:
    return [y[1], -9.81]


def test_events() -> None:
    found = solve_ivp(ball, (0.0, 100.0), [0.1, 10.0], "RK45", [0.5, 1.0, 5.0], events=[hit, lambda t, y: y[1]], rtol=1e-8, atol=1e-8)
    theirs = scipy_solve_ivp(ball, (0.0, 100.0), [0.1, 10.0], events=[hit, lambda t, y: y[1]], rtol=1e-8, atol=1e-8)
    for ours, other in zip(found.t_events, theirs.t_events, strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-12)
    np.testing.assert_allclose(found.y_events[1][0], theirs.y_events[1][0], atol=1e-12)
    assert found.success
    np.testing.assert_allclose(found.y[:2, 1], 10.0 - 9.81 * np.array([0.5, 1.0]))
    assert np.isnan(found.y[2]).all()
    swings = solve_ivp(lambda t, y: [y[1], -y[0]], (0.0, 20.0), [1.0, 0.0], events=sixth_zero, max_events=8, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(swings.t_events[0] / np.pi, [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, np.nan, np.nan], rtol=1e-8)
    np.testing.assert_allclose(swings.t, 5.5 * np.pi, rtol=1e-8)
    for count, time in ((2, 5.0), (40, 125.0)):      # all of them, as SciPy; in a program as many as there are places
        def crossings(omega: Any, time: float = time) -> Any:
            return solve_ivp(lambda t, y: [y[1], -y[0]], (0.0, time), [0.0, omega], events=lambda t, y: y[0] - 0.5, rtol=1e-9, atol=1e-9)

        found, inside = crossings(1.0), aj.compile(crossings)(1.0)
        theirs = scipy_solve_ivp(lambda t, y: [y[1], -y[0]], (0.0, time), [0.0, 1.0], events=lambda t, y: y[0] - 0.5, rtol=1e-9, atol=1e-9)
        assert found.t_events[0].shape == theirs.t_events[0].shape == (count,)
        np.testing.assert_allclose(found.t_events[0], theirs.t_events[0], rtol=1e-6)
        assert found.y_events[0].shape == (count, 2)
        assert (bool(found.success), bool(inside.success), inside.t_events[0].shape) == (True, count <= 16, (16,))
    flight = aj.value_and_grad(lambda v: solve_ivp(ball, (0.0, 100.0), [0.0, v], events=hit, rtol=1e-8, atol=1e-8).t)
    np.testing.assert_allclose(flight(10.0), (20 / 9.81, 2 / 9.81), rtol=1e-10)


def test_gradients() -> None:
    """Through the steps: of a sum over saved times in parameters, initial state, and both ends; and those of the adjoint equations."""
    z, times = np.concatenate([K, [10.0, 5.0, 0.1, 10.0]]), np.array([1.0, 4.0, 9.0])

    def loss(z: Any, gradient: str) -> Any:
        return np.sum(np.sin(solve_ivp(predator, (z[6], z[7]), z[4:6], "RK45", times, args=(z[:4],), rtol=1e-10, atol=[1e-10, 1e-11],
                                       gradient=gradient).y))

    by_steps = aj.compile(lambda z: aj.value_and_grad(lambda z: loss(z, "steps"))(z))
    differences = np.array([(by_steps(z + 1e-6 * e)[0] - by_steps(z - 1e-6 * e)[0]) / 2e-6 for e in np.eye(z.size)])
    np.testing.assert_allclose(by_steps(z)[1], differences, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(aj.grad(lambda z: loss(z, "adjoint"))(z), differences, rtol=1e-6, atol=1e-6)


def test_gradients_of_stiff_problems() -> None:
    """Of a batch, in which one problem waits for the other."""
    f = aj.compile(aj.vmap(aj.value_and_grad(
        lambda m: solve_ivp(lambda t, y: m * (np.cos(t) - y ** 3), (0.0, 3.0), 0.5, "Rodas", rtol=1e-9, atol=1e-9).y)))
    m = np.array([100.0, 3.0])
    np.testing.assert_allclose(f(m)[1], (f(m + 1e-4)[0] - f(m - 1e-4)[0]) / 2e-4, rtol=1e-5, atol=1e-9)


def test_adjoint_of_a_problem_that_is_unstable_backward() -> None:
    """The solution backward in time is noise, and so is a gradient that comes of it."""
    value, gradient = aj.value_and_grad(lambda k: solve_ivp(lambda t, y: k * (np.cos(t) - y), (0.0, 10.0), 0.5, gradient="adjoint").y)(30.0)
    assert np.isfinite(value)
    assert np.isnan(gradient)


def test_many_problems() -> None:
    """1,000 sets of parameters, by `vmap` and by `map`."""
    many = K * (1 + 0.1 * np.random.default_rng(0).random((1000, 4)))

    def one(k: Any) -> OdeResult:
        return solve_ivp(predator, (0.0, 6.0), np.array([10.0, 5.0]), "RK45", np.array([5.0, 6.0]), args=(k,), rtol=1e-6, atol=1e-8)

    by_vmap, by_map = aj.vmap(one)(many), aj.map(one, many)
    assert by_vmap.success.all()
    assert len(set(by_vmap.nsteps)) > 1
    np.testing.assert_array_equal(by_vmap.nsteps, by_map.nsteps)
    np.testing.assert_allclose(by_vmap.y, by_map.y, rtol=1e-10)
    wanted = scipy_solve_ivp(predator, (0.0, 6.0), [10.0, 5.0], args=(many[17],), rtol=1e-10, atol=1e-10).y[:, -1]
    np.testing.assert_allclose(by_map.y[17, 1], wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("call", "error", "says"), [
    (lambda: solve_ivp(ball, (0.0, 1.0), [0.0, 1.0], "LSODA"), TraceError, "no method 'LSODA'"),
    (lambda: solve_ivp(ball, 1.0, [0.0, 1.0]), TraceError, "t_span is not a pair"),
    (lambda: solve_ivp(ball, (0.0, 1.0), [0.0, 1.0, 2.0]), ShapeError, "returns 2 numbers for a state of 3"),
    (lambda: solve_ivp(ball, (0.0, 1.0), [0.0, 1j]), DTypeError, "complex"),
    (lambda: solve_ivp(ball, (0.0, 1.0), [0.0, 1.0], t_eval=1.0), ShapeError, "t_eval has shape"),
    (lambda: solve_ivp(ball, (0.0, 1.0), [0.0, 1.0], t_eval=[0.5, 1.5]), ArgumentError, "not within t_span, from 0 to 1: .* 0.5 to 1.5"),
    (lambda: solve_ivp(ball, (1.0, 0.0), [0.0, 1.0], t_eval=[0.5, 0.75]), ArgumentError, "not in order"),
    (lambda: solve_ivp(ball, (0.0, 1.0), [0.0, 1.0], args=2.0), TraceError, "args is float"),
    (lambda: solve_ivp(ball, (0.0, 1.0), [0.0, 1.0], atol=np.ones(3)), ShapeError, "atol has 3 numbers"),
    (lambda: solve_ivp(ball, (0.0, 1.0), [0.0, 1.0], gradient="forward"), TraceError, "'steps' or 'adjoint'"),
    (lambda: solve_ivp(ball, (0.0, 1.0), [0.0, 1.0], gradient="adjoint", events=hit), TraceError, "no events"),
    (lambda: solve_ivp(ball, (0.0, 1.0), [0.0, 1.0], events=[1]), TraceError, "functions of"),
    (lambda: solve_ivp(ball, (0.0, 1.0), [0.0, 1.0], events=half), TraceError, "terminal is 0.5")])
@pytest.mark.share(1)
def test_errors(call: Callable[[], Any], error: type[AdjitError], says: str) -> None:
    with pytest.raises(error, match=says):
        call()
