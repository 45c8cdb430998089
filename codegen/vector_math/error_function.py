"""erf, erfc, erfcx, erfinv.

erf: x + x P(x^2) below 1, 1 - e^P(|x| - 1) above (the form of N. Juffa's erff). erfc and erfcx: 1 - erf below 1/2;
P((x - 3) / (x + 3)) / (1 + 2x) above, for erfc times e^(-x^2), the square and the quotient as pairs (Shepherd and Laframboise 1981).
erfinv: x P(w), and from w = 25/4 on x P(sqrt w), with w = -log(1 - x^2) (the form of M. Giles, 2010).
"""

from __future__ import annotations

import math

from adjit.codegen.vector_math.building_blocks import (
    Pair,
    at_most,
    fast_two_sum,
    minus_product,
    polynomial,
    power_of_two,
    split_polynomial,
    times_power_of_two,
    two_product,
)
from adjit.codegen.vector_math.exponential import EXP_RANGE, exp_of_reduced, expm1_of_reduced, reduce_ln2
from adjit.codegen.vector_math.language import Value, copysign, fma, in_double, select, sqrt
from adjit.codegen.vector_math.logarithmic import log

_ERF_MOST = {32: 4.0, 64: 6.0}
_ERFC_MOST = {32: 10.1, 64: 27.3}
_ERFCX_ASYMPTOTIC = 2.0**28   # from here on erfcx(x) is 1 / (sqrt(pi) x)


def erf(x: Value) -> Value:
    a = abs(x)
    near = fma(x, polynomial(a * a, "ERF"), x)
    whole, r = reduce_ln2(polynomial(at_most(a, _ERF_MOST[x.bits]) - 1.0, "ERF_TAIL"))
    s = power_of_two(whole)
    far = 1.0 - fma(s, expm1_of_reduced(r), s)
    return select(a < 1.0, near, copysign(far, x))


def _erfc_near_zero(x: Value) -> Value:
    return 1.0 - fma(x, polynomial(x * x, "ERF"), x)


def _scaled_erfc(a: Value) -> Pair:
    """e^(a^2) erfc(a) as high + low, for a >= 1/2."""
    d = fma(a, 2.0, 1.0)
    d_low = fma(a, 2.0, 1.0 - d)
    inverse = 1.0 / ((a + 3.0) * d)   # one division for both quotients
    q = (a - 3.0) * (d * inverse)
    constant, rest = split_polynomial(q, "ERFC")
    p, p_low = fast_two_sum(constant, rest)
    inverse = (a + 3.0) * inverse
    g = p * inverse
    return g, fma(-g, d_low, minus_product(p, g, d) + p_low) * inverse


def erfc(x: Value) -> Value:
    """erfc(x). Without fma, roundings would add up to 2.1 ulp in float32; there it is computed in float64."""
    return _erfc(x) if x.emitter.fused else in_double(_erfc)(x)


def _erfc(x: Value) -> Value:
    a = at_most(abs(x), _ERFC_MOST[x.bits])
    g, g_low = _scaled_erfc(a)
    square, square_low = two_product(a, a)
    whole, r = reduce_ln2(-square)
    e = expm1_of_reduced(r - square_low)
    far = times_power_of_two(g + fma(g, e, fma(g_low, e, g_low)), whole)
    return select(abs(x) < 0.5, _erfc_near_zero(x), select(x < 0.0, 2.0 - far, far))


@in_double
def erfcx(x: Value) -> Value:
    """e^(x^2) erfc(x). Below -1/2 it is 2 e^(x^2) minus the value at -x."""
    a = at_most(abs(x), _ERFCX_ASYMPTOTIC)
    g, g_low = _scaled_erfc(a)
    far = select(x > _ERFCX_ASYMPTOTIC, (1.0 / math.sqrt(math.pi)) / x, g + g_low)
    square, square_low = two_product(x, x)
    inside = square < EXP_RANGE[x.bits][1]
    whole, r = reduce_ln2(at_most(square, EXP_RANGE[x.bits][1]))
    power = exp_of_reduced(whole, r + select(inside, square_low, 0.0))
    below = select(x < 0.0, (power - far) + power, far)
    return select(abs(x) < 0.5, power * _erfc_near_zero(x), below)


@in_double
def erfinv(x: Value) -> Value:
    a = abs(x)
    w = -log((1.0 - a) * (1.0 + a))
    s = sqrt(w)
    near, middle, far = polynomial(w - 3.125, "ERFINV"), polynomial(s - 3.25, "ERFINV_TAIL"), polynomial(s - 5.0, "ERFINV_FAR")
    value = x * select(w < 6.25, near, select(s < 4.0, middle, far))
    return select(a.equals(1.0), copysign(math.inf, x), value)
