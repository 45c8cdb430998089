"""Pooling: the largest element, the mean or the norm of windows that slide over the last one, two or three axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ArgumentError
from adjit.ir.graph import Value
from adjit.ir.types import F64
from adjit.nn.functional.arguments import Array, floating, one_per_axis, refuse_shape
from adjit.nn.functional.windows import Windows, attributes, slide
from adjit.tracer.array import wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.lowering import contiguous_strides, convert, iota
from adjit.tracer.user_location import find_user_location

Size = int | Sequence[int]


@dispatched
def max_pool1d(input: Array, kernel_size: Size, stride: Size | None = None, padding: Size = 0, dilation: Size = 1,
               ceil_mode: bool = False, return_indices: bool = False) -> Array:
    """Largest element of each window of (N, C, L) or (C, L), like `max_pool2d`.

    >>> max_pool1d(np.array([[1.0, 3.0, 2.0, 0.0]]), 2)
    array([[3., 2.]])
    """
    return _largest(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 1)


@dispatched
def max_pool2d(input: Array, kernel_size: Size, stride: Size | None = None, padding: Size = 0, dilation: Size = 1,
               ceil_mode: bool = False, return_indices: bool = False) -> Array:
    """Largest element of each window of images (N, C, H, W) or (C, H, W). `stride` is `kernel_size` by default.

    Padding counts as -inf, and is at most half of the window. A NaN in a window makes it NaN. The derivative goes to the first largest
    element in C order, as PyTorch's does (`np.max` shares it). With `ceil_mode` a last window may reach over the end. With
    `return_indices` the result is a pair: the elements, and their indices within the image in C order, for `max_unpool2d`.

    >>> max_pool2d(np.arange(16.0).reshape(1, 4, 4), 2)
    array([[[ 5.,  7.],
            [13., 15.]]])
    """
    return _largest(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 2)


@dispatched
def max_pool3d(input: Array, kernel_size: Size, stride: Size | None = None, padding: Size = 0, dilation: Size = 1,
               ceil_mode: bool = False, return_indices: bool = False) -> Array:
    """Largest element of each window of (N, C, D, H, W) or (C, D, H, W), like `max_pool2d`.

    >>> max_pool3d(np.arange(16.0).reshape(1, 4, 2, 2), 2)
    array([[[[ 7.]],
    <BLANKLINE>
            [[15.]]]])
    """
    return _largest(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 3)


def _largest(input: Any, kernel_size: Size, stride: Size | None, padding: Size, dilation: Size, ceil_mode: bool, return_indices: bool,
             axes: int) -> Any:
    x, windows = _windows(input, kernel_size, stride, padding, dilation, ceil_mode, f"max_pool{axes}d", axes)
    values = _wrapped(ops.window_max(x.value, **attributes(windows)))
    if not return_indices:
        return values
    lengths = x.shape[-axes:]
    places: Any = np.broadcast_to(np.reshape(wrap(iota(F64, (prod(lengths),), 0)), lengths), x.shape)
    chosen = ops.window_max_take(convert(ops.stop_gradient(x.value), F64), places.value, **attributes(windows))
    return values, _wrapped(chosen).astype(np.int64)


@dispatched
def avg_pool1d(input: Array, kernel_size: Size, stride: Size | None = None, padding: Size = 0, ceil_mode: bool = False,
               count_include_pad: bool = True) -> Array:
    """Mean of each window of (N, C, L) or (C, L), like `avg_pool2d`.

    >>> avg_pool1d(np.array([[1.0, 3.0, 2.0, 0.0]]), 2)
    array([[2., 1.]])
    """
    return _mean(input, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1)


@dispatched
def avg_pool2d(input: Array, kernel_size: Size, stride: Size | None = None, padding: Size = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None) -> Array:
    """Mean of each window of images (N, C, H, W) or (C, H, W). `stride` is `kernel_size` by default.

    Padding counts as elements that are 0, unless `count_include_pad` is False. `divisor_override` replaces the number of elements.

    >>> avg_pool2d(np.arange(16.0).reshape(1, 4, 4), 2)
    array([[[ 2.5,  4.5],
            [10.5, 12.5]]])
    """
    return _mean(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 2)


@dispatched
def avg_pool3d(input: Array, kernel_size: Size, stride: Size | None = None, padding: Size = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None) -> Array:
    """Mean of each window of (N, C, D, H, W) or (C, D, H, W), like `avg_pool2d`.

    >>> avg_pool3d(np.arange(16.0).reshape(1, 4, 2, 2), 2).ravel()
    array([ 3.5, 11.5])
    """
    return _mean(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 3)


def _mean(input: Any, kernel_size: Size, stride: Size | None, padding: Size, ceil_mode: bool, count_include_pad: bool,
          divisor_override: int | None, axes: int) -> Any:
    function = f"avg_pool{axes}d"
    x, windows = _windows(input, kernel_size, stride, padding, 1, ceil_mode, function, axes)
    total = _wrapped(ops.window_sum(x.value, **attributes(windows)))
    if divisor_override is not None:
        if divisor_override == 0:
            raise ArgumentError(f"{function}: divisor_override is 0: leave it out to divide by the size of the window",
                                find_user_location())
        return total / float(divisor_override)
    paddings = one_per_axis(padding, axes, function, "padding", 0)
    counts = [_counts(axis, length, edge, count_include_pad)
              for axis, length, edge in zip(windows, x.shape[-axes:], paddings, strict=True)]
    if all(len(set(count)) <= 1 for count in counts):
        return total / float(prod(count[0] if count else 1 for count in counts))
    return total / reduce(np.multiply.outer, (np.array(count, x.dtype) for count in counts))


@dispatched
def lp_pool1d(input: Array, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False) -> Array:
    """Norm of each window of (N, C, L) or (C, L), like `lp_pool2d`.

    >>> lp_pool1d(np.array([[3.0, 4.0, 0.0, 2.0]]), 2, 2)
    array([[5., 2.]])
    """
    return _norm(input, norm_type, kernel_size, stride, ceil_mode, 1)


@dispatched
def lp_pool2d(input: Array, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False) -> Array:
    """`sum(x ** norm_type) ** (1 / norm_type)` of each window of images (N, C, H, W) or (C, H, W); NaN where the sum is negative.

    `stride` is `kernel_size` by default.

    >>> lp_pool2d(np.array([[[3.0, 4.0]]]), 2, (1, 2))
    array([[[5.]]])
    """
    return _norm(input, norm_type, kernel_size, stride, ceil_mode, 2)


@dispatched
def lp_pool3d(input: Array, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False) -> Array:
    """Norm of each window of (N, C, D, H, W) or (C, D, H, W), like `lp_pool2d`.

    >>> lp_pool3d(np.array([[[[3.0, 4.0]]]]), 2, (1, 1, 2))
    array([[[[5.]]]])
    """
    return _norm(input, norm_type, kernel_size, stride, ceil_mode, 3)


def _norm(input: Any, norm_type: float, kernel_size: Size, stride: Size | None, ceil_mode: bool, axes: int) -> Any:
    function = f"lp_pool{axes}d"
    power = floating(input, function) ** float(norm_type)
    # The mean of a window that reaches over the end is over the elements inside, and counts as that of a whole window.
    mean = _mean(power, kernel_size, stride, 0, ceil_mode, True, None, axes)
    sizes = one_per_axis(kernel_size, axes, function, "kernel_size", 1)
    return (mean * float(prod(sizes))) ** (1.0 / norm_type)


def spatial(x: Any, axes: int, function: str) -> Any:
    """Return a floating-point array of (N, C, ...) or (C, ...), with `axes` axes after the channels."""
    x = floating(x, function)
    if x.ndim not in (axes + 1, axes + 2):
        names = ", ".join("DHW"[3 - axes:] if axes > 1 else "L")
        refuse_shape(f"{function} takes {'images of ' if axes == 2 else ''}shape (N, C, {names}) or (C, {names}), got {x.shape}")
    return x


def _windows(x: Any, kernel_size: Size, stride: Size | None, padding: Size, dilation: Size, ceil_mode: bool, function: str,
             axes: int) -> tuple[Any, list[Windows]]:
    x = spatial(x, axes, function)
    sizes, edges = one_per_axis(kernel_size, axes, function, "kernel_size", 1), one_per_axis(padding, axes, function, "padding", 0)
    steps = sizes if stride is None or stride == () else one_per_axis(stride, axes, function, "stride", 1)
    gaps = one_per_axis(dilation, axes, function, "dilation", 1)
    if any(2 * edge > size for edge, size in zip(edges, sizes, strict=True)):
        raise ArgumentError(f"{function}: padding is at most half of the window, got padding {padding} of windows {kernel_size}",
                            find_user_location())
    return x, [slide(length, size, step, gap, (edge, edge), function, ceil_mode)
               for length, size, step, gap, edge in zip(x.shape[-axes:], sizes, steps, gaps, edges, strict=True)]


def _wrapped(value: Value) -> Any:
    return wrap(value, strides=contiguous_strides(value.type.shape))


def _counts(axis: Windows, length: int, padding: int, include_padding: bool) -> list[int]:
    """Number of counted elements in each window: elements of the array and, perhaps, of the padding on both sides."""
    edge = padding if include_padding else 0
    starts = [number * axis.stride - axis.low for number in range(axis.count)]
    return [min(start + axis.size, length + edge) - max(start, -edge) for start in starts]
