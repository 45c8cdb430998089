"""Distributions of vectors: normal, Dirichlet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from adjit import linalg
from adjit.distributions import constraints
from adjit.distributions.distribution import LOG_2PI, Distribution, Shape, TensorLike
from adjit.distributions.gamma_draws import gamma_draw
from adjit.eager.tensor import Tensor, as_tensor
from adjit.ir.errors import ArgumentError
from adjit.tensor_functions import FUNCTIONS
from adjit.tracer.user_location import find_user_location

randn, eye = FUNCTIONS["randn"], FUNCTIONS["eye"]


class MultivariateNormal(Distribution):
    """Normal distribution of vectors, by its covariance matrix, the inverse of that, or its Cholesky factor `scale_tril`.

    >>> import adjit as aj
    >>> MultivariateNormal(aj.zeros(2), aj.eye(2)).log_prob(aj.zeros(2))
    tensor(-1.8379)
    """

    has_rsample = True
    arg_constraints: ClassVar[Mapping[str, constraints.Constraint]] = {
        "loc": constraints.real_vector, "scale_tril": constraints.lower_cholesky}
    _parameters: ClassVar[Mapping[str, int]] = {"loc": 1, "scale_tril": 2}
    support = constraints.real_vector

    def __init__(self, loc: TensorLike, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
                 validate_args: bool | None = None):
        if sum(given is not None for given in (covariance_matrix, precision_matrix, scale_tril)) != 1:
            raise ArgumentError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.",
                                find_user_location())
        if scale_tril is not None:
            factor = as_tensor(scale_tril)
        elif covariance_matrix is not None:
            factor = linalg.cholesky(as_tensor(covariance_matrix))
        else:
            flipped = linalg.cholesky(as_tensor(precision_matrix).flip(-2, -1)).flip(-2, -1).mT
            factor = linalg.solve_triangular(flipped, eye(flipped.shape[-1], dtype=flipped.dtype, device=flipped.device), lower=True)
        mean = as_tensor(loc)
        batch = np.broadcast_shapes(mean.shape[:-1], factor.shape[:-2])
        self.loc, self.scale_tril = mean.expand(*batch, mean.shape[-1]), factor.expand(*batch, *factor.shape[-2:])
        super().__init__(batch, mean.shape[-1:], validate_args)

    @property
    def covariance_matrix(self) -> Tensor:
        """Covariances."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariances."""
        return self.scale_tril.cholesky_inverse()

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return (self.scale_tril ** 2).sum(-1)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        eps = randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self.scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self) -> Tensor:
        return self.scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value: TensorLike) -> Tensor:
        difference = (self._checked(value) - self.loc).unsqueeze(-1)
        shape = np.broadcast_shapes(difference.shape[:-2], self.batch_shape)
        factor = self.scale_tril.expand(*shape, *self.scale_tril.shape[-2:])
        solved = linalg.solve_triangular(factor, difference.expand(*shape, *difference.shape[-2:]), lower=True)
        return -0.5 * (self.event_shape[0] * LOG_2PI + (solved ** 2).sum((-2, -1))) - self._half_log_det()     # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        return 0.5 * self.event_shape[0] * (1.0 + LOG_2PI) + self._half_log_det()


class Dirichlet(Distribution):
    """Dirichlet distribution, of probabilities. Drawing needs SciPy.

    >>> import adjit as aj
    >>> Dirichlet(aj.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    has_rsample = True
    arg_constraints: ClassVar[Mapping[str, constraints.Constraint]] = {
        "concentration": constraints.Constraint("positive", lambda x: (x > 0).all(-1), 1)}
    _parameters: ClassVar[Mapping[str, int]] = {"concentration": 1}
    support = constraints.simplex

    def __init__(self, concentration: TensorLike, validate_args: bool | None = None):
        self.concentration = as_tensor(concentration)
        super().__init__(self.concentration.shape[:-1], self.concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        less = (self.concentration - 1).clamp(min=0)
        return less / less.sum(-1, keepdim=True)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total ** 2 * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return gamma_draw(self.concentration.expand(*self._extended_shape(sample_shape)), is_log=True).softmax(-1)

    def log_prob(self, value: TensorLike) -> Tensor:
        a = self.concentration
        return (a - 1).xlogy(self._checked(value)).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a = self.concentration
        total, count = a.sum(-1), a.shape[-1]
        return a.lgamma().sum(-1) - total.lgamma() - (count - total) * total.digamma() - ((a - 1.0) * a.digamma()).sum(-1)
