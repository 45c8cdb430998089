"""sin, cos, tan.

|x| = q pi/2 + r. Up to a limit r comes from Cody and Waite's reduction in three constants, whose first step is exact with fma; beyond the
limit, from Payne and Hanek's reduction in floating point, with the sums of Ogita and Rump.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjit.codegen.vector_math.building_blocks import (
    Pair,
    fast_two_sum,
    flip,
    is_odd,
    is_tiny,
    minus_product,
    plus_product,
    polynomial,
    sign_of,
    two_product,
    two_sum,
)
from adjit.codegen.vector_math.constants import HALF_PI, pair_with_short_tail, payne_hanek_rows, triple
from adjit.codegen.vector_math.language import Value, fma, like, select, slow_path, to_bits, to_float

_CODY_WAITE_LIMIT = {32: 2.0**16, 64: 2.0**30}
_TAN_LIMIT_EXPONENT = {32: 11, 64: 26}
Reduced = tuple[Value, Value, Value, Value]


def _vector_sum(terms: Sequence[Value]) -> list[Value]:
    """Terms with the same sum, the last of which is the rounded sum."""
    rests, s = [], terms[0]
    for t in terms[1:]:
        s, rest = two_sum(s, t)
        rests.append(rest)
    return [*rests, s]


def _reduce_huge(a: Value) -> Reduced:
    """The integer q, r, and r as high + low, for any a >= 0: a = x 2^(8j), and x times row j of the table is a 2/pi modulo 4."""
    f = a.format
    exponent, whole = to_bits(a) >> f.mantissa, f.bias + f.mantissa
    j = select(exponent > whole, exponent - whole, 0) >> 3
    x = to_float(to_bits(a) - (j << (f.mantissa + 3)))
    row = [a.emitter.lookup(f"two_over_pi_{a.type}", payne_hanek_rows(a.bits), (j << 2) + i, a.type) for i in range(4)]
    (p1, e1), (p2, e2), (p3, e3) = (two_product(x, c) for c in row[:3])

    def modulo4(v: Value) -> Value:
        # The coarsest term first: the magic number rounds correctly only terms below half of it.
        for magic in (1.5 * f.unit * 2.0**12, 1.5 * f.unit):
            v = v - ((v * 0.25 + magic) - magic) * 4.0
        return v

    *terms, s = _vector_sum([x * row[3], e3, p3, e2, modulo4(p2), modulo4(e1), modulo4(p1)])
    t = s + 1.5 * f.unit
    *terms, s = _vector_sum(_vector_sum([*terms, s - (t - 1.5 * f.unit)]))
    low = terms[0]
    for term in terms[1:]:
        low = low + term
    s, low = fast_two_sum(s, low)
    c1, c2, _ = triple(HALF_PI, a)
    r, rest = two_product(s, c1)
    r, low = fast_two_sum(r, fma(low, c1, fma(s, c2, rest)))
    r = select(a.equals(math.inf), math.nan, r)
    return to_bits(t), r, r, low


def _reduce_half_pi(a: Value) -> tuple[Value, ...]:
    """The integer q (its low bits), and r, for a >= 0."""
    f = a.format
    c1, c2, c3 = triple(HALF_PI, a)
    t = fma(a, 2 / math.pi, 1.5 * f.unit)
    q = t - 1.5 * f.unit
    r1 = minus_product(a, q, c1)
    r = minus_product(minus_product(r1, q, c2), q, c3)
    return slow_path(a > _CODY_WAITE_LIMIT[a.bits], lambda: _reduce_huge(a)[:2], to_bits(t), r)


def _sin_cos_of_reduced(r: Value) -> Pair:
    z = r * r
    return fma(r * z, polynomial(z, "SIN"), r), fma(z, polynomial(z, "COS"), 1.0)


def sin(x: Value) -> Value:
    q, r = _reduce_half_pi(abs(x))
    s, c = _sin_cos_of_reduced(r)
    return flip(select(is_odd(q), c, s), sign_of((q << (x.bits - 2)) ^ to_bits(x)))


def cos(x: Value) -> Value:
    q, r = _reduce_half_pi(abs(x))
    s, c = _sin_cos_of_reduced(r)
    return flip(select(is_odd(q), s, c), sign_of((q + 1) << (x.bits - 2)))


def sin_cos_pairs(r: Value, low: Value) -> tuple[Pair, Pair]:
    """sin(r + low) and cos(r + low), each as high + low."""
    z = r * r
    s, s_low = fast_two_sum(r, (r * z) * polynomial(z, "SIN"))
    c, c_low = fast_two_sum(1.0, z * polynomial(z, "COS"))
    return (s, fma(low, c, s_low)), (c, c_low - low * s)


def _reduce_for_tan(x: Value) -> tuple[Value, Value, Value]:
    """x = q pi/2 + r + low, with |low| small against 1 but not against r.

    The second constant is so short that its product with q is exact. Then r is rounded once, or not at all if it is small, and its rounding
    error can be computed. The third product is rounded, which is accurate enough up to the limit even for arguments near multiples of pi/2.
    """
    f, a = x.format, abs(x)
    limit = _TAN_LIMIT_EXPONENT[f.bits]
    c1, c2, c3 = pair_with_short_tail(HALF_PI, f.digits - limit, x)
    t = fma(x, 2 / math.pi, 1.5 * f.unit)
    q = t - 1.5 * f.unit
    r1 = minus_product(x, q, c1)
    r = fma(q, -c2, r1)
    low = fma(q, -c3, fma(q, -c2, -(r - r1)))

    def huge() -> tuple[Value, Value, Value]:
        integer, _, high, rest = _reduce_huge(a)
        return integer, flip(high, sign_of(x)), flip(rest, sign_of(x))

    integer, r, low = slow_path(a > 2.0**limit, huge, to_bits(t), r, low)
    return integer, r, low


def tan(x: Value) -> Value:
    """float32: tan(r) by a polynomial, or -1/tan(r), the inverse of a pair; float64: a quotient of sin(r) and cos(r)."""
    q, r, low = _reduce_for_tan(x)
    odd = is_odd(q)
    if x.bits == 64:
        r, low = fast_two_sum(r, low)
        z = r * r
        s, c = r + fma(r * z, polynomial(z, "SIN"), low), fma(z, polynomial(z, "COS"), 1.0)
        return select(is_tiny(x), x, select(odd, -c, s) / select(odd, s, c))
    z = r * r
    p = (r * z) * polynomial(z, "TAN")
    y, y_low = fast_two_sum(r, fma(low, z + 1.0, p))      # z + 1 is nearly 1 + tan(r)^2
    inverse = -1.0 / y
    rest = fma(y_low, inverse, plus_product(like(x, 1.0), inverse, y))
    return select(odd, fma(rest, inverse, inverse), y)
