"""One compilation for processes that need the same program at the same time: the first compiles, the others wait for its cache entry.

Workers of joblib, Dask or Ray, and ranks of MPI, call the same function within milliseconds of each other. The first one locks a file
beside the entry. A process that dies loses its lock, so nobody waits for it; nobody waits for longer than `MAX_WAIT` seconds in any case.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from adjit.codegen.process.off_main_thread import check_cancelled
from adjit.runtime.caches.cache_size import PARTIAL_PREFIX
from adjit.runtime.caches.disk_cache import disk_cache

try:
    import fcntl
except ImportError:     # Windows
    fcntl = None        # type: ignore[assignment]

MAX_WAIT = 60.0
"""Seconds after which a process compiles, too: the one that it waits for may be stopped."""

_PAUSE = 0.005


@contextmanager
def compile_once(key: str) -> Iterator[None]:
    """Context in which no other process compiles the program `key`: look for it once more within."""
    disk = disk_cache()
    if fcntl is None or disk.problem() or disk.folder is None:
        yield
        return
    path = disk.folder / f"{PARTIAL_PREFIX}{key}.lock"      # of a process that died, it is removed as its other files are
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:         # a folder without write permission
        yield
        return
    try:
        begin, locked = time.monotonic(), False
        while time.monotonic() - begin < MAX_WAIT:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                locked = True
                break
            except BlockingIOError:
                pass
            except OSError:     # a file system without locks
                break
            check_cancelled()
            time.sleep(_PAUSE)
        try:
            yield
        finally:
            if locked:
                with suppress(OSError):
                    os.unlink(path)
    finally:
        os.close(handle)
