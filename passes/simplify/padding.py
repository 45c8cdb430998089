"""Sums of padded pieces, as they occur in the gradient of a value that was cut into slices.

Every slice of a value gives the value a cotangent of the same size, zero outside the slice. If such pieces lie side by side along one axis,
their sum is a concatenation: each element is written once. Exception to "every bit": a piece keeps its -0.0, the sum had 0.0.

A cotangent that is 0 where an array was written over gets back what it was where the array was read before (`u[1:-1] += f(u)`). Exception:
this part of the sum is added first.
"""

from __future__ import annotations

from adjit.ir import ops
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import Role
from adjit.ir.graph import Op, Value
from adjit.passes.simplify.rewrite import Rewriter, RuleTable

PADDING = RuleTable()


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Value that consists of pieces along `axis`, by their start offsets, and zeros elsewhere. `full` is True if there are no such
    zeros."""

    axis: int
    pieces: dict[int, Value]
    full: bool


@PADDING.rule("add", all_operands=("pad", "concatenate"))
def join_padded(op: Op, graph: Rewriter) -> Value | None:
    """pad(x, high=n) + pad(y, low=m) -> concatenate(x, y), with zeros in a gap between the pieces; pieces at the same offset are added."""
    left, right = (_pieces(operand, graph) for operand in op.operands)
    if left is None or right is None or left.axis != right.axis or (left.full and right.full):
        return None
    axis, end = left.axis, 0
    for start, size in sorted({(start, piece.type.shape[axis]) for side in (left, right) for start, piece in side.pieces.items()}):
        if start < end:
            return None
        end = start + size
    joined: list[Value] = []
    end = 0
    for start in sorted({*left.pieces, *right.pieces}):
        if start > end:
            joined.append(_zeros(op.result, axis, start - end))
        first, second = left.pieces.get(start), right.pieces.get(start)
        piece = ops.add(first, second) if first is not None and second is not None else first or second
        assert piece is not None
        joined.append(piece)
        end = start + piece.type.shape[axis]
    if end < op.result.type.shape[axis]:
        joined.append(_zeros(op.result, axis, op.result.type.shape[axis] - end))
    return ops.concatenate(*joined, axis=axis)


MAX_PARTS = 16
"""Most parts of a sum among which the cotangent of an array that was written over is looked for."""


@PADDING.rule("add", any_operand=("pad",))
def restore_cotangent(op: Op, graph: Rewriter) -> Value | None:
    """update_slice(c, 0) + x + pad(slice(c)) -> c + x, where slice and write are of the same place; of cotangents."""
    if op.role is not Role.ADJOINT:
        return None
    for value, rest in (op.operands, op.operands[::-1]):
        pad = graph.producer(value, "pad")
        piece = None if pad is None else graph.producer(pad.operands[0], "slice")
        if pad is None or piece is None or piece.operands[0].type != op.result.type or pad.attrs["low"] != piece.attrs["start"] \
                or pad.attrs["value"] != 0 or any(pad.attrs["interior"]) or any(step != 1 for step in piece.attrs["step"]):
            continue
        parts: list[Value] = []
        while (part := graph.producer(rest, "add")) is not None and len(parts) < MAX_PARTS:
            rest = part.operands[0]
            parts.append(part.operands[1])
        write = graph.producer(rest, "update_slice")
        if write is not None and write.operands[0] is piece.operands[0] and graph.number(write.operands[1]) == 0 \
                and write.operands[1].type == piece.result.type \
                and (write.attrs["start"], write.attrs["step"]) == (piece.attrs["start"], piece.attrs["step"]):
            total = piece.operands[0]
            for other in reversed(parts):
                total = ops.add(total, other)
            return total
    return None


def _zeros(like: Value, axis: int, size: int) -> Value:
    shape = like.type.shape
    return ops.constant(value=0, dtype=like.type.dtype, shape=(*shape[:axis], size, *shape[axis + 1:]))


def _pieces(value: Value, graph: Rewriter) -> _Pieces | None:
    """Pieces of a value that was padded with zeros along one axis, or concatenated; None for any other value."""
    producer = graph.producer(value, "pad", "concatenate")
    if producer is None:
        return None
    if producer.name == "concatenate":
        axis = producer.attrs["axis"]
        placed, start = {}, 0
        for operand in producer.operands:
            if operand.type.size and graph.number(operand) != 0:
                placed[start] = operand
            start += operand.type.shape[axis]
        return _Pieces(axis, placed, len(placed) == len(producer.operands))
    low, high = producer.attrs["low"], producer.attrs["high"]
    padded = [axis for axis in range(len(low)) if low[axis] or high[axis]]
    if len(padded) != 1 or any(producer.attrs["interior"]) or producer.attrs["value"] != 0 or not producer.operands[0].type.size:
        return None
    return _Pieces(padded[0], {low[padded[0]]: producer.operands[0]}, False)
