"""Universal functions of the parts of numbers: exponent and mantissa, the next float, common divisors, bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.graph import Value
from adjit.ir.interpreter import ArrayValue
from adjit.ir.types import F16, F32, F64, I32, I64, float_limits
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, view_of, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.functions.shapes import as_array, moveaxis, normalize_axis, ravel, reshape_to
from adjit.tracer.functions.ufuncs import elementwise, store_all
from adjit.tracer.promotion import Casting, as_operand, resolve, to_value
from adjit.tracer.registry import FUNCTIONS


def _number(like: Value, number: float) -> Value:
    return ops.full_like(like, number)


def _mantissa_bits(x: Value) -> int:
    return 52 if x.type.dtype == F64 else 23


_BITS = {F32: I32, F64: I64}


def _bits_as(x: Value, dtype: np.dtype) -> Value:
    """The bits of numbers read as another dtype of the same size."""
    own, other = _BITS.get(x.type.dtype, x.type.dtype), _BITS.get(dtype, dtype)
    whole = lowering.convert(x if own is x.type.dtype else ops.bitcast(x), other)
    return whole if other is dtype else ops.bitcast(whole)


def bits_view(x: TracedArray, dtype: np.dtype) -> TracedArray | None:
    """View of numbers as those of another dtype that have the same bits: integers of one size, and floats of 4 and 8 bytes; else None."""
    own = x.dtype
    if own.itemsize != dtype.itemsize or any(each.kind not in "iu" and each not in _BITS for each in (own, dtype)):
        return None
    return view_of(x, lambda value: _bits_as(value, dtype), lambda base, value: _bits_as(value, own), x.steps, ("view", dtype))


FUNCTIONS["bits view"] = bits_view


def _power_of_two(exponent: Value, dtype: np.dtype) -> Value:
    """2 to the power of an integer for which the result is a normal number."""
    bits, bias = (52, 1023) if dtype == F64 else (23, 127)
    integer = lowering.convert(exponent, I64 if dtype == F64 else I32)
    return ops.bitcast(ops.left_shift(ops.add(integer, _number(integer, bias)), _number(integer, bits)))


def _scaled(x: Value, exponent: Value) -> Value:
    """x times 2 to an integer power, rounded once: in four steps, of which only the last can leave the normal numbers."""
    dtype = x.type.dtype
    most, least, digits = (1023, -1022, 53) if dtype == F64 else (127, -126, 24)
    rest = ops.minimum(ops.maximum(exponent, _number(exponent, 2 * least - 200)), _number(exponent, 2 * most + 200))
    for _ in range(2):
        step = ops.minimum(ops.maximum(rest, _number(rest, least + digits)), _number(rest, most))
        rest = ops.subtract(rest, step)
        x = ops.multiply(x, _power_of_two(step, dtype))
    last = ops.minimum(ops.maximum(rest, _number(rest, least)), _number(rest, most))
    return ops.multiply(x, _power_of_two(last, dtype))


def _exponent(x: Value) -> Value:
    """The integer e with |x| in [2^(e - 1), 2^e); 0 for zero, infinities and NaN."""
    digits, least, mask, bias = (53, 2.0**-1022, 0x7FF, 1022) if x.type.dtype == F64 else (24, 2.0**-126, 0xFF, 126)
    small = ops.less(ops.abs(x), _number(x, least))
    normal = ops.select(small, ops.multiply(x, _number(x, 2.0**digits)), x)
    bits = ops.bitcast(normal)
    field = ops.bitwise_and(ops.right_shift(bits, _number(bits, _mantissa_bits(x))), _number(bits, mask))
    shift = ops.select(small, _number(bits, bias + digits), _number(bits, bias))
    usual = ops.logical_and(ops.isfinite(x), ops.not_equal(x, _number(x, 0.0)))
    return ops.select(usual, ops.subtract(field, shift), _number(bits, 0))


@implements(np.frexp)
def frexp(x: Any, out1: Any = None, out2: Any = None, /, *, out: Any = None, where: Any = True, dtype: Any = None,
          casting: Casting = "same_kind", order: str = "K", subok: bool = True) -> tuple[Any, Any]:
    """Equivalent of `numpy.frexp`; the derivative takes the exponent for a constant."""
    operand = as_operand(x)
    dtypes = resolve(np.frexp, (operand,), dtype, casting)
    value = to_value(operand, dtypes[0], as_traced(operand).shape)
    value = lowering.convert(value, F32) if value.type.is_half else value
    exponent = _exponent(value)
    first = ops.right_shift(exponent, _number(exponent, 1))     # in two steps: 2 to the power of -1024 is no normal number
    halved = ops.multiply(value, _power_of_two(ops.negative(first), value.type.dtype))
    mantissa = ops.multiply(halved, _power_of_two(ops.subtract(first, exponent), value.type.dtype))
    mantissa = lowering.convert(mantissa, dtypes[1])
    return store_all((wrap(mantissa), wrap(lowering.convert(exponent, dtypes[2]))), (out1, out2), out, casting, "frexp", where)


def _next(x: Value, towards: Value) -> Value:
    """The float after x on the way to another, as a constant."""
    x, towards = ops.stop_gradient(x), ops.stop_gradient(towards)
    if x.type.is_half:
        return _next_half(x, towards)
    bits = ops.bitcast(x)
    zero, one = _number(x, 0.0), _number(bits, 1)
    away = ops.equal(ops.less(x, towards), ops.greater(x, zero))
    moved = ops.bitcast(ops.select(away, ops.add(bits, one), ops.subtract(bits, one)))
    smallest = ops.bitcast(one)
    from_zero = ops.select(ops.less(towards, zero), ops.negative(smallest), smallest)
    moved = ops.select(ops.equal(x, zero), from_zero, moved)
    moved = ops.select(ops.equal(x, towards), towards, moved)
    return ops.select(ops.logical_or(ops.isnan(x), ops.isnan(towards)), ops.add(x, towards), moved)


def _next_half(x: Value, towards: Value) -> Value:
    """`_next` of float16 and bfloat16. Their numbers are the float32 whose last bits are 0; float16 has fewer exponents."""
    dtype, x, towards = x.type.dtype, lowering.convert(x, F32), lowering.convert(towards, F32)
    bits, zero = ops.bitcast(x), _number(x, 0.0)
    step = _number(bits, 1 << (13 if dtype == F16 else 16))
    up = ops.less(x, towards)
    moved = ops.bitcast(ops.select(ops.equal(up, ops.greater(x, zero)), ops.add(bits, step), ops.subtract(bits, step)))
    unit = float(float_limits(dtype).smallest_subnormal)
    by_unit = ops.add(x, ops.select(up, _number(x, unit), _number(x, -unit)))
    by_unit = ops.select(ops.logical_and(ops.equal(by_unit, zero), ops.less(x, zero)), ops.negative(zero), by_unit)
    small = ops.equal(x, zero)
    if dtype == F16:
        largest = _number(x, 65504.0)
        moved = ops.select(ops.isinf(x), ops.select(up, ops.negative(largest), largest), moved)
        small = ops.less_equal(ops.abs(x), _number(x, 2.0**-14))
        small = ops.logical_and(small, ops.logical_or(ops.less(ops.abs(x), _number(x, 2.0**-14)), ops.not_equal(up, ops.greater(x, zero))))
    moved = ops.select(small, by_unit, moved)
    moved = ops.select(ops.equal(x, towards), x if dtype == F16 else towards, moved)
    moved = ops.select(ops.logical_or(ops.isnan(x), ops.isnan(towards)), ops.add(x, towards), moved)
    return lowering.convert(moved, dtype)


def _nextafter(x: Value, towards: Value) -> Value:
    """x and the difference to the next float, which is exact; the derivative in x is 1."""
    following, start = _next(x, towards), ops.stop_gradient(x)
    step = ops.subtract(following, start)
    plain = ops.logical_and(ops.isfinite(step), ops.not_equal(following, _number(x, 0.0)))
    return ops.select(plain, ops.add(x, ops.select(plain, step, _number(x, 0.0))), following)


def _spacing(x: Value) -> Value:
    """Distance to the next float away from zero, with the sign of x."""
    infinite = _number(x, np.inf)
    sign = ops.less(x, _number(x, -np.inf if x.type.dtype == F16 else 0.0))      # of float16 NumPy's is the distance to the next larger
    following = _next(x, ops.select(sign, ops.negative(infinite), infinite))
    start = ops.stop_gradient(x)
    distance = ops.subtract(following, start)
    if x.type.is_half:      # NumPy's and ml_dtypes' own: above the largest number is infinity, and float16 has no sign
        size = ops.abs(distance)
        is_negative = ops.less(ops.bitcast(lowering.convert(start, F32)), ops.constant(value=0, dtype=I32, shape=x.type.shape))
        signed = size if x.type.dtype == F16 else ops.select(is_negative, ops.negative(size), size)
        return ops.select(ops.isfinite(x), signed, _number(x, np.nan))
    top = ops.select(sign, ops.negative(_number(x, _top_spacing(x))), _number(x, _top_spacing(x)))
    return ops.select(ops.logical_and(ops.isinf(following), ops.isfinite(x)), top,
                      ops.select(ops.isfinite(x), distance, _number(x, np.nan)))


def _top_spacing(x: Value) -> float:
    return 2.0**971 if x.type.dtype == F64 else 2.0**104


def _ldexp(x: Value, exponent: Value) -> Value:
    exponent = lowering.convert(exponent, I64)
    limited = ops.minimum(ops.maximum(exponent, _number(exponent, -5000)), _number(exponent, 5000))
    return _scaled(x, limited)


def _count_of_bits(x: Value) -> Value:
    """Number of bits of the absolute value that are set, by adding neighbouring groups of bits."""
    dtype = x.type.dtype
    width = 8 * dtype.itemsize
    value = lowering.convert(ops.abs(x) if dtype.kind == "i" else x, np.dtype(f"u{dtype.itemsize}"))
    for shift in (1, 2, 4, 8, 16, 32):
        if shift >= width:
            break
        mask = _number(value, sum(((1 << shift) - 1) << place for place in range(0, width, 2 * shift)))
        value = ops.add(ops.bitwise_and(value, mask), ops.bitwise_and(ops.right_shift(value, _number(value, shift)), mask))
    return value


def _divisor(a: Value, b: Value) -> Value:
    """The largest common divisor, by Euclid's algorithm on all elements until all are done."""
    a, b = (value if value.type.dtype.kind == "u" else ops.abs(value) for value in (a, b))
    if isinstance(a, ArrayValue):
        return ArrayValue(np.gcd(a.array, b.array))     # type: ignore[attr-defined]
    less = FUNCTIONS[np.any]

    def step(state: Any) -> Any:
        x, y = state
        zero = FUNCTIONS[np.equal](y, 0)
        rest = FUNCTIONS[np.remainder](x, FUNCTIONS[np.where](zero, y.dtype.type(1), y))
        return FUNCTIONS[np.where](zero, x, y), FUNCTIONS[np.where](zero, y, rest)

    arrays = tuple(wrap(value, scalar=False) for value in (a, b))
    x, _ = FUNCTIONS["while_loop"](lambda state: less(FUNCTIONS[np.not_equal](state[1], 0)), step, arrays)
    return x.value      # type: ignore[no-any-return]


def _multiple(a: Value, b: Value) -> Value:
    divisor = _divisor(a, b)
    none = ops.equal(divisor, _number(divisor, 0))
    quotient = ops.floor_divide(*(ops.abs(a) if a.type.dtype.kind == "i" else a,
                                  ops.select(none, _number(divisor, 1), divisor)))
    return ops.multiply(quotient, ops.abs(b) if b.type.dtype.kind == "i" else b)


_LOWERINGS: dict[np.ufunc, Callable[..., Value]] = {
    np.ldexp: _ldexp, np.nextafter: _nextafter, np.spacing: _spacing, np.gcd: _divisor, np.lcm: _multiple,
    **({np.bitwise_count: _count_of_bits} if hasattr(np, "bitwise_count") else {}),
}
for _ufunc, _lower in _LOWERINGS.items():
    elementwise(_ufunc, _lower, of_halves=_lower in (_nextafter, _spacing))


# -- bits of bytes


def _bit_order(bitorder: str) -> None:
    if bitorder not in ("big", "little"):
        raise ValueError("'bitorder' must be either 'little' or 'big'")


def _bit_values(bitorder: str) -> np.ndarray:
    return np.left_shift(1, np.arange(8)[::-1 if bitorder == "big" else 1]).astype(np.uint8)


@implements(np.packbits)
def packbits(a: Any, /, axis: int | None = None, bitorder: str = "big") -> TracedArray:
    """Equivalent of `numpy.packbits`."""
    _bit_order(bitorder)
    x = as_array(a)
    if x.dtype.kind not in "biu":
        raise TypeError("Expected an input array of integer or boolean data type")
    x, axis = (ravel(x), 0) if axis is None else (x, normalize_axis(axis, x.ndim))
    last = FUNCTIONS["astype"](FUNCTIONS["astype"](moveaxis(x, axis, -1), bool), np.uint8)
    size = last.shape[-1]
    padded = FUNCTIONS[np.pad](last, [(0, 0)] * (x.ndim - 1) + [(0, -size % 8)])
    groups = reshape_to(padded, (*padded.shape[:-1], padded.shape[-1] // 8, 8))
    return moveaxis(FUNCTIONS[np.sum](groups * _bit_values(bitorder), axis=-1, dtype=np.uint8), -1, axis)


@implements(np.unpackbits)
def unpackbits(a: Any, /, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> TracedArray:
    """Equivalent of `numpy.unpackbits`."""
    _bit_order(bitorder)
    x = as_array(a)
    if x.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    x, axis = (ravel(x), 0) if axis is None else (x, normalize_axis(axis, x.ndim))
    last = moveaxis(x, axis, -1)
    bits = FUNCTIONS[np.not_equal](FUNCTIONS[np.bitwise_and](last[..., None], _bit_values(bitorder)), 0)
    flat = reshape_to(FUNCTIONS["astype"](bits, np.uint8), (*last.shape[:-1], 8 * last.shape[-1]))
    size = flat.shape[-1]
    kept = size if count is None else int(count) if count >= 0 else size + int(count)
    if kept < 0:
        raise ValueError("-ve count cannot be larger than the number of elements")
    if kept > size:
        flat = FUNCTIONS[np.pad](flat, [(0, 0)] * (flat.ndim - 1) + [(0, kept - size)])
    return moveaxis(flat[..., :kept].copy(), -1, axis)


__all__ = ["frexp", "packbits", "unpackbits"]
