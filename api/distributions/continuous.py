"""Distributions of real numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from adjit.distributions import constraints
from adjit.distributions.distribution import LOG_2PI, Distribution, Shape, TensorLike, broadcast_all
from adjit.distributions.gamma_draws import gamma_draw
from adjit.eager.tensor import Tensor, as_tensor
from adjit.tensor_functions import FUNCTIONS

rand, randn, where, zeros_like, ones_like = (FUNCTIONS[name] for name in ("rand", "randn", "where", "zeros_like", "ones_like"))
EULER = 0.57721566490153286060


def _open_uniform(shape: Shape, like: Tensor) -> Tensor:
    """Uniform numbers within (0, 1), neither of the two."""
    tiny = float(np.finfo(like.dtype).tiny)
    return rand(shape, dtype=like.dtype, device=like.device).clamp(tiny, 1.0 - float(np.finfo(like.dtype).eps) / 2)     # type: ignore[no-any-return]


class _LocationScale(Distribution):
    """Base of distributions of `loc + scale * x`."""

    has_rsample = True
    arg_constraints: ClassVar[Mapping[str, constraints.Constraint]] = {"loc": constraints.real, "scale": constraints.positive}
    _parameters: ClassVar[Mapping[str, int]] = {"loc": 0, "scale": 0}
    support = constraints.real

    def __init__(self, loc: TensorLike, scale: TensorLike, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _standard(self, value: TensorLike) -> Tensor:
        return (self._checked(value) - self.loc) / self.scale

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc


class Normal(_LocationScale):
    """Normal distribution of mean `loc` and standard deviation `scale`.

    >>> import adjit as aj
    >>> Normal(0.0, 1.0).log_prob(aj.tensor(0.0))
    tensor(-0.9189)
    """

    @property
    def variance(self) -> Tensor:
        return self.scale ** 2

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.loc + randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device) * self.scale      # type: ignore[no-any-return]

    def log_prob(self, value: TensorLike) -> Tensor:
        return -0.5 * self._standard(value) ** 2 - self.scale.log() - 0.5 * LOG_2PI

    def cdf(self, value: TensorLike) -> Tensor:
        return 0.5 * (1 + (self._standard(value) / math.sqrt(2)).erf())

    def icdf(self, value: TensorLike) -> Tensor:
        return self.loc + self.scale * (2 * as_tensor(value) - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * LOG_2PI + self.scale.log()


class Laplace(_LocationScale):
    """Laplace distribution.

    >>> import adjit as aj
    >>> Laplace(0.0, 1.0).log_prob(aj.tensor(0.0))
    tensor(-0.6931)
    """

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale ** 2

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        u = _open_uniform(self._extended_shape(sample_shape), self.loc) - 0.5
        return self.loc - self.scale * u.sign() * (-2 * u.abs()).clamp(min=-1 + 1e-7).log1p()

    def log_prob(self, value: TensorLike) -> Tensor:
        return -(2 * self.scale).log() - self._standard(value).abs()

    def cdf(self, value: TensorLike) -> Tensor:
        x = self._standard(value)
        return 0.5 - 0.5 * x.sign() * (-x.abs()).expm1()

    def icdf(self, value: TensorLike) -> Tensor:
        term = as_tensor(value) - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """Cauchy distribution: neither mean nor variance exist, they are NaN and infinite.

    >>> import adjit as aj
    >>> Cauchy(0.0, 1.0).cdf(aj.tensor(0.0))
    tensor(0.5000)
    """

    @property
    def mean(self) -> Tensor:
        return zeros_like(self.loc) * math.nan      # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        return ones_like(self.loc) * math.inf       # type: ignore[no-any-return]

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        u = _open_uniform(self._extended_shape(sample_shape), self.loc)
        return self.loc + self.scale * (math.pi * (u - 0.5)).tan()

    def log_prob(self, value: TensorLike) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - (self._standard(value) ** 2).log1p()

    def cdf(self, value: TensorLike) -> Tensor:
        return self._standard(value).atan() / math.pi + 0.5

    def icdf(self, value: TensorLike) -> Tensor:
        return (math.pi * (as_tensor(value) - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """Gumbel distribution, of maxima.

    >>> import adjit as aj
    >>> Gumbel(0.0, 1.0).log_prob(aj.tensor(0.0))
    tensor(-1.)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def variance(self) -> Tensor:
        return (math.pi / math.sqrt(6) * self.scale) ** 2

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.loc - self.scale * (-_open_uniform(self._extended_shape(sample_shape), self.loc).log()).log()

    def log_prob(self, value: TensorLike) -> Tensor:
        y = -self._standard(value)
        return y - y.exp() - self.scale.log()

    def cdf(self, value: TensorLike) -> Tensor:
        return (-(-self._standard(value)).exp()).exp()

    def icdf(self, value: TensorLike) -> Tensor:
        return self.loc - self.scale * (-as_tensor(value).log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + EULER)


class StudentT(Distribution):
    """Student's t distribution of `df` degrees of freedom.

    >>> import adjit as aj
    >>> StudentT(2.0).log_prob(aj.tensor(0.0))
    tensor(-1.0397)
    """

    has_rsample = True
    arg_constraints: ClassVar[Mapping[str, constraints.Constraint]] = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    _parameters: ClassVar[Mapping[str, int]] = {"df": 0, "loc": 0, "scale": 0}
    support = constraints.real

    def __init__(self, df: TensorLike, loc: TensorLike = 0.0, scale: TensorLike = 1.0, validate_args: bool | None = None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return where(self.df > 1, self.loc, math.nan)       # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.scale ** 2 * self.df / where(self.df > 2, self.df - 2, 1.0)
        return where(self.df > 2, finite, where(self.df > 1, math.inf, math.nan))       # type: ignore[no-any-return]

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        half_chi2 = gamma_draw((self.df / 2).expand(*shape))
        return self.loc + self.scale * randn(shape, dtype=self.df.dtype, device=self.df.device) * (self.df / (2 * half_chi2)).sqrt()       # type: ignore[no-any-return]

    def log_prob(self, value: TensorLike) -> Tensor:
        y = (self._checked(value) - self.loc) / self.scale
        scale = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + (0.5 * self.df).lgamma() - (0.5 * (self.df + 1)).lgamma()
        return -0.5 * (self.df + 1) * (y ** 2 / self.df).log1p() - scale

    def entropy(self) -> Tensor:
        beta = (0.5 * self.df).lgamma() + math.lgamma(0.5) - (0.5 * (self.df + 1)).lgamma()
        more = (0.5 * (self.df + 1)).digamma() - (0.5 * self.df).digamma()
        return self.scale.log() + 0.5 * (self.df + 1) * more + 0.5 * self.df.log() + beta


class Uniform(Distribution):
    """Uniform distribution on [low, high).

    >>> import adjit as aj
    >>> Uniform(0.0, 2.0).log_prob(aj.tensor(1.0))
    tensor(-0.6931)
    """

    has_rsample = True
    _parameters: ClassVar[Mapping[str, int]] = {"low": 0, "high": 0}

    def __init__(self, low: TensorLike, high: TensorLike, validate_args: bool | None = None):
        self.low, self.high = broadcast_all(low, high)
        self.__dict__["arg_constraints"] = {"low": constraints.real, "high": constraints.greater_than(self.low)}
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def support(self) -> Any:       # type: ignore[override]
        """Numbers from `low` to `high`."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return self.high * math.nan

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.low + rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device) * (self.high - self.low)   # type: ignore[no-any-return]

    def log_prob(self, value: TensorLike) -> Tensor:
        x = self._checked(value)
        inside = (x >= self.low) & (x < self.high)
        return where(inside, -(self.high - self.low).log(), -math.inf)      # type: ignore[no-any-return]

    def cdf(self, value: TensorLike) -> Tensor:
        return ((self._checked(value) - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: TensorLike) -> Tensor:
        return as_tensor(value) * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class Exponential(Distribution):
    """Exponential distribution of this rate.

    >>> import adjit as aj
    >>> Exponential(2.0).mean
    tensor(0.5000)
    """

    has_rsample = True
    arg_constraints: ClassVar[Mapping[str, constraints.Constraint]] = {"rate": constraints.positive}
    _parameters: ClassVar[Mapping[str, int]] = {"rate": 0}
    support = constraints.nonnegative

    def __init__(self, rate: TensorLike, validate_args: bool | None = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.rate)        # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        return self.rate ** -2

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return -(-rand(self._extended_shape(sample_shape), dtype=self.rate.dtype, device=self.rate.device)).log1p() / self.rate      # type: ignore[no-any-return]

    def log_prob(self, value: TensorLike) -> Tensor:
        return self.rate.log() - self.rate * self._checked(value)

    def cdf(self, value: TensorLike) -> Tensor:
        return -(-self.rate * self._checked(value)).expm1()

    def icdf(self, value: TensorLike) -> Tensor:
        return -(-as_tensor(value)).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()


class Gamma(Distribution):
    """Gamma distribution. Drawing needs SciPy; draws have exact derivatives in `concentration`, too.

    >>> import adjit as aj
    >>> Gamma(2.0, 4.0).mean
    tensor(0.5000)
    """

    has_rsample = True
    arg_constraints: ClassVar[Mapping[str, constraints.Constraint]] = {"concentration": constraints.positive, "rate": constraints.positive}
    _parameters: ClassVar[Mapping[str, int]] = {"concentration": 0, "rate": 0}
    support = constraints.nonnegative

    def __init__(self, concentration: TensorLike, rate: TensorLike, validate_args: bool | None = None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate ** 2

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        drawn = gamma_draw(self.concentration.expand(*self._extended_shape(sample_shape))) / self.rate
        return drawn.clamp(min=float(np.finfo(drawn.dtype).tiny))

    def log_prob(self, value: TensorLike) -> Tensor:
        x = self._checked(value)
        return (self.concentration.xlogy(self.rate) + (self.concentration - 1).xlogy(x) - self.rate * x
                - self.concentration.lgamma())

    def cdf(self, value: TensorLike) -> Tensor:
        return self.concentration.detach().igamma(self.rate * self._checked(value))

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()


class Chi2(Gamma):
    """Chi-squared distribution of `df` degrees of freedom.

    >>> import adjit as aj
    >>> Chi2(3.0).mean
    tensor(3.)
    """

    def __init__(self, df: TensorLike, validate_args: bool | None = None):
        (given,) = broadcast_all(df)
        super().__init__(0.5 * given, 0.5, validate_args)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2


class Beta(Distribution):
    """Beta distribution. Drawing needs SciPy.

    >>> import adjit as aj
    >>> Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    has_rsample = True
    arg_constraints: ClassVar[Mapping[str, constraints.Constraint]] = {
        "concentration1": constraints.positive, "concentration0": constraints.positive}
    _parameters: ClassVar[Mapping[str, int]] = {"concentration1": 0, "concentration0": 0}
    support = constraints.unit_interval

    def __init__(self, concentration1: TensorLike, concentration0: TensorLike, validate_args: bool | None = None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        inner = (a - 1) / where((a > 1) & (b > 1), a + b - 2, 1.0)
        return where((a > 1) & (b > 1), inner, where((a < 1) & (b < 1), math.nan, where(a > b, 1.0, 0.0)))      # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total ** 2 * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        first, second = (gamma_draw(each.expand(*shape), is_log=True) for each in (self.concentration1, self.concentration0))
        eps = float(np.finfo(first.dtype).eps)
        return (first - second).sigmoid().clamp(eps, 1 - eps)

    def log_prob(self, value: TensorLike) -> Tensor:
        x, a, b = self._checked(value), self.concentration1, self.concentration0
        return (a - 1).xlogy(x) + (b - 1).xlogy(1 - x) + (a + b).lgamma() - a.lgamma() - b.lgamma()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return (a.lgamma() + b.lgamma() - (a + b).lgamma() - (a - 1) * a.digamma() - (b - 1) * b.digamma()
                + (a + b - 2) * (a + b).digamma())


class HalfNormal(Distribution):
    """Distribution of the magnitude of normal numbers of mean 0.

    >>> import adjit as aj
    >>> HalfNormal(1.0).mean
    tensor(0.7979)
    """

    has_rsample = True
    arg_constraints: ClassVar[Mapping[str, constraints.Constraint]] = {"scale": constraints.positive}
    _parameters: ClassVar[Mapping[str, int]] = {"scale": 0}
    support = constraints.nonnegative

    def __init__(self, scale: TensorLike, validate_args: bool | None = None):
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.scale)       # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        return self.scale ** 2 * (1 - 2 / math.pi)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return (randn(self._extended_shape(sample_shape), dtype=self.scale.dtype, device=self.scale.device) * self.scale).abs()       # type: ignore[no-any-return]

    def log_prob(self, value: TensorLike) -> Tensor:
        x = self._checked(value)
        inside = -0.5 * (x / self.scale) ** 2 - self.scale.log() + (math.log(2) - 0.5 * LOG_2PI)
        return where(x >= 0, inside, -math.inf)     # type: ignore[no-any-return]

    def cdf(self, value: TensorLike) -> Tensor:
        return (self._checked(value) / self.scale / math.sqrt(2)).erf()

    def icdf(self, value: TensorLike) -> Tensor:
        return self.scale * math.sqrt(2) * as_tensor(value).erfinv()

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * LOG_2PI + self.scale.log() - math.log(2)


class HalfCauchy(HalfNormal):
    """Distribution of the magnitude of Cauchy numbers of median 0.

    >>> import adjit as aj
    >>> HalfCauchy(1.0).cdf(aj.tensor(1.0))
    tensor(0.5000)
    """

    @property
    def mean(self) -> Tensor:
        return self.scale * math.inf

    @property
    def variance(self) -> Tensor:
        return self.scale * math.inf

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.icdf(_open_uniform(self._extended_shape(sample_shape), self.scale))

    def log_prob(self, value: TensorLike) -> Tensor:
        x = self._checked(value)
        inside = math.log(2 / math.pi) - self.scale.log() - ((x / self.scale) ** 2).log1p()
        return where(x >= 0, inside, -math.inf)     # type: ignore[no-any-return]

    def cdf(self, value: TensorLike) -> Tensor:
        return (self._checked(value) / self.scale).atan() * (2 / math.pi)

    def icdf(self, value: TensorLike) -> Tensor:
        return self.scale * (as_tensor(value) * (math.pi / 2)).tan()

    def entropy(self) -> Tensor:
        return self.scale.log() + math.log(2 * math.pi)
