"""Execution of the kernels of a fused graph on NumPy arrays, without the runtime: as plain Python, or compiled and linked."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from support.op_cases import op_cases, sample_graph

from adjit.codegen.llvm.link import CompiledObject, load
from adjit.codegen.numba.compile_kernel import compile_source, python_kernel
from adjit.codegen.numba.kernel_source import KernelSource, lower_fused
from adjit.ir.analysis.kernel_schedule import schedule_kernel
from adjit.ir.definition import Kind, OpDefinition, Sample
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.interpreter import evaluate
from adjit.ir.ops.region import fused
from adjit.ir.types import SHORT_NAMES
from adjit.passes.fusion.fuse_kernels import group_of

CASES: dict[str, list[tuple[str, OpDefinition, Sample]]] = {}
"""Samples that are not empty, by the name of an elementwise op or reduction: case, definition, sample."""

for _case, _definition, _sample in op_cases():
    if _definition.kind in (Kind.ELEMENTWISE, Kind.REDUCTION) and all(array.size for array in _sample.arrays):
        CASES.setdefault(_definition.name, []).append((_case, _definition, _sample))

Runner = Callable[[KernelSource, Sequence[Any], list[tuple[int, int]]], None]


def run_fused(graph: Graph, arrays: Sequence[np.ndarray], runner: Runner, splits: int = 1,
              in_place: bool = False) -> tuple[np.ndarray, ...]:
    """Return the results of a fused graph; every kernel's blocks are run in `splits` ranges, last range first. With `in_place`, results are
    written over operands where the graph allows it.
    """
    known: dict[Value, np.ndarray] = dict(zip(graph.params, (np.array(array, order="C") for array in arrays), strict=True))
    for op in graph.ops:
        operands = [known[value] for value in op.operands]
        if op.name == "fused":
            shared = overwriting(op) if in_place else {}
            outs = run_kernel(op, [array.copy() for array in operands] if shared else operands, runner, splits, shared)
        else:
            outs = list(evaluate(op.definition, operands, op.attrs))
        known.update(zip(op.results, (np.array(array, order="C") for array in outs), strict=True))
    return tuple(known[value].reshape(value.type.shape) for value in graph.results)


def overwriting(op: Op) -> dict[int, int]:
    """Operand that each result of a fused op may overwrite: last results and last operands first."""
    free = list(op.attrs["in_place"])
    shared: dict[int, int] = {}
    for j, value in reversed(list(enumerate(op.results))):
        fitting = [i for i in free if op.operands[i].type.nbytes == value.type.nbytes]
        if fitting:
            shared[j] = fitting[-1]
            free.remove(fitting[-1])
    return shared


def run_kernel(op: Op, operands: Sequence[np.ndarray], runner: Runner, splits: int,
               shared: Mapping[int, int] | None = None) -> list[np.ndarray]:
    """Return the results of one fused op; `shared[j] = i`: result j is written over operand i."""
    shared = shared or {}
    source = lower_fused(op, shared)
    outs = [operands[shared[j]].reshape(value.type.shape) if j in shared else np.full(value.type.shape, 77, value.type.dtype)
            for j, value in enumerate(op.results)]
    scratch = np.full(op.attrs["scratch_bytes"], 0xFF, np.uint8)
    actual: list[Any] = []
    for argument in source.arguments:
        if argument.kind == "size":
            actual.append(argument.index)
        elif argument.kind == "scratch":
            actual.append(scratch[argument.index:][: (scratch.size - argument.index) // 8 * 8].view(SHORT_NAMES[argument.dtype]))
        else:
            array = (operands if argument.kind == "operand" else outs)[argument.index]
            actual.append(array.reshape(-1).view(SHORT_NAMES[argument.dtype]))
    bounds = np.linspace(0, source.blocks, splits + 1).astype(int).tolist()
    parts = [(lo, hi) for lo, hi in itertools.pairwise(bounds) if lo < hi][::-1]
    runner(source, actual, [*parts, (0, 0)] if source.finish else parts)
    return outs


def kernel_of(definition: OpDefinition, sample: Sample) -> Op | None:
    """Return the op alone as a `fused` op; None for a reduction without a kernel."""
    graph = sample_graph(definition, sample)
    group = group_of(graph.ops[0])
    if group is None:
        return None
    region = Graph("alone", graph.params, graph.ops, graph.results)
    schedule = schedule_kernel(region, group.rows, group.columns)
    attrs = {"rows": group.rows, "columns": group.columns, "in_place": schedule.in_place, "scratch_bytes": schedule.scratch_bytes}
    return Op(fused, graph.params, graph.results, attrs, (region,))


def as_python(source: KernelSource, arguments: Sequence[Any], ranges: list[tuple[int, int]]) -> None:
    """Run the kernel's text by the Python interpreter."""
    kernel = python_kernel(source)
    with np.errstate(all="ignore"):
        for lo, hi in ranges:
            kernel(*arguments, lo, hi)


def compiled(source: KernelSource, arguments: Sequence[Any], ranges: list[tuple[int, int]]) -> None:
    """Compile the kernel by Numba, link and run it."""
    run_compiled(compile_source(source), source, arguments, ranges)


def run_compiled(code: CompiledObject, source: KernelSource, arguments: Sequence[Any], ranges: list[tuple[int, int]]) -> None:
    kernel = load(code)
    kinds = [ctypes.c_int64 if argument.kind == "size" else ctypes.c_void_p for argument in source.arguments]
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *kinds, ctypes.c_int64, ctypes.c_int64)(kernel.address)
    spare = ctypes.create_string_buffer(64)
    values = [a if isinstance(a, int) else a.ctypes.data for a in arguments]
    for lo, hi in ranges:
        assert function(ctypes.addressof(spare), ctypes.addressof(spare), *values, lo, hi) == 0


def check_numbers(definition: OpDefinition, found: np.ndarray, wanted: np.ndarray) -> None:
    """Compare the result of a kernel of one op with the op's meaning."""
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted)
    else:
        tolerance = 2e-6 if found.dtype == np.float32 else 1e-14
        # For a subnormal number, NumPy's meaning may be the less exact one.
        absolute = float(np.finfo(found.dtype).tiny) if definition.kind is Kind.ELEMENTWISE else tolerance
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=absolute)
