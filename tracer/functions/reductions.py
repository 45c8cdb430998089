"""Reductions along axes, and cumulative functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ShapeError
from adjit.ir.graph import Value
from adjit.ir.types import BOOL, F32, F64, is_complex, is_half, is_inexact, real_dtype
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.dispatch import dispatched, implements
from adjit.tracer.functions.shapes import expand_dims, normalize_axes, normalize_axis, normalize_reduced
from adjit.tracer.functions.ufuncs import broadcast_shapes, store, where
from adjit.tracer.masked_array import is_lazy
from adjit.tracer.promotion import dtype_argument, sum_dtype, to_value
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location

_no_value = np._NoValue     # NumPy's mark for an argument that was not given
Reduce = Callable[..., Value]


def given(argument: Any) -> bool:
    return argument is not _no_value and argument is not None


def reduce(op: Reduce, x: TracedArray, value: Value, axis: Any, keepdims: Any, out: Any, name: str) -> Any:
    """Reduce the axes of `value`, which has the shape of `x`, with `op`. A sum over no axes still is a sum: -0.0 becomes 0.0."""
    axes = tuple(sorted(normalize_reduced(axis, x.ndim)))
    result = op(value, axes=axes) if axes or op is ops.reduce_sum else value
    if keepdims is True or (given(keepdims) and keepdims):
        result = lowering.reshape(result, [1 if i in axes else size for i, size in enumerate(x.shape)])
    return store(wrap(result), out, name=name)


def masked(x: TracedArray, where_mask: Any, neutral: Any) -> TracedArray:
    """Set the elements of `x` that `where=` leaves out to the neutral element."""
    if where_mask is True or not given(where_mask):
        return x
    if broadcast_shapes("where=", x, as_traced(where_mask)) != x.shape:
        raise ShapeError(f"where= has the shape {np.shape(where_mask)}, which does not broadcast to the operand's shape, {x.shape}",
                         find_user_location())
    return where(where_mask, x, x.dtype.type(neutral))


def accumulation(ufunc: np.ufunc, op: Reduce, neutral: int) -> Callable[..., Any]:
    """Make `sum` or `prod`."""

    def function(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = _no_value,
                 where: Any = True) -> Any:
        x = as_traced(a)
        target = dtype_argument(dtype) if dtype is not None else sum_dtype(x.dtype)
        x = masked(x, where, neutral)
        if target == BOOL:
            return (any if ufunc is np.add else all)(x, axis, out, keepdims)
        result = reduce(op, x, lowering.convert(x.value, target), axis, keepdims, None, ufunc.__name__)
        return store(_beginning_with(ufunc, initial, result), out, name=ufunc.__name__)

    return function


def extremum(ufunc: np.ufunc, op: Reduce, sign: int) -> Callable[..., Any]:
    """Make `max` or `min`."""

    def function(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = _no_value, where: Any = True) -> Any:
        x = as_traced(a)
        if where is not True and given(where):
            if not given(initial):
                raise ValueError(f"reduction operation '{ufunc.__name__}' does not have an identity, so to use a where mask one has to "
                                 "specify 'initial'")
            limits = np.iinfo(x.dtype) if x.dtype != BOOL and not is_inexact(x.dtype) else None
            neutral = (-np.inf * sign if is_inexact(x.dtype) else sign < 0 if limits is None else limits.min if sign > 0 else limits.max)
            x = masked(x, where, neutral)
        axes = normalize_reduced(axis, x.ndim)
        if axes and not np.prod([x.shape[i] for i in axes]) and given(initial):
            rest = [1 if i in axes and keepdims is True else size for i, size in enumerate(x.shape) if i not in axes or keepdims is True]
            return store(wrap(lowering.constant(initial, x.dtype, tuple(rest))), out)
        if axes and not np.prod([x.shape[i] for i in axes]):
            raise ShapeError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity: {x.dtype}{list(x.shape)}",
                             find_user_location(), hint="give initial=")
        result = reduce(op, x, x.value, axis, keepdims, None, ufunc.__name__)
        return store(_beginning_with(ufunc, initial, result), out, name=ufunc.__name__)

    return function


def _beginning_with(ufunc: np.ufunc, initial: Any, result: TracedArray) -> TracedArray:
    """Combine `result` with the number of `initial=`, converted to the dtype of `result`."""
    if not given(initial):
        return result
    if np.shape(initial) != ():
        raise ShapeError(f"{ufunc.__name__}: initial= has the shape {np.shape(initial)}; it has to be one number", find_user_location())
    if not isinstance(initial, TracedArray):
        number = np.asarray(initial).item()
        initial = int(number) if result.dtype.kind in "iu" else number      # NumPy truncates
    return FUNCTIONS[ufunc](result, wrap(to_value(initial, result.dtype, ())))      # type: ignore[no-any-return]


def quantifier(op: Reduce, neutral: bool) -> Callable[..., Any]:
    """Make `any` or `all`."""

    def function(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
        x = as_traced(a)
        x = masked(wrap(lowering.convert(x.value, BOOL)), where, neutral)
        return reduce(op, x, x.value, axis, keepdims, out, "all" if neutral else "any")

    return function


def _named(name: str, function: Callable[..., Any], *numpy_functions: Any) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Equivalent of `numpy.{name}`."
    return implements(*numpy_functions)(function)


sum = _named("sum", accumulation(np.add, ops.reduce_sum, 0), np.sum)
prod = _named("prod", accumulation(np.multiply, ops.reduce_prod, 1), np.prod)
max = _named("max", extremum(np.maximum, ops.reduce_max, 1), np.max, np.amax)
min = _named("min", extremum(np.minimum, ops.reduce_min, -1), np.min, np.amin)
any = _named("any", quantifier(ops.reduce_or, False), np.any)
all = _named("all", quantifier(ops.reduce_and, True), np.all)


def _element_count(x: TracedArray, axis: Any, keepdims: Any, mask: Any) -> Any:
    """Number of elements in each mean."""
    if mask is True or not given(mask):
        return int(np.prod([x.shape[i] for i in normalize_axes(axis, x.ndim)], dtype=np.int64))
    shape = broadcast_shapes("mean", x, as_traced(mask))
    return sum(FUNCTIONS[np.broadcast_to](mask, shape), axis=axis, keepdims=keepdims, dtype=np.int64)


@implements(np.mean)
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    """Equivalent of `numpy.mean`; integers and bools are averaged in float64, float16 and bfloat16 in float32."""
    x = as_traced(a)
    target = dtype_argument(dtype) if dtype is not None else (x.dtype if is_inexact(x.dtype) else F64)
    total = sum(x, axis=axis, dtype=F32 if is_half(target) else target, keepdims=keepdims, where=where)
    result = FUNCTIONS["astype"](total / _element_count(x, axis, keepdims, where), target)
    return store(result, out, name="mean")


def _square_length(x: TracedArray) -> Any:
    """The square of the absolute value, as NumPy computes it."""
    if not is_complex(x.dtype):
        return FUNCTIONS[np.square](x)
    parts = ops.real(x.value), ops.imag(x.value)
    return wrap(ops.add(*(ops.multiply(part, part) for part in parts)))


FUNCTIONS["square of length"] = _square_length


@implements(np.var)
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *, where: Any = True,
        mean: Any = _no_value, correction: Any = _no_value) -> Any:
    """Equivalent of `numpy.var`: the mean square of the deviations from the mean, of float16 and bfloat16 computed in float32."""
    x = as_traced(a)
    target = dtype_argument(dtype) if dtype is not None else (x.dtype if is_inexact(x.dtype) else F64)
    x = x if is_complex(x.dtype) and not is_complex(target) else wrap(lowering.convert(x.value, F32 if is_half(target) else target))
    center = mean if given(mean) else FUNCTIONS[np.mean](x, axis=axis, keepdims=True, where=where)
    total = sum(_square_length(x - center), axis=axis, keepdims=keepdims, where=where)
    count = _element_count(x, axis, keepdims, where) - (correction if given(correction) else ddof)
    target = real_dtype(target)
    divisor = FUNCTIONS[np.maximum](count, 0) if isinstance(count, TracedArray) else count if count > 0 else 0
    return store(FUNCTIONS["astype"](total / divisor, target), out, name="var")


@implements(np.std)
def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *, where: Any = True,
        mean: Any = _no_value, correction: Any = _no_value) -> Any:
    """Equivalent of `numpy.std`. The derivative of a deviation of 0 is 0."""
    variance = var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    return store(FUNCTIONS["astype"](root(variance), variance.dtype), out, name="std")


def root(x: TracedArray, degree: float = 2.0) -> TracedArray:
    """Root of non-negative numbers; its derivatives at 0 are 0 instead of infinite."""
    zero = FUNCTIONS[np.equal](x, 0.0)
    inner = where(zero, 1.0, x)
    result = where(zero, 0.0, FUNCTIONS[np.sqrt](inner) if degree == 2 else FUNCTIONS[np.power](inner, 1.0 / degree))
    return result if is_lazy(result) else wrap(result.value)


@implements(np.average)
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    """Equivalent of `numpy.average`."""
    x = as_traced(a)
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        count = _element_count(x, axis, keepdims, True)
        return (result, FUNCTIONS[np.full_like](result, count)[()]) if returned else result
    w = as_traced(weights)
    if w.shape != x.shape:
        axes = normalize_axes(axis, x.ndim)
        if axis is None or w.shape != tuple(x.shape[i] for i in axes):
            raise ShapeError(f"average: weights of shape {w.shape} for an array of shape {x.shape} and axis={axis}", find_user_location())
        w = FUNCTIONS[np.transpose](w, sorted(range(w.ndim), key=axes.__getitem__))
        w = expand_dims(w, tuple(i for i in range(x.ndim) if i not in axes))
    if not is_inexact(x.dtype) and not is_inexact(w.dtype):
        x = FUNCTIONS["astype"](x, F64)
    total = sum(FUNCTIONS[np.multiply](w, FUNCTIONS[np.ones_like](x)), axis=axis, keepdims=keepdims)
    result = sum(x * w, axis=axis, keepdims=keepdims) / total
    return (result, total) if returned else result


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """Equivalent of `numpy.ptp`."""
    return store(max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims), out, name="ptp")


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Equivalent of `numpy.count_nonzero`."""
    return sum(FUNCTIONS["astype"](a, BOOL), axis=axis, keepdims=keepdims)


def _arg_extremum(op: Callable[..., Value], name: str) -> Callable[..., Any]:
    def function(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        x = as_traced(a)
        flat = wrap(lowering.reshape(x.value, (x.size,))) if axis is None or not x.ndim else x
        dim = normalize_axis(0 if axis is None else axis, flat.ndim)
        if not flat.shape[dim]:
            raise ShapeError(f"attempt to get {name} of an empty sequence", find_user_location())
        result = op(flat.value, axis=dim)
        if keepdims is True:
            result = lowering.reshape(result, [1 if axis is None or i == dim else size for i, size in enumerate(x.shape)])
        return store(wrap(result), out, name=name)

    return function


argmax = _named("argmax", _arg_extremum(ops.argmax, "argmax"), np.argmax)
argmin = _named("argmin", _arg_extremum(ops.argmin, "argmin"), np.argmin)


def _cumulative(op: Callable[..., Value], name: str) -> Callable[..., Any]:
    def function(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        x = as_traced(a)
        target = dtype_argument(dtype) if dtype is not None else sum_dtype(x.dtype)
        value = lowering.reshape(x.value, (x.size,)) if axis is None or not x.ndim else x.value
        dim = normalize_axis(0 if axis is None else axis, value.type.rank)
        return store(wrap(op(lowering.convert(value, target), axis=dim, reverse=False)), out, name=name)

    return function


cumsum = _named("cumsum", _cumulative(ops.cumsum, "cumsum"), np.cumsum)
cumprod = _named("cumprod", _cumulative(ops.cumprod, "cumprod"), np.cumprod)


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = _no_value, append: Any = _no_value) -> TracedArray:
    """Equivalent of `numpy.diff`."""
    x = as_traced(a)
    dim = normalize_axis(axis, x.ndim)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    around: list[list[TracedArray]] = []
    for extra in (prepend, append):
        if extra is _no_value:
            around.append([])
            continue
        piece = as_traced(extra)
        around.append([piece if piece.ndim else FUNCTIONS[np.broadcast_to](piece, [1 if i == dim else s for i, s in enumerate(x.shape)])])
    if around[0] or around[1]:
        x = FUNCTIONS[np.concatenate]([*around[0], x, *around[1]], axis=dim)
    for _ in range(n):
        size = x.shape[dim]
        low, high = (wrap(lowering.slice_axis(x.value, dim, *bounds)) for bounds in ((0, size and size - 1), (size and 1, size)))
        x = FUNCTIONS[np.not_equal if x.dtype == BOOL else np.subtract](high, low)
    return x


def _reduce_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make `ufunc.reduce`: along axis 0 by default."""
    def call(a: Any, axis: Any = 0, *args: Any, **kwargs: Any) -> Any:
        return function(a, axis, *args, **kwargs)

    call.__name__ = function.__name__
    return dispatched(call)


def _logical_method(ufunc: np.ufunc, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(a: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = _no_value,
             where: Any = True) -> Any:
        result = function(a, axis, None, keepdims, where=where)
        result = FUNCTIONS[ufunc](initial, result) if given(initial) else result
        return store(result if dtype is None else FUNCTIONS["astype"](result, dtype), out, name=ufunc.__name__)

    call.__name__ = function.__name__
    return dispatched(call)


def _extremum_method(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(a: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = _no_value,
             where: Any = True) -> Any:
        return function(a if dtype is None else FUNCTIONS["astype"](a, dtype), axis, out, keepdims, initial, where)

    call.__name__ = function.__name__
    return dispatched(call)


def _accumulate_method(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(a: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        if not np.ndim(a):
            raise TypeError("cannot accumulate on a scalar")
        return function(a, axis, dtype, out)

    call.__name__ = function.__name__
    return dispatched(call)


FUNCTIONS[np.add, "reduce"] = _reduce_method(sum)
FUNCTIONS[np.multiply, "reduce"] = _reduce_method(prod)
FUNCTIONS[np.maximum, "reduce"] = _extremum_method(max)
FUNCTIONS[np.minimum, "reduce"] = _extremum_method(min)
FUNCTIONS[np.logical_or, "reduce"] = _logical_method(np.logical_or, any)
FUNCTIONS[np.logical_and, "reduce"] = _logical_method(np.logical_and, all)
FUNCTIONS[np.add, "accumulate"] = _accumulate_method(cumsum)
FUNCTIONS[np.multiply, "accumulate"] = _accumulate_method(cumprod)
