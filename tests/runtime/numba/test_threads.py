"""The pool of threads: every call once, errors, nesting, sleep, fork; and that the bits do not depend on how many threads there are."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from adjit.runtime.numba.kernel_step import split_blocks
from adjit.runtime.numba.threads import ThreadPool


def test_every_call_runs_once_and_on_several_threads() -> None:
    pool = ThreadPool()
    meeting = threading.Barrier(3, timeout=20)      # three calls at the same time, or the test fails
    seen: list[tuple[int, str]] = []

    def work(number: int) -> None:
        if number < 3:
            meeting.wait()
        seen.append((number, threading.current_thread().name))

    pool.run(work, [(i,) for i in range(20)], threads=3)
    assert sorted(number for number, _ in seen) == list(range(20))
    assert len({name for number, name in seen if number < 3}) == 3
    assert pool.workers == 2


@pytest.mark.parametrize(("calls", "threads"), [(1, 8), (5, 1), (0, 4)])
def test_nothing_is_started_without_need(calls: int, threads: int) -> None:
    pool = ThreadPool()
    seen: list[int] = []
    pool.run(seen.append, [(i,) for i in range(calls)], threads)
    assert seen == list(range(calls))
    assert pool.workers == 0


def test_threads_are_started_once() -> None:
    pool = ThreadPool()
    for _ in range(5):
        pool.run(lambda number: None, [(i,) for i in range(4)], threads=2)
    assert pool.workers == 1


@pytest.mark.parametrize("bad", range(6))
def test_an_error_reaches_the_caller_and_the_pool_lives_on(bad: int) -> None:
    pool = ThreadPool()

    def work(number: int) -> None:
        if number == bad:
            raise KeyError(number)

    for _ in range(3):
        with pytest.raises(KeyError):
            pool.run(work, [(i,) for i in range(6)], threads=3)
    seen: list[int] = []
    pool.run(seen.append, [(i,) for i in range(6)], threads=3)
    assert sorted(seen) == list(range(6))


def test_a_call_within_a_call_runs_alone() -> None:
    pool = ThreadPool()
    inner: list[tuple[str, str]] = []

    def work(number: int) -> None:
        outer = threading.current_thread().name
        pool.run(lambda i: inner.append((outer, threading.current_thread().name)), [(0,), (1,)], threads=2)

    pool.run(work, [(i,) for i in range(4)], threads=2)
    assert len(inner) == 8
    assert all(outer == thread for outer, thread in inner)


def test_callers_at_the_same_time() -> None:
    pool = ThreadPool()
    counts = [0] * 4

    def call(number: int) -> None:
        for _ in range(50):
            pool.run(lambda i: counts.__setitem__(number, counts[number] + 1) if i == 0 else None, [(0,), (1,), (2,)], threads=3)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [50] * 4


def test_idle_threads_sleep() -> None:
    pool = ThreadPool()
    pool.run(lambda number: None, [(i,) for i in range(4)], threads=4)
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_the_pool_survives_a_fork() -> None:
    pool = ThreadPool()
    pool.run(lambda number: None, [(i,) for i in range(4)], threads=3)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        meeting, seen = threading.Barrier(2, timeout=10), []

        def work(number: int) -> None:
            meeting.wait()
            seen.append(number)

        try:
            pool.run(work, [(0,), (1,)], threads=2)
            os._exit(0 if sorted(seen) == [0, 1] else 1)
        except BaseException:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    seen: list[int] = []
    pool.run(seen.append, [(i,) for i in range(4)], threads=3)
    assert sorted(seen) == [0, 1, 2, 3]


@pytest.mark.parametrize("blocks", [0, 1, 2, 7, 1000])
@pytest.mark.parametrize("threads", [1, 2, 16])
def test_blocks_are_covered(blocks: int, threads: int) -> None:
    ranges = split_blocks(blocks, threads)
    assert [i for low, high in ranges for i in range(low, high)] == list(range(blocks))
    assert all(low < high for low, high in ranges) or blocks == 0
    assert (len(ranges) == 1) == (threads == 1 or blocks <= 1)


def test_a_thread_that_wakes_up_late_is_not_waited_for() -> None:
    class Elsewhere:
        def help(self) -> None:
            gate.wait(10)

    pool, gate, seen = ThreadPool(), threading.Event(), []
    pool.run(seen.append, [(0,), (1,)], 2)
    pool._jobs.put(Elsewhere())  # type: ignore[arg-type]
    try:
        pool.run(seen.append, [(2,), (3,)], 2)
        assert sorted(seen) == [0, 1, 2, 3]
        assert not gate.is_set()
    finally:
        gate.set()
