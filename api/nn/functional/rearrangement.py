"""Elements in another order: pixels out of channels and back, channels of groups interleaved."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from adjit.ir.errors import ArgumentError
from adjit.nn.functional.arguments import Array, refuse_shape
from adjit.tracer.array import as_traced
from adjit.tracer.dispatch import dispatched
from adjit.tracer.user_location import find_user_location


@dispatched
def pixel_shuffle(input: Array, upscale_factor: int) -> Array:
    """(..., C * r * r, H, W) to (..., C, H * r, W * r): each r * r channels become the pixels of a square.

    Raises `ShapeError` if the channels do not divide. Source: Shi et al., Real-Time Single Image and Video Super-Resolution Using an
    Efficient Sub-Pixel Convolutional Neural Network, arXiv:1609.05158.

    >>> pixel_shuffle(np.arange(4.0).reshape(4, 1, 1), 2)
    array([[[0., 1.],
            [2., 3.]]])
    """
    x: Any = as_traced(input)
    r = _factor(upscale_factor, "pixel_shuffle: upscale_factor")
    if x.ndim < 3 or x.shape[-3] % (r * r):
        refuse_shape(f"pixel_shuffle: the channels of the shape {x.shape} do not divide by {r} * {r}")
    *batch, channels, height, width = x.shape
    x = np.reshape(x, (prod(batch), channels // (r * r), r, r, height, width))
    return np.reshape(np.transpose(x, (0, 1, 4, 2, 5, 3)), (*batch, channels // (r * r), height * r, width * r))


@dispatched
def pixel_unshuffle(input: Array, downscale_factor: int) -> Array:
    """Inverse of `pixel_shuffle`: (..., C, H * r, W * r) to (..., C * r * r, H, W).

    >>> pixel_unshuffle(np.arange(4.0).reshape(1, 2, 2), 2).ravel()
    array([0., 1., 2., 3.])
    """
    x: Any = as_traced(input)
    r = _factor(downscale_factor, "pixel_unshuffle: downscale_factor")
    if x.ndim < 3 or x.shape[-2] % r or x.shape[-1] % r:
        refuse_shape(f"pixel_unshuffle: an image of the shape {x.shape} does not divide by {r}")
    *batch, channels, height, width = x.shape
    x = np.reshape(x, (prod(batch), channels, height // r, r, width // r, r))
    return np.reshape(np.transpose(x, (0, 1, 3, 5, 2, 4)), (*batch, channels * r * r, height // r, width // r))


@dispatched
def channel_shuffle(input: Array, groups: int) -> Array:
    """Channels of (N, C, ...) in another order: the first of each group, then the second of each, and so on.

    Source: Zhang et al., ShuffleNet, arXiv:1707.01083.

    >>> channel_shuffle(np.arange(4.0).reshape(1, 4, 1), 2).ravel()
    array([0., 2., 1., 3.])
    """
    x, groups = as_traced(input), _factor(groups, "channel_shuffle: groups")
    if x.ndim < 3 or x.shape[1] % groups:
        refuse_shape(f"channel_shuffle takes (N, C, ...) with channels that divide into {groups} groups, got the shape {x.shape}")
    return np.reshape(np.swapaxes(np.reshape(x, (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])), 1, 2), x.shape)


def native_channel_shuffle(input: Array, groups: int) -> Array:
    """Another name of `channel_shuffle`.

    >>> native_channel_shuffle(np.arange(4.0).reshape(1, 4, 1), 2).ravel()
    array([0., 2., 1., 3.])
    """
    return channel_shuffle(input, groups)


def _factor(number: int, name: str) -> int:
    if number < 1:
        raise ArgumentError(f"{name} is positive, got {number}", find_user_location())
    return number
