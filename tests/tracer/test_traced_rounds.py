"""Rounds of loops that no trace goes through: known ones are computed from what was recorded, and Python is led past them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjit as aj


def barrier(s, vol, draws, limit=130.0):
    for i in range(len(draws)):
        s = s * np.exp(-0.5 * vol ** 2 / 100 + vol * 0.1 * draws[i])
        if s > limit:
            return 0.0 * s
    return np.maximum(s - 90.0, 0.0)


def halving(k, y):
    t, h, accepted, rejected = 0.0, 0.1, 0, 0
    while t < 2.0:
        if t + h > 2.0:
            h = 2.0 - t
        first = y + h * (-k * y + np.sin(3 * t))
        half = y + h / 2 * (-k * y + np.sin(3 * t))
        second = half + h / 2 * (-k * half + np.sin(3 * (t + h / 2)))
        error = abs(second - first)
        if error < 1e-3:
            t, y, accepted = t + h, 2 * second - first, accepted + 1
            if error < 2e-4:
                h = h * 2
        else:
            h, rejected = h / 2, rejected + 1
    return y, (accepted, rejected)


def counting(x):
    for _ in range(300):
        new = np.cos(x) * 1.2
        if abs(new - x) < 1e-11:
            break
        x = new
    return x


DRAWS = np.random.default_rng(1).standard_normal(300)


@pytest.mark.parametrize(("function", "calls", "most"), [
    (barrier, [(100.0, 0.1, DRAWS), (100.0, 0.4, DRAWS), (80.0, 0.2, -DRAWS)], 80),
    (halving, [(1.0, 2.0), (30.0, 1.0), (4.0, 0.5)], 80),
    (counting, [(0.3,), (1.0,), (0.92,)], 40)], ids=["barrier", "halving", "counting"])
def test_rounds_are_not_traced_one_by_one(function: Any, calls: list[Any], most: int, points: list[int]) -> None:
    compiled = aj.compile(function, backend="interpret")
    for call in calls:
        points[0] = 0
        assert compiled(*call) == function(*call)
        assert points[0] <= most


def test_an_error_behind_known_rounds_is_that_of_python() -> None:
    """The error is raised in a round that is far behind those that are known."""
    def solve(x, most=200):
        for k in range(most):
            x = x * 0.99
            if x < 1e-4:
                raise ValueError(f"gave up in round {k}")
            if x > 1e6:
                return x * 0
        return x

    compiled = aj.compile(solve, backend="interpret")
    assert compiled(100.0) == solve(100.0)
    with pytest.raises(ValueError, match="gave up in round 68"):
        compiled(2e-4)
    assert compiled(50.0) == solve(50.0)


def test_what_another_round_reads_is_watched() -> None:
    """A table that one way reads, in rounds that the last trace does not go through."""
    table = np.array([1.0, 2.0, 3.0])

    def walk(x):
        for _ in range(100):
            x = x * 1.1 if x < 50 else x - float(np.mean(table))
        return x

    compiled = aj.compile(walk, backend="interpret")
    assert compiled(1.0) == walk(1.0)
    table[:] = 7.0
    assert compiled(1.0) == walk(1.0)


def test_branches_in_a_loop_over_rows() -> None:
    """Rows and elements of plain arrays are the same in each trace, and so is what a list's method stands for on the stack."""
    rows = np.random.default_rng(2).standard_normal((12, 3))

    def part(row, a):
        return a * row[0] if a * row[1] > 0 else a ** 2 * row[2]

    def function(a):
        found = []
        for row in rows:
            found.append(part(row, a))
        return sum(found)

    compiled = aj.compile(function, backend="interpret")
    for a in (0.5, -0.7, 1.5, -3.0):
        np.testing.assert_allclose(compiled(a), function(a), rtol=1e-14)
    assert len(compiled.programs()) == 1
