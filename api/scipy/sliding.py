"""Sums of products of a kernel with windows of an array, along all axes or along one: by the op `convolution`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.types import is_inexact
from adjit.tracer import lowering
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.promotion import as_operand, common_dtype


def inexact(*arrays: Any) -> tuple[Any, ...]:
    """The arrays in their common dtype, float64 if that is none of floats or complex numbers."""
    given = [as_traced(array) for array in arrays]
    dtype = common_dtype([as_operand(array) for array in given])
    return tuple(array.astype(dtype if is_inexact(dtype) else np.float64, copy=False) for array in given)


def slid(x: Any, kernel: Any, low: Sequence[int], high: Sequence[int]) -> Any:
    """Correlate arrays of one rank: products with windows of `x`, which has `low` and `high` zeros around it (elements fewer if negative).
    """
    dtype = common_dtype([as_operand(x), as_operand(kernel)])
    x, kernel = x.astype(dtype, copy=False), kernel.astype(dtype, copy=False)
    if is_inexact(dtype):
        one, rank = (1,) * x.ndim, x.ndim
        images, kernels = (lowering.reshape(each.value, (1, 1, *each.shape)) for each in (x, kernel))
        found = ops.convolution(images, kernels, stride=one, low=tuple(low), high=tuple(high), interior=(0,) * rank, dilation=one, groups=1)
        return wrap(lowering.reshape(found, found.type.shape[2:]), scalar=False)
    cut = tuple(slice(max(-before, 0), size + min(after, 0)) for before, after, size in zip(low, high, x.shape, strict=True))
    padded = np.pad(x[cut], [(max(before, 0), max(after, 0)) for before, after in zip(low, high, strict=True)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel.shape)        # whole numbers stay exact
    return np.reshape(np.reshape(windows, (*windows.shape[:x.ndim], -1)) @ np.ravel(kernel), windows.shape[:x.ndim])


def slid_along(x: Any, kernel: Any, axis: int, low: int, high: int, stride: int = 1, between: int = 0) -> Any:
    """Correlate with a vector along one axis of an array of floats or complex numbers of the same dtype, which gets `between` zeros between
    its elements; one of every `stride` results."""
    moved = np.moveaxis(x, axis, -1)
    images = lowering.reshape(moved.value, (moved.size // max(moved.shape[-1], 1), 1, moved.shape[-1]))
    kernels = lowering.reshape(kernel.value, (1, 1, kernel.size))
    found = ops.convolution(images, kernels, stride=(stride,), low=(low,), high=(high,), interior=(between,), dilation=(1,), groups=1)
    result: Any = wrap(lowering.reshape(found, (*moved.shape[:-1], found.type.shape[-1])), scalar=False)
    return np.moveaxis(result, -1, axis)
