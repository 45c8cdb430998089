"""Systems of linear equations of special form, of stacks of matrices: Sylvester's, and those with banded matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from adjit.ir.definition import Kind, OpDefinition, Sample, define
from adjit.ir.errors import ShapeError
from adjit.ir.graph import Attributes, Value
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.arithmetic import multiply, negative
from adjit.ir.ops.broadcasting import reduce_sum
from adjit.ir.ops.creation import full_like
from adjit.ir.ops.factors import batch_right_sides
from adjit.ir.ops.matrices import LAPACK, each_matrix, part, positive_definite, product, require_matrices, require_square, turned
from adjit.ir.ops.movement import concatenate, pad, reshape
from adjit.ir.ops.sampling import uniform
from adjit.ir.types import F32, TensorType

scipy_linalg: Any = LazyModule("scipy.linalg", extra="scipy")

Cotangents = tuple[Value | None, ...]


def _infer_sylvester(a: TensorType, b: TensorType, q: TensorType) -> TensorType:
    require_square(a, q)
    require_square(b)
    require_matrices(a, b)
    if q.shape[-1] != b.shape[-1]:
        raise ShapeError(f"a matrix of {b.shape[-1]} columns is needed, got {q}")
    return q


def _evaluate_sylvester(a: np.ndarray, b: np.ndarray, q: np.ndarray) -> np.ndarray:
    def solve(a: np.ndarray, b: np.ndarray, q: np.ndarray) -> Any:
        if not all(np.isfinite(x).all() for x in (a, b, q)):
            raise np.linalg.LinAlgError
        return scipy_linalg.solve_sylvester(a, b, q)

    return each_matrix(solve, a, b, q, shapes=(q.shape[-2:],))[0]


def _sylvester_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> Cotangents:
    a, b, _ = operands
    (x,) = results
    of_q = sylvester(turned(a), turned(b), ct)
    return negative(product(of_q, x, turn_b=True)), negative(product(x, of_q, turn_a=True)), of_q


def _sylvester_samples() -> Iterator[Sample]:
    for stack, rows, columns in (((), 4, 3), ((2,), 3, 3), ((), 1, 1)):
        a, b = positive_definite(*stack, rows, rows), positive_definite(*stack, columns, columns, seed=1)
        a, b = a + uniform(a.shape, seed=2), b + uniform(b.shape, seed=3)
        q = uniform((*stack, rows, columns), seed=4)
        yield Sample((a, b, q), {}, (0, 1, 2))
        yield Sample((a.astype(F32), b.astype(F32), q.astype(F32)))
        turned_round = 1.0 + 0.3j * uniform(q.shape, seed=5)
        yield Sample((a + 0.5j * uniform(a.shape, seed=6), b + 0.5j * uniform(b.shape, seed=7), q * turned_round), {}, (0, 1, 2))


sylvester: OpDefinition = define(
    "sylvester", Kind.LINALG, arity=3, external=(LAPACK, "dtrsyl"), doc="x of a x + x b = q. NaN if an operand is not finite.",
    infer=_infer_sylvester, evaluate=_evaluate_sylvester, vjp=_sylvester_vjp, samples=_sylvester_samples)


def _infer_banded(bands: TensorType, b: TensorType, *, lower: int, upper: int, transpose: bool) -> TensorType:
    require_matrices(bands, b)
    if lower < 0 or upper < 0 or bands.shape[-2:] != (lower + upper + 1, b.shape[-2]):
        raise ShapeError(f"{lower} diagonals below the main one and {upper} above, of a matrix of {b.shape[-2]} rows, are needed, "
                         f"got {bands}")
    return b


def _evaluate_banded(bands: np.ndarray, b: np.ndarray, *, lower: int, upper: int, transpose: bool) -> np.ndarray:
    def solve(bands: np.ndarray, b: np.ndarray) -> Any:
        size = bands.shape[-1]
        whole = np.zeros((size, size), bands.dtype)
        for number, row in enumerate(bands):
            for column in range(max(0, upper - number), min(size, size + upper - number)):
                whole[column + number - upper, column] = row[column]
        return np.linalg.solve(whole.T if transpose else whole, b)

    return each_matrix(solve, bands, b, shapes=(b.shape[-2:],))[0]


def _banded_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> Cotangents:
    """Row r of the bands has the elements (j + r - upper, j) of the matrix, whose derivative is minus the product of the cotangent of the
    right-hand side and x."""
    bands, _ = operands
    (x,) = results
    of_b = banded_solve(bands, ct, **{**attrs, "transpose": not attrs["transpose"]})
    left, right = (x, of_b) if attrs["transpose"] else (of_b, x)
    *stack, size, _ = x.type.shape
    rows = []
    for number in range(attrs["lower"] + attrs["upper"] + 1):
        shift = number - attrs["upper"]         # of the row against the column
        first, last = max(0, -shift), min(size, size - shift)
        if first >= last:       # a diagonal outside of the matrix
            rows.append(full_like(part(bands, (0, 1)), 0.0))
            continue
        products = reduce_sum(multiply(part(left, (first + shift, last + shift)), part(right, (first, last))), axes=(len(stack) + 1,))
        row = reshape(negative(products), shape=(*stack, 1, last - first))
        rows.append(pad(row, **_around(len(stack), first, size - last), value=0.0) if last - first < size else row)
    return concatenate(*rows, axis=len(stack)), of_b


def _around(stack: int, low: int, high: int) -> dict[str, tuple[int, ...]]:
    return {"low": (0,) * (stack + 1) + (low,), "high": (0,) * (stack + 1) + (high,), "interior": (0,) * (stack + 2)}


def _banded_samples() -> Iterator[Sample]:
    for lower, upper, size, stack in ((1, 1, 5, ()), (2, 1, 4, (2,)), (0, 2, 4, ()), (0, 0, 3, ())):
        for transpose in (False, True):
            bands = uniform((*stack, lower + upper + 1, size), seed=2)
            bands[..., upper, :] += 4.0
            b, attrs = uniform((*stack, size, 2)), {"lower": lower, "upper": upper, "transpose": transpose}
            yield Sample((bands, b), attrs, (0, 1))
            yield Sample((bands.astype(F32), b.astype(F32)), attrs)
            yield Sample((bands + 0.5j * uniform(bands.shape, seed=5), b + 1j * uniform(b.shape, seed=6)), attrs, (0, 1))


banded_solve: OpDefinition = define(
    "banded_solve", Kind.LINALG, arity=2, attributes={"lower": int, "upper": int, "transpose": bool}, external=(LAPACK, "dgbtrf"),
    doc="x of a x = b, or of aᵀ x = b with `transpose`, for a with `lower` diagonals below the main one and `upper` above. Row i of the "
        "first operand has the elements (j + i - upper, j) of a, in column j.",
    infer=_infer_banded, evaluate=_evaluate_banded, vjp=_banded_vjp, samples=_banded_samples, batch=batch_right_sides)
