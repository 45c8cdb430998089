"""Leaves it to ops with indices to count negative ones from the end: the indices are read once, and never written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, Value, live_ops, producers
from adjit.passes.options import Options


def index_from_end(graph: Graph, options: Options) -> Graph:
    """Mark ops whose indices are others with the size of the axis added to negative ones, and have them read those others. A pass of
    backends whose code of these ops does that (`Options.from_end`).

    Before:
        graph @f(%x: f32[9], %late: bool[4]) {
          %i: i64[4] = convert %late {dtype=i64}
          %last: i64[4] = negative %i
          %0: i64[4] = constant {dtype=i64, shape=(4,), value=0}
          %1: bool[4] = less %last, %0
          %2: i64[4] = constant {dtype=i64, shape=(4,), value=9}
          %3: i64[4] = add %last, %2
          %4: i64[4] = select %1, %3, %last
          %5: f32[4] = take %x, %4 {axis=0}
          return %5
        }

    After:
        graph @f(%x: f32[9], %late: bool[4]) {
          %i: i64[4] = convert %late {dtype=i64}
          %last: i64[4] = negative %i
          %0: f32[4] = take %x, %last {axis=0, from_end=true}
          return %0
        }
    """
    if not options.from_end or not any(op.definition.kind is Kind.INDEXING for op in graph.ops):
        return graph
    producer, changed = producers(graph), False
    ops = []
    for op in graph.ops:
        if op.definition.kind is Kind.INDEXING and "from_end" not in op.attrs:
            given = _before_wrapping(op.operands[1], op.operands[0].type.shape[op.attrs["axis"]], producer)
            if given is not None:
                op = replace(op, operands=(op.operands[0], given, *op.operands[2:]), attrs={**op.attrs, "from_end": True})
                changed = True
        ops.append(op)
    if not changed:
        return graph
    marked = graph.with_ops(ops)
    return marked.with_ops(live_ops(marked))


def _before_wrapping(indices: Value, size: int, producer: Mapping[Value, Op]) -> Value | None:
    """Indices that these are with `size` added to negative ones; None if these are something else."""
    chosen = producer.get(indices)
    if chosen is None or chosen.name != "select":
        return None
    condition, added, given = chosen.operands
    is_negative, sum = producer.get(condition), producer.get(added)
    if (is_negative is None or is_negative.name != "less" or is_negative.operands[0] != given
            or not _is_full(is_negative.operands[1], 0, producer)):
        return None
    if sum is None or sum.name != "add" or given not in sum.operands:
        return None
    other = sum.operands[1] if sum.operands[0] == given else sum.operands[0]
    return given if _is_full(other, size, producer) else None


def _is_full(value: Value, number: int, producer: Mapping[Value, Op]) -> bool:
    op = producer.get(value)
    return op is not None and op.name == "constant" and bool(op.attrs["value"] == number)
