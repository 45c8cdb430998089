"""Signals at another rate: by Fourier transforms, by filters between samples, and transforms at any frequencies."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.ir.errors import UnsupportedError
from adjit.scipy.mirror import mirrors, scipys
from adjit.scipy.signal.convolving import fast_length
from adjit.scipy.signal.filtering import sosfilt, sosfiltfilt
from adjit.scipy.sliding import inexact, slid_along
from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.functions.shapes import normalize_axis
from adjit.tracer.user_location import find_user_location


@mirrors("signal")
def resample(x: Any, num: int, t: Any = None, axis: int = 0, window: Any = None, domain: str = "time") -> Any:
    """Equivalent of `scipy.signal.resample`: `num` samples of the same trigonometric polynomial.

    >>> import numpy as np
    >>> resample(np.array([1.0, 0.0, -1.0, 0.0]), 8).round(6)[:3]
    array([1.      , 0.707107, 0.      ])
    """
    if domain not in ("time", "freq"):
        raise ValueError(f"Parameter domain={domain!r} not in ('time', 'freq')!")
    (x,) = inexact(x)
    axis = normalize_axis(axis, x.ndim)
    x = np.moveaxis(x, axis, -1)
    size, num = x.shape[-1], operator.index(num)
    shared, scale = min(num, size), num / size
    half = shared // 2 + 1
    weights = _frequency_window(window, size)
    found: Any
    if domain == "time" and x.dtype.kind != "c":
        spectrum = np.fft.rfft(x)
        if weights is not None:
            count = spectrum.shape[-1]
            both = np.concatenate([weights[:1], 0.5 * (weights[1:count] + np.flip(weights[size - count + 1:]))])
            spectrum = spectrum * both.astype(x.dtype)
        spectrum = spectrum[..., :half] * scale
        if shared % 2 == 0 and num != size:
            spectrum = _last_times(spectrum, 2.0 if num < size else 0.5)
        found = np.fft.irfft(spectrum, num)
    else:
        spectrum = np.fft.fft(x) if domain == "time" else x
        if weights is not None:
            spectrum = spectrum * weights.astype(x.real.dtype)
        low, high = spectrum[..., :half], spectrum[..., size - (shared - half):]
        gap = num - shared
        if shared % 2 == 0 and num < size:
            low = np.concatenate([low[..., :-1], low[..., -1:] + spectrum[..., size - shared // 2:size - shared // 2 + 1]], axis=-1)
        elif shared % 2 == 0 and num > size:
            low = _last_times(low, 0.5)
            high, gap = np.concatenate([low[..., -1:], high], axis=-1), gap - 1
        found = np.fft.ifft(np.concatenate([low, np.zeros((*x.shape[:-1], gap), low.dtype), high], axis=-1) * scale, num)
    found = np.moveaxis(found, -1, axis)
    if t is None:
        return found
    return found, t[0] + (t[1] - t[0]) * (size / num) * np.arange(num)


def _last_times(spectrum: Any, factor: float) -> Any:
    return np.concatenate([spectrum[..., :-1], spectrum[..., -1:] * factor], axis=-1)


def _frequency_window(window: Any, size: int) -> Any:
    """Weights of frequencies, in the order of a transform."""
    if window is None:
        return None
    if callable(window):
        return window(np.fft.fftfreq(size))
    if isinstance(window, (TracedArray, np.ndarray)):
        if window.shape != (size,):
            raise ValueError(f"window.shape={window.shape!r} != ({size},), i.e., window length is not equal to number of frequency bins!")
        return window
    return np.fft.fftshift(scipys("signal").get_window(window, size))


@mirrors("signal")
def upfirdn(h: Any, x: Any, up: int = 1, down: int = 1, axis: int = -1, mode: str = "constant", cval: Any = 0) -> Any:
    """Equivalent of `scipy.signal.upfirdn`, with zeros around the signal: zeros between samples, a filter, and every `down`-th result.

    >>> import numpy as np
    >>> upfirdn(np.array([1.0, 1.0]), np.array([1.0, 2.0]), up=2)
    array([1., 1., 2., 2.])
    """
    if mode.lower() != "constant" or not isinstance(cval, (int, float)) or cval:
        raise UnsupportedError(f"upfirdn(mode={mode!r}, cval={cval!r})", find_user_location(), hint="pad the signal before, and cut after")
    kernel, signal = inexact(h, x)
    if kernel.ndim != 1 or not kernel.size:
        raise ValueError("h must be 1-D with non-zero length")
    if up < 1 or down < 1:
        raise ValueError("Both up and down must be >= 1")
    axis, beyond = normalize_axis(axis, signal.ndim), kernel.size - 1
    return slid_along(signal, np.flip(kernel), axis, beyond, beyond, stride=int(down), between=int(up) - 1)


@mirrors("signal")
def resample_poly(x: Any, up: int, down: int, axis: int = 0, window: Any = ("kaiser", 5.0), padtype: str = "constant", cval: Any = None
                  ) -> Any:
    """Equivalent of `scipy.signal.resample_poly`, with zeros around the signal (`padtype` "constant" without `cval`) or around what it is
    beside its "mean", "median", "minimum" or "maximum".

    >>> import numpy as np
    >>> resample_poly(np.ones(12), 1, 3, padtype="mean").round(6)
    array([1., 1., 1., 1.])
    """
    if up != int(up):
        raise ValueError("up must be an integer")
    if down != int(down):
        raise ValueError("down must be an integer")
    up, down = int(up), int(down)
    if up < 1 or down < 1:
        raise ValueError("up and down must be >= 1")
    shared = math.gcd(up, down)
    up, down = up // shared, down // shared
    x = as_traced(x)
    if up == down == 1:
        return np.copy(x)
    axis = normalize_axis(axis, x.ndim)
    middles: dict[str, Any] = {"mean": np.mean, "median": np.median, "minimum": np.min, "maximum": np.max}
    if padtype not in middles and (padtype != "constant" or cval is not None):
        raise UnsupportedError(f"resample_poly(padtype={padtype!r}, cval={cval!r})", find_user_location(),
                               hint='"constant", "mean", "median", "minimum" and "maximum" are supported')
    (values,) = inexact(x)
    if isinstance(window, (list, np.ndarray, TracedArray)):
        kernel: Any = as_traced(window)
        if kernel.ndim > 1:
            raise ValueError("window must be 1-D")
        half = (kernel.size - 1) // 2
    else:
        half = 10 * max(up, down)
        kernel = scipys("signal").firwin(2 * half + 1, 1.0 / max(up, down), window=window).astype(values.real.dtype)
    before = down - half % down
    count = -(-values.shape[axis] * up // down)
    skipped = (half + before) // down
    missing = (count + skipped - 1) * down + 1 - (kernel.size + before + (values.shape[axis] - 1) * up)
    kernel = np.pad(kernel * up, (before, max(missing, 0)))
    background: Any = middles[padtype](values, axis=axis, keepdims=True) if padtype in middles else 0.0
    found = upfirdn(kernel, values - background if padtype in middles else values, up, down, axis)
    found = found[(slice(None),) * axis + (slice(skipped, skipped + count),)]
    return found + background if padtype in middles else found


@mirrors("signal")
def decimate(x: Any, q: int, n: int | None = None, ftype: str = "iir", axis: int = -1, zero_phase: bool = True) -> Any:
    """Equivalent of `scipy.signal.decimate`, with `ftype` "iir" or "fir": a low pass filter, and every `q`-th sample.

    >>> import numpy as np
    >>> decimate(np.ones(60), 3).shape
    (20,)
    """
    if ftype not in ("iir", "fir"):
        raise ValueError("invalid ftype")
    q = operator.index(q)
    (x,) = inexact(x)
    axis, dtype = normalize_axis(axis, x.ndim), x.real.dtype
    places = (slice(None),) * axis
    if ftype == "fir":
        kernel = scipys("signal").firwin((20 * q if n is None else operator.index(n)) + 1, 1.0 / q, window="hamming").astype(dtype)
        if zero_phase:
            return resample_poly(x, 1, q, axis, kernel)
        return upfirdn(kernel, x, 1, q, axis)[(*places, slice(-(-x.shape[axis] // q)))]
    sections = scipys("signal").cheby1(8 if n is None else operator.index(n), 0.05, 0.8 / q, output="sos").astype(dtype)
    return (sosfiltfilt if zero_phase else sosfilt)(sections, x, axis=axis)[(*places, slice(None, None, q))]


def _chirped(x: Any, table: Any, count: int, first: Any, axis: int) -> Any:
    """sum_n x[n] first[n] w ** (n k) for k below `count`, by Bluestein's convolution; `table` has w ** (n ** 2 / 2)."""
    size = x.shape[axis]
    wide = fast_length(size + count - 1)
    inverse = 1.0 / np.concatenate([table[size - 1:0:-1], table[:count]])
    moved = np.moveaxis(x, axis, -1)
    spectrum = np.fft.fft(moved * (first * table[:size]), wide) * np.fft.fft(inverse, wide)
    return np.moveaxis(np.fft.ifft(spectrum)[..., size - 1:size + count - 1] * table[:count], -1, axis)


@mirrors("signal", static=("w", "a"))
def czt(x: Any, m: int | None = None, w: Any = None, a: Any = 1 + 0j, *, axis: int = -1) -> Any:
    """Equivalent of `scipy.signal.czt`, for known `w` and `a`: the z transform at the points a * w ** -k.

    >>> import numpy as np
    >>> czt(np.array([1.0, 2.0])).real.round(6)
    array([ 3., -1.])
    """
    (x,) = inexact(x)
    axis = normalize_axis(axis, x.ndim)
    size = x.shape[axis]
    if size < 1:
        raise ValueError(f"Invalid number of CZT data points ({size}) specified. n must be positive and integer type.")
    count = size if m is None else operator.index(m)
    if count < 1:
        raise ValueError(f"Invalid number of CZT output points ({count}) specified. m must be positive and integer type.")
    k = np.arange(max(count, size))
    table = np.exp(-1j * math.pi * ((k * k) % (2 * count)) / count) if w is None else np.asarray(w) ** (k ** 2 / 2.0)
    dtype = np.result_type(x.dtype, np.complex64)
    return _chirped(x, table.astype(dtype), count, (np.asarray(1.0 * a) ** -k[:size]).astype(dtype), axis)


@mirrors("signal")
def zoom_fft(x: Any, fn: float | Sequence[float], m: int | None = None, *, fs: float = 2, endpoint: bool = False, axis: int = -1) -> Any:
    """Equivalent of `scipy.signal.zoom_fft`: the transform at `m` frequencies from fn[0] (or 0) to fn[1] (or fn).

    >>> import numpy as np
    >>> zoom_fft(np.array([1.0, 2.0]), 2.0, 2).real.round(6)
    array([ 3., -1.])
    """
    bounds = tuple(float(each) for each in (fn if isinstance(fn, (tuple, list, np.ndarray)) else (0.0, fn)))
    if len(bounds) == 1:
        bounds = (0.0, bounds[0])
    if len(bounds) != 2:
        raise ValueError("fn must be a scalar or 2-length sequence")
    first, last = bounds
    (x,) = inexact(x)
    axis = normalize_axis(axis, x.ndim)
    size = x.shape[axis]
    count = size if m is None else operator.index(m)
    step = (last - first) / (fs * (count - 1 if endpoint else count))
    k = np.arange(max(count, size))
    dtype = np.result_type(x.dtype, np.complex64)
    start = np.exp(-2j * math.pi * first / fs * k[:size])
    return _chirped(x, np.exp(-1j * math.pi * step * k ** 2).astype(dtype), count, start.astype(dtype), axis)
