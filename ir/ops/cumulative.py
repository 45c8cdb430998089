"""Ops along one axis for which the order of the elements counts: cumulative sums and products, sorting, indices of extrema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from adjit.ir.definition import Kind, OpDefinition, Sample, define
from adjit.ir.errors import ShapeError
from adjit.ir.graph import Attributes, Value
from adjit.ir.ops.arithmetic import add, multiply, strong_multiply
from adjit.ir.ops.comparison import not_equal
from adjit.ir.ops.creation import full_like, iota
from adjit.ir.ops.indexing import scatter_add_along_axis
from adjit.ir.ops.movement import pad, slice
from adjit.ir.ops.rules import NUMBER, REAL, drop_axes, require, require_axis, require_dtype
from adjit.ir.ops.sampling import INTEGERS, edges, uniform
from adjit.ir.ops.selection import select
from adjit.ir.sorting import stable_argsort, stable_sort
from adjit.ir.types import BOOL, F32, F64, I64, TensorType

# -- cumulative sum and product


def _infer_cumulative(x: TensorType, *, axis: int, reverse: bool) -> TensorType:
    require(x, NUMBER)
    require_axis(axis, x)
    return x


def _cumulative(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def evaluate(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
        if reverse:
            return np.flip(function(np.flip(x, axis), axis, dtype=x.dtype), axis)
        return function(x, axis, dtype=x.dtype)
    return evaluate


def _cumulative_samples() -> Iterator[Sample]:
    for axis in (0, 1, 2):
        for reverse in (False, True):
            yield Sample((uniform((2, 3, 4), 0.5, 1.5),), {"axis": axis, "reverse": reverse}, differentiable=(0,))
    yield Sample((uniform((0, 3)),), {"axis": 0, "reverse": True}, differentiable=(0,))
    yield Sample((uniform((1,)),), {"axis": 0, "reverse": False}, differentiable=(0,))
    yield Sample((uniform((7,), dtype=F32),), {"axis": 0, "reverse": False})
    for dtype in (F32, F64, *INTEGERS):
        for reverse in (False, True):
            yield Sample((np.stack([edges(dtype), edges(dtype)[::-1]]),), {"axis": 1, "reverse": reverse})


def _cumprod_samples() -> Iterator[Sample]:
    yield from _cumulative_samples()
    zeros = np.array([[2.0, 0.0, 3.0, -1.0, 0.5], [0.0, 2.0, 0.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0, 0.0]])
    for reverse in (False, True):
        yield Sample((zeros,), {"axis": 1, "reverse": reverse}, differentiable=(0,))


cumsum: OpDefinition = define(
    "cumsum", Kind.SCAN, arity=1, attributes={"axis": int, "reverse": bool}, doc="The sums of all elements up to each one along `axis`, "
    "from the end where `reverse`; in the dtype of the operand.",
    infer=_infer_cumulative, evaluate=_cumulative(np.cumsum), samples=_cumulative_samples,
    vjp=lambda ct, operands, results, attrs: (cumsum(ct, axis=attrs["axis"], reverse=not attrs["reverse"]),))


def shifted(x: Value, axis: int, distance: int, fill: float) -> Value:
    """`x` with its elements moved up along `axis` (down if `distance` is negative); vacated positions get `fill`."""
    rank, size = x.type.rank, x.type.shape[axis]
    count = min(abs(distance), size)
    start, stop, low, high = [0] * rank, list(x.type.shape), [0] * rank, [0] * rank
    if distance > 0:
        stop[axis], low[axis] = size - count, count
    else:
        start[axis], high[axis] = count, count
    part = slice(x, start=tuple(start), stop=tuple(stop), step=(1,) * rank)
    return pad(part, low=tuple(low), high=tuple(high), interior=(0,) * rank, value=fill)


def products_before(x: Value, axis: int, reverse: bool) -> Value:
    """Product of the elements before each element along `axis` (after it if `reverse`)."""
    return cumprod(shifted(x, axis, -1 if reverse else 1, 1.0), axis=axis, reverse=reverse)


def _cumprod_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value, ...]:
    """Derivative without division, as elements may be 0.

    The cotangent of x[i] is the product of the elements before it times s[i] = ct[i] + x[i + 1] * s[i + 1]. The recurrence is solved by
    doubling: after a step, s[i] holds the terms up to twice the distance, and weight[i] the product across it.
    """
    (x,) = operands
    axis, reverse = attrs["axis"], attrs["reverse"]
    direction = 1 if reverse else -1
    total, weight, distance = ct, shifted(x, axis, direction, 1.0), 1
    while distance < x.type.shape[axis]:
        total = add(total, strong_multiply(shifted(total, axis, direction * distance, 0.0), weight))
        weight = multiply(weight, shifted(weight, axis, direction * distance, 1.0))
        distance *= 2
    return (strong_multiply(total, products_before(x, axis, reverse)),)


cumprod: OpDefinition = define(
    "cumprod", Kind.SCAN, arity=1, attributes={"axis": int, "reverse": bool}, doc="The products of all elements up to each one along "
    "`axis`, from the end where `reverse`; in the dtype of the operand. The derivative is right where elements are 0.",
    infer=_infer_cumulative, evaluate=_cumulative(np.cumprod), vjp=_cumprod_vjp, samples=_cumprod_samples)



def _infer_extremes(x: TensorType, *, axis: int, reverse: bool) -> TensorType:
    require(x, REAL)
    require_axis(axis, x)
    return x


def _extremes_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value, ...]:
    """The cotangent of each result, to the element that was the first extreme."""
    (x,), (extreme,), axis, reverse = operands, results, attrs["axis"], attrs["reverse"]
    place = iota(dtype=I64, shape=x.type.shape, axis=axis)
    changed = not_equal(extreme, shifted(extreme, axis, -1 if reverse else 1, 0.0))
    border = full_like(place, x.type.shape[axis] - 1 if reverse else 0)
    last = (cummin if reverse else cummax)(select(changed, place, border), axis=axis, reverse=reverse)
    return (scatter_add_along_axis(full_like(x, 0), last, ct, axis=axis),)


def _extremes_samples() -> Iterator[Sample]:
    for sample in _cumulative_samples():
        (x,) = sample.arrays
        yield replace(sample, arrays=(np.sin(37 * x) if sample.differentiable else x,))


cummax, cummin = (
    define(name, Kind.SCAN, arity=1, attributes={"axis": int, "reverse": bool}, doc=f"The {which} of all elements up to each one along "
           "`axis`, from the end where `reverse`; NaN where one of them is.",
           infer=_infer_extremes, evaluate=_cumulative(function.accumulate), vjp=_extremes_vjp, samples=_extremes_samples)
    for name, function, which in (("cummax", np.maximum, "largest"), ("cummin", np.minimum, "smallest")))

# -- sorting and indices of extrema


MIN_SEARCHED = 1 << 14
"""Elements of a line from which on a small part of the sorted line is looked for, without sorting all of it."""


def _infer_argsort(x: TensorType, *, axis: int) -> TensorType:
    require_axis(axis, x)
    return x.with_dtype(I64)


def _infer_argmax(x: TensorType, *, axis: int) -> TensorType:
    require_axis(axis, x)
    result = TensorType(I64, drop_axes(x.shape, (axis,)))
    if not x.shape[axis]:
        raise ShapeError(f"{x} has no elements along axis {axis}")
    return result


def _order_samples() -> Iterator[Sample]:
    for axis in (0, 1, 2):
        yield Sample((uniform((2, 3, 4)),), {"axis": axis})
    yield Sample((uniform((5,), dtype=F32),), {"axis": 0})
    yield Sample((np.zeros((0, 3)),), {"axis": 1})
    for dtype in (F32, F64, *INTEGERS, BOOL):
        yield Sample((np.stack([edges(dtype), edges(dtype)[::-1], np.ones_like(edges(dtype))]),), {"axis": 1})


argsort: OpDefinition = define(
    "argsort", Kind.SCAN, arity=1, attributes={"axis": int}, vjp=None,
    doc="The indices that sort the elements along `axis` in ascending order; equal elements keep their order, NaN comes last.",
    infer=_infer_argsort, evaluate=lambda x, *, axis: stable_argsort(x, axis), samples=_order_samples)

def _infer_sort(x: TensorType, *, axis: int, first: int, count: int) -> TensorType:
    require_axis(axis, x)
    if not 0 <= first <= first + count <= x.shape[axis]:
        raise ShapeError(f"places {first} to {first + count} are not among the {x.shape[axis]} elements of {x} along axis {axis}")
    return x.with_shape((*x.shape[:axis], count, *x.shape[axis + 1:]))


def _evaluate_sort(x: np.ndarray, *, axis: int, first: int, count: int) -> np.ndarray:
    return np.split(stable_sort(x, axis), (first, first + count), axis)[1]


def _sort_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value, ...]:
    """The cotangents, put where the elements came from."""
    (x,), axis, shape = operands, attrs["axis"], operands[0].type.shape
    start = [0] * len(shape)
    start[axis] = attrs["first"]
    stop = *shape[:axis], attrs["first"] + attrs["count"], *shape[axis + 1:]
    order = slice(argsort(x, axis=axis), start=tuple(start), stop=stop, step=(1,) * len(shape))
    return (scatter_add_along_axis(full_like(x, 0), order, ct, axis=axis),)


def _sort_samples() -> Iterator[Sample]:
    for axis in (0, 1, 2):
        yield Sample((uniform((2, 3, 4)),), {"axis": axis, "first": 0, "count": 2 + axis}, differentiable=(0,))
        yield Sample((uniform((2, 3, 4)),), {"axis": axis, "first": 1, "count": 1}, differentiable=(0,))
    yield Sample((np.zeros((0, 3)),), {"axis": 1, "first": 0, "count": 3}, differentiable=(0,))
    yield Sample((uniform((40, 2), dtype=F32),), {"axis": 0, "first": 3, "count": 37})
    for dtype in (F32, F64, *INTEGERS, BOOL):
        short = np.stack([edges(dtype), edges(dtype)[::-1], np.ones_like(edges(dtype))])
        for elements in (short, np.concatenate([short] * (40 // short.shape[1] + 1), axis=1)):
            yield Sample((elements,), {"axis": 1, "first": 0, "count": elements.shape[1]})


sort: OpDefinition = define(
    "sort", Kind.SCAN, arity=1, attributes={"axis": int, "first": int, "count": int},
    doc="The elements along `axis` in ascending order, `count` of them from place `first` on; NaN comes last. The derivative is that of "
    "the permutation, which keeps the order of equal elements.",
    infer=_infer_sort, evaluate=_evaluate_sort, vjp=_sort_vjp, samples=_sort_samples)


def _infer_partition(x: TensorType, pivot: TensorType, *, axis: int) -> TensorType:
    require(x, "biuf")
    require_axis(axis, x)
    require_dtype(x, pivot)
    if pivot.shape != (*x.shape[:axis], 1, *x.shape[axis + 1:]):
        raise ShapeError(f"pivots of {x} along axis {axis} have one element there, got {pivot}")
    return x


def _infer_argpartition(x: TensorType, pivot: TensorType, *, axis: int) -> TensorType:
    return _infer_partition(x, pivot, axis=axis).with_dtype(I64)


def _evaluate_argpartition(x: np.ndarray, pivot: np.ndarray, *, axis: int) -> np.ndarray:
    missing = np.not_equal(x, x), np.not_equal(pivot, pivot)
    before, behind = (x < pivot) | (missing[1] & ~missing[0]), (x > pivot) | (missing[0] & ~missing[1])
    return np.argsort(1 + behind.astype(np.int8) - before.astype(np.int8), axis, kind="stable")


def _evaluate_partition(x: np.ndarray, pivot: np.ndarray, *, axis: int) -> np.ndarray:
    return np.take_along_axis(x, _evaluate_argpartition(x, pivot, axis=axis), axis)


def _argpartition_samples() -> Iterator[Sample]:
    for dtype in (F32, F64, *INTEGERS, BOOL):
        short = np.stack([edges(dtype)] * 2)
        for pivot in (short[:, 1:2], short[:, -1:]):
            yield Sample((short, pivot), {"axis": 1})
        yield Sample((np.concatenate([short] * 3, axis=1)[:, :30], np.stack([edges(dtype)[:1], edges(dtype)[-1:]])), {"axis": 1})
    yield Sample((np.zeros((0, 3)), np.zeros((0, 1))), {"axis": 1})


def _partition_samples() -> Iterator[Sample]:
    for axis in (0, 1, 2):
        x = uniform((3, 4, 5))
        yield Sample((x, np.mean(x, axis=axis, keepdims=True)), {"axis": axis}, differentiable=(0, 1))
    yield from _argpartition_samples()


argpartition: OpDefinition = define(
    "argpartition", Kind.SCAN, arity=2, attributes={"axis": int}, vjp=None,
    doc="The indices of the elements below the pivot, of its equals, and of those above it, each in their order; NaN is above all.",
    infer=_infer_argpartition, evaluate=_evaluate_argpartition, samples=_argpartition_samples)

partition: OpDefinition = define(
    "partition", Kind.SCAN, arity=2, attributes={"axis": int},
    doc="The elements below the pivot, its equals, and those above it, each in their order; NaN is above all. Each line along `axis` has a "
    "pivot.",
    infer=_infer_partition, evaluate=_evaluate_partition, samples=_partition_samples,
    vjp=lambda ct, operands, results, attrs: (
        scatter_add_along_axis(full_like(operands[0], 0), argpartition(*operands, axis=attrs["axis"]), ct, axis=attrs["axis"]), None))

argmax, argmin = (
    define(name, Kind.SCAN, arity=1, attributes={"axis": int}, vjp=None, numpy=function,
           doc=f"The index of the {which} element along `axis`, the first of several; NaN counts as the {which}.",
           infer=_infer_argmax, evaluate=function, samples=_order_samples)
    for name, function, which in (("argmax", np.argmax, "largest"), ("argmin", np.argmin, "smallest")))
