"""Ctrl-C at any moment: what was under way is undone, and what comes next works."""

from __future__ import annotations

import gc
import inspect
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.compiler_threads import wait_for_compilers

import adjit as aj
from adjit.codegen.process import off_main_thread as aside_module
from adjit.codegen.process.fork_safety import _guard, llvmlite_lock
from adjit.codegen.process.off_main_thread import check_cancelled, off_main_thread, release_off_main_thread
from adjit.ir.emitter import emitters
from adjit.runtime import compile_graph
from adjit.runtime.caches.disk_cache import compiler_versions
from adjit.runtime.native.code import native_is_supported
from adjit.tracer.scope import active_scope, open_traces
from adjit.tracer.trace import trace_function


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Processes that a shell runs in the background ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_work_is_another_threads_where_it_would_be_the_main_ones() -> None:
    idents = []
    work = off_main_thread(lambda: idents.append(threading.get_ident()))
    work()
    thread = threading.Thread(target=lambda: (work(), idents.append(threading.get_ident())))
    thread.start()
    thread.join()
    assert idents[0] != threading.main_thread().ident
    assert idents[1] == idents[2] == thread.ident


def test_what_work_gives_and_raises_comes_back() -> None:
    """It finds NumPy's settings of its caller, and keeps nothing."""
    class Thing:
        pass

    made: list[weakref.ref[Thing]] = []

    @off_main_thread
    def work(x: float, y: float = 0) -> float:
        thing = Thing()
        made.append(weakref.ref(thing))
        return float(np.divide(x, y))

    with np.errstate(divide="ignore"):
        assert work(1) == np.inf
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero") as info:
        work(1, y=0)
    assert "work" in [entry.name for entry in info.traceback]
    assert [thing() for thing in made] == [None, None]      # not even within the traceback


def press_once(begun: threading.Event) -> None:
    """Ctrl-C, a moment after something has begun."""
    def press_soon() -> None:
        begun.wait()
        time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press_soon).start()


def test_who_waits_can_be_interrupted_at_once() -> None:
    begun, may_end, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait()
        done.set()

    press_once(begun)
    with pytest.raises(KeyboardInterrupt):
        off_main_thread(work)()
    assert _guard.active        # it is still at work, and forks wait for it
    assert not done.is_set()
    may_end.set()
    assert done.wait(10)
    wait_for_compilers()
    assert not _guard.active


def test_who_waits_hears_what_does_not_wake_it() -> None:
    """A signal that another thread was given, or that came just before the main one slept."""
    pressed, heard = threading.Event(), threading.Event()

    def work() -> bool:
        signal.raise_signal(signal.SIGINT)      # in this thread: the main one sleeps on
        pressed.set()
        return heard.wait(10)

    with pytest.raises(KeyboardInterrupt):
        off_main_thread(work)()
    assert pressed.is_set()
    heard.set()


def test_what_nobody_waits_for_stops_where_it_can() -> None:
    begun, pressed, steps = threading.Event(), threading.Event(), []

    def work() -> None:
        check_cancelled()
        begun.set()
        pressed.wait()
        steps.append("under way")
        check_cancelled()
        steps.append("next")

    press_once(begun)
    with pytest.raises(KeyboardInterrupt):
        off_main_thread(work)()
    pressed.set()
    wait_for_compilers()
    assert steps == ["under way"]
    begun.clear()
    steps.clear()
    off_main_thread(work)()
    assert steps == ["under way", "next"]
    check_cancelled()         # for who does not wait for others


@pytest.mark.parametrize("backend", ["native", "numba"])
def test_an_interrupted_compilation_stops_between_two_passes(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    after_pass = compile_graph._after_pass

    def interrupted_after(overlapped: Any, on_pass: Any, step: str, graph: Any) -> None:
        done.append(step)
        if len(done) == 3:
            (task,) = aside_module._running.values()
            os.kill(os.getpid(), signal.SIGINT)
            while not task.is_cancelled:
                time.sleep(0.001)
        after_pass(overlapped, on_pass, step, graph)

    monkeypatch.setattr(compile_graph, "_after_pass", interrupted_after)
    monkeypatch.setenv("ADJIT_CACHE_SIZE", "0")
    with pytest.raises(KeyboardInterrupt):
        aj.compile(lambda x: np.sin(x) * 5.5, backend=backend)(np.ones(4))
    wait_for_compilers()
    assert len(done) == 3


def test_who_is_within_a_call_of_llvmlite_does_it_alone() -> None:
    """As in a destructor that such a call runs: another thread would wait for the lock for ever."""
    compiler_versions()
    lock = llvmlite_lock()
    with lock:
        assert off_main_thread(threading.get_ident)() == threading.get_ident()
    assert off_main_thread(threading.get_ident)() != threading.get_ident()


def test_without_a_thread_to_be_had_it_is_done_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("_thread.start_new_thread", refuse)
    assert off_main_thread(threading.get_ident)() == threading.get_ident()


def test_what_is_let_go_ends_in_another_thread() -> None:
    class Library:
        def __del__(self) -> None:
            ended.append(threading.get_ident())

    class Kernel:
        pass

    ended: list[int] = []
    kernel = Kernel()
    release_off_main_thread(kernel, Library())
    off_main_thread(gc.collect)()
    assert ended == []
    del kernel
    assert ended == []
    off_main_thread(int)()
    limit = time.monotonic() + 10
    while not ended and time.monotonic() < limit:       # the thread lets go of it after its work
        time.sleep(0.001)
    assert len(ended) == 1
    assert ended != [threading.get_ident()]


@pytest.mark.skipif(not native_is_supported(), reason="native programs are for CPython on Linux on x86-64")
@pytest.mark.parametrize("backend", ["native", "numba"])
def test_the_main_thread_takes_no_step_in_llvmlite(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A press in the midst of its lock, while programs are compiled and freed, would leave it locked."""
    monkeypatch.setenv("ADJIT_CACHE_SIZE", "0")
    came = []

    def press_within(frame: Any, kind: str, argument: Any) -> Any:
        if frame.f_globals.get("__name__", "").partition(".")[0] in ("llvmlite", "numba"):
            came.append(frame.f_code.co_qualname)
            raise KeyboardInterrupt
        return press_within

    def compile_and_free(k: float) -> None:
        function = aj.compile(lambda x: np.sin(x) * k @ x.T, backend=backend)
        function(np.ones((3, 3)))
        del function
        gc.collect()

    compile_and_free(2.5)
    sys.settrace(press_within)
    try:
        for k in range(3, 6 if backend == "native" else 4):
            compile_and_free(k + 0.5)
    finally:
        sys.settrace(None)
    assert came == []
    free = off_main_thread(lambda: llvmlite_lock().acquire(timeout=10) and (llvmlite_lock().release() or True))
    assert free()


def test_while_a_program_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was begun is finished, and what comes next works."""
    finished: list[int] = []
    compile = compile_graph._compile
    monkeypatch.setattr(compile_graph, "_compile", lambda *a: press() or finished.append(compile(*a)) or finished[0])
    function = aj.compile(lambda x: np.sin(x) * 3)
    with pytest.raises(KeyboardInterrupt):
        function(np.ones(4))
    wait_for_compilers()
    assert len(finished) == 1
    monkeypatch.undo()
    np.testing.assert_allclose(function(np.ones(4)), np.sin(np.ones(4)) * 3)
    wait_for_compilers()
    assert not _guard.active


def interrupted_at(event: int, x: np.ndarray) -> bool:
    """Trace a function, with an interrupt at so many calls and returns; whether there were as many.

    Python drops what is raised within what it calls by itself, when objects end: then the trace goes on to its end.
    """
    left = event

    def count(frame: Any, kind: str, argument: Any) -> None:
        nonlocal left
        if kind == "c_call":        # between a block that has a lock and the call that gives it back, Python delivers nothing
            return
        if kind == "return" and frame.f_code.co_flags & inspect.CO_GENERATOR:       # nor where a generator yields: it would never end
            return
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    try:
        sys.setprofile(count)
        trace(x)
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return left <= 0


def trace(x: np.ndarray) -> None:
    trace_function(aj.value_and_grad(lambda x: aj.cond(x[0] > 0, np.sin, np.cos, x).sum() + OUTSIDE), (x,), {})


OUTSIDE = np.ones(())


def test_anywhere_in_a_trace() -> None:
    """As Python delivers it: after any call, and at the beginning of any function; but not within what the collector frees of others, nor
    within imports, whose locks would stay locked: Python's are not made for this."""
    x = np.ones(3)
    event = 0
    trace(x)        # imports what it needs
    gc.collect()
    gc.disable()
    try:
        while True:
            event += 1 + event // 30        # at every one of the first, which enter
            came = interrupted_at(event, x)
            assert active_scope() is None, event
            assert emitters() == [], event
            assert open_traces.value == 0, event
            assert not _guard.active, event
            if not came:
                break
    finally:
        gc.enable()
    assert event > 300
