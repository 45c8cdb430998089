"""Threads that wait for LLVM for the most part get the interpreter's lock soon when they need it.

A thread that comes back from LLVM needs the lock for some microseconds, to begin with the next module. Python lets it wait for five
milliseconds, as long as LLVM takes for a few hundred lines.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

SHORT = 0.0005
"""Seconds."""

_inside: set[object] = set()
_before = sys.getswitchinterval()


@contextmanager
def short_turns() -> Iterator[None]:
    """Within the block, which several threads may be in, the lock changes hands after half a millisecond."""
    global _before
    me = object()
    now = sys.getswitchinterval()
    if now > SHORT:
        _before = now
        sys.setswitchinterval(SHORT)
    _inside.add(me)
    try:
        yield
    finally:
        _inside.discard(me)
        if not _inside and sys.getswitchinterval() == SHORT:        # else somebody else has chosen what they want meanwhile
            sys.setswitchinterval(_before)
