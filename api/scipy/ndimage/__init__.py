"""Filters and interpolation of `scipy.ndimage`, for traced arrays and tensors; plain arrays outside of a trace go to SciPy's own.

    >>> import numpy as np
    >>> import adjit as aj
    >>> from adjit.scipy import ndimage
    >>> loss = lambda x: np.sum(ndimage.gaussian_filter(x, 1.0) ** 2)
    >>> aj.grad(loss)(np.ones((2, 2))).round(6)
    array([[2., 2.],
           [2., 2.]])

All modes at the edges, splines of all orders. What else SciPy's module has takes plain arrays alone (`docs/scipy.md`).
"""

from __future__ import annotations

from typing import Any

from adjit.scipy.mirror import without_rule
from adjit.scipy.ndimage.filters import (
    convolve,
    convolve1d,
    correlate,
    correlate1d,
    gaussian_filter,
    gaussian_filter1d,
    gaussian_gradient_magnitude,
    gaussian_laplace,
    laplace,
    maximum_filter,
    maximum_filter1d,
    median_filter,
    minimum_filter,
    minimum_filter1d,
    percentile_filter,
    prewitt,
    rank_filter,
    sobel,
    uniform_filter,
    uniform_filter1d,
)
from adjit.scipy.ndimage.sampling import affine_transform, map_coordinates, rotate, shift, zoom
from adjit.scipy.ndimage.splines import spline_filter, spline_filter1d

__all__ = [
    "affine_transform", "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "gaussian_filter1d",
    "gaussian_gradient_magnitude", "gaussian_laplace", "laplace", "map_coordinates", "maximum_filter", "maximum_filter1d", "median_filter",
    "minimum_filter", "minimum_filter1d", "percentile_filter", "prewitt", "rank_filter", "rotate", "shift", "sobel", "spline_filter",
    "spline_filter1d", "uniform_filter", "uniform_filter1d", "zoom",
]

_others = without_rule("ndimage", __all__)


def __getattr__(name: str) -> Any:
    """Return what else SciPy's module has under this name, for plain arrays."""
    return _others(name)
