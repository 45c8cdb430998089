"""Special functions that NumPy lacks, as NumPy formulas in float64: the meaning of their op records.

float32 arguments are widened, and the result is rounded once. The methods are those of the machine code (`codegen/vector_math`), without
its error-free sums: relative errors stay below about 10 units in the last place; near a zero of the function, errors of the largest term
stay below this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from adjit.ir.special_polynomials import POLYNOMIALS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
Formula = Callable[[np.ndarray], np.ndarray]

_DIGAMMA_ROOT, _DIGAMMA_ROOT_LOW = 1.4616321449683622, 9.549995429965697e-17
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_UPPER_HALF = np.uint64(0xFFFF_FFFF_F800_0000)


def _in_float64(formula: Callable[[Array], Array]) -> Formula:
    """Wrapper that applies `formula`, which takes float64 arrays, to arrays of any float dtype, without NumPy's warnings."""
    def call(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(formula(np.asarray(x, np.float64))).astype(x.dtype)

    call.__name__, call.__doc__ = formula.__name__, formula.__doc__
    return call


def _polynomial(x: Array, coefficients: str | Sequence[float]) -> Array:
    if isinstance(coefficients, str):
        coefficients = POLYNOMIALS[coefficients]
    value = np.full(x.shape, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value


def _exp_of_square(x: Array, sign: float) -> Array:
    """e^(sign x^2): the upper half of x has an exact square, and the rest is small."""
    upper = (np.ascontiguousarray(x).reshape(x.shape).view(np.uint64) & _UPPER_HALF).view(np.float64)
    return np.exp(sign * upper * upper) * np.exp(sign * (x - upper) * (x + upper))


def _scaled_erfc(a: Array) -> Array:
    """e^(a^2) erfc(a), for a >= 1/2."""
    high, low, *others = POLYNOMIALS["ERFC"]
    b = np.minimum(a, 2.0**28)
    q = (b - 3.0) / (b + 3.0)
    return np.where(a > b, 1.0 / math.sqrt(math.pi) / a, (high + (q * _polynomial(q, others) + low)) / (1.0 + 2.0 * b))


@_in_float64
def erf(x: Array) -> Array:
    """Error function."""
    a = abs(x)
    far = -np.expm1(_polynomial(np.minimum(a, 6.0) - 1.0, "ERF_TAIL"))
    return np.where(a < 1.0, x + x * _polynomial(np.minimum(x * x, 1.0), "ERF"), np.copysign(far, x))


@_in_float64
def erfc(x: Array) -> Array:
    """1 - erf(x)."""
    a = np.minimum(abs(x), 28.0)
    far = _exp_of_square(a, -1.0) * _scaled_erfc(a)
    near = 1.0 - (x + x * _polynomial(np.minimum(x * x, 1.0), "ERF"))
    return np.where(abs(x) < 0.5, near, np.where(x < 0.0, 2.0 - far, far))


@_in_float64
def erfcx(x: Array) -> Array:
    """e^(x^2) erfc(x)."""
    far = _scaled_erfc(abs(x))
    power = _exp_of_square(np.clip(x, -30.0, 1.0), 1.0)
    near = power * (1.0 - (x + x * _polynomial(np.minimum(x * x, 1.0), "ERF")))
    return np.where(abs(x) < 0.5, near, np.where(x < 0.0, (power - far) + power, far))


@_in_float64
def erfinv(x: Array) -> Array:
    """Inverse of erf; infinite at -1 and 1."""
    a = abs(x)
    w = -np.log((1.0 - a) * (1.0 + a))
    s = np.sqrt(w)
    factor = np.where(w < 6.25, _polynomial(w - 3.125, "ERFINV"),
                      np.where(s < 4.0, _polynomial(s - 3.25, "ERFINV_TAIL"), _polynomial(s - 5.0, "ERFINV_FAR")))
    return np.where(a == 1.0, np.copysign(np.inf, x), x * factor)


def _distance_to_whole(a: Array) -> Array:
    """a - rint(a), for a >= 0; 0 at infinity."""
    return np.where(a < 2.0**52, a - np.rint(a), 0.0)


def _sin_pi(distance: Array) -> Array:
    """sin(pi |distance|), for distances up to 1/2."""
    u = abs(distance)
    return np.where(u > 0.25, np.cos(math.pi * (0.5 - u)), np.sin(math.pi * u))


@_in_float64
def lgamma(x: Array) -> Array:
    """log |Gamma(x)|; infinite at 0 and the negative whole numbers, and at both infinities."""
    mirrored = x < -0.5
    y = np.where(mirrored, -x, x)
    shifted = np.clip(y - 1.0, -0.75, 0.25)
    near = np.select(
        [y < 0.25, y < 1.25, y < 2.25, y < 3.25],
        [_above_two(y) - np.log(abs(y + y * y)), _above_two(shifted) - np.log1p(shifted), _above_two(y - 2.0),
         _above_two(y - 3.0) + np.log(y - 1.0)],
        _above_two(y - 4.0) + np.log((y - 1.0) * (y - 2.0)))
    w = 1.0 / y
    far = (y - 0.5) * (np.log(y) - 1.0) + (w * _polynomial(w * w, "STIRLING") + (_HALF_LOG_TWO_PI - 0.5))
    value = np.where(y < 4.25, near, np.where(y == np.inf, np.inf, far))
    distance = _distance_to_whole(y)
    reflected = np.where(distance == 0.0, np.inf, -np.log(y * _sin_pi(distance) / math.pi) - value)
    return np.where(mirrored, reflected, value)


def _above_two(t: Array) -> Array:
    """log Gamma(2 + t), for t from -3/4 to 1/4."""
    t = np.clip(t, -0.75, 0.25)
    return t * _polynomial(t, "LGAMMA")


@_in_float64
def digamma(x: Array) -> Array:
    """Derivative of lgamma; NaN at the negative whole numbers, -inf at 0.0, inf at -0.0."""
    mirrored = x < 0.0
    y = np.where(mirrored, 1.0 - x, x)
    w = 1.0 / y
    far = np.log(y) - 0.5 * w - w * w * _polynomial(np.minimum(w * w, 1.0), "DIGAMMA_TAIL")
    near = np.select([y < 1.0, y < 2.0, y < 3.0], [_from_root(y + 1.0) - w, _from_root(y), _from_root(y - 1.0) + 1.0 / (y - 1.0)],
                     _from_root(y - 2.0) + (2.0 * y - 3.0) / ((y - 1.0) * (y - 2.0)))
    value = np.where(y < 4.0, near, far)
    distance = _distance_to_whole(-x)
    cotangent = np.where(abs(distance) > 0.25, np.tan(math.pi * (0.5 - abs(distance))), 1.0 / np.tan(math.pi * abs(distance)))
    reflected = np.where(distance == 0.0, np.nan, value + math.pi * np.copysign(cotangent, distance))
    return np.where(mirrored, reflected, value)


def _from_root(y: Array) -> Array:
    """digamma, for arguments from 1 to 2."""
    y = np.clip(y, 1.0, 2.0)
    return ((y - _DIGAMMA_ROOT) - _DIGAMMA_ROOT_LOW) * _polynomial(y - 1.5, "DIGAMMA")


@_in_float64
def trigamma(x: Array) -> Array:
    """Derivative of digamma; inf at 0 and the negative whole numbers."""
    mirrored = x < 0.0
    y = np.where(mirrored, 1.0 - x, x)
    near = y < 4.0
    w = 1.0 / np.where(near, y + 4.0, y)
    value = w + w * w * (0.5 + w * _polynomial(w * w, "TRIGAMMA_TAIL"))
    for step in (3.0, 2.0, 1.0, 0.0):
        value = np.where(near, value + np.square(1.0 / (y + step)), value)
    return np.where(mirrored, np.square(math.pi / _sin_pi(_distance_to_whole(-x))) - value, value)


def _scaled_bessel(a: Array, name: str) -> tuple[Array, Array]:
    near, u = np.minimum(a, 8.0), 8.0 / np.maximum(a, 8.0)
    return _polynomial(near * near, name) * np.exp(-near), _polynomial(u - 0.5, f"{name}_TAIL") / np.sqrt(a)


@_in_float64
def i0e(x: Array) -> Array:
    """Modified Bessel function I0, times e^-|x|."""
    near, far = _scaled_bessel(abs(x), "I0")
    return np.where(abs(x) < 8.0, near, far)


@_in_float64
def i1e(x: Array) -> Array:
    """Modified Bessel function I1, times e^-|x|."""
    near, far = _scaled_bessel(abs(x), "I1")
    return np.copysign(np.where(abs(x) < 8.0, near * abs(x), far), x)
