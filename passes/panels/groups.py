"""Which ops run in the panels of one axis: in groups, each as much as can run before panels have to wait for one another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value, producers, readers
from adjit.ir.ops.traits import FREE_IN_PANELS
from adjit.passes.panels.cuts import OpCut, PanelCuts
from adjit.passes.panels.rules import Needs, is_divisible, is_dropped, is_free, summed_axes

ROUNDS = 8
"""Most times that ops are left outside one after the other before an axis is given up."""

FEWEST_ROWS = 16
"""Rows of a product in a panel, below which its tiles wait for their operands."""

FEWER_BYTES = 4
"""How many times smaller than the operands the parts of a product over the batch have to be, all together."""


def has_products(op: Op) -> bool:
    """Whether an op is a product, or a loop with products."""
    return op.definition.kind is Kind.CONTRACTION or (op.name == "scan" and any(map(has_products, op.regions[0].ops)))


@dataclass(slots=True)
class Group:
    """Ops that run in the panels of one `panels` op, in order; `number` counts the groups that have to be done before."""

    number: int
    ops: list[Op] = field(default_factory=list)
    needs: dict[Op, Needs] = field(default_factory=dict)
    sums: list[Op] = field(default_factory=list)        # reductions and products over the axis, of which panels leave parts


class Uses:
    """Who makes and reads the values of a graph, however it is cut.

    `stored` are the values that lie in memory as a whole, rather than inside a kernel: what other ops than those of kernels make or read.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.maker = producers(graph)
        self.results = set(graph.results)
        self.readers = readers(graph.ops)
        self.stored: set[Value] = set()
        for op in graph.ops:
            if op.name not in FREE_IN_PANELS and op.definition.kind not in (Kind.ELEMENTWISE, Kind.REDUCTION):
                self.stored.update(op.operands, op.results)


class PanelGroups:
    """The groups for one axis and one number of panels; `found` are those that have products."""

    def __init__(self, uses: Uses, cuts: PanelCuts, count: int) -> None:
        self.uses, self.cuts, self.count = uses, cuts, count
        self.graph, self.axes, self.maker, self.readers = uses.graph, cuts.axes, uses.maker, uses.readers
        self.outside: set[Op] = set()           # ops that cannot be in a group, as panels of theirs would have to lie in memory
        self.needs: dict[Op, Needs] = {}        # of all ops that are in a group
        self.number: dict[Op, int] = {}         # of its group, or, for an op outside, of the first group that may read it
        self.found = self._assign()
        for _ in range(ROUNDS):
            if not self._reach_memory(self.found):
                break
            self.found = self._assign()
        else:
            self.found = []

    def is_wanted(self, value: Value, group: Group) -> bool:
        """Whether anything outside of the group reads the value."""
        return value in self.uses.results or any(op not in group.needs and op not in group.sums for op in self.readers.get(value, ()))

    def is_made_inside(self, value: Value, axis: int) -> bool:
        """Whether each panel can make its part of the value for itself."""
        return value in self.maker and is_free(self.maker[value], axis, self.count)

    def _assign(self) -> list[Group]:
        self.needs.clear()
        self.number.clear()
        groups: dict[int, Group] = {}
        for cut in self.cuts.ops:
            op = cut.op
            needs = self._needs(cut)
            ready = 0           # the first group in which the operands are known, as panels or as wholes
            for maker, axis in zip(cut.makers, needs or (None,) * len(cut.makers), strict=True):
                if maker is not None:
                    ready = max(ready, self.number[maker] + (axis is None and maker in self.needs))
            self.number[op] = ready
            if needs is not None:
                self.needs[op] = needs
        for op in reversed(self.graph.ops):
            if op.role is not Role.PRIMAL and op in self.needs:     # where it is read: before, it would have to be kept until then
                latest = min((self._wanted(reader, value) for value in op.results for reader in self.readers.get(value, ())), default=0)
                self.number[op] = max(self.number[op], latest)
        for op in self.graph.ops:
            if op in self.needs:
                group = groups.setdefault(self.number[op], Group(self.number[op]))
                group.needs[op] = self.needs[op]
                group.ops.append(op)
        for op in self.graph.ops:
            number = self._leaves_parts(op)
            if number is not None:
                groups[number].sums.append(op)
        found = [group for group in groups.values() if self._has_products(group)]
        for group in found:
            self._drop_strangers(group)
        return found

    def _needs(self, cut: OpCut) -> Needs | None:
        """What a panel of the op's result takes, where all of that is there: panels of values outside lie in memory only along the first
        axis."""
        needs = cut.needs_for(self.count)
        if needs is None or cut.is_free(self.count) or cut.op in self.outside:
            return None
        for value, maker, axis in zip(cut.op.operands, cut.makers, needs, strict=True):
            if axis is not None and not self._has_panels(value, maker, axis):
                return None
        return needs

    def _has_panels(self, value: Value, maker: Op | None, axis: int) -> bool:
        if maker is not None and maker in self.needs:
            return self.axes[value] == axis
        return axis == 0 or bool(self.axes.batch) or self.is_made_inside(value, axis)

    def _reach_memory(self, groups: Iterable[Group]) -> bool:
        """Whether panels along another axis than the first would have to be read or written outside; then what reads or makes them has to
        stay there. (What loops read and give there is copied.)"""
        if self.axes.batch:
            return False
        before = len(self.outside)
        for group in groups:
            for op in group.ops:
                read = (cut and self.maker.get(v) not in group.needs and not is_free(self.maker[v], cut, self.count)
                        for v, cut in zip(op.operands, group.needs[op], strict=True))
                if (self.axes[op.result] and self.is_wanted(op.result, group)) or any(read):
                    self.outside.add(op)
        return len(self.outside) > before

    def _drop_strangers(self, group: Group) -> None:
        """Leave out what has no connection with a product of the group: updates of parameters that happen to be as long."""
        touching: dict[Value, list[Op]] = {}
        waiting: list[Value] = []
        if self.axes.batch:
            waiting += (value for op in group.sums if op.definition.kind is Kind.CONTRACTION for value in op.operands)
        for op in group.ops:
            touched = self._panels_of(op, group)
            for value in touched:
                touching.setdefault(value, []).append(op)
            if has_products(op):
                waiting += touched
        near: set[Value] = set()
        while waiting:
            value = waiting.pop()
            if value not in near:
                near.add(value)
                for op in touching.pop(value, ()):
                    waiting += self._panels_of(op, group)
        kept = [op for op in group.ops if not near.isdisjoint(op.results)]
        for op in set(group.ops) - set(kept):
            del self.needs[op], group.needs[op]
        group.ops = kept
        group.sums = [op for op in group.sums if all(self.maker.get(v) in group.needs or v not in self.maker for v in op.operands)]

    def _panels_of(self, op: Op, group: Group) -> list[Value]:
        """Of which values, made in the group, an op makes or reads panels."""
        return [*op.results, *(value for value, cut in zip(op.operands, group.needs[op], strict=True)
                               if cut is not None and self.maker.get(value) in group.needs)]

    def _wanted(self, reader: Op, value: Value) -> int:
        """The last group that can make `value` for `reader`."""
        needs = self.needs.get(reader)
        cut = needs is not None and all(axis is not None for v, axis in zip(reader.operands, needs, strict=True) if v is value)
        return self.number[reader] - (not cut)

    def _leaves_parts(self, op: Op) -> int | None:
        """The number of the group that leaves parts of a sum, where that is best: what it adds up is made in panels."""
        if op in self.needs:
            return None
        if op.definition.kind is Kind.REDUCTION:
            (value,) = op.operands
            maker = self.maker.get(value)
            return self.number[maker] if maker is not None and maker in self.needs and self.axes[value] in op.attrs["axes"] else None
        inner = summed_axes(op)
        if inner is None or self.count * op.result.type.nbytes * FEWER_BYTES > sum(value.type.nbytes for value in op.operands):
            return None
        numbers = set()
        for value, cut in zip(op.operands, inner, strict=True):
            maker = self.maker.get(value)
            if not is_divisible(value.type, cut, self.count) or is_dropped(value.type, cut, self.count):
                return None
            if maker is not None and maker in self.needs and self.axes[value] == cut:
                numbers.add(self.number[maker])
            elif maker is not None or cut:
                return None
        return numbers.pop() if len(numbers) == 1 else None

    def _has_products(self, group: Group) -> bool:
        products = [op for op in group.ops if has_products(op)]
        return bool(products) and min(map(self._rows, products)) >= FEWEST_ROWS and (
            not self.axes.batch or any(op in self.axes.loops for op in products))

    def _rows(self, op: Op) -> int:
        """Rows of a product in a panel, or columns where these are divided."""
        if self.axes.batch:
            return self.axes.batch // self.count
        axis, shape = self.axes[op.result], op.result.type.shape
        return shape[axis] // self.count if axis >= len(shape) - 2 else shape[-2]
