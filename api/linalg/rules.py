"""Cholesky factors, triangular and general systems, logarithms of determinants: by LAPACK where SciPy is there, else by blocks of our own.

Rules of the blocks are written in the same functions, so that derivatives up to the third order reuse the factors; LAPACK's ops have rules
of their own (`ir/ops/factors.py`), for any order.

Rules after Giles, "An extended collection of matrix derivative results for forward and reverse mode algorithmic differentiation", 2008.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.thread_context import thread
from adjit.ir.types import is_inexact
from adjit.linalg.factorizations import cholesky_factor, lu_factors, substitute
from adjit.linalg.failures import watched
from adjit.runtime.control_flow import while_loop
from adjit.runtime.custom_vjp import MAX_ORDER, custom_vjp
from adjit.runtime.transforms import stop_gradient, vjp
from adjit.tracer.array import wrap
from adjit.tracer.functions.creation import arange, eye
from adjit.tracer.libraries import has_lapack
from adjit.tracer.region_trace import inlined_once_traced


def pure_vjp(fun: Callable[..., Any]) -> custom_vjp[..., Any]:
    """`custom_vjp` of a function that reads nothing besides its arguments, nor does its rule: a program traces both once for each type."""
    made = custom_vjp(fun)
    made.pure = True
    return made


def by_lapack(a: Any) -> bool:
    """True if LAPACK does the work for such matrices."""
    return has_lapack() and is_inexact(a.dtype)


def lower_factor(a: Any) -> Any:
    """Cholesky factor; the derivative is that of a symmetric matrix, shared equally between both triangles."""
    if not a.shape[-1]:
        return np.copy(a)
    return wrap(ops.cholesky(watched(from_triangle(a), "potrf").value)) if by_lapack(a) else _lower_factor(a)


@pure_vjp
def from_triangle(a: Any) -> Any:
    """A matrix of which one triangle is read. The derivative in this triangle is shared equally between both."""
    return a


from_triangle.defvjp(lambda a: (from_triangle(a), None), lambda _, cotangent: (0.5 * (cotangent + adjoint(cotangent)),))


def hermitian(a: Any, lower: bool) -> Any:
    """Matrix of which one triangle is given, and the real parts of the diagonal."""
    diagonal = np.real(np.where(np.eye(a.shape[-1], dtype=bool), a, np.zeros_like(a)))
    half = np.tril(a, -1) if lower else np.triu(a, 1)
    return half + adjoint(half) + diagonal


@pure_vjp
def _lower_factor(a: Any) -> Any:
    return cholesky_factor(a)


def _lower_factor_forward(a: Any) -> tuple[Any, Any]:
    factor = _lower_factor(a)
    return factor, factor


def _lower_factor_backward(factor: Any, cotangent: Any) -> tuple[Any]:
    conjugate = np.conjugate(factor)
    inner = np.tril(_t(conjugate) @ cotangent)
    diagonal = eye(inner.shape[-1], dtype=inner.dtype)
    inner = inner - 0.5 * inner * diagonal
    if np.iscomplexobj(inner):      # the diagonal of the factor is real
        inner = inner - 1j * np.imag(inner) * diagonal
    left = _triangular_solve(conjugate, inner, True)
    both = _triangular_solve(conjugate, np.conjugate(_t(left)), True)
    return (0.5 * (both + np.conjugate(_t(both))),)


_lower_factor.defvjp(_lower_factor_forward, _lower_factor_backward)


def triangular_solve(lower: Any, b: Any, transposed: bool) -> Any:
    """x of `lower @ x = b`, or of `lower^T @ x = b`; only the lower triangle counts."""
    if by_lapack(lower):
        return wrap(ops.triangular_solve(lower.value, b.value, lower=True, transpose=transposed, unit=False))
    return _triangular_solve(lower, b, transposed)


@pure_vjp
def _triangular_solve(lower: Any, b: Any, transposed: bool) -> Any:
    return substitute(lower, b, transposed)


def _triangular_forward(lower: Any, b: Any, transposed: bool) -> tuple[Any, Any]:
    x = _triangular_solve(lower, b, transposed)
    return x, (lower, x, transposed)


def _triangular_backward(residuals: Any, cotangent: Any) -> tuple[Any, Any, None]:
    lower, x, transposed = residuals
    of_b = _triangular_solve(np.conjugate(lower), cotangent, not transposed)
    return np.tril(-_outer(x, of_b, transposed)), of_b, None


def _outer(x: Any, of_b: Any, transposed: bool) -> Any:
    """Minus the cotangent of the matrix of `a @ x = b`, or of `a^T @ x = b`."""
    return np.conjugate(x) @ _t(of_b) if transposed else of_b @ np.conjugate(_t(x))


_triangular_solve.defvjp(_triangular_forward, _triangular_backward)


def factored(a: Any) -> Factored | LapackFactored:
    """A matrix with its LU factors."""
    return LapackFactored(a) if by_lapack(a) else Factored(a)


class LapackFactored:
    """Matrix with the LU factors of LAPACK, which count as constants."""

    def __init__(self, a: Any):
        self.a = a = watched(a, "getrf")
        known = stop_gradient(a)
        self.factors, self.pivots, self.order = map(wrap, ops.lu.emit(known.value))

    def solve(self, b: Any) -> Any:
        """x of `a @ x = b`."""
        return wrap(ops.lu_solve(self.a.value, self.factors.value, self.order.value, b.value, transpose=False))

    def inverse(self) -> Any:
        """The inverse of the matrix."""
        return _t(_lu_inverse(self.factors, self.pivots, self.a))

    def log_abs_det(self) -> Any:
        """log(abs(det(a)))."""
        return _lu_log_abs_det(self.factors, self.pivots, self.a)

    def det(self) -> Any:
        """The determinant."""
        return _lu_det(self.factors, self.pivots, self.a)

    def sign(self) -> Any:
        """-1, 0 or 1: the sign of the determinant; of a complex one, its direction."""
        sign = stop_gradient(np.prod(np.sign(_diagonal(self.factors)), axis=-1) * _parity_of_swaps(self.pivots, self.a.dtype))
        return sign * np.exp(1j * _lu_turn(self.factors, self.pivots, self.a)) if np.iscomplexobj(sign) else sign


def _lu_inverse(factors: Any, pivots: Any, a: Any) -> Any:
    """The transposed inverse."""
    return wrap(ops.lu_inverse(a.value, factors.value, pivots.value))


def _differentiable(factors: Any, a: Any) -> Any:
    """LU factors: constants, as long as a rule has the derivative in the matrix; beyond its orders the op's results, with the op's rule."""
    return wrap(ops.lu.emit(a.value)[0]) if thread.context.order >= MAX_ORDER else factors


@pure_vjp
def _lu_log_abs_det(factors: Any, pivots: Any, a: Any) -> Any:
    return np.sum(np.log(np.abs(_diagonal(_differentiable(factors, a)))), axis=-1)


_lu_log_abs_det.defvjp(
    lambda *given: (_lu_log_abs_det(*given), given),
    lambda given, cotangent: (None, None, cotangent[..., None, None] * np.conjugate(_lu_inverse(*given))))


@pure_vjp
def _lu_turn(factors: Any, pivots: Any, a: Any) -> Any:
    """0, with the derivative of the angle of a complex determinant."""
    angle = np.sum(np.angle(_diagonal(_differentiable(factors, a))), axis=-1)
    return angle - stop_gradient(angle)


_lu_turn.defvjp(
    lambda *given: (_lu_turn(*given), given),
    lambda given, cotangent: (None, None, 1j * cotangent[..., None, None] * np.conjugate(_lu_inverse(*given))))


@pure_vjp
def _lu_det(factors: Any, pivots: Any, a: Any) -> Any:
    return np.prod(_diagonal(_differentiable(factors, a)), axis=-1) * _parity_of_swaps(pivots, a.dtype)


def _lu_det_backward(given: Any, cotangent: Any) -> tuple[Any, ...]:
    return None, None, cotangent[..., None, None] * np.conjugate(_cofactors(*given))


_lu_det.defvjp(lambda *given: (_lu_det(*given), given), _lu_det_backward)


@pure_vjp
def _cofactors(factors: Any, pivots: Any, a: Any) -> Any:
    """The derivative of the determinant, by the inverse: what LU factors are exact for, the product is exact for, however large the inverse
    is, unless a pivot is 0."""
    value = _lu_det(factors, pivots, a)[..., None, None]
    return _by_singular_values(value * _lu_inverse(factors, pivots, a), a, value == 0.0, lambda _, others: others * _identity(a))


def _cofactors_backward(given: Any, cotangent: Any) -> tuple[Any, ...]:
    return None, None, np.conjugate(_cofactors_along(*given, np.conjugate(cotangent)))


_cofactors.defvjp(lambda *given: (_cofactors(*given), given), _cofactors_backward)


@pure_vjp
def _cofactors_along(factors: Any, pivots: Any, a: Any, direction: Any) -> Any:
    """The derivative of the cofactors. In terms of the inverse it is a difference, which has no digits left where the inverse is large."""
    def of_diagonal(moved: Any, others: Any) -> Any:
        one = _identity(a)
        sums = np.sum((1.0 - one) * others * _diagonal(moved)[..., None, :], axis=-1, keepdims=True)
        return one * sums - (1.0 - one) * others * _t(moved)

    found, pivots_found = _cofactors_by_inverse(factors, pivots, a, direction), np.abs(_diagonal(factors))
    largest = np.max(pivots_found, axis=-1, keepdims=True)
    ill = np.any(pivots_found <= float(np.finfo(a.dtype).eps) ** 0.5 * largest, axis=-1, keepdims=True)[..., None]
    return _by_singular_values(found, a, ill, of_diagonal, direction)


def _cofactors_by_inverse(factors: Any, pivots: Any, a: Any, direction: Any) -> Any:
    inverse = _lu_inverse(factors, pivots, a)
    along = np.sum(inverse * direction, axis=(-2, -1), keepdims=True)
    return _lu_det(factors, pivots, a)[..., None, None] * (along * inverse - inverse @ _t(direction) @ inverse)


def _cofactors_along_backward(given: Any, cotangent: Any) -> tuple[Any, ...]:
    factors, pivots, a, direction = given
    of_a = vjp(lambda a: _cofactors_by_inverse(factors, pivots, a, direction), a)[1](cotangent)[0]
    return None, None, of_a, np.conjugate(_cofactors_along(factors, pivots, a, np.conjugate(cotangent)))


_cofactors_along.defvjp(lambda *given: (_cofactors_along(*given), given), _cofactors_along_backward)


def _identity(a: Any) -> Any:
    return eye(a.shape[-1], dtype=a.dtype)


def _by_singular_values(found: Any, a: Any, ill: Any, of_diagonal: Callable[..., Any], direction: Any = None) -> Any:
    """What was found by the inverses of matrices; where they are ill, what singular values give, which is exact for every rank: from
    products of singular values without those of the row and of the column.

    Those are computed if a matrix is ill, by a loop of one round: `vmap` runs it where one of its matrices asks for it."""
    def repaired(state: Any) -> Any:
        pending = state[0]      # without it the work would be moved out of the loop
        chosen: Any = np.where(ill & pending, stop_gradient(a), 0.0)
        values: Any = map(wrap, ops.svd.emit(chosen.value, full=False))
        u, s, vh = values
        one = eye(a.shape[-1], dtype=s.dtype)
        others = _products_of_others(s[..., None, :] * (1.0 - one) + one)
        moved = None if direction is None else adjoint(u) @ stop_gradient(direction) @ adjoint(vh)
        better = factored(u @ vh).det()[..., None, None] * (np.conjugate(u) @ of_diagonal(moved, others) @ np.conjugate(vh))
        return ~pending, np.where(ill, better, state[1])

    better = while_loop(lambda state: state[0], repaired, (np.any(ill), stop_gradient(found)))[1]
    if thread.context.order < MAX_ORDER:
        return better
    return np.where(ill, better + _without_derivative(a)[..., None, None], found)


def _products_of_others(x: Any) -> Any:
    """The product of the elements of each row without one of them, for each of them."""
    one = np.ones_like(x[..., :1])
    before = np.concatenate([one, np.cumprod(x[..., :-1], axis=-1)], axis=-1)
    after = np.concatenate([np.cumprod(x[..., :0:-1], axis=-1)[..., ::-1], one], axis=-1)
    return before * after


def _parity_of_swaps(pivots: Any, dtype: Any) -> Any:
    """1 for an even number of rows that change places with another, -1 for an odd one."""
    return (1 - 2 * (np.sum(pivots != arange(pivots.shape[-1]), axis=-1) % 2)).astype(dtype)


class Factored:
    """Matrix with its LU factors by blocks. The factors count as constants: the rules below are rules of functions of the matrix."""

    def __init__(self, a: Any):
        self.a = a
        lower, upper, order = inlined_once_traced(lu_factors, stop_gradient(a))
        self.factors = lower, upper, order

    def solve(self, b: Any) -> Any:
        """x of `a @ x = b`."""
        return _solve(*self.factors, self.a, b, False)

    def inverse(self) -> Any:
        """The inverse of the matrix."""
        return self.solve(np.broadcast_to(eye(self.a.shape[-1], dtype=self.a.dtype), self.a.shape))

    def log_abs_det(self) -> Any:
        """log(abs(det(a)))."""
        return _log_abs_det(*self.factors, self.a)

    def det(self) -> Any:
        return _det(*self.factors, self.a)

    def sign(self) -> Any:
        """-1, 0 or 1: the sign of the determinant; of a complex one, its direction."""
        sign = stop_gradient(_sign(*self.factors))
        return sign * np.exp(1j * _turn(*self.factors, self.a)) if np.iscomplexobj(sign) else sign


@pure_vjp
def _solve(lower: Any, upper: Any, order: Any, a: Any, b: Any, transposed: bool) -> Any:
    """x of `a @ x = b`, or of `a^T @ x = b`, with a[order] = lower @ upper."""
    if transposed:
        x = _rows(substitute(lower, substitute(_t(upper), b, False), True), np.argsort(order, axis=-1))
    else:
        x = substitute(_t(upper), substitute(lower, _rows(b, order), False), True)
    return x + _without_derivative(a)[..., None, None]


def _solve_forward(lower: Any, upper: Any, order: Any, a: Any, b: Any, transposed: bool) -> tuple[Any, Any]:
    x = _solve(lower, upper, order, a, b, transposed)
    return x, (lower, upper, order, a, x, transposed)


def _solve_backward(residuals: Any, cotangent: Any) -> tuple[Any, ...]:
    lower, upper, order, a, x, transposed = residuals
    of_b = _solve(np.conjugate(lower), np.conjugate(upper), order, np.conjugate(a), cotangent, not transposed)
    return None, None, None, -_outer(x, of_b, transposed), of_b, None


_solve.defvjp(_solve_forward, _solve_backward)


@pure_vjp
def _log_abs_det(lower: Any, upper: Any, order: Any, a: Any) -> Any:
    return np.sum(np.log(np.abs(_diagonal(upper))), axis=-1) + np.real(_without_derivative(a))


def _inverse_transposed(lower: Any, upper: Any, order: Any, a: Any) -> Any:
    unit = np.broadcast_to(eye(a.shape[-1], dtype=a.dtype), a.shape)
    return _solve(lower, upper, order, a, unit, True)


_log_abs_det.defvjp(
    lambda *factored: (_log_abs_det(*factored), factored),
    lambda factored, cotangent: (None, None, None, cotangent[..., None, None] * np.conjugate(_inverse_transposed(*factored))))


@pure_vjp
def _turn(lower: Any, upper: Any, order: Any, a: Any) -> Any:
    """0, with the derivative of the angle of a complex determinant."""
    return np.real(_without_derivative(a))


_turn.defvjp(
    lambda *factored: (_turn(*factored), factored),
    lambda factored, cotangent: (None, None, None, 1j * cotangent[..., None, None] * np.conjugate(_inverse_transposed(*factored))))


@pure_vjp
def _det(lower: Any, upper: Any, order: Any, a: Any) -> Any:
    return np.prod(_diagonal(upper), axis=-1) * _parity(order, a.dtype) + _without_derivative(a)


def _det_forward(*factored: Any) -> tuple[Any, Any]:
    value = _det(*factored)
    return value, (factored, value)


def _det_backward(residuals: Any, cotangent: Any) -> tuple[Any, ...]:
    factored, value = residuals
    return None, None, None, (cotangent * np.conjugate(value))[..., None, None] * np.conjugate(_inverse_transposed(*factored))


_det.defvjp(_det_forward, _det_backward)


def _without_derivative(a: Any) -> Any:
    """0, with the derivative NaN: beyond the orders for which rules are used, functions of constant factors must not seem constant. Also
    for matrices with infinities or NaN, and for matrices whose sum would be infinite."""
    return np.sqrt(np.sum(0.0 * np.where(np.isfinite(a), a, 0.0), axis=(-2, -1)))


def _sign(lower: Any, upper: Any, order: Any) -> Any:
    return np.prod(np.sign(_diagonal(upper)), axis=-1) * _parity(order, upper.dtype)


def _parity(order: Any, dtype: Any) -> Any:
    """1 for an even permutation, -1 for an odd one: by the number of pairs in the wrong order."""
    size = order.shape[-1]
    rows = arange(size)
    wrong = (order[..., :, None] > order[..., None, :]) & (rows[:, None] < rows)
    return (1 - 2 * (np.sum(wrong, axis=(-2, -1)) % 2)).astype(dtype)


def _diagonal(a: Any) -> Any:
    return np.diagonal(a, axis1=-2, axis2=-1)


def _rows(a: Any, order: Any) -> Any:
    return np.take(a, order, axis=0) if a.ndim == 2 else np.take_along_axis(a, order[..., None], axis=-2)


def _t(a: Any) -> Any:
    return np.swapaxes(a, -2, -1)


def adjoint(a: Any) -> Any:
    """The conjugate transpose."""
    return np.conjugate(_t(a))
