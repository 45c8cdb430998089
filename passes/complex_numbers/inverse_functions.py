"""Inverse hyperbolic and trigonometric functions of complex numbers, on pairs of reals.

T. E. Hull, T. F. Fairgrieve and P. T. P. Tang, "Implementing the complex arcsine and arccosine functions using exception handling", ACM
Trans. Math. Softw. 23 (1997), and the arc tangent of W. Kahan (1987), with the special values of C99, annex G.
"""

from __future__ import annotations

import math

from adjit.ir import ops
from adjit.ir.graph import Value
from adjit.ir.ops.creation import full_like
from adjit.passes.complex_numbers.arithmetic import Pair, all_of, any_of
from adjit.passes.complex_numbers.functions import (
    INF,
    NAN,
    above,
    below,
    if_number,
    is_negative,
    is_number,
    limits_of,
    log_abs,
    plus,
    times,
    with_sign,
)

_A_CROSSOVER, _B_CROSSOVER = 10.0, 0.6417
"""Where the simple formulas for logarithm and arc sine are accurate (Hull et al.)."""


def _half_difference(a: Value, b: Value, length: Value) -> Value:
    """(hypot(a, b) - b) / 2 without cancellation; `length` is hypot(a, b)."""
    negative, zero = below(b, 0.0), is_number(b, 0.0)
    divisor = if_number(ops.logical_or(negative, zero), 1.0, ops.add(length, b))
    right = times(ops.divide(ops.multiply(a, a), divisor), 0.5)
    return ops.select(negative, times(ops.subtract(length, b), 0.5), ops.select(zero, times(a, 0.5), right))


def _hard_work(x: Value, y: Value) -> tuple[Value, Value, Value, Value]:
    """For x, y >= 0: the real part of arcsinh(x + iy); where B = y / A is accurate, and B, A being half the sum of the distances from i and
    -i; sqrt(A^2 - y^2)."""
    eps = float(limits_of(x).eps)
    above_one, below_one = plus(y, 1.0), plus(y, -1.0)
    distances = ops.hypot(x, above_one), ops.hypot(x, below_one)
    one = full_like(x, 1.0)
    a = ops.maximum(times(ops.add(*distances), 0.5), one)
    gap = ops.abs(below_one)
    at_one = all_of(is_number(y, 1.0), below(x, eps * eps / 128))
    regular = ops.greater_equal(x, times(gap, eps))
    inside = below(y, 1.0)
    a_minus_one = ops.add(_half_difference(x, above_one, distances[0]), _half_difference(x, ops.negative(below_one), distances[1]))
    product = ops.multiply(gap, above_one)
    edge = ops.sqrt(product)
    safe_edge = if_number(is_number(edge, 0.0), 1.0, edge)
    grown = ops.log1p(ops.add(a_minus_one, ops.sqrt(ops.multiply(a_minus_one, plus(a, 1.0)))))
    outside = ops.log1p(ops.add(gap, edge))
    near = ops.select(at_one, ops.sqrt(x), ops.select(regular, grown, ops.select(inside, ops.divide(x, safe_edge), outside)))
    far = ops.log(ops.add(a, ops.sqrt(plus(ops.multiply(a, a), -1.0))))
    real = ops.select(below(a, _A_CROSSOVER), near, far)
    b = ops.divide(y, a)
    a_minus_y = ops.add(_half_difference(x, above_one, distances[0]), _half_difference(x, below_one, distances[1]))
    root = ops.sqrt(ops.multiply(a_minus_y, ops.add(a, y)))
    root_at_one = ops.multiply(ops.sqrt(x), ops.sqrt(times(ops.add(a, y), 0.5)))
    root_outside = ops.divide(ops.multiply(x, y), safe_edge)
    root = ops.select(all_of(is_number(y, 1.0), below(x, eps / 128)), root_at_one,
                      ops.select(regular, root, ops.select(above(y, 1.0), root_outside, edge)))
    return real, ops.logical_not(above(b, _B_CROSSOVER)), b, root


def _sizes(z: Pair) -> tuple[Value, Value, Value, Value, Value]:
    """Absolute values of the parts, replaced by 1 where the number is so large that its square overflows or infinite or NaN; where it is
    large; where it is so small that odd functions return it."""
    x, y = map(ops.abs, z)
    eps = float(limits_of(x).eps)
    large = ops.logical_or(above(x, 1.0 / eps), above(y, 1.0 / eps))
    small = ops.logical_and(below(x, math.sqrt(6 * eps) / 4), below(y, math.sqrt(6 * eps) / 4))
    return if_number(large, 1.0, x), if_number(large, 1.0, y), large, small, ops.logical_or(ops.isnan(x), ops.isnan(y))


def arcsinh(z: Pair) -> Pair:
    x, y = z
    ax, ay, large, small, nan = _sizes(z)
    real, simple, b, root = _hard_work(ax, ay)
    imag = ops.select(simple, ops.arcsin(ops.minimum(b, full_like(b, 1.0))), ops.arctan2(ay, root))
    real = ops.select(large, plus(log_abs(z), math.log(2.0)), real)
    imag = ops.select(large, ops.arctan2(ops.abs(y), ops.abs(x)), imag)
    real, imag = with_sign(real, x), with_sign(imag, y)
    real, imag = ops.select(small, x, real), ops.select(small, y, imag)
    lost = full_like(x, NAN)
    real = ops.select(nan, ops.select(ops.isinf(x), x, if_number(ops.isinf(y), INF, lost)), real)
    imag = ops.select(nan, ops.select(is_number(y, 0.0), y, lost), imag)
    return real, imag


def arccos(z: Pair) -> Pair:
    x, y = z
    ax, ay, large, small, nan = _sizes(z)
    imag, simple, b, root = _hard_work(ay, ax)
    left = is_negative(x)
    b = ops.minimum(b, full_like(b, 1.0))
    real = ops.select(simple, ops.arccos(ops.select(left, ops.negative(b), b)), ops.arctan2(root, ops.select(left, ops.negative(ax), ax)))
    real = ops.select(large, ops.arctan2(ops.abs(y), x), real)
    imag = ops.select(large, plus(log_abs(z), math.log(2.0)), imag)
    imag = ops.select(is_negative(y), imag, ops.negative(imag))
    real = ops.select(small, ops.subtract(full_like(x, math.pi / 2), x), real)
    imag = ops.select(small, ops.negative(y), imag)
    at_one = ops.logical_and(is_number(x, 1.0), is_number(y, 0.0))
    real, imag = if_number(at_one, 0.0, real), ops.select(at_one, ops.negative(y), imag)
    real = ops.select(nan, if_number(is_number(x, 0.0), math.pi / 2, full_like(x, NAN)), real)
    ends = ops.select(ops.isinf(x), full_like(x, -INF), ops.select(ops.isinf(y), ops.negative(y), full_like(x, NAN)))
    return real, ops.select(nan, ends, imag)


def arctanh(z: Pair) -> Pair:
    x, y = z
    ax, ay, large, small, nan = _sizes(z)
    eps = float(limits_of(x).eps)
    thin = below(ay, eps)
    at_one = is_number(ax, 1.0)
    gap = plus(ax, -1.0)
    squares = ops.add(ops.multiply(gap, gap), ops.multiply(ay, ay))
    flat = is_number(squares, 0.0)
    ratio = ops.divide(times(ax, 4.0), if_number(flat, 1.0, squares))
    real = times(ops.log1p(ratio), 0.25)
    real = ops.select(ops.logical_and(at_one, thin), times(ops.subtract(full_like(x, math.log(2.0)), ops.log(ay)), 0.5), real)
    narrow = ops.multiply(ops.subtract(full_like(x, 1.0), ax), plus(ax, 1.0))
    imag = times(ops.arctan2(times(ay, 2.0), ops.select(thin, narrow, ops.subtract(narrow, ops.multiply(ay, ay)))), 0.5)
    imag = ops.select(at_one, times(ops.arctan2(full_like(ay, 2.0), ops.negative(ay)), 0.5), imag)
    length = ops.hypot(x, y)
    infinite = ops.isinf(length)
    far = if_number(infinite, 0.0, ops.divide(ops.divide(ops.abs(x), length), length))
    real, imag = ops.select(large, far, real), if_number(large, math.pi / 2, imag)
    real, imag = with_sign(real, x), with_sign(imag, y)
    real, imag = ops.select(small, x, real), ops.select(small, y, imag)
    on_real = ops.logical_and(is_number(y, 0.0), ops.less_equal(ops.abs(x), full_like(x, 1.0)))
    on_imaginary = is_number(x, 0.0)
    real = ops.select(on_imaginary, x, ops.select(on_real, ops.arctanh(if_number(ops.logical_not(on_real), 0.0, x)), real))
    imag = ops.select(on_imaginary, ops.arctan(y), ops.select(on_real, y, imag))
    ended = any_of(ops.isinf(x), ops.isinf(y))
    lost = ops.logical_and(nan, ops.logical_not(on_imaginary))
    real = ops.select(lost, ops.select(ended, with_sign(full_like(x, 0.0), x), full_like(x, NAN)), real)
    imag = ops.select(lost, ops.select(ops.isinf(y), with_sign(full_like(x, math.pi / 2), y), full_like(x, NAN)), imag)
    return real, imag


def arccosh(z: Pair) -> Pair:
    """From the arc cosine, turned into the right half plane."""
    real, imag = arccos(z)
    return ops.abs(imag), with_sign(real, z[1])


def _exchanged(z: Pair) -> Pair:
    return z[1], z[0]


def arcsin(z: Pair) -> Pair:
    """-i arcsinh(iz), for which the parts are exchanged twice."""
    return _exchanged(arcsinh(_exchanged(z)))


def arctan(z: Pair) -> Pair:
    """-i arctanh(iz), for which the parts are exchanged twice."""
    return _exchanged(arctanh(_exchanged(z)))
