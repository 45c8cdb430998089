"""Draws of gamma distributions, with derivatives in the concentration."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.eager.apply import apply
from adjit.eager.functional.elementwise import igamma
from adjit.eager.generator import next_key
from adjit.eager.tensor import Tensor
from adjit.ir.errors import UnsupportedError
from adjit.runtime.custom_vjp import custom_vjp
from adjit.runtime.transforms import stop_gradient
from adjit.tracer import random
from adjit.tracer.array import as_traced
from adjit.tracer.registry import FUNCTIONS, special_function
from adjit.tracer.user_location import find_user_location

Array = Any


def log_gamma_draw(concentration: Tensor) -> Tensor:
    """Logarithms of draws of gamma distributions of rate 1: by the inverse distribution function of `concentration + 1`, and a uniform
    number to the power `1 / concentration`, so that draws of small concentrations do not vanish."""
    return apply(_drawn, (concentration, next_key()))       # type: ignore[no-any-return]


def _drawn(concentration: Array, key: Array) -> Array:
    a = as_traced(concentration).astype(np.float64)
    first, second = (random.uniform(random.fold_in(key, i), a.shape, np.float64) for i in range(2))
    log_x = _log_quantile(a + 1.0, first)
    return (log_x + np.log1p(-second) / a).astype(as_traced(concentration).dtype)


@custom_vjp
def _log_quantile(a: Array, u: Array) -> Array:
    quantile = special_function("gammaincinv")
    if quantile is None:
        raise UnsupportedError("draws of gamma distributions need SciPy", find_user_location(), hint="pip install 'adjit[scipy]'")
    return np.log(quantile(stop_gradient(a), stop_gradient(u)))


def _forward(a: Array, u: Array) -> tuple[Array, Any]:
    log_x = _log_quantile(a, u)
    return log_x, (a, log_x)


def _backward(residuals: Any, cotangent: Array) -> tuple[Array, Array]:
    """By the implicit function: -dP(a, x)/da / (x p(a, x)); dP/da by differences of fourth order, to 10 digits."""
    a, log_x = residuals
    x, h = np.exp(log_x), 1e-3 * a
    near, far = (igamma(a + k * h, x) - igamma(a - k * h, x) for k in (1, 2))
    slope = (8.0 * near - far) / (12.0 * h)
    log_density = a * log_x - x - FUNCTIONS["scipy.special", "gammaln"](a)        # of log x
    return -cotangent * slope * np.exp(-log_density), np.zeros_like(a)


_log_quantile.defvjp(_forward, _backward)
