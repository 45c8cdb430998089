"""Algebraic Riccati equations: by the stable subspace of a matrix of twice the size, in discrete time by doubling the number of steps of
the recursion (Chu, Fan, Lin and Wang, "Structure-preserving algorithms for periodic discrete-time algebraic Riccati equations", 2004); then
two of Newton's steps.

A step solves a Lyapunov equation (Kleinman, "On an iterative technique for Riccati equation computations", 1968). Derivatives go through
the steps alone: as each doubles the number of right digits, it doubles that of right orders of derivatives, so two give three orders,
also where eigenvalues are equal and those of eigenvectors do not exist.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.ir.errors import ShapeError
from adjit.linalg import decompositions
from adjit.linalg import functions as systems
from adjit.linalg.functions import floating, square
from adjit.linalg.rules import adjoint
from adjit.runtime.control_flow import fori_loop
from adjit.runtime.transforms import stop_gradient
from adjit.scipy.linalg.systems import identity, solve_continuous_lyapunov, solve_discrete_lyapunov
from adjit.scipy.mirror import mirrors
from adjit.tracer.array import as_traced
from adjit.tracer.user_location import find_user_location

_scipy = mirrors("linalg")
_STEPS = 2


def _checked(a: Any, b: Any, q: Any, r: Any, e: Any, s: Any, name: str) -> tuple[Any, ...]:
    """The matrices in one dtype."""
    a, b, q, r = square(a, name), floating(b), square(q, name), square(r, name)
    n = a.shape[-1]
    if a.ndim != 2 or b.shape != (n, r.shape[-1]) or q.shape != a.shape or r.ndim != 2:
        raise ShapeError(f"{name}: matrices of shapes {a.shape}, {b.shape}, {q.shape} and {r.shape} do not fit to each other; expected "
                         f"(n, n), (n, m), (n, n) and (m, m)", find_user_location())
    extra = [as_traced(x) for x in (e, s) if x is not None]
    dtype = np.result_type(*(x.dtype for x in (a, b, q, r, *extra)), a.dtype)
    return tuple(None if x is None else as_traced(x).astype(dtype, copy=False) for x in (a, b, q, r, e, s))


def _hermitian(x: Any) -> Any:
    return 0.5 * (x + adjoint(x))


def _of_subspace(hamiltonian: Any, size: int, real: bool) -> Any:
    """Solution by the eigenvectors whose eigenvalues have the least real parts."""
    values, vectors = decompositions.eig(stop_gradient(hamiltonian))
    chosen = np.take(vectors, np.argsort(np.real(values))[:size], axis=-1)
    found = adjoint(systems.solve(adjoint(chosen[:size]), adjoint(chosen[size:])))
    return stop_gradient(_hermitian(np.real(found) if real else found))


_DOUBLINGS = 20
"""A million steps."""


def _of_many_steps(a: Any, spread: Any, q: Any) -> Any:
    """What the recursion reaches from `q`."""
    def double(_: Any, state: Any) -> Any:
        a, spread, x = state
        inner = systems.inv(identity(a) + spread @ x)
        return a @ inner @ a, _hermitian(spread + a @ inner @ spread @ adjoint(a)), _hermitian(x + adjoint(a) @ x @ inner @ a)

    return stop_gradient(fori_loop(0, _DOUBLINGS, double, tuple(map(stop_gradient, (a, spread, q))))[2])


@_scipy
def solve_continuous_are(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:
    """Equivalent of `scipy.linalg.solve_continuous_are`: the stabilizing Hermitian solution x of a* x + x a - x b r**-1 b* x + q = 0;
    with `e` and `s`, of a* x e + e* x a - (e* x b + s) r**-1 (b* x e + s*) + q = 0, with `e` not singular. `q` and `r` are Hermitian.

    >>> import numpy as np
    >>> solve_continuous_are(np.array([[0.0]]), np.array([[1.0]]), np.array([[4.0]]), np.array([[1.0]])).round(9)
    array([[2.]])
    """
    a, b, q, r, e, s = _checked(a, b, q, r, e, s, "solve_continuous_are")
    inverse = identity(a) if e is None else systems.inv(e)
    if s is not None:       # u = v - r**-1 s* x
        gain = systems.solve(r, adjoint(s))
        a, q = a - b @ gain, q - s @ gain
    a, q = a @ inverse, _hermitian(adjoint(inverse) @ q @ inverse)
    spread = b @ systems.solve(r, adjoint(b))
    hamiltonian = np.concatenate([np.concatenate([a, -spread], axis=1), np.concatenate([-q, -adjoint(a)], axis=1)])
    x = _of_subspace(hamiltonian, a.shape[-1], a.dtype.kind != "c")
    for _ in range(_STEPS):
        closed = a - spread @ x
        x = _hermitian(solve_continuous_lyapunov(adjoint(closed), -(q + x @ spread @ x)))
    return x


@_scipy
def solve_discrete_are(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:
    """Equivalent of `scipy.linalg.solve_discrete_are`: the stabilizing Hermitian solution x of
    a* x a - x - a* x b (r + b* x b)**-1 b* x a + q = 0; with `e` and `s`, of
    a* x a - e* x e - (a* x b + s) (r + b* x b)**-1 (b* x a + s*) + q = 0. `e` and `r` are not singular.

    >>> import numpy as np
    >>> solve_discrete_are(np.array([[1.0]]), np.array([[1.0]]), np.array([[2.0]]), np.array([[4.0]])).round(9)
    array([[4.]])
    """
    a, b, q, r, e, s = _checked(a, b, q, r, e, s, "solve_discrete_are")
    if s is not None:
        gain = systems.solve(r, adjoint(s))
        a, q = a - b @ gain, _hermitian(q - s @ gain)
    if e is not None:
        inverse = systems.inv(e)
        a, q = a @ inverse, _hermitian(adjoint(inverse) @ q @ inverse)
    x = _of_many_steps(a, b @ systems.solve(r, adjoint(b)), _hermitian(q))
    for _ in range(_STEPS):
        gain = systems.solve(r + adjoint(b) @ x @ b, adjoint(b) @ x @ a)
        closed = a - b @ gain
        x = _hermitian(solve_discrete_lyapunov(adjoint(closed), q + adjoint(gain) @ r @ gain))
    return x
