"""Python's collector of cycles, held off while a program is compiled: it would walk all that was ever imported, and find nothing."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_holders = 0


@contextmanager
def no_collection() -> Iterator[None]:
    """Within the block no cycles are collected, in any thread; as before when the last of such blocks ends.

    For code of ours that makes many objects that stay. Where the user has switched the collector off, it stays off.

    >>> with no_collection():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    global _holders
    with _lock:
        held = _holders > 0 or gc.isenabled()
        if held:
            _holders += 1
            gc.disable()
    try:
        yield
    finally:
        if held:
            with _lock:
                _holders -= 1
                if not _holders:
                    gc.enable()
