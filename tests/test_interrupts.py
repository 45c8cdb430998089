"""Ctrl-C at any moment: what was under way is undone, and what comes next works."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from compiler_threads import wait_for_compilers

import adjit as aj
from adjit.codegen.forks import _guard
from adjit.codegen.interrupts import no_interrupt
from adjit.ir.emitter import emitters
from adjit.runtime import compile_graph
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


def test_it_waits_for_the_end_of_the_block() -> None:
    handler = signal.getsignal(signal.SIGINT)
    done = []

    def work() -> None:
        with no_interrupt():
            press()
            with no_interrupt():
                done.append(1)
            done.append(2)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1, 2]
    assert signal.getsignal(signal.SIGINT) is handler


def test_the_second_one_does_not_wait() -> None:
    handler = signal.getsignal(signal.SIGINT)
    done = []

    def work() -> None:
        with no_interrupt():
            press()
            done.append(1)
            press()
            done.append(2)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is handler


def test_other_threads_and_other_handlers() -> None:
    seen: list[Any] = []

    def work() -> None:
        with no_interrupt():
            seen.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with no_interrupt():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            press()
        signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
        with no_interrupt():
            press()
            assert seen == [before]
        assert seen == [before, signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_while_a_program_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is finished; the next call has it."""
    finished: list[int] = []
    compile = compile_graph._compile
    monkeypatch.setattr(compile_graph, "_compile", lambda *a: press() or finished.append(1) or compile(*a))
    function = aj.compile(lambda x: np.sin(x) * 3)
    with pytest.raises(KeyboardInterrupt):
        function(np.ones(4))
    assert finished == [1]
    monkeypatch.undo()
    np.testing.assert_allclose(function(np.ones(4)), np.sin(np.ones(4)) * 3)
    wait_for_compilers()
    assert not _guard.inside


def interrupted_at(event: int, x: np.ndarray) -> bool:
    """Trace a function, with an interrupt at so many calls and returns; whether there were as many.

    Python drops what is raised within what it calls by itself, when objects end: then the trace goes on to its end.
    """
    left = event

    def count(frame: Any, kind: str, argument: Any) -> None:
        nonlocal left
        if kind == "c_call":        # between a block that has a lock and the call that gives it back, Python delivers nothing
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
            event += 1 + event // 60        # at every one of the first, which enter
            came = interrupted_at(event, x)
            assert active_scope() is None, event
            assert emitters() == [], event
            assert open_traces.value == 0, event
            assert not _guard.inside, event
            if not came:
                break
    finally:
        gc.enable()
    assert event > 300
