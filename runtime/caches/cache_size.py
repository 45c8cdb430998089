"""The running size of the cache folder in bytes, without a scan of its files: a log to which every process appends the bytes it writes.

The file begins with the size that the last scan of the folder found; a number of eight bytes follows for each entry written since. A number
is appended in one write, which systems do not interleave with other writes: no locks, and no repair after a process has died. Numbers that
are appended while another process rewrites the file are lost; so the folder is scanned from time to time.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path

NAME = ".tally"
PARTIAL_PREFIX = ".new-"
"""Prefix of the names of files that are still being written."""

WRITES_PER_SCAN = 4096
"""Entries that are written between two scans of the folder."""

_NUMBER = struct.Struct("<q")


def add(folder: Path, nbytes: int) -> int | None:
    """The size of the folder in bytes, including the `nbytes` just written; None if the log has no answer, and a scan is due."""
    try:
        handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(handle, "r+b", buffering=0) as file:
            file.write(_NUMBER.pack(nbytes))
            file.seek(0)
            content = file.read((WRITES_PER_SCAN + 1) * _NUMBER.size)
    except OSError:
        return None
    count, rest = divmod(len(content), _NUMBER.size)
    if rest or not 1 < count <= WRITES_PER_SCAN:
        return None
    return sum(number for number, in _NUMBER.iter_unpack(content))


def begin(folder: Path, nbytes: int) -> None:
    """Restart the log with the size `nbytes`, found by a scan. All processes append to it."""
    name = folder / f"{PARTIAL_PREFIX}{os.urandom(8).hex()}"
    with suppress(OSError):
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_NUMBER.pack(nbytes))
            os.replace(name, folder / NAME)
        except OSError:
            os.unlink(name)
            raise
