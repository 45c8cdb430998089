"""Marks indices that are within their axis whatever the data: nothing checks them, and comparisons of integers that show it are constants.
"""

from __future__ import annotations

from dataclasses import replace

from adjit.ir.analysis.integer_ranges import COMPARISONS, Ranges, range_of_result, with_ranges
from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, walk_distinct
from adjit.ir.ops.creation import constant
from adjit.passes.options import Options


def prove_indices(graph: Graph, options: Options) -> Graph:
    """Mark ops with indices in a range that the graph shows: counters of loops, tables, what is clipped.

    Before:
        graph @f(%x: f32[9]) {
          %0: i64[4] = iota {axis=0, dtype=i64, shape=(4,)}
          %1: i64[4] = add %0, %0
          %2: f32[4] = take %x, %1 {axis=0}
          return %2
        }

    After:
        graph @f(%x: f32[9]) {
          %0: i64[4] = iota {axis=0, dtype=i64, shape=(4,)}
          %1: i64[4] = add %0, %0
          %2: f32[4] = take %x, %1 {axis=0, in_range=true}
          return %2
        }
    """
    if not any(op.definition.kind is Kind.INDEXING for op in walk_distinct(graph)):
        return graph
    return with_ranges(graph, [None] * len(graph.params), _marked)[0]


def _marked(op: Op, ranges: Ranges) -> Op:
    if op.name in COMPARISONS:      # of whether an index is within its axis, say
        outcome = range_of_result(op, ranges, {})
        if outcome is not None and outcome[0] == outcome[1]:
            attributes = {"value": bool(outcome[0]), "dtype": op.result.type.dtype, "shape": op.result.type.shape}
            return replace(op, definition=constant, operands=(), attrs=attributes)
    if op.definition.kind is not Kind.INDEXING or "in_range" in op.attrs:
        return op
    found = ranges.get(op.operands[1])
    if found is None or found[0] < 0 or found[1] >= op.operands[0].type.shape[op.attrs["axis"]]:
        return op
    return replace(op, attrs={**op.attrs, "in_range": True})
