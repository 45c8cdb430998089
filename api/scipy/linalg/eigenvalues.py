"""Eigenvalues, singular values, orthogonal factors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ShapeError, UnsupportedError
from adjit.linalg import decompositions, rules
from adjit.linalg import functions as systems
from adjit.linalg.functions import floating, square
from adjit.runtime.transforms import stop_gradient
from adjit.scipy.linalg.systems import from_bands, matrix_transpose
from adjit.scipy.mirror import mirrors
from adjit.tracer.array import wrap
from adjit.tracer.functions.creation import arange
from adjit.tracer.user_location import find_user_location

_scipy = mirrors("linalg")


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
        inner = rules.hermitian(a, lower)
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
    return _eigh(a, b, lower=lower, eigvals_only=True, type=type, subset_by_index=subset_by_index, subset_by_value=subset_by_value)


@_scipy
def eig(a: Any, b: Any = None, left: bool = False, right: bool = True, overwrite_a: bool = False, overwrite_b: bool = False,
        check_finite: bool = True, homogeneous_eigvals: bool = False) -> Any:
    """Equivalent of `scipy.linalg.eig`: complex eigenvalues, of a @ v = b @ v * w with a second matrix, which must not be singular; with
    `left` vectors u of u.conj().T @ a = w[:, None] * u.conj().T (@ b).

    Vectors have length 1. Right ones are those of `numpy.linalg.eig`, of b ** -1 @ a with a second matrix: SciPy's, from another algorithm,
    differ in order and phase. Left ones are rows of the inverse of the right ones, with a largest component that is real and positive.

    >>> import numpy as np
    >>> w, u, v = eig(np.array([[2.0, 1.0], [0.0, 3.0]]), left=True)
    >>> w
    array([2.+0.j, 3.+0.j])
    >>> u.round(6)
    array([[ 0.707107,  0.      ],
           [-0.707107,  1.      ]])
    """
    a = square(a, "eig")
    if b is not None:
        b = square(b, "eig")
        a = systems.solve(b, a)
    w, v = decompositions.eig(a)
    w = w if w.dtype.kind == "c" else w + np.zeros_like(w) * 1j
    values = np.stack([w, np.ones_like(w)], axis=-2) if homogeneous_eigvals else w
    if not left:
        return (values, v) if right else values
    u = rules.adjoint(systems.inv(v))
    u = _normalized(u if b is None else systems.solve(rules.adjoint(b), u))
    return (values, u, v) if right else (values, u)


def _normalized(vectors: Any) -> Any:
    """Columns of length 1 whose largest component is real and positive."""
    if not vectors.size:
        return vectors
    size = np.abs(vectors)
    largest = np.take_along_axis(vectors, np.argmax(stop_gradient(size), axis=-2)[..., None, :], -2)
    return vectors * (np.conjugate(largest) / np.abs(largest) / np.sqrt(np.sum(size * size, axis=-2, keepdims=True)))


@_scipy
def eigvals(a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False) -> Any:
    """Equivalent of `scipy.linalg.eigvals`: complex eigenvalues, in the order of `eig`.

    >>> import numpy as np
    >>> eigvals(np.array([[2.0, 1.0], [0.0, 3.0]]))
    array([2.+0.j, 3.+0.j])
    """
    return _eig(a, b, right=False, homogeneous_eigvals=homogeneous_eigvals)


_eig: Callable[..., Any] = eig.__wrapped__      # type: ignore[attr-defined]
_eigh: Callable[..., Any] = eigh.__wrapped__        # type: ignore[attr-defined]


def _picked(select: Any, select_range: Any, count: int) -> Any:
    """Places of the eigenvalues that are asked for."""
    if select in ("a", "all", 0):
        return None
    if select in ("i", "index", 2):
        return select_range
    if select in ("v", "value", 1):
        raise UnsupportedError("eigenvalues within bounds: values decide on how many results there are", find_user_location(),
                               hint='select="i" takes known places')
    raise ValueError("invalid argument for select")


@_scipy
def eig_banded(a_band: Any, lower: bool = False, eigvals_only: bool = False, overwrite_a_band: bool = False, select: str = "a",
               select_range: Any = None, max_ev: int = 0, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.eig_banded`: eigenvalues and vectors of a Hermitian matrix of which diagonals are given, by `eigh` of the
    whole matrix.

    >>> import numpy as np
    >>> eig_banded(np.array([[0.0, 1.0], [2.0, 2.0]]), eigvals_only=True).round(9)
    array([1., 3.])
    """
    a = from_bands(floating(a_band), lower)
    return _eigh(a, eigvals_only=eigvals_only, subset_by_index=_picked(select, select_range, a.shape[-1]))


@_scipy
def eigvals_banded(a_band: Any, lower: bool = False, overwrite_a_band: bool = False, select: str = "a", select_range: Any = None,
                   check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.eigvals_banded`.

    >>> import numpy as np
    >>> eigvals_banded(np.array([[0.0, 1.0], [2.0, 2.0]])).round(9)
    array([1., 3.])
    """
    return eig_banded(a_band, lower, True, False, select, select_range)


@_scipy
def eigh_tridiagonal(d: Any, e: Any, eigvals_only: bool = False, select: str = "a", select_range: Any = None, check_finite: bool = True,
                     tol: float = 0.0, lapack_driver: str = "auto") -> Any:
    """Equivalent of `scipy.linalg.eigh_tridiagonal`, of real diagonals, by `eigh` of the whole matrix.

    >>> import numpy as np
    >>> eigh_tridiagonal(np.array([2.0, 2.0]), np.array([1.0]), eigvals_only=True).round(9)
    array([1., 3.])
    """
    d, e = floating(d), floating(e)
    for diagonal in (d, e):
        if diagonal.ndim != 1:
            raise ValueError("expected a 1-D array")
        if diagonal.dtype.kind == "c":
            raise TypeError("Only real arrays currently supported")
    if d.size != e.size + 1:
        raise ValueError(f"d ({d.size}) must have one more element than e ({e.size})")
    dtype = np.result_type(d.dtype, e.dtype)
    return eig_banded(np.stack([d.astype(dtype), np.pad(e, (0, 1)).astype(dtype)]), True, eigvals_only, False, select, select_range)


@_scipy
def eigvalsh_tridiagonal(d: Any, e: Any, select: str = "a", select_range: Any = None, check_finite: bool = True, tol: float = 0.0,
                         lapack_driver: str = "auto") -> Any:
    """Equivalent of `scipy.linalg.eigvalsh_tridiagonal`.

    >>> import numpy as np
    >>> eigvalsh_tridiagonal(np.array([2.0, 2.0]), np.array([1.0])).round(9)
    array([1., 3.])
    """
    return eigh_tridiagonal(d, e, True, select, select_range)


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
        return (matrix_transpose(packed), scales), np.triu(matrix_transpose(packed))[..., :count, :], *order
    return *decompositions.qr(a, "complete" if mode == "full" else "reduced"), *order


@_scipy
def qr_multiply(a: Any, c: Any, mode: str = "right", pivoting: bool = False, conjugate: bool = False, overwrite_a: bool = False,
                overwrite_c: bool = False) -> Any:
    """Equivalent of `scipy.linalg.qr_multiply`: (c @ q, r) of a = q @ r with as many columns of `q` as rows or columns of `a`, whichever
    are fewer; q @ c with the mode "left"; the conjugate of `q` with `conjugate`; and the order of columns with `pivoting`.

    >>> import numpy as np
    >>> qr_multiply(np.array([[3.0], [4.0]]), np.array([5.0, 0.0]))[0]
    array([-3.])
    """
    if mode not in ("left", "right"):
        raise ValueError(f"Mode argument can only be 'left' or 'right' but not '{mode}'")
    (q, *rest), c = _qr(a, mode="economic", pivoting=pivoting), floating(c)
    q = np.conjugate(q) if conjugate else q
    rows = c[None] if c.ndim < 2 and mode == "right" else c[:, None] if c.ndim < 2 else c
    if rows.shape[1 if mode == "right" else 0] != q.shape[0 if mode == "right" else 1]:
        raise ShapeError(f"qr_multiply: c of shape {rows.shape} does not fit to q of shape {q.shape}", find_user_location())
    product = rows @ q if mode == "right" else q @ rows
    return np.ravel(product) if c.ndim < 2 else product, *rest


_qr: Callable[..., Any] = qr.__wrapped__        # type: ignore[attr-defined]


@_scipy
def rq(a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.rq`: r and q of a = r @ q, or r alone with mode "r".

    >>> import numpy as np
    >>> r, q = rq(np.array([[0.0, 1.0], [2.0, 4.0]]))
    >>> np.round(r @ q, 9) + 0.0
    array([[0., 1.],
           [2., 4.]])
    """
    if mode not in ("full", "r", "economic"):
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic']")
    a = floating(a)
    # LAPACK's reflections for RQ are those for QR with rows and columns in reverse order.
    found = decompositions.qr(np.flip(rules.adjoint(a), (-2, -1)), "reduced" if mode == "economic" else "complete")
    r = np.flip(rules.adjoint(found.R), (-2, -1))
    return r if mode == "r" else (r, np.flip(rules.adjoint(found.Q), (-2, -1)))


_unitary = rules.pure_vjp(lambda a: _by_singular_values(a, lambda left, right, s: left @ right))


def _by_singular_values(a: Any, value: Callable[..., Any]) -> Any:
    left, s, right = decompositions.svd(a, full_matrices=False)
    return value(left, right, s)


def _unitary_backward(a: Any, cotangent: Any) -> tuple[Any]:
    """The map of differentials, which is its own adjoint: u (x - x^H) / (s_i + s_j) v^H, x = u^H da v, and what lies beyond the columns of
    u or of v. It has a limit where singular values are equal."""
    left, s, right = decompositions.svd(a, full_matrices=False)
    inner = rules.adjoint(left) @ cotangent @ rules.adjoint(right)
    found = left @ ((inner - rules.adjoint(inner)) / (s[..., :, None] + s[..., None, :]).astype(a.dtype)) @ right
    rows, columns = a.shape[-2:]
    if rows > columns:
        beyond = cotangent - left @ (rules.adjoint(left) @ cotangent)
        found = found + (beyond @ rules.adjoint(right) / s[..., None, :].astype(a.dtype)) @ right
    elif columns > rows:
        beyond = cotangent - (cotangent @ rules.adjoint(right)) @ right
        found = found + left @ (rules.adjoint(left) @ beyond / s[..., :, None].astype(a.dtype))
    return (found,)


_unitary.defvjp(lambda a: (_unitary(a), a), _unitary_backward)


@_scipy
def polar(a: Any, side: str = "right") -> Any:
    """Equivalent of `scipy.linalg.polar`: u with orthonormal columns or rows, and p positive definite, of a = u @ p, or p @ u for the side
    "left". The derivative (Higham, "Functions of Matrices", 2008, 8.7) is that for matrices of full rank.

    >>> import numpy as np
    >>> u, p = polar(np.array([[0.0, -2.0], [3.0, 0.0]]))
    >>> np.round(p, 9)
    array([[3., 0.],
           [0., 2.]])
    """
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    a = floating(a)
    if a.ndim != 2:
        raise ValueError("`a` must be a 2-D array.")
    u = _unitary(a)
    p = rules.adjoint(u) @ a if side == "right" else a @ rules.adjoint(u)
    return u, 0.5 * (p + rules.adjoint(p))


@_scipy
def orthogonal_procrustes(A: Any, B: Any, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.orthogonal_procrustes`: the orthogonal matrix r that makes A @ r nearest to B, and the sum of the
    singular values of A.T @ B.

    >>> import numpy as np
    >>> r, scale = orthogonal_procrustes(np.eye(2), np.array([[0.0, 1.0], [-1.0, 0.0]]))
    >>> np.round(r, 9) + 0.0
    array([[ 0.,  1.],
           [-1.,  0.]])
    """
    a, b = floating(A), floating(B)
    if a.ndim != 2:
        raise ValueError(f"expected ndim to be 2, but observed {a.ndim}")
    if a.shape != b.shape:
        raise ValueError(f"the shapes of A and B differ ({a.shape} vs {b.shape})")
    product = rules.adjoint(a) @ b
    return _unitary(product), np.sum(decompositions.svdvals(product))


@_scipy
def subspace_angles(A: Any, B: Any) -> Any:
    """Equivalent of `scipy.linalg.subspace_angles`, for matrices of linearly independent columns: angles in descending order.

    >>> import numpy as np
    >>> subspace_angles(np.array([[1.0], [0.0]]), np.array([[1.0], [1.0]])).round(6)
    array([0.785398])
    """
    a, b = floating(A), floating(B)
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError("expected 2D array")
    if a.shape[0] != b.shape[0]:
        raise ValueError(f"A and B must have the same number of rows, got {a.shape[0]} and {b.shape[0]}")
    first, second = decompositions.qr(a).Q, decompositions.qr(b).Q
    shared = rules.adjoint(first) @ second
    cosines = decompositions.svdvals(shared)
    rest = second - first @ shared if a.shape[1] >= b.shape[1] else first - second @ rules.adjoint(shared)
    sines = np.clip(np.flip(decompositions.svdvals(rest)), -1.0, 1.0)
    near = np.square(cosines) >= 0.5
    angles = np.where(near, np.arcsin(np.where(near, sines, 0.0)), np.arccos(np.where(near, 0.0, np.clip(cosines, -1.0, 1.0))))
    return np.flip(angles)
