"""Comparison of what a program computed with what it should compute, with tolerances by dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.ir.types import is_half, is_inexact

TOLERANCES = {8: 1e-8, 4: 1e-4, 2: 2e-2}
"""Largest difference of floats of so many bytes, as a part of the largest number of the array: rounding in another order stays far below
it, in all but ill-conditioned functions."""


NOISE_FACTOR = 64.0
"""Differences that count as rounding, in those that a few roundings of the arguments make: sums that cancel have few right digits."""

_EPSILON = {8: 2.2e-16, 4: 1.2e-7, 2: 1e-3}


def tolerance(dtype: np.dtype) -> float:
    """Largest difference of two arrays of a dtype, relative to the largest number; 0 for integers and bools."""
    if not is_inexact(dtype):
        return 0.0
    return TOLERANCES[dtype.itemsize // 2 if dtype.kind == "c" else 2 if is_half(dtype) else dtype.itemsize]


def difference(found: Any, expected: Any, noise: float = 0.0) -> str:
    """Words for how an array differs from another one; empty if it does not. `noise` is what rounding of the arguments does to it; an
    infinite one says that it changes integers and bools."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        return f"has shape {found.shape}, expected {expected.shape}"
    if found.dtype != expected.dtype:
        return f"has dtype {found.dtype}, expected {expected.dtype}"
    if not is_inexact(found.dtype):
        differs = np.asarray(found != expected) & (noise != np.inf)
        allowed = "they have to be equal"
    else:
        wide = np.complex128 if found.dtype.kind == "c" else np.float64
        found, expected, relative = found.astype(wide), expected.astype(wide), tolerance(found.dtype)
        with np.errstate(all="ignore"):
            largest = np.abs(expected[np.isfinite(expected)])
            allowance = relative * (float(largest.max()) if largest.size else 0.0) + NOISE_FACTOR * noise
            same = (found == expected) | (np.isnan(found) & np.isnan(expected))
            differs = ~(same | (np.abs(found - expected) <= allowance))
        allowed = f"differences up to {allowance:.2g} count as rounding"
    if not differs.any():
        return ""
    at = tuple(int(index) for index in np.argwhere(differs)[0])
    place = f" at index {at}" if at else ""
    count = f", {int(differs.sum())} of {differs.size} elements" if differs.size > 1 else ""
    return f"is {found[at]!s}{place}, expected {expected[at]!s}{count} ({allowed})"


def perturbed(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Arrays whose floats differ by a few roundings: what a function makes of these tells how exact its results can be. Whole numbers
    are exact."""
    draw = np.random.default_rng(0)
    return [array if not is_inexact(array.dtype) or np.array_equal(array, np.rint(array)) else
            (array * (1 + _EPSILON[array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)] * draw.choice((-4.0, 4.0), array.shape)))
            .astype(array.dtype) for array in arrays]


def distance(one: Any, other: Any) -> float:
    """Largest finite difference of two arrays of floats; of others 0 if they are equal, else infinity, as a comparison has no small one."""
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape:
        return 0.0
    if not is_inexact(one.dtype):
        return 0.0 if np.array_equal(one, other) else np.inf
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        apart = np.abs(one.astype(wide) - other.astype(wide))
    return float(np.max(apart[np.isfinite(apart)], initial=0.0))
