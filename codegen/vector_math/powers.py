"""cbrt, hypot, power.

power(x, y) = e^(y log x), the logarithm with 11 bits more than the format, the product exact (fdlibm's plan; large terms as pairs);
in float32 2^(y log2 x), computed in float64, which has those bits.
"""

from __future__ import annotations

import math

from adjit.codegen.vector_math.building_blocks import (
    Pair,
    at_least,
    at_most,
    fast_two_sum,
    is_negative,
    is_odd,
    minus_product,
    nearest,
    polynomial,
    power_of_two,
    two_powers,
    two_product,
    two_sum,
)
from adjit.codegen.vector_math.constants import LN2, LOG2_E, TWO_THIRDS, pair, short_pair
from adjit.codegen.vector_math.exponential import EXP_RANGE
from adjit.codegen.vector_math.language import Value, bits_of, convert, copysign, fma, like, rare, select, sqrt, to_bits, to_float
from adjit.codegen.vector_math.logarithmic import split_exponent


def cbrt(x: Value) -> Value:
    """m^(-1/3) = r (1 - h)^(-1/3) with h = 1 - m r^3, from a first r whose bits are a third of those of m away from a constant.

    r is so short that r^2 is exact; w = m r^2, and the root is w (1 - h)^(-2/3), in which a rounding error of w counts a third.
    """
    f, a = x.format, abs(x)
    whole = (f.digits + 2) // 3 * 3
    smallest = bits_of(f.smallest_normal, f.bits)

    def unusual() -> Pair:
        special = a.equals(0.0) | ~(a < math.inf)
        return select(special, 1.0, a * 2.0**whole), select(special, a, 2.0 ** -(whole // 3))

    m, back = rare((to_bits(a) - smallest) >= bits_of(math.inf, f.bits) - smallest, unusual, a, like(x, 1.0))
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
    """m^(-1/3) to a tenth of it, in a few bits. float32: from all bits as a number; float64: from the upper half."""
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
    return select(a.equals(math.inf) | b.equals(math.inf), math.inf, sqrt(fma(high, high, low * low)) * back)


def _log_pair(x: Value) -> Pair:
    """log(x) as high + low: k ln2 + 2s + s z (2/3 + z P(z)), z = s^2, what is large of it as pairs."""
    k, m = split_exponent(x)
    f = m - 1.0
    d, d_low = fast_two_sum(2.0, f)
    r = 1.0 / d
    s = f * r
    s_low = fma(-s, d_low, minus_product(f, s, d)) * r
    z, z_low = two_product(s, s)
    z_low = fma(s + s, s_low, z_low)
    two_thirds, two_thirds_low = pair(TWO_THIRDS, x)
    c, c_low = fast_two_sum(two_thirds, z * polynomial(z, "POW_LOG"))
    w, w_low = two_product(s, z)
    w_low = w_low + fma(s, z_low, s_low * z)
    v, v_low = two_product(w, c)
    v_low = v_low + fma(w, c_low + two_thirds_low, w_low * c)
    ln2, ln2_low = short_pair(LN2, x)
    a, a_low = fast_two_sum(k * ln2, s + s)
    b, b_low = two_sum(a, v)
    high, low = fast_two_sum(b, (b_low + a_low) + (fma(k, ln2_low, v_low) + 2.0 * s_low))
    finite = abs(k) < math.inf
    return select(finite, high, k), select(finite, low, 0.0)


def _exp_of_pair(x: Value, x_low: Value) -> Value:
    """e^(x + x_low), nearly rounded once."""
    high, low = short_pair(LN2, x)
    n, code = nearest(x, float(LOG2_E))
    r1 = fma(n, -high, x)
    r = fma(n, -low, r1)
    r_low = fma(n, -low, r1 - r) + x_low
    one, rest = fast_two_sum(1.0, r)
    q = (r * r) * polynomial(r, "EXP")
    a, b = two_powers(code)
    return (one + (rest + (q + fma(r + q, r_low, r_low)))) * a * b


def _power_of_positive(a: Value, y: Value) -> Value:
    high, low = _log_pair(a)
    p, p_low = two_product(y, high)
    least, most = EXP_RANGE[a.bits]
    p_low = select((p > least) & (p < most), fma(y, low, p_low), 0.0)
    return _exp_of_pair(at_most(at_least(p, least), most), p_low)


def _power_in_double(a: Value, y: Value) -> Value:
    """As `_power_of_positive`, for float32: 33 bits of the logarithm are enough, and no power in reach overflows."""
    k, m = split_exponent(convert(a, "f64"))
    f = m - 1.0
    p = convert(y, "f64") * fma(f, polynomial(f, "POW_LOG2"), k)
    p = at_most(at_least(p, -200.0), 200.0)
    n, code = nearest(p)
    r, scale = p - n, power_of_two(code)
    return convert(fma(r * polynomial(r, "POW_EXP2"), scale, scale), "f32")


def power(x: Value, y: Value) -> Value:
    f = x.format
    a, b = abs(x), abs(y)
    z = at_most(at_least(y, -(2.0**64)), 2.0**64)   # beyond, the result is 0, 1 or infinite anyway
    r = _power_in_double(a, z) if x.bits == 32 else _power_of_positive(a, z)

    def special() -> tuple[Value]:
        u = select(b < f.unit, b + f.unit, b)   # the last bit of it has the weight 1
        whole = (b >= f.unit) | (u - f.unit).equals(b)
        odd = whole & is_odd(to_bits(u)) & (b < 2.0 * f.unit)
        signed = select(odd & is_negative(x), -r, r)
        signed = select((x < 0.0) & (a < math.inf) & ~whole, math.nan, signed)
        return (select(x.equals(1.0) | y.equals(0.0), 1.0, signed),)

    (result,) = rare(is_negative(x) | r.differs(r), special, r)
    return result
