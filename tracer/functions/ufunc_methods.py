"""`reduce`, `accumulate`, `reduceat`, `outer` and `at` of universal functions that have no op of their own for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce as fold
from itertools import pairwise
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ShapeError, UnsupportedError
from adjit.ir.graph import Value
from adjit.ir.types import BOOL, I64, dtype_kind
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions.indexing import fixed
from adjit.tracer.functions.reductions import given
from adjit.tracer.functions.shapes import as_array, expand_dims, moveaxis, normalize_axes, normalize_axis, reshape_to
from adjit.tracer.functions.ufuncs import store
from adjit.tracer.promotion import as_operand, resolve, to_value
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location

_FEW = 16
"""Up to so many elements are combined one after the other, as NumPy does; more by halves, where the function is associative."""

_ASSOCIATIVE = (np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.logaddexp, np.logaddexp2, np.hypot, np.bitwise_and,
                np.bitwise_or, np.bitwise_xor, np.logical_and, np.logical_or, np.logical_xor)


_EXTREMES = {np.maximum: ops.cummax, np.minimum: ops.cummin}

_IN_ONE_PASS = {np.fmax: np.nanmax, np.fmin: np.nanmin}
"""Functions that combine the elements of real arrays as the ufunc does: halves are a pass each."""

_OTHERWISE_REORDERABLE = (np.gcd, np.equal, np.not_equal)


def _axis_size(x: TracedArray, axis: Any) -> tuple[TracedArray, int]:
    """Return `x` with the axis in front, and its size."""
    front = moveaxis(x, normalize_axis(axis, x.ndim), 0)
    return front, front.shape[0]


def in_loop_dtype(ufunc: np.ufunc, a: Any, dtype: Any) -> TracedArray:
    """Convert `a` to the dtype in which NumPy combines its elements; raises `TypeError` if the ufunc gives another dtype than it takes."""
    x = as_traced(a)
    asked: dict[str, Any] = {} if dtype is None else {"signature": (np.dtype(dtype), None, None)}
    _, kind, result = ufunc.resolve_dtypes((None, x.dtype, None), casting="unsafe", reduction=True, **asked)
    return FUNCTIONS["astype"](x, kind) if kind == result and kind != x.dtype else x        # type: ignore[no-any-return]


def _combined(ufunc: np.ufunc, x: TracedArray) -> TracedArray:
    """Combine the elements along the first axis."""
    call, size = FUNCTIONS[ufunc], x.shape[0]
    if not size:
        if ufunc.identity is None:
            raise ShapeError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity", find_user_location(),
                             hint="give initial=")
        return call(as_traced(ufunc.identity), FUNCTIONS[np.zeros_like](x, shape=x.shape[1:]))      # type: ignore[no-any-return]
    if size <= _FEW or ufunc not in _ASSOCIATIVE:
        _refuse_many(ufunc, size)
        return fold(call, (x[i] for i in range(size)))
    if ufunc in _IN_ONE_PASS and dtype_kind(x.dtype) != "c":
        return FUNCTIONS[_IN_ONE_PASS[ufunc]](x, 0)     # type: ignore[no-any-return]
    while size > 1:
        half = size // 2
        pairs = call(x[:2 * half:2], x[1:2 * half:2])
        x = FUNCTIONS[np.concatenate]([pairs, x[2 * half:]]) if size % 2 else pairs
        size = x.shape[0]
    return x[0]


def _refuse_many(ufunc: np.ufunc, size: int) -> None:
    if size > 1000:
        raise UnsupportedError(f"numpy.{ufunc.__name__}.reduce of {size} elements, which depends on their order", find_user_location(),
                               hint="write it with np.sum or np.prod, or with aj.scan")


def _combined_where(ufunc: np.ufunc, x: TracedArray, mask: TracedArray) -> TracedArray:
    """Combine the elements along the first axis that the mask chooses; the first ones are always chosen."""
    call, where, size = FUNCTIONS[ufunc], FUNCTIONS[np.where], x.shape[0]
    if ufunc not in _ASSOCIATIVE:
        _refuse_many(ufunc, size)
        result = x[0]
        for i in range(1, size):
            result = where(mask[i], call(result, x[i]), result)
        return result       # type: ignore[no-any-return]
    while size > 1:
        half = size // 2
        (a, b), (chosen, other) = ((each[:2 * half:2], each[1:2 * half:2]) for each in (x, mask))
        pairs, masks = where(other, where(chosen, call(a, b), b), a), chosen | other
        x = FUNCTIONS[np.concatenate]([pairs, x[2 * half:]]) if size % 2 else pairs
        mask = FUNCTIONS[np.concatenate]([masks, mask[2 * half:]]) if size % 2 else masks
        size = x.shape[0]
    return x[0]


def _in_front(x: TracedArray, axes: tuple[int, ...]) -> TracedArray:
    """The array with these axes as one in front."""
    if not axes:
        return x[None]      # type: ignore[no-any-return]
    front = moveaxis(x, axes, range(len(axes)))
    return reshape_to(front, (math.prod(front.shape[:len(axes)]), *front.shape[len(axes):]))


def _reduce_of(ufunc: np.ufunc) -> Callable[..., Any]:
    def call(a: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = np._NoValue,
             where: Any = True) -> Any:
        x = in_loop_dtype(ufunc, a, dtype)
        axes = normalize_axes(axis, x.ndim)
        if len(axes) > 1 and ufunc not in _ASSOCIATIVE and ufunc not in _OTHERWISE_REORDERABLE:
            raise ValueError(f"reduction operation '{ufunc.__name__}' is not reorderable, so at most one axis may be specified")
        rows = _in_front(x, axes)
        if where is not True and not given(initial):
            initial = ufunc.identity
            if initial is None:
                raise ValueError(f"reduction operation '{ufunc.__name__}' does not have an identity, so to use a where mask one has to "
                                 "specify 'initial'")
        if given(initial) and initial is not None:
            first = FUNCTIONS[np.full_like](rows, initial, shape=(1, *rows.shape[1:]))
            rows = FUNCTIONS[np.concatenate]([first, rows])
        if where is True:
            result = _combined(ufunc, rows)
        else:
            mask = _in_front(FUNCTIONS[np.broadcast_to](FUNCTIONS["astype"](where, bool), x.shape), axes)
            chosen = FUNCTIONS[np.ones_like](mask, shape=(1, *mask.shape[1:]))
            result = _combined_where(ufunc, rows, FUNCTIONS[np.concatenate]([chosen, mask]))
        if keepdims is True:
            result = expand_dims(result, tuple(sorted(axes)))
        return store(wrap(result.value), out, name=ufunc.__name__)

    return call


def _shifted(x: TracedArray, step: int) -> TracedArray:
    """Elements `step` before each one along the first axis; the first ones are not used."""
    return FUNCTIONS[np.concatenate]([x[:step], x[:-step]])     # type: ignore[no-any-return]


def running(ufunc: np.ufunc, x: TracedArray, starts: TracedArray | None = None) -> TracedArray:
    """Combine all elements up to each one along the first axis, or those from the last start on; by steps of powers of two."""
    call, size, step = FUNCTIONS[ufunc], x.shape[0], 1
    index = wrap(lowering.iota(I64, (size,), 0), scalar=False)
    begin = starts

    def column(mask: TracedArray) -> TracedArray:
        return reshape_to(mask, (size, *(1,) * (x.ndim - 1)))

    while step < size:
        use = FUNCTIONS[np.greater_equal](index, step)
        if begin is not None:
            use = use & FUNCTIONS[np.logical_not](begin)
        x = FUNCTIONS[np.where](column(use), call(_shifted(x, step), x), x)
        if begin is not None:
            begin = begin | (_shifted(begin, step) & FUNCTIONS[np.greater_equal](index, step))
        step *= 2
    return x


def _accumulate_of(ufunc: np.ufunc) -> Callable[..., Any]:
    def call(a: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        x = in_loop_dtype(ufunc, a, dtype)
        if not x.ndim:
            raise TypeError("cannot accumulate on a scalar")
        dim = normalize_axis(axis, x.ndim)
        if ufunc in _EXTREMES and dtype_kind(x.dtype) in "iuf":
            return store(wrap(_EXTREMES[ufunc](x.value, axis=dim, reverse=False), scalar=False), out, name=ufunc.__name__)
        front, size = _axis_size(x, dim)
        if ufunc in _ASSOCIATIVE and size > _FEW:
            result = running(ufunc, front)
        else:
            if size > 1000:
                raise UnsupportedError(f"numpy.{ufunc.__name__}.accumulate of {size} elements, which depends on their order",
                                       find_user_location(), hint="write it with np.cumsum or np.cumprod, or with aj.scan")
            rows: list[TracedArray] = []
            for i in range(size):
                rows.append(FUNCTIONS[ufunc](rows[-1], front[i]) if rows else front[i])
            result = FUNCTIONS[np.stack](rows) if rows else front
        return store(wrap(moveaxis(result, 0, dim).value, scalar=False), out, name=ufunc.__name__)

    return call


def _reduceat_of(ufunc: np.ufunc) -> Callable[..., Any]:
    def call(a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        x = in_loop_dtype(ufunc, a, dtype)
        if isinstance(indices, TracedArray):
            raise UnsupportedError(f"numpy.{ufunc.__name__}.reduceat at traced indices", find_user_location(),
                                   hint="np.add.at adds rows to groups with traced numbers")
        dim = normalize_axis(axis, x.ndim)
        front, size = _axis_size(x, dim)
        firsts = fixed(np.asarray(indices, np.int64))
        if firsts.size and not 0 <= int(firsts.min()) <= int(firsts.max()) < size:
            raise IndexError(f"index {int(firsts.max())} out-of-bounds in {ufunc.__name__}.reduceat [0, {size})")
        bounds = [*firsts.tolist(), size]
        if ufunc is np.add and len(bounds) > _FEW and bounds == sorted(set(bounds)):
            group = fixed(np.repeat(np.arange(firsts.size), np.diff(bounds)))
            kept = front[bounds[0]:]
            base = lowering.constant(0, x.dtype, (firsts.size, *front.shape[1:]))
            result = wrap(ops.scatter_add(base, as_traced(group).value, kept.value, axis=0))
        else:
            reduce = FUNCTIONS[ufunc, "reduce"]
            parts = [reduce(front[i:j]) if i < j else front[i] for i, j in pairwise(bounds)]
            result = FUNCTIONS[np.stack](parts) if parts else front[:0]
        return store(wrap(moveaxis(result, 0, dim).value, scalar=False), out, name=ufunc.__name__)

    return call


# -- at: in place, repeated indices count each time


def _places(shape: tuple[int, ...], indices: Any) -> Value:
    """Flat places that an index chooses in an array of this shape."""
    size = int(np.prod(shape, dtype=np.int64))
    grid = wrap(lowering.reshape(lowering.iota(I64, (size,), 0), shape), scalar=False)
    return grid[indices].value      # type: ignore[no-any-return]


def _at(ufunc: np.ufunc) -> Callable[..., None]:
    def call(a: Any, indices: Any, *others: Any) -> None:
        x = as_array(a)
        places = _places(x.shape, indices)
        if ufunc.nin == 1:
            flat = reshape_to(wrap(x.value, scalar=False), (x.size,))
            flat[wrap(places)] = FUNCTIONS[ufunc](flat[wrap(places)])
            store(reshape_to(flat, x.shape), a, name=f"{ufunc.__name__}.at")
            return
        (other,) = others
        operand = as_operand(other)
        dtype = resolve(ufunc, (x, operand))[-1]
        if not np.can_cast(dtype, x.dtype, "same_kind"):        # NumPy converts each partial result
            raise UnsupportedError(f"numpy.{ufunc.__name__}.at of {x.dtype} with values that give {dtype}", find_user_location(),
                                   hint=f"convert the values first: .astype({str(x.dtype)!r})")
        shape = np.broadcast_shapes(places.type.shape, np.shape(other) if not isinstance(other, TracedArray) else other.shape)
        if shape != places.type.shape:
            raise ShapeError(f"{ufunc.__name__}.at: values of shape {shape} for {places.type.shape} places", find_user_location())
        count = int(np.prod(shape, dtype=np.int64))
        values = lowering.reshape(to_value(operand, x.dtype, shape), (count,))
        targets, base = lowering.reshape(places, (count,)), lowering.reshape(x.value, (x.size,))
        if ufunc in (np.add, np.subtract) and x.dtype != BOOL:
            values = values if ufunc is np.add else ops.negative(values) if x.dtype.kind != "u" else ops.subtract(
                lowering.constant(0, x.dtype, (count,)), values)
            result = ops.scatter_add(base, targets, values, axis=0)
        elif not count or not x.size:
            result = base
        else:
            result = _combined_at(ufunc, base, targets, values)
        store(reshape_to(wrap(result, scalar=False), x.shape), a, name=f"{ufunc.__name__}.at")

    return call


def _combined_at(ufunc: np.ufunc, base: Value, targets: Value, values: Value) -> Value:
    """Combine elements with all values for the same place: values are sorted by place, then combined by segments."""
    inner = np.multiply if ufunc is np.divide else ufunc
    if inner not in _ASSOCIATIVE:
        return _one_by_one(ufunc, base, targets, values)
    order = ops.argsort(targets, axis=0)
    places, sorted_values = ops.take(targets, order, axis=0), ops.take(values, order, axis=0)
    count = places.type.shape[0]
    differs = ops.not_equal(lowering.slice_axis(places, 0, 1, count), lowering.slice_axis(places, 0, 0, count - 1))
    true = lowering.constant(True, BOOL, (1,))
    starts = wrap(ops.concatenate(true, differs, axis=0), scalar=False)
    totals = running(inner, wrap(sorted_values, scalar=False), starts).value
    last = ops.concatenate(differs, true, axis=0)
    size = base.type.shape[0]
    bins = ops.select(last, places, ops.full_like(places, size))        # only the last of a segment is written
    padded = lowering.constant(0, base.type.dtype, (size + 1,))
    spread = lowering.slice_axis(ops.scatter_set(padded, bins, totals, axis=0), 0, 0, size)
    touched = lowering.slice_axis(ops.scatter_set(lowering.constant(False, BOOL, (size + 1,)), bins,
                                                  lowering.constant(True, BOOL, (count,)), axis=0), 0, 0, size)
    combined = FUNCTIONS[ufunc](wrap(base, scalar=False), wrap(spread, scalar=False)).value
    return ops.select(touched, lowering.convert(combined, base.type.dtype), base)


def _one_by_one(ufunc: np.ufunc, base: Value, targets: Value, values: Value) -> Value:
    """Combine an element with one value after the other, for functions in which the order counts."""
    (count,) = targets.type.shape
    if count > 1000:
        raise UnsupportedError(f"numpy.{ufunc.__name__}.at of {count} values, which depends on their order", find_user_location(),
                               hint="x[index] = function(x[index], values) works where no index is repeated")
    for i in range(count):
        place, value = (lowering.slice_axis(each, 0, i, i + 1) for each in (targets, values))
        old = wrap(ops.take(base, place, axis=0), scalar=False)
        new = FUNCTIONS[ufunc](old, wrap(value, scalar=False)).value
        base = ops.scatter_set(base, place, lowering.convert(new, base.type.dtype), axis=0)
    return base


def _outer_of(ufunc: np.ufunc) -> Callable[..., Any]:
    def call(a: Any, b: Any, **kwargs: Any) -> Any:
        first, second = (wrap(x.value) if x.weak else x for x in (as_traced(a), as_traced(b)))     # arrays: no number is weak here
        return FUNCTIONS[ufunc](first[(..., *(None,) * second.ndim)], second, **kwargs)

    call.__name__ = ufunc.__name__
    return dispatched(call)


def _install() -> None:
    binary = [key for key in FUNCTIONS if isinstance(key, np.ufunc) and key.nin == 2 and key.nout == 1 and key.signature is None]
    unary = [key for key in FUNCTIONS if isinstance(key, np.ufunc) and key.nin == 1 and key.nout == 1]
    for ufunc in binary:
        for name, make in (("reduce", _reduce_of), ("accumulate", _accumulate_of), ("reduceat", _reduceat_of), ("outer", _outer_of),
                           ("at", _at)):
            if (ufunc, name) not in FUNCTIONS:
                function = make(ufunc)
                function.__name__ = ufunc.__name__
                FUNCTIONS[ufunc, name] = dispatched(function)
    for ufunc in unary:
        FUNCTIONS[ufunc, "at"] = dispatched(_at(ufunc))


_install()
