"""Fourier transforms by NumPy's names, for plain arrays, traced arrays and tensors; `numpy.fft` itself works on traced arrays and tensors.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.fft.rfft(np.array([1.0, 2.0, 3.0, 4.0]))
    array([10.+0.j, -2.+2.j, -2.+0.j])
    >>> aj.grad(lambda x: np.sum(np.abs(np.fft.rfft(x)) ** 2))(np.array([1.0, 0.0, 0.0, 0.0]))
    array([6., 0., 2., 0.])

Compiled programs call NumPy's PocketFFT without the interpreter; libraries for C (`.so`, `.o`) cannot. float32 is transformed in float32.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec

from numpy.fft import fftfreq, rfftfreq

from adjit.tracer.functions import fourier

P = ParamSpec("P")


def _named_as_pytorchs(function: Callable[P, Any], axes: str) -> Callable[P, Any]:
    """The function, which takes PyTorch's `input` and `dim` as well."""
    first = next(iter(inspect.signature(function).parameters))
    renamed = {"input": first, "dim": axes}

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        if kwargs and not renamed.keys().isdisjoint(kwargs):
            kwargs = {renamed.get(name, name): argument for name, argument in kwargs.items()}       # type: ignore[assignment]
        return function(*args, **kwargs)

    return call


fft, ifft, rfft, irfft, hfft, ihfft = (_named_as_pytorchs(function, "axis") for function in (
    fourier.fft, fourier.ifft, fourier.rfft, fourier.irfft, fourier.hfft, fourier.ihfft))
fft2, ifft2, rfft2, irfft2, fftn, ifftn, rfftn, irfftn, fftshift, ifftshift = (_named_as_pytorchs(function, "axes") for function in (
    fourier.fft2, fourier.ifft2, fourier.rfft2, fourier.irfft2, fourier.fftn, fourier.ifftn, fourier.rfftn, fourier.irfftn,
    fourier.fftshift, fourier.ifftshift))

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft", "irfft2", "irfftn",
    "rfft", "rfft2", "rfftfreq", "rfftn",
]


def __dir__() -> list[str]:
    return sorted(__all__)
