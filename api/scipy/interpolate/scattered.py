"""Interpolation of points that lie on no grid: polynomials through them, radial functions, simplices, nearest neighbours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit.ir.errors import ShapeError, UnsupportedError
from adjit.runtime.pure_callback import pure_callback
from adjit.scipy.interpolate.polynomials import Interpolator, PchipInterpolator, column, float64, into_place, known
from adjit.scipy.interpolate.tables import interp1d
from adjit.scipy.mirror import arrays_of, is_plain, scipys
from adjit.tracer.array import as_traced
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions.composites import stop_gradient
from adjit.tracer.functions.indexing import freeze
from adjit.tracer.functions.shapes import normalize_axis
from adjit.tracer.user_location import find_user_location

# -- polynomials


@dispatched
def _through_points(xi: Any, yi: Any, x: Any, axis: int) -> Any:
    """Values of the polynomial through points, by Lagrange's: products of the distances to all other points, without a quotient."""
    xi, yi, x = float64(xi), np.moveaxis(float64(yi), axis, 0), float64(x)
    at, x, count = x.shape, np.ravel(x), xi.size
    scale = 4.0 / (np.max(xi) - np.min(xi)) if count > 1 else 1.0       # the capacity: products stay of the order of 1
    distances = (x[:, None] - xi) * scale
    weights = 1.0 / np.prod((xi[:, None] - xi) * scale + np.eye(count), axis=1)
    one = np.ones((x.size, 1))
    before = np.concatenate([one, np.cumprod(distances[:, :-1], axis=1)], axis=1)
    after = np.flip(np.concatenate([one, np.cumprod(np.flip(distances, 1)[:, :-1], axis=1)], axis=1), 1)
    found = (before * after * weights) @ np.reshape(yi, (count, -1))
    return into_place(np.reshape(found, (x.size, *yi.shape[1:])), at, axis)


@dispatched
def _by_newton(xi: Any, c: Any, x: Any, axis: int) -> Any:
    """Values of the polynomial with divided differences `c`."""
    xi, c, x = float64(xi), float64(c), float64(x)
    at, x = x.shape, np.ravel(x)
    found = np.zeros((x.size, *c.shape[1:])) + c[0]
    factor: Any = 1.0
    for k in range(1, c.shape[0]):
        factor = factor * (x - xi[k - 1])
        found = found + column(factor, found) * c[k]
    return into_place(found, at, axis)


class BarycentricInterpolator(Interpolator):
    """Equivalent of `scipy.interpolate.BarycentricInterpolator`: the polynomial through `yi` at the places `xi` [n], `axis` being that of
    the places. Both may be traced.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.grad(lambda y: BarycentricInterpolator(np.arange(3.0), y)(0.5))(np.array([1.0, 2.0, 5.0]))
    array([ 0.375,  0.75 , -0.125])
    """

    _kind = "BarycentricInterpolator"
    _c: Any = None

    def __init__(self, xi: Any, yi: Any = None, axis: int = 0, **options: Any) -> None:
        xi, yi = arrays_of(xi, yi)
        if is_plain(xi, yi):
            self._take(getattr(scipys("interpolate"), self._kind)(xi, yi, axis, **options))
            return
        if yi is None or any(value is not None for value in options.values()):
            raise UnsupportedError(f"{self._kind} of traced values with {', '.join(options) or 'no values'}", find_user_location(),
                                   hint="pass xi and yi alone")
        self.xi, self.yi, self.axis = xi, yi, normalize_axis(axis, np.ndim(yi))
        if np.ndim(xi) != 1 or np.shape(yi)[self.axis] != np.shape(xi)[0]:
            raise ShapeError(f"{np.size(xi)} places do not fit to values of shape {np.shape(yi)} along axis {axis}", find_user_location())

    def _take(self, theirs: Any) -> None:
        self._theirs, self.xi, self.axis = theirs, theirs.xi, theirs._y_axis
        shape = (-1, *theirs._y_extra_shape)
        self._c = np.reshape(theirs.c, shape) if hasattr(theirs, "c") else None     # of Krogh's: places may be there several times
        self.yi = np.moveaxis(np.reshape(theirs.yi, shape), 0, self.axis)

    def __call__(self, x: Any) -> Any:
        """Return the values at `x`; its axes take the place of the interpolated one.

        >>> import numpy as np
        >>> BarycentricInterpolator(np.arange(3.0), np.arange(3.0) ** 2)(1.5).round(6)
        np.float64(2.25)
        """
        if self._is_plain(x):
            return self._theirs(x)
        if self._c is not None:
            return _by_newton(self.xi, self._c, x, self.axis)
        return _through_points(self.xi, self.yi, x, self.axis)


class KroghInterpolator(BarycentricInterpolator):
    """Equivalent of `scipy.interpolate.KroghInterpolator`: the polynomial through `yi` at known places `xi` [n]. Traced values are at
    places that are there once; SciPy's object of plain ones may have derivatives for values.

    >>> import numpy as np
    >>> KroghInterpolator(np.arange(3.0), np.arange(3.0) ** 2)(1.5).round(6)
    np.float64(2.25)
    """

    _kind = "KroghInterpolator"

    def __init__(self, xi: Any, yi: Any, axis: int = 0) -> None:
        super().__init__(xi, yi, axis)
        if self._theirs is None and np.unique(known(self.xi, "the places")).size < np.size(xi):
            raise UnsupportedError("KroghInterpolator of traced derivatives: a place is there twice", find_user_location(),
                                   hint="CubicHermiteSpline takes traced derivatives")


def around_points(theirs: Any) -> BarycentricInterpolator:
    found = BarycentricInterpolator.__new__(BarycentricInterpolator)
    found._take(theirs)
    return found


def _whole(der: Any) -> None:
    if not isinstance(der, int) or der:
        raise UnsupportedError(f"derivatives (der={der!r}) of traced values", find_user_location(), hint="aj.grad and aj.jvp give them")


def barycentric_interpolate(xi: Any, yi: Any, x: Any, axis: int = 0, *, der: Any = 0, **options: Any) -> Any:
    """Equivalent of `scipy.interpolate.barycentric_interpolate`.

    >>> import numpy as np
    >>> barycentric_interpolate(np.arange(3.0), np.arange(3.0) ** 2, 1.5).round(6)
    np.float64(2.25)
    """
    if is_plain(xi, yi, x):
        return scipys("interpolate").barycentric_interpolate(xi, yi, x, axis, der=der, **options)
    _whole(der)
    return BarycentricInterpolator(xi, yi, axis)(x)


def krogh_interpolate(xi: Any, yi: Any, x: Any, der: Any = 0, axis: int = 0) -> Any:
    """Equivalent of `scipy.interpolate.krogh_interpolate`.

    >>> import numpy as np
    >>> krogh_interpolate(np.arange(3.0), np.arange(3.0) ** 2, 1.5).round(6)
    np.float64(2.25)
    """
    if is_plain(xi, yi, x):
        return scipys("interpolate").krogh_interpolate(xi, yi, x, der, axis)
    _whole(der)
    return KroghInterpolator(xi, yi, axis)(x)


def pchip_interpolate(xi: Any, yi: Any, x: Any, der: int = 0, axis: int = 0) -> Any:
    """Equivalent of `scipy.interpolate.pchip_interpolate`.

    >>> import numpy as np
    >>> pchip_interpolate(np.arange(3.0), np.arange(3.0), 1.5).round(6)
    np.float64(1.5)
    """
    if is_plain(xi, yi, x):
        return scipys("interpolate").pchip_interpolate(xi, yi, x, der, axis)
    return PchipInterpolator(xi, yi, axis)(x, der)


# -- radial functions

def _root(r2: Any) -> Any:
    """Square root, whose derivative at 0 is 0."""
    at = r2 == 0
    return np.where(at, 0.0, np.sqrt(np.where(at, 1.0, r2)))


def _plate(r2: Any) -> Any:
    at = r2 == 0
    return np.where(at, 0.0, 0.5 * r2 * np.log(np.where(at, 1.0, r2)))


_KERNELS = {
    "linear": lambda r2: -_root(r2), "thin_plate_spline": _plate, "cubic": lambda r2: r2 * _root(r2),
    "quintic": lambda r2: -(r2 ** 2) * _root(r2), "multiquadric": lambda r2: -np.sqrt(r2 + 1.0),
    "inverse_multiquadric": lambda r2: 1.0 / np.sqrt(r2 + 1.0), "inverse_quadratic": lambda r2: 1.0 / (r2 + 1.0),
    "gaussian": lambda r2: np.exp(-r2),
}
"""Radial functions, of the square of the distance."""


@dispatched
def _radial(x: Any, y: Any, coefficients: Any, shift: Any, scale: Any, powers: Any, kernel: str, epsilon: Any) -> Any:
    x, y = float64(x), float64(y)
    if x.ndim != 2 or x.shape[1] != y.shape[1]:
        raise ShapeError(f"places of shape {x.shape}, expected ({'n'}, {y.shape[1]})", find_user_location())
    distances = np.sum((x[:, None, :] - y) ** 2, axis=-1) * epsilon ** 2
    parts, inside = [_KERNELS[kernel](distances)], (x - shift) / scale
    for exponents in np.asarray(powers).tolist():
        factors = [inside[:, axis] ** int(exponent) for axis, exponent in enumerate(exponents) if exponent]
        parts.append(column(math.prod(factors[1:], start=factors[0]) if factors else np.ones(x.shape[0]), distances))
    return np.concatenate(parts, axis=1) @ float64(coefficients)


class RBFInterpolator(Interpolator):
    """Equivalent of `scipy.interpolate.RBFInterpolator`: a sum of radial functions around known points `y` [n, d], and a polynomial, by
    values `d` [n, ...], which may be traced, as places asked for. `neighbors` is for plain places.

    >>> import numpy as np
    >>> import adjit as aj
    >>> f = RBFInterpolator(np.arange(4.0)[:, None], np.arange(4.0) ** 2, kernel="cubic")
    >>> aj.grad(lambda x: f(np.reshape(x, (1, 1)))[0])(1.5).round(6)
    np.float64(3.0)
    """

    _coefficients: Any

    def __init__(self, y: Any, d: Any, neighbors: Any = None, smoothing: Any = 0.0, kernel: str = "thin_plate_spline", epsilon: Any = None,
                 degree: Any = None) -> None:
        options = {"neighbors": neighbors, "smoothing": smoothing, "kernel": kernel, "epsilon": epsilon, "degree": degree}
        y, d = arrays_of(y, d)
        make = scipys("interpolate").RBFInterpolator
        if is_plain(y, d):
            self._take(make(y, d, **options))
            return
        y = known(y, "the points")
        self._take(make(y, np.eye(y.shape[0]), **options))      # coefficients are linear in values
        self._theirs, self._shape = None, np.shape(d)[1:]
        self._coefficients = as_traced(self._coefficients) @ np.reshape(float64(d), (y.shape[0], -1))

    def _take(self, theirs: Any) -> None:
        if theirs.neighbors is not None:
            raise UnsupportedError("RBFInterpolator(neighbors=...) of traced values, or at traced places", find_user_location(),
                                   hint="leave neighbors out")
        if theirs.d_dtype is complex:
            raise UnsupportedError("RBFInterpolator of complex values at traced places", find_user_location(),
                                   hint="interpolate the real and the imaginary parts")
        self._theirs, self._made, self._shape, self._coefficients = theirs, theirs, theirs.d_shape, theirs._coeffs

    def __call__(self, x: Any) -> Any:
        """Return the values at `x` [m, d].

        >>> import numpy as np
        >>> RBFInterpolator(np.arange(4.0)[:, None], np.arange(4.0), kernel="cubic")(np.array([[1.5]])).round(6)
        array([1.5])
        """
        if self._is_plain(x):
            return self._theirs(x)
        made = self._made
        freeze(made.powers)
        found = _radial(x, made.y, self._coefficients, made._shift, made._scale, made.powers, made.kernel, made.epsilon)
        return np.reshape(found, (np.shape(x)[0], *self._shape))


def around_radial(theirs: Any) -> RBFInterpolator:
    found = RBFInterpolator.__new__(RBFInterpolator)
    found._take(theirs)
    return found


# -- simplices and neighbours

def _places(args: tuple[Any, ...], dimensions: int) -> Any:
    """Places along the last axis, from an array or coordinates that are broadcast."""
    if len(args) == 1 and isinstance(args[0], tuple):
        args = args[0]
    places = float64(args[0]) if len(args) == 1 else np.stack(np.broadcast_arrays(*map(float64, args)), axis=-1)
    if len(args) == 1 and places.ndim == 1:
        places = np.reshape(places, (-1, dimensions))
    if places.shape[-1:] != (dimensions,):
        raise ShapeError(f"number of dimensions in xi does not match x: {places.shape[-1:]} and {dimensions}", find_user_location())
    return places


class _OfPoints(Interpolator):
    """Interpolator of SciPy's of known points; values and places may be traced."""

    _kind: str

    def __init__(self, points: Any, values: Any, fill_value: Any = math.nan, rescale: bool = False, **options: Any) -> None:
        values, = arrays_of(values)
        make = getattr(scipys("interpolate"), self._kind)
        more = {} if self._kind.startswith("Nearest") else {"fill_value": fill_value}
        if is_plain(points, values):
            self._take(make(points, values, rescale=rescale, **more, **options))
            return
        points = tuple(known(x, "the points") for x in points) if isinstance(points, tuple) else known(points, "the points")
        count = np.shape(points[0])[0] if isinstance(points, tuple) else points.shape[0]
        self._take(make(points, np.zeros(count), rescale=rescale, **more, **options))
        self._theirs, self.values = None, values

    def _take(self, theirs: Any) -> None:
        self._theirs, self._made = theirs, theirs
        self.values = np.reshape(theirs.values, (-1, *theirs.values_shape))

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Return the values at places: coordinates, or an array whose last axis has them."""
        if self._is_plain(args):
            return self._theirs(*args, **options)
        return self._at(args, options)

    def _scaled(self, args: tuple[Any, ...]) -> tuple[Any, tuple[int, ...]]:
        """Places [m, d] as the interpolator scales them, and the shape of places."""
        count = self._made.points.shape[1]
        places = _places(args, count)
        shape, places = places.shape[:-1], np.reshape(places, (-1, count))
        if self._made.scale is not None:
            offset = -self._made._scale_x(np.zeros((1, count)))[0]
            places = places / self._made.scale - offset
        return places, shape

    def _at(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        raise NotImplementedError


class LinearNDInterpolator(_OfPoints):
    """Equivalent of `scipy.interpolate.LinearNDInterpolator`: linear on each simplex of known points [n, d], by values [n, ...], which may
    be traced, as the places asked for. The program asks SciPy for the simplex of each place.

    >>> import numpy as np
    >>> import adjit as aj
    >>> f = LinearNDInterpolator(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 2.0, 4.0]))
    >>> aj.grad(lambda x: f(x)[0])(np.array([0.2, 0.3]))
    array([1., 3.])
    """

    _kind = "LinearNDInterpolator"

    def _at(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        places, shape = self._scaled(args)
        return _on_simplices(self.values, places, self._made, shape, self._made.fill_value)


@dispatched
def _on_simplices(values: Any, places: Any, made: Any, shape: tuple[int, ...], fill: Any) -> Any:
    values, tri = as_traced(values), made.tri
    values = values.astype(np.result_type(values.dtype, np.float64))
    number = pure_callback(lambda x: tri.find_simplex(x).astype(np.int64), ((places.shape[0],), np.int64), stop_gradient(places))
    inside, count = np.maximum(number, 0), places.shape[1]
    transform = np.take(as_traced(tri.transform), inside, axis=0)
    shares = np.sum(transform[:, :count] * (places - transform[:, count])[:, None], axis=-1)
    shares = np.concatenate([shares, 1.0 - np.sum(shares, axis=1, keepdims=True)], axis=1)
    corners = np.take(as_traced(tri.simplices.astype(np.int64)), inside, axis=0)
    found: Any = None
    for corner in range(count + 1):
        term = np.take(values, corners[:, corner], axis=0)
        term = term * column(shares[:, corner], term)
        found = term if found is None else found + term
    return np.reshape(np.where(column(number < 0, found), fill, found), (*shape, *values.shape[1:]))


class CloughTocher2DInterpolator(_OfPoints):
    """Equivalent of `scipy.interpolate.CloughTocher2DInterpolator`: cubic, with continuous derivatives, on the triangles of known points
    [n, 2], by values [n, ...], which may be traced. The places asked for are known: values are a matrix [places, n] times those of the
    points, which SciPy makes while tracing.

    >>> import numpy as np
    >>> import adjit as aj
    >>> points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> aj.grad(lambda y: CloughTocher2DInterpolator(points, y)(0.5, 0.0))(np.arange(4.0)).round(6)
    array([ 0.530035,  0.469965, -0.030035,  0.030035])
    """

    _kind = "CloughTocher2DInterpolator"

    def __init__(self, points: Any, values: Any, fill_value: Any = math.nan, tol: float = 1e-6, maxiter: int = 400, rescale: bool = False
                 ) -> None:
        super().__init__(points, values, fill_value, rescale, tol=tol, maxiter=maxiter)
        self._of = points, {"tol": tol, "maxiter": maxiter, "rescale": rescale}

    def _at(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        given = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
        places = [known(each, "the places", "LinearNDInterpolator and RBFInterpolator take traced places") for each in given]
        points, made = self._of
        of_units = scipys("interpolate").CloughTocher2DInterpolator(points, np.eye(self._made.points.shape[0]), **made)
        return _of_matrix(of_units(*places), self.values, self._made.fill_value)


@dispatched
def _of_matrix(matrix: Any, values: Any, fill: Any) -> Any:
    values = float64(values)
    outside = np.isnan(matrix[..., 0])
    found = np.tensordot(np.where(outside[..., None], 0.0, matrix), values, 1)
    return np.where(np.reshape(outside, (*outside.shape, *(1,) * (values.ndim - 1))), fill, found)


class NearestNDInterpolator(_OfPoints):
    """Equivalent of `scipy.interpolate.NearestNDInterpolator`: the value of the nearest of known points [n, d]. Values may be traced, and
    have derivatives; those in places are 0.

    >>> import numpy as np
    >>> NearestNDInterpolator(np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([1.0, 2.0]))(0.2, 0.3)
    array(1.)
    """

    _kind = "NearestNDInterpolator"

    def _at(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        places, shape = self._scaled(args)
        return _of_neighbours(self.values, places, self._made.tree, shape, options)


@dispatched
def _of_neighbours(values: Any, places: Any, tree: Any, shape: tuple[int, ...], options: dict[str, Any]) -> Any:
    values = as_traced(values)
    values = values.astype(np.result_type(values.dtype, np.float64))
    number = pure_callback(lambda x: np.asarray(tree.query(x, **options)[1], np.int64), ((places.shape[0],), np.int64),
                           stop_gradient(places))
    found = np.take(values, np.minimum(number, tree.n - 1), axis=0)
    found = np.where(column(number == tree.n, found), math.nan, found)       # none is near enough
    return np.reshape(found, (*shape, *values.shape[1:]))


def around_scattered(theirs: Any) -> Any:
    """Interpolator that holds one of SciPy's of scattered points."""
    is_linear = isinstance(theirs, scipys("interpolate").LinearNDInterpolator)
    kind: type[_OfPoints] = LinearNDInterpolator if is_linear else NearestNDInterpolator
    found = kind.__new__(kind)
    found._take(theirs)
    return found


def griddata(points: Any, values: Any, xi: Any, method: str = "linear", fill_value: Any = math.nan, rescale: bool = False) -> Any:
    """Equivalent of `scipy.interpolate.griddata`, of known points; with the method "cubic" at known places.

    >>> import numpy as np
    >>> griddata(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 2.0, 4.0]), (0.25, 0.5))
    array(2.75)
    """
    if is_plain(points, values, xi):
        return scipys("interpolate").griddata(points, values, xi, method, fill_value, rescale)
    if method not in ("linear", "nearest", "cubic"):
        raise ValueError(f"Unknown interpolation method {method!r}")
    if np.ndim(points) == 1 and not isinstance(points, tuple):
        return interp1d(points, values, method, axis=0, bounds_error=False,
                        fill_value="extrapolate" if method == "nearest" else fill_value)(xi[0] if isinstance(xi, tuple) else xi)
    if method == "cubic":
        return CloughTocher2DInterpolator(points, values, fill_value, rescale=rescale)(xi)
    kind = LinearNDInterpolator if method == "linear" else NearestNDInterpolator
    return kind(points, values, fill_value, rescale)(xi)
