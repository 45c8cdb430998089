"""Common subexpression elimination: computes equal values once."""

from __future__ import annotations

from collections.abc import Hashable

from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value, attributes_key, is_kept
from adjit.ir.ops.traits import COMMUTATIVE, EXPANDED, NESTED_PROGRAMS
from adjit.passes.options import Options
from adjit.passes.regions import in_regions
from adjit.passes.simplify.dead_code import eliminate_dead_code
from adjit.passes.simplify.parts import PARTS
from adjit.passes.simplify.rewrite import rewrite

MIN_MERGED = 1000
"""Fewest repeated ops that are merged before a derivative is taken: those of a loop of 300 rounds."""

WITH_REGIONS = EXPANDED | NESTED_PROGRAMS


def eliminate_common_subexpressions(graph: Graph, options: Options) -> Graph:
    """Use the first of several equal ops on equal operands; its location and role stay.

    An op that rematerializes a forward op (role recompute) merges only with other such ops.

    Before:
        graph @f(%x: f32[3], %y: f32[3]) {
          %a: f32[3] = add %x, %y  # model.py:1 in f
          %b: f32[3] = add %y, %x  # model.py:2 in f
          %c: f32[3] = add %x, %y  # recompute
          %d: f32[3] = multiply %a, %b
          %e: f32[3] = multiply %d, %c
          return %e
        }

    After:
        graph @f(%x: f32[3], %y: f32[3]) {
          %a: f32[3] = add %x, %y  # model.py:1 in f
          %c: f32[3] = add %x, %y  # recompute
          %d: f32[3] = multiply %a, %a
          %e: f32[3] = multiply %d, %c
          return %e
        }
    """
    numbers: dict[Value, int] = {value: index for index, value in enumerate(graph.params)}
    first: dict[Hashable, Op] = {}
    same: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        if not same.keys().isdisjoint(op.operands):
            op = op.with_operands([same.get(value, value) for value in op.operands])
        if is_kept(op) and not op.definition.is_check:
            ops.append(op)
            for value in op.results:
                numbers[value] = len(numbers)
            continue
        known = first.setdefault(_key(op, [numbers[value] for value in op.operands]), op)
        if known is not op:
            same.update(zip(op.results, known.results, strict=True))
            continue
        ops.append(op)
        for value in op.results:
            numbers[value] = len(numbers)
    if not same:
        return graph
    return graph.with_ops(ops, [same.get(value, value) for value in graph.results])


def merge_repeats(graph: Graph, options: Options) -> Graph:
    """Eliminate common subexpressions of long traces before they are differentiated: a recursion that meets the same minors, or a loop that
    computes the same value in each round, has them once, and a derivative of each once. Parts of joined arrays are compared by what they
    are parts of (`parts`). Gradients differ by rounding, as the cotangents of equal values are added before they are pulled back; so
    programs with few repeats, as this one, stay as they are.

    Before:
        graph @f(%x: f32[]) {
          %0: f32[] = sin %x
          %1: f32[] = sin %x
          %2: f32[] = multiply %0, %1
          return %2
        }

    After:
        graph @f(%x: f32[]) {
          %0: f32[] = sin %x
          %1: f32[] = sin %x
          %2: f32[] = multiply %0, %1
          return %2
        }
    """
    graph = in_regions(graph, lambda region: merge_repeats(region, options), WITH_REGIONS)
    has_parts = {"slice", "concatenate"} <= {op.name for op in graph.ops}
    split = eliminate_dead_code(rewrite(graph, PARTS), options) if has_parts else graph
    merged = eliminate_common_subexpressions(split, options)
    return merged if len(split.ops) - len(merged.ops) >= MIN_MERGED else graph


def _key(op: Op, operands: list[int]) -> Hashable:
    """Key of an op: equal for ops with the same definition, attributes and regions on the same operands."""
    operand_numbers = tuple(sorted(operands) if op.name in COMMUTATIVE else operands)
    return op.name, operand_numbers, attributes_key(op.attrs), op.regions, op.role is Role.RECOMPUTE
