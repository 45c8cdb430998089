"""Systems of equations, factors of matrices, norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ShapeError
from adjit.ir.types import real_dtype
from adjit.linalg import decompositions, least_squares, rules
from adjit.linalg import functions as systems
from adjit.linalg.functions import floating, square
from adjit.runtime.control_flow import scan
from adjit.runtime.transforms import stop_gradient
from adjit.scipy.mirror import mirrors
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.functions.creation import arange, eye
from adjit.tracer.user_location import find_user_location

_scipy = mirrors("linalg")


def matrix_transpose(a: Any) -> Any:
    """Matrices with rows as columns."""
    return np.swapaxes(a, -2, -1)


def identity(a: Any) -> Any:
    """Identities of the shape and dtype of square matrices."""
    return np.broadcast_to(eye(a.shape[-1], dtype=a.dtype), a.shape)


@_scipy
def solve(a: Any, b: Any, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True,
          assume_a: str | None = None, transposed: bool = False) -> Any:
    """Equivalent of `scipy.linalg.solve`: x of a @ x = b, or of a.T @ x = b if `transposed`.

    `assume_a` "pos" takes Cholesky factors, "lower triangular" and "upper triangular" one triangle, "sym" and "her" mirror the triangle
    that `lower` names, "diagonal" and "tridiagonal" read those diagonals; others are general matrices.

    >>> import numpy as np
    >>> solve(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([2.0, 3.0]))
    array([1., 2.])
    """
    return _solve(square(a, "solve"), b, assume_a, lower, transposed)


def _solve(a: Any, b: Any, kind: str | None, lower: bool, transposed: bool = False) -> Any:
    if kind not in _STRUCTURES:
        raise ValueError(f"{kind} is not a recognized matrix structure")
    if kind in ("lower triangular", "upper triangular"):
        return systems.solve_triangular(a, b, trans=int(transposed), lower=kind == "lower triangular")
    if kind in ("pos", "positive definite"):
        factor = rules.lower_factor(a if lower else rules.adjoint(a))
        return _cho_solve(np.conjugate(factor) if transposed else factor, b)
    if kind in ("her", "hermitian") or (kind in ("sym", "symmetric") and not np.iscomplexobj(a)):
        a = rules.from_triangle(a)
    if kind in ("sym", "symmetric"):
        a = np.tril(a) + matrix_transpose(np.tril(a, -1)) if lower else np.triu(a) + matrix_transpose(np.triu(a, 1))
    if kind in ("her", "hermitian"):
        a = rules.hermitian(a, lower)
    if kind in ("diagonal", "tridiagonal"):
        beside = 0 if kind == "diagonal" else 1
        a = np.triu(np.tril(a, beside), -beside)
    return systems.solve(matrix_transpose(a) if transposed else a, b)


_STRUCTURES = (None, "general", "gen", "diagonal", "tridiagonal", "banded", "upper triangular", "lower triangular", "pos",
               "positive definite", "sym", "symmetric", "her", "hermitian")


@_scipy
def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: str | None = None, lower: bool = False) -> Any:
    """Equivalent of `scipy.linalg.inv`; `assume_a` and `lower` as in `solve`.

    >>> import numpy as np
    >>> inv(np.array([[2.0, 0.0], [0.0, 4.0]]))
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    if assume_a in (None, "general", "gen"):
        return systems.inv(a)
    a = square(a, "inv")
    return _solve(a, identity(a), assume_a, lower)


@_scipy
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.det`, which is float64 or complex128 for matrices of any dtype. The derivatives of singular matrices are
    right up to the second order.

    >>> import numpy as np
    >>> round(float(det(np.array([[2.0, 1.0], [0.0, 4.0]]))), 9)
    8.0
    """
    found = systems.det(a)
    return found.astype(np.result_type(found.dtype, np.float64))


@_scipy
def lstsq(a: Any, b: Any, cond: Any = None, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True,
          lapack_driver: str | None = None) -> Any:
    """Equivalent of `scipy.linalg.lstsq`: solution, sums of squared residuals, rank, and singular values, of which those up to `cond`
    times the largest one count as 0.

    With `lapack_driver` "gelsy" there are no residuals and no singular values, as in SciPy. Where a program cannot decide on values (in
    `vmap`, bodies of loops and branches) there are residuals for any rank. The derivative is that for matrices of the same rank.

    >>> import numpy as np
    >>> x, residual, rank, s = lstsq(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]))
    >>> np.round(x, 9)
    array([2.])
    """
    if lapack_driver not in (None, "gelsd", "gelsy", "gelss"):
        raise ValueError(f'LAPACK driver "{lapack_driver}" is not found')
    a, b = floating(a), floating(b)
    eps = float(np.finfo(np.result_type(a.dtype, b.dtype)).eps)
    x, squares, rank, s = least_squares.lstsq(a, b, eps if cond is None else cond)
    if lapack_driver == "gelsy":
        return x, squares[:0], rank, None
    return x, squares[0] if b.ndim == 1 and squares.size else squares, rank, s


@_scipy
def pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.pinv`: singular values up to `atol + rtol * largest` count as 0; with `return_rank` also the number of
    others. The derivative is that for matrices of the same rank.

    >>> import numpy as np
    >>> np.round(pinv(np.array([[2.0], [0.0]])), 9)
    array([[0.5, 0. ]])
    """
    a = floating(a)
    relative: Any = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps) if rtol is None else rtol
    if any(isinstance(given, (int, float)) and given < 0 for given in (relative, atol)):
        raise ValueError("atol and rtol values must be positive.")
    if atol is not None and a.size:
        largest = stop_gradient(decompositions.svdvals(a))[..., 0]
        relative = relative + np.where(largest > 0, atol / np.where(largest > 0, largest, 1.0), 0.0)
    found = least_squares.pinv(a, rtol=relative)
    return (found, decompositions.matrix_rank(a, rtol=relative)) if return_rank else found


@_scipy
def pinvh(a: Any, atol: Any = None, rtol: Any = None, lower: bool = True, return_rank: bool = False, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.pinvh`: the pseudoinverse of the Hermitian matrix of which one triangle is given.

    >>> import numpy as np
    >>> np.round(pinvh(np.array([[2.0, 9.0], [0.0, 0.0]])), 9)
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    return _pinv(rules.hermitian(rules.from_triangle(square(a, "pinvh")), lower), atol=atol, rtol=rtol, return_rank=return_rank)


_pinv: Callable[..., Any] = pinv.__wrapped__        # type: ignore[attr-defined]


@_scipy
def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.norm`, for every `ord`. The derivative of a norm of 0 is 0.

    >>> import numpy as np
    >>> float(norm(np.array([3.0, 4.0])))
    5.0
    """
    return systems.norm(a, ord, axis, keepdims)


@_scipy
def solve_triangular(a: Any, b: Any, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False, overwrite_b: bool = False,
                     check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.solve_triangular`: x of a @ x = b (of a.T @ x = b with `trans` 1 or "T", of a.conj().T @ x = b
    with 2 or "C"); only one triangle is read.

    >>> import numpy as np
    >>> solve_triangular(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([2.0, 3.0]), lower=True)
    array([1., 2.])
    """
    a = square(a, "solve_triangular")
    if unit_diagonal:
        a = np.where(np.eye(a.shape[-1], dtype=bool), np.asarray(1.0, a.dtype), a)
    if trans in (2, "C"):
        a, trans = np.conjugate(a), 1
    return systems.solve_triangular(a, b, trans=trans, lower=lower)


@_scipy
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.cholesky`: the upper triangle u of a = u.conj().T @ u, from the upper triangle of `a`; with `lower`, l of
    a = l @ l.conj().T, from the lower one. The derivative is the derivative in a symmetric matrix.

    >>> import numpy as np
    >>> cholesky(np.array([[4.0, 2.0], [2.0, 2.0]]))
    array([[2., 1.],
           [0., 1.]])
    """
    return systems.cholesky(a, upper=not lower)


@_scipy
def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, bool]:
    """Equivalent of `scipy.linalg.cho_factor`; the other triangle, whose content SciPy leaves open, is 0.

    >>> import numpy as np
    >>> c, low = cho_factor(np.array([[4.0, 2.0], [2.0, 2.0]]))
    >>> np.triu(c)
    array([[2., 1.],
           [0., 1.]])
    """
    return systems.cholesky(a, upper=not lower), bool(lower)


@_scipy
def cho_solve(c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.cho_solve`: the solution of a system by the factor that `cho_factor` gives.

    >>> import numpy as np
    >>> cho_solve(cho_factor(np.array([[4.0, 0.0], [0.0, 2.0]])), np.array([4.0, 4.0]))
    array([1., 2.])
    """
    c, lower = c_and_lower
    c = square(c, "cho_solve")
    return _cho_solve(c if lower else rules.adjoint(c), b)


def _cho_solve(factor: Any, b: Any) -> Any:
    return systems.solve_triangular(np.conjugate(factor), systems.solve_triangular(factor, b, lower=True), trans=1, lower=True)


def _packed(a: Any, name: str) -> tuple[Any, Any, Any]:
    """LU factors in one matrix, the swaps, and the order of rows."""
    a = floating(a)
    if a.ndim < 2:
        raise ShapeError(f"{name}: an array of shape {a.shape} is no matrix", find_user_location(), hint="matrices have two dimensions")
    factors, pivots, order = map(wrap, ops.lu.emit(a.value))
    return matrix_transpose(factors), pivots, order


@_scipy
def lu(a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False) -> Any:
    """Equivalent of `scipy.linalg.lu`: (p, l, u) with a = p @ l @ u; with `permute_l` (p @ l, u); with `p_indices`, p as indices.

    >>> import numpy as np
    >>> p, l, u = lu(np.array([[0.0, 1.0], [2.0, 4.0]]))
    >>> u
    array([[2., 4.],
           [0., 1.]])
    """
    packed, _, order = _packed(a, "lu")
    rows, columns = packed.shape[-2:]
    count = min(rows, columns)
    lower = np.tril(packed[..., :count], -1) + eye(rows, count, dtype=packed.dtype)
    upper = np.triu(packed[..., :count, :])
    inverse = np.argsort(order, axis=-1)
    if permute_l:
        return np.take_along_axis(lower, np.broadcast_to(inverse[..., None], lower.shape), -2), upper
    if p_indices:
        return inverse.astype(np.int32), lower, upper
    return (inverse[..., :, None] == arange(rows)).astype(real_dtype(packed.dtype)), lower, upper


@_scipy
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """Equivalent of `scipy.linalg.lu_factor`: the factors in one matrix, and the row that each row is swapped with.

    >>> import numpy as np
    >>> lu_factor(np.array([[0.0, 1.0], [2.0, 4.0]]))[1]
    array([1, 1], dtype=int32)
    """
    packed, pivots, _ = _packed(a, "lu_factor")
    return packed, pivots.astype(np.int32)


@_scipy
def lu_solve(lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.lu_solve`, of one matrix: the solution by what `lu_factor` gives; of a.T @ x = b with `trans` 1, of
    a.conj().T @ x = b with 2.

    >>> import numpy as np
    >>> lu_solve(lu_factor(np.array([[0.0, 1.0], [2.0, 4.0]])), np.array([1.0, 6.0]))
    array([1., 1.])
    """
    packed, swaps = square(lu_and_piv[0], "lu_solve"), as_traced(lu_and_piv[1]).astype(np.int64)
    right = floating(b)
    rows = arange(packed.shape[-1])
    if packed.ndim != 2 or right.shape[:1] != rows.shape:
        raise ShapeError(f"lu_solve: factors of shape {packed.shape} do not fit to a right-hand side of shape {right.shape}",
                         find_user_location())

    def swap(order: Any, step: Any) -> Any:
        row, other = step
        first, second = np.take(order, row), np.take(order, other)
        return np.where(rows == row, second, np.where(rows == other, first, order)), None

    order = scan(swap, rows, (rows, swaps))[0]
    unit = np.where(np.eye(packed.shape[-1], dtype=bool), np.asarray(1.0, packed.dtype), np.tril(packed))
    if trans == 2:
        return lu_solve.__wrapped__((np.conjugate(packed), swaps), right, 1)        # type: ignore[attr-defined]
    if trans:
        half = systems.solve_triangular(packed, right, trans=1)
        return np.take(systems.solve_triangular(unit, half, trans=1, lower=True), np.argsort(order), axis=0)
    return systems.solve_triangular(packed, systems.solve_triangular(unit, np.take(right, order, axis=0), lower=True))


@_scipy
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """Equivalent of `scipy.linalg.solve_sylvester`: x of a @ x + x @ b = q; also of stacks.

    >>> import numpy as np
    >>> solve_sylvester(np.eye(2), np.eye(2), np.full((2, 2), 4.0))
    array([[2., 2.],
           [2., 2.]])
    """
    a, b, q = square(a, "solve_sylvester"), square(b, "solve_sylvester"), floating(q)
    if q.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ShapeError(f"solve_sylvester: q has shape {q.shape}, expected (..., {a.shape[-1]}, {b.shape[-1]})", find_user_location())
    dtype = np.result_type(a.dtype, b.dtype, q.dtype)
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], q.shape[:-2])
    return wrap(ops.sylvester(*(as_traced(np.broadcast_to(x.astype(dtype), (*stack, *x.shape[-2:]))).value for x in (a, b, q))))


@_scipy
def solve_banded(l_and_u: tuple[int, int], ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False,
                 check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.solve_banded`: row u + i - j of `ab` has the elements (i, j) of the matrix.

    >>> import numpy as np
    >>> solve_banded((1, 0), np.array([[1.0, 1.0], [1.0, 0.0]]), np.array([1.0, 3.0]))
    array([1., 2.])
    """
    lower, upper = l_and_u
    ab, right = floating(ab), floating(b)
    dtype = np.result_type(ab.dtype, right.dtype)
    vector = right.ndim == 1
    right = right[:, None] if vector else right
    stack = np.broadcast_shapes(ab.shape[:-2], right.shape[:-2])
    given = [as_traced(np.broadcast_to(x.astype(dtype), (*stack, *x.shape[-2:]))).value for x in (ab, right)]
    found = wrap(ops.banded_solve(*given, lower=int(lower), upper=int(upper), transpose=False))
    return found[..., 0] if vector else found


def from_bands(bands: Any, lower: bool) -> Any:
    """Hermitian matrix of which diagonals are given as rows: the main one first if `lower`, else last."""
    size = bands.shape[-1]
    found: Any = 0.0
    for k in range(min(bands.shape[-2], size)):
        if lower:
            diagonal = bands[..., k, :size - k]
            part = np.pad(diagonal[..., None] * np.eye(size - k, dtype=bands.dtype), [(0, 0)] * (bands.ndim - 2) + [(k, 0), (0, k)])
        else:
            diagonal = bands[..., -1 - k, k:]
            part = np.pad(diagonal[..., None] * np.eye(size - k, dtype=bands.dtype), [(0, 0)] * (bands.ndim - 2) + [(0, k), (k, 0)])
        found = found + (part if not k else part + rules.adjoint(part))
    return found


@_scipy
def solveh_banded(ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False, lower: bool = False, check_finite: bool = True
                  ) -> Any:
    """Equivalent of `scipy.linalg.solveh_banded`: x of a @ x = b, for a Hermitian matrix of which diagonals are given, the main one last
    or, if `lower`, first.

    >>> import numpy as np
    >>> solveh_banded(np.array([[0.0, 1.0], [2.0, 2.0]]), np.array([3.0, 3.0])).round(9)
    array([1., 1.])
    """
    bands = floating(ab)
    count, size = bands.shape[-2] - 1, bands.shape[-1]
    rows: list[Any] = [bands[..., k, :] for k in range(count + 1)]
    outer = [(0, 0)] * (bands.ndim - 2)
    above: list[Any]
    below: list[Any]
    if lower:
        below = rows
        above = [np.pad(np.conjugate(rows[k][..., :size - k]), [*outer, (k, 0)]) for k in range(count, 0, -1)]
    else:
        above = rows[:-1]
        below = [rows[-1], *(np.pad(np.conjugate(rows[count - k][..., k:]), [*outer, (0, k)]) for k in range(1, count + 1))]
    return solve_banded((count, count), np.stack([*above, *below], axis=-2), b)


@_scipy
def cholesky_banded(ab: Any, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.cholesky_banded`, by the factor of the whole matrix: its diagonals, the main one last or, if `lower`,
    first.

    >>> import numpy as np
    >>> cholesky_banded(np.array([[4.0, 5.0], [2.0, 0.0]]), lower=True)
    array([[2., 2.],
           [1., 0.]])
    """
    bands = floating(ab)
    count, size = bands.shape[-2], bands.shape[-1]
    factor = rules.lower_factor(from_bands(bands, lower))
    rows = []
    for k in range(count):
        outside = min(k, size)      # elements of the row that are none of the matrix stay, as in LAPACK
        diagonal = np.diagonal(factor, -outside, -2, -1)
        if lower:
            rows.append(np.concatenate([diagonal, bands[..., k, size - outside:]], axis=-1))
        else:
            rows.append(np.concatenate([bands[..., count - 1 - k, :outside], np.conjugate(diagonal)], axis=-1))
    return np.stack(rows if lower else rows[::-1], axis=-2)


@_scipy
def cho_solve_banded(cb_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.cho_solve_banded`: the solution of a system by the factor that `cholesky_banded` gives.

    >>> import numpy as np
    >>> cho_solve_banded((np.array([[2.0, 2.0], [1.0, 0.0]]), True), np.array([6.0, 7.0]))
    array([1., 1.])
    """
    bands, lower = cb_and_lower
    bands = floating(bands)
    count, size = bands.shape[-2] - 1, bands.shape[-1]
    outer = [(0, 0)] * (bands.ndim - 2)
    if lower:
        other = [np.pad(np.conjugate(bands[..., k, :size - k]), [*outer, (k, 0)]) for k in range(count, -1, -1)]
        return solve_banded((0, count), np.stack(other, axis=-2), solve_banded((count, 0), bands, b))
    other = [np.pad(np.conjugate(bands[..., count - k, k:]), [*outer, (0, k)]) for k in range(count + 1)]
    return solve_banded((0, count), bands, solve_banded((count, 0), np.stack(other, axis=-2), b))


@_scipy
def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """Equivalent of `scipy.linalg.solve_continuous_lyapunov`: x of a @ x + x @ a.conj().T = q.

    >>> import numpy as np
    >>> solve_continuous_lyapunov(np.eye(2), np.full((2, 2), 4.0))
    array([[2., 2.],
           [2., 2.]])
    """
    a = square(a, "solve_continuous_lyapunov")
    return solve_sylvester(a, rules.adjoint(a), q)


@_scipy
def solve_lyapunov(a: Any, q: Any) -> Any:
    """Equivalent of `scipy.linalg.solve_lyapunov`, another name of `solve_continuous_lyapunov`.

    >>> import numpy as np
    >>> solve_lyapunov(np.eye(1), np.array([[4.0]]))
    array([[2.]])
    """
    return solve_continuous_lyapunov(a, q)


@_scipy
def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Any:
    """Equivalent of `scipy.linalg.solve_discrete_lyapunov`: x of a @ x @ a.conj().T - x + q = 0.

    >>> import numpy as np
    >>> solve_discrete_lyapunov(np.array([[0.5]]), np.array([[3.0]]))
    array([[4.]])
    """
    a, q = square(a, "solve_discrete_lyapunov"), floating(q)
    size = a.shape[-1]
    if method not in (None, "direct", "bilinear"):
        raise ValueError(f"Unknown solver {method}")
    if method == "direct" or (method is None and size < 10):
        system = np.eye(size * size) - np.kron(a, np.conjugate(a))
        return np.reshape(systems.solve(system, np.ravel(q)), q.shape)
    one, turned = np.eye(size), rules.adjoint(a)
    inverse = systems.inv(turned + one)
    other = (turned - one) @ inverse
    return solve_continuous_lyapunov(rules.adjoint(other), -2 * systems.inv(a + one) @ q @ inverse)
