"""Where every value of a planned graph lies, and from where its results are handed out.

A *place* is a slot: an offset of the arena, or of the buffer of a parameter or a result. A *register* is a place seen as a tensor type;
values with the same place and type share one (a reshape gives a second register to the same place).
"""

from __future__ import annotations

from enum import Enum

from adjit.ir.analysis.aliases import is_elided
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.graph import WRITABLE_ROLES, Graph, Op, Slot, Value, updated_results
from adjit.ir.memory_sizes import aligned
from adjit.ir.types import TensorType


def arena_bytes(graph: Graph) -> int:
    """The size of the arena of a planned graph, a multiple of `ALIGNMENT`."""
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
    """How a result leaves the program."""

    ARRAY = "the array that was made for it"
    SCALAR = "its only element, as a NumPy scalar"
    DONATED = "the donated argument, updated in place"
    COPY = "a copy"


@dataclass(frozen=True, slots=True)
class ResultLocation:
    """A result's register and how it is handed out; `param` is the donated parameter whose buffer it took, else -1."""

    register: int
    kind: ResultKind
    param: int = -1


class BufferAssignment:
    """The places, registers and homes of a planned graph."""

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
        """The number of the register that holds `value`."""
        return self.registers[self.slots[value], value.type]

    def is_fixed(self, slot: Slot) -> bool:
        """Whether the place is the same memory in every call of a frame: the arena, and 0-d results, which leave as scalars."""
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

