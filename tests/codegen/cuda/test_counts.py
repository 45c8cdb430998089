"""What kernels ask of a card, counted by the interpreter of PTX against what an H200 can do in the time that a kernel may take.

132 multiprocessors issue 33.4e12 instructions of a thread a second, and copy 4.3e12 bytes: 7.8 instructions for each byte. `div.rn` counts
as one instruction and is about ten.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support.device_kernels import Buffers, interpret, program_of
from support.device_runs import OPTIONS

from adjit.codegen.cuda import products
from adjit.codegen.cuda.program import DeviceProgram
from adjit.ir.builder import trace_graph
from adjit.ir.ops import matmul
from adjit.ir.types import F32, TensorType
from adjit.passes.pipeline import run_pipeline
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="programs for devices are for CPython on Linux on x86-64")

INSTRUCTIONS_A_SECOND = 33.4e12
"""Of all threads of an H200: 132 multiprocessors, 4 schedulers, 32 lanes, 1.98 GHz."""

BUDGETS = {
    "softmax": (8, 73e-6 / (32768 * 1024)), "softmax gradient": (12, 110e-6 / (32768 * 1024)),
    "layer norm": (8, 73e-6 / (32768 * 1024)), "layer norm gradient": (12, 110e-6 / (32768 * 1024)), "adam": (28, 0.72e-3 / 1e8),
    "chain": (12, 0.40e-3 / 1e8),
}
"""Bytes that each element needs if it is read once and written once, and the seconds that an element may take."""


@pytest.mark.parametrize("name", BUDGETS)
def test_kernels_are_within_their_budget(name: str, exhaustive: bool) -> None:
    if not exhaustive and name not in ("softmax", "adam"):
        pytest.skip("--exhaustive")
    rows, columns = 4, 1024
    program, arrays = program_of(name, rows, columns, np.float32)
    found = interpret(program.nodes[0].launch, Buffers(program, arrays).of(program, 0))
    elements = rows * columns
    assert found.sector_efficiency == 1
    assert found.bank_conflicts == 0
    whole = sum(pointer.nbytes for pointer in program.nodes[0].launch.pointers
                if pointer.kind != "scratch" and pointer.nbytes == 4 * elements)
    assert whole == BUDGETS[name][0] * elements             # all else is small where there are many rows
    assert sum(found.instructions.values()) * 32 / elements <= BUDGETS[name][1] * INSTRUCTIONS_A_SECOND


def counts(tiling: products.Tiling, inner: int, transposed: tuple[bool, bool]) -> tuple[Counter[str], int, int]:
    size = tiling.tile
    types = [TensorType(F32, (inner, size) if first else (size, inner)) for first in (transposed[0], not transposed[1])]
    graph = trace_graph("product", types, lambda a, b: list(matmul.emit(a, b, transpose_a=transposed[0], transpose_b=transposed[1])))
    program = DeviceProgram(run_pipeline(graph, OPTIONS, True).final)
    arrays = [np.ones(type.shape, np.float32) for type in types]
    found = interpret(program.nodes[0].launch, Buffers(program, arrays).of(program, 0))
    assert found.sector_efficiency == 1
    return found.instructions, found.bank_conflicts, sum(number for name, number in found.instructions.items() if ".shared" in name)


@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False)], ids=str)
@pytest.mark.parametrize(("tiling", "share"), [(products.LARGE, 0.85), (products.MEDIUM, 0.68), (products.SMALL, 0.62)],
                         ids=["large", "medium", "small"])
def test_products_multiply_most_of_the_time(tiling: products.Tiling, share: float, transposed: tuple[bool, bool], exhaustive: bool,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what each step along the inner index takes; moves between registers, which ptxas leaves out, do not count."""
    if not exhaustive and (tiling is not products.SMALL or transposed != (False, True)):
        pytest.skip("--exhaustive")
    monkeypatch.setattr(products, "choose_tiling", lambda *sizes: tiling)
    step = 16 * tiling.groups
    short, long = (counts(tiling, steps * step, transposed) for steps in (2, 4))
    more = {name: number - short[0][name] for name, number in long[0].items() if not name.startswith("mov")}
    products_of_step = more["fma.rn.f32"]
    assert products_of_step == 2 * tiling.groups * 16 * tiling.tile**2 // 32
    assert products_of_step / sum(more.values()) >= share
    assert long[1] - short[1] <= 0.35 * (long[2] - short[2])          # conflicts of banks, of all accesses to shared memory
