"""Shape and dtype steps on values, skipped where they would change nothing."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import IntegerOverflowError
from adjit.ir.graph import Value
from adjit.ir.thread_context import thread
from adjit.ir.types import BOOL, I64, Shape, is_complex
from adjit.tracer.user_location import find_user_location

Strides = tuple[int, ...]


@lru_cache(maxsize=4096)
def broadcast_shapes(*shapes: Shape) -> Shape:
    """Common shape of arrays; raises `ValueError` if there is none."""
    return np.broadcast_shapes(*shapes)


def contiguous_strides(shape: Sequence[int]) -> Strides:
    """Strides of a C-contiguous array, counted in elements."""
    shape = tuple(shape)
    return (_contiguous_strides if thread.context.row_probe is None else _contiguous_strides.__wrapped__)(shape)   # no `RowCount` is kept


@lru_cache(maxsize=4096)
def _contiguous_strides(shape: Shape) -> Strides:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def convert(value: Value, dtype: np.dtype) -> Value:
    """Convert `value` as NumPy's `astype` does; to bool is `!= 0`."""
    if value.type.dtype == dtype:
        return value
    if dtype == BOOL:
        return ops.not_equal(value, constant(0, value.type.dtype, value.type.shape))
    if is_complex(value.type.dtype) and not is_complex(dtype):
        warnings.warn("Casting complex values to real discards the imaginary part", np.exceptions.ComplexWarning, stacklevel=2)
        return convert(ops.real(value), dtype)
    return ops.convert(value, dtype=dtype)


def constant(number: bool | int | float | complex | np.generic, dtype: np.dtype, shape: Shape = ()) -> Value:
    """Make a tensor filled with one number; a Python integer that `dtype` cannot hold raises `IntegerOverflowError`, as in NumPy."""
    if thread.context.row_probe is not None:
        thread.context.row_probe.note_constant(number)
    try:
        filled = number.astype(dtype) if isinstance(number, np.generic) else dtype.type(number)
    except OverflowError as error:
        raise IntegerOverflowError(str(error), find_user_location(),
                                   hint="convert the array with .astype to a dtype that holds the number first") from None
    return ops.constant(value=filled.item(), dtype=dtype, shape=tuple(shape))


def reshape(value: Value, shape: Sequence[int]) -> Value:
    """Reshape `value` in C order to `shape` (no -1)."""
    return value if value.type.shape == tuple(shape) else ops.reshape(value, shape=tuple(shape))


def transpose(value: Value, permutation: Sequence[int]) -> Value:
    if tuple(permutation) == tuple(range(value.type.rank)):
        return value
    return ops.transpose(value, permutation=tuple(permutation))


def broadcast(value: Value, shape: Sequence[int]) -> Value:
    """Broadcast `value` to `shape` by NumPy's rules; the shapes are known to fit."""
    shape = tuple(shape)
    if value.type.shape == shape:
        return value
    offset = len(shape) - value.type.rank
    kept = [axis for axis, size in enumerate(value.type.shape) if size == shape[offset + axis]]
    squeezed = reshape(value, [value.type.shape[axis] for axis in kept])
    if squeezed.type.shape == shape:
        return squeezed
    return ops.broadcast(squeezed, shape=shape, axes=tuple(offset + axis for axis in kept))


def slice_axis(value: Value, axis: int, start: int, stop: int) -> Value:
    """Take elements `start` to `stop` of one axis."""
    shape = value.type.shape
    if (start, stop) == (0, shape[axis]):
        return value
    return ops.slice(value, start=tuple(start if i == axis else 0 for i in range(len(shape))),
                     stop=tuple(stop if i == axis else size for i, size in enumerate(shape)), step=(1,) * len(shape))


def iota(dtype: np.dtype, shape: Sequence[int], axis: int) -> Value:
    """Index along `axis`, at every element."""
    return ops.iota(dtype=dtype, shape=tuple(shape), axis=axis)


def wrapped_index(index: Value, size: int) -> Value:
    """Convert an index to i64, negative ones counted from the end. An index out of range stays out of range: the op that uses it raises."""
    signed = index.type.dtype.kind == "i"
    index = convert(index, I64)
    if not signed:
        return index
    shape = index.type.shape
    return ops.select(ops.less(index, constant(0, I64, shape)), ops.add(index, constant(size, I64, shape)), index)
