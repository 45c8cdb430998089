"""Notice of a first call that takes long, on a terminal: what is compiled, the stage, the line that most ops come from, what would help.

A thread waits beside the call, and says it once, while the call goes on. Where nobody reads (no terminal) there is no thread.
"""

from __future__ import annotations

import _thread
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from adjit.ir.errors import Location
from adjit.ir.graph import Graph, Op
from adjit.ir.thread_context import thread
from adjit.runtime import settings

AFTER_S = 2.0
"""Seconds after which a call says that it takes long."""

MANY_OPS = 500
"""Ops from one line that a loop in Python has probably made."""


class _FirstCall:
    """A call that compiles."""

    def __init__(self, name: str):
        self.name = name
        self.stage = "tracing"
        self.graph: Graph | None = None
        self.context = thread.context       # of the thread that traces
        self.said = False
        self.begin = time.perf_counter()
        self._under_way = _thread.allocate_lock()
        self._under_way.acquire()

    def wait(self) -> None:
        """Say that the call takes long, unless it ends before."""
        if not self._under_way.acquire(timeout=AFTER_S):
            self.said = True
            with suppress(Exception):       # a notice must not disturb the call
                _write(f"adjit: compiling {self.name} takes more than {AFTER_S:.2g} s; {self.describe()}")

    def end(self, how: str) -> None:
        self._under_way.release()
        if self.said:
            with suppress(Exception):
                _write(f"adjit: {self.name} {how} {time.perf_counter() - self.begin:.1f} s")

    def describe(self) -> str:
        ops = self.ops()
        lines = Counter(op.loc for op in ops if op.loc is not None)
        text = f"{self.stage}, {len(ops):,} ops"
        if not lines:
            return f"{text} (Ctrl-C ends it)"
        (location, count), = lines.most_common(1)
        text += f", {count:,} of them from {location} (Ctrl-C ends it)"
        return text + _remedy(location, count)

    def ops(self) -> Sequence[Op]:
        """Ops of the graph, or of the trace so far."""
        if self.graph is not None:
            return list(_all_ops(self.graph))
        found: list[Op] = []
        for scope in list(self.context.scopes):
            found += getattr(scope.builder, "ops", ())
        return found


def _remedy(location: Location, count: int) -> str:
    if count < MANY_OPS:
        return ""
    return (f"\n    {location.source()}\n    A Python loop is traced step by step: aj.scan, aj.fori_loop or whole arrays have fewer ops; "
            "explain() says what was made a loop, and why not")


def _all_ops(graph: Graph) -> Iterator[Op]:
    for op in graph.ops:
        yield op
        for region in op.regions:
            yield from _all_ops(region)


def _write(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


_current: ContextVar[_FirstCall | None] = ContextVar("first call", default=None)


@contextmanager
def long_call_announced(function: Any) -> Iterator[None]:
    """Context of a call that compiles a function: after `AFTER_S` the terminal, if standard error is one, says so, unless `ADJIT_QUIET` is
    set."""
    if sys.stderr is None or not sys.stderr.isatty() or _current.get() is not None or settings.QUIET.get():
        yield
        return
    call = _FirstCall(getattr(function, "__name__", type(function).__name__))
    token, how = _current.set(call), "ended after"
    try:
        with suppress(RuntimeError):        # the system has no thread left
            _thread.start_new_thread(call.wait, ())
        yield
        how = "was compiled in"
    finally:
        _current.reset(token)
        call.end(how)


def begin_stage(stage: str, graph: Graph) -> None:
    """Note the stage that the call under way has reached, and its graph."""
    call = _current.get()
    if call is not None:
        call.stage, call.graph = stage, graph
