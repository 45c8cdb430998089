"""Reports on a program and on its backward half, if there is one: graphs, kernels, memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from adjit.ir.printer import print_graph
from adjit.runtime.caches.program_cache import CacheInfo
from adjit.runtime.native.executable import NativeExecutable
from adjit.runtime.program import Program
from adjit.runtime.reports.kernel_texts import kernel_texts_of
from adjit.runtime.reports.memory_blocks import format_bytes, html_table
from adjit.runtime.reports.memory_report import MemoryReport, both_halves, memory_report
from adjit.runtime.reports.native_report import step_assembly
from adjit.tracer.user_location import find_user_location, warn_user

STAGES = ("traced", "adjoint", "optimized", "fused", "planned")


def check_stage(stage: str) -> None:
    """Raise `ValueError` for an unknown stage."""
    if not isinstance(stage, str) or stage not in STAGES:
        raise ValueError(f"unknown stage {stage!r}; the stages are {', '.join(STAGES)}")


def graph_text(program: Program, stage: str) -> str:
    """The text of the graph at a stage; of both halves, from the stage on at which they are separate."""
    text = print_graph(program.pipeline.graphs[stage])
    backward = program.backward
    return text if backward is None or stage in ("traced", "adjoint") else f"{text}\n{print_graph(backward.pipeline.graphs[stage])}"


def kernel_texts(program: Program) -> dict[str, str]:
    """The generated code of each kernel, by name, in the order of their first use; then the kernels of the backward half."""
    return _of_halves(program, kernel_texts_of)


def assembly_texts(program: Program) -> dict[str, str]:
    """The instructions of each kernel, by the same names; empty for backends without machine code of their own."""
    return _of_halves(program, lambda executable: step_assembly(executable) if isinstance(executable, NativeExecutable) else {})


def _of_halves(program: Program, texts_of: Callable[[Any], dict[str, str]]) -> dict[str, str]:
    texts = texts_of(program.executable)
    backward = program.backward
    if backward is not None:
        for name, text in texts_of(backward.executable).items():
            texts[name if texts.get(name, text) == text else f"{name} of the backward half"] = text
    return texts


def memory_of(program: Program) -> MemoryReport:
    """The memory report."""
    forward = memory_report(program.pipeline.graphs["optimized"], program.planned)
    backward = program.backward
    if backward is None:
        return forward
    assert program.tensors is not None
    assert program.tensors.operation is not None
    return both_halves(forward, memory_report(backward.pipeline.graphs["optimized"], backward.planned), program.planned, backward.planned,
                       [program.tensors.result_number(location) for location in program.tensors.operation.saved])


def html_of(name: str, programs: Sequence[Program], info: CacheInfo) -> str:
    """Table of the programs of a compiled function, for notebooks."""
    rows = [(", ".join(map(str.strip, program.signature.descriptions()[:MAX_ARGUMENTS])), program.reason, program.calls,
             f"{program.milliseconds.total:.1f}", format_bytes(program.executable.assignment.arena_bytes)) for program in programs]
    return f"<p>compiled <b>{escape(name)}</b>: {info.traces} traces, {info.hits} hits</p>" + html_table(
        ("arguments", "traced because", "calls", "compiled in ms", "working memory"), rows)


MAX_ARGUMENTS = 6
"""Arguments of a program that a table names."""


def warn_of_traces(function: str, traces: int, reason: str) -> None:
    """Warn that calls are slow because each call is traced again."""
    location = find_user_location()
    where = f", now at {location}" if location else ""
    warn_user(
        f"{function} was traced {traces} times{where}; the last time because: {reason}. "
        "Pass values that change from call to call as arrays or floats: a new value of such an argument needs no new trace",
        RuntimeWarning)
