"""Products in fewer digits, by `compile(matmul_precision=)`: the same bits by the emulated device and the interpreter of PTX, those digits
that were asked for, and all digits where nobody asked for fewer."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.device_kernels import PTXAS, Buffers, emulate, interpret
from support.device_runs import OPTIONS, same_bits

import adjit as aj
from adjit.codegen.cuda import products
from adjit.codegen.cuda.program import DeviceProgram
from adjit.codegen.cuda.ptx import ptx_of
from adjit.codegen.cuda.target import SM_80, SM_90
from adjit.codegen.cuda.tensor_cores import TensorCoreWriter
from adjit.ir.builder import trace_graph
from adjit.ir.errors import ArgumentError
from adjit.ir.interpreter import interpret as meaning
from adjit.ir.ops import matmul, maximum
from adjit.ir.types import F32, TensorType
from adjit.passes.pipeline import run_pipeline
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="the emulated device is for CPython on Linux on x86-64")

ERRORS = {"highest": 1e-6, "high": 1e-6, "tf32": 2.0**-10, "bf16": 2.0**-7}
"""Largest error of a product whose sums are of the order of 1, from above."""

LARGE, MEDIUM, SMALL = TensorCoreWriter.tilings


def program_of(precision: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], transposed: tuple[bool, bool] = (False, False)
               ) -> tuple[DeviceProgram, list[np.ndarray], np.ndarray]:
    """The program of a product, arrays for it, and what the interpreter of graphs makes of them."""
    types = [TensorType(F32, shape) for shape in shapes]

    def positive(a: Any, b: Any) -> list[Any]:
        product = matmul(a, b, transpose_a=transposed[0], transpose_b=transposed[1])
        return [maximum(product, product)]

    pipeline = run_pipeline(trace_graph("positive", types, positive), replace(OPTIONS, matmul_precision=precision), True)
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shape).astype(np.float32) / np.float32(np.sqrt(shape[-1])) for shape in shapes]
    return DeviceProgram(pipeline.final), arrays, meaning(pipeline.graphs["optimized"], arrays)[0]


@pytest.mark.parametrize(("shapes", "transposed"), [(((9, 18), (18, 9)), (False, False)), (((36, 12), (12, 36)), (True, True))],
                         ids=["ragged", "vectors"])
def test_both_ways_to_run_have_the_same_bits(shapes: Any, transposed: tuple[bool, bool], exhaustive: bool) -> None:
    """And mean what the graph does, up to the order of sums. Numbers have no more digits than they may: the interpreter looks."""
    if exhaustive:
        shapes = tuple((2, *(4 * size - 1 if size % 4 else 4 * size for size in shape)) for shape in shapes)
    for precision in ("high", "tf32", "bf16") if exhaustive or transposed[0] else ("bf16",):
        program, arrays, expected = program_of(precision, shapes, transposed)
        (node,) = program.nodes
        here, there = Buffers(program, arrays), Buffers(program, arrays)
        emulate(node.launch, here.of(program, 0), preempt=4)
        found = interpret(node.launch, there.of(program, 0), [True, True, False])
        assert any(name.startswith("mma.sync") for name in found.instructions)
        a, b = (buffers.memory["result", 0].view(np.float32) for buffers in (here, there))
        assert same_bits(a, b)
        np.testing.assert_allclose(a, expected.ravel(), rtol=1e-5, atol=1e-6)


def test_digits_are_those_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADJIT_CUDA", "emulated")
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((24, 40)).astype(np.float32), rng.standard_normal((40, 16)).astype(np.float32) / np.float32(7)

    def loss(w: Any, x: Any) -> Any:
        return ((x @ w) ** 2).sum()

    exact = x.astype(float) @ w
    errors = {}
    for precision, bound in ERRORS.items():
        product = aj.compile(lambda x, w: x @ w, device="cuda", matmul_precision=precision)
        errors[precision] = np.abs(np.asarray(product(x, w)) - exact).max()
        assert errors[precision] < bound
        assert ("1 product in " in product.explain()) == (precision != "highest")
    narrow = product(x[:4], w)              # four rows are read no faster in fewer digits
    assert np.abs(np.asarray(narrow) - exact[:4]).max() < ERRORS["highest"]
    gradient = aj.compile(aj.grad(loss), device="cuda", matmul_precision="tf32")(w, x)
    np.testing.assert_allclose(np.asarray(gradient), 2 * x.T @ exact, atol=40 * ERRORS["tf32"])
    assert max(errors["highest"], errors["high"]) < errors["tf32"] / 20 < errors["bf16"] / 80
    wide = aj.compile(lambda x, w: x @ w, device="cuda", matmul_precision="bf16")(x.astype(float), w.astype(float))
    np.testing.assert_allclose(np.asarray(wide), exact, rtol=1e-12)
    here = aj.compile(lambda x, w: x @ w, matmul_precision="bf16")
    np.testing.assert_allclose(here(x, w), exact, rtol=1e-4, atol=1e-6)
    assert " in bf16" not in here.explain()
    product.export(tmp_path / "product.adjit", x, w)
    assert same_bits(np.asarray(aj.load(tmp_path / "product.adjit")(x, w)), np.asarray(product(x, w)))


def test_halves_are_multiplied_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after their elements moved, and with numbers around them that are not halves."""
    monkeypatch.setenv("ADJIT_CUDA", "emulated")
    rng = np.random.default_rng(2)
    w = rng.standard_normal((2, 8, 20)).astype(np.float32)
    for dtype, mark in ((np.dtype(ml_dtypes.bfloat16), "bf16"), (np.dtype(np.float16), "tf32")):
        x = rng.standard_normal((10, 20)).astype(dtype)
        product = aj.compile(lambda x, w, dtype=dtype: x.astype(np.float32) @ w[1].astype(dtype).astype(np.float32).T, device="cuda")
        exact = x.astype(float) @ w[1].astype(dtype).astype(float).T
        np.testing.assert_allclose(np.asarray(product(x, w)), exact, rtol=1e-5, atol=1e-5)
        assert f"1 product in {mark}" in product.explain()
    padded = aj.compile(lambda x, w: np.pad(x.astype(np.float32), 1, constant_values=0.1) @ w, device="cuda")
    assert "1 product in" not in (padded(x, np.ones((22, 8), np.float32)), padded.explain())[1]


def test_unknown_precisions_are_refused() -> None:
    with pytest.raises(ArgumentError, match="unknown matmul_precision 'float32'; the choices are highest, high, tf32, bf16"):
        aj.compile(lambda x: x, matmul_precision="float32")


def counts(precision: str, tiling: Any, transposed: tuple[bool, bool], steps: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(products, "choose_tiling", lambda *sizes: tiling)
    size, inner = tiling.tile, steps * tiling.groups * (32 if precision == "bf16" else 16)
    shapes = (inner, size) if transposed[0] else (size, inner), (size, inner) if transposed[1] else (inner, size)
    program, arrays, _ = program_of(precision, shapes, transposed)
    return program.nodes[0].launch.kernel, interpret(program.nodes[0].launch, Buffers(program, arrays).of(program, 0))


@pytest.mark.parametrize("precision", ["tf32", "high", "bf16"])
def test_tensor_cores_are_busy(precision: str, exhaustive: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Few instructions for each product of a warp, no sector read for nothing, few conflicts of banks; ptxas spills no register."""
    if not exhaustive and precision != "tf32":
        pytest.skip("--exhaustive")
    for tiling in (LARGE, MEDIUM, SMALL) if exhaustive else (SMALL,):
        for transposed in ((False, False), (False, True), (True, False)) if exhaustive else ((False, False),):
            (_, short), (kernel, long) = (counts(precision, tiling, transposed, steps, monkeypatch) for steps in (1, 2))
            assert long.sector_efficiency == 1
            more = Counter({name: number - short.instructions[name] for name, number in long.instructions.items()
                            if not name.startswith("mov")})
            products_of_step = sum(number for name, number in more.items() if name.startswith("mma"))
            assert products_of_step == tiling.groups * tiling.tile**2 // 128 * (6 if precision == "high" else 2)
            if tiling is LARGE:
                assert sum(more.values()) / products_of_step <= MOST_INSTRUCTIONS[precision]
            assert long.bank_conflicts - short.bank_conflicts <= sum(number for name, number in more.items() if ".shared" in name)
            for target in ((SM_80, SM_90) if exhaustive else (SM_90,)) if PTXAS is not None else ():
                path = tmp_path / "kernel.ptx"
                path.write_text(ptx_of(kernel, target))
                done = subprocess.run([str(PTXAS), "-v", f"-arch={target.name}", str(path), "-o", str(tmp_path / "kernel.cubin")],
                                      capture_output=True, text=True)
                assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr, done.stderr


MOST_INSTRUCTIONS = {"tf32": 5.1, "high": 3.7, "bf16": 6.8}
"""Instructions for each product of a warp, in large tiles."""


