"""What it takes to compute a slice of an op's result along an axis: which operands as slices, along which of their axes, which as a
whole, and what becomes of the op's attributes.

A slice is a panel: one of `count` equal parts along the axis. An op has a rule where a panel of its result depends on the same panel of
some operands, and on nothing else of them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from adjit.ir.definition import Kind
from adjit.ir.graph import Op
from adjit.ir.types import Shape, TensorType

Needs = tuple[int | None, ...]
"""For each operand, the axis along which a panel of it is enough; None where all of it is needed."""


def is_divisible(type: TensorType, axis: int, count: int) -> bool:
    """Whether a value of this type can be cut into `count` panels along the axis."""
    return type.rank > axis and type.shape[axis] % count == 0 and type.size > 0


def panel_type(type: TensorType, axis: int, count: int) -> TensorType:
    """The type of one of `count` panels; without the axis where that has one element a panel.

    >>> import numpy as np
    >>> [str(panel_type(TensorType(np.dtype("f4"), (length, 3)), 0, 4)) for length in (8, 4)]
    ['f32[2,3]', 'f32[3]']
    """
    return TensorType(type.dtype, _panel_shape(type.shape, axis, count))


def is_dropped(type: TensorType, axis: int | None, count: int) -> bool:
    """Whether a panel of the value has one axis less."""
    return axis is not None and type.shape[axis] == count


def _panel_shape(shape: Shape, axis: int, count: int) -> Shape:
    part = () if shape[axis] == count else (shape[axis] // count,)
    return (*shape[:axis], *part, *shape[axis + 1:])


def operand_axes(op: Op, axis: int, batch: int = 0) -> Needs | None:
    """Along which axes the operands have to be cut for a panel along `axis` of the op's result; None where more is needed than panels and
    whole operands. The number of panels has to divide all of these axes.

    Where a length of the `batch` is given, an axis may be several batches, one after the other, of each of which a panel has its part.
    """
    if len(op.results) != 1 or op.result.type.rank <= axis:
        return None
    if batch:
        return _axes_of_batches(op, axis, batch)
    if op.definition.kind is Kind.ELEMENTWISE:
        return (axis,) * len(op.operands)
    rule = _RULES.get(op.name) or (_reduction if op.definition.kind is Kind.REDUCTION else None)
    return None if rule is None else rule(op, axis)


def batches_before(type: TensorType, axis: int, batch: int) -> int:
    """How many batches, along this axis and those before it, a value has next to each other; 0 where the axis is no number of batches.

    >>> import numpy as np
    >>> [batches_before(TensorType(np.dtype("f4"), shape), 0, 4) for shape in ((4, 3), (12, 3), (3, 4))]
    [1, 3, 0]
    """
    return prod(type.shape[:axis]) * (type.shape[axis] // batch) if is_divisible(type, axis, batch) else 0


def _axes_of_batches(op: Op, axis: int, batch: int) -> Needs | None:
    before = batches_before(op.result.type, axis, batch)
    if not before:
        return None
    if op.name == "reshape":
        type = op.operands[0].type
        return next(((place,) for place in range(type.rank) if batches_before(type, place, batch) == before), None)
    needs, length = operand_axes(op, axis), op.result.type.shape[axis]
    if needs is None or any(cut is not None and value.type.shape[cut] != length for value, cut in zip(op.operands, needs, strict=True)):
        return None
    return needs


def free_length(op: Op, axis: int) -> int:
    """The length that a number of panels along the axis has to divide for each of them to make a copy of the op's result of its own: that
    is for numbers, and whole values that repeat along the axis. (1 for other ops: no number of panels does; 0 where all do.)"""
    type = op.results[0].type
    if op.name == "broadcast" and axis not in op.attrs["axes"] and type.rank > axis and type.size:
        return type.shape[axis]
    return 0 if op.definition.uniform else 1


def is_free(op: Op, axis: int, count: int) -> bool:
    """Whether each of `count` panels makes a copy of the op's result of its own."""
    return free_length(op, axis) % count == 0


def panel_attributes(op: Op, axis: int, needs: Needs, count: int) -> dict[str, Any]:
    """The attributes of the op that computes one panel."""
    attrs = dict(op.attrs)
    if "shape" in attrs:
        attrs["shape"] = _panel_shape(attrs["shape"], axis, count)
    cut = needs[0] if needs else None
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
    """The axes of the operands along which they may be cut for the results of the panels to add up to the op's result; None where there
    are none."""
    if op.name != "matmul":
        return None
    inner = op.operands[0].type.rank - 1
    return inner - op.attrs["transpose_a"], inner - (not op.attrs["transpose_b"])


_PER_AXIS = frozenset({"start", "stop", "step", "low", "high", "interior"})
"""Attributes that have one number an axis."""

_AXES = frozenset({"axes", "permutation"})
"""Attributes that are numbers of axes."""


def _broadcast(op: Op, axis: int) -> Needs | None:
    axes = op.attrs["axes"]
    return (axes.index(axis) if axis in axes else None,)


def _reshape(op: Op, axis: int) -> Needs | None:
    """The axis of the operand before which there are as many elements."""
    before, after = op.operands[0].type.shape, op.result.type.shape
    for place, size in enumerate(before):
        if size != 1 and prod(before[:place]) == prod(after[:axis]):
            return (place,)
    return None


def _transpose(op: Op, axis: int) -> Needs | None:
    return (op.attrs["permutation"][axis],)


def _slice(op: Op, axis: int) -> Needs | None:
    whole = (op.attrs["start"][axis], op.attrs["stop"][axis], op.attrs["step"][axis]) == (0, op.operands[0].type.shape[axis], 1)
    return (axis,) if whole else None


def _pad(op: Op, axis: int) -> Needs | None:
    return (axis,) if op.attrs["low"][axis] == op.attrs["high"][axis] == op.attrs["interior"][axis] == 0 else None


def _flip(op: Op, axis: int) -> Needs | None:
    return (axis,) if axis not in op.attrs["axes"] else None


def _update_slice(op: Op, axis: int) -> Needs | None:
    base, update = op.operands
    whole = op.attrs["start"][axis] == 0 and op.attrs["step"][axis] == 1 and base.type.shape[axis] == update.type.shape[axis]
    return (axis, axis) if whole else None


def _reduction(op: Op, axis: int) -> Needs | None:
    left = [other for other in range(op.operands[0].type.rank) if other not in op.attrs["axes"]]
    return (left[axis],)


def _along_axis(op: Op, axis: int) -> Needs | None:
    return (axis,) * len(op.operands) if op.attrs["axis"] != axis else None


def _extremum_place(op: Op, axis: int) -> Needs | None:
    return (axis + (axis >= op.attrs["axis"]),)


def _matmul(op: Op, axis: int) -> Needs | None:
    rank = op.result.type.rank
    if axis == rank - 2:
        return rank - 2 + op.attrs["transpose_a"], None
    if axis == rank - 1:
        return None, rank - 1 - op.attrs["transpose_b"]
    return axis, axis


_RULES: dict[str, Callable[[Op, int], Needs | None]] = {
    "broadcast": _broadcast, "reshape": _reshape, "transpose": _transpose, "slice": _slice, "pad": _pad, "concatenate": _along_axis,
    "flip": _flip, "update_slice": _update_slice, "matmul": _matmul, "cumsum": _along_axis, "cumprod": _along_axis,
    "argmax": _extremum_place, "argmin": _extremum_place, "argsort": _along_axis}
