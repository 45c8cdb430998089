"""Which ops may share one kernel, and over which rows and columns it then runs.

A group is legal when
- every reduction runs along the rows, down the columns, or over everything (`reduction_scope`), all with the same row length;
- what its ops compute is full, one a row, or one in all; one a column only after a reduction down the columns;
- nothing that is computed for each element or row needs a result that is complete only after all rows ("late").
"""

from __future__ import annotations

from dataclasses import dataclass, field

from adjit.ir.definition import Kind
from adjit.ir.errors import Role
from adjit.ir.graph import Op, Value
from adjit.ir.iteration_space import IndexMap, classify, full_map, reduction_scope, scale_map, split_at_rows

MAX_OPS = 200
"""Ops a kernel may hold: beyond it registers spill and compile time grows faster than what is saved."""

MAX_SINGLE_ROW = 1 << 16
"""Elements of a row program that has only one row; a longer one could not be split over threads."""

MAX_COLUMN_SUMS = 1 << 14
"""Columns of which a kernel keeps sums, one set for each block of rows."""

VIEWS = frozenset({"constant", "iota", "broadcast", "reshape"})
"""Ops that cost nothing inside a kernel: each kernel gets a copy of its own instead of a buffer."""


@dataclass(slots=True)
class Group:
    """Ops that will be one kernel over `size` positions.

    `maps` has the index map of every value that they compute, `loads` of those that they read.
    """

    size: int
    ops: list[Op] = field(default_factory=list)
    maps: dict[Value, IndexMap] = field(default_factory=dict)
    loads: dict[Value, IndexMap] = field(default_factory=dict)
    origin: dict[Value, Value] = field(default_factory=dict)    # stand-ins for values that are read at a second place too
    rows: int = 1
    columns: int = 1

    def sources(self) -> list[Value]:
        """The values that are read."""
        return [self.origin.get(value, value) for value in self.loads] if self.origin else list(self.loads)


def is_fusible(op: Op) -> bool:
    """Whether an op can be computed in a kernel: elementwise ops and reductions, of something."""
    return (op.definition.kind in (Kind.ELEMENTWISE, Kind.REDUCTION)
            and op.operands[0].type.size > 0 and op.result.type.size > 0)


def merge_groups(consumer: Group, producer: Group) -> Group | None:
    """Both as one group, where that is legal. The consumer reads something that the producer computes, or both read the same."""
    if len(consumer.ops) + len(producer.ops) > MAX_OPS:
        return None
    shared = next((value for value in consumer.loads if value in producer.maps), None)
    if shared is None:
        full = full_map(consumer.size)
        shared = next((value for value in consumer.loads if producer.loads.get(value) == full == consumer.loads[value]), None)
    if shared is None:
        return None
    large, small = (producer, consumer) if producer.size >= consumer.size else (consumer, producer)
    outer, inner = (group.maps.get(shared, group.loads.get(shared, ())) for group in (large, small))
    factor = _embedding(inner, outer, small.size, large.size)
    if factor is None or (small is producer and small.size < large.size and small.size * factor != large.size):
        return None       # a smaller producer has to be computed once a row, so that no work is done twice
    if small is producer and small.size == 1 < large.size:
        return None       # one number for many kernels: computed once, on its own
    maps = large.maps | {value: scale_map(index_map, factor) for value, index_map in small.maps.items()}
    loads = dict(large.loads)
    for value, index_map in small.loads.items():
        if loads.setdefault(value, scale_map(index_map, factor)) != scale_map(index_map, factor):
            return None
    if any(maps.get(value, index_map) != index_map for value, index_map in loads.items()):
        return None
    origin = consumer.origin | producer.origin
    if any(value in maps for value in origin.values()):
        return None
    group = Group(large.size, producer.ops + consumer.ops, maps, {v: m for v, m in loads.items() if v not in maps}, origin)
    return group if choose_space(group) else None


def _embedding(inner: IndexMap, outer: IndexMap, inner_size: int, outer_size: int) -> int | None:
    """The stride at which a space of `inner_size` positions lies in one of `outer_size`, when a value has these maps in the two."""
    factor = 1
    if inner_size not in (1, outer_size):
        factor = outer[0][1] // inner[0][1] if inner and outer else 0
    fits = factor > 0 and outer_size % (inner_size * factor) == 0 and scale_map(inner, factor) == outer
    return factor if fits else None


def choose_space(group: Group) -> bool:
    """Set `rows` and `columns`; False where no choice makes the group legal."""
    lengths = _row_lengths(group)
    if lengths is None or len(lengths) > 1:
        return False
    candidates = [*lengths] or [_best_columns(group)]
    if not lengths and 1 < group.size <= MAX_SINGLE_ROW:
        candidates.append(group.size)
    for columns in candidates:
        rows = group.size // columns
        if rows * columns == group.size and _is_legal(group, rows, columns):
            group.rows, group.columns = rows, columns
            return True
    return False


def _row_lengths(group: Group) -> set[int] | None:
    """The row lengths that reductions and smaller values ask for; None where one kernel cannot be."""
    full = full_map(group.size)
    lengths: set[int] = set()
    for op in group.ops:
        if op.name in VIEWS:
            continue
        for value in (op.result, op.operands[0]):
            index_map = _map_of(group, value)
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
    others = [index_map for index_map in group.loads.values() if index_map not in ((), full_map(group.size))]
    bounds = {bound for index_map in others for size, stride in index_map for bound in (stride, size * stride)}
    fitting = [columns for columns in bounds if columns < group.size and group.size % columns == 0]
    return max(fitting, key=lambda columns: (-sum(_divides(m, columns) for m in others), columns), default=1)


def _divides(index_map: IndexMap, columns: int) -> bool:
    """Whether reading with this map takes a division at each element."""
    parts = split_at_rows(index_map, columns)
    inner = None if parts is None else [part for part in parts if part[1] % columns]
    return columns == 1 or inner is None or inner not in ([], [(columns, 1)])


def _is_legal(group: Group, rows: int, columns: int) -> bool:
    late: set[Value] = set()
    for op in group.ops:
        is_late = not late.isdisjoint(op.operands)
        if op.name in VIEWS:
            if is_late:
                if classify(group.maps[op.result], rows, columns) not in ("scalar", "column"):
                    return False
                late.add(op.result)
            continue
        if op.definition.kind is Kind.REDUCTION:
            scope = reduction_scope(_map_of(group, op.operands[0]), group.maps[op.result], rows, columns)
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


def _map_of(group: Group, value: Value) -> IndexMap:
    return group.maps[value] if value in group.maps else group.loads[value]
