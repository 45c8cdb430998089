"""Cholesky factors, triangular and general systems, logarithms of determinants. Each has a derivative rule written in the same functions,
so that derivatives up to the third order reuse the factors.

Rules after Giles, "An extended collection of matrix derivative results for forward and reverse mode algorithmic differentiation", 2008.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.linalg.factorizations import cholesky_factor, lu_factors, substitute
from adjit.runtime.custom_vjp import custom_vjp
from adjit.runtime.transforms import stop_gradient
from adjit.tracer.functions.creation import arange, eye
from adjit.tracer.trace import inlined_once_traced


def pure_vjp(fun: Callable[..., Any]) -> custom_vjp[..., Any]:
    """`custom_vjp` of a function that reads nothing besides its arguments, nor does its rule: a program traces both once for each type."""
    made = custom_vjp(fun)
    made.pure = True
    return made


@pure_vjp
def lower_factor(a: Any) -> Any:
    """Cholesky factor; the derivative is that of a symmetric matrix, shared equally between both triangles."""
    return cholesky_factor(a)


def _lower_factor_forward(a: Any) -> tuple[Any, Any]:
    factor = lower_factor(a)
    return factor, factor


def _lower_factor_backward(factor: Any, cotangent: Any) -> tuple[Any]:
    inner = np.tril(_t(factor) @ cotangent)
    inner = inner - 0.5 * inner * eye(inner.shape[-1], dtype=inner.dtype)
    left = triangular_solve(factor, inner, True)
    both = triangular_solve(factor, _t(left), True)
    return (0.5 * (both + _t(both)),)


lower_factor.defvjp(_lower_factor_forward, _lower_factor_backward)


@pure_vjp
def triangular_solve(lower: Any, b: Any, transposed: bool) -> Any:
    """x of `lower @ x = b`, or of `lower^T @ x = b`; only the lower triangle counts."""
    return substitute(lower, b, transposed)


def _triangular_forward(lower: Any, b: Any, transposed: bool) -> tuple[Any, Any]:
    x = triangular_solve(lower, b, transposed)
    return x, (lower, x, transposed)


def _triangular_backward(residuals: Any, cotangent: Any) -> tuple[Any, Any, None]:
    lower, x, transposed = residuals
    of_b = triangular_solve(lower, cotangent, not transposed)
    return np.tril(-(x @ _t(of_b) if transposed else of_b @ _t(x))), of_b, None


triangular_solve.defvjp(_triangular_forward, _triangular_backward)


class Factored:
    """Matrix with its LU factors. The factors count as constants: the rules below are rules of functions of the matrix."""

    def __init__(self, a: Any):
        self.a = a
        lower, upper, order = inlined_once_traced(lu_factors, stop_gradient(a))
        self.factors = lower, upper, order

    def solve(self, b: Any) -> Any:
        """x of `a @ x = b`."""
        return _solve(*self.factors, self.a, b, False)

    def log_abs_det(self) -> Any:
        """log(abs(det(a)))."""
        return _log_abs_det(*self.factors, self.a)

    def det(self) -> Any:
        return _det(*self.factors, self.a)

    def sign(self) -> Any:
        """-1, 0 or 1: the sign of the determinant."""
        return stop_gradient(_sign(*self.factors))


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
    of_b = _solve(lower, upper, order, a, cotangent, not transposed)
    return None, None, None, -(x @ _t(of_b) if transposed else of_b @ _t(x)), of_b, None


_solve.defvjp(_solve_forward, _solve_backward)


@pure_vjp
def _log_abs_det(lower: Any, upper: Any, order: Any, a: Any) -> Any:
    return np.sum(np.log(np.abs(_diagonal(upper))), axis=-1) + _without_derivative(a)


def _inverse_transposed(lower: Any, upper: Any, order: Any, a: Any) -> Any:
    unit = np.broadcast_to(eye(a.shape[-1], dtype=a.dtype), a.shape)
    return _solve(lower, upper, order, a, unit, True)


_log_abs_det.defvjp(
    lambda *factored: (_log_abs_det(*factored), factored),
    lambda factored, cotangent: (None, None, None, cotangent[..., None, None] * _inverse_transposed(*factored)))


@pure_vjp
def _det(lower: Any, upper: Any, order: Any, a: Any) -> Any:
    return np.prod(_diagonal(upper), axis=-1) * _parity(order, a.dtype) + _without_derivative(a)


def _det_forward(*factored: Any) -> tuple[Any, Any]:
    value = _det(*factored)
    return value, (factored, value)


def _det_backward(residuals: Any, cotangent: Any) -> tuple[Any, ...]:
    factored, value = residuals
    return None, None, None, (cotangent * value)[..., None, None] * _inverse_transposed(*factored)


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
