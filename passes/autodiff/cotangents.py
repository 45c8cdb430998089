"""Cotangents of the values of a region, while its ops are differentiated from the last to the first.

A read of a few elements of a large array gives the array a cotangent of the array's size, zero but for these elements. The sum of many is
never made of such arrays: what is read is kept as a piece, and the pieces of a value are added in place into one array when the cotangent
is asked for, or concatenated where they lie side by side. So reads cost what they touch, however many there are.

The order of a sum is fixed: whole arrays in the order in which they come, then the total that a loop carries, then pieces in order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import Location
from adjit.ir.graph import Op, Value
from adjit.ir.types import Shape

MAX_PIECE_FRACTION = 0.5
"""Largest part of a value that is added in place. A larger one is padded: its sum with others is part of a kernel then."""

MAX_DEPTH = 8
"""Views of views that are looked through. Deeper ones get cotangents of the size of the inner view."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a cotangent: elements for every `step`th index from `start` on, or, if `scatter` is a `scatter_add`, what it adds (to the
    array in its own shape). `whole` is the cotangent with zeros elsewhere."""

    whole: Value
    loc: Location | None
    part: Value
    start: Shape = ()
    step: Shape = ()
    scatter: Op | None = None

    @property
    def is_small(self) -> bool:
        return self.part.type.size <= MAX_PIECE_FRACTION * self.whole.type.size or self.scatter is not None


@dataclass(slots=True)
class _Sum:
    """Sum of cotangents so far: of whole arrays, and pieces that wait, with the number of their elements. A `total` is what a loop has
    summed up before."""

    whole: Value | None = None
    total: Value | None = None
    pieces: dict[object, Piece] = field(default_factory=dict)
    elements: int = 0

    def wait(self, piece: Piece) -> None:
        """Keep a piece; two that lie in the same place are added up."""
        key = piece.scatter or (piece.start, piece.step, piece.part.type)
        known = self.pieces.get(key)
        if known is None:
            self.pieces[key] = piece
            self.elements += piece.part.type.size
        elif piece.is_small:
            self.pieces[key] = replace(known, part=ops.add(known.part, piece.part))
        else:
            self.pieces[key] = replace(known, part=ops.add(known.part, piece.part), whole=ops.add(known.whole, piece.whole))


class Cotangents:
    """Cotangents by the values of a region, as values of a builder. `totals` are added to the cotangents of their values."""

    def __init__(self, builder: GraphBuilder, active: Collection[Value], totals: Mapping[Value, Value] | None = None):
        self.builder = builder
        self.active = active
        self.sums: dict[Value, _Sum] = {value: _Sum(total=total) for value, total in (totals or {}).items()}
        self.made: dict[Value, list[Piece]] = {}       # sums of pieces alone
        self.took_pieces = False

    def add(self, value: Value, contribution: Value) -> None:
        """Add to the cotangent of `value`; nothing if the value is not active."""
        if value not in self.active:
            return
        known = self.sums.get(value)
        if known is None:
            known = self.sums[value] = _Sum()
        pieces = self._pieces(contribution)
        if pieces is None:
            known.whole = contribution if known.whole is None else ops.add(known.whole, contribution)
            return
        self.took_pieces = True
        for piece in pieces:
            known.wait(piece)
        if known.elements > value.type.size:        # they overlap: nothing is gained by waiting
            self._add_up(known)

    def pop(self, value: Value) -> Value | None:
        """Cotangent of `value`, which is forgotten; None if zero."""
        return None if (known := self.sums.pop(value, None)) is None else self._add_up(known)

    def get(self, value: Value) -> Value | None:
        """Cotangent of `value`; None if zero."""
        return None if (known := self.sums.get(value)) is None else self._add_up(known)

    # -- sums

    def _add_up(self, known: _Sum) -> Value | None:
        """Everything in one array, which becomes `known.whole`."""
        pieces, known.pieces, known.elements = list(known.pieces.values()), {}, 0
        alone = known.whole is None and known.total is None
        joined = self._joined(pieces)
        small = [] if joined is not None else [piece for piece in pieces if piece.is_small]
        large = [joined] if joined is not None else list(dict.fromkeys(piece.whole for piece in pieces if not piece.is_small))
        for other in large:
            known.whole = other if known.whole is None else ops.add(known.whole, other)
        if known.total is not None:
            known.whole, known.total = known.total if known.whole is None else ops.add(known.total, known.whole), None
        for piece in small:
            with self.builder.at(loc=piece.loc):
                known.whole = _added(known.whole, piece)
        if alone and not large and known.whole is not None:
            self.made[known.whole] = small
        return known.whole

    def _joined(self, pieces: Sequence[Piece]) -> Value | None:
        """Sum of pieces that lie along one axis and do not overlap, as a concatenation; None if they do not, or cover little."""
        if len(pieces) < 2 or any(piece.scatter is not None for piece in pieces):
            return None
        shape = pieces[0].whole.type.shape
        axes = {axis for piece in pieces for axis, size in enumerate(piece.part.type.shape) if size != shape[axis]}
        if len(axes) != 1:
            return None
        (axis,) = axes
        ordered = sorted(pieces, key=lambda piece: piece.start[axis])
        covered = sum(piece.part.type.shape[axis] for piece in ordered)
        ends = [piece.start[axis] + piece.part.type.shape[axis] for piece in ordered]
        if 2 * covered < shape[axis] or any(piece.step[axis] != 1 and piece.part.type.shape[axis] > 1 for piece in ordered) or any(
                end > piece.start[axis] for end, piece in zip(ends, ordered[1:], strict=False)):
            return None
        parts, done = [], 0
        for piece, end in zip(ordered, ends, strict=True):
            parts += [*_gap(piece.whole, axis, piece.start[axis] - done), piece.part]
            done = end
        return ops.concatenate(*parts, *_gap(pieces[0].whole, axis, shape[axis] - done), axis=axis)

    # -- pieces

    def _pieces(self, value: Value, depth: int = MAX_DEPTH) -> Sequence[Piece] | None:
        """Pieces of which a cotangent consists, besides zeros; None if it is no such cotangent."""
        if value in self.made:
            return self.made[value]
        op = self.builder.producer(value)
        if op is None or not value.type.size:
            return None
        if op.name == "pad":
            return [] if not op.operands[0].type.size else self._padded(op, depth) if op.attrs["value"] == 0 else None
        if op.name in ("scatter_add", "scatter_add_along_axis"):
            return [Piece(value, op.loc, op.operands[2], scatter=op)] if self._is_zero(op.operands[0]) else None
        move = _MOVES.get(op.name)
        if move is None or not depth:
            return None
        inner = self._pieces(op.operands[0], depth - 1)
        if inner is None or not (_are_small(inner) or (op.name == "reshape" and all(piece.scatter is not None for piece in inner))):
            return None
        moved = [move(op, piece) for piece in inner]
        return None if None in moved else [piece for piece in moved if piece is not None]

    def _padded(self, op: Op, depth: int) -> list[Piece]:
        (inner,), low, step = op.operands, op.attrs["low"], tuple(gap + 1 for gap in op.attrs["interior"])
        found = self._pieces(inner, depth - 1) if depth else None
        if found is None or not _are_small(found):
            found = [Piece(inner, op.loc, inner, (0,) * inner.type.rank, (1,) * inner.type.rank)]
        return [Piece(op.result, op.loc, piece.part, tuple(a + b * c for a, b, c in zip(low, piece.start, step, strict=True)),
                      tuple(a * b for a, b in zip(piece.step, step, strict=True))) for piece in found]

    def _is_zero(self, value: Value) -> bool:
        op = self.builder.producer(value)
        return op is not None and op.name == "constant" and op.attrs["value"] == 0


def _are_small(pieces: Sequence[Piece]) -> bool:
    """True if pieces can be moved one by one, and are together small."""
    elements = sum(piece.part.type.size for piece in pieces)
    return all(piece.scatter is None and elements <= MAX_PIECE_FRACTION * piece.whole.type.size for piece in pieces)


def _added(base: Value | None, piece: Piece) -> Value:
    if piece.scatter is not None:
        op, shape = piece.scatter, piece.whole.type.shape
        if base is None and piece.part is op.operands[2]:
            return piece.whole
        inner = op.operands[0] if base is None else base if base.type == op.result.type else ops.reshape(base, shape=op.result.type.shape)
        added = op.definition(inner, op.operands[1], piece.part, **op.attrs)
        return added if added.type.shape == shape else ops.reshape(added, shape=shape)
    if base is not None:
        return ops.add_slice(base, piece.part, start=piece.start, step=piece.step)
    interior = tuple(step - 1 for step in piece.step)
    spread = [1 + (size - 1) * step for size, step in zip(piece.part.type.shape, piece.step, strict=True)]
    high = tuple(size - low - width for size, low, width in zip(piece.whole.type.shape, piece.start, spread, strict=True))
    return ops.pad(piece.part, low=piece.start, high=high, interior=interior, value=0.0)


def _gap(like: Value, axis: int, size: int) -> Iterator[Value]:
    """Zeros along `axis`, if there are any."""
    if size:
        shape = like.type.shape
        yield ops.constant(value=0, dtype=like.type.dtype, shape=(*shape[:axis], size, *shape[axis + 1:]))


# -- pieces of a cotangent after a move


def _reshaped(op: Op, piece: Piece) -> Piece | None:
    """Piece after axes of size 1 are inserted or dropped; a piece of one element, or at indices that are data, after any reshape."""
    before, after = op.operands[0].type.shape, op.result.type.shape
    if piece.scatter is not None:       # `op` may reshape the sum of several
        return replace(piece, whole=op.result if piece.whole is op.operands[0] else ops.reshape(piece.whole, shape=after))
    kept = [axis for axis, size in enumerate(before) if size != 1]
    if [size for size in after if size != 1] == [before[axis] for axis in kept]:
        axes = iter(kept)
        source = [None if size == 1 else next(axes) for size in after]
        start, step, shape = (tuple(default if axis is None else values[axis] for axis in source) for values, default in (
            (piece.start, 0), (piece.step, 1), (piece.part.type.shape, 1)))
    elif piece.part.type.size == 1:
        place = np.unravel_index(int(np.ravel_multi_index(piece.start, before)), after)
        start, step, shape = tuple(map(int, place)), (1,) * len(after), (1,) * len(after)
    else:
        return None
    return Piece(op.result, op.loc, ops.reshape(piece.part, shape=shape), start, step)


def _transposed(op: Op, piece: Piece) -> Piece:
    order = op.attrs["permutation"]
    start, step = (tuple(values[axis] for axis in order) for values in (piece.start, piece.step))
    return Piece(op.result, op.loc, ops.transpose(piece.part, permutation=order), start, step)


def _flipped(op: Op, piece: Piece) -> Piece:
    axes, places = op.attrs["axes"], zip(op.result.type.shape, piece.start, piece.part.type.shape, piece.step, strict=True)
    start = tuple(whole - 1 - first - (size - 1) * step if axis in axes else first
                  for axis, (whole, first, size, step) in enumerate(places))
    return Piece(op.result, op.loc, ops.flip(piece.part, axes=op.attrs["axes"]), start, piece.step)


_MOVES = {"reshape": _reshaped, "transpose": _transposed, "flip": _flipped}
