"""Work done in a forked child."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable


def in_child(work: Callable[[], bool]) -> int:
    """The exit status of a forked child that does `work`; it is killed where that takes long."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
