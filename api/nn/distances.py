"""Similarities and distances as modules, and losses based on them."""

from __future__ import annotations

from adjit.eager.tensor import Tensor
from adjit.nn import functional
from adjit.nn.functional.arguments import Reduction
from adjit.nn.losses import _Loss
from adjit.nn.module import Module


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along `dim`, see `functional.cosine_similarity`.

    >>> import adjit
    >>> CosineSimilarity()(adjit.tensor([[1.0, 0.0]]), adjit.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the similarities, without the dimension `dim`."""
        return functional.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """Distances of vectors, the last dimension, see `functional.pairwise_distance`.

    >>> import adjit
    >>> PairwiseDistance()(adjit.tensor([[1.0, 0.0]]), adjit.tensor([[4.0, 4.0]]))
    tensor([5.0000])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the distances, without the last dimension unless `keepdim`."""
        return functional.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class TripletMarginLoss(_Loss):
    """Loss if the anchor is not nearer to the positive than to the negative by `margin`; see `functional.triplet_margin_loss`.

    >>> import adjit
    >>> TripletMarginLoss()(adjit.tensor([[0.0]]), adjit.tensor([[1.0]]), adjit.tensor([[1.5]]))
    tensor(0.5000)
    """

    def __init__(self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Compute the loss of three tensors (N, D) or (D,)."""
        return functional.triplet_margin_loss(anchor, positive, negative, self.margin, self.p, self.eps, self.swap, self.reduction)


class MarginRankingLoss(_Loss):
    """Loss for the order of two inputs: `target` 1 wants the first input larger, -1 the second, by `margin`; see
    `functional.margin_ranking_loss`.

    >>> import adjit
    >>> MarginRankingLoss(margin=0.5)(adjit.tensor([1.0, 2.0]), adjit.tensor([2.0, 1.0]), adjit.tensor([1.0, 1.0]))
    tensor(0.7500)
    """

    def __init__(self, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of three tensors of one shape."""
        return functional.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class GaussianNLLLoss(_Loss):
    """Minus the log-density of a normal distribution, see `functional.gaussian_nll_loss`.

    >>> import adjit
    >>> GaussianNLLLoss()(adjit.tensor([1.0, 2.0]), adjit.tensor([1.5, 4.0]), adjit.tensor([1.0, 4.0]))
    tensor(0.6591)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        """Compute the loss of means, targets and variances, of shapes that broadcast."""
        return functional.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)
