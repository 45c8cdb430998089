"""Ctrl-C waits where it would leave a lock locked for ever: Python raises `KeyboardInterrupt` between any two steps of the main thread,
those in which llvmlite and the standard library take their locks among them.

    with no_interrupt():
        ...     # what takes locks of others
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


class _Waiting:
    """Takes the place of the handler: the first interrupt is noted, the second one goes through."""

    def __init__(self, handler: Handler):
        self.handler = handler
        self.came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            self.handler(number, frame)
        self.came = True


@contextmanager
def no_interrupt() -> Iterator[None]:
    """Within the block, if it is the main thread's, the first Ctrl-C waits for the end; who presses it once more does not wait."""
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(handler) or isinstance(handler, _Waiting):
        yield
        return
    waiting = _Waiting(handler)
    try:
        with suppress(ValueError):      # another interpreter's main thread, which gets no signals
            signal.signal(signal.SIGINT, waiting)
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is waiting:
            signal.signal(signal.SIGINT, handler)
        if waiting.came:
            handler(signal.SIGINT, None)
