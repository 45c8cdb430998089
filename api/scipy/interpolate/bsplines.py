"""B-splines by knots and coefficients, and those that go through given points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit.ir.errors import ShapeError, UnsupportedError
from adjit.scipy import linalg
from adjit.scipy.interpolate.polynomials import Interpolator, column, float64, into_place, over
from adjit.scipy.mirror import arrays_of, is_plain, scipys
from adjit.tracer.array import TracedArray
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions.indexing import freeze
from adjit.tracer.functions.shapes import normalize_axis
from adjit.tracer.user_location import find_user_location


def _derived(t: Any, c: Any, k: int, nu: int) -> tuple[Any, Any, int]:
    """Knots, coefficients and degree of the derivative of order `nu`, which is not more than `k`."""
    for _ in range(nu):
        widths = column(t[k + 1:k + c.shape[0]] - t[1:c.shape[0]], c)
        c, t, k = k * over(c[1:] - c[:-1], widths), t[1:-1], k - 1
    return t, c, k


@dispatched
def _evaluated(t: Any, c: Any, x: Any, k: int, nu: int, extrapolate: Any, axis: int) -> Any:
    """Values by de Boor's recursion, in the interval of each place."""
    t, c, x = float64(t), float64(c), float64(x)
    c = np.moveaxis(c, axis, 0)
    count = t.size - k - 1
    c = c[:count]
    at, x = x.shape, np.ravel(x)
    first, last = t[k], t[count]
    if extrapolate == "periodic":
        x = first + (x - first) % (last - first)
    nowhere = np.isnan(x)
    if not extrapolate:
        nowhere = nowhere | (x < first) | (x > last)
    if nu > k:
        found = np.zeros((x.size, *c.shape[1:]))
    else:
        t, c, k = _derived(t, c, k, nu)
        index = np.clip(np.searchsorted(t[k:t.size - k], x, side="right") - 1, 0, t.size - 2 * k - 2) + k
        knots = [np.take(t, index + offset) for offset in range(1 - k, k + 1)]       # knots[j] has the offset j + 1 - k
        parts = [np.take(c, index - k + j, axis=0) for j in range(k + 1)]
        for r in range(1, k + 1):
            for j in range(k, r - 1, -1):
                left, right = knots[j - 1], knots[j + k - r]
                share = column(over(x - left, right - left), parts[j])
                parts[j] = (1.0 - share) * parts[j - 1] + share * parts[j]
        found = parts[k]
    return into_place(np.where(column(nowhere, found), math.nan, found), at, axis)


class BSpline(Interpolator):
    """Equivalent of `scipy.interpolate.BSpline`, of real coefficients: the spline of degree `k` with the knots `t` [n + k + 1] and the
    coefficients `c` [n, ...], `axis` being that of the first. `t` and `c` may be traced.

    >>> import numpy as np
    >>> import adjit as aj
    >>> t = np.array([0.0, 0.0, 1.0, 2.0, 2.0])
    >>> aj.grad(lambda c: BSpline(t, c, 1)(0.25))(np.array([1.0, 3.0, 2.0]))
    array([0.75, 0.25, 0.  ])
    """

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0) -> None:
        t, c = arrays_of(t, c)
        if is_plain(t, c):
            self._take(scipys("interpolate").BSpline(t, c, k, extrapolate, axis))
            return
        axis = normalize_axis(axis, np.ndim(c))
        if np.ndim(t) != 1 or np.shape(t)[0] < 2 * k + 2 or np.shape(c)[axis] < np.shape(t)[0] - k - 1:
            raise ShapeError(f"knots of shape {np.shape(t)} do not fit to coefficients of shape {np.shape(c)} and degree {k}",
                             find_user_location())
        self.t, self.c, self.k, self.extrapolate, self.axis = t, c, int(k), extrapolate, axis

    def _take(self, theirs: Any) -> None:
        self._theirs = theirs
        self.t, self.k, self.extrapolate, self.axis = theirs.t, theirs.k, theirs.extrapolate, theirs.axis
        self.c = np.moveaxis(theirs.c, 0, theirs.axis)      # SciPy's object has the axis first

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        """Return the value at `x`, or the derivative of order `nu`.

        >>> import numpy as np
        >>> float(BSpline(np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 3.0]), 1)(0.5, 1))
        2.0
        """
        if self._is_plain(x):
            return self._theirs(x, nu, extrapolate)
        return _evaluated(self.t, self.c, x, self.k, int(nu), self.extrapolate if extrapolate is None else extrapolate, self.axis)


    def derivative(self, nu: int = 1) -> BSpline:
        """Return the spline that is the derivative of order `nu`; a negative one is an antiderivative, as in SciPy.

        >>> import numpy as np
        >>> float(BSpline(np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 3.0]), 1).derivative()(0.5))
        2.0
        """
        if nu < 0:
            return self.antiderivative(-nu)
        if nu > self.k:
            raise ValueError(f"the spline has the degree {self.k}, a derivative of order {nu} is none")
        t, c = _derivative(self.t, self.c, self.k, nu, self.axis)
        return BSpline(t, c, self.k - nu, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> BSpline:
        """Return the spline that is the antiderivative of order `nu`, which begins with 0.

        >>> import numpy as np
        >>> float(BSpline(np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 3.0]), 1).antiderivative()(1.0))
        2.0
        """
        if nu < 0:
            return self.derivative(-nu)
        extrapolate = False if self.extrapolate == "periodic" else self.extrapolate
        t, c = _antiderivative(self.t, self.c, self.k, nu, self.axis)
        return BSpline(t, c, self.k + nu, extrapolate, self.axis)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """Return the integral from `a` to `b`; where the spline is not extrapolated, it is 0 outside.

        >>> import numpy as np
        >>> float(BSpline(np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 3.0]), 1).integrate(0.0, 0.5))
        0.75
        """
        if self._is_plain(a, b):
            return self._theirs.integrate(a, b, extrapolate)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if extrapolate == "periodic":
            raise UnsupportedError("integrals of periodic splines of traced values are not supported", find_user_location(),
                                   hint="integrate over parts of one period, with extrapolate=False")
        return _integrated(self.t, self.c, self.k, a, b, bool(extrapolate), self.axis)


@dispatched
def _derivative(t: Any, c: Any, k: int, nu: int, axis: int) -> tuple[Any, Any]:
    t, c, _ = _derived(float64(t), np.moveaxis(float64(c), axis, 0)[:np.shape(t)[0] - k - 1], k, nu)
    return t, np.moveaxis(c, 0, axis)


@dispatched
def _antiderivative(t: Any, c: Any, k: int, nu: int, axis: int) -> tuple[Any, Any]:
    t, c = float64(t), np.moveaxis(float64(c), axis, 0)[:np.shape(t)[0] - k - 1]
    for degree in range(k, k + nu):
        steps = np.cumsum(c * column(t[degree + 1:] - t[:-degree - 1], c), axis=0) / (degree + 1)
        t, c = np.concatenate([t[:1], t, t[-1:]]), np.concatenate([np.zeros_like(steps[:1]), steps])
    return t, np.moveaxis(c, 0, axis)


@dispatched
def _integrated(t: Any, c: Any, k: int, a: Any, b: Any, extrapolate: bool, axis: int) -> Any:
    a, b = float64(a), float64(b)
    if not extrapolate:
        a, b = (np.clip(end, t[k], t[-k - 1]) for end in (a, b))
    knots, coefficients = _antiderivative(t, c, k, 1, axis)
    ends = _evaluated(knots, coefficients, np.stack([a, b]), k + 1, 0, True, axis)
    return np.take(ends, 1, axis=axis) - np.take(ends, 0, axis=axis)


def around_spline(theirs: Any) -> BSpline:
    found = BSpline.__new__(BSpline)
    found._take(theirs)
    return found


def splev(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """Equivalent of `scipy.interpolate.splev`: values at `x` of the spline with knots, coefficients and degree `tck`, or of its derivative
    of order `der`. Coefficients may be traced. `ext`: outside of the knots the spline goes on (0), is 0 (1), NaN (2), or stays what it is
    at the end (3; derivatives go on).

    >>> import numpy as np
    >>> tck = np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 3.0]), 1
    >>> splev(np.array([0.5, 2.0]), tck, ext=3)
    array([2., 3.])
    """
    if is_plain(x, tck):
        return scipys("interpolate").splev(x, tck, der, ext)
    t, c, k = (tck.t, tck.c, tck.k) if hasattr(tck, "t") else tck
    if isinstance(c, (list, tuple)) and np.ndim(c[0]):
        return [splev(x, (t, each, k), der, ext) for each in c]         # a curve, by its coordinates
    if ext not in _OUTSIDE:
        raise ValueError(f"ext = {ext!r} not in {tuple(_OUTSIDE)} ")
    return _continued(x, t, c, k, int(der), _OUTSIDE[ext])


_OUTSIDE = {0: 0, 1: 1, 2: 2, 3: 3, "extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}


@dispatched
def _continued(x: Any, t: Any, c: Any, k: int, nu: int, outside: int) -> Any:
    x, low, high = float64(x), t[k], t[-k - 1]
    if outside == 0 or (outside == 3 and nu):       # FITPACK's derivatives go on
        return _evaluated(t, c, x, k, nu, True, 0)
    within = _evaluated(t, c, np.clip(x, low, high), k, nu, True, 0)
    return within if outside == 3 else np.where((x < low) | (x > high), 0.0 if outside == 1 else math.nan, within)


@dispatched
def surface(tc: tuple[Any, Any, Any], degrees: tuple[int, int], x: Any, y: Any, dx: int = 0, dy: int = 0, grid: bool = True) -> Any:
    """Values of a spline of two variables, of knots and coefficients [m, n], on the grid of `x` and `y` or at pairs of them, or its
    derivatives. Outside it stays what it is at the edge."""
    (tx, ty, c), (kx, ky) = map(float64, tc), degrees
    x, y = np.clip(float64(x), tx[kx], tx[-kx - 1]), np.clip(float64(y), ty[ky], ty[-ky - 1])
    x, y = (np.atleast_1d(x), np.atleast_1d(y)) if grid else np.broadcast_arrays(x, y)
    along_x = _evaluated(tx, c, x, kx, dx, True, 0)
    along_y = _evaluated(ty, np.eye(c.shape[1]), y, ky, dy, True, 0)
    return np.matmul(along_x, along_y.T) if grid else np.sum(along_x * along_y, axis=-1)


_ALIASES = {"clamped": [(1, 0.0)], "natural": [(2, 0.0)], "not-a-knot": None}


def _conditions(bc_type: Any) -> tuple[Any, Any]:
    """Derivatives that are given at both ends: lists of (order, value), or None."""
    if bc_type is None or isinstance(bc_type, str):
        bc_type = (bc_type, bc_type)
    first, last = (_ALIASES[each] if isinstance(each, str) and each in _ALIASES else each for each in bc_type)
    return first, last


@dispatched
def _coefficients(bands: Any, y: Any, first: list[Any], last: list[Any], degree: int, axis: int) -> Any:
    y = np.moveaxis(float64(y), axis, 0)
    given = [[np.broadcast_to(float64(value), y.shape[1:])[None] for value in values] for values in (first, last)]
    right = np.concatenate([*given[0], y, *given[1]])
    found = linalg.solve_banded((degree, degree), bands, np.reshape(right, (right.shape[0], -1)))
    return np.moveaxis(np.reshape(found, right.shape), 0, axis)


@dispatched
def _mapped(matrix: Any, y: Any, axis: int) -> Any:
    return np.moveaxis(np.tensordot(matrix, np.moveaxis(float64(y), axis, 0)[:-1], 1), 0, axis)


def _collocation(x: np.ndarray, t: np.ndarray, k: int, first: list[Any], last: list[Any]) -> np.ndarray:
    """Bands of the matrix of the values at `x` of the splines that are 1 in one coefficient, with rows of derivatives at both ends."""
    count = t.size - k - 1
    bands = np.zeros((2 * k + 1, count))
    values = scipys("interpolate").BSpline.design_matrix(x, t, k).tocoo()
    rows = values.row + len(first)
    bands[k + rows - values.col, values.col] = values.data
    for orders, place, row, columns in ((first, x[0], 0, np.arange(min(k + 1, count))),
                                        (last, x[-1], count - len(last), np.arange(max(count - k - 1, 0), count))):
        unit = np.zeros((count, columns.size))
        unit[columns, np.arange(columns.size)] = 1.0
        for number, (order, _) in enumerate(orders):
            slopes = scipys("interpolate").BSpline(t, unit, k)(place, order)
            inside = np.abs(row + number - columns) <= k
            bands[k + row + number - columns[inside], columns[inside]] = slopes[inside]
    return bands


def make_interp_spline(x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0, check_finite: bool = True) -> BSpline:
    """Equivalent of `scipy.interpolate.make_interp_spline`: the B-spline of degree `k` through values `y` at known places `x`; derivatives
    go to `y` and to the values of derivatives at the ends. Raises `UnsupportedError` for traced `x` or `t`.

    >>> import numpy as np
    >>> make_interp_spline(np.arange(5.0), np.arange(5.0) ** 2)(1.5).round(6)
    np.float64(2.25)
    """
    first, last = _conditions(bc_type) if bc_type != "periodic" else (None, None)
    values = [value for _, value in (*(first or ()), *(last or ()))]
    x, y, t = arrays_of(x, y, t)
    if is_plain(x, y, t, values):
        return around_spline(scipys("interpolate").make_interp_spline(x, y, k, t, bc_type, axis, check_finite))
    for known in (x, t):
        if isinstance(known, (TracedArray, ArrayWrapper)):
            raise UnsupportedError("make_interp_spline at traced places or knots", find_user_location(),
                                   hint="pass x and t as plain arrays from outside, or use CubicSpline, which takes traced ones")
        if isinstance(known, np.ndarray):
            freeze(known)
    places = np.asarray(x, dtype=np.float64)
    axis = normalize_axis(axis, np.ndim(y))
    if np.shape(y)[axis] != places.size:
        raise ShapeError(f"{places.size} places do not fit to values of shape {np.shape(y)} along axis {axis}", find_user_location())
    orders = None if bc_type is None else bc_type if isinstance(bc_type, str) else tuple(
        None if each is None else [(order, 0.0) for order, _ in each] for each in (first, last))
    theirs = scipys("interpolate")
    knots = theirs.make_interp_spline(places, np.zeros(places.size), k, t, orders).t
    if bc_type == "periodic":
        unit = np.eye(places.size - 1)
        matrix = theirs.make_interp_spline(places, np.concatenate([unit, unit[:1]]), k, t, "periodic").c
        return BSpline(knots, _mapped(matrix, y, axis), k, axis=axis)
    if k == 0 or (k == 1 and t is None):
        return BSpline(knots, y, k, axis=axis)
    bands = _collocation(places, knots, k, first or [], last or [])
    given = [[value for _, value in each or ()] for each in (first, last)]
    return BSpline(knots, _coefficients(bands, y, given[0], given[1], k, axis), k, axis=axis)
