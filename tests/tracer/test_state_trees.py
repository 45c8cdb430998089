"""Containers of objects outside that each call reads and binds anew: one program, which does what Python does, whatever is bound there
between calls."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.each import parametrize_within

import adjit as aj
from adjit.ir.errors import TraceError

Pair = namedtuple("Pair", "m n")


@dataclass(frozen=True)
class Stats:
    m: Any
    n: float


class Plain:
    def __init__(self, m: Any, n: float):
        self.m, self.n = m, n


Step = Callable[[Any, Any], Any]
STATES: dict[str, tuple[Callable[[], Any], Step, bool]] = {      # what is there at first, the next one, and whether one program is enough
    "tuple": (lambda: (np.zeros(2), 1.0), lambda h, x: (h[0] + x, 0.5 * h[1]), True),
    "list": (lambda: [np.zeros(2), 1.0], lambda h, x: [h[0] + x, 0.5 * h[1]], True),
    "dict": (lambda: {"m": np.zeros(2), "n": 1}, lambda h, x: {"m": 0.9 * h["m"] + x, "n": h["n"] + 1}, True),
    "numbers": (lambda: (0.0, 1.0), lambda h, x: (h[1], h[0] + h[1] * 0.5), True),
    "named tuple": (lambda: Pair(np.zeros(2), 0.0), lambda h, x: h._replace(m=h.m + x, n=h.n + 1.0), True),
    "dataclass": (lambda: Stats(np.zeros(2), 0.0), lambda h, x: replace(h, m=h.m + x, n=h.n + 1.0), True),
    "object": (lambda: Plain(np.zeros(2), 0.0), lambda h, x: Plain(0.5 * h.m + x, h.n + 1.0), True),
    "nested": (lambda: {"a": (np.zeros(2), [1.0]), "b": "text"},
               lambda h, x: {"a": (h["a"][0] + x, [h["a"][1][0] * 2.0]), "b": h["b"]}, True),
    "kept": (lambda: (0, [1.0], np.zeros(2)), lambda h, x: (h[0] + 1, h[1], h[2] + h[1][0] * x), True),
    "table": (lambda: (np.zeros(2), np.array([1.0, 2.0])), lambda h, x: (h[0] + x * h[1], h[1]), True),
    "exchanged": (lambda: (np.ones(2), np.zeros(2)), lambda h, x: (h[1], h[0]), False),
}


def leaves(state: Any) -> list[Any]:
    """Arrays, numbers and texts of a state, with the classes around them."""
    if isinstance(state, (tuple, list)):
        return [type(state).__name__, *(leaf for part in state for leaf in leaves(part))]
    if isinstance(state, dict) or hasattr(state, "__dict__"):
        table = state if isinstance(state, dict) else vars(state)
        return [type(state).__name__, *(leaf for name, part in table.items() for leaf in (name, *leaves(part)))]
    return [state.tolist() if isinstance(state, np.ndarray) else state]


def total(state: Any, x: Any) -> Any:
    parts = vars(state).values() if hasattr(state, "__dict__") else state.values() if isinstance(state, dict) else state
    return sum(np.sum(x * part) for part in parts if not isinstance(part, (str, tuple, list)))


@parametrize_within("name", STATES, share=3)
def test_a_container_that_is_bound_anew(name: str) -> None:
    first, step, at_once = STATES[name]
    ways = []
    for compiled in (True, False):
        place, seen = SimpleNamespace(state=first()), []

        def fun(x: Any, place: Any = place, step: Step = step) -> Any:
            before = place.state
            place.state = step(before, x)
            return total(before, x)

        run = aj.compile(fun) if compiled else fun
        held = []
        for call in range(5):
            seen.append((float(run(np.array([1.0, call]))), leaves(place.state)))
            held.append((place.state, leaves(place.state)))
            if call == 2:
                place.state = step(first(), np.array([3.0, 4.0]))
        assert all(leaves(state) == then for state, then in held)       # what a call stored stays as it was
        ways.append(seen)
        assert not (compiled and at_once) or run.cache_info().traces == 1, run.explain()      # type: ignore[attr-defined]
    assert ways[0] == ways[1]


def test_other_parts_are_another_program() -> None:
    place = SimpleNamespace(state=("a", np.zeros(2)))

    def fun(x: Any) -> Any:
        kind, m = place.state
        place.state = (kind, m + (x if kind == "a" else 2.0 * x))
        return np.sum(m * x)

    compiled = aj.compile(fun)
    x = np.ones(2)
    assert [float(compiled(x)) for _ in range(3)] == [0.0, 2.0, 4.0]
    place.state = ("b", place.state[1])
    assert [float(compiled(x)) for _ in range(3)] == [6.0, 10.0, 14.0]
    place.state = ("b", np.zeros((1, 2)))
    assert [float(compiled(x)) for _ in range(2)] == [0.0, 4.0]
    assert "state" in compiled.explain().splitlines()[1]


def test_a_container_that_another_place_keeps_is_left_alone() -> None:
    place = SimpleNamespace(state=(np.zeros(2), 1.0))
    place.first = place.state
    compiled = aj.compile(lambda x: _advance(place, x) + place.first[1])
    with pytest.raises(TraceError, match=r"keeps a value in place\.state"):
        compiled(np.ones(2))
    assert place.state is place.first


def _advance(place: Any, x: Any) -> Any:
    place.state = (place.state[0] + x, place.state[1] + 1.0)
    return np.sum(place.state[0])
