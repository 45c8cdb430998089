"""Kernels after all blocks: the partial sums that blocks left are combined in order, and values that depend on them are computed."""

from __future__ import annotations

from adjit.codegen.cuda.kernel import Launch
from adjit.codegen.cuda.target import FLAT_THREADS, WARP
from adjit.codegen.cuda.writer import Element, KernelWriter, Memory
from adjit.codegen.native.kernels.block_combine import post_results
from adjit.codegen.native.kernels.builder import Index
from adjit.ir.analysis.kernel_schedule import KernelSchedule
from adjit.ir.graph import Op, Value

PARTS_AHEAD = 8
"""Parts of a column that a thread loads at a time. With one, 264 parts were as many waits for memory, one after the other."""


class FinishWriter(KernelWriter):
    """Writer of the kernel that runs after `blocks` blocks: a thread a column, or one block if columns are summed once more."""

    def __init__(self, schedule: KernelSchedule, memory: Memory, blocks: int):
        self.single = "post" in schedule.scope.values()
        self.columns = [value for value in post_results(schedule) if schedule.extent(value) == "column"]
        super().__init__(schedule, memory, FLAT_THREADS if self.single or self.columns else WARP, 1, blocks)

    def is_element(self, value: Value) -> bool:
        level = self.s.level[value]
        return not self.flat and (level == "element" or (level == "post" and self.s.extent(value) == "column"))

    def compute(self, value: Value, at: Element) -> str:
        op = self.s.producer.get(value)
        if self.s.scope.get(value) == "columns" and op is not None:
            return self.sum_of_parts(op)
        return super().compute(value, at)

    def write(self) -> Launch:
        s, text = self.s, self.text
        self.bind("read")
        self.parts = self.number(self.blocks)
        self.thread = text.thread()
        self.lane = text.let(f"and i64 {self.thread}, {WARP - 1}")
        self.define("kernel")
        for value in s.partials:
            if s.scope[value] != "columns":
                self.scopes[-1][value, None] = self.number_of_parts(s.producer[value])
        block = text.block_number()
        own = text.plus(text.times(block, text.threads), self.thread)
        if self.single:
            self.sum_columns()
        elif self.columns:
            with text.where(text.compare("slt", own, s.columns)), self.scope():
                self.store_columns(str(own), self.columns)
        numbers = [(value, self.need(value)) for value in post_results(s) if s.extent(value) == "scalar"]
        with text.where(text.compare("eq", own, 0)):
            for value, name in numbers:
                text.write([name], self.results[value], value.type.dtype)
        return self.launch("finish", -(-s.columns // text.threads) if self.columns and not self.single else 1)

    def number_of_parts(self, op: Op) -> str:
        """The parts of one number, in all threads: each lane adds some, then lanes are combined."""
        text, dtype = self.text, op.result.type.dtype
        carried = [(text.element(dtype), self.neutral(op))]
        with text.for_range(self.lane, self.parts, WARP, carried, empty=True) as loop:
            (part,) = self.load(self.pointers[op.result], dtype, loop.counter)
            loop.following = [self.combined(op, loop.values[0], part)]
        return text.over_lanes(lambda a, b: self.combined(op, a, b), loop.values[0], dtype, WARP)

    def sum_of_parts(self, op: Op) -> str:
        """The parts of one column, in the order of the blocks: some are loaded before the first of them is added, as a thread that adds
        waits for memory."""
        text, dtype = self.text, op.result.type.dtype
        whole = text.let(f"and i64 {self.parts}, {-PARTS_AHEAD}")
        total = self.neutral(op)
        rounds: list[tuple[Index, str, int]] = [(0, whole, PARTS_AHEAD), (whole, self.parts, 1)]
        for first, end, count in rounds:
            with text.for_range(first, end, count, [(text.element(dtype), total)], empty=True) as loop:
                parts = [self.part_of_column(op, text.plus(loop.counter, number)) for number in range(count)]
                (total,) = loop.values
                for part in parts:
                    total = self.combined(op, total, part)
                loop.following = [total]
            (total,) = loop.values
        return total

    def part_of_column(self, op: Op, block: Index) -> str:
        index = self.text.plus(self.text.times(block, self.s.columns), self.starts[0])
        (part,) = self.load(self.pointers[op.result], op.result.type.dtype, index)
        return part

    def store_columns(self, column: str, values: list[Value]) -> None:
        self.starts = [column]
        for value, name in [(value, self.need(value, 0)) for value in values]:
            self.text.write([name], self.results[value], value.type.dtype, column)

    def sum_columns(self) -> None:
        """The sums over columns, stage by stage: each needs those before it."""
        s, text = self.s, self.text
        stages = s.post_stages()
        for stage in range(max(stages.values(), default=0) + 1):
            values = [value for value, number in stages.items() if number == stage]
            reductions = [op for op in s.region.ops if s.scope.get(op.result) == "post" and stages.get(op.operands[0], 0) == stage]
            stored = [value for value in self.columns if value in values or (stage == 0 and value not in stages)]
            for value in values:
                if s.extent(value) == "scalar" and value not in s.scope:
                    self.need(value)
            if not reductions and not stored:
                continue
            carried = [(text.element(op.result.type.dtype), self.neutral(op)) for op in reductions]
            with text.for_range(self.thread, s.columns, text.threads, carried, empty=True) as loop, self.scope():
                self.starts = [loop.counter]
                loop.following = [self.combined(op, total, self.need(op.operands[0], 0))
                                  for op, total in zip(reductions, loop.values, strict=True)]
                self.store_columns(loop.counter, stored)
            for op, name in zip(reductions, loop.values, strict=True):
                dtype = op.result.type.dtype

                def combine(a: str, b: str, op=op) -> str:
                    return self.combined(op, a, b)

                self.scopes[-1][op.result, None] = text.over_warps(combine, text.over_lanes(combine, name, dtype, WARP), dtype, self.thread)
