"""Dropout as modules: elements, or whole channels, are replaced by chance in training."""

from __future__ import annotations

from typing import Any

from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError
from adjit.nn import functional
from adjit.nn.module import Module
from adjit.tracer.user_location import find_user_location


class Dropout(Module):
    """Dropout: in training each element is 0 with probability `p`, else divided by `1 - p`; by keys of the default generator.

    >>> import adjit
    >>> Dropout(0.5).eval()(adjit.ones(3))
    tensor([1., 1., 1.])
    """

    _function = "dropout"

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ArgumentError(f"{type(self).__name__}: p lies in [0, 1], got {p}", find_user_location())
        self.p = p
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape; `x` itself with `inplace`."""
        result: Any = getattr(functional, self._function)(x, self.p, self.training, self.inplace)
        return result       # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(Dropout):
    """Dropout of whole channels of (N, C, L) or (C, L): in training 0 with probability `p`, else divided by `1 - p`.

    >>> import adjit
    >>> generator = adjit.manual_seed(0)
    >>> set(Dropout1d(0.5)(adjit.ones(1, 8, 4)).sum(2)[0].tolist()) <= {0.0, 8.0}
    True
    """

    _function = "dropout1d"


class Dropout2d(Dropout):
    """Dropout of whole channels of (N, C, H, W) or (C, H, W): in training 0 with probability `p`, else divided by `1 - p`.

    Source: Tompson et al., Efficient object localization using convolutional networks, arXiv:1411.4280.

    >>> import adjit
    >>> generator = adjit.manual_seed(0)
    >>> kept = Dropout2d(0.5)(adjit.ones(1, 8, 2, 2)).sum((2, 3))
    >>> set(kept[0].tolist()) <= {0.0, 8.0}
    True
    """

    _function = "dropout2d"


class Dropout3d(Dropout):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W): in training 0 with probability `p`, else divided by `1 - p`.

    >>> import adjit
    >>> generator = adjit.manual_seed(0)
    >>> set(Dropout3d(0.5)(adjit.ones(1, 8, 1, 2, 2)).sum((2, 3, 4))[0].tolist()) <= {0.0, 8.0}
    True
    """

    _function = "dropout3d"


class AlphaDropout(Dropout):
    """Dropout that preserves mean 0 and variance 1 after `SELU`, see `functional.alpha_dropout`.

    >>> import adjit
    >>> generator = adjit.manual_seed(0)
    >>> len(set(AlphaDropout(0.5)(adjit.ones(100)).tolist()))
    2
    """

    _function = "alpha_dropout"


class FeatureAlphaDropout(Dropout):
    """`AlphaDropout` of whole channels of (N, C, ...), see `functional.feature_alpha_dropout`.

    >>> import adjit
    >>> dropped = FeatureAlphaDropout(0.5)(adjit.ones(1, 8, 3))
    >>> bool((dropped[..., :1] == dropped).all())
    True
    """

    _function = "feature_alpha_dropout"
