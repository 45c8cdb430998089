"""Functions of complex numbers among those of `external_functions`, with their derivatives.

A rule is the derivative of an analytic function, in complex ops: that of the real function wherever its formula holds. Exponentially scaled
functions are scaled by the size of a part, and have one derivative along the real axis and one along the imaginary axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from adjit.ir.graph import Value
from adjit.ir.ops.arithmetic import add, divide, multiply, negative, reciprocal, rint, sign, square, subtract
from adjit.ir.ops.comparison import equal, less
from adjit.ir.ops.complex_numbers import complex, imag, real
from adjit.ir.ops.creation import full_like
from adjit.ir.ops.elementwise_math import exp, log, log1p, one_minus, plus, scaled, sin, sqrt
from adjit.ir.ops.external_table import FUNCTIONS, Derivative, ExternalFunction, Rule, call
from adjit.ir.ops.selection import maximum, minimum, select
from adjit.ir.ops.special import hurwitz_zeta

ALONG_AXES = tuple[Rule, Rule]
"""Derivatives along the real and along the imaginary axis of a function that is not analytic."""

NO_COUNTERPART = "the derivative in this argument of a function of complex numbers has no closed form"


def _turned(x: Value) -> Value:
    """i x."""
    return complex(negative(imag(x)), real(x))


def _state(key: str, name: str, count: int, others: tuple[Derivative, ...], outputs: tuple[tuple[Rule | ALONG_AXES, ...], ...]) -> None:
    """State the loop of a function whose last `count` operands are complex, and the ones before, real."""

    def part(rule: Rule, of: Callable[[Value], Value], number: int) -> Rule:
        def slope(value: Value, *parts: Value) -> Value:
            before = [complex(x, full_like(x, 0.0)) for x in parts[:len(others)]]
            operands = before + [complex(*parts[k:k + 2]) for k in range(len(others), len(parts), 2)]
            return of(rule(call(name, *operands, output=number), *operands))
        return slope

    derivatives: list[tuple[Derivative, ...]] = []
    for number, rules in enumerate(outputs):
        axes = [axis for rule in rules for axis in (rule if isinstance(rule, tuple) else (rule, _along_imaginary(rule)))]
        derivatives += [(*others, *(part(axis, of, number) for axis in axes)) for of in (real, imag)]
    FUNCTIONS[key] = ExternalFunction(name, len(others) + 2 * count, tuple(derivatives), of_complex=count)


def _along_imaginary(rule: Rule) -> Rule:
    return lambda y, *xs: _turned(rule(y, *xs))


def _only(name: str, rule: Rule, *others: Derivative) -> None:
    """State a function that takes complex numbers alone."""
    _state(name, name, 1, others, ((rule,),))


def _complex(name: str, *rules: Rule | ALONG_AXES, others: tuple[Derivative, ...] = ()) -> None:
    """State the loop for complex numbers of a function of one result, whose loop for real ones has other rules, or is our own."""
    _state(f"complex_{name}", name, len(rules), others, (rules,))


# -- functions of complex numbers alone: DLMF 7.10.2, 10.6.1


def faddeeva_slope(w: Value, z: Value) -> Value:
    """w' = -2 z w + 2i / sqrt(pi)."""
    return add(scaled(multiply(z, w), -2.0), full_like(z, 2j / math.sqrt(math.pi)))


def _hankel(name: str, turn: float) -> Rule:
    """Half the difference of orders v - 1 and v + 1, plus i `turn` times the function."""
    def slope(y: Value, v: Value, z: Value) -> Value:
        half = scaled(subtract(call(name, plus(v, -1.0), z), call(name, plus(v, 1.0), z)), 0.5)
        return add(half, scaled(_turned(y), turn)) if turn else half
    return slope


_only("wofz", faddeeva_slope)
for _name, _turn in {"hankel1": 0.0, "hankel2": 0.0, "hankel1e": -1.0, "hankel2e": 1.0}.items():
    _only(_name, _hankel(_name, _turn), "the derivative in the order has no closed form")

# -- functions whose loop for real numbers is our own: DLMF 5.2.2, 7.2


def _trigamma(y: Value, z: Value) -> Value:
    """Derivative of digamma: by Hurwitz' zeta function, left of 0 by the reflection formula (DLMF 5.15.6)."""
    left = less(real(z), full_like(real(z), 0.0))
    value = hurwitz_zeta(2, select(left, one_minus(z), z))
    away = minimum(maximum(imag(z), full_like(imag(z), -30.0)), full_like(imag(z), 30.0))      # the sine is 1e40 there
    near = select(left, complex(subtract(real(z), rint(real(z))), away), full_like(z, 0.25))
    return select(left, subtract(square(divide(full_like(z, math.pi), sin(scaled(near, math.pi)))), value), value)


def _digamma(z: Value) -> Value:
    return call("psi", z)


def _gauss(z: Value, factor: float, exponent: float) -> Value:
    return scaled(exp(scaled(square(z), exponent)), factor)


def _times_log(log_of: Rule) -> Rule:
    """log(y), for xlogy; 0 where x is 0 and the logarithm not finite."""
    def rule(value: Value, x: Value, y: Value) -> Value:
        nothing = equal(x, full_like(x, 0.0))
        return select(nothing, full_like(x, 0.0), log_of(select(nothing, full_like(y, 1.0), y)))
    return rule


_ROOT = math.sqrt(math.pi)
_complex("psi", _trigamma)
_complex("loggamma", lambda y, z: _digamma(z))
_complex("gamma", lambda y, z: multiply(y, _digamma(z)))
_complex("rgamma", lambda y, z: negative(multiply(y, _digamma(z))))
_complex("erf", lambda y, z: _gauss(z, 2.0 / _ROOT, -1.0))
_complex("erfc", lambda y, z: _gauss(z, -2.0 / _ROOT, -1.0))
_complex("erfcx", lambda y, z: plus(scaled(multiply(z, y), 2.0), -2.0 / _ROOT))
_complex("ndtr", lambda y, z: _gauss(z, 1.0 / math.sqrt(2.0 * math.pi), -0.5))
_complex("log_ndtr", lambda y, z: scaled(exp(subtract(scaled(square(z), -0.5), y)), 1.0 / math.sqrt(2.0 * math.pi)))
_complex("expm1", lambda y, z: plus(y, 1.0))
_complex("log1p", lambda y, z: reciprocal(plus(z, 1.0)))
_complex("xlogy", _times_log(log), lambda value, x, y: divide(x, y))
_complex("xlog1py", _times_log(log1p), lambda value, x, y: divide(x, plus(y, 1.0)))

# -- scaled functions: by exp(-|imaginary part|), by exp(-|real part|)


def _scaled_by_size(function: str, neighbours: Callable[[Value, Value], Value], of_real: bool) -> ALONG_AXES:
    """Derivatives of a Bessel function scaled by the exponential of minus the size of a part."""
    def inner(v: Value, z: Value) -> Value:
        return scaled(neighbours(call(function, plus(v, -1.0), z), call(function, plus(v, 1.0), z)), 0.5)

    def less_scale(slope: Value, y: Value, part: Value) -> Value:
        return subtract(slope, multiply(complex(sign(part), full_like(part, 0.0)), y))

    def along_real(y: Value, v: Value, z: Value) -> Value:
        return less_scale(inner(v, z), y, real(z)) if of_real else inner(v, z)

    def along_imaginary(y: Value, v: Value, z: Value) -> Value:
        return _turned(inner(v, z)) if of_real else less_scale(_turned(inner(v, z)), y, imag(z))

    return along_real, along_imaginary


_ORDER: tuple[Derivative, ...] = ("the derivative in the order has no closed form",)
_complex("jve", _scaled_by_size("jve", subtract, of_real=False), others=_ORDER)
_complex("yve", _scaled_by_size("yve", subtract, of_real=False), others=_ORDER)
_complex("ive", _scaled_by_size("ive", add, of_real=True), others=_ORDER)


def _airy_scaled(output: int) -> Rule:
    return lambda y, z: add(multiply(z, call("airye", z)) if output else call("airye", z, output=1), multiply(sqrt(z), y))


def _biry_scaled(output: int) -> ALONG_AXES:
    """Bi and Bi' are scaled by exp(-|real part of (2 / 3) z^(3 / 2)|)."""
    def slope(z: Value) -> Value:
        return call("airye", z, output=3) if output == 2 else multiply(z, call("airye", z, output=2))

    def growth(z: Value, part: Value) -> Value:
        side = sign(real(multiply(z, sqrt(z))))
        return complex(multiply(side, part), full_like(part, 0.0))

    return (lambda y, z: subtract(slope(z), multiply(growth(z, real(sqrt(z))), y)),
            lambda y, z: add(_turned(slope(z)), multiply(growth(z, imag(sqrt(z))), y)))


_state("complex_airye", "airye", 1, (), ((_airy_scaled(0),), (_airy_scaled(1),), (_biry_scaled(2),), (_biry_scaled(3),)))

# -- functions whose formulas hold for complex numbers as they are

COUNTERPARTS = {
    **dict.fromkeys((
        "airy", "dawsn", "erfi", "exp1", "expi", "fresnel", "hyp0f1", "hyp1f1", "hyp2f1", "iv", "jv", "kv", "kve", "yv",
        "shichi", "sici", "spence", "wrightomega", "eval_chebyc", "eval_chebys", "eval_chebyt", "eval_chebyu",
        "eval_gegenbauer", "eval_genlaguerre", "eval_jacobi", "eval_laguerre", "eval_legendre", "eval_sh_chebyt",
        "eval_sh_chebyu", "eval_sh_jacobi", "eval_sh_legendre"), 1),
    "elliprc": 2, "elliprd": 3, "elliprf": 3, "elliprg": 3, "elliprj": 4,
}
"""Functions, and how many of their last operands may be complex."""


def state_counterpart(name: str) -> None:
    """State the loop for complex numbers of a function whose loop for real ones is stated."""
    known, count = FUNCTIONS[name], COUNTERPARTS[name]
    outputs: list[tuple[Rule, ...]] = []
    for rules in known.derivatives:
        outputs.append(tuple(rule for rule in rules[known.arity - count:] if callable(rule)))
    others = tuple(NO_COUNTERPART if callable(rule) else rule for rule in known.derivatives[0][:known.arity - count])
    _state(f"complex_{name}", name, count, others, tuple(outputs))
