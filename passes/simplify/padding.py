"""Sums of padded pieces, as they occur in the gradient of a value that was cut into slices.

Every slice of a value gives the value a cotangent of the same size, zero outside the slice. If such pieces lie side by side along one axis,
their sum is a concatenation: each element is written once. Exception to "every bit": a piece keeps its -0.0, the sum had 0.0.

A cotangent that is 0 where an array was written over gets back what it was where the array was read before (`u[1:-1] += f(u)`); the two
parts of a rolled cotangent are one roll. Exception: these parts of a sum are added together, where the first of them is.
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


MIN_ROLLED_BYTES = 2 << 10
"""Bytes of a cotangent from which its parts are joined to a roll; less is added as it comes."""


@PADDING.rule("add_slice")
def join_rolled(op: Op, graph: Rewriter) -> Value | None:
    """The derivative of `np.roll`: x + pad(slice(c)) + y, to which the rest of c is added at the other end, -> x + concatenate(slices of c)
    + y; of cotangents."""
    base, piece = op.operands
    cut = graph.producer(piece, "slice")
    if op.role is not Role.ADJOINT or cut is None or cut.operands[0].type != op.result.type or op.result.type.nbytes < MIN_ROLLED_BYTES \
            or any(step != 1 for step in (*cut.attrs["step"], *op.attrs["step"])):
        return None
    shape, size, start, goal = op.result.type.shape, piece.type.shape, cut.attrs["start"], op.attrs["start"]
    moved = [axis for axis, (a, b) in enumerate(zip(size, shape, strict=True)) if a != b]
    if len(moved) != 1 or {start[moved[0]], goal[moved[0]]} != {0, shape[moved[0]] - size[moved[0]]}:
        return None
    (axis,), value = moved, cut.operands[0]
    parts: list[Op] = []
    rest = base
    while len(parts) <= MAX_PARTS:
        part = graph.producer(rest, "add", "add_slice")
        other = _complement(rest if part is None else part.operands[1], value, axis, size[axis], goal[axis] == 0, graph)
        if other is not None:
            rolled = ops.concatenate(*((piece, other) if goal[axis] == 0 else (other, piece)), axis=axis)
            total = rolled if part is None else ops.add(part.operands[0], rolled)
            for later in reversed(parts):
                total = later.definition(total, later.operands[1], **later.attrs)
            return total
        if part is None:
            break
        parts.append(part)
        rest = part.operands[0]
    return None


def _complement(value: Value, whole: Value, axis: int, size: int, behind: bool, graph: Rewriter) -> Value | None:
    """Slice of `whole` that `value` is, but for zeros: all but `size` places along `axis`, moved by as many, `behind` the zeros or in front
    of them; None if `value` is something else."""
    pad = graph.producer(value, "pad")
    piece = None if pad is None else graph.producer(pad.operands[0], "slice")
    if pad is None or piece is None or piece.operands[0] is not whole or pad.attrs["value"] != 0 or any(pad.attrs["interior"]):
        return None
    zeros, places = [0] * whole.type.rank, list(whole.type.shape)
    zeros[axis], places[axis] = size, places[axis] - size
    none = [0] * whole.type.rank
    low, high, start = (zeros, none, none) if behind else (none, zeros, zeros)
    fits = (list(pad.attrs["low"]), list(pad.attrs["high"]), list(piece.attrs["start"]), list(piece.result.type.shape)) \
        == (low, high, start, places)
    return piece.result if fits and all(step == 1 for step in piece.attrs["step"]) else None


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
