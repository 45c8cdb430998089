"""What the records of matrix ops share: triangles, products and parts of matrices in ops; types; stacks in NumPy; samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from adjit.ir.definition import Sample, VectorJacobianProduct
from adjit.ir.errors import ShapeError
from adjit.ir.graph import Attributes, Value
from adjit.ir.ops.arithmetic import add, multiply
from adjit.ir.ops.broadcasting import broadcast, reduce_sum
from adjit.ir.ops.comparison import equal, greater, greater_equal, less_equal
from adjit.ir.ops.complex_numbers import conj, real
from adjit.ir.ops.contraction import matmul
from adjit.ir.ops.creation import full_like, iota
from adjit.ir.ops.elementwise_math import scaled
from adjit.ir.ops.movement import slice, transpose
from adjit.ir.ops.rules import INEXACT, require, require_dtype
from adjit.ir.ops.sampling import uniform
from adjit.ir.ops.selection import convert, select
from adjit.ir.types import C64, C128, F32, F64, I64, TensorType, is_complex

LAPACK, BLAS = "scipy.linalg.cython_lapack", "scipy.linalg.cython_blas"

# -- matrices, in ops


def turned(a: Value) -> Value:
    rank = a.type.rank
    return transpose(a, permutation=(*range(rank - 2), rank - 1, rank - 2))


def product(a: Value, b: Value, turn_a: bool = False, turn_b: bool = False) -> Value:
    return matmul(a, b, transpose_a=turn_a, transpose_b=turn_b)


def conjugate(a: Value) -> Value:
    return conj(a) if is_complex(a.type.dtype) else a


def adjoint(a: Value) -> Value:
    return conjugate(turned(a))


def adjoint_product(a: Value, b: Value, turn_a: bool = False, turn_b: bool = False) -> Value:
    """Product of matrices, or of their conjugate transposes."""
    return product(conjugate(a) if turn_a else a, conjugate(b) if turn_b else b, turn_a, turn_b)


def real_part(a: Value) -> Value:
    return real(a) if is_complex(a.type.dtype) else a


def of_adjoints(rule: VectorJacobianProduct) -> VectorJacobianProduct:
    """The derivative rule of an op that is not holomorphic, from one in which cotangents are paired as Re(conj(ct) t)."""
    def vjp(ct: Any, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Any, ...]:
        given = tuple(None if each is None else conjugate(each) for each in ct) if isinstance(ct, tuple) else conjugate(ct)
        return tuple(conjugate(found) if isinstance(found, Value) else found for found in rule(given, operands, results, attrs))

    return vjp


def in_dtype_of(values: Value, like: Value) -> Value:
    """Real values as complex ones beside complex ones."""
    return values if values.type.dtype == like.type.dtype else convert(values, dtype=like.type.dtype)


def index_along(a: Value, axis: int) -> Value:
    """The row (axis -2) or column (axis -1) of each element."""
    return iota(dtype=I64, shape=a.type.shape, axis=a.type.rank + axis)


def where(condition: Value, a: Value) -> Value:
    return select(condition, a, full_like(a, 0.0))


def lower(a: Value) -> Value:
    return where(greater_equal(index_along(a, -2), index_along(a, -1)), a)


def below(a: Value) -> Value:
    return where(greater(index_along(a, -2), index_along(a, -1)), a)


def upper(a: Value) -> Value:
    return where(less_equal(index_along(a, -2), index_along(a, -1)), a)


def diagonal_halved(a: Value) -> Value:
    return select(equal(index_along(a, -2), index_along(a, -1)), scaled(a, 0.5), a)


def hermitian_diagonal(a: Value) -> Value:
    """The matrix with the real parts of its diagonal."""
    if not is_complex(a.type.dtype):
        return a
    return select(equal(index_along(a, -2), index_along(a, -1)), in_dtype_of(real(a), a), a)


def off_diagonal(a: Value) -> Value:
    return select(equal(index_along(a, -2), index_along(a, -1)), full_like(a, 0.0), a)


def diagonal_of(values: Value, like: Value) -> Value:
    return where(equal(index_along(like, -2), index_along(like, -1)), along_columns(values, like))


def along_columns(values: Value, like: Value) -> Value:
    """A row of numbers, [*stack, k], repeated in each row of a matrix."""
    rank = like.type.rank
    return broadcast(values, shape=like.type.shape, axes=(*range(rank - 2), rank - 1))


def along_rows(values: Value, like: Value) -> Value:
    return broadcast(values, shape=like.type.shape, axes=tuple(range(like.type.rank - 1)))


def scale_columns(a: Value, factors: Value) -> Value:
    return multiply(a, in_dtype_of(along_columns(factors, a), a))


def scale_rows(a: Value, factors: Value) -> Value:
    return multiply(a, in_dtype_of(along_rows(factors, a), a))


def diagonal_parts(a: Value) -> Value:
    """The diagonal of square matrices, [*stack, n]."""
    return reduce_sum(where(equal(index_along(a, -2), index_along(a, -1)), a), axes=(a.type.rank - 2,))


def times_i(a: Value, like: Value) -> Value:
    """Real values times i."""
    return multiply(in_dtype_of(a, like), full_like(in_dtype_of(a, like), 1j))


def part(a: Value, rows: tuple[int, int] | None = None, columns: tuple[int, int] | None = None) -> Value:
    """Rows and columns of a matrix, from one number up to another."""
    *stack, height, width = a.type.shape
    (top, bottom), (left, right) = rows or (0, height), columns or (0, width)
    if (top, bottom, left, right) == (0, height, 0, width):
        return a
    return slice(a, start=(*(0 for _ in stack), top, left), stop=(*stack, bottom, right), step=(1,) * a.type.rank)


def sum_of(values: list[Value | None], like: Value) -> Value:
    there = [value for value in values if value is not None]
    if not there:
        return full_like(like, 0.0)
    total = there[0]
    for value in there[1:]:
        total = add(total, value)
    return total


# -- matrices, in NumPy


def each_matrix(function: Callable[..., Any], *arrays: np.ndarray, shapes: tuple[tuple[int, ...], ...],
                dtypes: tuple[np.dtype, ...] = ()) -> tuple[np.ndarray, ...]:
    """Results of a function of matrices for each matrix of a stack; NaN where it fails. `shapes` are those of one matrix's results,
    `dtypes` their dtypes, if they are not the operand's."""
    stack = arrays[0].shape[:-2]
    if not stack:       # what follows takes longer than small factors
        with suppress(np.linalg.LinAlgError):
            found = function(*arrays)
            kinds = dtypes or (arrays[0].dtype,) * len(shapes)
            return tuple([np.ascontiguousarray(value, kind).reshape(shape) for value, kind, shape in zip(
                found if isinstance(found, tuple) else (found,), kinds, shapes, strict=True)])
    results = [np.full((*stack, *shape), complex(np.nan, np.nan) if dtype.kind == "c" else np.nan, dtype)
               for shape, dtype in zip(shapes, dtypes or (arrays[0].dtype,) * len(shapes), strict=True)]
    for index in np.ndindex(stack):
        try:
            found = function(*(array[index] for array in arrays))
        except np.linalg.LinAlgError:
            continue
        for result, value in zip(results, found if isinstance(found, tuple) else (found,), strict=True):
            result[index] = value
    return tuple(results)


# -- types


def require_matrices(*types: TensorType) -> None:
    """Raise `DTypeError` or `ShapeError` unless all are stacks, of one shape, of inexact matrices that have elements."""
    for type in types:
        require(type, INEXACT)
        require_dtype(types[0], type)
        if type.rank < 2 or 0 in type.shape[-2:]:
            raise ShapeError(f"matrices with elements are needed, got {type}")
        if type.shape[:-2] != types[0].shape[:-2]:
            raise ShapeError(f"stacks of different shapes: {types[0]} and {type}")


def require_square(a: TensorType, *others: TensorType) -> None:
    """Raise `DTypeError` or `ShapeError` unless `a` is square and the others have as many rows."""
    require_matrices(a, *others)
    if a.shape[-1] != a.shape[-2]:
        raise ShapeError(f"square matrices are needed, got {a}")
    if any(other.shape[-2] != a.shape[-1] for other in others):
        raise ShapeError(f"matrices of {a.shape[-1]} rows are needed, got {others}")


def sized(a: TensorType, *sizes: int, dtype: np.dtype | None = None) -> TensorType:
    """The type of a matrix or vector for each matrix of the stack `a`."""
    return TensorType(dtype or a.dtype, (*a.shape[:-2], *sizes))


# -- samples


def numbers(shape: tuple[int, ...], dtype: np.dtype = F64, seed: int = 0) -> np.ndarray:
    """Numbers of a dtype; complex ones with two independent parts."""
    real = uniform(shape, seed=seed)
    return np.asarray(real + 1j * uniform(shape, seed=seed + 50) if is_complex(dtype) else real, dtype)


def positive_definite(*shape: int, dtype: np.dtype = F64, seed: int = 0) -> np.ndarray:
    """Matrices a aᴴ + n, whose eigenvalues are positive and far from each other."""
    a = numbers(shape, C128 if is_complex(dtype) else F64, seed)
    return np.asarray(a @ a.swapaxes(-1, -2).conj() + shape[-1] * np.eye(shape[-1]), dtype)


def matrix_samples(*shapes: tuple[int, ...], make: Callable[..., np.ndarray] = numbers, attrs: dict[str, Any] | None = None,
                   twice: bool = True) -> Iterator[Sample]:
    """Samples of one operand: matrices of these shapes, differentiable in float64 and complex128."""
    def matrix(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return make(shape, dtype) if make is numbers else make(*shape, dtype=dtype)

    for dtype in (F64, C128):
        for shape in shapes:
            yield Sample((matrix(shape, dtype),), attrs or {}, (0,), twice)
        yield Sample((np.zeros((0, *shapes[0]), dtype),), attrs or {})
    for dtype in (F32, C64):
        yield Sample((matrix(shapes[0], dtype),), attrs or {})
