"""QR factors, singular values and vectors, eigenvalues and eigenvectors of symmetric matrices, of stacks of matrices.

Derivatives: of QR factors after Walter and Lehmann, "Algorithmic differentiation of linear algebra functions with application in optimum
experimental design", 2013; of singular vectors after Townsend, "Differentiating the singular value decomposition", 2016. Values that are
equal up to rounding count as equal: the turn of their vectors within the space that they span gets no derivative. For functions that do not
depend on the choice of these vectors that is the limit; for others there is none.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from adjit.ir.definition import Kind, OpDefinition, Sample, define
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Attributes, Value
from adjit.ir.ops.arithmetic import abs, add, multiply, strong_divide, subtract
from adjit.ir.ops.broadcasting import broadcast
from adjit.ir.ops.comparison import less_equal
from adjit.ir.ops.creation import full_like
from adjit.ir.ops.elementwise_math import scaled
from adjit.ir.ops.factors import triangular_solve
from adjit.ir.ops.matrices import (
    LAPACK,
    along_columns,
    along_rows,
    below,
    diagonal_halved,
    diagonal_of,
    each_matrix,
    lower,
    matrix_samples,
    part,
    product,
    require_matrices,
    require_square,
    sized,
    sum_of,
    turned,
    upper,
)
from adjit.ir.ops.movement import concatenate
from adjit.ir.ops.reduction import reduce_max
from adjit.ir.ops.sampling import uniform
from adjit.ir.ops.selection import select
from adjit.ir.types import TensorType

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
            ct_q, right = sum_of([ct_q, product(y, ct_v, turn_b=True)], q), product(q, ct_v)
            ct_r = part(ct_r, None, (0, rows))
        else:
            right = full_like(part(a, None, (rows, columns)), 0.0)
        r = part(r, None, (0, rows))
    inner = sum_of([None if ct_r is None else product(r, ct_r, turn_b=True),
                    None if ct_q is None else scaled(product(ct_q, q, turn_a=True), -1.0)], r)
    mirrored = add(lower(inner), turned(below(inner)))
    left = sum_of([ct_q, product(q, mirrored)], q)
    found = turned(_solve_upper(r, turned(left)))
    return (found if right is None else concatenate(found, right, axis=a.type.rank - 1),)


def _solve_upper(r: Value, b: Value) -> Value:
    return triangular_solve(r, b, lower=False, transpose=False, unit=False)


def _qr_samples() -> Iterator[Sample]:
    for complete, shapes in ((False, ((4, 4), (2, 5, 3), (3, 5), (1, 1))), (True, ((4, 4), (2, 3, 4)))):
        yield from matrix_samples(*shapes, attrs={"complete": complete})
    yield Sample((uniform((5, 3)),), {"complete": True})


qr: OpDefinition = define(
    "qr", Kind.LINALG, arity=1, attributes={"complete": bool}, external=(LAPACK, "dgeqrf"),
    doc="Orthonormal columns q and an upper triangle r of a = q r; with `complete`, q is square.",
    infer=_infer_qr, evaluate=_evaluate_qr, vjp=_qr_vjp, samples=_qr_samples, numpy=np.linalg.qr)

# -- singular values


def _infer_svd(a: TensorType, *, full: bool) -> tuple[TensorType, ...]:
    require_matrices(a)
    rows, columns = a.shape[-2:]
    count = min(rows, columns)
    return sized(a, rows, rows if full else count), sized(a, count), sized(a, columns if full else count, columns)


def _evaluate_svd(a: np.ndarray, *, full: bool) -> tuple[np.ndarray, ...]:
    u, s, vh = _infer_svd(TensorType(a.dtype, a.shape), full=full)
    return each_matrix(lambda a: tuple(np.linalg.svd(a, full)), a, shapes=(u.shape[-2:], s.shape[-1:], vh.shape[-2:]))


def _svd_vjp(cts: Given, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    (a,), (u, s, vh), (ct_u, ct_s, ct_vh) = operands, results, cts
    rows, columns = a.type.shape[-2:]
    if attrs["full"] and rows != columns:
        if ct_u is not None or ct_vh is not None:
            raise UnsupportedError("svd(full_matrices=True): the singular vectors beyond those of the singular values have no derivative",
                                   hint="full_matrices=False has one")
        u, s, vh = svd.emit(a, full=False)
    inner = diagonal_of(ct_s, _square_like(u)) if ct_s is not None else full_like(_square_like(u), 0.0)
    if ct_u is None and ct_vh is None:
        return (product(product(u, inner), vh),)
    squares = multiply(s, s)
    gap, same = _gaps(squares, s, inner)
    if ct_u is not None:
        turn = product(u, ct_u, turn_a=True)
        inner = add(inner, multiply(_over(subtract(turn, turned(turn)), gap, same), along_columns(s, inner)))
    if ct_vh is not None:
        turn = product(vh, ct_vh, turn_b=True)
        inner = add(inner, multiply(along_rows(s, inner), _over(subtract(turn, turned(turn)), gap, same)))
    found = product(product(u, inner), vh)
    if ct_u is not None and rows > columns:
        outside = subtract(ct_u, product(u, product(u, ct_u, turn_a=True)))
        found = add(found, product(strong_divide(outside, along_columns(s, outside)), vh))
    if ct_vh is not None and columns > rows:
        outside = subtract(ct_vh, product(product(ct_vh, vh, turn_b=True), vh))
        found = add(found, product(u, strong_divide(outside, along_rows(s, outside))))
    return (found,)


def _square_like(u: Value) -> Value:
    """A matrix with a row and a column for each column of `u`, of unknown content."""
    return product(u, u, turn_a=True)


def _gaps(values: Value, sizes: Value, like: Value) -> tuple[Value, Value]:
    """Differences of the value of each column and that of each row; and which of them are rounding: `sizes`, of which the values are
    functions, differ by less than some units in the last place of the largest one."""
    gap = subtract(along_columns(values, like), along_rows(values, like))
    distance = abs(subtract(along_columns(sizes, like), along_rows(sizes, like)))
    rank, count = like.type.rank, like.type.shape[-1]
    largest = broadcast(reduce_max(abs(sizes), axes=(rank - 2,)), shape=like.type.shape, axes=tuple(range(rank - 2)))
    return gap, less_equal(distance, scaled(largest, 4.0 * count * float(np.finfo(like.type.dtype).eps)))


def _over(numerator: Value, gap: Value, same: Value) -> Value:
    """The quotient, 0 where values are the same."""
    return select(same, full_like(numerator, 0.0), strong_divide(numerator, select(same, full_like(gap, 1.0), gap)))


def _svd_samples() -> Iterator[Sample]:
    for full, shapes in ((False, ((4, 4), (2, 5, 3), (3, 5), (1, 1))), (True, ((4, 4), (2, 3, 3)))):
        yield from matrix_samples(*shapes, attrs={"full": full})
    yield Sample((uniform((5, 3)),), {"full": True})
    yield Sample((np.full((3, 2), np.nan),), {"full": False})


svd: OpDefinition = define(
    "svd", Kind.LINALG, arity=1, attributes={"full": bool}, external=(LAPACK, "dgesdd"),
    doc="Left singular vectors as columns, singular values in descending order, right singular vectors as rows; with `full`, both sets of "
        "vectors are square matrices. NaN if the operand has NaN.",
    infer=_infer_svd, evaluate=_evaluate_svd, vjp=_svd_vjp, samples=_svd_samples, numpy=np.linalg.svd)


def _infer_svdvals(a: TensorType) -> TensorType:
    return _infer_svd(a, full=False)[1]


def _evaluate_svdvals(a: np.ndarray) -> np.ndarray:
    return each_matrix(lambda a: np.linalg.svd(a, compute_uv=False), a, shapes=((min(a.shape[-2:]),),))[0]


def _svdvals_vjp(ct: Value, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    u, _, vh = svd.emit(operands[0], full=False)
    return (product(multiply(u, along_columns(ct, u)), vh),)


svdvals: OpDefinition = define(
    "svdvals", Kind.LINALG, arity=1, external=(LAPACK, "dgesdd"), doc="Singular values in descending order. NaN if the operand has NaN.",
    infer=_infer_svdvals, evaluate=_evaluate_svdvals, vjp=_svdvals_vjp,
    samples=lambda: matrix_samples((4, 4), (2, 5, 3), (3, 5), (1, 1)))

# -- eigenvalues of symmetric matrices


def _infer_eigh(a: TensorType, *, lower: bool) -> tuple[TensorType, ...]:
    require_square(a)
    return sized(a, a.shape[-1]), a


def _evaluate_eigh(a: np.ndarray, *, lower: bool) -> tuple[np.ndarray, ...]:
    size = a.shape[-1]
    return each_matrix(lambda a: tuple(np.linalg.eigh(a, "L" if lower else "U")), a, shapes=((size,), (size, size)))


def _eigh_vjp(cts: Given, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    (w, v), (ct_w, ct_v) = results, cts
    if ct_v is None:
        assert ct_w is not None
        found = product(multiply(v, along_columns(ct_w, v)), v, turn_b=True)
    else:
        turn = product(v, ct_v, turn_a=True)
        gap, same = _gaps(w, w, turn)
        inner = _over(turn, gap, same)
        if ct_w is not None:
            inner = add(inner, diagonal_of(ct_w, inner))
        found = product(product(v, inner), v, turn_b=True)
    return (_in_triangle(found, attrs["lower"]),)


def _in_triangle(symmetric: Value, is_lower: bool) -> Value:
    """The derivative in the elements of the triangle that is read, from that in the whole matrix."""
    both = add(symmetric, turned(symmetric))
    return diagonal_halved(lower(both) if is_lower else upper(both))


def _eigh_samples() -> Iterator[Sample]:
    for is_lower in (True, False):
        yield from matrix_samples((4, 4), (2, 3, 3), (1, 1), attrs={"lower": is_lower})


eigh: OpDefinition = define(
    "eigh", Kind.LINALG, arity=1, attributes={"lower": bool}, external=(LAPACK, "dsyevd"),
    doc="Eigenvalues of a symmetric matrix in ascending order, and eigenvectors as columns. Only the lower triangle is read, or the upper "
        "one, and has a derivative.",
    infer=_infer_eigh, evaluate=_evaluate_eigh, vjp=_eigh_vjp, samples=_eigh_samples, numpy=np.linalg.eigh)


def _infer_eigvalsh(a: TensorType, *, lower: bool) -> TensorType:
    return _infer_eigh(a, lower=lower)[0]


def _evaluate_eigvalsh(a: np.ndarray, *, lower: bool) -> np.ndarray:
    return each_matrix(lambda a: np.linalg.eigvalsh(a, "L" if lower else "U"), a, shapes=(a.shape[-1:],))[0]


def _eigvalsh_vjp(ct: Value, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    _, v = eigh.emit(operands[0], **attrs)
    return (_in_triangle(product(multiply(v, along_columns(ct, v)), v, turn_b=True), attrs["lower"]),)


eigvalsh: OpDefinition = define(
    "eigvalsh", Kind.LINALG, arity=1, attributes={"lower": bool}, external=(LAPACK, "dsyevd"),
    doc="Eigenvalues of a symmetric matrix in ascending order. Only the lower triangle is read, or the upper one, and has a derivative.",
    infer=_infer_eigvalsh, evaluate=_evaluate_eigvalsh, vjp=_eigvalsh_vjp, samples=_eigh_samples, numpy=np.linalg.eigvalsh)
