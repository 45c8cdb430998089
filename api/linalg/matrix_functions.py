"""Functions of Hermitian matrices, by their eigenvalues, with derivatives also where eigenvalues are equal."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from adjit.ir.types import real_dtype
from adjit.linalg import decompositions, rules
from adjit.linalg.functions import square
from adjit.runtime.transforms import jvp, stop_gradient, vjp
from adjit.tracer.array_wrapper import find_wrapper
from adjit.tracer.dispatch import dispatched
from adjit.tracer.trace import is_tracing

Function = Callable[[Any], Any]


@cache
def _quadrature() -> list[tuple[float, float]]:
    """Nodes and weights on [0, 1]: exact to rounding for functions that a polynomial of degree 23 is near to."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    return list(zip(((nodes + 1) / 2).tolist(), (weights / 2).tolist(), strict=True))


CANCELLED, FAR = 1e-3, 0.5
"""A difference quotient is taken where the values differ by more than a part of their sizes, or the arguments by more than a part of the
largest one; else the mean of the derivative."""


def matrix_function(a: Any, fun: Callable[[Any], Any], UPLO: str = "L") -> Any:
    """The function `fun` of Hermitian matrices (..., n, n), in the sense of their eigenvalues: v @ diag(fun(w)) @ v^H.

    `fun` takes arrays of eigenvalues, of any shape, and acts on each element; it may contain traced values, which get derivatives too. Of
    the matrix, the triangle `UPLO` is read. The derivative is right also where eigenvalues are equal, unlike that of the product written
    with `eigh`: it has quotients of differences of `fun` (Daleckii and Krein; Higham, "Functions of Matrices", 2008, 3.2), and where these
    cancel means of its derivative. Second derivatives have about half of the digits where eigenvalues are near to each other but not
    equal; from the third order on derivatives in the matrix are NaN. Raises `ShapeError` for matrices that are not square.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.linalg.matrix_function(np.diag([1.0, 4.0]), np.sqrt)
    array([[1., 0.],
           [0., 2.]])
    >>> aj.grad(lambda a: np.sum(aj.linalg.matrix_function(a, np.exp)))(np.zeros((2, 2)))
    array([[1., 1.],
           [1., 1.]])
    """
    if not is_tracing() and find_wrapper((a,), {}) is None:
        w, v = np.linalg.eigh(a, UPLO)      # type: ignore[call-overload]
        return (v * fun(w)[..., None, :]) @ rules.adjoint(v)
    return _matrix_function(a, fun, UPLO)


@dispatched
def _matrix_function(a: Any, fun: Function, UPLO: str) -> Any:
    a = square(a, "matrix_function")
    if not a.size:
        return np.copy(a)
    w, v = decompositions.eigh(stop_gradient(a), UPLO)
    moved = _moved(a, v)
    slopes = _along(fun)
    first, second = _quotients(fun, slopes, w), _second_quotients(slopes, _along(slopes), w)
    values = fun(w)
    inner = values[..., None, :] * np.eye(w.shape[-1], dtype=w.dtype) + _vanishing(lambda e, d: e * d, 1)(moved, first)
    inner = inner + _vanishing(_second_term, 2)(moved, first, second, w) + _vanishing(lambda e: e ** 3 * np.nan, 3)(moved)
    return v @ inner @ rules.adjoint(v)


def _moved(a: Any, v: Any) -> Any:
    """v^H da v of a change of the matrix: 0, with a derivative, which is shared equally between both triangles."""
    @rules.pure_vjp
    def moved(a: Any, v: Any) -> Any:
        return np.zeros_like(a)

    def backward(v: Any, cotangent: Any) -> tuple[Any, None]:
        found = v @ cotangent @ rules.adjoint(v)
        return 0.5 * (found + rules.adjoint(found)), None

    moved.defvjp(lambda a, v: (moved(a, v), v), backward)
    return moved(a, v)


def _vanishing(function: Callable[..., Any], order: int) -> Callable[..., Any]:
    """A function that is 0 where it is called, as are its derivatives below `order`, in an argument of its shape, the first one: neither
    is computed."""
    @rules.pure_vjp
    def vanishing(*given: Any) -> Any:
        return np.zeros_like(given[0])

    def backward(given: tuple[Any, ...], cotangent: Any) -> tuple[Any, ...]:
        if order == 1:
            return vjp(function, *given)[1](cotangent)      # type: ignore[no-any-return]
        slope = _vanishing(lambda first, cotangent, *others: vjp(lambda first: function(first, *others), first)[1](cotangent)[0], order - 1)
        return slope(given[0], cotangent, *given[1:]), *(None for _ in given[1:])

    vanishing.defvjp(lambda *given: (vanishing(*given), given), backward)
    return vanishing


def _along(fun: Function) -> Function:
    """The derivative of a function of each element."""
    return lambda x: jvp(fun, (x,), (np.ones_like(x),))[1]


def _pairs(w: Any) -> tuple[Any, Any]:
    return np.broadcast_to(w[..., :, None], (*w.shape, w.shape[-1])), np.broadcast_to(w[..., None, :], (*w.shape, w.shape[-1]))


def _quotients(fun: Function, slopes: Function, w: Any) -> Any:
    """(f(x) - f(y)) / (x - y) for the eigenvalues x of rows and y of columns."""
    x, y = _pairs(w)
    return _quotient(fun(x), fun(y), x, y, w, lambda t: slopes(y + t * (x - y)))


def _second_quotients(slopes: Function, bends: Function, w: Any) -> Any:
    """The derivatives of these quotients in x."""
    x, y = _pairs(w)
    return _quotient(slopes(x), _mean(lambda t: slopes(y + t * (x - y))), x, y, w, lambda t: t * bends(y + t * (x - y)))


def _quotient(high: Any, low: Any, x: Any, y: Any, w: Any, integrand: Function) -> Any:
    gap, largest = x - y, np.max(np.abs(w), axis=-1)[..., None, None]
    differ = (np.abs(high - low) > CANCELLED * (np.abs(high) + np.abs(low))) | (np.abs(gap) > FAR * largest)
    differ = stop_gradient(differ & (np.abs(gap) > _noise(w)))
    return np.where(differ, (high - low) / np.where(differ, gap, 1.0), _mean(integrand))


def _mean(integrand: Function) -> Any:
    return sum(weight * integrand(node) for node, weight in _quadrature())


def _noise(w: Any) -> Any:
    """Differences of eigenvalues that rounding may make."""
    eps = float(np.finfo(real_dtype(w.dtype)).eps)
    return 4 * w.shape[-1] * eps * np.max(np.abs(w), axis=-1)[..., None, None]


def _second_term(e: Any, first: Any, second: Any, w: Any) -> Any:
    """The sum over k of e[i, k] e[k, j] times the second quotient of the eigenvalues i, k, j."""
    x, y = _pairs(w)
    eps = float(np.finfo(real_dtype(w.dtype)).eps)
    near = np.abs(x - y) <= np.maximum(eps ** (1 / 3) * np.maximum(np.abs(x), np.abs(y)), _noise(w))
    scaled, turned = first * e, np.swapaxes(second, -1, -2)
    apart = (scaled @ e - e @ scaled) / np.where(near, 1.0, x - y)
    return np.where(near, 0.5 * ((second * e) @ e + e @ (turned * e)), apart)
