"""Makes loops and branches smaller: what is not used is dropped, and work moves out of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjit.ir.graph import Graph
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.traits import CONTROL_FLOW
from adjit.passes.options import Options
from adjit.passes.regions import in_regions
from adjit.passes.simplify.common_subexpressions import eliminate_common_subexpressions
from adjit.passes.simplify.dead_code import eliminate_dead_code
from adjit.passes.simplify.simplify import simplify

if TYPE_CHECKING:
    from adjit.passes.simplify import eliminate_dead_carries, hoist_loop_invariants
else:
    hoist_loop_invariants = LazyModule("adjit.passes.simplify.hoist_loop_invariants")
    eliminate_dead_carries = LazyModule("adjit.passes.simplify.eliminate_dead_carries")

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
    graph = hoist_loop_invariants.hoist_loop_invariants(eliminate_dead_carries.eliminate_dead_carries(graph, options), options)
    for step in CLEANUP:
        graph = step(graph, options)
        graph = in_regions(graph, lambda region, step=step: step(region, options))     # type: ignore[misc]
    return eliminate_dead_carries.eliminate_dead_carries(graph, options)
