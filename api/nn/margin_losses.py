"""Losses with a margin as modules: of distances, rankings, and class scores that have to exceed others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjit.eager.tensor import Tensor
from adjit.nn import functional
from adjit.nn.distances import PairwiseDistance
from adjit.nn.functional.arguments import Reduction
from adjit.nn.losses import _Loss


class TripletMarginLoss(_Loss):
    """Loss if the anchor is not nearer to the positive than to the negative by `margin`; see `functional.triplet_margin_loss`.

    >>> import adjit
    >>> TripletMarginLoss()(adjit.tensor([[0.0]]), adjit.tensor([[1.0]]), adjit.tensor([[1.5]]))
    tensor(0.5000)
    """

    def __init__(self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, size_average: bool | None = None,
                 reduce: bool | None = None, reduction: Reduction = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Compute the loss of three tensors (N, D) or (D,)."""
        return functional.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, None, None, self.reduction)


class MarginRankingLoss(_Loss):
    """Loss for the order of two inputs: `target` 1 wants the first input larger, -1 the second, by `margin`; see
    `functional.margin_ranking_loss`.

    >>> import adjit
    >>> MarginRankingLoss(margin=0.5)(adjit.tensor([1.0, 2.0]), adjit.tensor([2.0, 1.0]), adjit.tensor([1.0, 1.0]))
    tensor(0.7500)
    """

    def __init__(self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: Reduction = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of three tensors of one shape."""
        return functional.margin_ranking_loss(input1, input2, target, self.margin, None, None, self.reduction)


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with a distance of your own, see `functional.triplet_margin_with_distance_loss`.

    >>> import adjit
    >>> TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs())(adjit.zeros(1), adjit.ones(1), adjit.ones(1))
    tensor(1.)
    """

    def __init__(self, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: bool = False,
                 reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Compute the loss of three tensors that the distance takes."""
        return functional.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function, margin=self.margin, swap=self.swap,
            reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    """`x` where the target is 1, `max(margin - x, 0)` where it is -1, see `functional.hinge_embedding_loss`.

    >>> import adjit
    >>> HingeEmbeddingLoss()(adjit.tensor([2.0, 0.25]), adjit.tensor([1, -1]))
    tensor(1.3750)
    """

    def __init__(self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: Reduction = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of two tensors of the same shape."""
        return functional.hinge_embedding_loss(x, target, self.margin, None, None, self.reduction)


class CosineEmbeddingLoss(_Loss):
    """Loss of the cosine of the angle between two vectors, see `functional.cosine_embedding_loss`.

    >>> import adjit
    >>> CosineEmbeddingLoss()(adjit.tensor([[1.0, 0.0]]), adjit.tensor([[3.0, 4.0]]), adjit.tensor([1]))
    tensor(0.4000)
    """

    def __init__(self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: Reduction = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of (N, D) vectors and targets (N,), or without N."""
        return functional.cosine_embedding_loss(input1, input2, target, self.margin, None, None, self.reduction)


class SoftMarginLoss(_Loss):
    """`log(1 + exp(-target * x))`, see `functional.soft_margin_loss`.

    >>> import adjit
    >>> SoftMarginLoss()(adjit.tensor([0.0, 1000.0]), adjit.tensor([1.0, 1.0]))
    tensor(0.3466)
    """

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of two tensors of the same shape."""
        return functional.soft_margin_loss(x, target, None, None, self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Margin of all labels over all other classes, see `functional.multilabel_margin_loss`.

    >>> import adjit
    >>> MultiLabelMarginLoss()(adjit.tensor([[0.1, 0.2, 0.4, 0.8]]), adjit.tensor([[3, 0, -1, 1]]))
    tensor(0.8500)
    """

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of scores (N, C) or (C,) and labels of the same shape."""
        return functional.multilabel_margin_loss(x, target, None, None, self.reduction)


class MultiLabelSoftMarginLoss(_Loss):
    """Mean over the classes of `BCEWithLogitsLoss`, see `functional.multilabel_soft_margin_loss`; `weight`, (C,), is a buffer.

    >>> import adjit
    >>> MultiLabelSoftMarginLoss()(adjit.tensor([[0.0, 1000.0]]), adjit.tensor([[1.0, 1.0]]))
    tensor(0.3466)
    """

    weight: Tensor | None

    def __init__(self, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: Reduction = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self._add_tensor("weight", weight)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of two tensors (N, C) or (C,)."""
        return functional.multilabel_soft_margin_loss(x, target, self.weight, None, None, self.reduction)


class MultiMarginLoss(_Loss):
    """Margin of the label over all other classes, see `functional.multi_margin_loss`; `weight`, (C,), is a buffer.

    >>> import adjit
    >>> MultiMarginLoss()(adjit.tensor([[0.1, 0.2, 0.4, 0.8]]), adjit.tensor([3]))
    tensor(0.3250)
    """

    weight: Tensor | None

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: Reduction = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.p = p
        self.margin = margin
        self._add_tensor("weight", weight)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of scores (N, C) and labels (N,), or without N."""
        return functional.multi_margin_loss(x, target, self.p, self.margin, self.weight, None, None, self.reduction)
