"""Powers of Python floats that decisions change: values of the program, and Python's errors and complex numbers where Python has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj


def bisection(a):
    low, high = 0.0, 8.0
    for _ in range(60):
        middle = (low + high) / 2
        if middle ** 3 < a:
            low = middle
        else:
            high = middle
        if high - low < 1e-6:
            break
    return (low + high) / 2 * a


def grown(x):
    y, count = 2.0, 0
    while y < x:
        y, count = y ** 3, count + 1
    return y, count


def roots(x):
    y, count = 4.0, 0
    while y > x:
        y, count = y - 1.0, count + 1
    return y ** -2, y ** 0.5, y ** 2.0, y ** 0, count


def outcome(function: Callable[..., Any], x: float) -> Any:
    try:
        return function(x)
    except (OverflowError, ZeroDivisionError) as error:
        return type(error)


CASES = {bisection: ((0.2, 100.0, 3.0, 7.7, 500.0), 1), grown: ((3.0, 1e5, 1e300, 3.0, 1e308, 10.0), 1),
         roots: ((3.0, 2.5, 0.5, 0.0, 3.0, -1.5, 1.5), 3)}      # the complex number is a way of its own


@pytest.mark.parametrize("backend", ["interpret", "native"])
@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_powers_are_values_of_one_program(function: Callable[..., Any], backend: str) -> None:
    numbers, traces = CASES[function]
    compiled = aj.compile(function, backend=backend)
    for x in numbers:
        found, expected = outcome(compiled, x), outcome(function, x)
        if isinstance(expected, type):
            assert found is expected
            continue
        np.testing.assert_allclose(found, expected, rtol=0 if backend == "interpret" else 1e-14)
        if isinstance(expected, tuple):
            assert list(map(type, found)) == list(map(type, expected))
    assert compiled.cache_info().traces <= traces


def test_powers_have_derivatives() -> None:
    """`y` begins as a number, and is a traced scalar in later rounds."""
    def decayed(x):
        y, scale = 1.0, 1.0
        while y ** 2 > 0.01 * x:
            scale = scale * 0.5
            y = scale ** 2 * x + 0.05
        return y * x + scale ** 3 * x

    gradient = aj.compile(aj.grad(decayed), backend="interpret")
    for x in (1.3, 4.0, 9.0, 0.7):
        np.testing.assert_allclose(gradient(x), (decayed(x + 1e-6) - decayed(x - 1e-6)) / 2e-6, rtol=1e-6)
