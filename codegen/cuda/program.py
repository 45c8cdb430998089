"""Programs for devices: a planned graph as launches of kernels over one arena, with the order that their memory demands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adjit.codegen.cuda.kernel import Kernel, Launch
from adjit.codegen.cuda.lower_op import lower_op
from adjit.codegen.cuda.target import MAX_LOAD_BYTES
from adjit.codegen.cuda.writer import Memory
from adjit.ir.analysis.buffer_assignment import BufferAssignment
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Graph, Op, Slot

Range = tuple[tuple[str, int], int, int]
"""A buffer, and the bytes of it that a launch touches."""


@dataclass(frozen=True, slots=True)
class Node:
    """A launch on planned memory: the place and bytes of each pointer, and the numbers of the nodes that have to be done before it."""

    launch: Launch
    places: tuple[Slot, ...]
    after: tuple[int, ...]
    op: Op

    def ranges(self, accesses: Iterable[str]) -> list[Range]:
        """Memory that the launch uses in one of these ways."""
        pointers = zip(self.places, self.launch.pointers, self.launch.kernel.pointers, strict=True)
        return [_range(slot, pointer.nbytes) for slot, pointer, access in pointers if access in accesses]


def _range(slot: Slot, nbytes: int) -> Range:
    if slot.space == "arena":
        return ("arena", 0), slot.offset, slot.offset + nbytes
    return (slot.space, slot.offset), slot.start, slot.start + nbytes


def conflict(first: Node, second: Node) -> bool:
    """True if two launches touch the same bytes, and one of them writes there."""
    written = ("write", "update")
    return _overlap(first.ranges(written), second.ranges(("read", *written))) or _overlap(first.ranges(("read",)), second.ranges(written))


def _overlap(first: Sequence[Range], second: Sequence[Range]) -> bool:
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in first for b in second)


CHECKS = "check"
"""Space of the words in which checks of indices say what they found."""


class DeviceProgram:
    """A planned graph as nodes. `checks` are the ops whose indices are checked: the word of each is 0, or one more than the number of the
    first index out of range. Raises `UnsupportedError` for an op without code for devices."""

    def __init__(self, planned: Graph):
        self.assignment = BufferAssignment(planned)
        self.checks: list[Op] = []
        self.nodes: list[Node] = []
        before: list[set[int]] = []         # all nodes that come before each node
        for op in self.assignment.ops:
            for launch, places in self._launches(op):
                node = Node(launch, places, (), op)
                direct: list[int] = []
                known: set[int] = set()
                for number in range(len(self.nodes) - 1, -1, -1):
                    if number not in known and conflict(self.nodes[number], node):
                        direct.append(number)
                        known |= before[number] | {number}
                self.nodes.append(Node(launch, places, tuple(reversed(direct)), op))
                before.append(known)

    def before_checks(self) -> list[int]:
        """Numbers of the nodes that have to run before all checks are done, in order: the others may run when the checks have passed. The
        memory plan lets none of them write to an argument."""
        needed: set[int] = set()
        for number in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[number]
            if number in needed or any(slot.space == CHECKS for slot in node.places):
                needed |= {number, *node.after}
        assert all(key[0] != "param" for number in needed for key, _, _ in self.nodes[number].ranges(("write", "update")))
        return sorted(needed)

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels by name: equal ones are one."""
        return {node.launch.kernel.name: node.launch.kernel for node in self.nodes}

    def _launches(self, op: Op) -> Iterable[tuple[Launch, tuple[Slot, ...]]]:
        slots = self.assignment.slots
        operands, results = [slots[value] for value in op.operands], list(op.slots[:len(op.results)])
        scratch = op.slots[len(op.results):]
        shared = {j: operands.index(slot) for j, slot in enumerate(results)
                  if slot in operands and op.results[j].type.size}
        memory = Memory(shared, [_alignment(slot) for slot in operands], [_alignment(slot) for slot in results])
        for launch in lower_op(op, memory):
            places = []
            for pointer in launch.pointers:
                if pointer.kind == "check":
                    places.append(Slot(CHECKS, 0, 8 * len(self.checks)))
                    self.checks.append(op)
                elif pointer.kind == "scratch":
                    places.append(scratch[0].offset_by(pointer.index))
                else:
                    places.append((operands if pointer.kind == "operand" else results)[pointer.index].offset_by(pointer.start))
            yield launch, tuple(places)


def _alignment(slot: Slot) -> int:
    """Bytes of which the address of a slot is a multiple: buffers themselves begin at multiples of the widest load."""
    offset = slot.offset if slot.space == "arena" else slot.start
    return (offset & -offset or MAX_LOAD_BYTES) if offset % MAX_LOAD_BYTES else MAX_LOAD_BYTES
