"""Sums of padded pieces: what the gradient of a value that was cut into pieces looks like.

Every slice of a value gives it a cotangent as large as the value, zero but for the slice. Where such pieces lie side by side along one
axis, their sum is a concatenation: each element is written once. Exception to "every bit": a piece keeps its -0.0, the sum had 0.0.
"""

from __future__ import annotations

from dataclasses import dataclass

from adjit.ir import ops
from adjit.ir.graph import Op, Value
from adjit.passes.rewrite import Rewriter, RuleTable

PADDING = RuleTable()


@dataclass(frozen=True, slots=True)
class _Pieces:
    """A value that is 0 but for pieces along `axis`: for each its start and the value that lies there."""

    axis: int
    pieces: tuple[tuple[int, Value], ...]


@PADDING.rule("add")
def join_padded(op: Op, graph: Rewriter) -> Value | None:
    """pad(x, high=n) + pad(y, low=m) -> concatenate(x, y), zeros between them where they leave a gap."""
    left, right = (_pieces(operand, graph) for operand in op.operands)
    if left is None or right is None or left.axis != right.axis:
        return None
    shape, axis = op.result.type.shape, left.axis
    joined: list[Value] = []
    end = 0
    for start, piece in sorted((*left.pieces, *right.pieces), key=lambda placed: placed[0]):
        if start < end:
            return None
        if start > end:
            joined.append(_zeros(op.result, axis, start - end))
        joined.append(piece)
        end = start + piece.type.shape[axis]
    if end < shape[axis]:
        joined.append(_zeros(op.result, axis, shape[axis] - end))
    return ops.concatenate(*joined, axis=axis)


def _zeros(like: Value, axis: int, size: int) -> Value:
    shape = like.type.shape
    return ops.constant(value=0, dtype=like.type.dtype, shape=(*shape[:axis], size, *shape[axis + 1:]))


def _pieces(value: Value, graph: Rewriter) -> _Pieces | None:
    """The pieces of a value that was padded with zeros along one axis, or joined from such; None for any other."""
    maker = graph.maker(value, "pad", "concatenate")
    if maker is None:
        return None
    if maker.name == "concatenate":
        axis = maker.attrs["axis"]
        placed, start = [], 0
        for operand in maker.operands:
            if graph.number(operand) != 0:
                placed.append((start, operand))
            start += operand.type.shape[axis]
        return _Pieces(axis, tuple(placed)) if len(placed) < len(maker.operands) else None
    low, high = maker.attrs["low"], maker.attrs["high"]
    padded = [axis for axis in range(len(low)) if low[axis] or high[axis]]
    if len(padded) != 1 or any(maker.attrs["interior"]) or maker.attrs["value"] != 0:
        return None
    return _Pieces(padded[0], ((low[padded[0]], maker.operands[0]),))
