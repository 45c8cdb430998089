"""Lowering of a planned graph to one LLVM module: a function for each different step, and an entry that calls the steps in order.

    i64 @adjit_run(ptr %params, ptr %results, ptr %arena, ptr %pool)

`params` and `results` point to arrays of pointers, one for each parameter and result of the graph (the pointer of a result that ends in a
donated parameter is not read). `arena` points to aligned working memory: the arena of the graph, then scratch memory, which the steps use
one after the other. `pool` points to the launcher of a thread pool, or is null. Beyond these, the function uses a little of its stack, so
any number of calls may run at once. It returns 0, or, if an index is out of range, `(number of the op + 1) << 40 | (position of the index +
1)`, with `GUARD_MISSED` for the position where a guard does not hold; then nothing was written into donated parameters.

The launcher begins with a pointer to `i64 launch(ptr %pool, ptr %step, ptr %places, i64 %tasks, ptr %scratch)`. The function `launch` runs
tasks 0 to `tasks` of a step (`program_code.py`), and returns when all are done: the smallest nonzero status of a task, or 0. The calling
thread works in `scratch`, other threads in memory of their own. The entry of a region takes its scratch memory as a fifth argument.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import field, replace

from adjit.codegen.llvm.builder import Builder, Typed
from adjit.codegen.llvm.module import DISPATCH, Definition, Function
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.arrays.creation import lower_copy
from adjit.codegen.native.lower_op import lower_step
from adjit.codegen.native.merge_functions import MAX_MERGED_LINES, MIN_SIMILAR, find_similar, is_small, merge_steps, numbers_table
from adjit.codegen.native.program_code import (
    ENTRY,
    LAUNCH,
    MAX_SPANS,
    OP_SHIFT,
    SIGNATURE,
    Call,
    LeadingDims,
    ProgramCode,
    StepCode,
    launch_function,
)
from adjit.codegen.native.subnormals import BODY, flushing_entry
from adjit.ir.analysis.buffer_assignment import BufferAssignment, ResultKind
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, Slot, structural_key
from adjit.ir.ops.control_flow import display_name
from adjit.ir.ops.traits import CONTROL_FLOW

MAX_CALLS_PER_FUNCTION = 128
"""Calls of steps in one function: LLVM takes superlinear time for longer functions."""

POOL_SLOT = Slot("pool", 0)
"""Slot of the thread pool, for ops whose steps launch others: loops and branches, and what is done with large matrices by blocks."""

OnStep = Callable[[Sequence[Definition], StepCode], None]

PARAMETERS = "ptr noalias readonly %params, ptr noalias readonly %results, ptr noalias %arena, ptr %pool"
ARGUMENTS = ("ptr", "%params"), ("ptr", "%results"), ("ptr", "%arena"), ("ptr", "%pool")
REGION_PARAMETERS, REGION_ARGUMENTS = f"{PARAMETERS}, ptr noalias %scratch", (*ARGUMENTS, ("ptr", "%scratch"))


@dataclass(slots=True)
class _Steps:
    """Functions of steps. Steps of equal text share a function; equal ops are lowered once."""

    prefix: str
    target: Target
    on_step: OnStep | None = None
    codes: dict[Hashable, tuple[StepCode, ...]] = field(default_factory=dict)
    names: dict[tuple[Definition, ...], str] = field(default_factory=dict)
    specialised: set[str] = field(default_factory=set)
    regions: int = 0
    calls: list[Call] = field(default_factory=list)
    small: list[Call] = field(default_factory=list)

    def lower(self, operation: _Operation) -> tuple[StepCode, ...]:
        key = operation.key
        if key not in self.codes:
            self.codes[key] = lower_step(operation.op, operation.shared, self.target, self.lower_region, operation.leading_dims,
                                          operation.check_first)
        return self.codes[key]

    def lower_region(self, region: Graph, leading_dims: LeadingDims) -> ProgramCode:
        self.regions += 1
        return lower_program(region, self.target, f"{self.prefix}region_{self.regions}_", leading_dims=leading_dims, is_region=True)

    def call(self, call: Call, specialised: bool, once: bool) -> None:
        """Add a call. A `specialised` step keeps its numbers in its text. A small step that is called `once` may be merged with its
        neighbours."""
        if once and is_small(call):
            self.small.append(call)
            if sum(call.code.text.count("\n") for call in self.small) >= MAX_MERGED_LINES:
                self.flush_small()
        else:
            self.flush_small()
            self.calls.append(self._named(call, specialised))

    def flush_small(self) -> None:
        if self.small:
            self.calls.append(self._named(merge_steps(self.small), specialised=True))
            self.small = []

    def _named(self, call: Call, specialised: bool) -> Call:
        functions = call.code.functions
        found = self.names.get(functions)
        if found is None:
            found = self.names[functions] = f"{self.prefix}step_{len(self.names)}"
            if specialised:
                self.specialised.add(found)
                if self.on_step is not None:
                    self.on_step(_renamed(functions, found), call.code)
        return replace(call, function=found)

    def finish(self) -> tuple[list[Definition], list[Call]]:
        """The functions, and the calls; calls of similar steps share a merged function."""
        calls, args = self.calls, dict[Function, int]()
        for call in calls:
            step, *others = call.code.functions
            if call.function not in self.specialised and isinstance(step, Function) and not others:
                args[step] = max(len(call.args), args.get(step, 0))
        functions: list[Definition] = []
        own = dict(self.names)
        merged_call: dict[str, tuple[str, int]] = {}
        for merged in find_similar(args):
            first = self.names[next(iter(merged.constants)),]
            functions += _renamed([merged.function], first)
            for step, numbers in merged.constants.items():
                name = own.pop((step,))
                functions.append(numbers_table(f"{name}.numbers", numbers))
                merged_call[name] = first, merged.table_index
        for steps, name in own.items():
            functions += _renamed(steps, name)
        return functions, [_with_table(call, *merged_call[call.function]) if call.function in merged_call else call for call in calls]


def _renamed(functions: Sequence[Definition], name: str) -> list[Definition]:
    return [function.renamed("step", name) for function in functions]


def _with_table(call: Call, function: str, arg: int) -> Call:
    """The call, redirected to the merged function."""
    args = (*call.args, *[None] * (arg - len(call.args)), f"{call.function}.numbers")
    return replace(call, function=function, args=args)


def lower_program(planned: Graph, target: Target, prefix: str = "", timed: bool = False, leading_dims: LeadingDims | None = None,
                  flush_subnormals: bool = False, on_step: OnStep | None = None, is_region: bool = False) -> ProgramCode:
    """The program of a planned graph. All its names begin with `prefix`; with a prefix (regions of a step), the entry is internal.
    `leading_dims` has the leading dimensions of parameters that are a column range of a matrix; only products read these.

    A `timed` program takes one argument more, a pointer to two int64 for each op that has a step. It stores the processor's clock there,
    before and after the op; behind them, a number and `MAX_SPANS` rows of four: op, a number that tells the thread, begin and end of each
    range of tasks that a thread runs of a step. With `flush_subnormals`, the processor treats subnormal numbers as zero during the run.
    `on_step` receives each function's text and code as soon as it is final.
    Raises `UnsupportedError` for an op without machine code.
    """
    assignment = BufferAssignment(planned)
    steps = _Steps(prefix, target, on_step)
    operations = [_operation(op, assignment, leading_dims or {}, is_region) for op in assignment.ops]
    names, keys = Counter(op.name for op in assignment.ops), Counter(operation.key for operation in operations)
    for number, operation in enumerate(operations):
        specialised = names[operation.op.name] < MIN_SIMILAR
        for code in steps.lower(operation):
            call = Call("", code, operation.args, number, display_name(operation.op))
            steps.call(call, specialised, specialised and keys[operation.key] == 1 and not timed)
    steps.flush_small()
    for call in _copies_of_results(assignment):
        steps.call(call, specialised=False, once=False)
    shared: dict[str, Definition] = {}
    declarations: set[str] = set()
    for call in steps.calls:
        shared.update(call.code.shared)
        declarations |= call.code.declarations
    if timed:
        declarations.add("declare i64 @llvm.readcyclecounter()")
    entry = prefix + ENTRY
    functions, calls = steps.finish()
    linkage = "internal" if prefix else ""
    parameters, arguments = (REGION_PARAMETERS, REGION_ARGUMENTS) if is_region else (PARAMETERS, ARGUMENTS)
    if timed:
        parameters, arguments = f"{parameters}, ptr noalias %clock", (*arguments, ("ptr", "%clock"))
    if flush_subnormals:
        flushing, declared = flushing_entry(entry, target, parameters, arguments, linkage)
        functions.append(flushing)
        declarations |= declared
    body, linkage = (f"{entry}.{BODY}", "internal") if flush_subnormals else (entry, linkage)
    functions = [*functions, *_emit_calls(body, calls, len(assignment.ops) if timed else None, parameters, arguments, linkage,
                                           None if is_region else assignment.arena_bytes)]
    if any(call.parallel for call in calls):
        shared[LAUNCH] = launch_function()
    return ProgramCode(entry, tuple(functions), shared, frozenset(declarations), tuple(calls), flush_subnormals)


@dataclass(frozen=True, slots=True)
class _Operation:
    """Key of a lowering: the op, and `shared`, `leading_dims` and `check_first` of `lower_step`. Equal keys have equal code."""

    op: Op
    shared: dict[int, int]
    leading_dims: dict[int, int]
    check_first: bool
    args: tuple[Slot | None, ...]
    key: Hashable


def _operation(op: Op, assignment: BufferAssignment, leading_dims: LeadingDims, is_region: bool) -> _Operation:
    operands = [assignment.slots[value] for value in op.operands]
    strided = {position: leading_dims[slot.offset] for position, slot in enumerate(operands)
               if slot.space == "param" and slot.offset in leading_dims}
    results = op.slots[:len(op.results)]
    first = {slot: position for position, slot in reversed(list(enumerate(operands)))}
    shared = {j: first[slot] for j, slot in enumerate(results) if slot in first}
    scratch = op.slots[len(op.results)] if len(op.slots) > len(op.results) else None
    args = (*operands, *results, scratch, *([POOL_SLOT] if op.name in CONTROL_FLOW or op.definition.kind is Kind.LINALG else []))
    lasting = ("param", "result") if is_region else ("param",)      # memory that is more than a result of a call that fails
    check_first = op.name == "take" and results[0].space in lasting
    key = structural_key(op), tuple(shared.items()), tuple(strided.items()), check_first
    return _Operation(op, shared, strided, check_first, args, key)


def _copies_of_results(assignment: BufferAssignment) -> list[Call]:
    """Copies of results that lie in the memory of a parameter or of another result."""
    calls = []
    for index, (value, location) in enumerate(zip(assignment.graph.results, assignment.result_locations, strict=True)):
        arg, own = assignment.slots[value], Slot("result", index)
        if location.kind is not ResultKind.DONATED and arg != own and value.type.size:
            calls.append(Call("", lower_copy(value.type.nbytes), (arg, own), -1, "copy"))
    return calls


def _emit_calls(entry: str, calls: Sequence[Call], timed: int | None, parameters: str, arguments: Sequence[Typed], linkage: str,
                scratch: int | None) -> list[Function]:
    """The entry, and, if there are many calls, the functions among which the calls are split. Scratch memory begins `scratch` bytes into
    the arena; if `scratch` is None, it is an argument. `timed` is the number of ops of a timed program."""
    wrappers: list[Function] = []
    if len(calls) <= MAX_CALLS_PER_FUNCTION:
        return [_function(entry, calls, timed, parameters, linkage, scratch, wrappers), *wrappers]
    parts = [calls[start:start + MAX_CALLS_PER_FUNCTION] for start in range(0, len(calls), MAX_CALLS_PER_FUNCTION)]
    functions = [_function(f"{entry}.{k}", part, timed, parameters, "internal", scratch, wrappers) for k, part in enumerate(parts)]
    text = Builder()
    for function in functions:
        status = text.call("i64", f"@{function.name}", *arguments)
        with text.if_(text.compare("ne", status, 0)):
            text.ret("i64", status)
    text.ret("i64", 0)
    return [*functions, *wrappers, text.end_function(entry, parameters, "i64", linkage, DISPATCH)]


def _function(name: str, calls: Sequence[Call], timed: int | None, parameters: str, linkage: str, scratch: int | None,
              wrappers: list[Function]) -> Function:
    """A function that makes the calls in order, and returns early if one fails. Adds functions that note the time of threads to
    `wrappers`."""
    width = max((len(call.args) for call in calls), default=0)
    lines = [f"  %places = alloca [{width if timed is None else width + 1} x ptr]"]
    if timed is not None:
        lines += [f"  %spans = getelementptr i64, ptr %clock, i64 {2 * timed}",
                  f"  %spans.at = getelementptr ptr, ptr %places, i64 {width}", "  store ptr %spans, ptr %spans.at"]
    if scratch is not None:
        lines.append(f"  %scratch = getelementptr i8, ptr %arena, i64 {scratch}")
    stored: list[tuple[Slot | str | None, int] | None] = [None] * width
    uses = {LAUNCH}
    for i in range(width):
        lines.append(f"  %place{i} = getelementptr ptr, ptr %places, i64 {i}")
    for k, call in enumerate(calls):
        offsets = dict(call.code.offsets)
        for i, slot in enumerate(call.args):
            if stored[i] != (slot, offsets.get(i, 0)):
                lines += _store(slot, offsets.get(i, 0), f"{k}.{i}", f"%place{i}")
                stored[i] = slot, offsets.get(i, 0)
        step = call.function
        if timed is not None and call.parallel:
            wrappers.append(_noting_threads(f"{name}.threads{k}", call, width))
            step = wrappers[-1].name
        if timed is not None and call.number >= 0 and (k == 0 or calls[k - 1].number != call.number):
            lines += _clock(2 * call.number, f"begin{k}")
        alone, together = f"@{call.function}(ptr %places, i64 0", f"@{LAUNCH}(ptr %pool, ptr @{step}, ptr %places"
        lines.append(f"  %r{k} = call i64 {together if call.parallel else alone}, i64 {call.code.tasks}, ptr %scratch)")
        uses |= {call.function, step, *[slot for slot in call.args if isinstance(slot, str)]}
        if timed is not None and call.number >= 0:
            lines += _clock(2 * call.number + 1, f"end{k}")
        if call.code.checks:
            lines += [f"  %good{k} = icmp eq i64 %r{k}, 0", f"  br i1 %good{k}, label %after{k}, label %fail{k}", f"fail{k}:",
                      f"  %failed{k} = or i64 %r{k}, {(call.number + 1) << OP_SHIFT}", f"  ret i64 %failed{k}", f"after{k}:"]
    return Function(name, parameters, lines, result="i64", returned="i64 0", linkage=linkage, attributes=DISPATCH, uses=uses,
                    returns_early=any(call.code.checks for call in calls))


def _noting_threads(name: str, call: Call, place: int) -> Function:
    """A step that notes when which thread ran a range of its tasks. The scratch memory tells the thread; the rows are found at `place`."""
    lines = [
        "  %begin = call i64 @llvm.readcyclecounter()",
        f"  %status = call i64 @{call.function}(ptr %places, i64 %low, i64 %high, ptr %scratch)",
        "  %end = call i64 @llvm.readcyclecounter()", f"  %at = getelementptr ptr, ptr %places, i64 {place}",
        "  %spans = load ptr, ptr %at",
        "  %number = atomicrmw add ptr %spans, i64 1 monotonic", f"  %fits = icmp ult i64 %number, {MAX_SPANS}",
        "  br i1 %fits, label %keep, label %done", "keep:", "  %four = mul i64 %number, 4", "  %first = add i64 %four, 1",
        "  %row = getelementptr i64, ptr %spans, i64 %first", f"  store i64 {call.number}, ptr %row",
        "  %thread = ptrtoint ptr %scratch to i64"]
    for index, value in enumerate(("%thread", "%begin", "%end"), start=1):
        lines += [f"  %cell{index} = getelementptr i64, ptr %row, i64 {index}", f"  store i64 {value}, ptr %cell{index}"]
    return Function(name, SIGNATURE, [*lines, "  br label %done", "done:"], result="i64", returned="i64 %status", attributes=DISPATCH,
                    uses={call.function})


def _store(slot: Slot | str | None, offset: int, name: str, arg: str) -> list[str]:
    """Store an address into an element of the argument array: `offset` bytes behind the start of a slot, or the address of a constant."""
    if not isinstance(slot, Slot):
        return [f"  store ptr {'null' if slot is None else '@' + slot}, ptr {arg}"]
    if slot is POOL_SLOT:
        return [f"  store ptr %pool, ptr {arg}"]
    if slot.space == "arena":
        return [f"  %a{name} = getelementptr i8, ptr %arena, i64 {slot.offset + offset}", f"  store ptr %a{name}, ptr {arg}"]
    lines = [f"  %at{name} = getelementptr ptr, ptr %{slot.space}s, i64 {slot.offset}", f"  %a{name} = load ptr, ptr %at{name}"]
    if slot.start + offset:
        return [*lines, f"  %b{name} = getelementptr i8, ptr %a{name}, i64 {slot.start + offset}", f"  store ptr %b{name}, ptr {arg}"]
    return [*lines, f"  store ptr %a{name}, ptr {arg}"]


def _clock(index: int, name: str) -> list[str]:
    return [f"  %{name} = call i64 @llvm.readcyclecounter()", f"  %{name}.at = getelementptr i64, ptr %clock, i64 {index}",
            f"  store i64 %{name}, ptr %{name}.at"]
