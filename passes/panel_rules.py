"""What it takes to compute a slice of an op's result, along the first axis: which operands as slices, which as a whole, and what becomes of
the op's attributes.

A slice is a panel: the `count`-th part of a value, contiguous in memory. An op has a rule where a panel of its result depends on the same
panel of some operands, and on nothing else of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjit.ir.definition import Kind
from adjit.ir.graph import Op
from adjit.ir.types import Shape, TensorType

Needs = tuple[bool, ...]
"""For each operand, whether a panel of it is enough; else all of it is needed."""


def is_divisible(type: TensorType, count: int) -> bool:
    """Whether a value of this type can be cut into `count` panels."""
    return type.rank > 0 and type.shape[0] % count == 0 and type.size > 0


def panel_type(type: TensorType, count: int) -> TensorType:
    """The type of one of `count` panels; without the first axis where that has one element a panel.

    >>> import numpy as np
    >>> [str(panel_type(TensorType(np.dtype("f4"), (length, 3)), 4)) for length in (8, 4)]
    ['f32[2,3]', 'f32[3]']
    """
    return TensorType(type.dtype, _panel_shape(type.shape, count))


def _panel_shape(shape: Shape, count: int) -> Shape:
    return shape[1:] if shape[0] == count else (shape[0] // count, *shape[1:])


def panel_needs(op: Op, count: int) -> Needs | None:
    """What a panel of the op's result takes; None where it takes more than panels and whole operands."""
    if len(op.results) != 1 or not is_divisible(op.result.type, count):
        return None
    if op.definition.kind is Kind.ELEMENTWISE:
        return (True,) * len(op.operands)
    rule = _RULES.get(op.name) or (_reduction if op.definition.kind is Kind.REDUCTION else None)
    needs = None if rule is None else rule(op, count)
    if needs is None or not all(is_divisible(v.type, count) for v, cut in zip(op.operands, needs, strict=True) if cut):
        return None
    return needs


def panel_attributes(op: Op, count: int) -> dict[str, Any]:
    """The attributes of the op that computes one panel."""
    attrs = dict(op.attrs)
    if "shape" in attrs:
        attrs["shape"] = _panel_shape(attrs["shape"], count)
    source = op.operands[0].type.shape if op.operands else op.result.type.shape
    if op.name == "broadcast":
        source = op.result.type.shape
    if op.name in ("reshape", "constant") or source[0] != count:
        if op.name == "slice":
            attrs["stop"] = (source[0] // count, *attrs["stop"][1:])
        return attrs
    for name in _PER_AXIS & attrs.keys():
        attrs[name] = attrs[name][1:]
    for name in _AXES & attrs.keys():
        attrs[name] = tuple(axis - 1 for axis in attrs[name] if axis)
    if "axis" in attrs:
        attrs["axis"] -= 1
    return attrs


_PER_AXIS = frozenset({"start", "stop", "step", "low", "high", "interior"})
"""Attributes that have one number an axis."""

_AXES = frozenset({"axes", "permutation"})
"""Attributes that are numbers of axes."""


def _broadcast(op: Op, count: int) -> Needs | None:
    axes = op.attrs["axes"]
    return (bool(axes) and axes[0] == 0 and op.operands[0].type.shape[0] == op.result.type.shape[0],)


def _reshape(op: Op, count: int) -> Needs | None:
    return (True,)


def _transpose(op: Op, count: int) -> Needs | None:
    return (True,) if op.attrs["permutation"][0] == 0 else None


def _slice(op: Op, count: int) -> Needs | None:
    whole = (op.attrs["start"][0], op.attrs["stop"][0], op.attrs["step"][0]) == (0, op.operands[0].type.shape[0], 1)
    return (True,) if whole else None


def _pad(op: Op, count: int) -> Needs | None:
    return (True,) if op.attrs["low"][0] == op.attrs["high"][0] == op.attrs["interior"][0] == 0 else None


def _concatenate(op: Op, count: int) -> Needs | None:
    return (True,) * len(op.operands) if op.attrs["axis"] != 0 else None


def _flip(op: Op, count: int) -> Needs | None:
    return (True,) if 0 not in op.attrs["axes"] else None


def _update_slice(op: Op, count: int) -> Needs | None:
    base, update = op.operands
    whole = op.attrs["start"][0] == 0 and op.attrs["step"][0] == 1 and base.type.shape[0] == update.type.shape[0]
    return (True, True) if whole else None


def _reduction(op: Op, count: int) -> Needs | None:
    return (True,) if 0 not in op.attrs["axes"] else None


def _along_axis(op: Op, count: int) -> Needs | None:
    return (True,) if op.attrs["axis"] != 0 else None


def _matmul(op: Op, count: int) -> Needs | None:
    if op.result.type.rank > 2:
        return True, True
    return None if op.attrs["transpose_a"] else (True, False)


_RULES: dict[str, Callable[[Op, int], Needs | None]] = {
    "broadcast": _broadcast, "reshape": _reshape, "transpose": _transpose, "slice": _slice, "pad": _pad, "concatenate": _concatenate,
    "flip": _flip, "update_slice": _update_slice, "matmul": _matmul, "cumsum": _along_axis, "cumprod": _along_axis,
    "argmax": _along_axis, "argmin": _along_axis, "argsort": _along_axis}
