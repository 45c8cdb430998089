"""Cholesky and LU factors, triangular systems, and what is solved with factors, of stacks of matrices.

Derivatives after Giles, "An extended collection of matrix derivative results for forward and reverse mode algorithmic
differentiation", 2008.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from adjit.ir.batching import batch_alike, batched_operands, emit_again, move_axis, reshaped
from adjit.ir.definition import Kind, OpDefinition, Sample, define
from adjit.ir.extension_module import extension_module
from adjit.ir.graph import Attributes, Op, Value
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.arithmetic import add, negative, subtract
from adjit.ir.ops.broadcasting import broadcast, reduce_sum
from adjit.ir.ops.comparison import equal
from adjit.ir.ops.creation import constant, full_like, iota
from adjit.ir.ops.indexing import take_along_axis
from adjit.ir.ops.matrices import (
    BLAS,
    LAPACK,
    adjoint,
    adjoint_product,
    below,
    conjugate,
    diagonal_halved,
    each_matrix,
    hermitian_diagonal,
    index_along,
    lower,
    matrix_samples,
    numbers,
    of_adjoints,
    off_diagonal,
    part,
    positive_definite,
    product,
    require_matrices,
    require_square,
    sized,
    turned,
    upper,
)
from adjit.ir.ops.movement import concatenate
from adjit.ir.ops.sampling import uniform
from adjit.ir.ops.selection import select
from adjit.ir.types import C64, C128, F32, F64, I64, TensorType

scipy: Any = LazyModule("scipy", extra="scipy")


@cache
def lapack(name: str, dtype: np.dtype) -> Callable[..., Any]:
    """Return SciPy's function for a routine of LAPACK, as `get_lapack_funcs` does, but without an import of all of `scipy.linalg`."""
    assert scipy.__version__        # imported, or an error that says what to install
    return getattr(extension_module("scipy.linalg._flapack"), f"{_LETTERS[dtype.char]}{name}")      # type: ignore[no-any-return]


_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


Cotangents = tuple[Value | None, ...]

# -- Cholesky factors and triangular systems


def _evaluate_cholesky(a: np.ndarray) -> np.ndarray:
    return each_matrix(np.linalg.cholesky, a, shapes=(a.shape[-2:],))[0]


def _infer_cholesky(a: TensorType) -> TensorType:
    require_square(a)
    return a


def _cholesky_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> Cotangents:
    (factor,) = results
    inner = hermitian_diagonal(diagonal_halved(_lower_product(factor, ct)))
    left = _solved_upper(conjugate(factor), adjoint(inner))
    both = triangular_solve(conjugate(factor), adjoint(left), lower=True, transpose=True, unit=False)
    return (diagonal_halved(lower(add(both, adjoint(both)))),)


MIN_PARTED = 256
"""Rows from which derivatives of factors leave out products with zeros: products of parts, beside which copies of parts count little."""


def _lower_product(a: Value, b: Value) -> Value:
    """The lower triangle of aᴴ b, for a lower triangle a: large matrices by quarters, of which a third or more is zero."""
    size = a.type.shape[-1]
    if size < MIN_PARTED:
        return lower(adjoint_product(a, b, turn_a=True))
    (top, rest), axis = ((0, size // 2), (size // 2, size)), a.type.rank - 1
    below_a, corner_a, below_b = part(a, rest, top), part(a, rest, rest), part(b, rest, top)
    first = add(_lower_product(part(a, top, top), part(b, top, top)), lower(adjoint_product(below_a, below_b, turn_a=True)))
    last = _lower_product(corner_a, part(b, rest, rest))
    zero = full_like(part(b, top, rest), 0.0)
    return concatenate(concatenate(first, zero, axis=axis),
                       concatenate(adjoint_product(corner_a, below_b, turn_a=True), last, axis=axis), axis=axis - 1)


def _solved_upper(a: Value, b: Value) -> Value:
    """x of aᵀ x = b, for a lower triangle a and an upper triangle b: the columns of large matrices by quarters, each of them with the rows
    that are not zero."""
    size = a.type.shape[-1]
    if size < MIN_PARTED:
        return triangular_solve(a, b, lower=True, transpose=True, unit=False)
    found: list[Value] = []
    for left, right in pairwise(size * quarter // 4 for quarter in range(5)):
        rows, columns = (0, right), (left, right)
        x = triangular_solve(part(a, rows, rows), part(b, rows, columns), lower=True, transpose=True, unit=False)
        rest = [full_like(part(b, (right, size), columns), 0.0)] if right < size else []
        found.append(concatenate(x, *rest, axis=a.type.rank - 2))
    return concatenate(*found, axis=a.type.rank - 1)


cholesky: OpDefinition = define(
    "cholesky", Kind.LINALG, arity=1, external=(LAPACK, "dpotrf"),
    doc="The lower factor L of a = L Lᴴ. Only the lower triangle of the operand is read, and has a derivative. NaN if the matrix is not "
        "positive definite.",
    infer=_infer_cholesky, evaluate=_evaluate_cholesky, vjp=of_adjoints(_cholesky_vjp), numpy=np.linalg.cholesky,
    samples=lambda: iter([*matrix_samples((4, 4), (2, 3, 3), (1, 1), make=positive_definite), Sample((-np.eye(3),))]))


def _infer_triangular(a: TensorType, b: TensorType, **attrs: bool) -> TensorType:
    require_square(a, b)
    return b


def _evaluate_triangular(a: np.ndarray, b: np.ndarray, *, lower: bool, transpose: bool, unit: bool) -> np.ndarray:
    def solve(a: np.ndarray, b: np.ndarray) -> Any:
        if not unit and not np.logical_and.reduce(a.diagonal()):        # SciPy raises an error, BLAS divides by zero
            a = np.where(np.eye(len(a), dtype=bool) & (a == 0), np.nan, a)
        columns = a if a.flags.f_contiguous else a.T        # the transposed matrix, by columns as LAPACK has it
        is_turned = columns is not a
        x, failed = lapack("trtrs", a.dtype)(columns, b, lower=lower != is_turned, trans=int(transpose != is_turned), unitdiag=unit)
        if failed:
            raise np.linalg.LinAlgError
        return x

    return each_matrix(solve, a, b, shapes=(b.shape[-2:],))[0]


def _triangular_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> Cotangents:
    a, _ = operands
    (x,) = results
    of_b = triangular_solve(a, ct, **{**attrs, "transpose": not attrs["transpose"]})
    of_a = negative(product(x, of_b, turn_b=True) if attrs["transpose"] else product(of_b, x, turn_b=True))
    of_a = lower(of_a) if attrs["lower"] else upper(of_a)
    return off_diagonal(of_a) if attrs["unit"] else of_a, of_b


def batch_right_sides(op: Op, operands: Sequence[Value], size: int) -> tuple[Value, ...]:
    """Batching rule of systems of equations: right-hand sides for one matrix are further columns."""
    *matrices, b = batched_operands(op, operands)
    if any(matrices) or not b or not size:      # no columns are none that can be solved for
        return batch_alike(op, operands, size)
    *given, right = operands
    *stack, rows, columns = op.operands[-1].type.shape
    place = len(stack) + 1
    wide = reshaped(move_axis(right, 0, place), (*stack, rows, size * columns))
    (found,) = emit_again(op, (*given, wide))
    return (move_axis(reshaped(found, (*stack, rows, size, columns)), place, 0),)


def _triangular_samples() -> Iterator[Sample]:
    a = positive_definite(2, 4, 4)
    for number in range(8):
        attrs = {"lower": number % 2 == 0, "transpose": number % 4 < 2, "unit": number < 4}
        yield Sample((a[0], uniform((4, 3))), attrs, (0, 1))
        yield Sample((a, uniform((2, 4, 1))), attrs, (0, 1))
        yield Sample((a[0].astype(F32), uniform((4, 2), dtype=F32)), attrs)
        if number in (1, 2, 7):
            yield Sample((positive_definite(4, 4, dtype=C128), numbers((4, 1 + number), C128)), attrs, (0, 1))
            yield Sample((positive_definite(4, 4, dtype=C64), numbers((4, 2), C64)), attrs)
    yield Sample((np.zeros((0, 3, 3)), np.zeros((0, 3, 2))), {"lower": True, "transpose": False, "unit": False})


triangular_solve: OpDefinition = define(
    "triangular_solve", Kind.LINALG, arity=2, attributes={"lower": bool, "transpose": bool, "unit": bool},
    external=(BLAS, "dtrsm"),
    doc="x of a x = b, or of aᵀ x = b with `transpose`. Only one triangle of a is read, without the diagonal, which is 1, if `unit`.",
    infer=_infer_triangular, evaluate=_evaluate_triangular, vjp=_triangular_vjp, samples=_triangular_samples, batch=batch_right_sides)


# -- LU factors


def _infer_lu(a: TensorType) -> tuple[TensorType, ...]:
    require_matrices(a)
    rows, columns = a.shape[-2:]
    return sized(a, columns, rows), sized(a, min(rows, columns), dtype=I64), sized(a, rows, dtype=I64)


def _evaluate_lu(a: np.ndarray) -> tuple[np.ndarray, ...]:
    *stack, rows, columns = a.shape
    count = min(rows, columns)
    factors, pivots, order = (np.empty((*stack, columns, rows), a.dtype), np.empty((*stack, count), I64), np.empty((*stack, rows), I64))
    getrf = lapack("getrf", a.dtype)
    for index in np.ndindex(*stack) if stack else ((),):
        found, swaps, _ = getrf(a[index])
        factors[index], pivots[index] = found.T, swaps
        places = list(range(rows))
        for row, pivot in enumerate(swaps.tolist()):
            if row != pivot:
                places[row], places[pivot] = places[pivot], places[row]
        order[index] = places
    return factors, pivots, order


def _lu_vjp(cts: tuple[Value | None, ...], operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> Cotangents:
    (a,), (packed, _, order), ct = operands, results, cts[0]
    if ct is None:
        return (None,)
    rows, columns = a.type.shape[-2:]
    count = min(rows, columns)
    factors, ct = turned(packed), turned(ct)
    square, ct_square = (part(each, (0, count), (0, count)) for each in (factors, ct))
    ct_lower, ct_upper, rest = below(ct_square), upper(ct_square), None
    if rows > columns:      # L2 = A2 / U
        rest = triangular_solve(square, turned(part(ct, (count, rows))), lower=False, transpose=False, unit=False)
        ct_upper = subtract(ct_upper, upper(product(part(factors, (count, rows)), rest, turn_a=True, turn_b=True)))
        rest = turned(rest)
    elif columns > rows:    # U2 = L \\ A2
        rest = triangular_solve(square, part(ct, None, (count, columns)), lower=True, transpose=True, unit=True)
        ct_lower = subtract(ct_lower, below(product(rest, part(factors, None, (count, columns)), turn_b=True)))
    unit = select(equal(index_along(square, -2), index_along(square, -1)), full_like(square, 1.0), lower(square))
    inner = add(below(product(unit, ct_lower, turn_a=True)), upper(product(ct_upper, upper(square), turn_b=True)))
    left = triangular_solve(square, inner, lower=True, transpose=True, unit=True)
    found = turned(triangular_solve(square, turned(left), lower=False, transpose=False, unit=False))
    if rest is not None:
        found = concatenate(found, rest, axis=a.type.rank - (2 if rows > columns else 1))
    inverse = _inverse_order(order)
    return (take_along_axis(found, broadcast(inverse, shape=a.type.shape, axes=tuple(range(a.type.rank - 1))), axis=a.type.rank - 2),)


def _inverse_order(order: Value) -> Value:
    """Where each row went: for each row of the matrix, the number of the row of the factors."""
    size, rank = order.type.shape[-1], order.type.rank
    shape = (*order.type.shape, size)
    among = equal(broadcast(order, shape=shape, axes=(*range(rank - 1), rank)), iota(dtype=I64, shape=shape, axis=rank - 1))
    zero = constant(value=0, dtype=I64, shape=shape)
    return reduce_sum(select(among, iota(dtype=I64, shape=shape, axis=rank), zero), axes=(rank,))


lu: OpDefinition = define(
    "lu", Kind.LINALG, arity=1, external=(LAPACK, "dgetrf"),
    doc="LU factors with partial pivoting: the transpose of the matrix with U in its upper triangle and, below, L without its diagonal of "
        "ones; the row that each row is swapped with, one after the other; and the order of rows that comes of it, a[order] = L U.",
    infer=_infer_lu, evaluate=_evaluate_lu, vjp=_lu_vjp, samples=lambda: matrix_samples((4, 4), (2, 3, 3), (5, 3), (3, 5), (1, 1)))


def _infer_lu_solve(a: TensorType, factors: TensorType, order: TensorType, b: TensorType, **attrs: bool) -> TensorType:
    require_square(a, factors, b)
    return b


def _evaluate_lu_solve(a: np.ndarray, factors: np.ndarray, order: np.ndarray, b: np.ndarray, *, transpose: bool) -> np.ndarray:
    below, above = {"lower": True, "unit": True}, {"lower": False, "unit": False}
    packed = factors.swapaxes(-1, -2)
    rows = (*np.indices(order.shape, sparse=True)[:-1], order) if order.ndim > 1 else order
    if transpose:
        x = np.empty_like(b)
        half = _evaluate_triangular(packed, b, transpose=True, **above)
        x[rows] = _evaluate_triangular(packed, half, transpose=True, **below)
        return x
    half = _evaluate_triangular(packed, b[rows], transpose=False, **below)
    return _evaluate_triangular(packed, half, transpose=False, **above)


def _lu_solve_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> Cotangents:
    a, factors, order, _ = operands
    (x,) = results
    of_b = lu_solve(a, factors, order, ct, transpose=not attrs["transpose"])
    return negative(product(x, of_b, turn_b=True) if attrs["transpose"] else product(of_b, x, turn_b=True)), None, None, of_b


def _factored(*shape: int, dtype: np.dtype = F64) -> tuple[np.ndarray, ...]:
    a = numbers(shape, dtype)
    return a, *_evaluate_lu(a)


def _lu_solve_samples() -> Iterator[Sample]:
    for transpose in (False, True):
        for shape, count in (((4, 4), 3), ((2, 3, 3), 1), ((5, 5), 1)):
            for dtype in (F64, F32, C128, C64):
                a, factors, _, order = _factored(*shape, dtype=dtype)
                yield Sample((a, factors, order, numbers((*shape[:-1], count), dtype)), {"transpose": transpose})


lu_solve: OpDefinition = define(
    "lu_solve", Kind.LINALG, arity=4, attributes={"transpose": bool}, external=(BLAS, "dtrsm"),
    doc="x of a x = b, or of aᵀ x = b with `transpose`, by the factors and the order of `lu`. These count as constants: the derivative is "
        "that in a, which is not read.",
    infer=_infer_lu_solve, evaluate=_evaluate_lu_solve, vjp=_lu_solve_vjp, samples=_lu_solve_samples, batch=batch_right_sides)


def _infer_lu_inverse(a: TensorType, factors: TensorType, pivots: TensorType) -> TensorType:
    require_square(a, factors)
    return a


def _evaluate_lu_inverse(a: np.ndarray, factors: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    getri, getrs = (lapack(name, factors.dtype) for name in ("getri", "getrs"))

    def invert(factors: np.ndarray) -> Any:
        pivots = next(rows)
        if not np.isfinite(np.sum(np.abs(factors))):        # `getri` loses infinities and NaN where systems of equations do not
            return getrs(factors.T, pivots, np.eye(len(factors), dtype=factors.dtype))[0].T
        inverse, failed = getri(factors.T, pivots)
        return np.full_like(inverse, np.nan) if failed else inverse.T

    rows = iter(pivots.reshape(-1, pivots.shape[-1]))
    return each_matrix(invert, factors, shapes=(a.shape[-2:],))[0]


def _lu_inverse_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> Cotangents:
    (inverse,) = results    # transposed; the derivative of x = a^-1 is -xᵀ ct xᵀ
    return negative(product(product(inverse, ct, turn_b=True), inverse)), None, None


def _lu_inverse_samples() -> Iterator[Sample]:
    for shape in ((4, 4), (2, 3, 3), (1, 1)):
        for dtype in (F64, F32, C128, C64):
            yield Sample(_factored(*shape, dtype=dtype)[:3])


lu_inverse: OpDefinition = define(
    "lu_inverse", Kind.LINALG, arity=3, external=(LAPACK, "dgetri"),
    doc="The transposed inverse of a, by the factors and swaps of `lu`. These count as constants: the derivative is that in a, which is "
        "not read. NaN if the matrix is singular.",
    infer=_infer_lu_inverse, evaluate=_evaluate_lu_inverse, vjp=_lu_inverse_vjp, samples=_lu_inverse_samples)


def _evaluate_inverse(a: np.ndarray, *, transposed: bool) -> np.ndarray:
    factors, pivots, _ = _evaluate_lu(a)
    found = _evaluate_lu_inverse(a, factors, pivots)
    return found if transposed else np.ascontiguousarray(found.swapaxes(-1, -2))


def _inverse_samples() -> Iterator[Sample]:
    for transposed in (False, True):
        for sample in matrix_samples((4, 4), (2, 3, 3), (1, 1)):
            yield Sample(sample.arrays, {"transposed": transposed})
        yield Sample((positive_definite(2, 4, 4),), {"transposed": transposed})
        yield Sample((np.array([[1.0, 2.0], [2.0, 1.0]]),), {"transposed": transposed})


inverse: OpDefinition = define(
    "inverse", Kind.LINALG, arity=1, attributes={"transposed": bool}, external=(LAPACK, "dgetri"),
    doc="The inverse of a, or its transpose, where nothing is differentiated any more, and the factors that it takes are nobody else's: "
        "those of Cholesky if the matrix is symmetric and positive definite. NaN if it is singular.",
    infer=lambda a, transposed: _infer_cholesky(a), evaluate=_evaluate_inverse, vjp=None, samples=_inverse_samples)
