"""Similarities and distances of vectors as modules."""

from __future__ import annotations

from adjit.eager.tensor import Tensor
from adjit.nn import functional
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
