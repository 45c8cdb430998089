"""Elementary functions of complex numbers, on pairs of reals.

Branch cuts, signed zeros, infinities and NaN are those of C99, annex G, which NumPy follows. A special value is chosen at the end, by
`select`, so that the functions stay straight lines of vector code.
"""

from __future__ import annotations

import math

import numpy as np

from adjit.ir import ops
from adjit.ir.graph import Value
from adjit.ir.ops.creation import full_like
from adjit.passes.complex_numbers.arithmetic import (
    Pair,
    divide,
    is_zero,
    multiply,
    scaled,
)

NAN, INF = float("nan"), float("inf")


# -- helpers on reals


def plus(x: Value, number: float) -> Value:
    return ops.add(x, full_like(x, number))


def times(x: Value, number: float) -> Value:
    return ops.multiply(x, full_like(x, number))


def is_number(x: Value, number: float) -> Value:
    return ops.equal(x, full_like(x, number))


def below(x: Value, number: float) -> Value:
    return ops.less(x, full_like(x, number))


def above(x: Value, number: float) -> Value:
    return ops.greater(x, full_like(x, number))


def if_number(condition: Value, number: float, x: Value) -> Value:
    """The number where the condition holds, else `x`."""
    return ops.select(condition, full_like(x, number), x)


def is_negative(x: Value) -> Value:
    """True for negative numbers and -0.0."""
    return ops.logical_or(below(x, 0.0), ops.logical_and(is_number(x, 0.0), below(ops.reciprocal(x), 0.0)))


def with_sign(magnitude: Value, sign_of: Value) -> Value:
    """`magnitude`, which is not negative, with the sign of another number."""
    return ops.select(is_negative(sign_of), ops.negative(magnitude), magnitude)


def limits_of(x: Value) -> np.finfo:
    return np.finfo(x.type.dtype)


# -- exponentials


def _overflow(x: Value) -> tuple[Value, Value, float]:
    """Where exp(x) overflows, though exp(x) times a cosine may not: the condition, x without the excess, and its exponential."""
    limit = math.floor(math.log(float(limits_of(x).max)))
    large = above(x, limit)
    return large, ops.select(large, plus(x, -limit), x), math.exp(limit)


def exp(z: Pair) -> Pair:
    x, y = z
    large, reduced, factor = _overflow(x)
    growth = ops.exp(reduced)

    def grown(part: Value) -> Value:
        return ops.multiply(ops.select(large, times(part, factor), part), growth)

    real, imag = grown(ops.cos(y)), ops.select(is_number(y, 0.0), y, grown(ops.sin(y)))
    endless = ops.logical_not(ops.isfinite(y))
    at_zero, at_infinity = ops.logical_and(is_number(x, -INF), endless), ops.logical_and(is_number(x, INF), endless)
    real = if_number(at_infinity, INF, if_number(at_zero, 0.0, real))
    return real, ops.select(at_zero, with_sign(full_like(y, 0.0), y), imag)


def exp2(z: Pair) -> Pair:
    return exp(scaled(z, math.log(2.0)))


def expm1(z: Pair) -> Pair:
    """expm1(x) cos(y) - 2 sin(y / 2)^2, without cancellation near 0, as NumPy computes it."""
    x, y = z
    half = ops.sin(times(y, 0.5))
    real = ops.subtract(ops.multiply(ops.expm1(x), ops.cos(y)), times(ops.multiply(half, half), 2.0))
    return real, ops.multiply(ops.exp(x), ops.sin(y))


# -- logarithms


_SPLITTERS = {24: 2.0 ** 12 + 1, 53: 2.0 ** 27 + 1}
"""Factors that split a float into two halves of its digits, by the number of digits (T. J. Dekker, 1971)."""


def _exact_square(x: Value) -> Pair:
    """x * x as the unevaluated sum of two floats (Dekker)."""
    split = times(x, _SPLITTERS[limits_of(x).nmant + 1])
    high = ops.subtract(split, ops.subtract(split, x))
    low = ops.subtract(x, high)
    product = ops.multiply(x, x)
    cross = ops.multiply(high, low)
    error = ops.add(ops.add(ops.subtract(ops.multiply(high, high), product), ops.add(cross, cross)), ops.multiply(low, low))
    return product, error


def _exact_sum(a: Value, b: Value) -> Pair:
    """a + b as the unevaluated sum of two floats (Knuth)."""
    total = ops.add(a, b)
    other = ops.subtract(total, a)
    return total, ops.add(ops.subtract(a, ops.subtract(total, other)), ops.subtract(b, other))


def log_abs(z: Pair) -> Value:
    """log |z|. Near the unit circle it is log1p(|z|^2 - 1) / 2, with the difference to almost twice the digits."""
    x, y = map(ops.abs, z)
    large, small = ops.maximum(x, y), ops.minimum(x, y)
    squares = _exact_square(large), _exact_square(small)
    first, first_error = _exact_sum(squares[0][0], full_like(x, -1.0))
    second, second_error = _exact_sum(first, squares[1][0])
    errors = ops.add(ops.add(first_error, second_error), ops.add(squares[0][1], squares[1][1]))
    norm = ops.add(ops.multiply(large, large), ops.multiply(small, small))
    near = ops.logical_and(above(norm, 0.5), below(norm, 3.0))
    distance = if_number(ops.logical_not(near), 0.0, ops.add(second, errors))
    limits = limits_of(x)
    huge, tiny = above(large, float(limits.max) / 4), below(large, float(limits.tiny) * 2.0 ** 54)
    scale = if_number(tiny, 2.0 ** 54, if_number(huge, 0.25, full_like(x, 1.0)))        # the length neither overflows nor loses digits
    shift = if_number(tiny, -54 * math.log(2.0), if_number(huge, math.log(4.0), full_like(x, 0.0)))
    far = ops.add(ops.log(ops.hypot(ops.multiply(x, scale), ops.multiply(y, scale))), shift)
    return ops.select(near, times(ops.log1p(distance), 0.5), far)


def log(z: Pair) -> Pair:
    return log_abs(z), ops.arctan2(z[1], z[0])


def log2(z: Pair) -> Pair:
    return scaled(log(z), 1.0 / math.log(2.0))


def log10(z: Pair) -> Pair:
    return scaled(log(z), 1.0 / math.log(10.0))


def log1p(z: Pair) -> Pair:
    """log(1 + z), with digits of |1 + z|^2 - 1 = x (2 + x) + y^2 near 0."""
    x, y = z
    shifted = plus(x, 1.0)
    exact = ops.add(ops.multiply(x, plus(x, 2.0)), ops.multiply(y, y))
    near = ops.logical_and(below(ops.abs(x), 0.25), below(ops.abs(y), 0.25))
    real = ops.select(near, times(ops.log1p(if_number(ops.logical_not(near), 0.0, exact)), 0.5), log_abs((shifted, y)))
    return real, ops.arctan2(y, shifted)


# -- roots and powers


def sqrt(z: Pair) -> Pair:
    """The root with a real part that is not negative; the sign of the imaginary part is that of z."""
    x, y = z
    limits = limits_of(x)
    most = ops.maximum(ops.abs(x), ops.abs(y))
    huge, tiny = above(most, float(limits.max) / 4), below(most, float(limits.tiny) * 2.0 ** 52)
    up = 2 * (limits.nmant // 2 + 1)
    scale = if_number(tiny, 2.0 ** up, if_number(huge, 0.25, full_like(x, 1.0)))
    back = if_number(tiny, 2.0 ** (-up // 2), if_number(huge, 2.0, full_like(x, 1.0)))
    a, b = ops.multiply(x, scale), ops.multiply(y, scale)
    t = ops.sqrt(times(ops.add(ops.abs(a), ops.hypot(a, b)), 0.5))
    other = ops.divide(b, times(t, 2.0))
    right = ops.greater_equal(x, full_like(x, 0.0))
    real = ops.multiply(ops.select(right, t, ops.abs(other)), back)
    imag = ops.multiply(ops.select(right, other, with_sign(t, y)), back)
    zero, endless, nan = is_zero(z), ops.isinf(y), full_like(x, NAN)
    down, out = is_number(x, -INF), is_number(x, INF)
    lost = ops.isnan(y)
    real = ops.select(down, ops.select(lost, nan, full_like(x, 0.0)), ops.select(out, x, real))
    imag = ops.select(down, with_sign(full_like(x, INF), y),
                      ops.select(out, ops.select(lost, nan, with_sign(full_like(x, 0.0), y)), imag))
    real, imag = if_number(zero, 0.0, real), ops.select(zero, y, imag)
    return if_number(endless, INF, real), ops.select(endless, y, imag)


def power(a: Pair, b: Pair) -> Pair:
    """exp(b log(a)); 1 where b is 0, and 0 where a is 0 and the exponent's real part positive."""
    result = exp(multiply(b, log(a)))
    from_zero = is_zero(a)
    defined = above(b[0], 0.0)
    result = (ops.select(from_zero, if_number(defined, 0.0, full_like(b[0], NAN)), result[0]),
              ops.select(from_zero, if_number(defined, 0.0, full_like(b[0], NAN)), result[1]))
    none = is_zero(b)
    return if_number(none, 1.0, result[0]), if_number(none, 0.0, result[1])


WHOLE_EXPONENTS = frozenset(range(-99, 100))
"""Exponents for which NumPy multiplies."""


def whole_power(a: Pair, exponent: int) -> Pair:
    """Power by products, in NumPy's order; a negative one is the reciprocal of the positive one."""
    if exponent == 0:
        return full_like(a[0], 1.0), full_like(a[1], 0.0)
    if exponent in (1, 2, 3):
        return (a, multiply(a, a), multiply(a, multiply(a, a)))[exponent - 1]
    remaining, factor, product = abs(exponent), a, None
    while True:
        if remaining & 1:
            product = factor if product is None else multiply(product, factor)
        remaining >>= 1
        if not remaining:
            break
        factor = multiply(factor, factor)
    assert product is not None
    return product if exponent > 0 else divide((full_like(a[0], 1.0), full_like(a[1], 0.0)), product)


# -- hyperbolic and trigonometric functions


def _hyperbolic(z: Pair) -> tuple[Value, Value, Value, Value, Value]:
    """Of x = |re z|: the hyperbolic sine and cosine without their excess, where they overflow, the excess, and cosine and sine of y."""
    x, y = z
    large, reduced, factor = _overflow(ops.abs(x))
    half = times(ops.exp(reduced), 0.5)
    sinh, cosh = ops.select(large, half, ops.sinh(ops.abs(x))), ops.select(large, half, ops.cosh(x))
    return sinh, cosh, if_number(large, factor, full_like(x, 1.0)), ops.cos(y), ops.sin(y)


def sinh(z: Pair) -> Pair:
    """sinh(x) cos(y) + i cosh(x) sin(y)."""
    x, y = z
    sinh_x, cosh_x, factor, cos_y, sin_y = _hyperbolic(z)
    real = ops.multiply(ops.multiply(cos_y, factor), with_sign(sinh_x, x))
    imag = ops.multiply(ops.multiply(sin_y, factor), cosh_x)
    at_real, at_imaginary = is_number(y, 0.0), is_number(x, 0.0)
    endless = ops.logical_not(ops.isfinite(y))
    real = ops.select(at_real, ops.sinh(x), ops.select(ops.logical_and(at_imaginary, endless), x, real))
    real = if_number(ops.logical_and(ops.isinf(x), endless), INF, real)
    return real, ops.select(at_real, y, imag)


def cosh(z: Pair) -> Pair:
    """cosh(x) cos(y) + i sinh(x) sin(y)."""
    x, y = z
    sinh_x, cosh_x, factor, cos_y, sin_y = _hyperbolic(z)
    real = ops.multiply(ops.multiply(cos_y, factor), cosh_x)
    imag = ops.multiply(ops.multiply(sin_y, factor), with_sign(sinh_x, x))
    at_real, at_imaginary = is_number(y, 0.0), is_number(x, 0.0)
    endless = ops.logical_not(ops.isfinite(y))
    real = ops.select(at_real, ops.cosh(x), real)
    real = if_number(ops.logical_and(ops.isinf(x), endless), INF, real)
    one = full_like(x, 1.0)
    flat = with_sign(full_like(x, 0.0), ops.multiply(with_sign(one, x), with_sign(one, y)))
    return real, if_number(ops.logical_and(at_imaginary, endless), 0.0, ops.select(at_real, flat, imag))


def tanh(z: Pair) -> Pair:
    """W. Kahan, "Branch cuts for complex elementary functions" (1987)."""
    x, y = z
    t, s = ops.tan(y), ops.sinh(x)
    beta, rho = plus(ops.multiply(t, t), 1.0), ops.hypot(s, full_like(s, 1.0))
    denominator = plus(ops.multiply(ops.multiply(beta, s), s), 1.0)
    real = ops.divide(ops.multiply(ops.multiply(beta, rho), s), denominator)
    imag = ops.divide(t, denominator)
    steep = above(ops.abs(x), 22.0 if limits_of(x).nmant > 30 else 11.0)
    one = with_sign(full_like(x, 1.0), x)
    decay = ops.exp(ops.negative(ops.abs(x)))
    turn = ops.multiply(ops.sin(y), ops.cos(y))
    imag = ops.select(steep, ops.multiply(ops.multiply(times(turn, 4.0), decay), decay), imag)
    real = ops.select(steep, one, real)
    at_real, endless, infinite = is_number(y, 0.0), ops.logical_not(ops.isfinite(y)), ops.isinf(x)
    sign_at_infinity = ops.select(endless, y, turn)
    imag = ops.select(infinite, with_sign(full_like(x, 0.0), sign_at_infinity), imag)
    real = ops.select(ops.logical_and(is_number(x, 0.0), endless), x, ops.select(
        ops.logical_and(endless, ops.logical_not(infinite)), full_like(x, NAN), real))
    return real, ops.select(at_real, y, imag)


def _turned(z: Pair) -> Pair:
    """i z."""
    return ops.negative(z[1]), z[0]


def _turned_back(z: Pair) -> Pair:
    """-i z."""
    return z[1], ops.negative(z[0])


def sin(z: Pair) -> Pair:
    real, imag = _turned_back(sinh(_turned(z)))
    return real, if_number(ops.logical_and(ops.isinf(z[1]), ops.logical_not(ops.isfinite(z[0]))), INF, imag)


def cos(z: Pair) -> Pair:
    return cosh(_turned(z))


def tan(z: Pair) -> Pair:
    return _turned_back(tanh(_turned(z)))


FUNCTIONS = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")
"""Names of the ops that are defined here for one operand."""
