"""Functions of `scipy.signal` for traced arrays and tensors; plain arrays outside of a trace go to SciPy's own.

    >>> import numpy as np
    >>> import adjit as aj
    >>> from adjit.scipy import signal
    >>> b, a = signal.butter(1, 0.5)
    >>> aj.grad(lambda x: np.sum(signal.lfilter(b, a, x)))(np.ones(3)).round(6)
    array([1. , 1. , 0.5])

Derivatives go to signals and to the coefficients of filters. What else SciPy's module has, such as the design of filters and windows, takes
plain arrays alone (`docs/scipy.md`).
"""

from __future__ import annotations

from typing import Any

from adjit.scipy.mirror import without_rule
from adjit.scipy.signal.convolving import convolve, convolve2d, correlate, correlate2d, fftconvolve, oaconvolve
from adjit.scipy.signal.filtering import deconvolve, filtfilt, lfilter, lfilter_zi, lfiltic, sosfilt, sosfilt_zi, sosfiltfilt
from adjit.scipy.signal.resampling import czt, decimate, resample, resample_poly, upfirdn, zoom_fft
from adjit.scipy.signal.responses import chirp, freqs, freqz, freqz_sos, gausspulse, group_delay, sawtooth, sosfreqz, square, sweep_poly
from adjit.scipy.signal.smoothing import detrend, hilbert, hilbert2, medfilt, medfilt2d, order_filter, savgol_filter, wiener
from adjit.scipy.signal.spectra import coherence, csd, istft, lombscargle, periodogram, spectrogram, stft, vectorstrength, welch

__all__ = [
    "chirp", "coherence", "convolve", "convolve2d", "correlate", "correlate2d", "csd", "czt", "decimate", "deconvolve", "detrend",
    "fftconvolve", "filtfilt", "freqs", "freqz", "freqz_sos", "gausspulse", "group_delay", "hilbert", "hilbert2", "istft", "lfilter",
    "lfilter_zi", "lfiltic", "lombscargle", "medfilt", "medfilt2d", "oaconvolve", "order_filter", "periodogram", "resample",
    "resample_poly", "savgol_filter", "sawtooth", "sosfilt", "sosfilt_zi", "sosfiltfilt", "sosfreqz", "spectrogram", "square", "stft",
    "sweep_poly", "upfirdn", "vectorstrength", "welch", "wiener", "zoom_fft",
]

_others = without_rule("signal", __all__)


def __getattr__(name: str) -> Any:
    """Return what else SciPy's module has under this name, for plain arrays."""
    return _others(name)
