"""Branches of a few ops on scalars become code that runs both: a branch of two regions takes longer to differentiate, to compile and to
run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjit.ir import ops
from adjit.ir.definition import Kind, OpCost
from adjit.ir.graph import Graph, Op, Value, walk_distinct
from adjit.passes.options import Options
from adjit.passes.regions import contains, once_a_region

MAX_OPS = 32
"""Most ops, weighted, in both regions of a branch that are both run. Measured with chains of 1 to 8 steps in a loop: a `cond` takes 13 ns
more than its ops, an addition 0.3, a division 1, a sine 8; with its derivatives the same."""

WEIGHTS = {OpCost.DIVISION: 3, OpCost.TRANSCENDENTAL: 12}


def select_branches(graph: Graph, options: Options) -> Graph:
    """Run both regions of a `cond`, and `select` from their results, where they are few ops on scalars, innermost regions first. The values
    are the same. So are derivatives, but for the sign of a zero: where a branch was not taken the cotangents are 0, which count more than
    NaNs and infinities do.

    Before:
        graph @f(%x: f64[], %y: f64[], %p: bool[]) {
          %z: f64[] = cond %p, %x, %y {scratch_bytes=0} [
            graph @on_true(%x: f64[], %y: f64[]) {
              %a: f64[] = multiply %x, %y
              return %a
            }
            graph @on_false(%x: f64[], %y: f64[]) {
              return %y
            }
          ]
          return %z
        }

    After:
        graph @f(%x: f64[], %y: f64[], %p: bool[]) {
          %a: f64[] = multiply %x, %y
          %z: f64[] = select %p, %a, %y
          return %z
        }
    """
    if not contains(graph, frozenset({"cond"})):
        return graph
    selected = once_a_region(lambda region: select_branches(region, options))
    made: list[Op] = []
    for op in graph.ops:
        regions = tuple(map(selected, op.regions))
        if op.name == "cond" and _cost(regions) <= MAX_OPS:
            chosen = [_copied(region, op.operands[1:], made) for region in regions]
            made += [Op(ops.select, (op.operands[0], *both), (result,), {}, (), op.loc, op.role)
                     for *both, result in zip(*chosen, op.results, strict=True)]
        else:
            made.append(op if all(new is old for new, old in zip(regions, op.regions, strict=True)) else Op(
                op.definition, op.operands, op.results, op.attrs, regions, op.loc, op.role))
    return graph.with_ops(made)


def describe_selected(before: Graph, after: Graph, options: Options) -> str:
    """Lines of the branches that are gone: a remark for the pass's record."""
    left = {op.loc for op in walk_distinct(after) if op.name == "cond"}
    found = dict.fromkeys(str(op.loc) for op in walk_distinct(before) if op.name == "cond" and op.loc is not None and op.loc not in left)
    return f"branches of which both ways run: {'; '.join(found)}" if found else ""


def _cost(regions: Sequence[Graph]) -> float:
    """Weighted number of ops that compute scalars in these regions; infinite if an op does anything else."""
    if any(value.type.shape for region in regions for value in region.results):
        return math.inf
    cost = 0
    for op in (op for region in regions for op in region.ops):
        kind = op.definition.kind
        if kind not in (Kind.ELEMENTWISE, Kind.CREATION, Kind.MOVEMENT) or op.result.type.size != 1:
            return math.inf
        if kind is Kind.ELEMENTWISE:
            cost += WEIGHTS.get(op.definition.cost or OpCost.CHEAP, 1)
    return cost


def _copied(region: Graph, arguments: Sequence[Value], made: list[Op]) -> list[Value]:
    """Append copies of the ops of a region, which other branches may share; returns its results."""
    values = dict(zip(region.params, arguments, strict=True))
    for op in region.ops:
        results = tuple([Value(value.type, value.name) for value in op.results])
        made.append(op.with_operands([values[value] for value in op.operands], results))
        values.update(zip(op.results, results, strict=True))
    return [values[value] for value in region.results]
