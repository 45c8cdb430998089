"""Building blocks of the functions: polynomials, error-free sums and products, rounding, powers of two.

Error-free transformations: Dekker (1971), Knuth, Veltkamp; see Muller et al., Handbook of Floating-Point Arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence

from adjit.codegen.vector_math.coefficients import COEFFICIENTS
from adjit.codegen.vector_math.language import Number, Value, fma, like, scale, select, to_bits, to_float

Pair = tuple[Value, Value]
Whole = tuple[Value, Value]
"""A whole number n, as a float and as the low bits of an integer: see `nearest`."""


def polynomial(x: Value, name: str) -> Value:
    """The named polynomial at x.

    Horner's rule. With many coefficients, even and odd powers are separate (Estrin), which halves the dependency chain, at the cost of
    one more product and a little accuracy. With very many coefficients they are separated twice, if products are not rounded.
    """
    return _sum_of_powers(x, COEFFICIENTS[name, x.bits])


def _sum_of_powers(x: Value, coefficients: Sequence[float]) -> Value:
    return horner(x, coefficients) if len(coefficients) < 10 else _even_and_odd(x, coefficients)


def _even_and_odd(x: Value, coefficients: Sequence[float]) -> Value:
    square, parts = x * x, (coefficients[1::2], coefficients[::2])
    once_more = x.emitter.fused and len(coefficients) >= 20
    odd, even = (_even_and_odd(square, part) if once_more else horner(square, part) for part in parts)
    return fma(odd, x, even)


def one_chain(x: Value, name: str) -> Value:
    """The named polynomial at x, by Horner's rule alone: for coefficients whose even and odd powers cancel."""
    return horner(x, COEFFICIENTS[name, x.bits])


def two_chains(x: Value, name: str) -> Value:
    """The named polynomial at x, with even and odd powers separate, for results on the critical path."""
    return _even_and_odd(x, COEFFICIENTS[name, x.bits])


def split_polynomial(x: Value, name: str) -> Pair:
    """The named polynomial at x as a pair: its leading term, whose coefficient has two parts, and the remaining terms."""
    high, low, *others = COEFFICIENTS[name, x.bits]
    return like(x, high), fma(x, _sum_of_powers(x, others), low)


def horner(x: Value, coefficients: Sequence[float]) -> Value:
    value = like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = fma(value, x, coefficient)
    return value


def at_least(x: Value, low: float) -> Value:
    """The larger of x and `low`; NaN stays NaN."""
    return select(x < low, low, x)


def at_most(x: Value, high: float) -> Value:
    """The smaller of x and `high`; NaN stays NaN."""
    return select(x > high, high, x)


def sign_of(x: Value) -> Value:
    """The sign bit alone, of a float or an integer."""
    return (to_bits(x) if x.kind == "f" else x) & x.format.sign_bit


def flip(x: Value, sign: Value) -> Value:
    """x, negated if the sign bit of `sign` is set."""
    return to_float(to_bits(x) ^ sign)


def is_negative(x: Value) -> Value:
    """True if the sign bit is set, so also for -0.0."""
    return sign_of(x).differs(0)


def is_odd(integer: Value) -> Value:
    return (integer & 1).differs(0)


def fast_two_sum(a: Value | Number, b: Value) -> Pair:
    """a + b as rounded sum and rounding error, for |a| >= |b| or a = 0."""
    s = a + b
    return s, b - (s - a)


def two_sum(a: Value, b: Value | Number) -> Pair:
    """a + b as rounded sum and rounding error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Value, b: Value | Number) -> Pair:
    """a b as rounded product and rounding error."""
    b = like(a, b)
    p = a * b
    if a.emitter.fused:
        return p, fma(a, b, -p)

    def halves(v: Value) -> Pair:
        t = v * (2.0 ** ((v.format.digits + 1) // 2) + 1.0)
        high = t - (t - v)
        return high, v - high

    (a_high, a_low), (b_high, b_low) = halves(a), halves(b)
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def minus_product(x: Value, a: Value, b: Value | Number) -> Value:
    """x - a b, with an unrounded product."""
    if x.emitter.fused:
        return fma(a, -b, x)
    p, rest = two_product(a, b)
    return (x - p) - rest


def plus_product(x: Value, a: Value, b: Value) -> Value:
    """x + a b, with an unrounded product."""
    return fma(a, b, x) if x.emitter.fused else minus_product(x, a, -b)


def quotient(n: Value, n_low: Value | None, d: Value, d_low: Value) -> Value:
    """(n + n_low) / (d + d_low), with about one rounding."""
    r = 1.0 / d
    q = n * r
    rest = minus_product(n, q, d)
    return fma(fma(-q, d_low, rest if n_low is None else rest + n_low), r, q)


def nearest(x: Value, factor: float = 1.0) -> Whole:
    """n = x factor rounded to a whole number, and `code`, an integer whose low bits are those of n + 2 bias.

    Adding 1.5 2^mantissa rounds, and leaves the integer in the low bits. So no conversion is needed; a conversion would be undefined for
    NaN and large numbers, and older processors have none for 64 bits.
    """
    f = x.format
    magic = 1.5 * f.unit + 2 * f.bias
    t = x + magic if factor == 1.0 else fma(x, factor, magic)
    return t - magic, to_bits(t)


def power_of_two(whole: Whole, shift: int = 0) -> Value:
    """2^(n + shift), a normal number."""
    n, code = whole
    if n.emitter.has_exponent_instructions(n.type):
        return scale(2.0**shift, n)
    return to_float((code + (shift - n.format.bias)) << n.format.mantissa)


def _two_powers(code: Value) -> Pair:
    """Two powers of two whose product is 2^n, even if 2^n is no normal number."""
    f = code.format
    half = code >> 1
    return to_float(half << f.mantissa), to_float((code - half) << f.mantissa)


def times_power_of_two(y: Value, whole: Whole) -> Value:
    """2^n y for y near 1, rounded only if the result is subnormal: both ways of scaling give the same bits."""
    if y.emitter.has_exponent_instructions(y.type):
        return scale(y, whole[0])
    a, b = _two_powers(whole[1])
    return y * a * b


def power_times_one_plus(q: Value, whole: Whole) -> Value:
    """2^n (1 + q), for 1 + q near 1."""
    if q.emitter.has_exponent_instructions(q.type):
        return scale(q + 1.0, whole[0])
    a, b = _two_powers(whole[1])
    return fma(q, a, a) * b


def zero_if_tiny(x: Value, size: Value) -> Value:
    """x, or 0 if `size` is so small that only its first power matters: higher powers might be subnormal, which takes some processors
    long."""
    return select(size < 2.0 ** -(x.format.digits + 6), 0.0, x)


def is_tiny(x: Value) -> Value:
    """True if x is so small that an odd function with slope 1 is x: scaling would cost a subnormal its bits, and a zero its sign."""
    return abs(x) < 2.0 ** -(x.format.digits + 1)
