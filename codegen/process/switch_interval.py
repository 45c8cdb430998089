"""Threads that wait for LLVM for the most part get the interpreter's lock soon when they need it.

A thread that comes back from LLVM needs the lock for some microseconds, to begin with the next module. Python lets it wait for five
milliseconds, as long as LLVM takes for a few hundred lines.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_INTERVAL_US = 200
"""Microseconds."""

_inside: set[object] = set()
_before = round(sys.getswitchinterval() * 1e6)


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Within the block, which several threads may be in, the lock changes hands after a fifth of a millisecond."""
    global _before
    thread = object()
    try:
        now, first = _microseconds(), not _inside       # in this order: if another thread has made it short, that one is inside
        _inside.add(thread)
        if first or now > SWITCH_INTERVAL_US:
            _before = now
        if now > SWITCH_INTERVAL_US:
            _set(SWITCH_INTERVAL_US)
        yield
    finally:
        _inside.discard(thread)
        if not _inside and _microseconds() == SWITCH_INTERVAL_US:        # else somebody else has chosen what they want meanwhile
            _set(_before)


def _microseconds() -> int:
    return round(sys.getswitchinterval() * 1e6)


def _set(microseconds: int) -> None:
    sys.setswitchinterval((microseconds + 0.5) * 1e-6)      # Python rounds down
