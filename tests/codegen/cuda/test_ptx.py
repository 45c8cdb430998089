"""PTX of kernels: run by an interpreter it has the bits of the emulated device, without races; ptxas assembles it without spills."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.device_kernels import FUNCTIONS, PTXAS, Buffers, emulate, interpret, program_of
from support.device_runs import OPTIONS, same_bits
from support.ptx_interpreter import PTXError

from adjit.codegen.cuda.control_kernels import (
    checkpoint_count_kernel,
    checkpoint_kernel,
    clearing_kernel,
    copying_kernel,
    counting_kernel,
    deciding_kernel,
    starting_kernel,
    stepping_kernel,
)
from adjit.codegen.cuda.emulated import EmulationError
from adjit.codegen.cuda.kernel import Kernel, Launch, named_kernel
from adjit.codegen.cuda.program import DeviceProgram
from adjit.codegen.cuda.ptx import ptx_of
from adjit.codegen.cuda.target import SM_80, SM_90
from adjit.ir.builder import trace_graph
from adjit.ir.ops.decompositions import column_order, eigh, eigvalsh, qr, svd, svdvals
from adjit.ir.ops.factors import cholesky, lu
from adjit.ir.types import TensorType
from adjit.passes.pipeline import run_pipeline
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="the emulated device is for CPython on Linux on x86-64")


CASES = [(name, rows, columns, dtype) for rows, columns, dtype in (
    (12, 256, np.float32), (5, 100, np.float64), (9, 1500, np.float32), (40, 6, np.float64), (3, 20000, np.float32)) for name in FUNCTIONS]


@pytest.mark.parametrize(("name", "rows", "columns", "dtype"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))
@pytest.mark.share(9)
def test_ptx_has_the_bits_of_the_emulated_device(name: str, rows: int, columns: int, dtype: type) -> None:
    if columns > 256 and name not in ("softmax", "sum"):
        pytest.skip("long rows take long to interpret")
    program, arrays = program_of(name, rows, columns, dtype)
    here, there = Buffers(program, arrays), Buffers(program, arrays)
    for number, node in enumerate(program.nodes):
        emulate(node.launch, here.of(program, number), preempt=4)
        initialised = [access != "write" for access in node.launch.kernel.pointers]
        assert interpret(node.launch, there.of(program, number), initialised).instructions
    for key, found in here.memory.items():
        if key[0] == "result":
            type = program.assignment.graph.results[key[1]].type.dtype
            assert same_bits(found.view(type), there.memory[key].view(type))


FACTORS = ((svd, {"full": True}), (column_order, {}), (qr, {"complete": True}), (svdvals, {}), (eigh, {"lower": True}),
           (eigvalsh, {"lower": False}), (cholesky, {}), (lu, {}))


def test_factors_of_matrices_have_no_races(exhaustive: bool) -> None:
    """With one warp, and with several where threads do not run in step."""
    for size, dtype in ((3, np.complex64), (36, np.float32)) if exhaustive else ((3, np.float32),):
        a = (np.random.default_rng(size).random((size, size)) + np.eye(size)).astype(dtype)
        for definition, attrs in FACTORS if exhaustive else FACTORS[::4]:
            graph = trace_graph("factors", [TensorType(a.dtype, a.shape)], lambda x, d=definition, attrs=attrs: list(d.emit(x, **attrs)))
            program = DeviceProgram(run_pipeline(graph, OPTIONS, True).final)
            here, there = Buffers(program, [a]), Buffers(program, [a])
            for number, node in enumerate(program.nodes):
                emulate(node.launch, here.of(program, number), preempt=4)
                interpret(node.launch, there.of(program, number), [pointer.kind == "operand" for pointer in node.launch.pointers])
            assert all(here.memory[key].tobytes() == there.memory[key].tobytes() for key in here.memory if key[0] == "result")


def lines_to_break(text: str) -> Iterator[tuple[str, str]]:
    """Kernels made wrong on purpose: without a barrier, with another distance of a shuffle, with a bound that is one too large."""
    for match in re.finditer(r"^  call void @llvm\.nvvm\.barrier0\(\)\n", text, re.M):
        yield "barrier", text[:match.start()] + text[match.end():]
    for match in re.finditer(r"i32 (16|8|4|2|1), i32 31\)", text):
        yield "shuffle", f"{text[:match.start()]}i32 {int(match[1]) // 2 or 2}, i32 31){text[match.end():]}"
    for match in re.finditer(r"icmp slt i64 (\S+), (%n0|\d+)\n", text):
        yield "bound", f"{text[:match.start()]}icmp sle i64 {match[1]}, {match[2]}\n{text[match.end():]}"


@pytest.mark.parametrize(("name", "rows", "columns"), [("softmax", 6, 600), ("layer norm gradient", 5, 300), ("product", 40, 40),
                                                       ("sum", 6, 600)])
def test_broken_kernels_are_noticed(name: str, rows: int, columns: int, exhaustive: bool) -> None:
    """Barriers by the interpreter, bounds and shuffles by either: wrong bits, an access that is not allowed, a race."""
    if name != "softmax" and not exhaustive:
        pytest.skip("--exhaustive")
    program, arrays = program_of(name, rows, columns, np.float32)
    expected = Buffers(program, arrays)
    emulate(program.nodes[0].launch, expected.of(program, 0))
    outcomes: dict[str, list[bool]] = {}
    for kind, text in lines_to_break(program.nodes[0].launch.kernel.text):
        if len(outcomes.setdefault(kind, [])) < (100 if exhaustive else 2):
            outcomes[kind].append(_is_noticed(program, arrays, text, expected))
    assert any(outcomes.get("bound", [True]))           # some bounds are always met
    spare = 1 if name.startswith("layer norm") else 0           # that at the end of a row: another one comes before the next row's words
    assert outcomes.get("barrier", []).count(False) <= spare
    assert all(outcomes.get("shuffle", []))
    assert outcomes


def _is_noticed(program: DeviceProgram, arrays: list[np.ndarray], text: str, expected: Buffers) -> bool:
    launch = program.nodes[0].launch
    old = launch.kernel
    broken = Launch(named_kernel("broken", text.replace(f"@{old.name}", "@adjit_kernel"), old.threads, old.shared_bytes, old.pointers,
                                 old.numbers), launch.grid, launch.pointers, launch.numbers)
    for run in (emulate, interpret):
        found = Buffers(program, arrays)
        try:
            run(broken, found.of(program, 0))
        except (EmulationError, PTXError):
            return True
        if any(found.memory[key].tobytes() != expected.memory[key].tobytes() for key in expected.memory):
            return True
    return False


def kernels(exhaustive: bool) -> dict[str, Kernel]:
    found: dict[str, Kernel] = {}
    for dtype in (np.float32, np.float64):
        for name in FUNCTIONS if exhaustive else ("softmax gradient", "layer norm gradient", "adam"):
            if name != "movement":
                for kernel in program_of(name, 256, 1024, dtype)[0].kernels.values():
                    found[f"{name} {dtype.__name__} {kernel.name.split('_')[1]}"] = kernel
    return found


def test_ptx_says_how_to_round_and_calls_nobody(exhaustive: bool) -> None:
    for name, kernel in kernels(exhaustive).items():
        text = ptx_of(kernel)
        assert not re.search(r"\.extern|\.approx|\.ftz|\bcall\b", text), name
        assert not re.search(r"\b(?:add|sub|mul|fma|div)\.f(?:32|64)", text), name
        assert "\n.version 7.8\n.target sm_90\n" in text, name


def test_kernels_that_steer_call_the_function_that_the_driver_knows() -> None:
    """Its signature is that of the PTX that XLA has drivers compile; ptxas has it as a symbol that the loader resolves."""
    moving = stepping_kernel(copying_kernel((4, 8)), ((0, 1), (), (), (1,)))
    texts = [ptx_of(kernel) for kernel in (starting_kernel(), counting_kernel(), deciding_kernel((True, False)), checkpoint_kernel(16),
                                           checkpoint_count_kernel(), clearing_kernel(), moving)]
    declared = r"\.extern \.func cudaGraphSetConditional\s*\(\s*\.param \.b64 \w+,\s*\.param \.b32 \w+\s*\)\s*;"
    assert [len(re.findall(declared, text)) for text in texts] == [1, 1, 1, 0, 0, 0, 0]
    assert [text.count("call") - text.count("callseq") for text in texts] == [1, 1, 2, 0, 0, 0, 0]
    assert moving.name in texts[-1]
    for text in texts if PTXAS else ():
        done = subprocess.run([str(PTXAS), "-c", "-arch=sm_90", "-", "-o", "/dev/null"], input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed (pip install nvidia-cuda-nvcc)")
def test_ptxas_needs_no_spills(tmp_path: Path, exhaustive: bool) -> None:
    for name, kernel in kernels(exhaustive).items():
        for target in (SM_80, SM_90) if exhaustive else (SM_90,):
            path = tmp_path / "kernel.ptx"
            path.write_text(ptx_of(kernel, target))
            done = subprocess.run([str(PTXAS), "-v", f"-arch={target.name}", str(path), "-o", str(tmp_path / "kernel.cubin")],
                                  capture_output=True, text=True)
            assert done.returncode == 0, f"{name}: {done.stderr}"
            assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr, f"{name}: {done.stderr}"
