"""Tables of a finished trace that are large, or many of one type, as captured arrays: the program reads them where they are.

    w = np.linspace(1.0, 2.0, 64)
    for _ in range(400):
        w = w * 0.99                # NumPy computes it while the function is traced
        x = np.sin(x * w)           # 400 tables, which become 400 rows of one captured array

A loop reads such rows one after the other, as those of an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Iterator, Mapping, Sequence

import numpy as np

from adjit.ir import ops
from adjit.ir.graph import Graph, Op, Value, hand_to_regions, readers
from adjit.ir.ops.creation import MAX_TABLE_BYTES, constant, table
from adjit.ir.types import TensorType

MIN_ROWS = 8
"""Tables of one type that become rows of one array: fewer are no loop."""

_HANDS_ON = frozenset({"vjp", "checkpoint", "cond", "scan", "while_loop"})
"""Ops through which a captured array reaches their regions."""


def capture_tables(traced: Sequence[Op], capture: Callable[[np.ndarray], Value], filled: Container[Value] = ()) -> list[Op]:
    """Return the ops of a trace, with reads of captured arrays in place of tables; `capture` adds a parameter to the outermost graph.
    `filled` are the values of arrays like those of the tables, of one number: zeros in the first round of a loop."""
    graph = Graph("", (), tuple(traced), ())
    graphs = list(_reached(graph))
    groups = _groups([op for each in graphs for op in each.ops if op.definition is table])
    if not groups:
        return list(graph.ops)
    reads = _reads(graphs, groups, filled)
    for op, group in reads.items():
        group.rows.setdefault(_data(op), len(group.rows))
    used = list(dict.fromkeys(reads.values()))
    return _Reading(reads).body(graph, {group: capture(group.array()) for group in used})


class _Group:
    """Tables of one type that become one array: their contents, each with the number of its row; or one table."""

    def __init__(self, type: TensorType, alone: bool):
        self.type, self.alone = type, alone
        self.rows: dict[bytes, int] = {}

    def array(self) -> np.ndarray:
        rows = () if self.alone else (len(self.rows),)
        return np.frombuffer(b"".join(self.rows), self.type.dtype).reshape(*rows, *self.type.shape)

    def read(self, op: Op, array: Value) -> Iterator[Op]:
        """Ops that read from `array` what a table has."""
        if not self.alone:
            row, rank, shape = self.rows[_data(op)], self.type.rank, self.type.shape
            part = Value(self.type.with_shape((1, *shape)))
            attrs = {"start": (row, *(0,) * rank), "stop": (row + 1, *shape), "step": (1,) * (rank + 1)}
            yield Op(ops.slice, (array,), (part,), attrs, (), op.loc, op.role)
            array = part
        yield Op(ops.reshape, (array,), op.results, {"shape": self.type.shape}, (), op.loc, op.role)


def _data(op: Op) -> bytes:
    data: bytes = op.attrs["data"] if op.definition is table else op.definition.evaluate(**op.attrs).tobytes()
    return data


def _reached(graph: Graph) -> Iterator[Graph]:
    """The graph and the regions that values can be handed to, each once, in the order of the trace."""
    waiting, known = [graph], {id(graph)}
    while waiting:
        graph = waiting.pop()
        yield graph
        for op in reversed(graph.ops):
            if op.name in _HANDS_ON:
                for region in op.regions:
                    if id(region) not in known:
                        known.add(id(region))
                        waiting.append(region)


def _groups(tables: Sequence[Op]) -> dict[Hashable, _Group]:
    """Groups of tables to be captured: by the type, and by the content of those that are alone."""
    of_type: dict[TensorType, list[Op]] = {}
    for op in tables:
        of_type.setdefault(op.result.type, []).append(op)
    groups: dict[Hashable, _Group] = {}
    for type, same in of_type.items():
        contents = {op.attrs["data"] for op in same}
        if len(same) >= MIN_ROWS and len(contents) > 1 and type.nbytes * len(contents) > MAX_TABLE_BYTES:
            groups[type] = _Group(type, False)
        elif type.nbytes > MAX_TABLE_BYTES:
            groups.update({(type, data): _Group(type, True) for data in contents})
    return groups


def _reads(graphs: Sequence[Graph], groups: Mapping[Hashable, _Group], filled: Container[Value]) -> dict[Op, _Group]:
    """Ops to be replaced, with their groups: tables, and of those of `filled` values the ones that are read only where tables are."""
    found: dict[Op, _Group] = {}
    sites: set[Hashable] = set()
    numbers: list[tuple[Op, list[Hashable]]] = []
    for graph in graphs:
        used = readers(graph.ops)
        for op in graph.ops:
            if op.definition is not table and not (op.definition is constant and op.result in filled):
                continue
            type = op.result.type
            group = groups.get(type) or groups.get((type, op.attrs.get("data")))
            if group is None:
                continue
            places: list[Hashable] = [(reader.name, reader.loc, place) for reader in used.get(op.result, ())
                                      for place, value in enumerate(reader.operands) if value is op.result]
            found[op] = group
            if op.definition is table:
                sites.update(places)
            else:
                numbers.append((op, places))
    for op, places in numbers:
        if not sites.issuperset(places):
            del found[op]
    return found


class _Reading:
    """Puts reads in the place of tables, in a graph and its regions; a region that ops share is changed once."""

    def __init__(self, reads: Mapping[Op, _Group]):
        self.reads = reads
        self._within: dict[int, list[_Group]] = {}
        self._bodies: dict[tuple[int, ...], tuple[list[Value], list[Op]]] = {}

    def body(self, graph: Graph, arrays: Mapping[_Group, Value]) -> list[Op]:
        """Ops of a graph in which `arrays` are the arrays of the groups."""
        found: list[Op] = []
        for op in graph.ops:
            if op in self.reads:
                group = self.reads[op]
                found += group.read(op, arrays[group])
                continue
            needed = list(dict.fromkeys(group for region in op.regions for group in self.within(region))) if op.name in _HANDS_ON else []
            if not needed:
                found.append(op)
                continue
            regions = [self._region(region, needed) for region in op.regions]
            found.append(hand_to_regions(op, [arrays[group] for group in needed], [params for params, _ in regions],
                                         [body for _, body in regions]))
        return found

    def within(self, region: Graph) -> Collection[_Group]:
        """Groups that are read in a region, or in regions within it."""
        known = self._within.get(id(region))
        if known is None:
            found = [self.reads[op] for op in region.ops if op in self.reads]
            for op in region.ops:
                if op.name in _HANDS_ON:
                    for inner in op.regions:
                        found += self.within(inner)
            known = self._within[id(region)] = list(dict.fromkeys(found))
        return known

    def _region(self, region: Graph, needed: Sequence[_Group]) -> tuple[list[Value], list[Op]]:
        """Further parameters of a region for the arrays of `needed`, and its ops."""
        key = (id(region), *map(id, needed))
        if key not in self._bodies:
            params = {group: Value(self._type(group)) for group in needed}
            self._bodies[key] = list(params.values()), self.body(region, params)
        return self._bodies[key]

    @staticmethod
    def _type(group: _Group) -> TensorType:
        return group.type if group.alone else group.type.with_shape((len(group.rows), *group.type.shape))
