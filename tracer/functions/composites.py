"""Functions that are made of several others: the softmax family, norms, closeness, clean-up of NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.types import F64, float_limits, is_complex, is_float, is_inexact
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.dispatch import dispatched, implements
from adjit.tracer.functions import reductions
from adjit.tracer.functions.reductions import root
from adjit.tracer.functions.shapes import normalize_axes
from adjit.tracer.functions.ufuncs import broadcast_shapes, where
from adjit.tracer.masked_array import is_lazy
from adjit.tracer.promotion import as_operand, common_dtype, to_value
from adjit.tracer.registry import FUNCTIONS

_exp, _log, _sum, _max = FUNCTIONS[np.exp], FUNCTIONS[np.log], reductions.sum, reductions.max


@dispatched
def stop_gradient(x: Any) -> TracedArray:
    """Return `x` as a constant for differentiation."""
    return wrap(ops.stop_gradient(as_traced(x).value))


def floating(x: Any) -> TracedArray:
    array = as_traced(x)
    return array if is_inexact(array.dtype) else FUNCTIONS["astype"](array, F64)


def _highest(x: TracedArray, axis: Any) -> TracedArray:
    """Return the largest element, as a constant; 0 where it is infinite or there is none, so that x - x does not become NaN."""
    axes = normalize_axes(axis, x.ndim)
    if not math.prod(x.shape[i] for i in axes):
        return wrap(lowering.constant(0.0, x.dtype, tuple(1 if i in axes else size for i, size in enumerate(x.shape))))
    value = ops.stop_gradient(_max(x, axis=axis, keepdims=True).value)
    return wrap(ops.select(ops.isfinite(value), value, ops.full_like(value, 0.0)))


@dispatched
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    """log(sum(b * exp(a))) over `axis`, without overflow: -inf where all elements are -inf, with gradient 0 there.

    `a` and the factors `b` are broadcast; what has the factor 0 adds nothing, even if it is infinite or NaN. A sum below 0 gives NaN; with
    `return_sign` the logarithm of its magnitude, and its sign as a second result. Raises `ShapeError` where `b` does not fit.

    >>> import numpy as np
    >>> float(logsumexp(np.array([1000.0, 1000.0])).round(4))
    1000.6931
    >>> [float(part.round(4)) for part in logsumexp(np.array([1.0, 2.0]), b=np.array([1.0, -1.0]), return_sign=True)]
    [1.5413, -1.0]
    """
    x = floating(a)
    if b is None:
        highest = _highest(x, axis)
        terms = _exp(x - highest)
    else:
        scale = as_operand(b)
        dtype, shape = common_dtype((x, scale)), broadcast_shapes("logsumexp", x, scale)
        x, factor = wrap(to_value(x, dtype, shape)), to_value(scale, dtype, shape)
        highest = _highest(where(FUNCTIONS[np.equal](wrap(factor), 0.0), -math.inf, x), axis)
        terms = wrap(ops.strong_multiply(factor, _exp(x - highest).value))
    total = _sum(terms, axis=axis, keepdims=True)
    magnitude = FUNCTIONS[np.absolute](total) if return_sign else total
    empty = wrap(ops.equal(magnitude.value, ops.full_like(magnitude.value, 0.0)))
    # The logarithm of 0 would have an infinite derivative: it is taken of 1 there, and its result is not used.
    result = where(empty, -math.inf, _log(where(empty, 1.0, magnitude)) + highest)

    def reduced(x: TracedArray) -> Any:
        return x if keepdims else FUNCTIONS[np.squeeze](x, axis=normalize_axes(axis, x.ndim))[()]       # a scalar, as SciPy's

    return (reduced(result), reduced(FUNCTIONS[np.sign](total))) if return_sign else reduced(result)


@dispatched
def softmax(x: Any, axis: Any = None) -> TracedArray:
    """exp(x) / sum(exp(x)) over `axis`, without overflow; by default over all elements, as in SciPy.

    >>> import numpy as np
    >>> softmax(np.array([0.0, 0.0]))
    array([0.5, 0.5])
    """
    x = floating(x)
    shifted = _exp(x - wrap(ops.stop_gradient(_max(x, axis=axis, keepdims=True).value)))
    return shifted * wrap(ops.reciprocal(_sum(shifted, axis=axis, keepdims=True).value))   # the sum is at least 1


@dispatched
def log_softmax(x: Any, axis: Any = None) -> TracedArray:
    """log(softmax(x)) over `axis`, without overflow or loss of precision; by default over all elements, as in SciPy.

    >>> import numpy as np
    >>> log_softmax(np.array([0.0, 1000.0]))
    array([-1000.,     0.])
    """
    x = floating(x)
    shifted = x - wrap(ops.stop_gradient(_max(x, axis=axis, keepdims=True).value))
    return shifted - _log(_sum(_exp(shifted), axis=axis, keepdims=True))


@dispatched
def sigmoid(input: Any) -> TracedArray:
    """1 / (1 + exp(-x)), without overflow.

    >>> import numpy as np
    >>> float(sigmoid(np.float64(0.0)))
    0.5
    """
    return wrap(ops.sigmoid(floating(input).value))


@dispatched
def erf(x: Any) -> TracedArray:
    """The error function, 2/sqrt(pi) times the integral of exp(-t*t) from 0 to x.

    >>> import numpy as np
    >>> float(erf(np.float64(0.0)))
    0.0
    """
    return wrap(ops.erf(floating(x).value))


def vector_norm(x: TracedArray, ord: float, axis: Any, keepdims: bool) -> Any:
    """Norm of order `ord` of the elements over `axis` as one vector. The derivative of a norm of 0 is 0. So is the derivative in an element
    of 0 if `ord` is below 2: the norm is the same on both sides of 0."""
    if is_complex(x.dtype):
        if ord == 2:
            return root(_sum(FUNCTIONS["square of length"](x), axis=axis, keepdims=keepdims))
        x = FUNCTIONS[np.absolute](x)
    if ord == 2:
        return root(_sum(FUNCTIONS[np.square](x), axis=axis, keepdims=keepdims))
    if ord == 0:
        return _sum(FUNCTIONS["astype"](FUNCTIONS[np.not_equal](x, 0.0), x.dtype), axis=axis, keepdims=keepdims)
    magnitude = FUNCTIONS[np.absolute](x)
    if ord == math.inf:
        return _max(magnitude, axis=axis, keepdims=keepdims, **({"initial": 0.0} if not is_lazy(x) and not x.size else {}))
    if ord == -math.inf:
        return reductions.min(magnitude, axis=axis, keepdims=keepdims)
    if ord == 1:
        return _sum(magnitude, axis=axis, keepdims=keepdims)
    if 0 < ord < 2:
        zero = FUNCTIONS[np.equal](magnitude, 0.0)
        powers = where(zero, 0.0, FUNCTIONS[np.power](where(zero, 1.0, magnitude), ord))
    else:
        powers = FUNCTIONS[np.power](magnitude, ord)
    total = _sum(powers, axis=axis, keepdims=keepdims)
    return root(total, ord) if ord > 0 else FUNCTIONS[np.power](total, 1.0 / ord)


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Equivalent of `numpy.isclose`."""
    x, y = as_traced(a), as_traced(b)
    if not is_inexact(y.dtype):
        y = FUNCTIONS["astype"](y, common_dtype([as_operand(y), 1.0]))
    near = FUNCTIONS[np.less_equal](FUNCTIONS[np.absolute](FUNCTIONS[np.subtract](x, y)), atol + rtol * FUNCTIONS[np.absolute](y))
    result = (near & FUNCTIONS[np.isfinite](y)) | FUNCTIONS[np.equal](x, y)
    return result | (FUNCTIONS[np.isnan](x) & FUNCTIONS[np.isnan](y)) if equal_nan else result


@implements(np.allclose)
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Equivalent of `numpy.allclose`, as an array of no dimension."""
    return FUNCTIONS[np.all](isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Equivalent of `numpy.array_equal`, as an array of no dimension; False at once for different shapes."""
    x, y = as_traced(a1), as_traced(a2)
    if x.shape != y.shape:
        return False
    same = FUNCTIONS[np.equal](x, y)
    return FUNCTIONS[np.all](same | (FUNCTIONS[np.isnan](x) & FUNCTIONS[np.isnan](y)) if equal_nan else same)


@implements(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> Any:
    """Equivalent of `numpy.array_equiv`, as an array of no dimension; False at once for shapes that do not broadcast."""
    x, y = as_traced(a1), as_traced(a2)
    try:
        lowering.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return FUNCTIONS[np.all](FUNCTIONS[np.equal](x, y))


@implements(np.fix)
def fix(x: Any, out: Any = None) -> Any:
    """Equivalent of `numpy.fix`: rounded towards 0."""
    return FUNCTIONS[np.trunc](x, out=out)


def _infinite(sign: bool) -> Any:
    def function(x: Any, out: Any = None) -> Any:
        array = as_traced(x)
        negative = FUNCTIONS[np.signbit](array) if array.dtype.kind != "b" else False
        return FUNCTIONS[np.logical_and](FUNCTIONS[np.isinf](array), negative if sign else FUNCTIONS[np.logical_not](negative), out=out)

    name = "isneginf" if sign else "isposinf"
    function.__name__, function.__doc__ = name, f"Equivalent of `numpy.{name}`."
    return implements(getattr(np, name))(function)


isposinf, isneginf = _infinite(False), _infinite(True)


@implements(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Equivalent of `numpy.nan_to_num`."""
    array = as_traced(x)
    result = array
    if is_complex(array.dtype):
        result = wrap(ops.complex(*(nan_to_num(wrap(part(array.value)), True, nan, posinf, neginf).value for part in (ops.real, ops.imag))))
    if is_float(array.dtype):
        limits = float_limits(array.dtype)
        result = where(FUNCTIONS[np.isnan](array), nan, array)
        result = where(FUNCTIONS[np.equal](array, np.inf), float(limits.max) if posinf is None else posinf, result)
        result = where(FUNCTIONS[np.equal](array, -np.inf), float(limits.min) if neginf is None else neginf, result)
        result = FUNCTIONS["astype"](result, array.dtype)
    if copy:
        return wrap(result.value)
    array[...] = result
    return array if array.shape else array[()]


@implements(np.sinc)
def sinc(x: Any) -> Any:
    """Equivalent of `numpy.sinc`: sin(pi x) / (pi x), 1 at 0."""
    array = floating(x)
    small = FUNCTIONS[np.less](FUNCTIONS[np.absolute](array), 0.03)
    angle = math.pi * where(small, 1.0, array)
    square = FUNCTIONS[np.square](math.pi * where(small, array, 0.0))
    series = 1.0 - square / 6 * (1.0 - square / 20 * (1.0 - square / 42 * (1.0 - square / 72)))     # all derivatives exist at 0 too
    return wrap(where(small, series, FUNCTIONS[np.sin](angle) / angle).value)
