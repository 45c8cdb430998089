"""Loops around loops that end on values: one program for all rounds of both, whatever the number of rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj


def knocked_out(s0, sigma, z):
    paths, steps = z.shape
    total, dt = 0.0, 1.0 / steps
    for p in range(paths):
        s, alive = s0, True
        for t in range(steps):
            s = s * np.exp(-0.5 * sigma ** 2 * dt + sigma * np.sqrt(dt) * z[p, t])
            if s < 90.0:
                alive = False
                break
        if alive:
            total += np.maximum(s - 100.0, 0.0)
    return total / paths


def knocked_in(s0, sigma, z):
    paths, steps = z.shape
    total, dt = 0.0, 1.0 / steps
    for p in range(paths):
        s, touched = s0, False
        for t in range(steps):
            s = s * np.exp(-0.5 * sigma ** 2 * dt + sigma * np.sqrt(dt) * z[p, t])
            if s > 110.0:
                touched = True
                total = total + 0.01 * s * np.exp(-0.05 * t * dt)
                break
        if not touched:
            continue
        total = total + np.maximum(s - 100.0, 0.0)
    return total / paths


def first_passage(level, drift, z):
    walks, steps = z.shape
    times, overshoot = np.zeros(walks), 0.0
    for w in range(walks):
        x, t = 0.0, 0
        while t < steps and x < level / 50:
            x = x + drift + 0.5 * z[w, t]
            t += 1
        times[w] = t
        overshoot += x
    return overshoot / walks + np.mean(times)


def escape_times(size, shift, z):
    """The places in `out` are two numbers of the state."""
    n = len(z)
    out, total = np.zeros((n, n)), 0.0
    for i in range(n):
        for j in range(n):
            x, y = 0.0, 0.0
            for k in range(12):     # noqa: B007
                x, y = x * x - y * y + size / 80 * (i / n - 0.52) - shift, 2 * x * y + size / 80 * (j / n - 0.48)
                if x * x + y * y > 4.0:
                    break
            out[i, j] = k
            total = total + np.log(1 + x * x + y * y)
    return total + np.sum(out * np.arange(n))


def marched(level, tilt, z):
    """A direction is a plain array, made of the numbers of the loops."""
    n = len(z)
    image = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            d = np.array([(i + 0.5) / n - 0.5, (j + 0.5) / n - 0.5, 1.0])
            d = d / np.sqrt(np.sum(d * d))
            t, steps, hit = 0.0, 0, False
            while t < 4.0 and steps < 20:
                p = np.array([tilt, 0.0, -2.0]) + t * d
                distance = np.sqrt(np.sum(p * p)) - level / 200
                if distance < 1e-3:
                    hit = True
                    break
                t = t + distance
                steps += 1
            if hit:
                image[i, j] = 1 / (1 + t)
    return np.sum(image)


def rows_written(level, factor, z):
    """Views at numbers of the state, which are read and written in other rounds than they were made."""
    z, i, total = z.copy(), 0, 0.0
    first, row = z[0], z[1]
    while level > 1.0:
        row[1] = row[1] * factor + level
        row = z[i % 4]
        level = level / 2
        if level < 20.0:
            row[2] = row[2] * 2 + level
        total = total + np.sum(row) * (i + 1)
        z[i % 3] += 1.0
        i += 1
    return total, z, row, first


def by_rows(level, factor, z):
    """Iterators over arrays, of `enumerate` and `zip`."""
    total, s = 0.0, level / 100
    for i, (a, row) in enumerate(zip(z[:, 0], z, strict=True)):
        for j, e in enumerate(row):     # noqa: B007
            s = s + factor * e * a
            if s > 1.2:
                s = s - 0.5
                break
        else:
            total = total + 1.0
        total = total + s * (i + j)
    return total, s


def held_iterators(level, factor, z):
    """An iterator that others take items of, too, stays as it is."""
    places, rows, n = iter(range(40)), iter(z), 0
    for i in places:
        level = level + factor * i
        if level > 110.0:
            break
        level = level - next(places, 0) / 8
    for one, other in zip(rows, rows):      # noqa: B905
        level = level + np.sum(one) - other[0]
        n += 1
        if level > 112.0:
            break
    return level, i, n


def draws(seed: int, rows: int, columns: int) -> tuple[float, float, np.ndarray]:
    return 100.0 + seed, 0.2 + 0.01 * seed, np.random.default_rng(seed).standard_normal((rows, columns))


@pytest.mark.share(3)
@pytest.mark.parametrize("function", [knocked_out, knocked_in, first_passage, escape_times, marched, rows_written, by_rows],
                         ids=lambda function: function.__name__)
def test_points_of_a_trace_do_not_grow_with_the_rounds(function: Callable[..., Any], points: list[int]) -> None:
    for rows in (4, 8):
        points[0] = 0
        compiled = aj.compile(function, backend="interpret")
        for seed in range(4):
            given = draws(seed, rows, 10)
            found, expected = compiled(*given), function(*given)
            for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-13)
        assert points[0] <= 300
        assert compiled.cache_info().size == 1
        assert compiled.cache_info().traces <= 3


def test_iterators_that_others_hold() -> None:
    compiled = aj.compile(held_iterators, backend="interpret")
    for seed in range(5):
        given = draws(seed, 9, 3)
        np.testing.assert_allclose(compiled(*given), held_iterators(*given), rtol=1e-13)


@pytest.mark.parametrize("function", [knocked_out, first_passage], ids=lambda function: function.__name__)
def test_gradients_of_nested_rounds_are_one_program(function: Callable[..., Any], points: list[int]) -> None:
    """An array that is not differentiated is from outside of the derivative: what leads Python past rounds leaves it as it is."""
    compiled = aj.compile(aj.value_and_grad(function, argnums=(0, 1)), backend="interpret")
    for seed in range(2):
        s0, sigma, z = draws(seed, 6, 15)
        value, found = compiled(s0, sigma, z)
        numeric = ((function(s0 + 1e-6, sigma, z) - function(s0 - 1e-6, sigma, z)) / 2e-6,
                   (function(s0, sigma + 1e-6, z) - function(s0, sigma - 1e-6, z)) / 2e-6)
        np.testing.assert_allclose(value, function(s0, sigma, z), rtol=1e-13)
        np.testing.assert_allclose(found, numeric, rtol=1e-4, atol=1e-6)
    assert points[0] <= 200
    assert compiled.cache_info().size == 1


def test_a_gradient_that_is_made_within_the_function() -> None:
    """Each trace makes other objects of the function and its gradient: points are equal where these do the same."""
    def minimize(x, count):
        def f(x):
            return 10 * (x[1] - x[0]**2)**2 + (1 - x[0])**2

        slope = aj.grad(f)
        for _ in range(count):
            direction, step, value = -slope(x), 1.0, f(x)
            while f(x + step * direction) > value - 1e-4 * step * (direction @ direction):
                step *= 0.5
            x = x + step * direction
            if np.linalg.norm(direction) < 1e-6:
                break
        return x

    compiled, generator = aj.compile(minimize), np.random.default_rng(0)
    for _ in range(6):
        x = generator.normal(size=2)
        np.testing.assert_allclose(compiled(x, 15), minimize(x, 15), rtol=1e-9)
    assert compiled.cache_info().traces == 1
