"""Elementwise kernels: one function for any number of elements, which steps of all sizes call.

An optimiser's update is one such kernel for each shape of a parameter; so its code is compiled once.
"""

from __future__ import annotations

from adjit.codegen.gemm.kernels import named_by_content
from adjit.codegen.llvm.module import DISPATCH, Function
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.kernels.block_combine import post_results
from adjit.codegen.native.kernels.blocks import BlockWriter
from adjit.codegen.native.kernels.writer import Position
from adjit.codegen.native.program_code import SIGNATURE
from adjit.ir.analysis.kernel_schedule import KernelSchedule

MASKED_BYTES = {64: 1, 32: 4}
"""Smallest element size, in bytes, with masked loads and stores, by the bytes of a vector."""


def is_elementwise(schedule: KernelSchedule, target: Target, lanes: int) -> bool:
    """True if the kernel has one column, no reductions, and only operands that are numbers or have one element per row."""
    values = (*schedule.region.params, *schedule.region.results)
    smallest = MASKED_BYTES.get(target.vector_bytes)
    return (schedule.columns == 1 and schedule.rows > lanes and not schedule.scope and smallest is not None
            and not post_results(schedule) and all(op.name != "iota" for op in schedule.region.ops)
            and all(schedule.extent(value) in ("row", "scalar") and value.type.dtype.itemsize >= smallest for value in values))


class ElementsWriter(BlockWriter):
    """Writer of the elements `%start` <= element < `%stop`; `%start` is a multiple of the elements of an iteration."""

    def write(self) -> None:
        s, text = self.s, self.text
        self.define("kernel", -1)
        stored = list(dict.fromkeys(s.region.results))
        plan = self.plan(stored, ())
        self.plans = [plan]
        self.prepare(plan, s.rows)
        copies = plan.copies(2)
        chunk = self.lanes * copies

        def body(position: Position) -> None:
            with self.scope():
                for value, (name,) in self.compute(plan, position).items():
                    dtype = value.type.dtype
                    self.prefetch(value, self.results[value], position)
                    text.store_elements(name, self.address(self.results[value], dtype, position), dtype, position.count)

        length = text.sub("%stop", "%start")
        whole = text.plus("%start", text.let(f"and i64 {length}, {-chunk}"))
        with text.for_range("%start", whole, chunk, empty=True) as loop, self.scope():
            for copy in range(copies):
                body(Position(loop.counter, copy * self.lanes))
        with text.for_range(whole, "%stop", self.lanes, empty=True) as loop, self.scope():
            left = text.let(f"trunc i64 {text.sub('%stop', loop.counter)} to i32")
            numbers = f"<{', '.join(f'i32 {lane}' for lane in range(self.lanes))}>"
            exists = text.let(f"icmp slt <{self.lanes} x i32> {numbers}, {text.splat('i32', left)}")
            body(Position(loop.counter, 0, exists))
        self.rows_per_block = -(-s.rows_per_block // chunk) * chunk
        self.blocks = -(-s.rows // self.rows_per_block)

    def step_function(self) -> Function:
        """The function of the step, which is added to the shared functions."""
        text, rows = self.text, self.s.rows
        function = text.end_function("adjit_elements", "ptr noalias nocapture readonly %places, i64 %start, i64 %stop",
                                     attributes="noinline nounwind")
        function = named_by_content(function)
        text.shared[function.name] = function
        start, end = text.times("%low", self.rows_per_block), text.times("%high", self.rows_per_block)
        text.call("void", f"@{function.name}", ("ptr", "%places"), ("i64", start), ("i64", text.smaller(end, rows)))
        text.ret("i64", 0)
        return text.end_function("step", SIGNATURE, "i64", attributes=DISPATCH)
