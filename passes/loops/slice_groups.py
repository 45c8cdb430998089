"""Slices of one array that stand for its rows: operands of consecutive iterations, and lists that are stacked."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.emitter import emitting
from adjit.ir.graph import Graph, Op, Value, needed_ops, producers
from adjit.passes.loops.moving_slices import Move, as_type, can_emit_rows, emit_rows, find_moves, join_axes

MIN_JOINED = 8
"""Slices of one array in a row that are joined to one."""


@dataclass(frozen=True, slots=True)
class SliceGroup:
    """Slices of the operand of `op`, the first of them, which move by `moves`."""

    op: Op
    moves: tuple[Move, ...]


def find_group(found: Sequence[Op | None]) -> SliceGroup | None:
    """Group of slices of one array that can be read at once; None if they are no such slices."""
    first = found[0]
    if first is None or not all(op is not None and op.operands[0] is first.operands[0] and op.result.type == first.result.type
                                and op.attrs["step"] == first.attrs["step"] for op in found):
        return None
    moves = find_moves([op for op in found if op is not None])
    return SliceGroup(first, moves) if moves and can_emit_rows(*join_axes(first, moves), len(found)) else None


def slice_of(value: Value, producer: dict[Value, Op]) -> Op | None:
    """Slice that a value is, in another shape perhaps."""
    op = producer.get(value)
    while op is not None and op.name == "reshape":
        op = producer.get(op.operands[0])
    return op if op is not None and op.name == "slice" else None


def join_slices(graph: Graph) -> Graph:
    """Graph in which `concatenate` takes rows of one array, one after the other, at once; without the ops that nothing needs then."""
    producer: dict[Value, Op] = {}
    new: list[Op] = []
    for op in graph.ops:
        if op.name == "concatenate" and len(op.operands) >= MIN_JOINED:
            producer = producer or producers(graph)
            new += _joined(op, graph.name, producer)
        else:
            new.append(op)
    needed = needed_ops(new, graph.results)
    return graph if len(needed) == len(graph.ops) and all(map(is_, needed, graph.ops)) else graph.with_ops(needed)


def _joined(op: Op, name: str, producer: dict[Value, Op]) -> list[Op]:
    slices = [slice_of(value, producer) for value in op.operands]
    parts: list[SliceGroup | None] = []
    counts: list[int] = []
    begin = 0
    while begin < len(slices):
        group, end = _longest_group(slices, begin)
        parts.append(group)
        counts.append(end - begin)
        begin = end
    if not any(parts):
        return [op]
    builder = OpenBuilder(name)
    values: list[Value] = []
    begin = 0
    with emitting(builder), builder.at(op.loc, op.role):
        for group, count in zip(parts, counts, strict=True):
            operands = op.operands[begin:begin + count]
            values += [_emit_joined(group, count, operands[0], op.attrs["axis"])] if group is not None else operands
            begin += count
        if len(values) > 1:
            ops.concatenate(*values, axis=op.attrs["axis"])
    last = builder.ops.pop()
    return [*builder.ops, last.with_operands(last.operands, op.results)]


def _longest_group(slices: Sequence[Op | None], begin: int) -> tuple[SliceGroup | None, int]:
    """Slices from `begin` on that follow each other at one distance, and where they end; one operand if they are few."""
    first, end = slices[begin], begin + 1
    if first is None:
        return None, end
    step: tuple[int, ...] | None = None
    while end < len(slices):
        before, this = slices[end - 1], slices[end]
        assert before is not None
        if this is None or this.operands[0] is not first.operands[0] or this.result.type != first.result.type \
                or this.attrs["step"] != first.attrs["step"]:
            break
        found = tuple(b - a for a, b in zip(before.attrs["start"], this.attrs["start"], strict=True))
        if step is not None and found != step:
            break
        step, end = found, end + 1
    group = find_group(slices[begin:end]) if end - begin >= MIN_JOINED else None
    return group, end if group is not None else begin + 1


def emit_group(group: SliceGroup, count: int, base: Value) -> Value:
    """Slices of a group in rows."""
    op, moves = join_axes(group.op, group.moves)
    return emit_rows(op, as_type(base, op.operands[0].type), moves, count)


def _emit_joined(group: SliceGroup, count: int, like: Value, axis: int) -> Value:
    """Slices of a group, each in the shape of `like`, concatenated along `axis`."""
    shape = like.type.shape
    rows = ops.reshape(emit_group(group, count, group.op.operands[0]), shape=(count, *shape))
    if axis:
        rows = ops.transpose(rows, permutation=(*range(1, axis + 1), 0, *range(axis + 1, 1 + len(shape))))
    return ops.reshape(rows, shape=(*shape[:axis], count * shape[axis], *shape[axis + 1:]))


class OpenBuilder(GraphBuilder):
    """Builder of ops that are put into an existing graph: all its values are known."""

    def resolve(self, value: Value) -> Value:
        return value
