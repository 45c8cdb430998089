"""Functions that make new arrays. Within a trace the arrays are traced, and can be written to."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ArgumentError
from adjit.ir.types import F64, I64, is_inexact, real_dtype
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, contains_traced, known_value, view_of, wrap
from adjit.tracer.dispatch import implements, makes
from adjit.tracer.functions.shapes import as_array, as_shape, in_order_of
from adjit.tracer.masked_array import known_integer
from adjit.tracer.promotion import Casting, as_operand, common_dtype, dtype_argument, kind_of, to_value
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location


def _filled(number: Any, dtype: np.dtype, shape: tuple[int, ...]) -> TracedArray:
    if any(size < 0 for size in shape):
        raise ValueError("negative dimensions are not allowed")
    return wrap(lowering.constant(number, dtype, shape), scalar=False)


@makes(np.zeros)
def zeros(shape: Any, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None) -> TracedArray:
    """Equivalent of `numpy.zeros`.

    >>> zeros(2)
    array([0., 0.])
    """
    return _filled(0, dtype_argument(dtype), as_shape(shape))


@makes(np.ones)
def ones(shape: Any, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None) -> TracedArray:
    """Equivalent of `numpy.ones`.

    >>> ones((2, 1), "float32")
    array([[1.],
           [1.]], dtype=float32)
    """
    return _filled(1, dtype_argument(dtype), as_shape(shape))


@makes(np.empty)
def empty(shape: Any, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None) -> TracedArray:
    """Equivalent of `numpy.empty`; in a trace the array is filled with zeros.

    >>> empty(2).shape
    (2,)
    """
    return _filled(0, dtype_argument(dtype), as_shape(shape))


@makes(np.full)
def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> TracedArray:
    """Equivalent of `numpy.full`; `fill_value` may be traced.

    >>> full((2, 2), [1.0, 2.0])
    array([[1., 2.],
           [1., 2.]])
    """
    operand = as_operand(fill_value)
    kind = kind_of(operand)
    target = dtype_argument(dtype if dtype is not None else F64 if kind is float else I64 if kind is int else kind)
    if isinstance(operand, TracedArray):
        return FUNCTIONS[np.copy](FUNCTIONS[np.broadcast_to](FUNCTIONS["astype"](operand, target), as_shape(shape)))
    if target.kind in "iu" and kind is float:
        operand = np.float64(operand)       # type: ignore[arg-type]      # truncated, where a Python number has to fit
    return wrap(to_value(operand, target, as_shape(shape)), scalar=False)


def _check_device(device: Any) -> None:
    """Raise NumPy's error for a device that is none of the array's."""
    if device is not None and str(device) != "cpu":
        raise ArgumentError(f'Device not understood. Only "cpu" is allowed, but received: {device}', find_user_location(),
                            hint="leave device= out: the array lies where its program runs")


def _like(number: int | None) -> Any:
    def function(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> TracedArray:
        _check_device(device)
        x = as_traced(a)
        kind = x.dtype if dtype is None else dtype_argument(dtype)
        return in_order_of(_filled(number or 0, kind, x.shape if shape is None else as_shape(shape)), order)

    name = {0: "zeros_like", 1: "ones_like", None: "empty_like"}[number]
    function.__name__, function.__doc__ = name, f"Equivalent of `numpy.{name}`{', filled with zeros' if number is None else ''}."
    return function


zeros_like = implements(np.zeros_like)(_like(0))
ones_like = implements(np.ones_like)(_like(1))
empty_like = implements(np.empty_like)(_like(None))


@implements(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
              device: Any = None) -> TracedArray:
    """Equivalent of `numpy.full_like`."""
    _check_device(device)
    x = as_traced(a)
    return full(x.shape if shape is None else shape, fill_value, x.dtype if dtype is None else dtype)


@makes(np.array)
def array(object: Any, dtype: Any = None, *, copy: bool | None = True, order: str = "K", subok: bool = False, ndmin: int = 0,
          like: Any = None) -> TracedArray:
    """Equivalent of `numpy.array`; nested lists may hold traced arrays, which are stacked. Raises `ArgumentError` if `copy=False` fails.

    >>> array([1, 2])
    array([1, 2])
    """
    of_lists = isinstance(object, (list, tuple)) and contains_traced(object)
    x = as_traced(object) if of_lists or not isinstance(object, (list, tuple)) else as_traced(np.asarray(object))
    if of_lists and copy is not False and (dtype is None or x.dtype == np.dtype(dtype)) and x.ndim >= ndmin:
        return x        # a new one
    kept = not copy and isinstance(object, TracedArray) and (dtype is None or x.dtype == np.dtype(dtype))
    if copy is False and not kept:
        raise ArgumentError("Unable to avoid copy while creating an array as requested.", find_user_location(),
                            hint="copy=None copies only where it is needed")
    result = as_array(x if kept else FUNCTIONS["astype"](x, x.dtype if dtype is None else dtype))
    if result.ndim >= ndmin:
        return result       # of what a mask chose nobody asks for the shape
    return FUNCTIONS[np.reshape](result, (1,) * (ndmin - result.ndim) + result.shape)


@makes(np.asarray)
def asarray(a: Any, dtype: Any = None, order: str = "K", *, device: Any = None, copy: bool | None = None, like: Any = None
            ) -> TracedArray:
    """Equivalent of `numpy.asarray`; a traced array stays what it is, unless `dtype` is another.

    >>> asarray([1, 2], dtype="float64")
    array([1., 2.])
    """
    if copy:
        return array(a, dtype)
    x = as_array(a)
    return x if dtype is None or x.dtype == np.dtype(dtype) else FUNCTIONS["astype"](x, dtype)


@makes(np.ascontiguousarray)
def ascontiguousarray(a: Any, dtype: Any = None) -> TracedArray:
    """Equivalent of `numpy.ascontiguousarray`."""
    return _in_memory_order(a, dtype, "C")


@makes(np.asfortranarray)
def asfortranarray(a: Any, dtype: Any = None) -> TracedArray:
    """Equivalent of `numpy.asfortranarray`."""
    return _in_memory_order(a, dtype, "F")


def _in_memory_order(a: Any, dtype: Any, order: str) -> TracedArray:
    """Return an array itself if it has this memory order, else a copy; what is not known can be read, and not be written to."""
    x = as_array(a)
    if dtype is not None and x.dtype != np.dtype(dtype):
        return in_order_of(FUNCTIONS["astype"](x, dtype), order)
    x = FUNCTIONS[np.reshape](x, x.shape or (1,))
    steps = tuple(step for size, step in zip(x.shape, x.steps, strict=True) if size > 1)
    sizes = [size for size in x.shape if size > 1]
    wanted = lowering.contiguous_strides(sizes if order == "C" else sizes[::-1])
    if x.layout_known and (steps != (wanted if order == "C" else wanted[::-1])):
        return in_order_of(FUNCTIONS[np.copy](x), order)
    return x if x.layout_known else view_of(x, lambda value: value, lambda base, value: value, None, certain=False)


@makes(np.arange)
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None, like: Any = None) -> TracedArray:
    """Equivalent of `numpy.arange`. Of traced bounds the number of elements is guarded.

    >>> arange(3)
    array([0, 1, 2])
    """
    first, last = (0, start) if stop is None else (start, stop)
    if any(isinstance(bound, TracedArray) for bound in (first, last, step)):
        return _traced_range(first, last, step, dtype)
    example: np.ndarray = np.arange(first, first, step, dtype)      # type: ignore[call-overload]  # NumPy decides the dtype
    target = dtype_argument(example.dtype)
    count = max(math.ceil((last - first) / step), 0)
    index = lowering.iota(I64 if target.kind in "biu" else target, (count,), 0)
    if first != 0 or step != 1:
        kind = index.type.dtype
        index = ops.add(ops.multiply(index, lowering.constant(step, kind, (count,))), lowering.constant(first, kind, (count,)))
    return wrap(lowering.convert(index, target))


def _traced_range(first: Any, last: Any, step: Any, dtype: Any) -> TracedArray:
    """`arange` of which something is traced. NumPy adds multiples of the difference of the first two elements."""
    target = np.result_type(I64, *(as_traced(x).dtype for x in (first, last, step))) if dtype is None else dtype_argument(dtype)
    rounds = FUNCTIONS[np.ceil](FUNCTIONS[np.true_divide](FUNCTIONS[np.subtract](last, first), step))
    count = known_integer(rounds, "np.arange with traced bounds has a shape that depends on values",
                          "give bounds that are ordinary numbers, or np.arange(n) * step + start with a number n")
    index = wrap(lowering.iota(I64 if target.kind in "biu" else target, (max(count, 0),), 0), scalar=False)
    delta = FUNCTIONS[np.subtract](FUNCTIONS[np.add](first, step), first)
    return FUNCTIONS["astype"](FUNCTIONS[np.add](first, index * delta), target)     # type: ignore[no-any-return]


@implements(np.linspace)
def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0, *,
             device: Any = None) -> Any:
    """Equivalent of `numpy.linspace`.

    >>> linspace(0.0, 1.0, 3)
    array([0. , 0.5, 1. ])
    """
    count = operator.index(num)
    if count < 0:
        raise ValueError(f"Number of samples, {count}, must be non-negative.")
    parts = count - 1 if endpoint else count
    common = common_dtype([as_operand(start), as_operand(stop)])
    low, high = (FUNCTIONS["astype"](x, common if is_inexact(common) else F64) for x in (start, stop))
    width = FUNCTIONS[np.subtract](high, low)
    index = wrap(lowering.iota(real_dtype(width.dtype), (count,), 0)) if count else zeros(0, width.dtype)
    index = FUNCTIONS[np.reshape](index, (count, *(1,) * width.ndim))
    step = width / parts if parts > 0 else wrap(lowering.constant(np.nan, F64))
    result = index * (step if parts > 0 else width) + low
    if endpoint and count > 1:
        result = FUNCTIONS[np.where](FUNCTIONS[np.equal](index, count - 1), high, result)
    target = np.dtype(dtype) if dtype is not None else result.dtype
    if target.kind in "iu":
        result = FUNCTIONS[np.floor](result)
    result = FUNCTIONS["astype"](result, target)
    result = FUNCTIONS[np.moveaxis](result, 0, axis) if axis != 0 else result
    return (result, step) if retstep else result


@implements(np.logspace)
def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0) -> Any:
    """Equivalent of `numpy.logspace`."""
    root = base
    if np.ndim(base) > 0:
        ndim = np.broadcast(np.empty(np.shape(start)), np.empty(np.shape(stop)), np.empty(np.shape(base))).ndim
        start, stop, root = (FUNCTIONS[np.reshape](x, (1,) * (ndim - x.ndim) + x.shape) for x in map(as_traced, (start, stop, base)))
        root = FUNCTIONS[np.expand_dims](root, axis)
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    result = FUNCTIONS[np.power](root, exponents)
    return result if dtype is None else FUNCTIONS["astype"](result, dtype)


@implements(np.geomspace)
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    """Equivalent of `numpy.geomspace` of numbers of one sign. Bounds that are 0 or of different signs give NaN if they are traced."""
    low, high = (FUNCTIONS["astype"](x, np.result_type(x.dtype, F64)) for x in (as_traced(start), as_traced(stop)))
    for bound in (start, stop):
        if not contains_traced(bound) and np.any(np.equal(bound, 0)):
            raise ValueError("Geometric sequence cannot include zero")
    sign = FUNCTIONS[np.sign](low)
    low, high = low / sign, high / sign
    log10 = FUNCTIONS[np.log10]
    first, last = FUNCTIONS[np.broadcast_arrays](low, high)
    result = logspace(log10(low), log10(high), num, endpoint, 10.0)
    count = result.shape[0]
    if count:
        parts = [first[None], result[1:-1] if endpoint and count > 1 else result[1:], *([last[None]] if endpoint and count > 1 else [])]
        result = FUNCTIONS[np.concatenate](parts)
    result = result * sign
    result = FUNCTIONS["astype"](result, result.dtype if dtype is None else dtype)
    return FUNCTIONS[np.moveaxis](result, 0, axis) if axis != 0 else result


@makes(np.eye)
def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None
        ) -> TracedArray:
    """Equivalent of `numpy.eye`.

    >>> eye(2, 3, k=1)
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    shape = (operator.index(N), operator.index(N if M is None else M))
    row = ops.add(lowering.iota(I64, shape, 0), lowering.constant(k, I64, shape))
    return wrap(lowering.convert(ops.equal(row, lowering.iota(I64, shape, 1)), dtype_argument(dtype)))


@makes(np.identity)
def identity(n: int, dtype: Any = float, *, like: Any = None) -> TracedArray:
    """Equivalent of `numpy.identity`.

    >>> identity(2, dtype="int64")
    array([[1, 0],
           [0, 1]])
    """
    return eye(n, dtype=dtype)


@makes(np.tri)
def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float, *, like: Any = None) -> TracedArray:
    """Equivalent of `numpy.tri`.

    >>> tri(2)
    array([[1., 0.],
           [1., 1.]])
    """
    shape = (operator.index(N), operator.index(N if M is None else M))
    row = ops.add(lowering.iota(I64, shape, 0), lowering.constant(k, I64, shape))
    return wrap(lowering.convert(ops.greater_equal(row, lowering.iota(I64, shape, 1)), dtype_argument(dtype)))


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """Equivalent of `numpy.result_type`."""
    return np.result_type(*((x.dtype.type(0).item() if x.weak else x.dtype) if isinstance(x, TracedArray) else x
                            for x in arrays_and_dtypes))


@implements(np.common_type)
def common_type(*arrays: Any) -> type:
    """Equivalent of `numpy.common_type`."""
    return np.common_type(*(np.empty(0, as_traced(x).dtype) for x in arrays))       # type: ignore[no-any-return,call-overload]


@implements(np.min_scalar_type)
def min_scalar_type(a: Any, /) -> np.dtype:
    """Equivalent of `numpy.min_scalar_type`: of an array its dtype; of a scalar the smallest dtype that holds its value in this call."""
    x = as_traced(a)
    return x.dtype if x.ndim else np.min_scalar_type(x.dtype.type(known_value(x.without_derivative())))


@implements(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Casting = "safe") -> bool:
    """Equivalent of `numpy.can_cast`."""
    return np.can_cast(from_.dtype if isinstance(from_, TracedArray) else from_, to, casting)


