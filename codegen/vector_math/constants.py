"""Mathematical constants in parts: sums of floats that hold more digits than one float does."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from adjit.codegen.vector_math.language import FORMATS, Value

LN2 = Fraction("0.69314718055994530941723212145817656807550013436025525412068001")
PI = Fraction("3.1415926535897932384626433832795028841971693993751058209749446")
HALF_PI = Fraction("1.5707963267948966192313216916397514420985846996875529104874723")
LOG2_E = Fraction("1.4426950408889634073599246810018921374266459541529859341354494")
LOG10_E = Fraction("0.43429448190325182765112891891660508229439700580366656611445378")
LOG10_2 = Fraction("0.30102999566398119521373889472449302676818988146210854131042746")
DIGAMMA_ROOT = Fraction("1.4616321449683623412626595423257213284681962040064463512959884")


def _chopped(value: Fraction, digits: int) -> float:
    """`value` cut to so many binary digits."""
    if value == 0:
        return 0.0
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length() - digits
    scaled = value / Fraction(2) ** exponent                # digits or digits + 1 binary digits before the point
    excess = 1 if abs(scaled) >= 2**digits else 0
    return float(int(scaled / 2**excess) * Fraction(2) ** (exponent + excess))


def _parts(value: Fraction, *digits: int) -> tuple[float, ...]:
    """`value` as a sum of floats with so many digits."""
    parts = []
    for count in digits:
        parts.append(_chopped(value, count))
        value -= Fraction(parts[-1])
    return tuple(parts)


@cache
def _whole_parts(value: Fraction, bits: int, count: int) -> tuple[float, ...]:
    return _parts(value, *[FORMATS[bits].digits] * count)


@cache
def _short_parts(value: Fraction, bits: int) -> tuple[float, ...]:
    digits = FORMATS[bits].digits
    return _parts(value, digits - (12 if bits == 64 else 9), digits)


def pair(value: Fraction, x: Value) -> tuple[float, float]:
    """`value` as high + low in the format of x."""
    high, low = _whole_parts(value, x.bits, 2)
    return high, low


def triple(value: Fraction, x: Value) -> tuple[float, float, float]:
    """`value` as a sum of three in the format of x."""
    first, second, third = _whole_parts(value, x.bits, 3)
    return first, second, third


def short_pair(value: Fraction, x: Value) -> tuple[float, float]:
    """`value` as high + low, with high so short that its product with any exponent is exact."""
    high, low = _short_parts(value, x.bits)
    return high, low


@cache
def _parts_with_short_second(value: Fraction, bits: int, digits: int) -> tuple[float, ...]:
    whole = FORMATS[bits].digits
    return _parts(value, whole, digits, whole)


def short_second(value: Fraction, digits: int, x: Value) -> tuple[float, float, float]:
    """`value` as a sum of three in the format of x, the second with so many digits."""
    first, second, third = _parts_with_short_second(value, x.bits, digits)
    return first, second, third


def log_of_ratio(a: int, b: int) -> Fraction:
    """log(a / b) to 150 bits, for numbers that are near each other: 2 arctanh((a - b) / (a + b))."""
    one, difference, total = 1 << 160, a - b, a + b
    power, result, k = one * difference // total, 0, 1
    while power not in (0, -1):
        result += power // k
        power, k = power * difference**2 // total**2, k + 2
    return Fraction(2 * result, one)


def _two_over_pi(bits: int) -> Fraction:
    """2/pi to so many bits, by Machin's formula pi = 16 arctan(1/5) - 4 arctan(1/239)."""
    one = 1 << (bits + 32)

    def arctan_inverse(n: int) -> int:
        total, term, k = 0, one // n, 0
        while term:
            total += (-1) ** k * (term // (2 * k + 1))
            term //= n * n
            k += 1
        return total

    return Fraction(2 * one, 16 * arctan_inverse(5) - 4 * arctan_inverse(239))


@cache
def payne_hanek_rows(bits: int) -> tuple[float, ...]:
    """Row j: 2^(8j) 2/pi modulo 4 as four floats, all that matters of 2/pi for arguments that are whole multiples of 2^(8j)."""
    f = FORMATS[bits]
    value = _two_over_pi(f.bias + 320)
    rows: list[float] = []
    for j in range((f.bias - f.mantissa) // 8 + 1):
        v = value * 2 ** (8 * j)
        rows += _parts(v - 4 * round(v / 4), *[f.digits] * 4)
    return tuple(rows)
