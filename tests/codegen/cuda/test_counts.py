"""What kernels and programs ask of a card, counted by the interpreter of PTX against what an H200 can do in the time that these may take.

132 multiprocessors issue 33.4e12 instructions of a thread a second, and copy 4.3e12 bytes: 7.8 instructions for each byte. `div.rn` counts
as one instruction and is about ten.
"""

from __future__ import annotations

import functools
import json
import re
import sys

import numpy as np
import pytest
from support.device_kernels import Buffers, emulate, interpret, program_of
from support.project import ROOT

from adjit.codegen.cuda import products
from adjit.codegen.cuda.ptx import ptx_of
from adjit.runtime.native.code import native_is_supported

sys.path.insert(0, str(ROOT / "benchmarks"))

import gpu_counts

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


@pytest.mark.parametrize("transposed", gpu_counts.ORIENTATIONS, ids=str)
@pytest.mark.parametrize(("tiling", "share"), [(products.LARGE, 0.85), (products.MEDIUM, 0.68), (products.SMALL, 0.62)],
                         ids=["large", "medium", "small"])
def test_products_multiply_most_of_the_time(tiling: products.Tiling, share: float, transposed: tuple[bool, bool],
                                            exhaustive: bool) -> None:
    """Of what each step along the inner index takes; moves between registers, which ptxas leaves out, do not count."""
    if not exhaustive and (tiling is not products.SMALL or transposed != (False, True)):
        pytest.skip("--exhaustive")
    step = gpu_counts.product_step(tiling, transposed)
    assert step.instructions["fma.rn.f32"] == 2 * tiling.groups * 16 * tiling.tile**2 // 32
    assert step.share >= share
    assert step.conflicts <= 0.35 * step.shared
    assert step.bytes == 2 * tiling.groups * 16 * 2 * tiling.tile * 4           # each element of both factors once a tile


@pytest.mark.parametrize("name", gpu_counts.WORKS)
def test_counts_of_programs_are_those_of_the_page(name: str, exhaustive: bool) -> None:
    """A call is one launch: `make bench-cuda-counts` writes it anew."""
    if not exhaustive and name != "mlp":
        pytest.skip("--exhaustive")
    written = json.loads((ROOT / "benchmarks" / "results" / gpu_counts.RESULTS).read_text())
    shares = {label: found["share"] for label, found in written["products"].items()}
    found = gpu_counts.count(gpu_counts.WORKS[name], shares)
    assert found == written["works"][name]
    assert found["launches"] == 1
    assert found["bytes"] >= found["least_bytes"]


def test_parts_of_sums_over_rows_are_loaded_together() -> None:
    """A thread that adds waits for memory: eight parts are on their way at once, and added in the order of the blocks."""
    program, arrays = program_of("layer norm gradient", 325, 40, np.float32)         # 13 blocks: one round of eight parts, five alone
    launch, buffers = program.nodes[-1].launch, Buffers(program, arrays)
    for number, node in enumerate(program.nodes):
        emulate(node.launch, buffers.of(program, number))
    assert launch.numbers == (13,)
    parts = buffers.of(program, 1)[-2].view(np.float32).reshape(13, 40)
    found = [buffer.view(np.float32) for buffer in buffers.of(program, 1) if buffer.nbytes == 160]
    assert any((sums == functools.reduce(np.add, parts, np.float32(0))).all() for sums in found)
    order = re.findall(r"(ld\.global|add\.rn)\S*\.f32|(ld\.global)\S*\.b32", ptx_of(launch.kernel))
    assert ["ld.global"] * 8 in [[first or second for first, second in order[start:start + 8]] for start in range(len(order))]
