"""log, log2, log10, log1p, and the logarithm of a sum that has a rest.

x = 2^k (1 + f) with -1/4 <= f < 1/2, f exact. log(1 + f) - f is small against f, so that its own rounding hardly matters
(fdlibm's way of putting f, f^2/2 and the rest together). log1p carries the rounding error of 1 + x (Kahan).
"""

from __future__ import annotations

import math
from fractions import Fraction

from adjit.codegen.vector_math.building_blocks import Pair, polynomial, two_product, two_sum
from adjit.codegen.vector_math.constants import LN2, LOG2_E, LOG10_2, LOG10_E, pair, short_pair
from adjit.codegen.vector_math.language import Value, bits_of, copysign, fma, like, rare, select, to_bits, to_float


def split_exponent(x: Value) -> Pair:
    """k and m with x = 2^k m, 3/4 <= m < 3/2.

    Zero gives k = -inf, infinity gives inf, NaN and negative numbers give NaN, with m = 1: no special cases later.
    """
    f = x.format

    def unusual() -> Pair:
        bias = select(x.equals(0.0), math.inf, select(x > 0.0, -math.inf, math.nan))
        special = ~((x > 0.0) & (x < math.inf))
        return select(special, 1.0, x * 2.0**f.digits), select(special, bias, f.unit + f.bias + f.digits)

    u, bias = rare(~((x >= f.smallest_normal) & (x < math.inf)), unusual, x, like(x, f.unit + f.bias))
    one, three_quarters = bits_of(1.0, f.bits), bits_of(0.75, f.bits)
    shifted = to_bits(u) + (one - three_quarters)
    k = to_float((shifted >> f.mantissa) | bits_of(f.unit, f.bits)) - bias
    return k, to_float((shifted & ((1 << f.mantissa) - 1)) + three_quarters)


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


def _log_to_base(x: Value, log_of_e: Fraction, log_of_2: tuple[float, float]) -> Value:
    """k log_b(2) + log(m) log_b(e), the large parts first: for k = -1 they cancel, exactly."""
    k, m = split_exponent(x)
    f = m - 1.0
    high, low = pair(log_of_e, x)
    p, p_low = two_product(f, high)
    small = fma(log1p_minus(f), high, fma(f, low, p_low))
    if log_of_2 == (1.0, 0.0):
        return (k + p) + small
    return fma(k, log_of_2[0], p) + fma(k, log_of_2[1], small)


def log2(x: Value) -> Value:
    return _log_to_base(x, LOG2_E, (1.0, 0.0))


def log10(x: Value) -> Value:
    return _log_to_base(x, LOG10_E, short_pair(LOG10_2, x))


def log_of_sum(u: Value, low: Value, huge: Value, instead: Value, doublings: int = 0, careful: bool = True) -> Value:
    """log(u + low), low being the rounding error of u; where `huge`, log(instead) + doublings ln2.

    `careful` keeps the rounding error of f as well: 0.6 ulp instead of 1.
    """
    u, low, more = rare(huge, lambda: (instead * 2.0**-64, 0.0, 64.0 + doublings), u, low, like(u, 0.0))
    k, m = split_exponent(u)
    inverse = to_float(to_bits(1.5 * u.format.unit + u.format.bias - k) << u.format.mantissa)   # 2^-k
    f = fma(low, inverse, m - 1.0)
    return assemble_log(k + more, f, fma(low, inverse, (m - 1.0) - f) if careful else None)


def log1p(x: Value) -> Value:
    return copysign(log_of_sum(*two_sum(x, 1.0), x > 2.0 ** (x.format.digits + 2), x, careful=False), x)


def log1p_of_unit(e: Value) -> Pair:
    """log(1 + e) for 0 <= e <= 1 as two terms: 1 + e is never rounded."""
    far = e > 0.5
    f = select(far, e * 0.5 - 0.5, e)
    high, low = short_pair(LN2, e)
    c = log1p_minus(f)
    return select(far, high, f), select(far, f + (c + low), c)
