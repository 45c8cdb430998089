"""Rolls of one array along an axis become slices of one array that goes on beyond its ends, which kernels read where they lie."""

from __future__ import annotations

from collections.abc import Mapping

from adjit.ir import ops
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value, needed_ops, producers, readers
from adjit.passes.options import Options

MIN_ROLLED_BYTES = 4 << 10
"""Bytes from which an array is lengthened. Value and gradient of 64 steps of diffusion on a ring, microseconds with and without: 64 places
9.2 and 7.8, 512 121 and 185, 4096 1249 and 1715; of 16 steps on a torus of 20 x 20 26 and 21, of 50 x 50 140 and 169."""


@dataclass(frozen=True, slots=True)
class _Roll:
    """A concatenation whose element at place i along `axis` is that of `value` at place i + `shift`, counted round."""

    op: Op
    value: Value
    axis: int
    shift: int


def share_rolls(graph: Graph, options: Options) -> Graph:
    """Lengthen an array by its own ends once where it is rolled along one axis in several ways for kernels: stencils on rings.

    Before:
        graph @f(%x: f64[64,9]) {
          %0: f64[1,9] = slice %x {start=(63, 0), step=(1, 1), stop=(64, 9)}
          %1: f64[63,9] = slice %x {start=(0, 0), step=(1, 1), stop=(63, 9)}
          %2: f64[64,9] = concatenate %0, %1 {axis=0}
          %3: f64[62,9] = slice %x {start=(2, 0), step=(1, 1), stop=(64, 9)}
          %4: f64[2,9] = slice %x {start=(0, 0), step=(1, 1), stop=(2, 9)}
          %5: f64[64,9] = concatenate %3, %4 {axis=0}
          %6: f64[64,9] = add %2, %5
          return %6
        }

    After:
        graph @f(%x: f64[64,9]) {
          %0: f64[1,9] = slice %x {start=(63, 0), step=(1, 1), stop=(64, 9)}
          %1: f64[2,9] = slice %x {start=(0, 0), step=(1, 1), stop=(2, 9)}
          %2: f64[67,9] = concatenate %0, %x, %1 {axis=0}
          %3: f64[64,9] = slice %2 {start=(0, 0), step=(1, 1), stop=(64, 9)}
          %4: f64[64,9] = slice %2 {start=(3, 0), step=(1, 1), stop=(67, 9)}
          %5: f64[64,9] = add %3, %4
          return %5
        }
    """
    joined = [op for op in graph.ops if op.name == "concatenate" and len(op.operands) == 2 and op.result.type.nbytes >= MIN_ROLLED_BYTES]
    if not options.only_kernels or len(joined) < 2:
        return graph
    reading, producer, groups = readers(graph.ops), producers(graph), dict[object, list[_Roll]]()
    for op in joined:
        roll = _roll_of(op, producer)
        if roll is not None and op.result not in graph.results and all(
                reader.definition.kind in (Kind.ELEMENTWISE, Kind.REDUCTION) for reader in reading[op.result]):
            groups.setdefault((roll.value, roll.axis, op.role is Role.RECOMPUTE), []).append(roll)
    new: dict[Op, list[Op]] = {}
    for group in groups.values():
        if len(group) > 1:
            long = _lengthened(group)
            low = max(0, *(-roll.shift for roll in group))
            new.update((roll.op, [*long, _slice(long[-1].result, roll.op, roll.axis, low + roll.shift, roll.op.result)]) for roll in group)
    if not new:
        return graph
    return graph.with_ops(needed_ops(list(dict.fromkeys(made for op in graph.ops for made in new.get(op, [op]))), graph.results))


def _roll_of(op: Op, producer: Mapping[Value, Op]) -> _Roll | None:
    """The roll that a concatenation of two slices is, by at most half of the axis; None for any other."""
    first, second = (producer.get(value) for value in op.operands)
    if first is None or second is None or first.name != "slice" or second.name != "slice" or first.operands != second.operands:
        return None
    (value,), axis = first.operands, op.attrs["axis"]
    size, behind = value.type.shape[axis], second.result.type.shape[axis]
    starts = [0] * value.type.rank, [behind if other == axis else 0 for other in range(value.type.rank)]
    if value.type != op.result.type or (list(second.attrs["start"]), list(first.attrs["start"])) != starts \
            or any(step != 1 for cut in (first, second) for step in cut.attrs["step"]):
        return None
    return _Roll(op, value, axis, behind if 2 * behind <= size else behind - size)


def _lengthened(group: list[_Roll]) -> list[Op]:
    """Ops that make the longer array; it is the result of the last."""
    roll = group[0]
    value, axis, op = roll.value, roll.axis, roll.op
    size = value.type.shape[axis]
    low, high = max(0, *(-other.shift for other in group)), max(0, *(other.shift for other in group))
    ends = [_slice(value, op, axis, size - low, _like(value, axis, low))] if low else []
    ends += [_slice(value, op, axis, 0, _like(value, axis, high))] if high else []
    parts = (*(end.result for end in ends[:1 if low else 0]), value, *(end.result for end in ends[1 if low else 0:]))
    return [*ends, Op(ops.concatenate, parts, (_like(value, axis, low + size + high),), {"axis": axis}, (), op.loc, op.role)]


def _like(value: Value, axis: int, size: int) -> Value:
    shape = value.type.shape
    return Value(value.type.with_shape((*shape[:axis], size, *shape[axis + 1:])))


def _slice(value: Value, like: Op, axis: int, start: int, result: Value) -> Op:
    """Slice of the size of `result` from `start` on along `axis`, where `like` is."""
    begin = tuple(start if other == axis else 0 for other in range(value.type.rank))
    attrs = {"start": begin, "stop": tuple(map(sum, zip(begin, result.type.shape, strict=True))), "step": (1,) * value.type.rank}
    return Op(ops.slice, (value,), (result,), attrs, (), like.loc, like.role)
