"""QR factors, singular values, eigenvalues, and what is made of them. They need SciPy, for its LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ShapeError
from adjit.ir.types import real_dtype
from adjit.linalg import rules
from adjit.linalg.functions import floating as as_float
from adjit.linalg.functions import inv, norm, square, stands_for
from adjit.runtime.transforms import stop_gradient
from adjit.tracer.array import TracedArray, as_traced, known_true, wrap
from adjit.tracer.functions.creation import eye, zeros
from adjit.tracer.user_location import find_user_location


def _matrices(a: Any, name: str) -> TracedArray:
    array = as_float(a)
    if array.ndim < 2:
        raise ShapeError(f"{name}: an array of shape {array.shape} is no matrix", find_user_location(), hint="matrices have two dimensions")
    return array


def _real_dtype(a: TracedArray) -> np.dtype:
    return real_dtype(a.dtype)


def _identity(a: TracedArray, size: int) -> Any:
    return np.broadcast_to(eye(size, dtype=a.dtype), (*a.shape[:-2], size, size))


@stands_for(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    """Equivalent of `numpy.linalg.qr`; signs are LAPACK's, the diagonal of r is real.

    The derivative is that for matrices whose first columns are linearly independent. In mode "complete", columns of q beyond those of the
    matrix have none, nor have the results of mode "raw": asking for it is an error.

    >>> import numpy as np
    >>> q, r = qr(np.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> np.round(r, 3)
    array([[-5. , -2.2],
           [ 0. ,  0.4]])
    """
    if mode not in ("reduced", "complete", "r"):
        if mode == "raw":
            return _raw_factors(_matrices(a, "qr"))
        raise ValueError(f"Unrecognized mode '{mode}'")
    array = _matrices(a, "qr")
    rows, columns = array.shape[-2:]
    q: Any
    r: Any
    if array.size:
        q, r = map(wrap, ops.qr.emit(array.value, complete=mode == "complete"))
    else:
        count = rows if mode == "complete" else min(rows, columns)
        q = np.copy(_identity(array, rows)) if mode == "complete" else zeros((*array.shape[:-2], rows, count), array.dtype)
        r = zeros((*array.shape[:-2], count, columns), array.dtype)
    pair: Any = type(np.linalg.qr(np.eye(1)))
    return r if mode == "r" else pair(q, r)


def _raw_factors(a: TracedArray) -> tuple[Any, Any]:
    rows, columns = a.shape[-2:]
    if not a.size:
        return zeros((*a.shape[:-2], columns, rows), a.dtype), zeros((*a.shape[:-2], min(rows, columns)), a.dtype)
    packed, scales = map(wrap, ops.qr_raw.emit(a.value))
    return packed, scales


@stands_for(np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Equivalent of `numpy.linalg.svd`; signs and phases are LAPACK's. NaN where NumPy raises `LinAlgError`.

    Singular vectors beyond those of the singular values (`full_matrices` of tall or wide matrices) have no derivative. Singular values that
    are equal up to rounding count as equal: see the page on derivatives.

    >>> import numpy as np
    >>> u, s, vh = svd(np.diag([1.0, 2.0]))
    >>> s
    array([2., 1.])
    """
    array = _matrices(a, "svd")
    if not compute_uv:
        return svdvals(array) if not hermitian else -np.sort(-np.abs(eigvalsh(array)))
    result: Any = type(np.linalg.svd(np.eye(1)))
    rows, columns = array.shape[-2:]
    if hermitian:
        w, v = eigh(array)
        order = np.argsort(-np.abs(w), axis=-1)
        w, v = np.take_along_axis(w, order, -1), np.take_along_axis(v, order[..., None, :], -1)
        return result(v, np.abs(w), np.conjugate(np.swapaxes(v * np.where(w < 0, -1.0, 1.0).astype(w.dtype)[..., None, :], -2, -1)))
    if array.size:
        return result(*map(wrap, ops.svd.emit(array.value, full=bool(full_matrices))))
    count = min(rows, columns)
    left, right = _identity(array, rows), _identity(array, columns)
    return result(np.copy(left if full_matrices else left[..., :count]), zeros((*array.shape[:-2], count), _real_dtype(array)),
                  np.copy(right if full_matrices else right[..., :count, :]))


def svdvals(x: Any, /) -> Any:
    """Equivalent of `numpy.linalg.svdvals`: singular values in descending order.

    >>> import numpy as np
    >>> svdvals(np.diag([1.0, 2.0]))
    array([2., 1.])
    """
    array = _matrices(x, "svdvals")
    if not array.size:
        return zeros((*array.shape[:-2], min(array.shape[-2:])), _real_dtype(array))
    return wrap(ops.svdvals(array.value))


if hasattr(np.linalg, "svdvals"):
    svdvals = stands_for(np.linalg.svdvals)(svdvals)


def _triangle(uplo: str) -> bool:
    if str(uplo).upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return str(uplo).upper() == "L"


@stands_for(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> Any:
    """Equivalent of `numpy.linalg.eigh`, of symmetric and Hermitian matrices; signs and phases are LAPACK's. NaN where NumPy raises
    `LinAlgError`.

    The derivative is the derivative in a symmetric or Hermitian matrix. Eigenvalues that are equal up to rounding count as equal: see the
    derivatives.

    >>> import numpy as np
    >>> w, v = eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> np.round(w, 9)
    array([1., 3.])
    """
    array, lower = square(a, "eigh"), _triangle(UPLO)
    result: Any = type(np.linalg.eigh(np.eye(1)))
    if not array.size:
        return result(zeros(array.shape[:-1], _real_dtype(array)), np.copy(array))
    return result(*map(wrap, ops.eigh.emit(rules.from_triangle(array).value, lower=lower)))


@stands_for(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """Equivalent of `numpy.linalg.eigvalsh`, of symmetric and Hermitian matrices; derivative as of `eigh`.

    >>> import numpy as np
    >>> np.round(eigvalsh(np.array([[2.0, 1.0], [1.0, 2.0]])), 9)
    array([1., 3.])
    """
    array, lower = square(a, "eigvalsh"), _triangle(UPLO)
    if not array.size:
        return zeros(array.shape[:-1], _real_dtype(array))
    return wrap(ops.eigvalsh(rules.from_triangle(array).value, lower=lower))


@stands_for(np.linalg.eig)
def eig(a: Any) -> Any:
    """Equivalent of `numpy.linalg.eig`; order, signs and phases are LAPACK's. NaN where NumPy raises `LinAlgError`.

    Results for real matrices are real where no eigenvalue has an imaginary part: a decision on values, which the program guards. Where a
    program cannot decide on values (in `vmap`, bodies of loops and branches) and for tensors they are complex always.

    The derivative of vectors is that of vectors of length 1 whose largest component stays real. Eigenvalues that are equal up to rounding
    count as equal: see the page on derivatives. It has no right digit where a matrix has no basis of eigenvectors.

    >>> import numpy as np
    >>> w, v = eig(np.array([[2.0, 1.0], [0.0, 3.0]]))
    >>> w
    array([2., 3.])
    """
    array = square(a, "eig")
    result: Any = type(np.linalg.eig(np.eye(1)))
    if not array.size:
        return result(zeros(array.shape[:-1], array.dtype), np.copy(array))
    w, v = map(wrap, ops.eig.emit(array.value))
    return result(np.real(w), np.real(v)) if _are_real(array, w) else result(w, v)


@stands_for(np.linalg.eigvals)
def eigvals(a: Any) -> Any:
    """Equivalent of `numpy.linalg.eigvals`; real or complex, and with derivatives, as the eigenvalues of `eig`.

    >>> import numpy as np
    >>> eigvals(np.array([[2.0, 1.0], [0.0, 3.0]]))
    array([2., 3.])
    """
    return eig(a)[0]


def _are_real(a: TracedArray, w: Any) -> bool:
    """True for eigenvalues of real matrices without imaginary parts, in this call."""
    return a.dtype.kind == "f" and known_true(as_traced(np.all(np.imag(stop_gradient(w)) == 0)))


@stands_for(np.linalg.matrix_rank)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None, atol: Any = None) -> Any:
    """Equivalent of `numpy.linalg.matrix_rank`: the number of singular values above a tolerance. It has no derivative.

    With `atol`, the larger one of `atol` and `rtol` times the largest singular value, or `atol` alone, as in PyTorch.

    >>> import numpy as np
    >>> int(matrix_rank(np.ones((3, 3))))
    1
    """
    array = stop_gradient(as_float(A))
    if array.ndim < 2:
        return np.any(array != 0).astype(np.int64)
    s = np.abs(eigvalsh(array)) if hermitian else svdvals(array)
    if tol is None:
        default = 0.0 if atol is not None else max(array.shape[-2:]) * float(np.finfo(array.dtype).eps)
        relative = default if rtol is None else as_traced(rtol)[..., None]
        bound = np.max(s, axis=-1, keepdims=True, initial=0.0) * relative
        bound = bound if atol is None else np.maximum(bound, as_traced(atol)[..., None].astype(s.dtype))
    else:
        bound = as_traced(tol)[..., None]
    return np.sum(s > bound, axis=-1)


@stands_for(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    """Equivalent of `numpy.linalg.cond`, for every `p`.

    >>> import numpy as np
    >>> float(cond(np.array([[2.0, 0.0], [0.0, 1.0]]), 1))
    2.0
    """
    array = _matrices(x, "cond")
    if not array.shape[-2] * array.shape[-1]:
        raise np.linalg.LinAlgError("cond is not defined on empty arrays")
    if p in (None, 2, -2):
        s = svdvals(array)
        ratio = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
        return np.where(np.isnan(ratio) & ~np.any(np.isnan(array), axis=(-2, -1)), np.inf, ratio)[()]
    return norm(square(array, "cond"), p, axis=(-2, -1)) * norm(inv(array), p, axis=(-2, -1))
