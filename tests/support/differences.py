"""Derivatives by differences, with what they may be off, and none at kinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def slope(function: Callable[[float], Any]) -> tuple[Any, Any] | None:
    """The derivative at 0 by differences, and how far it may be off; None where there is a kink, or none is found.

    Central differences of two widths agree where the function is smooth, and what the differences to both sides differ by halves with the
    width; at a kink it does not.
    """
    middle = function(0.0)
    central, apart = [], []
    for width in (2e-4, 1e-4):
        low, high = function(-width), function(width)
        central.append((high - low) / (2 * width))
        apart.append(np.abs(high - 2 * middle + low) / width)
    noise = 1e-10 * (1 + np.max(np.abs(middle), initial=0.0))
    error = np.abs(central[0] - central[1])
    fine = np.isfinite(error) & (error <= 1e-4 * (1 + np.abs(central[1]))) & (apart[1] <= 0.6 * apart[0] + noise / 1e-4)
    if not np.all(fine):
        return None
    return (4 * central[1] - central[0]) / 3, 2 * error + noise / 1e-4 + 1e-7 * np.abs(central[1])
