"""The ufuncs of scipy.special that are ops or combinations of a few ops. SciPy itself is not needed: its ufuncs are known by name. Complex
numbers go to SciPy's own loops.

Results that differ from SciPy's in the last bits are mostly nearer to the exact value (`docs/derivatives.md` has the exceptions).
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Value
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.special import bernoulli, log_beta, xlog1py, xlogy
from adjit.ir.ops.special import polygamma as derivative_of_digamma
from adjit.ir.types import C64, C128, F32, F64
from adjit.tracer.array import TracedArray, contains_traced, wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions.composites import floating
from adjit.tracer.functions.ufuncs import Lower, elementwise
from adjit.tracer.lowering import convert
from adjit.tracer.promotion import is_weak
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location

if TYPE_CHECKING:
    from adjit.tracer.functions import external
else:
    external = LazyModule("adjit.tracer.functions.external")

_SQRT_HALF = math.sqrt(0.5)


def _number(x: Value, number: float) -> Value:
    return ops.full_like(x, number)


def _plus(x: Value, number: float) -> Value:
    return ops.add(x, _number(x, number))


def _scaled(x: Value, number: float) -> Value:
    return ops.multiply(x, _number(x, number))


def _below(x: Value, number: float) -> Value:
    return ops.less(x, _number(x, number))


def _is(x: Value, number: float) -> Value:
    return ops.equal(x, _number(x, number))


def _in_double(lower: Lower) -> Lower:
    """Compute float32 by way of float64 where an exponential would enlarge a rounding error."""
    return lambda *xs: convert(lower(*(convert(x, F64) for x in xs)), xs[0].type.dtype)


# -- logistic functions


def _logit(x: Value) -> Value:
    return ops.subtract(ops.log(x), ops.log1p(ops.negative(x)))


def _softplus(x: Value) -> Value:
    return ops.logaddexp(_number(x, 0.0), x)


def _log_expit(x: Value) -> Value:
    return ops.negative(_softplus(ops.negative(x)))


# -- functions built from x log y


def _entr(x: Value) -> Value:
    return ops.select(_below(x, 0.0), _number(x, -math.inf), ops.negative(xlogy(x, x)))


def _rel_entr(x: Value, y: Value) -> Value:
    """x log(x / y) where both are positive, 0 where x is 0 and y is not negative, else infinite."""
    zero, one = _number(x, 0.0), _number(x, 1.0)
    positive = ops.logical_and(ops.greater(x, zero), ops.greater(y, zero))
    a, b = ops.select(positive, x, one), ops.select(positive, y, one)
    nothing = ops.logical_and(_is(x, 0.0), ops.greater_equal(y, zero))
    value = ops.select(positive, ops.multiply(a, ops.log(ops.divide(a, b))), ops.select(nothing, zero, _number(x, math.inf)))
    unknown = ops.logical_or(ops.isnan(x), ops.isnan(y))
    return ops.select(unknown, _number(x, math.nan), value)


def _kl_div(x: Value, y: Value) -> Value:
    return ops.add(ops.subtract(_rel_entr(x, y), x), y)


def _power_transform(log: Value, power: Value) -> Value:
    """(e**u - 1) / p for u = p log, in which p may be 0; near it by the series, which keeps the derivative in p."""
    u = ops.strong_multiply(power, log)
    near = _below(ops.abs(u), 0.02)
    small = ops.select(near, u, _number(u, 0.0))
    series = _number(u, 1.0 / math.factorial(7))
    for n in range(6, 0, -1):
        series = _plus(ops.multiply(series, small), 1.0 / math.factorial(n))
    quotient = ops.divide(ops.expm1(u), ops.select(near, _number(u, 1.0), power))
    return ops.select(near, ops.multiply(log, series), quotient)


def _boxcox(x: Value, power: Value) -> Value:
    """(x**p - 1) / p; log(x) if p is 0."""
    return _power_transform(ops.log(x), power)


def _boxcox1p(x: Value, power: Value) -> Value:
    return _power_transform(ops.log1p(x), power)


# -- the normal distribution


def _ndtr(x: Value) -> Value:
    return _scaled(ops.erfc(_scaled(x, -_SQRT_HALF)), 0.5)


def _log_ndtr(x: Value) -> Value:
    """Logarithm of the normal distribution function. Below 0 by erfcx, which does not underflow; each branch sees only its own arguments.
    """
    lower = _below(x, 0.0)
    t = ops.select(lower, _scaled(x, -_SQRT_HALF), _number(x, 0.0))
    left = ops.subtract(ops.log(_scaled(ops.erfcx(t), 0.5)), ops.square(t))
    right = ops.log1p(_scaled(ops.erfc(_scaled(ops.select(lower, _number(x, 0.0), x), _SQRT_HALF)), -0.5))
    return ops.select(lower, left, right)


# -- the gamma function


def _gammasgn(x: Value) -> Value:
    """Sign of Gamma(x): below 0 the sign alternates with the parity of floor(x), and is NaN at the poles."""
    whole = ops.floor(x)
    half = _scaled(whole, 0.5)
    alternating = ops.select(ops.equal(ops.floor(half), half), _number(x, 1.0), _number(x, -1.0))
    below = ops.select(ops.equal(whole, x), _number(x, math.nan), alternating)
    at_zero = ops.select(_below(ops.reciprocal(x), 0.0), _number(x, -1.0), _number(x, 1.0))
    sign = ops.select(_below(x, 0.0), below, ops.select(_is(x, 0.0), at_zero, _number(x, 1.0)))
    return ops.select(ops.isnan(x), x, sign)


def _gamma(x: Value) -> Value:
    return ops.multiply(_gammasgn(x), ops.exp(ops.lgamma(x)))


def _rgamma(x: Value) -> Value:
    """1 / Gamma(x), 0 at the poles."""
    sign = _gammasgn(x)
    pole = ops.logical_and(ops.isnan(sign), ops.logical_not(ops.isnan(x)))
    return ops.select(pole, _number(x, 0.0), ops.multiply(sign, ops.exp(ops.negative(ops.lgamma(x)))))


def _beta(a: Value, b: Value) -> Value:
    sign = ops.multiply(ops.multiply(_gammasgn(a), _gammasgn(b)), _gammasgn(ops.add(a, b)))
    return ops.multiply(sign, ops.exp(log_beta(a, b)))


# -- modified Bessel functions


def _grown(scaled_function: Lower) -> Lower:
    """Multiply by e^|x| in two steps: the function overflows later than e^|x|."""
    def lower(x: Value) -> Value:
        root = ops.exp(_scaled(ops.abs(x), 0.5))
        return ops.multiply(ops.multiply(scaled_function(x), root), root)
    return lower


# -- loss functions


def _huber(delta: Value, r: Value) -> Value:
    size = ops.abs(r)
    inner = _scaled(ops.square(ops.minimum(size, delta)), 0.5)
    outer = ops.multiply(delta, ops.subtract(size, _scaled(delta, 0.5)))
    value = ops.select(ops.less_equal(size, delta), inner, outer)
    return ops.select(_below(delta, 0.0), _number(r, math.inf), value)


def _pseudo_huber(delta: Value, r: Value) -> Value:
    """delta^2 (sqrt(1 + (r / delta)^2) - 1), without cancellation for small r."""
    nothing = _is(delta, 0.0)
    d = ops.select(nothing, _number(delta, 1.0), delta)
    v = ops.square(ops.divide(r, d))
    value = ops.divide(ops.square(r), _plus(ops.sqrt(_plus(v, 1.0)), 1.0))
    return ops.select(_below(delta, 0.0), _number(r, math.inf), ops.select(nothing, _number(r, 0.0), value))


_UNARY: dict[str, Lower] = {
    "erf": ops.erf, "erfc": ops.erfc, "erfcx": ops.erfcx, "erfinv": ops.erfinv, "ndtr": _ndtr, "log_ndtr": _log_ndtr,
    "expit": ops.sigmoid, "logit": _logit, "log_expit": _log_expit, "softplus": _softplus, "entr": _entr,
    "gammaln": ops.lgamma, "gammasgn": _gammasgn, "gamma": _in_double(_gamma), "rgamma": _in_double(_rgamma), "psi": ops.digamma,
    "i0e": ops.i0e, "i1e": ops.i1e, "i0": _in_double(_grown(ops.i0e)), "i1": _in_double(_grown(ops.i1e)),
    "exp2": ops.exp2, "exp10": lambda x: ops.power(_number(x, 10.0), x), "expm1": ops.expm1, "log1p": ops.log1p, "cbrt": ops.cbrt,
}
_BINARY: dict[str, Lower] = {
    "xlogy": xlogy, "xlog1py": xlog1py, "rel_entr": _rel_entr, "kl_div": _kl_div, "boxcox": _boxcox, "boxcox1p": _boxcox1p,
    "betaln": _in_double(log_beta), "beta": _in_double(_beta), "huber": _huber, "pseudo_huber": _pseudo_huber,
}
OF_TWO = frozenset(_BINARY)
"""Names of the functions with two operands."""


def _without_weak_numbers(name: str) -> None:
    """Make Python numbers float64 instead of weak, as SciPy's functions of two arguments do."""
    plain = FUNCTIONS["scipy.special", name]

    @functools.wraps(plain)
    def call(*inputs: Any, **kwargs: Any) -> Any:
        return plain(*(FUNCTIONS["astype"](x, F64) if is_weak(x) else x for x in inputs), **kwargs)

    FUNCTIONS["scipy.special", name] = call


def _has_complex(x: Any) -> bool:
    return any(map(_has_complex, x)) if isinstance(x, (list, tuple)) else isinstance(x, complex) or getattr(x, "dtype", None) in (C64, C128)


def _with_complex_numbers(name: str) -> None:
    """Hand complex numbers on to SciPy's loop; the ops are of real ones."""
    plain, count = FUNCTIONS["scipy.special", name], 2 if name in OF_TWO else 1

    @functools.wraps(plain)
    def call(*inputs: Any, **kwargs: Any) -> Any:
        if any(map(_has_complex, inputs[:count])):
            return external.computed(name, count)(*inputs, **kwargs)
        return plain(*inputs, **kwargs)

    FUNCTIONS["scipy.special", name] = call


_IN_FLOAT32 = frozenset(("boxcox", "boxcox1p", "entr", "erfinv", "huber", "kl_div", "pseudo_huber", "rel_entr"))
"""Functions whose first loop of SciPy's is that of float32, which whole numbers of up to two bytes get."""


def _of_small_numbers(name: str) -> None:
    """Compute bool and whole numbers of up to two bytes in float64 or float32, as SciPy does; NumPy's functions have float16."""
    plain, count, dtype = FUNCTIONS["scipy.special", name], 2 if name in OF_TWO else 1, F32 if name in _IN_FLOAT32 else F64

    @functools.wraps(plain)
    def call(*inputs: Any, **kwargs: Any) -> Any:
        kinds = [getattr(x, "dtype", None) for x in inputs[:count]]
        if all(isinstance(kind, np.dtype) and kind.kind in "biu" and kind.itemsize <= 2 for kind in kinds):
            inputs = (*(FUNCTIONS["astype"](x, dtype) for x in inputs[:count]), *inputs[count:])
        return plain(*inputs, **kwargs)

    FUNCTIONS["scipy.special", name] = call


for _name, _lower in _UNARY.items():
    elementwise(np.cbrt, _lower, scipy_name=_name)
for _name, _lower in _BINARY.items():
    elementwise(np.hypot, _lower, scipy_name=_name)
    _without_weak_numbers(_name)
for _name in ("erf", "erfc", "erfcx", "ndtr", "log_ndtr", "gamma", "rgamma", "psi", "expm1", "log1p", "xlogy", "xlog1py"):
    _with_complex_numbers(_name)
for _name in (*_UNARY, *_BINARY):
    _of_small_numbers(_name)


@dispatched
def polygamma(n: int, x: Any) -> TracedArray:
    """Return the derivative of digamma of order `n`, plain integers; of order 0 digamma itself.

    >>> polygamma([1, 2], 1.0).round(6)
    array([ 1.644934, -2.404114])
    """
    orders = np.asarray(n if not contains_traced(n) else -1)
    if np.any(orders != np.floor(orders)) or np.any(orders < 0):
        raise UnsupportedError(f"polygamma takes orders that are plain integers, not negative; got {n!r}", find_user_location(),
                               hint="call polygamma once for each order")
    if orders.ndim:
        derivatives = {order: polygamma(order, x) for order in np.unique(orders).tolist()}
        return FUNCTIONS[np.select]([orders == order for order in derivatives], list(derivatives.values()))     # type: ignore[no-any-return]
    n = int(n)
    value = floating(x).value
    return wrap({0: ops.digamma, 1: ops.trigamma}[n](value) if n < 2 else derivative_of_digamma(n, value))


_ZETA_TERMS = 10
_ZETA_CORRECTIONS = 12


def _hurwitz(s: Value, q: Value) -> Value:
    """Sum of (q + k)^-s for q > 0, by Euler and Maclaurin's formula (DLMF 25.11.9), which continues it below s = 1."""
    less_s = ops.negative(s)
    total = ops.power(q, less_s)
    for k in range(1, _ZETA_TERMS):
        total = ops.add(total, ops.power(_plus(q, float(k)), less_s))
    w = _plus(q, float(_ZETA_TERMS))
    last, factor = ops.power(w, less_s), ops.divide(s, w)
    rest = _number(s, 0.5)
    for j in range(1, _ZETA_CORRECTIONS + 1):
        rest = ops.add(rest, _scaled(factor, float(bernoulli(2 * j)) / math.factorial(2 * j)))
        factor = ops.divide(ops.multiply(factor, ops.multiply(_plus(s, 2.0 * j - 1.0), _plus(s, 2.0 * j))), ops.square(w))
    rest = ops.add(rest, ops.divide(w, _plus(s, -1.0)))
    return ops.add(total, ops.multiply(last, rest))


def _riemann(s: Value) -> Value:
    """The zeta function; negative arguments by the reflection formula (DLMF 25.4.1), with exact zeros."""
    below = _below(s, 0.0)
    mirrored = ops.select(below, ops.subtract(_number(s, 1.0), s), s)
    value = _hurwitz(mirrored, _number(s, 1.0))
    half = _scaled(ops.select(below, s, _number(s, 0.0)), 0.5)
    whole = ops.rint(half)
    odd = ops.abs(ops.subtract(whole, _scaled(ops.rint(_scaled(whole, 0.5)), 2.0)))
    sine = ops.multiply(ops.sin(_scaled(ops.subtract(half, whole), math.pi)), _plus(_scaled(odd, -2.0), 1.0))
    growth = ops.exp(ops.subtract(ops.lgamma(mirrored), _scaled(mirrored, math.log(2.0 * math.pi))))
    reflected = _scaled(ops.multiply(ops.multiply(growth, sine), value), 2.0)
    return ops.select(below, reflected, ops.select(_is(s, math.inf), _number(s, 1.0), value))


def _with_negative_shifts(s: Value, q: Value, below: Value) -> Value:
    """Hurwitz's function. Where `below` holds, s is whole and q < 0: there the terms of negative q + k are a sum over 1 - p + k, where p is
    the positive one below 1, of which the function for 1 - q lacks what is behind them."""
    zero, one = _number(s, 0.0), _number(s, 1.0)
    unknown = ops.sqrt(ops.select(below, _scaled(s, 0.0), one))     # 0, with the derivative NaN
    s = ops.add(s, ops.select(below, unknown, zero))
    p = ops.subtract(q, ops.select(below, ops.floor(q), zero))
    odd = ops.abs(ops.subtract(s, _scaled(ops.rint(_scaled(s, 0.5)), 2.0)))
    mirrored = [_hurwitz(s, ops.subtract(one, ops.select(below, shift, zero))) for shift in (p, q)]
    terms = ops.multiply(ops.subtract(*mirrored), _plus(_scaled(odd, -2.0), 1.0))
    return ops.add(_hurwitz(s, p), ops.select(below, terms, zero))


@dispatched
def zeta(x: Any, q: Any = None) -> TracedArray:
    """Riemann's zeta function of `x`, or Hurwitz's: the sum of (q + k)^-x over k = 0, 1, ... for x > 1, with derivatives in both.

    Hurwitz's is NaN for x < 1. For q < 0 it is infinite at -1, -2, ..., and else a number for whole x alone, as in SciPy: its derivative
    in x is NaN there.

    >>> float(zeta(2.0).round(6))
    1.644934
    """
    if q is None:
        array = floating(x)
        return wrap(convert(_riemann(convert(array.value, F64)), array.dtype))
    given = FUNCTIONS[np.broadcast_arrays](floating(x), floating(q))
    dtype = np.promote_types(given[0].dtype, given[1].dtype)
    s, shift = (convert(each.value, F64) for each in given)
    above, positive = ops.greater(s, _number(s, 1.0)), ops.greater(shift, _number(shift, 0.0))
    whole = ops.floor(shift)
    below = ops.logical_and(ops.logical_and(above, ops.less(shift, _number(shift, 0.0))),
                            ops.logical_and(ops.not_equal(shift, whole), ops.equal(s, ops.rint(s))))
    good = ops.logical_or(ops.logical_and(above, positive), below)
    value = _with_negative_shifts(ops.select(good, s, _number(s, 2.0)), ops.select(good, shift, _number(s, 1.0)), below)
    pole = ops.logical_and(ops.less_equal(shift, _number(s, 0.0)), ops.equal(whole, shift))
    infinite = ops.logical_or(_is(s, 1.0), ops.logical_and(pole, ops.greater(s, _number(s, 1.0))))
    unknown = ops.logical_or(ops.isnan(s), ops.isnan(shift))
    undefined = _scaled(ops.add(s, shift), math.nan)        # whose derivatives are NaN, too
    other = ops.select(ops.logical_and(infinite, ops.logical_not(unknown)), _number(s, math.inf), undefined)
    return wrap(convert(ops.select(good, value, other), dtype))


@dispatched
def multigammaln(a: Any, d: int) -> TracedArray:
    """The logarithm of the multivariate gamma function of dimension `d`, for a > (d - 1) / 2.

    >>> float(multigammaln(3.0, 1).round(6))
    0.693147
    """
    x = floating(a)
    total = _number(x.value, 0.25 * d * (d - 1) * math.log(math.pi))
    for j in range(d):
        total = ops.add(total, ops.lgamma(_plus(x.value, -0.5 * j)))
    return wrap(total)
