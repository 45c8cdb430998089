"""Aliases: ops that need not move anything, as their result can be the memory of their operand, a range of it, or that of all operands
together."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from math import prod

from adjit.ir.graph import Op, Slot, Value


def alias_offset(op: Op) -> int | None:
    """Byte offset at which the result of an op would lie in the memory of its operand; None if the result cannot be an alias.

    A reshape is an alias of the whole operand. A slice is an alias if its elements are contiguous: of the axes longer than 1 in the result,
    only the first may be sliced.
    """
    if op.definition.alias:
        return 0
    if op.name != "slice" or not op.result.type.size:
        return None
    (operand,), (shape, start, step) = op.operands, (op.result.type.shape, op.attrs["start"], op.attrs["step"])
    whole = operand.type.shape
    first = 0
    while first < len(shape) and shape[first] == 1:
        first += 1
    if shape[first + 1:] != whole[first + 1:] or (first < len(shape) and step[first] != 1):
        return None
    offset, stride = 0, operand.type.dtype.itemsize
    for begin, size in zip(reversed(start), reversed(whole), strict=True):
        offset += begin * stride
        stride *= size
    return int(offset)


def concatenation_offsets(op: Op) -> list[int] | None:
    """Byte offsets at which the operands of a concatenation would lie in the memory of its result; None if they would not be contiguous."""
    if op.name != "concatenate" or prod(op.result.type.shape[:op.attrs["axis"]]) != 1:
        return None
    return list(accumulate((value.type.nbytes for value in op.operands[:-1]), initial=0))


def is_elided(op: Op, slots: Mapping[Value, Slot]) -> bool:
    """True if an op of a planned graph does nothing, as its result is already in its slot; `slots` has the slots of its operands."""
    start = alias_offset(op)
    if start is not None:
        return op.operands[0] in slots and slots[op.operands[0]].offset_by(start) == op.slots[0]
    starts = concatenation_offsets(op)
    return starts is not None and all(not value.type.size or (value in slots and slots[value] == op.slots[0].offset_by(start))
                                      for value, start in zip(op.operands, starts, strict=True))
