"""What the compiler makes of the nine workloads of `benchmarks/workloads.py`: kernels, bytes moved, memory, saved values.

`pytest --update-golden` writes the numbers anew into `golden/counts.txt`; a look at the difference tells what a change of the compiler did.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from support.project import ROOT

from adjit.codegen.numba.kernel_source import KernelSource, lower_fused
from adjit.ir.analysis.buffer_assignment import arena_bytes
from adjit.ir.graph import Graph, Op, Slot
from adjit.ir.ops.traits import ALIASES
from adjit.passes.autodiff.partition.choose_saved_values import saved_bytes, saved_values
from adjit.passes.memory.plan_memory import peak_bytes
from adjit.passes.options import Options
from adjit.passes.pipeline import PIPELINE
from adjit.runtime.program import Program
from adjit.runtime.reports.memory_report import memory_report

GOLDEN = Path(__file__).parent / "golden" / "counts.txt"
MB = 1_000_000


sys.path.insert(0, str(ROOT / "benchmarks"))

from workloads import WORKLOADS  # noqa: E402


@cache
def program(name: str) -> Program:
    """The workload at full size, with every pass run and no kernel compiled."""
    workload = WORKLOADS[name](backend="interpret")
    return workload.function.program(workload.function.fun, workload.arguments, {})


def steps(graph: Graph) -> list[Op]:
    """The ops of a planned graph that run: no `free`, and no reshape that is an alias."""
    place = {value: Slot("param", index) for index, value in enumerate(graph.params)}
    place.update((value, slot) for op in graph.ops for value, slot in zip(op.results, op.slots, strict=False))
    return [op for op in graph.ops if op.name != "free"
            and not (op.name in ALIASES and place.get(op.operands[0]) == op.slots[0])]


def kernels(graph: Graph) -> list[KernelSource]:
    return [lower_fused(op) for op in graph.ops if op.name == "fused"]


def texts(sources: list[KernelSource]) -> set[tuple[str, tuple[str, ...]]]:
    return {(source.text, tuple(argument.dtype for argument in source.arguments)) for source in sources}


def bytes_moved(graph: Graph) -> int:
    """What all ops read and write, each operand and result once."""
    return sum(value.type.nbytes for op in steps(graph) for value in (*op.operands, *op.results))


def counts(name: str) -> str:
    """One block of the golden file."""
    graphs = program(name).pipeline.graphs
    optimized, planned = graphs["optimized"], graphs["planned"]
    sources = kernels(planned)
    numpy = Counter(op.name for op in steps(planned) if op.name != "fused")
    lines = [
        f"{name}",
        f"    kernels        {len(sources)}, {len(texts(sources))} different",
        f"    NumPy steps    {sum(numpy.values())}" + "".join(f", {count} {op}" for op, count in sorted(numpy.items())),
        f"    bytes moved    {bytes_moved(planned):,}",
        f"    peak           {peak_bytes(graphs['fused']):,}",
        f"    arena          {arena_bytes(planned):,}",
        f"    saved          {saved_bytes(optimized):,}; {memory_report(optimized, planned).saved_bytes:,} of it in memory"]
    lines += [f"        {line}" for line in saved_set(optimized)]
    return "\n".join(lines)


def saved_set(optimized: Graph) -> list[str]:
    """What is kept for the backward half, with the source lines; equal lines once, with their number."""
    makers = {value: op for op in optimized.ops for value in op.results}
    lines = Counter(f"{value.type} {makers[value].name}{_source(makers[value])}" for value in saved_values(optimized))
    return [line if count == 1 else f"{count} x {line}" for line, count in lines.items()]


def _source(op: Op) -> str:
    return f": {op.loc.source()}" if op.loc and op.loc.source() else ""


def read_golden() -> dict[str, str]:
    text = GOLDEN.read_text() if GOLDEN.exists() else ""
    blocks = [block for block in re.split(r"\n(?=\S)", text.strip()) if block and not block.startswith("#")]
    return {block.split("\n")[0]: block.rstrip() for block in blocks}


def test_counts_are_those_of_the_golden_file(update_golden: bool) -> None:
    found = {name: counts(name) for name in WORKLOADS}
    if update_golden:
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text("# Written by: pytest tests/passes/test_golden_counts.py --update-golden\n" + "\n".join(found.values()) + "\n")
    expected = read_golden()
    assert list(expected) == list(found)
    for name in found:
        assert found[name] == expected[name]


@pytest.mark.parametrize(("name", "limit"), [("lnsm", 84 * MB / 20), ("transformer", 38 * MB), ("mlp", 2.4 * MB)])
def test_the_arena_is_within_its_target(name: str, limit: float) -> None:
    assert 0 < arena_bytes(program(name).planned) <= limit


@pytest.mark.parametrize("name", ["chain", "lnsm"])
def test_forward_and_backward_half_are_one_kernel(name: str) -> None:
    assert [op.name for op in steps(program(name).planned)] == ["fused"]


def test_logreg_is_two_matmuls_and_two_kernels() -> None:
    names = Counter(op.name for op in steps(program("logreg").planned))
    assert names["fused"] <= 2
    assert names["matmul"] == 2


def test_updates_fuse_into_as_few_kernels_as_there_are_shapes() -> None:
    """Adam on a parameter is one kernel, whose text does not depend on the shape."""
    planned = program("mlp").planned
    updates = [op for op in planned.ops if op.role.value == "update"]
    shapes = {value.type for value, role in zip(planned.params, planned.param_roles, strict=True) if role == "donated" and value.type.rank}
    assert {op.name for op in updates if op.results[0].type.rank} == {"fused"}
    assert len(texts([lower_fused(op) for op in updates if op.name == "fused"])) <= len(shapes)
    assert sum(op.results[0].type.rank > 0 for op in updates) == len(shapes) == 6


def test_every_donated_parameter_is_updated_in_place() -> None:
    for name in ("mlp", "transformer", "cnn", "rnn", "tiny"):
        planned = program(name).planned
        written = {slot.offset for op in steps(planned) for slot in op.slots if slot.space == "param"}
        assert written == {index for index, role in enumerate(planned.param_roles) if role == "donated"}, name


@pytest.mark.parametrize("name", WORKLOADS)
def test_fusion_moves_less_and_needs_little_more_memory(name: str) -> None:
    """Compared with the same program without fusion. A kernel waits for its last operand while the others lie in memory, but only for so
    many (`fuse_kernels.MAX_LIVE_INPUTS`).
    """
    found = program(name)
    graph = found.pipeline.graphs["optimized"]
    for step in PIPELINE[-2:]:
        graph = step.run(graph, Options())
    assert bytes_moved(found.planned) < bytes_moved(graph)
    assert arena_bytes(found.planned) <= arena_bytes(graph) * 4 / 3
