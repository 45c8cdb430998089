"""Systems of equations, triangular systems, determinants and norms of `numpy.linalg`, for traced arrays and tensors."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from adjit.ir.errors import ShapeError, TraceError
from adjit.ir.lazy_module import LazyModule
from adjit.ir.types import F64, is_inexact
from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.array_checks import as_content
from adjit.tracer.array_wrapper import ArrayWrapper, find_wrapper
from adjit.tracer.caught_errors import is_caught
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions.composites import vector_norm
from adjit.tracer.functions.creation import eye
from adjit.tracer.functions.shapes import normalize_axes
from adjit.tracer.registry import FUNCTIONS, Function
from adjit.tracer.trace import is_tracing
from adjit.tracer.user_location import find_user_location

if TYPE_CHECKING:
    from adjit.linalg import decompositions, failures, rules
else:
    failures = LazyModule("adjit.linalg.failures")
    decompositions = LazyModule("adjit.linalg.decompositions")
    rules = LazyModule("adjit.linalg.rules")


P = ParamSpec("P")


_RAISING: dict[Any, str] = {np.linalg.cholesky: "Matrix is not positive definite", np.linalg.solve: "Singular matrix",
                            np.linalg.inv: "Singular matrix"}
"""Functions that raise `LinAlgError` where a program gives NaN or infinity."""


def _is_true(x: Any) -> bool:
    """False in the body of a loop, where values differ from run to run: a failure there is NaN, whatever the function catches."""
    try:
        return bool(x)
    except TraceError:
        return False


_PYTORCHS_NAMES = {"dim": "axis", "dims": "axes", "keepdim": "keepdims"}


def stands_for(numpy_function: Function, *keywords: str, **of_tensors: Any) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Register a function as adjit's for NumPy's; plain arrays outside of a trace still go to NumPy's.

    PyTorch's `dim`, `dims` and `keepdim` are NumPy's `axis`, `axes` and `keepdims`. `keywords` are parameters that NumPy takes by name
    only, in the order in which PyTorch takes them after the first; `of_tensors` are PyTorch's defaults where NumPy's are others.
    """

    def register(function: Callable[P, Any]) -> Callable[P, Any]:
        within = dispatched(function, numpys=numpy_function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            if kwargs and not _PYTORCHS_NAMES.keys().isdisjoint(kwargs):
                kwargs = {_PYTORCHS_NAMES.get(name, name): argument for name, argument in kwargs.items()}     # type: ignore[assignment]
            wrapper = find_wrapper(args, kwargs)
            if wrapper is not None and of_tensors:
                kwargs = {**of_tensors, **kwargs}       # type: ignore[assignment]
            if not is_tracing() and wrapper is None:
                if keywords and len(args) > 1:
                    return numpy_function(args[0], **dict(zip(keywords, args[1:], strict=False)), **kwargs)
                return numpy_function(*args, **kwargs)
            result: Any = within(*args, **kwargs)
            if numpy_function in _RAISING and isinstance(result, ArrayWrapper) and not is_tracing():
                failures.check_factored(numpy_function, as_content(args[0].array if isinstance(args[0], ArrayWrapper) else args[0]),
                                        result.array, bool(kwargs.get("upper")))
            if numpy_function in _RAISING and isinstance(result, TracedArray) and is_caught(np.linalg.LinAlgError):
                given = [as_traced(x) for x in (*args, *kwargs.values()) if not isinstance(x, (bool, str))]
                failed = ~np.all(np.isfinite(result)) & np.all(np.stack([np.all(np.isfinite(x)) for x in given]))
                if _is_true(failed):
                    raise np.linalg.LinAlgError(_RAISING[numpy_function])
            return result

        FUNCTIONS[numpy_function] = call
        return call

    return register


@stands_for(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """Equivalent of `numpy.linalg.cholesky`: L of a = L L^T, for matrices [..., n, n]. In a trace NaN if `a` is not positive definite.

    Raises `ShapeError` for matrices that are not square. The derivative is the derivative in a symmetric matrix.

    >>> import numpy as np
    >>> cholesky(np.array([[4.0, 2.0], [2.0, 2.0]]))
    array([[2., 0.],
           [1., 1.]])
    """
    factor = rules.lower_factor(_transposed(square(a, "cholesky")) if upper else square(a, "cholesky"))
    return _transposed(factor) if upper else factor


@stands_for(np.linalg.solve)
def solve(a: Any, b: Any, *, left: bool = True) -> Any:
    """Equivalent of `numpy.linalg.solve`: x of a @ x = b. In a trace it is NaN or infinite where `a` is singular.

    With `left=False`, as PyTorch has it, x of x @ a = b, for traced arrays and tensors.

    `b` is a vector if it has one dimension, else matrices [..., n, k]. Raises `ShapeError` if the shapes do not fit.

    >>> import numpy as np
    >>> solve(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([2.0, 3.0]))
    array([1., 2.])
    """
    if not left:
        return _transposed(solve(_transposed(as_traced(a)), _transposed(as_traced(b))))
    a, b = _common(square(a, "solve"), b)
    return _solved("solve", a, b, lambda a, b: rules.factored(a).solve(b))


def solve_triangular(a: Any, b: Any, trans: int | str = 0, lower: bool = False, *, upper: bool | None = None, left: bool = True,
                     unitriangular: bool = False) -> Any:
    """Equivalent of `scipy.linalg.solve_triangular`: x of a @ x = b (of a.T @ x = b with `trans` 1 or "T"); only one triangle of `a` is
    read. Also for stacks of matrices; `b` is as in `solve`.

    PyTorch's arguments: `upper`, the opposite of `lower`; `left=False` for x @ a = b; `unitriangular` for a diagonal of ones.

    >>> import numpy as np
    >>> solve_triangular(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([2.0, 3.0]), lower=True)
    array([1., 2.])
    """
    if trans not in (0, 1, "N", "T"):
        raise ValueError(f"solve_triangular: trans is 0, 1, 'N' or 'T', got {trans!r}")
    turned = trans in (1, "T")
    lower = lower if upper is None else not upper
    if unitriangular:
        diagonal = np.eye(a.shape[-1], dtype=bool)
        a = np.where(diagonal, np.asarray(1, a.dtype), a)
    if not left:
        return _transposed(solve_triangular(_transposed(a), _transposed(b), trans, not lower))
    if not is_tracing() and find_wrapper((a, b), {}) is None:
        triangle = np.tril(a) if lower else np.triu(a)
        return np.linalg.solve(_transposed(triangle) if turned else triangle, b)
    return _solve_triangular(a, b, turned, lower)


@dispatched
def _solve_triangular(a: Any, b: Any, turned: bool, lower: bool) -> Any:
    a, b = _common(square(a, "solve_triangular"), b)
    if lower:
        return _solved("solve_triangular", a, b, lambda a, b: rules.triangular_solve(a, b, turned))
    return _solved("solve_triangular", _transposed(a), b, lambda a, b: rules.triangular_solve(a, b, not turned))


@stands_for(np.linalg.inv)
def inv(a: Any) -> Any:
    """Equivalent of `numpy.linalg.inv`. In a trace it is NaN or infinite where `a` is singular.

    >>> import numpy as np
    >>> inv(np.array([[2.0, 0.0], [0.0, 4.0]]))
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    a = square(a, "inv")
    return rules.factored(a).inverse() if a.size else a


@stands_for(np.linalg.det)
def det(a: Any) -> Any:
    """Equivalent of `numpy.linalg.det`. The derivatives of singular matrices are right up to the second order; without SciPy they are
    NaN or infinite.

    >>> import numpy as np
    >>> round(float(det(np.array([[2.0, 1.0], [0.0, 4.0]]))), 9)
    8.0
    """
    a = square(a, "det")
    return rules.factored(a).det() if a.size else np.prod(a, axis=(-2, -1))


@stands_for(np.linalg.slogdet)
def slogdet(a: Any) -> Any:
    """Equivalent of `numpy.linalg.slogdet`: the sign of the determinant, and the logarithm of its absolute value.

    >>> import numpy as np
    >>> sign, logarithm = slogdet(np.array([[2.0, 1.0], [0.0, 4.0]]))
    >>> float(sign), round(float(np.exp(logarithm)), 9)
    (1.0, 8.0)
    """
    a = square(a, "slogdet")
    pair: Any = type(np.linalg.slogdet(np.eye(1)))     # NumPy's named tuple
    if not a.size:
        return pair(np.prod(a, axis=(-2, -1)), np.real(np.sum(a, axis=(-2, -1))))
    factored = rules.factored(a)
    return pair(factored.sign(), factored.log_abs_det())


@stands_for(np.linalg.matrix_power)
def matrix_power(a: Any, n: int) -> Any:
    """Equivalent of `numpy.linalg.matrix_power`.

    >>> import numpy as np
    >>> matrix_power(np.array([[1.0, 1.0], [0.0, 1.0]]), 5)
    array([[1., 5.],
           [0., 1.]])
    """
    n = operator.index(n)
    base: Any = inv(a) if n < 0 else _as_square(as_traced(a), "matrix_power")     # powers of integers are integers
    power: Any = None
    n = abs(n)
    while n:
        if n % 2:
            power = base if power is None else power @ base
        base, n = base @ base if n > 1 else base, n // 2
    return np.copy(np.broadcast_to(eye(base.shape[-1], dtype=base.dtype), base.shape)) if power is None else power


@stands_for(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Equivalent of `numpy.linalg.norm`, for every `ord`; matrix norms from singular values (`ord` 2, -2 and "nuc") need SciPy. The
    derivative of a norm of 0 is 0. `axis` and `keepdims` may be named `dim` and `keepdim`.

    >>> import numpy as np
    >>> float(norm(np.array([3.0, 4.0])))
    5.0
    """
    x = floating(x)
    axes = normalize_axes(tuple(axis) if isinstance(axis, list) else axis, x.ndim)
    if axis is None and ord is not None and x.ndim not in (1, 2):
        raise ShapeError(f"norm: an array of shape {x.shape} with ord={ord!r} is neither a vector nor a matrix", find_user_location(),
                         hint="give axis=: one axis for vectors, two for matrices")
    if ord is None or (len(axes) == 2 and ord in ("fro", "f")):
        return vector_norm(x, 2, axes, keepdims)
    if len(axes) == 1:
        if not isinstance(ord, (int, float)):
            raise ValueError(f"norm: ord={ord!r} is no norm of a vector")
        return vector_norm(x, ord, axes, keepdims)
    if len(axes) == 2 and ord in (1, -1, math.inf, -math.inf):
        sums, largest = axes if abs(ord) == 1 else axes[::-1]
        result = (_largest if ord > 0 else np.min)(np.sum(np.abs(x), axis=sums, keepdims=True), axis=largest, keepdims=True)
        return result if keepdims else np.squeeze(result, axis=axes)[()]
    if len(axes) == 2 and ord in (2, -2, "nuc"):
        s = decompositions.svdvals(np.moveaxis(x, axes, (-2, -1)))
        result = np.sum(s, axis=-1) if ord == "nuc" else _largest(s, axis=-1) if ord == 2 else np.min(s, axis=-1)
        return np.expand_dims(result, tuple(sorted(axes))) if keepdims else result
    raise ValueError(f"norm: ord={ord!r} is no norm of {'a vector' if len(axes) == 1 else 'a matrix'}")


def _largest(x: Any, axis: int, keepdims: bool = False) -> Any:
    """The largest of numbers that are not negative, 0 if there are none."""
    return np.max(x, axis=axis, keepdims=keepdims) if x.shape[axis] else np.sum(x, axis=axis, keepdims=keepdims)


def floating(x: Any) -> TracedArray:
    """The array in its dtype if that is a float, else as float64."""
    array = as_traced(x)
    if is_inexact(array.dtype):
        return array
    converted: TracedArray = array.astype(F64)
    return converted


def square(a: Any, name: str) -> TracedArray:
    """A stack of square matrices of floats. Raises `ShapeError` for another shape."""
    return _as_square(floating(a), name)


def _as_square(array: TracedArray, name: str) -> TracedArray:
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ShapeError(f"{name}: the shape {array.shape} is not a shape of square matrices, (..., n, n)\n    {array._origin()}",
                         find_user_location())
    return array


def _common(a: TracedArray, b: Any) -> tuple[TracedArray, TracedArray]:
    """Convert both to the wider of the two dtypes."""
    b = floating(b)
    dtype = np.result_type(a.dtype, b.dtype)
    return a.astype(dtype), b.astype(dtype)


def _solved(name: str, a: TracedArray, b: TracedArray, solver: Callable[[Any, Any], Any]) -> Any:
    """Apply `solver` to matrices with equal stacks."""
    vector = b.ndim == 1
    right: Any = b[:, None] if vector else b
    if not b.ndim or right.shape[-2] != a.shape[-1]:
        raise ShapeError(f"{name}: matrices {a.shape} do not fit to a right-hand side of shape {b.shape}"
                         f"\n    operand 1: {a._origin()}\n    operand 2: {b._origin()}", find_user_location(),
                         hint="b is a vector where it has one dimension, else (..., n, k)")
    try:
        stack = np.broadcast_shapes(a.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ShapeError(f"{name}: the stacks of {a.shape} and {b.shape} cannot be broadcast together", find_user_location()) from None
    right = np.broadcast_to(right, (*stack, *right.shape[-2:]))
    right = solver(np.broadcast_to(a, (*stack, *a.shape[-2:])), right) if right.size else np.copy(right)
    return right[..., 0] if vector else right


def _transposed(a: Any) -> Any:
    return np.swapaxes(a, -2, -1)
