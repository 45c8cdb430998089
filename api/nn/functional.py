"""The functions that networks are made of: activations, normalisation, losses.

Written in plain NumPy over traced arrays: they take traced and plain arrays alike, keep the dtype, and have exact derivatives.
Names, arguments and defaults are those of `torch.nn.functional`; `axis` is what it calls `dim`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from adjit import random
from adjit.ir import ops
from adjit.ir.errors import DTypeError, ShapeError
from adjit.ir.types import I64
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.entry import entry_point
from adjit.tracer.functions.composites import erf, log_softmax, logsumexp, sigmoid, softmax
from adjit.tracer.lowering import iota
from adjit.tracer.source import find_user_location

__all__ = [
    "binary_cross_entropy_with_logits", "cross_entropy", "dropout", "gelu", "l1_loss", "layer_norm", "log_softmax", "logsumexp", "mse_loss",
    "nll_loss", "one_hot", "relu", "sigmoid", "silu", "softmax", "softplus", "tanh",
]

Array = Any
Reduction = Literal["mean", "sum", "none"]


@entry_point
def relu(x: Array) -> Array:
    """`max(x, 0)`, elementwise. The derivative at 0 is 0; NaN stays NaN.

    >>> relu(np.array([-1.0, 0.0, 2.0]))
    array([0., 0., 2.])
    """
    return wrap(ops.relu(_floating(x, "relu").value))


@entry_point
def gelu(x: Array, approximate: Literal["none", "tanh"] = "none") -> Array:
    """`x * Phi(x)` with the standard normal's distribution function, elementwise; or its tanh approximation.

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, arXiv:1606.08415.

    >>> gelu(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.1587,  0.    ,  0.8413])
    """
    x = _floating(x, "gelu")
    if approximate == "none":
        return 0.5 * x * (1.0 + erf(x * _SQRT_HALF))
    if approximate == "tanh":
        return 0.5 * x * (1.0 + np.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)))
    raise ValueError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}")


@entry_point
def silu(x: Array) -> Array:
    """`x * sigmoid(x)`, elementwise; also known as swish.

    >>> silu(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.7311])
    """
    x = _floating(x, "silu")
    return x * sigmoid(x)


@entry_point
def softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """`log(1 + exp(beta * x)) / beta`, elementwise; `x` itself where `beta * x > threshold`.

    >>> softplus(np.array([-1000.0, 0.0, 50.0])).round(4)
    array([ 0.    ,  0.6931, 50.    ])
    """
    x = _floating(x, "softplus")
    scaled = x * beta
    return np.where(scaled > threshold, x, np.log1p(np.exp(scaled)) / beta)


@entry_point
def tanh(x: Array) -> Array:
    """The hyperbolic tangent, elementwise.

    >>> tanh(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.7616])
    """
    return np.tanh(_floating(x, "tanh"))


@entry_point
def layer_norm(x: Array, normalized_shape: int | Sequence[int], weight: Array | None = None, bias: Array | None = None,
               eps: float = 1e-5) -> Array:
    """`(x - mean) / sqrt(var + eps) * weight + bias`, mean and (biased) variance over the last dimensions.

    `normalized_shape` is the shape of those dimensions, and of `weight` and `bias`. Raises `ShapeError` where they differ.
    Source: Ba, Kiros and Hinton, Layer Normalization, arXiv:1607.06450.

    >>> layer_norm(np.array([[1.0, 3.0]]), 2).round(3)
    array([[-1.,  1.]])
    """
    x = _floating(x, "layer_norm")
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or x.shape[-len(shape):] != shape:
        raise ShapeError(f"layer_norm: normalized_shape {shape} is not the end of the shape {x.shape}", find_user_location())
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and np.shape(parameter) != shape:
            raise ShapeError(f"layer_norm: {name} has shape {np.shape(parameter)}, normalized_shape is {shape}", find_user_location())
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    centered = x - np.mean(x, axis=axes, keepdims=True)
    variance = np.mean(centered * centered, axis=axes, keepdims=True)
    normal = centered / np.sqrt(variance + eps)
    if weight is not None:
        normal = normal * weight
    return normal if bias is None else normal + bias


@entry_point
def one_hot(labels: Array, num_classes: int, dtype: Any = np.int64) -> Array:
    """Integer labels of any shape to vectors with a 1 at the label: shape `(*labels.shape, num_classes)`.

    A label outside of `[0, num_classes)` gives zeros.

    >>> one_hot(np.array([0, 2]), 3)
    array([[1, 0, 0],
           [0, 0, 1]])
    """
    return _is_label(_integers(labels, "one_hot"), num_classes, -1).astype(dtype)


@entry_point
def cross_entropy(logits: Array, target: Array, reduction: Reduction = "mean", label_smoothing: float = 0.0) -> Array:
    """`-log softmax(logits)` at the target class.

    `logits` is `(C,)`, `(N, C)` or `(N, C, ...)`: scores of C classes. `target` holds integer labels, of the shape of `logits` without
    the class axis, or probabilities, of the shape of `logits`. A label outside of `[0, C)` gives NaN. `label_smoothing` in [0, 1]
    mixes the target with the uniform distribution. "mean" divides by the number of targets. The result has the dtype of `logits`.

    >>> cross_entropy(np.array([[2.0, 0.0], [0.0, 1000.0]]), np.array([0, 1])).round(4)
    np.float64(0.0635)
    """
    logits = _floating(logits, "cross_entropy")
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"cross_entropy: label_smoothing lies in [0, 1], got {label_smoothing}")
    axis, classes = _class_axis(logits, "cross_entropy")
    target = as_traced(target)
    log_probabilities = log_softmax(logits, axis)
    if target.dtype.kind == "f":
        if target.shape != logits.shape:
            raise ShapeError(f"cross_entropy: probabilities have the shape of the logits, {logits.shape}; got {target.shape}",
                             find_user_location())
        mixed = target.astype(logits.dtype) * (1.0 - label_smoothing) + label_smoothing / classes
        return _reduce(-np.sum(mixed * log_probabilities, axis=axis), reduction)
    loss = _pick(log_probabilities, target, axis, "cross_entropy")
    if label_smoothing:
        loss = (1.0 - label_smoothing) * loss - (label_smoothing / classes) * np.sum(log_probabilities, axis=axis)
    return _reduce(loss, reduction)


@entry_point
def nll_loss(log_probabilities: Array, target: Array, reduction: Reduction = "mean") -> Array:
    """`-log_probabilities` at the target class: `cross_entropy` of what `log_softmax` gave, with integer labels.

    >>> nll_loss(np.log(np.array([[0.5, 0.5]])), np.array([1])).round(4)
    np.float64(0.6931)
    """
    log_probabilities = _floating(log_probabilities, "nll_loss")
    axis, _ = _class_axis(log_probabilities, "nll_loss")
    return _reduce(_pick(log_probabilities, target, axis, "nll_loss"), reduction)


@entry_point
def mse_loss(prediction: Array, target: Array, reduction: Reduction = "mean") -> Array:
    """`(prediction - target)**2`; both have the same shape.

    >>> mse_loss(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    np.float64(2.0)
    """
    prediction, target = _pair(prediction, target, "mse_loss")
    return _reduce(np.square(prediction - target), reduction)


@entry_point
def l1_loss(prediction: Array, target: Array, reduction: Reduction = "mean") -> Array:
    """`abs(prediction - target)`; both have the same shape. The derivative where they are equal is 0.

    >>> l1_loss(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    np.float64(1.0)
    """
    prediction, target = _pair(prediction, target, "l1_loss")
    return _reduce(np.abs(prediction - target), reduction)


@entry_point
def binary_cross_entropy_with_logits(logits: Array, target: Array, reduction: Reduction = "mean") -> Array:
    """`-(t * log sigmoid(x) + (1 - t) * log sigmoid(-x))` of logits x and targets t in [0, 1] of the same shape; does not overflow.

    >>> binary_cross_entropy_with_logits(np.array([0.0, 1000.0]), np.array([1.0, 1.0])).round(4)
    np.float64(0.3466)
    """
    logits, target = _pair(logits, target, "binary_cross_entropy_with_logits")
    return _reduce(np.logaddexp(logits, 0.0) - logits * target, reduction)


@entry_point
def dropout(x: Array, rate: float, key: Array) -> Array:
    """Each element of `x` zero with probability `rate`, else divided by `1 - rate`; `key` from `adjit.random`.

    >>> from adjit import random
    >>> dropout(np.ones(4), 0.5, random.key(0)).shape
    (4,)
    """
    x = _floating(x, "dropout")
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"dropout: rate lies in [0, 1], got {rate}")
    kept = random.bernoulli(key, 1.0 - rate, x.shape)
    return np.where(kept, x * (1.0 / (1.0 - rate) if rate < 1.0 else 0.0), 0.0)


_SQRT_HALF = 0.5 ** 0.5
_SQRT_2_OVER_PI = (2.0 / np.pi) ** 0.5


def _floating(x: Array, function: str) -> Array:
    array = as_traced(x)
    if array.dtype.kind != "f":
        raise DTypeError(f"{function} takes floating-point arrays, got {array.dtype}", find_user_location(),
                         hint="convert the array with .astype(np.float32) or .astype(np.float64) first")
    return array


def _integers(labels: Array, function: str) -> Array:
    array = as_traced(labels)
    if array.dtype.kind not in "iu":
        raise DTypeError(f"{function}: labels are integers, got {array.dtype}", find_user_location(),
                         hint="convert them with .astype(np.int64)")
    return array


def _pair(prediction: Array, target: Array, function: str) -> tuple[Array, Array]:
    """Both of the same shape; a target of integers or bools counts as numbers of the prediction's dtype."""
    prediction, target = _floating(prediction, function), as_traced(target)
    if prediction.shape != target.shape:
        raise ShapeError(f"{function}: the prediction has shape {prediction.shape}, the target {target.shape}", find_user_location(),
                         hint="reshape one of them; they are not broadcast")
    return prediction, target if target.dtype.kind == "f" else target.astype(prediction.dtype)


def _class_axis(scores: Array, function: str) -> tuple[int, int]:
    """The axis of the classes and how many there are."""
    if scores.ndim == 0:
        raise ShapeError(f"{function}: scores have shape (C,), (N, C) or (N, C, ...), got ()", find_user_location())
    axis = 0 if scores.ndim == 1 else 1
    return axis, scores.shape[axis]


def _is_label(labels: Array, classes: int, axis: int) -> Array:
    """Along a new axis: whether the label is that class. A comparison with a counter, so that it fuses with what surrounds it."""
    labels = np.expand_dims(labels, axis)
    axis %= labels.ndim
    shape = (*labels.shape[:axis], classes, *labels.shape[axis + 1:])
    return labels == wrap(iota(I64, shape, axis))


def _pick(log_probabilities: Array, labels: Array, axis: int, function: str) -> Array:
    """Minus the log-probability at each label; NaN for a label that is no class."""
    labels = _integers(labels, function)
    expected = log_probabilities.shape[:axis] + log_probabilities.shape[axis + 1:]
    if labels.shape != expected:
        raise ShapeError(f"{function}: labels of scores {log_probabilities.shape} have shape {expected}, got {labels.shape}",
                         find_user_location())
    classes = log_probabilities.shape[axis]
    picked = np.sum(np.where(_is_label(labels, classes, axis), log_probabilities, 0.0), axis=axis)
    return np.where((labels >= 0) & (labels < classes), -picked, np.nan)


def _reduce(loss: Array, reduction: Reduction) -> Array:
    if reduction == "none":
        return loss
    if reduction == "sum":
        return np.sum(loss)
    if reduction == "mean":
        return np.mean(loss)
    raise ValueError(f"reduction is 'mean', 'sum' or 'none', got {reduction!r}")
