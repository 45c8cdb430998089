"""The disk cache under several processes: filling it at once, killed in the middle of a write, a disk that takes no more."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from adjit.codegen.llvm.link import CompiledObject
from adjit.runtime.caches import cache_size
from adjit.runtime.caches.disk_cache import DiskCache

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX")

HEAD = """
import sys
from pathlib import Path
from adjit.codegen.llvm.link import CompiledObject
from adjit.runtime.caches.disk_cache import DiskCache, sha256
cache = DiskCache(Path(sys.argv[1]), 64 << 20)
def compiled(number):
    return CompiledObject(bytes([number % 251]) * 300_000, "entry")
def key(number):
    return sha256(str(number).encode())
"""


def start(script: str, folder: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", HEAD + textwrap.dedent(script), str(folder), *map(str, arguments)],
                            stdout=subprocess.PIPE, text=True)


def unfinished(folder: Path) -> list[Path]:
    return list(folder.glob(".new-*"))


def test_processes_that_fill_it_at_once(tmp_path: Path) -> None:
    """Each finds nothing, or exactly what belongs to the key, whoever wrote it; nothing is left half written."""
    folder = tmp_path / "adjit"
    processes = [start("""
        for round in range(3):
            for number in range(20):
                found = cache.get(key(number))
                assert found.found in (None, compiled(number)), found.note
                assert found.found is not None or found.note == "not in the disk cache", found.note
                assert cache.put(key(number), compiled(number)) == ""
        """, folder) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert len(DiskCache(folder, 64 << 20).entries()) == 20
    assert unfinished(folder) == []


def test_what_processes_write_at_once_is_counted(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "adjit", 64 << 20)
    cache.put("a" * 64, CompiledObject(b"code", "entry"))
    processes = [start("""
        for number in range(60):
            assert cache.put(key((sys.argv[2], number)), CompiledObject(bytes(number), "entry")) == ""
        """, tmp_path / "adjit", name) for name in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4
    entries = cache.entries()
    assert len(entries) == 4 * 60 + 1
    assert cache_size.add(tmp_path / "adjit", 0) == sum(size for _, size, _ in entries)


def test_killed_in_the_middle_of_a_write(tmp_path: Path) -> None:
    """What a killed process leaves is never read as an entry, and is swept later."""
    folder, kills = tmp_path / "adjit", 6
    random.seed(5)
    for _ in range(kills):
        process = start("""
            print("ready", flush=True)
            for number in range(10**9):
                cache.put(key(number % 8), compiled(number % 8))
            """, folder)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(random.uniform(0.005, 0.05))
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
        process.stdout.close()
    check = start("""
        for number in range(8):
            found = cache.get(key(number))
            assert found.found == compiled(number) if found.found else found.note == "not in the disk cache", found.note
        """, folder)
    assert check.wait(60) == 0
    for path in unfinished(folder):
        os.utime(path, (1.0, 1.0))
    (folder / cache_size.NAME).unlink()        # somebody has to look
    assert DiskCache(folder, 64 << 20).put("a" * 64, CompiledObject(b"code", "entry")) == ""
    assert unfinished(folder) == []


def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """The write fails with the system's words, nothing is left behind, and what was there stays."""
    folder = tmp_path / "adjit"
    process = start("""
        import resource, signal
        assert cache.put(key(0), CompiledObject(b"small", "entry")) == ""
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        print(cache.put(key(1), compiled(1)))
        assert cache.get(key(0)).found == CompiledObject(b"small", "entry")
        assert cache.get(key(1)).found is None
        """, folder)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "cannot be written" in output
    assert unfinished(folder) == []
