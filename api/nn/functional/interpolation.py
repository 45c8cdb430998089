"""Resizing of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from adjit.ir.errors import ArgumentError
from adjit.nn.functional.arguments import Array, floating, refuse_shape
from adjit.tracer.dispatch import dispatched
from adjit.tracer.user_location import find_user_location


@dispatched
def interpolate(input: Array, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
                mode: Literal["nearest"] = "nearest") -> Array:
    """Resize `input`, (N, C, L) or (N, C, H, W), to `size`, or to its size times `scale_factor`, rounded down.

    Element i is the input's element at `floor(i / scale)`. Raises `ValueError` for other modes than "nearest".

    >>> interpolate(np.array([[[1.0, 2.0]]]), scale_factor=2)
    array([[[1., 1., 2., 2.]]])
    """
    x = floating(input, "interpolate")
    if x.ndim not in (3, 4):
        refuse_shape(f"interpolate takes (N, C, L) or (N, C, H, W), got the shape {x.shape}")
    if mode != "nearest":
        raise ArgumentError(f"interpolate: mode is 'nearest', got {mode!r}", find_user_location())
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate takes size or scale_factor: give one of them", find_user_location())
    given: Any = scale_factor if size is None else size
    several = list(given) if isinstance(given, (tuple, list)) else [given] * (x.ndim - 2)
    if len(several) != x.ndim - 2:
        raise ArgumentError(f"interpolate: one number for each of {x.ndim - 2} axes, got {given}", find_user_location())
    for axis, number in enumerate(several, start=2):
        length = x.shape[axis]
        count = math.floor(length * number) if size is None else int(number)
        scale = number if size is None else count / length
        x = np.take(x, np.minimum(np.floor(np.arange(count) / scale).astype(np.int64), length - 1), axis=axis)
    return x
