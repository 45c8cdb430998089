"""Matrix products of the numba backend: machine code where there is any, NumPy elsewhere, one result whatever the threads."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import adjit as aj
from adjit.codegen.llvm.target import TARGETS, host_target, host_targets
from adjit.ir.parser import parse
from adjit.runtime.caches import disk_cache
from adjit.runtime.numba.executable import Executable
from adjit.runtime.numba.kernels import compile_kernels
from adjit.runtime.numba.matmul_step import MatmulKernel, obtain_matmul, product_target
from adjit.runtime.program import Program

pytestmark = pytest.mark.skipif(not host_targets(), reason="products are written for x86-64")


@pytest.fixture(autouse=True)
def numba_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend that has kernels one by one."""
    monkeypatch.setenv("ADJIT_BACKEND", "numba")


def normal(*shape: int, dtype: str = "f4", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def program(function: aj.CompiledFunction) -> Program:
    assert function._cache.last is not None
    return function._cache.last


def products(function: aj.CompiledFunction) -> list[MatmulKernel]:
    return [kernel for kernel in program(function).kernels.values() if isinstance(kernel, MatmulKernel)]


def test_machine_code_takes_transposed_operands_as_they_lie() -> None:
    @aj.compile
    def f(x, w):
        return x.T @ w.T, np.matmul(x, w)

    x, w = normal(40, 40), normal(40, 40, seed=1)
    for got, expected in zip(f(x, w), (x.T @ w.T, x @ w), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    flags = {(kernel.product.transpose_a, kernel.product.transpose_b) for kernel in products(f)}
    assert flags <= {(True, True), (False, False)}
    assert [op.name for op in program(f).planned.ops if op.name != "free"] == ["matmul"] * 2
    assert "products\n  f32[40,40]" in f.explain()


@pytest.mark.parametrize(("dtype", "native"), [("f4", True), ("f8", True), ("i4", False), ("i8", False), ("?", False)])
def test_dtypes(dtype: str, native: bool) -> None:
    @aj.compile
    def f(x, w):
        return x @ w

    x, w = (np.arange(12).reshape(s).astype(dtype) for s in ((3, 4), (4, 3)))
    got = f(x, w)
    assert got.dtype == np.dtype(dtype)
    assert np.array_equal(got, x @ w)
    assert len(products(f)) == native


@pytest.mark.parametrize("shapes", [((0, 3), (3, 4)), ((3, 0), (0, 4)), ((3, 4), (4, 0)), ((0, 2, 3), (0, 3, 4))])
def test_nothing_to_multiply(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (normal(*shape) for shape in shapes)
    got = aj.compile(lambda x, y: np.matmul(x, y))(a, b)
    assert np.array_equal(got, a @ b)


def test_operands_that_are_not_contiguous_or_not_aligned() -> None:
    f = aj.compile(lambda x, w: x @ w)
    x, w = normal(20, 60), normal(60, 30, seed=1)
    expected = f(x[:, ::2].copy(), w[::2].copy())
    assert f(x[:, ::2], w[::2]).tobytes() == expected.tobytes()
    assert f(np.asfortranarray(x[:, ::2]), w[::2]).tobytes() == expected.tobytes()
    raw = np.zeros(20 * 30 * 4 + 1, np.uint8)
    odd = raw[1:].view("f4").reshape(20, 30)
    odd[...] = x[:, ::2]
    assert f(odd, w[::2]).tobytes() == expected.tobytes()


def test_operands_that_are_one_array() -> None:
    f = aj.compile(lambda x: x @ x.T)
    x = normal(33, 47)
    before = x.copy()
    np.testing.assert_allclose(f(x), x @ x.T, rtol=1e-4, atol=1e-4)
    assert np.array_equal(x, before)


def test_update_of_a_donated_operand() -> None:
    @aj.compile(donate="w")
    def step(w, x):
        return w - x.T @ (x @ w)

    w, x = normal(20, 9), normal(15, 20, seed=1)
    expected = w - x.T @ (x @ w)
    got = step(w, x)
    assert got is w
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("text", ["f32[400,300], f32[300,500] n n", "f32[400,300], f32[500,300] n t", "f32[300,400], f32[300,500] t n",
                                  "f32[60,128,32], f32[60,32,128] n n", "f64[256,1000], f64[1000,256] n n"])
def test_threads_do_not_change_a_bit(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, *turned = text.replace(", ", " ").split()
    flags = ["true" if turn == "t" else "false" for turn in turned]
    arrays = [normal(*map(int, name[4:-1].split(",")), dtype={"f32": "f4", "f64": "f8"}[name[:3]], seed=i) for i, name in enumerate((a, b))]
    left, right = (array.swapaxes(-1, -2) if turn == "t" else array for array, turn in zip(arrays, turned, strict=True))
    exact = left.astype("f8") @ right
    shape = ",".join(map(str, exact.shape))
    graph = parse(f"""graph @f(%a: {a}, %b: {b}) {{
      %c: {a[:3]}[{shape}] @ result+0 = matmul %a, %b {{transpose_a={flags[0]}, transpose_b={flags[1]}}}
      return %c
    }}""")
    monkeypatch.setattr("adjit.runtime.numba.matmul_step.SPLIT_VECTORS", 100)
    results = [Executable(graph, compile_kernels(graph), threads).run(arrays, arrays)[0] for threads in (1, 2, 3)]
    np.testing.assert_allclose(results[0], exact, rtol=0, atol=1e-3)
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()


def test_calls_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjit.runtime.numba.matmul_step.SPLIT_VECTORS", 100)
    f = aj.compile(lambda x, w: (x @ w) @ w, threads=2)
    x, w = normal(64, 96), normal(96, 96, seed=1)
    expected = [f(x * i, w).tobytes() for i in range(4)]
    wrong = []

    def work(i: int) -> None:
        for _ in range(50):
            if f(x * i, w).tobytes() != expected[i]:
                wrong.append(i)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = normal(30, 20), normal(20, 10, seed=1)
    monkeypatch.setenv("ADJIT_MATMUL", "numpy")
    f = aj.compile(lambda x, w: x @ w)
    assert np.array_equal(f(x, w), x @ w)
    assert products(f) == []
    assert "\nproducts\n" not in f.explain()
    for target in host_targets():
        monkeypatch.setenv("ADJIT_MATMUL", target.name)
        assert product_target() is target
        f = aj.compile(lambda x, w: x @ w)
        np.testing.assert_allclose(f(x, w), x @ w, rtol=1e-4, atol=1e-5)
        assert products(f)[0].plan.lanes == target.vector_bytes // 4
    monkeypatch.setenv("ADJIT_MATMUL", "auto")
    assert product_target() is host_target()
    monkeypatch.setenv("ADJIT_MATMUL", "blas")
    with pytest.raises(ValueError, match="ADJIT_MATMUL='blas': expected one of auto, avx512, avx2, sse2, numpy"):
        product_target()


def test_target_that_the_processor_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_MATMUL", "avx512")
    monkeypatch.setattr("adjit.runtime.numba.matmul_step.host_targets", lambda: (TARGETS["sse2"],))
    with pytest.raises(ValueError, match="ADJIT_MATMUL='avx512': this processor has sse2"):
        product_target()


def test_equal_products_are_compiled_once_and_kept_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("ADJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(disk_cache, "_loaded", type(disk_cache._loaded)())
    text = """graph @f(%a: f32[5,6], %b: f32[6,7]) {
      %c: f32[5,7] @ result+0 = matmul %a, %b {transpose_a=false, transpose_b=false}
      return %c
    }"""
    (op,) = parse(text).ops
    first = obtain_matmul(op)
    again = obtain_matmul(op)
    assert first is not None
    assert again is not None
    assert (first.origin, again.origin) == ("compiled: not in the disk cache", "already loaded")
    assert again.loaded is first.loaded
    assert len(list((tmp_path / "cache").glob("*.kernel"))) == 1
    del first, again
    monkeypatch.setattr(disk_cache, "_loaded", type(disk_cache._loaded)())
    fresh = obtain_matmul(op)
    assert fresh is not None
    assert fresh.origin == "from the disk cache"


def test_numba_is_not_imported_for_products() -> None:
    text = textwrap.dedent("""
        import sys
        import numpy as np
        import adjit as aj
        f = aj.compile(lambda x, w: x @ w)
        x = np.ones((20, 30))
        assert (f(x, x.T.copy()) == 30).all()
        assert f.explain().count("compiled: the disk cache is off") == 1
        assert "numba" not in sys.modules
    """)
    subprocess.run([sys.executable, "-c", text], check=True, env={"ADJIT_CACHE_SIZE": "0", "PATH": ""})
