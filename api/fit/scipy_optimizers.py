"""`minimize`, `least_squares`, `root` and `curve_fit`: SciPy's, with trees in place of vectors and with exact derivatives."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir.errors import ArgumentError, DTypeError, ShapeError, TraceError
from adjit.ir.lazy_module import LazyModule
from adjit.runtime.caches.transform_cache import kept
from adjit.runtime.compile_function import compile
from adjit.runtime.jacobians import hessian, jacobian
from adjit.runtime.parameter_vectors import ravel_pytree
from adjit.runtime.transform_arguments import describe
from adjit.runtime.transforms import value_and_grad
from adjit.tracer.trees import NAMESPACE, flatten, optree, unflatten
from adjit.tracer.user_location import find_user_location

scipy_optimize: Any = LazyModule("scipy.optimize")
scipy_linalg: Any = LazyModule("scipy.linalg")

Function = Callable[..., Any]

TAKES_HESSIAN = frozenset({"newton-cg", "dogleg", "trust-ncg", "trust-krylov", "trust-exact", "trust-constr"})
NO_GRADIENT = frozenset({"nelder-mead", "powell", "cobyla", "cobyqa"})


class _Parameters:
    """A tree of parameters as a vector of float64."""

    def __init__(self, params: Any, what: str) -> None:
        leaves, self.spec = flatten(params)
        for leaf in leaves:
            if np.asarray(leaf).dtype.kind not in "fiu":
                raise DTypeError(f"{what}: a parameter is {np.asarray(leaf).dtype.name}, expected real numbers", find_user_location())
        self.arrays = [np.asarray(leaf, None if getattr(leaf, "dtype", np.dtype(int)).kind == "f" else np.float64) for leaf in leaves]
        vector, self.unravel = ravel_pytree(unflatten(self.spec, self.arrays))
        self.vector = vector.astype(np.float64)
        self.key = self.spec, tuple((array.shape, array.dtype) for array in self.arrays)

    def bounds(self, bounds: Any, what: str) -> tuple[Any, Any] | None:
        """Vectors of lower and upper bounds."""
        if bounds is None:
            return None
        if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
            bounds = bounds.lb, bounds.ub
        if isinstance(bounds, list) and all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in bounds):
            lower, upper = zip(*bounds, strict=True)
            bounds = tuple(np.array([limit if bound is None else bound for bound in side], float)
                           for side, limit in ((lower, -np.inf), (upper, np.inf)))
        if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
            raise TraceError(f"{what}: bounds are a pair (lower, upper), got {type(bounds).__name__}", find_user_location(),
                             hint="each is None, a number, or a tree like the parameters")
        lower, upper = (self._bound(side, limit, what) for side, limit in zip(bounds, (-np.inf, np.inf), strict=True))
        return lower, upper

    def _bound(self, side: Any, limit: float, what: str) -> Any:
        if side is None:
            return np.full(self.vector.shape, limit)
        if isinstance(side, (tuple, list, np.ndarray)) and len(side) == self.vector.size and all(map(_is_number, side)):
            return np.array([limit if bound is None else bound for bound in side], float)       # SciPy's form: one for each element
        try:
            leaves = optree.broadcast_prefix(side, unflatten(self.spec, range(len(self.arrays))), namespace=NAMESPACE, none_is_leaf=True)
            full = [np.broadcast_to(np.asarray(limit if leaf is None else leaf, float), array.shape)
                    for leaf, array in zip(leaves, self.arrays, strict=True)]
        except ValueError as error:
            raise ShapeError(f"{what}: bounds do not fit the parameters ({error})", find_user_location(),
                             hint="None, a number, or the containers of the parameters with a number, an array or None for each") from None
        return np.concatenate([np.ravel(array) for array in full])


def _is_number(bound: Any) -> bool:
    return bound is None or isinstance(bound, (int, float, np.integer, np.floating))


_NOT_TAKEN = {
    "jac": "the Jacobian is exact: leave it out", "full_output": "least_squares returns SciPy's whole result",
    "check_finite": "leave it out", "nan_policy": "leave out what is NaN before: xdata[good], ydata[good]",
}


def _check_options(what: str, options: dict[str, Any], function: Function) -> None:
    """Raise `ArgumentError` for an option that SciPy's function does not take, or that has no meaning here."""
    for name in options:
        if name in _NOT_TAKEN or name not in inspect.signature(function).parameters:
            raise ArgumentError(f"{what} takes no option {name}=", find_user_location(),
                                hint=_NOT_TAKEN.get(name, f"options are those of scipy.optimize.{function.__name__}"))


@functools.cache
def _result_class() -> type:
    """Class of results: SciPy's, with what is computed when it is asked for."""
    class FitResult(scipy_optimize.OptimizeResult):
        """SciPy's result, with `params`, the tree of `x`, and `covariance`, of the elements of `x`."""

        def __getattr__(self, name: str) -> Any:
            if name == "covariance" and "_covariance" in self:
                self["covariance"] = self.pop("_covariance")()
            return super().__getattr__(name)

        def __repr__(self) -> str:
            return repr(scipy_optimize.OptimizeResult({name: value for name, value in self.items() if name != "_covariance"}))

    return FitResult


def _result(found: Any, parameters: _Parameters, covariance: Function) -> Any:
    return _result_class()({**found, "params": parameters.unravel(found.x), "_covariance": covariance})


def _programs(fun: Function, name: str, parameters: _Parameters, make: Callable[[Function], tuple[Function, ...]]) -> tuple[Any, ...]:
    """Compiled functions of a vector, for `fun` and parameters of this kind."""
    def build() -> tuple[Any, ...]:
        unravel = parameters.unravel

        def of_vector(x: Any, *args: Any) -> Any:
            return fun(unravel(x), *args)

        return tuple(map(compile, make(functools.wraps(fun)(of_vector))))

    return kept(fun, (name, *parameters.key), build)        # type: ignore[no-any-return]


def minimize(fun: Function, params: Any, args: tuple[Any, ...] = (), *, bounds: Any = None, method: str | None = None, hess: Any = "auto",
             **options: Any) -> Any:
    """`scipy.optimize.minimize` of `fun(params, *args)`, a number, for a tree `params`, with exact derivatives.

    `bounds`: a pair (lower, upper), each None, a number, or a tree like `params` of numbers, arrays and None; or what SciPy takes, for the
    elements of the tree one after the other. `method` and other options are SciPy's. `hess="auto"` gives the exact Hessian to methods that
    take one ("Newton-CG", "trust-exact", "trust-constr", ...); None gives none. `fun` is called with value and gradient together,
    as by SciPy's `jac=True`.

    Returns SciPy's result, with `params`, the solution as a tree, and `covariance`, the inverse of the exact Hessian (zero for
    parameters at a bound): the covariance of the parameters if `fun` is a negative log-likelihood. Programs are kept on `fun`.

    Raises `ModuleNotFoundError` without SciPy, and the errors of `aj.grad`.

    >>> import numpy as np
    >>> def loss(p):
    ...     return (p["u"] - 1.0) ** 2 + 4.0 * (p["v"][0] - p["u"]) ** 2
    >>> found = minimize(loss, {"u": 0.0, "v": np.zeros(1)}, method="trust-exact")
    >>> np.round(found.params["v"], 6), np.round(found.covariance, 6)
    (array([1.]), array([[0.5  , 0.5  ],
           [0.5  , 0.625]]))
    """
    what = f"minimize of {describe(fun)}"
    parameters = _Parameters(params, what)
    both, matrix, value = _programs(fun, "fit.minimize", parameters, lambda f: (value_and_grad(f), hessian(f), f))
    limits = parameters.bounds(bounds, what)
    name = (method or "").lower()
    if name in NO_GRADIENT:
        objective, jac = value, None
    else:
        objective, jac = both, True
    if hess == "auto":
        hess = matrix if name in TAKES_HESSIAN else None
    given = {} if limits is None else {"bounds": scipy_optimize.Bounds(*limits)}
    given.update({} if hess is None else {"hess": hess})
    found = scipy_optimize.minimize(objective, parameters.vector, args, method=method, jac=jac, **given, **options)
    free = True if limits is None else (found.x > limits[0]) & (found.x < limits[1])
    return _result(found, parameters, lambda: _inverse(matrix(found.x, *args), free))


def _inverse(matrix: Any, free: Any) -> Any:
    """Inverse among the parameters that are free, not at a bound; zero for the others."""
    free = np.broadcast_to(free, matrix.shape[:1])
    inverse = np.zeros_like(matrix)
    try:
        inverse[np.ix_(free, free)] = np.linalg.inv(matrix[np.ix_(free, free)])
    except np.linalg.LinAlgError:
        inverse[np.ix_(free, free)] = np.inf
    return inverse


class _Evaluated:
    """Residuals and Jacobian, computed together, of the last point."""

    def __init__(self, both: Function, args: tuple[Any, ...]) -> None:
        self.both, self.args = both, args
        self.point: bytes | None = None
        self.value: Any = None
        self.matrix: Any = None

    def residuals(self, x: Any) -> Any:
        point = x.tobytes()
        if point != self.point:
            self.value, self.matrix = self.both(x, *self.args)
            self.point = point
        return self.value

    def jacobian(self, x: Any) -> Any:
        self.residuals(x)
        return self.matrix


def _flat(f: Function) -> Function:
    """A function whose results are one vector."""
    return functools.wraps(f)(lambda x, *args: ravel_pytree(f(x, *args))[0])


def _with_matrix(f: Function) -> Function:
    flat = _flat(f)
    return functools.wraps(f)(lambda x, *args: (flat(x, *args), jacobian(flat)(x, *args)))


def least_squares(fun: Function, params: Any, args: tuple[Any, ...] = (), *, bounds: Any = None, method: str = "trf", **options: Any
                  ) -> Any:
    """`scipy.optimize.least_squares` of the residuals `fun(params, *args)`, an array or a tree of arrays, with the exact Jacobian.

    Residuals and Jacobian of a point are computed once, together. `bounds` are those of `minimize`; other options are SciPy's. Returns
    SciPy's result, with `params`, the solution as a tree, and `covariance`: the inverse of J^T J times the residual variance, as
    `scipy.optimize.curve_fit` has it, but where a bound is active: it is zero for parameters at a bound, which count as known.

    >>> import numpy as np
    >>> t = np.array([0.0, 1.0, 2.0, 3.0])
    >>> found = least_squares(lambda p, y: p[0] * np.exp(-p[1] * t) - y, (1.0, 1.0), (2.0 * np.exp(-0.5 * t),))
    >>> tuple(round(float(value), 6) for value in found.params)
    (2.0, 0.5)
    """
    what = f"least_squares of {describe(fun)}"
    _check_options(what, options, scipy_optimize.least_squares)
    parameters = _Parameters(params, what)
    (both,) = _programs(fun, "fit.least_squares", parameters, lambda f: (_with_matrix(f),))
    limits = parameters.bounds(bounds, what)
    point = _Evaluated(both, args)
    given = {} if limits is None else {"bounds": limits}
    found = scipy_optimize.least_squares(point.residuals, parameters.vector, point.jacobian, method=method, **given, **options)

    return _result(found, parameters, lambda: _unscaled(found) * _variance(found))


def _unscaled(found: Any) -> Any:
    """Covariance of the parameters of residuals of variance 1."""
    return _inverse(found.jac.T @ found.jac, found.active_mask == 0)


def _variance(found: Any) -> float:
    """Variance of residuals, from what is left of them."""
    freedom = found.fun.size - found.x.size
    return float(2 * found.cost / freedom) if freedom > 0 else np.inf


def root(fun: Function, params: Any, args: tuple[Any, ...] = (), *, method: str = "hybr", **options: Any) -> Any:
    """`scipy.optimize.root` of `fun(params, *args)`, as many equations as parameters, with the exact Jacobian. Returns SciPy's result, with
    `params`, the solution as a tree.

    >>> import numpy as np
    >>> found = root(lambda p: {"sum": p["x"] + p["y"] - 3.0, "product": p["x"] * p["y"] - 2.0}, {"x": 0.0, "y": 5.0})
    >>> round(float(found.params["x"]), 6), round(float(found.params["y"]), 6)
    (1.0, 2.0)
    """
    what = f"root of {describe(fun)}"
    parameters = _Parameters(params, what)
    value, matrix = _programs(fun, "fit.root", parameters, lambda f: (_flat(f), jacobian(_flat(f))))
    jac = matrix if method in ("hybr", "lm") else None
    found = scipy_optimize.root(value, parameters.vector, args, method=method, jac=jac, **options)
    return _result(found, parameters, lambda: np.full((found.x.size, found.x.size), np.nan))


def curve_fit(model: Function, xdata: Any, ydata: Any, params: Any = None, sigma: Any = None, absolute_sigma: bool = False, *,
              bounds: Any = None, method: str | None = None, **options: Any) -> tuple[Any, Any]:
    """`scipy.optimize.curve_fit` of `model(xdata, params)` to `ydata`, with a tree of parameters, which starts at `params`.

    `sigma`: standard deviations of `ydata`, or their covariance matrix; with `absolute_sigma` they are what they are, else only their
    ratios count. `bounds` are those of `minimize`. Returns the parameters, as a tree, and the covariance of their elements, one after the
    other. Where a bound is active it is not SciPy's, which takes no notice of bounds: parameters at a bound count as known, with zeros, and
    the others have the covariance given these. Raises `RuntimeError` if the fit does not succeed, `ShapeError` for data that do not fit.

    >>> import numpy as np
    >>> x = np.linspace(0.0, 3.0, 20)
    >>> params, covariance = curve_fit(lambda x, p: p["a"] * np.exp(-p["k"] * x), x, 2.0 * np.exp(-1.5 * x), {"a": 1.0, "k": 1.0})
    >>> round(float(params["a"]), 6), round(float(params["k"]), 6), covariance.shape
    (2.0, 1.5, (2, 2))
    """
    _check_model(model, params, options)
    if "maxfev" in options:
        options["max_nfev"] = options.pop("maxfev")
    _check_options(f"curve_fit of {describe(model)}", options, scipy_optimize.least_squares)
    y = np.asarray(ydata, np.float64)
    weights: Any = None if sigma is None else np.asarray(sigma, np.float64)
    if weights is not None and weights.shape not in ((), y.shape, (y.size, y.size)):
        raise ShapeError(f"curve_fit of {describe(model)}: sigma has shape {weights.shape} for data of shape {y.shape}",
                         find_user_location())
    is_matrix = weights is not None and weights.shape == (y.size, y.size) and weights.shape != y.shape
    if is_matrix:
        weights = scipy_linalg.solve_triangular(np.linalg.cholesky(weights), np.eye(y.size), lower=True)
    elif weights is not None:
        weights = 1.0 / weights
    residuals = kept(model, ("fit.curve_fit", weights is None, is_matrix), lambda: _residuals(model, weights is None, is_matrix))
    found = least_squares(residuals, params, (xdata, y, 1.0 if weights is None else weights), bounds=bounds,
                          method=method or ("lm" if bounds is None and y.size >= _Parameters(params, "curve_fit").vector.size else "trf"),
                          **options)
    if not found.success:
        raise RuntimeError(f"curve_fit of {describe(model)}: {found.message}")
    return found.params, _unscaled(found) if absolute_sigma else found.covariance


def _check_model(model: Function, params: Any, options: dict[str, Any]) -> None:
    """Raise `ArgumentError` for a model of SciPy's form, with a parameter after the other."""
    what = f"curve_fit of {describe(model)}"
    if params is None:
        raise ArgumentError(f"{what}: it has no parameters to start from", find_user_location(),
                            hint="params=, in place of SciPy's p0: a tree, which the model gets as model(xdata, params)" if "p0" in options
                            else "curve_fit(model, xdata, ydata, params): a tree, which the model gets as model(xdata, params)")
    try:
        inspect.signature(model).bind(None, None)
    except TypeError:
        raise ArgumentError(f"{what}: it does not take (xdata, params)", find_user_location(),
                            hint="for a model of SciPy's: lambda x, p: model(x, *p)") from None
    except ValueError:      # a callable without a signature
        pass


def _residuals(model: Function, unweighted: bool, is_matrix: bool) -> Function:
    """Weighted residuals of a model, as a function of its parameters."""
    @functools.wraps(model)
    def residuals(params: Any, x: Any, y: Any, weights: Any) -> Any:
        left = model(x, params) - y
        return left if unweighted else weights @ np.ravel(left) if is_matrix else weights * left

    return residuals
