"""Initial values of parameters: functions that fill a tensor in place, with numbers of the default generator (`adjit.manual_seed`), or of
`generator`.

All return the tensor; nothing is recorded for derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from adjit import random
from adjit.eager.checks import check_parameter
from adjit.eager.generator import Generator, next_key
from adjit.eager.in_place import apply_in_place
from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError, ShapeError
from adjit.tracer.array import as_traced
from adjit.tracer.functions import composites
from adjit.tracer.user_location import find_user_location

__all__ = ["calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "orthogonal_",
           "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_"]

Array = Any
Mode = Literal["fan_in", "fan_out"]


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with uniform numbers of [a, b).

    >>> from adjit.eager.tensor import tensor
    >>> filled = uniform_(tensor(np.zeros(1000)), -1.0, 1.0)
    >>> bool((filled >= -1.0).all()) and bool((filled < 1.0).all())
    True
    """
    check_parameter("uniform_", "b - a", b - a, ">= 0")
    return _fill(tensor, _uniform, next_key(generator), float(a), float(b))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with numbers of the normal distribution.

    >>> import adjit as aj
    >>> weight = normal_(aj.empty(1000), mean=2.0, std=0.1)
    >>> bool(abs(weight.mean() - 2.0) < 0.05)
    True
    """
    check_parameter("normal_", "std", std, ">= 0")
    return _fill(tensor, _normal, next_key(generator), float(mean), float(std))


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
                  generator: Generator | None = None) -> Tensor:
    """Fill with numbers of the normal distribution truncated to `a` ... `b`.

    The inverse of the distribution function, applied to uniform numbers.

    >>> import adjit as aj
    >>> weight = trunc_normal_(aj.empty(1000), a=-1.0, b=1.0)
    >>> bool((weight.abs() <= 1.0).all())
    True
    """
    if not a < b or std <= 0.0:
        raise ArgumentError(f"trunc_normal_: a < b and a positive std, got a={a}, b={b}, std={std}", find_user_location())
    return _fill(tensor, _truncated_normal, next_key(generator), float(mean), float(std), float(a), float(b))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one number.

    >>> import adjit as aj
    >>> constant_(aj.empty(2, 2), 0.5)
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones.

    >>> import adjit as aj
    >>> ones_(aj.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros.

    >>> import adjit as aj
    >>> zeros_(aj.empty(2))
    tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity.

    >>> import adjit as aj
    >>> eye_(aj.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.ndim != 2:
        raise ShapeError(f"eye_ fills matrices, got the shape {tensor.shape}", find_user_location())
    with no_grad():
        return tensor.copy_(np.eye(*tensor.shape, dtype=tensor.dtype))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill kernels of convolutions over one to three axes so that each output channel, of each group, is an input channel.

    Raises `ShapeError` for other shapes, or if the output channels do not divide into `groups`.

    >>> import adjit as aj
    >>> dirac_(aj.empty(2, 2, 3))
    tensor([[[0., 1., 0.],
             [0., 0., 0.]],
            [[0., 0., 0.],
             [0., 1., 0.]]])
    """
    if tensor.ndim not in (3, 4, 5) or groups < 1 or tensor.shape[0] % groups:
        raise ShapeError(f"dirac_ fills kernels (O, C, ...), with output channels that divide into {groups} groups; got the shape "
                         f"{tensor.shape}", find_user_location())
    kernels = np.zeros(tensor.shape, tensor.dtype)
    each = tensor.shape[0] // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    for group in range(groups):
        for channel in range(min(each, tensor.shape[1])):
            kernels[(group * each + channel, channel, *middle)] = 1.0
    with no_grad():
        return tensor.copy_(kernels)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill a matrix with normal numbers, but for a share of the elements of each column, at random places, that is 0.

    Source: Martens, Deep learning via Hessian-free optimization, 2010.

    >>> import adjit as aj
    >>> (sparse_(aj.empty(10, 4), 0.3) == 0.0).sum(0)
    tensor([3, 3, 3, 3])
    """
    if tensor.ndim != 2:
        raise ShapeError(f"sparse_ fills matrices, got the shape {tensor.shape}", find_user_location())
    return _fill(tensor, _sparse, next_key(generator), next_key(generator), math.ceil(sparsity * tensor.shape[0]), float(std))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with uniform numbers in (-bound, bound), bound = gain * sqrt(6 / (fan in + fan out)).

    Source: Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.

    >>> import adjit as aj
    >>> weight = xavier_uniform_(aj.empty(20, 30))
    >>> bool(weight.abs().max() <= (6 / 50) ** 0.5)
    True
    """
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers of standard deviation gain * sqrt(2 / (fan in + fan out)); source as in `xavier_uniform_`.

    >>> import adjit as aj
    >>> weight = xavier_normal_(aj.empty(100, 60))
    >>> bool(abs(weight.std() - (2 / 160) ** 0.5) < 0.02)
    True
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: Mode = "fan_in", nonlinearity: str = "leaky_relu",
                     generator: Generator | None = None) -> Tensor:
    """Fill with uniform numbers in (-bound, bound), bound = gain * sqrt(3 / fan); `a` is the negative slope of a leaky_relu.

    Source: He et al., Delving Deep into Rectifiers, arXiv:1502.01852.

    >>> from adjit.eager.tensor import tensor
    >>> weight = kaiming_uniform_(tensor(np.zeros((50, 100))), a=5 ** 0.5)      # what Linear does
    >>> float(abs(weight.array).max()) <= 1 / 100 ** 0.5
    True
    """
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: Mode = "fan_in", nonlinearity: str = "leaky_relu",
                    generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers of standard deviation gain / sqrt(fan); arguments and source as in `kaiming_uniform_`.

    >>> import adjit as aj
    >>> weight = kaiming_normal_(aj.empty(100, 50))
    >>> bool(abs(weight.std() - (2 / 50) ** 0.5) < 0.02)
    True
    """
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with a (semi-)orthogonal matrix; a tensor of more dimensions is flattened to (first, others).

    Source: Saxe, McClelland and Ganguli, Exact solutions to the nonlinear dynamics of learning in deep linear neural networks,
    arXiv:1312.6120.

    >>> import adjit as aj
    >>> weight = orthogonal_(aj.empty(3, 3))
    >>> bool(aj.allclose(weight @ weight.T, aj.eye(3), atol=1e-5))
    True
    """
    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_ fills tensors of two dimensions or more, got the shape {tensor.shape}", find_user_location())
    rows = tensor.shape[0]
    columns = math.prod(tensor.shape[1:])
    tall = random.normal(next_key(generator), (max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(tall)
    q = q * np.sign(np.diagonal(r))       # then its distribution is uniform over the orthogonal matrices
    with no_grad():
        return tensor.copy_((gain * (q.T if rows < columns else q)).reshape(tensor.shape))


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the gain of a layer's weights for the activation after it; `param` is the slope of a leaky_relu, 0.01 by default.

    >>> calculate_gain("tanh"), round(calculate_gain("relu"), 4)
    (1.6666666666666667, 1.4142)
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1.0 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ArgumentError(f"calculate_gain: no gain is known for {nonlinearity!r}; known are {', '.join([*_GAINS, 'leaky_relu'])}",
                            find_user_location())
    return _GAINS[nonlinearity]


_GAINS = {"linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3.0, "relu": math.sqrt(2.0), "selu": 3.0 / 4.0}


def weight_and_bias_(weight: Tensor, bias: Tensor | None) -> None:
    """Initialise a linear layer or a convolution: both uniform within 1 / sqrt(fan_in), as in PyTorch."""
    kaiming_uniform_(weight, a=math.sqrt(5.0))
    if bias is not None:
        fan_in = fans(weight)[0]
        bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
        uniform_(bias, -bound, bound)


def fans(tensor: Tensor) -> tuple[int, int]:
    """Return fan in and fan out of a weight (out, in, window...): inputs of each output, and outputs of each input."""
    if tensor.ndim < 2:
        raise ShapeError(f"fan in and fan out need a weight of two dimensions or more, got the shape {tensor.shape}",
                         find_user_location())
    window = math.prod(tensor.shape[2:])
    return tensor.shape[1] * window, tensor.shape[0] * window


def _kaiming_std(tensor: Tensor, a: float, mode: Mode, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f"mode is 'fan_in' or 'fan_out', got {mode!r}", find_user_location())
    fan = fans(tensor)[0 if mode == "fan_in" else 1]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def _fill(tensor: Tensor, function: Callable[..., Array], *args: Any) -> Tensor:
    with no_grad():
        return apply_in_place(function, tensor, args)


# -- over traced arrays: new content for a target, from a key


def _uniform(target: Array, key: Array, low: float, high: float) -> Array:
    return random.uniform(key, target.shape, target.dtype, low, high)


def _normal(target: Array, key: Array, mean: float, std: float) -> Array:
    return random.normal(key, target.shape, target.dtype) * std + mean


def _sparse(target: Array, key: Array, places: Array, zeros: int, std: float) -> Array:
    order = np.argsort(random.uniform(places, target.shape), axis=0)
    return np.where(np.argsort(order, axis=0) < zeros, 0.0, _normal(target, key, 0.0, std))


def _truncated_normal(target: Array, key: Array, mean: float, std: float, a: float, b: float) -> Array:
    low, high = (math.erf((bound - mean) / (std * math.sqrt(2.0))) for bound in (a, b))
    number = _inverse_erf(random.uniform(key, target.shape, np.float64, low, high)) * (std * math.sqrt(2.0)) + mean
    return np.minimum(np.maximum(number, a), b).astype(target.dtype)


def _inverse_erf(y: Array) -> Array:
    """Inverse error function: a closed form with an error of 0.002 (Winitzki, 2008), made exact by three steps of Halley's method."""
    y = np.minimum(np.maximum(as_traced(y), -_NEARLY_ONE), _NEARLY_ONE)
    logarithm = np.log1p(-y * y)
    half = 2.0 / (math.pi * 0.147) + 0.5 * logarithm
    x = np.sign(y) * np.sqrt(np.sqrt(half * half - logarithm / 0.147) - half)
    for _ in range(3):
        error = (composites.erf(x) - y) * (0.5 * math.sqrt(math.pi)) * np.exp(x * x)
        x = x - error / (1.0 + x * error)
    return x


_NEARLY_ONE = 1.0 - 2.0 ** -52
