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


def eliminate_dead_carries(graph: Graph, options: Options, known: _Known | None = None) -> Graph:
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
    known = {} if known is None else known
    needed = set(graph.results)
    kept: list[Op] = []
    changed = False
    for op in reversed(graph.ops):
        if needed.isdisjoint(op.results) and not is_kept(op):
            changed = True
            continue
        if op.name in CONTROL_FLOW:
            pruned = prune(op, needed, options, known)
            changed = changed or pruned is not op
            op = pruned
        needed.update(op.operands)
        kept.append(op)
    return graph.with_ops(kept[::-1]) if changed else graph


def prune(op: Op, needed: Collection[Value], options: Options, known: _Known) -> Op:
    """Loop or branch with only those of its results that are in `needed`; the same object if these are all."""
    if op.name in _PARTS:      # all results of panels are needed
        params, inner, kept = _PARTS[op.name](op, needed, known)
        if len(params) < len(op.operands) or len(kept) < len(op.results):
            return _restricted(op, params, inner, kept, options, known)
    regions = tuple(eliminate_dead_carries(region, options, known) for region in op.regions)
    return op if all(new is old for new, old in zip(regions, op.regions, strict=True)) else replace(op, regions=regions)


_Known = dict[tuple[Graph, frozenset[Value]], set[int]]
"""Parameters that results of a graph depend on, as far as they were asked for: loops within loops ask again and again."""


def used_params(graph: Graph, results: Collection[Value], known: _Known | None = None) -> set[int]:
    """Indices of the parameters that these results depend on, by way of those results of loops and branches that they depend on: an array
    that a loop within only writes to says nothing about its other results."""
    known, key = {} if known is None else known, (graph, frozenset(results))
    if key not in known:
        used = set(results)
        for op in reversed(graph.ops):
            if not used.isdisjoint(op.results) or is_kept(op):
                used.update(map(op.operands.__getitem__, _PARTS[op.name](op, used, known)[0]) if op.name in _PARTS else op.operands)
        known[key] = {index for index, value in enumerate(graph.params) if value in used}
    return known[key]


def _restrict(graph: Graph, params: Sequence[int], results: Sequence[Value], options: Options, known: _Known) -> Graph:
    """Graph with these parameters and results alone."""
    graph = graph.with_ops(graph.ops, results)
    graph = eliminate_dead_carries(graph.with_ops(live_ops(graph)), options, known)
    return Graph(graph.name, tuple(graph.params[i] for i in params), graph.ops, graph.results, tuple(graph.param_roles[i] for i in params))


_Parts = tuple[list[int], list[int], list[int]]
"""Of a loop or branch: its operands, results of its body or its branches, and results of its own that are kept."""


def _parts_of_scan(op: Op, needed: Collection[Value], known: _Known) -> _Parts:
    (body,) = op.regions
    carries = op.attrs["carries"]
    first = len(body.results) - carries
    rows = [i for i in range(first) if op.results[i] in needed]
    carried = {i for i in range(carries) if op.results[first + i] in needed}
    while True:
        kept = [*rows, *(first + i for i in sorted(carried))]
        used = used_params(body, [body.results[i] for i in kept], known)
        grown = carried.union(i for i in used if i < carries)
        if grown == carried:
            return sorted({*carried, *used}), kept, kept
        carried = grown


def _parts_of_while(op: Op, needed: Collection[Value], known: _Known) -> _Parts:
    condition, body = op.regions
    carries, checkpointed = op.attrs["carries"], op.attrs["checkpointed"]
    first = len(op.results) - carries
    heads = [0, 1] if any(value in needed for value in op.results[:first]) else []
    stacks = [position for position in range(len(checkpointed)) if op.results[2 + position] in needed]
    tested = used_params(condition, condition.results, known)
    carried = {i for i in tested if i < carries}.union(i for i in range(carries) if op.results[first + i] in needed)
    carried.update(checkpointed[position] for position in stacks)
    while True:
        order = sorted(carried)
        used = used_params(body, [body.results[i] for i in order], known)
        grown = carried.union(i for i in used if i < carries)
        if grown == carried:
            return (sorted({*carried, *used, *tested}), order,
                    [*heads, *(2 + position for position in stacks), *(first + i for i in order)])
        carried = grown


def _parts_of_cond(op: Op, needed: Collection[Value], known: _Known) -> _Parts:
    kept = [i for i, value in enumerate(op.results) if value in needed]
    used = set[int]().union(*(used_params(region, [region.results[i] for i in kept], known) for region in op.regions))
    return [0, *(1 + i for i in sorted(used))], kept, kept


_PARTS = {"scan": _parts_of_scan, "while_loop": _parts_of_while, "cond": _parts_of_cond}


def _restricted(op: Op, params: Sequence[int], inner: Sequence[int], kept: Sequence[int], options: Options, known: _Known) -> Op:
    """Loop or branch with these operands and results alone; `inner` are the results of its body or its branches."""
    attrs = dict(op.attrs)
    if op.name != "cond":
        carries = attrs["carries"]
        attrs["carries"] = sum(i < carries for i in params)
    if op.name == "scan":
        attrs["slices"] = sum(carries <= i < carries + op.attrs["slices"] for i in params)
    if op.name == "while_loop":
        first = len(op.results) - carries
        attrs["checkpointed"] = tuple(inner.index(op.attrs["checkpointed"][i - 2]) for i in kept if 2 <= i < first)
        attrs["checkpoints"] = attrs["checkpoints"] if kept and kept[0] < first else 0
    places = [i - 1 for i in params[1:]] if op.name == "cond" else params
    regions = [_restrict(region, places, region.results if op.name == "while_loop" and region is op.regions[0] else
                         [region.results[i] for i in inner], options, known) for region in op.regions]
    return replace(op, operands=tuple(op.operands[i] for i in params), results=tuple(op.results[i] for i in kept), regions=tuple(regions),
                   attrs=attrs)
