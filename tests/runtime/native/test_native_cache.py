"""Whole native programs in the disk cache: what misses, what is not trusted, and that `explain()` says so."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import adjit as aj
from adjit.codegen.llvm.target import host_targets
from adjit.runtime import compile_graph
from adjit.runtime.native import code as native_code
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="native programs are for CPython on Linux on x86-64")
X = np.linspace(-1, 1, 12).reshape(4, 3)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "cache"
    for name in ("ADJIT_VERIFY", "ADJIT_DUMP", "ADJIT_TARGET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ADJIT_CACHE_DIR", str(place))
    return place


def origin() -> str:
    """What a function that computes the right thing says about where its code came from."""
    function = aj.compile(lambda x: np.tanh(x @ x.T).sum(axis=0), backend="native")
    np.testing.assert_allclose(function(X), np.tanh(X @ X.T).sum(axis=0), rtol=1e-12)
    text = function.explain()
    del function
    gc.collect()        # the code is unloaded
    return text


def test_a_hit_and_a_miss_are_told() -> None:
    assert "compiled: not in the disk cache" in origin()
    assert "from the disk cache, found by the traced graph" in origin()


def test_another_llvm_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    origin()
    for module in (native_code, compile_graph):
        monkeypatch.setattr(module, "compiler", lambda: ("0.1.0", "llvmlite 0.99", "LLVM 99.0.0"))
    assert "compiled: not in the disk cache" in origin()
    monkeypatch.undo()


@pytest.mark.skipif(len(host_targets()) < 2, reason="this processor is of one kind only")
def test_another_processor_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    origin()
    monkeypatch.setenv("ADJIT_TARGET", host_targets()[-1].name)
    assert "compiled: not in the disk cache" in origin()
    assert "from the disk cache" in origin()
    monkeypatch.delenv("ADJIT_TARGET")
    assert "from the disk cache" in origin()


def test_a_folder_that_others_may_write_is_not_trusted(folder: Path) -> None:
    origin()
    folder.chmod(0o775)
    assert "may be written by others" in origin()
    assert "may be written by others" in origin()
    folder.chmod(0o700)
    for path in folder.iterdir():
        path.chmod(0o666)
    assert "may be written by others" in origin()


def test_a_folder_of_another_user_is_not_trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin()
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    assert "belongs to another user" in origin()


def fail_to_replace(number: int) -> Callable[..., None]:
    def replace(source: object, target: object) -> None:
        raise OSError(number, os.strerror(number))
    return replace


@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "No space left"), (errno.EROFS, "Read-only file system")])
def test_without_room_it_works_and_says_so(number: int, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "replace", fail_to_replace(number))
    text = origin()
    assert "cannot be written" in text
    assert words in text
    assert list(folder.iterdir()) == []
