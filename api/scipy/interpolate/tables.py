"""Interpolation in tables: along one axis, and on a regular grid of any dimension."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from adjit.ir.errors import ShapeError, UnsupportedError
from adjit.scipy.interpolate.bsplines import BSpline, around_spline, make_interp_spline
from adjit.scipy.interpolate.polynomials import Interpolator, around_polynomial, column, float64, into_place
from adjit.scipy.mirror import arrays_of, is_plain, scipys
from adjit.scipy.sliding import inexact
from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions.indexing import freeze
from adjit.tracer.functions.shapes import normalize_axis
from adjit.tracer.trace import is_tracing
from adjit.tracer.user_location import find_user_location

_ORDERS = {"zero": 0, "slinear": 1, "quadratic": 2, "cubic": 3}
_KINDS = ("linear", "nearest", "nearest-up", "previous", "next")


@dispatched
def _sorted(x: Any, y: Any, axis: int) -> tuple[Any, Any]:
    x = as_traced(x)
    order = np.argsort(x)
    return np.take(x, order), np.take(as_traced(y), order, axis=axis)


@dispatched
def _looked_up(knots: Any, y: Any, x: Any, below: Any, above: Any, kind: str, axis: int) -> Any:
    """Values at `x`; those beyond the knots are `below` and `above`, where given."""
    (y,), knots, x = inexact(y), float64(knots), float64(x)
    y = np.moveaxis(y, axis, 0)
    at, x, size = x.shape, np.ravel(x), knots.size
    if kind == "linear":
        upper = np.clip(np.searchsorted(knots, x), 1, size - 1)
        x0, x1, y0, y1 = np.take(knots, upper - 1), np.take(knots, upper), np.take(y, upper - 1, axis=0), np.take(y, upper, axis=0)
        found = (y1 - y0) / column(x1 - x0, y0) * column(x - x0, y0) + y0
    else:
        if kind.startswith("nearest"):
            bounds = knots[1:] / 2.0 + knots[:-1] / 2.0
            index = np.searchsorted(bounds, x, side="left" if kind == "nearest" else "right")
        else:
            index = np.searchsorted(knots, x, side="right") - 1 if kind == "previous" else np.searchsorted(knots, x)
        found = np.take(y, np.clip(index, 0, size - 1), axis=0)
    return into_place(_filled(found, knots, x, below, above), at, axis)


def _filled(found: Any, knots: Any, x: Any, below: Any, above: Any) -> Any:
    if below is not None:
        found = np.where(column(x < knots[0], found), below, found)
    return found if above is None else np.where(column(x > knots[-1], found), above, found)


@dispatched
def _filled_beyond(found: Any, knots: Any, x: Any, below: Any, above: Any, axis: int) -> Any:
    knots, x, found = float64(knots), float64(x), as_traced(found)
    first = np.moveaxis(found, range(axis, axis + x.ndim), range(x.ndim))
    flat = _filled(np.reshape(first, (x.size, *first.shape[x.ndim:])), knots, np.ravel(x), below, above)
    return into_place(flat, x.shape, axis)


class interp1d(Interpolator):
    """Equivalent of `scipy.interpolate.interp1d`, of real values: the kinds "linear", "nearest", "nearest-up", "previous" and "next" also
    with traced `x`, and "zero", "slinear", "quadratic", "cubic" and orders of splines at known `x`.

    Traced places beyond `x` get `fill_value`, NaN by default: there is no `ValueError`. Derivatives go to places and values.

    >>> import numpy as np
    >>> import adjit as aj
    >>> f = interp1d(np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 4.0]))
    >>> aj.grad(f)(0.5), aj.grad(f)(2.0)
    (np.float64(2.0), np.float64(1.0))
    """

    def __init__(self, x: Any, y: Any, kind: Any = "linear", axis: int = -1, copy: bool = True, bounds_error: bool | None = None,
                 fill_value: Any = math.nan, assume_sorted: bool = False) -> None:
        x, y = arrays_of(x, y)
        if is_plain(x, y, fill_value):
            self._theirs = scipys("interpolate").interp1d(x, y, kind, axis, copy, bounds_error, fill_value, assume_sorted)
            x, y, assume_sorted = self._theirs.x, self._theirs.y, True
        self.x, self.y, self.axis, self._kind, self._spline = x, y, normalize_axis(axis, np.ndim(y)), kind, None
        if np.ndim(x) != 1 or np.shape(y)[self.axis] != np.shape(x)[0]:
            raise ShapeError(f"places of shape {np.shape(x)} do not fit to values of shape {np.shape(y)} along axis {self.axis}",
                             find_user_location())
        if not assume_sorted:
            if isinstance(x, (TracedArray, ArrayWrapper)) or kind in _KINDS:
                self.x, self.y = _sorted(x, y, self.axis)
            else:
                order = _order_of(x)
                self.x, self.y = np.asarray(x)[order], np.take(_by_reference(y), order, axis=self.axis)
        if isinstance(kind, int) or kind in _ORDERS:
            self._spline = make_interp_spline(self.x, self.y, _ORDERS.get(kind, kind), axis=self.axis)      # type: ignore[arg-type]
        elif kind not in _KINDS:
            raise NotImplementedError(f"{kind} is unsupported: Use fitpack routines for other types.")
        self._fill(fill_value)

    def _fill(self, fill_value: Any) -> None:
        beyond = isinstance(fill_value, str) and fill_value == "extrapolate"
        pair = fill_value if isinstance(fill_value, tuple) and len(fill_value) == 2 else (fill_value, fill_value)
        self._below: Any
        self._above: Any
        self._below, self._above = (None, None) if beyond else pair
        if beyond and self._kind in ("previous", "next"):       # as in SciPy, towards the side without a knot there is no value
            self._below, self._above = (math.nan, None) if self._kind == "previous" else (None, math.nan)

    def __call__(self, x: Any) -> Any:
        """Return the values at `x`; its axes take the place of the interpolated one.

        >>> import numpy as np
        >>> interp1d(np.array([0.0, 1.0]), np.array([0.0, 2.0]))(0.25)
        array(0.5)
        """
        if self._is_plain(x):
            return self._theirs(x)
        if self._spline is None:
            return _looked_up(self.x, self.y, x, self._below, self._above, self._kind, self.axis)
        return _filled_beyond(self._spline(x), self.x, x, self._below, self._above, self.axis)


def _around_interp1d(theirs: Any) -> interp1d:
    found = interp1d.__new__(interp1d)
    found.x, found.y, found.axis, found._kind, found._spline = theirs.x, theirs.y, theirs.axis, theirs._kind, None
    if theirs._kind == "spline":        # SciPy's has all other axes as one
        t, c, k = theirs._spline.tck
        rest = np.delete(np.shape(theirs.y), theirs.axis)
        found._spline = BSpline(t, np.moveaxis(np.reshape(c, (-1, *rest)), 0, theirs.axis), k, axis=theirs.axis)
    found._fill(theirs.fill_value)
    return found


def _by_reference(x: Any) -> Any:
    """The array, which the trace under way reads at each call, not once."""
    return as_traced(x) if is_tracing() and isinstance(x, np.ndarray) else x


def _order_of(x: Any) -> np.ndarray:
    """The order that sorts known places."""
    given = np.asarray(x, dtype=np.float64)
    if isinstance(x, np.ndarray):
        freeze(x)
    return np.argsort(given, kind="stable")


# -- regular grids


def _places(xi: Any, count: int) -> Any:
    """Places along the last axis, from an array or a tuple of arrays that are broadcast."""
    if isinstance(xi, tuple):
        return np.stack(np.broadcast_arrays(*map(float64, xi)), axis=-1)
    places = float64(xi)
    if places.ndim == 1:
        places = np.reshape(places, (-1, 1) if count == 1 else (-1, count))
    return places


_DEGREES = {"slinear": 1, "cubic": 3, "quintic": 5}
_METHODS = 'the methods "linear", "nearest", "slinear", "cubic" and "quintic" are supported'


def _weights(knots: Any, x: Any, degree: int) -> list[tuple[Any, Any]]:
    """Indices and values of the B-splines that are not 0 at places within the knots, or of the polynomials that continue them, by the
    recursion of Cox and de Boor."""
    first = np.clip(np.searchsorted(knots[degree:knots.size - degree], x, side="right") - 1, 0, knots.size - 2 * degree - 2)
    around = [np.take(knots, first + offset) for offset in range(1, 2 * degree + 1)]
    found: list[Any] = [np.ones(x.size)]
    for order in range(1, degree + 1):
        carried: Any = np.zeros(x.size)
        for number in range(order):
            low, high = around[degree - order + number], around[degree + number]
            part = found[number] / (high - low)
            found[number] = carried + (high - x) * part
            carried = (x - low) * part
        found.append(carried)
    return [(first + number, weight) for number, weight in enumerate(found)]


def _coefficients(values: Any, grid: Sequence[Any], degree: int) -> tuple[Any, tuple[Any, ...]]:
    """Coefficients and knots of the product of splines through values on a grid of known places."""
    knots = []
    for axis, places in enumerate(grid):
        if np.size(places) <= degree:
            raise ValueError(f"There are {np.size(places)} points in dimension {axis}, but a method of degree {degree} requires at least "
                             f"{degree + 1}")
        spline = make_interp_spline(places, _by_reference(values), degree, axis=axis)
        values = spline.c
        knots.append(spline.t)
    return values, tuple(knots)


@dispatched
def _on_grid(values: Any, grid: Any, xi: Any, method: str, fill: Any, splines: Any = None) -> Any:
    """Values at places, from those at the corners of their cells; for splines from coefficients, with their knots as `splines`."""
    (values,), places = inexact(values), _places(xi, len(grid))
    if places.shape[-1] != len(grid):
        raise ShapeError(f"The requested sample points xi have dimension {places.shape[-1]} but this RegularGridInterpolator has dimension "
                         f"{len(grid)}", find_user_location())
    at, rest = places.shape[:-1], values.shape[len(grid):]
    places = np.reshape(places, (math.prod(at), len(grid)))
    taps: list[list[tuple[Any, Any]]] = []
    unknown: Any = np.any(np.isnan(places), axis=-1)
    outside, found = unknown, cast("Any", None)
    for axis, knots in enumerate(map(float64, grid)):
        x, size = places[:, axis], knots.size
        outside = outside | (x < knots[0]) | (x > knots[-1])
        if splines is not None:
            taps.append(_weights(float64(splines[axis]), x, _DEGREES[method]))
            continue
        index = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, max(size - 2, 0))
        share = (x - np.take(knots, index)) / (np.take(knots, index + 1) - np.take(knots, index)) if size > 1 else 0.0 * x
        if method == "nearest":
            taps.append([(np.where(share <= 0.5, index, np.minimum(index + 1, size - 1)), None)])
        else:
            taps.append([(index, 1.0 - share), (np.minimum(index + 1, size - 1), share)])
    table = np.reshape(values, (-1, *rest))
    for corner in itertools.product(*taps):
        place, weight = np.zeros(math.prod(at), np.int64), np.ones(math.prod(at))
        for (index, part), size in zip(corner, values.shape, strict=False):
            place = place * size + index
            weight = weight if part is None else weight * part
        term = np.take(table, place, axis=0)
        term = term if method == "nearest" else term * column(weight, term)
        found = term if found is None else found + term
    if fill is not None:
        found = np.where(column(outside, found), fill, found)
    return np.reshape(np.where(column(unknown, found), math.nan, found), (*at, *rest))


class RegularGridInterpolator(Interpolator):
    """Equivalent of `scipy.interpolate.RegularGridInterpolator` with the methods "linear", "nearest", "slinear", "cubic" and "quintic".
    `values` [n1, n2, ..., ...] and the places asked for may be traced, and have derivatives. Splines of traced values are solved for
    exactly, those of plain ones iteratively, by SciPy.

    Traced places outside of the grid get NaN where SciPy raises `ValueError` (`bounds_error=True`, the default).

    >>> import numpy as np
    >>> import adjit as aj
    >>> f = RegularGridInterpolator((np.arange(2.0), np.arange(3.0)), np.arange(6.0).reshape(2, 3))
    >>> aj.grad(lambda xi: np.sum(f(xi)))(np.array([0.5, 1.5]))
    array([3., 1.])
    """

    _made: Any = None

    def __init__(self, points: Sequence[Any], values: Any, method: str = "linear", bounds_error: bool = True, fill_value: Any = math.nan,
                 **options: Any) -> None:
        points, (values,) = arrays_of(*points), arrays_of(values)
        if is_plain(*points, values):
            self._theirs = self._made = scipys("interpolate").RegularGridInterpolator(
                points, values, method, bounds_error, fill_value, **options)
            points, values = self._theirs.grid, self._theirs.values
        elif method not in ("linear", "nearest", *_DEGREES):
            raise UnsupportedError(f"RegularGridInterpolator(method={method!r})", find_user_location(), hint=_METHODS)
        if len(points) > np.ndim(values):
            raise ValueError(f"There are {len(points)} point arrays, but values has {np.ndim(values)} dimensions")
        grid = []
        for axis, (knots, size) in enumerate(zip(points, np.shape(values), strict=False)):
            if np.shape(knots) != (size,):
                raise ValueError(f"There are {np.shape(knots)[0]} points and {size} values on dimension {axis}")
            if isinstance(knots, (np.ndarray, list, tuple)) and np.size(knots) > 1 and np.all(np.diff(knots) < 0):
                freeze(knots) if isinstance(knots, np.ndarray) else None
                knots, values = np.flip(np.asarray(knots)), np.flip(_by_reference(values), axis)
            grid.append(knots)
        self.grid, self.values, self.method, self.bounds_error, self.fill_value = tuple(grid), values, method, bounds_error, fill_value

    def __call__(self, xi: Any, method: str | None = None, **options: Any) -> Any:
        """Return the values at `xi`, an array whose last axis has the coordinates, or a tuple of arrays of coordinates.

        >>> import numpy as np
        >>> RegularGridInterpolator((np.arange(3.0),), np.array([0.0, 1.0, 4.0]))(np.array([[1.5]]))
        array([2.5])
        """
        if self._is_plain(*(xi if isinstance(xi, tuple) else (xi,))):
            return self._theirs(xi, method, **options)
        method = self.method if method is None else method
        if method not in ("linear", "nearest", *_DEGREES) or options.get("nu") is not None:
            raise UnsupportedError(f"RegularGridInterpolator with method={method!r} and {options} at traced places", find_user_location(),
                                   hint=_METHODS)
        fill = math.nan if self.bounds_error else self.fill_value
        if method not in _DEGREES:
            return _on_grid(self.values, self.grid, xi, method, fill)
        made = getattr(self._made, "_spline", None) if method == self.method else None
        values, knots = _coefficients(self.values, self.grid, _DEGREES[method]) if made is None else (made.c, made.t)
        return _on_grid(values, self.grid, xi, method, fill, knots)


def interpn(points: Sequence[Any], values: Any, xi: Any, method: str = "linear", bounds_error: bool = True, fill_value: Any = math.nan
            ) -> Any:
    """Equivalent of `scipy.interpolate.interpn` with the methods of `RegularGridInterpolator`.

    >>> import numpy as np
    >>> interpn((np.arange(3.0),), np.array([0.0, 1.0, 4.0]), np.array([[1.5]]))
    array([2.5])
    """
    if is_plain(*points, values, *(xi if isinstance(xi, tuple) else (xi,))):
        return scipys("interpolate").interpn(points, values, xi, method, bounds_error, fill_value)
    return RegularGridInterpolator(points, values, method, bounds_error, fill_value)(xi)


def around_table(theirs: Any) -> Any:
    """Interpolator that holds one of SciPy's own, or a function that computes what it does."""
    scipy = scipys("interpolate")
    if isinstance(theirs, scipy.PPoly):
        return around_polynomial(theirs)
    if isinstance(theirs, scipy.BSpline):
        return around_spline(theirs)
    if isinstance(theirs, scipy.RegularGridInterpolator):
        found = RegularGridInterpolator(theirs.grid, theirs.values, "linear", theirs.bounds_error, theirs.fill_value)
        found.method, found._made = theirs.method, theirs
        return found
    if isinstance(theirs, scipy.interp1d):
        return _around_interp1d(theirs)
    raise UnsupportedError(f"scipy.interpolate.{type(theirs).__name__} has no rule for traced places", find_user_location(),
                           hint="LinearNDInterpolator, RBFInterpolator, RegularGridInterpolator, interp1d, splines of one variable and "
                                "RectBivariateSpline have rules")
