"""Activations as modules: each is a function of `adjit.nn.functional` with its settings."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from adjit.eager.device import chosen
from adjit.eager.modes import modes
from adjit.eager.tensor import Tensor, own_tensor
from adjit.ir.errors import ShapeError
from adjit.nn import functional
from adjit.nn.module import Module
from adjit.nn.parameter import Parameter
from adjit.tracer.user_location import find_user_location


class _InPlace(Module):
    """Activation whose result, with `inplace`, is written into `x`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """`max(x, 0)`; with `inplace` written into `x`.

    >>> import adjit
    >>> ReLU()(adjit.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.relu(x, inplace=self.inplace)


class LeakyReLU(_InPlace):
    """`x` where it is positive, `negative_slope * x` elsewhere.

    >>> import adjit
    >>> LeakyReLU(0.1)(adjit.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.1000,  0.5000,  2.0000])
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.leaky_relu(x, self.negative_slope, inplace=self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class ELU(_InPlace):
    """`x` where it is positive, `alpha * (exp(x) - 1)` elsewhere.

    >>> import adjit
    >>> ELU()(adjit.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.6321,  0.5000,  2.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.elu(x, self.alpha, inplace=self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class GELU(Module):
    """`x * Phi(x)` with the standard normal's distribution function; `approximate="tanh"` is a faster approximation.

    >>> import adjit
    >>> GELU()(adjit.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.1587,  0.3457,  1.9545])
    """

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class SiLU(_InPlace):
    """`x * sigmoid(x)`.

    >>> import adjit
    >>> SiLU()(adjit.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.2689,  0.3112,  1.7616])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.silu(x, inplace=self.inplace)


class Softplus(Module):
    """`log(1 + exp(beta * x)) / beta`; `x` where `beta * x` is above `threshold`.

    >>> import adjit
    >>> Softplus()(adjit.tensor([-1.0, 0.5, 2.0]))
    tensor([0.3133, 0.9741, 2.1269])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.softplus(x, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Mish(_InPlace):
    """`x * tanh(log(1 + exp(x)))`. Source: Misra, Mish: a self regularized non-monotonic activation function, arXiv:1908.08681.

    >>> import adjit
    >>> Mish()(adjit.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.3034,  0.3752,  1.9440])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.mish(x, inplace=self.inplace)


class Hardswish(_InPlace):
    """`x * relu6(x + 3) / 6`. Source: Howard et al., Searching for MobileNetV3, arXiv:1905.02244.

    >>> import adjit
    >>> Hardswish()(adjit.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.3333,  0.2917,  1.6667])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.hardswish(x, inplace=self.inplace)


class Hardsigmoid(_InPlace):
    """`relu6(x + 3) / 6`.

    >>> import adjit
    >>> Hardsigmoid()(adjit.tensor([-1.0, 0.5, 2.0]))
    tensor([0.3333, 0.5833, 0.8333])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.hardsigmoid(x, inplace=self.inplace)


class ReLU6(_InPlace):
    """`min(max(x, 0), 6)`.

    >>> import adjit
    >>> ReLU6()(adjit.tensor([-1.0, 0.5, 9.0]))
    tensor([0.0000, 0.5000, 6.0000])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.relu6(x, inplace=self.inplace)


class SELU(_InPlace):
    """Scaled `ELU` that preserves mean 0 and variance 1, see `functional.selu`.

    >>> import adjit
    >>> SELU()(adjit.tensor([-1.0, 0.5, 2.0]))
    tensor([-1.1113,  0.5254,  2.1014])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.selu(x, inplace=self.inplace)


class Hardtanh(_InPlace):
    """`x` between `min_val` and `max_val`, and the bounds outside.

    >>> import adjit
    >>> Hardtanh()(adjit.tensor([-1.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.hardtanh(x, self.min_val, self.max_val, inplace=self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class GLU(Module):
    """`a * sigmoid(b)` of the halves of `x` along `dim`.

    Source: Dauphin et al., Language modeling with gated convolutional networks, arXiv:1612.08083.

    >>> import adjit
    >>> GLU()(adjit.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Halve the size of `dim`; raises `ShapeError` if it is odd."""
        return functional.glu(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class PReLU(Module):
    """`x` where it is positive, `weight * x` elsewhere; weight: (num_parameters,), one for all channels or one for each, learned.

    Source: He et al., Delving deep into rectifiers, arXiv:1502.01852.

    >>> import adjit
    >>> PReLU()(adjit.tensor([-2.0, 3.0]))
    tensor([-0.5000,  3.0000], grad_fn=<PreluKernelBackward0>)
    """

    weight: Parameter

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(own_tensor(np.full(num_parameters, init, modes.default_float if dtype is None else dtype)))
        self.to(device=chosen(device))

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape; the channels are the second dimension."""
        return functional.prelu(x, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class LogSigmoid(Module):
    """`log(sigmoid(x))`.

    >>> import adjit
    >>> LogSigmoid()(adjit.tensor([-1.0, 0.5, 2.0]))
    tensor([-1.3133, -0.4741, -0.1269])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.logsigmoid(x)


class Softsign(Module):
    """`x / (1 + abs(x))`.

    >>> import adjit
    >>> Softsign()(adjit.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.5000,  0.3333,  0.6667])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.softsign(x)


class Tanh(Module):
    """The hyperbolic tangent.

    >>> import adjit
    >>> Tanh()(adjit.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.7616,  0.4621,  0.9640])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.tanh(x)


class Sigmoid(Module):
    """`1 / (1 + exp(-x))`.

    >>> import adjit
    >>> Sigmoid()(adjit.tensor([-1.0, 0.5, 2.0]))
    tensor([0.2689, 0.6225, 0.8808])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.sigmoid(x)


class Softmax(Module):
    """`exp(x) / sum(exp(x))` over `dim`, by default the last one (PyTorch warns without `dim`, and chooses by the number of dimensions).

    >>> import adjit
    >>> Softmax()(adjit.tensor([0.0, 1.0]))
    tensor([0.2689, 0.7311])
    """

    def __init__(self, dim: Any = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.softmax(x, dim=self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """`log(softmax(x))` over `dim`, by default the last one.

    >>> import adjit
    >>> LogSoftmax()(adjit.tensor([0.0, 1.0]))
    tensor([-1.3133, -0.3133])
    """

    def __init__(self, dim: Any = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.log_softmax(x, dim=self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class CELU(_InPlace):
    """`x` where it is positive, `alpha * (exp(x / alpha) - 1)` elsewhere.

    >>> import adjit
    >>> CELU()(adjit.tensor([-1.0, 0.5]))
    tensor([-0.6321,  0.5000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.celu(x, self.alpha, inplace=self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class Hardshrink(Module):
    """`x` where it is above `lambd` or below `-lambd`, 0 elsewhere.

    >>> import adjit
    >>> Hardshrink()(adjit.tensor([-1.0, 0.3]))
    tensor([-1.,  0.])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.hardshrink(x, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Softshrink(Module):
    """`x`, nearer to 0 by `lambd`; 0 where it is nearer than that.

    >>> import adjit
    >>> Softshrink()(adjit.tensor([-1.0, 0.3]))
    tensor([-0.5000,  0.0000])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.softshrink(x, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Tanhshrink(Module):
    """`x - tanh(x)`.

    >>> import adjit
    >>> Tanhshrink()(adjit.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2384])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.tanhshrink(x)


class Threshold(_InPlace):
    """`x` where it is above `threshold`, `value` elsewhere.

    >>> import adjit
    >>> Threshold(0.5, -1.0)(adjit.tensor([0.0, 1.0]))
    tensor([-1.,  1.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.threshold(x, self.threshold, self.value, inplace=self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class RReLU(_InPlace):
    """`x` where it is positive, elsewhere times a slope: in training uniform in (lower, upper), else the middle of both.

    >>> import adjit
    >>> RReLU(0.25, 0.75).eval()(adjit.tensor([-1.0, 2.0]))
    tensor([-0.5000,  2.0000])
    """

    def __init__(self, lower: float = 1.0 / 8.0, upper: float = 1.0 / 3.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.rrelu(x, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class Softmin(Module):
    """`softmax(-x)` along `dim`; without `dim` along the last dimension.

    >>> import adjit
    >>> Softmin(0)(adjit.tensor([0.0, 1.0]))
    tensor([0.7311, 0.2689])
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return functional.softmin(x, dim=self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax2d(Module):
    """Softmax over the channels of images, (N, C, H, W) or (C, H, W).

    >>> import adjit
    >>> Softmax2d()(adjit.zeros(2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape; raises `ShapeError` for other shapes."""
        if x.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d takes (N, C, H, W) or (C, H, W), got the shape {x.shape}", find_user_location())
        return functional.softmax(x, dim=-3)
