"""lgamma, digamma and trigamma; float32 by way of float64, since zeros and cancellation would need pairs throughout.

Arguments are brought to a short interval, or to the asymptotic series, by the recurrence, and negative arguments by the reflection formula
(DLMF 5.5, 5.11, 5.15). The forms of lgamma are fdlibm's; the root of digamma as a sum of floats is Boost's.
"""

from __future__ import annotations

import math

from adjit.codegen.vector_math.building_blocks import Pair, fast_two_sum, nearest, one_chain, polynomial, quotient, two_product, two_sum
from adjit.codegen.vector_math.constants import DIGAMMA_ROOT, HALF_PI, LN2, PI, pair, short_pair
from adjit.codegen.vector_math.language import Value, copysign, fma, in_double, like, select, slow_path
from adjit.codegen.vector_math.logarithmic import assemble_log, log, log1p_minus, split_exponent
from adjit.codegen.vector_math.trigonometric import sin_cos_pairs

_STIRLING_CONSTANT = 0.5 * math.log(2.0 * math.pi) - 0.5
_TINY = 2.0**-500   # for smaller x, sin(x) is x


def _chosen(mask: Value, a: Pair, b: Pair) -> Pair:
    return select(mask, a[0], b[0]), select(mask, a[1], b[1])


def _sin_cos_pi(a: Value) -> tuple[Value, Pair, Pair]:
    """r = a - round(a), and sin(pi |r|) and cos(pi |r|) as pairs, for a >= 0."""
    f = a.format
    r = select(a < f.unit, a - ((a + f.unit) - f.unit), 0.0)
    u = abs(r)
    swap = u > 0.25
    u = select(swap, 0.5 - u, u)
    high, low = pair(HALF_PI, a)
    t, t_low = two_product(u, 2 * high)
    s, c = sin_cos_pairs(t, fma(u, 2 * low, t_low))
    return r, _chosen(swap, c, s), _chosen(swap, s, c)


@in_double
def lgamma(x: Value) -> Value:
    """log |Gamma(x)|. Up to 17/4 from log Gamma(2 + t), |t| <= 3/4, and at most two factors; above by Stirling's series."""
    mirrored = x < -0.5
    y = select(mirrored, -x, x)
    n, _ = nearest(y + 0.25)
    t = y - n
    factor = select(n < 0.5, abs(fma(y, y, y)), select(n < 1.5, y, select(n < 2.5, 1.0, select(
        n < 3.5, y - 1.0, select(n < 4.5, (y - 1.0) * (y - 2.0), y)))))
    k, m = split_exponent(factor)
    f = m - 1.0
    rest, log_factor = log1p_minus(f), assemble_log(k, f)
    near_one = (y >= 0.75) & (y < 1.25)                      # log(factor) = t + rest: the zero at 1 comes out exactly
    p = one_chain(t, "LGAMMA")
    near = fma(t, select(near_one, p - 1.0, p), select(near_one, 0.0 - rest, select(n < 1.5, -log_factor, log_factor)))
    high, low = short_pair(LN2, x)
    s, s_low = two_sum(fma(k, high, -1.0), f)                # log(y) - 1 = s + ...
    w = 1.0 / y
    far = fma(y - 0.5, s + (s_low + fma(k, low, rest)), fma(w, polynomial(w * w, "STIRLING"), _STIRLING_CONSTANT))
    value = select(n < 4.5, near, select(y.equals(math.inf), math.inf, far))

    def reflected() -> tuple[Value]:
        r, (s, _), _ = _sin_cos_pi(y)
        return (select(r.equals(0.0), math.inf, -log((y * s) * (1 / math.pi)) - value),)

    (result,) = slow_path(mirrored, reflected, value)
    return result


@in_double
def digamma(x: Value) -> Value:
    """digamma(x). On 1..2 the distance from the root times a polynomial, reached by at most two steps; from 4 on the asymptotic series."""
    mirrored = x < 0.0
    more, more_low = two_sum(abs(x), 1.0)
    y, y_low = select(mirrored, more, x), select(mirrored, more_low, 0.0)
    under1, under2, under3, under4 = (y < limit for limit in (1.0, 2.0, 3.0, 4.0))
    top = select(under1, -1.0, select(under2, 0.0, select(under3, 1.0, select(under4, y + y - 3.0, 1.0))))
    bottom = select(under1, y, select(under2, 1.0, select(under3, y - 1.0, select(under4, (y - 1.0) * (y - 2.0), y))))
    w = top / bottom                                         # 1/y from 4 on
    b = select(under1, more, select(under2, y, select(under3, y - 1.0, y - 2.0)))
    root, root_low = pair(DIGAMMA_ROOT, x)
    near = fma((b - root) + (select(under1, more_low, y_low) - root_low), polynomial(b - 1.5, "DIGAMMA"), w)
    z = w * w
    far = log(y) + fma(w, -0.5, -(z * polynomial(z, "DIGAMMA_TAIL")))
    value = select(under4, near, far)

    def reflected() -> tuple[Value]:
        r, (s, s_low), (c, c_low) = _sin_cos_pi(-x)
        cotangent = select(abs(r) < _TINY, c / s, quotient(c, c_low, s, s_low))
        return (select(r.equals(0.0), math.nan, value + copysign(cotangent, r) * math.pi),)

    (result,) = slow_path(mirrored, reflected, value)
    return result


@in_double
def trigamma(x: Value) -> Value:
    """trigamma(x). The asymptotic series from 4 on, which at most four terms 1 / (x + k)^2 lead to; all summands are positive."""
    mirrored = x < 0.0
    y = select(mirrored, 1.0 - x, x)
    under4 = y < 4.0
    w = 1.0 / select(under4, y + 4.0, y)
    far = fma(w * w, fma(w, polynomial(w * w, "TRIGAMMA_TAIL"), 0.5), w)
    first, second, third, fourth = (1.0 / (y + k) for k in (0.0, 1.0, 2.0, 3.0))
    near = fma(first, first, fma(second, second, fma(third, third, fma(fourth, fourth, far))))
    value = select(under4, near, far)

    def reflected() -> tuple[Value]:
        r, (s, s_low), _ = _sin_cos_pi(-x)
        high, low = pair(PI, x)
        pi, pi_low = fast_two_sum(high, like(x, low))
        ratio = select(abs(r) < _TINY, 1.0 / abs(r), quotient(pi, pi_low, s, s_low))
        return (fma(ratio, ratio, -value),)

    (result,) = slow_path(mirrored, reflected, value)
    return result
