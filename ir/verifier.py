"""Checks a graph against the invariants of the IR.

V1  A value is defined once: by the parameter list or by one op.
V2  An op has the operands, attributes and regions that its record asks for, each attribute of its declared type.
V3  An operand, and a result of the graph, is defined before it is used.
V4  The types stored on results are those that the op's type rule infers.
V5  A region is closed: it uses only its own parameters and values, and obeys the invariants itself.
V6  Only ops that belong to the stage occur: no transform after "adjoint", `fused` and `matmul_epilogue` only from "fused", `free` only in
    "planned".
V7  Planned: nothing is used after `free`; nothing is freed twice; neither parameters nor results of the graph are freed;
    every value in the arena that is no result of the graph is freed, together with its aliases, or written over in place.
V8  Planned: every result has a slot. An op writes no memory that it reads or that is used later, except that a result may take the
    slot of an operand that the op may write over (`in_place_operands`); only parameters that are donated are written.
    A reshape in its operand's slot, and a slice at its offset in the operand's slot, write nothing; nor does a concatenation write
    operands that already lie at their offsets. Each result of the graph ends alone in its own `result` buffer, or in a donated
    parameter.

All violations are collected; the error names the pass, shows each violation on its op, and has the user's line.
"""

from __future__ import annotations

from enum import IntEnum

from adjit.ir.analysis.aliases import is_elided
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import DEFINITIONS, Kind, RegionUse
from adjit.ir.errors import AdjitError, VerificationError
from adjit.ir.graph import WRITABLE_ROLES, Graph, Op, Slot, Value, carried_operands
from adjit.ir.ops.traits import KERNELS, NESTED_PROGRAMS, TRANSFORMS, UPDATES
from adjit.ir.printer import print_graph


class Stage(IntEnum):
    """Progress of a graph through the pipeline; each stage allows fewer or other ops."""

    TRACED = 0       # as the user wrote it; transforms are ops with regions
    ADJOINT = 1      # transforms are expanded
    OPTIMIZED = 2
    FUSED = 3        # `fused` ops own regions
    PLANNED = 4      # slots and `free`



def verify(graph: Graph, stage: Stage = Stage.TRACED, after: str | None = None) -> None:
    """Raise `VerificationError` if `graph` breaks an invariant; `after` names the pass that made the graph."""
    check = _Check(stage)
    check.graph(graph)
    if stage is Stage.PLANNED:
        check.found += _check_memory(graph)
    if not check.found:
        return
    notes: dict[Op, str] = {}
    for op, text in check.found:
        if op is not None:
            notes[op] = f"{notes[op]}; {text}" if op in notes else text
    first = next((op for op, _ in check.found if op is not None), None)
    summary = "; ".join(text for _, text in check.found)
    raise VerificationError(
        (f"after pass '{after}': " if after else "") + summary + "\n" + print_graph(graph, notes=notes),
        first.loc if first else None, hint="this is a defect of adjit, unless the graph was written by hand")


def _check_memory(graph: Graph) -> list[tuple[Op | None, str]]:
    """Violations of V7 and V8, also in the regions of loops, branches and tiles."""
    found = _MemoryCheck(graph).run()
    within: dict[int, list[tuple[Op | None, str]]] = {}     # by the identity of a region, which ops may share
    for op in graph.ops:
        for region in op.regions if op.name in NESTED_PROGRAMS else ():
            if id(region) not in within:
                within[id(region)] = _check_memory(region)
            found += [(op, f"in region @{region.name}: {text}") for _, text in within[id(region)]]
    return found


class _Check:
    def __init__(self, stage: Stage):
        self.stage = stage
        self.sound: set[int] = set()        # identities of regions without a violation: thousands of ops may share a region
        self.found: list[tuple[Op | None, str]] = []

    def graph(self, graph: Graph) -> None:
        defined: set[Value] = set()
        for value in graph.params:
            if value in defined:
                self.found.append((None, f"V1 parameter {value!r} is listed twice"))
            defined.add(value)
        for op in graph.ops:
            self.op(op, defined)
            for value in op.results:
                if value in defined:
                    self.found.append((op, f"V1 {value!r} is defined twice"))
                defined.add(value)
        for value in graph.results:
            if value not in defined:
                self.found.append((None, f"V3 result {value!r} is not defined"))

    def op(self, op: Op, defined: set[Value]) -> None:
        definition = op.definition
        if DEFINITIONS.get(op.name) is not definition:
            self.found.append((op, f"V2 {op.name!r} is not a registered op"))
        for value in op.operands:
            if value not in defined:
                self.found.append((op, f"V3 use before definition: {value!r}"))
        problem = self.signature(op)
        if problem:
            self.found.append((op, f"V2 {problem}"))
            return
        for region in op.regions:
            if id(region) in self.sound:
                continue
            before = len(self.found)
            self.graph(region)
            if len(self.found) == before:
                self.sound.add(id(region))
            for index in range(before, len(self.found)):
                self.found[index] = (op, f"V5 in region @{region.name}: {self.found[index][1]}")
        try:
            types = definition.result_types([value.type for value in op.operands], op.attrs, op.regions)
        except AdjitError as error:
            self.found.append((op, f"V4 the type rule refuses: {error.message}"))
            return
        stored = tuple(value.type for value in op.results)
        if types != stored:
            self.found.append((op, f"V4 stored {', '.join(map(str, stored))}, inferred {', '.join(map(str, types))}"))
        self.stage_rule(op)

    def signature(self, op: Op) -> str:
        definition = op.definition
        if definition.arity is not None and len(op.operands) != definition.arity:
            return f"{len(op.operands)} operands, expected {definition.arity}"
        if len(op.regions) != definition.regions and op.name != "panels":       # one for each size, as its type rule says
            return f"{len(op.regions)} regions, expected {definition.regions}"
        marks = op.attrs.keys() & set(definition.marks)
        if op.attrs.keys() - marks != definition.attributes.keys() or not all(op.attrs[name] is True for name in marks):
            return f"attributes {sorted(op.attrs)}, expected {sorted(definition.attributes)}"
        for key, expected in definition.attributes.items():
            if not isinstance(op.attrs[key], expected):
                return f"attribute {key} is {op.attrs[key]!r}, expected {expected}"
        return ""

    def stage_rule(self, op: Op) -> None:
        if op.name in TRANSFORMS and self.stage >= Stage.ADJOINT and not (op.name == "stop_gradient" and self.stage is Stage.ADJOINT):
            self.found.append((op, f"V6 {op.name} in stage {self.stage.name.lower()}"))
        if op.name in KERNELS and self.stage < Stage.FUSED:
            self.found.append((op, f"V6 {op.name} in stage {self.stage.name.lower()}"))
        if op.definition.kind is Kind.MEMORY and self.stage < Stage.PLANNED:
            self.found.append((op, f"V6 {op.name} in stage {self.stage.name.lower()}"))
        if op.slots and self.stage < Stage.PLANNED:
            self.found.append((op, f"V6 slots in stage {self.stage.name.lower()}"))


class _MemoryCheck:
    """Checker of V7 and V8: tracks the contents of each memory, op by op."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.found: list[tuple[Op | None, str]] = []
        self.outputs = set(graph.results)
        self.freed: set[Value] = set()
        self.overwritten: set[Value] = set()                        # written over
        self.byte_range: dict[Value, ByteRange] = {}
        self.slots: dict[Value, Slot] = {value: Slot("param", index) for index, value in enumerate(graph.params)}
        self.contents: dict[str, dict[Value, ByteRange]] = {}        # values in each memory
        self.producer: dict[Value, Op] = {}

    def run(self) -> list[tuple[Op | None, str]]:
        for index, value in enumerate(self.graph.params):
            self.hold(value, ByteRange(f"param+{index}", 0, value.type.nbytes))
        for op in self.graph.ops:
            for value in op.operands:
                if value in self.freed:
                    self.found.append((op, f"V7 {'freed twice' if op.name == 'free' else 'used after free'}: {value!r}"))
                elif value in self.overwritten:
                    self.found.append((op, f"V8 used after it was written over: {value!r}"))
            if op.name == "free":
                self.free(op)
            else:
                self.op(op)
            self.producer.update(dict.fromkeys(op.results, op))
        self.end()
        return self.found

    def hold(self, value: Value, byte_range: ByteRange) -> None:
        self.byte_range[value] = byte_range
        self.contents.setdefault(byte_range.memory, {})[value] = byte_range

    def free(self, op: Op) -> None:
        for value in op.operands:
            if value in self.outputs or value in self.graph.params:
                self.found.append((op, f"V7 a parameter or result is freed: {value!r}"))
            self.freed.add(value)
        byte_ranges = {value: self.byte_range[value] for value in op.operands if value in self.byte_range}
        for value, byte_range in byte_ranges.items():
            self.contents[byte_range.memory].pop(value, None)
        for byte_range in byte_ranges.values():
            for other, occupied in self.contents[byte_range.memory].items():
                if byte_range.overlaps(occupied):
                    self.found.append((op, f"V7 the memory also holds {other!r}, which is not freed"))

    def op(self, op: Op) -> None:
        scratch = op.attrs.get("scratch_bytes", 0)
        sizes = [value.type.nbytes for value in op.results] + ([scratch] if scratch else [])
        if len(op.slots) != len(sizes):
            self.found.append((op, f"V8 {len(op.slots)} slots, expected {len(sizes)}"))
            return
        written: list[ByteRange] = []
        new: list[tuple[Value, ByteRange]] = []
        allowed = in_place_operands(op)
        carried = carried_operands(op) if op.definition.region_use is RegionUse.CONTROL_FLOW else None
        for position, (slot, size) in enumerate(zip(op.slots, sizes, strict=True)):
            begin = slot.offset if slot.space == "arena" else slot.start
            byte_range = ByteRange("arena" if slot.space == "arena" else str(slot.base), begin, begin + size)
            if position < len(op.results):
                new.append((op.results[position], byte_range))
            if is_elided(op, self.slots):
                continue
            self.target(op, slot, size)
            if any(byte_range.overlaps(other) for other in written):
                self.found.append((op, f"V8 {slot} is written twice by one op"))
            written.append(byte_range)
            over = allowed if carried is None else allowed & {carried.get(position, -1)}
            self.overwrite(op, slot, byte_range, over if position < len(op.results) else frozenset())
        for value, byte_range in new:
            self.hold(value, byte_range)
        self.slots.update(zip(op.results, op.slots, strict=False))

    def target(self, op: Op, slot: Slot, size: int) -> None:
        """Report an error if `size` bytes may not be written to `slot` at all."""
        owners = {"param": self.graph.params, "result": self.graph.results}.get(slot.space)
        if owners is None:
            if slot.space != "arena":
                self.found.append((op, "V8 unknown memory space"))
            return
        available = owners[slot.offset].type.nbytes - slot.start if slot.offset < len(owners) else -1
        if available < size or (slot.space == "param" and available != size):
            self.found.append((op, f"V8 {slot} does not hold {size} bytes"))
        elif slot.space == "param" and self.graph.param_roles[slot.offset] not in WRITABLE_ROLES:
            self.found.append((op, f"V8 a parameter that is not donated is written: {owners[slot.offset]!r}"))

    def overwrite(self, op: Op, slot: Slot, byte_range: ByteRange, allowed: frozenset[int]) -> None:
        """Record that `op` writes to `byte_range`, where operands `allowed` may lie: the old content is lost."""
        read = [(position, self.byte_range[value]) for position, value in enumerate(op.operands) if value in self.byte_range]
        in_place = any(position in allowed and other == byte_range for position, other in read) and all(
            position in allowed and other == byte_range for position, other in read if other.overlaps(byte_range))
        for value, occupied in list(self.contents.get(byte_range.memory, {}).items()):
            if not occupied.overlaps(byte_range):
                continue
            expected = in_place and byte_range.begin <= occupied.begin and occupied.end <= byte_range.end
            if not expected and (value in op.operands or byte_range.memory == "arena"):
                self.found.append((op, f"V8 {slot} overlaps a live value: {value!r}"))
            self.overwritten.add(value)
            del self.contents[byte_range.memory][value]

    def end(self) -> None:
        taken: set[str] = set()
        donated = {f"param+{i}" for i, role in enumerate(self.graph.param_roles) if role in WRITABLE_ROLES}
        own_memory: dict[Value, set[str]] = {}
        for index, value in enumerate(self.graph.results):
            own_memory.setdefault(value, set()).add(f"result+{index}")
        for value in own_memory:
            producer, byte_range = self.producer.get(value), self.byte_range.get(value)
            if value in self.overwritten:
                self.found.append((producer, f"V8 a result of the graph is written over: {value!r}"))
            if producer is None or byte_range is None:
                continue
            if byte_range.memory not in own_memory[value] | donated or byte_range.begin:
                self.found.append((producer, f"V8 a result of the graph lies in {byte_range.memory}: {value!r}"))
            if byte_range.memory in taken:
                self.found.append((producer, f"V8 two results of the graph share memory: {value!r}"))
            taken.add(byte_range.memory)
        for value in self.contents.get("arena", {}):
            if value not in self.outputs:
                self.found.append((self.producer[value], f"V7 never freed: {value!r}"))


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes [begin, end) of one memory: the arena, or the buffer of a parameter or result."""

    memory: str
    begin: int
    end: int

    def overlaps(self, other: ByteRange) -> bool:
        return (self.begin < other.end and other.begin < self.end and self.memory == other.memory
                and self.begin < self.end and other.begin < other.end)


def in_place_operands(op: Op) -> frozenset[int]:
    """Indices of the operands that a result may be written over: of loops and branches, each carried result over its own operand."""
    if op.definition.kind is Kind.ELEMENTWISE:
        return frozenset(i for i, value in enumerate(op.operands) if value.type.nbytes == op.results[0].type.nbytes)
    if op.name in UPDATES:
        return frozenset({0})
    if op.definition.region_use is RegionUse.CONTROL_FLOW:
        return frozenset(carried_operands(op).values())
    if op.definition.region_use is RegionUse.TILING:
        return _elementwise_params(op)
    return frozenset(op.attrs.get("in_place", ()))


def _elementwise_params(op: Op) -> frozenset[int]:
    """Operands of `tiled` whose tiles are read element by element only, so that a tile of a result may lie in their memory. (The memory
    plan of the region decides the order of reads and writes within a tile.)"""
    (region,), sliced = op.regions, op.attrs["sliced"]
    read: dict[Value, bool] = {}
    for op in region.ops:
        allowed = in_place_operands(op)
        for position, value in enumerate(op.operands):
            read[value] = read.get(value, True) and position in allowed
    return frozenset(index for index, value in enumerate(region.params) if sliced[index] and read.get(value, False))
