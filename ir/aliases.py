"""Ops that need not move anything: their result can be the memory of their operand, a part of it, or that of all operands together."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from math import prod

from adjit.ir.graph import Op, Slot, Value


def alias_start(op: Op) -> int | None:
    """Where the result of an op would lie in the memory of its operand, in bytes from its beginning; None where it is no part of it.

    A reshape is all of it. A slice is a part where its elements follow each other: of the axes that are longer than 1 in the result it
    takes less than all of the first alone.
    """
    if op.name == "reshape":
        return 0
    if op.name != "slice" or not op.result.type.size:
        return None
    (operand,), (shape, start, step) = op.operands, (op.result.type.shape, op.attrs["start"], op.attrs["step"])
    whole = operand.type.shape
    first = next((axis for axis, size in enumerate(shape) if size > 1), len(shape))
    if shape[first + 1:] != whole[first + 1:] or (first < len(shape) and step[first] != 1):
        return None
    return int(sum(begin * prod(whole[axis + 1:]) for axis, begin in enumerate(start))) * operand.type.dtype.itemsize


def part_starts(op: Op) -> list[int] | None:
    """Where the operands of a concatenation would lie in the memory of its result, in bytes from its beginning; None where they are no
    parts of it."""
    if op.name != "concatenate" or prod(op.result.type.shape[:op.attrs["axis"]]) != 1:
        return None
    return list(accumulate((value.type.nbytes for value in op.operands[:-1]), initial=0))


def moves_nothing(op: Op, places: Mapping[Value, Slot]) -> bool:
    """Whether an op of a planned graph finds its result where it is to be; `places` has the slots of its operands."""
    start = alias_start(op)
    if start is not None:
        return op.operands[0] in places and places[op.operands[0]].behind(start) == op.slots[0]
    starts = part_starts(op)
    return starts is not None and all(not value.type.size or (value in places and places[value] == op.slots[0].behind(start))
                                      for value, start in zip(op.operands, starts, strict=True))
