"""Movement ops and constants, as moves of strided elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.arrays.strided_copy import Axis, Move, lower_moves
from adjit.codegen.native.program_code import StepCode
from adjit.codegen.native.step_builder import element_bits, element_type, strides_of
from adjit.ir.graph import Op
from adjit.ir.ops.movement import inside
from adjit.ir.ops.traits import UPDATES
from adjit.ir.types import Shape


def lower_movement(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The steps of a movement op or a constant."""
    return tuple(step for moves in moves_of(op, shared) for step in lower_moves(moves, len(op.operands), target))


def moves_of(op: Op, shared: Mapping[int, int]) -> list[list[Move]]:
    """Moves of a movement op or a constant; each list has to be done before the next one."""
    if op.name in UPDATES:
        return ([] if shared.get(0) == 0 else [[copy_of(op, 0)]]) + [[_update(op)]]
    if op.name == "pad" and any(op.attrs["interior"]):
        return [[_filled(op, op.attrs["value"], op.result.type.shape)], [_inner(op)]]
    return [MOVES[op.name](op)]


def _axes(shape: Shape, source: Sequence[int], target: Sequence[int]) -> tuple[Axis, ...]:
    return tuple(Axis(*axis) for axis in zip(shape, source, target, strict=True))


def copy_of(op: Op, operand: int) -> Move:
    """Move of all elements of an operand, in order."""
    return Move(op.result.type.dtype.itemsize, (Axis(op.operands[operand].type.size, 1, 1),), operand=operand)


def _filled(op: Op, value: float, shape: Shape, start: Shape | None = None) -> Move:
    """Fill of a block of the result, of this shape, with `value`."""
    type = op.result.type
    strides = strides_of(type.shape)
    offset = sum(first * stride for first, stride in zip(start or (0,) * type.rank, strides, strict=True))
    return Move(type.dtype.itemsize, _axes(shape, (0,) * type.rank, strides), 0, offset, bits=element_bits(value, type.dtype))


def _transpose(op: Op) -> list[Move]:
    type, strides = op.result.type, strides_of(op.operands[0].type.shape)
    return [Move(type.dtype.itemsize, _axes(type.shape, [strides[axis] for axis in op.attrs["permutation"]], strides_of(type.shape)))]


def _broadcast(op: Op) -> list[Move]:
    type, axes = op.result.type, op.attrs["axes"]
    strides = dict(zip(axes, strides_of(op.operands[0].type.shape), strict=True))
    return [Move(type.dtype.itemsize, _axes(type.shape, [strides.get(axis, 0) for axis in range(type.rank)], strides_of(type.shape)))]


def _slice(op: Op) -> list[Move]:
    type, strides = op.result.type, strides_of(op.operands[0].type.shape)
    first = sum(start * stride for start, stride in zip(op.attrs["start"], strides, strict=True))
    steps = [step * stride for step, stride in zip(op.attrs["step"], strides, strict=True)]
    return [Move(type.dtype.itemsize, _axes(type.shape, steps, strides_of(type.shape)), first)]


def _flip(op: Op) -> list[Move]:
    type, strides = op.result.type, strides_of(op.result.type.shape)
    first = sum((type.shape[axis] - 1) * strides[axis] for axis in op.attrs["axes"])
    reversed_strides = [-stride if axis in op.attrs["axes"] else stride for axis, stride in enumerate(strides)]
    return [Move(type.dtype.itemsize, _axes(type.shape, reversed_strides, strides), first)]


def _inner(op: Op) -> Move:
    """Move of the operand of a `pad` to its position in the result."""
    shape, strides = op.operands[0].type.shape, strides_of(op.result.type.shape)
    start, _, step = inside(shape, op.attrs["low"], op.attrs["interior"])
    first = sum(begin * stride for begin, stride in zip(start, strides, strict=True))
    steps = [gap * stride for gap, stride in zip(step, strides, strict=True)]
    return Move(op.result.type.dtype.itemsize, _axes(shape, strides_of(shape), steps), 0, first)


def _pad(op: Op) -> list[Move]:
    """Moves of a `pad`: the operand, and for each dimension the borders before and after it, as wide as the interior of the earlier
    dimensions."""
    inner, outer = op.operands[0].type.shape, op.result.type.shape
    moves = [_inner(op)]
    for axis, (low, high) in enumerate(zip(op.attrs["low"], op.attrs["high"], strict=True)):
        for start, size in ((0, low), (outer[axis] - high, high)):
            if size:
                begin = (*op.attrs["low"][:axis], start, *(0 for _ in outer[axis + 1:]))
                moves.append(_filled(op, op.attrs["value"], (*inner[:axis], size, *outer[axis + 1:]), begin))
    return moves


def _concatenate(op: Op) -> list[Move]:
    """Moves of a `concatenate`. Consecutive operands of one type are one move."""
    type, axis = op.result.type, op.attrs["axis"]
    strides, moves, done = strides_of(type.shape), [], 0
    for first, count in _equal_neighbours([value.type.shape for value in op.operands]):
        shape = op.operands[first].type.shape
        moves.append(Move(type.dtype.itemsize, _axes(shape, strides_of(shape), strides), 0, done * strides[axis], first, None,
                          count, shape[axis] * strides[axis]))
        done += count * shape[axis]
    return moves


def _equal_neighbours(shapes: Sequence[Shape]) -> Iterator[tuple[int, int]]:
    first = 0
    for index in range(1, len(shapes) + 1):
        if index == len(shapes) or shapes[index] != shapes[first]:
            yield first, index - first
            first = index


def _update(op: Op) -> Move:
    """Move of the update into the base, or its sum with what is there."""
    shape, strides = op.operands[1].type.shape, strides_of(op.result.type.shape)
    first = sum(start * stride for start, stride in zip(op.attrs["start"], strides, strict=True))
    steps = [step * stride for step, stride in zip(op.attrs["step"], strides, strict=True)]
    added = element_type(op.result.type.dtype) if op.name == "add_slice" else ""
    return Move(op.result.type.dtype.itemsize, _axes(shape, strides_of(shape), steps), 0, first, operand=1, added=added)


MOVES: dict[str, Callable[[Op], list[Move]]] = {
    "reshape": lambda op: [copy_of(op, 0)],
    "transpose": _transpose,
    "broadcast": _broadcast,
    "slice": _slice,
    "flip": _flip,
    "pad": _pad,
    "concatenate": _concatenate,
    "constant": lambda op: [_filled(op, op.attrs["value"], op.result.type.shape)],
    **dict.fromkeys(("update_slice", "add_slice"), lambda op: [copy_of(op, 0), _update(op)]),
}
"""The moves of each op. No two moves of an op write the same element, except those of updates, which run one after the other."""
