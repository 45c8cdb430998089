"""Arrays of plain numbers that decisions change: what they hold becomes part of the state, so that ways meet again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.runtime.traces import trace_ways


def flipped(beta, draws):
    """Spins on a lattice, each flipped by a decision."""
    sweeps, n, _ = draws.shape
    spins, total = np.ones((n, n)), 0.0
    for k in range(sweeps):
        for i in range(n):
            for j in range(n):
                change = 2.0 * spins[i, j] * (spins[(i + 1) % n, j] + spins[i - 1, j] + spins[i, (j + 1) % n] + spins[i, j - 1])
                if draws[k, i, j] < np.exp(-beta * change):
                    spins[i, j] *= -1
        total = total + abs(np.mean(spins))
    return total / sweeps * beta


def reacting(rate, draws):
    """Numbers of molecules that react one by one."""
    counts, t = np.array([6, 0, 0]), 0.0
    for k in range(draws.shape[2]):
        activity = rate * counts[0] + 0.5 * counts[1]
        if activity <= 0:
            break
        t = t - np.log(draws[0, 0, k]) / activity
        if draws[0, 1, k] * activity < rate * counts[0]:
            counts[0] -= 1
            counts[1] += 1
        else:
            counts[1] -= 1
            counts[2] += 1
    return t + counts[2]


def toppled(c, draws):
    """Loops that run until no number of an array is too large."""
    heights, fallen = np.zeros(5), 0
    for drop in draws.ravel():
        i = 0
        for k in range(5):
            if drop * c > k / 5:
                i = k
        heights[i] += 1
        active = True
        while active:
            active = False
            for j in range(5):
                if heights[j] >= 2 + 0 * drop:
                    heights[j] -= 2
                    heights[max(j - 1, 0)] += j > 0
                    heights[min(j + 1, 4)] += j < 4
                    fallen += 1
                    active = True
    return c * fallen + heights.sum()


def clustered(c, draws):
    """Sums of the points that are next to each centre, and how many there are."""
    points = c * draws.reshape(-1, 3)
    centres = points[:3].copy()
    for _ in range(3):
        sums, counts = np.zeros_like(centres), np.zeros(3)
        for i in range(len(points)):
            best, where = np.inf, 0
            for k in range(3):
                distance = np.sum((points[i] - centres[k]) ** 2)
                if distance < best:
                    best, where = distance, k
            sums[where] += points[i]
            counts[where] += 1
        moved = 0.0
        for k in range(3):
            if counts[k] > 0:
                new = sums[k] / counts[k]
                moved = moved + np.sum((new - centres[k]) ** 2)
                centres[k] = new
        if moved < 1e-8:
            break
    return np.sum(centres ** 2)


class Grid:
    def __init__(self) -> None:
        self.heights = np.zeros(6)
        self.hits = {"even": np.zeros(3, int), "odd": np.zeros(3, int)}

    def hit(self, place):
        self.heights[place] += 1.0
        self.hits["odd" if place % 2 else "even"][place % 3] += place


def held(c, draws):
    """Arrays that objects and dicts hold, and views of them."""
    grid = Grid()
    middle = grid.heights[1:4]
    for k, x in enumerate(draws.ravel()[:7]):
        if x * c < 0.3:
            grid.hit(k % 6)
        elif x * c < 0.6:
            middle[:] = middle[::-1].copy()
            grid.heights[::2] += 0.5
    return c * np.sum(grid.heights * np.arange(6)) + np.sum(grid.hits["odd"] - 2 * grid.hits["even"]), grid.heights, middle


def read_by_python(c, draws):
    """Numbers of such an array that Python needs: as the length of a loop, in a text, in a memoryview."""
    tally = np.zeros(3, int)
    for x in draws.ravel()[:6]:
        if x * c < 0.5:
            tally[0] += 1
        else:
            tally[1] += 2
    total = 0.0
    for k in range(tally[0]):
        total = total + draws[0, 0, k % 3] * c
    return total + len(np.zeros(tally[1])) + len(f"{tally[0]}") + memoryview(tally)[1]


def of_complex_numbers(c, draws):
    phases = np.ones(3, complex)
    parts = phases.real
    for k, x in enumerate(draws.ravel()[:6]):
        if x * c < 0.5:
            phases[k % 3] *= 1j
        parts[0] += 0.5
    return c * np.sum(phases), parts, phases


@pytest.fixture
def count_traces(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    traced = []

    def counting(*arguments: Any) -> Any:
        traced.append(None)
        return trace(*arguments)

    trace = trace_ways.trace_with_tensors
    monkeypatch.setattr(trace_ways, "trace_with_tensors", counting)
    return lambda: len(traced)


def draws(seed: int) -> tuple[float, np.ndarray]:
    return 0.9 + 0.02 * seed, np.random.default_rng(seed).random((2, 3, 3))


@pytest.mark.parametrize(("function", "traces"), [(flipped, 5), (reacting, 3), (toppled, 4), (clustered, 9)],
                         ids=lambda each: getattr(each, "__name__", ""))
def test_arrays_that_decisions_change_are_part_of_one_program(
        function: Callable[..., Any], traces: int, count_traces: Callable[[], int]) -> None:
    compiled = aj.compile(function, backend="interpret")
    for seed in range(6):
        given = draws(seed)
        np.testing.assert_allclose(compiled(*given), function(*given), rtol=1e-13)
    assert compiled.cache_info().size == 1
    assert count_traces() <= traces


def branched(c, draws):
    """Decisions within decisions, in each row."""
    total = 0.0 * draws[0, 0, 0]
    for x in np.concatenate((draws.reshape(-1, 3), draws.reshape(-1, 3).T.reshape(-1, 3))):
        if x[0] < 0.5 * c:
            total = total + (x[1] if x[1] < 0.4 else 2 * x[2])
        elif x[2] < 0.6:
            total = total - x[0] * x[1]
        else:
            total = total + 3.0
    return total * c


def collected(c, draws):
    """A list of numbers of which some are those before, where no decision changed them."""
    spins, energy, energies = np.ones(6), c * draws[0, 0, 0], []
    for sweep in draws:
        for i, u in enumerate(np.concatenate((sweep.ravel()[:6], c * sweep[0]))):
            change = 2 * spins[i % 6] * (spins[i % 6 - 1] + spins[(i + 1) % 6]) + c
            if change < 0:
                spins[i % 6] *= -1
                energy = energy + change
            elif u < np.exp(-change * 0.2):
                spins[i % 6] = -spins[i % 6]
                energy = energy + change
            if i % 4 == 3:
                energies.append(energy)
    return np.mean(np.array(energies)) + np.sum(spins) * c


@pytest.mark.parametrize("function", [branched, collected])
def test_ways_within_ways_are_known_after_one_call(function: Callable[..., Any]) -> None:
    compiled = aj.compile(function, backend="interpret")
    for seed in range(8):
        given = draws(seed)
        np.testing.assert_allclose(compiled(*given), function(*given), rtol=1e-13)
    assert compiled.cache_info().size == 1
    assert compiled.cache_info().traces <= 2


@pytest.mark.parametrize("function", [held, read_by_python, of_complex_numbers])
def test_views_and_what_python_reads(function: Callable[..., Any]) -> None:
    compiled = aj.compile(function, backend="interpret")
    for seed in range(4):
        given = draws(seed)
        found, expected = compiled(*given), function(*given)
        for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13)
            assert type(one) is type(other)


def test_gradients_pass_through_decisions_on_such_arrays() -> None:
    compiled = aj.compile(aj.value_and_grad(clustered), backend="interpret")
    for seed in range(2):
        c, points = draws(seed)
        value, slope = compiled(c, points)
        np.testing.assert_allclose(value, clustered(c, points), rtol=1e-13)
        np.testing.assert_allclose(slope, 2 * value / c, rtol=1e-9)      # a square of c


def paid(c, draws):
    """Paths that end early, in an array that is written to behind decisions: at some calls in the first round, at others later."""
    payoffs = np.zeros(len(draws))
    for i in range(len(draws)):
        s = c
        alive = True
        for e in draws[i, 0]:
            s = s * (0.7 + 0.6 * e)
            if s < 0.75:
                alive = False
                break
        if alive:
            payoffs[i] = max(s - 0.8, 0.0)
    return payoffs.sum() * c


def test_arrays_that_are_written_to_in_some_rounds_are_part_of_one_program(count_traces: Callable[[], int]) -> None:
    """Without this, calls that begin with rounds of no write are other ways, each of them with another number of such rounds."""
    compiled = aj.compile(paid, backend="interpret")
    for seed in range(12):
        given = 1.0, np.random.default_rng(seed).random((8, 1, 3))
        np.testing.assert_allclose(compiled(*given), paid(*given), rtol=1e-13)
    assert compiled.cache_info().size == 1
    assert count_traces() <= 6
