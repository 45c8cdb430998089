"""Memory that a function writes to by one name and Python reads by another, and values of `static=` that are equal but act otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.errors import ArgumentError

HELD = np.arange(4.0)
STATE = SimpleNamespace(w=np.arange(4.0))


def by_name(x: Any) -> Any:
    x *= 2
    return HELD.sum() + x[0]


def by_attribute(x: Any) -> Any:
    np.add(x, 1, out=x)
    return (STATE.w ** 2).sum() + x[0]


def decision(x: Any) -> Any:
    x[0] = 50.0
    return x * 10 if HELD[0] > 4 else x * 1


@pytest.mark.parametrize("backend", ["interpret", "native"])
@pytest.mark.parametrize(("function", "array", "words"), [
    (by_name, HELD, "x and HELD share memory"), (by_attribute, STATE.w, r"x and STATE\.w share memory"),
    (decision, HELD, "x and HELD share memory")])
def test_what_python_reads_is_not_what_is_written(function: Callable[..., Any], array: np.ndarray, words: str, backend: str) -> None:
    """Refused, before anything is written, at the first call and at later ones; calls with other arrays are right."""
    compiled = aj.compile(function, backend=backend)
    before = array.copy()
    for _ in range(2):
        for given in (array, array[::-1], array[:2]):
            with pytest.raises(ArgumentError, match=words):
                compiled(given)
            np.testing.assert_array_equal(array, before)
        for _ in range(3):
            x, y = np.ones(4), np.ones(4)
            np.testing.assert_array_equal(compiled(x), function(y))
            np.testing.assert_array_equal(x, y)


@dataclass(frozen=True)
class Setting:
    a: Any
    b: float = field(compare=False, default=1.0)


def test_static_values_that_act_otherwise_have_programs_of_their_own() -> None:
    kinds = aj.compile(lambda x, n: x * n.a if type(n.a) is int else x - n.a, static="n")
    assert [kinds(2.0, Setting(a)) for a in (1, 1.0, 1, True)] == [2.0, 1.0, 2.0, 1.0]
    signs = aj.compile(lambda x, n: np.copysign(x, n.a), static="n")
    assert [signs(2.0, Setting(a)) for a in (0.0, -0.0, 0.0)] == [2.0, -2.0, 2.0]
    left_out = aj.compile(lambda x, n: x * n.b, static="n")
    assert [left_out(2.0, Setting(1, b)) for b in (2.0, 3.0, 2.0)] == [4.0, 6.0, 4.0]
    assert left_out.cache_info().traces == 2
    of_sets = aj.compile(lambda x, n: x / sum(type(i) is int for i in n), static="n")
    assert [of_sets(2.0, n) for n in (frozenset([1, 2]), frozenset([1.0, 2]), frozenset([2, 1]))] == [1.0, 2.0, 1.0]
    assert "Setting(a=1, b=3.0)" in left_out.explain()
