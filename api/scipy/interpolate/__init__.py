"""Interpolation of `scipy.interpolate`, for traced arrays and tensors; what is made of plain arrays outside of a trace is SciPy's.

    >>> import numpy as np
    >>> import adjit as aj
    >>> from adjit.scipy import interpolate
    >>> x = np.linspace(0.0, 3.0, 4)
    >>> spline = interpolate.CubicSpline(x, x ** 3)
    >>> aj.grad(spline)(1.5).round(6)
    np.float64(6.75)

Values, and where it makes sense knots, may be traced; derivatives go to them and to the places asked for. Results are float64. What else
SciPy's module has takes plain arrays alone (`docs/scipy.md`).
"""

from __future__ import annotations

from typing import Any

from adjit.scipy.interpolate.bsplines import BSpline, make_interp_spline, splev
from adjit.scipy.interpolate.fitting import (
    InterpolatedUnivariateSpline,
    LSQUnivariateSpline,
    RectBivariateSpline,
    UnivariateSpline,
    around_surface,
    around_univariate,
    make_lsq_spline,
    make_smoothing_spline,
    spalde,
    splantider,
    splder,
    splint,
    splrep,
)
from adjit.scipy.interpolate.polynomials import Akima1DInterpolator, CubicHermiteSpline, CubicSpline, PchipInterpolator, PPoly
from adjit.scipy.interpolate.scattered import (
    BarycentricInterpolator,
    CloughTocher2DInterpolator,
    KroghInterpolator,
    LinearNDInterpolator,
    NearestNDInterpolator,
    RBFInterpolator,
    around_points,
    around_radial,
    around_scattered,
    barycentric_interpolate,
    griddata,
    krogh_interpolate,
    pchip_interpolate,
)
from adjit.scipy.interpolate.tables import RegularGridInterpolator, around_table, interp1d, interpn
from adjit.scipy.mirror import scipys, without_rule

__all__ = [
    "Akima1DInterpolator", "BSpline", "BarycentricInterpolator", "CloughTocher2DInterpolator", "CubicHermiteSpline", "CubicSpline",
    "InterpolatedUnivariateSpline", "KroghInterpolator", "LSQUnivariateSpline", "LinearNDInterpolator", "NearestNDInterpolator",
    "PPoly", "PchipInterpolator", "RBFInterpolator", "RectBivariateSpline", "RegularGridInterpolator", "UnivariateSpline",
    "barycentric_interpolate", "griddata", "interp1d", "interpn", "krogh_interpolate", "make_interp_spline", "make_lsq_spline",
    "make_smoothing_spline", "pchip_interpolate", "spalde", "splantider", "splder", "splev", "splint", "splrep",
]

def around(theirs: Any) -> Any:
    """Interpolator that holds one of SciPy's own, or a function that computes what it does."""
    scipy = scipys("interpolate")
    if isinstance(theirs, (scipy.BarycentricInterpolator, scipy.KroghInterpolator)):
        return around_points(theirs)
    if isinstance(theirs, scipy.RBFInterpolator):
        return around_radial(theirs)
    if isinstance(theirs, (scipy.LinearNDInterpolator, scipy.NearestNDInterpolator)):
        return around_scattered(theirs)
    if isinstance(theirs, scipy.UnivariateSpline):
        return around_univariate(theirs)
    return around_surface(theirs) if isinstance(theirs, scipy.BivariateSpline) else around_table(theirs)


_others = without_rule("interpolate", __all__)


def __getattr__(name: str) -> Any:
    """Return what else SciPy's module has under this name, for plain arrays."""
    return _others(name)
