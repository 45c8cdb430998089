"""Views of arrays that a loop does not change are made once, before the loop is differentiated."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from operator import is_

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, Value, needed_ops
from adjit.ir.ops.traits import ALIASES, CONTROL_FLOW, EXPANDED
from adjit.passes.options import Options


def hoist_views(graph: Graph, options: Options) -> Graph:
    """Move transposes, flips, slices and their kin of loop-invariant arrays out of loops, and out of branches within loops.

    In a loop, each iteration would copy the whole array, and its derivative would make a cotangent of the whole array each time.

    Before:
        graph @f(%a: f64[80,80], %t: i64[9,1]) {
          %0: f64[9,1,80] = scan %t, %a {carries=0, length=9, reverse=false, scratch_bytes=0, slices=1} [
            graph @body(%0: i64[1], %1: f64[80,80]) {
              %2: f64[80,80] = transpose %1 {permutation=(1, 0)}
              %3: f64[1,80] = take %2, %0 {axis=0}
              return %3
            }
          ]
          return %0
        }

    After:
        graph @f(%a: f64[80,80], %t: i64[9,1]) {
          %0: f64[80,80] = transpose %a {permutation=(1, 0)}
          %1: f64[9,1,80] = scan %t, %a, %0 {carries=0, length=9, reverse=false, scratch_bytes=0, slices=1} [
            graph @body(%0: i64[1], %1: f64[80,80], %2: f64[80,80]) {
              %3: f64[1,80] = take %2, %0 {axis=0}
              return %3
            }
          ]
          return %1
        }
    """
    return _Hoister().hoisted(graph, frozenset())


@dataclass(frozen=True, slots=True)
class _Split:
    """Regions without their views of parameters. `views` are the ops, each with the number of its region, in order; `handed` are the views
    that the regions take as further parameters. A reshape costs nothing, and stays."""

    views: tuple[tuple[int, Op], ...]
    handed: tuple[Value, ...]
    regions: tuple[Graph, ...]


class _Hoister:
    """Regions that ops share are transformed once, and they share the new ones."""

    def __init__(self) -> None:
        self.graphs: dict[tuple[int, frozenset[int]], tuple[Graph, Graph]] = {}             # with what they are made of, whose ids are keys
        self.splits: dict[tuple[tuple[int, ...], frozenset[int]], tuple[tuple[Graph, ...], _Split]] = {}

    def hoisted(self, graph: Graph, invariant: frozenset[int]) -> Graph:
        """The graph; views of the parameters `invariant`, given by index, are moved out of its branches as well."""
        key = id(graph), invariant
        if key not in self.graphs:
            self.graphs[key] = graph, self._hoisted(graph, {graph.params[index] for index in invariant})
        return self.graphs[key][1]

    def _hoisted(self, graph: Graph, fixed: set[Value]) -> Graph:
        if not any(op.regions for op in graph.ops):
            return graph
        new: list[Op] = []
        for op in graph.ops:
            if op.name in CONTROL_FLOW:
                offset, first = _params_of(op)
                chosen = frozenset(index - offset for index, value in enumerate(op.operands)
                                   if index >= first and (op.name != "cond" or value in fixed))
                op = _with_regions(op, [self.hoisted(region, chosen) for region in op.regions])
                before, op = _append_views(op, offset, self._split(op.regions, chosen))
                for view in before:
                    new.append(view)
                    if fixed.issuperset(view.operands):
                        fixed.update(view.results)
            elif op.name in EXPANDED:
                op = _with_regions(op, [self.hoisted(region, frozenset()) for region in op.regions])
            elif _is_view(op) and op.operands[0] in fixed:
                fixed.update(op.results)
            new.append(op)
        return graph if len(new) == len(graph.ops) and all(map(is_, new, graph.ops)) else graph.with_ops(new)

    def _split(self, regions: tuple[Graph, ...], chosen: frozenset[int]) -> _Split:
        key = tuple(map(id, regions)), chosen
        if key not in self.splits:
            self.splits[key] = regions, _split(regions, chosen)
        return self.splits[key][1]


def _params_of(op: Op) -> tuple[int, int]:
    """Index of the operand that is the regions' first parameter, and of the first that is the same in every iteration."""
    return (1, 1) if op.name == "cond" else (0, op.attrs["carries"] + op.attrs.get("slices", 0))


def _with_regions(op: Op, regions: Sequence[Graph]) -> Op:
    return op if all(map(is_, regions, op.regions)) else replace(op, regions=tuple(regions))


def _is_view(op: Op) -> bool:
    """True for an op that reads one array and makes no larger one."""
    return op.definition.kind is Kind.MOVEMENT and len(op.operands) == 1 and op.result.type.nbytes <= op.operands[0].type.nbytes


def _is_alias(op: Op) -> bool:
    """True for a reshape, of which a broadcast that repeats nothing is one: for one row of a batch loops are what they are for many."""
    return op.name in ALIASES or (op.name == "broadcast" and op.result.type.size == op.operands[0].type.size)


def _split(regions: Sequence[Graph], chosen: Collection[int]) -> _Split:
    views: list[tuple[int, Op]] = []
    handed: list[Value] = []
    kept: list[list[Op]] = []
    for number, region in enumerate(regions):
        known = {region.params[index] for index in chosen}
        found: list[Op] = []
        for op in region.ops:
            if _is_view(op) and op.operands[0] in known:
                known.add(op.result)
                found.append(op)
        own = {op.result for op in found if not _is_alias(op)}
        kept.append([op for op in region.ops if not op.results or op.results[0] not in own])
        used = {value for op in kept[-1] for value in op.operands}.union(region.results)
        views += [(number, op) for op in needed_ops(found, own)]
        handed += [op.result for op in found if op.result in own and op.result in used]
    if not views:
        return _Split((), (), tuple(regions))
    home = {op.result: number for number, op in views}
    return _Split(tuple(views), tuple(handed), tuple(
        Graph(region.name, (*region.params, *(value if home[value] == number else Value(value.type) for value in handed)),
              tuple(kept[number]), region.results, (*region.param_roles, *("input" for _ in handed)))
        for number, region in enumerate(regions)))


def _append_views(op: Op, offset: int, split: _Split) -> tuple[list[Op], Op]:
    """Views in front of an op, and the op that takes them."""
    if not split.views:
        return [], op
    outer = [dict(zip(region.params, op.operands[offset:], strict=True)) for region in op.regions]
    before: list[Op] = []
    for number, view in split.views:
        value = Value(view.result.type)
        before.append(replace(view, operands=(outer[number][view.operands[0]],), results=(value,)))
        outer[number][view.result] = value
    known = {view: value for values in outer for view, value in values.items()}
    return before, replace(op, operands=(*op.operands, *(known[value] for value in split.handed)), regions=split.regions)
