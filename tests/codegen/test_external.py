"""Functions of other libraries: symbols, addresses, calls from kernels of both backends, one thread for BLAS, errors without SciPy."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.codegen.llvm import blas_threads, external
from adjit.codegen.llvm.builder import Builder
from adjit.codegen.llvm.external import address_of, external_symbol, external_symbols
from adjit.codegen.llvm.link import LoadedKernel, load
from adjit.codegen.llvm.target import host_target, host_targets
from adjit.codegen.native.compile_program import compile_program_text
from adjit.codegen.native.program_code import ENTRY
from adjit.ir import ops
from adjit.ir.builder import trace_graph
from adjit.ir.definition import DEFINITIONS, OpDefinition
from adjit.ir.errors import ExportError, UnsupportedError
from adjit.ir.graph import Graph
from adjit.ir.types import F32, F64, TensorType
from adjit.passes.options import Options
from adjit.runtime import compile_graph

pytest.importorskip("scipy")
pytestmark = pytest.mark.skipif(host_target() is None, reason="no x86-64 process")

GAMMAINC = "scipy.special.cython_special", "gammainc", "dddi"


@pytest.fixture
def gammainc(monkeypatch: pytest.MonkeyPatch) -> OpDefinition:
    """A record like that of `hypot`, computed by SciPy's incomplete gamma function."""
    evaluate = import_module("scipy.special").gammainc
    record = replace(ops.hypot, name="gammainc_in_test", evaluate=evaluate, scalar="gammainc_in_test({0}, {1})", vjp=None,
                     external=GAMMAINC)
    monkeypatch.setitem(DEFINITIONS, record.name, record)
    monkeypatch.setattr(ops, record.name, record, raising=False)
    return record


def graph_of(record: OpDefinition, dtype: np.dtype, size: int) -> Graph:
    type = TensorType(dtype, (size,))
    return trace_graph("f", [type, type], lambda a, b: [ops.multiply(record(a, b), a)])


@pytest.mark.parametrize("backend", ["native", "numba", "interpret"])
@pytest.mark.parametrize("dtype", [F64, F32], ids=str)
def test_kernels_call_the_function_for_each_element(gammainc: OpDefinition, backend: str, dtype: np.dtype) -> None:
    rng = np.random.default_rng(0)
    a, x = (rng.uniform(0.1, 3, 1003).astype(dtype) for _ in range(2))
    compiled = compile_graph.compile_graph(graph_of(gammainc, dtype, 1003), backend, Options(), 1, True)
    (found,) = compiled.executable.run([a, x], [a, x])
    expected = import_module("scipy.special").gammainc(a, x)
    assert found.dtype == expected.dtype == dtype
    np.testing.assert_array_equal(found, expected * a)


def test_graph_is_refused_without_scipy(gammainc: OpDefinition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_graph, "is_installed", lambda name: name != "scipy")
    with pytest.raises(UnsupportedError, match="gammainc_in_test is computed by SciPy, which is not installed"):
        compile_graph.compile_graph(graph_of(gammainc, F64, 3), "native", Options(), 1, False)


def test_code_that_was_made_with_scipy_is_refused_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(external, "extension_module", missing)
    with pytest.raises(UnsupportedError, match=r"dgetrf of scipy\.linalg\.cython_lapack, which cannot be imported"):
        address_of.__wrapped__("adjit_external.scipy.linalg.cython_lapack.dgetrf.vpppppp")


@pytest.mark.parametrize(("symbol", "message"), [
    ("adjit_external.scipy.linalg.cython_lapack.dpotrf.vpppp", "declares as void"),
    ("adjit_external.scipy.linalg.cython_lapack.no_such.vp", "does not have"),
])
def test_other_signatures_are_refused(symbol: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        address_of(symbol)


def test_integers_of_64_bits_are_no_integers_of_lapack() -> None:
    assert external._kinds_of("void (int *, __pyx_t_5scipy_6linalg_13cython_lapack_s *)") == "vpp"
    assert external._kinds_of("void (npy_int64 *, double *)") == ""


def entry_of(text: Builder) -> tuple[LoadedKernel, Any]:
    code = compile_program_text(str(text), host_targets()[0])
    loaded = load(code)
    return loaded, ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(loaded.address)


def test_object_code_says_which_functions_it_needs() -> None:
    text = Builder()
    with text.function(ENTRY, "ptr %n", result="i64", linkage=""):
        text.call("void", external_symbol("scipy.linalg.cython_lapack", "ilaver", "void", ["ptr"] * 3), *[("ptr", "%n")] * 3)
        text.ret("i64", 0)
    code = compile_program_text(str(text), host_targets()[0])
    assert list(external_symbols(code.object_code)) == ["adjit_external.scipy.linalg.cython_lapack.ilaver.vppp"]
    version = ctypes.c_int32()
    loaded = load(code)
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(loaded.address)(ctypes.addressof(version))
    assert 0 <= version.value < 100      # the patch level, written last


@pytest.fixture
def blas() -> Iterator[Any]:
    """Getter and setter of the number of threads of SciPy's OpenBLAS; two threads are set."""
    blas_threads.state_address()
    get_address, set_address = blas_threads._state[3], blas_threads._state[4]
    if not set_address:
        pytest.skip("SciPy has another BLAS than OpenBLAS")
    get, change = ctypes.CFUNCTYPE(ctypes.c_int)(get_address), ctypes.CFUNCTYPE(None, ctypes.c_int)(set_address)
    before = get()
    change(2)
    yield get
    change(before)


def nested_steps() -> tuple[LoadedKernel, Any]:
    """A function that begins a step, calls a function of Python by its pointer, and ends the step."""
    text = Builder()
    text.functions.update(blas_threads.one_thread_functions())
    with text.function(ENTRY, "ptr %inner", result="i64", linkage=""):
        text.call("void", "@adjit_blas_begin")
        text.call("void", "%inner")
        text.call("void", "@adjit_blas_end")
        text.ret("i64", 0)
    text._declarations.add(f"declare void @{external.BLAS_STATE}()")
    return entry_of(text)


def test_blas_has_one_thread_from_the_first_step_to_the_last(blas: Any) -> None:
    loaded, run = nested_steps()
    seen: list[int] = []
    callback = ctypes.CFUNCTYPE(None)
    inner = callback(lambda: seen.append(blas()))
    outer = callback(lambda: (run(ctypes.cast(inner, ctypes.c_void_p)), seen.append(blas()))[0])
    run(ctypes.cast(outer, ctypes.c_void_p))
    seen.append(blas())
    assert seen == [1, 1, 2]
    del loaded


def test_threads_share_the_count(blas: Any) -> None:
    loaded, run = nested_steps()
    inner = ctypes.CFUNCTYPE(None)(lambda: None)

    def work() -> None:
        for _ in range(2000):
            run(ctypes.cast(inner, ctypes.c_void_p))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (blas(), *blas_threads._state[:2]) == (2, 0, 0)
    del loaded


def test_child_of_a_fork_forgets_steps_of_lost_threads(blas: Any) -> None:
    blas_threads._state[0], blas_threads._state[1], blas_threads._state[2] = 1, 3, 2
    ctypes.CFUNCTYPE(None, ctypes.c_int)(blas_threads._state[4])(1)
    blas_threads._after_fork()
    assert (blas(), *blas_threads._state[:2]) == (2, 0, 0)


def system(a: Any, b: Any) -> Any:
    return np.linalg.solve(a, b), np.linalg.cholesky(a @ a.T + np.eye(3))


def test_archives_find_the_functions_when_they_are_loaded(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 3)), rng.normal(size=3)
    aj.compile(system).export(tmp_path / "system.adjit", a, b)
    for found, expected in zip(aj.load(tmp_path / "system.adjit")(a, b), system(a, b), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_lapack_is_loaded_without_the_package_around_it() -> None:
    """And the package can be imported later: it has the same module, which solves as before."""
    code = """
import sys, numpy as np, adjit as aj
a = np.eye(3) + np.arange(9.0).reshape(3, 3)
solve = aj.compile(np.linalg.solve)
before = solve(a, np.ones(3))
from adjit.ir.extension_module import extension_module
module = extension_module("scipy.linalg.cython_lapack")
assert np.array_equal(aj.linalg.solve(aj.tensor(a), aj.tensor(np.ones(3))).numpy(), np.linalg.solve(a, np.ones(3)))
assert not {"scipy.linalg", "scipy.linalg.cython_lapack"} & sys.modules.keys()
import scipy.linalg
import scipy.linalg.cython_lapack
assert scipy.linalg.cython_lapack is module is sys.modules["scipy.linalg.cython_lapack"]
assert np.allclose(scipy.linalg.solve(a, np.ones(3)), before)
assert (solve(a + 1.0, np.ones(3)) != before).any()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_libraries_for_c_have_code_of_their_own_or_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 3)), rng.normal(size=3)
    aj.compile(system).export(tmp_path / "system.o", a, b)
    assert not list(external_symbols((tmp_path / "system.o").read_bytes()))
    with pytest.raises(ExportError, match=r"svdvals calls functions of scipy\.linalg\.cython_lapack"):
        aj.compile(lambda a: np.linalg.svd(a, compute_uv=False)).export(tmp_path / "values.o", a)


def test_bits_do_not_depend_on_the_threads_of_blas() -> None:
    """Of factors of 300 rows, which OpenBLAS itself blocks by its number of threads."""
    code = """
import hashlib, numpy as np, adjit as aj
a = np.random.default_rng(0).normal(size=(300, 300))
f = aj.compile(lambda a: (np.linalg.cholesky(a @ a.T + 300 * np.eye(300)), np.linalg.inv(a), np.linalg.svd(a, compute_uv=False)))
print(*(hashlib.md5(np.ascontiguousarray(x)).hexdigest() for x in f(a)))
"""
    outputs = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                              env={**os.environ, "OPENBLAS_NUM_THREADS": count}).stdout for count in "12"}
    assert len(outputs) == 1
