"""Code of branches and loops from decisions: how much it is, and that what follows an outcome that nobody has seen does no harm."""

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


def nested_loops(x):
    s, n = x, 1
    for i in range(4):
        j = i
        while j < 6:
            j += 1 + n % 2
            if s > 3:
                s, n = s * 0.5, n + 1
            for q in range(j):
                s = s + 0.05 * q * x
                if s > 2.5 + q:
                    n += 2
                    break
    return s * (n % 7 + 1)


def collected(x, rounds=40):
    found, s = [], x
    for i in range(rounds):
        s = s * 0.7 if s > 1.0 else s * 1.3 + 0.01 * i
        found.append(s)
    return np.sum(np.array(found) ** 2)


def adaptive(x):
    time, step, count, y = 0.0, 0.25, 0, x
    while time < 2.0:
        error = abs(y) * step
        if error > 0.5:
            step = step / 2
            continue
        y, time, count = y + step * (1 - 0.3 * y * y), time + step, count + 1
        if error < 0.1:
            step = min(step * 2, 0.5)
        if count > 60:
            return y * count
    return y * time + count * step * x


def regions_after(compiled: Any, given: Any, stage: str) -> int:
    """Number of regions of branches and loops at a stage of the program for a call."""
    return compiled.ir(stage, given).count("graph @") - 1


@pytest.mark.parametrize(("function", "given", "most"), [
    (bisection, (0.2, 100.0, 3.0), 60), (nested_loops, (0.31, 2.62, -1.41), 220), (collected, (0.5, 0.2, 1.5), 8),
    (adaptive, (0.31, 2.62, -1.41), 16)], ids=lambda part: part.__name__ if callable(part) else "")
def test_gradients_of_many_decisions_are_small_programs(function: Callable[..., Any], given: tuple[float, ...], most: int) -> None:
    compiled = aj.compile(aj.value_and_grad(function), backend="interpret")
    for x in given:
        value, slope = compiled(x)
        np.testing.assert_allclose(value, function(x), rtol=1e-12)
        np.testing.assert_allclose(slope, (function(x + 1e-9) - function(x - 1e-9)) / 2e-9, rtol=1e-4)
        assert compiled.program(compiled.fun, (x,), {}) is compiled._cache.last     # reports are about what runs
    assert 0 < regions_after(compiled, given[-1], "optimized") <= most
    assert compiled.cache_info().size <= 3


def values_of_branches(compiled: Any, rounds: int) -> int:
    """Operands and results of the branches in a trace."""
    lines = [line for line in compiled.ir("traced", 0.5, rounds).splitlines() if " = cond " in line]
    return sum(line.count("%") for line in lines)


def test_branches_do_not_return_what_they_leave_alone() -> None:
    compiled = aj.compile(collected, static=("rounds",), backend="interpret")
    for rounds in (20, 40):
        for x in (0.5, 0.2, 1.5):
            np.testing.assert_allclose(compiled(x, rounds), collected(x, rounds), rtol=1e-12)
    assert 0 < values_of_branches(compiled, 40) < 2.5 * values_of_branches(compiled, 20)


def element(x, table):
    if x[0] > 0:
        y = x[1] * 2
        if x[1] < 3:
            y = table[x[1].astype(int)]
    else:
        y = x[1]
    return y + x[0]


def element_behind(x, table):
    y = x[0] * 0
    if x[0] > 0:
        if x[1] < 3:
            y = y + 1
        y = y + table[(y * x[1]).astype(int)] if y > 0 else y
    return y


def halvings(x, table):
    y = x[1]
    if x[0] > 0:
        y = y * 3 if y < 1e300 else np.minimum(y, 5.0)
        while y > 1:
            y = y / 2
    return y


def halvings_of_finite(x, table):
    y = x[1]
    if x[0] > 0:
        if not y < 1e300:
            return y
        while y > 1:
            y = y / 2
    return y + 1


@pytest.mark.parametrize("backend", ["interpret", "native"])
@pytest.mark.parametrize("function", [element, element_behind, halvings, halvings_of_finite], ids=lambda function: function.__name__)
def test_what_follows_an_unknown_outcome_does_no_harm(function: Callable[..., Any], backend: str) -> None:
    """No index out of range is reported, and no loop goes on forever, on a way that Python would not go."""
    table = np.arange(3.0)
    compiled = aj.compile(function, backend=backend)
    known = [[1.0, 2.0], [-1.0, 1.0], [0.5, 0.0]]
    for x in map(np.array, [*known, *known, [1.0, 1e9], [1.0, np.inf], [2.0, 7.0], *known]):
        assert compiled(x, table) == function(x, table)


def loop_left_at_two_points(s):
    """The inner loop is left to where the outer one begins, from two points."""
    t = s * 0.5
    while True:
        if s > 100:
            break
        s = s * 1.5 + 1
        while t < s and t * 3 < s * 2 + 5:
            t = t * 1.25 + 1
    return s + t


def loop_with_break(s):
    t = s * 0.5
    while True:
        if s > 100:
            return s + t
        s = s * 1.5 + 1
        while t < s:
            t = t * 1.25 + 1
            if t > 40:
                break


def three_loops(s):
    t, u = s * 0.5, s * 0.25
    while True:
        if s > 100:
            return s * t + u
        s = s * 1.5 + 1
        while True:
            if t > s or t * 3 > s * 2 + 5:
                break
            t = t * 1.25 + 1
            while u < t and u * 2 < s:
                u = u * 1.5 + 1


@pytest.mark.parametrize("function", [loop_left_at_two_points, loop_with_break, three_loops], ids=lambda function: function.__name__)
def test_loops_within_a_loop_are_left_to_where_it_begins(function: Callable[..., Any]) -> None:
    """No way out of an inner loop is taken for one that comes back to its own beginning."""
    for given in ([1.0, 5.0, 50.0], [90.0, 2.0, 200.0, 1.0]):
        compiled, gradient = aj.compile(function, backend="interpret"), aj.compile(aj.value_and_grad(function), backend="interpret")
        for x in map(np.float64, given):
            value, slope = gradient(x)
            assert value == function(x) == (compiled(x) if len(given) == 3 else value)
            np.testing.assert_allclose(slope, (function(x + 1e-6) - function(x - 1e-6)) / 2e-6, rtol=1e-4)
