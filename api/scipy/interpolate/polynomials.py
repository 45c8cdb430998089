"""Piecewise polynomials, and those that go through given points: cubic splines, shape-preserving and Akima's interpolation."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from adjit.ir.errors import ShapeError, UnsupportedError
from adjit.ir.spelling import nearest
from adjit.scipy import linalg
from adjit.scipy.mirror import arrays_of, attribute_of, is_plain, no_rule, scipys
from adjit.scipy.reasons import METHODS, NOT_YET
from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.dispatch import dispatched
from adjit.tracer.fresh_array import plain_of
from adjit.tracer.functions.indexing import freeze
from adjit.tracer.functions.shapes import normalize_axis
from adjit.tracer.user_location import find_user_location


def float64(x: Any) -> Any:
    """The array as float64, which SciPy's interpolation computes in."""
    x = as_traced(x)
    if x.dtype.kind == "c":
        raise UnsupportedError("interpolation of complex numbers", find_user_location(),
                               hint="interpolate the real and the imaginary parts")
    return x.astype(np.float64, copy=False)


def known(x: Any, what: str, instead: str = "pass them as plain arrays from outside") -> np.ndarray:
    """An array from outside that decides on the program."""
    if isinstance(x, (TracedArray, ArrayWrapper)):
        raise UnsupportedError(f"{what} of an interpolator are traced", find_user_location(), hint=instead)
    if isinstance(x, np.ndarray):
        freeze(x)
    return np.asarray(plain_of(x), np.float64)


def into_place(found: Any, at: tuple[int, ...], axis: int) -> Any:
    """Values at places of the shape `at`, then of each value its own axes: the axes of places are moved to `axis`."""
    found = np.reshape(found, (*at, *found.shape[1:]))
    order = range(found.ndim)
    moved = [*order[len(at):len(at) + axis], *order[:len(at)], *order[len(at) + axis:]]
    return np.transpose(found, moved) if axis else found


def column(x: Any, like: Any) -> Any:
    """A vector as the first axis of an array of the rank of `like`."""
    return np.reshape(x, (-1, *(1,) * (like.ndim - 1)))


def over(a: Any, b: Any) -> Any:
    """Quotient, 0 where `b` is 0."""
    nothing = b == 0
    return np.where(nothing, 0.0, a / np.where(nothing, 1.0, b))


class Interpolator:
    """Function made of given points. Made of plain arrays outside of a trace it holds SciPy's object, which computes what is asked of plain
    numbers and has all other methods."""

    _theirs: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):        # copies and pickles ask before there is anything
            raise AttributeError(name)
        kind = type(self).__name__
        full_name = f"scipy.interpolate.{kind}.{name}"
        if self._theirs is not None:
            return attribute_of(self._theirs, name, full_name)
        theirs = getattr(scipys("interpolate"), kind, None)
        if not hasattr(theirs, name):
            raise AttributeError(f"{kind} of traced arrays or tensors has no attribute {name!r}{nearest(name, dir(theirs))}", name=name,
                                 obj=None)

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise no_rule(full_name, METHODS.get(name, NOT_YET))

        return refuse

    def _is_plain(self, *args: Any) -> bool:
        return self._theirs is not None and is_plain(*args)


@dispatched
def _evaluated(c: Any, knots: Any, x: Any, nu: int, extrapolate: Any, axis: int) -> Any:
    c, knots, x = float64(c), float64(knots), float64(x)
    at, x = x.shape, np.ravel(x)
    if extrapolate == "periodic":
        x = knots[0] + (x - knots[0]) % (knots[-1] - knots[0])
    index = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, knots.size - 2)
    step = x - np.take(knots, index)
    found: Any = None
    for degree in range(c.shape[0] - 1, nu - 1, -1):      # Horner's scheme
        term = np.take(c[c.shape[0] - 1 - degree], index, axis=0)
        term = term * float(math.perm(degree, nu)) if nu else term
        found = term if found is None else found * column(step, term) + term
    if found is None:
        found = np.zeros((x.size, *c.shape[2:]))
    nowhere = np.isnan(x)
    if not extrapolate or extrapolate == "periodic":
        nowhere = nowhere | (x < knots[0]) | (x > knots[-1])
    return into_place(np.where(column(nowhere, found), math.nan, found), at, axis)


@dispatched
def _integrated(c: Any, knots: Any, times: int) -> Any:
    """Coefficients of the antiderivative that is 0 at the first knot and continuous."""
    c, knots = float64(c), float64(knots)
    for _ in range(times):
        factors = np.arange(float(c.shape[0]), 0.0, -1.0)
        c = c / column(factors, c)
        steps = column(np.diff(knots), c[0])
        totals = np.zeros(c.shape[1:])
        for row in range(c.shape[0]):
            totals = (totals + c[row]) * steps
        sums = np.cumsum(totals, axis=0)
        starts = np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
        c = np.concatenate([c, starts[None]])
    return c


@dispatched
def _derived(c: Any, times: int) -> Any:
    c = float64(c)
    keep = max(c.shape[0] - times, 0)
    if not keep:
        return np.zeros((1, *c.shape[1:]))
    factors = np.array([float(math.perm(degree, times)) for degree in range(c.shape[0] - 1, times - 1, -1)])
    return c[:keep] * column(factors, c)


class PPoly(Interpolator):
    """Equivalent of `scipy.interpolate.PPoly`, of real coefficients and knots in ascending order: `c[k, i]` belongs to the power
    c.shape[0] - 1 - k of x - x[i] between the knots i and i + 1.

    `c` [k, m, ...] and `x` [m + 1] may be traced; derivatives go to them and to the places asked for. Called with x of any shape, the
    result has its shape in place of the first two axes of `c`.

    >>> import numpy as np
    >>> p = PPoly(np.array([[1.0], [2.0]]), np.array([0.0, 1.0]))
    >>> p(np.array([0.5, 1.0]))
    array([2.5, 3. ])
    """

    def __init__(self, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> None:
        c, x = arrays_of(c, x)
        if is_plain(c, x):
            self._take(scipys("interpolate").PPoly(c, x, extrapolate, axis))
        else:
            self._set(c, x, True if extrapolate is None else extrapolate, axis)

    def _take(self, theirs: Any) -> None:
        self._theirs = theirs
        self._set(theirs.c, theirs.x, theirs.extrapolate, theirs.axis)

    def _set(self, c: Any, x: Any, extrapolate: Any, axis: int) -> None:
        self.c, self.x, self.extrapolate, self.axis = c, x, extrapolate, axis

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        """Return the value at `x`, or the derivative of order `nu`; NaN beyond the knots if `extrapolate` is False.

        >>> import numpy as np
        >>> PPoly(np.array([[1.0], [2.0]]), np.array([0.0, 1.0]))(2.0, extrapolate=False)
        array(nan)
        """
        if self._is_plain(x):
            return self._theirs(x, nu, extrapolate)
        beyond = self.extrapolate if extrapolate is None else extrapolate
        if nu < 0:
            raise ValueError("Order of derivative cannot be negative")
        return _evaluated(self.c, self.x, x, int(nu), beyond, self.axis)

    def _made(self, c: Any, extrapolate: Any) -> PPoly:
        found = PPoly.__new__(PPoly)
        found._set(c, self.x, extrapolate, self.axis)
        return found

    def derivative(self, nu: int = 1) -> PPoly:
        """Return the derivative of order `nu` as a piecewise polynomial.

        >>> import numpy as np
        >>> float(PPoly(np.array([[1.0], [2.0]]), np.array([0.0, 1.0])).derivative()(0.5))
        1.0
        """
        if self._is_plain():
            return around_polynomial(self._theirs.derivative(nu))
        return self.antiderivative(-nu) if nu < 0 else self._made(_derived(self.c, int(nu)), self.extrapolate)

    def antiderivative(self, nu: int = 1) -> PPoly:
        """Return the antiderivative of order `nu` that is 0 at the first knot.

        >>> import numpy as np
        >>> float(PPoly(np.array([[2.0]]), np.array([0.0, 1.0])).antiderivative()(0.5))
        1.0
        """
        if self._is_plain():
            return around_polynomial(self._theirs.antiderivative(nu))
        if nu <= 0:
            return self.derivative(-nu)
        return self._made(_integrated(self.c, self.x, int(nu)), False if self.extrapolate == "periodic" else self.extrapolate)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """Return the integral from `a` to `b`, numbers.

        >>> import numpy as np
        >>> float(PPoly(np.array([[2.0]]), np.array([0.0, 1.0])).integrate(0.0, 0.5))
        1.0
        """
        if self._is_plain(a, b):
            return self._theirs.integrate(a, b, extrapolate)
        beyond = self.extrapolate if extrapolate is None else extrapolate
        whole = self._made(_integrated(self.c, self.x, 1), bool(beyond))
        whole.axis = 0
        if beyond != "periodic":
            return whole(b) - whole(a)
        start, period = self.x[0], self.x[-1] - self.x[0]

        def up_to(x: Any) -> Any:
            turns = np.floor((x - start) / period)
            return turns * whole(self.x[-1]) + whole(x - turns * period)

        return up_to(b) - up_to(a)


def around_polynomial(theirs: Any) -> PPoly:
    found = PPoly.__new__(PPoly)
    found._take(theirs)
    return found


# -- polynomials through points


def _points(x: Any, y: Any, axis: int) -> tuple[Any, Any, Any]:
    """Knots, values with the interpolated axis first, and the steps between knots."""
    x, y = float64(x), float64(y)
    if x.ndim != 1:
        raise ValueError("`x` must be 1-dimensional.")
    if x.size < 2:
        raise ValueError("`x` must contain at least 2 elements.")
    if not y.ndim or x.size != y.shape[axis]:
        raise ShapeError(f"{x.size} knots do not fit to values of shape {y.shape} along axis {axis}", find_user_location())
    return x, np.moveaxis(y, axis, 0), np.diff(x)


def check_increasing(x: Any) -> None:
    """Raise `ValueError` for known knots that are not in ascending order."""
    known = isinstance(x, (np.ndarray, list, tuple)) and all(isinstance(each, (int, float, np.number)) for each in x)
    if known and np.any(np.diff(x) <= 0):
        raise ValueError("`x` must be strictly increasing sequence.")


def _hermite(y: Any, slopes: Any, dx: Any) -> Any:
    """Coefficients of cubic polynomials by values and derivatives at the knots."""
    step = column(dx, y)
    slope = np.diff(y, axis=0) / step
    t = (slopes[:-1] + slopes[1:] - 2.0 * slope) / step
    return np.stack([t / step, (slope - slopes[:-1]) / step - t, slopes[:-1], y[:-1]])


@dispatched
def _of_slopes(x: Any, y: Any, dydx: Any, axis: int) -> Any:
    _, y, dx = _points(x, y, axis)
    return _hermite(y, np.moveaxis(float64(dydx), axis, 0), dx)


class _Through(PPoly):
    """Piecewise cubic polynomials through points."""

    def _through(self, c: Any, x: Any, y: Any, axis: int, extrapolate: Any) -> None:
        check_increasing(x)
        self._set(c, x, extrapolate, normalize_axis(axis, np.ndim(y)))


class CubicHermiteSpline(_Through):
    """Equivalent of `scipy.interpolate.CubicHermiteSpline`: values and first derivatives at knots in ascending order, along `axis`.

    >>> import numpy as np
    >>> float(CubicHermiteSpline(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([0.0, 0.0]))(0.5))
    0.5
    """

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, y, dydx = arrays_of(x, y, dydx)
        if is_plain(x, y, dydx):
            self._take(scipys("interpolate").CubicHermiteSpline(x, y, dydx, axis, extrapolate))
        else:
            self._through(_of_slopes(x, y, dydx, axis), x, y, axis, True if extrapolate is None else extrapolate)


def _end_slope(h0: Any, h1: Any, m0: Any, m1: Any) -> Any:
    """Derivative at an end by three points, kept from overshooting (Moler, "Numerical Computing with MATLAB", 3.6)."""
    d = ((2.0 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    large = (np.sign(m0) != np.sign(m1)) & (np.abs(d) > 3.0 * np.abs(m0))
    return np.where(np.sign(d) != np.sign(m0), 0.0, np.where(large, 3.0 * m0, d))


@dispatched
def _pchip(x: Any, y: Any, axis: int) -> Any:
    _, y, dx = _points(x, y, axis)
    h = column(dx, y)
    m = np.diff(y, axis=0) / h
    if y.shape[0] == 2:
        return _hermite(y, np.concatenate([m, m]), dx)
    turns = (np.sign(m[1:]) != np.sign(m[:-1])) | (m[1:] == 0) | (m[:-1] == 0)
    w1, w2 = 2.0 * h[1:] + h[:-1], h[1:] + 2.0 * h[:-1]
    before, after = np.where(turns, 1.0, m[:-1]), np.where(turns, 1.0, m[1:])
    inner = np.where(turns, 0.0, (w1 + w2) / (w1 / before + w2 / after))
    ends = _end_slope(h[0], h[1], m[0], m[1]), _end_slope(h[-1], h[-2], m[-1], m[-2])
    return _hermite(y, np.concatenate([ends[0][None], inner, ends[1][None]]), dx)


class PchipInterpolator(_Through):
    """Equivalent of `scipy.interpolate.PchipInterpolator`: cubic polynomials that rise and fall where the values do.

    >>> import numpy as np
    >>> float(PchipInterpolator(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 1.0]))(1.5))
    1.0
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, y = arrays_of(x, y)
        if is_plain(x, y):
            self._take(scipys("interpolate").PchipInterpolator(x, y, axis, extrapolate))
        else:
            self._through(_pchip(x, y, axis), x, y, axis, True if extrapolate is None else extrapolate)


@dispatched
def _akima(x: Any, y: Any, axis: int, method: str) -> Any:
    _, y, dx = _points(x, y, axis)
    m = np.diff(y, axis=0) / column(dx, y)
    if y.shape[0] == 2:
        return _hermite(y, np.concatenate([m, m]), dx)
    first = 2.0 * m[0] - m[1]
    last = 2.0 * m[-1] - m[-2]
    m = np.concatenate([(2.0 * first - m[0])[None], first[None], m, last[None], (2.0 * last - m[-1])[None]])
    change = np.abs(np.diff(m, axis=0))
    if method == "makima":
        change = change + 0.5 * np.abs(m[1:] + m[:-1])
    f1, f2 = change[2:], change[:-2]
    both = f1 + f2
    known = both > 1e-9 * np.max(both, initial=-math.inf)
    by_changes = m[1:-2] + f2 / np.where(known, both, 1.0) * (m[2:-1] - m[1:-2])
    return _hermite(y, np.where(known, by_changes, 0.5 * (m[3:] + m[:-3])), dx)


class Akima1DInterpolator(_Through):
    """Equivalent of `scipy.interpolate.Akima1DInterpolator`, with the methods "akima" and "makima"; NaN beyond the knots by default.

    >>> import numpy as np
    >>> float(Akima1DInterpolator(np.arange(4.0), np.arange(4.0))(1.5))
    1.5
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None) -> None:
        if method not in ("akima", "makima"):
            raise NotImplementedError(f"`method`={method} is unsupported.")
        x, y = arrays_of(x, y)
        if is_plain(x, y):
            self._take(scipys("interpolate").Akima1DInterpolator(x, y, axis, method=method, extrapolate=extrapolate))
        else:
            self._through(_akima(x, y, axis, method), x, y, axis, False if extrapolate is None else extrapolate)


# -- cubic splines

_NAMED = {"clamped": 1, "natural": 2, "not-a-knot": "not-a-knot", "periodic": "periodic"}


def _conditions(bc_type: Any) -> tuple[Any, Any, Any, Any]:
    """Kinds of the conditions at both ends (orders of given derivatives, or names), and the values of the derivatives."""
    pair = (bc_type, bc_type) if isinstance(bc_type, str) else tuple(bc_type)
    if len(pair) != 2:
        raise ValueError("`bc_type` must contain 2 elements to specify start and end conditions.")
    if "periodic" in [each for each in pair if isinstance(each, str)] and not isinstance(bc_type, str):
        raise ValueError("'periodic' `bc_type` is defined for both curve ends and cannot be used with other boundary conditions.")
    kinds, values = [], []
    for condition in pair:
        if isinstance(condition, str):
            if condition not in _NAMED:
                raise ValueError(f"bc_type={condition} is not allowed.")
            kinds.append(_NAMED[condition])
            values.append(0.0)
        else:
            order, value = condition
            if order not in (1, 2):
                raise ValueError("The specified derivative order must be 1 or 2.")
            kinds.append(int(order))
            values.append(value)
    return kinds[0], kinds[1], values[0], values[1]


def _solved(upper: list[Any], diagonal: list[Any], lower: list[Any], b: Any) -> Any:
    """Solution of a tridiagonal system, whose bands are given in parts."""
    rows = [np.concatenate([np.atleast_1d(part) for part in band]) for band in (upper, diagonal, lower)]
    found = linalg.solve_banded((1, 1), np.stack(rows), np.reshape(b, (b.shape[0], -1)))
    return np.reshape(found, b.shape)


def _end_equation(kind: Any, value: Any, dx: Any, y: Any, slope: Any, sign: float) -> tuple[Any, Any, Any]:
    """Equation of the first knot (of the last one with reversed arrays and `sign` -1): its own coefficient, its neighbour's, the right-hand
    side."""
    if kind == "not-a-knot":
        both = dx[0] + dx[1]
        return dx[1], both, ((dx[0] + 2.0 * both) * dx[1] * slope[0] + dx[0] ** 2 * slope[1]) / both
    if kind == 1:
        return 1.0, 0.0, value
    return 2.0 * dx[0], dx[0], -0.5 * sign * value * dx[0] ** 2 + 3.0 * slope[0] * dx[0]


@dispatched
def _cubic(x: Any, y: Any, start: Any, end: Any, kinds: tuple[Any, Any], axis: int) -> Any:
    x, y, dx = _points(x, y, axis)
    return _hermite(y, _cubic_slopes(x, y, dx, kinds, [np.broadcast_to(float64(value), y.shape[1:]) for value in (start, end)]), dx)


def _cubic_slopes(x: Any, y: Any, dx: Any, kinds: tuple[Any, Any], values: list[Any]) -> Any:
    """Derivatives at the knots, with which second derivatives are continuous."""
    count, step = y.shape[0], column(dx, y)
    slope = np.diff(y, axis=0) / step
    if not y.size:
        return np.zeros_like(y)
    if count == 2:
        values = [slope[0] if kind in ("not-a-knot", "periodic") else value for kind, value in zip(kinds, values, strict=True)]
        kinds = cast("tuple[Any, Any]", tuple(1 if kind in ("not-a-knot", "periodic") else kind for kind in kinds))
    if count == 3 and kinds == ("not-a-knot", "not-a-knot"):      # a parabola
        middle = (step[0] * slope[1] + step[1] * slope[0]) / (step[0] + step[1])
        return np.stack([2.0 * slope[0] - middle, middle, 2.0 * slope[1] - middle])
    inner = 3.0 * (step[1:] * slope[:-1] + step[:-1] * slope[1:])
    if kinds[0] == "periodic":
        if count == 3:
            same = np.sum(slope / step, axis=0) / np.sum(1.0 / step, axis=0)
            return np.broadcast_to(same, y.shape)
        return _periodic_slopes(dx, step, slope, inner)
    first = _end_equation(kinds[0], values[0], dx, y, slope, 1.0)
    last = _end_equation(kinds[1], values[1], dx[::-1], y, slope[::-1], -1.0)
    b = np.concatenate([first[2][None], inner, last[2][None]])
    return _solved([0.0, first[1], dx[:-1]], [first[0], 2.0 * (dx[:-1] + dx[1:]), last[0]], [dx[1:], last[1], 0.0], b)


def _periodic_slopes(dx: Any, step: Any, slope: Any, inner: Any) -> Any:
    """Derivatives at the knots of a periodic spline: the last unknown is taken out of the system, which is then tridiagonal."""
    count = dx.size - 1      # unknowns that are left
    b = np.concatenate([3.0 * (step[0] * slope[-1] + step[-1] * slope[0])[None], inner])
    others, last = b[:-1], b[-1]
    upper, lower = [0.0, dx[-1:], dx[:count - 2]], [dx[1:count], 0.0]
    diagonal = [2.0 * (dx[-1] + dx[0]), 2.0 * (dx[:-1] + dx[1:])[:count - 1]]
    corner = np.concatenate([-dx[:1], np.zeros(count - 2), -dx[-3:-2]])
    s1 = _solved(upper, diagonal, lower, others)
    s2 = column(_solved(upper, diagonal, lower, corner), others)
    at_last = (last - dx[-2] * s1[0] - dx[-1] * s1[-1]) / (2.0 * (dx[-1] + dx[-2]) + dx[-2] * s2[0] + dx[-1] * s2[-1])
    found = s1 + at_last * s2
    return np.concatenate([found, at_last[None], found[:1]])


class CubicSpline(_Through):
    """Equivalent of `scipy.interpolate.CubicSpline`, with all conditions at the ends ("not-a-knot", "periodic", "clamped", "natural", or a
    pair of these and of (order, value)). Of traced values, "periodic" takes for granted that the first and the last are equal.

    >>> import numpy as np
    >>> import adjit as aj
    >>> x = np.arange(4.0)
    >>> aj.grad(lambda y: CubicSpline(x, y)(1.5))(x ** 2).round(4)
    array([-0.0625,  0.5625,  0.5625, -0.0625])
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None) -> None:
        start_kind, end_kind, start, end = _conditions(bc_type)
        x, y = arrays_of(x, y)
        if is_plain(x, y, start, end):
            self._take(scipys("interpolate").CubicSpline(x, y, axis, bc_type, extrapolate))
            return
        if extrapolate is None:
            extrapolate = "periodic" if start_kind == "periodic" else True
        self._through(_cubic(x, y, start, end, (start_kind, end_kind), axis), x, y, axis, extrapolate)
