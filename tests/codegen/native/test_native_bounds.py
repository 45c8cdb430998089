"""Native programs under valgrind: they touch no byte outside of their arrays and working memory, and use none before it is written.

Programs run in a process of their own (`bounds_harness.c`), with memory of exactly the sizes they ask for, one task at a time, last first.
`--exhaustive` runs more of them.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
from support.op_cases import op_cases, sample_graph
from support.project import TESTS
from support.random_programs import random_program

from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.llvm.target import TARGETS, Target, host_targets
from adjit.codegen.native import program_code
from adjit.codegen.native.artifact import Artifact
from adjit.codegen.native.compile_program import compile_program_text, make_artifact
from adjit.codegen.native.program import lower_program
from adjit.ir.analysis.kernel_schedule import KernelRule
from adjit.ir.definition import Kind
from adjit.ir.graph import Graph
from adjit.ir.types import SHORT_NAMES
from adjit.passes.options import Options
from adjit.passes.pipeline import run_pipeline
from adjit.runtime.backends import native_executable

VALGRIND = ["valgrind", "--quiet", "--error-exitcode=9", "--redzone-size=256", "--partial-loads-ok=no",
            "--expensive-definedness-checks=yes"]
AT_ONCE = 40

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (shutil.which("valgrind") and shutil.which("cc")), reason="needs valgrind and a C compiler"),
    pytest.mark.skipif(not host_targets(), reason="native programs are for x86-64")]

for_each_target = pytest.mark.parametrize("target", [TARGETS["avx2"], TARGETS["sse2"]], ids=lambda target: target.name)
"""Valgrind knows no AVX-512."""


@pytest.fixture(autouse=True)
def every_step_in_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small programs that are cut as large ones are."""
    monkeypatch.setattr(program_code, "MIN_PARALLEL_NS", 0.0)
    monkeypatch.setattr(KernelRule, "elements_per_block", 8)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("harness") / "harness"
    subprocess.run(["cc", "-O1", "-g", "-o", path, TESTS / "support" / "bounds_harness.c", "-ldl"], check=True)
    return path


class Case:
    """A program as files: a shared library, and its input; and what it gives where it runs as usual."""

    def __init__(self, traced: Graph, arrays: Sequence[np.ndarray], target: Target, stem: Path):
        with np.errstate(all="ignore"):
            graph = run_pipeline(traced, Options(), verify=False).final
        code = lower_program(graph, target)
        self.artifact: Artifact = make_artifact(graph, code, target)
        self.files = [stem.with_suffix(suffix) for suffix in (".so", ".in", ".out")]
        compiled: CompiledObject = compile_program_text(code.text, target, verify=True)
        stem.with_suffix(".o").write_bytes(compiled.object_code)
        subprocess.run(["cc", "-shared", "-o", self.files[0], stem.with_suffix(".o")], check=True)
        stem.with_suffix(".txt").write_text(code.text)
        copies = [np.array(array, order="C") for array in arrays]
        self.wanted = native_executable(graph, target).run(copies, copies)
        results = [-1 if r.param >= 0 else int(np.prod(r.shape)) * SHORT_NAMES[r.dtype].itemsize for r in self.artifact.results]
        header = [self.artifact.arena_bytes, self.artifact.alignment, len(arrays), len(results), *(a.nbytes for a in arrays), *results]
        self.files[1].write_bytes(np.array(header, np.int64).tobytes() + b"".join(np.array(array).tobytes() for array in arrays))

    def results(self) -> list[np.ndarray]:
        """What the program gave; fails where it says that an index is out of range."""
        content = self.files[2].read_bytes()
        assert int.from_bytes(content[:8], "little") == 0
        place, arrays = 8, []
        types = [(p.dtype, p.shape) for p in self.artifact.params]
        types += [(r.dtype, r.shape if r.param < 0 else (0,)) for r in self.artifact.results]
        for dtype, shape in types:
            count = int(np.prod(shape))
            arrays.append(np.frombuffer(content, SHORT_NAMES[dtype], count, place).reshape(shape))
            place += arrays[-1].nbytes
        params, own = arrays[:len(self.artifact.params)], arrays[len(self.artifact.params):]
        return [array if result.param < 0 else params[result.param] for array, result in zip(own, self.artifact.results, strict=True)]


def run_under_valgrind(harness: Path, cases: Sequence[Case]) -> None:
    for start in range(0, len(cases), AT_ONCE):
        files = [str(file) for case in cases[start:start + AT_ONCE] for file in case.files]
        done = subprocess.run([*VALGRIND, harness, *files], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    for case in cases:
        for found, wanted in zip(case.results(), case.wanted, strict=True):
            assert np.array_equal(found, wanted, equal_nan=found.dtype.kind in "fc"), case.files[0].stem


def samples(exhaustive: bool) -> Iterator[tuple[str, Graph, Sequence[np.ndarray]]]:
    """One of each op that reads or writes in a pattern of its own, all where windows overlap; or all of these, and one of each elementwise
    op."""
    for name, definition, sample in op_cases():
        elementwise, first = definition.kind is Kind.ELEMENTWISE, name.endswith("-0")
        if definition.external is not None or definition.kind is Kind.EXTERNAL:
            continue        # the harness links no other library
        if (first or not elementwise) if exhaustive else (first and not elementwise) or definition.kind is Kind.WINDOW:
            yield name, sample_graph(definition, sample), sample.arrays


@pytest.mark.share(2)
@for_each_target
def test_samples_of_every_op(harness: Path, target: Target, tmp_path: Path, exhaustive: bool) -> None:
    run_under_valgrind(harness, [Case(graph, arrays, target, tmp_path / name) for name, graph, arrays in samples(exhaustive)])


@for_each_target
def test_random_programs(harness: Path, target: Target, tmp_path: Path, exhaustive: bool) -> None:
    programs = [random_program(Random(seed), 3 + seed % 12, wild=seed % 2 == 1) for seed in range(200 if exhaustive else 12)]
    run_under_valgrind(harness, [
        Case(program.graph, program.arrays, target, tmp_path / f"random_{seed}") for seed, program in enumerate(programs)])


def test_valgrind_sees_what_is_wrong(harness: Path, tmp_path: Path) -> None:
    """One byte less for the result, and a use of memory that nothing was written to."""
    graph = sample_graph(*next((definition, sample) for name, definition, sample in op_cases() if name == "exp-0"))
    arrays = [np.ones(value.type.shape, value.type.dtype) for value in graph.params]
    case = Case(graph, arrays, TARGETS["sse2"], tmp_path / "short")
    words = np.frombuffer(case.files[1].read_bytes(), np.uint8).copy()
    run_under_valgrind(harness, [case])
    words[:48].view(np.int64)[5] -= 1
    case.files[1].write_bytes(words.tobytes())
    with pytest.raises(AssertionError, match="Invalid write"):
        run_under_valgrind(harness, [case])
