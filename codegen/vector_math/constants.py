"""Mathematical constants as sums of floats, with more digits than one float has."""

from __future__ import annotations

import math
from functools import cache

from adjit.codegen.vector_math.language import FORMATS, Value

LN2 = "0.69314718055994530941723212145817656807550013436025525412068001"
PI = "3.1415926535897932384626433832795028841971693993751058209749446"
HALF_PI = "1.5707963267948966192313216916397514420985846996875529104874723"
LOG2_E = "1.4426950408889634073599246810018921374266459541529859341354494"
LOG10_E = "0.43429448190325182765112891891660508229439700580366656611445378"
LOG10_2 = "0.30102999566398119521373889472449302676818988146210854131042746"
DIGAMMA_ROOT = "1.4616321449683623412626595423257213284681962040064463512959884"
"""Decimal digits of the root of digamma. They are parsed lazily: as fractions they would take longer to import than all other constants."""


def _chopped(numerator: int, denominator: int, digits: int) -> float:
    """A fraction truncated to `digits` binary digits."""
    if numerator == 0:
        return 0.0
    magnitude = abs(numerator)
    exponent = magnitude.bit_length() - denominator.bit_length() - digits
    scaled = (magnitude << max(-exponent, 0)) // (denominator << max(exponent, 0))      # has digits or digits + 1 binary digits
    excess = scaled.bit_length() - digits
    part = math.ldexp(scaled >> excess, exponent + excess)
    return part if numerator > 0 else -part


def _parts(numerator: int, denominator: int, *digits: int) -> tuple[float, ...]:
    """A fraction as a sum of floats with `digits` binary digits each."""
    parts = []
    for count in digits:
        parts.append(_chopped(numerator, denominator, count))
        top, bottom = parts[-1].as_integer_ratio()
        numerator, denominator = numerator * bottom - top * denominator, denominator * bottom
    return tuple(parts)


def _fraction(value: str) -> tuple[int, int]:
    whole, _, rest = value.partition(".")
    return int(whole + rest), 10 ** len(rest)


@cache
def _parts_of(value: str, *digits: int) -> tuple[float, ...]:
    return _parts(*_fraction(value), *digits)


def in_units(value: str, bits: int) -> int:
    """`value` in units of 2^-bits.

    >>> in_units(PI, 8)
    804
    """
    numerator, denominator = _fraction(value)
    return (numerator << bits) // denominator


def pair(value: str, x: Value) -> tuple[float, float]:
    """`value` as high + low in the format of x."""
    high, low = _parts_of(value, *[x.format.digits] * 2)
    return high, low


def triple(value: str, x: Value) -> tuple[float, float, float]:
    """`value` as a sum of three floats in the format of x."""
    first, second, third = _parts_of(value, *[x.format.digits] * 3)
    return first, second, third


def short_pair(value: str, x: Value) -> tuple[float, float]:
    """`value` as high + low; high is so short that its product with any exponent is exact."""
    digits = x.format.digits
    high, low = _parts_of(value, digits - (12 if x.bits == 64 else 9), digits)
    return high, low


def pair_with_short_tail(value: str, digits: int, x: Value) -> tuple[float, float, float]:
    """`value` as a sum of three floats in the format of x; the second has `digits` binary digits."""
    whole = x.format.digits
    first, second, third = _parts_of(value, whole, digits, whole)
    return first, second, third


def _two_over_pi(bits: int) -> tuple[int, int]:
    """2/pi to `bits` bits, as a fraction, by Machin's formula pi = 16 arctan(1/5) - 4 arctan(1/239)."""
    one = 1 << (bits + 32)

    def arctan_inverse(n: int) -> int:
        total, term, k = 0, one // n, 0
        while term:
            total += (-1) ** k * (term // (2 * k + 1))
            term //= n * n
            k += 1
        return total

    return 2 * one, 16 * arctan_inverse(5) - 4 * arctan_inverse(239)


@cache
def payne_hanek_rows(bits: int) -> tuple[float, ...]:
    """Row j: 2^(8j) 2/pi modulo 4 as four floats, which suffice for arguments that are integer multiples of 2^(8j)."""
    f = FORMATS[bits]
    numerator, denominator = _two_over_pi(f.bias + 320)
    rows: list[float] = []
    for j in range((f.bias - f.mantissa) // 8 + 1):
        scaled = numerator << 8 * j
        fours = (2 * scaled + 4 * denominator) // (8 * denominator)       # the nearest whole number of them
        rows += _parts(scaled - 4 * fours * denominator, denominator, *[f.digits] * 4)
    return tuple(rows)
