"""Functions of `torch.linalg` that `numpy.linalg` lacks, for plain arrays, traced arrays and tensors; and the methods of tensors of linear
algebra."""

from __future__ import annotations

import functools
import inspect
import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adjit.eager.methods import add_methods
from adjit.eager.tensor import Tensor
from adjit.ir import ops
from adjit.ir.errors import ShapeError
from adjit.ir.lazy_module import LazyModule
from adjit.ir.types import I64
from adjit.linalg import decompositions, functions, least_squares
from adjit.linalg.failures import check_factored
from adjit.linalg.functions import floating, square
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions.creation import eye
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location

if TYPE_CHECKING:
    from adjit.scipy import linalg as scipy_linalg
else:
    scipy_linalg = LazyModule("adjit.scipy.linalg")

Array = Any


_cholesky_of: Any = inspect.unwrap(functions.cholesky)
_inv_of: Any = inspect.unwrap(functions.inv)
_solve_of: Any = inspect.unwrap(functions.solve)
_slogdet_of: Any = inspect.unwrap(functions.slogdet)
_svd_of: Any = inspect.unwrap(decompositions.svd)
_svdvals_of: Any = inspect.unwrap(decompositions.svdvals)
_qr_of: Any = inspect.unwrap(decompositions.qr)


def _triangular(a: Array, b: Array, lower: bool = False, turned: bool = False) -> Array:
    """Solution of a triangular system over traced arrays."""
    return inspect.unwrap(functions._solve_triangular)(a, b, turned, lower)


class WithInfo(NamedTuple):
    """A result, and for each matrix of the stack 0 where there is one, else a positive number."""

    result: Any
    info: Any


class FactorsAndInfo(NamedTuple):
    """A Cholesky factor, and for each matrix of the stack 0 where there is one, else a positive number."""

    L: Any
    info: Any


class LU(NamedTuple):
    """Factors of `a = P @ L @ U`."""

    P: Any
    L: Any
    U: Any


class PackedLU(NamedTuple):
    """LU factors in one matrix, and the row that each row was swapped with, counted from 1."""

    LU: Any
    pivots: Any


class PackedLUAndInfo(NamedTuple):
    """As `PackedLU`, and for each matrix of the stack 0 where it is regular, else 1."""

    LU: Any
    pivots: Any
    info: Any


def _t(a: Array) -> Array:
    return np.swapaxes(a, -2, -1)


def _adjoint(a: Array) -> Array:
    return np.conjugate(_t(a))


def _info(result: Array) -> Array:
    """1 for the matrices that are not finite, else 0."""
    return (~np.all(np.isfinite(result), axis=(-2, -1))).astype(np.int32)


@dispatched
def cholesky_ex(a: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """Cholesky factors, and for each matrix of the stack 0 where it is positive definite, else 1; its factor is NaN then.

    >>> int(cholesky_ex(-np.eye(2)).info)
    1
    """
    factor = _cholesky_of(a, upper=upper)
    return FactorsAndInfo(factor, _info(factor))


@dispatched
def inv_ex(a: Any, *, check_errors: bool = False) -> Any:
    """Inverses, and for each matrix of the stack 0 where there is one, else 1.

    >>> int(inv_ex(np.zeros((2, 2))).info)
    1
    """
    result = _inv_of(a)
    return WithInfo(result, _info(result))


@dispatched
def solve_ex(a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """Solutions as of `solve`, and for each matrix of the stack 0 where it is regular, else 1.

    >>> int(solve_ex(np.zeros((2, 2)), np.ones((2, 1))).info)
    1
    """
    result = _solve_of(a, b) if left else _t(_solve_of(_t(as_traced(a)), _t(as_traced(b))))
    return WithInfo(result, _info(result if as_traced(b).ndim > 1 else result[..., None]))


@dispatched
def lu(a: Any, *, pivot: bool = True) -> Any:
    """LU factors with partial pivoting: `a = P @ L @ U`, for matrices (..., m, n).

    >>> lu(np.array([[0.0, 1.0], [2.0, 4.0]])).U
    array([[2., 4.],
           [0., 1.]])
    """
    _check_pivot(pivot)
    packed, _, order = _packed(a, "lu")
    rows, columns = packed.shape[-2:]
    count = min(rows, columns)
    lower = np.tril(packed[..., :count], -1) + eye(rows, count, dtype=packed.dtype)
    places = np.argsort(order, axis=-1)[..., :, None] == np.arange(rows)
    return LU(places.astype(packed.dtype), lower, np.triu(packed[..., :count, :]))


@dispatched
def lu_factor(a: Any, *, pivot: bool = True) -> Any:
    """LU factors in one matrix, and the row that each row was swapped with, counted from 1, int32.

    >>> lu_factor(np.array([[0.0, 1.0], [2.0, 4.0]])).pivots
    array([2, 2], dtype=int32)
    """
    _check_pivot(pivot)
    packed, pivots, _ = _packed(a, "lu_factor")
    return PackedLU(packed, (pivots + 1).astype(np.int32))


@dispatched
def lu_factor_ex(a: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """LU factors as of `lu_factor`, and for each matrix of the stack 0 where it is regular, else 1.

    >>> int(lu_factor_ex(np.zeros((2, 2)))[2])
    1
    """
    _check_pivot(pivot)
    packed, pivots, _ = _packed(a, "lu_factor_ex")
    singular = np.any(np.diagonal(packed, axis1=-2, axis2=-1) == 0, axis=-1)
    return PackedLUAndInfo(packed, (pivots + 1).astype(np.int32), singular.astype(np.int32))


def _check_pivot(pivot: bool) -> None:
    if not pivot:
        raise ValueError("lu factors without pivoting are not supported: leave out pivot=False")


def _packed(a: Any, name: str) -> tuple[Array, Array, Array]:
    """LU factors in one matrix, the swaps, and the order of rows."""
    a = floating(a)
    if a.ndim < 2:
        raise ShapeError(f"{name}: an array of shape {a.shape} is no matrix", find_user_location(), hint="matrices have two dimensions")
    factors, pivots, order = map(wrap, ops.lu.emit(a.value))
    return _t(factors), pivots, order


def _permutation(pivots: Array, size: int) -> Array:
    """Order of rows that swaps, counted from 1, make."""
    swaps = np.moveaxis(as_traced(pivots).astype(I64) - 1, -1, 0)
    rows = np.arange(size)
    order = np.broadcast_to(as_traced(rows), (*swaps.shape[1:], size))
    for i in range(swaps.shape[0]):
        other = swaps[i][..., None]
        second = np.take_along_axis(order, other, axis=-1)
        order = np.where(rows == i, second, np.where(rows == other, order[..., i:i + 1], order))
    return order


@dispatched
def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """Solution of `A @ X = B` (of `X @ A = B` with `left=False`, of the adjoint of A with `adjoint`) by what `lu_factor` gives for A.

    >>> lu_solve(*lu_factor(np.array([[0.0, 1.0], [2.0, 4.0]])), np.array([[1.0], [6.0]]))
    array([[1.],
           [1.]])
    """
    packed, right = square(LU, "lu_solve"), as_traced(B)
    if not left:
        return _adjoint(_lu_solve(packed, pivots, _adjoint(right), not adjoint))
    return _lu_solve(packed, pivots, right, adjoint)


def _lu_solve(packed: Array, pivots: Array, right: Array, adjoint: bool) -> Array:
    size = packed.shape[-1]
    order = _permutation(pivots, size)
    unit = np.where(np.eye(size, dtype=bool), np.asarray(1.0, packed.dtype), np.tril(packed))
    upper = np.triu(packed)
    if adjoint:
        half = _triangular(_adjoint(unit), _triangular(_adjoint(upper), right, lower=True))
        return np.take_along_axis(half, np.broadcast_to(np.argsort(order, axis=-1)[..., None], half.shape), axis=-2)
    stack = np.broadcast_shapes(right.shape[:-2], order.shape[:-1])
    right = np.broadcast_to(right, (*stack, *right.shape[-2:]))
    moved = np.take_along_axis(right, np.broadcast_to(order[..., None], right.shape), axis=-2)
    return _triangular(upper, _triangular(unit, moved, lower=True))


@dispatched
def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """P, L and U of what `lu_factor` gives.

    >>> lu_unpack(*lu_factor(np.array([[0.0, 1.0], [2.0, 4.0]])))[1]
    array([[1., 0.],
           [0., 1.]])
    """
    packed = as_traced(LU_data)
    rows, columns = packed.shape[-2:]
    count = min(rows, columns)
    order = _permutation(LU_pivots, rows)
    return LU((np.argsort(order, axis=-1)[..., :, None] == np.arange(rows)).astype(packed.dtype),
              np.tril(packed[..., :count], -1) + eye(rows, count, dtype=packed.dtype), np.triu(packed[..., :count, :]))


def matrix_exp(A: Any) -> Any:
    """Exponential of matrices (..., n, n).

    >>> matrix_exp(np.zeros((2, 2)))
    array([[1., 0.],
           [0., 1.]])
    """
    return scipy_linalg.expm(A)


@dispatched
def vander(x: Any, N: int | None = None) -> Any:
    """Vandermonde matrices: powers 0 to `N - 1` of the elements of vectors (..., n), by default n of them.

    >>> vander(np.array([2.0, 3.0]), N=3)
    array([[1., 2., 4.],
           [1., 3., 9.]])
    """
    x = as_traced(x)
    count = x.shape[-1] if N is None else operator.index(N)
    first = np.ones_like(x)[..., None]
    if count <= 1:
        return first[..., :count]
    return np.concatenate([first, np.cumprod(np.broadcast_to(x[..., None], (*x.shape, count - 1)), axis=-1)], axis=-1)


def matmul(input: Any, other: Any) -> Any:
    """Products of matrices, as `adjit.matmul`; a vector is a row on the left and a column on the right.

    >>> matmul(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 1.0]))
    array([3., 7.])
    """
    return FUNCTIONS[np.matmul](input, other)


@dispatched
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """Inner products of vectors along `dim`, the first ones conjugated.

    >>> vecdot(np.eye(2), np.ones((2, 2)))
    array([1., 1.])
    """
    return np.sum(np.conjugate(as_traced(x)) * as_traced(y), axis=dim)


@dispatched
def householder_product(A: Any, tau: Any) -> Any:
    """First n columns of the product of k Householder reflections `1 - tau v v^H`, whose vectors are below the diagonal of A (..., m, n).

    >>> householder_product(np.array([[1.0], [0.0]]), np.array([2.0]))
    array([[-1.],
           [ 0.]])
    """
    a, scales = floating(A), as_traced(tau)
    rows, columns = a.shape[-2:]
    product: Array = np.broadcast_to(eye(rows, columns, dtype=a.dtype), a.shape)
    for i in reversed(range(scales.shape[-1])):
        product = _reflected(a, scales, i, product, False)
    return product


def _reflected(a: Array, scales: Array, i: int, x: Array, adjoint: bool) -> Array:
    """`(1 - tau v v^H) @ x` of reflection number `i`."""
    rows = np.arange(a.shape[-2])
    vector = np.where(rows > i, a[..., :, i], (rows == i).astype(a.dtype))[..., None]
    scale = scales[..., i, None, None]
    return x - (np.conjugate(scale) if adjoint else scale) * (vector @ (_adjoint(vector) @ x))


@dispatched
def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """`Q @ other` (`other @ Q` with `left=False`), Q the whole product of the Householder reflections of `geqrf`; of Q^H with `transpose`.

    >>> ormqr(np.array([[1.0], [0.0]]), np.array([2.0]), np.ones((2, 1)))
    array([[-1.],
           [ 1.]])
    """
    a, scales, x = floating(input), as_traced(tau), as_traced(other)
    if not left:
        x, transpose = _adjoint(x), not transpose
    count = scales.shape[-1]
    for i in range(count) if transpose else reversed(range(count)):
        x = _reflected(a, scales, i, x, transpose)
    return x if left else _adjoint(x)


@dispatched
def geqrf(input: Any) -> Any:
    """Householder reflections of a QR factorisation, as LAPACK has them: matrices, and the scales of the reflections.

    >>> geqrf(np.array([[3.0], [4.0]]))[0].round(6)
    array([[-5. ],
           [ 0.5]])
    """
    packed, scales = _qr_of(floating(input), "raw")
    return _t(packed), scales


@dispatched
def logdet(a: Any) -> Any:
    """Logarithm of the determinant: NaN where it is negative.

    >>> float(logdet(np.eye(2)))
    0.0
    """
    sign, logarithm = _slogdet_of(a)
    return np.where(sign < 0, np.asarray(np.nan, logarithm.dtype), logarithm)


@dispatched
def cholesky_solve(input: Any, L: Any, upper: bool = False) -> Any:
    """Solution of `a @ x = input`, by the Cholesky factor of `a`.

    >>> cholesky_solve(np.ones((1, 1)), 2 * np.eye(1))
    array([[0.25]])
    """
    lower = _adjoint(as_traced(L)) if upper else as_traced(L)
    return _triangular(_adjoint(lower), _triangular(lower, input, lower=True))


@dispatched
def cholesky_inverse(L: Any, upper: bool = False) -> Any:
    """Inverse of a matrix by its Cholesky factor.

    >>> cholesky_inverse(2 * np.eye(1))
    array([[0.25]])
    """
    factor = square(L, "cholesky_inverse")
    return inspect.unwrap(cholesky_solve)(np.broadcast_to(eye(factor.shape[-1], dtype=factor.dtype), factor.shape), factor, upper)


@dispatched
def triangular_solve(b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
    """Solution of `A @ x = b` for a triangular matrix, and that matrix.

    >>> triangular_solve(np.ones((1, 1)), 2 * np.eye(1))[0]
    array([[0.5]])
    """
    a: Array = as_traced(A)
    if unitriangular:
        a = np.where(np.eye(a.shape[-1], dtype=bool), np.asarray(1.0, a.dtype), a)
    return _triangular(a, b, lower=not upper, turned=bool(transpose)), np.copy(as_traced(A))


@dispatched
def svd(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """Singular value decomposition `input = u @ diag(s) @ v^H`, as `torch.svd` gives it: v instead of v^H.

    >>> svd(np.diag([1.0, 2.0]))[1]
    array([2., 1.])
    """
    if not compute_uv:
        s = _svdvals_of(input)
        a = as_traced(input)
        rows, columns = a.shape[-2:]
        return np.zeros((*a.shape[:-2], rows, rows), a.dtype), s, np.zeros((*a.shape[:-2], columns, columns), a.dtype)
    u, s, vh = _svd_of(input, full_matrices=not some)
    return u, s, _adjoint(vh)


def _install() -> None:
    named: dict[str, Any] = {
        "matrix_exp": matrix_exp, "logdet": logdet, "cholesky_solve": cholesky_solve, "cholesky_inverse": cholesky_inverse,
        "triangular_solve": triangular_solve, "svd": svd, "geqrf": geqrf, "ormqr": ormqr, "orgqr": householder_product,
        "det": functions.det, "slogdet": functions.slogdet, "inverse": functions.inv, "matrix_power": functions.matrix_power}
    add_methods({name: inspect.unwrap(function) for name, function in named.items()} | {
        "cholesky": _cholesky, "pinverse": _pinverse, "qr": _qr, "lu": _lu, "lu_solve": _lu_solved})
    Tensor.cholesky = _checking(Tensor.cholesky, np.linalg.cholesky)       # type: ignore[method-assign]
    Tensor.inverse = _checking(Tensor.inverse, np.linalg.inv)       # type: ignore[method-assign]


def _checking(method: Any, function: Any) -> Any:
    """The method, which raises an error for a matrix that NumPy's `function` cannot factor."""
    @functools.wraps(method)
    def call(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        if not is_tracing():
            check_factored(function, self.array, result.array)
        return result

    return call


def _cholesky(a: Array, upper: bool = False) -> Array:
    """Cholesky factor L of `a = L @ L^H`; with `upper` its adjoint."""
    return _cholesky_of(a, upper=upper)


def _pinverse(a: Array, rcond: float = 1e-15) -> Array:
    """Pseudoinverse; singular values up to `rcond` times the largest one count as 0."""
    return least_squares.pinv(a, rcond)


def _qr(a: Array, some: bool = True) -> Any:
    """QR factors; with `some=False`, Q is square."""
    return _qr_of(a, "reduced" if some else "complete")


def _lu(a: Array, pivot: bool = True, get_infos: bool = False) -> Any:
    """LU factors in one matrix, and the row that each row was swapped with, from 1; with `get_infos` also a zero for each matrix."""
    packed, pivots = inspect.unwrap(lu_factor)(a, pivot=pivot)
    return (packed, pivots, np.zeros(packed.shape[:-2], np.int32)) if get_infos else (packed, pivots)


def _lu_solved(b: Array, LU_data: Array, LU_pivots: Array) -> Array:
    """Solution of `A @ x = b` by what `lu` gives for A."""
    return inspect.unwrap(lu_solve)(LU_data, LU_pivots, b)


_install()
