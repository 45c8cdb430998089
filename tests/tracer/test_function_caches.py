"""Cached functions that a traced function calls: their caches hold no value of the trace afterwards."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.ir.errors import TraceError


@pytest.mark.parametrize("size", [None, 8])
def test_a_cache_keeps_no_value_of_a_trace(size: int | None) -> None:
    @functools.lru_cache(maxsize=size)
    def square(x: Any) -> Any:
        return x * x

    @functools.lru_cache(maxsize=size)
    def table(n: int) -> Any:
        return np.arange(n) * 2.0

    def f(x: Any) -> Any:
        return square(x) + table(3).sum()

    compiled = aj.compile(f, backend="interpret")
    first = table(3)
    for x in (1.0, 2.0, 1.0):
        assert compiled(x) == x * x + 6.0
        assert (square(x), square(5.0)) == (x * x, 25.0)
    assert table(3) is first
    assert float(aj.grad(f)(3.0)) == 6.0


@pytest.mark.parametrize("size", [None, 8])
def test_a_value_that_does_not_follow_from_the_arguments_is_refused(size: int | None) -> None:
    held = [0.0]

    @functools.lru_cache(maxsize=size)
    def last() -> Any:
        return held[0] * 2

    def f(x: Any) -> Any:
        held[0] = x
        return last()

    for _ in range(2):
        with pytest.raises(TraceError, match="last is a cached function, and its cache keeps a value of this call"):
            aj.compile(f)(1.0)
    assert held == [0.0]
    assert last() == 0.0


def test_a_cache_that_is_cleared() -> None:
    held = [2.0]

    @functools.lru_cache
    def table(n: int) -> float:
        return held[0] * n

    compiled = aj.compile(lambda x: x * table(3), backend="interpret")
    found = [float(compiled(1.0))]
    held[0] = 5.0
    found.append(float(compiled(1.0)))      # as Python: the cache has what was computed before
    table.cache_clear()
    found += [float(compiled(1.0)), float(compiled(1.0))]
    assert found == [6.0, 6.0, 15.0, 15.0]
    assert compiled.cache_info().traces == 3
