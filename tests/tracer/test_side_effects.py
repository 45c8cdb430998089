"""Functions that change what they depend on are refused; counters that nobody reads, memos and lazy attributes are not."""

from __future__ import annotations

import re
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
@pytest.mark.parametrize("make", [make_nonlocal, make_attribute, make_item])
def test_a_number_that_each_call_changes_and_reads_is_that_of_python(make: Any, given: Any) -> None:
    compiled = aj.compile(make())
    assert [float(compiled(given)) for _ in range(4)] == [3.0, 6.0, 9.0, 12.0]
    assert compiled.cache_info().traces == 1


@pytest.mark.parametrize("given", [np.ones(3), aj.tensor([1.0, 1.0, 1.0])])
@pytest.mark.parametrize("make", [make_list, make_list_of_object])
def test_a_list_that_gets_longer_and_is_read_is_refused(make: Any, given: Any) -> None:
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
    calls = 0

    def fun(x: Any) -> Any:
        nonlocal calls
        calls += 1
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
    assert shapes == [(3,), (3,), (4,), (3,)]
    assert known == {3, 4}
    assert calls == notes.calls == table["calls"] == 4
    assert compiled.cache_info().traces <= 3


def new_key(options, x):
    options["n"] = 2 * x
    return x


def appended(options, x):
    options[0].append(2 * x)
    return x


def swapped(options, x):
    options["a"], options["b"] = options["b"], options["a"]
    return 2 * options["a"] + x


@pytest.mark.parametrize(("function", "options", "place", "line"), [
    (new_key, {}, "options['n']", "2 * x"), (appended, ([],), "options[0][0]", "append(2 * x)"),
    (swapped, {"a": np.ones(2), "b": np.zeros(2)}, "options['a']", "= options[\"b\"]")])
def test_arrays_stored_in_arguments_of_examples_are_refused_with_their_place(function, options, place, line):
    for call in (lambda f: f(options, np.ones(2)), lambda f: f(options=options, x=np.ones(2))):
        with pytest.raises(TraceError, match=re.escape(f"as {place}\n")) as caught:
            call(aj.compile(lambda options, x: aj.checkpoint(function)(options, x)))
        assert line in caught.value.location.source()


def test_a_copy_of_a_container_may_have_new_arrays():
    def doubled(options):
        options = dict(options)
        options["b"] = options["a"] * 2
        return options
    np.testing.assert_array_equal(aj.compile(doubled)({"a": np.ones(2)})["b"], [2.0, 2.0])


def test_values_stored_by_way_of_a_dict_of_attributes_are_refused() -> None:
    """No program would store them again: what was there stays, and nothing of the trace is left."""
    class Place:
        pass

    def updated(place: Any, x: Any) -> Any:
        place.__dict__.update(a=x * 2)
        return x

    def item(place: Any, x: Any) -> Any:
        vars(place)["a"] = x * 2
        return x

    for function in (updated, item):
        for before in ({}, {"a": 1.0}):
            place = Place()
            vars(place).update(before)
            with pytest.raises(TraceError, match=r"\.a in a way that is not followed"):
                aj.compile(lambda x, function=function, place=place: function(place, x))(np.ones(2))
            assert vars(place) == before
