"""What differs between the regions of the ops of a loop's iterations becomes operands of these ops, so that their regions are equal.

A function that an iteration differentiates, recomputes or branches to may read `xs[i]` or `i` by itself. In the trace, its region then has
a slice at another place, or another number or table, in each iteration.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from adjit.ir import ops
from adjit.ir.emitter import emitting
from adjit.ir.graph import Graph, Op, Value, attributes_key, graph_key, hand_to_regions
from adjit.ir.ops.creation import constant, table
from adjit.ir.types import I64
from adjit.passes.loops.match_operands import MOVING
from adjit.passes.loops.moving_slices import Move, emit_read, emit_write
from adjit.passes.loops.slice_groups import OpenBuilder

LIFTED = "vjp", "checkpoint", "cond", "scan", "while_loop"
_CONTENTS = {constant: ("value",), table: ("data",)}


def lift_differences(graph: Graph, min_ops: int) -> Graph:
    """Graph in which at least `min_ops` ops of one line, whose regions differ in numbers, tables and places of slices alone, have equal
    regions; the same object if there are none."""
    groups: dict[Hashable, list[Op]] = {}
    skeletons: dict[int, Hashable] = {}
    for op in graph.ops:
        if op.name in LIFTED:
            key = op.loc, op.name, attributes_key(op.attrs), tuple(_skeleton(region, skeletons) for region in op.regions)
            groups.setdefault(key, []).append(op)
    new: dict[int, list[Op]] = {}
    for group in groups.values():
        if len(group) >= min_ops and _differ(group):
            new.update(zip(map(id, group), _lift(group), strict=True))
    if not new:
        return graph
    return graph.with_ops([each for op in graph.ops for each in new.get(id(op), (op,))])


def _skeleton(region: Graph, known: dict[int, Hashable]) -> Hashable:
    """Key of a region without numbers, content of tables and places of slices. `known` has those of the regions that the caller keeps."""
    if id(region) not in known:
        known[id(region)] = graph_key(region, _key_without_differences)
    return known[id(region)]


def _key_without_differences(op: Op) -> Hashable:
    liftable = _CONTENTS.get(op.definition) or MOVING.get(op.name, ())
    return attributes_key({name: value for name, value in op.attrs.items() if name not in liftable})


def _differ(group: Sequence[Op]) -> bool:
    """True if some regions of ops of equal skeletons are not equal."""
    first = group[0].regions
    return any(one is not other and graph_key(one) != graph_key(other)
               for op in group[1:] for one, other in zip(op.regions, first, strict=True))


def _lift(group: Sequence[Op]) -> Iterator[list[Op]]:
    """For each op of a group: ops that make what differs, and the op, which takes it."""
    graphs = [_lift_inner([op.regions[number] for op in group]) for number in range(len(group[0].regions))]
    moving = {(number, place): _moving_axes(column) for number, parallel in enumerate(graphs)
              for place, column in enumerate(zip(*(graph.ops for graph in parallel), strict=True)) if _have_other_attributes(column)}
    for index, op in enumerate(group):
        yield _Lifting(op, [parallel[index] for parallel in graphs], moving).run()


def _lift_inner(parallel: Sequence[Graph]) -> list[Graph]:
    """Regions whose own ops have equal regions."""
    found: list[list[Op]] = [[] for _ in parallel]
    changed = False
    for column in zip(*(graph.ops for graph in parallel), strict=True):
        lifted: Sequence[Sequence[Op]] = [[op] for op in column]
        if column[0].name in LIFTED and _differ(column):
            lifted, changed = list(_lift(column)), True
        for own, more in zip(found, lifted, strict=True):
            own += more
    return [graph.with_ops(own) for graph, own in zip(parallel, found, strict=True)] if changed else list(parallel)


def _have_other_attributes(column: Sequence[Op]) -> bool:
    key = attributes_key(column[0].attrs)
    return any(op.attrs is not column[0].attrs and attributes_key(op.attrs) != key for op in column)


def _moving_axes(column: Sequence[Op]) -> tuple[int, ...]:
    """Axes along which a slice or a write begins elsewhere; none for a number or table."""
    if column[0].definition in _CONTENTS:
        return ()
    starts = [op.attrs["start"] for op in column]
    return tuple(axis for axis in range(len(starts[0])) if any(start[axis] != starts[0][axis] for start in starts))


class _Lifting:
    """One op whose regions get what differs as parameters."""

    def __init__(self, op: Op, regions: Sequence[Graph], moving: dict[tuple[int, int], tuple[int, ...]]):
        self.op, self.regions, self.moving = op, regions, moving
        self.outside = OpenBuilder(op.regions[0].name)
        self.handed: list[Value] = []
        self.inside: list[tuple[int, Value]] = []       # for each of them its region, and its parameter there

    def run(self) -> list[Op]:
        op = self.op
        with self.outside.at(op.loc, op.role):
            bodies = [self._body(number, region) for number, region in enumerate(self.regions)]
        params = [[value if home == number else Value(value.type) for home, value in self.inside] for number in range(len(bodies))]
        return [*self.outside.ops, hand_to_regions(op, self.handed, params, bodies)]

    def _hand(self, number: int, value: Value, param: Value) -> Value:
        self.handed.append(value)
        self.inside.append((number, param))
        return param

    def _body(self, number: int, region: Graph) -> list[Op]:
        found: list[Op] = []
        fixed = self._fixed(region)
        for place, op in enumerate(region.ops):
            if (number, place) not in self.moving:
                found.append(op)
            elif op.definition in _CONTENTS:
                with emitting(self.outside):
                    self._hand(number, op.definition(**op.attrs), op.result)
            elif op.name == "slice" and op.operands[0] in fixed:
                with emitting(self.outside):
                    self._hand(number, ops.slice(fixed[op.operands[0]], **op.attrs), op.result)
            elif not self.moving[number, place]:        # another end, with the same elements
                found.append(op)
            else:
                found += self._at_handed_place(number, op, self.moving[number, place])
        return found

    def _fixed(self, region: Graph) -> dict[Value, Value]:
        """Operands that parts may be read of in front of the op: not what a loop changes, nor what is differentiated."""
        op = self.op
        offset = 1 if op.name == "cond" else 0
        changing = op.attrs.get("wrt", range(op.attrs.get("carries", 0) + op.attrs.get("slices", 0)))
        return {param: op.operands[offset + index] for index, param in enumerate(region.params) if index not in changing}

    def _at_handed_place(self, number: int, op: Op, axes: Sequence[int]) -> list[Op]:
        """A slice or a write that begins at numbers which are operands."""
        starts = []
        for axis in axes:
            with emitting(self.outside):
                start = constant(value=op.attrs["start"][axis], dtype=I64, shape=())
            starts.append(self._hand(number, start, Value(start.type)))
        builder = OpenBuilder(op.name)
        moves = [Move(axis, (), None) for axis in axes]
        with emitting(builder), builder.at(op.loc, op.role):
            if op.name == "slice":
                emit_read(op, op.operands[0], moves, starts)
            else:
                emit_write(op, op.operands[0], op.operands[1], moves, starts)
        last = builder.ops[-1]
        return [*builder.ops[:-1], replace(last, results=op.results)]
