"""Slice rules: the operands that an op needs to compute a slice of its result along an axis (as slices along which axes, or as a whole),
and the attributes of the op that computes it.

A slice is a tile: one of `count` equal blocks along the axis. An op has a rule if a tile of its result depends, in some operands, only on
the same tile, and on any of the other operands as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from adjit.ir.definition import Kind
from adjit.ir.graph import Op
from adjit.ir.types import Shape, TensorType

OperandAxes = tuple[int | None, ...]
"""Axis of each operand along which a tile of it is enough; None for an operand that is needed as a whole."""


def is_divisible(type: TensorType, axis: int, count: int) -> bool:
    """True if a value of this type can be cut into `count` tiles along the axis."""
    return type.rank > axis and type.shape[axis] % count == 0 and type.size > 0


def tile_type(type: TensorType, axis: int, count: int) -> TensorType:
    """Type of one of `count` tiles. The axis is dropped if each tile has one element along it.

    >>> import numpy as np
    >>> [str(tile_type(TensorType(np.dtype("f4"), (length, 3)), 0, 4)) for length in (8, 4)]
    ['f32[2,3]', 'f32[3]']
    """
    return TensorType(type.dtype, _tile_shape(type.shape, axis, count))


def is_dropped(type: TensorType, axis: int | None, count: int) -> bool:
    """True if a tile of the value has one axis less."""
    return axis is not None and type.shape[axis] == count


def _tile_shape(shape: Shape, axis: int, count: int) -> Shape:
    length = () if shape[axis] == count else (shape[axis] // count,)
    return (*shape[:axis], *length, *shape[axis + 1:])


def infer_operand_axes(op: Op, axis: int, batch: int = 0) -> OperandAxes | None:
    """Axes along which the operands are cut for a tile along `axis` of the op's result; None if tiles and whole operands are not enough.
    The tile count must divide the lengths of all these axes.

    If the length of the `batch` is given, an axis may hold several batches, one after the other; a tile then has a block of each.
    """
    if len(op.results) != 1 or op.result.type.rank <= axis:
        return None
    if batch:
        return _axes_of_batches(op, axis, batch)
    if op.definition.kind in (Kind.ELEMENTWISE, Kind.EXTERNAL):
        return (axis,) * len(op.operands)
    rule = _RULES.get(op.name) or (_reduction if op.definition.kind is Kind.REDUCTION else None)
    return None if rule is None else rule(op, axis)


def batches_before(type: TensorType, axis: int, batch: int) -> int:
    """Number of batches that a value holds along this axis and those before it; 0 if the axis is no multiple of the batch.

    >>> import numpy as np
    >>> [batches_before(TensorType(np.dtype("f4"), shape), 0, 4) for shape in ((4, 3), (12, 3), (3, 4))]
    [1, 3, 0]
    """
    return prod(type.shape[:axis]) * (type.shape[axis] // batch) if is_divisible(type, axis, batch) else 0


def _axes_of_batches(op: Op, axis: int, batch: int) -> OperandAxes | None:
    before = batches_before(op.result.type, axis, batch)
    if not before:
        return None
    if op.name == "reshape":
        type = op.operands[0].type
        return next(((operand_axis,) for operand_axis in range(type.rank) if batches_before(type, operand_axis, batch) == before), None)
    operand_axes, length = infer_operand_axes(op, axis), op.result.type.shape[axis]
    if operand_axes is None or any(
            cut is not None and value.type.shape[cut] != length for value, cut in zip(op.operands, operand_axes, strict=True)):
        return None
    return operand_axes


def replication_divisor(op: Op, axis: int) -> int:
    """Each tile may recompute the op if the tile count divides this number: 0 (any count) for constants, the axis length for broadcasts
    along it, 1 (never) for all other ops."""
    type = op.results[0].type
    if op.name == "broadcast" and axis not in op.attrs["axes"] and type.rank > axis and type.size:
        return type.shape[axis]
    return 0 if op.definition.uniform else 1


def is_replicable(op: Op, axis: int, count: int) -> bool:
    """True if each of `count` tiles may recompute the op's result."""
    return replication_divisor(op, axis) % count == 0


def tile_attributes(op: Op, axis: int, operand_axes: OperandAxes, count: int) -> dict[str, Any]:
    """Attributes of the op that computes one tile."""
    attrs = dict(op.attrs)
    if "shape" in attrs:
        attrs["shape"] = _tile_shape(attrs["shape"], axis, count)
    cut = operand_axes[0] if operand_axes else None
    source = op.operands[0].type if op.operands else op.result.type
    if op.name == "slice" and cut is not None:
        attrs["stop"] = (*attrs["stop"][:cut], source.shape[cut] // count, *attrs["stop"][cut + 1:])
    if op.name == "broadcast":
        cut, source = axis, op.result.type
    if cut is None or op.name in ("reshape", "constant") or not is_dropped(source, cut, count):
        return attrs
    for name in _PER_AXIS & attrs.keys():
        attrs[name] = (*attrs[name][:cut], *attrs[name][cut + 1:])
    for name in _AXES & attrs.keys():
        attrs[name] = tuple(other - (other > cut) for other in attrs[name] if other != cut)
    if "axis" in attrs:
        attrs["axis"] -= attrs["axis"] > cut
    return attrs


def summed_axes(op: Op) -> tuple[int, int] | None:
    """Axes along which the operands can be cut so that the results of the tiles add up to the op's result; None if there are none."""
    if op.name != "matmul":
        return None
    inner = op.operands[0].type.rank - 1
    return inner - op.attrs["transpose_a"], inner - (not op.attrs["transpose_b"])


_PER_AXIS = frozenset({"start", "stop", "step", "low", "high", "interior"})
"""Attributes with one number for each axis."""

_AXES = frozenset({"axes", "permutation"})
"""Attributes that are axis numbers."""


def _broadcast(op: Op, axis: int) -> OperandAxes | None:
    axes = op.attrs["axes"]
    return (axes.index(axis) if axis in axes else None,)


def _reshape(op: Op, axis: int) -> OperandAxes | None:
    """Axis of the operand with as many elements before it as before the result's axis."""
    before, after = op.operands[0].type.shape, op.result.type.shape
    for operand_axis, size in enumerate(before):
        if size != 1 and prod(before[:operand_axis]) == prod(after[:axis]):
            return (operand_axis,)
    return None


def _transpose(op: Op, axis: int) -> OperandAxes | None:
    return (op.attrs["permutation"][axis],)


def _slice(op: Op, axis: int) -> OperandAxes | None:
    is_whole = (op.attrs["start"][axis], op.attrs["stop"][axis], op.attrs["step"][axis]) == (0, op.operands[0].type.shape[axis], 1)
    return (axis,) if is_whole else None


def _pad(op: Op, axis: int) -> OperandAxes | None:
    return (axis,) if op.attrs["low"][axis] == op.attrs["high"][axis] == op.attrs["interior"][axis] == 0 else None


def _flip(op: Op, axis: int) -> OperandAxes | None:
    return (axis,) if axis not in op.attrs["axes"] else None


def _update_slice(op: Op, axis: int) -> OperandAxes | None:
    base, update = op.operands
    is_whole = op.attrs["start"][axis] == 0 and op.attrs["step"][axis] == 1 and base.type.shape[axis] == update.type.shape[axis]
    return (axis, axis) if is_whole else None


def _reduction(op: Op, axis: int) -> OperandAxes | None:
    left = [other for other in range(op.operands[0].type.rank) if other not in op.attrs["axes"]]
    return (left[axis],)


def _along_axis(op: Op, axis: int) -> OperandAxes | None:
    return (axis,) * len(op.operands) if op.attrs["axis"] != axis else None


def _argmax(op: Op, axis: int) -> OperandAxes | None:
    return (axis + (axis >= op.attrs["axis"]),)


def _matmul(op: Op, axis: int) -> OperandAxes | None:
    rank = op.result.type.rank
    if axis == rank - 2:
        return rank - 2 + op.attrs["transpose_a"], None
    if axis == rank - 1:
        return None, rank - 1 - op.attrs["transpose_b"]
    return axis, axis


_RULES: dict[str, Callable[[Op, int], OperandAxes | None]] = {
    "broadcast": _broadcast, "reshape": _reshape, "transpose": _transpose, "slice": _slice, "pad": _pad, "concatenate": _along_axis,
    "flip": _flip, **dict.fromkeys(("update_slice", "add_slice"), _update_slice), "matmul": _matmul,
    **dict.fromkeys(("cummax", "cummin", "cumprod", "cumsum"), _along_axis),
    "argmax": _argmax, "argmin": _argmax, **dict.fromkeys(("argpartition", "argsort", "partition", "sort"), _along_axis)}
