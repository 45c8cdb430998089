"""Dead code elimination."""

from __future__ import annotations

from adjit.ir.graph import Graph, live_ops
from adjit.passes.options import Options


def eliminate_dead_code(graph: Graph, options: Options) -> Graph:
    """Drop every op whose results are not needed. No op has side effects; checks, which have no results, stay.

    Before:
        graph @f(%x: f32[3]) {
          %a: f32[3] = exp %x
          %b: f32[3] = sin %a
          %c: f32[3] = cos %x
          return %c
        }

    After:
        graph @f(%x: f32[3]) {
          %c: f32[3] = cos %x
          return %c
        }
    """
    kept = live_ops(graph)
    return graph if len(kept) == len(graph.ops) else graph.with_ops(kept)
