"""Invertible functions of random values, with the logarithms of their derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjit.distributions.distribution import sum_rightmost
from adjit.eager.tensor import Tensor, as_tensor
from adjit.tensor_functions import FUNCTIONS

zeros_like = FUNCTIONS["zeros_like"]


class Transform:
    """Base of the transforms: `transform(x)`, `transform.inv(y)`, and `log_abs_det_jacobian(x, y)` over the last `event_dim` dimensions.

    >>> import adjit as aj
    >>> ExpTransform().inv(aj.tensor(1.0))
    tensor(0.)
    """

    bijective = True
    event_dim = 0
    cache_size = 0
    _last: tuple[Tensor, Tensor] | None = None

    def __init__(self, cache_size: int = 0):
        self.cache_size = cache_size

    def __call__(self, x: Any) -> Tensor:
        x = as_tensor(x)
        y = self._call(x)
        if self.cache_size:
            self._last = x, y
        return y

    def inverted(self, y: Tensor) -> Tensor:
        """Return x for `y = transform(x)`: with `cache_size=1` the last x itself, where the inverse of rounded values may be infinite."""
        return self._last[0] if self._last is not None and self._last[1] is y else self._inverse(y)

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Logarithm of the magnitude of the derivative's determinant."""
        raise NotImplementedError

    @property
    def inv(self) -> Transform:
        """The inverse transform."""
        return _Inverse(self)


class _Inverse(Transform):
    """Inverse of a transform."""

    def __init__(self, of: Transform):
        super().__init__()
        self._of, self.event_dim = of, of.event_dim

    def _call(self, x: Tensor) -> Tensor:
        return self._of.inverted(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._of._call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._of.log_abs_det_jacobian(y, x)

    @property
    def inv(self) -> Transform:
        return self._of


class ExpTransform(Transform):
    """`exp(x)`.

    >>> import adjit as aj
    >>> ExpTransform()(aj.tensor(0.0))
    tensor(1.)
    """

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class AffineTransform(Transform):
    """`loc + scale * x`.

    >>> import adjit as aj
    >>> AffineTransform(1.0, 2.0)(aj.tensor(3.0))
    tensor(7.)
    """

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0):
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x        # type: ignore[no-any-return]

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        scale = self.scale.abs().log() if isinstance(self.scale, Tensor) else math.log(abs(self.scale))
        return sum_rightmost(zeros_like(x) + scale, self.event_dim)


class SigmoidTransform(Transform):
    """`1 / (1 + exp(-x))`.

    >>> import adjit as aj
    >>> SigmoidTransform()(aj.tensor(0.0))
    tensor(0.5000)
    """

    def _call(self, x: Tensor) -> Tensor:
        return x.sigmoid()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.logit()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -x.abs() - 2 * (-x.abs()).exp().log1p()


class TanhTransform(Transform):
    """`tanh(x)`.

    >>> import adjit as aj
    >>> TanhTransform()(aj.tensor(0.0))
    tensor(0.)
    """

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        z = -2.0 * x
        return 2.0 * (math.log(2.0) - x - (z.clamp(min=0) + (-z.abs()).exp().log1p()))


class SoftplusTransform(Transform):
    """`log(1 + exp(x))`.

    >>> import adjit as aj
    >>> SoftplusTransform()(aj.tensor(0.0))
    tensor(0.6931)
    """

    def _call(self, x: Tensor) -> Tensor:
        return x.clamp(min=0) + (-x.abs()).exp().log1p()

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._call(-x)


class PowerTransform(Transform):
    """`x**exponent`, of positive numbers.

    >>> import adjit as aj
    >>> PowerTransform(2.0)(aj.tensor(3.0))
    tensor(9.)
    """

    def __init__(self, exponent: Any, cache_size: int = 0):
        super().__init__(cache_size)
        self.exponent = exponent

    def _call(self, x: Tensor) -> Tensor:
        return x ** self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()      # type: ignore[no-any-return]


class ComposeTransform(Transform):
    """Several transforms, the first one first.

    >>> import adjit as aj
    >>> ComposeTransform([AffineTransform(1.0, 2.0), ExpTransform()])(aj.tensor(-0.5))
    tensor(1.)
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0):
        super().__init__(cache_size)
        self.parts = list(parts)
        self.event_dim = max((part.event_dim for part in self.parts), default=0)

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part.inverted(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        total: Any = 0
        for part in self.parts:
            then = part(x)
            total = total + sum_rightmost(part.log_abs_det_jacobian(x, then), self.event_dim - part.event_dim)
            x = then
        return total        # type: ignore[no-any-return]


class IndependentTransform(Transform):
    """A transform whose last dimensions count as one event.

    >>> import adjit as aj
    >>> t = IndependentTransform(ExpTransform(), 1)
    >>> t.log_abs_det_jacobian(aj.ones(3), aj.ones(3))
    tensor(3.)
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0):
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform, reinterpreted_batch_ndims
        self.event_dim = base_transform.event_dim + reinterpreted_batch_ndims

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform.inverted(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)
