"""Functions of `scipy.special` that the op `external` calls, with their derivatives as formulas in ops.

Formulas are those of the Digital Library of Mathematical Functions (DLMF, https://dlmf.nist.gov); beside a formula stands its number. A
rule gets the result and the operands, and returns the local derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from adjit.ir.graph import Value
from adjit.ir.ops import external_elliptic  # noqa: F401   it states them
from adjit.ir.ops.arithmetic import add, divide, floor, multiply, negative, reciprocal, sign, square, subtract
from adjit.ir.ops.comparison import equal, less
from adjit.ir.ops.complex_numbers import complex, imag, real
from adjit.ir.ops.creation import full_like
from adjit.ir.ops.elementwise_math import cos, cosh, erf, exp, log, log1p, one_minus, plus, power, scaled, sin, sinh, sqrt
from adjit.ir.ops.external_complex import COUNTERPARTS, faddeeva_slope, state_counterpart
from adjit.ir.ops.external_table import FUNCTIONS, Derivative, ExternalFunction, Rule, call
from adjit.ir.ops.selection import maximum, minimum, select
from adjit.ir.ops.special import digamma, lgamma, log_beta, xlog1py, xlogy

__all__ = ["FUNCTIONS"]

NOT_CLOSED = "it has no closed form"
ORDER = "the derivative in the order has no closed form"
WHOLE = "it is made for whole numbers"


def _function(name: str, *derivatives: Derivative, whole: int = 0) -> None:
    FUNCTIONS[name] = ExternalFunction(name, len(derivatives), (derivatives,), whole)


def _functions(name: str, arity: int, *outputs: tuple[Derivative, ...]) -> None:
    FUNCTIONS[name] = ExternalFunction(name, arity, outputs)


def _number(x: Value, number: float) -> Value:
    return full_like(x, number)


def _minus(rule: Rule) -> Rule:
    return lambda y, *xs: negative(rule(y, *xs))


def _inverse(rule: Rule) -> Rule:
    """Derivative of an inverse in its last operand: the reciprocal of `rule`, the derivative of the function at the result."""
    return lambda y, *xs: reciprocal(rule(xs[-1], *xs[:-1], y))


# -- gamma and beta functions: DLMF 8.8.13, 8.17.22


def _gamma_density(y: Value, a: Value, x: Value) -> Value:
    return exp(subtract(subtract(xlogy(plus(a, -1.0), x), x), lgamma(a)))


def _beta_density(y: Value, a: Value, b: Value, x: Value) -> Value:
    return exp(subtract(add(xlogy(plus(a, -1.0), x), xlog1py(plus(b, -1.0), negative(x))), log_beta(a, b)))


# -- derivatives in parameters that have no closed form: differences


_STENCIL = ((1.0, 4 / 5), (2.0, -1 / 5), (3.0, 4 / 105), (4.0, -1 / 280))
"""Distances and weights of the central difference of order eight (Fornberg, "Generation of finite difference formulas on arbitrarily spaced
grids", 1988). Its error and SciPy's rounding are equal for steps of a few hundredths of the scale on which a function changes."""
_LEAST = 1e-290


def difference(function: Callable[[Value], Value], at: Value, step: Value) -> Value:
    """The derivative of a smooth function, by its values at up to four steps to both sides."""
    found = _number(at, 0.0)
    for distance, weight in _STENCIL:
        apart = scaled(step, distance)
        found = add(found, scaled(subtract(function(add(at, apart)), function(subtract(at, apart))), weight))
    return divide(found, step)


def _gamma_in_a(y: Value, a: Value, x: Value) -> Value:
    """Derivative of P(a, x): of the logarithm of P Gamma(a + 1) or of Q Gamma(a), whichever of P and Q is smaller; these are smooth for
    all a > 0. Within 2e-10 of the result for a from 0.001 to 10,000."""
    below, above = call("gammainc", a, x), call("gammaincc", a, x)
    lower = less(below, above)
    step = minimum(scaled(a, 0.125), scaled(sqrt(a), 0.08))

    def smooth(moved: Value) -> Value:
        share = select(lower, call("gammainc", moved, x), call("gammaincc", moved, x))
        return add(log(share), lgamma(select(lower, plus(moved, 1.0), moved)))

    part = select(lower, below, negative(above))
    slope = multiply(part, subtract(difference(smooth, a, step), digamma(select(lower, plus(a, 1.0), a))))
    return select(less(select(lower, below, above), _number(a, _LEAST)), _number(a, 0.0), slope)


def _beta_in(place: int) -> Rule:
    """Derivative of I_x(a, b) in a (or b, by the place): of the logarithm of B(a, b) times I or 1 - I, whichever is smaller, and times the
    parameter where that share is x^a / a (or (1 - x)^b / b) at the end. Within 2e-9 of the result for a from 0.01 and b from 0.05 to some
    hundreds."""
    def rule(y: Value, a: Value, b: Value, x: Value) -> Value:
        below, above = call("betainc", a, b, x), call("betaincc", a, b, x)
        lower, parameter = less(below, above), b if place else a
        step = minimum(scaled(parameter, 0.125), scaled(sqrt(parameter), 0.05))

        def smooth(moved: Value) -> Value:
            shapes = (a, moved) if place else (moved, b)
            parts = call("betainc", *shapes, x), call("betaincc", *shapes, x)
            share = select(lower, parts[0], multiply(parts[1], moved)) if place else select(lower, multiply(parts[0], moved), parts[1])
            return add(log(share), log_beta(*shapes))

        of_beta = subtract(digamma(parameter), digamma(add(a, b)))
        with_parameter = add(of_beta, reciprocal(parameter))
        known = select(lower, of_beta, with_parameter) if place else select(lower, with_parameter, of_beta)
        slope = multiply(select(lower, below, negative(above)), subtract(difference(smooth, parameter, step), known))
        return select(less(select(lower, below, above), _number(a, _LEAST)), _number(a, 0.0), slope)
    return rule


_beta_in_a, _beta_in_b = _beta_in(0), _beta_in(1)


def _implicit(in_parameter: Rule, density: Rule) -> Rule:
    """Derivative of an inverse in a parameter: minus that of the function at the result, over the density there."""
    return lambda y, *xs: negative(divide(in_parameter(xs[-1], *xs[:-1], y), density(xs[-1], *xs[:-1], y)))


_function("gammainc", _gamma_in_a, _gamma_density)
_function("gammaincc", _minus(_gamma_in_a), _minus(_gamma_density))
_function("gammaincinv", _implicit(_gamma_in_a, _gamma_density), _inverse(_gamma_density))
_function("gammainccinv", _implicit(_gamma_in_a, _gamma_density), _minus(_inverse(_gamma_density)))
_function("betainc", _beta_in_a, _beta_in_b, _beta_density)
_function("betaincc", _minus(_beta_in_a), _minus(_beta_in_b), _minus(_beta_density))
_function("betaincinv", _implicit(_beta_in_a, _beta_density), _implicit(_beta_in_b, _beta_density), _inverse(_beta_density))
_function("betainccinv", _implicit(_beta_in_a, _beta_density), _implicit(_beta_in_b, _beta_density), _minus(_inverse(_beta_density)))
_function("loggamma", lambda y, x: digamma(x))
_function("binom", lambda y, n, k: multiply(y, subtract(digamma(plus(n, 1.0)), digamma(plus(subtract(n, k), 1.0)))),
          lambda y, n, k: multiply(y, subtract(digamma(plus(subtract(n, k), 1.0)), digamma(plus(k, 1.0)))))
_function("poch", lambda y, a, m: multiply(y, subtract(digamma(add(a, m)), digamma(a))), lambda y, a, m: multiply(y, digamma(add(a, m))))

# -- distribution functions, by the densities that they integrate


_MANY = 40.0
_STUDENT = (-1 / 4, 1 / 24, -1 / 20, 17 / 112, -31 / 36, 691 / 88)


def _student_density(y: Value, df: Value, t: Value) -> Value:
    """Many degrees of freedom: by Stirling's series of the factor, and log(1 + u) - u, in which the large terms cancel by themselves; with
    infinitely many the normal density."""
    many = less(_number(df, _MANY), df)
    w, few = reciprocal(select(many, df, _number(df, _MANY))), select(many, _number(df, _MANY), df)
    factor = _number(df, _STUDENT[-1])
    for coefficient in _STUDENT[-2::-1]:
        factor = plus(multiply(factor, square(w)), coefficient)
    exact = plus(negative(add(log_beta(scaled(few, 0.5), _number(df, 0.5)), scaled(log(few), 0.5))), 0.5 * math.log(2.0 * math.pi))
    squared = square(t)
    u = multiply(squared, reciprocal(df))
    near = less(u, _number(u, 0.01))
    small, safe, series = select(near, u, _number(u, 0.0)), select(near, _number(u, 1.0), df), _number(u, 1 / 11)
    for n in range(9, -1, -1):
        series = plus(negative(multiply(series, small)), 1 / (n + 1))
    logarithm = log1p(u)
    exponent = scaled(select(near, multiply(squared, series), multiply(safe, logarithm)), 0.5)
    constant = plus(select(many, multiply(factor, w), exact), -0.5 * math.log(2.0 * math.pi))
    return exp(subtract(subtract(constant, scaled(logarithm, 0.5)), exponent))


def _chi2_density(y: Value, df: Value, x: Value) -> Value:
    return scaled(_gamma_density(y, scaled(df, 0.5), scaled(x, 0.5)), 0.5)


def _f_density(y: Value, n: Value, d: Value, x: Value) -> Value:
    half_n, half_d, ratio = scaled(n, 0.5), scaled(d, 0.5), divide(n, d)
    powers = add(multiply(half_n, log(ratio)), xlogy(plus(half_n, -1.0), x))
    return exp(subtract(subtract(powers, multiply(add(half_n, half_d), log1p(multiply(ratio, x)))), log_beta(half_n, half_d)))


def _poisson_mass(y: Value, k: Value, m: Value) -> Value:
    whole = floor(k)
    return exp(subtract(subtract(xlogy(whole, m), m), lgamma(plus(whole, 1.0))))


def _binomial_slope(y: Value, k: Value, n: Value, p: Value) -> Value:
    """Slope in p of the sum up to k: minus the density of beta(k + 1, n - k) at p; none if k is n."""
    whole = floor(k)
    rest = subtract(n, whole)
    full = equal(rest, _number(n, 0.0))
    return select(full, _number(p, 0.0), negative(_beta_density(y, plus(whole, 1.0), select(full, _number(n, 1.0), rest), p)))


def _chndtr_density(y: Value, x: Value, df: Value, nc: Value) -> Value:
    """Density of the noncentral chi-squared distribution, by a modified Bessel function; for small x nc by its power series, which holds
    at nc = 0, too."""
    order, product, half = plus(scaled(df, 0.5), -1.0), multiply(x, nc), scaled(x, 0.5)
    small = less(product, _number(x, 1.0))
    lowest = exp(subtract(subtract(xlogy(order, half), add(half, scaled(nc, 0.5))), lgamma(plus(order, 1.0))))
    near = multiply(lowest, call("hyp0f1", plus(order, 1.0), select(small, scaled(product, 0.25), _number(x, 0.0))))
    one = _number(x, 1.0)
    x, nc = select(small, one, x), select(small, one, nc)
    root_x, root_nc = sqrt(x), sqrt(nc)
    exponent = add(scaled(square(subtract(root_x, root_nc)), -0.5), scaled(multiply(order, log(divide(x, nc))), 0.5))
    far = multiply(exp(exponent), call("ive", order, multiply(root_x, root_nc)))
    return scaled(select(small, near, far), 0.5)


_function("ndtri", lambda y, p: scaled(exp(scaled(square(y), 0.5)), math.sqrt(2.0 * math.pi)))
_function("ndtri_exp", lambda y, p: scaled(exp(add(p, scaled(square(y), 0.5))), math.sqrt(2.0 * math.pi)))


def _student_in_df(y: Value, df: Value, t: Value) -> Value:
    """Of the logarithm of the smaller tail; within 2e-9 of the result. So many degrees of freedom that differences lose digits: by the
    series in 1 / df (Abramowitz and Stegun 26.7.8)."""
    right = less(_number(t, 0.0), t)
    tail = select(right, negative(t), t)
    v = square(t)
    many = less(scaled(plus(square(v), 1.0), 1e4), df)
    w, few = reciprocal(select(many, df, _number(df, 1.0))), select(many, _number(df, 1.0), df)
    second = plus(multiply(v, plus(multiply(v, plus(scaled(v, 3.0), -7.0)), -5.0)), -3.0)
    inner = add(scaled(plus(v, 1.0), 1 / 4), scaled(multiply(second, w), 1 / 48))
    density = scaled(exp(scaled(v, -0.5)), 1.0 / math.sqrt(2.0 * math.pi))
    series = multiply(multiply(t, inner), multiply(square(w), density))
    share = call("stdtr", few, tail)
    slope = multiply(share, difference(lambda moved: log(call("stdtr", moved, tail)), few, scaled(few, 0.03)))
    found = select(less(share, _number(t, _LEAST)), _number(t, 0.0), select(right, negative(slope), slope))
    return select(many, series, found)


def _chi2_in_df(y: Value, df: Value, x: Value) -> Value:
    return scaled(_gamma_in_a(y, scaled(df, 0.5), scaled(x, 0.5)), 0.5)


def _f_in(place: int) -> Rule:
    """Derivative in n or d of the share of beta(n / 2, d / 2) below n x / (n x + d)."""
    def rule(y: Value, n: Value, d: Value, x: Value) -> Value:
        total = add(multiply(n, x), d)
        at, half_n, half_d = divide(multiply(n, x), total), scaled(n, 0.5), scaled(d, 0.5)
        moved = divide(multiply(x, negative(n) if place else d), square(total))
        shape = (_beta_in_b if place else _beta_in_a)(y, half_n, half_d, at)
        return add(scaled(shape, 0.5), multiply(_beta_density(y, half_n, half_d, at), moved))
    return rule


_function("stdtr", _student_in_df, _student_density)
_function("stdtrit", _implicit(_student_in_df, _student_density), _inverse(_student_density))
_function("chdtr", _chi2_in_df, _chi2_density)
_function("chdtrc", _minus(_chi2_in_df), _minus(_chi2_density))
_function("chdtri", _implicit(_chi2_in_df, _chi2_density), _minus(_inverse(_chi2_density)))
_function("fdtr", _f_in(0), _f_in(1), _f_density)
_function("fdtrc", _minus(_f_in(0)), _minus(_f_in(1)), _minus(_f_density))
_function("fdtri", _implicit(_f_in(0), _f_density), _implicit(_f_in(1), _f_density), _inverse(_f_density))
_function("gdtr", lambda y, a, b, x: multiply(x, _gamma_density(y, b, multiply(a, x))),
          lambda y, a, b, x: _gamma_in_a(y, b, multiply(a, x)),
          lambda y, a, b, x: multiply(a, _gamma_density(y, b, multiply(a, x))))
_function("gdtrc", lambda y, a, b, x: negative(multiply(x, _gamma_density(y, b, multiply(a, x)))),
          lambda y, a, b, x: negative(_gamma_in_a(y, b, multiply(a, x))),
          lambda y, a, b, x: negative(multiply(a, _gamma_density(y, b, multiply(a, x)))))
_function("pdtr", None, _minus(_poisson_mass))
_function("pdtrc", None, _poisson_mass)
_function("bdtr", None, WHOLE, _binomial_slope)
_function("bdtrc", None, WHOLE, _minus(_binomial_slope))
_function("nbdtr", None, WHOLE, lambda y, k, n, p: _beta_density(y, n, plus(floor(k), 1.0), p))
_function("nbdtrc", None, WHOLE, lambda y, k, n, p: negative(_beta_density(y, n, plus(floor(k), 1.0), p)))
_function("bdtrik", NOT_CLOSED, NOT_CLOSED, NOT_CLOSED)
_function("nbdtrik", NOT_CLOSED, NOT_CLOSED, NOT_CLOSED)
_function("pdtrik", NOT_CLOSED, NOT_CLOSED)
_function("chndtr", _chndtr_density, NOT_CLOSED,
          lambda y, x, df, nc: scaled(subtract(call("chndtr", x, plus(df, 2.0), nc), y), 0.5))
_function("bdtri", None, WHOLE, _inverse(_binomial_slope))
_function("nbdtri", None, WHOLE, _inverse(lambda y, k, n, p: _beta_density(y, n, plus(floor(k), 1.0), p)))
_function("pdtri", None, _inverse(_minus(_poisson_mass)))
_function("gdtria", lambda y, p, b, x: reciprocal(multiply(x, _gamma_density(p, b, multiply(y, x)))),
          lambda y, p, b, x: negative(divide(_gamma_in_a(p, b, multiply(y, x)), multiply(x, _gamma_density(p, b, multiply(y, x))))),
          lambda y, p, b, x: negative(divide(y, x)))
_function("gdtrix", lambda y, a, b, p: negative(divide(y, a)),
          lambda y, a, b, p: negative(divide(_gamma_in_a(p, b, multiply(a, y)), multiply(a, _gamma_density(p, b, multiply(a, y))))),
          lambda y, a, b, p: reciprocal(multiply(a, _gamma_density(p, b, multiply(a, y)))))


def _chndtr_in_nc(p: Value, x: Value, df: Value, nc: Value) -> Value:
    """Derivative of the distribution function, whose value is p, in the noncentrality."""
    return scaled(subtract(call("chndtr", x, plus(df, 2.0), nc), p), 0.5)


_function("chndtrix", lambda y, p, df, nc: reciprocal(_chndtr_density(p, y, df, nc)), NOT_CLOSED,
          lambda y, p, df, nc: negative(divide(_chndtr_in_nc(p, y, df, nc), _chndtr_density(p, y, df, nc))))
_function("chndtrinc", lambda y, x, df, p: negative(divide(_chndtr_density(p, x, df, y), _chndtr_in_nc(p, x, df, y))), NOT_CLOSED,
          lambda y, x, df, p: reciprocal(_chndtr_in_nc(p, x, df, y)))


def _nct_density(y: Value, df: Value, nc: Value, t: Value) -> Value:
    """Density of the noncentral t distribution: df / t times the difference of two distribution functions (Johnson, Kotz and Balakrishnan,
    "Continuous Univariate Distributions", volume 2, 31.5)."""
    zero = equal(t, _number(t, 0.0))
    safe = select(zero, _number(t, 1.0), t)
    wider = multiply(safe, sqrt(plus(scaled(reciprocal(df), 2.0), 1.0)))
    inner = divide(multiply(df, subtract(call("nctdtr", plus(df, 2.0), nc, wider), call("nctdtr", df, nc, safe))), safe)
    half = scaled(df, 0.5)
    middle = exp(subtract(subtract(lgamma(plus(half, 0.5)), lgamma(half)), scaled(square(nc), 0.5)))
    return select(zero, divide(middle, sqrt(scaled(df, math.pi))), inner)


_function("nctdtr", NOT_CLOSED, NOT_CLOSED, _nct_density)
_function("nctdtrit", NOT_CLOSED, NOT_CLOSED, _inverse(_nct_density))


def _normal_odds(x: Value, mean: Value, deviation: Value) -> Value:
    """Reciprocal of the standard normal density at a number of deviations from the mean."""
    return scaled(exp(scaled(square(divide(subtract(x, mean), deviation)), 0.5)), math.sqrt(2.0 * math.pi))


_function("nrdtrimn", lambda y, p, sd, x: negative(multiply(sd, _normal_odds(x, y, sd))), lambda y, p, sd, x: divide(subtract(y, x), sd),
          lambda y, p, sd, x: _number(x, 1.0))
_function("nrdtrisd", lambda y, mn, p, x: negative(divide(y, subtract(x, mn))),
          lambda y, mn, p, x: negative(multiply(divide(square(y), subtract(x, mn)), _normal_odds(x, mn, y))),
          lambda y, mn, p, x: divide(y, subtract(x, mn)))


def _tukey_density(y: Value, x: Value, k: Value) -> Value:
    """0 outside of the support, |x| k < 1."""
    outside = less(_number(x, 1.0), multiply(maximum(x, negative(x)), k))
    return select(outside, _number(x, 0.0), reciprocal(add(power(y, plus(k, -1.0)), power(one_minus(y), plus(k, -1.0)))))


_function("tklmbda", _tukey_density, NOT_CLOSED)
for _name, _arity in {"bdtrin": 3, "nbdtrin": 3, "btdtria": 3, "btdtrib": 3, "chdtriv": 2, "chndtridf": 3, "fdtridfd": 3, "gdtrib": 3,
                      "ncfdtr": 4, "ncfdtri": 4, "ncfdtridfd": 4, "ncfdtridfn": 4, "ncfdtrinc": 4, "nctdtridf": 3, "nctdtrinc": 3,
                      "stdtridf": 2, "kolmogorov": 1, "kolmogi": 1, "smirnov": 2, "smirnovi": 2}.items():
    _function(_name, *[NOT_CLOSED] * _arity)
_function("owens_t",
          lambda y, h, a: scaled(multiply(exp(scaled(square(h), -0.5)), erf(scaled(multiply(a, h), math.sqrt(0.5)))),
                                 -0.5 / math.sqrt(2.0 * math.pi)),
          lambda y, h, a: divide(exp(scaled(multiply(square(h), plus(square(a), 1.0)), -0.5)),
                                 scaled(plus(square(a), 1.0), 2.0 * math.pi)))

# -- Bessel functions: DLMF 10.6.1, 10.29.1, and 11.4.28, 11.4.32 of Struve


def _half_difference(name: str) -> Rule:
    return lambda y, v, x: scaled(subtract(call(name, plus(v, -1.0), x), call(name, plus(v, 1.0), x)), 0.5)


def _half_sum(name: str) -> Rule:
    return lambda y, v, x: scaled(add(call(name, plus(v, -1.0), x), call(name, plus(v, 1.0), x)), 0.5)


def _struve(name: str, combine: Rule) -> Rule:
    """Half of: f of order v - 1, -+ f of order v + 1, + (x / 2)^v / (sqrt(pi) gamma(v + 3 / 2))."""
    def rule(y: Value, v: Value, x: Value) -> Value:
        term = scaled(divide(power(scaled(x, 0.5), v), exp(lgamma(plus(v, 1.5)))), 1.0 / math.sqrt(math.pi))
        pair = combine(call(name, plus(v, -1.0), x), call(name, plus(v, 1.0), x))
        return scaled((add if name == "struve" else subtract)(pair, term if name == "struve" else negative(term)), 0.5)
    return rule


for _name in ("jv", "yv", "yn", "jve", "yve"):
    _function(_name, ORDER, _half_difference(_name))
_function("iv", ORDER, _half_sum("iv"))
_function("ive", ORDER, lambda y, v, x: subtract(_half_sum("ive")(y, v, x), multiply(sign(x), y)))
for _name in ("kv", "kn"):
    _function(_name, ORDER, _minus(_half_sum(_name)))
_function("kve", ORDER, lambda y, v, x: subtract(y, _half_sum("kve")(y, v, x)))
_function("j0", lambda y, x: negative(call("j1", x)))
_function("j1", lambda y, x: scaled(subtract(call("j0", x), call("jv", _number(x, 2.0), x)), 0.5))
_function("y0", lambda y, x: negative(call("y1", x)))
_function("y1", lambda y, x: subtract(call("y0", x), divide(y, x)))
_function("k0", lambda y, x: negative(call("k1", x)))
_function("k1", lambda y, x: negative(add(call("k0", x), divide(y, x))))
_function("k0e", lambda y, x: subtract(y, call("k1e", x)))
_function("k1e", lambda y, x: subtract(subtract(y, call("k0e", x)), divide(y, x)))
_function("struve", ORDER, _struve("struve", subtract))
_function("modstruve", ORDER, _struve("modstruve", add))
_function("wright_bessel", NOT_CLOSED, NOT_CLOSED, lambda y, a, b, x: call("wright_bessel", a, add(a, b), x))
_function("log_wright_bessel", NOT_CLOSED, NOT_CLOSED, lambda y, a, b, x: exp(subtract(call("log_wright_bessel", a, add(a, b), x), y)))
_function("besselpoly", NOT_CLOSED, NOT_CLOSED, NOT_CLOSED)


def _root(x: Value) -> Value:
    """The square root; 0 below 0, where scaled Airy functions are not scaled."""
    above = less(_number(x, 0.0), x)
    return select(above, sqrt(select(above, x, _number(x, 1.0))), _number(x, 0.0))


_functions("airy", 1, (lambda y, x: call("airy", x, output=1),), (lambda y, x: multiply(x, call("airy", x)),),
           (lambda y, x: call("airy", x, output=3),), (lambda y, x: multiply(x, call("airy", x, output=2)),))
_functions("airye", 1,
           (lambda y, x: add(call("airye", x, output=1), multiply(_root(x), y)),),
           (lambda y, x: add(multiply(x, call("airye", x)), multiply(_root(x), y)),),
           (lambda y, x: subtract(call("airye", x, output=3), multiply(_root(x), y)),),
           (lambda y, x: subtract(multiply(x, call("airye", x, output=2)), multiply(_root(x), y)),))
_function("ber", lambda y, x: call("berp", x))       # DLMF 10.61.3
_function("bei", lambda y, x: call("beip", x))
_function("ker", lambda y, x: call("kerp", x))
_function("kei", lambda y, x: call("keip", x))
_function("berp", lambda y, x: negative(add(call("bei", x), divide(y, x))))
_function("beip", lambda y, x: subtract(call("ber", x), divide(y, x)))
_function("kerp", lambda y, x: negative(add(call("kei", x), divide(y, x))))
_function("keip", lambda y, x: subtract(call("ker", x), divide(y, x)))
_functions("pbdv", 2, (ORDER, lambda y, v, x: call("pbdv", v, x, output=1)),       # DLMF 12.2.4
           (ORDER, lambda y, v, x: multiply(subtract(scaled(square(x), 0.25), plus(v, 0.5)), call("pbdv", v, x))))
_functions("pbvv", 2, (ORDER, lambda y, v, x: call("pbvv", v, x, output=1)),
           (ORDER, lambda y, v, x: multiply(subtract(scaled(square(x), 0.25), plus(v, 0.5)), call("pbvv", v, x))))
_functions("pbwa", 2, (ORDER, lambda y, a, x: call("pbwa", a, x, output=1)),       # DLMF 12.14.1
           (ORDER, lambda y, a, x: multiply(subtract(a, scaled(square(x), 0.25)), call("pbwa", a, x))))
_functions("itj0y0", 1, (lambda y, x: call("j0", x),), (lambda y, x: call("y0", x),))
_functions("iti0k0", 1, (lambda y, x: call("iv", _number(x, 0.0), x),), (lambda y, x: call("k0", x),))
_functions("it2j0y0", 1, (lambda y, x: divide(one_minus(call("j0", x)), x),), (lambda y, x: negative(divide(call("y0", x), x)),))
_functions("it2i0k0", 1, (lambda y, x: divide(plus(call("iv", _number(x, 0.0), x), -1.0), x),),
           (lambda y, x: negative(divide(call("k0", x), x)),))
_functions("itairy", 1, (lambda y, x: call("airy", x),), (lambda y, x: call("airy", x, output=2),),
           (lambda y, x: call("airy", negative(x)),), (lambda y, x: call("airy", negative(x), output=2),))
_function("itstruve0", lambda y, x: call("struve", _number(x, 0.0), x))
_function("it2struve0", lambda y, x: negative(divide(call("struve", _number(x, 0.0), x), x)))
_function("itmodstruve0", lambda y, x: call("modstruve", _number(x, 0.0), x))

# -- error functions and exponential integrals: DLMF 6.2, 7.2, 7.18.10, 8.19.13

_function("erfcinv", lambda y, x: scaled(exp(square(y)), -0.5 * math.sqrt(math.pi)))
_function("erfi", lambda y, x: scaled(exp(square(x)), 2.0 / math.sqrt(math.pi)))
_function("dawsn", lambda y, x: one_minus(scaled(multiply(x, y), 2.0)))
_function("expi", lambda y, x: divide(exp(x), x))
_function("exp1", lambda y, x: negative(divide(exp(negative(x)), x)))


def _expn_slope(y: Value, n: Value, x: Value) -> Value:
    """Minus the function of order n - 1; that of order -1 is e^-x (1 + 1 / x) / x."""
    first = equal(n, _number(n, 0.0))
    below = divide(multiply(exp(negative(x)), plus(reciprocal(x), 1.0)), x)
    return negative(select(first, below, call("expn", select(first, _number(n, 1.0), plus(n, -1.0)), x)))


def _ratio_at_zero(numerator: Rule, limit: float) -> Rule:
    """`numerator(x) / x`, and the limit at 0."""
    def rule(y: Value, x: Value) -> Value:
        zero = equal(x, _number(x, 0.0))
        safe = select(zero, _number(x, 1.0), x)
        return select(zero, _number(x, limit), divide(numerator(safe), safe))
    return rule


def _quarter_turns(function: Rule) -> Rule:
    return lambda y, x: function(scaled(square(x), 0.5 * math.pi))


_function("expn", WHOLE, _expn_slope)
_functions("sici", 1, (_ratio_at_zero(sin, 1.0),), (lambda y, x: divide(cos(x), x),))
_functions("shichi", 1, (_ratio_at_zero(sinh, 1.0),), (lambda y, x: divide(cosh(x), x),))
_functions("fresnel", 1, (_quarter_turns(sin),), (_quarter_turns(cos),))


def _spence_slope(y: Value, x: Value) -> Value:
    """log(x) / (1 - x), -1 at 1."""
    one = equal(x, _number(x, 1.0))
    safe = select(one, _number(x, 2.0), x)
    return select(one, _number(x, -1.0), divide(log(safe), one_minus(safe)))


_function("spence", _spence_slope)

# -- hypergeometric functions: DLMF 13.3.15, 13.3.22, 15.5.1

PARAMETER = "the derivative in a parameter has no closed form"


def _magnitude(x: Value) -> Value:
    return maximum(x, negative(x))


def _in_parameter(name: str, place: int, scale: Callable[[Value], Value]) -> Rule:
    """Derivative in a parameter, which changes the function on the scale of `scale`, by differences."""
    def rule(y: Value, *operands: Value) -> Value:
        before, after = operands[:place], operands[place + 1:]
        step = scaled(reciprocal(plus(scale(operands[-1]), 1.0)), 0.02)
        return difference(lambda moved: call(name, *before, moved, *after), operands[place], step)
    return rule


def _near_one(z: Value) -> Value:
    """Size of log(1 - z): the function grows like a power of 1 - z."""
    return _magnitude(log(maximum(_magnitude(one_minus(z)), _number(z, 1e-300))))


def _of_size(x: Value) -> Value:
    return log1p(_magnitude(x))


_function("hyp2f1", *(_in_parameter("hyp2f1", place, _near_one) for place in range(3)),
          lambda y, a, b, c, z: multiply(divide(multiply(a, b), c), call("hyp2f1", plus(a, 1.0), plus(b, 1.0), plus(c, 1.0), z)))
_function("hyp1f1", *(_in_parameter("hyp1f1", place, _of_size) for place in range(2)),
          lambda y, a, b, x: multiply(divide(a, b), call("hyp1f1", plus(a, 1.0), plus(b, 1.0), x)))
_function("hyp0f1", PARAMETER, lambda y, v, x: divide(call("hyp0f1", plus(v, 1.0), x), v))
_function("hyperu", PARAMETER, PARAMETER, lambda y, a, b, x: negative(multiply(a, call("hyperu", plus(a, 1.0), plus(b, 1.0), x))))

# -- orthogonal polynomials: DLMF 18.9.15 to 18.9.23


def _of_lower_degree(factor: Rule, polynomial: Rule) -> Rule:
    """`factor(n) * polynomial(n - 1)`, 0 for the constant one."""
    def rule(y: Value, n: Value, *others: Value) -> Value:
        constant = equal(n, _number(n, 0.0))
        lower = polynomial(select(constant, _number(n, 0.0), plus(n, -1.0)), *others)
        return select(constant, _number(n, 0.0), multiply(factor(n, *others), lower))
    return rule


def _ones(x: Value) -> Value:
    return _number(x, 1.0)


DEGREE = "the derivative in the degree has no closed form"
_function("eval_jacobi", DEGREE, PARAMETER, PARAMETER, _of_lower_degree(
    lambda n, a, b, x: scaled(plus(add(n, add(a, b)), 1.0), 0.5), lambda n, a, b, x: call("eval_jacobi", n, plus(a, 1.0), plus(b, 1.0), x)))
_function("eval_legendre", DEGREE, _of_lower_degree(
    lambda n, x: scaled(plus(n, 1.0), 0.5), lambda n, x: call("eval_jacobi", n, _ones(n), _ones(n), x)))
_function("eval_gegenbauer", DEGREE, PARAMETER, _of_lower_degree(
    lambda n, a, x: scaled(a, 2.0), lambda n, a, x: call("eval_gegenbauer", n, plus(a, 1.0), x)))
_function("eval_chebyt", DEGREE, _of_lower_degree(lambda n, x: n, lambda n, x: call("eval_chebyu", n, x)))
_function("eval_chebyu", DEGREE, _of_lower_degree(
    lambda n, x: _number(n, 2.0), lambda n, x: call("eval_gegenbauer", n, _number(n, 2.0), x)))
_function("eval_laguerre", DEGREE, _of_lower_degree(
    lambda n, x: _number(n, -1.0), lambda n, x: call("eval_genlaguerre", n, _ones(n), x)))
_function("eval_genlaguerre", DEGREE, PARAMETER, _of_lower_degree(
    lambda n, a, x: _number(n, -1.0), lambda n, a, x: call("eval_genlaguerre", n, plus(a, 1.0), x)))
_function("eval_chebyc", DEGREE, _of_lower_degree(lambda n, x: n, lambda n, x: call("eval_chebys", n, x)))
_function("eval_chebys", DEGREE, _of_lower_degree(
    lambda n, x: _ones(n), lambda n, x: call("eval_gegenbauer", n, _number(n, 2.0), scaled(x, 0.5))))
_function("eval_hermite", WHOLE, _of_lower_degree(lambda n, x: scaled(n, 2.0), lambda n, x: call("eval_hermite", n, x)), whole=1)
_function("eval_hermitenorm", WHOLE, _of_lower_degree(lambda n, x: n, lambda n, x: call("eval_hermitenorm", n, x)), whole=1)


def _shifted(x: Value) -> Value:
    return plus(scaled(x, 2.0), -1.0)


_function("eval_sh_legendre", DEGREE, _of_lower_degree(
    lambda n, x: plus(n, 1.0), lambda n, x: call("eval_jacobi", n, _ones(n), _ones(n), _shifted(x))))
_function("eval_sh_chebyt", DEGREE, _of_lower_degree(
    lambda n, x: scaled(n, 2.0), lambda n, x: call("eval_chebyu", n, _shifted(x))))
_function("eval_sh_chebyu", DEGREE, _of_lower_degree(
    lambda n, x: _number(n, 4.0), lambda n, x: call("eval_gegenbauer", n, _number(n, 2.0), _shifted(x))))
_function("eval_sh_jacobi", DEGREE, PARAMETER, PARAMETER, _of_lower_degree(
    lambda n, p, q, x: n, lambda n, p, q, x: call("eval_sh_jacobi", n, plus(p, 2.0), plus(q, 1.0), x)))


def _associated_slope(y: Value, m: Value, v: Value, x: Value) -> Value:
    """DLMF 14.10.5; of order 0 a Jacobi polynomial, which has values at -1 and 1, too."""
    zero = equal(m, _number(m, 0.0))
    degree = select(equal(v, _number(v, 0.0)), v, plus(v, -1.0))
    polynomial = multiply(scaled(plus(v, 1.0), 0.5), call("eval_jacobi", degree, _ones(v), _ones(v), x))
    polynomial = select(equal(v, _number(v, 0.0)), _number(x, 0.0), polynomial)
    below = plus(square(select(zero, _number(x, 0.0), x)), -1.0)
    general = divide(subtract(multiply(multiply(v, x), y), multiply(add(v, m), call("lpmv", m, plus(v, -1.0), x))), below)
    return select(zero, polynomial, general)


_function("lpmv", DEGREE, DEGREE, _associated_slope)

# -- Voigt's profile, by the Faddeeva function


def _voigt(rule: Callable[[Value, Value, Value, Value, Value], Value]) -> Rule:
    """Derivative of u(z) / (sigma sqrt(2 pi)) for z = (x + i gamma) / (sigma sqrt(2))."""
    def slope(value: Value, x: Value, sigma: Value, gamma: Value) -> Value:
        scale = scaled(sigma, math.sqrt(2.0))
        a, b = divide(x, scale), divide(gamma, scale)
        norm = scaled(sigma, math.sqrt(2.0 * math.pi))
        turn = faddeeva_slope(call("wofz", complex(a, b)), complex(a, b))
        along = rule(a, b, real(turn), imag(turn), multiply(value, norm))
        return divide(along, multiply(norm, scale))
    return slope


_function("voigt_profile", _voigt(lambda a, b, u, v, w: u),
          _voigt(lambda a, b, u, v, w: scaled(subtract(subtract(multiply(b, v), multiply(a, u)), w), math.sqrt(2.0))),
          _voigt(lambda a, b, u, v, w: negative(v)))

# -- elementary functions

_DEGREE = math.pi / 180.0


def _inverse_box(moved: float) -> Rule:
    """Derivative in p of (1 + p y)^(1/p): the result, times y^2 (1 / (1 + u) - log(1 + u) / u) / u for u = p y, a series near u = 0."""
    def rule(result: Value, y: Value, p: Value) -> Value:
        u = multiply(p, y)
        near = less(maximum(u, negative(u)), _number(u, 0.02))
        small, safe, series = select(near, u, _number(u, 0.0)), select(near, _ones(u), u), _number(u, 11 / 12)
        for n in range(10, 0, -1):
            series = plus(negative(multiply(series, small)), n / (n + 1))
        quotient = divide(subtract(divide(log1p(safe), safe), reciprocal(plus(safe, 1.0))), safe)
        return negative(multiply(multiply(plus(result, moved), square(y)), select(near, series, quotient)))
    return rule


_function("inv_boxcox", lambda result, y, p: divide(result, plus(multiply(p, y), 1.0)), _inverse_box(0.0))
_function("inv_boxcox1p", lambda result, y, p: divide(plus(result, 1.0), plus(multiply(p, y), 1.0)), _inverse_box(1.0))
_function("exprel", lambda y, x: _exprel_slope(x))
_function("cosm1", lambda y, x: negative(sin(x)))
_function("powm1", lambda y, a, b: multiply(b, power(a, plus(b, -1.0))), lambda y, a, b: multiply(plus(y, 1.0), log(a)))
_function("sindg", lambda y, x: scaled(call("cosdg", x), _DEGREE))
_function("cosdg", lambda y, x: scaled(call("sindg", x), -_DEGREE))
_function("tandg", lambda y, x: scaled(plus(square(y), 1.0), _DEGREE))
_function("cotdg", lambda y, x: scaled(plus(square(y), 1.0), -_DEGREE))
_function("zetac", NOT_CLOSED)
_function("radian", lambda y, d, m, s: _number(d, _DEGREE), lambda y, d, m, s: _number(d, _DEGREE / 60.0),
          lambda y, d, m, s: _number(d, _DEGREE / 3600.0))
_function("wrightomega", lambda y, x: divide(y, plus(y, 1.0)))


def _exprel_slope(x: Value) -> Value:
    """((x - 1) e^x + 1) / x^2, which is M(2, 3, x) / 2."""
    return scaled(call("hyp1f1", _number(x, 2.0), _number(x, 3.0), x), 0.5)


for _name in COUNTERPARTS:
    state_counterpart(_name)
