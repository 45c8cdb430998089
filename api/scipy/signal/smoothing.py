"""Linear maps of signals by fixed weights: trends, polynomials in a moving window, analytic signals."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from adjit.scipy.mirror import mirrors, scipys
from adjit.scipy.ndimage.filters import correlate1d, median_filter, rank_filter
from adjit.scipy.signal.convolving import correlate
from adjit.scipy.sliding import inexact
from adjit.tracer.array import as_traced
from adjit.tracer.functions.shapes import normalize_axis


@mirrors("signal", static=("bp",))
def detrend(data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False) -> Any:
    """Equivalent of `scipy.signal.detrend`.

    >>> import numpy as np
    >>> detrend(np.array([1.0, 2.0, 6.0]), type="constant")
    array([-2., -1.,  3.])
    """
    if type not in ("linear", "l", "constant", "c"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    (x,) = inexact(data)
    axis = normalize_axis(axis, x.ndim)
    if type in ("constant", "c"):
        return x - np.mean(x, axis, keepdims=True)
    size = x.shape[axis]
    breaks = sorted({0, size, *np.atleast_1d(np.asarray(bp)).astype(int).tolist()})
    if breaks[-1] > size:
        raise ValueError("Breakpoints must be less than length of data along given axis.")
    x, parts = np.moveaxis(x, axis, -1), []
    for start, stop in itertools.pairwise(breaks):
        ramp = np.arange(1.0, stop - start + 1) / (stop - start)
        basis = np.linalg.qr(np.stack([ramp, np.ones_like(ramp)], axis=1))[0].astype(x.dtype)
        part = x[..., start:stop]
        parts.append(part - (part @ basis) @ basis.T)
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, axis)


@mirrors("signal")
def savgol_filter(x: Any, window_length: int, polyorder: int, deriv: int = 0, delta: float = 1.0, axis: int = -1, mode: str = "interp",
                  cval: float = 0.0) -> Any:
    """Equivalent of `scipy.signal.savgol_filter`. The weights are SciPy's, which has to be installed.

    >>> import numpy as np
    >>> savgol_filter(np.arange(6.0) ** 2, 5, 2).round(6)
    array([ 0.,  1.,  4.,  9., 16., 25.])
    """
    if mode not in ("mirror", "constant", "nearest", "interp", "wrap"):
        raise ValueError("mode must be 'mirror', 'constant', 'nearest' 'wrap' or 'interp'.")
    (x,) = inexact(x)
    axis = normalize_axis(axis, x.ndim)

    def weights(**place: Any) -> np.ndarray:
        found: np.ndarray = scipys("signal").savgol_coeffs(window_length, polyorder, deriv=deriv, delta=delta, use="dot", **place)
        return found.astype(x.dtype)

    middle, half = weights(), window_length // 2
    origin = 0 if window_length % 2 else -1       # SciPy's weights are those of a convolution
    if mode != "interp":
        return correlate1d(x, middle, axis, mode=mode, cval=cval, origin=origin)
    if window_length > x.shape[axis]:
        raise ValueError("If mode is 'interp', window_length must be less than or equal to the size of x.")
    inner = np.moveaxis(correlate1d(x, middle, axis, mode="constant", origin=origin), axis, -1)
    if not half:
        return np.moveaxis(inner, -1, axis)
    x = np.moveaxis(x, axis, -1)
    first = np.stack([weights(pos=place) for place in range(half)], axis=1)
    last = np.stack([weights(pos=place) for place in range(window_length - half, window_length)], axis=1)
    edges = x[..., :window_length] @ first, x[..., x.shape[-1] - window_length:] @ last
    return np.moveaxis(np.concatenate([edges[0], inner[..., half:x.shape[-1] - half], edges[1]], axis=-1), -1, axis)


@mirrors("signal", static=("domain",))
def order_filter(a: Any, domain: Any, rank: int) -> Any:
    """Equivalent of `scipy.signal.order_filter`, with zeros around the array: the element of a rank where `domain` is not 0.

    >>> import numpy as np
    >>> order_filter(np.array([1.0, 3.0, 2.0, 0.0]), np.ones(3), 1)
    array([1., 2., 2., 0.])
    """
    marked = np.asarray(domain) != 0
    if any(size % 2 == 0 for size in marked.shape):
        raise ValueError("Each dimension of domain argument should have an odd number of elements.")
    return rank_filter(a, rank, footprint=marked, mode="constant")


def _odd(sizes: Any, ndim: int) -> tuple[int, ...]:
    given = np.asarray(3 if sizes is None else sizes, dtype=int)
    found = tuple(int(size) for size in (np.repeat(given, ndim) if given.size == 1 else np.ravel(given)))
    if len(found) != ndim or any(size % 2 == 0 for size in found):
        raise ValueError("Each element of kernel_size should be odd.")
    return found


@mirrors("signal", static=("kernel_size",))
def medfilt(volume: Any, kernel_size: Any = None) -> Any:
    """Equivalent of `scipy.signal.medfilt`: the median of windows, with zeros around the array.

    >>> import numpy as np
    >>> medfilt(np.array([1.0, 3.0, 2.0, 0.0]))
    array([1., 2., 2., 0.])
    """
    x = as_traced(volume)
    return median_filter(x, _odd(kernel_size, x.ndim), mode="constant")


@mirrors("signal", static=("kernel_size",))
def medfilt2d(input: Any, kernel_size: Any = 3) -> Any:
    """Equivalent of `scipy.signal.medfilt2d`: the median of windows, with zeros around the matrix.

    >>> import numpy as np
    >>> medfilt2d(np.ones((3, 3)))[1]
    array([1., 1., 1.])
    """
    x = as_traced(input)
    if x.ndim != 2:
        raise ValueError("2D image needed")
    return median_filter(x, _odd(kernel_size, 2), mode="constant")


@mirrors("signal")
def hilbert(x: Any, N: int | None = None, axis: int = -1) -> Any:
    """Equivalent of `scipy.signal.hilbert`: the analytic signal.

    >>> import numpy as np
    >>> hilbert(np.array([1.0, 0.0, -1.0, 0.0])).round(6)
    array([ 1.+0.j,  0.+1.j, -1.-0.j,  0.-1.j])
    """
    (x,) = inexact(x)
    if x.dtype.kind == "c":
        raise ValueError("x must be real.")
    axis = normalize_axis(axis, x.ndim)
    length = x.shape[axis] if N is None else N
    if length <= 0:
        raise ValueError("N must be positive.")
    half = np.moveaxis(np.fft.rfft(x, length, axis=axis), axis, -1)
    factors = np.full(half.shape[-1], 2.0, x.dtype)
    factors[0] = 1.0
    if length % 2 == 0:
        factors[-1] = 1.0
    return np.moveaxis(np.fft.ifft(half * factors, length), -1, axis)      # negative frequencies are 0


def _along_pairs(size: int, dtype: np.dtype) -> Any:
    """Factors of the frequencies of a signal that keep the positive ones, twice, as `scipy.signal.hilbert2` does."""
    middle = (size + 1) // 2
    factors = np.zeros(size, dtype)
    factors[0], factors[1:middle] = 1.0, 2.0
    return factors


@mirrors("signal")
def hilbert2(x: Any, N: Any = None, axes: Any = (-2, -1)) -> Any:
    """Equivalent of `scipy.signal.hilbert2`: the analytic signal of two dimensions.

    >>> import numpy as np
    >>> hilbert2(np.array([[1.0, 0.0], [0.0, 1.0]])).real.round(6)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    (x,) = inexact(np.atleast_2d(as_traced(x)))
    if x.dtype.kind == "c":
        raise ValueError("x must be real.")
    if len(axes) != 2:
        raise ValueError("axes must be a tuple of length 2")
    first, second = (normalize_axis(axis, x.ndim) for axis in axes)
    if first == second:
        raise ValueError("axes must contain 2 distinct axes")
    sizes = (x.shape[first], x.shape[second]) if N is None else (N, N) if isinstance(N, int) else tuple(map(int, N))
    if len(sizes) != 2 or min(sizes) <= 0:
        raise ValueError("When given as a tuple, N must hold exactly two positive integers")
    rows, columns = (_along_pairs(size, x.dtype) for size in sizes)
    spectrum = np.moveaxis(np.fft.fft2(x, sizes, axes=(first, second)), (first, second), (-2, -1))
    return np.moveaxis(np.fft.ifft2(spectrum * (rows[:, None] * columns)), (-2, -1), (first, second))


@mirrors("signal", static=("mysize",))
def wiener(im: Any, mysize: Any = None, noise: Any = None) -> Any:
    """Equivalent of `scipy.signal.wiener`: means of windows, and what differs from them by more than noise.

    >>> import numpy as np
    >>> wiener(np.array([1.0, 0.0, 3.0, 0.0, 1.0])).round(6)
    array([0.333333, 0.952381, 1.888889, 0.952381, 0.333333])
    """
    (x,) = inexact(im)
    sizes = (3,) * x.ndim if mysize is None else tuple(int(size) for size in np.broadcast_to(np.asarray(mysize), (x.ndim,)))
    ones = np.ones(sizes, x.dtype)
    mean = correlate(x, ones, "same") / ones.size
    variance = correlate(x ** 2, ones, "same") / ones.size - mean ** 2
    level = np.mean(variance) if noise is None else noise
    quiet = variance < level
    return np.where(quiet, mean, mean + (x - mean) * (1.0 - level / np.where(quiet, 1.0, variance)))
