"""Search in sorted arrays, and counting of what lies between edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.graph import Value
from adjit.ir.types import I64
from adjit.tracer import lowering
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.promotion import as_operand, common_dtype
from adjit.tracer.registry import FUNCTIONS

_FEW = 24
"""Up to so many edges are compared with each number, all at once; more are searched by halving."""


def below(a: Value, b: Value) -> Value:
    """True where `a` is sorted before `b`: NaN comes last."""
    less = ops.less(a, b)
    if a.type.dtype.kind != "f":
        return less
    return ops.logical_or(less, ops.logical_and(ops.isnan(b), ops.logical_not(ops.isnan(a))))


def positions_in(table: Value, x: Value, right: bool) -> Value:
    """Number of elements of a sorted vector that are below those of `x`, or not above them, if `right`."""
    size, shape = table.type.shape[0], x.type.shape

    def passed(a: Value, b: Value) -> Value:
        return ops.logical_not(below(b, a)) if right else below(a, b)

    if size <= _FEW:
        full = (*shape, size)
        spread = lowering.broadcast(lowering.reshape(x, (*shape, 1)), full)
        return ops.reduce_sum(lowering.convert(passed(lowering.broadcast(table, full), spread), I64), axes=(len(shape),))
    found = lowering.constant(0, I64, shape)
    last = ops.full_like(found, size)
    step = 1 << (size.bit_length() - 1)
    while step:
        tried = ops.add(found, ops.full_like(found, step))
        within = ops.less_equal(tried, last)
        edge = ops.take(table, ops.subtract(ops.minimum(tried, last), ops.full_like(found, 1)), axis=0)
        found = ops.select(ops.logical_and(within, passed(edge, x)), tried, found)
        step //= 2
    return found


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Equivalent of `numpy.searchsorted`; positions have no derivative."""
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got {side!r})")
    table, x = as_traced(a), as_traced(v)
    if table.ndim != 1:
        raise ValueError("object too deep for desired array" if table.ndim else "a is no vector")
    if sorter is not None:
        table = FUNCTIONS[np.take](table, sorter)
    dtype = common_dtype([as_operand(table), as_operand(x)])
    return wrap(positions_in(lowering.convert(table.value, dtype), lowering.convert(x.value, dtype), side == "right"))
