"""Values of a graph that share memory: aliases, in-place results, results in their final buffers.

A value that one op writes, with all reshapes and contiguous slices of it, is one `Allocation`. Allocations that follow each other in the
same memory, each written over the one before, are one `Buffer`. A buffer has a fixed slot (a parameter, a fresh result of the graph) or a
slot in the arena that the memory plan chooses.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from adjit.ir import ops
from adjit.ir.analysis.aliases import alias_offset, concatenation_offsets
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import WRITABLE_ROLES, Graph, Op, Slot, Value, carried_operands
from adjit.ir.memory_sizes import aligned
from adjit.ir.ops.traits import CONTROL_FLOW, NESTED_PROGRAMS
from adjit.ir.verifier import in_place_operands
from adjit.passes.memory.donation import Donations, match_donations, may_fail


@dataclass(slots=True, eq=False)
class Allocation:
    """Content that one op writes, alive from op `first` (-1: a parameter) to op `last` (number of ops: it outlives the program). `slices`
    maps the values that are slices of the content to their byte offsets."""

    values: list[Value]
    first: int
    last: int
    destination: Slot | None = None             # the parameter or result buffer in which the content should lie
    param: int | None = None             # index of the parameter, if the content is the caller's
    overwrites: Allocation | None = None          # the content that this one is written over
    is_overwritten: bool = False               # True if another content is written over this one
    slices: dict[Value, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return aligned(self.values[0].type.nbytes)

    def offset_of(self, value: Value) -> int:
        """Byte offset of a value."""
        return self.slices.get(value, 0)


@dataclass(slots=True, eq=False)
class Buffer:
    """Contents that lie in the same memory one after the other; `slot` is None if the buffer lies in the arena."""

    allocations: list[Allocation]
    slot: Slot | None
    size: int

    @property
    def first(self) -> int:
        return self.allocations[0].first

    @property
    def last(self) -> int:
        return self.allocations[-1].last


@dataclass(frozen=True, slots=True)
class BufferSharing:
    """Buffers of a graph, and the graph with copies where a donated buffer is still needed when its new content is made."""

    graph: Graph
    buffers: tuple[Buffer, ...]


def share_buffers(graph: Graph, donations: Donations | None = None) -> BufferSharing:
    """Decide which values share memory. Parameters that are not donated are never written.

    `donations` are the graph's own if they are known already; they hold for any order of its ops.
    """
    donations = donations or match_donations(graph)
    matches, sources = dict(donations.matches), donations.sources
    unaliased: set[Value] = set()
    while True:
        destinations = _destinations(graph, matches)
        allocations, allocation_of = _allocations(graph, destinations, unaliased)
        base = _place_concatenations(graph, allocation_of, unaliased)
        if base is not graph:
            graph = base
            continue
        _write_in_place(graph, allocation_of, sources)
        failing = max(may_fail(graph), default=-1) if matches and "carried" not in graph.param_roles else -1
        deferred = _resolve_destinations(allocations, len(graph.ops), failing)
        if not deferred:
            return BufferSharing(graph, _buffers(allocations))
        graph = _insert_copies(graph, deferred, allocation_of, matches, unaliased, failing)


def _destinations(graph: Graph, matches: dict[int, Value]) -> dict[Value, Slot]:
    """Final buffer of each result that an op makes; a value returned twice has the buffer of its first mention."""
    destinations = {value: Slot("param", index) for index, value in matches.items()}
    params = set(graph.params)
    for index, value in enumerate(graph.results):
        if value not in params:
            destinations.setdefault(value, Slot("result", index))
    return destinations


def _allocations(graph: Graph, destinations: dict[Value, Slot], unaliased: set[Value]) -> tuple[list[Allocation], dict[Value, Allocation]]:
    """All allocations in the order in which they are made, and the allocation of each value."""
    allocations = [Allocation([value], -1, -1, Slot("param", index), index) for index, value in enumerate(graph.params)]
    allocation_of = {allocation.values[0]: allocation for allocation in allocations}
    copied = unaliased | slices_to_copy(graph)
    for index, op in enumerate(graph.ops):
        for value in op.operands:
            allocation_of[value].last = index
        for value in op.results:
            destination = destinations.get(value)
            offset = alias_offset(op)
            if offset is not None and value not in copied and _may_alias(allocation_of[op.operands[0]], value, destination, graph):
                base = allocation_of[op.operands[0]]
                base.values.append(value)
                if value.type.nbytes != base.values[0].type.nbytes:
                    base.slices[value] = base.offset_of(op.operands[0]) + offset
                base.destination = destination or base.destination
                allocation_of[value] = base
            else:
                allocation_of[value] = Allocation([value], index, index, destination)
                allocations.append(allocation_of[value])
    for value in graph.results:
        allocation_of[value].last = len(graph.ops)
    return allocations, allocation_of


def _may_alias(allocation: Allocation, value: Value, destination: Slot | None, graph: Graph) -> bool:
    """True if a value with this `destination` may be an alias. A result of the graph owns its memory: it aliases no parameter (but the
    donated one that it replaces), no other result, and no slice of a larger value."""
    if destination is None:
        return True
    if value.type.nbytes != allocation.values[0].type.nbytes:
        return False
    if allocation.param is not None:
        return destination == allocation.destination and graph.param_roles[allocation.param] in WRITABLE_ROLES
    return allocation.destination is None


def _place_concatenations(graph: Graph, allocation_of: dict[Value, Allocation], unaliased: set[Value]) -> Graph:
    """Write operands of concatenations that are results of the graph directly into the result. Operands that are needed elsewhere too are
    copied there.

    Returns the graph with these copies, which are entered in `unaliased`.
    """
    sequence: list[Op] = []
    for index, op in enumerate(graph.ops):
        starts = concatenation_offsets(op)
        destination = None if starts is None else allocation_of[op.result].destination
        placed: set[Value] = set()
        if destination is not None and destination.space == "result":
            counts = Counter(allocation_of[value] for value in op.operands)
            placed = {value for value in op.operands if counts[allocation_of[value]] == 1 and _dies_at(allocation_of[value], value, index)}
        if starts is None or destination is None or not placed or 2 * sum(value.type.nbytes for value in placed) < op.result.type.nbytes:
            sequence.append(op)
            continue
        operands = list(op.operands)
        for position, (value, start) in enumerate(zip(op.operands, starts, strict=True)):
            if value in placed:
                allocation_of[value].destination = destination.offset_by(start)
            elif value.type.size:
                operands[position] = copy = Value(value.type)
                unaliased.add(copy)
                sequence.append(Op(ops.reshape, (value,), (copy,), {"shape": value.type.shape}, loc=op.loc, role=op.role))
        sequence.append(op.with_operands(operands))
    return graph.with_ops(sequence) if len(sequence) > len(graph.ops) else graph


def _dies_at(allocation: Allocation, value: Value, index: int) -> bool:
    """True if a value is all of its allocation, is read for the last time by op `index`, and may lie anywhere."""
    return (allocation.param is None and allocation.destination is None and allocation.last == index
            and value not in allocation.slices and value.type.size > 0)


def _write_in_place(graph: Graph, allocation_of: dict[Value, Allocation], sources: dict[Value, int]) -> None:
    """Choose the operand that each op writes over. Ops are visited from the last to the first, so that values that lead to a fixed buffer
    lie there from the start.
    """
    for index in range(len(graph.ops) - 1, -1, -1):
        op = graph.ops[index]
        free: dict[int, dict[Allocation, None]] = {}      # allocations in order, by the bytes of the operand
        for other, nbytes in _dying_operands(op, index, allocation_of).items():
            if not other.is_overwritten:
                free.setdefault(nbytes, {})[other] = None
        for value in sorted(op.results, key=lambda value: allocation_of[value].destination is None) if free else ():
            allocation = allocation_of[value]
            if allocation.first != index or allocation.values[0] is not value or not value.type.nbytes:
                continue
            destination = allocation.destination
            donor = destination.offset if destination is not None and destination.space == "param" else None
            fitting = free.get(value.type.nbytes, {})
            if op.name in CONTROL_FLOW:
                fitting = _own_operand(op, value, allocation_of, fitting)
            if donor is None:       # the first one will do: a tile has thousands of operands and results
                chosen = next((other for other in fitting if other.param is None), None)
            else:
                chosen = _chosen_for_donor([other for other in fitting if other.param is None or (
                    other.param == donor and graph.param_roles[donor] in WRITABLE_ROLES)], donor, sources)
            if chosen is None:
                continue
            del free[value.type.nbytes][chosen]
            allocation.overwrites, chosen.is_overwritten = chosen, True
            if destination is not None:
                chosen.destination = destination


def _own_operand(op: Op, value: Value, allocation_of: dict[Value, Allocation],
                 fitting: dict[Allocation, None]) -> dict[Allocation, None]:
    """The allocation among `fitting` with which a carried value begins; none for another result of a loop or a branch."""
    position = carried_operands(op).get(op.results.index(value))
    own = None if position is None else allocation_of[op.operands[position]]
    return {own: None} if own in fitting else {}


def _chosen_for_donor(fitting: list[Allocation], donor: int, sources: dict[Value, int]) -> Allocation | None:
    """Allocation to write over for a result that ends in parameter `donor`: the parameter itself, else one derived from it."""
    def is_derived(other: Allocation) -> bool:
        return bool(sources.get(other.values[0], 0) >> donor & 1)

    return min(fitting, key=lambda other: (other.param is None, not is_derived(other)), default=None)


def _dying_operands(op: Op, index: int, allocation_of: dict[Value, Allocation]) -> dict[Allocation, int]:
    """Allocations (with their bytes) that a result may be written over: this op is the last to read them, and reads only the element that
    it writes.
    """
    allowed = in_place_operands(op)
    if not allowed:
        return {}
    elsewhere = {allocation_of[operand] for position, operand in enumerate(op.operands)
                 if position not in allowed or operand in allocation_of[operand].slices}
    if op.name in NESTED_PROGRAMS:     # a region's parameters are separate memory, except those that results are written to
        counts = Counter(allocation_of[operand] for operand in op.operands)
        elsewhere.update(allocation for allocation, count in counts.items() if count > 1)
    read = {allocation_of[op.operands[position]]: op.operands[position].type.nbytes for position in sorted(allowed)}
    return {allocation: nbytes for allocation, nbytes in read.items() if allocation.last == index and allocation not in elsewhere}


def _resolve_destinations(allocations: list[Allocation], count: int, failing: int) -> list[Allocation]:
    """Give up destinations in donated buffers whose old content is still needed: by a later reader, or because the program may still fail
    (up to op `failing`). Returns the allocations of final results among them."""
    params = {allocation.param: allocation for allocation in allocations if allocation.param is not None}
    deferred: list[Allocation] = []
    for allocation in allocations:
        if allocation.param is not None or allocation.destination is None or allocation.destination.space != "param":
            continue
        if allocation.first > failing:
            if allocation.overwrites is not None and allocation.overwrites.destination == allocation.destination:
                continue
            if params[allocation.destination.offset].last < allocation.first:
                _stop_overwriting(allocation)
                continue
        elif allocation.overwrites is not None and allocation.overwrites.param is not None:
            _stop_overwriting(allocation)
        allocation.destination = None
        if allocation.last == count:
            deferred.append(allocation)
    return deferred


def _stop_overwriting(allocation: Allocation) -> None:
    """Undo the choice of `allocation.overwrites`: `allocation` goes to its fixed slot, the other one stays in the arena."""
    if allocation.overwrites is not None:
        allocation.overwrites.is_overwritten = False
        allocation.overwrites = None


def _buffers(allocations: list[Allocation]) -> tuple[Buffer, ...]:
    buffer_of: dict[Allocation, Buffer] = {}
    for allocation in allocations:
        if allocation.overwrites is None:
            buffer_of[allocation] = Buffer([allocation], allocation.destination, allocation.size)
        else:
            buffer_of[allocation] = buffer_of[allocation.overwrites]
            buffer_of[allocation].allocations.append(allocation)
    return tuple(dict.fromkeys(buffer_of.values()))


def _insert_copies(graph: Graph, deferred: list[Allocation], allocation_of: dict[Value, Allocation], matches: dict[int, Value],
                     unaliased: set[Value], failing: int) -> Graph:
    """Copy results that are made too early for their donated buffer, as soon as the buffer is free and no later op may fail. Later readers
    use the copy.

    The copy is a `reshape` to the same shape. It replaces the copied value in `matches`, and is entered in `unaliased`, as is a result that
    was a copy already: no value there is an alias.
    """
    producers = {value: (index, op) for index, op in enumerate(graph.ops) for value in op.results}
    copies: dict[int, list[Op]] = {}
    for param, value in list(matches.items()):
        allocation = allocation_of[value]
        if allocation not in deferred:
            continue
        index, producer = producers[value]
        copy = Value(value.type, value.name)
        copies.setdefault(max(index, allocation_of[graph.params[param]].last, failing), []).append(
            Op(ops.reshape, (value,), (copy,), {"shape": value.type.shape}, loc=producer.loc, role=producer.role))
        matches[param] = copy
        unaliased.add(copy)
        if allocation.values[0] is value:
            unaliased.add(value)
    renamed: dict[Value, Value] = {}
    sequence: list[Op] = []
    for index, op in enumerate(graph.ops):
        sequence.append(op.with_operands([renamed.get(value, value) for value in op.operands]))
        for copy_op in copies.get(index, ()):
            sequence.append(copy_op)
            renamed[copy_op.operands[0]] = copy_op.result
    return graph.with_ops(sequence, [renamed.get(value, value) for value in graph.results])


def slices_to_copy(graph: Graph) -> set[Value]:
    """Contiguous slices that are copied, where an alias would keep more in memory or keep another op from writing in place.

    A slice is copied if it is read after the last use of its base, or if an op that could update the base in place reads both. Slices of
    parameters that are never written are always aliases: their base stays in memory anyway.
    """
    starts = {op.result: start for op in graph.ops if op.name == "slice" and (start := alias_offset(op)) is not None}
    if not starts:
        return set()
    read_only = {value for value, role in zip(graph.params, graph.param_roles, strict=True) if role not in WRITABLE_ROLES}
    root: dict[Value, Value] = {}       # base of each value that lies in the memory of another value
    slice_of: dict[Value, Value] = {}        # the slice of which a value is a reshape or a slice; the value itself if it is a slice
    last: dict[Value, int] = {}         # the last op that reads a value or a reshape of it; slices do not count
    copied: set[Value] = set()
    for index, op in enumerate(graph.ops):
        for value in op.operands:
            last[slice_of.get(value, root.get(value, value))] = index
        operand = op.operands[0] if op.operands else None
        if operand is not None and (op.result in starts if op.name == "slice" else op.definition.alias):
            root[op.result] = root.get(operand, operand)
            if op.name == "slice" or operand in slice_of:
                slice_of[op.result] = op.result if op.name == "slice" else slice_of[operand]
        elif in_place_operands(op):
            bases = {root.get(value, value) for value in op.operands if value not in slice_of}
            copied.update(slice_of[value] for value in op.operands if value in slice_of and root[value] in bases - read_only)
    last.update((slice_of.get(value, root.get(value, value)), len(graph.ops)) for value in graph.results)
    copied.update(value for value in starts if root[value] not in read_only and last.get(value, -1) > last.get(root[value], -1))
    return copied
