"""Cotangents of small reads of large arrays in programs without loops: right, to second order, and linear in what is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.bytes_touched import bytes_touched
from support.differences import slope

import adjit as aj

RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def unrolled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_ROLL_LOOPS", "0")


def diagonal(a: Any) -> Any:
    total = 0.0
    for i in range(a.shape[0]):
        total = total + a[i, i] ** 2
    return total


def rows_of_a_triangle(a: Any) -> Any:
    total = 0.0
    for i in range(a.shape[0]):
        total = total + np.sum(a[i, :i + 1] * a[:i + 1, 0]) ** 2
    return total


def views_of_views(a: Any) -> Any:
    total = 0.0
    for i in range(a.shape[0]):
        total = total + a[i][1] * a.T[i][0] * a[::-1][i, 2:4].sum() + a.ravel()[i * 3] ** 3
    return total


def the_same_places(a: Any) -> Any:
    return sum(a[0, 0] ** i * a[1, 1] * a[2].sum() for i in range(1, 5))


def a_whole_and_its_parts(a: Any) -> Any:
    return np.sum(np.exp(a)) + a[1, 2] ** 2 + np.sum(a[:, 1] * a[:, 2]) + np.sum(a[1:, :] * a[:-1, :]) + np.sum(a[np.array([0, 2, 0])] ** 3)


def parts_side_by_side(a: Any) -> Any:
    return np.sum(np.sin(a[:2])) + np.sum(a[2:3] ** 3) + np.sum(a[3:] * a[3:])


def every_other(a: Any) -> Any:
    return np.sum(a[::2, 1::2] ** 3) + np.sum(a[1::3, ::3] ** 2 * a[0, 0]) + a[-1, -1] * a[0, 0]


def written(a: Any) -> Any:
    a = a.copy()
    for j in range(1, a.shape[1]):
        a[:, j] = np.sin(a[:, j - 1]) * a[:, j] + a[0, j]
        a[j % 3, 0] = a[j % 3, 0] * a[0, j]
    return np.sum(a ** 2)


PROGRAMS = [diagonal, rows_of_a_triangle, views_of_views, the_same_places, a_whole_and_its_parts, parts_side_by_side, every_other, written]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_gradient_and_second_derivative_are_those_of_differences(program: Callable[..., Any]) -> None:
    a, along = RNG.uniform(0.2, 1.0, (5, 6)), RNG.uniform(-1, 1, (5, 6))
    if program is rows_of_a_triangle or program is diagonal:
        a, along = a[:, :5].copy(), along[:, :5].copy()
    derivatives = aj.compile(lambda a, along: (program(a), aj.grad(program)(a), aj.hvp(program, (a,), (along,))))
    value, gradient, product = (np.asarray(part) for part in derivatives(a, along))
    np.testing.assert_allclose(value, program(a), rtol=1e-14)
    for function, found in ((program, np.sum(gradient * along)), (lambda a: derivatives(a, along)[1], product)):
        expected, error = slope(lambda t, function=function: function(a + t * along))
        assert np.all(np.abs(found - expected) <= 1e-8 + 4 * error)


def filtered_columns(a: Any) -> Any:
    a = a.copy()
    for j in range(1, a.shape[1]):
        a[:, j] = 0.9 * a[:, j - 1] + 0.1 * a[:, j]
    return np.sum(a ** 2)


@pytest.mark.share(2)
@pytest.mark.parametrize(("program", "factor"), [(diagonal, 0), (rows_of_a_triangle, 1), (views_of_views, 0), (filtered_columns, 8)],
                         ids=lambda value: getattr(value, "__name__", ""))
def test_bytes_are_linear_in_what_is_touched(program: Callable[..., Any], factor: int) -> None:
    """The array a few times, for the gradient, its zeros and its last values; so many numbers a read, and so many rows if rows are read."""
    for count in (30, 90):
        compiled = aj.compile(aj.value_and_grad(program))
        a = RNG.uniform(0, 1, (count, count))
        planned = compiled.program(compiled.fun, (a,), {}).planned
        assert bytes_touched(planned) <= 12 * a.nbytes + count * 8 * (90 + factor * 4 * count)


INDICES, OTHERS, WEIGHTS = np.array([0, 2, 2]), np.array([1, 2, 5]), np.array([1.0, 2.0, 3.0])


def _twice(x: Any) -> Any:
    return np.sum(x[INDICES] * WEIGHTS) + np.sum(x[OTHERS] * WEIGHTS ** 2)


READ_AT_INDICES: dict[str, Callable[..., Any]] = {
    "of a sum of one value with itself": lambda x: np.sum((x + x)[INDICES] * WEIGHTS),
    "of a reshaped sum": lambda x: np.sum((x.reshape(2, 3) + x.reshape(2, 3)).reshape(-1)[INDICES] * WEIGHTS),
    "twice, of a reshaped value": lambda x: _twice(x.reshape(2, 3).reshape(-1)),
    "twice, of a value that was reshaped again": lambda x: _twice(x.reshape(3, 2).reshape(2, 3).reshape(6)),
    "twice, of a matrix": lambda x: _twice((x.reshape(2, 3) * 1.5).ravel()),
    "along an axis": lambda x: np.sum(np.take_along_axis(x + x, INDICES, 0) * WEIGHTS),
    "sorted": lambda x: (lambda r: np.sort(r)[2] * 0.3 + np.sort(r)[4])((x.reshape(2, 3) * x.reshape(2, 3)).ravel()),
}


@pytest.mark.parametrize("case", READ_AT_INDICES)
def test_elements_at_indices_count_as_often_as_they_are_read(case: str) -> None:
    """Also where the cotangent of a reshape is a sum of what several ops add, and where one contribution arrives twice."""
    function, x = READ_AT_INDICES[case], np.array([0.5, 1.0, -2.0, 3.0, 1.7, 0.2])
    steps = 1e-6 * np.eye(x.size)
    differences = [(function(x + step) - function(x - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(aj.grad(function)(x), differences, atol=1e-7)
