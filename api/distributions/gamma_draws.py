"""Draws of gamma and Poisson distributions by their inverse distribution functions, with derivatives in the concentration of the former.

All of it is made of elementwise functions and loops of known length, so that draws have the same bits on a card as on the CPU. The
distribution function P(a, x) is Temme's uniform expansion (DLMF 8.12) for large a, which smaller ones are raised to by the recurrence
(DLMF 8.8.7).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from adjit.eager.any_size import run_on_elements, runs_at_once
from adjit.eager.apply import apply
from adjit.eager.call import differentiable
from adjit.eager.generator import next_key
from adjit.eager.modes import modes
from adjit.eager.tensor import Tensor
from adjit.eager.user_function import Function
from adjit.ir.ops.arithmetic import add, divide, multiply
from adjit.ir.ops.creation import full_like
from adjit.ir.ops.elementwise_math import plus
from adjit.runtime.control_flow import fori_loop
from adjit.runtime.custom_vjp import custom_vjp
from adjit.runtime.transforms import jvp, stop_gradient, vjp
from adjit.tracer import random
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.region_trace import inlined_once_traced
from adjit.tracer.registry import FUNCTIONS

Array = Any

_FAR = 24
"""From here on the expansion holds, to 3e-12."""
_DEGREES = (12, 9, 6, 4, 2)
"""Degrees of the polynomials beside the powers of 1 / a."""
_NEAR, _TERMS = 0.1, 14
"""Where a series of so many terms has the logarithm."""
_STEPS = 3
"""Of Halley's iteration: to 1e-9 but for draws rarer than one in 1e9, which are known to no more digits."""
_LEAST, _LONGEST = 2.0**-54, 0.25
_BELOW, _CANDIDATES = 10, 13
"""Numbers below the guess of a Poisson draw, and how many are looked at from there on: a guess is at most 10 too large and 2 too small."""


def gamma_draw(concentration: Tensor, is_log: bool = False) -> Tensor:
    """Draws of gamma distributions of rate 1, or their logarithms: by the inverse distribution function of `concentration + 1`, and a
    uniform number to the power `1 / concentration`, so that logarithms are finite for small concentrations."""
    key = next_key()
    if not runs_at_once(concentration):
        return apply(_drawn, (concentration, key, is_log))      # type: ignore[no-any-return]
    if modes.grad and differentiable(concentration):
        return _GammaDraw.apply(concentration, key, is_log)     # type: ignore[no-any-return]
    return _run(concentration, key, is_log, False)[0]


def poisson_draw(rate: Tensor) -> Tensor:
    """Draws of Poisson distributions, by their inverse distribution functions."""
    key = next_key()
    if not runs_at_once(rate):
        return apply(_poisson_drawn, (rate, key))       # type: ignore[no-any-return]
    return run_on_elements(_poisson_elements, rate, _indices(rate), key)[0]


class _GammaDraw(Function):
    """Operation of the dynamic graph whose two halves are programs for any number of elements."""

    @staticmethod
    def forward(context: Any, concentration: Tensor, key: np.ndarray, is_log: bool) -> Tensor:
        drawn, *residuals = _run(concentration, key, is_log, True)
        context.save_for_backward(concentration, *residuals)
        context.constants = key, is_log
        return drawn

    @staticmethod
    def backward(context: Any, cotangent: Tensor) -> tuple[Tensor, None, None]:
        (concentration, log_x, rest), (key, is_log) = context.saved_tensors, context.constants
        if runs_at_once(concentration, cotangent) and not (modes.grad and (differentiable(concentration) or differentiable(cotangent))):
            gradient, = run_on_elements(_gradient, concentration, log_x, rest, cotangent, is_log=is_log)
        else:
            gradient = apply(_pulled_back, (concentration, key, cotangent, is_log))
        return gradient, None, None


def _run(concentration: Tensor, key: np.ndarray, is_log: bool, with_residuals: bool) -> tuple[Tensor, ...]:
    return run_on_elements(_elements, concentration, _indices(concentration), key, is_log=is_log, with_residuals=with_residuals)


def _indices(x: Tensor) -> np.ndarray:
    return np.arange(x.array.size, dtype=np.uint64).reshape(x.array.shape)


def _drawn(concentration: Array, key: Array, is_log: bool) -> Array:
    a = as_traced(concentration).astype(np.float64)
    first, second = (random.uniform(random.fold_in(key, i), a.shape, np.float64) for i in range(2))
    return _result(_log_quantile(a + 1.0, first) + np.log1p(-second) / a, concentration, is_log)


def _elements(concentration: Array, index: Array, key: Array, is_log: bool, with_residuals: bool) -> tuple[Array, ...]:
    """The same at indices, and what `_gradient` needs, without a rule: that takes as long to trace and compile."""
    a = as_traced(concentration).astype(np.float64)
    first, second = (random.uniform_at(random.fold_in(key, i), index) for i in range(2))
    log_x, rest = _quantile(a + 1.0, first), np.log1p(-second) / a
    return _result(log_x + rest, concentration, is_log), *((log_x, rest) if with_residuals else ())


def _result(logarithm: Array, concentration: Array, is_log: bool) -> Array:
    return (logarithm if is_log else np.exp(logarithm)).astype(as_traced(concentration).dtype)


def _gradient(concentration: Array, log_x: Array, rest: Array, cotangent: Array, is_log: bool) -> tuple[Array]:
    a = as_traced(concentration).astype(np.float64)
    slope = _slope(a + 1.0, log_x) - rest / a
    return (cotangent * (slope if is_log else slope * np.exp(log_x + rest))).astype(as_traced(concentration).dtype),


def _pulled_back(concentration: Array, key: Array, cotangent: Array, is_log: bool) -> Array:
    """The same as a function that has derivatives."""
    return vjp(lambda a: _drawn(a, key, is_log), concentration)[1](cotangent)[0]


def _poisson_drawn(rate: Array, key: Array) -> Array:
    r = as_traced(rate).astype(np.float64)
    return _poisson_quantile(random.uniform(key, r.shape, np.float64), r).astype(as_traced(rate).dtype)


def _poisson_elements(rate: Array, index: Array, key: Array) -> tuple[Array]:
    drawn = _poisson_quantile(random.uniform_at(key, index), as_traced(rate).astype(np.float64))
    return drawn.astype(as_traced(rate).dtype),


def _lgamma(x: Array) -> Array:
    return FUNCTIONS["scipy.special", "gammaln"](x)


def _normal_quantile(u: Array) -> Array:
    return math.sqrt(2.0) * FUNCTIONS["scipy.special", "erfinv"](2.0 * u - 1.0)


# -- the distribution function


@cache
def _expansion() -> tuple[tuple[float, ...], ...]:
    """Coefficients of the polynomials in eta that stand beside the powers of 1 / a: DLMF 8.12.9 to 8.12.12, 5.11.5."""
    count = max(degree + 2 * power for power, degree in enumerate(_DEGREES)) + 3
    alpha = [Fraction(0), Fraction(1)]
    for n in range(2, count + 2):
        alpha.append((alpha[-1] - sum(j * alpha[j] * alpha[n - j + 1] for j in range(2, n))) / (n + 1))
    first = [Fraction(-1, 3), *((n + 2) * alpha[n + 2] for n in range(1, count))]
    rows, odd_factorial = [first], 1
    for power in range(1, len(_DEGREES)):
        odd_factorial *= 2 * power + 1
        stirling = (-1) ** power * odd_factorial * alpha[2 * power + 1]
        rows.append([stirling * first[n] + (n + 2) * rows[-1][n + 2] for n in range(len(rows[-1]) - 2)])
    return tuple(tuple(map(float, row[:degree + 1])) for row, degree in zip(rows, _DEGREES, strict=True))


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    """Emitted as ops, as `_ratio` is: tracing NumPy's operators takes ten times as long."""
    factor = as_traced(x).value
    value = full_like(factor, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = plus(multiply(value, factor), coefficient)
    return wrap(value)


def _ratio(a: Array, x: Array) -> Array:
    """The sum of x^n / ((a + 1) ... (a + n)) for n below `_FAR`."""
    a, x = as_traced(a).value, as_traced(x).value
    top = bottom = full_like(a, 1.0)
    for n in range(_FAR - 1, 0, -1):
        bottom = multiply(bottom, plus(a, float(n)))
        top = add(bottom, multiply(x, top))
    return wrap(divide(top, bottom))


def gamma_cdf(a: Array, x: Array) -> Array:
    """P(a, x) for a >= 1 and x > 0, to 3e-12 of 1."""
    return inlined_once_traced(_gamma_cdf, as_traced(a), as_traced(x))


def _gamma_cdf(a: Array, x: Array) -> Array:
    is_few = a < _FAR
    few, part = np.where(is_few, a, 1.0), np.where(is_few, x, 1.0)
    sum_before = np.exp(few * np.log(part) - part - _lgamma(few + 1.0)) * _ratio(few, part)
    a = np.where(is_few, a + _FAR, a)

    mu = (x - a) / a
    is_near = abs(mu) < _NEAR       # eta^2 / 2 = mu - log(1 + mu), whose terms cancel there
    small, other = np.where(is_near, mu, 0.0), np.where(is_near, 1.0, mu)
    series = _polynomial(-small, tuple(1.0 / n for n in range(2, _TERMS)))
    away = np.sqrt(2.0 * (other - np.log1p(other)))
    eta = np.where(is_near, small * np.sqrt(2.0 * series), np.where(other < 0.0, -away, away))
    inside, share = np.clip(eta, -3.0, 3.0), 1.0 / a
    total = 0.0
    for coefficients in _expansion()[::-1]:
        total = total * share + _polynomial(inside, coefficients)
    rest = np.exp(-0.5 * a * eta * eta) / np.sqrt(2.0 * math.pi * a) * total
    above = 0.5 * FUNCTIONS["scipy.special", "erfc"](-eta * np.sqrt(0.5 * a)) - rest
    return above + np.where(is_few, sum_before, 0.0)


# -- draws


def _quantile(a: Array, u: Array) -> Array:
    """log x with P(a, x) = u, for a >= 1: from Wilson and Hilferty's approximation, or a bound from below."""
    a, u = stop_gradient(a), np.maximum(stop_gradient(u), _LEAST)
    cube = np.maximum(1.0 - 1.0 / (9.0 * a) + _normal_quantile(u) / (3.0 * np.sqrt(a)), 1e-100)
    log_x = np.maximum(np.log(a) + 3.0 * np.log(cube), (np.log(u) + _lgamma(a + 1.0)) / a)

    def step(_: Any, log_x: Array) -> Array:
        x = np.exp(log_x)
        newton = np.clip((gamma_cdf(a, x) - u) * np.exp(-_log_density(a, log_x)), -_LONGEST, _LONGEST)
        return log_x - newton / np.clip(1.0 - 0.5 * newton * (a - x), 0.5, 2.0)

    return fori_loop(0, _STEPS, step, log_x)


def _log_density(a: Array, log_x: Array) -> Array:
    """Of log x."""
    return a * log_x - np.exp(log_x) - _lgamma(a)


def _forward(a: Array, u: Array) -> tuple[Array, Any]:
    log_x = _log_quantile(a, u)
    return log_x, (a, log_x)


def _backward(residuals: Any, cotangent: Array) -> tuple[Array, Array]:
    return cotangent * _slope(*residuals), np.zeros_like(residuals[0])


def _slope(a: Array, log_x: Array) -> Array:
    """By the implicit function: -dP(a, x)/da / (x p(a, x))."""
    _, slope = jvp(lambda a: gamma_cdf(a, np.exp(log_x)), (a,), (np.ones_like(a),))
    return -slope * np.exp(-_log_density(a, log_x))


_log_quantile = custom_vjp(_quantile)
_log_quantile.defvjp(_forward, _backward)


def _poisson_quantile(u: Array, rate: Array) -> Array:
    """From Cornish and Fisher's approximation: the numbers near it whose probability to be exceeded is too large are counted."""
    w, width = _normal_quantile(np.maximum(u, _LEAST)), np.sqrt(rate)
    guess = rate + w * width + (w * w - 1.0) / 6.0 + np.where(rate > 4.0, (w - w * w * w) / (72.0 * np.maximum(width, 2.0)), 0.0)
    first = np.maximum(np.floor(guess) - _BELOW, 0.0)
    mass = np.exp(np.where(first > 0.0, first * np.log(np.where(rate > 0.0, rate, 1.0)), 0.0) - rate - _lgamma(first + 1.0))

    def look(_: Any, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        number, below, mass = carry
        is_more = below < u
        mass = mass * (rate / (number + 1.0))
        return np.where(is_more, number + 1.0, number), np.where(is_more, below + mass, below), mass

    below = 1.0 - gamma_cdf(first + 1.0, np.where(rate > 0.0, rate, 1e-300))
    return fori_loop(0, _CANDIDATES, look, (first, below, mass))[0]
