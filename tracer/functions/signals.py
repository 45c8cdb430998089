"""Functions of sampled signals: convolution, differences, phases; and polynomials by their coefficients."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ShapeError
from adjit.ir.types import I64, is_float, is_inexact
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, known_true, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.functions.composites import floating
from adjit.tracer.functions.indexing import fixed
from adjit.tracer.functions.shapes import as_array, moveaxis, normalize_axes, normalize_axis, ravel
from adjit.tracer.masked_array import known_integer
from adjit.tracer.promotion import as_operand, common_dtype
from adjit.tracer.registry import FUNCTIONS, find
from adjit.tracer.user_location import find_user_location


def _slid(x: TracedArray, kernel: TracedArray, low: int, high: int) -> TracedArray:
    """Sums of products of `kernel`, not turned, with windows of `x`, which has zeros around it."""
    dtype = common_dtype([as_operand(x), as_operand(kernel)])
    values, weights = (FUNCTIONS["astype"](each, dtype) for each in (x, kernel))
    if is_inexact(dtype):
        image, filters = (lowering.reshape(each.value, (1, 1, each.size)) for each in (values, weights))
        result = ops.convolution(image, filters, stride=(1,), low=(low,), high=(high,), interior=(0,), dilation=(1,), groups=1)
        return wrap(lowering.reshape(result, (result.type.size,)), scalar=False)
    padded = FUNCTIONS[np.pad](values, (low, high))
    count = padded.size - weights.size + 1
    windows = fixed(np.arange(count)[:, None] + np.arange(weights.size))
    return FUNCTIONS[np.matmul](padded[windows], weights)       # type: ignore[no-any-return]


def _correlated(a: TracedArray, v: TracedArray, mode: str) -> TracedArray:
    """Windows of the longer one times the shorter one."""
    low = {"full": v.size - 1, "same": v.size // 2, "valid": 0}[mode]
    high = {"full": v.size - 1, "same": v.size - v.size // 2 - 1, "valid": 0}[mode]
    return _slid(a, v, low, high)


def _operands(a: Any, v: Any, mode: Any, name: str) -> tuple[TracedArray, TracedArray, str]:
    x, y = (FUNCTIONS[np.atleast_1d](each) for each in (a, v))
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(f"{name}: operands have to be vectors, got the shapes {x.shape} and {y.shape}", find_user_location())
    if not x.size or not y.size:
        raise ValueError("a cannot be empty" if not x.size else "v cannot be empty")
    mode = {0: "valid", 1: "same", 2: "full"}.get(mode, mode)
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    return x, y, mode


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> TracedArray:
    """Equivalent of `numpy.convolve`."""
    x, y, mode = _operands(a, v, mode, "convolve")
    if y.size > x.size:
        x, y = y, x
    return _correlated(x, y[::-1], mode)


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: str = "valid") -> TracedArray:
    """Equivalent of `numpy.correlate`."""
    x, y, mode = _operands(a, v, mode, "correlate")
    y = FUNCTIONS[np.conjugate](y)
    return _correlated(y, x, mode)[::-1].copy() if y.size > x.size else _correlated(x, y, mode)


@implements(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Equivalent of `numpy.gradient`."""
    x = as_array(f)
    axes = normalize_axes(axis, x.ndim)
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError("invalid number of arguments")
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    spacings = [1.0] * len(axes) if not varargs else list(varargs) * (len(axes) if len(varargs) == 1 else 1)
    x = x if is_inexact(x.dtype) else FUNCTIONS["astype"](x, np.float64)
    results = [moveaxis(_slopes(moveaxis(x, dim, 0), spacing, edge_order), 0, dim) for dim, spacing in zip(axes, spacings, strict=True)]
    return results[0] if len(axes) == 1 else tuple(results)


def _slopes(x: TracedArray, spacing: Any, edge_order: int) -> TracedArray:
    """Slopes along the first axis."""
    size = x.shape[0]
    if size < edge_order + 1:
        raise ValueError("Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are required.")
    if np.ndim(spacing) == 0:
        h = spacing
        inner = (x[2:] - x[:-2]) / (2.0 * h)
        if edge_order == 1:
            begin, end = (x[1] - x[0]) / h, (x[-1] - x[-2]) / h
        else:
            begin = (-1.5 / h) * x[0] + (2.0 / h) * x[1] + (-0.5 / h) * x[2]
            end = (0.5 / h) * x[-3] + (-2.0 / h) * x[-2] + (1.5 / h) * x[-1]
    else:
        points = as_array(spacing)
        if points.ndim != 1 or points.size != size:
            raise ValueError("when 1d, distances must match the length of the corresponding dimension")
        steps = FUNCTIONS[np.diff](points)
        column = (-1, *(1,) * (x.ndim - 1))
        before, after = steps[:-1].reshape(column), steps[1:].reshape(column)
        inner = (-after / (before * (before + after))) * x[:-2] + ((after - before) / (before * after)) * x[1:-1] + (
            before / (after * (before + after))) * x[2:]
        if edge_order == 1:
            begin, end = (x[1] - x[0]) / steps[0], (x[-1] - x[-2]) / steps[-1]
        else:
            a, b = steps[0], steps[1]
            begin = (-(2.0 * a + b) / (a * (a + b))) * x[0] + ((a + b) / (a * b)) * x[1] + (-a / (b * (a + b))) * x[2]
            a, b = steps[-2], steps[-1]
            end = (b / (a * (a + b))) * x[-3] + (-(b + a) / (a * b)) * x[-2] + ((2.0 * b + a) / (b * (a + b))) * x[-1]
    return FUNCTIONS["astype"](FUNCTIONS[np.concatenate]([begin[None], inner, end[None]]), x.dtype)     # type: ignore[no-any-return]


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> TracedArray:
    """Equivalent of `numpy.ediff1d`."""
    x = ravel(ary)
    parts = [ravel(to_begin)] if to_begin is not None else []
    parts.append(x[1:] - x[:-1])
    parts += [ravel(to_end)] if to_end is not None else []
    return FUNCTIONS[np.concatenate]([FUNCTIONS["astype"](part, x.dtype) for part in parts])        # type: ignore[no-any-return]


@implements(np.unwrap)
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> TracedArray:
    """Equivalent of `numpy.unwrap`."""
    x = as_array(p)
    dim = normalize_axis(axis, x.ndim)
    jump = FUNCTIONS[np.diff](x, axis=dim)
    discont = period / 2 if discont is None else discont
    dtype = np.result_type(jump.dtype, period) if not isinstance(period, TracedArray) else jump.dtype
    if dtype.kind in "iu":
        high, remainder = divmod(period, 2)
        ambiguous = remainder == 0
    else:
        high, ambiguous = period / 2, True
    low = -high
    folded = (jump - low) % period + low
    if ambiguous:
        folded = FUNCTIONS[np.where](FUNCTIONS[np.equal](folded, low) & FUNCTIONS[np.greater](jump, 0), high, folded)
    change = FUNCTIONS[np.where](FUNCTIONS[np.less](FUNCTIONS[np.absolute](jump), discont), 0, folded - jump)
    front = (slice(None),) * dim
    result = FUNCTIONS["astype"](x, dtype)
    result[(*front, slice(1, None))] = result[(*front, slice(1, None))] + FUNCTIONS[np.cumsum](change, axis=dim)
    return result       # type: ignore[no-any-return]


@implements(np.i0)
def i0(x: Any) -> Any:
    """Equivalent of `numpy.i0`, to the last bits more exact."""
    return FUNCTIONS["scipy.special", "i0"](floating(x))


@implements(np.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """Equivalent of `numpy.cross`."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = moveaxis(as_array(a), axisa, -1), moveaxis(as_array(b), axisb, -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ValueError("incompatible dimensions for cross product\n(dimension must be 2 or 3)")
    a0, a1, b0, b1 = x[..., 0], x[..., 1], y[..., 0], y[..., 1]
    if x.shape[-1] == y.shape[-1] == 2:
        return a0 * b1 - a1 * b0
    a2 = x[..., 2] if x.shape[-1] == 3 else None
    b2 = y[..., 2] if y.shape[-1] == 3 else None
    first = a1 * b2 if a2 is None else -(a2 * b1) if b2 is None else a1 * b2 - a2 * b1
    second = -(a0 * b2) if a2 is None else a2 * b0 if b2 is None else a2 * b0 - a0 * b2
    result = FUNCTIONS[np.stack](list(FUNCTIONS[np.broadcast_arrays](first, second, a0 * b1 - a1 * b0)), axis=-1)
    return moveaxis(result, -1, axisc)


# -- polynomials, coefficients from the highest power down


def _coefficients(p: Any) -> TracedArray:
    return FUNCTIONS[np.atleast_1d](p)      # type: ignore[no-any-return]


@implements(np.polyval)
def polyval(p: Any, x: Any) -> Any:
    """Equivalent of `numpy.polyval`."""
    coefficients, array = _coefficients(p), as_traced(x)
    result = FUNCTIONS[np.zeros_like](array)
    for i in range(coefficients.size):
        result = result * array + coefficients[i]
    return result if array.ndim else result[()]


@implements(np.polyder)
def polyder(p: Any, m: int = 1) -> TracedArray:
    """Equivalent of `numpy.polyder`."""
    result = _coefficients(p)
    for _ in range(operator.index(m)):
        count = max(result.size - 1, 0)
        result = result[:-1] * (count - wrap(lowering.iota(I64, (count,), 0), scalar=False))
    return result


@implements(np.polyint)
def polyint(p: Any, m: int = 1, k: Any = None) -> TracedArray:
    """Equivalent of `numpy.polyint`."""
    result, order = _coefficients(p), operator.index(m)
    constants = [0.0] * order if k is None else [k] * order if np.ndim(k) == 0 else [k[0]] * order if len(k) == 1 and order > 1 else list(k)
    if len(constants) < order:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    for constant in constants[:order]:
        powers = result.size - wrap(lowering.iota(I64, (result.size,), 0), scalar=False)
        result = FUNCTIONS[np.concatenate]([result / powers, FUNCTIONS[np.atleast_1d](constant)])
    return result


def _aligned(a1: Any, a2: Any) -> tuple[TracedArray, TracedArray]:
    x, y = _coefficients(a1), _coefficients(a2)
    size = max(x.size, y.size)
    return FUNCTIONS[np.pad](x, (size - x.size, 0)), FUNCTIONS[np.pad](y, (size - y.size, 0))


@implements(np.polyadd)
def polyadd(a1: Any, a2: Any) -> TracedArray:
    """Equivalent of `numpy.polyadd`."""
    x, y = _aligned(a1, a2)
    return x + y


@implements(np.polysub)
def polysub(a1: Any, a2: Any) -> TracedArray:
    """Equivalent of `numpy.polysub`."""
    x, y = _aligned(a1, a2)
    return x - y


@implements(np.polymul)
def polymul(a1: Any, a2: Any) -> TracedArray:
    """Equivalent of `numpy.polymul`; leading zeros of the factors stay."""
    first, second = (p if p.size else FUNCTIONS[np.zeros_like](p, shape=1) for p in (_coefficients(a1), _coefficients(a2)))
    return convolve(first, second)


@implements(np.polydiv)
def polydiv(u: Any, v: Any) -> tuple[TracedArray, TracedArray]:
    """Equivalent of `numpy.polydiv`. How many leading coefficients of the rest are 0 is known from a guard."""
    x, y = _coefficients(u), _coefficients(v)
    dtype = (x[0] + y[0]).dtype
    rest, divisor = (FUNCTIONS["astype"](each, np.result_type(dtype, np.float64) if not is_float(dtype) else dtype) for each in (x, y))
    count, degree = x.size - y.size + 1, y.size - 1
    quotient: list[TracedArray] = []
    for place in range(count):
        quotient.append(rest[place] * (1.0 / divisor[0]))
        rest[place:place + degree + 1] = rest[place:place + degree + 1] - quotient[-1] * divisor
    while rest.size > 1 and FUNCTIONS[np.allclose](rest[0], 0, rtol=1e-14):
        rest = rest[1:]
    zero = wrap(lowering.constant(0.0, rest.dtype, (1,)), scalar=False)
    return FUNCTIONS[np.stack](quotient) if quotient else zero, rest


@implements(np.poly)
def poly(seq_of_zeros: Any) -> TracedArray:
    """Equivalent of `numpy.poly`."""
    zeros = FUNCTIONS[np.atleast_1d](seq_of_zeros)
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] and zeros.shape[0]:
        zeros = find(np.linalg.eigvals)(zeros)
    if zeros.ndim != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    zeros = zeros if is_inexact(zeros.dtype) else FUNCTIONS["astype"](zeros, np.float64)
    of_reals = zeros.dtype.kind == "c" and _come_in_pairs(zeros)
    result = wrap(lowering.constant(1.0, zeros.dtype, (1,)), scalar=False)
    for i in range(zeros.size):
        zero = FUNCTIONS[np.zeros_like](result[:1])
        result = FUNCTIONS[np.concatenate]([result, zero]) - FUNCTIONS[np.concatenate]([zero, result * zeros[i]])
    return (FUNCTIONS[np.real](result) if of_reals else result) if zeros.size else result[0]


def _come_in_pairs(zeros: TracedArray) -> bool:
    """True if zeros are conjugates of each other, for this call: then the polynomial is real."""
    return known_true(FUNCTIONS[np.all](FUNCTIONS[np.sort](zeros) == FUNCTIONS[np.sort](FUNCTIONS[np.conjugate](zeros))))


@implements(np.roots)
def roots(p: Any) -> TracedArray:
    """Equivalent of `numpy.roots`. How many coefficients at both ends are 0 is known from a guard."""
    coefficients = _coefficients(p)
    if coefficients.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    there = FUNCTIONS[np.not_equal](coefficients, 0)
    asked = ("np.roots: which coefficients are 0 decides on the number of roots", "find the roots outside of the loop")
    if not coefficients.size or not known_integer(FUNCTIONS[np.any](there), *asked):
        return wrap(lowering.constant(0, np.dtype(np.float64), (0,)), scalar=False)
    first = known_integer(FUNCTIONS[np.argmax](there), *asked)
    zeros = known_integer(FUNCTIONS[np.argmax](there[::-1]), *asked)
    kept: Any = coefficients[first:coefficients.size - zeros]
    kept = kept if is_inexact(kept.dtype) else FUNCTIONS["astype"](kept, np.float64)
    if kept.size < 2:
        return wrap(lowering.constant(0.0, kept.dtype, (zeros,)), scalar=False)
    companion = FUNCTIONS[np.diag](FUNCTIONS[np.ones_like](kept[2:]), -1)
    companion = FUNCTIONS[np.concatenate]([(-kept[1:] / kept[0])[None], companion[1:]])
    found = find(np.linalg.eigvals)(companion)
    return FUNCTIONS[np.concatenate]([found, FUNCTIONS[np.zeros_like](found, shape=(zeros,))]) if zeros else found     # type: ignore[no-any-return]


@implements(np.vander)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> TracedArray:
    """Equivalent of `numpy.vander`."""
    array = as_array(x)
    if array.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    count = array.size if N is None else operator.index(N)
    dtype = np.promote_types(array.dtype, np.int64)
    array = FUNCTIONS["astype"](array, dtype)
    columns = [FUNCTIONS[np.ones_like](array)]
    for _ in range(count - 1):
        columns.append(columns[-1] * array)
    if count < 1:
        return wrap(lowering.constant(0, dtype, (array.size, 0)))
    return FUNCTIONS[np.stack](columns if increasing else columns[::-1], axis=1)        # type: ignore[no-any-return]
