"""Threads of adjit that prepare later calls: until they have ended they allocate, take processor time and switch the collector."""

from __future__ import annotations

import threading
import time

from adjit.codegen.process import off_main_thread


def wait_for_compilers() -> None:
    """Wait until no such thread is at work."""
    for thread in threading.enumerate():
        if thread.name.startswith("adjit compiler"):
            thread.join()
    while off_main_thread._running:
        time.sleep(0.001)
