"""Pooling: the largest element or the mean of windows of images and, as images of one row, of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ArgumentError
from adjit.ir.graph import Value
from adjit.nn.functional.arguments import Array, floating, one_per_axis, refuse_shape
from adjit.nn.functional.windows import Windows, attributes, slide
from adjit.tracer.array import wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.lowering import contiguous_strides
from adjit.tracer.user_location import find_user_location


@dispatched
def max_pool2d(input: Array, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
               dilation: int | Sequence[int] = 1, ceil_mode: bool = False) -> Array:
    """Largest element of each window of images (N, C, H, W) or (C, H, W). `stride` is `kernel_size` by default.

    Padding counts as -inf, and is at most half of the window. A NaN in a window makes it NaN. The derivative goes to the first largest
    element in C order, as PyTorch's does (`np.max` shares it). With `ceil_mode` a last window may reach over the end.

    >>> max_pool2d(np.arange(16.0).reshape(1, 4, 4), 2)
    array([[[ 5.,  7.],
            [13., 15.]]])
    """
    x, windows = _windows(input, kernel_size, stride, padding, dilation, ceil_mode, "max_pool2d")
    return _wrapped(ops.window_max(x.value, **attributes(windows)))


@dispatched
def avg_pool2d(input: Array, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
               ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> Array:
    """Mean of each window of images (N, C, H, W) or (C, H, W). `stride` is `kernel_size` by default.

    Padding counts as elements that are 0, unless `count_include_pad` is False. `divisor_override` replaces the number of elements.

    >>> avg_pool2d(np.arange(16.0).reshape(1, 4, 4), 2)
    array([[[ 2.5,  4.5],
            [10.5, 12.5]]])
    """
    x, windows = _windows(input, kernel_size, stride, padding, 1, ceil_mode, "avg_pool2d")
    total = _wrapped(ops.window_sum(x.value, **attributes(windows)))
    if divisor_override is not None:
        if divisor_override == 0:
            raise ArgumentError("avg_pool2d: divisor_override is 0: leave it out to divide by the size of the window", find_user_location())
        return total / float(divisor_override)
    paddings = one_per_axis(padding, 2, "avg_pool2d", "padding", 0)
    counts = [_counts(axis, length, edge if count_include_pad else 0)
              for axis, length, edge in zip(windows, x.shape[-2:], paddings, strict=True)]
    if all(len(set(count)) <= 1 for count in counts):
        return total / float(reduce(lambda product, count: product * (count[0] if count else 1), counts, 1))
    return total / np.multiply.outer(*(np.array(count, x.dtype) for count in counts))


@dispatched
def adaptive_avg_pool2d(input: Array, output_size: int | Sequence[int | None] | None) -> Array:
    """Means of `output_size` windows of images (N, C, H, W) or (C, H, W); None preserves the size of an axis.

    Window i of n covers the rows from `i * H // n` to `ceil((i + 1) * H / n)`.

    >>> adaptive_avg_pool2d(np.arange(16.0).reshape(1, 4, 4), 1)
    array([[[7.5]]])
    """
    x = _images(input, "adaptive_avg_pool2d")
    sizes: Sequence[Any] = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * 2
    if len(sizes) != 2 or any(size is not None and size < 1 for size in sizes):
        raise ArgumentError(f"adaptive_avg_pool2d: output_size is a positive number, or two, or None to keep an axis; got {output_size!r}",
                            find_user_location())
    height, width = (length if size is None else size for length, size in zip(x.shape[-2:], sizes, strict=True))
    if min(x.shape[-2:]) < 1:
        refuse_shape(f"adaptive_avg_pool2d: images of shape {x.shape} have no elements")
    if (height, width) == (1, 1):
        return np.mean(x, axis=(-2, -1), keepdims=True)
    if x.shape[-2] % height == 0 and x.shape[-1] % width == 0:
        return avg_pool2d(x, (x.shape[-2] // height, x.shape[-1] // width))
    rows, columns = _means(x.shape[-2], height, x.dtype), _means(x.shape[-1], width, x.dtype)
    return np.matmul(rows, x @ columns.T)


def _images(x: Any, function: str) -> Any:
    x = floating(x, function)
    if x.ndim not in (3, 4):
        refuse_shape(f"{function} takes images of shape (N, C, H, W) or (C, H, W), got {x.shape}")
    return x


def _windows(x: Any, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None, padding: int | Sequence[int],
             dilation: int | Sequence[int], ceil_mode: bool, function: str) -> tuple[Any, list[Windows]]:
    x = _images(x, function)
    sizes, edges = one_per_axis(kernel_size, 2, function, "kernel_size", 1), one_per_axis(padding, 2, function, "padding", 0)
    steps = sizes if stride is None or stride == () else one_per_axis(stride, 2, function, "stride", 1)
    gaps = one_per_axis(dilation, 2, function, "dilation", 1)
    if any(2 * edge > size for edge, size in zip(edges, sizes, strict=True)):
        raise ArgumentError(f"{function}: padding is at most half of the window, got padding {padding} of windows {kernel_size}",
                            find_user_location())
    return x, [slide(length, size, step, gap, (edge, edge), function, ceil_mode)
               for length, size, step, gap, edge in zip(x.shape[-2:], sizes, steps, gaps, edges, strict=True)]


def _wrapped(value: Value) -> Any:
    return wrap(value, strides=contiguous_strides(value.type.shape))


def _counts(axis: Windows, length: int, edge: int) -> list[int]:
    """Number of counted elements in each window: elements of the array and of `edge` elements of padding on both sides."""
    starts = [number * axis.stride - axis.low for number in range(axis.count)]
    return [min(start + axis.size, length + edge) - max(start, -edge) for start in starts]


def _means(length: int, count: int, dtype: np.dtype) -> Any:
    """Matrix that computes the means of `count` windows, which cover `length` elements."""
    matrix = np.zeros((count, length), dtype)
    for number in range(count):
        start, stop = number * length // count, -(-(number + 1) * length // count)
        matrix[number, start:stop] = 1.0 / (stop - start)
    return matrix


Size = int | Sequence[int]


@dispatched
def max_pool1d(input: Array, kernel_size: Size, stride: Size | None = None, padding: Size = 0, dilation: Size = 1,
               ceil_mode: bool = False) -> Array:
    """Largest element of each window of (N, C, L) or (C, L), like `max_pool2d`.

    >>> max_pool1d(np.array([[1.0, 3.0, 2.0, 0.0]]), 2)
    array([[3., 2.]])
    """
    kernel, steps, edges, gaps = (_row(size, name, fill) for size, name, fill in (
        (kernel_size, "kernel_size", 1), (kernel_size if stride is None else stride, "stride", 1), (padding, "padding", 0),
        (dilation, "dilation", 1)))
    return max_pool2d(_as_images(input, "max_pool1d"), kernel, steps, edges, gaps, ceil_mode)[..., 0, :]     # type: ignore[no-any-return]


@dispatched
def avg_pool1d(input: Array, kernel_size: Size, stride: Size | None = None, padding: Size = 0, ceil_mode: bool = False,
               count_include_pad: bool = True) -> Array:
    """Mean of each window of (N, C, L) or (C, L), like `avg_pool2d`.

    >>> avg_pool1d(np.array([[1.0, 3.0, 2.0, 0.0]]), 2)
    array([[2., 1.]])
    """
    kernel, steps, edges = (_row(size, name, fill) for size, name, fill in (
        (kernel_size, "kernel_size", 1), (kernel_size if stride is None else stride, "stride", 1), (padding, "padding", 0)))
    return avg_pool2d(_as_images(input, "avg_pool1d"), kernel, steps, edges, ceil_mode, count_include_pad)[..., 0, :]      # type: ignore[no-any-return]


def _row(size: Size, name: str, fill: int) -> tuple[int, int]:
    """Convert a setting of one axis for images of one row."""
    return fill, one_per_axis(size, 1, "pooling over one axis", name, fill)[0]


def _as_images(input: Any, function: str) -> Any:
    x = floating(input, function)
    if x.ndim not in (2, 3):
        refuse_shape(f"{function} takes (N, C, L) or (C, L), got the shape {x.shape}")
    return np.expand_dims(x, -2)
