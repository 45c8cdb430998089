"""Exported libraries: C, C++ and Rust programs run them, with the same bits as Python; what they need, refuse and leave alone."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.project import ROOT

import adjit as aj
from adjit.codegen.c_library.description import identifiers
from adjit.runtime.exports import linker
from adjit.runtime.exports.archive import read_archive
from adjit.runtime.native.code import native_is_supported

pytestmark = [pytest.mark.skipif(not native_is_supported(), reason="native programs are for Linux on x86-64"),
              pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")]
EXAMPLE = ROOT / "examples" / "embed_c"
STATUS = {"OK": 0, "NULL_POINTER": 1, "MISALIGNED": 2, "NO_CODE": 3, "INDEX": 4, "DECISION": 5}


def run(*command: object, cwd: Path | None = None, **environment: str) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def power(x, w):
    return np.sum(np.tanh(x @ w) ** 2)


@aj.compile(donate="w")
def descend(w, x, rate):
    value, gradient = aj.value_and_grad(power, argnums=1)(x, w)
    return {"w": w - rate * gradient}, value


@aj.compile(donate="table")
def write_row(table, rows, x):
    return table + np.sum(table[rows] * x)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    return rng.standard_normal((9, 5)), rng.standard_normal((33, 9))


class Library:
    """The library through ctypes, its arrays as NumPy's."""

    def __init__(self, path: Path):
        self.c = ctypes.CDLL(str(path))
        self.prefix = path.stem
        for name, result in (("error", ctypes.c_char_p), ("level", ctypes.c_char_p), ("arena_bytes", ctypes.c_int64)):
            self(name).restype = result
        self.arena = np.zeros(self("arena_bytes")() + 64, np.uint8)

    def __call__(self, name: str):
        return getattr(self.c, f"{self.prefix}_{name}")

    def run(self, inputs: list[np.ndarray | None], outputs: list[np.ndarray | None], shift: int = 0) -> int:
        pointers = [(ctypes.c_void_p * len(group))(*(None if array is None else array.ctypes.data for array in group))
                    for group in (inputs, outputs)]
        start = self.arena.ctypes.data
        return self("run")(*pointers, ctypes.c_void_p(start + -start % 64 + shift))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    path = tmp_path_factory.mktemp("library") / "descend.so"
    w, x = arrays()
    assert [file.name for file in descend.export(path, w, x, 0.1)] == ["descend.so", "descend.h"]
    return Library(path)


def test_the_example_trains_with_the_bits_of_python(tmp_path: Path) -> None:
    folder = tmp_path / "embed_c"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build"))
    printed = run("make", f"PYTHON={sys.executable}", cwd=folder)
    assert "bit by bit" in printed
    losses = (folder / "build" / "losses.txt").read_text().split()
    assert len(losses) == 200
    assert float.fromhex(losses[-1]) < 0.3 * float.fromhex(losses[0])
    # the code for x86-64-v3 against Python with that target
    run(sys.executable, "export.py", "avx2", cwd=folder, ADJIT_TARGET="avx2")
    assert run("./train", ".", "1", cwd=folder / "build") == (folder / "avx2" / "losses.txt").read_text()
    lowest = run("./train", ".", "2", cwd=folder / "build").split()
    np.testing.assert_allclose(list(map(float.fromhex, lowest)), list(map(float.fromhex, losses)), rtol=2e-3)
    # nothing is read or written out of bounds, nothing is lost
    run("cc", "-std=c11", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover", "-I", "build", "-o", "build/checked", "train.c",
        "build/step.so", "-Wl,-rpath,$ORIGIN", cwd=folder)
    assert run("./checked", ".", cwd=folder / "build").split() == losses


def test_a_library_needs_nothing_but_memcpy_and_memset(library: Library, tmp_path: Path) -> None:
    w, x = arrays()
    (path, _) = descend.export(tmp_path / "descend.so", w, x, 0.1)
    symbols = [line.split() for line in run("nm", "-D", path).splitlines()]
    assert {parts[-1].partition("@")[0] for parts in symbols if parts[-2] == "U"} <= {"memcpy", "memset"}
    names = "arena_alignment arena_bytes error init input inputs level output outputs run use"
    assert {parts[-1] for parts in symbols if parts[-2] == "T"} == {f"descend_{name}" for name in names.split()}


@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_level_runs(library: Library, level: int) -> None:
    if library("use")(level) == STATUS["NO_CODE"]:
        pytest.skip("this processor lacks it")
    assert library("level")() == f"x86-64-v{4 - level}".encode()
    w, x = arrays()
    expected, value = descend(w.copy(), x, 0.1)
    out = np.zeros(())
    assert library.run([w, x, np.array(0.1)], [None, out]) == STATUS["OK"]
    np.testing.assert_allclose(w, expected["w"], rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(out, value, rtol=1e-13)


def test_bad_pointers_are_refused(library: Library) -> None:
    w, x = arrays()
    before, out, rate = w.copy(), np.zeros(()), np.array(0.1)
    odd = np.zeros(8 * x.size + 1, np.uint8)[1:].view(np.float64)
    assert library.run([w, None, rate], [None, out]) == STATUS["NULL_POINTER"]
    assert library.run([w, x, rate], [None, None]) == STATUS["NULL_POINTER"]
    assert library.run([w, odd, rate], [None, out]) == STATUS["MISALIGNED"]
    assert library.run([w, x, rate], [None, out], shift=8) == STATUS["MISALIGNED"]
    assert library("run")(None, None, None) == STATUS["NULL_POINTER"]
    assert library("use")(7) == STATUS["NO_CODE"]
    assert np.array_equal(w, before)
    assert library("error")(STATUS["MISALIGNED"]) == b"the working memory, or an array, is not aligned"
    assert library("error")(99) == b"an unknown status"


def test_an_index_out_of_range_is_a_status(tmp_path: Path) -> None:
    table, rows, x = np.arange(12.0).reshape(4, 3), np.array([3, 0]), np.ones((2, 3))
    (path, _) = write_row.export(tmp_path / "rows.so", table, rows, x)
    library, out = Library(path), table.copy()
    assert library.run([out, np.array([3, 4]), x], [None]) == STATUS["INDEX"]
    assert np.array_equal(out, table)
    assert library.run([out, rows, x], [None]) == STATUS["OK"]
    assert np.array_equal(out, table + 33.0)


def test_constants_are_part_of_the_library(tmp_path: Path) -> None:
    offset = np.linspace(-1.0, 1.0, 7)
    (path, header) = aj.compile(lambda x: np.exp(x) + offset).export(tmp_path / "plain.so", np.zeros(7))
    library, out = Library(path), np.zeros(7)
    assert library("inputs")() == 1
    assert library.run([np.zeros(7)], [out]) == STATUS["OK"]
    assert np.array_equal(out, 1.0 + offset)
    assert "PLAIN_INPUT_x_BYTES 56" in header.read_text()


CPP = """
#include <vector>
#include <cstdio>
#include "descend.h"
int main() {
    std::vector<double> w(DESCEND_INPUT_w_ELEMENTS, 0.5), x(DESCEND_INPUT_x_ELEMENTS, 0.25);
    double rate = 0.1, value = 0;
    alignas(64) static unsigned char arena[DESCEND_ARENA_BYTES + 1];
    void *inputs[] = {w.data(), x.data(), &rate}, *outputs[] = {nullptr, &value};
    int status = descend_run(inputs, outputs, arena);
    std::printf("%d %.13a %.13a\\n", status, value, w[0]);
}
"""
RUST = """
use std::ffi::c_void;
extern "C" { fn descend_run(inputs: *const *mut c_void, outputs: *const *mut c_void, arena: *mut c_void) -> i32; }
#[repr(align(64))] struct Arena([u8; ARENA]);
fn main() {
    let (mut w, mut x) = (vec![0.5f64; 45], vec![0.25f64; 297]);
    let (mut rate, mut value, mut arena) = (0.1f64, 0f64, Box::new(Arena([0; ARENA])));
    let inputs = [w.as_mut_ptr() as *mut c_void, x.as_mut_ptr() as *mut c_void, &mut rate as *mut f64 as *mut c_void];
    let outputs = [std::ptr::null_mut(), &mut value as *mut f64 as *mut c_void];
    let status = unsafe { descend_run(inputs.as_ptr(), outputs.as_ptr(), arena.0.as_mut_ptr() as *mut c_void) };
    println!("{} {:x} {:x}", status, value.to_bits(), w[0].to_bits());
}
"""


def expected_of_halves() -> tuple[float, float]:
    new, value = descend(np.full((9, 5), 0.5), np.full((33, 9), 0.25), 0.1)
    return float(value), float(new["w"][0, 0])


@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
def test_from_cpp(tmp_path: Path) -> None:
    w, x = arrays()
    descend.export(tmp_path / "descend.so", w, x, 0.1)
    (tmp_path / "main.cpp").write_text(CPP)
    run("c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-o", "main", "main.cpp", "./descend.so", "-Wl,-rpath,$ORIGIN",
        cwd=tmp_path)
    status, value, new = run("./main", cwd=tmp_path).split()
    assert (int(status), float.fromhex(value), float.fromhex(new)) == (0, *expected_of_halves())


@pytest.mark.skipif(shutil.which("rustc") is None, reason="there is no Rust compiler")
def test_from_rust(tmp_path: Path) -> None:
    w, x = arrays()
    descend.export(tmp_path / "descend.o", w, x, 0.1)
    arena = next(line.split()[-1] for line in (tmp_path / "descend.h").read_text().splitlines() if "ARENA_BYTES" in line)
    (tmp_path / "main.rs").write_text(RUST.replace("ARENA", str(max(int(arena), 64))))
    run("rustc", "-O", "-C", "link-arg=descend.o", "main.rs", cwd=tmp_path)
    status, *bits = run("./main", cwd=tmp_path).split()
    assert (int(status), *(struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0] for text in bits)) == (0, *expected_of_halves())


def test_an_object_file_for_arm(tmp_path: Path) -> None:
    w, x = arrays()
    files = descend.export(tmp_path / "step.o", w, x, 0.1, target="aarch64-linux-gnu")
    content = files[0].read_bytes()
    assert content[:4] == b"\x7fELF"
    assert int.from_bytes(content[18:20], "little") == 183      # EM_AARCH64
    assert files[1].name == "step.h"


@pytest.mark.skipif(not all(map(shutil.which, ("aarch64-linux-gnu-gcc", "qemu-aarch64"))), reason="there is no ARM compiler or emulator")
def test_the_arm_code_runs(tmp_path: Path) -> None:
    w, x = arrays()
    descend.export(tmp_path / "descend.o", w, x, 0.1, target="aarch64-linux-gnu")
    source = CPP.replace("std::vector<double> w(DESCEND_INPUT_w_ELEMENTS, 0.5), x(DESCEND_INPUT_x_ELEMENTS, 0.25);", """
    static double w[DESCEND_INPUT_w_ELEMENTS], x[DESCEND_INPUT_x_ELEMENTS];
    for (double &number : w) number = 0.5;
    for (double &number : x) number = 0.25;""").replace("w.data(), x.data()", "w, x").replace("#include <vector>\n", "")
    (tmp_path / "main.cpp").write_text(source)
    run("aarch64-linux-gnu-gcc", "-static", "-x", "c++", "main.cpp", "-x", "none", "descend.o", "-o", "main", cwd=tmp_path)
    status, value, new = run("qemu-aarch64", "./main", cwd=tmp_path).split()
    np.testing.assert_allclose([int(status), float.fromhex(value), float.fromhex(new)], [0, *expected_of_halves()], rtol=1e-13)


def test_without_a_linker_the_object_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linker, "find_linker", lambda triple="": None)
    w, x = arrays()
    with pytest.raises(aj.errors.ExportError, match=r"needs a linker, and none was found; step\.o and step\.h were written\s+install"):
        descend.export(tmp_path / "step.so", w, x, 0.1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step.h", "step.o"]


@pytest.mark.parametrize(("path", "options", "words"), [
    ("step.zip", {}, "has no suffix that says what to write"),
    ("nowhere/step.so", {}, "there is no folder"),
    ("step.so", {"levels": ["x86-64-v9"]}, "no level x86-64-v9"),
    ("step.so", {"target": "riscv64"}, "cannot export for target='riscv64'"),
    ("step.adjit", {"target": "aarch64-linux-gnu"}, "cannot be loaded by adjit"),
    ("step.so", {"params": "w"}, "params= is for archives"),
    ("step.adjit", {"params": "weights"}, "not an argument of the call"),
])
def test_what_cannot_be_written_is_refused(path: str, options: dict, words: str, tmp_path: Path) -> None:
    w, x = arrays()
    with pytest.raises(aj.errors.ExportError, match=words):
        descend.export(tmp_path / path, w, x, 0.1, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".adjit", ".so", ".o"])
@pytest.mark.parametrize("path", ["/proc/x", "/dev/null/x", "x" * 300, "folder"])
def test_impossible_paths_are_refused(path: str, suffix: str, tmp_path: Path) -> None:
    w, x = arrays()
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises(aj.errors.ExportError):
        descend.export(tmp_path / f"{path}{suffix}", w, x, 0.1)
    assert [file.name for file in tmp_path.iterdir()] == [f"folder{suffix}"]


def test_one_level_may_be_named_alone(tmp_path: Path) -> None:
    aj.compile(lambda x: x * 2).export(tmp_path / "x.adjit", 1.0, levels="x86-64-v3")
    assert read_archive(tmp_path / "x.adjit")[0]["levels"] == ["x86-64-v3"]


def test_names_of_c_are_all_different() -> None:
    assert identifiers(["a.b", "a_b", "a['b']", "int", "9", "größe"]) == ["a_b", "a_b_2", "a_b_3", "int_", "n9", "gr_e"]
