"""Forks wait until no other thread compiles: what one had locked, in LLVM or of ours, would stay locked in the child for ever.

    with no_fork():
        ...     # what takes locks, for long

    self._lock = own_in_children(self, "_lock", threading.Lock)     # one that is held for moments

There is no lock in here that Ctrl-C could leave locked: who is inside is a dictionary to which each thread writes what is its own, and who
has to wait (a slow path) polls. Dekker handshake: a thread registers as inside before it reads who forks; a forking thread registers as
forking before it reads who is inside. At least one of the two sees the other.
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
"""Seconds that a fork waits: whoever has not come out by then may be waiting for the thread that forks."""

POLL_S = 0.001
"""Seconds between two looks."""


class _Guard:
    """Who is inside, with the number of blocks, and which threads fork."""

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
"""Objects with locks that other threads may hold when one forks, and how each is made anew."""

_guard = _Guard()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_guard.before_fork, after_in_parent=_guard.after_in_parent, after_in_child=_guard.after_in_child)


def no_fork() -> AbstractContextManager[None]:
    """Within the block, forks of other threads wait for its end, for at most some seconds."""
    return _entered(_guard.active)


def no_fork_for(starter: int) -> AbstractContextManager[None]:
    """A `no_fork` block for a thread that was started by another one within such a block: it goes in at once, unless that one has left.

    A thread that asked for itself would wait for a fork that waits for the one that started it, and may in turn wait for this thread.
    """
    return _entered(_guard.active, starter)


def llvmlite_lock() -> Any:
    """The lock that llvmlite takes around every call, an `RLock`; None where llvmlite is not imported, or is another one."""
    lock = getattr(getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None), "_lock", None)
    return getattr(lock, "_lock", None)


def others_active() -> bool:
    """True if other threads are in such blocks now: something is compiled, or looked for."""
    return not _guard.active.keys() <= {threading.get_ident()}


def renewed_after_fork(owner: Any, name: str, make: Callable[[], Any]) -> Any:
    """What `make` makes, for `owner` to keep as the attribute `name`. In a forked child it is made anew: who held it is not there."""
    _owners.purge()
    _owners.add(owner, (name, make))
    return make()


@contextmanager
def _entered(active: dict[int, int], starter: int = 0) -> Iterator[None]:
    """Be one of those inside, at once where `starter` is. A child that is forked meanwhile has another dictionary."""
    thread = threading.get_ident()
    blocks = active.get(thread, 0)
    try:
        if not blocks:
            _wait(lambda: _try_enter(active, thread, starter))
        active[thread] = blocks + 1
        yield
    finally:
        if blocks and thread in active:     # it is not where Ctrl-C kept this block from ending before those around it
            active[thread] = blocks
        else:
            active.pop(thread, None)


def _try_enter(active: dict[int, int], thread: int, starter: int) -> bool:
    """Go inside, unless another thread forks; also then where that one waits for the `starter` anyway."""
    active[thread] = 1
    if _guard.forking <= {thread} or (starter in active and starter not in _guard.forking):
        return True
    del active[thread]
    return False


def _wait(condition: Callable[[], bool]) -> None:
    """Until it holds, at the most for as long as there is patience."""
    end = time.monotonic() + FORK_TIMEOUT_S
    while not condition() and time.monotonic() < end:
        time.sleep(POLL_S)
