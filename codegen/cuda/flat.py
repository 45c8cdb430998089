"""Kernels of one column: each thread works on vectors of neighbouring elements. Sums of everything leave a part a block."""

from __future__ import annotations

from adjit.codegen.cuda.kernel import Launch
from adjit.codegen.cuda.target import FLAT_THREADS, WARP
from adjit.codegen.cuda.writer import KernelWriter, Memory
from adjit.ir.analysis.kernel_schedule import KernelSchedule


class FlatWriter(KernelWriter):
    """Writer of the kernel that goes through the elements."""

    def __init__(self, schedule: KernelSchedule, memory: Memory, vector: int):
        self.step = FLAT_THREADS * vector
        self.run = -(-schedule.rows_per_block // self.step) * self.step if schedule.partials else self.step
        super().__init__(schedule, memory, FLAT_THREADS, vector, -(-schedule.rows // self.run))

    def write(self) -> Launch:
        s, text = self.s, self.text
        self.bind("write")
        count = self.number(s.rows)
        thread, block = text.thread(), text.block_number()
        self.define("kernel")
        own = text.times(thread, self.vector)
        if not s.partials:
            first = text.plus(text.times(block, self.step), own)
            with text.where(text.compare("slt", first, count)), self.scope():
                self.write_elements(str(first), [])
            return self.launch("flat", self.blocks)
        run = self.number(self.run)
        begin = text.let(f"mul nsw i64 {block}, {run}")
        stop = text.smaller(str(text.plus(begin, run)), count)
        carried = [(text.element(value.type.dtype), self.neutral(s.producer[value])) for value in s.partials]
        with text.for_range(text.plus(begin, own), stop, self.step, carried, empty=True) as loop, self.scope():
            loop.following = self.write_elements(loop.counter, list(loop.values))
        for value, name in zip(s.partials, loop.values, strict=True):
            op, dtype = s.producer[value], value.type.dtype

            def combine(a: str, b: str, op=op) -> str:
                return self.combined(op, a, b)

            total = text.over_warps(combine, text.over_lanes(combine, name, dtype, WARP), dtype, thread)
            with text.where(text.compare("eq", thread, 0)):
                text.write([total], self.pointers[value], dtype, block)
        return self.launch("flat", self.blocks)

    def write_elements(self, first: str, totals: list[str]) -> list[str]:
        """Write the vector of elements from `first` on; return the sums with it."""
        s, text = self.s, self.text
        self.starts, elements = [first], range(self.vector)
        stored = [value for value in dict.fromkeys(s.region.results) if s.extent(value) == "row" and s.level[value] != "post"]
        names = {value: [self.need(value, at) for at in elements] for value in stored}
        sums = []
        for value, total in zip(s.partials, totals, strict=True):
            op = s.producer[value]
            sums.append(self.combined(op, total, self.tree(op, [self.need(op.operands[0], at) for at in elements])))
        for value, group in names.items():
            text.write(group, self.results[value], value.type.dtype, first, self.width_alignment(value.type.dtype))
        return sums
