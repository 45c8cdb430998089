"""Distances and similarities, and losses based on them; and the loss of a normal distribution."""

from __future__ import annotations

import math

import numpy as np

from adjit.ir import ops
from adjit.nn.functional.arguments import Array, Reduction, floating
from adjit.nn.functional.losses import _reduce
from adjit.tracer.array import wrap
from adjit.tracer.dispatch import dispatched


@dispatched
def cosine_similarity(x1: Array, x2: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    """`sum(x1 * x2) / (max(norm(x1), eps) * max(norm(x2), eps))` along `dim`.

    >>> cosine_similarity(np.array([[1.0, 0.0]]), np.array([[3.0, 4.0]]))
    array([0.6])
    """
    x1, x2 = floating(x1, "cosine_similarity"), floating(x2, "cosine_similarity")
    squares = [np.maximum(np.sum(x * x, axis=dim), eps * eps) for x in (x1, x2)]
    return np.sum(x1 * x2, axis=dim) / np.sqrt(squares[0] * squares[1])


@dispatched
def pairwise_distance(x1: Array, x2: Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Array:
    """`sum(abs(x1 - x2 + eps)**p)**(1 / p)` along the last dimension.

    >>> pairwise_distance(np.array([[1.0, 1.0]]), np.array([[4.0, 5.0]])).round(4)
    array([5.])
    """
    difference = np.abs(floating(x1, "pairwise_distance") - floating(x2, "pairwise_distance") + eps)
    if p == 2.0:
        return np.sqrt(np.sum(difference * difference, axis=-1, keepdims=keepdim))
    if p == math.inf:
        return np.max(difference, axis=-1, keepdims=keepdim)
    return np.sum(difference ** p, axis=-1, keepdims=keepdim) ** (1.0 / p)


@dispatched
def triplet_margin_loss(anchor: Array, positive: Array, negative: Array, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
                        swap: bool = False, reduction: Reduction = "mean") -> Array:
    """`max(distance(anchor, positive) - distance(anchor, negative) + margin, 0)`, see `pairwise_distance`.

    With `swap` the negative's distance is the smaller one of its distances to the anchor and to the positive. Source: Balntas et al.,
    Learning local feature descriptors with triplets and shallow convolutional neural networks, 2016.

    >>> float(triplet_margin_loss(np.zeros((1, 1)), np.ones((1, 1)), 0.5 * np.ones((1, 1))).round(4))
    1.5
    """
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = np.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduce(np.maximum(near - far + margin, 0.0), reduction)


@dispatched
def margin_ranking_loss(input1: Array, input2: Array, target: Array, margin: float = 0.0, reduction: Reduction = "mean") -> Array:
    """`max(-target * (input1 - input2) + margin, 0)`: `target` 1 wants the first larger, -1 the second.

    >>> float(margin_ranking_loss(np.array([1.0]), np.array([3.0]), np.array([1.0])))
    2.0
    """
    first, second = floating(input1, "margin_ranking_loss"), floating(input2, "margin_ranking_loss")
    return _reduce(np.maximum(-target * (first - second) + margin, 0.0), reduction)


@dispatched
def gaussian_nll_loss(input: Array, target: Array, var: Array, full: bool = False, eps: float = 1e-6,
                      reduction: Reduction = "mean") -> Array:
    """`(log(v) + (input - target)**2 / v) / 2` with `v = max(var, eps)`; `full` adds `log(2 * pi) / 2`.

    The derivative is as if there were no bound `eps`. Source: Nix and Weigend, Estimating the mean and variance of the target probability
    distribution, 1994.

    >>> float(gaussian_nll_loss(np.array([1.0]), np.array([3.0]), np.array([1.0])))
    2.0
    """
    x, variance = floating(input, "gaussian_nll_loss"), floating(var, "gaussian_nll_loss")
    variance = variance + wrap(ops.stop_gradient((np.maximum(variance, eps) - variance).value))
    return _reduce(0.5 * (np.log(variance) + (x - target) ** 2 / variance) + (0.5 * math.log(2 * math.pi) if full else 0.0), reduction)
