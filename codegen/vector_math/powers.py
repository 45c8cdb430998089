"""cbrt, hypot, power.

power(x, y) = e^(y log x), the logarithm with 11 more bits than the format, the product exact: x = 2^k m and log x = k ln2 - log r + log(m
r) with r from a table, so short that m r - 1 is exact (Tang 1990; sums as in Arm's optimized routines). The tables are so small that they
fit into registers: gathering from 128 numbers took a third of the time. float32: 2^(y log2 x) in the same way; without fma by way of
float64, which has enough bits.
"""

from __future__ import annotations

import math
from functools import cache

from adjit.codegen.vector_math.building_blocks import (
    Pair,
    at_least,
    at_most,
    fast_two_sum,
    horner,
    is_negative,
    is_odd,
    minus_product,
    nearest,
    plus_product,
    polynomial,
    power_of_two,
    times_power_of_two,
    two_chains,
    two_product,
    two_sum,
)
from adjit.codegen.vector_math.coefficients import COEFFICIENTS
from adjit.codegen.vector_math.constants import LN2, LOG2_E, in_units, pair, short_pair
from adjit.codegen.vector_math.language import (
    Value,
    bits_of,
    convert,
    copysign,
    float_of,
    fma,
    like,
    select,
    slow_path,
    sqrt,
    to_bits,
    to_float,
)
from adjit.codegen.vector_math.logarithmic import split_exponent


def cbrt(x: Value) -> Value:
    """x^(1/3), from m^(-1/3) = r (1 - h)^(-1/3) with h = 1 - m r^3. The bits of the first r are a constant
    minus a third of the bits of m, as integers.

    r is so short that r^2 is exact. With w = m r^2 the root is w (1 - h)^(-2/3), in which a rounding error of w counts a third.
    """
    f, a = x.format, abs(x)
    whole = (f.digits + 2) // 3 * 3
    smallest = bits_of(f.smallest_normal, f.bits)

    def unusual() -> Pair:
        special = a.equals(0.0) | ~(a < math.inf)
        return select(special, 1.0, a * 2.0**whole), select(special, a, 2.0 ** -(whole // 3))

    m, back = slow_path((to_bits(a) - smallest) >= bits_of(math.inf, f.bits) - smallest, unusual, a, like(x, 1.0))
    r = _first_inverse_cbrt(m)
    if f.bits == 64:
        h = minus_product(like(x, 1.0), m * (r * r), r)
        r = fma(r * h, polynomial(h, "CBRT"), r)
        r = to_float(to_bits(r) & (1 << 64) - (1 << 27))
    w = m * (r * r)
    h = minus_product(like(x, 1.0), w, r)
    root = fma(w * h, polynomial(h, "CBRT") if f.bits == 32 else fma(h, 5 / 9, 2 / 3), w)
    return copysign(root * back, x)


def _first_inverse_cbrt(m: Value) -> Value:
    """m^(-1/3) to a tenth, in a few bits. float32: from all bits as an integer; float64: from the upper half of the bits."""
    if m.bits == 32:
        t = fma(convert(convert(to_bits(m), "i32"), "f32"), -(2.0**-11) / 3, 1.5 * 2.0**23 + 0x54A1F800 / 2**11)
        return to_float(to_bits(t) << 11)
    upper = to_float((to_bits(m) >> 32) | bits_of(2.0**52, 64))
    return to_float(to_bits(fma(upper, -1 / 3, 1.5 * 2.0**52 + 0x553EE000 + 2.0**52 / 3)) << 32)


def hypot(x: Value, y: Value) -> Value:
    """sqrt(x^2 + y^2), scaled so that no square overflows or underflows."""
    a, b = abs(x), abs(y)
    high, low = select(a > b, a, b), select(a > b, b, a)
    top, bottom, shrink, grow = {32: (60, -40, -70, 90), 64: (500, -400, -600, 700)}[x.bits]
    big, small = high > 2.0**top, high < 2.0**bottom
    scale = select(big, 2.0**shrink, select(small, 2.0**grow, 1.0))
    back = select(big, 2.0**-shrink, select(small, 2.0**-grow, 1.0))
    high, low = high * scale, low * scale
    return select(a.equals(math.inf) | b.equals(math.inf), math.inf, sqrt(fma(low, low, high * high)) * back)


_CELLS = 5
"""Binary digits of the index into the tables, each of which fits four registers."""
_BASE = bits_of(0.7109375, 64)      # chosen so that 1 is inside of an interval, not at its end
_GRID = 42
"""High parts of logarithms are integer multiples of 2^-42: so short that k ln2 and the sums are exact."""
_UNIT = 160
"""Unit of fixed-point logarithms: 2^-160."""


def _log_of_ratio(a: int, b: int) -> int:
    """log(a / b) in units, for a near b: 2 arctanh((a - b) / (a + b))."""
    one, difference, total = 1 << _UNIT, a - b, a + b
    power, result, k = one * difference // total, 0, 1
    while power not in (0, -1):
        result += power // k
        power, k = power * difference**2 // total**2, k + 2
    return 2 * result


def _on_grid(log: int, grid: int) -> tuple[float, float]:
    """A logarithm as an integer multiple of 2^-grid, and the remainder."""
    spare = _UNIT - grid
    large = (log + (1 << (spare - 1))) >> spare
    return math.ldexp(large, -grid), math.ldexp(log - (large << spare), -_UNIT)


@cache
def _log_tables() -> tuple[tuple[float, ...], ...]:
    """Tables by interval of [0.711, 1.422): r, near the inverse of the interval's middle, with so few bits that m r - 1 is exact; and -log
    r in two parts. |m r - 1| < 0.0228, and below 0.0079 near 1, where -log r and log(m r) would cancel."""
    inverses, logs, rests = [], [], []
    for i in range(1 << _CELLS):
        middle = sum(float_of(_BASE + (j << (52 - _CELLS)), 64) for j in (i, i + 1)) / 2
        parts = 1 << _CELLS + (middle > 0.98)
        inverse = round(parts / middle)
        log, rest = _on_grid(_log_of_ratio(parts, inverse), _GRID)
        inverses.append(inverse / parts)
        logs.append(log)
        rests.append(rest)
    return tuple(inverses), tuple(logs), tuple(rests)


def _log_parts(x: Value) -> tuple[Value, Value, Value]:
    """log(x) as high + low for x > 0, and an approximation to 2^-20, which is available sooner; NaN for zero and infinity.

    With t = m r - 1: (k ln2 - log r) + t - t^2/2 as pairs, t^3 P(t); low is up to 2^-13 of high.
    """
    f = x.format
    fraction = (1 << f.mantissa) - 1
    start = _BASE & fraction | 1 << f.mantissa
    zero = f.unit + float((_BASE - start) >> f.mantissa)

    def unusual() -> Pair:
        number = (x > 0.0) & (x < math.inf)
        return to_bits(select(number, x * 2.0**f.digits, 1.0)) - start, select(number, zero + f.digits, math.nan)

    shifted = to_bits(x) - start
    shifted, bias = slow_path(shifted >= bits_of(math.inf, 64) - start, unusual, shifted, like(x, zero))
    k = to_float((shifted >> f.mantissa) | bits_of(f.unit, 64)) - bias
    m = to_float((shifted & fraction) + _BASE)
    cell = (shifted >> (f.mantissa - _CELLS)) & ((1 << _CELLS) - 1)
    names = ("power_inverse", "power_log", "power_log_rest")
    r, log, rest = (x.emitter.lookup(name, table, cell, x.type) for name, table in zip(names, _log_tables(), strict=True))
    ln2, ln2_low = _on_grid(in_units(LN2, _UNIT), _GRID)
    t = plus_product(like(x, -1.0), m, r)
    a, a_low = fast_two_sum(fma(k, ln2, log), t)
    square, square_low = two_product(t, t * -0.5)
    high, high_low = fast_two_sum(a, square)
    cube = t * square
    low = (fma(k, ln2_low, rest) + a_low) + (square_low + high_low)
    return high, fma(cube, two_chains(t, "POW_LOG"), low), fma(cube, -2 / 3, high)


def _power_by_logarithm(x: Value, y: Value) -> tuple[Value, Value, Value]:
    """e^p with p = y log |x|, for |p| < `_POWER_MOST`; an early approximation of p, from which the integer n with e^p = 2^n e^r follows;
    and true if x is special: for zero, infinity and NaN, p is NaN."""
    high, low, about = _log_parts(abs(x))
    first = y * about
    p, p_low = two_product(y, high)
    ln2, ln2_low = short_pair(LN2, x)
    whole = n, _ = nearest(first, float(LOG2_E))
    r, r_low = two_sum(fma(n, -ln2, p), fma(n, -ln2_low, fma(y, low, p_low)))
    one, rest = fast_two_sum(1.0, r)
    e = (r * r) * polynomial(r, "EXP")
    power = times_power_of_two(one + (rest + (e + r_low)), whole)      # with about one rounding, so that x^1 is x
    return power, first, is_negative(x) if x.emitter.fused else is_negative(x) | power.differs(power)       # huge powers of 1 are special


_SHORT_CELLS = 5
_SHORT_BASE = bits_of(0.75 + 2.0**-7, 32)   # chosen so that 1 is inside of an interval, not at its end
_SHORT_START = _SHORT_BASE & 0x7FFFFF | 0x800000
_SHORT_GRID = 15


@cache
def _log2_tables() -> tuple[tuple[float, ...], ...]:
    """Tables for float32, like `_log_tables`, by interval of [0.758, 1.516): a multiple of 1/64 near the interval's inverse; and -log2 r in
    two parts.

    The first of the two parts also corrects the excess in the exponent.
    """
    inverses, logs, rests = [], [], []
    for i in range(1 << _SHORT_CELLS):
        ends = (float_of(_SHORT_BASE + (j << (23 - _SHORT_CELLS)), 32) for j in (i, i + 1))
        inverse = round(2 * 64 / sum(ends))
        log, rest = _on_grid((_log_of_ratio(64, inverse) << _UNIT) // in_units(LN2, _UNIT), _SHORT_GRID)
        inverses.append(inverse / 64)
        logs.append(log - (_SHORT_BASE - _SHORT_START >> 23))
        rests.append(rest)
    return tuple(inverses), tuple(logs), tuple(rests)


def _log2_pair(x: Value) -> tuple[Value, Value, Value]:
    """log2 |x| of float32 as high + low, with low up to 2^-11 of high, accurate to 2^-33; and true if x is special.

    k - log2 r + t P(t) with t = m r - 1, which is exact. For zero, infinity and NaN the result is arbitrary.
    """
    shifted = to_bits(x) - _SHORT_START
    unusual = shifted >= bits_of(math.inf, 32) - _SHORT_START

    def scaled() -> tuple[Value]:
        a = abs(x)
        small, up = a < x.format.smallest_normal, x.format.digits
        bits = to_bits(select(small, a * 2.0**up, a))
        return (select(small, bits - (up << 23), bits) - _SHORT_START,)

    (shifted,) = slow_path(unusual, scaled, shifted)
    fraction = shifted & 0x7FFFFF
    cell = fraction >> (23 - _SHORT_CELLS)
    names = ("power_short_inverse", "power_log2", "power_log2_rest")
    r, log, rest = (x.emitter.lookup(name, table, cell, x.type) for name, table in zip(names, _log2_tables(), strict=True))
    t = fma(to_float(fraction + _SHORT_BASE), r, -1.0)
    base = convert(convert(shifted, "i32") >> 23, "f32") + log
    constant, constant_low, slope, slope_low, *others = COEFFICIENTS["POW_LOG2", 32]
    p = fma(t, slope, constant)
    p_low = fma(t, slope, constant - p) + horner(t, (constant_low, slope_low, *others))
    high = fma(t, p, base)
    return high, fma(t, p_low, fma(t, p, base - high) + rest), unusual


_POWER_MOST = {32: 151.0, 64: 746.0}
"""Bound on |p| from which 2^p (float64: e^p) overflows, and 2^-p is zero."""


def _power_by_pairs(x: Value, y: Value) -> tuple[Value, Value, Value]:
    """2^p with p = y log2 |x|, of float32, with about one rounding for |p| < `_POWER_MOST`; p; and true if x is special."""
    high, low, unusual = _log2_pair(x)
    p = y * high
    whole = n, _ = nearest(p)
    r = (p - n) + fma(y, low, fma(y, high, -p))
    ln2, ln2_low = pair(LN2, x)
    one = fma(r, ln2, 1.0)
    rest = fma(r, fma(r, polynomial(r, "POW_EXP2"), ln2_low), fma(r, ln2, 1.0 - one))
    return times_power_of_two(one + rest, whole), p, unusual


def _power_in_double(a: Value, y: Value) -> Value:
    """`_power_by_pairs` in float64, where no power within float32's range overflows."""
    k, m = split_exponent(a)
    k, f = convert(k, "f64"), convert(m - 1.0, "f64")
    p = convert(y, "f64") * fma(f, polynomial(f, "POW_LOG2"), k)
    p = at_most(at_least(p, -200.0), 200.0)
    whole = n, _ = nearest(p)
    r, s = p - n, power_of_two(whole)
    return convert(fma(r * polynomial(r, "POW_EXP2"), s, s), "f32")


def power(x: Value, y: Value) -> Value:
    if x.bits == 32 and not x.emitter.fused:
        r = _power_in_double(abs(x), y)
        (result,) = slow_path(is_negative(x) | r.differs(r), lambda: (_power_of_any(x, y, r),), r)
        return result
    r, p, unusual = (_power_by_pairs if x.bits == 32 else _power_by_logarithm)(x, y)
    is_near = abs(p) < _POWER_MOST[x.bits]

    def far() -> tuple[Value]:
        size = select(is_near, r, select(p < 0.0, 0.0, select(p > 0.0, math.inf, p)))
        return (_power_of_any(x, y, select(x.differs(x), x, size)),)

    (result,) = slow_path(unusual | ~is_near, far, r)
    return result


def _power_of_any(x: Value, y: Value, r: Value) -> Value:
    """x^y where r is |x|^y, or arbitrary for x = 0, 1, infinity."""
    f, a, b = x.format, abs(x), abs(y)
    u = select(b < f.unit, b + f.unit, b)   # the last bit of u has weight 1
    whole = (b >= f.unit) | (u - f.unit).equals(b)
    odd = whole & is_odd(to_bits(u)) & (b < 2.0 * f.unit)
    zero, infinite = a.equals(0.0), a.equals(math.inf)
    size = select((zero & (y > 0.0)) | (infinite & (y < 0.0)), 0.0, r)
    size = select((zero & (y < 0.0)) | (infinite & (y > 0.0)), math.inf, size)
    size = select(a.equals(1.0) & y.equals(y), 1.0, size)
    signed = select(odd & is_negative(x), -size, size)
    signed = select((x < 0.0) & (a < math.inf) & ~whole, math.nan, signed)
    return select(x.equals(1.0) | y.equals(0.0), 1.0, signed)
