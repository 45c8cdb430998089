"""The nine workloads of `benchmarks/` as native programs, at every target: valid modules that need no library, near the interpreter's
numbers, the same bits on one thread and on two.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.object_code import undefined_symbols
from support.project import ROOT

from adjit.codegen.llvm.link import load
from adjit.codegen.llvm.module import Definition
from adjit.codegen.llvm.target import Target, host_targets
from adjit.codegen.native.compile_program import compile_program_text, make_artifact
from adjit.codegen.native.program import lower_program
from adjit.ir.analysis.kernel_schedule import schedule_kernel
from adjit.ir.graph import Graph
from adjit.passes.options import Options
from adjit.passes.pipeline import run_pipeline
from adjit.runtime.native.code import NativeCode
from adjit.runtime.native.executable import NativeExecutable
from adjit.runtime.numba.executable import Interpretation
from adjit.tracer.trees import flatten

sys.path.insert(0, str(ROOT / "benchmarks"))

from problems import PROBLEMS
from workloads import workload

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {}, "mlp": {"sizes": (70, 50, 26, 10), "batch": 33}, "chain": {"size": 100_003}, "lnsm": {"rows": 301, "columns": 100},
    "transformer": {"batch": 2, "length": 20, "width": 48, "heads": 4}, "cnn": {"batch": 5}, "rnn": {"steps": 5}, "logreg": {},
    "gmm": {"n": 101, "d": 4, "k": 6}}


@cache
def case(name: str) -> tuple[Graph, Graph, list[np.ndarray]]:
    """The optimized and the planned graph of a step at small size, and arrays for it."""
    made = workload(PROBLEMS[name](**SIZES[name]), "interpret")
    program = made.function.program(made.function.fun, made.arguments, {})
    pipeline = run_pipeline(program.pipeline.graphs["traced"], Options(cache_bytes=1 << 16), verify=True)
    arrays = [np.asarray(leaf) for leaf in flatten(made.arguments)[0]] + list(program.trace.captured)
    return pipeline.graphs["optimized"], pipeline.final, arrays


def run(executable: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    copies = [array.copy() for array in arrays]
    return [np.array(result) for result in executable.run(copies, copies)]


def compiled(planned: Graph, target: Target) -> NativeCode:
    program = lower_program(planned, target)
    shared: dict[str, Definition] = {}
    for call in program.calls:
        for name, function in call.code.shared.items():
            assert shared.setdefault(name, function) == function, f"two texts of @{name}"
    code = compile_program_text(program.text, target, verify=True)
    assert undefined_symbols(code.object_code) <= {"memcpy", "memset"}
    return NativeCode(load(code), make_artifact(planned, program, target), "", "")


@pytest.mark.share(2)
@pytest.mark.parametrize("target", host_targets(), ids=lambda target: target.name)
@pytest.mark.parametrize("name", SIZES)
def test_workload(name: str, target: Target) -> None:
    optimized, planned, arrays = case(name)
    wanted = run(Interpretation(optimized, planned), arrays)
    code = compiled(planned, target)
    one, two, again = (run(NativeExecutable(code, lambda: planned, threads), arrays) for threads in (1, 2, 2))
    for alone, together, repeated, reference in zip(one, two, again, wanted, strict=True):
        assert alone.tobytes() == together.tobytes() == repeated.tobytes()
        single = reference.dtype == np.float32
        scale = 1 + np.max(np.abs(reference), initial=0)
        assert_allclose(alone, reference, rtol=0, atol=(2e-4 if single else 1e-9) * scale)


def test_loops_and_divisions_of_layer_norm_and_softmax() -> None:
    """One division an element, the one that is written down; all others are of numbers of the row."""
    (op,) = [op for op in case("lnsm")[1].ops if op.name == "fused"]
    schedule = schedule_kernel(op.regions[0], op.attrs["rows"], op.attrs["columns"])
    made = [op.name for op in op.regions[0].ops if schedule.level[op.result] == "element"]
    assert schedule.stages == 6
    assert made.count("divide") + made.count("strong_divide") == 1
    assert made.count("exp") == 1
