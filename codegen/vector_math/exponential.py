"""exp, exp2, expm1.

x = n ln2 + r and e^x = 2^n (1 + (r + r^2 P(r))): Cody and Waite's reduction in two constants; the high one is so short that its product
with n is exact (Muller, Elementary Functions). If 2^n itself is no normal number, the result is scaled in two steps, or by the scaling
instruction of processors that have one.
"""

from __future__ import annotations

from collections.abc import Callable

from adjit.codegen.vector_math.building_blocks import (
    Whole,
    at_least,
    at_most,
    is_tiny,
    nearest,
    polynomial,
    power_of_two,
    power_times_one_plus,
    times_power_of_two,
)
from adjit.codegen.vector_math.constants import LN2, LOG2_E, short_pair
from adjit.codegen.vector_math.language import Value, fma, select

# Just beyond the underflow to zero and the overflow.
EXP_RANGE = {32: (-104.0, 89.0), 64: (-746.0, 710.0)}
_EXP2_RANGE = {32: (-151.0, 129.0), 64: (-1076.0, 1025.0)}
_EXPM1_LEAST = {32: -18.0, 64: -39.0}


def reduce_ln2(x: Value) -> tuple[Whole, Value]:
    """n and r, with x = n ln2 + r."""
    high, low = short_pair(LN2, x)
    whole = n, _ = nearest(x, float(LOG2_E))
    return whole, fma(n, -low, fma(n, -high, x))


def expm1_of_reduced(r: Value) -> Value:
    """e^r - 1 for |r| <= ln2 / 2."""
    return fma(r * r, polynomial(r, "EXP"), r)


def exp_of_reduced(whole: Whole, r: Value) -> Value:
    """2^n e^r."""
    return power_times_one_plus(expm1_of_reduced(r), whole)


def zero_below(x: Value, least: float, function: Callable[[Value], Value]) -> Value:
    """function(x), and 0 where x < least.

    Arguments below `least` do not reach the function: a product that underflows takes some processors a hundred cycles, and attention masks
    are full of them.
    """
    below = x < least
    return select(below, 0.0, function(select(below, 0.0, x)))


def exp(x: Value) -> Value:
    low, high = EXP_RANGE[x.bits]
    return zero_below(x, low, lambda x: exp_of_reduced(*reduce_ln2(at_most(x, high))))


def exp_of_minus_abs(x: Value) -> Value:
    """e^-|x|"""
    return zero_below(-abs(x), EXP_RANGE[x.bits][0], lambda x: exp_of_reduced(*reduce_ln2(x)))


def exp2(x: Value) -> Value:
    low, high = _EXP2_RANGE[x.bits]

    def power(x: Value) -> Value:
        whole = n, _ = nearest(x)
        r = x - n
        return times_power_of_two(fma(r, polynomial(r, "EXP2"), 1.0), whole)
    return zero_below(x, low, lambda x: power(at_most(x, high)))


def expm1(x: Value) -> Value:
    whole, r = reduce_ln2(at_most(at_least(x, _EXPM1_LEAST[x.bits]), EXP_RANGE[x.bits][1]))
    s = power_of_two(whole, -1)   # half of 2^n: the largest 2^n is not representable
    y = fma(s, expm1_of_reduced(r), s - 0.5)
    return select(is_tiny(x), x, y + y)
