"""Bytes that the ops of a planned graph read and write, by the places that the memory plan has given them."""

from __future__ import annotations

from adjit.ir.analysis.aliases import is_elided
from adjit.ir.graph import Graph, Op, Slot, Value
from adjit.ir.ops.traits import CONTROL_FLOW, UPDATES


def bytes_touched(graph: Graph) -> int:
    """Bytes read and written in one run. An update in place touches what it updates alone, a slice what it reads; the body of a scan counts
    once an iteration, both branches of a `cond` count."""
    slots = {value: Slot("param", index) for index, value in enumerate(graph.params)}
    total = 0
    for op in graph.ops:
        if op.name == "free":
            continue
        elided = is_elided(op, slots)
        slots.update(zip(op.results, op.slots, strict=False))
        total += 0 if elided else _touched(op, slots)
    return total


def _touched(op: Op, slots: dict[Value, Slot]) -> int:
    if op.name in UPDATES:
        copied = 0 if slots[op.operands[0]] == op.slots[0] else 2 * op.result.type.nbytes
        return copied + 2 * sum(value.type.nbytes for value in op.operands[1:])
    if op.name in ("slice", "take"):
        return 2 * op.result.type.nbytes
    if op.name not in CONTROL_FLOW:
        return sum(value.type.nbytes for value in (*op.operands, *op.results))
    carries = op.attrs.get("carries", 0)
    moved = sum(value.type.nbytes for value, result, slot in zip(
        op.operands[:carries], op.results[len(op.results) - carries:], op.slots[len(op.results) - carries:], strict=False)
        if slots.get(value) != slot or value.type != result.type)
    return 2 * moved + op.attrs.get("length", 1) * sum(map(bytes_touched, op.regions))
