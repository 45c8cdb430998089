"""Loops that read and write a few elements of an array an iteration: derivatives, and bytes linear in what is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.bytes_touched import bytes_touched
from support.differences import slope

import adjit as aj

RNG = np.random.default_rng(5)


def diagonal(a: Any) -> Any:
    return aj.fori_loop(0, a.shape[0], lambda i, total: total + a[i, i] ** 2, 0.0)


def rows(a: Any) -> Any:
    return aj.fori_loop(1, a.shape[0], lambda i, total: total + np.sum(a[i] * a[i - 1]) * a[0, i], 0.0)


def filtered_columns(a: Any) -> Any:
    def body(j: Any, y: Any) -> Any:
        y = y.copy()
        y[:, j] = 0.9 * y[:, j - 1] + 0.1 * y[:, j]
        return y
    return np.sum(aj.fori_loop(1, a.shape[1], body, a) ** 2)


def elements(a: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        y = y.copy()
        y[i, 2] = np.sin(y[i - 1, 1]) * a[i, 3]
        y[i, 1] = y[i, 2] + 1
        return y
    return np.sum(aj.fori_loop(1, a.shape[0], body, a) ** 2)


def nested(a: Any) -> Any:
    def outer(i: Any, y: Any) -> Any:
        def inner(j: Any, y: Any) -> Any:
            y = y.copy()
            y[i, j] = y[i - 1, j] * y[i, j - 1] + a[j, i]
            return y
        return aj.fori_loop(1, a.shape[1], inner, y)
    return np.sum(aj.fori_loop(1, a.shape[0], outer, a) ** 2)


def nested_reads(a: Any) -> Any:
    def outer(i: Any, total: Any) -> Any:
        return aj.fori_loop(0, 3, lambda j, total: total + a[i, j] ** 2 * a[j, i], total)
    return aj.fori_loop(0, a.shape[0], outer, 0.0) + np.sum(a ** 2)


def while_it_lasts(a: Any) -> Any:
    def body(state: Any) -> Any:
        i, total = state
        return i + 1, total + np.sin(a[i, i]) * total
    return aj.while_loop(lambda state: state[0] < a.shape[0], body, (0, 1.0))[1]


def swapped(a: Any) -> Any:
    def body(i: Any, pair: Any) -> Any:
        x, y = pair
        y = y.copy()
        y[i] = x[i] * 2 + y[i - 1]
        return y, x
    x, y = aj.fori_loop(1, a.shape[0], body, (a, a * 2))
    return np.sum(x * y) + np.sum(aj.fori_loop(0, 3, lambda i, pair: (pair[1], pair[0] * a[i, i]), (a, a))[0])


def written_at_several(a: Any) -> Any:
    at = np.array([0, 2, 0])

    def body(i: Any, y: Any) -> Any:
        y = y.copy()
        y[at + i % 2] = y[at] * a[i]
        return y
    return np.sum(aj.fori_loop(0, a.shape[0], body, a) ** 2)


def read_in_a_branch(a: Any) -> Any:
    def body(i: Any, total: Any) -> Any:
        return total + aj.cond(a[i, 0] > 0.5, lambda: a[i, i] ** 2, lambda: a[i, 1] * total)
    return aj.fori_loop(1, a.shape[0], body, 0.0)


def written_in_a_branch(a: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        def written() -> Any:
            z = y.copy()
            z[i, 1] = y[i - 1, 0] * y[i, 2]
            return z
        return aj.cond(a[i, 0] > 0.5, written, lambda: y)
    return np.sum(aj.fori_loop(1, a.shape[0], body, a) ** 2)


def kept_beside_a_branch(a: Any) -> Any:
    def body(i: Any, pair: Any) -> Any:
        x, y = pair

        def written() -> Any:
            z = y.copy()
            z[i] = x[i] * y[i - 1]
            return z, x[i, 0]
        z, first = aj.cond(a[i, 0] > 0.5, written, lambda: (y, y[0, i]))
        return y * first, z
    return np.sum(np.sin(sum(aj.fori_loop(1, a.shape[0], body, (a, a * 2)))))


PROGRAMS = [diagonal, rows, filtered_columns, elements, nested, nested_reads, while_it_lasts, swapped, written_at_several,
            read_in_a_branch, written_in_a_branch, kept_beside_a_branch]


@pytest.mark.share(3)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_gradient_and_second_derivative_are_those_of_differences(program: Callable[..., Any]) -> None:
    a, along = RNG.uniform(0.2, 1.0, (5, 5)), RNG.uniform(-1, 1, (5, 5))
    derivatives = aj.compile(lambda a, along: (program(a), aj.grad(program)(a), aj.hvp(program, (a,), (along,))))
    value, gradient, product = (np.asarray(part) for part in derivatives(a, along))
    for function, found in ((lambda a: derivatives(a, along)[0], np.sum(gradient * along)), (lambda a: derivatives(a, along)[1], product)):
        expected, error = slope(lambda t, function=function: function(a + t * along))
        assert np.all(np.abs(found - expected) <= 1e-8 + 4 * error)
    interpreted = aj.compile(aj.value_and_grad(program), backend="interpret")(a)
    np.testing.assert_allclose(value, interpreted[0], rtol=1e-13)
    np.testing.assert_allclose(gradient, interpreted[1], rtol=1e-11, atol=1e-13)


@pytest.mark.share(3)
@pytest.mark.parametrize("program", [diagonal, rows, filtered_columns, elements, nested, nested_reads, while_it_lasts,
                                     read_in_a_branch, written_in_a_branch],
                         ids=lambda program: program.__name__)
def test_bytes_are_linear_in_what_is_touched(program: Callable[..., Any]) -> None:
    """An array a few times; twice the rows and columns are four times the bytes, not eight."""
    touched = []
    for count in (40, 80):
        compiled = aj.compile(aj.value_and_grad(program))
        touched.append(bytes_touched(compiled.program(compiled.fun, (RNG.uniform(0, 1, (count, count)),), {}).planned))
    assert touched[1] < 4.6 * touched[0]
