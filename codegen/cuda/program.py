"""Programs for devices: a planned graph as launches of kernels over one arena, with the order that their memory demands.

Each region of a loop or a branch is a program of its own. Where the driver has conditional nodes, the device runs loops and branches, as
parts of a graph. The host waits for the value of a guard, the operands of a function of Python, and what is in a loop with such steps or
with checks of indices: it runs those loops, and all of them for an older driver.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from adjit.codegen.cuda.conditional_nodes import ConditionalNodes
from adjit.codegen.cuda.kernel import Kernel, Launch
from adjit.codegen.cuda.lower_op import lower_op
from adjit.codegen.cuda.nodes import (
    CHECK_WORDS,
    CHECKS,
    WORK,
    GraphNode,
    HostNode,
    Node,
    Step,
    Verification,
    conflict,
    launches_of,
)
from adjit.codegen.cuda.target import MAX_LOAD_BYTES
from adjit.codegen.cuda.writer import Memory
from adjit.ir.analysis.buffer_assignment import BufferAssignment
from adjit.ir.graph import Graph, Op, Slot, carried_operands
from adjit.ir.ops.traits import CONTROL_FLOW


class DeviceProgram:
    """A planned graph as nodes. `checks` are the ops whose indices are checked, by the number of their words. `alignments` are bytes of
    which the addresses of parameters and results of a region are multiples; `lower` returns the launches of an op; `conditional` says that
    the driver has conditional nodes. Raises `UnsupportedError` for an op without code for devices."""

    def __init__(self, planned: Graph, alignments: Mapping[Slot, int] | None = None,
                 lower: Callable[[Op, Memory], Sequence[Launch]] = lower_op, conditional: bool = False):
        self.assignment, self._lower, self.conditional = BufferAssignment(planned), lower, conditional
        self.checks: list[Op] = []
        self.nodes: list[Node | HostNode] = []
        self._alignments = alignments or {}
        before: list[set[int]] = []         # all nodes that come before each node
        for op in self.assignment.ops:
            for made in self._nodes(op):
                direct: list[int] = []
                known: set[int] = set()
                for number in range(len(self.nodes) - 1, -1, -1):
                    if number not in known and conflict(self.nodes[number], made):
                        direct.append(number)
                        known |= before[number] | {number}
                self.nodes.append(replace(made, after=tuple(reversed(direct))))
                before.append(known)
        self.may_fail = bool(self.checks) or any(isinstance(node, HostNode) and node.may_fail for node in self.nodes)
        self._outermost = alignments is None

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """What is launched, and what the host does in between. What may fail comes first in the outermost program, so that it fails
        before arguments are written."""
        return self._steps[0]

    @property
    def needs_host(self) -> bool:
        """True if the program, or one of its loops and branches, calls Python or has a guard."""
        return any(isinstance(node, HostNode) and (not node.programs or any(program.needs_host for program in node.programs))
                   for node in self.nodes)

    @cached_property
    def defers(self) -> bool:
        """True if the device looks at the checks of indices, and leaves out what follows a bad one: the host learns that when it reads
        results."""
        return self._outermost and self.conditional and self.may_fail and not self.needs_host

    @cached_property
    def may_not_end(self) -> bool:
        """True if the program might run for ever, or have the host read what is no number, on operands that nobody computed."""
        return any(not isinstance(step, tuple) for step in self.steps) or any(
            node.name == "while_loop" for program in self.programs() for node in program.nodes)

    @property
    def all_checks(self) -> list[Op]:
        """The ops of the program, and of its loops and branches, whose indices are checked."""
        return [op for program in self.programs() for op in program.checks]

    def stays(self, node: HostNode) -> bool:
        """True if a loop or a branch, of this program or of one of its regions, stays on the device."""
        return self.defers or node.stays

    @property
    def words(self) -> int:
        """Words of the space of checks that the program needs, with the loops that the host runs."""
        waiting = [program.words for step in self.steps if isinstance(step, HostNode) for program in step.programs]
        return max(self._steps[1], *waiting, 0)

    def before_checks(self) -> list[int]:
        """Numbers of the nodes that have to run before all checks are done, in order: the others may run when the checks have passed. The
        memory plan lets none of them write to an argument."""
        needed: set[int] = set()
        for number in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[number]
            if number in needed or any(slot.space == CHECKS for slot in node.places) or (isinstance(node, HostNode) and node.may_fail):
                needed |= {number, *node.after}
        return sorted(needed)

    @cached_property
    def _steps(self) -> tuple[tuple[Step, ...], int]:
        graphs = ConditionalNodes(self, CHECK_WORDS * sum(len(program.checks) for program in self.programs()))
        if self.defers:
            return (graphs.whole(),), graphs.words
        first = self.before_checks() if self._outermost else list(range(len(self.nodes)))
        rest = sorted({*range(len(self.nodes))}.difference(first))
        steps = (*self._part(graphs, first), *self._part(graphs, rest))
        return steps, graphs.words

    def _part(self, graphs: ConditionalNodes, numbers: Sequence[int]) -> Iterator[Step]:
        together: list[int] = []
        pending: dict[Op, int] = {}         # checks whose words nobody has read

        def launches() -> Iterator[Step]:
            if together:
                made: tuple[GraphNode, ...] = graphs.graph(together)
                if made:
                    yield made
            together.clear()

        def verified() -> Iterator[Step]:
            if pending:
                yield Verification(tuple(pending.values()))
            pending.clear()

        for number in numbers:
            node = self.nodes[number]
            check = next((slot.start // (8 * CHECK_WORDS) for slot in node.places if slot.space == CHECKS), None)
            waits = isinstance(node, HostNode) and not node.stays
            if waits or (check is None and node.op in pending):
                yield from launches()
                yield from verified()
            if isinstance(node, HostNode) and waits:
                yield node
                continue
            together.append(number)
            if check is not None:
                pending[node.op] = check
        yield from launches()
        yield from verified()

    def programs(self) -> Iterator[DeviceProgram]:
        """The program, and those of its loops and branches."""
        yield self
        for node in self.nodes:
            if isinstance(node, HostNode):
                for program in node.programs:
                    yield from program.programs()

    @property
    def work_bytes(self) -> int:
        """Bytes of working memory of the program, its loops and branches."""
        own = [pointer.start + pointer.nbytes for node in self.nodes if isinstance(node, Node)
               for pointer in node.launch.pointers if pointer.kind == WORK]
        regions = [program.work_bytes for node in self.nodes if isinstance(node, HostNode) for program in node.programs]
        return max((*own, *regions), default=0)

    @property
    def launches(self) -> list[Node]:
        """The launches of the program, and of each region that the host or the device runs."""
        found: list[Node] = []
        for step in self.steps:
            if isinstance(step, HostNode):
                found += [node for program in step.programs for node in program.launches]
            elif not isinstance(step, Verification):
                found += launches_of(step)
        return found

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels by name: equal ones are one."""
        return {node.name: node.launch.kernel for node in self.launches}

    def _nodes(self, op: Op) -> Iterator[Node | HostNode]:
        slots = self.assignment.slots
        operands, results = [slots[value] for value in op.operands], list(op.slots[:len(op.results)])
        scratch = op.slots[len(op.results):]
        if op.definition.is_check or op.name in CONTROL_FLOW or op.name == "callback":
            programs = tuple(self._programs(op, operands)) if op.name in CONTROL_FLOW else ()
            stays = self.conditional and bool(programs) and not any(program.may_fail or program.needs_host for program in programs)
            yield HostNode(op, (*operands, *op.slots), (), programs, stays)
            return
        shared = {j: operands.index(slot) for j, slot in enumerate(results)
                  if slot in operands and op.results[j].type.size}
        memory = Memory(shared, [*map(self.alignment, operands)], [*map(self.alignment, results)])
        for launch in self._lower(op, memory):
            places = []
            for pointer in launch.pointers:
                if pointer.kind == "check":
                    places.append(Slot(CHECKS, 0, 8 * CHECK_WORDS * len(self.checks)))
                    self.checks.append(op)
                elif pointer.kind == "work":
                    places.append(Slot(WORK, 0, pointer.start))
                elif pointer.kind == "scratch":
                    places.append(scratch[0].offset_by(pointer.index))
                else:
                    places.append((operands if pointer.kind == "operand" else results)[pointer.index].offset_by(pointer.start))
            yield Node(launch, tuple(places), (), op)

    def _programs(self, op: Op, operands: Sequence[Slot]) -> Iterator[DeviceProgram]:
        """The programs of the regions of a loop or a branch, with the alignments of what `runtime/cuda/device_loops.py` passes to them."""
        results = op.slots[:len(op.results)]
        carried = carried_operands(op)
        slices = op.attrs.get("slices", 0)
        first = 1 if op.name == "cond" else 0
        for region in op.regions:
            alignments = {}
            for index, value in enumerate(region.params):
                place = results[len(results) - len(carried) + index] if index < len(carried) else operands[first + index]
                sliced = value.type.nbytes if 0 <= index - len(carried) < slices else 0
                alignments[Slot("param", index)] = math.gcd(self.alignment(place), sliced)
            if op.name != "while_loop":
                for index, (slot, value) in enumerate(zip(results[:len(results) - len(carried)], region.results, strict=False)):
                    alignments[Slot("result", index)] = math.gcd(self.alignment(slot), value.type.nbytes if op.name == "scan" else 0)
            yield DeviceProgram(region, alignments, self._lower, self.conditional)

    def alignment(self, slot: Slot) -> int:
        """Bytes of which the address of a slot is a multiple: buffers themselves begin at multiples of the widest load."""
        whole = self._alignments.get(slot.base, MAX_LOAD_BYTES)
        return math.gcd(whole, slot.offset if slot.space == "arena" else slot.start)
