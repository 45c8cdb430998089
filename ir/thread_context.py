"""Context of a thread: the emitter of its ops, the traces under way, and their notes.

    thread.context.scopes

The context is one object, so that it can be set aside in one assignment, which no signal handler or finalizer can interrupt. Code that the
interpreter runs in the midst of a trace, and that is no part of the trace, needs this.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class ThreadContext:
    """Stacks, whose last entry is the innermost: `emitters`, `scopes` of traces, `captures` of tensors. `wrapping` is the wrapper for
    bodies of loops, `order` the number of derivative rules that are being traced one within the other, `calls` the traces of functions with
    such rules, `rules_met` the number of calls of them, `batched_regions` the regions of the graph that is being batched. `device` is the
    one that a function is traced for. `row_probe` notes uses of the number of rows (`tracer/row_count.py`). `silently` calls a function
    with NumPy's floating-point warnings off; None before its first use.
    """

    __slots__ = ("batched_regions", "calls", "captures", "device", "emitters", "order", "row_probe", "rules_met", "scopes", "silently",
                 "wrapping")

    def __init__(self) -> None:
        self.emitters: list[Any] = []
        self.scopes: list[Any] = []
        self.captures: list[Any] = []
        self.device = "cpu"
        self.wrapping: Any = None
        self.silently: Callable[..., Any] | None = None
        self.order = 0
        self.rules_met = 0
        self.calls: dict[Any, Any] | None = None
        self.batched_regions: dict[Any, Any] | None = None
        self.row_probe: Any = None


class _ThreadLocal(threading.local):
    def __init__(self) -> None:
        self.context = ThreadContext()


thread = _ThreadLocal()
"""Context of the current thread, as `thread.context`."""


def run_detached(work: Callable[[], T]) -> T:
    """Result of `work`, run with an empty context of this thread; the old context is restored afterwards.

    >>> thread.context.scopes.append("a trace")
    >>> run_detached(lambda: thread.context.scopes)
    []
    >>> thread.context.scopes.pop()
    'a trace'
    """
    before = thread.context
    try:
        thread.context = ThreadContext()
        return work()
    finally:
        thread.context = before
