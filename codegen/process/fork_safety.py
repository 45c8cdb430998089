"""Fork safety. A fork waits until no other thread compiles: a lock held by such a thread, LLVM's or ours, would stay locked in the child.

    with no_fork():
        ...     # code that holds locks for long

    self._lock = renewed_after_fork(self, "_lock", threading.Lock)      # a lock that is held briefly

This module takes no lock, since Ctrl-C could leave it locked. Active threads are a dictionary, in which each thread writes its own entry
only, and a thread that has to wait (the slow path) polls. Dekker handshake: a thread registers as active before it reads which threads
fork; a forking thread registers as forking before it reads which threads are active. At least one of the two sees the other.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from adjit.codegen.process.weak_registry import WeakRegistry

FORK_TIMEOUT_S = 10.0
"""Seconds that a fork waits at most: a thread that is still active by then may be waiting for the forking thread."""

POLL_S = 0.001
"""Seconds between two polls."""


class _Guard:
    """Active threads, each with its number of nested blocks, and the threads that fork."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.active: dict[int, int] = {}
        self.forking: set[int] = set()
        self.held_lock: Any = None

    def before_fork(self) -> None:
        self.forking.add(threading.get_ident())
        _wait(lambda: not others_active())
        lock = llvmlite_lock()
        if lock is not None and lock.acquire(timeout=FORK_TIMEOUT_S):
            self.held_lock = lock

    def after_in_parent(self) -> None:
        lock, self.held_lock = self.held_lock, None
        if lock is not None:
            lock.release()
        self.forking.discard(threading.get_ident())

    def after_in_child(self) -> None:
        lock = self.held_lock
        self.renew()
        for owner, (name, make) in _owners.live_items():
            object.__setattr__(owner, name, make())
        if lock is not None:
            lock.release()


_owners: WeakRegistry[tuple[str, Callable[[], Any]]] = WeakRegistry()
"""Objects with locks that other threads may hold during a fork, and functions that renew the locks."""

_guard = _Guard()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_guard.before_fork, after_in_parent=_guard.after_in_parent, after_in_child=_guard.after_in_child)


def no_fork() -> AbstractContextManager[None]:
    """Context in which a fork by another thread waits for the end of the context, for some seconds at most."""
    return _entered(_guard.active)


def no_fork_for(starter: int) -> AbstractContextManager[None]:
    """A `no_fork` context for a thread that was started within the `no_fork` context of the thread `starter`. The thread enters at once,
    unless `starter` has left its context.

    With `no_fork` alone the thread could deadlock: it would wait for a fork, the fork for `starter`, and `starter` for this thread.
    """
    return _entered(_guard.active, starter)


def llvmlite_lock() -> Any:
    """The `RLock` that llvmlite takes around every call; None if llvmlite is not imported, or has no such lock."""
    lock = getattr(getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None), "_lock", None)
    return getattr(lock, "_lock", None)


def others_active() -> bool:
    """True if other threads are in a `no_fork` context now, to compile or to search the cache."""
    return not _guard.active.keys() <= {threading.get_ident()}


def renewed_after_fork(owner: Any, name: str, make: Callable[[], Any]) -> Any:
    """The result of `make()`, which `owner` stores as the attribute `name`. A forked child calls `make` again: the thread that held the
    lock does not exist there."""
    _owners.purge()
    _owners.add(owner, (name, make))
    return make()


@contextmanager
def _entered(active: dict[int, int], starter: int = 0) -> Iterator[None]:
    """Register this thread as active, at once if `starter` is active. A child that is forked meanwhile has a new dictionary."""
    thread = threading.get_ident()
    blocks = active.get(thread, 0)
    try:
        if not blocks:
            _wait(lambda: _try_enter(active, thread, starter))
        active[thread] = blocks + 1
        yield
    finally:
        if blocks and thread in active:     # absent if Ctrl-C kept this block from ending before the blocks around it
            active[thread] = blocks
        else:
            active.pop(thread, None)


def _try_enter(active: dict[int, int], thread: int, starter: int) -> bool:
    """Register as active, unless another thread forks. If that fork waits for `starter` anyway, register too."""
    active[thread] = 1
    if _guard.forking <= {thread} or (starter in active and starter not in _guard.forking):
        return True
    del active[thread]
    return False


def _wait(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds, for `FORK_TIMEOUT_S` at most."""
    end = time.monotonic() + FORK_TIMEOUT_S
    while not condition() and time.monotonic() < end:
        time.sleep(POLL_S)
