"""Launches of a `fused` op: one for its rows or elements, and one after all blocks if sums need it."""

from __future__ import annotations

from adjit.codegen.cuda.finish import FinishWriter
from adjit.codegen.cuda.flat import FlatWriter
from adjit.codegen.cuda.kernel import Launch
from adjit.codegen.cuda.rows import RowPlan, RowsWriter
from adjit.codegen.cuda.target import (
    DEVICE_RULE,
    ELEMENTS_A_THREAD,
    MAX_ELEMENT_BYTES_A_THREAD,
    MAX_THREADS,
    TEAM_THREADS,
    WARP,
)
from adjit.codegen.cuda.text import widest
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.native.kernels.block_combine import post_results
from adjit.codegen.native.kernels.plan import is_slice
from adjit.ir.analysis.kernel_schedule import KernelSchedule, has_row_work, schedule_kernel
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.ops.region import fused
from adjit.ir.ops.traits import FREE_IN_KERNELS
from adjit.ir.types import is_complex


def lower_fused(op: Op, memory: Memory) -> list[Launch]:
    """The launches of a `fused` op, in order."""
    (region,) = op.regions
    schedule = flattened(schedule_kernel(region, op.attrs["rows"], op.attrs["columns"], DEVICE_RULE))
    launches = []
    blocks = 1
    if has_row_work(schedule):
        if schedule.columns == 1:
            flat = FlatWriter(schedule, memory, choose_vector(schedule, memory, schedule.rows))
            launches.append(flat.write())
            blocks = flat.blocks
        else:
            launches.append(RowsWriter(schedule, memory, plan_rows(schedule, memory)).write())
            blocks = schedule.blocks
    if post_results(schedule):
        launches.append(FinishWriter(schedule, memory, blocks).write())
    return launches


def lower_alone(op: Op, memory: Memory) -> list[Launch]:
    """The launches of one elementwise op, or of one that makes numbers; none if there are no elements."""
    if not op.result.type.size:
        return []
    params, result = tuple(Value(value.type) for value in op.operands), Value(op.result.type)
    region = Graph(op.name, params, (Op(op.definition, params, (result,), op.attrs, loc=op.loc),), (result,))
    attrs = {"rows": op.result.type.size, "columns": 1, "in_place": (), "scratch_bytes": 0}
    return lower_fused(Op(fused, op.operands, op.results, attrs, (region,), op.loc, op.role), memory)


def flattened(schedule: KernelSchedule) -> KernelSchedule:
    """The kernel with one column, if every value has one element a position, or one in all."""
    s = schedule
    values = (*s.region.params, *s.region.results, *(op.result for op in s.region.ops if op.name not in FREE_IN_KERNELS))
    if s.columns == 1 or any(map(is_slice, s.region.ops)) or any(s.extent(value) not in ("full", "scalar") for value in values) or any(
            scope != "all" for scope in s.scope.values()):
        return s
    flat = schedule_kernel(s.region, s.rows * s.columns, 1, DEVICE_RULE)
    return flat if flat.scratch_bytes <= s.scratch_bytes else s


def choose_vector(schedule: KernelSchedule, memory: Memory, length: int) -> int:
    """Elements of the widest load of all arrays that a thread reads and writes."""
    if any(is_complex(value.type.dtype) for value in (*schedule.region.params, *schedule.region.results)):
        return 1
    return widest(_itemsize(schedule), length, memory.alignment)


def _itemsize(schedule: KernelSchedule) -> int:
    return max(value.type.dtype.itemsize for value in (*schedule.region.params, *schedule.region.results))


def plan_rows(schedule: KernelSchedule, memory: Memory) -> RowPlan:
    """Threads for the rows of a kernel: as few as can hold a row in registers without being slow."""
    columns, itemsize = schedule.columns, _itemsize(schedule)
    vector = choose_vector(schedule, memory, columns)
    most = MAX_THREADS * (MAX_ELEMENT_BYTES_A_THREAD // itemsize)
    held = max(ELEMENTS_A_THREAD // vector, 1) * vector
    team = 1
    while team < MAX_THREADS and team * held < columns:
        team *= 2
    threads = team if team > WARP else TEAM_THREADS
    if columns > most and not any(scope == "columns" for scope in schedule.scope.values()):
        return RowPlan(threads, team, vector, 0)
    return RowPlan(threads, team, vector, -(-columns // (team * vector)))
