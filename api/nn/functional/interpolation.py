"""Resizing of images, and sampling of them at given places."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any, Literal

import numpy as np

from adjit.ir.errors import ArgumentError
from adjit.nn.functional.adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, along_axis
from adjit.nn.functional.arguments import Array, InterpolationMode, floating, refuse_shape
from adjit.tracer.dispatch import dispatched
from adjit.tracer.user_location import find_user_location

_AXES = {"nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "area": (1, 2, 3), "linear": (1,), "bilinear": (2,), "bicubic": (2,),
         "trilinear": (3,)}
"""Numbers of axes that a mode resizes."""

MAX_MATRIX = 64
"""Largest input and output of an axis that is resized by a product with a matrix; above, each element is a sum of few others."""

MIN_CHANNELS = 4
"""Channels from which those of a pixel are moved together before pixels are sampled."""


# -- resizing


@dispatched
def interpolate(input: Array, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
                mode: InterpolationMode = "nearest", align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
                antialias: bool = False) -> Array:
    """Resize `input`, (N, C, L), (N, C, H, W) or (N, C, D, H, W), to `size`, or to its size times `scale_factor`, rounded down.

    "nearest" takes the element at `floor(i / scale)`, "nearest-exact" at `floor((i + 0.5) / scale)`. "linear", "bilinear", "trilinear" and
    "bicubic" mix the neighbours of the place `(i + 0.5) / scale - 0.5`, or with `align_corners` of the place where first and last elements
    of both coincide. "area" takes means, as adaptive pooling does. The scale is the given one, or with `recompute_scale_factor` the ratio
    of the sizes. `antialias` ("bilinear", "bicubic") widens the neighbourhood where an image shrinks. Raises `ValueError` for other modes,
    and for arguments that do not go with the mode. Source of the cubic weights, a = -0.75 (-0.5 for `antialias`): Keys, Cubic convolution
    interpolation for digital image processing, 1981.

    >>> interpolate(np.array([[[1.0, 2.0]]]), scale_factor=2)
    array([[[1., 1., 2., 2.]]])
    >>> interpolate(np.array([[[1.0, 2.0]]]), size=4, mode="linear")
    array([[[1.  , 1.25, 1.75, 2.  ]]])
    """
    x = floating(input, "interpolate")
    axes = x.ndim - 2
    if axes not in (1, 2, 3):
        refuse_shape(f"interpolate takes (N, C, L), (N, C, H, W) or (N, C, D, H, W), got the shape {x.shape}")
    if mode not in _AXES or axes not in _AXES[mode]:
        allowed = ", ".join(repr(name) for name, numbers in _AXES.items() if axes in numbers)
        raise ArgumentError(f"interpolate: mode of an input of the shape {x.shape} is one of {allowed}, got {mode!r}", find_user_location())
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ArgumentError(f"interpolate: align_corners goes with the linear and cubic modes, not with {mode!r}", find_user_location())
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ArgumentError(f"interpolate: antialias goes with 'bilinear' and 'bicubic', not with {mode!r}", find_user_location())
    counts, scales = _counts_and_scales(x.shape[2:], size, scale_factor, bool(recompute_scale_factor))
    if mode == "area":
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[axes - 1](x, counts)
    for axis, (count, scale) in enumerate(zip(counts, scales, strict=True), start=2):
        length = x.shape[axis]
        if count == length and scale in (None, 1.0):
            continue
        if mode.startswith("nearest"):
            x = np.take(x, _nearest(length, count, scale, mode == "nearest-exact", x.dtype), axis=axis)
        elif antialias:
            x = along_axis(x, axis, _antialiased(length, count, scale, bool(align_corners), mode).astype(x.dtype))
        else:
            x = _mixed(x, axis, *_neighbours(length, count, scale, bool(align_corners), mode))
    return x


def upsample(input: Array, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
             mode: InterpolationMode = "nearest", align_corners: bool | None = None) -> Array:
    """Older name of `interpolate`.

    >>> upsample(np.array([[[1.0, 2.0]]]), scale_factor=2)
    array([[[1., 1., 2., 2.]]])
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Array, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None) -> Array:
    """`interpolate` with the mode "nearest".

    >>> upsample_nearest(np.array([[[1.0, 2.0]]]), 4)
    array([[[1., 1., 2., 2.]]])
    """
    return interpolate(input, size, scale_factor)


def upsample_bilinear(input: Array, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None) -> Array:
    """`interpolate` with the mode "bilinear" and `align_corners`.

    >>> upsample_bilinear(np.array([[[[1.0, 2.0]]]]), (1, 3))
    array([[[[1. , 1.5, 2. ]]]])
    """
    return interpolate(input, size, scale_factor, "bilinear", True)


def _counts_and_scales(lengths: tuple[int, ...], size: Any, scale_factor: Any, recompute: bool) -> tuple[list[int], list[float | None]]:
    """Return the new size of each axis, and its scale if that is not the ratio of the sizes."""
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate takes size or scale_factor: give one of them", find_user_location())
    given = scale_factor if size is None else size
    several = list(given) if isinstance(given, (tuple, list)) else [given] * len(lengths)
    if len(several) != len(lengths):
        raise ArgumentError(f"interpolate: one number for each of {len(lengths)} axes, got {given}", find_user_location())
    if size is not None and recompute:
        raise ArgumentError("interpolate: recompute_scale_factor goes with scale_factor", find_user_location())
    counts = [int(number) if size is not None else math.floor(length * number) for length, number in zip(lengths, several, strict=True)]
    if min((*lengths, *counts)) < 1:
        refuse_shape(f"interpolate: sizes are positive, got {lengths} and {tuple(counts)}")
    return counts, [None if size is not None or recompute else float(number) for number in several]


def _nearest(length: int, count: int, scale: float | None, exact: bool, dtype: np.dtype) -> np.ndarray:
    """Index of the nearest element, with PyTorch's roundings: to the dtype of the elements, and at the end to float32."""
    kind = np.float64 if dtype == np.float64 else np.float32
    step = kind(length) / kind(count) if scale is None else kind(1.0 / scale)
    if exact:       # a fused product and sum
        places = np.maximum((float(step) * (np.arange(count) + 0.5) - 0.5).astype(kind), kind(0.0)) + kind(0.5)
    else:
        places = np.multiply(step, np.arange(count), dtype=kind)
    return np.minimum(np.floor(places.astype(np.float32)).astype(np.int64), length - 1)


def _step(length: int, count: int, scale: float | None, align_corners: bool) -> float:
    """Distance of the places of neighbouring new elements."""
    if align_corners:
        return (length - 1) / (count - 1) if count > 1 else 0.0
    return length / count if scale is None else 1.0 / scale


def _places(length: int, count: int, scale: float | None, align_corners: bool) -> np.ndarray:
    """Places of the new elements among the old ones."""
    step = _step(length, count, scale, align_corners)
    return np.arange(count) * step if align_corners else (np.arange(count) + 0.5) * step - 0.5


def _cubic(distance: Any, a: float) -> Any:
    """Weight of an element at a distance up to 2."""
    near = ((a + 2.0) * distance - (a + 3.0)) * distance * distance + 1.0
    far = ((distance - 5.0) * distance + 8.0) * distance * a - 4.0 * a
    return np.where(distance < 1.0, near, np.where(distance < 2.0, far, 0.0))


def _neighbours(length: int, count: int, scale: float | None, align_corners: bool, mode: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Indices and weights of the old elements that a new one is the sum of."""
    places = _places(length, count, scale, align_corners)
    if mode == "bicubic":
        first = np.floor(places)
        offsets = range(-1, 3)
        weights = [_cubic(np.abs(places - first - offset), -0.75) for offset in offsets]
    else:
        places = np.clip(places, 0.0, None)
        first = np.minimum(np.floor(places), length - 1)
        offsets = range(2)
        upper = np.clip(places - first, 0.0, 1.0)
        weights = [1.0 - upper, upper]
    return [np.clip(first + offset, 0, length - 1).astype(np.int64) for offset in offsets], weights


def _mixed(x: Any, axis: int, indices: list[np.ndarray], weights: list[np.ndarray]) -> Any:
    """Weighted sum of elements along an axis."""
    length, count = x.shape[axis], len(weights[0])
    if max(length, count) <= MAX_MATRIX:
        matrix = np.zeros((count, length))
        for index, weight in zip(indices, weights, strict=True):
            np.add.at(matrix, (np.arange(count), index), weight)
        return along_axis(x, axis, matrix.astype(x.dtype))
    shape = [count if position == axis else 1 for position in range(x.ndim)]
    terms = [np.take(x, index, axis=axis) * np.reshape(weight.astype(x.dtype), shape)
             for index, weight in zip(indices, weights, strict=True)]
    return sum(terms[1:], terms[0])


def _antialiased(length: int, count: int, scale: float | None, align_corners: bool, mode: str) -> np.ndarray:
    """Matrix whose rows mix all elements within the support of the filter, which is wider where an image shrinks."""
    step = _step(length, count, scale, align_corners)
    wide = max(step, 1.0)
    support = (2.0 if mode == "bicubic" else 1.0) * wide
    matrix = np.zeros((count, length))
    for number in range(count):
        center = step * (number + 0.5)
        low, high = max(int(center - support + 0.5), 0), min(int(center + support + 0.5), length)
        distance = np.abs((np.arange(low, high) - center + 0.5) / wide)
        weight = _cubic(distance, -0.5) if mode == "bicubic" else np.clip(1.0 - distance, 0.0, None)
        matrix[number, low:high] = weight / weight.sum()
    return matrix


# -- sampling


@dispatched
def affine_grid(theta: Array, size: Sequence[int], align_corners: bool | None = None) -> Array:
    """Places for `grid_sample`: of a regular grid of `size` (N, C, H, W) or (N, C, D, H, W), mapped by `theta` (N, 2, 3) or (N, 3, 4).

    The result is (N, H, W, 2) or (N, D, H, W, 3), in the order x, y, z, from -1 to 1. With `align_corners` -1 and 1 are the centers of the
    elements at the corners, otherwise the outer edges.

    >>> affine_grid(np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2)).tolist()
    [[[[-0.5, 0.0], [0.5, 0.0]]]]
    """
    matrix = floating(theta, "affine_grid: theta")
    axes = len(size) - 2
    if axes not in (2, 3) or matrix.shape != (size[0], axes, axes + 1):
        refuse_shape(f"affine_grid: theta has the shape (N, 2, 3) or (N, 3, 4), the size is (N, C, H, W) or (N, C, D, H, W); got "
                     f"{matrix.shape} and {tuple(size)}")
    lines = []
    for count in size[:1:-1]:
        if align_corners:
            lines.append(np.linspace(-1.0, 1.0, count) if count > 1 else np.zeros(1))
        else:
            lines.append((np.arange(count) * 2.0 + 1.0) / count - 1.0)
    points = np.stack([*(part.T for part in np.meshgrid(*lines, indexing="ij")), np.ones(tuple(size[2:]))], axis=-1)
    grid = np.reshape(points.astype(matrix.dtype), (1, prod(size[2:]), axes + 1)) @ np.swapaxes(matrix, 1, 2)
    return np.reshape(grid, (size[0], *size[2:], axes))


@dispatched
def grid_sample(input: Array, grid: Array, mode: Literal["bilinear", "nearest", "bicubic"] = "bilinear",
                padding_mode: Literal["zeros", "border", "reflection"] = "zeros", align_corners: bool | None = None) -> Array:
    """Elements of images (N, C, H, W) at places (N, Ho, Wo, 2), or of (N, C, D, H, W) at (N, Do, Ho, Wo, 3): (N, C, Ho, Wo), ...

    Places have the order x, y, z, from -1 to 1: with `align_corners` the centers of the outermost elements, otherwise their outer edges.
    Neighbours of a place are mixed ("bilinear"; "bicubic" for images only), or the nearest one is taken. Places outside count as zeros,
    as the nearest place at the border, or as reflected there. Source: Jaderberg et al., Spatial Transformer Networks, arXiv:1506.02025.

    >>> grid_sample(np.array([[[[1.0, 2.0]]]]), np.array([[[[0.0, 0.0]]]]))
    array([[[[1.5]]]])
    """
    x, places = floating(input, "grid_sample"), floating(grid, "grid_sample: grid")
    axes = x.ndim - 2
    if axes not in (2, 3) or places.ndim != x.ndim or places.shape[0] != x.shape[0] or places.shape[-1] != axes:
        refuse_shape(f"grid_sample: images (N, C, H, W) and places (N, Ho, Wo, 2), or one axis more and 3; got {x.shape}, {places.shape}")
    modes = ("bilinear", "nearest", "bicubic")[:3 if axes == 2 else 2]
    if mode not in modes or padding_mode not in _PADDINGS:
        raise ArgumentError(f"grid_sample: mode is one of {modes} for {axes} axes, padding_mode one of {tuple(_PADDINGS)}; got {mode!r}, "
                            f"{padding_mode!r}", find_user_location())
    lengths = x.shape[2:]
    coordinates = [_pixels(places[..., axes - 1 - axis], length, bool(align_corners)) for axis, length in enumerate(lengths)]
    bound = _PADDINGS[padding_mode]
    if mode != "bicubic":
        coordinates = [bound(each, length, bool(align_corners)) for each, length in zip(coordinates, lengths, strict=True)]
    if mode == "nearest":
        options = [[(np.rint(each), None)] for each in coordinates]
    else:
        options = []
        for each, length in zip(coordinates, lengths, strict=True):
            first = np.floor(each)
            part = each - first
            if mode == "bilinear":
                options.append([(first, 1.0 - part), (first + 1.0, part)])
            else:
                options.append([(bound(first + offset, length, bool(align_corners)), _cubic(np.abs(part - offset), -0.75))
                                for offset in range(-1, 3)])
    (images, channels), size, points = x.shape[:2], prod(lengths), prod(places.shape[1:-1])
    rows: tuple[int, ...]
    by_pixel = channels >= MIN_CHANNELS and points * len(options[0]) ** axes >= size
    if by_pixel:        # a place takes all channels at once, which lie together
        flat = np.reshape(np.moveaxis(np.reshape(x, (images, channels, size)), 1, 2), (images * size, channels))
        rows, first_pixel = (images * points, 1), np.reshape(np.arange(images), (images, *(1,) * axes)) * size
    else:
        flat, rows = np.reshape(x, (images, channels, size)), (images, 1, points)
    total: Any = 0.0
    for chosen in product(*options):
        inside: Any = True
        index: Any = 0
        weight: Any = None
        for (place, share), length in zip(chosen, lengths, strict=True):
            inside = inside & (place >= 0.0) & (place <= length - 1)
            index = index * length + np.clip(np.where(np.isnan(place), 0.0, place), 0.0, length - 1).astype(np.int64)
            weight = share if weight is None else weight * share
        elements = np.take(flat, np.reshape(index + first_pixel, (-1,)), 0) if by_pixel else \
            np.take_along_axis(flat, np.reshape(index, rows), -1)
        factor = inside.astype(x.dtype) if weight is None else np.where(inside, weight, 0.0 * weight)       # NaN stays NaN
        total = total + elements * np.reshape(factor, rows)
    if by_pixel:
        total = np.moveaxis(np.reshape(total, (images, points, channels)), 2, 1)
    return np.reshape(total, (*x.shape[:2], *places.shape[1:-1]))


def _pixels(place: Any, length: int, align_corners: bool) -> Any:
    """Convert places from -1 to 1 to indices."""
    return (place + 1.0) * (0.5 * (length - 1)) if align_corners else ((place + 1.0) * length - 1.0) * 0.5


def _reflected(place: Any, length: int, align_corners: bool) -> Any:
    low, high = (0.0, length - 1.0) if align_corners else (-0.5, length - 0.5)
    span = high - low
    if span <= 0.0:
        return np.zeros_like(place)
    distance = np.abs(place - low)
    turns = np.floor(distance / span)
    rest = distance - turns * span
    return _bounded(np.where(turns % 2.0 == 0.0, rest + low, span - rest + low), length, align_corners)


def _bounded(place: Any, length: int, align_corners: bool) -> Any:
    """Clip to the indices of elements; the derivative at a bound is 0."""
    return np.where(place <= 0.0, 0.0, np.where(place >= length - 1.0, length - 1.0, place))


def _unbounded(place: Any, length: int, align_corners: bool) -> Any:
    return place


_PADDINGS: dict[str, Callable[[Any, int, bool], Any]] = {"zeros": _unbounded, "border": _bounded, "reflection": _reflected}
