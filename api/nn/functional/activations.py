"""Activations: elementwise functions at the end of layers, some with a gate or a learned slope, and the softmax family."""

from __future__ import annotations

import inspect
from typing import Any, Literal

import numpy as np

from adjit import random
from adjit.ir import ops
from adjit.ir.errors import ArgumentError
from adjit.nn.functional.arguments import Array, dimension, floating, refuse_shape, with_inplace
from adjit.nn.functional.dropout_layers import new_key
from adjit.nn.functional.linear_layers import is_label
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions import composites
from adjit.tracer.functions.composites import erf, sigmoid
from adjit.tracer.promotion import dtype_argument
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
def softmax(input: Array, axis: Any = None, *, dim: Any = None, dtype: Any = None) -> Array:
    """`exp(input) / sum(exp(input))` over `axis` (or `dim`; default: the last), without overflow; with `dtype`, `input` is converted first.

    >>> softmax(np.array([0.0, 0.0]), dim=0)
    array([0.5, 0.5])
    """
    axis = dimension(axis, dim, "softmax")
    x = _converted(input, dtype)
    return composites.softmax(x, -1 if axis is None else axis) if x.size else x


@dispatched
def log_softmax(input: Array, axis: Any = None, *, dim: Any = None, dtype: Any = None) -> Array:
    """`log(softmax(input))` over `axis` (or `dim`; default: the last), without overflow or loss of precision; with `dtype`, `input` is
    converted first.

    >>> log_softmax(np.array([0.0, 1000.0]))
    array([-1000.,     0.])
    """
    axis = dimension(axis, dim, "log_softmax")
    x = _converted(input, dtype)
    return composites.log_softmax(x, -1 if axis is None else axis) if x.size else x


@dispatched
def softmin(input: Array, axis: Any = None, *, dim: Any = None, dtype: Any = None) -> Array:
    """`softmax(-input)`.

    >>> softmin(np.array([0.0, 1.0]), dim=0).round(4)
    array([0.7311, 0.2689])
    """
    return softmax(-_converted(input, dtype), dimension(axis, dim, "softmin"))


def _converted(x: Any, dtype: Any) -> Any:
    return as_traced(x) if dtype is None else as_traced(x).astype(dtype_argument(dtype))


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


@with_inplace
@dispatched
def celu(input: Array, alpha: float = 1.0) -> Array:
    """`input` where it is positive, `alpha * (exp(input / alpha) - 1)` elsewhere. The derivative at 0 is 1.

    Source: Barron, Continuously Differentiable Exponential Linear Units, arXiv:1704.07483.

    >>> celu(np.array([-1.0, 2.0]), 0.5).round(4)
    array([-0.4323,  2.    ])
    """
    x = floating(input, "celu")
    return np.where(x > 0, x, alpha * np.expm1(x / alpha))


@dispatched
def hardshrink(input: Array, lambd: float = 0.5) -> Array:
    """`input` where it is above `lambd` or below `-lambd`, 0 elsewhere; NaN stays NaN.

    >>> hardshrink(np.array([-2.0, 0.3, 0.7]))
    array([-2. ,  0. ,  0.7])
    """
    x = floating(input, "hardshrink")
    return np.where((x >= -lambd) & (x <= lambd), 0.0, x)


@dispatched
def softshrink(input: Array, lambd: float = 0.5) -> Array:
    """`input`, nearer to 0 by `lambd`; 0 where it is nearer than that.

    >>> softshrink(np.array([-2.0, 0.3, 0.75]))
    array([-1.5 ,  0.  ,  0.25])
    """
    if lambd < 0.0:
        raise ArgumentError(f"softshrink: lambd is not negative, got {lambd}", find_user_location())
    x = floating(input, "softshrink")
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, x * 0.0))


@dispatched
def tanhshrink(input: Array) -> Array:
    """`input - tanh(input)`, elementwise.

    >>> tanhshrink(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.2384])
    """
    x = floating(input, "tanhshrink")
    return x - np.tanh(x)


@with_inplace
@dispatched
def threshold(input: Array, threshold: float, value: float) -> Array:
    """`input` where it is above `threshold`, `value` elsewhere; NaN stays NaN.

    >>> threshold(np.array([-1.0, 0.5, 2.0]), 1.0, -3.0)
    array([-3., -3.,  2.])
    """
    x = floating(input, "threshold")
    return np.where(x <= threshold, value, x)


def rrelu(input: Array, lower: float = 1.0 / 8.0, upper: float = 1.0 / 3.0, training: bool = False, inplace: bool = False, *,
          key: Any = None) -> Array:
    """`input` where it is positive, elsewhere times a slope: in training uniform in (lower, upper), else the middle of both.

    The slopes depend on `key` (see `adjit.random`), or on the default generator. With `inplace` the result is written into `input`.
    Source: Xu et al., Empirical Evaluation of Rectified Activations in Convolutional Network, arXiv:1505.00853.

    >>> rrelu(np.array([-1.0, 2.0]), 0.25, 0.75)
    array([-0.5,  2. ])
    """
    if not lower <= upper:
        raise ArgumentError(f"rrelu: lower {lower} is above upper {upper}", find_user_location())
    if not training:
        return leaky_relu(input, (lower + upper) / 2.0, inplace=inplace)      # type: ignore[call-arg]
    return _random_slopes(input, lower, upper, new_key("rrelu") if key is None else key, inplace=inplace)       # type: ignore[call-arg]


@with_inplace
@dispatched
def _random_slopes(input: Array, lower: float, upper: float, key: Any) -> Array:
    x = floating(input, "rrelu")
    return np.where(x > 0, x, random.uniform(key, x.shape, x.dtype, lower, upper) * x)


def gumbel_softmax(logits: Array, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1, *, key: Any = None) -> Array:
    """Sample of a relaxed categorical distribution: `softmax((logits + g) / tau)` with standard Gumbel numbers g.

    With `hard` the result is 1 at the largest element and 0 elsewhere, and its derivative is that of the soft one. The numbers depend on
    `key` (see `adjit.random`), or on the default generator; `eps` is not used, as in PyTorch.
    Source: Jang, Gu and Poole, Categorical Reparameterization with Gumbel-Softmax, arXiv:1611.01144.

    >>> from adjit import random
    >>> float(gumbel_softmax(np.zeros(3), hard=True, key=random.key(0)).sum())
    1.0
    """
    return _gumbel(logits, tau, hard, dim, new_key("gumbel_softmax") if key is None else key)


@dispatched
def _gumbel(logits: Array, tau: float, hard: bool, dim: int, key: Any) -> Array:
    x = floating(logits, "gumbel_softmax")
    uniform = np.maximum(random.uniform(key, x.shape, x.dtype), np.finfo(x.dtype).tiny)
    soft = composites.softmax((x - np.log(-np.log(uniform))) / tau, dim)
    if not hard:
        return soft
    largest = np.expand_dims(np.argmax(soft, axis=dim), dim)
    chosen = np.swapaxes(is_label(np.swapaxes(largest, dim, -1)[..., 0], x.shape[dim], -1), dim, -1).astype(x.dtype)
    return chosen - wrap(ops.stop_gradient(soft.value)) + soft


def _in_place(function: Any) -> Any:
    """Make PyTorch's twin of an activation, whose result is written into `input`."""
    def twin(input: Any, *settings: Any, **named: Any) -> Any:
        return function(input, *settings, inplace=True, **named)

    signature = inspect.signature(function)
    kept = [parameter for name, parameter in signature.parameters.items() if name != "inplace"]
    twin.__signature__ = signature.replace(parameters=kept)     # type: ignore[attr-defined]
    twin.__name__ = twin.__qualname__ = f"{function.__name__}_"
    twin.__doc__ = f"""Write the result of `{function.__name__}` into `input`; returns `input`.

    >>> {twin.__name__}(np.array([2.0]){", 1.0, 0.0" if function is threshold else ""})
    array([{"1." if function is hardtanh else "2.10140197" if function is selu else "2."}])
    """
    return twin


relu_, elu_, selu_, celu_, leaky_relu_, hardtanh_, threshold_, rrelu_ = map(_in_place, (
    relu, elu, selu, celu, leaky_relu, hardtanh, threshold, rrelu))
