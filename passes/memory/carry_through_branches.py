"""Arrays that a branch updates in place: both branches give an operand back, updated or as it is, so that the result may lie in the
operand's memory. In a loop that updates an array under a condition, nothing else would be moved but the array."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from adjit.ir.graph import Graph, Op, Value, producers
from adjit.ir.ops.traits import UPDATES

MIN_CARRIED_BYTES = 64
"""Smallest array that is carried; smaller ones are copied as fast."""


def carry_through_branches(op: Op) -> Op:
    """A `cond` whose first operands, after the condition, are carried into its last results; the same object if there are none.

    Before:
        %z: f64[9] = cond %p, %v, %x [
          graph @yes(%v: f64[1], %x: f64[9]) { %n: f64[9] = update_slice %x, %v {start=(2,), step=(1,)}; return %n }
          graph @no(%v: f64[1], %x: f64[9]) { return %x }
        ]
    After:
        %z: f64[9] = cond %p, %x, %v [
          graph @yes(%x: f64[9] carried, %v: f64[1]) { ... }
          graph @no(%x: f64[9] carried, %v: f64[1]) { ... }
        ]
    """
    pairs = _carried(op)
    if not pairs:
        return op
    params = [*pairs, *(index for index in range(len(op.operands) - 1) if index not in pairs)]
    results = [*(index for index in range(len(op.results)) if index not in pairs.values()), *pairs.values()]
    roles = (*("carried" for _ in pairs), *("input" for _ in params[len(pairs):]))
    regions = tuple(Graph(region.name, tuple(region.params[index] for index in params), region.ops,
                          tuple(region.results[index] for index in results), roles) for region in op.regions)
    return replace(op, operands=(op.operands[0], *(op.operands[1 + index] for index in params)),
                   results=tuple(op.results[index] for index in results), regions=regions)


def _carried(op: Op) -> dict[int, int]:
    """Number of the result into which each parameter of the branches is carried."""
    counts = Counter(op.operands)
    origins = [_origins(region) for region in op.regions]
    pairs: dict[int, int] = {}
    for index, result in enumerate(op.results):
        first, second = (origin[region.results[index]] if region.results.count(region.results[index]) == 1 else None
                         for origin, region in zip(origins, op.regions, strict=True))
        if (first is not None and first == second and first not in pairs and result.type.nbytes >= MIN_CARRIED_BYTES
                and op.operands[1 + first].type == result.type and counts[op.operands[1 + first]] == 1):
            pairs[first] = index
    return pairs


def _origins(region: Graph) -> Mapping[Value, int | None]:
    """Parameter of which each result is an update; None for other results."""
    producer, index_of = producers(region), {value: index for index, value in enumerate(region.params)}
    found: dict[Value, int | None] = {}
    for result in region.results:
        value = result
        while (op := producer.get(value)) is not None and (op.definition.alias or op.name in UPDATES):
            value = op.operands[0]
        found[result] = index_of.get(value)
    return found
