"""Main step of a kernel, over blocks of rows: values that are complete per row, and each block's partial sums over rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from adjit.codegen.llvm.compensated_sums import BLOCK_ADDITIONS
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.kernels.builder import Index
from adjit.codegen.native.kernels.loops import Iteration, LoopWriter
from adjit.codegen.native.kernels.plan import MAX_UNROLLED_INSTRUCTIONS, MAX_UNROLLED_VECTORS, LoopPlan, is_slice, pattern_copies
from adjit.codegen.native.kernels.writer import Accumulators, Position
from adjit.ir.analysis.kernel_schedule import KernelSchedule
from adjit.ir.graph import Value
from adjit.ir.types import is_complex

NS_PER_INSTRUCTION, NS_PER_ROW, NS_PER_BYTE = 0.2, 5.0, 0.015

MIN_PREFETCHED_BYTES = 1 << 20
"""Bytes of an array from which it is prefetched: smaller arrays are found in the near caches."""
CACHE_LINE = 64
PREFETCH_DISTANCE_BYTES = 2048

Body = Callable[[Position, int, Accumulators], None]
"""Body of a loop for one vector: function of its position, the index of the accumulators to use, and the accumulators."""


class BlockWriter(LoopWriter):
    """Writer of the blocks `%low` <= block < `%high`."""

    def __init__(self, schedule: KernelSchedule, shared: Mapping[int, int], target: Target, lanes: int):
        super().__init__(schedule, shared, target, lanes)
        self.stage = 0
        self.unrolled = False
        self.positions: list[Position] = []      # positions of the vectors of a row
        self.plans: list[LoopPlan] = []
        self.pattern_copies = pattern_copies(schedule, lanes)
        self.blocks, self.rows_per_block = schedule.blocks, schedule.rows_per_block
        self.reductions = {value: schedule.producer[value] for value in schedule.partials}

    def estimate(self) -> float:
        """Estimated nanoseconds on one thread, from instructions and memory traffic (measured with Adam, layer norm, softmax)."""
        s = self.s
        vectors = len(self.positions) if self.positions else -(-s.rows // self.lanes)
        instructions = sum(plan.length for plan in self.plans) * vectors * (s.rows if self.positions else 1)
        rows = NS_PER_ROW * s.rows * s.stages if self.positions else 0.0
        return (NS_PER_INSTRUCTION * instructions + rows
                + NS_PER_BYTE * sum(value.type.nbytes for value in (*s.region.params, *s.region.results)))

    def is_loaded(self, value: Value) -> bool:
        return not self.unrolled and self.s.is_cached(value, self.stage)

    def write(self) -> None:
        self.define("kernel", -1)
        (self.write_flat if self.flat else self.write_rows)()

    def define(self, level: str, stage: int) -> None:
        """Compute the numbers of a level that are known before the loop of `stage`. Parameters are loaded before they are overwritten."""
        s = self.s
        if stage <= 0:
            for value in s.region.params:
                if s.level[value] == level:
                    self.scalar(value)
        for op in s.region.ops:
            value = op.result
            if s.level[value] == level and value not in s.scope and (stage < 0 or s.stage.get(value, 0) == stage):
                self.scalar(value)

    def over(self, length: int, copies: int, accumulators: Accumulators, body: Body) -> Accumulators:
        """Run the body for all vectors of `length` elements. Returns the accumulators after the loop."""
        chunk = self.lanes * copies
        done = length // chunk * chunk if length >= 2 * chunk else 0
        if done:
            accumulators = self.repeat(0, done, chunk, accumulators, self.vectors_of(body, copies), done // chunk)
        for number, position in enumerate(self.vectors(length - done, done)):
            with self.scope():
                body(position, number % copies, accumulators)
        return accumulators

    def vectors_of(self, body: Body, copies: int) -> Iteration:
        """An iteration that runs the body for `copies` vectors, each with its own accumulators."""
        def iteration(counter: Index, accumulators: Accumulators) -> None:
            for copy in range(copies):
                with self.scope():
                    body(Position(counter, copy * self.lanes), copy, accumulators)
        return iteration

    def store_totals(self, accumulators: Accumulators) -> None:
        for value, names in accumulators.items():
            dtype, scope = value.type.dtype, self.s.scope[value]
            if scope == "columns":
                for name, position in zip(names, self.positions, strict=True):
                    self.text.store_elements(name, self.address(self.block_pointer(value), dtype, position), dtype, position.count)
                continue
            total = names[0] if scope == "rows" and not self.flat else self.total(self.reductions[value], names)
            self.text.store_element(total, self.text.at(self.pointers[value], self.text.cell(dtype), self.block), dtype)

    # -- one column

    def write_flat(self) -> None:
        s, text = self.s, self.text
        reductions = [op for value, op in self.reductions.items() if s.scope[value] == "rows"]
        stored = [value for value in dict.fromkeys(s.region.results) if s.extent(value) == "row" and s.level[value] != "post"]
        plan = self.plan(stored, reductions)
        self.prepare(plan, s.rows)
        self.plans = [plan]
        copies = plan.copies(-(-s.rows // self.lanes))
        if self.pattern_copies > 1:
            copies = self.pattern_copies
        self.period = chunk = self.lanes * copies
        self.load_periodic(plan, copies)
        accumulators = {op.result: self.start(op, copies) for op in reductions}

        def body(position: Position, copy: int, accumulators: Accumulators) -> None:
            names = self.compute(plan, position)
            for op in reductions:
                accumulators[op.result][copy] = self.step(op, accumulators[op.result][copy], names[op.operands[0]], position)
            for value in stored:
                dtype = value.type.dtype
                self.prefetch(value, self.results[value], position)
                text.store_elements(names[value][0], self.address(self.results[value], dtype, position), dtype, position.count)

        if s.blocks == 1:
            self.store_totals(self.over(s.rows, copies, accumulators, body))
            return
        self.rows_per_block = -(-s.rows_per_block // chunk) * chunk
        self.blocks = -(-s.rows // self.rows_per_block)
        whole, rest = s.rows // chunk * chunk, s.rows % chunk
        with text.for_range("%low", "%high", empty=True) as tasks, self.scope():
            self.block = tasks.counter
            start = text.times(self.block, self.rows_per_block)
            stop = text.smaller(str(text.plus(start, self.rows_per_block)), whole)
            times = self.rows_per_block // chunk
            accumulators = self.repeat(start, stop, chunk, accumulators, self.vectors_of(body, copies), times, empty=True)
            if rest:
                is_last = text.compare("eq", self.block, self.blocks - 1)
                with text.if_(is_last, self.carried(accumulators)) as last, self.scope():
                    inside = self.rebound(accumulators, last.values)
                    for number, position in enumerate(self.vectors(rest, whole)):
                        with self.scope():
                            body(position, number % copies, inside)
                    last.following = [name for names in inside.values() for name in names]
                accumulators = self.rebound(accumulators, last.values)
            self.store_totals(accumulators)

    def load_periodic(self, plan: LoopPlan, copies: int) -> None:
        """Load the vectors that repeat with every `period` positions, before the loop over positions."""
        for value in plan.leaves:
            parts = self.s.maps[value] if self.s.extent(value) == "other" and value in self.pointers else ()
            if parts and all(self.period % (size * stride) == 0 for size, stride in parts) and self.s.rows >= 2 * self.period:
                for copy in range(copies):
                    key = (value, "periodic", copy * self.lanes)
                    self.scopes[-1][key] = self.vector(value, Position(0, copy * self.lanes))
                    del self.scopes[-1][value, "vector"]

    def load_leaf(self, value: Value, position: Position) -> str:
        whole = position.count is None and not isinstance(position.counter, int)
        known = self.find((value, "periodic", position.offset)) if whole else None
        if known is not None:
            return known
        return super().load_leaf(value, position)

    def prefetch(self, value: Value, pointer: str, position: Position) -> None:
        """Prefetch what will be written of a large array a few cache lines ahead, in kernels with a single loop; this also crosses the ends
        of pages. (What is read comes as fast by itself: to prefetch it takes 5 to 30 % of a kernel whose arrays lie in a cache.)"""
        if self.s.stages == 1 and self.s.extent(value) == ("row" if self.flat else "full"):
            self.prefetch_ahead(value, pointer if self.flat else self.row_pointer(pointer, value.type.dtype), position,
                                PREFETCH_DISTANCE_BYTES, True)

    def rows_to_prefetch(self) -> list[tuple[Value, str, int, bool]]:
        """Prefetches of one of several loops over a row, since later loops would wait for the data: value, start address, bytes ahead, and
        true for writes. The hardware prefetcher does not see beyond the row. So the longest loop prefetches the next row of all large
        operands (as many loads at once would wait for each other), and each loop prefetches the rows that the next loop writes."""
        s = self.s
        if s.stages == 1 or self.unrolled:
            return []
        rows = []
        if self.plans[self.stage] is max(self.plans, key=lambda plan: plan.length):
            rows = [(value, self.pointers[value], s.columns * value.type.dtype.itemsize, False)
                    for value in s.region.params if s.extent(value) == "full"]
        operands = {self.pointers[value] for value in s.region.params}
        return rows + [(value, self.results[value], 0, True) for value in s.stored_elements(self.stage + 1)
                       if value in self.results and self.results[value] not in operands]

    def prefetch_rows(self, position: Position) -> None:
        for value, pointer, ahead, write in self.rows_to_prefetch():
            self.prefetch_ahead(value, self.row_pointer(pointer, value.type.dtype), position, ahead, write)

    def prefetch_ahead(self, value: Value, start: str, position: Position, ahead: int, write: bool) -> None:
        dtype = value.type.dtype
        registers = 2 if is_complex(dtype) else 1
        if (isinstance(position.counter, int) or value.type.nbytes < registers * MIN_PREFETCHED_BYTES
                or position.offset * dtype.itemsize % CACHE_LINE):
            return
        for line in range(max(self.lanes * dtype.itemsize // CACHE_LINE, 1) if registers == 2 else 1):
            self.text.prefetch(self.address(start, dtype, position), ahead + line * CACHE_LINE, write)

    # -- rows and columns

    def write_rows(self) -> None:
        s, text = self.s, self.text
        self.positions = self.vectors(s.columns)
        self.choose_unrolling()
        numbers = [value for plan in self.plans for value in plan.uniforms if s.level[value] == "kernel"]
        self.splat_numbers(numbers)
        self.column_scopes: list[dict[Hashable, str]] = [{} for _ in self.positions]
        if self.unrolled:
            columns = dict.fromkeys(v for plan in self.plans for v in plan.leaves if s.extent(v) == "column" and v not in s.scope)
            for position, names in zip(self.positions, self.column_scopes, strict=True):
                with self.scope(names):
                    for value in columns:
                        self.vector(value, position)
        if s.blocks == 1:
            self.write_block()
            return
        with text.for_range("%low", "%high", empty=True) as tasks, self.scope():
            self.block = tasks.counter
            self.write_block()

    def choose_unrolling(self) -> None:
        """Unroll a short row, with all its values in registers; else loop over its columns, once per stage."""
        s = self.s
        self.unrolled = True
        self.plans = self.all_plans()
        length = sum(plan.length for plan in self.plans) * len(self.positions)
        sums = [value for value in s.partials if s.scope[value] == "columns"]
        most = MAX_UNROLLED_VECTORS if s.stages > 1 or sums else 2
        self.unrolled = len(self.positions) <= most and length <= MAX_UNROLLED_INSTRUCTIONS
        if not self.unrolled:
            self.plans = self.all_plans()
        fits = self.unrolled and len(sums) * len(self.positions) <= self.text.target.registers // 3
        self.in_registers, self.in_memory = (sums, []) if fits else ([], sums)

    def all_plans(self) -> list[LoopPlan]:
        plans = []
        for stage in range(self.s.stages):
            self.stage = stage
            plans.append(self.plan(self.s.stored_elements(stage), self.s.element_reductions(stage)))
        return plans

    def write_block(self) -> None:
        s, text = self.s, self.text
        for value in self.in_memory:
            self.over(s.columns, 1, {}, self.filling(value))
        accumulators: Accumulators = {}
        for value, op in self.reductions.items():
            if s.scope[value] == "rows":
                accumulators[value] = self.start(op, 1, 1)
            elif s.scope[value] == "all":
                accumulators[value] = self.start(op, self.plans[s.stage_of_use(op.operands[0])].copies(len(self.positions)))
            elif value in self.in_registers:
                accumulators[value] = self.start(op, len(self.positions))
        widths = {value: 1 for value in accumulators if s.scope[value] == "rows"}
        if s.rows == 1:
            with self.scope():
                self.write_row(accumulators)
        else:
            start = text.times(self.block, s.rows_per_block)
            stop = s.rows if s.blocks == 1 else text.smaller(str(text.plus(start, s.rows_per_block)), s.rows)

            def iteration(counter: Index, accumulators: Accumulators) -> None:
                self.row = counter
                self.write_row(accumulators)
            each = max((-(-len(self.positions) // len(names)) for value, names in accumulators.items() if s.scope[value] == "all"),
                       default=1)
            each = each if each <= BLOCK_ADDITIONS else 1       # longer rows contribute one sum each
            accumulators = self.repeat(start, stop, 1, accumulators, iteration, s.rows_per_block, each=each, widths=widths)
        self.store_totals(accumulators)

    def filling(self, value: Value) -> Body:
        (neutral,), dtype = self.start(self.reductions[value], 1), value.type.dtype

        def body(position: Position, copy: int, accumulators: Accumulators) -> None:
            self.text.store_elements(neutral, self.address(self.block_pointer(value), dtype, position), dtype, position.count)
        return body

    def write_row(self, accumulators: Accumulators) -> None:
        self.vector_scopes: list[dict[Hashable, str]] = [{} for _ in self.positions]
        for stage, plan in enumerate(self.plans):
            self.stage = stage
            self.define("row", stage)
            self.write_row_sinks(accumulators)
            if plan.sinks or plan.products:
                self.write_columns(plan, accumulators)

    def write_row_sinks(self, accumulators: Accumulators) -> None:
        s, text = self.s, self.text
        for value, op in self.reductions.items():
            operand = op.operands[0]
            if s.scope[value] == "rows" and s.stage.get(operand, 0) == self.stage:
                accumulators[value][0] = text.apply(op, (accumulators[value][0], self.scalar(operand)), 1)
        for value in dict.fromkeys(s.region.results):
            if s.level[value] == "post" or s.stage.get(value, 0) != self.stage:
                continue
            if s.extent(value) == "row" or (s.extent(value) == "scalar" and s.level[value] == "row"):
                dtype = value.type.dtype
                text.store_element(self.scalar(value), text.at(self.results[value], text.cell(dtype),
                                                               self.row if s.extent(value) == "row" else 0), dtype)

    def write_columns(self, plan: LoopPlan, accumulators: Accumulators) -> None:
        """The loop over the columns of a row for this stage."""
        s = self.s
        self.prepare(plan, s.columns)
        self.point_at_row(plan)
        inner = [op for op in plan.reductions if s.scope[op.result] == "inner"]
        copies = plan.copies(len(self.positions))
        own = {op.result: self.start(op, copies) for op in inner}
        carried = own | {op.result: accumulators[op.result] for op in plan.reductions if s.scope[op.result] == "all"}
        if self.unrolled:
            body = self.body(plan, accumulators)
            for number, position in enumerate(self.positions):
                with self.scope(self.column_scopes[number]), self.scope(self.vector_scopes[number]):
                    body(position, number, carried)
        else:
            carried = self.over(s.columns, copies, carried, self.body(plan, accumulators))
        for op in plan.reductions:
            if s.scope[op.result] == "inner":
                self.scopes[-1][op.result, "scalar"] = self.total(op, carried[op.result])
            elif s.scope[op.result] == "all":
                accumulators[op.result] = carried[op.result]

    def body(self, plan: LoopPlan, sums: Accumulators) -> Body:
        text = self.text

        def body(position: Position, number: int, accumulators: Accumulators) -> None:
            self.prefetch_rows(position)
            names = self.compute(plan, position)
            for op in plan.reductions:
                value, dtype, elements = op.result, op.result.type.dtype, names[op.operands[0]]
                if value in accumulators:
                    copy = number % len(accumulators[value])
                    accumulators[value][copy] = self.step(op, accumulators[value][copy], elements, position)
                elif value in self.in_registers:
                    sums[value][number] = self.step(op, sums[value][number], elements, position)
                else:
                    place = self.address(self.block_pointer(value), dtype, position)
                    before = text.load_elements(place, dtype, position.count)
                    text.store_elements(self.combined(op, before, elements), place, dtype, position.count)
            for sink in plan.sinks:
                pointer = self.store_pointer(sink)
                if pointer is not None:
                    if sink in self.results:
                        self.prefetch(sink, self.results[sink], position)
                    address = self.address(pointer, sink.type.dtype, position)
                    text.store_elements(names[sink][0], address, sink.type.dtype, position.count)
        return body

    def store_pointer(self, sink: Value) -> str | None:
        """Base address for stores of the sink's vectors; None if the sink is not stored in this stage."""
        s = self.s
        if s.is_stored(sink) and s.extent(sink) == "full" and s.stage_of_use(sink) == self.stage:
            return self.row_pointer(self.results[sink], sink.type.dtype)
        if sink in s.cached and s.stage[sink] == self.stage and not self.unrolled:
            return self.block_pointer(sink)
        return None

    def point_at_row(self, plan: LoopPlan) -> None:
        """Compute the start addresses of the row, before the loop over its columns."""
        for value in plan.leaves:
            if value in self.pointers or is_slice(self.s.producer.get(value)):
                self.leaf_pointer(value)
        for value, pointer, _, _ in self.rows_to_prefetch():
            self.row_pointer(pointer, value.type.dtype)
        for sink in plan.sinks:
            self.store_pointer(sink)
        for op in plan.reductions:
            if op.result in self.in_memory:
                self.block_pointer(op.result)

    def leaf_pointer(self, value: Value) -> str | None:
        if value in self.s.producer and not is_slice(self.s.producer[value]):       # cached by an earlier stage
            stored = self.s.is_stored(value) and self.s.extent(value) == "full"
            return self.row_pointer(self.results[value], value.type.dtype) if stored else self.block_pointer(value)
        return super().leaf_pointer(value)

