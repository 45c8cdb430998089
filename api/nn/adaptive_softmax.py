"""Softmax over many classes, of which the rare ones are in clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from adjit.eager.checks import check_range
from adjit.eager.device import chosen
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError, ShapeError
from adjit.nn import functional
from adjit.nn.containers import ModuleList, Sequential
from adjit.nn.linear import Linear
from adjit.nn.module import Module
from adjit.tracer.array import as_traced
from adjit.tracer.dispatch import dispatched
from adjit.tracer.user_location import find_user_location

Array = Any


class _OutputAndLoss(NamedTuple):
    """Results of `AdaptiveLogSoftmaxWithLoss`: log-probabilities of the targets, and minus their mean."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-softmax in two steps: over the first `cutoffs[0]` classes and one number for each cluster, then over the classes of a cluster.

    Classes are in falling order of frequency; cluster i has the classes from `cutoffs[i]` on, and a smaller layer of
    `in_features // div_value**(i + 1)` features. Submodules: head, a `Linear`, with a bias if `head_bias`; tail, a `Sequential` a cluster.
    Source: Grave et al., Efficient softmax approximation for GPUs, arXiv:1609.04309.

    >>> import adjit
    >>> layer = AdaptiveLogSoftmaxWithLoss(8, 10, [4, 7])
    >>> layer(adjit.zeros(3, 8), adjit.tensor([0, 5, 9])).output.shape, layer.log_prob(adjit.zeros(3, 8)).shape
    ((3,), (3, 10))
    """

    def __init__(self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0, head_bias: bool = False,
                 device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        ends = list(cutoffs)
        if not ends or ends != sorted(set(ends)) or ends[0] < 1 or ends[-1] > n_classes - 1:
            raise ArgumentError(f"AdaptiveLogSoftmaxWithLoss: cutoffs rise, from 1 to {n_classes - 1}; got {ends}", find_user_location())
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*ends, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = ends[0]
        self.n_clusters = len(ends)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, dtype=dtype)
        self.tail = ModuleList()
        for number, (start, end) in enumerate(zip(ends, self.cutoffs[1:], strict=True)):
            features = int(in_features // div_value ** (number + 1))
            sizes = ((in_features, features), (features, end - start))
            self.tail.append(Sequential(*(Linear(*pair, bias=False, dtype=dtype) for pair in sizes)))
        self.to(device=chosen(device))

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        self.head.reset_parameters()
        for layers in self.tail:
            for layer in layers:       # type: ignore[attr-defined]
                layer.reset_parameters()

    def forward(self, x: Tensor, target: Tensor) -> _OutputAndLoss:
        """Return the log-probabilities of the targets, (N,), and minus their mean, of (N, in_features); or all without N.

        Raises `IndexError` for a target that is no class, when it runs; in compiled code it gives NaN.
        """
        if x.ndim not in (1, 2) or target.shape != x.shape[:-1]:
            raise ShapeError(f"AdaptiveLogSoftmaxWithLoss takes (N, {self.in_features}) and targets (N,), or both without N; got "
                             f"{x.shape} and {target.shape}", find_user_location())
        check_range("AdaptiveLogSoftmaxWithLoss", "target", target, self.n_classes, "classes")
        chosen: Tensor = _of_targets(self.log_prob(x), target)     # type: ignore[assignment]
        return _OutputAndLoss(chosen, -chosen.mean())

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the log-probabilities of all classes, (N, n_classes)."""
        head = functional.log_softmax(self.head(x), dim=-1)
        return _joined([head, *(functional.log_softmax(layers(x), dim=-1) for layers in self.tail)], self.shortlist_size)      # type: ignore[no-any-return]

    def predict(self, x: Tensor) -> Tensor:
        """Return the most probable classes, (N,)."""
        return self.log_prob(x).argmax(-1)


@dispatched
def _joined(parts: Sequence[Array], shortlist: int) -> Array:
    """Log-probabilities of all classes, of those of the head and of each cluster."""
    head, *tails = (as_traced(part) for part in parts)
    clusters = [tail + head[..., shortlist + number:shortlist + number + 1] for number, tail in enumerate(tails)]
    return np.concatenate([head[..., :shortlist], *clusters], axis=-1)


@dispatched
def _of_targets(log_probabilities: Array, target: Array) -> Array:
    chosen = np.expand_dims(as_traced(target), -1)
    inside = (chosen >= 0) & (chosen < log_probabilities.shape[-1])
    scores: Any = as_traced(log_probabilities)
    found = np.take_along_axis(scores, np.where(inside, chosen, 0), -1)
    return np.where(inside, found, np.nan)[..., 0]
