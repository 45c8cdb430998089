"""Numbers in attributes, items and cells are part of the state as those in local variables are: loops that count there are one program."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from support.numpy_comparison import check_values
from support.random_numpy_programs import CALLS, Line, RandomProgram, random_numpy_program, runs

import adjit as aj
from adjit.runtime.traces import trace_ways


class Count:
    def __init__(self, start: int = 0) -> None:
        self.rounds, self.step, self.done = start, 1.0, False


class Slotted:
    __slots__ = ("rounds", "step")

    def __init__(self) -> None:
        self.rounds, self.step = 0, 1.0


def attributes(a):
    x, count = a, Count()
    while not count.done:
        x = x - 0.05 * count.step * (x * x - a)
        count.rounds += 1
        count.step *= 0.999
        count.done = abs(x * x - a) < 1e-6
    return x * count.rounds + count.step, count.rounds


def slots(a):
    x, count = a, Slotted()
    while abs(x * x - a) > 1e-6 and count.rounds < 60:
        x = x - 0.05 * (x * x - a)
        count.rounds += 1
    return x * count.step, count.rounds


def items(a):
    state = {"x": a, "round": 0, "nested": {"step": 1.0}}
    while abs(state["x"] ** 2 - a) > 1e-6 and state["round"] < 60:
        state["x"] = state["x"] - 0.05 * state["nested"]["step"] * (state["x"] ** 2 - a)
        state["round"] += 1
        state["nested"]["step"] *= 0.99
    return state["x"], state["round"], state["nested"]["step"]


def elements(a):
    x, counts = a, [0, 0]
    while abs(x * x - a) > 1e-6:
        counts[0] += 1
        if x * x > a:
            x = x - 0.05 * (x * x - a)
        else:
            x, counts[1] = x + 0.1, counts[1] + 1
    return x, counts


def cells(a):
    x, calls = a, 0

    def slope(x):
        nonlocal calls
        calls += 1
        return x * x - a

    while abs(slope(x)) > 1e-6:
        x = x - 0.05 * slope(x)
    return x, calls


class Search:
    def __init__(self, x):
        self.x, self.a, self.rounds, self.best = x, x, 0, 0

    def step(self):
        self.rounds += 1
        new = self.x - 0.05 * (self.x ** 2 - self.a)
        if abs(new) < abs(self.x):
            self.best = self.rounds
        self.x = new
        return abs(self.x ** 2 - self.a) > 1e-6


def methods(a):
    search = Search(a)
    while search.step():
        pass
    return search.x, search.rounds, search.best


def nested(a):
    outer, x = Count(), a
    for _ in range(4):
        inner = Count(outer.rounds)
        while x > 1.0:
            x = x / 2
            inner.rounds += 1
        x, outer.rounds = x * (a + 0.5), inner.rounds
    return x, outer.rounds


def last_values(a):
    last = deque([a, a], maxlen=2)
    rounds = 0
    while abs(last[-1] ** 2 - a) > 1e-6 and rounds < 60:
        last.append(0.5 * (last[0] + last[1]) - 0.05 * (last[-1] ** 2 - a))
        rounds += 1
    return last[-1], rounds


def partial_function(a):
    step, x, rounds = partial(lambda size, x: x - size * (x * x - a), 0.05), a, 0
    while abs(x * x - a) > 1e-6:
        x, rounds = step(x), rounds + 1
    return x, rounds


LOOPS = (attributes, slots, items, elements, cells, methods, nested, last_values, partial_function)


def flat(result: Any) -> list[Any]:
    return [leaf for item in result for leaf in flat(item)] if isinstance(result, (tuple, list)) else [result]


@pytest.mark.share(3)
@pytest.mark.parametrize("backend", ["interpret", "native"])
@pytest.mark.parametrize("function", LOOPS, ids=lambda function: function.__name__)
def test_loops_that_count_in_objects_are_one_program(function: Callable[..., Any], backend: str) -> None:
    for order in (1, -1):
        compiled = aj.compile(function, backend=backend)
        for a in np.array([2.0, 3.0, 0.4, 1.0, 2.5, 0.7, 0.999, 3.3])[::order]:
            expected, found = flat(function(a)), flat(compiled(a))
            assert list(map(type, found)) == list(map(type, expected))
            np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert compiled.cache_info().traces <= 5
        assert len(compiled.programs()) <= 3


@pytest.mark.share(2)
@pytest.mark.parametrize("function", LOOPS, ids=lambda function: function.__name__)
def test_gradients_of_loops_that_count_in_objects(function: Callable[..., Any]) -> None:
    def value(a):
        return function(a)[0]

    gradient = aj.compile(aj.grad(value))
    for a in (2.0, 3.0, 0.4):
        numeric = (value(a + 1e-7) - value(a - 1e-7)) / 2e-7
        np.testing.assert_allclose(gradient(np.float64(a)), numeric, rtol=1e-4, atol=1e-5)
    assert gradient.cache_info().traces <= 4


def test_numbers_that_python_needs_stay_numbers() -> None:
    """An index, a key, a format: the variable is no part of the state, and the ways are those of its numbers."""
    def function(a):
        x, count, seen = a, Count(), {}
        while x > 1.0:
            x = x / 2
            seen[count.rounds] = f"{count.rounds:03d}"
            count.rounds += 1
        return x * len(seen), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)[count.rounds], "".join(seen.values())

    compiled = aj.compile(function)
    for a in (5.0, 0.5, 20.0, 5.5):
        assert compiled(a) == function(a)


def test_points_that_no_trace_comes_by_again_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run makes a class of its own: two traces show that no point comes up again."""
    def function(a):
        class Halving:
            def __init__(self, x):
                self.x, self.rounds = x, 0

            def step(self):
                self.x, self.rounds = self.x / 2, self.rounds + 1
                return self.x > 1.0

        halving = Halving(a)
        while halving.step():
            pass
        return halving.x, halving.rounds

    traces = 0

    def counting(*arguments: Any) -> Any:
        nonlocal traces
        traces += 1
        return trace_with_tensors(*arguments)

    trace_with_tensors = trace_ways.trace_with_tensors
    monkeypatch.setattr(trace_ways, "trace_with_tensors", counting)
    compiled = aj.compile(function)
    for number, a in enumerate((9.0, 5.0, 1000.0), 1):
        assert compiled(a) == function(a)
        assert traces <= 4 * number


def test_what_holds_a_number_is_left_as_it_was() -> None:
    """Objects from outside keep Python numbers, whatever the trace did with those that it made."""
    outside = Count(7)

    def function(a):
        x, local = a, Count(outside.rounds)
        while x > 1.0:
            x, local.rounds = x / 2, local.rounds + 1
        return x, local.rounds

    compiled = aj.compile(function)
    assert [compiled(a)[1] for a in (5.0, 0.5, 20.0)] == [10, 7, 12]
    assert type(outside.rounds) is int
    outside.rounds = 1
    assert [compiled(a)[1] for a in (5.0, 0.5, 20.0)] == [4, 1, 6]


def held(program: RandomProgram, way: str) -> RandomProgram:
    """The program with its counters in an object, a dict or the cells of closures."""
    names = sorted(set(re.findall(r"\b[ctb]\d+\b", program.text)))

    def moved(lines: Sequence[Line]) -> list[Line]:
        form = {"attribute": r"held.\1", "item": r"held['\1']", "element": lambda match: f"held[{names.index(match[1])}]"}.get(way)
        return [Line(line.text if form is None else re.sub(r"\b([ctb]\d+)\b", form, line.text), moved(line.body)) for line in lines]

    first = {"attribute": ["class Held:", "held = Held()"], "item": ["held = {}"], "element": [f"held = [0] * {len(names)}"],
             "cell": ["def probe():"]}[way]
    body = {"attribute": [Line("pass")], "cell": [Line(f"return {', '.join(names)},")]}.get(way, [])
    return RandomProgram(program.seed, program.features, (Line(first[0], body), *map(Line, first[1:]), *moved(program.lines)), program.size)


WAYS = ("attribute", "item", "element", "cell")


@pytest.mark.parametrize("way", WAYS)
def test_random_programs_that_count_in_objects(way: str, exhaustive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_CACHE_SIZE", "0")
    count = 500 if exhaustive else 2
    for seed in range(count * WAYS.index(way), count * (WAYS.index(way) + 1)):
        program = held(random_numpy_program(seed, ("branches", "loops", "while", "counters", "returns")), way)
        if not runs(program):
            continue
        moved = any(text in program.text for text in (" @ ", "sum(", "mean(", "cumsum"))
        try:
            check_values(program.function, [program.call(number) for number in range(CALLS)][::1 if seed % 2 else -1], "interpret",
                         1e-12 if moved else 0.0)
        except aj.errors.AdjitError:
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}\n\n{program.text}") from error
