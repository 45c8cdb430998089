"""Loops and branches as steps: each region is a program of its own (`program.py`), which the step calls with the pointers of every run.

Slices and rows are reached by pointers into the arrays that they are slices and rows of. What is carried lies where it ends, in the
results of the op, and is written over in place; where the region's plan has it elsewhere it is copied back after each run. The runs follow
one another on one thread; steps of a region that are worth it go to the pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from adjit.codegen.native.arrays.copies import DECLARATION
from adjit.codegen.native.program_code import OP_SHIFT, SHORT_NANOSECONDS, LowerGraph, ProgramCode
from adjit.codegen.native.step_code import StepCode
from adjit.codegen.native.step_text import StepText
from adjit.codegen.target import Target
from adjit.ir.graph import Op
from adjit.ir.layout import Layout
from adjit.ir.ops.traits import CONTROL_FLOW
from adjit.ir.region_memory import Places, nested_ops, region_memory

RUNS = 64
"""How often a `while_loop` is taken to run, where work is estimated."""


def lower_control_flow(op: Op, shared: Mapping[int, int], target: Target, lower_graph: LowerGraph) -> tuple[StepCode, ...]:
    """The step of a `scan`, a `while_loop` or a `cond`.

    Where an index is out of range it returns 1 + the number of the op among `nested_ops`.
    """
    programs = [lower_graph(region, {}) for region in op.regions]
    memory, _ = region_memory(op.regions)
    text = _Text(op, target, programs, memory)
    with text.step():
        {"scan": text.scan, "while_loop": text.while_loop, "cond": text.cond}[op.name]()
    runs = {"scan": op.attrs.get("length", 1), "while_loop": RUNS, "cond": 1}[op.name]
    work = runs * sum(program.work for program in programs)
    if op.name == "while_loop":
        work = max(work, SHORT_NANOSECONDS)     # it may run for long all the same, and other threads of Python meanwhile
    code = text.code(1, work, checks=any(program.checks for program in programs))
    functions: dict[str, str] = {}
    for program in programs:
        functions.update(program.shared)
        functions[program.entry] = "\n".join(program.functions)
    declarations = code.declarations.union({DECLARATION}, *(program.declarations for program in programs))
    stack = max(program.stack_bytes for program in programs)
    return (replace(code, shared=functions, declarations=declarations, regions_stack=stack),)


class _Text(StepText):
    def __init__(self, op: Op, target: Target, programs: Sequence[ProgramCode], memory: Sequence[Places]):
        super().__init__(target)
        self.op = op
        self.programs = programs
        self.memory = memory

    def scan(self) -> None:
        op = self.op
        (body,), carries, slices, length = op.regions, op.attrs["carries"], op.attrs["slices"], op.attrs["length"]
        rows = len(body.results) - carries
        operands, results, scratch = self.places()
        carried = results[rows:]
        self.start(operands, carried)
        params, targets = self.arrays(0)
        self.fill(params, [*carried, *[None] * slices, *operands[carries + slices:]])
        self.fill(targets, [*[None] * rows, *self.handed_over(0, scratch)[rows:]])
        if not length:
            return
        with self.loop(0, length) as loop:
            position = self.let(f"sub i64 {length - 1}, {loop.counter}") if op.attrs["reverse"] else loop.counter
            for index in range(carries, carries + slices):
                self.put(params, index, self.row(operands[index], position, body.params[index].type.nbytes))
            for index in range(rows):
                self.put(targets, index, self.row(results[index], position, body.results[index].type.nbytes))
            self.call_region(0, params, targets, scratch)
            self.copy_back(0, carried, scratch)

    def while_loop(self) -> None:
        op = self.op
        body = op.regions[1]
        carries, checkpointed, checkpoints = (op.attrs[name] for name in ("carries", "checkpointed", "checkpoints"))
        operands, results, scratch = self.places()
        carried = results[len(results) - carries:]
        self.start(operands, carried)
        test_params, test_targets = self.arrays(0)
        body_params, body_targets = self.arrays(1)
        for params in (test_params, body_params):
            self.fill(params, [*carried, *operands[carries:]])
        (test,) = self.handed_over(0, scratch)
        self.fill(test_targets, [test])
        self.fill(body_targets, self.handed_over(1, scratch))
        trips, stride = (self.let("alloca i64") for _ in range(2))
        self.do(f"store i64 0, ptr {trips}")
        self.do(f"store i64 1, ptr {stride}")
        again, run, after = (f"{name}{self.fresh()}" for name in ("again", "run", "after"))
        self.do(f"br label %{again}")
        self.label(again)
        self.call_region(0, test_params, test_targets, scratch)
        flag = self.let(f"load i8, ptr {test}")
        holds = self.let(f"icmp ne i8 {flag}, 0")
        self.do(f"br i1 {holds}, label %{run}, label %{after}")
        self.label(run)
        count = self.let(f"load i64, ptr {trips}")
        if checkpoints:
            sizes = [body.params[index].type.nbytes for index in checkpointed]
            stacks = list(zip(results[2:2 + len(sizes)], sizes, strict=True))
            self.keep(count, stride, [carried[index] for index in checkpointed], stacks, checkpoints)
        self.call_region(1, body_params, body_targets, scratch)
        self.copy_back(1, carried, scratch)
        self.do(f"store i64 {self.let(f'add i64 {count}, 1')}, ptr {trips}")
        self.do(f"br label %{again}")
        self.label(after)
        if checkpoints:
            for place, source in zip(results, (trips, stride), strict=False):
                self.do(f"store i64 {self.let(f'load i64, ptr {source}')}, ptr {place}")

    def keep(self, count: str, stride: str, carried: Sequence[str], stacks: Sequence[tuple[str, int]], checkpoints: int) -> None:
        """Keep what is carried, if it is the turn of this run; where the stacks are full, keep every second one of what they hold."""
        thin, turn, store, after = (f"{name}{self.fresh()}" for name in ("thin", "turn", "store", "kept"))
        step = self.let(f"load i64, ptr {stride}")
        reach = self.let(f"mul i64 {step}, {checkpoints}")
        full = self.let(f"icmp eq i64 {count}, {reach}")
        self.do(f"br i1 {full}, label %{thin}, label %{turn}")
        self.label(thin)
        with self.loop(1, checkpoints // 2) as loop:
            other = self.let(f"mul i64 {loop.counter}, 2")
            for stack, nbytes in stacks:
                self.copy(self.row(stack, loop.counter, nbytes), self.row(stack, other, nbytes), nbytes)
        self.do(f"store i64 {self.let(f'mul i64 {step}, 2')}, ptr {stride}")
        self.do(f"br label %{turn}")
        self.label(turn)
        now = self.let(f"load i64, ptr {stride}")
        rest = self.let(f"urem i64 {count}, {now}")
        is_turn = self.let(f"icmp eq i64 {rest}, 0")
        self.do(f"br i1 {is_turn}, label %{store}, label %{after}")
        self.label(store)
        place = self.let(f"udiv i64 {count}, {now}")
        for value, (stack, nbytes) in zip(carried, stacks, strict=True):
            self.copy(self.row(stack, place, nbytes), value, nbytes)
        self.do(f"br label %{after}")
        self.label(after)

    def cond(self) -> None:
        operands, results, scratch = self.places()
        arrays = [self.arrays(number) for number in range(2)]
        flag = self.let(f"load i8, ptr {operands[0]}")
        holds = self.let(f"icmp ne i8 {flag}, 0")
        labels = [f"{name}{self.fresh()}" for name in ("true", "false")]
        after = f"after{self.fresh()}"
        self.do(f"br i1 {holds}, label %{labels[0]}, label %{labels[1]}")
        for number, label in enumerate(labels):
            self.label(label)
            params, targets = arrays[number]
            self.fill(params, operands[1:])
            self.fill(targets, results)
            self.call_region(number, params, targets, scratch)
            self.do(f"br label %{after}")
        self.label(after)

    # -- pointers

    def places(self) -> tuple[list[str], list[str], str]:
        """Pointers to the operands, the results and the scratch memory."""
        operands, results = len(self.op.operands), len(self.op.results)
        pointers = [self.place(number) for number in range(operands + results + 1)]
        self.pool = self.place(operands + results + 1)
        return pointers[:operands], pointers[operands:-1], pointers[-1]

    def arrays(self, number: int) -> tuple[str, str]:
        """Arrays of pointers for the parameters and the results of a region."""
        region = self.op.regions[number]
        params, targets = (self.let(f"alloca [{max(1, len(values))} x ptr]") for values in (region.params, region.results))
        return params, targets

    def put(self, array: str, index: int, pointer: str) -> None:
        self.do(f"store ptr {pointer}, ptr {self.let(f'getelementptr ptr, ptr {array}, i64 {index}')}")

    def fill(self, array: str, pointers: Sequence[str | None]) -> None:
        for index, pointer in enumerate(pointers):
            if pointer is not None:
                self.put(array, index, pointer)

    def row(self, base: str, position: str, nbytes: int) -> str:
        """The pointer to a row of an array of rows."""
        return self.let(f"getelementptr i8, ptr {base}, i64 {self.let(f'mul i64 {position}, {nbytes}')}")

    def copy(self, to: str, source: str, nbytes: int) -> None:
        if nbytes:
            self.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {nbytes}, i1 false)")

    def start(self, operands: Sequence[str], carried: Sequence[str]) -> None:
        """Put what the loop starts with where it is carried."""
        for index, pointer in enumerate(carried):
            self.copy(pointer, operands[index], self.op.operands[index].type.nbytes)

    # -- regions

    def handed_over(self, number: int, scratch: str) -> list[str | None]:
        """Pointers for the results of a region that are not written in place."""
        return [None if offset is None else self.let(f"getelementptr i8, ptr {scratch}, i64 {offset}")
                for offset in self.memory[number]]

    def copy_back(self, number: int, carried: Sequence[str], scratch: str) -> None:
        """Put what a run handed over elsewhere where it is carried."""
        region = self.op.regions[number]
        first = len(region.results) - len(carried)
        for pointer, value, offset in zip(carried, region.results[first:], self.memory[number][first:], strict=True):
            if offset is not None:
                self.copy(pointer, self.let(f"getelementptr i8, ptr {scratch}, i64 {offset}"), value.type.nbytes)

    def call_region(self, number: int, params: str, targets: str, scratch: str) -> None:
        """Run a region; where it fails, return."""
        program = self.programs[number]
        status = self.let(f"call i64 @{program.entry}(ptr {params}, ptr {targets}, ptr {scratch}, ptr {self.pool})")
        if not program.checks:
            return
        good, bad = (f"{name}{self.fresh()}" for name in ("good", "bad"))
        self.do(f"br i1 {self.let(f'icmp eq i64 {status}, 0')}, label %{good}, label %{bad}")
        self.label(bad)
        inner = self.let(f"lshr i64 {status}, {OP_SHIFT}")
        low = self.let(f"and i64 {status}, {(1 << OP_SHIFT) - 1}")
        firsts, masks = self.numbering(number)
        entries = [self.let(f"getelementptr i64, ptr {table}, i64 {inner}") for table in (firsts, masks)]
        first, mask = (self.let(f"load i64, ptr {entry}") for entry in entries)
        within = self.let(f"and i64 {low}, {mask}")
        self.do(f"ret i64 {self.let(f'add i64 {first}, {within}')}")
        self.label(good)

    def numbering(self, number: int) -> tuple[str, str]:
        """Tables by the number of an op of the region, counted from 1: 1 + its number among `nested_ops`; and what is added to that of the
        number that the op returned, which within an op with regions is one of an op of these."""
        firsts, masks, position = [0], [0], 1
        for index, region in enumerate(self.op.regions):
            for inner in Layout(region).ops:
                nested = sum(1 for _ in nested_ops(inner)) if inner.name in CONTROL_FLOW else 0
                if index == number:
                    firsts.append(position)
                    masks.append(-1 if nested else 0)
                position += 1 + nested
        names = []
        for what, table in (("first", firsts), ("mask", masks)):
            name = f"step.{what}{number}"
            elements = ", ".join(f"i64 {entry}" for entry in table)
            self.functions[name] = f"@{name} = internal unnamed_addr constant [{len(table)} x i64] [{elements}]"
            names.append(f"@{name}")
        return names[0], names[1]
