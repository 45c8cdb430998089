"""Pooling over one axis: that of images of one row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.nn.functional.arguments import Array, floating, one_per_axis, refuse_shape
from adjit.nn.functional.pooling import avg_pool2d, max_pool2d
from adjit.tracer.dispatch import dispatched

Size = int | Sequence[int]


@dispatched
def max_pool1d(input: Array, kernel_size: Size, stride: Size | None = None, padding: Size = 0, dilation: Size = 1,
               ceil_mode: bool = False) -> Array:
    """The largest element of each window of (N, C, L) or (C, L), as of `max_pool2d`.

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
    """The mean of each window of (N, C, L) or (C, L), as of `avg_pool2d`.

    >>> avg_pool1d(np.array([[1.0, 3.0, 2.0, 0.0]]), 2)
    array([[2., 1.]])
    """
    kernel, steps, edges = (_row(size, name, fill) for size, name, fill in (
        (kernel_size, "kernel_size", 1), (kernel_size if stride is None else stride, "stride", 1), (padding, "padding", 0)))
    return avg_pool2d(_as_images(input, "avg_pool1d"), kernel, steps, edges, ceil_mode, count_include_pad)[..., 0, :]      # type: ignore[no-any-return]


def _row(size: Size, name: str, fill: int) -> tuple[int, int]:
    """A setting of one axis for images of one row."""
    return fill, one_per_axis(size, 1, "pooling over one axis", name, fill)[0]


def _as_images(input: Any, function: str) -> Any:
    x = floating(input, function)
    if x.ndim not in (2, 3):
        refuse_shape(f"{function} takes (N, C, L) or (C, L), got the shape {x.shape}")
    return np.expand_dims(x, -2)
