"""Random draws over traced arrays: the functions of `adjit.random`."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import DTypeError, ShapeError
from adjit.ir.types import U64, float_limits, is_float, is_half, real_dtype
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.lowering import broadcast, iota
from adjit.tracer.promotion import dtype_argument
from adjit.tracer.user_location import find_user_location

Array = Any
Shape = int | Sequence[int]

_DRAWS, _SPLITS, _FOLDS = 0, 1 << 63, 1 << 62     # first counter of each use: no two uses share a word


@dispatched
def key(seed: int | Array) -> Array:
    """Make the key of an integer seed (modulo 2**64): a uint64 scalar.

    >>> key(7)
    np.uint64(7)
    """
    if isinstance(seed, int):
        return as_traced(np.uint64(seed % (1 << 64)))
    seed = as_traced(seed)
    if seed.dtype.kind not in "iu" or seed.ndim:
        raise DTypeError(f"random.key takes one integer, got an array of dtype {seed.dtype} and shape {seed.shape}", find_user_location())
    return seed.astype(np.uint64)


@dispatched
def split(key: Array, n: int = 2) -> Array:
    """Make `n` new keys, an array of shape `(n,)`: independent of each other and of the numbers drawn with `key`.

    >>> first, second = split(key(0))
    >>> first != second
    np.True_
    """
    return _words(key, n, _SPLITS)


@dispatched
def fold_in(key: Array, number: int | Array) -> Array:
    """Make a new key from a key and an integer, such as the number of a step or a layer (taken modulo 2**62).

    >>> fold_in(key(0), 1) == fold_in(key(0), 1)
    np.True_
    """
    if isinstance(number, int):
        counter = as_traced(np.uint64(_FOLDS + number % _FOLDS))
    else:
        number = as_traced(number)
        if number.dtype.kind not in "iu" or number.ndim:
            raise DTypeError(f"random.fold_in takes one integer, got an array of dtype {number.dtype} and shape {number.shape}",
                             find_user_location())
        counter = (number.astype(np.uint64) & np.uint64(_FOLDS - 1)) | np.uint64(_FOLDS)
    return wrap(ops.philox(counter.value, _check_key(key).value))


@dispatched
def uniform(key: Array, shape: Shape = (), dtype: Any = np.float64, low: float | Array = 0.0, high: float | Array = 1.0) -> Array:
    """Draw uniform numbers in [low, high): multiples of 2**-53 (float32: 2**-24) of the range. Rounding may give `high` if the range is not
    1.

    >>> uniform(key(0), (2, 3)).shape
    (2, 3)
    """
    dtype, shape = _floating(dtype, "uniform"), _shape(shape)
    unit = _unit(_words(key, math.prod(shape)), dtype).reshape(shape)
    if type(low) in (int, float) and type(high) in (int, float):
        return unit if (low, high) == (0.0, 1.0) else unit * dtype.type(high - low) + dtype.type(low)
    low, high = as_traced(low).astype(dtype), as_traced(high).astype(dtype)
    return unit * (high - low) + low


@dispatched
def normal(key: Array, shape: Shape = (), dtype: Any = np.float64) -> Array:
    """Draw numbers of the standard normal distribution, up to 8.6 standard deviations; complex ones have independent parts of variance 1/2.

    Source: Box and Muller, A note on the generation of random normal deviates, 1958; each number takes two words of the generator.

    >>> normal(key(0), 3, np.float32).dtype
    dtype('float32')
    """
    dtype, shape = dtype_argument(dtype), _shape(shape)
    if is_half(dtype):
        single: Array = normal(key, shape, np.float32)
        return single.astype(dtype)
    is_complex = dtype.kind == "c"
    dtype = real_dtype(dtype) if is_complex else _floating(dtype, "normal")
    count = math.prod(shape)
    # A radius from all 53 bits in either dtype: float32 has the range for the tail, if not the digits.
    bits = (_words(key, count) >> np.uint64(11)).astype(dtype)
    radius = np.sqrt((-1.0 if is_complex else -2.0) * np.log((bits + 0.5) * 2.0 ** -53))
    angle = _unit(_words(key, count, _DRAWS + count), dtype) * (2.0 * math.pi)
    if is_complex:
        return (radius * np.cos(angle) + 1j * (radius * np.sin(angle))).reshape(shape)
    return (radius * np.cos(angle)).reshape(shape)


@dispatched
def bernoulli(key: Array, p: float | Array = 0.5, shape: Shape | None = None) -> Array:
    """Draw bools that are True with probability `p`; `shape` defaults to the shape of `p`.

    >>> bernoulli(key(0), 1.0, 3)
    array([ True,  True,  True])
    """
    shape = np.shape(p) if shape is None else _shape(shape)
    return uniform(key, shape) < p


@dispatched
def permutation(key: Array, x: int | Array) -> Array:
    """Return the rows of `x`, or the integers below `x`, in random order.

    >>> np.sort(permutation(key(0), 4))
    array([0, 1, 2, 3])
    """
    if isinstance(x, int):
        return np.argsort(_words(key, x))
    array = as_traced(x)
    if not array.ndim:
        raise ShapeError("random.permutation takes an integer or an array with rows, got a scalar array", find_user_location())
    return array[np.argsort(_words(key, len(array)))]


@dispatched
def randint(key: Array, shape: Shape, low: int | Array, high: int | Array, dtype: Any = np.int64) -> Array:
    """Integers in [low, high): the remainder of 64 random bits, so that probabilities are off by a part in 2**64 / (high - low) at most.

    Array limits are not checked for low < high.

    >>> randint(key(0), 5, 3, 4)
    array([3, 3, 3, 3, 3])
    """
    dtype, shape = np.dtype(dtype), _shape(shape)
    if dtype.kind not in "iu":
        raise DTypeError(f"random.randint: dtype is an integer dtype, got {dtype}", find_user_location())
    if isinstance(low, int) and isinstance(high, int):
        limits = np.iinfo(dtype)
        if not limits.min <= low < high <= limits.max + 1:
            raise ValueError(f"random.randint: an empty range, or one outside of {dtype}: [{low}, {high})")
        span = np.uint64((high - low) % (1 << 64))
    else:
        lowest: Array = as_traced(low)
        span = (as_traced(high) - lowest).astype(np.uint64)
        low = lowest.astype(dtype)
    words = _words(key, math.prod(shape))
    everything = type(span) is np.uint64 and span == 0      # all 2**64 integers
    offset = (words if everything else words % span).astype(dtype).reshape(shape)
    return offset + low


def _words(key: Array, count: int, start: int = _DRAWS) -> Array:
    """Draw the generator's words for the counters from `start`: uint64 of shape `(count,)`."""
    return words_at(key, wrap(iota(U64, (count,), 0)) + np.uint64(start))


def words_at(key: Array, counters: Array) -> Array:
    """Draw the generator's words for these counters, of uint64."""
    return wrap(ops.philox(as_traced(counters).value, broadcast(_check_key(key).value, counters.shape)))


def uniform_at(key: Array, counters: Array) -> Array:
    """The elements of `uniform(key, ...)` at these indices of uint64, counted in C order."""
    return _unit(words_at(key, counters), np.dtype(np.float64))


def _unit(words: Array, dtype: Any) -> Array:
    """Convert words to numbers in [0, 1), from as many of the upper bits as the dtype has digits."""
    digits = 53 if dtype == np.float64 else 24 if dtype == np.float32 else int(float_limits(dtype).nmant) + 1
    return (words >> np.uint64(64 - digits)).astype(dtype) * dtype.type(2.0 ** -digits)


def _check_key(key: Array) -> Array:
    array = as_traced(key)
    if array.dtype != np.uint64 or array.ndim:
        raise DTypeError(f"a key is a uint64 scalar, got dtype {array.dtype} and shape {array.shape}", find_user_location(),
                         hint="make one with adjit.random.key(seed)")
    return array


def _floating(dtype: Any, function: str) -> Any:
    dtype = dtype_argument(dtype)
    if not is_float(dtype):
        raise DTypeError(f"random.{function} gives floating-point numbers, not {dtype}", find_user_location())
    return dtype


def _shape(shape: Shape) -> tuple[int, ...]:
    sizes = tuple(operator.index(size) for size in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    if any(size < 0 for size in sizes):
        raise ShapeError(f"a shape has no negative sizes, got {sizes}", find_user_location())
    return sizes
