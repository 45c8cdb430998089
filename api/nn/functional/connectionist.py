"""Loss of connectionist temporal classification: labels of a sequence without their places."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.eager.checks import check_range, known
from adjit.eager.tensor import Tensor, as_tensor
from adjit.ir.errors import ArgumentError
from adjit.nn.functional.arguments import Array, Reduction, floating, integers, refuse_shape
from adjit.runtime.control_flow import scan
from adjit.tracer.array import as_traced
from adjit.tracer.dispatch import dispatched
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location


def ctc_loss(log_probs: Array, targets: Array, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: Reduction = "mean",
             zero_infinity: bool = False) -> Array:
    """Minus the log-probability of `targets`, summed over all ways to spread them over the steps, with blanks between.

    `log_probs` is (T, N, C) or (T, C), results of `log_softmax`; `targets` are integers (N, S), or all one after the other, (sum,);
    `input_lengths` and `target_lengths` (N,) say how many steps and labels of each sequence count. "mean" divides each loss by its number
    of labels first. A sequence that is too short for its labels has an infinite loss, or with `zero_infinity` one of 0, without a gradient.
    The derivative is that in `log_probs`, as if they were independent: PyTorch's own differs by the derivative of `log_softmax`, after
    which both are the same. Raises `ShapeError` for other shapes, `IndexError` for labels out of range, when it runs.
    Source: Graves et al., Connectionist Temporal Classification, 2006.

    >>> log_probs = np.log(np.full((2, 1, 2), 0.5))
    >>> float(ctc_loss(log_probs, np.array([[1]]), [2], [1]).round(4))
    0.2877
    """
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(f"ctc_loss: reduction is 'mean', 'sum' or 'none', got {reduction!r}", find_user_location())
    steps, labels = (np.asarray(each, np.int64) if isinstance(each, (int, tuple, list)) else each
                     for each in (input_lengths, target_lengths))
    classes = log_probs.shape[-1]
    if not 0 <= blank < classes:
        raise ArgumentError(f"ctc_loss: blank is one of {classes} classes, got {blank}", find_user_location())
    most = None
    counts = known(labels)
    if counts is not None:
        most = int(counts.max(initial=0))
        if known(targets) is not None and len(targets.shape) == 1:
            check_range("ctc_loss", "label", targets, classes, "classes")
    lengths = known(steps)
    if lengths is not None and lengths.max(initial=0) > log_probs.shape[0]:
        raise ArgumentError(f"ctc_loss: input_lengths are at most {log_probs.shape[0]}, the number of steps; got {lengths.max()}",
                            find_user_location())
    if isinstance(log_probs, Tensor) and log_probs.is_cuda and not is_tracing():
        targets, steps, labels = (as_tensor(each, device=log_probs.device) for each in (targets, steps, labels))
    return _loss(log_probs, targets, steps, labels, blank, reduction, zero_infinity, most)


@dispatched
def _loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int, reduction: str, zero_infinity: bool,
          most: int | None) -> Any:
    x, labels = floating(log_probs, "ctc_loss"), integers(targets, "ctc_loss").astype(np.int64)
    steps, counts = (integers(each, "ctc_loss", "lengths").astype(np.int64) for each in (input_lengths, target_lengths))
    batched = x.ndim == 3
    if not batched:
        x, steps, counts = (np.expand_dims(x, 1), np.reshape(steps, (1,)), np.reshape(counts, (1,)))
        labels = np.reshape(labels, (1, -1))
    if x.ndim != 3 or labels.ndim not in (1, 2) or steps.shape != (x.shape[1],) or counts.shape != (x.shape[1],):
        refuse_shape(f"ctc_loss takes (T, N, C), labels (N, S) or (sum,) and lengths (N,); got {as_traced(log_probs).shape}, "
                     f"{as_traced(targets).shape}, {as_traced(input_lengths).shape}, {as_traced(target_lengths).shape}")
    length, batch, classes = x.shape
    if not length:
        refuse_shape(f"ctc_loss: there is at least one step, got the shape {x.shape}")
    most = labels.shape[-1] if most is None else min(most, labels.shape[-1])
    if labels.ndim == 1:
        places = np.expand_dims(np.cumsum(counts) - counts, 1) + np.arange(most)
        labels = np.take(labels, np.clip(places, 0, max(labels.shape[0] - 1, 0))) if labels.shape[0] else np.zeros_like(places)
    labels = np.clip(labels[:, :most], 0, classes - 1)
    spread = np.full_like(labels, blank, shape=(batch, 2 * most + 1))          # blank, label, blank, ..., label, blank
    spread[:, 1::2] = labels
    emitted = np.take_along_axis(x, np.broadcast_to(spread, (length, *spread.shape)), 2)
    nothing = np.full_like(x, -np.inf, shape=(batch, 2))
    skips = np.concatenate([np.zeros_like(spread[:, :2], dtype=bool), (spread[:, 2:] != blank) & (spread[:, 2:] != spread[:, :-2])], axis=1)
    first = np.where(np.arange(2 * most + 1) < np.expand_dims(1 + np.minimum(counts, 1), 1), emitted[0], -np.inf)

    def advance(state: Any, step: Any) -> Any:
        """Add a step to the log-probabilities of all ways to each place."""
        probability, number = step
        before = np.concatenate([nothing, state], axis=1)
        ways = np.logaddexp(np.logaddexp(state, before[:, 1:-1]), np.where(skips, before[:, :-2], -np.inf))
        return np.where(np.expand_dims(number < steps, 1), ways + probability, state), ()

    last = first
    if is_tracing():
        last, _ = scan(advance, first, (emitted[1:], np.arange(1, length)))
    else:
        for number in range(1, length):
            last, _ = advance(last, (emitted[number], number))
    ends = np.expand_dims(2 * counts, 1)
    final, before = (np.take_along_axis(last, np.maximum(place, 0), 1)[:, 0] for place in (ends, ends - 1))
    loss = -np.logaddexp(final, np.where(counts > 0, before, -np.inf))
    loss = np.where(steps > 0, loss, np.where(counts > 0, np.inf, 0.0).astype(x.dtype))
    if zero_infinity:
        loss = np.where(loss == np.inf, 0.0, loss)
    if reduction == "mean":
        return np.mean(loss / np.maximum(counts, 1).astype(x.dtype))
    if reduction == "sum":
        return np.sum(loss)
    return loss if batched else loss[0]
