"""Convolutions and correlations of whole arrays: `convolve`, `correlate`, `fftconvolve`, `oaconvolve`, `convolve2d`, `correlate2d`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.ir.errors import ShapeError
from adjit.scipy.mirror import mirrors
from adjit.scipy.sliding import inexact, slid
from adjit.tracer.array import as_traced
from adjit.tracer.functions.shapes import normalize_axes
from adjit.tracer.user_location import find_user_location

MODES = ("full", "same", "valid")


def _checked(in1: Any, in2: Any, mode: Any, name: str) -> tuple[Any, Any]:
    x, y = as_traced(in1), as_traced(in2)
    if mode not in MODES:
        raise ValueError("Acceptable mode flags are 'valid', 'same', or 'full'.")
    if x.ndim != y.ndim:
        raise ShapeError(f"{name}: both arrays need the same number of dimensions, got the shapes {x.shape} and {y.shape}",
                         find_user_location())
    return x, y


def _needs_swap(x: Any, y: Any, axes: Sequence[int], mode: str) -> bool:
    """True if "valid" windows are those of `y`; raises `ValueError` if neither array holds the other."""
    if mode != "valid":
        return False
    fits, holds = (all(one.shape[axis] >= other.shape[axis] for axis in axes) for one, other in ((x, y), (y, x)))
    if not fits and not holds:
        raise ValueError("For 'valid' mode, one must be at least as large as the other in every dimension")
    return not fits


def _edges(sizes: Sequence[int], mode: str) -> tuple[list[int], list[int]]:
    """Elements that a kernel of `sizes` reaches beyond the array, before and after."""
    if mode == "same":
        return [size // 2 for size in sizes], [(size - 1) // 2 for size in sizes]
    beyond = [size - 1 if mode == "full" else 0 for size in sizes]
    return beyond, beyond


def _turned(x: Any) -> Any:
    """Conjugate, with the elements of every axis in reverse order."""
    return np.conj(np.flip(x)) if x.dtype.kind == "c" else np.flip(x)


_PRODUCT = 0.07
_OF_TRANSFORM = 1.5
_TRANSFORMS = 3e4
"""Nanoseconds of a product of the direct method, of n log2(n) in three transforms, and of the calls of transforms: float64 on one core,
kernels of 3 x 3 to 15 x 15 and of 1,000 elements."""


def _fft_is_faster(x: Any, y: Any) -> bool:
    if np.result_type(x.dtype, y.dtype).kind not in "fc":
        return False
    size = math.prod(fast_length(a + b - 1) for a, b in zip(x.shape, y.shape, strict=True))
    return _PRODUCT * x.size * y.size > _OF_TRANSFORM * size * math.log2(size + 1) + _TRANSFORMS


@mirrors("signal")
def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """Equivalent of `scipy.signal.convolve`, of arrays of any dimension; "auto" takes the method that is faster here.

    >>> import numpy as np
    >>> convolve(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0]))
    array([1., 3., 5., 3.])
    """
    x, y = _checked(in1, in2, mode, "convolve")
    if not x.ndim:
        return x * y
    if method not in ("auto", "direct", "fft"):
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    if not x.size or not y.size:
        raise ValueError("a cannot be empty" if not x.size else "v cannot be empty")
    if _needs_swap(x, y, range(x.ndim), mode):
        x, y = y, x
    if method == "fft" or (method == "auto" and _fft_is_faster(x, y)):
        found, dtype = _by_fft(x, y, mode, tuple(range(x.ndim))), np.result_type(x.dtype, y.dtype)
        return np.rint(found).astype(dtype) if dtype.kind in "iu" else found
    if mode == "full" and y.size > x.size:
        x, y = y, x
    return slid(x, np.flip(y), *_edges(y.shape, mode))


@mirrors("signal")
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """Equivalent of `scipy.signal.correlate`, of arrays of any dimension.

    >>> import numpy as np
    >>> correlate(np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0]), mode="valid")
    array([1., 2.])
    """
    x, y = _checked(in1, in2, mode, "correlate")
    return convolve(x, _turned(y), mode, method)


def fast_length(size: int) -> int:
    """Smallest number from `size` on whose prime factors are at most 11: PocketFFT is fast for these."""
    while True:
        rest = size
        for prime in (2, 3, 5, 7, 11):
            while rest > 1 and rest % prime == 0:
                rest //= prime
        if rest <= 1:
            return size
        size += 1


def _cropped(found: Any, first: Sequence[int], second: Sequence[int], mode: str, axes: Sequence[int]) -> Any:
    """The part of the full convolution along `axes` that `mode` asks for."""
    if mode == "full":
        return found
    wanted = [first[axis] if mode == "same" else first[axis] - second[axis] + 1 if axis in axes else size
              for axis, size in enumerate(found.shape)]
    begin = [(size - keep) // 2 for size, keep in zip(found.shape, wanted, strict=True)]
    return found[tuple(slice(start, start + keep) for start, keep in zip(begin, wanted, strict=True))]


def _by_fft(x: Any, y: Any, mode: str, axes: tuple[int, ...]) -> Any:
    """Convolve along `axes`; along the others the arrays are broadcast."""
    x, y = inexact(x, y)
    axes = tuple(axis for axis in axes if x.shape[axis] != 1 and y.shape[axis] != 1)
    lengths = [x.shape[axis] + y.shape[axis] - 1 for axis in axes]
    if not axes:
        return _cropped(x * y, x.shape, y.shape, mode, range(x.ndim))
    fast = [fast_length(length) for length in lengths]
    forward, back = (np.fft.fftn, np.fft.ifftn) if x.dtype.kind == "c" else (np.fft.rfftn, np.fft.irfftn)
    full = back(forward(x, fast, axes=axes) * forward(y, fast, axes=axes), fast, axes=axes)
    keep = dict(zip(axes, lengths, strict=True))
    full = full[tuple(slice(keep.get(axis, size)) for axis, size in enumerate(full.shape))]
    return _cropped(full, x.shape, y.shape, mode, axes)


def _of_axes(in1: Any, in2: Any, mode: str, axes: Any, name: str) -> tuple[Any, Any, tuple[int, ...]]:
    """Arrays of a convolution along some axes, which fit to each other along the others."""
    x, y = _checked(in1, in2, mode, name)
    along = normalize_axes(axes, x.ndim)
    if axes is not None and not along:
        raise ValueError("when provided, axes cannot be empty")
    long = [axis for axis in along if x.shape[axis] != 1 and y.shape[axis] != 1]
    if not all(x.shape[axis] == y.shape[axis] or 1 in (x.shape[axis], y.shape[axis]) for axis in range(x.ndim) if axis not in long):
        raise ValueError(f"incompatible shapes for in1 and in2: {x.shape} and {y.shape}")
    return (y, x, tuple(long)) if _needs_swap(x, y, long, mode) else (x, y, tuple(long))


@mirrors("signal")
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """Equivalent of `scipy.signal.fftconvolve`.

    >>> import numpy as np
    >>> fftconvolve(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0]), mode="same").round(6)
    array([1., 3., 5.])
    """
    x, y = _checked(in1, in2, mode, "fftconvolve")
    if not x.ndim:
        return x * y
    if not x.size or not y.size:
        return as_traced(np.array([]))
    x, y, along = _of_axes(x, y, mode, axes, "fftconvolve")
    return _by_fft(x, y, mode, along)


@mirrors("signal")
def oaconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """Equivalent of `scipy.signal.oaconvolve`; along a single axis the longer array is transformed in blocks, which are added up (overlap
    and add), else it is `fftconvolve`.

    >>> import numpy as np
    >>> oaconvolve(np.arange(6.0), np.array([1.0, 1.0]), mode="valid").round(6)
    array([1., 3., 5., 7., 9.])
    """
    x, y = _checked(in1, in2, mode, "oaconvolve")
    if not x.ndim or not x.size or not y.size:
        return fftconvolve(x, y, mode, axes)
    x, y, along = _of_axes(x, y, mode, axes, "oaconvolve")
    if len(along) == 1:
        long, short = (x, y) if x.shape[along[0]] >= y.shape[along[0]] else (y, x)
        block = fast_length(8 * short.shape[along[0]]) - short.shape[along[0]] + 1
        if block < long.shape[along[0]] // 2:
            long, short = inexact(long, short)
            return _cropped(_overlap_add(long, short, along[0], block), x.shape, y.shape, mode, along)
    return _by_fft(x, y, mode, along)


def _overlap_add(x: Any, y: Any, axis: int, block: int) -> Any:
    """Full convolution along one axis, by transforms of blocks of `x`: what a block reaches beyond its end is added to the next one."""
    x, y = np.moveaxis(x, axis, -1), np.moveaxis(y, axis, -1)
    size, taps = x.shape[-1], y.shape[-1]
    count = -(-(size + taps - 1) // block)
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, count * block - size)])
    blocks = np.reshape(padded, (*x.shape[:-1], count, block))
    length = block + taps - 1
    forward, back = (np.fft.fft, np.fft.ifft) if x.dtype.kind == "c" else (np.fft.rfft, np.fft.irfft)
    parts = back(forward(blocks, length) * forward(y, length)[..., None, :], length)
    tails = np.pad(parts[..., :-1, block:], [(0, 0)] * (x.ndim - 1) + [(1, 0), (0, block - taps + 1)])
    whole = np.reshape(parts[..., :block] + tails, (*parts.shape[:-2], count * block))
    return np.moveaxis(whole[..., :size + taps - 1], -1, axis)


_PADDINGS: dict[str, Any] = {"wrap": "wrap", "circular": "wrap", "symm": "symmetric", "symmetric": "symmetric"}


def _in_two_dimensions(x: Any, y: Any, edges: tuple[list[int], list[int]], boundary: str, fillvalue: Any) -> Any:
    """Sums of products of `y` with windows of `x`, which begin before it and end after it by `edges`."""
    if boundary not in (*_PADDINGS, "fill", "pad"):
        raise ValueError("Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and 'symmetric' (or 'symm').")
    if boundary in ("fill", "pad") and isinstance(fillvalue, (int, float)) and not fillvalue:
        return slid(x, y, *edges)
    widths = list(zip(*edges, strict=True))
    dtype = np.result_type(x.dtype, y.dtype)
    x = x.astype(dtype, copy=False)
    padded = np.pad(x, widths, mode=_PADDINGS[boundary]) if boundary in _PADDINGS else np.pad(x, widths, constant_values=fillvalue)
    return slid(padded, y, (0, 0), (0, 0))


def _matrices(in1: Any, in2: Any, mode: str, name: str) -> tuple[Any, Any]:
    x, y = _checked(in1, in2, mode, name)
    if x.ndim != 2:
        raise ValueError(f"{name} inputs must both be 2-D arrays")
    return x, y


@mirrors("signal")
def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    """Equivalent of `scipy.signal.convolve2d`.

    >>> import numpy as np
    >>> convolve2d(np.eye(2), np.array([[1.0, 2.0]]))
    array([[1., 2., 0.],
           [0., 1., 2.]])
    """
    x, y = _matrices(in1, in2, mode, "convolve2d")
    if _needs_swap(x, y, (0, 1), mode):
        x, y = y, x
    return _in_two_dimensions(x, np.flip(y), _edges(y.shape, mode), boundary, fillvalue)


@mirrors("signal")
def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    """Equivalent of `scipy.signal.correlate2d`.

    >>> import numpy as np
    >>> correlate2d(np.eye(2), np.array([[1.0, 2.0]]), mode="valid")
    array([[1.],
           [2.]])
    """
    x, y = _matrices(in1, in2, mode, "correlate2d")
    if _needs_swap(x, y, (0, 1), mode):
        return np.flip(_in_two_dimensions(y, np.conj(x), _edges(x.shape, mode), boundary, fillvalue))
    low, high = _edges(y.shape, mode)
    return _in_two_dimensions(x, np.conj(y), (high, low), boundary, fillvalue)       # "same" is centered as in SciPy: not as in convolve2d
