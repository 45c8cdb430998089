"""sigmoid and logaddexp, both from e^-|x|."""

from __future__ import annotations

import math

from adjit.codegen.vector_math.building_blocks import at_least, fast_two_sum, quotient, two_sum, zero_if_tiny
from adjit.codegen.vector_math.exponential import EXP_RANGE, exp_of_minus_abs, exp_of_reduced, reduce_ln2
from adjit.codegen.vector_math.language import Value, select
from adjit.codegen.vector_math.logarithmic import log1p_of_unit


def sigmoid(x: Value) -> Value:
    """1 / (1 + e^-x), as a quotient with its rounding error: accurate down to subnormal results."""
    e = exp_of_minus_abs(x)
    d, d_low = fast_two_sum(1.0, e)
    return quotient(select(x < 0.0, e, 1.0), None, d, zero_if_tiny(d_low, e))


def logaddexp(x: Value, y: Value) -> Value:
    """log(e^x + e^y), with the rounding error of x - y."""
    swap = y > x
    high, low = select(swap, y, x), select(swap, x, y)
    d, d_low = two_sum(high, -low)
    least = EXP_RANGE[x.bits][0]
    d_low = select(d < -least, d_low, 0.0)   # beyond `least` it is negligible
    d = select(x.equals(y), 0.0, d)          # also for equal infinities
    whole, r = reduce_ln2(at_least(-d, least))
    a, b = log1p_of_unit(exp_of_reduced(whole, r - d_low))
    s, s_low = two_sum(high, a)
    return s + (select(abs(s) < math.inf, s_low, 0.0) + b)
