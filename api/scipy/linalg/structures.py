"""Matrices made of vectors and of blocks, and systems of equations with such matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.linalg import functions as systems
from adjit.linalg.functions import floating
from adjit.scipy.mirror import mirrors
from adjit.tracer.array import as_traced
from adjit.tracer.functions.creation import zeros

_scipy = mirrors("linalg")


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


def _vector(x: Any, name: str) -> Any:
    x = np.atleast_1d(as_traced(x))
    if not x.size:
        raise ValueError(f"{name}: the vector has no elements")
    return x


@_scipy
def circulant(c: Any) -> Any:
    """Equivalent of `scipy.linalg.circulant`: the matrix with the first column `c` whose columns go around.

    >>> import numpy as np
    >>> circulant(np.array([1, 2, 3]))
    array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]])
    """
    c = np.atleast_1d(as_traced(c))
    size = c.shape[-1]
    return np.take(c, (np.arange(size)[:, None] - np.arange(size)) % max(size, 1), axis=-1)


@_scipy
def hankel(c: Any, r: Any = None) -> Any:
    """Equivalent of `scipy.linalg.hankel`: the matrix with the first column `c` and the last row `r` (zeros without it), constant along
    diagonals that go up.

    >>> import numpy as np
    >>> hankel(np.array([1, 2]), np.array([9, 3]))
    array([[1, 2],
           [2, 3]])
    """
    c = np.ravel(as_traced(c))
    r = np.zeros_like(c) if r is None else np.ravel(as_traced(r))
    values = np.concatenate([c, r[1:]])
    return np.take(values, np.arange(c.size)[:, None] + np.arange(r.size))


@_scipy
def companion(a: Any) -> Any:
    """Equivalent of `scipy.linalg.companion`: the matrix whose eigenvalues are the roots of a polynomial, the highest coefficient first.

    >>> import numpy as np
    >>> companion(np.array([1.0, -3.0, 2.0]))
    array([[ 3., -2.],
           [ 1.,  0.]])
    """
    a = floating(a)
    if a.shape[-1] < 2:
        raise ValueError("The length of `a` along the last axis must be at least 2.")
    size = a.shape[-1] - 1
    first = -a[..., 1:] / a[..., :1]
    below = np.broadcast_to(np.eye(size - 1, size, dtype=first.dtype), (*first.shape[:-1], size - 1, size))
    return np.concatenate([first[..., None, :], below], axis=-2)


@_scipy
def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """Equivalent of `scipy.linalg.convolution_matrix`: the matrix whose product with a vector of `n` elements is its convolution with `a`.

    >>> import numpy as np
    >>> convolution_matrix(np.array([1, 2]), 2)
    array([[1, 0],
           [2, 1],
           [0, 2]])
    """
    if n <= 0:
        raise ValueError("n must be a positive integer.")
    if mode not in ("full", "valid", "same"):
        raise ValueError("'mode' argument must be one of ('full', 'valid', 'same')")
    a = _vector(a, "convolution_matrix")
    size = a.shape[-1]
    rows = size + n - 1
    first = 0 if mode == "full" else min(n, size) - 1 if mode == "valid" else (min(n, size) - 1) // 2
    count = rows if mode == "full" else max(n, size) - min(n, size) + 1 if mode == "valid" else max(n, size)
    values = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(n - 1, n - 1)])
    return np.take(values, np.arange(first, first + count)[:, None] - np.arange(n) + n - 1, axis=-1)


@_scipy
def khatri_rao(a: Any, b: Any) -> Any:
    """Equivalent of `scipy.linalg.khatri_rao`: the products of elements of columns.

    >>> import numpy as np
    >>> khatri_rao(np.array([[1, 2], [3, 4]]), np.array([[5, 6]]))
    array([[ 5, 12],
           [15, 24]])
    """
    a, b = as_traced(a), as_traced(b)
    if a.ndim < 2 or b.ndim < 2:
        raise ValueError("The both arrays should be 2-dimensional.")
    if a.shape[-1] != b.shape[-1]:
        raise ValueError("The number of columns for both arrays should be equal.")
    found = a[..., :, None, :] * b[..., None, :, :]
    return np.reshape(found, (*found.shape[:-3], found.shape[-3] * found.shape[-2], found.shape[-1]))


@_scipy
def leslie(f: Any, s: Any) -> Any:
    """Equivalent of `scipy.linalg.leslie`: `f` as the first row, and `s` below the diagonal.

    >>> import numpy as np
    >>> leslie(np.array([1.0, 2.0]), np.array([0.5]))
    array([[1. , 2. ],
           [0.5, 0. ]])
    """
    f, s = np.atleast_1d(as_traced(f)), np.atleast_1d(as_traced(s))
    if f.shape[-1] != s.shape[-1] + 1:
        raise ValueError("Incorrect lengths for f and s. The length of s along the last axis must be one less than the length of f.")
    below = np.pad(s[..., None] * np.eye(s.shape[-1], dtype=s.dtype), [(0, 0)] * (s.ndim - 1) + [(0, 0), (0, 1)])
    return np.concatenate([f[..., None, :], below], axis=-2)


def _first_column_and_row(c_or_cr: Any) -> tuple[Any, Any]:
    if isinstance(c_or_cr, tuple):
        return np.ravel(floating(c_or_cr[0])), np.ravel(floating(c_or_cr[1]))
    column = np.ravel(floating(c_or_cr))
    return column, np.conjugate(column)


@_scipy
def matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: bool = False, workers: int | None = None) -> Any:
    """Equivalent of `scipy.linalg.matmul_toeplitz`: the product of a Toeplitz matrix, given by its first column or (column, row), by
    Fourier transforms.

    >>> import numpy as np
    >>> matmul_toeplitz(np.array([1.0, 2.0]), np.array([3.0, 4.0])).round(9)
    array([11., 10.])
    """
    c, r = _first_column_and_row(c_or_cr)
    x = floating(x)
    if x.shape[0] != r.size:
        raise ValueError("Incompatible dimensions.")
    columns = np.reshape(x, (x.shape[0], -1))
    around = np.concatenate([c, np.flip(r[1:])])
    count: int = around.size
    found: Any
    if "c" in (around.dtype.kind, columns.dtype.kind):
        found = np.fft.ifft(np.fft.fft(around)[:, None] * np.fft.fft(columns, count, axis=0), axis=0)
    else:
        found = np.fft.irfft(np.fft.rfft(around)[:, None] * np.fft.rfft(columns, count, axis=0), count, axis=0)
    return np.reshape(found[:c.size], (c.size, *x.shape[1:]))


@_scipy
def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.solve_toeplitz`, by the factors of the whole matrix.

    >>> import numpy as np
    >>> solve_toeplitz(np.array([2.0, 1.0]), np.array([3.0, 3.0])).round(9)
    array([1., 1.])
    """
    return systems.solve(toeplitz(*_first_column_and_row(c_or_cr)), b)


@_scipy
def solve_circulant(c: Any, b: Any, singular: str = "raise", tol: Any = None, caxis: int = -1, baxis: int = 0, outaxis: int = 0) -> Any:
    """Equivalent of `scipy.linalg.solve_circulant`, of one vector `c` of a matrix that is not singular: by Fourier transforms.

    >>> import numpy as np
    >>> solve_circulant(np.array([2.0, 1.0]), np.array([3.0, 3.0])).round(9)
    array([1., 1.])
    """
    pair: list[Any] = [floating(c), floating(b)]
    c, b = (np.moveaxis(each, axis, -1) for each, axis in zip(pair, (caxis, baxis), strict=True))
    if c.shape[-1] != b.shape[-1]:
        raise ValueError(f"Shapes of c {c.shape} and b {b.shape} are incompatible")
    if c.ndim > 1:
        c = np.reshape(c, (*c.shape[:-1], *(1,) * (b.ndim - 1), c.shape[-1]))
    size = c.shape[-1]
    found: Any
    if "c" in (c.dtype.kind, b.dtype.kind):
        found = np.fft.ifft(np.fft.fft(b) / np.fft.fft(c))
    else:
        found = np.fft.irfft(np.fft.rfft(b) / np.fft.rfft(c), size)
    return np.moveaxis(found, -1, outaxis)


@_scipy
def diagsvd(s: Any, M: int, N: int) -> Any:
    """Equivalent of `scipy.linalg.diagsvd`: the `M` by `N` matrix with the singular values `s` on its diagonal.

    >>> import numpy as np
    >>> diagsvd(np.array([1, 2]), 2, 3)
    array([[1, 0, 0],
           [0, 2, 0]])
    """
    s = as_traced(s)
    if s.shape not in ((M,), (N,)):
        raise ValueError("Length of s must be M or N.")
    return np.pad(np.diag(s), [(0, M - s.size), (0, N - s.size)])


@_scipy
def fiedler(a: Any) -> Any:
    """Equivalent of `scipy.linalg.fiedler`: the matrix of distances of numbers; of stacks of vectors stacks of matrices.

    >>> import numpy as np
    >>> fiedler(np.array([1.0, 4.0]))
    array([[0., 3.],
           [3., 0.]])
    """
    a = np.atleast_1d(as_traced(a))
    if a.size < 2:
        return zeros((a.size,) * 2 if a.size else (0,))
    return np.abs(a[..., :, None] - a[..., None, :])


@_scipy
def fiedler_companion(a: Any) -> Any:
    """Equivalent of `scipy.linalg.fiedler_companion`: a matrix with five diagonals, whose eigenvalues are the roots of the polynomial with
    the coefficients `a`, the leading one first.

    >>> import numpy as np
    >>> fiedler_companion(np.array([1.0, -3.0, 2.0]))
    array([[ 3., -2.],
           [ 1.,  0.]])
    """
    a = np.atleast_1d(floating(a))
    if a.ndim > 1:
        return np.reshape(np.stack([fiedler_companion(row) for row in np.reshape(a, (-1, a.shape[-1]))]),
                          (*a.shape[:-1], a.shape[-1] - 1, a.shape[-1] - 1))
    size = a.size - 1
    if size < 1:
        return zeros((0,), a.dtype)
    places, ones = np.zeros((size, size), np.intp), np.zeros((size, size))       # of which coefficient, if any
    places[range(2, size, 2), range(1, size - 1, 2)] = range(3, size + 1, 2)
    places[range(0, size - 1, 2), range(1, size, 2)] = range(2, size + 1, 2)
    places[0, 0] = 1
    ones[range(3, size, 2), range(1, size - 2, 2)] = 1.0
    ones[range(0, size - 2, 2), range(2, size, 2)] = 1.0
    ones[1:2, 0] = 1.0
    return np.where(places > 0, -np.take(a / a[0], places), ones.astype(a.dtype))
