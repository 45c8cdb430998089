"""Where every value of a planned graph lies, and from where its results are handed out.

A *place* is a slot: an offset of the arena, or of the buffer of a parameter or a result. A *register* is a place seen as a tensor type;
values with the same place and type share one (a reshape gives a second register to the same place).
"""

from __future__ import annotations

from enum import Enum

from adjit.ir.aliases import moves_nothing
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.graph import WRITABLE_ROLES, Graph, Op, Slot, Value, updated_results
from adjit.ir.memory_sizes import aligned
from adjit.ir.types import TensorType


def arena_bytes(graph: Graph) -> int:
    """The size of the arena of a planned graph, a multiple of `ALIGNMENT`."""
    size = 0
    for op in graph.ops:
        needs = [value.type.nbytes for value in op.results]
        if len(op.slots) > len(needs):
            needs.append(op.attrs.get("scratch_bytes", 0))
        for slot, need in zip(op.slots, needs, strict=False):
            if slot.space == "arena" and slot.offset + need > size:
                size = slot.offset + need
    return aligned(size)


class Handing(Enum):
    """How a result leaves the program."""

    ARRAY = "the array that was made for it"
    SCALAR = "its only element, as a NumPy scalar"
    DONATED = "the donated argument, updated in place"
    COPY = "a copy"


@dataclass(frozen=True, slots=True)
class Home:
    """A result's register and how it is handed out; `param` is the donated parameter whose buffer it took, else -1."""

    register: int
    handing: Handing
    param: int = -1


class Layout:
    """The places, registers and homes of a planned graph."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.places: dict[Value, Slot] = {value: Slot("param", i) for i, value in enumerate(graph.params)}
        for op in graph.ops:
            self.places.update(zip(op.results, op.slots, strict=False))
        self.ops: tuple[Op, ...] = tuple(op for op in graph.ops
                                         if op.definition.kind is not Kind.MEMORY and not moves_nothing(op, self.places))
        self.arena_bytes = arena_bytes(graph)
        self.buffers: dict[Slot, TensorType] = {Slot("param", i): value.type for i, value in enumerate(graph.params)}
        for place in self.places.values():
            if place.space == "result":
                self.buffers[place.base] = graph.results[place.offset].type
        self.registers: dict[tuple[Slot, TensorType], int] = {}
        for register in (*self.buffers.items(), *((place, value.type) for value, place in self.places.items())):
            self.registers.setdefault(register, len(self.registers))
        self.homes = self._homes()

    def register(self, value: Value) -> int:
        """The number of the register that holds `value`."""
        return self.registers[self.places[value], value.type]

    def is_fixed(self, place: Slot) -> bool:
        """Whether the place is the same memory in every call of a frame: the arena, and 0-d results, which leave as scalars."""
        return place.space == "arena" or (place.space == "result" and self.buffers[place.base].rank == 0)

    def _homes(self) -> tuple[Home, ...]:
        homes: list[Home] = []
        taken: set[Slot] = set()
        updates = {Slot("param", param): result for param, result in updated_results(self.graph).items()}
        for index, value in enumerate(self.graph.results):
            place, register = self.places[value], self.register(value)
            own = self.buffers.get(place) == value.type and place not in taken and updates.get(place, index) == index
            if own and place.space == "param" and self.graph.param_roles[place.offset] in WRITABLE_ROLES:
                homes.append(Home(register, Handing.DONATED, place.offset))
            elif value.type.rank == 0:
                homes.append(Home(register, Handing.SCALAR))
                continue
            elif own and place == Slot("result", index):
                homes.append(Home(register, Handing.ARRAY))
            else:
                homes.append(Home(register, Handing.COPY))
                continue
            taken.add(place)
        return tuple(homes)

