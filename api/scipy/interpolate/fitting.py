"""Splines through values, and near them, at known places: FITPACK's names, least squares, smoothing. Coefficients are linear in the values,
which may be traced; where values decide on the knots, as with `s > 0`, that is refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.ir.errors import ShapeError, UnsupportedError
from adjit.scipy import linalg
from adjit.scipy.interpolate.bsplines import BSpline, around_spline, make_interp_spline, splev, surface
from adjit.scipy.interpolate.polynomials import Interpolator, column, float64, known
from adjit.scipy.mirror import arrays_of, is_plain, scipys
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions.shapes import normalize_axis
from adjit.tracer.user_location import find_user_location


def _places(x: Any, y: Any, axis: int) -> np.ndarray:
    """Known places of values; raises `ShapeError` if values along `axis` are not as many."""
    places = np.asarray(known(x, "the places"), dtype=np.float64)
    if places.ndim != 1 or not np.ndim(y) or np.shape(y)[axis] != places.size:
        raise ShapeError(f"places of shape {places.shape} do not fit to values of shape {np.shape(y)} along axis {axis}",
                         find_user_location())
    return places


def _weights(w: Any, count: int) -> np.ndarray:
    return np.ones(count) if w is None else np.asarray(known(w, "the weights"), dtype=np.float64)


@dispatched
def _mapped(matrix: Any, y: Any, axis: int) -> Any:
    """Products of a matrix with values along an axis."""
    y = np.moveaxis(float64(y), axis, 0)
    return np.moveaxis(np.reshape(matrix @ np.reshape(y, (y.shape[0], -1)), (matrix.shape[0], *y.shape[1:])), 0, axis)


def make_lsq_spline(x: Any, y: Any, t: Any, k: int = 3, w: Any = None, axis: int = 0, check_finite: bool = True, *, method: str = "qr"
                    ) -> BSpline:
    """Equivalent of `scipy.interpolate.make_lsq_spline`: the B-spline of degree `k` with the known knots `t` that is nearest to values `y`
    at known places `x`, by least squares with weights `w`; derivatives go to `y`.

    >>> import numpy as np
    >>> import adjit as aj
    >>> x, t = np.arange(4.0), np.array([0.0, 0.0, 3.0, 3.0])
    >>> aj.grad(lambda y: make_lsq_spline(x, y, t, 1)(0.0))(np.zeros(4)).round(6)
    array([ 0.7,  0.4,  0.1, -0.2])
    """
    x, y, t, w = arrays_of(x, y, t, w)
    if is_plain(x, y, t, w):
        return around_spline(scipys("interpolate").make_lsq_spline(x, y, t, k, w, axis, check_finite, method=method))
    axis = normalize_axis(axis, np.ndim(y))
    places, knots = _places(x, y, axis), np.asarray(known(t, "the knots"), dtype=np.float64)
    weights = _weights(w, places.size)
    scipys("interpolate").make_lsq_spline(places, np.zeros(places.size), knots, k, weights)       # checks knots
    q, r = np.linalg.qr(scipys("interpolate").BSpline.design_matrix(places, knots, k).toarray() * weights[:, None])
    return BSpline(knots, _mapped(scipys("linalg").solve_triangular(r, q.T) * weights, y, axis), k, axis=axis)


def _smoothing_bands(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bands of the matrix of values of natural splines, and of that of penalties over weights (de Boor, "A practical guide to splines";
    SciPy's formulas)."""
    n, t = x.size, np.concatenate([[x[0]] * 3, x, [x[-1]] * 3])
    basis = scipys("interpolate").BSpline.design_matrix(x, t, 3).toarray()
    values, penalties = np.zeros((5, n)), np.zeros((5, n))
    middle = np.arange(n - 4)
    for row in range(1, 4):
        values[row, 2:-2] = basis[row:row - 4, 3:-3][middle, middle]
    values[1, 1] = basis[0, 0]
    values[2, :2] = (x[2] + x[1] - 2 * x[0]) * basis[0, 0], basis[1, 1] + basis[1, 2]
    values[3, :2] = (x[2] - x[0]) * basis[1, 1], basis[2, 2]
    values[1, -2:] = basis[-3, -3], (x[-1] - x[-3]) * basis[-2, -2]
    values[2, -2:] = basis[-2, -3] + basis[-2, -2], (2 * x[-1] - x[-2] - x[-3]) * basis[-1, -1]
    values[3, -2] = basis[-1, -1]

    def divided(places: np.ndarray) -> np.ndarray:
        return 1.0 / np.prod(np.subtract.outer(places, places) + np.eye(places.size), axis=1)

    penalties[2:, 0] = divided(x[:3]) / w[:3]
    penalties[1:, 1] = divided(x[:4]) / w[:4]
    for j in range(2, n - 2):
        penalties[:, j] = (x[j + 2] - x[j - 2]) * divided(x[j - 2:j + 3]) / w[j - 2:j + 3]
    penalties[:-1, -2] = -divided(x[-4:]) / w[-4:]
    penalties[:-2, -1] = divided(x[-3:]) / w[-3:]
    return values, 6.0 * penalties


@dispatched
def _smoothed(values: Any, penalties: Any, lam: Any, y: Any, t: Any, axis: int) -> Any:
    y = np.moveaxis(float64(y), axis, 0)
    flat = np.reshape(y, (y.shape[0], -1))
    c = linalg.solve_banded((2, 2), values + float64(lam) * penalties, flat)
    first, last = c[:1], c[-1:]
    c = np.concatenate([first * (t[5] + t[4] - 2 * t[3]) + c[1:2], first * (t[5] - t[3]) + c[1:2], c[1:-1],
                        last * (t[-4] - t[-6]) + c[-2:-1], last * (2 * t[-4] - t[-5] - t[-6]) + c[-2:-1]])
    return np.moveaxis(np.reshape(c, (c.shape[0], *y.shape[1:])), 0, axis)


def make_smoothing_spline(x: Any, y: Any, w: Any = None, lam: Any = None, *, axis: int = 0) -> BSpline:
    """Equivalent of `scipy.interpolate.make_smoothing_spline` with a given `lam`: the cubic spline that is near values `y` at known places
    `x` and has little curvature; derivatives go to `y` and to `lam`. SciPy's search for `lam` is refused.

    >>> import numpy as np
    >>> import adjit as aj
    >>> x, y = np.arange(5.0), np.array([0.0, 1.0, 0.0, 1.0, 0.0])
    >>> float(aj.grad(lambda lam: make_smoothing_spline(x, y, lam=lam)(2.0))(0.1).round(4))
    1.0955
    """
    x, y, w = arrays_of(x, y, w)
    if is_plain(x, y, w, lam):
        options = {"axis": axis} if axis else {}        # of older SciPy there is none
        return around_spline(scipys("interpolate").make_smoothing_spline(x, y, w, lam, **options))
    if lam is None:
        raise UnsupportedError("make_smoothing_spline of traced values without lam, which it would search for", find_user_location(),
                               hint="pass lam=, a number that may be traced")
    axis = normalize_axis(axis, np.ndim(y))
    places = _places(x, y, axis)
    if places.size < 5:
        raise ValueError("``x`` and ``y`` length must be at least 5")
    if np.any(np.diff(places) <= 0):
        raise ValueError("``x`` should be an ascending array")
    t = np.concatenate([[places[0]] * 3, places, [places[-1]] * 3])
    return BSpline(t, _smoothed(*_smoothing_bands(places, _weights(w, places.size)), lam, y, t, axis), 3, axis=axis)


# -- FITPACK's splines of one variable


def _knots(x: np.ndarray, k: int, ends: tuple[Any, Any]) -> np.ndarray:
    """Knots of the spline that goes through values at places."""
    half = k // 2
    inner = x[half + 1:x.size - half - 1] if k % 2 else 0.5 * (x[half:x.size - half - 1] + x[half + 1:x.size - half])
    return np.concatenate([[ends[0]] * (k + 1), inner, [ends[1]] * (k + 1)])


def _through(x: Any, y: Any, k: int, ends: Sequence[Any], name: str) -> BSpline:
    """FITPACK's spline through values."""
    places = _places(x, y, 0)
    if places.size <= k or not 1 <= k <= 5:
        raise ValueError(f"{name} of degree {k} needs more than {k} places, and a degree from 1 to 5")
    if np.any(np.diff(places) <= 0):
        raise ValueError("x must be strictly increasing if s = 0")
    first, last = (place if end is None else float(end) for place, end in zip((places[0], places[-1]), ends, strict=True))
    return make_interp_spline(places, y, k, _knots(places, k, (first, last)))


def _of_data(name: str) -> UnsupportedError:
    return UnsupportedError(f"{name} with s > 0 of traced values: they decide on the number of knots", find_user_location(),
                            hint="pass s=0 for a spline through the values, or use make_smoothing_spline with lam=, or make_lsq_spline")


@dispatched
def _padded(c: Any, count: int) -> Any:
    return np.concatenate([c, np.zeros((count, *c.shape[1:]))])


def splrep(x: Any, y: Any, w: Any = None, xb: Any = None, xe: Any = None, k: int = 3, task: int = 0, s: Any = None, t: Any = None,
           full_output: Any = 0, per: Any = 0, quiet: Any = 1) -> Any:
    """Equivalent of `scipy.interpolate.splrep`: knots, coefficients and degree of the spline through values `y` at known places `x`
    (`s=0`, without weights the default), or with `t` of that by least squares with these inner knots. With `s > 0` traced values are
    refused.

    >>> import numpy as np
    >>> import adjit as aj
    >>> x = np.arange(4.0)
    >>> aj.grad(lambda y: splev(1.5, splrep(x, y)))(x ** 2).round(4)
    array([-0.0625,  0.5625,  0.5625, -0.0625])
    """
    x, y, w, t = arrays_of(x, y, w, t)
    if is_plain(x, y, w, t):
        return scipys("interpolate").splrep(x, y, w, xb, xe, k, task, s, t, full_output, per, quiet)
    if per or full_output or task == 1:
        raise UnsupportedError("splrep with per, full_output or task=1 of traced values", find_user_location(),
                               hint='periodic splines are make_interp_spline(bc_type="periodic")')
    if t is None and (s if s is not None else w is not None):
        raise _of_data("splrep")
    if t is None:
        found = _through(x, y, k, (xb, xe), "splrep")
    else:
        places, inner = _places(x, y, 0), np.asarray(known(t, "the knots"), dtype=np.float64)
        first, last = (place if end is None else end for place, end in zip((places[0], places[-1]), (xb, xe), strict=True))
        found = make_lsq_spline(places, y, np.concatenate([[first] * (k + 1), inner, [last] * (k + 1)]), k, w)
    return found.t, _padded(found.c, k + 1), k


def splint(a: Any, b: Any, tck: Any, full_output: Any = 0) -> Any:
    """Equivalent of `scipy.interpolate.splint`: the integral from `a` to `b` of the spline `tck`, 0 outside of the knots.

    >>> import numpy as np
    >>> import adjit as aj
    >>> tck = np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 3.0]), 1
    >>> float(aj.grad(lambda b: splint(0.0, b, tck))(0.5))
    2.0
    """
    if is_plain(a, b, tck) or full_output:
        return scipys("interpolate").splint(a, b, tck, full_output)
    t, c, k = (tck.t, tck.c, tck.k) if hasattr(tck, "t") else tck
    return BSpline(t, c, k).integrate(a, b, extrapolate=False)


@dispatched
def _slopes(t: Any, c: Any, k: int, n: int) -> tuple[Any, Any]:
    t, c = float64(t), float64(c)
    for degree in range(k, k - n, -1):
        steps = column(t[degree + 1:-1] - t[1:-degree - 1], c)
        c = np.concatenate([(c[1:-1 - degree] - c[:-2 - degree]) * degree / steps, np.zeros((degree, *c.shape[1:]))])
        t = t[1:-1]
    return t, c


@dispatched
def _sums(t: Any, c: Any, k: int, n: int) -> tuple[Any, Any]:
    t, c = float64(t), float64(c)
    for degree in range(k, k + n):
        sums = np.cumsum(c[:-degree - 1] * column(t[degree + 1:] - t[:-degree - 1], c), axis=0) / (degree + 1)
        c = np.concatenate([np.zeros_like(sums[:1]), sums, *[sums[-1:]] * (degree + 2)])
        t = np.concatenate([t[:1], t, t[-1:]])
    return t, c


def splder(tck: Any, n: int = 1) -> Any:
    """Equivalent of `scipy.interpolate.splder`: the derivative of order `n` of a spline, as a spline.

    >>> import numpy as np
    >>> splder((np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 3.0, 0.0, 0.0]), 1))[1]
    array([2., 0.])
    """
    if is_plain(tck):
        return scipys("interpolate").splder(tck, n)
    if hasattr(tck, "t"):
        return tck.derivative(n)
    t, c, k = tck
    if n > k:
        raise ValueError(f"Order of derivative (n = {n!r}) must be <= order of spline (k = {k!r})")
    return splantider(tck, -n) if n < 0 else (*_slopes(t, c, k, n), k - n)


def splantider(tck: Any, n: int = 1) -> Any:
    """Equivalent of `scipy.interpolate.splantider`: the antiderivative of order `n` of a spline, as a spline.

    >>> import numpy as np
    >>> splantider((np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 3.0, 0.0, 0.0]), 1))[1][:3]
    array([0. , 0.5, 2. ])
    """
    if is_plain(tck):
        return scipys("interpolate").splantider(tck, n)
    if hasattr(tck, "t"):
        return tck.antiderivative(n)
    t, c, k = tck
    return splder(tck, -n) if n < 0 else (*_sums(t, c, k, n), k + n)


def spalde(x: Any, tck: Any) -> Any:
    """Equivalent of `scipy.interpolate.spalde`: the value and all derivatives of a spline at `x`, for several places a list.

    >>> import numpy as np
    >>> spalde(0.5, (np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 3.0, 0.0, 0.0]), 1))
    array([2., 2.])
    """
    if is_plain(x, tck):
        return scipys("interpolate").spalde(x, tck)
    degree = tck.k if hasattr(tck, "k") else tck[2]
    found = _together([splev(x, tck, order) for order in range(degree + 1)])
    return found if np.ndim(x) == 0 else list(found)


@dispatched
def _together(parts: list[Any]) -> Any:
    return np.stack(parts, axis=-1)


class UnivariateSpline(Interpolator):
    """Equivalent of `scipy.interpolate.UnivariateSpline`, of traced values with `s=0`: the spline through values `y` at known places `x`.
    `ext`: outside of the places the spline goes on (0), is 0 (1), NaN where SciPy raises (2), or stays what it is at the end (3).

    >>> import numpy as np
    >>> import adjit as aj
    >>> x = np.arange(4.0)
    >>> aj.grad(lambda y: UnivariateSpline(x, y, s=0).integral(0.0, 3.0))(x ** 2).round(4)
    array([0.375, 1.125, 1.125, 0.375])
    """

    def __init__(self, x: Any, y: Any, w: Any = None, bbox: Sequence[Any] = (None, None), k: int = 3, s: Any = None, ext: Any = 0,
                 check_finite: bool = False) -> None:
        x, y, w = arrays_of(x, y, w)
        if is_plain(x, y, w):
            self._take(scipys("interpolate").UnivariateSpline(x, y, w, bbox, k, s, ext, check_finite))
            return
        if s is None or s > 0:
            raise _of_data("UnivariateSpline")
        self._hold(_through(x, y, k, bbox, "UnivariateSpline"), ext)

    def _hold(self, spline: BSpline, ext: Any) -> None:
        self._spline, self.ext = spline, ext

    def _take(self, theirs: Any) -> None:
        t, c, k = theirs._eval_args
        self._theirs = theirs
        self._hold(BSpline(t, c, k), theirs.ext)

    def __call__(self, x: Any, nu: int = 0, ext: Any = None) -> Any:
        """Return the value at `x`, or the derivative of order `nu`.

        >>> import numpy as np
        >>> float(UnivariateSpline(np.arange(4.0), np.arange(4.0) ** 2, s=0)(1.5).round(6))
        2.25
        """
        if self._is_plain(x):
            return self._theirs(x, nu, ext)
        return splev(x, self._spline, nu, self.ext if ext is None else ext)

    def _made(self, spline: BSpline, ext: Any) -> UnivariateSpline:
        found = UnivariateSpline.__new__(UnivariateSpline)
        found._hold(spline, ext)
        return found

    def derivative(self, n: int = 1) -> UnivariateSpline:
        """Return the derivative of order `n` as a spline.

        >>> import numpy as np
        >>> float(UnivariateSpline(np.arange(4.0), np.arange(4.0) ** 2, s=0).derivative()(1.5).round(6))
        3.0
        """
        if self._is_plain():
            return around_univariate(self._theirs.derivative(n))
        return self._made(self._spline.derivative(n), 1 if self.ext in (3, "const") else self.ext)

    def antiderivative(self, n: int = 1) -> UnivariateSpline:
        """Return the antiderivative of order `n` as a spline.

        >>> import numpy as np
        >>> float(UnivariateSpline(np.arange(4.0), np.arange(4.0) ** 2, s=0).antiderivative()(3.0).round(6))
        9.0
        """
        if self._is_plain():
            return around_univariate(self._theirs.antiderivative(n))
        return self._made(self._spline.antiderivative(n), self.ext)

    def integral(self, a: Any, b: Any) -> Any:
        """Return the integral from `a` to `b`, 0 outside of the places.

        >>> import numpy as np
        >>> float(np.round(UnivariateSpline(np.arange(4.0), np.arange(4.0) ** 2, s=0).integral(0.0, 3.0), 6))
        9.0
        """
        return self._theirs.integral(a, b) if self._is_plain(a, b) else self._spline.integrate(a, b, extrapolate=False)

    def derivatives(self, x: Any) -> Any:
        """Return the value and all derivatives at a place.

        >>> import numpy as np
        >>> UnivariateSpline(np.arange(4.0), np.arange(4.0) ** 2, s=0).derivatives(1.5).round(6) + 0.0
        array([2.25, 3.  , 2.  , 0.  ])
        """
        return self._theirs.derivatives(x) if self._is_plain(x) else spalde(x, self._spline)

    def get_knots(self) -> Any:
        """Return the knots, without those that are repeated at the ends."""
        t, k = self._spline.t, self._spline.k
        return t[k:t.shape[0] - k]

    def get_coeffs(self) -> Any:
        """Return the coefficients."""
        return self._spline.c[:self._spline.t.shape[0] - self._spline.k - 1]


class InterpolatedUnivariateSpline(UnivariateSpline):
    """Equivalent of `scipy.interpolate.InterpolatedUnivariateSpline`: the spline through values `y`, which may be traced, at known places.

    >>> import numpy as np
    >>> import adjit as aj
    >>> x = np.arange(4.0)
    >>> aj.grad(lambda y: InterpolatedUnivariateSpline(x, y)(1.5))(x ** 2).round(4)
    array([-0.0625,  0.5625,  0.5625, -0.0625])
    """

    def __init__(self, x: Any, y: Any, w: Any = None, bbox: Sequence[Any] = (None, None), k: int = 3, ext: Any = 0,
                 check_finite: bool = False) -> None:
        x, y, w = arrays_of(x, y, w)
        if is_plain(x, y, w):
            self._take(scipys("interpolate").InterpolatedUnivariateSpline(x, y, w, bbox, k, ext, check_finite))
        else:
            self._hold(_through(x, y, k, bbox, "InterpolatedUnivariateSpline"), ext)


class LSQUnivariateSpline(UnivariateSpline):
    """Equivalent of `scipy.interpolate.LSQUnivariateSpline`: the spline with the known inner knots `t` that is nearest to values `y`, which
    may be traced, at known places, by least squares.

    >>> import numpy as np
    >>> import adjit as aj
    >>> x = np.arange(4.0)
    >>> aj.grad(lambda y: LSQUnivariateSpline(x, y, [], k=1)(0.0))(x ** 2).round(6)
    array([ 0.7,  0.4,  0.1, -0.2])
    """

    def __init__(self, x: Any, y: Any, t: Any, w: Any = None, bbox: Sequence[Any] = (None, None), k: int = 3, ext: Any = 0,
                 check_finite: bool = False) -> None:
        x, y, t, w = arrays_of(x, y, t, w)
        if is_plain(x, y, t, w):
            self._take(scipys("interpolate").LSQUnivariateSpline(x, y, t, w, bbox, k, ext, check_finite))
        else:
            t, c, k = splrep(x, y, w, bbox[0], bbox[1], k=k, t=t)
            self._hold(BSpline(t, c, k), ext)


def around_univariate(theirs: Any) -> UnivariateSpline:
    """Spline that holds one of SciPy's own."""
    found = UnivariateSpline.__new__(UnivariateSpline)
    found._take(theirs)
    return found


# -- splines of two variables


class RectBivariateSpline(Interpolator):
    """Equivalent of `scipy.interpolate.RectBivariateSpline`, of traced values with `s=0` and no `bbox`: the spline of degrees `kx` and `ky`
    through values `z` [m, n] on the grid of known places `x` [m] and `y` [n]. Outside of the grid it stays what it is at the edge.

    >>> import numpy as np
    >>> import adjit as aj
    >>> x = np.arange(4.0)
    >>> aj.grad(lambda p: RectBivariateSpline(x, x, np.outer(x, x ** 2)).ev(p, 1.5))(2.0).round(6)
    np.float64(2.25)
    """

    def __init__(self, x: Any, y: Any, z: Any, bbox: Sequence[Any] = (None, None, None, None), kx: int = 3, ky: int = 3, s: Any = 0,
                 maxit: int = 20) -> None:
        x, y, z = arrays_of(x, y, z)
        if is_plain(x, y, z):
            options = {} if maxit == 20 else {"maxit": maxit}       # of older SciPy there is none
            self._take(scipys("interpolate").RectBivariateSpline(x, y, z, bbox, kx, ky, s, **options))
            return
        if s is None or s > 0:
            raise _of_data("RectBivariateSpline")
        if np.ndim(z) != 2:
            raise ShapeError(f"values of shape {np.shape(z)} are no grid", find_user_location())
        along_x = _through(x, z, kx, bbox[:2], "RectBivariateSpline")
        places = _places(y, z, 1)
        ends = (place if end is None else end for place, end in zip((places[0], places[-1]), bbox[2:], strict=True))
        along_y = make_interp_spline(places, along_x.c, ky, _knots(places, ky, (next(ends), next(ends))), axis=1)
        self._hold(along_x.t, along_y.t, along_y.c, (kx, ky))

    def _hold(self, tx: Any, ty: Any, c: Any, degrees: tuple[int, int]) -> None:
        self._tx, self._ty, self._c, self.degrees = tx, ty, c, degrees

    def _take(self, theirs: Any) -> None:
        (tx, ty, c), (kx, ky) = theirs.tck[:3], theirs.degrees
        self._theirs = theirs
        self._hold(tx, ty, np.reshape(c, (-1, np.size(ty) - ky - 1)), (kx, ky))

    def __call__(self, x: Any, y: Any, dx: int = 0, dy: int = 0, grid: bool = True) -> Any:
        """Return values, or derivatives of the orders `dx` and `dy`, on the grid of `x` and `y`, or at pairs of them.

        >>> import numpy as np
        >>> x = np.arange(4.0)
        >>> RectBivariateSpline(x, x, np.outer(x, x ** 2))(2.0, 1.5).round(6)
        array([[4.5]])
        """
        if self._is_plain(x, y):
            return self._theirs(x, y, dx=dx, dy=dy, grid=grid)
        return surface((self._tx, self._ty, self._c), self.degrees, x, y, dx, dy, grid)

    def ev(self, xi: Any, yi: Any, dx: int = 0, dy: int = 0) -> Any:
        """Return values, or derivatives of the orders `dx` and `dy`, at pairs of `xi` and `yi`.

        >>> import numpy as np
        >>> x = np.arange(4.0)
        >>> float(RectBivariateSpline(x, x, np.outer(x, x ** 2)).ev(2.0, 1.5, dx=1).round(6))
        2.25
        """
        return self(xi, yi, dx, dy, grid=False)

    def integral(self, xa: Any, xb: Any, ya: Any, yb: Any) -> Any:
        """Return the integral over a rectangle, 0 outside of the grid.

        >>> import numpy as np
        >>> x = np.arange(4.0)
        >>> float(np.round(RectBivariateSpline(x, x, np.outer(x, x ** 2)).integral(0.0, 2.0, 0.0, 3.0), 6))
        18.0
        """
        if self._is_plain(xa, xb, ya, yb):
            return self._theirs.integral(xa, xb, ya, yb)
        along_x = BSpline(self._tx, self._c, self.degrees[0]).integrate(xa, xb, extrapolate=False)
        return BSpline(self._ty, along_x, self.degrees[1]).integrate(ya, yb, extrapolate=False)

    def partial_derivative(self, dx: int, dy: int) -> RectBivariateSpline:
        """Return the derivative of the orders `dx` and `dy` as a spline.

        >>> import numpy as np
        >>> x = np.arange(4.0)
        >>> float(RectBivariateSpline(x, x, np.outer(x, x ** 2)).partial_derivative(0, 1).ev(2.0, 1.5).round(6))
        6.0
        """
        if self._is_plain():
            return around_surface(self._theirs.partial_derivative(dx, dy))
        along_x = BSpline(self._tx, self._c, self.degrees[0]).derivative(dx)
        along_y = BSpline(self._ty, along_x.c, self.degrees[1], axis=1).derivative(dy)
        found = RectBivariateSpline.__new__(RectBivariateSpline)
        found._hold(along_x.t, along_y.t, along_y.c, (along_x.k, along_y.k))
        return found

    def get_knots(self) -> tuple[Any, Any]:
        """Return the knots along both axes."""
        return self._tx, self._ty

    def get_coeffs(self) -> Any:
        """Return the coefficients, as one axis."""
        return np.reshape(self._c, (math.prod(np.shape(self._c)),))


def around_surface(theirs: Any) -> RectBivariateSpline:
    """Spline that holds one of SciPy's own."""
    found = RectBivariateSpline.__new__(RectBivariateSpline)
    found._take(theirs)
    return found
