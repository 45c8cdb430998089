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
from adjit.scipy.signal.filtering import filtfilt, lfilter, lfilter_zi, sosfilt, sosfilt_zi, sosfiltfilt
from adjit.scipy.signal.smoothing import detrend, hilbert, medfilt, medfilt2d, order_filter, savgol_filter

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "detrend", "fftconvolve", "filtfilt", "hilbert", "lfilter", "lfilter_zi",
    "medfilt", "medfilt2d", "oaconvolve", "order_filter", "savgol_filter", "sosfilt", "sosfilt_zi", "sosfiltfilt",
]

_others = without_rule("signal", __all__)


def __getattr__(name: str) -> Any:
    """Return what else SciPy's module has under this name, for plain arrays."""
    return _others(name)
