"""Exact operations: signs, rounding, division, comparisons, logic, shifts, integer powers, with NumPy's meaning for every dtype."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from adjit.codegen.vector_math.language import Value, bits_of, convert, copysign, floor, like, maximum, minimum, select, slow_path
from adjit.codegen.vector_math.remainder import c_remainder
from adjit.ir.lazy_module import LazyModule

if TYPE_CHECKING:
    from adjit.codegen.vector_math import powers
else:
    powers = LazyModule("adjit.codegen.vector_math.powers")


def negative(x: Value) -> Value: return -x
def invert(x: Value) -> Value: return ~x
def bitwise_and(a: Value, b: Value) -> Value: return a & b
def bitwise_or(a: Value, b: Value) -> Value: return a | b
def bitwise_xor(a: Value, b: Value) -> Value: return a ^ b
def add(a: Value, b: Value) -> Value: return a | b if a.kind == "b" else a + b
def subtract(a: Value, b: Value) -> Value: return a - b
def multiply(a: Value, b: Value) -> Value: return a & b if a.kind == "b" else a * b
def divide(a: Value, b: Value) -> Value: return a / b
def reciprocal(x: Value) -> Value: return 1.0 / x
def square(x: Value) -> Value: return multiply(x, x)
def equal(a: Value, b: Value) -> Value: return a.equals(b)
def not_equal(a: Value, b: Value) -> Value: return a.differs(b)
def less(a: Value, b: Value) -> Value: return a < b
def less_equal(a: Value, b: Value) -> Value: return a <= b
def greater(a: Value, b: Value) -> Value: return a > b
def greater_equal(a: Value, b: Value) -> Value: return a >= b
def isnan(x: Value) -> Value: return x.differs(x)
def isinf(x: Value) -> Value: return abs(x).equals(math.inf)
def isfinite(x: Value) -> Value: return abs(x) < math.inf
def logical_not(x: Value) -> Value: return x.equals(0)
def logical_and(a: Value, b: Value) -> Value: return convert(a, "bool") & convert(b, "bool")
def logical_or(a: Value, b: Value) -> Value: return convert(a, "bool") | convert(b, "bool")
def logical_xor(a: Value, b: Value) -> Value: return convert(a, "bool") ^ convert(b, "bool")


def absolute(x: Value) -> Value:
    if x.kind == "f":
        return abs(x)
    return select(x < 0, -x, x) if x.kind == "i" else x


def sign(x: Value) -> Value:
    """-1, 0 or 1; NaN for NaN; 0.0 for -0.0."""
    if x.kind == "u":
        return select(x > 0, 1, like(x, 0))
    return select(x > 0, 1, select(x < 0, -1, select(x.equals(0), 0, x)))


def relu(x: Value) -> Value:
    """The larger of x and 0; NaN for NaN."""
    return select(x <= 0.0, 0.0, x)


def larger(a: Value, b: Value) -> Value:
    """The larger of a and b; NaN if either is NaN."""
    return maximum(a, b) if a.kind == "f" else select(a > b, a, b)


def smaller(a: Value, b: Value) -> Value:
    """The smaller of a and b; NaN if either is NaN."""
    return minimum(a, b) if a.kind == "f" else select(a < b, a, b)


def larger_number(a: Value, b: Value) -> Value:
    """The larger of a and b; if one is NaN, the other."""
    return select((a > b) | b.differs(b), a, b)


def smaller_number(a: Value, b: Value) -> Value:
    """The smaller of a and b; if one is NaN, the other."""
    return select((a < b) | b.differs(b), a, b)


def strong_multiply(cotangent: Value, local: Value) -> Value:
    return select(cotangent.equals(0.0), 0.0, cotangent * local)


def strong_product(a: Value, b: Value) -> Value:
    return select(a.equals(0.0) | b.equals(0.0), 0.0, a * b)


def strong_divide(cotangent: Value, local: Value) -> Value:
    return select(cotangent.equals(0.0), 0.0, cotangent / local)


def _float_division(a: Value, b: Value) -> tuple[Value, Value]:
    """Quotient rounded down and remainder, computed from C's exact remainder as NumPy (and Python) do."""
    rest = c_remainder(a, b)
    exact = rest.equals(0.0)
    wrong_side = ~exact & ((b < 0.0) ^ (rest < 0.0))
    down = (a - rest) / b
    down = select(wrong_side, down - 1.0, down)
    whole = floor(down)
    whole = select(down - whole > 0.5, whole + 1.0, whole)
    by_zero = b.equals(0.0)
    whole = select(by_zero, a / b, select(down.equals(0.0), copysign(0.0, a / b), whole))
    return whole, select(exact, copysign(0.0, b), select(wrong_side, rest + b, rest))


_NEAR = 51
"""Bits of integers whose sum with `_MAGIC` has them as its low bits."""

_MAGIC = 1.5 * 2.0**52


def _integer_division(a: Value, b: Value) -> tuple[Value, Value]:
    """Quotient rounded down and remainder; both 0 for b = 0. A quotient that does not fit wraps around.

    Processors divide floats by vectors, and integers one by one. A quotient of floats rounded to nearest has the same whole part as the
    exact one if the dividend has fewer bits than the format has digits: the exact one is too far from the next whole number."""
    if not a.emitter.fused:         # nor is there an instruction that rounds
        return _division_by_integer(a, b)
    by_zero = b.equals(0)
    if a.bits <= 32:
        wide = "f64" if a.bits == 32 else "f32"
        dividend, divisor = convert(a, wide), convert(select(by_zero, 1, b), wide)
        quotient = floor(dividend / divisor)
        whole, rest = (select(by_zero, 0, _whole_number(x, a.type)) for x in (quotient, dividend - quotient * divisor))
        return whole, rest
    far = ((a | b) >> _NEAR) if a.kind == "u" else ((a + (1 << _NEAR)) | (b + (1 << _NEAR))) >> (_NEAR + 1)
    dividend, divisor = _small_float(a), _small_float(select(by_zero, 1, b))
    quotient = floor(dividend / divisor)
    rest = dividend - quotient * divisor
    return slow_path(far.differs(0), lambda: _division_by_integer(a, b),        # type: ignore[return-value]
                     *(select(by_zero, 0, _small_integer(x, a.type)) for x in (quotient, rest)))


def _small_float(x: Value) -> Value:
    """An integer of few bits as a float64, without the instruction that older processors lack."""
    bits = bits_of(_MAGIC, 64)
    return x.emitter.emit("bitcast", "f64", x + bits) - _MAGIC


def _small_integer(x: Value, type: str) -> Value:
    return x.emitter.emit("bitcast", type, x + _MAGIC) - bits_of(_MAGIC, 64)


def _whole_number(x: Value, type: str) -> Value:
    """A whole float as an integer of up to 32 bits; the one that is 1 too large wraps around."""
    small = select(x < 2.0**31, x, -2.0**31) if type == "i32" else x
    return convert(small.emitter.emit("convert", "i64" if type == "u32" else "i32", small), type)


def _division_by_integer(a: Value, b: Value) -> tuple[Value, Value]:
    """Quotient and remainder by the instructions of integers."""
    by_zero = b.equals(0)
    if a.kind == "u":
        divisor = select(by_zero, 1, b)
        quotient = a / divisor
        return select(by_zero, 0, quotient), select(by_zero, 0, a - quotient * divisor)
    by_minus_one = b.equals(-1)   # the processor traps on the smallest number divided by -1
    divisor = select(by_zero | by_minus_one, 1, b)
    quotient = a / divisor
    rest = a - quotient * divisor
    wrong_side = rest.differs(0) & ((rest ^ divisor) < 0)
    quotient, rest = select(wrong_side, quotient - 1, quotient), select(wrong_side, rest + divisor, rest)
    return select(by_zero, 0, select(by_minus_one, -a, quotient)), select(by_zero, 0, rest)


def floor_divide_by_constant(a: Value, b: Value) -> Value:
    """The quotient of integers by a constant: a product, where the processor has it for so many bits."""
    return _division_by_integer(a, b)[0]


def remainder_by_constant(a: Value, b: Value) -> Value:
    return _division_by_integer(a, b)[1]


def floor_divide(a: Value, b: Value) -> Value:
    return (_float_division if a.kind == "f" else _integer_division)(a, b)[0]


def remainder(a: Value, b: Value) -> Value:
    return (_float_division if a.kind == "f" else _integer_division)(a, b)[1]


def power(x: Value, y: Value) -> Value:
    """x^y; for integers by repeated squaring, with wrap-around, and y taken as unsigned."""
    if x.kind == "f":
        return powers.power(x, y)
    result = like(x, 1)
    for bit in range(x.bits):
        result = select((y & (1 << bit)).differs(0), result * x, result)
        x = x * x
    return result


def left_shift(x: Value, count: Value) -> Value:
    """x shifted left; 0 for counts from the width of x on, and for negative counts."""
    fits = _fits(count)
    return select(fits, x << select(fits, count, 0), 0)


def right_shift(x: Value, count: Value) -> Value:
    """x shifted right; for counts from the width of x on, and for negative counts, 0 or -1 by the sign of x."""
    if x.kind == "u":
        fits = _fits(count)
        return select(fits, x >> select(fits, count, 0), 0)
    return x >> select(_fits(count), count, x.bits - 1)


def _fits(count: Value) -> Value:
    return (count >= 0) & (count < count.bits)

