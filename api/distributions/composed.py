"""Distributions made of others: with a larger event, of transformed values, mixtures; and those that are transforms of simple ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from adjit.distributions import constraints
from adjit.distributions.continuous import Exponential, Normal
from adjit.distributions.discrete import Categorical
from adjit.distributions.distribution import Distribution, Shape, TensorLike, broadcast_all, sum_rightmost
from adjit.distributions.transforms import AffineTransform, ExpTransform, PowerTransform, Transform
from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor, as_tensor
from adjit.ir.errors import ArgumentError
from adjit.tensor_functions import FUNCTIONS
from adjit.tracer.user_location import find_user_location

where = FUNCTIONS["where"]


class Independent(Distribution):
    """A distribution whose last batch dimensions count as dimensions of one event.

    >>> import adjit as aj
    >>> Independent(Normal(aj.zeros(3), aj.ones(3)), 1).log_prob(aj.zeros(3))
    tensor(-2.7568)
    """

    def __init__(self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None):
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ArgumentError(f"Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                                f"{reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}", find_user_location())
        shape = base_distribution.batch_shape + base_distribution.event_shape
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        event = reinterpreted_batch_ndims + len(base_distribution.event_shape)
        super().__init__(shape[:len(shape) - event], shape[len(shape) - event:], validate_args)

    @property
    def has_rsample(self) -> bool:      # type: ignore[override]
        """True if draws have gradients."""
        return self.base_dist.has_rsample

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: TensorLike) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Independent:
        shape = (*batch_shape, *self.event_shape[:self.reinterpreted_batch_ndims])
        return Independent(self.base_dist.expand(shape), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """Distribution of values of another, after one transform or several.

    >>> import adjit as aj
    >>> TransformedDistribution(Normal(0.0, 1.0), [ExpTransform()]).log_prob(aj.tensor(1.0))
    tensor(-0.9189)
    """

    def __init__(self, base_distribution: Distribution, transforms: Transform | Sequence[Transform], validate_args: bool | None = None):
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        self.base_dist = base_distribution
        shape = base_distribution.batch_shape + base_distribution.event_shape
        event = max(len(base_distribution.event_shape), *(each.event_dim for each in self.transforms), 0)
        super().__init__(shape[:len(shape) - event], shape[len(shape) - event:], validate_args)

    @property
    def has_rsample(self) -> bool:      # type: ignore[override]
        """True if draws have gradients."""
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: TensorLike) -> Tensor:
        y, dims, total = self._checked(value), len(self.event_shape), 0.0
        for transform in reversed(self.transforms):
            x = transform.inverted(y)
            total = total - sum_rightmost(transform.log_abs_det_jacobian(x, y), dims - transform.event_dim)     # type: ignore[assignment]
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape))

    def cdf(self, value: TensorLike) -> Tensor:
        """Probability of a smaller value, for transforms that grow."""
        y = as_tensor(value)
        for transform in reversed(self.transforms):
            y = transform.inverted(y)
        return self.base_dist.cdf(y)

    def icdf(self, value: TensorLike) -> Tensor:
        """Value below which this probability lies, for transforms that grow."""
        return self._transformed(self.base_dist.icdf(value))

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        made = super().expand(batch_shape)
        made.base_dist = self.base_dist.expand(tuple(batch_shape) + self.event_shape[:len(self.event_shape) - len(
            self.base_dist.event_shape)])
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist})"


class LogNormal(TransformedDistribution):
    """Distribution of the exponential of normal numbers.

    >>> LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    support = constraints.positive

    def __init__(self, loc: TensorLike, scale: TensorLike, validate_args: bool | None = None):
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """Mean of the logarithm."""
        return self.base_dist.loc       # type: ignore[attr-defined, no-any-return]

    @property
    def scale(self) -> Tensor:
        """Standard deviation of the logarithm."""
        return self.base_dist.scale     # type: ignore[attr-defined, no-any-return]

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale ** 2 / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale ** 2).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale ** 2
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class Pareto(TransformedDistribution):
    """Pareto distribution above `scale`, its density falls as `x**(-alpha - 1)`.

    >>> Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    def __init__(self, scale: TensorLike, alpha: TensorLike, validate_args: bool | None = None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(Exponential(self.alpha, validate_args), [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    @property
    def support(self) -> Any:       # type: ignore[override]
        """Numbers from `scale` on."""
        return constraints.Constraint(f"greater_than_eq({self.scale})", lambda x: x >= self.scale)

    _parameters: ClassVar[Mapping[str, int]] = {"scale": 0, "alpha": 0}

    @property
    def mean(self) -> Tensor:
        return where(self.alpha > 1, self.alpha * self.scale / (self.alpha - 1), math.inf)      # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = where(self.alpha > 2, self.alpha, 3.0)
        return where(self.alpha > 2, self.scale ** 2 * a / ((a - 1) ** 2 * (a - 2)), math.inf)      # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Pareto:
        return Pareto(self.scale.expand(*batch_shape), self.alpha.expand(*batch_shape))


class Weibull(TransformedDistribution):
    """Weibull distribution of this scale and `concentration`.

    >>> Weibull(1.0, 1.0).mean
    tensor(1.)
    """

    support = constraints.positive
    _parameters: ClassVar[Mapping[str, int]] = {"scale": 0, "concentration": 0}

    def __init__(self, scale: TensorLike, concentration: TensorLike, validate_args: bool | None = None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(Exponential(self.scale * 0 + 1.0, validate_args), [
            PowerTransform(self.concentration.reciprocal()), AffineTransform(0, self.scale)], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + self.concentration.reciprocal()).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        k = where(self.concentration > 1, self.concentration, 2.0)
        return where(self.concentration > 1, self.scale * ((k - 1) / k) ** k.reciprocal(), 0.0)     # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        k = self.concentration.reciprocal()
        return self.scale ** 2 * ((1 + 2 * k).lgamma().exp() - (2 * (1 + k).lgamma()).exp())

    def entropy(self) -> Tensor:
        k = self.concentration.reciprocal()
        return 0.57721566490153286060 * (1 - k) + (self.scale * k).log() + 1

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Weibull:
        return Weibull(self.scale.expand(*batch_shape), self.concentration.expand(*batch_shape))


class MixtureSameFamily(Distribution):
    """Mixture of distributions of one family: the last batch dimension of the components, by a `Categorical`.

    >>> import adjit as aj
    >>> mixture = MixtureSameFamily(Categorical(aj.ones(2)), Normal(aj.tensor([-1.0, 1.0]), aj.ones(2)))
    >>> mixture.mean, mixture.variance
    (tensor(0.), tensor(2.))
    """

    def __init__(self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None):
        if not isinstance(mixture_distribution, Categorical):
            raise ArgumentError("The Mixture distribution needs to be an instance of Categorical", find_user_location())
        self.mixture_distribution, self.component_distribution = mixture_distribution, component_distribution
        super().__init__(component_distribution.batch_shape[:-1], component_distribution.event_shape, validate_args)

    def _weights(self) -> Tensor:
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *(1,) * len(self.event_shape))

    def _dim(self) -> int:
        return -1 - len(self.event_shape)

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self.component_distribution.mean).sum(self._dim())

    @property
    def variance(self) -> Tensor:
        means = self.component_distribution.mean
        within = (self._weights() * self.component_distribution.variance).sum(self._dim())
        return within + (self._weights() * (means - self.mean.unsqueeze(self._dim())) ** 2).sum(self._dim())

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            values = self.component_distribution.sample(sample_shape)
            chosen = self.mixture_distribution.expand(self.batch_shape).sample(sample_shape)
            dim = values.ndim - 1 - len(self.event_shape)
            index = chosen.reshape(*chosen.shape, *(1,) * (1 + len(self.event_shape)))
            index = index.expand(*chosen.shape, 1, *self.event_shape)
            return values.gather(dim, index).squeeze(dim)

    def log_prob(self, value: TensorLike) -> Tensor:
        x = as_tensor(value).unsqueeze(self._dim())
        return (self.component_distribution.log_prob(x) + self.mixture_distribution.logits).logsumexp(-1)

    def cdf(self, value: TensorLike) -> Tensor:
        x = as_tensor(value).unsqueeze(self._dim())
        return (self.component_distribution.cdf(x) * self.mixture_distribution.probs).sum(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamily({self.mixture_distribution}, {self.component_distribution})"
