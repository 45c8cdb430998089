"""Programs for devices: a planned graph as launches of kernels over one arena, with the order that their memory demands.

Loops and branches are run by the host: each region is a program of its own, whose launches take the addresses of the iteration. The host
waits for decisions alone: the predicate of a branch, the condition of a `while_loop`, the value of a guard, the operands of
a function of Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from adjit.codegen.cuda.kernel import Kernel, Launch
from adjit.codegen.cuda.lower_op import lower_op
from adjit.codegen.cuda.target import MAX_LOAD_BYTES
from adjit.codegen.cuda.writer import Memory
from adjit.ir.analysis.buffer_assignment import BufferAssignment
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Graph, Op, Slot, carried_operands
from adjit.ir.ops.traits import CONTROL_FLOW

Range = tuple[tuple[str, int], int, int]
"""A buffer, and the bytes of it that a launch touches."""


@dataclass(frozen=True, slots=True)
class Node:
    """A launch on planned memory: the place and bytes of each pointer, and the numbers of the nodes that have to be done before it."""

    launch: Launch
    places: tuple[Slot, ...]
    after: tuple[int, ...]
    op: Op

    @property
    def name(self) -> str:
        return self.launch.kernel.name

    def ranges(self, accesses: Iterable[str]) -> list[Range]:
        """Memory that the launch uses in one of these ways."""
        pointers = zip(self.places, self.launch.pointers, self.launch.kernel.pointers, strict=True)
        return [_range(slot, pointer.nbytes) for slot, pointer, access in pointers if access in accesses]


@dataclass(frozen=True, slots=True)
class HostNode:
    """A loop, a branch, a guard or a call of a Python function, which the host runs between launches: the places of its operands, of its
    results and of its scratch memory, and the programs of its regions."""

    op: Op
    places: tuple[Slot, ...]
    after: tuple[int, ...]
    programs: tuple[DeviceProgram, ...] = ()

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def may_fail(self) -> bool:
        """True if it may end the program."""
        return self.op.definition.is_check or self.op.name == "callback" or any(program.may_fail for program in self.programs)

    def ranges(self, accesses: Iterable[str]) -> list[Range]:
        """Memory that the op uses in one of these ways."""
        values = [value.type.nbytes for value in (*self.op.operands, *self.op.results)]
        sizes = [*values, self.op.attrs.get("scratch_bytes", 0)]
        read = len(self.op.operands)
        return [_range(slot, nbytes) for number, (slot, nbytes) in enumerate(zip(self.places, sizes, strict=False))
                if ("read" if number < read else "write") in accesses]


@dataclass(frozen=True, slots=True)
class Verification:
    """The host waits for the words of these checks, before what they check is read."""

    checks: tuple[int, ...]


Step = tuple[Node, ...] | HostNode | Verification
"""Launches in any order that they allow, or something that the host does after all before and before all after it."""


def _range(slot: Slot, nbytes: int) -> Range:
    if slot.space == "arena":
        return ("arena", 0), slot.offset, slot.offset + nbytes
    return (slot.space, slot.offset), slot.start, slot.start + nbytes


def conflict(first: Node | HostNode, second: Node | HostNode) -> bool:
    """True if two launches touch the same bytes, and one of them writes there."""
    written = ("write", "update")
    return _overlap(first.ranges(written), second.ranges(("read", *written))) or _overlap(first.ranges(("read",)), second.ranges(written))


def _overlap(first: Sequence[Range], second: Sequence[Range]) -> bool:
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in first for b in second)


CHECKS, WORK = "check", "work"
"""Spaces of the words in which checks of indices say what they found, and of memory that launches work in, one after the other: the memory
plan, which knows nothing of how a device factors matrices, has none for that."""


class DeviceProgram:
    """A planned graph as nodes. `checks` are the ops whose indices are checked: the word of each is 0, or one more than the number of the
    first index out of range. `alignments` are bytes of which the addresses of parameters and results of a region are multiples; `lower`
    returns the launches of an op. Raises `UnsupportedError` for an op without code for devices."""

    def __init__(self, planned: Graph, alignments: Mapping[Slot, int] | None = None,
                 lower: Callable[[Op, Memory], Sequence[Launch]] = lower_op):
        self.assignment, self._lower = BufferAssignment(planned), lower
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
        self.steps = self._steps(alignments is None)

    def before_checks(self) -> list[int]:
        """Numbers of the nodes that have to run before all checks are done, in order: the others may run when the checks have passed. The
        memory plan lets none of them write to an argument."""
        needed: set[int] = set()
        for number in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[number]
            if number in needed or any(slot.space == CHECKS for slot in node.places) or (isinstance(node, HostNode) and node.may_fail):
                needed |= {number, *node.after}
        return sorted(needed)

    def _steps(self, outermost: bool) -> tuple[Step, ...]:
        """The nodes as steps. What may fail comes first in the outermost program, so that it fails before arguments are written."""
        first = self.before_checks() if outermost else list(range(len(self.nodes)))
        rest = sorted({*range(len(self.nodes))}.difference(first))
        return (*self._part(first), *self._part(rest))

    def _part(self, numbers: Sequence[int]) -> Iterator[Step]:
        together: list[int] = []
        pending: dict[Op, int] = {}         # checks whose words nobody has read

        def launches() -> Iterator[Step]:
            place = {number: index for index, number in enumerate(together)}
            if together:
                nodes = [node for node in map(self.nodes.__getitem__, together) if isinstance(node, Node)]
                yield tuple([replace(node, after=tuple([place[other] for other in node.after if other in place])) for node in nodes])
            together.clear()

        def verified() -> Iterator[Step]:
            if pending:
                yield Verification(tuple(pending.values()))
            pending.clear()

        for number in numbers:
            node = self.nodes[number]
            check = next((slot.start // 8 for slot in node.places if slot.space == CHECKS), None)
            if isinstance(node, HostNode) or (check is None and node.op in pending):
                yield from launches()
                yield from verified()
            if isinstance(node, HostNode):
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
        return max((pointer.start + pointer.nbytes for node in self.launches for pointer in node.launch.pointers if pointer.kind == WORK),
                   default=0)

    @property
    def launches(self) -> list[Node]:
        """The launches of the program and of each of its regions."""
        return [node for program in self.programs() for node in program.nodes if isinstance(node, Node)]

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels by name: equal ones are one."""
        return {node.name: node.launch.kernel for node in self.launches}

    def _nodes(self, op: Op) -> Iterator[Node | HostNode]:
        slots = self.assignment.slots
        operands, results = [slots[value] for value in op.operands], list(op.slots[:len(op.results)])
        scratch = op.slots[len(op.results):]
        if op.definition.is_check or op.name in CONTROL_FLOW or op.name == "callback":
            yield HostNode(op, (*operands, *op.slots), (), tuple(self._programs(op, operands)) if op.name in CONTROL_FLOW else ())
            return
        shared = {j: operands.index(slot) for j, slot in enumerate(results)
                  if slot in operands and op.results[j].type.size}
        memory = Memory(shared, [*map(self._alignment, operands)], [*map(self._alignment, results)])
        for launch in self._lower(op, memory):
            places = []
            for pointer in launch.pointers:
                if pointer.kind == "check":
                    places.append(Slot(CHECKS, 0, 8 * len(self.checks)))
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
                alignments[Slot("param", index)] = math.gcd(self._alignment(place), sliced)
            if op.name != "while_loop":
                for index, (slot, value) in enumerate(zip(results[:len(results) - len(carried)], region.results, strict=False)):
                    alignments[Slot("result", index)] = math.gcd(self._alignment(slot), value.type.nbytes if op.name == "scan" else 0)
            yield DeviceProgram(region, alignments, self._lower)

    def _alignment(self, slot: Slot) -> int:
        """Bytes of which the address of a slot is a multiple: buffers themselves begin at multiples of the widest load."""
        whole = self._alignments.get(slot.base, MAX_LOAD_BYTES)
        return math.gcd(whole, slot.offset if slot.space == "arena" else slot.start)
