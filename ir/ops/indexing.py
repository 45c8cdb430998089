"""Ops that read or write at indices that are data: i64, at least 0 and below the size of the axis; marked `from_end`, at least minus the
size, and negative ones count from the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from adjit.ir.batching import batch_axis, batched_operands, emit_again, is_batched, move_axis, reshaped, spread, spread_all
from adjit.ir.definition import Kind, OpDefinition, Sample, define
from adjit.ir.errors import ShapeError
from adjit.ir.graph import Attributes, Op, Value
from adjit.ir.ops.arithmetic import add, multiply
from adjit.ir.ops.broadcasting import broadcast
from adjit.ir.ops.comparison import equal, less
from adjit.ir.ops.creation import constant, full_like, iota
from adjit.ir.ops.movement import reshape
from adjit.ir.ops.rules import NUMBER, require, require_axis, require_dtype, require_indices
from adjit.ir.ops.sampling import uniform
from adjit.ir.ops.selection import convert, select
from adjit.ir.types import F32, I64, U64, TensorType

Operands = tuple[Value, ...]
Cotangents = tuple[Value | None, ...]

MARKS = ("in_range", "from_end")
"""`in_range`: the indices are proven to be within the axis, and programs do not check them (the interpreter does). `from_end`: negative
indices count from the end of the axis."""


OUTSIDE = -1 << 63
"""Index in place of several, of which one is out of range for its axis: the index of the joined axes could be within."""


def joined_index(indices: Sequence[Value], sizes: Sequence[int]) -> Value:
    """Index along the axes of these sizes as one axis, from i64 indices of one shape along each; `OUTSIDE` where one is out of range."""
    joined, shape, sizes = indices[0], indices[0].type.shape, tuple(map(int, sizes))
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        joined = add(multiply(joined, constant(value=size, dtype=I64, shape=shape)), index)
    for index, size in zip(indices, sizes, strict=True) if len(indices) > 1 else ():
        joined = _if_inside(index, size, joined)
    return joined


def _if_inside(index: Value, size: int, joined: Value) -> Value:
    """`joined` where `index` is one of an axis of this size, else `OUTSIDE`."""
    shape = index.type.shape
    inside = less(convert(index, dtype=U64), constant(value=size, dtype=U64, shape=shape))      # negative numbers are large without a sign
    return select(inside, joined, constant(value=OUTSIDE, dtype=I64, shape=shape))


def check_indices(indices: np.ndarray, size: int, axis: int) -> None:
    """Raise `IndexError` if an index is negative or not below `size`. Indices that the user counted from the end have had the size added by
    now; the message shows the user's number."""
    if indices.size and np.maximum.reduce(indices.view(f"u{indices.itemsize}"), None) >= size:       # negative numbers are large ones
        lowest, highest = int(indices.min()), int(indices.max())
        if lowest == OUTSIDE:
            raise IndexError("one of several indices is out of range for its axis")
        if lowest < 0 or highest >= size:
            raise IndexError(f"index {lowest - size if lowest < 0 else highest} is out of bounds for axis {axis} with size {size}")


def counted_from_start(indices: np.ndarray, size: int) -> np.ndarray:
    """Indices along an axis of this size, of which negative ones count from its end, as indices from its start."""
    return np.where(indices < 0, indices + size, indices)


def _checked(indices: np.ndarray, size: int, axis: int, in_range: bool = False, from_end: bool = False) -> np.ndarray:
    """Indices from the start of the axis, of an op with these marks. Raises as `check_indices`."""
    indices = counted_from_start(indices, size) if from_end else indices
    check_indices(indices, size, axis)
    return indices


def _at(axis: int, indices: np.ndarray) -> tuple[Any, ...]:
    return (slice(None),) * axis + (indices,)


def _along(indices: np.ndarray, axis: int) -> tuple[Any, ...]:
    """Index arrays of all dimensions; the array for `axis` is `indices`."""
    grid: list[Any] = list(np.indices(indices.shape, sparse=True))
    grid[axis] = indices
    return tuple(grid)


# -- whole slices: take, scatter_add, scatter_set


def _infer_take(x: TensorType, indices: TensorType, *, axis: int, **marks: bool) -> TensorType:
    require_indices(indices)
    require_axis(axis, x)
    return x.with_shape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1:]))


def _infer_scatter(base: TensorType, indices: TensorType, updates: TensorType, *, axis: int, **marks: bool) -> TensorType:
    expected = _infer_take(base, indices, axis=axis)
    require_dtype(base, updates)
    if updates.shape != expected.shape:
        raise ShapeError(f"updates for {base} at {indices} along axis {axis} have to be {expected}, got {updates}")
    return base


def _infer_scatter_add(base: TensorType, indices: TensorType, updates: TensorType, *, axis: int, **marks: bool) -> TensorType:
    require(base, NUMBER)
    return _infer_scatter(base, indices, updates, axis=axis)


def _evaluate_take(x: np.ndarray, indices: np.ndarray, *, axis: int, **marks: bool) -> np.ndarray:
    indices = _checked(indices, x.shape[axis], axis, **marks)
    return np.asarray(x[_at(axis, indices)])


def _evaluate_scatter_add(base: np.ndarray, indices: np.ndarray, updates: np.ndarray, *, axis: int, **marks: bool) -> np.ndarray:
    indices = _checked(indices, base.shape[axis], axis, **marks)
    out = base.copy()
    np.add.at(out, _at(axis, indices), updates)
    return out


def _evaluate_scatter_set(base: np.ndarray, indices: np.ndarray, updates: np.ndarray, *, axis: int, **marks: bool) -> np.ndarray:
    indices = _checked(indices, base.shape[axis], axis, **marks)
    out = base.copy()
    out[_at(axis, indices)] = updates
    return out


def _scatter_set_vjp(ct: Value, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    """Cotangents of `scatter_set`. Of several updates for one index, only the last reaches the result: it is found by scattering the
    numbers of the updates."""
    base, indices, updates = operands
    axis = attrs["axis"]
    read = take(ct, indices, axis=axis)     # before the cotangent is written over
    kept = scatter_set(ct, indices, full_like(updates, 0.0), axis=axis)
    if indices.type.size == 1:
        return kept, None, read
    size, index_shape = base.type.shape[axis], indices.type.shape
    if indices.type.size == 1:
        arrived = take(ct, indices, axis=axis)
        return scatter_set(ct, indices, full_like(updates, 0.0), axis=axis), None, arrived
    number = reshape(iota(dtype=I64, shape=(indices.type.size,), axis=0), shape=index_shape)
    last = scatter_set(constant(value=0, dtype=I64, shape=(size,)), indices, number, axis=0)
    arrives = broadcast(equal(take(last, indices, axis=0), number), shape=updates.type.shape,
                        axes=tuple(range(axis, axis + len(index_shape))))
    return kept, None, select(arrives, read, full_like(updates, 0.0))


def _take_samples() -> Iterator[Sample]:
    x = uniform((4, 3, 5))
    for axis, indices in ((0, [3, 0, 0, 1]), (1, [[2, 0], [1, 1]]), (2, 4), (2, [])):
        yield Sample((x, np.array(indices, I64)), {"axis": axis}, differentiable=(0,))
    yield Sample((x.astype(F32), np.array([1, 1], I64)), {"axis": 1})
    yield Sample((np.array([True, False]), np.array([1, 0, 1], I64)), {"axis": 0})
    yield Sample((np.zeros((0, 2)), np.zeros((0,), I64)), {"axis": 0})


def _scatter_samples() -> Iterator[Sample]:
    base = uniform((4, 3, 5))
    for axis, indices, shape in ((0, [3, 0, 0, 1], (4, 3, 5)), (1, [[2, 0], [0, 2]], (4, 2, 2, 5)), (2, 4, (4, 3)), (2, [], (4, 3, 0))):
        yield Sample((base, np.array(indices, I64), uniform(shape, seed=1)), {"axis": axis}, differentiable=(0, 2))
    yield Sample((base.astype(F32), np.array([2], I64), uniform((4, 1, 5), dtype=F32, seed=1)), {"axis": 1})
    yield Sample((np.array([1, 2], I64), np.array([0, 0], I64), np.array([5, 7], I64)), {"axis": 0})


def _index_of_examples(indices: Value, length: int) -> Value:
    """Batched `indices` along an axis of this length, as indices along that of all examples, one after the other. An index that does not
    fit its own example stays out of range."""
    shape = indices.type.shape
    begin = multiply(iota(dtype=I64, shape=shape, axis=0), constant(value=length, dtype=I64, shape=shape))
    return _if_inside(indices, length, add(begin, indices))


def _examples_joined(value: Value, axis: int) -> Value:
    """Batched `value` with its examples one after the other along the dimension `axis` of one example, which becomes the first one."""
    first = move_axis(value, axis + 1, 1)
    return reshaped(first, (first.type.shape[0] * first.type.shape[1], *first.type.shape[2:]))


def _batch_take(op: Op, operands: Sequence[Value], size: int) -> Sequence[Value]:
    x, indices = operands
    axis, rank = op.attrs["axis"], op.operands[1].type.rank
    batched = batched_operands(op, operands)
    if not batched[1]:
        return emit_again(op, operands, axis=axis + 1)
    if not batched[0]:                      # the batch axis is one more axis of the indices
        (taken,) = emit_again(op, operands)
        return (move_axis(taken, axis, 0),)
    joined = _index_of_examples(indices, x.type.shape[axis + 1])
    (taken,) = emit_again(op, (_examples_joined(x, axis), joined), axis=0)
    return (_moved_axes(taken, 1, rank, axis + 1),)


def _moved_axes(value: Value, source: int, count: int, target: int) -> Value:
    """`value` with `count` axes from `source` on at the place `target`."""
    for number in range(count if source != target else 0):
        value = move_axis(value, source, target + count - 1) if source < target else move_axis(value, source + number, target + number)
    return value


def _batch_scatter(op: Op, operands: Sequence[Value], size: int) -> Sequence[Value]:
    base, indices, updates = operands
    axis, rank = op.attrs["axis"], op.operands[1].type.rank
    if not is_batched(indices, op.operands[1]):
        return emit_again(op, (spread(base, op.operands[0], size), indices, spread(updates, op.operands[2], size)), axis=axis + 1)
    base, indices, updates = spread_all(op, operands, size)
    length = base.type.shape[axis + 1]
    others = _examples_joined(base, axis)
    (written,) = emit_again(op, (others, _index_of_examples(indices, length), _moved_axes(updates, axis + 1, rank, 1)), axis=0)
    return (move_axis(reshaped(written, (size, length, *others.type.shape[1:])), 1, axis + 1),)


take: OpDefinition = define(
    "take", Kind.INDEXING, half=True, arity=2, attributes={"axis": int}, marks=MARKS,
    doc="Slices of the first operand along `axis`, at the indices.",
    infer=_infer_take, evaluate=_evaluate_take, samples=_take_samples, batch=_batch_take,
    vjp=lambda ct, operands, results, attrs: (scatter_add(full_like(operands[0], 0.0), operands[1], ct, axis=attrs["axis"]), None))

scatter_add: OpDefinition = define(
    "scatter_add", Kind.INDEXING, arity=3, attributes={"axis": int}, marks=MARKS,
    doc="The base with the updates added to its slices along `axis`, at the indices; repeated indices add up.",
    infer=_infer_scatter_add, evaluate=_evaluate_scatter_add, samples=_scatter_samples, updates=True, batch=_batch_scatter,
    vjp=lambda ct, operands, results, attrs: (ct, None, take(ct, operands[1], axis=attrs["axis"])))

scatter_set: OpDefinition = define(
    "scatter_set", Kind.INDEXING, half=True, arity=3, attributes={"axis": int}, marks=MARKS,
    doc="The base with the updates in place of its slices along `axis`, at the indices; of repeated indices the last one counts, and only "
        "its update gets the cotangent.",
    infer=_infer_scatter, evaluate=_evaluate_scatter_set, vjp=_scatter_set_vjp, samples=_scatter_samples, updates=True,
    batch=_batch_scatter)

# -- single elements: take_along_axis, scatter_add_along_axis


def _infer_take_along(x: TensorType, indices: TensorType, *, axis: int, **marks: bool) -> TensorType:
    require_indices(indices)
    require_axis(axis, x)
    if indices.rank != x.rank or any(a != b for i, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True)) if i != axis):
        raise ShapeError(f"indices {indices} do not fit {x}: the shapes may differ along axis {axis} only")
    return x.with_shape(indices.shape)


def _infer_scatter_along(base: TensorType, indices: TensorType, updates: TensorType, *, axis: int, **marks: bool) -> TensorType:
    require(base, NUMBER)
    expected = _infer_take_along(base, indices, axis=axis)
    require_dtype(base, updates)
    if updates.shape != expected.shape:
        raise ShapeError(f"updates for {base} at {indices} along axis {axis} have to be {expected}, got {updates}")
    return base


def _evaluate_take_along(x: np.ndarray, indices: np.ndarray, *, axis: int, **marks: bool) -> np.ndarray:
    indices = _checked(indices, x.shape[axis], axis, **marks)
    return np.asarray(x[_along(indices, axis)])


def _evaluate_scatter_along(base: np.ndarray, indices: np.ndarray, updates: np.ndarray, *, axis: int, **marks: bool) -> np.ndarray:
    indices = _checked(indices, base.shape[axis], axis, **marks)
    out = base.copy()
    np.add.at(out, _along(indices, axis), updates)
    return out


def _take_along_samples() -> Iterator[Sample]:
    x = uniform((3, 4))
    yield Sample((x, np.array([[2, 0, 0, 1], [1, 1, 2, 0]], I64)), {"axis": 0}, differentiable=(0,))
    yield Sample((x, np.array([[3], [0], [2]], I64)), {"axis": 1}, differentiable=(0,))
    yield Sample((x.astype(F32), np.zeros((3, 0), I64)), {"axis": 1})
    yield Sample((np.array([4, 5], I64), np.array([1, 1, 0], I64)), {"axis": 0})


def _scatter_along_samples() -> Iterator[Sample]:
    base = uniform((3, 4))
    yield Sample((base, np.array([[2, 0, 0, 1], [1, 1, 0, 0]], I64), uniform((2, 4), seed=1)), {"axis": 0}, differentiable=(0, 2))
    yield Sample((base, np.array([[3, 3], [0, 1], [2, 2]], I64), uniform((3, 2), seed=1)), {"axis": 1}, differentiable=(0, 2))
    yield Sample((base.astype(F32), np.zeros((3, 0), I64), np.zeros((3, 0), F32)), {"axis": 1})
    yield Sample((np.array([4, 5], I64), np.array([1, 1], I64), np.array([1, 2], I64)), {"axis": 0})


take_along_axis: OpDefinition = define(
    "take_along_axis", Kind.INDEXING, half=True, arity=2, attributes={"axis": int}, marks=MARKS, numpy=np.take_along_axis,
    doc="For every index the element of the first operand at this index along `axis`; the other coordinates are those of the index.",
    infer=_infer_take_along, evaluate=_evaluate_take_along, samples=_take_along_samples, batch=batch_axis,
    vjp=lambda ct, operands, results, attrs: (
        scatter_add_along_axis(full_like(operands[0], 0.0), operands[1], ct, axis=attrs["axis"]), None))

scatter_add_along_axis: OpDefinition = define(
    "scatter_add_along_axis", Kind.INDEXING, arity=3, attributes={"axis": int}, marks=MARKS,
    doc="The base with every update added to the element that `take_along_axis` would read for its index; repeated indices add up.",
    infer=_infer_scatter_along, evaluate=_evaluate_scatter_along, samples=_scatter_along_samples, updates=True, batch=batch_axis,
    vjp=lambda ct, operands, results, attrs: (ct, None, take_along_axis(ct, operands[1], axis=attrs["axis"])))
