"""`python -m adjit cache`: contents of the disk cache of compiled programs, and a command to empty it."""

from __future__ import annotations

import argparse
import time

from adjit.runtime import settings
from adjit.runtime.caches.disk_cache import DiskCache
from adjit.runtime.reports.memory_blocks import format_bytes

_PERIODS = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"))


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `cache` to the command line."""
    parser = commands.add_parser("cache", help="the disk cache of compiled programs", description=__doc__)
    parser.add_argument("--clear", action="store_true", help="remove every entry (programs that are loaded keep running)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print folder, entries and bytes, and the reason if the folder is not used, or empty it. Status 1: it is not usable."""
    cache = DiskCache(settings.CACHE_DIR.get(), settings.CACHE_SIZE.get())
    problem = cache.problem()
    if problem:
        print(problem)
        return 1
    entries = cache.entries()
    size = format_bytes(sum(size for _, size, _ in entries))
    if options.clear:
        for _, _, path in entries:
            path.unlink(missing_ok=True)
        print(f"removed {len(entries)} entries, {size}, from {cache.folder}")
        return 0
    print(f"folder   {cache.folder} ({settings.CACHE_DIR.variable})")
    print(f"entries  {len(entries)}, {size} of at most {format_bytes(cache.limit)} ({settings.CACHE_SIZE.variable})")
    if entries:
        now = time.time()
        print(f"used     last {_ago(now - entries[-1][0])}; the oldest {_ago(now - entries[0][0])}, which is removed first")
    return 0


def _ago(seconds: float) -> str:
    """Format a time span for people.

    >>> _ago(30), _ago(7200)
    ('a moment ago', '2 hours ago')
    """
    for length, name in _PERIODS:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {name} ago"
    return "a moment ago"
