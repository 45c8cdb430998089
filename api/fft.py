"""Fourier transforms by NumPy's names, for plain arrays, traced arrays and tensors; `numpy.fft` itself works on traced arrays and tensors.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.fft.rfft(np.array([1.0, 2.0, 3.0, 4.0]))
    array([10.+0.j, -2.+2.j, -2.+0.j])
    >>> aj.grad(lambda x: np.sum(np.abs(np.fft.rfft(x)) ** 2))(np.array([1.0, 0.0, 0.0, 0.0]))
    array([6., 0., 2., 0.])

Compiled programs call NumPy's PocketFFT without the interpreter; libraries for C (`.so`, `.o`) cannot. float32 is transformed in float32.
"""

from numpy.fft import fftfreq, rfftfreq

from adjit.tracer.functions.fourier import (
    fft,
    fft2,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft", "irfft2", "irfftn",
    "rfft", "rfft2", "rfftfreq", "rfftn",
]
