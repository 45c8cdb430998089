"""Runs passes within the regions of loops, branches and tiles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import replace
from operator import is_

from adjit.ir.graph import Graph, Op, text_key
from adjit.ir.ops.traits import NESTED_PROGRAMS


def in_regions(graph: Graph, run: Callable[[Graph], Graph], names: Collection[str] = NESTED_PROGRAMS) -> Graph:
    """Graph in which `run` was applied to the regions of the ops with these `names` (loops, branches and tiles by default); the same object
    if nothing changes. A region that ops share is transformed once, and they share the new one."""
    if {op.name for op in graph.ops}.isdisjoint(names):
        return graph
    run = once_a_region(run)
    ops = [_in_op(op, run) if op.name in names else op for op in graph.ops]
    return graph if all(map(is_, ops, graph.ops)) else graph.with_ops(ops)


def once_a_region(run: Callable[[Graph], Graph]) -> Callable[[Graph], Graph]:
    """`run` with a memo by identity: the regions of thousands of ops may be few objects, as calls of one rule share theirs."""
    known: dict[int, tuple[Graph, Graph]] = {}      # with the region, which keeps its identity its own

    def remembered(region: Graph) -> Graph:
        found = known.get(id(region))
        if found is None:
            found = known[id(region)] = region, run(region)
        return found[1]

    return remembered


def contains(graph: Graph, names: frozenset[str]) -> bool:
    """True if an op has one of these names, also within regions. A region that ops share is looked at once."""
    waiting, known = [graph], {id(graph)}
    while waiting:
        for op in waiting.pop().ops:
            if op.name in names:
                return True
            for region in op.regions:
                if id(region) not in known:
                    known.add(id(region))
                    waiting.append(region)
    return False


def share_equal_regions(graph: Graph) -> Graph:
    """Graph in which loops and branches with equal regions have the same objects as regions, which later passes then transform once."""
    known: dict[Hashable, Graph] = {}
    return in_regions(graph, lambda region: known.setdefault(text_key(region), region))


def _in_op(op: Op, run: Callable[[Graph], Graph]) -> Op:
    regions = tuple(map(run, op.regions))
    return op if all(map(is_, regions, op.regions)) else replace(op, regions=regions)
