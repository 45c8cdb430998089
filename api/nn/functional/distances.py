"""Distances and similarities of vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.types import is_half
from adjit.nn.functional.arguments import Array, floating, refuse_shape
from adjit.tracer.array import wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions.composites import vector_norm


@dispatched
def cosine_similarity(x1: Array, x2: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    """`sum(x1 * x2) / (max(norm(x1), eps) * max(norm(x2), eps))` along `dim` of the shape that both are broadcast to.

    The derivative of a norm is as if there were no bound `eps`, and 0 at 0.

    >>> cosine_similarity(np.array([[1.0, 0.0]]), np.array([[3.0, 4.0]]))
    array([0.6])
    """
    first, second = floating(x1, "cosine_similarity"), floating(x2, "cosine_similarity")
    try:
        both = np.broadcast_arrays(first, second)
    except ValueError:
        refuse_shape(f"cosine_similarity: shapes {first.shape} and {second.shape} do not broadcast")
    one, other = (each / _norm(each, dim, eps) for each in both)
    return np.sum(one * other, axis=dim)


def _norm(x: Any, dim: int, eps: float) -> Any:
    norm = vector_norm(x.astype(np.float32) if is_half(x.dtype) else x, 2.0, dim, True).astype(x.dtype)
    return norm + wrap(ops.stop_gradient((np.maximum(norm, eps) - norm).value))


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
def pdist(input: Array, p: float = 2.0) -> Array:
    """`sum(abs(a - b)**p)**(1 / p)` of each pair of rows of `input`, (N, D): N * (N - 1) / 2 numbers, in order of the first row.

    `p` may be 0 (number of different elements) or infinite. The derivative is 0 for equal rows. Raises `ShapeError` for other shapes.

    >>> pdist(np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])).round(4)
    array([5.    , 1.    , 4.2426])
    """
    x = floating(input, "pdist")
    if x.ndim != 2:
        refuse_shape(f"pdist takes a matrix (N, D), got the shape {x.shape}")
    first, second = np.triu_indices(x.shape[0], 1)
    difference = np.take(x, first, axis=0) - np.take(x, second, axis=0)
    return vector_norm(difference, p, 1, False)
