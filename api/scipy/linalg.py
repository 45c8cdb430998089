"""Functions of `scipy.linalg` for traced arrays and tensors; plain arrays outside of a trace go to SciPy's own.

    >>> import numpy as np
    >>> import adjit as aj
    >>> from adjit.scipy import linalg
    >>> a = np.array([[0.0, 1.0], [-1.0, 0.0]])
    >>> float(round(aj.grad(lambda t: linalg.expm(t * a)[0, 1])(0.0), 9))
    1.0

Arguments that only say how SciPy may use memory or check its input (`overwrite_a`, `check_finite`, ...) are accepted and do nothing. Where
SciPy raises `LinAlgError`, the result is NaN or infinite.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ShapeError, UnsupportedError
from adjit.ir.types import real_dtype
from adjit.linalg import decompositions, least_squares, rules
from adjit.linalg import functions as systems
from adjit.linalg.functions import floating, square
from adjit.runtime.control_flow import fori_loop, scan, while_loop
from adjit.runtime.transforms import stop_gradient
from adjit.scipy.mirror import mirrors, without_rule
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.functions.creation import arange, eye, zeros
from adjit.tracer.user_location import find_user_location

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "expm", "inv", "logm", "lstsq",
    "lu", "lu_factor", "lu_solve", "norm", "pinv", "qr", "solve", "solve_banded", "solve_sylvester", "solve_triangular", "sqrtm", "svd",
    "svdvals", "toeplitz",
]

_scipy = mirrors("linalg")
_others = without_rule("linalg", __all__)


def __getattr__(name: str) -> Any:
    """Return what else SciPy's module has under this name, for plain arrays."""
    return _others(name)


def _t(a: Any) -> Any:
    return np.swapaxes(a, -2, -1)


def _identity(a: Any) -> Any:
    return np.broadcast_to(eye(a.shape[-1], dtype=a.dtype), a.shape)


# -- systems of equations


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
    if kind in ("sym", "symmetric"):
        a = np.tril(a) + _t(np.tril(a, -1)) if lower else np.triu(a) + _t(np.triu(a, 1))
    if kind in ("her", "hermitian"):
        a = _hermitian(a, lower)
    if kind in ("diagonal", "tridiagonal"):
        beside = 0 if kind == "diagonal" else 1
        a = np.triu(np.tril(a, beside), -beside)
    return systems.solve(_t(a) if transposed else a, b)


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
    return _solve(a, _identity(a), assume_a, lower)


@_scipy
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.det`, which is float64 or complex128 for matrices of any dtype. The derivative of a singular matrix is
    NaN or infinite.

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
def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.norm`, for every `ord`. The derivative of a norm of 0 is 0.

    >>> import numpy as np
    >>> float(norm(np.array([3.0, 4.0])))
    5.0
    """
    return systems.norm(a, ord, axis, keepdims)


def _hermitian(a: Any, lower: bool) -> Any:
    """The matrix of which one triangle is given, and the real parts of the diagonal."""
    diagonal = np.real(np.where(np.eye(a.shape[-1], dtype=bool), a, np.zeros_like(a)))
    half = np.tril(a, -1) if lower else np.triu(a, 1)
    return half + rules.adjoint(half) + diagonal


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
    return _t(factors), pivots, order


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


# -- eigenvalues and singular values


@_scipy
def eigh(a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
         type: int = 1, check_finite: bool = True, subset_by_index: Any = None, subset_by_value: Any = None,
         driver: str | None = None) -> Any:
    """Equivalent of `scipy.linalg.eigh`: w and v of a @ v = v * w, or with `type` 1, 2 and 3 of a @ v = b @ v * w, a @ b @ v = v * w and
    b @ a @ v = v * w; `subset_by_index` names the first and the last of the eigenvalues.

    Signs of the vectors are those of `numpy.linalg.eigh`; SciPy's default driver is another one. Raises `UnsupportedError` for
    `subset_by_value`.

    >>> import numpy as np
    >>> eigh(np.diag([2.0, 6.0]), np.diag([2.0, 2.0]), eigvals_only=True)
    array([1., 3.])
    """
    if subset_by_value is not None:
        raise UnsupportedError("eigh(subset_by_value=...): values decide on how many results there are", find_user_location(),
                               hint="subset_by_index takes known places")
    if type not in (1, 2, 3):
        raise ValueError('"type" keyword only accepts 1, 2, and 3.')
    a = square(a, "eigh")
    part = slice(None) if subset_by_index is None else _between(subset_by_index, a.shape[-1])
    inner, factor, triangle = a, None, "L" if lower else "U"
    if b is not None:
        b, triangle = square(b, "eigh"), "L"
        factor = rules.lower_factor(b if lower else rules.adjoint(b))
        inner = _hermitian(a, lower)
        if type == 1:
            half = systems.solve_triangular(factor, inner, lower=True)
            inner = rules.adjoint(systems.solve_triangular(factor, rules.adjoint(half), lower=True))
        else:
            inner = rules.adjoint(factor) @ inner @ factor
    if eigvals_only:
        return decompositions.eigvalsh(inner, triangle)[..., part]
    w, v = decompositions.eigh(inner, triangle)
    w, v = w[..., part], v[..., part]
    if factor is None:
        return w, v
    return w, factor @ v if type == 3 else systems.solve_triangular(np.conjugate(factor), v, trans=1, lower=True)


def _between(subset: Any, count: int) -> slice:
    first, last = map(operator.index, subset)
    if not 0 <= first <= last < count:
        raise ValueError(f"Requested eigenvalue indices are not valid. Valid range is [0, {count - 1}] and start <= end, but "
                         f"start={first}, end={last} is given")
    return slice(first, last + 1)


@_scipy
def eigvalsh(a: Any, b: Any = None, *, lower: bool = True, overwrite_a: bool = False, overwrite_b: bool = False, type: int = 1,
             check_finite: bool = True, subset_by_index: Any = None, subset_by_value: Any = None, driver: str | None = None) -> Any:
    """Equivalent of `scipy.linalg.eigvalsh`: the eigenvalues that `eigh` gives.

    >>> import numpy as np
    >>> eigvalsh(np.diag([3.0, 1.0, 2.0]), subset_by_index=[1, 2])
    array([2., 3.])
    """
    return eigh.__wrapped__(a, b, lower=lower, eigvals_only=True, type=type, subset_by_index=subset_by_index,   # type: ignore[attr-defined]
                            subset_by_value=subset_by_value)


@_scipy
def eig(a: Any, b: Any = None, left: bool = False, right: bool = True, overwrite_a: bool = False, overwrite_b: bool = False,
        check_finite: bool = True, homogeneous_eigvals: bool = False) -> Any:
    """Equivalent of `scipy.linalg.eig`: complex eigenvalues, and right eigenvectors, which are real as those of `numpy.linalg.eig`.

    Raises `UnsupportedError` for two matrices and for left eigenvectors.

    >>> import numpy as np
    >>> eig(np.array([[2.0, 1.0], [0.0, 3.0]]))[0]
    array([2.+0.j, 3.+0.j])
    """
    if b is not None:
        raise UnsupportedError("eig of two matrices", find_user_location(), hint="eig(solve(b, a)) where b is not singular")
    if left:
        raise UnsupportedError("eig(left=True)", find_user_location(), hint="right eigenvectors of a.conj().T are left ones of a")
    w, v = decompositions.eig(a)
    w = w if w.dtype.kind == "c" else w + np.zeros_like(w) * 1j
    if homogeneous_eigvals:
        w = np.stack([w, np.ones_like(w)], axis=-2)
    return (w, v) if right else w


@_scipy
def eigvals(a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False) -> Any:
    """Equivalent of `scipy.linalg.eigvals`: complex eigenvalues, in the order of `eig`.

    >>> import numpy as np
    >>> eigvals(np.array([[2.0, 1.0], [0.0, 3.0]]))
    array([2.+0.j, 3.+0.j])
    """
    return eig.__wrapped__(a, b, right=False, homogeneous_eigvals=homogeneous_eigvals)      # type: ignore[attr-defined]


@_scipy
def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.svdvals`: singular values in descending order.

    >>> import numpy as np
    >>> svdvals(np.diag([1.0, 2.0]))
    array([2., 1.])
    """
    return decompositions.svdvals(a)


@_scipy
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False, check_finite: bool = True,
        lapack_driver: str = "gesdd") -> Any:
    """Equivalent of `scipy.linalg.svd`, by LAPACK's `gesdd`.

    >>> import numpy as np
    >>> svd(np.diag([1.0, 2.0]), compute_uv=False)
    array([2., 1.])
    """
    if lapack_driver not in ("gesdd", "gesvd"):
        raise ValueError(f'lapack_driver must be "gesdd" or "gesvd", not "{lapack_driver}"')
    found = decompositions.svd(a, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


@_scipy
def qr(a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", pivoting: bool = False, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.qr`; with `pivoting` the last result is the order of columns, which counts as a constant, and the others
    are factors of the matrix with this order. The results of mode "raw" have no derivative.

    >>> import numpy as np
    >>> qr(np.array([[3.0], [4.0]]), mode="r")
    (array([[-5.],
           [ 0.]]),)
    """
    if mode not in ("full", "r", "economic", "raw"):
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic', 'raw']")
    order: tuple[Any, ...] = ()
    if pivoting:
        a = floating(a)
        columns = a.shape[-1]
        found = wrap(ops.column_order(a.value)) if a.size else np.broadcast_to(arange(columns), (*a.shape[:-2], columns))
        a, order = np.take_along_axis(a, np.broadcast_to(found[..., None, :], a.shape), -1), (found.astype(np.int32),)
    if mode == "r":
        return decompositions.qr(a, "complete").R, *order
    if mode == "raw":
        packed, scales = decompositions.qr(a, "raw")
        count = min(a.shape[-2:])
        return (_t(packed), scales), np.triu(_t(packed))[..., :count, :], *order
    return *decompositions.qr(a, "complete" if mode == "full" else "reduced"), *order


# -- functions of matrices


_PADE = (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0, 10559470521600.0,
         670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0)
_PADE_RADIUS = 5.371920351148152
"""1-norm below which the approximant of order 13 is exact to rounding (Higham, "The scaling and squaring method for the matrix exponential
revisited", 2005)."""


def _by_frechet_derivative(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Give a function of matrices its derivative: that in a direction e is the upper right block of the function of [[a, e], [0, a]]
    (Higham, "Functions of Matrices", 2008, 3.6); the rule is that of the adjoint matrix, in the direction of the cotangent."""
    rule = rules.pure_vjp(function)

    def backward(a: Any, cotangent: Any) -> tuple[Any]:
        size = a.shape[-1]
        turned = rules.adjoint(a)
        top = np.concatenate([turned, cotangent], axis=-1)
        bottom = np.concatenate([np.zeros_like(turned), turned], axis=-1)
        return (rule(np.concatenate([top, bottom], axis=-2))[..., :size, size:],)

    rule.defvjp(lambda a: (rule(a), a), backward)
    return rule


def _one_norm(a: Any) -> Any:
    return np.max(np.sum(np.abs(a), axis=-2), axis=-1)


def _expm_of(a: Any) -> Any:
    largest = stop_gradient(np.max(_one_norm(a)))
    squarings = np.where(np.isfinite(largest), np.ceil(np.log2(np.maximum(largest / _PADE_RADIUS, 1.0))), 0.0)
    x = a * np.exp2(-squarings).astype(a.dtype)
    one, x2 = _identity(a), x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    c = _PADE
    odd = x @ (x6 @ (c[13] * x6 + c[11] * x4 + c[9] * x2) + c[7] * x6 + c[5] * x4 + c[3] * x2 + c[1] * one)
    even = x6 @ (c[12] * x6 + c[10] * x4 + c[8] * x2) + c[6] * x6 + c[4] * x4 + c[2] * x2 + c[0] * one
    result = rules.factored(even - odd).solve(even + odd)
    return fori_loop(0, squarings.astype(np.int64), lambda _, r: r @ r, result)


_expm = _by_frechet_derivative(_expm_of)


@_scipy
def expm(A: Any) -> Any:
    """Equivalent of `scipy.linalg.expm`: the exponential of matrices (..., n, n), by scaling, the Padé approximant of order 13, and
    squaring. Matrices of a stack are squared equally often.

    >>> import numpy as np
    >>> expm(np.zeros((2, 2)))
    array([[1., 0.],
           [0., 1.]])
    """
    a = square(A, "expm")
    return _expm(a) if a.size else np.copy(a)


def _sqrtm_of(a: Any) -> Any:
    """The principal root by the product form of Denman's and Beavers' iteration, scaled by determinants (Higham, "Functions of Matrices",
    2008, 6.29); NaN if it does not converge."""
    size, one = a.shape[-1], _identity(a)
    tolerance = size * float(np.finfo(a.dtype).eps)

    def step(state: Any) -> Any:
        m, x, _, count = state
        factored = rules.factored(m)
        scale = np.exp(-factored.log_abs_det() / (2 * size))[..., None, None]
        scale = np.where(np.isfinite(scale) & (np.abs(np.log(scale)) > 1e-2), scale, 1.0).astype(a.dtype)
        inverse = factored.inverse() / scale ** 2
        x = 0.5 * scale * x @ (one + inverse)
        m = 0.5 * (one + 0.5 * (scale ** 2 * m + inverse))
        return m, x, np.max(_one_norm(m - one)), count + 1

    def goes_on(state: Any) -> Any:
        _, _, error, count = state
        return (error > tolerance) & (count < 100)

    start = (a, a, np.asarray(np.inf, real_dtype(a.dtype)), np.asarray(0))
    _, x, error, _ = while_loop(goes_on, step, start)
    return np.where(error < 1e3 * tolerance, x, np.asarray(np.nan, a.dtype))


_sqrtm = _by_frechet_derivative(_sqrtm_of)


@_scipy
def sqrtm(A: Any, disp: bool = True, blocksize: int = 64) -> Any:
    """Equivalent of `scipy.linalg.sqrtm`, in the dtype of the matrix: the principal root of matrices without eigenvalues on the negative
    real axis, which are not singular. Of others the result is NaN.

    >>> import numpy as np
    >>> np.round(sqrtm(np.array([[4.0, 0.0], [0.0, 9.0]])), 9)
    array([[2., 0.],
           [0., 3.]])
    """
    if not disp:
        raise UnsupportedError("sqrtm(disp=False)", find_user_location(), hint="leave it out: SciPy does not recommend it any more")
    a = square(A, "sqrtm")
    return _sqrtm(a) if a.size else np.copy(a)


_LOG_NODES, _LOG_WEIGHTS = np.polynomial.legendre.leggauss(8)
_LOG_RADIUS = 0.25
"""1-norm of a - 1 below which eight nodes integrate the logarithm to rounding."""


def _logm_of(a: Any) -> Any:
    """Inverse scaling and squaring: roots until the matrix is near 1, then the integral of x / (1 + t x) by Gauss and Legendre (Higham,
    "Functions of Matrices", 2008, 11.5)."""
    one = _identity(a)

    def goes_on(state: Any) -> Any:
        m, count = state
        return (np.max(_one_norm(m - one)) > _LOG_RADIUS) & (count < 60)

    m, count = while_loop(goes_on, lambda state: (_sqrtm_of(state[0]), state[1] + 1), (a, np.asarray(0)))
    x = m - one
    total = np.zeros_like(a)
    for node, weight in zip(_LOG_NODES, _LOG_WEIGHTS, strict=True):
        total = total + 0.5 * weight * rules.factored(one + 0.5 * (node + 1) * x).solve(x)
    return total * np.exp2(count.astype(a.dtype))


_logm = _by_frechet_derivative(_logm_of)


@_scipy
def logm(A: Any, disp: bool = True) -> Any:
    """Equivalent of `scipy.linalg.logm`, in the dtype of the matrix: of matrices without eigenvalues on the negative real axis, which are
    not singular. Of others the result is NaN.

    >>> import numpy as np
    >>> np.round(logm(np.eye(2)), 9) + 0.0
    array([[0., 0.],
           [0., 0.]])
    """
    if not disp:
        raise UnsupportedError("logm(disp=False)", find_user_location(), hint="leave it out: SciPy does not recommend it any more")
    a = square(A, "logm")
    return _logm(a) if a.size else np.copy(a)


# -- special matrices


@_scipy
def toeplitz(c: Any, r: Any = None) -> Any:
    """Equivalent of `scipy.linalg.toeplitz`: the matrix with the first column `c` and the first row `r` (without it, that of a Hermitian
    matrix); of stacks of vectors stacks of matrices.

    >>> import numpy as np
    >>> toeplitz(np.array([1.0, 2.0]), np.array([1.0, 5.0]))
    array([[1., 5.],
           [2., 1.]])
    """
    column = np.atleast_1d(as_traced(c))
    row = np.conjugate(column) if r is None else np.atleast_1d(as_traced(r))
    rows, columns = column.shape[-1], row.shape[-1]
    stack = np.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    column, row = np.broadcast_to(column, (*stack, rows)), np.broadcast_to(row, (*stack, columns))
    values = np.concatenate([column[..., ::-1], row[..., 1:]], axis=-1)
    return np.take(values, np.arange(rows - 1, -1, -1)[:, None] + np.arange(columns), axis=-1)


@_scipy
def block_diag(*arrs: Any) -> Any:
    """Equivalent of `scipy.linalg.block_diag`, of matrices (also stacks), vectors and numbers: the matrix that has them on its
    diagonal.

    >>> import numpy as np
    >>> block_diag(np.array([[1.0]]), np.array([[2.0, 3.0]]))
    array([[1., 0., 0.],
           [0., 2., 3.]])
    """
    blocks = [np.atleast_2d(as_traced(array)) for array in arrs] or [zeros((1, 0))]
    dtype = np.result_type(*(block.dtype for block in blocks))
    stack = np.broadcast_shapes(*(block.shape[:-2] for block in blocks))
    width, left, rows = sum(block.shape[-1] for block in blocks), 0, []
    for block in blocks:
        height, own = block.shape[-2:]
        middle = np.broadcast_to(block.astype(dtype), (*stack, height, own))
        parts = [zeros((*stack, height, left), dtype), middle, zeros((*stack, height, width - left - own), dtype)]
        rows.append(np.concatenate(parts, axis=-1))
        left += own
    return np.concatenate(rows, axis=-2)
