"""Derivatives of SciPy's elliptic integrals, by Carlson's symmetric ones (DLMF 19.18, 19.25), which do not cancel."""

from __future__ import annotations

import math
from builtins import complex as complex_number
from collections.abc import Callable

from adjit.ir.graph import Value
from adjit.ir.ops.arithmetic import abs, add, divide, multiply, negative, reciprocal, rint, square, strong_multiply, subtract
from adjit.ir.ops.comparison import less
from adjit.ir.ops.complex_numbers import complex, real
from adjit.ir.ops.creation import full_like
from adjit.ir.ops.elementwise_math import cos, one_minus, plus, scaled, sin, sqrt
from adjit.ir.ops.external_table import FUNCTIONS, Derivative, ExternalFunction, call
from adjit.ir.ops.logical import logical_and
from adjit.ir.ops.selection import select
from adjit.ir.types import is_complex


def _functions(name: str, *outputs: tuple[Derivative, ...]) -> None:
    FUNCTIONS[name] = ExternalFunction(name, len(outputs[0]), outputs)


def _number(x: Value, number: float) -> Value:
    return full_like(x, number)


def _rd(x: Value, y: Value, z: Value) -> Value:
    return call("elliprd", x, y, z)


# -- Legendre's integrals: K is R_F(0, 1 - m, 1), and F is s R_F(c^2, 1 - m s^2, 1)


def _complete_slope(rest: Value) -> Value:
    """Derivative of K in m, by `rest` = 1 - m."""
    return scaled(_rd(_number(rest, 0.0), _number(rest, 1.0), rest), 1.0 / 6.0)


def _complete_d(m: Value) -> Value:
    """(K - E) / m."""
    return scaled(_rd(_number(m, 0.0), one_minus(m), _number(m, 1.0)), 1.0 / 3.0)


def _with_turns(phi: Value, m: Value, part: Callable[[Value, Value], Value], complete: Value) -> Value:
    """s^3 `part(c^2, 1 - m s^2)` of the angle within half a turn, and twice the complete integral for each turn."""
    turns = rint(scaled(phi, 1.0 / math.pi))
    angle = subtract(phi, scaled(turns, math.pi))
    s, c = sin(angle), cos(angle)
    found = multiply(multiply(s, square(s)), part(square(c), one_minus(multiply(m, square(s)))))
    return add(found, scaled(strong_multiply(turns, complete), 2.0))


def _e_slope(phi: Value, m: Value) -> Value:
    """Derivative of E(phi, m) in m: minus half of (F - E) / m."""
    found = _with_turns(phi, m, lambda c, d: scaled(_rd(c, d, _number(m, 1.0)), 1.0 / 3.0), _complete_d(m))
    return scaled(found, -0.5)


def _f_slope(phi: Value, m: Value) -> Value:
    """Derivative of F(phi, m) in m."""
    return _with_turns(phi, m, lambda c, d: scaled(_rd(c, _number(m, 1.0), d), 1.0 / 6.0), _complete_slope(one_minus(m)))


def _delta(phi: Value, m: Value) -> Value:
    return sqrt(one_minus(multiply(m, square(sin(phi)))))


_functions("ellipk", (lambda y, m: _complete_slope(one_minus(m)),))
_functions("ellipkm1", (lambda y, p: negative(_complete_slope(p)),))
_functions("ellipe", (lambda y, m: scaled(_complete_d(m), -0.5),))
_functions("ellipkinc", (lambda y, phi, m: reciprocal(_delta(phi, m)), lambda y, phi, m: _f_slope(phi, m)))
_functions("ellipeinc", (lambda y, phi, m: _delta(phi, m), lambda y, phi, m: _e_slope(phi, m)))


def _amplitude_slope(u: Value, m: Value) -> Value:
    """Derivative of the amplitude in m, as F(amplitude, m) = u."""
    return negative(multiply(_f_slope(call("ellipj", u, m, output=3), m), call("ellipj", u, m, output=2)))


def _jacobi(output: int) -> Callable[[Value, Value], Value]:
    return lambda u, m: call("ellipj", u, m, output=output)


_sn, _cn, _dn = (_jacobi(output) for output in range(3))
_functions(
    "ellipj",       # DLMF 22.13.1
    (lambda y, u, m: multiply(_cn(u, m), _dn(u, m)), lambda y, u, m: multiply(_cn(u, m), _amplitude_slope(u, m))),
    (lambda y, u, m: negative(multiply(_sn(u, m), _dn(u, m))), lambda y, u, m: negative(multiply(_sn(u, m), _amplitude_slope(u, m)))),
    (lambda y, u, m: negative(multiply(m, multiply(_sn(u, m), _cn(u, m)))),
     lambda y, u, m: negative(divide(add(scaled(square(_sn(u, m)), 0.5), multiply(multiply(m, multiply(_sn(u, m), _cn(u, m))),
                                                                                 _amplitude_slope(u, m))), y))),
    (lambda y, u, m: _dn(u, m), lambda y, u, m: _amplitude_slope(u, m)))


# -- Carlson's integrals

_RADIUS = 1e-3
"""Radius of the circle around two arguments, and their distance from which on a quotient of differences is taken, which has lost three
digits by then; relative to the arguments."""


def _rj_slope(j: Value, x: Value, y: Value, z: Value, p: Value) -> Value:
    """Derivative in x of R_J(x, y, z, p), whose value is j: half the divided difference (f(p) - f(x)) / (p - x) of f = R_J(x, y, z, .),
    by partial fractions of the integral's 1 / ((t + x) (t + p)).

    Where x and p are near each other it is Cauchy's integral of f(q) / ((q - x) (q - p)), by the trapezoidal rule with four points on a
    circle around both, two of them conjugate to the others: with r the radius and s half the distance, the mean of f(q) u / (u^2 - s^2)
    for u = q - middle, times 1 + (s / r)^4, which makes it right for linear f. f is analytic off the negative axis, so that the error is
    the fourth power of the radius.
    """
    there, distance = _rd(y, z, x), subtract(p, x)
    if is_complex(j.type.dtype):
        return divide(subtract(j, there), scaled(distance, 2.0))
    middle = scaled(add(x, p), 0.5)
    near, one, zero = less(abs(distance), scaled(middle, _RADIUS)), _number(x, 1.0), _number(x, 0.0)
    far = divide(subtract(j, there), scaled(select(near, one, distance), 2.0))
    x, y, z, middle = (select(near, each, one) for each in (x, y, z, middle))       # four equal ones take the least time
    s = square(divide(scaled(select(near, distance, zero), 0.5), middle))
    part = select(near, scaled(middle, _RADIUS * math.sqrt(0.5)), zero)
    total = zero
    for side in (1.0, -1.0):
        turn = _RADIUS * math.sqrt(0.5) * complex_number(side, 1.0)
        q = complex(add(middle, scaled(part, side)), part)
        weight = divide(full_like(q, turn), complex(negative(s), _number(s, (turn * turn).imag)))
        total = add(total, real(multiply(call("elliprj", *(complex(each, zero) for each in (x, y, z)), q), weight)))
    found = multiply(total, plus(scaled(square(s), _RADIUS**-4), 1.0))
    return select(near, divide(scaled(found, 0.25), middle), far)


def _by_homogeneity(value: Value, last: Value, *others: tuple[Value, Value]) -> Value:
    """Derivative in the last argument of a function of degree -3 / 2, by the other arguments and the derivatives in them; an argument of 0
    adds nothing."""
    total = scaled(value, 1.5)
    for x, slope in others:
        total = add(total, strong_multiply(x, slope))
    return negative(divide(total, last))


def _rd_slope(d: Value, x: Value, y: Value, z: Value) -> Value:
    """Derivative of R_D(x, y, z) in x: R_D is R_J(x, y, z, z), whose derivative in z counts twice here."""
    return _rj_slope(d, x, y, z, z)


def _rj_last(j: Value, x: Value, y: Value, z: Value, p: Value) -> Value:
    return _by_homogeneity(j, p, (x, _rj_slope(j, x, y, z, p)), (y, _rj_slope(j, y, z, x, p)), (z, _rj_slope(j, z, x, y, p)))


def _rg_slope(x: Value, y: Value, z: Value) -> Value:
    """Derivative of R_G in x, from DLMF 19.21.9, 19.21.11 and the homogeneity of degree 1 / 2; 1 / (4 sqrt(x)) if y = z = 0."""
    if is_complex(x.type.dtype):
        return subtract(scaled(call("elliprf", x, y, z), 0.25), scaled(multiply(x, _rd(y, z, x)), 1.0 / 12.0))
    alone = logical_and(less(add(abs(y), abs(z)), _number(x, 1e-300)), less(_number(x, 0.0), x))
    safe = select(alone, _number(x, 1.0), y)
    general = subtract(scaled(call("elliprf", x, safe, z), 0.25), scaled(strong_multiply(x, _rd(safe, z, x)), 1.0 / 12.0))
    return select(alone, scaled(reciprocal(sqrt(select(alone, x, _number(x, 1.0)))), 0.25), general)


def _rc_slope(x: Value, y: Value, quotient: Value, symmetric: Callable[[Value], Value]) -> Value:
    """A derivative of R_C(x, y) = R_F(x, y, y), by R_D; for y < 0, where R_C is a principal value, and for complex numbers, by the quotient
    over x - y."""
    if is_complex(x.type.dtype):
        return divide(quotient, subtract(x, y))
    below = less(y, _number(y, 0.0))
    apart = select(below, subtract(x, y), _number(y, 1.0))
    return select(below, divide(quotient, apart), symmetric(select(below, _number(y, 1.0), y)))


def _rc_first(c: Value, x: Value, y: Value) -> Value:
    return _rc_slope(x, y, scaled(subtract(reciprocal(sqrt(x)), c), 0.5), lambda y: scaled(_rd(y, y, x), -1.0 / 6.0))


def _rc_last(c: Value, x: Value, y: Value) -> Value:
    return _rc_slope(x, y, scaled(subtract(c, divide(sqrt(x), y)), 0.5), lambda y: scaled(_rd(x, y, y), -1.0 / 3.0))


_functions("elliprf", (lambda f, x, y, z: scaled(_rd(y, z, x), -1.0 / 6.0), lambda f, x, y, z: scaled(_rd(z, x, y), -1.0 / 6.0),
                       lambda f, x, y, z: scaled(_rd(x, y, z), -1.0 / 6.0)))        # DLMF 19.18.1
_functions("elliprg", (lambda g, x, y, z: _rg_slope(x, y, z), lambda g, x, y, z: _rg_slope(y, z, x), lambda g, x, y, z: _rg_slope(z, x, y)))
_functions("elliprj", (_rj_slope, lambda j, x, y, z, p: _rj_slope(j, y, z, x, p), lambda j, x, y, z, p: _rj_slope(j, z, x, y, p), _rj_last))
_functions("elliprd", (_rd_slope, lambda d, x, y, z: _rd_slope(d, y, x, z),
                       lambda d, x, y, z: _by_homogeneity(d, z, (x, _rd_slope(d, x, y, z)), (y, _rd_slope(d, y, x, z)))))
_functions("elliprc", (_rc_first, _rc_last))

# -- the arithmetic-geometric mean, by the complete integral of the first kind (DLMF 19.8.5)


def _mean_slope(a: Value, b: Value) -> Value:
    """Derivative of pi / 4 (a + b) / K(m) in a, with m = ((a - b) / (a + b))^2."""
    total = add(a, b)
    ratio = divide(subtract(a, b), total)
    m = square(ratio)
    k = call("ellipk", m)
    inner = divide(multiply(scaled(multiply(_complete_slope(one_minus(m)), ratio), 4.0), b), multiply(k, total))
    return scaled(divide(one_minus(inner), k), 0.25 * math.pi)


_functions("agm", (lambda mean, a, b: _mean_slope(a, b), lambda mean, a, b: _mean_slope(b, a)))
