"""sinh, cosh, tanh, arcsinh, arccosh, arctanh.

e^x and e^-x from one reduction; tanh by an odd polynomial near 0 and by 1 - 2/(e^2x + 1) beyond (Cephes); the inverse ones by the
logarithm of a sum whose rounding error is kept (fdlibm's arguments).
"""

from __future__ import annotations

import math

from adjit.codegen.vector_math.building_blocks import at_most, fast_two_sum, is_tiny, minus_product, polynomial, power_of_two, two_sum
from adjit.codegen.vector_math.exponential import expm1_of_reduced, reduce_ln2
from adjit.codegen.vector_math.language import Value, bits_of, copysign, fma, select, sqrt, to_float
from adjit.codegen.vector_math.logarithmic import log_of_sum

_SINH_MOST = {32: 89.5, 64: 710.5}
_TANH_MOST = {32: 9.5, 64: 20.0}


def _parts(a: Value) -> tuple[Value, Value, Value, Value]:
    """For a = n ln2 + r, a >= 0: a quarter of 2^n and of 2^-n, cosh(r) - 1 and sinh(r)."""
    f = a.format
    code, r = reduce_ln2(at_most(a, _SINH_MOST[a.bits]))
    z = r * r
    far = bits_of(1.5 * f.unit + 2 * f.bias + f.digits + 4, f.bits)   # from here on 2^-n does not matter
    down = to_float((3 * f.bias - 2 - select(code > far, far, code)) << f.mantissa)
    return power_of_two(code, -2), down, z * polynomial(z, "COSH"), fma(r * z, polynomial(z, "SINH"), r)


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
    a = at_most(abs(x), _TANH_MOST[x.bits])
    code, r = reduce_ln2(a + a)
    s, z = power_of_two(code), a * a
    far = 1.0 - 2.0 / (fma(s, expm1_of_reduced(r), s) + 1.0)
    near = fma(a * z, polynomial(z, "TANH"), a)
    return copysign(select(a < 0.625, near, far), x)


def arcsinh(x: Value) -> Value:
    """log(1 + a + a^2/(1 + sqrt(1 + a^2))); log(2a) for huge a."""
    a = abs(x)
    huge = a > 2.0 ** (x.format.digits // 2 + 2)
    square = a * a
    w, low = fast_two_sum(a, square / (sqrt(square + 1.0) + 1.0))
    u, u_low = two_sum(w, 1.0)
    return copysign(log_of_sum(u, u_low + low, huge, a, 1), x)


def arccosh(x: Value) -> Value:
    """log(1 + t + sqrt(2t + t^2)), t = x - 1; log(2x) for huge x."""
    huge = x > 2.0 ** (x.format.digits // 2 + 2)
    t = x - 1.0
    w, low = two_sum(t, sqrt(fma(t, t, t + t)))
    u, u_low = two_sum(w, 1.0)
    return select(x < 1.0, math.nan, log_of_sum(u, u_low + low, huge, x, 1))


def arctanh(x: Value) -> Value:
    """log(1 + 2a/(1 - a)) / 2, the quotient with its rest."""
    a = abs(x)
    d, d_low = fast_two_sum(1.0, -a)
    r = 1.0 / d
    q = (a + a) * r
    low = fma(-q, d_low, minus_product(a + a, q, d)) * r
    u, u_low = two_sum(q, 1.0)
    return copysign(0.5 * log_of_sum(u, low + u_low, u.equals(math.inf), u), x)
