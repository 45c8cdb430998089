"""The cache of programs: hits, traces, the least recently used goes first, and why a call was traced anew."""

from __future__ import annotations

import enum
import gc
import warnings
import weakref
from collections.abc import Callable

import numpy as np
import pytest

from adjit import grad, scan
from adjit.runtime.caches.program_cache import CacheInfo
from adjit.runtime.compile_function import compile
from adjit.runtime.compiled import CompiledFunction


def double(x, flag=True):
    return x + x if flag else x


def reason(function: CompiledFunction) -> str:
    (line,) = [line for line in function.explain().splitlines() if line.startswith("traced because: ")]
    return line.removeprefix("traced because: ")


def test_hits_and_traces() -> None:
    function = compile(double)
    assert function.cache_info() == CacheInfo(0, 0, 0, 128)
    function(np.ones(3))
    function(np.zeros(3))
    function(np.ones(4))
    function(np.ones(3))
    assert function.cache_info() == CacheInfo(hits=2, traces=2, size=2, limit=128)
    function.clear_cache()
    assert function.cache_info() == CacheInfo(0, 0, 0, 128)
    assert function(np.ones(3)).tolist() == [2, 2, 2]


def test_reports_are_no_hits() -> None:
    function = compile(double)
    function.ir("traced", np.ones(3))
    function.ir("traced", np.ones(3))
    function.explain()
    assert function.cache_info() == CacheInfo(0, 1, 1, 128)


def test_the_least_recently_used_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_SIGNATURES", "2")
    function = compile(double)
    a, b, c = (np.ones(n) for n in (1, 2, 3))
    for x in (a, b, a, c):        # c takes the place of b
        function(x)
    assert function.cache_info() == CacheInfo(1, 3, 2, 2)
    function(a)
    assert function.cache_info() == CacheInfo(2, 3, 2, 2)
    function(b)
    assert function.cache_info() == CacheInfo(2, 4, 2, 2)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@pytest.mark.parametrize(("first", "second", "pieces"), [
    (({"w": np.ones(3)},), ({"w": np.ones(4)},), ("x['w']", "f64[3]", "f64[4]")),
    ((np.ones(3),), (np.ones(3, np.float32),), ("x", "f64[3]", "f32[3]")),
    ((np.ones(3), True), (np.ones(3), False), ("flag", "True", "False")),
    ((np.ones(3), Color.RED), (np.ones(3), Color.BLUE), ("flag", "RED", "BLUE")),
])
def test_why_it_was_traced_anew(first: tuple, second: tuple, pieces: tuple[str, ...]) -> None:
    function = compile(lambda x, flag=True: 1.0)
    function(*first)
    assert reason(function) == "first call"
    function(*second)
    for piece in pieces:
        assert piece in reason(function)
    function(*first)
    assert reason(function) == "first call"         # the report is on the program of the last call


def test_a_program_that_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_SIGNATURES", "1")
    function = compile(double)
    for n in (1, 2, 1):
        function(np.ones(n))
    assert "x" in reason(function)
    assert "f64[1]" in reason(function)


weights = np.ones(2)


def test_a_global_bound_anew() -> None:
    global weights
    function = compile(lambda x: x * weights)
    assert function(np.ones(2)).tolist() == [1, 1]
    weights[...] = 2.0
    assert function(np.ones(2)).tolist() == [2, 2]
    assert function.cache_info().traces == 1
    weights = np.full(2, 3.0)
    assert function(np.ones(2)).tolist() == [3, 3]
    assert function.cache_info() == CacheInfo(2, 1, 1, 128)      # the same program, another array
    weights = np.full((2, 2), 4.0)
    assert function(np.ones(2)).tolist() == [[4, 4], [4, 4]]
    assert function.cache_info() == CacheInfo(2, 2, 1, 128)     # the first one is of an array that is gone
    assert reason(function) == "weights was bound to an array of another shape or dtype"


rate = 0.0


def test_a_global_number_that_changed() -> None:
    global rate
    rate = 2.0
    function = compile(lambda x: x * rate)
    assert function(np.ones(2)).tolist() == [2, 2]
    rate = 3.0
    assert function(np.ones(2)).tolist() == [3, 3]
    assert reason(function) == "rate changed from 2.0 to 3.0"


def test_a_failed_trace_is_not_kept() -> None:
    @compile
    def function(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        function(np.ones(2))
    assert function.cache_info() == CacheInfo(0, 0, 0, 128)


def halved(x: np.ndarray) -> np.ndarray:
    while np.sum(x) > 1:
        x = x / 2
    return x


@pytest.mark.parametrize("fun", [double, halved, grad(lambda x: np.sum(x * x)), lambda x: scan(lambda c, x: (c + x, c), 0.0, x)[1]])
def test_programs_keep_no_arguments_and_go_with_their_function(fun: Callable[[np.ndarray], np.ndarray]) -> None:
    """Without the collector of cycles, which comes at some time only: arrays may be large."""
    function = compile(fun)
    x = np.ones(2)
    argument = weakref.ref(x)
    gc.disable()
    try:
        function(x)
        del x
        assert argument() is None
    finally:
        gc.enable()
    program = weakref.ref(function._cache.last)
    del function
    gc.collect()
    assert program() is None


def test_many_traces_are_warned_about_once_by_name() -> None:
    global rate
    function = compile(lambda x: x * rate, backend="interpret")
    x = np.ones(2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(40):
            rate = 1.0 / (step + 1)
            function(x)
    (warning,) = caught
    text = str(warning.message)
    assert "was traced 16 times" in text
    assert "rate changed from" in text
    assert "test_cache_info.py" in text
    assert "argument" in text


def test_another_layout_or_overlap_is_a_reason():
    flat, added = compile(np.ravel), compile(lambda x, y: x.__iadd__(y))
    flat(np.ones((3, 3)))
    flat(np.ones((3, 3), order="F"))
    assert "order in memory" in reason(flat)
    x = np.ones(3)
    added(np.ones(3), x)
    added(x, x)
    assert "parts of the same memory" in reason(added)


def test_a_decision_of_a_program_with_branches_is_a_reason():
    def stepped(a, b, c):
        if a > 0.0:
            a = a + 1.0
        while a < c:
            a = a + 1.0
            if b > a:
                b = b - 2.0
        return a * b if c > 3.0 else a

    compiled = compile(stepped)
    for a in (-3.0, 1.0, 4.0):
        for b in (-2.0, 5.0):
            for c in (1.0, 4.0, 7.0):
                assert compiled(a, b, c) == stepped(a, b, c)
                assert "first call" in reason(compiled) or "the truth value" in reason(compiled)
