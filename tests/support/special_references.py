"""Special functions in long double, by series, continued fractions and recurrences: slow, simple, and right to 64 bits."""

from __future__ import annotations

import numpy as np
import scipy.special

LONG = np.longdouble
PI, GAMMA = LONG("3.14159265358979323846264338327950288"), LONG("0.577215664901532860606512090082402431")
_BERNOULLI = [LONG(n) / LONG(d) for n, d in (
    (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510), (43867, 798), (-174611, 330))]
_FAR = 40   # from here on the asymptotic series of the gamma function are used


def exp_of_square(x: np.ndarray, sign: int) -> np.ndarray:
    """e^(sign x^2), the square as an exact part and a small one."""
    high = x.astype(np.float32).astype(LONG)
    return np.exp(sign * high * high) * np.exp(sign * (x - high) * (x + high))


def erf(x: np.ndarray) -> np.ndarray:
    """2 / sqrt(pi) e^(-x^2) sum(2^n x^(2n+1) / (2n+1)!!), for |x| up to 3; beyond 1 - erfc."""
    a = np.minimum(abs(x), LONG(3))
    term = total = a
    for n in range(1, 120):
        term = term * 2 * a * a / (2 * n + 1)
        total = total + term
    near = 2 / np.sqrt(PI) * exp_of_square(a, -1) * total
    return np.copysign(np.where(abs(x) < 3, near, 1 - _far_erfcx(abs(x)) * exp_of_square(np.minimum(abs(x), 110), -1)), x)


def _far_erfcx(a: np.ndarray) -> np.ndarray:
    """Continued fraction, from 2 on."""
    a = np.maximum(a, LONG(2))
    fraction = a
    for n in range(300, 0, -1):
        fraction = a + LONG(n) / 2 / fraction
    return 1 / np.sqrt(PI) / fraction


def erfc(x: np.ndarray) -> np.ndarray:
    return np.where(x < 2, 1 - erf(x), _far_erfcx(x) * exp_of_square(np.clip(x, 0, 110), -1))


def erfcx(x: np.ndarray) -> np.ndarray:
    return np.where(x < 2, erfc(x) * exp_of_square(np.clip(x, -110, 2), 1), _far_erfcx(x))


def erfinv(x: np.ndarray) -> np.ndarray:
    """One step of Newton's method on the smaller of erf and erfc."""
    a = abs(x)
    inside = np.where(a < 1, a, LONG(0))
    y = scipy.special.erfinv(inside.astype(np.float64)).astype(LONG)
    for _ in range(2):
        excess = np.where(inside < 0.5, erf(y) - inside, (1 - inside) - erfc(y))
        y = y - excess * np.sqrt(PI) / 2 * exp_of_square(y, 1)
    tiny = a < 1e-30
    return np.copysign(np.where(tiny, a * np.sqrt(PI) / 2, np.where(a < 1, y, np.where(a == 1, np.inf, np.nan))), x)


def _sin_pi(x: np.ndarray) -> np.ndarray:
    return np.sin(PI * (x - np.rint(x)))


def _is_whole(x: np.ndarray) -> np.ndarray:
    return x == np.rint(x)


def _far_series(y: np.ndarray, factor: object, power: int) -> np.ndarray:
    """sum(B_2j factor(j) / y^(2j + power))"""
    return sum(b * factor(j) / y ** (2 * j + power) for j, b in enumerate(_BERNOULLI, 1))   # type: ignore[operator]


def positive_lgamma(x: np.ndarray) -> np.ndarray:
    """log Gamma for x > 0: the Taylor series around 1 and 2, elsewhere Stirling's at x + 40."""
    product, y = np.ones(x.shape, LONG), x.astype(LONG)
    for _ in range(_FAR):
        product, y = np.where(y < _FAR, product * y, product), np.where(y < _FAR, y + 1, y)
    series = _far_series(y, lambda j: 1 / LONG(2 * j * (2 * j - 1)), -1)
    far = (y - LONG(0.5)) * (np.log(y) - 1) + (np.log(2 * PI) - 1) / 2 + series - np.log(product)
    around1, around2 = abs(x - 1) < 0.25, abs(x - 2) < 0.25
    t = np.where(around1, x - 1, np.where(around2, x - 2, LONG(0)))
    series = -GAMMA * t + sum(_zeta(k, LONG(1)) * (-t) ** k / k for k in range(2, 60))
    return np.where(around1, series, np.where(around2, series + np.log1p(t), np.where(np.isinf(x), np.inf, far)))


def _zeta(s: int, q: LONG) -> LONG:
    """sum((q + k)^-s), by Euler and Maclaurin's formula."""
    n = q + 30
    total = sum((q + k) ** -s for k in range(30)) + n ** (1 - s) / (s - 1) + n**-s / 2
    factor, power = LONG(s) / 2, n ** (-s - 1)
    for j, b in enumerate(_BERNOULLI, 1):
        total += b * factor * power
        factor, power = factor * (s + 2 * j - 1) * (s + 2 * j) / ((2 * j + 1) * (2 * j + 2)), power / n**2
    return total


def lgamma(x: np.ndarray) -> np.ndarray:
    a = np.maximum(abs(x), LONG(5e-324))
    reflected = np.log(PI / abs(a * _sin_pi(a))) - positive_lgamma(a)
    negative = np.where(_is_whole(x), np.inf, np.where(a < 1e-25, -np.log(a), reflected))
    positive = np.where(a < 1e-25, -np.log(a), positive_lgamma(a))
    return np.where(np.isnan(x), x, np.where(np.isinf(x) | (x == 0), np.inf, np.where(x > 0, positive, negative)))


ROOT, ROOT_LOW = LONG(1.4616321449683622), LONG("9.549995429965697e-17")   # of digamma


def _digamma_near_root(t: np.ndarray) -> np.ndarray:
    """Taylor's series at the root, which holds for |t| up to 1/8."""
    return -sum(_zeta(k + 1, ROOT) * (-t) ** k for k in range(1, 40))


def positive_digamma(x: np.ndarray) -> np.ndarray:
    total, y = np.zeros(x.shape, LONG), x.astype(LONG)
    for _ in range(_FAR):
        total, y = np.where(y < _FAR, total + 1 / y, total), np.where(y < _FAR, y + 1, y)
    far = np.log(y) - 1 / (2 * y) - _far_series(y, lambda j: 1 / LONG(2 * j), 0) - total
    t = np.clip((x - ROOT) - ROOT_LOW, -LONG(0.125), LONG(0.125))
    return np.where(abs(x - ROOT) < 0.125, _digamma_near_root(t), far)


def digamma(x: np.ndarray) -> np.ndarray:
    part = x - np.rint(x)
    cotangent = np.where(abs(part) > 0.25, np.copysign(np.tan(PI * (LONG(0.5) - abs(part))), part), 1 / np.tan(PI * part))
    negative = np.where(part == 0, np.nan, positive_digamma(1 - np.minimum(x, 0)) - PI * cotangent)
    positive = positive_digamma(np.where(x < 0, LONG(1), x))
    value = np.where(x == 0, np.copysign(np.inf, -x), np.where(x < 0, negative, positive))
    return np.where(np.isnan(x) | np.isposinf(x), x, value)


def positive_trigamma(x: np.ndarray) -> np.ndarray:
    total, y = np.zeros(x.shape, LONG), x.astype(LONG)
    for _ in range(_FAR):
        total, y = np.where(y < _FAR, total + (1 / y) ** 2, total), np.where(y < _FAR, y + 1, y)
    return total + 1 / y + (1 / y) ** 2 / 2 + _far_series(y, lambda j: 1, 1)


def trigamma(x: np.ndarray) -> np.ndarray:
    negative = (PI / _sin_pi(x)) ** 2 - positive_trigamma(1 - np.minimum(x, 0))
    value = np.where(x < 0, np.where(_is_whole(x), np.inf, negative), positive_trigamma(abs(x)))
    return np.where(np.isnan(x), x, np.where(x == 0, np.inf, np.where(np.isposinf(x), 0, value)))


def scaled_bessel(x: np.ndarray, order: int) -> np.ndarray:
    """e^-|x| I_order(|x|): the power series up to 40, beyond the asymptotic one."""
    a = abs(x).astype(LONG)
    near, far = np.minimum(a, LONG(40)), np.maximum(a, LONG(40))
    term = total = (near / 2) ** order
    for k in range(1, 120):
        term = term * (near / 2) ** 2 / (k * (k + order))
        total = total + term
    tail_term = tail = np.ones(a.shape, LONG)
    for k in range(1, 40):
        tail_term = tail_term * ((2 * k - 1) ** 2 - 4 * order * order) / (8 * k * far)
        tail = tail + tail_term
    return np.where(a < 40, total * np.exp(-near), tail / np.sqrt(2 * PI * far))


def i0e(x: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x), x, scaled_bessel(x, 0))


def i1e(x: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x), x, np.copysign(scaled_bessel(x, 1), x))
