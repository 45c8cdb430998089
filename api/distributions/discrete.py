"""Distributions of integers, categories and one-hot vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from adjit.distributions import constraints
from adjit.distributions.distribution import Distribution, Shape, TensorLike, broadcast_all
from adjit.distributions.gamma_draws import poisson_draw
from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor, as_tensor
from adjit.ir.errors import ArgumentError
from adjit.tensor_functions import FUNCTIONS
from adjit.tracer.user_location import find_user_location

rand, where, arange, zeros = (FUNCTIONS[name] for name in ("rand", "where", "arange", "zeros"))


def _one_of(name: str, probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise ArgumentError(f"{name}: either probs or logits is given, not both", find_user_location())


def _clamped(probs: Tensor) -> Tensor:
    eps = float(np.finfo(probs.dtype).eps)
    return probs.clamp(eps, 1 - eps)


class _OfProbability(Distribution):
    """Base of distributions of the probability of a success: `probs`, or `logits`."""

    arg_constraints: ClassVar[Mapping[str, constraints.Constraint]] = {"_probs": constraints.unit_interval, "_logits": constraints.real}
    _parameters: ClassVar[Mapping[str, int]] = {"_probs": 0, "_logits": 0}

    def _set_up(self, probs: Any, logits: Any, validate_args: bool | None, *others: Any) -> list[Tensor]:
        _one_of(type(self).__name__, probs, logits)
        given, *rest = broadcast_all(probs if logits is None else logits, *others)
        self._probs: Tensor | None = given if logits is None else None
        self._logits: Tensor | None = None if logits is None else given
        Distribution.__init__(self, given.shape, validate_args=validate_args)
        return rest

    @property
    def probs(self) -> Tensor:
        """Probability of a success."""
        return self._logits.sigmoid() if self._probs is None else self._probs       # type: ignore[union-attr]

    @property
    def logits(self) -> Tensor:
        """Logarithm of the odds of a success."""
        return _clamped(self._probs).logit() if self._logits is None else self._logits      # type: ignore[arg-type]

    @property
    def _dtype(self) -> Any:
        return (self._probs if self._logits is None else self._logits).dtype        # type: ignore[union-attr]

    @property
    def _device(self) -> Any:
        return (self._probs if self._logits is None else self._logits).device       # type: ignore[union-attr]

    def _softplus(self, x: Tensor) -> Tensor:
        return x.clamp(min=0) + (-x.abs()).exp().log1p()

    def __repr__(self) -> str:
        shown = self._probs if self._logits is None else self._logits
        return f"{type(self).__name__}({'probs' if self._logits is None else 'logits'}: {shown if shown.numel() == 1 else shown.shape})"     # type: ignore[union-attr]


class Bernoulli(_OfProbability):
    """1 with probability `probs`, else 0.

    >>> import adjit as aj
    >>> Bernoulli(0.25).log_prob(aj.tensor(1.0)).exp()
    tensor(0.2500)
    """

    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._set_up(probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        probs = self.probs
        return where(probs == 0.5, np.nan, (probs >= 0.5).to(probs.dtype))      # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return (rand(self._extended_shape(sample_shape), dtype=self._dtype, device=self._device) < self.probs).to(self._dtype)       # type: ignore[no-any-return]

    def log_prob(self, value: TensorLike) -> Tensor:
        x = self._checked(value)
        return x * self.logits - self._softplus(self.logits)

    def entropy(self) -> Tensor:
        return self._softplus(self.logits) - self.logits * self.probs

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(2, dtype=self._dtype, device=self._device).reshape(-1, *(1,) * len(self.batch_shape))
        return values.expand(-1, *self.batch_shape) if expand else values       # type: ignore[no-any-return]


class Geometric(_OfProbability):
    """Number of failures before the first success.

    >>> import adjit as aj
    >>> Geometric(0.25).mean
    tensor(3.)
    """

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._set_up(probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return self.probs.detach() * 0

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            u = rand(self._extended_shape(sample_shape), dtype=self._dtype, device=self._device)
            return ((-u).log1p() / (-self.probs).log1p()).floor()       # type: ignore[no-any-return]

    def log_prob(self, value: TensorLike) -> Tensor:
        x = self._checked(value)
        return x.xlogy(1 - self.probs) + self.probs.log()

    def entropy(self) -> Tensor:
        return (self._softplus(self.logits) - self.logits * self.probs) / self.probs


class Binomial(_OfProbability):
    """Number of successes in `total_count` trials.

    >>> import adjit as aj
    >>> Binomial(4, 0.5).mean
    tensor(2.)
    """

    _parameters: ClassVar[Mapping[str, int]] = {"_probs": 0, "_logits": 0, "total_count": 0}
    has_enumerate_support = True

    def __init__(self, total_count: TensorLike = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        (self.total_count,) = self._set_up(probs, logits, validate_args, total_count)

    @property
    def support(self) -> Any:       # type: ignore[override]
        """Integers up to `total_count`."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            most = int(self.total_count.max())
            trials = rand((most, *shape), dtype=self._dtype, device=self._device) < self.probs
            counted = arange(most, device=self._device).reshape(-1, *(1,) * len(shape)) < self.total_count
            return (trials & counted).sum(0).to(self._dtype)        # type: ignore[no-any-return]

    def log_prob(self, value: TensorLike) -> Tensor:
        x, n = self._checked(value), self.total_count
        rest = n * self._softplus(self.logits)
        return x * self.logits - rest + (n + 1).lgamma() - (x + 1).lgamma() - (n - x + 1).lgamma()

    def entropy(self) -> Tensor:
        values = self.enumerate_support(False)
        logs = self.expand(self.batch_shape).log_prob(values)
        return -(logs.exp() * logs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        most = int(self.total_count.max())
        if bool(self.total_count.min() != most):
            raise NotImplementedError("values of binomial distributions of different total_count")
        values = arange(most + 1, dtype=self._dtype, device=self._device).reshape(-1, *(1,) * len(self.batch_shape))
        return values.expand(-1, *self.batch_shape) if expand else values       # type: ignore[no-any-return]


class Poisson(Distribution):
    """Number of events of this rate.

    >>> import adjit as aj
    >>> Poisson(2.0).log_prob(aj.tensor(0.0))
    tensor(-2.)
    """

    arg_constraints: ClassVar[Mapping[str, constraints.Constraint]] = {"rate": constraints.nonnegative}
    _parameters: ClassVar[Mapping[str, int]] = {"rate": 0}
    support = constraints.nonnegative_integer

    def __init__(self, rate: TensorLike, validate_args: bool | None = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draw by the inverse distribution function."""
        with no_grad():
            return poisson_draw(self.rate.expand(*self._extended_shape(sample_shape)))

    def log_prob(self, value: TensorLike) -> Tensor:
        x = self._checked(value)
        return x.xlogy(self.rate) - self.rate - (x + 1).lgamma()


class Categorical(Distribution):
    """Index of one of several categories, the last dimension of `probs` (which need not add up to 1) or `logits`.

    >>> import adjit as aj
    >>> Categorical(aj.tensor([0.25, 0.75])).log_prob(aj.tensor(1)).exp()
    tensor(0.7500)
    """

    _parameters: ClassVar[Mapping[str, int]] = {"logits": 1, "probs": 1}
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        _one_of(type(self).__name__, probs, logits)
        if logits is None:
            given = as_tensor(probs)
            self.probs = given / given.sum(-1, keepdim=True)
            self.logits = _clamped(self.probs).log()
            self.__dict__["arg_constraints"] = {"probs": constraints.simplex}
        else:
            given = as_tensor(logits)
            self.logits = given - given.logsumexp(-1, keepdim=True)
            self.probs = self.logits.softmax(-1)
            self.__dict__["arg_constraints"] = {"logits": constraints.real_vector}
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @property
    def support(self) -> Any:       # type: ignore[override]
        """Integers below the number of categories."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def param_shape(self) -> tuple[int, ...]:
        """Shape of `probs`."""
        return self.probs.shape

    @property
    def mean(self) -> Tensor:
        return self.probs[..., 0] * np.nan

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self.probs[..., 0] * np.nan

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            flat = self.probs.detach().reshape(-1, self._num_events)
            count = int(np.prod(shape)) // max(flat.shape[0], 1)
            return flat.multinomial(count, True).mT.reshape(shape)

    def log_prob(self, value: TensorLike) -> Tensor:
        index = self._checked(value).long().unsqueeze(-1)
        shape = np.broadcast_shapes(index.shape[:-1], self.batch_shape)
        return self.logits.expand(*shape, self._num_events).gather(-1, index.expand(*shape, 1)).squeeze(-1)

    def entropy(self) -> Tensor:
        finite = self.logits.clamp(min=float(np.finfo(self.logits.dtype).min))
        return -(finite * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(self._num_events, device=self.probs.device).reshape(-1, *(1,) * len(self.batch_shape))
        return values.expand(-1, *self.batch_shape) if expand else values       # type: ignore[no-any-return]


class OneHotCategorical(Distribution):
    """Vector with a 1 at one of several categories, as `Categorical`.

    >>> import adjit as aj
    >>> OneHotCategorical(aj.tensor([0.25, 0.75])).mode
    tensor([0., 1.])
    """

    _parameters: ClassVar[Mapping[str, int]] = {"_categorical": 0}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, (self._categorical._num_events,), validate_args)

    @property
    def probs(self) -> Tensor:
        """Probabilities of the categories."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return _one_hot(self.probs.argmax(-1), self.probs)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return _one_hot(self._categorical.sample(sample_shape), self.probs)

    def log_prob(self, value: TensorLike) -> Tensor:
        return self._categorical.log_prob(self._checked(value).argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` with a straight-through gradient: that of the probabilities.

    >>> import adjit as aj
    >>> probs = aj.tensor([0.25, 0.75], requires_grad=True)
    >>> OneHotCategoricalStraightThrough(probs).rsample().requires_grad
    True
    """

    has_rsample = True

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


def _one_hot(index: Tensor, like: Tensor) -> Tensor:
    return (index.unsqueeze(-1) == arange(like.shape[-1], device=like.device)).to(like.dtype)       # type: ignore[no-any-return]


class Multinomial(Distribution):
    """Numbers of draws of each category, of `total_count` in all.

    >>> import adjit as aj
    >>> Multinomial(4, aj.tensor([0.25, 0.75])).mean
    tensor([1., 3.])
    """

    _parameters: ClassVar[Mapping[str, int]] = {"_categorical": 0}

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self.total_count, self._categorical = int(total_count), Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, (self._categorical._num_events,), validate_args)

    @property
    def probs(self) -> Tensor:
        """Probabilities of the categories."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            shape = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
            return _one_hot(self._categorical.sample((self.total_count, *shape)), self.probs).sum(0)

    def log_prob(self, value: TensorLike) -> Tensor:
        x = as_tensor(value)
        return (x.sum(-1) + 1).lgamma() - (x + 1).lgamma().sum(-1) + x.xlogy(self.probs).sum(-1)
