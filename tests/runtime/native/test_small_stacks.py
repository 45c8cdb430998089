"""Threads with small stacks call every program: what steps work in lies in the arena, and in memory of the pool's threads."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from support.project import ROOT, TESTS

import adjit as aj
from adjit.codegen.llvm.target import host_targets
from adjit.codegen.native.program_code import ProgramCode
from adjit.runtime import compile_options
from adjit.runtime.reports.memory_blocks import format_bytes

sys.path.insert(0, str(ROOT / "benchmarks"))

from workloads import WORKLOADS

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux") or not host_targets(), reason="native programs are for x86-64")

MAX_FRAME_BYTES = 4096
"""Most that a function asks for of the stack."""

BYTES = {"double": 8, "float": 4, "ptr": 8, "i64": 8, "i32": 4, "i8": 1}


@pytest.mark.share(8)
@pytest.mark.parametrize(("kib", "names"), [(128, "mlp"), (256, "gmm"), (512, "rnn"), (512, "transformer"), (128, "exports")])
@pytest.mark.parametrize("threads", [1, 2])
def test_calls_on_threads_with_small_stacks(kib: int, names: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training steps in tiles: traced and compiled on a thread of `kib`; on one of 64 KiB called hot, loaded, and called from C."""
    monkeypatch.setenv("ADJIT_THREADS", str(threads))
    script = str(TESTS / "support" / "small_stacks.py")
    done = subprocess.run([sys.executable, script, str(kib), names], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "all well\n"


def alloca_bytes(text: str) -> int:
    """What a text asks for of the stack."""
    arrays = re.findall(r"= alloca \[(\d+) x (\w+)\]", text)
    return sum(int(count) * BYTES[element] for count, element in arrays) + sum(BYTES[kind] for kind in re.findall(r"= alloca (\w+)", text))


def check_frames(program: ProgramCode) -> None:
    for definition in program.definitions:
        assert definition.text.count(" alloca ") == len(re.findall(r"= alloca (?:\[\d+ x )?\w+", definition.text)), "an alloca not counted"
        assert alloca_bytes(definition.text) <= MAX_FRAME_BYTES, definition.name


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_functions_of_workloads_ask_for_little_of_the_stack(name: str) -> None:
    workload = WORKLOADS[name](backend="native")
    check_frames(workload.function.program(workload.function.fun, workload.arguments, {}).executable.program)


def test_functions_of_other_ops_ask_for_little_of_the_stack() -> None:
    generator = np.random.default_rng(1)
    x, w = (generator.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 12, 12), (4, 3, 3, 3)))

    def loss(x: Any, w: Any, a: Any) -> Any:
        y = aj.nn.functional.max_pool2d(aj.nn.functional.conv2d(x, w, stride=2), 2, 1)
        return np.sum(np.power(np.tanh(y), 2.5)) + np.sum(np.sort(np.cumsum(a @ a.T, 0), 1)) + np.sum(np.linalg.solve(a, a))

    a = generator.standard_normal((70, 70)).astype(np.float32)
    function = aj.compile(aj.value_and_grad(loss), backend="native")
    function(x, w, a)
    check_frames(function._cache.last.executable.program)


def test_scratch_memory_lies_behind_the_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(w: Any, x: Any) -> Any:
        return w - 0.1 * aj.grad(lambda w: np.sum(np.tanh(np.tanh(x @ w) @ w)))(w)

    monkeypatch.setattr(compile_options, "core_cache_bytes", lambda: 1 << 21)       # tiles are made for the same processor everywhere
    generator = np.random.default_rng(0)
    w, x = (generator.standard_normal(shape).astype(np.float32) * 0.1 for shape in ((256, 256), (1024, 256)))
    function = aj.compile(step, backend="native")
    function(w, x)
    executable, memory = function._cache.last.executable, function.memory()
    assert 0 < memory.tile_bytes < executable.program.scratch_bytes       # the steps of the tile have the rest
    assert executable.code.artifact.arena_bytes == memory.arena_bytes + executable.program.scratch_bytes
    assert f"up to {format_bytes(memory.tile_bytes)} in each thread for a tile" in str(memory)
