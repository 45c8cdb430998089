"""Losses: of predictions and targets of the same shape, and of class scores and labels."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import numpy as np

from adjit.eager.checks import check_range, checked, known
from adjit.ir import ops
from adjit.ir.errors import ArgumentError
from adjit.ir.types import is_float
from adjit.nn.functional.activations import log_softmax, logsigmoid
from adjit.nn.functional.arguments import Array, Reduction, floating, integers, pair, parameter, reduction_of, refuse_shape
from adjit.nn.functional.linear_layers import is_label, linear
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.user_location import find_user_location


def _check_labels(function: str, input: Any, target: Any, weight: Any = None, size_average: Any = None, ignore_index: int = -100,
                  *rest: Any, **options: Any) -> None:
    check_labels(function, input, target, ignore_index)


def check_labels(function: str, input: Any, target: Any, ignore_index: int | None) -> None:
    """Raise `IndexingError` for a label that is no class of the scores, other than `ignore_index`."""
    shape = input.shape if hasattr(input, "shape") else np.shape(input)
    if shape:
        others = "" if ignore_index is None else "; those equal to ignore_index are left out"
        check_range(function, "label", target, shape[min(len(shape) - 1, 1)], "classes", ignore_index,
                    f"labels are numbers of classes, from 0{others}", "Target {} is out of bounds")


def _check_probabilities(input: Any, *rest: Any, **options: Any) -> None:
    array = known(input)
    if array is not None and not np.all((array >= 0.0) & (array <= 1.0)):
        wrong = array[~((array >= 0.0) & (array <= 1.0))]
        raise ArgumentError(f"binary_cross_entropy: the input holds probabilities, from 0 to 1; one of them is {wrong[0]}",
                            find_user_location(), hint="of scores, take binary_cross_entropy_with_logits")


@checked(partial(_check_labels, "cross_entropy"))
@dispatched
def cross_entropy(input: Array, target: Array, weight: Array | None = None, size_average: bool | None = None, ignore_index: int = -100,
                  reduce: bool | None = None, reduction: Reduction = "mean", label_smoothing: float = 0.0) -> Array:
    """`-log softmax(input)` at the target class.

    `input` is `(C,)`, `(N, C)` or `(N, C, ...)`: scores of C classes. `target` holds integer labels, of the shape of `input` without
    the class axis, or probabilities, of the shape of `input`. A label outside of `[0, C)` raises `IndexError`, and in
    compiled code gives NaN; but `ignore_index` gives 0 and does not count. `weight`, (C,), multiplies what each class contributes.
    `label_smoothing` in [0, 1] mixes the target with the uniform distribution. "mean" divides by the sum of the labels' weights (of
    probabilities, by the number of targets). The result has the dtype of `input`.

    >>> cross_entropy(np.array([[2.0, 0.0], [0.0, 1000.0]]), np.array([0, 1])).round(4)
    np.float64(0.0635)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    logits = floating(input, "cross_entropy")
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"cross_entropy: label_smoothing lies in [0, 1], got {label_smoothing}", find_user_location())
    axis, classes = _class_axis(logits, "cross_entropy")
    weight = _class_weight(weight, logits, axis, "cross_entropy")
    target = as_traced(target)
    log_probabilities = log_softmax(logits, axis)
    if is_float(target.dtype):
        if target.shape != logits.shape:
            refuse_shape(f"cross_entropy: the target is {target.dtype}, so it holds probabilities, and has the shape of the input, "
                         f"{logits.shape}; got {target.shape}", "labels of classes are integers: target.astype(np.int64)")
        mixed = target.astype(logits.dtype) * (1.0 - label_smoothing) + label_smoothing / classes
        return _reduce(-np.sum((mixed if weight is None else mixed * weight) * log_probabilities, axis=axis), reduction)
    return _of_labels(log_probabilities, target, weight, axis, ignore_index, reduction, label_smoothing, "cross_entropy")


@checked(partial(_check_labels, "nll_loss"))
@dispatched
def nll_loss(input: Array, target: Array, weight: Array | None = None, size_average: bool | None = None, ignore_index: int = -100,
             reduce: bool | None = None, reduction: Reduction = "mean") -> Array:
    """`-input` at the target class: `cross_entropy` of results of `log_softmax`, with integer labels.

    >>> nll_loss(np.log(np.array([[0.5, 0.5]])), np.array([1])).round(4)
    np.float64(0.6931)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    log_probabilities = floating(input, "nll_loss")
    axis, _ = _class_axis(log_probabilities, "nll_loss")
    weight = _class_weight(weight, log_probabilities, axis, "nll_loss")
    return _of_labels(log_probabilities, target, weight, axis, ignore_index, reduction, 0.0, "nll_loss")


@dispatched
def mse_loss(input: Array, target: Array, size_average: bool | None = None, reduce: bool | None = None, reduction: Reduction = "mean",
             weight: Array | None = None) -> Array:
    """`(input - target)**2`; both have the same shape. `weight`, of that shape, multiplies it; "mean" divides by the sum of the weights.

    >>> mse_loss(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    np.float64(2.0)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    prediction, target = pair(input, target, "mse_loss", broadcast=True)
    return _weighted_mean(np.square(prediction - target), weight, reduction, "mse_loss")


@dispatched
def l1_loss(input: Array, target: Array, size_average: bool | None = None, reduce: bool | None = None, reduction: Reduction = "mean",
            weight: Array | None = None) -> Array:
    """`abs(input - target)`; both have the same shape. The derivative at equal elements is 0. `weight` is as in `mse_loss`.

    >>> l1_loss(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    np.float64(1.0)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    prediction, target = pair(input, target, "l1_loss", broadcast=True)
    return _weighted_mean(np.abs(prediction - target), weight, reduction, "l1_loss")


@dispatched
def smooth_l1_loss(input: Array, target: Array, size_average: bool | None = None, reduce: bool | None = None, reduction: Reduction = "mean",
                   beta: float = 1.0) -> Array:
    """`0.5 * d**2 / beta` where the distance d is below `beta`, `d - 0.5 * beta` elsewhere; both have the same shape.

    Source: Girshick, Fast R-CNN, arXiv:1504.08083.

    >>> smooth_l1_loss(np.array([0.5, 3.0]), np.array([0.0, 0.0]), reduction="none")
    array([0.125, 2.5  ])
    """
    reduction = reduction_of(size_average, reduce, reduction)
    prediction, target = pair(input, target, "smooth_l1_loss", broadcast=True)
    if beta < 0.0:
        raise ArgumentError(f"smooth_l1_loss: beta is not negative, got {beta}", find_user_location())
    difference = prediction - target
    distance = np.abs(difference)
    if beta == 0.0:
        return _reduce(distance, reduction)
    return _reduce(np.where(distance < beta, np.square(difference) * (0.5 / beta), distance - 0.5 * beta), reduction)


@dispatched
def huber_loss(input: Array, target: Array, reduction: Reduction = "mean", delta: float = 1.0, weight: Array | None = None) -> Array:
    """`0.5 * d**2` where the distance d is below `delta`, `delta * (d - 0.5 * delta)` elsewhere; both have the same shape.

    `weight`, of that shape, multiplies it; "mean" divides by the number of elements.

    Source: Huber, Robust Estimation of a Location Parameter, Annals of Mathematical Statistics 35 (1964).

    >>> huber_loss(np.array([0.5, 3.0]), np.array([0.0, 0.0]), reduction="none", delta=2.0)
    array([0.125, 4.   ])
    """
    prediction, target = pair(input, target, "huber_loss", broadcast=True)
    if delta <= 0.0:
        raise ArgumentError(f"huber_loss: delta is positive, got {delta}", find_user_location())
    difference = prediction - target
    distance = np.abs(difference)
    loss = np.where(distance < delta, 0.5 * np.square(difference), delta * (distance - 0.5 * delta))
    return _reduce(loss if weight is None else loss * parameter(weight, loss.shape, "huber_loss", "weight"), reduction)


@checked(_check_probabilities)
@dispatched
def binary_cross_entropy(input: Array, target: Array, weight: Array | None = None, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: Reduction = "mean") -> Array:
    """`-(t * log(p) + (1 - t) * log(1 - p))` of probabilities p and targets t of the same shape.

    A probability outside of [0, 1] raises `ValueError`, and in compiled code gives NaN. Logarithms below -100 count as -100, with
    derivative 0; `weight` multiplies, and is broadcast. Of logits, use
    `binary_cross_entropy_with_logits`: it loses nothing near 0 and 1.

    >>> binary_cross_entropy(np.array([0.5, 0.0]), np.array([1.0, 0.0])).round(4)
    np.float64(0.3466)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    prediction, target = pair(input, target, "binary_cross_entropy")
    yes, no = np.maximum(np.log(prediction), -100.0), np.maximum(np.log1p(-prediction), -100.0)
    return _reduce(_weighted((target - 1.0) * no - target * yes, weight, "binary_cross_entropy"), reduction)


@dispatched
def binary_cross_entropy_with_logits(input: Array, target: Array, weight: Array | None = None, size_average: bool | None = None,
                                     reduce: bool | None = None, reduction: Reduction = "mean", pos_weight: Array | None = None) -> Array:
    """`-(t * log sigmoid(x) + (1 - t) * log sigmoid(-x))` of logits x and targets t in [0, 1] of the same shape; does not overflow.

    `weight` multiplies the loss, `pos_weight` its first term; both are broadcast.

    >>> binary_cross_entropy_with_logits(np.array([0.0, 1000.0]), np.array([1.0, 1.0])).round(4)
    np.float64(0.3466)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    logits, target = pair(input, target, "binary_cross_entropy_with_logits")
    if pos_weight is None:
        loss = np.logaddexp(logits, 0.0) - logits * target
    else:
        pos_weight = floating(pos_weight, "binary_cross_entropy_with_logits: pos_weight")
        loss = _fitting((1.0 - target) * logits - (1.0 + (pos_weight - 1.0) * target) * logsigmoid(logits), logits.shape,
                        "binary_cross_entropy_with_logits", "pos_weight")
    return _reduce(_weighted(loss, weight, "binary_cross_entropy_with_logits"), reduction)


@dispatched
def kl_div(input: Array, target: Array, size_average: bool | None = None, reduce: bool | None = None,
           reduction: Reduction | Literal["batchmean"] = "mean", log_target: bool = False) -> Array:
    """`target * (log(target) - input)`, both of the same shape; a target of 0 gives 0.

    With `log_target` the target is given as its logarithm. "batchmean" divides by the size of the first axis, as in the definition of the
    Kullback-Leibler divergence; "mean" divides by the number of elements.

    >>> kl_div(np.log(np.array([[0.5, 0.5]])), np.array([[1.0, 0.0]]), reduction="batchmean").round(4)
    np.float64(0.6931)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    log_probabilities, truth = pair(input, target, "kl_div", broadcast=True)
    if log_target:
        loss = np.exp(truth) * (truth - log_probabilities)
    else:
        nothing = truth == 0
        logarithm = np.where(nothing, 0.0, truth * np.log(np.where(nothing, 1.0, truth)))
        loss = logarithm - truth * log_probabilities
    if reduction == "batchmean":
        if not loss.ndim:
            refuse_shape("kl_div: reduction 'batchmean' divides by the size of the first axis, and there is none")
        return np.sum(loss) / float(loss.shape[0])
    return _reduce(loss, reduction)


def _check_variance(input: Any, target: Any, var: Any, *rest: Any, **options: Any) -> None:
    array = known(var)
    if array is not None and np.any(array < 0.0):
        raise ArgumentError(f"gaussian_nll_loss: var is not negative, one of its numbers is {array.min()}", find_user_location())


@checked(_check_variance)
@dispatched
def gaussian_nll_loss(input: Array, target: Array, var: Array | float, full: bool = False, eps: float = 1e-6,
                      reduction: Reduction = "mean") -> Array:
    """`(log(v) + (input - target)**2 / v) / 2` with `v = max(var, eps)`; `full` adds `log(2 * pi) / 2`.

    `var` is a number, or has the shape of `input`, perhaps without the last dimension or with one dimension of 1; raises `ShapeError` for
    other shapes, and `ValueError` for a negative one, when it runs. The derivative is as if there were no bound `eps`.
    Source: Nix and Weigend, Estimating the mean and variance of the target probability distribution, 1994.

    >>> float(gaussian_nll_loss(np.array([1.0]), np.array([3.0]), np.array([1.0])))
    2.0
    """
    x = floating(input, "gaussian_nll_loss")
    variance = floating(var, "gaussian_nll_loss").astype(x.dtype)       # type: ignore[arg-type]
    if variance.ndim and variance.shape == x.shape[:-1]:
        variance = np.expand_dims(variance, -1)
    elif variance.ndim and variance.shape != x.shape:
        fits = variance.ndim == x.ndim and all(size in (1, number) for number, size in zip(x.shape, variance.shape, strict=True))
        if not fits or sum(number != size for number, size in zip(x.shape, variance.shape, strict=True)) != 1:
            refuse_shape(f"gaussian_nll_loss: var has the shape of the input, {x.shape}, or one dimension of 1 or less; got "
                         f"{variance.shape}")
    variance = variance + wrap(ops.stop_gradient((np.maximum(variance, eps) - variance).value))
    loss = 0.5 * (np.log(variance) + (x - target) ** 2 / variance)
    return _reduce(loss + 0.5 * math.log(2.0 * math.pi) if full else loss, reduction)


@dispatched
def poisson_nll_loss(input: Array, target: Array, log_input: bool = True, full: bool = False, size_average: bool | None = None,
                     eps: float = 1e-8, reduce: bool | None = None, reduction: Reduction = "mean") -> Array:
    """`exp(input) - target * input`, or without `log_input` `input - target * log(input + eps)`.

    `full` adds Stirling's formula for `log(target!)`, `t * log(t) - t + log(2 * pi * t) / 2`, where the target is above 1.

    >>> poisson_nll_loss(np.array([0.0, 0.0]), np.array([1.0, 3.0]), full=True, reduction="none").round(4)
    array([1.    , 2.7641])
    """
    reduction = reduction_of(size_average, reduce, reduction)
    x = floating(input, "poisson_nll_loss")
    count: Any = as_traced(target).astype(x.dtype)
    loss = np.exp(x) - count * x if log_input else x - count * np.log(x + eps)
    if full:
        large = np.where(count > 1.0, count, 1.0)
        loss = loss + np.where(count > 1.0, large * np.log(large) - large + 0.5 * np.log(2.0 * math.pi * large), 0.0)
    return _reduce(loss, reduction)


def linear_cross_entropy(input: Array, linear_weight: Array, target: Array, *, linear_bias: Array | None = None,
                         weight: Array | None = None, reduction: Reduction = "mean", ignore_index: int | None = None,
                         label_smoothing: float = 0.0, options: Any = None) -> Array:
    """`cross_entropy(linear(input, linear_weight, linear_bias), target)`: inputs (N, in_features) or without N, weights (C, in_features).

    A weight (C, ..., in_features) and a bias (C, ...) give scores (N, C, ...). `options`, PyTorch's of how to save memory, are not used.

    >>> linear_cross_entropy(np.ones((1, 1)), np.array([[2.0], [0.0]]), np.array([0])).round(4)
    np.float64(0.1269)
    """
    shape = tuple(linear_weight.shape)
    if len(shape) < 2:
        refuse_shape(f"linear_cross_entropy: linear_weight has the shape (C, in_features) or (C, ..., in_features), got {shape}")
    flat = [each if each is None or len(shape) == 2 else each.reshape(sizes)        # type: ignore[attr-defined]
            for each, sizes in ((linear_weight, (-1, shape[-1])), (linear_bias, (-1,)))]
    scores = linear(input, *flat)
    if len(shape) > 2:
        scores = scores.reshape((input.shape[0], *shape[:-1]))
    return cross_entropy(scores, target, weight, None, -100 if ignore_index is None else ignore_index, None, reduction, label_smoothing)


def _class_axis(scores: Any, function: str) -> tuple[int, int]:
    """Return the axis of the classes and their number."""
    if scores.ndim == 0:
        refuse_shape(f"{function}: scores have shape (C,), (N, C) or (N, C, ...), got ()")
    axis = 0 if scores.ndim == 1 else 1
    return axis, scores.shape[axis]


def _class_weight(weight: Any | None, scores: Any, axis: int, function: str) -> Any | None:
    """Return the weight of each class, shaped to be broadcast against the scores."""
    if isinstance(weight, str):
        raise TypeError(f"{function}: weight is an array of one number a class; reduction={weight!r} is given by name")
    weight = parameter(weight, scores.shape[axis:axis + 1], function, "weight")
    return None if weight is None else np.reshape(weight, (weight.size, *(1,) * (scores.ndim - axis - 1))).astype(scores.dtype)


def _of_labels(log_probabilities: Any, labels: Any, weight: Any | None, axis: int, ignore_index: int, reduction: Reduction,
               label_smoothing: float, function: str) -> Any:
    """Minus the log-probability at each label; NaN for a label that is no class."""
    labels = integers(labels, function)
    expected = log_probabilities.shape[:axis] + log_probabilities.shape[axis + 1:]
    if labels.shape != expected:
        refuse_shape(f"{function}: labels of scores {log_probabilities.shape} have shape {expected}, got {labels.shape}")
    classes = log_probabilities.shape[axis]
    chosen, ignored = is_label(labels, classes, axis), _is_number(labels, ignore_index)
    scores = log_probabilities if weight is None else weight * log_probabilities
    mean = reduction == "mean" and labels.size > 0 and not (weight is None and ignored is None)
    share = _share(chosen, weight, ignored, axis, log_probabilities.dtype) if mean else None
    if share is not None:       # here and not at the end, so that one kernel reads the scores for the loss and its derivative
        scores = scores * share
    loss = -np.sum(np.where(chosen, scores, 0.0), axis=axis)
    if label_smoothing:
        loss = (1.0 - label_smoothing) * loss - (label_smoothing / classes) * np.sum(scores, axis=axis)
    loss = np.where((labels >= 0) & (labels < classes), loss, np.nan)
    if ignored is not None:
        loss = np.where(ignored, 0.0 if share is None else 0.0 * share, loss)
    return np.sum(loss) if mean else _reduce(loss, reduction)


def _share(chosen: Any, weight: Any | None, ignored: Any, axis: int, dtype: np.dtype) -> Any:
    """Count of a loss of weight 1 in the mean; infinite if nothing counts."""
    if weight is None:
        return 1.0 / np.sum((~ignored).astype(dtype))
    counted = np.sum(np.where(chosen, weight, 0.0), axis=axis)
    return 1.0 / np.sum(counted if ignored is None else np.where(ignored, 0.0, counted))


def _is_number(labels: Any, number: int) -> Any | None:
    """True for labels that are equal to a number; None if their dtype does not hold it."""
    limits = np.iinfo(labels.dtype)
    return labels == number if limits.min <= number <= limits.max else None


def _weighted(loss: Any, weight: Any | None, function: str) -> Any:
    if weight is None:
        return loss
    if isinstance(weight, str):
        raise TypeError(f"{function}: weight is an array; reduction={weight!r} is given by name")
    return _fitting(loss * floating(weight, f"{function}: weight").astype(loss.dtype), loss.shape, function, "weight")


def _weighted_mean(loss: Any, weight: Any | None, reduction: Any, function: str) -> Any:
    """Reduce a loss; the mean with weights is that of as many elements as they sum up to."""
    if weight is None:
        return _reduce(loss, reduction)
    weight = parameter(weight, loss.shape, function, "weight")
    return np.sum(loss * weight) / np.sum(weight) if reduction == "mean" else _reduce(loss * weight, reduction)


def _fitting(loss: Any, shape: tuple[int, ...], function: str, what: str) -> Any:
    if loss.shape != shape:
        refuse_shape(f"{function}: {what} has to broadcast to the shape of the prediction, {shape}; it makes {loss.shape}")
    return loss


def _reduce(loss: Any, reduction: Any) -> Any:
    if reduction == "none":
        return loss
    if reduction == "sum":
        return np.sum(loss)
    if reduction == "mean":
        return np.mean(loss)
    raise ArgumentError(f"reduction is 'mean', 'sum' or 'none', got {reduction!r}", find_user_location())
