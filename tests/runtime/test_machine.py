"""What passes are told of the processor: from the files with which Linux describes caches."""

from __future__ import annotations

from pathlib import Path

import pytest

from adjit.runtime.machine import DEFAULT_CACHE_BYTES, MAX_CACHE_BYTES, core_cache_bytes

KB = 1 << 10


@pytest.mark.parametrize(("second", "third", "expected"), [
    (("512K", "0"), ("32768K", "0-15"), MAX_CACHE_BYTES),
    (("512K", "0"), ("8192K", "0-7"), 1536 * KB),
    (("1024K", "0,32"), ("36608K", "0-25,32-57"), 512 * KB + 36608 * KB // 52),
    (("2048K", "0-1"), None, 1024 * KB),
    (("4M", "0"), None, MAX_CACHE_BYTES),
    (None, ("32768K", "0"), DEFAULT_CACHE_BYTES),
    (("", "0"), None, DEFAULT_CACHE_BYTES),
    (("512K", ""), None, DEFAULT_CACHE_BYTES),
    (("many", "0"), None, DEFAULT_CACHE_BYTES)])
def test_caches_count_by_what_a_core_has_of_them(tmp_path: Path, second: tuple[str, str] | None, third: tuple[str, str] | None,
                                                 expected: int) -> None:
    for level, cache in ((2, second), (3, third)):
        if cache is not None:
            folder = tmp_path / f"index{level}"
            folder.mkdir()
            (folder / "size").write_text(cache[0] + "\n")
            (folder / "shared_cpu_list").write_text(cache[1] + "\n")
    assert core_cache_bytes(tmp_path) == expected
