"""Ops of which only the first result is needed, as ops that compute it alone (`first_alone` of records)."""

from __future__ import annotations

from adjit.ir.definition import DEFINITIONS
from adjit.ir.graph import Graph, Op, live_ops
from adjit.passes.options import Options


def drop_unneeded_results(graph: Graph, options: Options) -> Graph:
    """Replace ops of which only the first result is needed by ops that compute it alone. These have no derivative: the last one was taken.

    Before:
        graph @f(%x: f64[3,3]) {
          %w: c128[3], %v: c128[3,3] = eig %x
          return %w
        }

    After:
        graph @f(%x: f64[3,3]) {
          %w: c128[3] = eigvals %x
          return %w
        }
    """
    if not any(op.definition.first_alone for op in graph.ops):
        return graph
    live = live_ops(graph)
    needed = set(graph.results).union(*(op.operands for op in live))
    return graph.with_ops([_alone(op) if op.definition.first_alone and needed.isdisjoint(op.results[1:]) else op for op in live])


def _alone(op: Op) -> Op:
    return Op(DEFINITIONS[op.definition.first_alone], op.operands, op.results[:1], op.attrs, loc=op.loc, role=op.role)
