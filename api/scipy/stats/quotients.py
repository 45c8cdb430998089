"""Functions whose quotient 0 / 0 has a limit, with derivatives of every order there: by their series near 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit import special as sc

_NEAR = 0.02
"""Distance from 0 up to which the series are taken: a second derivative of the quotient has lost four digits there."""


def _series(u: Any, coefficients: Sequence[float]) -> tuple[Any, Any]:
    """Where the series is taken, and the series there."""
    near = np.abs(u) < _NEAR
    small: Any = np.where(near, u, 0.0)
    value: Any = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        value = value * small + coefficient
    return near, value


def log1p_quotient(u: Any) -> Any:
    """log(1 + u) / u, 1 at 0."""
    near, series = _series(u, [(-1.0) ** n / (n + 1.0) for n in range(11)])
    return np.where(near, series, np.log1p(np.where(near, 1.0, u)) / np.where(near, 1.0, u))


def expm1_quotient(u: Any) -> Any:
    """(e^u - 1) / u, 1 at 0."""
    near, series = _series(u, [1.0 / math.factorial(n + 1) for n in range(8)])
    return np.where(near, series, np.expm1(np.where(near, 1.0, u)) / np.where(near, 1.0, u))


def log_i0e(x: Any) -> Any:
    """log(e^-x I0(x)) of x >= 0, with the derivative from the right at 0: that of e^-|x| I0(x) is 0 there, the mean of both sides."""
    return np.log(sc.i0e(x)) + (np.abs(x) - x)
