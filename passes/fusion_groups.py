"""Which ops may share one kernel, and over which rows and columns it then runs.

A group is legal when
- every reduction runs along the rows, down the columns, or over everything (`reduction_scope`), all with the same row length;
- what its ops compute is full, one a row, or one in all; one a column only after a reduction down the columns;
- nothing that is computed for each element or row needs a result that is complete only after all rows ("late").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.errors import Role
from adjit.ir.graph import Op, Value
from adjit.ir.iteration_space import IndexMap, classify, full_map, reduction_scope, scale_map, split_at_rows
from adjit.ir.ops.traits import FREE_IN_KERNELS

MAX_OPS = 200
"""Ops a kernel may hold: beyond it registers spill and compile time grows faster than what is saved."""

MAX_SINGLE_ROW = 1 << 16
"""Elements of a row program that has only one row; a longer one could not be split over threads."""

MAX_COLUMN_SUMS = 1 << 14
"""Columns of which a kernel keeps sums, one set for each block of rows."""


@dataclass(slots=True)
class Group:
    """Ops that will be one kernel over `size` positions.

    `maps` has the index map of every value that they compute, `loads` of those that they read. `choose_space` finds the rest:
    `lengths` are the row lengths that reductions and smaller values ask for, `late` the values that are complete only after all rows.
    """

    size: int
    ops: list[Op] = field(default_factory=list)
    maps: dict[Value, IndexMap] = field(default_factory=dict)
    loads: dict[Value, IndexMap] = field(default_factory=dict)
    origin: dict[Value, Value] = field(default_factory=dict)    # stand-ins for values that are read at a second place too
    rows: int = 0
    columns: int = 0
    lengths: set[int] | None = None
    late: set[Value] = field(default_factory=set)

    def sources(self) -> list[Value]:
        """The values that are read."""
        return [self.origin.get(value, value) for value in self.loads] if self.origin else list(self.loads)

    def map_of(self, value: Value) -> IndexMap:
        found = self.maps.get(value)
        return self.loads[value] if found is None else found


def is_fusible(op: Op) -> bool:
    """Whether an op can be computed in a kernel: elementwise ops and reductions, of something."""
    return (op.definition.kind in (Kind.ELEMENTWISE, Kind.REDUCTION)
            and op.operands[0].type.size > 0 and op.result.type.size > 0)


def find_factor(consumer: Group, producer: Group) -> int | None:
    """How many positions of the larger of two spaces one position of the smaller is, where the two can be one; else None.

    The consumer reads something that the producer computes, or both read the same.
    """
    if len(consumer.ops) + len(producer.ops) > MAX_OPS:
        return None
    shared = _shared_value(consumer, producer)
    if shared is None:
        return None
    large, small = (producer, consumer) if producer.size >= consumer.size else (consumer, producer)
    outer, inner = (group.maps.get(shared, group.loads.get(shared, ())) for group in (large, small))
    factor = _embedding(inner, outer, small.size, large.size)
    if factor is None or (small is producer and small.size < large.size and small.size * factor != large.size):
        return None       # a smaller producer has to be computed once a row, so that no work is done twice
    if small is producer and small.size == 1 < large.size:
        return None       # one number for many kernels: computed once, on its own
    return factor


def _shared_value(consumer: Group, producer: Group) -> Value | None:
    """Something that the consumer reads and the producer computes, else something that both read at each position."""
    for value in consumer.loads:
        if value in producer.maps:
            return value
    full = full_map(consumer.size)
    for value, index_map in consumer.loads.items():
        if index_map == full and producer.loads.get(value) == full:
            return value
    return None


def merge_groups(consumer: Group, producer: Group, factor: int) -> Group | None:
    """Both as one group, where that is legal; `factor` is that of `find_factor`."""
    if consumer.origin and not producer.maps.keys().isdisjoint(consumer.origin.values()):
        return None
    large, small = (producer, consumer) if producer.size >= consumer.size else (consumer, producer)
    if small.size < large.size:
        first, second = (_scaled(group, factor, large.size) if group is small else group for group in (producer, consumer))
    else:
        first, second = producer, consumer
    taken, shared = second.loads.keys() & first.maps.keys(), second.loads.keys() & first.loads.keys()
    if any(first.maps[value] != second.loads[value] for value in taken) or any(first.loads[v] != second.loads[v] for v in shared):
        return None
    loads = first.loads | second.loads if large is producer else second.loads | first.loads
    for value in taken:
        del loads[value]
    group = Group(large.size, first.ops + second.ops, first.maps | second.maps, loads, first.origin | second.origin)
    return group if choose_space(group, (first, second)) else None


def _scaled(group: Group, factor: int, size: int) -> Group:
    """`group` in a space of `size` positions, of which every `factor` consecutive ones are one position of its own."""
    maps, loads = ({value: scale_map(index_map, factor) for value, index_map in old.items()} for old in (group.maps, group.loads))
    return Group(size, group.ops, maps, loads, group.origin)


def _embedding(inner: IndexMap, outer: IndexMap, inner_size: int, outer_size: int) -> int | None:
    """The stride at which a space of `inner_size` positions lies in one of `outer_size`, when a value has these maps in the two."""
    factor = 1
    if inner_size not in (1, outer_size):
        factor = outer[0][1] // inner[0][1] if inner and outer else 0
    fits = factor > 0 and outer_size % (inner_size * factor) == 0 and scale_map(inner, factor) == outer
    return factor if fits else None


def choose_space(group: Group, parts: Sequence[Group] = ()) -> bool:
    """Set what is left to find of a group made of `parts`, in this order; False where no choice makes it legal.

    What is known of the parts is not found again, so that a growing kernel is not looked at as often as it grows.
    """
    lengths: set[int] = set()
    for part in parts or (group,):
        found = _row_lengths(part.ops, group) if part.lengths is None else part.lengths
        if found is None:
            return False
        lengths |= found
    if len(lengths) > 1:
        return False
    candidates = [*lengths] or [_best_columns(group)]
    if not lengths and 1 < group.size <= MAX_SINGLE_ROW:
        candidates.append(group.size)
    for columns in candidates:
        rows = group.size // columns
        if rows * columns != group.size:
            continue
        late = _late_values(group, parts or (group,), rows, columns)
        if late is not None:
            group.rows, group.columns, group.lengths, group.late = rows, columns, lengths, late
            return True
    return False


def _row_lengths(ops: Iterable[Op], group: Group) -> set[int] | None:
    """The row lengths that reductions and smaller values among `ops` of a group ask for; None where one kernel cannot be."""
    full = full_map(group.size)
    lengths: set[int] = set()
    for op in ops:
        if op.name in FREE_IN_KERNELS:
            continue
        for value in (op.result, op.operands[0]):
            index_map = group.map_of(value)
            if index_map in (full, ()):
                continue
            if len(index_map) != 1:
                return None
            ((size, stride),) = index_map
            if size * stride == group.size:
                lengths.add(stride)
            elif stride == 1:
                lengths.add(size)
            else:
                return None
    return lengths


def _best_columns(group: Group) -> int:
    """The row length of a group that leaves it open: 1 (flat) where all is full, else the longest with the fewest divisions."""
    full = full_map(group.size)
    others = [index_map for index_map in group.loads.values() if index_map and index_map != full]
    if not others:
        return 1
    bounds = {bound for index_map in others for size, stride in index_map for bound in (stride, size * stride)}
    fitting = [columns for columns in bounds if columns < group.size and group.size % columns == 0]
    return max(fitting, key=lambda columns: (-sum(_divides(m, columns) for m in others), columns), default=1)


def _divides(index_map: IndexMap, columns: int) -> bool:
    """Whether reading with this map takes a division at each element."""
    parts = split_at_rows(index_map, columns)
    inner = None if parts is None else [part for part in parts if part[1] % columns]
    return columns == 1 or inner is None or inner not in ([], [(columns, 1)])


def _late_values(group: Group, parts: Iterable[Group], rows: int, columns: int) -> set[Value] | None:
    """What is complete only after all rows; None where the group is not legal with these rows and columns."""
    late: set[Value] = set()
    for part in parts:
        if (part.rows, part.columns) == (rows, columns) and late.isdisjoint(part.loads):
            late |= part.late
        elif not _is_legal(part.ops, group, rows, columns, late):
            return None
    return late


def _is_legal(ops: Iterable[Op], group: Group, rows: int, columns: int, late: set[Value]) -> bool:
    """Whether `ops` of a group can follow those that made `late`, which takes in theirs."""
    for op in ops:
        is_late = not late.isdisjoint(op.operands)
        if op.name in FREE_IN_KERNELS:
            if is_late:
                if classify(group.maps[op.result], rows, columns) not in ("scalar", "column"):
                    return False
                late.add(op.result)
            continue
        if op.definition.kind is Kind.REDUCTION:
            scope = reduction_scope(group.map_of(op.operands[0]), group.maps[op.result], rows, columns)
            if scope is None or (scope == "finish") != is_late or (scope == "columns" and columns > MAX_COLUMN_SUMS):
                return False
            if scope != "inner":
                late.add(op.result)
            continue
        place = classify(group.maps[op.result], rows, columns)
        if is_late:
            if place not in ("scalar", "column") or op.role is Role.UPDATE:
                return False
            late.add(op.result)
        elif place in ("column", "other"):
            return False
    return True
