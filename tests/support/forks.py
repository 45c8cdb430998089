"""Work done in a forked child."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable


def in_child(work: Callable[[], bool]) -> int:
    """Return the exit status of a forked child that does `work`; a child that takes long is killed."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
