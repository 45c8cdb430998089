"""Pooling into a given number of windows: evenly spread (adaptive) or at random (fractional); and the inverse of maximum pooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from adjit import random
from adjit.ir.errors import ArgumentError
from adjit.ir.ops import stop_gradient
from adjit.nn.functional.arguments import Array, OutputSize, integers, one_per_axis, refuse_shape
from adjit.nn.functional.dropout_layers import new_key
from adjit.nn.functional.pooling import Size, avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d, spatial
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.user_location import find_user_location

_MEANS, _LARGEST = (avg_pool1d, avg_pool2d, avg_pool3d), (max_pool1d, max_pool2d, max_pool3d)


# -- adaptive


@dispatched
def adaptive_avg_pool1d(input: Array, output_size: OutputSize) -> Array:
    """Means of `output_size` windows of (N, C, L) or (C, L), like `adaptive_avg_pool2d`.

    >>> adaptive_avg_pool1d(np.array([[1.0, 3.0, 2.0]]), 2)
    array([[2. , 2.5]])
    """
    return _adaptive_mean(input, output_size, 1)


@dispatched
def adaptive_avg_pool2d(input: Array, output_size: OutputSize) -> Array:
    """Means of `output_size` windows of images (N, C, H, W) or (C, H, W); None preserves the size of an axis.

    Window i of n covers the rows from `i * H // n` to `ceil((i + 1) * H / n)`.

    >>> adaptive_avg_pool2d(np.arange(16.0).reshape(1, 4, 4), 1)
    array([[[7.5]]])
    """
    return _adaptive_mean(input, output_size, 2)


@dispatched
def adaptive_avg_pool3d(input: Array, output_size: OutputSize) -> Array:
    """Means of `output_size` windows of (N, C, D, H, W) or (C, D, H, W), like `adaptive_avg_pool2d`.

    >>> adaptive_avg_pool3d(np.arange(16.0).reshape(1, 4, 2, 2), (2, 1, 1)).ravel()
    array([ 3.5, 11.5])
    """
    return _adaptive_mean(input, output_size, 3)


@dispatched
def adaptive_max_pool1d(input: Array, output_size: OutputSize, return_indices: bool = False) -> Array:
    """Largest elements of `output_size` windows of (N, C, L) or (C, L), like `adaptive_max_pool2d`.

    >>> adaptive_max_pool1d(np.array([[1.0, 3.0, 2.0]]), 2)
    array([[3., 3.]])
    """
    return _adaptive_largest(input, output_size, return_indices, 1)


@dispatched
def adaptive_max_pool2d(input: Array, output_size: OutputSize, return_indices: bool = False) -> Array:
    """Largest elements of the windows of `adaptive_avg_pool2d`; with `return_indices` also their indices, as `max_pool2d` gives them.

    >>> adaptive_max_pool2d(np.arange(16.0).reshape(1, 4, 4), (1, 2))
    array([[[13., 15.]]])
    """
    return _adaptive_largest(input, output_size, return_indices, 2)


@dispatched
def adaptive_max_pool3d(input: Array, output_size: OutputSize, return_indices: bool = False) -> Array:
    """Largest elements of `output_size` windows of (N, C, D, H, W) or (C, D, H, W), like `adaptive_max_pool2d`.

    >>> adaptive_max_pool3d(np.arange(16.0).reshape(1, 4, 2, 2), (2, 1, 1)).ravel()
    array([ 7., 15.])
    """
    return _adaptive_largest(input, output_size, return_indices, 3)


def _adaptive_mean(input: Any, output_size: OutputSize, axes: int) -> Any:
    x, sizes = _sizes(input, output_size, axes, f"adaptive_avg_pool{axes}d")
    places = tuple(range(x.ndim - axes, x.ndim))
    if set(sizes) == {1}:
        return np.mean(x, axis=places, keepdims=True)
    if all(length % size == 0 for length, size in zip(x.shape[-axes:], sizes, strict=True)):
        return _MEANS[axes - 1](x, [length // size for length, size in zip(x.shape[-axes:], sizes, strict=True)])
    for axis, size in zip(places, sizes, strict=True):
        if size != x.shape[axis]:
            x = along_axis(x, axis, _means(x.shape[axis], size, x.dtype))
    return x


def _adaptive_largest(input: Any, output_size: OutputSize, return_indices: bool, axes: int) -> Any:
    x, sizes = _sizes(input, output_size, axes, f"adaptive_max_pool{axes}d")
    lengths = x.shape[-axes:]
    if all(length % size == 0 for length, size in zip(lengths, sizes, strict=True)):
        windows = [length // size for length, size in zip(lengths, sizes, strict=True)]
        return _LARGEST[axes - 1](x, windows, return_indices=return_indices)
    places = []
    for length, size in zip(lengths, sizes, strict=True):
        starts, stops = zip(*_spans(length, size), strict=True)
        most = max(stop - start for start, stop in zip(starts, stops, strict=True))
        places.append(np.minimum(np.array(starts)[:, None] + np.arange(most), np.array(stops)[:, None] - 1))
    return _largest_of(x, places, return_indices)


def _sizes(input: Any, output_size: OutputSize, axes: int, function: str) -> tuple[Any, tuple[int, ...]]:
    """Return the input, and the number of windows along each axis."""
    x = spatial(input, axes, function)
    given: tuple[Any, ...] = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,)
    given = given * axes if len(given) == 1 else given
    if len(given) != axes or any(size is not None and size < 1 for size in given):
        raise ArgumentError(f"{function}: output_size is a positive number, or one for each of {axes} axes, or None to keep an axis; got "
                            f"{output_size!r}", find_user_location())
    lengths = x.shape[-axes:]
    if min(lengths) < 1:
        refuse_shape(f"{function}: an input of shape {x.shape} has no elements")
    return x, tuple(length if size is None else size for length, size in zip(lengths, given, strict=True))


def _spans(length: int, count: int) -> list[tuple[int, int]]:
    """First and last index (excluded) of each of `count` windows that cover `length` elements."""
    return [(number * length // count, -(-(number + 1) * length // count)) for number in range(count)]


def _means(length: int, count: int, dtype: np.dtype) -> np.ndarray:
    """Matrix that computes the means of `count` windows, which cover `length` elements."""
    matrix = np.zeros((count, length), dtype)
    for number, (start, stop) in enumerate(_spans(length, count)):
        matrix[number, start:stop] = 1.0 / (stop - start)
    return matrix


def along_axis(x: Any, axis: int, matrix: np.ndarray) -> Any:
    """Multiply a matrix with the vectors along an axis of `x`."""
    if axis == x.ndim - 2:
        return np.matmul(matrix, x)
    return np.moveaxis(np.matmul(np.moveaxis(x, axis, -1), matrix.T), -1, axis)


def _largest_of(x: Any, places: Sequence[Any], return_indices: bool) -> Any:
    """Largest elements of windows: `places` has for each of the last axes the indices of each window, (..., windows, elements)."""
    axes = len(places)
    lengths = x.shape[-axes:]
    flat: Any = 0
    for axis, place in enumerate(places):
        count, most = place.shape[-2:]
        shape = [*place.shape[:-2], *(1,) * (2 * axes)]
        shape[len(shape) - 2 * axes + axis], shape[len(shape) - axes + axis] = count, most
        flat = flat + np.reshape(place, shape) * prod(lengths[axis + 1:])
    counts = tuple(place.shape[-2] for place in places)
    flat = np.broadcast_to(flat, (*x.shape[:-axes], *flat.shape[flat.ndim - 2 * axes:]))
    flat = np.reshape(flat, (*x.shape[:-axes], prod(counts), prod(place.shape[-1] for place in places)))
    elements = np.reshape(x, (*x.shape[:-axes], prod(lengths)))
    held: Any = wrap(stop_gradient(as_traced(elements).value))
    windows = np.reshape(np.take_along_axis(held, np.reshape(flat, (*flat.shape[:-2], prod(flat.shape[-2:]))), -1), flat.shape)
    first = np.argmax(windows, axis=-1)
    indices = np.take_along_axis(flat, first[..., None], -1)[..., 0]
    values = np.reshape(np.take_along_axis(elements, indices, -1), (*x.shape[:-axes], *counts))
    return (values, np.reshape(indices, values.shape)) if return_indices else values


# -- fractional


def fractional_max_pool2d(input: Array, kernel_size: Size, output_size: Size | None = None,
                          output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
                          _random_samples: Array | None = None, *, key: Any = None) -> Array:
    """Largest elements of windows of `kernel_size` at random places of images (N, C, H, W) or (C, H, W).

    There are `output_size` windows, or their number is that of the elements times `output_ratio`, below 1. Distances of neighbours are
    the ratio of sizes, rounded up or down by chance: by `_random_samples`, numbers from 0 to 1 of the shape (N, C, 2), width and height;
    or by `key`, else by the default generator. With `return_indices` also the indices, as `max_pool2d` gives them.
    Source: Graham, Fractional Max-Pooling, arXiv:1412.6071.

    >>> fractional_max_pool2d(np.arange(16.0).reshape(1, 4, 4), 2, output_size=1)
    array([[[15.]]])
    """
    return _fractional(input, kernel_size, output_size, output_ratio, return_indices, _random_samples, key, 2)


def fractional_max_pool3d(input: Array, kernel_size: Size, output_size: Size | None = None,
                          output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
                          _random_samples: Array | None = None, *, key: Any = None) -> Array:
    """Largest elements of windows at random places of (N, C, D, H, W) or (C, D, H, W), like `fractional_max_pool2d`.

    `_random_samples` has the shape (N, C, 3), for depth, height and width.

    >>> fractional_max_pool3d(np.arange(8.0).reshape(1, 2, 2, 2), 2, output_size=1)
    array([[[[7.]]]])
    """
    return _fractional(input, kernel_size, output_size, output_ratio, return_indices, _random_samples, key, 3)


def _fractional(input: Any, kernel_size: Size, output_size: Any, output_ratio: Any, return_indices: bool, samples: Any, key: Any,
                axes: int) -> Any:
    function = f"fractional_max_pool{axes}d"
    if (output_size is None) == (output_ratio is None):
        raise ArgumentError(f"{function} takes output_size or output_ratio: give one of them", find_user_location())
    if output_ratio is not None:
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * axes
        if len(ratios) != axes or not all(0.0 < ratio < 1.0 for ratio in ratios):
            raise ArgumentError(f"{function}: output_ratio lies between 0 and 1, got {output_ratio}", find_user_location())
        output_size = [int(length * ratio) for length, ratio in zip(input.shape[-axes:], ratios, strict=True)]
    key = new_key(function) if samples is None and key is None else key
    sizes = one_per_axis(kernel_size, axes, function, "kernel_size", 1)
    return _fractionally_pooled(input, sizes, one_per_axis(output_size, axes, function, "output_size", 1), return_indices, samples, key)


@dispatched
def _fractionally_pooled(input: Any, sizes: Sequence[int], counts: Sequence[int], return_indices: bool, samples: Any, key: Any) -> Any:
    axes = len(sizes)
    function = f"fractional_max_pool{axes}d"
    x = spatial(input, axes, function)
    batch = x if x.ndim == axes + 2 else x[None]
    for length, size, count in zip(batch.shape[2:], sizes, counts, strict=True):
        if count + size - 1 > length:
            refuse_shape(f"{function}: {count} windows of {size} do not fit into an axis of {length} elements")
    if samples is None:
        samples = random.uniform(key, (*batch.shape[:2], axes), x.dtype)
    samples = as_traced(samples).astype(x.dtype)
    if samples.shape != (*batch.shape[:2], axes):
        refuse_shape(f"{function}: _random_samples have the shape {(*batch.shape[:2], axes)}, got {samples.shape}")
    places = []
    for axis, (length, size, count) in enumerate(zip(batch.shape[2:], sizes, counts, strict=True)):
        sample = samples[..., 1 - axis if axes == 2 else axis][..., None]
        starts = np.full((1, 1, 1), length - size)
        if count > 1:
            step = x.dtype.type(length - size) / x.dtype.type(count - 1)
            inner = ((np.arange(count - 1, dtype=x.dtype) + sample) * step).astype(np.int64) - (sample * step).astype(np.int64)
            starts = np.concatenate([inner, np.broadcast_to(starts, (*inner.shape[:-1], 1))], axis=-1)
        places.append(starts[..., None] + np.arange(size))
    result = _largest_of(batch, places, return_indices)
    if x is batch:
        return result
    return (result[0][0], result[1][0]) if return_indices else result[0]


# -- unpooling


@dispatched
def max_unpool1d(input: Array, indices: Array, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
                 output_size: Sequence[int] | None = None) -> Array:
    """Inverse of `max_pool1d` for (N, C, L) or (C, L), like `max_unpool2d`.

    >>> max_unpool1d(np.array([[3.0, 2.0]]), np.array([[1, 2]]), 2)
    array([[0., 3., 2., 0.]])
    """
    return _unpooled(input, indices, kernel_size, stride, padding, output_size, 1)


@dispatched
def max_unpool2d(input: Array, indices: Array, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
                 output_size: Sequence[int] | None = None) -> Array:
    """Zeros, with the elements of `input` at the `indices` that `max_pool2d` gave with them; the last one of several at one index.

    The size of the result is `(H - 1) * stride - 2 * padding + kernel_size`, or `output_size`, with or without N and C.

    >>> max_unpool2d(np.array([[[3.0]]]), np.array([[[2]]]), 2)
    array([[[0., 0.],
            [3., 0.]]])
    """
    return _unpooled(input, indices, kernel_size, stride, padding, output_size, 2)


@dispatched
def max_unpool3d(input: Array, indices: Array, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
                 output_size: Sequence[int] | None = None) -> Array:
    """Inverse of `max_pool3d` for (N, C, D, H, W) or (C, D, H, W), like `max_unpool2d`.

    >>> max_unpool3d(np.array([[[[3.0]]]]), np.array([[[[5]]]]), (1, 2, 3)).ravel()
    array([0., 0., 0., 0., 0., 3.])
    """
    return _unpooled(input, indices, kernel_size, stride, padding, output_size, 3)


def _unpooled(input: Any, indices: Any, kernel_size: Size, stride: Size | None, padding: Size, output_size: Sequence[int] | None,
              axes: int) -> Any:
    function = f"max_unpool{axes}d"
    x, indices = spatial(input, axes, function), integers(indices, function, "indices")
    if x.shape != indices.shape:
        refuse_shape(f"{function}: the input has the shape {x.shape}, the indices {indices.shape}")
    sizes, edges = one_per_axis(kernel_size, axes, function, "kernel_size", 1), one_per_axis(padding, axes, function, "padding", 0)
    steps = sizes if stride is None or stride == () else one_per_axis(stride, axes, function, "stride", 1)
    lengths = [(length - 1) * step - 2 * edge + size
               for length, step, edge, size in zip(x.shape[-axes:], steps, edges, sizes, strict=True)]
    if output_size is not None:
        wanted = list(output_size)[-axes:]
        if len(wanted) != axes or any(abs(number - length) >= step for number, length, step in zip(wanted, lengths, steps, strict=True)):
            raise ArgumentError(f"{function}: output_size {tuple(output_size)} is not within a stride of {lengths}", find_user_location())
        lengths = wanted
    flat = np.zeros_like(x, shape=(*x.shape[:-axes], prod(lengths)))
    rows = (*x.shape[:-axes], prod(x.shape[-axes:]))
    np.put_along_axis(flat, np.reshape(indices, rows), np.reshape(x, rows), -1)
    return np.reshape(flat, (*x.shape[:-axes], *lengths))
