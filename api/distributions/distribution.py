"""Base class of the distributions: shapes, checks of arguments, expansion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from adjit.distributions.constraints import Constraint
from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor, as_tensor, tensor
from adjit.ir.errors import ArgumentError
from adjit.ir.types import is_float
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location

Shape = Sequence[int]
TensorLike = Any


class Distribution:
    """Base of the distributions: a batch of distributions (`batch_shape`) of values (`event_shape`).

    `sample(shape)` draws without a gradient, `rsample(shape)` with one, where `has_rsample`; `log_prob(value)` has the batch's shape.
    Arguments and values are checked by `arg_constraints` and `support` unless `validate_args=False`; compiled functions check none.

    >>> import adjit as aj
    >>> from adjit.distributions import Normal
    >>> isinstance(Normal(0.0, 1.0), Distribution)
    True
    """

    has_rsample: ClassVar[bool] = False
    has_enumerate_support: ClassVar[bool] = False
    arg_constraints: ClassVar[Mapping[str, Constraint]] = {}
    _parameters: ClassVar[Mapping[str, int]] = {}        # names of tensors, and how many of their dimensions are of one event
    _validates = True
    support: Any = None

    def __init__(self, batch_shape: Shape = (), event_shape: Shape = (), validate_args: bool | None = None):
        self._batch_shape, self._event_shape = tuple(batch_shape), tuple(event_shape)
        self._validates = self._validates if validate_args is None else validate_args
        if self._validates and not is_tracing():
            for name, constraint in self.arg_constraints.items():
                value = self.__dict__.get(name)
                if isinstance(value, Tensor) and not bool(constraint.check(value.detach()).all()):
                    raise ArgumentError(f"Expected parameter {name} (Tensor of shape {value.shape}) of distribution {type(self).__name__} "
                                        f"to satisfy the constraint {constraint}, but found invalid values:\n{value.detach()}",
                                        find_user_location())

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> tuple[int, ...]:
        """Shape of one value."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """Expectation."""
        raise NotImplementedError(f"{type(self).__name__}.mean")

    @property
    def mode(self) -> Tensor:
        """Most probable value."""
        raise NotImplementedError(f"{type(self).__name__}.mode")

    @property
    def variance(self) -> Tensor:
        """Variance."""
        raise NotImplementedError(f"{type(self).__name__}.variance")

    @property
    def stddev(self) -> Tensor:
        """Standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draw values, without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draw values as a differentiable function of the parameters."""
        raise NotImplementedError(f"{type(self).__name__}.rsample")

    def log_prob(self, value: TensorLike) -> Tensor:
        """Logarithm of the probability, or of its density, at a value."""
        raise NotImplementedError(f"{type(self).__name__}.log_prob")

    def cdf(self, value: TensorLike) -> Tensor:
        """Probability of a smaller value."""
        raise NotImplementedError(f"{type(self).__name__}.cdf")

    def icdf(self, value: TensorLike) -> Tensor:
        """Value below which this probability lies."""
        raise NotImplementedError(f"{type(self).__name__}.icdf")

    def entropy(self) -> Tensor:
        """Entropy, in nats."""
        raise NotImplementedError(f"{type(self).__name__}.entropy")

    def perplexity(self) -> Tensor:
        """Exponential of the entropy."""
        return self.entropy().exp()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, along a new first dimension."""
        raise NotImplementedError(f"{type(self).__name__}.enumerate_support")

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        """The distribution with its batch expanded to another shape."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._batch_shape = tuple(batch_shape)
        for name, dims in self._parameters.items():
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                made.__dict__[name] = value.expand(*batch_shape, *value.shape[value.ndim - dims:])
            elif isinstance(value, Distribution):
                made.__dict__[name] = value.expand((*batch_shape, *value.batch_shape[len(self.batch_shape):]))
        return made

    def _extended_shape(self, sample_shape: Shape = ()) -> tuple[int, ...]:
        shape = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        return (*shape, *self.batch_shape, *self.event_shape)

    def _checked(self, value: TensorLike) -> Tensor:
        """Return a value as a tensor; raises `ValueError` for one outside of the support."""
        given = as_tensor(value)
        if self._validates and not is_tracing() and self.support is not None and not bool(self.support.check(given.detach()).all()):
            raise ArgumentError(f"Expected value argument (Tensor of shape {given.shape}) to be within the support ({self.support}) of the "
                                f"distribution {type(self).__name__}, but found invalid values:\n{given.detach()}", find_user_location())
        return given

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {value if value.numel() == 1 else value.shape}" for name in self._parameters
                          if isinstance(value := self.__dict__.get(name), Tensor))
        return f"{type(self).__name__}({shown})"


def broadcast_all(*values: TensorLike) -> list[Tensor]:
    """Tensors of one shape and dtype: numbers become tensors of the dtype of the others, or float32, and are
    on their device.

    >>> [x.shape for x in broadcast_all(0.0, np.ones(3))]
    [(3,), (3,)]
    """
    dtypes = [value.dtype for value in values if isinstance(value, (Tensor, np.ndarray, np.generic)) and is_float(value.dtype)]
    dtype = np.result_type(*dtypes) if dtypes else np.dtype(np.float32)
    given = [value for value in values if isinstance(value, Tensor)]
    device = None if is_tracing() else next((value.device for value in given if value.is_cuda), None)
    tensors = [tensor(value, dtype, device=device) if not isinstance(value, Tensor) else value if value.ndim else value.to(device=device)
               for value in values]
    tensors = [value if is_float(value.dtype) else value.to(dtype) for value in tensors]
    shape = np.broadcast_shapes(*(value.shape for value in tensors))
    return [value.expand(*shape) for value in tensors]


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """Sum over the last dimensions."""
    return value if not dims else value.sum(tuple(range(-dims, 0)))


LOG_2PI = math.log(2 * math.pi)
