"""Functions with many ways through their decisions: machine code finds that of a call, and tries few others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiler_threads import wait_for_compilers
from support.native_calls import needs_entry

import adjit as aj
from adjit.codegen.fastcall.ways import MAX_FACTS

pytestmark = needs_entry

V = np.arange(1.0, 4.0)


def by_integer(x, k):
    return x * (int(k) + 1), int(k)


def by_truth(x, k):
    for i in range(20):
        if k == i:
            return x * (i + 1.0), np.zeros(i)
    return x, np.zeros(25)


def by_count(x, k):
    return x[:int(k) % 3 + 1], x[x > k]


def by_order(x, k):
    rotated = np.roll(x, int(k) % 3) * np.where(k > 3, -1.0, 1.0)
    return min(sorted(rotated, key=lambda value: value), key=abs), np.argsort(rotated)[:int(k) % 2 + 1]


def in_loops(x, k):
    count = 0
    while x[0] > 0.1 and count < k:
        x, count = x * 0.5, count + 1
    return x, np.zeros(count)


PROGRAMS: dict[str, tuple[Callable[[Any, Any], Any], type]] = {
    function.__name__: (function, kind) for function, kind in (
        (by_integer, np.int64), (by_truth, np.float64), (by_count, np.float32), (by_order, np.int32), (in_loops, np.int8))}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_way_is_found_in_any_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, kind = PROGRAMS[name]
    compiled = aj.compile(function)
    keys = [kind(k) for k in range(12)]
    for _ in range(3):
        for k in keys:
            compiled(V, k)
        wait_for_compilers()
    before = compiled.cache_info()
    rng = np.random.default_rng(0)
    in_python: list[Any] = []
    monkeypatch.setattr(type(compiled), "call", lambda self, *args: in_python.append(args))
    for k in [*keys, *keys[::-1], *rng.permutation(keys * 3)]:
        for found, known in zip(compiled(V, k), function(V, k), strict=True):
            np.testing.assert_array_equal(found, known)
    assert not in_python
    assert compiled.cache_info().traces == before.traces


@pytest.mark.parametrize("function", [by_integer, by_truth])
def test_what_a_miss_tells_excludes_other_ways(function: Callable[[Any, Any], Any]) -> None:
    """Of twenty ways in turn, the least recently used one is the call's: a few are tried before it, not all."""
    compiled = aj.compile(function)
    keys = [np.float64(k) for k in range(20)]
    for _ in range(3):
        for k in keys:
            compiled(V, k)
        wait_for_compilers()
    tried = []
    for k in keys:
        compiled(V, k)
        tried.append(compiled._cache.record._get("facts_count"))
    assert max(tried) <= (1 if function is by_integer else MAX_FACTS - 2)
    assert sum(tried) <= (20 if function is by_integer else 60)
    assert min(tried) >= 1


class Model:
    def __init__(self) -> None:
        self.rate, self.weights = 2.0, np.ones(3)

    def loss(self, x):
        return x * self.rate + self.weights

    @aj.compile
    def step(self, x):
        return x * self.rate - self.weights


def test_bound_methods_become_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods that are bound before they are compiled, and compiled ones that are bound before their first call."""
    model, other = Model(), Model()
    other.rate = 5.0
    bound = [aj.compile(model.loss), aj.compile(other.loss), model.step, other.step]
    for _ in range(4):
        for function in bound:
            function(V)
        wait_for_compilers()
    for function in bound:
        function(V)
    in_python: list[Any] = []
    monkeypatch.setattr(aj.CompiledFunction, "call", lambda self, *args: in_python.append(args))
    assert [function(V).tolist() for function in bound] == [[3, 5, 7], [6, 11, 16], [1, 3, 5], [4, 9, 14]]
    assert not in_python
