"""Activations: elementwise functions at the end of layers, some with a gate or a learned slope, and the softmax family."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ArgumentError
from adjit.nn.functional.arguments import Array, dimension, floating, refuse_shape, with_inplace
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions import composites
from adjit.tracer.functions.composites import erf, sigmoid
from adjit.tracer.user_location import find_user_location


@with_inplace
@dispatched
def relu(input: Array) -> Array:
    """`max(input, 0)`, elementwise. The derivative at 0 is 0; NaN stays NaN.

    >>> relu(np.array([-1.0, 0.0, 2.0]))
    array([0., 0., 2.])
    """
    return wrap(ops.relu(floating(input, "relu").value))


@with_inplace
@dispatched
def relu6(input: Array) -> Array:
    """`min(max(input, 0), 6)`, elementwise. The derivative at 0 and at 6 is 0.

    >>> relu6(np.array([-1.0, 2.0, 9.0]))
    array([0., 2., 6.])
    """
    return _clamped(floating(input, "relu6"), 0.0, 6.0)


@with_inplace
@dispatched
def hardtanh(input: Array, min_val: float = -1.0, max_val: float = 1.0) -> Array:
    """`input` between the two bounds, and the bounds outside, elementwise. The derivative at a bound is 0; NaN stays NaN.

    >>> hardtanh(np.array([-3.0, 0.5, 3.0]))
    array([-1. ,  0.5,  1. ])
    """
    if min_val > max_val:
        raise ArgumentError(f"hardtanh: min_val {min_val} is above max_val {max_val}", find_user_location())
    return _clamped(floating(input, "hardtanh"), min_val, max_val)


@with_inplace
@dispatched
def leaky_relu(input: Array, negative_slope: float = 0.01) -> Array:
    """`input` where it is positive, `negative_slope * input` elsewhere. The derivative at 0 is `negative_slope`.

    >>> leaky_relu(np.array([-1.0, 2.0]))
    array([-0.01,  2.  ])
    """
    x = floating(input, "leaky_relu")
    return np.where(x > 0, x, negative_slope * x)


@with_inplace
@dispatched
def elu(input: Array, alpha: float = 1.0) -> Array:
    """`input` where it is positive, `alpha * (exp(input) - 1)` elsewhere. The derivative at 0 is `alpha`.

    Source: Clevert, Unterthiner and Hochreiter, Fast and Accurate Deep Network Learning by Exponential Linear Units, arXiv:1511.07289.

    >>> elu(np.array([-1.0, 2.0])).round(4)
    array([-0.6321,  2.    ])
    """
    x = floating(input, "elu")
    return np.where(x > 0, x, alpha * np.expm1(x))


@with_inplace
@dispatched
def selu(input: Array) -> Array:
    """`1.0507 * elu(input, 1.6733)`: preserves mean 0 and variance 1 from layer to layer.

    Source: Klambauer, Unterthiner, Mayr and Hochreiter, Self-Normalizing Neural Networks, arXiv:1706.02515.

    >>> selu(np.array([-1.0, 2.0])).round(4)
    array([-1.1113,  2.1014])
    """
    x = floating(input, "selu")
    return _SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * np.expm1(x))


@dispatched
def gelu(input: Array, approximate: Literal["none", "tanh"] = "none") -> Array:
    """`input * Phi(input)` with the standard normal's distribution function, elementwise; or its tanh approximation.

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, arXiv:1606.08415.

    >>> gelu(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.1587,  0.    ,  0.8413])
    """
    x = floating(input, "gelu")
    if approximate == "none":
        return 0.5 * x * (1.0 + erf(x * _SQRT_HALF))
    if approximate == "tanh":
        return 0.5 * x * (1.0 + np.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)))
    raise ArgumentError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}", find_user_location())


@with_inplace
@dispatched
def silu(input: Array) -> Array:
    """`input * sigmoid(input)`, elementwise; also known as swish.

    >>> silu(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.7311])
    """
    x = floating(input, "silu")
    return x * sigmoid(x)


@dispatched
def softplus(input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """`log(1 + exp(beta * input)) / beta`, elementwise; `input` itself where `beta * input > threshold`.

    >>> softplus(np.array([-1000.0, 0.0, 50.0])).round(4)
    array([ 0.    ,  0.6931, 50.    ])
    """
    x = floating(input, "softplus")
    scaled = x * beta
    return np.where(scaled > threshold, x, np.log1p(np.exp(scaled)) / beta)


@dispatched
def softsign(input: Array) -> Array:
    """`input / (1 + abs(input))`, elementwise.

    >>> softsign(np.array([-1.0, 3.0]))
    array([-0.5 ,  0.75])
    """
    x = floating(input, "softsign")
    return x / (1.0 + np.abs(x))


@dispatched
def logsigmoid(input: Array) -> Array:
    """`log(sigmoid(input))`, elementwise, without overflow.

    >>> logsigmoid(np.array([-1000.0, 0.0])).round(4)
    array([-1.000e+03, -6.931e-01])
    """
    return -np.logaddexp(-floating(input, "logsigmoid"), 0.0)


@dispatched
def tanh(input: Array) -> Array:
    """The hyperbolic tangent, elementwise.

    >>> tanh(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.7616])
    """
    return np.tanh(floating(input, "tanh"))


@dispatched
def softmax(input: Array, axis: Any = None, *, dim: Any = None) -> Array:
    """`exp(input) / sum(exp(input))` over `axis` (or `dim`; default: the last), without overflow.

    >>> softmax(np.array([0.0, 0.0]), dim=0)
    array([0.5, 0.5])
    """
    axis = dimension(axis, dim, "softmax")
    return composites.softmax(input, -1 if axis is None else axis)


@dispatched
def log_softmax(input: Array, axis: Any = None, *, dim: Any = None) -> Array:
    """`log(softmax(input))` over `axis` (or `dim`; default: the last), without overflow or loss of precision.

    >>> log_softmax(np.array([0.0, 1000.0]))
    array([-1000.,     0.])
    """
    axis = dimension(axis, dim, "log_softmax")
    return composites.log_softmax(input, -1 if axis is None else axis)


_SQRT_HALF = 0.5 ** 0.5
_SQRT_2_OVER_PI = (2.0 / np.pi) ** 0.5
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def _clamped(x: Any, low: float, high: float) -> Any:
    """Clamp `x` so that its derivative at a bound is 0; a maximum would share the derivative there."""
    return np.where(x <= low, low, np.where(x >= high, high, x))


@dispatched
def glu(input: Array, dim: int = -1) -> Array:
    """`a * sigmoid(b)` of the halves of `input` along `dim`. Raises `ShapeError` if its size is odd.

    >>> glu(np.array([2.0, 0.0]))
    array([1.])
    """
    x = floating(input, "glu")
    if not -x.ndim <= dim < x.ndim or x.shape[dim] % 2:
        refuse_shape(f"glu: dimension {dim} of the shape {x.shape} does not divide into halves")
    first, gate = np.split(x, 2, axis=dim)
    return first * sigmoid(gate)


@with_inplace
@dispatched
def mish(input: Array) -> Array:
    """`input * tanh(log(1 + exp(input)))`, elementwise.

    >>> mish(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.8651])
    """
    x = floating(input, "mish")
    return x * np.tanh(softplus(x))


@with_inplace
@dispatched
def hardsigmoid(input: Array) -> Array:
    """`relu6(input + 3) / 6`, elementwise.

    >>> hardsigmoid(np.array([-4.0, 0.0, 1.5]))
    array([0.  , 0.5 , 0.75])
    """
    return relu6(floating(input, "hardsigmoid") + 3.0) / 6.0


@with_inplace
@dispatched
def hardswish(input: Array) -> Array:
    """`input * relu6(input + 3) / 6`, elementwise.

    >>> hardswish(np.array([-4.0, 1.0, 5.0])).round(4)
    array([-0.    ,  0.6667,  5.    ])
    """
    x = floating(input, "hardswish")
    return x * hardsigmoid(x)


@dispatched
def prelu(input: Array, weight: Array) -> Array:
    """`input` where it is positive, `weight * input` elsewhere; `weight` has one number, or one for each of the second dimension.

    >>> prelu(np.array([-2.0, 3.0]), np.array([0.25]))
    array([-0.5,  3. ])
    """
    x = floating(input, "prelu")
    slope: Any = as_traced(weight)
    channels = x.shape[1] if x.ndim > 1 else 1
    if slope.shape not in ((), (1,), (channels,)):
        refuse_shape(f"prelu: weight has one number, or {channels} for an input of the shape {x.shape}, got the shape {slope.shape}")
    if slope.size > 1:
        slope = np.reshape(slope, (channels, *(1,) * (x.ndim - 2)))
    return np.where(x > 0, x, slope * x)
