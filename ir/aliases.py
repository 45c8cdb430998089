"""Ops whose result can be the memory of their operand, or a part of it: nothing moves."""

from __future__ import annotations

from math import prod

from adjit.ir.graph import Op


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
