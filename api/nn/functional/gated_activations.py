"""Activations that multiply their input, or half of it, with a gate or a learned slope; and normalisation by the root mean square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.nn.functional.activations import relu6, softplus
from adjit.nn.functional.arguments import Array, floating, parameter, refuse_shape
from adjit.tracer.array import as_traced
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions.composites import sigmoid


@dispatched
def glu(input: Array, dim: int = -1) -> Array:
    """`a * sigmoid(b)` of the halves of `input` along `dim`. Raises `ShapeError` where it is odd.

    >>> glu(np.array([2.0, 0.0]))
    array([1.])
    """
    x = floating(input, "glu")
    if not -x.ndim <= dim < x.ndim or x.shape[dim] % 2:
        refuse_shape(f"glu: dimension {dim} of the shape {x.shape} does not divide into halves")
    first, gate = np.split(x, 2, axis=dim)
    return first * sigmoid(gate)


@dispatched
def mish(input: Array) -> Array:
    """`input * tanh(log(1 + exp(input)))`, elementwise.

    >>> mish(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.8651])
    """
    x = floating(input, "mish")
    return x * np.tanh(softplus(x))


@dispatched
def hardsigmoid(input: Array) -> Array:
    """`relu6(input + 3) / 6`, elementwise.

    >>> hardsigmoid(np.array([-4.0, 0.0, 1.5]))
    array([0.  , 0.5 , 0.75])
    """
    return relu6(floating(input, "hardsigmoid") + 3.0) / 6.0


@dispatched
def hardswish(input: Array) -> Array:
    """`input * relu6(input + 3) / 6`, elementwise.

    >>> hardswish(np.array([-4.0, 1.0, 5.0])).round(4)
    array([-0.    ,  0.6667,  5.    ])
    """
    x = floating(input, "hardswish")
    return x * hardsigmoid(x)


@dispatched
def prelu(input: Array, weight: Array) -> Array:
    """`input` where it is positive, `weight * input` elsewhere; `weight` has one number, or one for each of the second dimension.

    >>> prelu(np.array([-2.0, 3.0]), np.array([0.25]))
    array([-0.5,  3. ])
    """
    x = floating(input, "prelu")
    slope: Any = as_traced(weight)
    channels = x.shape[1] if x.ndim > 1 else 1
    if slope.shape not in ((), (1,), (channels,)):
        refuse_shape(f"prelu: weight has one number, or {channels} for an input of the shape {x.shape}, got the shape {slope.shape}")
    if slope.size > 1:
        slope = np.reshape(slope, (channels, *(1,) * (x.ndim - 2)))
    return np.where(x > 0, x, slope * x)


@dispatched
def rms_norm(input: Array, normalized_shape: int | Sequence[int], weight: Array | None = None, eps: float | None = None) -> Array:
    """`input / sqrt(mean(input**2) + eps) * weight`, the mean over the last dimensions, of the shape `normalized_shape`.

    `eps` is by default the machine epsilon of the dtype. Source: Zhang and Sennrich, Root mean square layer normalization,
    arXiv:1910.07467.

    >>> rms_norm(np.array([3.0, 4.0]), 2).round(4)
    array([0.8485, 1.1314])
    """
    x = floating(input, "rms_norm")
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or x.shape[-len(shape):] != shape:
        refuse_shape(f"rms_norm: normalized_shape {shape} is not the end of the shape {x.shape}")
    weight = parameter(weight, shape, "rms_norm", "weight")
    square = np.mean(x * x, axis=tuple(range(x.ndim - len(shape), x.ndim)), keepdims=True)
    normal = x / np.sqrt(square + (float(np.finfo(x.dtype).eps) if eps is None else eps))
    return normal if weight is None else normal * weight
