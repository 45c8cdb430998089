"""B-splines through the elements of an array: their coefficients, and their weights at coordinates between the elements.

The coefficients c of order 2 to 5 solve sum_k B(i - k) c[k] = x[i], with the coefficients beyond the edges that the mode names: a banded
system along each axis, or for periodic ones a division of Fourier transforms (Unser, "Splines: a perfect fit for signal and image
processing", 1999).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from adjit.scipy.linalg import solve_banded
from adjit.scipy.mirror import mirrors
from adjit.scipy.ndimage.filters import output_dtype
from adjit.scipy.sliding import inexact
from adjit.tracer.array import as_traced
from adjit.tracer.functions.shapes import normalize_axis

_FOLDS = {"mirror": "mirror", "constant": "mirror", "grid-constant": "mirror", "wrap": "mirror", "reflect": "reflect",
          "grid-mirror": "reflect", "nearest": "reflect", "grid-wrap": "grid-wrap"}
"""Modes, and how SciPy goes on with the coefficients of a spline beyond the edges."""
_MARGIN = 12
"""Elements that SciPy puts around an array, where a mode has no exact coefficients beyond the edges."""


def fold(index: Any, size: int, mode: str) -> Any:
    """Whole numbers, traced or not, moved to between 0 and size - 1 by mirrors or periods."""
    if mode == "grid-wrap":
        return index % size
    if mode == "reflect":
        index = index % (2 * size)
        return np.where(index >= size, 2 * size - 1 - index, index)
    if size == 1:
        return index * 0
    index = index % (2 * size - 2)
    return np.where(index >= size, 2 * size - 2 - index, index)


def weights(offset: Any, order: int) -> list[Any]:
    """Values of the order + 1 B-splines of degree `order` that are not 0, at `offset` in [0, 1) after a knot: de Boor's recurrence."""
    found: list[Any] = [1.0]
    for degree in range(1, order + 1):
        below = [0.0, *found, 0.0]
        found = [((offset + (degree - k)) * below[k] + (k + 1 - offset) * below[k + 1]) / degree for k in range(degree + 1)]
    return found


@functools.cache
def _at_knots(order: int) -> tuple[float, ...]:
    """Values of the centered B-spline at 0, 1, ..., order // 2."""
    values = weights(0.0 if order % 2 else 0.5, order)
    return tuple(values[order // 2::-1])


def _along(x: Any, order: int, axis: int, mode: str) -> Any:
    size = x.shape[axis]
    if size < 2 or order < 2 or not x.size:
        return x
    values = _at_knots(order)
    if mode == "grid-wrap":
        around = np.zeros(size)
        for step, value in enumerate(values):
            for place in {step, -step}:
                around[place % size] += value
        moved = np.moveaxis(x, axis, -1)
        found: Any
        if x.dtype.kind == "c":
            found = np.fft.ifft(np.fft.fft(moved) / np.fft.fft(around).real)
        else:
            found = np.fft.irfft(np.fft.rfft(moved) / np.fft.rfft(around).real, size)
        return np.moveaxis(found.astype(x.dtype, copy=False), -1, axis)
    reach = min(len(values) - 1, size - 1)
    bands = np.zeros((2 * reach + 1, size))
    for row in range(size):
        for step in range(1 - len(values), len(values)):
            column = int(fold(np.asarray(row + step), size, mode))
            bands[reach + row - column, column] += values[abs(step)]
    moved = np.moveaxis(x, axis, 0)
    found = solve_banded((reach, reach), bands.astype(x.real.dtype), np.reshape(moved, (size, -1)))
    return np.moveaxis(np.reshape(found, moved.shape), 0, axis)


def coefficients(x: Any, axes: int, order: int, mode: str, cval: Any) -> tuple[Any, int]:
    """Coefficients along the first `axes` axes, and how many of them are before those of the first element."""
    margin = _MARGIN if mode in ("nearest", "grid-constant") else 0
    if margin:
        widths = [(margin, margin) if axis < axes else (0, 0) for axis in range(x.ndim)]
        x = np.pad(x, widths, mode="edge") if mode == "nearest" else np.pad(x, widths, constant_values=cval)
    for axis in range(axes):
        x = _along(x, order, axis, _FOLDS[mode])
    return x, margin


def beyond(mode: str) -> str:
    """How the coefficients go on beyond the edges while they are weighed: "nearest" repeats the last one."""
    return "nearest" if mode == "nearest" else _FOLDS[mode]


def _checked(order: Any, mode: str, least: int) -> None:
    if not least <= order <= 5:
        raise RuntimeError("spline order not supported")
    if mode not in _FOLDS:
        raise ValueError("boundary mode not supported")


@mirrors("ndimage")
def spline_filter1d(input: Any, order: int = 3, axis: int = -1, output: Any = np.float64, mode: str = "mirror") -> Any:
    """Equivalent of `scipy.ndimage.spline_filter1d`: the coefficients of the B-splines through the elements along one axis.

    >>> import numpy as np
    >>> spline_filter1d(np.array([0.0, 1.0, 0.0])).round(6)
    array([-1.,  2., -1.])
    """
    x = as_traced(input)
    _checked(order, mode, 0)
    (values,) = inexact(x)
    return _result(_along(values, order, normalize_axis(axis, x.ndim), _FOLDS[mode]), x, output)


@mirrors("ndimage")
def spline_filter(input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror") -> Any:
    """Equivalent of `scipy.ndimage.spline_filter`: the coefficients of the B-splines through the elements, for `prefilter=False`.

    >>> import numpy as np
    >>> spline_filter(np.array([0.0, 1.0, 0.0])).round(6)
    array([-1.,  2., -1.])
    """
    x = as_traced(input)
    _checked(order, mode, 2)
    (values,) = inexact(x)
    for axis in range(x.ndim):
        values = _along(values, order, axis, _FOLDS[mode])
    return _result(values, x, output)


def _result(found: Any, x: Any, output: Any) -> Any:
    dtype = output_dtype(x, output)
    if found.dtype.kind == "c":
        dtype = np.result_type(dtype, np.complex64)
    return found.astype(dtype, copy=False)
