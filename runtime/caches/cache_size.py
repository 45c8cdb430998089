"""How many bytes the cache folder holds, without looking at each of its files: a file in it to which every process adds what it writes.

The file has a number of eight bytes for each entry written since somebody looked at the whole folder, and first what that one found. A
number is added in one write, which systems do not mix with those of others: no locks, and nothing to mend after a process that died. What
is added while another one writes the file anew is lost, which is why the folder is looked at now and then.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path

NAME = ".tally"
PARTIAL_PREFIX = ".new-"
"""With which the names of files begin that are being written."""

WRITES_PER_SCAN = 4096
"""Entries that are written between two looks."""

_NUMBER = struct.Struct("<q")


def add(folder: Path, nbytes: int) -> int | None:
    """The bytes in the folder, with so many that were just written; None where that is not known, and somebody has to look."""
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
    """Write down what was found, so many bytes, for everybody to add to."""
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
