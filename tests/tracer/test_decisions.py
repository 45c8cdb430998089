"""Decisions on values become branches and loops: few programs for many ways, and the numbers of NumPy in every bit."""

from __future__ import annotations

import functools
import sys
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.ir import interpreter
from adjit.runtime.traces import trace_ways
from adjit.tracer import value_guards
from adjit.tracer.flow.flow_graph import EndOfExploration, FlowGraph


def newton(a):
    x = a
    while abs(x * x - a) > 1e-10:
        x = 0.5 * (x + a / x)
    return x


def bisection(c):
    low, high = 0.0 * c, c + 1.0
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        if middle * middle * middle < c:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def golden_section(a):
    ratio = (np.sqrt(5.0) - 1) / 2

    def function(x):
        return (x - 0.5 * a) ** 2

    low, high = a - 3.0, a + 2.0
    first, second = high - ratio * (high - low), low + ratio * (high - low)
    while abs(high - low) > 1e-6:
        if function(first) < function(second):
            high = second
        else:
            low = first
        first, second = high - ratio * (high - low), low + ratio * (high - low)
    return (low + high) / 2


def adaptive_heun(k):
    time, y, step = 0.0 * k, 1.0 + 0 * k, 0.1 + 0 * k
    while time < 2.0:
        if time + step > 2.0:
            step = 2.0 - time
        first = -k * y
        second = -k * (y + step * first)
        error = abs(step * (second - first) / 2)
        if error < 1e-4:
            time = time + step
            y = y + step * (first + second) / 2
        step = step * 0.9 * (1e-4 / (error + 1e-12)) ** 0.5
    return y


def conjugate_gradients(b):
    matrix = np.array([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]])
    x = b * 0
    residual = b - matrix @ x
    direction, square = residual, residual @ residual
    while square > 1e-18:
        product = matrix @ direction
        length = square / (direction @ product)
        x = x + length * direction
        residual = residual - length * product
        new = residual @ residual
        direction = residual + (new / square) * direction
        square = new
    return x


def fixed_point(a):
    x = a
    for _ in range(200):
        new = np.cos(x) * a
        if abs(new - x) < 1e-12:
            break
        x = new
    return x


def exhausted(a):
    x = a
    for _ in range(7):
        x = x * 0.5
        if x < 0.05:
            break
    return x


def clipped(x):
    norm = np.sqrt(np.sum(x ** 2))
    if norm > 1:
        x = x / norm
    return x


def independent_branches(x):
    total = 0.0
    for i in range(6):
        if x[i] > 0:
            total = total + x[i] ** 2
        else:
            extra = 3 * x[i]
            total = total - extra
    return total


def early_returns(x):
    if x[0] > 1:
        return x * 2
    if x[1] > 1:
        return x * 3
    while x[2] > 1:
        x = x / 2
        if x[0] < -4:
            return x * 5
    return x


def nested_loops(a):
    x, count = a, 0 * a
    while x < 100.0:
        y = x
        while y > 1.0:
            y = y / 2
            count = count + 1
        x = x * 1.5 + y
    return x + count


def collatz(n):
    steps = n * 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps = steps + 1
    return steps


def chained(x):
    if 0 < x[0] < 1 and (x[1] > 0 or x[2] > 0):
        return x[0] * x[1]
    return x[2] - x[0] if not x[1] > 1 else x[2] * 3


class Walker:
    def __init__(self, x):
        self.x, self.turns = x, []

    def step(self, limit):
        if self.x > limit:
            self.x = self.x - limit
            self.turns.append(1.0)
        else:
            self.x = self.x * 1.5


def objects(x):
    walker = Walker(x[0])
    for limit in (0.5, 1.0, 2.0):
        walker.step(limit)
    return walker.x + len(walker.turns)


def written_in_place(x):
    y = x.copy()
    row = y[1:]
    if y[0] > 0:
        row += y[0]
    else:
        row *= 2.0
    while np.sum(row) > 3:
        row /= 2.0
    return y


def by_index(x):
    best = x[0]
    for value in x[1:]:
        if value > best:
            best = value
    return best


def scalar(rng):
    return float(rng.uniform(0.5, 8))


def vector(size):
    return lambda rng: 1.5 * rng.standard_normal(size)


CASES: dict[Callable[..., Any], tuple[Callable[..., Any], int]] = {
    newton: (scalar, 1), bisection: (scalar, 1), golden_section: (scalar, 4),
    adaptive_heun: (lambda rng: float(rng.uniform(0.5, 3)), 3),
    conjugate_gradients: (vector(3), 2), fixed_point: (lambda rng: float(rng.uniform(0.3, 1.2)), 2),
    exhausted: (scalar, 3), clipped: (vector(3), 2),
    independent_branches: (vector(6), 6), early_returns: (vector(3), 6), nested_loops: (scalar, 3),
    collatz: (lambda rng: np.int64(rng.integers(1, 30)), 3), chained: (vector(3), 7),
    objects: (vector(1), 8), written_in_place: (vector(3), 4),
    by_index: (vector(5), 6)}


@pytest.mark.share(2)
@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_many_ways_are_few_programs(function: Callable[..., Any]) -> None:
    make, most = CASES[function]
    compiled = aj.compile(function, backend="interpret")
    rng = np.random.default_rng(1)
    for _ in range(25):
        given = make(rng)
        expected, found = np.asarray(function(given)), np.asarray(compiled(given))
        assert expected.dtype == found.dtype
        np.testing.assert_array_max_ulp(found, expected, 0 if function is not conjugate_gradients else 64)
    assert compiled.cache_info().traces <= most


SMOOTH = [newton, adaptive_heun, conjugate_gradients, fixed_point, exhausted, clipped, independent_branches, early_returns, nested_loops,
          chained, objects, written_in_place, by_index]


@pytest.mark.share(2)
@pytest.mark.parametrize("function", SMOOTH, ids=lambda function: function.__name__)
def test_gradients_of_decisions(function: Callable[..., Any]) -> None:
    def total(x):
        return np.sum(function(x) ** 2)

    make, _ = CASES[function]
    gradient = aj.grad(total)
    rng = np.random.default_rng(2)
    for _ in range(4):
        given = np.asarray(make(rng), float)[()]
        numeric = np.zeros_like(given)
        for index in np.ndindex(given.shape):
            ends = []
            for sign in (1, -1):
                moved = np.array(given)
                moved[index] += sign * 1e-6
                ends.append(total(moved[()]))
            numeric[index] = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(gradient(given), numeric, rtol=2e-4, atol=2e-5)


def test_calls_with_known_data_are_not_traced_again() -> None:
    """Ways that do not meet stay; arrays that the function makes are the same points in each trace."""
    def counts(x):
        table, count = np.zeros(4), 0
        for i in range(3):
            if x[i] > 0:
                count += 1
            table[i + 1] = table[i] + x[i] * count
        return table, count

    compiled = aj.compile(counts, backend="interpret")
    data = [np.array([a, b, c]) for a in (-1.0, 1.0) for b in (-2.0, 2.0) for c in (-3.0, 3.0)]
    for _ in range(3):
        for given in data:
            (table, count), (found, number) = counts(given), compiled(given)
            assert (table.tobytes(), count) == (found.tobytes(), number)
    assert compiled.cache_info().traces <= len(data)


def test_maxima_of_scalars_are_chosen_in_the_program() -> None:
    def extremes(x):
        return max(x[0], x[1]), min(x[0], 0.0), min([x[0], x[1], x[2]]), max(x[2], x[0], x[1])

    compiled = aj.compile(extremes, backend="interpret")
    for given in ([1.0, 2, 3], [np.nan, 1, 2], [1, np.nan, 2], [-0.0, 0.0, -1], [0.0, -0.0, 0.0]):
        expected, found = extremes(np.array(given)), compiled(np.array(given))
        assert [np.float64(number).tobytes() for number in expected] == [np.float64(number).tobytes() for number in found]
    assert compiled.cache_info().traces == 1
    np.testing.assert_array_equal(aj.grad(lambda x: max(x[0], x[1]) * min(x[2], 1.0))(np.array([1.0, 2.0, 0.5])), [0, 0.5, 2.0])


def returned_as_it_is(x):
    if np.sum(x) > 1:
        x = x * 2
    return x


def written_behind_a_branch(x):
    if np.sum(x) > 1:
        x = x * 2
    if x[0] > 0.3:
        x += 1
    else:
        x -= 1
    return x


def written_behind_a_loop(x):
    while np.sum(x) > 1:
        x = x * 0.5
    if x[0] > 0.3:
        x[0] = 7
    return x.sum()


def view_written_behind_a_branch(x):
    y = x[1:]
    if np.sum(x) > 1:
        y = y * 2
    if y[0] > 0:
        y += 1
    return y * 2


@pytest.mark.parametrize("numbers", [(2.0, 0.0, 5.0, 0.0, 3.0, 0.4), (0.0, 2.0, 0.4, 5.0), (0.4, 0.4, 3.0, 0.35, 0.0)])
@pytest.mark.parametrize("function", [returned_as_it_is, written_behind_a_branch, written_behind_a_loop, view_written_behind_a_branch],
                         ids=lambda function: function.__name__)
def test_an_argument_is_told_apart_from_an_array_of_the_function(function: Callable[..., Any], numbers: tuple[float, ...]) -> None:
    """On one way a variable holds the argument, which a write would change for the caller, on the other a new array."""
    compiled = aj.compile(function, backend="interpret")
    for number in numbers:
        given, expected = np.full(2, number), np.full(2, number)
        np.testing.assert_array_equal(compiled(given), function(expected))
        np.testing.assert_array_equal(given, expected)
    of_scalars = aj.compile(returned_as_it_is, backend="interpret")
    assert [type(of_scalars(np.float64(number))) for number in numbers] == [np.float64] * len(numbers)


def test_a_loop_is_traced_in_time_linear_in_its_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left by its condition in one call and by its bound in another: the loop is evaluated for a few points, not for each round."""
    def solve(a, most):
        x = a
        for _ in range(most):
            step = 0.1 * (np.cos(x) - a * x)
            x = x + step
            if abs(step) < 1e-8:
                break
        return x

    def evaluated(rounds: int) -> int:
        count = 0

        def counting(*arguments: Any) -> Any:
            nonlocal count
            count += 1
            return evaluate(*arguments)

        compiled = aj.compile(solve, static="most", backend="interpret")
        assert compiled(2.0, rounds) == solve(2.0, rounds)
        with monkeypatch.context() as patched:
            patched.setattr(interpreter, "evaluate_silently", counting)
            patched.setattr(value_guards, "evaluate_silently", counting)
            assert compiled(30.0, rounds) == solve(30.0, rounds)
        assert compiled.cache_info().traces == 2
        return count

    evaluate = interpreter.evaluate_silently
    assert evaluated(200) < 2.3 * evaluated(100)


def paths_that_end_early(z, total=np.sum):
    payoffs = np.zeros(len(z))
    for i in range(len(z)):
        s, alive = 1.0, True
        for e in z[i]:
            s *= np.exp(e)
            if s < 0.5:
                alive = False
                break
        if alive:
            payoffs[i] = max(s - 1.0, 0.0)
    return total(payoffs)


def test_views_are_read_anew_behind_a_branch() -> None:
    """The rows of an argument are views that live on while branches are emitted; a function of NumPy in a variable hides nothing."""
    compiled, gradient = aj.compile(paths_that_end_early, backend="interpret"), aj.grad(paths_that_end_early)
    rng = np.random.default_rng(3)
    for number in range(12):
        z = rng.normal(size=(3, 3))
        np.testing.assert_allclose(compiled(z), paths_that_end_early(z), rtol=1e-14)
        if number % 6 == 0:
            moved = [paths_that_end_early(z + 1e-7 * step.reshape(3, 3)) for step in np.eye(9)]
            numeric = (np.array(moved) - paths_that_end_early(z)) / 1e-7
            np.testing.assert_allclose(gradient(z).ravel(), numeric, atol=1e-5)
    assert compiled.cache_info().traces <= 12


def test_very_many_branches_stay_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_ways, "MAX_BRANCHES", 5)
    compiled = aj.compile(independent_branches, backend="interpret")
    for x in (np.ones(6), np.arange(6.0) - 2.5, -np.ones(6)):
        np.testing.assert_allclose(compiled(x), independent_branches(x))
    assert [len(each.trace.value_guards) for each in compiled.programs()] == [6, 6, 6]


def halvings(x, most=1e-9):
    while np.sum(x * x) > most:
        x = x * 0.5
    return x


def unpacked(x):
    arguments, options = (x + 1,), {"most": 1e-6}
    return halvings(*arguments, **options)


def wrapped(x):
    @functools.wraps(halvings)
    def call(*args, **kwargs):
        return halvings(*args, **kwargs)

    return call(x)


def sorted_by_key(x):
    asked = 0

    def key(number):
        nonlocal asked
        asked += 1
        return number > 0.3

    return sorted(*[[x[0], x[1], x[2]]], key=key)[0] * asked


@pytest.mark.parametrize("function", [unpacked, wrapped, sorted_by_key], ids=lambda function: function.__name__)
def test_calls_with_unpacked_arguments_are_followed(function: Callable[..., Any]) -> None:
    compiled = aj.compile(function, backend="interpret")
    for seed in range(8):
        given = np.random.default_rng(seed).normal(size=3)
        np.testing.assert_array_equal(compiled(given), function(given))
    assert function is sorted_by_key or compiled.cache_info().traces == 1


def test_an_exploration_ends_though_the_way_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each step is rejected, the time stands still, and the count of rejected steps makes each point a new one."""
    def integrate(y, tolerance):
        time, step, accepted, rejected = 0.0, 0.1, 0, 0
        while time < 1:
            if time + step > 1:
                step = 1 - time
            first = -y * y
            second = -(y + step * first) ** 2
            error = np.max(np.abs(step * (second - first) / 2))
            if error < tolerance:
                y, time, accepted = y + step * (first + second) / 2, time + step, accepted + 1
            else:
                rejected += 1
            step = step * min(2, max(0.3, 0.9 * np.sqrt(tolerance / (error + 1e-30))))
        return y, accepted, rejected

    passed = 0

    def count(graph: FlowGraph, key: object) -> bool | None:
        nonlocal passed
        passed += 1
        if passed > 10_000:
            raise KeyboardInterrupt("the exploration goes on")
        return explored_outcome(graph, key)

    explored_outcome = FlowGraph.explored_outcome
    monkeypatch.setattr(FlowGraph, "explored_outcome", count)
    arguments = np.array([1.0, 3.0]), 1e-2
    for found, expected in zip(aj.compile(integrate)(*arguments), integrate(*arguments), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_exploration_ends_without_points() -> None:
    before = sys.gettrace()
    with pytest.raises(EndOfExploration), FlowGraph().exploration():
        endless()
    assert sys.gettrace() is before


def endless() -> None:
    step = 0
    while step < 1:
        step = step * 2


One, Two = namedtuple("One", "a b"), namedtuple("Two", "a b")


def test_ways_that_return_other_structures_do_not_meet() -> None:
    pairs: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (lambda x: {"left": x.sum()}, lambda x: {"right": x.sum()}), (lambda x: [x * 2, None], lambda x: [None, x * 2]),
        (lambda x: x[0], lambda x: (x[0], [])), (lambda x: (x, x * 2), lambda x: [x, x * 2]),
        (lambda x: One(x[0], x[1]), lambda x: Two(x[0], x[1])), (lambda x: (x, (x, x)), lambda x: ((x, x), x))]
    for one, two in pairs:
        def f(x: Any, one: Any = one, two: Any = two) -> Any:
            return one(x) if x[0] > 0 else two(x)

        compiled = aj.compile(f, backend="interpret")
        for scale in (1.0, -1.0, 2.0, -2.0):
            x = scale * np.ones(2)
            found, expected = compiled(x), f(x)
            assert type(found) is type(expected)
            assert repr(found) == repr(expected)
