"""Rules for ops that share one kernel, and the choice of the kernel's rows and columns.

A group is legal if
- every reduction runs along the rows, down the columns, or over everything (`reduction_scope`), all with the same row length;
- every value that its ops compute is full, one a row, or one in all; one a column only after a reduction down the columns;
- no op that is computed for each element or row needs a result that is complete only after all rows ("post").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from adjit.ir.analysis.iteration_space import IndexMap, full_map, map_extent, reduction_scope, scale_map, split_at_rows
from adjit.ir.analysis.kernel_schedule import CPU_RULE, KernelRule
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.errors import Role
from adjit.ir.graph import Op, Value
from adjit.ir.ops.traits import FREE_IN_KERNELS

MAX_OPS = 200
"""Most ops in a kernel: beyond it registers spill, and compile time grows faster than the saving."""


@dataclass(slots=True)
class FusionGroup:
    """Ops that become one kernel over `size` positions.

    `maps` has the index map of every value that the ops compute, `loads` of every value that they read. `choose_iteration_space` sets the
    rest: `lengths` are the row lengths that reductions and smaller values ask for, `post` the values that are complete only after all
    rows.
    """

    size: int
    ops: list[Op] = field(default_factory=list)
    maps: dict[Value, IndexMap] = field(default_factory=dict)
    loads: dict[Value, IndexMap] = field(default_factory=dict)
    origin: dict[Value, Value] = field(default_factory=dict)    # copies of values that are read with a second index map too
    rule: KernelRule = CPU_RULE
    rows: int = 0
    columns: int = 0
    lengths: set[int] | None = None
    post: set[Value] = field(default_factory=set)

    def sources(self) -> list[Value]:
        """Values that the group reads."""
        return [self.origin.get(value, value) for value in self.loads] if self.origin else list(self.loads)

    def map_of(self, value: Value) -> IndexMap:
        found = self.maps.get(value)
        return self.loads[value] if found is None else found


def is_fusible(op: Op) -> bool:
    """True if an op can be computed in a kernel: a non-empty elementwise op or reduction."""
    return (op.definition.kind in (Kind.ELEMENTWISE, Kind.REDUCTION)
            and op.operands[0].type.size > 0 and op.result.type.size > 0)


def embedding_stride(consumer: FusionGroup, producer: FusionGroup) -> int | None:
    """Positions of the larger of two iteration spaces that are one position of the smaller; None if the spaces cannot be merged.

    The consumer reads a value that the producer computes, or both read the same value.
    """
    if len(consumer.ops) + len(producer.ops) > MAX_OPS:
        return None
    shared = _shared_value(consumer, producer)
    if shared is None:
        return None
    large, small = (producer, consumer) if producer.size >= consumer.size else (consumer, producer)
    outer, inner = (group.maps.get(shared, group.loads.get(shared, ())) for group in (large, small))
    stride = _find_stride(inner, outer, small.size, large.size)
    if stride is None or (small is producer and small.size < large.size and small.size * stride != large.size):
        return None       # a smaller producer is computed once a row, so that no work is done twice
    if small is producer and small.size == 1 < large.size:
        return None       # one number for many kernels is computed once, by its own kernel
    return stride


def _shared_value(consumer: FusionGroup, producer: FusionGroup) -> Value | None:
    """Value that the consumer reads and the producer computes, else a value that both read at each position."""
    for value in consumer.loads:
        if value in producer.maps:
            return value
    full = full_map(consumer.size)
    for value, index_map in consumer.loads.items():
        if index_map == full and producer.loads.get(value) == full:
            return value
    return None


def merge_groups(consumer: FusionGroup, producer: FusionGroup, stride: int) -> FusionGroup | None:
    """Merged group, or None if it is not legal; `stride` comes from `embedding_stride`."""
    if consumer.origin and not producer.maps.keys().isdisjoint(consumer.origin.values()):
        return None
    large, small = (producer, consumer) if producer.size >= consumer.size else (consumer, producer)
    if small.size < large.size:
        first, second = (_scaled(group, stride, large.size) if group is small else group for group in (producer, consumer))
    else:
        first, second = producer, consumer
    taken, shared = second.loads.keys() & first.maps.keys(), second.loads.keys() & first.loads.keys()
    if any(first.maps[value] != second.loads[value] for value in taken) or any(first.loads[v] != second.loads[v] for v in shared):
        return None
    loads = first.loads | second.loads if large is producer else second.loads | first.loads
    for value in taken:
        del loads[value]
    group = FusionGroup(large.size, first.ops + second.ops, first.maps | second.maps, loads, first.origin | second.origin,
                        first.rule)
    return group if choose_iteration_space(group, (first, second)) else None


def _scaled(group: FusionGroup, stride: int, size: int) -> FusionGroup:
    """Copy of `group` in a space of `size` positions, where every `stride` consecutive positions are one position of the group's own
    space."""
    maps, loads = ({value: scale_map(index_map, stride) for value, index_map in old.items()} for old in (group.maps, group.loads))
    return FusionGroup(size, group.ops, maps, loads, group.origin, group.rule)


def _find_stride(inner: IndexMap, outer: IndexMap, inner_size: int, outer_size: int) -> int | None:
    """Stride at which a space of `inner_size` positions lies in one of `outer_size`, if a value has these maps in the two; else None."""
    stride = 1
    if inner_size not in (1, outer_size):
        stride = outer[0][1] // inner[0][1] if inner and outer else 0
    fits = stride > 0 and outer_size % (inner_size * stride) == 0 and scale_map(inner, stride) == outer
    return stride if fits else None


def choose_iteration_space(group: FusionGroup, groups: Sequence[FusionGroup] = ()) -> bool:
    """Set rows, columns, lengths and post values of a group merged from `groups`, in this order; False if no choice makes it legal.

    Results that are known of the members are reused, so that a growing kernel is not analysed anew at each merge.
    """
    lengths: set[int] = set()
    for member in groups or (group,):
        found = _row_lengths(member.ops, group) if member.lengths is None else member.lengths
        if found is None:
            return False
        lengths |= found
    if len(lengths) > 1:
        return False
    candidates = [*lengths] or [_best_columns(group)]
    if not lengths and 1 < group.size <= group.rule.max_single_row:
        candidates.append(group.size)
    for columns in candidates:
        rows = group.size // columns
        if rows * columns != group.size:
            continue
        post = _post_values(group, groups or (group,), rows, columns)
        if post is not None:
            group.rows, group.columns, group.lengths, group.post = rows, columns, lengths, post
            return True
    return False


def _row_lengths(ops: Iterable[Op], group: FusionGroup) -> set[int] | None:
    """Row lengths that reductions and smaller values among `ops` of a group ask for; None if no kernel can hold them."""
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


def _best_columns(group: FusionGroup) -> int:
    """Row length of a group that leaves the length open: 1 (flat) if all values are full, else the longest with the fewest divisions."""
    full = full_map(group.size)
    others = [index_map for index_map in group.loads.values() if index_map and index_map != full]
    if not others:
        return 1
    bounds = {bound for index_map in others for size, stride in index_map for bound in (stride, size * stride)}
    fitting = [columns for columns in bounds if columns < group.size and group.size % columns == 0]
    return max(fitting, key=lambda columns: (-sum(_divides(m, columns) for m in others), columns), default=1)


def _divides(index_map: IndexMap, columns: int) -> bool:
    """True if a read with this map needs a division at each element."""
    groups = split_at_rows(index_map, columns)
    inner = None if groups is None else [member for member in groups if member[1] % columns]
    return columns == 1 or inner is None or inner not in ([], [(columns, 1)])


def _post_values(group: FusionGroup, groups: Iterable[FusionGroup], rows: int, columns: int) -> set[Value] | None:
    """Values that are complete only after all rows; None if the group is not legal with these rows and columns."""
    post: set[Value] = set()
    for member in groups:
        if (member.rows, member.columns) == (rows, columns) and post.isdisjoint(member.loads):
            post |= member.post
        elif not _is_legal(member.ops, group, rows, columns, post):
            return None
    return post


def _is_legal(ops: Iterable[Op], group: FusionGroup, rows: int, columns: int, post: set[Value]) -> bool:
    """True if `ops` of a group may follow the ops that made `post`. Post values among the results of `ops` are added to `post`."""
    for op in ops:
        is_post = not post.isdisjoint(op.operands)
        if op.name in FREE_IN_KERNELS:
            if is_post:
                if map_extent(group.maps[op.result], rows, columns) not in ("scalar", "column"):
                    return False
                post.add(op.result)
            continue
        if op.definition.kind is Kind.REDUCTION:
            scope = reduction_scope(group.map_of(op.operands[0]), group.maps[op.result], rows, columns)
            if scope is None or (scope == "post") != is_post or (scope == "columns" and columns > group.rule.max_column_sums):
                return False
            if scope != "inner":
                post.add(op.result)
            continue
        extent = map_extent(group.maps[op.result], rows, columns)
        if is_post:
            if extent not in ("scalar", "column") or op.role is Role.UPDATE:
                return False
            post.add(op.result)
        elif extent in ("column", "other"):
            return False
    return True
