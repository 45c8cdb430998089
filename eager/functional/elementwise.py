"""Elementwise functions in the forms that tensor methods need and NumPy lacks."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import DTypeError, ShapeError, UnsupportedError
from adjit.ir.types import is_complex, is_float
from adjit.tracer import lowering, random
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.functions import composites, creation, special
from adjit.tracer.promotion import dtype_argument, is_weak
from adjit.tracer.registry import FUNCTIONS, special_function
from adjit.tracer.user_location import find_user_location

Array = Any


def floating(x: Array, name: str) -> Array:
    """Return `x` for a function `name` of floats only; raises `DTypeError` for other dtypes, as PyTorch does."""
    x = as_traced(x)
    if not is_float(x.dtype):
        raise DTypeError(f"{name} takes floating-point tensors, got {x.dtype}", find_user_location(),
                         hint="convert the tensor first: x.float() or x.double()")
    return x


def inexact(x: Array, name: str) -> Array:
    """Return `x` for a function `name` of floats and complex numbers; raises `DTypeError` for other dtypes, as PyTorch does."""
    x = as_traced(x)
    return x if is_complex(x.dtype) else floating(x, name)


def add(x: Array, other: Array, alpha: Array = 1) -> Array:
    """`x + alpha * other`."""
    return as_traced(x) + alpha * as_traced(other)


def subtract(x: Array, other: Array, alpha: Array = 1) -> Array:
    """`x - alpha * other`."""
    return as_traced(x) - alpha * as_traced(other)


def sign(x: Array) -> Array:
    """1, 0 or -1, the sign; 0 for NaN, where NumPy gives NaN. Of a complex number the one of absolute value 1 in its direction."""
    x = as_traced(x)
    if x.dtype.kind == "b":
        return np.copy(x)
    return np.where(np.isnan(x), 0.0, np.sign(x)) if is_float(x.dtype) else np.sign(x)


def divide(x: Array, other: Array, rounding_mode: Literal["floor", "trunc"] | None = None) -> Array:
    """`x / other`; with `rounding_mode` "floor" or "trunc" rounded down or towards 0, in the dtype of the operands."""
    if rounding_mode is None:
        return np.divide(x, other)
    down = np.floor_divide(x, other)
    if rounding_mode == "floor":
        return down
    if rounding_mode != "trunc":
        raise ValueError(f"div: rounding_mode is None, 'floor' or 'trunc', got {rounding_mode!r}")
    if is_float(down.dtype):
        return np.trunc(np.divide(x, other))
    return np.where((down < 0) & (down * other != x), down + 1, down)


def square(x: Array) -> Array:
    """`x * x`."""
    x = as_traced(x)
    return np.square(x.astype(np.int64) if x.dtype == np.bool_ else x)


def nan_to_num(x: Array, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    """Replace NaN by `nan`, and infinities by `posinf` and `neginf`, by default the largest and smallest finite numbers."""
    return np.nan_to_num(as_traced(x), nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


def sigmoid(x: Array) -> Array:
    """`1 / (1 + exp(-x))`, without overflow; of complex numbers by this formula."""
    x = as_traced(x)
    return 1 / (1 + np.exp(-x)) if is_complex(x.dtype) else composites.sigmoid(x)


def rsqrt(x: Array) -> Array:
    """`1 / sqrt(x)`."""
    return np.reciprocal(np.sqrt(as_traced(x)))


def relu(x: Array) -> Array:
    """Larger of `x` and 0; the derivative at 0 is 0."""
    x = as_traced(x)
    return wrap(ops.relu(x.value)) if is_float(x.dtype) else np.maximum(x, 0)


def frac(x: Array) -> Array:
    """The fractional part of `x`."""
    x = as_traced(x)
    return x - np.trunc(x)


def clamp(x: Array, min: Array = None, max: Array = None) -> Array:
    """`x` no smaller than `min` and no larger than `max`. At a bound the derivative is 0 if that is a number; a tensor shares it equally
    with `x`."""
    x = as_traced(x)
    if min is None and max is None:
        raise ValueError("clamp: at least one of min and max is given")
    for bound, beyond, nearer in ((min, np.less_equal, np.maximum), (max, np.greater_equal, np.minimum)):
        if bound is not None:
            x = np.where(beyond(x, bound), bound, x) if is_weak(as_traced(bound)) else nearer(x, bound)
    return x


def clamp_min(x: Array, min: Array) -> Array:
    """`x` no smaller than `min`."""
    return clamp(x, min=min)


def clamp_max(x: Array, max: Array) -> Array:
    """`x` no larger than `max`."""
    return clamp(x, max=max)


def lerp(x: Array, end: Array, weight: Array) -> Array:
    """`x + weight * (end - x)`."""
    x = as_traced(x)
    return x + weight * (end - x)


def addcmul(x: Array, tensor1: Array, tensor2: Array, value: Array = 1) -> Array:
    """`x + value * tensor1 * tensor2`."""
    return x + value * (as_traced(tensor1) * tensor2)


def addcdiv(x: Array, tensor1: Array, tensor2: Array, value: Array = 1) -> Array:
    """`x + value * tensor1 / tensor2`."""
    return x + value * (as_traced(tensor1) / tensor2)


def where(x: Array, condition: Array, other: Array) -> Array:
    """Choose `x` if the condition holds, else `other`: the method's order of arguments."""
    return np.where(as_traced(condition), x, other)


def masked_fill(x: Array, mask: Array, value: Array) -> Array:
    """Replace the elements of `x` where the mask holds by `value`, in the dtype of `x`."""
    x, mask = as_traced(x), as_traced(mask)
    if mask.dtype.kind != "b":
        raise DTypeError(f"masked_fill: a mask is of dtype bool, got {mask.dtype}", find_user_location(), hint="compare: mask != 0")
    _check_broadcast("masked_fill", "the mask", mask, x, larger=True)
    return np.where(mask, creation.full((), value, dtype=x.dtype), x)


def _check_broadcast(function: str, what: str, array: Array, x: Array, larger: bool = False) -> None:
    """Raise `ShapeError` if an array does not broadcast with `x`, or, unless `larger`, to the shape of `x`."""
    try:
        fits = np.broadcast_shapes(array.shape, x.shape) == x.shape or larger
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"{function}: {what} of shape {array.shape} cannot be broadcast to the tensor of shape {x.shape}",
                         find_user_location())


def clone(x: Array, memory_format: Any = None) -> Array:
    """Copy the tensor; the copy is connected to the graph."""
    return np.copy(as_traced(x))


def to_dtype(x: Array, dtype: Any) -> Array:
    """Convert the elements, as NumPy's `astype` does."""
    return as_traced(x).astype(dtype_argument(dtype))


def float_power(x: Array, exponent: Array) -> Array:
    """`x` to the power `exponent`, in float64 or complex128."""
    x, exponent = as_traced(x), as_traced(exponent)
    dtype = np.complex128 if is_complex(x.dtype) or is_complex(exponent.dtype) else np.float64
    return np.power(x.astype(dtype), exponent.astype(dtype))


def ldexp(x: Array, other: Array) -> Array:
    """`x * 2**other`."""
    x, other = as_traced(x), as_traced(other)
    return x * np.exp2(other if is_float(other.dtype) else other.astype(x.dtype if is_float(x.dtype) else np.float32))


def hardshrink(x: Array, lambd: float = 0.5) -> Array:
    """`x` where its magnitude is above `lambd`, else 0."""
    x = as_traced(x)
    return np.where(np.abs(x) <= lambd, np.asarray(0, x.dtype), x)


def prelu(x: Array, weight: Array) -> Array:
    """`x` where it is positive, else `weight * x`: one weight for all, or one for each element of the second dimension."""
    x, weight = as_traced(x), as_traced(weight)
    if weight.size > 1:
        weight = np.reshape(weight, (-1,) + (1,) * (x.ndim - 2)) if x.ndim > 1 else weight
    return np.where(x > 0, x, np.reshape(weight, ()) * x if weight.size == 1 else weight * x)


def frexp(x: Array) -> tuple[Array, Array]:
    """Mantissas between 0.5 and 1, and exponents of 2, int32."""
    mantissa, exponent = np.frexp(floating(x, "frexp"))
    return mantissa, exponent


def xlogy(x: Array, other: Array) -> Array:
    """`x * log(other)`, 0 where `x` is 0."""
    x, other = as_traced(x), as_traced(other)
    floats = [array.dtype for array in (x, other) if is_float(array.dtype) and not array.weak]
    target = np.result_type(*floats) if floats else np.dtype(np.float32)
    return FUNCTIONS["scipy.special", "xlogy"](x.astype(target), other.astype(target))


def logit(x: Array, eps: float | None = None) -> Array:
    """`log(x / (1 - x))`, of `x` clamped to [eps, 1 - eps] if `eps` is given."""
    x = as_traced(x)
    return FUNCTIONS["scipy.special", "logit"](x if eps is None else clamp(x, eps, 1.0 - eps))


def heaviside(x: Array, values: Array) -> Array:
    """0 of negative elements, 1 of positive ones, `values` where they are 0."""
    x, values = as_traced(x), as_traced(values)
    if is_float(x.dtype) or is_float(values.dtype):
        return np.heaviside(x, values)
    return np.where(x == 0, values, (x > 0).astype(x.dtype))


def polygamma(x: Array, n: int) -> Array:
    """The derivative of order `n` of the digamma function."""
    return special.polygamma(n, floating(x, "polygamma"))


def mvlgamma(x: Array, p: int) -> Array:
    """The logarithm of the multivariate gamma function of dimension `p`."""
    return special.multigammaln(floating(x, "mvlgamma"), p)


def igamma(x: Array, other: Array) -> Array:
    """The regularised lower incomplete gamma function, of `x` in place of its parameter; the derivative is for `other` only."""
    return _of_special("gammainc", x, other)


def igammac(x: Array, other: Array) -> Array:
    """The regularised upper incomplete gamma function, `1 - igamma(x, other)`."""
    return _of_special("gammaincc", x, other)


def _of_special(name: str, x: Array, other: Array) -> Array:
    x, other = as_traced(x), as_traced(other)
    found = special_function(name)
    if found is None:
        raise UnsupportedError(f"this needs scipy.special.{name}, and SciPy is not installed", find_user_location(),
                               hint="pip install 'adjit[scipy]'")
    made: Array = found(x, other)
    return made.astype(x.dtype) if is_float(x.dtype) and x.dtype == other.dtype else made


# -- new contents for writes in place: of the shape and dtype of `x`


def copy_from(x: Array, other: Array, non_blocking: bool = False) -> Array:
    """Broadcast `other` to the shape of `x`, in the dtype of `x`; `non_blocking` changes nothing."""
    x, other = as_traced(x), as_traced(other)
    _check_broadcast("a write in place", "the new content", other, x)
    return np.copy(np.broadcast_to(other.astype(x.dtype), x.shape))


def assign(x: Array, source: Array) -> Array:
    """Broadcast `source` as `x[...] = source` does: as `copy_from`, and leading dimensions of size 1 beyond those of `x` are dropped."""
    x, source = as_traced(x), as_traced(source)
    more = source.ndim - x.ndim
    if more > 0 and source.shape[:more] == (1,) * more:
        source = np.reshape(source, source.shape[more:])
    return copy_from(x, source)


def fill(x: Array, value: Array) -> Array:
    """Fill the shape of `x` with `value`: one number, or an array of no dimension."""
    x, number = as_traced(x), as_traced(value)
    if number.ndim:
        raise ShapeError(f"fill_ takes one number, got an array of shape {number.shape}", find_user_location(),
                         hint="copy_ takes an array and broadcasts it")
    return copy_from(x, number)


def zero(x: Array) -> Array:
    """Fill the shape of `x` with zeros."""
    x = as_traced(x)
    return wrap(lowering.constant(0, x.dtype, x.shape), scalar=False)


def set_item(x: TracedArray, index: Any, value: Array) -> Array:
    """Return `x` after `x[index] = value`."""
    written = np.copy(as_traced(x))
    written[index] = value
    return written


def normal(x: Array, key: Array, mean: Array = 0.0, std: Array = 1.0) -> Array:
    """Numbers of the normal distribution."""
    x = _checked_floating(x, "normal_")
    return random.normal(key, x.shape, x.dtype) * std + mean


def uniform(x: Array, key: Array, low: Array = 0.0, high: Array = 1.0) -> Array:
    """Uniform numbers from [low, high)."""
    x = _checked_floating(x, "uniform_")
    return random.uniform(key, x.shape, x.dtype, low, high)


def exponential(x: Array, key: Array, lambd: Array = 1.0) -> Array:
    """Numbers of the exponential distribution of rate `lambd`."""
    x = _checked_floating(x, "exponential_")
    return -np.log1p(-random.uniform(key, x.shape, x.dtype)) / lambd


def geometric(x: Array, key: Array, p: Array) -> Array:
    """Numbers of trials until the first success of probability `p`."""
    x = as_traced(x)
    return (np.floor(np.log1p(-random.uniform(key, x.shape, np.float64)) / np.log1p(-p)) + 1.0).astype(x.dtype)


def cauchy(x: Array, key: Array, median: Array = 0.0, sigma: Array = 1.0) -> Array:
    """Numbers of the Cauchy distribution."""
    x = _checked_floating(x, "cauchy_")
    return (median + sigma * np.tan(np.pi * (random.uniform(key, x.shape, np.float64) - 0.5))).astype(x.dtype)


def log_normal(x: Array, key: Array, mean: Array = 1.0, std: Array = 2.0) -> Array:
    """Exponentials of numbers of the normal distribution."""
    x = _checked_floating(x, "log_normal_")
    return np.exp(random.normal(key, x.shape, x.dtype) * std + mean)


def integers(x: Array, key: Array, low: int, high: int) -> Array:
    """Integers from [low, high)."""
    x = as_traced(x)
    return random.randint(key, x.shape, low, high).astype(x.dtype)


def multinomial(x: Array, key: Array, num_samples: int, replacement: bool = False) -> Array:
    """Indices drawn with the probabilities that the last dimension holds, which need not add up to 1."""
    x = as_traced(x)
    if x.ndim not in (1, 2):
        raise ShapeError(f"multinomial takes a vector or a matrix of probabilities, got the shape {x.shape}", find_user_location())
    if not replacement:
        if num_samples > x.shape[-1]:
            raise ShapeError(f"multinomial: {num_samples} samples without replacement of {x.shape[-1]} elements", find_user_location(),
                             hint="pass replacement=True to draw elements more than once")
        waits = -np.log1p(-random.uniform(key, x.shape, np.float64)) / x.astype(np.float64)     # the first ones of independent events
        return np.argsort(waits, axis=-1, kind="stable")[..., :num_samples]
    ends = np.cumsum(x.astype(np.float64), axis=-1)
    drawn = random.uniform(key, (*x.shape[:-1], num_samples), np.float64) * ends[..., -1:]
    return np.sum(drawn[..., None] >= ends[..., None, :], axis=-1)


def bernoulli(x: Array, key: Array, p: Array = 0.5) -> Array:
    """1 with probability `p`, else 0."""
    x = as_traced(x)
    return random.bernoulli(key, p, x.shape).astype(x.dtype)


def _checked_floating(x: Array, name: str) -> Array:
    x = as_traced(x)
    if not is_float(x.dtype):
        raise DTypeError(f"{name} fills floating-point tensors, this one is {x.dtype}", find_user_location())
    return x
