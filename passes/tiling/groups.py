"""Groups of ops that run in the tiles of one axis; each group is as large as possible before tiles have to wait for one another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value, producers, readers
from adjit.ir.ops.traits import FREE_IN_TILES
from adjit.passes.tiling.graph_slicing import GraphSlicing, SliceRule
from adjit.passes.tiling.slice_rules import OperandAxes, is_divisible, is_dropped, is_replicable, summed_axes

MAX_ROUNDS = 8
"""Most times that ops are excluded and the groups computed again before an axis is given up."""

MIN_TILE_ROWS = 16
"""Fewest rows of a product in a tile; with fewer rows the product waits for its operands."""

MIN_REDUCTION_RATIO = 4
"""Ratio of the bytes of a product's operands to the bytes of all its partial sums over the batch from which the product is split."""


def has_products(op: Op) -> bool:
    """True if an op is a product, or a loop with products."""
    return op.definition.kind is Kind.CONTRACTION or (op.name == "scan" and any(map(has_products, op.regions[0].ops)))


@dataclass(slots=True)
class TileGroup:
    """Ops that run in the tiles of one `tiled` op, in order; `number` is the number of groups that must be done before."""

    number: int
    ops: list[Op] = field(default_factory=list)
    operand_axes: dict[Op, OperandAxes] = field(default_factory=dict)
    sums: list[Op] = field(default_factory=list)        # reductions and products over the axis, of which tiles leave partial sums


class DefUses:
    """Producers and readers of the values of a graph, independent of the tiling.

    `stored` are the values that lie in memory as a whole, rather than inside a kernel: operands and results of ops that are not fused into
    kernels.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.producer = producers(graph)
        self.results = set(graph.results)
        self.readers = readers(graph.ops)
        self.stored: set[Value] = set()
        for op in graph.ops:
            if op.name not in FREE_IN_TILES and op.definition.kind not in (Kind.ELEMENTWISE, Kind.REDUCTION):
                self.stored.update(op.operands, op.results)


class TileGroups:
    """Groups for one axis and one tile count; `found` are the groups with products."""

    def __init__(self, uses: DefUses, slicing: GraphSlicing, count: int) -> None:
        self.uses, self.slicing, self.count = uses, slicing, count
        self.graph, self.axes, self.producer, self.readers = uses.graph, slicing.axes, uses.producer, uses.readers
        self.outside: set[Op] = set()           # ops excluded from groups, as their tiles would be strided in memory
        self.operand_axes: dict[Op, OperandAxes] = {}        # of all ops that are in a group
        self.number: dict[Op, int] = {}         # of the op's group; for an op outside, of the first group that may read it
        self.found = self._assign()
        for _ in range(MAX_ROUNDS):
            if not self._exclude_strided_access(self.found):
                break
            self.found = self._assign()
        else:
            self.found = []

    def is_used_outside(self, value: Value, group: TileGroup) -> bool:
        """True if an op outside the group reads the value."""
        return value in self.uses.results or any(
            op not in group.operand_axes and op not in group.sums for op in self.readers.get(value, ()))

    def is_replicated(self, value: Value, axis: int) -> bool:
        """True if each tile can recompute its slice of the value."""
        return value in self.producer and is_replicable(self.producer[value], axis, self.count)

    def _assign(self) -> list[TileGroup]:
        self.operand_axes.clear()
        self.number.clear()
        groups: dict[int, TileGroup] = {}
        for cut in self.slicing.ops:
            op = cut.op
            operand_axes = self._operand_axes(cut)
            ready = 0           # the first group in which the operands are known, as tiles or as wholes
            for producer, axis in zip(cut.producers, operand_axes or (None,) * len(cut.producers), strict=True):
                if producer is not None:
                    ready = max(ready, self.number[producer] + (axis is None and producer in self.operand_axes))
            self.number[op] = ready
            if operand_axes is not None:
                self.operand_axes[op] = operand_axes
        for op in reversed(self.graph.ops):
            if op.role is not Role.PRIMAL and op in self.operand_axes:     # into its readers' group: an earlier one would store it
                readers = ((reader, value) for value in op.results for reader in self.readers.get(value, ()))
                latest = min((self._latest_group(reader, value) for reader, value in readers), default=0)
                self.number[op] = max(self.number[op], latest)
        for op in self.graph.ops:
            if op in self.operand_axes:
                group = groups.setdefault(self.number[op], TileGroup(self.number[op]))
                group.operand_axes[op] = self.operand_axes[op]
                group.ops.append(op)
        for op in self.graph.ops:
            number = self._partial_sum_group(op)
            if number is not None:
                groups[number].sums.append(op)
        found = [group for group in groups.values() if self._has_products(group)]
        for group in found:
            self._drop_unconnected(group)
        return found

    def _operand_axes(self, cut: SliceRule) -> OperandAxes | None:
        """Axes of the operands for a tile of the op's result, if all these tiles exist; else None. Tiles of values outside lie in memory
        only along the first axis."""
        operand_axes = cut.axes_for(self.count)
        if operand_axes is None or cut.is_replicable(self.count) or cut.op in self.outside:
            return None
        for value, producer, axis in zip(cut.op.operands, cut.producers, operand_axes, strict=True):
            if axis is not None and not self._has_tiles(value, producer, axis):
                return None
        return operand_axes

    def _has_tiles(self, value: Value, producer: Op | None, axis: int) -> bool:
        if producer is not None and producer in self.operand_axes:
            return self.axes[value] == axis
        return axis == 0 or bool(self.axes.batch) or self.is_replicated(value, axis)

    def _exclude_strided_access(self, groups: Iterable[TileGroup]) -> bool:
        """Exclude ops whose tiles along another axis than the first would be read or written outside; True if there are new ones. (Operands
        and results of tiled loops are copied instead.)"""
        if self.axes.batch:
            return False
        before = len(self.outside)
        for group in groups:
            for op in group.ops:
                read = (cut and self.producer.get(v) not in group.operand_axes and not is_replicable(self.producer[v], cut, self.count)
                        for v, cut in zip(op.operands, group.operand_axes[op], strict=True))
                if (self.axes[op.result] and self.is_used_outside(op.result, group)) or any(read):
                    self.outside.add(op)
        return len(self.outside) > before

    def _drop_unconnected(self, group: TileGroup) -> None:
        """Remove ops that are not connected with a product of the group: updates of parameters that happen to have the same length."""
        touching: dict[Value, list[Op]] = {}
        worklist: list[Value] = []
        if self.axes.batch:
            worklist += (value for op in group.sums if op.definition.kind is Kind.CONTRACTION for value in op.operands)
        for op in group.ops:
            touched = self._tiles_of(op, group)
            for value in touched:
                touching.setdefault(value, []).append(op)
            if has_products(op):
                worklist += touched
        connected: set[Value] = set()
        while worklist:
            value = worklist.pop()
            if value not in connected:
                connected.add(value)
                for op in touching.pop(value, ()):
                    worklist += self._tiles_of(op, group)
        connected_ops = [op for op in group.ops if not connected.isdisjoint(op.results)]
        for op in set(group.ops) - set(connected_ops):
            del self.operand_axes[op], group.operand_axes[op]
        group.ops = connected_ops
        group.sums = [op for op in group.sums
                      if all(self.producer.get(v) in group.operand_axes or v not in self.producer for v in op.operands)]

    def _tiles_of(self, op: Op, group: TileGroup) -> list[Value]:
        """Values made in the group of which an op makes or reads tiles."""
        return [*op.results, *(value for value, cut in zip(op.operands, group.operand_axes[op], strict=True)
                               if cut is not None and self.producer.get(value) in group.operand_axes)]

    def _latest_group(self, reader: Op, value: Value) -> int:
        """Last group that can make `value` for `reader`."""
        operand_axes = self.operand_axes.get(reader)
        cut = operand_axes is not None and all(
            axis is not None for v, axis in zip(reader.operands, operand_axes, strict=True) if v is value)
        return self.number[reader] - (not cut)

    def _partial_sum_group(self, op: Op) -> int | None:
        """Number of the group that computes partial sums of `op`, if the operands are made in its tiles and partial sums are worth it; else
        None."""
        if op in self.operand_axes:
            return None
        if op.definition.kind is Kind.REDUCTION:
            (value,) = op.operands
            producer = self.producer.get(value)
            is_tiled = producer is not None and producer in self.operand_axes and self.axes[value] in op.attrs["axes"]
            return self.number[producer] if producer is not None and is_tiled else None
        inner = summed_axes(op)
        if inner is None or self.count * op.result.type.nbytes * MIN_REDUCTION_RATIO > sum(value.type.nbytes for value in op.operands):
            return None
        numbers = set()
        for value, cut in zip(op.operands, inner, strict=True):
            producer = self.producer.get(value)
            if not is_divisible(value.type, cut, self.count) or is_dropped(value.type, cut, self.count):
                return None
            if producer is not None and producer in self.operand_axes and self.axes[value] == cut:
                numbers.add(self.number[producer])
            elif producer is not None or cut:
                return None
        return numbers.pop() if len(numbers) == 1 else None

    def _has_products(self, group: TileGroup) -> bool:
        products = [op for op in group.ops if has_products(op)]
        return bool(products) and min(map(self._rows, products)) >= MIN_TILE_ROWS and (
            not self.axes.batch or any(op in self.axes.loops for op in products))

    def _rows(self, op: Op) -> int:
        """Rows of a product in a tile, or its columns if these are divided."""
        if self.axes.batch:
            return self.axes.batch // self.count
        axis, shape = self.axes[op.result], op.result.type.shape
        return shape[axis] // self.count if axis >= len(shape) - 2 else shape[-2]
