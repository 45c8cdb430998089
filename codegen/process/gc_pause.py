"""Python's collector of cycles, held off while a program is compiled: it would walk all that was ever imported, and find nothing."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_blocks: dict[int, int] = {}
"""Number of blocks that each thread is in."""
_is_first = True
"""True if no block has ended yet."""


@contextmanager
def gc_paused() -> Iterator[None]:
    """Within the block no cycles are collected, in any thread; as before when the last of such blocks ends.

    For code of ours that makes many objects that stay. Where the user has switched the collector off, it stays off.

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
    """Count what the first block made, modules and tables for the most part, among the old objects: the collector would walk through it at
    once, to find that it stays. Once only: who compiles all the time would never have old objects collected."""
    global _is_first
    if _is_first and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
    _is_first = False


def _after_fork() -> None:
    """In a child there are no other threads, whose blocks would never end."""
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
