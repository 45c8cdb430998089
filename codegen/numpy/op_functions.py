"""Functions that the Python functions of `graph_function` call besides NumPy, and the NumPy function of each op."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from adjit.codegen.numpy.chunks import MANY_ELEMENTS, KernelCompiler
from adjit.ir.graph import Op, Value
from adjit.ir.ops.indexing import check_indices, counted_from_start
from adjit.ir.ops.selection import convert_array
from adjit.ir.types import Shape

OPERATORS: dict[str, str] = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=",
    "greater": ">", "greater_equal": ">=",
}
"""Ops that NumPy computes on its scalars ten times as fast with an operator as on arrays without dimensions."""


def filled(value: Any, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """A new array filled with `value`. `np.full` and `np.broadcast_to` take several times as long."""
    array = np.empty(shape, dtype)
    fill = KernelCompiler.fill if array.size >= MANY_ELEMENTS and not np.ndim(value) else None
    if fill is None or not fill(array, np.asarray(value, dtype)):
        array[...] = value
    return array


@lru_cache(maxsize=1024)
def broadcasting(sizes: Shape, dtype: np.dtype, shape: Shape) -> Callable[[Any], np.ndarray]:
    """`np.broadcast_to` of arrays of some sizes, which takes ten times as long to make a view of a contiguous array."""
    sizes = (1,) * (len(shape) - len(sizes)) + sizes
    strides = tuple(0 if size == 1 else dtype.itemsize * math.prod(sizes[axis + 1:]) for axis, size in enumerate(sizes))
    is_empty = 0 in sizes

    def broadcast(x: Any) -> np.ndarray:
        if is_empty or type(x) is not np.ndarray or x.dtype != dtype or not x.flags.c_contiguous:
            return np.broadcast_to(x, shape)
        view: np.ndarray = np.ndarray(shape, dtype, x, 0, strides)
        view.setflags(write=False)
        return view

    return broadcast


def norm(x: np.ndarray) -> np.floating:
    """The sum of squares, summed in memory order: `np.vdot` alone would copy a transposed array."""
    flat = x.ravel("K")
    return np.vdot(flat, flat)      # type: ignore[no-any-return]


def take(x: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """`x` at the indices along `axis`; raises `IndexError` as the op does."""
    if indices.size and np.minimum.reduce(indices, None) < 0:
        check_indices(indices, x.shape[axis], axis)
    try:
        return x.take(indices, axis)
    except IndexError:
        check_indices(indices, x.shape[axis], axis)
        raise


def take_signed(x: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """`x` at the indices along `axis`, negative ones counted from the end; raises `IndexError` as the op does."""
    try:
        return x.take(indices, axis)
    except IndexError:
        check_indices(counted_from_start(indices, x.shape[axis]), x.shape[axis], axis)
        raise


def from_start(indices: np.ndarray, size: int) -> np.ndarray:
    """Indices along an axis, of which negative ones count from the end, as indices from its start."""
    return counted_from_start(indices, size) if indices.size and np.minimum.reduce(indices, None) < 0 else indices


def take_along(x: np.ndarray, indices: np.ndarray, axis: int, before: tuple[np.ndarray, ...], after: tuple[np.ndarray, ...]) -> np.ndarray:
    """`x` at the indices along `axis`, and at `before` and `after` along the other dimensions."""
    check_indices(indices, x.shape[axis], axis)
    return taken_along(x, indices, axis, before, after)


def take_along_signed(x: np.ndarray, indices: np.ndarray, axis: int, before: tuple[np.ndarray, ...], after: tuple[np.ndarray, ...]
                      ) -> np.ndarray:
    """The same; negative indices count from the end."""
    try:
        return taken_along(x, indices, axis, before, after)
    except IndexError:
        check_indices(counted_from_start(indices, x.shape[axis]), x.shape[axis], axis)
        raise


def taken_along(x: np.ndarray, indices: np.ndarray, axis: int, before: tuple[np.ndarray, ...], after: tuple[np.ndarray, ...]
                ) -> np.ndarray:
    """The same, of indices that are in range or are checked by NumPy."""
    if not after and indices.size >= _MIN_UPDATES and _in_rows(x, indices):
        elements = np.empty(indices.shape, x.dtype)
        if _at_indices(x, indices, elements, False):
            return elements
    return np.asarray(x[(*before, indices, *after)])


def _in_rows(x: np.ndarray, indices: np.ndarray) -> bool:
    """True if machine code can go through the rows of `x` and of many indices in the last axis."""
    return (indices.size >= _MIN_UPDATES and indices.dtype == np.int64 and indices.flags.c_contiguous and x.flags.c_contiguous
            and x.size > 0 and x.itemsize in (4, 8) and x.shape[:-1] == indices.shape[:-1])


def _at_indices(x: np.ndarray, indices: np.ndarray, elements: np.ndarray, adds: bool) -> bool:
    """Take elements of the rows of `x`, or add them; False where there is no machine code, or an index is out of range."""
    return KernelCompiler.at_indices is not None and KernelCompiler.at_indices(x, indices, elements, adds)


_MIN_WIDE_ROW = 64
"""Elements of a row from which adding one row after the other is faster than `np.add.at`."""


_MIN_UPDATES = 8192
"""Indices from which machine code goes through rows."""

_MIN_MACHINE_UPDATES = 256
"""Elements of updates from which machine code adds them. `np.add.at` takes 20 to 50 ns for each, for slices."""


def add_at(base: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int) -> None:
    """Add updates to the slices of `base` along `axis`, those for one index in their order."""
    check_indices(indices, base.shape[axis], axis)
    add_rows = KernelCompiler.add_rows
    if updates.size >= _MIN_MACHINE_UPDATES and add_rows is not None and add_rows(base, indices, updates, axis):
        return
    if axis == 0 and base.ndim > 1 and base[0:1].size >= _MIN_WIDE_ROW:
        for row, update in zip(indices.reshape(-1).tolist(), updates.reshape(-1, *base.shape[1:]), strict=True):
            base[row] += update
    else:
        index: Any = (slice(None),) * axis + (indices,)
        np.add.at(base, index, updates)


def set_at(base: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int) -> None:
    """Write updates to the slices of `base` along `axis`."""
    check_indices(indices, base.shape[axis], axis)
    base[(slice(None),) * axis + (indices,)] = updates


def add_along(base: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int, before: tuple[np.ndarray, ...],
              after: tuple[np.ndarray, ...]) -> None:
    """Add each update to the element of `base` at its index along `axis`. Indices that cannot collide use a plain addition."""
    check_indices(indices, base.shape[axis], axis)
    in_rows = not after and base.dtype.char in "fd" and _in_rows(base, indices) and updates.flags.c_contiguous
    if in_rows and _at_indices(base, indices, updates, True):
        return
    if indices.shape[axis] == 1:
        base[(*before, indices, *after)] += updates
    else:
        np.add.at(base, (*before, indices, *after), updates)


def diagonal(x: np.ndarray, shape: Shape, offset: int) -> np.ndarray:
    """View of the diagonals of `x` in the last two axes, with `shape` reached by axes of one element, whatever the strides."""
    view = np.diagonal(x.reshape(shape), offset, -2, -1)
    view.flags.writeable = x.flags.writeable
    return view


def diagonal_of(op: Op, producers: dict[Value, Op]) -> tuple[Shape, int] | None:
    """Arguments of `diagonal` that replace a slice of joined rows, if the slice is a diagonal; else None."""
    reshape = producers.get(op.operands[0])
    if reshape is None or reshape.name != "reshape" or getattr(producers.get(reshape.operands[0]), "name", "") in ("reshape", "broadcast"):
        return None
    outer, shape = op.result.type.shape[:-1], reshape.operands[0].type.shape
    matrix = tuple(size for size in shape if size != 1)[-2:]
    if len(matrix) < 2 or 0 in shape or reshape.result.type.shape != (*outer, math.prod(matrix)):
        return None
    row, column = divmod(op.attrs["start"][-1], matrix[1])
    is_whole = 0 in (row, column) and op.result.type.shape[-1] == min(matrix[0] - row, matrix[1] - column)
    return ((*outer, *matrix), column - row) if is_whole and op.attrs["step"][-1] == matrix[1] + 1 else None


def _of_arrays(function: Any) -> Any:
    """NumPy's function, which need not look for `__array_function__` of ndarrays: that takes 200 ns."""
    return getattr(function, "_implementation", function)


FUNCTIONS: dict[str, Any] = {
    **{name: _of_arrays(getattr(np, name)) for name in ("where", "putmask", "dot", "vdot", "concatenate")},
    "add": np.add, "maximum": np.maximum, "reciprocal": np.reciprocal, "exp": np.exp, "negative": np.negative,
    "matmul": np.matmul, "is_finite": math.isfinite, "is_finite_complex": cmath.isfinite,
    "asarray": np.asarray, "in_rows": np.ascontiguousarray,
    "convert": convert_array,
    "take": take, "take_along": take_along, "taken_along": taken_along, "take_signed": take_signed,
    "take_along_signed": take_along_signed,
    "add_at": add_at, "from_start": from_start, "set_at": set_at, "add_along": add_along, "diagonal": diagonal,
    "filled": filled, "norm": norm, "zeros": np.zeros, "float32": np.float32, "float64": np.float64,
    "complex64": np.complex64,
    "complex128": np.complex128,
}
"""Names that a text may use; ufuncs and their reductions are added under the names of their ops."""
