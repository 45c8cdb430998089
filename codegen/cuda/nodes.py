"""Nodes of programs for devices: launches on planned memory, what kernels on the device decide on, what the host does between launches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from adjit.codegen.cuda.kernel import Launch
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op, Slot

if TYPE_CHECKING:
    from adjit.codegen.cuda.program import DeviceProgram

Range = tuple[tuple[str, int], int, int]
"""A buffer, and the bytes of it that a launch touches."""

CHECKS, STATUS, WORK = "check", "status", "work"
"""Spaces of words, in which checks of indices say what they found and loops count; of what a call found; of memory that launches work in,
one after the other: the memory plan, which knows nothing of how a device factors matrices, has none for that."""

CHECK_WORDS = 3
"""Words of a check: 1 if an index is out of range, else 0; the lowest and the highest index. The status of a call has the same of the first
check that failed, whose number counts from 1; the number is 0 if none did."""

_WRITTEN = ("write", "update")


@dataclass(frozen=True, slots=True)
class Node:
    """A launch on planned memory: the place and bytes of each pointer, and the numbers of the nodes that have to be done before it. Its
    last arguments are the `handles` of the conditional nodes for which it decides."""

    launch: Launch
    places: tuple[Slot, ...]
    after: tuple[int, ...]
    op: Op
    handles: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return self.launch.kernel.name

    def ranges(self, accesses: Iterable[str]) -> list[Range]:
        """Memory that the launch uses in one of these ways."""
        pointers = zip(self.places, self.launch.pointers, self.launch.kernel.pointers, strict=True)
        found = [_range(slot, pointer.nbytes) for slot, pointer, access in pointers if access in accesses]
        return [*found, *(_of_handle(handle) for handle in self.handles if "write" in accesses)]


@dataclass(frozen=True, slots=True)
class Conditional:
    """Nodes that the device runs if a number is not 0, or as long as it is not: kernels set it by its `handle`."""

    repeats: bool
    handle: int
    body: tuple[Node | Conditional, ...]
    after: tuple[int, ...]

    @property
    def name(self) -> str:
        return "a loop" if self.repeats else "a branch"

    def ranges(self, accesses: Iterable[str]) -> list[Range]:
        """Memory that its nodes use in one of these ways."""
        found = [found for node in self.body for found in node.ranges(accesses)]
        return [*found, *([_of_handle(self.handle)] if "read" in accesses else [])]


GraphNode = Node | Conditional
"""A node of a CUDA graph."""


@dataclass(frozen=True, slots=True)
class HostNode:
    """A loop, a branch, a guard or a call of a Python function, between launches: the places of its operands, of its results and of its
    scratch memory, and the programs of its regions. The host runs it, but for loops and branches that stay on the device."""

    op: Op
    places: tuple[Slot, ...]
    after: tuple[int, ...]
    programs: tuple[DeviceProgram, ...] = ()
    stays: bool = False

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
        found = [_range(slot, nbytes) for number, (slot, nbytes) in enumerate(zip(self.places, sizes, strict=False))
                 if ("read" if number < read else "write") in accesses]
        work = max((program.work_bytes for program in self.programs), default=0)
        return [*found, *([((WORK, 0), 0, work)] if work and "write" in accesses else [])]


@dataclass(frozen=True, slots=True)
class Verification:
    """The host waits for the words of these checks, before what they check is read."""

    checks: tuple[int, ...]


Step = tuple[GraphNode, ...] | HostNode | Verification
"""Launches in any order that they allow, or something that the host does after all before and before all after it."""


def _of_handle(handle: int) -> Range:
    return ("handle", handle), 0, 1


def _range(slot: Slot, nbytes: int) -> Range:
    if slot.space == "arena":
        return ("arena", 0), slot.offset, slot.offset + nbytes
    return (slot.space, slot.offset), slot.start, slot.start + nbytes


def conflict(first: GraphNode | HostNode, second: GraphNode | HostNode) -> bool:
    """True if two launches touch the same bytes, and one of them writes there."""
    return (_overlap(first.ranges(_WRITTEN), second.ranges(("read", *_WRITTEN)))
            or _overlap(first.ranges(("read",)), second.ranges(_WRITTEN)))


def _overlap(first: Sequence[Range], second: Sequence[Range]) -> bool:
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in first for b in second)


def launches_of(nodes: Iterable[GraphNode]) -> Iterator[Node]:
    """The launches of nodes, and of those within them, in order."""
    for node in nodes:
        if isinstance(node, Conditional):
            yield from launches_of(node.body)
        else:
            yield node
