"""`adjit.scipy.integrate`: SciPy's values and dtypes, derivatives of two orders, tensors, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.scipy_cases import Case, check_derivatives, check_float32, check_tensors, check_values, some

import adjit as aj
from adjit.errors import ShapeError, UnsupportedError

theirs = pytest.importorskip("scipy.integrate")
from adjit.scipy import integrate  # noqa: E402

RANDOM = np.random.default_rng(7)
SAMPLES, ROWS, COUNT = RANDOM.normal(size=9), RANDOM.normal(size=(3, 5)), RANDOM.normal(size=(3, 6))
PLACES, EACH = np.cumsum(RANDOM.uniform(0.3, 1.0, 9)), np.cumsum(RANDOM.uniform(0.3, 1.0, (3, 6)), axis=1)
STEP = np.array(0.3)

CASES: dict[str, Case] = {
    "trapezoid": (lambda s: lambda y, x, r: [s.trapezoid(y, x), s.trapezoid(r, axis=0), s.trapezoid(r, x[:5]), s.trapezoid(y, dx=0.5)],
                  (SAMPLES, PLACES, ROWS)),
    "cumulative_trapezoid": (lambda s: lambda y, x, r: [
        s.cumulative_trapezoid(y, x), s.cumulative_trapezoid(r, axis=0, initial=0), s.cumulative_trapezoid(r, x[:5], initial=0),
        s.cumulative_trapezoid(r, r + 10 * x[:5]), s.cumulative_trapezoid(y, dx=0.5)], (SAMPLES, PLACES, ROWS)),
    "simpson": (lambda s: lambda y, x, r, c, e: [
        s.simpson(y, x), s.simpson(y), s.simpson(y[:-1], x[:-1]), s.simpson(y[:-1], dx=0.5), s.simpson(r, axis=0), s.simpson(c, e),
        s.simpson(c, axis=1), s.simpson(y[:2], x[:2]), s.simpson(y[:2]), s.simpson(y[:4], x[:4]), s.simpson(y[:1])],
        (SAMPLES, PLACES, ROWS, COUNT, EACH)),
    "cumulative_simpson": (lambda s: lambda y, x, r, c, e: [
        s.cumulative_simpson(y, x=x), s.cumulative_simpson(y), s.cumulative_simpson(r, axis=0, initial=0.5), s.cumulative_simpson(c, x=e),
        s.cumulative_simpson(c, dx=0.2, initial=1.0), s.cumulative_simpson(y[:2], x=x[:2]), s.cumulative_simpson(c, dx=e[:, :1])],
        (SAMPLES, PLACES, ROWS, COUNT, EACH)),
    "romb": (lambda s: lambda y, r: [s.romb(y), s.romb(r, 0.5), s.romb(r, axis=0), s.romb(y[:2])], (SAMPLES, ROWS)),
    "fixed_quad": (lambda s: lambda a, b: [s.fixed_quad(np.exp, a, b)[0], s.fixed_quad(lambda x, p: p * np.sin(x), a, b, (b,), n=3)[0],
                                           s.fixed_quad(lambda x: np.stack([x, x ** 2]), a, b)[0]], (np.array(0.5), np.array(1.2))),
}
OTHERS: dict[str, Case] = {
    "whole numbers": (lambda s: lambda y: [s.trapezoid(y), s.simpson(y), s.cumulative_trapezoid(y), s.romb(y), s.cumulative_simpson(y)],
                      (np.arange(9) ** 2,)),
    "strided": (lambda s: lambda y: [s.simpson(y.T[::-1]), s.cumulative_simpson(y[:, ::-1])], (COUNT,)),
    "empty": (lambda s: lambda y: [s.trapezoid(y), s.simpson(y), s.cumulative_trapezoid(y)], (np.zeros((0, 3)),)),
    "complex numbers": (lambda s: lambda y: [s.trapezoid(y), s.simpson(y), s.cumulative_simpson(y)], (SAMPLES + 1j * PLACES,)),
}


@pytest.mark.parametrize("backend", ["native", "interpret"])
def test_values(backend: str) -> None:
    for_each(CASES | OTHERS, lambda *case: check_values(case, integrate, theirs, backend), share=2)


def test_derivatives() -> None:
    for_each(CASES, lambda *case: check_derivatives(case, integrate), share=2)


def test_tensors_and_float32(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive), lambda *case: check_tensors(case, integrate, theirs))
    for_each(some(CASES, exhaustive, 1), lambda *case: check_float32(case, integrate, theirs))


def test_equal_places_count_as_no_interval() -> None:
    x = np.array([0.0, 1.0, 1.0, 2.0, 3.0])
    assert aj.compile(integrate.simpson)(SAMPLES[:5], x) == pytest.approx(theirs.simpson(SAMPLES[:5], x))
    assert np.isfinite(aj.grad(integrate.simpson)(SAMPLES[:5], x)).all()


@pytest.mark.parametrize(("function", "kind", "words"), [
    (lambda y: integrate.romb(y[:4]), ValueError, "power of 2"),
    (lambda y: integrate.romb(y, show=True), UnsupportedError, "show"),
    (lambda y: integrate.simpson(y, y[:3]), ValueError, "length of x"),
    (lambda y: integrate.cumulative_simpson(y, dx=y), ShapeError, "dx must be a number"),
    (lambda y: integrate.quad(lambda x: x, 0.0, y[0]), UnsupportedError, r"scipy\.integrate\.quad has no rule"),
    (lambda y: integrate.quad(lambda u: u * y[0], 0.0, 1.0), UnsupportedError, "quad calls a Python function on plain numbers"),
])
def test_what_does_not_fit(function: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        aj.compile(function)(SAMPLES)


@pytest.mark.parametrize(("name", "instead"), [("odeint", "adjit.ode.solve_ivp"), ("quad", "fixed_quad")])
def test_what_calls_a_python_function_names_what_the_program_can_do(name: str, instead: str) -> None:
    with pytest.raises(UnsupportedError, match=f"scipy.integrate.{name} has no rule") as caught:
        aj.compile(lambda k: getattr(integrate, name)(lambda y, t: -y, k, np.linspace(0, 1, 4)))(1.0)
    assert instead in str(caught.value)
