"""Vectorization plan of a kernel: lanes, copies of a loop's body, unrolled loops, and the values that each loop computes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import field

import numpy as np

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.kernels.scalar_templates import SUMS_WITH, template_of
from adjit.ir.analysis.kernel_schedule import KernelSchedule, schedule_kernel
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op, Value
from adjit.ir.ops.traits import FREE_IN_KERNELS
from adjit.ir.types import is_float, real_dtype

MAX_UNROLLED_INSTRUCTIONS = 640
"""Maximum instructions of an unrolled row; a longer row is a loop over its columns."""
MAX_UNROLLED_VECTORS = 8


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """The body of one loop over vectors.

    `ops` are in order; `leaves` are vectors that are loaded, `uniforms` are numbers that all lanes share; `reductions` end in the loop.
    Each value of `products` is read by one sum only: product and addition are fused.
    """

    sinks: tuple[Value, ...]
    ops: tuple[Op, ...]
    leaves: tuple[Value, ...]
    uniforms: tuple[Value, ...]
    reductions: tuple[Op, ...]
    products: dict[Value, Op]
    length: int

    def copies(self, vectors: int) -> int:
        """Copies of the body: several independent accumulators hide the latency of additions. Bodies of some dozen instructions overlap by
        themselves, and LLVM takes as long for each copy."""
        short, shorter = (24, 12) if self.reductions else (16, 0)
        return min(4 if self.length <= shorter else 2 if self.length <= short else 1, vectors)


@dataclass(slots=True)
class Walk:
    """Collection of a loop's ops, by a walk back from its sinks."""

    schedule: KernelSchedule
    is_vector: Callable[[Value], bool]
    is_loaded: Callable[[Value], bool]
    width: int
    target: Target
    seen: set[Value] = field(default_factory=set)

    def plan(self, stored: Iterable[Value], reductions: Iterable[Op]) -> LoopPlan:
        producer = self.schedule.producer
        ops: set[Op] = set()
        leaves: list[Value] = []
        uniforms: list[Value] = []
        stored, reductions = tuple(stored), tuple(reductions)
        sinks = tuple(dict.fromkeys([*(op.operands[0] for op in reductions), *stored]))
        front = list(reversed(sinks))
        while front:
            value = front.pop()
            if value in self.seen:
                continue
            self.seen.add(value)
            op = producer.get(value)
            if not self.is_vector(value):
                uniforms.append(value)
            elif op is None or op.name == "iota" or is_slice(op) or self.is_loaded(value):
                leaves.append(value)
            else:
                ops.add(op)
                front.extend(reversed(op.operands))
        ordered = tuple([op for op in self.schedule.region.ops if op in ops])
        length = len(leaves) + len(sinks) + sum(
            template_of(op, self.width, self.target).lines for op in (*ordered, *reductions) if op.name not in FREE_IN_KERNELS)
        products = _only_summed(ordered, stored, reductions)
        made = set(products.values())
        return LoopPlan(tuple([value for value in sinks if value not in products]), tuple([op for op in ordered if op not in made]),
                        tuple(leaves), tuple(uniforms), reductions, products, length)


def is_slice(op: Op | None) -> bool:
    """True if an op is a slice, whose elements are read where they lie."""
    return op is not None and op.name == "slice"


def _only_summed(ops: Iterable[Op], stored: Iterable[Value], reductions: Iterable[Op]) -> dict[Value, Op]:
    """The products that only one sum reads."""
    uses = Counter(value for op in ops for value in op.operands)
    uses.update(stored)
    uses.update(op.operands[0] for op in reductions)
    summed = {op.operands[0] for op in reductions if op.name == "reduce_sum"}
    return {op.result: op for op in ops if op.name in SUMS_WITH and is_float(op.result.type.dtype)
            and op.result in summed and uses[op.result] == 1}


MAX_PATTERN_COPIES = 10


def pattern_copies(schedule: KernelSchedule, lanes: int) -> int:
    """Number of consecutive vectors after which all repeated operands repeat, for a kernel of one column; 0 if there are too many."""
    copies = 1
    sliced = {op.operands[0] for op in schedule.region.ops if is_slice(op)}
    for value in (param for param in schedule.region.params if param not in sliced):
        for size, stride in schedule.maps[value] if schedule.extent(value) == "other" else ():
            period = stride if size * stride == schedule.rows else size * stride
            copies = math.lcm(copies, math.lcm(period, lanes) // lanes)
    return copies if copies <= MAX_PATTERN_COPIES else 0


def flatten(schedule: KernelSchedule, lanes: int) -> KernelSchedule:
    """The kernel flattened to one column, if its rows are too short for vectors and every computed value has one element per position."""
    rows, columns = schedule.rows, schedule.columns
    if columns == 1 or rows == 1 or columns > MAX_PATTERN_COPIES * lanes or (columns % lanes == 0 and columns > lanes):
        return schedule
    if any(map(is_slice, schedule.region.ops)):
        return schedule
    if any(schedule.extent(op.result) not in ("full", "scalar") for op in schedule.region.ops if op.name not in FREE_IN_KERNELS) or any(
            schedule.extent(value) not in ("full", "scalar") for value in schedule.region.results):
        return schedule
    if any(scope != "all" for scope in schedule.scope.values()):
        return schedule
    flat = schedule_kernel(schedule.region, rows * columns, 1)
    return flat if flat.scratch_bytes <= schedule.scratch_bytes and pattern_copies(flat, lanes) else schedule


def choose_lanes(schedule: KernelSchedule, target: Target) -> int:
    """Lanes of a vector: as many as the target has for the element size of most ops."""
    votes: dict[int, int] = {}
    values = [op.result for op in schedule.region.ops if op.name not in FREE_IN_KERNELS] or list(schedule.region.params)
    for value in values:
        if value.type.dtype != np.bool_:
            itemsize = real_dtype(value.type.dtype).itemsize
            votes[itemsize] = votes.get(itemsize, 0) + 1
    sizes = [real_dtype(value.type.dtype).itemsize for value in (*schedule.region.params, *values)]
    itemsize = max(votes, key=lambda size: (votes[size], size)) if votes else max(sizes, default=4)
    return target.lanes(itemsize)


def shorten_lanes(lanes: int, schedule: KernelSchedule) -> int:
    """Fewer lanes, if there are fewer elements than lanes."""
    length = schedule.rows if schedule.columns == 1 else schedule.columns
    while lanes > 2 and lanes // 2 >= length:
        lanes //= 2
    return lanes
