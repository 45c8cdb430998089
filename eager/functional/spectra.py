"""Short-time Fourier transforms, and signals from them, with PyTorch's frames, windows and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.ir.errors import ArgumentError, ShapeError
from adjit.ir.types import is_complex
from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.user_location import find_user_location

Array = Any

_MODES = {"reflect": "reflect", "constant": "constant", "replicate": "edge", "circular": "wrap"}
_LEAST_ENVELOPE = 1e-11
"""Sum of squared windows below which a place of the signal is not known."""


def stft(x: Array, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Array | None = None,
         center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
         return_complex: bool | None = None) -> Array:
    """Fourier transforms of frames of `n_fft` samples of the last dimension, `hop_length` apart (a quarter of a frame), each times `window`
    of `win_length` samples, in the middle: frequencies and frames are the last two dimensions.

    With `center` the signal is padded by half a frame on both sides, by `pad_mode`. `normalized` divides by the root of `n_fft`. `onesided`
    leaves out the frequencies above the middle, unless numbers are complex. `return_complex=False` has real and imaginary part in a last
    dimension. Raises `ShapeError` for a signal that is shorter than a frame, `ArgumentError` for sizes that do not fit.
    """
    x = as_traced(x)
    hop, window = _frame(n_fft, hop_length, win_length, window, x)
    if x.ndim not in (1, 2):
        raise ShapeError(f"stft takes a signal or a batch of them, got the shape {x.shape}", find_user_location())
    of_complex = is_complex(x.dtype) or is_complex(window.dtype)
    if return_complex is None and not of_complex:
        raise ArgumentError("stft of real signals needs return_complex", find_user_location(), hint="pass return_complex=True")
    if onesided and of_complex:
        raise ArgumentError("a signal or a window of complex numbers has all frequencies", find_user_location(), hint="pass onesided=False")
    if center:
        if pad_mode not in _MODES:
            raise ArgumentError(f"pad_mode is one of {', '.join(_MODES)}, got {pad_mode!r}", find_user_location())
        if pad_mode == "reflect" and n_fft // 2 >= x.shape[-1]:
            raise ShapeError(f"a signal of {x.shape[-1]} samples is too short to be reflected by {n_fft // 2}", find_user_location())
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n_fft // 2, n_fft // 2)], _MODES[pad_mode])   # type: ignore[call-overload]
    if x.shape[-1] < n_fft:
        raise ShapeError(f"a signal of {x.shape[-1]} samples is shorter than a frame of {n_fft}", find_user_location())
    frames = x[..., _places(n_fft, hop, 1 + (x.shape[-1] - n_fft) // hop)] * window
    found = np.fft.fft(frames) if of_complex or onesided is False else np.fft.rfft(frames)
    if normalized:
        found = found / np.sqrt(found.real.dtype.type(n_fft))
    found = np.swapaxes(found, -1, -2)
    return np.stack([np.real(found), np.imag(found)], -1) if return_complex is False else found


def istft(x: Array, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Array | None = None,
          center: bool = True, normalized: bool = False, onesided: bool | None = None, length: int | None = None,
          return_complex: bool = False) -> Array:
    """The signal whose short-time Fourier transform is `x`, in the sense of least squares: frames, times the window, are added, and the sum
    is divided by that of squared windows. `length` cuts or pads the result. Other arguments are those of `stft`.

    Raises `ShapeError` for another number of frequencies than `n_fft` gives. Samples that the windows leave out are NaN or infinite;
    without `window` they raise `ArgumentError`.
    """
    x = as_traced(x)
    if not is_complex(x.dtype) or x.ndim not in (2, 3):
        raise ShapeError(f"istft takes complex numbers, frequencies by frames, got {x.dtype} of shape {x.shape}", find_user_location())
    onesided = x.shape[-2] != n_fft if onesided is None else onesided
    if x.shape[-2] != (n_fft // 2 + 1 if onesided else n_fft):
        raise ShapeError(f"{x.shape[-2]} frequencies, and frames of {n_fft} samples have {n_fft // 2 + 1 if onesided else n_fft}",
                         find_user_location())
    if onesided and return_complex:
        raise ArgumentError("a transform of half the frequencies is that of real numbers", find_user_location(),
                            hint="leave return_complex out, or pass onesided=False")
    hop, window = _frame(n_fft, hop_length, win_length, window, x)
    spectra = np.swapaxes(x, -1, -2)
    if normalized:
        spectra = spectra * np.sqrt(np.real(x).dtype.type(n_fft))
    frames = np.fft.irfft(spectra, n_fft) if onesided else np.fft.ifft(spectra)
    frames = (frames if return_complex else np.real(frames)) * window
    places = _places(n_fft, hop, x.shape[-1])
    size = n_fft + hop * (x.shape[-1] - 1)
    signal = _added(frames, places, size)
    envelope = _added(np.real(window * np.conj(window)) + np.zeros(places.shape, np.real(x).dtype), places, size)
    begin = n_fft // 2 if center else 0
    end = begin + length if length is not None else size - begin
    signal, envelope = signal[..., begin:end], envelope[begin:end]
    if not isinstance(envelope, TracedArray) and envelope.size and envelope.min() < _LEAST_ENVELOPE:
        raise ArgumentError(f"the windows leave samples out: their squares add up to {envelope.min():g} somewhere", find_user_location(),
                            hint="choose a smaller hop_length, or another window")
    signal = signal / envelope
    missing = 0 if length is None else length - signal.shape[-1]
    return np.pad(signal, [(0, 0)] * (signal.ndim - 1) + [(0, missing)]) if missing else signal


def _frame(n_fft: int, hop_length: int | None, win_length: int | None, window: Array | None, x: Array) -> tuple[int, Array]:
    """Samples from one frame to the next, and the window, with zeros on both sides up to the size of a frame."""
    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    if not (0 < size <= n_fft and hop > 0):
        raise ArgumentError(f"frames of {n_fft} samples with windows of {size}, {hop} apart: sizes are positive, and a window is no "
                            "longer than a frame", find_user_location())
    window = np.ones(size, np.zeros(0, x.dtype).real.dtype) if window is None else as_traced(window)
    if window.shape != (size,):
        raise ShapeError(f"the window has the shape {window.shape}, expected {(size,)}", find_user_location())
    left = (n_fft - size) // 2
    return hop, np.pad(window, (left, n_fft - size - left)) if size < n_fft else window


def _places(n_fft: int, hop: int, count: int) -> np.ndarray:
    """Places of the samples of each frame."""
    return np.arange(count)[:, None] * hop + np.arange(n_fft)


def _added(frames: Array, places: np.ndarray, size: int) -> Array:
    """Frames added up where they lie."""
    made: Array = np.zeros((*frames.shape[:-2], size), frames.dtype)
    if isinstance(frames, TracedArray):
        made = np.copy(as_traced(made))
    index: Any = (..., places)
    np.add.at(made, index, frames)
    return made
