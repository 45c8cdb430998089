"""Sums of padded pieces, as they occur in the gradient of a value that was cut into slices.

Every slice of a value gives the value a cotangent of the same size, zero outside the slice. If such pieces lie side by side along one axis,
their sum is a concatenation: each element is written once. Exception to "every bit": a piece keeps its -0.0, the sum had 0.0.
"""

from __future__ import annotations

from adjit.ir import ops
from adjit.ir.dataclass import dataclass
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
