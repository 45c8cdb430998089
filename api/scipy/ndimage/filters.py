"""Filters of `scipy.ndimage`: products with windows, averages, derivatives, and order statistics of windows.

Whole numbers are filtered in float64 and rounded toward 0 after every axis, as SciPy does; float32 is filtered in float32.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from adjit.ir.errors import ShapeError, UnsupportedError
from adjit.scipy.mirror import mirrors
from adjit.scipy.sliding import inexact, slid, slid_along
from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.functions.indexing import fixed
from adjit.tracer.functions.shapes import normalize_axes, normalize_axis
from adjit.tracer.promotion import dtype_argument
from adjit.tracer.user_location import find_user_location

_PADDINGS: dict[str, Any] = {"reflect": "symmetric", "grid-mirror": "symmetric", "constant": "constant", "grid-constant": "constant",
                            "nearest": "edge", "mirror": "reflect", "wrap": "wrap", "grid-wrap": "wrap"}
"""Modes, and NumPy's names for them."""


def output_dtype(x: Any, output: Any) -> np.dtype:
    """Dtype of a result; `output` may name one."""
    if output is None:
        return x.dtype      # type: ignore[no-any-return]
    if isinstance(output, (TracedArray, np.ndarray)):
        raise UnsupportedError("output= is an array", find_user_location(), hint="use the result; output= may be a dtype")
    return dtype_argument(output)


def per_axis(value: Any, count: int, name: str) -> list[Any]:
    """One value for each axis, from one for all or a sequence of them."""
    if isinstance(value, (str, TracedArray)) or np.ndim(value) == 0:
        return [value] * count
    if len(value) != count:
        raise ShapeError(f"{name} has {len(value)} values for {count} axes", find_user_location())
    return list(value)


def _widened(x: Any, widths: Sequence[tuple[int, int]], modes: Sequence[str], cval: Any) -> Any:
    """The array with what its edges are taken to be followed by."""
    for mode in modes:
        if mode not in _PADDINGS:
            raise ValueError("boundary mode not supported")
    if not x.size:
        return x
    for axis, (width, mode) in enumerate(zip(widths, modes, strict=True)):
        if any(width):
            places = [(0, 0)] * x.ndim
            places[axis] = width
            options: dict[str, Any] = {"constant_values": cval} if _PADDINGS[mode] == "constant" else {}
            x = np.pad(x, places, mode=_PADDINGS[mode], **options)
    return x


def _reach(size: int, origin: int) -> tuple[int, int]:
    """Elements of a window before and after the one in whose place its result goes."""
    before = size // 2 + origin
    if not 0 <= before < size:
        raise ValueError("Invalid origin; origin must satisfy -(weights.shape[k] // 2) <= origin[k] <= (weights.shape[k]-1) // 2")
    return before, size - 1 - before


def _of_zeros(mode: str, cval: Any) -> bool:
    return _PADDINGS.get(mode) == "constant" and isinstance(cval, (int, float)) and not cval


# -- products with windows


@mirrors("ndimage")
def correlate1d(input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: int = 0
                ) -> Any:
    """Equivalent of `scipy.ndimage.correlate1d`.

    >>> import numpy as np
    >>> correlate1d(np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.0, -1.0]))
    array([-1., -3., -2.])
    """
    x, kernel = as_traced(input), cast("Any", as_traced(weights))
    if kernel.ndim != 1 or not kernel.size:
        raise ShapeError(f"weights have to be a vector that is not empty, got the shape {kernel.shape}", find_user_location())
    axis, dtype = normalize_axis(axis, x.ndim), output_dtype(x, output)
    kernel = np.conj(kernel) if kernel.dtype.kind == "c" else kernel
    before, after = _reach(kernel.size, int(origin))
    values = _computed_in(x, kernel)
    kernel = kernel.astype(values.dtype)
    dtype = values.dtype if values.dtype.kind == "c" and output is None else dtype
    if _of_zeros(mode, cval) or not x.size:
        return slid_along(values, kernel, axis, before, after).astype(dtype, copy=False)
    widths = [(before, after) if k == axis else (0, 0) for k in range(x.ndim)]
    return slid_along(_widened(values, widths, [mode] * x.ndim, cval), kernel, axis, 0, 0).astype(dtype, copy=False)


def _computed_in(x: Any, kernel: Any) -> Any:
    """The array in the dtype that products are computed in: its own of floats, complex if one of both is."""
    (values,) = inexact(x)
    return inexact(values, kernel)[0] if kernel.dtype.kind == "c" else values


@mirrors("ndimage")
def convolve1d(input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: int = 0
               ) -> Any:
    """Equivalent of `scipy.ndimage.convolve1d`.

    >>> import numpy as np
    >>> convolve1d(np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.0, -1.0]))
    array([1., 3., 2.])
    """
    kernel: Any = as_traced(weights)
    kernel = np.conj(kernel) if kernel.dtype.kind == "c" else kernel
    return correlate1d(input, np.flip(kernel), axis, output, mode, cval, -origin - (kernel.size % 2 == 0))


def _in_all_axes(weights: Any, axes: Any, origin: Any, ndim: int) -> tuple[Any, list[int]]:
    """The kernel with dimensions of size 1 for the axes that it leaves out, and an origin for each axis."""
    along = normalize_axes(axes, ndim)
    if weights.ndim != len(along):
        raise RuntimeError(f"weights.ndim ({weights.ndim}) must match len(axes) ({len(along)})")
    origins = [0] * ndim
    for axis, place in zip(along, per_axis(origin, len(along), "origin"), strict=True):
        origins[axis] = int(place)
    sizes = iter(weights.shape)     # as in SciPy, dimensions of the kernel are in the order of the array's, however axes are ordered
    return np.reshape(weights, tuple(next(sizes) if axis in along else 1 for axis in range(ndim))), origins


def _in_windows(input: Any, weights: Any, output: Any, mode: str, cval: Any, origins: Sequence[int]) -> Any:
    x, dtype = as_traced(input), output_dtype(as_traced(input), output)
    values = _computed_in(x, weights)
    dtype = values.dtype if values.dtype.kind == "c" and output is None else dtype
    widths = [_reach(size, place) for size, place in zip(weights.shape, origins, strict=True)]
    kernel = weights.astype(values.dtype)
    if _of_zeros(mode, cval) or not x.size:
        low, high = zip(*widths, strict=True) if widths else ((), ())
        return slid(values, kernel, low, high).astype(dtype, copy=False)
    none = (0,) * x.ndim
    return slid(_widened(values, widths, [mode] * x.ndim, cval), kernel, none, none).astype(dtype, copy=False)


@mirrors("ndimage")
def correlate(input: Any, weights: Any, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None
              ) -> Any:
    """Equivalent of `scipy.ndimage.correlate`.

    >>> import numpy as np
    >>> correlate(np.eye(2), np.array([[0.0, 1.0]]), mode="constant")
    array([[1., 0.],
           [0., 1.]])
    """
    kernel, origins = _in_all_axes(as_traced(weights), axes, origin, as_traced(input).ndim)
    return _in_windows(input, np.conj(kernel) if kernel.dtype.kind == "c" else kernel, output, mode, cval, origins)


@mirrors("ndimage")
def convolve(input: Any, weights: Any, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None
             ) -> Any:
    """Equivalent of `scipy.ndimage.convolve`.

    >>> import numpy as np
    >>> convolve(np.eye(2), np.array([[0.0, 0.0, 1.0]]), mode="constant")
    array([[0., 1.],
           [0., 0.]])
    """
    kernel, origins = _in_all_axes(as_traced(weights), axes, origin, as_traced(input).ndim)
    turned = [-place - (size % 2 == 0) for place, size in zip(origins, kernel.shape, strict=True)]
    return _in_windows(input, np.flip(kernel), output, mode, cval, turned)


# -- averages and derivatives


@mirrors("ndimage")
def uniform_filter1d(input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: int = 0
                     ) -> Any:
    """Equivalent of `scipy.ndimage.uniform_filter1d`.

    >>> import numpy as np
    >>> uniform_filter1d(np.array([3.0, 6.0, 0.0]), 3)
    array([4., 3., 2.])
    """
    if size < 1:
        raise RuntimeError("incorrect filter size")
    (x,) = inexact(input)
    dtype = output_dtype(as_traced(input), output)
    return (correlate1d(x, np.ones(size, x.real.dtype), axis, None, mode, cval, origin) / size).astype(dtype, copy=False)


def _axis_by_axis(input: Any, output: Any, axes: Any, filter: Callable[..., Any], used: Callable[[Any], bool], **options: Any) -> Any:
    """Filter along one axis after the other; `options` have a value for each axis or one for all, the first of them decides on `used`."""
    x = as_traced(input)
    along = normalize_axes(axes, x.ndim)
    lists = {name: per_axis(value, len(along), name) for name, value in options.items()}
    first, x = next(iter(lists.values())), x.astype(output_dtype(x, output), copy=False)
    for k, axis in enumerate(along):
        if used(first[k]):
            x = filter(x, axis, **{name: values[k] for name, values in lists.items()})
    return x


@mirrors("ndimage")
def uniform_filter(input: Any, size: Any = 3, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *,
                   axes: Any = None) -> Any:
    """Equivalent of `scipy.ndimage.uniform_filter`.

    >>> import numpy as np
    >>> uniform_filter(np.array([[4.0, 0.0], [0.0, 0.0]]), 2)
    array([[4., 2.],
           [2., 1.]])
    """
    return _axis_by_axis(input, output, axes, lambda x, axis, size, mode, origin: uniform_filter1d(
        x, int(size), axis, None, mode, cval, origin), lambda size: size > 1, size=size, mode=mode, origin=origin)


def _gaussian(sigma: Any, order: int, radius: int) -> Any:
    """Weights of a normal density, or of a derivative of it, which is the density times a polynomial."""
    x = np.arange(-float(radius), radius + 1)
    inverse = 1.0 / (sigma * sigma)
    density = np.exp(-0.5 * inverse * x ** 2)
    density = density / np.sum(density)
    factors: list[Any] = [1.0]
    for _ in range(order):      # the derivative of q(x) density(x) is (q'(x) - x q(x) / sigma^2) density(x)
        slopes = [(k + 1) * factor for k, factor in enumerate(factors[1:])]
        slopes += [0.0] * (len(factors) + 1 - len(slopes))
        factors = [slope - (inverse * factors[k - 1] if k else 0.0) for k, slope in enumerate(slopes)]
    polynomial = sum(factor * x ** k for k, factor in enumerate(factors))
    return polynomial * density


@mirrors("ndimage")
def gaussian_filter1d(input: Any, sigma: Any, axis: int = -1, order: int = 0, output: Any = None, mode: str = "reflect", cval: Any = 0.0,
                      truncate: float = 4.0, *, radius: int | None = None) -> Any:
    """Equivalent of `scipy.ndimage.gaussian_filter1d`. A traced `sigma` needs `radius`, and then has a derivative.

    >>> import numpy as np
    >>> gaussian_filter1d(np.array([0.0, 1.0, 0.0]), 1.0, radius=1).round(4)
    array([0.2741, 0.4519, 0.2741])
    """
    if isinstance(sigma, TracedArray) and radius is None:
        raise UnsupportedError("the size of the window follows from sigma, which is a traced value", find_user_location(),
                               hint="pass radius=, the number of elements to both sides, or name the argument in static= of compile, "
                                    "which makes a program for each value")
    if order < 0:
        raise ValueError("order must be non-negative")
    half = int(truncate * float(sigma) + 0.5) if radius is None else radius
    if half != int(half) or half < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    weights = _gaussian(sigma, order, int(half))
    turned = np.flip(weights) if isinstance(sigma, TracedArray) else fixed(weights[::-1])
    return correlate1d(input, turned, axis, output, mode, cval, 0)


@mirrors("ndimage")
def gaussian_filter(input: Any, sigma: Any, order: Any = 0, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
                    truncate: float = 4.0, *, radius: Any = None, axes: Any = None) -> Any:
    """Equivalent of `scipy.ndimage.gaussian_filter`. A traced `sigma` needs `radius`.

    >>> import numpy as np
    >>> gaussian_filter(np.ones((2, 2)), 1.0).round(6)
    array([[1., 1.],
           [1., 1.]])
    """
    return _axis_by_axis(
        input, output, axes, lambda x, axis, sigma, order, mode, radius: gaussian_filter1d(
            x, sigma, axis, order, None, mode, cval, truncate, radius=radius),
        lambda sigma: isinstance(sigma, TracedArray) or sigma > 1e-15, sigma=sigma, order=order, mode=mode, radius=radius)


def _across(input: Any, axis: int, output: Any, mode: Any, cval: Any, side: Sequence[float]) -> Any:
    """Central differences along `axis`, smoothed by `side` along the others."""
    x = as_traced(input)
    axis = normalize_axis(axis, x.ndim)
    modes = per_axis(mode, x.ndim, "mode")
    found = correlate1d(x, np.array([-1.0, 0.0, 1.0]), axis, output, modes[axis], cval, 0)
    for other in range(x.ndim):
        if other != axis:
            found = correlate1d(found, np.array(side), other, None, modes[other], cval, 0)
    return found


@mirrors("ndimage")
def prewitt(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    """Equivalent of `scipy.ndimage.prewitt`.

    >>> import numpy as np
    >>> prewitt(np.array([[1.0, 2.0, 4.0]]))
    array([[3., 9., 6.]])
    """
    return _across(input, axis, output, mode, cval, (1.0, 1.0, 1.0))


@mirrors("ndimage")
def sobel(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    """Equivalent of `scipy.ndimage.sobel`.

    >>> import numpy as np
    >>> sobel(np.array([[1.0, 2.0, 4.0]]))
    array([[ 4., 12.,  8.]])
    """
    return _across(input, axis, output, mode, cval, (1.0, 2.0, 1.0))


def _added_up(input: Any, axes: Any, mode: Any, output: Any, part: Callable[[Any, int, str], Any]) -> Any:
    x = as_traced(input)
    along = normalize_axes(axes, x.ndim)
    x = x.astype(output_dtype(x, output), copy=False)
    found: Any = None
    for axis, each in zip(along, per_axis(mode, len(along), "mode"), strict=True):
        term = part(x, axis, each)
        found = term if found is None else found + term
    return x if found is None else found


@mirrors("ndimage")
def laplace(input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None) -> Any:
    """Equivalent of `scipy.ndimage.laplace`.

    >>> import numpy as np
    >>> laplace(np.array([1.0, 2.0, 4.0]))
    array([ 1.,  1., -2.])
    """
    second = np.array([1.0, -2.0, 1.0])
    return _added_up(input, axes, mode, output, lambda x, axis, each: correlate1d(x, second, axis, None, each, cval, 0))


def _gaussian_derivative(x: Any, axis: int, mode: str, order: int, sigma: Any, axes: Any, cval: Any, options: dict[str, Any]) -> Any:
    """Derivative along one axis of the array smoothed along `axes`."""
    along = normalize_axes(axes, x.ndim)
    sigmas = per_axis(sigma, len(along), "sigma")
    return gaussian_filter(x, sigmas, [order if other == axis else 0 for other in along], None, mode, cval, axes=along, **options)


@mirrors("ndimage")
def gaussian_laplace(input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None,
                     **kwargs: Any) -> Any:
    """Equivalent of `scipy.ndimage.gaussian_laplace`.

    >>> import numpy as np
    >>> gaussian_laplace(np.array([0.0, 1.0, 0.0]), 1.0, radius=1).round(4)
    array([ 0.    , -0.4519,  0.    ])
    """
    return _added_up(input, axes, mode, output, lambda x, axis, each: _gaussian_derivative(
        x, axis, each, 2, sigma, axes, cval, kwargs))


@mirrors("ndimage")
def gaussian_gradient_magnitude(input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None,
                                **kwargs: Any) -> Any:
    """Equivalent of `scipy.ndimage.gaussian_gradient_magnitude`; where the gradient is 0, its derivative is infinite.

    >>> import numpy as np
    >>> gaussian_gradient_magnitude(np.arange(9.0), 1.0)[4].round(4)
    np.float64(0.9999)
    """
    squares = _added_up(input, axes, mode, output, lambda x, axis, each: np.square(_gaussian_derivative(
        x, axis, each, 1, sigma, None, cval, kwargs)))      # as in SciPy, the array is smoothed along all axes
    return np.sqrt(squares).astype(squares.dtype, copy=False)


# -- order statistics of windows


def _extreme_along(x: Any, size: int, axis: int, mode: str, cval: Any, origin: int, pick: Callable[[Any, Any], Any]) -> Any:
    """Extreme of windows along one axis: those of windows of 1, 2, 4, ... elements, and at last of two that overlap."""
    widths = [(0, 0)] * x.ndim
    widths[axis] = _reach(size, origin)
    found = np.moveaxis(_widened(x, widths, [mode] * x.ndim, cval), axis, -1)
    if not x.size:
        return x
    done = 1
    while done < size:
        step = min(done, size - done)
        found, done = pick(found[..., :found.shape[-1] - step], found[..., step:]), done + step
    return np.moveaxis(found, -1, axis)


def _windows(x: Any, footprint: np.ndarray, mode: str, cval: Any, origins: Sequence[int]) -> Any:
    """The elements of each window that the footprint marks, along a new last axis."""
    widths = [_reach(size, place) for size, place in zip(footprint.shape, origins, strict=True)]
    wide = _widened(x, widths, [mode] * x.ndim, cval)
    places = itertools.product(*map(range, footprint.shape))
    parts = [wide[tuple(slice(start, start + size) for start, size in zip(place, x.shape, strict=True))]
             for place in places if footprint[place]]
    return np.stack(parts, axis=-1)


def _marked(x: Any, size: Any, footprint: Any, origin: Any, axes: Any) -> tuple[np.ndarray, list[int]]:
    """The footprint, in all axes, and the origins."""
    along = normalize_axes(axes, x.ndim)
    if footprint is None:
        if size is None:
            raise RuntimeError("no footprint or filter size provided")
        footprint = np.ones([int(each) for each in per_axis(size, len(along), "size")], dtype=bool)
    footprint = np.asarray(footprint, dtype=bool)
    if not footprint.any():
        raise ValueError("All-zero footprint is not supported.")
    marked, origins = _in_all_axes(footprint, axes, origin, x.ndim)
    return np.asarray(marked), origins


def _extreme(input: Any, size: Any, footprint: Any, output: Any, mode: Any, cval: Any, origin: Any, axes: Any, largest: bool) -> Any:
    x = as_traced(input)
    pick: Callable[[Any, Any], Any] = np.maximum if largest else np.minimum
    if x.dtype.kind == "c":
        raise TypeError("Complex type not supported")
    if footprint is None or np.all(footprint):
        if footprint is None and size is None:
            raise RuntimeError("no footprint provided")
        return _axis_by_axis(x, output, axes, lambda x, axis, size, mode, origin: _extreme_along(
            x, int(size), axis, mode, cval, int(origin), pick), lambda size: size > 1,
            size=size if footprint is None else np.shape(footprint), mode=mode, origin=origin)
    marked, origins = _marked(x, size, footprint, origin, axes)
    reduce = np.max if largest else np.min
    return reduce(_windows(x, marked, mode, cval, origins), axis=-1).astype(output_dtype(x, output), copy=False)


def _one_axis(input: Any, size: int, axis: int, output: Any, mode: str, cval: Any, origin: int, largest: bool) -> Any:
    x = as_traced(input)
    return _extreme(x, int(size), None, output, mode, cval, origin, (normalize_axis(axis, x.ndim),), largest)


@mirrors("ndimage", static=("footprint",))
def maximum_filter(input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
                   origin: Any = 0, *, axes: Any = None) -> Any:
    """Equivalent of `scipy.ndimage.maximum_filter`; a NaN in a window makes its result NaN.

    >>> import numpy as np
    >>> maximum_filter(np.array([1.0, 3.0, 2.0, 0.0]), 3)
    array([3., 3., 3., 2.])
    """
    return _extreme(input, size, footprint, output, mode, cval, origin, axes, True)


@mirrors("ndimage", static=("footprint",))
def minimum_filter(input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
                   origin: Any = 0, *, axes: Any = None) -> Any:
    """Equivalent of `scipy.ndimage.minimum_filter`; a NaN in a window makes its result NaN.

    >>> import numpy as np
    >>> minimum_filter(np.array([1.0, 3.0, 2.0, 0.0]), 3)
    array([1., 1., 0., 0.])
    """
    return _extreme(input, size, footprint, output, mode, cval, origin, axes, False)


@mirrors("ndimage")
def maximum_filter1d(input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: int = 0
                     ) -> Any:
    """Equivalent of `scipy.ndimage.maximum_filter1d`; a NaN in a window makes its result NaN.

    >>> import numpy as np
    >>> maximum_filter1d(np.array([1.0, 3.0, 2.0, 0.0]), 3)
    array([3., 3., 3., 2.])
    """
    return _one_axis(input, size, axis, output, mode, cval, origin, True)


@mirrors("ndimage")
def minimum_filter1d(input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: int = 0
                     ) -> Any:
    """Equivalent of `scipy.ndimage.minimum_filter1d`; a NaN in a window makes its result NaN.

    >>> import numpy as np
    >>> minimum_filter1d(np.array([1.0, 3.0, 2.0, 0.0]), 3)
    array([1., 1., 0., 0.])
    """
    return _one_axis(input, size, axis, output, mode, cval, origin, False)


def _of_rank(input: Any, choose: Callable[[int], int], size: Any, footprint: Any, output: Any, mode: str, cval: Any, origin: Any,
             axes: Any) -> Any:
    """Element of a rank in each sorted window."""
    x = as_traced(input)
    if x.dtype.kind == "c":
        raise TypeError("Complex type not supported")
    marked, origins = _marked(x, size, footprint, origin, axes)
    count = int(np.sum(marked))
    rank = choose(count)
    rank += count if rank < 0 else 0
    if not 0 <= rank < count:
        raise RuntimeError("rank not within filter footprint size")
    if not x.size:
        return x.astype(output_dtype(x, output), copy=False)
    return np.sort(_windows(x, marked, mode, cval, origins), axis=-1)[..., rank].astype(output_dtype(x, output), copy=False)


@mirrors("ndimage", static=("footprint",))
def rank_filter(input: Any, rank: int, size: Any = None, footprint: Any = None, output: Any = None, mode: str = "reflect", cval: Any = 0.0,
                origin: Any = 0, *, axes: Any = None) -> Any:
    """Equivalent of `scipy.ndimage.rank_filter`, by sorting windows, which are in memory all at once.

    >>> import numpy as np
    >>> rank_filter(np.array([1.0, 3.0, 2.0, 0.0]), 1, 3)
    array([1., 2., 2., 0.])
    """
    return _of_rank(input, lambda count: int(rank), size, footprint, output, mode, cval, origin, axes)


@mirrors("ndimage", static=("footprint",))
def median_filter(input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: str = "reflect", cval: Any = 0.0,
                  origin: Any = 0, *, axes: Any = None) -> Any:
    """Equivalent of `scipy.ndimage.median_filter`, by sorting windows, which are in memory all at once.

    >>> import numpy as np
    >>> median_filter(np.array([1.0, 3.0, 2.0, 0.0]), 3)
    array([1., 2., 2., 0.])
    """
    return _of_rank(input, lambda count: count // 2, size, footprint, output, mode, cval, origin, axes)


@mirrors("ndimage", static=("footprint",))
def percentile_filter(input: Any, percentile: float, size: Any = None, footprint: Any = None, output: Any = None, mode: str = "reflect",
                      cval: Any = 0.0, origin: Any = 0, *, axes: Any = None) -> Any:
    """Equivalent of `scipy.ndimage.percentile_filter`, by sorting windows, which are in memory all at once.

    >>> import numpy as np
    >>> percentile_filter(np.array([1.0, 3.0, 2.0, 0.0]), 100, 3)
    array([3., 3., 3., 2.])
    """
    share = percentile + 100.0 if percentile < 0 else percentile
    if not 0 <= share <= 100:
        raise RuntimeError("invalid percentile")

    def choose(count: int) -> int:
        return count - 1 if share == 100.0 else math.floor(count * share / 100.0)

    return _of_rank(input, choose, size, footprint, output, mode, cval, origin, axes)
