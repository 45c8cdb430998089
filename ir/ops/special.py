"""Special functions, which NumPy lacks: error functions, log-gamma and its derivatives, modified Bessel functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from adjit.ir import special_functions
from adjit.ir.definition import OpDefinition, Sample
from adjit.ir.graph import Value
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.arithmetic import add, divide, multiply, negative, reciprocal, rint, sign, square, subtract
from adjit.ir.ops.comparison import equal, greater, isnan, less
from adjit.ir.ops.creation import full_like
from adjit.ir.ops.elementwise_math import cos, exp, log, log1p, one_minus, plus, scaled, sin, times, unary_function
from adjit.ir.ops.logical import logical_and, logical_not, logical_or
from adjit.ir.ops.sampling import unary_samples, uniform
from adjit.ir.ops.selection import select
from adjit.ir.types import F32

if TYPE_CHECKING:
    import fractions
else:
    fractions = LazyModule("fractions")

_SQRT_PI = math.sqrt(math.pi)


def _also_negative(low: float, high: float, *negative: float) -> Callable[[], Iterator[Sample]]:
    """Samples between `low` and `high`, and at these negative arguments, for which another formula holds."""
    def samples() -> Iterator[Sample]:
        yield from unary_samples(low, high, differentiable=True)
        yield Sample((np.array(negative),), differentiable=(0,))
        yield Sample((uniform((7,), 4.5, 12.0),), differentiable=(0,))
    return samples


# -- error functions


def erfcx_derivative(x: Value, y: Value) -> Value:
    """2 x y - 2 / sqrt(pi); for large x, where the difference cancels, the asymptotic series (DLMF 7.12.1)."""
    limit = 8.0 if x.type.dtype == F32 else 60.0
    beyond = greater(x, full_like(x, limit))
    safe = select(beyond, x, full_like(x, limit))
    v = reciprocal(scaled(square(safe), 2.0))
    series = full_like(x, -945.0)
    for odd_factorial in (105.0, -15.0, 3.0, -1.0):
        series = plus(multiply(series, v), odd_factorial)
    return select(beyond, scaled(multiply(series, v), 2.0 / _SQRT_PI), plus(scaled(multiply(x, y), 2.0), -2.0 / _SQRT_PI))


erfc: OpDefinition = unary_function(
    "erfc", special_functions.erfc, "The complementary error function, 1 - erf(x), without cancellation.", -2, 2,
    times(lambda x, y: scaled(exp(negative(square(x))), -2.0 / _SQRT_PI)))
erfcx: OpDefinition = unary_function(
    "erfcx", special_functions.erfcx, "The scaled complementary error function, exp(x**2) * erfc(x).", -2, 3,
    times(erfcx_derivative))
erfinv: OpDefinition = unary_function(
    "erfinv", special_functions.erfinv, "The inverse of the error function; infinite at -1 and 1, NaN beyond.", -0.9, 0.9,
    times(lambda x, y: scaled(exp(square(y)), _SQRT_PI / 2.0)))

# -- x log y


def _times_log(x: Value, y: Value, log: Callable[[Value], Value], pole: float) -> Value:
    """x log(y), and 0 where x is 0 and the logarithm not finite; the logarithm is not taken there, so that its derivative stays finite,
    too. Where it is finite the product has its derivative in x, at x = 0, too."""
    finite = logical_and(greater(y, full_like(y, pole)), less(y, full_like(y, math.inf)))
    nothing = logical_and(equal(x, full_like(x, 0.0)), logical_not(logical_or(finite, isnan(y))))
    return select(nothing, full_like(x, 0.0), multiply(x, log(select(nothing, full_like(y, pole + 1.0), y))))


def xlogy(x: Value, y: Value) -> Value:
    return _times_log(x, y, log, 0.0)


def xlog1py(x: Value, y: Value) -> Value:
    return _times_log(x, y, log1p, -1.0)


# -- the gamma function

lgamma: OpDefinition = unary_function(
    "lgamma", special_functions.lgamma, "The logarithm of the absolute value of the gamma function.", 0.5, 4,
    times(lambda x, y: digamma(x)), samples=_also_negative(0.5, 4, -0.3, -0.7, -1.4, -3.6))
digamma: OpDefinition = unary_function(
    "digamma", special_functions.digamma, "The derivative of lgamma; NaN at the negative whole numbers.", 0.5, 4,
    times(lambda x, y: trigamma(x)), samples=_also_negative(0.5, 4, -0.3, -0.7, -1.4, -3.6))
trigamma: OpDefinition = unary_function(
    "trigamma", special_functions.trigamma, "The derivative of digamma; infinite at 0 and the negative whole numbers.", 0.5, 4,
    times(lambda x, y: polygamma(2, x)), samples=_also_negative(0.5, 4, -0.3, -0.7, -1.4, -3.6))


_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
_FAR = 16.0


def _stirling(x: Value) -> Value:
    """What Stirling's formula (DLMF 5.11.1) leaves of log Gamma(x), for x >= 16."""
    w = reciprocal(x)
    v, value = square(w), full_like(x, _STIRLING[-1])
    for coefficient in _STIRLING[-2::-1]:
        value = plus(multiply(value, v), coefficient)
    return multiply(value, w)


def log_beta(a: Value, b: Value) -> Value:
    """log |B(a, b)|. Where one argument is large its log Gamma and that of the sum nearly cancel: their difference is taken by Stirling's
    formula, in which the large terms cancel by themselves; where both are, the third log Gamma, too."""
    first = less(a, b)      # not the minimum, whose derivative at a = b is the mean of both sides
    p, q = select(first, a, b), select(first, b, a)
    far, both = greater(q, full_like(q, _FAR)), greater(p, full_like(p, _FAR))
    far = logical_and(far, greater(p, full_like(p, 0.0)))
    near = subtract(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
    large, small = select(far, q, full_like(q, _FAR)), select(far, p, full_like(p, 1.0))
    both_large = select(both, small, full_like(p, _FAR))
    total = add(large, small)
    grown = multiply(plus(large, -0.5), log1p(divide(small, large)))
    rest = subtract(subtract(_stirling(large), _stirling(total)), grown)
    one = add(subtract(add(lgamma(select(both, full_like(p, 1.0), small)), small), multiply(small, log(total))), rest)
    log_share = log(divide(both_large, total))
    two = add(add(subtract(multiply(both_large, log_share), scaled(log(both_large), 0.5)), _stirling(both_large)),
              plus(rest, 0.5 * math.log(2.0 * math.pi)))
    return select(far, select(both, two, one), near)


def polygamma(order: int, x: Value) -> Value:
    """Derivative of digamma of this order (at least 2), made of ops, so that the derivative can be differentiated itself.

    Formula: order! times the Hurwitz zeta function by Euler and Maclaurin's formula (DLMF 25.11.9), negative x by the reflection formula
    (DLMF 5.15.6).
    """
    mirrored = less(x, full_like(x, 0.0))
    y = select(mirrored, one_minus(x), x)
    value = scaled(hurwitz_zeta(order + 1, y), float((-1) ** (order + 1) * math.factorial(order)))
    distance = select(mirrored, subtract(x, rint(x)), full_like(x, 0.25))
    angle = scaled(distance, math.pi)
    cotangent = divide(cos(angle), sin(angle))
    reflected = subtract(scaled(value, float((-1) ** order)), _cotangent_derivative(order, cotangent))
    return select(mirrored, reflected, value)


def hurwitz_zeta(s: int, x: Value, terms: int = 8) -> Value:
    """sum((x + k)**-s), k from 0, for x >= 0."""
    steps = terms + s
    total = _whole_power(reciprocal(x), s)
    for k in range(1, steps):
        total = add(total, _whole_power(reciprocal(plus(x, float(k))), s))
    w = reciprocal(plus(x, float(steps)))
    square_of_w = square(w)
    rest = full_like(x, 0.0)
    for j in range(terms, 0, -1):
        factor = bernoulli(2 * j) * math.prod(range(s, s + 2 * j - 1)) / math.factorial(2 * j)
        rest = plus(multiply(rest, square_of_w), float(factor))
    tail = plus(multiply(w, plus(multiply(w, rest), 0.5)), 1.0 / (s - 1))
    return add(total, multiply(_whole_power(w, s - 1), tail))


def _whole_power(x: Value, exponent: int) -> Value:
    if exponent == 1:
        return x
    half = _whole_power(square(x), exponent // 2)
    return multiply(half, x) if exponent % 2 else half


def bernoulli(n: int) -> fractions.Fraction:
    """The Bernoulli number with this index."""
    numbers = [fractions.Fraction(1)]
    for m in range(1, n + 1):
        numbers.append(-sum((math.comb(m + 1, k) * numbers[k] for k in range(m)), fractions.Fraction(0)) / (m + 1))
    return numbers[n]


def _cotangent_derivative(order: int, cotangent: Value) -> Value:
    """Derivative of pi cot(pi x) of this order: a polynomial P of the cotangent c; the next derivative is -(1 + c^2) P'."""
    coefficients = [0, 1]
    for _ in range(order):
        slope = [k * c for k, c in enumerate(coefficients)][1:]
        coefficients = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    value = full_like(cotangent, float(coefficients[-1]))
    for coefficient in coefficients[-2::-1]:
        value = plus(multiply(value, cotangent), float(coefficient))
    return scaled(value, math.pi ** (order + 1))


# -- modified Bessel functions


def _over_x(x: Value, y: Value) -> Value:
    """i1e(x) / x, which is 1/2 at 0."""
    at_zero = equal(x, full_like(x, 0.0))
    return select(at_zero, full_like(x, 0.5), divide(y, select(at_zero, full_like(x, 1.0), x)))


i0e: OpDefinition = unary_function(
    "i0e", special_functions.i0e, "The modified Bessel function I0, times exp(-abs(x)); the derivative at 0 is 0.", 0.5, 12,
    times(lambda x, y: subtract(i1e(x), multiply(sign(x), y))))
i1e: OpDefinition = unary_function(
    "i1e", special_functions.i1e, "The modified Bessel function I1, times exp(-abs(x)).", 0.5, 12,
    times(lambda x, y: subtract(i0e(x), add(multiply(sign(x), y), _over_x(x, y)))))
