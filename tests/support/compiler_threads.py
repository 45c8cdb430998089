"""Threads of adjit's that make what later calls use: until they have ended they allocate, take processor time and switch the collector."""

from __future__ import annotations

import threading
import time

from adjit.codegen import aside


def wait_for_compilers() -> None:
    """Until none is at work."""
    for thread in threading.enumerate():
        if thread.name.startswith("adjit compiler"):
            thread.join()
    while aside._at_work:
        time.sleep(0.001)
