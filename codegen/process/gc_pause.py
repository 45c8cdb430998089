"""Pause of Python's cycle collector while a program is compiled: a collection would walk all imported modules, and free nothing."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_blocks: dict[int, int] = {}
"""Number of nested blocks of each thread."""
_is_first = True
"""True if no block has ended yet."""


@contextmanager
def gc_paused() -> Iterator[None]:
    """Context in which no thread collects cycles. Collection resumes when the last such context ends.

    The context is for code that creates many long-lived objects. A collector that the user has disabled stays disabled.

    >>> with gc_paused():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    me = threading.get_ident()
    with _lock:
        held = bool(_blocks) or gc.isenabled()
        if held:
            _blocks[me] = _blocks.get(me, 0) + 1
            gc.disable()
    try:
        yield
    finally:
        if held:
            with _lock:
                _blocks[me] -= 1
                if not _blocks[me]:
                    del _blocks[me]
                if not _blocks:
                    _freeze_new_objects()
                    gc.enable()


def _freeze_new_objects() -> None:
    """Move the objects that the first block created (modules and tables for the most part) to the oldest generation; the collector would
    walk them at once, and free nothing. This happens only once: a process that compiles all the time would never have old objects
    collected."""
    global _is_first
    if _is_first and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
    _is_first = False


def _after_fork() -> None:
    """Forget all blocks: the threads that would end them do not exist in a forked child."""
    global _lock
    _lock = threading.Lock()
    was_held, own = bool(_blocks), _blocks.get(threading.get_ident())
    _blocks.clear()
    if own:
        _blocks[threading.get_ident()] = own
    elif was_held:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
