"""Graph as arrays of numbers, in which repeated stretches are found and compared without a look at single ops."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

import numpy as np

from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, Value, producers
from adjit.ir.types import TensorType


class NumberedGraph:
    """Ops of a graph that compute (`sequence`), with a number for each value.

    Results of the sequence count from 0, in order. Parameters, and ops that create a value, have negative numbers; ops that create the same
    constant share one, so that a number is known wherever the trace made it. Ops that create values are not in the sequence: a number that
    was a Python number before the first iteration would else make this iteration one op longer.

    letters        number of the kind of each op: its name, its line, the shape of its result, how many operands and results it has
    first_result   number of the first result of each op, and of the end
    first_operand  position in `operands` of the first operand of each op, and the end
    operands       number of each operand
    sizes          number of ops before each op, those of regions included, and at the end: what they cost to compile
    """

    def __init__(self, graph: Graph):
        self.graph = graph
        self.sequence: list[Op] = []
        self.results: list[Value] = []
        self.outside: list[Value] = []
        self.creator: dict[Value, Op] = {}
        self._numbers = numbers = dict[Value, int]()
        kinds: dict[Hashable, int] = {}
        locations: dict[int, int] = {}
        equal_locations: dict[Hashable, int] = {}
        constants: dict[Hashable, int] = {}
        letters: list[int] = []
        first_result, first_operand, operands = [0], [0], list[int]()
        for value in graph.params:
            self.outside.append(value)
            numbers[value] = -len(self.outside)
        for op in graph.ops:
            if op.definition.kind is Kind.CREATION:
                value = op.results[0]
                key = _creation_key(op)
                known = constants.get(key)
                if known is None:
                    self.outside.append(value)
                    self.creator[value] = op
                    known = constants[key] = -len(self.outside)
                numbers[value] = known
                continue
            place = locations.get(id(op.loc))
            if place is None:
                place = locations[id(op.loc)] = equal_locations.setdefault(op.loc, len(equal_locations))
            shape = op.results[0].type.shape if op.results else None
            kind = op.name, place, shape, len(op.operands), len(op.results)
            letters.append(kinds.setdefault(kind, len(kinds)))
            self.sequence.append(op)
            operands += [numbers[value] for value in op.operands]
            for value in op.results:
                numbers[value] = len(self.results)
                self.results.append(value)
            first_result.append(len(self.results))
            first_operand.append(len(operands))
        self.letters = np.array(letters, np.int64)
        self.first_result, self.first_operand = np.array(first_result, np.int64), np.array(first_operand, np.int64)
        self.operands = np.array(operands, np.int64)
        self.sizes = np.cumsum([0, *map(OpCounter().size, self.sequence)])
        self.used_at_end = np.array([numbers[value] for value in graph.results], np.int64)

    def value(self, number: int) -> Value:
        """Value of a number."""
        return self.results[number] if number >= 0 else self.outside[-1 - number]

    def number(self, value: Value) -> int:
        """Number of a value."""
        return self._numbers[value]

    @cached_property
    def producer(self) -> dict[Value, Op]:
        """Op that makes each value."""
        return producers(self.graph)

    def creation(self, number: int) -> Op | None:
        """Op that creates the value of a number; None for a parameter and for a computed value."""
        return None if number >= 0 else self.creator.get(self.outside[-1 - number])

    def type(self, number: int) -> TensorType:
        return self.value(number).type

    def maker(self, number: int) -> int:
        """Position in the sequence of the op that makes the value of a number, which is at least 0."""
        return int(np.searchsorted(self.first_result, number, side="right")) - 1

    @cached_property
    def last_use(self) -> np.ndarray:
        """Position in the sequence of the last op that reads each computed value; the length of the sequence for results of the graph, -1
        where nothing reads a value."""
        last = np.full(len(self.results), -1, np.int64)
        reader = np.repeat(np.arange(len(self.sequence)), np.diff(self.first_operand))
        computed = self.operands >= 0
        np.maximum.at(last, self.operands[computed], reader[computed])
        last[self.used_at_end[self.used_at_end >= 0]] = len(self.sequence)
        return last


class OpCounter:
    """Numbers of ops, those of regions included; a region that ops share is looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Graph, int]] = {}

    def count(self, graph: Graph) -> int:
        return sum(map(self.size, graph.ops))

    def size(self, op: Op) -> int:
        return 1 + sum(map(self._of_region, op.regions)) if op.regions else 1

    def _of_region(self, region: Graph) -> int:
        if id(region) not in self._known:
            self._known[id(region)] = region, self.count(region)
        return self._known[id(region)][1]


def _creation_key(op: Op) -> Hashable:
    """Key of what an op creates: equal for equal bits. A NaN equals only itself."""
    attrs = op.attrs
    if op.name == "constant":
        number = attrs["value"]
        return number or repr(number), attrs["dtype"].char, attrs["shape"]
    return op.name, *((name, attrs[name]) for name in sorted(attrs))
