"""Threads of adjit's that make what later calls use: until they have ended they allocate, take processor time and switch the collector."""

from __future__ import annotations

import threading


def wait_for_compilers() -> None:
    """Until none is at work."""
    for thread in threading.enumerate():
        if thread.name.startswith("adjit compiler"):
            thread.join()
