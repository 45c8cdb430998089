"""C's remainder (`fmod`), exact for all arguments, without a library.

A quotient of few bits is truncated toward zero, and its remainder is exact (Sterbenz; the product is exact or fused). Longer quotients are
split into such quotients, the high bits first. float32 by way of float64, in which products of 28 bits by 24 are exact.
"""

from __future__ import annotations

import math

from adjit.codegen.vector_math.building_blocks import minus_product
from adjit.codegen.vector_math.language import Value, convert, copysign, fma, select, slow_path, trunc

_HUGE, _DOWN = 2.0**900, 2.0**-200
"""Bound from which splitting a factor would overflow, and the factor that prevents it."""


def _rest(x: Value, q: Value, y: Value, short: bool) -> Value:
    """x - q y, exact; with y added if the quotient was rounded up."""
    if short:
        rest = x - q * y
    elif x.emitter.fused:
        rest = fma(-q, y, x)
    else:
        rest = minus_product(x, q, y)
    return select(rest < 0.0, rest + y, rest)


def _reduced(x: Value, y: Value, short: bool) -> Value:
    """Remainder of x after subtracting as many y as fit; x if none fits, or y is infinite."""
    q = trunc(x / y)
    if short or x.emitter.fused:
        rest = _rest(x, q, y, short)
    else:
        huge = y > _HUGE
        down, up = select(huge, _DOWN, 1.0), select(huge, 1 / _DOWN, 1.0)
        rest = _rest(x * down, q, y * down, short) * up
    return select((q > 0.0) & (y < math.inf), rest, x)


def _remainder_of_positive(x: Value, y: Value, short: bool) -> Value:
    """Remainder of a positive float64; `short`: both x and y are float32 numbers."""
    bits, reach = (28, 280) if short else (51, 2098)
    q = trunc(x / y)

    def long_division() -> tuple[Value]:
        rest = x
        for shift in range(reach // bits * bits, -1, -bits):
            low = min(shift, 1000)
            scaled = y * 2.0**low
            for more in (min(shift - low, 1000), max(shift - low - 1000, 0)):
                scaled = scaled * 2.0**more if more else scaled
            rest = _reduced(rest, scaled, short)
        return (select((y > 0.0) & (x < math.inf), rest, math.nan),)

    (rest,) = slow_path(~((q < 2.0**bits) & (y < (math.inf if short or x.emitter.fused else _HUGE))), long_division, _rest(x, q, y, short))
    return rest


def c_remainder(a: Value, b: Value) -> Value:
    """Remainder of a after subtracting integer multiples of b, with the sign of a."""
    if a.bits == 32:
        return copysign(convert(_remainder_of_positive(convert(abs(a), "f64"), convert(abs(b), "f64"), True), "f32"), a)
    return copysign(_remainder_of_positive(abs(a), abs(b), False), a)
