"""Which results of panels are not written, but made again outside: those that one kernel makes of parameters and of little else.

A normalised input of a layer is as large as the input, which is there anyway. Where the backward half needs it, after all panels are
done, mean and deviation of each row are enough to keep.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.ops.traits import FREE_IN_PANELS

SMALLER = 8
"""How many times smaller than a result a value has to be to be kept in its place."""

MOST_OPS = 16
"""How many ops may run again for one result."""

LEAST_BYTES = 1 << 18
"""Smaller results are kept: they do not make the difference."""


@dataclass(slots=True)
class MadeAgain:
    """The results that are made again, by `ops`, and the `small` values that are kept for that."""

    values: set[Value] = field(default_factory=set)
    small: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)


def made_again(graph: Graph, results: Iterable[Value], maker: Mapping[Value, Op], group: Collection[Op]) -> MadeAgain:
    """What to do for the `results` of the ops of a group."""
    again = MadeAgain()
    for result in results:
        if result.type.nbytes >= LEAST_BYTES and result not in graph.results:
            chain = _Chain(graph, maker, group, result)
            if chain.reach(result):
                again.values.add(result)
                again.small += chain.small
                again.ops += chain.copies()
    return again


class _Chain:
    """The elementwise ops that make a result of parameters and small values."""

    def __init__(self, graph: Graph, maker: Mapping[Value, Op], group: Collection[Op], result: Value) -> None:
        self.params, self.maker, self.group, self.result = set(graph.params), maker, group, result
        self.found: dict[Value, Op] = {}        # in the order in which they run
        self.small: list[Value] = []
        self.looked_at = 0

    def reach(self, value: Value) -> bool:
        """Whether the value can be made; adds the ops for it."""
        if value in self.params or value in self.found or value in self.small:
            return True
        op = self.maker[value]
        if op in self.group and value.type.nbytes * SMALLER <= self.result.type.nbytes and op.definition.kind is not Kind.CREATION:
            self.small.append(value)
            return True
        self.looked_at += 1
        if not (op.definition.kind is Kind.ELEMENTWISE or op.name in FREE_IN_PANELS) or self.looked_at > MOST_OPS:
            return False
        if not all(self.reach(operand) for operand in op.operands):
            return False
        self.found[value] = op
        return True

    def copies(self) -> list[Op]:
        """The ops once more, the last one with the result itself."""
        mapping = {value: value if value is self.result else Value(value.type, value.name) for value in self.found}
        return [op.with_operands([mapping.get(value, value) for value in op.operands], (mapping[value],), Role.RECOMPUTE)
                for value, op in self.found.items()]
