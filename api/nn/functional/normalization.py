"""Normalisation: to mean 0 and variance 1 over the batch, over groups of channels or over features, and to length 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor
from adjit.ir import ops
from adjit.ir.errors import ArgumentError
from adjit.ir.types import float_limits, is_half
from adjit.nn.functional.arguments import Array, dimension, floating, parameter, refuse_shape
from adjit.tracer.array import wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.user_location import find_user_location


@dispatched
def layer_norm(input: Array, normalized_shape: int | Sequence[int], weight: Array | None = None, bias: Array | None = None,
               eps: float = 1e-5) -> Array:
    """`(input - mean) / sqrt(var + eps) * weight + bias`, mean and (biased) variance over the last dimensions.

    `normalized_shape` is the shape of those dimensions, and of `weight` and `bias`. Raises `ShapeError` if they differ.
    Source: Ba, Kiros and Hinton, Layer Normalization, arXiv:1607.06450.

    >>> layer_norm(np.array([[1.0, 3.0]]), 2).round(3)
    array([[-1.,  1.]])
    """
    x = floating(input, "layer_norm")
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or x.shape[-len(shape):] != shape:
        refuse_shape(f"layer_norm: normalized_shape {shape} is not the end of the shape {x.shape}")
    weight, bias = parameter(weight, shape, "layer_norm", "weight"), parameter(bias, shape, "layer_norm", "bias")
    return _scaled(_standardised(x, tuple(range(x.ndim - len(shape), x.ndim)), eps)[0], weight, bias)


def batch_norm(input: Array, running_mean: Array | None = None, running_var: Array | None = None, weight: Array | None = None,
               bias: Array | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Array:
    """`(input - mean) / sqrt(var + eps) * weight + bias` for each channel of `input`, (N, C) or (N, C, ...).

    With `training`, mean and (biased) variance are computed from the batch, and running ones that are tensors are updated in place:
    `running = (1 - momentum) * running + momentum * new`, with the unbiased variance; arrays stay as they are. Else the running ones are
    used. All parameters have shape (C,). Raises `ShapeError` for other shapes and, in training, for a batch of one value per channel,
    `ValueError` without statistics. Source: Ioffe and Szegedy, Batch Normalization, arXiv:1502.03167.

    >>> batch_norm(np.array([[1.0], [3.0]]), training=True).round(3)
    array([[-1.],
           [ 1.]])
    """
    if not training or not any(isinstance(running, Tensor) for running in (running_mean, running_var)):
        return _batch_norm(input, running_mean, running_var, weight, bias, training, eps)
    normal, *statistics = batch_norm_with_statistics(input, weight, bias, eps)
    with no_grad():
        for running, new in zip((running_mean, running_var), statistics, strict=True):
            if isinstance(running, Tensor):
                running.mul_(1.0 - momentum).add_(new.detach().to(running.dtype), alpha=momentum)
    return normal


@dispatched
def _batch_norm(input: Array, running_mean: Array | None, running_var: Array | None, weight: Array | None, bias: Array | None,
                training: bool, eps: float) -> Array:
    """As `batch_norm`, which changes nothing."""
    if training:
        return batch_norm_with_statistics(input, weight, bias, eps)[0]
    x, weight, bias = _channels(input, weight, bias, "batch_norm")
    if running_mean is None or running_var is None:
        raise ArgumentError("batch_norm: outside of training it goes by running_mean and running_var: give both, or training=True",
                                find_user_location())
    mean = _beside(x, parameter(running_mean, x.shape[1:2], "batch_norm", "running_mean"))
    variance = _beside(x, parameter(running_var, x.shape[1:2], "batch_norm", "running_var"))
    return _narrowed(_scaled((x - mean) / np.sqrt(variance + eps), weight, bias), x.dtype)


@dispatched
def batch_norm_with_statistics(x: Array, weight: Array | None = None, bias: Array | None = None,
                               eps: float = 1e-5) -> tuple[Array, Array, Array]:
    """Result of `batch_norm` in training, with the mean and the unbiased variance of each channel of the batch, shape (C,).

    Running statistics are updated with the mean and the variance: `running = (1 - momentum) * running + momentum * new`.

    >>> [array.round(3).tolist() for array in batch_norm_with_statistics(np.array([[1.0], [3.0]]))]
    [[[-1.0], [1.0]], [2.0], [2.0]]
    """
    batch, weight, bias = _channels(x, weight, bias, "batch_norm")
    count = batch.size // max(batch.shape[1], 1)
    if count == 1:
        refuse_shape(f"batch_norm: one value a channel has no variance, shape {batch.shape}",
                     "train on larger batches, or call .eval() first")
    normal, mean, variance = _standardised(batch, (0, *range(2, batch.ndim)), eps)
    unbiased = np.reshape(variance, batch.shape[1:2]) * count / max(count - 1, 1)     # the quotient of both may round to 1
    return _narrowed(_scaled(normal, weight, bias), batch.dtype), np.reshape(mean, batch.shape[1:2]), unbiased


def _narrowed(x: Any, dtype: Any) -> Any:
    """The array in two bytes an element where the input was, beside parameters in four."""
    return x.astype(dtype) if is_half(dtype) else x


@dispatched
def group_norm(input: Array, num_groups: int, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5) -> Array:
    """`layer_norm` over groups of channels (and all dimensions after them) of `input`, (N, C, ...); `weight` and `bias` have shape (C,).

    Raises `ShapeError` if the channels do not divide into `num_groups`. Source: Wu and He, Group Normalization, arXiv:1803.08494.

    >>> group_norm(np.array([[1.0, 3.0, 5.0, 9.0]]), 2).round(3)
    array([[-1.,  1., -1.,  1.]])
    """
    x, weight, bias = _channels(input, weight, bias, "group_norm")
    if num_groups < 1 or x.shape[1] % num_groups:
        refuse_shape(f"group_norm: {x.shape[1]} channels do not divide into {num_groups} groups")
    grouped = np.reshape(x, (x.shape[0], num_groups, math.prod(x.shape[1:]) // num_groups))
    return _scaled(np.reshape(_standardised(grouped, (2,), eps)[0], x.shape), weight, bias)


@dispatched
def normalize(input: Array, p: float = 2.0, dim: Any = None, eps: float = 1e-12, *, axis: Any = None) -> Array:
    """`input / max(norm, eps)` with the p-norm over `dim` (or `axis`; default: 1).

    >>> normalize(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """
    given = floating(input, "normalize")
    x = given.astype(np.float32) if is_half(given.dtype) else given       # whose squares may be too large
    axis = dimension(axis, dim, "normalize")
    axis = 1 if axis is None else axis
    if p == 2.0:
        norm = np.sqrt(np.sum(np.square(x), axis=axis, keepdims=True))
    elif p == 1.0:
        norm = np.sum(np.abs(x), axis=axis, keepdims=True)
    elif p == np.inf:
        norm = np.max(np.abs(x), axis=axis, keepdims=True)
    elif p > 0.0:
        norm = np.sum(np.abs(x) ** p, axis=axis, keepdims=True) ** (1.0 / p)
    else:
        raise ArgumentError(f"normalize: p is positive, got {p}", find_user_location())
    return _narrowed(x / np.maximum(norm, eps), given.dtype)


def _standardised(x: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, Any, Any]:
    """Return `x` with mean 0 and variance 1 over the axes, and its original mean and biased variance, with these axes of size 1."""
    mean = np.mean(x, axis=axes, keepdims=True)
    centered = x - mean
    variance = np.mean(centered * centered, axis=axes, keepdims=True)
    return centered / np.sqrt(variance + eps), mean, variance


def _scaled(normal: Any, weight: Any | None, bias: Any | None) -> Any:
    if weight is not None:
        normal = normal * weight
    return normal if bias is None else normal + bias


def _channels(x: Any, weight: Any | None, bias: Any | None, function: str) -> tuple[Any, Any | None, Any | None]:
    """Return `x`, (N, C, ...), and its parameters of shape (C,), shaped to be broadcast against it."""
    x = floating(x, function)
    if x.ndim < 2:
        refuse_shape(f"{function} takes arrays of shape (N, C) or (N, C, ...), got {x.shape}")
    weight, bias = (parameter(array, x.shape[1:2], function, name) for array, name in ((weight, "weight"), (bias, "bias")))
    return x, _beside(x, weight), _beside(x, bias)


def _beside(x: Any, array: Any | None) -> Any:
    return None if array is None else np.reshape(array, (x.shape[1], *(1,) * (x.ndim - 2)))


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
    normal = x / np.sqrt(square + (float(float_limits(x.dtype).eps) if eps is None else eps))
    return normal if weight is None else normal * weight


@dispatched
def instance_norm(input: Array, running_mean: Array | None = None, running_var: Array | None = None, weight: Array | None = None,
                  bias: Array | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5) -> Array:
    """`(input - mean) / sqrt(var + eps) * weight + bias` for each channel of each element of a batch, (N, C, ...).

    Mean and (biased) variance are over the dimensions after the channels, or the running ones without `use_input_stats`. All parameters
    have the shape (C,). A pure function: the running statistics are not updated here, `momentum` is not used.
    Source: Ulyanov, Vedaldi and Lempitsky, Instance Normalization, arXiv:1607.08022.

    >>> instance_norm(np.array([[[1.0, 3.0]]])).round(3)
    array([[[-1.,  1.]]])
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, eps=eps)
    return instance_norm_with_statistics(input, weight, bias, eps)[0]


@dispatched
def instance_norm_with_statistics(x: Array, weight: Array | None = None, bias: Array | None = None,
                                  eps: float = 1e-5) -> tuple[Array, Array, Array]:
    """Result of `instance_norm`, with the means over the batch of the means and the unbiased variances, shape (C,).

    >>> [array.round(3).tolist() for array in instance_norm_with_statistics(np.array([[[1.0, 3.0]]]))]
    [[[[-1.0, 1.0]]], [2.0], [2.0]]
    """
    batch, weight, bias = _channels(x, weight, bias, "instance_norm")
    count = math.prod(batch.shape[2:])
    if batch.ndim < 3 or count == 1:
        refuse_shape(f"instance_norm takes (N, C, ...) with more than one element a channel, got the shape {batch.shape}")
    normal, mean, variance = _standardised(batch, tuple(range(2, batch.ndim)), eps)
    mean, variance = (np.mean(np.reshape(each, batch.shape[:2]), axis=0) for each in (mean, variance))
    return _scaled(normal, weight, bias), mean, variance * (count / max(count - 1, 1))


@dispatched
def local_response_norm(input: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Array:
    """`input / (k + alpha * mean of squares)**beta`, the mean over `size` neighbouring channels of (N, C, ...).

    Source: Krizhevsky, Sutskever and Hinton, ImageNet Classification with Deep Convolutional Neural Networks, 2012.

    >>> local_response_norm(np.array([[[1.0], [2.0]]]), 2, alpha=1.0, beta=1.0).ravel().round(4)
    array([0.6667, 0.5714])
    """
    x = floating(input, "local_response_norm")
    if x.ndim < 3 or size < 1:
        refuse_shape(f"local_response_norm takes (N, C, ...) and a positive size, got the shape {x.shape} and {size}")
    rows: Any = np.reshape(x * x, (x.shape[0], x.shape[1], math.prod(x.shape[2:])))
    windows = {"sizes": (size, 1), "stride": (1, 1), "low": (size // 2, 0), "high": ((size - 1) // 2, 0), "interior": (0, 0),
               "dilation": (1, 1)}
    total = wrap(ops.window_sum(rows.value, **windows))
    return x / (k + np.reshape(total, x.shape) * (alpha / size)) ** beta
