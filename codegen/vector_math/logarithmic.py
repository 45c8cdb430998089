"""log, log2, log10, log1p, and the logarithm of one plus a number.

x = 2^k (1 + f) with -1/4 <= f < 1/2, f exact. log(1 + f) - f is small against f, so its rounding error hardly matters (fdlibm's way of
combining f, f^2/2 and the remaining terms). 1 + t = 2^k (1 + f) gives f = t 2^-k + (2^-k - 1), rounded once, for any t: the rounding error
of 1 + t is never needed.
"""

from __future__ import annotations

import math

from adjit.codegen.vector_math.building_blocks import Pair, plus_product, polynomial, split_polynomial, two_product, zero_if_tiny
from adjit.codegen.vector_math.constants import LN2, LOG2_E, LOG10_2, LOG10_E, pair, short_pair
from adjit.codegen.vector_math.language import (
    Format,
    Value,
    bits_of,
    convert,
    copysign,
    exponent,
    fma,
    like,
    mantissa,
    select,
    slow_path,
    to_bits,
    to_float,
)


def split_exponent(x: Value) -> Pair:
    """k and m with x = 2^k m, 3/4 <= m < 3/2.

    Zero gives k = -inf, infinity gives k = inf, with m = 1. For NaN and negative numbers k or m is NaN. So later code has no special cases.
    """
    f = x.format
    if x.emitter.has_exponent_instructions(x.type):
        m = mantissa(x)
        return exponent(x) - exponent(m), m
    base = bits_of(0.75, f.bits)
    fraction = (1 << f.mantissa) - 1
    start = base & fraction | 1 << f.mantissa   # first bits of normal numbers, so that one comparison is enough

    def unusual() -> Pair:
        bias = select(x.equals(0.0), math.inf, select(x > 0.0, -math.inf, math.nan))
        special = ~((x > 0.0) & (x < math.inf))
        scaled = select(special, 1.0, x * 2.0**f.digits)
        return to_bits(scaled) - start, select(special, bias, zero + f.digits)

    shifted = to_bits(x) - start
    zero = f.unit + float((base - start) >> f.mantissa)
    shifted, bias = slow_path(shifted >= bits_of(math.inf, f.bits) - start, unusual, shifted, like(x, zero))
    k = to_float((shifted >> f.mantissa) | bits_of(f.unit, f.bits)) - bias
    return k, to_float((shifted & fraction) + base)


def log1p_minus(f: Value) -> Value:
    """log(1 + f) - f. float32: a polynomial; float64: log(1 + f) = 2 atanh(s), s = f / (2 + f)."""
    if f.bits == 32:
        return (f * f) * polynomial(f, "LOG")
    s = f / (f + 2.0)
    z, h = s * s, f * f * 0.5
    return fma(s, fma(z, polynomial(z, "ATANH"), h), -h)


def assemble_log(k: Value, f: Value, f_low: Value | None = None) -> Value:
    """log(1 + f + f_low) + k ln2"""
    high, low = short_pair(LN2, f)
    small = log1p_minus(f)
    return fma(k, high, f + fma(k, low, small if f_low is None else small + f_low))


def log(x: Value) -> Value:
    k, m = split_exponent(x)
    return assemble_log(k, m - 1.0)


def _log_to_base(x: Value, log_of_e: str, log_of_2: tuple[float, float]) -> Value:
    """k log_b(2) + log(m) log_b(e), with the large parts added first: for k = -1 they cancel exactly."""
    k, m = split_exponent(x)
    f = m - 1.0
    high, low = pair(log_of_e, x)
    p, p_low = two_product(f, high)
    small = fma(log1p_minus(f), high, fma(f, low, p_low))
    if log_of_2 == (1.0, 0.0):
        return (k + p) + small
    return fma(k, log_of_2[0], p) + fma(k, log_of_2[1], small)


def log2(x: Value) -> Value:
    if x.bits == 64:
        return _log_to_base(x, LOG2_E, (1.0, 0.0))
    k, m = split_exponent(x)
    f = m - 1.0
    leading, rest = split_polynomial(f, "LOG2")
    return fma(f, rest, plus_product(k, f, leading))


def log10(x: Value) -> Value:
    log_of_2, log_of_2_low = short_pair(LOG10_2, x)
    if x.bits == 64:
        return _log_to_base(x, LOG10_E, (log_of_2, log_of_2_low))
    k, m = split_exponent(x)
    f = m - 1.0
    leading, rest = split_polynomial(f, "LOG10")
    return plus_product(k * log_of_2, f, leading) + fma(f, rest, k * log_of_2_low)


def power_of_two_below(u: Value, least: float) -> Value:
    """The bits of 2^k, with least <= u / 2^k < 2 least."""
    f = u.format
    return (to_bits(u) + (bits_of(1.0, f.bits) - bits_of(least, f.bits))) & f.exponent_bits


def usual_bias(f: Format) -> float:
    """Exponent bias that `scaled_exponent` subtracts."""
    return f.bias * f.unit if f.bits == 32 else f.unit + f.bias


def exponent_scale(f: Format) -> float:
    """Factor that turns a result of `scaled_exponent` into k."""
    return 1.0 / f.unit if f.bits == 32 else 1.0


def scaled_exponent(power: Value, bias: float | Value) -> Value:
    """k for the bits of 2^k and the usual bias. For float32 it is k times 2^23, since integers can be converted there and need no shift."""
    f = power.format
    if f.bits == 32:
        return convert(convert(power, "i32"), "f32") - bias
    return to_float((power >> f.mantissa) | bits_of(f.unit, f.bits)) - bias


def log_of_one_plus(t: Value, t_low: Value | None, outside: Value, argument: Value, factor: float, of_zero: float) -> Value:
    """log(1 + t + t_low). Where the mask `outside` is set: log(argument factor), for huge arguments, or infinity; `of_zero` for 0; else
    NaN.

    `outside` must be set for t above 2^125 (float64: 2^1021) and for all t <= -1.
    """
    f, scale = t.format, exponent_scale(t.format)
    low = like(t, 0.0) if t_low is None else t_low

    def unusual() -> tuple[Value, Value, Value, Value]:
        huge = (argument > 2.0) & (argument < math.inf)
        special = select(argument.equals(math.inf), -math.inf, select(argument.equals(0.0), -of_zero, math.nan))
        u = select(huge, argument * (2.0**-64 * factor), 1.0)
        return u - 1.0, like(t, 0.0), u, select(huge, usual_bias(f) - 64.0 / scale, special)

    t, low, u, bias = slow_path(outside, unusual, t, low, t + 1.0, like(t, usual_bias(f)))
    power = power_of_two_below(u, 0.75)
    inverse = to_float(2 * bits_of(1.0, f.bits) - power)
    k, g = scaled_exponent(power, bias), fma(t, inverse, inverse - 1.0)
    small = log1p_minus(zero_if_tiny(g, abs(g)) if f.bits == 32 else g)
    if t_low is not None:
        small = fma(low, inverse, small)
    high_ln2, low_ln2 = short_pair(LN2, t)
    return fma(k, high_ln2 * scale, g + fma(k, low_ln2 * scale, small))


def log1p(x: Value) -> Value:
    outside = ~((x > -1.0) & (x < 2.0 ** (x.format.bias - 2)))
    return copysign(log_of_one_plus(x, None, outside, x + 1.0, 1.0, -math.inf), x)


def log1p_of_unit(e: Value) -> Pair:
    """log(1 + e) for 0 <= e <= 1 as two terms: 1 + e is never rounded."""
    far = e > 0.5
    half = e * 0.5 - 0.5
    f = select(far, half, e)
    high, low = short_pair(LN2, e)
    c = log1p_minus(select(far, half, zero_if_tiny(e, e)))
    return select(far, high, f), select(far, f + (c + low), c)
