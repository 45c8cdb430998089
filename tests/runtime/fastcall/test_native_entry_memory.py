"""Calls that go straight to machine code: their memory and references, in several threads and after a fork."""

from __future__ import annotations

import collections
import gc
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.native_calls import V, X, hot, needs_entry, runs_natively, transpose

import adjit
from adjit.codegen.fastcall.block_pool import MIN_HUGE_PAGE_BYTES
from adjit.runtime.fastcall.descriptors import BLOCK_BYTES

pytestmark = needs_entry

OFFSET = np.array([1.0, 2.0, 3.0])


def test_an_index_out_of_range_is_an_error_of_the_users_line() -> None:
    def function(x, i):
        return x[i], x.T

    good, bad = np.array([1, 0]), np.array([0, 5])
    function_ = hot(function, X, good)
    cold = adjit.compile(function, backend="native")
    with pytest.raises(IndexError) as wanted:
        cold(X, bad)
    text = str(wanted.value)
    assert "test_native_entry_memory.py" in text
    del wanted
    gc.collect()
    references = sys.getrefcount(X), sys.getrefcount(bad)
    for _ in range(100):
        with pytest.raises(IndexError) as error:
            function_(X, bad)
        assert str(error.value) == text
    del error
    gc.collect()
    assert abs(sys.getrefcount(X) - references[0]) < 5
    assert abs(sys.getrefcount(bad) - references[1]) < 5
    np.testing.assert_array_equal(function_(X, good)[0], X[good])


def test_large_results_lie_in_blocks_that_are_used_again() -> None:
    n = int((BLOCK_BYTES / 8) ** 0.5) + 1
    x = np.arange(float(n * n)).reshape(n, n)
    function = hot(transpose, x)
    first = function(x)
    assert first.ctypes.data % 64 == 0
    assert first.flags.writeable
    assert first.flags.c_contiguous
    np.testing.assert_array_equal(first, x.T)
    view, place = first[1:], first.ctypes.data
    del first
    second = function(x)
    assert second.ctypes.data != place      # a view of the first still lives
    second[:] = 0
    np.testing.assert_array_equal(view, x.T[1:])
    del view
    places = set()
    for _ in range(20):
        places.add(function(x).ctypes.data)
    assert places == {place}


@pytest.mark.skipif(not os.path.exists("/sys/kernel/mm/transparent_hugepage/enabled"), reason="the system has no huge pages to give")
@pytest.mark.parametrize(("nbytes", "asks"), [(MIN_HUGE_PAGE_BYTES, True), (MIN_HUGE_PAGE_BYTES // 2, False)])
def test_large_blocks_ask_for_huge_pages(nbytes: int, asks: bool) -> None:
    x = np.ones((64, nbytes // 8 // 64))
    place = hot(transpose, x)(x).ctypes.data
    mapping = ""
    with open("/proc/self/smaps") as maps:
        for line in maps:
            start, dash, rest = line.partition("-")
            if dash and " " in rest and ":" not in start:
                mapping = line if int(start, 16) <= place < int(rest.split()[0], 16) else ""
            elif mapping and line.startswith("VmFlags:"):
                assert (" hg" in line) == asks
                return
    pytest.fail("no mapping has the result")


def test_the_pool_gives_back_what_is_too_much() -> None:
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    x = np.ones((1024, 1024))
    function = hot(transpose, x)
    gc.collect()
    before = resident()
    results = [function(x) for _ in range(60)]      # 500 MB
    assert resident() - before > 400 << 20
    del results
    gc.collect()
    assert resident() - before < 300 << 20


KINDS: dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]] = {
    "arrays": lambda: (lambda x, y: (x.T, y + OFFSET), (X, V), {}),
    "scalars": lambda: (lambda x, w, s: {"a": x.T * w, "s": s + w}, (X, 1234.5, np.float64(77.25)), {}),
    "tree": lambda: (lambda tree, *, k: [tree["a"].T, (None, tree["b"][0] + k), "text"], ({"a": X, "b": [V, None]},), {"k": OFFSET}),
    "static": lambda: (lambda x, n, name: (x.T * n, name), (X, 123456789, "a long name that is not interned"), {}),
    "one": lambda: (transpose, (X,), {}),
    "long": lambda: (lambda x, y: x @ y @ x, (np.ones((200, 200)), np.ones((200, 200))), {}),
    "dataclass": lambda: (lambda x: collections.OrderedDict(a=x.T), (X,), {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_reference_is_lost_or_kept(kind: str) -> None:
    fun, args, kwargs = KINDS[kind]()
    function = hot(fun, *args, **kwargs)
    result = function(*args, **kwargs)
    leaves = [*args, *kwargs.values(), *(args[0].values() if isinstance(args[0], dict) else ()), np.dtype("f8"), OFFSET, fun, function,
              function._cache.last.record, "text", *(result if isinstance(result, (dict, list, tuple)) else [result])]
    del result
    gc.collect()        # what other tests have left goes now
    tracked = len(gc.get_objects())
    before = [sys.getrefcount(leaf) for leaf in leaves]
    calls, others = (200, 5) if kind == "long" else (30_000, 300)       # words are everybody's
    for _ in range(calls):
        function(*args, **kwargs)
    after = [sys.getrefcount(leaf) for leaf in leaves]
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < others, list(zip(leaves, before, after, strict=True))
    assert abs(len(gc.get_objects()) - tracked) < 100


@pytest.mark.slow
def test_a_million_calls_leave_nothing_behind() -> None:
    state, x = {"a": np.eye(3), "b": np.zeros(3)}, np.eye(3)
    function = hot(adjit.compile(lambda state, x, n: ({"a": state["a"] @ x, "b": state["b"]}, x.T, n), backend="native", donate="state"),
                   state, x, "static")
    leaves = [state, x, state["a"], state["b"], "static", None, np.dtype("f8")]
    gc.collect()
    before = [sys.getrefcount(leaf) for leaf in leaves]
    blocks = sys.getallocatedblocks()
    for _ in range(1_000_000):
        function(state, x, "static")
    assert all(abs(sys.getrefcount(leaf) - count) < 100 for leaf, count in zip(leaves, before, strict=True))
    assert abs(sys.getallocatedblocks() - blocks) < 10_000      # other threads are told which tests come next


def test_eight_threads_at_once() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 90, 90))
    function = adjit.compile(lambda tree, w: {"p": tree["x"] @ tree["y"] @ tree["x"], "t": tree["x"].T, "s": w * 2.0}, backend="native")
    wanted = x @ y @ x
    wrong: list[Any] = []
    stop = threading.Event()

    def work(number: int) -> None:
        try:
            for round_ in range(200):
                scale = float(number * 1000 + round_)
                found = function({"x": x * 1.0, "y": y}, scale)
                if not (np.allclose(found["p"], wanted, rtol=1e-9, atol=1e-8) and (found["t"] == x.T).all() and found["s"] == scale * 2):
                    wrong.append((number, round_))
        except BaseException as error:
            wrong.append(error)

    def disturb() -> None:
        while not stop.wait(0.002):
            function.clear_cache()
            function({"x": x, "y": y}, 1.0)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    disturber = threading.Thread(target=disturb)
    for thread in (*threads, disturber):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    disturber.join()
    assert wrong == []


def test_arguments_that_another_thread_drops_meanwhile() -> None:
    x = np.random.default_rng(0).standard_normal((300, 300))
    function = hot(lambda tree: tree["x"] @ tree["x"] @ tree["x"], {"x": x})
    wanted = function({"x": x})
    tree = {"x": x.copy()}
    stop = threading.Event()

    def drop() -> None:
        while not stop.is_set():
            tree["x"] = x.copy()

    thread = threading.Thread(target=drop)
    thread.start()
    try:
        for _ in range(100):
            np.testing.assert_array_equal(function(tree), wanted)
    finally:
        stop.set()
        thread.join()


def test_a_fork_while_threads_are_in_calls() -> None:
    x = np.random.default_rng(0).standard_normal((200, 200))
    function = hot(lambda x: x @ x @ x, x)
    wanted = function(x)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            function(x)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                fine = all((function(x) == wanted).all() for _ in range(3)) and runs_natively(function, x)
                os._exit(0 if fine else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


