"""Samples along an axis, or several, as the functions of `scipy.stats` take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.ir.errors import UnsupportedError
from adjit.scipy.sliding import inexact
from adjit.tracer.array import as_traced
from adjit.tracer.functions.shapes import normalize_axis
from adjit.tracer.user_location import find_user_location


def check_policy(nan_policy: str) -> None:
    if nan_policy not in ("propagate", "raise", "omit"):
        raise ValueError("nan_policy must be one of {'propagate', 'raise', 'omit'}")
    if nan_policy != "propagate":
        raise UnsupportedError(f"nan_policy={nan_policy!r}: values decide on which elements there are", find_user_location(),
                               hint="np.nanmean and its kin have rules")


def _places(x: Any, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    return tuple(normalize_axis(each, x.ndim) for each in (axis if isinstance(axis, (tuple, list)) else (axis,)))


def rows_of(x: Any, axis: Any, nan_policy: str = "propagate") -> Any:
    """The samples along the last axis."""
    check_policy(nan_policy)
    (x,) = inexact(np.atleast_1d(as_traced(x)))
    places = _places(x, axis)
    x = np.moveaxis(x, places, tuple(range(x.ndim - len(places), x.ndim)))
    return np.reshape(x, (*x.shape[:x.ndim - len(places)], -1))


def kept(found: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    return np.expand_dims(found, _places(np.atleast_1d(as_traced(x)), axis)) if keepdims else found
