"""Shorter GIL switch interval, so that threads that spend most of their time in LLVM get the GIL soon when they need it.

A thread that returns from LLVM needs the GIL for some microseconds, to begin with the next module. By default Python lets it wait for five
milliseconds; LLVM compiles a few hundred lines in that time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_INTERVAL_US = 200
"""GIL switch interval within the context, in microseconds."""

_inside: set[object] = set()
_before = round(sys.getswitchinterval() * 1e6)


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Context, for any number of threads, with a GIL switch interval of `SWITCH_INTERVAL_US`."""
    global _before
    thread = object()
    try:
        now, first = _microseconds(), not _inside       # in this order: a thread that has set the short interval is counted as inside
        _inside.add(thread)
        if first or now > SWITCH_INTERVAL_US:
            _before = now
        if now > SWITCH_INTERVAL_US:
            _set(SWITCH_INTERVAL_US)
        yield
    finally:
        _inside.discard(thread)
        if not _inside and _microseconds() == SWITCH_INTERVAL_US:        # otherwise the user has set another interval meanwhile
            _set(_before)


def _microseconds() -> int:
    return round(sys.getswitchinterval() * 1e6)


def _set(microseconds: int) -> None:
    sys.setswitchinterval((microseconds + 0.5) * 1e-6)      # Python rounds down
