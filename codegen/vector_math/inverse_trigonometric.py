"""arcsin, arccos, arctan, arctan2.

arcsin(s) = s + s^3 P(s^2) up to 1/2, and from s = sqrt((1 - |x|)/2) beyond (Cephes, fdlibm). arctan: one polynomial on 0..1, in the smaller
coordinate divided by the larger.
"""

from __future__ import annotations

import math

from adjit.codegen.vector_math.building_blocks import fast_two_sum, flip, is_negative, polynomial, sign_of, zero_if_tiny
from adjit.codegen.vector_math.constants import HALF_PI, pair
from adjit.codegen.vector_math.language import Value, copysign, fma, like, select, sqrt, to_bits


def _arcsin_parts(x: Value) -> tuple[Value, Value, Value]:
    """True if |x| > 1/2; and s, t with arcsin(s) = s + t."""
    a = abs(x)
    big = a > 0.5
    root = zero_if_tiny(a, a)
    z = select(big, fma(a, -0.5, 0.5), root * root)
    s = select(big, sqrt(z), a)
    return big, s, (s * z) * polynomial(z, "ASIN")


def arcsin(x: Value) -> Value:
    high, low = pair(HALF_PI, x)
    big, s, t = _arcsin_parts(x)
    w, w_low = fast_two_sum(high, -2.0 * s)   # pi/2 - 2 (s + t)
    return copysign(select(big, w - (fma(t, 2.0, -low) - w_low), s + t), x)


def arccos(x: Value) -> Value:
    high, low = pair(HALF_PI, x)
    big, s, t = _arcsin_parts(x)
    far = select(x < 0.0, (2 * high - 2.0 * s) - fma(t, 2.0, -2 * low), 2.0 * (s + t))
    s, t = copysign(s, x), copysign(t, x)
    return select(big, far, (high - s) - (t - low))


def _arctan_minus(t: Value, size: Value, rest: Value) -> Value:
    """arctan(t) - t + rest for |t| = size <= 1."""
    root = zero_if_tiny(t, size)
    z = root * root
    return fma(t * z, polynomial(z, "ATAN"), rest)


def arctan(x: Value) -> Value:
    high, low = pair(HALF_PI, x)
    a = abs(x)
    big = a > 1.0
    t = select(big, -1.0 / a, a)
    base, base_low = select(big, high, 0.0), select(big, low, 0.0)
    return copysign((base + t) + _arctan_minus(t, abs(t), base_low), x)


def arctan2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y): the angle of smaller/larger coordinate, then its complement to pi/2, then to pi, as the octant
    demands."""
    high, low = pair(HALF_PI, x)
    a, b = abs(x), abs(y)
    steep, left = b > a, is_negative(x)
    small, large = select(steep, a, b), select(steep, b, a)
    t = select(large.equals(0.0), small, select(small.equals(math.inf), 1.0, small / large))
    p = _arctan_minus(t, t, like(x, 0.0))
    base = select(steep, high, select(left, like(x, 2 * high), 0.0))
    base_low = select(steep, low, select(left, like(x, 2 * low), 0.0))
    turn = sign_of(x) ^ to_bits(select(steep, -0.0, like(x, 0.0)))
    r = (base + flip(t, turn)) + (flip(p, turn) + base_low)
    return copysign(select(x.equals(x), r, x), y)
