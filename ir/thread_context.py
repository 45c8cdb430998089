"""What is around the code that runs in a thread: the emitter that its ops go to, the traces under way, and what these note of it.

    thread.context.scopes

It is one object, so that it can be set aside in one step, which nothing interrupts: for code that the interpreter runs in the midst of a
trace, and that is no part of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class ThreadContext:
    """Stacks, of which the last is the innermost: `emitters`, `scopes` of traces, `captures` of tensors. `wrapping` is the wrapper for
    bodies of loops, `order` how many derivative rules are being traced one within the other, `calls` what was traced of functions with
    such rules.
    """

    __slots__ = ("calls", "captures", "emitters", "order", "scopes", "wrapping")

    def __init__(self) -> None:
        self.emitters: list[Any] = []
        self.scopes: list[Any] = []
        self.captures: list[Any] = []
        self.wrapping: Any = None
        self.order = 0
        self.calls: dict[Any, Any] | None = None


class _ThreadLocal(threading.local):
    def __init__(self) -> None:
        self.context = ThreadContext()


thread = _ThreadLocal()
"""Of this thread."""


def run_detached(work: Callable[[], T]) -> T:
    """What `work` gives where nothing is under way in this thread; then what was goes on.

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
