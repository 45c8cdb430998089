"""Functions that change the shape or the order of axes: views, as in NumPy, wherever NumPy gives views."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import IndexingError, ShapeError, UnsupportedError
from adjit.ir.graph import Value
from adjit.ir.types import I64
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, view_of, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.lowering import Strides, contiguous_strides
from adjit.tracer.masked_array import is_lazy
from adjit.tracer.scope import active_scope
from adjit.tracer.user_location import find_user_location


def normalize_axis(axis: Any, ndim: int) -> int:
    """Return `axis` counted from 0; raises `IndexingError`."""
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise IndexingError(f"axis {number} is out of bounds for array of dimension {ndim}", find_user_location())
    return number % ndim if ndim else number


def normalize_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes that `axis` names, in the order given; None means all axes."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(normalize_axis(item, ndim) for item in axis) if isinstance(axis, (tuple, list, range)) else (normalize_axis(axis, ndim),)
    if len(set(axes)) != len(axes):
        raise ValueError("repeated axis")
    return axes


def normalize_reduced(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return axes as `normalize_axes` does, for functions that take 0 and -1 for an array of no dimension as well."""
    return () if not ndim and isinstance(axis, (int, np.integer)) and axis in (0, -1) else normalize_axes(axis, ndim)


def normalize_repeated(axis: Any, ndim: int) -> tuple[int, ...]:
    """Like `normalize_axes`, of axes that may be named more than once, in their order."""
    return tuple(normalize_axis(each, ndim) for each in (axis if isinstance(axis, (tuple, list)) else (axis,)))


def as_shape(shape: Any) -> tuple[int, ...]:
    """Convert an integer or a sequence of integers to a shape."""
    if isinstance(shape, (tuple, list, np.ndarray)):
        return tuple(operator.index(size) for size in shape)
    return (operator.index(shape),)


def view_strides(shape: Sequence[int], strides: Strides, new_shape: Sequence[int]) -> Strides | None:
    """Strides of a reshaped view, in C order; None if the elements have to be copied."""
    if math.prod(shape) == 0:
        return contiguous_strides(new_shape)
    old = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    result: list[int] = []
    position = 0
    remaining = list(new_shape)
    while remaining:
        if remaining[0] == 1:
            result.append(1)
            remaining.pop(0)
            continue
        block = [old[position]]
        position += 1
        taken = [remaining.pop(0)]
        while math.prod(size for size, _ in block) != math.prod(taken):
            if math.prod(size for size, _ in block) < math.prod(taken):
                block.append(old[position])
                position += 1
            else:
                taken.append(remaining.pop(0))
        if any(outer != inner * size for (_, outer), (size, inner) in pairwise(block)):
            return None
        step = block[-1][1]
        result += [step * factor for factor in contiguous_strides(taken)]
    return tuple(result)


def reshape_to(x: TracedArray, shape: Sequence[int], copy: bool | None = None) -> TracedArray:
    """Reshape `x` in C order to the full `shape`: a view where NumPy gives one."""
    shape, old = tuple(shape), x.shape
    strides = view_strides(old, x.steps, shape)
    certain = [size for size in old if size != 1] == [size for size in shape if size != 1]
    if x.layout_known and not certain:
        certain = x.scope.root.depends_on_strides = True
    if copy or (strides is None and certain):
        if copy is False:
            raise ValueError("Unable to avoid creating a copy while reshaping.")
        return wrap(lowering.reshape(x.value, shape), scalar=False, strides=contiguous_strides(shape))
    if strides is None:
        strides = contiguous_strides(shape)
    return view_of(x, lambda value: lowering.reshape(value, shape), lambda base, value: lowering.reshape(value, old), strides,
                   ("reshape", shape), certain=certain)


def permute(x: TracedArray, permutation: Sequence[int]) -> TracedArray:
    """Return a view of `x` with its axes in this order."""
    order = tuple(permutation)
    back = tuple(order.index(axis) for axis in range(len(order)))
    return view_of(x, lambda value: lowering.transpose(value, order), lambda base, value: lowering.transpose(value, back),
                   tuple(x.steps[axis] for axis in order), ("transpose", order))


def complete_shape(shape: Any, size: int, old: Sequence[int], function: str = "reshape") -> tuple[int, ...]:
    """Replace the -1 in `shape`."""
    sizes = as_shape(shape)
    if sizes.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    known = math.prod(n for n in sizes if n != -1)
    if -1 in sizes and known and size % known == 0:
        sizes = tuple(size // known if n == -1 else n for n in sizes)
    if any(n < 0 for n in sizes) or math.prod(sizes) != size:
        raise ShapeError(f"{function}: an array of shape {tuple(old)} ({size} elements) cannot get the shape {as_shape(shape)} "
                         f"(shape '{list(as_shape(shape))}' is invalid for input of size {size})", find_user_location())
    return sizes


def order_of(x: TracedArray, order: str) -> str:
    """C or F for `order`: A is F for an array that lies so in memory. Refused where the memory layout is not known while tracing."""
    if order in ("C", "F"):
        return order
    if order != "A":
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})" if order != "K" else
                         "order 'K' is not permitted for reshaping")
    refuse(not x.layout_known, f"order={order!r} of an array whose memory layout depends on its arguments", "give order='C' or order='F'")
    x.scope.root.depends_on_strides = True
    steps = [(size, step) for size, step in zip(x.shape, x.steps, strict=True) if size > 1]
    fortran = contiguous_strides([size for size, _ in steps[::-1]])[::-1]
    return "F" if len(steps) > 1 and tuple(step for _, step in steps) == fortran else "C"


@implements(np.reshape)
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: bool | None = None) -> TracedArray:
    """Equivalent of `numpy.reshape`."""
    x = as_traced(a)
    sizes = complete_shape(shape if shape is not None else newshape, math.prod(x.shape), x.shape)
    if order_of(x, order) == "C":
        return reshape_to(x, sizes, copy)
    reverse = permute(x, range(x.ndim)[::-1])
    return permute(reshape_to(reverse, sizes[::-1], copy), range(len(sizes))[::-1])


@implements("set shape")
def set_shape(x: TracedArray, shape: Any) -> None:
    """Set `x.shape = shape`."""
    if x.immutable:
        raise AttributeError(f"attribute 'shape' of 'numpy.{x.dtype.type.__name__}' objects is not writable")
    _check_own(x, "gets another .shape")
    sizes = complete_shape(shape, x.size, x.shape)
    if view_strides(x.shape, x.steps, sizes) is None or not x.layout_known:
        raise AttributeError("Incompatible shape for in-place modification. Use `.reshape()` to make a copy with the desired shape.")
    if sizes != x.shape:
        x.take_shape(lowering.reshape(x.value, sizes), sizes)


@implements(np.ndarray.resize)
def resize_in_place(x: TracedArray, *new_shape: Any, refcheck: bool = True) -> None:
    """Equivalent of `x.resize(new_shape)`: elements in C order, then zeros."""
    shape = as_shape(new_shape[0] if len(new_shape) == 1 else new_shape)
    if any(size < 0 for size in shape):
        raise ValueError("negative dimensions are not allowed")
    count = math.prod(shape)
    if count == x.size:
        set_shape(x, shape)
        return
    if x.immutable or x.alias is not None:
        raise ValueError("cannot resize this array: it does not own its data")
    _check_own(x, "is resized")
    if x.steps != contiguous_strides(x.shape):
        raise ValueError("resize only works on single-segment arrays")
    flat = lowering.reshape(x.value, (x.size,))
    if count > x.size:
        flat = ops.concatenate(flat, lowering.constant(0, x.dtype, (count - x.size,)), axis=0)
    else:
        flat = ops.slice(flat, start=(0,), stop=(count,), step=(1,))
    x.take_shape(lowering.reshape(flat, shape), shape)


def _check_own(x: TracedArray, what: str) -> None:
    """Raise `UnsupportedError` for an array whose shape others see: the caller, or code outside of this loop body or branch."""
    scope = active_scope()
    if is_lazy(x) or scope is None or x.scope is not scope or (x.alias is None and x.scope.is_seen_outside(x)):
        raise UnsupportedError(f"an array that the function did not make here {what}", find_user_location(),
                               hint="write x = x.reshape(...): a view of the same elements, or x = np.pad(...), a new array")


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> TracedArray:
    """Equivalent of `numpy.ravel`: a view where the elements lie one after the other."""
    x = as_traced(a)
    if order == "K":
        refuse(not x.layout_known, "order='K' of an array whose memory layout depends on its arguments", "give order='C' or order='F'")
        x, order = permute(x, sorted(range(x.ndim), key=lambda dim: -abs(x.steps[dim]))), "C"
    order = order_of(x, order)
    if not x.layout_known:
        return reshape(x, -1, order)
    x.scope.root.depends_on_strides = True
    in_order = x if order == "C" else permute(x, range(x.ndim)[::-1])
    packed = all(size == 1 or stride == expected for size, stride, expected
                 in zip(in_order.shape, in_order.steps, contiguous_strides(in_order.shape), strict=True))
    return reshape(x, -1, order, copy=None if packed else True)


@implements(np.transpose)
def transpose(a: Any, axes: Any = None) -> TracedArray:
    """Equivalent of `numpy.transpose`."""
    x = as_traced(a)
    order = tuple(range(x.ndim))[::-1] if axes is None else normalize_axes(axes if np.ndim(axes) == 0 else tuple(axes), x.ndim)
    if len(order) != x.ndim:
        raise ValueError("axes don't match array")
    return permute(x, order)


if hasattr(np, "permute_dims"):
    implements(np.permute_dims)(transpose)


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> TracedArray:
    """Equivalent of `numpy.swapaxes`."""
    x = as_traced(a)
    order = list(range(x.ndim))
    first, second = normalize_axis(axis1, x.ndim), normalize_axis(axis2, x.ndim)
    order[first], order[second] = second, first
    return permute(x, order)


if hasattr(np, "matrix_transpose"):
    @implements(np.matrix_transpose)
    def matrix_transpose(x: Any, /) -> TracedArray:
        """Equivalent of `numpy.matrix_transpose`."""
        return swapaxes(x, -1, -2)


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> TracedArray:
    """Equivalent of `numpy.moveaxis`."""
    x = as_traced(a)
    sources, targets = normalize_axes(source, x.ndim), normalize_axes(destination, x.ndim)
    if len(sources) != len(targets):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return permute(x, order)


@implements(np.rollaxis)
def rollaxis(a: Any, axis: int, start: int = 0) -> TracedArray:
    """Equivalent of `numpy.rollaxis`."""
    x = as_traced(a)
    source = normalize_axis(axis, x.ndim)
    start = start + x.ndim if start < 0 else start
    order = [other for other in range(x.ndim) if other != source]
    order.insert(start - 1 if source < start else start, source)
    return permute(x, order)


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> TracedArray:
    """Equivalent of `numpy.expand_dims`."""
    x = as_traced(a)
    added = axis if isinstance(axis, (tuple, list)) else (axis,)
    count = x.ndim + len(added)
    axes = normalize_axes(added, count)
    sizes = iter(x.shape)
    return reshape_to(as_array(x), [1 if position in axes else next(sizes) for position in range(count)])


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> TracedArray:
    """Equivalent of `numpy.squeeze`."""
    x = as_traced(a)
    axes = tuple(i for i, size in enumerate(x.shape) if size == 1) if axis is None else normalize_reduced(axis, x.ndim)
    if any(x.shape[i] != 1 for i in axes):
        raise ShapeError(f"squeeze: an axis of {x.shape} chosen by axis={axis} is not of size 1", find_user_location())
    return reshape_to(x, [size for i, size in enumerate(x.shape) if i not in axes])


def read_only(x: TracedArray, read: Callable[[Value], Value], strides: Sequence[int]) -> TracedArray:
    """Make a view that follows `x` and cannot be written to."""
    return view_of(x, read, lambda base, value: base, tuple(strides), writable=False)


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> TracedArray:
    """Equivalent of `numpy.broadcast_to`: a read-only view."""
    x, sizes = as_array(array), as_shape(shape)
    offset = len(sizes) - x.ndim
    if offset < 0 or any(have not in (1, want) for have, want in zip(x.shape, sizes[offset:], strict=True)):
        raise ShapeError(f"broadcast_to: an array of shape {x.shape} cannot be broadcast to {sizes}", find_user_location())
    strides = [0] * offset + [stride if have == want else 0 for have, want, stride in zip(x.shape, sizes[offset:], x.steps, strict=True)]
    return read_only(x, lambda value: lowering.broadcast(value, sizes), strides)


@implements(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False) -> TracedArray:
    """Equivalent of `numpy.lib.stride_tricks.sliding_window_view`: a read-only view."""
    refuse(writeable, "sliding_window_view(writeable=True)", "write to the array itself")
    array, sizes = as_array(x), as_shape(window_shape)
    if any(size < 0 for size in sizes):
        raise ValueError("`window_shape` cannot contain negative values")
    axes = tuple(range(array.ndim)) if axis is None else normalize_repeated(axis, array.ndim)
    if len(sizes) != len(axes):
        raise ValueError("Since axis is None, must provide window_shape for all dimensions of `x`; got "
                         f"{len(sizes)} window_shape elements and `x.ndim` is {array.ndim}." if axis is None else
                         f"Must provide matching length window_shape and axis; got {len(sizes)} window_shape elements and {len(axes)} "
                         "axes elements.")
    outer = list(array.shape)
    for dim, size in zip(axes, sizes, strict=True):
        if outer[dim] < size:
            raise ValueError("window shape cannot be larger than input array shape")
        outer[dim] -= size - 1

    def read(value: Value) -> Value:
        for dim, size in zip(axes, sizes, strict=True):
            count = value.type.shape[dim] - size + 1
            start, offset = lowering.iota(I64, (count, size), 0), lowering.iota(I64, (count, size), 1)
            value = ops.take(value, ops.add(start, offset), axis=dim)
            value = lowering.transpose(value, [*(i for i in range(value.type.rank) if i != dim + 1), dim + 1])
        return value

    return read_only(array, read, (*array.steps, *(array.steps[dim] for dim in axes)))


@implements(np.broadcast_arrays)
def broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[TracedArray, ...]:
    """Equivalent of `numpy.broadcast_arrays`."""
    traced = [as_array(array) for array in arrays]
    try:
        shape = np.broadcast_shapes(*(x.shape for x in traced))
    except ValueError as error:
        raise ShapeError(f"broadcast_arrays: {error}", find_user_location()) from None
    if all(x.shape == shape for x in traced):
        return tuple(traced)        # NumPy returns its arguments
    return tuple(broadcast_to(x, shape) for x in traced)


def _at_least(count: int, new_shape: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Callable[..., Any]:
    def function(*arrays: Any) -> Any:
        results = tuple(x if x.ndim >= count else reshape_to(x, new_shape(x.shape)) for x in map(as_traced, arrays))
        return results[0] if len(results) == 1 else results

    return function


atleast_1d = implements(np.atleast_1d)(_at_least(1, lambda shape: (1,)))
atleast_2d = implements(np.atleast_2d)(_at_least(2, lambda shape: (1, *(shape or (1,)))))
atleast_3d = implements(np.atleast_3d)(_at_least(3, lambda shape: (1, *(shape or (1,)), 1) if len(shape) < 2 else (*shape, 1)))


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> TracedArray:
    """Equivalent of `numpy.flip`."""
    x = as_traced(m)
    axes = tuple(sorted(normalize_axes(axis, x.ndim)))
    if not axes:
        return x[()]

    def turn(value: Value) -> Value:
        return ops.flip(value, axes=axes)

    strides = tuple(-stride if i in axes else stride for i, stride in enumerate(x.steps))
    return view_of(x, turn, lambda base, value: turn(value), strides, ("flip", axes))


@implements(np.fliplr)
def fliplr(m: Any) -> TracedArray:
    """Equivalent of `numpy.fliplr`."""
    return flip(m, 1)


@implements(np.flipud)
def flipud(m: Any) -> TracedArray:
    """Equivalent of `numpy.flipud`."""
    return flip(m, 0)


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> TracedArray:
    """Equivalent of `numpy.rot90`."""
    x = as_traced(m)
    first, second = normalize_axes(tuple(axes), x.ndim)
    turned = {0: lambda: x, 1: lambda: swapaxes(flip(x, second), first, second), 2: lambda: flip(x, (first, second)),
              3: lambda: flip(swapaxes(x, first, second), second)}
    return turned[k % 4]()


def diagonal_indices(rows: int, columns: int, offset: int) -> tuple[int, int]:
    """Row-major index of the first element of a diagonal, and the number of its elements."""
    row, column = max(-offset, 0), max(offset, 0)
    return row * columns + column, max(min(rows - row, columns - column), 0)


@implements(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TracedArray:
    """Equivalent of `numpy.diagonal`: a read-only view, the diagonal in the last axis."""
    return diagonal_view(as_traced(a), offset, axis1, axis2, writable=False)


def diagonal_view(x: TracedArray, offset: int, axis1: int, axis2: int, writable: bool = True) -> TracedArray:
    """Return the diagonal of two axes as the last axis, in the memory of `x`."""
    if x.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    first, second = normalize_axes((axis1, axis2), x.ndim)
    rest = [axis for axis in range(x.ndim) if axis not in (first, second)]
    rows, columns = x.shape[first], x.shape[second]
    outer = tuple(x.shape[axis] for axis in rest)
    start, count = diagonal_indices(rows, columns, offset)

    order, none, ones = (*rest, first, second), (0,) * len(outer), (1,) * len(outer)
    begin, step = start if count else 0, columns + 1

    def flat(value: Value) -> Value:
        return lowering.reshape(lowering.transpose(value, order), (*outer, rows * columns))

    def read(value: Value) -> Value:
        stop = begin + (count - 1) * step + 1 if count else 0
        return ops.slice(flat(value), start=(*none, begin), stop=(*outer, stop), step=(*ones, step))

    def write(base: Value, value: Value) -> Value:
        written = ops.update_slice(flat(base), value, start=(*none, begin), step=(*ones, step)) if count else flat(base)
        return lowering.transpose(lowering.reshape(written, (*outer, rows, columns)), tuple(order.index(axis) for axis in range(x.ndim)))

    return view_of(x, read, write, (*(x.steps[axis] for axis in rest), x.steps[first] + x.steps[second]), writable=writable)


@implements(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> TracedArray:
    """Equivalent of `numpy.copy`: a new array that can be written to."""
    return in_order_of(wrap(as_traced(a).value, scalar=False), order)


def in_order_of(new: TracedArray, order: str) -> TracedArray:
    """Set the memory order of a new array to `order`; K follows the array that it was made of."""
    if order == "C":
        new._steps = contiguous_strides(new.shape)
    elif order != "K" and sum(size > 1 for size in new.shape) > 1:
        new.layout_known = False
    return new


def as_array(x: Any) -> TracedArray:
    """Convert as `as_traced` does; a scalar becomes an array of no dimension."""
    x = as_traced(x)
    return wrap(x.value, scalar=False) if x.immutable else x


@implements(np.shape)
def shape(a: Any) -> tuple[int, ...]:
    """Equivalent of `numpy.shape`."""
    return as_traced(a).shape


@implements(np.ndim)
def ndim(a: Any) -> int:
    """Equivalent of `numpy.ndim`."""
    return as_traced(a).ndim


@implements(np.size)
def size(a: Any, axis: Any = None) -> int:
    """Equivalent of `numpy.size`."""
    x = as_traced(a)
    return math.prod(x.shape[dim] for dim in normalize_axes(axis, x.ndim))


def refuse(condition: bool, what: str, hint: str | None = None) -> None:
    """Raise `UnsupportedError` where `condition` holds."""
    if condition:
        raise UnsupportedError(f"{what} is not supported", find_user_location(), hint)
