"""Runs passes within the regions of loops, branches and tiles."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from operator import is_

from adjit.ir.graph import Graph, Op
from adjit.ir.ops.traits import NESTED_PROGRAMS


def in_regions(graph: Graph, run: Callable[[Graph], Graph], names: Collection[str] = NESTED_PROGRAMS) -> Graph:
    """Graph in which `run` was applied to the regions of the ops with these `names` (loops, branches and tiles by default); the same object
    if nothing changes."""
    if {op.name for op in graph.ops}.isdisjoint(names):
        return graph
    ops = [_in_op(op, run) if op.name in names else op for op in graph.ops]
    return graph if all(map(is_, ops, graph.ops)) else graph.with_ops(ops)


def _in_op(op: Op, run: Callable[[Graph], Graph]) -> Op:
    regions = tuple(run(region) for region in op.regions)
    return op if all(map(is_, regions, op.regions)) else replace(op, regions=regions)
