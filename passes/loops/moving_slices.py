"""Values that differ from one iteration to the next, as arrays with a row for each iteration; slices and writes whose place moves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from adjit.ir import ops
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op, Value
from adjit.ir.ops.creation import MAX_TABLE_BYTES, table_attributes
from adjit.ir.types import F64, I64, TensorType, is_float


@dataclass(frozen=True, slots=True)
class Move:
    """Way in which a slice or a write moves along `axis`: the first index of each iteration, and its step, None if it is irregular."""

    axis: int
    starts: tuple[int, ...]
    step: int | None


def find_moves(found: Sequence[Op]) -> tuple[Move, ...]:
    """Moves of the slices, or of the writes, at one place of all iterations; none if the place stays."""
    if all(op.attrs is found[0].attrs or op.attrs["start"] == found[0].attrs["start"] for op in found):
        return ()
    starts = np.array([op.attrs["start"] for op in found], np.int64)
    return tuple(_move(axis, starts[:, axis]) for axis in np.flatnonzero((starts != starts[0]).any(axis=0)).tolist())


def join_axes(op: Op, moves: Sequence[Move]) -> tuple[Op, tuple[Move, ...]]:
    """Slice or write of one element along each of the first axes, as one along these axes joined to one, which moves along that one alone;
    as they are where the places of `moves` are others."""
    rank, widths = op.operands[0].type.rank, op.operands[-1 if op.name == "update_slice" else 0].type.shape
    if op.name == "slice":
        widths = op.result.type.shape
    joined = next((axis for axis in range(rank) if widths[axis] != 1), rank)
    if len(moves) < 2 or moves[-1].axis >= joined:
        return op, tuple(moves)
    sizes, start = op.operands[0].type.shape[:joined], op.attrs["start"]
    found = {move.axis: np.array(move.starts, np.int64) for move in moves}
    flat = sum(found.get(axis, start[axis]) * math.prod(sizes[axis + 1:]) for axis in range(joined))
    assert isinstance(flat, np.ndarray)
    attrs = {"start": (int(flat[0]), *start[joined:]), "step": (1, *op.attrs["step"][joined:])}
    if op.name == "slice":
        attrs["stop"] = (int(flat[0]) + 1, *op.attrs["stop"][joined:])
    operands, results = ([Value(_joined(value.type, joined)) for value in values] for values in (op.operands, op.results))
    return Op(op.definition, tuple(operands), tuple(results), attrs, (), op.loc, op.role), (_move(0, flat),)


def _joined(type: TensorType, count: int) -> TensorType:
    """Type with the first `count` axes joined to one."""
    return type.with_shape((math.prod(type.shape[:count]), *type.shape[count:]))


def as_type(value: Value, type: TensorType) -> Value:
    """Value in another shape of as many elements."""
    return value if value.type == type else ops.reshape(value, shape=type.shape)


def _move(axis: int, starts: np.ndarray) -> Move:
    steps = np.diff(starts)
    return Move(axis, tuple(starts.tolist()), int(steps[0]) if (steps == steps[0]).all() else None)


def emit_numbers(numbers: Sequence[float], type: TensorType) -> Value:
    """Numbers in rows: counted where this gives every bit of them, else a table."""
    table = np.array(numbers, type.dtype)
    if is_float(type.dtype):
        return _emit_floats(table)
    if type.dtype.kind in "iu" and len(set(np.diff(table.astype(object)).tolist())) == 1:
        counts = emit_counts(int(table[0]), int(table[1]) - int(table[0]), len(table))
        return counts if type.dtype == I64 else ops.convert(counts, dtype=type.dtype)
    return ops.table(**table_attributes(table))


def emit_tables(arrays: Sequence[np.ndarray]) -> Value:
    """Arrays whose content is known, in rows: a table, or rows of a table that has each content once."""
    if len(arrays) * arrays[0].nbytes <= MAX_TABLE_BYTES:
        return ops.table(**table_attributes(np.stack(arrays)))
    rows: dict[bytes, int] = {}
    indices = np.array([rows.setdefault(array.tobytes(), len(rows)) for array in arrays], np.int64)
    distinct = np.frombuffer(b"".join(rows), arrays[0].dtype).reshape(len(rows), *arrays[0].shape)
    return ops.take(ops.table(**table_attributes(distinct)), ops.table(**table_attributes(indices)), axis=0)


MIN_COUNTED = 512
"""Floats that a table holds at most without a look for a way to compute them: a copy of 4 kB takes as long."""


def _emit_floats(table: np.ndarray) -> Value:
    """Floats that are `(first + i) * step`, computed where this gives every bit; else a table."""
    if len(table) > MIN_COUNTED and np.isfinite(table).all():
        wide, index = table.astype(F64), np.arange(len(table))
        for step in dict.fromkeys([float(wide[1] - wide[0]), float(wide[-1] - wide[0]) / (len(wide) - 1)]):
            first = round(float(wide[0]) / step) if step and abs(wide[0] / step) < 2 ** 52 else 0
            if ((first + index) * step).astype(table.dtype).tobytes() == table.tobytes():
                counts = ops.convert(emit_counts(first, 1, len(table)), dtype=F64)
                product = ops.multiply(counts, ops.full_like(counts, step))
                return product if table.dtype == F64 else ops.convert(product, dtype=table.dtype)
    return ops.table(**table_attributes(table))


def emit_counts(first: int, step: int, count: int) -> Value:
    """The integers `first + i * step`."""
    counts = ops.iota(dtype=I64, shape=(count,), axis=0)
    if step != 1:
        counts = ops.multiply(counts, ops.full_like(counts, step))
    return ops.add(counts, ops.full_like(counts, first)) if first else counts


def emit_starts(move: Move) -> Value:
    """The first index of each iteration."""
    if move.step is None:
        return ops.table(**table_attributes(np.array(move.starts, np.int64)))
    return emit_counts(move.starts[0], move.step, len(move.starts))


MAX_GATHERED_BYTES = 1 << 20
"""Bytes of windows of an array that are gathered before the loop; larger ones are read in the loop, iteration by iteration."""


def can_emit_rows(op: Op, moves: Sequence[Move], count: int) -> bool:
    """True if `emit_rows` can read what a slice is in each iteration; if not, the loop reads it."""
    if len(moves) == 1 and _are_blocks(op, moves[0]):
        return True
    return op.result.type.nbytes * count <= MAX_GATHERED_BYTES


def _are_blocks(op: Op, move: Move) -> bool:
    width = op.result.type.shape[move.axis]
    return bool(move.step) and (width == 1 or (op.attrs["step"][move.axis] == 1 and abs(move.step or 0) == width))


def emit_rows(op: Op, base: Value, moves: Sequence[Move], count: int) -> Value:
    """What the slice `op` of `base` is in each iteration, in rows."""
    if len(moves) > 1:
        return _emit_windows(op, base, moves, count)
    (move,), shape = moves, op.result.type.shape
    axis, width, stride = move.axis, shape[move.axis], op.attrs["step"][move.axis]
    if _are_blocks(op, move):
        return _emit_blocks(op, base, move, count)
    indices = emit_starts(move)
    if width > 1:
        indices = ops.broadcast(indices, shape=(count, width), axes=(0,))
        along = ops.broadcast(emit_counts(0, stride, width), shape=(count, width), axes=(1,))
        indices = ops.add(indices, along)
    found = ops.take(_fixed_part(op, base, [axis]), indices, axis=axis)
    return ops.reshape(_to_front(found, axis), shape=(count, *shape))


def _emit_blocks(op: Op, base: Value, move: Move, count: int) -> Value:
    """Blocks that follow each other along an axis."""
    axis, width, step = move.axis, op.result.type.shape[move.axis], move.step
    assert step is not None
    start, stop, steps = (list(op.attrs[name]) for name in ("start", "stop", "step"))
    start[axis] = min(move.starts[0], move.starts[-1])
    stop[axis], steps[axis] = start[axis] + abs(step) * (count - 1) + width, abs(step) if width == 1 else 1
    value = emit_slice(base, start, stop, steps)
    shape = value.type.shape
    if width > 1:
        value = ops.reshape(value, shape=(*shape[:axis], count, width, *shape[axis + 1:]))
    if step < 0:
        value = ops.flip(value, axes=(axis,))
    return ops.reshape(_to_front(value, axis), shape=(count, *op.result.type.shape))


def _emit_windows(op: Op, base: Value, moves: Sequence[Move], count: int) -> Value:
    """Slices that move along several axes: one `take` of places in the axes up to the last of these, joined."""
    joined, shape = moves[-1].axis + 1, op.result.type.shape
    sizes, found = base.type.shape[:joined], {move.axis: np.array(move.starts, np.int64) for move in moves}
    begin, within = np.zeros(count, np.int64), np.zeros((), np.int64)
    for axis, size in enumerate(sizes):
        begin = begin * size + found.get(axis, op.attrs["start"][axis])
        within = within[..., np.newaxis] * size + op.attrs["step"][axis] * np.arange(shape[axis])
    places = (count, *shape[:joined])
    indices = ops.add(ops.broadcast(ops.table(**table_attributes(begin)), shape=places, axes=(0,)),
                      ops.broadcast(ops.table(**table_attributes(within)), shape=places, axes=tuple(range(1, joined + 1))))
    part = _fixed_part(op, base, range(joined))
    return ops.take(as_type(part, _joined(part.type, joined)), indices, axis=0)


def emit_read(op: Op, base: Value, moves: Sequence[Move], starts: Sequence[Value]) -> Value:
    """The slice `op` of `base` in one iteration, in which it begins at `starts`."""
    found = _fixed_part(op, base, [move.axis for move in moves])
    for move, start in zip(moves, starts, strict=True):
        found = ops.take(found, _indices(start, op.result.type.shape[move.axis], op.attrs["step"][move.axis]), axis=move.axis)
    return found


def emit_write(op: Op, base: Value, update: Value, moves: Sequence[Move], starts: Sequence[Value]) -> Value:
    """The write `op` in one iteration, in which it begins at `starts`."""
    return _emit_write(base, update, list(zip(moves, starts, strict=True)), list(op.attrs["start"]), list(op.attrs["step"]))


def _emit_write(base: Value, update: Value, moving: Sequence[tuple[Move, Value]], start: list[int], step: list[int]) -> Value:
    (move, index), *more = moving
    axis = move.axis
    indices = _indices(index, update.type.shape[axis], step[axis])
    if more or any(update.type.shape[other] != base.type.shape[other] for other in range(base.type.rank) if other != axis):
        rows = ops.take(base, indices, axis=axis)
        start[axis], step[axis] = 0, 1
        update = _emit_write(rows, update, more, start, step) if more else \
            ops.update_slice(rows, update, start=tuple(start), step=tuple(step))
    return ops.scatter_set(base, indices, update, axis=axis)


def is_fill(op: Op, moves: Sequence[Move]) -> bool:
    """True if a write goes to other elements in each iteration, so that all can be done behind the loop."""
    if len(moves) != 1:
        return False
    (move,) = moves
    width = op.operands[1].type.shape[move.axis]
    if move.step is None:
        return width == 1 and len(set(move.starts)) == len(move.starts) \
            and all(op.operands[1].type.shape[axis] == op.operands[0].type.shape[axis] for axis in range(op.result.type.rank)
                    if axis != move.axis)
    return move.step != 0 and (width == 1 or (op.attrs["step"][move.axis] == 1 and abs(move.step) == width))


def emit_fill(op: Op, base: Value, rows: Value, move: Move) -> Value:
    """All writes of a loop, of the updates in `rows`, at once."""
    axis, count, width = move.axis, rows.type.shape[0], rows.type.shape[1 + move.axis]
    if move.step is not None and move.step < 0:
        rows = ops.flip(rows, axes=(0,))
    rank = base.type.rank
    if axis:
        rows = ops.transpose(rows, permutation=(*range(1, axis + 1), 0, *range(axis + 1, rank + 1)))
    shape = rows.type.shape
    update = ops.reshape(rows, shape=(*shape[:axis], count * width, *shape[axis + 2:]))
    if move.step is None:
        return ops.scatter_set(base, emit_starts(move), update, axis=axis)
    start, step = list(op.attrs["start"]), list(op.attrs["step"])
    start[axis], step[axis] = min(move.starts), abs(move.step) if width == 1 else 1
    if update.type == base.type:
        return update
    return ops.update_slice(base, update, start=tuple(start), step=tuple(step))


def emit_slice(base: Value, start: Sequence[int], stop: Sequence[int], step: Sequence[int]) -> Value:
    """A slice; the value itself where it is the whole."""
    if not any(start) and tuple(stop) == base.type.shape and all(stride == 1 for stride in step):
        return base
    return ops.slice(base, start=tuple(start), stop=tuple(stop), step=tuple(step))


def _fixed_part(op: Op, base: Value, moving: Sequence[int]) -> Value:
    """What the slice takes along the axes on which it stays."""
    start, stop, step = (list(op.attrs[name]) for name in ("start", "stop", "step"))
    for axis in moving:
        start[axis], stop[axis], step[axis] = 0, base.type.shape[axis], 1
    return emit_slice(base, start, stop, step)


def _to_front(value: Value, axis: int) -> Value:
    if not axis:
        return value
    return ops.transpose(value, permutation=(axis, *(other for other in range(value.type.rank) if other != axis)))


def _indices(start: Value, width: int, stride: int) -> Value:
    if width == 1:
        return ops.reshape(start, shape=(1,))
    return ops.add(emit_counts(0, stride, width), ops.broadcast(start, shape=(width,), axes=()))
