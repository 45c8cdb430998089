"""Buffer assignment of a planned graph: the slot of every value, the location of every result, the memory of regions.

A *slot* is an offset in the arena, or in the buffer of a parameter or a result. A *register* is a slot seen as a tensor type; values with
the same slot and type share one (a reshape gives a second register to the same slot).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from adjit.ir.analysis.aliases import is_elided
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind, RegionUse
from adjit.ir.graph import WRITABLE_ROLES, Graph, Op, Slot, Value, updated_results
from adjit.ir.memory_sizes import ALIGNMENT, aligned
from adjit.ir.ops.traits import CONTROL_FLOW
from adjit.ir.types import TensorType

ResultOffsets = tuple[int | None, ...]
"""Byte offsets in the scratch memory at which the results of a region are written; None for a result that updates its parameter in
place."""


def arena_bytes(graph: Graph) -> int:
    """Bytes of the arena of a planned graph, a multiple of `ALIGNMENT`."""
    size = 0
    for op in graph.ops:
        sizes = [value.type.nbytes for value in op.results]
        if len(op.slots) > len(sizes):
            sizes.append(op.attrs.get("scratch_bytes", 0))
        for slot, nbytes in zip(op.slots, sizes, strict=False):
            if slot.space == "arena" and slot.offset + nbytes > size:
                size = slot.offset + nbytes
    return aligned(size)


class ResultKind(Enum):
    """Form in which a result leaves the program."""

    ARRAY = "the array that was made for it"
    SCALAR = "its only element, as a NumPy scalar"
    DONATED = "the donated argument, updated in place"
    COPY = "a copy"


@dataclass(frozen=True, slots=True)
class ResultLocation:
    """Register of a result and the form in which it is returned; `param` is the donated parameter whose buffer the result took, else -1."""

    register: int
    kind: ResultKind
    param: int = -1


class BufferAssignment:
    """Slots, registers and result locations of a planned graph."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.slots: dict[Value, Slot] = {value: Slot("param", i) for i, value in enumerate(graph.params)}
        for op in graph.ops:
            self.slots.update(zip(op.results, op.slots, strict=False))
        self.ops: tuple[Op, ...] = tuple(op for op in graph.ops
                                         if op.definition.kind is not Kind.MEMORY and not is_elided(op, self.slots))
        self.arena_bytes = arena_bytes(graph)
        self.buffers: dict[Slot, TensorType] = {Slot("param", i): value.type for i, value in enumerate(graph.params)}
        for slot in self.slots.values():
            if slot.space == "result":
                self.buffers[slot.base] = graph.results[slot.offset].type
        self.registers: dict[tuple[Slot, TensorType], int] = {}
        for register in (*self.buffers.items(), *((slot, value.type) for value, slot in self.slots.items())):
            self.registers.setdefault(register, len(self.registers))
        self.result_locations = self._result_locations()

    def register(self, value: Value) -> int:
        """Number of the register that holds `value`."""
        return self.registers[self.slots[value], value.type]

    def is_fixed(self, slot: Slot) -> bool:
        """True if the slot is the same memory in every call of a frame: the arena, and 0-d results, which leave as scalars."""
        return slot.space == "arena" or (slot.space == "result" and self.buffers[slot.base].rank == 0)

    def _result_locations(self) -> tuple[ResultLocation, ...]:
        result_locations: list[ResultLocation] = []
        taken: set[Slot] = set()
        updates = {Slot("param", param): result for param, result in updated_results(self.graph).items()}
        for index, value in enumerate(self.graph.results):
            slot, register = self.slots[value], self.register(value)
            is_own = self.buffers.get(slot) == value.type and slot not in taken and updates.get(slot, index) == index
            if is_own and slot.space == "param" and self.graph.param_roles[slot.offset] in WRITABLE_ROLES:
                result_locations.append(ResultLocation(register, ResultKind.DONATED, slot.offset))
            elif value.type.rank == 0:
                result_locations.append(ResultLocation(register, ResultKind.SCALAR))
                continue
            elif is_own and slot == Slot("result", index):
                result_locations.append(ResultLocation(register, ResultKind.ARRAY))
            else:
                result_locations.append(ResultLocation(register, ResultKind.COPY))
                continue
            taken.add(slot)
        return tuple(result_locations)


def region_memory(regions: Sequence[Graph]) -> tuple[list[ResultOffsets], int]:
    """Offsets of the results of planned regions, and the bytes of scratch memory that the regions need.

    The regions never run at the same time: the arena of each begins where the scratch memory does.
    """
    found: list[ResultOffsets] = []
    size = 0
    for region in regions:
        assignment = BufferAssignment(region)
        end = aligned(assignment.arena_bytes)
        offsets: list[int | None] = []
        for index, (location, value) in enumerate(zip(assignment.result_locations, region.results, strict=True)):
            in_place = location.kind is ResultKind.DONATED and assignment.slots[value] == Slot("param", location.param)
            offsets.append(None if in_place and _is_own_update(region, location.param, index) else end)
            end += 0 if offsets[-1] is None else aligned(value.type.nbytes)
        found.append(tuple(offsets))
        size = max(size, end)
    return found, size


def _is_own_update(region: Graph, param: int, result: int) -> bool:
    """True if a result is the new content of a parameter: the first parameters are carried, and take the last results."""
    return result == len(region.results) - region.param_roles.count("carried") + param


def part_bytes(op: Op) -> int:
    """Bytes of the carried values of the parts of `panels`, behind one another, those of the first part being the results, and of the rows
    of a padded panel."""
    if op.name != "panels":
        return 0
    parts: int = op.attrs["parts"]
    return (parts - 1) * sum(aligned(value.type.nbytes) for value in carried_by_panels(op)) + sum(padded_bytes(op))


def padded_bytes(op: Op) -> list[int]:
    """Bytes of the rows of the largest padded panel of each array of rows that `panels` take, then of each that they give."""
    if not op.attrs["padded"]:
        return []
    values = (*op.operands[:op.attrs["slices"]], *op.results[:len(op.results) - len(op.attrs["initial"])])
    largest, size = op.attrs["sizes"][:2]
    return [aligned(value.type.nbytes // largest * size) for value in values]


def carried_by_panels(op: Op) -> tuple[Value, ...]:
    """Results of `panels` that are carried from one to the next."""
    return op.results[len(op.results) - len(op.attrs["initial"]):]


def scratch_bytes(op: Op, dealt: bool = False) -> int:
    """Bytes of scratch memory that a planned loop or branch needs; if its iterations are `dealt`, the regions' is the threads'."""
    if dealt:
        return part_bytes(op)
    nbytes = region_memory(op.regions)[1]
    return max(nbytes, ALIGNMENT) + part_bytes(op) if op.name == "panels" else nbytes


def is_dealt(op: Op) -> bool:
    """True for a planned loop whose iterations, or parts, are tasks: its regions have no memory in the arena of the program."""
    if op.name == "panels":
        return bool(op.attrs["parts"] > 1 and op.attrs["scratch_bytes"] == part_bytes(op))
    return op.name == "scan" and op.attrs["length"] > 0 and not op.attrs["carries"] and not op.attrs["scratch_bytes"]


def tile_bytes(graph: Graph) -> int:
    """Most bytes of a thread's scratch memory that arenas of tiles and tasks of a planned graph, and of those within them, take."""
    return max((tile_bytes(region) + (arena_bytes(region) if op.definition.region_use is RegionUse.TILING or is_dealt(op) else 0)
                for op in graph.ops for region in op.regions), default=0)


def nested_ops(op: Op) -> Iterator[tuple[Op, BufferAssignment]]:
    """Ops within the regions of a planned op, each followed by the ops of its own regions; each with the buffer assignment of its
    region."""
    for region in op.regions:
        assignment = BufferAssignment(region)
        for inner in assignment.ops:
            yield inner, assignment
            if inner.name in CONTROL_FLOW:
                yield from nested_ops(inner)
