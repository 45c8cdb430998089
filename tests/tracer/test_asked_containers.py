"""Containers from outside that a function asks for what they hold, and stores in: each call does what plain Python does."""

from __future__ import annotations

from typing import Any

import pytest

import adjit as aj


def asks_a_dict(held: Any, x: Any) -> Any:
    if x > 0:
        held["k"] = 1
    return "k" in held


def pops(held: Any, x: Any) -> None:
    held["p"] = x
    held.pop("n", None)


def sets_a_default(held: Any, x: Any) -> None:
    held["p"] = x
    held.setdefault("n", 2.0)


def asks_before(held: Any, x: Any) -> Any:
    held["p"] = x
    if "q" in held:
        return 1
    held["q"] = 1
    return 0


def asks_a_set(held: Any, x: Any) -> Any:
    if x > 0:
        held.add(1)
    return 1 in held


CASES = [(asks_a_dict, dict), (asks_a_set, set), (pops, dict), (sets_a_default, dict), (asks_before, dict)]


@pytest.mark.parametrize(("fun", "make"), CASES, ids=[fun.__name__ for fun, _ in CASES])
def test_each_call_does_what_python_does(fun: Any, make: Any) -> None:
    plain, held = make(), make()
    compiled = aj.compile(lambda x: fun(held, x), backend="interpret")
    for x in (-1.0, 1.0, -2.0, 3.0):
        assert compiled(x) == fun(plain, x)
        assert held == plain
