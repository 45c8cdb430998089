"""Arrays at coordinates between their elements, by the nearest element (`order` 0) or by splines of order 1 to 5.

Derivatives go to the array and, from `order` 1 on, to coordinates, shifts, matrices and angles.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from adjit.ir.errors import ShapeError, UnsupportedError
from adjit.scipy.mirror import mirrors
from adjit.scipy.ndimage import splines
from adjit.scipy.ndimage.filters import output_dtype, per_axis
from adjit.scipy.sliding import inexact
from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.functions.shapes import normalize_axis
from adjit.tracer.user_location import find_user_location

_MODES = {"reflect": "reflect", "grid-mirror": "reflect", "constant": "constant", "grid-constant": "grid-constant", "nearest": "nearest",
          "mirror": "mirror", "wrap": "wrap", "grid-wrap": "grid-wrap"}


def _within(c: Any, size: int, mode: str, order: int) -> Any:
    """Coordinates moved to between the centers of the first and the last element, or next to them."""
    last, reach = float(size - 1), float(order)
    if mode in ("constant", "grid-constant"):
        return c
    if mode == "nearest":
        return np.clip(c, -reach, last + reach)      # from there on all elements that are weighed are the same one
    if size == 1 and mode in ("mirror", "wrap", "reflect"):
        return c * 0.0
    outside = (c < 0) | (c > last)
    if mode == "mirror":
        folded = np.abs(c) % (2 * last)
        return np.where(outside, np.where(folded >= size, 2 * last - folded, folded), c)
    if mode == "reflect":
        folded = np.where(c < 0, -1 - c, c) % (2.0 * size)
        return np.where(outside, np.where(folded >= size, 2.0 * size - 1 - folded, folded), c)
    if mode == "grid-wrap":
        return np.where(outside, c % float(size), c)
    return np.where(outside, np.where(c < 0, c + last * (np.floor(-c / last) + 1), c - last * np.floor(c / last)), c)


def _taps(c: Any, size: int, order: int, mode: str, margin: int) -> list[tuple[Any, Any, Any]]:
    """Indices of the elements that are weighed, the weights, and where the indices are inside (None: everywhere)."""
    c = _within(c + float(margin) if margin else c, size, mode, order)
    center = np.floor(c) if order % 2 else np.floor(c + 0.5)
    start = center - float(order // 2)
    found = []
    for step, weight in enumerate(splines.weights(c - center if order % 2 else c + 0.5 - center, order)):
        index = (start + float(step)).astype(np.int64)
        inside = (index >= 0) & (index < size) if mode == "grid-constant" else None
        edge = splines.beyond(mode)
        if edge != "nearest" and inside is None:
            index = splines.fold(index, size, edge)
        found.append((np.clip(index, 0, size - 1), weight, inside))
    return found


def _checked(order: Any, mode: str) -> str:
    if not isinstance(order, (int, np.integer)) or not 0 <= order <= 5:
        raise RuntimeError("spline order not supported")
    if mode not in _MODES:
        raise ValueError("boundary mode not supported")
    return _MODES[mode]


def _coefficients(x: Any, axes: int, order: int, mode: str, cval: Any, prefilter: bool) -> tuple[Any, int]:
    """What the weights of splines are for, along the first axes: the elements, or coefficients made of them, with a margin around them."""
    if not math.prod(x.shape[:axes]):
        raise ShapeError(f"an array of shape {x.shape} has no elements to interpolate", find_user_location())
    return splines.coefficients(x, axes, order, mode, cval) if prefilter and order > 1 else (x, 0)


def _cast(found: Any, dtype: np.dtype) -> Any:
    """To the dtype of the result; whole numbers are rounded, and those that do not fit are the nearest that does."""
    if dtype.kind not in "iu":
        return found.astype(dtype, copy=False)
    bounds = np.iinfo(dtype)
    return np.clip(np.trunc(found + np.where(found > 0, 0.5, -0.5)), float(bounds.min), float(bounds.max)).astype(dtype)


def _at(x: Any, coordinates: Sequence[Any], order: int, mode: str, cval: Any, prefilter: bool, rest: int = 0) -> Any:
    """Values at coordinates along the first axes, one array of coordinates for each; the last `rest` axes are kept."""
    given = x.shape[:len(coordinates)]
    x, margin = _coefficients(x, len(coordinates), order, mode, cval, prefilter)
    sizes = x.shape[:len(coordinates)]
    table = np.reshape(x, (math.prod(sizes), *x.shape[len(sizes):]))
    expand = (..., *(None,) * rest)
    found: Any = None
    for choice in itertools.product(*(_taps(c, size, order, mode, margin) for c, size in zip(coordinates, sizes, strict=True))):
        place, weight, inside = np.asarray(0), np.ones((), x.real.dtype), None
        for (index, part, within), size in zip(choice, sizes, strict=True):
            place, weight = place * size + index, weight * part
            inside = within if inside is None else inside & within
        values = np.take(table, place, axis=0)
        if inside is not None:
            values = np.where(inside[expand], values, cval)
        term = values if order == 0 else values * weight[expand]
        found = term if found is None else found + term
    if mode == "constant":
        for c, size in zip(coordinates, given, strict=True):
            found = np.where(((c >= 0) & (c <= size - 1))[expand], found, cval)
    return found


def _along_axes(x: Any, coordinates: Sequence[Any], order: int, mode: str, cval: Any, prefilter: bool) -> Any:
    """Values where each axis has coordinates of its own: one axis after the other."""
    given = x.shape
    x, margin = _coefficients(x, x.ndim, order, mode, cval, prefilter)
    for axis, (c, size) in enumerate(zip(coordinates, x.shape, strict=True)):
        shape = tuple(-1 if k == axis else 1 for k in range(x.ndim))
        found: Any = None
        for index, weight, inside in _taps(c, size, order, mode, margin):
            values = np.take(x, index, axis=axis)
            if inside is not None:
                values = np.where(np.reshape(inside, shape), values, cval)
            term = values if order == 0 else values * np.reshape(weight, shape).astype(x.real.dtype)
            found = term if found is None else found + term
        x = found
    if mode == "constant":
        for axis, (c, size) in enumerate(zip(coordinates, given, strict=True)):
            inside = (c >= 0) & (c <= size - 1)
            x = np.where(np.reshape(inside, tuple(-1 if k == axis else 1 for k in range(x.ndim))), x, cval)
    return x


def _result(found: Any, x: Any, output: Any) -> Any:
    return _cast(found, output_dtype(x, output))


@mirrors("ndimage")
def map_coordinates(input: Any, coordinates: Any, output: Any = None, order: int = 3, mode: str = "constant", cval: Any = 0.0,
                    prefilter: bool = True) -> Any:
    """Equivalent of `scipy.ndimage.map_coordinates`.

    >>> import numpy as np
    >>> map_coordinates(np.array([0.0, 10.0, 40.0]), np.array([[0.5, 1.5]]), order=1)
    array([ 5., 25.])
    """
    mode, x, places = _checked(order, mode), as_traced(input), as_traced(coordinates)
    if places.dtype.kind == "c":
        raise TypeError("Complex type not supported")
    if x.ndim < 1 or places.ndim < 2:
        raise RuntimeError("input and output rank must be > 0")
    if places.shape[0] != x.ndim:
        raise RuntimeError("invalid shape for coordinate array")
    (values,), (places,) = inexact(x), inexact(places)
    return _result(_at(values, [places[k] for k in range(x.ndim)], order, mode, cval, prefilter), x, output)


@mirrors("ndimage")
def shift(input: Any, shift: Any, output: Any = None, order: int = 3, mode: str = "constant", cval: Any = 0.0, prefilter: bool = True
          ) -> Any:
    """Equivalent of `scipy.ndimage.shift`.

    >>> import numpy as np
    >>> shift(np.array([0.0, 10.0, 40.0]), 0.5, order=1, mode="nearest")
    array([ 0.,  5., 25.])
    """
    mode, x = _checked(order, mode), as_traced(input)
    (values,) = inexact(x)
    moves = per_axis(shift, x.ndim, "shift") if not isinstance(shift, TracedArray) or not shift.ndim else [shift[k] for k in range(x.ndim)]
    places = [np.arange(float(size)) - move for size, move in zip(x.shape, moves, strict=True)]
    return _result(_along_axes(values, places, order, mode, cval, prefilter), x, output)


@mirrors("ndimage")
def zoom(input: Any, zoom: Any, output: Any = None, order: int = 3, mode: str = "constant", cval: Any = 0.0, prefilter: bool = True, *,
         grid_mode: bool = False) -> Any:
    """Equivalent of `scipy.ndimage.zoom`, by known factors.

    >>> import numpy as np
    >>> zoom(np.array([0.0, 10.0, 40.0]), 5 / 3, order=1)
    array([ 0.,  5., 10., 25., 40.])
    """
    if isinstance(zoom, TracedArray):
        raise UnsupportedError("the shape of the result follows from zoom, which is a traced value", find_user_location(),
                               hint="pass a number, or use map_coordinates")
    if grid_mode and mode in ("constant", "wrap"):
        warnings.warn(f"It is recommended to use mode = grid-{mode} instead of {mode} when grid_mode is True.", stacklevel=2)
    factors = per_axis(zoom, as_traced(input).ndim, "zoom")
    if all(factor == 1 for factor in factors) and prefilter:
        return np.copy(as_traced(input)).astype(output_dtype(as_traced(input), output), copy=False)
    mode, x = _checked(order, mode), as_traced(input)
    (values,), places = inexact(x), []
    for size, factor in zip(x.shape, factors, strict=True):
        count = round(size * factor)
        steps = count if grid_mode else count - 1
        step = (size if grid_mode else size - 1) / steps if steps else 1.0
        places.append((np.arange(float(count)) + 0.5) * step - 0.5 if grid_mode else np.arange(float(count)) * step)
    return _result(_along_axes(values, places, order, mode, cval, prefilter), x, output)


@mirrors("ndimage")
def affine_transform(input: Any, matrix: Any, offset: Any = 0.0, output_shape: Any = None, output: Any = None, order: int = 3,
                     mode: str = "constant", cval: Any = 0.0, prefilter: bool = True) -> Any:
    """Equivalent of `scipy.ndimage.affine_transform`: the element at `o` is that of the input at `matrix @ o + offset`.

    >>> import numpy as np
    >>> affine_transform(np.array([0.0, 10.0, 40.0]), np.array([[0.5]]), order=1)
    array([ 0.,  5., 10.])
    """
    mode, x, by = _checked(order, mode), as_traced(input), as_traced(matrix)
    shape = x.shape if output_shape is None else tuple(map(int, output_shape))
    if by.ndim not in (1, 2) or by.shape[0] < 1:
        raise RuntimeError("no proper affine matrix provided")
    if by.ndim == 2 and by.shape[1] == x.ndim + 1 and by.shape[0] in (x.ndim, x.ndim + 1):
        offset, by = by[:x.ndim, x.ndim], by[:x.ndim, :x.ndim]
    if by.shape[0] != x.ndim:
        raise RuntimeError("affine matrix has wrong number of rows")
    if by.ndim == 2 and by.shape[1] != len(shape):
        raise RuntimeError("affine matrix has wrong number of columns")
    offsets = np.broadcast_to(as_traced(offset), (x.ndim,))
    (values,) = inexact(x)
    if by.ndim == 1:
        places = [by[k] * np.arange(float(size)) + offsets[k] for k, size in enumerate(shape)]
        return _result(_along_axes(values, places, order, mode, cval, prefilter), x, output)
    return _result(_at(values, _affine_places(by, offsets, shape), order, mode, cval, prefilter), x, output)


def _affine_places(by: Any, offsets: Any, shape: Sequence[int]) -> list[Any]:
    """Coordinates in the input of every element of a result of this shape."""
    grids = [np.reshape(np.arange(float(size)), tuple(-1 if k == axis else 1 for k in range(len(shape))))
             for axis, size in enumerate(shape)]
    return [np.broadcast_to(sum((by[row, axis] * grid for axis, grid in enumerate(grids)), offsets[row]), tuple(shape))
            for row in range(by.shape[0])]


@mirrors("ndimage")
def rotate(input: Any, angle: Any, axes: Any = (1, 0), reshape: bool = True, output: Any = None, order: int = 3, mode: str = "constant",
           cval: Any = 0.0, prefilter: bool = True) -> Any:
    """Equivalent of `scipy.ndimage.rotate`. A traced angle, in degrees, needs `reshape=False`.

    >>> import numpy as np
    >>> rotate(np.array([[1.0, 2.0], [3.0, 4.0]]), 90, order=1)
    array([[2., 4.],
           [1., 3.]])
    """
    mode, x = _checked(order, mode), cast("Any", as_traced(input))
    if x.ndim < 2:
        raise ValueError("input array should be at least 2D")
    if len(axes) != 2:
        raise ValueError("axes should contain exactly two values")
    first, second = sorted(normalize_axis(axis, x.ndim) for axis in axes)
    if isinstance(angle, TracedArray) and reshape:
        raise UnsupportedError("the shape of the result follows from the angle, which is a traced value", find_user_location(),
                               hint="pass reshape=False")
    c, s = _cosine_and_sine(angle)
    plane = (x.shape[first], x.shape[second])
    shape = plane
    if reshape:
        bounds = np.array([[c, s], [-s, c]]) @ np.array([[0, 0, plane[0], plane[0]], [0, plane[1], 0, plane[1]]])
        shape = tuple((np.ptp(bounds, axis=1) + 0.5).astype(int).tolist())
    centers = [(size - 1) / 2 for size in plane], [(size - 1) / 2 for size in shape]
    offsets = [centers[0][0] - (c * centers[1][0] + s * centers[1][1]), centers[0][1] - (c * centers[1][1] - s * centers[1][0])]
    rows, columns = np.arange(float(shape[0]))[:, None], np.arange(float(shape[1]))
    places = [c * rows + s * columns + offsets[0], c * columns - s * rows + offsets[1]]
    (values,) = inexact(np.moveaxis(x, (first, second), (0, 1)))
    found = _at(values, places, order, mode, cval, prefilter, rest=x.ndim - 2)
    return _result(np.moveaxis(found, (0, 1), (first, second)), x, output)


def _cosine_and_sine(degrees: Any) -> tuple[Any, Any]:
    """Cosine and sine of an angle in degrees, exact at multiples of 90."""
    turns = np.floor(degrees / 90.0 + 0.5)
    rest = np.deg2rad(degrees - 90.0 * turns)
    c, s, quarter = np.cos(rest), np.sin(rest), turns % 4
    swap = quarter % 2 == 1
    return (np.where(swap, np.where(quarter == 1, -s, s), np.where(quarter == 2, -c, c)),
            np.where(swap, np.where(quarter == 1, c, -c), np.where(quarter == 2, -s, s)))
