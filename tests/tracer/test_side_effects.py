"""Functions that change what they depend on are refused; counters that nobody reads, memos and lazy attributes are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.ir.errors import TraceError

count = 0


def changes_a_global(x: Any) -> Any:
    global count
    count += 1
    return x.sum() * count


def make_nonlocal() -> Any:
    calls = 0

    def fun(x: Any) -> Any:
        nonlocal calls
        calls = calls + 1
        return x.sum() * calls
    return fun


class Settings:
    """A plain object."""

    def __init__(self) -> None:
        self.calls = 0
        self.weight: Any = None
        self.times: list[int] = []


def make_attribute() -> Any:
    settings = Settings()

    def fun(x: Any) -> Any:
        settings.calls += 1
        return x.sum() * settings.calls
    return fun


def make_list() -> Any:
    seen: list[int] = []

    def fun(x: Any) -> Any:
        seen.append(x.shape[0])
        return x.sum() * len(seen)
    return fun


def make_item() -> Any:
    table = {"calls": 0}

    def fun(x: Any) -> Any:
        table["calls"] += 1
        return x.sum() * table["calls"]
    return fun


def make_list_of_object() -> Any:
    settings = Settings()

    def fun(x: Any) -> Any:
        settings.times.append(1)
        return x.sum() * sum(settings.times)
    return fun


@pytest.mark.parametrize("given", [np.ones(3), aj.tensor([1.0, 1.0, 1.0])])
@pytest.mark.parametrize("make", [lambda: changes_a_global, make_nonlocal, make_attribute, make_list, make_item, make_list_of_object])
def test_what_changes_its_own_number_is_refused(make: Any, given: Any) -> None:
    compiled = aj.compile(make())
    for _ in range(2):
        with pytest.raises(TraceError, match="and reads it too"):
            compiled(given)


def test_what_is_filled_once_or_read_elsewhere_is_fine() -> None:
    memo: dict[int, Any] = {}
    settings = Settings()
    notes = SimpleNamespace(calls=0)
    shapes: list[Any] = []
    table = {"calls": 0}
    known: set[int] = set()
    traces = 0

    def fun(x: Any) -> Any:
        nonlocal traces
        traces += 1
        notes.calls += 1
        shapes.append(x.shape)
        table["calls"] += 1
        known.add(x.shape[0])
        if x.shape[0] not in memo:
            memo[x.shape[0]] = np.arange(x.shape[0], dtype=np.float64)
        if settings.weight is None:
            settings.weight = 2.0
        return x * memo[x.shape[0]] * settings.weight

    compiled = aj.compile(fun)
    for size in (3, 3, 4, 3):
        assert compiled(np.ones(size)).tolist() == (2.0 * np.arange(size)).tolist()
    assert traces == notes.calls == table["calls"] == len(shapes) <= 3
