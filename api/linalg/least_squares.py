"""Least squares and pseudoinverses: by singular values, or without LAPACK by orthonormal columns, for matrices of full rank."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from adjit.ir.errors import ArgumentError, UnsupportedError
from adjit.ir.types import real_dtype
from adjit.linalg import rules
from adjit.linalg.decompositions import svd, svdvals
from adjit.linalg.functions import floating as as_float
from adjit.linalg.functions import norm, solve_triangular, stands_for
from adjit.runtime.transforms import stop_gradient
from adjit.tracer.array import TracedArray, known_true
from adjit.tracer.functions.creation import zeros
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location


def _inverted(s: Any, bound: Any) -> Any:
    """1 / s of the singular values above the bound, 0 of others."""
    large = s > bound
    return np.where(large, 1.0 / np.where(large, s, 1.0), 0.0)


@rules.pure_vjp
def _pseudoinverse(a: Any, bound: Any, hermitian: bool) -> Any:
    """Pseudoinverse of a tall or Hermitian matrix, singular values up to `bound` times the largest one left out."""
    u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
    inverted = _inverted(s, bound * np.max(s, axis=-1, keepdims=True))
    return (rules.adjoint(vh) * inverted[..., None, :]) @ rules.adjoint(u)


def _pseudoinverse_forward(a: Any, bound: Any, hermitian: bool) -> tuple[Any, Any]:
    p = _pseudoinverse(a, bound, hermitian)
    return p, (a, bound, hermitian, p)


def _pseudoinverse_backward(residuals: Any, cotangent: Any) -> tuple[Any, None, None]:
    """Of dP = -P dA P + Rᴴ with R = Pᴴ P dA (1 - P A) + (1 - A P) dA P Pᴴ, where nothing is left out but zeros: the rank is constant then
    (Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose variables separate", 1973).

    A matrix C = A - A P A that is left out turns the vectors that are kept. P is an odd function of singular values, 1 / s or 0, so what
    mixes a kept value s and another one t has quotients of differences (Daleckii and Krein) of the values s, -s, t, -t: R / s² becomes
    (R + Rᴴ t / s) / (s² - t²), which is the X of X - Pᴴ Xᴴ C - C Xᴴ Pᴴ = R.
    """
    a, bound, hermitian, p = residuals
    turned, projector = rules.adjoint(cotangent), p @ a
    inner = p @ turned
    found = (turned - a @ inner) @ (p @ rules.adjoint(p)) + rules.adjoint(p) @ (inner - inner @ projector - rules.adjoint(inner))
    return _turned(a, bound, hermitian, p, a - a @ projector, found), None, None


_pseudoinverse.defvjp(_pseudoinverse_forward, _pseudoinverse_backward)


@rules.pure_vjp
def _turned(a: Any, bound: Any, hermitian: bool, p: Any, c: Any, r: Any) -> Any:
    """X of X - Pᴴ Xᴴ C - C Xᴴ Pᴴ = R, for the pseudoinverse P of A and what it leaves out, C. By the singular vectors of A, in which it is
    a pair of equations for each kept value and each other one. X is R, to the bit, where C is 0."""
    u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
    kept = s > bound * np.max(s, axis=-1, keepdims=True)
    pairs = kept[..., :, None] & ~kept[..., None, :]
    high, low = np.where(kept, s, 1.0)[..., :, None], np.where(kept, 0.0, s)[..., None, :]
    ratio = np.where(pairs, low / high, 0.0)
    weight = ratio / np.where(pairs, (high - low) / high * (1.0 + ratio), 1.0)
    ratio, weight = ratio + _t(ratio), weight + _t(weight)
    inside = rules.adjoint(u) @ r @ rules.adjoint(vh)
    return r + u @ (weight * (ratio * inside + rules.adjoint(inside))) @ vh


def _turned_forward(a: Any, bound: Any, hermitian: bool, p: Any, c: Any, r: Any) -> tuple[Any, Any]:
    x = _turned(a, bound, hermitian, p, c, r)
    return x, (a, bound, hermitian, p, c, x)


def _turned_backward(residuals: Any, cotangent: Any) -> tuple[Any, ...]:
    """The equations are symmetric; A counts as constant, as factors of a system do."""
    a, bound, hermitian, p, c, x = residuals
    y = _turned(a, bound, hermitian, p, c, cotangent)
    left_out = rules.adjoint(c)
    of_p = rules.adjoint(x @ (left_out @ y) + y @ (left_out @ x))
    return None, None, None, of_p, x @ (p @ y) + y @ (p @ x), y


_turned.defvjp(_turned_forward, _turned_backward)


def _t(a: Any) -> Any:
    return np.swapaxes(a, -2, -1)


def _pseudoinverse_of(a: Any, bound: Any) -> Any:
    return _t(_pseudoinverse(_t(a), bound, False)) if a.shape[-2] < a.shape[-1] else _pseudoinverse(a, bound, False)


def _bound(a: Any, rcond: Any, default: float) -> Any:
    """The tolerance for singular values, relative to the largest one, as an array [*stack, 1]."""
    dtype = real_dtype(a.dtype)
    bound = np.asarray(default, dtype) if rcond is None else stop_gradient(as_float(rcond)).astype(dtype)
    return np.broadcast_to(bound[..., None], (*a.shape[:-2], 1))


def _default_bound(a: Any) -> float:
    return max(a.shape[-2:]) * float(np.finfo(a.dtype).eps)


@stands_for(np.linalg.pinv, rtol=None)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = 1e-15, atol: Any = None) -> Any:
    """Equivalent of `numpy.linalg.pinv`. The derivative is that for a constant number of singular values above the bound.

    Of arrays `rtol`, or `rcond`, is 1e-15, as in NumPy; None, the default of tensors, is eps * max(m, n), as in PyTorch. `atol` is a bound
    that does not depend on the largest singular value: the larger one of the two counts, or `atol` alone where only that is given.

    Without SciPy, and in libraries for C, it is for one matrix of full rank; without full rank the result is NaN or infinite.

    >>> import numpy as np
    >>> np.round(pinv(np.array([[2.0], [0.0]])), 9)
    array([[0.5, 0. ]])
    """
    x = as_float(a)
    if rcond is not None and not (rtol is None or (isinstance(rtol, float) and rtol == 1e-15)):
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if rules.by_lapack(x):
        if not x.size:
            return zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
        rtol = rtol if rcond is None else rcond
        is_default = rtol is None or (isinstance(rtol, float) and rtol == 1e-15)
        bound = _bound(x, 0.0 if atol is not None and is_default else rtol, _default_bound(x))
        if atol is not None:
            largest = np.max(svdvals(stop_gradient(x)), axis=-1, keepdims=True)
            bound = np.maximum(bound, np.where(largest > 0, _bound(x, atol, 0.0) / np.where(largest > 0, largest, 1.0), 0.0))
        if hermitian:
            return _pseudoinverse(rules.hermitian(rules.from_triangle(x), lower=True), bound, True)
        return _pseudoinverse_of(x, bound)
    if x.ndim != 2:
        raise UnsupportedError("pinv of several matrices without LAPACK", find_user_location(), hint="call it for one after the other")
    wide = x.shape[0] < x.shape[1]
    q, r = qr_of(x.T if wide else x)
    result = solve_triangular(r, rules.adjoint(q), lower=False)
    return result.T if wide else result


@stands_for(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """Equivalent of `numpy.linalg.lstsq`. The derivative of the solution is that for a constant rank.

    Whether there are sums of squared residuals depends on the rank: a decision on values, which the program guards. Where a program cannot
    decide on values (in `vmap`, bodies of loops and branches) they are there for any rank, where there are more equations than unknowns.

    Without SciPy, and in libraries for C, it is for matrices of full rank that are not wide: the rank is taken to be full, and the singular
    values are missing (None).

    >>> import numpy as np
    >>> np.round(lstsq(np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), np.array([1.0, 4.0, 3.0]))[0], 9)
    array([1., 2.])
    """
    solution, squares, rank, s = _least_squares(a, b, rcond)
    below = not isinstance(rank, int) and squares.size > 0 and known_true(rank < solution.shape[0])
    return LeastSquares(solution, squares[:0] if below else squares, rank, s)


class LeastSquares(NamedTuple):
    """Result of `lstsq`."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


def _least_squares(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any, Any]:
    """Solution, sums of squared residuals if there are more equations than unknowns, rank and singular values."""
    x, y = as_float(a), as_float(b)
    if x.ndim != 2 or y.ndim not in (1, 2) or x.shape[0] != y.shape[0]:
        raise np.linalg.LinAlgError(f"Incompatible dimensions {x.shape} and {y.shape}")
    rows, count = x.shape
    dtype = np.result_type(x.dtype, y.dtype)
    x, y = FUNCTIONS["astype"](x, dtype), FUNCTIONS["astype"](y, dtype)
    rank: Any = count
    s: Any = None
    if not rules.by_lapack(x):
        if rows < count or not count:
            raise UnsupportedError(f"lstsq of {rows} equations with {count} unknowns without LAPACK", find_user_location(),
                                   hint="as many equations as unknowns, or more, are supported; pip install scipy for others")
        q, r = qr_of(x)
        solution = solve_triangular(r, FUNCTIONS[np.matmul](q.T, y), lower=False)
    elif not x.size:
        solution, rank, s = zeros((count, *y.shape[1:]), dtype), np.int32(0), zeros((0,), real_dtype(dtype))
    else:
        exact = rcond is not None and isinstance(rcond, (int, float)) and rcond < 0
        bound = _bound(x, float(np.finfo(dtype).eps) if exact else rcond, _default_bound(x))
        solution = FUNCTIONS[np.matmul](_pseudoinverse_of(x, bound), y)
        s = svd(x, full_matrices=False).S
        rank = np.sum(stop_gradient(s) > bound * np.max(stop_gradient(s))).astype(np.int32)
    residual = y - FUNCTIONS[np.matmul](x, solution)
    squares = FUNCTIONS[np.sum](FUNCTIONS[np.square](np.abs(residual) if residual.dtype.kind == "c" else residual), axis=0)
    left = FUNCTIONS[np.atleast_1d](squares) if rows > count else zeros((0,), real_dtype(dtype))
    return solution, left, rank, s


def qr_of(a: TracedArray) -> tuple[TracedArray, TracedArray]:
    """Orthonormal columns and triangle of a tall matrix of full rank: Gram and Schmidt, each column twice, which is exact to
    rounding."""
    columns: list[TracedArray] = []
    rows: list[TracedArray] = []
    stack, zeros, matmul = FUNCTIONS[np.stack], FUNCTIONS[np.zeros_like], FUNCTIONS[np.matmul]
    for j in range(a.shape[1]):
        column = a[:, j]
        if columns:
            q = stack(columns, axis=1)
            first = matmul(column, q)
            column = column - matmul(q, first)
            second = matmul(column, q)
            column = column - matmul(q, second)
            above = first + second
        else:
            above = zeros(column)[:0]
        length = norm(column)
        columns.append(column / length)
        rows.append(FUNCTIONS[np.concatenate]([above, length[None], zeros(a, shape=(a.shape[1] - j - 1,))]))
    return stack(columns, axis=1), stack(rows, axis=1)


@stands_for(np.polyfit)
def polyfit(x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False) -> Any:
    """Equivalent of `numpy.polyfit`."""
    points, values = as_float(x) + 0.0, as_float(y) + 0.0
    if operator.index(deg) < 0:
        raise ArgumentError("polyfit: expected deg >= 0", find_user_location())
    if not points.size:
        raise TypeError("expected non-empty vector for x")
    if points.ndim == 1 and values.shape[:1] != points.shape:
        raise TypeError("expected x and y to have same length")
    matrix = FUNCTIONS[np.vander](points, operator.index(deg) + 1)
    if w is not None:
        weights = as_float(w)
        matrix = matrix * weights[:, None]
        values = values * (weights[:, None] if values.ndim == 2 else weights)
    scale = FUNCTIONS[np.sqrt](FUNCTIONS[np.sum](matrix * matrix, axis=0))
    scaled = matrix / scale
    if full and rcond is None:
        rcond = points.size * np.finfo(points.dtype).eps
    solution, squares, rank, singular = (lstsq if full else _least_squares)(scaled, values, rcond)
    coefficients = (solution.T / scale).T
    if full:
        if singular is None:
            raise UnsupportedError("polyfit(full=True)", find_user_location(), hint="cov=True gives the covariances of the coefficients")
        return coefficients, squares, rank, singular, rcond
    if not cov:
        return coefficients
    covariance = FUNCTIONS[np.linalg.inv](FUNCTIONS[np.matmul](scaled.T, scaled)) / FUNCTIONS[np.outer](scale, scale)
    if cov == "unscaled":
        return coefficients, covariance[:, :, None] if values.ndim > 1 else covariance
    free = points.size - matrix.shape[1]
    if free <= 0:
        raise ValueError("the number of data points must exceed order to scale the covariance matrix")
    factor = squares / free
    return coefficients, covariance * factor[0] if values.ndim == 1 else covariance[:, :, None] * factor
