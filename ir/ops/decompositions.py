"""QR factors, singular values and vectors, eigenvalues and eigenvectors of Hermitian matrices, of stacks of matrices.

Derivatives: of QR factors after Walter and Lehmann, "Algorithmic differentiation of linear algebra functions with application in optimum
experimental design", 2013; of singular vectors after Townsend, "Differentiating the singular value decomposition", 2016. Values that are
equal up to rounding count as equal: the turn of their vectors within the space that they span gets no derivative. For functions that do not
depend on the choice of these vectors that is the limit; for others there is none.

The phases of complex vectors are LAPACK's, which makes one component of each vector real (`fix_phases`); R has a real diagonal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from adjit.ir.definition import Kind, NoDerivative, OpDefinition, Sample, define
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Attributes, Value
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.arithmetic import abs, add, divide, multiply, negative, strong_divide, subtract
from adjit.ir.ops.broadcasting import broadcast, reduce_sum
from adjit.ir.ops.comparison import equal, greater, less_equal
from adjit.ir.ops.complex_numbers import conj, imag, real
from adjit.ir.ops.creation import full_like
from adjit.ir.ops.cumulative import argmax
from adjit.ir.ops.elementwise_math import scaled
from adjit.ir.ops.factors import lu, lu_solve, triangular_solve
from adjit.ir.ops.matrices import (
    LAPACK,
    adjoint,
    adjoint_product,
    along_columns,
    along_rows,
    below,
    diagonal_halved,
    diagonal_of,
    diagonal_parts,
    each_matrix,
    hermitian_diagonal,
    in_dtype_of,
    index_along,
    lower,
    matrix_samples,
    numbers,
    of_adjoints,
    off_diagonal,
    part,
    product,
    require_matrices,
    require_square,
    scale_columns,
    scale_rows,
    sized,
    sum_of,
    times_i,
    turned,
    upper,
    where,
)
from adjit.ir.ops.movement import concatenate
from adjit.ir.ops.reduction import reduce_max
from adjit.ir.ops.selection import select
from adjit.ir.types import C128, F64, I64, TensorType, complex_dtype, is_complex, real_dtype

scipy_linalg: Any = LazyModule("scipy.linalg", extra="scipy")

Cotangents = tuple[Value | None, ...]
Given = tuple[Value | None, ...]
Operands = tuple[Value, ...]

# -- QR


def _infer_qr(a: TensorType, *, complete: bool) -> tuple[TensorType, ...]:
    require_matrices(a)
    rows, columns = a.shape[-2:]
    count = rows if complete else min(rows, columns)
    return sized(a, rows, count), sized(a, count, columns)


def _evaluate_qr(a: np.ndarray, *, complete: bool) -> tuple[np.ndarray, ...]:
    q, r = np.linalg.qr(a, "complete" if complete else "reduced")
    return q, r


def _qr_vjp(cts: Given, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    (a,), (q, r), (ct_q, ct_r) = operands, results, cts
    rows, columns = a.type.shape[-2:]
    if attrs["complete"] and rows > columns:
        if ct_q is not None:
            raise UnsupportedError("qr(mode='complete'): the columns of q beyond those of the matrix have no derivative",
                                   hint="mode='reduced' has one")
        q, r = qr.emit(a, complete=False)        # parts of the square ones would seem to have columns that have no derivative
        ct_r = part(ct_r, (0, columns)) if ct_r is not None else None
    right = None
    if columns > rows:      # of a = [x, y] and r = [u, v]: v = qᵀ y
        if ct_r is not None:
            ct_v, y = part(ct_r, None, (rows, columns)), part(a, None, (rows, columns))
            ct_q, right = sum_of([ct_q, adjoint_product(y, ct_v, turn_b=True)], q), product(q, ct_v)
            ct_r = part(ct_r, None, (0, rows))
        else:
            right = full_like(part(a, None, (rows, columns)), 0.0)
        r = part(r, None, (0, rows))
    inner = sum_of([None if ct_r is None else adjoint_product(r, ct_r, turn_b=True),
                    None if ct_q is None else scaled(adjoint_product(ct_q, q, turn_a=True), -1.0)], r)
    mirrored = hermitian_diagonal(add(lower(inner), adjoint(below(inner))))
    left = sum_of([ct_q, product(q, mirrored)], q)
    found = adjoint(_solve_upper(r, adjoint(left)))
    return (found if right is None else concatenate(found, right, axis=a.type.rank - 1),)


def _solve_upper(r: Value, b: Value) -> Value:
    return triangular_solve(r, b, lower=False, transpose=False, unit=False)


def _qr_samples() -> Iterator[Sample]:
    for complete, shapes in ((False, ((4, 4), (2, 5, 3), (3, 5), (1, 1))), (True, ((4, 4), (2, 3, 4)))):
        yield from matrix_samples(*shapes, attrs={"complete": complete})
    for dtype in (F64, C128):
        yield Sample((numbers((5, 3), dtype),), {"complete": True})


qr: OpDefinition = define(
    "qr", Kind.LINALG, arity=1, attributes={"complete": bool}, external=(LAPACK, "dgeqrf"),
    doc="Orthonormal columns q and an upper triangle r, with a real diagonal, of a = q r; with `complete`, q is square.",
    infer=_infer_qr, evaluate=_evaluate_qr, vjp=of_adjoints(_qr_vjp), samples=_qr_samples, numpy=np.linalg.qr)



def _infer_qr_raw(a: TensorType) -> tuple[TensorType, ...]:
    require_matrices(a)
    rows, columns = a.shape[-2:]
    return sized(a, columns, rows), sized(a, min(rows, columns))


def _qr_raw_vjp(cts: Given, operands: Operands, results: Operands, attrs: Attributes) -> tuple[NoDerivative]:
    return (NoDerivative("LAPACK's reflections have no derivative rule, q and r have one"),)


qr_raw: OpDefinition = define(
    "qr_raw", Kind.LINALG, arity=1, external=(LAPACK, "dgeqrf"),
    doc="The reflections whose product is q, and r, as LAPACK packs them, transposed; and the factors of the reflections.",
    infer=_infer_qr_raw, evaluate=lambda a: tuple(np.linalg.qr(a, "raw")), vjp=_qr_raw_vjp,
    samples=lambda: (replace(sample, differentiable=()) for sample in matrix_samples((4, 4), (2, 5, 3), (3, 5), (1, 1))))


def _infer_column_order(a: TensorType) -> TensorType:
    require_matrices(a)
    return sized(a, a.shape[-1], dtype=I64)


def _evaluate_column_order(a: np.ndarray) -> np.ndarray:
    order = np.empty((*a.shape[:-2], a.shape[-1]), I64)
    for index in np.ndindex(a.shape[:-2]):
        order[index] = scipy_linalg.lapack.get_lapack_funcs("geqp3", (a,))(a[index])[1] - 1
    return order


column_order: OpDefinition = define(
    "column_order", Kind.LINALG, arity=1, external=(LAPACK, "dgeqp3"),
    doc="The order of columns in which QR factors have a diagonal of falling sizes: each column is the longest outside of those before.",
    infer=_infer_column_order, evaluate=_evaluate_column_order, vjp=None,
    samples=lambda: (replace(sample, differentiable=()) for sample in matrix_samples((4, 4), (2, 5, 3), (3, 5), (1, 1))))

# -- singular values


def _infer_svd(a: TensorType, *, full: bool) -> tuple[TensorType, ...]:
    require_matrices(a)
    rows, columns = a.shape[-2:]
    count = min(rows, columns)
    s = sized(a, count, dtype=real_dtype(a.dtype))
    return sized(a, rows, rows if full else count), s, sized(a, columns if full else count, columns)


def _evaluate_svd(a: np.ndarray, *, full: bool) -> tuple[np.ndarray, ...]:
    u, s, vh = _infer_svd(TensorType(a.dtype, a.shape), full=full)
    return each_matrix(lambda a: tuple(np.linalg.svd(a, full)), a, shapes=(u.shape[-2:], s.shape[-1:], vh.shape[-2:]),
                       dtypes=(a.dtype, s.dtype, a.dtype))


def _svd_vjp(cts: Given, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    (a,), (u, s, vh), (ct_u, ct_s, ct_vh) = operands, results, cts
    rows, columns = a.type.shape[-2:]
    if attrs["full"] and rows != columns:
        if ct_u is not None or ct_vh is not None:
            raise UnsupportedError("svd(full_matrices=True): the singular vectors beyond those of the singular values have no derivative",
                                   hint="full_matrices=False has one")
        u, s, vh = svd.emit(a, full=False)
    like = _square_like(u)
    inner = in_dtype_of(diagonal_of(ct_s, like), like) if ct_s is not None else full_like(like, 0.0)
    if ct_u is None and ct_vh is None:
        return (product(product(u, inner), vh),)
    if is_complex(u.type.dtype):
        ct_u, ct_vh, inner = _with_phases(ct_u, ct_vh, inner, u, s, vh, rows >= columns)
    squares = multiply(s, s)
    gap, same = _gaps(squares, s, inner)
    if ct_u is not None:
        turn = adjoint_product(u, ct_u, turn_a=True)
        inner = add(inner, scale_columns(_over(subtract(turn, adjoint(turn)), gap, same), s))
    if ct_vh is not None:
        turn = adjoint_product(vh, ct_vh, turn_b=True)
        inner = add(inner, scale_rows(_over(subtract(turn, adjoint(turn)), gap, same), s))
    found = product(product(u, inner), vh)
    if ct_u is not None and rows > columns:
        outside = subtract(ct_u, product(u, adjoint_product(u, ct_u, turn_a=True)))
        found = add(found, product(strong_divide(outside, in_dtype_of(along_columns(s, outside), outside)), vh))
    if ct_vh is not None and columns > rows:
        outside = subtract(ct_vh, product(adjoint_product(ct_vh, vh, turn_b=True), vh))
        found = add(found, product(u, strong_divide(outside, in_dtype_of(along_rows(s, outside), outside))))
    return (found,)


def _with_phases(ct_u: Value | None, ct_vh: Value | None, inner: Value, u: Value, s: Value, vh: Value, tall: bool) -> tuple[Value, ...]:
    """Cotangents of singular vectors and of uᴴ da v, with what the turn of their phases gives.

    The turns of both vectors of a pair differ by the imaginary part of its element of uᴴ da v, over s. LAPACK makes the first component
    of each right vector real, of each left one where the matrix is wide."""
    ct_u, ct_v = ct_u if ct_u is not None else full_like(u, 0.0), adjoint(ct_vh) if ct_vh is not None else full_like(turned(vh), 0.0)
    v = adjoint(vh)
    of_u, of_v = (imag(diagonal_parts(adjoint_product(vectors, ct, turn_a=True))) for vectors, ct in ((u, ct_u), (v, ct_v)))
    both = add(of_u, of_v)
    apart = strong_divide(of_u if tall else negative(of_v), s)
    inner = add(inner, diagonal_of(times_i(apart, inner), inner))
    if tall:
        ct_v = fix_phases(v, ct_v, both, first_rows(v))
    else:
        ct_u = fix_phases(u, ct_u, both, first_rows(u))
    return ct_u, adjoint(ct_v), inner


def _square_like(u: Value) -> Value:
    """A matrix with a row and a column for each column of `u`, of unknown content."""
    return product(u, u, turn_a=True)


PHASE_FLOOR = 1e-3
"""Size of the component that LAPACK makes real, of vectors of length 1, below which the turn of the phase counts as 0: there rounding
would be all that is left of the derivative of a function that does not depend on phases."""


def fix_phases(vectors: Value, ct: Value, turns: Value, real_ones: Value) -> Value:
    """Cotangent of vectors, columns, without their turns by a phase, with the effect of these turns: imaginary parts of the components
    `real_ones` (a mask with one in each column) stay 0. `turns` are the imaginary parts of the diagonal of vectorsᴴ ct."""
    component = reduce_sum(where(real_ones, real(vectors)), axes=(vectors.type.rank - 2,))
    large = greater(abs(component), full_like(component, PHASE_FLOOR))
    pull = select(large, divide(turns, select(large, component, full_like(component, 1.0))), full_like(component, 0.0))
    return subtract(ct, where(real_ones, times_i(along_columns(pull, vectors), vectors)))


def first_rows(vectors: Value) -> Value:
    row = index_along(vectors, -2)
    return equal(row, full_like(row, 0))


def _last_rows(vectors: Value) -> Value:
    row = index_along(vectors, -2)
    return equal(row, full_like(row, vectors.type.shape[-2] - 1))


def _gaps(values: Value, sizes: Value, like: Value) -> tuple[Value, Value]:
    """Differences of the value of each column and that of each row; and which of them are rounding: `sizes`, of which the values are
    functions, differ by less than some units in the last place of the largest one."""
    gap = subtract(along_columns(values, like), along_rows(values, like))
    distance = abs(subtract(along_columns(sizes, like), along_rows(sizes, like)))
    rank, count = like.type.rank, like.type.shape[-1]
    largest = broadcast(reduce_max(abs(sizes), axes=(rank - 2,)), shape=like.type.shape, axes=tuple(range(rank - 2)))
    return gap, less_equal(distance, scaled(largest, 4.0 * count * float(np.finfo(like.type.dtype).eps)))       # `largest` is real


def _over(numerator: Value, gap: Value, same: Value) -> Value:
    """The quotient, 0 where values are the same."""
    return select(same, full_like(numerator, 0.0), strong_divide(numerator, in_dtype_of(select(same, full_like(gap, 1.0), gap), numerator)))


def _svd_samples() -> Iterator[Sample]:
    for full, shapes in ((False, ((4, 4), (2, 5, 3), (3, 5), (1, 1))), (True, ((4, 4), (2, 3, 3)))):
        yield from matrix_samples(*shapes, attrs={"full": full})
    for dtype in (F64, C128):
        yield Sample((numbers((5, 3), dtype),), {"full": True})
        yield Sample((np.full((3, 2), np.nan, dtype),), {"full": False})
    for shape in ((8, 2), (2, 8)):      # LAPACK takes QR factors first
        yield Sample((numbers(shape, C128),), {"full": False}, (0,))


svd: OpDefinition = define(
    "svd", Kind.LINALG, arity=1, attributes={"full": bool}, external=(LAPACK, "dgesdd"),
    doc="Left singular vectors as columns, singular values in descending order, right singular vectors as rows; with `full`, both sets of "
        "vectors are square matrices. NaN if the operand has NaN.",
    infer=_infer_svd, evaluate=_evaluate_svd, vjp=of_adjoints(_svd_vjp), samples=_svd_samples, numpy=np.linalg.svd)


def _infer_svdvals(a: TensorType) -> TensorType:
    return _infer_svd(a, full=False)[1]


def _evaluate_svdvals(a: np.ndarray) -> np.ndarray:
    return each_matrix(lambda a: np.linalg.svd(a, compute_uv=False), a, shapes=((min(a.shape[-2:]),),), dtypes=(real_dtype(a.dtype),))[0]


def _svdvals_vjp(ct: Value, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    u, _, vh = svd.emit(operands[0], full=False)
    return (product(scale_columns(u, ct), vh),)


svdvals: OpDefinition = define(
    "svdvals", Kind.LINALG, arity=1, external=(LAPACK, "dgesdd"), doc="Singular values in descending order. NaN if the operand has NaN.",
    infer=_infer_svdvals, evaluate=_evaluate_svdvals, vjp=of_adjoints(_svdvals_vjp),
    samples=lambda: matrix_samples((4, 4), (2, 5, 3), (3, 5), (1, 1)))

# -- eigenvalues of Hermitian matrices


def _infer_eigh(a: TensorType, *, lower: bool) -> tuple[TensorType, ...]:
    require_square(a)
    return sized(a, a.shape[-1], dtype=real_dtype(a.dtype)), a


def _evaluate_eigh(a: np.ndarray, *, lower: bool) -> tuple[np.ndarray, ...]:
    size = a.shape[-1]
    return each_matrix(lambda a: tuple(np.linalg.eigh(a, "L" if lower else "U")), a, shapes=((size,), (size, size)),
                       dtypes=(real_dtype(a.dtype), a.dtype))


def _eigh_vjp(cts: Given, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    (w, v), (ct_w, ct_v) = results, cts
    if ct_v is None:
        assert ct_w is not None
        found = adjoint_product(scale_columns(v, ct_w), v, turn_b=True)
    else:
        if is_complex(v.type.dtype):        # LAPACK reduces the matrix without touching its first row, or last one
            turns = imag(diagonal_parts(adjoint_product(v, ct_v, turn_a=True)))
            ct_v = fix_phases(v, ct_v, turns, first_rows(v) if attrs["lower"] else _last_rows(v))
        turn = adjoint_product(v, ct_v, turn_a=True)
        gap, same = _gaps(w, w, turn)
        inner = _over(turn, gap, same)
        if ct_w is not None:
            inner = add(inner, in_dtype_of(diagonal_of(ct_w, inner), inner))
        found = adjoint_product(product(v, inner), v, turn_b=True)
    return (_in_triangle(found, attrs["lower"]),)


def _in_triangle(whole: Value, is_lower: bool) -> Value:
    """The derivative in the elements of the triangle that is read, from that in the whole matrix."""
    both = add(whole, adjoint(whole))
    return diagonal_halved(lower(both) if is_lower else upper(both))


def _eigh_samples() -> Iterator[Sample]:
    for is_lower in (True, False):
        yield from matrix_samples((4, 4), (2, 3, 3), (1, 1), attrs={"lower": is_lower})


eigh: OpDefinition = define(
    "eigh", Kind.LINALG, arity=1, attributes={"lower": bool}, external=(LAPACK, "dsyevd"),
    doc="Eigenvalues of a Hermitian matrix in ascending order, and eigenvectors as columns. Only the lower triangle is read, or the upper "
        "one, and has a derivative.",
    infer=_infer_eigh, evaluate=_evaluate_eigh, vjp=of_adjoints(_eigh_vjp), samples=_eigh_samples, numpy=np.linalg.eigh)


def _infer_eigvalsh(a: TensorType, *, lower: bool) -> TensorType:
    return _infer_eigh(a, lower=lower)[0]


def _evaluate_eigvalsh(a: np.ndarray, *, lower: bool) -> np.ndarray:
    return each_matrix(lambda a: np.linalg.eigvalsh(a, "L" if lower else "U"), a, shapes=(a.shape[-1:],), dtypes=(real_dtype(a.dtype),))[0]


def _eigvalsh_vjp(ct: Value, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    _, v = eigh.emit(operands[0], **attrs)
    return (_in_triangle(adjoint_product(scale_columns(v, ct), v, turn_b=True), attrs["lower"]),)


eigvalsh: OpDefinition = define(
    "eigvalsh", Kind.LINALG, arity=1, attributes={"lower": bool}, external=(LAPACK, "dsyevd"),
    doc="Eigenvalues of a Hermitian matrix in ascending order. Only the lower triangle is read, or the upper one, and has a derivative.",
    infer=_infer_eigvalsh, evaluate=_evaluate_eigvalsh, vjp=of_adjoints(_eigvalsh_vjp), samples=_eigh_samples, numpy=np.linalg.eigvalsh)

# -- eigenvalues of general matrices


def _infer_eig(a: TensorType) -> tuple[TensorType, ...]:
    require_square(a)
    dtype = a.dtype if is_complex(a.dtype) else complex_dtype(a.dtype)
    return sized(a, a.shape[-1], dtype=dtype), a.with_dtype(dtype)


def _evaluate_eig(a: np.ndarray) -> tuple[np.ndarray, ...]:
    w, v = _infer_eig(TensorType(a.dtype, a.shape))
    return each_matrix(lambda a: tuple(np.linalg.eig(a)), a, shapes=(w.shape[-1:], v.shape[-2:]), dtypes=(w.dtype, v.dtype))


def _eig_vjp(cts: Given, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    """Of dw = diag(M) and dv = v (M / gaps) + v diag(d), with M = v^-1 da v: LAPACK makes vectors of length 1 whose largest component is
    real, which gives d."""
    (a,), (w, v), (ct_w, ct_v) = operands, results, cts
    inner = diagonal_of(ct_w, v) if ct_w is not None else full_like(v, 0.0)
    if ct_v is not None:
        along = diagonal_parts(adjoint_product(v, ct_v, turn_a=True))
        ct_v = fix_phases(v, subtract(ct_v, scale_columns(v, real(along))), imag(along), _largest_rows(v))
        turn = adjoint_product(v, ct_v, turn_a=True)
        gap, same = _gaps(w, w, turn)
        inner = add(inner, off_diagonal(_over(turn, conj(gap), same)))
    factors, _, order = lu.emit(v)
    rest = product(inner, adjoint(v))
    found = conj(lu_solve(v, factors, order, conj(rest), transpose=True))
    return (found if is_complex(a.type.dtype) else real(found),)


def _largest_rows(vectors: Value) -> Value:
    """Mask of the largest component of each column, the first one of several."""
    rank = vectors.type.rank
    largest = argmax(abs(vectors), axis=rank - 2)
    return equal(index_along(vectors, -2), along_columns(largest, vectors))


def _eig_samples() -> Iterator[Sample]:
    yield from matrix_samples((4, 4), (2, 3, 3), (1, 1))
    for dtype in (F64, C128):
        yield Sample((np.full((2, 2), np.nan, dtype),))
        yield Sample((np.diag(np.arange(3.0)).astype(dtype),))


eig: OpDefinition = define(
    "eig", Kind.LINALG, arity=1, external=(LAPACK, "dgeev"), first_alone="eigvals",
    doc="Complex eigenvalues of a square matrix, and eigenvectors of length 1 as columns, whose largest component is real. NaN if the "
        "operand is not finite.",
    infer=_infer_eig, evaluate=_evaluate_eig, vjp=of_adjoints(_eig_vjp), samples=_eig_samples)


def _evaluate_eigvals(a: np.ndarray) -> np.ndarray:
    w, _ = _infer_eig(TensorType(a.dtype, a.shape))
    return each_matrix(np.linalg.eigvals, a, shapes=(w.shape[-1:],), dtypes=(w.dtype,))[0]


eigvals: OpDefinition = define(
    "eigvals", Kind.LINALG, arity=1, external=(LAPACK, "dgeev"),
    doc="The first result of `eig` alone, where nothing is differentiated any more: in another order, perhaps.",
    infer=lambda a: _infer_eig(a)[0], evaluate=_evaluate_eigvals, vjp=None,
    samples=lambda: (replace(sample, differentiable=()) for sample in _eig_samples()))
