"""How filters answer to frequencies, and signals made of formulas; derivatives go to coefficients, frequencies and times."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir.types import real_dtype
from adjit.scipy.mirror import mirrors
from adjit.scipy.signal.filtering import sections_of, vector
from adjit.scipy.sliding import inexact
from adjit.tracer.array import TracedArray, as_traced


def _whole(points: Any) -> int | None:
    """A number of frequencies, where `points` is not an array of them."""
    if points is None:
        return 512
    return operator.index(points) if isinstance(points, (int, np.integer)) else None


def _frequencies(points: Any, whole: bool, fs: Any, nyquist: bool, dtype: np.dtype) -> Any:
    """Radians a sample."""
    count = _whole(points)
    if count is None:
        return 2 * math.pi * np.atleast_1d(as_traced(points)).astype(dtype) / fs
    if count < 0:
        raise ValueError(f"worN must be nonnegative, got {count}")
    return np.linspace(0, 2 * math.pi if whole else math.pi, count, endpoint=nyquist and not whole, dtype=dtype)


def _polynomial(coefficients: Any, x: Any) -> Any:
    """Horner's rule; the coefficient of the constant is the first one."""
    found = coefficients[-1] + x * 0.0
    for k in range(coefficients.shape[0] - 2, -1, -1):
        found = found * x + coefficients[k]
    return found


@mirrors("signal")
def freqz(b: Any, a: Any = 1, worN: Any = 512, whole: bool = False, plot: Any = None, fs: Any = 2 * math.pi, include_nyquist: bool = False
          ) -> Any:
    """Equivalent of `scipy.signal.freqz`, for vectors of coefficients: frequencies, and the response to them.

    >>> import numpy as np
    >>> w, h = freqz(np.array([0.5, 0.5]), worN=2)
    >>> h.round(6)
    array([1. +0.j , 0.5-0.5j])
    """
    (b, a) = inexact(vector(b, "b"), vector(a, "a"))
    w = _frequencies(worN, whole, fs, include_nyquist, real_dtype(b.dtype))
    z = np.exp(-1j * w)
    h = _polynomial(b, z) / _polynomial(a, z)
    w = w * (fs / (2 * math.pi))
    if plot is not None:
        plot(w, h)
    return w, h


@mirrors("signal")
def freqz_sos(sos: Any, worN: Any = 512, whole: bool = False, fs: Any = 2 * math.pi) -> Any:
    """Equivalent of `scipy.signal.freqz_sos`: frequencies, and the response of sections to them.

    >>> import numpy as np
    >>> w, h = freqz_sos(np.array([[0.5, 0.5, 0.0, 1.0, 0.0, 0.0]]), worN=2)
    >>> h.round(6)
    array([1. +0.j , 0.5-0.5j])
    """
    (sos,) = inexact(sections_of(sos))
    if not sos.shape[0]:
        raise ValueError("Cannot compute frequencies with no sections")
    w, h = freqz(sos[0, :3], sos[0, 3:], worN, whole, None, fs)
    for k in range(1, sos.shape[0]):
        h = h * freqz(sos[k, :3], sos[k, 3:], worN, whole, None, fs)[1]
    return w, h


@mirrors("signal")
def sosfreqz(sos: Any, worN: Any = 512, whole: bool = False, fs: Any = 2 * math.pi) -> Any:
    """Equivalent of `scipy.signal.sosfreqz`, an old name of `freqz_sos`.

    >>> import numpy as np
    >>> sosfreqz(np.array([[0.5, 0.5, 0.0, 1.0, 0.0, 0.0]]), worN=2)[1].round(6)
    array([1. +0.j , 0.5-0.5j])
    """
    return freqz_sos(sos, worN, whole, fs)


@mirrors("signal")
def freqs(b: Any, a: Any, worN: Any = 200, plot: Any = None) -> Any:
    """Equivalent of `scipy.signal.freqs`, at frequencies that are given: the response of an analog filter.

    >>> import numpy as np
    >>> freqs(np.array([1.0]), np.array([1.0, 1.0]), np.array([1.0]))[1]
    array([0.5-0.5j])
    """
    if _whole(worN) is not None:
        raise ValueError("freqs: worN has to be an array of frequencies; which ones are of interest is found in values of coefficients")
    b, a, w = inexact(vector(b, "b"), vector(a, "a"), np.atleast_1d(as_traced(worN)))
    h = _polynomial(np.flip(b), 1j * w) / _polynomial(np.flip(a), 1j * w)
    if plot is not None:
        plot(w, h)
    return w, h


@mirrors("signal")
def group_delay(system: Any, w: Any = 512, whole: bool = False, fs: Any = 2 * math.pi) -> Any:
    """Equivalent of `scipy.signal.group_delay`: frequencies, and the delay of each in samples, 0 where it is singular.

    >>> import numpy as np
    >>> group_delay((np.array([1.0, 1.0]), np.array([1.0])), 4)[1].round(6)
    array([0.5, 0.5, 0.5, 0.5])
    """
    b, a = inexact(*(vector(part, name) for part, name in zip(system, "ba", strict=True)))
    w = _frequencies(w, whole, fs, False, real_dtype(b.dtype))
    c = np.convolve(b, np.conjugate(np.flip(a)))
    z = np.exp(-1j * w)
    divisor = _polynomial(c, z)
    singular = divisor == 0
    ratio = _polynomial(c * np.arange(float(c.size)), z) / np.where(singular, 1.0, divisor)
    return w * (fs / (2 * math.pi)), np.where(singular, 0.0, ratio.real - (a.size - 1))


# -- signals


@mirrors("signal")
def chirp(t: Any, f0: Any, t1: Any, f1: Any, method: str = "linear", phi: Any = 0, vertex_zero: bool = True, *, complex: bool = False
          ) -> Any:
    """Equivalent of `scipy.signal.chirp`: a cosine whose frequency changes. Values of traced frequencies are not checked.

    >>> import numpy as np
    >>> chirp(np.array([0.0, 0.5]), 1.0, 1.0, 1.0).round(6)
    array([ 1., -1.])
    """
    phase = _phase(as_traced(t), f0, t1, f1, method, vertex_zero) + np.deg2rad(phi)
    return np.exp(1j * phase) if complex else np.cos(phase)


def _phase(t: Any, f0: Any, t1: Any, f1: Any, method: str, vertex_zero: bool) -> Any:
    if method in ("linear", "lin", "li"):
        return 2 * math.pi * (f0 * t + 0.5 * ((f1 - f0) / t1) * t * t)
    if method in ("quadratic", "quad", "q"):
        beta = (f1 - f0) / t1 ** 2
        if vertex_zero:
            return 2 * math.pi * (f0 * t + beta * t ** 3 / 3)
        return 2 * math.pi * (f1 * t + beta * ((t1 - t) ** 3 - t1 ** 3) / 3)
    known = not isinstance(f0, TracedArray) and not isinstance(f1, TracedArray)
    if method in ("logarithmic", "log", "lo"):
        if known and f0 * f1 <= 0:
            raise ValueError("For a logarithmic chirp, f0 and f1 must be nonzero and have the same sign.")
        if known and f0 == f1:
            return 2 * math.pi * f0 * t
        rate = np.log(as_traced(f1 / f0))
        return 2 * math.pi * (t1 / rate) * f0 * np.expm1(rate * t / t1)
    if method in ("hyperbolic", "hyp"):
        if known and (f0 == 0 or f1 == 0):
            raise ValueError("For a hyperbolic chirp, f0 and f1 must be nonzero.")
        if known and f0 == f1:
            return 2 * math.pi * f0 * t
        singular = -f1 * t1 / (f0 - f1)
        return 2 * math.pi * (-singular * f0) * np.log(np.abs(1 - t / singular))
    raise ValueError(f"method must be 'linear', 'quadratic', 'logarithmic', or 'hyperbolic', but a value of {method!r} was given.")


@mirrors("signal")
def sweep_poly(t: Any, poly: Any, phi: Any = 0) -> Any:
    """Equivalent of `scipy.signal.sweep_poly`: a cosine whose frequency is a polynomial of the time.

    >>> import numpy as np
    >>> sweep_poly(np.array([0.0, 0.5]), np.array([1.0])).round(6)
    array([ 1., -1.])
    """
    t = as_traced(t)
    p: Any = poly.coef if isinstance(poly, np.poly1d) else np.atleast_1d(as_traced(poly))
    count = p.shape[0]
    integral = np.concatenate([np.zeros(1), np.flip(p) / np.arange(1.0, count + 1)])
    return np.cos(2 * math.pi * _polynomial(integral, t) + phi * (math.pi / 180))


def _wave(t: Any, share: Any, rising: Callable[[Any, Any], Any], falling: Callable[[Any, Any], Any]) -> Any:
    """A wave of period 2 pi, in float64, which changes after a share of it; NaN for shares that are none."""
    t, share = as_traced(t).astype(np.float64), as_traced(share).astype(np.float64)
    place = t % (2 * math.pi)
    first = place < share * 2 * math.pi
    found = np.where(first, rising(place, np.where(first, share, 1.0)), falling(place, np.where(first, 0.0, share)))
    return np.where((share > 1) | (share < 0), math.nan, found)


@mirrors("signal")
def sawtooth(t: Any, width: Any = 1) -> Any:
    """Equivalent of `scipy.signal.sawtooth`.

    >>> import numpy as np
    >>> sawtooth(np.pi * np.array([0.0, 0.5, 1.0, 1.5]))
    array([-1. , -0.5,  0. ,  0.5])
    """
    return _wave(t, width, lambda place, w: place / (math.pi * w) - 1,
                 lambda place, w: (math.pi * (w + 1) - place) / (math.pi * np.where(w == 1, 1.0, 1 - w)))


@mirrors("signal")
def square(t: Any, duty: Any = 0.5) -> Any:
    """Equivalent of `scipy.signal.square`; its derivatives are 0.

    >>> import numpy as np
    >>> square(np.pi * np.array([0.5, 1.5]))
    array([ 1., -1.])
    """
    return _wave(t, duty, lambda place, _: np.ones_like(place), lambda place, _: -np.ones_like(place))


@mirrors("signal")
def gausspulse(t: Any, fc: Any = 1000, bw: Any = 0.5, bwr: Any = -6, tpr: Any = -60, retquad: bool = False, retenv: bool = False) -> Any:
    """Equivalent of `scipy.signal.gausspulse`; values of traced arguments are not checked.

    >>> import numpy as np
    >>> gausspulse(np.array([0.0, 1.0]), fc=1.0).round(6)
    array([1.      , 0.409433])
    """
    for value, wrong, words in ((fc, -fc, "Center frequency must be >= 0."), (bw, -bw, "Fractional bandwidth must be > 0."),
                                (bwr, bwr, "Reference level for bandwidth must be < 0 dB")):
        if not isinstance(value, TracedArray) and (wrong > 0 or (value is not fc and wrong == 0)):
            raise ValueError(words)
    rate = -(math.pi * fc * bw) ** 2 / (4.0 * (bwr / 20.0 * math.log(10.0)))
    if isinstance(t, str):
        if t != "cutoff":
            raise ValueError("If `t` is a string, it must be 'cutoff'")
        return np.sqrt(as_traced(-tpr / 20.0 * math.log(10.0) / rate))
    t = as_traced(t)
    envelope = np.exp(-rate * t * t)
    found = [envelope * np.cos(2 * math.pi * fc * t)]
    if retquad:
        found.append(envelope * np.sin(2 * math.pi * fc * t))
    if retenv:
        found.append(envelope)
    return found[0] if len(found) == 1 else tuple(found)
