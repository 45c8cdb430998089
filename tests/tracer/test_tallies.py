"""Numbers outside that a function only adds to, counters and running totals: each call adds, whatever is there then."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjit as aj

calls = 0


class Counting:
    """Counts in its class, and in its object."""

    hits = 0
    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 0

    def __call__(self, x: Any) -> Any:
        Counting.hits += 1
        self.n += 2
        return x


def make() -> tuple[Any, Any]:
    """A function that counts in all kinds of places, and what these hold."""
    outer, counting = 0, Counting()
    state = SimpleNamespace(n=1, total=0.0, bits=1, name="", seen=(), half=1.0)
    table, many, each = {"n": 0, "rounds": 0}, [0] * 50, defaultdict(int)

    def f(x: Any) -> Any:
        nonlocal outer
        global calls
        calls += 1
        outer -= 1
        state.n += 1
        state.total += x * x
        state.half *= 0.5
        state.half += 0.1
        state.bits |= 4
        state.bits <<= 1
        state.name += "a"
        state.seen += (x,)
        table["n"] += 1
        table["last"] = x
        f.calls += 1
        counting(x)
        while x > 1:
            x = x / 2
            table["rounds"] += 1
        many[int(x > 0.4)] += 3
        each["a"] += 1
        return x
    f.calls = 0     # type: ignore[attr-defined]
    return f, lambda: (outer, calls, Counting.hits, counting.n, vars(state), table, many[:2], each,
                       f.calls)      # type: ignore[attr-defined]


def as_python(x: Any) -> Any:
    if isinstance(x, dict):
        return {key: as_python(item) for key, item in x.items()}
    return [as_python(item) for item in x] if isinstance(x, (list, tuple)) else x.item() if isinstance(x, np.generic) else x


def test_each_call_counts() -> None:
    global calls
    found = []
    for transform in (lambda f: f, lambda f: aj.compile(f, backend="interpret")):
        calls = Counting.hits = 0
        f, state = make()
        g = transform(f)
        found.append([(as_python(g(x)), as_python(state())) for x in (3.0, 0.3, 8.0, 3.0, 3.0)])
    assert found[0] == found[1]


def test_what_the_functions_of_loops_and_branches_count_causes_a_warning() -> None:
    """They are traced, not run in each iteration."""
    state, log = SimpleNamespace(n=0, last=0), [0]

    def counting(carry: Any, x: Any) -> Any:
        state.n += 1
        log.append(1)
        return carry + x, carry

    def storing(carry: Any, x: Any) -> Any:
        state.last = 3
        return carry + x, carry

    compiled = aj.compile(lambda x: aj.scan(counting, 0.0, x)[0])
    with pytest.warns(UserWarning, match=r"counting, which a loop .* runs, adds to state\.n, log: each call does so as often as the trace"):
        assert compiled(np.ones(3)) == 3.0
    with pytest.warns(UserWarning, match="adds to log: "):
        aj.compile(lambda x: aj.cond(x > 0, lambda x: log.append(1) or x, np.sin, x))(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert aj.compile(lambda x: aj.scan(storing, 0.0, x)[0])(np.ones(3)) == 3.0
        assert compiled(np.ones(3)) == 3.0


def test_counting_makes_no_trace_of_its_own() -> None:
    state, table = SimpleNamespace(n=0), Counter(a=0)

    def f(x: Any) -> Any:
        state.n += 1
        table["a"] += 2
        return (x * x).sum()

    compiled, gradient = aj.compile(f), aj.compile(aj.grad(f))
    for _ in range(3):
        compiled(np.ones(2))
        assert gradient(np.ones(2)).tolist() == [2.0, 2.0]
    assert (state.n, table["a"]) == (6, 12)
    assert compiled.cache_info().traces == gradient.cache_info().traces == 1


def test_what_other_ways_count_makes_no_trace_of_its_own() -> None:
    state, table, numbers = SimpleNamespace(up=0, down=0), {"up": 0, "down": 0}, [0, 0]

    def f(x: Any) -> Any:
        if x[0] < 0:
            state.down += 1
            table["down"] += 1
            numbers[0] += 1
        else:
            state.up += 1
            table["up"] += 2
            numbers[1] += 1
        return x * 2

    compiled = aj.compile(f, backend="interpret")
    for x in (1.0, -1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 1.0, -1.0):
        compiled(np.array([x]))
    assert (vars(state), table, numbers) == ({"up": 4, "down": 5}, {"up": 8, "down": 5}, [5, 4])
    assert compiled.cache_info().traces == 2
    table["up"], state.up = 0.5, 0.5        # a number of another class is no other program for the way that does not count it
    compiled(np.array([-1.0]))
    compiled(np.array([1.0]))
    assert (state.up, table["up"], state.down) == (1.5, 2.5, 6)


def test_a_file_does_not_count(tmp_path: Any) -> None:
    state = SimpleNamespace(n=0)

    def f(x: Any) -> Any:
        state.n += 1
        return 2 * x

    with pytest.warns(UserWarning, match=r"adds to state\.n at each call, which a file does not do"):
        aj.compile(f).export(str(tmp_path / "f.adjit"), np.ones(2))


def test_a_number_of_a_class_makes_no_trace_of_its_own() -> None:
    class Counted:
        n = total = 0

        def __call__(self, x: Any) -> Any:
            type(self).n += 1
            self.total += 2
            return x

    counted = Counted()
    compiled = aj.compile(lambda x: counted(x), backend="interpret")
    for _ in range(4):
        compiled(np.ones(2))
    assert (Counted.n, vars(counted), compiled.cache_info().traces) == (4, {"total": 8}, 1)


def test_a_comparison_of_arguments_makes_no_trace_at_each_call() -> None:
    class Counted:
        hits = 0

        def __init__(self) -> None:
            self.n = 0

    @dataclass
    class Compared:
        n: int = 0

    counted, compared, found = Counted(), Compared(), list[bool]()

    def same(first: Any, second: Any) -> Any:
        counted.n += 1
        Counted.hits += 1
        return first == second

    def f(x: Any) -> Any:
        same(x, x)
        compared.n += 1
        return x * (3.0 if same(compared, Compared(2)) else 1.0)

    plain, whole = aj.compile(same, backend="interpret"), aj.compile(f, backend="interpret")
    for length in (3, 2) * 3:
        plain(np.ones(length), np.ones(length))
        found.append(bool(whole(np.ones(2))[0] == 3))
    assert plain.cache_info().traces == 2
    assert found == [False, True, False, False, False, False]
    assert (Counted.hits, counted.n, compared.n) == (18, 18, 6)


def test_a_number_beside_lists_that_are_filled() -> None:
    log: dict[str, Any] = {"calls": 0, "losses": []}

    @aj.compile
    def loss(x):
        value = np.sum(x**2)
        log["calls"] += 1
        log["losses"].append(value)
        return value

    for call in range(4):
        loss(np.ones(2) + call)
    assert (log["calls"], log["losses"], loss.cache_info().traces) == (4, [2.0, 8.0, 18.0, 32.0], 1)
    first, log["losses"] = log["losses"], []
    loss(np.ones(2))
    assert (log["calls"], len(first), log["losses"]) == (5, 4, [2.0])


def test_a_counter_that_is_set_to_the_number_that_it_has() -> None:
    held = SimpleNamespace(count=0)

    def f(x: Any, start: int) -> Any:
        held.count -= 2
        held.count = start
        return x

    compiled = aj.compile(f, backend="interpret")
    for before, start in ((0, 0), (4, 0), (4, 7), (3, 7)):
        held.count = before
        compiled(1.0, start)
        assert held.count == start
