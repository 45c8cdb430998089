"""Native programs found on disk by the graph that was traced."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.whole_pipeline import replace_passes

import adjit as aj
from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.native import compile_program
from adjit.codegen.native.compile_program import OverlappedCodegen
from adjit.ir.parser import parse
from adjit.passes.options import Options
from adjit.runtime.caches import graph_cache
from adjit.runtime.caches.disk_cache import compiler, disk_cache
from adjit.runtime.caches.graph_cache import program_key
from adjit.runtime.native.code import native_is_supported, native_target

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="native programs are for CPython on Linux on x86-64")
X, W = np.linspace(-1, 1, 12).reshape(4, 3), np.linspace(0, 2, 6).reshape(3, 2)


def function() -> aj.CompiledFunction:
    return aj.compile(lambda x, w: np.tanh(x @ w).sum(axis=0), backend="native")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ADJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("ADJIT_VERIFY", raising=False)
    monkeypatch.delenv("ADJIT_DUMP", raising=False)
    return tmp_path


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done to compile: "passes", "LLVM"."""
    done: list[str] = []
    finish, compile_text = OverlappedCodegen.finish, compile_program.compile_program_text
    run_pipeline = replace_passes(monkeypatch, lambda *args: done.append("passes") or run_pipeline(*args))
    monkeypatch.setattr(OverlappedCodegen, "finish", lambda *args: done.append("LLVM") or finish(*args))
    monkeypatch.setattr(compile_program, "compile_program_text", lambda *args: done.append("LLVM") or compile_text(*args))
    return done


def test_neither_passes_nor_llvm_run_again(work: list[str]) -> None:
    first = function()
    wanted = first(X, W)
    text = first.ir("planned")
    assert work == ["passes", "LLVM"]
    again = function()
    assert again(X, W).tobytes() == wanted.tobytes()
    assert work == ["passes", "LLVM"]
    assert "found by the traced graph" in again.explain()
    assert again.ir("planned").split("{", 1)[1].splitlines()[1:] == text.split("{", 1)[1].splitlines()[1:]
    assert again.kernels() == first.kernels()
    assert work == ["passes", "LLVM", "passes"]         # for the reports
    np.testing.assert_allclose(aj.compile(lambda x, w: np.tanh(x @ w).sum(axis=1), backend="native")(X, W), np.tanh(X @ W).sum(axis=1))
    assert work[3:] == ["passes", "LLVM"]


def test_a_graph_that_moved_in_its_file_needs_no_llvm(work: list[str]) -> None:
    one = aj.compile(lambda x, w: np.sin(x @ w), backend="native")
    other = aj.compile(lambda x, w: np.sin(x @ w), backend="native")
    assert one(X, W).tobytes() == other(X, W).tobytes()
    assert work == ["passes", "LLVM", "passes"]


@pytest.mark.parametrize("harm", ["damage", "loss of code"])
def test_what_is_damaged_is_made_anew(harm: str, folder: Path, work: list[str]) -> None:
    wanted = function()(X, W)
    gc.collect()        # the code is unloaded
    files = sorted(folder.glob("*.kernel"), key=lambda path: path.stat().st_size)
    for path in files if harm == "damage" else files[-1:]:
        if harm == "damage":
            path.write_bytes(path.read_bytes()[:-1] + b"?")
        else:
            path.unlink()
    again = function()
    assert again(X, W).tobytes() == wanted.tobytes()
    assert work == ["passes", "LLVM"] * 2
    assert ("damaged" if harm == "damage" else "not in the disk cache") in again.explain()


@pytest.mark.parametrize("change", [
    lambda data: "", lambda data: "[]", lambda data: "[" * 100_000, lambda data: "{}", lambda data: '{"code": 1, "artifact": ""}',
    lambda data: data.replace('\\"shape\\":[2]', '\\"shape\\":[3]'), lambda data: data.replace("f64", "zz"),
    lambda data: data.replace("f64", "f32"),
    lambda data: data.replace('\\"arena_bytes\\":', '\\"arena_bytes\\":null,\\"more\\":'),
    lambda data: data.replace('"code": "', '"code": "../')])
def test_what_is_not_understood_is_made_anew(change: Callable[[str], str], folder: Path, work: list[str]) -> None:
    """With its right digest, as a program of another form would have."""
    wanted = function()(X, W)
    gc.collect()
    cache = disk_cache()
    keys = [path.stem for path in folder.glob("*.kernel")]
    found = {key: entry for key in keys if (entry := cache.get(key).found) is not None and entry.data}
    assert len(found) == 1
    for key, entry in found.items():
        assert change(entry.data) != entry.data
        cache.put(key, CompiledObject(b"", "", change(entry.data)))
    again = function()
    assert again(X, W).tobytes() == wanted.tobytes()
    assert work == ["passes", "LLVM", "passes"]         # its object code is there


def test_checked_passes_run_always(work: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    function()(X, W)
    monkeypatch.setenv("ADJIT_VERIFY", "1")
    function()(X, W)
    assert work.count("passes") == 2


def test_the_key_covers_what_the_code_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "graph @f(%x: f32[2]) {{\n  %y: f32[2] = {} %x\n  return %y\n}}"
    target = native_target()

    def key(op: str = "exp", passes: str = "HALF", options: Options | None = None) -> str:
        return program_key(parse(text.format(op)), passes, options or Options(), target, compiler())

    plain = key()
    assert key() == plain
    keys = {plain, key("log"), key(passes="PIPELINE"), key(options=Options(3))}
    monkeypatch.setattr(graph_cache, "compiler_source", lambda: "other")
    keys.add(key())
    assert len(keys) == 5


def test_the_second_process_finds_what_the_first_one_made(folder: Path) -> None:
    program = """
import sys
import numpy as np
import adjit as aj

def step(w, x):
    return np.sum(np.tanh(x @ w))

f = aj.compile(aj.value_and_grad(step), backend="native")
value, gradient = f(np.ones((3, 2)), np.ones((4, 3)))
print(value.hex(), gradient.tobytes().hex())
print("numba" in sys.modules, f.explain().count("found by the traced graph"))
"""
    command = [sys.executable, "-c", program]
    found = [subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=True).stdout.split() for _ in range(2)]
    assert found[0][:2] == found[1][:2]
    assert (found[0][2:], found[1][2:]) == (["False", "0"], ["False", "1"])
