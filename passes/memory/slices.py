"""Which contiguous slices are to be copies: where an alias would keep more in memory, or keep another op from writing in place."""

from __future__ import annotations

from adjit.ir.analysis.aliases import alias_offset
from adjit.ir.graph import WRITABLE_ROLES, Graph, Value
from adjit.ir.verifier import in_place_operands


def slices_to_copy(graph: Graph) -> set[Value]:
    """Slices that are read after the last use of what they are slices of, and slices that an op reads together with that when it might
    write over it; but for parameters that are never written, which are there anyway.
    """
    starts = {op.result: start for op in graph.ops if op.name == "slice" and (start := alias_offset(op)) is not None}
    if not starts:
        return set()
    read_only = {value for value, role in zip(graph.params, graph.param_roles, strict=True) if role not in WRITABLE_ROLES}
    root: dict[Value, Value] = {}       # of what lies in the memory of another value
    slice_of: dict[Value, Value] = {}        # the slice that a value is, or is a reshape or part of
    last: dict[Value, int] = {}         # the last op that reads a value or a reshape of it, but for slices
    copied: set[Value] = set()
    for index, op in enumerate(graph.ops):
        for value in op.operands:
            last[slice_of.get(value, root.get(value, value))] = index
        operand = op.operands[0] if op.operands else None
        if operand is not None and (op.result in starts if op.name == "slice" else op.definition.alias):
            root[op.result] = root.get(operand, operand)
            if op.name == "slice" or operand in slice_of:
                slice_of[op.result] = op.result if op.name == "slice" else slice_of[operand]
        elif in_place_operands(op):
            bases = {root.get(value, value) for value in op.operands if value not in slice_of}
            copied.update(slice_of[value] for value in op.operands if value in slice_of and root[value] in bases - read_only)
    last.update((slice_of.get(value, root.get(value, value)), len(graph.ops)) for value in graph.results)
    copied.update(value for value in starts if root[value] not in read_only and last.get(value, -1) > last.get(root[value], -1))
    return copied
