"""Every elementwise op and reduction as a kernel of its own, run as Python and compiled, against its NumPy meaning."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from typing import Any

import kernel_runs
import numpy as np
import pytest
from kernel_runs import as_python, check_numbers, run_kernel
from op_cases import op_cases, sample_graph

from adjit.codegen.kernel_source import KernelSource
from adjit.codegen.link import CompiledObject
from adjit.codegen.numba_compiler import compile_source
from adjit.ir.definition import Kind, OpDefinition, Sample
from adjit.ir.evaluator import evaluate
from adjit.ir.graph import Graph, Op
from adjit.ir.kernel_schedule import schedule_kernel
from adjit.ir.ops.region import fused
from adjit.passes.fuse_kernels import group_of

CASES = [pytest.param(definition, sample, id=case) for case, definition, sample in op_cases()
         if definition.kind in (Kind.ELEMENTWISE, Kind.REDUCTION) and all(array.size for array in sample.arrays)]


def kernel_of(definition: OpDefinition, sample: Sample) -> Op | None:
    """The op alone as a `fused` op; None for a reduction that no kernel runs."""
    graph = sample_graph(definition, sample)
    group = group_of(graph.ops[0])
    if group is None:
        return None
    region = Graph("alone", graph.params, graph.ops, graph.results)
    schedule = schedule_kernel(region, group.rows, group.columns)
    attrs = {"rows": group.rows, "columns": group.columns, "in_place": schedule.in_place, "scratch_bytes": schedule.scratch_bytes}
    return Op(fused, graph.params, graph.results, attrs, (region,))


@cache
def compiled_text(text: str, source: KernelSource) -> CompiledObject:
    return compile_source(source)


def compiled_once(source: KernelSource, arguments: Sequence[Any], ranges: list[tuple[int, int]]) -> None:
    """As `kernel_runs.compiled`; equal texts, for other shapes, are compiled once."""
    unsized = tuple(dataclasses.replace(argument, index=0) for argument in source.arguments)
    plain = dataclasses.replace(source, arguments=unsized, blocks=0, work=0.0, name="")
    kernel_runs.run_compiled(compiled_text(source.text, plain), source, arguments, ranges)


@pytest.mark.parametrize(("definition", "sample"), CASES)
def test_kernel_equals_numpy(definition: OpDefinition, sample: Sample) -> None:
    op = kernel_of(definition, sample)
    if op is None:
        assert definition.kind is Kind.REDUCTION
        (array,), axes = sample.arrays, sample.attrs["axes"]
        assert 0 < len(axes) < array.ndim or np.prod([array.shape[a] for a in axes]) == 1
        return
    arrays = [np.array(array, order="C") for array in sample.arrays]
    (wanted,) = evaluate(definition, arrays, sample.attrs)
    for runner in (as_python, compiled_once):
        (found,) = run_kernel(op, arrays, runner, splits=2)
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        check_numbers(definition, found, wanted)
