"""Results of tiles that are rematerialized outside instead of written: one kernel computes them from parameters and small values.

A normalised input of a layer is as large as the input, which lies in memory anyway. If the backward half needs the normalised input after
all tiles are done, it is enough to save the mean and deviation of each row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.ops.traits import FREE_IN_TILES

MIN_SIZE_RATIO = 8
"""Ratio of the bytes of a result to the bytes of a value that is saved instead, at least."""

MAX_CONVERSIONS = 2
"""Most ops from a float16 or bfloat16 to a result for which the half is written instead, though it is not that much smaller."""

MAX_REMAT_OPS = 16
"""Most ops that run again for one result."""

MIN_REMAT_BYTES = 1 << 18
"""Smallest result that is rematerialized; smaller ones are written, as they cost little."""


@dataclass(slots=True)
class Rematerialized:
    """Results that `ops` rematerialize, and the values (`kept`) that are saved for these ops."""

    values: set[Value] = field(default_factory=set)
    kept: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)


def rematerialize(graph: Graph, results: Iterable[Value], producer: Mapping[Value, Op], group: Collection[Op]) -> Rematerialized:
    """Choose which `results` of the ops of a group are rematerialized."""
    rematerialized = Rematerialized()
    for result in results:
        if result.type.nbytes >= MIN_REMAT_BYTES and result not in graph.results:
            recomputation = _Recomputation(graph, producer, group, result)
            if recomputation.reach(result):
                rematerialized.values.add(result)
                rematerialized.kept += recomputation.kept
                rematerialized.ops += recomputation.copies()
    return rematerialized


class _Recomputation:
    """Elementwise ops that compute a result from parameters and small values."""

    def __init__(self, graph: Graph, producer: Mapping[Value, Op], group: Collection[Op], result: Value) -> None:
        self.params, self.producer, self.group, self.result = set(graph.params), producer, group, result
        self.found: dict[Value, Op] = {}        # in the order in which they run
        self.kept: list[Value] = []
        self.visited = 0

    def reach(self, value: Value) -> bool:
        """True if the value can be recomputed; adds the ops for it."""
        if value in self.params or value in self.found or value in self.kept:
            return True
        op = self.producer[value]
        ratio = 2 if value.type.is_half and self.visited <= MAX_CONVERSIONS else MIN_SIZE_RATIO
        if op in self.group and value.type.nbytes * ratio <= self.result.type.nbytes and op.definition.kind is not Kind.CREATION:
            self.kept.append(value)
            return True
        self.visited += 1
        if not (op.definition.kind is Kind.ELEMENTWISE or op.name in FREE_IN_TILES) or self.visited > MAX_REMAT_OPS:
            return False
        if not all(self.reach(operand) for operand in op.operands):
            return False
        self.found[value] = op
        return True

    def copies(self) -> list[Op]:
        """Copies of the ops; the last one has the result itself."""
        mapping = {value: value if value is self.result else Value(value.type, value.name) for value in self.found}
        return [op.with_operands([mapping.get(value, value) for value in op.operands], (mapping[value],), Role.RECOMPUTE)
                for value, op in self.found.items()]
