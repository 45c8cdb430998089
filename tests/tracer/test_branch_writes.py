"""Arrays of the caller that only some ways through a function write to: every call writes what plain Python writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjit as aj

held = np.zeros(3)


def writes_two(a: Any, b: Any, x: Any) -> None:
    a[0] = x
    if x > 0:
        b[0] = x


def writes_one_then_the_other(a: Any, b: Any, x: Any) -> None:
    if x > 0:
        b[0] = x
    if x > 1:
        a[0] = x


def adds_in_a_loop(a: Any, b: Any, x: Any) -> None:
    a += x
    while x > 0:
        b += x
        x -= 1


def writes_through_a_view(a: Any, b: Any, x: Any) -> None:
    view = a[1:]
    if x > 0:
        view[0] = x
    b[0] = 1
    if x > 1:
        b[:] = view[0]


def writes_from_outside_first(a: Any, b: Any, x: Any) -> None:
    held[0] = x
    if x > 0:
        a[0] = x


def writes_to_either(a: Any, b: Any, x: Any) -> Any:
    b[1] = x
    chosen = a if x > 0 else b
    if x > 1:
        chosen[2] = x
    return chosen.sum()


def returns_either(a: Any, b: Any, x: Any) -> Any:
    b[1] = x
    return a if x > 0 else a * 2


def returns_it_unwritten(a: Any, b: Any, x: Any) -> Any:
    return a if x > 0 else a * 2


FUNCTIONS = [writes_two, writes_one_then_the_other, adds_in_a_loop, writes_through_a_view, writes_from_outside_first, writes_to_either,
             returns_either, returns_it_unwritten]


def check(fun: Any, calls: tuple[float, ...], backend: str) -> None:
    compiled = aj.compile(fun, backend=backend)
    for x in calls:
        contents = []
        for each in (fun, compiled):
            held[:] = 0
            a, b = np.arange(3.0), np.ones(3)
            contents.append((each(a, b, x), a, b, held.copy()))
        for now, then in zip(*contents, strict=True):
            assert np.array_equal(now, then) if isinstance(now, np.ndarray) else now == then, (calls, x)


@pytest.mark.parametrize("fun", FUNCTIONS, ids=lambda fun: fun.__name__)
def test_an_array_that_another_way_writes_to_is_written(fun: Any) -> None:
    for calls in ((2.0, -1.0, 0.5), (-1.0, 2.0, -1.0), (0.5, -1.0, 2.0)):
        check(fun, (*calls, 3.0, -2.0), "interpret")


@pytest.mark.parametrize("backend", ["native", "numba"])
def test_backends_write_it(backend: str) -> None:
    check(writes_two, (1.0, -1.0, 4.0), backend)


def test_arrays_in_a_dict_are_written() -> None:
    @aj.compile
    def fun(arrays: Any, x: Any) -> None:
        arrays["a"][0] = x
        if x > 0:
            arrays["b"][0] = x

    for x in (1.0, -1.0, 4.0):
        arrays = {"a": np.zeros(1), "b": np.zeros(1)}
        fun(arrays, x)
        assert (arrays["a"], arrays["b"]) == (x, max(x, 0.0))
