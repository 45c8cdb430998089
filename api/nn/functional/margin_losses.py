"""Losses with a margin: of distances, rankings, and class scores that have to exceed others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.eager.checks import checked
from adjit.ir import ops
from adjit.ir.errors import ArgumentError
from adjit.nn.functional.activations import logsigmoid
from adjit.nn.functional.arguments import Array, Reduction, floating, integers, parameter, reduction_of, refuse_shape
from adjit.nn.functional.distances import pairwise_distance
from adjit.nn.functional.linear_layers import is_label
from adjit.nn.functional.losses import _reduce, _weighted, check_labels
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.user_location import find_user_location


def _excess(x: Any) -> Any:
    """`max(x, 0)` with the derivative 0 at 0, as PyTorch's `clamp_min`."""
    return np.where(x <= 0.0, 0.0, x)


def _broadcasting(function: str, *arrays: Any) -> None:
    """Raise `ShapeError` unless the arrays broadcast."""
    try:
        np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        refuse_shape(f"{function}: shapes {', '.join(str(array.shape) for array in arrays)} do not broadcast")


@dispatched
def triplet_margin_loss(anchor: Array, positive: Array, negative: Array, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
                        swap: bool = False, size_average: bool | None = None, reduce: bool | None = None,
                        reduction: Reduction = "mean") -> Array:
    """`max(distance(anchor, positive) - distance(anchor, negative) + margin, 0)`, see `pairwise_distance`.

    With `swap` the negative's distance is the smaller one of its distances to the anchor and to the positive. Source: Balntas et al.,
    Learning local feature descriptors with triplets and shallow convolutional neural networks, 2016.

    >>> float(triplet_margin_loss(np.zeros((1, 1)), np.ones((1, 1)), 0.5 * np.ones((1, 1))).round(4))
    1.5
    """
    reduction = reduction_of(size_average, reduce, reduction)
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = np.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduce(_excess(near - far + margin), reduction)


@dispatched
def margin_ranking_loss(input1: Array, input2: Array, target: Array, margin: float = 0.0, size_average: bool | None = None,
                        reduce: bool | None = None, reduction: Reduction = "mean") -> Array:
    """`max(-target * (input1 - input2) + margin, 0)`: `target` 1 wants the first larger, -1 the second.

    >>> float(margin_ranking_loss(np.array([1.0]), np.array([3.0]), np.array([1.0])))
    2.0
    """
    reduction = reduction_of(size_average, reduce, reduction)
    first, second = floating(input1, "margin_ranking_loss"), floating(input2, "margin_ranking_loss")
    return _reduce(_excess(-target * (first - second) + margin), reduction)


def triplet_margin_with_distance_loss(anchor: Array, positive: Array, negative: Array, *,
                                      distance_function: Callable[[Any, Any], Any] | None = None, margin: float = 1.0, swap: bool = False,
                                      reduction: Reduction = "mean") -> Array:
    """`triplet_margin_loss` with a distance of your own, by default `pairwise_distance`.

    >>> float(triplet_margin_with_distance_loss(np.zeros(2), np.ones(2), np.ones(2), distance_function=lambda a, b: np.abs(a - b)))
    1.0
    """
    if not margin > 0.0:
        raise ArgumentError(f"triplet_margin_with_distance_loss: margin is positive, got {margin}", find_user_location())
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    return _triplet(near, far, distance(positive, negative) if swap else None, margin, reduction)


@dispatched
def _triplet(near: Any, far: Any, other: Any, margin: float, reduction: Any) -> Any:
    near, far = as_traced(near), as_traced(far)
    return _reduce(_excess(margin + near - (far if other is None else np.minimum(far, other))), reduction)


@dispatched
def hinge_embedding_loss(input: Array, target: Array, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
                         reduction: Reduction = "mean") -> Array:
    """`input` where `target` is 1, `max(margin - input, 0)` where it is -1; both have shapes that broadcast.

    >>> hinge_embedding_loss(np.array([2.0, 0.25]), np.array([1, -1]), reduction="none")
    array([2.  , 0.75])
    """
    reduction = reduction_of(size_average, reduce, reduction)
    x, target = floating(input, "hinge_embedding_loss"), as_traced(target)
    _broadcasting("hinge_embedding_loss", x, target)
    return _reduce(np.where(target != 1, _excess(margin - x), 0.0) + np.where(target != -1, x, 0.0), reduction)


@dispatched
def cosine_embedding_loss(input1: Array, input2: Array, target: Array, margin: float = 0.0, size_average: bool | None = None,
                          reduce: bool | None = None, reduction: Reduction = "mean") -> Array:
    """`1 - cos` where `target` is 1, `max(cos - margin, 0)` where it is -1, with the cosine of the angle of (N, D) or (D,) vectors.

    >>> cosine_embedding_loss(np.array([[1.0, 0.0]]), np.array([[3.0, 4.0]]), np.array([1])).round(4)
    np.float64(0.4)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    first, second = floating(input1, "cosine_embedding_loss"), floating(input2, "cosine_embedding_loss")
    target = as_traced(target)
    if first.shape != second.shape or first.ndim not in (1, 2) or target.shape != first.shape[:-1]:
        refuse_shape(f"cosine_embedding_loss takes two inputs (N, D) and a target (N,), or no N; got {first.shape}, {second.shape}, "
                     f"{target.shape}")
    squares = [np.sum(x * x, axis=-1) + _SMALLEST_SQUARE for x in (first, second)]
    cosine = np.sum(first * second, axis=-1) / np.sqrt(squares[0] * squares[1])
    return _reduce(np.where(target == 1, 1.0 - cosine, 0.0) + np.where(target == -1, _excess(cosine - margin), 0.0), reduction)


_SMALLEST_SQUARE = 1e-12


@dispatched
def soft_margin_loss(input: Array, target: Array, size_average: bool | None = None, reduce: bool | None = None,
                     reduction: Reduction = "mean") -> Array:
    """`log(1 + exp(-target * input))`, without overflow; targets are 1 or -1, of the shape of the input.

    >>> soft_margin_loss(np.array([0.0, 1000.0]), np.array([1.0, 1.0])).round(4)
    np.float64(0.3466)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    x, target = floating(input, "soft_margin_loss"), as_traced(target)
    _broadcasting("soft_margin_loss", x, target)
    return _reduce(np.logaddexp(-target.astype(x.dtype) * x, 0.0), reduction)


@dispatched
def multilabel_soft_margin_loss(input: Array, target: Array, weight: Array | None = None, size_average: bool | None = None,
                                reduce: bool | None = None, reduction: Reduction = "mean") -> Array:
    """Mean over the classes, the last dimension, of `binary_cross_entropy_with_logits`; `weight`, (C,), multiplies that of each class.

    >>> multilabel_soft_margin_loss(np.array([[0.0, 1000.0]]), np.array([[1.0, 1.0]])).round(4)
    np.float64(0.3466)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    x, target = floating(input, "multilabel_soft_margin_loss"), as_traced(target)
    if x.shape != target.shape or not x.ndim:
        refuse_shape(f"multilabel_soft_margin_loss: the input has the shape {x.shape}, the target {target.shape}")
    target = target.astype(x.dtype)
    loss = -(target * logsigmoid(x) + (1.0 - target) * logsigmoid(-x))
    return _reduce(np.sum(_weighted(loss, weight, "multilabel_soft_margin_loss"), axis=-1) / float(x.shape[-1]), reduction)


@dispatched
def multilabel_margin_loss(input: Array, target: Array, size_average: bool | None = None, reduce: bool | None = None,
                           reduction: Reduction = "mean") -> Array:
    """Sum over labels y and over other classes i of `max(1 - (input[y] - input[i]), 0) / C`, of scores (N, C) or (C,).

    `target` has the same shape, with the numbers of the labels of each row, up to the first -1.

    >>> float(multilabel_margin_loss(np.array([[0.1, 0.2, 0.4, 0.8]]), np.array([[3, 0, -1, 1]])).round(4))
    0.85
    """
    reduction = reduction_of(size_average, reduce, reduction)
    x, labels = floating(input, "multilabel_margin_loss"), integers(target, "multilabel_margin_loss")
    if x.shape != labels.shape or x.ndim not in (1, 2):
        refuse_shape(f"multilabel_margin_loss takes scores (N, C) or (C,) and labels of the same shape, got {x.shape} and {labels.shape}")
    counts = np.cumsum((labels < 0).astype(np.int64), axis=-1) == 0
    held = is_label(np.where(counts, labels, -1), x.shape[-1], -1)
    others = ~np.any(held, axis=-2)
    scores = np.take_along_axis(x, np.where(counts, labels, 0), -1)
    pairs = wrap(ops.relu((1.0 - (np.expand_dims(scores, -1) - np.expand_dims(x, -2))).value))
    used = np.expand_dims(counts, -1) & np.expand_dims(others, -2)
    return _reduce(np.sum(np.where(used, pairs, 0.0), axis=(-2, -1)) / float(x.shape[-1]), reduction)


@checked(lambda input, target, *rest, **options: check_labels("multi_margin_loss", input, target, None))
@dispatched
def multi_margin_loss(input: Array, target: Array, p: int = 1, margin: float = 1.0, weight: Array | None = None,
                      size_average: bool | None = None, reduce: bool | None = None, reduction: Reduction = "mean") -> Array:
    """Sum over other classes i than the label y of `max(margin - input[y] + input[i], 0)**p / C`, of scores (N, C) or (C,).

    `p` is 1 or 2; `weight`, (C,), multiplies the loss of each label.

    >>> float(multi_margin_loss(np.array([[0.1, 0.2, 0.4, 0.8]]), np.array([3])).round(4))
    0.325
    """
    reduction = reduction_of(size_average, reduce, reduction)
    x, given = floating(input, "multi_margin_loss"), integers(target, "multi_margin_loss")
    if p not in (1, 2):
        raise ArgumentError(f"multi_margin_loss: p is 1 or 2, got {p}", find_user_location())
    labels = given[0] if x.ndim == 1 and given.shape == (1,) else given
    if x.ndim not in (1, 2) or labels.shape != x.shape[:-1]:
        refuse_shape(f"multi_margin_loss takes scores (N, C) and labels (N,), or no N; got {x.shape} and {given.shape}")
    chosen = is_label(labels, x.shape[-1], -1)
    score = np.sum(np.where(chosen, x, 0.0), axis=-1, keepdims=True)
    pairs = wrap(ops.relu((margin - score + x).value))
    pairs = pairs if p == 1 else pairs * pairs
    factors = parameter(weight, x.shape[-1:], "multi_margin_loss", "weight")
    if factors is not None:
        pairs = pairs * np.sum(np.where(chosen, factors, 0.0), axis=-1, keepdims=True)
    loss = np.sum(np.where(chosen, 0.0, pairs), axis=-1) / float(x.shape[-1])
    return _reduce(np.reshape(loss, given.shape), reduction)
