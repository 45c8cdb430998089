"""Spectra of signals: transforms of windows that overlap, their averages, and the way back; formulas are SciPy's."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir.types import real_dtype
from adjit.scipy.mirror import mirrors, scipys
from adjit.scipy.signal.smoothing import detrend as without_trend
from adjit.scipy.sliding import inexact
from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.functions.shapes import normalize_axis

_CHUNKS = 16
"""Windows that overlap so much that more chunks than this make one are read by index."""


def _frames(x: Any, length: int, step: int, count: int) -> Any:
    """The windows of `length` elements along the last axis that begin at every `step`: (..., count, length)."""
    chunks = -(-length // step)
    if chunks > _CHUNKS:
        return x[..., np.arange(count)[:, None] * step + np.arange(length)]
    needed = (count - 1 + chunks) * step
    x = x[..., :needed]
    x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, needed - x.shape[-1])])
    parts = np.reshape(x, (*x.shape[:-1], count - 1 + chunks, step))
    return np.concatenate([parts[..., k:k + count, :] for k in range(chunks)], axis=-1)[..., :length]


def _overlapped(frames: Any, step: int) -> Any:
    """The sum of windows (..., count, length) where they came from."""
    count, length = frames.shape[-2:]
    chunks = -(-length // step)
    outer = [(0, 0)] * (frames.ndim - 2)
    parts = np.reshape(np.pad(frames, [*outer, (0, 0), (0, chunks * step - length)]), (*frames.shape[:-1], chunks, step))
    total: Any = 0.0
    for k in range(chunks):
        total = total + np.pad(parts[..., k, :], [*outer, (k, chunks - 1 - k), (0, 0)])
    return np.reshape(total, (*frames.shape[:-2], -1))[..., :(count - 1) * step + length]


def _window(window: Any, nperseg: Any, length: int) -> tuple[Any, int]:
    """Weights of a window, and how many they are."""
    if isinstance(window, (str, tuple)):
        size = 256 if nperseg is None else int(nperseg)
        if size < 1:
            raise ValueError("nperseg must be a positive integer")
        if size > length:
            warnings.warn(f"nperseg = {size:d} is greater than input length  = {length:d}, using nperseg = {length:d}", stacklevel=4)
            size = length
        return scipys("signal").get_window(window, size), size
    weights = as_traced(window)
    if weights.ndim != 1:
        raise ValueError("window must be 1-D")
    if weights.size > length:
        raise ValueError("window is longer than input signal")
    if nperseg is not None and int(nperseg) != weights.size:
        raise ValueError("value specified for nperseg is different from length of window")
    return weights, weights.size


def _steps(nperseg: int, noverlap: Any, nfft: Any) -> tuple[int, int]:
    """Elements shared by two windows, and elements of a transform."""
    shared = nperseg // 2 if noverlap is None else int(noverlap)
    if shared >= nperseg:
        raise ValueError("noverlap must be less than nperseg.")
    count = nperseg if nfft is None else int(nfft)
    if count < nperseg:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    return shared, count


def _transforms(x: Any, weights: Any, detrend: Any, shared: int, nfft: int, onesided: bool) -> Any:
    """Transforms of the windows along the last axis: (..., window, frequency)."""
    step = weights.shape[0] - shared
    frames = _frames(x, weights.shape[0], step, (x.shape[-1] - shared) // step)
    if callable(detrend):
        frames = detrend(frames)
    elif detrend:
        frames = without_trend(frames, type=detrend)
    return (np.fft.rfft if onesided else np.fft.fft)(frames * weights, nfft)


def _frequencies(nfft: int, fs: Any, onesided: bool) -> Any:
    count = nfft // 2 + 1 if onesided else nfft
    whole = np.arange(count) if onesided else np.fft.ifftshift(np.arange(count) - nfft // 2)
    return whole * (fs / nfft) if isinstance(fs, TracedArray) else (np.fft.rfftfreq if onesided else np.fft.fftfreq)(nfft, 1.0 / fs)


def _doubled(spectrum: Any, nfft: int) -> Any:
    """Densities of both signs of a frequency in one; frequencies are along the last axis."""
    factors = np.full(spectrum.shape[-1], 2.0, real_dtype(spectrum.dtype))
    factors[0] = 1.0
    if nfft % 2 == 0:
        factors[-1] = 1.0
    return spectrum * factors


def _scale(weights: Any, fs: Any, scaling: str) -> Any:
    if scaling == "density":
        return 1.0 / (fs * np.sum(weights * weights))
    if scaling == "spectrum":
        return 1.0 / np.sum(weights) ** 2
    raise ValueError(f"Unknown scaling: {scaling!r}")


def _median_bias(count: int) -> float:
    pairs = 2 * np.arange(1.0, (count - 1) // 2 + 1)
    return float(1 + np.sum(1.0 / (pairs + 1) - 1.0 / pairs))


def _lengthened(x: Any, length: int) -> Any:
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, length - x.shape[-1])])


@mirrors("signal")
def csd(x: Any, y: Any, fs: Any = 1.0, window: Any = "hann", nperseg: Any = None, noverlap: Any = None, nfft: Any = None,
        detrend: Any = "constant", return_onesided: bool = True, scaling: str = "density", axis: int = -1, average: str = "mean") -> Any:
    """Equivalent of `scipy.signal.csd`: frequencies, and the cross spectral density by Welch's method. A callable `detrend` gets windows
    along the last axis.

    >>> import numpy as np
    >>> f, p = csd(np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0, 0.0]), nperseg=4, window="boxcar", detrend=False)
    >>> p.round(6)
    array([ 0.25+0.j ,  0.  -0.5j, -0.25+0.j ])
    """
    same = x is y
    pair: list[Any] = [as_traced(x), as_traced(y)]
    first, second = (inexact(np.moveaxis(each, axis, -1))[0] for each in pair)
    dtype = np.result_type(first.dtype, second.dtype, np.complex64)
    length = max(first.shape[-1], second.shape[-1])
    first, second = _lengthened(first, length), _lengthened(second, length)
    weights, count = _window(window, nperseg, length)
    shared, nfft = _steps(count, noverlap, nfft)
    onesided = return_onesided and "c" not in (first.dtype.kind, second.dtype.kind)
    one, two = (_transforms(part, weights, detrend, shared, nfft, onesided) for part in (first, second))
    density = (np.square(one.real) + np.square(one.imag) if same else np.conj(one) * two) * _scale(weights, fs, scaling)
    if onesided:
        density = _doubled(density, nfft)
    if average not in ("mean", "median"):
        raise ValueError(f"Parameter average={average!r} must be 'median' or 'mean'!")
    if average == "mean":
        found = np.mean(density, axis=-2)
    elif density.dtype.kind == "c":
        found = (np.median(density.real, axis=-2) + 1j * np.median(density.imag, axis=-2)) / _median_bias(density.shape[-2])
    else:
        found = np.median(density, axis=-2) / _median_bias(density.shape[-2])
    found = found.astype(real_dtype(dtype) if same else dtype, copy=False)
    return _frequencies(nfft, fs, onesided), np.moveaxis(found, -1, axis)


@mirrors("signal")
def welch(x: Any, fs: Any = 1.0, window: Any = "hann", nperseg: Any = None, noverlap: Any = None, nfft: Any = None,
          detrend: Any = "constant", return_onesided: bool = True, scaling: str = "density", axis: int = -1, average: str = "mean") -> Any:
    """Equivalent of `scipy.signal.welch`: frequencies, and the power spectral density, as by `csd`.

    >>> import numpy as np
    >>> f, p = welch(np.array([1.0, 0.0, -1.0, 0.0]), nperseg=4, window="boxcar")
    >>> p.round(6)
    array([0., 2., 0.])
    """
    x = as_traced(x)
    return _csd(x, x, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)


@mirrors("signal")
def periodogram(x: Any, fs: Any = 1.0, window: Any = "boxcar", nfft: Any = None, detrend: Any = "constant", return_onesided: bool = True,
                scaling: str = "density", axis: int = -1) -> Any:
    """Equivalent of `scipy.signal.periodogram`: frequencies, and the power spectral density of the whole signal.

    >>> import numpy as np
    >>> f, p = periodogram(np.array([1.0, 0.0, -1.0, 0.0]))
    >>> p.round(6)
    array([0., 2., 0.])
    """
    x = as_traced(x)
    axis = normalize_axis(axis, x.ndim)
    count = x.shape[axis]
    if nfft is not None and nfft < count:
        count = int(nfft)
        x = x[(slice(None),) * axis + (slice(count),)]
    window = "boxcar" if window is None else window
    if not isinstance(window, (str, tuple)) and np.size(window) != count:
        raise ValueError("the size of the window must be the same size of the input on the specified axis")
    return _csd(x, x, fs, window, count, 0, nfft, detrend, return_onesided, scaling, axis)


@mirrors("signal")
def coherence(x: Any, y: Any, fs: Any = 1.0, window: Any = "hann", nperseg: Any = None, noverlap: Any = None, nfft: Any = None,
              detrend: Any = "constant", axis: int = -1) -> Any:
    """Equivalent of `scipy.signal.coherence`: frequencies, and the squared cross spectral density over the product of both densities.

    >>> import numpy as np
    >>> x = np.sin(np.arange(40.0) ** 2)
    >>> coherence(x, x, nperseg=8)[1].round(6)
    array([1., 1., 1., 1., 1.])
    """
    x, y = as_traced(x), as_traced(y)
    options = (fs, window, nperseg, noverlap, nfft, detrend)
    (f, of_x), (_, of_y), (_, of_both) = (_csd(*pair, *options, axis=axis) for pair in ((x, x), (y, y), (x, y)))
    return f, (np.square(of_both.real) + np.square(of_both.imag)) / of_x / of_y


_csd: Callable[..., Any] = csd.__wrapped__      # type: ignore[attr-defined]


def _short_time(x: Any, fs: Any, weights: Any, noverlap: Any, nfft: Any, detrend: Any, onesided: bool, scaling: str, axis: int,
                edge: float = 0) -> tuple[Any, Any, Any, int]:
    """Frequencies, times, scaled transforms (..., window, frequency) and elements of a transform, of a signal along the last axis that
    `edge` samples were put before."""
    count = weights.shape[0]
    shared, nfft = _steps(count, noverlap, nfft)
    onesided = onesided and x.dtype.kind != "c"
    found = _transforms(x, weights, detrend, shared, nfft, onesided) * np.sqrt(_scale(weights, fs, scaling))
    times = (np.arange(count / 2, x.shape[-1] - count / 2 + 1, count - shared) - edge) / fs
    return _frequencies(nfft, fs, onesided), times, found, nfft


def _in_place(found: Any, axis: int, ndim: int) -> Any:
    """(..., window, frequency) with the frequency where the signal had its axis, and the window in the last place."""
    return np.moveaxis(np.swapaxes(found, -1, -2), -2, axis) if axis != ndim - 1 else np.swapaxes(found, -1, -2)


@mirrors("signal")
def spectrogram(x: Any, fs: Any = 1.0, window: Any = ("tukey", 0.25), nperseg: Any = None, noverlap: Any = None, nfft: Any = None,
                detrend: Any = "constant", return_onesided: bool = True, scaling: str = "density", axis: int = -1, mode: str = "psd"
                ) -> Any:
    """Equivalent of `scipy.signal.spectrogram`: frequencies, times, and spectra of windows.

    >>> import numpy as np
    >>> f, t, s = spectrogram(np.ones(12), window="boxcar", nperseg=4, noverlap=0, detrend=False)
    >>> t, s[:2].round(6)
    (array([ 2.,  6., 10.]), array([[4., 4., 4.],
           [0., 0., 0.]]))
    """
    if mode not in ("psd", "complex", "magnitude", "angle", "phase"):
        raise ValueError(f"unknown value for mode {mode}, must be one of ['psd', 'complex', 'magnitude', 'angle', 'phase']")
    (signal,) = inexact(x)
    axis = normalize_axis(axis, signal.ndim)
    signal = np.moveaxis(signal, axis, -1)
    weights, count = _window(window, nperseg, signal.shape[-1])
    onesided = return_onesided and signal.dtype.kind != "c"
    f, times, found, nfft = _short_time(signal, fs, weights, count // 8 if noverlap is None else noverlap, nfft, detrend, onesided,
                                        scaling, axis)
    dtype = np.result_type(signal.dtype, np.complex64)
    if mode == "psd":
        density = np.square(found.real) + np.square(found.imag)
        found = (_doubled(density, nfft) if onesided else density).astype(real_dtype(dtype), copy=False)
    else:
        found = found.astype(dtype, copy=False)
    found = _in_place(found, axis, signal.ndim)
    if mode == "magnitude":
        found = np.abs(found)
    elif mode in ("angle", "phase"):
        found = np.angle(found)
        if mode == "phase":
            found = np.unwrap(found, axis=axis)
    return f, times, found


_BOUNDARIES: dict[str | None, dict[str, Any]] = {"zeros": {"mode": "constant"}, "even": {"mode": "reflect"}, "constant": {"mode": "edge"},
                                                 "odd": {"mode": "reflect", "reflect_type": "odd"}, None: {}}


@mirrors("signal")
def stft(x: Any, fs: Any = 1.0, window: Any = "hann", nperseg: Any = 256, noverlap: Any = None, nfft: Any = None, detrend: Any = False,
         return_onesided: bool = True, boundary: str | None = "zeros", padded: bool = True, axis: int = -1, scaling: str = "spectrum"
         ) -> Any:
    """Equivalent of `scipy.signal.stft`: frequencies, times, and transforms of windows.

    >>> import numpy as np
    >>> f, t, z = stft(np.ones(8), window="boxcar", nperseg=4, noverlap=0)
    >>> z[0].round(6)
    array([0.5+0.j, 1. +0.j, 0.5+0.j])
    """
    if scaling not in ("spectrum", "psd"):
        raise ValueError(f"Parameter scaling={scaling!r} not in ['spectrum', 'psd']!")
    if boundary not in _BOUNDARIES:
        raise ValueError(f"Unknown boundary option '{boundary}', must be one of: {list(_BOUNDARIES)}")
    (signal,) = inexact(x)
    axis, ndim = normalize_axis(axis, signal.ndim), signal.ndim
    signal = np.moveaxis(signal, axis, -1)
    weights, count = _window(window, nperseg, signal.shape[-1])
    shared, _ = _steps(count, noverlap, nfft)
    edge = count // 2 if boundary else 0
    outer = [(0, 0)] * (ndim - 1)
    if edge:
        if boundary in ("even", "odd") and edge > signal.shape[-1] - 1:
            raise ValueError(f"The extension length n ({edge}) is too big. It must not exceed x.shape[axis]-1, which is "
                             f"{signal.shape[-1] - 1}.")
        signal = np.pad(signal, [*outer, (edge, edge)], **_BOUNDARIES[boundary])
    if padded:
        signal = np.pad(signal, [*outer, (0, -(signal.shape[-1] - count) % (count - shared) % count)])
    dtype = np.result_type(signal.dtype, np.complex64)
    f, times, found, _ = _short_time(signal, fs, weights, shared, nfft, detrend, return_onesided,
                                     "density" if scaling == "psd" else scaling, axis, edge=count / 2 if boundary else 0)
    return f, times, _in_place(found.astype(dtype, copy=False), axis, ndim)


@mirrors("signal")
def istft(Zxx: Any, fs: Any = 1.0, window: Any = "hann", nperseg: Any = None, noverlap: Any = None, nfft: Any = None,
          input_onesided: bool = True, boundary: bool = True, time_axis: int = -1, freq_axis: int = -2, scaling: str = "spectrum") -> Any:
    """Equivalent of `scipy.signal.istft`: times, and the signal whose transforms are nearest to `Zxx`.

    >>> import numpy as np
    >>> _, _, z = stft(np.arange(8.0), nperseg=4)
    >>> istft(z)[1].round(6)
    array([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    (z,) = inexact(Zxx)
    if z.ndim < 2:
        raise ValueError("Input stft must be at least 2d!")
    time_axis, freq_axis = normalize_axis(time_axis, z.ndim), normalize_axis(freq_axis, z.ndim)
    if freq_axis == time_axis:
        raise ValueError("Must specify differing time and frequency axes!")
    if scaling not in ("spectrum", "psd"):
        raise ValueError(f"Parameter scaling={scaling!r} not in ['spectrum', 'psd']!")
    z = np.moveaxis(z, (time_axis, freq_axis), (-2, -1)).astype(np.result_type(z.dtype, np.complex64), copy=False)
    default = 2 * (z.shape[-1] - 1) if input_onesided else z.shape[-1]
    nperseg = default if nperseg is None else int(nperseg)
    if nperseg < 1:
        raise ValueError("nperseg must be a positive integer")
    if nfft is None:
        nfft = nperseg if input_onesided and nperseg == default + 1 else default
    shared, nfft = _steps(nperseg, noverlap, nfft)
    if isinstance(window, (str, tuple)):
        weights: Any = scipys("signal").get_window(window, nperseg)
    else:
        weights = as_traced(window)
        if weights.shape != (nperseg,):
            raise ValueError(f"window must have length of {nperseg}")
    frames = (np.fft.irfft if input_onesided else np.fft.ifft)(z, nfft)[..., :nperseg]
    weights = weights.astype(real_dtype(frames.dtype))
    factor = np.sum(weights) if scaling == "spectrum" else np.sqrt(fs * np.sum(weights ** 2))
    x = _overlapped(frames * (weights * factor), nperseg - shared)
    squares = _overlapped(np.broadcast_to(weights ** 2, (z.shape[-2], nperseg)), nperseg - shared)
    if boundary:
        cut = slice(nperseg // 2, -(nperseg // 2))
        x, squares = x[..., cut], squares[..., cut]
    if not isinstance(squares, TracedArray) and not np.all(squares > 1e-10):
        warnings.warn(f"NOLA condition failed, STFT may not be invertible.{'' if boundary else ' Possibly due to missing boundary'}",
                      stacklevel=3)
    x = x / np.where(squares > 1e-10, squares, 1.0)
    x = np.moveaxis(x, -1, time_axis - (freq_axis < time_axis))
    return np.arange(x.shape[0]) / fs, x


@mirrors("signal")
def lombscargle(x: Any, y: Any, freqs: Any, precenter: bool = False, normalize: Any = False, *, weights: Any = None,
                floating_mean: bool = False) -> Any:
    """Equivalent of `scipy.signal.lombscargle`: the periodogram of samples at any places, in float64; values of weights are not checked.
    That of one frequency is a number.

    >>> import numpy as np
    >>> lombscargle(np.arange(4.0), np.array([1.0, 0.0, -1.0, 0.0]), np.array([1.0, 2.0])).round(6)
    array([0.655176, 0.791815])
    """
    x, y, freqs = (as_traced(part).astype(np.float64) for part in (x, y, freqs))
    w = as_traced(np.ones(y.shape) if weights is None else weights).astype(np.float64)
    if not (x.ndim == 1 and x.size and x.shape == y.shape == w.shape):
        raise ValueError("Parameters x, y, weights must be 1-D arrays of equal non-zero length!")
    if freqs.ndim != 1 or not freqs.size:
        raise ValueError("Parameter freqs must be a 1-D array of non-zero length!")
    if isinstance(normalize, (bool, np.bool_)):
        normalize = "normalize" if normalize else "power"
    if normalize not in ("power", "normalize", "amplitude"):
        raise ValueError("Normalize must be: False (or 'power'), True (or 'normalize'), or 'amplitude'.")
    if precenter:
        y = y - np.mean(y)
    w = w / np.sum(w)
    phase = freqs[:, None] * x
    c, s, mean = np.cos(phase), np.sin(phase), w @ y
    cc, cs = (c * c) @ w, (c * s) @ w
    ss = 1.0 - cc
    if floating_mean:
        of_c, of_s = c @ w, s @ w
        cc, ss, cs = cc - of_c ** 2, ss - of_s ** 2, cs - of_c * of_s
    tau = 0.5 * np.arctan2(2.0 * cs, cc - ss)
    c, s = np.cos(phase - tau[:, None]), np.sin(phase - tau[:, None])
    yc, ys, cc = c @ (w * y), s @ (w * y), (c * c) @ w
    ss = 1.0 - cc
    if floating_mean:
        of_c, of_s = c @ w, s @ w
        yc, ys, cc, ss = yc - mean * of_c, ys - mean * of_s, cc - of_c ** 2, ss - of_s ** 2
    least = float(np.finfo(np.float64).epsneg)
    a, b = yc / np.maximum(cc, least), ys / np.maximum(ss, least)
    if normalize == "amplitude":
        return np.squeeze((a + 1j * b) * np.exp(1j * tau))
    power = np.squeeze(2.0 * (a * yc + b * ys))
    if normalize == "power":
        return power * (x.size / 4.0)
    return power * 0.5 / ((w * y) @ y - (mean ** 2 if floating_mean else 0.0))


@mirrors("signal")
def vectorstrength(events: Any, period: Any) -> Any:
    """Equivalent of `scipy.signal.vectorstrength`, for positive periods: strength and phase of how events keep to a period.

    >>> import numpy as np
    >>> strength, phase = vectorstrength(np.array([0.25, 1.25, 2.25]), 1.0)
    >>> round(float(strength), 6), round(float(phase / math.pi), 6)
    (1.0, 0.5)
    """
    (times, periods) = inexact(events, period)
    if times.ndim > 1:
        raise ValueError("events cannot have dimensions more than 1")
    if periods.ndim > 1:
        raise ValueError("period cannot have dimensions more than 1")
    turns = (2 * math.pi) * np.atleast_1d(times) / periods[..., None]
    mean = np.mean(np.cos(turns), axis=-1) + 1j * np.mean(np.sin(turns), axis=-1)
    return np.abs(mean), np.angle(mean)
