"""sinh, cosh, tanh, arcsinh, arccosh, arctanh.

e^x and e^-x from one reduction; tanh from e^-2|x| - 1 (fdlibm's form); arcsinh and arccosh by the logarithm of 1 + t (fdlibm's
arguments); arctanh(x) = k ln2 / 2 + arctanh(s), with 2^k next to (1 + x) / (1 - x).
"""

from __future__ import annotations

import math

from adjit.codegen.vector_math.building_blocks import (
    at_most,
    fast_two_sum,
    is_tiny,
    nearest,
    plus_product,
    polynomial,
    power_of_two,
    zero_if_tiny,
)
from adjit.codegen.vector_math.constants import LN2, LOG2_E, short_pair
from adjit.codegen.vector_math.exponential import reduce_ln2
from adjit.codegen.vector_math.language import Value, bits_of, copysign, fma, select, slow_path, sqrt, to_bits, to_float
from adjit.codegen.vector_math.logarithmic import exponent_scale, log_of_one_plus, scaled_exponent, usual_bias

_SINH_MOST = {32: 89.5, 64: 710.5}
_TANH_MOST = {32: 9.5, 64: 20.0}
_SQUARES = {32: 2.0**60, 64: 2.0**500}
"""Limit above which numbers are not squared, since squares might overflow; 1 is negligible compared to their squares."""

_DOUBLED = {32: 2.0**124, 64: 2.0**1020}
"""Limit above which numbers are not doubled."""


def _parts(a: Value) -> tuple[Value, Value, Value, Value]:
    """The reduction a = n ln2 + r for a >= 0: a quarter of 2^n, a quarter of 2^-n, cosh(r) - 1, and sinh(r)."""
    f = a.format
    whole, r = reduce_ln2(at_most(a, _SINH_MOST[a.bits]))
    _, code = whole
    z = r * r
    far = bits_of(1.5 * f.unit + 2 * f.bias + f.digits + 4, f.bits)   # from here on 2^-n is negligible
    down = to_float((3 * f.bias - 2 - select(code > far, far, code)) << f.mantissa)
    return power_of_two(whole, -2), down, z * polynomial(z, "COSH"), fma(r * z, polynomial(z, "SINH"), r)


def sinh(x: Value) -> Value:
    up, down, c, s = _parts(abs(x))
    d = up - down
    y = fma(up + down, s, d * c) + d
    return select(is_tiny(x), x, copysign(y + y, x))


def cosh(x: Value) -> Value:
    up, down, c, s = _parts(abs(x))
    y = fma(up - down, s, fma(up + down, c, down)) + up
    return y + y


def tanh(x: Value) -> Value:
    """(1 - e^-2a) / (1 + e^-2a), with e^-2a = 2^n (1 - 2q): both halves come from q, so that the rounding error of one does not enter the
    other."""
    a = at_most(abs(x), _TANH_MOST[x.bits])
    whole = n, _ = nearest(a, -2.0 * float(LOG2_E))
    r = fma(n, float(LN2) / 2, a)
    q = fma(r * r, polynomial(r, "TANH"), r)
    s = power_of_two(whole)
    return copysign(fma(s, q, fma(s, -0.5, 0.5)) / fma(-s, q, fma(s, 0.5, 0.5)), x)


def arcsinh(x: Value) -> Value:
    """log(1 + a + a a/(1 + sqrt(1 + a^2))); the quotient a/(1 + sqrt(1 + a^2)) is 1 for large a."""
    a = abs(x)
    b = at_most(a, _SQUARES[x.bits])
    t = fma(a, b / (sqrt(fma(b, b, 1.0)) + 1.0), a)
    return copysign(log_of_one_plus(t, None, ~(a < _DOUBLED[x.bits]), a, 2.0, math.nan), x)


def arccosh(x: Value) -> Value:
    """log(1 + t + sqrt(2t + t^2)), t = x - 1; the root is less than t + 2, which rounds to t for large t."""
    t = x - 1.0
    root = sqrt(fma(t, t, t + t))
    above = t + 2.0
    root, low = fast_two_sum(select(root > above, above, root), t)
    return log_of_one_plus(root, low, ~((x >= 1.0) & (x < _DOUBLED[x.bits])), x, 2.0, math.nan)


def arctanh(x: Value) -> Value:
    """arctanh(x) from u = 1 + a, v = 1 - a: with c = 2^k + 1, s = (u - 2^k v) / (u + 2^k v) = (2 - c + a c) / (c + a (2 - c)); s is a for k
    = 0."""
    f, a = x.format, abs(x)
    u, v = 1.0 + a, 1.0 - a
    quarter = bits_of(1.25, f.bits) - bits_of(0.75, f.bits)   # up to this limit s is a: no cancellation in small results
    power = ((to_bits(u) - to_bits(v)) + (bits_of(1.0, f.bits) + (1 << f.mantissa) - quarter)) & f.exponent_bits
    k = scaled_exponent(power, usual_bias(f))
    c = to_float(power) + 1.0
    d = 2.0 - c
    s = plus_product(d, a, c) / plus_product(c, a, d)
    root, scale = zero_if_tiny(s, a), exponent_scale(f) / 2
    z = root * root
    high, low = short_pair(LN2, x)
    y = fma(k, high * scale, s + fma(s * z, polynomial(z, "ATANH_QUARTER"), k * (low * scale)))
    (y,) = slow_path(~(a < 1.0), lambda: (select(a.equals(1.0), math.inf, math.nan),), y)
    return copysign(y, x)
