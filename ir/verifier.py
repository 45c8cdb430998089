"""Checks a graph against the invariants of the IR.

V1  A value is defined once: by the parameter list or by one op.
V2  An op has the operands, attributes and regions that its record asks for, each attribute of its declared type.
V3  An operand, and a result of the graph, is defined before it is used.
V4  The types stored on results are those that the op's type rule gives.
V5  A region is closed: it uses only its own parameters and values. (Its own invariants hold too.)
V6  Only ops that belong to the stage occur: no transform after "adjoint", `fused` only from "fused", `free` only in "planned".
V7  Planned: nothing is used after `free`; nothing is freed twice; neither parameters nor results of the graph are freed,
    and every value that lies in the arena and is no result is freed.
V8  Planned: every result has a slot; two values that are live at the same time do not overlap in the arena, but where an
    op takes over the slot of an operand that dies there, or gives a new shape to the same memory.

All violations are collected; the error names the pass, shows each on its op, and gives the user's line.
"""

from __future__ import annotations

from enum import IntEnum

from adjit.ir.definition import DEFINITIONS, Kind
from adjit.ir.errors import AdjitError, VerificationError
from adjit.ir.graph import SLOT_SPACES, Graph, Op, Value
from adjit.ir.printer import print_graph


class Stage(IntEnum):
    """How far a graph has come; each stage allows fewer or other ops."""

    TRACED = 0       # as the user wrote it, transforms are ops with regions
    ADJOINT = 1      # transforms are expanded
    OPTIMIZED = 2
    FUSED = 3        # `fused` ops own regions
    PLANNED = 4      # slots and `free`


TRANSFORMS = frozenset({"vjp", "custom_call", "checkpoint", "stop_gradient"})


def verify(graph: Graph, stage: Stage = Stage.TRACED, after: str | None = None) -> None:
    """Raise `VerificationError` where `graph` breaks an invariant; `after` names the pass that made it."""
    check = _Check(stage)
    check.graph(graph)
    if stage is Stage.PLANNED:
        check.memory(graph)
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


class _Check:
    def __init__(self, stage: Stage):
        self.stage = stage
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
            before = len(self.found)
            self.graph(region)
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
        if len(op.regions) != definition.regions:
            return f"{len(op.regions)} regions, expected {definition.regions}"
        if op.attrs.keys() != definition.attributes.keys():
            return f"attributes {sorted(op.attrs)}, expected {sorted(definition.attributes)}"
        for key, expected in definition.attributes.items():
            if not isinstance(op.attrs[key], expected):
                return f"attribute {key} is {op.attrs[key]!r}, expected {expected}"
        return ""

    def stage_rule(self, op: Op) -> None:
        if op.name in TRANSFORMS and self.stage >= Stage.ADJOINT and not (op.name == "stop_gradient" and self.stage is Stage.ADJOINT):
            self.found.append((op, f"V6 {op.name} in stage {self.stage.name.lower()}"))
        if op.name == "fused" and self.stage < Stage.FUSED:
            self.found.append((op, f"V6 fused in stage {self.stage.name.lower()}"))
        if op.definition.kind is Kind.MEMORY and self.stage < Stage.PLANNED:
            self.found.append((op, f"V6 {op.name} in stage {self.stage.name.lower()}"))
        if op.slots and self.stage < Stage.PLANNED:
            self.found.append((op, f"V6 slots in stage {self.stage.name.lower()}"))

    def memory(self, graph: Graph) -> None:
        """V7 and V8."""
        outputs = set(graph.results)
        freed: set[Value] = set()
        live: dict[Value, tuple[int, int]] = {}      # value in the arena -> its bytes [begin, end)
        made: dict[Value, Op] = {}
        for op in graph.ops:
            for value in op.operands:
                if value in freed:
                    self.found.append((op, f"V7 {'freed twice' if op.name == 'free' else 'used after free'}: {value!r}"))
            if op.name == "free":
                for value in op.operands:
                    if value in outputs or value in graph.params:
                        self.found.append((op, f"V7 a parameter or result is freed: {value!r}"))
                    freed.add(value)
                    live.pop(value, None)
                continue
            self.slots(op, live)
            made.update(dict.fromkeys(op.results, op))
        for value, op in made.items():
            if value in live and value not in outputs:
                self.found.append((op, f"V7 never freed: {value!r}"))

    def slots(self, op: Op, live: dict[Value, tuple[int, int]]) -> None:
        if len(op.slots) not in (len(op.results), len(op.results) + 1):
            self.found.append((op, f"V8 {len(op.slots)} slots for {len(op.results)} results"))
            return
        if any(slot.space not in SLOT_SPACES for slot in op.slots):
            self.found.append((op, "V8 unknown memory space"))
        sizes = [value.type.nbytes for value in op.results]
        scratch = op.attrs.get("scratch_bytes", 0)
        begun = dict(live)
        for position, slot in enumerate(op.slots):
            if slot.space != "arena":
                continue
            size = sizes[position] if position < len(sizes) else scratch
            begin, end = slot.offset, slot.offset + size
            for other, (first, stop) in begun.items():
                if begin < stop and first < end and not self.may_share(op, position, other, begin, first):
                    self.found.append((op, f"V8 {slot} overlaps a live value: {other!r}"))
            if position < len(op.results):
                begun[op.results[position]] = live[op.results[position]] = (begin, end)

    def may_share(self, op: Op, position: int, other: Value, begin: int, first: int) -> bool:
        """An op may write where an operand lies: the same place exactly, and the operand is named by `in_place`, or the op is an alias."""
        if begin != first or other not in op.operands:
            return False
        return op.name in ALIASES or op.operands.index(other) in in_place_operands(op)


ALIASES = frozenset({"reshape"})
"""Ops whose result may be the memory of their operand, unchanged."""


def in_place_operands(op: Op) -> frozenset[int]:
    """Operands that a result may overwrite element by element."""
    if op.definition.kind is Kind.ELEMENTWISE:
        return frozenset(i for i, value in enumerate(op.operands) if value.type.nbytes == op.results[0].type.nbytes)
    return frozenset(op.attrs.get("in_place", ()))
