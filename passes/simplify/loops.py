"""Simplification of loops and branches: unused results, carries and operands are dropped, and loop-invariant work moves out of loops.

The rules for invariants are in `hoist_loop_invariants.py`, imported for programs with loops alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from adjit.ir.graph import Graph, Op, Value, is_kept, live_ops
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.traits import CONTROL_FLOW
from adjit.passes.options import Options
from adjit.passes.regions import in_regions, share_equal_regions
from adjit.passes.simplify.common_subexpressions import eliminate_common_subexpressions
from adjit.passes.simplify.dead_code import eliminate_dead_code
from adjit.passes.simplify.simplify import simplify

if TYPE_CHECKING:
    from adjit.passes.simplify import hoist_loop_invariants
else:
    hoist_loop_invariants = LazyModule("adjit.passes.simplify.hoist_loop_invariants")

CLEANUP = (simplify, eliminate_common_subexpressions, eliminate_dead_code)


def simplify_loops(graph: Graph, options: Options) -> Graph:
    """Run `eliminate_dead_carries` and `hoist_loop_invariants`, innermost loops first, and clean up after them.

    Before:
        graph @f(%x: f32[9], %w: f32[], %h: f32[]) {
          %last: f32[] = scan %h, %x, %w {carries=1, length=9, reverse=false, scratch_bytes=0, slices=1} [
            graph @step(%h: f32[] carried, %x: f32[], %w: f32[]) {
              %e: f32[] = exp %w
              %n: f32[] = multiply %h, %e
              return %n
            }
          ]
          return %last
        }

    After:
        graph @f(%x: f32[9], %w: f32[], %h: f32[]) {
          %0: f32[] = exp %w
          %last: f32[] = scan %h, %0 {carries=1, length=9, reverse=false, scratch_bytes=0, slices=0} [
            graph @step(%h: f32[] carried, %0: f32[]) {
              %n: f32[] = multiply %h, %0
              return %n
            }
          ]
          return %last
        }
    """
    if not any(op.name in CONTROL_FLOW for op in graph.ops):
        return graph
    graph = in_regions(graph, lambda region: simplify_loops(region, options))
    graph = hoist_loop_invariants.hoist_loop_invariants(eliminate_dead_carries(graph, options), options)
    for step in CLEANUP:
        graph = step(graph, options)
        graph = in_regions(graph, lambda region, step=step: step(region, options))     # type: ignore[misc]
    return share_equal_regions(eliminate_dead_carries(graph, options))


def eliminate_dead_carries(graph: Graph, options: Options) -> Graph:
    """Drop the results of loops and branches that nothing uses, and all ops whose results are not needed.

    Before:
        graph @f(%x: f32[5], %h: f32[]) {
          %rows: f32[5], %n: f32[], %last: f32[] = scan %h, %h, %x {carries=2, length=5, reverse=false, scratch_bytes=0, slices=1} [
            graph @step(%n: f32[] carried, %h: f32[] carried, %x: f32[]) {
              %m: f32[] = add %n, %n
              %i: f32[] = multiply %h, %x
              return %m, %m, %i
            }
          ]
          return %last
        }

    After:
        graph @f(%x: f32[5], %h: f32[]) {
          %last: f32[] = scan %h, %x {carries=1, length=5, reverse=false, scratch_bytes=0, slices=1} [
            graph @step(%h: f32[] carried, %x: f32[]) {
              %i: f32[] = multiply %h, %x
              return %i
            }
          ]
          return %last
        }
    """
    if not any(op.name in CONTROL_FLOW for op in graph.ops):
        return graph
    needed = set(graph.results)
    kept: list[Op] = []
    changed = False
    for op in reversed(graph.ops):
        if needed.isdisjoint(op.results) and not is_kept(op):
            changed = True
            continue
        if op.name in CONTROL_FLOW:
            pruned = prune(op, needed, options)
            changed = changed or pruned is not op
            op = pruned
        needed.update(op.operands)
        kept.append(op)
    return graph.with_ops(kept[::-1]) if changed else graph


def prune(op: Op, needed: Collection[Value], options: Options) -> Op:
    """Loop or branch with only those of its results that are in `needed`; the same object if these are all."""
    if op.name in _PRUNED:      # all results of panels are needed
        op = _PRUNED[op.name](op, needed)
    regions = tuple(eliminate_dead_carries(region, options) for region in op.regions)
    return op if all(new is old for new, old in zip(regions, op.regions, strict=True)) else replace(op, regions=regions)


def used_params(graph: Graph, results: Sequence[Value]) -> set[int]:
    """Indices of the parameters that these results depend on."""
    used = {value for op in live_ops(graph.with_ops(graph.ops, results)) for value in op.operands}.union(results)
    return {index for index, value in enumerate(graph.params) if value in used}


def _restrict(graph: Graph, params: Sequence[int], results: Sequence[Value]) -> Graph:
    """Graph with these parameters and results alone."""
    ops = live_ops(graph.with_ops(graph.ops, results))
    return Graph(graph.name, tuple(graph.params[i] for i in params), tuple(ops), tuple(results),
                 tuple(graph.param_roles[i] for i in params))


def _prune_scan(op: Op, needed: Collection[Value]) -> Op:
    (body,) = op.regions
    carries, slices = op.attrs["carries"], op.attrs["slices"]
    first = len(body.results) - carries
    rows = [i for i in range(first) if op.results[i] in needed]
    carried = {i for i in range(carries) if op.results[first + i] in needed}
    while True:
        results = [body.results[i] for i in (*rows, *(first + i for i in sorted(carried)))]
        used = used_params(body, results)
        grown = carried.union(i for i in used if i < carries)
        if grown == carried:
            break
        carried = grown
    params = sorted({*carried, *(i for i in used if i >= carries)})
    if len(params) == len(body.params) and len(results) == len(body.results):
        return op
    positions = (*rows, *(first + i for i in sorted(carried)))
    attrs = {**op.attrs, "carries": len(carried), "slices": sum(carries <= i < carries + slices for i in params)}
    return replace(op, operands=tuple(op.operands[i] for i in params), results=tuple(op.results[i] for i in positions),
                   regions=(_restrict(body, params, results),), attrs=attrs)


def _prune_while(op: Op, needed: Collection[Value]) -> Op:
    condition, body = op.regions
    carries, checkpointed, checkpoints = (op.attrs[name] for name in ("carries", "checkpointed", "checkpoints"))
    first = len(op.results) - carries
    keeps_stacks = any(value in needed for value in op.results[:first])
    stacks = [position for position in range(len(checkpointed)) if op.results[2 + position] in needed]
    tested = used_params(condition, condition.results)
    carried = {i for i in tested if i < carries}.union(i for i in range(carries) if op.results[first + i] in needed)
    carried.update(checkpointed[position] for position in stacks)
    while True:
        results = [body.results[i] for i in sorted(carried)]
        used = used_params(body, results)
        grown = carried.union(i for i in used if i < carries)
        if grown == carried:
            break
        carried = grown
    order = sorted(carried)
    params = [*order, *(i for i in range(carries, len(body.params)) if i in used or i in tested)]
    kept = [*((0, 1, *(2 + position for position in stacks)) if keeps_stacks else ()), *(first + i for i in order)]
    if len(params) == len(body.params) and len(kept) == len(op.results):
        return op
    attrs = {**op.attrs, "carries": len(order), "checkpoints": checkpoints if keeps_stacks else 0,
             "checkpointed": tuple(order.index(checkpointed[position]) for position in stacks)}
    regions = (_restrict(condition, params, condition.results), _restrict(body, params, results))
    return replace(op, operands=tuple(op.operands[i] for i in params), results=tuple(op.results[i] for i in kept), regions=regions,
                   attrs=attrs)


def _prune_cond(op: Op, needed: Collection[Value]) -> Op:
    positions = [i for i, value in enumerate(op.results) if value in needed]
    results = [[region.results[i] for i in positions] for region in op.regions]
    used = set[int]().union(*(used_params(region, chosen) for region, chosen in zip(op.regions, results, strict=True)))
    params = sorted(used)
    if len(params) == len(op.operands) - 1 and len(positions) == len(op.results):
        return op
    regions = tuple(_restrict(region, params, chosen) for region, chosen in zip(op.regions, results, strict=True))
    return replace(op, operands=(op.operands[0], *(op.operands[1 + i] for i in params)), results=tuple(op.results[i] for i in positions),
                   regions=regions)


_PRUNED = {"scan": _prune_scan, "while_loop": _prune_while, "cond": _prune_cond}
