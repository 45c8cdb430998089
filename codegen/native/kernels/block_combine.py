"""Final step of a kernel, after all blocks: the blocks' partial sums are combined, and values that depend on them are computed."""

from __future__ import annotations

from adjit.codegen.native.kernels.blocks import BlockWriter, Body
from adjit.codegen.native.kernels.writer import Accumulators, Position
from adjit.ir.analysis.kernel_schedule import KernelSchedule
from adjit.ir.graph import Value


def post_results(s: KernelSchedule) -> list[Value]:
    """The results that are complete only after all rows."""
    return [v for v in dict.fromkeys(s.region.results) if s.level[v] in ("kernel", "post") and s.extent(v) in ("scalar", "column")]


class BlockCombineWriter(BlockWriter):
    """Writer of the code that runs once, after `blocks` blocks."""

    def is_vector(self, value: Value) -> bool:
        level = self.s.level[value]
        return not self.flat and (level == "element" or (level == "post" and self.s.extent(value) == "column"))

    def is_loaded(self, value: Value) -> bool:
        return self.s.scope.get(value) == "columns"

    def write_combine(self, blocks: int) -> None:
        s, text = self.s, self.text
        self.define("kernel", -1)
        for value in self.reductions:
            if s.scope[value] == "columns":
                if blocks > 1:
                    self.over(s.columns, 1, {}, self.adding_blocks(value, blocks))
            else:
                self.scopes[-1][value, "scalar"] = self.sum_of_blocks(value, blocks)
        stages = s.post_stages()
        for stage in range(max(stages.values(), default=0) + 1):
            for op in s.region.ops:
                if stages.get(op.result) == stage and s.extent(op.result) == "scalar" and op.result not in s.scope:
                    self.scalar(op.result)
            self.write_post_columns([value for value, number in stages.items() if number == stage])
        numbers = [value for value in post_results(s) if s.extent(value) == "scalar"]
        for value, name in [(value, self.scalar(value)) for value in numbers]:
            text.store_element(name, self.results[value], value.type.dtype)

    def sum_of_blocks(self, value: Value, blocks: int) -> str:
        """The total of the blocks' partial sums of one number."""
        op, dtype, pointer = self.reductions[value], value.type.dtype, self.pointers[value]
        if blocks == 1:
            return self.text.load_element(pointer, dtype)

        def body(position: Position, copy: int, accumulators: Accumulators) -> None:
            part = self.text.load_elements(self.address(pointer, dtype, position), dtype, position.count)
            accumulators[value][copy] = self.step(op, accumulators[value][copy], (part,), position)
        return self.total(op, self.over(blocks, 1, {value: self.start(op, 1)}, body)[value])

    def adding_blocks(self, value: Value, blocks: int) -> Body:
        """Combine the blocks' partial sums of each column, as a tree, into the memory of the first block's."""
        text, op, dtype, pointer = self.text, self.reductions[value], value.type.dtype, self.pointers[value]

        def body(position: Position, copy: int, accumulators: Accumulators) -> None:
            places = [self.address(text.at(pointer, text.cell(dtype), block * self.s.columns), dtype, position) for block in range(blocks)]
            names = [text.load_elements(place, dtype, position.count) for place in places]
            while len(names) > 1:
                pairs = [text.apply(op, pair, self.lanes) for pair in zip(names[::2], names[1::2], strict=False)]
                names = pairs + names[2 * len(pairs):]
            text.store_elements(names[0], places[0], dtype, position.count)
        return body

    def write_post_columns(self, values: list[Value]) -> None:
        s, text = self.s, self.text
        reductions = [op for op in s.region.ops if s.scope.get(op.result) == "post" and op.operands[0] in values]
        outputs = [v for v in post_results(s) if v in values and s.extent(v) == "column"]
        if not reductions and not outputs:
            return
        plan = self.plan(outputs, reductions)
        self.prepare(plan, s.columns)

        def body(position: Position, copy: int, accumulators: Accumulators) -> None:
            names = self.compute(plan, position)
            for op in reductions:
                accumulators[op.result][copy] = self.step(op, accumulators[op.result][copy], names[op.operands[0]], position)
            for value in outputs:
                dtype = value.type.dtype
                text.store_elements(names[value][0], self.address(self.results[value], dtype, position), dtype, position.count)
        copies = plan.copies(-(-s.columns // self.lanes))
        sums = self.over(s.columns, copies, {op.result: self.start(op, copies) for op in reductions}, body)
        for op in reductions:
            self.scopes[-1][op.result, "scalar"] = self.total(op, sums[op.result])
