"""Activations as modules: each is a function of `adjit.nn.functional` with its settings."""

from __future__ import annotations

from typing import Any, Literal

from adjit.eager.tensor import Tensor
from adjit.nn import functional
from adjit.nn.module import Module


class ReLU(Module):
    """`max(x, 0)`; with `inplace` written into `x`.

    >>> import adjit
    >>> ReLU()(adjit.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return x.relu_() if self.inplace else functional.relu(x)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class LeakyReLU(Module):
    """`x` where it is positive, `negative_slope * x` elsewhere."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return functional.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """`x` where it is positive, `alpha * (exp(x) - 1)` elsewhere."""

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return functional.elu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class GELU(Module):
    """`x * Phi(x)` with the standard normal's distribution function; `approximate="tanh"` is a faster form of it."""

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return functional.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    """`x * sigmoid(x)`."""

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return functional.silu(x)


class Softplus(Module):
    """`log(1 + exp(beta * x)) / beta`; `x` where `beta * x` is above `threshold`."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return functional.softplus(x, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return functional.tanh(x)


class Sigmoid(Module):
    """`1 / (1 + exp(-x))`."""

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return functional.sigmoid(x)


class Softmax(Module):
    """`exp(x) / sum(exp(x))` over `dim`, by default the last one (PyTorch warns without `dim`, and chooses by the number of dimensions)."""

    def __init__(self, dim: Any = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return functional.softmax(x, dim=self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """`log(softmax(x))` over `dim`, by default the last one."""

    def __init__(self, dim: Any = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return functional.log_softmax(x, dim=self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
