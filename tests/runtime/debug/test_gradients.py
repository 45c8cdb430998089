"""`adjit.debug.check_grads`: derivatives compared with differences, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.errors import ArgumentError, NonDifferentiableError


def test_right_derivatives_of_trees() -> None:
    args = {"w": np.array([[0.5, -1.0], [2.0, 0.3]])}, np.array([1.0, -2.0])
    report = aj.debug.check_grads(lambda p, x: {"v": np.tanh(p["w"] @ x), "n": 3.0 * x[0]}, args)
    assert [row[:2] for row in report.rows] == [(order, f"direction {number}") for order in (1, 2) for number in (1, 2)]
    assert str(report).startswith("<lambda>: derivatives agree with finite differences\n  order 1, direction 1: ")
    aj.debug.check_grads(np.sin, 0.7, order=3)


def test_a_wrong_rule_a_kink_and_other_dtypes() -> None:
    @aj.custom_vjp
    def cube(x: Any) -> Any:
        return x ** 3

    cube.defvjp(lambda x: (x ** 3, x), lambda x, g: (g * 2 * x ** 2,))
    with pytest.raises(NonDifferentiableError) as caught:
        aj.debug.check_grads(lambda p: np.sum(cube(p["x"])), {"x": np.array([1.0, 2.0])})
    assert "the derivative of order 1 of " in caught.value.message
    assert "by args[0]['x'][1] alone: " in caught.value.message
    assert "a derivative rule" in str(caught.value.hint)
    with pytest.raises(NonDifferentiableError) as caught:
        aj.debug.check_grads(lambda x: np.sum(np.abs(x)), np.array([1.0, 0.0]))
    assert "the function has a kink" in str(caught.value.hint)
    with pytest.raises(ArgumentError, match="is of float32"):
        aj.debug.check_grads(np.sin, np.float32(1.0))


def test_callbacks_with_a_vjp_are_compared_in_reverse_mode() -> None:
    def f(factor: float, x: Any) -> Any:
        return np.sum(aj.pure_callback(np.sin, x, x, vjp=lambda g, _, x: (factor * g * np.cos(x),)) ** 2)

    point = np.array([1.0, 2.0])
    assert len(aj.debug.check_grads(lambda x: f(1.0, x), point, order=1).rows) == 2
    with pytest.raises(NonDifferentiableError, match="in reverse mode"):
        aj.debug.check_grads(lambda x: f(1.5, x), point, order=1)


def test_arguments_that_say_nothing() -> None:
    for settings in ({"order": 0}, {"order": "2"}, {"order": True}, {"directions": 0}):
        with pytest.raises(ArgumentError, match="expected a positive integer"):
            aj.debug.check_grads(np.sin, 1.0, **settings)       # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no numbers"):
        aj.debug.check_grads(lambda: 1.0, ())
    with pytest.raises(ArgumentError, match=r"args\[0\]\['x'\] has a NaN"):
        aj.debug.check_grads(lambda p: p["x"], {"x": np.array([1.0, np.nan])})
    with pytest.raises(ArgumentError, match="gives a NaN or an infinity at this point"), np.errstate(all="ignore"):
        aj.debug.check_grads(np.log, -1.0)


def test_what_is_no_float_is_passed_on() -> None:
    """Exponents, indices, flags and names stay what they are."""
    def f(x: Any, n: int, places: Any, flag: bool, name: str) -> Any:
        assert (type(n), type(flag), type(name)) == (int, bool, str)
        return np.sum((np.sin(x) if flag else x)[places] ** n)

    report = aj.debug.check_grads(f, (np.array([0.5, 1.0, 2.0]), 3, np.array([0, 2]), True, "x"), order=2)
    assert len(report.rows) == 4
    with pytest.raises(ArgumentError, match="no numbers to differentiate by"):
        aj.debug.check_grads(lambda x: x * 2, (3,))
