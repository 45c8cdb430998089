"""The disk cache of kernels: round trip, damage, permissions, eviction, and a second process that needs no compiler."""

from __future__ import annotations

import gc
import os
import shutil
import stat
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from llvmlite import binding

from adjit.codegen.llvm.link import CompiledObject
from adjit.runtime.caches import cache_size, disk_cache
from adjit.runtime.caches.disk_cache import DiskCache, Lookup
from adjit.runtime.compile_function import compile
from adjit.runtime.compiled import CompiledFunction

KEY, OTHER = "a" * 64, "b" * 64
COMPILED = CompiledObject(bytes(range(256)) * 4, "entry")


@pytest.fixture(autouse=True)
def numba_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend that has kernels one by one."""
    monkeypatch.setenv("ADJIT_BACKEND", "numba")


def cube(x):
    return x * x * x


needs_posix = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "deep" / "adjit", 1 << 20)


def only_file(cache: DiskCache) -> Path:
    ((_, _, path),) = cache.entries()
    return path


def test_round_trip(cache: DiskCache) -> None:
    assert cache.get(KEY).found is None
    assert cache.get(KEY).note == "not in the disk cache"
    assert cache.put(KEY, COMPILED) == ""
    assert cache.get(KEY).found == COMPILED
    assert cache.get(KEY).note == "from the disk cache"
    assert cache.get(OTHER).found is None


@needs_posix
def test_private_to_the_user(cache: DiskCache) -> None:
    mask = os.umask(0)
    try:
        cache.put(KEY, COMPILED)
    finally:
        os.umask(mask)
    assert cache.folder is not None
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(cache).stat().st_mode) == 0o600
    assert stat.S_IMODE((cache.folder / cache_size.NAME).stat().st_mode) == 0o600
    # nothing half written is left:
    assert sorted(path.name for path in cache.folder.iterdir()) == [cache_size.NAME, only_file(cache).name]


@pytest.mark.parametrize("position", [0, 20, 85, 120, -1])
def test_a_flipped_bit_is_noticed(cache: DiskCache, position: int) -> None:
    cache.put(KEY, COMPILED)
    content = bytearray(only_file(cache).read_bytes())
    content[position] ^= 1
    only_file(cache).write_bytes(content)
    assert cache.get(KEY).found is None
    assert cache.get(KEY).note == "its file in the disk cache is damaged"


@pytest.mark.parametrize("length", [0, 10, 90, 500])
def test_a_cut_file_is_noticed(cache: DiskCache, length: int) -> None:
    cache.put(KEY, COMPILED)
    only_file(cache).write_bytes(only_file(cache).read_bytes()[:length])
    assert cache.get(KEY).note == "its file in the disk cache is damaged"


def test_a_file_under_another_name_is_noticed(cache: DiskCache) -> None:
    cache.put(KEY, COMPILED)
    path = only_file(cache)
    path.rename(path.with_name(path.name.replace(KEY, OTHER)))
    assert cache.get(OTHER).note == "its file in the disk cache is damaged"


def test_a_damaged_file_is_replaced(cache: DiskCache) -> None:
    cache.put(KEY, COMPILED)
    only_file(cache).write_bytes(b"nonsense")
    assert cache.put(KEY, COMPILED) == ""
    assert cache.get(KEY).found == COMPILED


@needs_posix
@pytest.mark.parametrize("header", [
    b"", b"nonsense", b"[]", b"{}", b"null", b"[" * 100_000, b'{"key": 1, "symbol": "entry", "data": "", "sizes": [4]}',
    *(b'{"key": "%s", "symbol": %s, "data": %s, "sizes": %s}' % (KEY.encode(), *rest) for rest in (
        (b"null", b'""', b"[4]"), (b'"entry"', b"1", b"[4]"), (b'"entry"', b'""', b"4"), (b'"entry"', b'""', b"[]"),
        (b'"entry"', b'""', b"[-1, 5]"), (b'"entry"', b'""', b"[5]"), (b'"entry"', b'""', b'["4"]')))])
def test_nonsense_with_its_right_digest_is_not_understood(header: bytes, cache: DiskCache) -> None:
    """Whoever may write the folder may have code run; but what is not understood is compiled anew, without a word of Python's."""
    cache.put(KEY, COMPILED)
    body = header + b"\ncode"
    only_file(cache).write_bytes(disk_cache._MAGIC + disk_cache.sha256(body).encode() + b"\n" + body)
    assert cache.get(KEY) == Lookup(None, "its file in the disk cache is damaged")


@pytest.mark.parametrize("found", [
    CompiledObject(b"", "entry"), CompiledObject(b"nonsense", "entry"), CompiledObject(b"\x7fELF" + bytes(60), "entry")])
def test_code_that_cannot_be_linked_is_compiled_anew(found: CompiledObject, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADJIT_CACHE_DIR", str(tmp_path / "adjit"))
    disk_cache._loaded.clear()
    compile(cube)(np.ones(3))
    gc.collect()
    for file in (tmp_path / "adjit").glob("*.kernel"):
        disk_cache.disk_cache().put(file.stem, found)
    disk_cache._loaded.clear()
    third = compile(cube)
    assert third(np.full(3, 2.0)).tolist() == [8, 8, 8]
    assert origins(third) == ["compiled: its file in the disk cache has code that cannot be linked"]
    disk_cache._loaded.clear()
    fourth = compile(cube)
    fourth(np.ones(3))
    assert origins(fourth) == ["from the disk cache"]       # what was there is replaced


def test_a_tally_of_gigabytes_is_not_read(cache: DiskCache) -> None:
    cache.put(KEY, COMPILED)
    assert cache.folder is not None
    with open(cache.folder / cache_size.NAME, "r+b") as file:
        file.truncate(1 << 31)
    begin = time.monotonic()
    cache.put(OTHER, COMPILED)
    assert time.monotonic() - begin < 1
    assert (cache.folder / cache_size.NAME).stat().st_size == 8


def test_a_file_that_others_may_write_is_not_trusted(cache: DiskCache) -> None:
    cache.put(KEY, COMPILED)
    only_file(cache).chmod(0o620)
    assert cache.get(KEY).found is None
    assert cache.get(KEY).note == "its file in the disk cache may be written by others"


@needs_posix
def test_a_file_of_another_user_is_not_trusted(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(KEY, COMPILED)
    user, folder = os.getuid(), cache.folder
    assert folder is not None
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    assert "belongs to another user" in cache.get(KEY).note
    assert "belongs to another user" in cache.put(OTHER, COMPILED)
    monkeypatch.setattr(DiskCache, "problem", lambda self: "")      # the folder is fine, the file is not
    assert cache.get(KEY).note == "its file in the disk cache belongs to another user"


@needs_posix
def test_a_link_is_not_followed(cache: DiskCache, tmp_path: Path) -> None:
    cache.put(KEY, COMPILED)
    path = only_file(cache)
    target = tmp_path / "elsewhere"
    path.rename(target)
    path.symlink_to(target)
    assert cache.get(KEY).found is None
    assert "cannot be read" in cache.get(KEY).note


@needs_posix
def test_a_folder_that_others_may_write_is_not_used(cache: DiskCache) -> None:
    cache.put(KEY, COMPILED)
    assert cache.folder is not None
    cache.folder.chmod(0o770)
    assert cache.get(KEY).found is None
    assert "may be written by others" in cache.get(KEY).note
    assert "may be written by others" in cache.put(OTHER, COMPILED)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = DiskCache(tmp_path / "file" / "adjit", 1 << 20)
    assert "cannot be used" in cache.get(KEY).note
    assert "cannot be used" in cache.put(KEY, COMPILED)


@needs_posix
@pytest.mark.skipif(os.name == "posix" and os.getuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_cannot_be_written(cache: DiskCache) -> None:
    cache.put(KEY, COMPILED)
    assert cache.folder is not None
    cache.folder.chmod(0o500)
    try:
        assert "cannot be written" in cache.put(OTHER, COMPILED)
        assert cache.get(KEY).found == COMPILED
    finally:
        cache.folder.chmod(0o700)


def test_a_write_that_fails_leaves_nothing(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    assert "No space left on device" in cache.put(KEY, COMPILED)
    assert cache.folder is not None
    assert list(cache.folder.iterdir()) == []


def test_no_folder_or_no_room() -> None:
    assert DiskCache(None, 1 << 20).put(KEY, COMPILED) == "the disk cache is off"
    assert DiskCache(Path("unused"), 0).get(KEY).note == "the disk cache is off"
    assert not Path("unused").exists()


def test_the_oldest_use_goes_first(tmp_path: Path) -> None:
    probe = DiskCache(tmp_path / "probe", 1 << 20)
    probe.put(KEY, COMPILED)
    size = only_file(probe).stat().st_size
    cache = DiskCache(tmp_path / "adjit", 3 * size)
    keys = [str(i) * 64 for i in range(5)]
    for age, key in enumerate(keys[:3]):
        cache.put(key, COMPILED)
        past = time.time() - 1000 + age
        os.utime(cache._path(key), (past, past))
    cache.get(keys[0])                       # used now: no longer the oldest
    for key in keys[3:]:
        cache.put(key, COMPILED)
    assert [key for key in keys if cache.get(key).found] == [keys[0], *keys[3:]]
    assert sum(size for _, size, _ in cache.entries()) <= cache.limit


def test_one_larger_than_the_limit_is_kept_until_the_next(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "adjit", 10)
    cache.put(KEY, COMPILED)
    assert cache.get(KEY).found == COMPILED
    cache.put(OTHER, COMPILED)
    assert cache.get(KEY).found is None


LOOK = """
import sys
from pathlib import Path
from adjit.codegen.llvm.link import CompiledObject
from adjit.runtime.caches.disk_cache import DiskCache, Lookup
looks = []
LISTINGS = ("os.scandir", "os.listdir")
sys.addaudithook(lambda event, given: looks.append(event) if event in LISTINGS and str(given[0]) == sys.argv[1] else None)
cache = DiskCache(Path(sys.argv[1]), int(sys.argv[2]))
for number in map(int, sys.argv[3:]):
    assert cache.put(f"{number:064}", CompiledObject(bytes(1000), "entry")) == ""
print(len(looks))
"""


def looks(folder: Path, limit: int, *numbers: int) -> int:
    """How often a new process looks at all files of the folder when it writes these entries."""
    done = subprocess.run([sys.executable, "-c", LOOK, str(folder), str(limit), *map(str, numbers)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_process_does_not_look_at_the_whole_folder(tmp_path: Path) -> None:
    folder = tmp_path / "adjit"
    assert looks(folder, 1 << 20, 1, 2) == 1                # nobody has counted yet
    for number in range(3, 6):
        assert looks(folder, 1 << 20, number, number + 100) == 0
    cache = DiskCache(folder, 1 << 20)
    assert len(cache.entries()) == 8
    total = sum(size for _, size, _ in cache.entries())
    assert looks(folder, total + 100, 7) == 1               # too much: the oldest go
    assert total - total // 8 - 1200 <= sum(size for _, size, _ in cache.entries()) <= total + 100
    assert looks(folder, total + 100, 7) == 0
    (folder / cache_size.NAME).unlink()
    assert looks(folder, 1 << 20, 8, 9) == 1
    shutil.rmtree(folder)
    assert looks(folder, 1 << 20, 8, 9) == 1
    assert len(cache.entries()) == 2


@pytest.mark.parametrize("content", [b"", b"half", bytes(8 * 5 + 3)])
def test_a_damaged_tally_is_written_anew(content: bytes, cache: DiskCache) -> None:
    cache.put(KEY, COMPILED)
    assert cache.folder is not None
    tally = cache.folder / cache_size.NAME
    tally.write_bytes(content)
    cache.put(OTHER, COMPILED)
    assert struct.unpack("<q", tally.read_bytes()) == (sum(size for _, size, _ in cache.entries()),)


def test_a_tally_that_cannot_be_kept(cache: DiskCache) -> None:
    assert cache.folder is not None
    (cache.folder / cache_size.NAME).mkdir(parents=True)
    cache.folder.chmod(0o700)
    assert cache.put(KEY, COMPILED) == ""
    assert cache.put(OTHER, COMPILED) == ""
    assert [path.name for path in cache.folder.glob(f"{cache_size.PARTIAL_PREFIX}*")] == []


def test_a_folder_is_looked_at_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others wrote past the tally, or it missed, counts as soon as the folder is looked at."""
    monkeypatch.setattr(cache_size, "WRITES_PER_SCAN", 64)
    found: list[int] = []
    begin = cache_size.begin
    monkeypatch.setattr(cache_size, "begin", lambda folder, nbytes: found.append(nbytes) or begin(folder, nbytes))
    cache = DiskCache(tmp_path / "adjit", 1 << 20)
    for number in range(1 + 64):
        DiskCache(cache.folder, cache.limit).put(f"{number:064}", COMPILED)
    assert len(found) == 2
    assert found[-1] == sum(size for _, size, _ in cache.entries())
    small = DiskCache(cache.folder, 5000)
    small.put(OTHER, COMPILED)
    assert sum(size for _, size, _ in small.entries()) <= small.limit


def test_leftovers_of_processes_that_died_are_swept(cache: DiskCache) -> None:
    cache.put(KEY, COMPILED)
    assert cache.folder is not None
    (cache.folder / cache_size.NAME).unlink()
    for name, age in ((".new-old", 7200), (".new-young", 10)):
        (cache.folder / name).write_bytes(b"half")
        os.utime(cache.folder / name, (time.time() - age,) * 2)
    cache.put(OTHER, COMPILED)
    assert not (cache.folder / ".new-old").exists()
    assert (cache.folder / ".new-young").exists()


def test_the_key_holds_what_machine_code_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    text = disk_cache.environment()
    for word in ("numba", "llvmlite", f"Python {sys.version_info.major}.{sys.version_info.minor}"):
        assert word in text
    assert binding.get_host_cpu_name() in text
    disk_cache.environment.cache_clear()
    try:
        monkeypatch.setenv("NUMBA_OPT", "1")
        assert disk_cache.environment() != text
    finally:
        disk_cache.environment.cache_clear()


def test_kernels_of_other_types_have_other_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    function = compile(cube)
    function(np.ones(3, np.int16))      # what is common to all programs is there from now on
    monkeypatch.setenv("ADJIT_CACHE_DIR", str(tmp_path))
    for dtype in (np.float32, np.float64, np.int32):
        assert function(np.full(3, 2, dtype)).tolist() == [8, 8, 8]
    assert len(list(tmp_path.glob("*.kernel"))) == 3


def origins(function: CompiledFunction) -> list[str]:
    assert function._cache.last is not None
    return [kernel.origin for kernel in function._cache.last.kernels.values()]


def test_loaded_code_is_shared_and_goes_with_its_last_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADJIT_CACHE_DIR", str(tmp_path / "adjit"))
    disk_cache._loaded.clear()
    first, second = compile(cube), compile(cube)
    first(np.ones(3))
    first(np.ones(4))                   # another size, the same text
    second(np.ones(3))
    assert origins(first) == origins(second) == ["already loaded"]
    assert len([code for code in disk_cache._loaded.values() if code()]) == 1
    del first, second
    gc.collect()
    assert not any(code() for code in disk_cache._loaded.values())
    third = compile(cube)
    third(np.ones(3))
    assert origins(third) == ["from the disk cache"]


def test_without_a_usable_folder_everything_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ADJIT_CACHE_DIR", str(tmp_path / "file" / "adjit"))
    disk_cache._loaded.clear()
    function = compile(cube)
    assert function(np.full(3, 2.0)).tolist() == [8, 8, 8]
    assert f"compiled: the cache folder {tmp_path / 'file' / 'adjit'} cannot be used" in function.explain()
    monkeypatch.setenv("ADJIT_CACHE_DIR", str(tmp_path / "fine"))
    monkeypatch.setenv("ADJIT_CACHE_SIZE", "0")
    disk_cache._loaded.clear()
    function = compile(cube)
    function(np.ones(3))
    assert origins(function) == ["compiled: the disk cache is off"]
    assert not (tmp_path / "fine").exists()


PROGRAM = textwrap.dedent("""
    import sys
    import numpy as np
    from adjit.runtime.compile_function import compile

    @compile
    def f(x):
        return np.tanh(x * 2.0) + 1.0

    print(f(np.arange(4.0)).tolist())
    print("numba" in sys.modules)
    print(f.explain())
""")


def run_program(folder: Path) -> list[str]:
    environment = {**os.environ, "ADJIT_CACHE_DIR": str(folder)}
    found = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return found.stdout.split("\n", 2)


def test_a_second_process_needs_no_compiler(tmp_path: Path) -> None:
    folder = tmp_path / "adjit"
    first, imported, explained = run_program(folder)
    assert imported == "True"
    assert "compiled: not in the disk cache" in explained
    second, imported, explained = run_program(folder)
    assert second == first
    assert imported == "False"
    assert "from the disk cache" in explained
    for path in folder.glob("*.kernel"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    third, imported, explained = run_program(folder)
    assert third == first
    assert imported == "True"
    assert "its file in the disk cache is damaged" in explained
    assert run_program(folder)[1] == "False"
