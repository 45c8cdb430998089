"""Steps of loops and branches. Each region is a program of its own (`program.py`), which the step calls with the pointers of each
iteration.

Slices and rows are pointers into the sliced arrays. Carried values lie in the results of the op, and are overwritten in place; if the
region's plan puts a new value elsewhere, the value is copied back after each iteration. Iterations run one after the other on one thread;
steps of a region that are worth it go to the thread pool. All steps of a region share the scratch memory of the thread.

Iterations of a scan that carries nothing are tasks, where the plan says so (`is_dealt`): each thread has the arena of the region in its own
scratch memory. So are the parts of the rows of `panels`, each with carried values of its own; as their number is data, the step launches
them itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from math import ceil

from adjit.codegen.llvm.module import Definition
from adjit.codegen.llvm.target import Target
from adjit.codegen.native import collectives
from adjit.codegen.native.arrays.creation import MEMCPY
from adjit.codegen.native.program_code import (
    ASSUMED_ROWS,
    LAUNCH,
    MAX_GIL_HELD_NS,
    MIN_PARALLEL_NS,
    OP_SHIFT,
    SIGNATURE,
    LowerGraph,
    ProgramCode,
    StepCode,
    launch_function,
)
from adjit.codegen.native.step_builder import StepBuilder, element_bits
from adjit.ir.analysis.buffer_assignment import (
    BufferAssignment,
    ResultOffsets,
    carried_by_panels,
    is_dealt,
    nested_ops,
    padded_bytes,
    part_bytes,
    region_memory,
)
from adjit.ir.analysis.collective_order import table_of
from adjit.ir.communicator import ENTERED, LEFT
from adjit.ir.graph import Op, Slot, carried_operands
from adjit.ir.memory_sizes import aligned
from adjit.ir.ops.panels import PANELS_PER_PART, least_rows
from adjit.ir.ops.traits import CONTROL_FLOW

ASSUMED_TRIP_COUNT = 64
"""Iterations of a `while_loop` that work estimates assume."""

MAX_CALLS_IN_LINE = 8
"""Most steps of a region that is no function of its own: beside many the call costs little, and LLVM takes times as long in line."""


def lower_control_flow(op: Op, shared: Mapping[int, int], target: Target, lower_graph: LowerGraph) -> tuple[StepCode, ...]:
    """The step of a `scan`, a `while_loop` or a `cond`.

    The step returns 1 + the index of the op in `nested_ops` if one of its indices is out of range.
    """
    programs = [lower_graph(region, {}) for region in op.regions]
    memory, nbytes = region_memory(op.regions)
    text = _RegionBuilder(op, target, programs, memory, shared)
    dealt = is_dealt(op)
    with text.step():
        text.places = text.new_places()
        if op.name == "panels":
            text.panels(nbytes)
        elif dealt:
            text.dealt_scan(nbytes)
        else:
            {"scan": text.scan, "while_loop": text.while_loop, "cond": text.cond}[op.name]()
    trip_count = {"scan": op.attrs.get("length", 1), "while_loop": ASSUMED_TRIP_COUNT, "cond": 1, "panels": 1}[op.name]
    work = trip_count * sum(program.work for program in programs)
    if op.name == "panels":
        sizes = op.attrs["sizes"]
        work = max(programs[0].work * ASSUMED_ROWS / sizes[0], programs[len(sizes) - 1].work)
    elif op.name == "while_loop":
        work = max(work, MAX_GIL_HELD_NS)     # the trip count is unknown: release the GIL, as the loop may run for long
    code = text.code(op.attrs["length"] if dealt and op.name == "scan" else 1, work, checks=any(program.checks for program in programs))
    functions: dict[str, Definition] = {}
    for program in programs:
        functions.update(program.shared)
        functions.update({function.name: function for function in program.functions
                          if function.name != program.entry or not is_in_line(program)})
    functions.update(text.shared)
    declarations = code.declarations.union({MEMCPY}, *(program.declarations for program in programs))
    scratch_bytes = max(program.scratch_bytes for program in programs)
    return (replace(code, shared=functions, declarations=declarations, scratch_bytes=code.scratch_bytes + scratch_bytes),)


Pointers = str | list[str]
"""Pointers to parameters or results of a region: an array in memory, or, of a region that runs in line, values of the step."""


def is_in_line(program: ProgramCode) -> bool:
    """True if the steps of a region are called by the step of its loop."""
    return not program.checks and len(program.calls) <= MAX_CALLS_IN_LINE and not any(call.parallel for call in program.calls)


class _RegionBuilder(StepBuilder):
    def __init__(self, op: Op, target: Target, programs: Sequence[ProgramCode], memory: Sequence[ResultOffsets],
                 shared: Mapping[int, int]):
        super().__init__(target)
        self.op = op
        self.operand_of = shared
        self.programs = programs
        self.memory = memory
        self.inner_scratch = "%scratch"
        self.places = "null"

    def scan(self) -> None:
        op = self.op
        (body,), carries, slices, length = op.regions, op.attrs["carries"], op.attrs["slices"], op.attrs["length"]
        rows = len(body.results) - carries
        operands, results, scratch = self.argument_pointers()
        carried = results[rows:]
        self.copy_initial(operands, carried)
        params, targets = self.arrays(0)
        self.set_pointers(params, [*carried, *[None] * slices, *operands[carries + slices:]])
        self.set_pointers(targets, [*[None] * rows, *self.result_pointers(0, scratch)[rows:]])
        if not length:
            return
        with self.for_range(0, length) as loop:
            position = self.sub(length - 1, loop.counter) if op.attrs["reverse"] else loop.counter
            for index in range(carries, carries + slices):
                self.set_pointer(params, index, self.row(operands[index], position, body.params[index].type.nbytes))
            for index in range(rows):
                self.set_pointer(targets, index, self.row(results[index], position, body.results[index].type.nbytes))
            self.call_region(0, params, targets, scratch)
            self.copy_back(0, carried, scratch)

    def dealt_scan(self, nbytes: int) -> None:
        """Iterations `%low` to `%high` of a scan without carries, in the scratch memory of the thread."""
        op = self.op
        (body,), slices, operands = op.regions, op.attrs["slices"], len(op.operands)
        pointers = [self.place(number) for number in range(operands + len(op.results))]
        self.pool = "null"
        scratch, self.inner_scratch = self.scratch(nbytes), self.scratch(0)
        params, targets = self.arrays(0)
        self.set_pointers(params, [None if index < slices else pointer for index, pointer in enumerate(pointers[:operands])])
        with self.for_range("%low", "%high") as loop:
            for index in range(slices):
                self.set_pointer(params, index, self.row(pointers[index], loop.counter, body.params[index].type.nbytes))
            for index, value in enumerate(body.results):
                self.set_pointer(targets, index, self.row(pointers[operands + index], loop.counter, value.type.nbytes))
            self.call_region(0, params, targets, scratch)

    def while_loop(self) -> None:
        op = self.op
        body = op.regions[1]
        carries, checkpointed, checkpoints = (op.attrs[name] for name in ("carries", "checkpointed", "checkpoints"))
        operands, results, scratch = self.argument_pointers()
        carried = results[len(results) - carries:]
        self.copy_initial(operands, carried)
        self.note(operands, ENTERED)
        test_params, test_targets = self.arrays(0)
        body_params, body_targets = self.arrays(1)
        for params in (test_params, body_params):
            self.set_pointers(params, [*carried, *operands[carries:]])
        (test,) = self.result_pointers(0, scratch)
        self.set_pointers(test_targets, [test])
        self.set_pointers(body_targets, self.result_pointers(1, scratch))
        trips, stride = self.alloca("i64"), self.alloca("i64")
        self.store("i64", 0, trips)
        self.store("i64", 1, stride)
        with self.loop():
            self.call_region(0, test_params, test_targets, scratch)
            with self.if_(self.compare("eq", self.load("i8", str(test)), 0, "i8")):
                self.break_()
            count = self.load("i64", trips)
            if checkpoints:
                sizes = [body.params[index].type.nbytes for index in checkpointed]
                stacks = list(zip(results[2:2 + len(sizes)], sizes, strict=True))
                self.save_checkpoint(count, stride, [carried[index] for index in checkpointed], stacks, checkpoints)
            self.call_region(1, body_params, body_targets, scratch)
            self.copy_back(1, carried, scratch)
            self.store("i64", self.add(count, 1), trips)
        self.note(operands, LEFT)
        if checkpoints:
            for place, source in zip(results, (trips, stride), strict=False):
                self.store("i64", self.load("i64", source), place)

    def panels(self, nbytes: int) -> None:
        """The parts of the rows, on the pool if they are worth it, then the combination of their carried values."""
        op = self.op
        dealt = is_dealt(op)
        operands, results, scratch = self.argument_pointers()
        carried = results[len(results) - len(op.attrs["initial"]):]
        places, offset = [], 0
        for value in carried_by_panels(op):
            places.append(offset)
            offset += aligned(value.type.nbytes)
        self.scratch_bytes = aligned(nbytes) if dealt else 0
        self.part(places, offset, dealt)
        count = self.load("i64", operands[op.attrs["slices"]])
        used = self.used_parts(count)
        with self.if_(self.compare("eq", used, 1)):
            self.ret("i64", self.call("i64", "@step.part", ("ptr", "%places"), ("i64", 0), ("i64", 1), ("ptr", "%scratch")))
        per_panel = self.programs[0].work
        pool = "null"
        if dealt and per_panel:
            many = self.compare("sge", count, ceil(MIN_PARALLEL_NS * op.attrs["sizes"][0] / per_panel))
            pool = self.select(many, "ptr", self.pool, "null")
        self.shared[LAUNCH] = launch_function()
        status = self.call("i64", f"@{LAUNCH}", ("ptr", pool), ("ptr", self.use("@step.part")), ("ptr", "%places"), ("i64", used),
                           ("ptr", "%scratch"))
        if any(program.checks for program in self.programs):
            with self.if_(self.compare("ne", status, 0)):
                self.ret("i64", status)
        if not places or op.attrs["parts"] == 1:
            return
        combine = len(op.regions) - 1
        params, targets = self.arrays(combine)
        memory = self.region_scratch(scratch, dealt)
        self.set_pointers(params, [*carried, *[None] * len(carried)])
        self.set_pointers(targets, self.result_pointers(combine, memory))
        with self.for_range(1, used, empty=True) as loop:
            for index, place in enumerate(places, start=len(carried)):
                self.set_pointer(params, index, self.at(scratch, 1, place, (self.sub(loop.counter, 1), offset)))
            self.call_region(combine, params, targets, memory)
            self.copy_back(combine, carried, memory)

    def part(self, places: Sequence[int], nbytes: int, dealt: bool) -> None:
        """The function `@step.part`, whose tasks are parts of the rows: a loop for each size of panels. The carried values of the first
        part are the results; those of the others lie behind one another in the op's scratch memory, each `nbytes`, at the offsets
        `places`."""
        op, outer = self.op, (self.pool, self.inner_scratch, self.places)
        initial, slices, sizes, beginnings = (op.attrs[name] for name in ("initial", "slices", "sizes", "beginnings"))
        rows = len(op.results) - len(initial)
        with self.function("step.part", SIGNATURE, result="i64"):
            self.places = self.new_places()
            operands, results, scratch = self.argument_pointers()
            count = self.load("i64", operands[slices])
            used = self.used_parts(count)
            if dealt:       # a single part has all threads
                self.pool = self.select(self.compare("eq", used, 1), "ptr", self.pool, "null")
            memory = self.region_scratch(scratch, dealt)
            whole, begin, last = self.let(f"udiv i64 {count}, {sizes[0]}"), self.alloca("i64"), self.alloca("i64")
            spare = [self.at(scratch, 1, (op.attrs["parts"] - 1) * nbytes + at)
                     for at in accumulate(padded_bytes(op)[:-1], initial=0)] if op.attrs["padded"] else []
            arrays = [self.arrays(number) for number in range(len(op.regions) - 1)]
            for number, (params, targets) in enumerate(arrays):
                self.set_pointers(params, [*[None] * (len(initial) + slices), begin, last, *operands[slices + 1:]])
                self.set_pointers(targets, [*[None] * rows, *self.result_pointers(number, memory)[rows:]])
            with self.for_range("%low", "%high", empty=True) as loop:
                part = loop.counter
                carried = results[rows:]
                if op.attrs["parts"] > 1:
                    is_first = self.compare("eq", part, 0)
                    carried = [self.select(is_first, "ptr", own, self.at(scratch, 1, place, (self.sub(part, 1), nbytes)))
                               for own, place in zip(carried, places, strict=True)]
                leasts = least_rows(sizes, op.attrs["padded"])
                if beginnings:
                    few = self.compare("ult", self.sub(count, 1), leasts[-1 - beginnings] - 1)
                    with self.if_(self.not_(few)):
                        self.fill_carried(carried)
                else:
                    self.fill_carried(carried)
                for params, _ in arrays:
                    self.set_pointers(params, carried)
                self.store("i64", 0, begin)
                self.store("i64", count, last)
                with self.if_(self.compare("ne", used, 1)):
                    following = self.add(part, 1)
                    low, high = (self.mul(self.let(f"udiv i64 {self.mul(whole, at)}, {used}"), sizes[0]) for at in (part, following))
                    self.store("i64", low, begin)
                    self.store("i64", self.select(self.compare("eq", following, used), "i64", count, high), last)
                end = self.load("i64", last)
                for number, (size, least) in enumerate(zip(sizes, leasts, strict=True)):
                    panel = partial(self.panel, size=size, operands=operands, results=results, carried=carried, begin=begin, end=end,
                                    memory=memory, spare=spare if least < size else ())
                    if number >= len(sizes) - beginnings:
                        is_begun = self.compare("ne", self.load("i64", begin), 0)
                        with self.if_(self.both(few, self.not_(self.either(is_begun, self.compare("slt", count, least))))):
                            other = number + beginnings
                            panel(other, arrays=arrays[other])
                    if number and leasts[number - 1] <= size + least:       # one at most
                        with self.if_(self.compare("sge", self.sub(end, self.load("i64", begin)), least)):
                            panel(number, arrays=arrays[number])
                        continue
                    with self.loop():
                        with self.if_(self.compare("slt", self.sub(end, self.load("i64", begin)), least)):
                            self.break_()
                        panel(number, arrays=arrays[number])
            self.ret("i64", 0)
        self.pool, self.inner_scratch, self.places = outer

    def panel(self, number: int, size: int, operands: Sequence[str], results: Sequence[str], carried: Sequence[str],
              arrays: tuple[Pointers, Pointers], begin: str, end: str, memory: str, spare: Sequence[str]) -> None:
        """A panel from row `begin` on, by the region `number`; leaves the row behind it in `begin`. Of fewer rows up to `end` than a panel
        has, copies lie in the memory `spare`, if there is any, the last row repeated."""
        op, region, (params, targets) = self.op, self.op.regions[number], arrays
        carries, slices, position = len(carried), op.attrs["slices"], self.load("i64", begin)
        types = [value.type for value in (*region.params[carries:carries + slices], *region.results[:len(op.results) - carries])]
        row_bytes = [type.nbytes // size for type in types]
        places = [self.row(array, position, nbytes) for array, nbytes in zip((*operands[:slices], *results), row_bytes, strict=False)]
        used = places
        if spare:
            there = self.smaller(self.sub(end, position), size)
            is_short = self.compare("slt", there, size)
            used = [self.select(is_short, "ptr", copy, place) for copy, place in zip(spare, places, strict=True)]
            with self.if_(is_short):
                for copy, place, nbytes in zip(spare[:slices], places, row_bytes, strict=False):
                    self.copy(copy, place, self.mul(there, nbytes))
                    with self.for_range(there, size) as loop:
                        self.copy(self.row(copy, loop.counter, nbytes), self.row(place, self.sub(there, 1), nbytes), nbytes)
        for index, pointer in enumerate(used[:slices]):
            self.set_pointer(params, carries + index, pointer)
        self.set_pointers(targets, used[slices:])
        self.call_region(number, params, targets, memory)
        if spare and len(places) > slices:
            with self.if_(is_short):
                for copy, place, nbytes in zip(spare[slices:], places[slices:], row_bytes[slices:], strict=True):
                    self.copy(place, copy, self.mul(there, nbytes))
        self.copy_back(number, carried, memory)
        self.store("i64", self.add(position, there if spare else size), begin)

    def fill_carried(self, carried: Sequence[str]) -> None:
        """Fill the carried values of a part with what they begin with."""
        for pointer, value, number in zip(carried, carried_by_panels(self.op), self.op.attrs["initial"], strict=True):
            bits = element_bits(number, value.type.dtype)
            if not bits:
                self.call("void", "@llvm.memset.p0.i64", ("ptr", pointer), ("i8", 0), ("i64", value.type.nbytes), ("i1", "false"))
                continue
            kind = f"i{8 * value.type.dtype.itemsize}"
            with self.for_range(0, value.type.size) as loop:
                self.store(kind, bits, self.at(pointer, kind, loop.counter))

    def used_parts(self, count: str) -> str:
        """Number of parts of so many rows, as `parts_of` says."""
        least = PANELS_PER_PART * self.op.attrs["sizes"][0]
        return self.larger(self.smaller(self.let(f"udiv i64 {count}, {least}"), self.op.attrs["parts"]), 1)

    def region_scratch(self, scratch: str, dealt: bool) -> str:
        """Memory of the regions of panels, and behind it that of their steps: of the thread, or in the arena, behind the parts."""
        self.inner_scratch = self.at("%scratch", 1, self.scratch_bytes)
        return "%scratch" if dealt else self.at(scratch, 1, part_bytes(self.op))

    def note(self, operands: Sequence[str], key: int) -> None:
        """Note that a loop or branch with collectives begins or ends: by that ranks whose trip counts differ are told from others."""
        table = table_of(self.op)
        if table is not None:
            collectives.note(self, operands[table], key)

    def save_checkpoint(self, count: str, stride: str, carried: Sequence[str], stacks: Sequence[tuple[str, int]], checkpoints: int) -> None:
        """Save the carried values if this iteration is a checkpoint. If the stacks are full, every second checkpoint is dropped first."""
        step = self.load("i64", stride)
        with self.if_(self.compare("eq", count, self.mul(step, checkpoints))):
            with self.for_range(1, checkpoints // 2) as loop:
                other = self.mul(loop.counter, 2)
                for stack, nbytes in stacks:
                    self.copy(self.row(stack, loop.counter, nbytes), self.row(stack, other, nbytes), nbytes)
            self.store("i64", self.mul(step, 2), stride)
        now = self.load("i64", stride)
        with self.if_(self.compare("eq", self.let(f"urem i64 {count}, {now}"), 0)):
            place = self.let(f"udiv i64 {count}, {now}")
            for value, (stack, nbytes) in zip(carried, stacks, strict=True):
                self.copy(self.row(stack, place, nbytes), value, nbytes)

    def cond(self) -> None:
        operands, results, scratch = self.argument_pointers()
        arrays = [self.arrays(number) for number in range(2)]
        first = len(results) - len(carried_operands(self.op))
        carried = results[first:]
        self.copy_initial(operands, carried)

        def arm(number: int) -> None:
            params, targets = arrays[number]
            self.set_pointers(params, [*carried, *operands[1 + len(carried):]])
            self.set_pointers(targets, [*results[:first], *self.result_pointers(number, scratch)[first:]])
            self.call_region(number, params, targets, scratch)
            self.copy_back(number, carried, scratch)
            self.note(operands, LEFT)

        self.note(operands, ENTERED)
        with self.if_(self.compare("ne", self.load("i8", operands[0]), 0, "i8")):
            arm(0)
            self.ret("i64", 0)
        arm(1)

    # -- pointers

    def argument_pointers(self) -> tuple[list[str], list[str], str]:
        """Pointers to the operands, the results and the scratch memory."""
        operands, results = len(self.op.operands), len(self.op.results)
        pointers = [self.place(number) for number in range(operands + results + 1)]
        self.pool = self.place(operands + results + 1)
        return pointers[:operands], pointers[operands:-1], pointers[-1]

    def arrays(self, number: int) -> tuple[Pointers, Pointers]:
        """Arrays of pointers for the parameters and the results of a region."""
        lengths = [max(1, len(values)) for values in (self.op.regions[number].params, self.op.regions[number].results)]
        if is_in_line(self.programs[number]):
            params, targets = (["null"] * length for length in lengths)
            return params, targets
        return self.alloca("ptr", lengths[0]), self.alloca("ptr", lengths[1])

    def new_places(self) -> str:
        """Memory for the arguments of a step of a region that runs in line."""
        widths = [len(call.args) for program in self.programs if is_in_line(program) for call in program.calls]
        return self.alloca("ptr", max(widths)) if widths else "null"

    def set_pointer(self, array: Pointers, index: int, pointer: str) -> None:
        if isinstance(array, list):
            array[index] = pointer
        else:
            self.store("ptr", pointer, self.at(array, "ptr", index))

    def set_pointers(self, array: Pointers, pointers: Sequence[str | None]) -> None:
        for index, pointer in enumerate(pointers):
            if pointer is not None:
                self.set_pointer(array, index, pointer)

    def row(self, base: str, position: str, nbytes: int) -> str:
        """The pointer to a row of an array of rows."""
        return self.at(base, 1, self.mul(position, nbytes))

    def copy(self, to: str, source: str, nbytes: int | str) -> None:
        if nbytes:
            super().copy(to, source, nbytes)

    def copy_initial(self, operands: Sequence[str], carried: Sequence[str]) -> None:
        """Copy the initial values to the memory of the carried values, where they do not lie there."""
        for (result, index), pointer in zip(carried_operands(self.op).items(), carried, strict=True):
            if self.operand_of.get(result) != index:
                self.copy(pointer, operands[index], self.op.operands[index].type.nbytes)

    # -- regions

    def result_pointers(self, number: int, scratch: str) -> list[str | None]:
        """Pointers for the results of a region that are not written in place."""
        return [None if offset is None else self.at(scratch, 1, offset)
                for offset in self.memory[number]]

    def copy_back(self, number: int, carried: Sequence[str], scratch: str) -> None:
        """Copy new carried values that the region left in scratch memory to the memory of the carried values."""
        region = self.op.regions[number]
        first = len(region.results) - len(carried)
        for pointer, value, offset in zip(carried, region.results[first:], self.memory[number][first:], strict=True):
            if offset is not None:
                self.copy(pointer, self.at(scratch, 1, offset), value.type.nbytes)

    def call_steps(self, program: ProgramCode, params: Pointers, targets: Pointers, scratch: str) -> None:
        """Run a region in line: its steps, with arguments in memory that those of all such regions share."""
        pointers = {"param": params, "result": targets}
        stored: dict[int, str] = {}
        for call in program.calls:
            offsets = dict(call.code.offsets)
            for index, slot in enumerate(call.args):
                if isinstance(slot, Slot) and slot.space == "pool":
                    pointer = self.pool
                elif isinstance(slot, Slot):
                    base, offset = (scratch, slot.offset) if slot.space == "arena" else (pointers[slot.space][slot.offset], slot.start)
                    pointer = self.at(base, 1, offset + offsets.get(index, 0))
                else:
                    pointer = "null" if slot is None else self.use(f"@{slot}")
                if stored.get(index) != pointer:
                    stored[index] = pointer
                    self.store("ptr", pointer, self.at(self.places, "ptr", index))
            self.call("i64", f"@{call.function}", ("ptr", self.places), ("i64", 0), ("i64", call.code.tasks), ("ptr", self.inner_scratch))

    def call_region(self, number: int, params: Pointers, targets: Pointers, scratch: str) -> None:
        """Run a region. If the region fails, return its status."""
        program = self.programs[number]
        if isinstance(params, list) or isinstance(targets, list):
            self.call_steps(program, params, targets, scratch)
            return
        status = self.call("i64", f"@{program.entry}", ("ptr", params), ("ptr", targets), ("ptr", scratch), ("ptr", self.pool),
                           ("ptr", self.inner_scratch))
        if not program.checks:
            return
        with self.if_(self.compare("ne", status, 0)):
            inner, low = self.lshr(status, OP_SHIFT), self.let(f"and i64 {status}, {(1 << OP_SHIFT) - 1}")
            first, mask = (self.load("i64", self.at(table, "i64", inner)) for table in self.check_number_tables(number))
            self.ret("i64", self.add(first, self.let(f"and i64 {low}, {mask}")))

    def check_number_tables(self, number: int) -> tuple[str, str]:
        """Two tables indexed by the region's op number, from 1: `first` is 1 + the op's index in `nested_ops`; `mask` is -1 for ops with
        regions (the inner op number that was returned is added), else 0."""
        firsts, masks, position = [0], [0], 1
        for index, region in enumerate(self.op.regions):
            for inner in BufferAssignment(region).ops:
                nested = sum(1 for _ in nested_ops(inner)) if inner.name in CONTROL_FLOW else 0
                if index == number:
                    firsts.append(position)
                    masks.append(-1 if nested else 0)
                position += 1 + nested
        names = []
        for what, table in (("first", firsts), ("mask", masks)):
            name = f"step.{what}{number}"
            elements = ", ".join(f"i64 {entry}" for entry in table)
            self.functions[name] = Definition(name, f"@{name} = internal unnamed_addr constant [{len(table)} x i64] [{elements}]")
            names.append(self.use(f"@{name}"))
        return names[0], names[1]
