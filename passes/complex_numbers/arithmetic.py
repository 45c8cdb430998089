"""Arithmetic, comparisons and order of complex numbers, on pairs of reals, as NumPy computes them."""

from __future__ import annotations

from collections.abc import Callable

from adjit.ir import ops
from adjit.ir.graph import Value
from adjit.ir.ops.creation import full_like

Pair = tuple[Value, Value]
"""Real and imaginary part."""


# -- bools


def all_of(*conditions: Value) -> Value:
    """Where all conditions hold."""
    first, *rest = conditions
    for condition in rest:
        first = ops.logical_and(first, condition)
    return first


def any_of(*conditions: Value) -> Value:
    """Where one of the conditions holds."""
    first, *rest = conditions
    for condition in rest:
        first = ops.logical_or(first, condition)
    return first


def is_zero(z: Pair) -> Value:
    return all_of(*(ops.equal(part, full_like(part, 0.0)) for part in z))


def isnan(z: Pair) -> Value:
    return any_of(*map(ops.isnan, z))


def isinf(z: Pair) -> Value:
    return any_of(*map(ops.isinf, z))


def isfinite(z: Pair) -> Value:
    return all_of(*map(ops.isfinite, z))


def select(condition: Value, a: Pair, b: Pair) -> Pair:
    return ops.select(condition, a[0], b[0]), ops.select(condition, a[1], b[1])


def zeros_like(z: Pair) -> Pair:
    return full_like(z[0], 0.0), full_like(z[1], 0.0)


# -- sums and products


def scaled(z: Pair, number: float) -> Pair:
    """Both parts times a real number."""
    return ops.multiply(z[0], full_like(z[0], number)), ops.multiply(z[1], full_like(z[1], number))


def multiply(a: Pair, b: Pair) -> Pair:
    return (ops.subtract(ops.multiply(a[0], b[0]), ops.multiply(a[1], b[1])),
            ops.add(ops.multiply(a[0], b[1]), ops.multiply(a[1], b[0])))


def square(z: Pair) -> Pair:
    product = ops.multiply(z[0], z[1])
    return ops.subtract(ops.multiply(z[0], z[0]), ops.multiply(z[1], z[1])), ops.add(product, product)


def divide(a: Pair, b: Pair) -> Pair:
    """Smith's algorithm (R. L. Smith, "Algorithm 116: complex division", 1962), in NumPy's order of operations. The divisor's parts are
    exchanged where the imaginary one is the larger."""
    wide = ops.greater_equal(ops.abs(b[0]), ops.abs(b[1]))
    large, small = select(wide, b, (b[1], b[0]))
    ratio = ops.divide(small, large)
    scale = ops.divide(full_like(large, 1.0), ops.add(large, ops.multiply(small, ratio)))
    main, other = select(wide, a, (a[1], a[0]))      # of the quotient's real part
    real = ops.multiply(ops.add(main, ops.multiply(other, ratio)), scale)
    crossed = ops.subtract(other, ops.multiply(main, ratio))
    imag = ops.multiply(ops.select(wide, crossed, ops.negative(crossed)), scale)
    zero = is_zero(b)
    return (ops.select(zero, ops.divide(a[0], ops.abs(b[0])), real), ops.select(zero, ops.divide(a[1], ops.abs(b[0])), imag))


def reciprocal(z: Pair) -> Pair:
    """1 / z as NumPy computes it: Smith's algorithm, without its case for 0."""
    wide = ops.less_equal(ops.abs(z[1]), ops.abs(z[0]))
    large, small = select(wide, z, (z[1], z[0]))
    ratio = ops.divide(small, large)
    scale = ops.add(large, ops.multiply(small, ratio))
    whole, part = ops.divide(full_like(scale, 1.0), scale), ops.divide(ratio, scale)
    return ops.select(wide, whole, part), ops.negative(ops.select(wide, part, whole))


def strong_multiply(ct: Pair, local: Pair) -> Pair:
    return select(is_zero(ct), zeros_like(ct), multiply(ct, local))


def strong_product(a: Pair, b: Pair) -> Pair:
    return select(any_of(is_zero(a), is_zero(b)), zeros_like(a), multiply(a, b))


def strong_divide(ct: Pair, local: Pair) -> Pair:
    return select(is_zero(ct), zeros_like(ct), divide(ct, local))


def absolute(z: Pair) -> Value:
    return ops.hypot(*z)


def sign(z: Pair) -> Pair:
    """z / |z|; 0 for 0. One infinite part alone gives its direction, two give NaN."""
    length, zero, infinite = absolute(z), is_zero(z), isinf(z)
    nothing, one, nan = (full_like(length, number) for number in (0.0, 1.0, float("nan")))
    lost = ops.logical_or(ops.logical_and(*map(ops.isinf, z)), ops.logical_and(isnan(z), ops.logical_not(infinite)))
    divisor = ops.select(zero, one, length)

    def along(part: Value) -> Value:
        finite = ops.select(zero, nothing, ops.divide(part, divisor))
        return ops.select(lost, nan, ops.select(infinite, ops.select(ops.isinf(part), ops.sign(part), nothing), finite))

    return along(z[0]), along(z[1])


# -- comparisons: the real parts decide, for equal ones the imaginary parts


def equal(a: Pair, b: Pair) -> Value:
    return ops.logical_and(ops.equal(a[0], b[0]), ops.equal(a[1], b[1]))


def not_equal(a: Pair, b: Pair) -> Value:
    return ops.logical_or(ops.not_equal(a[0], b[0]), ops.not_equal(a[1], b[1]))


def _ordered(strict: Callable[[Value, Value], Value], imaginary: Callable[[Value, Value], Value]) -> Callable[[Pair, Pair], Value]:
    def compare(a: Pair, b: Pair) -> Value:
        numbers = ops.logical_not(ops.logical_or(ops.isnan(a[1]), ops.isnan(b[1])))
        by_real = ops.logical_and(strict(a[0], b[0]), numbers)
        return ops.logical_or(by_real, ops.logical_and(ops.equal(a[0], b[0]), imaginary(a[1], b[1])))
    return compare


less, less_equal = _ordered(ops.less, ops.less), _ordered(ops.less, ops.less_equal)
greater, greater_equal = _ordered(ops.greater, ops.greater), _ordered(ops.greater, ops.greater_equal)


def maximum(a: Pair, b: Pair) -> Pair:
    return select(any_of(isnan(a), greater_equal(a, b)), a, b)


def minimum(a: Pair, b: Pair) -> Pair:
    return select(any_of(isnan(a), less_equal(a, b)), a, b)


def fmax(a: Pair, b: Pair) -> Pair:
    return select(any_of(isnan(b), greater_equal(a, b)), a, b)


def fmin(a: Pair, b: Pair) -> Pair:
    return select(any_of(isnan(b), less_equal(a, b)), a, b)
