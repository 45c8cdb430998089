"""Schedule of a kernel: the loop in which each value of a fused region is computed, stored, loaded and cached.

A kernel goes through blocks of rows; the blocks are independent, and their number depends on the shape alone, so that results do not depend
on the distribution over threads. The level of a value is

    "kernel"   computed once for each call (numbers),
    "row"      computed once a row,
    "element"  computed at each column of a row, in the loop of its stage: a reduction along the row ends a stage,
    "post"     computed after all rows, from the partial sums of the blocks.

Inside a row, an element-level value that a later stage needs is recomputed, unless that is expensive: then it is cached in a buffer of one
row, which stays in the L1 cache.
"""

from __future__ import annotations

from dataclasses import field

from adjit.ir.analysis.iteration_space import IndexMap, infer_maps, map_extent, reduction_scope
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, Value, producers
from adjit.ir.memory_sizes import aligned
from adjit.ir.ops.traits import CACHED_OPS

LEVELS = ("kernel", "row", "element", "post")

MAX_RECOMPUTE_COST = 5.0
"""Instructions that cost as much as storing and loading a value; a load counts 0.5."""


@dataclass(frozen=True, slots=True)
class KernelRule:
    """Sizes by which a target cuts kernels. Scratch memory and fusion follow from them, so passes and code generation read the same rule.

    elements_per_block           positions from which on a block has enough to do
    max_blocks_with_sums         most blocks of a kernel with sums of everything, each of which leaves a partial sum; None: any number
    max_blocks_with_column_sums  most blocks of a kernel with sums down the columns, each of which leaves a row of partial sums
    max_blocks_with_buffers      most blocks of a kernel with row buffers
    row_buffers                  True if values that later stages need are cached in a buffer of one row; False: they stay in registers
    max_single_row               most elements of a kernel with only one row; a longer one could not be split over threads
    max_column_sums              most columns of which a kernel computes sums
    overwrites_numbers           True if a result may lie in the memory of a parameter with one element a row, or one in all
    product_epilogues            True if products take epilogues whatever the size of the cache
    """

    elements_per_block: int = 1 << 14
    max_blocks_with_sums: int | None = None
    max_blocks_with_column_sums: int = 16
    max_blocks_with_buffers: int = 32
    row_buffers: bool = True
    max_single_row: int = 1 << 16
    max_column_sums: int = 1 << 14
    overwrites_numbers: bool = True
    product_epilogues: bool = False


CPU_RULE = KernelRule()
"""Rule of all backends for processors."""


@dataclass(slots=True)
class KernelSchedule:
    """Plan of one kernel; see the module's docstring."""

    region: Graph
    rows: int
    columns: int
    maps: dict[Value, IndexMap]
    producer: dict[Value, Op]
    level: dict[Value, str] = field(default_factory=dict)
    stage: dict[Value, int] = field(default_factory=dict)         # row level: the stage before which the value is known
    scope: dict[Value, str] = field(default_factory=dict)         # of results of reductions
    cached: set[Value] = field(default_factory=set)                 # element-level values that later stages load
    stages: int = 1
    rows_per_block: int = 1
    blocks: int = 0
    scratch: dict[Value, int] = field(default_factory=dict)       # byte offsets of partial results and of buffers
    scratch_bytes: int = 0
    in_place: tuple[int, ...] = ()

    @property
    def partials(self) -> list[Value]:
        """Reductions of which every block computes a partial result."""
        return [value for value, scope in self.scope.items() if scope in ("columns", "all", "rows")]

    def extent(self, value: Value) -> str:
        return map_extent(self.maps[value], self.rows, self.columns)

    def is_stored(self, value: Value) -> bool:
        return value in self.region.results

    def element_sinks(self, stage: int) -> list[Value]:
        """Values that the inner loop of a stage has to compute: operands of its reductions, outputs, and values cached for later stages."""
        return list(dict.fromkeys([*(op.operands[0] for op in self.element_reductions(stage)), *self.stored_elements(stage)]))

    def stored_elements(self, stage: int) -> list[Value]:
        """Values that the inner loop of a stage writes: outputs, and values cached for later stages."""
        stored = [value for value in dict.fromkeys(self.region.results)
                  if self.extent(value) == "full" and self.level[value] != "post" and self.stage_of_use(value) == stage]
        stored += [value for value in self.stage if value in self.cached and self.stage[value] == stage]
        return list(dict.fromkeys(stored))

    def element_reductions(self, stage: int) -> list[Op]:
        """Reductions whose operand is complete in the inner loop of a stage."""
        return [op for op in self.region.ops if self.scope.get(_result(op)) in ("inner", "columns", "all")
                and self.columns > 1 and self.stage_of_use(op.operands[0]) == stage]

    def post_stages(self) -> dict[Value, int]:
        """Number of reductions over columns that come before each post-level value."""
        stages: dict[Value, int] = {}
        for op in self.region.ops:
            if self.level[op.result] == "post":
                stage = max((stages.get(value, 0) for value in op.operands), default=0)
                stages[op.result] = stage + (self.scope.get(op.result) == "post")
        return stages

    def stage_of_use(self, value: Value) -> int:
        return self.stage.get(value, 0)

    def is_cached(self, value: Value, stage: int) -> bool:
        """True if the loop of `stage` loads the value from a buffer."""
        return value in self.cached and self.stage[value] < stage


def schedule_kernel(region: Graph, rows: int, columns: int, rule: KernelRule = CPU_RULE) -> KernelSchedule:
    """Schedule of a fused region over `rows` x `columns`, for a target with this rule."""
    schedule = KernelSchedule(region, rows, columns, infer_maps(region, rows * columns, rows), producers(region))
    _assign_levels(schedule)
    if rule.row_buffers:
        _choose_cached(schedule)
    _choose_blocks(schedule, rule)
    _assign_scratch(schedule)
    schedule.in_place = _in_place(schedule, rule)
    return schedule


def _result(op: Op) -> Value:
    return op.results[0]


def _assign_levels(s: KernelSchedule) -> None:
    for value in s.region.params:
        s.level[value] = _level_of_map(s.maps[value], s.rows, s.columns)
    for op in s.region.ops:
        value = op.result
        if op.definition.kind is Kind.CREATION:
            s.level[value] = "kernel" if op.definition.uniform else _level_of_map(s.maps[value], s.rows, s.columns)
            continue
        before = max((s.level[v] for v in op.operands), key=LEVELS.index)
        s.level[value] = before
        s.stage[value] = max(s.stage.get(v, 0) for v in op.operands)
        if op.definition.kind is Kind.REDUCTION:
            scope = reduction_scope(s.maps[op.operands[0]], s.maps[value], s.rows, s.columns)
            if scope is None:
                raise ValueError(f"one kernel cannot run {op.name} of {op.operands[0].type}")
            s.scope[value] = scope
            s.level[value] = "row" if scope == "inner" else "post"
            s.stage[value] += 1
        s.stages = max(s.stages, s.stage[value] + 1 if s.level[value] in ("row", "element") else 1)


def _level_of_map(index_map: IndexMap, rows: int, columns: int) -> str:
    if not index_map:
        return "kernel"
    return "row" if all(stride % columns == 0 for _, stride in index_map) else "element"


def _choose_cached(s: KernelSchedule) -> None:
    """Choose the cached values: walk back from the values that each loop computes, last loop first; an expensive value of an earlier loop
    is cached there."""
    for stage in range(s.stages - 1, -1, -1):
        seen: set[Value] = set()
        worklist = s.element_sinks(stage)
        while worklist:
            value = worklist.pop()
            op = s.producer.get(value)
            if value in seen or op is None or s.level[value] != "element":
                continue
            seen.add(value)
            if s.stage.get(value, 0) < stage and (op.name in CACHED_OPS or value in s.cached or _is_expensive(s, value)):
                s.cached.add(value)
                continue
            worklist += op.operands


def _is_expensive(s: KernelSchedule, value: Value) -> bool:
    """True if recomputing a value takes many instructions."""
    cost, seen, worklist = 0.0, {value}, [value]
    while worklist and cost <= MAX_RECOMPUTE_COST:
        value = worklist.pop()
        op = s.producer.get(value)
        if s.level[value] != "element":
            continue
        if op is None or value in s.cached or op.name in CACHED_OPS:
            cost += 0.5
            continue
        cost += op.definition.instructions
        worklist += [operand for operand in op.operands if operand not in seen]
        seen.update(op.operands)
    return cost > MAX_RECOMPUTE_COST


def _choose_blocks(s: KernelSchedule, rule: KernelRule) -> None:
    if not has_row_work(s):
        return
    rows = max(1, rule.elements_per_block // s.columns)
    if s.partials and rule.max_blocks_with_sums is not None:
        rows = max(rows, -(-s.rows // rule.max_blocks_with_sums))
    if any(s.scope[value] == "columns" for value in s.partials):
        rows = max(rows, -(-s.rows // rule.max_blocks_with_column_sums))
    if s.cached:
        rows = max(rows, -(-s.rows // rule.max_blocks_with_buffers))
    s.rows_per_block = min(rows, s.rows)
    s.blocks = -(-s.rows // s.rows_per_block)


def has_row_work(s: KernelSchedule) -> bool:
    """True if anything is computed for rows; false if the kernel only handles numbers and finished sums."""
    return bool(s.partials) or any(s.extent(v) in ("full", "row") or s.level[v] in ("row", "element") for v in s.region.results)


def _assign_scratch(s: KernelSchedule) -> None:
    for value in s.partials:
        _reserve(s, value, s.blocks * value.type.nbytes)
    for value in s.stage:
        if value in s.cached and not (s.is_stored(value) and s.extent(value) == "full"):
            _reserve(s, value, s.blocks * s.columns * value.type.dtype.itemsize)


def _reserve(s: KernelSchedule, value: Value, size: int) -> None:
    s.scratch[value] = s.scratch_bytes
    s.scratch_bytes += aligned(size)


def _in_place(s: KernelSchedule, rule: KernelRule) -> tuple[int, ...]:
    """Parameters whose memory any result of the same size may take: the result has the same dtype, and each element is last read where it
    is overwritten."""
    last_read = _last_reads(s)
    eligible = []
    for index, param in enumerate(s.region.params):
        rivals = [v for v in s.region.results if v.type.nbytes == param.type.nbytes]
        if rivals and all(_may_overwrite(s, rule, param, value, last_read.get(param, 0)) for value in rivals):
            eligible.append(index)
    return tuple(eligible)


def _may_overwrite(s: KernelSchedule, rule: KernelRule, param: Value, result: Value, last_read: int) -> bool:
    if param.type.dtype != result.type.dtype or s.maps[param] != s.maps[result] or s.producer.get(result) is None:
        return False
    extent = s.extent(param)
    if extent == "full":
        return s.level[result] != "post" and s.stage.get(result, 0) >= last_read
    if not rule.overwrites_numbers and (s.columns > 1 or extent != "row"):
        return False
    return extent in ("row", "scalar") and (extent == "row") == (s.level[result] != "post")


def _last_reads(s: KernelSchedule) -> dict[Value, int]:
    """Last stage whose loop loads each parameter."""
    last: dict[Value, int] = {}
    for stage in range(s.stages):
        seen: set[Value] = set()
        worklist = s.element_sinks(stage)
        while worklist:
            value = worklist.pop()
            if value in seen or s.is_cached(value, stage):
                continue
            seen.add(value)
            if value in s.producer:
                if s.level[value] == "element":
                    worklist += s.producer[value].operands
            else:
                last[value] = stage
    return last

