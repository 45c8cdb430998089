"""Rules that say of a part of joined arrays what it is a part of: then equal parts that were taken by different ways are equal ops.

A minor of a minor is slices of concatenates of slices; by these rules it is one concatenate of slices of the matrix. They are no part of
`simplify`: where nothing is found to be equal, many small pieces are no gain. All of them keep every bit.
"""

from __future__ import annotations

from adjit.ir import ops
from adjit.ir.graph import Op, Value
from adjit.passes.simplify.movement import concatenate_less, reshape_once, slice_of_one_piece, slice_once, with_entry
from adjit.passes.simplify.rewrite import Rewriter, RuleTable

MAX_PIECES = 16
"""Most operands that the rules give a concatenate: a window that moves on by one element a round would have as many as it has elements."""

PARTS = RuleTable(of_complex=True)
PARTS.rule("reshape")(reshape_once)
PARTS.rule("slice")(slice_once)
PARTS.rule("slice", any_operand=("concatenate",))(slice_of_one_piece)


@PARTS.rule("slice", any_operand=("concatenate",))
def slice_of_pieces(op: Op, graph: Rewriter) -> Value | None:
    """slice(concatenate(x, y)) -> concatenate(slice(x), slice(y))."""
    joined = graph.producer(op.operands[0], "concatenate")
    if joined is None or op.attrs["step"][joined.attrs["axis"]] != 1 or len(joined.operands) > MAX_PIECES or not op.result.type.size:
        return None
    axis = joined.attrs["axis"]
    begin, end = op.attrs["start"][axis], op.attrs["stop"][axis]
    parts: list[Value] = []
    for piece in joined.operands:
        size = piece.type.shape[axis]
        if begin < size and end > 0:
            parts.append(ops.slice(piece, start=with_entry(op.attrs["start"], axis, max(begin, 0)),
                                   stop=with_entry(op.attrs["stop"], axis, min(end, size)), step=op.attrs["step"]))
        begin, end = begin - size, end - size
    return ops.concatenate(*parts, axis=axis)


@PARTS.rule("concatenate", any_operand=("concatenate",))
def concatenate_once(op: Op, graph: Rewriter) -> Value | None:
    """concatenate(concatenate(x, y), z) -> concatenate(x, y, z)."""
    axis, pieces = op.attrs["axis"], list[Value]()
    for piece in op.operands:
        inner = graph.producer(piece, "concatenate")
        pieces += (piece,) if inner is None or inner.attrs["axis"] != axis else inner.operands
    return ops.concatenate(*pieces, axis=axis) if len(op.operands) < len(pieces) <= MAX_PIECES else None


PARTS.rule("concatenate")(concatenate_less)
