"""Forks wait until no other thread compiles: what one had locked, in LLVM or of ours, would stay locked in the child for ever.

    with no_fork():
        ...     # what takes locks, for long
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from adjit.codegen.interrupts import no_interrupt

PATIENCE = 10.0
"""Seconds that a fork waits: whoever has not come out by then may be waiting for the thread that forks."""


class _Guard:
    """Counts who is inside, thread by thread, and keeps others out while a thread forks."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.changed = threading.Condition()
        self.inside: dict[int, int] = {}
        self.reserved = 0
        self.forking = 0
        self.locked: Any = None

    def enter(self) -> None:
        me = threading.get_ident()
        with self.changed:
            self.changed.wait_for(lambda: not self.forking or me in self.inside, PATIENCE)
            self.inside[me] = self.inside.get(me, 0) + 1

    def reserve(self) -> int:
        with self.changed:
            self.reserved += 1
            self.inside[-self.reserved] = 1     # no thread has a negative number
            return -self.reserved

    def take(self, place: int) -> None:
        me = threading.get_ident()
        with self.changed:
            self.inside.pop(place, None)        # not there in a child that was forked meanwhile
            self.inside[me] = self.inside.get(me, 0) + 1

    def leave(self) -> None:
        me = threading.get_ident()
        with self.changed:
            left = self.inside.get(me, 1) - 1
            if left:
                self.inside[me] = left
            else:
                self.inside.pop(me, None)       # not there in a child that was forked inside
                self.changed.notify_all()

    def before_fork(self) -> None:
        me = threading.get_ident()
        with self.changed:
            self.forking += 1
            self.changed.wait_for(lambda: self.inside.keys() <= {me}, PATIENCE)
        lock = getattr(getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None), "_lock", None)     # of every call of llvmlite's
        lock = getattr(lock, "_lock", None)
        if lock is not None and lock.acquire(timeout=PATIENCE):
            self.locked = lock

    def after_in_parent(self) -> None:
        lock, self.locked = self.locked, None
        if lock is not None:
            lock.release()
        with self.changed:
            self.forking -= 1
            self.changed.notify_all()

    def after_in_child(self) -> None:
        lock = self.locked
        self.renew()
        if lock is not None:
            lock.release()


_guard = _Guard()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_guard.before_fork, after_in_parent=_guard.after_in_parent, after_in_child=_guard.after_in_child)


@contextmanager
def no_fork() -> Iterator[None]:
    """Within the block, forks of other threads wait for its end, for at most some seconds."""
    with no_interrupt():
        _guard.enter()
    try:
        yield
    finally:
        with no_interrupt():
            _guard.leave()


def no_fork_elsewhere() -> AbstractContextManager[None]:
    """A `no_fork` block for a thread that is about to be started, by one within such a block: forks wait from now on.

    A thread that asked for itself would wait for a fork that waits for the one that started it, and may in turn wait for this thread.
    """
    place = _guard.reserve()

    @contextmanager
    def block() -> Iterator[None]:
        _guard.take(place)
        try:
            yield
        finally:
            _guard.leave()
    return block()
