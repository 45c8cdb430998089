"""Kernels over rows: a team of threads holds a row in registers through all stages, so that memory is read once and written once.

A block goes through some rows, one for each of its teams at a time. Sums along a row: own elements as a tree, then lanes, then warps in
order, so that bits do not depend on anything but the shape. Sums down the columns, over values of rows and of everything leave a part a
block. A row that is too long for registers is streamed: each stage reads it again, and computes again what earlier stages computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adjit.codegen.cuda.kernel import Launch
from adjit.codegen.cuda.target import MIN_DIVISIONS_FOR_INVERSE, WARP
from adjit.codegen.cuda.writer import Element, KernelWriter, Memory
from adjit.codegen.native.kernels.builder import Index
from adjit.codegen.native.kernels.scalar_templates import QUOTIENTS_BY_NUMBER
from adjit.ir.analysis.kernel_schedule import KernelSchedule
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op, Value

Sums = dict[tuple[Value, Element], str]
"""Partial sums of this thread: for each of its columns, or one in all."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How rows are cut: threads of a block, of which `team` share a row; elements of a vector, and vectors of a thread, 0 if rows are
    streamed."""

    threads: int
    team: int
    vector: int
    groups: int

    @property
    def teams(self) -> int:
        """Rows that a block works on at a time."""
        return self.threads // self.team


class RowsWriter(KernelWriter):
    """Writer of the kernel that goes through rows."""

    def __init__(self, schedule: KernelSchedule, memory: Memory, plan: RowPlan):
        super().__init__(schedule, memory, plan.threads, plan.vector, schedule.blocks)
        self.plan = plan
        self.streams = plan.groups == 0
        reach = plan.team * plan.vector * max(plan.groups, 1)
        self.whole = schedule.columns % reach == 0 if self.streams else schedule.columns == reach
        self.inside: list[str] = []             # of each vector of this thread: true if it lies in the row
        self.valid = ""                         # true if there is a row for this team
        self.member = ""                        # number of the thread in its team
        self.first = ""                         # true for the first thread of a team

    @property
    def elements(self) -> range:
        return range(max(self.plan.groups, 1) * self.vector)

    def write(self) -> Launch:
        s, text, plan = self.s, self.text, self.plan
        self.bind("write")
        rows, run = self.number(s.rows), self.number(s.rows_per_block)
        self.thread, block = text.thread(), text.block_number()
        self.member = self.thread if plan.teams == 1 else text.let(f"and i64 {self.thread}, {plan.team - 1}")
        self.first = text.compare("eq", self.member, 0)
        self.define("kernel")
        if not self.streams:
            self.place_vectors(0)
        sums = {key: self.neutral(s.producer[key[0]]) for value in s.partials for key in self.keys(value)}
        start = text.let(f"mul nsw i64 {block}, {run}")
        stop = text.smaller(str(text.plus(start, run)), rows)
        with text.for_range(start, stop, plan.teams, self.carried(sums)) as loop, self.scope():
            sums = dict(zip(sums, loop.values, strict=True))
            self.choose_row(loop.counter, stop)
            shared = text.shared_bytes
            (self.stream_row if self.streams else self.write_row)(sums)
            if text.shared_bytes > shared and s.rows_per_block > plan.teams:
                text.barrier()                  # the next row writes what is still being read
            loop.following = list(sums.values())
        self.store_sums(dict(zip(sums, loop.values, strict=True)), block)
        return self.launch("rows", s.blocks)

    def carried(self, sums: Sums) -> list[tuple[str, str]]:
        return [(self.text.element(value.type.dtype), name) for (value, _), name in sums.items()]

    def keys(self, value: Value) -> list[tuple[Value, Element]]:
        return [(value, at) for at in self.elements] if self.s.scope[value] == "columns" else [(value, None)]

    def choose_row(self, counter: str, stop: str) -> None:
        """The row of this team: the last one again, if there is none for it."""
        text = self.text
        self.row = counter
        if self.plan.teams > 1:
            own = text.plus(counter, text.lshr(self.thread, self.plan.team.bit_length() - 1))
            self.valid = text.compare("slt", own, stop)
            self.row = text.smaller(own, text.plus(stop, -1))
        if not self.streams:
            self.place_row()

    def place_vectors(self, column: Index) -> None:
        """The vectors of this thread, from a column on. One that lies outside of the row reads the row's last vector again."""
        s, text, reach = self.s, self.text, self.plan.team * self.vector
        own = text.plus(text.times(self.member, self.vector), column)
        self.starts, self.inside = [], []
        for group in range(max(self.plan.groups, 1)):
            start = text.plus(own, group * reach)
            if not self.whole:
                self.inside.append(text.compare("slt", start, s.columns))
                start = text.smaller(start, s.columns - self.vector)
            self.starts.append(start)

    def place_row(self) -> None:
        base = self.text.times(self.row, self.s.columns)
        self.row_starts = [self.text.plus(base, start) for start in self.starts]

    def load(self, pointer: str, dtype: np.dtype, index: Index, width: int = 1, align: int = 0) -> list[str]:
        """Elements of memory. What other threads overwrite is not read: neither rows nor vectors that are there for other threads."""
        if pointer in self.constants or (self.whole and not self.valid):
            return super().load(pointer, dtype, index, width, align)
        group = self.row_starts.index(index)
        text, type = self.text, self.text.element(dtype)
        condition = self.valid if self.whole else self.inside[group]
        if self.valid and not self.whole:
            condition = text.both(self.valid, condition)
        zero = "zeroinitializer" if type.startswith("<") else text.literal(0, dtype)
        with text.if_(condition, [(type, zero)] * width) as branch:
            branch.following = super().load(pointer, dtype, index, width, align)
        return list(branch.values)

    # -- one row

    def write_row(self, sums: Sums) -> None:
        s = self.s
        for value in s.region.params:           # all loads first: they are in flight together
            is_read = value in self.pointers and s.level[value] == "element" and not self.is_sliced(value)
            if is_read and s.extent(value) in ("full", "column"):
                for at in self.elements:
                    self.need(value, at)
        for stage in range(s.stages):
            self.begin_stage(stage, sums)
            for op in s.element_reductions(stage):
                names = self.names_inside(op, [self.need(op.operands[0], at) for at in self.elements])
                if s.scope[op.result] == "columns":
                    for at, name in zip(self.elements, names, strict=True):
                        self.add(sums, op, at, name)
                elif s.scope[op.result] == "all":
                    self.add(sums, op, None, self.tree(op, names))
                else:
                    self.scopes[-1][op.result, None] = self.over_team(op, self.tree(op, names))
            self.store_elements(s.stored_elements(stage))

    def is_sliced(self, value: Value) -> bool:
        return any(op.name == "slice" and op.operands[0] is value for op in self.s.region.ops)

    def stream_row(self, sums: Sums) -> None:
        """Each stage as a loop over the columns."""
        s, text = self.s, self.text
        for stage in range(s.stages):
            self.begin_stage(stage, sums)
            reductions, stored = s.element_reductions(stage), s.stored_elements(stage)
            if not reductions and not stored:
                continue
            own: Sums = {(op.result, None): sums[op.result, None] if s.scope[op.result] == "all" else self.neutral(op)
                         for op in reductions}
            with text.for_range(0, s.columns, self.plan.team * self.vector, self.carried(own)) as loop, self.scope():
                self.place_vectors(loop.counter)
                self.place_row()
                inner = dict(zip(own, loop.values, strict=True))
                for op in reductions:
                    names = self.names_inside(op, [self.need(op.operands[0], at) for at in self.elements])
                    inner[op.result, None] = self.combined(op, inner[op.result, None], self.tree(op, names))
                self.store_elements(stored)
                loop.following = list(inner.values())
            for op, name in zip(reductions, loop.values, strict=True):
                if s.scope[op.result] == "all":
                    sums[op.result, None] = name
                else:
                    self.scopes[-1][op.result, None] = self.over_team(op, name)

    def begin_stage(self, stage: int, sums: Sums) -> None:
        """What is known of a row before the elements of a stage: numbers, which are stored, and inverses of divisors."""
        s, text = self.s, self.text
        self.define("row", stage)
        for value in s.partials:
            op = s.producer[value]
            if s.scope[value] == "rows" and s.stage.get(op.operands[0], 0) == stage:
                self.add(sums, op, None, self.need(op.operands[0]))
        for value in dict.fromkeys(s.region.results):
            is_number = s.extent(value) == "row" or (s.extent(value) == "scalar" and s.level[value] == "row")
            if is_number and s.level[value] not in ("post", "kernel") and s.stage.get(value, 0) == stage:
                name = self.need(value)
                with text.where(self.first, self.valid):
                    text.write([name], self.results[value], value.type.dtype, self.row if s.extent(value) == "row" else 0)
        for op in s.region.ops:
            divisor = op.operands[-1] if op.name in QUOTIENTS_BY_NUMBER else None
            if (divisor is not None and self.is_element(op.result) and not self.is_element(divisor) and s.stage.get(divisor, 0) <= stage
                    and self.find((divisor, "inverse")) is None and (self.streams or len(self.elements) >= MIN_DIVISIONS_FOR_INVERSE)):
                dtype = divisor.type.dtype
                inverse = self.scopes[-1][divisor, "inverse"] = text.exact_inverse(self.need(divisor), dtype)
                self.scopes[-1][divisor, "zero"] = text.let(f"fmul {text.element(dtype)} {inverse}, {text.literal(0, dtype)}")

    def names_inside(self, op: Op, names: list[str]) -> list[str]:
        """The elements that a reduction combines; those outside of the row add nothing."""
        if self.whole:
            return names
        type, neutral = self.text.element(op.result.type.dtype), self.neutral(op)
        return [self.text.select(self.inside[at // self.vector], type, name, neutral)
                for at, name in zip(self.elements, names, strict=True)]

    def add(self, sums: Sums, op: Op, at: Element, name: str) -> None:
        """Add to a partial sum, if there is a row for this team."""
        total = self.combined(op, sums[op.result, at], name)
        sums[op.result, at] = (self.text.select(self.valid, self.text.element(op.result.type.dtype), total, sums[op.result, at])
                               if self.valid else total)

    def store_elements(self, values: Sequence[Value]) -> None:
        for value in values:
            names = [self.need(value, at) for at in self.elements]
            dtype = value.type.dtype
            for group in range(max(self.plan.groups, 1)):
                with self.text.where(self.valid, "" if self.whole else self.inside[group]):
                    self.text.write(names[group * self.vector:(group + 1) * self.vector], self.results[value], dtype,
                                    self.row_starts[group], self.width_alignment(dtype))

    def over_team(self, op: Op, name: str) -> str:
        """One number of each thread of a team, combined."""
        text, dtype = self.text, op.result.type.dtype

        def combine(a: str, b: str) -> str:
            return self.combined(op, a, b)

        name = text.over_lanes(combine, name, dtype, min(self.plan.team, WARP))
        return text.over_warps(combine, name, dtype, self.thread) if self.plan.team > WARP else name

    # -- after the rows

    def store_sums(self, sums: Sums, block: str) -> None:
        s, text, team = self.s, self.text, self.plan.team
        offset = text.times(block, s.columns)
        groups: dict[tuple[Value, int], list[str]] = {}
        for (value, at), name in sums.items():
            total = self.over_teams(s.producer[value], name, at)
            if at is not None:
                groups.setdefault((value, at // self.vector), []).append(total)
                continue
            with text.where(text.compare("eq", self.thread, 0)):
                text.write([total], self.pointers[value], value.type.dtype, block)
        for (value, group), names in groups.items():
            dtype = value.type.dtype
            is_first = text.compare("slt", self.thread, team) if self.plan.teams > 1 else ""
            with text.where(is_first, "" if self.whole else self.inside[group]):
                text.write(names, self.pointers[value], dtype, text.plus(offset, self.starts[group]), self.width_alignment(dtype))

    def over_teams(self, op: Op, name: str, at: Element) -> str:
        """The partial sums of all teams of a block: of a column that one thread of each team has, of rows, or of everything."""
        text, dtype, team, scope = self.text, op.result.type.dtype, self.plan.team, self.s.scope[op.result]

        def combine(a: str, b: str) -> str:
            return self.combined(op, a, b)

        if scope == "all":
            return text.over_warps(combine, text.over_lanes(combine, name, dtype, WARP), dtype, self.thread)
        if self.plan.teams == 1:
            return name
        name = text.over_lanes(combine, name, dtype, WARP, team)
        return text.over_warps(combine, name, dtype, self.thread, team if at is not None else 1)
